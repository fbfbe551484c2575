/*
 * reserve.h
 *
 * Whether an admission leaves the reservations of policies as well served as they were.  Internal to the core.
 */
#ifndef RPQ_CORE_RESERVE_H
#define RPQ_CORE_RESERVE_H

#include "core/admit.h"

/*
 * Whether the reservations that must be kept would still be served as well as now if the candidate took its total from
 * a pool in which more [nkeys] (NULL: nothing) were free besides, and its own policy held less [nkeys] (NULL: nothing)
 * before.  What is free is what the pool's rooms say (Room.sum), and what policies hold is what Policy.held says, at
 * the time of the call.
 */
extern bool reserved_passes(Placer *placer, const Candidate *candidate, int pool, const int64 *more,
							const int64 *less);

/* Whether there are such reservations at all: if not, every candidate passes. */
extern bool reserved_matters(Placer *placer, const Candidate *candidate, int pool);

/* Why it does not pass, with what is free in the pool (largest) and what of it is free beyond the reservations. */
extern Reason *reserved_reason(Placer *placer, const Candidate *candidate, int pool);

/* What is unmet of a policy's reservation. */
extern int64 unmet_reservation(const Policy *policy, int key);

/*
 * A policy (-1: none) comes to hold more (sign 1) or less (-1).  Whoever gives or takes what counts as held in a plan
 * says it here, so that figures made of it are made again.
 */
extern void policy_hold(Placer *placer, int policy, const int64 *total, int sign);

#endif							/* RPQ_CORE_RESERVE_H */

/*
 * admit.h
 *
 * The checks that stand between a workload and its admission, and admitting it.  Internal to the core: the plan
 * (order.c) and the explanation (explain.c) ask the same functions.
 */
#ifndef RPQ_CORE_ADMIT_H
#define RPQ_CORE_ADMIT_H

#include "core/place.h"

/* A workload of a lane as the checks see it: all of a lane are alike. */
typedef struct Candidate
{
	Lane	   *lane;
	int64	   *total;			/* [nkeys]: all replicas; PG_INT64_MAX where that is too large to say */
	Need	   *need;
} Candidate;

/* limit.c */
extern int64 *total_request(const World *world, const Lane *lane);
extern int64 limit_bound(const UsageLimit *limit, int key);
extern bool limit_binds(const UsageLimit *limit, int pool, int type);
extern bool limit_passes_key(const UsageLimit *limit, const int64 *total, int key);
extern bool limit_passes(const World *world, const UsageLimit *limit, const int64 *total);
extern int64 *limit_available(const World *world, const UsageLimit *limit);
extern int64 *limit_missing(const World *world, const UsageLimit *limit, const int64 *total);
extern void limit_charge(const World *world, UsageLimit *limit, const int64 *total);
extern const UsageLimit *first_limit_in_way(const World *world, const Candidate *candidate, int pool, int type);

/* admit.c */
extern void candidate_init(const World *world, Lane *lane, Candidate *candidate);
extern bool candidate_fits(Placer *placer, const Candidate *candidate, Spot *spot, Reason **reason);
extern void candidate_admit(Placer *placer, const Candidate *candidate, Spot spot, Admission *admission);
extern Reason *reason_create(ReasonCode code, int pool, int type);
extern Reason *reason_of_limit(const World *world, const Candidate *candidate, const UsageLimit *limit, int pool);
extern void placement_figures(Placer *placer, int pool, const bool *usable, const Need *need, Reason *reason);

#endif							/* RPQ_CORE_ADMIT_H */

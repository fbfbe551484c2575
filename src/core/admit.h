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

	/*
	 * After candidate_fits(): by place in lane->pools, what it is blocked by there, REASON_NONE where it was not
	 * tried.  Room is REASON_RESERVED, REASON_POOL_QUOTA and what comes after them.
	 */
	ReasonCode *blocked;		/* [lane->npools] */
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

/*
 * Whether a workload's total is, in every key that it asks for, within what is unmet of its policy's reservation: the
 * rank before priority.
 */
extern bool candidate_has_rank(const World *world, const Candidate *candidate);

/* Whether what is admitted in a pool can never be preempted. */
extern bool never_preempted(const World *world, const Lane *lane, int pool);

/*
 * The checks of a pool that no room can help: it is not closed, it takes guaranteed work if that is asked for, the
 * limits of the workload's own pass, and guaranteed work of a policy is within its reservation.  Then the instance
 * types that it may use are in placer->usable, by their place in the pool's types.
 */
extern bool pool_open_to(Placer *placer, const Candidate *candidate, int pool);

extern bool candidate_fits(Placer *placer, const Candidate *candidate, Spot *spot, Reason **reason);
extern void candidate_admit(Placer *placer, const Candidate *candidate, Spot spot, Admission *admission);

/*
 * Counts a candidate where it is admitted, or where room is held for it: its own limits, the total of the pool, what
 * its policy holds.  home is the pool that it is charged to, another one than pool when it borrows.
 */
extern void candidate_charge(Placer *placer, const Candidate *candidate, int pool, int home, int type);
extern Reason *reason_create(ReasonCode code, int pool, int type);
extern Reason *reason_of_limit(const World *world, const Candidate *candidate, const UsageLimit *limit, int pool);
extern void placement_figures(Placer *placer, int pool, const bool *usable, const Need *need, Reason *reason);

#endif							/* RPQ_CORE_ADMIT_H */

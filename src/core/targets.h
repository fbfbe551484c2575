/*
 * targets.h
 *
 * Backfill: nodes that are kept back for the first workload of an instance type that is blocked by room.  Internal to
 * the core.
 */
#ifndef RPQ_CORE_TARGETS_H
#define RPQ_CORE_TARGETS_H

#include "core/admit.h"

/*
 * candidate_fits() has just found a candidate blocked (or the first member of a lane that was blocked before and is
 * skipped): marks its target nodes if it is to have any.  lane->head_id must be that of the workload.  Returns whether
 * it did.
 */
extern bool targets_mark(Placer *placer, const Candidate *candidate);

/* Whether it would mark any, whatever the workload: then it is worth to know which one is the first of its lane. */
extern bool targets_due(Placer *placer, const Candidate *candidate);

/* The same in one pool, of which it is known that room is what it lacks on the types in usable. */
extern bool targets_mark_in(Placer *placer, const Candidate *candidate, int pool, const bool *usable);

/*
 * Whether a candidate that has no place in a pool, on the types in usable (by their place in the pool's types), would
 * have one if it were not for the targets of others: then *type (if given) and *ahead are the instance type and the
 * workload that is ahead there.
 */
extern bool targets_in_way(Placer *placer, const Candidate *candidate, int pool, const bool *usable, int *type,
						   int64 *ahead);

/* Whether a node is a target that the candidate may not use. */
extern bool target_of_other(Placer *placer, int node, const Candidate *candidate);

#endif							/* RPQ_CORE_TARGETS_H */

/*
 * sweep.h
 *
 * What a cycle does before it decides: sweep.c.
 */
#ifndef RPQ_STORE_SWEEP_H
#define RPQ_STORE_SWEEP_H

#include "datatype/timestamp.h"

/*
 * An executor whose last sign of life is no later than this is silent.  None is for the first rpq.node_timeout after
 * the start of the server: nobody could reach it before.  Under rpq.clock only the clock counts.
 */
extern TimestampTz sweep_cutoff(void);

/* Of these scopes, or of all when scopes is NULL, those with something to sweep; ids ascending, a new array. */
extern int	sweep_find(const int64 *scopes, int n, int64 **found);

/*
 * The same of all, for who asks at every turn of a loop: it is looked up at most once a second, by rpq's clock, and
 * none are found in between.
 */
extern int	sweep_find_sometimes(int64 **found);

/* Sweeps those scopes whose turns the caller holds, before it opens a Book over them. */
extern void sweep(const int64 *scopes, int n);

/*
 * SQL: whether work that was admitted in pool p has come to have run for its min_runtime after one instant and until
 * another.  The index on the time of entries finds what was admitted then.
 */
#define GROWN_SINCE(since, until) \
	"EXISTS (SELECT FROM rpq_store.entry e WHERE e.at > " since " - p.min_runtime" \
	"           AND e.at <= " until " - p.min_runtime AND e.kind = 'admit'" \
	"           AND coalesce(e.lender_id, e.pool_id) = p.pool_id)"

#endif							/* RPQ_STORE_SWEEP_H */

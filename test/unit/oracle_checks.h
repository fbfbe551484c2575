/*
 * oracle_checks.h
 *
 * The slow oracle, part two: other policies' reservations, the nodes kept for others, and the checks of a candidate in
 * one pool.
 */
#ifndef TEST_ORACLE_CHECKS_H
#define TEST_ORACLE_CHECKS_H

#include "oracle_books.h"

static inline int64
free_in_pool(const World *world, const Books *books, int pool, int key)
{
	int64		sum = 0;

	for (int n = 0; n < world->nnodes; n++)
		if (world->nodes[n].pool == pool && world->nodes[n].takes_work)
			sum += Max(books->free[n][key], 0);
	return sum;
}

/*
 * By how much the reservations of some policies are not served in a key: by max flow = min cut, the most by which the
 * unmet amounts of any set of them exceed what is free in the pools that this set reaches.
 */
static inline int64
shortfall(const World *world, const Books *books, const bool *kept, int key, int taken_from, int64 taken)
{
	int64		worst = 0;

	for (int set = 0; set < 1 << world->npolicies; set++)
	{
		bool		reached[ORACLE_POOLS] = {false};
		int64		over = 0;

		for (int p = 0; p < world->npolicies; p++)
		{
			const Policy *policy = &world->policies[p];

			if (!(set >> p & 1) || !kept[p])
				continue;
			over += Max(policy->reservation[key] - books->held[p][key], 0);
			for (int i = 0; i < policy->npools; i++)
				reached[policy->pools[i]] = true;
		}
		for (int q = 0; q < world->npools; q++)
			if (reached[q])
				over -= Max(free_in_pool(world, books, q, key) - (q == taken_from ? taken : 0), 0);
		worst = Max(worst, over);
	}
	return worst;
}

/*
 * Whether a candidate leaves the reservations that are to be kept served as well as before.  now: the books with the
 * victims, if any, gone; before: with them.
 */
static inline bool
leaves_reserved(const World *world, const Books *before, const Books *now, const Lane *lane, int pool)
{
	bool		all = (lane->guarantee || world->pools[pool].pay_as_you_go) && !has_rank(world, before, lane);
	bool		kept[ORACLE_POLICIES];
	Books		after = *now;

	for (int p = 0; p < world->npolicies; p++)
		kept[p] = all || world->policies[p].hold;
	for (int k = 0; lane->policy >= 0 && k < NKEYS; k++)
		after.held[lane->policy][k] += total_of(lane, k);
	for (int k = 0; k < NKEYS; k++)
		if (lane->request[k] > 0 &&
			shortfall(world, &after, kept, k, pool, total_of(lane, k)) > shortfall(world, before, kept, k, -1, 0))
			return false;
	return true;
}

/* The nodes that a workload may not take, since they are targets of others that it would outlast. */
static inline void
bar_targets(const Oracle *oracle, const Lane *lane, bool *barred)
{
	const World *world = oracle->world;

	for (int n = 0; n < world->nnodes; n++)
	{
		const PoolNode *node = &world->nodes[n];
		const Head *head = &oracle->heads[node->pool][node->type];

		barred[n] = head->set && head->target[n] && lane->ends >= head->until;
	}
}

/* What the checks of a candidate in one pool find. */
typedef struct Verdict
{
	ReasonCode	code;			/* REASON_NONE: it fits */
	bool		by_room;		/* blocked by pool total, reserved or placement: room might come of a preemption */
	bool		usable[ORACLE_TYPES];	/* instance types that it may use */
	int			slot;			/* it fits: the instance type's position in the pool */
	PodPlace   *pods;
	Books		after;			/* nodes counted down */
	int			fitting;
	int64		ahead;
} Verdict;

/*
 * Room alone: reserved, pool total (not where it borrows), placement.  now is tried, and left in verdict->after with
 * the pods on their nodes; before is what the reservations are compared with.
 */
static inline void
check_room(const Oracle *oracle, const Books *before, const Books *now, const Lane *lane, int p, bool borrows,
		   Verdict *verdict)
{
	const World *world = oracle->world;
	bool		barred[ORACLE_NODES];
	bool		nothing[ORACLE_NODES] = {false};
	Books		copy = *now;
	PodPlace	pods[64];
	int			fitting;
	int			slot;

	verdict->by_room = true;
	if (!leaves_reserved(world, before, now, lane, p))
		verdict->code = REASON_RESERVED;
	else if (!borrows && !limit_allows(oracle, now, world->pools[p].total, lane))
		verdict->code = REASON_POOL_QUOTA;
	else
	{
		bar_targets(oracle, lane, barred);
		verdict->after = *now;
		verdict->pods = palloc(sizeof(PodPlace) * lane->replicas);
		verdict->slot = place_in_pool(world, &verdict->after, lane, p, verdict->usable, barred, verdict->pods,
									  &verdict->fitting);
		if (verdict->slot >= 0)
		{
			verdict->code = REASON_NONE;
			verdict->by_room = false;
		}
		else if ((slot = place_in_pool(world, &copy, lane, p, verdict->usable, nothing, pods, &fitting)) >= 0)
		{
			verdict->code = REASON_BEHIND;
			verdict->ahead = oracle->heads[p][world->pools[p].types[slot].type].workload_id;
		}
		else
			verdict->code = verdict->fitting > 0 ? REASON_GANG_DOES_NOT_FIT : REASON_NO_NODE_FITS;
	}
}

/* All checks in pool p, as one that is charged to home. */
static inline void
check_pool(const Oracle *oracle, const Lane *lane, int p, int home, Verdict *verdict)
{
	const World *world = oracle->world;
	const Pool *pool = &world->pools[p];
	ReasonCode	of_type = REASON_NONE;
	int			ntypes = 0;

	memset(verdict, 0, offsetof(Verdict, after));
	verdict->slot = -1;
	verdict->fitting = 0;
	verdict->ahead = 0;
	verdict->code = pool->closed;
	if (verdict->code == REASON_NONE && lane->policy >= 0 && lane->guarantee && !pool->allow_guarantee)
		verdict->code = REASON_NOT_AUTHORIZED;
	if (verdict->code == REASON_NONE)
		verdict->code = own_limits(oracle, &oracle->books, lane, home, RPQ_WHOLE_POOL);
	if (verdict->code != REASON_NONE)
		return;
	for (int t = 0; t < pool->ntypes; t++)
	{
		int			type = pool->types[t].type;
		bool		allowed = lane->type_allowed == NULL || lane->type_allowed[type];
		ReasonCode	code = own_limits(oracle, &oracle->books, lane, home, type);

		verdict->usable[t] = allowed && code == REASON_NONE;
		ntypes += verdict->usable[t];
		if (allowed && of_type == REASON_NONE)
			of_type = code;
	}
	if (ntypes == 0 && of_type != REASON_NONE)
		verdict->code = of_type;
	else if (lane->policy >= 0 && lane->guarantee && !has_rank(world, &oracle->books, lane))
		verdict->code = REASON_POLICY_LIMIT;
	else
		check_room(oracle, &oracle->books, &oracle->books, lane, p, p != home, verdict);
}

#endif							/* TEST_ORACLE_CHECKS_H */

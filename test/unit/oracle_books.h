/*
 * oracle_books.h
 *
 * The slow oracle, part one: what it counts down, and whether a workload has room.
 *
 * All that a plan changes is in one struct of plain arrays, the Books.  What is tried is tried on a copy: when it does
 * not work out, the copy is forgotten.  Nothing is kept sorted, nothing is remembered: each question looks at
 * everything.
 */
#ifndef TEST_ORACLE_BOOKS_H
#define TEST_ORACLE_BOOKS_H

#include "worlds.h"

#define ORACLE_NODES	8
#define ORACLE_DEVICES	8
#define ORACLE_POOLS	4
#define ORACLE_TYPES	4
#define ORACLE_LIMITS	40
#define ORACLE_POLICIES	6

typedef struct Books
{
	int64		free[ORACLE_NODES][NKEYS];
	int64		device[ORACLE_NODES][ORACLE_DEVICES];
	int64		account[ORACLE_NODES];
	int64		used[ORACLE_LIMITS][NKEYS];
	int64		held[ORACLE_POLICIES][NKEYS];
} Books;

/* The one that waits for room on an instance type of a pool, and the nodes that are kept for it. */
typedef struct Head
{
	bool		set;
	const Lane *lane;
	int64		workload_id;
	bool		target[ORACLE_NODES];
	TimestampTz until;
} Head;

typedef struct LaneState
{
	int			next;			/* the first of its members that is not decided */
	bool		blocked;
	bool		marked;			/* skipped, and asked whether it marks targets, or at its end */
	bool		read;			/* its members are known; before, no more than a bound of the first */
	int			nheld;
	ReasonCode	code;
	int			fitting;
	int64		ahead;
} LaneState;

typedef struct Oracle
{
	World	   *world;
	Books		books;
	int			nlimits;
	UsageLimit *limits[ORACLE_LIMITS];
	Head		heads[ORACLE_POOLS][ORACLE_TYPES];
	bool		loaded;
	bool	   *gone;			/* [nplaced]: victims of this plan */
	LaneState  *lanes;

	/* results */
	int			nadmissions;
	Admission  *admissions;
	int			npreemptions;
	Preemption *preemptions;
	int			nheld;
	Admission  *held;
	bool		more;
} Oracle;

static inline int
limit_index(const Oracle *oracle, const UsageLimit *limit)
{
	int			i = 0;

	while (oracle->limits[i] != limit)
		i++;
	return i;
}

static inline void
know_limit(Oracle *oracle, UsageLimit *limit)
{
	for (int i = 0; i < oracle->nlimits; i++)
		if (oracle->limits[i] == limit)
			return;
	Assert(oracle->nlimits < ORACLE_LIMITS);
	memcpy(oracle->books.used[oracle->nlimits], limit->used, sizeof(int64) * NKEYS);
	oracle->limits[oracle->nlimits++] = limit;
}

static inline void
open_books(Oracle *oracle)
{
	World	   *world = oracle->world;
	Books	   *books = &oracle->books;

	Assert(world->nnodes <= ORACLE_NODES && world->npolicies <= ORACLE_POLICIES && world->npools <= ORACLE_POOLS);
	memset(books, 0, sizeof(Books));
	for (int n = 0; n < world->nnodes; n++)
	{
		const PoolNode *node = &world->nodes[n];

		Assert(node->ndevices <= ORACLE_DEVICES);
		memcpy(books->free[n], node->free, sizeof(int64) * NKEYS);
		memcpy(books->device[n], node->device_free, sizeof(int64) * node->ndevices);
		books->account[n] = node->account;
	}
	for (int p = 0; p < world->npools; p++)
		know_limit(oracle, world->pools[p].total);
	for (int p = 0; p < world->npolicies; p++)
	{
		memcpy(books->held[p], world->policies[p].held, sizeof(int64) * NKEYS);
		if (world->policies[p].limit)
			know_limit(oracle, world->policies[p].limit);
	}
	for (int l = 0; l < world->nlanes; l++)
		for (int i = 0; i < world->lanes[l].nlimits; i++)
			know_limit(oracle, world->lanes[l].limits[i]);
}

/* Nodes */

static inline int64
whole_devices(const World *world, const Books *books, int n)
{
	int64		count = 0;

	for (int d = 0; d < world->nodes[n].ndevices; d++)
		count += books->device[n][d] == RPQ_UNIT;
	return count;
}

static inline bool
node_fits(const World *world, const Books *books, const Lane *lane, int n)
{
	const PoolNode *node = &world->nodes[n];
	int64		gpu = lane->request[0];

	if (!node->takes_work)
		return false;
	if (world->pools[node->pool].isolate && books->account[n] != 0 && books->account[n] != lane->account_id)
		return false;
	for (int k = 1; k < NKEYS; k++)
		if (lane->request[k] > 0 && books->free[n][k] < lane->request[k])
			return false;
	if (gpu == 0)
		return true;
	if (gpu < RPQ_UNIT)
	{
		for (int d = 0; d < node->ndevices; d++)
			if (books->device[n][d] >= gpu)
				return true;
		return false;
	}
	return gpu % RPQ_UNIT == 0 && whole_devices(world, books, n) >= gpu / RPQ_UNIT;
}

static inline bool
node_preferred(const Books *books, int a, int b, SchedulingPolicy policy)
{
	int			sign = policy == POLICY_BINPACK ? 1 : -1;

	for (int k = RPQ_KEY_GPU; k <= RPQ_KEY_CPU; k++)
		if (books->free[a][k] != books->free[b][k])
			return sign * books->free[a][k] < sign * books->free[b][k];
	return a < b;
}

static inline int
best_node(const World *world, const Books *books, const Lane *lane, int pool, PoolType type, const bool *barred)
{
	int			best = -1;

	for (int n = 0; n < world->nnodes; n++)
		if (world->nodes[n].pool == pool && world->nodes[n].type == type.type && !barred[n] &&
			node_fits(world, books, lane, n) && (best < 0 || node_preferred(books, n, best, type.policy)))
			best = n;
	return best;
}

static inline void
take_node(const World *world, Books *books, const Lane *lane, int n, PodPlace *pod)
{
	const PoolNode *node = &world->nodes[n];
	int64		gpu = lane->request[0];

	if (world->pools[node->pool].isolate)
		books->account[n] = lane->account_id;
	pod->node = n;
	pod->ndevices = 0;
	pod->devices = palloc(sizeof(int) * ORACLE_DEVICES);
	for (int k = 0; k < NKEYS; k++)
		books->free[n][k] -= lane->request[k];
	if (gpu > 0 && gpu < RPQ_UNIT)
	{
		int			best = -1;

		for (int d = 0; d < node->ndevices; d++)
			if (books->device[n][d] >= gpu && (best < 0 || books->device[n][d] < books->device[n][best]))
				best = d;
		books->device[n][best] -= gpu;
		pod->devices[pod->ndevices++] = best;
		return;
	}
	for (int d = 0; d < node->ndevices && pod->ndevices < gpu / RPQ_UNIT; d++)
		if (books->device[n][d] == RPQ_UNIT)
		{
			books->device[n][d] = 0;
			pod->devices[pod->ndevices++] = d;
		}
}

/* All replicas on one instance type; returns how many fit.  The books are counted down in any case: give a copy. */
static inline int
place_gang(const World *world, Books *books, const Lane *lane, int pool, PoolType type, const bool *barred,
		   PodPlace *pods)
{
	int			n = 0;

	while (n < lane->replicas)
	{
		int			node = best_node(world, books, lane, pool, type, barred);

		if (node < 0)
			break;
		take_node(world, books, lane, node, &pods[n++]);
	}
	return n;
}

/*
 * The instance type whose first node is preferred, and where the gang does not fit there, the next one.  Returns the
 * position of the type in the pool, with the books counted down, or -1 with the most replicas that fitted.
 */
static inline int
place_in_pool(const World *world, Books *books, const Lane *lane, int p, const bool *usable, const bool *barred,
			  PodPlace *pods, int *fitting)
{
	const Pool *pool = &world->pools[p];
	bool		tried[ORACLE_TYPES] = {false};

	*fitting = 0;
	for (;;)
	{
		int			best = -1;
		int			first = -1;
		Books		copy = *books;
		int			n;

		for (int t = 0; t < pool->ntypes; t++)
		{
			int			node = tried[t] || !usable[t] ? -1 :
				best_node(world, books, lane, p, pool->types[t], barred);

			if (node >= 0 && (first < 0 || node_preferred(books, node, first, pool->types[t].policy)))
			{
				best = t;
				first = node;
			}
		}
		if (best < 0)
			return -1;
		n = place_gang(world, &copy, lane, p, pool->types[best], barred, pods);
		if (n == lane->replicas)
		{
			*books = copy;
			return best;
		}
		*fitting = Max(*fitting, n);
		tried[best] = true;
	}
}

/* Limits */

static inline int64
total_of(const Lane *lane, int key)
{
	return lane->request[key] * lane->replicas;
}

static inline bool
limit_allows(const Oracle *oracle, const Books *books, const UsageLimit *limit, const Lane *lane)
{
	const int64 *used = books->used[limit_index(oracle, limit)];

	for (int k = 0; k < NKEYS; k++)
		if (lane->request[k] > 0 && limit->max[k] != RPQ_UNLIMITED && used[k] + total_of(lane, k) > limit->max[k])
			return false;
	return true;
}

static inline bool
limit_concerns(const UsageLimit *limit, int home, int type)
{
	return (limit->pool == -1 || limit->pool == home) && (limit->type == RPQ_WHOLE_POOL || limit->type == type);
}

/* The first reason by limits of its own that are about exactly this type (or the whole pool). */
static inline ReasonCode
own_limits(const Oracle *oracle, const Books *books, const Lane *lane, int home, int type)
{
	ReasonCode	code = REASON_NONE;

	for (int i = 0; i < lane->nlimits; i++)
	{
		const UsageLimit *limit = lane->limits[i];
		ReasonCode	its = limit->kind == LIMIT_USER ? REASON_USER_QUOTA : REASON_POLICY_LIMIT;

		if (limit->type == type && limit_concerns(limit, home, type) && !limit_allows(oracle, books, limit, lane) &&
			(code == REASON_NONE || its < code))
			code = its;
	}
	return code;
}

static inline void
charge(const Oracle *oracle, Books *books, const UsageLimit *limit, const Lane *lane)
{
	for (int k = 0; k < NKEYS; k++)
		books->used[limit_index(oracle, limit)][k] += total_of(lane, k);
}

/* The workload's own limits and its policy; the pool's total is up to the caller. */
static inline void
charge_own(const Oracle *oracle, Books *books, const Lane *lane, int home, int type)
{
	for (int i = 0; i < lane->nlimits; i++)
		if (limit_concerns(lane->limits[i], home, type))
			charge(oracle, books, lane->limits[i], lane);
	for (int k = 0; lane->policy >= 0 && k < NKEYS; k++)
		books->held[lane->policy][k] += total_of(lane, k);
}

/* Whether it fits wholly in what is unmet of its policy's reservation. */
static inline bool
has_rank(const World *world, const Books *books, const Lane *lane)
{
	if (lane->policy < 0)
		return false;
	for (int k = 0; k < NKEYS; k++)
		if (lane->request[k] > 0 &&
			books->held[lane->policy][k] + total_of(lane, k) > world->policies[lane->policy].reservation[k])
			return false;
	return true;
}

#endif							/* TEST_ORACLE_BOOKS_H */

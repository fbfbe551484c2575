/*
 * oracle_targets.h
 *
 * The slow oracle, part four: the nodes that are kept for the first one that is blocked by room.
 */
#ifndef TEST_ORACLE_TARGETS_H
#define TEST_ORACLE_TARGETS_H

#include "oracle_checks.h"

/* How many more replicas a node could hold if everything on it left, beyond some that it is to hold already. */
static inline bool
could_hold(const World *world, const Lane *lane, int n, int already)
{
	const PoolNode *node = &world->nodes[n];
	int64		gpu = lane->request[0];

	for (int k = 1; k < NKEYS; k++)
		if (lane->request[k] > 0 && node->capacity[k] < lane->request[k] * (already + 1))
			return false;
	if (gpu == 0)
		return true;
	if (gpu < RPQ_UNIT)
		return RPQ_UNIT / gpu * node->ndevices > already;
	return gpu % RPQ_UNIT == 0 && gpu / RPQ_UNIT * (already + 1) <= node->ndevices;
}

/* The key by which nodes are compared: gpu, else cpu, else the first other by name. */
static inline int
key_of_leaving(const Lane *lane)
{
	int			k = 0;

	while (lane->request[k] == 0 && k < NKEYS - 1)
		k++;
	return k;
}

/* What has to leave a node before so many replicas fit, in a key; of devices entire ones are counted. */
static inline int64
has_to_leave(const World *world, const Books *books, const Lane *lane, int n, int replicas, int key)
{
	int64		gpu = lane->request[0];
	int64		each;
	int64		fit = 0;

	if (key != 0)
		return lane->request[key] == 0 ? 0 :
			Max(lane->request[key] * replicas - Max(books->free[n][key], 0), 0);
	if (gpu == 0)
		return 0;
	if (gpu >= RPQ_UNIT)
		return Max(gpu * replicas - whole_devices(world, books, n) * RPQ_UNIT, 0);
	each = RPQ_UNIT / gpu;
	for (int d = 0; d < world->nodes[n].ndevices; d++)
		fit += books->device[n][d] / gpu;
	return replicas <= fit ? 0 : (replicas - fit + each - 1) / each * RPQ_UNIT;
}

/* A node as it is when all that has an end of its own has left, and when the last of that ends. */
static inline TimestampTz
books_later(const Oracle *oracle, int n, Books *books)
{
	World	   *world = oracle->world;
	NodeLater	later = {0};

	*books = oracle->books;
	if (world->read_later)
		world->read_later(world, &n, 1, &later);
	if (later.free == NULL)
		return PG_INT64_MIN;
	memcpy(books->free[n], later.free, sizeof(int64) * NKEYS);
	memcpy(books->device[n], later.device_free, sizeof(int64) * world->nodes[n].ndevices);
	return later.last;
}

static inline bool
all_fits(const World *world, const Books *books, const Lane *lane, int n, int replicas)
{
	for (int k = 0; k < NKEYS; k++)
		if (has_to_leave(world, books, lane, n, replicas, k) > 0)
			return false;
	return true;
}

/* Whether no other account's pods keep a workload off a node. */
static inline bool
is_open(const Oracle *oracle, const Lane *lane, int n)
{
	int64		account = oracle->books.account[n];

	return !oracle->world->pools[oracle->world->nodes[n].pool].isolate || account == 0 || account == lane->account_id;
}

/* All that stands on a node, in a key. */
static inline int64
all_on_node(const World *world, const Books *books, int n, int key)
{
	if (key == 0)
		return (world->nodes[n].ndevices - whole_devices(world, books, n)) * RPQ_UNIT;
	return world->nodes[n].capacity[key] - Max(books->free[n][key], 0);
}

/* What has to leave a node for one more replica, what has an end of its own left out; and how long that takes. */
static inline int64
cost_of_node(const Oracle *oracle, const Lane *lane, int n, int already, TimestampTz *wait)
{
	const World *world = oracle->world;
	int			key = key_of_leaving(lane);
	Books		later;
	TimestampTz last = books_later(oracle, n, &later);
	int64		cost = already == 0 ? all_on_node(world, &later, n, key) : 0;

	*wait = PG_INT64_MIN;
	if (!is_open(oracle, lane, n))
	{
		if (cost == 0)
			*wait = last;
		return cost;
	}
	if (all_fits(world, &oracle->books, lane, n, already + 1))
		return 0;
	if (all_fits(world, &later, lane, n, already + 1))
		*wait = last;
	return has_to_leave(world, &later, lane, n, already + 1, key) -
		has_to_leave(world, &later, lane, n, already, key);
}

/*
 * A choice of nodes of one instance type; returns what has to leave in all, or -1 when they could never hold it.
 * longest: when the last of what has only to end does so.
 */
static inline int64
choose_targets(const Oracle *oracle, const Lane *lane, int p, int type, int *replicas, TimestampTz *longest)
{
	const World *world = oracle->world;
	int64		sum = 0;

	*longest = PG_INT64_MIN;
	memset(replicas, 0, sizeof(int) * ORACLE_NODES);
	for (int r = 0; r < lane->replicas; r++)
	{
		int			best = -1;
		int64		least = 0;
		TimestampTz least_wait = 0;

		for (int n = 0; n < world->nnodes; n++)
		{
			int64		cost;
			TimestampTz wait;

			if (world->nodes[n].pool != p || world->nodes[n].type != type || !world->nodes[n].takes_work ||
				!could_hold(world, lane, n, replicas[n]))
				continue;
			cost = cost_of_node(oracle, lane, n, replicas[n], &wait);
			if (best >= 0 && (cost > least || (cost == least && wait >= least_wait)))
				continue;
			best = n;
			least = cost;
			least_wait = wait;
		}
		if (best < 0)
			return -1;
		replicas[best]++;
		sum += least;
		*longest = Max(*longest, least_wait);
	}
	return sum;
}

static inline void
set_head(Oracle *oracle, const Lane *lane, int64 workload_id, int p, int type, const int *replicas)
{
	World	   *world = oracle->world;
	Head	   *head = &oracle->heads[p][type];
	TimestampTz ends;

	head->set = true;
	head->lane = lane;
	head->workload_id = workload_id;
	head->until = PG_INT64_MIN;
	for (int n = 0; n < world->nnodes; n++)
	{
		bool		leaves = replicas[n] > 0 && !is_open(oracle, lane, n);

		head->target[n] = replicas[n] > 0;
		for (int k = 0; k < NKEYS && replicas[n] > 0; k++)
			leaves |= has_to_leave(world, &oracle->books, lane, n, replicas[n], k) > 0;
		if (!leaves)
			continue;
		world->read_ends(world, &n, 1, &ends);
		if (head->until == PG_INT64_MIN || ends < head->until)
			head->until = ends;
	}
}

/*
 * A candidate that is blocked: it marks targets in the first pool where it can.  Returns whether it does; without a
 * workload it only says whether it would.
 */
static inline bool
mark_targets(Oracle *oracle, const Lane *lane, int64 workload_id)
{
	const World *world = oracle->world;

	for (int i = 0; i < lane->npools; i++)
	{
		int			p = lane->pools[i];
		const Pool *pool = &world->pools[p];
		int			best = -1;
		int64		least = 0;
		TimestampTz least_wait = 0;
		int			replicas[ORACLE_NODES];
		int			best_replicas[ORACLE_NODES];
		Verdict		verdict;

		if (pool->best_effort)
			continue;
		check_pool(oracle, lane, p, p, &verdict);
		if (!verdict.by_room || verdict.code == REASON_RESERVED)
			continue;
		for (int t = 0; t < pool->ntypes; t++)
		{
			int			type = pool->types[t].type;
			int64		leave;
			TimestampTz wait;

			if (!verdict.usable[t] || oracle->heads[p][type].set)
				continue;
			leave = choose_targets(oracle, lane, p, type, replicas, &wait);
			if (leave >= 0 && (best < 0 || leave < least || (leave == least && wait < least_wait)))
			{
				least_wait = wait;
				best = type;
				least = leave;
				memcpy(best_replicas, replicas, sizeof(replicas));
			}
		}
		if (best >= 0)
		{
			if (workload_id != 0)
				set_head(oracle, lane, workload_id, p, best, best_replicas);
			return true;
		}
	}
	return false;
}

#endif							/* TEST_ORACLE_TARGETS_H */

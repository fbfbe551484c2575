/*
 * worlds.h
 *
 * Small worlds for unit tests of the core: nodes, pools, limits and lanes are added one by one.  Amounts are given in
 * whole units or, where the name ends in _milli, in thousandths.
 */
#ifndef TEST_WORLDS_H
#define TEST_WORLDS_H

#include "postgres.h"

#include "core/resources.h"
#include "core/world.h"

#define MILLI			(RPQ_UNIT / 1000)
#define MAX_POOLS		8
#define MAX_TYPES		16
#define NKEYS			3
#define MAX_POLICIES	16

static int	tests = 0;
static int	failures = 0;

static inline void
ok(bool passed, const char *name)
{
	tests++;
	if (!passed)
		failures++;
	printf("%sok %d - %s\n", passed ? "" : "not ", tests, name);
}

static inline int
done_testing(void)
{
	printf("1..%d\n", tests);
	return failures > 0;
}

/* A fixed sequence, so that a failure can be repeated */
static uint64 seed = 1;

static inline uint64
draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed >> 11;
}

static inline int
below(int n)
{
	return (int) (draw() % (uint64) n);
}

static inline void
seed_with(uint64 n)
{
	seed = (n + 1) * UINT64CONST(0x9E3779B97F4A7C15);
	for (int i = 0; i < 8; i++)
		draw();
}

/* What a lane holds */
typedef struct Waiting
{
	int			n;
	int			max;
	Member	   *members;
} Waiting;

static inline bool
member_after(const Member *m, TimestampTz at, int64 id)
{
	return m->submitted_at > at || (m->submitted_at == at && m->workload_id > id);
}

static inline int
give_members(World *world, Lane *lane, const Member *after, int want, Member *out)
{
	Waiting    *waiting = lane->store;
	int			n = 0;

	for (int i = 0; i < waiting->n && n < want; i++)
		if (after == NULL || member_after(&waiting->members[i], after->submitted_at, after->workload_id))
			out[n++] = waiting->members[i];
	return n;
}

static inline int64 *
zeros(void)
{
	return palloc0(sizeof(int64) * NKEYS);
}

static inline int64 *
unlimited(void)
{
	int64	   *v = zeros();

	for (int k = 0; k < NKEYS; k++)
		v[k] = RPQ_UNLIMITED;
	return v;
}

static inline World *
new_world(int maxnodes, int maxlanes)
{
	static const char *keys[NKEYS] = {"gpu", "cpu", "memory"};
	World	   *world = palloc0(sizeof(World));

	world->nkeys = NKEYS;
	world->keys = keys;
	world->types = palloc0(sizeof(char *) * MAX_TYPES);
	world->pools = palloc0(sizeof(Pool) * MAX_POOLS);
	world->nodes = palloc0(sizeof(PoolNode) * maxnodes);
	world->lanes = palloc0(sizeof(Lane) * maxlanes);
	world->policies = palloc0(sizeof(Policy) * MAX_POLICIES);
	world->batch = PG_INT32_MAX;
	world->read_members = give_members;
	return world;
}

static inline int
add_type(World *world)
{
	world->types[world->ntypes] = psprintf("t%d", world->ntypes);
	return world->ntypes++;
}

static inline UsageLimit *
new_limit(LimitKind kind, int pool, int type)
{
	UsageLimit *limit = palloc0(sizeof(UsageLimit));

	limit->kind = kind;
	limit->pool = pool;
	limit->type = type;
	limit->max = unlimited();
	limit->used = zeros();
	return limit;
}

static inline int
add_pool(World *world, const char *name)
{
	Pool	   *pool = &world->pools[world->npools];

	pool->pool_id = world->npools + 1;
	pool->name = name;
	pool->total = new_limit(LIMIT_POOL, world->npools, RPQ_WHOLE_POOL);
	memset(pool->total->max, 0, sizeof(int64) * NKEYS);
	pool->unavailable = zeros();
	pool->best_effort = true;
	pool->types = palloc0(sizeof(PoolType) * MAX_TYPES);
	return world->npools++;
}

static inline void
add_pool_type(World *world, int pool, int type, SchedulingPolicy policy)
{
	Pool	   *p = &world->pools[pool];

	p->types[p->ntypes].type = type;
	p->types[p->ntypes++].policy = policy;
}

/* A policy without limit that reaches no pool yet. */
static inline int
add_policy(World *world, const char *name, int64 gpus)
{
	Policy	   *policy = &world->policies[world->npolicies];

	policy->policy_id = world->npolicies + 1;
	policy->name = name;
	policy->reservation = zeros();
	policy->reservation[0] = gpus * RPQ_UNIT;
	policy->held = zeros();
	policy->pools = palloc(sizeof(int) * MAX_POOLS);
	return world->npolicies++;
}

static inline void
reach_pool(World *world, int policy, int pool)
{
	Policy	   *p = &world->policies[policy];

	for (int i = 0; i < p->npools; i++)
		if (p->pools[i] == pool)
			return;
	p->pools[p->npools++] = pool;
}

/* A node, which adds to its pool's total.  Nodes must be added in the order of their names. */
static inline PoolNode *
add_node(World *world, const char *name, int pool, int type, int gpus, int64 cpu, int64 memory)
{
	PoolNode   *node = &world->nodes[world->nnodes++];
	int64	   *total = world->pools[pool].total->max;

	node->node_id = world->nnodes;
	node->name = name;
	node->pool = pool;
	node->type = type;
	node->takes_work = true;
	node->ndevices = gpus;
	node->device_free = palloc(sizeof(int64) * (gpus + 1));
	for (int d = 0; d < gpus; d++)
		node->device_free[d] = RPQ_UNIT;
	node->free = zeros();
	node->free[0] = gpus * RPQ_UNIT;
	node->free[1] = cpu * RPQ_UNIT;
	node->free[2] = memory * RPQ_UNIT;
	node->capacity = zeros();
	memcpy(node->capacity, node->free, sizeof(int64) * NKEYS);
	for (int k = 0; k < NKEYS; k++)
		total[k] += node->free[k];
	return node;
}

/* Something runs on a node: whole devices from the lowest on, and other amounts; the pool's usage counts it. */
static inline void
load_node(World *world, PoolNode *node, int gpus, int64 cpu)
{
	int64	   *used = world->pools[node->pool].total->used;

	node->free[0] -= gpus * RPQ_UNIT;
	node->free[1] -= cpu * RPQ_UNIT;
	used[0] += gpus * RPQ_UNIT;
	used[1] += cpu * RPQ_UNIT;
	for (int d = 0; d < node->ndevices && gpus > 0; d++)
		if (node->device_free[d] == RPQ_UNIT)
		{
			node->device_free[d] = 0;
			gpus--;
		}
}

static inline Lane *
add_lane(World *world, int pool, int priority, int replicas, int64 gpu_milli, int64 cpu_milli)
{
	Lane	   *lane = &world->lanes[world->nlanes++];

	lane->scope_id = pool + 1;
	lane->shape = world->nlanes;
	lane->policy = -1;
	lane->ends = DT_NOEND;
	lane->priority = priority;
	lane->replicas = replicas;
	lane->request = zeros();
	lane->request[0] = gpu_milli * MILLI;
	lane->request[1] = cpu_milli * MILLI;
	lane->pools = palloc(sizeof(int) * MAX_POOLS);
	lane->pools[lane->npools++] = pool;
	lane->limits = palloc(sizeof(UsageLimit *) * 8);
	lane->store = palloc0(sizeof(Waiting));
	lane->head_at = PG_INT64_MAX;
	return lane;
}

/* Members are added in their order. */
static inline void
add_member(Lane *lane, TimestampTz at, int64 id)
{
	Waiting    *waiting = lane->store;

	if (waiting->n == waiting->max)
	{
		waiting->max = waiting->max == 0 ? 8 : 2 * waiting->max;
		waiting->members = waiting->members == NULL ? palloc(sizeof(Member) * waiting->max) :
			repalloc(waiting->members, sizeof(Member) * waiting->max);
	}
	if (waiting->n == 0)
	{
		lane->head_at = at;
		lane->head_id = id;
	}
	waiting->members[waiting->n].workload_id = id;
	waiting->members[waiting->n].submitted_at = at;
	waiting->members[waiting->n++].attempt = 0;
	lane->waiting++;
}

#endif							/* TEST_WORLDS_H */

/*
 * sim.h
 *
 * A small simulated cluster: nodes, pools, policies, quotas, what waits, what is placed, and room that is held.  It is
 * what the tables are to the extension; a World is made of it for each cycle (sim_world.h), and the plan moves it on
 * (sim_steps.h).  All of it is one plain struct, so that it can be copied, and be made smaller bit by bit when the core
 * and the oracle differ.
 */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include "worlds.h"

#define SIM_NODES		6
#define SIM_DEVICES		8
#define SIM_POOLS		3
#define SIM_TYPES		2
#define SIM_POLICIES	4
#define SIM_ACCOUNTS	3
#define SIM_QUOTAS		3
#define SIM_SHAPES		10
#define SIM_REPLICAS	4
#define SIM_WORK		28
#define SIM_HOLDS		12
#define SIM_VICTIMS		12
#define SIM_NONE		(-1)

typedef struct SimNode
{
	bool		exists;
	bool		takes_work;
	bool		shrunk;			/* its machine has less than it had: more may be taken than there is */
	bool		executor;		/* one reports from it: what it runs stops only some time after it was told to */
	int			pool;
	int			type;
	int			gpus;
	int64		capacity[NKEYS];
} SimNode;

typedef struct SimPool
{
	SchedulingPolicy policy;
	ReasonCode	closed;
	bool		exclusive;
	bool		pay_as_you_go;
	bool		allow_guarantee;
	bool		best_effort;
	bool		isolate;
	int			borrower;		/* the shared pool that may borrow here, or SIM_NONE */
	int			min_runtime;
} SimPool;

typedef struct SimPolicy
{
	int64		reservation[NKEYS];
	int64		limit[NKEYS];
	bool		limited;
	bool		hold;
	bool		reaches[SIM_POOLS];
} SimPolicy;

typedef struct SimQuota
{
	int			account;
	int			pool;
	int			type;			/* RPQ_WHOLE_POOL or a type */
	int64		max[NKEYS];
} SimQuota;

/* What people submit again and again: through a queue of a policy, or directly to a pool. */
typedef struct SimShape
{
	int			policy;			/* SIM_NONE: direct */
	int			npools;
	int			pools[SIM_POOLS];
	int			replicas;
	int64		request[NKEYS];
	int			types;			/* a bit for each allowed type; 0: any */
	bool		guarantee;
	bool		checkpointable;
	int			max_runtime;	/* 0: none */
	ReasonCode	own;
} SimShape;

typedef struct SimPod
{
	int			node;
	int			ndevices;
	int			devices[SIM_DEVICES];
} SimPod;

typedef enum SimState
{
	SIM_FREE,					/* no workload */
	SIM_WAITING,
	SIM_PLACED
} SimState;

typedef struct SimWork
{
	SimState	state;
	int64		id;
	int			shape;
	int			account;
	int			priority;
	int			attempt;
	TimestampTz submitted_at;
	TimestampTz started_at;
	int			pool;
	int			home;
	int			type;
	SimPod		pods[SIM_REPLICAS];
	bool		leaving;		/* a victim that has still to stop */
	int			stops_in;		/* cycles until it does */
	bool		locked;			/* its client keeps the row: slow on any node */
	bool		tried;			/* blocked in the cycle before: may be left out as long as nothing changes */
} SimWork;

typedef struct SimVictim
{
	int			work;
	int			attempt;
	PreemptRule rule;
	int			priority;
	bool		pending;
} SimVictim;

typedef struct SimHold
{
	bool		used;
	int			work;
	int64		id;
	int			attempt;
	int			pool;
	int			type;
	int			npods;
	int64		request[NKEYS];
	SimPod		pods[SIM_REPLICAS];
	int			nvictims;
	SimVictim	victims[SIM_VICTIMS];
} SimHold;

typedef struct Sim
{
	TimestampTz now;
	int64		next_id;
	int			cycle;
	int			batch;
	int			arrivals;		/* how many of a hundred events are */
	bool		skips;			/* what was blocked is left out while nothing changes */
	bool		bounds;			/* of some lanes no more than a lower bound of the head is known */
	bool		changed;		/* something was freed or set otherwise since the last cycle */
	int			nnodes;
	SimNode		nodes[SIM_NODES];
	int			npools;
	SimPool		pools[SIM_POOLS];
	int			ntypes;
	int			npolicies;
	SimPolicy	policies[SIM_POLICIES];
	int			nquotas;
	SimQuota	quotas[SIM_QUOTAS];
	int			nshapes;
	SimShape	shapes[SIM_SHAPES];
	SimWork		work[SIM_WORK];
	SimHold		holds[SIM_HOLDS];
} Sim;

static inline int64
sim_total(const SimShape *shape, int key)
{
	return shape->request[key] * shape->replicas;
}

/* The hold of a workload that waits, or NULL. */
static inline SimHold *
sim_hold_of(Sim *sim, int work)
{
	for (int h = 0; h < SIM_HOLDS; h++)
		if (sim->holds[h].used && sim->holds[h].work == work && sim->holds[h].id == sim->work[work].id &&
			sim->work[work].state == SIM_WAITING)
			return &sim->holds[h];
	return NULL;
}

static inline int
sim_find(const Sim *sim, int64 id)
{
	for (int w = 0; w < SIM_WORK; w++)
		if (sim->work[w].state != SIM_FREE && sim->work[w].id == id)
			return w;
	return SIM_NONE;
}

/* Building by hand */

static inline int
sim_pool(Sim *sim, SchedulingPolicy policy)
{
	SimPool    *pool = &sim->pools[sim->npools];

	pool->policy = policy;
	pool->allow_guarantee = true;
	pool->borrower = SIM_NONE;
	return sim->npools++;
}

static inline int
sim_node(Sim *sim, int pool, int type, int gpus, int cpus)
{
	SimNode    *node = &sim->nodes[sim->nnodes];

	node->exists = node->takes_work = true;
	node->pool = pool;
	node->type = type;
	node->gpus = gpus;
	node->capacity[0] = gpus * RPQ_UNIT;
	node->capacity[1] = cpus * RPQ_UNIT;
	node->capacity[2] = 64 * RPQ_UNIT;
	sim->ntypes = Max(sim->ntypes, type + 1);
	return sim->nnodes++;
}

/* A policy that reaches all pools. */
static inline int
sim_policy(Sim *sim, int reservation, int limit)
{
	SimPolicy  *policy = &sim->policies[sim->npolicies];

	policy->reservation[0] = reservation * RPQ_UNIT;
	policy->limited = limit >= 0;
	policy->limit[0] = limit * RPQ_UNIT;
	policy->limit[1] = policy->limit[2] = RPQ_UNLIMITED;
	for (int p = 0; p < sim->npools; p++)
		policy->reaches[p] = true;
	return sim->npolicies++;
}

/* A size of GPUs: through a policy to all pools, or directly to the first. */
static inline int
sim_shape(Sim *sim, int policy, int gpus)
{
	SimShape   *shape = &sim->shapes[sim->nshapes];

	shape->policy = policy;
	shape->replicas = 1;
	shape->request[0] = gpus * RPQ_UNIT;
	shape->npools = policy == SIM_NONE ? 1 : sim->npools;
	for (int p = 0; p < shape->npools; p++)
		shape->pools[p] = p;
	return sim->nshapes++;
}

static inline int
sim_submit(Sim *sim, int shape, int account, int priority)
{
	for (int w = 0; w < SIM_WORK; w++)
	{
		SimWork    *work = &sim->work[w];
		bool		held = false;

		/* what a hold still names is not taken for another */
		for (int h = 0; h < SIM_HOLDS; h++)
			held |= sim->holds[h].used && sim->holds[h].work == w;
		if (work->state != SIM_FREE || held)
			continue;
		memset(work, 0, sizeof(SimWork));
		work->state = SIM_WAITING;
		work->id = ++sim->next_id;
		work->shape = shape;
		work->account = account;
		work->priority = priority;
		work->submitted_at = sim->now;
		return w;
	}
	return SIM_NONE;
}

#endif							/* TEST_SIM_H */

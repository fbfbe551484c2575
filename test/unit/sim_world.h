/*
 * sim_world.h
 *
 * The World of a simulated cluster, made as the store makes it of rows.  Two Worlds of one Sim have nothing in common,
 * so that the core and the oracle each count down their own.
 */
#ifndef TEST_SIM_WORLD_H
#define TEST_SIM_WORLD_H

#include "sim.h"

/* The World's memory, beside it. */
typedef struct SimStore
{
	const Sim  *sim;
	int			index[SIM_NODES];	/* of a node in the World, SIM_NONE when it is not there */
	int			node[SIM_NODES];	/* and back */
	UsageLimit *quotas[SIM_QUOTAS];
	int			nplaced;
	Placed		placed[SIM_WORK];
	int			work[SIM_WORK];		/* of placed */
	int			locks_asked;
} SimStore;

static inline bool
sim_shares_node(const SimWork *work, const SimShape *shape, int node)
{
	for (int i = 0; i < shape->replicas; i++)
		if (work->pods[i].node == node)
			return true;
	return false;
}

static inline void
sim_take(PoolNode *node, const int64 *request, const SimPod *pod)
{
	for (int k = 1; k < NKEYS; k++)
		node->free[k] -= request[k];
	for (int d = 0; d < pod->ndevices; d++)
		node->device_free[pod->devices[d]] -= Min(request[0], RPQ_UNIT);
}

/*
 * What a hold takes beyond what its own pending victims have there: of each key, and of each device.
 */
static inline void
sim_take_hold(const Sim *sim, const SimHold *hold, int n, PoolNode *node, bool later)
{
	int64		wants[NKEYS] = {0};
	int64		device[SIM_DEVICES] = {0};

	for (int i = 0; i < hold->npods; i++)
	{
		for (int k = 0; hold->pods[i].node == n && k < NKEYS; k++)
			wants[k] += hold->request[k];
		for (int d = 0; hold->pods[i].node == n && d < hold->pods[i].ndevices; d++)
			device[hold->pods[i].devices[d]] += Min(hold->request[0], RPQ_UNIT);
	}
	for (int v = 0; v < hold->nvictims; v++)
	{
		const SimWork *victim = &sim->work[hold->victims[v].work];
		const SimShape *shape = &sim->shapes[victim->shape];

		if (later && shape->max_runtime > 0)
			continue;
		for (int i = 0; hold->victims[v].pending && i < shape->replicas; i++)
		{
			if (victim->pods[i].node != n)
				continue;
			for (int k = 0; k < NKEYS; k++)
				wants[k] -= shape->request[k];
			for (int d = 0; d < victim->pods[i].ndevices; d++)
				device[victim->pods[i].devices[d]] -= Min(shape->request[0], RPQ_UNIT);
		}
	}
	for (int k = 1; k < NKEYS; k++)
		node->free[k] -= Max(wants[k], 0);
	for (int d = 0; d < node->ndevices; d++)
		node->device_free[d] -= Max(device[d], 0);
}

static inline void
sim_host(PoolNode *node, int64 account)
{
	node->account = node->account == 0 || node->account == account ? account : SEVERAL_ACCOUNTS;
}

/* What pods and holds take of a node; later: when all that have a max_runtime have left. */
static inline void
sim_load_node(const Sim *sim, World *world, int n, PoolNode *node, bool later)
{
	bool		isolate = world->pools[node->pool].isolate;

	for (int w = 0; w < SIM_WORK; w++)
	{
		const SimWork *work = &sim->work[w];
		const SimShape *shape = &sim->shapes[work->shape];

		if (work->state != SIM_PLACED || (later && shape->max_runtime > 0))
			continue;
		for (int i = 0; i < shape->replicas; i++)
			if (work->pods[i].node == n)
			{
				sim_take(node, shape->request, &work->pods[i]);
				if (isolate)
					sim_host(node, 1 + work->account);
			}
	}
	for (int h = 0; h < SIM_HOLDS; h++)
		if (sim->holds[h].used)
		{
			sim_take_hold(sim, &sim->holds[h], n, node, later);
			for (int i = 0; isolate && i < sim->holds[h].npods; i++)
				if (sim->holds[h].pods[i].node == n)
					sim_host(node, 1 + sim->work[sim->holds[h].work].account);
		}
	node->free[0] = 0;
	for (int d = 0; d < node->ndevices; d++)
		node->free[0] += node->device_free[d];
}

static inline void
sim_build_nodes(const Sim *sim, World *world, SimStore *store)
{
	static const char *names[SIM_NODES] = {"n0", "n1", "n2", "n3", "n4", "n5"};

	for (int n = 0; n < sim->nnodes; n++)
	{
		const SimNode *its = &sim->nodes[n];
		PoolNode   *node;

		store->index[n] = its->exists ? world->nnodes : SIM_NONE;
		if (!its->exists)
			continue;
		store->node[world->nnodes] = n;
		node = add_node(world, names[n], its->pool, its->type, its->gpus, its->capacity[1] / RPQ_UNIT,
						its->capacity[2] / RPQ_UNIT);
		node->takes_work = its->takes_work;
		node->why_not = its->takes_work ? NULL : "cordoned";
		sim_load_node(sim, world, n, node, false);
		for (int k = 0; k < NKEYS && !its->takes_work; k++)
			world->pools[its->pool].unavailable[k] += Max(node->free[k], 0);
	}
}

/* A hold counts in its pool what it takes beyond what its own pending victims count there. */
static inline void
sim_count_hold(const Sim *sim, const SimHold *hold, UsageLimit *total)
{
	for (int k = 0; k < NKEYS; k++)
	{
		int64		more = hold->request[k] * hold->npods;

		for (int v = 0; v < hold->nvictims; v++)
		{
			const SimWork *victim = &sim->work[hold->victims[v].work];

			if (hold->victims[v].pending && victim->home == victim->pool)
				more -= sim_total(&sim->shapes[victim->shape], k);
		}
		total->used[k] += Max(more, 0);
	}
}

static inline void
sim_count(const Sim *sim, World *world, SimStore *store, const SimWork *work, int home, int type, bool placed)
{
	const SimShape *shape = &sim->shapes[work->shape];

	for (int k = 0; k < NKEYS; k++)
	{
		int64		total = sim_total(shape, k);

		if (shape->policy >= 0)
		{
			Policy	   *policy = &world->policies[shape->policy];

			policy->held[k] += work->leaving ? 0 : total;
			if (policy->limit)
				policy->limit->used[k] += total;
		}
		for (int q = 0; shape->policy < 0 && q < sim->nquotas; q++)
			if (sim->quotas[q].account == work->account && sim->quotas[q].pool == home &&
				(sim->quotas[q].type == RPQ_WHOLE_POOL || sim->quotas[q].type == type))
				store->quotas[q]->used[k] += total;
		if (placed && work->pool == home)
			world->pools[home].total->used[k] += total;
	}
}

static inline void
sim_build_limits(const Sim *sim, World *world, SimStore *store)
{
	world->npolicies = sim->npolicies;
	world->policies = palloc0(sizeof(Policy) * (sim->npolicies + 1));
	for (int p = 0; p < sim->npolicies; p++)
	{
		const SimPolicy *its = &sim->policies[p];
		Policy	   *policy = &world->policies[p];

		policy->policy_id = 1 + p;
		policy->name = "policy";
		policy->reservation = zeros();
		policy->held = zeros();
		memcpy(policy->reservation, its->reservation, sizeof(int64) * NKEYS);
		policy->hold = its->hold;
		policy->pools = palloc(sizeof(int) * SIM_POOLS);
		for (int q = 0; q < sim->npools; q++)
			if (its->reaches[q])
				policy->pools[policy->npools++] = q;
		if (its->limited)
		{
			policy->limit = new_limit(LIMIT_POLICY, -1, RPQ_WHOLE_POOL);
			memcpy(policy->limit->max, its->limit, sizeof(int64) * NKEYS);
		}
	}
	for (int q = 0; q < sim->nquotas; q++)
	{
		store->quotas[q] = new_limit(LIMIT_USER, sim->quotas[q].pool, sim->quotas[q].type);
		memcpy(store->quotas[q]->max, sim->quotas[q].max, sizeof(int64) * NKEYS);
	}
	for (int w = 0; w < SIM_WORK; w++)
		if (sim->work[w].state == SIM_PLACED)
			sim_count(sim, world, store, &sim->work[w], sim->work[w].home, sim->work[w].type, true);
	for (int h = 0; h < SIM_HOLDS; h++)
		if (sim->holds[h].used)
		{
			const SimHold *hold = &sim->holds[h];

			sim_count_hold(sim, hold, world->pools[hold->pool].total);
			sim_count(sim, world, store, &sim->work[hold->work], hold->pool, hold->type, false);
		}
}

static inline void
sim_place(const SimStore *store, const SimPod *pods, int npods, PodPlace *places)
{
	for (int i = 0; i < npods; i++)
	{
		places[i].node = store->index[pods[i].node];
		places[i].ndevices = pods[i].ndevices;
		places[i].devices = palloc(sizeof(int) * SIM_DEVICES);
		memcpy(places[i].devices, pods[i].devices, sizeof(int) * SIM_DEVICES);
	}
}

/* The lane that a waiting workload is in; made when it is the first. */
static inline Lane *
sim_lane(const Sim *sim, World *world, SimStore *store, const SimWork *work)
{
	const SimShape *shape = &sim->shapes[work->shape];
	int64		key = (work->shape * SIM_ACCOUNTS + work->account) * 1000 + work->priority;
	Lane	   *lane = NULL;

	for (int l = 0; l < world->nlanes; l++)
		if (world->lanes[l].shape == key)
			return &world->lanes[l];
	lane = add_lane(world, shape->pools[0], work->priority, shape->replicas, 0, 0);
	lane->shape = key;
	lane->account_id = 1 + work->account;
	lane->policy = shape->policy;
	lane->policy_id = 1 + shape->policy;
	lane->ends = shape->max_runtime > 0 ? sim->now + shape->max_runtime : PG_INT64_MAX;
	lane->guarantee = shape->guarantee;
	lane->checkpointable = shape->checkpointable;
	memcpy(lane->request, shape->request, sizeof(int64) * NKEYS);
	if (shape->types != 0)
	{
		lane->type_allowed = palloc0(sizeof(bool) * MAX_TYPES);
		for (int t = 0; t < sim->ntypes; t++)
			lane->type_allowed[t] = shape->types >> t & 1;
	}
	lane->npools = shape->npools;
	memcpy(lane->pools, shape->pools, sizeof(int) * shape->npools);
	lane->own = shape->own;
	lane->skip = sim->skips && !sim->changed;
	if (shape->policy >= 0 && world->policies[shape->policy].limit)
		lane->limits[lane->nlimits++] = world->policies[shape->policy].limit;
	for (int q = 0; shape->policy < 0 && q < sim->nquotas; q++)
		if (sim->quotas[q].account == work->account && sim->quotas[q].pool == shape->pools[0])
			lane->limits[lane->nlimits++] = store->quotas[q];
	lane->lenders = palloc(sizeof(int) * SIM_POOLS);
	for (int p = 0; shape->policy < 0 && p < sim->npools; p++)
		if (sim->pools[p].borrower == shape->pools[0])
			lane->lenders[lane->nlenders++] = p;
	return lane;
}

static inline void
sim_build_lanes(const Sim *sim, World *world, SimStore *store)
{
	int			order[SIM_WORK];
	int			n = 0;

	for (int w = 0; w < SIM_WORK; w++)
		if (sim->work[w].state == SIM_WAITING)
		{
			int			j = n++;

			for (; j > 0 && (sim->work[order[j - 1]].submitted_at > sim->work[w].submitted_at ||
							 (sim->work[order[j - 1]].submitted_at == sim->work[w].submitted_at &&
							  sim->work[order[j - 1]].id > sim->work[w].id)); j--)
				order[j] = order[j - 1];
			order[j] = w;
		}
	for (int i = 0; i < n; i++)
	{
		const SimWork *work = &sim->work[order[i]];
		Lane	   *lane = sim_lane(sim, world, store, work);
		SimHold    *hold = sim_hold_of((Sim *) sim, order[i]);
		TimestampTz at;
		int64		id;

		if (hold)
		{
			if (lane->waiting++ == 0)
			{
				lane->head_at = work->submitted_at;
				lane->head_id = work->id;
			}
			continue;
		}
		lane->skip &= work->tried;
		at = lane->head_at;
		id = lane->head_id;
		add_member(lane, work->submitted_at, work->id);
		if (lane->waiting > 1)
		{
			lane->head_at = at;
			lane->head_id = id;
		}
		((Waiting *) lane->store)->members[((Waiting *) lane->store)->n - 1].attempt = work->attempt;
	}
	for (int l = 0; l < world->nlanes && sim->bounds; l++)
		if ((world->lanes[l].shape + sim->cycle) % 3 == 0)
		{
			world->lanes[l].head_at -= 7 * (sim->cycle % 5);
			world->lanes[l].head_id = -world->lanes[l].shape;	/* no other has it */
		}
}

static inline void
sim_build_holds(const Sim *sim, World *world, SimStore *store)
{
	world->holds = palloc0(sizeof(RoomHold) * SIM_HOLDS);
	for (int h = 0; h < SIM_HOLDS; h++)
	{
		const SimHold *its = &sim->holds[h];
		RoomHold   *hold = &world->holds[world->nholds];

		if (!its->used)
			continue;
		world->nholds++;
		hold->store = (void *) its;
		if (sim_hold_of((Sim *) sim, its->work) == its)
			hold->lane = sim_lane(sim, world, store, &sim->work[its->work]);
		hold->member.workload_id = its->id;
		hold->member.submitted_at = sim->work[its->work].submitted_at;
		hold->member.attempt = its->attempt;
		hold->pool = its->pool;
		hold->type = its->type;
		hold->npods = its->npods;
		hold->pods = palloc(sizeof(PodPlace) * its->npods);
		sim_place(store, its->pods, its->npods, hold->pods);
		hold->nvictims = its->nvictims;
		hold->by_priority = -1;
		for (int v = 0; v < its->nvictims; v++)
		{
			const SimVictim *victim = &its->victims[v];

			hold->npending += victim->pending;
			hold->by_right |= victim->pending && victim->rule == PREEMPT_BORROWED;
			hold->by_reservation |= victim->pending && victim->rule == PREEMPT_RESERVATION;
			if (victim->pending && victim->rule == PREEMPT_PRIORITY)
				hold->by_priority = Max(hold->by_priority, victim->priority);
		}
	}
}

static inline void
sim_load_placed(World *world)
{
	SimStore   *store = world->store;
	const Sim  *sim = store->sim;

	for (int w = SIM_WORK - 1; w >= 0; w--)
	{
		const SimWork *work = &sim->work[w];
		const SimShape *shape = &sim->shapes[work->shape];
		Placed	   *placed = &store->placed[store->nplaced];

		if (work->state != SIM_PLACED)
			continue;
		memset(placed, 0, sizeof(Placed));
		store->work[store->nplaced++] = w;
		placed->workload_id = work->id;
		placed->attempt = work->attempt;
		placed->account_id = 1 + work->account;
		placed->policy = shape->policy;
		placed->pool = work->pool;
		placed->home = work->home;
		placed->type = work->type;
		placed->priority = work->priority;
		placed->guarantee = shape->guarantee;
		placed->checkpointable = shape->checkpointable;
		placed->leaving = work->leaving;
		for (int n = 0; n < sim->nnodes; n++)
			placed->slow |= sim->nodes[n].executor && sim_shares_node(work, shape, n);
		placed->submitted_at = work->submitted_at;
		placed->started_at = work->started_at;
		placed->immune_until = work->started_at + sim->pools[work->pool].min_runtime;
		placed->request = shape->request;
		placed->npods = shape->replicas;
		placed->pods = palloc(sizeof(PodPlace) * shape->replicas);
		sim_place(store, work->pods, shape->replicas, placed->pods);
	}
	world->placed = store->placed;
	world->nplaced = store->nplaced;
}

static inline void
sim_take_victims(World *world, Placed **victims, int nvictims)
{
	SimStore   *store = world->store;

	for (int i = 0; i < nvictims; i++)
		victims[i]->slow |= store->sim->work[store->work[victims[i] - store->placed]].locked;
}

static inline void
sim_read_ends(World *world, const int *nodes, int nnodes, TimestampTz *ends)
{
	SimStore   *store = world->store;
	const Sim  *sim = store->sim;

	for (int i = 0; i < nnodes; i++)
	{
		ends[i] = PG_INT64_MAX;
		for (int w = 0; w < SIM_WORK; w++)
		{
			const SimShape *shape = &sim->shapes[sim->work[w].shape];

			if (sim->work[w].state == SIM_PLACED && shape->max_runtime > 0 &&
				sim_shares_node(&sim->work[w], shape, store->node[nodes[i]]))
				ends[i] = Min(ends[i], sim->work[w].started_at + shape->max_runtime);
		}
	}
}

static inline void
sim_read_later(World *world, const int *nodes, int nnodes, NodeLater *later)
{
	SimStore   *store = world->store;
	const Sim  *sim = store->sim;

	for (int i = 0; i < nnodes; i++)
	{
		int			n = store->node[nodes[i]];
		PoolNode	node = world->nodes[nodes[i]];

		later[i].last = PG_INT64_MIN;
		for (int w = 0; w < SIM_WORK; w++)
		{
			const SimShape *shape = &sim->shapes[sim->work[w].shape];

			if (sim->work[w].state == SIM_PLACED && shape->max_runtime > 0 &&
				sim_shares_node(&sim->work[w], shape, n))
				later[i].last = Max(later[i].last, sim->work[w].started_at + shape->max_runtime);
		}
		later[i].free = later[i].device_free = NULL;
		if (later[i].last == PG_INT64_MIN)
			continue;
		node.free = zeros();
		memcpy(node.free, sim->nodes[n].capacity, sizeof(int64) * NKEYS);
		node.device_free = palloc(sizeof(int64) * SIM_DEVICES);
		for (int d = 0; d < node.ndevices; d++)
			node.device_free[d] = RPQ_UNIT;
		sim_load_node(sim, world, n, &node, true);
		later[i].free = node.free;
		later[i].device_free = node.device_free;
	}
}

static inline World *
sim_world(const Sim *sim)
{
	World	   *world = new_world(SIM_NODES, SIM_WORK + SIM_HOLDS);
	SimStore   *store = palloc0(sizeof(SimStore));

	store->sim = sim;
	world->store = store;
	world->now = sim->now;
	world->batch = sim->batch > 0 ? sim->batch : PG_INT32_MAX;
	for (int t = 0; t < sim->ntypes; t++)
		add_type(world);
	for (int p = 0; p < sim->npools; p++)
	{
		const SimPool *its = &sim->pools[p];
		Pool	   *pool = &world->pools[add_pool(world, p == 0 ? "p0" : p == 1 ? "p1" : "p2")];

		pool->closed = its->closed;
		pool->exclusive = its->exclusive;
		pool->pay_as_you_go = its->pay_as_you_go;
		pool->allow_guarantee = its->allow_guarantee;
		pool->best_effort = its->best_effort;
		pool->isolate = its->isolate;
		for (int t = 0; t < sim->ntypes; t++)
		{
			bool		has = false;

			for (int n = 0; n < sim->nnodes; n++)
				has |= sim->nodes[n].exists && sim->nodes[n].pool == p && sim->nodes[n].type == t;
			if (has)
				add_pool_type(world, p, t, its->policy);
		}
	}
	sim_build_nodes(sim, world, store);
	sim_build_limits(sim, world, store);
	sim_build_lanes(sim, world, store);
	sim_build_holds(sim, world, store);
	world->load_placed = sim_load_placed;
	world->take_victims = sim_take_victims;
	world->read_ends = sim_read_ends;
	world->read_later = sim_read_later;
	return world;
}

#endif							/* TEST_SIM_WORLD_H */

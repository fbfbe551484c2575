/*
 * sim_draw.h
 *
 * Random simulated clusters: the same number draws the same one again.
 */
#ifndef TEST_SIM_DRAW_H
#define TEST_SIM_DRAW_H

#include "sim_steps.h"

static inline void
draw_sim_shape(Sim *sim)
{
	static const int64 gpus[] = {0, 250, 500, 1000, 1000, 1000, 2000, 2000, 3000, 4000};
	SimShape   *shape = &sim->shapes[sim->nshapes++];
	int			first = below(sim->npools);
	int			largest = 1;

	shape->policy = sim->npolicies > 0 && below(3) > 0 ? below(sim->npolicies) : SIM_NONE;
	for (int n = 0; n < sim->nnodes; n++)
		if (sim->nodes[n].pool == first)
			largest = Max(largest, sim->nodes[n].gpus);
	shape->request[0] = gpus[below(lengthof(gpus))] * MILLI;
	if (below(8) > 0)
		shape->request[0] = Min(shape->request[0], largest * RPQ_UNIT);
	shape->request[1] = below(2) == 0 ? 0 : below(13) * RPQ_UNIT / 2;
	if (shape->request[0] == 0 && shape->request[1] == 0)
		shape->request[1] = RPQ_UNIT;
	if (below(8) == 0)
		shape->request[2] = below(33) * RPQ_UNIT;
	shape->replicas = below(3) == 0 ? 1 + below(SIM_REPLICAS) : 1;
	shape->pools[shape->npools++] = first;
	while (shape->policy >= 0 && shape->npools < sim->npools && below(2))
	{
		shape->pools[shape->npools] = (first + shape->npools) % sim->npools;
		shape->npools++;
	}
	for (int p = 0; shape->policy >= 0 && p < shape->npools; p++)
		sim->policies[shape->policy].reaches[shape->pools[p]] = true;
	if (sim->ntypes > 1 && below(4) == 0)
		shape->types = 1 + below(3);
	shape->guarantee = below(10) == 0;
	shape->checkpointable = below(3) == 0;
	shape->max_runtime = below(3) == 0 ? 10 * (1 + below(8)) : 0;
}

static inline void
draw_sim_pools(Sim *sim)
{
	sim->npools = 1 + below(SIM_POOLS);
	sim->ntypes = 1 + below(SIM_TYPES);
	for (int p = 0; p < sim->npools; p++)
	{
		SimPool    *pool = &sim->pools[p];

		pool->policy = below(2) ? POLICY_BINPACK : POLICY_SPREAD;
		pool->exclusive = p > 0 && below(2);
		pool->borrower = pool->exclusive && below(3) > 0 ? 0 : SIM_NONE;
		pool->pay_as_you_go = below(10) == 0;
		pool->allow_guarantee = below(4) > 0;
		pool->best_effort = below(3) == 0;
		pool->isolate = pool->exclusive && below(3) == 0;
		pool->min_runtime = below(4) == 0 ? 10 * below(4) : 0;
	}
}

/* Less of what merely blocks, so that more is taken from others. */
static inline void
make_plain(Sim *sim)
{
	sim->nquotas = 0;
	for (int s = 0; s < sim->nshapes; s++)
	{
		SimShape   *shape = &sim->shapes[s];

		shape->guarantee = false;
		if (shape->request[0] > 0)
			shape->request[1] = shape->request[2] = 0;
	}
	for (int p = 0; p < sim->npools; p++)
	{
		sim->pools[p].pay_as_you_go = false;
		sim->pools[p].min_runtime = 0;
	}
	for (int p = 0; p < sim->npolicies; p++)
	{
		sim->policies[p].limited = false;
		sim->policies[p].hold &= below(3) == 0;
	}
}

/*
 * One pool, half of it reserved for the first policy and little for two others, whose work is of all sizes: so the
 * first one's often has to take room back, and what the others can give may stand anywhere.
 */
static inline void
make_tight(Sim *sim)
{
	static const int64 gpus[] = {250, 500, 500, 1000, 1000, 2000, 3000};
	int			total = 0;

	sim->npools = sim->ntypes = sim->nnodes = sim->npolicies = sim->nshapes = sim->nquotas = 0;
	memset(sim->pools, 0, sizeof(sim->pools));
	memset(sim->nodes, 0, sizeof(sim->nodes));
	memset(sim->policies, 0, sizeof(sim->policies));
	memset(sim->shapes, 0, sizeof(sim->shapes));
	sim_pool(sim, below(2) ? POLICY_BINPACK : POLICY_SPREAD);
	sim->pools[0].best_effort = below(2);
	for (int n = 2 + below(2); n > 0; n--)
	{
		int			size = 2 + below(3);

		sim->nodes[sim_node(sim, 0, 0, size, 16)].executor = below(4) == 0;
		total += size;
	}
	sim_policy(sim, total / 2, total);
	sim_policy(sim, below(3), 2 * total);
	sim_policy(sim, below(3), 2 * total);
	for (int s = 0; s < 8; s++)
	{
		int			of = s < 3 ? 0 : s == 7 && below(2) ? SIM_NONE : 1 + below(2);
		SimShape   *shape = &sim->shapes[sim_shape(sim, of, 1)];

		shape->request[0] = (of == 0 ? 1000 * (1 + below(3)) : gpus[below(lengthof(gpus))]) * MILLI;
		shape->replicas = below(4) == 0 ? 2 : 1;
		shape->checkpointable = below(3) == 0;
	}
}

static inline void
draw_sim(Sim *sim, uint64 number)
{
	int			same = 0;

	memset(sim, 0, sizeof(Sim));
	seed_with(number);
	sim->now = 1000;
	sim->arrivals = 25 + below(25);
	sim->skips = below(2);
	sim->bounds = below(4) == 0;
	sim->changed = true;
	draw_sim_pools(sim);
	sim->nnodes = 1 + below(SIM_NODES);
	same = below(3);
	for (int n = 0; n < sim->nnodes; n++)
	{
		SimNode    *node = &sim->nodes[n];

		node->exists = true;
		node->takes_work = below(8) > 0;
		node->executor = below(3) == 0;
		node->pool = n < sim->npools ? n : below(sim->npools);
		node->type = below(sim->ntypes);
		node->gpus = same > 0 ? 2 * same : below(5);
		node->capacity[0] = node->gpus * RPQ_UNIT;
		node->capacity[1] = (same > 0 ? 16 : 4 * (1 + below(4))) * RPQ_UNIT;
		node->capacity[2] = 64 * RPQ_UNIT;
	}
	sim->npolicies = below(SIM_POLICIES + 1);
	for (int s = 4 + below(SIM_SHAPES - 3); s > 0; s--)
		draw_sim_shape(sim);
	for (int p = 0; p < sim->npolicies; p++)
		sim_draw_reservation(sim, p);
	for (int q = below(SIM_QUOTAS + 1); q > 0; q--)
	{
		SimQuota   *quota = &sim->quotas[sim->nquotas++];

		quota->account = below(SIM_ACCOUNTS);
		quota->pool = below(sim->npools);
		quota->type = below(2) ? RPQ_WHOLE_POOL : below(sim->ntypes);
		quota->max[0] = below(9) * RPQ_UNIT;
		quota->max[1] = below(2) ? RPQ_UNLIMITED : below(33) * RPQ_UNIT;
		quota->max[2] = RPQ_UNLIMITED;
	}
	if (below(2))
		make_plain(sim);
	else if (below(2))
		make_tight(sim);
}

#endif							/* TEST_SIM_DRAW_H */

/*
 * sim_steps.h
 *
 * How a simulated cluster goes on: a plan is carried out as the store carries it out, and between two cycles victims
 * stop, workloads arrive, end and are withdrawn, nodes go and come, and administrators change their minds.
 */
#ifndef TEST_SIM_STEPS_H
#define TEST_SIM_STEPS_H

#include "sim_world.h"

/* The attempt of a placed workload is over: whoever waits for its room need not wait for it any longer. */
static inline void
sim_ends(Sim *sim, int w, SimState state)
{
	SimWork    *work = &sim->work[w];

	for (int h = 0; h < SIM_HOLDS; h++)
		for (int v = 0; sim->holds[h].used && v < sim->holds[h].nvictims; v++)
			if (sim->holds[h].victims[v].work == w && sim->holds[h].victims[v].attempt == work->attempt)
				sim->holds[h].victims[v].pending = false;
	work->state = state;
	work->leaving = false;
	work->tried = false;
	sim->changed = true;
}

static inline void
sim_copy_pods(const SimStore *store, const PodPlace *places, int npods, SimPod *pods)
{
	for (int i = 0; i < npods; i++)
	{
		pods[i].node = store->node[places[i].node];
		pods[i].ndevices = places[i].ndevices;
		for (int d = 0; d < places[i].ndevices; d++)
			pods[i].devices[d] = places[i].devices[d];
	}
}

static inline void
sim_start(Sim *sim, const SimStore *store, const Admission *admission)
{
	SimWork    *work = &sim->work[sim_find(sim, admission->member.workload_id)];

	work->state = SIM_PLACED;
	work->attempt++;
	work->started_at = sim->now;
	work->pool = admission->pool;
	work->home = admission->home;
	work->type = admission->type;
	work->tried = false;
	sim_copy_pods(store, admission->pods, admission->npods, work->pods);
}

static inline void
sim_add_victims(Sim *sim, const CyclePlan *plan, SimHold *hold)
{
	for (int i = 0; i < plan->npreemptions; i++)
	{
		const Preemption *preemption = &plan->preemptions[i];
		int			w = sim_find(sim, preemption->victim->workload_id);

		if (preemption->member.workload_id != hold->id || hold->nvictims == SIM_VICTIMS)
			continue;
		hold->victims[hold->nvictims].work = w;
		hold->victims[hold->nvictims].attempt = preemption->victim->attempt;
		hold->victims[hold->nvictims].rule = preemption->rule;
		hold->victims[hold->nvictims].priority = preemption->victim->priority;
		hold->victims[hold->nvictims++].pending = preemption->victim->slow;
	}
}

static inline void
sim_hold_room(Sim *sim, const SimStore *store, const CyclePlan *plan, const Admission *held)
{
	int			w = sim_find(sim, held->member.workload_id);

	for (int h = 0; h < SIM_HOLDS; h++)
	{
		SimHold    *hold = &sim->holds[h];

		if (hold->used)
			continue;
		memset(hold, 0, sizeof(SimHold));
		hold->used = true;
		hold->work = w;
		hold->id = held->member.workload_id;
		hold->attempt = sim->work[w].attempt;
		hold->pool = held->pool;
		hold->type = held->type;
		hold->npods = held->npods;
		memcpy(hold->request, sim->shapes[sim->work[w].shape].request, sizeof(hold->request));
		sim_copy_pods(store, held->pods, held->npods, hold->pods);
		sim_add_victims(sim, plan, hold);
		return;
	}
}

static inline void
sim_give_up(Sim *sim, SimHold *hold)
{
	for (int v = 0; v < hold->nvictims; v++)
		if (hold->victims[v].pending)
			sim->work[hold->victims[v].work].leaving = false;
	hold->used = false;
	sim->changed = true;
}

/* What is left out next time: the lanes that were blocked, as long as nothing happens. */
static inline void
sim_remember_blocked(Sim *sim, const World *world)
{
	for (int w = 0; w < SIM_WORK; w++)
		sim->work[w].tried = false;
	for (int l = 0; l < world->nlanes; l++)
	{
		const Lane *lane = &world->lanes[l];
		const Waiting *waiting = lane->store;

		for (int i = 0; i < waiting->n && (lane->reason != NULL || lane->skip); i++)
		{
			int			w = sim_find(sim, waiting->members[i].workload_id);

			if (w != SIM_NONE)
				sim->work[w].tried = sim->work[w].state == SIM_WAITING;
		}
	}
}

/* The World is that of this Sim, with the plan made on it. */
static inline void
sim_apply(Sim *sim, const World *world, const CyclePlan *plan)
{
	const SimStore *store = world->store;

	sim->changed = false;
	for (int h = 0; h < world->nholds; h++)
	{
		SimHold    *hold = &sim->holds[(const SimHold *) world->holds[h].store - store->sim->holds];

		if (world->holds[h].given_up)
			sim_give_up(sim, hold);
		else if (world->holds[h].admitted)
			hold->used = false;
	}
	for (int i = 0; i < plan->npreemptions; i++)
	{
		const Placed *victim = plan->preemptions[i].victim;
		int			w = sim_find(sim, victim->workload_id);

		if (!victim->slow)
		{
			sim_ends(sim, w, SIM_WAITING);
			continue;
		}
		sim->work[w].leaving = true;
		sim->work[w].stops_in = 1 + below(4);
	}
	for (int i = 0; i < plan->nadmissions; i++)
		sim_start(sim, store, &plan->admissions[i]);
	for (int i = 0; i < plan->nheld; i++)
		sim_hold_room(sim, store, plan, &plan->held[i]);
	sim_remember_blocked(sim, world);
	sim->changed |= plan->npreemptions > 0 || plan->more;
}

/* Events */

static inline void
sim_lose_node(Sim *sim, int n)
{
	for (int w = 0; w < SIM_WORK; w++)
		if (sim->work[w].state == SIM_PLACED && sim_shares_node(&sim->work[w], &sim->shapes[sim->work[w].shape], n))
			sim_ends(sim, w, SIM_WAITING);
}

/* Victims that were told to stop stop, and what has run for its time ends. */
static inline void
sim_pass_time(Sim *sim, int seconds)
{
	sim->now += seconds;
	for (int w = 0; w < SIM_WORK; w++)
	{
		SimWork    *work = &sim->work[w];
		int			max_runtime = sim->shapes[work->shape].max_runtime;

		if (work->state != SIM_PLACED)
			continue;
		if (work->leaving && --work->stops_in <= 0)
			sim_ends(sim, w, SIM_WAITING);
		else if (max_runtime > 0 && work->started_at + max_runtime <= sim->now)
			sim_ends(sim, w, SIM_FREE);
	}
	for (int p = 0; p < sim->npools; p++)
		sim->changed |= sim->pools[p].min_runtime > 0;
}

static inline void
sim_withdraw(Sim *sim, int w)
{
	sim->work[w].state = SIM_FREE;
	sim->changed = true;
}

/* Whether every reservation can be kept by what the pools nominally hold. */
static inline bool
sim_feasible(const Sim *sim)
{
	for (int set = 1; set < 1 << sim->npolicies; set++)
		for (int k = 0; k < NKEYS; k++)
		{
			int64		promised = 0;
			bool		reached[SIM_POOLS] = {false};

			for (int p = 0; p < sim->npolicies; p++)
				for (int q = 0; q < sim->npools && (set >> p & 1); q++)
				{
					promised += q == 0 ? sim->policies[p].reservation[k] : 0;
					reached[q] |= sim->policies[p].reaches[q];
				}
			for (int n = 0; n < sim->nnodes; n++)
				if (sim->nodes[n].exists && reached[sim->nodes[n].pool])
					promised -= sim->nodes[n].capacity[k];
			if (promised > 0)
				return false;
		}
	return true;
}

static inline void
sim_draw_reservation(Sim *sim, int p)
{
	SimPolicy  *policy = &sim->policies[p];

	for (int try = 0; try < 6; try++)
	{
		policy->reservation[0] = below(8) * RPQ_UNIT;
		policy->reservation[1] = below(4) == 0 ? 0 : below(25) * RPQ_UNIT;
		if (sim_feasible(sim))
			break;
		memset(policy->reservation, 0, sizeof(policy->reservation));
	}
	policy->hold = below(4) == 0;
	policy->limited = below(3) > 0;
	for (int k = 0; k < NKEYS; k++)
		policy->limit[k] = k > 0 && below(3) > 0 ? RPQ_UNLIMITED :
			policy->reservation[k] + below(k == 0 ? 9 : 33) * RPQ_UNIT;
}

static inline void
sim_change_node(Sim *sim)
{
	int			n = below(sim->nnodes);
	SimNode    *node = &sim->nodes[n];

	switch (below(5))
	{
		case 0:
			node->takes_work = false;
			sim_lose_node(sim, n);
			break;
		case 1:
			if (node->exists)
				sim_lose_node(sim, n);
			node->exists = !node->exists;
			break;
		case 2:
			node->executor = !node->executor;
			break;
		case 3:
			node->capacity[1] = below(17) * RPQ_UNIT;
			node->shrunk = true;
			break;
		default:
			node->takes_work = !node->takes_work;
	}
	if (below(2))
		node->takes_work = true;
}

static inline void
sim_change_rules(Sim *sim)
{
	SimPool    *pool = &sim->pools[below(sim->npools)];

	switch (below(6))
	{
		case 0:
			if (sim->npolicies > 0)
				sim_draw_reservation(sim, below(sim->npolicies));
			break;
		case 1:
			pool->closed = pool->closed != REASON_NONE || below(3) ? REASON_NONE :
				below(2) ? REASON_POOL_FROZEN : REASON_POOL_NOT_READY;
			break;
		case 2:
			pool->best_effort = !pool->best_effort;
			break;
		case 3:
			if (sim->nquotas > 0)
				sim->quotas[below(sim->nquotas)].max[0] = below(9) * RPQ_UNIT;
			break;
		case 4:
			if (sim->nshapes > 0)
			{
				SimShape   *shape = &sim->shapes[below(sim->nshapes)];

				shape->own = shape->own != REASON_NONE || below(3) ? REASON_NONE :
					below(2) ? REASON_NOT_AUTHORIZED : REASON_BACKING_OFF;
			}
			break;
		default:
			pool->closed = REASON_NONE;
	}
}

/* One thing that people or machines do between two cycles. */
static inline void
sim_event(Sim *sim)
{
	static const int priorities[] = {10, 30, 50, 50, 90};
	int			w = below(SIM_WORK);
	int			what = below(100);

	if (what < sim->arrivals)
		sim_submit(sim, below(sim->nshapes), below(SIM_ACCOUNTS), priorities[below(lengthof(priorities))]);
	else if (what < 74)
	{
		for (int n = 0; n < SIM_WORK && sim->work[w].state != SIM_PLACED; n++)
			w = (w + 1) % SIM_WORK;
		if (sim->work[w].state == SIM_PLACED)
			sim_ends(sim, w, SIM_FREE);
	}
	else if (what < 86)
	{
		if (sim->work[w].state == SIM_WAITING)
			sim_withdraw(sim, w);
	}
	else if (what < 89)
	{
		if (sim->work[w].state == SIM_WAITING)
			sim->work[w].priority = priorities[below(lengthof(priorities))];
		sim->changed = true;
	}
	else if (what < 92)
		sim->work[w].locked = !sim->work[w].locked;
	else if (what < 96)
	{
		sim_change_node(sim);
		sim->changed = true;
	}
	else
	{
		sim_change_rules(sim);
		sim->changed = true;
	}
}

#endif							/* TEST_SIM_STEPS_H */

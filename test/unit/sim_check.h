/*
 * sim_check.h
 *
 * What must hold after every cycle, whoever decided it: found out from the simulated cluster itself.
 */
#ifndef TEST_SIM_CHECK_H
#define TEST_SIM_CHECK_H

#include "sim_compare.h"

#define SIM_PAIRS	256

/* Who took room from whom. */
typedef struct SimHistory
{
	int			n;
	int64		preemptor[SIM_PAIRS];
	int64		victim[SIM_PAIRS];
} SimHistory;

/* Nowhere is more taken, by pods and by what holds take beyond their own pending victims, than there is. */
static inline const char *
check_nodes(const World *after)
{
	const SimStore *store = after->store;

	for (int n = 0; n < after->nnodes; n++)
	{
		for (int k = 0; k < NKEYS && !store->sim->nodes[store->node[n]].shrunk; k++)
			if (after->nodes[n].free[k] < 0)
				return "more is taken of a node than it has";
		for (int d = 0; d < after->nodes[n].ndevices; d++)
			if (after->nodes[n].device_free[d] < 0)
				return "more is taken of a device than it has";
	}
	return NULL;
}

static inline bool
is_over(const UsageLimit *limit, const Lane *lane)
{
	for (int k = 0; k < NKEYS; k++)
		if (lane->request[k] > 0 && limit->max[k] != RPQ_UNLIMITED && limit->used[k] > limit->max[k])
			return true;
	return false;
}

/* Whether a pool may have less than is taken of it. */
static inline bool
is_shrunk(const Sim *sim, int pool)
{
	for (int n = 0; n < sim->nnodes; n++)
		if (sim->nodes[n].pool == pool && sim->nodes[n].shrunk)
			return true;
	return false;
}

/* Gangs are whole, on one type of the pool, on nodes that take work; limits are kept. */
static inline const char *
check_admission(const World *world, const World *after, const Admission *admission)
{
	const Lane *lane = admission->lane;
	const SimStore *store = after->store;

	if (admission->npods != lane->replicas)
		return "a gang is not whole";
	for (int i = 0; i < admission->npods; i++)
	{
		const PoolNode *node = &world->nodes[admission->pods[i].node];

		if (!node->takes_work || node->pool != admission->pool || node->type != admission->type)
			return "a pod is on a node that it may not be on";
	}
	if (lane->policy >= 0 && after->policies[lane->policy].limit &&
		is_over(after->policies[lane->policy].limit, lane))
		return "a policy is over its limit";
	if (admission->pool == admission->home && !is_shrunk(store->sim, admission->pool) &&
		is_over(after->pools[admission->pool].total, lane))
		return "a pool is over its total";
	for (int q = 0; lane->policy < 0 && q < store->sim->nquotas; q++)
		if (store->quotas[q]->pool == admission->home && store->sim->quotas[q].account == lane->account_id - 1 &&
			(store->quotas[q]->type == RPQ_WHOLE_POOL || store->quotas[q]->type == admission->type) &&
			is_over(store->quotas[q], lane))
			return "an account is over its quota";
	return NULL;
}

/* No preemptor is a victim in the same plan; who was entitled by priority has a higher one. */
static inline const char *
check_preemptions(const Sim *before, const CyclePlan *plan, SimHistory *history)
{
	for (int i = 0; i < plan->npreemptions; i++)
	{
		const Preemption *one = &plan->preemptions[i];

		if (one->victim->guarantee || before->work[sim_find(before, one->victim->workload_id)].leaving)
			return "a victim that may not be one";
		if (one->rule == PREEMPT_PRIORITY && one->victim->priority >= one->lane->priority)
			return "a victim of no lower priority";
		for (int j = 0; j < plan->npreemptions; j++)
			if (plan->preemptions[j].member.workload_id == one->victim->workload_id ||
				(j != i && plan->preemptions[j].victim == one->victim))
				return "a victim takes room itself, or is taken twice";
		for (int j = 0; j < plan->nadmissions; j++)
			if (plan->admissions[j].member.workload_id == one->victim->workload_id)
				return "a victim is admitted in the same plan";
		history->preemptor[history->n % SIM_PAIRS] = one->member.workload_id;
		history->victim[history->n++ % SIM_PAIRS] = one->victim->workload_id;
	}
	return NULL;
}

static inline const char *
check_cycle(const Sim *before, const Sim *sim, const SimCycle *cycle, SimHistory *history)
{
	World	   *after = sim_world(sim);
	const char *broken = check_nodes(after);

	for (int i = 0; i < cycle->plan->nadmissions && broken == NULL; i++)
		broken = check_admission(cycle->world, after, &cycle->plan->admissions[i]);
	if (broken == NULL)
		broken = check_preemptions(before, cycle->plan, history);
	return broken;
}

#endif							/* TEST_SIM_CHECK_H */

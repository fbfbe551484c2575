/*
 * sim_compare.h
 *
 * One cycle of a simulated cluster decided twice, by the core and by the oracle, and whether they agree in everything.
 */
#ifndef TEST_SIM_COMPARE_H
#define TEST_SIM_COMPARE_H

#include "plan_oracle.h"
#include "sim_world.h"

typedef struct SimCycle
{
	World	   *world;			/* the core's */
	CyclePlan  *plan;
	World	   *right;			/* the oracle's */
	Oracle	   *oracle;
	const char *differs;		/* NULL: they agree */
} SimCycle;

static inline bool
same_place(const Admission *a, const Admission *b)
{
	if (a->lane->shape != b->lane->shape || a->member.workload_id != b->member.workload_id || a->pool != b->pool ||
		a->home != b->home || a->type != b->type || a->npods != b->npods)
		return false;
	for (int i = 0; i < a->npods; i++)
		if (a->pods[i].node != b->pods[i].node || a->pods[i].ndevices != b->pods[i].ndevices ||
			(a->pods[i].ndevices > 0 &&
			 memcmp(a->pods[i].devices, b->pods[i].devices, sizeof(int) * a->pods[i].ndevices) != 0))
			return false;
	return true;
}

static inline bool
same_victim(const Preemption *a, const Preemption *b)
{
	return a->victim->workload_id == b->victim->workload_id && a->victim->slow == b->victim->slow &&
		a->rule == b->rule && a->rank == b->rank && a->lane->shape == b->lane->shape &&
		a->member.workload_id == b->member.workload_id;
}

static inline const char *
compare_decisions(const SimCycle *cycle)
{
	const CyclePlan *plan = cycle->plan;
	const Oracle *oracle = cycle->oracle;

	for (int i = 0; i < cycle->world->nholds; i++)
		if (cycle->world->holds[i].admitted != cycle->right->holds[i].admitted ||
			cycle->world->holds[i].given_up != cycle->right->holds[i].given_up)
			return "what becomes of a hold";
	for (int i = 0; i < Min(plan->npreemptions, oracle->npreemptions); i++)
		if (!same_victim(&plan->preemptions[i], &oracle->preemptions[i]))
			return "a victim";
	for (int i = 0; i < Min(plan->nheld, oracle->nheld); i++)
		if (!same_place(&plan->held[i], &oracle->held[i]))
			return "room that is held";
	for (int i = 0; i < Min(plan->nadmissions, oracle->nadmissions); i++)
		if (!same_place(&plan->admissions[i], &oracle->admissions[i]))
			return "an admission";
	if (plan->nadmissions != oracle->nadmissions)
		return "the number of admissions";
	if (plan->npreemptions != oracle->npreemptions)
		return "the number of victims";
	if (plan->nheld != oracle->nheld)
		return "the number of holds";
	return plan->more == oracle->more ? NULL : "whether there is more";
}

/* Blocked lanes say why; those of which nobody else waits say that room is held for one of theirs. */
static inline ReasonCode
right_reason(const Lane *lane, const LaneState *state)
{
	if (state->nheld > 0 && (!state->blocked || state->nheld >= lane->waiting))
		return REASON_PREEMPTING;
	return state->blocked ? state->code : REASON_NONE;
}

static inline const char *
compare_reasons(const SimCycle *cycle)
{
	for (int l = 0; l < cycle->world->nlanes; l++)
	{
		const Lane *lane = &cycle->world->lanes[l];
		const Reason *reason = lane->reason;
		const LaneState *right = &cycle->oracle->lanes[l];
		ReasonCode	code = right_reason(lane, right);

		if (lane->skip || (cycle->plan->more && !right->blocked))
			continue;
		if (!lane->considered)
			return "a lane that was not considered";
		if (reason == NULL || code == REASON_NONE)
		{
			if (reason != NULL || code != REASON_NONE)
				return "whether a lane has a reason";
			continue;
		}
		if (reason->code != code)
			return "a reason";
		if (code == REASON_GANG_DOES_NOT_FIT && reason->fitting != right->fitting)
			return "how many replicas would fit";
		if (code == REASON_BEHIND && reason->ahead != right->ahead)
			return "who is ahead";
		if (reason_sentence(cycle->world, reason)[0] == '\0')
			return "a sentence is empty";
	}
	return NULL;
}

/* Nodes are counted down alike. */
static inline const char *
compare_room(const SimCycle *cycle)
{
	const Books *books = &cycle->oracle->books;

	for (int n = 0; n < cycle->world->nnodes && !cycle->plan->more; n++)
	{
		const PoolNode *node = &cycle->world->nodes[n];

		if (memcmp(node->free, books->free[n], sizeof(int64) * NKEYS) != 0 || node->account != books->account[n] ||
			memcmp(node->device_free, books->device[n], sizeof(int64) * node->ndevices) != 0)
			return "what is left on a node";
	}
	return NULL;
}

static inline void
decide_twice(const Sim *sim, SimCycle *cycle)
{
	cycle->world = sim_world(sim);
	cycle->right = sim_world(sim);
	cycle->oracle = oracle_plan(cycle->right);
	cycle->plan = plan_world(cycle->world);
	cycle->differs = compare_decisions(cycle);
	if (cycle->differs == NULL)
		cycle->differs = compare_reasons(cycle);
	if (cycle->differs == NULL)
		cycle->differs = compare_room(cycle);
}

#endif							/* TEST_SIM_COMPARE_H */

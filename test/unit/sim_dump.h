/*
 * sim_dump.h
 *
 * A simulated cluster, and what the core and the oracle decide on it, as text; and the smallest one that shows the same
 * difference.
 */
#ifndef TEST_SIM_DUMP_H
#define TEST_SIM_DUMP_H

#include "sim_compare.h"

static inline void
print_amounts(const char *what, const int64 *amounts)
{
	static const char *keys[NKEYS] = {"gpu", "cpu", "mem"};

	printf(" %s", what);
	for (int k = 0; k < NKEYS; k++)
	{
		if (amounts[k] == RPQ_UNLIMITED)
			printf("%s%s=any", k > 0 ? "," : "", keys[k]);
		else if (amounts[k] != 0)
			printf("%s%s=%g", k > 0 ? "," : "", keys[k], (double) amounts[k] / RPQ_UNIT);
	}
}

static inline void
print_pods(const SimPod *pods, int n)
{
	for (int i = 0; i < n; i++)
	{
		printf(" n%d[", pods[i].node);
		for (int d = 0; d < pods[i].ndevices; d++)
			printf("%s%d", d > 0 ? "," : "", pods[i].devices[d]);
		printf("]");
	}
}

static inline void
print_pools(const Sim *sim)
{
	for (int p = 0; p < sim->npools; p++)
	{
		const SimPool *pool = &sim->pools[p];

		printf("pool p%d: %s%s%s%s%s%s", p, pool->policy == POLICY_BINPACK ? "binpack" : "spread",
			   pool->exclusive ? " exclusive" : "", pool->pay_as_you_go ? " pay-as-you-go" : "",
			   pool->allow_guarantee ? "" : " no-guarantee", pool->best_effort ? " best_effort" : " backfill",
			   pool->isolate ? " isolate" : "");
		if (pool->borrower != SIM_NONE)
			printf(" lends to p%d", pool->borrower);
		if (pool->min_runtime > 0)
			printf(" min_runtime %d", pool->min_runtime);
		if (pool->closed != REASON_NONE)
			printf(" closed: %s", reason_code_name(pool->closed));
		printf("\n");
	}
	for (int n = 0; n < sim->nnodes; n++)
		if (sim->nodes[n].exists)
		{
			printf("node n%d: p%d t%d", n, sim->nodes[n].pool, sim->nodes[n].type);
			print_amounts("", sim->nodes[n].capacity);
			printf("%s%s\n", sim->nodes[n].takes_work ? "" : " cordoned", sim->nodes[n].executor ? " executor" : "");
		}
}

static inline void
print_rules(const Sim *sim)
{
	for (int p = 0; p < sim->npolicies; p++)
	{
		printf("policy %c:", 'A' + p);
		print_amounts("reservation", sim->policies[p].reservation);
		if (sim->policies[p].limited)
			print_amounts("limit", sim->policies[p].limit);
		printf("%s pools", sim->policies[p].hold ? " hold" : " lend");
		for (int q = 0; q < sim->npools; q++)
			if (sim->policies[p].reaches[q])
				printf(" p%d", q);
		printf("\n");
	}
	for (int q = 0; q < sim->nquotas; q++)
	{
		printf("quota of account %d in p%d", sim->quotas[q].account, sim->quotas[q].pool);
		if (sim->quotas[q].type != RPQ_WHOLE_POOL)
			printf(" t%d", sim->quotas[q].type);
		print_amounts("", sim->quotas[q].max);
		printf("\n");
	}
}

static inline void
print_work(const Sim *sim, int w)
{
	const SimWork *work = &sim->work[w];
	const SimShape *shape = &sim->shapes[work->shape];

	printf("w%ld: %s%c", work->id, shape->policy < 0 ? "direct" : "policy ",
		   shape->policy < 0 ? ' ' : 'A' + shape->policy);
	for (int i = 0; i < shape->npools; i++)
		printf(" p%d", shape->pools[i]);
	printf(" account %d prio %d at %ld", work->account, work->priority, work->submitted_at);
	if (shape->replicas > 1)
		printf(" %d x", shape->replicas);
	print_amounts("", shape->request);
	if (shape->types != 0)
		printf(" types %d", shape->types);
	printf("%s%s", shape->guarantee ? " guarantee" : "", shape->checkpointable ? " checkpointable" : "");
	if (shape->max_runtime > 0)
		printf(" max_runtime %d", shape->max_runtime);
	if (shape->own != REASON_NONE)
		printf(" own: %s", reason_code_name(shape->own));
	if (work->state == SIM_PLACED)
	{
		printf(" | placed in p%d since %ld on", work->pool, work->started_at);
		print_pods(work->pods, shape->replicas);
		if (work->home != work->pool)
			printf(" borrowed by p%d", work->home);
	}
	printf("%s%s%s\n", work->leaving ? " leaving" : "", work->locked ? " locked" : "",
		   work->state == SIM_WAITING && work->tried ? " tried" : "");
}

static inline void
print_sim(const Sim *sim)
{
	printf("now %ld%s%s\n", sim->now, sim->skips ? " skips" : "", sim->changed ? " changed" : "");
	print_pools(sim);
	print_rules(sim);
	for (int state = SIM_PLACED; state >= SIM_WAITING; state--)
		for (int w = 0; w < SIM_WORK; w++)
			if ((int) sim->work[w].state == state)
				print_work(sim, w);
	for (int h = 0; h < SIM_HOLDS; h++)
	{
		const SimHold *hold = &sim->holds[h];

		if (!hold->used)
			continue;
		printf("hold of w%ld in p%d t%d on", hold->id, hold->pool, hold->type);
		print_pods(hold->pods, hold->npods);
		for (int v = 0; v < hold->nvictims; v++)
			printf(", victim w%ld rule %d%s", sim->work[hold->victims[v].work].id, hold->victims[v].rule,
				   hold->victims[v].pending ? " pending" : "");
		printf("\n");
	}
}

static inline void
print_admission(const World *world, const char *what, const Admission *admission)
{
	printf("  %s w%ld in p%d", what, admission->member.workload_id, admission->pool);
	if (admission->home != admission->pool)
		printf(" (of p%d)", admission->home);
	for (int i = 0; i < admission->npods; i++)
	{
		printf(" %s[", world->nodes[admission->pods[i].node].name);
		for (int d = 0; d < admission->pods[i].ndevices; d++)
			printf("%s%d", d > 0 ? "," : "", admission->pods[i].devices[d]);
		printf("]");
	}
	printf("\n");
}

static inline void
print_decisions(const World *world, int nadmissions, const Admission *admissions, int npreemptions,
				const Preemption *preemptions, int nheld, const Admission *held)
{
	for (int i = 0; i < world->nholds; i++)
		printf("  hold of w%ld: %s\n", world->holds[i].member.workload_id,
			   world->holds[i].admitted ? "admitted" : world->holds[i].given_up ? "given up" : "kept");
	for (int i = 0; i < npreemptions; i++)
		printf("  w%ld takes from w%ld, rule %d, rank %d%s\n", preemptions[i].member.workload_id,
			   preemptions[i].victim->workload_id, preemptions[i].rule, preemptions[i].rank,
			   preemptions[i].victim->slow ? ", slow" : "");
	for (int i = 0; i < nheld; i++)
		print_admission(world, "held", &held[i]);
	for (int i = 0; i < nadmissions; i++)
		print_admission(world, "admit", &admissions[i]);
}

static inline void
print_reasons(const SimCycle *cycle)
{
	for (int l = 0; l < cycle->world->nlanes; l++)
	{
		const Lane *lane = &cycle->world->lanes[l];
		const LaneState *right = &cycle->oracle->lanes[l];
		const Waiting *waiting = lane->store;

		if (waiting->n == 0)
			continue;
		printf("lane of w%ld%s: core %s \"%s\", oracle %s", waiting->members[0].workload_id,
			   lane->skip ? " (skip)" : "",
			   lane->reason ? reason_code_name(lane->reason->code) : "-",
			   lane->reason ? reason_sentence(cycle->world, lane->reason) : "",
			   right->blocked ? reason_code_name(right->code) : "-");
		if (right->blocked && right->code == REASON_BEHIND)
			printf(" w%ld", right->ahead);
		printf("\n");
	}
	for (int p = 0; p < cycle->right->npools; p++)
		for (int t = 0; t < cycle->right->ntypes; t++)
		{
			const Head *head = &cycle->oracle->heads[p][t];

			if (!head->set)
				continue;
			printf("oracle: head of p%d t%d is w%ld, until %ld, on", p, t, head->workload_id, head->until);
			for (int n = 0; n < cycle->right->nnodes; n++)
				if (head->target[n])
					printf(" %s", cycle->right->nodes[n].name);
			printf("\n");
		}
}

static inline void
print_cycle(const Sim *sim, const SimCycle *cycle)
{
	print_sim(sim);
	printf("core:\n");
	print_decisions(cycle->world, cycle->plan->nadmissions, cycle->plan->admissions, cycle->plan->npreemptions,
					cycle->plan->preemptions, cycle->plan->nheld, cycle->plan->held);
	printf("oracle:\n");
	print_decisions(cycle->right, cycle->oracle->nadmissions, cycle->oracle->admissions,
					cycle->oracle->npreemptions, cycle->oracle->preemptions, cycle->oracle->nheld,
					cycle->oracle->held);
	print_reasons(cycle);
	printf("they differ in: %s\n", cycle->differs ? cycle->differs : "nothing");
}

/* Making it smaller */

static inline void
drop_work(Sim *sim, int w)
{
	for (int h = 0; h < SIM_HOLDS; h++)
	{
		SimHold    *hold = &sim->holds[h];

		if (hold->used && hold->work == w)
			hold->used = false;
		for (int v = 0; v < hold->nvictims; v++)
			if (hold->victims[v].work == w)
				hold->victims[v].pending = false;
	}
	sim->work[w].state = SIM_FREE;
}

static inline bool
unused_node(const Sim *sim, int n)
{
	for (int w = 0; w < SIM_WORK; w++)
		if (sim->work[w].state == SIM_PLACED && sim_shares_node(&sim->work[w], &sim->shapes[sim->work[w].shape], n))
			return false;
	return true;
}

/* The i-th thing that may be left out or made plainer; false: there is none. */
static inline bool
simplify(Sim *sim, int i)
{
	if (i < SIM_WORK)
		drop_work(sim, i);
	else if ((i -= SIM_WORK) < SIM_NODES)
		sim->nodes[i].exists &= !unused_node(sim, i);
	else if ((i -= SIM_NODES) < SIM_POLICIES)
		memset(&sim->policies[i].reservation, 0, sizeof(sim->policies[i].reservation));
	else if ((i -= SIM_POLICIES) < SIM_POLICIES)
		sim->policies[i].limited = sim->policies[i].hold = false;
	else if ((i -= SIM_POLICIES) < SIM_QUOTAS)
		sim->nquotas = Min(sim->nquotas, i);
	else if ((i -= SIM_QUOTAS) < SIM_POOLS)
		sim->pools[i].best_effort = true;
	else if ((i -= SIM_POOLS) < SIM_POOLS)
		sim->pools[i].min_runtime = sim->pools[i].pay_as_you_go = 0;
	else if ((i -= SIM_POOLS) < SIM_SHAPES)
		sim->shapes[i].request[1] = sim->shapes[i].request[0] > 0 ? 0 : sim->shapes[i].request[1];
	else if ((i -= SIM_SHAPES) < SIM_SHAPES)
		sim->shapes[i].max_runtime = sim->shapes[i].checkpointable = 0;
	else if ((i -= SIM_SHAPES) < SIM_HOLDS)
		sim->holds[i].used = false;
	else if ((i -= SIM_HOLDS) < SIM_NODES)
		sim->nodes[i].executor = false;
	else if ((i -= SIM_NODES) < SIM_WORK)
		sim->work[i].locked = false;
	else if ((i -= SIM_WORK) < 1)
		sim->skips = false;
	else
		return false;
	return true;
}

static inline bool
still_differs(const Sim *sim)
{
	SimCycle	cycle;

	decide_twice(sim, &cycle);
	return cycle.differs != NULL;
}

/* Leaves out what can be left out while the core and the oracle still differ. */
static inline void
shrink_sim(Sim *sim)
{
	bool		smaller = true;

	while (smaller)
	{
		smaller = false;
		for (int i = 0;; i++)
		{
			Sim			copy = *sim;

			if (!simplify(&copy, i))
				break;
			if (memcmp(&copy, sim, sizeof(Sim)) != 0 && still_differs(&copy))
			{
				*sim = copy;
				smaller = true;
			}
		}
	}
}

#endif							/* TEST_SIM_DUMP_H */

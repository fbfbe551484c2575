/*
 * sim_tails.h
 *
 * What must hold in the long run.  A cluster that was left alone comes to rest, and nobody is preempted by the same one
 * twice; and the first one that waits for room in a backfill pool starts when enough work has ended.
 */
#ifndef TEST_SIM_TAILS_H
#define TEST_SIM_TAILS_H

#include "sim_sequence.h"

#define TAILS			400
#define REST_WITHIN		60
#define START_WITHIN	200

/* A random cluster after some cycles, whose work ends only when it is told to. */
static inline void
warm_sim(Sim *sim, uint64 number, int cycles)
{
	draw_sim(sim, number);
	for (sim->cycle = 0; sim->cycle < cycles; sim->cycle++)
	{
		World	   *world;

		go_on(sim);
		world = sim_world(sim);
		sim_apply(sim, world, plan_world(world));
		shim_reset();
	}
	sim->batch = 0;
	sim->changed = true;
	for (int s = 0; s < sim->nshapes; s++)
		sim->shapes[s].max_runtime = 0;
}

/* Nothing happens but that victims stop.  Returns what went wrong, or NULL. */
static inline const char *
comes_to_rest(Sim *sim)
{
	SimHistory	history = {0};

	for (int i = 0; i < REST_WITHIN; i++)
	{
		World	   *world = sim_world(sim);
		CyclePlan  *plan = plan_world(world);
		bool		quiet = plan->nadmissions + plan->npreemptions + plan->nheld == 0;

		check_preemptions(sim, plan, &history);
		sim_apply(sim, world, plan);
		for (int h = 0; h < SIM_HOLDS; h++)
			quiet &= !sim->holds[h].used;
		shim_reset();
		sim_pass_time(sim, 20);
		sim->changed = true;
		if (quiet)
			break;
		if (i == REST_WITHIN - 1)
			return "does not come to rest";
	}
	for (int i = 0; i < Min(history.n, SIM_PAIRS); i++)
		for (int j = 0; j < i; j++)
			if (history.preemptor[i] == history.preemptor[j] && history.victim[i] == history.victim[j])
				return "one preempts the same other twice";
	return NULL;
}

/* The first in the order among those that mark targets; 0: none. */
static inline int64
first_head(const Sim *sim)
{
	SimCycle	cycle;
	const Head *first = NULL;
	Member		member = {0};
	Member		other = {0};

	cycle.right = sim_world(sim);
	cycle.oracle = oracle_plan(cycle.right);
	for (int p = 0; p < cycle.right->npools; p++)
		for (int t = 0; t < cycle.right->ntypes; t++)
		{
			const Head *head = &cycle.oracle->heads[p][t];

			other.workload_id = head->workload_id;
			other.submitted_at = head->set ? sim->work[sim_find(sim, head->workload_id)].submitted_at : 0;
			if (head->set && (first == NULL || comes_first(false, head->lane->priority, &other, false,
														   first->lane->priority, &member)))
			{
				first = head;
				member = other;
			}
		}
	return member.workload_id;
}

/* Work goes on arriving, behind the head in the order, and one placed workload ends at a time. */
static inline const char *
head_starts(Sim *sim, int64 head)
{
	for (int i = 0; i < START_WITHIN; i++)
	{
		World	   *world = sim_world(sim);
		int			w = below(SIM_WORK);

		sim_apply(sim, world, plan_world(world));
		shim_reset();
		if (sim->work[sim_find(sim, head)].state == SIM_PLACED)
			return NULL;
		sim_pass_time(sim, 1);
		for (int n = 0; n < SIM_WORK && sim->work[w].state != SIM_PLACED; n++)
			w = (w + 1) % SIM_WORK;
		if (sim->work[w].state == SIM_PLACED)
			sim_ends(sim, w, SIM_FREE);
		for (int s = below(sim->nshapes), n = 0; n < sim->nshapes; n++, s = (s + 1) % sim->nshapes)
			if (sim->shapes[s].policy == SIM_NONE && sim->shapes[s].own == REASON_NONE)
			{
				sim_submit(sim, s, below(SIM_ACCOUNTS), 0);
				break;
			}
		sim->changed = true;
	}
	return "does not start";
}

static inline void
test_tails(void)
{
	int			restless = 0;
	int			starved = 0;
	int			heads = 0;

	for (int i = 1; i <= TAILS; i++)
	{
		Sim			sim;
		const char *wrong;
		int64		head;

		warm_sim(&sim, 1000000 + i, 15);
		wrong = comes_to_rest(&sim);
		if (wrong != NULL)
		{
			if (restless++ == 0)
				printf("# cluster %d: %s\n", i, wrong);
			continue;
		}
		/* what is reserved may be kept back for ever */
		for (int p = 0; p < sim.npolicies; p++)
			memset(sim.policies[p].reservation, 0, sizeof(sim.policies[p].reservation));
		head = first_head(&sim);
		heads += head != 0;
		wrong = head == 0 ? NULL : head_starts(&sim, head);
		if (wrong != NULL && starved++ == 0)
			printf("# cluster %d: w%ld %s\n", i, head, wrong);
		shim_reset();
	}
	ok(restless == 0, "left alone, clusters come to rest, and nobody preempts the same one twice");
	ok(starved == 0, psprintf("all %d heads start as work ends", heads));
}

#endif							/* TEST_SIM_TAILS_H */

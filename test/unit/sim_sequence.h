/*
 * sim_sequence.h
 *
 * A random sequence of cycles, and what must hold after each of them.
 */
#ifndef TEST_SIM_SEQUENCE_H
#define TEST_SIM_SEQUENCE_H

#include "sim_check.h"
#include "sim_draw.h"
#include "sim_dump.h"

#define SIM_CYCLES	30

/* How much of everything there was, lest a test tests nothing. */
typedef struct SimTally
{
	int64		admissions;
	int64		borrowed;
	int64		preemptions[3];
	int64		held;
	int64		holds_admitted;
	int64		holds_given_up;
	int64		skipped;
	int64		heads;
	int64		reasons[REASON_BEHIND + 1];
} SimTally;

static inline void
tally_cycle(const SimCycle *cycle, SimTally *tally)
{
	tally->admissions += cycle->plan->nadmissions;
	for (int i = 0; i < cycle->plan->nadmissions; i++)
		tally->borrowed += cycle->plan->admissions[i].home != cycle->plan->admissions[i].pool;
	for (int i = 0; i < cycle->plan->npreemptions; i++)
		tally->preemptions[cycle->plan->preemptions[i].rule]++;
	tally->held += cycle->plan->nheld;
	for (int i = 0; i < cycle->world->nholds; i++)
	{
		tally->holds_admitted += cycle->world->holds[i].admitted;
		tally->holds_given_up += cycle->world->holds[i].given_up;
	}
	for (int l = 0; l < cycle->world->nlanes; l++)
	{
		tally->skipped += cycle->world->lanes[l].skip;
		if (cycle->world->lanes[l].reason != NULL)
			tally->reasons[cycle->world->lanes[l].reason->code]++;
	}
	for (int p = 0; p < ORACLE_POOLS; p++)
		for (int t = 0; t < ORACLE_TYPES; t++)
			tally->heads += cycle->oracle->heads[p][t].set;
}

static inline void
print_tally(const SimTally *tally)
{
	printf("# %ld admissions, %ld of them borrow; victims %ld borrowed, %ld reservation, %ld priority\n",
		   tally->admissions, tally->borrowed, tally->preemptions[0], tally->preemptions[1], tally->preemptions[2]);
	printf("# %ld holds, %ld admitted, %ld given up; %ld lanes skipped; %ld heads\n#", tally->held,
		   tally->holds_admitted, tally->holds_given_up, tally->skipped, tally->heads);
	for (int i = 1; i <= REASON_BEHIND; i++)
		if (tally->reasons[i] > 0)
			printf(" %s %ld", reason_code_name(i), tally->reasons[i]);
	printf("\n");
}

/* Between two cycles. */
static inline void
go_on(Sim *sim)
{
	int			events = 1 + below(9);

	sim_pass_time(sim, below(15));
	if (sim->cycle == 0)
		events = 12;
	else if (below(6) == 0)
		events = 0;
	for (; events > 0; events--)
		sim_event(sim);
	sim->batch = below(12) == 0 ? 1 + below(4) : 0;
}

/* Returns whether all of its cycles agreed and kept the invariants; shows the first that did not when it is to. */
static inline bool
run_sequence(int64 number, bool show, SimTally *tally)
{
	Sim			sim;
	SimHistory	history = {0};

	draw_sim(&sim, number);
	for (sim.cycle = 0; sim.cycle < SIM_CYCLES; sim.cycle++)
	{
		Sim			before;
		SimCycle	cycle;
		const char *broken;

		go_on(&sim);
		before = sim;
		decide_twice(&before, &cycle);
		if (cycle.differs != NULL)
		{
			if (show)
			{
				printf("sequence %ld, cycle %d, differs in: %s; made smaller:\n", number, sim.cycle, cycle.differs);
				shrink_sim(&before);
				decide_twice(&before, &cycle);
				print_cycle(&before, &cycle);
			}
			shim_reset();
			return false;
		}
		tally_cycle(&cycle, tally);
		sim_apply(&sim, cycle.world, cycle.plan);
		broken = check_cycle(&before, &sim, &cycle, &history);
		if (broken != NULL)
		{
			if (show)
			{
				printf("sequence %ld, cycle %d, broken: %s\n", number, sim.cycle, broken);
				print_cycle(&before, &cycle);
			}
			shim_reset();
			return false;
		}
		shim_reset();
	}
	return true;
}

#endif							/* TEST_SIM_SEQUENCE_H */

/*
 * cycles.h
 *
 * Small worlds that plans are carried out in, one after the other: what is admitted is placed, its victims are not
 * placed any more.
 */
#ifndef TEST_CYCLES_H
#define TEST_CYCLES_H

#include "worlds.h"

#define MOST_PLACED 64

/* Carries a plan out: what it admits is placed from now on, its victims are not. */
static inline void
carry_out(World *world, const CyclePlan *plan)
{
	if (world->placed == NULL)
		world->placed = palloc0(sizeof(Placed) * MOST_PLACED);
	for (int i = 0; i < plan->npreemptions; i++)
		plan->preemptions[i].victim->leaving = true;
	for (int i = 0; i < plan->nadmissions; i++)
	{
		const Admission *admission = &plan->admissions[i];
		Placed	   *placed = &world->placed[world->nplaced++];
		Waiting    *waiting = admission->lane->store;

		placed->workload_id = admission->member.workload_id;
		placed->account_id = admission->lane->account_id;
		placed->policy = admission->lane->policy;
		placed->pool = admission->pool;
		placed->home = admission->home;
		placed->type = admission->type;
		placed->priority = admission->lane->priority;
		placed->guarantee = admission->lane->guarantee;
		placed->submitted_at = admission->member.submitted_at;
		placed->started_at = world->now;
		placed->request = admission->lane->request;
		placed->npods = admission->npods;
		placed->pods = admission->pods;
		for (int m = 0; m < waiting->n; m++)
			if (waiting->members[m].workload_id == placed->workload_id)
			{
				memmove(waiting->members + m, waiting->members + m + 1, sizeof(Member) * (waiting->n - m - 1));
				waiting->n--;
				break;
			}
	}
}

static inline CyclePlan *
cycle(World *world)
{
	CyclePlan  *plan = plan_world(world);

	world->now++;
	carry_out(world, plan);
	return plan;
}

/* Whether a plan admits just these, in this order; a zero ends them. */
static inline bool
admits(const CyclePlan *plan, const int64 *ids)
{
	int			n = 0;

	for (; ids[n] != 0; n++)
		if (n >= plan->nadmissions || plan->admissions[n].member.workload_id != ids[n])
			return false;
	return plan->nadmissions == n;
}

#define IDS(...) ((const int64[]) {__VA_ARGS__, 0})
#define NOBODY ((const int64[]) {0})

static inline int64
gpus_held(const World *world, int policy)
{
	return world->policies[policy].held[0] / RPQ_UNIT;
}

static inline bool
says(const World *world, const Lane *lane, const char *sentence)
{
	const char *said = lane->reason == NULL ? "(nothing)" : reason_sentence(world, lane->reason);

	if (strcmp(said, sentence) == 0)
		return true;
	printf("# %s\n", said);
	return false;
}

/* Pools of one node with 8 GPUs each. */
static inline World *
pools_of_8(int npools)
{
	World	   *world = new_world(8, 8);
	int			type = add_type(world);

	for (int p = 0; p < npools; p++)
	{
		add_pool(world, psprintf("p%d", p + 1));
		add_pool_type(world, p, type, POLICY_BINPACK);
		world->pools[p].allow_guarantee = true;
		add_node(world, psprintf("n%d", p + 1), p, type, 8, 64, 64);
	}
	world->now = 1000;
	return world;
}

/* A queue of a policy into all pools, for jobs of so many GPUs. */
static inline Lane *
add_queue(World *world, int policy, int gpus)
{
	Lane	   *lane = add_lane(world, 0, 50, 1, gpus * 1000, 0);

	lane->policy = policy;
	lane->policy_id = world->policies[policy].policy_id;
	lane->npools = world->npools;
	for (int p = 0; p < world->npools; p++)
	{
		lane->pools[p] = p;
		reach_pool(world, policy, p);
	}
	if (world->policies[policy].limit != NULL)
		lane->limits[lane->nlimits++] = world->policies[policy].limit;
	return lane;
}

static inline void
limit_policy(World *world, int policy, int gpus)
{
	world->policies[policy].limit = new_limit(LIMIT_POLICY, -1, RPQ_WHOLE_POOL);
	world->policies[policy].limit->max[0] = gpus * RPQ_UNIT;
}

#endif							/* TEST_CYCLES_H */

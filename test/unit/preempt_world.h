/*
 * preempt_world.h
 *
 * Worlds in which workloads are placed, and what a preemption makes of them.
 */
#ifndef TEST_PREEMPT_WORLD_H
#define TEST_PREEMPT_WORLD_H

#include "worlds.h"

#include "core/preempt.h"

#define MAX_PLACED 24

static int	loads;
static int	slow_from;			/* victims with an id from here on are slow once their rows are taken */

static void
load_nothing(World *world)
{
	loads++;
}

static void
take_rows(World *world, Placed **victims, int nvictims)
{
	for (int i = 0; i < nvictims; i++)
		victims[i]->slow |= victims[i]->workload_id >= slow_from;
}

static World *
preempt_world(void)
{
	World	   *world = new_world(16, 16);

	world->placed = palloc0(sizeof(Placed) * MAX_PLACED);
	world->load_placed = load_nothing;
	world->take_victims = take_rows;
	world->now = 1000;
	loads = 0;
	slow_from = PG_INT32_MAX;
	add_type(world);
	return world;
}

/* What one more pod of a placed workload takes of a node: the lowest free devices. */
static void
add_pod(World *world, Placed *placed, int n)
{
	PoolNode   *node = &world->nodes[n];
	PodPlace   *pod = &placed->pods[placed->npods++];
	int64		gpu = placed->request[0];
	int64		charged[NKEYS];

	pod->node = n;
	pod->devices = palloc(sizeof(int) * (node->ndevices + 1));
	pod->ndevices = 0;
	for (int d = 0; d < node->ndevices && gpu > 0; d++)
		if (node->device_free[d] >= Min(gpu, RPQ_UNIT))
		{
			node->device_free[d] -= Min(gpu, RPQ_UNIT);
			gpu -= Min(gpu, RPQ_UNIT);
			pod->devices[pod->ndevices++] = d;
		}
	if (gpu > 0)
		abort();
	for (int k = 0; k < NKEYS; k++)
	{
		charged[k] = placed->request[k];
		node->free[k] -= charged[k];
		if (placed->home == placed->pool)
			world->pools[placed->pool].total->used[k] += charged[k];
		if (placed->policy >= 0)
			world->policies[placed->policy].held[k] += charged[k];
		if (placed->policy >= 0 && world->policies[placed->policy].limit != NULL)
			world->policies[placed->policy].limit->used[k] += charged[k];
	}
	if (world->pools[node->pool].isolate)
		node->account = node->account == 0 || node->account == placed->account_id ? placed->account_id :
			SEVERAL_ACCOUNTS;
}

/* Started one after the other, submitted in the same order. */
static Placed *
place(World *world, int64 id, int policy, int priority, int node, int64 gpu_milli, int64 cpu_milli)
{
	Placed	   *placed = &world->placed[world->nplaced++];
	int64	   *request = zeros();

	request[0] = gpu_milli * MILLI;
	request[1] = cpu_milli * MILLI;
	placed->workload_id = id;
	placed->account_id = 1;
	placed->policy = policy;
	placed->pool = placed->home = world->nodes[node].pool;
	placed->type = world->nodes[node].type;
	placed->priority = priority;
	placed->submitted_at = placed->started_at = placed->immune_until = world->nplaced;
	placed->request = request;
	placed->pods = palloc0(sizeof(PodPlace) * 16);
	add_pod(world, placed, node);
	return placed;
}

static Lane *
policy_lane(World *world, int policy, int pool, int priority, int replicas, int64 gpu_milli, int64 cpu_milli)
{
	Lane	   *lane = add_lane(world, pool, priority, replicas, gpu_milli, cpu_milli);

	lane->policy = policy;
	if (policy >= 0)
		reach_pool(world, policy, pool);
	return lane;
}

/* What was found, and what came of it: the ids of victims as text, in the order in which they were sought. */
typedef struct Outcome
{
	Placer	   *placer;
	Candidate	candidate;
	Victims		victims;
	Admission	admission;
	bool		at_once;
} Outcome;

static const char *
ids(const Victims *victims)
{
	char	   *text = palloc0(8 * MAX_PLACED + 1);

	for (int i = 0; i < victims->nvictims; i++)
		sprintf(text + strlen(text), "%s%ld", i > 0 ? " " : "", victims->victims[i]->workload_id);
	return text;
}

static void
find(Placer *placer, Lane *lane, Outcome *outcome)
{
	memset(outcome, 0, sizeof(Outcome));
	outcome->placer = placer;
	candidate_init(placer->world, lane, &outcome->candidate);
	preempt_find(placer, &outcome->candidate, &outcome->victims);
}

static bool
finds(World *world, Lane *lane, const char *expected)
{
	Outcome		outcome;

	find(placer_create(world), lane, &outcome);
	if (strcmp(ids(&outcome.victims), expected) == 0)
		return true;
	printf("# victims %s, expected %s\n", ids(&outcome.victims), expected);
	return false;
}

static bool
take(Outcome *outcome)
{
	outcome->at_once = preempt_take(outcome->placer, &outcome->candidate, &outcome->victims, &outcome->admission);
	return outcome->at_once;
}

/* The next plan: victims are gone, what was admitted is placed. */
static Placed *
settle(World *world, const Outcome *outcome, int64 id)
{
	const Admission *admission = &outcome->admission;
	Placed	   *placed;
	int			n = 0;

	for (int i = 0; i < world->nplaced; i++)
		if (!world->placed[i].leaving)
			world->placed[n++] = world->placed[i];
	placed = &world->placed[n];
	world->nplaced = n + 1;
	memset(placed, 0, sizeof(Placed));
	placed->workload_id = id;
	placed->policy = admission->lane->policy;
	placed->pool = admission->pool;
	placed->home = admission->home;
	placed->type = admission->type;
	placed->priority = admission->lane->priority;
	placed->submitted_at = placed->started_at = placed->immune_until = 100 + id;
	placed->request = admission->lane->request;
	placed->npods = admission->npods;
	placed->pods = admission->pods;
	return placed;
}

static bool
policy_holds(const World *world, int policy, int64 gpus)
{
	return world->policies[policy].held[0] == gpus * RPQ_UNIT;
}

/* Whether rooms say of each node what the node says of itself. */
static bool
rooms_agree(Placer *placer)
{
	World	   *world = placer->world;
	Placer	   *fresh = placer_create(world);
	bool		agree = true;

	for (int p = 0; p < world->npools; p++)
		for (int t = 0; t < world->pools[p].ntypes; t++)
		{
			Room	   *room = room_get(placer, p, t);
			Room	   *anew = room_get(fresh, p, t);

			for (int k = 0; k < NKEYS; k++)
				agree &= room->sum[k] == anew->sum[k] && room->unavailable[k] == anew->unavailable[k] &&
					(!room->isolate || room->hosting[k] == anew->hosting[k]);
			agree &= !room->isolate || room->nhosting == anew->nhosting;
			for (int account = 1; account < 4; account++)
				for (int gpu = 0; gpu <= 8; gpu++)
				{
					int64	   *request = zeros();

					request[0] = gpu == 0 ? RPQ_UNIT / 2 : gpu * RPQ_UNIT;
					agree &= room_count(room, need_create(world, request, 1000, account), 1000) ==
						room_count(anew, need_create(world, request, 1000, account), 1000);
				}
		}
	return agree;
}

#endif							/* TEST_PREEMPT_WORLD_H */

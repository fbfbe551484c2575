/*
 * test_reserve.c
 *
 * Whether reservations stay served: the check with its short cuts against a flow by all sets of policies, on random
 * small worlds in which candidates are admitted one after the other.  Prints TAP; exits 1 when a test failed.
 */
#include "worlds.h"

#include "core/reserve.h"

#define MOST_PICKED	5

/* What is free of a key on the nodes of a pool that take work. */
static int64
free_on_nodes(const World *world, int pool, int key)
{
	int64		sum = 0;

	for (int n = 0; n < world->nnodes; n++)
		if (world->nodes[n].pool == pool && world->nodes[n].takes_work)
			sum += Max(world->nodes[n].free[key], 0);
	return sum;
}

/*
 * What kept reservations get, by the least cut over all sets of policies: held and free are taken as given.
 */
static int64
served(const World *world, bool all, const int64 *unmet, const int64 *supply)
{
	int64		least = PG_INT64_MAX;

	for (int set = 0; set < 1 << world->npolicies; set++)
	{
		int64		cut = 0;

		for (int p = 0; p < world->npolicies; p++)
			if (!(set & (1 << p)) && (all || world->policies[p].hold) && world->policies[p].npools > 0)
				cut += unmet[p];
		for (int m = 0; m < world->npools; m++)
		{
			bool		reached = false;

			for (int p = 0; p < world->npolicies; p++)
				for (int i = 0; i < world->policies[p].npools; i++)
					reached |= (set & (1 << p)) && (all || world->policies[p].hold) &&
						world->policies[p].pools[i] == m;
			if (reached)
				cut += supply[m];
		}
		least = Min(least, cut);
	}
	return least;
}

static int64
wanted(const World *world, bool all, const int64 *unmet)
{
	int64		sum = 0;

	for (int p = 0; p < world->npolicies; p++)
		if ((all || world->policies[p].hold) && world->policies[p].npools > 0)
			sum += unmet[p];
	return sum;
}

/* The words of the specification, one by one. */
static bool
right_answer(const World *world, const Candidate *candidate, int pool, const int64 *more, const int64 *less)
{
	const Lane *lane = candidate->lane;
	bool		all = (lane->guarantee || world->pools[pool].pay_as_you_go) && !candidate_has_rank(world, candidate);

	for (int k = 0; k < NKEYS; k++)
	{
		int64		unmet[MAX_POLICIES];
		int64		after[MAX_POLICIES];
		int64		supply[MAX_POOLS];
		int64		missing;

		for (int p = 0; p < world->npolicies; p++)
		{
			int64		held = world->policies[p].held[k];

			unmet[p] = Max(0, world->policies[p].reservation[k] - held);
			if (p == lane->policy)
				held += candidate->total[k] - (less != NULL ? less[k] : 0);
			after[p] = Max(0, world->policies[p].reservation[k] - held);
		}
		for (int m = 0; m < world->npools; m++)
			supply[m] = free_on_nodes(world, m, k);
		missing = wanted(world, all, unmet) - served(world, all, unmet, supply);
		supply[pool] = Max(0, supply[pool] + (more != NULL ? more[k] : 0) - candidate->total[k]);
		if (candidate->total[k] > 0 && wanted(world, all, after) - served(world, all, after, supply) > missing)
			return false;
	}
	return true;
}

static World *
draw_policies(void)
{
	World	   *world = new_world(12, 8);
	int			type = add_type(world);
	int			npools = 1 + below(4);
	int			npolicies = 1 + below(5);

	for (int p = 0; p < npools; p++)
	{
		add_pool(world, psprintf("p%d", p));
		add_pool_type(world, p, type, POLICY_BINPACK);
		world->pools[p].pay_as_you_go = below(5) == 0;
		world->pools[p].isolate = below(4) == 0;
		world->pools[p].allow_guarantee = true;
	}
	for (int n = 0; n < 3 * npools; n++)
	{
		PoolNode   *node = add_node(world, psprintf("n%02d", n), below(npools), type, 4, 16, 0);

		node->takes_work = below(5) > 0;
		if (world->pools[node->pool].isolate)
			node->account = below(3);
		load_node(world, node, below(4), below(8));
	}
	for (int p = 0; p < npolicies; p++)
	{
		add_policy(world, psprintf("y%d", p), below(8));
		world->policies[p].reservation[1] = below(3) == 0 ? below(30) * RPQ_UNIT : 0;
		world->policies[p].held[0] = below(6) * RPQ_UNIT;
		world->policies[p].held[1] = below(6) * RPQ_UNIT;
		world->policies[p].hold = below(2);
		for (int m = 0; m < npools; m++)
			if (below(2))
				reach_pool(world, p, m);
	}
	for (int l = 0; l < 5; l++)
	{
		Lane	   *lane = add_lane(world, 0, 50, 1 + below(2), 1000 * below(5), 1000 * below(4));

		lane->account_id = 1 + below(2);
		lane->guarantee = below(3) == 0;
		if (below(2))
		{
			lane->policy = below(npolicies);
			lane->npools = world->policies[lane->policy].npools;
			memcpy(lane->pools, world->policies[lane->policy].pools, sizeof(int) * lane->npools);
		}
		else
			lane->pools[0] = below(npools);
		if (lane->request[0] + lane->request[1] == 0)
			lane->request[0] = RPQ_UNIT;
	}
	return world;
}

static void
draw_room(int64 *more, int64 *less)
{
	for (int k = 0; k < NKEYS; k++)
	{
		more[k] = below(5) * RPQ_UNIT;
		less[k] = below(3) * RPQ_UNIT;
	}
}

static void
test_random(int n)
{
	int			wrong = 0;
	int			wrong_with = 0;
	int			unsaid = 0;
	int			passed = 0;
	int			failed = 0;

	for (int i = 0; i < n; i++)
	{
		World	   *world;
		Placer	   *placer;

		seed_with(i);
		world = draw_policies();
		placer = placer_create(world);
		for (int step = 0; step < 8; step++)
		{
			Candidate	candidate;
			Lane	   *lane = &world->lanes[below(world->nlanes)];
			int			pool;
			bool		passes;
			int64		more[NKEYS];
			int64		less[NKEYS];
			Spot		spot;
			Reason	   *reason = NULL;

			if (lane->npools == 0)
				continue;
			pool = lane->pools[below(lane->npools)];
			candidate_init(world, lane, &candidate);
			draw_room(more, less);
			passes = reserved_passes(placer, &candidate, pool, NULL, NULL);
			wrong += passes != right_answer(world, &candidate, pool, NULL, NULL);
			wrong_with += reserved_passes(placer, &candidate, pool, more, lane->policy < 0 ? NULL : less) !=
				right_answer(world, &candidate, pool, more, lane->policy < 0 ? NULL : less);
			passed += passes;
			failed += !passes;
			if (!passes)
				unsaid += reason_sentence(world, reserved_reason(placer, &candidate, pool))[0] == '\0';
			if (candidate_fits(placer, &candidate, &spot, &reason))
				candidate_admit(placer, &candidate, spot, &(Admission) {0});
			else if (below(3) == 0)
			{
				int			p = below(world->npolicies);
				const int64 *held = world->policies[p].held;

				policy_hold(placer, p, more, held[0] >= more[0] && held[1] >= more[1] && below(2) ? -1 : 1);
			}
		}
		shim_reset();
	}
	printf("# %d passed, %d failed\n", passed, failed);
	ok(wrong == 0, "reservations are served as well as before, or the check fails");
	ok(wrong_with == 0, "so with room of victims, and with what the own policy gives");
	ok(unsaid == 0, "who fails has a sentence");
	ok(passed > n && failed > n / 2, "both were tried often");
}

int
main(void)
{
	test_random(6000);
	return done_testing();
}

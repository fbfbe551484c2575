/*
 * test_preempt.c
 *
 * Whose room a workload takes: rules, order, sparing, gangs, rights in several resources, slow victims; and random
 * worlds against a search through all subsets.
 */
#include "preempt_world.h"
#include "preempt_random.h"

/* F07: room is claimed back from who holds more than its reservation, never from who stands at it. */
static void
test_reclaim(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	int			a;
	int			b;
	int			c;
	Lane	   *a_lane;
	Lane	   *a3;
	Outcome		outcome;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 8, 64, 64);
	add_node(world, "n2", p, 0, 8, 64, 64);
	a = add_policy(world, "a", 8);
	b = add_policy(world, "b", 4);
	c = add_policy(world, "c", 4);
	place(world, 1, b, 50, 0, 4000, 0);
	place(world, 2, b, 50, 0, 4000, 0);
	place(world, 3, b, 50, 1, 2000, 0);
	place(world, 4, c, 50, 1, 4000, 0);
	reach_pool(world, b, p);
	reach_pool(world, c, p);
	a_lane = policy_lane(world, a, p, 50, 1, 4000, 0);
	a3 = policy_lane(world, a, p, 50, 1, 2000, 0);

	find(placer_create(world), a_lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "3") == 0 && outcome.victims.rules[0] == PREEMPT_RESERVATION,
	   "F07 (1): the smallest of those above their reservation is enough");
	ok(take(&outcome) && outcome.admission.pods[0].node == 1 && policy_holds(world, a, 4) &&
	   policy_holds(world, b, 8) && policy_holds(world, c, 4) && world->pools[p].total->used[0] == 16 * RPQ_UNIT &&
	   rooms_agree(outcome.placer), "F07 (1): it runs in the room of the victim and what was free");
	settle(world, &outcome, 11);

	find(placer_create(world), a_lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "2") == 0 && take(&outcome) && outcome.admission.pods[0].node == 0 &&
	   policy_holds(world, a, 8) && policy_holds(world, b, 4), "F07 (2): of b's two the latest");
	settle(world, &outcome, 12);
	ok(finds(world, a3, ""), "F07 (3): a policy at its reservation takes from nobody");
}

/* F09: room is held while a victim has still to stop, and nobody is taken twice. */
static void
test_slow(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	Placer	   *placer;
	Placed	   *low;
	Lane	   *high;
	Lane	   *later;
	Outcome		outcome;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 8, 64, 64);
	low = place(world, 1, -1, 10, 0, 4000, 1000);
	place(world, 2, -1, 50, 0, 4000, 1000);
	high = add_lane(world, p, 100, 1, 4000, 0);
	later = add_lane(world, p, 40, 1, 1000, 0);
	slow_from = 0;
	placer = placer_create(world);
	find(placer, high, &outcome);
	ok(strcmp(ids(&outcome.victims), "1") == 0 && outcome.victims.rules[0] == PREEMPT_PRIORITY,
	   "F09: the lowest priority is taken");
	ok(!take(&outcome) && low->leaving && outcome.admission.pods[0].node == 0 && outcome.admission.npods == 1,
	   "F09: its room is held");
	ok(world->nodes[0].free[0] == 0 && world->nodes[0].device_free[0] == 0 &&
	   world->nodes[0].free[1] == 62 * RPQ_UNIT && rooms_agree(placer),
	   "F09: nothing of what the victim has is free before it has stopped");
	ok(world->pools[p].total->used[0] == 8 * RPQ_UNIT, "F09: what both have is counted once in the pool's total");
	find(placer, later, &outcome);
	ok(outcome.victims.nvictims == 0, "F09: nobody is a victim twice");
	find(placer, high, &outcome);
	ok(strcmp(ids(&outcome.victims), "2") == 0 && loads == 1,
	   "F09: a second one takes another victim; what is placed was loaded once");
}

/* F11: of equals the latest submitted is taken, in whatever order rows come. */
static void
test_equals(void)
{
	bool		passed = true;

	for (int turn = 0; turn < 2; turn++)
	{
		World	   *world = preempt_world();
		int			p = add_pool(world, "p");
		Placed	   *placed[2];

		add_pool_type(world, p, 0, POLICY_BINPACK);
		add_node(world, "n1", p, 0, 2, 64, 64);
		for (int i = 0; i < 2; i++)
			placed[i ^ turn] = place(world, 1 + (i ^ turn), -1, 40, 0, 1000, 0);
		for (int i = 0; i < 2; i++)
		{
			placed[i]->started_at = placed[i]->immune_until = 500;
			placed[i]->submitted_at = 100 + i;
		}
		passed &= finds(world, add_lane(world, p, 60, 1, 1000, 0), "2");
		placed[0]->submitted_at = placed[1]->submitted_at;
		passed &= finds(world, add_lane(world, p, 60, 1, 1000, 0), "2");
		placed[0]->submitted_at++;
		passed &= finds(world, add_lane(world, p, 60, 1, 1000, 0), "1");
		placed[1]->started_at++;
		passed &= finds(world, add_lane(world, p, 60, 1, 1000, 0), "2");
		placed[0]->checkpointable = true;
		passed &= finds(world, add_lane(world, p, 60, 1, 1000, 0), "1");
		placed[1]->priority--;
		passed &= finds(world, add_lane(world, p, 60, 1, 1000, 0), "2");
	}
	ok(passed, "F11: priority, checkpointable, latest started, latest submitted, highest id");
}

/* Who may be taken at all. */
static void
test_protected(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	int			a;
	Placed	   *placed;
	Lane	   *lane;
	Lane	   *equal;
	Lane	   *idle;
	Lane	   *other;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 4, 64, 64);
	a = add_policy(world, "a", 0);
	placed = place(world, 1, -1, 40, 0, 4000, 0);
	lane = add_lane(world, p, 60, 1, 1000, 0);
	equal = add_lane(world, p, 40, 1, 1000, 0);
	idle = add_lane(world, p, 0, 1, 1000, 0);
	other = policy_lane(world, a, p, 60, 1, 1000, 0);
	ok(finds(world, lane, "1") && finds(world, equal, ""), "lower priority alone");
	ok(finds(world, other, ""), "without an unmet reservation a policy takes nothing from direct submissions");
	loads = 0;
	ok(finds(world, idle, "") && loads == 0, "for the lowest priority nothing is loaded");
	placed->immune_until = 1001;
	ok(finds(world, lane, ""), "not before the pool's least time is over");
	placed->immune_until = 1000;
	ok(finds(world, lane, "1"), "but then");
	placed->guarantee = true;
	ok(finds(world, lane, ""), "guaranteed work never");
	placed->guarantee = false;
	placed->leaving = true;
	ok(finds(world, lane, ""), "nor what is leaving");
	placed->leaving = false;
	world->pools[p].pay_as_you_go = true;
	loads = 0;
	ok(finds(world, lane, "") && loads == 0, "nothing in a pay-as-you-go pool, and nothing is loaded");
	world->pools[p].pay_as_you_go = false;
	world->load_placed = NULL;
	world->nplaced = 0;
	world->placed = NULL;
	ok(finds(world, lane, ""), "nothing where nothing can be loaded");
}

/* A gang is taken as a whole, and one that is not needed is spared, the dearest first. */
static void
test_gangs_and_sparing(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	Placed	   *gang;
	Outcome		outcome;
	Lane	   *lane;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	for (int i = 0; i < 3; i++)
		add_node(world, psprintf("n%d", i), p, 0, 8, 64, 64);
	gang = place(world, 1, -1, 20, 0, 4000, 0);
	add_pod(world, gang, 1);
	place(world, 2, -1, 10, 0, 2000, 0);	/* cheaper, and of no use */
	place(world, 3, -1, 15, 1, 1000, 0);	/* likewise */
	place(world, 4, -1, 30, 2, 8000, 0);
	place(world, 5, -1, 90, 0, 2000, 0);
	place(world, 6, -1, 90, 1, 3000, 0);
	lane = add_lane(world, p, 50, 2, 4000, 0);
	find(placer_create(world), lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "1") == 0, "a gang is taken, cheaper ones that do not help are spared");
	ok(take(&outcome) && outcome.admission.npods == 2 && rooms_agree(outcome.placer) &&
	   world->pools[p].total->used[0] == 24 * RPQ_UNIT, "its pods are all gone");
	ok(finds(world, add_lane(world, p, 50, 1, 8000, 0), "4"), "one for a whole node");
	ok(finds(world, add_lane(world, p, 50, 3, 4000, 0), ""), "nothing is taken where it would not be enough");
}

/* A claim in one resource never weakens a right in another. */
static void
test_keys(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	int			a;
	int			b;
	Lane	   *lane;
	Lane	   *gpu_alone;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 8, 8, 64);
	a = add_policy(world, "a", 4);
	b = add_policy(world, "b", 2);
	world->policies[a].reservation[1] = 4 * RPQ_UNIT;
	world->policies[b].reservation[1] = 8 * RPQ_UNIT;
	place(world, 1, b, 50, 0, 4000, 4000);
	place(world, 2, b, 50, 0, 4000, 4000);
	reach_pool(world, b, p);
	lane = policy_lane(world, a, p, 50, 1, 2000, 2000);
	gpu_alone = policy_lane(world, a, p, 50, 1, 2000, 0);
	ok(finds(world, lane, ""), "b is above in gpu and stands at its cpu: nothing is taken for both");
	ok(finds(world, gpu_alone, "2"), "for gpu alone it may be");
	world->policies[b].reservation[1] = 4 * RPQ_UNIT;
	ok(finds(world, lane, "2"), "above in both keys: one is taken");
	world->policies[b].reservation[0] = 5 * RPQ_UNIT;
	ok(finds(world, lane, ""), "not when it would fall below its reservation");
	world->policies[a].reservation[1] = RPQ_UNIT;
	world->policies[b].reservation[0] = 0;
	ok(finds(world, lane, ""), "who does not fit into its own reservation in every key has no claim");
	ok(finds(world, policy_lane(world, a, p, 100, 1, 2000, 2000), ""), "whatever its priority");
}

/* Those chosen before count: a policy is never taken below its reservation by a set. */
static void
test_chosen_before(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	int			a;
	int			b;
	int			c;
	Outcome		outcome;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 8, 64, 64);
	a = add_policy(world, "a", 8);
	b = add_policy(world, "b", 2);
	c = add_policy(world, "c", 1);
	for (int i = 0; i < 4; i++)
		place(world, 1 + i, b, 50, 0, 1000, 0);
	for (int i = 0; i < 3; i++)
		place(world, 11 + i, c, 50, 0, 1000, 0);
	place(world, 21, -1, 50, 0, 1000, 0);
	reach_pool(world, b, p);
	reach_pool(world, c, p);
	ok(finds(world, policy_lane(world, a, p, 0, 1, 1000, 0), "21"), "direct submissions first");
	ok(finds(world, policy_lane(world, a, p, 0, 1, 2000, 0), "21 13"),
	   "policies equally far above: the latest started");
	ok(finds(world, policy_lane(world, a, p, 0, 1, 5000, 0), "21 13 12 4 3"), "each down to its reservation");
	ok(finds(world, policy_lane(world, a, p, 0, 1, 6000, 0), ""), "and no further");
	world->policies[b].reservation[0] = RPQ_UNIT;
	ok(finds(world, policy_lane(world, a, p, 0, 1, 2000, 0), "21 4"), "policies most above their reservation first");
	find(placer_create(world), policy_lane(world, a, p, 0, 1, 5000, 0), &outcome);
	ok(strcmp(ids(&outcome.victims), "21 4 3 2 13") == 0, "as things stand when the search begins");
	take(&outcome);
	ok(policy_holds(world, a, 5) && policy_holds(world, b, 1) && policy_holds(world, c, 2),
	   "what policies hold is counted");
}

/* What a policy has to give is not spent where it does not help. */
static void
test_little_to_give(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	int			a;
	int			b;
	Lane	   *lane;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	for (int i = 0; i < 3; i++)
		add_node(world, psprintf("n%d", i), p, 0, 2, 64, 64);
	a = add_policy(world, "a", 3);
	b = add_policy(world, "b", 1);
	place(world, 1, -1, 50, 0, 500, 0);
	place(world, 2, b, 50, 0, 500, 0);
	place(world, 3, b, 50, 0, 500, 0);
	place(world, 4, b, 50, 0, 500, 0);
	world->nodes[1].takes_work = world->nodes[2].takes_work = false;
	reach_pool(world, b, p);
	lane = policy_lane(world, a, p, 50, 1, 1000, 0);
	ok(finds(world, lane, "1 2"), "half a device of b: the one beside the half that may be taken as well");
	world->nodes[1].takes_work = world->nodes[2].takes_work = true;
	for (int i = 1; i < 3; i++)
		for (int j = 0; j < 2; j++)
			place(world, 11 + 2 * i + j, b, i == 1 && j == 0 ? 60 : 10, i, 1000, 0);
	world->placed[5].started_at = 100;
	world->policies[b].reservation[0] = 7 * RPQ_UNIT / 2;
	lane->request[0] = 2 * RPQ_UNIT;
	ok(finds(world, lane, "16 15"), "the cheapest is alone on its node: the two after it");
	world->policies[b].reservation[0] -= RPQ_UNIT / 2;
	ok(finds(world, lane, "16 15"), "with more to give likewise");
	world->placed[6].guarantee = true;
	ok(finds(world, lane, "1 4 3 2"), "all there is to give, on the only node that it empties");
	world->policies[b].reservation[0] += 3 * RPQ_UNIT / 2;
	ok(finds(world, lane, ""), "and nothing of what b has reserved");
}

/* A node that is over: what leaves fills the gap first, and devices that are lost are never free. */
static void
test_over(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	Lane	   *lane;
	Outcome		outcome;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 4, 8, 64);
	for (int i = 0; i < 4; i++)
		place(world, 1 + i, -1, 10, 0, 1000, 2000);
	world->nodes[0].device_free[3] = -RPQ_UNIT;
	world->nodes[0].free[1] = -3 * RPQ_UNIT;
	lane = add_lane(world, p, 50, 1, 1000, 1000);
	find(placer_create(world), lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "4 3") == 0, "one of them fills the gap");
	ok(take(&outcome) && outcome.admission.pods[0].devices[0] == 2 && world->nodes[0].free[0] == 0 &&
	   world->nodes[0].device_free[3] == 0 && world->nodes[0].free[1] == 0 && rooms_agree(outcome.placer),
	   "on a device that is there");
	ok(room_get(outcome.placer, p, 0)->sum[1] == 0, "no sum is below zero");
	lane->request[1] = 0;
	ok(finds(world, lane, "2"), "another device");
}

/* What borrows in an exclusive pool goes first, whatever its priority and however short it has run. */
static void
test_borrowed(void)
{
	World	   *world = preempt_world();
	int			s = add_pool(world, "s");
	int			x = add_pool(world, "x");
	int			a;
	Placed	   *borrows;
	Outcome		outcome;

	add_pool_type(world, s, 0, POLICY_BINPACK);
	add_pool_type(world, x, 0, POLICY_SPREAD);
	add_node(world, "n1", s, 0, 4, 64, 64);
	add_node(world, "n2", x, 0, 4, 64, 64);
	world->pools[x].exclusive = true;
	a = add_policy(world, "a", 0);
	place(world, 1, -1, 10, 1, 2000, 0);
	borrows = place(world, 2, -1, 100, 1, 2000, 0);
	borrows->home = s;
	borrows->immune_until = 5000;
	world->pools[x].total->used[0] = 2 * RPQ_UNIT;
	place(world, 3, -1, 10, 0, 4000, 0);
	ok(finds(world, add_lane(world, x, 0, 1, 1000, 0), "2"), "at home in the pool, the lowest priority takes it back");
	ok(finds(world, add_lane(world, x, 50, 1, 1000, 0), "2"), "before a lower priority");
	ok(finds(world, policy_lane(world, a, x, 0, 1, 1000, 0), "2"), "through a queue as well");
	ok(finds(world, add_lane(world, x, 50, 1, 4000, 0), "2 1"), "then lower priority");
	find(placer_create(world), add_lane(world, x, 50, 1, 2000, 0), &outcome);
	ok(outcome.victims.rules[0] == PREEMPT_BORROWED && take(&outcome) &&
	   world->pools[x].total->used[0] == 4 * RPQ_UNIT && world->pools[s].total->used[0] == 4 * RPQ_UNIT &&
	   rooms_agree(outcome.placer), "borrowed work is in no pool's total");
}

/* The best set is that whose dearest victim is the least dear; then the smaller one; then routing order. */
static void
test_best_set(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	int			q = add_pool(world, "q");
	int			a;
	Lane	   *lane;
	Outcome		outcome;

	add_type(world);
	add_pool_type(world, p, 0, POLICY_BINPACK);
	add_pool_type(world, q, 0, POLICY_BINPACK);
	add_pool_type(world, q, 1, POLICY_BINPACK);
	add_node(world, "n1", p, 0, 4, 64, 64);
	add_node(world, "n2", q, 0, 4, 64, 64);
	add_node(world, "n3", q, 1, 4, 64, 64);
	a = add_policy(world, "a", 0);
	place(world, 1, a, 30, 0, 4000, 0);
	place(world, 2, a, 20, 1, 2000, 0);
	place(world, 3, a, 25, 1, 2000, 0);
	place(world, 4, a, 20, 2, 3000, 0);
	place(world, 5, a, 28, 2, 1000, 0);
	lane = policy_lane(world, a, p, 50, 1, 4000, 0);
	lane->pools[lane->npools++] = q;
	reach_pool(world, a, q);
	find(placer_create(world), lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "2 3") == 0 && outcome.victims.pool == q && outcome.victims.type == 0,
	   "two cheap ones before one that is dearer");
	take(&outcome);
	ok(outcome.admission.pool == q && outcome.admission.home == q && outcome.admission.pods[0].node == 1 &&
	   rooms_agree(outcome.placer), "in the pool that they were in");
	world->pools[q].closed = REASON_POOL_FROZEN;
	ok(finds(world, lane, "1"), "nothing in a pool that is closed");
	world->pools[q].closed = REASON_NONE;
	world->pools[p].closed = REASON_POOL_FROZEN;
	lane->type_allowed = palloc0(sizeof(bool) * MAX_TYPES);
	lane->type_allowed[1] = true;
	ok(finds(world, lane, "4 5"), "nor on a type that is not allowed");
	lane->own = REASON_BACKING_OFF;
	ok(finds(world, lane, ""), "nor for one that may not be admitted at all");
}

/* Victims of which some are slow: what the others had is free beyond the hold. */
static void
test_slow_and_not(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	Placer	   *placer;
	Lane	   *lane;
	Outcome		outcome;
	PoolNode   *n1;
	PoolNode   *n2;
	UsageLimit *quota = new_limit(LIMIT_USER, p, RPQ_WHOLE_POOL);

	add_pool_type(world, p, 0, POLICY_BINPACK);
	n1 = add_node(world, "n1", p, 0, 4, 64, 64);
	n2 = add_node(world, "n2", p, 0, 4, 64, 64);
	place(world, 1, -1, 10, 0, 3000, 3000);
	place(world, 9, -1, 10, 0, 1000, 1000);
	place(world, 2, -1, 11, 1, 4000, 4000);
	quota->used[0] = 8 * RPQ_UNIT;
	add_lane(world, p, 10, 1, 1000, 0)->limits[0] = quota;
	world->lanes[0].nlimits = 1;
	world->lanes[0].account_id = 1;
	lane = add_lane(world, p, 50, 2, 3000, 0);
	lane->account_id = 2;
	slow_from = 9;
	placer = placer_create(world);
	find(placer, lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "1 2") == 0, "two of three are needed");
	world->placed[2].slow = true;
	ok(!take(&outcome), "one of them is slow");
	ok(n1->free[0] == 0 && n1->free[1] == 63 * RPQ_UNIT && n2->free[0] == 0 && n2->free[1] == 60 * RPQ_UNIT &&
	   rooms_agree(placer), "what the other had is free but for the hold; of the slow one nothing");
	ok(quota->used[0] == 5 * RPQ_UNIT, "personal quotas count the slow one still, and the other no more");
	ok(world->pools[p].total->used[0] == 7 * RPQ_UNIT, "the pool's total counts the hold beyond what the slow one has");
}

/* Where accounts are kept apart, a node is open once nobody else's pods are left on it. */
static void
test_isolated(void)
{
	World	   *world = preempt_world();
	int			p = add_pool(world, "p");
	Lane	   *lane;
	Outcome		outcome;

	add_pool_type(world, p, 0, POLICY_BINPACK);
	world->pools[p].isolate = true;
	for (int i = 0; i < 3; i++)
		add_node(world, psprintf("n%d", i), p, 0, 4, 64, 64);
	place(world, 1, -1, 10, 0, 1000, 0);
	place(world, 2, -1, 90, 0, 1000, 0);
	place(world, 3, -1, 20, 1, 1000, 0);
	place(world, 4, -1, 15, 1, 1000, 0);
	place(world, 5, -1, 30, 2, 1000, 0)->account_id = 2;
	place(world, 6, -1, 90, 2, 1000, 0)->account_id = 2;
	world->nodes[2].account = 2;
	place(world, 7, -1, 30, 2, 0, 1000)->account_id = 3;
	world->nodes[2].account = SEVERAL_ACCOUNTS;
	lane = add_lane(world, p, 50, 1, 2000, 0);
	lane->account_id = 3;
	ok(finds(world, lane, "4 3"), "all of another account's have to leave");
	lane->account_id = 2;
	find(placer_create(world), lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "4 3") == 0, "the set whose dearest comes first");
	world->placed[2].guarantee = true;
	find(placer_create(world), lane, &outcome);
	ok(strcmp(ids(&outcome.victims), "7") == 0, "of a node with several accounts the others");
	ok(take(&outcome) && outcome.admission.pods[0].node == 2 && world->nodes[2].account == 2 &&
	   rooms_agree(outcome.placer), "whose node it then is");
	world->placed[2].guarantee = false;
	lane->account_id = 3;
	find(placer_create(world), lane, &outcome);
	slow_from = 4;
	ok(!take(&outcome) && world->nodes[1].account == SEVERAL_ACCOUNTS && rooms_agree(outcome.placer),
	   "while a victim is still there, it hosts several");
}

int
main(void)
{
	test_reclaim();
	test_slow();
	test_equals();
	test_protected();
	test_gangs_and_sparing();
	test_keys();
	test_chosen_before();
	test_little_to_give();
	test_over();
	test_borrowed();
	test_best_set();
	test_slow_and_not();
	test_isolated();
	test_random();
	return done_testing();
}

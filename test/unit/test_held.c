/*
 * test_held.c
 *
 * What a plan does over time: room that is held while victims stop, target nodes of lanes that are skipped, and what
 * the batch cuts off.  Prints TAP; exits 1 when a test failed.
 */
#include "cycles.h"

static bool all_slow;

static void
take_victims(World *world, Placed **victims, int nvictims)
{
	for (int i = 0; i < nvictims; i++)
		victims[i]->slow = all_slow || victims[i]->workload_id % 2 == 1;
}

/* A hold as it would be read back: of the first preemptor of a plan. */
static RoomHold *
hold_of(World *world, const CyclePlan *plan, int npending)
{
	RoomHold   *hold = palloc0(sizeof(RoomHold));
	const Admission *held = &plan->held[0];

	hold->lane = held->lane;
	hold->member = held->member;
	hold->pool = held->pool;
	hold->type = held->type;
	hold->npods = held->npods;
	hold->pods = held->pods;
	hold->npending = npending;
	hold->by_priority = -1;
	for (int i = 0; i < plan->npreemptions; i++)
	{
		hold->nvictims++;
		hold->by_right |= plan->preemptions[i].rule == PREEMPT_BORROWED;
		hold->by_reservation |= plan->preemptions[i].rule == PREEMPT_RESERVATION;
		if (plan->preemptions[i].rule == PREEMPT_PRIORITY)
			hold->by_priority = Max(hold->by_priority, plan->preemptions[i].victim->priority);
	}
	((Waiting *) held->lane->store)->n = 0;
	world->nholds = 1;
	world->holds = hold;
	return hold;
}

/* A pool full of four jobs of one policy; one of another policy has come that needs two of them. */
static World *
full_pool(Lane **preemptor, CyclePlan **plan)
{
	World	   *world = pools_of_8(1);
	Lane	   *dev;

	add_policy(world, "dev", 4);
	add_policy(world, "research", 4);
	dev = add_queue(world, 0, 2);
	for (int i = 1; i <= 4; i++)
		add_member(dev, i, i);
	cycle(world);
	*preemptor = add_queue(world, 1, 4);
	add_member(*preemptor, 10, 10);
	world->take_victims = take_victims;
	all_slow = false;
	*plan = cycle(world);
	return world;
}

static void
test_hold(void)
{
	Lane	   *lane;
	CyclePlan  *plan;
	World	   *world = full_pool(&lane, &plan);
	RoomHold   *hold;
	Lane	   *late;

	ok(admits(plan, NOBODY) && plan->nheld == 1 && plan->npreemptions == 2 &&
	   plan->held[0].member.workload_id == 10, "while one of its victims stops, room is held for the preemptor");
	ok(gpus_held(world, 0) == 4 && gpus_held(world, 1) == 4, "reservations count it as given");
	ok(lane->reason != NULL && lane->reason->code == REASON_PREEMPTING &&
	   says(world, lane, "room is held on n1; 1 of 2 victims have still to stop"), "and it says so");
	ok(lane->head_at == 10 && lane->head_id == 10, "its lane does not lose it");

	late = add_queue(world, 1, 4);
	add_member(late, 20, 20);
	hold = hold_of(world, plan, 1);
	plan = cycle(world);
	ok(admits(plan, NOBODY) && plan->npreemptions == 0 && !hold->admitted && !hold->given_up &&
	   late->reason->code != REASON_PREEMPTING, "what is held is kept, and nobody else's");
	hold->npending = 0;
	plan = cycle(world);
	ok(admits(plan, IDS(10)) && hold->admitted && plan->admissions[0].pods == hold->pods,
	   "when all have stopped it is admitted where its room is");
	ok(gpus_held(world, 1) == 4 && world->pools[0].total->used[0] == 8 * RPQ_UNIT, "and counted once");
	shim_reset();
}

static void
test_given_up(void)
{
	Lane	   *lane;
	CyclePlan  *plan;
	World	   *world = full_pool(&lane, &plan);
	RoomHold   *hold = hold_of(world, plan, 1);

	world->policies[1].reservation[0] = 3 * RPQ_UNIT;
	cycle(world);
	ok(hold->given_up, "given up when the reservation no longer covers it");
	hold->npending = 0;
	cycle(world);
	ok(hold->admitted, "but not when nobody has still to stop");

	world->policies[1].reservation[0] = 4 * RPQ_UNIT;
	hold->npending = 1;
	lane->own = REASON_NOT_AUTHORIZED;
	cycle(world);
	ok(hold->given_up, "given up when it may no longer be admitted");
	lane->own = REASON_NONE;
	world->pools[0].closed = REASON_POOL_FROZEN;
	cycle(world);
	ok(hold->given_up, "or the pool is frozen");
	world->pools[0].closed = REASON_NONE;
	world->nodes[0].takes_work = false;
	hold->npending = 0;
	cycle(world);
	ok(hold->given_up && !hold->admitted, "or its node takes no work");
	world->nodes[0].takes_work = true;
	limit_policy(world, 1, 3);
	world->policies[1].limit->used[0] = 4 * RPQ_UNIT;
	lane->limits[lane->nlimits++] = world->policies[1].limit;
	cycle(world);
	ok(hold->given_up, "or it is beyond the limit of its policy, itself counted in");
	world->policies[1].limit->max[0] = 4 * RPQ_UNIT;
	cycle(world);
	ok(hold->admitted, "and not when it is just within");
	hold->lane = NULL;
	cycle(world);
	ok(hold->given_up, "or it no longer waits");
	shim_reset();
}

static void
test_by_priority(void)
{
	World	   *world = pools_of_8(1);
	Lane	   *low = add_lane(world, 0, 10, 1, 8000, 0);
	Lane	   *high;
	RoomHold   *hold;
	CyclePlan  *plan;

	add_member(low, 1, 1);
	cycle(world);
	high = add_lane(world, 0, 20, 1, 8000, 0);
	add_member(high, 2, 2);
	world->take_victims = take_victims;
	all_slow = true;
	plan = cycle(world);
	ok(plan->nheld == 1 && plan->preemptions[0].rule == PREEMPT_PRIORITY && plan->preemptions[0].rank == 1,
	   "direct submissions take from lower priority");
	ok(world->pools[0].total->used[0] == 8 * RPQ_UNIT, "the pool's total counts the room once");
	hold = hold_of(world, plan, 1);
	cycle(world);
	ok(!hold->given_up && !hold->admitted, "and keep it");
	high->priority = 10;
	cycle(world);
	ok(hold->given_up, "until the priority no longer is lower");
	shim_reset();
}

/* ---- backfill ---- */

static void
read_ends(World *world, const int *nodes, int nnodes, TimestampTz *ends)
{
	for (int i = 0; i < nnodes; i++)
		ends[i] = 5000;
}

/* A gang of two nodes waits, one of them has something on it. */
static World *
waiting_gang(Lane **gang)
{
	World	   *world = new_world(8, 8);
	int			type = add_type(world);

	add_pool(world, "p");
	add_pool_type(world, 0, type, POLICY_BINPACK);
	world->pools[0].best_effort = false;
	for (int n = 0; n < 3; n++)
		add_node(world, psprintf("n%d", n + 1), 0, type, 8, 64, 64);
	load_node(world, &world->nodes[0], 6, 0);
	load_node(world, &world->nodes[1], 1, 0);
	world->now = 1000;
	world->read_ends = read_ends;
	*gang = add_lane(world, 0, 50, 3, 8000, 0);
	add_member(*gang, 7, 7);
	return world;
}

static void
test_targets(void)
{
	Lane	   *gang;
	Lane	   *small;
	World	   *world = waiting_gang(&gang);

	(*gang).replicas = 2;
	small = add_lane(world, 0, 50, 1, 1000, 0);
	add_member(small, 8, 8);
	add_member(small, 9, 9);
	add_member(small, 10, 10);
	ok(admits(cycle(world), IDS(8, 9)) && world->placed[0].pods[0].node == 0,
	   "small work fills gaps, but not on the targets of the gang");
	ok(small->reason->code == REASON_BEHIND && says(world, small, "workload 7 is ahead in pool \"p\""),
	   "what would fit there is behind it");
	shim_reset();

	world = waiting_gang(&gang);
	(*gang).replicas = 2;
	gang->skip = true;
	gang->head_at = 1;
	gang->head_id = 1;
	small = add_lane(world, 0, 50, 1, 1000, 0);
	for (int i = 8; i <= 10; i++)
		add_member(small, i, i);
	ok(admits(cycle(world), IDS(8, 9)), "a gang that was blocked before, and is skipped, keeps its targets");
	ok(small->reason->code == REASON_BEHIND && small->reason->ahead == 7, "under its true number");
	ok(!gang->considered && gang->reason == NULL, "and keeps the reason that it had");
	shim_reset();

	world = waiting_gang(&gang);
	(*gang).replicas = 2;
	small = add_lane(world, 0, 60, 1, 1000, 0);
	for (int i = 8; i <= 10; i++)
		add_member(small, i, i);
	ok(admits(cycle(world), IDS(8, 9, 10)), "who is ahead of the gang is not bound by its targets");
	shim_reset();

	world = waiting_gang(&gang);
	(*gang).replicas = 2;
	small = add_lane(world, 0, 50, 1, 1000, 0);
	small->ends = 4999;
	for (int i = 8; i <= 10; i++)
		add_member(small, i, i);
	ok(admits(cycle(world), IDS(8, 9, 10)), "nor who ends before anything there has to");
	shim_reset();
}

/* What is known of a lane's head is too low: who is first is found by reading. */
static void
test_true_head(void)
{
	Lane	   *gang;
	World	   *world = waiting_gang(&gang);
	Lane	   *earlier;
	Lane	   *small;

	gang->replicas = 2;
	gang->head_at = 1;
	earlier = add_lane(world, 0, 50, 2, 7500, 0);
	earlier->request[0] = 7 * RPQ_UNIT;
	earlier->replicas = 3;
	add_member(earlier, 5, 5);
	small = add_lane(world, 0, 50, 1, 1000, 0);
	for (int i = 8; i <= 11; i++)
		add_member(small, i, i);
	cycle(world);
	ok(small->reason != NULL && small->reason->code == REASON_BEHIND && small->reason->ahead == 5,
	   "the first in the order marks, not the one whose bound is lowest");
	shim_reset();
}

/* ---- the batch ---- */

static void
test_batch(void)
{
	World	   *world = pools_of_8(1);
	Lane	   *low = add_lane(world, 0, 10, 1, 1000, 0);
	Lane	   *high;
	CyclePlan  *plan;

	for (int i = 1; i <= 8; i++)
		add_member(low, i, i);
	cycle(world);
	high = add_lane(world, 0, 20, 1, 2000, 0);
	for (int i = 11; i <= 13; i++)
		add_member(high, i, i);
	world->batch = 4;
	plan = cycle(world);
	ok(admits(plan, IDS(11, 12)) && plan->npreemptions == 4 && plan->more, "victims count in the batch");
	plan = cycle(world);
	ok(admits(plan, IDS(13)) && plan->npreemptions == 2 && !plan->more, "and the next plan goes on");
	shim_reset();
}

int
main(void)
{
	test_hold();
	test_given_up();
	test_by_priority();
	test_targets();
	test_true_head();
	test_batch();
	return done_testing();
}

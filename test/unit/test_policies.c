/*
 * test_policies.c
 *
 * Who goes first, rule by rule, on small worlds that a plan is carried out in: what is admitted is placed, what is
 * preempted waits again.  The worked case of two policies that share two pools is here to the letter.  Prints TAP;
 * exits 1 when a test failed.
 */
#include "cycles.h"

/*
 * Two pools of 8 GPUs on one node each; a profile of 4 GPUs linked to both; groups dev and research, each with
 * reservation 8 and limit 16; four jobs each, submitted by dev, then by research.
 */
static World *
worked_case(Lane **dev, Lane **research)
{
	World	   *world = pools_of_8(2);

	add_policy(world, "dev", 8);
	add_policy(world, "research", 8);
	limit_policy(world, 0, 16);
	limit_policy(world, 1, 16);
	*dev = add_queue(world, 0, 4);
	*research = add_queue(world, 1, 4);
	for (int i = 1; i <= 4; i++)
		add_member(*dev, i, i);
	return world;
}

static void
test_worked_case(void)
{
	Lane	   *dev;
	Lane	   *research;
	World	   *world = worked_case(&dev, &research);
	CyclePlan  *plan;

	for (int i = 5; i <= 8; i++)
		add_member(research, i, i);
	plan = cycle(world);
	ok(admits(plan, IDS(1, 2, 5, 6)), "one cycle admits two of dev and two of research");
	ok(plan->npreemptions == 0 && dev->reason != NULL && research->reason != NULL, "two of each wait");
	ok(gpus_held(world, 0) == 8 && gpus_held(world, 1) == 8, "each holds its reservation");
	shim_reset();

	world = worked_case(&dev, &research);
	ok(admits(cycle(world), IDS(1, 2, 3, 4)) && gpus_held(world, 0) == 16,
	   "while research has no demand, dev gets 16");
	for (int i = 5; i <= 8; i++)
		add_member(research, i, i);
	plan = cycle(world);
	ok(admits(plan, IDS(5, 6)), "when research comes back, its jobs take back 8");
	ok(plan->npreemptions == 2 && plan->preemptions[0].rule == PREEMPT_RESERVATION &&
	   plan->preemptions[0].member.workload_id == 5 && plan->preemptions[1].member.workload_id == 6 &&
	   plan->preemptions[0].victim->policy == 0, "by the rule reservation, one for each");
	ok(gpus_held(world, 0) == 8 && gpus_held(world, 1) == 8, "and each holds its reservation");
	add_member(dev, 3, 3);
	add_member(dev, 4, 4);
	plan = cycle(world);
	ok(admits(plan, NOBODY) && plan->npreemptions == 0, "after which nobody disturbs anybody");
	shim_reset();
}

/* A reservation that is kept by lending hold, over two pools. */
static void
test_hold(void)
{
	World	   *world = pools_of_8(2);
	Lane	   *other;
	Lane	   *owner;

	add_policy(world, "owner", 8);
	add_policy(world, "other", 0);
	world->policies[0].hold = true;
	other = add_queue(world, 1, 4);
	owner = add_queue(world, 0, 8);
	for (int i = 1; i <= 4; i++)
		add_member(other, i, i);
	ok(admits(cycle(world), IDS(1, 2)), "what the reservation does not need is lent");
	add_member(owner, 9, 9);
	ok(admits(cycle(world), IDS(9)), "its owner gets it");
	shim_reset();

	world = pools_of_8(1);
	add_policy(world, "owner", 6);
	add_policy(world, "other", 0);
	world->policies[0].hold = true;
	other = add_queue(world, 1, 4);
	(void) add_queue(world, 0, 4);
	add_member(other, 1, 1);
	ok(admits(cycle(world), NOBODY) && other->reason->code == REASON_RESERVED, "the rest is reserved for others");
	ok(says(world, other, "room in pool \"p1\" is kept for reservations of policies that do not lend: "
			"gpu=4 wanted, gpu=8 free, gpu=2 of it beyond what they need"), "with figures");
	shim_reset();

	/* who is reserved in both pools can be served from the second */
	world = pools_of_8(2);
	add_policy(world, "owner", 8);
	add_policy(world, "other", 0);
	world->policies[0].hold = true;
	owner = add_queue(world, 0, 8);
	other = add_queue(world, 1, 8);
	add_member(other, 1, 1);
	add_member(other, 2, 2);
	ok(admits(cycle(world), IDS(1)), "a reservation over two pools is kept in either of them");
	shim_reset();
}

static void
test_guaranteed(void)
{
	World	   *world = pools_of_8(1);
	Lane	   *lane;
	Lane	   *direct;

	add_policy(world, "dev", 4);
	add_policy(world, "research", 4);
	lane = add_queue(world, 0, 2);
	(void) add_queue(world, 1, 2);
	lane->guarantee = true;
	for (int i = 1; i <= 3; i++)
		add_member(lane, i, i);
	direct = add_lane(world, 0, 50, 1, 2000, 0);
	direct->guarantee = true;
	add_member(direct, 10, 10);
	ok(admits(cycle(world), IDS(1, 2)), "guaranteed work of a policy is admitted within its reservation");
	ok(lane->reason->code == REASON_POLICY_LIMIT &&
	   says(world, lane, "guaranteed work must fit what is left of the reservation of its policy: "
			"gpu=2 wanted, gpu=0 unmet, gpu=2 more needed"), "and waits beyond it");
	ok(direct->reason->code == REASON_RESERVED &&
	   says(world, direct, "room in pool \"p1\" is kept for reservations of policies, as it could not be preempted: "
			"gpu=2 wanted, gpu=4 free, gpu=0 of it beyond what they need"),
	   "what can never be preempted keeps every reservation");
	direct->guarantee = false;
	ok(admits(cycle(world), IDS(10)), "what can be preempted does not");
	shim_reset();

	world = pools_of_8(1);
	world->pools[0].allow_guarantee = false;
	add_policy(world, "dev", 4);
	lane = add_queue(world, 0, 2);
	lane->guarantee = true;
	add_member(lane, 1, 1);
	ok(admits(cycle(world), NOBODY) && says(world, lane, "pool \"p1\" takes no guaranteed work"),
	   "a pool may take no guaranteed work");
	shim_reset();
}

static void
test_pay_as_you_go(void)
{
	World	   *world = pools_of_8(2);
	Lane	   *lane;

	world->pools[0].pay_as_you_go = true;
	add_policy(world, "dev", 8);
	add_policy(world, "research", 0);
	(void) add_queue(world, 0, 4);
	world->policies[0].npools = 1;
	lane = add_queue(world, 1, 4);
	for (int i = 1; i <= 3; i++)
		add_member(lane, i, i);
	cycle(world);
	ok(gpus_held(world, 1) == 8 && world->placed[0].pool == 1 && world->placed[1].pool == 1,
	   "in a pay-as-you-go pool every reservation is kept; the other pool is tried");
	ok(lane->reason->code == REASON_RESERVED, "and the reason is that of the first pool");
	shim_reset();
}

/* Ranks change as the plan admits: the second job of a policy no longer fits in its reservation. */
static void
test_rank(void)
{
	World	   *world = pools_of_8(1);
	Lane	   *dev;
	Lane	   *urgent;

	add_policy(world, "dev", 3);
	dev = add_queue(world, 0, 2);
	urgent = add_lane(world, 0, 90, 1, 2000, 0);
	for (int i = 1; i <= 3; i++)
		add_member(dev, i, i);
	for (int i = 11; i <= 12; i++)
		add_member(urgent, i, i);
	ok(admits(cycle(world), IDS(1, 11, 12, 2)), "within its reservation before all priorities, then by priority");
	shim_reset();

	/* a key that the reservation does not name is zero */
	world = pools_of_8(1);
	add_policy(world, "dev", 8);
	dev = add_queue(world, 0, 2);
	dev->request[1] = RPQ_UNIT;
	urgent = add_lane(world, 0, 90, 1, 2000, 0);
	add_member(dev, 1, 1);
	add_member(urgent, 2, 2);
	ok(admits(cycle(world), IDS(2, 1)), "who asks for what the reservation does not name is not within it");
	shim_reset();
}

/* Victims of a policy give it room in its reservation, so that others of it come to rank. */
static void
test_rank_rises(void)
{
	World	   *world = pools_of_8(2);
	Lane	   *low;
	Lane	   *high;
	Lane	   *direct;
	CyclePlan  *plan;

	add_policy(world, "dev", 6);
	low = add_queue(world, 0, 4);
	low->priority = 10;
	low->npools = 1;
	add_member(low, 1, 1);
	add_member(low, 2, 2);
	cycle(world);
	ok(gpus_held(world, 0) == 8, "low work fills the first pool");
	high = add_queue(world, 0, 2);
	high->priority = 80;
	high->npools = 1;
	add_member(high, 3, 3);
	add_member(high, 4, 4);
	direct = add_lane(world, 1, 90, 1, 8000, 0);
	add_member(direct, 5, 5);
	plan = cycle(world);
	ok(admits(plan, IDS(5, 3, 4)) && plan->npreemptions == 1 && plan->preemptions[0].rule == PREEMPT_PRIORITY &&
	   plan->preemptions[0].victim->workload_id == 2, "higher priority takes from lower of its own policy");
	ok(gpus_held(world, 0) == 8, "and the policy holds what it held");
	shim_reset();
}

static void
test_lenders(void)
{
	World	   *world = pools_of_8(2);
	Lane	   *lane = add_lane(world, 0, 50, 1, 4000, 0);
	Lane	   *own;
	UsageLimit *quota = new_limit(LIMIT_USER, 0, RPQ_WHOLE_POOL);
	CyclePlan  *plan;

	world->pools[1].exclusive = true;
	quota->max[0] = 12 * RPQ_UNIT;
	lane->limits[lane->nlimits++] = quota;
	lane->nlenders = 1;
	lane->lenders = palloc0(sizeof(int));
	lane->lenders[0] = 1;
	for (int i = 1; i <= 4; i++)
		add_member(lane, i, i);
	plan = cycle(world);
	ok(admits(plan, IDS(1, 2, 3)) && plan->admissions[2].pool == 1 && plan->admissions[2].home == 0,
	   "when its own pool is full it borrows in the exclusive pool");
	ok(quota->used[0] == 12 * RPQ_UNIT && world->pools[1].total->used[0] == 0 &&
	   world->pools[0].total->used[0] == 8 * RPQ_UNIT, "within its personal quota, in no pool's total");
	ok(lane->reason->code == REASON_USER_QUOTA, "and no further");
	own = add_lane(world, 1, 0, 1, 8000, 0);
	add_member(own, 9, 9);
	plan = cycle(world);
	ok(admits(plan, IDS(9)) && plan->npreemptions == 1 && plan->preemptions[0].rule == PREEMPT_BORROWED,
	   "work of the exclusive pool takes its room back, whatever its priority");
	ok(quota->used[0] == 8 * RPQ_UNIT, "which is given back to the quota");
	shim_reset();

	world = pools_of_8(2);
	lane = add_lane(world, 0, 50, 1, 8000, 0);
	lane->guarantee = true;
	lane->nlenders = 1;
	lane->lenders = palloc0(sizeof(int));
	lane->lenders[0] = 1;
	add_member(lane, 1, 1);
	add_member(lane, 2, 2);
	ok(admits(cycle(world), IDS(1)), "what cannot be preempted borrows nothing");
	shim_reset();
}

int
main(void)
{
	test_worked_case();
	test_hold();
	test_guaranteed();
	test_pay_as_you_go();
	test_rank();
	test_rank_rises();
	test_lenders();
	return done_testing();
}

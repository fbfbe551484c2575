/*
 * test_place.c
 *
 * The plan on small worlds with known right answers: the field cases that the core decides alone, devices and parts,
 * limits, lanes.  Prints TAP; exits 1 when a test failed.
 */
#include "worlds.h"

#define GANG_NODES	1000

/* A pool with one type; nodes n1, n2, ... of 8 GPUs and 64 cores. */
static World *
pool_of(int nnodes, SchedulingPolicy policy)
{
	World	   *world = new_world(nnodes + 8, 16);
	int			type = add_type(world);
	int			pool = add_pool(world, "p");

	add_pool_type(world, pool, type, policy);
	for (int i = 1; i <= nnodes; i++)
		add_node(world, psprintf("n%d", i), pool, type, 8, 64, 512);
	return world;
}

/* One workload in a lane of its own. */
static Lane *
submit(World *world, int priority, int replicas, int gpus, int64 id)
{
	Lane	   *lane = add_lane(world, 0, priority, replicas, gpus * 1000, 1000);

	add_member(lane, id, id);
	return lane;
}

static const Admission *
admission_of(const CyclePlan *plan, int64 id)
{
	for (int i = 0; i < plan->nadmissions; i++)
		if (plan->admissions[i].member.workload_id == id)
			return &plan->admissions[i];
	return NULL;
}

static bool
runs_on(const World *world, const CyclePlan *plan, int64 id, const char *node)
{
	const Admission *admission = admission_of(plan, id);

	return admission != NULL && strcmp(world->nodes[admission->pods[0].node].name, node) == 0;
}

static bool
waits_with(const World *world, const Lane *lane, ReasonCode code, const char *sentence)
{
	const char *is = lane->reason ? reason_sentence(world, lane->reason) : "";

	if (strcmp(is, sentence) != 0)
		printf("# %s\n", is);
	return lane->reason != NULL && lane->reason->code == code && strcmp(is, sentence) == 0;
}

/* Among equals the earlier, and after it the lower id; a larger priority before them. */
static void
case_f11(void)
{
	World	   *world = pool_of(0, POLICY_BINPACK);
	Lane	   *lane;
	CyclePlan  *plan;

	add_node(world, "n1", 0, 0, 2, 64, 512);
	lane = add_lane(world, 0, 40, 1, 1000, 0);
	add_member(lane, 10, 1);
	add_member(lane, 10, 2);
	add_member(lane, 11, 3);
	add_member(add_lane(world, 0, 60, 1, 1000, 500), 12, 4);
	plan = plan_world(world);
	ok(plan->nadmissions == 2 && plan->admissions[0].member.workload_id == 4 &&
	   plan->admissions[1].member.workload_id == 1, "F11: the larger priority, then the first of the equals");
	ok(lane->reason != NULL && lane->reason->code == REASON_POOL_QUOTA && lane->head_id == 2,
	   "F11: the second of the equals waits at the head");
}

static void
case_f13(void)
{
	World	   *world = new_world(16, 16);
	int			a = add_type(world);
	int			b = add_type(world);
	int			pool_a = add_pool(world, "pA");
	int			pool_b = add_pool(world, "pB");
	Lane	   *j1;
	Lane	   *eights;
	CyclePlan  *plan;

	add_pool_type(world, pool_a, a, POLICY_BINPACK);
	add_pool_type(world, pool_b, b, POLICY_BINPACK);
	for (int i = 1; i <= 5; i++)
		add_node(world, psprintf("a%d", i), pool_a, a, 8, 64, 512);
	for (int i = 1; i <= 2; i++)
		load_node(world, add_node(world, psprintf("b%d", i), pool_b, b, 8, 64, 512), 8, 0);
	j1 = add_lane(world, pool_b, 50, 1, 8000, 0);
	add_member(j1, 1, 1);
	eights = add_lane(world, pool_a, 50, 1, 8000, 0);
	add_member(eights, 2, 2);
	add_member(eights, 3, 3);
	add_member(add_lane(world, pool_a, 50, 1, 2000, 0), 4, 4);
	plan = plan_world(world);
	ok(plan->nadmissions == 3 && runs_on(world, plan, 2, "a1") && runs_on(world, plan, 3, "a2") &&
	   runs_on(world, plan, 4, "a3"), "F13: what does not compete is not held up");
	ok(world->pools[pool_a].total->used[0] == 18 * RPQ_UNIT, "F13: pA.used 18");
	ok(waits_with(world, j1, REASON_POOL_QUOTA, "pool \"pB\": gpu=8 wanted, gpu=0 free, gpu=8 more needed"),
	   "F13: the reason names pB and the figures");
}

static void
case_f15(void)
{
	World	   *world = pool_of(4, POLICY_BINPACK);
	Lane	   *g1 = submit(world, 50, 4, 8, 1);
	Lane	   *g2 = submit(world, 50, 4, 8, 2);
	UsageLimit *limit = new_limit(LIMIT_USER, 0, RPQ_WHOLE_POOL);
	Lane	   *g3;
	CyclePlan  *plan = plan_world(world);

	ok(plan->nadmissions == 1 && admission_of(plan, 1)->npods == 4 && g1->reason == NULL && g2->reason != NULL &&
	   world->pools[0].total->used[0] == 32 * RPQ_UNIT, "F15: one gang whole, the other absent");

	world = pool_of(4, POLICY_BINPACK);
	limit->max[0] = 24 * RPQ_UNIT;
	g3 = submit(world, 50, 4, 8, 3);
	g3->limits[g3->nlimits++] = limit;
	plan = plan_world(world);
	ok(plan->nadmissions == 0 && limit->used[0] == 0, "F15: beyond the quota no member is placed");
	ok(waits_with(world, g3, REASON_USER_QUOTA,
				  "personal quota in pool \"p\": gpu=32 wanted, gpu=24 left, gpu=8 more needed"),
	   "F15: with that reason");
	ok(world->nodes[0].free[0] == 8 * RPQ_UNIT, "F15: and nothing is held");

	world = pool_of(4, POLICY_BINPACK);
	for (int i = 0; i < 4; i++)
		load_node(world, &world->nodes[i], i, 0);
	g3 = submit(world, 50, 3, 7, 3);
	(void) plan_world(world);
	ok(waits_with(world, g3, REASON_GANG_DOES_NOT_FIT,
				  "2 of 3 replicas would fit in pool \"p\" on instance type \"t0\": cpu=1,gpu=7 wanted by each "
				  "replica, cpu=256,gpu=26 free in the pool, at most cpu=64,gpu=8 on one node"),
	   "a gang says how many of it would fit");
}

static void
case_f17(void)
{
	for (int spread = 0; spread <= 1; spread++)
	{
		World	   *world = pool_of(2, spread ? POLICY_SPREAD : POLICY_BINPACK);
		Lane	   *w4;
		CyclePlan  *plan;

		load_node(world, &world->nodes[0], 4, 4);
		load_node(world, &world->nodes[1], 6, 6);
		add_member(add_lane(world, 0, 50, 1, 2000, 0), 3, 3);
		w4 = add_lane(world, 0, 50, 1, 4000, 0);
		add_member(w4, 4, 4);
		plan = plan_world(world);
		if (spread)
		{
			ok(plan->nadmissions == 1 && runs_on(world, plan, 3, "n1"), "F17: spread takes the emptier node");
			ok(waits_with(world, w4, REASON_NO_NODE_FITS, "no node of pool \"p\" has room: gpu=4 wanted, gpu=4 free "
						  "in the pool, at most gpu=2 on one node"), "F17: the reason tells sum and most");
		}
		else
			ok(runs_on(world, plan, 3, "n2") && runs_on(world, plan, 4, "n1") &&
			   world->pools[0].total->used[0] == 16 * RPQ_UNIT, "F17: binpack takes the fuller node");
	}
}

static void
case_f19(void)
{
	World	   *world = pool_of(2, POLICY_BINPACK);
	Lane	   *w2;
	Lane	   *w3;
	CyclePlan  *plan;

	load_node(world, &world->nodes[0], 2, 0);
	world->nodes[0].takes_work = false;
	world->nodes[0].why_not = "cordoned";
	submit(world, 50, 1, 8, 1);
	w2 = submit(world, 50, 1, 8, 2);
	plan = plan_world(world);
	ok(plan->nadmissions == 1 && runs_on(world, plan, 1, "n2"), "F19: a cordoned node takes nothing new");
	ok(waits_with(world, w2, REASON_POOL_QUOTA,
				  "pool \"p\": cpu=1,gpu=8 wanted, cpu=127,gpu=6 free, gpu=2 more needed"), "F19: pool_quota, 8 and 6");

	world->pools[0].total->used[0] -= 2 * RPQ_UNIT;
	world->pools[0].total->max[1] += 100 * RPQ_UNIT;
	w2->head_id = 0;
	(void) plan_world(world);
	ok(waits_with(world, w2, REASON_NO_NODE_FITS, "no node of pool \"p\" has room: cpu=1,gpu=8 wanted, cpu=63,gpu=0 "
				  "free in the pool, at most cpu=63,gpu=0 on one node; cpu=64,gpu=6 more is free on nodes that take "
				  "nothing new (1 node cordoned)"), "F19: what is free on a cordoned node is told, and why");

	/* n2 reports 6 devices of 8 while 8 are in use */
	world = pool_of(1, POLICY_BINPACK);
	load_node(world, &world->nodes[0], 8, 8);
	world->nodes[0].ndevices = 6;
	world->nodes[0].free[0] = -2 * RPQ_UNIT;
	world->pools[0].total->max[0] = 6 * RPQ_UNIT;
	w3 = submit(world, 50, 1, 1, 3);
	add_member(add_lane(world, 0, 50, 1, 0, 1000), 4, 4);
	plan = plan_world(world);
	ok(waits_with(world, w3, REASON_POOL_QUOTA,
				  "pool \"p\": cpu=1,gpu=1 wanted, cpu=56,gpu=0 free, gpu=3 more needed"),
	   "F19: over by 2, free is shown as 0");
	ok(plan->nadmissions == 1 && runs_on(world, plan, 4, "n1"), "F19: what asks for no GPU is not held up");
}

static void
test_devices(void)
{
	World	   *world = pool_of(1, POLICY_BINPACK);
	PoolNode   *node = &world->nodes[0];
	Lane	   *part;
	Lane	   *two;
	Lane	   *odd;
	CyclePlan  *plan;
	const Admission *admission;

	node->device_free[1] = 600 * MILLI;
	node->device_free[3] = 400 * MILLI;
	node->free[0] = 7 * RPQ_UNIT;
	part = add_lane(world, 0, 90, 1, 300, 0);
	add_member(part, 1, 1);
	add_member(part, 2, 2);
	add_member(part, 3, 3);
	add_member(part, 4, 4);
	two = add_lane(world, 0, 50, 1, 3000, 0);
	add_member(two, 5, 5);
	odd = add_lane(world, 0, 40, 1, 1500, 0);
	add_member(odd, 6, 6);
	plan = plan_world(world);
	ok(admission_of(plan, 1)->pods[0].devices[0] == 3 && admission_of(plan, 2)->pods[0].devices[0] == 1 &&
	   admission_of(plan, 3)->pods[0].devices[0] == 1, "a part goes to the fullest device that fits");
	ok(admission_of(plan, 4)->pods[0].devices[0] == 0, "then to the first that is free");
	admission = admission_of(plan, 5);
	ok(admission->pods[0].ndevices == 3 && admission->pods[0].devices[0] == 2 && admission->pods[0].devices[1] == 4 &&
	   admission->pods[0].devices[2] == 5, "whole devices: the lowest-numbered free ones");
	ok(odd->reason != NULL && odd->reason->code == REASON_NO_NODE_FITS, "one and a half devices fit nowhere");
	ok(node->free[0] == (7000 - 1200 - 3000) * MILLI, "the sum goes with the devices");
}

/* Enough of each key on one node or another, but of all of them on none. */
static void
test_apart(void)
{
	World	   *world = pool_of(2, POLICY_BINPACK);
	Lane	   *lane = add_lane(world, 0, 50, 1, 4000, 10000);

	load_node(world, &world->nodes[0], 0, 60);
	load_node(world, &world->nodes[1], 6, 0);
	add_member(lane, 1, 1);
	plan_world(world);
	ok(waits_with(world, lane, REASON_NO_NODE_FITS, "no node of pool \"p\" has room: cpu=10,gpu=4 wanted, "
				  "cpu=68,gpu=10 free in the pool, at most cpu=64,gpu=8 on one node, but not all of it together"),
	   "enough of each, but not together");
}

static void
test_spread(void)
{
	World	   *world = pool_of(9, POLICY_SPREAD);
	Lane	   *lane = submit(world, 50, 9, 1, 1);
	CyclePlan  *plan = plan_world(world);
	bool		seen[9] = {false};
	int			touched = 0;

	for (int i = 0; i < 9; i++)
	{
		touched += !seen[plan->admissions[0].pods[i].node];
		seen[plan->admissions[0].pods[i].node] = true;
	}
	ok(lane->reason == NULL && touched == 9 && plan->admissions[0].pods[0].node == 0,
	   "spread: n pods on n empty nodes touch all of them, the first by name first");
}

static void
test_types(void)
{
	World	   *world = new_world(8, 8);
	int			small = add_type(world);
	int			big = add_type(world);
	int			pool = add_pool(world, "p");
	Lane	   *gang;
	Lane	   *only;
	CyclePlan  *plan;

	add_pool_type(world, pool, big, POLICY_BINPACK);
	add_pool_type(world, pool, small, POLICY_BINPACK);
	add_node(world, "a1", pool, big, 8, 64, 0);
	add_node(world, "a2", pool, big, 8, 64, 0);
	add_node(world, "b1", pool, small, 2, 64, 0);
	gang = add_lane(world, pool, 60, 3, 2000, 0);
	add_member(gang, 1, 1);
	only = add_lane(world, pool, 50, 1, 1000, 0);
	only->type_allowed = palloc0(sizeof(bool) * MAX_TYPES);
	only->type_allowed[big] = true;
	add_member(only, 2, 2);
	add_member(add_lane(world, pool, 40, 1, 1000, 0), 3, 3);
	plan = plan_world(world);
	ok(plan->admissions[0].type == big && plan->admissions[0].pods[2].node == 0,
	   "a gang goes to the type that holds all of it, though another is fuller");
	ok(plan->admissions[1].type == big, "an allowed type is kept to");
	ok(plan->nadmissions == 3 && plan->admissions[2].pods[0].node == 0,
	   "of all types the policy's best node is taken");
}

static void
test_limits(void)
{
	World	   *world = pool_of(4, POLICY_BINPACK);
	UsageLimit *lowered = new_limit(LIMIT_USER, 0, RPQ_WHOLE_POOL);
	UsageLimit *of_type = new_limit(LIMIT_USER, 0, 0);
	UsageLimit *policy = new_limit(LIMIT_POLICY, -1, RPQ_WHOLE_POOL);
	Lane	   *cpu = add_lane(world, 0, 90, 1, 0, 1000);
	Lane	   *gpu = add_lane(world, 0, 80, 1, 1000, 0);
	Lane	   *typed = add_lane(world, 0, 70, 1, 2000, 0);
	Lane	   *held = add_lane(world, 0, 60, 1, 3000, 0);
	Lane	   *huge = add_lane(world, 0, 50, 100000, 8000, 0);
	CyclePlan  *plan;

	lowered->max[0] = 4 * RPQ_UNIT;
	lowered->used[0] = 8 * RPQ_UNIT;
	of_type->max[0] = 5 * RPQ_UNIT;
	policy->max[0] = 2 * RPQ_UNIT;
	cpu->limits[cpu->nlimits++] = gpu->limits[gpu->nlimits++] = lowered;
	typed->limits[typed->nlimits++] = of_type;
	held->limits[held->nlimits++] = policy;
	huge->request[1] = PG_INT64_MAX / 2;
	add_member(cpu, 1, 1);
	add_member(gpu, 2, 2);
	for (int i = 3; i <= 5; i++)
		add_member(typed, i, i);
	add_member(held, 6, 6);
	add_member(huge, 7, 7);
	plan = plan_world(world);
	ok(admission_of(plan, 1) != NULL && lowered->used[1] == RPQ_UNIT, "a key that is not asked for never blocks");
	ok(waits_with(world, gpu, REASON_USER_QUOTA,
				  "personal quota in pool \"p\": gpu=1 wanted, gpu=0 left, gpu=5 more needed"),
	   "a lowered quota admits nothing more");
	ok(admission_of(plan, 4) != NULL && admission_of(plan, 5) == NULL && of_type->used[0] == 4 * RPQ_UNIT &&
	   waits_with(world, typed, REASON_USER_QUOTA, "personal quota of instance type \"t0\" in pool \"p\": gpu=2 "
				  "wanted, gpu=1 left, gpu=1 more needed"), "a quota of an instance type");
	ok(waits_with(world, held, REASON_POLICY_LIMIT,
				  "usage limit of the policy: gpu=3 wanted, gpu=2 left, gpu=1 more needed"), "a policy's limit");
	ok(huge->reason != NULL && huge->reason->code == REASON_POOL_QUOTA, "a sum beyond any amount fits nothing");
}

static int	reads_of_high;

static int
count_reads(World *world, Lane *lane, const Member *after, int want, Member *out)
{
	reads_of_high += lane->priority >= 80;
	return give_members(world, lane, after, want, out);
}

static void
test_lanes(void)
{
	World	   *world = pool_of(20, POLICY_BINPACK);
	Lane	   *blocked = add_lane(world, 0, 90, 1, 16000, 0);
	Lane	   *skipped = add_lane(world, 0, 80, 1, 1000, 0);
	Lane	   *empty = add_lane(world, 0, 70, 1, 1000, 0);
	Lane	   *early = add_lane(world, 0, 50, 1, 1000, 0);
	Lane	   *late = add_lane(world, 0, 50, 1, 1000, 1000);
	CyclePlan  *plan;

	world->read_members = count_reads;
	add_member(blocked, 1, 1);
	add_member(skipped, 1, 2);
	skipped->skip = true;
	skipped->reason = palloc0(sizeof(Reason));
	empty->waiting = 1;
	empty->head_at = 0;
	for (int i = 0; i < 40; i++)
		add_member(early, 100 + 2 * i, 100 + 2 * i);
	for (int i = 0; i < 40; i++)
		add_member(late, 101 + 2 * i, 101 + 2 * i);
	late->head_at = 1;			/* only a bound */
	world->batch = 70;
	plan = plan_world(world);
	for (int i = 0; i < plan->nadmissions; i++)
		if (plan->admissions[i].member.workload_id != 100 + i)
			plan->nadmissions = -1;
	ok(plan->nadmissions == 70 && plan->more, "the order over lanes is exact; the batch cuts the plan off");
	ok(blocked->considered && blocked->reason != NULL && ((Waiting *) blocked->store)->n == 1 && reads_of_high == 0,
	   "a blocked lane is never read");
	ok(!skipped->considered && skipped->reason != NULL, "a skipped lane keeps its reason");
	ok(empty->considered && empty->reason == NULL, "an empty lane is done with");
	ok(!early->considered && early->reason == NULL && early->head_id == 170 && late->head_id == 171,
	   "lanes that were cut off are not considered, their heads have moved on");
}

static void
test_routing(void)
{
	World	   *world = new_world(8, 8);
	int			type = add_type(world);
	Lane	   *lane;
	CyclePlan  *plan;

	for (int i = 0; i < 3; i++)
	{
		add_pool_type(world, add_pool(world, psprintf("p%d", i)), type, POLICY_BINPACK);
		add_node(world, psprintf("n%d", i), i, type, 1, 8, 8);
	}
	world->pools[1].closed = REASON_POOL_FROZEN;
	lane = add_lane(world, 0, 50, 1, 1000, 0);
	lane->pools[lane->npools++] = 1;
	lane->pools[lane->npools++] = 2;
	for (int i = 1; i <= 3; i++)
		add_member(lane, i, i);
	plan = plan_world(world);
	ok(plan->nadmissions == 2 && plan->admissions[0].pool == 0 && plan->admissions[1].pool == 2,
	   "pools in routing order, a frozen one is passed over");
	ok(lane->reason->code == REASON_POOL_QUOTA && lane->reason->pool == 0, "the reason is that of the first pool");
}

/* Whatever a gang takes of a node at once is what replica by replica would take. */
static void
test_large_gang(void)
{
	World	   *world = new_world(GANG_NODES, 4);
	int			type = add_type(world);
	Lane	   *lane;
	CyclePlan  *plan;

	add_pool_type(world, add_pool(world, "p"), type, POLICY_SPREAD);
	for (int i = 0; i < GANG_NODES; i++)
		add_node(world, psprintf("n%04d", i), 0, type, 8, 128, 512);
	lane = add_lane(world, 0, 50, 100000, 50, 500);
	add_member(lane, 1, 1);
	plan = plan_world(world);
	ok(plan->nadmissions == 1 && plan->admissions[0].npods == 100000 &&
	   world->nodes[0].free[0] == 3 * RPQ_UNIT && world->nodes[GANG_NODES - 1].free[0] == 3 * RPQ_UNIT,
	   "a gang of 100,000 parts, evenly spread");
	lane = add_lane(world, 0, 50, 60001, 50, 500);
	add_member(lane, 2, 2);
	plan = plan_world(world);
	ok(plan->nadmissions == 0 && lane->reason->code == REASON_POOL_QUOTA, "the next does not fit the pool");
	lane->request[1] = 2 * RPQ_UNIT;
	lane->replicas = 60000;
	world->pools[0].total->max[1] *= 2;
	plan = plan_world(world);
	ok(plan->nadmissions == 0 && lane->reason->code == REASON_GANG_DOES_NOT_FIT && lane->reason->fitting == 39000,
	   "or its nodes, and how many would is known without placing them");
}

int
main(void)
{
	case_f11();
	case_f13();
	case_f15();
	case_f17();
	case_f19();
	test_devices();
	test_apart();
	test_spread();
	test_types();
	test_limits();
	test_lanes();
	test_routing();
	test_large_gang();
	return done_testing();
}

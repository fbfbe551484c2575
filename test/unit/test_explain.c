/*
 * test_explain.c
 *
 * Explanations: they agree with the plan, they are exact (each limit raised as the way out says lets its check pass,
 * and raised by less does not), and they leave the world alone.  Prints TAP; exits 1 when a test failed.
 */
#include "random_world.h"

static const Check *
find_check(const Check *checks, int n, ReasonCode code)
{
	for (int i = 0; i < n; i++)
		if (checks[i].code == code)
			return &checks[i];
	return NULL;
}

static bool
says(const Check *check, const char *detail, const char *way_out)
{
	bool		same = check != NULL && strcmp(check->detail, detail) == 0 &&
		strcmp(check->way_out ? check->way_out : "", way_out) == 0;

	if (!same)
		printf("# %s\n# %s\n", check ? check->detail : "(no row)", check && check->way_out ? check->way_out : "");
	return same;
}

static World *
two_nodes(void)
{
	World	   *world = new_world(4, 4);
	int			type = add_type(world);

	add_pool_type(world, add_pool(world, "p"), type, POLICY_BINPACK);
	add_node(world, "n1", 0, type, 8, 64, 64);
	add_node(world, "n2", 0, type, 8, 64, 64);
	return world;
}

static void
test_sentences(void)
{
	World	   *world = two_nodes();
	Lane	   *lane = add_lane(world, 0, 50, 1, 8000, 4000);
	UsageLimit *limit = new_limit(LIMIT_USER, 0, RPQ_WHOLE_POOL);
	Check	   *checks;
	int			n;

	load_node(world, &world->nodes[0], 2, 62);
	load_node(world, &world->nodes[1], 1, 61);
	limit->max[0] = 12 * RPQ_UNIT;
	limit->used[0] = 6 * RPQ_UNIT;
	lane->limits[lane->nlimits++] = limit;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(n == 7, "a row for each check");
	ok(says(find_check(checks, n, REASON_NOT_AUTHORIZED), "the account is authorized", "") &&
	   says(find_check(checks, n, REASON_POOL_NOT_READY), "pool \"p\" is ready", "") &&
	   says(find_check(checks, n, REASON_POOL_FROZEN), "pool \"p\" is not frozen", ""), "the state of the pool");
	ok(says(find_check(checks, n, REASON_USER_QUOTA),
			"personal quota in pool \"p\": gpu=8 wanted, gpu=6 left, gpu=2 more needed",
			"must wait until gpu=2 of it is given back, or raise the personal quota in pool \"p\" to gpu=14 "
			"(by gpu=2)"),
	   "a quota's way out is exact");
	ok(says(find_check(checks, n, REASON_POOL_QUOTA), "pool \"p\": cpu=4,gpu=8 wanted, cpu=5,gpu=13 free", ""),
	   "the pool's total passes");
	ok(says(find_check(checks, n, REASON_NO_NODE_FITS),
			"no node of pool \"p\" has room: cpu=4,gpu=8 wanted, cpu=5,gpu=13 free in the pool, at most cpu=3,gpu=7 on "
			"one node", "must wait: node \"n2\" needs least, cpu=1,gpu=1 more free"), "the node that needs least");

	lane->request[0] = 16 * RPQ_UNIT;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(find_check(checks, n, REASON_NO_NODE_FITS)->never && find_check(checks, n, REASON_USER_QUOTA)->never &&
	   !find_check(checks, n, REASON_POOL_QUOTA)->never, "what can never run is told from what must wait");
	ok(strcmp(find_check(checks, n, REASON_NO_NODE_FITS)->way_out,
			  "can never run as things are set: no node of pool \"p\" is large enough") == 0, "by name");
}

static void
test_more_sentences(void)
{
	World	   *world = two_nodes();
	Lane	   *lane = add_lane(world, 0, 50, 1, 8000, 0);
	Check	   *checks;
	int			n;

	world->nodes[0].takes_work = false;
	world->nodes[0].why_not = "cordoned";
	load_node(world, &world->nodes[1], 1, 0);
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(says(find_check(checks, n, REASON_NO_NODE_FITS),
			"no node of pool \"p\" has room: gpu=8 wanted, gpu=7 free in the pool, at most gpu=7 on one node; gpu=8 "
			"more is free on nodes that take nothing new (1 node cordoned)",
			"must wait: node \"n2\" needs least, gpu=1 more free; node \"n1\" has room and takes nothing new: "
			"cordoned"),
	   "a node that takes nothing new is named, and why");

	world = two_nodes();
	load_node(world, &world->nodes[1], 3, 0);
	lane = add_lane(world, 0, 50, 3, 4000, 0);
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(find_check(checks, n, REASON_NO_NODE_FITS)->passed &&
	   find_check(checks, n, REASON_GANG_DOES_NOT_FIT)->passed, "a gang that fits passes both");
	lane->replicas = 4;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(says(find_check(checks, n, REASON_GANG_DOES_NOT_FIT),
			"3 of 4 replicas would fit in pool \"p\" on instance type \"t0\": gpu=4 wanted by each replica, gpu=13 "
			"free in the pool, at most gpu=8 on one node",
			"must wait for room for 1 more: node \"n2\" needs least for the next, gpu=3 more free"),
	   "a gang's way out");
	lane->replicas = 5;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(find_check(checks, n, REASON_GANG_DOES_NOT_FIT)->never && find_check(checks, n, REASON_POOL_QUOTA)->never &&
	   says(find_check(checks, n, REASON_POOL_QUOTA), "pool \"p\": gpu=20 wanted, gpu=13 free, gpu=7 more needed",
			"can never run as things are set: pool \"p\" would have to hold gpu=23 (gpu=7 more)"),
	   "more than the pool holds, and by how much");
	lane->own = REASON_NOT_AUTHORIZED;
	world->pools[0].closed = REASON_POOL_FROZEN;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(!find_check(checks, n, REASON_NOT_AUTHORIZED)->passed && !find_check(checks, n, REASON_POOL_FROZEN)->passed &&
	   find_check(checks, n, REASON_WORKLOAD_TYPE) == NULL && find_check(checks, n, REASON_POOL_QUOTA) != NULL,
	   "standing reasons and all that comes after them");
}

/* Nodes that host other accounts are told apart from those that have no room. */
static void
test_accounts(void)
{
	World	   *world = two_nodes();
	Lane	   *lane = add_lane(world, 0, 50, 1, 4000, 0);
	Check	   *checks;
	int			n;

	world->pools[0].isolate = true;
	lane->account_id = 1;
	load_node(world, &world->nodes[0], 2, 0);
	load_node(world, &world->nodes[1], 3, 0);
	world->nodes[0].account = 2;
	world->nodes[1].account = SEVERAL_ACCOUNTS;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(says(find_check(checks, n, REASON_NO_NODE_FITS),
			"no node of pool \"p\" has room: gpu=4 wanted, gpu=0 free in the pool, at most gpu=0 on one node; gpu=11 "
			"more is free on nodes that do not take it (2 nodes host other accounts)",
			"must wait: node \"n1\" has room and hosts other accounts") &&
	   find_check(checks, n, REASON_NO_NODE_FITS)->node == 0, "nodes that host other accounts are told apart");
	lane->request[0] = 8 * RPQ_UNIT;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(strcmp(find_check(checks, n, REASON_NO_NODE_FITS)->way_out, "must wait: node \"n1\" hosts other accounts") == 0 &&
	   !find_check(checks, n, REASON_NO_NODE_FITS)->never, "one that would have to be empty as well");
	lane->account_id = 2;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(says(find_check(checks, n, REASON_NO_NODE_FITS),
			"no node of pool \"p\" has room: gpu=8 wanted, gpu=6 free in the pool, at most gpu=6 on one node; gpu=5 "
			"more is free on nodes that do not take it (1 node hosts other accounts)",
			"must wait: node \"n1\" needs least, gpu=2 more free"), "an account's own node is open to it");
	lane->request[0] = 6 * RPQ_UNIT;
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(find_check(checks, n, REASON_NO_NODE_FITS)->passed, "and takes it when it fits");
	lane->account_id = 1;
	world->nodes[0].takes_work = false;
	world->nodes[0].why_not = "cordoned";
	n = explain_lane(world, (int) (lane - world->lanes), &checks);
	ok(says(find_check(checks, n, REASON_NO_NODE_FITS),
			"no node of pool \"p\" has room: gpu=6 wanted, gpu=0 free in the pool, at most gpu=0 on one node; gpu=11 "
			"more is free on nodes that do not take it (1 node cordoned, 1 node hosts other accounts)",
			"must wait: node \"n2\" hosts other accounts"),
	   "a cordoned node that would host another account is no way out");
}

/* ---- random worlds ---- */

static bool
same_world(const World *a, const World *b)
{
	for (int n = 0; n < a->nnodes; n++)
		if (memcmp(a->nodes[n].free, b->nodes[n].free, sizeof(int64) * NKEYS) != 0 ||
			memcmp(a->nodes[n].device_free, b->nodes[n].device_free, sizeof(int64) * a->nodes[n].ndevices) != 0)
			return false;
	for (int p = 0; p < a->npools; p++)
		if (memcmp(a->pools[p].total->used, b->pools[p].total->used, sizeof(int64) * NKEYS) != 0)
			return false;
	for (int l = 0; l < a->nlanes; l++)
		if (a->lanes[l].head_at != b->lanes[l].head_at || a->lanes[l].head_id != b->lanes[l].head_id ||
			a->lanes[l].considered != b->lanes[l].considered || a->lanes[l].reason != b->lanes[l].reason)
			return false;
	return true;
}

/* Whether the rows let the workload in: no standing reason, and a pool of which every row passed. */
static bool
rows_admit(const Lane *lane, const Check *checks, int n)
{
	bool		any = false;

	if (lane->own != REASON_NONE)
		return false;
	for (int i = 0; i < lane->npools && !any; i++)
	{
		any = true;
		for (int j = 0; j < n; j++)
			any &= checks[j].passed || (checks[j].pool >= 0 && checks[j].pool != lane->pools[i]);
	}
	return any;
}

/* The bounds that a way out names: "... to gpu=12,cpu=4 (by ...". */
static Resources *
bounds_of(const char *way_out)
{
	const char *from = strstr(way_out, "\" to ");
	const char *to;

	if (from == NULL)
		from = strstr(way_out, "policy to ") ? strstr(way_out, "policy to ") + 1 : strstr(way_out, "hold");
	if (from == NULL || (to = strrchr(way_out, '(')) == NULL)
		return NULL;
	from = strstr(from, from[0] == 'h' ? " " : "to ");
	from += from[0] == ' ' ? 1 : 3;
	return resources_parse(pnstrdup(from, to - from));
}

static UsageLimit *
limit_of(World *world, Lane *lane, const Check *check)
{
	if (check->code == REASON_POOL_QUOTA)
		return world->pools[check->pool].total;
	for (int i = 0; i < lane->nlimits; i++)
	{
		UsageLimit *limit = lane->limits[i];

		if ((limit->kind == LIMIT_USER) == (check->code == REASON_USER_QUOTA) && limit->pool == check->pool &&
			limit->type == check->type)
			return limit;
	}
	return NULL;
}

/* How many limits of a lane have the same kind, pool and type: then a row cannot be told from another. */
static bool
ambiguous(const Lane *lane)
{
	for (int i = 0; i < lane->nlimits; i++)
		for (int j = i + 1; j < lane->nlimits; j++)
			if (lane->limits[i]->kind == lane->limits[j]->kind && lane->limits[i]->pool == lane->limits[j]->pool &&
				lane->limits[i]->type == lane->limits[j]->type)
				return true;
	return false;
}

/* Sets a limit's bounds to those named, but one of them short by the least amount when short is its number. */
static int
set_bounds(World *world, UsageLimit *limit, const Resources *bounds, int short_one)
{
	for (int i = 0; i < resources_nkeys(bounds); i++)
		for (int k = 0; k < NKEYS; k++)
			if (strlen(world->keys[k]) == resources_key_len(bounds, i) &&
				memcmp(world->keys[k], resources_key(bounds, i), resources_key_len(bounds, i)) == 0)
				limit->max[k] = resources_amount(bounds, i) - (i == short_one);
	return resources_nkeys(bounds);
}

static bool
passes_now(World *world, Lane *lane, int row)
{
	Check	   *checks;
	int			n = explain_lane(world, (int) (lane - world->lanes), &checks);

	return row < n && checks[row].passed;
}

static int
lift_limits(World *world, Lane *lane, int *lifted)
{
	Check	   *checks;
	int			n = explain_lane(world, (int) (lane - world->lanes), &checks);
	int			wrong = 0;

	for (int i = 0; i < n; i++)
	{
		ReasonCode	code = checks[i].code;
		UsageLimit *limit;
		Resources  *bounds;

		if (checks[i].passed || (code != REASON_USER_QUOTA && code != REASON_POLICY_LIMIT && code != REASON_POOL_QUOTA))
			continue;
		limit = limit_of(world, lane, &checks[i]);
		if (code == REASON_POOL_QUOTA)
			bounds = strstr(checks[i].way_out, "hold ") ?
				bounds_of(checks[i].way_out) :
				bounds_of(psprintf("hold %s", strstr(checks[i].way_out, "holds ") + 6));
		else
			bounds = bounds_of(checks[i].way_out);
		if (limit == NULL || bounds == NULL)
		{
			wrong++;
			continue;
		}
		for (int s = set_bounds(world, limit, bounds, -1) - 1; s >= 0; s--)
		{
			set_bounds(world, limit, bounds, s);
			wrong += passes_now(world, lane, i);
		}
		set_bounds(world, limit, bounds, -1);
		wrong += !passes_now(world, lane, i);
		(*lifted)++;
	}
	return wrong;
}

static void
test_random(int first, int n, Options options)
{
	int			changed = 0;
	int			wrong = 0;
	int			inexact = 0;
	int			unexplained = 0;
	int			lifted = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *world = draw_world(i, options);
		World	   *same = draw_world(i, options);

		for (int l = 0; l < world->nlanes; l++)
		{
			World	   *alone = draw_world(i, options);
			Lane	   *lane = &alone->lanes[l];
			Check	   *checks;
			int			nchecks = explain_lane(world, l, &checks);
			bool		admits = rows_admit(&world->lanes[l], checks, nchecks);

			for (int j = 0; j < nchecks; j++)
				unexplained += checks[j].detail == NULL || checks[j].detail[0] == '\0' ||
					checks[j].passed == (checks[j].way_out != NULL) || (checks[j].passed && checks[j].never);
			for (int other = 0; other < alone->nlanes; other++)
				alone->lanes[other].skip = other != l;
			plan_world(alone);
			if (lane->waiting > 0 && admits && lane->reason != NULL && ((Waiting *) lane->store)->n > 0 &&
				lane->head_id == ((Waiting *) lane->store)->members[0].workload_id)
				wrong++;		/* the rows let it in, the plan did not take its first */
			if (!ambiguous(&same->lanes[l]))
			{
				World	   *raised = draw_world(i, options);

				inexact += lift_limits(raised, &raised->lanes[l], &lifted);
			}
		}
		changed += !same_world(world, same);
		shim_reset();
	}
	printf("# %d limits raised\n", lifted);
	ok(changed == 0, "an explanation leaves the world as it was");
	ok(unexplained == 0, "each row has a sentence, each that did not pass a way out");
	ok(wrong == 0, "what passes every row, the plan admits");
	ok(inexact == 0 && lifted > 100, "a limit raised as said passes, raised by less does not");
}

/* With every limit lifted and all pools open, the plan admits exactly what the placement rows let in. */
static void
test_placement(int first, int n, Options options)
{
	int			wrong = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *world = draw_world(i, options);

		for (int l = 0; l < world->nlanes; l++)
		{
			World	   *alone = draw_world(i, options);
			Lane	   *lane = &alone->lanes[l];
			Check	   *checks;
			int			nchecks;
			bool		admits;

			lane->own = REASON_NONE;
			lane->nlimits = 0;
			for (int p = 0; p < alone->npools; p++)
			{
				alone->pools[p].closed = REASON_NONE;
				for (int k = 0; k < NKEYS; k++)
					alone->pools[p].total->max[k] = PG_INT64_MAX - 1;
			}
			nchecks = explain_lane(alone, l, &checks);
			admits = rows_admit(lane, checks, nchecks);
			for (int other = 0; other < alone->nlanes; other++)
				alone->lanes[other].skip = other != l;
			if (lane->waiting > 0 && (plan_world(alone)->nadmissions > 0) != admits)
				wrong++;
		}
		shim_reset();
	}
	ok(wrong == 0, "the rows on placement say what the plan does");
}

int
main(void)
{
	test_sentences();
	test_more_sentences();
	test_accounts();
	test_random(0, 500, (Options) {.exact_heads = true});
	test_placement(1000, 300, (Options) {.exact_heads = true, .large_gangs = true});
	printf("# accounts kept apart\n");
	test_random(5000, 500, (Options) {.exact_heads = true, .isolate = true});
	test_placement(6000, 300, (Options) {.exact_heads = true, .large_gangs = true, .isolate = true});
	return done_testing();
}

/*
 * test_order.c
 *
 * Property tests of the plan: thousands of random small worlds, each decided by the core and by an oracle that is too
 * simple to be wrong; and what must hold after any plan.  Prints TAP; exits 1 when a test failed.
 */
#include "oracle.h"

#define MAX_NODES	24
#define MAX_LANES	12

typedef struct Options
{
	bool		exact_heads;
	bool		large_gangs;
	bool		cut;
} Options;

static void
draw_nodes(World *world)
{
	int			n = 1 + below(MAX_NODES);
	int			gpus = below(3) == 0 ? 2 : 8;

	for (int i = 0; i < n; i++)
	{
		int			pool = below(world->npools);
		int			slot = below(world->pools[pool].ntypes);
		Node	   *node = add_node(world, psprintf("n%03d", i), pool, world->pools[pool].types[slot].type,
									below(5) == 0 ? below(9) : gpus, 16 * (1 + below(4)), 64);

		if (below(6) == 0)
		{
			node->takes_work = false;
			node->why_not = below(2) ? "cordoned" : "unhealthy";
		}
		for (int d = 0; d < node->ndevices; d++)
			if (below(3) == 0)
			{
				int64		part = below(2) ? RPQ_UNIT : below(10) * 100 * MILLI;

				node->device_free[d] -= part;
				node->free[0] -= part;
				world->pools[pool].total->used[0] += part;
			}
		if (below(3) == 0)
			node->free[1] -= below(20) * RPQ_UNIT;
	}
}

static Limit **
draw_limits(World *world, int *n)
{
	Limit	  **limits = palloc(sizeof(Limit *) * 16);

	*n = 0;
	for (int i = below(10); i > 0; i--)
	{
		bool		user = below(3) > 0;
		Limit	   *limit = new_limit(user ? LIMIT_USER : LIMIT_POLICY, user ? below(world->npools) : -1,
									  below(2) ? RPQ_WHOLE_POOL : below(world->ntypes));

		if (below(4) > 0)
			limit->max[0] = below(20) * RPQ_UNIT;
		if (below(3) == 0)
			limit->max[1] = below(100) * RPQ_UNIT;
		if (below(3) == 0)
			limit->used[0] = below(12) * RPQ_UNIT;
		limits[(*n)++] = limit;
	}
	return limits;
}

static void
draw_lane(World *world, Limit **limits, int nlimits, Options options)
{
	static const int64 gpus[] = {0, 0, 100, 250, 500, 1000, 1000, 2000, 4000, 8000};
	Lane	   *lane = add_lane(world, below(world->npools), 10 * below(3), 1, gpus[below(lengthof(gpus))],
								500 * below(9));

	if (lane->request[0] == 0 && lane->request[1] == 0)
		lane->request[1] = RPQ_UNIT;
	if (below(4) == 0)
		lane->request[2] = below(20) * RPQ_UNIT;
	if (below(3) == 0)
		lane->replicas = 1 + below(options.large_gangs ? 40 : 5);
	while (lane->npools < world->npools && below(3) == 0)
	{
		lane->pools[lane->npools] = (lane->pools[lane->npools - 1] + 1) % world->npools;
		lane->npools++;
	}
	if (below(3) == 0)
	{
		lane->type_allowed = palloc0(sizeof(bool) * MAX_TYPES);
		for (int t = 0; t < world->ntypes; t++)
			lane->type_allowed[t] = below(2);
	}
	for (int i = 0; i < nlimits && lane->nlimits < 3; i++)
		if (below(3) == 0)
			lane->limits[lane->nlimits++] = limits[i];
	if (below(15) == 0)
		lane->own = below(2) ? REASON_NOT_AUTHORIZED : REASON_BACKING_OFF;
	lane->skip = below(15) == 0;
}

static void
draw_members(World *world, Options options)
{
	int			n = below(80);
	TimestampTz at = 1000;

	for (int i = 0; i < n && world->nlanes > 0; i++)
	{
		add_member(&world->lanes[below(world->nlanes)], at, 100 + (i * 37) % 101 + 101 * i);
		at += 1 + below(2);
	}
	for (int l = 0; l < world->nlanes; l++)
		if (!options.exact_heads)
		{
			world->lanes[l].head_at = Min(world->lanes[l].head_at, at) - below(60);
			world->lanes[l].head_id = below(1000);
		}
}

static World *
draw_world(uint64 number, Options options)
{
	World	   *world = new_world(MAX_NODES, MAX_LANES);
	Limit	  **limits;
	int			nlimits;
	int			n;

	seed_with(number);
	for (n = 1 + below(3); n > 0; n--)
		add_type(world);
	for (n = 1 + below(3); n > 0; n--)
	{
		int			pool = add_pool(world, psprintf("p%d", n));
		SchedulingPolicy policy = below(2) ? POLICY_BINPACK : POLICY_SPREAD;

		for (int t = 0; t < world->ntypes; t++)
			if (t == pool % world->ntypes || below(2))
				add_pool_type(world, pool, t, policy);
		if (below(15) == 0)
			world->pools[pool].closed = below(2) ? REASON_POOL_FROZEN : REASON_POOL_NOT_READY;
	}
	draw_nodes(world);
	limits = draw_limits(world, &nlimits);
	for (n = below(MAX_LANES + 1); n > 0; n--)
		draw_lane(world, limits, nlimits, options);
	draw_members(world, options);
	if (options.cut)
		world->batch = 1 + below(12);
	return world;
}

static bool
same_admission(const World *a, const Admission *x, const World *b, const Admission *y)
{
	if (x->lane->shape != y->lane->shape || x->member.workload_id != y->member.workload_id ||
		x->pool != y->pool || x->type != y->type || x->npods != y->npods)
		return false;
	for (int i = 0; i < x->npods; i++)
		if (x->pods[i].node != y->pods[i].node || x->pods[i].ndevices != y->pods[i].ndevices ||
			(x->pods[i].ndevices > 0 &&
			 memcmp(x->pods[i].devices, y->pods[i].devices, sizeof(int) * x->pods[i].ndevices) != 0))
			return false;
	return true;
}

static bool
same_plans(const World *world, const Plan *plan, const Oracle *oracle)
{
	if (plan->nadmissions != oracle->nadmissions || plan->more != oracle->more)
		return false;
	for (int i = 0; i < plan->nadmissions; i++)
		if (!same_admission(world, &plan->admissions[i], oracle->world, &oracle->admissions[i]))
			return false;
	return true;
}

/* The same lanes blocked, and where their heads were known exactly, for the same reason. */
static bool
same_reasons(const World *world, const Plan *plan, const Oracle *oracle, Options options)
{
	for (int l = 0; l < world->nlanes; l++)
	{
		const Lane *lane = &world->lanes[l];
		const Reason *reason = lane->reason;
		const OracleLane *right = &oracle->lanes[l];

		if (lane->skip || lane->waiting == 0)
			continue;
		/* a cut leaves lanes undecided; one that comes up by its bound may be found blocked before the oracle gets there */
		if (plan->more && !right->blocked)
			continue;
		if (!lane->considered || (reason != NULL) != right->blocked)
			return false;
		if (options.exact_heads && reason != NULL &&
			(reason->code != right->code ||
			 (reason->code == REASON_GANG_DOES_NOT_FIT && reason->fitting != right->fitting)))
			return false;
		if (reason != NULL && reason_sentence(world, reason)[0] == '\0')
			return false;
	}
	return true;
}

/* Nodes and limits were counted down alike, exactly. */
static bool
same_room(const World *a, const World *b)
{
	for (int n = 0; n < a->nnodes; n++)
		if (memcmp(a->nodes[n].free, b->nodes[n].free, sizeof(int64) * NKEYS) != 0 ||
			memcmp(a->nodes[n].device_free, b->nodes[n].device_free, sizeof(int64) * a->nodes[n].ndevices) != 0)
			return false;
	for (int p = 0; p < a->npools; p++)
		if (memcmp(a->pools[p].total->used, b->pools[p].total->used, sizeof(int64) * NKEYS) != 0)
			return false;
	for (int l = 0; l < a->nlanes; l++)
		for (int i = 0; i < a->lanes[l].nlimits; i++)
			if (memcmp(a->lanes[l].limits[i]->used, b->lanes[l].limits[i]->used, sizeof(int64) * NKEYS) != 0)
				return false;
	return true;
}

/* free afterwards = free before - what was admitted; gangs whole, on one type, on nodes that take work */
static bool
conserved(const World *before, const World *after, const Plan *plan)
{
	World	   *sum = palloc(sizeof(World));

	*sum = *after;
	for (int i = 0; i < plan->nadmissions; i++)
	{
		const Admission *admission = &plan->admissions[i];

		if (admission->npods != admission->lane->replicas)
			return false;
		for (int j = 0; j < admission->npods; j++)
		{
			const Node *node = &after->nodes[admission->pods[j].node];

			if (!node->takes_work || node->type != admission->type || node->pool != admission->pool)
				return false;
			oracle_give(sum, admission->lane, &admission->pods[j]);
		}
	}
	for (int n = 0; n < before->nnodes; n++)
		if (memcmp(sum->nodes[n].free, before->nodes[n].free, sizeof(int64) * NKEYS) != 0 ||
			memcmp(sum->nodes[n].device_free, before->nodes[n].device_free,
				   sizeof(int64) * before->nodes[n].ndevices) != 0)
			return false;
	return true;
}

static void
test_oracle(const char *name, int first, int n, Options options)
{
	int			bad_plans = 0;
	int			bad_reasons = 0;
	int			bad_room = 0;
	int			lost = 0;
	int64		admitted = 0;
	int64		blocked = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *before = draw_world(i, options);
		World	   *world = draw_world(i, options);
		Oracle	   *oracle = oracle_plan(draw_world(i, options));
		Plan	   *plan = plan_world(world);

		admitted += plan->nadmissions;
		for (int l = 0; l < world->nlanes; l++)
			blocked += world->lanes[l].reason != NULL;
		if (!same_plans(world, plan, oracle))
		{
			if (bad_plans++ == 0)
				printf("# world %d: %d admissions, oracle %d\n", i, plan->nadmissions, oracle->nadmissions);
		}
		else if (!same_reasons(world, plan, oracle, options))
		{
			if (bad_reasons++ == 0)
				printf("# world %d: reasons differ\n", i);
		}
		bad_room += !oracle->more && !same_room(world, oracle->world);
		lost += !conserved(before, world, plan);
		shim_reset();
	}
	printf("# %s: %ld admitted, %ld lanes blocked\n", name, admitted, blocked);
	ok(bad_plans == 0, psprintf("%s: the plans are those of the oracle", name));
	ok(bad_reasons == 0, psprintf("%s: the same lanes wait, for the same reasons", name));
	ok(bad_room == 0, psprintf("%s: room and usage are counted down alike", name));
	ok(lost == 0, psprintf("%s: nothing is lost, gangs are whole", name));
}

/* Lanes and the types of pools in another order: the same plan. */
static void
test_shuffled(int first, int n)
{
	int			bad = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *straight = draw_world(i, (Options) {false, true, false});
		World	   *shuffled = draw_world(i, (Options) {false, true, false});
		Plan	   *a;
		Plan	   *b;

		for (int l = shuffled->nlanes - 1; l > 0; l--)
		{
			int			with = below(l + 1);
			Lane		lane = shuffled->lanes[l];

			shuffled->lanes[l] = shuffled->lanes[with];
			shuffled->lanes[with] = lane;
		}
		for (int p = 0; p < shuffled->npools; p++)
			for (int t = shuffled->pools[p].ntypes - 1; t > 0; t--)
			{
				int			with = below(t + 1);
				PoolType	type = shuffled->pools[p].types[t];

				shuffled->pools[p].types[t] = shuffled->pools[p].types[with];
				shuffled->pools[p].types[with] = type;
			}
		a = plan_world(straight);
		b = plan_world(shuffled);
		if (a->nadmissions != b->nadmissions)
			bad++;
		for (int j = 0; j < Min(a->nadmissions, b->nadmissions); j++)
			bad += !same_admission(straight, &a->admissions[j], shuffled, &b->admissions[j]);
		shim_reset();
	}
	ok(bad == 0, "lanes and types in another order: the same plan");
}

/* What was cut off goes on in the next plan: in pieces the same admissions as at once. */
static void
test_pieces(int first, int n)
{
	int			bad = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *whole = draw_world(i, (Options) {true, false, false});
		World	   *pieces = draw_world(i, (Options) {true, false, false});
		Plan	   *plan = plan_world(whole);
		int			done = 0;
		bool		more = true;

		while (more)
		{
			Plan	   *piece;

			pieces->batch = 1 + below(5);
			piece = plan_world(pieces);
			for (int j = 0; j < piece->nadmissions && done + j < plan->nadmissions; j++)
				bad += !same_admission(whole, &plan->admissions[done + j], pieces, &piece->admissions[j]);
			done += piece->nadmissions;
			bad += piece->nadmissions > pieces->batch || (piece->more && piece->nadmissions != pieces->batch);
			more = piece->more;
			for (int j = 0; j < piece->nadmissions; j++)
			{
				Waiting    *waiting = piece->admissions[j].lane->store;

				memmove(waiting->members, waiting->members + 1, sizeof(Member) * --waiting->n);
			}
		}
		bad += done != plan->nadmissions;
		shim_reset();
	}
	ok(bad == 0, "cut off and gone on with, a plan is the same as in one go");
}

int
main(void)
{
	test_oracle("heads known", 0, 2000, (Options) {true, false, false});
	test_oracle("heads bounded", 3000, 2000, (Options) {false, false, false});
	test_oracle("large gangs", 6000, 1000, (Options) {true, true, false});
	test_oracle("cut off", 8000, 1500, (Options) {false, false, true});
	test_shuffled(10000, 700);
	test_pieces(11000, 700);
	return done_testing();
}

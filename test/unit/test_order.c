/*
 * test_order.c
 *
 * Property tests of the plan: thousands of random small worlds, each decided by the core and by an oracle that is too
 * simple to be wrong; and what must hold after any plan.  Prints TAP; exits 1 when a test failed.
 */
#include "oracle.h"
#include "random_world.h"

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
same_plans(const World *world, const CyclePlan *plan, const Oracle *oracle)
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
same_reasons(const World *world, const CyclePlan *plan, const Oracle *oracle, Options options)
{
	for (int l = 0; l < world->nlanes; l++)
	{
		const Lane *lane = &world->lanes[l];
		const Reason *reason = lane->reason;
		const OracleLane *right = &oracle->lanes[l];

		if (lane->skip || lane->waiting == 0)
			continue;
		/* a cut leaves lanes undecided; one that comes up by its bound may be blocked before the oracle gets there */
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
			a->nodes[n].account != b->nodes[n].account ||
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
conserved(const World *before, const World *after, const CyclePlan *plan)
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
			const PoolNode *node = &after->nodes[admission->pods[j].node];

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
		CyclePlan  *plan = plan_world(world);

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
test_shuffled(int first, int n, Options options)
{
	int			bad = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *straight = draw_world(i, options);
		World	   *shuffled = draw_world(i, options);
		CyclePlan  *a;
		CyclePlan  *b;

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
	ok(bad == 0, psprintf("lanes and types in another order: the same plan%s", options.isolate ? " (accounts apart)" : ""));
}

/* What was cut off goes on in the next plan: in pieces the same admissions as at once. */
static void
test_pieces(int first, int n, Options options)
{
	int			bad = 0;

	for (int i = first; i < first + n; i++)
	{
		World	   *whole = draw_world(i, options);
		World	   *pieces = draw_world(i, options);
		CyclePlan  *plan = plan_world(whole);
		int			done = 0;
		bool		more = true;

		while (more)
		{
			CyclePlan  *piece;

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
	ok(bad == 0, psprintf("cut off and gone on with, a plan is the same as in one go%s",
						   options.isolate ? " (accounts apart)" : ""));
}

int
main(void)
{
	test_oracle("heads known", 0, 2000, (Options) {.exact_heads = true});
	test_oracle("heads bounded", 3000, 2000, (Options) {0});
	test_oracle("large gangs", 6000, 1000, (Options) {.exact_heads = true, .large_gangs = true});
	test_oracle("cut off", 8000, 1500, (Options) {.cut = true});
	test_oracle("many ties", 20000, 1500, (Options) {.exact_heads = true, .ties = true});
	test_oracle("accounts apart", 30000, 2000, (Options) {.exact_heads = true, .isolate = true});
	test_oracle("accounts apart, large gangs", 33000, 1500,
				(Options) {.exact_heads = true, .large_gangs = true, .isolate = true});
	test_oracle("accounts apart, many ties", 36000, 1500,
				(Options) {.exact_heads = true, .ties = true, .isolate = true});
	test_shuffled(10000, 700, (Options) {.large_gangs = true});
	test_shuffled(40000, 700, (Options) {.large_gangs = true, .isolate = true});
	test_pieces(11000, 700, (Options) {.exact_heads = true});
	test_pieces(41000, 700, (Options) {.exact_heads = true, .isolate = true});
	return done_testing();
}

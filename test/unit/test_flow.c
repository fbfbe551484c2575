/*
 * test_flow.c
 *
 * The flow against what it must be: by the theorem of minimum cuts the least, over all sets of policies, of what the
 * pools have that the set reaches and what the others want.  Prints TAP; exits 1 when a test failed.
 */
#include "worlds.h"

#include "core/flow.h"

#define MOST_POLICIES	6
#define MOST_POOLS		5

typedef struct Case
{
	int			npolicies;
	int			npools;
	bool		reach[MOST_POLICIES * MOST_POOLS];
	int64		demand[MOST_POLICIES];
	int64		supply[MOST_POOLS];
} Case;

static void
draw_case(Case *c)
{
	int			most = 1 + below(9);

	c->npolicies = below(MOST_POLICIES + 1);
	c->npools = below(MOST_POOLS + 1);
	for (int i = 0; i < c->npolicies * c->npools; i++)
		c->reach[i] = below(3) == 0;
	for (int p = 0; p < c->npolicies; p++)
		c->demand[p] = below(most + 2) - 1;
	for (int m = 0; m < c->npools; m++)
		c->supply[m] = below(most + 2) - 1;
}

/* What a set of policies wants, or the pools that it reaches have. */
static int64
wanted_by(const Case *c, int set)
{
	int64		sum = 0;

	for (int p = 0; p < c->npolicies; p++)
		if (set & (1 << p))
			sum += Max(c->demand[p], 0);
	return sum;
}

static int64
reached_by(const Case *c, int set)
{
	int64		sum = 0;

	for (int m = 0; m < c->npools; m++)
	{
		bool		reached = false;

		for (int p = 0; p < c->npolicies; p++)
			reached |= (set & (1 << p)) && c->reach[p * c->npools + m];
		if (reached)
			sum += Max(c->supply[m], 0);
	}
	return sum;
}

/* By how much the set that lacks most lacks. */
static int64
most_lacking(const Case *c)
{
	int64		most = 0;

	for (int set = 0; set < 1 << c->npolicies; set++)
		most = Max(most, wanted_by(c, set) - reached_by(c, set));
	return most;
}

static bool
carried_rightly(const Case *c, const Flow *flow, int64 total)
{
	int64		sum = 0;
	int64		into[MOST_POOLS] = {0};

	for (int p = 0; p < c->npolicies; p++)
	{
		int64		out = 0;

		for (int m = 0; m < c->npools; m++)
		{
			int64		carried = flow_carried(flow, p, m);

			if (carried < 0 || (carried > 0 && !c->reach[p * c->npools + m]))
				return false;
			out += carried;
			into[m] += carried;
		}
		if (out > Max(c->demand[p], 0))
			return false;
		sum += out;
	}
	for (int m = 0; m < c->npools; m++)
		if (into[m] > Max(c->supply[m], 0))
			return false;
	return sum == total;
}

/* The set is one that lacks most, with the right figures, and nothing can be left out of it. */
static bool
short_rightly(const Case *c, const Flow *flow)
{
	bool		is_short[MOST_POLICIES];
	int64		wanted;
	int64		reachable;
	int64		lacking = most_lacking(c);
	bool		any = flow_short(flow, is_short, &wanted, &reachable);
	int			set = 0;

	for (int p = 0; p < c->npolicies; p++)
		set |= is_short[p] ? 1 << p : 0;
	if (any != (lacking > 0) || any != (set != 0))
		return false;
	if (wanted != wanted_by(c, set) || reachable != reached_by(c, set) || wanted - reachable != lacking)
		return false;
	for (int p = 0; p < c->npolicies; p++)
		if (is_short[p] && wanted_by(c, set & ~(1 << p)) - reached_by(c, set & ~(1 << p)) >= lacking)
			return false;
	return true;
}

static void
test_random(int n)
{
	int			bad_flow = 0;
	int			bad_parts = 0;
	int			bad_cut = 0;
	int			bad_max = 0;
	int			bad_again = 0;

	for (int i = 0; i < n; i++)
	{
		Case		c;
		Flow	   *flow;
		int64		total;

		seed_with(i);
		draw_case(&c);
		flow = flow_create(c.npolicies, c.npools, c.reach);
		total = flow_max(flow, c.demand, c.supply);
		bad_flow += total != wanted_by(&c, (1 << c.npolicies) - 1) - most_lacking(&c);
		bad_parts += !carried_rightly(&c, flow, total);
		bad_cut += !short_rightly(&c, flow);

		/* the same network with other amounts */
		for (int p = 0; p < c.npolicies; p++)
			c.demand[p] = below(12);
		total = flow_max(flow, c.demand, c.supply);
		bad_max += total != wanted_by(&c, (1 << c.npolicies) - 1) - most_lacking(&c) || !short_rightly(&c, flow);

		/* bit by bit */
		for (int step = 0; step < 6; step++)
		{
			if (c.npolicies > 0)
				c.demand[below(c.npolicies)] = below(12);
			if (c.npools > 0)
				c.supply[below(c.npools)] = below(12);
			total = flow_again(flow, c.demand, c.supply);
			bad_again += total != wanted_by(&c, (1 << c.npolicies) - 1) - most_lacking(&c) ||
				!carried_rightly(&c, flow, total) || !short_rightly(&c, flow);
		}
		flow_free(flow);
		shim_reset();
	}
	ok(bad_flow == 0, "the flow is that of the least cut");
	ok(bad_parts == 0, "its parts are within what is wanted, reached and there, and add up to it");
	ok(bad_cut == 0, "who is short lacks just what is not carried, with both figures, and nobody too many");
	ok(bad_max == 0, "so it is when the same network is asked again with other amounts");
	ok(bad_again == 0, "and when it goes on from the flow before");
}

static void
test_large(void)
{
	const int64 demand[] = {PG_INT64_MAX, PG_INT64_MAX, 5};
	const int64 supply[] = {PG_INT64_MAX - 10, 10};
	const bool	reach[] = {true, true, true, true, false, true};
	Flow	   *flow = flow_create(3, 2, reach);
	bool		is_short[3];
	int64		wanted;
	int64		reachable;

	ok(flow_max(flow, demand, supply) == PG_INT64_MAX, "amounts up to the range are carried");
	ok(flow_short(flow, is_short, &wanted, &reachable) && wanted == PG_INT64_MAX && reachable == PG_INT64_MAX,
	   "sums too large to say are the largest amount");
	shim_reset();
}

/* A chain: each policy reaches two neighbouring pools, so that the last unit wanders through all of them. */
static void
test_chain(int n)
{
	bool	   *reach = palloc0(sizeof(bool) * n * (n + 1));
	int64	   *demand = palloc(sizeof(int64) * n);
	int64	   *supply = palloc(sizeof(int64) * (n + 1));
	Flow	   *flow;

	for (int p = 0; p < n; p++)
	{
		reach[p * (n + 1) + p] = reach[p * (n + 1) + p + 1] = true;
		demand[p] = 1000;
		supply[p] = 999;
	}
	supply[n] = n;
	flow = flow_create(n, n + 1, reach);
	ok(flow_max(flow, demand, supply) == 1000 * n, "what is short at one end of a chain comes from the other");
	shim_reset();
}

int
main(void)
{
	test_random(30000);
	test_large();
	test_chain(300);
	return done_testing();
}

/*
 * preempt_random.h
 *
 * Random worlds of few placed workloads, in which the victims chosen are compared with the plainest reading of the
 * rules, and with all subsets: none that fits is without a victim as dear, and no part of the chosen set would do; and
 * who fits into its policy's reservation finds room when any set that may be taken gives it.
 */
#ifndef TEST_PREEMPT_RANDOM_H
#define TEST_PREEMPT_RANDOM_H

#include "preempt_world.h"

#define ROUNDS			8000
#define RANDOM_PLACED	8

/* How a candidate stands to those that are placed, by the rules as they are written. */
typedef struct Reading
{
	World	   *world;
	const Lane *lane;
	bool		rank;
	int			n;
	const Placed *order[RANDOM_PLACED];
	int			pool;
	int			type;
} Reading;

static int64
holds_above(const World *world, int policy)
{
	return world->policies[policy].held[0] - world->policies[policy].reservation[0];
}

/* By which rule, in the pool and type in hand; -1: none.  given: what those chosen before have, by policy. */
static int
reads_rule(const Reading *r, const Placed *placed, const int64 *given)
{
	const World *world = r->world;

	if (placed->pool != r->pool || placed->type != r->type || placed->guarantee)
		return -1;
	if (world->pools[r->pool].exclusive && placed->home != r->pool)
		return PREEMPT_BORROWED;
	if (placed->immune_until > world->now)
		return -1;
	if (r->rank && placed->policy != r->lane->policy)
		return placed->policy < 0 || holds_above(world, placed->policy) - given[placed->policy] >=
			placed->request[0] * placed->npods ? PREEMPT_RESERVATION : -1;
	return placed->policy == r->lane->policy && placed->priority < r->lane->priority &&
		(placed->policy >= 0 || placed->home == r->pool) ? PREEMPT_PRIORITY : -1;
}

static bool
reads_before(const World *world, const Placed *a, const Placed *b)
{
	bool		a_borrows = world->pools[a->pool].exclusive && a->home != a->pool;
	bool		b_borrows = world->pools[b->pool].exclusive && b->home != b->pool;
	int64		a_above = a->policy < 0 ? PG_INT64_MAX : holds_above(world, a->policy);
	int64		b_above = b->policy < 0 ? PG_INT64_MAX : holds_above(world, b->policy);

	if (a_borrows != b_borrows)
		return a_borrows;
	if (a->priority != b->priority)
		return a->priority < b->priority;
	if (a_above != b_above)
		return a_above > b_above;
	if (a->checkpointable != b->checkpointable)
		return a->checkpointable;
	if (a->started_at != b->started_at)
		return a->started_at > b->started_at;
	if (a->submitted_at != b->submitted_at)
		return a->submitted_at > b->submitted_at;
	return a->workload_id > b->workload_id;
}

/* How many replicas fit on a node when those of a set (bits, by their place in the order) are gone. */
static int64
reads_times(const Reading *r, int n, int set)
{
	const PoolNode *node = &r->world->nodes[n];
	int64		devices[8];
	int64		whole = 0;
	int64		parts = 0;

	if (node->pool != r->pool || node->type != r->type || !node->takes_work)
		return 0;
	memcpy(devices, node->device_free, sizeof(int64) * node->ndevices);
	for (int i = 0; i < r->n; i++)
		for (int pod = 0; pod < r->order[i]->npods && set >> i & 1; pod++)
			for (int d = 0; d < r->order[i]->pods[pod].ndevices; d++)
				if (r->order[i]->pods[pod].node == n)
					devices[r->order[i]->pods[pod].devices[d]] += Min(r->order[i]->request[0], RPQ_UNIT);
	for (int d = 0; d < node->ndevices; d++)
	{
		whole += devices[d] == RPQ_UNIT;
		parts += devices[d] > 0 ? devices[d] / Min(r->lane->request[0], RPQ_UNIT) : 0;
	}
	return r->lane->request[0] < RPQ_UNIT ? parts : whole / (r->lane->request[0] / RPQ_UNIT);
}

static int64
reads_all_times(const Reading *r, int set)
{
	int64		times = 0;

	for (int n = 0; n < r->world->nnodes; n++)
		times += reads_times(r, n, set);
	return times;
}

/* Whether the candidate fits when those of a set are gone. */
static bool
reads_fit(const Reading *r, int set)
{
	const UsageLimit *total = r->world->pools[r->pool].total;
	int64		used = total->used[0];

	for (int i = 0; i < r->n; i++)
		if (set >> i & 1 && r->order[i]->home == r->pool)
			used -= r->order[i]->request[0] * r->order[i]->npods;
	return used + r->lane->request[0] * r->lane->replicas <= total->max[0] &&
		reads_all_times(r, set) >= r->lane->replicas;
}

/* Whether all of a set may be taken, each with those before it gone. */
static bool
reads_eligible(const Reading *r, int set)
{
	int64		given[MAX_POLICIES] = {0};

	for (int i = 0; i < r->n; i++)
	{
		if (!(set >> i & 1))
			continue;
		if (reads_rule(r, r->order[i], given) < 0)
			return false;
		if (r->order[i]->policy >= 0)
			given[r->order[i]->policy] += r->order[i]->request[0] * r->order[i]->npods;
	}
	return true;
}

static int
dearest(int set)
{
	int			last = -1;

	for (int i = 0; i < RANDOM_PLACED; i++)
		if (set >> i & 1)
			last = i;
	return last;
}

static bool
is_on_node(const Placed *placed, int n)
{
	for (int pod = 0; pod < placed->npods; pod++)
		if (placed->pods[pod].node == n)
			return true;
	return false;
}

/* The best set on one node for one replica more, beside those chosen; 0: none. */
static int
reads_node(const Reading *r, int n, int chosen)
{
	int			there = 0;
	int			best = 0;

	for (int i = 0; i < r->n; i++)
		there |= is_on_node(r->order[i], n) << i;
	for (int set = 1; set < 1 << r->n; set++)
		if ((set & (there & ~chosen)) == set && (best == 0 || set < best) && reads_eligible(r, chosen | set) &&
			reads_times(r, n, chosen | set) > reads_times(r, n, chosen))
			best = set;
	return best;
}

/* Node by node, until all replicas have room; then in the order, until it fits.  0: it does not. */
static int
reads_nodewise(const Reading *r)
{
	int			chosen = 0;

	while (reads_all_times(r, chosen) < r->lane->replicas)
	{
		int			best = 0;

		for (int n = 0; n < r->world->nnodes; n++)
		{
			int			set = reads_node(r, n, chosen);

			if (set != 0 && (best == 0 || dearest(set) < dearest(best) ||
							 (dearest(set) == dearest(best) && __builtin_popcount(set) < __builtin_popcount(best))))
				best = set;
		}
		if (best == 0)
			return 0;
		chosen |= best;
	}
	for (int i = 0; i < r->n && !reads_fit(r, chosen); i++)
		if (reads_eligible(r, chosen | 1 << i))
			chosen |= 1 << i;
	return reads_fit(r, chosen) ? chosen : 0;
}

/* In the order, 0: that does not lead to a set. */
static int
reads_greedy(const Reading *r)
{
	int64		given[MAX_POLICIES] = {0};
	int			set = 0;

	for (int i = 0; i < r->n && !reads_fit(r, set); i++)
	{
		if (reads_rule(r, r->order[i], given) < 0)
			continue;
		set |= 1 << i;
		if (r->order[i]->policy >= 0)
			given[r->order[i]->policy] += r->order[i]->request[0] * r->order[i]->npods;
	}
	return reads_fit(r, set) ? set : 0;
}

/* The set that the text leads to, 0: none. */
static int
reads_set(const Reading *r)
{
	int			set = reads_greedy(r);

	if (set == 0)
		set = reads_nodewise(r);
	for (int i = r->n - 1; i >= 0; i--)
		if (set >> i & 1 && reads_fit(r, set & ~(1 << i)))
			set &= ~(1 << i);
	return set;
}

static void
draw_placed(World *world, int node, int policies)
{
	PoolNode   *n = &world->nodes[node];
	int64		gpu = below(3) == 0 ? 500 : 1000 * (1 + below(2));
	Placed	   *placed;
	int			fits = 0;

	for (int d = 0; d < n->ndevices; d++)
		fits += n->device_free[d] >= Min(gpu * MILLI, RPQ_UNIT);
	if (world->nplaced == RANDOM_PLACED || fits * 1000 < gpu)
		return;
	placed = place(world, 100 + (world->nplaced * 7) % 11, policies ? below(3) - 1 + (policies > 1) : -1, 10 * below(3), node, gpu, 0);
	placed->checkpointable = below(3) == 0;
	placed->guarantee = below(10) == 0;
	placed->started_at = below(3);
	placed->submitted_at = below(2);
	placed->immune_until = below(8) == 0 ? 2000 : 0;
	if (world->pools[placed->pool].exclusive && placed->policy < 0 && below(2) == 0)
	{
		placed->home = 0;
		world->pools[placed->pool].total->used[0] -= placed->request[0];
	}
	for (int other = 0; other < world->nnodes && below(3) == 0; other++)
	{
		const PoolNode *o = &world->nodes[other];

		fits = 0;
		for (int d = 0; d < o->ndevices; d++)
			fits += o->device_free[d] >= Min(gpu * MILLI, RPQ_UNIT);
		if (o->pool == placed->pool && o->type == placed->type && fits * 1000 >= gpu && placed->home == placed->pool)
			add_pod(world, placed, other);
	}
}

static World *
draw_preempt_world(uint64 number, int policies, Lane **lane)
{
	static const int64 gpus[] = {500, 1000, 1000, 2000, 3000};
	World	   *world = preempt_world();
	int			npools;

	seed_with(number);
	npools = 1 + below(2);
	add_type(world);
	for (int p = 0; p < npools; p++)
	{
		add_pool(world, "p");
		add_pool_type(world, p, 0, below(2) ? POLICY_BINPACK : POLICY_SPREAD);
		add_pool_type(world, p, 1, world->pools[p].types[0].policy);
		world->pools[p].exclusive = p == 1 && below(2);
	}
	for (int p = 0; p < 2 + (policies > 1); p++)
		add_policy(world, "a", below(6));
	for (int n = 1 + below(5); n > 0; n--)
	{
		PoolNode   *node = add_node(world, psprintf("n%d", 9 - n), below(npools), below(2), 1 + below(4), 64, 64);

		node->takes_work = below(8) > 0;
	}
	for (int i = 0; i < 12; i++)
		draw_placed(world, below(world->nnodes), policies);
	for (int p = 1; p < world->npolicies && policies > 1; p++)
		world->policies[p].reservation[0] = Max(0, world->policies[p].held[0] - RPQ_UNIT / 2 * below(6));
	if (policies > 1)
		world->policies[0].reservation[0] = 100 * RPQ_UNIT;
	*lane = policy_lane(world, policies > 1 ? 0 : policies ? below(2) : -1, below(npools), 10 * below(4), below(3) ? 1 : 2,
						gpus[below(lengthof(gpus))], 0);
	if (npools > 1 && (*lane)->policy >= 0 && below(2))
		(*lane)->pools[(*lane)->npools++] = 1 - (*lane)->pools[0];
	return world;
}

/* Orders all that is placed as the text says. */
static void
read_world(Reading *r, World *world, const Lane *lane)
{
	r->world = world;
	r->lane = lane;
	r->rank = lane->policy >= 0 && lane->request[0] * lane->replicas <= -holds_above(world, lane->policy);
	r->n = world->nplaced;
	for (int i = 0; i < world->nplaced; i++)
	{
		int			j = i;

		for (; j > 0 && reads_before(world, &world->placed[i], r->order[j - 1]); j--)
			r->order[j] = r->order[j - 1];
		r->order[j] = &world->placed[i];
	}
}

/* Whether all subsets say that a set is as good as can be; where rights depend on who is chosen, not by its dearest. */
static bool
none_better(const Reading *r, int set, int policies)
{
	if (set != 0 && (!reads_eligible(r, set) || !reads_fit(r, set)))
		return false;
	for (int other = 1; other < 1 << r->n; other++)
	{
		if ((other & set) == other && other != set && reads_fit(r, other))
			return false;
		if (!policies && (set == 0 || dearest(other) < dearest(set)) && reads_eligible(r, other) && reads_fit(r, other))
			return false;
	}
	return true;
}

/* Whether any set that may be taken would do. */
static bool
any_would_do(const Reading *r)
{
	for (int set = 1; set < 1 << r->n; set++)
		if (reads_fit(r, set) && reads_eligible(r, set))
			return true;
	return false;
}

typedef struct Tally
{
	int			by_node;		/* found node by node alone */
	int			gangs_missed;	/* some set would do, and none was found */
	bool		none_missed;	/* one replica: found when any set would do */
	int			found;
	int			several;
	bool		agree;
	bool		subsets;
	bool		restored;
	bool		rooms;
} Tally;

/* What is free and counted, in one number. */
static uint64
fingerprint(const World *world)
{
	uint64		sum = 0;

	for (int n = 0; n < world->nnodes; n++)
	{
		sum = sum * 31 + world->nodes[n].free[0];
		for (int d = 0; d < world->nodes[n].ndevices; d++)
			sum = sum * 31 + world->nodes[n].device_free[d];
	}
	for (int p = 0; p < world->npools; p++)
		sum = sum * 31 + world->pools[p].total->used[0];
	for (int p = 0; p < world->npolicies; p++)
		sum = sum * 31 + world->policies[p].held[0];
	return sum;
}

static void
random_round(uint64 number, int policies, Tally *tally)
{
	Lane	   *lane;
	World	   *world = draw_preempt_world(number, policies, &lane);
	Reading		r = {0};
	Placer	   *placer = placer_create(world);
	Outcome		outcome;
	uint64		before = fingerprint(world);
	int			best = 0;
	int			found = 0;

	read_world(&r, world, lane);
	for (int i = 0; i < lane->npools; i++)
		for (int t = 0; t < 2; t++)
		{
			int			set;

			r.pool = lane->pools[i];
			r.type = t;
			if (reads_fit(&r, 0))
				return;			/* not blocked by room */
			set = reads_set(&r);
			tally->by_node += set != 0 && reads_greedy(&r) == 0;
			if (set == 0 && any_would_do(&r))
			{
				tally->none_missed &= lane->replicas > 1;
				tally->gangs_missed++;
			}
			tally->subsets &= none_better(&r, set, policies);
			if (set != 0 && (best == 0 || dearest(set) < dearest(best)))
				best = set;
		}
	find(placer, lane, &outcome);
	for (int i = 0; i < outcome.victims.nvictims; i++)
		for (int j = 0; j < r.n; j++)
			if (r.order[j] == outcome.victims.victims[i])
				found |= 1 << j;
	if (found != best)
		printf("# %lu: found %x, by the text %x\n", number, found, best);
	tally->agree &= found == best;
	tally->restored &= fingerprint(world) == before;
	tally->found += best != 0;
	tally->several += outcome.victims.nvictims > 1;
	if (found == 0)
		return;
	slow_from = below(2) ? 100 : 105;
	take(&outcome);
	tally->rooms &= rooms_agree(placer) && (outcome.at_once || slow_from < PG_INT32_MAX);
}

static void
test_random(void)
{
	static const char *const kinds[] = {"direct", "policies", "little to give"};

	for (int policies = 0; policies < 3; policies++)
	{
		Tally		tally = {.none_missed = true, .agree = true, .subsets = true, .restored = true, .rooms = true};

		for (int i = 0; i < ROUNDS; i++)
		{
			random_round(i, policies, &tally);
			if (i % 100 == 99)
				shim_reset();
		}
		printf("# %d worlds, victims in %d, several in %d, node by node %d, gangs missed %d\n", ROUNDS, tally.found,
			   tally.several, tally.by_node, tally.gangs_missed);
		ok(tally.found > ROUNDS / 10 && tally.several > ROUNDS / 200 && (policies < 2 || tally.by_node > ROUNDS / 400),
		   psprintf("%s: worlds", kinds[policies]));
		ok(tally.agree, "the set is that to which the text leads");
		ok(tally.subsets, policies ? "no part of it would do" : "no part of it would do, and none is less dear");
		ok(tally.none_missed, "one replica finds room when any set that may be taken gives it");
		ok(tally.restored, "a search leaves everything as it was");
		ok(tally.rooms, "rooms are right after a set was taken");
	}
}

#endif							/* TEST_PREEMPT_RANDOM_H */

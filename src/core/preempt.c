/*
 * preempt.c
 *
 * Which victims a workload takes that is blocked by room: the set of all pools and instance types of which the dearest
 * victim comes first in the order.  Nothing is decided here for good; vacate.c carries it out.
 *
 * A search gives each victim's room back on the nodes themselves, and takes it again when it is over, so that what fits
 * is asked of the same functions as everywhere.  The rooms know nothing of it: what fits without victims is counted
 * once, then only nodes that a victim leaves or comes back to are looked at again.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/preempt.h"
#include "core/reserve.h"

typedef struct Choice
{
	Placed	   *placed;
	PreemptRule rule;
	VictimKey	key;
} Choice;

/* One search: a pool and an instance type. */
typedef struct Search
{
	Placer	   *placer;
	World	   *world;
	Evictor    *evictor;
	const Candidate *candidate;
	bool		has_rank;
	int			pool;
	int			type;
	Room	   *room;
	int64		fitting;		/* how many replicas fit; when that is enough without victims, no more is counted */
	int64	   *more;			/* [nkeys]: what victims leave free on nodes that take work */
	int			nchosen;
	int			maxchosen;
	Choice	   *chosen;
	VictimOrder order;
} Search;

/* ---- nodes ---- */

/* How many replicas fit on a node as it stands. */
static int64
times_on_node(const Search *search, int n)
{
	const World *world = search->world;
	const PoolNode *node = &world->nodes[n];
	int64		account = search->candidate->need->account;

	if (!node->takes_work || node->pool != search->pool || node->type != search->type ||
		(search->placer->is_target[n] && !targets_open(search->room, search->candidate->need)))
		return 0;
	if (!node_open_to(world, node, account))
	{
		int64		left = account_left(search->evictor, n, true);

		if (left != 0 && left != account)
			return 0;
	}
	return need_times_on_node(world, search->candidate->need, node);
}

static void
count_more(Search *search, const PoolNode *node, int sign)
{
	if (node->takes_work && node->pool == search->pool)
		for (int k = 0; k < search->world->nkeys; k++)
			search->more[k] += sign * Max(node->free[k], 0);
}

/*
 * The pods of a victim leave their nodes, or come back.
 */
static void
move_pods(Search *search, const Placed *placed, int sign)
{
	Evictor    *evictor = search->evictor;

	for (int i = 0; i < placed->npods; i++)
	{
		int			n = placed->pods[i].node;

		if (n < 0)
			continue;
		if (evictor->visited[n] != evictor->visit)
		{
			evictor->visited[n] = evictor->visit;
			evictor->times[n] = times_on_node(search, n);
		}
		count_more(search, &search->world->nodes[n], -1);
		node_give(search->world, placed, i, sign);
		count_more(search, &search->world->nodes[n], 1);
	}
	evictor->chosen[placed_index(evictor, placed)] = sign > 0;
	for (int i = 0; i < placed->npods; i++)
	{
		int			n = placed->pods[i].node;
		int64		times;

		if (n < 0)
			continue;
		times = times_on_node(search, n);
		search->fitting += times - evictor->times[n];
		evictor->times[n] = times;
	}
}

/* A victim is chosen (sign 1), or spared (-1). */
static void
choose(Search *search, const Placed *placed, int sign)
{
	World	   *world = search->world;
	UsageLimit *total = world->pools[search->pool].total;

	move_pods(search, placed, sign);
	for (int k = 0; k < world->nkeys; k++)
	{
		int64		amount = sign * placed_total(placed, k);

		if (placed->policy >= 0)
			search->evictor->given[placed->policy * world->nkeys + k] += amount;
		if (total != NULL && placed->home == search->pool)
			total->used[k] -= amount;
	}
}

/* ---- what fits, who may be taken ---- */

static bool
fits(const Search *search)
{
	const Lane *lane = search->candidate->lane;
	const UsageLimit *total = search->world->pools[search->pool].total;
	const int64 *own = NULL;

	if (search->fitting < lane->replicas ||
		(total != NULL && !limit_passes(search->world, total, search->candidate->total)))
		return false;
	if (lane->policy >= 0)
		own = search->evictor->given + lane->policy * search->world->nkeys;
	return reserved_passes(search->placer, search->candidate, search->pool, search->more, own);
}

/*
 * Whether a victim's policy holds enough without it and those chosen before: for every key that the preemptor asks for
 * and the victim would free, and there must be one.
 */
static bool
policy_can_give(const Search *search, const Placed *placed)
{
	const World *world = search->world;
	const Policy *policy = &world->policies[placed->policy];
	const int64 *given = search->evictor->given + placed->policy * world->nkeys;
	const int64 *request = search->candidate->lane->request;
	bool		any = false;

	for (int k = 0; k < world->nkeys; k++)
	{
		if (request[k] <= 0 || placed->request[k] <= 0)
			continue;
		if (policy->held[k] - given[k] - placed_total(placed, k) < policy->reservation[k])
			return false;
		any = true;
	}
	return any;
}

/* Whether a victim frees something that the preemptor asks for, be it a node from another account. */
static bool
is_of_use(const Search *search, const Placed *placed)
{
	const int64 *request = search->candidate->lane->request;

	if (search->world->pools[search->pool].isolate)
		return true;
	for (int k = 0; k < search->world->nkeys; k++)
		if (request[k] > 0 && placed->request[k] > 0)
			return true;
	return false;
}

static bool
is_eligible(const Search *search, const Placed *placed, PreemptRule rule)
{
	if (rule == PREEMPT_RESERVATION && placed->policy >= 0 && !policy_can_give(search, placed))
		return false;
	return is_of_use(search, placed);
}

/*
 * The most of a key that all that a search may take could give: of a policy no more than what it holds beyond its
 * reservation.  The groups of a policy do not follow each other, so what each gave is kept in scratch.
 */
static int64
most_given(const Search *search, int key, int64 *scratch)
{
	const World *world = search->world;
	int64		most = 0;

	memset(scratch, 0, sizeof(int64) * (world->npolicies + 1));
	for (int i = 0; i < search->order.nsources; i++)
	{
		const VictimSource *source = &search->order.sources[i];
		int			policy = source->group->policy;
		int64		amount = source->group->room_sum[key];

		if (source->rule == PREEMPT_RESERVATION && policy >= 0)
		{
			int64		above = world->policies[policy].held[key] - world->policies[policy].reservation[key];

			amount = Min(amount, Max(above, 0) - scratch[policy]);
			scratch[policy] += amount;
		}
		most += amount;
	}
	return most;
}

/*
 * Whether a search could succeed at all, by the sums alone: what is free, on nodes that host other accounts too, and
 * what victims could give.
 */
static bool
worth_a_search(const Search *search)
{
	const World *world = search->world;
	const Room *room = search->room;
	const int64 *total = search->candidate->total;
	int64	   *scratch = palloc(sizeof(int64) * (world->npolicies + 1));
	bool		worth = search->order.nsources > 0;

	for (int k = 0; k < world->nkeys && worth; k++)
	{
		int64		have;

		if (total[k] <= 0)
			continue;
		have = room->sum[k] + (room->isolate ? room->hosting[k] : 0);
		worth = have >= total[k] || most_given(search, k, scratch) >= total[k] - have;
	}
	pfree(scratch);
	return worth;
}

/* ---- the search ---- */

static bool
take_until_it_fits(Search *search)
{
	Choice		choice;

	while ((choice.placed = victims_next(&search->order, &choice.rule, &choice.key)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_eligible(search, choice.placed, choice.rule))
			continue;
		if (search->nchosen == search->maxchosen)
		{
			search->maxchosen *= 2;
			search->chosen = repalloc_huge(search->chosen, sizeof(Choice) * (Size) search->maxchosen);
		}
		search->chosen[search->nchosen++] = choice;
		choose(search, choice.placed, 1);
		if (fits(search))
			return true;
	}
	return false;
}

/* From the last to the first, all without which it still fits. */
static void
spare(Search *search)
{
	int			kept = search->nchosen;

	for (int i = search->nchosen - 1; i >= 0; i--)
	{
		CHECK_FOR_INTERRUPTS();
		choose(search, search->chosen[i].placed, -1);
		if (fits(search))
			continue;
		choose(search, search->chosen[i].placed, 1);
		search->chosen[--kept] = search->chosen[i];
	}
	search->nchosen -= kept;
	memmove(search->chosen, search->chosen + kept, sizeof(Choice) * search->nchosen);
}

/*
 * Seeks a set on one type of the pool.  Afterwards everything stands as before.  False: there is none.
 */
static bool
seek(Search *search, int type_slot)
{
	Placer	   *placer = search->placer;
	Room	   *room = room_get(placer, search->pool, type_slot);
	bool		found;

	search->type = room->type;
	search->room = room;
	search->nchosen = 0;
	victims_seek(search->evictor, search->candidate, search->has_rank, search->pool,
				 placer->first_room[search->pool] + type_slot, &search->order);
	if (!worth_a_search(search))
		return false;
	memset(search->more, 0, sizeof(int64) * search->world->nkeys);
	search->fitting = room_count(room, search->candidate->need, search->candidate->lane->replicas);
	search->evictor->visit++;
	found = take_until_it_fits(search);
	if (found)
		spare(search);
	for (int i = search->nchosen - 1; i >= 0; i--)
		choose(search, search->chosen[i].placed, -1);
	return found && search->nchosen > 0;
}

/* Whether the set just found is better than the best of former searches: by its dearest victim, then by count. */
static bool
is_better(const Search *search, const Victims *best, const VictimKey *dearest)
{
	int			c;

	if (best->nvictims == 0)
		return true;
	c = victim_compare(&search->chosen[search->nchosen - 1].key, dearest);
	return c < 0 || (c == 0 && search->nchosen < best->nvictims);
}

static void
keep_set(const Search *search, Victims *best)
{
	best->pool = search->pool;
	best->type = search->type;
	best->nvictims = search->nchosen;
	best->victims = palloc(sizeof(Placed *) * best->nvictims);
	best->rules = palloc(sizeof(PreemptRule) * best->nvictims);
	for (int i = 0; i < best->nvictims; i++)
	{
		best->victims[i] = search->chosen[i].placed;
		best->rules[i] = search->chosen[i].rule;
	}
}

/*
 * Whether anybody could have to give way to the candidate in a pool, as far as that can be said without a look at what
 * is placed there.
 */
static bool
may_take_in(const World *world, const Candidate *candidate, bool has_rank, int p)
{
	const Pool *pool = &world->pools[p];
	const Lane *lane = candidate->lane;
	const int64 *held = NULL;

	if (pool->pay_as_you_go)
		return false;
	if (pool->total != NULL)
		for (int k = 0; k < world->nkeys; k++)
			if (candidate->total[k] > 0 && candidate->total[k] > limit_bound(pool->total, k))
				return false;
	if (pool->exclusive || has_rank)
		return true;
	if (lane->priority <= 0)
		return false;
	if (lane->policy >= 0)
		held = world->policies[lane->policy].held;
	else if (pool->total != NULL)
		held = pool->total->used;
	for (int k = 0; held != NULL && k < world->nkeys; k++)
		if (held[k] > 0)
			return true;
	return held == NULL;
}

static void
search_init(Search *search, Placer *placer, const Candidate *candidate, bool has_rank)
{
	memset(search, 0, sizeof(Search));
	search->placer = placer;
	search->world = placer->world;
	search->evictor = evictor_get(placer);
	search->candidate = candidate;
	search->has_rank = has_rank;
	search->more = palloc(sizeof(int64) * search->world->nkeys);
	search->maxchosen = 16;
	search->chosen = palloc(sizeof(Choice) * search->maxchosen);
}

/*
 * The best set of victims for a candidate that is blocked by room; false when there is none, or it may take from
 * nobody.  Only pools in which it passes the limits of its own are looked at.
 */
bool
preempt_find(Placer *placer, const Candidate *candidate, Victims *best)
{
	World	   *world = placer->world;
	const Lane *lane = candidate->lane;
	bool		has_rank;
	VictimKey	dearest;
	Search		search = {0};

	memset(best, 0, sizeof(Victims));
	if ((world->load_placed == NULL && world->placed == NULL) || candidate->need->impossible ||
		lane->own != REASON_NONE)
		return false;
	has_rank = candidate_has_rank(world, candidate);
	for (int i = 0; i < lane->npools; i++)
	{
		int			p = lane->pools[i];
		bool	   *usable;

		if (!may_take_in(world, candidate, has_rank, p) || !pool_open_to(placer, candidate, p))
			continue;
		if (search.placer == NULL)
			search_init(&search, placer, candidate, has_rank);
		search.pool = p;
		usable = palloc(sizeof(bool) * (world->pools[p].ntypes + 1));
		memcpy(usable, placer->usable, sizeof(bool) * world->pools[p].ntypes);
		for (int t = 0; t < world->pools[p].ntypes; t++)
			if (usable[t] && seek(&search, t) && is_better(&search, best, &dearest))
			{
				keep_set(&search, best);
				dearest = search.chosen[search.nchosen - 1].key;
			}
		pfree(usable);
	}
	return best->nvictims > 0;
}

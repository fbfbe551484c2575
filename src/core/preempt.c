/*
 * preempt.c
 *
 * Which victims a workload takes that is blocked by room: the set of all pools and instance types of which the dearest
 * victim comes first in the order.  Nothing is decided here for good; vacate.c carries it out.
 *
 * A search gives each victim's room back on the nodes themselves, and puts them back as they were when it is over.  The
 * rooms know nothing of it: what fits without victims is counted once, then only nodes that a victim leaves or comes
 * back to are looked at again.  A search may go through all that is placed, so what it does for one victim is little,
 * and what is put back is nodes, not victims one by one.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/reserve.h"
#include "core/search.h"

static SearchSpace *
space_create(const World *world, const Evictor *evictor)
{
	SearchSpace *space = palloc0(sizeof(SearchSpace));
	Size		n = 0;

	space->seen = palloc0(sizeof(SeenNode) * (world->nnodes + 1));
	space->visited = palloc(sizeof(int) * (world->nnodes + 1));
	space->saved_at = palloc(sizeof(Size) * (world->nnodes + 1));
	for (int i = 0; i < world->nnodes; i++)
	{
		space->saved_at[i] = n;
		n += world->nkeys + world->nodes[i].ndevices;
	}
	space->saved = palloc(sizeof(int64) * (n + 1));
	space->maxchosen = 64;
	space->chosen = palloc(sizeof(Choice) * space->maxchosen);
	space->order.sources = palloc(sizeof(VictimSource) * (evictor->ngroups + 1));
	space->more = palloc(sizeof(int64) * world->nkeys);
	space->used = palloc(sizeof(int64) * world->nkeys);
	space->scratch = palloc(sizeof(int64) * (world->npolicies + 1));
	return space;
}

/* ---- nodes ---- */

/* How many replicas fit on a node as it stands, where it is not enough to look at what is entirely free. */
static int64
times_looked_up(const Search *search, int n)
{
	const World *world = search->world;
	const PoolNode *node = &world->nodes[n];
	int64		account = search->candidate->need->account;

	if (!node_open_to(world, node, account))
	{
		int64		left = account_left(search->evictor, n, true);

		if (left != 0 && left != account)
			return 0;
	}
	return Min(need_times_on_node(world, search->candidate->need, node), search->candidate->need->replicas);
}

int64
search_times(const Search *search, int n)
{
	const Need *need = search->candidate->need;
	const SeenNode *seen = &search->space->seen[n];
	const int64 *available = search->world->nodes[n].free;
	int64		times = need->replicas;

	if (!seen->open || seen->whole < need->whole)
		return 0;
	if (need->part > 0 || search->room->isolate)
		return times_looked_up(search, n);
	for (int i = need->whole > 0; i < need->ndims; i++)
	{
		int64		amount = available[need->dims[i] - 1];

		if (amount < need->amounts[i])
			return 0;
		if (times > 1)
			times = Min(times, amount / need->amounts[i]);
	}
	if (times > 1 && need->whole > 0)
		times = Min(times, seen->whole / need->whole);
	return times;
}

/* A node is seen for the first time in a search: what it has is kept. */
void
search_visit(Search *search, int n)
{
	SearchSpace *space = search->space;
	const PoolNode *node = &search->world->nodes[n];
	SeenNode   *seen = &space->seen[n];
	int64	   *saved = space->saved + space->saved_at[n];

	seen->visit = search->evictor->visit;
	space->visited[space->nvisited++] = n;
	memcpy(saved, node->free, sizeof(int64) * search->world->nkeys);
	memcpy(saved + search->world->nkeys, node->device_free, sizeof(int64) * node->ndevices);
	seen->open = node->takes_work && node->pool == search->pool && node->type == search->type &&
		(!search->placer->is_target[n] || targets_open(search->room, search->candidate->need));
	seen->whole = 0;
	for (int d = 0; d < node->ndevices; d++)
		seen->whole += node->device_free[d] >= RPQ_UNIT;
	seen->base = seen->times = search_times(search, n);
	seen->first = -1;
	seen->pending = seen->changed = false;
}

/* All nodes as they were before the search. */
void
search_undo_nodes(Search *search)
{
	SearchSpace *space = search->space;
	int			nkeys = search->world->nkeys;

	for (int i = 0; i < space->nvisited; i++)
	{
		PoolNode   *node = &search->world->nodes[space->visited[i]];
		const int64 *saved = space->saved + space->saved_at[space->visited[i]];

		memcpy(node->free, saved, sizeof(int64) * nkeys);
		memcpy(node->device_free, saved + nkeys, sizeof(int64) * node->ndevices);
	}
	space->nvisited = 0;
}

static void
count_more(Search *search, const PoolNode *node, int sign)
{
	if (node->takes_work)
		for (int k = 0; k < search->world->nkeys; k++)
			search->space->more[k] += sign * Max(node->free[k], 0);
}

/* A pod leaves its node, or comes back. */
void
search_move_pod(Search *search, const Placed *placed, int pod, int sign)
{
	const PodPlace *place = &placed->pods[pod];
	const PoolNode *node = &search->world->nodes[place->node];
	SeenNode   *seen = &search->space->seen[place->node];

	if (seen->visit != search->evictor->visit)
		search_visit(search, place->node);
	if (search->reserved)
		count_more(search, node, -1);
	for (int i = 0; i < place->ndevices; i++)
		seen->whole -= node->device_free[place->devices[i]] >= RPQ_UNIT;
	node_give(search->world, placed, pod, sign);
	for (int i = 0; i < place->ndevices; i++)
		seen->whole += node->device_free[place->devices[i]] >= RPQ_UNIT;
	if (search->reserved)
		count_more(search, node, 1);
}

/* The pods of a victim leave their nodes (sign 1), or come back (-1). */
void
search_move(Search *search, const Placed *placed, int sign)
{
	for (int i = 0; i < placed->npods; i++)
		if (placed->pods[i].node >= 0)
			search_move_pod(search, placed, i, sign);
	if (search->room->isolate)
		search->evictor->chosen[placed_index(search->evictor, placed)] = sign > 0;
	for (int i = 0; i < placed->npods; i++)
		if (placed->pods[i].node >= 0)
		{
			int			n = placed->pods[i].node;
			SeenNode   *seen = &search->space->seen[n];
			int64		times = search_times(search, n);

			search->fitting += times - seen->times;
			seen->times = times;
		}
}

/* What a victim has is counted as given, or no longer. */
void
search_count(Search *search, const Placed *placed, int sign)
{
	World	   *world = search->world;
	UsageLimit *total = world->pools[search->pool].total;

	if (total != NULL && placed->home == search->pool)
		for (int k = 0; k < world->nkeys; k++)
			total->used[k] -= sign * placed_total(placed, k);
	if (placed->policy >= 0)
		for (int k = 0; k < world->nkeys; k++)
			search->evictor->given[placed->policy * world->nkeys + k] += sign * placed_total(placed, k);
}

/* ---- what fits, who may be taken ---- */

bool
search_fits(Search *search)
{
	const Lane *lane = search->candidate->lane;
	const UsageLimit *total = search->world->pools[search->pool].total;
	const int64 *own = NULL;

	if (search->fitting < lane->replicas ||
		(total != NULL && !limit_passes(search->world, total, search->candidate->total)))
		return false;
	if (lane->policy >= 0)
		own = search->evictor->given + lane->policy * search->world->nkeys;
	if (!search->reserved ||
		reserved_passes(search->placer, search->candidate, search->pool, search->space->more, own))
		return true;
	search->kept_back = true;
	return false;
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

/*
 * Whether a victim may be taken, those chosen so far taken before it.
 */
bool
search_may_take(Search *search, const Placed *placed, PreemptRule rule)
{
	if (!is_of_use(search, placed))
		return false;
	if (rule != PREEMPT_RESERVATION || placed->policy < 0 || policy_can_give(search, placed))
		return true;
	search->passed_over = true;
	return false;
}

/*
 * The most of a key that all that a search may take could give: of a policy no more than what it holds beyond its
 * reservation.
 */
static int64
most_given(const Search *search, int key)
{
	const World *world = search->world;
	const VictimOrder *order = &search->space->order;
	int64	   *of_policy = search->space->scratch; /* so far; its groups do not follow each other */
	int64		most = 0;

	memset(of_policy, 0, sizeof(int64) * world->npolicies);
	for (int i = 0; i < order->nsources; i++)
	{
		const VictimGroup *group = order->sources[i].group;
		int64		amount = group->room_sum[key];

		if (order->sources[i].rule == PREEMPT_RESERVATION && group->policy >= 0)
		{
			const Policy *policy = &world->policies[group->policy];

			amount = Min(amount, Max(policy->held[key] - policy->reservation[key], 0) - of_policy[group->policy]);
			of_policy[group->policy] += amount;
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
	const Room *room = search->room;
	const int64 *total = search->candidate->total;

	if (search->space->order.nsources == 0)
		return false;
	for (int k = 0; k < search->world->nkeys; k++)
	{
		int64		have = room->sum[k] + (room->isolate ? room->hosting[k] : 0);

		if (total[k] > 0 && have < total[k] && most_given(search, k) < total[k] - have)
			return false;
	}
	return true;
}

/* ---- the search ---- */

/* Begins to go through those whom the candidate may take from, none taken. */
void
search_begin(Search *search)
{
	search->evictor->visit++;
	victims_seek(search->evictor, search->candidate, search->has_rank, search->pool,
				 search->placer->first_room[search->pool] + search->type_slot, &search->space->order);
}

/* Whether none of a group may be taken by the rule reservation, whatever else is chosen. */
static bool
is_spent(const Search *search, const VictimGroup *group)
{
	const World *world = search->world;
	const Policy *policy = &world->policies[group->policy];
	const int64 *given = search->evictor->given + group->policy * world->nkeys;

	for (int k = 0; k < world->nkeys; k++)
		if (search->candidate->lane->request[k] > 0 && group->least[k] > 0 &&
			policy->held[k] - given[k] - group->least[k] < policy->reservation[k])
			return true;
	return false;
}

/* The next that may be taken after those chosen so far; NULL: there is none. */
Placed *
search_next(Search *search, PreemptRule *rule)
{
	VictimOrder *order = &search->space->order;
	Placed	   *placed;

	while ((placed = victims_next(order, rule)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (search_may_take(search, placed, *rule))
			break;
		if (*rule == PREEMPT_RESERVATION && placed->policy >= 0 && is_spent(search, order->last))
			order->last->spent = order->visit;
	}
	return placed;
}

/* A victim is chosen. */
void
search_add(Search *search, const Choice *choice)
{
	SearchSpace *space = search->space;

	if (search->nchosen == space->maxchosen)
	{
		space->maxchosen *= 2;
		space->chosen = repalloc_huge(space->chosen, sizeof(Choice) * (Size) space->maxchosen);
	}
	space->chosen[search->nchosen++] = *choice;
}

static bool
take_until_it_fits(Search *search)
{
	Choice		choice;

	while ((choice.placed = search_next(search, &choice.rule)) != NULL)
	{
		choice.rank = search->nchosen;
		search_add(search, &choice);
		search_move(search, choice.placed, 1);
		search_count(search, choice.placed, 1);
		if (search_fits(search))
			return true;
	}
	return false;
}

/* Whether no replica fits on any node of a victim, though its room is free there. */
static bool
helps_no_node(const Search *search, const Placed *placed)
{
	for (int i = 0; i < placed->npods; i++)
		if (placed->pods[i].node >= 0 && search->space->seen[placed->pods[i].node].times > 0)
			return false;
	return true;
}

/*
 * From the last to the first, all without which it still fits.  Most of those that a search has come by help no node,
 * and none would be helped if they came back; unless reservations are looked at, or whom a node hosts, their nodes are
 * left alone.
 */
static void
spare(Search *search)
{
	Choice	   *chosen = search->space->chosen;
	int			kept = search->nchosen;

	for (int i = search->nchosen - 1; i >= 0; i--)
	{
		const Placed *placed = chosen[i].placed;
		bool		nodes = search->reserved || search->room->isolate || !helps_no_node(search, placed);

		CHECK_FOR_INTERRUPTS();
		if (nodes)
			search_move(search, placed, -1);
		search_count(search, placed, -1);
		if (search_fits(search))
			continue;
		if (nodes)
			search_move(search, placed, 1);
		search_count(search, placed, 1);
		chosen[--kept] = chosen[i];
	}
	search->nchosen -= kept;
	memmove(chosen, chosen + kept, sizeof(Choice) * search->nchosen);
}

/* Everything as it was before the search. */
static void
restore(Search *search, int nchosen)
{
	World	   *world = search->world;
	Evictor    *evictor = search->evictor;
	UsageLimit *total = world->pools[search->pool].total;

	search_undo_nodes(search);
	if (total != NULL)
		memcpy(total->used, search->space->used, sizeof(int64) * world->nkeys);
	memset(evictor->given, 0, sizeof(int64) * world->npolicies * world->nkeys);
	for (int i = 0; i < nchosen && search->room->isolate; i++)
		evictor->chosen[placed_index(evictor, search->space->chosen[i].placed)] = false;
}

/*
 * Seeks a set on one type of the pool: in the order, and when room was not found although some were passed over for the
 * reservation of their policy, node by node.  Afterwards everything stands as before.  False: there is none.
 */
static bool
seek(Search *search, int type_slot)
{
	Placer	   *placer = search->placer;
	World	   *world = search->world;
	UsageLimit *total = world->pools[search->pool].total;
	bool		found;

	search->room = room_get(placer, search->pool, type_slot);
	search->type = search->room->type;
	search->type_slot = type_slot;
	search->passed_over = search->kept_back = false;
	search->nchosen = 0;
	search_begin(search);
	if (!worth_a_search(search))
		return false;
	memset(search->space->more, 0, sizeof(int64) * world->nkeys);
	if (total != NULL)
		memcpy(search->space->used, total->used, sizeof(int64) * world->nkeys);
	search->fitting = room_count(search->room, search->candidate->need, search->candidate->need->replicas);
	found = take_until_it_fits(search) ||
		((search->passed_over || search->kept_back) && search_node_by_node(search));
	if (found)
		spare(search);
	restore(search, search->nchosen);
	return found && search->nchosen > 0;
}

/* Whether the set just found is better than the best of former searches: by its dearest victim, then by count. */
static bool
is_better(const Search *search, const Victims *best)
{
	const Choice *last = &search->space->chosen[search->nchosen - 1];
	VictimKey	key;
	VictimKey	dearest;
	int			c;

	if (best->nvictims == 0)
		return true;
	victim_key(search->world, search->candidate, last->placed, last->rule, &key);
	victim_key(search->world, search->candidate, best->victims[best->nvictims - 1], best->rules[best->nvictims - 1],
			   &dearest);
	c = victim_compare(&key, &dearest);
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
		best->victims[i] = search->space->chosen[i].placed;
		best->rules[i] = search->space->chosen[i].rule;
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
	if (search->evictor->space == NULL)
		search->evictor->space = space_create(placer->world, search->evictor);
	search->space = search->evictor->space;
	search->candidate = candidate;
	search->has_rank = has_rank;
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
		search.reserved = reserved_matters(placer, candidate, p);
		usable = palloc(sizeof(bool) * (world->pools[p].ntypes + 1));
		memcpy(usable, placer->usable, sizeof(bool) * world->pools[p].ntypes);
		for (int t = 0; t < world->pools[p].ntypes; t++)
			if (usable[t] && seek(&search, t) && is_better(&search, best))
				keep_set(&search, best);
		pfree(usable);
	}
	return best->nvictims > 0;
}

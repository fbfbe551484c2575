/*
 * oracle_preempt.h
 *
 * The slow oracle, part three: whom a candidate may take room from, and which victims are the right ones.
 */
#ifndef TEST_ORACLE_PREEMPT_H
#define TEST_ORACLE_PREEMPT_H

#include "oracle_checks.h"

#define ORACLE_PLACED	64
#define NOT_ELIGIBLE	(-1)

/* A set of victims of one pool and type. */
typedef struct Victims
{
	int			n;
	int			victim[ORACLE_PLACED];	/* in the order in which they were sought */
	int			rule[ORACLE_PLACED];
	int			pool;
	Verdict		verdict;		/* its place when they are gone */
} Victims;

static inline int64
victim_total(const Placed *placed, int key)
{
	return placed->request[key] * placed->npods;
}

/* The victim's room on its nodes is free. */
static inline void
free_nodes(const World *world, Books *books, const Placed *placed)
{
	for (int i = 0; i < placed->npods; i++)
	{
		const PodPlace *pod = &placed->pods[i];

		if (pod->node < 0)
			continue;
		for (int k = 0; k < NKEYS; k++)
			books->free[pod->node][k] += placed->request[k];
		for (int d = 0; d < pod->ndevices; d++)
			books->device[pod->node][pod->devices[d]] += Min(placed->request[0], RPQ_UNIT);
	}
}

/* What it counts in the pool that it is charged to; nothing where it borrows. */
static inline void
free_total(const Oracle *oracle, Books *books, const Placed *placed)
{
	int64	   *used = books->used[limit_index(oracle, oracle->world->pools[placed->pool].total)];

	for (int k = 0; placed->home == placed->pool && k < NKEYS; k++)
		used[k] -= victim_total(placed, k);
}

static inline void
free_policy(Books *books, const Placed *placed)
{
	for (int k = 0; placed->policy >= 0 && k < NKEYS; k++)
		books->held[placed->policy][k] -= victim_total(placed, k);
}

/* Whether a limit is one of its own: its policy's, or a quota of its account, which some lane of the account knows. */
static inline bool
is_charged_to(const World *world, const Placed *placed, const UsageLimit *limit)
{
	if (placed->policy >= 0)
		return limit == world->policies[placed->policy].limit;
	if (limit->kind != LIMIT_USER || !limit_concerns(limit, placed->home, placed->type))
		return false;
	for (int l = 0; l < world->nlanes; l++)
		for (int i = 0; i < world->lanes[l].nlimits; i++)
			if (world->lanes[l].limits[i] == limit && world->lanes[l].account_id == placed->account_id)
				return true;
	return false;
}

static inline void
free_limits(const Oracle *oracle, Books *books, const Placed *placed)
{
	for (int i = 0; i < oracle->nlimits; i++)
		for (int k = 0; is_charged_to(oracle->world, placed, oracle->limits[i]) && k < NKEYS; k++)
			books->used[i][k] -= victim_total(placed, k);
}

/* Whether it borrows in the exclusive pool that the candidate, being of that pool, wants back. */
static inline bool
borrows_from(const World *world, const Placed *placed)
{
	return world->pools[placed->pool].exclusive && placed->home != placed->pool;
}

/* Its policy holds more than its reservation, without those chosen before (books) and without it. */
static inline bool
above_reservation(const World *world, const Books *books, const Lane *lane, const Placed *placed)
{
	bool		some = false;

	if (placed->policy < 0)
		return true;
	for (int k = 0; k < NKEYS; k++)
	{
		if (lane->request[k] == 0 || placed->request[k] == 0)
			continue;
		some = true;
		if (books->held[placed->policy][k] - victim_total(placed, k) < world->policies[placed->policy].reservation[k])
			return false;
	}
	return some;
}

/* The first rule by which it may be taken, or NOT_ELIGIBLE.  chosen: the books without those chosen before. */
static inline int
rule_for(const Oracle *oracle, const Books *chosen, const Lane *lane, int p, const Placed *placed)
{
	const World *world = oracle->world;

	if (placed->pool != p || placed->guarantee || placed->leaving || oracle->gone[placed - world->placed] ||
		world->pools[p].pay_as_you_go)
		return NOT_ELIGIBLE;
	if (borrows_from(world, placed))
		return PREEMPT_BORROWED;
	if (placed->immune_until > world->now)
		return NOT_ELIGIBLE;
	if (has_rank(world, &oracle->books, lane) && placed->policy != lane->policy &&
		above_reservation(world, chosen, lane, placed))
		return PREEMPT_RESERVATION;
	if (placed->priority < lane->priority && placed->policy == lane->policy &&
		(lane->policy >= 0 || placed->home == p))
		return PREEMPT_PRIORITY;
	return NOT_ELIGIBLE;
}

/* By how many times the candidate a policy is above its reservation: a fraction above/request, the least by key. */
static inline void
excess(const Oracle *oracle, const Lane *lane, int policy, __int128 *above, __int128 *request)
{
	*above = 0;
	*request = 0;
	for (int k = 0; k < NKEYS; k++)
	{
		__int128	its = oracle->books.held[policy][k] - oracle->world->policies[policy].reservation[k];

		if (lane->request[k] > 0 && (*request == 0 || its * *request < *above * lane->request[k]))
		{
			*above = its;
			*request = lane->request[k];
		}
	}
}

/* > 0: policy a is further above its reservation than b */
static inline int
compare_excess(const Oracle *oracle, const Lane *lane, int a, int b)
{
	__int128	above_a;
	__int128	above_b;
	__int128	request_a;
	__int128	request_b;

	if (a < 0 || b < 0 || a == b)
		return (a < 0) - (b < 0);
	excess(oracle, lane, a, &above_a, &request_a);
	excess(oracle, lane, b, &above_b, &request_b);
	return (above_a * request_b > above_b * request_a) - (above_a * request_b < above_b * request_a);
}

/* Whether a is sought before b: the cheaper one. */
static inline bool
sought_before(const Oracle *oracle, const Lane *lane, const Placed *a, const Placed *b)
{
	int			by_excess = compare_excess(oracle, lane, a->policy, b->policy);

	if (borrows_from(oracle->world, a) != borrows_from(oracle->world, b))
		return borrows_from(oracle->world, a);
	if (a->priority != b->priority)
		return a->priority < b->priority;
	if (by_excess != 0)
		return by_excess > 0;
	if (a->checkpointable != b->checkpointable)
		return a->checkpointable;
	if (a->started_at != b->started_at)
		return a->started_at > b->started_at;
	if (a->submitted_at != b->submitted_at)
		return a->submitted_at > b->submitted_at;
	return a->workload_id > b->workload_id;
}

static inline void
sort_placed(const Oracle *oracle, const Lane *lane, int *order)
{
	const World *world = oracle->world;

	for (int i = 0; i < world->nplaced; i++)
	{
		int			j = i;

		for (; j > 0 && sought_before(oracle, lane, &world->placed[i], &world->placed[order[j - 1]]); j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
}

/* Whether a placed workload's pods are no longer on their nodes when some victims (slow_too: slow ones as well) left. */
static inline bool
has_left(const Oracle *oracle, int placed, const Victims *victims, const bool *chosen, bool slow_too)
{
	if (oracle->gone[placed])
		return !oracle->world->placed[placed].slow;
	for (int i = 0; i < victims->n; i++)
		if (victims->victim[i] == placed && chosen[i])
			return slow_too || !oracle->world->placed[placed].slow;
	return false;
}

/*
 * Whose pods a node hosts when these have left, whose room is free in the books by then: nobody's when nothing is taken
 * there; of one account's it stays its own; of several accounts' it becomes that of the one who is left, if all that is
 * taken there is what placed workloads have.
 */
static inline int64
account_left(const Oracle *oracle, const Books *books, int n, const Victims *victims, const bool *chosen,
			 bool slow_too)
{
	const World *world = oracle->world;
	int64		left[NKEYS];
	int64		account = 0;

	for (int k = 0; k < NKEYS; k++)
		left[k] = world->nodes[n].capacity[k] - books->free[n][k];
	if (books->account[n] == 0 || (left[0] == 0 && left[1] == 0 && left[2] == 0))
		return 0;
	if (books->account[n] != SEVERAL_ACCOUNTS)
		return books->account[n];
	for (int i = 0; i < world->nplaced; i++)
		for (int pod = 0; pod < world->placed[i].npods; pod++)
		{
			if (world->placed[i].pods[pod].node != n || has_left(oracle, i, victims, chosen, slow_too))
				continue;
			for (int k = 0; k < NKEYS; k++)
				left[k] -= world->placed[i].request[k];
			account = account == 0 || account == world->placed[i].account_id ? world->placed[i].account_id :
				SEVERAL_ACCOUNTS;
		}
	return left[0] == 0 && left[1] == 0 && left[2] == 0 ? account : SEVERAL_ACCOUNTS;
}

static inline void
renew_accounts(const Oracle *oracle, Books *books, const Victims *victims, const bool *chosen, bool slow_too)
{
	const World *world = oracle->world;

	for (int i = 0; i < victims->n; i++)
		for (int pod = 0; chosen[i] && pod < world->placed[victims->victim[i]].npods; pod++)
		{
			int			n = world->placed[victims->victim[i]].pods[pod].node;

			if (n >= 0 && world->pools[victims->pool].isolate)
				books->account[n] = account_left(oracle, books, n, victims, chosen, slow_too);
		}
}

/* The books when these have left. */
static inline void
books_without(const Oracle *oracle, const Victims *victims, const bool *chosen_only, Books *books)
{
	const World *world = oracle->world;

	*books = oracle->books;
	for (int i = 0; i < victims->n; i++)
		if (chosen_only[i])
		{
			free_nodes(world, books, &world->placed[victims->victim[i]]);
			free_total(oracle, books, &world->placed[victims->victim[i]]);
			free_policy(books, &world->placed[victims->victim[i]]);
		}
	renew_accounts(oracle, books, victims, chosen_only, true);
}

/* The candidate on type t of pool p when these have left. */
static inline bool
fits_without(const Oracle *oracle, const Lane *lane, int t, Victims *victims, bool chosen_only[], Books *books)
{
	books_without(oracle, victims, chosen_only, books);
	memset(victims->verdict.usable, 0, sizeof(victims->verdict.usable));
	victims->verdict.usable[t] = true;
	check_room(oracle, &oracle->books, books, lane, victims->pool, false, &victims->verdict);
	return victims->verdict.code == REASON_NONE;
}

/* Takes them one by one until the candidate fits. */
static inline bool
take_in_order(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, Victims *victims)
{
	const World *world = oracle->world;
	bool		chosen[ORACLE_PLACED];
	bool		fits = false;
	Books		books = oracle->books;

	victims->n = 0;
	victims->pool = p;
	for (int i = 0; i < world->nplaced && !fits; i++)
	{
		const Placed *placed = &world->placed[order[i]];
		int			rule = placed->type != world->pools[p].types[t].type ? NOT_ELIGIBLE :
			rule_for(oracle, &books, lane, p, placed);

		if (rule == NOT_ELIGIBLE)
			continue;
		victims->victim[victims->n] = order[i];
		victims->rule[victims->n] = rule;
		chosen[victims->n++] = true;
		fits = fits_without(oracle, lane, t, victims, chosen, &books);
	}
	return fits;
}

/* A set, given by places in the order, as victims; false when not all of it may be taken. */
static inline bool
take_set(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, uint64 set, Victims *victims)
{
	const World *world = oracle->world;
	Books		books = oracle->books;

	victims->n = 0;
	victims->pool = p;
	for (int i = 0; i < world->nplaced; i++)
	{
		const Placed *placed = &world->placed[order[i]];

		if (!(set >> i & 1))
			continue;
		victims->victim[victims->n] = order[i];
		victims->rule[victims->n] = placed->type != world->pools[p].types[t].type ? NOT_ELIGIBLE :
			rule_for(oracle, &books, lane, p, placed);
		if (victims->rule[victims->n++] == NOT_ELIGIBLE)
			return false;
		free_policy(&books, placed);
	}
	return true;
}

/* How many replicas a node has room for when all of a set, if it may be taken, have left; -1: it may not. */
static inline int
times_without(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, uint64 set, int n)
{
	const World *world = oracle->world;
	bool		all[ORACLE_PLACED];
	bool		barred[ORACLE_NODES];
	Victims		victims;
	PodPlace	pod;
	Books		books;
	int			times = 0;

	bar_targets(oracle, lane, barred);
	if (!take_set(oracle, lane, p, t, order, set, &victims))
		return -1;
	memset(all, true, sizeof(all));
	books_without(oracle, &victims, all, &books);
	while (world->nodes[n].pool == p && world->nodes[n].type == world->pools[p].types[t].type && !barred[n] &&
		   times < lane->replicas && node_fits(world, &books, lane, n))
	{
		take_node(world, &books, lane, n, &pod);
		times++;
	}
	return times;
}

static inline int
all_times_without(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, uint64 set)
{
	int			times = 0;

	for (int n = 0; n < oracle->world->nnodes; n++)
		times += times_without(oracle, lane, p, t, order, set, n);
	return times;
}

/*
 * The best set of a node's workloads with which it has room for one replica more, beside those chosen; 0: none.  One is
 * better than another when it does without the dearest in which they differ: sets are tried in this order.
 */
static inline uint64
best_on_node(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, uint64 chosen, int n)
{
	const World *world = oracle->world;
	int			place[ORACLE_PLACED];
	int			nplaces = 0;
	int			times = times_without(oracle, lane, p, t, order, chosen, n);
	Victims		victims;

	for (int i = 0; i < world->nplaced; i++)
	{
		const Placed *placed = &world->placed[order[i]];
		bool		there = false;

		for (int pod = 0; pod < placed->npods; pod++)
			there |= placed->pods[pod].node == n;
		if (there && !(chosen >> i & 1) &&
			take_set(oracle, lane, p, t, order, chosen | UINT64CONST(1) << i, &victims))
			place[nplaces++] = i;
	}
	Assert(nplaces < 24);
	for (int some = 1; some < 1 << nplaces; some++)
	{
		uint64		set = 0;

		for (int i = 0; i < nplaces; i++)
			set |= (uint64) (some >> i & 1) << place[i];
		if (times_without(oracle, lane, p, t, order, chosen | set, n) > times)
			return set;
	}
	return 0;
}

static inline int
last_of(uint64 set)
{
	return 63 - __builtin_clzll(set);
}

/* Node by node until all replicas have room, then in the order until the candidate fits. */
static inline bool
take_by_node(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, Victims *victims)
{
	bool		all[ORACLE_PLACED];
	Books		books;
	uint64		chosen = 0;

	memset(all, true, sizeof(all));
	while (all_times_without(oracle, lane, p, t, order, chosen) < lane->replicas)
	{
		uint64		best = 0;

		for (int n = 0; n < oracle->world->nnodes; n++)
		{
			uint64		set = best_on_node(oracle, lane, p, t, order, chosen, n);

			if (set != 0 && (best == 0 || last_of(set) < last_of(best) ||
							 (last_of(set) == last_of(best) &&
							  __builtin_popcountll(set) < __builtin_popcountll(best))))
				best = set;
		}
		if (best == 0)
			return false;
		chosen |= best;
	}
	take_set(oracle, lane, p, t, order, chosen, victims);
	for (int i = 0; i < oracle->world->nplaced; i++)
	{
		if (fits_without(oracle, lane, t, victims, all, &books))
			return true;
		if (take_set(oracle, lane, p, t, order, chosen | UINT64CONST(1) << i, victims))
			chosen |= UINT64CONST(1) << i;
		take_set(oracle, lane, p, t, order, chosen, victims);
	}
	return fits_without(oracle, lane, t, victims, all, &books);
}

/* Seeks them, then spares from the last to the first. */
static inline bool
seek_victims(const Oracle *oracle, const Lane *lane, int p, int t, const int *order, Victims *victims)
{
	bool		chosen[ORACLE_PLACED];
	Books		books;
	int			n = 0;

	if (!take_in_order(oracle, lane, p, t, order, victims) && !take_by_node(oracle, lane, p, t, order, victims))
		return false;
	memset(chosen, true, sizeof(chosen));
	for (int i = victims->n - 1; i >= 0; i--)
	{
		chosen[i] = false;
		chosen[i] = !fits_without(oracle, lane, t, victims, chosen, &books);
	}
	fits_without(oracle, lane, t, victims, chosen, &books);
	for (int i = 0; i < victims->n; i++)
		if (chosen[i])
		{
			victims->victim[n] = victims->victim[i];
			victims->rule[n++] = victims->rule[i];
		}
	victims->n = n;
	return true;
}

/* The best set of all pools in which the candidate is blocked by room alone; n = 0: none. */
static inline void
best_victims(Oracle *oracle, const Lane *lane, Victims *best)
{
	const World *world = oracle->world;
	int			order[ORACLE_PLACED];
	Verdict		verdict;
	Victims		victims;

	memset(best, 0, sizeof(Victims));
	if (world->load_placed == NULL)
		return;
	if (!oracle->loaded)
	{
		world->load_placed(oracle->world);
		Assert(world->nplaced <= ORACLE_PLACED);
		oracle->gone = palloc0(sizeof(bool) * (world->nplaced + 1));
		oracle->loaded = true;
	}
	sort_placed(oracle, lane, order);
	for (int i = 0; i < lane->npools; i++)
	{
		check_pool(oracle, lane, lane->pools[i], lane->pools[i], &verdict);
		for (int t = 0; verdict.by_room && t < world->pools[lane->pools[i]].ntypes; t++)
		{
			if (!verdict.usable[t] || !seek_victims(oracle, lane, lane->pools[i], t, order, &victims))
				continue;
			if (best->n == 0 ||
				sought_before(oracle, lane, &world->placed[victims.victim[victims.n - 1]],
							  &world->placed[best->victim[best->n - 1]]))
				*best = victims;
		}
	}
}

#endif							/* TEST_ORACLE_PREEMPT_H */

/*
 * targets.c
 *
 * Backfill.  The first workload of an instance type that is blocked by room, its head, marks the nodes from which the
 * least has to leave before it fits; others take no room on them, but those that end before anything there that must
 * leave.  So small work fills all gaps elsewhere, and what ends on a target frees it for the head.
 *
 * Targets are a room of their own beside that of their type (place.h).  A plan marks anew from what it finds: nothing
 * of it is kept.  So that a gang cannot starve, what is let in must not make another set look better, or the first
 * would be open again to all.  That is why what has an end of its own does not count as having to leave: of the others
 * nothing comes to a target, so the amount only falls, and a target changes only for one from which less has to leave.
 * Where nothing but work with an end has to, the target is the node that the last of it leaves first; what is let in
 * ends before the first.
 *
 * How much has to leave is counted in the first of the keys that the workload asks for, gpu before cpu before the
 * others by name; of devices in entire ones.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "core/targets.h"

/* Nodes that take work and hold the same when they are empty. */
typedef struct NodeKind
{
	int			node;			/* one of them */
	int64		count;
} NodeKind;

/* How far back a kind is looked for: one that is listed twice is as right. */
#define KINDS_LOOKED_AT	16

/* A node with the number of replicas that it is to hold and what has to leave for one more. */
typedef struct Chosen
{
	int			node;			/* index in world->nodes */
	int			times;
	const NodeLater *later;		/* NULL: nothing on it has an end */
	int64		cost;
	TimestampTz wait;			/* with no cost, the end that has to be waited for; DT_NOBEGIN: none */
} Chosen;

/* Of one type, where the replicas are to be and what has to leave for them in sum. */
typedef struct TargetSet
{
	Room	   *home;			/* NULL: none */
	int			nnodes;
	Chosen	   *nodes;			/* [nnodes]; those with times > 0 are the targets */
	int64		cost;
	TimestampTz wait;			/* the last */
} TargetSet;

/* ---- what nodes hold when they are empty ---- */

/*
 * How many replicas a node would hold if nothing stood on it, as far as its capacity is known.
 */
static int64
times_when_empty(const World *world, const Need *need, const PoolNode *node)
{
	int64		times = PG_INT32_MAX;
	int64		devices = node->ndevices;

	if (need->impossible)
		return 0;
	if (node->capacity != NULL)
		devices = Min(devices, node->capacity[RPQ_KEY_GPU] / RPQ_UNIT);
	if (need->whole > 0)
		times = devices / need->whole;
	else if (need->part > 0)
		times = devices * (RPQ_UNIT / need->part);
	for (int k = 1; k < world->nkeys; k++)
		if (need->request[k] > 0 && node->capacity != NULL)
			times = Min(times, Max(node->capacity[k], 0) / need->request[k]);
	return times;
}

static bool
same_kind(const World *world, const PoolNode *a, const PoolNode *b)
{
	if (a->ndevices != b->ndevices || (a->capacity == NULL) != (b->capacity == NULL))
		return false;
	return a->capacity == b->capacity || memcmp(a->capacity, b->capacity, sizeof(int64) * world->nkeys) == 0;
}

static void
count_kinds(Room *home)
{
	const World *world = home->placer->world;
	int			maxkinds = 8;

	home->kinds = palloc(sizeof(NodeKind) * maxkinds);
	home->nkinds = 0;
	for (int i = 0; i < home->nnodes; i++)
	{
		const PoolNode *node = &world->nodes[home->nodes[i]];
		int			last = Max(0, home->nkinds - KINDS_LOOKED_AT);
		int			k = home->nkinds - 1;

		if (!node->takes_work)
			continue;
		while (k >= last && !same_kind(world, &world->nodes[home->kinds[k].node], node))
			k--;
		if (k < last)
		{
			if (home->nkinds == maxkinds)
			{
				maxkinds *= 2;
				home->kinds = repalloc(home->kinds, sizeof(NodeKind) * maxkinds);
			}
			k = home->nkinds++;
			home->kinds[k].node = home->nodes[i];
			home->kinds[k].count = 0;
		}
		home->kinds[k].count++;
	}
}

/*
 * Whether the nodes of a type that take work could hold all replicas if everything on them left.  They are counted
 * once in a plan.
 */
static bool
could_hold(Room *home, const Need *need)
{
	const World *world = home->placer->world;
	int64		times = 0;

	if (home->kinds == NULL)
		count_kinds(home);
	for (int k = 0; k < home->nkinds && times < need->replicas; k++)
		times += home->kinds[k].count * times_when_empty(world, need, &world->nodes[home->kinds[k].node]);
	return times >= need->replicas;
}

/* ---- what has to leave ---- */

/* The key in which it is counted. */
static int
leaving_key(const World *world, const Need *need)
{
	int			best = RPQ_KEY_CPU;

	if (need->request[RPQ_KEY_GPU] > 0)
		return RPQ_KEY_GPU;
	if (need->request[RPQ_KEY_CPU] > 0)
		return RPQ_KEY_CPU;
	for (int k = RPQ_KEY_CPU + 1; k < world->nkeys; k++)
		if (need->request[k] > 0 && (best == RPQ_KEY_CPU || strcmp(world->keys[k], world->keys[best]) < 0))
			best = k;
	return best;
}

/* How much of an amount lies beyond what is free, for one more when there are some already. */
static int64
one_more(int64 each, int64 times, int64 available)
{
	int64		before;
	int64		then;

	if (pg_mul_s64_overflow(each, times, &before) || pg_add_s64_overflow(before, each, &then))
		return each;
	return Max(0, then - available) - Max(0, before - available);
}

/*
 * The same of parts, in entire devices: each that has to be free takes as many parts as it can hold.
 */
static int64
part_more(const PoolNode *node, int64 part, int64 times)
{
	int64		each = RPQ_UNIT / part;
	int64		over = times;

	for (int d = 0; d < node->ndevices; d++)
		over -= Max(node->device_free[d], 0) / part;
	return over >= 0 && over % each == 0 ? RPQ_UNIT : 0;
}

/* All that stands on a node, in a key. */
static int64
all_on_node(const PoolNode *node, int key)
{
	int64		standing = 0;

	if (key != RPQ_KEY_GPU)
		return node->capacity != NULL ? Max(0, node->capacity[key] - Max(node->free[key], 0)) : 0;
	for (int d = 0; d < node->ndevices; d++)
		if (node->device_free[d] < RPQ_UNIT)
			standing += RPQ_UNIT;
	return standing;
}

/*
 * What has to leave a node for one more replica when it is to hold some already.  Where accounts are kept apart all of
 * another's has to leave for the first.
 */
static int64
leaving_cost(const World *world, const Need *need, const PoolNode *node, int key, int64 times)
{
	int64		whole = 0;

	if (!node_open_to(world, node, need->account))
		return times == 0 ? all_on_node(node, key) : 0;
	if (key != RPQ_KEY_GPU)
		return one_more(need->request[key], times, Max(node->free[key], 0));
	if (need->part > 0)
		return part_more(node, need->part, times);
	for (int d = 0; d < node->ndevices; d++)
		whole += node->device_free[d] >= RPQ_UNIT;
	return RPQ_UNIT * one_more(need->whole, times, whole);
}

static inline bool
cheaper(const Chosen *a, const Chosen *b)
{
	if (a->cost != b->cost)
		return a->cost < b->cost;
	return a->wait != b->wait ? a->wait < b->wait : a->node < b->node;
}

/* Moves what is at a place of the heap down to where it belongs. */
static void
chosen_down(Chosen *heap, int n, int at)
{
	Chosen		moving = heap[at];

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child >= n)
			break;
		if (child + 1 < n && cheaper(&heap[child + 1], &heap[child]))
			child++;
		if (!cheaper(&heap[child], &moving))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

/*
 * What one more replica on a node costs.  An end is waited for only where nothing without one has to leave: such a node
 * waits for that, whatever is let in.
 */
static void
price(const World *world, const Need *need, int key, Chosen *chosen)
{
	const PoolNode *node = &world->nodes[chosen->node];
	bool		open = node_open_to(world, node, need->account);
	PoolNode	later;
	bool		fits_later;

	chosen->wait = DT_NOBEGIN;
	if (open && need_times_on_node(world, need, node) > chosen->times)
		chosen->cost = 0;
	else if (chosen->later == NULL)
		chosen->cost = leaving_cost(world, need, node, key, chosen->times);
	else
	{
		later = *node;
		later.free = chosen->later->free;
		later.device_free = chosen->later->device_free;
		chosen->cost = leaving_cost(world, need, &later, key, chosen->times);
		fits_later = open ? need_times_on_node(world, need, &later) > chosen->times : chosen->cost == 0;
		if (fits_later)
			chosen->wait = chosen->later->last;
	}
}

/* The nodes of a type that could hold a replica if they were empty, and what they are without what has an end. */
static void
list_nodes(Room *home, const Need *need, TargetSet *set)
{
	World	   *world = home->placer->world;
	int		   *nodes = palloc(sizeof(int) * (home->nnodes + 1));
	NodeLater  *later = NULL;

	set->nodes = palloc(sizeof(Chosen) * (home->nnodes + 1));
	set->nnodes = 0;
	for (int i = 0; i < home->nnodes; i++)
		if (world->nodes[home->nodes[i]].takes_work &&
			times_when_empty(world, need, &world->nodes[home->nodes[i]]) > 0)
			nodes[set->nnodes++] = home->nodes[i];
	if (world->read_later != NULL && set->nnodes > 0)
	{
		later = palloc0(sizeof(NodeLater) * set->nnodes);
		world->read_later(world, nodes, set->nnodes, later);
	}
	for (int i = 0; i < set->nnodes; i++)
	{
		Chosen	   *chosen = &set->nodes[i];

		chosen->node = nodes[i];
		chosen->times = 0;
		chosen->later = later != NULL && later[i].free != NULL ? &later[i] : NULL;
	}
	pfree(nodes);
}

/*
 * Node by node, as many times as there are replicas: the one from which the least has to leave for one more.  Nodes
 * that hold no more lie behind the heap.
 */
static TargetSet
choose_nodes(Room *home, const Need *need)
{
	World	   *world = home->placer->world;
	int			key = leaving_key(world, need);
	TargetSet	set = {.home = home, .wait = DT_NOBEGIN};
	int			n;

	list_nodes(home, need, &set);
	n = set.nnodes;
	for (int i = 0; i < n; i++)
		price(world, need, key, &set.nodes[i]);
	for (int i = n / 2 - 1; i >= 0; i--)
		chosen_down(set.nodes, n, i);
	for (int r = 0; r < need->replicas; r++)
	{
		Chosen	   *first = &set.nodes[0];

		CHECK_FOR_INTERRUPTS();
		Assert(n > 0);
		if (pg_add_s64_overflow(set.cost, first->cost, &set.cost))
			set.cost = PG_INT64_MAX;
		set.wait = Max(set.wait, first->wait);
		if (++first->times < times_when_empty(world, need, &world->nodes[first->node]))
			price(world, need, key, first);
		else
		{
			Chosen		full = *first;

			*first = set.nodes[--n];
			set.nodes[n] = full;
		}
		chosen_down(set.nodes, n, 0);
	}
	return set;
}

/* ---- marking ---- */

/*
 * The first end of a pod on a target from which something has to leave: who ends before it is in nobody's way.  Where
 * nothing has to leave, or nobody knows, nobody is let in.
 */
static TimestampTz
first_end(World *world, const Need *need, const TargetSet *set)
{
	int		   *nodes = palloc(sizeof(int) * (set->nnodes + 1));
	TimestampTz *ends;
	TimestampTz first = DT_NOEND;
	int			n = 0;

	for (int i = 0; i < set->nnodes; i++)
	{
		const PoolNode *node = &world->nodes[set->nodes[i].node];

		if (set->nodes[i].times > 0 && (!node_open_to(world, node, need->account) ||
										need_times_on_node(world, need, node) < set->nodes[i].times))
			nodes[n++] = set->nodes[i].node;
	}
	if (n == 0 || world->read_ends == NULL)
		return DT_NOBEGIN;
	ends = palloc(sizeof(TimestampTz) * n);
	world->read_ends(world, nodes, n, ends);
	for (int i = 0; i < n; i++)
		first = Min(first, ends[i]);
	pfree(nodes);
	pfree(ends);
	return first;
}

static void
mark(Placer *placer, const Candidate *candidate, const TargetSet *set)
{
	Room	   *home = set->home;

	home->bound = first_end(placer->world, candidate->need, set);
	home->head = candidate->lane;
	home->head_id = candidate->lane->head_id;
	home->targets = room_beside(home);
	placer->nheads++;
	for (int i = 0; i < set->nnodes; i++)
		if (set->nodes[i].times > 0)
		{
			room_take_out(placer, set->nodes[i].node);
			placer->is_target[set->nodes[i].node] = true;
			room_put_back(placer, set->nodes[i].node);
		}
}

/*
 * Marks in one pool, on the type among the usable ones without a head on which the least has to leave.
 */
bool
targets_mark_in(Placer *placer, const Candidate *candidate, int pool, const bool *usable)
{
	const Need *need = candidate->need;
	TargetSet	best = {0};

	for (int t = 0; t < placer->world->pools[pool].ntypes; t++)
	{
		Room	   *home = usable[t] ? room_get(placer, pool, t) : NULL;
		TargetSet	set;

		if (home == NULL || home->targets != NULL || !could_hold(home, need))
			continue;
		set = choose_nodes(home, need);
		if (best.home != NULL && (best.cost != set.cost ? best.cost < set.cost : best.wait <= set.wait))
			pfree(set.nodes);
		else
		{
			if (best.home != NULL)
				pfree(best.nodes);
			best = set;
		}
	}
	if (best.home == NULL)
		return false;
	mark(placer, candidate, &best);
	pfree(best.nodes);
	return true;
}

/*
 * Whether room is what a candidate lacks in one of its pools, with its own reservation and those of others kept; then
 * the types that it may use are in placer->usable.
 */
static bool
lacks_room(Placer *placer, const Candidate *candidate, int i)
{
	int			pool = candidate->lane->pools[i];

	return candidate->blocked[i] >= REASON_POOL_QUOTA && !placer->world->pools[pool].best_effort &&
		pool_open_to(placer, candidate, pool);
}

bool
targets_due(Placer *placer, const Candidate *candidate)
{
	const Lane *lane = candidate->lane;

	for (int i = 0; i < lane->npools; i++)
	{
		const Pool *pool = &placer->world->pools[lane->pools[i]];

		if (!lacks_room(placer, candidate, i))
			continue;
		for (int t = 0; t < pool->ntypes; t++)
			if (placer->usable[t])
			{
				Room	   *home = room_get(placer, lane->pools[i], t);

				if (home->targets == NULL && could_hold(home, candidate->need))
					return true;
			}
	}
	return false;
}

bool
targets_mark(Placer *placer, const Candidate *candidate)
{
	const Lane *lane = candidate->lane;

	for (int i = 0; i < lane->npools; i++)
		if (lacks_room(placer, candidate, i) &&
			targets_mark_in(placer, candidate, lane->pools[i], placer->usable))
			return true;
	return false;
}

/* ---- what is asked of them ---- */

bool
targets_in_way(Placer *placer, const Candidate *candidate, int pool, const bool *usable, int *type, int64 *ahead)
{
	Need	   *need = candidate->need;
	int			nspots;
	bool		found = false;

	if (placer->nheads == 0)
		return false;
	need->past_targets = true;
	nspots = place_candidates(placer, pool, usable, need, placer->spots);
	for (int i = 0; i < nspots && !found; i++)
	{
		const Room *home = placer->spots[i].room->home;

		found = home->head != NULL &&
			(need->replicas == 1 || room_count(placer->spots[i].room, need, need->replicas) >= need->replicas);
		if (found && type != NULL)
			*type = home->type;
		if (found)
			*ahead = home->head_id;
	}
	need->past_targets = false;
	return found;
}

bool
target_of_other(Placer *placer, int node, const Candidate *candidate)
{
	const Room *home;

	if (!placer->is_target[node])
		return false;
	home = room_of_node(placer, node)->home;
	return home->head != candidate->lane && !targets_open(home, candidate->need);
}

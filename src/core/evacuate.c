/*
 * evacuate.c
 *
 * Where pods go that have to leave their nodes: to other nodes of the same pool and instance type that take work, by
 * the scheduling policy, the largest pods first, room being counted down move by move; where accounts are kept apart,
 * to none that hosts another account by then.
 *
 * A pod stays on its node until it has moved, so what it holds there is free for none of the others.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/place.h"

/* What the nodes have free, to be put back for a second attempt. */
typedef struct SavedRoom
{
	int64	   *free;			/* [nnodes][nkeys] */
	int64	   *devices;		/* of all nodes, one after the other */
	int64	   *accounts;		/* [nnodes]; whose pods they host */
} SavedRoom;

static SavedRoom
save_room(const World *world)
{
	SavedRoom	saved;
	Size		ndevices = 0;
	int64	   *next;

	for (int n = 0; n < world->nnodes; n++)
		ndevices += world->nodes[n].ndevices;
	saved.free = palloc(sizeof(int64) * ((Size) world->nnodes * world->nkeys + 1));
	saved.devices = next = palloc(sizeof(int64) * (ndevices + 1));
	saved.accounts = palloc(sizeof(int64) * (world->nnodes + 1));
	for (int n = 0; n < world->nnodes; n++)
	{
		const PoolNode *node = &world->nodes[n];

		memcpy(saved.free + (Size) n * world->nkeys, node->free, sizeof(int64) * world->nkeys);
		memcpy(next, node->device_free, sizeof(int64) * node->ndevices);
		next += node->ndevices;
		saved.accounts[n] = node->account;
	}
	return saved;
}

static void
restore_room(World *world, SavedRoom saved)
{
	const int64 *next = saved.devices;

	for (int n = 0; n < world->nnodes; n++)
	{
		PoolNode   *node = &world->nodes[n];

		memcpy(node->free, saved.free + (Size) n * world->nkeys, sizeof(int64) * world->nkeys);
		memcpy(node->device_free, next, sizeof(int64) * node->ndevices);
		next += node->ndevices;
		node->account = saved.accounts[n];
	}
}

/* The largest first; of equals the one on the node that comes first, by name, and there the oldest workload. */
static int
move_order(const void *a, const void *b)
{
	const Move *x = a;
	const Move *y = b;

	for (int k = RPQ_KEY_GPU; k <= RPQ_KEY_CPU; k++)
		if (x->request[k] != y->request[k])
			return x->request[k] > y->request[k] ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->workload_id != y->workload_id)
		return x->workload_id < y->workload_id ? -1 : 1;
	return x->replica < y->replica ? -1 : x->replica > y->replica;
}

/* Whether a node may be the target of a move, its room aside. */
static bool
is_target(const World *world, const Move *move, int n)
{
	const PoolNode *node = &world->nodes[n];
	const PoolNode *from = &world->nodes[move->from];

	return node->takes_work && node->pool == from->pool && node->type == from->type &&
		node_open_to(world, node, move->account_id);
}

static int *
new_devices(const Need *need)
{
	return palloc(sizeof(int) * (Max(need->whole, 1)));
}

/* The moves whose wanted node still takes them.  Before any room is built: nodes are taken directly. */
static int
take_wanted(World *world, Move *moves, Need **needs, int nmoves)
{
	int			missing = 0;

	for (int i = 0; i < nmoves; i++)
	{
		int			wanted = moves[i].wanted;

		moves[i].place.node = -1;
		if (wanted >= 0 && is_target(world, &moves[i], wanted) &&
			need_fits_node(world, needs[i], &world->nodes[wanted]))
			place_take_node(world, wanted, needs[i], &moves[i].place, new_devices(needs[i]));
		else
			missing++;
	}
	return missing;
}

/* The place that the policy gives a move, if there is one. */
static bool
find_place(Placer *placer, Move *move, const Need *need)
{
	World	   *world = placer->world;
	const PoolNode *from = &world->nodes[move->from];
	const Pool *pool = &world->pools[from->pool];
	int			nspots;

	for (int t = 0; t < pool->ntypes; t++)
		placer->usable[t] = pool->types[t].type == from->type;
	nspots = place_candidates(placer, from->pool, placer->usable, need, placer->spots);
	if (nspots == 0)
		return false;
	place_take(placer->spots[0], need, &move->place, new_devices(need));
	return true;
}

/* Returns how many moves have no target. */
static int
try_moves(World *world, Move *moves, Need **needs, int nmoves)
{
	int			missing = take_wanted(world, moves, needs, nmoves);
	Placer	   *placer;

	if (missing == 0)
		return 0;
	placer = placer_create(world);
	for (int i = 0; i < nmoves; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (moves[i].place.node < 0 && find_place(placer, &moves[i], needs[i]))
			missing--;
	}
	return missing;
}

/* Every pool filled as binpack does; false when they all were. */
static bool
use_binpack(World *world)
{
	bool		changed = false;

	for (int p = 0; p < world->npools; p++)
		for (int t = 0; t < world->pools[p].ntypes; t++)
		{
			changed = changed || world->pools[p].types[t].policy != POLICY_BINPACK;
			world->pools[p].types[t].policy = POLICY_BINPACK;
		}
	return changed;
}

/*
 * Gives each move its place, or none, and puts them in the order in which they were decided.  Returns how many have
 * none.  No node that a pod leaves is a target.
 *
 * What the policy scatters may leave no node whole for a large pod that a tighter plan has room for; that a pod comes
 * to stand where the policy would not have put it is better than that its node cannot be emptied.
 */
int
plan_moves(World *world, Move *moves, int nmoves)
{
	SavedRoom	saved = save_room(world);
	Need	  **needs = palloc(sizeof(Need *) * Max(nmoves, 1));
	Move	   *second;
	int			missing;

	qsort(moves, nmoves, sizeof(Move), move_order);
	for (int i = 0; i < nmoves; i++)
	{
		PoolNode   *from = &world->nodes[moves[i].from];

		from->takes_work = false;
		from->why_not = "draining";
		needs[i] = i > 0 && moves[i].request == moves[i - 1].request &&
			moves[i].account_id == moves[i - 1].account_id ? needs[i - 1] :
			need_create(world, moves[i].request, 1, moves[i].account_id);
	}
	missing = try_moves(world, moves, needs, nmoves);
	if (missing > 0 && use_binpack(world))
	{
		int			still_missing;

		second = palloc(sizeof(Move) * nmoves);
		memcpy(second, moves, sizeof(Move) * nmoves);
		restore_room(world, saved);
		still_missing = try_moves(world, second, needs, nmoves);
		if (still_missing < missing)
		{
			memcpy(moves, second, sizeof(Move) * nmoves);
			missing = still_missing;
		}
	}
	return missing;
}

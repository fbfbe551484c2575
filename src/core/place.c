/*
 * place.c
 *
 * What a replica needs, whether a node has it, and taking it: devices first.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/place.h"
#include "core/resources.h"

/*
 * One pass over the nodes; their order by name is kept in each room.
 */
static void
deal_nodes(Placer *placer)
{
	World	   *world = placer->world;
	int		   *room_of;		/* [npools][ntypes] */
	int		   *counts;
	int		   *next;
	int		  **ends;			/* of each room's nodes so far */

	room_of = palloc(sizeof(int) * ((Size) world->npools * world->ntypes + 1));
	memset(room_of, 0xFF, sizeof(int) * ((Size) world->npools * world->ntypes + 1));
	for (int p = 0; p < world->npools; p++)
		for (int t = 0; t < world->pools[p].ntypes; t++)
		{
			Room	   *room = &placer->rooms[placer->first_room[p] + t];

			room->placer = placer;
			room->pool = p;
			room->type = world->pools[p].types[t].type;
			room->policy = world->pools[p].types[t].policy;
			room->isolate = world->pools[p].isolate;
			room->common = room->home = room;
			room_of[p * world->ntypes + room->type] = placer->first_room[p] + t;
		}

	counts = palloc0(sizeof(int) * (placer->nrooms + 1));
	next = palloc(sizeof(int) * (world->nnodes + 1));
	for (int n = 0; n < world->nnodes; n++)
	{
		next[n] = room_of[world->nodes[n].pool * world->ntypes + world->nodes[n].type];
		if (next[n] >= 0)
			counts[next[n]]++;
	}
	ends = palloc(sizeof(int *) * (placer->nrooms + 1));
	for (int r = 0; r < placer->nrooms; r++)
	{
		placer->rooms[r].nnodes = counts[r];
		placer->rooms[r].nodes = ends[r] = palloc(sizeof(int) * (counts[r] + 1));
	}
	for (int n = 0; n < world->nnodes; n++)
		if (next[n] >= 0)
			*ends[next[n]]++ = n;
	pfree(counts);
	pfree(next);
	pfree(ends);
	pfree(room_of);
}

/*
 * Nodes are dealt to rooms in one pass; the rooms themselves are built when they are asked for.
 */
Placer *
placer_create(World *world)
{
	Placer	   *placer = palloc0(sizeof(Placer));
	int			most_types = 0;

	placer->world = world;
	placer->first_room = palloc(sizeof(int) * (world->npools + 1));
	for (int p = 0; p < world->npools; p++)
	{
		placer->first_room[p] = placer->nrooms;
		placer->nrooms += world->pools[p].ntypes;
		most_types = Max(most_types, world->pools[p].ntypes);
	}
	placer->rooms = palloc0(sizeof(Room) * (placer->nrooms + 1));
	placer->heap = palloc(sizeof(HeapLink) * (world->nnodes + 1));
	placer->is_target = palloc0(sizeof(bool) * (world->nnodes + 1));
	placer->usable = palloc(sizeof(bool) * (most_types + 1));
	placer->spots = palloc(sizeof(Spot) * (most_types + 1));
	deal_nodes(placer);
	return placer;
}

static void
need_add(Need *need, int dim, int64 amount)
{
	need->dims[need->ndims] = dim;
	need->amounts[need->ndims++] = amount;
}

Need *
need_create(const World *world, const int64 *request, int replicas, int64 account)
{
	Need	   *need = palloc0(sizeof(Need));
	int64		gpu = request[RPQ_KEY_GPU];

	need->replicas = replicas;
	need->account = account;
	need->ends = DT_NOEND;
	need->request = request;
	need->dims = palloc(sizeof(int) * world->nkeys);
	need->amounts = palloc(sizeof(int64) * world->nkeys);
	if (gpu > 0 && gpu < RPQ_UNIT)
	{
		need->part = gpu;
		need_add(need, DIM_PART, gpu);
	}
	else if (gpu > 0)
	{
		need->impossible = gpu % RPQ_UNIT != 0 || gpu / RPQ_UNIT > PG_INT32_MAX;
		need->whole = need->impossible ? 0 : (int) (gpu / RPQ_UNIT);
		need_add(need, DIM_WHOLE, gpu / RPQ_UNIT);
	}
	for (int k = 1; k < world->nkeys; k++)
		if (request[k] > 0)
			need_add(need, KEY_DIM(k), request[k]);
	return need;
}

/*
 * How many replicas one node takes, by its room alone: whether it takes work is not looked at.
 */
int64
need_times_on_node(const World *world, const Need *need, const PoolNode *node)
{
	int64		times = PG_INT32_MAX;

	if (need->impossible)
		return 0;
	for (int k = 1; k < world->nkeys; k++)
		if (need->request[k] > 0)
			times = Min(times, node->free[k] < 0 ? 0 : node->free[k] / need->request[k]);
	if (need->whole > 0)
	{
		int			whole = 0;

		for (int d = 0; d < node->ndevices; d++)
			whole += node->device_free[d] >= RPQ_UNIT;
		times = Min(times, whole / need->whole);
	}
	else if (need->part > 0)
	{
		int64		parts = 0;

		for (int d = 0; d < node->ndevices; d++)
			if (node->device_free[d] > 0)
				parts += node->device_free[d] / need->part;
		times = Min(times, parts);
	}
	return times;
}

bool
need_fits_node(const World *world, const Need *need, const PoolNode *node)
{
	return need_times_on_node(world, need, node) > 0;
}

/*
 * The node that a room would take, if it is preferred to the spot in hand (slot NO_SLOT: any is).
 */
static inline bool
better_in_room(Room *room, const Need *need, Spot *spot)
{
	int			slot = spot->slot == NO_SLOT ? room_first(room, need) : room_first_before(room, need, *spot);

	if (slot == NO_SLOT)
		return false;
	spot->room = room;
	spot->slot = slot;
	return true;
}

/* The same of all rooms of a home that are open to it. */
static inline bool
better_spot(Room *home, const Need *need, Spot *spot)
{
	Room	   *rooms[MAX_OPEN];
	int			nrooms;
	bool		better = false;

	if (!home->isolate && home->targets == NULL)
		return better_in_room(home, need, spot);
	nrooms = open_rooms(home, need, rooms);
	for (int i = 0; i < nrooms; i++)
		better |= better_in_room(rooms[i], need, spot);
	return better;
}

/*
 * Where a pool would place one replica: for each type that usable names (by its place in the pool's types) and that
 * has a node for it, that node; the type whose node the policy prefers comes first.  spots has room for all types.
 *
 * A single replica goes to the first of them, so then only that one is sought: in each type among the nodes that are
 * preferred to the best so far.
 */
int
place_candidates(Placer *placer, int pool, const bool *usable, const Need *need, Spot *spots)
{
	int			nspots = 0;

	for (int t = 0; t < placer->world->pools[pool].ntypes; t++)
	{
		bool		one = need->replicas == 1 && nspots > 0;
		Spot		spot = {NULL, NO_SLOT};
		int			i;

		if (one)
			spot = spots[0];
		if (!usable[t] || !better_spot(room_get(placer, pool, t), need, &spot))
			continue;
		for (i = one ? 0 : nspots; i > 0; i--)
		{
			if (!slot_before(spot.room, spot.slot, spots[i - 1].room, spots[i - 1].slot))
				break;
			spots[i] = spots[i - 1];
		}
		spots[i] = spot;
		nspots = one ? 1 : nspots + 1;
	}
	return nspots;
}

/*
 * The fullest device that still has the part; of equals the one with the lowest number.
 */
static int
choose_part(const PoolNode *node, int64 part)
{
	int			best = -1;

	for (int d = 0; d < node->ndevices; d++)
		if (node->device_free[d] >= part && (best < 0 || node->device_free[d] < node->device_free[best]))
			best = d;
	Assert(best >= 0);
	return best;
}

/*
 * Takes one replica's room of a node that is in no room yet, or was taken out of it.  devices has room for what it
 * takes.
 */
void
place_take_node(World *world, int node_index, const Need *need, PodPlace *pod, int *devices)
{
	PoolNode   *node = &world->nodes[node_index];

	pod->node = node_index;
	pod->ndevices = 0;
	pod->devices = need->whole > 0 || need->part > 0 ? devices : NULL;
	if (need->part > 0)
	{
		devices[0] = choose_part(node, need->part);
		node->device_free[devices[0]] -= need->part;
		pod->ndevices = 1;
	}
	for (int d = 0; pod->ndevices < need->whole; d++)
	{
		Assert(d < node->ndevices);
		if (node->device_free[d] >= RPQ_UNIT)
		{
			node->device_free[d] = 0;
			devices[pod->ndevices++] = d;
		}
	}
	for (int k = 0; k < world->nkeys; k++)
		if (need->request[k] > 0)
			node->free[k] -= need->request[k];
	if (world->pools[node->pool].isolate)
		node->account = need->account;
}

/*
 * Places all replicas in the room of spot, which was found for the first of them; that they fit is known.  devices has
 * room for all that they take.
 *
 * Under binpack a node that was just taken is the first again for as long as it fits: those before it did not fit, and
 * it has moved towards them.  So it is filled before it goes back into the room.
 *
 * Where several rooms are open to it each replica goes to the better node of all of them.  Where accounts are kept
 * apart the node then belongs to the guest room.
 */
void
place_take(Spot spot, const Need *need, PodPlace *pods, int *devices)
{
	Room	   *home = spot.room->home;
	World	   *world = home->placer->world;
	int			done = 0;

	while (done < need->replicas)
	{
		Room	   *common;
		int			before = done;
		int			node;

		CHECK_FOR_INTERRUPTS();
		if (done > 0)
		{
			spot.slot = NO_SLOT;
			better_spot(home, need, &spot);
		}
		Assert(spot.slot >= 0);
		common = spot.room->common;
		node = room_pop(spot.room, spot.slot);
		if (home->isolate)
			guest_leave(spot.room, node);
		do
		{
			place_take_node(world, node, need, &pods[done], devices);
			devices += pods[done].ndevices;
			done++;
		} while (home->policy == POLICY_BINPACK && done < need->replicas &&
				 need_fits_node(world, need, &world->nodes[node]));
		if (home->isolate)
			guest_enter(common, need->account, node);
		else
		{
			room_push(common, node);
			for (int k = 0; k < world->nkeys; k++)
				if (need->request[k] > 0)
					home->sum[k] -= need->request[k] * (done - before);
		}
	}
}

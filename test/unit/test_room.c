/*
 * test_room.c
 *
 * Nodes that are taken out of their room, change and are put back: whatever was done, the rooms find, count and sum up
 * what rooms do that are built anew from the same nodes.
 */
#include "random_world.h"

#include "core/place.h"

/* Everything that stands on a node leaves, or something comes; in a pool that isolates accounts its hosts change. */
static void
change_node(World *world, int n)
{
	PoolNode   *node = &world->nodes[n];

	for (int d = 0; d < node->ndevices; d++)
		if (below(2))
		{
			int64		left = below(3) == 0 ? below(10) * 100 * MILLI : RPQ_UNIT;

			node->free[0] += left - node->device_free[d];
			node->device_free[d] = left;
		}
	if (below(3) == 0)
		node->free[1] = (below(70) - 5) * RPQ_UNIT;
	if (world->pools[node->pool].isolate)
		node->account = below(3) == 0 ? 0 : below(5) == 0 ? SEVERAL_ACCOUNTS : 1 + below(MAX_ACCOUNTS);
}

static Need *
draw_need(World *world)
{
	static const int64 gpus[] = {0, 100, 250, 500, 1000, 1000, 2000, 4000};
	int64	   *request = zeros();

	request[0] = gpus[below(lengthof(gpus))] * MILLI;
	request[1] = (1 + below(8)) * RPQ_UNIT;
	return need_create(world, request, below(3) == 0 ? 1 + below(6) : 1, 1 + below(MAX_ACCOUNTS));
}

static bool
same_sums(const World *world, const Room *a, const Room *b)
{
	return memcmp(a->sum, b->sum, sizeof(int64) * world->nkeys) == 0 &&
		memcmp(a->unavailable, b->unavailable, sizeof(int64) * world->nkeys) == 0 &&
		(!a->isolate || (a->nhosting == b->nhosting &&
						 memcmp(a->hosting, b->hosting, sizeof(int64) * world->nkeys) == 0));
}

/* Whether a placer agrees with a new one. */
static bool
agrees(Placer *placer, const Need *need)
{
	World	   *world = placer->world;
	Placer	   *fresh = placer_create(world);
	bool		same = true;

	for (int p = 0; p < world->npools; p++)
		for (int t = 0; t < world->pools[p].ntypes; t++)
		{
			Room	   *rooms[2] = {room_get(placer, p, t), room_get(fresh, p, t)};
			int			node[2] = {NO_NODE, NO_NODE};

			memset(fresh->usable, 0, sizeof(bool) * world->pools[p].ntypes);
			fresh->usable[t] = true;
			for (int i = 0; i < 2; i++)
			{
				Spot		spot;

				if (place_candidates(i ? fresh : placer, p, fresh->usable, need, &spot) > 0)
					node[i] = room_slot(spot.room, spot.slot)->first;
			}
			same = same && node[0] == node[1] && same_sums(world, rooms[0], rooms[1]) &&
				room_count(rooms[0], need, 1000) == room_count(rooms[1], need, 1000);
		}
	return same;
}

static void
place_somewhere(Placer *placer, const Need *need)
{
	World	   *world = placer->world;
	int			pool = below(world->npools);
	int			nspots;
	PodPlace	pods[8];
	int			devices[64];

	for (int t = 0; t < world->pools[pool].ntypes; t++)
		placer->usable[t] = true;
	nspots = place_candidates(placer, pool, placer->usable, need, placer->spots);
	if (nspots > 0 && room_count(placer->spots[0].room, need, need->replicas) >= need->replicas)
		place_take(placer->spots[0], need, pods, devices);
}

static void
sequences(const char *name, Options options)
{
	int			bad = 0;

	for (int number = 0; number < 300; number++)
	{
		World	   *world = draw_world(number, options);
		Placer	   *placer = placer_create(world);

		for (int step = 0; step < 40; step++)
		{
			Need	   *need = draw_need(world);
			int			first = below(world->nnodes);
			int			last = below(3) ? first : first + below(4);

			last = Min(last, world->nnodes - 1);
			if (below(3) == 0)
				place_somewhere(placer, need);
			for (int n = first; n <= last; n++)
				room_take_out(placer, n);
			for (int n = first; n <= last; n++)
				change_node(world, n);
			for (int n = first; n <= last; n++)
				room_put_back(placer, n);
			if (!agrees(placer, need))
			{
				if (bad++ == 0)
					printf("# first in world %d, step %d\n", number, step);
				break;
			}
		}
		shim_reset();
	}
	ok(bad == 0, psprintf("%s: rooms are those of the nodes as they are", name));
}

/* In a slot of many nodes each can be taken out, whatever its place in the heap. */
static void
large_slot(void)
{
	World	   *world = new_world(2000, 1);
	int64	   *request = zeros();
	Placer	   *placer;
	Room	   *room;
	Need	   *need;
	bool	   *out = palloc0(sizeof(bool) * 2000);
	bool		right = true;

	seed_with(7);
	add_type(world);
	add_pool(world, "p");
	add_pool_type(world, 0, 0, POLICY_BINPACK);
	for (int i = 0; i < 2000; i++)
		add_node(world, psprintf("n%04d", i), 0, 0, 2, 8, 8);
	request[0] = 2 * RPQ_UNIT;
	need = need_create(world, request, 1, 1);
	placer = placer_create(world);
	room = room_get(placer, 0, 0);
	for (int step = 0; step < 20000; step++)
	{
		int			n = below(2000);
		int			slot;
		int			first = 0;

		if (out[n])
			room_put_back(placer, n);
		else
			room_take_out(placer, n);
		out[n] = !out[n];
		while (first < 2000 && out[first])
			first++;
		slot = room_first(room, need);
		right = right && (slot == NO_SLOT ? first == 2000 : room_slot(room, slot)->first == first);
	}
	ok(right, "of 2,000 equal nodes any can be taken out and put back, and the first by name is found");
	shim_reset();
}

int
main(void)
{
	sequences("heads known", (Options) {.exact_heads = true});
	sequences("many ties", (Options) {.ties = true});
	sequences("accounts apart", (Options) {.isolate = true});
	sequences("accounts apart, many ties", (Options) {.isolate = true, .ties = true});
	large_slot();
	return done_testing();
}

/*
 * room.c
 *
 * The nodes of one pool and instance type, kept in the order of the scheduling policy while a plan counts them down.
 * See place.h for the structure.  Nothing here depends on chance: the tree's shape differs with the order in which
 * nodes come and go, what a search finds does not.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/place.h"
#include "core/resources.h"

#define FEWEST_SLOTS	16
#define CACHE_LINE		64

/*
 * The state of a node: its dimensions, then the sum over its devices.
 */
static inline void
node_state(const World *world, const PoolNode *node, int64 *state)
{
	int64		whole = 0;
	int64		part = 0;

	for (int d = 0; d < node->ndevices; d++)
	{
		whole += node->device_free[d] >= RPQ_UNIT;
		part = Max(part, node->device_free[d]);
	}
	state[DIM_WHOLE] = whole;
	state[DIM_PART] = part;
	for (int k = 1; k < world->nkeys; k++)
		state[KEY_DIM(k)] = node->free[k];
	state[world->nkeys + 1] = node->free[RPQ_KEY_GPU];
}

static inline bool
satisfies(const int64 *amounts, const Need *need)
{
	for (int i = 0; i < need->ndims; i++)
		if (amounts[need->dims[i]] < need->amounts[i])
			return false;
	return true;
}

static uint32
state_hash(const int64 *state, int n)
{
	uint64		h = UINT64CONST(0x9E3779B97F4A7C15);

	for (int i = 0; i < n; i++)
	{
		h ^= (uint64) state[i];
		h *= UINT64CONST(0xFF51AFD7ED558CCD);
		h ^= h >> 32;
	}
	return (uint32) h;
}

/* ---- slots by state ---- */

static int
slot_find(const Room *room, const int64 *state, uint32 hash)
{
	Size		size = sizeof(int64) * (room->ndims + 1);
	int			slot = room->buckets[hash & (room->nbuckets - 1)];

	while (slot != NO_SLOT &&
		   (room->tags[slot].hash != hash || memcmp(slot_state(room, room_slot(room, slot)), state, size) != 0))
		slot = room->tags[slot].next;
	return slot;
}

/*
 * Twice as many slots, none of which is free.  The new array starts at a cache line wherever it was put.
 */
static void
grow_slots(Room *room)
{
	int			n = room->nslots == 0 ? FEWEST_SLOTS : 2 * room->nslots;
	char	   *space = palloc(room->slot_size * n + CACHE_LINE);
	char	   *slots = (char *) TYPEALIGN(CACHE_LINE, space);

	if (room->nslots == 0)
		room->tags = palloc(sizeof(SlotTag) * n);
	else
	{
		memcpy(slots, room->slots, room->slot_size * room->nslots);
		pfree(room->slot_space);
		pfree(room->buckets);
		room->tags = repalloc(room->tags, sizeof(SlotTag) * n);
	}
	room->slot_space = space;
	room->slots = slots;
	room->maxslots = n;
	room->nbuckets = 2 * n;
	room->buckets = palloc(sizeof(int) * room->nbuckets);
	memset(room->buckets, 0xFF, sizeof(int) * room->nbuckets);	/* NO_SLOT */
	for (int i = 0; i < room->nslots; i++)
	{
		int		   *bucket = &room->buckets[room->tags[i].hash & (room->nbuckets - 1)];

		room->tags[i].next = *bucket;
		*bucket = i;
	}
}

static int
slot_new(Room *room, const int64 *state, uint32 hash, int node)
{
	int64		sign = room->policy == POLICY_BINPACK ? 1 : -1;
	int			slot = room->unused;
	int		   *bucket;
	Slot	   *s;
	SlotTag    *tag;

	if (slot != NO_SLOT)
		room->unused = room->tags[slot].next;
	else
	{
		if (room->nslots == room->maxslots)
			grow_slots(room);
		slot = room->nslots++;
	}
	bucket = &room->buckets[hash & (room->nbuckets - 1)];
	tag = &room->tags[slot];
	tag->hash = hash;
	tag->priority = (hash ^ (uint32) node) * 0x85EBCA6B;
	tag->priority ^= tag->priority >> 15;
	tag->next = *bucket;
	*bucket = slot;
	s = room_slot(room, slot);
	s->first = NO_NODE;
	s->count = 0;
	s->key = sign * state[room->ndims];
	s->second_key = sign * state[KEY_DIM(RPQ_KEY_CPU)];
	memcpy(slot_state(room, s), state, sizeof(int64) * (room->ndims + 1));
	return slot;
}

static void
slot_free(Room *room, int slot)
{
	SlotTag    *tags = room->tags;
	int		   *link = &room->buckets[tags[slot].hash & (room->nbuckets - 1)];

	while (*link != slot)
		link = &tags[*link].next;
	*link = tags[slot].next;
	tags[slot].next = room->unused;
	room->unused = slot;
}

/*
 * The slot of the state in hand, a new and empty one where there is none.
 */
static int
slot_get(Room *room, int node)
{
	uint32		hash = state_hash(room->state, room->ndims + 1);
	int			slot = slot_find(room, room->state, hash);

	return slot != NO_SLOT ? slot : slot_new(room, room->state, hash, node);
}

/*
 * Puts a node where its present state belongs.
 */
void
room_push(Room *room, int node)
{
	Placer	   *placer = room->placer;
	HeapLink   *link = &placer->heap[node];
	int			slot;
	Slot	   *s;

	node_state(placer->world, &placer->world->nodes[node], room->state);
	slot = slot_get(room, node);
	s = room_slot(room, slot);
	link->left = link->right = link->parent = NO_NODE;
	link->rank = 1;
	if (s->count++ == 0)
	{
		s->first = node;
		tree_insert(room, slot);
	}
	else
	{
		int			first = heap_merge(placer, s->first, node);

		if (first != s->first)
			tree_refirst(room, slot, first);
	}
}

/* Takes a node out of its slot, and the slot with the last of them out of the room. */
static void
slot_remove(Room *room, int slot, int node)
{
	Slot	   *s = room_slot(room, slot);
	int			first;

	if (--s->count > 0)
	{
		first = heap_remove(room->placer, s->first, node);
		if (first != s->first)
			tree_refirst(room, slot, first);
	}
	else
	{
		tree_remove(room, slot);
		slot_free(room, slot);
	}
}

/*
 * Takes the first node of a slot out of the room and returns it.
 */
int
room_pop(Room *room, int slot)
{
	int			node = room_slot(room, slot)->first;

	slot_remove(room, slot, node);
	return node;
}

/*
 * Takes any node out of the room that it is in, its state unchanged since it came there.
 */
void
room_remove(Room *room, int node)
{
	const World *world = room->placer->world;
	int			slot;

	node_state(world, &world->nodes[node], room->state);
	slot = slot_find(room, room->state, state_hash(room->state, room->ndims + 1));
	Assert(slot != NO_SLOT);
	slot_remove(room, slot, node);
}

/* ---- searches ---- */

static int
tree_first(const Room *room, int tree, const Need *need)
{
	int			found;

	while (tree != NO_SLOT)
	{
		Slot	   *t = room_slot(room, tree);

		if (!satisfies(t->most, need))
			break;
		found = tree_first(room, t->left, need);
		if (found != NO_SLOT)
			return found;
		if (satisfies(slot_state(room, t), need))
			return tree;
		tree = t->right;
	}
	return NO_SLOT;
}

/*
 * The slot whose first node the policy prefers among those that fit one replica; -1 when none does.
 */
int
room_first(const Room *room, const Need *need)
{
	return need->impossible ? NO_SLOT : tree_first(room, room->root, need);
}

/*
 * The same among the slots that come before another, of this room or of another of its pool.
 */
static int
tree_first_before(const Room *room, int tree, const Need *need, const Slot *bound)
{
	int			found;

	while (tree != NO_SLOT)
	{
		Slot	   *t = room_slot(room, tree);

		if (!satisfies(t->most, need))
			break;
		if (!slot_precedes(t, bound))
		{
			tree = t->left;
			continue;
		}
		found = tree_first_before(room, t->left, need, bound);
		if (found != NO_SLOT)
			return found;
		if (satisfies(slot_state(room, t), need))
			return tree;
		tree = t->right;
	}
	return NO_SLOT;
}

int
room_first_before(const Room *room, const Need *need, Spot spot)
{
	if (room->policy != spot.room->policy)
		return room->policy == POLICY_BINPACK ? room_first(room, need) : NO_SLOT;
	return need->impossible ? NO_SLOT : tree_first_before(room, room->root, need, room_slot(spot.room, spot.slot));
}

static int64
tree_count(const Room *room, int tree, const Need *need, int64 limit)
{
	int64		total = 0;

	while (total < limit && tree != NO_SLOT)
	{
		Slot	   *t = room_slot(room, tree);
		const int64 *state = slot_state(room, t);
		int64		times = limit;

		if (!satisfies(t->most, need))
			break;
		total += tree_count(room, t->left, need, limit - total);
		for (int i = 0; i < need->ndims; i++)
			times = Min(times, state[need->dims[i]] / need->amounts[i]);
		if (times > 0)
			total += times * t->count;
		tree = t->right;
	}
	return total;
}

/* Adds a room and, where accounts are kept apart, the guest room of the account. */
static int
add_rooms(Room *room, const Need *need, Room **rooms)
{
	rooms[0] = room;
	rooms[1] = room->isolate ? guest_room(room, need->account) : NULL;
	return rooms[1] != NULL ? 2 : 1;
}

/*
 * The rooms of a home that a need may use, were its targets open to all; at most MAX_OPEN.  Returns how many.
 */
int
rooms_past_targets(Room *home, const Need *need, Room **rooms)
{
	int			n = add_rooms(home, need, rooms);

	return home->targets == NULL ? n : n + add_rooms(home->targets, need, rooms + n);
}

/*
 * Those that are open to it.
 */
int
open_rooms(Room *home, const Need *need, Room **rooms)
{
	if (home->targets == NULL || !targets_open(home, need))
		return add_rooms(home, need, rooms);
	return rooms_past_targets(home, need, rooms);
}

/* Parts that share a device: what a node takes is not in its slot's state. */
static int64
count_parts(const Room *home, const Need *need, int64 limit)
{
	const Placer *placer = home->placer;
	int64		total = 0;

	for (int i = 0; i < home->nnodes && total < limit; i++)
	{
		const PoolNode *node = &placer->world->nodes[home->nodes[i]];

		if (node->takes_work && node_open_to(placer->world, node, need->account) &&
			(!placer->is_target[home->nodes[i]] || targets_open(home, need)))
			total += need_times_on_node(placer->world, need, node);
	}
	return Min(limit, total);
}

/*
 * How many replicas would fit at once, counted up to limit, in all rooms of the room's home that are open to them.
 *
 * Replicas are alike, so how many a node takes does not depend on the others: a gang fits exactly when the sum over
 * nodes reaches it, and whoever then places it replica by replica cannot fail.  That is why nothing is ever taken back.
 */
int64
room_count(Room *room, const Need *need, int64 limit)
{
	Room	   *rooms[MAX_OPEN];
	int			nrooms = need->impossible ? 0 : open_rooms(room->home, need, rooms);
	int64		total = 0;
	int			first = 0;

	if (limit <= 1 || need->part > 0)
	{
		while (first < nrooms && room_first(rooms[first], need) == NO_SLOT)
			first++;
		if (first == nrooms)
			return 0;
		return limit <= 1 ? limit : count_parts(room->home, need, limit);
	}
	for (int i = 0; i < nrooms && total < limit; i++)
		total += tree_count(rooms[i], rooms[i]->root, need, limit - total);
	return Min(limit, total);
}

/*
 * The most of a dimension that any node of the room has.
 */
int64
room_most(const Room *room, int dim)
{
	return room->root == NO_SLOT ? 0 : room_slot(room, room->root)->most[dim];
}

/* ---- building ---- */

static void
count_why(Room *room, const PoolNode *node)
{
	const char *why = node->why_not ? node->why_not : "unavailable";
	int			i = 0;

	while (i < room->nwhys && strcmp(room->whys[i], why) != 0)
		i++;
	if (i == MAX_WHYS)
		return;
	if (i == room->nwhys)
	{
		room->whys[room->nwhys++] = why;
		room->why_counts[i] = 0;
	}
	room->why_counts[i]++;
}

static bool
nodes_alike(const World *world, const PoolNode *a, const PoolNode *b)
{
	return a->ndevices == b->ndevices &&
		memcmp(a->free, b->free, sizeof(int64) * world->nkeys) == 0 &&
		memcmp(a->device_free, b->device_free, sizeof(int64) * a->ndevices) == 0;
}

static void
leave_out(Room *room, const PoolNode *node)
{
	for (int k = 0; k < room->placer->world->nkeys; k++)
		room->unavailable[k] += Max(node->free[k], 0);
	count_why(room, node);
}

/*
 * From the last node to the first: each becomes the root of its slot's heap at once.  Nodes that follow each other are
 * often alike: while they are, there is no need to look for their slot.  Nodes that host an account are left to
 * guests_build().
 */
static void
fill_slots(Room *room)
{
	World	   *world = room->placer->world;
	Size		size = sizeof(int64) * (room->ndims + 1);
	const PoolNode *like = NULL;	/* the node before, when it was in the slot of the one before that */
	Slot	   *s = NULL;

	for (int i = room->nnodes - 1; i >= 0; i--)
	{
		int			n = room->nodes[i];
		const PoolNode *node = &world->nodes[n];
		HeapLink   *link = &room->placer->heap[n];

		CHECK_FOR_INTERRUPTS();
		if (!node->takes_work)
		{
			leave_out(room, node);
			continue;
		}
		if (room->isolate && node->account != 0)
			continue;
		if (like == NULL || !nodes_alike(world, node, like))
		{
			node_state(world, node, room->state);
			like = s != NULL && memcmp(slot_state(room, s), room->state, size) == 0 ? node : NULL;
			if (like == NULL)
				s = room_slot(room, slot_get(room, n));
		}
		if (s->first != NO_NODE)
			room->placer->heap[s->first].parent = n;
		link->left = s->first;
		link->right = link->parent = NO_NODE;
		link->rank = 1;
		s->first = n;
		s->count++;
	}
}

/* What is free on all nodes that take new work. */
static void
sum_slots(Room *room)
{
	int			nkeys = room->placer->world->nkeys;

	for (int i = 0; i < room->nslots; i++)
	{
		Slot	   *s = room_slot(room, i);
		const int64 *state = slot_state(room, s);

		room->sum[RPQ_KEY_GPU] += s->count * Max(state[room->ndims], 0);
		for (int k = 1; k < nkeys; k++)
			room->sum[k] += s->count * Max(state[KEY_DIM(k)], 0);
	}
}

/* A room without nodes. */
void
room_init(Room *room)
{
	int			nkeys = room->placer->world->nkeys;

	room->root = room->unused = NO_SLOT;
	room->ndims = nkeys + 1;
	room->slot_size = TYPEALIGN(CACHE_LINE, offsetof(Slot, most) + sizeof(int64) * (2 * room->ndims + 1));
	room->nslots = 0;
	grow_slots(room);
	room->state = palloc(sizeof(int64) * (room->ndims + 1));
	room->sum = palloc0(sizeof(int64) * nkeys);
	room->unavailable = palloc0(sizeof(int64) * nkeys);
	room->built = true;
}

static void
room_build(Room *room)
{
	room_init(room);
	fill_slots(room);
	sum_slots(room);
	tree_build(room);
	if (room->isolate)
		guests_build(room);
}

/*
 * The room of a pool's type, built when it is first asked for: a plan in which nothing comes as far as placement costs
 * no look at the nodes.
 */
Room *
room_get(Placer *placer, int pool, int type_slot)
{
	Room	   *room = &placer->rooms[placer->first_room[pool] + type_slot];

	if (!room->built)
		room_build(room);
	return room;
}

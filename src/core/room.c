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

#define NO_SLOT		(-1)
#define NO_NODE		(-1)

/*
 * The state of a node: its dimensions, then the sum over its devices.
 */
static void
node_state(const World *world, const PoolNode *node, int64 *state)
{
	state[DIM_WHOLE] = 0;
	state[DIM_PART] = 0;
	for (int d = 0; d < node->ndevices; d++)
	{
		if (node->device_free[d] >= RPQ_UNIT)
			state[DIM_WHOLE]++;
		if (node->device_free[d] > state[DIM_PART])
			state[DIM_PART] = node->device_free[d];
	}
	for (int k = 1; k < world->nkeys; k++)
		state[KEY_DIM(k)] = node->free[k];
	state[world->nkeys + 1] = node->free[RPQ_KEY_GPU];
}

static inline int64 *
slot_most(const Room *room, int slot)
{
	return room->most + (Size) slot * (room->placer->world->nkeys + 1);
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

/*
 * The one order of nodes: by the policy's key, then by name.  The rooms may be two of one pool; should their policies
 * differ, those of binpack come first.
 */
bool
slot_before(const Room *a, int slot_a, const Room *b, int slot_b)
{
	const Slot *sa = &a->slots[slot_a];
	const Slot *sb = &b->slots[slot_b];

	if (a->policy != b->policy)
		return a->policy == POLICY_BINPACK;
	if (sa->key != sb->key)
		return sa->key < sb->key;
	if (sa->second_key != sb->second_key)
		return sa->second_key < sb->second_key;
	return sa->first < sb->first;
}

/* ---- the heap of a slot's nodes ---- */

/*
 * Merges two leftist heaps.  Right spines are logarithmic in the number of nodes, so the recursion is as well.
 */
static int
heap_merge(Placer *placer, int a, int b)
{
	int			swap;

	if (a == NO_NODE)
		return b;
	if (b == NO_NODE)
		return a;
	if (b < a)
	{
		swap = a;
		a = b;
		b = swap;
	}
	placer->heap_right[a] = heap_merge(placer, placer->heap_right[a], b);
	if (placer->heap_left[a] == NO_NODE ||
		placer->heap_rank[placer->heap_left[a]] < placer->heap_rank[placer->heap_right[a]])
	{
		swap = placer->heap_left[a];
		placer->heap_left[a] = placer->heap_right[a];
		placer->heap_right[a] = swap;
	}
	placer->heap_rank[a] = placer->heap_right[a] == NO_NODE ? 1 : placer->heap_rank[placer->heap_right[a]] + 1;
	return a;
}

/* ---- the tree of slots ---- */

static inline void
tree_renew(Room *room, int slot)
{
	int			ndims = room->placer->world->nkeys + 1;
	const Slot *s = &room->slots[slot];
	const int64 *state = slot_state(room, slot);
	const int64 *left = s->left == NO_SLOT ? state : slot_most(room, s->left);
	const int64 *right = s->right == NO_SLOT ? state : slot_most(room, s->right);
	int64	   *most = slot_most(room, slot);

	for (int d = 0; d < ndims; d++)
	{
		int64		below = Max(left[d], right[d]);

		most[d] = Max(state[d], below);
	}
}

/* Parts a tree into what comes before a slot and what comes after it. */
static void
tree_split(Room *room, int tree, int slot, int *before, int *after)
{
	if (tree == NO_SLOT)
	{
		*before = *after = NO_SLOT;
		return;
	}
	if (slot_before(room, tree, room, slot))
	{
		tree_split(room, room->slots[tree].right, slot, &room->slots[tree].right, after);
		*before = tree;
	}
	else
	{
		tree_split(room, room->slots[tree].left, slot, before, &room->slots[tree].left);
		*after = tree;
	}
	tree_renew(room, tree);
}

static int
tree_join(Room *room, int before, int after)
{
	int			top;

	if (before == NO_SLOT)
		return after;
	if (after == NO_SLOT)
		return before;
	if (room->slots[before].priority > room->slots[after].priority)
	{
		top = before;
		room->slots[top].right = tree_join(room, room->slots[top].right, after);
	}
	else
	{
		top = after;
		room->slots[top].left = tree_join(room, before, room->slots[top].left);
	}
	tree_renew(room, top);
	return top;
}

static int
tree_insert(Room *room, int tree, int slot)
{
	Slot	   *t;

	if (tree == NO_SLOT || room->slots[slot].priority > room->slots[tree].priority)
	{
		tree_split(room, tree, slot, &room->slots[slot].left, &room->slots[slot].right);
		tree_renew(room, slot);
		return slot;
	}
	t = &room->slots[tree];
	if (slot_before(room, slot, room, tree))
		t->left = tree_insert(room, t->left, slot);
	else
		t->right = tree_insert(room, t->right, slot);
	tree_renew(room, tree);
	return tree;
}

/* The slot's key must be what it was when it was inserted. */
static int
tree_remove(Room *room, int tree, int slot)
{
	Slot	   *t;

	Assert(tree != NO_SLOT);
	t = &room->slots[tree];
	if (tree == slot)
		return tree_join(room, t->left, t->right);
	if (slot_before(room, slot, room, tree))
		t->left = tree_remove(room, t->left, slot);
	else
		t->right = tree_remove(room, t->right, slot);
	tree_renew(room, tree);
	return tree;
}

/* ---- slots by state ---- */

static int
slot_find(const Room *room, const int64 *state, uint32 hash)
{
	Size		size = sizeof(int64) * (room->placer->world->nkeys + 2);
	int			slot = room->buckets[hash & (room->nbuckets - 1)];

	while (slot != NO_SLOT &&
		   (room->slots[slot].hash != hash || memcmp(slot_state(room, slot), state, size) != 0))
		slot = room->slots[slot].next;
	return slot;
}

static int
slot_new(Room *room, const int64 *state, uint32 hash, int node)
{
	int			nkeys = room->placer->world->nkeys;
	int			slot = room->unused;
	int		   *bucket = &room->buckets[hash & (room->nbuckets - 1)];
	int64		sign = room->policy == POLICY_BINPACK ? 1 : -1;
	Slot	   *s;

	if (slot != NO_SLOT)
		room->unused = room->slots[slot].next;
	else
	{
		if (room->nslots == room->maxslots)
		{
			room->maxslots *= 2;
			room->slots = repalloc(room->slots, sizeof(Slot) * room->maxslots);
			room->states = repalloc(room->states, sizeof(int64) * (nkeys + 2) * room->maxslots);
			room->most = repalloc(room->most, sizeof(int64) * (nkeys + 1) * room->maxslots);
		}
		slot = room->nslots++;
	}
	s = &room->slots[slot];
	s->hash = hash;
	s->priority = (hash ^ (uint32) node) * 0x85EBCA6B;
	s->priority ^= s->priority >> 15;
	s->next = *bucket;
	*bucket = slot;
	s->first = NO_NODE;
	s->count = 0;
	s->key = sign * state[nkeys + 1];
	s->second_key = sign * state[KEY_DIM(RPQ_KEY_CPU)];
	memcpy(slot_state(room, slot), state, sizeof(int64) * (nkeys + 2));
	return slot;
}

static void
slot_free(Room *room, int slot)
{
	int		   *link = &room->buckets[room->slots[slot].hash & (room->nbuckets - 1)];

	while (*link != slot)
		link = &room->slots[*link].next;
	*link = room->slots[slot].next;
	room->slots[slot].next = room->unused;
	room->unused = slot;
}

/*
 * Puts a node where its present state belongs; in_tree is false while a room is being built and has no tree yet.
 */
static void
put_node(Room *room, int node, bool in_tree)
{
	Placer	   *placer = room->placer;
	int64		space[32];
	int			n = placer->world->nkeys + 2;
	int64	   *state = n <= lengthof(space) ? space : palloc(sizeof(int64) * n);
	uint32		hash;
	int			slot;
	bool		moves;

	node_state(placer->world, &placer->world->nodes[node], state);
	hash = state_hash(state, n);
	slot = slot_find(room, state, hash);
	if (slot == NO_SLOT)
		slot = slot_new(room, state, hash, node);
	moves = in_tree && (room->slots[slot].count == 0 || node < room->slots[slot].first);
	if (moves && room->slots[slot].count > 0)
		room->root = tree_remove(room, room->root, slot);
	placer->heap_left[node] = placer->heap_right[node] = NO_NODE;
	placer->heap_rank[node] = 1;
	room->slots[slot].first = heap_merge(placer, room->slots[slot].first, node);
	room->slots[slot].count++;
	if (moves)
		room->root = tree_insert(room, room->root, slot);
	if (state != space)
		pfree(state);
}

void
room_push(Room *room, int node)
{
	put_node(room, node, true);
}

/*
 * Takes the first node of a slot out of the room and returns it.
 */
int
room_pop(Room *room, int slot)
{
	Placer	   *placer = room->placer;
	int			node = room->slots[slot].first;

	room->root = tree_remove(room, room->root, slot);
	room->slots[slot].first = heap_merge(placer, placer->heap_left[node], placer->heap_right[node]);
	if (--room->slots[slot].count > 0)
		room->root = tree_insert(room, room->root, slot);
	else
		slot_free(room, slot);
	return node;
}

/* ---- searches ---- */

static int
tree_first(const Room *room, int tree, const Need *need)
{
	int			found;

	while (tree != NO_SLOT && satisfies(slot_most(room, tree), need))
	{
		found = tree_first(room, room->slots[tree].left, need);
		if (found != NO_SLOT)
			return found;
		if (satisfies(slot_state(room, tree), need))
			return tree;
		tree = room->slots[tree].right;
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

static int64
tree_count(const Room *room, int tree, const Need *need, int64 limit)
{
	int64		total = 0;

	while (total < limit && tree != NO_SLOT && satisfies(slot_most(room, tree), need))
	{
		const int64 *state = slot_state(room, tree);
		int64		times = limit;

		total += tree_count(room, room->slots[tree].left, need, limit - total);
		for (int i = 0; i < need->ndims; i++)
			times = Min(times, state[need->dims[i]] / need->amounts[i]);
		if (times > 0)
			total += times * room->slots[tree].count;
		tree = room->slots[tree].right;
	}
	return total;
}

/*
 * How many replicas would fit at once, counted up to limit.
 *
 * Replicas are alike, so how many a node takes does not depend on the others: a gang fits exactly when the sum over
 * nodes reaches it, and whoever then places it replica by replica cannot fail.  That is why nothing is ever taken back.
 */
int64
room_count(const Room *room, const Need *need, int64 limit)
{
	World	   *world = room->placer->world;
	int64		total = 0;

	if (room_first(room, need) == NO_SLOT)
		return 0;
	if (limit <= 1)
		return limit;
	if (need->part == 0)
		return Min(limit, tree_count(room, room->root, need, limit));
	/* several parts share a device: what a node takes is not in its slot's state */
	for (int i = 0; i < room->nnodes && total < limit; i++)
	{
		const PoolNode *node = &world->nodes[room->nodes[i]];

		if (node->takes_work)
			total += need_times_on_node(world, need, node);
	}
	return Min(limit, total);
}

/*
 * The most of a dimension that any node of the room has.
 */
int64
room_most(const Room *room, int dim)
{
	return room->root == NO_SLOT ? 0 : slot_most(room, room->root)[dim];
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

static void
room_build(Room *room)
{
	World	   *world = room->placer->world;

	room->root = room->unused = NO_SLOT;
	room->nslots = 0;
	room->maxslots = 16;
	room->slots = palloc(sizeof(Slot) * room->maxslots);
	room->states = palloc(sizeof(int64) * (world->nkeys + 2) * room->maxslots);
	room->most = palloc(sizeof(int64) * (world->nkeys + 1) * room->maxslots);
	room->nbuckets = 16;
	while (room->nbuckets < room->nnodes)
		room->nbuckets *= 2;
	room->buckets = palloc(sizeof(int) * room->nbuckets);
	memset(room->buckets, 0xFF, sizeof(int) * room->nbuckets);	/* NO_SLOT */
	room->sum = palloc0(sizeof(int64) * world->nkeys);
	room->unavailable = palloc0(sizeof(int64) * world->nkeys);

	/* From the last to the first: each becomes the root of its slot's heap at once. */
	for (int i = room->nnodes - 1; i >= 0; i--)
	{
		const PoolNode *node = &world->nodes[room->nodes[i]];
		int64	   *sum = node->takes_work ? room->sum : room->unavailable;

		CHECK_FOR_INTERRUPTS();
		for (int k = 0; k < world->nkeys; k++)
			sum[k] += Max(node->free[k], 0);
		if (node->takes_work)
			put_node(room, room->nodes[i], false);
		else
			count_why(room, node);
	}
	for (int slot = 0; slot < room->nslots; slot++)
		room->root = tree_insert(room, room->root, slot);
	room->built = true;
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

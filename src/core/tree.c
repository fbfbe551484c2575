/*
 * tree.c
 *
 * The tree of a room's slots: a treap in the order of the scheduling policy, in which each slot knows the most of its
 * subtree by dimension.  See place.h.
 *
 * Nodes and their neighbours lie far apart in a large room, so what counts is how many slots are touched.  On the way
 * down to where a slot belongs the most is raised without a look at other branches; after a removal it is made anew
 * only where the slot that went had it; and a slot whose first node changes stays where it is unless another of equal
 * key comes between.
 */
#include "postgres.h"

#include "core/place.h"

/*
 * The one order of nodes: by the policy's key, then by name.  The rooms may be two of one pool; should their policies
 * differ, those of binpack come first.
 */
bool
slot_before(const Room *a, int slot_a, const Room *b, int slot_b)
{
	if (a->policy != b->policy)
		return a->policy == POLICY_BINPACK;
	return slot_precedes(room_slot(a, slot_a), room_slot(b, slot_b));
}

static inline void
raise_most(const Room *room, Slot *slot, const int64 *amounts)
{
	for (int d = 0; d < room->ndims; d++)
		slot->most[d] = Max(slot->most[d], amounts[d]);
}

/* The most of a slot's subtree from its own state and its children. */
static inline void
renew_most(const Room *room, Slot *slot)
{
	memcpy(slot->most, slot_state(room, slot), sizeof(int64) * room->ndims);
	if (slot->left != NO_SLOT)
		raise_most(room, slot, room_slot(room, slot->left)->most);
	if (slot->right != NO_SLOT)
		raise_most(room, slot, room_slot(room, slot->right)->most);
}

/* Whether the most of a subtree may be lower without a slot of this state. */
static inline bool
has_most(const Room *room, const Slot *slot, const int64 *state)
{
	for (int d = 0; d < room->ndims; d++)
		if (slot->most[d] == state[d])
			return true;
	return false;
}

/* Parts a tree into what comes before a slot and what comes after it. */
static void
tree_split(Room *room, int tree, const Slot *slot, int *before, int *after)
{
	Slot	   *t;

	if (tree == NO_SLOT)
	{
		*before = *after = NO_SLOT;
		return;
	}
	t = room_slot(room, tree);
	if (slot_precedes(t, slot))
	{
		tree_split(room, t->right, slot, &t->right, after);
		*before = tree;
	}
	else
	{
		tree_split(room, t->left, slot, before, &t->left);
		*after = tree;
	}
	renew_most(room, t);
}

/* Joins two trees, all of one before all of the other, and puts the result at link. */
static void
tree_join(Room *room, int before, int after, int *link)
{
	while (before != NO_SLOT && after != NO_SLOT)
	{
		Slot	   *b = room_slot(room, before);
		Slot	   *a = room_slot(room, after);

		if (room->tags[before].priority > room->tags[after].priority)
		{
			raise_most(room, b, a->most);
			*link = before;
			link = &b->right;
			before = *link;
		}
		else
		{
			raise_most(room, a, b->most);
			*link = after;
			link = &a->left;
			after = *link;
		}
	}
	*link = before != NO_SLOT ? before : after;
}

void
tree_insert(Room *room, int slot)
{
	Slot	   *s = room_slot(room, slot);
	const int64 *state = slot_state(room, s);
	uint32		priority = room->tags[slot].priority;
	int		   *link = &room->root;

	while (*link != NO_SLOT && room->tags[*link].priority >= priority)
	{
		Slot	   *t = room_slot(room, *link);

		raise_most(room, t, state);
		link = slot_precedes(s, t) ? &t->left : &t->right;
	}
	tree_split(room, *link, s, &s->left, &s->right);
	*link = slot;
	renew_most(room, s);
}

static void
remove_below(Room *room, int *link, int slot, const Slot *s, const int64 *state)
{
	Slot	   *t;

	Assert(*link != NO_SLOT);
	if (*link == slot)
	{
		tree_join(room, s->left, s->right, link);
		return;
	}
	t = room_slot(room, *link);
	remove_below(room, slot_precedes(s, t) ? &t->left : &t->right, slot, s, state);
	if (has_most(room, t, state))
		renew_most(room, t);
}

/* The slot's key and first node must be what they were when it was inserted. */
void
tree_remove(Room *room, int slot)
{
	Slot	   *s = room_slot(room, slot);

	remove_below(room, &room->root, slot, s, slot_state(room, s));
}

/* The last slot before the given one, or the first one after it. */
static int
tree_neighbour(const Room *room, int slot, bool after)
{
	const Slot *s = room_slot(room, slot);
	int			found = NO_SLOT;
	int			tree = room->root;

	while (tree != NO_SLOT)
	{
		const Slot *t = room_slot(room, tree);
		bool		beyond = tree != slot && (after ? slot_precedes(s, t) : slot_precedes(t, s));

		if (beyond)
			found = tree;
		tree = beyond == after ? t->left : t->right;
	}
	return found;
}

/*
 * Gives a slot another first node.  It moves only when it does not come before or after the same slots as it did.
 */
void
tree_refirst(Room *room, int slot, int first)
{
	Slot	   *s = room_slot(room, slot);
	bool		later = first > s->first;
	int			neighbour = tree_neighbour(room, slot, later);
	const Slot *n = neighbour == NO_SLOT ? NULL : room_slot(room, neighbour);

	if (n == NULL || n->key != s->key || n->second_key != s->second_key || (n->first > first) == later)
	{
		s->first = first;
		return;
	}
	tree_remove(room, slot);
	s->first = first;
	tree_insert(room, slot);
}

/* ---- building ---- */

typedef struct SlotOrder
{
	int64		key;
	int64		second_key;
	int			first;
	int			slot;
} SlotOrder;

static int
compare_slots(const void *a, const void *b)
{
	const SlotOrder *x = a;
	const SlotOrder *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->second_key != y->second_key)
		return x->second_key < y->second_key ? -1 : 1;
	return x->first < y->first ? -1 : 1;
}

/*
 * Builds the tree of all slots, none of which is free: sorted, then added from left to right, where each can only go to
 * the end of the right spine.  Without children yet, what leaves the spine is complete.
 */
void
tree_build(Room *room)
{
	SlotOrder  *order = palloc(sizeof(SlotOrder) * (room->nslots + 1));
	int		   *spine = palloc(sizeof(int) * (room->nslots + 1));
	int			depth = 0;

	for (int i = 0; i < room->nslots; i++)
	{
		const Slot *s = room_slot(room, i);

		order[i].key = s->key;
		order[i].second_key = s->second_key;
		order[i].first = s->first;
		order[i].slot = i;
	}
	qsort(order, room->nslots, sizeof(SlotOrder), compare_slots);
	for (int i = 0; i < room->nslots; i++)
	{
		int			slot = order[i].slot;
		Slot	   *s = room_slot(room, slot);

		s->left = s->right = NO_SLOT;
		while (depth > 0 && room->tags[spine[depth - 1]].priority < room->tags[slot].priority)
		{
			s->left = spine[--depth];
			renew_most(room, room_slot(room, s->left));
		}
		if (depth > 0)
			room_slot(room, spine[depth - 1])->right = slot;
		spine[depth++] = slot;
	}
	room->root = depth > 0 ? spine[0] : NO_SLOT;
	while (depth > 0)
		renew_most(room, room_slot(room, spine[--depth]));
	pfree(order);
	pfree(spine);
}

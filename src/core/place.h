/*
 * place.h
 *
 * Room on nodes: what fits where, and which node a scheduling policy takes.  Internal to the core.
 *
 * A Room holds the nodes of one pool and one instance type that take new work, in the order in which their scheduling
 * policy prefers them.  Nodes of the same state (entirely free devices, largest part of one, what is free of each key)
 * are one entry, a Slot, so the cost of finding a node depends on how many states there are and not on how many nodes:
 * an empty room of 10,000 nodes has one slot.  The slots form a balanced tree (a treap) in which each knows the most
 * that any slot below it has, by dimension, so that a search leaves out whole subtrees that cannot fit.
 *
 * Where accounts are kept apart (Pool.isolate), the room has only the nodes that host nobody; those that host one
 * account's pods are in a room of that account's beside it, its guest room, and those that host several in none.  Who
 * looks for a node looks at both rooms that are open to its account (guests.c).
 *
 * Target nodes, which are kept back for a workload that is blocked, are in a room of their own beside the room, their
 * home, likewise with guest rooms where accounts are kept apart.  It is closed to all but those that end in time
 * (targets_open()); these look at both, and the policy prefers a target as any other node.
 *
 * Dimensions: 0 is the number of entirely free devices, 1 the largest part left of a device, d >= 2 the resource key
 * d - 1.
 */
#ifndef RPQ_CORE_PLACE_H
#define RPQ_CORE_PLACE_H

#include "core/resources.h"
#include "core/world.h"

#define DIM_WHOLE		0
#define DIM_PART		1
#define KEY_DIM(key)	((key) + 1)

#define MAX_WHYS		8
#define MAX_OPEN		4			/* rooms of one home that are open to a workload */

/* What one replica asks of a node: the dimensions that matter, each with the least amount. */
typedef struct Need
{
	int			replicas;
	bool		impossible;		/* no node could ever fit it: more than one device, and not whole ones */
	int			whole;			/* devices that it takes entirely */
	int64		part;			/* or the part that it takes of one device */
	int			ndims;
	int		   *dims;			/* [ndims] */
	int64	   *amounts;		/* [ndims] */
	const int64 *request;		/* [nkeys] */
	int64		account;		/* whose pods they are: matters only where accounts are kept apart */
	TimestampTz ends;			/* when they end at the latest: before Room.bound, target nodes are open to them */
	bool		past_targets;	/* all target nodes are open to them */
} Need;

/*
 * Nodes of one state.  A room has its slots in one array, each of room->slot_size bytes from the start of a cache line:
 * with three resource keys what a search reads on its way down is one line, and the state is the next.  most is by
 * dimension the most in the slot's subtree; behind it, see slot_state(), the state of the nodes themselves.
 */
typedef struct Slot
{
	int64		key;			/* what the policy orders by: the sum over devices, then free CPU; less is better */
	int64		second_key;
	int			left;
	int			right;
	int			first;			/* the lowest node: root of a leftist heap of the slot's nodes */
	int			count;
	int64		most[FLEXIBLE_ARRAY_MEMBER];	/* [ndims], then the state: [ndims] and the sum over devices */
} Slot;

/* What a search has no use for. */
typedef struct SlotTag
{
	uint32		priority;		/* of the treap: larger is higher up */
	uint32		hash;			/* of the state */
	int			next;			/* in the hash chain, or in the list of free slots */
} SlotTag;

/* A node in the leftist heap of its slot. */
typedef struct HeapLink
{
	int			left;
	int			right;
	int			parent;
	int			rank;
} HeapLink;

typedef struct Room
{
	struct Placer *placer;
	int			pool;
	int			type;
	SchedulingPolicy policy;
	int			nnodes;
	int		   *nodes;			/* [nnodes], ascending; with those that take nothing new */
	bool		isolate;		/* accounts are kept apart */
	bool		built;			/* what follows is filled when the room is first asked for */
	int			root;
	int			ndims;
	Size		slot_size;
	int			nslots;
	int			maxslots;
	int			unused;			/* list of free slots */
	char	   *slots;			/* [maxslots], within slot_space: use room_slot() */
	char	   *slot_space;
	SlotTag    *tags;			/* [maxslots] */
	int64	   *state;			/* [ndims + 1]: that of the node in hand */
	uint32		nbuckets;		/* a power of two, grows with the number of slots */
	int		   *buckets;
	int64	   *sum;			/* [nkeys]: free on nodes that take new work, of a home with its targets; where accounts
								 * are kept apart on those that host nobody, of a guest room on its own */
	int64	   *unavailable;	/* [nkeys]: of a home, free on nodes that take nothing new */
	int			nwhys;			/* why they do not, each with the number of nodes */
	const char *whys[MAX_WHYS];
	int			why_counts[MAX_WHYS];

	struct Room *home;			/* of a guest room or a room of targets, the one that room_get() gives; else itself */

	/* where nodes are kept back for one that is blocked (targets.c) */
	struct Room *targets;		/* of a home, the room of its target nodes; NULL: it has none */
	TimestampTz bound;			/* of a home: who ends before it may use them */
	const Lane *head;			/* of a home: for whom */
	int64		head_id;		/* its workload */
	int			nkinds;
	struct NodeKind *kinds;		/* [nkinds]: nodes that take work, by what they hold when empty; NULL: not counted */

	/* where accounts are kept apart */
	struct Room *common;		/* of a guest room, the room that it stands beside; else the room itself */
	int64		account;		/* of a guest room */
	int			nhosting;		/* nodes that take work and host someone: of a home all, of a guest room its own */
	int64	   *hosting;		/* [nkeys]; of a home, free on them; of a guest room that is sum */
	int			nguests;
	int			maxguests;
	struct Room **guests;		/* [nguests], by account */
} Room;

/* A node that a search has found. */
typedef struct Spot
{
	Room	   *room;
	int			slot;
} Spot;

typedef struct Placer
{
	World	   *world;
	int		   *first_room;		/* [npools]: rooms of pool p start here, in the order of its types */
	int			nrooms;
	Room	   *rooms;
	HeapLink   *heap;			/* [nnodes]: the leftist heaps of all slots */
	bool	   *is_target;		/* [nnodes] */
	int			nheads;			/* homes that have targets */
	bool	   *usable;			/* [most types of a pool]: for whoever needs a place for them */
	Spot	   *spots;			/* [most types of a pool] */
	struct Reserve *reserve;	/* reserve.c; NULL until somebody asks */
	struct Evictor *evictor;	/* preempt.h; NULL until somebody asks */
} Placer;

/* room.c */
extern void room_init(Room *room);
extern Room *room_get(Placer *placer, int pool, int type_slot);
extern int	room_first(const Room *room, const Need *need);
extern int	room_first_before(const Room *room, const Need *need, Spot spot);
extern int	rooms_past_targets(Room *home, const Need *need, Room **rooms);
extern int	open_rooms(Room *home, const Need *need, Room **rooms);
extern int64 room_count(Room *room, const Need *need, int64 limit);
extern int	room_pop(Room *room, int slot);
extern void room_push(Room *room, int node);
extern void room_remove(Room *room, int node);
extern int64 room_most(const Room *room, int dim);

#define NO_SLOT		(-1)
#define NO_NODE		(-1)

static inline Slot *
room_slot(const Room *room, int slot)
{
	return (Slot *) (room->slots + slot * room->slot_size);
}

/* Its dimensions, then the sum over devices. */
static inline int64 *
slot_state(const Room *room, Slot *slot)
{
	return slot->most + room->ndims;
}

/* Whether a slot comes before another of the same policy: by the key, then by its first node. */
static inline bool
slot_precedes(const Slot *a, const Slot *b)
{
	if (a->key != b->key)
		return a->key < b->key;
	if (a->second_key != b->second_key)
		return a->second_key < b->second_key;
	return a->first < b->first;
}

/*
 * guests.c
 *
 * Whoever changes what is free on a node in the middle of a plan, or whom it hosts, takes it out of its room before and
 * puts it back after that; nothing may be sought in between.
 */
extern void room_take_out(Placer *placer, int node);
extern void room_put_back(Placer *placer, int node);
extern Room *room_of_node(Placer *placer, int node);
extern Room *room_beside(Room *home);
extern void guests_build(Room *room);
extern Room *guest_room(const Room *common, int64 account);
extern void guest_leave(Room *room, int node);
extern void guest_enter(Room *common, int64 account, int node);

/* Whether the target nodes of a room's type are open to a need; there must be some. */
static inline bool
targets_open(const Room *home, const Need *need)
{
	return need->past_targets || need->ends < home->bound;
}

/* Whether a node is open to an account as far as others on it go. */
static inline bool
node_open_to(const World *world, const PoolNode *node, int64 account)
{
	return node->account == 0 || node->account == account || !world->pools[node->pool].isolate;
}

/* heap.c */
extern int	heap_merge(Placer *placer, int a, int b);
extern int	heap_remove(Placer *placer, int root, int node);

/* tree.c */
extern bool slot_before(const Room *a, int slot_a, const Room *b, int slot_b);
extern void tree_build(Room *room);
extern void tree_insert(Room *room, int slot);
extern void tree_remove(Room *room, int slot);
extern void tree_refirst(Room *room, int slot, int first);

/* place.c */
extern Placer *placer_create(World *world);
extern Need *need_create(const World *world, const int64 *request, int replicas, int64 account);
extern bool need_fits_node(const World *world, const Need *need, const PoolNode *node);
extern int64 need_times_on_node(const World *world, const Need *need, const PoolNode *node);
extern int	place_candidates(Placer *placer, int pool, const bool *usable, const Need *need, Spot *spots);
extern void place_take_node(World *world, int node_index, const Need *need, PodPlace *pod, int *devices);
extern void place_take(Spot spot, const Need *need, PodPlace *pods, int *devices);

#endif							/* RPQ_CORE_PLACE_H */

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
} Need;

/* Nodes of one state. */
typedef struct Slot
{
	int64		key;			/* what the policy orders by: the sum over devices, then free CPU; less is better */
	int64		second_key;
	int			left;
	int			right;
	uint32		priority;		/* of the treap: larger is higher up */
	uint32		hash;			/* of the state */
	int			next;			/* in the hash chain, or in the list of free slots */
	int			first;			/* the lowest node: root of a leftist heap of the slot's nodes */
	int			count;
} Slot;

typedef struct Room
{
	struct Placer *placer;
	int			pool;
	int			type;
	SchedulingPolicy policy;
	int			nnodes;
	int		   *nodes;			/* [nnodes], ascending; with those that take nothing new */
	bool		built;			/* what follows is filled when the room is first asked for */
	int			root;
	int			nslots;
	int			maxslots;
	int			unused;			/* list of free slots */
	Slot	   *slots;
	int64	   *states;			/* [maxslots][nkeys + 2]: the dimensions, then the sum over devices */
	int64	   *most;			/* [maxslots][nkeys + 1]: by dimension, the most in the slot's subtree */
	uint32		nbuckets;		/* a power of two */
	int		   *buckets;
	int64	   *sum;			/* [nkeys]: free on nodes that take new work */
	int64	   *unavailable;	/* [nkeys]: free on nodes that do not */
	int			nwhys;			/* why they do not, each with the number of nodes */
	const char *whys[MAX_WHYS];
	int			why_counts[MAX_WHYS];
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
	int		   *heap_left;		/* [nnodes] each: the leftist heaps of all slots */
	int		   *heap_right;
	int		   *heap_rank;
	bool	   *usable;			/* [most types of a pool]: for whoever needs a place for them */
	Spot	   *spots;			/* [most types of a pool] */
} Placer;

/* room.c */
extern Room *room_get(Placer *placer, int pool, int type_slot);
extern int	room_first(const Room *room, const Need *need);
extern int64 room_count(const Room *room, const Need *need, int64 limit);
extern int	room_pop(Room *room, int slot);
extern void room_push(Room *room, int node);
extern int64 room_most(const Room *room, int dim);
extern bool slot_before(const Room *a, int slot_a, const Room *b, int slot_b);

static inline int64 *
slot_state(const Room *room, int slot)
{
	return room->states + (Size) slot * (room->placer->world->nkeys + 2);
}

/* place.c */
extern Placer *placer_create(World *world);
extern Need *need_create(const World *world, const int64 *request, int replicas);
extern bool need_fits_node(const World *world, const Need *need, const PoolNode *node);
extern int64 need_times_on_node(const World *world, const Need *need, const PoolNode *node);
extern int	place_candidates(Placer *placer, int pool, const bool *usable, const Need *need, Spot *spots);
extern void place_take(Spot spot, const Need *need, PodPlace *pods, int *devices);

#endif							/* RPQ_CORE_PLACE_H */

/*
 * placed.h
 *
 * What a preemption has to know of placed work: load_placed.c.
 */
#ifndef RPQ_STORE_PLACED_H
#define RPQ_STORE_PLACED_H

#include "store/book.h"

/* Placed.store */
typedef struct PlacedRow
{
	int64	   *pod_ids;		/* [npods], by replica */
	int64		policy_id;		/* 0: a direct submission */
	Resources  *each;			/* of one pod */
} PlacedRow;

/* The position of each node of a World, by id. */
typedef struct NodeIndex
{
	int64		node_id;
	int			node;
} NodeIndex;

extern NodeIndex *node_index_build(const World *world);
extern int	node_index_find(const NodeIndex *index, int nnodes, int64 node_id);	/* -1: it is not there */

/* World.load_placed, take_victims and read_ends: what stands on its nodes can be asked for. */
extern void placed_offer(World *world);

/* load_later.c: World.read_later. */
extern void placed_read_later(World *world, const int *nodes, int nnodes, NodeLater *later);

#endif							/* RPQ_STORE_PLACED_H */

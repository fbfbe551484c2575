/*
 * moves.h
 *
 * Pods that have to leave their nodes, read from rows, with the places that the core gives them.
 */
#ifndef RPQ_STORE_MOVES_H
#define RPQ_STORE_MOVES_H

#include "store/book.h"

/* A pod's row beside the core's Move. */
typedef struct MovingPod
{
	int64		pod_id;
	int64		workload_id;
	int			replica;
	int			attempt;
	int64		node_id;
	int64		account_id;
	int64		wanted;			/* id of the node that it should go to, or 0 */
	Resources  *resources;
} MovingPod;

typedef struct PlannedMoves
{
	World	   *world;
	int			nmoves;
	Move	   *moves;			/* in the order of the plan; store is the MovingPod */
} PlannedMoves;

/*
 * Plans the moves of pods off nodes of a pool: those with the ids in pods, each to the node of wanted (0: any) when
 * that still takes it; or, when pods is NULL, all that stand on the nodes.  Inside an open SPI connection, at the
 * snapshot in force.  Holds count as taken.
 *
 * Releases that no fold has counted yet count as freed for whoever only looks.  Whoever acts, under the turn and after
 * a fold (folded), takes what pod and node_load say: a pod that ended since then still has its place in both.
 */
extern PlannedMoves *moves_plan(int64 pool_id, const int64 *nodes, int nnodes, const int64 *pods, const int64 *wanted,
								int npods, bool folded);

#endif							/* RPQ_STORE_MOVES_H */

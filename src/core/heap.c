/*
 * heap.c
 *
 * The nodes of one slot: a leftist heap, the node that comes first by name on top.  See place.h.
 */
#include "postgres.h"

#include "core/place.h"

/*
 * Merges two leftist heaps.  Right spines are logarithmic in the number of nodes, so the recursion is as well.
 */
int
heap_merge(Placer *placer, int a, int b)
{
	HeapLink   *link;
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
	link = &placer->heap[a];
	link->right = heap_merge(placer, link->right, b);
	placer->heap[link->right].parent = a;
	if (link->left == NO_NODE || placer->heap[link->left].rank < placer->heap[link->right].rank)
	{
		swap = link->left;
		link->left = link->right;
		link->right = swap;
	}
	link->rank = link->right == NO_NODE ? 1 : placer->heap[link->right].rank + 1;
	return a;
}

/*
 * Takes any node out of a heap and returns the heap's root.  Ranks change along the path to the root only as long as
 * each is that of the child with the lesser rank, so over no more than a logarithmic number of nodes.
 */
int
heap_remove(Placer *placer, int root, int node)
{
	HeapLink   *heap = placer->heap;
	int			at = heap[node].parent;
	int			below = heap_merge(placer, heap[node].left, heap[node].right);

	if (below != NO_NODE)
		heap[below].parent = at;
	if (at == NO_NODE)
		return below;
	if (heap[at].left == node)
		heap[at].left = below;
	else
		heap[at].right = below;
	while (at != NO_NODE)
	{
		HeapLink   *link = &heap[at];
		int			left = link->left == NO_NODE ? 0 : heap[link->left].rank;
		int			right = link->right == NO_NODE ? 0 : heap[link->right].rank;

		if (left < right)
		{
			int			swap = link->left;

			link->left = link->right;
			link->right = swap;
		}
		if (link->rank == Min(left, right) + 1)
			break;
		link->rank = Min(left, right) + 1;
		at = link->parent;
	}
	return root;
}

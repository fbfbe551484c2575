/*
 * search.h
 *
 * One search for victims, in one pool and on one instance type.  Internal to preempt.c, which takes victims in the
 * order wherever they are, and nodewise.c, which seeks them node by node where that did not lead to a set.
 */
#ifndef RPQ_CORE_SEARCH_H
#define RPQ_CORE_SEARCH_H

#include "core/preempt.h"

typedef struct Choice
{
	Placed	   *placed;
	PreemptRule rule;
	int			rank;			/* place in the order of the search */
} Choice;

/* A node as a search sees it. */
typedef struct SeenNode
{
	uint32		visit;			/* of Evictor: the search that has seen it */
	bool		open;			/* of the pool and type, takes work, is no target of others */
	int			whole;			/* devices that are entirely free */
	int64		times;			/* how many replicas fit, counted up to as many as there are */

	/* nodewise.c: times is then with all gone that may be taken */
	int64		base;			/* how many fit with those gone that are chosen */
	int			first;			/* link of the dearest on it that may be taken, -1: none */
	bool		pending;		/* to be looked at */
	bool		changed;		/* more than by what was listed last, since it was looked at in vain */
} SeenNode;

/* What all searches of a plan use, one after the other. */
typedef struct SearchSpace
{
	SeenNode   *seen;			/* [nnodes] */
	int			nvisited;
	int		   *visited;		/* [nnodes] */
	Size	   *saved_at;		/* [nnodes] */
	int64	   *saved;			/* of each visited node what was free, by key, then by device */
	int			maxchosen;
	Choice	   *chosen;
	VictimOrder order;
	int64	   *more;			/* [nkeys] */
	int64	   *used;			/* [nkeys]: of the pool's total, before */
	int64	   *scratch;		/* [npolicies] */
	struct NodeWise *nodewise;	/* nodewise.c; NULL until it is asked for */
} SearchSpace;

/* One search: a pool and an instance type. */
typedef struct Search
{
	Placer	   *placer;
	World	   *world;
	Evictor    *evictor;
	SearchSpace *space;
	const Candidate *candidate;
	bool		has_rank;
	bool		reserved;		/* in this pool reservations of others may be in the way */
	int			pool;
	int			type;
	int			type_slot;
	Room	   *room;
	int64		fitting;		/* how many replicas fit; when that is enough without victims, no more is counted */
	bool		passed_over;	/* somebody, for the reservation of its policy */
	bool		kept_back;		/* reservations alone were in the way: with fewer victims it might fit */
	int			nchosen;
} Search;

/* preempt.c */
extern void search_begin(Search *search);
extern Placed *search_next(Search *search, PreemptRule *rule);
extern int64 search_times(const Search *search, int node);
extern void search_visit(Search *search, int node);
extern void search_undo_nodes(Search *search);
extern void search_move_pod(Search *search, const Placed *placed, int pod, int sign);
extern void search_move(Search *search, const Placed *placed, int sign);
extern void search_count(Search *search, const Placed *placed, int sign);
extern bool search_fits(Search *search);
extern bool search_may_take(Search *search, const Placed *placed, PreemptRule rule);
extern void search_add(Search *search, const Choice *choice);

/* nodewise.c */
extern bool search_node_by_node(Search *search);

#endif							/* RPQ_CORE_SEARCH_H */

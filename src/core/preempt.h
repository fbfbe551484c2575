/*
 * preempt.h
 *
 * Whose room a workload may take, and taking it.  Internal to the core: the plan (order.c) asks for workloads that are
 * blocked by room.
 *
 * victims.c knows in which order victims are sought, preempt.c seeks the best set of them (with nodewise.c, see
 * search.h), vacate.c gives their room to the preemptor.
 */
#ifndef RPQ_CORE_PREEMPT_H
#define RPQ_CORE_PREEMPT_H

#include "core/admit.h"

/* A set of victims, all in one pool and on one instance type. */
typedef struct Victims
{
	int			pool;
	int			type;
	int			nvictims;
	Placed	  **victims;		/* [nvictims], in the order in which they were sought */
	PreemptRule *rules;			/* [nvictims] */
} Victims;

/* preempt.c */
extern bool preempt_find(Placer *placer, const Candidate *candidate, Victims *best);

/* vacate.c */
extern bool preempt_take(Placer *placer, const Candidate *candidate, const Victims *victims, Admission *admission);

/* ---- between these three files ---- */

/*
 * Placed workloads of one pool and type that stand alike in the order as far as it depends on the preemptor: what every
 * preemptor says of one of them, it says of all.
 */
typedef struct VictimGroup
{
	int			room;			/* index of the pool's type in placer->rooms */
	bool		borrowed;
	int			priority;
	int			policy;			/* -1: direct submissions */
	int			home;
	int			next;			/* group of the same room, -1: none */
	bool		sorted;
	int			gone;			/* those before have left in this plan */
	int			nplaced;
	Placed	  **placed;			/* [nplaced]; once sorted in the order in which they are sought */
	int64	   *room_sum;		/* [nkeys]: what all of them have */
	int64	   *least;			/* [nkeys]: the least that one of them has */
	uint32		spent;			/* VictimOrder.visit: none of them is sought any more */
} VictimGroup;

/* Where a victim stands in the order.  Between placed workloads of equal key their own figures decide. */
typedef struct VictimKey
{
	bool		borrowed;
	int			priority;
	bool		direct;
	int64		above;			/* its policy is above / per times what the preemptor asks for beyond its reservation */
	int64		per;
	const Placed *placed;
} VictimKey;

/* A personal quota, by whose it is. */
typedef struct AccountLimit
{
	int64		account_id;
	UsageLimit *limit;
} AccountLimit;

/* One pod on a node of a pool that keeps accounts apart. */
typedef struct Guest
{
	const Placed *placed;
	int			next;			/* guest of the same node, -1: none */
} Guest;

/*
 * What is placed, as preemptions look at it.  Made when the first of a plan is tried, and kept to the plan's end.
 */
typedef struct Evictor
{
	World	   *world;
	int			ngroups;
	VictimGroup *groups;
	int		   *first_group;	/* [nrooms], -1: none */
	int64	   *given;			/* [npolicies][nkeys]: what the victims chosen so far have; zero between searches */
	bool	   *chosen;			/* [nplaced]: likewise, where accounts are kept apart; those that left in this plan
								 * stay in it */
	uint32		visit;			/* counts searches */
	struct SearchSpace *space;	/* preempt.c; NULL until somebody searches */
	int			nguests;
	Guest	   *guests;
	int		   *first_guest;	/* [nnodes], -1: none; NULL: no pool keeps accounts apart */
	bool		limits_known;
	int			nlimits;
	AccountLimit *limits;		/* by account */
} Evictor;

/* The placed workloads that a preemptor may look for in a room, one after the other. */
typedef struct VictimSource
{
	VictimGroup *group;
	int			at;
	PreemptRule rule;
	VictimKey	key;			/* of the next; placed is NULL until somebody has to know it */
} VictimSource;

typedef struct VictimOrder
{
	int			nsources;
	VictimSource *sources;		/* a heap: the first is on top */
	uint32		visit;			/* of Evictor: the search */
	VictimGroup *last;			/* of the one that was returned last */
} VictimOrder;

/* victims.c */
extern Evictor *evictor_get(Placer *placer);
extern void victims_seek(const Evictor *evictor, const Candidate *candidate, bool has_rank, int pool, int room,
						 VictimOrder *order);
extern Placed *victims_next(VictimOrder *order, PreemptRule *rule);
extern void victim_key(const World *world, const Candidate *candidate, const Placed *placed, PreemptRule rule,
					   VictimKey *key);
extern int	victim_compare(const VictimKey *a, const VictimKey *b);

/* vacate.c */
extern void node_give(World *world, const Placed *placed, int pod, int sign);
extern int64 account_left(const Evictor *evictor, int node, bool slow_too);

static inline int
placed_index(const Evictor *evictor, const Placed *placed)
{
	return (int) (placed - evictor->world->placed);
}

/* What all pods of a placed workload have of a key. */
static inline int64
placed_total(const Placed *placed, int key)
{
	return placed->request[key] * placed->npods;
}

#endif							/* RPQ_CORE_PREEMPT_H */

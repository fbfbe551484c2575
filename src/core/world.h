/*
 * world.h
 *
 * What the core is given and what it returns: plan = f(world).
 *
 * The store fills a World from rows, the core decides, the store writes the CyclePlan to rows.  A dry run, an
 * explanation and a preview hand the core the same World and write nothing.  The core reads no table, no clock and no
 * setting: whatever a decision depends on is a field here.  The names keep clear of the server's own Node, Limit, Plan.
 *
 * Amounts are int64 multiples of 1/21000 of a unit (see resources.h).  A vector is an array of world->nkeys amounts,
 * one for each resource key that occurs anywhere in the world; key 0 is always "gpu", key 1 always "cpu".  Index fields
 * (pool, type, node) are positions in the World's arrays.
 */
#ifndef RPQ_CORE_WORLD_H
#define RPQ_CORE_WORLD_H

#include "datatype/timestamp.h"

#define RPQ_KEY_GPU		0
#define RPQ_KEY_CPU		1
#define RPQ_UNLIMITED	PG_INT64_MAX	/* in UsageLimit.max: the limit lacks the key */
#define RPQ_WHOLE_POOL	(-1)			/* in UsageLimit.type: all instance types together */
#define SEVERAL_ACCOUNTS (-1)			/* in PoolNode.account */

typedef struct World World;
typedef struct Lane Lane;

/* How a node is chosen among those that fit (placement.md). */
typedef enum SchedulingPolicy
{
	POLICY_BINPACK,
	POLICY_SPREAD
} SchedulingPolicy;

/* By which right room is taken from a workload (preemption.md), in the order in which victims are sought. */
typedef enum PreemptRule
{
	PREEMPT_BORROWED,			/* it borrows in an exclusive pool, whose own work comes */
	PREEMPT_RESERVATION,		/* its policy holds more than its reservation, the preemptor's less */
	PREEMPT_PRIORITY			/* lower priority, of the same policy; or both direct submissions to one pool */
} PreemptRule;

/*
 * Why a lane waits.  The names that people read are in reason_code_name(); checks are made in the order given here.
 */
typedef enum ReasonCode
{
	REASON_NONE,
	REASON_NOT_CONSIDERED,
	REASON_FENCED,
	REASON_POOL_NOT_READY,
	REASON_NOT_AUTHORIZED,
	REASON_POOL_FROZEN,
	REASON_WORKLOAD_TYPE,
	REASON_BACKING_OFF,
	REASON_USER_QUOTA,
	REASON_POLICY_LIMIT,
	REASON_RESERVED,
	REASON_POOL_QUOTA,
	REASON_NO_NODE_FITS,
	REASON_GANG_DOES_NOT_FIT,
	REASON_PREEMPTING,
	REASON_BEHIND
} ReasonCode;

typedef struct PoolNode
{
	int64		node_id;
	const char *name;
	int			pool;
	int			type;
	bool		takes_work;		/* healthy, schedulable, not draining */
	const char *why_not;		/* when it takes no work: "cordoned", "unhealthy", "draining" */
	int64		account;		/* in a pool that isolates accounts: whose pods (and holds) it has; 0: nobody's,
								 * SEVERAL_ACCOUNTS: of more than one.  Elsewhere 0 */
	int			ndevices;
	int64	   *device_free;	/* [ndevices]; RPQ_UNIT is an entirely free device, below 0: it is over, or lost */
	int64	   *free;			/* [nkeys]; after pods and holds, below 0 when over; gpu: the sum over devices of what
								 * is free on them */
	int64	   *capacity;		/* [nkeys] or NULL: unknown; explanations and targets read it */
	const char *lacks;			/* what its machine does not have at present; NULL: nothing; only for explanations */
} PoolNode;

typedef enum LimitKind
{
	LIMIT_USER,					/* personal quota */
	LIMIT_POLICY,				/* usage limit of a policy */
	LIMIT_POOL					/* what the pool holds */
} LimitKind;

/*
 * A bound on usage.  Whatever is admitted under it is added to used; a lane passes when used + its total is within max
 * in every key that max names.  A key that a pool's total lacks is zero there, not unlimited.
 */
typedef struct UsageLimit
{
	LimitKind	kind;
	int			pool;			/* -1: not bound to one pool (policy) */
	int			type;			/* RPQ_WHOLE_POOL, or the instance type that it is about */
	int64	   *max;			/* [nkeys] */
	int64	   *used;			/* [nkeys] */
} UsageLimit;

typedef struct PoolType
{
	int			type;
	SchedulingPolicy policy;
} PoolType;

typedef struct Pool
{
	int64		pool_id;
	const char *name;
	UsageLimit *total;			/* kind LIMIT_POOL */
	int64	   *unavailable;	/* [nkeys]; free on nodes that take nothing new */
	int			ntypes;
	PoolType   *types;			/* [ntypes]: instance types that the pool has nodes of */
	ReasonCode	closed;			/* REASON_NONE, REASON_POOL_NOT_READY or REASON_POOL_FROZEN */
	bool		exclusive;		/* its own work takes room back from what borrows in it */
	bool		pay_as_you_go;	/* nothing in it is ever preempted */
	bool		allow_guarantee;
	bool		best_effort;	/* queueing: nothing is kept back for what is blocked; else backfill */
	bool		isolate;		/* a node takes nothing of an account while it hosts another's */
} Pool;

typedef struct PodPlace
{
	int			node;			/* index in world->nodes */
	int			ndevices;
	int		   *devices;		/* [ndevices]; numbers of the devices taken, NULL when none */
} PodPlace;

/*
 * A policy that has a queue, or work, in this World.  Two figures of what it holds, since a preemption under way takes
 * time: limits never count room as free before it is, reservations count it as given from the decision on.
 */
typedef struct Policy
{
	int64		policy_id;
	const char *name;
	int64	   *reservation;	/* [nkeys]; zero in the keys that it does not name */
	int64	   *held;			/* [nkeys]: placed, less victims that have still to stop, plus room held for its own */
	UsageLimit *limit;			/* kind LIMIT_POLICY, of no pool; used: placed (victims that have still to stop too),
								 * plus room held.  NULL: no limit */
	bool		hold;			/* lending 'hold': others may not use the unmet part of the reservation */
	int			npools;
	int		   *pools;			/* [npools] that its queues reach; none: no profile is connected */
} Policy;

/*
 * A placed workload, as far as a preemption has to know it.  Loaded only when one is tried.
 */
typedef struct Placed
{
	int64		workload_id;
	int			attempt;
	int64		account_id;
	int			policy;			/* index in world->policies, -1: a direct submission */
	int			pool;			/* that has its nodes */
	int			home;			/* that it is charged to: another one than pool when it borrows */
	int			type;
	int			priority;
	bool		guarantee;
	bool		checkpointable;
	bool		leaving;		/* a victim already, or its attempt has ended: never chosen */
	bool		slow;			/* an executor has it, or its client keeps its row locked: its room is not free
								 * at once */
	TimestampTz submitted_at;
	TimestampTz started_at;
	TimestampTz immune_until;	/* started_at + the pool's min_runtime */
	const int64 *request;		/* [nkeys]; of one replica */
	int			npods;
	PodPlace   *pods;			/* [npods] */
	void	   *store;			/* the store's own */
} Placed;

/* Workloads that wait in one scope and are alike in everything that a decision depends on. */
struct Lane
{
	int64		scope_id;
	int64		shape;
	int64		account_id;
	int64		policy_id;		/* 0: a direct submission */
	int			policy;			/* index in world->policies, -1: a direct submission */
	int			priority;
	int			replicas;
	TimestampTz ends;			/* when it would have ended at the latest if it were admitted now; DT_NOEND: never */
	bool		guarantee;
	bool		checkpointable;
	int64	   *request;		/* [nkeys]; of one replica */
	bool	   *type_allowed;	/* [world->ntypes], NULL: any */
	int			npools;
	int		   *pools;			/* [npools]; routing order */
	int			nlenders;
	int		   *lenders;		/* [nlenders]: exclusive pools whose idle room it may borrow (idle-time sharing) */
	int			nlimits;
	UsageLimit **limits;		/* [nlimits]; of its own: personal quotas, or the limit of its policy */
	int64		waiting;
	TimestampTz head_at;		/* lower bound of (submitted_at, workload_id) of its members; moved by the core */
	int64		head_id;
	ReasonCode	own;			/* a standing reason: not authorised, type no longer supported, backing off */
	const char *until;			/* backing off: until when, as text; NULL: nobody said */
	bool		skip;			/* blocked before and nothing has changed since: keeps its reason, costs nothing */
	void	   *store;			/* the store's own */

	/* results */
	bool		considered;		/* decided by this plan: blocked (then it has a reason), or admitted to its end */
	struct Reason *reason;		/* NULL: not considered, or all of it was admitted */
};

/* One queued workload of a lane. */
typedef struct Member
{
	int64		workload_id;
	TimestampTz submitted_at;
	int			attempt;
} Member;

/*
 * A reason with its figures.  Of limits, wanted is the whole workload (all replicas); of placement, one replica.  A key
 * counts where wanted is positive and available is not RPQ_UNLIMITED (which means: nothing bounds this key here);
 * world_resources() turns a vector into a value with just these keys.
 */
typedef struct Reason
{
	ReasonCode	code;
	int			pool;			/* -1 when it names none */
	int			type;			/* -1 when it names none */
	int64	   *wanted;			/* [nkeys] or NULL: what was asked for against the bound */
	int64	   *available;		/* [nkeys] or NULL: what was left of it */
	int64	   *missing;		/* [nkeys] or NULL: of limits, by how much they would have to be larger */
	int64	   *largest;		/* [nkeys] or NULL: by key, the most that one node has free; of gpu what one replica
								 * could have there: devices entirely free, or for a part what is left of a device */
	int64	   *unavailable;	/* [nkeys] or NULL: free on nodes that take nothing new, or host other accounts */
	char	   *why_unavailable;	/* with unavailable: "2 nodes cordoned, 1 node hosts other accounts" */
	bool		others;			/* some of unavailable is on nodes that host other accounts */
	int			fitting;		/* gang: how many of the replicas would fit */
	int			replicas;
	bool		some_types;		/* the figures are those of the instance types that the workload allows */
	bool		guarantee;		/* it waits because it is guaranteed, or cannot be preempted */
	int64		ahead;			/* behind: workload id of the one that is ahead */
	const char *until;			/* backing off: until when; NULL: not known */
	char	   *held_on;		/* preempting: names of the nodes on which room is held */
	int			nvictims;		/* preempting: of so many workloads */
	int			npending;		/* these have still to stop */
} Reason;

typedef struct Admission
{
	Lane	   *lane;
	Member		member;
	int			pool;			/* that has its nodes */
	int			home;			/* that it is charged to: another one than pool when it borrows */
	int			type;
	int			npods;
	PodPlace   *pods;			/* [npods], by replica */
} Admission;

/*
 * Room that former plans have held for a workload whose victims had still to stop.  In the world, what a hold takes is
 * not free, and neither is what its victims still have.  It counts in the limits of its lane, and in the pool's total
 * as far as it is more than what its pending victims still count there.
 */
typedef struct RoomHold
{
	Lane	   *lane;			/* NULL: its workload no longer waits, or waits elsewhere */
	Member		member;			/* not among those that read_members returns */
	int			pool;
	int			type;
	int			npods;
	PodPlace   *pods;			/* [npods]; a node of -1 is no longer there */
	int			nvictims;
	int			npending;		/* of them, those that have still to stop */
	bool		by_right;		/* a pending victim was chosen by the rule borrowed */
	bool		by_reservation; /* one was chosen by the rule reservation */
	int			by_priority;	/* the highest priority of those chosen by the rule priority, -1: none */
	void	   *store;			/* the store's own */

	/* result; when neither, it is kept */
	bool		admitted;		/* plan->admissions has it */
	bool		given_up;		/* its room is free from the next plan on */
} RoomHold;

/* A node when all of its pods that have a max_runtime have left. */
typedef struct NodeLater
{
	TimestampTz last;			/* when the last of them ends at the latest */
	int64	   *free;			/* [nkeys]; NULL: none has one */
	int64	   *device_free;	/* [ndevices] */
} NodeLater;

/* A victim of this plan. */
typedef struct Preemption
{
	Placed	   *victim;
	PreemptRule rule;
	int			rank;			/* place among the victims of its preemptor, from 1: the order in which they were
								 * sought */
	Lane	   *lane;			/* the preemptor's */
	Member		member;			/* the preemptor */
} Preemption;

struct World
{
	int			nkeys;
	const char **keys;			/* [nkeys] */
	int			ntypes;
	const char **types;			/* [ntypes]; names of instance types */
	int			npools;
	Pool	   *pools;
	int			nnodes;
	PoolNode   *nodes;			/* ordered by name, bytewise */
	int			nlanes;
	Lane	   *lanes;
	int			npolicies;
	Policy	   *policies;
	int			nholds;
	RoomHold   *holds;
	int			nplaced;
	Placed	   *placed;			/* after load_placed */
	TimestampTz now;
	int			batch;			/* most admissions of this plan */

	/*
	 * Members of a lane in order, from the lane's head on.  Returns how many were put into out (fewer than want only
	 * at the lane's end).  after is NULL for the first call, else the last member returned before.
	 *
	 * The core moves head_at and head_id to the first member that it did not admit.  If the store passed over members
	 * that cannot be had now, it keeps the old head itself.
	 */
	int			(*read_members) (World *world, Lane *lane, const Member *after, int want, Member *out);

	/*
	 * Fills in placed and nplaced, of all pools of the world, in any order.  Called once at most, and only when some
	 * workload that is blocked by room is entitled to take it from others.  NULL: nothing can be preempted.
	 */
	void		(*load_placed) (World *world);

	/*
	 * The victims are chosen: takes their rows, so that the plan can be carried out, and sets slow where that needs
	 * time.  NULL in a dry run: nobody's row is asked for.
	 */
	void		(*take_victims) (World *world, Placed **victims, int nvictims);

	/* When the first of the pods on each of some nodes ends at the latest; DT_NOEND where none has a max_runtime. */
	void		(*read_ends) (World *world, const int *nodes, int nnodes, TimestampTz *ends);

	/* What some nodes are like when all pods that have a max_runtime have left.  NULL: as if none had one. */
	void		(*read_later) (World *world, const int *nodes, int nnodes, NodeLater *later);
	void	   *store;			/* the store's own */
};

typedef struct CyclePlan
{
	int			nadmissions;
	Admission  *admissions;		/* in the order in which they were decided */
	int			npreemptions;
	Preemption *preemptions;	/* likewise; the victims of one preemptor follow each other */
	int			nheld;
	Admission  *held;			/* room to be held for preemptors of which some victim is slow */
	bool		more;			/* cut off by the batch: more is admissible at once */
} CyclePlan;

/* order.c: the decision.  Nodes and limits of the world are counted down as it admits. */
extern CyclePlan *plan_world(World *world);

/* reason.c */
extern const char *reason_code_name(ReasonCode code);
extern char *reason_sentence(const World *world, const Reason *reason);
extern struct Resources *world_resources(const World *world, const int64 *vector, const int64 *wanted,
										 const int64 *available);

/*
 * explain.c: every check that applies to the first member of a lane (by its place among the world's lanes), passed or
 * not, on the present world, which it leaves as it was.
 */
typedef struct Check
{
	ReasonCode	code;
	int			pool;			/* -1: of no one pool */
	int			type;			/* -1: of no one instance type */
	bool		passed;
	bool		never;			/* not passed, and no end of running work would change that */
	int64	   *wanted;			/* [nkeys] or NULL */
	int64	   *available;		/* [nkeys] or NULL */
	const char *detail;
	const char *way_out;		/* NULL when passed */
	int			node;			/* the node that the way out says needs least, or -1 */
} Check;

extern int	explain_lane(World *world, int lane, Check **checks);

/* A placed pod that is to leave its node. */
typedef struct Move
{
	int64		workload_id;
	int			replica;
	int64		account_id;
	const int64 *request;		/* [nkeys] */
	int			from;			/* index in world->nodes */
	int			wanted;			/* the node that it goes to when it still fits there, or -1 */
	void	   *store;			/* the store's own */
	PodPlace	place;			/* result; node -1: no node takes it */
} Move;

/* evacuate.c: where pods go that leave their nodes.  Counts the world's nodes down: it serves no second plan. */
extern int	plan_moves(World *world, Move *moves, int nmoves);

#endif							/* RPQ_CORE_WORLD_H */

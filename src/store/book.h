/*
 * book.h
 *
 * Everything that a cycle knows: the turns of its scopes, the entries that it counts, and the World that it makes of
 * the rows.  log.c fills the first half, load_world.c the second, apply_plan.c writes both back; a dry run and an
 * explanation fill a Book and write nothing.
 *
 * All rows are read at book->snapshot.  While the turns are held nobody else writes lane, usage, node_load, pod and
 * hold of these scopes, and no administrator changes what the World is made of.
 */
#ifndef RPQ_STORE_BOOK_H
#define RPQ_STORE_BOOK_H

#include "access/transam.h"
#include "storage/itemptr.h"
#include "utils/hsearch.h"
#include "utils/snapshot.h"

#include "core/resources.h"
#include "core/world.h"

typedef struct Scope Scope;

/* A scope with its turn, and the pool or the queue that it is. */
struct Scope
{
	int64		scope_id;
	Datum		seen;			/* with own_xid and own_entry the cursor: see log.c */
	uint64		own_xid;
	int64		own_entry;
	int64		cycle;
	int64		room_epoch;
	TimestampTz last_at;
	const char *name;
	bool		deleted;		/* what arrives becomes a draft; of a queue: or its policy is */
	int			set;			/* index in book->sets */

	/* a pool */
	int			pool;			/* index in world->pools; -1: a queue */
	int64		tenant_id;
	int64		cluster_id;
	const char *kind;
	const char *type;
	const char *status;
	bool		frozen;
	bool		pay_as_you_go;
	bool		allow_guarantee;
	bool		best_effort;
	bool		lends;			/* exclusive, with idle-time sharing, and nothing has still to leave it */
	const char *policy;
	bool		isolate;		/* a node hosts pods of one account at a time */
	Resources  *default_quota;	/* NULL: none */
	char	  **workload_types; /* NULL: all */
	int			nworkload_types;

	/* a queue */
	int64		policy_id;		/* 0: a pool, or there is no such queue at the snapshot */
	int64		profile_id;
	int			nroute;
	Scope	  **route;			/* [nroute] the pools that its profile names, of those in the Book, in routing order */

	bool		room_freed;		/* entries that free room were counted */
	bool		changed;		/* something of this scope is to be written */

	/* the turn's row as this transaction leaves it */
	uint64		left_xid;
	int64		left_cycle;
	int64		left_epoch;
};

/* Scopes that are tied (sets.c). */
typedef struct BookSet
{
	int64		first;			/* its least scope */
	int			nscopes;
	int64		epoch;			/* of its lanes: of one scope the room epoch, else a hash of all ids and room epochs */
} BookSet;

/* One cell of the usage cube. */
typedef struct CellKey
{
	int64		pool_id;
	int64		type_id;
	int64		account_id;
	int64		policy_id;		/* 0: a direct submission */
	int64		lender_id;		/* 0: it is in pool_id itself, else it borrows room of this pool */
} CellKey;

typedef struct Cell
{
	CellKey		key;
	Resources  *amount;			/* as stored, NULL when there is no row; then as it will be */
	Resources  *kept_amount;	/* keep.c's own */
	ItemPointerData place;		/* of the row, as far as known: place.c */
	bool		exists;
	bool		changed;
} Cell;

typedef struct LaneKey
{
	int64		scope_id;
	int64		shape;
} LaneKey;

/* What entries, and then the plan, do to a lane. */
typedef struct LaneRow
{
	LaneKey		key;
	ItemPointerData place;		/* of the row, as far as known */
	bool		exists;			/* there is a row */
	bool		changed;
	int64		waiting;		/* of the row, plus what was counted */
	bool		has_head;
	TimestampTz head_at;
	int64		head_id;
	int64		blocked_at_epoch;	/* of its set, when it was blocked; 0: it was not */
	bool		considered;
	const char *reason_code;	/* NULL: none */
	const char *reason;
	char	   *kept_reason;	/* keep.c's own */
	bool		was_read;		/* members were read, so the head is looked up anew */

	/* the shape; loaded with the row, or from a member for a new lane */
	bool		has_shape;
	int64		account_id;
	int			priority;
	bool		guarantee;
	bool		checkpointable;
	int			replicas;
	const char *workload_type;
	Resources  *resources;
	int64	   *instance_types;
	int			ninstance_types;	/* -1: any */
	Datum		types_array;	/* the same as bigint[]; 0 when any */
	Datum		max_runtime;	/* interval; 0 when none */
	TimestampTz not_before;
	bool		has_not_before;
} LaneRow;

/* An attempt whose end was counted: its pods give back what they hold. */
typedef struct Freed
{
	int64		workload_id;
	int			attempt;
	int64		pool_id;
	int64		account_id;
	Resources  *total;			/* negative, as in the entry */
} Freed;

typedef struct FreedPod
{
	int64		pod_id;
	int64		node_id;
	int			ndevices;
	int		   *devices;
	int64		account_id;
	Resources  *amount;			/* of this pod, positive */
	bool		stopping;		/* an executor has it still: its room is held */
} FreedPod;

/* A node's row beside world->nodes[i]. */
typedef struct NodeRow
{
	int64		node_id;
	int64		pool_id;
	int64		type_id;
	const char *name;
	bool		takes_work;
	const char *why_not;
	Resources  *capacity;
	Resources  *usable;
	Resources  *used;
	Resources  *kept_used;		/* keep.c's own */
	int			nparts;
	int64	   *parts;
	int			pods;
	int64		account;		/* whose pods these are: as in PoolNode, or UNKNOWN_ACCOUNT */
	ItemPointerData place;		/* of the row of node_load, as far as known */
	bool		changed;
} NodeRow;

#define UNKNOWN_ACCOUNT	(-2)	/* in NodeRow.account: not looked up, since nothing depends on it yet */

typedef struct Kept Kept;
typedef struct Policies Policies;

/* A queue as it was read, beside its scope. */
typedef struct QueueRow
{
	int64		policy_id;
	int64		profile_id;
	const char *name;
	bool		deleted;
	int			nroute;
	int		   *route;			/* [nroute]; positions in book->scopes */
} QueueRow;

typedef struct Book
{
	Snapshot	snapshot;
	Datum		seen;			/* the same as pg_snapshot: the cursor to be */
	bool		act;			/* the turns are held: rows may be locked and written */
	TimestampTz now;			/* no earlier than anything that was counted */

	bool		keep;			/* cycles follow each other in this session: keep the balances for the next */
	MemoryContext context;		/* of the balances' rows, which may outlive the cycle */
	Kept	   *kept;			/* NULL: they do not */
	bool		from_kept;		/* usage, lanes and nodes are those that the last cycle left */

	int			nscopes;
	Scope	   *scopes;			/* by id */
	int			nsets;
	BookSet    *sets;
	QueueRow   *queues;			/* [nscopes], of those that are queues; NULL: there is none */
	Policies   *policies;		/* load_policies.c */
	int			npools;			/* of the scopes; as many as world->npools */
	Scope	  **pools;			/* [npools]; parallel to world->pools */
	HTAB	   *cells;
	HTAB	   *lanes;
	int			nfreed;
	Freed	   *freed;
	int			nfreed_pods;
	FreedPod   *freed_pods;
	int64		nentries;

	/* reports.c */
	int			nreported;
	int64	   *reported;		/* workloads of whose pods executors said something */
	int			nunsettled;
	int64	   *unsettled;		/* those of them that the next cycle has to look at again */
	bool		freed_reported; /* something was reported of a pod that is freed */
	struct Evictions *evictions;	/* evictions.c; NULL: not looked at */

	int			nkeys;
	int			maxkeys;
	const char **keys;

	int			ntypes;
	int64	   *type_ids;
	const char **type_names;

	int			nnodes;
	NodeRow    *nodes;			/* by name; parallel to world->nodes */
	bool		all_nodes;		/* false: only those that lose pods were loaded */

	void	   *accounts;		/* load_limits.c: rights and quotas, while the World is made */
	World	   *world;			/* NULL: nothing to decide */
	LaneRow   **lane_rows;		/* parallel to world->lanes */
	int64		nset_aside;
	int64	   *set_aside;		/* workloads whose row is not of their lane's shape */
} Book;

/* load_turns.c */
extern void book_load_turns(Book *book, const int64 *scopes, int n);
extern Scope *book_scope(Book *book, int64 scope_id);
extern Scope *book_pool(Book *book, int64 pool_id);
extern void book_count_epochs(Book *book);
extern int64 book_epoch(const Book *book, const Scope *scope);
extern Datum book_scope_ids(const Book *book);

/* log.c */
extern void book_init_tables(Book *book);
extern void book_read_entries(Book *book);
extern void book_free_pods(Book *book);
extern Cell *book_cell(Book *book, int64 pool_id, int64 type_id, int64 account_id, int64 policy_id, int64 lender_id);
extern LaneRow *book_lane(Book *book, int64 scope_id, int64 shape);

/* load_policies.c */
extern void book_load_queues(Book *book);

/* load_world.c, load_nodes.c */
extern int	book_key(Book *book, const char *key, int len);
extern void book_intern(Book *book, const Resources *r);
extern int64 *book_vector(Book *book, const Resources *r, int64 absent);
extern void book_add(Book *book, int64 *vector, const Resources *r);
extern Resources *book_resources(Book *book, const int64 *vector);
extern int	book_type(Book *book, int64 type_id);
extern void book_load_usage(Book *book);
extern void book_load_lanes(Book *book);
extern void book_take_lane(LaneRow *lane, uint64 row);
extern bool book_has_work(Book *book);
extern void book_load_nodes(Book *book, bool all);
extern void book_build_world(Book *book, int batch);

/* apply_plan.c */
extern void book_apply(Book *book, CyclePlan *plan);

#endif							/* RPQ_STORE_BOOK_H */

/*
 * evictions.h
 *
 * Preemptions under way: victims that have still to stop, and the room that is held meanwhile.  evictions.c settles
 * them, load_evictions.c makes a World of them, eviction_rows.c writes what a plan decides.
 */
#ifndef RPQ_STORE_EVICTIONS_H
#define RPQ_STORE_EVICTIONS_H

#include "store/book.h"

/* Entries that were written before the Book is used, by their key: they are counted with those that it reads. */
typedef struct EntryList
{
	int			n;
	int64	   *workloads;
	int64	   *entries;
} EntryList;

/* A victim that has still to stop. */
typedef struct Pending
{
	int64		preemption_id;
	int64		preemptor;		/* 0: nobody's, its pool no longer lends or its node is to be emptied */
	int64		pool_id;
	int64		policy_id;		/* that the victim is charged to; 0: a direct submission */
	PreemptRule rule;
	int			priority;		/* of the victim */
	int			nvictims;		/* of the same decision */
	bool		placed;			/* the attempt has not ended */
	bool		has_room;		/* a pod of it is there, or an executor has one still */
	Resources  *each;			/* of one pod */
	int			replicas;
} Pending;

/* One pod of a victim, or one that is held for a preemptor. */
typedef struct ClaimedPod
{
	int64		preemptor;
	int64		node_id;
	const Resources *amount;
	int			ndevices;
	int		   *devices;
} ClaimedPod;

/* The rows of hold of one preemptor, with its own. */
typedef struct HeldRoom
{
	int64		workload_id;
	int64		pool_id;
	int64		lane_scope;
	int64		lane_shape;
	int64		account_id;
	TimestampTz submitted_at;
	int			attempt;
	bool		waits;			/* for what the hold was made for */
	bool		locked;			/* its client keeps its row locked, or has just changed it */
	Resources  *each;			/* of one pod */
	int			npods;
	ClaimedPod *pods;			/* [npods], by replica */
} HeldRoom;

typedef struct Evictions
{
	bool		any;			/* victims are pending in these scopes */
	bool		loaded;
	int			npending;
	Pending    *pending;		/* by preemption_id */
	int			nheld;
	HeldRoom   *held;			/* by workload_id */
	int			nroom;
	ClaimedPod *room;			/* [nroom]: pods of pending victims */

	/* of what this cycle has settled */
	int			nover;
	int64	   *over;			/* [nover]: victims whose grace is over */
	int			nlapsed;
	int64	   *lapsed;			/* [nlapsed]: of them, those whose row a client keeps locked */
	int32	   *lapsed_attempts;
} Evictions;

/*
 * What has become of victims, before the Book is used: attempts of those that are no longer reported, or whose time is
 * over, end; what is held for one that no longer waits for it is given up.  Adds the entries that it wrote to the list
 * of reports_settle.
 */
extern void evictions_settle(Book *book, EntryList *entries);

/* After the pods to be freed were found: those of victims that lose them though a client keeps their row locked. */
extern void evictions_free_pods(Book *book);

/* Victims whose grace is over, as bigint[]: no room is kept for what executors have of them. */
extern Datum evictions_over(Book *book);

extern void entry_list_add(EntryList *list, int64 workload_id, int64 entry_id);

extern Evictions *evictions_of(Book *book);
extern Evictions *evictions_load(Book *book);
extern int *evictions_devices(uint64 row, int column, int *n);

/* What is held for preemptors is not free, beyond what their victims still have. */
extern void evictions_take_room(Book *book, World *world);

/* world->holds, and what policies hold on account of preemptions; after lanes, nodes and policies were made. */
extern void evictions_build(Book *book, World *world);

/* Is room held for it?  Then it is no member of its lane. */
extern bool evictions_has_room(Book *book, int64 workload_id);

/* eviction_rows.c: before admissions are written, and after the lanes were settled. */
extern void evictions_write(Book *book, CyclePlan *plan);
extern void evictions_write_rest(Book *book, CyclePlan *plan);

#endif							/* RPQ_STORE_EVICTIONS_H */

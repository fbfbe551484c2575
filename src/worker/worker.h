/*
 * worker.h
 *
 * What the parts of the worker share with each other, and, in the first section, what the rest of the library calls.
 * The protocol of the shared memory is told at the top of slots.c.
 */
#ifndef RPQ_WORKER_H
#define RPQ_WORKER_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/lwlock.h"

/* ---- for the rest of the library ---- */

/* In _PG_init: the first only while shared_preload_libraries is processed, the second always. */
extern void rpq_worker_init(void);
extern void rpq_wake_init(void);

/*
 * Whoever wrote something that a cycle should see soon: the worker is woken when, and if, this transaction commits.
 * The second says that it is about this scope and nothing else; after the first the worker looks at all of them.
 */
extern void rpq_wake_at_commit(void);
extern void rpq_wake_for(int64 scope_id);

/*
 * For the worker: a bit for each remainder of a scope's id by RPQ_TOUCHED_BITS that somebody has woken it for since it
 * asked last.  False: it has to look at all scopes.
 */
#define RPQ_TOUCHED_BITS	4096
#define RPQ_TOUCHED_WORDS	(RPQ_TOUCHED_BITS / 64)
extern bool rpq_take_touched(uint64 *words);

/* Raises 55000 with the way out when the library was not preloaded, for a call that makes no sense without a worker. */
extern void rpq_require_worker(void);

/* True in the process that is a worker. */
extern bool rpq_am_worker;

/* ---- within the worker ---- */

#define RPQ_ERROR_LENGTH	256
#define RPQ_NO_PROC			PG_UINT32_MAX
#define RPQ_HOLD_MS			10000	/* a held database is left alone for this long at most */
#define RPQ_START_LIMIT_MS	30000	/* a worker that was asked for and has not appeared by then is given up */

typedef enum RpqSlotPhase
{
	RPQ_SLOT_FREE,				/* no database */
	RPQ_SLOT_STARTING,			/* the launcher has asked the postmaster for a worker */
	RPQ_SLOT_LIVE,				/* a worker has claimed it */
	RPQ_SLOT_EXITED,			/* the worker is gone, the launcher has not looked yet */
	RPQ_SLOT_KEPT				/* no worker; kept for rpq.workers, a hold or a poke, and may be given away */
} RpqSlotPhase;

typedef enum RpqWorkerState
{
	RPQ_WORKER_RUNNING,
	RPQ_WORKER_PAUSED,
	RPQ_WORKER_WAITING
} RpqWorkerState;

typedef struct RpqWorkerSlot
{
	/* read and written without the lock, by wakers and the worker */
	pg_atomic_uint32 dboid;
	pg_atomic_uint32 procno;	/* of the worker; RPQ_NO_PROC when there is none */
	pg_atomic_uint32 dirty;		/* something was committed since the last cycle began */
	pg_atomic_uint32 touched_all;	/* and it may be in any scope */
	pg_atomic_uint64 touched[RPQ_TOUCHED_WORDS];	/* or in scopes with these bits; set before dirty */

	/* under the lock */
	RpqSlotPhase phase;
	uint32		generation;		/* counts the workers asked for; one that brings an older number leaves */
	int64		phase_since;	/* ms, rpq_monotonic_ms() */
	int64		held_until;		/* ms; no worker before */
	bool		poked;			/* something says that a worker is worth a try, whatever the last one found */
	int			pid;
	bool		served;			/* the worker in question has ended a cycle */
	bool		absent;			/* the worker in question left because the extension is not there */

	/* for rpq.workers, under the lock */
	RpqWorkerState state;
	TimestampTz started_at;		/* 0: no worker ever */
	TimestampTz last_cycle;
	TimestampTz last_error_at;
	int64		cycles;
	char		last_error[RPQ_ERROR_LENGTH];
} RpqWorkerSlot;

typedef struct RpqWorkerShared
{
	LWLock	   *lock;
	pg_atomic_uint32 launcher;	/* its place among the processes, or RPQ_NO_PROC */
	bool		poke_all;		/* a poke found no slot: the launcher forgets every absence */
	int			nslots;
	RpqWorkerSlot slots[FLEXIBLE_ARRAY_MEMBER];
} RpqWorkerShared;

/* NULL when the library was not preloaded */
extern RpqWorkerShared *rpq_worker_shared;

/* slots.c */
extern void rpq_slots_init(void);
extern int	rpq_slot_find(Oid dboid);
extern int	rpq_slot_take(Oid dboid);
extern void rpq_slot_set_phase(RpqWorkerSlot *slot, RpqSlotPhase phase);
extern bool rpq_slot_claim(int index, uint32 generation, Oid dboid);
extern void rpq_slot_report_cycle(int index, RpqWorkerState state, bool counted);
extern void rpq_slot_report_error(int index, RpqWorkerState state, const char *message);
extern void rpq_slot_report_absent(int index);
extern int	rpq_hold_database(Oid dboid);
extern void rpq_unhold_database(Oid dboid);
extern void rpq_poke_database(Oid dboid);
extern void rpq_wake_launcher(void);

/* wake.c */
extern void rpq_unhold_at_end(Oid dboid);
extern void rpq_poke_at_commit(Oid dboid);

/* guard.c */
extern void rpq_guard_init(void);

/* entry points of the two kinds of process */
extern PGDLLEXPORT void rpq_launcher_main(Datum arg);
extern PGDLLEXPORT void rpq_worker_main(Datum arg);

/* A clock that never jumps, comparable between the processes of a machine. */
static inline int64
rpq_monotonic_ms(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MILLISEC(now);
}

#endif							/* RPQ_WORKER_H */

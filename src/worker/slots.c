/*
 * slots.c
 *
 * The shared memory of launcher, workers, wakers and guard, and what rpq.workers shows of it.  Writes no table.
 *
 * The protocol
 *
 * There is an array of slots, one for a database, as many as max_worker_processes allows workers.  One lock guards it
 * all, except for the atomic fields of a slot (see "Wake").  The lock is held for copies only, never over a wait.
 *
 * Life of a slot.  The launcher gives a slot to a database and makes it STARTING, with a new generation, before it
 * asks the postmaster for a worker.  The worker brings the generation along and claims the slot (LIVE); it leaves at
 * once if the generation has moved on or the database is held.  Whatever way it goes, its exit callback makes the slot
 * EXITED and sets the launcher's latch.  The launcher takes note of how it went and makes the slot KEPT.  Only FREE and
 * KEPT slots that are neither held nor poked are given to another database, so a slot with a process behind it
 * belongs to its database.  A STARTING slot whose worker does not show up within RPQ_START_LIMIT_MS is taken back by
 * moving the generation on.  A launcher that is started anew finds the workers of its predecessor in the slots.
 *
 * Hold.  Commands that need the database for themselves hold it: held_until keeps the launcher away, a STARTING worker
 * is called off by the generation, a LIVE one gets SIGTERM.  A hold ends with the transaction of the command; in case
 * that this is missed, by itself after RPQ_HOLD_MS, so a command that fails never costs a database its worker.
 *
 * Poke.  A transaction that creates the extension pokes its database when it commits: poked makes the launcher try a
 * worker although the last one found nothing.  It is reset when a worker is asked for, so one that leaves because it
 * looked too early is followed by another.
 *
 * Wake.  A waker looks for the slot of its database by the atomic dboid, sets dirty, and if it was clear sets the latch
 * of the process whose number stands in procno.  All this happens without the lock: the latch lives in the process
 * array for good, so a number that has just become stale wakes a stranger, who looks around and goes on.  The worker
 * clears dirty before it starts a cycle, and a waker sets it after its transaction has become visible; so either the
 * cycle sees the transaction, or the flag is set after it was cleared and the latch with it.  What the transaction was
 * about is said before dirty is set, and read and cleared after dirty was cleared; so it is never said in vain.
 *
 * After a crash the postmaster calls the start-up hook again, and everything begins from nothing.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "compat.h"
#include "rpq.h"
#include "worker/worker.h"

#define TRANCHE_NAME "rpq"

PG_FUNCTION_INFO_V1(rpq_worker_status);
PG_FUNCTION_INFO_V1(rpq_require_worker_sql);

RpqWorkerShared *rpq_worker_shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* what this process has claimed, for its exit callback */
static int	claimed_slot = -1;
static uint32 claimed_generation = 0;

static int
slot_count(void)
{
	return Max(max_worker_processes, 8);
}

static Size
shared_size(void)
{
	return add_size(offsetof(RpqWorkerShared, slots), mul_size(slot_count(), sizeof(RpqWorkerSlot)));
}

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche(TRANCHE_NAME, 1);
}

static void
start_shared_memory(void)
{
	bool		found;
	int			i;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	rpq_worker_shared = NULL;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	rpq_worker_shared = ShmemInitStruct("rpq workers", shared_size(), &found);
	if (!found)
	{
		memset(rpq_worker_shared, 0, shared_size());
		rpq_worker_shared->lock = &GetNamedLWLockTranche(TRANCHE_NAME)->lock;
		rpq_worker_shared->nslots = slot_count();
		pg_atomic_init_u32(&rpq_worker_shared->launcher, RPQ_NO_PROC);
		for (i = 0; i < rpq_worker_shared->nslots; i++)
		{
			RpqWorkerSlot *slot = &rpq_worker_shared->slots[i];

			pg_atomic_init_u32(&slot->dboid, InvalidOid);
			pg_atomic_init_u32(&slot->procno, RPQ_NO_PROC);
			pg_atomic_init_u32(&slot->dirty, 0);
			pg_atomic_init_u32(&slot->touched_all, 0);
			for (int word = 0; word < RPQ_TOUCHED_WORDS; word++)
				pg_atomic_init_u64(&slot->touched[word], 0);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
rpq_slots_init(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared_memory;
}

/* The slot of a database, or -1.  Without the lock the answer is only a hint. */
int
rpq_slot_find(Oid dboid)
{
	int			i;

	for (i = 0; i < rpq_worker_shared->nslots; i++)
	{
		if (pg_atomic_read_u32(&rpq_worker_shared->slots[i].dboid) == dboid)
			return i;
	}
	return -1;
}

void
rpq_slot_set_phase(RpqWorkerSlot *slot, RpqSlotPhase phase)
{
	slot->phase = phase;
	slot->phase_since = rpq_monotonic_ms();
}

/* Of two slots that may be given away, the one that says less. */
static bool
better_to_give(const RpqWorkerSlot *a, const RpqWorkerSlot *b)
{
	if ((a->phase == RPQ_SLOT_FREE) != (b->phase == RPQ_SLOT_FREE))
		return a->phase == RPQ_SLOT_FREE;
	if (a->absent != b->absent)
		return a->absent;
	return a->phase_since < b->phase_since;
}

/*
 * The slot of a database, made from one that may be given away if there is none yet; -1 when all are in use.  The
 * caller holds the lock exclusively.
 */
int
rpq_slot_take(Oid dboid)
{
	int64		now = rpq_monotonic_ms();
	int			best = rpq_slot_find(dboid);
	RpqWorkerSlot *slot;
	uint32		generation;
	int			i;

	if (best >= 0)
		return best;

	for (i = 0; i < rpq_worker_shared->nslots; i++)
	{
		slot = &rpq_worker_shared->slots[i];
		if (slot->phase != RPQ_SLOT_FREE &&
			(slot->phase != RPQ_SLOT_KEPT || slot->poked || slot->held_until > now))
			continue;
		if (best < 0 || better_to_give(slot, &rpq_worker_shared->slots[best]))
			best = i;
	}
	if (best < 0)
		return -1;

	slot = &rpq_worker_shared->slots[best];
	generation = slot->generation;
	pg_atomic_write_u32(&slot->dboid, InvalidOid);
	pg_atomic_write_u32(&slot->procno, RPQ_NO_PROC);
	pg_atomic_write_u32(&slot->dirty, 0);
	memset((char *) slot + offsetof(RpqWorkerSlot, phase), 0, sizeof(*slot) - offsetof(RpqWorkerSlot, phase));
	slot->generation = generation + 1;
	rpq_slot_set_phase(slot, RPQ_SLOT_KEPT);
	pg_atomic_write_u32(&slot->dboid, dboid);
	return best;
}

/* Exit callback of a worker: runs after its transaction was aborted and its locks were released. */
static void
release_slot(int code, Datum arg)
{
	RpqWorkerSlot *slot;

	if (claimed_slot < 0 || rpq_worker_shared == NULL)
		return;
	slot = &rpq_worker_shared->slots[claimed_slot];
	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	if (slot->generation == claimed_generation)
	{
		pg_atomic_write_u32(&slot->procno, RPQ_NO_PROC);
		slot->pid = 0;
		rpq_slot_set_phase(slot, RPQ_SLOT_EXITED);
	}
	LWLockRelease(rpq_worker_shared->lock);
	claimed_slot = -1;
	rpq_wake_launcher();
}

/* A new worker takes its place; false if it is not wanted any more. */
bool
rpq_slot_claim(int index, uint32 generation, Oid dboid)
{
	RpqWorkerSlot *slot;
	bool		wanted;

	if (rpq_worker_shared == NULL || index < 0 || index >= rpq_worker_shared->nslots)
		return false;
	before_shmem_exit(release_slot, (Datum) 0);

	slot = &rpq_worker_shared->slots[index];
	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	wanted = slot->generation == generation && slot->phase == RPQ_SLOT_STARTING &&
		pg_atomic_read_u32(&slot->dboid) == dboid;
	if (wanted)
	{
		claimed_slot = index;
		claimed_generation = generation;
		slot->pid = MyProcPid;
		slot->served = false;
		slot->absent = false;
		slot->state = RPQ_WORKER_WAITING;
		slot->started_at = GetCurrentTimestamp();
		pg_atomic_write_u32(&slot->procno, (uint32) rpq_my_proc_number());
		rpq_slot_set_phase(slot, RPQ_SLOT_LIVE);
	}
	LWLockRelease(rpq_worker_shared->lock);
	return wanted;
}

/* A cycle has ended without an error; counted unless it had no reason to do anything. */
void
rpq_slot_report_cycle(int index, RpqWorkerState state, bool counted)
{
	RpqWorkerSlot *slot = &rpq_worker_shared->slots[index];
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	slot->state = state;
	slot->served = true;
	if (counted)
	{
		slot->cycles++;
		slot->last_cycle = now;
	}
	LWLockRelease(rpq_worker_shared->lock);
}

void
rpq_slot_report_error(int index, RpqWorkerState state, const char *message)
{
	RpqWorkerSlot *slot = &rpq_worker_shared->slots[index];
	TimestampTz now = GetCurrentTimestamp();
	int			length = pg_mbcliplen(message, strlen(message), RPQ_ERROR_LENGTH - 1);

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	slot->state = state;
	slot->served = true;
	memcpy(slot->last_error, message, length);
	slot->last_error[length] = '\0';
	slot->last_error_at = now;
	LWLockRelease(rpq_worker_shared->lock);
}

void
rpq_slot_report_absent(int index)
{
	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	rpq_worker_shared->slots[index].absent = true;
	LWLockRelease(rpq_worker_shared->lock);
}

/*
 * Keeps the launcher away from a database and asks its worker to leave.  Returns the worker's process id, 0 if there
 * is none to wait for.  The caller has checked that its user may do what it is about to do.
 */
int
rpq_hold_database(Oid dboid)
{
	RpqWorkerSlot *slot;
	int			index;
	int			pid = 0;

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	index = rpq_slot_take(dboid);
	if (index >= 0)
	{
		slot = &rpq_worker_shared->slots[index];
		slot->held_until = rpq_monotonic_ms() + RPQ_HOLD_MS;
		if (slot->phase == RPQ_SLOT_STARTING)
		{
			slot->generation++;
			rpq_slot_set_phase(slot, RPQ_SLOT_KEPT);
		}
		else if (slot->phase == RPQ_SLOT_LIVE)
		{
			pid = slot->pid;
			kill(pid, SIGTERM);
		}
	}
	LWLockRelease(rpq_worker_shared->lock);
	return pid;
}

void
rpq_unhold_database(Oid dboid)
{
	int			index;

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	index = rpq_slot_find(dboid);
	if (index >= 0)
	{
		RpqWorkerSlot *slot = &rpq_worker_shared->slots[index];

		slot->held_until = 0;
		/* made for the hold alone */
		if (slot->phase == RPQ_SLOT_KEPT && slot->started_at == 0 && !slot->poked)
		{
			pg_atomic_write_u32(&slot->dboid, InvalidOid);
			rpq_slot_set_phase(slot, RPQ_SLOT_FREE);
		}
	}
	LWLockRelease(rpq_worker_shared->lock);
	rpq_wake_launcher();
}

void
rpq_poke_database(Oid dboid)
{
	int			index;

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	index = rpq_slot_take(dboid);
	if (index >= 0)
		rpq_worker_shared->slots[index].poked = true;
	else
		rpq_worker_shared->poke_all = true;
	LWLockRelease(rpq_worker_shared->lock);
	rpq_wake_launcher();
}

void
rpq_wake_launcher(void)
{
	uint32		procno = pg_atomic_read_u32(&rpq_worker_shared->launcher);

	if (procno != RPQ_NO_PROC)
		SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

void
rpq_require_worker(void)
{
	if (rpq_worker_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rpq has no worker: the library is not preloaded"),
				 errhint("Add rpq to shared_preload_libraries, name the database in rpq.databases, and restart the "
						 "server.")));
}

Datum
rpq_require_worker_sql(PG_FUNCTION_ARGS)
{
	rpq_require_worker();
	PG_RETURN_VOID();
}

/* Who acts for an account has that account's rights alone. */
static bool
caller_is_platform_admin(void)
{
	return (rpq_account == NULL || rpq_account[0] == '\0') && rpq_role_is_platform_admin(GetUserId());
}

static const char *
state_name(const RpqWorkerSlot *slot)
{
	if (slot->phase == RPQ_SLOT_STARTING)
		return "waiting";
	if (slot->phase != RPQ_SLOT_LIVE)
		return "stopped";
	switch (slot->state)
	{
		case RPQ_WORKER_RUNNING:
			return "running";
		case RPQ_WORKER_PAUSED:
			return "paused";
		case RPQ_WORKER_WAITING:
			return "waiting";
	}
	return NULL;
}

/*
 * The rows of rpq.workers: the slot of this database once a worker has served it.  Nothing for anybody but platform
 * administrators, and nothing without preload.
 */
Datum
rpq_worker_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	RpqWorkerSlot slot;
	Datum		values[8];
	bool		nulls[8] = {0};
	int			index;

	InitMaterializedSRF(fcinfo, 0);
	if (rpq_worker_shared == NULL || !caller_is_platform_admin())
		return (Datum) 0;

	LWLockAcquire(rpq_worker_shared->lock, LW_SHARED);
	index = rpq_slot_find(MyDatabaseId);
	if (index >= 0)
		memcpy(&slot, &rpq_worker_shared->slots[index], sizeof(slot));
	LWLockRelease(rpq_worker_shared->lock);
	if (index < 0 || slot.started_at == 0)
		return (Datum) 0;

	values[0] = Int64GetDatum(index + 1);
	values[1] = Int32GetDatum(slot.pid);
	nulls[1] = slot.phase != RPQ_SLOT_LIVE;
	values[2] = CStringGetTextDatum(state_name(&slot));
	values[3] = TimestampTzGetDatum(slot.started_at);
	values[4] = TimestampTzGetDatum(slot.last_cycle);
	nulls[4] = slot.last_cycle == 0;
	values[5] = Int64GetDatum(slot.cycles);
	values[6] = CStringGetTextDatum(slot.last_error);
	nulls[6] = slot.last_error_at == 0;
	values[7] = TimestampTzGetDatum(slot.last_error_at);
	nulls[7] = slot.last_error_at == 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

/*
 * launcher.c
 *
 * The launcher: one static process, connected to no database, that keeps one worker for each database named by
 * rpq.databases.  Reads pg_database, writes nothing.  The protocol that it and the workers keep is told in slots.c.
 *
 * It decides everything about starting: workers are registered as never to be restarted by the postmaster.
 *
 *  - a worker that had served and went (terminated, an error beyond its own handling) is replaced after a second;
 *  - one that could not even start is tried again after 1, 2, 4 ... 64 s;
 *  - one that found no extension is tried again after 30 s, 1, 2 ... 64 min, or at once when the extension is created
 *    (a poke); so `*` costs nothing to speak of for the databases without rpq.
 *
 * It looks around when a worker comes or goes, at a poke, after a reload, when something falls due, and once a minute.
 * Errors are not caught: the launcher ends and is started again by the postmaster, and finds the workers in the slots.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

#include "compat.h"
#include "rpq.h"
#include "worker/worker.h"

#define LAUNCHER_NAP_MS		60000
#define RESTART_MS			1000
#define ABSENT_MS			30000
#define FULL_MS				10000

/* What the launcher remembers of a listed database. */
typedef struct ListedDatabase
{
	Oid			dboid;			/* hash key */
	NameData	name;
	bool		listed;			/* seen in the present look around */
	int			failures;		/* workers in a row that could not start */
	int			absences;		/* workers in a row that found no extension */
	int64		next_start;		/* no worker before, but for a poke */
} ListedDatabase;

static HTAB *databases = NULL;
static bool warned_slots = false;

void
rpq_worker_init(void)
{
	BackgroundWorker worker;

	if (IsBinaryUpgrade)
		return;

	rpq_slots_init();
	rpq_guard_init();

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "rpq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "rpq_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "rpq launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "rpq launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

static void
forget_launcher(int code, Datum arg)
{
	pg_atomic_write_u32(&rpq_worker_shared->launcher, RPQ_NO_PROC);
}

/* The names in rpq.databases; *all is set if one of them is an asterisk. */
static List *
listed_names(bool *all)
{
	char	   *raw = pstrdup(rpq_databases != NULL ? rpq_databases : "");
	List	   *names = NIL;
	ListCell   *lc;

	*all = false;
	if (!SplitGUCList(raw, ',', &names))
	{
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("setting \"rpq.databases\" is not a list of names"),
				 errdetail("Its value is \"%s\"; no database gets a worker.", rpq_databases)));
		return NIL;
	}
	foreach(lc, names)
	{
		if (strcmp((char *) lfirst(lc), "*") == 0)
			*all = true;
	}
	return names;
}

static bool
is_listed(Form_pg_database database, List *names, bool all)
{
	ListCell   *lc;

	/* below -1: a DROP DATABASE that was interrupted */
	if (!database->datallowconn || database->datconnlimit < -1)
		return false;
	if (all && !database->datistemplate)
		return true;
	foreach(lc, names)
	{
		if (strcmp((char *) lfirst(lc), NameStr(database->datname)) == 0)
			return true;
	}
	return false;
}

static void
note_database(Form_pg_database database)
{
	ListedDatabase *entry;
	bool		found;

	entry = hash_search(databases, &database->oid, HASH_ENTER, &found);
	if (!found)
	{
		entry->failures = 0;
		entry->absences = 0;
		entry->next_start = 0;
	}
	entry->name = database->datname;
	entry->listed = true;
}

/* Brings the hash table up to date with pg_database and the setting. */
static void
read_databases(void)
{
	HASH_SEQ_STATUS status;
	ListedDatabase *entry;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	List	   *names;
	bool		all;

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->listed = false;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	names = listed_names(&all);
	if (names != NIL)
	{
		rel = table_open(DatabaseRelationId, AccessShareLock);
		scan = table_beginscan_catalog(rel, 0, NULL);
		while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
		{
			if (is_listed((Form_pg_database) GETSTRUCT(tuple), names, all))
				note_database((Form_pg_database) GETSTRUCT(tuple));
		}
		table_endscan(scan);
		table_close(rel, AccessShareLock);
	}
	CommitTransactionCommand();

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (!entry->listed)
			hash_search(databases, &entry->dboid, HASH_REMOVE, NULL);
	}
}

/* Takes note of how a worker went, and says when the next one is due. */
static void
note_exit(Oid dboid, const RpqWorkerSlot *slot)
{
	ListedDatabase *entry = hash_search(databases, &dboid, HASH_FIND, NULL);
	int64		now = rpq_monotonic_ms();

	if (entry == NULL)
		return;
	if (slot->absent)
	{
		entry->next_start = now + ((int64) ABSENT_MS << Min(entry->absences, 7));
		entry->absences++;
		entry->failures = 0;
	}
	else if (slot->served)
	{
		entry->next_start = now + RESTART_MS;
		entry->absences = 0;
		entry->failures = 0;
	}
	else
	{
		entry->next_start = now + ((int64) RESTART_MS << Min(entry->failures, 6));
		entry->failures++;
	}
}

/* Goes through the slots: those whose worker is gone, and those whose database is not listed (any more). */
static void
look_at_slots(void)
{
	int64		now = rpq_monotonic_ms();
	int			i;

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	for (i = 0; i < rpq_worker_shared->nslots; i++)
	{
		RpqWorkerSlot *slot = &rpq_worker_shared->slots[i];
		Oid			dboid = pg_atomic_read_u32(&slot->dboid);
		bool		listed;

		if (slot->phase == RPQ_SLOT_FREE)
			continue;
		listed = hash_search(databases, &dboid, HASH_FIND, NULL) != NULL;

		if (slot->phase == RPQ_SLOT_STARTING && (!listed || slot->phase_since + RPQ_START_LIMIT_MS < now))
		{
			slot->generation++;
			slot->served = false;
			slot->absent = false;
			rpq_slot_set_phase(slot, RPQ_SLOT_EXITED);
		}
		if (slot->phase == RPQ_SLOT_EXITED)
		{
			note_exit(dboid, slot);
			rpq_slot_set_phase(slot, RPQ_SLOT_KEPT);
		}
		if (!listed)
		{
			slot->poked = false;
			if (slot->phase == RPQ_SLOT_LIVE)
				kill(slot->pid, SIGTERM);
		}
	}
	LWLockRelease(rpq_worker_shared->lock);
}

/* After a poke that found no slot: whatever was absent may be there now. */
static void
forget_absences(void)
{
	HASH_SEQ_STATUS status;
	ListedDatabase *entry;
	bool		forget;

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	forget = rpq_worker_shared->poke_all;
	rpq_worker_shared->poke_all = false;
	LWLockRelease(rpq_worker_shared->lock);
	if (!forget)
		return;

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (entry->absences > 0)
			entry->next_start = 0;
		entry->absences = 0;
	}
}

static void
warn_of_slots(const ListedDatabase *entry)
{
	if (!warned_slots)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no room for an rpq worker for database \"%s\"", NameStr(entry->name)),
				 errhint("Raise max_worker_processes; rpq needs one for its launcher and one for each database.")));
	warned_slots = true;
}

/* Asks the postmaster for a worker; the slot has been made ready for it. */
static bool
register_worker(const ListedDatabase *entry, int index, uint32 generation)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = Int32GetDatum(index);
	strlcpy(worker.bgw_library_name, "rpq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "rpq_worker_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, BGW_MAXLEN, "rpq worker for database \"%s\"", NameStr(entry->name));
	strlcpy(worker.bgw_type, "rpq worker", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &generation, sizeof(generation));
	memcpy(worker.bgw_extra + sizeof(generation), &entry->dboid, sizeof(Oid));
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* Sees to it that a listed database has a worker.  Returns when it wants to be looked at again. */
static int64
ensure_worker(ListedDatabase *entry)
{
	int64		now = rpq_monotonic_ms();
	RpqWorkerSlot *slot = NULL;
	uint32		generation = 0;
	int64		due = entry->next_start;
	int			index;

	LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
	index = rpq_slot_find(entry->dboid);
	if (index >= 0)
	{
		slot = &rpq_worker_shared->slots[index];
		if (slot->phase == RPQ_SLOT_LIVE)
			due = PG_INT64_MAX;
		else if (slot->phase == RPQ_SLOT_STARTING)
			due = slot->phase_since + RPQ_START_LIMIT_MS + 1;
		else
			due = Max(slot->poked ? 0 : due, slot->held_until);
	}
	if (due <= now)
	{
		index = rpq_slot_take(entry->dboid);
		if (index >= 0)
		{
			slot = &rpq_worker_shared->slots[index];
			generation = ++slot->generation;
			slot->poked = false;
			slot->served = false;
			slot->absent = false;
			pg_atomic_write_u32(&slot->dirty, 0);
			rpq_slot_set_phase(slot, RPQ_SLOT_STARTING);
		}
	}
	LWLockRelease(rpq_worker_shared->lock);
	if (due > now)
		return due;

	if (index >= 0)
	{
		if (register_worker(entry, index, generation))
			return now + RPQ_START_LIMIT_MS + 1;
		LWLockAcquire(rpq_worker_shared->lock, LW_EXCLUSIVE);
		if (slot->generation == generation)
			rpq_slot_set_phase(slot, RPQ_SLOT_KEPT);
		LWLockRelease(rpq_worker_shared->lock);
	}
	warn_of_slots(entry);
	entry->next_start = now + FULL_MS;
	return entry->next_start;
}

/* One look around.  Returns how long to sleep, in ms. */
static long
look_around(void)
{
	HASH_SEQ_STATUS status;
	ListedDatabase *entry;
	int64		next = rpq_monotonic_ms() + LAUNCHER_NAP_MS;

	read_databases();
	look_at_slots();
	forget_absences();
	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		int64		due = ensure_worker(entry);

		next = Min(next, due);
	}
	return (long) Max(next - rpq_monotonic_ms(), 1);
}

void
rpq_launcher_main(Datum arg)
{
	HASHCTL		ctl;
	long		nap;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(forget_launcher, (Datum) 0);
	pg_atomic_write_u32(&rpq_worker_shared->launcher, (uint32) rpq_my_proc_number());
	ProcessConfigFile(PGC_SIGHUP);

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(ListedDatabase);
	ctl.hcxt = TopMemoryContext;
	databases = hash_create("rpq databases", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (;;)
	{
		ResetLatch(MyLatch);
		/* idle here: going without a line in the log is all right; 1 lets the postmaster start another */
		if (ProcDiePending)
			proc_exit(1);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			warned_slots = false;
		}
		nap = look_around();
		pgstat_report_activity(STATE_IDLE, NULL);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, nap, PG_WAIT_EXTENSION);
	}
}

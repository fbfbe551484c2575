/*
 * loop.c
 *
 * The worker of one database: a loop around rpq_store.worker_cycle(), which SQL can call as well.  Writes no table by
 * itself; takes a share lock on the extension for each cycle, and only if it is free.
 *
 * A cycle is one transaction.  It runs as the owner of the extension, whom it looks up each time, in a session whose
 * settings do not follow what the owner of the database may have set for it.  No function at all (an older script), no
 * extension, another version, a fence, a lock: each has its way to go on, see CycleEnd.
 *
 * worker_cycle() returns one row: `more`, the batch cut it off and the next cycle is to follow at once; `changed`, how
 * much it wrote; `summary`, the text of the one NOTIFY on channel rpq that follows when changed > 0.  With a summary
 * `fenced` it says that this database is a copy and that it did nothing.
 *
 * An error ends the cycle, never the loop: it is logged, shown in rpq.workers, and followed by a pause of
 * rpq.cycle_interval, or a second if that is less, times 2, 4 ... 64.  For a lock that was not granted in time the
 * pause does not grow: the worker gives way, before the deadlock detector would have to choose between it and a
 * person's command.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/async.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "parser/parse_func.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "errors.h"
#include "rpq.h"
#include "worker/worker.h"

#define CYCLE_TIMEOUT_MS	(5 * 60 * 1000)
#define RETRY_MS			1000	/* the longest wait for a locked extension, and the longest first pause */
#define NOTIFY_CHANNEL		"rpq"
#define NOTIFY_MAX			7999

typedef enum CycleEnd
{
	CYCLE_DONE,					/* waits for a wake or the interval */
	CYCLE_MORE,					/* the next one follows at once */
	CYCLE_FENCED,				/* as done, but says so */
	CYCLE_LOCKED,				/* somebody drops or updates the extension: looks again soon */
	CYCLE_OTHER_VERSION,		/* pauses until script and library agree */
	CYCLE_ABSENT,				/* leaves */
	CYCLE_FAILED,				/* pauses, longer each time */
	CYCLE_YIELDED				/* gave way to somebody's lock: pauses */
} CycleEnd;

typedef struct ExtensionFacts
{
	Oid			oid;
	Oid			owner;
	char		version[64];
} ExtensionFacts;

bool		rpq_am_worker = false;

static int	my_slot = -1;
static MemoryContext loop_context = NULL;
static SPIPlanPtr cycle_plan = NULL;
static Oid	plan_extension = InvalidOid;

/*
 * What the owner of a database, or a role, may have set for it must not reach the worker.  deadlock_timeout stays as it
 * is; lock_timeout follows it in override_settings().
 */
static const char *const worker_settings[][2] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"application_name", "rpq worker"},
	{"session_replication_role", "origin"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"statement_timeout", "0"},
	{"idle_in_transaction_session_timeout", "0"},
#if PG_VERSION_NUM >= 170000
	{"transaction_timeout", "0"},
#endif
	{"row_security", "on"},
	{"datestyle", "ISO"},
	{"intervalstyle", "postgres"},
	{"jit", "off"},
	{"rpq.account", ""},
	{"rpq.action", ""},
	{"rpq.synchronous_operations", "off"},
};

static void
override_settings(void)
{
	char		timeout[32];
	int			i;

	for (i = 0; i < lengthof(worker_settings); i++)
		SetConfigOption(worker_settings[i][0], worker_settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	snprintf(timeout, sizeof(timeout), "%d", Max(Min(500, DeadlockTimeout / 2), 1));
	SetConfigOption("lock_timeout", timeout, PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * What every wait and every cycle begins with.  The worker is outside a transaction here, so it may go without a word;
 * in the middle of a query the interrupt check ends it with the usual FATAL.
 */
static void
service_interrupts(void)
{
	if (ProcDiePending)
		proc_exit(0);
	/* nothing runs that could be cancelled */
	QueryCancelPending = false;
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

static bool
read_extension(ExtensionFacts *facts)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("rpq"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);
		bool		isnull;
		Datum		version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(rel), &isnull);

		facts->oid = form->oid;
		facts->owner = form->extowner;
		strlcpy(facts->version, TextDatumGetCString(version), sizeof(facts->version));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Takes the share lock on the extension if nobody is dropping or updating it, and looks at it again under the lock.
 */
static CycleEnd
lock_extension(ExtensionFacts *facts)
{
	LOCKTAG		tag;
	Oid			before;

	if (!read_extension(facts))
		return CYCLE_ABSENT;
	before = facts->oid;
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, before, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return CYCLE_LOCKED;
	AcceptInvalidationMessages();
	if (!read_extension(facts))
		return CYCLE_ABSENT;
	if (facts->oid != before)
		return CYCLE_LOCKED;
	if (strcmp(facts->version, RPQ_VERSION) != 0)
		return CYCLE_OTHER_VERSION;
	return CYCLE_DONE;
}

/* The plan of the one statement; made anew when the extension was.  NULL if there is no such function. */
static SPIPlanPtr
get_cycle_plan(const ExtensionFacts *facts)
{
	SPIPlanPtr	plan;

	if (cycle_plan != NULL && plan_extension == facts->oid)
		return cycle_plan;
	if (cycle_plan != NULL)
	{
		plan = cycle_plan;
		cycle_plan = NULL;
		SPI_freeplan(plan);
	}
	if (!OidIsValid(LookupFuncName(list_make2(makeString("rpq_store"), makeString("worker_cycle")), 0, NULL, true)))
		return NULL;
	plan = SPI_prepare("SELECT c.more, c.changed::pg_catalog.int8, c.summary::pg_catalog.text "
					   "FROM rpq_store.worker_cycle() AS c", 0, NULL);
	if (plan == NULL)
		elog(ERROR, "could not prepare the worker's statement: %s", SPI_result_code_string(SPI_result));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "could not keep the worker's plan");
	cycle_plan = plan;
	plan_extension = facts->oid;
	return cycle_plan;
}

/* Runs the function and understands its row; sends the notification if there was a change. */
static CycleEnd
call_worker_cycle(const ExtensionFacts *facts)
{
	CycleEnd	end = CYCLE_DONE;
	SPIPlanPtr	plan;
	int			rc;

	SPI_connect();
	plan = get_cycle_plan(facts);
	if (plan != NULL)
	{
		rc = SPI_execute_plan(plan, NULL, NULL, false, 1);
		if (rc != SPI_OK_SELECT)
			elog(ERROR, "the worker's statement ended with %s", SPI_result_code_string(rc));
		if (SPI_processed == 1)
		{
			HeapTuple	tuple = SPI_tuptable->vals[0];
			TupleDesc	desc = SPI_tuptable->tupdesc;
			bool		isnull[3];
			bool		more = DatumGetBool(SPI_getbinval(tuple, desc, 1, &isnull[0]));
			int64		changed = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull[1]));
			char	   *summary = SPI_getvalue(tuple, desc, 3);

			if (!isnull[1] && changed > 0)
				Async_Notify(NOTIFY_CHANNEL, summary != NULL && strlen(summary) <= NOTIFY_MAX ? summary : "");
			else if (summary != NULL && strcmp(summary, "fenced") == 0)
				end = CYCLE_FENCED;
			if (!isnull[0] && more)
				end = CYCLE_MORE;
		}
	}
	SPI_finish();
	return end;
}

/* One cycle, one transaction. */
static CycleEnd
run_transaction(void)
{
	ExtensionFacts facts;
	CycleEnd	end;
	Oid			user;
	int			sec_context;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	enable_timeout_after(STATEMENT_TIMEOUT, CYCLE_TIMEOUT_MS);
	pgstat_report_activity(STATE_RUNNING, "rpq cycle");

	end = lock_extension(&facts);
	if (end == CYCLE_DONE)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		GetUserIdAndSecContext(&user, &sec_context);
		SetUserIdAndSecContext(facts.owner, sec_context | SECURITY_LOCAL_USERID_CHANGE);
		end = call_worker_cycle(&facts);
		SetUserIdAndSecContext(user, sec_context);
		PopActiveSnapshot();
	}

	disable_timeout(STATEMENT_TIMEOUT, false);
	CommitTransactionCommand();
	MemoryContextSwitchTo(loop_context);
	return end;
}

/* Puts the session in order after an error, and the error where people see it. */
static CycleEnd
recover(void)
{
	ErrorData  *edata;
	CycleEnd	end = CYCLE_FAILED;
	char	   *message;

	MemoryContextSwitchTo(loop_context);
	HOLD_INTERRUPTS();
	disable_all_timeouts(false);
	QueryCancelPending = false;
	edata = CopyErrorData();
	EmitErrorReport();
	AbortCurrentTransaction();
	LWLockReleaseAll();
	FlushErrorState();
	RESUME_INTERRUPTS();

	MemoryContextSwitchTo(loop_context);
	if (edata->sqlerrcode == ERRCODE_RPQ_FENCED)
		end = CYCLE_FENCED;
	else if (edata->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
		end = CYCLE_YIELDED;
	if (end != CYCLE_FENCED)
	{
		message = psprintf("%s: %s", unpack_sql_state(edata->sqlerrcode), edata->message);
		rpq_slot_report_error(my_slot, RPQ_WORKER_PAUSED, message);
	}
	return end;
}

static CycleEnd
run_cycle(void)
{
	volatile CycleEnd end = CYCLE_FAILED;

	MemoryContextReset(loop_context);
	MemoryContextSwitchTo(loop_context);
	ResetLatch(MyLatch);
	service_interrupts();
	/* a full barrier; whatever is committed from here on sets it again, and the latch */
	(void) pg_atomic_exchange_u32(&rpq_worker_shared->slots[my_slot].dirty, 0);

	PG_TRY();
	{
		end = run_transaction();
	}
	PG_CATCH();
	{
		end = recover();
	}
	PG_END_TRY();

	pgstat_report_stat(end != CYCLE_MORE);
	pgstat_report_activity(STATE_IDLE, NULL);
	return end;
}

/*
 * Waits at least min_ms, whatever happens, and from then on for a wake, but not beyond max_ms.  Interrupts are served
 * throughout.  A wait inside the cycle, say for a lock, may have taken the latch's signal, so dirty is asked as well.
 */
static void
wait_next(int64 min_ms, int64 max_ms)
{
	int64		start = rpq_monotonic_ms();
	bool		woken = false;

	for (;;)
	{
		int64		rest;
		int			rc;

		if (pg_atomic_read_u32(&rpq_worker_shared->slots[my_slot].dirty) != 0)
			woken = true;
		rest = start + (woken ? min_ms : Max(min_ms, max_ms)) - rpq_monotonic_ms();
		if (rest <= 0)
			break;
		rc = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, (long) rest, PG_WAIT_EXTENSION);
		if (rc & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			service_interrupts();
			woken = true;
		}
	}
}

/* Reports how the cycle ended, and waits as that asks for. */
static void
after_cycle(CycleEnd end)
{
	static int	failures = 0;
	static CycleEnd last = CYCLE_DONE;
	int64		pause;

	if (end != CYCLE_FAILED)
		failures = 0;
	switch (end)
	{
		case CYCLE_DONE:
		case CYCLE_MORE:
			rpq_slot_report_cycle(my_slot, RPQ_WORKER_RUNNING, true);
			if (end == CYCLE_DONE)
				wait_next(rpq_cycle_gap, rpq_cycle_interval);
			break;
		case CYCLE_FENCED:
			if (last != CYCLE_FENCED)
				rpq_slot_report_error(my_slot, RPQ_WORKER_WAITING, "fenced");
			wait_next(rpq_cycle_gap, rpq_cycle_interval);
			break;
		case CYCLE_LOCKED:
			rpq_slot_report_cycle(my_slot, RPQ_WORKER_WAITING, false);
			wait_next(rpq_cycle_gap, Min(rpq_cycle_interval, RETRY_MS));
			break;
		case CYCLE_OTHER_VERSION:
			if (last != CYCLE_OTHER_VERSION)
				rpq_slot_report_error(my_slot, RPQ_WORKER_PAUSED,
									  "the extension's version is not the library's, which is " RPQ_VERSION);
			wait_next(rpq_cycle_gap, Min(rpq_cycle_interval, RETRY_MS));
			break;
		case CYCLE_FAILED:
			failures++;
			pause = (int64) Min(rpq_cycle_interval, RETRY_MS) << Min(failures, 6);
			wait_next(pause, pause);
			break;
		case CYCLE_YIELDED:
			wait_next(Min(rpq_cycle_interval, RETRY_MS), Min(rpq_cycle_interval, RETRY_MS));
			break;
		case CYCLE_ABSENT:
			rpq_slot_report_absent(my_slot);
			proc_exit(0);
	}
	last = end;
}

void
rpq_worker_main(Datum arg)
{
	uint32		generation;
	Oid			dboid;

	memcpy(&generation, MyBgworkerEntry->bgw_extra, sizeof(generation));
	memcpy(&dboid, MyBgworkerEntry->bgw_extra + sizeof(generation), sizeof(dboid));

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	if (!rpq_slot_claim(DatumGetInt32(arg), generation, dboid))
		proc_exit(0);
	my_slot = DatumGetInt32(arg);
	rpq_am_worker = true;

	BackgroundWorkerInitializeConnectionByOid(dboid, InvalidOid, 0);
	/* a reload between the fork and the handler above would have been missed */
	ProcessConfigFile(PGC_SIGHUP);
	override_settings();
	loop_context = AllocSetContextCreate(TopMemoryContext, "rpq worker", ALLOCSET_DEFAULT_SIZES);

	for (;;)
		after_cycle(run_cycle());
}

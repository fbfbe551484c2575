/*
 * wait.c
 *
 * CALL rpq.wait_for_operation(id, timeout).
 *
 * The procedure commits between two looks at the operation, so that its session keeps nobody's snapshot while it waits;
 * hence it has neither SECURITY DEFINER nor a search_path of its own.  It reads nothing itself: each look is a call of
 * rpq_store.operation_ended(id), which has both and checks the caller's right each time.
 *
 * Writes no table, takes no lock.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* The longest pause between two looks, in milliseconds. */
#define POLL_INTERVAL 100

PG_FUNCTION_INFO_V1(rpq_wait_for_operation);

/*
 * The function is found past the permissions on its schema: the caller has none, and needs none, since the function
 * asks for the right itself.  It is looked up at each use, since the extension may be made anew between two looks.
 */
static Oid
look_function(void)
{
	Oid			argument = INT8OID;
	Oid			schema = get_namespace_oid("rpq_store", false);
	Oid			found = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
										CStringGetDatum("operation_ended"),
										PointerGetDatum(buildoidvector(&argument, 1)),
										ObjectIdGetDatum(schema));

	if (!OidIsValid(found))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function rpq_store.operation_ended(bigint) does not exist")));
	return found;
}

static bool
operation_ended(int64 id)
{
	bool		ended;

	PushActiveSnapshot(GetTransactionSnapshot());
	ended = DatumGetBool(OidFunctionCall1(look_function(), Int64GetDatum(id)));
	PopActiveSnapshot();
	return ended;
}

static void
check_not_atomic(FunctionCallInfo fcinfo)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) || ((CallContext *) fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("wait_for_operation cannot run inside a transaction block"),
				 errhint("It commits between two looks; call it on its own, or SET rpq.synchronous_operations = on.")));
}

/*
 * The moment at which the wait is over.  True time: rpq.clock has no say here.
 */
static TimestampTz
deadline_of(FunctionCallInfo fcinfo)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz deadline;

	if (PG_ARGISNULL(1))
		return TimestampTzPlusMilliseconds(now, 60 * 1000);
	deadline = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(now),
													   PG_GETARG_DATUM(1)));
	if (deadline < now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return deadline;
}

static void
pause_until(TimestampTz deadline)
{
	long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, Min(left, POLL_INTERVAL),
					 PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * wait_for_operation(id bigint, timeout interval)
 */
Datum
rpq_wait_for_operation(PG_FUNCTION_ARGS)
{
	int64		id;
	bool		ended;
	TimestampTz deadline;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the operation must be given")));
	id = PG_GETARG_INT64(0);
	ended = operation_ended(id);
	check_not_atomic(fcinfo);
	deadline = deadline_of(fcinfo);

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	while (!ended)
	{
		SPI_commit();
		if (GetCurrentTimestamp() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("operation " INT64_FORMAT " has not ended within the time-out", id),
					 errhint("The worker carries operations out, or SELECT rpq.run_operations().")));
		pause_until(deadline);
		ended = operation_ended(id);
	}
	SPI_finish();
	PG_RETURN_VOID();
}

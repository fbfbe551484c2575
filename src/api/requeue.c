/*
 * requeue.c
 *
 * Back to the queue: rpq.requeue, and the key of the lane that a workload returns to.
 *
 * Writes workload (the one row, where it is placed) and entry: one release of the whole attempt, which also makes the
 * lane longer by one.  The cycle frees the pods when it folds.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/workload.h"
#include "rpq.h"
#include "store/shape.h"
#include "store/spi.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_workload_shape);
PG_FUNCTION_INFO_V1(rpq_requeue);

static RpqStatement requeue = {
	"WITH old AS ("
	"  SELECT w.*, greatest($2, w.started_at, w.running_at) AS end_at FROM rpq_store.workload w"
	"   WHERE w.workload_id = $1 AND w.status IN ('starting', 'running') FOR NO KEY UPDATE),"
	" new AS ("
	"  UPDATE rpq_store.workload w"
	"     SET status = 'queued', cause = 'requeued', detail = $4, pool_id = NULL, type_id = NULL, policy_id = NULL,"
	"         lender_id = NULL, nodes = NULL, started_at = NULL, running_at = NULL, deadline = NULL,"
	"         not_before = o.end_at + $3,"
	"         shape = rpq_store.workload_shape(o.scope_id, o.account_id, o.priority, o.replicas, o.guarantee,"
	"                   o.checkpointable, o.workload_type, o.resources, o.instance_types, o.max_runtime,"
	"                   o.end_at + $3)"
	"    FROM old o WHERE w.workload_id = o.workload_id RETURNING w.shape),"
	" written AS ("
	" INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, submitted_at, account_id, policy_id, pool_id,"
	"                             type_id, lender_id, attempt, waiting, kind, status, actor, cause, detail, resources)"
	" SELECT o.scope_id, o.end_at, o.workload_id, n.shape, o.submitted_at, o.account_id, o.policy_id, o.pool_id,"
	"        o.type_id, o.lender_id, o.attempt, 1, 'release', 'queued', $5, 'requeued', $4,"
	"        rpq.resources_mul(o.resources, -o.replicas::numeric)"
	"   FROM old o CROSS JOIN new n RETURNING account_id)"
	"SELECT w.account_id, o.status FROM written w CROSS JOIN old o",
	5, {INT8OID, TIMESTAMPTZOID, INTERVALOID, TEXTOID, TEXTOID}
};

/*
 * rpq_store.workload_shape(the columns that make a shape): shape.c for SQL.
 */
Datum
rpq_workload_shape(PG_FUNCTION_ARGS)
{
	ShapeParts	parts = {0};
	TimestampTz not_before;

	for (int i = 0; i < 8; i++)
	{
		if (PG_ARGISNULL(i))
			PG_RETURN_NULL();
	}
	parts.scope_id = PG_GETARG_INT64(0);
	parts.account_id = PG_GETARG_INT64(1);
	parts.priority = PG_GETARG_INT32(2);
	parts.replicas = PG_GETARG_INT32(3);
	parts.guarantee = PG_GETARG_BOOL(4);
	parts.checkpointable = PG_GETARG_BOOL(5);
	parts.workload_type = text_to_cstring(PG_GETARG_TEXT_PP(6));
	parts.resources = DatumGetResourcesP(PG_GETARG_DATUM(7));
	parts.ninstance_types = -1;
	if (!PG_ARGISNULL(8))
	{
		ArrayType  *array = PG_GETARG_ARRAYTYPE_P(8);

		parts.ninstance_types = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		parts.instance_types = (int64 *) ARR_DATA_PTR(array);
	}
	if (!PG_ARGISNULL(9))
		parts.max_runtime = PG_GETARG_INTERVAL_P(9);
	if (!PG_ARGISNULL(10))
	{
		not_before = PG_GETARG_TIMESTAMPTZ(10);
		parts.not_before = &not_before;
	}
	PG_RETURN_INT64(workload_shape(&parts));
}

/* Whether there is any. */
static bool
check_delay(Interval *delay)
{
	Interval	zero = {0};
	int			sign = DatumGetInt32(DirectFunctionCall2(interval_cmp, IntervalPGetDatum(delay),
														 IntervalPGetDatum(&zero)));

	if (sign < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("delay must not be negative")));
	if (sign > 0)
		check_duration("delay", delay);
	return sign > 0;
}

/*
 * rpq.requeue(workload, delay, reason)
 */
Datum
rpq_requeue(PG_FUNCTION_ARGS)
{
	Interval	zero = {0};
	Interval   *delay = PG_ARGISNULL(1) ? &zero : PG_GETARG_INTERVAL_P(1);
	Datum		values[5];
	char		nulls[6] = "     ";
	const Caller *caller;
	bool		has_delay;
	bool		done;

	SPI_connect();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("workload must be given")));
	values[0] = Int64GetDatum(rpq_authorize_id("requeue", PG_GETARG_INT64(0)));
	caller = rpq_known_caller();
	has_delay = check_delay(delay);
	values[1] = TimestampTzGetDatum(rpq_now());
	values[2] = IntervalPGetDatum(delay);
	nulls[2] = has_delay ? ' ' : 'n';
	nulls[3] = PG_ARGISNULL(2) ? 'n' : ' ';
	values[3] = PG_ARGISNULL(2) ? (Datum) 0 : PG_GETARG_DATUM(2);
	values[4] = CStringGetTextDatum(caller->actor);
	done = rpq_exec(&requeue, values, nulls) > 0;
	if (done)
		record_if_administrative(caller, rpq_column_int64(0, 1, 0), "requeue", PG_GETARG_INT64(0),
								 status_object(rpq_column_text(0, 2)), status_object("queued"));
	SPI_finish();
	rpq_wake_at_commit();
	PG_RETURN_BOOL(done);
}

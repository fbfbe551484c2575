/*
 * report.c
 *
 * What programs report of a running workload: started, finished, checkpoint.
 *
 * Writes workload (the one row, where status and attempt are as expected) and entry: two rows, whatever the number of
 * replicas.  Pods are freed by the next cycle.  A report of another attempt than the present changes nothing and is
 * recorded as late_report.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/config_cache.h"
#include "api/entry.h"
#include "api/workload.h"
#include "errors.h"
#include "rpq.h"
#include "store/spi.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_report_started);
PG_FUNCTION_INFO_V1(rpq_report_finished);
PG_FUNCTION_INFO_V1(rpq_report_checkpoint);

static RpqStatement started = {
	"WITH w AS ("
	"  UPDATE rpq_store.workload SET status = 'running', running_at = greatest($3, started_at)"
	"   WHERE workload_id = $1 AND status = 'starting' AND ($2 IS NULL OR attempt = $2) RETURNING *)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id,"
	"                             attempt, kind, status, actor)"
	" SELECT scope_id, running_at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id, attempt,"
	"        'start', status, $4 FROM w",
	4, {INT8OID, INT4OID, TIMESTAMPTZOID, TEXTOID}
};

static RpqStatement finished = {
	"WITH w AS ("
	"  UPDATE rpq_store.workload SET status = $5, ended_at = greatest($3, started_at, running_at), cause = $5,"
	"         detail = $6"
	"   WHERE workload_id = $1 AND status IN ('starting', 'running') AND ($2 IS NULL OR attempt = $2) RETURNING *)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id,"
	"                             attempt, kind, status, actor, cause, detail, resources)"
	" SELECT scope_id, ended_at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id, attempt,"
	"        'release', status, $4, cause, detail, rpq.resources_mul(resources, -replicas::numeric) FROM w",
	6, {INT8OID, INT4OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID}
};

/* The same for an owner, who needs no other right; the entry is written by itself. */
static RpqStatement finished_own = {
	"UPDATE rpq_store.workload SET status = $5, ended_at = greatest($3, started_at, running_at), cause = $5,"
	"       detail = $6"
	" WHERE workload_id = $1 AND status IN ('starting', 'running') AND ($2 IS NULL OR attempt = $2) AND account_id = $4"
	" RETURNING scope_id, ended_at, shape, policy_id, pool_id, type_id, attempt, resources, replicas, lender_id",
	6, {INT8OID, INT4OID, TIMESTAMPTZOID, INT8OID, TEXTOID, TEXTOID}
};

static RpqStatement checkpointed = {
	"UPDATE rpq_store.workload SET checkpoint = $4, checkpoint_at = greatest($3, started_at)"
	" WHERE workload_id = $1 AND status IN ('starting', 'running') AND ($2 IS NULL OR attempt = $2)",
	4, {INT8OID, INT4OID, TIMESTAMPTZOID, TEXTOID}
};

static RpqStatement late = {
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, account_id, attempt, kind, status, actor, cause, detail)"
	" SELECT scope_id, greatest($3, created_at), workload_id, account_id, $2, 'late_report', status, $4, $5, $6"
	"   FROM rpq_store.workload WHERE workload_id = $1 AND attempt <> $2",
	6, {INT8OID, INT4OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID}
};

static RpqStatement owner = {
	"SELECT account_id FROM rpq_store.workload WHERE workload_id = $1", 1, {INT8OID}
};

typedef struct Report
{
	Datum		values[6];
	char		nulls[7];
	bool		has_attempt;
} Report;

/* Authorises, and fills the arguments that every report has: workload, attempt, time, actor. */
static void
begin_report(FunctionCallInfo fcinfo, const char *action, Report *report)
{
	const Caller *caller;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("workload must be given")));
	memset(report->nulls, ' ', sizeof(report->nulls));
	report->values[0] = Int64GetDatum(rpq_authorize_id(action, PG_GETARG_INT64(0)));
	caller = rpq_known_caller();
	report->has_attempt = !PG_ARGISNULL(1);
	if (!report->has_attempt && caller->executor)
	{
		/* a program that runs pods must say which attempt it speaks of; a person means the present one */
		if (rpq_exec(&owner, report->values, NULL) > 0 && rpq_column_int64(0, 1, 0) != caller->account_id)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("attempt must be given by an executor")));
	}
	report->values[1] = report->has_attempt ? PG_GETARG_DATUM(1) : (Datum) 0;
	report->nulls[1] = report->has_attempt ? ' ' : 'n';
	report->values[2] = TimestampTzGetDatum(rpq_now());
	report->values[3] = CStringGetTextDatum(caller->actor);
}

static void
text_value(FunctionCallInfo fcinfo, int argument, Report *report, int n)
{
	report->nulls[n] = PG_ARGISNULL(argument) ? 'n' : ' ';
	report->values[n] = PG_ARGISNULL(argument) ? (Datum) 0 : PG_GETARG_DATUM(argument);
}

static bool
end_report(Report *report, RpqStatement *statement, const char *what)
{
	bool		done = rpq_exec(statement, report->values, report->nulls) > 0;

	if (!done && report->has_attempt)
	{
		report->values[4] = CStringGetTextDatum(what);
		report->nulls[4] = ' ';
		report->nulls[5] = 'n';
		rpq_exec(&late, report->values, report->nulls);
	}
	SPI_finish();
	rpq_wake_at_commit();
	return done;
}

Datum
rpq_report_started(PG_FUNCTION_ARGS)
{
	Report		report;

	SPI_connect();
	begin_report(fcinfo, "report_started", &report);
	PG_RETURN_BOOL(end_report(&report, &started, "started"));
}

/*
 * The path of most ends: the owner's program reports the present attempt.  False when it is not that, with nothing
 * done.
 */
static bool
finish_own(FunctionCallInfo fcinfo, const char *outcome)
{
	const Caller *caller = config_caller();
	EntryRow	entry = {0};
	Datum		values[6];
	char		nulls[7] = "      ";
	bool		isnull;

	if (PG_ARGISNULL(0) || caller->account_id == 0)
		return false;
	values[0] = PG_GETARG_DATUM(0);
	values[1] = PG_GETARG_DATUM(1);
	nulls[1] = PG_ARGISNULL(1) ? 'n' : ' ';
	values[2] = TimestampTzGetDatum(rpq_now());
	values[3] = Int64GetDatum(caller->account_id);
	values[4] = CStringGetTextDatum(outcome);
	values[5] = PG_GETARG_DATUM(3);
	nulls[5] = PG_ARGISNULL(3) ? 'n' : ' ';
	if (rpq_exec(&finished_own, values, nulls) == 0)
		return false;
	entry.scope_id = rpq_column_int64(0, 1, 0);
	entry.at = rpq_column_int64(0, 2, 0);
	entry.workload_id = PG_GETARG_INT64(0);
	entry.shape = rpq_column_int64(0, 3, 0);
	entry.account_id = caller->account_id;
	entry.policy_id = rpq_column_int64(0, 4, 0);
	entry.pool_id = rpq_column_int64(0, 5, 0);
	entry.type_id = rpq_column_int64(0, 6, 0);
	entry.lender_id = rpq_column_int64(0, 10, 0);
	entry.attempt = (int) rpq_column_int64(0, 7, 0);
	entry.kind = "release";
	entry.status = entry.cause = outcome;
	entry.actor = caller->actor;
	entry.detail = PG_ARGISNULL(3) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(3));
	entry.resources = resources_mul_int(DatumGetResourcesP(rpq_column(0, 8, &isnull)), -rpq_column_int64(0, 9, 1));
	write_entry(&entry);
	return true;
}

static bool
is_outcome(const char *outcome)
{
	return strcmp(outcome, "succeeded") == 0 || strcmp(outcome, "failed") == 0 || strcmp(outcome, "stopped") == 0;
}

Datum
rpq_report_finished(PG_FUNCTION_ARGS)
{
	Report		report;
	char	   *outcome = PG_ARGISNULL(2) ? "succeeded" : text_to_cstring(PG_GETARG_TEXT_PP(2));

	SPI_connect();
	if (is_outcome(outcome) && finish_own(fcinfo, outcome))
	{
		SPI_finish();
		PG_RETURN_BOOL(true);
	}
	begin_report(fcinfo, "report_finished", &report);
	if (!is_outcome(outcome))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("outcome must be succeeded, failed or stopped"), errdetail("It is \"%s\".", outcome)));
	report.values[4] = CStringGetTextDatum(outcome);
	text_value(fcinfo, 3, &report, 5);
	PG_RETURN_BOOL(end_report(&report, &finished, outcome));
}

Datum
rpq_report_checkpoint(PG_FUNCTION_ARGS)
{
	Report		report;

	SPI_connect();
	begin_report(fcinfo, "report_checkpoint", &report);
	text_value(fcinfo, 2, &report, 3);
	PG_RETURN_BOOL(end_report(&report, &checkpointed, "checkpoint"));
}

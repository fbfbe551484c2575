/*
 * workload.c
 *
 * A client's calls about a workload that exists: enqueue, edit, stop, delete.
 *
 * Writes workload (the one row named, guarded by the status that it must have) and entry.  Each call is an UPDATE that
 * finds the row in the expected state or finds nothing, so two calls at once end it once; a row that a cycle has in
 * hand is waited for, and no cycle waits for one of these.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "api/admission_check.h"
#include "api/api.h"
#include "api/entry.h"
#include "api/workload.h"
#include "errors.h"
#include "rpq.h"
#include "store/shape.h"
#include "store/spi.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_stop);
PG_FUNCTION_INFO_V1(rpq_delete_workload);
PG_FUNCTION_INFO_V1(rpq_enqueue);
PG_FUNCTION_INFO_V1(rpq_edit_workload);

/* The cycle adds it to the time of an admission, which must not fail. */
#define MAX_RUNTIME_YEARS 1000

/* What holds nodes gives them back: the release is counted by the next cycle. */
static RpqStatement stop_placed = {
	"WITH w AS ("
	"  UPDATE rpq_store.workload SET status = 'stopped', ended_at = greatest($2, started_at), cause = $3, detail = $4"
	"   WHERE workload_id = $1 AND status IN ('starting', 'running') RETURNING *)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id,"
	"                             attempt, kind, status, actor, cause, detail, resources)"
	" SELECT scope_id, ended_at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id, attempt,"
	"        'release', status, $5, cause, detail, rpq.resources_mul(resources, -replicas::numeric) FROM w",
	5, {INT8OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID}
};

/* Under no attempt: the last one, if there was any, has had its end. */
static RpqStatement stop_waiting = {
	"WITH w AS ("
	"  UPDATE rpq_store.workload SET status = 'stopped', ended_at = greatest($2, submitted_at, created_at), cause = $3,"
	"         detail = $4"
	"   WHERE workload_id = $1 AND status = $6 RETURNING *)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, attempt, waiting, kind, status, actor,"
	"                             cause, detail)"
	" SELECT scope_id, ended_at, workload_id, shape, account_id, 0, CASE WHEN $6 = 'queued' THEN -1 ELSE 0 END,"
	"        'withdraw', status, $5, cause, detail FROM w",
	6, {INT8OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID}
};

static RpqStatement hide_workload = {
	"UPDATE rpq_store.workload SET hidden = true WHERE workload_id = $1 AND NOT hidden AND ended_at IS NOT NULL",
	1, {INT8OID}
};

#define LOAD_WORKLOAD \
	"SELECT account_id, status, scope_id, shape, priority, replicas, guarantee, checkpointable, workload_type," \
	"       resources, instance_types, max_runtime, name, attempt, tenant_id, submitted_at, not_before, labels," \
	"       greatest(created_at, submitted_at, started_at, running_at, ended_at)" \
	"  FROM rpq_store.workload WHERE workload_id = $1"

static RpqStatement load_workload = {LOAD_WORKLOAD, 1, {INT8OID}};

/* For what writes columns back that it has read: of two at once, the second sees what the first has stored. */
static RpqStatement take_workload = {LOAD_WORKLOAD " FOR NO KEY UPDATE", 1, {INT8OID}};

static RpqStatement enqueue_workload = {
	"UPDATE rpq_store.workload"
	"   SET status = 'queued', scope_id = $3, shape = $4, submitted_at = $5, priority = $6,"
	"       resources = $7, hidden = false, pool_id = NULL, type_id = NULL, policy_id = NULL, lender_id = NULL,"
	"       nodes = NULL, started_at = NULL, deadline = NULL, running_at = NULL, ended_at = NULL, cause = NULL,"
	"       detail = NULL, not_before = NULL"
	" WHERE workload_id = $1 AND status = $2",
	7, {INT8OID, TEXTOID, INT8OID, INT8OID, TIMESTAMPTZOID, INT2OID, RPQ_RESOURCES_ARG}
};

static RpqStatement edit_workload = {
	"UPDATE rpq_store.workload"
	"   SET priority = $4, max_runtime = $5, name = $6, labels = $7, shape = $8"
	" WHERE workload_id = $1 AND status = $2 AND shape = $3",
	8, {INT8OID, TEXTOID, INT8OID, INT2OID, INTERVALOID, TEXTOID, JSONBOID, INT8OID}
};

static RpqStatement record_change = {
	"SELECT rpq_store.record($1, 'workload', w.workload_id, w.name, w.tenant_id, w.scope_id, $3, $4)"
	"  FROM rpq_store.workload w WHERE w.workload_id = $2",
	4, {TEXTOID, INT8OID, JSONBOID, JSONBOID}
};

/* A workload's row as it was read. */
typedef struct WorkloadRow
{
	int64		id;
	const char *status;
	int			attempt;
	ShapeParts	parts;
	int64		shape;
	Interval	max_runtime;
	TimestampTz submitted_at;
	TimestampTz last_at;		/* the latest time in the row: what is written now is no earlier */
	TimestampTz not_before;
	char	   *name;
	Datum		labels;
	bool		has_labels;
} WorkloadRow;

static Datum
text_or_null(const char *value, char *null)
{
	*null = value == NULL ? 'n' : ' ';
	return value == NULL ? (Datum) 0 : CStringGetTextDatum(value);
}

void
check_duration(const char *what, const Interval *duration)
{
	Interval	zero = {0};
	int64		months = duration->month;
	int64		days = duration->day;

	if (DatumGetInt32(DirectFunctionCall2(interval_cmp, IntervalPGetDatum(duration), IntervalPGetDatum(&zero))) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be positive", what)));
	/* each part by itself, so that no order of adding them to a time leaves the range of times */
	if (Abs(months) > MAX_RUNTIME_YEARS * 12 || Abs(days) > MAX_RUNTIME_YEARS * 366 ||
		Abs(duration->time) / USECS_PER_DAY > MAX_RUNTIME_YEARS * 366)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be at most %d years", what, MAX_RUNTIME_YEARS)));
}

const char *
checked_on_node_loss(const char *value)
{
	if (value == NULL || strcmp(value, "requeue") == 0)
		return "requeue";
	if (strcmp(value, "fail") == 0)
		return "fail";
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("on_node_loss must be \"requeue\" or \"fail\""), errdetail("It is \"%s\".", value)));
	return NULL;
}

static int64
workload_argument(FunctionCallInfo fcinfo, const char *action)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("workload must be given")));
	return rpq_authorize_id(action, PG_GETARG_INT64(0));
}

/* Shows the row as it is now; the caller has been authorised for it. */
static WorkloadRow *
read_workload(int64 id, RpqStatement *statement)
{
	WorkloadRow *w = palloc0(sizeof(WorkloadRow));
	Datum		values[1] = {Int64GetDatum(id)};
	bool		isnull;
	Datum		value;

	if (rpq_exec(statement, values, NULL) == 0)
		rpq_no_such_id(KIND_WORKLOAD, id);
	w->id = id;
	w->parts.account_id = rpq_column_int64(0, 1, 0);
	w->status = rpq_column_text(0, 2);
	w->parts.scope_id = rpq_column_int64(0, 3, 0);
	w->shape = rpq_column_int64(0, 4, 0);
	w->parts.priority = (int) rpq_column_int64(0, 5, 0);
	w->parts.replicas = (int) rpq_column_int64(0, 6, 0);
	w->parts.guarantee = rpq_column_int64(0, 7, 0) != 0;
	w->parts.checkpointable = rpq_column_int64(0, 8, 0) != 0;
	w->parts.workload_type = rpq_column_text(0, 9);
	w->parts.resources = DatumGetResourcesPCopy(rpq_column(0, 10, &isnull));
	w->parts.ninstance_types = -1;
	value = rpq_column(0, 11, &isnull);
	if (!isnull)
	{
		ArrayType  *array = DatumGetArrayTypePCopy(value);

		w->parts.ninstance_types = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		w->parts.instance_types = (int64 *) ARR_DATA_PTR(array);
	}
	value = rpq_column(0, 12, &isnull);
	if (!isnull)
	{
		w->max_runtime = *DatumGetIntervalP(value);
		w->parts.max_runtime = &w->max_runtime;
	}
	w->name = rpq_column_text(0, 13);
	w->attempt = (int) rpq_column_int64(0, 14, 0);
	w->submitted_at = rpq_column_int64(0, 16, 0);
	value = rpq_column(0, 17, &isnull);
	if (!isnull)
	{
		w->not_before = DatumGetTimestampTz(value);
		w->parts.not_before = &w->not_before;
	}
	value = rpq_column(0, 18, &isnull);
	w->has_labels = !isnull;
	w->last_at = rpq_column_int64(0, 19, 0);
	w->labels = isnull ? (Datum) 0 : datumCopy(value, false, -1);
	return w;
}

void
record_if_administrative(const Caller *caller, int64 owner, const char *action, int64 id, Datum old, Datum new)
{
	Datum		values[4] = {CStringGetTextDatum(action), Int64GetDatum(id), old, new};
	char		nulls[5] = "    ";

	if (caller->account_id == owner)
		return;
	nulls[2] = old == 0 ? 'n' : ' ';
	nulls[3] = new == 0 ? 'n' : ' ';
	rpq_exec(&record_change, values, nulls);
}

Datum
status_object(const char *status)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(psprintf("{\"status\": \"%s\"}", status)));
}

/*
 * Ends a workload wherever it is: on nodes, in its lane, as a draft.  False when it had ended.
 */
static bool
stop_workload(int64 id, const char *cause, const char *reason, const char *actor)
{
	Datum		values[6];
	char		nulls[7] = "      ";

	values[0] = Int64GetDatum(id);
	values[1] = TimestampTzGetDatum(rpq_now());
	values[2] = text_or_null(cause, &nulls[2]);
	values[3] = text_or_null(reason, &nulls[3]);
	values[4] = text_or_null(actor, &nulls[4]);
	/* it may be admitted or requeued between two of these; it cannot go on doing so for ever */
	for (int round = 0; round < 3; round++)
	{
		if (rpq_exec(&stop_placed, values, nulls) > 0)
			return true;
		values[5] = CStringGetTextDatum("queued");
		if (rpq_exec(&stop_waiting, values, nulls) > 0)
			return true;
		values[5] = CStringGetTextDatum("draft");
		if (rpq_exec(&stop_waiting, values, nulls) > 0)
			return true;
	}
	return false;
}

Datum
rpq_stop(PG_FUNCTION_ARGS)
{
	int64		id;
	const Caller *caller;
	WorkloadRow *w;
	bool		stopped;

	SPI_connect();
	id = workload_argument(fcinfo, "stop");
	caller = rpq_known_caller();
	w = read_workload(id, &load_workload);
	stopped = stop_workload(id, "stopped", PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)),
							caller->actor);
	if (stopped)
		record_if_administrative(caller, w->parts.account_id, "stop", id, status_object(w->status),
								 status_object("stopped"));
	rpq_wake_for(w->parts.scope_id);
	SPI_finish();
	PG_RETURN_BOOL(stopped);
}

Datum
rpq_delete_workload(PG_FUNCTION_ARGS)
{
	int64		id;
	const Caller *caller;
	WorkloadRow *w;
	Datum		values[1];
	bool		hidden;

	SPI_connect();
	id = workload_argument(fcinfo, "delete_workload");
	caller = rpq_known_caller();
	w = read_workload(id, &load_workload);
	stop_workload(id, "stopped", NULL, caller->actor);
	values[0] = Int64GetDatum(id);
	hidden = rpq_exec(&hide_workload, values, NULL) > 0;
	if (hidden)
		record_if_administrative(caller, w->parts.account_id, "delete_workload", id, status_object(w->status),
								 (Datum) 0);
	rpq_wake_for(w->parts.scope_id);
	SPI_finish();
	PG_RETURN_BOOL(hidden);
}

static void
refuse_status(const WorkloadRow *w, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_WORKLOAD_STATUS),
			 errmsg("workload %lld cannot be %s", (long long) w->id, what),
			 errdetail("Its status is %s.", w->status)));
}

/* Where it is to wait: in what is named, else where it did. */
static ScopeFacts *
enqueue_facts(FunctionCallInfo fcinfo, const WorkloadRow *w, const Caller *caller)
{
	ObjectKind	kind = PG_ARGISNULL(1) ? KIND_QUEUE : KIND_POOL;
	char	   *name;
	ScopeFacts *facts;


	if (!PG_ARGISNULL(1) && !PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("pool and queue cannot both be given")));
	if (PG_ARGISNULL(1) && PG_ARGISNULL(2))
		return scope_facts_by_id(w->parts.account_id, w->parts.scope_id);
	name = text_to_cstring(PG_GETARG_TEXT_PP(kind == KIND_POOL ? 1 : 2));
	facts = kind == KIND_POOL ? pool_facts(w->parts.account_id, name, pool_part_now) :
		queue_facts(w->parts.account_id, name, pool_part_now);
	if (!facts->visible && !caller->platform_admin &&
		!(caller->org_admin && caller->tenant_id == facts->tenant_id))
		rpq_no_such_name(kind, name);
	return facts;
}

/*
 * The priority it had goes with it, as far as the pool it goes to allows; its size too, but in a queue, whose profile
 * sets it.
 */
static Request
request_of(const WorkloadRow *w, const ScopeFacts *facts)
{
	Request		request = {0};

	request.workload_type = w->parts.workload_type;
	request.resources = facts->is_queue ? facts->resources : w->parts.resources;
	request.replicas = w->parts.replicas;
	request.has_priority = true;
	request.priority = Min(w->parts.priority, facts->max_priority);
	request.guarantee = w->parts.guarantee;
	request.ninstance_types = w->parts.ninstance_types;
	request.instance_types = (int64 *) w->parts.instance_types;
	return request;
}

Datum
rpq_enqueue(PG_FUNCTION_ARGS)
{
	WorkloadRow *w;
	ScopeFacts *facts;
	Request		request;
	EntryRow	entry = {0};
	const Caller *caller;
	const char *status;
	Datum		values[7];
	int64		owner;

	SPI_connect();
	w = read_workload(workload_argument(fcinfo, "enqueue"), &load_workload);
	caller = rpq_known_caller();
	owner = w->parts.account_id;
	status = w->status;
	if (strcmp(status, "draft") != 0 && strcmp(status, "stopped") != 0 && strcmp(status, "failed") != 0)
		refuse_status(w, "enqueued");
	w = read_workload(w->id, &take_workload);
	if (strcmp(w->status, status) != 0)
	{
		/* somebody else enqueued it meanwhile */
		SPI_finish();
		PG_RETURN_BOOL(false);
	}
	facts = enqueue_facts(fcinfo, w, caller);
	request = request_of(w, facts);
	check_request(facts, &request, false);

	w->parts.scope_id = facts->scope_id;
	w->parts.resources = request.resources;
	w->parts.priority = request.priority;
	w->parts.not_before = NULL;
	entry.scope_id = facts->scope_id;
	entry.at = Max(rpq_now(), w->last_at);
	entry.workload_id = w->id;
	entry.shape = workload_shape(&w->parts);
	entry.submitted_at = entry.at;
	entry.account_id = owner;
	entry.attempt = w->attempt;
	entry.waiting = 1;
	entry.kind = "enqueue";
	entry.status = "queued";
	entry.actor = caller->actor;

	values[0] = Int64GetDatum(w->id);
	values[1] = CStringGetTextDatum(w->status);
	values[2] = Int64GetDatum(entry.scope_id);
	values[3] = Int64GetDatum(entry.shape);
	values[4] = TimestampTzGetDatum(entry.at);
	values[5] = Int16GetDatum(w->parts.priority);
	values[6] = ResourcesPGetDatum(w->parts.resources);
	if (rpq_exec(&enqueue_workload, values, NULL) != 1)
		elog(ERROR, "workload %lld was changed under its lock", (long long) w->id);
	write_entry(&entry);
	record_if_administrative(caller, owner, "enqueue", w->id, status_object(w->status), status_object("queued"));
	SPI_finish();
	PG_RETURN_BOOL(true);
}

/* -------------------------------------------------------------------- edit */

typedef struct Edit
{
	bool		changed;
	char	   *name;
	Datum		labels;
	bool		has_labels;
} Edit;

/* Applies the arguments to the row as read.  NULL stays as it is. */
static Edit
apply_edit(FunctionCallInfo fcinfo, WorkloadRow *w)
{
	Edit		edit = {false, w->name, w->labels, w->has_labels};

	if (!PG_ARGISNULL(1) && PG_GETARG_INT32(1) != w->parts.priority)
	{
		w->parts.priority = PG_GETARG_INT32(1);
		edit.changed = true;
	}
	if (!PG_ARGISNULL(2))
	{
		edit.name = rpq_check_name("name", text_to_cstring(PG_GETARG_TEXT_PP(2)));
		edit.changed = edit.changed || w->name == NULL || strcmp(edit.name, w->name) != 0;
	}
	if (!PG_ARGISNULL(3))
	{
		if (!JB_ROOT_IS_OBJECT(PG_GETARG_JSONB_P(3)))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("labels must be a json object")));
		edit.labels = PG_GETARG_DATUM(3);
		edit.has_labels = true;
		edit.changed = edit.changed || !w->has_labels ||
			!DatumGetBool(DirectFunctionCall2(jsonb_eq, edit.labels, w->labels));
	}
	if (!PG_ARGISNULL(4))
	{
		Interval   *max_runtime = PG_GETARG_INTERVAL_P(4);

		check_duration("max_runtime", max_runtime);
		if (w->parts.max_runtime == NULL || memcmp(max_runtime, w->parts.max_runtime, sizeof(Interval)) != 0)
		{
			w->max_runtime = *max_runtime;
			w->parts.max_runtime = &w->max_runtime;
			edit.changed = true;
		}
	}
	return edit;
}

static void
store_edit(const WorkloadRow *w, const Edit *edit, int64 shape)
{
	Datum		values[8];
	char		nulls[9] = "        ";

	values[0] = Int64GetDatum(w->id);
	values[1] = CStringGetTextDatum(w->status);
	values[2] = Int64GetDatum(w->shape);
	values[3] = Int16GetDatum(w->parts.priority);
	values[4] = IntervalPGetDatum(w->parts.max_runtime);
	nulls[4] = w->parts.max_runtime == NULL ? 'n' : ' ';
	values[5] = text_or_null(edit->name, &nulls[5]);
	values[6] = edit->labels;
	nulls[6] = edit->has_labels ? ' ' : 'n';
	values[7] = Int64GetDatum(shape);
	if (rpq_exec(&edit_workload, values, nulls) != 1)
		elog(ERROR, "workload %lld was changed under its lock", (long long) w->id);
}

/* A queued workload whose shape changed leaves one lane and joins another, with its submission time. */
static void
change_lane(const WorkloadRow *w, int64 shape, const char *actor)
{
	EntryRow	entry = {0};

	entry.scope_id = w->parts.scope_id;
	entry.at = Max(rpq_now(), w->last_at);
	entry.workload_id = w->id;
	entry.shape = w->shape;
	entry.account_id = w->parts.account_id;
	entry.attempt = w->attempt;
	entry.waiting = -1;
	entry.kind = "edit";
	entry.status = "queued";
	entry.actor = actor;
	write_entry(&entry);
	entry.shape = shape;
	entry.waiting = 1;
	entry.submitted_at = w->submitted_at;
	write_entry(&entry);
}

static Datum
edit_object(const WorkloadRow *w, const char *name, bool has_labels, Datum labels)
{
	static RpqStatement statement = {
		"SELECT jsonb_build_object('priority', $1, 'name', $2, 'labels', $3, 'max_runtime', $4::text)",
		4, {INT4OID, TEXTOID, JSONBOID, INTERVALOID}
	};
	Datum		values[4] = {
		Int32GetDatum(w->parts.priority), (Datum) 0, labels, IntervalPGetDatum(w->parts.max_runtime)
	};
	char		nulls[5] = "    ";
	bool		isnull;

	values[1] = text_or_null(name, &nulls[1]);
	nulls[2] = has_labels ? ' ' : 'n';
	nulls[3] = w->parts.max_runtime == NULL ? 'n' : ' ';
	rpq_exec(&statement, values, nulls);
	return datumCopy(rpq_column(0, 1, &isnull), false, -1);
}

static bool
edit(FunctionCallInfo fcinfo, int64 id, const Caller *caller)
{
	WorkloadRow *w = read_workload(id, &take_workload);
	Datum		old = edit_object(w, w->name, w->has_labels, w->labels);
	int			priority = w->parts.priority;
	Edit		edit;
	int64		shape;

	if (strcmp(w->status, "draft") != 0 && strcmp(w->status, "queued") != 0)
		refuse_status(w, "edited");
	edit = apply_edit(fcinfo, w);
	if (!edit.changed)
		return false;
	if (priority != w->parts.priority)
	{
		/* what a draft may have is checked where it is enqueued */
		if (strcmp(w->status, "draft") == 0)
			check_priority_range(w->parts.priority);
		else
			check_priority(scope_facts_by_id(w->parts.account_id, w->parts.scope_id), w->parts.priority);
	}
	shape = workload_shape(&w->parts);
	store_edit(w, &edit, shape);
	if (shape != w->shape && strcmp(w->status, "queued") == 0)
		change_lane(w, shape, caller->actor);
	record_if_administrative(caller, w->parts.account_id, "edit_workload", id, old,
							 edit_object(w, edit.name, edit.has_labels, edit.labels));
	return true;
}

Datum
rpq_edit_workload(PG_FUNCTION_ARGS)
{
	int64		id;
	bool		changed;

	SPI_connect();
	id = workload_argument(fcinfo, "edit_workload");
	changed = edit(fcinfo, id, rpq_known_caller());
	SPI_finish();
	rpq_wake_at_commit();
	PG_RETURN_BOOL(changed);
}

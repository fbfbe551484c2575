/*
 * submit.c
 *
 * rpq.submit: from a call to one row of workload and one entry.
 *
 * Writes workload (a new row) and entry.  Waits for nobody but a second submission with the same request_id.  What is
 * looked up about the account and the pool or queue is kept while the configuration stays as it is (config_cache.c).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/sha2.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "api/admission_check.h"
#include "api/api.h"
#include "api/config_cache.h"
#include "api/entry.h"
#include "api/workload.h"
#include "errors.h"
#include "rpq.h"
#include "store/row_writer.h"
#include "store/shape.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_submit);

enum SubmitArgument
{
	ARG_POOL, ARG_QUEUE, ARG_WORKLOAD_TYPE, ARG_RESOURCES, ARG_INSTANCE_TYPES, ARG_NAME, ARG_REPLICAS, ARG_PRIORITY,
	ARG_GUARANTEE, ARG_MAX_RUNTIME, ARG_CHECKPOINTABLE, ARG_ON_NODE_LOSS, ARG_REQUEST_ID, ARG_LABELS, ARG_SPEC,
	ARG_DRAFT, ARG_ACCOUNT
};

/* Who submits, for whom, where. */
typedef struct Submitter
{
	const Caller *caller;
	int64		account_id;
	const ScopeFacts *facts;
} Submitter;

static RowWriter workloads = {
	"workload", "workload_id",
	{"tenant_id", "scope_id", "account_id", "shape", "submitted_at", "created_at", "replicas", "priority", "guarantee",
	 "checkpointable", "status", "workload_type", "resources", "instance_types", "name", "on_node_loss", "max_runtime",
	 "labels", "spec", "attempt", "preemptions", "hidden"}
};

/* With a request_id two sessions may meet: the second waits for the first, and then has nothing to insert. */
static RpqStatement insert_once = {
	"INSERT INTO rpq_store.workload (tenant_id, scope_id, account_id, shape, submitted_at, created_at, replicas,"
	"    priority, guarantee, checkpointable, status, workload_type, resources, instance_types, name, on_node_loss,"
	"    max_runtime, labels, spec, request_id, request_digest)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)"
	" ON CONFLICT (account_id, request_id) WHERE request_id IS NOT NULL DO NOTHING RETURNING workload_id",
	21, {INT8OID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID, INT2OID, BOOLOID, BOOLOID,
		 TEXTOID, TEXTOID, RPQ_RESOURCES_ARG, INT8ARRAYOID, TEXTOID, TEXTOID, INTERVALOID, JSONBOID, JSONBOID, TEXTOID,
		 BYTEAOID}
};

static RpqStatement find_request = {
	"SELECT workload_id, request_digest FROM rpq_store.workload WHERE account_id = $1 AND request_id = $2",
	2, {INT8OID, TEXTOID}
};

static RpqStatement find_workload_type = {
	"SELECT FROM rpq_store.workload_type w JOIN rpq_store.account a ON a.tenant_id = w.tenant_id"
	" WHERE a.account_id = $1 AND w.name = $2",
	2, {INT8OID, TEXTOID}
};

static RpqStatement find_account = {
	"SELECT a.account_id FROM rpq_store.account a JOIN rpq_store.tenant t ON t.tenant_id = a.tenant_id"
	" WHERE a.name = $2 AND a.deleted_at IS NULL AND ($1 = 0 OR a.tenant_id = $1) AND ($3 IS NULL OR t.name = $3)",
	3, {INT8OID, TEXTOID, TEXTOID}
};

static RpqStatement find_type = {
	"SELECT type_id FROM rpq_store.instance_type WHERE name = $1", 1, {TEXTOID}
};

static void
refuse_argument(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be given", name)));
}

static char *
text_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/*
 * Another account may be named by a platform admin, by a gateway within its tenant, and by itself; everybody else is
 * told the same of accounts that exist and of those that do not.
 */
static int64
named_account(const Caller *caller, const char *name)
{
	char	   *tenant = NULL;
	char	   *account = rpq_split_name("account", name, &tenant);
	Datum		values[3];
	char		nulls[4] = "   ";
	bool		may = caller->platform_admin || caller->gateway;
	Object		object;
	uint64		rows;
	int64		found;

	values[0] = Int64GetDatum(caller->platform_admin ? 0 : caller->tenant_id);
	values[1] = CStringGetTextDatum(account);
	nulls[2] = tenant == NULL ? 'n' : ' ';
	values[2] = tenant == NULL ? (Datum) 0 : CStringGetTextDatum(tenant);
	rows = rpq_exec(&find_account, values, nulls);
	found = rows == 1 ? rpq_column_int64(0, 1, 0) : 0;
	if (rows > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("account \"%s\" exists in several tenants", account),
				 errhint("Name the tenant: 'tenant/account'.")));
	if (found != 0 && (may || found == caller->account_id))
		return found;
	if (may || (tenant != NULL && (!rpq_object_by_name(caller, KIND_TENANT, tenant, &object) ||
								   !rpq_sees(caller, &object))))
		rpq_no_such_name(KIND_ACCOUNT, name);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied to act for another account")));
	return 0;
}

static Submitter
look_up(FunctionCallInfo fcinfo)
{
	Submitter	submitter;

	submitter.caller = config_caller();
	submitter.account_id = PG_ARGISNULL(ARG_ACCOUNT) ? submitter.caller->account_id :
		named_account(submitter.caller, text_argument(fcinfo, ARG_ACCOUNT));
	if (submitter.account_id == 0)
		refuse_argument("account");
	if (PG_ARGISNULL(ARG_QUEUE))
		submitter.facts = config_pool_facts(submitter.account_id, text_argument(fcinfo, ARG_POOL));
	else
		submitter.facts = config_queue_facts(submitter.account_id, text_argument(fcinfo, ARG_QUEUE));
	/* whoever sees it is told that the account has no right there; everybody else, that there is nothing of the name */
	if (!submitter.facts->visible && !submitter.caller->platform_admin)
		rpq_no_such_name(submitter.facts->is_queue ? KIND_QUEUE : KIND_POOL,
						 text_argument(fcinfo, submitter.facts->is_queue ? ARG_QUEUE : ARG_POOL));
	return submitter;
}

bool
workload_type_exists(int64 account_id, const char *name)
{
	Datum		values[2] = {Int64GetDatum(account_id), CStringGetTextDatum(name)};

	return rpq_exec(&find_workload_type, values, NULL) > 0;
}

static char *
checked_workload_type(FunctionCallInfo fcinfo, int64 account_id)
{
	char	   *name = text_argument(fcinfo, ARG_WORKLOAD_TYPE);

	if (!config_workload_type(account_id, name))
		rpq_no_such_name(KIND_WORKLOAD_TYPE, name);
	return name;
}

static int
order_int64(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* Names to ids, ascending, each once, so that the same set is the same shape. */
static void
checked_instance_types(FunctionCallInfo fcinfo, Request *request)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	int			kept = 0;

	request->ninstance_types = -1;
	if (PG_ARGISNULL(ARG_INSTANCE_TYPES))
		return;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(ARG_INSTANCE_TYPES), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, &nulls, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("instance_types must name at least one instance type"),
				 errhint("NULL means any instance type of the pool.")));
	request->instance_types = palloc(sizeof(int64) * n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("instance_types must not contain NULL")));
		if (rpq_exec(&find_type, &elements[i], NULL) == 0)
			rpq_no_such_name(KIND_INSTANCE_TYPE, TextDatumGetCString(elements[i]));
		request->instance_types[i] = rpq_column_int64(0, 1, 0);
	}
	qsort(request->instance_types, n, sizeof(int64), order_int64);
	for (int i = 0; i < n; i++)
	{
		if (kept == 0 || request->instance_types[kept - 1] != request->instance_types[i])
			request->instance_types[kept++] = request->instance_types[i];
	}
	request->ninstance_types = kept;
}

static void
check_other_arguments(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(ARG_POOL) && PG_ARGISNULL(ARG_QUEUE))
		refuse_argument("pool or queue");
	if (!PG_ARGISNULL(ARG_POOL) && !PG_ARGISNULL(ARG_QUEUE))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("pool and queue cannot both be given")));
	if (PG_ARGISNULL(ARG_WORKLOAD_TYPE))
		refuse_argument("workload_type");
	if (PG_ARGISNULL(ARG_QUEUE) && PG_ARGISNULL(ARG_RESOURCES))
		refuse_argument("resources");
	if (!PG_ARGISNULL(ARG_QUEUE) && !PG_ARGISNULL(ARG_RESOURCES))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("resources cannot be given with a queue"),
				 errdetail("The queue's profile sets what each replica takes."),
				 errhint("rpq.queues shows it; replicas may be given.")));
	for (int arg = ARG_LABELS; arg <= ARG_SPEC; arg++)
	{
		if (!PG_ARGISNULL(arg) && !JB_ROOT_IS_OBJECT(PG_GETARG_JSONB_P(arg)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s must be a json object", arg == ARG_LABELS ? "labels" : "spec")));
	}
	if (!PG_ARGISNULL(ARG_MAX_RUNTIME))
		check_duration("max_runtime", PG_GETARG_INTERVAL_P(ARG_MAX_RUNTIME));
}

/* What a request_id stands for: every argument but the account, as it was given. */
static Datum
request_digest(FunctionCallInfo fcinfo)
{
	Digest	   *digest = digest_start();
	bytea	   *out = palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH);

	for (int i = 0; i < ARG_ACCOUNT; i++)
	{
		Oid			type = get_fn_expr_argtype(fcinfo->flinfo, i);
		bool		by_value = i == ARG_REPLICAS || i == ARG_PRIORITY || i == ARG_GUARANTEE ||
			i == ARG_CHECKPOINTABLE || i == ARG_DRAFT;

		if (PG_ARGISNULL(i) || i == ARG_REQUEST_ID)
			digest_add(digest, "", 0);
		else if (by_value)
		{
			int64		value = type == BOOLOID ? PG_GETARG_BOOL(i) : PG_GETARG_INT32(i);

			digest_add(digest, &value, sizeof(value));
		}
		else if (i == ARG_MAX_RUNTIME)
			digest_add(digest, PG_GETARG_INTERVAL_P(i), sizeof(Interval));
		else
		{
			struct varlena *value = PG_DETOAST_DATUM(PG_GETARG_DATUM(i));

			digest_add(digest, VARDATA(value), VARSIZE(value) - VARHDRSZ);
		}
	}
	SET_VARSIZE(out, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	digest_finish(digest, (uint8 *) VARDATA(out));
	return PointerGetDatum(out);
}

/* The workload of an earlier submission with this request_id; 0 when there is none. */
static int64
earlier_request(int64 account_id, const char *request_id, Datum digest)
{
	Datum		values[2] = {Int64GetDatum(account_id), CStringGetTextDatum(request_id)};
	bool		isnull;
	Datum		stored;

	if (rpq_exec(&find_request, values, NULL) == 0)
		return 0;
	stored = rpq_column(0, 2, &isnull);
	if (isnull || !DatumGetBool(DirectFunctionCall2(byteaeq, stored, digest)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("request_id \"%s\" was used for a different request", request_id),
				 errdetail("It stands for workload %lld.", (long long) rpq_column_int64(0, 1, 0))));
	return rpq_column_int64(0, 1, 0);
}

static int64
insert_with_request(Datum *values, const bool *nulls, const char *request_id, Datum digest)
{
	char		null_marks[22];

	for (int i = 0; i < 19; i++)
		null_marks[i] = nulls[i] ? 'n' : ' ';
	null_marks[19] = null_marks[20] = ' ';
	null_marks[21] = '\0';
	values[19] = CStringGetTextDatum(request_id);
	values[20] = digest;
	return rpq_exec(&insert_once, values, null_marks) == 0 ? 0 : rpq_column_int64(0, 1, 0);
}

static int64
store_workload(FunctionCallInfo fcinfo, const ScopeFacts *facts, const Request *request, const char *name,
			   const char *request_id, Datum digest, int64 *shape, TimestampTz now)
{
	bool		draft = !PG_ARGISNULL(ARG_DRAFT) && PG_GETARG_BOOL(ARG_DRAFT);
	bool		checkpointable = !PG_ARGISNULL(ARG_CHECKPOINTABLE) && PG_GETARG_BOOL(ARG_CHECKPOINTABLE);
	ShapeParts	parts = {facts->scope_id, facts->account_id, request->priority, request->replicas, request->guarantee,
		checkpointable, request->workload_type, request->resources, request->ninstance_types, request->instance_types,
		PG_ARGISNULL(ARG_MAX_RUNTIME) ? NULL : PG_GETARG_INTERVAL_P(ARG_MAX_RUNTIME), NULL};
	Datum		values[22];
	bool		nulls[22] = {false};

	*shape = workload_shape(&parts);
	values[0] = Int64GetDatum(facts->tenant_id);
	values[1] = Int64GetDatum(facts->scope_id);
	values[2] = Int64GetDatum(facts->account_id);
	values[3] = Int64GetDatum(*shape);
	values[4] = TimestampTzGetDatum(now);
	nulls[4] = draft;
	values[5] = TimestampTzGetDatum(now);
	values[6] = Int32GetDatum(request->replicas);
	values[7] = Int16GetDatum(request->priority);
	values[8] = BoolGetDatum(request->guarantee);
	values[9] = BoolGetDatum(checkpointable);
	values[10] = CStringGetTextDatum(draft ? "draft" : "queued");
	values[11] = CStringGetTextDatum(request->workload_type);
	values[12] = ResourcesPGetDatum(request->resources);
	nulls[13] = request->ninstance_types < 0;
	values[13] = nulls[13] ? (Datum) 0 : rpq_int8_array(request->instance_types, request->ninstance_types);
	nulls[14] = name == NULL;
	values[14] = name == NULL ? (Datum) 0 : CStringGetTextDatum(name);
	values[15] = CStringGetTextDatum(checked_on_node_loss(text_argument(fcinfo, ARG_ON_NODE_LOSS)));
	nulls[16] = PG_ARGISNULL(ARG_MAX_RUNTIME);
	values[16] = PG_GETARG_DATUM(ARG_MAX_RUNTIME);
	for (int i = 0; i < 2; i++)
	{
		nulls[17 + i] = PG_ARGISNULL(ARG_LABELS + i);
		values[17 + i] = PG_GETARG_DATUM(ARG_LABELS + i);
	}
	if (request_id != NULL)
		return insert_with_request(values, nulls, request_id, digest);
	values[19] = Int32GetDatum(0);
	values[20] = Int32GetDatum(0);
	values[21] = BoolGetDatum(false);
	return row_writer_insert(&workloads, values, nulls);
}

static int64
submit(FunctionCallInfo fcinfo)
{
	Submitter	submitter = look_up(fcinfo);
	char	   *request_id = text_argument(fcinfo, ARG_REQUEST_ID);
	char	   *name = text_argument(fcinfo, ARG_NAME);
	Datum		digest = request_id == NULL ? (Datum) 0 : request_digest(fcinfo);
	bool		draft = !PG_ARGISNULL(ARG_DRAFT) && PG_GETARG_BOOL(ARG_DRAFT);
	TimestampTz now = rpq_now();
	Request		request = {0};
	EntryRow	entry = {0};
	int64		id;

	if (request_id != NULL)
	{
		request_id = rpq_check_name("request_id", request_id);
		id = earlier_request(submitter.account_id, request_id, digest);
		if (id != 0)
			return id;
	}
	request.workload_type = checked_workload_type(fcinfo, submitter.account_id);
	request.resources = submitter.facts->is_queue ? submitter.facts->resources :
		PG_GETARG_RESOURCES_P(ARG_RESOURCES);
	request.replicas = PG_ARGISNULL(ARG_REPLICAS) ? 1 : PG_GETARG_INT32(ARG_REPLICAS);
	request.has_priority = !PG_ARGISNULL(ARG_PRIORITY);
	request.priority = request.has_priority ? PG_GETARG_INT32(ARG_PRIORITY) : 0;
	request.guarantee = !PG_ARGISNULL(ARG_GUARANTEE) && PG_GETARG_BOOL(ARG_GUARANTEE);
	checked_instance_types(fcinfo, &request);
	check_request(submitter.facts, &request, draft);
	name = name == NULL ? NULL : rpq_check_name("name", name);
	id = store_workload(fcinfo, submitter.facts, &request, name, request_id, digest, &entry.shape, now);
	if (id == 0)
		return earlier_request(submitter.account_id, request_id, digest);

	entry.scope_id = submitter.facts->scope_id;
	entry.at = now;
	entry.workload_id = id;
	entry.submitted_at = now;
	entry.account_id = submitter.account_id;
	entry.waiting = draft ? 0 : 1;
	entry.kind = draft ? "draft" : "enqueue";
	entry.status = draft ? "draft" : "queued";
	entry.actor = submitter.caller->actor;
	write_entry(&entry);
	return id;
}

Datum
rpq_submit(PG_FUNCTION_ARGS)
{
	int64		id;

	check_other_arguments(fcinfo);
	SPI_connect();
	id = submit(fcinfo);
	SPI_finish();
	PG_RETURN_INT64(id);
}

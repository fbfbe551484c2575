/*
 * explain.c
 *
 * rpq.explain: the real checks on the present snapshot, one row each.
 *
 * Reads what a cycle reads, at the caller's snapshot, with the uncounted entries counted in memory; locks and writes
 * nothing.  The World is that of the whole connected set, with all that waits in it, since those ahead keep room back;
 * the workload has a lane of its own in it.  A draft is looked at as if it were queued now.
 *
 * Ids and names of workloads that the reader may not see are left out.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/sentence.h"
#include "rpq.h"
#include "store/cycle.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_explain);

/* Its shape, and where it stands.  gone: what it would wait in is no longer there. */
static RpqStatement load_waiting = {
	"SELECT w.scope_id, w.shape, w.account_id, w.priority, w.guarantee, w.checkpointable, w.replicas, w.workload_type,"
	"       w.resources, w.instance_types, w.max_runtime, w.not_before,"
	"       CASE w.status WHEN 'queued' THEN w.submitted_at END, w.workload_id,"
	"       (SELECT format('queue \"%s\"', q.name) FROM rpq_store.queue q"
	"         WHERE q.queue_id = w.scope_id AND q.deleted_at IS NOT NULL"
	"         UNION ALL"
	"        SELECT format('pool \"%s\"', p.name) FROM rpq_store.pool p"
	"         WHERE p.pool_id = w.scope_id AND p.status = 'deleted') AS gone"
	"  FROM rpq_store.workload w WHERE w.workload_id = $1 AND w.status IN ('queued', 'draft')",
	1, {INT8OID}
};

/* What stands on a node; only the names of what the reader may see.  $3: the tenant that it administers, or 0. */
static RpqStatement load_pods = {
	"SELECT count(*), w.workload_id, w.name, w.resources,"
	"       w.account_id = $2 OR w.tenant_id = $3 OR rpq_store.is_platform_admin()"
	"         OR ARRAY[w.scope_id, w.pool_id] && rpq_store.administered_pools() AS seen"
	"  FROM rpq_store.pod p JOIN rpq_store.workload w ON w.workload_id = p.workload_id"
	" WHERE p.node_id = $1 AND w.ended_at IS NULL"
	" GROUP BY w.workload_id ORDER BY 5 DESC, w.priority, w.started_at DESC, w.workload_id",
	3, {INT8OID, INT8OID, INT8OID}
};

typedef struct Explained
{
	ReturnSetInfo *rsinfo;
	const Caller *reader;
	Book	   *book;
	int			step;
} Explained;

/* The workload that is asked for. */
typedef struct Waiting
{
	LaneRow		shape;
	bool		queued;			/* else a draft */
	TimestampTz submitted_at;
	int64		workload_id;
	char	   *gone;
} Waiting;

#define MOST_NAMED 5

/* The way out, and what would have to leave the node that needs least. */
static char *
way_out_with_pods(const Explained *ex, const Check *check)
{
	Datum		values[3];
	uint64		rows;
	StringInfoData text;
	int			named = 0;
	const char *first = strstr(check->way_out, "node \"");
	const char *on = "it";

	/* where the way out speaks of several nodes, which one it is */
	if (first != NULL && strstr(first + 1, "node \"") != NULL)
		on = psprintf("node \"%s\"", ex->book->world->nodes[check->node].name);
	values[0] = Int64GetDatum(ex->book->world->nodes[check->node].node_id);
	values[1] = Int64GetDatum(ex->reader->account_id);
	values[2] = Int64GetDatum(ex->reader->org_admin ? ex->reader->tenant_id : 0);
	rows = rpq_exec_at(&load_pods, values, NULL, ex->book->snapshot, true);

	initStringInfo(&text);
	appendStringInfoString(&text, check->way_out);
	for (; named < Min(rows, MOST_NAMED) && rpq_column_int64(named, 5, 0) != 0; named++)
	{
		char	   *name = rpq_column_text(named, 3);
		bool		isnull;
		Resources  *resources = DatumGetResourcesP(rpq_column(named, 4, &isnull));
		int64		pods = rpq_column_int64(named, 1, 1);

		appendStringInfo(&text, "%s workload %lld", named == 0 ? psprintf("; on %s:", on) : ",",
						 (long long) rpq_column_int64(named, 2, 0));
		if (name != NULL)
			appendStringInfo(&text, " \"%s\"", name);
		appendStringInfo(&text, " (%s", resources_text(resources));
		if (pods > 1)
			appendStringInfo(&text, ", %lld replicas", (long long) pods);
		appendStringInfoChar(&text, ')');
	}
	if (rows > (uint64) named)
		appendStringInfo(&text, "%s %lld %s%s",
						 named > 0 ? " and" : psprintf("; on %s:", on),
						 (long long) (rows - named), named == 0 ? "" : "more ",
						 rows - named == 1 ? "workload" : "workloads");
	SPI_freetuptable(SPI_tuptable);
	return text.data;
}

static void
put_check(Explained *ex, const Check *check)
{
	Book	   *book = ex->book;
	const char *detail = sentence_for(ex->reader, check->detail);
	const char *way_out = sentence_for(ex->reader, check->way_out);
	Datum		values[7];
	bool		nulls[7] = {false};

	if (way_out != NULL && check->node >= 0)
		way_out = way_out_with_pods(ex, check);
	values[0] = Int32GetDatum(++ex->step);
	values[1] = CStringGetTextDatum(reason_code_name(check->code));
	values[2] = BoolGetDatum(check->passed);
	nulls[3] = check->wanted == NULL;
	values[3] = check->wanted == NULL ? (Datum) 0 : ResourcesPGetDatum(book_resources(book, check->wanted));
	nulls[4] = check->available == NULL;
	/* in the keys that are wanted; one that the limit lacks is not bounded, and not shown */
	values[4] = check->available == NULL ? (Datum) 0 :
		ResourcesPGetDatum(check->wanted == NULL ? book_resources(book, check->available) :
						   world_resources(book->world, check->available, check->wanted, check->available));
	nulls[5] = detail == NULL;
	values[5] = detail == NULL ? (Datum) 0 : CStringGetTextDatum(detail);
	nulls[6] = way_out == NULL;
	values[6] = way_out == NULL ? (Datum) 0 : CStringGetTextDatum(way_out);
	tuplestore_putvalues(ex->rsinfo->setResult, ex->rsinfo->setDesc, values, nulls);
}

/* A check that no World is needed for. */
static void
put_plain(Explained *ex, ReasonCode code, const char *detail, const char *way_out)
{
	Check		check = {code, -1, -1, false, false, NULL, NULL, detail, way_out, -1};

	put_check(ex, &check);
}

/* A lane of its own for the workload, beside the one that it is in, under a shape that no other lane has. */
static LaneKey
add_own_lane(Book *book, const Waiting *waiting)
{
	LaneKey		key = waiting->shape.key;
	LaneRow    *lane;

	do
		key.shape = (int64) ((uint64) key.shape + 1);
	while (hash_search(book->lanes, &key, HASH_FIND, NULL) != NULL);
	lane = book_lane(book, key.scope_id, key.shape);
	*lane = waiting->shape;
	lane->key = key;
	lane->waiting = 1;
	lane->head_at = waiting->queued ? waiting->submitted_at : book->now;
	lane->head_id = waiting->workload_id;
	lane->has_head = true;
	return key;
}

static Lane *
find_lane(World *world, LaneKey key)
{
	for (int i = 0; i < world->nlanes; i++)
	{
		if (world->lanes[i].scope_id == key.scope_id && world->lanes[i].shape == key.shape)
			return &world->lanes[i];
	}
	return NULL;
}

/*
 * The lane that the workload is in goes on without it: when it is the first there, that lane is not ahead.  What is
 * held for it is held for its own lane.
 */
static void
part_lanes(World *world, const Waiting *waiting, Lane *own)
{
	Lane	   *former = find_lane(world, waiting->shape.key);
	Member		first;

	for (int i = 0; i < world->nholds; i++)
	{
		if (world->holds[i].member.workload_id == waiting->workload_id)
			world->holds[i].lane = own;
	}
	if (former == NULL)
		return;
	if (world->read_members(world, former, NULL, 1, &first) == 0 || first.workload_id == waiting->workload_id)
		former->waiting = 0;
	else
	{
		former->head_at = first.submitted_at;
		former->head_id = first.workload_id;
	}
}

static void
explain_workload(Explained *ex, const Waiting *waiting)
{
	const int64 scope_id = waiting->shape.key.scope_id;
	Check	   *checks;
	LaneKey		key;
	Lane	   *own;
	int			n;

	ex->book = cycle_open(&scope_id, 1, CYCLE_LOOK);
	key = add_own_lane(ex->book, waiting);
	book_load_nodes(ex->book, true);
	book_build_world(ex->book, 0);
	own = find_lane(ex->book->world, key);
	part_lanes(ex->book->world, waiting, own);
	n = explain_lane(ex->book->world, (int) (own - ex->book->world->lanes), &checks);
	for (int i = 0; i < n; i++)
		put_check(ex, &checks[i]);
	cycle_close(ex->book);
}

static void
take_waiting(Waiting *waiting)
{
	bool		isnull;
	Datum		submitted_at = rpq_column(0, 13, &isnull);

	book_take_lane(&waiting->shape, 0);
	waiting->queued = !isnull;
	waiting->submitted_at = isnull ? 0 : DatumGetTimestampTz(submitted_at);
	waiting->workload_id = rpq_column_int64(0, 14, 0);
	waiting->gone = rpq_column_text(0, 15);
	SPI_freetuptable(SPI_tuptable);
}

Datum
rpq_explain(PG_FUNCTION_ARGS)
{
	Explained	ex = {(ReturnSetInfo *) fcinfo->resultinfo};
	Waiting		waiting;
	Datum		values[1];

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("workload must be given")));
	SPI_connect();
	values[0] = Int64GetDatum(rpq_authorize_id("explain", PG_GETARG_INT64(0)));
	ex.reader = rpq_known_caller();
	if (rpq_read(&load_waiting, values, NULL) > 0)
	{
		take_waiting(&waiting);
		if (rpq_is_fenced())
			put_plain(&ex, REASON_FENCED, "this database is a copy: nothing is decided in it", "rpq.adopt_database()");
		if (waiting.gone != NULL)
			put_plain(&ex, REASON_NOT_AUTHORIZED, psprintf("%s was deleted", waiting.gone),
					  "can never run as things are set: queue it elsewhere with rpq.enqueue()");
		else
			explain_workload(&ex, &waiting);
	}
	SPI_finish();
	PG_RETURN_NULL();
}

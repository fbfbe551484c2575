/*
 * explain.c
 *
 * rpq.explain: the real checks on the present snapshot, one row each.
 *
 * Reads what a cycle reads, at the caller's snapshot, with the uncounted entries counted in memory; locks and writes
 * nothing.  The World has one lane, that of the workload; a draft is looked at as if it were queued.
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
#include "rpq.h"
#include "store/cycle.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_explain);

static RpqStatement load_waiting = {
	"SELECT scope_id, shape, account_id, priority, guarantee, checkpointable, replicas, workload_type, resources,"
	"       instance_types, max_runtime, not_before"
	"  FROM rpq_store.workload WHERE workload_id = $1 AND status IN ('queued', 'draft')",
	1, {INT8OID}
};

/* What stands on a node; only the names of what the reader may see. */
static RpqStatement load_pods = {
	"SELECT count(*), w.workload_id, w.name, w.resources,"
	"       w.account_id = $2 OR w.scope_id = ANY (rpq_store.administered_pools())"
	"         OR rpq_store.is_platform_admin() AS seen"
	"  FROM rpq_store.pod p JOIN rpq_store.workload w ON w.workload_id = p.workload_id"
	" WHERE p.node_id = $1 AND w.ended_at IS NULL"
	" GROUP BY w.workload_id ORDER BY 5 DESC, w.priority, w.started_at DESC, w.workload_id",
	2, {INT8OID, INT8OID}
};

#define MOST_NAMED 5

/* The way out, and what would have to leave the node that needs least. */
static char *
way_out_with_pods(Book *book, const Check *check, int64 account_id)
{
	Datum		values[2] = {Int64GetDatum(book->world->nodes[check->node].node_id), Int64GetDatum(account_id)};
	uint64		rows = rpq_exec_at(&load_pods, values, NULL, book->snapshot, true);
	StringInfoData text;
	int			named = 0;

	initStringInfo(&text);
	appendStringInfoString(&text, check->way_out);
	for (; named < Min(rows, MOST_NAMED) && rpq_column_int64(named, 5, 0) != 0; named++)
	{
		char	   *name = rpq_column_text(named, 3);
		bool		isnull;
		Resources  *resources = DatumGetResourcesP(rpq_column(named, 4, &isnull));
		int64		pods = rpq_column_int64(named, 1, 1);

		appendStringInfo(&text, "%s %lld", named == 0 ? "; on it: workload" : ", workload",
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
						 named > 0 ? " and" : "; on it:",
						 (long long) (rows - named), named == 0 ? "" : "more ",
						 rows - named == 1 ? "workload" : "workloads");
	SPI_freetuptable(SPI_tuptable);
	return text.data;
}

/* The lane of the workload, alone: every other is put out of sight. */
static void
only_lane(Book *book, const LaneRow *shape)
{
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
		lane->waiting = 0;
	lane = book_lane(book, shape->key.scope_id, shape->key.shape);
	*lane = *shape;
	lane->waiting = 1;
}

static void
put_check(ReturnSetInfo *rsinfo, Book *book, int step, const Check *check, int64 account_id)
{
	Datum		values[7];
	bool		nulls[7] = {false};

	values[0] = Int32GetDatum(step);
	values[1] = CStringGetTextDatum(reason_code_name(check->code));
	values[2] = BoolGetDatum(check->passed);
	nulls[3] = check->wanted == NULL;
	values[3] = check->wanted == NULL ? (Datum) 0 : ResourcesPGetDatum(book_resources(book, check->wanted));
	nulls[4] = check->available == NULL;
	/* in the keys that are wanted; one that the limit lacks is not bounded, and not shown */
	values[4] = check->available == NULL ? (Datum) 0 :
		ResourcesPGetDatum(check->wanted == NULL ? book_resources(book, check->available) :
						   world_resources(book->world, check->available, check->wanted, check->available));
	nulls[5] = check->detail == NULL;
	values[5] = check->detail == NULL ? (Datum) 0 : CStringGetTextDatum(check->detail);
	nulls[6] = check->way_out == NULL;
	values[6] = check->way_out == NULL ? (Datum) 0 :
		CStringGetTextDatum(check->node < 0 ? check->way_out : way_out_with_pods(book, check, account_id));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
explain_workload(ReturnSetInfo *rsinfo, const LaneRow *shape)
{
	Book	   *book = cycle_open(&shape->key.scope_id, 1, CYCLE_LOOK);
	int64		account_id = rpq_known_caller()->account_id;
	Check	   *checks;
	int			step = 0;
	int			n;

	only_lane(book, shape);
	book_load_nodes(book, true);
	book_build_world(book, 0);
	if (rpq_is_fenced())
	{
		Check		fenced = {REASON_FENCED, -1, -1, false, false, NULL, NULL,
			"this database is a copy: nothing is decided in it", "rpq.adopt_database()", -1};

		put_check(rsinfo, book, ++step, &fenced, account_id);
	}
	n = explain_lane(book->world, 0, &checks);
	for (int i = 0; i < n; i++)
		put_check(rsinfo, book, ++step, &checks[i], account_id);
	cycle_close(book);
}

Datum
rpq_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[1];
	LaneRow		shape;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("workload must be given")));
	SPI_connect();
	values[0] = Int64GetDatum(rpq_authorize_id("explain", PG_GETARG_INT64(0)));
	if (rpq_exec(&load_waiting, values, NULL) > 0)
	{
		book_take_lane(&shape, 0);
		explain_workload(rsinfo, &shape);
	}
	SPI_finish();
	PG_RETURN_NULL();
}

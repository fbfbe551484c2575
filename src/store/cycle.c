/*
 * cycle.c
 *
 * A cycle: turns, one snapshot, fold, decide, write.
 *
 * The turns are locked first (cycle_take_turns).  Only then the snapshot is taken at which everything is read, so that
 * under READ COMMITTED all that committed before the lock was ours is counted, and under REPEATABLE READ, whose
 * snapshot is older, the lock itself fails with 40001 when somebody decided meanwhile.
 *
 * Locks turn; writes workload (SKIP LOCKED) and entry for what has run for as long as it may.  The rest is written by
 * apply_plan.c.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "rpq.h"
#include "store/cycle.h"
#include "store/keep.h"
#include "store/spi.h"

static RpqStatement lock_turns = {
	"SELECT scope_id FROM rpq_store.turn WHERE scope_id = ANY ($1) ORDER BY scope_id FOR NO KEY UPDATE",
	1, {INT8ARRAYOID}
};

static RpqStatement try_turns = {
	"SELECT scope_id FROM rpq_store.turn WHERE scope_id = ANY ($1) ORDER BY scope_id FOR NO KEY UPDATE SKIP LOCKED",
	1, {INT8ARRAYOID}
};

/* What has run for as long as it may is stopped; its usage is given back by the fold that follows. */
static RpqStatement stop_overdue = {
	"WITH overdue AS ("
	"  SELECT workload_id FROM rpq_store.workload"
	"   WHERE scope_id = ANY ($1) AND deadline <= $2 AND status IN ('starting', 'running') FOR UPDATE SKIP LOCKED),"
	" stopped AS ("
	"  UPDATE rpq_store.workload w SET status = 'stopped', ended_at = greatest($2, w.started_at), cause = 'max_runtime'"
	"    FROM overdue o WHERE w.workload_id = o.workload_id RETURNING w.*)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id, attempt,"
	"                             kind, status, actor, cause, resources)"
	" SELECT scope_id, ended_at, workload_id, shape, account_id, policy_id, pool_id, type_id, attempt, 'release',"
	"        status, 'system', cause, rpq.resources_mul(resources, -replicas::numeric)"
	"   FROM stopped",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

int
cycle_take_turns(const int64 *scopes, int n, bool skip, int64 *taken)
{
	Datum		values[1] = {rpq_int8_array(scopes, n)};
	uint64		rows = rpq_exec(skip ? &try_turns : &lock_turns, values, NULL);

	for (uint64 i = 0; i < rows; i++)
		taken[i] = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	return (int) rows;
}

Book *
cycle_open(const int64 *scopes, int n, CycleUse use)
{
	Book	   *book = palloc0(sizeof(Book));

	book->act = use != CYCLE_LOOK;
	book->keep = use == CYCLE_ACT_AGAIN;
	book->now = rpq_now();
	if (book->act)
	{
		Datum		values[2] = {rpq_int8_array(scopes, n), TimestampTzGetDatum(book->now)};

		rpq_exec(&stop_overdue, values, NULL);
		CommandCounterIncrement();
		PushCopiedSnapshot(GetTransactionSnapshot());
		UpdateActiveSnapshotCommandId();
	}
	else
		PushActiveSnapshot(GetActiveSnapshot());
	book->snapshot = GetActiveSnapshot();
	book->seen = OidFunctionCall0(F_PG_CURRENT_SNAPSHOT);
	book_load_turns(book, scopes, n);
	keep_open(book);
	book_init_tables(book);
	book_read_entries(book);
	book_free_pods(book);
	book_load_usage(book);
	book_load_lanes(book);
	return book;
}

void
cycle_close(Book *book)
{
	PopActiveSnapshot();
}

CyclePlan *
cycle_decide(Book *book, int batch, bool full)
{
	bool		work = full || book_has_work(book);

	book_load_nodes(book, work);
	if (!work)
		return NULL;
	book_build_world(book, batch);
	for (int i = 0; full && i < book->world->nlanes; i++)
		book->world->lanes[i].skip = false;
	return plan_world(book->world);
}

/*
 * cycle.c
 *
 * A cycle: turns, one snapshot, fold, decide, write.
 *
 * The turns are locked first (cycle_take_turns), those of whole sets (sets.c), and then which scopes belong to the sets
 * is looked up again.  Only then the snapshot is taken at which everything is read, so that under READ COMMITTED all
 * that committed before the lock was ours is counted, and under REPEATABLE READ, whose snapshot is older, the lock
 * itself fails with 40001 when somebody decided meanwhile.
 *
 * Locks turn; writes workload (SKIP LOCKED) and entry for what has run for as long as it may.  The rest is written by
 * apply_plan.c.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "rpq.h"
#include "store/cycle.h"
#include "store/keep.h"
#include "store/place.h"
#include "store/reports.h"
#include "store/sets.h"
#include "store/spi.h"

static RpqStatement lock_turns = {
	"SELECT scope_id, ctid, xmin FROM rpq_store.turn WHERE scope_id = ANY ($1) ORDER BY scope_id FOR NO KEY UPDATE",
	1, {INT8ARRAYOID}
};

static RpqStatement try_turns = {
	"SELECT scope_id, ctid, xmin FROM rpq_store.turn WHERE scope_id = ANY ($1) ORDER BY scope_id"
	" FOR NO KEY UPDATE SKIP LOCKED",
	1, {INT8ARRAYOID}
};

/* The same for turns whose place is known: place.c. */
#define TURNS_AT \
	"SELECT scope_id, ctid, xmin FROM rpq_store.turn WHERE ctid = ANY ($2) AND scope_id + 0 = ANY ($1)" \
	" FOR NO KEY UPDATE"

static RpqStatement lock_turns_at = {TURNS_AT, 2, {INT8ARRAYOID, TIDARRAYOID}};

static RpqStatement try_turns_at = {TURNS_AT " SKIP LOCKED", 2, {INT8ARRAYOID, TIDARRAYOID}};

/* What has run for as long as it may is stopped; its usage is given back by the fold that follows. */
static RpqStatement stop_overdue = {
	"WITH overdue AS ("
	"  SELECT workload_id FROM rpq_store.workload"
	"   WHERE scope_id = ANY ($1) AND deadline <= $2 AND status IN ('starting', 'running') FOR UPDATE SKIP LOCKED),"
	" stopped AS ("
	"  UPDATE rpq_store.workload w SET status = 'stopped', ended_at = greatest($2, w.started_at), cause = 'max_runtime'"
	"    FROM overdue o WHERE w.workload_id = o.workload_id RETURNING w.*)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id,"
	"                             attempt, kind, status, actor, cause, resources)"
	" SELECT scope_id, ended_at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id, attempt,"
	"        'release', status, 'system', cause, rpq.resources_mul(resources, -replicas::numeric)"
	"   FROM stopped",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

/*
 * Whoever changed a turn last may have committed so recently that its announcements are still on their way: to be seen,
 * and to have let go of rows, comes first.  It lets go of its id last.  So who has a turn, and asks anew which scopes
 * are tied to it, is told what the one before has changed.
 */
static void
wait_for_news_of(uint64 rows)
{
	TransactionId last = InvalidTransactionId;

	for (uint64 i = 0; i < rows; i++)
	{
		bool		isnull;
		TransactionId xmin = DatumGetTransactionId(rpq_column(i, 3, &isnull));

		if (xmin == last || !TransactionIdIsNormal(xmin) || TransactionIdIsCurrentTransactionId(xmin))
			continue;
		XactLockTableWait(xmin, NULL, NULL, XLTW_None);
		last = xmin;
	}
}

/* The scopes and places of the turns that a statement has just locked; how many there are now. */
static int
add_taken(uint64 rows, int64 *taken, int n)
{
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(rows, 1));

	for (uint64 i = 0; i < rows; i++)
	{
		taken[n++] = rpq_column_int64(i, 1, 0);
		places[i] = place_column(i, 2);
		place_note_turn(taken[n - 1], places[i]);
	}
	wait_for_news_of(rows);
	SPI_freetuptable(SPI_tuptable);
	place_prune("turn", places, (int) rows);
	return n;
}

static int
scope_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

static bool
is_among(int64 scope_id, const int64 *scopes, int n)
{
	return bsearch(&scope_id, scopes, n, sizeof(int64), scope_order) != NULL;
}

/* Of the first list, what is not in the second; both ascending. */
static int64 *
without(const int64 *scopes, int n, const int64 *others, int nothers, int *nrest)
{
	int64	   *rest = palloc(sizeof(int64) * Max(n, 1));

	*nrest = 0;
	for (int i = 0; i < n; i++)
	{
		if (!is_among(scopes[i], others, nothers))
			rest[(*nrest)++] = scopes[i];
	}
	return rest;
}

/*
 * Takes those whose place is known.  Not when it might have to wait for more than one: some would be found only later,
 * by key, and so be locked out of order.
 */
static int
take_at_places(const int64 *scopes, int n, bool skip, int64 *taken)
{
	int64	   *ids = palloc(sizeof(int64) * Max(n, 1));
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(n, 1));
	Datum		values[2];
	int			nknown = 0;

	if (!skip && n > 1)
		return 0;
	for (int i = 0; i < n; i++)
	{
		ids[nknown] = scopes[i];
		if (place_of_turn(scopes[i], &places[nknown]))
			nknown++;
	}
	if (nknown == 0)
		return 0;
	values[0] = rpq_int8_array(ids, nknown);
	values[1] = place_array(places, nknown);
	return add_taken(rpq_exec(skip ? &try_turns_at : &lock_turns_at, values, NULL), taken, 0);
}

/* Locks the turns of just these scopes, ascending; those that it got, ascending. */
static int64 *
lock_scopes(const int64 *scopes, int n, bool skip, int *nlocked)
{
	int64	   *locked = palloc(sizeof(int64) * Max(n, 1));
	int			known = take_at_places(scopes, n, skip, locked);
	int64	   *rest;
	int			nrest;

	qsort(locked, known, sizeof(int64), scope_order);
	rest = without(scopes, n, locked, known, &nrest);
	*nlocked = known;
	if (nrest > 0)
	{
		Datum		values[1] = {rpq_int8_array(rest, nrest)};

		*nlocked = add_taken(rpq_exec(skip ? &try_turns : &lock_turns, values, NULL), locked, known);
		qsort(locked, *nlocked, sizeof(int64), scope_order);
	}
	return locked;
}

static int64 *
merge(const int64 *a, int na, const int64 *b, int nb, int *n)
{
	int64	   *all = palloc(sizeof(int64) * Max(na + nb, 1));

	memcpy(all, a, sizeof(int64) * na);
	memcpy(all + na, b, sizeof(int64) * nb);
	*n = na + nb;
	qsort(all, *n, sizeof(int64), scope_order);
	return all;
}

/*
 * What the sets have gained while they were locked.  Past the end it can be waited for as well; elsewhere only taken,
 * or two who wait for each other might come of it.
 */
static int64 *
lock_gained(const int64 *gained, int n, int64 highest, bool skip, int *nlocked)
{
	int64	   *locked = lock_scopes(gained, n, skip || gained[0] < highest, nlocked);

	if (!skip && *nlocked < n && gained[0] < highest)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("more pools and queues were connected while those connected before were being locked"),
				 errhint("Try again.")));
	return locked;
}

static int64 *
take_turns(const int64 *scopes, int n, bool skip, int *ntaken, int64 **asked, int *nasked)
{
	int64	   *taken;

	*asked = sets_extend(scopes, n, nasked);
	taken = lock_scopes(*asked, *nasked, skip, ntaken);
	for (;;)
	{
		int			nnow;
		int64	   *now = sets_extend(scopes, n, &nnow);
		int			ngained;
		int64	   *gained = without(now, nnow, *asked, *nasked, &ngained);
		int64	   *locked;
		int			nlocked;

		if (ngained == 0)
			return taken;
		locked = lock_gained(gained, ngained, (*asked)[*nasked - 1], skip, &nlocked);
		taken = merge(taken, *ntaken, locked, nlocked, ntaken);
		*asked = merge(*asked, *nasked, gained, ngained, nasked);
	}
}

int64 *
cycle_take_turns(const int64 *scopes, int n, int *ntaken)
{
	int64	   *asked;
	int			nasked;

	return take_turns(scopes, n, false, ntaken, &asked, &nasked);
}

int64 *
cycle_try_turns(const int64 *scopes, int n, int *ntaken)
{
	int64	   *asked;
	int			nasked;
	int			nlocked;
	int64	   *locked = take_turns(scopes, n, true, &nlocked, &asked, &nasked);
	int64	   *missing;
	int			nmissing;

	/* of a set, all or none */
	missing = without(asked, nasked, locked, nlocked, &nmissing);
	if (nmissing > 0)
		missing = sets_extend(missing, nmissing, &nmissing);
	return without(locked, nlocked, missing, nmissing, ntaken);
}

static LocalTransactionId cycled_in = InvalidLocalTransactionId;

/* Has this transaction, or a part of it that was rolled back, counted or decided anything? */
bool
cycle_in_transaction(void)
{
	return cycled_in == MyProc->lxid;
}

Book *
cycle_open(const int64 *scopes, int n, CycleUse use)
{
	Book	   *book = palloc0(sizeof(Book));

	book->act = use != CYCLE_LOOK;
	book->keep = use == CYCLE_ACT_AGAIN;
	book->now = rpq_now();
	if (!book->act)
		scopes = sets_extend(scopes, n, &n);
	else
	{
		Datum		values[2] = {rpq_int8_array(scopes, n), TimestampTzGetDatum(book->now)};

		cycled_in = MyProc->lxid;
		rpq_exec(&stop_overdue, values, NULL);
		CommandCounterIncrement();
		PushCopiedSnapshot(GetTransactionSnapshot());
		UpdateActiveSnapshotCommandId();
	}
	if (!book->act)
		PushActiveSnapshot(GetActiveSnapshot());
	book->snapshot = GetActiveSnapshot();
	book->seen = OidFunctionCall0(F_PG_CURRENT_SNAPSHOT);
	book_load_turns(book, scopes, n);
	keep_open(book);
	book_load_queues(book);
	book_init_tables(book);
	book_read_entries(book);
	book_free_pods(book);
	reports_find_stopping(book);
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

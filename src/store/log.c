/*
 * log.c
 *
 * The ledger's reading end: the entries that the turns have not counted.
 *
 * Reads entry and pod at the book's snapshot; writes nothing, locks nothing.
 *
 * An entry is counted when turn.seen sees its transaction, or when it is of turn.own_xid and no later than own_entry.
 * The cursor that replaces these is the very snapshot at which the entries were read (book->snapshot), taken after the
 * turn was locked: a snapshot of its own for the cursor would count rows twice or never.  A transaction is in no
 * snapshot's list of those in progress while it looks itself; hence the second part.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "errors.h"
#include "rpq.h"
#include "store/book.h"
#include "store/keep.h"
#include "store/reports.h"
#include "store/spi.h"

#define FEW_SCOPES	8			/* of fewer, each is asked for its entries */

#define ENTRY_COLUMNS \
	"SELECT e.entry_id, e.scope_id, e.xid, e.at, e.kind, e.workload_id, e.attempt, e.shape," \
	"       e.submitted_at, e.waiting, e.pool_id, e.type_id, e.account_id, e.policy_id, e.resources, e.lender_id"

static RpqStatement read_entries = {
	ENTRY_COLUMNS
	"  FROM unnest($1, $2, $3, $4) AS t (scope_id, seen, own_xid, own_entry) CROSS JOIN LATERAL ("
	"	SELECT * FROM rpq_store.entry e"
	"	 WHERE e.scope_id = t.scope_id AND e.xid >= pg_snapshot_xmax(t.seen) AND e.xid <> t.own_xid"
	"	UNION ALL"
	"	SELECT e.* FROM pg_snapshot_xip(t.seen) x CROSS JOIN LATERAL ("
	"	  SELECT * FROM rpq_store.entry e"
	"	   WHERE e.scope_id = t.scope_id AND e.xid = x AND e.xid <> t.own_xid OFFSET 0) e"
	"	UNION ALL"
	"	SELECT * FROM rpq_store.entry e"
	"	 WHERE e.scope_id = t.scope_id AND e.xid = t.own_xid AND e.entry_id + 0 > t.own_entry) e",
	4, {INT8ARRAYOID, PG_SNAPSHOTARRAYOID, XID8ARRAYOID, INT8ARRAYOID}
};

/* Where the balances are kept: some of these may be counted. */
static RpqStatement read_entries_since = {
	ENTRY_COLUMNS
	"  FROM rpq_store.entry e WHERE e.scope_id = ANY ($1) AND e.xid >= $2 AND NOT (e.xid = $3 AND e.kind = 'admit')",
	3, {INT8ARRAYOID, XID8OID, XID8OID}
};

static RpqStatement read_pods = {
	"SELECT p.pod_id, p.workload_id, p.node_id, p.devices, p.attempt"
	"  FROM unnest($1, $2) AS f (workload_id, attempt)"
	"  JOIN rpq_store.pod p ON p.workload_id = f.workload_id AND p.attempt = f.attempt"
	" ORDER BY p.workload_id, p.attempt, p.replica",
	2, {INT8ARRAYOID, INT4ARRAYOID}
};

/* The tables of cells and lanes, unless they are those of the last cycle. */
void
book_init_tables(Book *book)
{
	HASHCTL		ctl;

	if (book->from_kept)
		return;

	memset(&ctl, 0, sizeof(ctl));
	ctl.hcxt = book->context;
	ctl.keysize = sizeof(CellKey);
	ctl.entrysize = sizeof(Cell);
	book->cells = hash_create("rpq usage cells", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.keysize = sizeof(LaneKey);
	ctl.entrysize = sizeof(LaneRow);
	book->lanes = hash_create("rpq lanes", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

Cell *
book_cell(Book *book, int64 pool_id, int64 type_id, int64 account_id, int64 policy_id, int64 lender_id)
{
	CellKey		key = {pool_id, type_id, account_id, policy_id, lender_id};
	bool		found;
	Cell	   *cell = hash_search(book->cells, &key, HASH_ENTER, &found);

	if (!found)
		memset((char *) cell + sizeof(CellKey), 0, sizeof(Cell) - sizeof(CellKey));
	return cell;
}

LaneRow *
book_lane(Book *book, int64 scope_id, int64 shape)
{
	LaneKey		key = {scope_id, shape};
	bool		found;
	LaneRow    *lane = hash_search(book->lanes, &key, HASH_ENTER, &found);

	if (!found)
	{
		memset((char *) lane + sizeof(LaneKey), 0, sizeof(LaneRow) - sizeof(LaneKey));
		lane->ninstance_types = -1;
	}
	return lane;
}

static void
count_waiting(Book *book, Scope *scope, uint64 row, int waiting)
{
	LaneRow    *lane = book_lane(book, scope->scope_id, rpq_column_int64(row, 8, 0));
	TimestampTz at = rpq_column_int64(row, 9, 0);
	int64		id = rpq_column_int64(row, 6, 0);

	lane->waiting += waiting;
	lane->changed = true;
	/* only a lower bound: it may move back for one that returns with its old submission time */
	if (waiting > 0 && (!lane->has_head || at < lane->head_at || (at == lane->head_at && id < lane->head_id)))
	{
		lane->has_head = true;
		lane->head_at = at;
		lane->head_id = id;
	}
}

static void
count_usage(Book *book, Scope *scope, uint64 row, Resources *amount, const char *kind)
{
	int64		pool_id = rpq_column_int64(row, 11, 0);
	Cell	   *cell = book_cell(book, pool_id, rpq_column_int64(row, 12, 0), rpq_column_int64(row, 13, 0),
								 rpq_column_int64(row, 14, 0), rpq_column_int64(row, 16, 0));

	book_pool(book, pool_id)->changed = true;
	if (cell->key.lender_id != 0)
		book_pool(book, cell->key.lender_id)->changed = true;
	cell->amount = cell->amount == NULL ? resources_copy(amount) : resources_add(cell->amount, amount);
	cell->changed = true;
	if (strcmp(kind, "release") == 0)
	{
		Freed	   *freed = &book->freed[book->nfreed++];

		freed->workload_id = rpq_column_int64(row, 6, 0);
		freed->attempt = (int) rpq_column_int64(row, 7, 0);
		freed->pool_id = pool_id;
		freed->account_id = rpq_column_int64(row, 13, 0);
		freed->total = resources_copy(amount);
		scope->room_freed = true;
	}
}

/* As rpq_store.uncounted says it. */
static bool
is_counted(const Scope *scope, uint64 xid, int64 entry_id)
{
	if (xid == scope->own_xid)
		return entry_id <= scope->own_entry;
	return DatumGetBool(DirectFunctionCall2(pg_visible_in_snapshot,
											FullTransactionIdGetDatum(FullTransactionIdFromU64(xid)), scope->seen));
}

/*
 * A set of many scopes: all are asked at once from one transaction on, instead of each by its cursor.
 */
static uint64
find_entries_since(Book *book, uint64 first, uint64 own, bool **counted)
{
	Datum		values[3];
	uint64		rows;

	values[0] = book_scope_ids(book);
	values[1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(first));
	values[2] = FullTransactionIdGetDatum(FullTransactionIdFromU64(own));
	rows = rpq_exec_at(&read_entries_since, values, NULL, book->snapshot, true);
	*counted = palloc0(sizeof(bool) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
		(*counted)[i] = is_counted(book_scope(book, rpq_column_int64(i, 2, 0)), (uint64) rpq_column_int64(i, 3, 0),
								   rpq_column_int64(i, 1, 0));
	return rows;
}

/* counted: of the entries that were found, those that need not be counted any more; NULL: none. */
static uint64
find_entries(Book *book, bool **counted)
{
	uint64		own;
	uint64		first = book->nscopes < FEW_SCOPES ? 0 : keep_first_news(book, &own);
	int			n = book->nscopes;
	Datum	   *seen = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *own_xid = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *own_entry = palloc(sizeof(Datum) * Max(n, 1));
	Datum		values[4];

	*counted = NULL;
	if (first != 0)
		return find_entries_since(book, first, own, counted);
	for (int i = 0; i < n; i++)
	{
		seen[i] = book->scopes[i].seen;
		own_xid[i] = FullTransactionIdGetDatum(FullTransactionIdFromU64(book->scopes[i].own_xid));
		own_entry[i] = Int64GetDatum(book->scopes[i].own_entry);
	}
	values[0] = book_scope_ids(book);
	values[1] = rpq_datum_array(seen, NULL, n, PG_SNAPSHOTOID);
	values[2] = rpq_datum_array(own_xid, NULL, n, XID8OID);
	values[3] = rpq_datum_array(own_entry, NULL, n, INT8OID);
	return rpq_exec_at(&read_entries, values, NULL, book->snapshot, true);
}

static void
count_entry(Book *book, uint64 row, uint64 own_xid)
{
	Scope	   *scope = book_scope(book, rpq_column_int64(row, 2, 0));
	int			waiting = (int) rpq_column_int64(row, 10, 0);
	const char *kind;
	bool		isnull;
	Datum		amount = rpq_column(row, 15, &isnull);

	if (scope == NULL)
		return;
	scope->changed = true;
	book->now = Max(book->now, rpq_column_int64(row, 4, 0));
	if (book->act && (uint64) rpq_column_int64(row, 3, 0) == own_xid)
		scope->own_entry = Max(scope->own_entry, rpq_column_int64(row, 1, 0));
	if (waiting != 0)
		count_waiting(book, scope, row, waiting);
	if (isnull && waiting != 0)
		return;
	kind = rpq_column_text(row, 5);
	if (!isnull)
		count_usage(book, scope, row, DatumGetResourcesP(amount), kind);
	else if (strcmp(kind, "report") == 0)
		reports_note(book, rpq_column_int64(row, 6, 0));
}

/* What executors reported takes effect now, and its entries are counted with those that brought it up. */
static void
count_reports(Book *book, uint64 own_xid)
{
	uint64		rows = reports_settle(book);

	if (rows == 0)
		return;
	book->freed = repalloc(book->freed, sizeof(Freed) * (book->nfreed + rows));
	for (uint64 i = 0; i < rows; i++)
	{
		if (rpq_column_int64(i, 1, 0) != 0)
			count_entry(book, i, own_xid);
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Reads every entry that the turns have not counted, and sums them up: usage cells and lanes then hold deltas, to which
 * book_load_usage and book_load_lanes add the rows.
 */
void
book_read_entries(Book *book)
{
	uint64		rows;
	bool	   *counted;
	uint64		own_xid = book->act ? U64FromFullTransactionId(GetTopFullTransactionId()) : 0;

	rows = find_entries(book, &counted);
	book->freed = palloc(sizeof(Freed) * Max(rows, 1));

	for (int i = 0; i < book->nscopes && book->act; i++)
	{
		/* own entries of a former transaction are all visible now */
		if (book->scopes[i].own_xid != own_xid)
		{
			book->scopes[i].own_xid = own_xid;
			book->scopes[i].own_entry = 0;
		}
	}
	for (uint64 i = 0; i < rows; i++)
	{
		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		if (counted != NULL && counted[i])
			continue;
		count_entry(book, i, own_xid);
		book->nentries++;
	}
	SPI_freetuptable(SPI_tuptable);
	count_reports(book, own_xid);
	for (int i = 0; i < book->nscopes; i++)
	{
		if (book->scopes[i].room_freed)
			book->scopes[i].room_epoch++;
	}
	book_count_epochs(book);
}

static int
freed_order(const void *a, const void *b)
{
	const Freed *x = a;
	const Freed *y = b;

	if (x->workload_id != y->workload_id)
		return x->workload_id < y->workload_id ? -1 : 1;
	return x->attempt < y->attempt ? -1 : x->attempt > y->attempt ? 1 : 0;
}

/* What one of n pods held: an equal share of the attempt's total, exact, since a workload's pods ask for the same. */
static Resources *
share(const Freed *freed, int n)
{
	Resources  *amount = resources_neg(freed->total);

	for (int i = 0; i < resources_nkeys(amount); i++)
	{
		if (amount->items[i].amount % n != 0)
			elog(ERROR, "release of workload %lld does not divide by its %d pods", (long long) freed->workload_id, n);
		amount->items[i].amount /= n;
	}
	return amount;
}

static void
take_pod(FreedPod *pod, uint64 row)
{
	bool		isnull;
	Datum		value = rpq_column(row, 4, &isnull);

	pod->pod_id = rpq_column_int64(row, 1, 0);
	pod->node_id = rpq_column_int64(row, 3, 0);
	if (!isnull)
	{
		ArrayType  *array = DatumGetArrayTypePCopy(value);

		pod->ndevices = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		pod->devices = (int *) ARR_DATA_PTR(array);
	}
}

/*
 * Finds the pods of the attempts whose end was counted.  Two of one workload may be among them: it went from one pool
 * to another, and the first was not folded until now.
 */
void
book_free_pods(Book *book)
{
	int64	   *ids;
	int32	   *attempts;
	Datum		values[2];
	uint64		rows;
	uint64		row = 0;

	if (book->nfreed == 0)
		return;
	qsort(book->freed, book->nfreed, sizeof(Freed), freed_order);
	ids = palloc(sizeof(int64) * book->nfreed);
	attempts = palloc(sizeof(int32) * book->nfreed);
	for (int i = 0; i < book->nfreed; i++)
	{
		ids[i] = book->freed[i].workload_id;
		attempts[i] = book->freed[i].attempt;
	}
	values[0] = rpq_int8_array(ids, book->nfreed);
	values[1] = rpq_int4_array(attempts, book->nfreed);
	rows = rpq_exec_at(&read_pods, values, NULL, book->snapshot, true);
	book->freed_pods = palloc0(sizeof(FreedPod) * Max(rows, 1));
	book->nfreed_pods = (int) rows;

	for (int i = 0; i < book->nfreed; i++)
	{
		uint64		end = row;
		Resources  *amount;

		while (end < rows && rpq_column_int64(end, 2, 0) == book->freed[i].workload_id &&
			   rpq_column_int64(end, 5, 0) == book->freed[i].attempt)
			end++;
		if (end == row)
			continue;
		amount = share(&book->freed[i], (int) (end - row));
		for (; row < end; row++)
		{
			take_pod(&book->freed_pods[row], row);
			book->freed_pods[row].amount = amount;
			book->freed_pods[row].account_id = book->freed[i].account_id;
		}
	}
	SPI_freetuptable(SPI_tuptable);
}

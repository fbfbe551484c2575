/*
 * log.c
 *
 * The ledger's reading end: turns, and the entries that they have not counted.
 *
 * Reads turn, pool, entry and pod at the book's snapshot; writes nothing, locks nothing.
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
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "errors.h"
#include "rpq.h"
#include "store/book.h"
#include "store/place.h"
#include "store/reports.h"
#include "store/sets.h"
#include "store/spi.h"

#define TURN_COLUMNS \
	"SELECT t.scope_id, t.own_xid, t.own_entry, t.room_epoch, t.last_at," \
	"       p.name, p.status, p.frozen, p.scheduling_policy, p.user_default_quota, p.workload_types, t.cycle, t.seen," \
	"       t.ctid, p.isolate_accounts, p.tenant_id, p.cluster_id, p.kind, p.type, p.pay_as_you_go," \
	"       p.allow_guarantee, p.queueing, p.idle_time_sharing"

static RpqStatement load_turns = {
	TURN_COLUMNS "  FROM rpq_store.turn t LEFT JOIN rpq_store.pool p ON p.pool_id = t.scope_id"
	" WHERE t.scope_id = ANY ($1) ORDER BY t.scope_id",
	1, {INT8ARRAYOID}
};

static RpqStatement load_turns_at = {
	TURN_COLUMNS "  FROM unnest($1, $2) AS n (scope_id, place)"
	"  JOIN rpq_store.turn t ON t.ctid = n.place AND t.scope_id + 0 = n.scope_id"
	"  LEFT JOIN rpq_store.pool p ON p.pool_id = n.scope_id ORDER BY t.scope_id",
	2, {INT8ARRAYOID, TIDARRAYOID}
};

static RpqStatement read_entries = {
	"SELECT e.entry_id, e.scope_id, e.xid, e.at, e.kind, e.workload_id, e.attempt, e.shape,"
	"       e.submitted_at, e.waiting, e.pool_id, e.type_id, e.account_id, e.policy_id, e.resources, e.lender_id"
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

static RpqStatement read_pods = {
	"SELECT p.pod_id, p.workload_id, p.node_id, p.devices, p.attempt"
	"  FROM unnest($1, $2) AS f (workload_id, attempt)"
	"  JOIN rpq_store.pod p ON p.workload_id = f.workload_id AND p.attempt = f.attempt"
	" ORDER BY p.workload_id, p.attempt, p.replica",
	2, {INT8ARRAYOID, INT4ARRAYOID}
};

static char **
text_array(Datum value, int *n)
{
	Datum	   *elements;
	bool	   *nulls;
	char	  **result;

	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, n);
	result = palloc(sizeof(char *) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		result[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(elements[i]);
	return result;
}

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

static void
take_pool(Scope *scope, uint64 row)
{
	bool		isnull;
	Datum		value;

	scope->name = rpq_column_text(row, 6);
	scope->status = rpq_column_text(row, 7);
	scope->deleted = strcmp(scope->status, "deleted") == 0;
	scope->frozen = rpq_column_int64(row, 8, 0) != 0;
	scope->policy = rpq_column_text(row, 9);
	value = rpq_column(row, 10, &isnull);
	scope->default_quota = isnull ? NULL : DatumGetResourcesPCopy(value);
	value = rpq_column(row, 11, &isnull);
	if (!isnull)
		scope->workload_types = text_array(value, &scope->nworkload_types);
	scope->isolate = rpq_column_int64(row, 15, 0) != 0;
	scope->tenant_id = rpq_column_int64(row, 16, 0);
	scope->cluster_id = rpq_column_int64(row, 17, 0);
	scope->kind = rpq_column_text(row, 18);
	scope->type = rpq_column_text(row, 19);
	scope->pay_as_you_go = rpq_column_int64(row, 20, 0) != 0;
	scope->allow_guarantee = rpq_column_int64(row, 21, 0) != 0;
	scope->best_effort = strcmp(rpq_column_text(row, 22), "best_effort") == 0;
	scope->lends = rpq_column_int64(row, 23, 0) != 0 && strcmp(scope->type, "exclusive") == 0;
}

static void
take_turn(Book *book, Scope *scope, uint64 row)
{
	bool		isnull;

	scope->scope_id = rpq_column_int64(row, 1, 0);
	scope->own_xid = (uint64) rpq_column_int64(row, 2, 0);
	scope->own_entry = rpq_column_int64(row, 3, 0);
	scope->room_epoch = rpq_column_int64(row, 4, 0);
	scope->last_at = rpq_column_int64(row, 5, 0);
	scope->cycle = rpq_column_int64(row, 12, 0);
	scope->seen = PointerGetDatum(PG_DETOAST_DATUM_COPY(rpq_column(row, 13, &isnull)));
	place_note_turn(scope->scope_id, place_column(row, 14));
	scope->left_xid = scope->own_xid;
	scope->left_cycle = scope->cycle;
	scope->left_epoch = scope->room_epoch;
	book->now = Max(book->now, scope->last_at);
	rpq_column(row, 7, &isnull);
	scope->pool = isnull ? -1 : book->npools;
	if (isnull)
		return;
	book->pools[book->npools++] = scope;
	take_pool(scope, row);
}

/* By place when the place of each is known and right, and none is named twice; else by key. */
static uint64
find_turns(Book *book, const int64 *scopes, int n)
{
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(n, 1));
	Datum		values[2] = {rpq_int8_array(scopes, n), 0};
	int			known = 0;
	uint64		rows;

	while (known < n && (known == 0 || scopes[known] > scopes[known - 1]) &&
		   place_of_turn(scopes[known], &places[known]))
		known++;
	if (known == n)
	{
		values[1] = place_array(places, n);
		rows = rpq_exec_at(&load_turns_at, values, NULL, book->snapshot, true);
		if (rows == (uint64) n)
			return rows;
		SPI_freetuptable(SPI_tuptable);
	}
	return rpq_exec_at(&load_turns, values, NULL, book->snapshot, true);
}

static int
set_order(const void *a, const void *b)
{
	const BookSet *x = a;
	const BookSet *y = b;

	return x->first < y->first ? -1 : x->first > y->first ? 1 : 0;
}

/* Which scopes belong together. */
static void
find_sets(Book *book)
{
	book->sets = palloc0(sizeof(BookSet) * Max(book->nscopes, 1));
	for (int i = 0; i < book->nscopes; i++)
	{
		BookSet		key = {sets_first(book->scopes[i].scope_id)};
		BookSet    *set = bsearch(&key, book->sets, book->nsets, sizeof(BookSet), set_order);

		/* scopes come by id, and so do the first of sets */
		if (set == NULL)
		{
			set = &book->sets[book->nsets++];
			set->first = key.first;
		}
		set->nscopes++;
		book->scopes[i].set = (int) (set - book->sets);
	}
}

/*
 * Reads the turns of the scopes, and the settings of the pools that they are, at the book's snapshot.
 */
void
book_load_turns(Book *book, const int64 *scopes, int n)
{
	uint64		rows = find_turns(book, scopes, n);

	book->scopes = palloc0(sizeof(Scope) * Max(rows, 1));
	book->pools = palloc(sizeof(Scope *) * Max(rows, 1));
	book->nscopes = (int) rows;
	for (uint64 i = 0; i < rows; i++)
		take_turn(book, &book->scopes[i], i);
	SPI_freetuptable(SPI_tuptable);
	find_sets(book);
}

/*
 * The epoch that a lane was blocked at is that of all scopes of its set: room that is freed in one of them, a limit or
 * a member of the set that changes, makes it another.  0 is no epoch.
 */
void
book_count_epochs(Book *book)
{
	for (int i = 0; i < book->nsets; i++)
		book->sets[i].epoch = 0;
	for (int i = 0; i < book->nscopes; i++)
	{
		Scope	   *scope = &book->scopes[i];
		BookSet    *set = &book->sets[scope->set];

		set->epoch = set->nscopes == 1 ? scope->room_epoch :
			set_epoch(set->epoch, scope->scope_id, scope->room_epoch);
	}
}

int64
book_epoch(const Book *book, const Scope *scope)
{
	return book->sets[scope->set].epoch;
}

Scope *
book_scope(Book *book, int64 scope_id)
{
	int			low = 0;
	int			high = book->nscopes - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (book->scopes[middle].scope_id == scope_id)
			return &book->scopes[middle];
		if (book->scopes[middle].scope_id < scope_id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return NULL;
}

/* The scope of a pool that something is charged to. */
Scope *
book_pool(Book *book, int64 pool_id)
{
	Scope	   *scope = book_scope(book, pool_id);

	if (scope == NULL || scope->pool < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("an entry is charged to pool %lld, which is not connected with its scope",
						(long long) pool_id)));
	return scope;
}

/* The ids of the book's scopes, as an array. */
Datum
book_scope_ids(const Book *book)
{
	int64	   *ids = palloc(sizeof(int64) * Max(book->nscopes, 1));

	for (int i = 0; i < book->nscopes; i++)
		ids[i] = book->scopes[i].scope_id;
	return rpq_int8_array(ids, book->nscopes);
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

static uint64
find_entries(Book *book)
{
	int			n = book->nscopes;
	Datum	   *seen = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *own_xid = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *own_entry = palloc(sizeof(Datum) * Max(n, 1));
	Datum		values[4];

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
	uint64		own_xid = book->act ? U64FromFullTransactionId(GetTopFullTransactionId()) : 0;

	rows = find_entries(book);
	book->freed = palloc(sizeof(Freed) * Max(rows, 1));
	book->nentries = (int64) rows;

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
		count_entry(book, i, own_xid);
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

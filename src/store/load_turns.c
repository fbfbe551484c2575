/*
 * load_turns.c
 *
 * The scopes of a Book: their turns, the settings of the pools among them, and which of them belong to one set.  Queues
 * are in load_policies.c.
 *
 * Reads turn and pool at the book's snapshot; writes nothing, locks nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "store/book.h"
#include "store/place.h"
#include "store/sets.h"
#include "store/spi.h"

#define TURN_COLUMNS \
	"SELECT t.scope_id, t.own_xid, t.own_entry, t.room_epoch, t.last_at," \
	"       p.name, p.status, p.frozen, p.scheduling_policy, p.user_default_quota, p.workload_types, t.cycle, t.seen," \
	"       t.ctid, p.isolate_accounts, p.tenant_id, p.cluster_id, p.kind, p.type, p.pay_as_you_go," \
	"       p.allow_guarantee, p.queueing," \
	"       p.idle_time_sharing AND NOT EXISTS (" \
	"         SELECT FROM rpq_store.preemption e" \
	"          WHERE e.pool_id = p.pool_id AND e.state = 'pending' AND e.preemptor IS NULL)"

static RpqStatement load_turns = {
	TURN_COLUMNS "  FROM rpq_store.turn t LEFT JOIN rpq_store.pool p ON p.pool_id = t.scope_id"
	" WHERE t.scope_id = ANY ($1) ORDER BY t.scope_id",
	1, {INT8ARRAYOID}
};

static RpqStatement load_turns_at = {
	TURN_COLUMNS "  FROM rpq_store.turn t LEFT JOIN rpq_store.pool p ON p.pool_id = t.scope_id"
	" WHERE t.ctid = ANY ($1) ORDER BY t.scope_id",
	1, {TIDARRAYOID}
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

/* By place when the place of each is known and right, and none is named twice; else by key.  scopes: ascending. */
static uint64
find_turns(Book *book, const int64 *scopes, int n)
{
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(n, 1));
	Datum		values[1];
	int			known = 0;
	uint64		rows;

	while (known < n && (known == 0 || scopes[known] > scopes[known - 1]) &&
		   place_of_turn(scopes[known], &places[known]))
		known++;
	if (known == n)
	{
		values[0] = place_array(places, n);
		rows = rpq_exec_at(&load_turns_at, values, NULL, book->snapshot, true);
		for (known = 0; known < Min(n, rows) && rpq_column_int64(known, 1, 0) == scopes[known];)
			known++;
		if (known == n && rows == (uint64) n)
			return rows;
		SPI_freetuptable(SPI_tuptable);
	}
	values[0] = rpq_int8_array(scopes, n);
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

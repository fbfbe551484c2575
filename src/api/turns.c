/*
 * turns.c
 *
 * What administrators' functions, in SQL, call of the store: take_turns and fold.  Both are about whole sets (sets.h).
 *
 * take_turns locks rows of turn (FOR NO KEY UPDATE, in id order) and changes them; fold writes what a cycle writes that
 * decides nothing (apply_plan.c), under turns that the caller holds.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "api/api.h"
#include "store/cycle.h"
#include "store/place.h"
#include "store/sets.h"
#include "store/spi.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_take_turns);
PG_FUNCTION_INFO_V1(rpq_fold);
PG_FUNCTION_INFO_V1(rpq_connected);

static RpqStatement change_turns = {
	"UPDATE rpq_store.turn SET room_epoch = room_epoch + 1 WHERE scope_id = ANY ($1) RETURNING scope_id, ctid",
	1, {INT8ARRAYOID}
};

/* Turns that were locked just now are where they were then: place.c. */
static RpqStatement change_turns_at = {
	"UPDATE rpq_store.turn SET room_epoch = room_epoch + 1 WHERE ctid = ANY ($2) AND scope_id + 0 = ANY ($1)"
	" RETURNING scope_id, ctid",
	2, {INT8ARRAYOID, TIDARRAYOID}
};

static RpqStatement who_changed_turns_at = {
	"SELECT scope_id, xmin FROM rpq_store.turn WHERE ctid = ANY ($1)", 1, {TIDARRAYOID}
};

static int64 *
scope_array(Datum datum, int *n)
{
	Datum	   *elements;
	bool	   *nulls;
	int64	   *scopes;

	deconstruct_array(DatumGetArrayTypeP(datum), INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &elements, &nulls, n);
	scopes = palloc(sizeof(int64) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		scopes[i] = nulls[i] ? 0 : DatumGetInt64(elements[i]);
	return scopes;
}

static int
id_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

static int
note_places(uint64 rows)
{
	for (uint64 i = 0; i < rows; i++)
		place_note_turn(rpq_column_int64(i, 1, 0), place_column(i, 2));
	SPI_freetuptable(SPI_tuptable);
	return (int) rows;
}

/*
 * Of turns that are where they are looked for, those that this transaction has not changed yet; how many.  One that it
 * has need not be changed again, as long as no cycle of its own has decided on it since.
 */
static int
not_changed_yet(int64 *scopes, ItemPointerData *places, int n)
{
	Datum		values[1] = {place_array(places, n)};
	int64	   *changed;
	int			nchanged = 0;
	int			left = 0;
	uint64		rows;

	if (cycle_in_transaction() || !FullTransactionIdIsValid(GetTopFullTransactionIdIfAny()))
		return n;
	rows = rpq_exec(&who_changed_turns_at, values, NULL);
	changed = palloc(sizeof(int64) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		bool		isnull;

		if (TransactionIdIsCurrentTransactionId(DatumGetTransactionId(rpq_column(i, 2, &isnull))))
			changed[nchanged++] = rpq_column_int64(i, 1, 0);
	}
	SPI_freetuptable(SPI_tuptable);
	qsort(changed, nchanged, sizeof(int64), id_order);
	for (int i = 0; i < n; i++)
	{
		if (bsearch(&scopes[i], changed, nchanged, sizeof(int64), id_order) != NULL)
			continue;
		scopes[left] = scopes[i];
		places[left++] = places[i];
	}
	return left;
}

/* Changes the turns, which this transaction has locked. */
static void
change(int64 *scopes, int n)
{
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(n, 1));
	Datum		values[2];
	int			known = 0;

	while (known < n && place_of_turn(scopes[known], &places[known]))
		known++;
	if (known == n)
	{
		n = not_changed_yet(scopes, places, n);
		if (n == 0)
			return;
		values[1] = place_array(places, n);
	}
	values[0] = rpq_int8_array(scopes, n);
	if (known < n || note_places(rpq_exec(&change_turns_at, values, NULL)) < n)
		note_places(rpq_exec(&change_turns, values, NULL));
}

/*
 * rpq_store.take_turns(scopes bigint[]), and of all that are tied to them: for everything but a cycle that changes what
 * a cycle reads.  The turns are changed, not only locked: see the lock rule.
 */
Datum
rpq_take_turns(PG_FUNCTION_ARGS)
{
	int			n;
	int64	   *scopes = scope_array(PG_GETARG_DATUM(0), &n);
	int64	   *taken;
	int			ntaken;

	SPI_connect();
	rpq_check_fence();
	taken = cycle_take_turns(scopes, n, &ntaken);
	for (int i = 0; i < n; i++)
	{
		if (bsearch(&scopes[i], taken, ntaken, sizeof(int64), id_order) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("scope %lld does not exist", (long long) scopes[i])));
	}
	change(taken, ntaken);
	SPI_finish();
	/* what sessions keep of the pools' configuration is looked up anew: see config_cache.c */
	CacheInvalidateRelcacheByRelid(get_relname_relid("pool", get_namespace_oid("rpq_store", false)));
	rpq_wake_at_commit();
	PG_RETURN_VOID();
}

/*
 * rpq_store.connected(scopes bigint[]): these and all that are tied to them.
 */
Datum
rpq_connected(PG_FUNCTION_ARGS)
{
	int			n;
	int64	   *scopes = scope_array(PG_GETARG_DATUM(0), &n);
	MemoryContext context = CurrentMemoryContext;
	MemoryContext old;
	Datum		result;

	SPI_connect();
	scopes = sets_extend(scopes, n, &n);
	old = MemoryContextSwitchTo(context);
	result = rpq_int8_array(scopes, n);
	MemoryContextSwitchTo(old);
	SPI_finish();
	PG_RETURN_DATUM(result);
}

/*
 * rpq_store.fold(scopes bigint[]): the counting half of a cycle, for operations that need exact balances.
 */
Datum
rpq_fold(PG_FUNCTION_ARGS)
{
	int			n;
	int64	   *scopes = scope_array(PG_GETARG_DATUM(0), &n);
	Book	   *book;
	int64	   *whole;
	int			nwhole;

	SPI_connect();
	whole = sets_extend(scopes, n, &nwhole);
	/* the caller took the turns; only a set that it has just tied to more may have gained some */
	if (nwhole > n)
		whole = cycle_take_turns(scopes, n, &nwhole);
	book = cycle_open(whole, nwhole, CYCLE_ACT);
	book_load_nodes(book, false);
	book_apply(book, NULL);
	cycle_close(book);
	SPI_finish();
	PG_RETURN_VOID();
}

/*
 * turns.c
 *
 * What administrators' functions, in SQL, call of the store: take_turns and fold.
 *
 * take_turns locks rows of turn (FOR NO KEY UPDATE, in id order) and changes them; fold writes what a cycle writes that
 * decides nothing (apply_plan.c), under turns that the caller holds.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "api/api.h"
#include "store/cycle.h"
#include "store/spi.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_take_turns);
PG_FUNCTION_INFO_V1(rpq_fold);

static RpqStatement change_turns = {
	"UPDATE rpq_store.turn SET room_epoch = room_epoch + 1 WHERE scope_id = ANY ($1)",
	1, {INT8ARRAYOID}
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

/*
 * rpq_store.take_turns(scopes bigint[]): for everything but a cycle that changes what a cycle reads.  The turns are
 * changed, not only locked: see the lock rule.
 */
Datum
rpq_take_turns(PG_FUNCTION_ARGS)
{
	int			n;
	int64	   *scopes = scope_array(PG_GETARG_DATUM(0), &n);
	int64	   *taken = palloc(sizeof(int64) * Max(n, 1));
	int			ntaken;
	Datum		values[1];

	SPI_connect();
	rpq_check_fence();
	ntaken = cycle_take_turns(scopes, n, false, taken);
	for (int i = 0; i < n; i++)
	{
		bool		found = false;

		for (int j = 0; j < ntaken; j++)
			found = found || taken[j] == scopes[i];
		if (!found)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("scope %lld does not exist", (long long) scopes[i])));
	}
	values[0] = rpq_int8_array(taken, ntaken);
	rpq_exec(&change_turns, values, NULL);
	SPI_finish();
	/* what sessions keep of the pools' configuration is looked up anew: see config_cache.c */
	CacheInvalidateRelcacheByRelid(get_relname_relid("pool", get_namespace_oid("rpq_store", false)));
	rpq_wake_at_commit();
	PG_RETURN_VOID();
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

	SPI_connect();
	book = cycle_open(scopes, n, CYCLE_ACT);
	book_load_nodes(book, false);
	book_apply(book, NULL);
	cycle_close(book);
	SPI_finish();
	PG_RETURN_VOID();
}

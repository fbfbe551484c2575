/*
 * place.c
 *
 * Rows that a session finds again by their place (ctid).
 *
 * The rows of turn, lane, usage and node_load are changed in every cycle.  While somebody holds an old snapshot, none
 * of their dead versions can be removed, and whoever looks by key passes all of them.  Over 500,000 changes that made a
 * fold 4.6 times as long.  So the session that cycles remembers where it last saw or put a row, and looks there first.
 *
 * A place is a hint, and every look compares the key as well.  A snapshot sees one version of a row: one that it sees
 * at the place, with the key that is looked for, is the version that the key would have found.  It may be gone from
 * there (somebody changed the row, VACUUM FULL moved it, the transaction that put it there was rolled back): then
 * nothing is found, and the key is used.  So places need not be forgotten when a transaction ends, however it does.
 *
 * A look-up by index clears dead versions off the pages that it passes; a look-up by place does not.  Without that,
 * every version would take new room until the next vacuum, so place_prune does the same for the pages concerned.
 *
 * Writes what it is given; locks nothing.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "store/place.h"

#define MAX_TURNS	10000		/* beyond, the session begins anew */

typedef struct TurnPlace
{
	int64		scope_id;
	ItemPointerData place;
} TurnPlace;

static HTAB *turns = NULL;

bool
place_of_turn(int64 scope_id, ItemPointer place)
{
	TurnPlace  *known = turns == NULL ? NULL : hash_search(turns, &scope_id, HASH_FIND, NULL);

	if (known == NULL)
		return false;
	*place = known->place;
	return ItemPointerIsValid(place);
}

void
place_note_turn(int64 scope_id, ItemPointerData place)
{
	TurnPlace  *known;

	if (turns != NULL && hash_get_num_entries(turns) >= MAX_TURNS)
	{
		hash_destroy(turns);
		turns = NULL;
	}
	if (turns == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(int64);
		ctl.entrysize = sizeof(TurnPlace);
		turns = hash_create("rpq places of turns", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	known = hash_search(turns, &scope_id, HASH_ENTER, NULL);
	known->place = place;
}

ItemPointerData
place_column(uint64 row, int column)
{
	bool		isnull;
	Datum		value = rpq_column(row, column, &isnull);
	ItemPointerData place;

	ItemPointerSetInvalid(&place);
	return isnull ? place : *(ItemPointer) DatumGetPointer(value);
}

Datum
place_array(const ItemPointerData *places, int n)
{
	Datum	   *datums = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		datums[i] = PointerGetDatum(&places[i]);
	return rpq_datum_array(datums, NULL, n, TIDOID);
}

static int
block_order(const void *a, const void *b)
{
	BlockNumber x = *(const BlockNumber *) a;
	BlockNumber y = *(const BlockNumber *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

void
place_prune(const char *table, const ItemPointerData *places, int n)
{
	BlockNumber *blocks = palloc(sizeof(BlockNumber) * Max(n, 1));
	BlockNumber nblocks;
	Relation	rel;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
		blocks[i] = ItemPointerGetBlockNumber(&places[i]);
	qsort(blocks, n, sizeof(BlockNumber), block_order);
	rel = relation_open(get_relname_relid(table, get_namespace_oid("rpq_store", false)), RowExclusiveLock);
	nblocks = rel->rd_rel->relam == HEAP_TABLE_AM_OID ? RelationGetNumberOfBlocks(rel) : 0;
	for (int i = 0; i < n && blocks[i] < nblocks; i++)
	{
		Buffer		buffer;

		if (i > 0 && blocks[i] == blocks[i - 1])
			continue;
		buffer = ReadBuffer(rel, blocks[i]);
		heap_page_prune_opt(rel, buffer);
		ReleaseBuffer(buffer);
	}
	relation_close(rel, NoLock);
}

void
place_init_rows(RowSet *set, const char *table, const Oid *types, int ncolumns, int max)
{
	memset(set, 0, sizeof(RowSet));
	set->table = table;
	set->types = types;
	set->ncolumns = ncolumns;
	for (int c = 0; c < ncolumns; c++)
		set->columns[c] = palloc0(sizeof(Datum) * Max(max, 1));
	set->places = palloc(sizeof(ItemPointer) * Max(max, 1));
}

/* The statement for the rows of the list, whose places become the new ones; the rows that it did not find. */
static int
write_some(RowSet *set, RpqStatement *statement, int *list, int n, const ItemPointerData *places)
{
	Datum		values[RPQ_MAX_ARGS];
	Datum	   *column = palloc(sizeof(Datum) * n);
	bool	   *nulls = palloc(sizeof(bool) * n);
	int			missing = 0;

	for (int c = 0; c < set->ncolumns; c++)
	{
		for (int i = 0; i < n; i++)
		{
			column[i] = set->columns[c][list[i]];
			nulls[i] = set->nulls[c] != NULL && set->nulls[c][list[i]];
		}
		values[c] = rpq_datum_array(column, nulls, n,
									set->types[c] == RPQ_RESOURCES_ARG ? rpq_resources_oid() : set->types[c]);
	}
	if (places != NULL)
		values[set->ncolumns] = place_array(places, n);
	for (int i = 0; i < n; i++)
		ItemPointerSetInvalid(set->places[list[i]]);
	rpq_exec(statement, values, NULL);
	for (uint64 r = 0; r < SPI_processed; r++)
		*set->places[list[rpq_column_int64(r, 1, 1) - 1]] = place_column(r, 2);
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; i < n; i++)
	{
		if (!ItemPointerIsValid(set->places[list[i]]))
			list[missing++] = list[i];
	}
	return missing;
}

void
place_write_rows(RowSet *set, RpqStatement *at, RpqStatement *by_key)
{
	int		   *known = palloc(sizeof(int) * Max(set->n, 1));
	int		   *rest = palloc(sizeof(int) * Max(set->n, 1));
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(set->n, 1));
	int			nknown = 0;
	int			nrest = 0;

	for (int i = 0; i < set->n; i++)
	{
		if (ItemPointerIsValid(set->places[i]))
		{
			places[nknown] = *set->places[i];
			known[nknown++] = i;
		}
		else
			rest[nrest++] = i;
	}
	if (nknown > 0)
	{
		place_prune(set->table, places, nknown);
		nknown = write_some(set, at, known, nknown, places);
		memcpy(rest + nrest, known, sizeof(int) * nknown);
		nrest += nknown;
	}
	if (nrest > 0)
		write_some(set, by_key, rest, nrest, NULL);
}

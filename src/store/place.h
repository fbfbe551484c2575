/*
 * place.h
 *
 * Rows that a session finds again by their place (ctid): place.c.
 */
#ifndef RPQ_STORE_PLACE_H
#define RPQ_STORE_PLACE_H

#include "storage/itemptr.h"

#include "store/spi.h"

/* Where this session last saw the turn of a scope; false: it has not, or would have to look by the key. */
extern bool place_of_turn(int64 scope_id, ItemPointer place);

/* An invalid place forgets. */
extern void place_note_turn(int64 scope_id, ItemPointerData place);

/* A ctid column of the last result; invalid for NULL. */
extern ItemPointerData place_column(uint64 row, int column);

extern Datum place_array(const ItemPointerData *places, int n);

/* The versions that nobody needs any more are cleared off the pages of these rows, as a look-up by index does. */
extern void place_prune(const char *table, const ItemPointerData *places, int n);

/* Rows to be written by one statement: columns of n values each, and where each row's place is kept. */
typedef struct RowSet
{
	const char *table;
	int			n;
	int			ncolumns;
	const Oid  *types;
	Datum	   *columns[RPQ_MAX_ARGS];
	bool	   *nulls[RPQ_MAX_ARGS];	/* NULL: none is null */
	ItemPointerData **places;
} RowSet;

extern void place_init_rows(RowSet *set, const char *table, const Oid *types, int ncolumns, int max);

/*
 * Writes the rows: those whose place is known by `at`, which takes the places as a further argument, the others, and
 * those that are there no more, by `by_key`.  Both return (number of the row in its arrays from 1 on, ctid).
 */
extern void place_write_rows(RowSet *set, RpqStatement *at, RpqStatement *by_key);

#endif							/* RPQ_STORE_PLACE_H */

/*
 * row_writer.h
 *
 * Inserting single rows into the two tables that every submission writes: row_writer.c.
 */
#ifndef RPQ_STORE_ROW_WRITER_H
#define RPQ_STORE_ROW_WRITER_H

#include "access/attnum.h"
#include "nodes/execnodes.h"

#define ROW_WRITER_COLUMNS 24

/* A static variable of its user: the first three fields are given, the rest is the writer's own and starts as zero. */
typedef struct RowWriter
{
	const char *table;			/* in rpq_store */
	const char *identity;		/* the column that is numbered from its sequence */
	const char *columns[ROW_WRITER_COLUMNS];	/* the others, NULL at the end; what is not named here becomes NULL */

	Oid			relid;
	Oid			sequence;
	bool		stale;
	MemoryContext context;
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *slot;
	int			nindexes;
	Oid		   *index_oids;
	AttrNumber	identity_at;
	AttrNumber	at[ROW_WRITER_COLUMNS];
	struct RowWriter *next;
} RowWriter;

/* Inserts one row; values and nulls are in the order of columns.  Returns the identity. */
extern int64 row_writer_insert(RowWriter *writer, const Datum *values, const bool *nulls);

#endif							/* RPQ_STORE_ROW_WRITER_H */

/*
 * spi.h
 *
 * Kept plans.  A statement is a static RpqStatement; its plan is made at the first use, kept for the session, and made
 * anew when the extension was dropped and created again meanwhile (the type rpq.resources then has another OID).
 */
#ifndef RPQ_STORE_SPI_H
#define RPQ_STORE_SPI_H

#include "executor/spi.h"
#include "utils/snapshot.h"

/* In an RpqStatement's argument list: rpq.resources, and its array.  No real type has these numbers. */
#define RPQ_RESOURCES_ARG		((Oid) 1)
#define RPQ_RESOURCES_ARRAY_ARG ((Oid) 2)

#define RPQ_MAX_ARGS 40

typedef struct RpqStatement
{
	const char *sql;
	int			nargs;
	Oid			argtypes[RPQ_MAX_ARGS];
	bool		planner_is_free;	/* it reads whole tables; otherwise it finds its rows by key: see spi.c */
	SPIPlanPtr	plan;
	Oid			made_for;		/* the OID of rpq.resources when the plan was made */
} RpqStatement;

extern Oid	rpq_resources_oid(void);

/*
 * All run a statement inside an open SPI connection and return the number of rows; anything but success is an error.
 *
 * rpq_exec takes a snapshot of its own under READ COMMITTED, so it sees what committed meanwhile: for writing, locking,
 * and reading after a lock was taken.  rpq_read only reads, at the snapshot in force: what the caller's query sees.
 * rpq_exec_at uses the given snapshot, and locks or writes only when it may.
 */
extern uint64 rpq_exec(RpqStatement *statement, Datum *values, const char *nulls);
extern uint64 rpq_read(RpqStatement *statement, Datum *values, const char *nulls);
extern uint64 rpq_exec_at(RpqStatement *statement, Datum *values, const char *nulls, Snapshot snapshot, bool read_only);

/* Columns of row i of the last result; numbered from 1, as SPI does. */
extern Datum rpq_column(uint64 row, int column, bool *isnull);
extern int64 rpq_column_int64(uint64 row, int column, int64 when_null);
extern char *rpq_column_text(uint64 row, int column);

/* Arrays for bulk statements; nulls may be NULL. */
extern Datum rpq_int8_array(const int64 *values, int n);
extern Datum rpq_int4_array(const int32 *values, int n);
extern Datum rpq_datum_array(Datum *values, bool *nulls, int n, Oid type);

#endif							/* RPQ_STORE_SPI_H */

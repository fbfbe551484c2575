/*
 * entry.h
 *
 * One row of the ledger, as a client's call writes it: entry.c.
 */
#ifndef RPQ_API_ENTRY_H
#define RPQ_API_ENTRY_H

#include "datatype/timestamp.h"

#include "core/resources.h"

/* One row of the ledger; zero and NULL fields are stored as NULL where the column allows it. */
typedef struct EntryRow
{
	int64		scope_id;
	TimestampTz at;
	int64		workload_id;
	int64		shape;
	TimestampTz submitted_at;	/* only where waiting > 0 */
	int64		account_id;
	int64		policy_id;
	int64		pool_id;
	int64		type_id;
	int64		lender_id;
	int			attempt;
	int			waiting;
	const char *kind;
	const char *status;
	const char *actor;
	const char *cause;
	const char *detail;
	Resources  *resources;
} EntryRow;

extern void write_entry(const EntryRow *entry);

#endif							/* RPQ_API_ENTRY_H */

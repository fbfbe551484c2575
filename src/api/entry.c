/*
 * entry.c
 *
 * One row of the ledger, written without an executor run: what submit, enqueue and edit add.
 *
 * Writes entry, which is append-only: an entry waits for nobody and nobody waits for it.  At commit the worker is woken
 * for its scope.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "api/entry.h"
#include "store/row_writer.h"
#include "worker/worker.h"

static RowWriter entries = {
	"entry", "entry_id",
	{"scope_id", "xid", "at", "workload_id", "shape", "submitted_at", "account_id", "policy_id", "pool_id", "type_id",
	 "attempt", "waiting", "kind", "status", "actor", "cause", "detail", "resources",
	 "lender_id"}
};

static void
put_text(const char *value, Datum *datum, bool *null)
{
	*null = value == NULL;
	*datum = value == NULL ? (Datum) 0 : CStringGetTextDatum(value);
}

static void
put_id(int64 value, Datum *datum, bool *null)
{
	*null = value == 0;
	*datum = Int64GetDatum(value);
}

void
write_entry(const EntryRow *entry)
{
	Datum		values[19];
	bool		nulls[19] = {false};

	values[0] = Int64GetDatum(entry->scope_id);
	values[1] = FullTransactionIdGetDatum(GetTopFullTransactionId());
	values[2] = TimestampTzGetDatum(entry->at);
	values[3] = Int64GetDatum(entry->workload_id);
	values[4] = Int64GetDatum(entry->shape);
	values[5] = TimestampTzGetDatum(entry->submitted_at);
	nulls[5] = entry->waiting <= 0;
	put_id(entry->account_id, &values[6], &nulls[6]);
	put_id(entry->policy_id, &values[7], &nulls[7]);
	put_id(entry->pool_id, &values[8], &nulls[8]);
	put_id(entry->type_id, &values[9], &nulls[9]);
	values[10] = Int32GetDatum(entry->attempt);
	values[11] = Int16GetDatum(entry->waiting);
	put_text(entry->kind, &values[12], &nulls[12]);
	put_text(entry->status, &values[13], &nulls[13]);
	put_text(entry->actor, &values[14], &nulls[14]);
	put_text(entry->cause, &values[15], &nulls[15]);
	put_text(entry->detail, &values[16], &nulls[16]);
	values[17] = ResourcesPGetDatum(entry->resources);
	nulls[17] = entry->resources == NULL;
	put_id(entry->lender_id, &values[18], &nulls[18]);
	row_writer_insert(&entries, values, nulls);
	rpq_wake_for(entry->scope_id);
}

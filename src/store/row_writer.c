/*
 * row_writer.c
 *
 * Single-row inserts without an executor run each.
 *
 * A submission is two inserts and little else.  Through SPI, starting and ending the executor costs as much as putting
 * the rows and their index entries in place (measured: 1,000 submissions in one statement take 1.6 times as long).  So
 * what the executor would set up anew each time, the description of the table and its indexes, is kept per session
 * until the server says that it changed; the insert itself is the server's own: table_tuple_insert and
 * ExecInsertIndexTuples.
 *
 * The tables written so, workload and entry, have no trigger, no CHECK and no foreign key; NOT NULL is checked here.
 * Columns are found by name, never by number: an updated database may have them in another order.  No relation stays
 * open between calls.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "store/row_writer.h"

static RowWriter *writers = NULL;

/* Any change of the table or one of its indexes makes what is kept stale; so does a reset of the whole cache. */
static void
relation_changed(Datum arg, Oid relid)
{
	for (RowWriter *writer = writers; writer != NULL; writer = writer->next)
	{
		if (relid == InvalidOid || relid == writer->relid)
			writer->stale = true;
		for (int i = 0; i < writer->nindexes; i++)
		{
			if (writer->index_oids[i] == relid)
				writer->stale = true;
		}
	}
}

static void
first_use(RowWriter *writer)
{
	if (writers == NULL)
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	writer->context = AllocSetContextCreate(TopMemoryContext, "rpq row writer", ALLOCSET_DEFAULT_SIZES);
	writer->next = writers;
	writer->stale = true;
	writers = writer;
}

static AttrNumber
column_number(TupleDesc tupdesc, const char *name)
{
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(tupdesc, i);

		if (!attribute->attisdropped && strcmp(NameStr(attribute->attname), name) == 0)
			return attribute->attnum;
	}
	elog(ERROR, "column \"%s\" is missing", name);
	return InvalidAttrNumber;
}

/* Sets up what is kept, and leaves the table and its indexes open. */
static Relation
open_anew(RowWriter *writer)
{
	Oid			namespace = get_namespace_oid("rpq_store", false);
	MemoryContext old;
	Relation	relation;
	TupleDesc	tupdesc;
	ResultRelInfo *result;

	writer->nindexes = 0;
	writer->result = NULL;
	MemoryContextReset(writer->context);
	writer->relid = get_relname_relid(writer->table, namespace);
	relation = table_open(writer->relid, RowExclusiveLock);
	old = MemoryContextSwitchTo(writer->context);
	tupdesc = CreateTupleDescCopy(RelationGetDescr(relation));
	writer->identity_at = column_number(tupdesc, writer->identity);
	writer->sequence = getIdentitySequence(writer->relid, writer->identity_at, false);
	for (int i = 0; writer->columns[i] != NULL; i++)
		writer->at[i] = column_number(tupdesc, writer->columns[i]);
	writer->estate = CreateExecutorState();
	writer->slot = MakeSingleTupleTableSlot(tupdesc, &TTSOpsHeapTuple);
	/* from here on a change makes it stale again */
	writer->stale = false;
	result = makeNode(ResultRelInfo);
	InitResultRelInfo(result, relation, 1, NULL, 0);
	ExecOpenIndices(result, false);
	writer->index_oids = palloc(sizeof(Oid) * Max(result->ri_NumIndices, 1));
	for (int i = 0; i < result->ri_NumIndices; i++)
		writer->index_oids[i] = RelationGetRelid(result->ri_IndexRelationDescs[i]);
	writer->nindexes = result->ri_NumIndices;
	/* last: an error or a cancel while an index is opened leaves nothing half set up to be used */
	writer->result = result;
	MemoryContextSwitchTo(old);
	return relation;
}

/* Opens the table and its indexes as they are kept; NULL, with nothing open, when that is no longer how they are. */
static Relation
open_kept(RowWriter *writer)
{
	Relation	relation = table_open(writer->relid, RowExclusiveLock);
	int			n = 0;

	/* locking may bring news of a change, and with it another description at another place */
	while (!writer->stale && n < writer->nindexes)
	{
		Relation	index = index_open(writer->index_oids[n], RowExclusiveLock);

		if (index != writer->result->ri_IndexRelationDescs[n])
		{
			index_close(index, NoLock);
			writer->stale = true;
			break;
		}
		n++;
	}
	if (!writer->stale && relation == writer->result->ri_RelationDesc)
		return relation;
	writer->stale = true;
	/* what was opened is pinned, so it is still where it was */
	for (int i = 0; i < n; i++)
		index_close(writer->result->ri_IndexRelationDescs[i], NoLock);
	table_close(relation, NoLock);
	return NULL;
}

static void
close_all(RowWriter *writer, Relation relation)
{
	for (int i = 0; i < writer->result->ri_NumIndices; i++)
		index_close(writer->result->ri_IndexRelationDescs[i], NoLock);
	table_close(relation, NoLock);
}

static void
fill_slot(RowWriter *writer, int64 id, const Datum *values, const bool *nulls)
{
	TupleTableSlot *slot = writer->slot;
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, tupdesc->natts * sizeof(bool));
	memset(slot->tts_values, 0, tupdesc->natts * sizeof(Datum));
	for (int i = 0; writer->columns[i] != NULL; i++)
	{
		slot->tts_values[writer->at[i] - 1] = values[i];
		slot->tts_isnull[writer->at[i] - 1] = nulls[i];
	}
	slot->tts_values[writer->identity_at - 1] = Int64GetDatum(id);
	slot->tts_isnull[writer->identity_at - 1] = false;
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(tupdesc, i);

		if (slot->tts_isnull[i] && attribute->attnotnull && !attribute->attisdropped)
			elog(ERROR, "column \"%s\" of table \"%s\" is not given", NameStr(attribute->attname), writer->table);
	}
	ExecStoreVirtualTuple(slot);
}

int64
row_writer_insert(RowWriter *writer, const Datum *values, const bool *nulls)
{
	Relation	relation = NULL;
	int64		id;

	if (writer->context == NULL)
		first_use(writer);
	PreventCommandIfReadOnly("INSERT");
	PreventCommandIfParallelMode("INSERT");
	if (!writer->stale && writer->result != NULL)
		relation = open_kept(writer);
	if (relation == NULL)
		relation = open_anew(writer);
	id = nextval_internal(writer->sequence, false);
	fill_slot(writer, id, values, nulls);
	table_tuple_insert(relation, writer->slot, GetCurrentCommandId(true), 0, NULL);
	if (writer->result->ri_NumIndices > 0)
		ExecInsertIndexTuples(writer->result, writer->slot, writer->estate, false, false, NULL, NIL);
	ResetPerTupleExprContext(writer->estate);
	ExecClearTuple(writer->slot);
	close_all(writer, relation);
	return id;
}

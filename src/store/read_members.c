/*
 * read_members.c
 *
 * The members of a lane, a few dozen at a time, when the core asks for them.
 *
 * Reads workload, and locks what it reads (FOR UPDATE SKIP LOCKED) when the Book may act: a row that a client keeps
 * locked is passed over, so nobody's open transaction stops those behind it.  Whoever wants to change a row that was
 * read waits for this cycle alone.  The rows are found at the book's snapshot, so nothing is admitted whose arrival has
 * not been counted; their columns are those of the row as it is now.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "store/book.h"
#include "store/evictions.h"
#include "store/members.h"
#include "store/spi.h"

/* The shape's columns are compared too: two shapes with one hash must never pass for each other. */
#define AS_EXPECTED \
	"w.account_id = $6 AND w.replicas = $7 AND w.priority = $8 AND w.resources OPERATOR(rpq.=) $9" \
	" AND w.guarantee = $10 AND w.checkpointable = $11 AND w.workload_type = $12" \
	" AND w.instance_types IS NOT DISTINCT FROM $13 AND w.max_runtime IS NOT DISTINCT FROM $14"

#define IN_LANE \
	"  FROM rpq_store.workload w" \
	" WHERE w.scope_id = $1 AND w.shape = $2 AND w.status = 'queued' AND (w.submitted_at, w.workload_id) >= ($3, $4)" \
	" ORDER BY w.submitted_at, w.workload_id LIMIT $5"

#define MEMBER_ARGS \
	14, {INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, RPQ_RESOURCES_ARG, BOOLOID, \
		 BOOLOID, TEXTOID, INT8ARRAYOID, INTERVALOID}

static RpqStatement look_at_members = {
	"SELECT w.workload_id, w.submitted_at, w.attempt, " AS_EXPECTED IN_LANE, MEMBER_ARGS
};

static RpqStatement take_members = {
	"SELECT w.workload_id, w.submitted_at, w.attempt, " AS_EXPECTED IN_LANE " FOR UPDATE SKIP LOCKED", MEMBER_ARGS
};

static void
set_aside(Book *book, int64 workload_id)
{
	Size		bytes = sizeof(int64) * (book->nset_aside + 1);

	book->set_aside = book->set_aside == NULL ? palloc(bytes) : repalloc(book->set_aside, bytes);
	book->set_aside[book->nset_aside++] = workload_id;
}

static uint64
run_members(Book *book, const Lane *lane, TimestampTz at, int64 id, int want)
{
	LaneRow    *row = lane->store;
	Datum		values[14];
	char		nulls[15] = "              ";

	values[0] = Int64GetDatum(lane->scope_id);
	values[1] = Int64GetDatum(lane->shape);
	values[2] = TimestampTzGetDatum(at);
	values[3] = Int64GetDatum(id);
	values[4] = Int64GetDatum(want);
	values[5] = Int64GetDatum(row->account_id);
	values[6] = Int32GetDatum(row->replicas);
	values[7] = Int32GetDatum(row->priority);
	values[8] = ResourcesPGetDatum(row->resources);
	values[9] = BoolGetDatum(row->guarantee);
	values[10] = BoolGetDatum(row->checkpointable);
	values[11] = CStringGetTextDatum(row->workload_type);
	values[12] = row->types_array;
	nulls[12] = row->types_array == 0 ? 'n' : ' ';
	values[13] = row->max_runtime;
	nulls[13] = row->max_runtime == 0 ? 'n' : ' ';
	return rpq_exec_at(book->act ? &take_members : &look_at_members, values, nulls, book->snapshot, !book->act);
}

static int
read_some(Book *book, Lane *lane, TimestampTz at, int64 id, int want, Member *out, TimestampTz *next_at,
		  int64 *next_id, int *nread)
{
	uint64		rows = run_members(book, lane, at, id, want);
	int			n = 0;

	((LaneRow *) lane->store)->was_read = true;

	for (uint64 i = 0; i < rows; i++)
	{
		*next_id = rpq_column_int64(i, 1, 0) + 1;
		*next_at = rpq_column_int64(i, 2, 0);
		if (rpq_column_int64(i, 4, 0) == 0)
		{
			set_aside(book, rpq_column_int64(i, 1, 0));
			continue;
		}
		/* one for which room is held comes before all others, and has its own place in the World */
		if (evictions_has_room(book, rpq_column_int64(i, 1, 0)))
			continue;
		out[n].workload_id = rpq_column_int64(i, 1, 0);
		out[n].submitted_at = rpq_column_int64(i, 2, 0);
		out[n++].attempt = (int) rpq_column_int64(i, 3, 0);
	}
	SPI_freetuptable(SPI_tuptable);
	*nread = (int) rows;
	return n;
}

/* World.read_members: fewer than want only at the lane's end. */
int
book_read_members(World *world, Lane *lane, const Member *after, int want, Member *out)
{
	Book	   *book = world->store;
	TimestampTz at = after == NULL ? lane->head_at : after->submitted_at;
	int64		id = after == NULL ? lane->head_id : after->workload_id + 1;
	int			n = 0;
	int			nread;

	do
	{
		int			asked = want - n;

		n += read_some(book, lane, at, id, asked, out + n, &at, &id, &nread);
		if (nread < asked)
			break;
	} while (n < want);
	return n;
}

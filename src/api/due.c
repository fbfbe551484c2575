/*
 * due.c
 *
 * Which scopes have something to do: entries that no fold has counted, lanes that room or a setting has moved on, or
 * whose time has come, and workloads that have run for as long as they may.
 *
 * Asked in every round of the worker, so it must not pass the dead versions that an old snapshot keeps of each turn and
 * each lane.  Turns are looked for where this session last saw them (place.c), and lanes that it keeps are asked in
 * memory (keep.c).  The rest is looked up by key.
 *
 * Reads pool, turn, entry, lane and workload; locks and writes nothing.  A scope that somebody changes meanwhile is
 * due, or not, by the next round: who changes it wakes the worker at commit.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "api/due.h"
#include "rpq.h"
#include "store/keep.h"
#include "store/place.h"
#include "store/spi.h"

/*
 * Pools are never deleted physically, so those that are gone only grow in number.  What was under way when a pool was
 * deleted may still arrive there, as a rule soon; later than an hour, a look once a second is enough.
 */
static RpqStatement recent_scopes = {
	"SELECT pool_id FROM rpq_store.pool WHERE status <> 'deleted' OR deleted_at > $1 ORDER BY pool_id",
	1, {TIMESTAMPTZOID}
};

static RpqStatement all_scopes = {
	"SELECT pool_id FROM rpq_store.pool ORDER BY pool_id", 0, {0}
};

static TimestampTz looked_at_all = DT_NOBEGIN;

#define DUE_COLUMNS \
	"SELECT t.scope_id, t.ctid, t.own_xid, t.cycle, t.room_epoch," \
	"       EXISTS (SELECT FROM rpq_store.entry e" \
	"                WHERE e.scope_id = t.scope_id AND e.xid >= pg_snapshot_xmax(t.seen) AND e.xid <> t.own_xid)" \
	"    OR EXISTS (SELECT FROM pg_snapshot_xip(t.seen) x CROSS JOIN LATERAL (" \
	"                SELECT FROM rpq_store.entry e WHERE e.scope_id = t.scope_id AND e.xid = x AND e.xid <> t.own_xid" \
	"                OFFSET 0) e)" \
	"    OR EXISTS (SELECT FROM rpq_store.entry e" \
	"                WHERE e.scope_id = t.scope_id AND e.xid = t.own_xid AND e.entry_id + 0 > t.own_entry)" \
	"    OR EXISTS (SELECT FROM rpq_store.workload w WHERE w.scope_id = t.scope_id AND w.deadline <= $1" \
	"                AND w.status IN ('starting', 'running'))"

/* Turns whose place and whose lanes are known. */
static RpqStatement due_at = {
	DUE_COLUMNS "  FROM unnest($2, $3) AS n (scope_id, place)"
	"  JOIN rpq_store.turn t ON t.ctid = n.place AND t.scope_id + 0 = n.scope_id",
	3, {TIMESTAMPTZOID, INT8ARRAYOID, TIDARRAYOID}
};

static RpqStatement due_by_key = {
	DUE_COLUMNS
	"    OR EXISTS (SELECT FROM rpq_store.lane l WHERE l.scope_id = t.scope_id AND l.waiting > 0"
	"                AND (l.blocked_at_epoch <> t.room_epoch"
	"                  OR (l.reason_code = 'backing_off' AND l.not_before <= $1)))"
	"  FROM rpq_store.turn t WHERE t.scope_id = ANY ($2)",
	2, {TIMESTAMPTZOID, INT8ARRAYOID}
};

typedef struct DueScope
{
	int64		scope_id;
	bool		answered;
	bool		due;
} DueScope;

static int
due_order(const void *a, const void *b)
{
	const DueScope *x = a;
	const DueScope *y = b;

	return x->scope_id < y->scope_id ? -1 : x->scope_id > y->scope_id ? 1 : 0;
}

static DueScope *
list_scopes(int *n)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		all = now < looked_at_all || now >= looked_at_all + USECS_PER_SEC;
	Datum		values[1] = {TimestampTzGetDatum(rpq_now() - USECS_PER_HOUR)};
	uint64		rows = all ? rpq_exec(&all_scopes, NULL, NULL) : rpq_exec(&recent_scopes, values, NULL);
	DueScope   *scopes = palloc0(sizeof(DueScope) * Max(rows, 1));

	if (all)
		looked_at_all = now;
	for (uint64 i = 0; i < rows; i++)
		scopes[i].scope_id = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	*n = (int) rows;
	return scopes;
}

/* The answers of a statement; one that leaves the lanes to the kept ones is none when these are not of this turn. */
static void
take_answers(DueScope *scopes, int n, uint64 rows, bool ask_lanes, TimestampTz now)
{
	for (uint64 i = 0; i < rows; i++)
	{
		DueScope	key = {rpq_column_int64(i, 1, 0)};
		DueScope   *scope = bsearch(&key, scopes, n, sizeof(DueScope), due_order);
		KeptLanes	lanes = KEPT_LANES_REST;

		if (scope == NULL)
			continue;
		place_note_turn(scope->scope_id, place_column(i, 2));
		if (ask_lanes)
			lanes = keep_ask_lanes(scope->scope_id, (uint64) rpq_column_int64(i, 3, 0), rpq_column_int64(i, 4, 0),
								   rpq_column_int64(i, 5, 0), now);
		scope->due = rpq_column_int64(i, 6, 0) != 0 || lanes == KEPT_LANES_DUE;
		scope->answered = scope->due || lanes != KEPT_LANES_UNKNOWN;
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
ask_at_places(DueScope *scopes, int n, TimestampTz now)
{
	int64	   *ids = palloc(sizeof(int64) * Max(n, 1));
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(n, 1));
	Datum		values[3];
	int			known = 0;

	for (int i = 0; i < n; i++)
	{
		ids[known] = scopes[i].scope_id;
		if (keep_has_lanes(scopes[i].scope_id) && place_of_turn(scopes[i].scope_id, &places[known]))
			known++;
	}
	if (known == 0)
		return;
	values[0] = TimestampTzGetDatum(now);
	values[1] = rpq_int8_array(ids, known);
	values[2] = place_array(places, known);
	take_answers(scopes, n, rpq_exec(&due_at, values, NULL), true, now);
}

static void
ask_by_key(DueScope *scopes, int n, TimestampTz now)
{
	int64	   *ids = palloc(sizeof(int64) * Max(n, 1));
	Datum		values[2];
	int			rest = 0;

	for (int i = 0; i < n; i++)
	{
		if (!scopes[i].answered)
			ids[rest++] = scopes[i].scope_id;
	}
	if (rest == 0)
		return;
	values[0] = TimestampTzGetDatum(now);
	values[1] = rpq_int8_array(ids, rest);
	take_answers(scopes, n, rpq_exec(&due_by_key, values, NULL), false, now);
}

int
due_scopes(int64 **due)
{
	TimestampTz now = rpq_now();
	int			n;
	int			ndue = 0;
	DueScope   *scopes = list_scopes(&n);

	*due = palloc(sizeof(int64) * Max(n, 1));
	ask_at_places(scopes, n, now);
	ask_by_key(scopes, n, now);
	for (int i = 0; i < n; i++)
	{
		if (scopes[i].due)
			(*due)[ndue++] = scopes[i].scope_id;
	}
	return ndue;
}

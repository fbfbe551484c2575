/*
 * due.c
 *
 * Which scopes have something to do: entries that no fold has counted, lanes that room or a setting has moved on, or
 * whose time has come, workloads that have run for as long as they may, and victims whose time to stop is over.
 *
 * Asked in every round of the worker, so it must not pass the dead versions that an old snapshot keeps of each turn and
 * each lane.  Turns are looked for where this session last saw them (place.c), and lanes that it keeps are asked in
 * memory (keep.c).  The rest is looked up by key.
 *
 * Reads pool, queue, turn, entry, lane, workload, preemption and hold; locks and writes nothing.  A scope that somebody
 * changes meanwhile is due, or not, by the next round: who changes it wakes the worker at commit.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "api/due.h"
#include "rpq.h"
#include "store/keep.h"
#include "store/place.h"
#include "store/sets.h"
#include "store/spi.h"

/*
 * Pools and queues are never deleted physically, so those that are gone only grow in number.  What was under way when
 * one was deleted may still arrive there, as a rule soon; later than an hour, a look once a second is enough.
 */
static RpqStatement recent_scopes = {
	"SELECT pool_id FROM rpq_store.pool WHERE status <> 'deleted' OR deleted_at > $1"
	" UNION ALL SELECT queue_id FROM rpq_store.queue WHERE deleted_at IS NULL OR deleted_at > $1",
	1, {TIMESTAMPTZOID}, true
};

static RpqStatement all_scopes = {
	"SELECT pool_id FROM rpq_store.pool UNION ALL SELECT queue_id FROM rpq_store.queue", 0, {0}, true
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

/* Turns whose place is known. */
static RpqStatement due_at = {
	DUE_COLUMNS "  FROM unnest($2, $3) AS n (scope_id, place)"
	"  JOIN rpq_store.turn t ON t.ctid = n.place AND t.scope_id + 0 = n.scope_id",
	3, {TIMESTAMPTZOID, INT8ARRAYOID, TIDARRAYOID}
};

static RpqStatement due_by_key = {
	DUE_COLUMNS "  FROM rpq_store.turn t WHERE t.scope_id = ANY ($2)",
	2, {TIMESTAMPTZOID, INT8ARRAYOID}
};

/* At which epochs lanes were blocked, 0 for some that were not; and whether the time of one has come. */
static RpqStatement waiting_lanes = {
	"SELECT l.scope_id, l.blocked_at_epoch, bool_or(l.reason_code = 'backing_off' AND l.not_before <= $1)"
	"  FROM rpq_store.lane l WHERE l.scope_id = ANY ($2) AND l.waiting > 0 GROUP BY 1, 2",
	2, {TIMESTAMPTZOID, INT8ARRAYOID}
};

/* A victim that was given time to stop has had it. */
static RpqStatement over = {
	"SELECT p.pool_id FROM rpq_store.preemption p WHERE p.state = 'pending' AND p.expires_at <= $1"
	" UNION SELECT h.scope_id FROM rpq_store.hold h WHERE h.purpose = 'preempt' AND h.expires_at <= $1",
	1, {TIMESTAMPTZOID}, true
};

typedef struct DueScope
{
	int64		scope_id;
	bool		answered;		/* its turn was found */
	bool		due;
	TurnMark	turn;
	int64		epoch;			/* of its set, when its lanes are to be asked by key */
} DueScope;

/* What is asked; the scopes by id. */
typedef struct Question
{
	int			n;
	DueScope   *scopes;
	TimestampTz now;
} Question;

static int
scope_order(const void *a, const void *b)
{
	int64		x = ((const DueScope *) a)->scope_id;
	int64		y = ((const DueScope *) b)->scope_id;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* The scopes to be asked about, whole sets, by id. */
static DueScope *
list_scopes(int *n)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		all = now < looked_at_all || now >= looked_at_all + USECS_PER_SEC;
	Datum		values[1] = {TimestampTzGetDatum(rpq_now() - USECS_PER_HOUR)};
	uint64		rows = all ? rpq_exec(&all_scopes, NULL, NULL) : rpq_exec(&recent_scopes, values, NULL);
	int64	   *ids = palloc(sizeof(int64) * Max(rows, 1));
	DueScope   *scopes;

	if (all)
		looked_at_all = now;
	for (uint64 i = 0; i < rows; i++)
		ids[i] = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	ids = sets_extend(ids, (int) rows, n);
	scopes = palloc0(sizeof(DueScope) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		scopes[i].scope_id = ids[i];
	return scopes;
}

static DueScope *
find_scope(Question *question, int64 scope_id)
{
	DueScope	key = {scope_id};

	return bsearch(&key, question->scopes, question->n, sizeof(DueScope), scope_order);
}

static void
take_answers(Question *question, uint64 rows)
{
	for (uint64 i = 0; i < rows; i++)
	{
		DueScope   *scope = find_scope(question, rpq_column_int64(i, 1, 0));

		if (scope == NULL)
			continue;
		place_note_turn(scope->scope_id, place_column(i, 2));
		scope->turn = (TurnMark) {scope->scope_id, (uint64) rpq_column_int64(i, 3, 0), rpq_column_int64(i, 4, 0),
			rpq_column_int64(i, 5, 0)};
		scope->due = rpq_column_int64(i, 6, 0) != 0;
		scope->answered = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
ask_turns(Question *question)
{
	int64	   *ids = palloc(sizeof(int64) * Max(question->n, 1));
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(question->n, 1));
	Datum		values[3] = {TimestampTzGetDatum(question->now)};
	int			n = 0;

	for (int i = 0; i < question->n; i++)
	{
		ids[n] = question->scopes[i].scope_id;
		if (place_of_turn(ids[n], &places[n]))
			n++;
	}
	if (n > 0)
	{
		values[1] = rpq_int8_array(ids, n);
		values[2] = place_array(places, n);
		take_answers(question, rpq_exec(&due_at, values, NULL));
	}
	n = 0;
	for (int i = 0; i < question->n; i++)
	{
		if (!question->scopes[i].answered)
			ids[n++] = question->scopes[i].scope_id;
	}
	if (n > 0)
	{
		values[1] = rpq_int8_array(ids, n);
		take_answers(question, rpq_exec(&due_by_key, values, NULL));
	}
}

static int
set_order(const void *a, const void *b)
{
	const DueScope *x = *(DueScope *const *) a;
	const DueScope *y = *(DueScope *const *) b;
	int64		x_first = sets_first(x->scope_id);
	int64		y_first = sets_first(y->scope_id);

	if (x_first != y_first)
		return x_first < y_first ? -1 : 1;
	return x->scope_id < y->scope_id ? -1 : x->scope_id > y->scope_id ? 1 : 0;
}

/*
 * What is kept of the lanes of a set.  When that does not say, the epoch that they are to be compared with is noted.
 * One scope that is due is enough: whoever takes its turn takes those of the set.
 */
static bool
lanes_are_known(Question *question, DueScope **set, int n)
{
	TurnMark   *turns = palloc0(sizeof(TurnMark) * n);
	KeptLanes	lanes;
	int64		epoch;

	for (int i = 0; i < n; i++)
	{
		if (set[i]->due)
			return true;
		turns[i] = set[i]->turn;
	}
	lanes = keep_ask_lanes(turns, n, question->now);
	set[0]->due = lanes == KEPT_LANES_DUE;
	epoch = marks_epoch(turns, n);
	for (int i = 0; i < n; i++)
		set[i]->epoch = epoch;
	pfree(turns);
	return lanes != KEPT_LANES_UNKNOWN;
}

static void
ask_lanes(Question *question)
{
	DueScope  **scopes = palloc(sizeof(DueScope *) * Max(question->n, 1));
	int64	   *ids = palloc(sizeof(int64) * Max(question->n, 1));
	Datum		values[2] = {TimestampTzGetDatum(question->now), 0};
	int			unknown = 0;
	int			answered = 0;
	int			size;
	uint64		rows;

	for (int i = 0; i < question->n; i++)
	{
		if (question->scopes[i].answered)
			scopes[answered++] = &question->scopes[i];
	}
	qsort(scopes, answered, sizeof(DueScope *), set_order);
	for (int i = 0; i < answered; i += size)
	{
		int64		first = sets_first(scopes[i]->scope_id);

		size = 1;
		while (i + size < answered && sets_first(scopes[i + size]->scope_id) == first)
			size++;
		if (lanes_are_known(question, &scopes[i], size))
			continue;
		for (int j = 0; j < size; j++)
			ids[unknown++] = scopes[i + j]->scope_id;
	}
	if (unknown == 0)
		return;
	values[1] = rpq_int8_array(ids, unknown);
	rows = rpq_exec(&waiting_lanes, values, NULL);
	for (uint64 i = 0; i < rows; i++)
	{
		DueScope   *scope = find_scope(question, rpq_column_int64(i, 1, 0));

		scope->due = scope->due || rpq_column_int64(i, 2, 0) != scope->epoch || rpq_column_int64(i, 3, 0) != 0;
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
ask_victims(Question *question)
{
	Datum		values[1] = {TimestampTzGetDatum(question->now)};
	uint64		rows = rpq_exec(&over, values, NULL);

	for (uint64 i = 0; i < rows; i++)
	{
		DueScope   *scope = find_scope(question, rpq_column_int64(i, 1, 0));

		if (scope != NULL)
			scope->due = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

int
due_scopes(int64 **due)
{
	Question	question = {0};
	int			ndue = 0;

	question.now = rpq_now();
	question.scopes = list_scopes(&question.n);
	*due = palloc(sizeof(int64) * Max(question.n, 1));
	ask_turns(&question);
	ask_victims(&question);
	ask_lanes(&question);
	for (int i = 0; i < question.n; i++)
	{
		if (question.scopes[i].due)
			(*due)[ndue++] = question.scopes[i].scope_id;
	}
	return ndue;
}

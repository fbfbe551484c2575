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
 * Who wakes the worker says as a rule which scope it is about.  Then just these are looked at, and those that were due
 * last time: with some thousand queues, a look at all of them takes longer than most cycles.  All are looked at when
 * somebody changed more than the ledger, and once a second in any case: what time brings is found then, and what was
 * committed without a wake.  Even then few turns are probed for entries (news.c).
 *
 * Reads pool, queue, turn, entry, lane, workload, preemption and hold; locks and writes nothing.  A scope that somebody
 * changes meanwhile is due, or not, by the next round: who changes it wakes the worker at commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "api/due.h"
#include "api/news.h"
#include "rpq.h"
#include "store/keep.h"
#include "store/place.h"
#include "store/sets.h"
#include "store/spi.h"
#include "worker/worker.h"

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

#define TURN_COLUMNS "SELECT t.scope_id, t.ctid, t.own_xid, t.cycle, t.room_epoch,"

/* Is there an entry that the turn has not counted? */
#define UNCOUNTED \
	"       EXISTS (SELECT FROM rpq_store.entry e" \
	"                WHERE e.scope_id = t.scope_id AND e.xid >= pg_snapshot_xmax(t.seen) AND e.xid <> t.own_xid)" \
	"    OR EXISTS (SELECT FROM pg_snapshot_xip(t.seen) x CROSS JOIN LATERAL (" \
	"                SELECT FROM rpq_store.entry e WHERE e.scope_id = t.scope_id AND e.xid = x AND e.xid <> t.own_xid" \
	"                OFFSET 0) e)" \
	"    OR EXISTS (SELECT FROM rpq_store.entry e" \
	"                WHERE e.scope_id = t.scope_id AND e.xid = t.own_xid AND e.entry_id + 0 > t.own_entry)"

/* Of turns whose place is known (which may hold others now, or none), and of the others. */
#define AT "  FROM rpq_store.turn t WHERE t.ctid = ANY ($1)", 1, {TIDARRAYOID}
#define BY_KEY "  FROM rpq_store.turn t WHERE t.scope_id = ANY ($1)", 1, {INT8ARRAYOID}

static RpqStatement uncounted_at = {TURN_COLUMNS UNCOUNTED AT};
static RpqStatement uncounted_by_key = {TURN_COLUMNS UNCOUNTED BY_KEY};
static RpqStatement turns_at = {TURN_COLUMNS " false" AT};
static RpqStatement turns_by_key = {TURN_COLUMNS " false" BY_KEY};

/* Entries of transactions from one on, or, of one transaction, those that its cycles wrote without counting them. */
static RpqStatement new_entries = {
	"SELECT DISTINCT e.scope_id FROM rpq_store.entry e WHERE e.scope_id = ANY ($1) AND e.xid >= $2",
	2, {INT8ARRAYOID, XID8OID}
};

static RpqStatement own_entries = {
	"SELECT DISTINCT e.scope_id FROM rpq_store.entry e"
	" WHERE e.scope_id = ANY ($1) AND e.xid = $2 AND e.kind <> 'admit'",
	2, {INT8ARRAYOID, XID8OID}
};

static RpqStatement overdue = {
	"SELECT DISTINCT w.scope_id FROM rpq_store.workload w"
	" WHERE w.scope_id = ANY ($1) AND w.deadline <= $2 AND w.status IN ('starting', 'running')",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

/* At which epochs lanes were blocked, 0 for some that were not; and when the time of the first comes that backs off. */
static RpqStatement waiting_lanes = {
	"SELECT l.scope_id, l.blocked_at_epoch, min(l.not_before) FILTER (WHERE l.reason_code = 'backing_off')"
	"  FROM rpq_store.lane l WHERE l.scope_id = ANY ($1) AND l.waiting > 0 GROUP BY 1, 2",
	1, {INT8ARRAYOID}
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
	int64		first;			/* of its set */
	bool		ask;			/* for uncounted entries */
	bool		answered;		/* its turn was found */
	bool		decided;		/* one of its set is due: nothing more need be known of it */
	bool		due;
	bool		by_key;			/* its lanes are not kept */
	TurnMark	turn;
	int64		epoch;			/* of its set, when its lanes are to be asked by key */
} DueScope;

/* A scope whose lanes were asked by key, and none was due.  Who changes a lane changes the turn as well. */
typedef struct AtRest
{
	TurnMark	turn;
	int64		epoch;			/* of its set */
} AtRest;

/* What is asked; the scopes by id. */
typedef struct Question
{
	int			n;
	DueScope   *scopes;
	int64	   *ids;			/* [n]; the same */
	TimestampTz now;
	bool		own_writes;		/* by this transaction, before it asks */
	bool		all;			/* also those that were deleted long ago */
} Question;

/* What a session remembers. */
static bool remembers = false;	/* the last look at everything came to its end */
static TimestampTz looked_at = DT_NOBEGIN;	/* when that was */
static TimestampTz looked_at_all = DT_NOBEGIN;	/* and when it was a look at the long deleted ones too */
static int	nknown = 0;
static int64 *known = NULL;		/* [nknown]; what it looked at */
static int	nresting = 0;
static AtRest *resting = NULL;	/* [nresting]; ascending */
static TimestampTz resting_until = DT_NOBEGIN;	/* then one that backs off may be tried again */

/* What the worker remembers beside. */
static int	nprocessed = 0;
static int64 *processed = NULL; /* [nprocessed]; the scopes of the last cycles */
static uint64 processed_xid = 0;	/* that ran in this transaction */

static int
scope_order(const void *a, const void *b)
{
	int64		x = ((const DueScope *) a)->scope_id;
	int64		y = ((const DueScope *) b)->scope_id;

	return x < y ? -1 : x > y ? 1 : 0;
}

static DueScope *
find_scope(Question *question, int64 scope_id)
{
	DueScope	key = {scope_id};

	return bsearch(&key, question->scopes, question->n, sizeof(DueScope), scope_order);
}

static void
remember(int64 **list, int *n, const int64 *ids, int nids)
{
	int64	   *copy = MemoryContextAlloc(TopMemoryContext, sizeof(int64) * Max(nids, 1));

	memcpy(copy, ids, sizeof(int64) * nids);
	if (*list != NULL)
		pfree(*list);
	*list = copy;
	*n = nids;
}

/* ------------------------------------------------------- what is asked about */

/* The scopes, and all that are tied to them. */
static void
ask_about(Question *question, const int64 *ids, int n)
{
	question->ids = sets_extend(ids, n, &question->n);
	question->scopes = palloc0(sizeof(DueScope) * Max(question->n, 1));
	for (int i = 0; i < question->n; i++)
	{
		question->scopes[i].scope_id = question->ids[i];
		question->scopes[i].first = sets_first(question->ids[i]);
	}
}

static void
ask_about_all(Question *question)
{
	TimestampTz now = GetCurrentTimestamp();
	Datum		values[1] = {TimestampTzGetDatum(question->now - USECS_PER_HOUR)};
	uint64		rows;
	int64	   *ids;

	question->all = !remembers || now < looked_at_all || now >= looked_at_all + USECS_PER_SEC;
	rows = question->all ? rpq_exec(&all_scopes, NULL, NULL) : rpq_exec(&recent_scopes, values, NULL);
	ids = palloc(sizeof(int64) * Max(rows, 1));
	if (question->all)
		looked_at_all = now;
	for (uint64 i = 0; i < rows; i++)
		ids[i] = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	ask_about(question, ids, (int) rows);
}

/* Scopes that a statement names are asked for entries. */
static void
ask_these(Question *question, RpqStatement *statement, Datum *values)
{
	uint64		rows = rpq_exec(statement, values, NULL);

	for (uint64 i = 0; i < rows; i++)
	{
		DueScope   *scope = find_scope(question, rpq_column_int64(i, 1, 0));

		if (scope != NULL)
			scope->ask = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
ask_touched(Question *question)
{
	for (int i = 0; i < question->n; i++)
		question->scopes[i].ask = question->scopes[i].ask || news_is_touched(question->scopes[i].scope_id);
}

/* Of all scopes, those that have to be asked for entries. */
static void
choose_of_all(Question *question, Snapshot snapshot)
{
	uint64		first = question->own_writes ? 0 : news_first(snapshot);
	Datum		values[2] = {rpq_int8_array(question->ids, question->n),
		FullTransactionIdGetDatum(FullTransactionIdFromU64(first))};

	for (int i = 0; i < question->n && first == 0; i++)
		question->scopes[i].ask = true;
	if (first != 0)
		ask_these(question, &new_entries, values);
}

/* What the last cycles of this session wrote without counting it. */
static void
choose_of_processed(Question *question)
{
	Datum		values[2];

	if (nprocessed == 0)
		return;
	values[0] = rpq_int8_array(processed, nprocessed);
	values[1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(processed_xid));
	ask_these(question, &own_entries, values);
}

/* ------------------------------------------------------------------ answers */

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
		scope->due = scope->due || rpq_column_int64(i, 6, 0) != 0;
		scope->answered = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

static bool
is_asked(const DueScope *scope, bool entries)
{
	return scope->ask == entries && !scope->answered && !scope->decided;
}

/* The turns of those that are asked for entries, or of the others. */
static void
ask_turns(Question *question, bool entries)
{
	int64	   *ids = palloc(sizeof(int64) * Max(question->n, 1));
	ItemPointerData *places = palloc(sizeof(ItemPointerData) * Max(question->n, 1));
	Datum		values[1];
	int			n = 0;

	for (int i = 0; i < question->n; i++)
	{
		ids[n] = question->scopes[i].scope_id;
		if (is_asked(&question->scopes[i], entries) && place_of_turn(ids[n], &places[n]))
			n++;
	}
	if (n > 0)
	{
		values[0] = place_array(places, n);
		take_answers(question, rpq_exec(entries ? &uncounted_at : &turns_at, values, NULL));
	}
	n = 0;
	for (int i = 0; i < question->n; i++)
	{
		if (is_asked(&question->scopes[i], entries))
			ids[n++] = question->scopes[i].scope_id;
	}
	if (n > 0)
	{
		values[0] = rpq_int8_array(ids, n);
		take_answers(question, rpq_exec(entries ? &uncounted_by_key : &turns_by_key, values, NULL));
	}
}

static int
id_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

static void
find_decided(Question *question)
{
	int64	   *firsts = palloc(sizeof(int64) * Max(question->n, 1));
	int			n = 0;

	for (int i = 0; i < question->n; i++)
	{
		if (question->scopes[i].due)
			firsts[n++] = question->scopes[i].first;
	}
	qsort(firsts, n, sizeof(int64), id_order);
	for (int i = 0; i < question->n && n > 0; i++)
		question->scopes[i].decided = bsearch(&question->scopes[i].first, firsts, n, sizeof(int64), id_order) != NULL;
}

static int
rest_order(const void *a, const void *b)
{
	return id_order(&((const AtRest *) a)->turn.scope_id, &((const AtRest *) b)->turn.scope_id);
}

static int
set_order(const void *a, const void *b)
{
	const DueScope *x = *(DueScope *const *) a;
	const DueScope *y = *(DueScope *const *) b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->scope_id < y->scope_id ? -1 : x->scope_id > y->scope_id ? 1 : 0;
}

/* The lanes of a set were at rest when its turns were last seen as they are now. */
static bool
still_rests(const Question *question, DueScope **set, int n)
{
	if (question->own_writes || question->now >= resting_until)
		return false;
	for (int i = 0; i < n; i++)
	{
		AtRest		now = {set[i]->turn, set[i]->epoch};
		AtRest	   *before = bsearch(&now, resting, nresting, sizeof(AtRest), rest_order);

		if (before == NULL || memcmp(before, &now, sizeof(AtRest)) != 0)
			return false;
	}
	return true;
}

/*
 * What is kept of the lanes of a set, or remembered.  When that does not say, they are to be asked by key.  One scope
 * that is due is enough: whoever takes its turn takes those of the set.
 */
static bool
lanes_are_known(Question *question, DueScope **set, int n)
{
	TurnMark   *turns = palloc0(sizeof(TurnMark) * n);
	KeptLanes	lanes;
	int64		epoch;

	for (int i = 0; i < n; i++)
		turns[i] = set[i]->turn;
	lanes = keep_ask_lanes(turns, n, question->now);
	set[0]->due = lanes == KEPT_LANES_DUE;
	epoch = marks_epoch(turns, n);
	for (int i = 0; i < n; i++)
	{
		set[i]->epoch = epoch;
		set[i]->by_key = lanes == KEPT_LANES_UNKNOWN;
	}
	pfree(turns);
	return lanes != KEPT_LANES_UNKNOWN || still_rests(question, set, n);
}

/* Remembers whose lanes were found at rest.  What this transaction has written itself may still be undone. */
static void
remember_rest(const Question *question)
{
	if (resting != NULL)
		pfree(resting);
	nresting = 0;
	resting = MemoryContextAlloc(TopMemoryContext, sizeof(AtRest) * Max(question->n, 1));
	for (int i = 0; i < question->n && !question->own_writes; i++)
	{
		const DueScope *scope = &question->scopes[i];

		if (scope->by_key && !scope->due)
			resting[nresting++] = (AtRest) {scope->turn, scope->epoch};
	}
}

static void
ask_lanes_by_key(Question *question, const int64 *ids, int n)
{
	Datum		values[1] = {rpq_int8_array(ids, n)};
	uint64		rows = rpq_exec(&waiting_lanes, values, NULL);

	if (question->now >= resting_until)
	{
		resting_until = DT_NOEND;
		nresting = 0;
	}
	for (uint64 i = 0; i < rows; i++)
	{
		DueScope   *scope = find_scope(question, rpq_column_int64(i, 1, 0));
		TimestampTz tried_at = rpq_column_int64(i, 3, DT_NOEND);

		scope->due = scope->due || rpq_column_int64(i, 2, 0) != scope->epoch || tried_at <= question->now;
		if (tried_at > question->now)
			resting_until = Min(resting_until, tried_at);
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
ask_lanes(Question *question)
{
	DueScope  **scopes = palloc(sizeof(DueScope *) * Max(question->n, 1));
	int64	   *ids = palloc(sizeof(int64) * Max(question->n, 1));
	int			unknown = 0;
	int			answered = 0;
	int			size;

	for (int i = 0; i < question->n; i++)
	{
		if (question->scopes[i].answered && !question->scopes[i].decided)
			scopes[answered++] = &question->scopes[i];
	}
	qsort(scopes, answered, sizeof(DueScope *), set_order);
	for (int i = 0; i < answered; i += size)
	{
		size = 1;
		while (i + size < answered && scopes[i + size]->first == scopes[i]->first)
			size++;
		if (lanes_are_known(question, &scopes[i], size))
			continue;
		for (int j = 0; j < size; j++)
			ids[unknown++] = scopes[i + j]->scope_id;
	}
	if (unknown > 0)
		ask_lanes_by_key(question, ids, unknown);
}

/* What time brings. */
static void
ask_clock(Question *question)
{
	Datum		values[2] = {rpq_int8_array(question->ids, question->n), TimestampTzGetDatum(question->now)};
	RpqStatement *statements[2] = {&overdue, &over};

	for (int s = 0; s < 2; s++)
	{
		uint64		rows = rpq_exec(statements[s], values + s, NULL);

		for (uint64 i = 0; i < rows; i++)
		{
			DueScope   *scope = find_scope(question, rpq_column_int64(i, 1, 0));

			if (scope != NULL)
				scope->due = true;
		}
		SPI_freetuptable(SPI_tuptable);
	}
}

static void
look_at_all(Question *question)
{
	Snapshot	snapshot;

	PushCopiedSnapshot(GetTransactionSnapshot());
	snapshot = GetActiveSnapshot();
	ask_about_all(question);
	choose_of_all(question, snapshot);
	choose_of_processed(question);
	ask_touched(question);
	ask_turns(question, true);
	ask_clock(question);
	find_decided(question);
	ask_turns(question, false);
	ask_lanes(question);
	remember_rest(question);
	/* what was deleted long ago may have news that this look did not see */
	if (question->all || question->own_writes)
		news_seen(question->own_writes ? NULL : snapshot);
	remember(&known, &nknown, question->ids, question->n);
	PopActiveSnapshot();
}

/* Only what somebody said that it has news, or had something to do in the last round. */
static void
look_at_some(Question *question)
{
	int64	   *ids = palloc(sizeof(int64) * Max(nknown + nprocessed, 1));
	int			n = 0;

	for (int i = 0; i < nknown; i++)
	{
		if (news_is_touched(known[i]))
			ids[n++] = known[i];
	}
	memcpy(ids + n, processed, sizeof(int64) * nprocessed);
	ask_about(question, ids, n + nprocessed);
	choose_of_processed(question);
	ask_touched(question);
	ask_turns(question, true);
	find_decided(question);
	ask_turns(question, false);
	ask_lanes(question);
}

/* Does the worker have to look at everything?  Adds to what it has to look at in any case. */
static bool
has_to_look_at_all(const Question *question)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!rpq_am_worker)
		return true;
	return !news_take() || !remembers || question->own_writes || now < looked_at ||
		now >= looked_at + Min(INT64CONST(1000) * rpq_cycle_interval, USECS_PER_SEC);
}

int
due_scopes(int64 **due)
{
	Question	question = {0};
	int			ndue = 0;

	question.now = rpq_now();
	question.own_writes = FullTransactionIdIsValid(GetTopFullTransactionIdIfAny());
	if (has_to_look_at_all(&question))
	{
		remembers = false;
		looked_at = GetCurrentTimestamp();
		look_at_all(&question);
		remembers = true;
	}
	else
		look_at_some(&question);
	nprocessed = 0;
	news_forget_touched();
	*due = palloc(sizeof(int64) * Max(question.n, 1));
	for (int i = 0; i < question.n; i++)
	{
		if (!question.scopes[i].due)
			continue;
		news_touch(question.scopes[i].scope_id);
		(*due)[ndue++] = question.scopes[i].scope_id;
	}
	return ndue;
}

void
due_processed(const int64 *scopes, int n)
{
	if (!rpq_am_worker)
		return;
	remember(&processed, &nprocessed, scopes, n);
	processed_xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
}

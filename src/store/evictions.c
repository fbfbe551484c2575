/*
 * evictions.c
 *
 * Preemptions under way, as a cycle finds them: victims that have stopped, and preemptors that no longer wait, are
 * settled before anything else is made of them (load_evictions.c).
 *
 * A victim that an executor has, or whose client keeps its row locked, is told to stop and stays until it has; a row of
 * preemption says so (pending), and rows of hold (purpose preempt) keep the room for the preemptor.  Both are read at
 * the book's snapshot, as the ledger is, so that a victim has stopped for the cycle that has counted its release, and
 * not before.
 *
 * Writes, under the turns that the caller holds, hold and preemption; workload (SKIP LOCKED) and entry of victims that
 * have stopped.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "rpq.h"
#include "store/evictions.h"
#include "store/reports.h"
#include "store/spi.h"
#include "store/sweep.h"

/*
 * Preemptors that no longer wait for what is held for them: ended, taken back, admitted, changed so that it is not what
 * they ask for, gone to another scope; and those that have lost a part of it with a node.
 */
static RpqStatement find_stale = {
	"SELECT h.workload_id, h.scope_id"
	"  FROM rpq_store.hold h"
	"  LEFT JOIN rpq_store.workload w ON w.workload_id = h.workload_id"
	"  LEFT JOIN rpq_store.node n ON n.node_id = h.node_id AND n.pool_id = h.scope_id"
	" WHERE h.scope_id = ANY ($1) AND h.purpose = 'preempt'"
	" GROUP BY h.workload_id, h.scope_id"
	" HAVING NOT coalesce(bool_and(w.status = 'queued' AND w.attempt + 1 = h.attempt AND w.scope_id = ANY ($1)"
	"                     AND w.resources OPERATOR(rpq.=) h.resources AND n.node_id IS NOT NULL"
	"                     AND (w.instance_types IS NULL OR n.type_id = ANY (w.instance_types)))"
	"                     AND min(w.replicas) = count(*), false)",
	1, {INT8ARRAYOID}
};

/*
 * Pools in which, since their turn was last written, work has become old enough to be preempted ($1, $2: scopes and
 * when; $3: now): what was blocked there may not be any more.
 */
static RpqStatement find_grown = {
	"SELECT p.pool_id FROM unnest($1, $2) AS t (scope_id, last_at)"
	"  JOIN rpq_store.pool p ON p.pool_id = t.scope_id"
	" WHERE p.min_runtime > '0' AND " GROWN_SINCE("t.last_at", "$3"),
	3, {INT8ARRAYOID, TIMESTAMPTZARRAYOID, TIMESTAMPTZOID}
};

static RpqStatement give_up = {
	"SELECT rpq_store.give_up_preemptions($1)", 1, {INT8ARRAYOID}
};

/* $2: now; $3: the last sign of life that is too old. */
static RpqStatement find_victims = {
	"SELECT p.victim, p.victim_attempt, p.pool_id,"
	"       coalesce(w.status IN ('starting', 'running') AND w.attempt = p.victim_attempt, false),"
	"       coalesce(p.expires_at <= $2, false), coalesce(r.reported, false), r.detail, coalesce(r.pods, 0)"
	"  FROM rpq_store.preemption p"
	"  LEFT JOIN rpq_store.workload w ON w.workload_id = p.victim"
	"  LEFT JOIN LATERAL ("
	"	SELECT bool_or(coalesce(r.state IN ('started', 'running') AND s.node_id IS NOT NULL, false)) AS reported,"
	"	       (array_agg(r.detail ORDER BY o.replica) FILTER (WHERE r.detail <> ''))[1] AS detail, count(*) AS pods"
	"	  FROM rpq_store.pod o"
	"	  LEFT JOIN rpq_store.pod_report r ON r.pod_id = o.pod_id"
	"	  LEFT JOIN rpq_store.node_seen s ON s.node_id = r.node_id AND s.at > $3"
	"	 WHERE o.workload_id = p.victim AND o.attempt = p.victim_attempt) r ON true"
	" WHERE p.state = 'pending' AND p.pool_id = ANY ($1)",
	3, {INT8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID}
};

static RpqStatement end_victims = {
	"SELECT e.entry_id, e.workload_id, e.attempt FROM rpq_store.end_attempts($1, $2,"
	"  array_fill('queued'::text, ARRAY[cardinality($1)]), array_fill('preempted'::text, ARRAY[cardinality($1)]), $3,"
	"  'system', $4) e",
	4, {INT8ARRAYOID, INT4ARRAYOID, TEXTARRAYOID, TIMESTAMPTZOID}
};

static RpqStatement read_lapsed = {
	"SELECT o.pod_id, o.node_id, o.devices, w.account_id, w.resources"
	"  FROM unnest($1, $2) AS l (workload_id, attempt)"
	"  JOIN rpq_store.pod o ON o.workload_id = l.workload_id AND o.attempt = l.attempt"
	"  JOIN rpq_store.workload w ON w.workload_id = l.workload_id",
	2, {INT8ARRAYOID, INT4ARRAYOID}
};

Evictions *
evictions_of(Book *book)
{
	if (book->evictions == NULL)
		book->evictions = palloc0(sizeof(Evictions));
	return book->evictions;
}

static void
free_room(Book *book, int64 pool_id)
{
	Scope	   *scope = book_scope(book, pool_id);

	if (scope != NULL)
		scope->room_freed = true;
}

static void
give_up_stale(Book *book)
{
	Datum		values[1] = {book_scope_ids(book)};
	uint64		rows = rpq_exec_at(&find_stale, values, NULL, book->snapshot, true);
	int64	   *stale = palloc(sizeof(int64) * Max(rows, 1));

	for (uint64 i = 0; i < rows; i++)
	{
		stale[i] = rpq_column_int64(i, 1, 0);
		free_room(book, rpq_column_int64(i, 2, 0));
	}
	SPI_freetuptable(SPI_tuptable);
	if (rows == 0)
		return;
	values[0] = rpq_int8_array(stale, (int) rows);
	rpq_exec(&give_up, values, NULL);
	SPI_freetuptable(SPI_tuptable);
	CommandCounterIncrement();
	UpdateActiveSnapshotCommandId();
}

/* A victim that is to end now: no executor has it any more, or its time is over. */
typedef struct Ending
{
	int64		victim;
	int			attempt;
	int64		pool_id;
	bool		over;
	bool		has_pods;
	const char *detail;
	bool		ended;
} Ending;

static Ending *
find_ending(Book *book, int *n)
{
	Evictions  *evictions = evictions_of(book);
	TimestampTz cutoff = sweep_cutoff();
	Datum		values[3] = {book_scope_ids(book), TimestampTzGetDatum(book->now), TimestampTzGetDatum(cutoff)};
	uint64		rows = rpq_exec_at(&find_victims, values, NULL, book->snapshot, true);
	Ending	   *ending = palloc0(sizeof(Ending) * Max(rows, 1));

	evictions->any = rows > 0;
	evictions->over = palloc(sizeof(int64) * Max(rows, 1));
	*n = 0;
	for (uint64 i = 0; i < rows; i++)
	{
		bool		over = rpq_column_int64(i, 5, 0) != 0;
		bool		reported = rpq_column_int64(i, 6, 0) != 0;

		if (over)
			evictions->over[evictions->nover++] = rpq_column_int64(i, 1, 0);
		if (rpq_column_int64(i, 4, 0) == 0 || (reported && !over))
			continue;
		ending[*n].victim = rpq_column_int64(i, 1, 0);
		ending[*n].attempt = (int) rpq_column_int64(i, 2, 0);
		ending[*n].pool_id = rpq_column_int64(i, 3, 0);
		ending[*n].over = over;
		ending[*n].has_pods = rpq_column_int64(i, 8, 0) > 0;
		ending[*n].detail = rpq_column_text(i, 7);
		if (reported)
			ending[*n].detail = "it was still reported when its time to stop was over";
		(*n)++;
	}
	SPI_freetuptable(SPI_tuptable);
	return ending;
}

static void
end_attempts(Book *book, Ending *ending, int n, EntryList *entries)
{
	int64	   *victims = palloc(sizeof(int64) * n);
	int32	   *attempts = palloc(sizeof(int32) * n);
	Datum	   *details = palloc(sizeof(Datum) * n);
	bool	   *nulls = palloc(sizeof(bool) * n);
	Datum		values[4];
	uint64		rows;

	for (int i = 0; i < n; i++)
	{
		victims[i] = ending[i].victim;
		attempts[i] = ending[i].attempt;
		nulls[i] = ending[i].detail == NULL;
		details[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(ending[i].detail);
	}
	values[0] = rpq_int8_array(victims, n);
	values[1] = rpq_int4_array(attempts, n);
	values[2] = rpq_datum_array(details, nulls, n, TEXTOID);
	values[3] = TimestampTzGetDatum(book->now);
	rows = rpq_exec(&end_victims, values, NULL);
	for (uint64 i = 0; i < rows; i++)
	{
		int64		victim = rpq_column_int64(i, 2, 0);

		entry_list_add(entries, victim, rpq_column_int64(i, 1, 0));
		for (int e = 0; e < n; e++)
			ending[e].ended |= ending[e].victim == victim;
	}
	SPI_freetuptable(SPI_tuptable);
	CommandCounterIncrement();
	UpdateActiveSnapshotCommandId();
}

/* A row that its client keeps locked ends with a later cycle; past the grace its pods go now. */
static void
note_lapsed(Book *book, const Ending *ending, int n)
{
	Evictions  *evictions = evictions_of(book);

	evictions->lapsed = palloc(sizeof(int64) * n);
	evictions->lapsed_attempts = palloc(sizeof(int32) * n);
	for (int i = 0; i < n; i++)
	{
		if (ending[i].ended || !ending[i].over || !ending[i].has_pods)
			continue;
		evictions->lapsed[evictions->nlapsed] = ending[i].victim;
		evictions->lapsed_attempts[evictions->nlapsed++] = ending[i].attempt;
		free_room(book, ending[i].pool_id);
	}
}

static void
note_grown(Book *book)
{
	int64	   *scopes = palloc(sizeof(int64) * Max(book->nscopes, 1));
	Datum	   *last_at = palloc(sizeof(Datum) * Max(book->nscopes, 1));
	Datum		values[3];
	uint64		rows;

	for (int i = 0; i < book->nscopes; i++)
	{
		scopes[i] = book->scopes[i].scope_id;
		last_at[i] = TimestampTzGetDatum(book->scopes[i].last_at);
	}
	values[0] = rpq_int8_array(scopes, book->nscopes);
	values[1] = rpq_datum_array(last_at, NULL, book->nscopes, TIMESTAMPTZOID);
	values[2] = TimestampTzGetDatum(book->now);
	rows = rpq_exec_at(&find_grown, values, NULL, book->snapshot, true);
	for (uint64 i = 0; i < rows; i++)
	{
		Scope	   *scope = book_scope(book, rpq_column_int64(i, 1, 0));

		scope->room_freed = scope->changed = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

void
evictions_settle(Book *book, EntryList *entries)
{
	Ending	   *ending;
	int			n;

	note_grown(book);
	give_up_stale(book);
	ending = find_ending(book, &n);
	if (n == 0)
		return;
	end_attempts(book, ending, n, entries);
	note_lapsed(book, ending, n);
}

Datum
evictions_over(Book *book)
{
	Evictions  *evictions = evictions_of(book);

	return rpq_int8_array(evictions->over, evictions->nover);
}

void
evictions_free_pods(Book *book)
{
	Evictions  *evictions = evictions_of(book);
	Datum		values[2];
	uint64		rows;
	Size		bytes;

	if (evictions->nlapsed == 0)
		return;
	values[0] = rpq_int8_array(evictions->lapsed, evictions->nlapsed);
	values[1] = rpq_int4_array(evictions->lapsed_attempts, evictions->nlapsed);
	rows = rpq_exec_at(&read_lapsed, values, NULL, book->snapshot, true);
	bytes = sizeof(FreedPod) * (book->nfreed_pods + rows + 1);
	book->freed_pods = book->freed_pods == NULL ? palloc(bytes) : repalloc(book->freed_pods, bytes);
	for (uint64 i = 0; i < rows; i++)
	{
		FreedPod   *pod = &book->freed_pods[book->nfreed_pods++];
		bool		isnull;

		memset(pod, 0, sizeof(FreedPod));
		pod->pod_id = rpq_column_int64(i, 1, 0);
		pod->node_id = rpq_column_int64(i, 2, 0);
		pod->devices = evictions_devices(i, 3, &pod->ndevices);
		pod->account_id = rpq_column_int64(i, 4, 0);
		pod->amount = DatumGetResourcesPCopy(rpq_column(i, 5, &isnull));
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * reports.c
 *
 * What executors reported, as a cycle takes it.
 *
 * sync_node writes what was said of each pod to pod_report, and an entry of kind report for each workload that it is
 * about.  The cycle that counts these entries settles them: rpq_store.settle_reports (sql/api/executors.sql) starts and
 * ends attempts, and the entries that this writes are counted in the same cycle.  A workload whose row its client keeps
 * locked is looked at again by the next cycle, for which another report entry is written.
 *
 * A pod that is freed while a living executor has it leaves a hold, so that its room is not given away before the pod
 * has gone.
 *
 * Writes, under the turns that the caller holds, hold; workload (SKIP LOCKED) and entry; deletes rows of pod_report of
 * pods that are gone (SKIP LOCKED).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "rpq.h"
#include "store/evictions.h"
#include "store/reports.h"
#include "store/spi.h"
#include "store/sweep.h"

/* Columns as in read_entries of log.c. */
static RpqStatement read_settled = {
	"SELECT e.entry_id, e.scope_id, e.xid, e.at, e.kind, e.workload_id, e.attempt, e.shape,"
	"       e.submitted_at, e.waiting, e.pool_id, e.type_id, e.account_id, e.policy_id, e.resources, e.lender_id"
	"  FROM unnest($1, $2) AS l (workload_id, entry_id)"
	"  JOIN rpq_store.entry e ON e.workload_id = l.workload_id AND e.entry_id = l.entry_id",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement settle_reports = {
	"SELECT e.entry_id, e.scope_id, e.kind, e.workload_id FROM rpq_store.settle_reports($1, $2, $3) e",
	3, {INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZOID}
};

/*
 * Of these pods, those of which something was reported, and whether an executor has them still.  $3: victims that have
 * had the time to let go of them.
 */
static RpqStatement find_reported = {
	"SELECT r.pod_id, r.state IN ('started', 'running') AND s.node_id IS NOT NULL AND r.workload_id <> ALL ($3)"
	"  FROM unnest($1) AS f (pod_id)"
	"  JOIN rpq_store.pod_report r ON r.pod_id = f.pod_id"
	"  LEFT JOIN rpq_store.node_seen s ON s.node_id = r.node_id AND s.at > $2"
	" ORDER BY r.pod_id",
	3, {INT8ARRAYOID, TIMESTAMPTZOID, INT8ARRAYOID}
};

static RpqStatement insert_holds = {
	"INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, attempt, replica, resources, devices, purpose, pod_id,"
	"                            expires_at)"
	" SELECT n.pool_id, p.node_id, p.workload_id, p.attempt, p.replica, w.resources, p.devices, 'stopping', p.pod_id,"
	"        least($2, e.expires_at)"
	"   FROM unnest($1) AS f (pod_id)"
	"   JOIN rpq_store.pod p ON p.pod_id = f.pod_id"
	"   JOIN rpq_store.workload w ON w.workload_id = p.workload_id"
	"   JOIN rpq_store.node n ON n.node_id = p.node_id AND NOT n.removing"
	"   LEFT JOIN rpq_store.preemption e ON e.victim = p.workload_id AND e.victim_attempt = p.attempt"
	"        AND e.state = 'pending'",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

static RpqStatement drop_reports = {
	"SELECT rpq_store.drop_reports($1)", 1, {INT8ARRAYOID}
};

static RpqStatement report_again = {
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, actor)"
	" SELECT coalesce(w.pool_id, w.scope_id), $2, w.workload_id, w.attempt, 'report', 'system'"
	"   FROM unnest($1) AS u (workload_id) JOIN rpq_store.workload w ON w.workload_id = u.workload_id",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

static void
add_id(int64 **ids, int *n, int64 id)
{
	if (*n % 64 == 0)
		*ids = *n == 0 ? palloc(sizeof(int64) * 64) : repalloc(*ids, sizeof(int64) * (*n + 64));
	(*ids)[(*n)++] = id;
}

void
reports_note(Book *book, int64 workload_id)
{
	add_id(&book->reported, &book->nreported, workload_id);
}

/* The nodes that are kept from the last cycle do not know it yet. */
static void
close_node(Book *book, int64 node_id)
{
	for (int i = 0; book->from_kept && i < book->nnodes; i++)
	{
		if (book->nodes[i].node_id != node_id)
			continue;
		book->nodes[i].takes_work = false;
		book->nodes[i].why_not = "degraded";
	}
}

void
entry_list_add(EntryList *list, int64 workload_id, int64 entry_id)
{
	int			n = list->n;

	add_id(&list->workloads, &n, workload_id);
	add_id(&list->entries, &list->n, entry_id);
}

static void
take_reports(Book *book, EntryList *entries)
{
	Datum		values[3];
	uint64		rows;

	values[0] = rpq_int8_array(book->reported, book->nreported);
	values[1] = book_scope_ids(book);
	values[2] = TimestampTzGetDatum(book->now);
	rows = rpq_exec(&settle_reports, values, NULL);
	/* the book's snapshot sees what was written, as if it had been before the book was opened */
	CommandCounterIncrement();
	UpdateActiveSnapshotCommandId();
	for (uint64 i = 0; i < rows; i++)
	{
		const char *kind = rpq_column_text(i, 3);
		Scope	   *scope;

		if (rpq_column_int64(i, 1, 0) != 0)
			entry_list_add(entries, rpq_column_int64(i, 4, 0), rpq_column_int64(i, 1, 0));
		else if (strcmp(kind, "degraded") == 0)
			close_node(book, rpq_column_int64(i, 4, 0));
		else if (strcmp(kind, "hold") == 0)
		{
			scope = book_scope(book, rpq_column_int64(i, 2, 0));
			scope->room_freed = true;
		}
		else
			add_id(&book->unsettled, &book->nunsettled, rpq_column_int64(i, 4, 0));
	}
	SPI_freetuptable(SPI_tuptable);
}

uint64
reports_settle(Book *book)
{
	EntryList	entries = {0};
	Datum		values[2];

	if (!book->act)
		return 0;
	if (book->nreported > 0)
		take_reports(book, &entries);
	evictions_settle(book, &entries);
	if (entries.n == 0)
		return 0;
	values[0] = rpq_int8_array(entries.workloads, entries.n);
	values[1] = rpq_int8_array(entries.entries, entries.n);
	return rpq_exec(&read_settled, values, NULL);
}

static int
pod_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

void
reports_find_stopping(Book *book)
{
	int64	   *pods = palloc(sizeof(int64) * Max(book->nfreed_pods, 1));
	int64	   *stopping;
	int			nstopping = 0;
	Datum		values[3];
	uint64		rows;

	if (book->nfreed_pods == 0)
	{
		evictions_free_pods(book);
		return;
	}
	for (int i = 0; i < book->nfreed_pods; i++)
		pods[i] = book->freed_pods[i].pod_id;
	values[0] = rpq_int8_array(pods, book->nfreed_pods);
	values[1] = TimestampTzGetDatum(sweep_cutoff());
	values[2] = evictions_over(book);
	rows = rpq_exec_at(&find_reported, values, NULL, book->snapshot, true);
	book->freed_reported = rows > 0;
	stopping = palloc(sizeof(int64) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		if (rpq_column_int64(i, 2, 0) != 0)
			stopping[nstopping++] = rpq_column_int64(i, 1, 0);
	}
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; nstopping > 0 && i < book->nfreed_pods; i++)
		book->freed_pods[i].stopping =
			bsearch(&book->freed_pods[i].pod_id, stopping, nstopping, sizeof(int64), pod_order) != NULL;
	evictions_free_pods(book);
}

void
reports_write_holds(Book *book)
{
	int64	   *pods = palloc(sizeof(int64) * Max(book->nfreed_pods, 1));
	int			n = 0;
	Datum		values[2];

	for (int i = 0; i < book->nfreed_pods; i++)
	{
		if (book->freed_pods[i].stopping)
			pods[n++] = book->freed_pods[i].pod_id;
	}
	if (n == 0)
		return;
	values[0] = rpq_int8_array(pods, n);
	values[1] = TimestampTzGetDatum(book->now + rpq_preemption_grace * USECS_PER_SEC);
	rpq_exec(&insert_holds, values, rpq_preemption_grace == 0 ? " n" : NULL);
}

void
reports_write_rest(Book *book)
{
	Datum		values[2];

	if (book->freed_reported)
	{
		int64	   *workloads = palloc(sizeof(int64) * Max(book->nfreed, 1));

		for (int i = 0; i < book->nfreed; i++)
			workloads[i] = book->freed[i].workload_id;
		values[0] = rpq_int8_array(workloads, book->nfreed);
		rpq_exec(&drop_reports, values, NULL);
	}
	if (book->nunsettled > 0)
	{
		values[0] = rpq_int8_array(book->unsettled, book->nunsettled);
		values[1] = TimestampTzGetDatum(book->now);
		rpq_exec(&report_again, values, NULL);
	}
}

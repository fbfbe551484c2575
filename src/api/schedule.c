/*
 * schedule.c
 *
 * rpq.schedule, and the worker's side of it: run_cycles.
 *
 * Both are about whole sets (sets.h).  A person's call takes the turns and waits for them; the worker's passes over the
 * sets of which somebody else holds one.  With dry_run nothing is locked or written: the same Book, World and CyclePlan
 * on the caller's snapshot.  The decision is that for the whole set; of its rows the caller gets those of workloads
 * that he may see.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/due.h"
#include "api/failed_sets.h"
#include "api/sentence.h"
#include "rpq.h"
#include "store/cycle.h"
#include "store/sets.h"
#include "store/spi.h"
#include "store/sweep.h"

PG_FUNCTION_INFO_V1(rpq_schedule);
PG_FUNCTION_INFO_V1(rpq_run_cycles);

/*
 * Which pools a caller's schedule() is about when none is named; and queues that were deleted, with what came into them
 * afterwards: no pool is tied to them.
 */
static RpqStatement own_pools = {
	"SELECT p.pool_id FROM rpq_store.pool p"
	" WHERE p.pool_id = ANY (CASE WHEN $1 THEN rpq_store.seen_pools() ELSE rpq_store.administered_pools() END)"
	"   AND (p.status <> 'deleted' OR NOT $1 AND EXISTS ("
	"        SELECT FROM rpq_store.workload w WHERE w.scope_id = p.pool_id AND w.status = 'queued'))"
	" UNION ALL "
	"SELECT q.queue_id FROM rpq_store.queue q"
	" WHERE NOT $1 AND q.deleted_at IS NOT NULL"
	"   AND q.tenant_id = ANY ((SELECT s.tenants FROM rpq_store.sight() s)::bigint[])"
	"   AND EXISTS (SELECT FROM rpq_store.workload w WHERE w.scope_id = q.queue_id AND w.status = 'queued')"
	" UNION ALL "
	"SELECT q.queue_id FROM rpq_store.queue q"
	"  JOIN rpq_store.policy y ON y.policy_id = q.policy_id"
	"  JOIN rpq_store.group_account g ON g.group_id = y.group_id"
	" WHERE $1 AND q.deleted_at IS NULL AND g.account_id = rpq_store.my_account()"
	" ORDER BY 1",
	1, {BOOLOID}
};

/* What the caller may see of work: as in the view workloads.  $1: ids; $2: the pool that a decision is about. */
#define VISIBLE(pool) \
	" CROSS JOIN rpq_store.sight() s" \
	" WHERE w.account_id = s.account_id OR w.tenant_id = ANY (s.tenants) OR w.scope_id = ANY (s.pools)" \
	"    OR " pool " = ANY (s.pools)"

/*
 * Members of lanes whose reason is to be shown, in order.  LATERAL with OFFSET: from lane to members, and never by
 * comparing every workload with every lane.
 */
static RpqStatement waiting_members = {
	"SELECT w.workload_id, k.shape, k.scope_id FROM unnest($1, $2) AS k (scope_id, shape)"
	" CROSS JOIN LATERAL (SELECT * FROM rpq_store.workload w"
	"                      WHERE w.scope_id = k.scope_id AND w.shape = k.shape AND w.status = 'queued' OFFSET 0) w"
	VISIBLE("w.pool_id")
	" ORDER BY w.priority DESC, w.submitted_at, w.workload_id",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement visible_workloads = {
	"SELECT w.workload_id FROM unnest($1, $2) AS k (id, pool_id) JOIN rpq_store.workload w ON w.workload_id = k.id"
	VISIBLE("k.pool_id") " ORDER BY 1",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static int64 *
result_ids(uint64 rows)
{
	int64	   *ids = palloc(sizeof(int64) * Max(rows, 1));

	for (uint64 i = 0; i < rows; i++)
		ids[i] = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	return ids;
}

typedef struct Output
{
	ReturnSetInfo *rsinfo;
	Book	   *book;
} Output;

static void
put_row(Output *output, int64 workload_id, const char *decision, const char *pool, Datum nodes, const char *code,
		const char *reason)
{
	Datum		values[6];
	bool		nulls[6] = {false};

	values[0] = Int64GetDatum(workload_id);
	values[1] = CStringGetTextDatum(decision);
	nulls[2] = pool == NULL;
	values[2] = pool == NULL ? (Datum) 0 : CStringGetTextDatum(pool);
	nulls[3] = nodes == 0;
	values[3] = nodes;
	nulls[4] = code == NULL;
	values[4] = code == NULL ? (Datum) 0 : CStringGetTextDatum(code);
	nulls[5] = reason == NULL;
	values[5] = reason == NULL ? (Datum) 0 : CStringGetTextDatum(reason);
	tuplestore_putvalues(output->rsinfo->setResult, output->rsinfo->setDesc, values, nulls);
}

static int
id_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* Of some workloads, which the caller may see: pools has the one that each is admitted or placed in. */
static int64 *
visible_of(const int64 *ids, const int64 *pools, int n, uint64 *nvisible)
{
	Datum		values[2] = {rpq_int8_array(ids, n), rpq_int8_array(pools, n)};

	*nvisible = rpq_exec(&visible_workloads, values, NULL);
	return result_ids(*nvisible);
}

static Datum
node_names(Output *output, const PodPlace *pods, int npods)
{
	Datum	   *names = palloc(sizeof(Datum) * Max(npods, 1));
	int			n = 0;

	for (int p = 0; p < npods; p++)
	{
		if (pods[p].node >= 0)
			names[n++] = CStringGetTextDatum(output->book->world->nodes[pods[p].node].name);
	}
	return rpq_datum_array(names, NULL, n, TEXTOID);
}

static void
put_admissions(Output *output, CyclePlan *plan)
{
	World	   *world = output->book->world;
	int			n = plan->nadmissions;
	int64	   *ids = palloc(sizeof(int64) * Max(n, 1));
	int64	   *pools = palloc(sizeof(int64) * Max(n, 1));
	uint64		nvisible;
	int64	   *visible;

	for (int i = 0; i < n; i++)
	{
		ids[i] = plan->admissions[i].member.workload_id;
		pools[i] = world->pools[plan->admissions[i].pool].pool_id;
	}
	visible = visible_of(ids, pools, n, &nvisible);
	for (int i = 0; i < n; i++)
	{
		Admission  *a = &plan->admissions[i];

		if (bsearch(&ids[i], visible, nvisible, sizeof(int64), id_order) != NULL)
			put_row(output, ids[i], "admitted", world->pools[a->pool].name, node_names(output, a->pods, a->npods), NULL,
					NULL);
	}
}

/* Those that give room, with the nodes that they leave. */
static void
put_victims(Output *output, CyclePlan *plan)
{
	static const char *const rules[] = {
		[PREEMPT_BORROWED] = "borrowed", [PREEMPT_RESERVATION] = "reservation", [PREEMPT_PRIORITY] = "priority"
	};
	World	   *world = output->book->world;
	int			n = plan->npreemptions;
	int64	   *ids = palloc(sizeof(int64) * Max(n, 1));
	int64	   *pools = palloc(sizeof(int64) * Max(n, 1));
	uint64		nvisible;
	int64	   *visible;

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		ids[i] = plan->preemptions[i].victim->workload_id;
		pools[i] = world->pools[plan->preemptions[i].victim->pool].pool_id;
	}
	visible = visible_of(ids, pools, n, &nvisible);
	for (int i = 0; i < n; i++)
	{
		Preemption *p = &plan->preemptions[i];

		if (bsearch(&ids[i], visible, nvisible, sizeof(int64), id_order) != NULL)
			put_row(output, ids[i], "preempted", world->pools[p->victim->pool].name,
					node_names(output, p->victim->pods, p->victim->npods), NULL,
					psprintf("its room is taken by the rule %s", rules[p->rule]));
	}
}

static int
find_lane(Book *book, int64 scope_id, int64 shape)
{
	World	   *world = book->world;
	int			low = 0;
	int			high = world->nlanes - 1;

	/* the World's lanes are in the order of (scope, shape) */
	while (low <= high)
	{
		int			middle = (low + high) / 2;
		Lane	   *lane = &world->lanes[middle];

		if (lane->scope_id == scope_id && lane->shape == shape)
			return middle;
		if (lane->scope_id < scope_id || (lane->scope_id == scope_id && lane->shape < shape))
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}

/* Those that wait, with why; changed: only lanes whose reason is new. */
static void
put_waiting(Output *output, CyclePlan *plan, const bool *show)
{
	World	   *world = output->book->world;
	int64	   *scopes = palloc(sizeof(int64) * Max(world->nlanes, 1));
	int64	   *shapes = palloc(sizeof(int64) * Max(world->nlanes, 1));
	int64	   *admitted = palloc(sizeof(int64) * Max(plan->nadmissions, 1));
	const char **sentences = palloc0(sizeof(char *) * Max(world->nlanes, 1));
	const Caller *reader = rpq_known_caller();
	Datum		values[2];
	uint64		rows;
	int			n = 0;

	for (int i = 0; i < world->nlanes; i++)
	{
		if (!show[i])
			continue;
		scopes[n] = world->lanes[i].scope_id;
		shapes[n++] = world->lanes[i].shape;
	}
	if (n == 0)
		return;
	for (int i = 0; i < plan->nadmissions; i++)
		admitted[i] = plan->admissions[i].member.workload_id;
	qsort(admitted, plan->nadmissions, sizeof(int64), id_order);
	values[0] = rpq_int8_array(scopes, n);
	values[1] = rpq_int8_array(shapes, n);
	rows = rpq_exec_at(&waiting_members, values, NULL, output->book->snapshot, true);
	for (uint64 r = 0; r < rows; r++)
	{
		int64		id = rpq_column_int64(r, 1, 0);
		int			i = find_lane(output->book, rpq_column_int64(r, 3, 0), rpq_column_int64(r, 2, 0));
		Lane	   *lane = &world->lanes[i];

		if (bsearch(&id, admitted, plan->nadmissions, sizeof(int64), id_order) != NULL)
			continue;
		if (lane->reason != NULL && sentences[i] == NULL)
			sentences[i] = sentence_for(reader, reason_sentence(world, lane->reason));
		put_row(output, id, "waiting", NULL, (Datum) 0,
				lane->reason == NULL ? "not_considered_yet" : reason_code_name(lane->reason->code), sentences[i]);
	}
	SPI_freetuptable(SPI_tuptable);
}

/* Lanes of which a row is shown: all in a dry run, else those whose reason is not what it was. */
static bool *
lanes_to_show(Book *book, bool all)
{
	bool	   *show = palloc0(sizeof(bool) * Max(book->world->nlanes, 1));

	for (int i = 0; i < book->world->nlanes; i++)
	{
		Lane	   *lane = &book->world->lanes[i];
		LaneRow    *row = book->lane_rows[i];

		if (all)
			show[i] = true;
		else if (!lane->skip && lane->reason != NULL)
			show[i] = row->reason_code == NULL ||
				strcmp(row->reason_code, reason_code_name(lane->reason->code)) != 0;
	}
	return show;
}

static int64 *
scopes_to_schedule(FunctionCallInfo fcinfo, bool dry_run, int *n)
{
	int64	   *scopes;

	if (!PG_ARGISNULL(0))
	{
		scopes = palloc(sizeof(int64));
		scopes[0] = rpq_authorize(dry_run ? "schedule.dry_run" : "schedule", text_to_cstring(PG_GETARG_TEXT_PP(0)));
		*n = 1;
	}
	else
	{
		Datum		values[1] = {BoolGetDatum(dry_run)};

		rpq_authorize(dry_run ? "schedule.dry_run" : "schedule", NULL);
		*n = (int) rpq_exec(&own_pools, values, NULL);
		scopes = result_ids(*n);
	}
	return scopes;
}

static RpqStatement draft_late = {"SELECT rpq_store.draft_late($1)", 1, {INT8OID}};

/*
 * What came into a pool or a queue after its deletion becomes a draft (pool_life.sql), by whoever counts it: nobody
 * looks again at what is counted.  Whether there was any.
 */
static bool
draft_late_arrivals(Book *book)
{
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;
	int64	   *scopes = palloc(sizeof(int64) * Max(book->nscopes, 1));
	bool		any = false;
	int			n = 0;

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		Scope	   *scope = book_scope(book, lane->key.scope_id);

		if (lane->waiting <= 0 || !scope->deleted)
			continue;
		/* once for all of its lanes */
		scope->deleted = false;
		scopes[n++] = scope->scope_id;
	}
	qsort(scopes, n, sizeof(int64), id_order);
	for (int i = 0; i < n; i++)
	{
		Datum		values[1] = {Int64GetDatum(scopes[i])};

		rpq_exec(&draft_late, values, NULL);
		any = any || rpq_column_int64(0, 1, 0) > 0;
		SPI_freetuptable(SPI_tuptable);
	}
	return any;
}

Datum
rpq_schedule(PG_FUNCTION_ARGS)
{
	bool		dry_run = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	Output		output;
	int64	   *scopes;
	int			n;
	CyclePlan	   *plan;

	InitMaterializedSRF(fcinfo, 0);
	output.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SPI_connect();
	scopes = scopes_to_schedule(fcinfo, dry_run, &n);
	rpq_known_caller();
	if (!dry_run)
	{
		int64	   *unswept;
		int			nunswept;

		scopes = cycle_take_turns(scopes, n, &n);
		nunswept = sweep_find(scopes, n, &unswept);
		sweep(unswept, nunswept);
	}
	output.book = cycle_open(scopes, n, dry_run ? CYCLE_LOOK : CYCLE_ACT);
	plan = cycle_decide(output.book, dry_run ? PG_INT32_MAX : rpq_cycle_batch, dry_run);
	if (plan != NULL)
	{
		bool	   *show = lanes_to_show(output.book, dry_run);

		put_victims(&output, plan);
		put_admissions(&output, plan);
		if (!dry_run)
			book_apply(output.book, plan);
		put_waiting(&output, plan, show);
	}
	else if (!dry_run)
		book_apply(output.book, NULL);
	cycle_close(output.book);
	if (!dry_run)
		draft_late_arrivals(output.book);
	SPI_finish();
	PG_RETURN_NULL();
}

typedef struct CycleSum
{
	int			pools;
	int64		entries;
	int64		admitted;
	bool		more;
} CycleSum;

/* One set. */
static void
run_one(const int64 *scopes, int n, const int64 *unswept, int nunswept, CycleSum *sum)
{
	Book	   *book;
	CyclePlan  *plan;

	sweep(unswept, nunswept);
	book = cycle_open(scopes, n, CYCLE_ACT_AGAIN);
	plan = cycle_decide(book, rpq_cycle_batch, false);
	book_apply(book, plan);
	sum->pools += book->npools;
	sum->entries += book->nentries;
	sum->admitted += plan == NULL ? 0 : plan->nadmissions;
	sum->more = sum->more || (plan != NULL && plan->more);
	cycle_close(book);
	/* the entries that it wrote are counted by the next one */
	sum->more = draft_late_arrivals(book) || sum->more;
}

/* What is in one of two lists, ascending. */
static int64 *
either(const int64 *a, int *na, const int64 *b, int nb)
{
	int64	   *all = palloc(sizeof(int64) * Max(*na + nb, 1));
	int			n = 0;
	int			i = 0;
	int			j = 0;

	while (i < *na || j < nb)
	{
		int64		next = j == nb || (i < *na && a[i] <= b[j]) ? a[i++] : b[j++];

		if (n == 0 || all[n - 1] != next)
			all[n++] = next;
	}
	*na = n;
	return all;
}

/* Sets one after the other, and in each its scopes by id. */
static int
set_order(const void *a, const void *b)
{
	int64		x = sets_first(*(const int64 *) a);
	int64		y = sets_first(*(const int64 *) b);

	return x < y ? -1 : x > y ? 1 : id_order(a, b);
}

/* Of some scopes, those that are in a list; both by id. */
static int64 *
of_these(const int64 *scopes, int n, const int64 *list, int nlist, int *nboth)
{
	int64	   *both = palloc(sizeof(int64) * Max(n, 1));

	*nboth = 0;
	for (int i = 0; i < n; i++)
	{
		if (bsearch(&scopes[i], list, nlist, sizeof(int64), id_order) != NULL)
			both[(*nboth)++] = scopes[i];
	}
	return both;
}

/* One set; a failure is remembered. */
static void
try_one(const int64 *scopes, int n, const int64 *unswept, int nunswept, CycleSum *sum)
{
	int			nsweeping;
	int64	   *sweeping = of_these(scopes, n, unswept, nunswept, &nsweeping);
	int64		first = sets_first(scopes[0]);

	PG_TRY();
	{
		run_one(scopes, n, sweeping, nsweeping, sum);
	}
	PG_CATCH();
	{
		failed_sets_note(first);
		PG_RE_THROW();
	}
	PG_END_TRY();
	failed_sets_forget(first);
}

static void
run_due(CycleSum *sum)
{
	int64	   *due;
	int			n = due_scopes(&due);
	int64	   *unswept;
	int			nunswept = sweep_find_sometimes(&unswept);
	int			size;

	due = either(due, &n, unswept, nunswept);
	n = failed_sets_leave_out(due, n);
	if (n == 0)
		return;
	due = cycle_try_turns(due, n, &n);
	due_processed(due, n);
	qsort(due, n, sizeof(int64), set_order);
	for (int i = 0; i < n; i += size)
	{
		size = 1;
		while (i + size < n && sets_first(due[i + size]) == sets_first(due[i]))
			size++;
		try_one(due + i, size, unswept, nunswept, sum);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * rpq_store.run_cycles(): the worker's cycle over every set that has something to do and whose turns are free.  Returns
 * (more, changed, summary).
 */
Datum
rpq_run_cycles(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {false};
	CycleSum	sum = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "run_cycles returns a row");
	tupdesc = BlessTupleDesc(tupdesc);
	SPI_connect();
	run_due(&sum);
	SPI_finish();
	values[0] = BoolGetDatum(sum.more);
	values[1] = Int32GetDatum((int32) Min(sum.entries + sum.admitted, PG_INT32_MAX));
	values[2] = CStringGetTextDatum(psprintf("{\"pools\": %d, \"entries\": %lld, \"admitted\": %lld}", sum.pools,
											 (long long) sum.entries, (long long) sum.admitted));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}

/*
 * apply_plan.c
 *
 * CyclePlan -> rows, one statement for each table.
 *
 * Writes workload (rows that read_members locked), pod, entry, node_load, usage, lane, turn; what is preempted and held
 * is written by eviction_rows.c.  The caller holds the turns of every scope of the Book, and each turn whose scope
 * changed is changed here, so that whoever decided on an older snapshot gets 40001.  Nothing here waits: the only rows
 * shared with clients were locked before.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "store/book.h"
#include "store/evictions.h"
#include "store/keep.h"
#include "store/reports.h"
#include "store/rows.h"
#include "store/spi.h"

static RpqStatement admit_workloads = {
	"UPDATE rpq_store.workload w"
	"   SET status = 'starting', attempt = a.attempt, pool_id = a.pool_id, type_id = a.type_id,"
	"       nodes = CASE WHEN a.many THEN a.nodes::text[] ELSE ARRAY[a.nodes] END,"
	"       started_at = $7, deadline = $7 + w.max_runtime, running_at = NULL, cause = NULL, detail = NULL,"
	"       not_before = NULL, policy_id = NULLIF(a.policy_id, 0), lender_id = NULLIF(a.lender_id, 0)"
	"  FROM unnest($1, $2, $3, $4, $5, $6, $8, $9)"
	"    AS a (workload_id, attempt, pool_id, type_id, nodes, many, policy_id, lender_id)"
	" WHERE w.workload_id = a.workload_id",
	9, {INT8ARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID, BOOLARRAYOID, TIMESTAMPTZOID,
		INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement insert_pods = {
	"INSERT INTO rpq_store.pod (workload_id, attempt, replica, node_id, devices)"
	" SELECT p.workload_id, p.attempt, p.replica, p.node_id,"
	"        CASE WHEN p.device >= 0 THEN ARRAY[p.device] WHEN p.devices <> '' THEN p.devices::int[] END"
	"   FROM unnest($1, $2, $3, $4, $5, $6) AS p (workload_id, attempt, replica, node_id, device, devices)",
	6, {INT8ARRAYOID, INT4ARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, TEXTARRAYOID}
};

static RpqStatement insert_entries = {
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id, attempt,"
	"                             waiting, kind, status, actor, resources, lender_id)"
	" SELECT e.scope_id, $9, e.workload_id, e.shape, e.account_id, NULLIF(e.policy_id, 0), e.pool_id, e.type_id,"
	"        e.attempt, -1, 'admit', 'starting', 'system', e.resources, NULLIF(e.lender_id, 0)"
	"   FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $10, $11)"
	"     AS e (scope_id, workload_id, shape, account_id, policy_id, pool_id, type_id, attempt, resources, lender_id)"
	" RETURNING entry_id",
	11, {INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID,
		 TIMESTAMPTZOID, RPQ_RESOURCES_ARRAY_ARG, INT8ARRAYOID}
};

static RpqStatement delete_pods = {
	"DELETE FROM rpq_store.pod WHERE pod_id = ANY ($1)", 1, {INT8ARRAYOID}
};

/* From the old head on: what this cycle has admitted is passed once more, and nothing older. */
static RpqStatement first_members = {
	"SELECT k.scope_id, k.shape, w.submitted_at, w.workload_id"
	"  FROM unnest($1, $2, $3, $4) AS k (scope_id, shape, head_at, head_id)"
	"  CROSS JOIN LATERAL (SELECT w.submitted_at, w.workload_id FROM rpq_store.workload w"
	"	WHERE w.scope_id = k.scope_id AND w.shape = k.shape AND w.status = 'queued'"
	"	  AND (w.submitted_at, w.workload_id) >= (k.head_at, k.head_id)"
	"	ORDER BY w.submitted_at, w.workload_id LIMIT 1) w",
	4, {INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID}
};

/* Workloads whose row is not of the shape that their lane has: set aside, the rest goes on. */
static RpqStatement fail_set_aside = {
	"WITH failed AS ("
	"  UPDATE rpq_store.workload SET status = 'failed', ended_at = $2, cause = 'unprocessable',"
	"         detail = 'the row does not agree with the shape that it was queued under'"
	"   WHERE workload_id = ANY ($1) AND status = 'queued' RETURNING *)"
	"INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, attempt, waiting, kind, status, actor,"
	"                             cause)"
	" SELECT scope_id, $2, workload_id, shape, account_id, 0, -1, 'withdraw', 'failed', 'system', 'unprocessable'"
	"   FROM failed",
	2, {INT8ARRAYOID, TIMESTAMPTZOID}
};

/* The text of an array of node names, elements quoted. */
static char *
node_names(const World *world, const Admission *admission)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < admission->npods; i++)
	{
		appendStringInfoString(&text, i == 0 ? "{\"" : ",\"");
		for (const char *c = world->nodes[admission->pods[i].node].name; *c != '\0'; c++)
		{
			if (*c == '"' || *c == '\\')
				appendStringInfoChar(&text, '\\');
			appendStringInfoChar(&text, *c);
		}
		appendStringInfoChar(&text, '"');
	}
	appendStringInfoChar(&text, '}');
	return text.data;
}

/* The pool whose idle room is borrowed; 0: none. */
static int64
lender_of(const Book *book, const Admission *a)
{
	return a->pool == a->home ? 0 : book->world->pools[a->pool].pool_id;
}

static void
write_workloads(Book *book, CyclePlan *plan)
{
	int			n = plan->nadmissions;
	int64	   *ids = palloc(sizeof(int64) * n);
	int32	   *attempts = palloc(sizeof(int32) * n);
	int64	   *pools = palloc(sizeof(int64) * n);
	int64	   *types = palloc(sizeof(int64) * n);
	Datum	   *nodes = palloc(sizeof(Datum) * n);
	Datum	   *many = palloc(sizeof(Datum) * n);
	int64	   *policies = palloc(sizeof(int64) * n);
	int64	   *lenders = palloc(sizeof(int64) * n);
	Datum		values[9];

	for (int i = 0; i < n; i++)
	{
		Admission  *a = &plan->admissions[i];

		ids[i] = a->member.workload_id;
		attempts[i] = a->member.attempt + 1;
		pools[i] = book->world->pools[a->home].pool_id;
		policies[i] = a->lane->policy_id;
		lenders[i] = lender_of(book, a);
		types[i] = book->type_ids[a->type];
		many[i] = BoolGetDatum(a->npods > 1);
		nodes[i] = CStringGetTextDatum(a->npods > 1 ? node_names(book->world, a) :
									   book->world->nodes[a->pods[0].node].name);
	}
	values[0] = rpq_int8_array(ids, n);
	values[1] = rpq_int4_array(attempts, n);
	values[2] = rpq_int8_array(pools, n);
	values[3] = rpq_int8_array(types, n);
	values[4] = rpq_datum_array(nodes, NULL, n, TEXTOID);
	values[5] = rpq_datum_array(many, NULL, n, BOOLOID);
	values[6] = TimestampTzGetDatum(book->now);
	values[7] = rpq_int8_array(policies, n);
	values[8] = rpq_int8_array(lenders, n);
	if (rpq_exec(&admit_workloads, values, NULL) != (uint64) n)
		elog(ERROR, "an admitted workload's row is gone");
}

static char *
device_list(const PodPlace *pod)
{
	StringInfoData text;

	if (pod->ndevices < 2)
		return "";
	initStringInfo(&text);
	for (int i = 0; i < pod->ndevices; i++)
		appendStringInfo(&text, "%c%d", i == 0 ? '{' : ',', pod->devices[i]);
	appendStringInfoChar(&text, '}');
	return text.data;
}

/* Adds a pod to its node's row.  The core has counted its own vectors down; the row keeps what it holds. */
static void
load_node(Book *book, const PodPlace *pod, const LaneRow *lane)
{
	NodeRow    *node = &book->nodes[pod->node];
	int64		gpu = resources_get(lane->resources, "gpu", 3, NULL);

	if (!resources_add_into(node->used, lane->resources))
		node->used = resources_add(node->used, lane->resources);
	for (int d = 0; d < pod->ndevices; d++)
		node->parts[pod->devices[d]] += pod->ndevices > 1 ? gpu / pod->ndevices : gpu;
	/* only who was alone stays known: elsewhere than where accounts are kept apart, nobody asks */
	if (node->pods++ == 0)
		node->account = lane->account_id;
	else if (node->account != lane->account_id)
		node->account = UNKNOWN_ACCOUNT;
	node->changed = true;
}

static void
write_pods(Book *book, CyclePlan *plan)
{
	int			n = 0;
	int			i = 0;
	int64	   *ids;
	int32	   *attempts;
	int32	   *replicas;
	int64	   *nodes;
	int32	   *device;
	Datum	   *devices;
	Datum		values[6];

	for (int a = 0; a < plan->nadmissions; a++)
		n += plan->admissions[a].npods;
	ids = palloc(sizeof(int64) * n);
	attempts = palloc(sizeof(int32) * n);
	replicas = palloc(sizeof(int32) * n);
	nodes = palloc(sizeof(int64) * n);
	device = palloc(sizeof(int32) * n);
	devices = palloc(sizeof(Datum) * n);
	for (int a = 0; a < plan->nadmissions; a++)
	{
		Admission  *admission = &plan->admissions[a];

		for (int p = 0; p < admission->npods; p++, i++)
		{
			PodPlace   *pod = &admission->pods[p];

			ids[i] = admission->member.workload_id;
			attempts[i] = admission->member.attempt + 1;
			replicas[i] = p;
			nodes[i] = book->nodes[pod->node].node_id;
			device[i] = pod->ndevices == 1 ? pod->devices[0] : -1;
			devices[i] = CStringGetTextDatum(device_list(pod));
			load_node(book, pod, admission->lane->store);
		}
	}
	values[0] = rpq_int8_array(ids, n);
	values[1] = rpq_int4_array(attempts, n);
	values[2] = rpq_int4_array(replicas, n);
	values[3] = rpq_int8_array(nodes, n);
	values[4] = rpq_int4_array(device, n);
	values[5] = rpq_datum_array(devices, NULL, n, TEXTOID);
	rpq_exec(&insert_pods, values, NULL);
}

/* The highest id of the entries just written is the new cursor within the own transaction. */
static void
advance_own_entry(Book *book)
{
	int64		last = 0;

	for (uint64 i = 0; i < SPI_processed; i++)
		last = Max(last, rpq_column_int64(i, 1, 0));
	for (int i = 0; i < book->nscopes; i++)
		book->scopes[i].own_entry = Max(book->scopes[i].own_entry, last);
	SPI_freetuptable(SPI_tuptable);
}

static void
count_admission(Book *book, Admission *a, LaneRow *lane, Resources *total)
{
	Scope	   *scope = book_scope(book, lane->key.scope_id);
	Cell	   *cell = book_cell(book, book->world->pools[a->home].pool_id, book->type_ids[a->type], lane->account_id,
								 a->lane->policy_id, lender_of(book, a));

	cell->amount = cell->amount == NULL ? resources_copy(total) : resources_add(cell->amount, total);
	cell->changed = true;
	lane->waiting--;
	lane->changed = true;
	scope->changed = true;
	book->pools[a->home]->changed = true;
	book->pools[a->pool]->changed = true;
}

static void
write_entries(Book *book, CyclePlan *plan)
{
	int			n = plan->nadmissions;
	int64	   *numbers = palloc(sizeof(int64) * n * 8);
	int32	   *attempts = palloc(sizeof(int32) * n);
	Datum	   *resources = palloc(sizeof(Datum) * n);
	Datum		values[11];

	for (int i = 0; i < n; i++)
	{
		Admission  *a = &plan->admissions[i];
		LaneRow    *lane = a->lane->store;
		Resources  *total = lane->replicas == 1 ? lane->resources : resources_mul_int(lane->resources, lane->replicas);

		numbers[i] = lane->key.scope_id;
		numbers[n + i] = a->member.workload_id;
		numbers[2 * n + i] = lane->key.shape;
		numbers[3 * n + i] = lane->account_id;
		numbers[4 * n + i] = a->lane->policy_id;
		numbers[5 * n + i] = book->world->pools[a->home].pool_id;
		numbers[6 * n + i] = book->type_ids[a->type];
		numbers[7 * n + i] = lender_of(book, a);
		attempts[i] = a->member.attempt + 1;
		resources[i] = ResourcesPGetDatum(total);
		count_admission(book, a, lane, total);
	}
	for (int c = 0; c < 7; c++)
		values[c] = rpq_int8_array(numbers + c * n, n);
	values[7] = rpq_int4_array(attempts, n);
	values[8] = TimestampTzGetDatum(book->now);
	values[9] = rpq_datum_array(resources, NULL, n, rpq_resources_oid());
	values[10] = rpq_int8_array(numbers + 7 * n, n);
	rpq_exec(&insert_entries, values, NULL);
	advance_own_entry(book);
}

static void
write_freed(Book *book)
{
	int64	   *ids = palloc(sizeof(int64) * Max(book->nfreed_pods, 1));
	Datum		values[1];

	if (book->nfreed_pods == 0)
		return;
	for (int i = 0; i < book->nfreed_pods; i++)
		ids[i] = book->freed_pods[i].pod_id;
	values[0] = rpq_int8_array(ids, book->nfreed_pods);
	rpq_exec(&delete_pods, values, NULL);
}

/*
 * After the entries of admissions, whose highest id becomes the cursor: these withdrawals are for the next fold to
 * count.
 */
static void
write_set_aside(Book *book)
{
	Datum		values[2];

	if (book->nset_aside == 0)
		return;
	values[0] = rpq_int8_array(book->set_aside, (int) book->nset_aside);
	values[1] = TimestampTzGetDatum(book->now);
	rpq_exec(&fail_set_aside, values, NULL);
}

/*
 * The heads of the lanes that were read, after what was admitted is no longer queued.  The first that was not
 * admitted is not always the head: one before it may have been passed over since its client keeps it locked.
 */
static void
find_heads(Book *book)
{
	int			n = 0;
	int			max = book->world->nlanes;
	int64	   *scopes = palloc(sizeof(int64) * Max(max, 1));
	int64	   *shapes = palloc(sizeof(int64) * Max(max, 1));
	Datum	   *at = palloc(sizeof(Datum) * Max(max, 1));
	int64	   *ids = palloc(sizeof(int64) * Max(max, 1));
	Datum		values[4];
	uint64		rows;

	for (int i = 0; i < max; i++)
	{
		LaneRow    *row = book->lane_rows[i];

		if (!row->was_read || row->waiting == 0)
			continue;
		scopes[n] = row->key.scope_id;
		shapes[n] = row->key.shape;
		at[n] = TimestampTzGetDatum(row->head_at);
		ids[n++] = row->head_id;
	}
	if (n == 0)
		return;
	values[0] = rpq_int8_array(scopes, n);
	values[1] = rpq_int8_array(shapes, n);
	values[2] = rpq_datum_array(at, NULL, n, TIMESTAMPTZOID);
	values[3] = rpq_int8_array(ids, n);
	rows = rpq_exec(&first_members, values, NULL);
	for (uint64 r = 0; r < rows; r++)
	{
		LaneRow    *row = book_lane(book, rpq_column_int64(r, 1, 0), rpq_column_int64(r, 2, 0));

		row->head_at = rpq_column_int64(r, 3, 0);
		row->head_id = rpq_column_int64(r, 4, 0);
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * What the plan says of a lane becomes what its row says.  A lane that was decided and still has members is blocked
 * until room is freed; one that the batch cut off, or whose members were all locked by clients, is tried again.
 */
static void
settle_lane(Book *book, Lane *lane, LaneRow *row)
{
	Scope	   *scope = book_scope(book, row->key.scope_id);
	const char *code = NULL;
	const char *sentence = NULL;
	int64		epoch = 0;

	if (lane->skip)
		return;
	if (lane->reason != NULL)
	{
		code = reason_code_name(lane->reason->code);
		sentence = reason_sentence(book->world, lane->reason);
		epoch = book_epoch(book, scope);
	}
	if (row->changed || epoch != row->blocked_at_epoch || (code == NULL) != (row->reason_code == NULL) ||
		(code != NULL && (strcmp(code, row->reason_code) != 0 || row->reason == NULL ||
						  strcmp(sentence, row->reason) != 0)))
	{
		row->changed = true;
		scope->changed = true;
	}
	row->considered = lane->considered && lane->reason != NULL;
	row->blocked_at_epoch = epoch;
	row->reason_code = code;
	row->reason = sentence;
}

void
book_apply(Book *book, CyclePlan *plan)
{
	reports_write_holds(book);
	write_freed(book);
	evictions_write(book, plan);
	if (plan != NULL && plan->nadmissions > 0)
	{
		write_workloads(book, plan);
		write_pods(book, plan);
		write_entries(book, plan);
	}
	write_set_aside(book);
	reports_write_rest(book);
	if (book->world != NULL)
		find_heads(book);
	for (int i = 0; book->world != NULL && i < book->world->nlanes; i++)
		settle_lane(book, &book->world->lanes[i], book->lane_rows[i]);
	evictions_write_rest(book, plan);
	rows_write_nodes(book);
	rows_write_usage(book);
	rows_write_lanes(book);
	rows_write_turns(book);
	keep_close(book);
}

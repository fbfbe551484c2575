/*
 * eviction_rows.c
 *
 * What a plan preempts and holds -> rows: preemption, hold, and the ends of victims that are not slow.
 *
 * Writes preemption and hold; workload (rows that placed_take_victims locked), pod and entry of victims.  What the
 * entries add is counted in the Book here, and node_load, usage and lane follow with the rest of apply_plan.c.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "rpq.h"
#include "store/evictions.h"
#include "store/placed.h"
#include "store/spi.h"

static RpqStatement insert_preemptions = {
	"INSERT INTO rpq_store.preemption (at, pool_id, preemptor, victim, victim_attempt, victim_account,"
	"                                  preemptor_account, rule, rank, gpu_seconds_lost, state, expires_at)"
	" SELECT $1, v.pool_id, v.preemptor, v.victim, v.attempt, w.account_id, v.account_id, v.rule, v.rank,"
	"        trim_scale(coalesce(w.resources OPERATOR(rpq.->) 'gpu', 0) * w.replicas * greatest(0, extract(epoch FROM"
	"          $1 - CASE WHEN w.checkpointable AND w.checkpoint_at >= w.started_at THEN w.checkpoint_at"
	"                    ELSE w.started_at END))),"
	"        CASE WHEN v.slow THEN 'pending' ELSE 'stopped' END, CASE WHEN v.slow THEN $2 END"
	"   FROM unnest($3, $4, $5, $6, $7, $8, $9, $10) WITH ORDINALITY"
	"     AS v (pool_id, preemptor, victim, account_id, attempt, rank, rule, slow, place)"
	"   JOIN rpq_store.workload w ON w.workload_id = v.victim ORDER BY v.place",
	10, {TIMESTAMPTZOID, TIMESTAMPTZOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID,
		 INT4ARRAYOID, TEXTARRAYOID, BOOLARRAYOID}
};

static RpqStatement end_victims = {
	"SELECT e.entry_id, e.scope_id, e.workload_id, e.shape, e.submitted_at, e.pool_id, e.type_id, e.account_id,"
	"       coalesce(e.policy_id, 0), coalesce(e.lender_id, 0), e.resources"
	"  FROM rpq_store.end_attempts($1, $2, array_fill('queued'::text, ARRAY[cardinality($1)]),"
	"         array_fill('preempted'::text, ARRAY[cardinality($1)]),"
	"         array_fill(NULL::text, ARRAY[cardinality($1)]), 'system', $3) e",
	3, {INT8ARRAYOID, INT4ARRAYOID, TIMESTAMPTZOID}
};

/* In the form of book_take_lane. */
static RpqStatement load_shapes = {
	"SELECT scope_id, shape, account_id, priority, guarantee, checkpointable, replicas, workload_type, resources,"
	"       instance_types, max_runtime, not_before"
	"  FROM rpq_store.workload WHERE workload_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

static RpqStatement delete_pods = {
	"DELETE FROM rpq_store.pod WHERE pod_id = ANY ($1)", 1, {INT8ARRAYOID}
};

static RpqStatement drop_reports = {
	"SELECT rpq_store.drop_reports($1)", 1, {INT8ARRAYOID}
};

static RpqStatement insert_holds = {
	"INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, attempt, replica, resources, devices, purpose)"
	" SELECT h.scope_id, h.node_id, h.workload_id, h.attempt, h.replica, w.resources,"
	"        CASE WHEN h.devices <> '' THEN h.devices::int[] END, 'preempt'"
	"   FROM unnest($1, $2, $3, $4, $5, $6) AS h (scope_id, node_id, workload_id, attempt, replica, devices)"
	"   JOIN rpq_store.workload w ON w.workload_id = h.workload_id",
	6, {INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID, INT4ARRAYOID, TEXTARRAYOID}
};

static RpqStatement end_holds = {
	"DELETE FROM rpq_store.hold WHERE workload_id = ANY ($1) AND purpose = 'preempt'", 1, {INT8ARRAYOID}
};

static RpqStatement give_up = {
	"SELECT rpq_store.give_up_preemptions($1)", 1, {INT8ARRAYOID}
};

static RpqStatement stop_pending = {
	"UPDATE rpq_store.preemption SET state = 'stopped' WHERE preemption_id = ANY ($1) AND state = 'pending'",
	1, {INT8ARRAYOID}
};

static const char *
rule_name(PreemptRule rule)
{
	switch (rule)
	{
		case PREEMPT_BORROWED:
			return "borrowed";
		case PREEMPT_RESERVATION:
			return "reservation";
		case PREEMPT_PRIORITY:
			break;
	}
	return "priority";
}

/* While the victims' rows still say when they began. */
static void
write_preemptions(Book *book, CyclePlan *plan)
{
	int			n = plan->npreemptions;
	int64	   *numbers = palloc(sizeof(int64) * n * 4);
	int32	   *attempts = palloc(sizeof(int32) * n);
	int32	   *ranks = palloc(sizeof(int32) * n);
	Datum	   *rules = palloc(sizeof(Datum) * n);
	Datum	   *slow = palloc(sizeof(Datum) * n);
	Datum		values[10];

	for (int i = 0; i < n; i++)
	{
		Preemption *p = &plan->preemptions[i];

		numbers[i] = book->world->pools[p->victim->pool].pool_id;
		numbers[n + i] = p->member.workload_id;
		numbers[2 * n + i] = p->victim->workload_id;
		numbers[3 * n + i] = p->lane->account_id;
		attempts[i] = p->victim->attempt;
		ranks[i] = p->rank;
		rules[i] = CStringGetTextDatum(rule_name(p->rule));
		slow[i] = BoolGetDatum(p->victim->slow);
		book_scope(book, numbers[i])->changed = true;
	}
	values[0] = TimestampTzGetDatum(book->now);
	values[1] = TimestampTzGetDatum(book->now + rpq_preemption_grace * USECS_PER_SEC);
	for (int c = 0; c < 4; c++)
		values[2 + c] = rpq_int8_array(numbers + c * n, n);
	values[6] = rpq_int4_array(attempts, n);
	values[7] = rpq_int4_array(ranks, n);
	values[8] = rpq_datum_array(rules, NULL, n, TEXTOID);
	values[9] = rpq_datum_array(slow, NULL, n, BOOLOID);
	if (rpq_exec(&insert_preemptions, values, rpq_preemption_grace == 0 ? " n        " : NULL) != (uint64) n)
		elog(ERROR, "a victim's row is gone");
}

/* ----------------------------------------------------------------- victims that end at once */

/* What a pod took of its node; the core has counted its own vectors. */
static void
unload_node(Book *book, const PodPlace *pod, const Resources *each)
{
	NodeRow    *node = &book->nodes[pod->node];
	int64		gpu = resources_get(each, "gpu", 3, NULL);

	node->used = resources_sub(node->used, each);
	for (int d = 0; d < pod->ndevices; d++)
		node->parts[pod->devices[d]] -= pod->ndevices > 1 ? gpu / pod->ndevices : gpu;
	node->pods--;
	if (node->pods == 0)
		node->account = 0;
	else if (node->account == SEVERAL_ACCOUNTS)
		node->account = UNKNOWN_ACCOUNT;
	node->changed = true;
}

static void
free_victims(Book *book, Placed **victims, int n)
{
	int64	   *ids;
	int			npods = 0;
	Datum		values[1];

	for (int i = 0; i < n; i++)
		npods += victims[i]->npods;
	ids = palloc(sizeof(int64) * Max(npods, 1));
	npods = 0;
	for (int i = 0; i < n; i++)
	{
		PlacedRow  *row = victims[i]->store;

		for (int p = 0; p < victims[i]->npods; p++)
		{
			ids[npods++] = row->pod_ids[p];
			unload_node(book, &victims[i]->pods[p], row->each);
		}
	}
	values[0] = rpq_int8_array(ids, npods);
	if (rpq_exec(&delete_pods, values, NULL) != (uint64) npods)
		elog(ERROR, "a victim's pods are not those that were read");
}

/* Back in its lane, which is to be decided anew: a lane that is blocked was so without it, and with less room. */
static void
count_return(Book *book, uint64 row)
{
	Scope	   *scope = book_scope(book, rpq_column_int64(row, 2, 0));
	int64		id = rpq_column_int64(row, 3, 0);
	LaneRow    *lane = book_lane(book, scope->scope_id, rpq_column_int64(row, 4, 0));
	TimestampTz at = rpq_column_int64(row, 5, 0);
	Cell	   *cell = book_cell(book, rpq_column_int64(row, 6, 0), rpq_column_int64(row, 7, 0),
								 rpq_column_int64(row, 8, 0), rpq_column_int64(row, 9, 0),
								 rpq_column_int64(row, 10, 0));
	bool		isnull;
	Resources  *amount = DatumGetResourcesP(rpq_column(row, 11, &isnull));

	cell->amount = cell->amount == NULL ? resources_copy(amount) : resources_add(cell->amount, amount);
	cell->changed = true;
	if (lane->waiting == 0 || !lane->has_head || at < lane->head_at || (at == lane->head_at && id < lane->head_id))
	{
		lane->has_head = true;
		lane->head_at = at;
		lane->head_id = id;
	}
	lane->waiting++;
	lane->changed = true;
	scope->changed = true;
	book_scope(book, cell->key.pool_id)->changed = true;
	for (int i = 0; i < book->nscopes; i++)
		book->scopes[i].own_entry = Max(book->scopes[i].own_entry, rpq_column_int64(row, 1, 0));
}

/* Lanes that nobody waited in take their shape from the victim. */
static void
load_lane_shapes(Book *book, Datum ids)
{
	Datum		values[1] = {ids};
	uint64		rows = rpq_exec(&load_shapes, values, NULL);
	MemoryContext old = MemoryContextSwitchTo(book->context);

	for (uint64 i = 0; i < rows; i++)
	{
		LaneRow    *lane = book_lane(book, rpq_column_int64(i, 1, 0), rpq_column_int64(i, 2, 0));
		LaneRow		counted = *lane;

		if (lane->has_shape)
			continue;
		book_take_lane(lane, i);
		lane->waiting = counted.waiting;
		lane->has_head = counted.has_head;
		lane->head_at = counted.head_at;
		lane->head_id = counted.head_id;
		lane->changed = true;
	}
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
}

static void
end_fast_victims(Book *book, CyclePlan *plan)
{
	Placed	  **victims = palloc(sizeof(Placed *) * plan->npreemptions);
	int64	   *ids = palloc(sizeof(int64) * plan->npreemptions);
	int32	   *attempts = palloc(sizeof(int32) * plan->npreemptions);
	int			n = 0;
	Datum		values[3];

	for (int i = 0; i < plan->npreemptions; i++)
	{
		Placed	   *victim = plan->preemptions[i].victim;

		if (victim->slow)
			continue;
		victims[n] = victim;
		attempts[n] = victim->attempt;
		ids[n++] = victim->workload_id;
	}
	if (n == 0)
		return;
	free_victims(book, victims, n);
	values[0] = rpq_int8_array(ids, n);
	values[1] = rpq_int4_array(attempts, n);
	values[2] = TimestampTzGetDatum(book->now);
	if (rpq_exec(&end_victims, values, NULL) != (uint64) n)
		elog(ERROR, "a victim that was locked is not what it was");
	for (int i = 0; i < n; i++)
		count_return(book, i);
	SPI_freetuptable(SPI_tuptable);
	load_lane_shapes(book, values[0]);
	rpq_exec(&drop_reports, values, NULL);
	SPI_freetuptable(SPI_tuptable);
}

/* ----------------------------------------------------------------- holds */

static char *
device_list(const PodPlace *pod)
{
	StringInfoData text;

	if (pod->ndevices == 0)
		return "";
	initStringInfo(&text);
	for (int i = 0; i < pod->ndevices; i++)
		appendStringInfo(&text, "%c%d", i == 0 ? '{' : ',', pod->devices[i]);
	appendStringInfoChar(&text, '}');
	return text.data;
}

static void
write_holds(Book *book, CyclePlan *plan)
{
	int			n = 0;
	int64	   *numbers;
	int32	   *counts;
	Datum	   *devices;
	Datum		values[6];
	int			i = 0;

	for (int h = 0; h < plan->nheld; h++)
		n += plan->held[h].npods;
	if (n == 0)
		return;
	numbers = palloc(sizeof(int64) * n * 3);
	counts = palloc(sizeof(int32) * n * 2);
	devices = palloc(sizeof(Datum) * n);
	for (int h = 0; h < plan->nheld; h++)
	{
		Admission  *held = &plan->held[h];

		for (int p = 0; p < held->npods; p++, i++)
		{
			numbers[i] = book->world->pools[held->pool].pool_id;
			numbers[n + i] = book->nodes[held->pods[p].node].node_id;
			numbers[2 * n + i] = held->member.workload_id;
			counts[i] = held->member.attempt + 1;
			counts[n + i] = p;
			devices[i] = CStringGetTextDatum(device_list(&held->pods[p]));
			book_scope(book, numbers[i])->changed = true;
		}
	}
	for (int c = 0; c < 3; c++)
		values[c] = rpq_int8_array(numbers + c * n, n);
	values[3] = rpq_int4_array(counts, n);
	values[4] = rpq_int4_array(counts + n, n);
	values[5] = rpq_datum_array(devices, NULL, n, TEXTOID);
	rpq_exec(&insert_holds, values, NULL);
}

/* Ids of the holds that the plan ended, by their admission or not. */
static int64 *
holds_that(Book *book, bool admitted, int *n)
{
	World	   *world = book->world;
	int64	   *ids = palloc(sizeof(int64) * Max(world->nholds, 1));

	*n = 0;
	for (int i = 0; i < world->nholds; i++)
	{
		RoomHold   *hold = &world->holds[i];

		if (admitted ? !hold->admitted : !hold->given_up)
			continue;
		ids[(*n)++] = hold->member.workload_id;
		book_scope(book, ((HeldRoom *) hold->store)->pool_id)->changed = true;
	}
	return ids;
}

static void
write_ended_holds(Book *book)
{
	int			n;
	int64	   *ids = holds_that(book, true, &n);
	Datum		values[1] = {rpq_int8_array(ids, n)};

	if (n > 0)
		rpq_exec(&end_holds, values, NULL);
	ids = holds_that(book, false, &n);
	if (n == 0)
		return;
	values[0] = rpq_int8_array(ids, n);
	rpq_exec(&give_up, values, NULL);
	SPI_freetuptable(SPI_tuptable);
}

/* Victims whose attempt has ended and of which nothing is left on any node. */
static void
write_stopped(Book *book)
{
	Evictions  *evictions = book->evictions;
	int64	   *ids;
	int			n = 0;
	Datum		values[1];

	if (evictions == NULL || !evictions->any)
		return;
	evictions_load(book);
	ids = palloc(sizeof(int64) * Max(evictions->npending, 1));
	for (int i = 0; i < evictions->npending; i++)
	{
		if (!evictions->pending[i].placed && !evictions->pending[i].has_room)
			ids[n++] = evictions->pending[i].preemption_id;
	}
	values[0] = rpq_int8_array(ids, n);
	if (n > 0)
		rpq_exec(&stop_pending, values, NULL);
}

void
evictions_write(Book *book, CyclePlan *plan)
{
	write_stopped(book);
	if (plan == NULL)
		return;
	write_ended_holds(book);
	if (plan->npreemptions > 0)
	{
		write_preemptions(book, plan);
		end_fast_victims(book, plan);
	}
	write_holds(book, plan);
}

/* Nothing was lent by a pool that had yet to get room back; those who might borrow it are decided anew. */
static bool
lends_again(Book *book)
{
	Evictions  *evictions = book->evictions;
	bool		again = false;

	for (int i = 0; evictions != NULL && i < evictions->npending; i++)
	{
		Pending    *p = &evictions->pending[i];

		if (p->preemptor != 0 || p->placed || p->has_room)
			continue;
		book_scope(book, p->pool_id)->room_epoch++;
		book_scope(book, p->pool_id)->changed = true;
		again = true;
	}
	return again;
}

/*
 * What was decided before room was given up or taken is decided anew by the next cycle, which follows at once: a
 * victim waits from then on, and others may have been blocked by what it had.  A preemptor whose row was locked is
 * tried again.
 */
void
evictions_write_rest(Book *book, CyclePlan *plan)
{
	World	   *world = book->world;
	bool		again = lends_again(book);

	if (plan == NULL)
		return;
	for (int i = 0; i < plan->npreemptions; i++)
	{
		if (plan->preemptions[i].victim->slow)
			continue;
		book_scope(book, world->pools[plan->preemptions[i].victim->pool].pool_id)->room_epoch++;
		again = true;
	}
	for (int i = 0; i < world->nholds; i++)
	{
		HeldRoom   *held = world->holds[i].store;
		LaneRow    *lane = world->holds[i].lane == NULL ? NULL : world->holds[i].lane->store;

		if (world->holds[i].given_up)
		{
			book_scope(book, held->pool_id)->room_epoch++;
			again = true;
		}
		else if (held->locked && lane != NULL)
		{
			lane->blocked_at_epoch = 0;
			lane->changed = true;
			book_scope(book, lane->key.scope_id)->changed = true;
		}
	}
	plan->more |= again;
}

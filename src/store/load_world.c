/*
 * load_world.c
 *
 * Rows -> World: keys, usage, pools, lanes.  Nodes are in load_nodes.c, routes, rights and quotas in load_limits.c,
 * policies in load_policies.c.
 *
 * Reads usage, lane and workload; writes nothing, locks nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"

#include "store/book.h"
#include "store/evictions.h"
#include "store/members.h"
#include "store/place.h"
#include "store/placed.h"
#include "store/spi.h"

static RpqStatement load_usage = {
	"SELECT pool_id, type_id, account_id, policy_id, amount, ctid, lender_id FROM rpq_store.usage"
	" WHERE pool_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

#define LANE_SHAPE \
	"account_id, priority, guarantee, checkpointable, replicas, workload_type, resources, instance_types," \
	" max_runtime, not_before"

static RpqStatement load_lanes = {
	"SELECT scope_id, shape, " LANE_SHAPE ", waiting, head_at, head_id, blocked_at_epoch, considered, reason_code,"
	"       reason, ctid"
	"  FROM rpq_store.lane WHERE scope_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

/* One member of each new lane, for the shape's columns; the guard keeps the scan off dead entries. */
static RpqStatement load_shapes = {
	"SELECT k.scope_id, k.shape, w.*"
	"  FROM unnest($1, $2, $3, $4) AS k (scope_id, shape, head_at, head_id)"
	"  CROSS JOIN LATERAL (SELECT " LANE_SHAPE
	"	 FROM rpq_store.workload w"
	"	WHERE w.scope_id = k.scope_id AND w.shape = k.shape AND w.status = 'queued'"
	"	  AND (w.submitted_at, w.workload_id) >= (k.head_at, k.head_id)"
	"	ORDER BY w.submitted_at, w.workload_id LIMIT 1) w",
	4, {INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID}
};

/* ------------------------------------------------------------------ keys */

/* The position of a key; it is added when it is new. */
int
book_key(Book *book, const char *key, int len)
{
	char	   *copy;

	for (int i = 0; i < book->nkeys; i++)
	{
		if (strncmp(book->keys[i], key, len) == 0 && book->keys[i][len] == '\0')
			return i;
	}
	if (book->nkeys == book->maxkeys)
	{
		book->maxkeys = Max(16, book->maxkeys * 2);
		book->keys = book->keys == NULL ? MemoryContextAlloc(book->context, sizeof(char *) * book->maxkeys) :
			repalloc(book->keys, sizeof(char *) * book->maxkeys);
	}
	if (book->nkeys == 0 && (len != 3 || strncmp(key, "gpu", 3) != 0))
	{
		/* positions 0 and 1 are fixed: RPQ_KEY_GPU, RPQ_KEY_CPU */
		book->keys[0] = "gpu";
		book->keys[1] = "cpu";
		book->nkeys = 2;
		return book_key(book, key, len);
	}
	copy = MemoryContextAlloc(book->context, len + 1);
	memcpy(copy, key, len);
	copy[len] = '\0';
	book->keys[book->nkeys] = copy;
	return book->nkeys++;
}

void
book_intern(Book *book, const Resources *r)
{
	if (book->nkeys == 0)
	{
		book_key(book, "gpu", 3);
		book_key(book, "cpu", 3);
	}
	for (int i = 0; r != NULL && i < resources_nkeys(r); i++)
		book_key(book, resources_key(r, i), resources_key_len(r, i));
}

/* A vector over the keys; a key that r lacks gets absent.  All keys must be interned by then. */
int64 *
book_vector(Book *book, const Resources *r, int64 absent)
{
	int64	   *vector = palloc(sizeof(int64) * book->nkeys);

	for (int i = 0; i < book->nkeys; i++)
		vector[i] = absent;
	for (int i = 0; r != NULL && i < resources_nkeys(r); i++)
		vector[book_key(book, resources_key(r, i), resources_key_len(r, i))] = resources_amount(r, i);
	return vector;
}

void
book_add(Book *book, int64 *vector, const Resources *r)
{
	for (int i = 0; i < resources_nkeys(r); i++)
	{
		int			key = book_key(book, resources_key(r, i), resources_key_len(r, i));

		vector[key] = resources_amount_add(vector[key], resources_amount(r, i));
	}
}

/* The other way; zeros are left out. */
Resources *
book_resources(Book *book, const int64 *vector)
{
	const char **keys = palloc(sizeof(char *) * book->nkeys);
	int64	   *amounts = palloc(sizeof(int64) * book->nkeys);
	int			n = 0;

	for (int i = 0; i < book->nkeys; i++)
	{
		if (vector[i] != 0)
		{
			keys[n] = book->keys[i];
			amounts[n++] = vector[i];
		}
	}
	return resources_build(n, keys, amounts);
}

/* The position of an instance type; it is added when it is new. */
int
book_type(Book *book, int64 type_id)
{
	for (int i = 0; i < book->ntypes; i++)
	{
		if (book->type_ids[i] == type_id)
			return i;
	}
	if (book->ntypes % 16 == 0)
	{
		Size		bytes = sizeof(int64) * (book->ntypes + 16);

		book->type_ids = book->ntypes == 0 ? MemoryContextAlloc(book->context, bytes) : repalloc(book->type_ids, bytes);
	}
	book->type_ids[book->ntypes] = type_id;
	return book->ntypes++;
}

/* ----------------------------------------------------------------- usage */

/* Adds the cube's rows to the deltas that book_read_entries left in the cells. */
void
book_load_usage(Book *book)
{
	Datum		values[1];
	MemoryContext old;
	uint64		rows;

	if (book->from_kept)
		return;
	values[0] = book_scope_ids(book);
	rows = rpq_exec_at(&load_usage, values, NULL, book->snapshot, true);
	old = MemoryContextSwitchTo(book->context);
	for (uint64 i = 0; i < rows; i++)
	{
		Cell	   *cell = book_cell(book, rpq_column_int64(i, 1, 0), rpq_column_int64(i, 2, 0),
									 rpq_column_int64(i, 3, 0), rpq_column_int64(i, 4, 0), rpq_column_int64(i, 7, 0));
		bool		isnull;
		Resources  *amount = DatumGetResourcesP(rpq_column(i, 5, &isnull));

		cell->exists = true;
		cell->place = place_column(i, 6);
		cell->amount = cell->amount == NULL ? resources_copy(amount) : resources_add(amount, cell->amount);
		cell->kept_amount = cell->amount;
	}
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
}

/* ----------------------------------------------------------------- lanes */

static void
take_shape(LaneRow *lane, uint64 row)
{
	bool		isnull;
	Datum		value;

	lane->has_shape = true;
	lane->account_id = rpq_column_int64(row, 3, 0);
	lane->priority = (int) rpq_column_int64(row, 4, 0);
	lane->guarantee = rpq_column_int64(row, 5, 0) != 0;
	lane->checkpointable = rpq_column_int64(row, 6, 0) != 0;
	lane->replicas = (int) rpq_column_int64(row, 7, 1);
	lane->workload_type = rpq_column_text(row, 8);
	lane->resources = DatumGetResourcesPCopy(rpq_column(row, 9, &isnull));
	value = rpq_column(row, 10, &isnull);
	if (!isnull)
	{
		ArrayType  *array = DatumGetArrayTypePCopy(value);

		lane->ninstance_types = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		lane->instance_types = (int64 *) ARR_DATA_PTR(array);
		lane->types_array = PointerGetDatum(array);
	}
	value = rpq_column(row, 11, &isnull);
	if (!isnull)
		lane->max_runtime = datumCopy(value, false, sizeof(Interval));
	lane->not_before = rpq_column_int64(row, 12, 0);
	rpq_column(row, 12, &isnull);
	lane->has_not_before = !isnull;
}

/* A lane's key and shape from a row that begins with scope_id, shape and the shape's columns. */
void
book_take_lane(LaneRow *lane, uint64 row)
{
	memset(lane, 0, sizeof(LaneRow));
	lane->key.scope_id = rpq_column_int64(row, 1, 0);
	lane->key.shape = rpq_column_int64(row, 2, 0);
	lane->ninstance_types = -1;
	take_shape(lane, row);
}

static void
add_lane_row(Book *book, uint64 row)
{
	LaneRow    *lane = book_lane(book, rpq_column_int64(row, 1, 0), rpq_column_int64(row, 2, 0));
	TimestampTz at = rpq_column_int64(row, 14, 0);
	int64		id = rpq_column_int64(row, 15, 0);

	take_shape(lane, row);
	lane->exists = true;
	lane->place = place_column(row, 20);
	/* an empty lane's head says nothing of who arrives next */
	if (!lane->has_head || (rpq_column_int64(row, 13, 0) > 0 &&
							(at < lane->head_at || (at == lane->head_at && id < lane->head_id))))
	{
		lane->head_at = at;
		lane->head_id = id;
	}
	lane->has_head = true;
	lane->waiting += rpq_column_int64(row, 13, 0);
	lane->blocked_at_epoch = rpq_column_int64(row, 16, 0);
	lane->considered = rpq_column_int64(row, 17, 0) != 0;
	lane->reason_code = rpq_column_text(row, 18);
	lane->reason = lane->kept_reason = rpq_column_text(row, 19);
}

/* Lanes that have no row yet take their shape from one of their members. */
static void
load_new_shapes(Book *book, int n)
{
	Datum	   *scope = palloc(sizeof(Datum) * n);
	Datum	   *shape = palloc(sizeof(Datum) * n);
	Datum	   *at = palloc(sizeof(Datum) * n);
	Datum	   *id = palloc(sizeof(Datum) * n);
	Datum		values[4];
	MemoryContext old;
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;
	uint64		rows;
	int			i = 0;

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		if (lane->exists || lane->waiting <= 0)
			continue;
		scope[i] = Int64GetDatum(lane->key.scope_id);
		shape[i] = Int64GetDatum(lane->key.shape);
		at[i] = TimestampTzGetDatum(lane->head_at);
		id[i++] = Int64GetDatum(lane->head_id);
	}
	values[0] = rpq_datum_array(scope, NULL, n, INT8OID);
	values[1] = rpq_datum_array(shape, NULL, n, INT8OID);
	values[2] = rpq_datum_array(at, NULL, n, TIMESTAMPTZOID);
	values[3] = rpq_datum_array(id, NULL, n, INT8OID);
	rows = rpq_exec_at(&load_shapes, values, NULL, book->snapshot, true);
	old = MemoryContextSwitchTo(book->context);
	for (uint64 r = 0; r < rows; r++)
		take_shape(book_lane(book, rpq_column_int64(r, 1, 0), rpq_column_int64(r, 2, 0)), r);
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
	if (rows != (uint64) n)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the ledger counts waiting workloads that are not there"),
				 errdetail("%d lanes should have members, %llu have.", n, (unsigned long long) rows),
				 errhint("rpq.check_integrity() names what differs; somebody changed rpq_store.workload by hand.")));
}

static void
load_lane_rows(Book *book)
{
	Datum		values[1] = {book_scope_ids(book)};
	uint64		rows = rpq_exec_at(&load_lanes, values, NULL, book->snapshot, true);
	MemoryContext old = MemoryContextSwitchTo(book->context);

	for (uint64 i = 0; i < rows; i++)
		add_lane_row(book, i);
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
}

void
book_load_lanes(Book *book)
{
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;
	int			fresh = 0;

	if (!book->from_kept)
		load_lane_rows(book);

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		if (!lane->exists && lane->waiting > 0)
			fresh++;
	}
	if (fresh > 0)
		load_new_shapes(book, fresh);
}

/*
 * A lane that was blocked, with no room freed and nothing of its own changed since, is not tried again.
 */
static bool
lane_is_skipped(Book *book, LaneRow *lane)
{
	Scope	   *scope = book_scope(book, lane->key.scope_id);

	if (!lane->exists || lane->reason_code == NULL || lane->blocked_at_epoch != book_epoch(book, scope))
		return false;
	return !(lane->has_not_before && lane->not_before <= book->now &&
			 strcmp(lane->reason_code, "backing_off") == 0);
}

/* Is there any lane that this cycle has to decide about? */
bool
book_has_work(Book *book)
{
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		if (lane->waiting > 0 && lane->has_shape && !lane_is_skipped(book, lane))
		{
			hash_seq_term(&seq);
			return true;
		}
	}
	return false;
}

/* ----------------------------------------------------------------- world */

/* What is lent counts where the borrower is charged, but not as used. */
static UsageLimit *
pool_total(Book *book, Scope *scope)
{
	UsageLimit	   *limit = palloc0(sizeof(UsageLimit));
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	limit->kind = LIMIT_POOL;
	limit->pool = scope->pool;
	limit->type = RPQ_WHOLE_POOL;
	limit->max = book_vector(book, NULL, 0);
	limit->used = book_vector(book, NULL, 0);
	for (int i = 0; i < book->nnodes; i++)
	{
		NodeRow    *row = &book->nodes[i];

		if (row->pool_id != scope->scope_id)
			continue;
		book_add(book, limit->max, row->capacity);
	}
	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		if (cell->key.pool_id != scope->scope_id || cell->key.lender_id != 0 || cell->amount == NULL)
			continue;
		book_add(book, limit->used, cell->amount);
	}
	return limit;
}

static ReasonCode
pool_closed(const Scope *scope)
{
	if (strcmp(scope->status, "ready") != 0 && strcmp(scope->status, "updating") != 0 &&
		strcmp(scope->status, "failed") != 0)
		return REASON_POOL_NOT_READY;
	return scope->frozen ? REASON_POOL_FROZEN : REASON_NONE;
}

static void
build_pools(Book *book, World *world)
{
	world->npools = book->npools;
	world->pools = palloc0(sizeof(Pool) * Max(book->npools, 1));
	for (int i = 0; i < book->npools; i++)
	{
		Scope	   *scope = book->pools[i];
		Pool	   *pool = &world->pools[i];

		pool->pool_id = scope->scope_id;
		pool->name = scope->name;
		pool->total = pool_total(book, scope);
		pool->unavailable = book_vector(book, NULL, 0);
		pool->closed = pool_closed(scope);
		pool->exclusive = strcmp(scope->type, "exclusive") == 0;
		pool->pay_as_you_go = scope->pay_as_you_go;
		pool->allow_guarantee = scope->allow_guarantee;
		pool->best_effort = scope->best_effort;
	}
}

static bool *
allowed_types(Book *book, const LaneRow *row)
{
	bool	   *allowed;

	if (row->ninstance_types < 0)
		return NULL;
	allowed = palloc0(sizeof(bool) * Max(book->ntypes, 1));
	for (int i = 0; i < row->ninstance_types; i++)
	{
		for (int t = 0; t < book->ntypes; t++)
		{
			if (book->type_ids[t] == row->instance_types[i])
				allowed[t] = true;
		}
	}
	return allowed;
}

static void
build_lane(Book *book, World *world, LaneRow *row, Lane *lane)
{
	Scope	   *scope = book_scope(book, row->key.scope_id);

	lane->scope_id = row->key.scope_id;
	lane->shape = row->key.shape;
	lane->account_id = row->account_id;
	lane->policy_id = scope->policy_id;
	lane->policy = scope->policy_id == 0 ? -1 : book_policy(book, scope->policy_id);
	lane->ends = DT_NOEND;
	if (row->max_runtime != 0)
		lane->ends = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(book->now),
															 row->max_runtime));
	lane->priority = row->priority;
	lane->replicas = row->replicas;
	lane->guarantee = row->guarantee;
	lane->checkpointable = row->checkpointable;
	lane->request = book_vector(book, row->resources, 0);
	lane->type_allowed = allowed_types(book, row);
	lane->waiting = row->waiting;
	lane->head_at = row->head_at;
	lane->head_id = row->head_id;
	book_build_route(book, row, lane);
	lane->skip = lane_is_skipped(book, row);
	lane->store = row;
}

static int
lane_order(const void *a, const void *b)
{
	const LaneRow *x = *(LaneRow *const *) a;
	const LaneRow *y = *(LaneRow *const *) b;

	if (x->key.scope_id != y->key.scope_id)
		return x->key.scope_id < y->key.scope_id ? -1 : 1;
	return x->key.shape < y->key.shape ? -1 : x->key.shape > y->key.shape ? 1 : 0;
}

/*
 * Makes the World.  Everything was loaded before, so that all keys are known when the first vector is made.
 */
void
book_build_world(Book *book, int batch)
{
	World	   *world = palloc0(sizeof(World));
	HASH_SEQ_STATUS seq;
	LaneRow    *row;
	int			n = 0;

	book->lane_rows = palloc(sizeof(LaneRow *) * (hash_get_num_entries(book->lanes) + 1));
	hash_seq_init(&seq, book->lanes);
	while ((row = hash_seq_search(&seq)) != NULL)
	{
		if (row->waiting > 0 && row->has_shape)
		{
			book_intern(book, row->resources);
			book->lane_rows[n++] = row;
		}
	}
	qsort(book->lane_rows, n, sizeof(LaneRow *), lane_order);

	book->world = world;
	world->store = book;
	world->now = book->now;
	world->batch = batch;
	world->read_members = book_read_members;
	placed_offer(world);
	world->read_later = placed_read_later;
	book_load_accounts(book, n);
	book_load_policies(book);
	world->nkeys = book->nkeys;
	world->keys = book->keys;
	build_pools(book, world);
	book_build_policies(book, world);
	world->nlanes = n;
	world->lanes = palloc0(sizeof(Lane) * Max(n, 1));
	for (int i = 0; i < n; i++)
		build_lane(book, world, book->lane_rows[i], &world->lanes[i]);
	book_build_nodes(book, world);
	book_build_limits(book, world);
	evictions_build(book, world);
}

/*
 * rows.c
 *
 * The balances, written back: node_load, usage, lane, turn.  Only whoever holds the turns writes these tables, so every
 * row is written as the value that it now has, not as a difference.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "store/book.h"
#include "store/rows.h"
#include "store/spi.h"

/* Empty lanes are kept, since the same shapes come again, until a scope has more than this. */
#define MAX_EMPTY_LANES 200

static RpqStatement update_nodes = {
	"UPDATE rpq_store.node_load l SET used = n.used, parts = n.parts::bigint[], pods = n.pods"
	"  FROM unnest($1, $2, $3, $4) AS n (node_id, used, parts, pods) WHERE l.node_id = n.node_id",
	4, {INT8ARRAYOID, RPQ_RESOURCES_ARRAY_ARG, TEXTARRAYOID, INT4ARRAYOID}
};

static RpqStatement update_usage = {
	"UPDATE rpq_store.usage u SET amount = n.amount"
	"  FROM unnest($1, $2, $3, $4, $5) AS n (pool_id, type_id, account_id, policy_id, amount)"
	" WHERE u.pool_id = n.pool_id AND u.type_id = n.type_id AND u.account_id = n.account_id"
	"   AND u.policy_id = n.policy_id",
	5, {INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, RPQ_RESOURCES_ARRAY_ARG}
};

static RpqStatement insert_usage = {
	"INSERT INTO rpq_store.usage (pool_id, type_id, account_id, policy_id, amount)"
	" SELECT * FROM unnest($1, $2, $3, $4, $5)",
	5, {INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, RPQ_RESOURCES_ARRAY_ARG}
};

static RpqStatement update_lanes = {
	"UPDATE rpq_store.lane l"
	"   SET waiting = n.waiting, head_at = n.head_at, head_id = n.head_id, blocked_at_epoch = n.epoch,"
	"       considered = n.considered, reason_code = n.code, reason = n.reason"
	"  FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)"
	"    AS n (scope_id, shape, waiting, head_at, head_id, epoch, considered, code, reason)"
	" WHERE l.scope_id = n.scope_id AND l.shape = n.shape",
	9, {INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID, BOOLARRAYOID,
		TEXTARRAYOID, TEXTARRAYOID}
};

static RpqStatement insert_lane = {
	"INSERT INTO rpq_store.lane (scope_id, shape, waiting, head_at, head_id, blocked_at_epoch, considered, reason_code,"
	"                            reason, account_id, priority, guarantee, checkpointable, replicas, workload_type,"
	"                            resources, instance_types, max_runtime, not_before)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
	19, {INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, TEXTOID, TEXTOID, INT8OID, INT4OID,
		 BOOLOID, BOOLOID, INT4OID, TEXTOID, RPQ_RESOURCES_ARG, INT8ARRAYOID, INTERVALOID, TIMESTAMPTZOID}
};

static RpqStatement delete_lanes = {
	"DELETE FROM rpq_store.lane l USING unnest($1, $2) AS n (scope_id, shape)"
	" WHERE l.scope_id = n.scope_id AND l.shape = n.shape",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement update_turn = {
	"UPDATE rpq_store.turn SET seen = $2, own_xid = pg_current_xact_id(), own_entry = $3, cycle = cycle + 1,"
	"       room_epoch = $4, last_at = $5 WHERE scope_id = $1",
	5, {INT8OID, PG_SNAPSHOTOID, INT8OID, INT8OID, TIMESTAMPTZOID}
};

static char *
parts_text(const NodeRow *node)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	for (int i = 0; i < node->nparts; i++)
		appendStringInfo(&text, i == 0 ? "%lld" : ",%lld", (long long) node->parts[i]);
	appendStringInfoChar(&text, '}');
	return text.data;
}

/* A key that has come to nothing is left out, so that a node's load does not remember every key it ever held. */
static Resources *
without_zeros(Resources *r)
{
	const char **keys;
	int		   *lens;
	int64	   *amounts;
	int			n = 0;

	for (int i = 0; i < resources_nkeys(r); i++)
		n += resources_amount(r, i) != 0;
	if (n == resources_nkeys(r))
		return r;
	keys = palloc(sizeof(char *) * Max(n, 1));
	lens = palloc(sizeof(int) * Max(n, 1));
	amounts = palloc(sizeof(int64) * Max(n, 1));
	n = 0;
	for (int i = 0; i < resources_nkeys(r); i++)
	{
		if (resources_amount(r, i) == 0)
			continue;
		keys[n] = resources_key(r, i);
		lens[n] = resources_key_len(r, i);
		amounts[n++] = resources_amount(r, i);
	}
	return resources_build_n(n, keys, lens, amounts);
}

void
rows_write_nodes(Book *book)
{
	int64	   *ids = palloc(sizeof(int64) * Max(book->nnodes, 1));
	Datum	   *used = palloc(sizeof(Datum) * Max(book->nnodes, 1));
	Datum	   *parts = palloc(sizeof(Datum) * Max(book->nnodes, 1));
	int32	   *pods = palloc(sizeof(int32) * Max(book->nnodes, 1));
	Datum		values[4];
	int			n = 0;

	for (int i = 0; i < book->nnodes; i++)
	{
		NodeRow    *node = &book->nodes[i];

		if (!node->changed)
			continue;
		ids[n] = node->node_id;
		used[n] = ResourcesPGetDatum(without_zeros(node->used));
		parts[n] = CStringGetTextDatum(parts_text(node));
		pods[n++] = node->pods;
	}
	if (n == 0)
		return;
	values[0] = rpq_int8_array(ids, n);
	values[1] = rpq_datum_array(used, NULL, n, rpq_resources_oid());
	values[2] = rpq_datum_array(parts, NULL, n, TEXTOID);
	values[3] = rpq_int4_array(pods, n);
	rpq_exec(&update_nodes, values, NULL);
}

static void
write_cells(Book *book, bool exists, RpqStatement *statement)
{
	int			max = (int) hash_get_num_entries(book->cells);
	int64	   *keys = palloc(sizeof(int64) * Max(max, 1) * 4);
	Datum	   *amounts = palloc(sizeof(Datum) * Max(max, 1));
	HASH_SEQ_STATUS seq;
	Cell	   *cell;
	Datum		values[5];
	int			n = 0;

	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		if (!cell->changed || cell->exists != exists)
			continue;
		keys[n] = cell->key.pool_id;
		keys[max + n] = cell->key.type_id;
		keys[2 * max + n] = cell->key.account_id;
		keys[3 * max + n] = cell->key.policy_id;
		amounts[n++] = ResourcesPGetDatum(without_zeros(cell->amount));
	}
	if (n == 0)
		return;
	for (int c = 0; c < 4; c++)
		values[c] = rpq_int8_array(keys + c * max, n);
	values[4] = rpq_datum_array(amounts, NULL, n, rpq_resources_oid());
	rpq_exec(statement, values, NULL);
}

void
rows_write_usage(Book *book)
{
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	write_cells(book, true, &update_usage);
	write_cells(book, false, &insert_usage);
	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
		cell->exists = cell->exists || cell->changed;
}

static void
write_new_lane(LaneRow *lane)
{
	Datum		values[19];
	char		nulls[20] = "                   ";
	Datum	   *types;

	values[0] = Int64GetDatum(lane->key.scope_id);
	values[1] = Int64GetDatum(lane->key.shape);
	values[2] = Int64GetDatum(lane->waiting);
	values[3] = TimestampTzGetDatum(lane->head_at);
	values[4] = Int64GetDatum(lane->head_id);
	values[5] = Int64GetDatum(lane->blocked_at_epoch);
	values[6] = BoolGetDatum(lane->considered);
	nulls[7] = lane->reason_code == NULL ? 'n' : ' ';
	values[7] = lane->reason_code == NULL ? (Datum) 0 : CStringGetTextDatum(lane->reason_code);
	nulls[8] = lane->reason == NULL ? 'n' : ' ';
	values[8] = lane->reason == NULL ? (Datum) 0 : CStringGetTextDatum(lane->reason);
	values[9] = Int64GetDatum(lane->account_id);
	values[10] = Int32GetDatum(lane->priority);
	values[11] = BoolGetDatum(lane->guarantee);
	values[12] = BoolGetDatum(lane->checkpointable);
	values[13] = Int32GetDatum(lane->replicas);
	values[14] = CStringGetTextDatum(lane->workload_type);
	values[15] = ResourcesPGetDatum(lane->resources);
	nulls[16] = lane->ninstance_types < 0 ? 'n' : ' ';
	types = palloc(sizeof(Datum) * Max(lane->ninstance_types, 1));
	for (int i = 0; i < lane->ninstance_types; i++)
		types[i] = Int64GetDatum(lane->instance_types[i]);
	values[16] = rpq_datum_array(types, NULL, Max(lane->ninstance_types, 0), INT8OID);
	nulls[17] = lane->max_runtime == 0 ? 'n' : ' ';
	values[17] = lane->max_runtime;
	nulls[18] = lane->has_not_before ? ' ' : 'n';
	values[18] = TimestampTzGetDatum(lane->not_before);
	rpq_exec(&insert_lane, values, nulls);
}

typedef struct LaneArrays
{
	int			n;
	Datum	   *columns[9];
	bool	   *no_code;
	bool	   *no_reason;
} LaneArrays;

static void
add_lane(LaneArrays *arrays, LaneRow *lane)
{
	int			n = arrays->n++;

	arrays->columns[0][n] = Int64GetDatum(lane->key.scope_id);
	arrays->columns[1][n] = Int64GetDatum(lane->key.shape);
	arrays->columns[2][n] = Int64GetDatum(lane->waiting);
	arrays->columns[3][n] = TimestampTzGetDatum(lane->head_at);
	arrays->columns[4][n] = Int64GetDatum(lane->head_id);
	arrays->columns[5][n] = Int64GetDatum(lane->blocked_at_epoch);
	arrays->columns[6][n] = BoolGetDatum(lane->considered);
	arrays->no_code[n] = lane->reason_code == NULL;
	arrays->columns[7][n] = lane->reason_code == NULL ? (Datum) 0 : CStringGetTextDatum(lane->reason_code);
	arrays->no_reason[n] = lane->reason == NULL;
	arrays->columns[8][n] = lane->reason == NULL ? (Datum) 0 : CStringGetTextDatum(lane->reason);
}

static void
write_lane_updates(LaneArrays *arrays)
{
	static const Oid types[9] = {
		INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, TEXTOID, TEXTOID
	};
	Datum		values[9];

	if (arrays->n == 0)
		return;
	for (int c = 0; c < 9; c++)
		values[c] = rpq_datum_array(arrays->columns[c],
									c == 7 ? arrays->no_code : c == 8 ? arrays->no_reason : NULL,
									arrays->n, types[c]);
	rpq_exec(&update_lanes, values, NULL);
}

static void
delete_empty_lanes(Book *book, int nempty)
{
	int64	   *scopes = palloc(sizeof(int64) * nempty);
	int64	   *shapes = palloc(sizeof(int64) * nempty);
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;
	Datum		values[2];
	int			n = 0;

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		if (!lane->exists || lane->waiting != 0)
			continue;
		lane->exists = false;
		scopes[n] = lane->key.scope_id;
		shapes[n++] = lane->key.shape;
	}
	values[0] = rpq_int8_array(scopes, n);
	values[1] = rpq_int8_array(shapes, n);
	rpq_exec(&delete_lanes, values, NULL);
}

void
rows_write_lanes(Book *book)
{
	int			max = (int) Max(hash_get_num_entries(book->lanes), 1);
	LaneArrays	arrays = {0};
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;
	int			nempty = 0;

	for (int c = 0; c < 9; c++)
		arrays.columns[c] = palloc0(sizeof(Datum) * max);
	arrays.no_code = palloc0(sizeof(bool) * max);
	arrays.no_reason = palloc0(sizeof(bool) * max);

	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		if (lane->waiting < 0)
			elog(ERROR, "lane of scope %lld counts %lld waiting workloads", (long long) lane->key.scope_id,
				 (long long) lane->waiting);
		if (lane->waiting == 0)
		{
			lane->reason_code = lane->reason = NULL;
			lane->blocked_at_epoch = 0;
			lane->considered = false;
		}
		if (lane->exists)
			nempty += lane->waiting == 0;
		if (!lane->changed)
			continue;
		if (lane->exists)
			add_lane(&arrays, lane);
		else if (lane->waiting > 0)
		{
			write_new_lane(lane);
			lane->exists = true;
		}
	}
	write_lane_updates(&arrays);
	if (nempty > MAX_EMPTY_LANES * Max(book->nscopes, 1))
		delete_empty_lanes(book, nempty);
}

/*
 * The cursor: the very snapshot at which the entries were read.
 */
void
rows_write_turns(Book *book)
{
	for (int i = 0; i < book->nscopes; i++)
	{
		Scope	   *scope = &book->scopes[i];
		Datum		values[5];

		if (!scope->changed)
			continue;
		values[0] = Int64GetDatum(scope->scope_id);
		values[1] = book->seen;
		values[2] = Int64GetDatum(scope->own_entry);
		values[3] = Int64GetDatum(scope->room_epoch);
		values[4] = TimestampTzGetDatum(book->now);
		if (rpq_exec(&update_turn, values, NULL) != 1)
			elog(ERROR, "turn of scope %lld is gone", (long long) scope->scope_id);
		scope->left_xid = U64FromFullTransactionId(GetTopFullTransactionId());
		scope->left_cycle = scope->cycle + 1;
		scope->left_epoch = scope->room_epoch;
	}
}

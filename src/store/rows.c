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
#include "store/place.h"
#include "store/rows.h"
#include "store/spi.h"

/* Empty lanes are kept, since the same shapes come again, until a scope has more than this. */
#define MAX_EMPTY_LANES 200

/*
 * Each table has two statements: for rows whose place is known and for the others (place.c).  "+ 0" keeps the first
 * from the index, which knows every dead version.
 */
#define UPDATE_NODES \
	"UPDATE rpq_store.node_load l SET used = n.used, parts = n.parts::bigint[], pods = n.pods FROM unnest("
#define NODE_COLUMNS "node_id, used, parts, pods"
#define NODE_TYPES INT8ARRAYOID, RPQ_RESOURCES_ARRAY_ARG, TEXTARRAYOID, INT4ARRAYOID

static RpqStatement update_nodes = {
	UPDATE_NODES "$1, $2, $3, $4) WITH ORDINALITY AS n (" NODE_COLUMNS ", i)"
	" WHERE l.node_id = n.node_id RETURNING n.i, l.ctid",
	4, {NODE_TYPES}
};

static RpqStatement update_nodes_at = {
	UPDATE_NODES "$1, $2, $3, $4, $5) WITH ORDINALITY AS n (" NODE_COLUMNS ", place, i)"
	" WHERE l.ctid = n.place AND l.node_id + 0 = n.node_id RETURNING n.i, l.ctid",
	5, {NODE_TYPES, TIDARRAYOID}
};

#define UPDATE_USAGE "UPDATE rpq_store.usage u SET amount = n.amount FROM unnest("
#define USAGE_COLUMNS "pool_id, type_id, account_id, policy_id, lender_id, amount"
#define USAGE_TYPES \
	INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, RPQ_RESOURCES_ARRAY_ARG

static RpqStatement update_usage = {
	UPDATE_USAGE "$1, $2, $3, $4, $5, $6) WITH ORDINALITY AS n (" USAGE_COLUMNS ", i)"
	" WHERE u.pool_id = n.pool_id AND u.type_id = n.type_id AND u.account_id = n.account_id"
	"   AND u.policy_id = n.policy_id AND u.lender_id = n.lender_id RETURNING n.i, u.ctid",
	6, {USAGE_TYPES}
};

static RpqStatement update_usage_at = {
	UPDATE_USAGE "$1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY AS n (" USAGE_COLUMNS ", place, i)"
	" WHERE u.ctid = n.place AND u.pool_id + 0 = n.pool_id AND u.type_id + 0 = n.type_id"
	"   AND u.account_id + 0 = n.account_id AND u.policy_id + 0 = n.policy_id AND u.lender_id + 0 = n.lender_id"
	" RETURNING n.i, u.ctid",
	7, {USAGE_TYPES, TIDARRAYOID}
};

static RpqStatement insert_usage = {
	"WITH n AS (SELECT * FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY AS n (" USAGE_COLUMNS ", i)), written AS ("
	" INSERT INTO rpq_store.usage (" USAGE_COLUMNS ") SELECT " USAGE_COLUMNS " FROM n RETURNING usage.*, ctid AS place)"
	" SELECT n.i, w.place FROM n JOIN written w USING (pool_id, type_id, account_id, policy_id, lender_id)",
	6, {USAGE_TYPES}
};

#define UPDATE_LANES \
	"UPDATE rpq_store.lane l" \
	"   SET waiting = n.waiting, head_at = n.head_at, head_id = n.head_id, blocked_at_epoch = n.epoch," \
	"       considered = n.considered, reason_code = n.code, reason = n.reason" \
	"  FROM unnest("
#define LANE_COLUMNS "scope_id, shape, waiting, head_at, head_id, epoch, considered, code, reason"
#define LANE_TYPES \
	INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID, BOOLARRAYOID, \
	TEXTARRAYOID, TEXTARRAYOID

static RpqStatement update_lanes = {
	UPDATE_LANES "$1, $2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS n (" LANE_COLUMNS ", i)"
	" WHERE l.scope_id = n.scope_id AND l.shape = n.shape RETURNING n.i, l.ctid",
	9, {LANE_TYPES}
};

static RpqStatement update_lanes_at = {
	UPDATE_LANES "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10) WITH ORDINALITY AS n (" LANE_COLUMNS ", place, i)"
	" WHERE l.ctid = n.place AND l.scope_id + 0 = n.scope_id AND l.shape + 0 = n.shape RETURNING n.i, l.ctid",
	10, {LANE_TYPES, TIDARRAYOID}
};

static RpqStatement insert_lane = {
	"INSERT INTO rpq_store.lane (scope_id, shape, waiting, head_at, head_id, blocked_at_epoch, considered, reason_code,"
	"                            reason, account_id, priority, guarantee, checkpointable, replicas, workload_type,"
	"                            resources, instance_types, max_runtime, not_before)"
	" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)"
	" RETURNING ctid",
	19, {INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, TEXTOID, TEXTOID, INT8OID, INT4OID,
		 BOOLOID, BOOLOID, INT4OID, TEXTOID, RPQ_RESOURCES_ARG, INT8ARRAYOID, INTERVALOID, TIMESTAMPTZOID}
};

static RpqStatement delete_lanes = {
	"DELETE FROM rpq_store.lane l USING unnest($1, $2) AS n (scope_id, shape)"
	" WHERE l.scope_id = n.scope_id AND l.shape = n.shape",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

#define UPDATE_TURN \
	"UPDATE rpq_store.turn SET seen = $2, own_xid = pg_current_xact_id(), own_entry = $3, cycle = cycle + 1," \
	"       room_epoch = $4, last_at = $5"

static RpqStatement update_turn = {
	UPDATE_TURN " WHERE scope_id = $1 RETURNING ctid",
	5, {INT8OID, PG_SNAPSHOTOID, INT8OID, INT8OID, TIMESTAMPTZOID}
};

static RpqStatement update_turn_at = {
	UPDATE_TURN " WHERE ctid = $6 AND scope_id + 0 = $1 RETURNING ctid",
	6, {INT8OID, PG_SNAPSHOTOID, INT8OID, INT8OID, TIMESTAMPTZOID, TIDOID}
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
	static const Oid types[4] = {INT8OID, RPQ_RESOURCES_ARG, TEXTOID, INT4OID};
	RowSet		set;

	place_init_rows(&set, "node_load", types, lengthof(types), book->nnodes);
	for (int i = 0; i < book->nnodes; i++)
	{
		NodeRow    *node = &book->nodes[i];

		if (!node->changed)
			continue;
		set.columns[0][set.n] = Int64GetDatum(node->node_id);
		set.columns[1][set.n] = ResourcesPGetDatum(without_zeros(node->used));
		set.columns[2][set.n] = CStringGetTextDatum(parts_text(node));
		set.columns[3][set.n] = Int32GetDatum(node->pods);
		set.places[set.n++] = &node->place;
	}
	place_write_rows(&set, &update_nodes_at, &update_nodes);
}

static void
collect_cells(Book *book, bool exists, RowSet *set)
{
	static const Oid types[6] = {INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, RPQ_RESOURCES_ARG};
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	place_init_rows(set, "usage", types, lengthof(types), (int) hash_get_num_entries(book->cells));
	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		if (!cell->changed || cell->exists != exists)
			continue;
		set->columns[0][set->n] = Int64GetDatum(cell->key.pool_id);
		set->columns[1][set->n] = Int64GetDatum(cell->key.type_id);
		set->columns[2][set->n] = Int64GetDatum(cell->key.account_id);
		set->columns[3][set->n] = Int64GetDatum(cell->key.policy_id);
		set->columns[4][set->n] = Int64GetDatum(cell->key.lender_id);
		set->columns[5][set->n] = ResourcesPGetDatum(without_zeros(cell->amount));
		set->places[set->n++] = &cell->place;
	}
}

void
rows_write_usage(Book *book)
{
	RowSet		set;
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	collect_cells(book, true, &set);
	place_write_rows(&set, &update_usage_at, &update_usage);
	collect_cells(book, false, &set);
	place_write_rows(&set, NULL, &insert_usage);
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
	lane->place = place_column(0, 1);
	SPI_freetuptable(SPI_tuptable);
}

static void
collect_lane(RowSet *set, LaneRow *lane)
{
	int			n = set->n++;

	set->columns[0][n] = Int64GetDatum(lane->key.scope_id);
	set->columns[1][n] = Int64GetDatum(lane->key.shape);
	set->columns[2][n] = Int64GetDatum(lane->waiting);
	set->columns[3][n] = TimestampTzGetDatum(lane->head_at);
	set->columns[4][n] = Int64GetDatum(lane->head_id);
	set->columns[5][n] = Int64GetDatum(lane->blocked_at_epoch);
	set->columns[6][n] = BoolGetDatum(lane->considered);
	set->nulls[7][n] = lane->reason_code == NULL;
	set->columns[7][n] = lane->reason_code == NULL ? (Datum) 0 : CStringGetTextDatum(lane->reason_code);
	set->nulls[8][n] = lane->reason == NULL;
	set->columns[8][n] = lane->reason == NULL ? (Datum) 0 : CStringGetTextDatum(lane->reason);
	set->places[n] = &lane->place;
}

static void
init_lanes(RowSet *set, int max)
{
	static const Oid types[9] = {
		INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID, TEXTOID, TEXTOID
	};

	place_init_rows(set, "lane", types, lengthof(types), max);
	set->nulls[7] = palloc0(sizeof(bool) * max);
	set->nulls[8] = palloc0(sizeof(bool) * max);
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
	RowSet		set;
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;
	int			nempty = 0;

	init_lanes(&set, (int) Max(hash_get_num_entries(book->lanes), 1));
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
			collect_lane(&set, lane);
		else if (lane->waiting > 0)
		{
			write_new_lane(lane);
			lane->exists = true;
		}
	}
	place_write_rows(&set, &update_lanes_at, &update_lanes);
	if (nempty > MAX_EMPTY_LANES * Max(book->nscopes, 1))
		delete_empty_lanes(book, nempty);
}

/*
 * The cursor: the very snapshot at which the entries were read.
 */
static void
write_turn(Book *book, Scope *scope)
{
	Datum		values[6];
	ItemPointerData place;
	uint64		rows = 0;

	values[0] = Int64GetDatum(scope->scope_id);
	values[1] = book->seen;
	values[2] = Int64GetDatum(scope->own_entry);
	values[3] = Int64GetDatum(scope->room_epoch);
	values[4] = TimestampTzGetDatum(book->now);
	if (place_of_turn(scope->scope_id, &place))
	{
		values[5] = PointerGetDatum(&place);
		rows = rpq_exec(&update_turn_at, values, NULL);
	}
	if (rows == 0)
		rows = rpq_exec(&update_turn, values, NULL);
	if (rows != 1)
		elog(ERROR, "turn of scope %lld is gone", (long long) scope->scope_id);
	place_note_turn(scope->scope_id, place_column(0, 1));
	SPI_freetuptable(SPI_tuptable);
	scope->left_xid = U64FromFullTransactionId(GetTopFullTransactionId());
	scope->left_cycle = scope->cycle + 1;
	scope->left_epoch = scope->room_epoch;
}

void
rows_write_turns(Book *book)
{
	for (int i = 0; i < book->nscopes; i++)
	{
		if (book->scopes[i].changed)
			write_turn(book, &book->scopes[i]);
	}
}

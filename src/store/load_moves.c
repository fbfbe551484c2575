/*
 * load_moves.c
 *
 * Rows -> Moves: pods that have to leave their nodes, in a World that has the nodes of their pool alone.  What borrows
 * room there is preempted, not moved (lending.sql).
 *
 * Reads turn, pool, entry, pod, workload, node, node_load, hold; writes nothing, locks nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "store/cycle.h"
#include "store/members.h"
#include "store/moves.h"
#include "store/spi.h"

#define POD_COLUMNS \
	"SELECT p.pod_id, p.workload_id, p.replica, p.attempt, p.node_id, w.account_id, w.resources"

static RpqStatement load_standing = {
	POD_COLUMNS ", 0::bigint"
	"  FROM rpq_store.pod p JOIN rpq_store.workload w ON w.workload_id = p.workload_id"
	" WHERE p.node_id = ANY ($1) AND w.lender_id IS NULL ORDER BY p.workload_id, p.replica, p.attempt",
	1, {INT8ARRAYOID}
};

static RpqStatement load_named = {
	POD_COLUMNS ", m.wanted"
	"  FROM unnest($1, $2) AS m (pod_id, wanted) JOIN rpq_store.pod p ON p.pod_id = m.pod_id"
	"  JOIN rpq_store.workload w ON w.workload_id = p.workload_id AND w.lender_id IS NULL"
	" ORDER BY p.workload_id, p.replica, p.attempt",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static bool
is_freed(const Book *book, int64 pod_id)
{
	for (int i = 0; i < book->nfreed_pods; i++)
	{
		if (book->freed_pods[i].pod_id == pod_id)
			return true;
	}
	return false;
}

static MovingPod *
read_pods(Book *book, const int64 *nodes, int nnodes, const int64 *pods, const int64 *wanted, int npods, int *n)
{
	Datum		values[2];
	uint64		rows;
	MovingPod  *result;

	values[0] = pods == NULL ? rpq_int8_array(nodes, nnodes) : rpq_int8_array(pods, npods);
	values[1] = pods == NULL ? (Datum) 0 : rpq_int8_array(wanted, npods);
	rows = rpq_exec_at(pods == NULL ? &load_standing : &load_named, values, NULL, book->snapshot, true);
	result = palloc(sizeof(MovingPod) * Max(rows, 1));
	*n = 0;
	for (uint64 i = 0; i < rows; i++)
	{
		MovingPod  *pod = &result[*n];
		MovingPod  *before = *n == 0 ? NULL : &result[*n - 1];
		bool		isnull;

		pod->pod_id = rpq_column_int64(i, 1, 0);
		if (is_freed(book, pod->pod_id))
			continue;
		pod->workload_id = rpq_column_int64(i, 2, 0);
		pod->replica = (int) rpq_column_int64(i, 3, 0);
		pod->attempt = (int) rpq_column_int64(i, 4, 0);
		pod->node_id = rpq_column_int64(i, 5, 0);
		pod->account_id = rpq_column_int64(i, 6, 0);
		/* replicas of one workload share what they ask for */
		if (before != NULL && before->workload_id == pod->workload_id)
			pod->resources = before->resources;
		else
			pod->resources = DatumGetResourcesPCopy(rpq_column(i, 7, &isnull));
		pod->wanted = rpq_column_int64(i, 8, 0);
		book_intern(book, pod->resources);
		(*n)++;
	}
	SPI_freetuptable(SPI_tuptable);
	return result;
}

/* A World of the book's pools with their nodes, and nobody who waits. */
static World *
build_world(Book *book)
{
	World	   *world = palloc0(sizeof(World));

	book->world = world;
	world->store = book;
	world->now = book->now;
	world->nkeys = book->nkeys;
	world->keys = book->keys;
	world->npools = book->npools;
	world->pools = palloc0(sizeof(Pool) * Max(book->npools, 1));
	for (int i = 0; i < book->npools; i++)
	{
		world->pools[i].pool_id = book->pools[i]->scope_id;
		world->pools[i].name = book->pools[i]->name;
		world->pools[i].unavailable = book_vector(book, NULL, 0);
	}
	book_build_nodes(book, world);
	return world;
}

/* The position of each node, by id. */
typedef struct NodeIndex
{
	int64		node_id;
	int			node;
} NodeIndex;

static int
index_order(const void *a, const void *b)
{
	const NodeIndex *x = a;
	const NodeIndex *y = b;

	return x->node_id < y->node_id ? -1 : x->node_id > y->node_id;
}

static NodeIndex *
index_nodes(const World *world)
{
	NodeIndex  *index = palloc(sizeof(NodeIndex) * Max(world->nnodes, 1));

	for (int i = 0; i < world->nnodes; i++)
	{
		index[i].node_id = world->nodes[i].node_id;
		index[i].node = i;
	}
	qsort(index, world->nnodes, sizeof(NodeIndex), index_order);
	return index;
}

static int
find_node(const World *world, const NodeIndex *index, int64 node_id)
{
	NodeIndex	key = {node_id, 0};
	NodeIndex  *found = bsearch(&key, index, world->nnodes, sizeof(NodeIndex), index_order);

	return found == NULL ? -1 : found->node;
}

static void
build_moves(Book *book, PlannedMoves *plan, const NodeIndex *index, MovingPod *pods, int npods)
{
	const int64 *vector = NULL;

	plan->moves = palloc0(sizeof(Move) * Max(npods, 1));
	for (int i = 0; i < npods; i++)
	{
		Move	   *move = &plan->moves[plan->nmoves];

		if (i == 0 || pods[i].resources != pods[i - 1].resources)
			vector = book_vector(book, pods[i].resources, 0);
		move->workload_id = pods[i].workload_id;
		move->replica = pods[i].replica;
		move->account_id = pods[i].account_id;
		move->request = vector;
		move->from = find_node(plan->world, index, pods[i].node_id);
		move->wanted = find_node(plan->world, index, pods[i].wanted);
		move->store = &pods[i];
		if (move->from >= 0)
			plan->nmoves++;
	}
}

PlannedMoves *
moves_plan(int64 pool_id, const int64 *nodes, int nnodes, const int64 *pods, const int64 *wanted, int npods,
		   bool folded)
{
	PlannedMoves *plan = palloc0(sizeof(PlannedMoves));
	Book	   *book = cycle_open(&pool_id, 1, CYCLE_LOOK);
	NodeIndex  *index;
	MovingPod  *rows;
	int			n;

	if (folded)
		book->nfreed_pods = 0;
	book_load_nodes(book, true);
	rows = read_pods(book, nodes, nnodes, pods, wanted, npods, &n);
	plan->world = build_world(book);
	index = index_nodes(plan->world);
	for (int i = 0; i < nnodes; i++)
	{
		int			node = find_node(plan->world, index, nodes[i]);

		if (node < 0)
			continue;
		plan->world->nodes[node].takes_work = false;
		plan->world->nodes[node].why_not = "draining";
	}
	build_moves(book, plan, index, rows, n);
	plan_moves(plan->world, plan->moves, plan->nmoves);
	cycle_close(book);
	return plan;
}

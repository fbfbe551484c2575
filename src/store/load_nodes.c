/*
 * load_nodes.c
 *
 * Rows -> World: nodes with what pods and holds take of them.
 *
 * Reads node, node_load, hold, instance_type, pool_instance, and where accounts are kept apart pod and workload; writes
 * nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"

#include "errors.h"
#include "store/book.h"
#include "store/evictions.h"
#include "store/members.h"
#include "store/place.h"
#include "store/spi.h"

#define NODE_COLUMNS \
	"SELECT n.node_id, n.pool_id, n.type_id, n.name," \
	"       CASE WHEN n.health = 'unhealthy' THEN 'unhealthy' WHEN n.health = 'degraded' THEN 'degraded'" \
	"            WHEN NOT n.schedulable THEN 'cordoned' WHEN n.draining THEN 'draining' END," \
	"       CASE WHEN n.removing THEN rpq.resources_mul(n.capacity, 0) ELSE n.capacity END," \
	"       CASE WHEN n.removing THEN rpq.resources_mul(n.usable, 0) ELSE n.usable END," \
	"       l.used, l.parts, l.pods, l.ctid" \
	"  FROM rpq_store.node n JOIN rpq_store.node_load l ON l.node_id = n.node_id"

static RpqStatement load_all_nodes = {
	NODE_COLUMNS " WHERE n.pool_id = ANY ($1) ORDER BY n.name, n.node_id", 1, {INT8ARRAYOID}, true
};

static RpqStatement load_some_nodes = {
	NODE_COLUMNS " WHERE n.node_id = ANY ($1) ORDER BY n.name, n.node_id", 1, {INT8ARRAYOID}
};

static RpqStatement load_types = {
	"SELECT type_id, name FROM rpq_store.instance_type WHERE type_id = ANY ($1)", 1, {INT8ARRAYOID}
};

static RpqStatement load_holds = {
	"SELECT node_id, resources, devices FROM rpq_store.hold WHERE scope_id = ANY ($1) AND purpose <> 'preempt'",
	1, {INT8ARRAYOID}
};

/* Whose they are as well; a workload that is gone is nobody's that may come. */
static RpqStatement load_holds_of = {
	"SELECT h.node_id, h.resources, h.devices, coalesce(w.account_id, -1)"
	"  FROM rpq_store.hold h LEFT JOIN rpq_store.workload w ON w.workload_id = h.workload_id"
	" WHERE h.scope_id = ANY ($1) AND h.purpose <> 'preempt'",
	1, {INT8ARRAYOID}
};

/* $1: nodes; $2: pods that are freed, so no longer count. */
static RpqStatement load_hosted = {
	"SELECT p.node_id, CASE WHEN min(w.account_id) = max(w.account_id) THEN min(w.account_id) ELSE -1 END"
	"  FROM unnest($1) AS n (node_id) JOIN rpq_store.pod p ON p.node_id = n.node_id"
	"  JOIN rpq_store.workload w ON w.workload_id = p.workload_id"
	" WHERE NOT EXISTS (SELECT FROM unnest($2) AS f (pod_id) WHERE f.pod_id = p.pod_id)"
	" GROUP BY p.node_id",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement load_instances = {
	"SELECT pool_id, type_id, scheduling_policy FROM rpq_store.pool_instance"
	" WHERE pool_id = ANY ($1) AND scheduling_policy IS NOT NULL",
	1, {INT8ARRAYOID}
};

/*
 * Capacities of nodes are alike by the thousand: a value equal to the one before is shared, not copied.
 */
static Resources *
shared_copy(Book *book, Datum value, Resources **last)
{
	Resources  *r = DatumGetResourcesP(value);

	if (*last == NULL || !resources_equal(*last, r))
	{
		*last = resources_copy(r);
		book_intern(book, *last);
	}
	return *last;
}

static void
take_node(Book *book, NodeRow *node, uint64 row, Resources **last_capacity, Resources **last_usable)
{
	bool		isnull;
	Datum		value;

	node->node_id = rpq_column_int64(row, 1, 0);
	node->pool_id = rpq_column_int64(row, 2, 0);
	node->type_id = rpq_column_int64(row, 3, 0);
	node->name = rpq_column_text(row, 4);
	node->why_not = rpq_column_text(row, 5);
	node->takes_work = node->why_not == NULL;
	node->capacity = shared_copy(book, rpq_column(row, 6, &isnull), last_capacity);
	node->usable = shared_copy(book, rpq_column(row, 7, &isnull), last_usable);
	node->used = node->kept_used = DatumGetResourcesPCopy(rpq_column(row, 8, &isnull));
	book_intern(book, node->used);
	value = rpq_column(row, 9, &isnull);
	if (!isnull)
	{
		ArrayType  *array = DatumGetArrayTypePCopy(value);

		node->nparts = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		node->parts = (int64 *) ARR_DATA_PTR(array);
	}
	node->pods = (int) rpq_column_int64(row, 10, 0);
	node->account = node->pods > 0 ? UNKNOWN_ACCOUNT : 0;
	node->place = place_column(row, 11);
	book_type(book, node->type_id);
}

static NodeRow *
find_node(Book *book, NodeRow **by_id, int64 node_id)
{
	int			low = 0;
	int			high = book->nnodes - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (by_id[middle]->node_id == node_id)
			return by_id[middle];
		if (by_id[middle]->node_id < node_id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return NULL;
}

static int
node_id_order(const void *a, const void *b)
{
	const NodeRow *x = *(NodeRow *const *) a;
	const NodeRow *y = *(NodeRow *const *) b;

	return x->node_id < y->node_id ? -1 : x->node_id > y->node_id ? 1 : 0;
}

/* A part of a device is taken whole or in part; amounts above one are that many whole devices. */
static int64
device_share(const Resources *amount, int ndevices)
{
	int64		gpu = resources_get(amount, "gpu", 3, NULL);

	return ndevices <= 1 ? gpu : gpu / ndevices;
}

static void
add_pod(NodeRow *node, const FreedPod *pod, int sign)
{
	int64		each = device_share(pod->amount, pod->ndevices);

	node->used = sign > 0 ? resources_add(node->used, pod->amount) : resources_sub(node->used, pod->amount);
	for (int d = 0; d < pod->ndevices; d++)
	{
		if (pod->devices[d] < 0 || pod->devices[d] >= node->nparts)
			elog(ERROR, "pod %lld holds device %d of node \"%s\", which has %d",
				 (long long) pod->pod_id, pod->devices[d], node->name, node->nparts);
		node->parts[pod->devices[d]] += sign * each;
	}
	node->pods += sign;
	/* who is left where several were is looked up when it matters */
	if (node->pods == 0)
		node->account = 0;
	else if (node->account == SEVERAL_ACCOUNTS)
		node->account = UNKNOWN_ACCOUNT;
	node->changed = true;
}

static NodeRow **
nodes_by_id(Book *book)
{
	NodeRow   **by_id = palloc(sizeof(NodeRow *) * Max(book->nnodes, 1));

	for (int i = 0; i < book->nnodes; i++)
		by_id[i] = &book->nodes[i];
	qsort(by_id, book->nnodes, sizeof(NodeRow *), node_id_order);
	return by_id;
}

static void
give_back(Book *book)
{
	NodeRow   **by_id = book->nfreed_pods == 0 ? NULL : nodes_by_id(book);

	for (int i = 0; i < book->nfreed_pods; i++)
	{
		FreedPod   *pod = &book->freed_pods[i];
		NodeRow    *node = pod->amount == NULL ? NULL : find_node(book, by_id, pod->node_id);

		if (node != NULL)
			add_pod(node, pod, -1);
	}
}

static void
read_nodes(Book *book, const int64 *ids, int n)
{
	Datum		values[1] = {rpq_int8_array(ids, n)};
	RpqStatement *statement = book->all_nodes ? &load_all_nodes : &load_some_nodes;
	uint64		rows = rpq_exec_at(statement, values, NULL, book->snapshot, true);
	Resources  *last_capacity = NULL;
	Resources  *last_usable = NULL;
	MemoryContext old = MemoryContextSwitchTo(book->context);

	book->nodes = palloc0(sizeof(NodeRow) * Max(rows, 1));
	book->nnodes = (int) rows;
	for (uint64 i = 0; i < rows; i++)
	{
		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		take_node(book, &book->nodes[i], i, &last_capacity, &last_usable);
	}
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Loads the nodes of the scopes, or only those that lose pods, and gives back what the counted releases free.  What is
 * kept for the next cycle is always all of them.
 */
void
book_load_nodes(Book *book, bool all)
{
	int			n;
	int64	   *ids;

	if (!(book->from_kept && book->all_nodes))
	{
		book->all_nodes = all || book->kept != NULL;
		n = book->all_nodes ? book->npools : book->nfreed_pods;
		ids = palloc(sizeof(int64) * Max(n, 1));
		for (int i = 0; i < n; i++)
			ids[i] = book->all_nodes ? book->pools[i]->scope_id : book->freed_pods[i].node_id;
		if (n > 0)
			read_nodes(book, ids, n);
	}
	give_back(book);
}

/* ----------------------------------------------------------------- world */

/*
 * What is free of gpu: on no device less than nothing, so that one which is over does not count against the others.
 */
static void
sum_devices(PoolNode *node)
{
	node->free[RPQ_KEY_GPU] = 0;
	for (int d = 0; d < node->ndevices; d++)
		node->free[RPQ_KEY_GPU] += Max(node->device_free[d], 0);
}

/*
 * Where a node is over (its machine reports less than it did), what is free is below zero: room that is given back
 * there is not free until it is over no more.
 */
static void
build_node(Book *book, NodeRow *row, PoolNode *node, int64 **last_vector, Resources **last_usable)
{
	const Scope *scope = book_scope(book, row->pool_id);
	int			usable_devices = (int) (resources_get(row->usable, "gpu", 3, NULL) / RPQ_UNIT);

	node->node_id = row->node_id;
	node->name = row->name;
	node->pool = scope->pool;
	node->type = book_type(book, row->type_id);
	node->takes_work = row->takes_work;
	node->why_not = row->why_not;
	if (!resources_equal(row->usable, row->capacity))
	{
		int64	   *missing = book_vector(book, resources_sub(row->capacity, row->usable), 0);

		node->lacks = resources_text(book_resources(book, missing));
	}
	node->account = scope->isolate ? row->account : 0;
	if (*last_vector == NULL || *last_usable != row->usable)
	{
		*last_usable = row->usable;
		*last_vector = book_vector(book, row->usable, 0);
	}
	node->capacity = *last_vector;
	node->free = palloc(sizeof(int64) * book->nkeys);
	memcpy(node->free, *last_vector, sizeof(int64) * book->nkeys);
	for (int k = 0; k < resources_nkeys(row->used); k++)
		node->free[book_key(book, resources_key(row->used, k), resources_key_len(row->used, k))] -=
			resources_amount(row->used, k);
	node->ndevices = row->nparts;
	node->device_free = palloc(sizeof(int64) * Max(row->nparts, 1));
	/* a machine that reports fewer devices has lost the last ones: when their pods have left, nothing is free there */
	for (int d = 0; d < row->nparts; d++)
		node->device_free[d] = (d < usable_devices ? RPQ_UNIT : 0) - row->parts[d];
	sum_devices(node);
}

/*
 * Whose pods the nodes host, in pools that keep accounts apart.  What is known of a node stays known from one cycle to
 * the next: load_node() and add_pod() keep it right.
 */
static void
load_accounts(Book *book)
{
	int64	   *nodes = palloc(sizeof(int64) * Max(book->nnodes, 1));
	int64	   *freed = palloc(sizeof(int64) * Max(book->nfreed_pods, 1));
	NodeRow   **by_id;
	Datum		values[2];
	uint64		rows;
	int			n = 0;

	for (int i = 0; i < book->nnodes; i++)
	{
		if (book->nodes[i].account == UNKNOWN_ACCOUNT && book_scope(book, book->nodes[i].pool_id)->isolate)
			nodes[n++] = book->nodes[i].node_id;
	}
	if (n == 0)
		return;
	for (int i = 0; i < book->nfreed_pods; i++)
		freed[i] = book->freed_pods[i].pod_id;
	values[0] = rpq_int8_array(nodes, n);
	values[1] = rpq_int8_array(freed, book->nfreed_pods);
	rows = rpq_exec_at(&load_hosted, values, NULL, book->snapshot, true);
	by_id = nodes_by_id(book);
	for (uint64 i = 0; i < rows; i++)
		find_node(book, by_id, rpq_column_int64(i, 1, 0))->account = rpq_column_int64(i, 2, 0);
	SPI_freetuptable(SPI_tuptable);
}

static bool
any_isolates(const Book *book)
{
	bool		any = false;

	for (int i = 0; i < book->nscopes; i++)
		any |= book->scopes[i].isolate;
	return any;
}

/* What a hold keeps is not free.  A key that no node has any more has no place in the vectors. */
static void
take_hold(Book *book, PoolNode *node, int64 account, const Resources *amount, const int *devices, int n)
{
	int64		each = device_share(amount, n);

	if (book->world->pools[node->pool].isolate)
		node->account = node->account == 0 || node->account == account ? account : SEVERAL_ACCOUNTS;

	for (int k = 0; k < resources_nkeys(amount); k++)
	{
		int			key = book_key(book, resources_key(amount, k), resources_key_len(amount, k));

		if (key < book->world->nkeys)
			node->free[key] -= resources_amount(amount, k);
	}
	for (int d = 0; d < n; d++)
	{
		if (devices[d] >= 0 && devices[d] < node->ndevices)
			node->device_free[devices[d]] -= each;
	}
	sum_devices(node);
}

/* Holds, and those that this cycle is about to make for pods whose executor has them still. */
static void
take_holds(Book *book, World *world, Datum scopes)
{
	bool		whose = any_isolates(book);
	uint64		rows = rpq_exec_at(whose ? &load_holds_of : &load_holds, &scopes, NULL, book->snapshot, true);
	NodeRow   **by_id = rows == 0 && !book->freed_reported ? NULL : nodes_by_id(book);

	for (uint64 i = 0; i < rows; i++)
	{
		NodeRow    *row = find_node(book, by_id, rpq_column_int64(i, 1, 0));
		bool		isnull;
		Resources  *amount = DatumGetResourcesP(rpq_column(i, 2, &isnull));
		Datum		devices = rpq_column(i, 3, &isnull);
		ArrayType  *array = isnull ? NULL : DatumGetArrayTypePCopy(devices);

		if (row != NULL)
			take_hold(book, &world->nodes[row - book->nodes], whose ? rpq_column_int64(i, 4, 0) : 0, amount,
					  array == NULL ? NULL : (int *) ARR_DATA_PTR(array),
					  array == NULL ? 0 : ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)));
	}
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; book->freed_reported && i < book->nfreed_pods; i++)
	{
		FreedPod   *pod = &book->freed_pods[i];
		NodeRow    *row = pod->stopping ? find_node(book, by_id, pod->node_id) : NULL;

		if (row != NULL)
			take_hold(book, &world->nodes[row - book->nodes], pod->account_id, pod->amount, pod->devices,
					  pod->ndevices);
	}
}

static SchedulingPolicy
policy_named(const char *name)
{
	return strcmp(name, "spread") == 0 ? POLICY_SPREAD : POLICY_BINPACK;
}

/* Which instance types each pool has nodes of, and how each is filled. */
static void
build_pool_types(Book *book, World *world, Datum scopes)
{
	uint64		rows;

	for (int i = 0; i < world->npools; i++)
	{
		world->pools[i].types = palloc0(sizeof(PoolType) * Max(book->ntypes, 1));
		world->pools[i].ntypes = 0;
	}
	for (int i = 0; i < world->nnodes; i++)
	{
		Pool	   *pool = &world->pools[world->nodes[i].pool];
		int			t = 0;

		while (t < pool->ntypes && pool->types[t].type != world->nodes[i].type)
			t++;
		if (t == pool->ntypes)
		{
			pool->types[t].type = world->nodes[i].type;
			pool->types[t].policy = policy_named(book->pools[world->nodes[i].pool]->policy);
			pool->ntypes++;
		}
	}
	rows = rpq_exec_at(&load_instances, &scopes, NULL, book->snapshot, true);
	for (uint64 i = 0; i < rows; i++)
	{
		Pool	   *pool = &world->pools[book_scope(book, rpq_column_int64(i, 1, 0))->pool];
		int			type = book_type(book, rpq_column_int64(i, 2, 0));

		for (int t = 0; t < pool->ntypes; t++)
		{
			if (pool->types[t].type == type)
				pool->types[t].policy = policy_named(rpq_column_text(i, 3));
		}
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
name_types(Book *book, World *world)
{
	Datum		ids = rpq_int8_array(book->type_ids, book->ntypes);
	uint64		rows = rpq_exec_at(&load_types, &ids, NULL, book->snapshot, true);

	world->ntypes = book->ntypes;
	world->types = palloc0(sizeof(char *) * Max(book->ntypes, 1));
	for (int i = 0; i < book->ntypes; i++)
		world->types[i] = "";
	for (uint64 i = 0; i < rows; i++)
		world->types[book_type(book, rpq_column_int64(i, 1, 0))] = rpq_column_text(i, 2);
	SPI_freetuptable(SPI_tuptable);
}

void
book_build_nodes(Book *book, World *world)
{
	int64	   *vector = NULL;
	Resources  *usable = NULL;
	Datum		scopes = book_scope_ids(book);

	if (any_isolates(book))
		load_accounts(book);
	for (int i = 0; i < book->npools; i++)
		world->pools[i].isolate = book->pools[i]->isolate;
	name_types(book, world);
	world->nnodes = book->nnodes;
	world->nodes = palloc0(sizeof(PoolNode) * Max(book->nnodes, 1));
	for (int i = 0; i < book->nnodes; i++)
		build_node(book, &book->nodes[i], &world->nodes[i], &vector, &usable);
	take_holds(book, world, scopes);
	evictions_take_room(book, world);
	for (int i = 0; i < world->nnodes; i++)
	{
		PoolNode	   *node = &world->nodes[i];

		for (int k = 0; k < book->nkeys && !node->takes_work; k++)
			world->pools[node->pool].unavailable[k] += Max(node->free[k], 0);
	}
	build_pool_types(book, world, scopes);
}

/*
 * load_later.c
 *
 * World.read_later: what nodes are like when all work with a max_runtime has left them.  Asked for when target nodes
 * are chosen for what is blocked by room, so at most once for each instance type in a plan.  Writes nothing.
 *
 * What is read is the placed work that has a deadline and nothing else: where nobody sets a max_runtime, that is a look
 * at an empty index.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#include "store/placed.h"
#include "store/spi.h"

static RpqStatement read_bounded = {
	"SELECT o.node_id, o.devices, w.resources, w.deadline"
	"  FROM rpq_store.workload w"
	"  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt"
	" WHERE w.status IN ('starting', 'running') AND w.deadline IS NOT NULL AND o.node_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

static int64 *
copy_amounts(const int64 *amounts, int n)
{
	int64	   *copy = palloc(sizeof(int64) * Max(n, 1));

	memcpy(copy, amounts, sizeof(int64) * n);
	return copy;
}

/*
 * Gives back the devices of a pod.  What a machine does not have at present is not free either when all have left.
 */
static void
give_devices(const PoolNode *node, NodeLater *later, ArrayType *devices, int64 gpu)
{
	int			n = ArrayGetNItems(ARR_NDIM(devices), ARR_DIMS(devices));
	const int32 *numbers = (const int32 *) ARR_DATA_PTR(devices);
	int			present = (int) (node->capacity[RPQ_KEY_GPU] / RPQ_UNIT);

	for (int i = 0; i < n; i++)
	{
		int			d = numbers[i];
		int64		before;

		if (d < 0 || d >= Min(node->ndevices, present))
			continue;
		before = later->device_free[d];
		later->device_free[d] = Min(RPQ_UNIT, before + (n > 1 ? gpu / n : gpu));
		later->free[RPQ_KEY_GPU] += Max(later->device_free[d], 0) - Max(before, 0);
	}
}

static void
give_pod(World *world, const PoolNode *node, NodeLater *later, uint64 row)
{
	Book	   *book = world->store;
	bool		isnull;
	Resources  *amount = DatumGetResourcesP(rpq_column(row, 3, &isnull));
	Datum		devices = rpq_column(row, 2, &isnull);

	if (later->free == NULL)
	{
		later->free = copy_amounts(node->free, world->nkeys);
		later->device_free = copy_amounts(node->device_free, node->ndevices);
		later->last = DT_NOBEGIN;
	}
	later->last = Max(later->last, rpq_column_int64(row, 4, DT_NOEND));
	if (!isnull)
		give_devices(node, later, DatumGetArrayTypeP(devices), resources_get(amount, "gpu", 3, NULL));
	for (int k = 0; k < resources_nkeys(amount); k++)
	{
		int			key = book_key(book, resources_key(amount, k), resources_key_len(amount, k));

		if (key != RPQ_KEY_GPU && key < world->nkeys)
			later->free[key] = Min(node->capacity[key], later->free[key] + resources_amount(amount, k));
	}
}

void
placed_read_later(World *world, const int *nodes, int nnodes, NodeLater *later)
{
	Book	   *book = world->store;
	int64	   *ids = palloc(sizeof(int64) * Max(nnodes, 1));
	int		   *places = palloc(sizeof(int) * Max(world->nnodes, 1));
	NodeIndex  *index;
	Datum		values[1];
	uint64		rows;

	for (int i = 0; i < nnodes; i++)
	{
		ids[i] = world->nodes[nodes[i]].node_id;
		places[nodes[i]] = i;
		later[i].free = NULL;
	}
	values[0] = rpq_int8_array(ids, nnodes);
	rows = rpq_exec_at(&read_bounded, values, NULL, book->snapshot, true);
	index = rows > 0 ? node_index_build(world) : NULL;
	for (uint64 i = 0; i < rows; i++)
	{
		int			node = node_index_find(index, world->nnodes, rpq_column_int64(i, 1, 0));

		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		give_pod(world, &world->nodes[node], &later[places[node]], i);
	}
	SPI_freetuptable(SPI_tuptable);
}

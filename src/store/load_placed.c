/*
 * load_placed.c
 *
 * Rows -> Placed: the work that stands on the nodes of a World, read only when some workload is entitled to take room
 * from others.
 *
 * Reads pod, workload, pool and preemption at the book's snapshot; locks workload (FOR UPDATE SKIP LOCKED) when the
 * victims are chosen and the Book may act.  Writes nothing.
 *
 * Reading every pod is the dearest thing that a cycle can do.  Workloads and pods are read each for themselves and put
 * together here: to look up the workload of each pod by its key took longer than all the rest.  The index on live work
 * leads to what is placed, past all that has ended.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "store/placed.h"
#include "store/spi.h"
#include "store/sweep.h"

/* Of the pools: what a workload there must have run for. */
static RpqStatement read_min_runtimes = {
	"SELECT pool_id, (extract(epoch FROM min_runtime) * 1000000)::bigint FROM rpq_store.pool WHERE pool_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

static RpqStatement read_placed = {
	"SELECT w.workload_id, w.attempt, w.account_id, w.policy_id, w.pool_id, w.lender_id, w.priority, w.guarantee,"
	"       w.checkpointable, w.replicas, w.submitted_at, w.started_at, w.resources"
	"  FROM rpq_store.workload w"
	" WHERE w.ended_at IS NULL AND w.status IN ('starting', 'running') AND coalesce(w.lender_id, w.pool_id) = ANY ($1)",
	1, {INT8ARRAYOID}, true
};

static RpqStatement read_pods = {
	"SELECT workload_id, attempt, replica, node_id, pod_id, devices FROM rpq_store.pod WHERE node_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

static RpqStatement read_leaving = {
	"SELECT victim, victim_attempt FROM rpq_store.preemption WHERE state = 'pending' AND pool_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

#define CHOSEN \
	"SELECT w.workload_id FROM unnest($1, $2) AS v (workload_id, attempt)" \
	"  JOIN rpq_store.workload w ON w.workload_id = v.workload_id AND w.attempt = v.attempt"

static RpqStatement lock_victims = {
	CHOSEN " WHERE w.status IN ('starting', 'running') ORDER BY w.workload_id FOR UPDATE OF w SKIP LOCKED",
	2, {INT8ARRAYOID, INT4ARRAYOID}
};

/* $3: the last sign of life that is too old. */
static RpqStatement find_attended = {
	"SELECT DISTINCT o.workload_id FROM unnest($1, $2) AS v (workload_id, attempt)"
	"  JOIN rpq_store.pod o ON o.workload_id = v.workload_id AND o.attempt = v.attempt"
	"  JOIN rpq_store.pod_report r ON r.pod_id = o.pod_id AND r.state IN ('started', 'running')"
	"  JOIN rpq_store.node_seen s ON s.node_id = r.node_id AND s.at > $3",
	3, {INT8ARRAYOID, INT4ARRAYOID, TIMESTAMPTZOID}
};

static RpqStatement find_ends = {
	"SELECT o.node_id, min(w.deadline)"
	"  FROM unnest($1) AS n (node_id) JOIN rpq_store.pod o ON o.node_id = n.node_id"
	"  JOIN rpq_store.workload w ON w.workload_id = o.workload_id AND w.attempt = o.attempt"
	" WHERE w.status IN ('starting', 'running') AND w.deadline IS NOT NULL GROUP BY o.node_id",
	1, {INT8ARRAYOID}
};

/* ----------------------------------------------------------------- nodes by id */

static int
index_order(const void *a, const void *b)
{
	const NodeIndex *x = a;
	const NodeIndex *y = b;

	return x->node_id < y->node_id ? -1 : x->node_id > y->node_id;
}

NodeIndex *
node_index_build(const World *world)
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

int
node_index_find(const NodeIndex *index, int nnodes, int64 node_id)
{
	int			low = 0;
	int			high = nnodes - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (index[middle].node_id == node_id)
			return index[middle].node;
		if (index[middle].node_id < node_id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}

/* ----------------------------------------------------------------- placed */

typedef struct Gang
{
	int64		workload_id;
	int			place;			/* in world->placed */
} Gang;

/* Workloads ask for the same by the thousand. */
typedef struct Amount
{
	struct varlena *stored;		/* as in the row */
	Resources  *each;
	int64	   *request;
} Amount;

#define KEPT_AMOUNTS 16

typedef struct PlacedLoad
{
	World	   *world;
	NodeIndex  *index;
	HTAB	   *gangs;
	int64	   *min_runtimes;	/* [npools], microseconds */
	Amount		amounts[KEPT_AMOUNTS];
	int			namounts;
} PlacedLoad;

static int
pool_index(const World *world, int64 pool_id)
{
	for (int i = 0; i < world->npools; i++)
	{
		if (world->pools[i].pool_id == pool_id)
			return i;
	}
	return -1;
}

static Datum
pool_ids(const World *world)
{
	int64	   *ids = palloc(sizeof(int64) * Max(world->npools, 1));

	for (int i = 0; i < world->npools; i++)
		ids[i] = world->pools[i].pool_id;
	return rpq_int8_array(ids, world->npools);
}

static int64 *
load_min_runtimes(World *world, Snapshot snapshot)
{
	int64	   *runtimes = palloc0(sizeof(int64) * Max(world->npools, 1));
	Datum		values[1] = {pool_ids(world)};
	uint64		rows = rpq_exec_at(&read_min_runtimes, values, NULL, snapshot, true);

	for (uint64 i = 0; i < rows; i++)
		runtimes[pool_index(world, rpq_column_int64(i, 1, 0))] = rpq_column_int64(i, 2, 0);
	SPI_freetuptable(SPI_tuptable);
	return runtimes;
}

static int
policy_index(const World *world, int64 policy_id)
{
	for (int i = 0; policy_id != 0 && i < world->npolicies; i++)
	{
		if (world->policies[i].policy_id == policy_id)
			return i;
	}
	return -1;
}

/* The vector of an amount, as it is in a row: one for all workloads that ask for the same. */
static const Amount *
amount_of(PlacedLoad *load, Datum value)
{
	World	   *world = load->world;
	Book	   *book = world->store;
	struct varlena *stored = (struct varlena *) DatumGetPointer(value);
	Amount	   *amount;

	for (int i = 0; i < Min(load->namounts, KEPT_AMOUNTS); i++)
	{
		if (VARSIZE_ANY(load->amounts[i].stored) == VARSIZE_ANY(stored) &&
			memcmp(load->amounts[i].stored, stored, VARSIZE_ANY(stored)) == 0)
			return &load->amounts[i];
	}
	amount = &load->amounts[load->namounts++ % KEPT_AMOUNTS];
	amount->stored = palloc(VARSIZE_ANY(stored));
	memcpy(amount->stored, stored, VARSIZE_ANY(stored));
	amount->each = DatumGetResourcesPCopy(value);
	amount->request = palloc0(sizeof(int64) * world->nkeys);
	for (int k = 0; k < resources_nkeys(amount->each); k++)
	{
		int			key = book_key(book, resources_key(amount->each, k), resources_key_len(amount->each, k));

		if (key < world->nkeys)
			amount->request[key] = resources_amount(amount->each, k);
	}
	return amount;
}

/* pods[].node is -1 until the pod is found. */
static void
take_placed(PlacedLoad *load, Placed *placed, const Datum *values, const bool *nulls)
{
	World	   *world = load->world;
	PlacedRow  *row;
	const Amount *amount = amount_of(load, values[12]);
	int			n = DatumGetInt32(values[9]);
	int64		min_runtime;

	memset(placed, 0, sizeof(Placed));
	placed->workload_id = DatumGetInt64(values[0]);
	placed->attempt = DatumGetInt32(values[1]);
	placed->account_id = DatumGetInt64(values[2]);
	placed->home = pool_index(world, DatumGetInt64(values[4]));
	placed->pool = nulls[5] ? placed->home : pool_index(world, DatumGetInt64(values[5]));
	placed->priority = DatumGetInt16(values[6]);
	placed->guarantee = DatumGetBool(values[7]);
	placed->checkpointable = DatumGetBool(values[8]);
	placed->submitted_at = DatumGetTimestampTz(values[10]);
	placed->started_at = DatumGetTimestampTz(values[11]);
	min_runtime = load->min_runtimes[placed->pool];
	placed->immune_until = min_runtime > DT_NOEND - placed->started_at ? DT_NOEND : placed->started_at + min_runtime;
	placed->request = amount->request;
	placed->npods = n;
	/* one piece of memory for all that has its length */
	row = palloc(sizeof(PlacedRow) + (sizeof(int64) + sizeof(PodPlace)) * n);
	row->policy_id = nulls[3] ? 0 : DatumGetInt64(values[3]);
	row->each = amount->each;
	row->pod_ids = (int64 *) (row + 1);
	placed->policy = policy_index(world, row->policy_id);
	placed->pods = (PodPlace *) (row->pod_ids + n);
	for (int p = 0; p < n; p++)
		placed->pods[p].node = -1;
	placed->store = row;
}

static void
load_gangs(PlacedLoad *load, Snapshot snapshot)
{
	World	   *world = load->world;
	Datum		ids[1] = {pool_ids(world)};
	uint64		rows = rpq_exec_at(&read_placed, ids, NULL, snapshot, true);
	HASHCTL		ctl;
	Datum		values[13];
	bool		nulls[13];
	bool		found;

	memset(&ctl, 0, sizeof(ctl));
	ctl.hcxt = CurrentMemoryContext;
	ctl.keysize = sizeof(int64);
	ctl.entrysize = sizeof(Gang);
	load->gangs = hash_create("rpq placed", (long) Max(rows, 64), &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	world->placed = palloc_extended(sizeof(Placed) * Max(rows, 1), MCXT_ALLOC_HUGE);
	world->nplaced = 0;
	for (uint64 i = 0; i < rows; i++)
	{
		Placed	   *placed = &world->placed[world->nplaced];

		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		/* charged to a pool that is not looked at: it is for a plan that has them all */
		if (nulls[4] || pool_index(world, DatumGetInt64(values[4])) < 0)
			continue;
		take_placed(load, placed, values, nulls);
		((Gang *) hash_search(load->gangs, &placed->workload_id, HASH_ENTER, &found))->place = world->nplaced++;
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
take_pod(PlacedLoad *load, const Datum *values, const bool *nulls)
{
	World	   *world = load->world;
	int64		workload_id = DatumGetInt64(values[0]);
	int			replica = DatumGetInt32(values[2]);
	int			node = node_index_find(load->index, world->nnodes, DatumGetInt64(values[3]));
	Gang	   *gang = hash_search(load->gangs, &workload_id, HASH_FIND, NULL);
	Placed	   *placed = gang == NULL ? NULL : &world->placed[gang->place];
	PodPlace   *pod;

	if (placed == NULL || placed->attempt != DatumGetInt32(values[1]) || node < 0)
		return;
	if (replica < 0 || replica >= placed->npods)
		elog(ERROR, "workload %lld has a pod of replica %d", (long long) workload_id, replica);
	pod = &placed->pods[replica];
	pod->node = node;
	pod->ndevices = 0;
	pod->devices = NULL;
	placed->type = world->nodes[node].type;
	((PlacedRow *) placed->store)->pod_ids[replica] = DatumGetInt64(values[4]);
	if (!nulls[5])
	{
		/* a copy, since it is stored with a short header */
		ArrayType  *array = DatumGetArrayTypePCopy(values[5]);

		pod->ndevices = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
		pod->devices = (int *) ARR_DATA_PTR(array);
	}
}

static void
load_pods(PlacedLoad *load, Snapshot snapshot)
{
	World	   *world = load->world;
	int64	   *ids = palloc(sizeof(int64) * Max(world->nnodes, 1));
	Datum		nodes[1];
	Datum		values[6];
	bool		nulls[6];
	uint64		rows;

	for (int i = 0; i < world->nnodes; i++)
		ids[i] = load->index[i].node_id;
	nodes[0] = rpq_int8_array(ids, world->nnodes);
	rows = rpq_exec_at(&read_pods, nodes, NULL, snapshot, true);
	for (uint64 i = 0; i < rows; i++)
	{
		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		take_pod(load, values, nulls);
	}
	SPI_freetuptable(SPI_tuptable);
}

/* Victims of former plans, and what lost its pods though its row still says that it runs. */
static void
mark_leaving(PlacedLoad *load, Snapshot snapshot)
{
	World	   *world = load->world;
	Datum		values[1] = {pool_ids(world)};
	uint64		rows = rpq_exec_at(&read_leaving, values, NULL, snapshot, true);

	for (uint64 i = 0; i < rows; i++)
	{
		int64		victim = rpq_column_int64(i, 1, 0);
		Gang	   *gang = hash_search(load->gangs, &victim, HASH_FIND, NULL);

		if (gang != NULL && world->placed[gang->place].attempt == (int) rpq_column_int64(i, 2, 0))
			world->placed[gang->place].leaving = true;
	}
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; i < world->nplaced; i++)
	{
		Placed	   *placed = &world->placed[i];

		for (int p = 0; p < placed->npods; p++)
			placed->leaving |= placed->pods[p].node < 0;
	}
}

static void
load_placed(World *world)
{
	Book	   *book = world->store;
	PlacedLoad	load = {world};

	load.min_runtimes = load_min_runtimes(world, book->snapshot);
	load.index = node_index_build(world);
	load_gangs(&load, book->snapshot);
	load_pods(&load, book->snapshot);
	mark_leaving(&load, book->snapshot);
	hash_destroy(load.gangs);
}

/* ----------------------------------------------------------------- victims */

static int
id_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* The ids of the last result, ascending. */
static int64 *
sorted_ids(uint64 rows)
{
	int64	   *ids = palloc(sizeof(int64) * Max(rows, 1));

	for (uint64 i = 0; i < rows; i++)
		ids[i] = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	qsort(ids, rows, sizeof(int64), id_order);
	return ids;
}

static bool
is_listed(const int64 *listed, uint64 n, int64 id)
{
	return bsearch(&id, listed, n, sizeof(int64), id_order) != NULL;
}

/*
 * A victim that an executor has must be given the time to stop, and so must a client that keeps a victim's row locked.
 * Where nothing may be locked, only the executors are asked.
 */
static void
take_victims(World *world, Placed **victims, int nvictims)
{
	Book	   *book = world->store;
	int64	   *ids = palloc(sizeof(int64) * Max(nvictims, 1));
	int32	   *attempts = palloc(sizeof(int32) * Max(nvictims, 1));
	int64	   *listed;
	Datum		values[3];
	uint64		rows;

	for (int i = 0; i < nvictims; i++)
	{
		ids[i] = victims[i]->workload_id;
		attempts[i] = victims[i]->attempt;
	}
	values[0] = rpq_int8_array(ids, nvictims);
	values[1] = rpq_int4_array(attempts, nvictims);
	values[2] = TimestampTzGetDatum(sweep_cutoff());
	rows = book->act ? rpq_exec(&find_attended, values, NULL) :
		rpq_exec_at(&find_attended, values, NULL, book->snapshot, true);
	listed = sorted_ids(rows);
	for (int i = 0; i < nvictims; i++)
		victims[i]->slow = is_listed(listed, rows, ids[i]);
	if (!book->act)
		return;
	rows = rpq_exec_at(&lock_victims, values, NULL, book->snapshot, false);
	listed = sorted_ids(rows);
	for (int i = 0; i < nvictims; i++)
		victims[i]->slow |= !is_listed(listed, rows, ids[i]);
}

static void
read_ends(World *world, const int *nodes, int nnodes, TimestampTz *ends)
{
	Book	   *book = world->store;
	int64	   *ids = palloc(sizeof(int64) * Max(nnodes, 1));
	int		   *places = palloc(sizeof(int) * Max(world->nnodes, 1));
	NodeIndex  *index = node_index_build(world);
	Datum		values[1];
	uint64		rows;

	for (int i = 0; i < nnodes; i++)
	{
		ids[i] = world->nodes[nodes[i]].node_id;
		places[nodes[i]] = i;
		ends[i] = DT_NOEND;
	}
	values[0] = rpq_int8_array(ids, nnodes);
	rows = rpq_exec_at(&find_ends, values, NULL, book->snapshot, true);
	for (uint64 r = 0; r < rows; r++)
		ends[places[node_index_find(index, world->nnodes, rpq_column_int64(r, 1, 0))]] =
			rpq_column_int64(r, 2, DT_NOEND);
	SPI_freetuptable(SPI_tuptable);
}

void
placed_offer(World *world)
{
	world->load_placed = load_placed;
	world->take_victims = take_victims;
	world->read_ends = read_ends;
}

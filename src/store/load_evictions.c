/*
 * load_evictions.c
 *
 * Rows -> World: room that is held for preemptors, and what their victims still have of it.
 *
 * Reads hold, preemption, pod and workload at the book's snapshot; locks the preemptors' rows (FOR UPDATE SKIP LOCKED)
 * when the Book may act.  Writes nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/hsearch.h"

#include "store/evictions.h"
#include "store/placed.h"
#include "store/spi.h"

static RpqStatement read_pending = {
	"SELECT p.preemption_id, p.preemptor, p.rule, w.priority,"
	"       (SELECT count(*) FROM rpq_store.preemption d"
	"         WHERE d.preemptor = p.preemptor AND d.at = p.at AND d.state <> 'given_up'),"
	"       w.status IN ('starting', 'running') AND w.attempt = p.victim_attempt, w.policy_id, w.resources, w.replicas,"
	"       p.pool_id"
	"  FROM rpq_store.preemption p JOIN rpq_store.workload w ON w.workload_id = p.victim"
	" WHERE p.state = 'pending' AND p.pool_id = ANY ($1) ORDER BY p.preemption_id",
	1, {INT8ARRAYOID}
};

static RpqStatement read_room = {
	"SELECT p.preemption_id, o.pod_id, o.node_id, o.devices, false"
	"  FROM rpq_store.preemption p"
	"  JOIN rpq_store.pod o ON o.workload_id = p.victim AND o.attempt = p.victim_attempt"
	" WHERE p.state = 'pending' AND p.pool_id = ANY ($1)"
	" UNION ALL "
	"SELECT p.preemption_id, h.pod_id, h.node_id, h.devices, true"
	"  FROM rpq_store.preemption p"
	"  JOIN rpq_store.hold h ON h.workload_id = p.victim AND h.attempt = p.victim_attempt AND h.purpose = 'stopping'"
	" WHERE p.state = 'pending' AND p.pool_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

static RpqStatement read_holds = {
	"SELECT h.workload_id, h.scope_id, h.node_id, h.devices, h.resources, w.scope_id, w.shape, w.account_id,"
	"       w.submitted_at, w.attempt, w.status = 'queued' AND w.attempt + 1 = h.attempt"
	"  FROM rpq_store.hold h JOIN rpq_store.workload w ON w.workload_id = h.workload_id"
	" WHERE h.scope_id = ANY ($1) AND h.purpose = 'preempt' ORDER BY h.workload_id, h.replica",
	1, {INT8ARRAYOID}
};

/* As the snapshot shows them: one that was edited or enqueued elsewhere since then waits for the next cycle. */
static RpqStatement lock_preemptors = {
	"SELECT w.workload_id FROM unnest($1, $2, $3, $4) AS v (workload_id, scope_id, shape, attempt)"
	"  JOIN rpq_store.workload w ON w.workload_id = v.workload_id AND w.scope_id = v.scope_id AND w.shape = v.shape"
	"   AND w.attempt = v.attempt"
	" WHERE w.status = 'queued' ORDER BY w.workload_id FOR UPDATE OF w SKIP LOCKED",
	4, {INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT4ARRAYOID}
};

/* The devices of a row's int[]; NULL: none. */
int *
evictions_devices(uint64 row, int column, int *n)
{
	bool		isnull;
	Datum		value = rpq_column(row, column, &isnull);
	ArrayType  *array;

	*n = 0;
	if (isnull)
		return NULL;
	array = DatumGetArrayTypePCopy(value);
	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	return (int *) ARR_DATA_PTR(array);
}

static PreemptRule
rule_named(const char *name)
{
	return strcmp(name, "borrowed") == 0 ? PREEMPT_BORROWED :
		strcmp(name, "reservation") == 0 ? PREEMPT_RESERVATION : PREEMPT_PRIORITY;
}

static void
load_pending(Book *book, Evictions *evictions, Datum *scopes)
{
	uint64		rows = rpq_exec_at(&read_pending, scopes, NULL, book->snapshot, true);

	evictions->pending = palloc0(sizeof(Pending) * Max(rows, 1));
	evictions->npending = (int) rows;
	for (uint64 i = 0; i < rows; i++)
	{
		Pending    *p = &evictions->pending[i];
		bool		isnull;

		p->preemption_id = rpq_column_int64(i, 1, 0);
		p->preemptor = rpq_column_int64(i, 2, 0);
		p->rule = rule_named(rpq_column_text(i, 3));
		p->priority = (int) rpq_column_int64(i, 4, 0);
		p->nvictims = (int) rpq_column_int64(i, 5, 0);
		p->placed = rpq_column_int64(i, 6, 0) != 0;
		p->policy_id = rpq_column_int64(i, 7, 0);
		p->each = DatumGetResourcesPCopy(rpq_column(i, 8, &isnull));
		p->replicas = (int) rpq_column_int64(i, 9, 1);
		p->pool_id = rpq_column_int64(i, 10, 0);
	}
	SPI_freetuptable(SPI_tuptable);
}

static Pending *
find_pending(Evictions *evictions, int64 preemption_id)
{
	int			low = 0;
	int			high = evictions->npending - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (evictions->pending[middle].preemption_id == preemption_id)
			return &evictions->pending[middle];
		if (evictions->pending[middle].preemption_id < preemption_id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return NULL;
}

static int
id_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* Ids of the pods that this cycle frees, without those whose room stays held. */
static int64 *
freed_ids(const Book *book, int *n)
{
	int64	   *ids = palloc(sizeof(int64) * Max(book->nfreed_pods, 1));

	*n = 0;
	for (int i = 0; i < book->nfreed_pods; i++)
	{
		if (!book->freed_pods[i].stopping)
			ids[(*n)++] = book->freed_pods[i].pod_id;
	}
	qsort(ids, *n, sizeof(int64), id_order);
	return ids;
}

static void
load_room(Book *book, Evictions *evictions, Datum *scopes)
{
	uint64		rows = rpq_exec_at(&read_room, scopes, NULL, book->snapshot, true);
	int			nfreed;
	int64	   *freed = freed_ids(book, &nfreed);

	evictions->room = palloc0(sizeof(ClaimedPod) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		Pending    *pending = find_pending(evictions, rpq_column_int64(i, 1, 0));
		int64		pod_id = rpq_column_int64(i, 2, 0);
		ClaimedPod *pod = &evictions->room[evictions->nroom];

		if (pending == NULL || (rpq_column_int64(i, 5, 0) == 0 &&
								bsearch(&pod_id, freed, nfreed, sizeof(int64), id_order) != NULL))
			continue;
		pending->has_room = true;
		pod->preemptor = pending->preemptor;
		pod->node_id = rpq_column_int64(i, 3, 0);
		pod->devices = evictions_devices(i, 4, &pod->ndevices);
		pod->amount = pending->each;
		evictions->nroom++;
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
take_held(HeldRoom *held, uint64 row)
{
	bool		isnull;

	held->workload_id = rpq_column_int64(row, 1, 0);
	held->pool_id = rpq_column_int64(row, 2, 0);
	held->each = DatumGetResourcesPCopy(rpq_column(row, 5, &isnull));
	held->lane_scope = rpq_column_int64(row, 6, 0);
	held->lane_shape = rpq_column_int64(row, 7, 0);
	held->account_id = rpq_column_int64(row, 8, 0);
	held->submitted_at = rpq_column_int64(row, 9, 0);
	held->attempt = (int) rpq_column_int64(row, 10, 0);
	held->waits = rpq_column_int64(row, 11, 0) != 0;
}

static void
load_held(Book *book, Evictions *evictions, Datum *scopes)
{
	uint64		rows = rpq_exec_at(&read_holds, scopes, NULL, book->snapshot, true);
	ClaimedPod *pods = palloc0(sizeof(ClaimedPod) * Max(rows, 1));
	HeldRoom   *held = NULL;

	evictions->held = palloc0(sizeof(HeldRoom) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		if (held == NULL || held->workload_id != rpq_column_int64(i, 1, 0))
		{
			held = &evictions->held[evictions->nheld++];
			take_held(held, i);
			held->pods = &pods[i];
		}
		pods[i].preemptor = held->workload_id;
		pods[i].node_id = rpq_column_int64(i, 3, 0);
		pods[i].devices = evictions_devices(i, 4, &pods[i].ndevices);
		pods[i].amount = held->each;
		held->npods++;
	}
	SPI_freetuptable(SPI_tuptable);
}

/* One whose client keeps it locked, or has just changed it, can not be admitted now; its room waits for it. */
static void
take_preemptors(Book *book, Evictions *evictions)
{
	int			n = evictions->nheld;
	int64	   *ids = palloc(sizeof(int64) * Max(n, 1));
	int64	   *scopes = palloc(sizeof(int64) * Max(n, 1));
	int64	   *shapes = palloc(sizeof(int64) * Max(n, 1));
	int32	   *attempts = palloc(sizeof(int32) * Max(n, 1));
	Datum		values[4];
	uint64		rows;

	for (int i = 0; i < n; i++)
	{
		ids[i] = evictions->held[i].workload_id;
		scopes[i] = evictions->held[i].lane_scope;
		shapes[i] = evictions->held[i].lane_shape;
		attempts[i] = evictions->held[i].attempt;
	}
	values[0] = rpq_int8_array(ids, n);
	values[1] = rpq_int8_array(scopes, n);
	values[2] = rpq_int8_array(shapes, n);
	values[3] = rpq_int4_array(attempts, n);
	rows = rpq_exec_at(&lock_preemptors, values, NULL, book->snapshot, false);
	for (int i = 0; i < n; i++)
	{
		evictions->held[i].locked = evictions->held[i].waits;
		for (uint64 r = 0; r < rows; r++)
			evictions->held[i].locked &= rpq_column_int64(r, 1, 0) != ids[i];
	}
	SPI_freetuptable(SPI_tuptable);
}

Evictions *
evictions_load(Book *book)
{
	Evictions  *evictions = evictions_of(book);
	Datum		scopes[1];

	if (evictions->loaded)
		return evictions;
	evictions->loaded = true;
	scopes[0] = book_scope_ids(book);
	load_pending(book, evictions, scopes);
	if (evictions->npending > 0)
		load_room(book, evictions, scopes);
	load_held(book, evictions, scopes);
	return evictions;
}

bool
evictions_has_room(Book *book, int64 workload_id)
{
	Evictions  *evictions = evictions_of(book);
	int			low = 0;
	int			high = evictions->nheld - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (evictions->held[middle].workload_id == workload_id)
			return true;
		if (evictions->held[middle].workload_id < workload_id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return false;
}

/* ----------------------------------------------------------------- world */

/* What is held for a preemptor on a node, and what its victims still have there. */
typedef struct ClaimKey
{
	int64		preemptor;
	int64		node;
} ClaimKey;

typedef struct Claim
{
	ClaimKey	key;
	int64	   *held;			/* [nkeys] */
	int64	   *had;			/* [nkeys] */
	int64	   *device_held;
	int64	   *device_had;
} Claim;

static void
add_claim(World *world, HTAB *claims, const NodeIndex *index, const ClaimedPod *pod, bool held)
{
	ClaimKey	key = {pod->preemptor, node_index_find(index, world->nnodes, pod->node_id)};
	Book	   *book = world->store;
	int64		each = resources_get(pod->amount, "gpu", 3, NULL) / Max(pod->ndevices, 1);
	PoolNode   *node;
	Claim	   *claim;
	bool		found;

	if (key.node < 0)
		return;
	node = &world->nodes[key.node];
	claim = hash_search(claims, &key, HASH_ENTER, &found);
	if (!found)
	{
		claim->held = palloc0(sizeof(int64) * world->nkeys);
		claim->had = palloc0(sizeof(int64) * world->nkeys);
		claim->device_held = palloc0(sizeof(int64) * Max(node->ndevices, 1));
		claim->device_had = palloc0(sizeof(int64) * Max(node->ndevices, 1));
	}
	for (int k = 0; k < resources_nkeys(pod->amount); k++)
	{
		int			n = book_key(book, resources_key(pod->amount, k), resources_key_len(pod->amount, k));

		/* a key that no node has any more has no place in the vectors */
		if (n < world->nkeys)
			(held ? claim->held : claim->had)[n] += resources_amount(pod->amount, k);
	}
	for (int d = 0; d < pod->ndevices; d++)
	{
		if (pod->devices[d] >= 0 && pod->devices[d] < node->ndevices)
			(held ? claim->device_held : claim->device_had)[pod->devices[d]] += each;
	}
}

static void
take_claim(World *world, const Claim *claim)
{
	PoolNode   *node = &world->nodes[claim->key.node];
	int64		devices = 0;

	for (int k = 0; k < world->nkeys; k++)
		node->free[k] -= Max(0, claim->held[k] - claim->had[k]);
	for (int d = 0; d < node->ndevices; d++)
	{
		node->device_free[d] -= Max(0, claim->device_held[d] - claim->device_had[d]);
		devices += Max(node->device_free[d], 0);
	}
	node->free[RPQ_KEY_GPU] = devices;
}

/*
 * By preemptor and node: what one is held beyond what its own victims still have is taken from what is free, whatever
 * the victims of others leave there.
 */
void
evictions_take_room(Book *book, World *world)
{
	Evictions  *evictions = evictions_load(book);
	NodeIndex  *index;
	HASHCTL		ctl;
	HTAB	   *claims;
	HASH_SEQ_STATUS seq;
	Claim	   *claim;

	if (evictions->nheld == 0)
		return;
	index = node_index_build(world);
	memset(&ctl, 0, sizeof(ctl));
	ctl.hcxt = CurrentMemoryContext;
	ctl.keysize = sizeof(ClaimKey);
	ctl.entrysize = sizeof(Claim);
	claims = hash_create("rpq held room", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < evictions->nheld; i++)
	{
		HeldRoom   *held = &evictions->held[i];

		for (int p = 0; p < held->npods; p++)
		{
			int			node = node_index_find(index, world->nnodes, held->pods[p].node_id);

			add_claim(world, claims, index, &held->pods[p], true);
			if (node >= 0 && world->pools[world->nodes[node].pool].isolate)
				world->nodes[node].account = world->nodes[node].account == 0 ||
					world->nodes[node].account == held->account_id ? held->account_id : SEVERAL_ACCOUNTS;
		}
	}
	for (int i = 0; i < evictions->nroom; i++)
		add_claim(world, claims, index, &evictions->room[i], false);
	hash_seq_init(&seq, claims);
	while ((claim = hash_seq_search(&seq)) != NULL)
		take_claim(world, claim);
}

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

/* The preemptor's lane, if it may still lead to the pool. */
static Lane *
find_lane(World *world, const HeldRoom *held, int pool)
{
	int			low = 0;
	int			high = world->nlanes - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;
		Lane	   *lane = &world->lanes[middle];

		if (lane->scope_id == held->lane_scope && lane->shape == held->lane_shape)
		{
			for (int p = 0; p < lane->npools; p++)
			{
				if (lane->pools[p] == pool)
					return lane;
			}
			for (int p = 0; p < lane->nlenders; p++)
			{
				if (lane->lenders[p] == pool)
					return lane;
			}
			return NULL;
		}
		if (lane->scope_id < held->lane_scope ||
			(lane->scope_id == held->lane_scope && lane->shape < held->lane_shape))
			low = middle + 1;
		else
			high = middle - 1;
	}
	return NULL;
}

/* A victim whose pods are gone has stopped, as far as its preemptor is concerned. */
static void
take_victims_of(const Evictions *evictions, RoomHold *hold, const HeldRoom *held)
{
	hold->by_priority = -1;
	for (int i = 0; i < evictions->npending; i++)
	{
		const Pending *p = &evictions->pending[i];

		if (p->preemptor != held->workload_id)
			continue;
		hold->nvictims = p->nvictims;
		if (!p->has_room)
			continue;
		hold->npending++;
		hold->by_right |= p->rule == PREEMPT_BORROWED;
		hold->by_reservation |= p->rule == PREEMPT_RESERVATION;
		if (p->rule == PREEMPT_PRIORITY)
			hold->by_priority = Max(hold->by_priority, p->priority);
	}
	/* kept, whatever it is entitled to, until its row can be had */
	if (held->locked)
	{
		hold->npending++;
		hold->by_right = true;
	}
}

static void
build_hold(Book *book, World *world, const NodeIndex *index, const HeldRoom *held, RoomHold *hold)
{
	hold->pool = pool_index(world, held->pool_id);
	hold->type = -1;
	hold->lane = held->waits ? find_lane(world, held, hold->pool) : NULL;
	hold->member.workload_id = held->workload_id;
	hold->member.submitted_at = held->submitted_at;
	hold->member.attempt = held->attempt;
	hold->npods = held->npods;
	hold->pods = palloc0(sizeof(PodPlace) * held->npods);
	for (int p = 0; p < held->npods; p++)
	{
		int			node = node_index_find(index, world->nnodes, held->pods[p].node_id);

		if (node >= 0 && world->nodes[node].pool != hold->pool)
			node = -1;
		hold->pods[p].node = node;
		hold->pods[p].ndevices = held->pods[p].ndevices;
		hold->pods[p].devices = held->pods[p].devices;
		if (node >= 0)
			hold->type = world->nodes[node].type;
	}
	/* without any of its nodes there is nothing to be kept */
	if (hold->type < 0)
	{
		hold->lane = NULL;
		hold->type = 0;
	}
	take_victims_of(book->evictions, hold, held);
	hold->store = (void *) held;
}

static Policy *
find_policy(World *world, int64 policy_id)
{
	for (int i = 0; policy_id != 0 && i < world->npolicies; i++)
	{
		if (world->policies[i].policy_id == policy_id)
			return &world->policies[i];
	}
	return NULL;
}

static void
add_amount(Book *book, World *world, int64 *vector, const Resources *each, int64 times)
{
	for (int k = 0; k < resources_nkeys(each); k++)
	{
		int			n = book_key(book, resources_key(each, k), resources_key_len(each, k));

		if (n < world->nkeys)
			vector[n] += resources_amount(each, k) * times;
	}
}

/* A hold counts in the limits of its workload's own. */
static void
charge_limits(Book *book, World *world, const RoomHold *hold)
{
	const HeldRoom *held = hold->store;

	for (int i = 0; i < hold->lane->nlimits; i++)
	{
		UsageLimit *limit = hold->lane->limits[i];

		if ((limit->pool < 0 || limit->pool == hold->pool) &&
			(limit->type == RPQ_WHOLE_POOL || limit->type == hold->type))
			add_amount(book, world, limit->used, held->each, held->npods);
	}
}

/*
 * Room that is being made counts as given for reservations, and for limits as taken twice: by the victim until it has
 * stopped, and by the preemptor from the decision on.
 */
static void
charge(Book *book, World *world)
{
	Evictions  *evictions = book->evictions;

	for (int i = 0; i < evictions->npending; i++)
	{
		Pending    *p = &evictions->pending[i];
		Policy	   *policy = p->placed ? find_policy(world, p->policy_id) : NULL;

		if (policy != NULL)
			add_amount(book, world, policy->held, p->each, -p->replicas);
	}
	for (int i = 0; i < world->nholds; i++)
	{
		HeldRoom   *held = world->holds[i].store;
		Lane	   *lane = world->holds[i].lane;
		Policy	   *policy = lane == NULL ? NULL : find_policy(world, lane->policy_id);

		if (lane == NULL)
			continue;
		charge_limits(book, world, &world->holds[i]);
		if (policy != NULL)
			add_amount(book, world, policy->held, held->each, held->npods);
	}
}

void
evictions_build(Book *book, World *world)
{
	Evictions  *evictions = evictions_load(book);
	NodeIndex  *index;

	if (evictions->nheld == 0 && evictions->npending == 0)
		return;
	if (book->act && evictions->nheld > 0)
		take_preemptors(book, evictions);
	index = node_index_build(world);
	world->nholds = evictions->nheld;
	world->holds = palloc0(sizeof(RoomHold) * Max(evictions->nheld, 1));
	for (int i = 0; i < evictions->nheld; i++)
		build_hold(book, world, index, &evictions->held[i], &world->holds[i]);
	charge(book, world);
}

/*
 * load_policies.c
 *
 * Rows -> World: queues with the pools that they lead to, and policies with what is promised and allowed to them.
 *
 * Reads queue, policy, profile_pool; writes nothing, locks nothing.  All queues of a policy, and every pool in which
 * something is charged to it, are scopes of the same set, so what a policy holds is the sum of the Book's cells.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "store/book.h"
#include "store/members.h"
#include "store/spi.h"

static RpqStatement load_queues = {
	"SELECT q.queue_id, q.policy_id, q.profile_id, q.name, q.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL"
	"  FROM rpq_store.queue q JOIN rpq_store.policy p ON p.policy_id = q.policy_id WHERE q.queue_id = ANY ($1)",
	1, {INT8ARRAYOID}
};

static RpqStatement load_routes = {
	"SELECT profile_id, pool_id FROM rpq_store.profile_pool"
	" WHERE profile_id = ANY ($1) AND state = 'provisioned' ORDER BY profile_id, rank",
	1, {INT8ARRAYOID}
};

static RpqStatement load_policies = {
	"SELECT policy_id, name, CASE WHEN deleted_at IS NULL THEN reservation ELSE '' END, usage_limit, lending = 'hold'"
	"  FROM rpq_store.policy WHERE policy_id = ANY ($1) ORDER BY policy_id",
	1, {INT8ARRAYOID}
};

typedef struct PolicyRow
{
	int64		policy_id;
	const char *name;
	Resources  *reservation;
	Resources  *usage_limit;	/* NULL: none */
	bool		hold;
} PolicyRow;

struct Policies
{
	int			n;
	PolicyRow  *rows;			/* [n]; ascending by id */
};

static int
id_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* Sorts, and leaves each but once. */
static int
unique_ids(int64 *ids, int n)
{
	int			unique = 0;

	qsort(ids, n, sizeof(int64), id_order);
	for (int i = 0; i < n; i++)
	{
		if (unique == 0 || ids[unique - 1] != ids[i])
			ids[unique++] = ids[i];
	}
	return unique;
}

/* ---------------------------------------------------------------- queues */

/* A scope for which there is no queue at the snapshot is treated as a deleted one. */
static void
read_queues(Book *book, const int64 *ids, int n)
{
	Datum		values[1] = {rpq_int8_array(ids, n)};
	uint64		rows = rpq_exec_at(&load_queues, values, NULL, book->snapshot, true);

	for (uint64 i = 0; i < rows; i++)
	{
		QueueRow   *queue = &book->queues[book_scope(book, rpq_column_int64(i, 1, 0)) - book->scopes];

		queue->policy_id = rpq_column_int64(i, 2, 0);
		queue->profile_id = rpq_column_int64(i, 3, 0);
		queue->name = rpq_column_text(i, 4);
		queue->deleted = rpq_column_int64(i, 5, 0) != 0;
	}
	SPI_freetuptable(SPI_tuptable);
}

/* The pools of a profile, shared by all queues that it has; start: its first row. */
static int *
route_of(Book *book, int64 profile_id, uint64 start, uint64 rows, int *n)
{
	int		   *route = palloc(sizeof(int) * Max(rows - start, 1));

	*n = 0;
	for (uint64 i = start; i < rows && rpq_column_int64(i, 1, 0) == profile_id; i++)
	{
		Scope	   *pool = book_scope(book, rpq_column_int64(i, 2, 0));

		if (pool != NULL && pool->pool >= 0)
			route[(*n)++] = (int) (pool - book->scopes);
	}
	return route;
}

static void
read_routes(Book *book)
{
	int64	   *profiles = palloc(sizeof(int64) * Max(book->nscopes, 1));
	Datum		values[1];
	uint64		rows;
	int			n = 0;

	for (int i = 0; i < book->nscopes; i++)
	{
		if (book->queues[i].policy_id != 0)
			profiles[n++] = book->queues[i].profile_id;
	}
	n = unique_ids(profiles, n);
	values[0] = rpq_int8_array(profiles, n);
	rows = rpq_exec_at(&load_routes, values, NULL, book->snapshot, true);
	for (uint64 i = 0; i < rows; i++)
	{
		int64		profile_id = rpq_column_int64(i, 1, 0);
		int		   *route;
		int			nroute;

		if (i > 0 && rpq_column_int64(i - 1, 1, 0) == profile_id)
			continue;
		route = route_of(book, profile_id, i, rows, &nroute);
		for (int s = 0; s < book->nscopes; s++)
		{
			if (book->queues[s].policy_id == 0 || book->queues[s].profile_id != profile_id)
				continue;
			book->queues[s].route = route;
			book->queues[s].nroute = nroute;
		}
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
take_queue(Book *book, Scope *scope, const QueueRow *queue)
{
	scope->policy_id = queue->policy_id;
	scope->profile_id = queue->profile_id;
	scope->name = queue->name;
	scope->deleted = queue->deleted;
	scope->route = palloc(sizeof(Scope *) * Max(queue->nroute, 1));
	for (int i = 0; i < queue->nroute; i++)
	{
		Scope	   *pool = &book->scopes[queue->route[i]];

		if (!pool->deleted)
			scope->route[scope->nroute++] = pool;
	}
}

/* The queues among the scopes.  They are kept with the balances: who changes them changes the turns of the set. */
void
book_load_queues(Book *book)
{
	int64	   *ids = palloc(sizeof(int64) * Max(book->nscopes, 1));
	MemoryContext old;
	int			n = 0;

	for (int i = 0; i < book->nscopes; i++)
	{
		if (book->scopes[i].pool < 0)
			ids[n++] = book->scopes[i].scope_id;
	}
	if (n == 0)
		return;
	if (book->queues == NULL)
	{
		old = MemoryContextSwitchTo(book->context);
		book->queues = palloc0(sizeof(QueueRow) * book->nscopes);
		for (int i = 0; i < book->nscopes; i++)
			book->queues[i].deleted = true;
		read_queues(book, ids, n);
		read_routes(book);
		MemoryContextSwitchTo(old);
	}
	for (int i = 0; i < book->nscopes; i++)
	{
		if (book->scopes[i].pool < 0)
			take_queue(book, &book->scopes[i], &book->queues[i]);
	}
}

/* -------------------------------------------------------------- policies */

/* The policies of the Book's queues, and those that something is charged to. */
static int64 *
policy_ids(Book *book, int *n)
{
	int64	   *ids = palloc(sizeof(int64) * (book->nscopes + hash_get_num_entries(book->cells) + 1));
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	*n = 0;
	for (int i = 0; i < book->nscopes; i++)
	{
		if (book->scopes[i].policy_id != 0)
			ids[(*n)++] = book->scopes[i].policy_id;
	}
	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		if (cell->key.policy_id != 0)
			ids[(*n)++] = cell->key.policy_id;
	}
	*n = unique_ids(ids, *n);
	return ids;
}

static void
read_policies(Book *book, Policies *policies, const int64 *ids, int n)
{
	Datum		values[1] = {rpq_int8_array(ids, n)};
	uint64		rows = rpq_exec_at(&load_policies, values, NULL, book->snapshot, true);
	bool		isnull;

	policies->rows = palloc0(sizeof(PolicyRow) * Max(rows, 1));
	policies->n = (int) rows;
	for (uint64 i = 0; i < rows; i++)
	{
		PolicyRow  *policy = &policies->rows[i];
		Datum		value;

		policy->policy_id = rpq_column_int64(i, 1, 0);
		policy->name = rpq_column_text(i, 2);
		policy->reservation = DatumGetResourcesPCopy(rpq_column(i, 3, &isnull));
		value = rpq_column(i, 4, &isnull);
		policy->usage_limit = isnull ? NULL : DatumGetResourcesPCopy(value);
		policy->hold = rpq_column_int64(i, 5, 0) != 0;
		book_intern(book, policy->reservation);
		book_intern(book, policy->usage_limit);
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * First half, before keys are final.  They are kept as queues are; a policy that was in no cell and no queue of the set
 * before comes with another turn.
 */
void
book_load_policies(Book *book)
{
	MemoryContext old;
	int64	   *ids;
	int			n;

	if (book->policies != NULL)
		return;
	ids = policy_ids(book, &n);
	old = MemoryContextSwitchTo(book->context);
	book->policies = palloc0(sizeof(Policies));
	if (n > 0)
		read_policies(book, book->policies, ids, n);
	MemoryContextSwitchTo(old);
}

/* The position of a policy in the World, -1: none of it. */
int
book_policy(const Book *book, int64 policy_id)
{
	const Policies *policies = book->policies;
	int			low = 0;
	int			high = policies->n - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (policies->rows[middle].policy_id == policy_id)
			return middle;
		if (policies->rows[middle].policy_id < policy_id)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return -1;
}

static void
add_reach(World *world, Policy *policy, int pool)
{
	for (int i = 0; i < policy->npools; i++)
	{
		if (policy->pools[i] == pool)
			return;
	}
	if (policy->pools == NULL)
		policy->pools = palloc(sizeof(int) * world->npools);
	policy->pools[policy->npools++] = pool;
}

/* What each holds, and which pools it reaches. */
static void
sum_up(Book *book, World *world)
{
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		int			i = cell->key.policy_id == 0 || cell->amount == NULL ? -1 : book_policy(book, cell->key.policy_id);

		if (i >= 0)
			book_add(book, world->policies[i].held, cell->amount);
	}
	for (int s = 0; s < book->nscopes; s++)
	{
		Scope	   *scope = &book->scopes[s];
		int			i = scope->policy_id == 0 || scope->deleted ? -1 : book_policy(book, scope->policy_id);

		for (int p = 0; i >= 0 && p < scope->nroute; p++)
			add_reach(world, &world->policies[i], scope->route[p]->pool);
	}
}

/*
 * Second half.
 */
void
book_build_policies(Book *book, World *world)
{
	Policies   *policies = book->policies;

	world->npolicies = policies->n;
	world->policies = palloc0(sizeof(Policy) * Max(policies->n, 1));
	for (int i = 0; i < policies->n; i++)
	{
		PolicyRow  *row = &policies->rows[i];
		Policy	   *policy = &world->policies[i];

		policy->policy_id = row->policy_id;
		policy->name = row->name;
		policy->reservation = book_vector(book, row->reservation, 0);
		policy->held = book_vector(book, NULL, 0);
		policy->hold = row->hold;
	}
	sum_up(book, world);
	for (int i = 0; i < policies->n; i++)
	{
		Policy	   *policy = &world->policies[i];
		UsageLimit *limit;

		if (policies->rows[i].usage_limit == NULL)
			continue;
		limit = palloc0(sizeof(UsageLimit));
		limit->kind = LIMIT_POLICY;
		limit->pool = -1;
		limit->type = RPQ_WHOLE_POOL;
		limit->max = book_vector(book, policies->rows[i].usage_limit, RPQ_UNLIMITED);
		limit->used = palloc(sizeof(int64) * Max(world->nkeys, 1));
		memcpy(limit->used, policy->held, sizeof(int64) * world->nkeys);
		policy->limit = limit;
	}
}

/*
 * load_limits.c
 *
 * Rows -> World: where those that wait may go, who of them may still use the pool or the queue, and the personal quotas
 * that bind them.
 * Work through a queue is bound by the limit of its policy alone.
 *
 * Reads account, pool, member, member_quota, pool_instance, pool_admin, queue, policy, group_account; writes nothing,
 * locks nothing.  A quota
 * that follows the pool's default is looked up here, never copied.  Personal quotas count direct submissions only
 * (policy 0).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#include "store/book.h"
#include "store/members.h"
#include "store/spi.h"

/* The right to submit, as it stands now: a member, any account of the tenant in an open shared pool, administrators. */
static RpqStatement load_rights = {
	"SELECT k.pool_id, k.account_id"
	"  FROM unnest($1, $2) AS k (pool_id, account_id)"
	"  JOIN rpq_store.account a ON a.account_id = k.account_id AND a.deleted_at IS NULL"
	"  JOIN rpq_store.pool p ON p.pool_id = k.pool_id AND p.tenant_id = a.tenant_id"
	" WHERE (p.type = 'shared' AND p.open) OR a.org_admin"
	"    OR EXISTS (SELECT FROM rpq_store.member m WHERE m.pool_id = k.pool_id AND m.account_id = k.account_id)"
	"    OR EXISTS (SELECT FROM rpq_store.pool_admin d WHERE d.pool_id = k.pool_id AND d.account_id = k.account_id)"
	"    OR rpq_store.is_platform_role(a.db_role)",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

/* In a queue the policy is the authorisation: it is for the accounts of its group. */
static RpqStatement load_queue_rights = {
	"SELECT k.queue_id, k.account_id FROM unnest($1, $2) AS k (queue_id, account_id)"
	"  JOIN rpq_store.account a ON a.account_id = k.account_id AND a.deleted_at IS NULL"
	"  JOIN rpq_store.queue q ON q.queue_id = k.queue_id AND q.deleted_at IS NULL"
	"  JOIN rpq_store.policy p ON p.policy_id = q.policy_id AND p.deleted_at IS NULL"
	"  JOIN rpq_store.group_account g ON g.group_id = p.group_id AND g.account_id = k.account_id",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement load_quotas = {
	"SELECT q.pool_id, q.account_id, q.type_id, q.quota FROM rpq_store.member_quota q"
	"  JOIN unnest($1, $2) AS k (pool_id, account_id) ON q.pool_id = k.pool_id AND q.account_id = k.account_id",
	2, {INT8ARRAYOID, INT8ARRAYOID}
};

static RpqStatement load_type_defaults = {
	"SELECT pool_id, type_id, user_default_quota FROM rpq_store.pool_instance"
	" WHERE pool_id = ANY ($1) AND user_default_quota IS NOT NULL",
	1, {INT8ARRAYOID}
};

typedef struct AccountKey
{
	int64		scope_id;
	int64		account_id;
} AccountKey;

typedef struct QuotaRow
{
	AccountKey	key;
	int64		type_id;		/* 0: the pool as a whole */
	Resources  *quota;
	struct QuotaRow *next;
} QuotaRow;

typedef struct AccountRow
{
	AccountKey	key;
	bool		authorized;
	QuotaRow   *quotas;
	int			nlimits;
	UsageLimit	  **limits;
} AccountRow;

/* Lives only while one World is made. */
typedef struct Accounts
{
	HTAB	   *table;
	QuotaRow   *type_defaults;
} Accounts;

static Accounts *
book_accounts(Book *book)
{
	return (Accounts *) book->accounts;
}

static AccountRow *
account_row(Accounts *accounts, int64 scope_id, int64 account_id)
{
	AccountKey	key = {scope_id, account_id};
	bool		found;
	AccountRow *row = hash_search(accounts->table, &key, HASH_ENTER, &found);

	if (!found)
		memset((char *) row + sizeof(AccountKey), 0, sizeof(AccountRow) - sizeof(AccountKey));
	return row;
}

static QuotaRow *
new_quota(Book *book, int64 type_id, Datum quota, QuotaRow *next)
{
	QuotaRow   *row = palloc0(sizeof(QuotaRow));

	row->type_id = type_id;
	row->quota = DatumGetResourcesPCopy(quota);
	row->next = next;
	book_intern(book, row->quota);
	return row;
}

static void
read_rights(Book *book, Accounts *accounts, RpqStatement *statement, Datum *values)
{
	uint64		rows = rpq_exec_at(statement, values, NULL, book->snapshot, true);

	for (uint64 r = 0; r < rows; r++)
		account_row(accounts, rpq_column_int64(r, 1, 0), rpq_column_int64(r, 2, 0))->authorized = true;
	SPI_freetuptable(SPI_tuptable);
}

/* The scopes and accounts that wait in pools, or in queues; how many. */
static int
list_accounts(Book *book, Accounts *accounts, bool queues, Datum *values)
{
	int			max = Max((int) hash_get_num_entries(accounts->table), 1);
	int64	   *scopes = palloc(sizeof(int64) * max);
	int64	   *ids = palloc(sizeof(int64) * max);
	HASH_SEQ_STATUS seq;
	AccountRow *row;
	int			n = 0;

	hash_seq_init(&seq, accounts->table);
	while ((row = hash_seq_search(&seq)) != NULL)
	{
		if ((book_scope(book, row->key.scope_id)->pool < 0) != queues)
			continue;
		scopes[n] = row->key.scope_id;
		ids[n++] = row->key.account_id;
	}
	values[0] = rpq_int8_array(scopes, n);
	values[1] = rpq_int8_array(ids, n);
	return n;
}

static void
read_rights_and_quotas(Book *book, Accounts *accounts)
{
	Datum		values[2];
	uint64		rows;
	bool		isnull;

	if (list_accounts(book, accounts, true, values) > 0)
		read_rights(book, accounts, &load_queue_rights, values);
	if (list_accounts(book, accounts, false, values) == 0)
		return;
	read_rights(book, accounts, &load_rights, values);
	rows = rpq_exec_at(&load_quotas, values, NULL, book->snapshot, true);
	for (uint64 r = 0; r < rows; r++)
	{
		AccountRow *row = account_row(accounts, rpq_column_int64(r, 1, 0), rpq_column_int64(r, 2, 0));

		row->quotas = new_quota(book, rpq_column_int64(r, 3, 0), rpq_column(r, 4, &isnull), row->quotas);
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
read_type_defaults(Book *book, Accounts *accounts)
{
	Datum		values[1] = {book_scope_ids(book)};
	uint64		rows;
	bool		isnull;

	for (int i = 0; i < book->nscopes; i++)
		book_intern(book, book->scopes[i].default_quota);
	rows = rpq_exec_at(&load_type_defaults, values, NULL, book->snapshot, true);
	for (uint64 r = 0; r < rows; r++)
	{
		accounts->type_defaults = new_quota(book, rpq_column_int64(r, 2, 0), rpq_column(r, 3, &isnull),
											accounts->type_defaults);
		accounts->type_defaults->key.scope_id = rpq_column_int64(r, 1, 0);
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * First half, before keys are final: the rows of every account that has a lane.
 */
void
book_load_accounts(Book *book, int nlanes)
{
	Accounts   *accounts = palloc0(sizeof(Accounts));
	HASHCTL		ctl;
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	memset(&ctl, 0, sizeof(ctl));
	ctl.hcxt = CurrentMemoryContext;
	ctl.keysize = sizeof(AccountKey);
	ctl.entrysize = sizeof(AccountRow);
	accounts->table = hash_create("rpq accounts", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	book->accounts = accounts;
	for (int i = 0; i < nlanes; i++)
		account_row(accounts, book->lane_rows[i]->key.scope_id, book->lane_rows[i]->account_id);
	read_rights_and_quotas(book, accounts);
	read_type_defaults(book, accounts);
	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
		book_intern(book, cell->amount);
}

/* ----------------------------------------------------------------- routes */

static bool
supports(const Scope *pool, const LaneRow *row)
{
	bool		supported = pool->workload_types == NULL;

	for (int i = 0; !supported && i < pool->nworkload_types; i++)
		supported = strcmp(pool->workload_types[i], row->workload_type) == 0;
	return supported;
}

/*
 * The exclusive pools whose idle room may be used by what is submitted to this shared one: not one that does not
 * support its workload type.
 */
static void
find_lenders(Book *book, const Scope *scope, const LaneRow *row, Lane *lane)
{
	if (lane->guarantee || strcmp(scope->type, "shared") != 0 || scope->pay_as_you_go)
		return;
	for (int i = 0; i < book->npools; i++)
	{
		const Scope *pool = book->pools[i];

		if (!pool->lends || pool->tenant_id != scope->tenant_id || pool->cluster_id != scope->cluster_id ||
			strcmp(pool->kind, scope->kind) != 0 || !supports(pool, row))
			continue;
		if (lane->lenders == NULL)
			lane->lenders = palloc(sizeof(int) * book->npools);
		lane->lenders[lane->nlenders++] = pool->pool;
	}
}

/*
 * Where the lane may go, and why it may not go anywhere at all.  Of the pools of a queue, one that does not support the
 * workload type is passed over.
 */
void
book_build_route(Book *book, const LaneRow *row, Lane *lane)
{
	Scope	   *scope = book_scope(book, row->key.scope_id);
	bool		queue = scope->pool < 0;
	int			n = queue ? scope->nroute : 1;

	lane->pools = palloc(sizeof(int) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		Scope	   *pool = queue ? scope->route[i] : scope;

		if (!queue || supports(pool, row))
			lane->pools[lane->npools++] = pool->pool;
	}
	if (queue ? n > 0 && lane->npools == 0 : !supports(scope, row))
		lane->own = REASON_WORKLOAD_TYPE;
	else if (row->has_not_before && row->not_before > book->now)
	{
		lane->own = REASON_BACKING_OFF;
		lane->until = pstrdup(timestamptz_to_str(row->not_before));
	}
	if (!queue)
		find_lenders(book, scope, row, lane);
}

/* ----------------------------------------------------------------- limits */

/* What the account holds in the pool by direct submission, of one instance type or of all. */
static int64 *
account_usage(Book *book, const AccountKey *key, int64 type_id)
{
	int64	   *used = book_vector(book, NULL, 0);
	HASH_SEQ_STATUS seq;
	Cell	   *cell;

	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		if (cell->key.pool_id != key->scope_id || cell->key.account_id != key->account_id ||
			cell->key.policy_id != 0 || cell->amount == NULL || (type_id != 0 && cell->key.type_id != type_id))
			continue;
		book_add(book, used, cell->amount);
	}
	return used;
}

static void
add_limit(Book *book, AccountRow *row, int pool, int64 type_id, Resources *quota)
{
	UsageLimit	   *limit = palloc0(sizeof(UsageLimit));

	limit->kind = LIMIT_USER;
	limit->pool = pool;
	limit->type = type_id == 0 ? RPQ_WHOLE_POOL : book_type(book, type_id);
	limit->max = book_vector(book, quota, RPQ_UNLIMITED);
	limit->used = account_usage(book, &row->key, type_id);
	row->limits = row->limits == NULL ? palloc(sizeof(UsageLimit *)) :
		repalloc(row->limits, sizeof(UsageLimit *) * (row->nlimits + 1));
	row->limits[row->nlimits++] = limit;
}

static void
account_limits(Book *book, AccountRow *row)
{
	Accounts   *accounts = book_accounts(book);
	Scope	   *scope = book_scope(book, row->key.scope_id);
	int			pool = scope->pool;
	bool		has_whole = false;

	for (QuotaRow *q = row->quotas; q != NULL; q = q->next)
	{
		has_whole = has_whole || q->type_id == 0;
		add_limit(book, row, pool, q->type_id, q->quota);
	}
	if (!has_whole && scope->default_quota != NULL)
		add_limit(book, row, pool, 0, scope->default_quota);
	for (QuotaRow *d = accounts->type_defaults; d != NULL; d = d->next)
	{
		bool		own = d->key.scope_id != row->key.scope_id;

		for (QuotaRow *q = row->quotas; q != NULL; q = q->next)
			own = own || q->type_id == d->type_id;
		if (!own)
			add_limit(book, row, pool, d->type_id, d->quota);
	}
}

/* The limit of a policy is shared by all of its lanes. */
static void
policy_limits(World *world, Lane *lane)
{
	Policy	   *policy = lane->policy < 0 ? NULL : &world->policies[lane->policy];

	if (policy == NULL || policy->limit == NULL)
		return;
	lane->limits = palloc(sizeof(UsageLimit *));
	lane->limits[0] = policy->limit;
	lane->nlimits = 1;
}

/*
 * Second half: limits, shared by all lanes of an account in a pool, or of a policy, and the right itself.
 */
void
book_build_limits(Book *book, World *world)
{
	Accounts   *accounts = book_accounts(book);
	HASH_SEQ_STATUS seq;
	AccountRow *row;

	hash_seq_init(&seq, accounts->table);
	while ((row = hash_seq_search(&seq)) != NULL)
	{
		if (book_scope(book, row->key.scope_id)->pool >= 0)
			account_limits(book, row);
	}
	for (int i = 0; i < world->nlanes; i++)
	{
		Lane	   *lane = &world->lanes[i];

		row = account_row(accounts, lane->scope_id, lane->account_id);
		lane->limits = row->limits;
		lane->nlimits = row->nlimits;
		if (!row->authorized)
			lane->own = REASON_NOT_AUTHORIZED;
		policy_limits(world, lane);
	}
}

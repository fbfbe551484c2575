/*
 * scope_facts.c
 *
 * What is looked up about a pool or a queue, and the account that submits to it.
 *
 * Reads account, tenant, pool, member, member_quota, pool_admin, pool_capacity, pool_instance, queue, policy, profile,
 * profile_pool, group_account; never the nodes, and no row that other clients change.  Locks and writes nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "api/api.h"
#include "api/scope_facts.h"
#include "store/spi.h"

/* In a queue the policy is the authorisation: these are no settings. */
#define QUEUE_DEFAULT_PRIORITY	50
#define QUEUE_MAX_PRIORITY		100

#define POOL_FACTS \
	"SELECT p.pool_id, p.tenant_id, p.name, p.default_priority, COALESCE(m.max_priority, 100)," \
	"       COALESCE(m.guarantee, false), m.pool_id IS NOT NULL OR (p.type = 'shared' AND p.open) OR r.admin," \
	"       m.pool_id IS NOT NULL OR p.type = 'shared' OR r.admin" \
	"  FROM rpq_store.account a JOIN rpq_store.pool p ON p.tenant_id = a.tenant_id" \
	"  LEFT JOIN rpq_store.member m ON m.pool_id = p.pool_id AND m.account_id = a.account_id" \
	"  CROSS JOIN LATERAL (SELECT a.org_admin" \
	"     OR EXISTS (SELECT FROM rpq_store.pool_admin d WHERE d.pool_id = p.pool_id AND d.account_id = a.account_id)" \
	"     OR (m.pool_id IS NULL AND a.db_role IS NOT NULL AND rpq_store.is_platform_role(a.db_role)) AS admin) r" \
	" WHERE a.account_id = $1 AND a.deleted_at IS NULL AND p.status <> 'deleted'"

static RpqStatement pool_by_name = {POOL_FACTS " AND p.name = $2", 2, {INT8OID, TEXTOID}};
static RpqStatement pool_by_id = {POOL_FACTS " AND p.pool_id = $2", 2, {INT8OID, INT8OID}};

/* Members of the policy's group may use it; administrators of the tenant see it. */
#define QUEUE_FACTS \
	"SELECT q.queue_id, q.tenant_id, q.name, y.name, COALESCE(f.provisioned, f.saved), y.reservation, y.usage_limit," \
	"       g.account_id IS NOT NULL," \
	"       g.account_id IS NOT NULL OR a.org_admin" \
	"         OR (a.db_role IS NOT NULL AND rpq_store.is_platform_role(a.db_role))," \
	"       ARRAY(SELECT l.pool_id FROM rpq_store.profile_pool l" \
	"              WHERE l.profile_id = q.profile_id AND l.state = 'provisioned' ORDER BY l.rank)" \
	"  FROM rpq_store.account a JOIN rpq_store.queue q ON q.tenant_id = a.tenant_id" \
	"  JOIN rpq_store.policy y ON y.policy_id = q.policy_id" \
	"  JOIN rpq_store.profile f ON f.profile_id = q.profile_id" \
	"  LEFT JOIN rpq_store.group_account g ON g.group_id = y.group_id AND g.account_id = a.account_id" \
	" WHERE a.account_id = $1 AND a.deleted_at IS NULL AND q.deleted_at IS NULL"

/* The tenant again, as a value of its own: as a join alone it does not come to be a condition on the index by name. */
static RpqStatement queue_by_name = {
	QUEUE_FACTS " AND q.name = $2"
	" AND q.tenant_id = (SELECT t.tenant_id FROM rpq_store.account t WHERE t.account_id = $1)",
	2, {INT8OID, TEXTOID}
};
static RpqStatement queue_by_id = {QUEUE_FACTS " AND q.queue_id = $2", 2, {INT8OID, INT8OID}};

static RpqStatement was_queue = {"SELECT FROM rpq_store.queue WHERE queue_id = $1", 1, {INT8OID}};

static RpqStatement part_by_id = {
	"SELECT p.status, p.frozen, p.allow_guarantee, p.workload_types FROM rpq_store.pool p"
	" WHERE p.pool_id = $1 AND p.status <> 'deleted'",
	1, {INT8OID}
};

static RpqStatement part_sizes = {
	"SELECT c.type_id, t.name, c.capacity, c.nodes FROM rpq_store.pool_capacity c"
	"  JOIN rpq_store.instance_type t ON t.type_id = c.type_id WHERE c.pool_id = $1 AND c.nodes > 0",
	1, {INT8OID}
};

/* Custom quotas, and the defaults of those that have none. */
static RpqStatement pool_quotas = {
	"SELECT q.type_id, q.quota FROM rpq_store.member_quota q WHERE q.pool_id = $1 AND q.account_id = $2"
	" UNION ALL "
	"SELECT d.type_id, d.quota FROM ("
	"  SELECT 0 AS type_id, p.user_default_quota AS quota FROM rpq_store.pool p WHERE p.pool_id = $1"
	"  UNION ALL"
	"  SELECT i.type_id, i.user_default_quota FROM rpq_store.pool_instance i WHERE i.pool_id = $1) d"
	" WHERE d.quota IS NOT NULL AND NOT EXISTS (SELECT FROM rpq_store.member_quota q"
	"    WHERE q.pool_id = $1 AND q.account_id = $2 AND q.type_id = d.type_id)",
	2, {INT8OID, INT8OID}
};

static RpqStatement account_tenant = {
	"SELECT t.name FROM rpq_store.account a JOIN rpq_store.tenant t ON t.tenant_id = a.tenant_id"
	" WHERE a.account_id = $1 AND t.name = $2",
	2, {INT8OID, TEXTOID}
};

/* A copy of a column's value; NULL where it is null. */
static Resources *
resources_column(uint64 row, int column)
{
	bool		isnull;
	Datum		value = rpq_column(row, column, &isnull);

	return isnull ? NULL : DatumGetResourcesPCopy(value);
}

static void
load_sizes(PoolPart *part)
{
	Datum		values[1] = {Int64GetDatum(part->pool_id)};
	uint64		rows = rpq_exec(&part_sizes, values, NULL);

	part->nsizes = (int) rows;
	part->sizes = palloc0(sizeof(PoolSize) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		part->sizes[i].type_id = rpq_column_int64(i, 1, 0);
		part->sizes[i].type_name = rpq_column_text(i, 2);
		part->sizes[i].capacity = resources_column(i, 3);
		part->sizes[i].nodes = rpq_column_int64(i, 4, 0);
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
take_workload_types(PoolPart *part, int column)
{
	bool		isnull;
	Datum		value = rpq_column(0, column, &isnull);
	Datum	   *elements;
	bool	   *nulls;

	part->nworkload_types = -1;
	if (isnull)
		return;
	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls,
					  &part->nworkload_types);
	part->workload_types = palloc(sizeof(char *) * Max(part->nworkload_types, 1));
	for (int i = 0; i < part->nworkload_types; i++)
		part->workload_types[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(elements[i]);
}

PoolPart *
read_pool_part(int64 pool_id)
{
	Datum		values[1] = {Int64GetDatum(pool_id)};
	PoolPart   *part;

	if (rpq_exec(&part_by_id, values, NULL) == 0)
		return NULL;
	part = palloc0(sizeof(PoolPart));
	part->pool_id = pool_id;
	part->status = rpq_column_text(0, 1);
	part->frozen = rpq_column_int64(0, 2, 0) != 0;
	part->allow_guarantee = rpq_column_int64(0, 3, 0) != 0;
	take_workload_types(part, 4);
	SPI_freetuptable(SPI_tuptable);
	load_sizes(part);
	return part;
}

const PoolPart *
pool_part_now(int64 pool_id)
{
	return read_pool_part(pool_id);
}

static void
load_quotas(ScopeFacts *facts)
{
	Datum		values[2] = {Int64GetDatum(facts->scope_id), Int64GetDatum(facts->account_id)};
	uint64		rows = rpq_exec(&pool_quotas, values, NULL);

	facts->nquotas = (int) rows;
	facts->quotas = palloc0(sizeof(PoolQuota) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		facts->quotas[i].type_id = rpq_column_int64(i, 1, 0);
		facts->quotas[i].quota = resources_column(i, 2);
	}
	SPI_freetuptable(SPI_tuptable);
}

/* The pools of a list, without those that went meanwhile. */
static void
load_parts(ScopeFacts *facts, const int64 *pools, int n, PoolPartSource source)
{
	facts->pools = palloc(sizeof(PoolPart *) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		const PoolPart *part = source(pools[i]);

		if (part != NULL)
			facts->pools[facts->npools++] = part;
	}
}

/* From the one row of a statement; NULL when there is none. */
static ScopeFacts *
take_pool(int64 account_id, uint64 rows, PoolPartSource source)
{
	ScopeFacts *facts;

	if (rows == 0)
		return NULL;
	facts = palloc0(sizeof(ScopeFacts));
	facts->account_id = account_id;
	facts->scope_id = rpq_column_int64(0, 1, 0);
	facts->tenant_id = rpq_column_int64(0, 2, 0);
	facts->name = rpq_column_text(0, 3);
	facts->default_priority = (int) rpq_column_int64(0, 4, 50);
	facts->max_priority = (int) rpq_column_int64(0, 5, 100);
	facts->may_guarantee = rpq_column_int64(0, 6, 0) != 0;
	facts->authorized = rpq_column_int64(0, 7, 0) != 0;
	facts->visible = rpq_column_int64(0, 8, 0) != 0;
	SPI_freetuptable(SPI_tuptable);
	load_parts(facts, &facts->scope_id, 1, source);
	if (facts->npools == 0)
		return NULL;
	load_quotas(facts);
	return facts;
}

static ScopeFacts *
take_queue(int64 account_id, uint64 rows, PoolPartSource source)
{
	ScopeFacts *facts;
	ArrayType  *pools;
	bool		isnull;

	if (rows == 0)
		return NULL;
	facts = palloc0(sizeof(ScopeFacts));
	facts->account_id = account_id;
	facts->is_queue = true;
	facts->scope_id = rpq_column_int64(0, 1, 0);
	facts->tenant_id = rpq_column_int64(0, 2, 0);
	facts->name = rpq_column_text(0, 3);
	facts->policy = rpq_column_text(0, 4);
	facts->resources = resources_column(0, 5);
	facts->reservation = resources_column(0, 6);
	facts->usage_limit = resources_column(0, 7);
	facts->authorized = rpq_column_int64(0, 8, 0) != 0;
	facts->visible = rpq_column_int64(0, 9, 0) != 0;
	facts->default_priority = QUEUE_DEFAULT_PRIORITY;
	facts->max_priority = QUEUE_MAX_PRIORITY;
	pools = DatumGetArrayTypePCopy(rpq_column(0, 10, &isnull));
	SPI_freetuptable(SPI_tuptable);
	load_parts(facts, (int64 *) ARR_DATA_PTR(pools), ArrayGetNItems(ARR_NDIM(pools), ARR_DIMS(pools)), source);
	return facts;
}

/* The name without its tenant, which must be the account's. */
static char *
own_name(ObjectKind kind, int64 account_id, const char *name)
{
	char	   *tenant = NULL;
	char	   *own = rpq_split_name(rpq_kind_word(kind), name, &tenant);
	Datum		values[2] = {Int64GetDatum(account_id), (Datum) 0};

	if (tenant == NULL)
		return own;
	values[1] = CStringGetTextDatum(tenant);
	if (rpq_exec(&account_tenant, values, NULL) == 0)
		rpq_no_such_name(kind, name);
	return own;
}

ScopeFacts *
pool_facts(int64 account_id, const char *name, PoolPartSource part)
{
	Datum		values[2];
	ScopeFacts *facts;

	values[0] = Int64GetDatum(account_id);
	values[1] = CStringGetTextDatum(own_name(KIND_POOL, account_id, name));
	facts = take_pool(account_id, rpq_exec(&pool_by_name, values, NULL), part);
	if (facts == NULL)
		rpq_no_such_name(KIND_POOL, name);
	return facts;
}

ScopeFacts *
queue_facts(int64 account_id, const char *name, PoolPartSource part)
{
	Datum		values[2];
	ScopeFacts *facts;

	values[0] = Int64GetDatum(account_id);
	values[1] = CStringGetTextDatum(own_name(KIND_QUEUE, account_id, name));
	facts = take_queue(account_id, rpq_exec(&queue_by_name, values, NULL), part);
	if (facts == NULL)
		rpq_no_such_name(KIND_QUEUE, name);
	return facts;
}

ScopeFacts *
scope_facts_by_id(int64 account_id, int64 scope_id)
{
	Datum		values[2] = {Int64GetDatum(account_id), Int64GetDatum(scope_id)};
	Datum		scope[1] = {Int64GetDatum(scope_id)};
	bool		queue = rpq_exec(&was_queue, scope, NULL) > 0;
	ScopeFacts *facts;

	if (queue)
		facts = take_queue(account_id, rpq_exec(&queue_by_id, values, NULL), pool_part_now);
	else
		facts = take_pool(account_id, rpq_exec(&pool_by_id, values, NULL), pool_part_now);
	if (facts == NULL || !facts->visible)
		rpq_no_such_id(queue ? KIND_QUEUE : KIND_POOL, scope_id);
	return facts;
}

/*
 * admission_check.c
 *
 * The checks at submission: what could never be admitted is refused at once, in the contract's order.
 *
 * Reads account, pool, member, member_quota, pool_admin, pool_capacity, pool_instance; never the nodes, and no row that
 * other clients change.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "api/admission_check.h"
#include "api/api.h"
#include "errors.h"
#include "store/spi.h"

#define FACTS \
	"SELECT p.pool_id, p.tenant_id, p.name, p.status, p.frozen, p.allow_guarantee, p.default_priority," \
	"       p.workload_types, COALESCE(m.max_priority, 100), COALESCE(m.guarantee, false)," \
	"       m.pool_id IS NOT NULL OR (p.type = 'shared' AND p.open) OR r.admin," \
	"       m.pool_id IS NOT NULL OR p.type = 'shared' OR r.admin" \
	"  FROM rpq_store.account a JOIN rpq_store.pool p ON p.tenant_id = a.tenant_id" \
	"  LEFT JOIN rpq_store.member m ON m.pool_id = p.pool_id AND m.account_id = a.account_id" \
	"  CROSS JOIN LATERAL (SELECT a.org_admin" \
	"     OR EXISTS (SELECT FROM rpq_store.pool_admin d WHERE d.pool_id = p.pool_id AND d.account_id = a.account_id)" \
	"     OR (m.pool_id IS NULL AND a.db_role IS NOT NULL AND rpq_store.is_platform_role(a.db_role)) AS admin) r" \
	" WHERE a.account_id = $1 AND a.deleted_at IS NULL AND p.status <> 'deleted'"

static RpqStatement facts_by_name = {FACTS " AND p.name = $2", 2, {INT8OID, TEXTOID}};
static RpqStatement facts_by_id = {FACTS " AND p.pool_id = $2", 2, {INT8OID, INT8OID}};

static RpqStatement facts_sizes = {
	"SELECT c.type_id, t.name, c.capacity, c.nodes FROM rpq_store.pool_capacity c"
	"  JOIN rpq_store.instance_type t ON t.type_id = c.type_id WHERE c.pool_id = $1 AND c.nodes > 0",
	1, {INT8OID}
};

/* Custom quotas, and the defaults of those that have none. */
static RpqStatement facts_quotas = {
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

static void
load_sizes(PoolFacts *facts)
{
	Datum		values[1] = {Int64GetDatum(facts->pool_id)};
	uint64		rows = rpq_exec(&facts_sizes, values, NULL);
	bool		isnull;

	facts->nsizes = (int) rows;
	facts->sizes = palloc0(sizeof(PoolSize) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		facts->sizes[i].type_id = rpq_column_int64(i, 1, 0);
		facts->sizes[i].type_name = rpq_column_text(i, 2);
		facts->sizes[i].capacity = DatumGetResourcesPCopy(rpq_column(i, 3, &isnull));
		facts->sizes[i].nodes = rpq_column_int64(i, 4, 0);
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
load_quotas(PoolFacts *facts)
{
	Datum		values[2] = {Int64GetDatum(facts->pool_id), Int64GetDatum(facts->account_id)};
	uint64		rows = rpq_exec(&facts_quotas, values, NULL);
	bool		isnull;

	facts->nquotas = (int) rows;
	facts->quotas = palloc0(sizeof(PoolQuota) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
	{
		facts->quotas[i].type_id = rpq_column_int64(i, 1, 0);
		facts->quotas[i].quota = DatumGetResourcesPCopy(rpq_column(i, 2, &isnull));
	}
	SPI_freetuptable(SPI_tuptable);
}

static void
load_workload_types(PoolFacts *facts)
{
	bool		isnull;
	Datum		value = rpq_column(0, 8, &isnull);
	Datum	   *elements;
	bool	   *nulls;

	facts->nworkload_types = -1;
	if (isnull)
		return;
	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls,
					  &facts->nworkload_types);
	facts->workload_types = palloc(sizeof(char *) * Max(facts->nworkload_types, 1));
	for (int i = 0; i < facts->nworkload_types; i++)
		facts->workload_types[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(elements[i]);
}

/* From the one row of a facts statement; NULL when there is none. */
static PoolFacts *
take_facts(int64 account_id, uint64 rows)
{
	PoolFacts  *facts;

	if (rows == 0)
		return NULL;
	facts = palloc0(sizeof(PoolFacts));
	facts->account_id = account_id;
	facts->pool_id = rpq_column_int64(0, 1, 0);
	facts->tenant_id = rpq_column_int64(0, 2, 0);
	facts->pool = rpq_column_text(0, 3);
	facts->status = rpq_column_text(0, 4);
	facts->frozen = rpq_column_int64(0, 5, 0) != 0;
	facts->allow_guarantee = rpq_column_int64(0, 6, 0) != 0;
	facts->default_priority = (int) rpq_column_int64(0, 7, 50);
	facts->max_priority = (int) rpq_column_int64(0, 9, 100);
	facts->may_guarantee = rpq_column_int64(0, 10, 0) != 0;
	facts->authorized = rpq_column_int64(0, 11, 0) != 0;
	facts->visible = rpq_column_int64(0, 12, 0) != 0;
	load_workload_types(facts);
	SPI_freetuptable(SPI_tuptable);
	load_sizes(facts);
	load_quotas(facts);
	return facts;
}

PoolFacts *
pool_facts(int64 account_id, const char *name)
{
	char	   *tenant = NULL;
	char	   *pool = rpq_split_name("pool", name, &tenant);
	Datum		values[2] = {Int64GetDatum(account_id), (Datum) 0};
	PoolFacts  *facts;

	if (tenant != NULL)
	{
		values[1] = CStringGetTextDatum(tenant);
		if (rpq_exec(&account_tenant, values, NULL) == 0)
			rpq_no_such_name(KIND_POOL, name);
	}
	values[1] = CStringGetTextDatum(pool);
	facts = take_facts(account_id, rpq_exec(&facts_by_name, values, NULL));
	if (facts == NULL)
		rpq_no_such_name(KIND_POOL, name);
	return facts;
}

PoolFacts *
pool_facts_by_id(int64 account_id, int64 pool_id)
{
	Datum		values[2] = {Int64GetDatum(account_id), Int64GetDatum(pool_id)};
	PoolFacts  *facts = take_facts(account_id, rpq_exec(&facts_by_id, values, NULL));

	if (facts == NULL || !facts->visible)
		rpq_no_such_id(KIND_POOL, pool_id);
	return facts;
}

/* ---------------------------------------------------------------- checks */

static void
check_pool(const PoolFacts *facts)
{
	if (!facts->authorized)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_AUTH_CHECK),
				 errmsg("resource auth check failed, the account is not authorised in resource pool %s", facts->pool),
				 errdetail("not_authorized"),
				 errhint("An administrator of the pool can call rpq.authorize().")));
	if (facts->frozen)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_AUTH_CHECK),
				 errmsg("resource auth check failed, resource pool %s is frozen", facts->pool),
				 errdetail("pool_frozen"),
				 errhint("An administrator of the pool can unfreeze it with rpq.edit_pool().")));
	if (strcmp(facts->status, "creating") == 0 || strcmp(facts->status, "deleting") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_STATUS),
				 errmsg("pool \"%s\" takes no workloads now", facts->pool),
				 errdetail("Its status is %s.", facts->status)));
}

static void
check_workload_type(const PoolFacts *facts, const Request *request)
{
	if (facts->nworkload_types < 0)
		return;
	for (int i = 0; i < facts->nworkload_types; i++)
	{
		if (strcmp(facts->workload_types[i], request->workload_type) == 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_AUTH_CHECK),
			 errmsg("resource auth check failed, workload type %s is not allowed to use resource pool %s",
					request->workload_type, facts->pool),
			 errdetail("workload_type")));
}

static void
check_guarantee(const PoolFacts *facts, const Request *request)
{
	if (request->guarantee && !(facts->allow_guarantee && facts->may_guarantee))
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_AUTH_CHECK),
				 errmsg("resource auth check failed, guaranteed workloads are not allowed in resource pool %s",
						facts->pool),
				 errdetail("guarantee: %s", facts->allow_guarantee ? "the account lacks the right" :
						   "the pool does not allow it")));
}

void
check_priority(const PoolFacts *facts, int priority, bool draft)
{
	if (priority < 0 || priority > 100)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("priority must be between 0 and 100"), errdetail("It is %d.", priority)));
	if (priority > facts->max_priority && !draft)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_AUTH_CHECK),
				 errmsg("resource auth check failed, priority %d is above the maximum in resource pool %s",
						priority, facts->pool),
				 errdetail("priority: the account's maximum is %d", facts->max_priority)));
}

/* Without a priority the request gets the lesser of the pool's default and the account's maximum. */
static void
set_priority(const PoolFacts *facts, Request *request, bool draft)
{
	if (!request->has_priority)
		request->priority = Min(facts->default_priority, facts->max_priority);
	else
		check_priority(facts, request->priority, draft);
}

static void
check_amounts(const Resources *resources, int replicas)
{
	bool		found;
	int64		gpu = resources_get(resources, "gpu", 3, &found);

	if (resources_nkeys(resources) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("resources must ask for something")));
	for (int i = 0; i < resources_nkeys(resources); i++)
	{
		if (resources_amount(resources, i) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("every amount of resources must be positive"),
					 errdetail("It is \"%s\".", resources_text(resources))));
	}
	if (found && gpu > RPQ_UNIT && gpu % RPQ_UNIT != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("gpu must be a whole number of devices or a part of one"),
				 errdetail("It is \"%s\".", resources_text(resources))));
	if (replicas < 1 || replicas > 100000)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("replicas must be between 1 and 100000"), errdetail("It is %d.", replicas)));
	/* of a draft too, or whoever may see it could not read the total */
	(void) resources_mul_int(resources, replicas);
}

static bool
type_allowed(const Request *request, int64 type_id)
{
	if (request->ninstance_types < 0)
		return true;
	for (int i = 0; i < request->ninstance_types; i++)
	{
		if (request->instance_types[i] == type_id)
			return true;
	}
	return false;
}

/* Is this key's bound large enough for the request, key by key? */
static bool
quota_holds(const PoolFacts *facts, int64 type_id, const Resources *total)
{
	for (int i = 0; i < facts->nquotas; i++)
	{
		const Resources *quota = facts->quotas[i].quota;

		if (facts->quotas[i].type_id != type_id)
			continue;
		for (int k = 0; k < resources_nkeys(total); k++)
		{
			bool		found;
			int64		bound = resources_get(quota, resources_key(total, k), resources_key_len(total, k), &found);

			if (found && resources_amount(total, k) > bound)
				return false;
		}
	}
	return true;
}

static const Resources *
quota_of(const PoolFacts *facts, int64 type_id)
{
	for (int i = 0; i < facts->nquotas; i++)
	{
		if (facts->quotas[i].type_id == type_id)
			return facts->quotas[i].quota;
	}
	return resources_empty();
}

static void
refuse_node(const PoolFacts *facts, const Request *request)
{
	StringInfoData sizes;

	initStringInfo(&sizes);
	for (int i = 0; i < facts->nsizes; i++)
		appendStringInfo(&sizes, "%s%s (%s)", i == 0 ? "" : "; ", facts->sizes[i].type_name,
						 resources_text(facts->sizes[i].capacity));
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_NO_NODE),
			 errmsg("no node of pool \"%s\" could ever hold one replica", facts->pool),
			 facts->nsizes == 0 ? errdetail("One replica asks for %s; the pool has no nodes.",
											resources_text(request->resources)) :
			 errdetail("One replica asks for %s; the pool's nodes hold %s.", resources_text(request->resources),
					   sizes.data)));
}

/* What the pool holds of one instance type, and whether one replica fits any of its sizes. */
static Resources *
held_of_type(const PoolFacts *facts, int64 type_id, const Resources *replica, bool *one)
{
	Resources  *held = resources_empty();

	*one = false;
	for (int j = 0; j < facts->nsizes; j++)
	{
		if (facts->sizes[j].type_id != type_id)
			continue;
		*one = *one || resources_fits(replica, facts->sizes[j].capacity);
		held = resources_add(held, resources_mul_int(facts->sizes[j].capacity, facts->sizes[j].nodes));
	}
	return held;
}

/*
 * The whole must fit what the pool holds, on one instance type on which one replica fits and whose personal quota is
 * large enough.  The error names the bound that stood in the way of the type that came furthest.
 */
static void
check_bounds(const PoolFacts *facts, const Request *request)
{
	Resources  *total = resources_mul_int(request->resources, request->replicas);
	Resources  *largest = NULL;
	int64		bound_by = 0;
	bool		fits_total = false;

	for (int i = 0; i < facts->nsizes; i++)
	{
		int64		type_id = facts->sizes[i].type_id;
		bool		one;
		Resources  *held = held_of_type(facts, type_id, request->resources, &one);

		if (!type_allowed(request, type_id) || !one)
			continue;
		if (largest == NULL || resources_fits(largest, held))
			largest = held;
		if (!resources_fits(total, held))
			continue;
		fits_total = true;
		if (!quota_holds(facts, 0, total))
			continue;
		if (quota_holds(facts, type_id, total))
			return;
		bound_by = type_id;
	}
	if (largest == NULL)
		refuse_node(facts, request);
	if (!fits_total)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_QUOTA),
				 errmsg("the request is larger than what pool \"%s\" holds", facts->pool),
				 errdetail("It asks for %s; the pool holds %s of one instance type.", resources_text(total),
						   resources_text(largest))));
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_QUOTA),
			 errmsg("the request is larger than the personal quota in pool \"%s\"", facts->pool),
			 errdetail("It asks for %s; the quota%s is %s.", resources_text(total),
					   bound_by == 0 ? "" : " for its instance type", resources_text(quota_of(facts, bound_by))),
			 errhint("An administrator of the pool can raise it with rpq.update_members().")));
}

void
check_request(const PoolFacts *facts, Request *request, bool draft)
{
	if (!draft || !facts->authorized)
		check_pool(facts);
	if (!draft)
	{
		check_workload_type(facts, request);
		check_guarantee(facts, request);
	}
	set_priority(facts, request, draft);
	check_amounts(request->resources, request->replicas);
	if (!draft)
		check_bounds(facts, request);
}

/*
 * objects.c
 *
 * The kinds of objects: how one is found by its name or its id, and what the caller is to it.  One statement for each
 * kind and way, all of one form, so that every function finds objects, and fails to find them, in the same words.
 *
 * Reads configuration, workload, pod and operation; locks nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "api/api.h"
#include "store/spi.h"

/*
 * Result: id, tenant, pool admin, owner, seen.  Parameters: $1 the tenant that the name is in, $2 the name, $3 the id,
 * $4 the caller's account, $5 the caller's tenant (both 0 without account, and no row has id 0).
 */
#define ARGUMENTS	5, {INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID}

#define ADMINISTERS(pool) \
	" EXISTS (SELECT FROM rpq_store.pool_admin pa WHERE pa.pool_id = " pool " AND pa.account_id = $4)"
#define IN_GROUP(grp) \
	" EXISTS (SELECT FROM rpq_store.group_account ga WHERE ga.group_id = " grp " AND ga.account_id = $4)"
#define SEES_POOL(p) \
	" ((" p ".type = 'shared' AND " p ".open AND " p ".tenant_id = $5)" \
	" OR EXISTS (SELECT FROM rpq_store.member m WHERE m.pool_id = " p ".pool_id AND m.account_id = $4))"

#define TENANT_BODY "SELECT o.tenant_id, o.tenant_id, false, false, o.tenant_id = $5 FROM rpq_store.tenant o WHERE "
#define CLUSTER_BODY "SELECT o.cluster_id, 0::pg_catalog.int8, false, false, true FROM rpq_store.cluster o WHERE "
#define TYPE_BODY "SELECT o.type_id, 0::pg_catalog.int8, false, false, true FROM rpq_store.instance_type o WHERE "
#define ACCOUNT_BODY \
	"SELECT o.account_id, o.tenant_id, false, false, o.account_id = $4 FROM rpq_store.account o" \
	" WHERE o.deleted_at IS NULL AND "
#define USER_GROUP_BODY \
	"SELECT o.group_id, o.tenant_id, false, false," IN_GROUP("o.group_id") " FROM rpq_store.user_group o WHERE "
#define PROJECT_GROUP_BODY \
	"SELECT o.project_group_id, o.tenant_id, false, false, o.tenant_id = $5 FROM rpq_store.project_group o WHERE "
#define WORKLOAD_TYPE_BODY \
	"SELECT o.workload_type_id, o.tenant_id, false, false, o.tenant_id = $5 FROM rpq_store.workload_type o WHERE "
#define POOL_BODY \
	"SELECT o.pool_id, o.tenant_id," ADMINISTERS("o.pool_id") ", false," SEES_POOL("o") \
	" FROM rpq_store.pool o WHERE o.status <> 'deleted' AND "
#define NODE_BODY \
	"SELECT o.node_id, o.tenant_id," ADMINISTERS("o.pool_id") ", false," SEES_POOL("p") \
	" FROM rpq_store.node o JOIN rpq_store.pool p ON p.pool_id = o.pool_id WHERE NOT o.removing AND "
#define WORKLOAD_BODY \
	"SELECT o.workload_id, o.tenant_id," ADMINISTERS("ANY (ARRAY[o.pool_id, o.scope_id])") "," \
	" o.account_id = $4, false FROM rpq_store.workload o WHERE "
#define POD_BODY \
	"SELECT o.pod_id, w.tenant_id," ADMINISTERS("w.pool_id") ", w.account_id = $4, false" \
	" FROM rpq_store.pod o JOIN rpq_store.workload w ON w.workload_id = o.workload_id WHERE "
#define OPERATION_BODY \
	"SELECT o.operation_id, o.tenant_id," ADMINISTERS("o.pool_id") ", false, false FROM rpq_store.operation o WHERE "
#define QUEUE_BODY \
	"SELECT o.queue_id, o.tenant_id, false, false," IN_GROUP("p.group_id") \
	" FROM rpq_store.queue o JOIN rpq_store.policy p ON p.policy_id = o.policy_id WHERE o.deleted_at IS NULL AND "
#define POLICY_BODY \
	"SELECT o.policy_id, o.tenant_id, false, false," IN_GROUP("o.group_id") \
	" FROM rpq_store.policy o WHERE o.deleted_at IS NULL AND "
#define PROFILE_BODY \
	"SELECT o.profile_id, o.tenant_id, false, false, false FROM rpq_store.profile o WHERE o.deleted_at IS NULL AND "

#define BY_TENANT_NAME "o.tenant_id = $1 AND o.name = $2"
#define BY_NAME "o.name = $2"

typedef struct Kind
{
	const char *word;
	bool		in_tenant;		/* its names are unique in a tenant */
	RpqStatement by_name;
	RpqStatement by_id;
} Kind;

static Kind kinds[NKINDS] = {
	[KIND_NONE] = {"none"},
	[KIND_TENANT] = {"tenant", false, {TENANT_BODY BY_NAME, ARGUMENTS}, {TENANT_BODY "o.tenant_id = $3", ARGUMENTS}},
	[KIND_CLUSTER] = {"cluster", false, {CLUSTER_BODY BY_NAME, ARGUMENTS},
	{CLUSTER_BODY "o.cluster_id = $3", ARGUMENTS}},
	[KIND_INSTANCE_TYPE] = {"instance type", false, {TYPE_BODY BY_NAME, ARGUMENTS},
	{TYPE_BODY "o.type_id = $3", ARGUMENTS}},
	[KIND_ACCOUNT] = {"account", true, {ACCOUNT_BODY BY_TENANT_NAME, ARGUMENTS},
	{ACCOUNT_BODY "o.account_id = $3", ARGUMENTS}},
	[KIND_USER_GROUP] = {"user group", true, {USER_GROUP_BODY BY_TENANT_NAME, ARGUMENTS},
	{USER_GROUP_BODY "o.group_id = $3", ARGUMENTS}},
	[KIND_PROJECT_GROUP] = {"project group", true, {PROJECT_GROUP_BODY BY_TENANT_NAME, ARGUMENTS},
	{PROJECT_GROUP_BODY "o.project_group_id = $3", ARGUMENTS}},
	[KIND_WORKLOAD_TYPE] = {"workload type", true, {WORKLOAD_TYPE_BODY BY_TENANT_NAME, ARGUMENTS},
	{WORKLOAD_TYPE_BODY "o.workload_type_id = $3", ARGUMENTS}},
	[KIND_POOL] = {"pool", true, {POOL_BODY BY_TENANT_NAME, ARGUMENTS}, {POOL_BODY "o.pool_id = $3", ARGUMENTS}},
	[KIND_NODE] = {"node", true, {NODE_BODY BY_TENANT_NAME, ARGUMENTS}, {NODE_BODY "o.node_id = $3", ARGUMENTS}},
	[KIND_WORKLOAD] = {"workload", true, {NULL}, {WORKLOAD_BODY "o.workload_id = $3", ARGUMENTS}},
	[KIND_POD] = {"pod", true, {NULL}, {POD_BODY "o.pod_id = $3", ARGUMENTS}},
	[KIND_OPERATION] = {"operation", true, {NULL}, {OPERATION_BODY "o.operation_id = $3", ARGUMENTS}},
	[KIND_QUEUE] = {"queue", true, {QUEUE_BODY BY_TENANT_NAME, ARGUMENTS}, {QUEUE_BODY "o.queue_id = $3", ARGUMENTS}},
	[KIND_POLICY] = {"policy", true, {POLICY_BODY BY_TENANT_NAME, ARGUMENTS},
	{POLICY_BODY "o.policy_id = $3", ARGUMENTS}},
	[KIND_PROFILE] = {"profile", true, {PROFILE_BODY BY_TENANT_NAME, ARGUMENTS},
	{PROFILE_BODY "o.profile_id = $3", ARGUMENTS}},
};

static RpqStatement first_tenants = {
	"SELECT tenant_id FROM rpq_store.tenant LIMIT 2",
	.planner_is_free = true
};
static RpqStatement first_clusters = {
	"SELECT cluster_id FROM rpq_store.cluster LIMIT 2",
	.planner_is_free = true
};

const char *
rpq_kind_word(ObjectKind kind)
{
	return kinds[kind].word;
}

void
rpq_no_such_name(ObjectKind kind, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("%s \"%s\" does not exist", kinds[kind].word, name)));
}

void
rpq_no_such_id(ObjectKind kind, int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("%s %lld does not exist", kinds[kind].word, (long long) id)));
}

bool
rpq_sees(const Caller *caller, const Object *object)
{
	return caller->platform_admin || object->pool_admin || object->owner || object->seen ||
		(caller->org_admin && object->tenant_id == caller->tenant_id);
}

static bool
find(RpqStatement *statement, const Caller *caller, int64 tenant, const char *name, int64 id, Object *object)
{
	Datum		values[5];
	bool		found;

	values[0] = Int64GetDatum(tenant);
	values[1] = CStringGetTextDatum(name);
	values[2] = Int64GetDatum(id);
	values[3] = Int64GetDatum(caller->account_id);
	values[4] = Int64GetDatum(caller->tenant_id);
	SPI_connect();
	found = rpq_read(statement, values, NULL) == 1;
	if (found)
	{
		object->id = rpq_column_int64(0, 1, 0);
		object->tenant_id = rpq_column_int64(0, 2, 0);
		object->pool_admin = rpq_column_int64(0, 3, 0) != 0;
		object->owner = rpq_column_int64(0, 4, 0) != 0;
		object->seen = rpq_column_int64(0, 5, 0) != 0;
	}
	SPI_finish();
	return found;
}

/* The one id of a statement that reads at most two; 0 when there is none, -1 when there are more. */
static int64
only_one(RpqStatement *statement)
{
	int64		id = 0;
	uint64		n;

	SPI_connect();
	n = rpq_read(statement, NULL, NULL);
	if (n == 1)
		id = rpq_column_int64(0, 1, 0);
	SPI_finish();
	return n > 1 ? -1 : id;
}

static void
must_be_named(ObjectKind kind, int64 only)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the %s must be named", kinds[kind].word),
			 only == 0 ? errdetail("There is no %s yet.", kinds[kind].word)
			 : errdetail("There is more than one %s.", kinds[kind].word)));
}

/*
 * The tenant that a name without one is in: the caller's, or the only one; else 22023.
 */
static int64
default_tenant(const Caller *caller)
{
	int64		only;

	if (caller->tenant_id != 0)
		return caller->tenant_id;
	only = only_one(&first_tenants);
	if (only <= 0)
		must_be_named(KIND_TENANT, only);
	return only;
}

int64
rpq_tenant_of(const Caller *caller, const char *name)
{
	Object		tenant;

	if (name == NULL)
		return default_tenant(caller);
	if (!rpq_object_by_name(caller, KIND_TENANT, name, &tenant) || !rpq_sees(caller, &tenant))
		rpq_no_such_name(KIND_TENANT, name);
	return tenant.id;
}

/*
 * False when there is none; the caller of this decides who may know.  A name is 'x', or 'tenant/x' for what is in a
 * tenant.
 */
bool
rpq_object_by_name(const Caller *caller, ObjectKind kind, const char *name, Object *object)
{
	Kind	   *k = &kinds[kind];
	char	   *tenant_name = NULL;
	char	   *own_name;
	int64		tenant_id = 0;

	if (k->by_name.sql == NULL)
		elog(ERROR, "a %s has no name", k->word);
	if (!k->in_tenant)
		own_name = rpq_check_name(k->word, name);
	else
	{
		own_name = rpq_split_name(k->word, name, &tenant_name);
		if (tenant_name != NULL)
		{
			Object		tenant;

			if (!find(&kinds[KIND_TENANT].by_name, caller, 0, tenant_name, 0, &tenant))
				return false;
			tenant_id = tenant.id;
		}
		else if (caller->tenant_id == 0 && only_one(&first_tenants) == 0)
			return false;
		else
			tenant_id = default_tenant(caller);
	}
	return find(&k->by_name, caller, tenant_id, own_name, 0, object);
}

bool
rpq_object_by_id(const Caller *caller, ObjectKind kind, int64 id, Object *object)
{
	return find(&kinds[kind].by_id, caller, 0, "", id, object);
}

PG_FUNCTION_INFO_V1(rpq_tenant_of_sql);
PG_FUNCTION_INFO_V1(rpq_find_account);
PG_FUNCTION_INFO_V1(rpq_find_cluster);
PG_FUNCTION_INFO_V1(rpq_find_type);
PG_FUNCTION_INFO_V1(rpq_find_pool);
PG_FUNCTION_INFO_V1(rpq_find_node);

/* An argument that is a name, or NULL. */
static char *
name_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* The id of what the caller may see; 22023 for NULL, 42704 otherwise. */
static int64
find_seen(ObjectKind kind, const char *name)
{
	const Caller *caller = rpq_known_caller();
	Object		object;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the %s must be given", kinds[kind].word)));
	if (!rpq_object_by_name(caller, kind, name, &object) || !rpq_sees(caller, &object))
		rpq_no_such_name(kind, name);
	return object.id;
}

Datum
rpq_tenant_of_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(rpq_tenant_of(rpq_known_caller(), name_argument(fcinfo, 0)));
}

/*
 * find_account(tenant_id bigint, name text): for those who administer something of the tenant, and may therefore name
 * any of its accounts; 'tenant/name' must name that tenant.
 */
Datum
rpq_find_account(PG_FUNCTION_ARGS)
{
	const Caller *caller = rpq_known_caller();
	char	   *name = name_argument(fcinfo, 1);
	char	   *tenant_name;
	char	   *own_name;
	Object		object;

	if (PG_ARGISNULL(0) || name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the account must be given")));
	own_name = rpq_split_name("account", name, &tenant_name);
	if (tenant_name != NULL &&
		(!find(&kinds[KIND_TENANT].by_name, caller, 0, tenant_name, 0, &object) ||
		 object.id != PG_GETARG_INT64(0)))
		rpq_no_such_name(KIND_ACCOUNT, name);
	if (!find(&kinds[KIND_ACCOUNT].by_name, caller, PG_GETARG_INT64(0), own_name, 0, &object))
		rpq_no_such_name(KIND_ACCOUNT, name);
	PG_RETURN_INT64(object.id);
}

Datum
rpq_find_cluster(PG_FUNCTION_ARGS)
{
	char	   *name = name_argument(fcinfo, 0);
	int64		only;

	if (name != NULL)
		PG_RETURN_INT64(find_seen(KIND_CLUSTER, name));
	only = only_one(&first_clusters);
	if (only <= 0)
		must_be_named(KIND_CLUSTER, only);
	PG_RETURN_INT64(only);
}

Datum
rpq_find_type(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(find_seen(KIND_INSTANCE_TYPE, name_argument(fcinfo, 0)));
}

Datum
rpq_find_pool(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(find_seen(KIND_POOL, name_argument(fcinfo, 0)));
}

Datum
rpq_find_node(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(find_seen(KIND_NODE, name_argument(fcinfo, 0)));
}

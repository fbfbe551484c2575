/*
 * rights.c
 *
 * The table of rights, and authorize: the first call of every public function.
 *
 * An action is the name of a public function (with what follows the dot when one function needs two rights).  A right
 * is a set of relations of the caller to the object; what one may neither do nor see is answered as if it did not
 * exist.  Order of refusals: no account (42501), no object given (22023), not there or not seen (42704), no right
 * (42501), fenced (RQ009).
 *
 * Writes the fence row through caller.c, nothing else; locks nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "api/api.h"
#include "store/spi.h"

/* Relations of a caller to an object. */
#define PLATFORM	0x01		/* platform admin */
#define ORG			0x02		/* organisation admin of the object's tenant */
#define POOL		0x04		/* admin of the object's pool; without object: of any pool */
#define OWNER		0x08		/* the workload is its own */
#define EXECUTOR	0x10		/* executor of the object's tenant */
#define DRIVER		0x20		/* driver */
#define SEES		0x40		/* may see the object; without object: any account or platform admin */

#define ORG_UP		(PLATFORM | ORG)
#define POOL_UP		(PLATFORM | ORG | POOL)
#define ANYONE		(PLATFORM | SEES)

/* Marks of an action. */
#define STORES		0x01		/* stores something: the fence row is written when there is none */
#define DECIDES		0x03		/* writes entries or takes turns: refused on a fenced database */
#define OPTIONAL	0x04		/* the object may be NULL: the right without object is needed */

typedef struct Action
{
	const char *name;
	ObjectKind	kind;
	int			who;
	int			marks;
} Action;

/* Sorted by name in bytes: looked up by bisection. */
static const Action actions[] = {
	{"add_nodes", KIND_TENANT, PLATFORM, DECIDES},
	{"add_to_group", KIND_USER_GROUP, ORG_UP, STORES},
	{"adopt_database", KIND_NONE, PLATFORM, 0},
	{"authorize", KIND_POOL, POOL_UP, DECIDES},
	{"authorize_list", KIND_POOL, POOL_UP, DECIDES},
	{"autoscale", KIND_NONE, PLATFORM, DECIDES},
	{"autoscale.dry_run", KIND_NONE, PLATFORM, 0},
	{"cancel_operation", KIND_OPERATION, POOL_UP, DECIDES},
	{"changes", KIND_NONE, ANYONE, 0},
	{"check_integrity", KIND_NONE, PLATFORM, 0},
	{"claim_pods", KIND_POOL, POOL_UP | EXECUTOR, DECIDES},
	{"claim_pods.queue", KIND_QUEUE, ORG_UP | EXECUTOR, DECIDES},
	{"claim_scaling_request", KIND_NONE, PLATFORM | DRIVER, DECIDES},
	{"connect_profile", KIND_POLICY, ORG_UP, DECIDES},
	{"connectable_profiles", KIND_POLICY, ORG_UP, 0},
	{"convert_pool", KIND_POOL, POOL_UP, DECIDES},
	{"cordon_node", KIND_NODE, POOL_UP, DECIDES},
	{"create_account", KIND_TENANT, ORG_UP, STORES},
	{"create_autoscaler", KIND_TENANT, PLATFORM, STORES},
	{"create_cluster", KIND_NONE, PLATFORM, STORES},
	{"create_instance_type", KIND_NONE, PLATFORM, STORES},
	{"create_policy", KIND_TENANT, ORG_UP, DECIDES},
	{"create_pool", KIND_TENANT, ORG_UP, DECIDES},
	{"create_profile", KIND_TENANT, ORG_UP, STORES},
	{"create_project_group", KIND_TENANT, ORG_UP, STORES},
	{"create_tenant", KIND_NONE, PLATFORM, STORES},
	{"create_user_group", KIND_TENANT, ORG_UP, STORES},
	{"create_workload_type", KIND_TENANT, ORG_UP, STORES},
	{"deauthorize", KIND_POOL, POOL_UP, DECIDES},
	{"defrag_preview", KIND_POOL, POOL_UP, 0},
	{"defragment", KIND_POOL, POOL_UP, DECIDES},
	{"delete_account", KIND_ACCOUNT, ORG_UP, DECIDES},
	{"delete_autoscaler", KIND_TENANT, PLATFORM, DECIDES},
	{"delete_policy", KIND_POLICY, ORG_UP, DECIDES},
	{"delete_pool", KIND_POOL, POOL_UP, DECIDES},
	{"delete_profile", KIND_PROFILE, ORG_UP, DECIDES},
	{"delete_project_group", KIND_PROJECT_GROUP, ORG_UP, STORES},
	{"delete_user_group", KIND_USER_GROUP, ORG_UP, STORES},
	{"delete_workload", KIND_WORKLOAD, POOL_UP | OWNER, DECIDES},
	{"delete_workload_type", KIND_WORKLOAD_TYPE, ORG_UP, STORES},
	{"disconnect_profile", KIND_POLICY, ORG_UP, DECIDES},
	{"drain_node", KIND_NODE, POOL_UP, DECIDES},
	{"edit_account", KIND_ACCOUNT, ORG_UP, DECIDES},
	{"edit_autoscaler", KIND_TENANT, PLATFORM, STORES},
	{"edit_instance_type", KIND_INSTANCE_TYPE, PLATFORM, STORES},
	{"edit_policy", KIND_POLICY, ORG_UP, DECIDES},
	{"edit_pool", KIND_POOL, POOL_UP, DECIDES},
	{"edit_profile", KIND_PROFILE, ORG_UP, STORES},
	{"edit_workload", KIND_WORKLOAD, POOL_UP | OWNER, DECIDES},
	{"enqueue", KIND_WORKLOAD, POOL_UP | OWNER, DECIDES},
	{"explain", KIND_WORKLOAD, ANYONE, 0},
	{"export_members_csv", KIND_POOL, POOL_UP, 0},
	{"fragmentation", KIND_POOL, ANYONE, 0},
	{"grant_pool_admin", KIND_POOL, POOL_UP, DECIDES},
	{"limits_at", KIND_POOL, ANYONE, 0},
	{"member_names", KIND_POOL, POOL_UP, 0},
	{"member_usage_at", KIND_POOL, ANYONE, 0},
	{"metering", KIND_NONE, ANYONE, 0},
	{"move_nodes", KIND_POOL, POOL_UP, DECIDES},
	{"node_map", KIND_POOL, ANYONE, 0},
	{"node_map_svg", KIND_POOL, ANYONE, 0},
	{"now", KIND_NONE, ANYONE, 0},
	{"pod_manifest", KIND_POD, POOL_UP | OWNER | EXECUTOR, 0},
	{"provision_profiles", KIND_TENANT, ORG_UP, DECIDES},
	{"remove_from_group", KIND_USER_GROUP, ORG_UP, DECIDES},
	{"remove_nodes", KIND_NODE, PLATFORM, DECIDES},
	{"rename_pool", KIND_POOL, POOL_UP, DECIDES},
	{"report_checkpoint", KIND_WORKLOAD, POOL_UP | OWNER | EXECUTOR, DECIDES},
	{"report_finished", KIND_WORKLOAD, POOL_UP | OWNER | EXECUTOR, DECIDES},
	{"report_scaling", KIND_NONE, PLATFORM | DRIVER, DECIDES},
	{"report_started", KIND_WORKLOAD, POOL_UP | OWNER | EXECUTOR, DECIDES},
	{"requeue", KIND_WORKLOAD, POOL_UP | OWNER | EXECUTOR, DECIDES},
	{"reset_profiles", KIND_TENANT, ORG_UP, STORES},
	{"resize_pool", KIND_POOL, POOL_UP, DECIDES},
	{"retention", KIND_NONE, PLATFORM, DECIDES},
	{"retry_operation", KIND_OPERATION, POOL_UP, DECIDES},
	{"revoke_pool_admin", KIND_POOL, POOL_UP, DECIDES},
	{"run_operations", KIND_NONE, POOL_UP, DECIDES},
	{"sample_usage", KIND_NONE, PLATFORM, DECIDES},
	{"schedule", KIND_POOL, POOL_UP, DECIDES | OPTIONAL},
	{"schedule.dry_run", KIND_POOL, ANYONE, OPTIONAL},
	{"schedule_jobs", KIND_NONE, PLATFORM, STORES},
	{"selectable_pools", KIND_WORKLOAD_TYPE, ANYONE, 0},
	{"set_node_health", KIND_NODE, POOL_UP, DECIDES},
	{"set_pod_template", KIND_QUEUE, ORG_UP, STORES},
	{"stop", KIND_WORKLOAD, POOL_UP | OWNER, DECIDES},
	{"submit", KIND_POOL, ANYONE, DECIDES | OPTIONAL},
	{"submit.queue", KIND_QUEUE, ANYONE, DECIDES},
	{"sync_node", KIND_NODE, ORG_UP | EXECUTOR, DECIDES},
	{"trend_svg", KIND_POOL, ANYONE, 0},
	{"uncordon_node", KIND_NODE, POOL_UP, DECIDES},
	{"unschedule_jobs", KIND_NONE, PLATFORM, 0},
	{"update_members", KIND_POOL, POOL_UP, DECIDES},
	{"usage_at", KIND_POOL, ANYONE, 0},
	{"usage_between", KIND_POOL, ANYONE, 0},
	{"validate_profiles", KIND_TENANT, ORG_UP, 0},
	{"version", KIND_NONE, ANYONE, 0},
	{"wait_for_operation", KIND_OPERATION, POOL_UP, 0},
};

static RpqStatement administers_any = {
	"SELECT FROM rpq_store.pool_admin WHERE account_id = $1 LIMIT 1",
	1, {INT8OID}
};

static int
compare_action(const void *a, const void *b)
{
	return strcmp((const char *) a, ((const Action *) b)->name);
}

static const Action *
find_action(const char *name)
{
	const Action *action = bsearch(name, actions, lengthof(actions), sizeof(Action), compare_action);

	if (action == NULL)
		elog(ERROR, "no row for \"%s\" in the table of rights", name);
	return action;
}

static bool
administers_any_pool(const Caller *caller)
{
	Datum		values[1];
	bool		found;

	values[0] = Int64GetDatum(caller->account_id);
	SPI_connect();
	found = rpq_read(&administers_any, values, NULL) > 0;
	SPI_finish();
	return found;
}

/*
 * Has the caller the right?  object NULL: an action without object.
 */
static bool
may(const Caller *caller, const Action *action, const Object *object)
{
	int			who = action->who;
	bool		here = object == NULL || object->tenant_id == caller->tenant_id;

	if (caller->platform_admin && (who & PLATFORM))
		return true;
	if (caller->account_id == 0)
		return false;
	if ((who & ORG) && caller->org_admin && here)
		return true;
	if ((who & EXECUTOR) && caller->executor && here)
		return true;
	if ((who & DRIVER) && caller->driver)
		return true;
	if ((who & SEES) && (object == NULL || rpq_sees(caller, object)))
		return true;
	if ((who & OWNER) && object != NULL && object->owner)
		return true;
	if (who & POOL)
		return object != NULL ? object->pool_admin : administers_any_pool(caller);
	return false;
}

/*
 * "platform admins, organisation admins, admins of the pool": who has the right, for the refusal's detail.
 */
static const char *
who_may(int who)
{
	static const struct
	{
		int			bit;
		const char *words;
	}			relations[] = {
		{PLATFORM, "platform admins"}, {ORG, "organisation admins of the tenant"}, {POOL, "admins of the pool"},
		{OWNER, "the owner"}, {EXECUTOR, "executors of the tenant"}, {DRIVER, "drivers"}
	};
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(relations); i++)
	{
		if (who & relations[i].bit)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", relations[i].words);
	}
	return list.data;
}

static void
refuse(const Caller *caller, const Action *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for %s", action->name),
			 errdetail("%s \"%s\" is none of those who may: %s.",
					   caller->account ? "Account" : "Role", caller->actor, who_may(action->who))));
}

/*
 * The right is there: now the fence.
 */
static int64
pass(const Action *action, int64 id)
{
	if ((action->marks & DECIDES) == DECIDES)
		rpq_check_fence();
	if (action->marks & STORES)
		rpq_write_fence();
	return id;
}

static int64
authorize_without(const Caller *caller, const Action *action)
{
	Object		object;

	if (action->kind == KIND_TENANT)
	{
		if (!rpq_object_by_id(caller, KIND_TENANT, rpq_tenant_of(caller, NULL), &object))
			elog(ERROR, "the caller's tenant is not there");
		if (!may(caller, action, &object))
			refuse(caller, action);
		return pass(action, object.id);
	}
	if (action->kind != KIND_NONE && !(action->marks & OPTIONAL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the %s must be given", rpq_kind_word(action->kind))));
	if (!may(caller, action, NULL))
		refuse(caller, action);
	return pass(action, 0);
}

int64
rpq_authorize(const char *name, const char *object_name)
{
	const Action *action = find_action(name);
	const Caller *caller = rpq_known_caller();
	Object		object;
	bool		found;

	if (object_name == NULL || action->kind == KIND_NONE)
		return authorize_without(caller, action);
	found = rpq_object_by_name(caller, action->kind, object_name, &object);
	if (!found || !may(caller, action, &object))
	{
		if (!found || !rpq_sees(caller, &object))
			rpq_no_such_name(action->kind, object_name);
		refuse(caller, action);
	}
	return pass(action, object.id);
}

int64
rpq_authorize_id(const char *name, int64 id)
{
	const Action *action = find_action(name);
	const Caller *caller = rpq_known_caller();
	Object		object;
	bool		found;

	if (action->kind == KIND_NONE)
		return authorize_without(caller, action);
	found = rpq_object_by_id(caller, action->kind, id, &object);
	if (!found || !may(caller, action, &object))
	{
		if (!found || !rpq_sees(caller, &object))
			rpq_no_such_id(action->kind, id);
		refuse(caller, action);
	}
	return pass(action, object.id);
}

PG_FUNCTION_INFO_V1(rpq_authorize_sql);
PG_FUNCTION_INFO_V1(rpq_authorize_id_sql);

/*
 * authorize(action text, object text) → bigint
 */
Datum
rpq_authorize_sql(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		elog(ERROR, "no action is given");
	PG_RETURN_INT64(rpq_authorize(text_to_cstring(PG_GETARG_TEXT_PP(0)),
								  PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1))));
}

/*
 * authorize_id(action text, object_id bigint) → bigint
 */
Datum
rpq_authorize_id_sql(PG_FUNCTION_ARGS)
{
	const char *action;

	if (PG_ARGISNULL(0))
		elog(ERROR, "no action is given");
	action = text_to_cstring(PG_GETARG_TEXT_PP(0));
	if (PG_ARGISNULL(1))
		PG_RETURN_INT64(authorize_without(rpq_known_caller(), find_action(action)));
	PG_RETURN_INT64(rpq_authorize_id(action, PG_GETARG_INT64(1)));
}

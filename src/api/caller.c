/*
 * caller.c
 *
 * Who asks, and whether this database may act at all.
 *
 * The caller is the role in force outside any SECURITY DEFINER function, so that neither our own functions nor those of
 * an application change who asks.  A member of the role that owns the extension is platform admin; everyone else is
 * the account with that db_role; membership in any other role grants nothing.  rpq.account replaces the account for
 * those who may act for another; from then on only the named account's rights count.
 *
 * Where the server runs a table owner's code for somebody else (index expressions under ANALYZE or autovacuum, a
 * materialized view under REFRESH), the role in force outside is the maintainer's, not the owner's: there nobody asks.
 *
 * Reads account, tenant and fence; writes fence (one row, ON CONFLICT DO NOTHING: the first writers wait for each
 * other, nobody after them).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "api/api.h"
#include "errors.h"
#include "rpq.h"
#include "store/spi.h"

/* Columns of rpq_store.account that are read without a plan; new ones are added behind these. */
enum
{
	ACCOUNT_ID = 1,
	ACCOUNT_TENANT_ID,
	ACCOUNT_NAME,
	ACCOUNT_DB_ROLE,
	ACCOUNT_ORG_ADMIN,
	ACCOUNT_GATEWAY,
	ACCOUNT_EXECUTOR,
	ACCOUNT_DRIVER
};

static RpqStatement account_of_tenant = {
	"SELECT a.*"
	" FROM rpq_store.account a JOIN rpq_store.tenant t USING (tenant_id)"
	" WHERE a.tenant_id = $1 AND a.name = $2 AND a.deleted_at IS NULL AND ($3 IS NULL OR t.name = $3)",
	3, {INT8OID, TEXTOID, TEXTOID}
};

static RpqStatement account_of_any_tenant = {
	"SELECT a.*"
	" FROM rpq_store.tenant t JOIN rpq_store.account a ON a.tenant_id = t.tenant_id AND a.name = $1"
	" WHERE a.deleted_at IS NULL AND ($2 IS NULL OR t.name = $2) LIMIT 2",
	2, {TEXTOID, TEXTOID}
};

static RpqStatement read_fence = {
	"SELECT system_identifier = $1 AND database_oid::pg_catalog.int8 = $2 FROM rpq_store.fence",
	2, {TEXTOID, INT8OID},
	.planner_is_free = true
};

static RpqStatement write_fence = {
	"INSERT INTO rpq_store.fence (system_identifier, database_oid) VALUES ($1, $2::pg_catalog.oid)"
	" ON CONFLICT DO NOTHING",
	2, {TEXTOID, INT8OID}
};

static void
take_account(Caller *caller, HeapTuple row, TupleDesc desc, MemoryContext context)
{
	bool		isnull;
	MemoryContext old = MemoryContextSwitchTo(context);

	caller->account_id = DatumGetInt64(heap_getattr(row, ACCOUNT_ID, desc, &isnull));
	caller->tenant_id = DatumGetInt64(heap_getattr(row, ACCOUNT_TENANT_ID, desc, &isnull));
	caller->account = TextDatumGetCString(heap_getattr(row, ACCOUNT_NAME, desc, &isnull));
	caller->org_admin = DatumGetBool(heap_getattr(row, ACCOUNT_ORG_ADMIN, desc, &isnull));
	caller->gateway = DatumGetBool(heap_getattr(row, ACCOUNT_GATEWAY, desc, &isnull));
	caller->executor = DatumGetBool(heap_getattr(row, ACCOUNT_EXECUTOR, desc, &isnull));
	caller->driver = DatumGetBool(heap_getattr(row, ACCOUNT_DRIVER, desc, &isnull));
	caller->actor = caller->account;
	MemoryContextSwitchTo(old);
}

/*
 * The account of a role, by its index, in the active snapshot.  Without a plan, since this runs in every call and in
 * every query of a view.
 */
static bool
account_of_role(Caller *caller, const char *role)
{
	Oid			store = get_namespace_oid("rpq_store", true);
	Oid			table = OidIsValid(store) ? get_relname_relid("account", store) : InvalidOid;
	Oid			index = OidIsValid(store) ? get_relname_relid("account_db_role", store) : InvalidOid;
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	row;

	if (!OidIsValid(table) || !OidIsValid(index))
		return false;
	rel = table_open(table, AccessShareLock);
	ScanKeyInit(&key, ACCOUNT_DB_ROLE, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(role));
	scan = systable_beginscan(rel, index, true, GetActiveSnapshot(), 1, &key);
	row = systable_getnext(scan);	/* the index has none that are deleted */
	if (row != NULL)
		take_account(caller, row, RelationGetDescr(rel), CurrentMemoryContext);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return caller->account_id != 0;
}

/*
 * Membership in the role that owns the extension; superusers are members of every role.
 */
bool
rpq_role_is_platform_admin(Oid role)
{
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	row;
	Oid			owner = InvalidOid;

	if (superuser_arg(role))
		return true;
	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ, CStringGetDatum("rpq"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	row = systable_getnext(scan);
	if (row != NULL)
		owner = ((Form_pg_extension) GETSTRUCT(row))->extowner;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return OidIsValid(owner) && is_member_of_role(role, owner);
}

static void
not_known(Caller *caller, int sqlstate, const char *error, const char *hint)
{
	caller->known = false;
	caller->platform_admin = caller->org_admin = caller->gateway = caller->executor = caller->driver = false;
	caller->account_id = caller->tenant_id = 0;
	caller->account = caller->gateway_account = caller->on_behalf_of = NULL;
	caller->actor = caller->db_role;
	caller->sqlstate = sqlstate;
	caller->error = error;
	caller->hint = hint;
}

/*
 * The account that rpq.account names takes the place of the caller's own.  What a gateway may not see is answered as
 * what does not exist.
 */
static void
act_for(Caller *caller)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *slash = strchr(rpq_account, '/');
	const char *problem;
	char	   *tenant = NULL;
	char	   *name;
	Datum		values[3];
	char		nulls[4] = "   ";
	uint64		found = 0;

	name = rpq_normal_name(slash ? slash + 1 : rpq_account, &problem);
	if (slash)
		tenant = rpq_normal_name(pnstrdup(rpq_account, slash - rpq_account), &problem);
	SPI_connect();
	if (name == NULL || (slash && tenant == NULL))
		found = 0;				/* nothing can have such a name */
	else if (caller->platform_admin)
	{
		values[0] = CStringGetTextDatum(name);
		values[1] = tenant ? CStringGetTextDatum(tenant) : (Datum) 0;
		nulls[1] = tenant ? ' ' : 'n';
		found = rpq_read(&account_of_any_tenant, values, nulls);
	}
	else
	{
		values[0] = Int64GetDatum(caller->tenant_id);
		values[1] = CStringGetTextDatum(name);
		values[2] = tenant ? CStringGetTextDatum(tenant) : (Datum) 0;
		nulls[2] = tenant ? ' ' : 'n';
		found = rpq_read(&account_of_tenant, values, nulls);
	}
	if (found == 1)
	{
		caller->gateway_account = caller->platform_admin ? NULL : caller->account;
		caller->platform_admin = false;
		take_account(caller, SPI_tuptable->vals[0], SPI_tuptable->tupdesc, context);
		caller->on_behalf_of = caller->account;
	}
	SPI_finish();
	if (found == 0)
		not_known(caller, ERRCODE_UNDEFINED_OBJECT, psprintf("account \"%s\" does not exist", rpq_account),
				  "rpq.account names the account that this session acts for.");
	else if (found > 1)
		not_known(caller, ERRCODE_INVALID_PARAMETER_VALUE,
				  psprintf("account \"%s\" exists in several tenants", rpq_account),
				  "Write 'tenant/account' in rpq.account.");
}

const Caller *
rpq_caller(void)
{
	Caller	   *caller = palloc0(sizeof(Caller));
	char	   *role = GetUserNameFromId(GetOuterUserId(), true);

	/* a role that was dropped under its session has no name and matches no account */
	caller->db_role = caller->actor = role ? role : psprintf("%u", GetOuterUserId());
	if (InSecurityRestrictedOperation())
	{
		not_known(caller, ERRCODE_INSUFFICIENT_PRIVILEGE, "rpq cannot be used within a security-restricted operation",
				  "Index expressions and materialized views are evaluated for whoever maintains them.");
		return caller;
	}
	if (role != NULL)
	{
		caller->platform_admin = rpq_role_is_platform_admin(GetOuterUserId());
		caller->known = account_of_role(caller, role) || caller->platform_admin;
	}
	if (!caller->known)
		not_known(caller, ERRCODE_INSUFFICIENT_PRIVILEGE, psprintf("role \"%s\" has no account", caller->db_role),
				  "An organisation admin maps the role with rpq.create_account(name, db_role => ...).");
	if (rpq_account != NULL && rpq_account[0] != '\0')
	{
		if (caller->platform_admin || caller->gateway)
			act_for(caller);
		else
			not_known(caller, ERRCODE_INSUFFICIENT_PRIVILEGE,
					  psprintf("role \"%s\" may not act for another account", caller->db_role),
					  "Only gateway accounts and platform admins may set rpq.account; RESET rpq.account.");
	}
	return caller;
}

const Caller *
rpq_known_caller(void)
{
	const Caller *caller = rpq_caller();

	if (!caller->known)
		ereport(ERROR,
				(errcode(caller->sqlstate),
				 errmsg("%s", caller->error),
				 errhint("%s", caller->hint)));
	return caller;
}

/* This database's identity, in the order in which both statements take it. */
static void
identity(Datum *values)
{
	values[0] = CStringGetTextDatum(psprintf(UINT64_FORMAT, GetSystemIdentifier()));
	values[1] = Int64GetDatum((int64) MyDatabaseId);
}

/*
 * 1: the row is this database's, 0: there is none, -1: it is another's.
 */
static int
fence_state(void)
{
	Datum		values[2];
	int			state = 0;

	SPI_connect();
	identity(values);
	if (rpq_read(&read_fence, values, NULL) == 1)
		state = rpq_column_int64(0, 1, 0) != 0 ? 1 : -1;
	SPI_finish();
	return state;
}

bool
rpq_is_fenced(void)
{
	return fence_state() < 0;
}

void
rpq_check_fence(void)
{
	if (rpq_is_fenced())
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_FENCED),
				 errmsg("this database is a copy or was restored, and is fenced"),
				 errdetail("Its fence was written in another cluster or database; acting here could drive the same"
						   " machines twice."),
				 errhint("When the original no longer acts, take over with SELECT rpq.adopt_database().")));
}

void
rpq_write_fence(void)
{
	Datum		values[2];

	if (fence_state() != 0)
		return;
	SPI_connect();
	identity(values);
	rpq_exec(&write_fence, values, NULL);
	SPI_finish();
}

PG_FUNCTION_INFO_V1(rpq_caller_sql);
PG_FUNCTION_INFO_V1(rpq_is_fenced_sql);
PG_FUNCTION_INFO_V1(rpq_my_account);
PG_FUNCTION_INFO_V1(rpq_my_tenant);
PG_FUNCTION_INFO_V1(rpq_is_platform_admin);
PG_FUNCTION_INFO_V1(rpq_is_org_admin);

static Datum
text_or_null(const char *string, bool *isnull)
{
	*isnull = string == NULL;
	return string ? CStringGetTextDatum(string) : (Datum) 0;
}

/*
 * caller() → rpq_store.caller_identity.  One who is not known is a row without any right.
 */
Datum
rpq_caller_sql(PG_FUNCTION_ARGS)
{
	const Caller *caller = rpq_caller();
	TupleDesc	tupdesc;
	Datum		values[11];
	bool		nulls[11] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE || tupdesc->natts != lengthof(values))
		elog(ERROR, "caller_identity has not the shape that the library knows");
	values[0] = CStringGetTextDatum(caller->db_role);
	values[1] = BoolGetDatum(caller->platform_admin);
	values[2] = Int64GetDatum(caller->account_id);
	nulls[2] = caller->account_id == 0;
	values[3] = text_or_null(caller->account, &nulls[3]);
	values[4] = Int64GetDatum(caller->tenant_id);
	nulls[4] = caller->account_id == 0;
	values[5] = BoolGetDatum(caller->org_admin);
	values[6] = BoolGetDatum(caller->executor);
	values[7] = BoolGetDatum(caller->driver);
	values[8] = text_or_null(caller->gateway_account, &nulls[8]);
	values[9] = CStringGetTextDatum(caller->actor);
	values[10] = text_or_null(caller->on_behalf_of, &nulls[10]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

Datum
rpq_is_fenced_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(rpq_is_fenced());
}

Datum
rpq_my_account(PG_FUNCTION_ARGS)
{
	const Caller *caller = rpq_caller();

	if (caller->account_id == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(caller->account_id);
}

Datum
rpq_my_tenant(PG_FUNCTION_ARGS)
{
	const Caller *caller = rpq_caller();

	if (caller->account_id == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(caller->tenant_id);
}

Datum
rpq_is_platform_admin(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(rpq_caller()->platform_admin);
}

Datum
rpq_is_org_admin(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(rpq_caller()->org_admin);
}

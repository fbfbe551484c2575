-- Access: who asks, what they may do, what they may see.  The decisions are in src/api (caller.c, rights.c, objects.c).
--
-- Everything here reads configuration only, but for the fence row that the first storing call writes.  The functions
-- are SECURITY DEFINER, and find the caller by the role in force outside of them.

-- Guard

CREATE OR REPLACE FUNCTION rpq_store.authorize(action text, object text DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_authorize_sql';
COMMENT ON FUNCTION rpq_store.authorize(text, text) IS
'first call of every public function: action is its name, object the name of what it is about (name or '
'tenant/name; NULL for what is made in a tenant: the caller''s tenant or the only one). Returns the object''s id, '
'0 without object. Errors: 42501 no account, or seen but not permitted; 22023 no object given, or no possible '
'name; 42704 not there or not seen; RQ009 fenced';

CREATE OR REPLACE FUNCTION rpq_store.authorize_id(action text, object_id bigint) RETURNS bigint
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_authorize_id_sql';
COMMENT ON FUNCTION rpq_store.authorize_id(text, bigint) IS
'as authorize, for an object that is given by its id';

CREATE OR REPLACE FUNCTION rpq_store.caller() RETURNS rpq_store.caller_identity
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_caller_sql';
COMMENT ON FUNCTION rpq_store.caller() IS
'who asks; never raises: one without account, or who sets rpq.account without being allowed to, is a row without '
'any right';

CREATE OR REPLACE FUNCTION rpq_store.is_fenced() RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_is_fenced_sql';
COMMENT ON FUNCTION rpq_store.is_fenced() IS
'true when the fence row is that of another cluster or database: this one is a copy, and only shows until '
'rpq.adopt_database()';

-- Names

CREATE OR REPLACE FUNCTION rpq_store.check_name(what text, name text) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_check_name_sql';
COMMENT ON FUNCTION rpq_store.check_name(text, text) IS
'the name as it is stored: without spaces around it, in normal form C, 1 to 63 characters, no control or format '
'characters, no slash. Error: 22023, naming what it was for';

CREATE OR REPLACE FUNCTION rpq_store.tenant_of(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_tenant_of_sql';
COMMENT ON FUNCTION rpq_store.tenant_of(text) IS
'the tenant of that name that the caller may see (42704); NULL: the caller''s own, or the only one, else 22023';

CREATE OR REPLACE FUNCTION rpq_store.find_account(tenant_id bigint, name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_account';
COMMENT ON FUNCTION rpq_store.find_account(bigint, text) IS
'an account of that tenant, for those who administer something of it. Errors: 42704, 22023 for NULL';

CREATE OR REPLACE FUNCTION rpq_store.find_cluster(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_cluster';
COMMENT ON FUNCTION rpq_store.find_cluster(text) IS
'a cluster (42704); NULL: the only one, else 22023';

CREATE OR REPLACE FUNCTION rpq_store.find_type(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_type';
COMMENT ON FUNCTION rpq_store.find_type(text) IS
'an instance type. Errors: 42704, 22023 for NULL';

CREATE OR REPLACE FUNCTION rpq_store.find_pool(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_pool';
COMMENT ON FUNCTION rpq_store.find_pool(text) IS
'a pool that the caller may see. Errors: 42704, 22023 for NULL';

CREATE OR REPLACE FUNCTION rpq_store.find_node(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_node';
COMMENT ON FUNCTION rpq_store.find_node(text) IS
'a node of a pool that the caller may see. Errors: 42704, 22023 for NULL';

-- Filters of the views: each is one look-up, meant to stand in a scalar sub-select so that it runs once a query.  One
-- who is nobody gets NULL, false or an empty array, so that views are empty and raise nothing.

CREATE OR REPLACE FUNCTION rpq_store.my_account() RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_my_account';
COMMENT ON FUNCTION rpq_store.my_account() IS 'the account whose rights the caller uses; NULL: none';

CREATE OR REPLACE FUNCTION rpq_store.my_tenant() RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_my_tenant';
COMMENT ON FUNCTION rpq_store.my_tenant() IS 'the tenant of that account; NULL: none';

CREATE OR REPLACE FUNCTION rpq_store.is_platform_admin() RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_is_platform_admin';
COMMENT ON FUNCTION rpq_store.is_platform_admin() IS 'true for a platform admin that does not act for an account';

CREATE OR REPLACE FUNCTION rpq_store.is_org_admin() RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_is_org_admin';
COMMENT ON FUNCTION rpq_store.is_org_admin() IS 'true for an organisation admin, of its tenant (my_tenant)';

CREATE OR REPLACE FUNCTION rpq_store.seen_pools() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity := rpq_store.caller();
BEGIN
	IF me.platform_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p);
	ELSIF me.account_id IS NULL THEN
		RETURN '{}'::bigint[];
	ELSIF me.org_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p WHERE p.tenant_id = me.tenant_id);
	END IF;
	RETURN ARRAY(
		SELECT p.pool_id FROM rpq_store.pool p
		WHERE p.tenant_id = me.tenant_id AND p.type = 'shared' AND p.open AND p.status <> 'deleted'
		UNION
		SELECT m.pool_id FROM rpq_store.member m WHERE m.account_id = me.account_id
		UNION
		SELECT a.pool_id FROM rpq_store.pool_admin a WHERE a.account_id = me.account_id);
END
$$;
COMMENT ON FUNCTION rpq_store.seen_pools() IS
'the pools that the caller may see: all, those of its tenant (deleted ones included), or those that it administers '
'or is a member of and open shared ones';

CREATE OR REPLACE FUNCTION rpq_store.administered_pools() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity := rpq_store.caller();
BEGIN
	IF me.platform_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p);
	ELSIF me.account_id IS NULL THEN
		RETURN '{}'::bigint[];
	ELSIF me.org_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p WHERE p.tenant_id = me.tenant_id);
	END IF;
	RETURN ARRAY(SELECT a.pool_id FROM rpq_store.pool_admin a WHERE a.account_id = me.account_id);
END
$$;
COMMENT ON FUNCTION rpq_store.administered_pools() IS
'the pools that the caller administers: all, those of its tenant (deleted ones included), or those granted to it';

CREATE OR REPLACE FUNCTION rpq_store.seen_tenants() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity := rpq_store.caller();
BEGIN
	IF me.platform_admin THEN
		RETURN ARRAY(SELECT t.tenant_id FROM rpq_store.tenant t);
	END IF;
	RETURN array_remove(ARRAY[me.tenant_id], NULL);
END
$$;
COMMENT ON FUNCTION rpq_store.seen_tenants() IS
'the tenants that the caller may see: all for a platform admin, else its own';

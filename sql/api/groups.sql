-- Groups, workload types, and admins of pools.
--
-- Writes user_group, group_account, project_group, workload_type and pool_admin under row locks (and group_id of
-- deleted policies, when their group goes).  What takes a right away (remove_from_group, revoke_pool_admin) takes the
-- turns of the queues, or of the pool, first.

-- User groups

CREATE OR REPLACE FUNCTION rpq.create_user_group(name text, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_user_group'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_user_group', tenant);
	new_name text := rpq_store.check_name('user group', name);
	new_id bigint;
BEGIN
	INSERT INTO rpq_store.user_group AS g (tenant_id, name) VALUES (home, new_name)
	ON CONFLICT DO NOTHING RETURNING g.group_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('user group', new_name);
	END IF;
	PERFORM rpq_store.record('create_user_group', 'user_group', new_id, new_name, home, NULL, NULL,
		jsonb_build_object('name', new_name));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_user_group(text, text) IS
'makes a user group, to which policies apply, in a tenant (NULL: the caller''s, or the only one). Returns its id. '
'Errors: 22023, 42704 no such tenant, 42710 the name is taken, 42501. Organisation admins of the tenant, platform '
'admins';

CREATE OR REPLACE FUNCTION rpq.delete_user_group(user_group text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_user_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_user_group', user_group);
	was rpq_store.user_group;
	n bigint;
	members jsonb;
BEGIN
	-- FOR UPDATE keeps out a policy that is being made for the group
	SELECT g.* INTO was FROM rpq_store.user_group g WHERE g.group_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', user_group);
	END IF;
	SELECT count(*) INTO n FROM rpq_store.policy p WHERE p.group_id = id AND p.deleted_at IS NULL;
	IF n > 0 THEN
		PERFORM rpq_store.raise_in_use('user group', was.name,
			n || CASE WHEN n = 1 THEN ' policy' ELSE ' policies' END);
	END IF;
	UPDATE rpq_store.policy p SET group_id = NULL WHERE p.group_id = id;	-- deleted policies
	WITH gone AS (DELETE FROM rpq_store.group_account g WHERE g.group_id = id RETURNING g.account_id)
	SELECT coalesce(jsonb_agg(a.name ORDER BY a.name), '[]') INTO members
	FROM gone JOIN rpq_store.account a USING (account_id);
	DELETE FROM rpq_store.user_group g WHERE g.group_id = id;
	PERFORM rpq_store.record('delete_user_group', 'user_group', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('name', was.name, 'accounts', members), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_user_group(text) IS
'deletes a user group; its accounts stay. Errors: RQ006 while a policy applies to it, 42704, 22023 NULL, 42501. '
'Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.add_to_group(user_group text, accounts text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'add_to_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('add_to_group', user_group);
	into_group rpq_store.user_group;
	ids bigint[];
BEGIN
	SELECT g.* INTO into_group FROM rpq_store.user_group g WHERE g.group_id = id FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', user_group);
	END IF;
	ids := rpq_store.find_accounts(into_group.tenant_id, accounts);
	WITH added AS (
		INSERT INTO rpq_store.group_account AS g (group_id, account_id)
		SELECT id, a.account_id FROM rpq_store.account a WHERE a.account_id = ANY (ids) ORDER BY a.account_id
		ON CONFLICT DO NOTHING RETURNING g.account_id)
	SELECT array_agg(added.account_id) INTO ids FROM added;
	PERFORM rpq_store.record('add_to_group', 'group_account', a.account_id, a.name, a.tenant_id, NULL, NULL,
		jsonb_build_object('user_group', into_group.name))
	FROM rpq_store.account a WHERE a.account_id = ANY (ids) ORDER BY a.name;
END
$$;
COMMENT ON FUNCTION rpq.add_to_group(text, text[]) IS
'puts accounts into a user group of their tenant; those in it already stay. Errors: 42704 naming all unknown '
'accounts, or no such group; 22023 no account, or NULL; 42501. Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq_store.group_queues(group_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT q.queue_id FROM rpq_store.queue AS q JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
				 WHERE y.group_id = $1 AND q.deleted_at IS NULL ORDER BY q.queue_id)
$$;
COMMENT ON FUNCTION rpq_store.group_queues(bigint) IS
'the queues of all policies that apply to a user group';

CREATE OR REPLACE FUNCTION rpq.remove_from_group(user_group text, accounts text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'remove_from_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('remove_from_group', user_group);
	from_group rpq_store.user_group;
	ids bigint[];
	queues bigint[] := rpq_store.group_queues(id);
BEGIN
	PERFORM rpq_store.take_turns(queues) WHERE cardinality(queues) > 0;
	queues := rpq_store.take_more(rpq_store.group_queues(id), queues);
	SELECT g.* INTO from_group FROM rpq_store.user_group g WHERE g.group_id = id FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', user_group);
	END IF;
	ids := rpq_store.find_accounts(from_group.tenant_id, accounts);
	WITH removed AS (
		DELETE FROM rpq_store.group_account g WHERE g.group_id = id AND g.account_id = ANY (ids)
		RETURNING g.account_id)
	SELECT array_agg(removed.account_id) INTO ids FROM removed;
	PERFORM rpq_store.draft_outsiders(queues, format('removed from user group "%s"', from_group.name))
	WHERE cardinality(ids) > 0;
	PERFORM rpq_store.record('remove_from_group', 'group_account', a.account_id, a.name, a.tenant_id, NULL,
		jsonb_build_object('user_group', from_group.name), NULL)
	FROM rpq_store.account a WHERE a.account_id = ANY (ids) ORDER BY a.name;
END
$$;
COMMENT ON FUNCTION rpq.remove_from_group(text, text[]) IS
'takes accounts out of a user group; what they have waiting in its queues becomes draft, what runs goes on. '
'Errors: 42704 naming all unknown accounts, or no such group; 22023 no account, or NULL; 40001 its queues changed at '
'the same time; 42501; RQ009. Organisation admins of the tenant, platform admins';

-- Project groups and workload types

CREATE OR REPLACE FUNCTION rpq.create_project_group(name text, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_project_group'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_project_group', tenant);
	new_name text := rpq_store.check_name('project group', name);
	new_id bigint;
BEGIN
	INSERT INTO rpq_store.project_group AS g (tenant_id, name) VALUES (home, new_name)
	ON CONFLICT DO NOTHING RETURNING g.project_group_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('project group', new_name);
	END IF;
	PERFORM rpq_store.record('create_project_group', 'project_group', new_id, new_name, home, NULL, NULL,
		jsonb_build_object('name', new_name));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_project_group(text, text) IS
'makes a project group, a label under which pools are grouped, in a tenant (NULL: the caller''s, or the only one). '
'Returns its id. Errors: 22023, 42704 no such tenant, 42710 the name is taken, 42501. Organisation admins of the '
'tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.delete_project_group(project_group text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_project_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_project_group', project_group);
	was rpq_store.project_group;
	n bigint;
BEGIN
	-- FOR UPDATE keeps out a pool that is being put under the group
	SELECT g.* INTO was FROM rpq_store.project_group g WHERE g.project_group_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('project group', project_group);
	END IF;
	SELECT count(*) INTO n FROM rpq_store.pool p WHERE p.project_group_id = id AND p.status <> 'deleted';
	IF n > 0 THEN
		PERFORM rpq_store.raise_in_use('project group', was.name, rpq_store.count_of(n, 'pool'));
	END IF;
	UPDATE rpq_store.pool p SET project_group_id = NULL WHERE p.project_group_id = id;	-- deleted pools
	DELETE FROM rpq_store.project_group g WHERE g.project_group_id = id;
	PERFORM rpq_store.record('delete_project_group', 'project_group', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('name', was.name), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_project_group(text) IS
'deletes a project group. Errors: RQ006 while a pool is under it, 42704, 22023 NULL, 42501. Organisation admins of '
'the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.create_workload_type(name text, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_workload_type'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_workload_type', tenant);
	new_name text := rpq_store.check_name('workload type', name);
	new_id bigint;
BEGIN
	INSERT INTO rpq_store.workload_type AS w (tenant_id, name) VALUES (home, new_name)
	ON CONFLICT DO NOTHING RETURNING w.workload_type_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('workload type', new_name);
	END IF;
	PERFORM rpq_store.record('create_workload_type', 'workload_type', new_id, new_name, home, NULL, NULL,
		jsonb_build_object('name', new_name));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_workload_type(text, text) IS
'makes a workload type beside develop, training and inference, in a tenant (NULL: the caller''s, or the only one). '
'Returns its id. Errors: 22023, 42704 no such tenant, 42710 the name is taken, 42501. Organisation admins of the '
'tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.delete_workload_type(workload_type text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_workload_type'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_workload_type', workload_type);
	was rpq_store.workload_type;
	pools bigint;
	workloads bigint;
BEGIN
	SELECT t.* INTO was FROM rpq_store.workload_type t WHERE t.workload_type_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('workload type', workload_type);
	END IF;
	SELECT count(*) INTO pools FROM rpq_store.pool p
	WHERE p.tenant_id = was.tenant_id AND p.status <> 'deleted' AND was.name = ANY (p.workload_types);
	SELECT count(*) INTO workloads FROM rpq_store.workload w
	WHERE w.tenant_id = was.tenant_id AND w.workload_type = was.name AND w.ended_at IS NULL AND w.status <> 'draft';
	IF pools + workloads > 0 THEN
		PERFORM rpq_store.raise_in_use('workload type', was.name, concat_ws(', ',
			rpq_store.count_of(pools, 'pool'), rpq_store.count_of(workloads, 'live workload')));
	END IF;
	DELETE FROM rpq_store.workload_type t WHERE t.workload_type_id = id;
	PERFORM rpq_store.record('delete_workload_type', 'workload_type', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('name', was.name), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_workload_type(text) IS
'deletes a workload type. Errors: RQ006 while a pool names it or a live workload is of it, 42704, 22023 NULL, '
'42501. Organisation admins of the tenant, platform admins';

-- Admins of pools

CREATE OR REPLACE FUNCTION rpq.grant_pool_admin(pool text, account text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'grant_pool_admin'
AS $$
DECLARE
	id bigint := rpq_store.authorize('grant_pool_admin', pool);
	of_pool rpq_store.pool;
	who bigint;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[id]);
	SELECT p.* INTO of_pool FROM rpq_store.pool p WHERE p.pool_id = id AND p.status <> 'deleted';
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('pool', pool);
	END IF;
	who := rpq_store.find_account(of_pool.tenant_id, account);
	INSERT INTO rpq_store.pool_admin AS a (pool_id, account_id) VALUES (id, who) ON CONFLICT DO NOTHING;
	IF FOUND THEN
		PERFORM rpq_store.record('grant_pool_admin', 'pool_admin', who, a.name, of_pool.tenant_id, id, NULL,
			jsonb_build_object('pool', of_pool.name, 'account', a.name))
		FROM rpq_store.account a WHERE a.account_id = who;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq.grant_pool_admin(text, text) IS
'makes an account of the pool''s tenant an admin of the pool; again changes nothing. Errors: 42704 no such pool or '
'account, 22023 NULL, 42501, RQ009. Admins of the pool, organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.revoke_pool_admin(pool text, account text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'revoke_pool_admin'
AS $$
DECLARE
	id bigint := rpq_store.authorize('revoke_pool_admin', pool);
	of_pool rpq_store.pool;
	who bigint;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[id]);
	SELECT p.* INTO of_pool FROM rpq_store.pool p WHERE p.pool_id = id AND p.status <> 'deleted';
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('pool', pool);
	END IF;
	who := rpq_store.find_account(of_pool.tenant_id, account);
	DELETE FROM rpq_store.pool_admin a WHERE a.pool_id = id AND a.account_id = who;
	IF FOUND THEN
		PERFORM rpq_store.record('revoke_pool_admin', 'pool_admin', who, a.name, of_pool.tenant_id, id,
			jsonb_build_object('pool', of_pool.name, 'account', a.name), NULL)
		FROM rpq_store.account a WHERE a.account_id = who;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq.revoke_pool_admin(text, text) IS
'takes the right of a pool''s admin away; from one that has none, changes nothing. Errors: 42704 no such pool or '
'account, 22023 NULL, 42501, RQ009. Admins of the pool, organisation admins of the tenant, platform admins';

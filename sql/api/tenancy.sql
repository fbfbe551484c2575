-- Tenancy: tenants, clusters, instance types and accounts; and the helpers that groups.sql uses too.
--
-- Writes tenant, cluster, instance_type, account and, when an account goes, member, pool_admin and group_account, under
-- row locks.  What takes a right away from an account (delete_account, edit_account) takes the turns of the scopes in
-- which it has work first.

-- Helpers

CREATE OR REPLACE FUNCTION rpq_store.raise_taken(what text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('%s "%s" already exists', what, name);
END
$$;
COMMENT ON FUNCTION rpq_store.raise_taken(text, text) IS 'raises 42710: the name is taken';

CREATE OR REPLACE FUNCTION rpq_store.raise_gone(what text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('%s "%s" does not exist', what, name);
END
$$;
COMMENT ON FUNCTION rpq_store.raise_gone(text, text) IS
'raises 42704: no such object, or one that was deleted meanwhile';

CREATE OR REPLACE FUNCTION rpq_store.raise_in_use(what text, name text, counts text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = format('%s "%s" is in use', what, name),
		DETAIL = format('In use by %s.', counts), HINT = 'First end, move or delete what uses it.';
END
$$;
COMMENT ON FUNCTION rpq_store.raise_in_use(text, text, text) IS
'raises RQ006: something stands against it; counts says what';

CREATE OR REPLACE FUNCTION rpq_store.count_of(n bigint, singular text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN n > 0 THEN n || ' ' || singular || CASE WHEN n = 1 THEN '' ELSE 's' END END $$;
COMMENT ON FUNCTION rpq_store.count_of(bigint, text) IS
'1 node, 2 nodes; NULL for none, so that concat_ws leaves it out';

CREATE OR REPLACE FUNCTION rpq_store.check_clear(clear text[], allowed text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	bad text;
BEGIN
	SELECT coalesce(c.name, 'NULL') INTO bad FROM unnest(clear) AS c (name)
	WHERE c.name IS NULL OR c.name <> ALL (allowed) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('"%s" cannot be cleared', bad),
			DETAIL = format('What can be set back to none: %s.', array_to_string(allowed, ', '));
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_clear(text[], text[]) IS
'raises 22023 when the argument clear of an edit function names what cannot be set back to none';

CREATE OR REPLACE FUNCTION rpq_store.check_role(db_role text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = check_role.db_role) THEN
		PERFORM rpq_store.raise_gone('role', db_role);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_role(text) IS 'raises 42704 when there is no such PostgreSQL role';

CREATE OR REPLACE FUNCTION rpq_store.find_accounts(tenant_id bigint, names text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids bigint[];
	unknown text[];
BEGIN
	IF coalesce(cardinality(names), 0) = 0 OR array_ndims(names) > 1 OR array_position(names, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the accounts must be given',
			DETAIL = 'It is an array of at least one name, none of them NULL.';
	END IF;
	SELECT array_agg(DISTINCT a.account_id) FILTER (WHERE a.account_id IS NOT NULL),
		array_agg(DISTINCT n.given ORDER BY n.given) FILTER (WHERE a.account_id IS NULL)
	INTO ids, unknown
	FROM (SELECT g.given, CASE
			WHEN strpos(g.given, '/') = 0 THEN rpq_store.check_name('account', g.given)
			WHEN split_part(g.given, '/', 1) = t.name
				THEN rpq_store.check_name('account', substr(g.given, strpos(g.given, '/') + 1)) END AS name
		FROM unnest(names) AS g (given), rpq_store.tenant t WHERE t.tenant_id = find_accounts.tenant_id) AS n
	LEFT JOIN rpq_store.account a
		ON a.tenant_id = find_accounts.tenant_id AND a.name = n.name AND a.deleted_at IS NULL;
	IF unknown IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = CASE WHEN cardinality(unknown) = 1
			THEN format('account "%s" does not exist', unknown[1])
			ELSE format('accounts "%s" do not exist', array_to_string(unknown, '", "')) END;
	END IF;
	RETURN ids;
END
$$;
COMMENT ON FUNCTION rpq_store.find_accounts(bigint, text[]) IS
'accounts of that tenant by name, each once. Errors: 42704 naming all that are unknown, 22023 for none or NULL';

CREATE OR REPLACE FUNCTION rpq_store.scopes_of_work(account_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(DISTINCT w.scope_id), '{}') FROM rpq_store.workload w
	WHERE w.account_id = scopes_of_work.account_id AND w.ended_at IS NULL AND w.status <> 'draft'
$$;
COMMENT ON FUNCTION rpq_store.scopes_of_work(bigint) IS 'the scopes in which an account has live workloads';

-- Tenants and clusters

CREATE OR REPLACE FUNCTION rpq.create_tenant(name text, description text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_tenant'
AS $$
DECLARE
	new_id bigint;
	new_name text;
BEGIN
	PERFORM rpq_store.authorize('create_tenant');
	new_name := rpq_store.check_name('tenant', name);
	INSERT INTO rpq_store.tenant AS t (name, description) VALUES (new_name, create_tenant.description)
	ON CONFLICT DO NOTHING RETURNING t.tenant_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('tenant', new_name);
	END IF;
	INSERT INTO rpq_store.workload_type (tenant_id, name)
	SELECT new_id, w.name FROM unnest('{develop,training,inference}'::text[]) AS w (name);
	PERFORM rpq_store.record('create_tenant', 'tenant', new_id, new_name, new_id, NULL, NULL,
		jsonb_build_object('name', new_name, 'description', create_tenant.description));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_tenant(text, text) IS
'makes a tenant, with the workload types develop, training and inference. Returns its id. Errors: 22023 no or no '
'possible name, 42710 the name is taken, 42501. Platform admins';

CREATE OR REPLACE FUNCTION rpq.create_cluster(name text, region text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_cluster'
AS $$
DECLARE
	new_id bigint;
	new_name text;
BEGIN
	PERFORM rpq_store.authorize('create_cluster');
	new_name := rpq_store.check_name('cluster', name);
	INSERT INTO rpq_store.cluster AS c (name, region) VALUES (new_name, create_cluster.region)
	ON CONFLICT DO NOTHING RETURNING c.cluster_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('cluster', new_name);
	END IF;
	PERFORM rpq_store.record('create_cluster', 'cluster', new_id, new_name, NULL, NULL, NULL,
		jsonb_build_object('name', new_name, 'region', create_cluster.region));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_cluster(text, text) IS
'makes a cluster: a place of nodes, in a region (free text). Returns its id. Errors: 22023 no or no possible name, '
'42710 the name is taken, 42501. Platform admins';

-- Instance types

CREATE OR REPLACE FUNCTION rpq_store.check_instance_type(kind text, capacity rpq.resources,
	machine_unit rpq.resources) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problem text;
BEGIN
	problem := CASE
		WHEN kind IS NULL OR capacity IS NULL THEN 'Kind and capacity must be given.'
		WHEN kind NOT IN ('gpu', 'cpu') THEN 'The kind is gpu or cpu.'
		WHEN EXISTS (SELECT FROM jsonb_each_text(capacity::jsonb) AS c WHERE c.value = '0' OR c.value LIKE '-%')
			THEN 'Every amount of the capacity is positive.'
		WHEN NOT capacity::jsonb ? kind THEN format('The capacity has no %s.', kind)
		WHEN kind = 'cpu' AND capacity::jsonb ? 'gpu' THEN 'A type of kind cpu has no gpu.'
		WHEN kind = 'gpu' AND CASE WHEN capacity::jsonb ->> 'gpu' ~ '^[0-9]{1,4}$'
				THEN (capacity::jsonb ->> 'gpu')::int > 1024 ELSE true END
			THEN 'GPUs are counted by devices: a whole number from 1 to 1024.'
		WHEN (SELECT array_agg(u.key) FROM jsonb_each_text(machine_unit::jsonb) AS u) IS DISTINCT FROM ARRAY[kind]
			THEN format('The machine unit is an amount of the primary resource alone, such as %s=8.', kind)
		WHEN machine_unit::jsonb ->> kind = '0' OR machine_unit::jsonb ->> kind LIKE '-%'
			THEN 'The machine unit is positive.'
		WHEN kind = 'gpu' AND machine_unit::jsonb ->> 'gpu' !~ '^[0-9]+$'
			THEN 'The machine unit is a whole number of GPUs.'
	END;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'invalid instance type', DETAIL = problem;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_instance_type(text, rpq.resources, rpq.resources) IS
'raises 22023 when kind, capacity and machine unit make no instance type';

CREATE OR REPLACE FUNCTION rpq_store.default_unit(kind text) RETURNS rpq.resources
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE kind WHEN 'gpu' THEN 'gpu=8'::rpq.resources WHEN 'cpu' THEN 'cpu=120'::rpq.resources END $$;
COMMENT ON FUNCTION rpq_store.default_unit(text) IS 'the machine unit that a kind has unless the type says otherwise';

CREATE OR REPLACE FUNCTION rpq.create_instance_type(name text, kind text, capacity rpq.resources,
	machine_unit rpq.resources DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_instance_type'
AS $$
DECLARE
	made rpq_store.instance_type;
	new_name text;
	unit rpq.resources := coalesce(machine_unit, rpq_store.default_unit(kind));
BEGIN
	PERFORM rpq_store.authorize('create_instance_type');
	new_name := rpq_store.check_name('instance type', name);
	PERFORM rpq_store.check_instance_type(kind, capacity, unit);
	INSERT INTO rpq_store.instance_type AS t (name, kind, capacity, machine_unit)
	VALUES (new_name, create_instance_type.kind, create_instance_type.capacity, unit)
	ON CONFLICT DO NOTHING RETURNING t.* INTO made;
	IF made.type_id IS NULL THEN
		PERFORM rpq_store.raise_taken('instance type', new_name);
	END IF;
	PERFORM rpq_store.record('create_instance_type', 'instance_type', made.type_id, new_name, NULL, NULL, NULL,
		to_jsonb(made) - '{type_id,created_at}'::text[]);
	RETURN made.type_id;
END
$$;
COMMENT ON FUNCTION rpq.create_instance_type(text, text, rpq.resources, rpq.resources) IS
'makes a machine specification: kind gpu or cpu, capacity of one node (gpu=8,cpu=192,memory=2Ti; GPUs are whole '
'devices, at most 1024), machine unit (whole machine in the primary resource; default gpu=8 or cpu=120). Returns '
'its id. Errors: 22023 bad or missing argument, 42710 the name is taken, 42501. Platform admins';

CREATE OR REPLACE FUNCTION rpq.edit_instance_type(instance_type text, name text DEFAULT NULL, kind text DEFAULT NULL,
	capacity rpq.resources DEFAULT NULL, machine_unit rpq.resources DEFAULT NULL, clear text[] DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_instance_type'
AS $$
DECLARE
	was rpq_store.instance_type;
	now_is rpq_store.instance_type;
	id bigint := rpq_store.authorize('edit_instance_type', instance_type);
	n bigint;
BEGIN
	PERFORM rpq_store.check_clear(clear, '{machine_unit}');
	IF clear IS NOT NULL AND cardinality(clear) > 0 AND machine_unit IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'machine_unit is both given and cleared';
	END IF;
	-- keeps out nodes of this type that are being added
	SELECT t.* INTO was FROM rpq_store.instance_type t WHERE t.type_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('instance type', instance_type);
	END IF;
	now_is := was;
	now_is.name := rpq_store.check_name('instance type', coalesce(edit_instance_type.name, was.name));
	now_is.kind := coalesce(edit_instance_type.kind, was.kind);
	now_is.capacity := coalesce(edit_instance_type.capacity, was.capacity);
	now_is.machine_unit := coalesce(edit_instance_type.machine_unit,
		CASE WHEN now_is.kind = was.kind AND coalesce(cardinality(clear), 0) = 0 THEN was.machine_unit
			 ELSE rpq_store.default_unit(now_is.kind) END);
	PERFORM rpq_store.check_instance_type(now_is.kind, now_is.capacity, now_is.machine_unit);
	IF to_jsonb(now_is) - 'name' <> to_jsonb(was) - 'name' THEN
		SELECT count(*) INTO n FROM rpq_store.node d WHERE d.type_id = id;
		IF n > 0 THEN
			PERFORM rpq_store.raise_in_use('instance type', was.name, rpq_store.count_of(n, 'node'));
		END IF;
	END IF;
	IF now_is.name <> was.name
		AND EXISTS (SELECT FROM rpq_store.instance_type t WHERE t.name = now_is.name) THEN
		PERFORM rpq_store.raise_taken('instance type', now_is.name);
	END IF;
	IF to_jsonb(now_is) = to_jsonb(was) THEN
		RETURN;
	END IF;
	BEGIN
		UPDATE rpq_store.instance_type t SET name = now_is.name, kind = now_is.kind, capacity = now_is.capacity,
			machine_unit = now_is.machine_unit
		WHERE t.type_id = id;
	EXCEPTION WHEN unique_violation THEN	-- somebody was faster
		PERFORM rpq_store.raise_taken('instance type', now_is.name);
	END;
	PERFORM rpq_store.record('edit_instance_type', 'instance_type', id, now_is.name, NULL, NULL, to_jsonb(was),
		to_jsonb(now_is));
END
$$;
COMMENT ON FUNCTION rpq.edit_instance_type(text, text, text, rpq.resources, rpq.resources, text[]) IS
'changes an instance type; NULL stays as it is, clear => ''{machine_unit}'' sets the kind''s default. Kind, '
'capacity and machine unit change only while no node is of the type (RQ006). Errors: 42704, 22023, 42710 the new '
'name is taken, 42501. Platform admins';

-- Accounts

CREATE OR REPLACE FUNCTION rpq_store.account_settings(account rpq_store.account) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_jsonb(account) - '{account_id,tenant_id,created_at,deleted_at}'::text[] $$;
COMMENT ON FUNCTION rpq_store.account_settings(rpq_store.account) IS 'what history shows of an account';

CREATE OR REPLACE FUNCTION rpq_store.refuse_driver_flag(wanted boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF wanted AND NOT (rpq_store.caller()).platform_admin THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied to make a driver',
			DETAIL = 'Only platform admins may: a driver is asked for machines of every tenant.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_driver_flag(boolean) IS
'raises 42501 when the flag driver is set by anybody but a platform admin';

CREATE OR REPLACE FUNCTION rpq.create_account(name text, db_role text DEFAULT NULL, org_admin boolean DEFAULT false,
	gateway boolean DEFAULT false, executor boolean DEFAULT false, driver boolean DEFAULT false,
	tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_account'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_account', tenant);
	new_name text := rpq_store.check_name('account', name);
	made rpq_store.account;
BEGIN
	PERFORM rpq_store.refuse_driver_flag(driver);
	PERFORM rpq_store.check_role(db_role) WHERE db_role IS NOT NULL;
	INSERT INTO rpq_store.account AS a (tenant_id, name, db_role, org_admin, gateway, executor, driver)
	VALUES (home, new_name, create_account.db_role, coalesce(create_account.org_admin, false),
		coalesce(create_account.gateway, false), coalesce(create_account.executor, false),
		coalesce(create_account.driver, false))
	ON CONFLICT DO NOTHING RETURNING a.* INTO made;
	IF made.account_id IS NULL THEN
		IF EXISTS (SELECT FROM rpq_store.account a WHERE a.tenant_id = home AND a.name = new_name
				   AND a.deleted_at IS NULL) THEN
			PERFORM rpq_store.raise_taken('account', new_name);
		END IF;
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('role "%s" already has an account', db_role);
	END IF;
	PERFORM rpq_store.record('create_account', 'account', made.account_id, made.name, made.tenant_id, NULL, NULL,
		rpq_store.account_settings(made));
	RETURN made.account_id;
END
$$;
COMMENT ON FUNCTION rpq.create_account(text, text, boolean, boolean, boolean, boolean, text) IS
'makes an account in a tenant (NULL: the caller''s, or the only one). db_role: the PostgreSQL role that it is '
'found by, which must exist and have no other account. org_admin: administers the tenant; gateway: may act for any '
'account of the tenant through rpq.account; executor: may sync nodes, claim pods and report for the tenant; '
'driver: may claim scaling requests (set by platform admins alone). Returns its id. Errors: 22023, 42704 no such '
'role or tenant, 42710 name or role is taken, 42501. Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq_store.write_account(changed rpq_store.account) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE rpq_store.account a SET name = changed.name, db_role = changed.db_role, org_admin = changed.org_admin,
		gateway = changed.gateway, executor = changed.executor, driver = changed.driver
	WHERE a.account_id = changed.account_id;
EXCEPTION WHEN unique_violation THEN
	IF EXISTS (SELECT FROM rpq_store.account a WHERE a.tenant_id = changed.tenant_id AND a.name = changed.name
			   AND a.account_id <> changed.account_id AND a.deleted_at IS NULL) THEN
		PERFORM rpq_store.raise_taken('account', changed.name);
	END IF;
	RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('role "%s" already has an account', changed.db_role);
END
$$;
COMMENT ON FUNCTION rpq_store.write_account(rpq_store.account) IS
'stores the settings of an account. Error: 42710 name or role is taken';

CREATE OR REPLACE FUNCTION rpq.edit_account(account text, name text DEFAULT NULL, db_role text DEFAULT NULL,
	org_admin boolean DEFAULT NULL, gateway boolean DEFAULT NULL, executor boolean DEFAULT NULL,
	driver boolean DEFAULT NULL, tenant text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_account'
AS $$
DECLARE
	id bigint := rpq_store.authorize('edit_account', account);
	was rpq_store.account;
	now_is rpq_store.account;
	scopes bigint[];
BEGIN
	PERFORM rpq_store.check_clear(clear, '{db_role}');
	IF cardinality(clear) > 0 AND edit_account.db_role IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'db_role is both given and cleared';
	END IF;
	IF NOT edit_account.org_admin THEN
		scopes := rpq_store.scopes_of_work(id);
		PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	END IF;
	SELECT a.* INTO was FROM rpq_store.account a WHERE a.account_id = id AND a.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('account', account);
	END IF;
	IF tenant IS NOT NULL AND rpq_store.tenant_of(tenant) <> was.tenant_id THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'an account cannot change its tenant';
	END IF;
	now_is := was;
	now_is.name := rpq_store.check_name('account', coalesce(edit_account.name, was.name));
	now_is.db_role := CASE WHEN coalesce(cardinality(clear), 0) = 0
		THEN coalesce(edit_account.db_role, was.db_role) END;
	now_is.org_admin := coalesce(edit_account.org_admin, was.org_admin);
	now_is.gateway := coalesce(edit_account.gateway, was.gateway);
	now_is.executor := coalesce(edit_account.executor, was.executor);
	now_is.driver := coalesce(edit_account.driver, was.driver);
	PERFORM rpq_store.refuse_driver_flag(now_is.driver AND NOT was.driver);
	PERFORM rpq_store.check_role(edit_account.db_role)
	WHERE edit_account.db_role IS NOT NULL AND edit_account.db_role IS DISTINCT FROM was.db_role;
	IF rpq_store.account_settings(now_is) = rpq_store.account_settings(was) THEN
		RETURN;
	END IF;
	PERFORM rpq_store.write_account(now_is);
	PERFORM rpq_store.record('edit_account', 'account', id, now_is.name, was.tenant_id, NULL,
		rpq_store.account_settings(was), rpq_store.account_settings(now_is));
END
$$;
COMMENT ON FUNCTION rpq.edit_account(text, text, text, boolean, boolean, boolean, boolean, text, text[]) IS
'changes an account; NULL stays as it is, clear => ''{db_role}'' takes its role away. tenant may be given but not '
'changed (22023). Errors: 42704 no such account or role, 42710 the new name or role is taken, 22023, 42501, RQ009. '
'Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.delete_account(account text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_account'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_account', account);
	was rpq_store.account;
	scopes bigint[];
	queued bigint;
	placed bigint;
BEGIN
	scopes := ARRAY(
		SELECT m.pool_id FROM rpq_store.member m WHERE m.account_id = id
		UNION SELECT p.pool_id FROM rpq_store.pool_admin p WHERE p.account_id = id
		UNION SELECT unnest(rpq_store.scopes_of_work(id)) ORDER BY 1);
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	SELECT a.* INTO was FROM rpq_store.account a WHERE a.account_id = id AND a.deleted_at IS NULL FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('account', account);
	END IF;
	SELECT count(*) FILTER (WHERE w.status = 'queued'), count(*) FILTER (WHERE w.status <> 'queued')
	INTO queued, placed
	FROM rpq_store.workload w WHERE w.account_id = id AND w.ended_at IS NULL AND w.status <> 'draft';
	IF queued + placed > 0 THEN
		PERFORM rpq_store.raise_in_use('account', was.name, concat_ws(', ',
			rpq_store.count_of(queued, 'queued workload'), rpq_store.count_of(placed, 'placed workload')));
	END IF;
	-- a draft that its client keeps locked stays, and can never be enqueued
	UPDATE rpq_store.workload w SET hidden = true
	WHERE w.workload_id IN (SELECT d.workload_id FROM rpq_store.workload d WHERE d.account_id = id
							AND d.ended_at IS NULL AND d.status = 'draft' AND NOT d.hidden FOR UPDATE SKIP LOCKED);
	DELETE FROM rpq_store.member m WHERE m.account_id = id;
	DELETE FROM rpq_store.pool_admin p WHERE p.account_id = id;
	DELETE FROM rpq_store.group_account g WHERE g.account_id = id;
	UPDATE rpq_store.account a SET deleted_at = rpq.now() WHERE a.account_id = id;
	PERFORM rpq_store.record('delete_account', 'account', id, was.name, was.tenant_id, NULL,
		rpq_store.account_settings(was), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_account(text) IS
'deletes an account with its memberships, pool admin rights, places in groups and drafts; its name stays in '
'history, ledger and ended workloads. Errors: RQ006 while it has queued or placed work, 42704, 22023 NULL, 42501, '
'RQ009. Organisation admins of the tenant, platform admins';

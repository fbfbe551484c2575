-- Pools: creating, editing, and which of them may be chosen.
--
-- Writes pool, pool_instance and, through an operation, the pool of nodes; under the turns of the pools concerned.

-- The refusals come in the order of the contract: what exists, status, arguments and whole machines, usage, source.
CREATE OR REPLACE FUNCTION rpq.create_pool(name text, type text, instance_type text DEFAULT NULL,
	quota rpq.resources DEFAULT NULL, nodes text[] DEFAULT NULL, source text DEFAULT NULL, cluster text DEFAULT NULL,
	kind text DEFAULT NULL, user_default_quota rpq.resources DEFAULT NULL, default_priority int DEFAULT NULL,
	project_group text DEFAULT NULL, workload_types text[] DEFAULT NULL, scheduling_policy text DEFAULT NULL,
	queueing text DEFAULT NULL, description text DEFAULT NULL, faulty_node_rotation boolean DEFAULT NULL,
	idle_time_sharing boolean DEFAULT NULL, allow_guarantee boolean DEFAULT NULL, frozen boolean DEFAULT NULL,
	pay_as_you_go boolean DEFAULT NULL, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_pool'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	place record;
	type_of bigint;
	held bigint[];
BEGIN
	subject.tenant_id := rpq_store.authorize('create_pool', create_pool.tenant);
	SELECT * INTO place FROM rpq_store.locate_pool(subject.tenant_id, create_pool.instance_type, create_pool.nodes,
		create_pool.source, create_pool.cluster, create_pool.kind);
	subject.project_group_id := rpq_store.find_project_group(subject.tenant_id, create_pool.project_group);
	subject.workload_types := rpq_store.check_workload_types(subject.tenant_id, create_pool.workload_types);
	held := rpq_store.check_source(place.source_id);

	subject.cluster_id := place.cluster_id;
	subject.kind := place.kind;
	subject.name := rpq_store.check_name('pool', create_pool.name);
	IF create_pool.type IS NULL OR create_pool.type NOT IN ('dedicated', 'exclusive') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'type must be dedicated or exclusive',
			HINT = 'A shared pool comes into being with its first node.';
	END IF;
	subject.type := create_pool.type;
	subject.status := 'creating';
	subject.description := create_pool.description;
	subject.default_priority := coalesce(create_pool.default_priority, 50);
	subject.user_default_quota := create_pool.user_default_quota;
	subject.scheduling_policy := coalesce(create_pool.scheduling_policy, 'binpack');
	subject.queueing := coalesce(create_pool.queueing, 'backfill');
	subject.frozen := coalesce(create_pool.frozen, false);
	subject.allow_guarantee := coalesce(create_pool.allow_guarantee, true);
	subject.pay_as_you_go := coalesce(create_pool.pay_as_you_go, false);
	subject.faulty_node_rotation := coalesce(create_pool.faulty_node_rotation, false);
	subject.idle_time_sharing := coalesce(create_pool.idle_time_sharing, false);
	subject.created_at := rpq.now();
	PERFORM rpq_store.check_pool_settings(subject);
	type_of := rpq_store.check_pool_quota(subject.kind, create_pool.quota, create_pool.nodes IS NOT NULL,
		place.source_id, place.type_id);
	PERFORM rpq_store.check_pool_nodes(type_of, place.node_ids);
	subject.pool_id := rpq_store.insert_pool(subject, type_of);
	PERFORM rpq_store.check_nodes_leave(
		rpq_store.pick_nodes(place.source_id, type_of, create_pool.quota, place.node_ids));
	RETURN rpq_store.open_operation('create', 'create_pool', subject.pool_id, subject.pool_id || held,
		jsonb_strip_nulls(jsonb_build_object('name', subject.name, 'type', subject.type, 'kind', subject.kind,
			'instance_type', (SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = type_of),
			'type_id', type_of, 'quota', create_pool.quota::text, 'nodes', to_jsonb(create_pool.nodes),
			'node_ids', to_jsonb(place.node_ids),
			'source', (SELECT p.name FROM rpq_store.pool AS p WHERE p.pool_id = place.source_id),
			'source_id', place.source_id)));
END
$$;
COMMENT ON FUNCTION rpq.create_pool(text, text, text, rpq.resources, text[], text, text, text, rpq.resources, int,
	text, text[], text, text, text, boolean, boolean, boolean, boolean, boolean, text) IS
'asks for a new dedicated or exclusive pool and returns the id of the operation that makes it. quota: whole '
'machines in the primary resource alone (gpu=64), taken from the idle nodes of the instance type in the source, '
'by name; or nodes: these; neither: an empty pool. source: a pool of the same cluster and kind, default the '
'shared one. cluster: default that of source and nodes, else the only one; kind: gpu or cpu, default that of '
'instance type, nodes or source, else gpu; instance_type: default the only one. user_default_quota: of members in '
'mode default; NULL is no limit. default_priority: 0 to 100, default 50. workload_types: NULL is all. '
'scheduling_policy: binpack (default), spread in exclusive pools. queueing: backfill (default) or best_effort. '
'faulty_node_rotation, idle_time_sharing: exclusive pools. allow_guarantee: default on. pay_as_you_go: every '
'workload is non-preemptible. Errors: 42704 unknown object, RQ004 the source has an open operation or is not '
'ready, 22023 bad argument, RQ003 no whole number of machines, 42710 name taken, RQ006 a named node holds pods, '
'RQ005 too few idle nodes in the source, RQ002 reservations of policies could not be served by what it would '
'have left, 0A000 least_fragmentation, RQ009 fenced. Platform and organisation '
'administrators';

CREATE OR REPLACE FUNCTION rpq_store.check_source(source_id bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source rpq_store.pool;
BEGIN
	IF check_source.source_id IS NULL THEN
		RETURN ARRAY[]::bigint[];
	END IF;
	PERFORM rpq_store.take_turns(ARRAY[check_source.source_id]);
	PERFORM rpq_store.fold(ARRAY[check_source.source_id]);
	SELECT * INTO source FROM rpq_store.pool AS p WHERE p.pool_id = check_source.source_id;
	PERFORM rpq_store.check_pool_status(source);
	IF source.type = 'shared' THEN
		RETURN ARRAY[]::bigint[];
	END IF;
	PERFORM rpq_store.check_free(ARRAY[source.pool_id]);
	RETURN ARRAY[source.pool_id];
END
$$;
COMMENT ON FUNCTION rpq_store.check_source(bigint) IS
'takes the turn of the pool that nodes are to come from, folds it, and returns it when the operation has to hold '
'it (a shared pool never is); RQ004 when its status or an open operation forbids it';

CREATE OR REPLACE FUNCTION rpq_store.check_pool_nodes(type_id bigint, nodes bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other text;
BEGIN
	SELECT string_agg(n.name, ', ' ORDER BY n.name) INTO other FROM rpq_store.node AS n
	WHERE n.node_id = ANY (check_pool_nodes.nodes) AND n.type_id <> check_pool_nodes.type_id;
	IF other IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nodes are of another instance type', DETAIL = other;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_nodes(bigint, bigint[]) IS
'refuses (22023) nodes that are not of the instance type, where one is given';

CREATE OR REPLACE FUNCTION rpq_store.insert_pool(subject rpq_store.pool, type_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	made bigint;
BEGIN
	INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name, status, description, project_group_id,
		workload_types, default_priority, user_default_quota, scheduling_policy, queueing, frozen, allow_guarantee,
		pay_as_you_go, faulty_node_rotation, idle_time_sharing, created_at)
	VALUES (subject.tenant_id, subject.cluster_id, subject.kind, subject.type, subject.name, subject.status,
		subject.description, subject.project_group_id, subject.workload_types, subject.default_priority,
		subject.user_default_quota, subject.scheduling_policy, subject.queueing, subject.frozen,
			subject.allow_guarantee,
		subject.pay_as_you_go, subject.faulty_node_rotation, subject.idle_time_sharing, subject.created_at)
	ON CONFLICT DO NOTHING
	RETURNING pool_id INTO made;
	IF made IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('pool "%s" already exists', subject.name);
	END IF;
	PERFORM rpq_store.new_scope(made);
	IF insert_pool.type_id IS NOT NULL THEN
		INSERT INTO rpq_store.pool_instance (pool_id, type_id) VALUES (made, insert_pool.type_id);
	END IF;
	RETURN made;
END
$$;
COMMENT ON FUNCTION rpq_store.insert_pool(rpq_store.pool, bigint) IS
'makes the row, the turn and the first pool_instance of a pool; 42710 when its name is taken, also in a race';

CREATE OR REPLACE FUNCTION rpq_store.pick_nodes(source_id bigint, type_id bigint, quota rpq.resources, nodes bigint[])
RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF pick_nodes.nodes IS NOT NULL THEN
		PERFORM rpq_store.check_named_nodes(pick_nodes.source_id, pick_nodes.nodes);
		RETURN pick_nodes.nodes;
	ELSIF pick_nodes.quota IS NULL THEN
		RETURN ARRAY[]::bigint[];
	END IF;
	RETURN rpq_store.pick_by_quota(pick_nodes.source_id, pick_nodes.type_id, pick_nodes.quota);
END
$$;
COMMENT ON FUNCTION rpq_store.pick_nodes(bigint, bigint, rpq.resources, bigint[]) IS
'the nodes that go from the source into a pool: those named, or idle ones for a quota; RQ003, RQ006, RQ005 when '
'they cannot. The caller holds the source''s turn and has folded';

CREATE OR REPLACE FUNCTION rpq_store.op_create(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source bigint := (subject.arguments->>'source_id')::bigint;
	picked bigint[];
	names text[];
	source_pool rpq_store.pool;
BEGIN
	IF source IS NOT NULL THEN
		PERFORM rpq_store.fold(ARRAY[source]);
		SELECT * INTO source_pool FROM rpq_store.pool AS p WHERE p.pool_id = source;
		PERFORM rpq_store.check_pool_status(source_pool);
	END IF;
	picked := rpq_store.pick_nodes(source, (subject.arguments->>'type_id')::bigint,
		(subject.arguments->>'quota')::rpq.resources,
		CASE WHEN subject.arguments ? 'node_ids' THEN rpq_store.id_array(subject.arguments->'node_ids') END);
	PERFORM rpq_store.check_nodes_leave(picked);
	IF source IS NOT NULL THEN
		PERFORM rpq_store.refuse_occupied(rpq_store.reclaim_nodes(source, picked));
	END IF;
	names := rpq_store.hand_over(picked, source, subject.pool_id);
	PERFORM rpq_store.record(subject.action, 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id, NULL,
		rpq_store.pool_settings(p.pool_id) || jsonb_build_object('nodes', names), subject.operation_id)
	FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	RETURN jsonb_build_object('nodes', names);
END
$$;
COMMENT ON FUNCTION rpq_store.op_create(rpq_store.operation) IS
'the operation create: checks again what may have changed since the call, moves the nodes from the source into '
'the pool and records it; returns the nodes'' names';

CREATE OR REPLACE FUNCTION rpq_store.clearing(clear text[], clearable text[], given text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	SELECT string_agg(coalesce('"' || c || '"', 'NULL'), ', ') INTO wrong
	FROM unnest(clearing.clear) AS c
	WHERE c IS NULL OR c <> ALL (clearing.clearable);
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('clear cannot set %s back to none', wrong),
			HINT = format('It may name %s.', array_to_string(clearing.clearable, ', '));
	END IF;
	SELECT string_agg(c, ', ') INTO wrong FROM unnest(clearing.clear) AS c WHERE c = ANY (clearing.given);
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s cannot be given and cleared at once', wrong);
	END IF;
	RETURN coalesce(clearing.clear, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.clearing(text[], text[], text[]) IS
'the settings to clear; 22023 for one that cannot be cleared or has been given a value too';

CREATE OR REPLACE FUNCTION rpq.edit_pool(pool text, description text DEFAULT NULL, workload_types text[] DEFAULT NULL,
	scheduling_policy text DEFAULT NULL, queueing text DEFAULT NULL, default_priority int DEFAULT NULL,
	user_default_quota rpq.resources DEFAULT NULL, project_group text DEFAULT NULL,
		allow_guarantee boolean DEFAULT NULL,
	frozen boolean DEFAULT NULL, faulty_node_rotation boolean DEFAULT NULL, idle_time_sharing boolean DEFAULT NULL,
	min_runtime interval DEFAULT NULL, open boolean DEFAULT NULL, isolate_accounts boolean DEFAULT NULL,
	instance_type text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_pool'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('edit_pool', edit_pool.pool);
	before jsonb;
	given text[];
	cleared text[];
	lacking text;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	subject.project_group_id := coalesce(
		rpq_store.find_project_group(subject.tenant_id, edit_pool.project_group), subject.project_group_id);
	subject.workload_types := coalesce(
		rpq_store.check_workload_types(subject.tenant_id, edit_pool.workload_types), subject.workload_types);
	PERFORM rpq_store.check_pool_status(subject);
	SELECT array_agg(g.key) INTO given
	FROM jsonb_each(jsonb_strip_nulls(jsonb_build_object('description', edit_pool.description,
		'workload_types', edit_pool.workload_types, 'scheduling_policy', edit_pool.scheduling_policy,
		'queueing', edit_pool.queueing, 'default_priority', edit_pool.default_priority,
		'user_default_quota', edit_pool.user_default_quota::text, 'project_group', edit_pool.project_group,
		'allow_guarantee', edit_pool.allow_guarantee, 'frozen', edit_pool.frozen,
		'faulty_node_rotation', edit_pool.faulty_node_rotation, 'idle_time_sharing', edit_pool.idle_time_sharing,
		'min_runtime', edit_pool.min_runtime, 'open', edit_pool.open,
		'isolate_accounts', edit_pool.isolate_accounts))) AS g;
	before := rpq_store.pool_settings(named);
	IF edit_pool.instance_type IS NOT NULL THEN
		PERFORM rpq_store.edit_pool_instance(subject, edit_pool.instance_type, given, edit_pool.scheduling_policy,
			edit_pool.user_default_quota, edit_pool.clear);
	ELSE
		cleared := rpq_store.clearing(edit_pool.clear,
			'{description,project_group,user_default_quota,workload_types}', given);
		SELECT string_agg(g, ', ' ORDER BY g) INTO lacking FROM unnest(given) AS g
		WHERE (g = 'open' AND subject.type <> 'shared')
		   OR (g IN ('faulty_node_rotation', 'idle_time_sharing', 'isolate_accounts') AND subject.type <> 'exclusive');
		IF lacking IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('a %s pool does not have %s', subject.type,
				lacking);
		END IF;
		IF 'project_group' = ANY (cleared) THEN subject.project_group_id := NULL; END IF;
		IF 'workload_types' = ANY (cleared) THEN subject.workload_types := NULL; END IF;
		subject.description := CASE WHEN 'description' <> ALL (cleared) THEN
			coalesce(edit_pool.description, subject.description) END;
		subject.user_default_quota := CASE WHEN 'user_default_quota' <> ALL (cleared) THEN
			coalesce(edit_pool.user_default_quota, subject.user_default_quota) END;
		subject.scheduling_policy := coalesce(edit_pool.scheduling_policy, subject.scheduling_policy);
		subject.queueing := coalesce(edit_pool.queueing, subject.queueing);
		subject.default_priority := coalesce(edit_pool.default_priority, subject.default_priority);
		subject.allow_guarantee := coalesce(edit_pool.allow_guarantee, subject.allow_guarantee);
		subject.frozen := coalesce(edit_pool.frozen, subject.frozen);
		subject.faulty_node_rotation := coalesce(edit_pool.faulty_node_rotation, subject.faulty_node_rotation);
		subject.idle_time_sharing := coalesce(edit_pool.idle_time_sharing, subject.idle_time_sharing);
		subject.min_runtime := coalesce(edit_pool.min_runtime, subject.min_runtime);
		subject.open := coalesce(edit_pool.open, subject.open);
		subject.isolate_accounts := coalesce(edit_pool.isolate_accounts, subject.isolate_accounts);
		PERFORM rpq_store.check_pool_settings(subject);
		PERFORM rpq_store.update_pool(subject);
		IF NOT subject.idle_time_sharing THEN
			PERFORM rpq_store.preempt_borrowers(named);
		END IF;
	END IF;
	PERFORM rpq_store.record('edit_pool', 'pool', named, subject.name, subject.tenant_id, named, before,
		rpq_store.pool_settings(named));
	PERFORM rpq_store.rotate_now();
END
$$;
COMMENT ON FUNCTION rpq.edit_pool(text, text, text[], text, text, int, rpq.resources, text, boolean, boolean,
	boolean, boolean, interval, boolean, boolean, text, text[]) IS
'changes settings of a pool at once; NULL leaves one as it is, clear sets description, project_group, '
'user_default_quota or workload_types back to none. With instance_type: scheduling_policy and user_default_quota '
'of that type of the pool, both of which clear may name. default_priority: 0 to 100. queueing: backfill or '
'best_effort. frozen: nothing is submitted or admitted, what runs goes on. min_runtime: how long a workload runs '
'before it may be preempted. open: shared pools, off is members only. isolate_accounts: a node hosts pods of one '
'account at a time; what runs stays. idle_time_sharing: free nodes may serve preemptible work of the shared pool; '
'switched off, what borrows is preempted at once. faulty_node_rotation, idle_time_sharing, '
'isolate_accounts, scheduling_policy spread: exclusive pools. Errors: 42704 unknown object, RQ004 the pool is '
'being created or deleted, 22023 bad argument or a setting that the pool''s type does not have, 0A000 '
'least_fragmentation, RQ009 fenced. Administrators of the pool';

CREATE OR REPLACE FUNCTION rpq_store.update_pool(subject rpq_store.pool) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.pool AS p
	SET description = ($1).description, project_group_id = ($1).project_group_id, workload_types = ($1).workload_types,
		default_priority = ($1).default_priority, user_default_quota = ($1).user_default_quota,
		scheduling_policy = ($1).scheduling_policy, queueing = ($1).queueing, frozen = ($1).frozen,
		allow_guarantee = ($1).allow_guarantee, faulty_node_rotation = ($1).faulty_node_rotation,
		idle_time_sharing = ($1).idle_time_sharing, open = ($1).open, isolate_accounts = ($1).isolate_accounts,
		min_runtime = ($1).min_runtime
	WHERE p.pool_id = ($1).pool_id
$$;
COMMENT ON FUNCTION rpq_store.update_pool(rpq_store.pool) IS
'writes the editable settings of a pool; the caller holds its turn';

CREATE OR REPLACE FUNCTION rpq_store.pool_instance_type(pool_id bigint, instance_type text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	type_of bigint := rpq_store.find_type(pool_instance_type.instance_type);
BEGIN
	IF NOT EXISTS (SELECT FROM rpq_store.pool_instance AS i
				   WHERE i.pool_id = pool_instance_type.pool_id AND i.type_id = type_of) THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = format('the pool has no instance type "%s"', btrim(pool_instance_type.instance_type));
	END IF;
	RETURN type_of;
END
$$;
COMMENT ON FUNCTION rpq_store.pool_instance_type(bigint, text) IS
'the id of an instance type that the pool has; 42704 for an unknown one, 22023 for one of other pools';

CREATE OR REPLACE FUNCTION rpq_store.edit_pool_instance(subject rpq_store.pool, instance_type text, given text[],
	scheduling_policy text, user_default_quota rpq.resources, clear text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	type_of bigint := rpq_store.pool_instance_type(subject.pool_id, edit_pool_instance.instance_type);
	cleared text[] := rpq_store.clearing(edit_pool_instance.clear, '{scheduling_policy,user_default_quota}',
		edit_pool_instance.given);
	other text;
BEGIN
	SELECT string_agg(g, ', ' ORDER BY g) INTO other FROM unnest(edit_pool_instance.given) AS g
	WHERE g NOT IN ('scheduling_policy', 'user_default_quota');
	IF other IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s cannot be set for one instance type', other);
	END IF;
	PERFORM rpq_store.check_scheduling_policy(edit_pool_instance.scheduling_policy, subject.type);
	PERFORM rpq_store.check_quota('user_default_quota', edit_pool_instance.user_default_quota);
	UPDATE rpq_store.pool_instance AS i
	SET scheduling_policy = CASE WHEN 'scheduling_policy' <> ALL (cleared) THEN
			coalesce(edit_pool_instance.scheduling_policy, i.scheduling_policy) END,
		user_default_quota = CASE WHEN 'user_default_quota' <> ALL (cleared) THEN
			coalesce(edit_pool_instance.user_default_quota, i.user_default_quota) END
	WHERE i.pool_id = subject.pool_id AND i.type_id = type_of;
END
$$;
COMMENT ON FUNCTION rpq_store.edit_pool_instance(rpq_store.pool, text, text[], text, rpq.resources, text[]) IS
'changes what is set for one instance type of a pool; the caller holds the pool''s turn';

CREATE OR REPLACE FUNCTION rpq.selectable_pools(workload_type text)
RETURNS TABLE (pool_id bigint, pool text, selectable boolean, reason_code text, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	type_id bigint := rpq_store.authorize('selectable_pools', selectable_pools.workload_type);
	wanted rpq_store.workload_type;
	me bigint := rpq_store.my_account();
BEGIN
	SELECT * INTO wanted FROM rpq_store.workload_type AS w WHERE w.workload_type_id = type_id;
	RETURN QUERY
	SELECT c.pool_id, c.name, c.code IS NULL, c.code,
		CASE c.code
			WHEN 'not_authorized' THEN format('account is not authorised in pool %s', c.name)
			WHEN 'pool_frozen' THEN format('pool %s is frozen', c.name)
			WHEN 'pool_not_ready' THEN format('pool %s is %s', c.name, c.status)
			WHEN 'workload_type' THEN format('workload type %s is not allowed to use resource pool %s', wanted.name,
				c.name)
		END
	FROM (SELECT p.pool_id, p.name, p.status,
			CASE
				WHEN NOT EXISTS (SELECT FROM rpq_store.member AS m WHERE m.pool_id = p.pool_id AND m.account_id = me)
					AND NOT (p.type = 'shared' AND p.open AND EXISTS (
						SELECT FROM rpq_store.account AS a WHERE a.account_id = me AND a.tenant_id = p.tenant_id))
					THEN 'not_authorized'
				WHEN p.frozen THEN 'pool_frozen'
				WHEN p.status IN ('creating', 'deleting') THEN 'pool_not_ready'
				WHEN wanted.name <> ALL (p.workload_types) THEN 'workload_type'
			END AS code
		  FROM rpq_store.pool AS p
		  WHERE p.tenant_id = wanted.tenant_id AND p.status <> 'deleted'
			AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[])) AS c
	ORDER BY c.name;
END
$$;
COMMENT ON FUNCTION rpq.selectable_pools(text) IS
'every pool of the tenant that the caller sees, and whether the caller may submit a workload of this type to it '
'now; if not, reason_code (not_authorized, pool_frozen, pool_not_ready, workload_type) and a sentence. Errors: '
'42704 unknown workload type, 22023 none given. Every account';

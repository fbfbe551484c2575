-- What pools.sql and resize.sql check before a pool is made or changed.  Writes nothing.

CREATE OR REPLACE FUNCTION rpq_store.pool_settings(pool_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT to_jsonb(p) - '{pool_id,tenant_id,cluster_id,project_group_id,status,created_at,deleted_at}'::text[]
		|| jsonb_build_object('cluster', c.name, 'project_group', g.name,
			'instance_types', coalesce((
				SELECT jsonb_object_agg(t.name, jsonb_build_object('scheduling_policy', i.scheduling_policy,
					'user_default_quota', i.user_default_quota::text))
				FROM rpq_store.pool_instance AS i
				JOIN rpq_store.instance_type AS t ON t.type_id = i.type_id
				WHERE i.pool_id = p.pool_id), '{}'))
	FROM rpq_store.pool AS p
	JOIN rpq_store.cluster AS c ON c.cluster_id = p.cluster_id
	LEFT JOIN rpq_store.project_group AS g ON g.project_group_id = p.project_group_id
	WHERE p.pool_id = $1
$$;
COMMENT ON FUNCTION rpq_store.pool_settings(bigint) IS
'a pool''s settings as the history shows them';

CREATE OR REPLACE FUNCTION rpq_store.find_project_group(tenant_id bigint, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	found_id bigint;
BEGIN
	SELECT g.project_group_id INTO found_id FROM rpq_store.project_group AS g
	WHERE g.tenant_id = find_project_group.tenant_id AND g.name = btrim(find_project_group.name);
	IF NOT FOUND AND find_project_group.name IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704',
			MESSAGE = format('project group "%s" does not exist', find_project_group.name);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.find_project_group(bigint, text) IS
'the id of a tenant''s project group; NULL for NULL, 42704 for an unknown name';

CREATE OR REPLACE FUNCTION rpq_store.check_workload_types(tenant_id bigint, types text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	checked text[];
	unknown text;
BEGIN
	IF check_workload_types.types IS NULL THEN
		RETURN NULL;
	END IF;
	checked := rpq_store.check_names('workload type', check_workload_types.types);
	SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.name) INTO unknown
	FROM unnest(checked) AS u (name)
	WHERE NOT EXISTS (SELECT FROM rpq_store.workload_type AS w
					  WHERE w.tenant_id = check_workload_types.tenant_id AND w.name = u.name);
	IF unknown IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('workload type %s does not exist', unknown);
	END IF;
	RETURN checked;
END
$$;
COMMENT ON FUNCTION rpq_store.check_workload_types(bigint, text[]) IS
'the workload types, each known to the tenant (42704 lists the others), repeats left out; NULL stays NULL';

CREATE OR REPLACE FUNCTION rpq_store.check_scheduling_policy(policy text, type text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_scheduling_policy.policy NOT IN ('binpack', 'spread', 'least_fragmentation') THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = 'scheduling_policy must be binpack, spread or least_fragmentation';
	ELSIF check_scheduling_policy.policy = 'spread' AND check_scheduling_policy.type <> 'exclusive' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'scheduling_policy spread is for exclusive pools',
			DETAIL = format('The pool is %s.', check_scheduling_policy.type);
	ELSIF check_scheduling_policy.policy = 'least_fragmentation' THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'scheduling_policy least_fragmentation is not supported';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_scheduling_policy(text, text) IS
'refuses a scheduling policy that a pool of this type cannot have (22023, 0A000); NULL is none';

-- The settings of a pool as they would be, at creation and after an edit alike.
CREATE OR REPLACE FUNCTION rpq_store.check_pool_settings(subject rpq_store.pool) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	wrong := CASE
		WHEN subject.default_priority NOT BETWEEN 0 AND 100 THEN 'default_priority must be between 0 and 100'
		WHEN subject.queueing NOT IN ('backfill', 'best_effort') THEN 'queueing must be backfill or best_effort'
		WHEN length(subject.description) > 10000 THEN 'description must have at most 10000 characters'
		WHEN subject.min_runtime < interval '0' THEN 'min_runtime must not be negative'
		WHEN subject.min_runtime > interval '1000 years' THEN 'min_runtime must be at most 1000 years'
		WHEN subject.faulty_node_rotation AND subject.type <> 'exclusive' THEN
			'faulty_node_rotation is for exclusive pools'
		WHEN subject.idle_time_sharing AND subject.type <> 'exclusive' THEN 'idle_time_sharing is for exclusive pools'
		WHEN subject.isolate_accounts AND subject.type <> 'exclusive' THEN 'isolate_accounts is for exclusive pools'
		END;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = wrong;
	END IF;
	PERFORM rpq_store.check_scheduling_policy(subject.scheduling_policy, subject.type);
	PERFORM rpq_store.check_quota('user_default_quota', subject.user_default_quota);
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_settings(rpq_store.pool) IS
'refuses (22023, 0A000) settings that a pool of the row''s type cannot have';

-- What a new pool is made from.  Each of these may follow from another; those that are given must agree.
CREATE OR REPLACE FUNCTION rpq_store.locate_pool(owner_id bigint, instance_type text, nodes text[], source text,
	cluster text,
	INOUT kind text, OUT cluster_id bigint, OUT type_id bigint, OUT source_id bigint, OUT node_ids bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	from_pool rpq_store.pool;
	kinds text[] := ARRAY[locate_pool.kind];
	clusters bigint[] := ARRAY[]::bigint[];
	wanted text[];
	unknown text;
BEGIN
	IF locate_pool.instance_type IS NOT NULL THEN
		locate_pool.type_id := rpq_store.find_type(locate_pool.instance_type);
		kinds := kinds || (SELECT t.kind FROM rpq_store.instance_type AS t WHERE t.type_id = locate_pool.type_id);
	END IF;
	IF locate_pool.cluster IS NOT NULL THEN
		clusters := clusters || rpq_store.find_cluster(locate_pool.cluster);
	END IF;
	IF locate_pool.source IS NOT NULL THEN
		locate_pool.source_id := rpq_store.find_pool(rpq_store.in_tenant(owner_id, locate_pool.source));
		SELECT * INTO from_pool FROM rpq_store.pool AS p WHERE p.pool_id = locate_pool.source_id;
		IF from_pool.tenant_id <> owner_id THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the source belongs to another tenant';
		END IF;
		kinds := kinds || from_pool.kind;
		clusters := clusters || from_pool.cluster_id;
	END IF;
	IF locate_pool.nodes IS NOT NULL THEN
		wanted := rpq_store.check_names('node', locate_pool.nodes);
		SELECT array_agg(n.node_id ORDER BY w.place), kinds || array_agg(DISTINCT t.kind),
			clusters || array_agg(DISTINCT n.cluster_id),
			string_agg(format('"%s"', w.name), ', ' ORDER BY w.place) FILTER (WHERE n.node_id IS NULL)
		INTO locate_pool.node_ids, kinds, clusters, unknown
		FROM unnest(wanted) WITH ORDINALITY AS w (name, place)
		LEFT JOIN rpq_store.node AS n ON n.tenant_id = owner_id AND n.name = w.name
		LEFT JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id;
		IF unknown IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('node %s does not exist', unknown);
		END IF;
	END IF;
	SELECT array_agg(DISTINCT k) INTO kinds FROM unnest(kinds) AS k WHERE k IS NOT NULL;
	SELECT array_agg(DISTINCT c) INTO clusters FROM unnest(clusters) AS c;
	IF cardinality(kinds) > 1 OR NOT kinds <@ '{gpu,cpu}' THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = 'kind, instance type, source and nodes must be of one kind, gpu or cpu',
			DETAIL = format('They are %s.', array_to_string(kinds, ', '));
	ELSIF cardinality(clusters) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cluster, source and nodes must be of one cluster';
	END IF;
	locate_pool.kind := coalesce(kinds[1], 'gpu');
	locate_pool.cluster_id := coalesce(clusters[1], rpq_store.find_cluster(NULL));
	IF locate_pool.source_id IS NULL THEN
		SELECT p.pool_id INTO locate_pool.source_id FROM rpq_store.pool AS p
		WHERE p.tenant_id = owner_id AND p.cluster_id = locate_pool.cluster_id AND p.kind = locate_pool.kind
		  AND p.type = 'shared';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.locate_pool(bigint, text, text[], text, text, text) IS
'kind, cluster, instance type, source pool and nodes of a pool to be created, from what of them is given: kind of '
'the others, else gpu; cluster of the others, else the only one; source: the shared pool, NULL where there is '
'none. 42704 for what does not exist, 22023 where they do not agree';

CREATE OR REPLACE FUNCTION rpq_store.check_pool_quota(kind text, quota rpq.resources, named boolean, source_id bigint,
	INOUT type_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	types bigint[];
	kind_of rpq_store.instance_type;
	main_key text;
BEGIN
	IF check_pool_quota.quota IS NULL THEN
		RETURN;
	ELSIF check_pool_quota.named THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'either quota or nodes may be given, not both';
	END IF;
	IF check_pool_quota.type_id IS NULL THEN
		SELECT array_agg(DISTINCT n.type_id) INTO types FROM rpq_store.node AS n
		WHERE n.pool_id = check_pool_quota.source_id;
		IF types IS NULL THEN
			SELECT array_agg(t.type_id) INTO types FROM rpq_store.instance_type AS t
			WHERE t.kind = check_pool_quota.kind;
		END IF;
		IF cardinality(types) IS DISTINCT FROM 1 THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'instance_type must be given',
				DETAIL = format('There are %s to choose from.', coalesce(cardinality(types), 0));
		END IF;
		check_pool_quota.type_id := types[1];
	END IF;
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = check_pool_quota.type_id;
	main_key := rpq_store.primary_resource(kind_of.machine_unit);
	IF ARRAY(SELECT jsonb_object_keys(CAST(check_pool_quota.quota AS jsonb))) <> ARRAY[main_key] THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('quota must name %s alone', main_key),
			DETAIL = format('It is "%s"; everything else follows from the machines.', check_pool_quota.quota);
	END IF;
	PERFORM rpq_store.check_quota('quota', check_pool_quota.quota);
	IF rpq_store.machines(check_pool_quota.quota, kind_of.machine_unit) IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'quota is no whole number of machines',
			DETAIL = format('It is %s, the machine unit of instance type "%s" is %s.', check_pool_quota.quota,
				kind_of.name, kind_of.machine_unit);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_quota(text, rpq.resources, boolean, bigint, bigint) IS
'refuses the quota of a new pool that is not in the primary resource alone or negative (22023) or no whole number '
'of machines (RQ003); finds the instance type where it is not given';

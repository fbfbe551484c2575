-- What pools hold: whole machines, capacities counted from nodes, and the shared pool that takes the nodes which no
-- other pool has.
--
-- Writes pool_capacity, pool_instance, node_load (rows of nodes that come or change hands) under the turns of the pools
-- concerned, and pool when a shared one comes into being.

CREATE OR REPLACE FUNCTION rpq_store.primary_resource(machine_unit rpq.resources) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT min(k) FROM jsonb_object_keys(CAST($1 AS jsonb)) AS k $$;
COMMENT ON FUNCTION rpq_store.primary_resource(rpq.resources) IS
'the resource that a machine unit names, in which whole machines are counted';

CREATE OR REPLACE FUNCTION rpq_store.machines(amount rpq.resources, machine_unit rpq.resources) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN wanted >= 0 AND unit > 0 AND mod(wanted, unit) = 0 THEN div(wanted, unit) END
	FROM (SELECT coalesce($1 OPERATOR(rpq.->) rpq_store.primary_resource($2), 0) AS wanted,
				 $2 OPERATOR(rpq.->) rpq_store.primary_resource($2) AS unit) AS a
$$;
COMMENT ON FUNCTION rpq_store.machines(rpq.resources, rpq.resources) IS
'how many whole machine units an amount is; NULL when it is no whole number of them';

CREATE OR REPLACE FUNCTION rpq_store.has_negative(amount rpq.resources) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT EXISTS (SELECT FROM jsonb_each_text(CAST($1 AS jsonb)) AS a WHERE starts_with(a.value, '-')) $$;
COMMENT ON FUNCTION rpq_store.has_negative(rpq.resources) IS
'whether some amount is below zero';

CREATE OR REPLACE FUNCTION rpq_store.check_quota(what text, quota rpq.resources) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF rpq_store.has_negative(check_quota.quota) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s must not be negative', check_quota.what),
			DETAIL = format('It is %s.', check_quota.quota);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_quota(text, rpq.resources) IS
'refuses (22023) a quota with an amount below zero; what names it in the message';

CREATE OR REPLACE FUNCTION rpq_store.in_tenant(tenant_id bigint, name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN position('/' IN $2) > 0 THEN $2
		   ELSE (SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = $1) || '/' || $2 END
$$;
COMMENT ON FUNCTION rpq_store.in_tenant(bigint, text) IS
'an object''s name with its tenant in front, so that it means the same to every caller';

CREATE OR REPLACE FUNCTION rpq_store.check_names(what text, names text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	checked text[];
BEGIN
	IF check_names.names IS NULL OR cardinality(check_names.names) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('at least one %s must be given', check_names.what);
	END IF;
	SELECT array_agg(d.name ORDER BY d.place) INTO checked
	FROM (SELECT c.name, min(c.place) AS place
		  FROM (SELECT rpq_store.check_name(check_names.what, u.name) AS name, u.place
				FROM unnest(check_names.names) WITH ORDINALITY AS u (name, place)) AS c
		  GROUP BY c.name) AS d;
	RETURN checked;
END
$$;
COMMENT ON FUNCTION rpq_store.check_names(text, text[]) IS
'the names, each trimmed and checked (22023), repeats left out, in the order given; an empty or NULL array is '
'refused (22023)';

CREATE OR REPLACE FUNCTION rpq_store.recount_capacity(pools bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM rpq_store.pool_capacity WHERE pool_id = ANY (recount_capacity.pools);
	INSERT INTO rpq_store.pool_capacity (pool_id, type_id, capacity, nodes)
	SELECT n.pool_id, n.type_id, n.capacity, count(*)
	FROM rpq_store.node AS n WHERE n.pool_id = ANY (recount_capacity.pools) AND NOT n.removing
	GROUP BY n.pool_id, n.type_id, n.capacity;
	-- a total that is out of range (22003) is refused here, not met by every later reader
	PERFORM c.pool_id, rpq.sum(c.capacity OPERATOR(rpq.*) c.nodes::numeric)
	FROM rpq_store.pool_capacity AS c WHERE c.pool_id = ANY (recount_capacity.pools) GROUP BY c.pool_id;
	INSERT INTO rpq_store.pool_instance (pool_id, type_id)
	SELECT DISTINCT n.pool_id, n.type_id
	FROM rpq_store.node AS n WHERE n.pool_id = ANY (recount_capacity.pools)
	ON CONFLICT (pool_id, type_id) DO NOTHING;
	UPDATE rpq_store.node_load AS l SET pool_id = n.pool_id
	FROM rpq_store.node AS n
	WHERE n.pool_id = ANY (recount_capacity.pools) AND l.node_id = n.node_id AND l.pool_id <> n.pool_id;
	INSERT INTO rpq_store.node_load (node_id, pool_id, parts)
	SELECT n.node_id, n.pool_id, array_fill(0::bigint, ARRAY[coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)::int])
	FROM rpq_store.node AS n
	WHERE n.pool_id = ANY (recount_capacity.pools)
	  AND NOT EXISTS (SELECT FROM rpq_store.node_load AS l WHERE l.node_id = n.node_id);
END
$$;
COMMENT ON FUNCTION rpq_store.recount_capacity(bigint[]) IS
'counts anew what the nodes of these pools hold: pool_capacity, a pool_instance row for each type with nodes, a '
'node_load row for each node. The caller holds the turns of all pools between which nodes went';

-- The shared pool of a tenant, cluster and kind, made with its first node.  Two sessions may come at once: the index
-- pool_shared lets one of them make it, and the other waits and finds it.
CREATE OR REPLACE FUNCTION rpq_store.shared_pool(tenant_id bigint, cluster_id bigint, kind text, action text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	found_id bigint;
	base text;
	candidate text;
	number int := 1;
BEGIN
	SELECT left(c.name, 63 - 1 - length(shared_pool.kind)) || '-' || shared_pool.kind INTO base
	FROM rpq_store.cluster AS c WHERE c.cluster_id = shared_pool.cluster_id;
	candidate := base;
	LOOP
		SELECT p.pool_id INTO found_id
		FROM rpq_store.pool AS p
		WHERE p.tenant_id = shared_pool.tenant_id AND p.cluster_id = shared_pool.cluster_id
		  AND p.kind = shared_pool.kind AND p.type = 'shared';
		EXIT WHEN FOUND;
		INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name, status, created_at)
		VALUES (shared_pool.tenant_id, shared_pool.cluster_id, shared_pool.kind, 'shared', candidate, 'ready',
			rpq.now())
		ON CONFLICT DO NOTHING
		RETURNING pool_id INTO found_id;
		IF FOUND THEN
			PERFORM rpq_store.new_scope(found_id);
			PERFORM rpq_store.record(shared_pool.action, 'pool', found_id, candidate, shared_pool.tenant_id, found_id,
				NULL, jsonb_build_object('name', candidate, 'type', 'shared', 'kind', shared_pool.kind));
			EXIT;
		END IF;
		number := number + 1;
		candidate := left(base, 63 - 1 - length(number::text)) || '-' || number;
	END LOOP;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.shared_pool(bigint, bigint, text, text) IS
'the shared pool of a tenant, cluster and kind; it is made, and recorded under this action, where there is none yet';

CREATE OR REPLACE FUNCTION rpq_store.check_node_capacity(type_id bigint, capacity rpq.resources, whole boolean)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	kind_of rpq_store.instance_type;
	devices numeric := coalesce(check_node_capacity.capacity OPERATOR(rpq.->) 'gpu', 0);
	main_key text;
BEGIN
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = check_node_capacity.type_id;
	main_key := rpq_store.primary_resource(kind_of.machine_unit);
	PERFORM rpq_store.check_quota('capacity', check_node_capacity.capacity);
	IF devices <> trunc(devices) OR devices > 1024 OR (kind_of.kind = 'gpu' AND devices < 1) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'capacity must have a whole number of devices, at most 1024',
			DETAIL = format('gpu is %s.', devices);
	END IF;
	IF coalesce(check_node_capacity.capacity OPERATOR(rpq.->) main_key, 0) <= 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('capacity must have an amount of %s', main_key),
			DETAIL = format('The machine unit of instance type "%s" is %s.', kind_of.name, kind_of.machine_unit);
	END IF;
	IF check_node_capacity.whole AND rpq_store.machines(check_node_capacity.capacity, kind_of.machine_unit) IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'the node is no whole number of machine units',
			DETAIL = format('Its capacity is %s, the machine unit of instance type "%s" is %s.',
				check_node_capacity.capacity, kind_of.name, kind_of.machine_unit),
			HINT = 'Such a node can only be in a shared pool.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_node_capacity(bigint, rpq.resources, boolean) IS
'refuses a capacity that no node of the type can have (22023), and with whole one that is no whole number of '
'machine units (RQ003)';

CREATE OR REPLACE FUNCTION rpq_store.check_pool_status(subject rpq_store.pool) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF subject.status IN ('creating', 'deleting', 'deleted') THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004',
			MESSAGE = format('pool "%s" is %s', subject.name,
				CASE subject.status WHEN 'creating' THEN 'being created' WHEN 'deleting' THEN 'being deleted'
				ELSE 'deleted' END),
			DETAIL = format('Its status is %s.', subject.status),
			HINT = CASE subject.status WHEN 'creating' THEN 'Wait for its operation to end.'
				ELSE 'Use another pool.' END;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_status(rpq_store.pool) IS
'refuses (RQ004) a pool that is being created or deleted, or is no more';

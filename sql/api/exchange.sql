-- Nodes between pools: what resizing a pool and moving nodes have in common.
--
-- Writes node (pool_id), and with it node_load, pool_capacity and pool_instance, under the turns of both pools.

-- ---- what a request is about ----------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.other_pool(action text, subject rpq_store.pool, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	found_id bigint;
BEGIN
	IF other_pool.name IS NULL THEN
		SELECT p.pool_id INTO found_id FROM rpq_store.pool AS p
		WHERE p.tenant_id = subject.tenant_id AND p.cluster_id = subject.cluster_id AND p.kind = subject.kind
		  AND p.type = 'shared';
		RETURN found_id;
	END IF;
	found_id := rpq_store.find_pool(rpq_store.in_tenant(subject.tenant_id, other_pool.name));
	IF NOT EXISTS (SELECT FROM rpq_store.pool AS p
				   WHERE p.pool_id = found_id AND p.type = 'shared' AND p.tenant_id = subject.tenant_id) THEN
		PERFORM rpq_store.authorize_id(other_pool.action, found_id);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.other_pool(text, rpq_store.pool, text) IS
'the pool of this name that gives or takes nodes, by default the shared one (NULL where there is none). The right '
'is needed on it as well (42704, 42501), but for a shared pool of the tenant, which it is enough to see';

CREATE OR REPLACE FUNCTION rpq_store.find_nodes(tenant_id bigint, names text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	ids bigint[];
BEGIN
	IF find_nodes.names IS NULL THEN
		RETURN NULL;
	ELSIF cardinality(find_nodes.names) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'at least one node must be given';
	END IF;
	SELECT array_agg(f.node_id ORDER BY f.place) INTO ids
	FROM (SELECT rpq_store.find_node(rpq_store.in_tenant(find_nodes.tenant_id, u.name)) AS node_id,
			min(u.place) AS place
		  FROM unnest(find_nodes.names) WITH ORDINALITY AS u (name, place) GROUP BY 1) AS f;
	IF EXISTS (SELECT FROM rpq_store.node AS n
			   WHERE n.node_id = ANY (ids) AND n.tenant_id <> find_nodes.tenant_id) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the nodes belong to another tenant';
	END IF;
	RETURN ids;
END
$$;
COMMENT ON FUNCTION rpq_store.find_nodes(bigint, text[]) IS
'the ids of nodes that the caller may see, in the order given, repeats left out; NULL for NULL, 42704 for an '
'unknown one, 22023 for none at all or of another tenant';

CREATE OR REPLACE FUNCTION rpq_store.take_pools(subject_id bigint, others bigint[]) RETURNS rpq_store.pool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[];
	subject rpq_store.pool;
BEGIN
	SELECT array_agg(DISTINCT s.scope_id ORDER BY s.scope_id) INTO scopes
	FROM unnest(take_pools.others || take_pools.subject_id) AS s (scope_id) WHERE s.scope_id IS NOT NULL;
	PERFORM rpq_store.take_turns(scopes);
	PERFORM rpq_store.fold(scopes);
	-- a shared pool is held by a drain of its own alone, which is in nobody's way
	PERFORM rpq_store.check_free(ARRAY(SELECT p.pool_id FROM rpq_store.pool AS p
									   WHERE p.pool_id = ANY (scopes) AND p.type <> 'shared'));
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = take_pools.subject_id;
	RETURN subject;
END
$$;
COMMENT ON FUNCTION rpq_store.take_pools(bigint, bigint[]) IS
'takes the turns of pools between which nodes are to go, folds them, and refuses (RQ004) when one that is not shared '
'is not free; '
'the subject as it then is. NULLs among the others are left out';

CREATE OR REPLACE FUNCTION rpq_store.check_partners(subject rpq_store.pool, others bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other rpq_store.pool;
BEGIN
	FOR other IN
		SELECT p.* FROM rpq_store.pool AS p WHERE p.pool_id = ANY (check_partners.others) ORDER BY p.pool_id
	LOOP
		IF other.pool_id = subject.pool_id THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nodes cannot go from a pool to itself',
				DETAIL = format('Both are pool "%s".', subject.name);
		ELSIF other.tenant_id <> subject.tenant_id OR other.cluster_id <> subject.cluster_id
			OR other.kind <> subject.kind THEN
			RAISE EXCEPTION USING ERRCODE = '22023',
				MESSAGE = 'nodes go between pools of one tenant, cluster and kind',
				DETAIL = (SELECT string_agg(format('Pool "%s" is a %s pool of tenant "%s" in cluster "%s".', p.name,
							p.kind, t.name, c.name), ' ' ORDER BY p.pool_id <> subject.pool_id)
						  FROM rpq_store.pool AS p
						  JOIN rpq_store.tenant AS t ON t.tenant_id = p.tenant_id
						  JOIN rpq_store.cluster AS c ON c.cluster_id = p.cluster_id
						  WHERE p.pool_id IN (subject.pool_id, other.pool_id));
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.check_partners(rpq_store.pool, bigint[]) IS
'refuses (22023) pools that cannot exchange nodes with this one: itself, or of another tenant, cluster or kind';

-- Where the instance type is not named: the only one that the pool has nodes of, else its only one, else the source's.
CREATE OR REPLACE FUNCTION rpq_store.type_of_pool(subject rpq_store.pool, source_id bigint, type_id bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	types bigint[];
	kind_of rpq_store.instance_type;
BEGIN
	IF type_of_pool.type_id IS NOT NULL THEN
		SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = type_of_pool.type_id;
		IF kind_of.kind <> subject.kind THEN
			RAISE EXCEPTION USING ERRCODE = '22023',
				MESSAGE = format('instance type "%s" is of another kind', kind_of.name),
				DETAIL = format('It is of kind %s, pool "%s" of kind %s.', kind_of.kind, subject.name, subject.kind);
		END IF;
		RETURN type_of_pool.type_id;
	END IF;
	SELECT array_agg(DISTINCT c.type_id) INTO types FROM rpq_store.pool_capacity AS c
	WHERE c.pool_id = subject.pool_id;
	IF types IS NULL THEN
		SELECT array_agg(i.type_id) INTO types FROM rpq_store.pool_instance AS i WHERE i.pool_id = subject.pool_id;
	END IF;
	IF types IS NULL THEN
		SELECT array_agg(DISTINCT c.type_id) INTO types FROM rpq_store.pool_capacity AS c
		WHERE c.pool_id = type_of_pool.source_id;
	END IF;
	IF cardinality(types) IS DISTINCT FROM 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'instance_type must be given',
			DETAIL = format('There are %s to choose from.', coalesce(cardinality(types), 0));
	END IF;
	RETURN types[1];
END
$$;
COMMENT ON FUNCTION rpq_store.type_of_pool(rpq_store.pool, bigint, bigint) IS
'the instance type that a change of a pool''s nodes is about; 22023 when it has to be named, or is of another '
'kind';

CREATE OR REPLACE FUNCTION rpq_store.id_array(ids jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT ARRAY(SELECT a.id::bigint FROM jsonb_array_elements_text($1) AS a (id)) $$;
COMMENT ON FUNCTION rpq_store.id_array(jsonb) IS
'ids out of a JSON array; no ids out of NULL';

CREATE OR REPLACE FUNCTION rpq_store.receives(asked jsonb) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.pool AS p
				   WHERE p.pool_id = ($1->>'target_id')::bigint AND p.type <> 'shared')
$$;
COMMENT ON FUNCTION rpq_store.receives(jsonb) IS
'whether the target of an operation with these arguments is dedicated or exclusive: it takes only whole machines '
'that take work';

-- ---- carrying it out ------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.pool_total(pool_id bigint) RETURNS rpq.resources
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(rpq.sum(c.capacity OPERATOR(rpq.*) c.nodes::numeric), '')
	FROM rpq_store.pool_capacity AS c WHERE c.pool_id = $1
$$;
COMMENT ON FUNCTION rpq_store.pool_total(bigint) IS
'what the nodes of a pool hold';

-- What recount_capacity() would come to, without looking at the nodes that stay: they may be ten thousand.
CREATE OR REPLACE FUNCTION rpq_store.shift_capacity(nodes bigint[], from_id bigint, to_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO rpq_store.pool_capacity AS c (pool_id, type_id, capacity, nodes)
	SELECT shift_capacity.to_id, n.type_id, n.capacity, count(*)
	FROM rpq_store.node AS n WHERE n.node_id = ANY (shift_capacity.nodes) GROUP BY n.type_id, n.capacity
	ON CONFLICT (pool_id, type_id, capacity) DO UPDATE SET nodes = c.nodes + excluded.nodes;
	UPDATE rpq_store.pool_capacity AS c SET nodes = c.nodes - g.nodes
	FROM (SELECT n.type_id, n.capacity, count(*) AS nodes
		  FROM rpq_store.node AS n WHERE n.node_id = ANY (shift_capacity.nodes) GROUP BY n.type_id, n.capacity) AS g
	WHERE c.pool_id = shift_capacity.from_id AND c.type_id = g.type_id AND c.capacity OPERATOR(rpq.=) g.capacity;
	DELETE FROM rpq_store.pool_capacity AS c WHERE c.pool_id = shift_capacity.from_id AND c.nodes = 0;
	-- a total that is out of range (22003) is refused here, not met by every later reader
	PERFORM rpq_store.pool_total(shift_capacity.to_id);
	INSERT INTO rpq_store.pool_instance (pool_id, type_id)
	SELECT DISTINCT shift_capacity.to_id, n.type_id
	FROM rpq_store.node AS n WHERE n.node_id = ANY (shift_capacity.nodes)
	ON CONFLICT (pool_id, type_id) DO NOTHING;
	UPDATE rpq_store.node_load AS l SET pool_id = shift_capacity.to_id
	WHERE l.node_id = ANY (shift_capacity.nodes);
END
$$;
COMMENT ON FUNCTION rpq_store.shift_capacity(bigint[], bigint, bigint) IS
'counts what nodes hold, which have gone from one pool to another, to that pool: pool_capacity, pool_instance, '
'node_load. The caller holds both turns';

CREATE OR REPLACE FUNCTION rpq_store.hand_over(nodes bigint[], from_id bigint, to_id bigint) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	names text[];
BEGIN
	IF hand_over.nodes = '{}' THEN
		RETURN ARRAY[]::text[];
	END IF;
	WITH moved AS (
		UPDATE rpq_store.node AS n SET pool_id = hand_over.to_id
		WHERE n.node_id = ANY (hand_over.nodes) AND n.pool_id = hand_over.from_id RETURNING n.name)
	SELECT array_agg(m.name ORDER BY m.name) INTO names FROM moved AS m;
	PERFORM rpq_store.shift_capacity(hand_over.nodes, hand_over.from_id, hand_over.to_id);
	RETURN names;
END
$$;
COMMENT ON FUNCTION rpq_store.hand_over(bigint[], bigint, bigint) IS
'gives nodes from one pool to another, and returns their names. They are empty; the caller holds both turns';

-- The shared pool may not be there yet, when all nodes were ordered for other pools.  Its turn comes after others that
-- are held, so it is not waited for.
CREATE OR REPLACE FUNCTION rpq_store.receiver(subject rpq_store.pool, target_id bigint, action text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	shared_id bigint;
BEGIN
	IF receiver.target_id IS NOT NULL THEN
		RETURN receiver.target_id;
	END IF;
	shared_id := rpq_store.shared_pool(subject.tenant_id, subject.cluster_id, subject.kind, receiver.action);
	IF NOT rpq_store.try_turns(ARRAY[shared_id]) THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'the shared pool came into being just now, and is in use',
			HINT = 'Try again.';
	END IF;
	PERFORM rpq_store.take_turns(ARRAY[shared_id]);
	RETURN shared_id;
END
$$;
COMMENT ON FUNCTION rpq_store.receiver(rpq_store.pool, bigint, text) IS
'the pool that takes a pool''s nodes: the one given, else the shared one, which is made when there is none; 55P03 when '
'somebody has its turn';

CREATE OR REPLACE FUNCTION rpq_store.evicted_by(operation_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT DISTINCT m.workload_id FROM rpq_store.pod_migration AS m
				 WHERE m.operation_id = $1 AND m.status = 'done' ORDER BY m.workload_id)
$$;
COMMENT ON FUNCTION rpq_store.evicted_by(bigint) IS
'the workloads whose pods an operation has moved';

CREATE OR REPLACE FUNCTION rpq_store.changed_nodes(added jsonb, removed jsonb, evicted bigint[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('nodes_added', nullif($1, '[]'), 'nodes_removed', nullif($2, '[]'),
		'evicted', CASE WHEN $3 <> '{}' THEN to_jsonb($3) END))
$$;
COMMENT ON FUNCTION rpq_store.changed_nodes(jsonb, jsonb, bigint[]) IS
'what the history says of nodes that came and went; nothing where there are none';

CREATE OR REPLACE FUNCTION rpq_store.begin_emptying(operation_id bigint, pool_id bigint, nodes bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF begin_emptying.nodes <> '{}' THEN
		PERFORM rpq_store.begin_moves(begin_emptying.operation_id, begin_emptying.pool_id, begin_emptying.nodes);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.begin_emptying(bigint, bigint, bigint[]) IS
'begins to empty nodes that are to leave a pool, if there are any: idle ones as well, so that they stay idle';

CREATE OR REPLACE FUNCTION rpq_store.emptied(subject rpq_store.operation) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	nodes bigint[] := rpq_store.draining_nodes(subject.operation_id);
	moves rpq_store.moves_progress;
BEGIN
	moves := rpq_store.step_moves(subject.operation_id, rpq_store.move_timeout());
	IF moves.blocked IS NOT NULL THEN
		PERFORM rpq_store.raise_blocked(subject.operation_id, moves.blocked);
	ELSIF moves."left" > 0
		OR EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = ANY (nodes))
		OR EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = ANY (nodes)) THEN
		RETURN false;
	END IF;
	PERFORM rpq_store.end_moves(subject.operation_id);
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.emptied(rpq_store.operation) IS
'one step of emptying an operation''s nodes: true when nothing stands on them any more, also no room that is kept '
'for a pod that is stopping; then they take pods again from the end of the transaction on';

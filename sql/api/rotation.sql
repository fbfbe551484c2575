-- Faulty-node rotation: an unhealthy node of an exclusive pool is swapped for a healthy idle one of the shared pool.
--
-- Each swap is an operation of kind rotate, by the system, pending until there is a spare.  It holds no pool, so any
-- other operation may overtake it.  Writes operation and the pool of nodes, under the turns of the pool and of the
-- shared pool, which are never waited for: what somebody else has in hand is looked at in the next round.

-- A pool that may rotate: what every part below asks.
CREATE OR REPLACE FUNCTION rpq_store.rotates(subject rpq_store.pool) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ($1).faulty_node_rotation AND ($1).type = 'exclusive'
		AND ($1).status NOT IN ('creating', 'deleting', 'deleted')
$$;
COMMENT ON FUNCTION rpq_store.rotates(rpq_store.pool) IS
'whether faulty nodes of a pool are to be swapped';

CREATE OR REPLACE VIEW rpq_store.open_rotation AS
SELECT o.operation_id, o.pool_id, (o.arguments->>'node_id')::bigint AS node_id, o.waiting, o.tried_at, o.tried_mark
FROM rpq_store.operation AS o
WHERE o.status IN ('pending', 'running') AND o.kind = 'rotate';
COMMENT ON VIEW rpq_store.open_rotation IS 'swaps of faulty nodes that wait for a spare';
COMMENT ON COLUMN rpq_store.open_rotation.operation_id IS 'the operation';
COMMENT ON COLUMN rpq_store.open_rotation.pool_id IS 'the exclusive pool';
COMMENT ON COLUMN rpq_store.open_rotation.node_id IS 'the faulty node';
COMMENT ON COLUMN rpq_store.open_rotation.waiting IS 'no spare was found';
COMMENT ON COLUMN rpq_store.open_rotation.tried_at IS 'when';
COMMENT ON COLUMN rpq_store.open_rotation.tried_mark IS 'how far the turns had come then';

CREATE OR REPLACE VIEW rpq_store.faulty_node AS
SELECT n.node_id, n.name, n.pool_id, n.tenant_id, n.type_id, n.capacity, s.pool_id AS shared_id
FROM rpq_store.pool AS p
JOIN rpq_store.node AS n ON n.pool_id = p.pool_id AND n.health = 'unhealthy' AND NOT n.removing
LEFT JOIN rpq_store.pool AS s
	ON s.tenant_id = p.tenant_id AND s.cluster_id = p.cluster_id AND s.kind = p.kind AND s.type = 'shared'
WHERE p.faulty_node_rotation AND rpq_store.rotates(p);
COMMENT ON VIEW rpq_store.faulty_node IS 'unhealthy nodes of pools that have them swapped';
COMMENT ON COLUMN rpq_store.faulty_node.node_id IS 'the node';
COMMENT ON COLUMN rpq_store.faulty_node.name IS 'its name';
COMMENT ON COLUMN rpq_store.faulty_node.pool_id IS 'its pool';
COMMENT ON COLUMN rpq_store.faulty_node.tenant_id IS 'the tenant of both';
COMMENT ON COLUMN rpq_store.faulty_node.type_id IS 'its instance type';
COMMENT ON COLUMN rpq_store.faulty_node.capacity IS 'what it holds';
COMMENT ON COLUMN rpq_store.faulty_node.shared_id IS 'the shared pool that spares come from; NULL: there is none';

-- The one of the same size first: the pool stays as large as it was.
CREATE OR REPLACE FUNCTION rpq_store.find_spare(faulty rpq_store.faulty_node) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT n.node_id
	FROM (SELECT c.capacity, c.capacity OPERATOR(rpq.=) ($1).capacity AS same
		  FROM rpq_store.pool_capacity AS c
		  JOIN rpq_store.instance_type AS t ON t.type_id = c.type_id
		  WHERE c.pool_id = ($1).shared_id AND c.type_id = ($1).type_id
			AND rpq_store.machines(c.capacity, t.machine_unit) IS NOT NULL OFFSET 0) AS size
	JOIN rpq_store.node AS n ON n.pool_id = ($1).shared_id AND n.type_id = ($1).type_id
		AND n.capacity OPERATOR(rpq.=) size.capacity
	JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
	WHERE n.health = 'healthy' AND n.schedulable AND NOT n.draining AND NOT n.removing AND l.pods = 0
	  AND NOT EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)
	ORDER BY size.same DESC, n.name LIMIT 1
$$;
COMMENT ON FUNCTION rpq_store.find_spare(rpq_store.faulty_node) IS
'a healthy idle node of the shared pool, of the same instance type, that may take the place of a faulty one; NULL: '
'none. Exact for who holds the turn of the shared pool';

-- The worker does this before its cycles, so a swap that fails (a total out of range, say) must not take them with it.
CREATE OR REPLACE FUNCTION rpq_store.swap_node(operation_id bigint, faulty rpq_store.faulty_node, spare_id bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	names jsonb := jsonb_build_object('faulty', faulty.name, 'spare',
		(SELECT n.name FROM rpq_store.node AS n WHERE n.node_id = spare_id));
	said text;
	code text;
BEGIN
	UPDATE rpq_store.node AS n
	SET pool_id = CASE n.node_id WHEN faulty.node_id THEN faulty.shared_id ELSE faulty.pool_id END
	WHERE n.node_id IN (faulty.node_id, spare_id);
	-- what is still stopping there keeps its room where the node is now; what was held for a preemptor is given up
	PERFORM rpq_store.give_up_on_nodes(ARRAY[faulty.node_id]);
	UPDATE rpq_store.hold AS h SET scope_id = faulty.shared_id WHERE h.node_id = faulty.node_id;
	PERFORM rpq_store.recount_capacity(ARRAY[faulty.pool_id, faulty.shared_id]);
	UPDATE rpq_store.operation AS o
	SET status = 'succeeded', started_at = rpq.now(), ended_at = greatest(rpq.now(), o.created_at), progress = 1,
		attempts = 1, waiting = false, result = names
	WHERE o.operation_id = swap_node.operation_id;
	PERFORM rpq_store.record('rotate', 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id,
		jsonb_build_object('node', names->'faulty'), jsonb_build_object('node', names->'spare'), swap_node.operation_id)
	FROM rpq_store.pool AS p WHERE p.pool_id = faulty.pool_id;
	RETURN true;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
	RAISE WARNING USING ERRCODE = code, MESSAGE = format('operation %s cannot swap the node now: %s',
		swap_node.operation_id, said);
	RETURN false;
END
$$;
COMMENT ON FUNCTION rpq_store.swap_node(bigint, rpq_store.faulty_node, bigint) IS
'swaps a faulty node for a spare and ends the operation that asked for it; false, with a warning and nothing changed, '
'when that fails. The caller holds both turns';

-- Pods of the faulty node are lost when it turns unhealthy; where a client keeps one's workload locked, the node waits.
CREATE OR REPLACE FUNCTION rpq_store.swap_faulty(pool_id bigint, scopes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	faulty rpq_store.faulty_node;
	asked bigint;
	spare bigint;
	swapped int := 0;
BEGIN
	IF EXISTS (SELECT FROM rpq_store.operation_pool AS h WHERE h.pool_id = swap_faulty.pool_id) THEN
		RETURN 0;
	END IF;
	FOR asked IN
		SELECT r.operation_id FROM rpq_store.open_rotation AS r
		WHERE r.pool_id = swap_faulty.pool_id ORDER BY r.operation_id
	LOOP
		SELECT f.* INTO faulty
		FROM rpq_store.open_rotation AS r JOIN rpq_store.faulty_node AS f ON f.node_id = r.node_id
		WHERE r.operation_id = asked
		  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = f.node_id);
		CONTINUE WHEN NOT FOUND;
		spare := rpq_store.find_spare(faulty);
		IF spare IS NOT NULL AND rpq_store.swap_node(asked, faulty, spare) THEN
			swapped := swapped + 1;
		END IF;
	END LOOP;
	IF swapped > 0 THEN
		PERFORM rpq_store.take_turns(swap_faulty.scopes);
	END IF;
	RETURN swapped;
END
$$;
COMMENT ON FUNCTION rpq_store.swap_faulty(bigint, bigint[]) IS
'swaps the faulty nodes of a pool for which there are spares; returns how many. An operation that has the pool goes '
'first. The caller holds the turns of scopes: the pool and the shared pool';

CREATE OR REPLACE FUNCTION rpq_store.rotate_pool(pool_id bigint, scopes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'rotate'
AS $$
#variable_conflict use_column
DECLARE
	swapped int;
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'cancelled', ended_at = greatest(rpq.now(), o.created_at), waiting = false
	FROM rpq_store.open_rotation AS r
	WHERE r.pool_id = rotate_pool.pool_id AND o.operation_id = r.operation_id
	  AND NOT EXISTS (SELECT FROM rpq_store.faulty_node AS f WHERE f.node_id = r.node_id AND f.pool_id = r.pool_id);
	INSERT INTO rpq_store.operation (tenant_id, kind, pool_id, arguments, action, initiator, db_role, application_name,
		created_at, pool_status)
	SELECT f.tenant_id, 'rotate', f.pool_id, jsonb_strip_nulls(jsonb_build_object('node', f.name, 'node_id', f.node_id,
			'source', s.name, 'source_id', f.shared_id)), 'rotate', 'system', session_user,
		current_setting('application_name'), rpq.now(), p.status
	FROM rpq_store.faulty_node AS f
	JOIN rpq_store.pool AS p ON p.pool_id = f.pool_id
	LEFT JOIN rpq_store.pool AS s ON s.pool_id = f.shared_id
	WHERE f.pool_id = rotate_pool.pool_id
	  AND NOT EXISTS (SELECT FROM rpq_store.open_rotation AS r WHERE r.node_id = f.node_id AND r.pool_id = f.pool_id)
	ORDER BY f.name;
	swapped := rpq_store.swap_faulty(rotate_pool.pool_id, rotate_pool.scopes);
	UPDATE rpq_store.operation AS o
	SET waiting = true, tried_at = clock_timestamp(), tried_mark = rpq_store.turn_mark(rotate_pool.scopes)
	FROM rpq_store.open_rotation AS r
	WHERE r.pool_id = rotate_pool.pool_id AND o.operation_id = r.operation_id;
	RETURN swapped;
END
$$;
COMMENT ON FUNCTION rpq_store.rotate_pool(bigint, bigint[]) IS
'brings the swaps of a pool up to date: those that are no longer wanted are cancelled, those that are missing asked '
'for, and all that can be are carried out; returns how many swaps. The caller holds the turns of scopes: the pool and '
'the shared pool';

-- What there is to do: a swap to ask for, one that is no longer wanted, one that may find a spare since the turns have
-- moved.  Without unhealthy nodes and open swaps it is two index probes.
CREATE OR REPLACE FUNCTION rpq_store.run_rotations(pools bigint[], patience interval) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	due record;
	swapped int := 0;
BEGIN
	FOR due IN
		SELECT k.pool_id, array_remove(ARRAY[k.pool_id, s.pool_id], NULL) AS scopes
		FROM (SELECT coalesce(f.pool_id, r.pool_id) AS pool_id
			  FROM rpq_store.faulty_node AS f
			  FULL JOIN rpq_store.open_rotation AS r ON r.node_id = f.node_id AND r.pool_id = f.pool_id
			  WHERE f.node_id IS NULL OR r.operation_id IS NULL OR NOT r.waiting
				 OR (NOT clock_timestamp() BETWEEN r.tried_at AND r.tried_at + run_rotations.patience
					AND r.tried_mark <> rpq_store.turn_mark(array_remove(ARRAY[f.pool_id, f.shared_id], NULL)))
			  GROUP BY 1) AS k
		JOIN rpq_store.pool AS p ON p.pool_id = k.pool_id
		LEFT JOIN rpq_store.pool AS s
			ON s.tenant_id = p.tenant_id AND s.cluster_id = p.cluster_id AND s.kind = p.kind AND s.type = 'shared'
		WHERE run_rotations.pools IS NULL OR k.pool_id = ANY (run_rotations.pools)
		ORDER BY k.pool_id
	LOOP
		IF rpq_store.try_turns(due.scopes) THEN
			swapped := swapped + rpq_store.rotate_pool(due.pool_id, due.scopes);
		END IF;
	END LOOP;
	RETURN swapped;
END
$$;
COMMENT ON FUNCTION rpq_store.run_rotations(bigint[], interval) IS
'swaps faulty nodes of these pools, NULL: of all, as far as turns are free and spares there; returns how many. '
'patience: how long a swap that found no spare is left alone, whatever moves';

CREATE OR REPLACE FUNCTION rpq_store.rotate_now() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('rpq.synchronous_operations')::boolean THEN
		PERFORM rpq_store.run_rotations(NULL, '0');
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.rotate_now() IS
'with rpq.synchronous_operations: what the worker would do about faulty nodes in its next round. For calls after which '
'a node may be faulty, or a spare';

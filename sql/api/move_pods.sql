-- The move itself: pods that have their room on another node leave the one they are on.
--
-- Writes workload (FOR UPDATE SKIP LOCKED), entry (kind move), pod, node_load, hold, pod_migration, and pod_report of
-- new pods.  The caller holds the turn of the pool and has folded, so pod and node_load say the same.

-- Both are as the fold left them, so the sums are made anew from the pods.
CREATE OR REPLACE FUNCTION rpq_store.reload_nodes(nodes bigint[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH standing AS MATERIALIZED (
		SELECT p.node_id, p.devices, w.resources,
			round((w.resources OPERATOR(rpq.->) 'gpu') * 21000 / greatest(cardinality(p.devices), 1))::bigint AS each
		FROM rpq_store.pod AS p
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		WHERE p.node_id = ANY ($1)),
	load AS (
		SELECT s.node_id, rpq.sum(s.resources) AS used, count(*)::int AS pods FROM standing AS s GROUP BY s.node_id),
	taken AS (
		SELECT s.node_id, d.device, sum(s.each)::bigint AS parts
		FROM standing AS s CROSS JOIN LATERAL unnest(s.devices) AS d (device) GROUP BY s.node_id, d.device),
	device AS (
		SELECT l.node_id, array_agg(coalesce(t.parts, 0) ORDER BY g.device) AS parts
		FROM rpq_store.node_load AS l
		CROSS JOIN LATERAL generate_series(0, cardinality(l.parts) - 1) AS g (device)
		LEFT JOIN taken AS t ON t.node_id = l.node_id AND t.device = g.device
		WHERE l.node_id = ANY ($1) GROUP BY l.node_id)
	UPDATE rpq_store.node_load AS l
	SET used = coalesce(b.used, ''), pods = coalesce(b.pods, 0), parts = coalesce(d.parts, '{}')
	FROM unnest($1) AS n (node_id)
	LEFT JOIN load AS b ON b.node_id = n.node_id
	LEFT JOIN device AS d ON d.node_id = n.node_id
	WHERE l.node_id = n.node_id
$$;
COMMENT ON FUNCTION rpq_store.reload_nodes(bigint[]) IS
'makes node_load of these nodes anew from their pods; the caller holds the turns and has folded';

-- A row that its client keeps locked is left for the next step; so is one whose attempt ended without the fold having
-- seen it.
CREATE OR REPLACE FUNCTION rpq_store.lock_moves(moves bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	asked bigint[];
	locked bigint[];
BEGIN
	SELECT array_agg(DISTINCT m.workload_id) INTO asked
	FROM rpq_store.pod_migration AS m WHERE m.pod_migration_id = ANY (lock_moves.moves);
	SELECT array_agg(l.workload_id) INTO locked
	FROM (SELECT w.workload_id FROM rpq_store.workload AS w
		  WHERE w.workload_id = ANY (asked) AND w.status IN ('starting', 'running')
		  ORDER BY w.workload_id FOR UPDATE SKIP LOCKED) AS l;
	RETURN ARRAY(
		SELECT m.pod_migration_id
		FROM rpq_store.pod_migration AS m
		JOIN rpq_store.pod AS p ON p.pod_id = m.pod_id
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
		WHERE m.pod_migration_id = ANY (lock_moves.moves) AND w.workload_id = ANY (locked)
		ORDER BY m.pod_migration_id);
END
$$;
COMMENT ON FUNCTION rpq_store.lock_moves(bigint[]) IS
'locks the workloads of moves and returns the moves that can be made: their workload is placed, and no client keeps it '
'locked';

-- The new pods, and the attempt that the whole gang goes on with: each move of one of its replicas adds one.
CREATE OR REPLACE FUNCTION rpq_store.replace_pods(moves bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	gangs bigint[];
	attempts int[];
	bumps int[];
BEGIN
	SELECT array_agg(g.workload_id), array_agg(g.attempt), array_agg(g.moves) INTO gangs, attempts, bumps
	FROM (SELECT w.workload_id, w.attempt, count(*)::int AS moves
		  FROM rpq_store.pod_migration AS m JOIN rpq_store.workload AS w ON w.workload_id = m.workload_id
		  WHERE m.pod_migration_id = ANY (replace_pods.moves) GROUP BY w.workload_id) AS g;
	DELETE FROM rpq_store.pod AS p USING rpq_store.pod_migration AS m
	WHERE m.pod_migration_id = ANY (replace_pods.moves) AND p.pod_id = m.pod_id;
	UPDATE rpq_store.pod AS p SET attempt = g.attempt + g.moves
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	WHERE p.workload_id = g.workload_id AND p.attempt = g.attempt;
	-- a victim that has still to stop is one wherever it stands
	UPDATE rpq_store.preemption AS p SET victim_attempt = g.attempt + g.moves
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	WHERE p.victim = g.workload_id AND p.victim_attempt = g.attempt AND p.state = 'pending';
	INSERT INTO rpq_store.pod (workload_id, attempt, replica, node_id, devices)
	SELECT m.workload_id, g.attempt + g.moves, m.replica, m.to_node_id, m.devices
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	JOIN rpq_store.pod_migration AS m ON m.workload_id = g.workload_id
	WHERE m.pod_migration_id = ANY (replace_pods.moves)
	ORDER BY m.pod_migration_id;
	-- a replica that has succeeded is not started again
	INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, outcome, detail, devices, at)
	SELECT p.pod_id, p.node_id, p.workload_id, p.attempt, r.state, r.outcome, r.detail, p.devices, r.at
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	JOIN rpq_store.pod_report AS r
		ON r.workload_id = g.workload_id AND r.state = 'finished' AND r.outcome = 'succeeded'
	JOIN rpq_store.pod_migration AS m ON m.pod_id = r.pod_id AND m.pod_migration_id = ANY (replace_pods.moves)
	JOIN rpq_store.pod AS p
		ON p.workload_id = m.workload_id AND p.attempt = g.attempt + g.moves AND p.replica = m.replica;
END
$$;
COMMENT ON FUNCTION rpq_store.replace_pods(bigint[]) IS
'pods of moves leave their nodes and come to be on those where room is held; the rest of each gang goes on with the '
'same new attempt';

-- With an executor on the target the gang is starting until that has reported the pod; without, nobody would ever say
-- so, and it stays what it was.
CREATE OR REPLACE FUNCTION rpq_store.move_workloads(moves bigint[], at timestamptz) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH step AS MATERIALIZED (
		SELECT m.workload_id, m.replica, m.from_node, m.to_node, m.operation_id, s.node_id IS NOT NULL AS attended,
			row_number() OVER (PARTITION BY m.workload_id ORDER BY m.pod_migration_id)::int AS place
		FROM rpq_store.pod_migration AS m
		LEFT JOIN rpq_store.node_seen AS s
			ON s.node_id = m.to_node_id AND s.at > $2 - current_setting('rpq.node_timeout')::interval
		WHERE m.pod_migration_id = ANY ($1)),
	gang AS MATERIALIZED (
		SELECT w.workload_id, w.attempt,
			CASE WHEN bool_or(s.attended) THEN 'starting' ELSE w.status END AS status, count(*)::int AS moves,
			(SELECT array_agg(coalesce(t.to_node, o.name) ORDER BY o.place)
			 FROM unnest(w.nodes) WITH ORDINALITY AS o (name, place)
			 LEFT JOIN step AS t ON t.workload_id = w.workload_id AND t.replica = o.place - 1) AS nodes
		FROM step AS s JOIN rpq_store.workload AS w ON w.workload_id = s.workload_id
		GROUP BY w.workload_id),
	told AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id,
			lender_id, attempt, kind, status, actor, cause, detail)
		SELECT w.scope_id, greatest($2, w.started_at), w.workload_id, w.shape, w.account_id, w.policy_id, w.pool_id,
			w.type_id, w.lender_id, g.attempt + s.place - 1, 'move', g.status, 'system', 'evicted',
			format('replica %s from node "%s" to node "%s", operation %s', s.replica, s.from_node, s.to_node,
				s.operation_id)
		FROM step AS s
		JOIN gang AS g ON g.workload_id = s.workload_id
		JOIN rpq_store.workload AS w ON w.workload_id = s.workload_id
		ORDER BY s.workload_id, s.place)
	UPDATE rpq_store.workload AS w
	SET attempt = g.attempt + g.moves, status = g.status, nodes = g.nodes,
		running_at = CASE g.status WHEN 'running' THEN w.running_at END
	FROM gang AS g WHERE w.workload_id = g.workload_id
$$;
COMMENT ON FUNCTION rpq_store.move_workloads(bigint[], timestamptz) IS
'the workloads of moves: nodes, the attempt that they go on with, and an event for each attempt that a move has ended';

CREATE OR REPLACE FUNCTION rpq_store.move_pods(moves bigint[], at timestamptz) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	made bigint[] := rpq_store.lock_moves(move_pods.moves);
	touched bigint[];
BEGIN
	IF cardinality(made) = 0 THEN
		RETURN 0;
	END IF;
	PERFORM rpq_store.replace_pods(made);
	PERFORM rpq_store.move_workloads(made, move_pods.at);
	DELETE FROM rpq_store.hold AS h USING rpq_store.pod_migration AS m
	WHERE m.pod_migration_id = ANY (made) AND h.pod_id = m.pod_id AND h.operation_id = m.operation_id
	  AND h.purpose = 'move';
	UPDATE rpq_store.pod_migration AS m
	SET status = 'done', evicted_at = coalesce(m.evicted_at, move_pods.at), ended_at = move_pods.at
	WHERE m.pod_migration_id = ANY (made);
	SELECT array_agg(DISTINCT n.node_id) INTO touched
	FROM rpq_store.pod_migration AS m CROSS JOIN LATERAL unnest(ARRAY[m.from_node_id, m.to_node_id]) AS n (node_id)
	WHERE m.pod_migration_id = ANY (made);
	PERFORM rpq_store.reload_nodes(touched);
	RETURN cardinality(made);
END
$$;
COMMENT ON FUNCTION rpq_store.move_pods(bigint[], timestamptz) IS
'makes moves whose room is reserved and whose pod nobody runs; returns how many, those left out being locked by their '
'clients or ended. Usage does not change. The caller holds the turn and has folded';

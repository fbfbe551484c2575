-- Moves of pods between nodes of a pool, reserve first: for every operation that empties nodes.
--
-- Writes pod_migration, hold (purpose move), node.draining, operation.state and progress, migration.evicted, and with
-- each move workload (FOR UPDATE SKIP LOCKED), pod, entry (kind move) and node_load.  The caller holds the turn of the
-- pool and the operation's row, and has folded.  Usage is not touched: a pod that moves is charged once throughout, and
-- what a hold keeps is the node's matter alone.
--
-- A move ends the attempt: its entry stands for the end of the one that the pods had, and the gang goes on as the next.
-- The pods that stay keep their ids; the one that moves is a new pod, as at every placement.

CREATE OR REPLACE FUNCTION rpq_store.plan_moves(pool_id bigint, nodes bigint[], pods bigint[] DEFAULT NULL,
	wanted bigint[] DEFAULT NULL, folded boolean DEFAULT true)
RETURNS TABLE (pod_id bigint, workload_id bigint, replica int, attempt int, resources rpq.resources,
	from_node_id bigint, to_node_id bigint, devices int[])
LANGUAGE c STABLE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_plan_moves';
COMMENT ON FUNCTION rpq_store.plan_moves(bigint, bigint[], bigint[], bigint[], boolean) IS
'where the pods go that stand on nodes of the pool, none of which takes them: largest first, by the scheduling '
'policy, without those that borrow there; room counted down move by move, holds counted as taken; to_node_id is NULL '
'for a pod without target. With pods, only those, each to its node of wanted (0: any) while that takes it. folded: '
'the caller holds the turn and has folded; false for one that only looks: work that has ended and was not counted yet '
'has then left its nodes. Writes nothing';

CREATE OR REPLACE FUNCTION rpq_store.move_timeout() RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT interval '10 minutes' $$;
COMMENT ON FUNCTION rpq_store.move_timeout() IS
'how long a drain, resize or move of nodes waits for one pod''s executor, or for a client that keeps its workload''s '
'row locked';

CREATE OR REPLACE FUNCTION rpq_store.counted(number bigint, word text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('%s %s%s', $1, $2, CASE WHEN $1 <> 1 THEN 's' END) $$;
COMMENT ON FUNCTION rpq_store.counted(bigint, text) IS 'a number with its noun: 1 pod, 2 pods';

CREATE OR REPLACE FUNCTION rpq_store.describe_pods(pods bigint[], named_in bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(CASE WHEN s.named
			THEN format('%s: %s%s', s.name, s.what, CASE WHEN s.pods > 10 THEN format(' and %s more', s.pods - 10) END)
			ELSE format('%s: %s', s.name, rpq_store.counted(s.pods, 'pod')) END, '; ' ORDER BY s.name)
	FROM (SELECT k.name, k.named, string_agg(k.what, ', ' ORDER BY k.place) FILTER (WHERE k.place <= 10) AS what,
			count(*) AS pods
		  FROM (SELECT n.name, n.pool_id IS NOT DISTINCT FROM $2 AS named,
					format('workload %s replica %s (%s)', p.workload_id, p.replica, w.resources) AS what,
					row_number() OVER (PARTITION BY n.name ORDER BY p.workload_id, p.replica) AS place
				FROM rpq_store.pod AS p
				JOIN rpq_store.node AS n ON n.node_id = p.node_id
				JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
				WHERE p.pod_id = ANY ($1)) AS k
		  GROUP BY k.name, k.named) AS s
$$;
COMMENT ON FUNCTION rpq_store.describe_pods(bigint[], bigint) IS
'pods in words, by node: of nodes of the pool named_in their workloads with replica and amounts, ten a node; of others '
'their number, which is for those who may not see them';

CREATE OR REPLACE FUNCTION rpq_store.refuse_moves(pool_id bigint, nodes bigint[], named boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	stuck bigint[];
BEGIN
	SELECT array_agg(m.pod_id) INTO stuck
	FROM rpq_store.plan_moves(refuse_moves.pool_id, refuse_moves.nodes) AS m WHERE m.to_node_id IS NULL;
	IF stuck IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006',
			MESSAGE = format('%s cannot be placed elsewhere in pool "%s"', rpq_store.counted(cardinality(stuck), 'pod'),
				(SELECT p.name FROM rpq_store.pool AS p WHERE p.pool_id = refuse_moves.pool_id)),
			DETAIL = rpq_store.describe_pods(stuck, CASE WHEN refuse_moves.named THEN refuse_moves.pool_id END),
			HINT = CASE WHEN EXISTS (SELECT FROM rpq_store.borrowed_pod AS b
									 WHERE b.lender_id = refuse_moves.pool_id AND b.node_id <> ALL (refuse_moves.nodes))
				THEN 'Other nodes of the pool are lent: switch idle-time sharing off to have their room back.'
				ELSE 'Stop some of this work, or wait until other nodes of the same instance type have room for it.'
			END;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_moves(bigint, bigint[], boolean) IS
'refuses (RQ006) when a pod on the nodes has no place elsewhere in the pool; the errdetail says nodes, with named '
'workloads and amounts, else the number of pods';

CREATE OR REPLACE FUNCTION rpq_store.write_moves(operation_id bigint, pool_id bigint, nodes bigint[], pods bigint[],
	at timestamptz) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	written int;
BEGIN
	INSERT INTO rpq_store.pod_migration (operation_id, pool_id, workload_id, replica, attempt, pod_id, resources,
		from_node_id, from_node, to_node_id, to_node, devices, planned_at)
	SELECT write_moves.operation_id, write_moves.pool_id, m.workload_id, m.replica, m.attempt, m.pod_id, m.resources,
		m.from_node_id, f.name, m.to_node_id, t.name, m.devices, write_moves.at
	FROM rpq_store.plan_moves(write_moves.pool_id, write_moves.nodes, write_moves.pods,
		array_fill(0::bigint, ARRAY[coalesce(cardinality(write_moves.pods), 0)])) WITH ORDINALITY AS m (pod_id,
		workload_id, replica, attempt, resources, from_node_id, to_node_id, devices, place)
	JOIN rpq_store.node AS f ON f.node_id = m.from_node_id
	JOIN rpq_store.node AS t ON t.node_id = m.to_node_id
	ORDER BY m.place;
	GET DIAGNOSTICS written = ROW_COUNT;
	RETURN written;
END
$$;
COMMENT ON FUNCTION rpq_store.write_moves(bigint, bigint, bigint[], bigint[], timestamptz) IS
'plans the moves of pods off the nodes and writes those that have a target to pod_migration; returns how many. pods: '
'NULL is all that stand there';

CREATE OR REPLACE FUNCTION rpq_store.refuse_draining(nodes bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	taken text;
BEGIN
	SELECT string_agg(n.name, ', ' ORDER BY n.name) INTO taken FROM rpq_store.node AS n
	WHERE n.node_id = ANY (refuse_draining.nodes) AND n.draining;
	IF taken IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = 'another operation is emptying these nodes', DETAIL = taken;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_draining(bigint[]) IS
'refuses (RQ004) nodes that an open operation is emptying';

CREATE OR REPLACE FUNCTION rpq_store.begin_moves(operation_id bigint, pool_id bigint, nodes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	written int;
	standing int;
BEGIN
	PERFORM rpq_store.refuse_draining(begin_moves.nodes);
	PERFORM rpq_store.give_up_on_nodes(begin_moves.nodes);
	PERFORM rpq_store.reclaim_nodes(begin_moves.pool_id, begin_moves.nodes);
	SELECT count(*) INTO standing FROM rpq_store.pod AS p
	WHERE p.node_id = ANY (begin_moves.nodes) AND p.pod_id NOT IN (SELECT b.pod_id FROM rpq_store.borrowed_pod AS b);
	written := rpq_store.write_moves(begin_moves.operation_id, begin_moves.pool_id, begin_moves.nodes, NULL,
		rpq.now());
	IF written < standing THEN
		PERFORM rpq_store.refuse_moves(begin_moves.pool_id, begin_moves.nodes,
			(SELECT o.pool_id = begin_moves.pool_id FROM rpq_store.operation AS o
			 WHERE o.operation_id = begin_moves.operation_id));
	END IF;
	UPDATE rpq_store.operation AS o
	SET state = o.state || jsonb_build_object('draining', coalesce(o.state->'draining', '[]') || (
		SELECT coalesce(jsonb_agg(jsonb_build_object('node_id', n.node_id) ORDER BY n.name), '[]')
		FROM rpq_store.node AS n WHERE n.node_id = ANY (begin_moves.nodes)))
	WHERE o.operation_id = begin_moves.operation_id;
	UPDATE rpq_store.node AS n SET draining = true WHERE n.node_id = ANY (begin_moves.nodes);
	RETURN written;
END
$$;
COMMENT ON FUNCTION rpq_store.begin_moves(bigint, bigint, bigint[]) IS
'begins to empty nodes of a pool for an operation: they take nothing new, what borrows there is preempted, and the '
'move of each other pod on them is planned; returns how many. RQ006 when a pod has no place elsewhere, RQ004 when '
'another operation empties one of the nodes. The caller holds the turn and has folded';

CREATE OR REPLACE FUNCTION rpq_store.draining_nodes(operation_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT (d.value->>'node_id')::bigint
		FROM rpq_store.operation AS o CROSS JOIN jsonb_array_elements(o.state->'draining') AS d (value)
		WHERE o.operation_id = $1)
$$;
COMMENT ON FUNCTION rpq_store.draining_nodes(bigint) IS 'the nodes that an operation is emptying';

-- A pod is gone when its attempt ended and the fold has freed it: its id serves one placement.
CREATE OR REPLACE FUNCTION rpq_store.skip_changed(operation_id bigint, at timestamptz) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH gone AS (
		UPDATE rpq_store.pod_migration AS m SET status = 'skipped', reason = 'pod_changed', ended_at = $2
		WHERE m.operation_id = $1 AND m.status IN ('planned', 'reserved', 'evicting')
		  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.pod_id = m.pod_id)
		RETURNING m.pod_id)
	DELETE FROM rpq_store.hold AS h USING gone
	WHERE h.pod_id = gone.pod_id AND h.operation_id = $1 AND h.purpose = 'move'
$$;
COMMENT ON FUNCTION rpq_store.skip_changed(bigint, timestamptz) IS
'ends the moves of an operation whose pod ended by itself, and gives back the room kept for it';

CREATE OR REPLACE FUNCTION rpq_store.takes_work(node_id bigint, pool_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.node AS n
				   WHERE n.node_id = $1 AND n.pool_id = $2 AND n.schedulable AND NOT n.draining
					 AND n.health = 'healthy')
$$;
COMMENT ON FUNCTION rpq_store.takes_work(bigint, bigint) IS
'whether a node is in the pool and takes new pods: healthy, not cordoned, not draining';

-- Only a node that has reported less than it nominally has can be too small for what was reserved on it.
CREATE OR REPLACE FUNCTION rpq_store.has_shrunk(node_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.node AS n
				   JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
				   WHERE n.node_id = $1 AND n.usable OPERATOR(rpq.<>) n.capacity
					 AND NOT l.used OPERATOR(rpq.+) (SELECT rpq.sum(h.resources) FROM rpq_store.hold AS h
													 WHERE h.node_id = $1 AND h.purpose <> 'preempt')
						 OPERATOR(rpq.<@) n.usable)
$$;
COMMENT ON FUNCTION rpq_store.has_shrunk(bigint) IS
'whether a node has less, by its own report, than its pods and what is reserved on it come to';

-- Holds of moves whose target has since turned bad are given up, so that another target is sought.
CREATE OR REPLACE FUNCTION rpq_store.drop_bad_targets(operation_id bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.hold AS h
	WHERE h.operation_id = $1 AND h.purpose = 'move'
	  AND (NOT rpq_store.takes_work(h.node_id, h.scope_id) OR rpq_store.has_shrunk(h.node_id))
$$;
COMMENT ON FUNCTION rpq_store.drop_bad_targets(bigint) IS
'gives up the room that moves of an operation have on nodes that take nothing new any more, or are too small by now';

CREATE OR REPLACE FUNCTION rpq_store.reserve_moves(operation_id bigint, pool_id bigint, batch int, at timestamptz)
RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	pods bigint[];
	wanted bigint[];
	reserved int;
BEGIN
	SELECT array_agg(m.pod_id ORDER BY m.pod_migration_id), array_agg(m.to_node_id ORDER BY m.pod_migration_id)
	INTO pods, wanted
	FROM ((SELECT p.* FROM rpq_store.pod_migration AS p
		   WHERE p.operation_id = reserve_moves.operation_id AND p.pool_id = reserve_moves.pool_id
			 AND p.status = 'planned'
		   ORDER BY p.pod_migration_id LIMIT reserve_moves.batch)
		  UNION ALL
		  SELECT r.* FROM rpq_store.pod_migration AS r
		  WHERE r.operation_id = reserve_moves.operation_id AND r.pool_id = reserve_moves.pool_id
			AND r.status IN ('reserved', 'evicting')
			AND NOT EXISTS (SELECT FROM rpq_store.hold AS h
							WHERE h.pod_id = r.pod_id AND h.operation_id = r.operation_id AND h.purpose = 'move')) AS m;
	IF pods IS NULL THEN
		RETURN 0;
	END IF;
	WITH placed AS MATERIALIZED (
		SELECT m.*, n.name FROM rpq_store.plan_moves(reserve_moves.pool_id,
			rpq_store.draining_nodes(reserve_moves.operation_id), pods, wanted) AS m
		JOIN rpq_store.node AS n ON n.node_id = m.to_node_id),
	held AS (
		INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, attempt, replica, resources, devices, purpose,
			pod_id, operation_id)
		SELECT reserve_moves.pool_id, p.to_node_id, p.workload_id, p.attempt, p.replica, p.resources, p.devices,
			'move', p.pod_id, reserve_moves.operation_id
		FROM placed AS p)
	UPDATE rpq_store.pod_migration AS m
	SET status = CASE m.status WHEN 'planned' THEN 'reserved' ELSE m.status END, to_node_id = p.to_node_id,
		to_node = p.name, devices = p.devices, reserved_at = coalesce(m.reserved_at, reserve_moves.at)
	FROM placed AS p
	WHERE m.operation_id = reserve_moves.operation_id AND m.pod_id = p.pod_id
	  AND m.status IN ('planned', 'reserved', 'evicting');
	GET DIAGNOSTICS reserved = ROW_COUNT;
	RETURN cardinality(pods) - reserved;
END
$$;
COMMENT ON FUNCTION rpq_store.reserve_moves(bigint, bigint, int, timestamptz) IS
'reserves room for open moves that have none, of those not begun batch at most, on the planned target or, when that '
'no longer takes the pod, on another; returns how many found none';

-- A pod that ended by itself, or was lost before it was told to stop, is the cycle's; but one replica of a gang that
-- has succeeded, while the others go on, moves with its report.
CREATE OR REPLACE FUNCTION rpq_store.movable_now(operation_id bigint, batch int, at timestamptz)
RETURNS TABLE (pod_migration_id bigint, status text, attended boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.pod_migration_id, m.status, coalesce(r.state IN ('started', 'running'), false) AND s.node_id IS NOT NULL
	FROM rpq_store.pod_migration AS m
	JOIN rpq_store.workload AS w ON w.workload_id = m.workload_id
	LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = m.pod_id
	LEFT JOIN rpq_store.node_seen AS s
		ON s.node_id = m.from_node_id AND s.at > $3 - current_setting('rpq.node_timeout')::interval
	WHERE m.operation_id = $1 AND m.status IN ('reserved', 'evicting')
	  AND (r.pod_id IS NULL OR r.state IN ('started', 'running') OR (r.outcome = 'succeeded' AND w.replicas > 1)
		OR (m.status = 'evicting' AND coalesce(r.outcome, 'stopped') = 'stopped'))
	ORDER BY m.pod_migration_id LIMIT $2
$$;
COMMENT ON FUNCTION rpq_store.movable_now(bigint, int, timestamptz) IS
'moves of an operation that have their room: attended says that an executor, heard of within rpq.node_timeout, has the '
'pod, so that it has to stop it first';

-- What was begun counts a half, so that whoever runs the operation sees that a step did something.
CREATE OR REPLACE FUNCTION rpq_store.show_moves(operation_id bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.operation AS o SET progress = m.progress
	FROM (SELECT round(sum(CASE m.status WHEN 'planned' THEN 0 WHEN 'reserved' THEN 0.25 WHEN 'evicting' THEN 0.5
			ELSE 1 END) / (count(*) + 1), 6) AS progress
		  FROM rpq_store.pod_migration AS m WHERE m.operation_id = $1) AS m
	WHERE o.operation_id = $1 AND m.progress <> o.progress;
	UPDATE rpq_store.migration AS g SET evicted = m.evicted
	FROM (SELECT array_agg(DISTINCT m.workload_id ORDER BY m.workload_id) AS evicted
		  FROM rpq_store.pod_migration AS m WHERE m.operation_id = $1 AND m.status = 'done') AS m
	WHERE g.operation_id = $1 AND m.evicted <> g.evicted
$$;
COMMENT ON FUNCTION rpq_store.show_moves(bigint) IS
'writes how far the moves of an operation are to its progress and to its migration record';

CREATE OR REPLACE FUNCTION rpq_store.step_moves(operation_id bigint, timeout interval)
RETURNS rpq_store.moves_progress
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	at timestamptz;
	-- a step keeps the turn for no longer than a cycle does
	batch int := least(current_setting('rpq.cycle_batch')::int, 150);
	nodes bigint[] := rpq_store.draining_nodes(step_moves.operation_id);
	pool bigint;
	missed bigint[];
	ready bigint[];
	short int := 0;
	progress rpq_store.moves_progress;
BEGIN
	at := greatest(rpq.now(), (SELECT max(t.last_at) FROM rpq_store.turn AS t WHERE t.scope_id IN (
		SELECT n.pool_id FROM rpq_store.node AS n WHERE n.node_id = ANY (nodes))));
	PERFORM rpq_store.skip_changed(step_moves.operation_id, at);
	PERFORM rpq_store.drop_bad_targets(step_moves.operation_id);
	-- a resize may empty nodes of two pools, its own and that which it grows from
	FOR pool IN SELECT DISTINCT n.pool_id FROM rpq_store.node AS n WHERE n.node_id = ANY (nodes) ORDER BY n.pool_id LOOP
		SELECT array_agg(p.pod_id) INTO missed
		FROM rpq_store.pod AS p JOIN rpq_store.node AS n ON n.node_id = p.node_id
		WHERE p.node_id = ANY (nodes) AND n.pool_id = pool AND NOT EXISTS (
			SELECT FROM rpq_store.pod_migration AS m
			WHERE m.pod_id = p.pod_id AND m.status IN ('planned', 'reserved', 'evicting'))
		  AND p.pod_id NOT IN (SELECT b.pod_id FROM rpq_store.borrowed_pod AS b);
		IF missed IS NOT NULL THEN
			short := short + cardinality(missed)
				- rpq_store.write_moves(step_moves.operation_id, pool, nodes, missed, at);
		END IF;
		short := short + rpq_store.reserve_moves(step_moves.operation_id, pool, batch, at);
	END LOOP;

	SELECT array_agg(m.pod_migration_id) INTO ready
	FROM rpq_store.movable_now(step_moves.operation_id, batch, at) AS m WHERE NOT m.attended;
	UPDATE rpq_store.pod_migration AS m SET status = 'evicting', evicted_at = at
	FROM rpq_store.movable_now(step_moves.operation_id, batch, at) AS e
	WHERE m.pod_migration_id = e.pod_migration_id AND e.attended AND e.status = 'reserved';
	PERFORM rpq_store.move_pods(ready, at);

	-- victims that have still to stop are waited for like moves
	SELECT count(*) FILTER (WHERE m.status IN ('planned', 'reserved', 'evicting'))
			+ (SELECT count(*) FROM rpq_store.borrowed_pod AS b WHERE b.node_id = ANY (nodes)),
		count(*) FILTER (WHERE m.status = 'done'), count(*) FILTER (WHERE m.status = 'skipped'),
		count(*) FILTER (WHERE m.status = 'failed'),
		CASE WHEN short > 0 THEN 'target_short'
			 WHEN bool_or(m.status IN ('reserved', 'evicting')
				AND coalesce(m.evicted_at, m.reserved_at) + step_moves.timeout <= at) THEN 'timeout' END
	INTO progress
	FROM rpq_store.pod_migration AS m WHERE m.operation_id = step_moves.operation_id;
	PERFORM rpq_store.show_moves(step_moves.operation_id);
	RETURN progress;
END
$$;
COMMENT ON FUNCTION rpq_store.step_moves(bigint, interval) IS
'takes the moves of an operation as far as they go now, rpq.cycle_batch but no more than 150, and says how far they '
'are. blocked: target_short (a pod has no place left) or timeout (an executor did not let go, or a client kept a row '
'locked, for so long): the operation must be undone. The caller holds the turn and has folded';

CREATE OR REPLACE FUNCTION rpq_store.raise_blocked(operation_id bigint, blocked text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'RQ006',
		MESSAGE = CASE raise_blocked.blocked WHEN 'timeout' THEN 'pods did not leave their nodes in time'
			ELSE 'pods cannot be placed elsewhere any more' END,
		DETAIL = coalesce(rpq_store.describe_pods(ARRAY(
			SELECT p.pod_id FROM rpq_store.pod AS p
			WHERE p.node_id = ANY (rpq_store.draining_nodes(raise_blocked.operation_id))),
			(SELECT o.pool_id FROM rpq_store.operation AS o WHERE o.operation_id = raise_blocked.operation_id)), ''),
		HINT = 'Pods that were moved stay where they are. Stop what still stands there, or try the operation again.';
END
$$;
COMMENT ON FUNCTION rpq_store.raise_blocked(bigint, text) IS
'ends a step with RQ006 and what still stands on the nodes; blocked: as step_moves says it';

CREATE OR REPLACE FUNCTION rpq_store.undo_moves(operation_id bigint, reason text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.pod_migration AS m
	SET status = CASE m.status WHEN 'planned' THEN 'skipped' ELSE 'failed' END,
		reason = CASE $2
			WHEN 'timeout' THEN CASE WHEN coalesce(m.evicted_at, m.reserved_at) + rpq_store.move_timeout() <= rpq.now()
				THEN 'timeout' ELSE 'cancelled' END
			WHEN 'target_short' THEN CASE WHEN m.status = 'planned' THEN 'target_short'
				WHEN NOT rpq_store.takes_work(m.to_node_id, m.pool_id) THEN 'node_unhealthy' ELSE 'cancelled' END
			ELSE $2 END,
		ended_at = greatest(rpq.now(), m.planned_at, m.reserved_at, m.evicted_at)
	WHERE m.operation_id = $1 AND m.status IN ('planned', 'reserved', 'evicting');
	DELETE FROM rpq_store.hold AS h WHERE h.operation_id = $1 AND h.purpose = 'move';
	UPDATE rpq_store.node AS n SET draining = false
	WHERE n.node_id = ANY (rpq_store.draining_nodes($1)) AND n.draining
$$;
COMMENT ON FUNCTION rpq_store.undo_moves(bigint, text) IS
'ends the open moves of an operation (skipped where nothing had begun, else failed), gives back all that they kept, '
'and lets the nodes take pods again as far as they are schedulable. Pods that have moved stay where they are. reason: '
'target_short, timeout or cancelled; the first two only for the moves that they are true of, the others are cancelled, '
'or node_unhealthy when their target takes nothing new. Nothing to undo: nothing';

CREATE OR REPLACE FUNCTION rpq_store.undo_reason(subject rpq_store.operation) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN subject.cancelling THEN 'cancelled'
		WHEN EXISTS (SELECT FROM rpq_store.pod_migration AS m
					 WHERE m.operation_id = subject.operation_id AND m.status IN ('reserved', 'evicting')
					   AND coalesce(m.evicted_at, m.reserved_at) + rpq_store.move_timeout() <= rpq.now())
			THEN 'timeout'
		ELSE 'target_short' END
$$;
COMMENT ON FUNCTION rpq_store.undo_reason(rpq_store.operation) IS
'why the open moves of an operation that ends end with it: cancelled, timeout or target_short';

CREATE OR REPLACE FUNCTION rpq_store.end_moves(operation_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	nodes bigint[] := rpq_store.draining_nodes(end_moves.operation_id);
BEGIN
	IF EXISTS (SELECT FROM rpq_store.pod_migration AS m
			   WHERE m.operation_id = end_moves.operation_id AND m.status IN ('planned', 'reserved', 'evicting'))
		OR EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = ANY (nodes)) THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are not empty yet';
	END IF;
	UPDATE rpq_store.node AS n SET draining = false WHERE n.node_id = ANY (nodes) AND n.draining;
END
$$;
COMMENT ON FUNCTION rpq_store.end_moves(bigint) IS
'ends the draining of an operation''s nodes, on which nothing stands any more; the nodes take pods again as far as '
'they are schedulable, from the end of the transaction on';

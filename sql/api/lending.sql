-- Idle-time sharing: work that borrows the idle room of an exclusive pool, and how the pool has it back past a cycle:
-- when sharing is switched off, and when nodes with such work are to be emptied or to leave.  (Of own work that comes
-- for the room the cycle sees to itself, src/core/preempt.c.)
--
-- Writes preemption, and workload (SKIP LOCKED) and entry of those that end at once, under the turns that the caller
-- holds: the lender's set has the shared pool in it.

-- Borrowed work stands on nodes of its lender, and is charged to the pool that it was submitted to.  A pod whose
-- attempt has ended is not here, though no fold has freed it yet.
CREATE OR REPLACE VIEW rpq_store.borrowed_pod AS
SELECT o.node_id, o.pod_id, w.workload_id, w.attempt, w.pool_id, w.lender_id, w.resources, o.replica
  FROM rpq_store.workload w
  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt
 WHERE w.lender_id IS NOT NULL AND w.status IN ('starting', 'running');
COMMENT ON VIEW rpq_store.borrowed_pod IS 'pods of work that borrows the idle room of an exclusive pool';
COMMENT ON COLUMN rpq_store.borrowed_pod.node_id IS 'node of the exclusive pool';
COMMENT ON COLUMN rpq_store.borrowed_pod.pod_id IS 'the pod';
COMMENT ON COLUMN rpq_store.borrowed_pod.workload_id IS 'its workload';
COMMENT ON COLUMN rpq_store.borrowed_pod.attempt IS 'the present attempt of that';
COMMENT ON COLUMN rpq_store.borrowed_pod.pool_id IS 'pool that it is charged to';
COMMENT ON COLUMN rpq_store.borrowed_pod.lender_id IS 'exclusive pool that has the node';
COMMENT ON COLUMN rpq_store.borrowed_pod.resources IS 'what the pod has';
COMMENT ON COLUMN rpq_store.borrowed_pod.replica IS 'number of the replica, from 0';

-- Those that are pending already are left to it.  attended: an executor, heard of lately, has a pod of it.
CREATE OR REPLACE FUNCTION rpq_store.borrowers(pool_id bigint, nodes bigint[])
RETURNS TABLE (workload_id bigint, attempt int, account_id bigint, rank int, attended boolean, gpu_seconds numeric)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT w.workload_id, w.attempt, w.account_id,
		(row_number() OVER (ORDER BY w.priority, w.checkpointable DESC, w.started_at DESC, w.submitted_at DESC,
			w.workload_id DESC))::int,
		EXISTS (SELECT FROM rpq_store.pod AS o
				JOIN rpq_store.pod_report AS r ON r.pod_id = o.pod_id AND r.state IN ('started', 'running')
				JOIN rpq_store.node_seen AS s ON s.node_id = r.node_id AND s.at > rpq_store.node_cutoff()
				WHERE o.workload_id = w.workload_id AND o.attempt = w.attempt),
		trim_scale(coalesce(w.resources OPERATOR(rpq.->) 'gpu', 0) * w.replicas * greatest(0, extract(epoch FROM
			rpq.now() - CASE WHEN w.checkpointable AND w.checkpoint_at >= w.started_at THEN w.checkpoint_at
							 ELSE w.started_at END)))
	FROM rpq_store.workload AS w
	WHERE w.lender_id = $1 AND w.status IN ('starting', 'running')
	  AND ($2 IS NULL OR w.workload_id IN (SELECT b.workload_id FROM rpq_store.borrowed_pod AS b
										   WHERE b.lender_id = $1 AND b.node_id = ANY ($2)))
	  AND NOT EXISTS (SELECT FROM rpq_store.preemption AS p WHERE p.victim = w.workload_id
					  AND p.victim_attempt = w.attempt AND p.state = 'pending')
$$;
COMMENT ON FUNCTION rpq_store.borrowers(bigint, bigint[]) IS
'work that borrows room of a pool, or (nodes) has a pod on one of these nodes of it, in the order in which it is '
'preempted, without what has still to stop as a victim; attended: an executor has it';

CREATE OR REPLACE FUNCTION rpq_store.preempt_borrowers(pool_id bigint, nodes bigint[] DEFAULT NULL,
	at_once boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	at timestamptz := greatest(rpq.now(), (SELECT t.last_at FROM rpq_store.turn AS t
										   WHERE t.scope_id = preempt_borrowers.pool_id));
	grace interval := current_setting('rpq.preemption_grace')::interval;
	ending bigint[];
	attempts int[];
	victims int;
BEGIN
	SELECT array_agg(l.workload_id), array_agg(l.attempt) INTO ending, attempts
	FROM (SELECT w.workload_id, w.attempt
		  FROM rpq_store.borrowers(preempt_borrowers.pool_id, preempt_borrowers.nodes) AS b
		  JOIN rpq_store.workload AS w ON w.workload_id = b.workload_id AND w.attempt = b.attempt
		  WHERE w.status IN ('starting', 'running') AND (preempt_borrowers.at_once OR NOT b.attended)
		  ORDER BY w.workload_id FOR UPDATE OF w SKIP LOCKED) AS l;
	-- while the rows still say when they began
	INSERT INTO rpq_store.preemption (at, pool_id, victim, victim_attempt, victim_account, rule, rank,
		gpu_seconds_lost, state, expires_at)
	SELECT at, preempt_borrowers.pool_id, b.workload_id, b.attempt, b.account_id, 'borrowed', b.rank, b.gpu_seconds,
		CASE WHEN s.slow THEN 'pending' ELSE 'stopped' END, CASE WHEN s.slow AND grace > '0' THEN at + grace END
	FROM rpq_store.borrowers(preempt_borrowers.pool_id, preempt_borrowers.nodes) AS b
	CROSS JOIN LATERAL (SELECT b.workload_id <> ALL (coalesce(ending, '{}')) AS slow) AS s
	ORDER BY b.rank;
	GET DIAGNOSTICS victims = ROW_COUNT;
	IF ending IS NOT NULL THEN
		PERFORM rpq_store.end_attempts(ending, attempts, array_fill('queued'::text, ARRAY[cardinality(ending)]),
			array_fill('preempted'::text, ARRAY[cardinality(ending)]),
			array_fill(NULL::text, ARRAY[cardinality(ending)]), 'system', at);
	END IF;
	RETURN victims;
END
$$;
COMMENT ON FUNCTION rpq_store.preempt_borrowers(bigint, bigint[], boolean) IS
'preempts what borrows room of a pool, or has a pod on one of these nodes of it, by the rule borrowed and for no '
'workload; returns how many. Who is in no executor''s hands goes back to its queue now, and is off its nodes with the '
'next fold; who is, or whose client keeps its row locked, is told to stop and has rpq.preemption_grace to do it '
'(at_once: it has not). The caller holds the turns of the pool''s set';

CREATE OR REPLACE FUNCTION rpq_store.reclaim_nodes(pool_id bigint, nodes bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF rpq_store.preempt_borrowers(reclaim_nodes.pool_id, reclaim_nodes.nodes) > 0 THEN
		PERFORM rpq_store.fold(ARRAY[reclaim_nodes.pool_id]);
	END IF;
	RETURN ARRAY(SELECT n.node_id FROM rpq_store.node AS n
				 WHERE n.node_id = ANY (reclaim_nodes.nodes)
				   AND (EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = n.node_id)
					 OR EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)));
END
$$;
COMMENT ON FUNCTION rpq_store.reclaim_nodes(bigint, bigint[]) IS
'preempts what borrows room on nodes of a pool, and returns those of them on which something stands still. The caller '
'holds the turns and has folded';

CREATE OR REPLACE FUNCTION rpq_store.refuse_occupied(nodes bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF refuse_occupied.nodes <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are in use',
			DETAIL = (SELECT string_agg(format('%s (%s)', n.name, rpq_store.node_busy(n.node_id)), ', ' ORDER BY n.name)
					  FROM rpq_store.node AS n WHERE n.node_id = ANY (refuse_occupied.nodes)),
			HINT = 'Drain them first: what borrows there by idle-time sharing is then told to stop.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_occupied(bigint[]) IS
'refuses (RQ006) nodes on which something stands; none: nothing';

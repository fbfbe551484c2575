-- adopt_database: a copy of a database (restored from a dump, or made from a template) takes over.
--
-- Writes fence, then, under every turn, what only the holder of turns writes (pod, usage, node_load, lane, turn), and
-- the transaction ids of entries that came from a cluster which had used more of them.

CREATE OR REPLACE FUNCTION rpq_store.rebuild_load() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.pod_report AS r
	WHERE NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.pod_id = r.pod_id);
	DELETE FROM rpq_store.hold WHERE purpose = 'stopping';
	-- their executors have not had the time to find this database
	UPDATE rpq_store.node_seen SET at = rpq.now();
	DELETE FROM rpq_store.node_load;
	INSERT INTO rpq_store.node_load (node_id, pool_id, used, pods, parts)
	SELECT n.node_id, n.pool_id, coalesce(l.used, ''), coalesce(l.pods, 0),
		ARRAY(SELECT coalesce((SELECT sum((w.resources OPERATOR(rpq.->) 'gpu') * 21000 / cardinality(p.devices))
				FROM rpq_store.pod AS p JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
				WHERE p.node_id = n.node_id AND d.device = ANY (p.devices)), 0)::bigint
			FROM generate_series(0, coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)::int - 1) AS d (device)
			ORDER BY d.device)
	FROM rpq_store.node AS n
	LEFT JOIN (
		SELECT p.node_id, rpq.sum(w.resources) AS used, count(*) AS pods
		FROM rpq_store.pod AS p JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		GROUP BY p.node_id) AS l ON l.node_id = n.node_id;
	DELETE FROM rpq_store.usage;
	INSERT INTO rpq_store.usage (pool_id, type_id, account_id, policy_id, lender_id, amount)
	SELECT CASE WHEN w.lender_id IS NULL THEN n.pool_id ELSE w.pool_id END, n.type_id, w.account_id,
		coalesce(w.policy_id, 0), coalesce(w.lender_id, 0), rpq.sum(w.resources)
	FROM rpq_store.pod AS p
	JOIN rpq_store.node AS n ON n.node_id = p.node_id
	JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
	GROUP BY 1, 2, 3, 4, 5;
$$;
COMMENT ON FUNCTION rpq_store.rebuild_load() IS
'node_load and usage anew, from the pods. The caller holds every turn';

CREATE OR REPLACE FUNCTION rpq_store.rebuild_lanes() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.lane;
	INSERT INTO rpq_store.lane (scope_id, shape, waiting, head_at, head_id, account_id, priority, guarantee,
		checkpointable, replicas, workload_type, resources, instance_types, max_runtime, not_before)
	SELECT DISTINCT ON (w.scope_id, w.shape) w.scope_id, w.shape, count(*) OVER (PARTITION BY w.scope_id, w.shape),
		w.submitted_at, w.workload_id, w.account_id, w.priority, w.guarantee, w.checkpointable, w.replicas,
		w.workload_type, w.resources, w.instance_types, w.max_runtime, w.not_before
	FROM rpq_store.workload AS w
	WHERE w.status = 'queued'
	ORDER BY w.scope_id, w.shape, w.submitted_at, w.workload_id;
$$;
COMMENT ON FUNCTION rpq_store.rebuild_lanes() IS
'the lanes anew, from the queued workloads. The caller holds every turn';

-- Clients that kept rows locked, and executors that had not let go of a pod, are not those of this database.
CREATE OR REPLACE FUNCTION rpq_store.settle_preemptions() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*) FROM (
		SELECT array_agg(l.workload_id) AS workloads, array_agg(l.attempt) AS attempts,
			array_agg('queued'::text) AS ends, array_agg('preempted'::text) AS causes,
			array_agg(NULL::text) AS details
		FROM rpq_store.podless AS l) AS x
	CROSS JOIN LATERAL rpq_store.end_attempts(x.workloads, x.attempts, x.ends, x.causes, x.details, 'system',
		rpq.now()) AS e;
	UPDATE rpq_store.preemption AS p SET state = 'stopped'
	FROM rpq_store.workload AS w
	WHERE w.workload_id = p.victim AND p.state = 'pending'
	  AND (w.attempt <> p.victim_attempt OR w.status NOT IN ('starting', 'running'))
$$;
COMMENT ON FUNCTION rpq_store.settle_preemptions() IS
'victims whose pods are gone go back to their queue, and those whose attempt has ended have stopped. The caller holds '
'every turn';

CREATE OR REPLACE FUNCTION rpq.adopt_database() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'adopt_database'
AS $$
DECLARE
	was rpq_store.fence;
	now_is rpq_store.fence;
BEGIN
	PERFORM rpq_store.authorize('adopt_database');
	-- a second caller waits here, and then finds nothing to do
	SELECT f.* INTO was FROM rpq_store.fence AS f FOR UPDATE;
	IF NOT rpq_store.is_fenced() THEN
		RETURN;
	END IF;
	UPDATE rpq_store.fence AS f
	SET system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() AS c),
		database_oid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()),
		written_at = clock_timestamp()
	RETURNING f.* INTO now_is;
	PERFORM rpq_store.take_turns(coalesce((SELECT array_agg(t.scope_id) FROM rpq_store.turn AS t), '{}'));

	-- Transaction ids mean nothing in another cluster: one that is not yet over here would make its entry look new
	-- for ever.  All that is here is history, so they become the id that is past in every snapshot.
	UPDATE rpq_store.entry SET xid = '2' WHERE xid >= pg_snapshot_xmin(pg_current_snapshot());
	DELETE FROM rpq_store.pod AS p
	WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = p.workload_id
					  AND w.attempt = p.attempt AND w.status IN ('starting', 'running'));
	PERFORM rpq_store.settle_preemptions();
	PERFORM rpq_store.rebuild_load();
	PERFORM rpq_store.rebuild_lanes();
	-- its owner was a process elsewhere
	UPDATE rpq_store.operation
	SET status = 'pending', owner_pid = NULL, owner_started = NULL, lease_until = NULL
	WHERE status = 'running';
	PERFORM rpq_store.record('adopt_database', 'database', NULL, current_database(), NULL, NULL,
		to_jsonb(was) - 'only_row', to_jsonb(now_is) - 'only_row');
	UPDATE rpq_store.turn
	SET seen = pg_current_snapshot(), own_xid = pg_current_xact_id(),
		own_entry = coalesce((SELECT max(e.entry_id) FROM rpq_store.entry AS e), 0);
END
$$;
COMMENT ON FUNCTION rpq.adopt_database() IS
'makes a fenced database, that is a restored dump or a copy, act: frees the pods of ended attempts, recounts usage and '
'the load of nodes from the pods, rebuilds the lanes and sets every cursor, in this transaction. To be called when '
'the original no longer acts. Does nothing on a database that is not fenced. Errors: 42501. Platform administrators';

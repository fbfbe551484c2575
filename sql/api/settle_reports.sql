-- What executors reported, as a cycle takes it (src/store/reports.c).
--
-- Writes node (health), hold and preemption under the turns that the caller holds; workload (SKIP LOCKED) and entry;
-- clears node_fault in pod_report and deletes rows of pods that are gone (SKIP LOCKED).

-- Blamed by the executor of one of its pods, a node takes nothing new until an administrator has looked.
CREATE OR REPLACE FUNCTION rpq_store.blame_nodes(workloads bigint[], pools bigint[]) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET rpq.action = 'sync_node'
AS $$
	WITH blame AS (
		SELECT r.pod_id, r.node_id, r.detail FROM rpq_store.pod_report AS r
		WHERE r.workload_id = ANY ($1) AND r.node_fault FOR UPDATE SKIP LOCKED),
	heard AS (
		UPDATE rpq_store.pod_report AS r SET node_fault = false FROM blame AS b WHERE r.pod_id = b.pod_id),
	why AS (
		SELECT DISTINCT ON (b.node_id) b.node_id, format('node fault at pod %s%s', b.pod_id, ': ' || b.detail) AS reason
		FROM blame AS b ORDER BY b.node_id, b.pod_id)
	UPDATE rpq_store.node AS n
	SET health = CASE WHEN n.silent THEN n.health ELSE 'degraded' END,
		health_reason = CASE WHEN n.silent THEN n.health_reason ELSE y.reason END,
		decided_health = CASE WHEN n.silent THEN 'degraded' END, decided_reason = CASE WHEN n.silent THEN y.reason END
	FROM why AS y
	WHERE n.node_id = y.node_id AND n.pool_id = ANY ($2) AND coalesce(n.decided_health, n.health) = 'healthy'
	RETURNING n.node_id
$$;
COMMENT ON FUNCTION rpq_store.blame_nodes(bigint[], bigint[]) IS
'nodes of these pools that executors blame for the end of a pod of these workloads turn degraded; returns them. The '
'caller holds the turns';

-- A move makes another attempt of the same stay on nodes, which the wish is still about.
CREATE OR REPLACE FUNCTION rpq_store.wished_stop(workload_id bigint) RETURNS rpq_store.entry
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT e.* FROM rpq_store.entry AS e
	WHERE e.workload_id = $1 AND e.kind = 'report' AND e.status = 'stopped'
	  AND NOT EXISTS (SELECT FROM rpq_store.entry AS r
					  WHERE r.workload_id = $1 AND r.kind = 'release' AND r.attempt >= e.attempt)
	ORDER BY e.entry_id LIMIT 1
$$;
COMMENT ON FUNCTION rpq_store.wished_stop(bigint) IS
'the entry with which stop_placed asked for the end of the workload''s present stay, since its client kept the row '
'locked; NULL: there is none';

CREATE OR REPLACE FUNCTION rpq_store.end_reported(workloads bigint[], at timestamptz) RETURNS SETOF rpq_store.entry
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH pod AS (
		SELECT w.workload_id, w.attempt, p.pod_id, n.name AS node, r.state, r.outcome, r.detail, r.at,
			r.state = 'gone' AND EXISTS (
				SELECT FROM rpq_store.pod_migration AS m
				WHERE m.workload_id = w.workload_id AND m.pod_id = p.pod_id AND m.status = 'evicting') AS moving,
			e.victim IS NOT NULL AS victim, coalesce(e.pending, false) AS pending
		FROM rpq_store.workload AS w
		JOIN rpq_store.pod AS p ON p.workload_id = w.workload_id AND p.attempt = w.attempt
		LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
		LEFT JOIN rpq_store.node AS n ON n.node_id = p.node_id
		LEFT JOIN (SELECT x.victim, x.victim_attempt, bool_or(x.state = 'pending') AS pending
				   FROM rpq_store.preemption AS x WHERE x.victim = ANY ($1) GROUP BY x.victim, x.victim_attempt) AS e
			ON e.victim = w.workload_id AND e.victim_attempt = w.attempt
		WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running')),
	broken AS (
		SELECT DISTINCT ON (p.workload_id) p.workload_id, p.attempt,
			CASE p.state WHEN 'lost' THEN 'lost' WHEN 'gone' THEN 'queued' ELSE p.outcome END AS ends,
			CASE p.state WHEN 'lost' THEN 'pod_lost'
						 WHEN 'gone' THEN CASE WHEN p.victim THEN 'preempted' ELSE 'evicted' END
						 ELSE p.outcome END AS cause,
			CASE p.state WHEN 'lost' THEN format('node "%s" no longer reports pod %s', p.node, p.pod_id)
						 ELSE p.detail END AS detail
		FROM pod AS p
		WHERE p.state = 'lost' OR (p.state = 'gone' AND NOT p.moving AND NOT p.pending)
		   OR (p.state = 'finished' AND p.outcome IN ('failed', 'stopped'))
		ORDER BY p.workload_id, p.at, p.outcome = 'failed' DESC NULLS LAST, p.pod_id),
	-- what stop_placed passed over since its client kept the row locked
	wished AS (
		SELECT w.workload_id, w.attempt, 'stopped' AS ends, e.cause, e.detail
		FROM rpq_store.workload AS w
		CROSS JOIN LATERAL rpq_store.wished_stop(w.workload_id) AS e
		WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running') AND e.entry_id IS NOT NULL
		  AND w.workload_id NOT IN (SELECT b.workload_id FROM broken AS b)
		ORDER BY w.workload_id, e.entry_id),
	verdict AS (
		SELECT b.* FROM broken AS b
		UNION ALL
		SELECT s.* FROM wished AS s
		UNION ALL
		SELECT p.workload_id, p.attempt, 'succeeded', 'succeeded', CASE WHEN count(*) = 1 THEN min(p.detail) END
		FROM pod AS p
		WHERE p.workload_id NOT IN (SELECT s.workload_id FROM wished AS s)
		GROUP BY p.workload_id, p.attempt
		HAVING bool_and(p.state = 'finished' AND p.outcome = 'succeeded') IS TRUE AND count(p.state) = count(*)),
	listed AS (
		SELECT array_agg(v.workload_id) AS workloads, array_agg(v.attempt) AS attempts, array_agg(v.ends) AS ends,
			array_agg(v.cause) AS causes, array_agg(v.detail) AS details
		FROM verdict AS v)
	SELECT e.* FROM listed AS l
	CROSS JOIN LATERAL rpq_store.end_attempts(l.workloads, l.attempts, l.ends, l.causes, l.details, 'system', $2) AS e
$$;
COMMENT ON FUNCTION rpq_store.end_reported(bigint[], timestamptz) IS
'ends the attempts of which executors reported the end: with the first pod that failed, was lost or stopped by itself, '
'or when all have succeeded; one that was told to stop for a move that was undone, or for a preemptor that gave up, '
'returns to the queue. A victim that has still to stop is left until all its pods have';

CREATE OR REPLACE FUNCTION rpq_store.start_reported(workloads bigint[], at timestamptz) RETURNS SETOF rpq_store.entry
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH whole AS (
		SELECT w.workload_id FROM rpq_store.workload AS w
		WHERE w.workload_id = ANY ($1) AND w.status = 'starting'
		  AND NOT EXISTS (
			SELECT FROM rpq_store.pod AS p
			LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
			WHERE p.workload_id = w.workload_id AND p.attempt = w.attempt
			  AND coalesce(r.state, 'started') NOT IN ('running', 'finished'))
		ORDER BY w.workload_id
		FOR UPDATE SKIP LOCKED),
	changed AS (
		UPDATE rpq_store.workload AS w SET status = 'running', running_at = greatest($2, w.started_at)
		FROM whole AS f WHERE w.workload_id = f.workload_id RETURNING w.*)
	INSERT INTO rpq_store.entry AS e (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id,
		lender_id, attempt, kind, status, actor)
	SELECT w.scope_id, w.running_at, w.workload_id, w.shape, w.account_id, w.policy_id, w.pool_id, w.type_id,
		w.lender_id, w.attempt, 'start', w.status, 'system'
	FROM changed AS w ORDER BY w.workload_id
	RETURNING e.*
$$;
COMMENT ON FUNCTION rpq_store.start_reported(bigint[], timestamptz) IS
'starting workloads all of whose pods were reported as running are running';

-- What is left for the next cycle: the row was locked, or a pod waits for its move to go on.
CREATE OR REPLACE FUNCTION rpq_store.unsettled_reports(workloads bigint[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT w.workload_id
	FROM rpq_store.workload AS w
	JOIN rpq_store.pod AS p ON p.workload_id = w.workload_id AND p.attempt = w.attempt
	LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
	CROSS JOIN LATERAL (
		SELECT EXISTS (SELECT FROM rpq_store.preemption AS e WHERE e.victim = w.workload_id
					   AND e.victim_attempt = w.attempt AND e.state = 'pending') AS pending) AS v
	WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running')
	GROUP BY w.workload_id, w.status
	HAVING bool_or(coalesce(r.state = 'lost' OR (r.state = 'gone' AND NOT v.pending)
			OR r.outcome IN ('failed', 'stopped') OR r.node_fault, false))
		OR bool_and(coalesce(r.outcome = 'succeeded', false))
		OR (w.status = 'starting' AND bool_and(coalesce(r.state IN ('running', 'finished'), false)))
		OR (rpq_store.wished_stop(w.workload_id)).entry_id IS NOT NULL
$$;
COMMENT ON FUNCTION rpq_store.unsettled_reports(bigint[]) IS
'those of these workloads that reports would have to change and have not: their row is locked by a client, or a pod '
'that stopped is about to be moved';

CREATE OR REPLACE FUNCTION rpq_store.drop_reports(workloads bigint[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.pod_report WHERE pod_id IN (
		SELECT r.pod_id FROM rpq_store.pod_report AS r
		WHERE r.workload_id = ANY ($1)
		  AND (r.state IN ('finished', 'lost', 'gone')
			OR NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = r.node_id))
		  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.pod_id = r.pod_id)
		FOR UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION rpq_store.drop_reports(bigint[]) IS
'forgets what was reported of pods of these workloads that are gone and that no executor has any more';

CREATE OR REPLACE FUNCTION rpq_store.settle_reports(workloads bigint[], pools bigint[], at timestamptz)
RETURNS SETOF rpq_store.entry
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	done rpq_store.entry;
BEGIN
	FOR done.workload_id IN
		SELECT b FROM rpq_store.blame_nodes(settle_reports.workloads, settle_reports.pools) AS b
	LOOP
		done.kind := 'degraded';
		RETURN NEXT done;
	END LOOP;
	RETURN QUERY
		WITH ended AS MATERIALIZED (
			SELECT * FROM rpq_store.end_reported(settle_reports.workloads, settle_reports.at)),
		-- it stopped for a preemptor that had given up by then
		stopped AS (
			UPDATE rpq_store.preemption AS p SET state = 'stopped'
			WHERE p.preemption_id IN (
				SELECT max(x.preemption_id) FROM ended AS e
				JOIN rpq_store.preemption AS x ON x.victim = e.workload_id AND x.victim_attempt = e.attempt
				WHERE e.cause = 'preempted' AND x.state = 'given_up' GROUP BY x.victim))
		SELECT * FROM ended;
	RETURN QUERY SELECT * FROM rpq_store.start_reported(settle_reports.workloads, settle_reports.at);
	FOR done.scope_id IN
		WITH over AS (
			DELETE FROM rpq_store.hold AS h
			WHERE h.workload_id = ANY (settle_reports.workloads) AND h.purpose = 'stopping'
			  AND h.scope_id = ANY (settle_reports.pools)
			  AND NOT EXISTS (SELECT FROM rpq_store.pod_report AS r
							  WHERE r.pod_id = h.pod_id AND r.state IN ('started', 'running'))
			RETURNING h.scope_id)
		SELECT DISTINCT o.scope_id FROM over AS o
	LOOP
		done.kind := 'hold';
		RETURN NEXT done;
	END LOOP;
	-- A node may have changed hands since its executor reported to the scope that is settled here: the room that it
	-- keeps is ended by the pool that has it now.
	INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, actor)
	SELECT DISTINCT h.scope_id, settle_reports.at, h.workload_id, h.attempt, 'report', 'system'
	FROM rpq_store.hold AS h
	WHERE h.workload_id = ANY (settle_reports.workloads) AND h.purpose = 'stopping'
	  AND h.scope_id <> ALL (settle_reports.pools)
	  AND NOT EXISTS (SELECT FROM rpq_store.pod_report AS r
					  WHERE r.pod_id = h.pod_id AND r.state IN ('started', 'running'));
	FOR done.workload_id IN SELECT u FROM rpq_store.unsettled_reports(settle_reports.workloads) AS u LOOP
		done.kind := 'report';
		RETURN NEXT done;
	END LOOP;
	PERFORM rpq_store.drop_reports(settle_reports.workloads);
END
$$;
COMMENT ON FUNCTION rpq_store.settle_reports(bigint[], bigint[], timestamptz) IS
'what executors reported of these workloads takes effect. Returns the entries written, and rows without entry_id: kind '
'degraded, a node (workload_id) that takes nothing new from now on; hold, a pool (scope_id) in which room became free; '
'report, a workload that the next cycle has to look at again. The caller holds the turns of the pools';

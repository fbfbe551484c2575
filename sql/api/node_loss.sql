-- Ends of attempts that nobody's own call brings about: nodes that are lost, and what a cycle does before it decides.
--
-- Writes workload (SKIP LOCKED: a row that its client keeps locked is passed over and follows with a later cycle) and
-- entry; node, hold, node_load, node_seen, pod_report and turn under the turns of the pools concerned.

CREATE OR REPLACE FUNCTION rpq_store.workload_shape(scope_id bigint, account_id bigint, priority int, replicas int,
	guarantee boolean, checkpointable boolean, workload_type text, resources rpq.resources, instance_types bigint[],
	max_runtime interval, not_before timestamptz)
RETURNS bigint LANGUAGE c IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_workload_shape';
COMMENT ON FUNCTION rpq_store.workload_shape(bigint, bigint, int, int, boolean, boolean, text, rpq.resources, bigint[],
	interval, timestamptz) IS
'with scope_id the key of the lane of a workload that has these columns';

CREATE OR REPLACE FUNCTION rpq_store.end_attempts(workloads bigint[], attempts int[], ends text[], causes text[],
	details text[], actor text, at timestamptz)
RETURNS SETOF rpq_store.entry
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH found AS (
		SELECT w.*, x.ends, x.why, x.how
		FROM unnest($1, $2, $3, $4, $5) AS x (workload_id, of_attempt, ends, why, how)
		JOIN rpq_store.workload AS w ON w.workload_id = x.workload_id
		WHERE w.status IN ('starting', 'running') AND w.attempt = x.of_attempt
		ORDER BY w.workload_id
		FOR UPDATE OF w SKIP LOCKED),
	decided AS (
		SELECT f.*, d.becomes, greatest($7, f.started_at, f.running_at) AS end_at,
			CASE WHEN d.becomes = 'queued'
				 THEN rpq_store.workload_shape(f.scope_id, f.account_id, f.priority, f.replicas, f.guarantee,
					f.checkpointable, f.workload_type, f.resources, f.instance_types, f.max_runtime, NULL)
				 ELSE f.shape END AS new_shape
		FROM found AS f
		CROSS JOIN LATERAL (SELECT CASE WHEN f.ends <> 'lost' THEN f.ends
										WHEN f.on_node_loss = 'fail' THEN 'failed'
										ELSE 'queued' END AS becomes) AS d),
	back AS (
		UPDATE rpq_store.workload AS w
		SET status = 'queued', shape = d.new_shape, cause = d.why, detail = d.how, pool_id = NULL, type_id = NULL,
			policy_id = NULL, lender_id = NULL, nodes = NULL, started_at = NULL, running_at = NULL, deadline = NULL,
			preemptions = w.preemptions + CASE WHEN d.why = 'preempted' THEN 1 ELSE 0 END
		FROM decided AS d WHERE d.becomes = 'queued' AND w.workload_id = d.workload_id),
	ended AS (
		UPDATE rpq_store.workload AS w
		SET status = d.becomes, ended_at = d.end_at, cause = d.why, detail = d.how
		FROM decided AS d WHERE d.becomes <> 'queued' AND w.workload_id = d.workload_id)
	INSERT INTO rpq_store.entry AS e (scope_id, at, workload_id, shape, submitted_at, account_id, policy_id, pool_id,
		type_id, lender_id, attempt, waiting, kind, status, actor, cause, detail, resources)
	SELECT d.scope_id, d.end_at, d.workload_id, d.new_shape, CASE WHEN d.becomes = 'queued' THEN d.submitted_at END,
		d.account_id, d.policy_id, d.pool_id, d.type_id, d.lender_id, d.attempt,
		CASE WHEN d.becomes = 'queued' THEN 1 ELSE 0 END, 'release', d.becomes, $6, d.why, d.how,
		rpq.resources_mul(d.resources, -d.replicas::numeric)
	FROM decided AS d
	ORDER BY d.workload_id
	RETURNING e.*
$$;
COMMENT ON FUNCTION rpq_store.end_attempts(bigint[], int[], text[], text[], text[], text, timestamptz) IS
'ends the present attempts of placed workloads, each with one release of all that it holds: ends is succeeded, failed, '
'stopped, queued (back to its lane with its submission time) or lost (queued, or failed by on_node_loss). Returns the '
'entries. Another attempt than the present, and a row that somebody keeps locked, are passed over';

CREATE OR REPLACE FUNCTION rpq_store.lose_pods(nodes bigint[], removed boolean, actor text) RETURNS int
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH hit AS (
		SELECT w.workload_id, w.attempt, min(format('node "%s" %s', n.name, CASE WHEN $2 THEN 'was removed'
			ELSE 'is unhealthy' || coalesce(': ' || n.health_reason, '') END)) AS detail
		FROM rpq_store.pod AS p
		JOIN rpq_store.node AS n ON n.node_id = p.node_id
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
		WHERE p.node_id = ANY ($1) AND w.status IN ('starting', 'running')
		GROUP BY w.workload_id, w.attempt),
	-- a victim that has still to stop has now done so
	listed AS (
		SELECT array_agg(h.workload_id) AS workloads, array_agg(h.attempt) AS attempts,
			array_agg(CASE WHEN v.victim THEN 'queued' ELSE 'lost' END) AS ends,
			array_agg(CASE WHEN v.victim THEN 'preempted' ELSE 'node_lost' END) AS causes,
			array_agg(h.detail) AS details
		FROM hit AS h
		CROSS JOIN LATERAL (
			SELECT EXISTS (SELECT FROM rpq_store.preemption AS p WHERE p.victim = h.workload_id
						   AND p.victim_attempt = h.attempt AND p.state = 'pending') AS victim) AS v)
	SELECT count(e.entry_id)::int
	FROM listed AS l
	CROSS JOIN LATERAL rpq_store.end_attempts(l.workloads, l.attempts, l.ends, l.causes, l.details, $3, rpq.now()) AS e
$$;
COMMENT ON FUNCTION rpq_store.lose_pods(bigint[], boolean, text) IS
'each workload with a pod on one of these nodes loses all its pods: it is queued again, or has failed, as its '
'on_node_loss says, with the cause node_lost; a victim that had still to stop is queued again as preempted. '
'removed: the nodes are taken away, else they are unhealthy. Returns how '
'many; one whose row its client keeps locked is passed over, and its pods stay for now. The caller holds the turns of '
'the nodes'' pools';

-- Nodes that are removed by force stay until the last pod has left them.
CREATE OR REPLACE FUNCTION rpq_store.drop_nodes(nodes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	empty bigint[];
BEGIN
	SELECT array_agg(n.node_id) INTO empty FROM rpq_store.node AS n
	WHERE n.node_id = ANY (drop_nodes.nodes)
	  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = n.node_id);
	DELETE FROM rpq_store.hold WHERE node_id = ANY (empty);
	DELETE FROM rpq_store.node_load WHERE node_id = ANY (empty);
	DELETE FROM rpq_store.node WHERE node_id = ANY (empty);
	-- what an executor is writing at this moment goes with the next sweep
	DELETE FROM rpq_store.node_seen WHERE node_id IN (
		SELECT s.node_id FROM rpq_store.node_seen AS s WHERE s.node_id = ANY (empty) FOR UPDATE SKIP LOCKED);
	DELETE FROM rpq_store.pod_report WHERE pod_id IN (
		SELECT r.pod_id FROM rpq_store.pod_report AS r WHERE r.node_id = ANY (empty) FOR UPDATE SKIP LOCKED);
	RETURN coalesce(cardinality(empty), 0);
END
$$;
COMMENT ON FUNCTION rpq_store.drop_nodes(bigint[]) IS
'deletes those of these nodes that no pod is on, with what belongs to them; returns how many. The caller holds the '
'turns of their pools';

CREATE OR REPLACE FUNCTION rpq_store.node_cutoff() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_node_cutoff';
COMMENT ON FUNCTION rpq_store.node_cutoff() IS
'an executor whose last sign of life is no later than this is silent; -infinity for the first rpq.node_timeout after '
'the start of the server, which nobody could reach before';

-- What nodes said of themselves: signs of life and capacity.
CREATE OR REPLACE FUNCTION rpq_store.hear_nodes(pools bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cutoff timestamptz := rpq_store.node_cutoff();
	changed int;
	more int;
BEGIN
	UPDATE rpq_store.node AS n
	SET health = coalesce(n.decided_health, 'healthy'), health_reason = n.decided_reason, silent = false,
		decided_health = NULL, decided_reason = NULL
	FROM rpq_store.node_seen AS s
	WHERE s.node_id = n.node_id AND n.pool_id = ANY (hear_nodes.pools) AND n.silent AND s.at > cutoff;
	GET DIAGNOSTICS changed = ROW_COUNT;
	UPDATE rpq_store.node AS n
	SET health = 'unhealthy', silent = true, decided_health = n.health, decided_reason = n.health_reason,
		health_reason = format('no sign of life since %s UTC', date_trunc('second', s.at AT TIME ZONE 'UTC'))
	FROM rpq_store.node_seen AS s
	WHERE s.node_id = n.node_id AND n.pool_id = ANY (hear_nodes.pools) AND n.health <> 'unhealthy' AND s.at <= cutoff;
	GET DIAGNOSTICS more = ROW_COUNT;
	changed := changed + more;
	-- of what a report does not name the node has what it nominally has; what it names beyond that is not used
	UPDATE rpq_store.node AS n
	SET reported = s.reported,
		usable = rpq.least(n.capacity, rpq.least(s.reported,
			s.reported OPERATOR(rpq.*) 0::numeric OPERATOR(rpq.+) n.capacity))
	FROM rpq_store.node_seen AS s
	WHERE s.node_id = n.node_id AND n.pool_id = ANY (hear_nodes.pools)
	  AND s.news AND coalesce(n.reported OPERATOR(rpq.<>) s.reported, true);
	GET DIAGNOSTICS more = ROW_COUNT;
	UPDATE rpq_store.node_seen SET news = false WHERE node_id IN (
		SELECT s.node_id FROM rpq_store.node_seen AS s JOIN rpq_store.node AS n ON n.node_id = s.node_id
		WHERE s.news AND n.pool_id = ANY (hear_nodes.pools) AND n.reported OPERATOR(rpq.=) s.reported
		FOR UPDATE OF s SKIP LOCKED);
	RETURN changed + more;
END
$$;
COMMENT ON FUNCTION rpq_store.hear_nodes(bigint[]) IS
'nodes of these pools whose executor is silent turn unhealthy, those that silence alone made so have their former '
'health again, and what nodes reported of their capacity is taken over; returns how many. The caller holds the turns';

CREATE OR REPLACE FUNCTION rpq_store.sweep_pools(pools bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'sync_node'
AS $$
DECLARE
	lost bigint[];
	removed boolean;
	cutoff timestamptz := rpq_store.node_cutoff();
	changed int := rpq_store.hear_nodes(sweep_pools.pools);
	more int;
BEGIN
	FOR lost, removed IN
		SELECT array_agg(n.node_id), n.removing
		FROM rpq_store.node AS n
		WHERE n.pool_id = ANY (sweep_pools.pools) AND n.health = 'unhealthy'
		GROUP BY n.removing ORDER BY n.removing
	LOOP
		changed := changed + rpq_store.lose_pods(lost, removed, 'system');
	END LOOP;
	changed := changed + rpq_store.drop_nodes(ARRAY(
		SELECT n.node_id FROM rpq_store.node AS n
		WHERE n.pool_id = ANY (sweep_pools.pools) AND n.removing AND n.health = 'unhealthy'));
	DELETE FROM rpq_store.hold AS h
	WHERE h.scope_id = ANY (sweep_pools.pools) AND h.purpose = 'stopping'
	  AND (h.expires_at <= rpq.now()
		OR NOT EXISTS (SELECT FROM rpq_store.node_seen AS s WHERE s.node_id = h.node_id AND s.at > cutoff));
	GET DIAGNOSTICS more = ROW_COUNT;
	IF changed + more > 0 THEN
		UPDATE rpq_store.turn AS t SET room_epoch = t.room_epoch + 1 WHERE t.scope_id = ANY (sweep_pools.pools);
	END IF;
	-- written while their node was removed
	DELETE FROM rpq_store.node_seen WHERE node_id IN (
		SELECT s.node_id FROM rpq_store.node_seen AS s
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = s.node_id) FOR UPDATE SKIP LOCKED);
	RETURN changed + more;
END
$$;
COMMENT ON FUNCTION rpq_store.sweep_pools(bigint[]) IS
'what a cycle does with its pools before it decides: hears nodes, takes pods off unhealthy ones, deletes nodes that '
'were removed by force and are empty, ends holds that are over. Returns how many of these things it did. The caller '
'holds the turns, which are changed when anything was done';

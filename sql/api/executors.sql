-- Executors: programs that run pods on a node, what they report and what they are told.
--
-- sync_node is a client's call: it takes no turn and waits for nobody but another report of the same node.  It writes
-- node_seen, pod_report and entry.  The other functions are the cycle's side of it (src/store/reports.c).

CREATE OR REPLACE FUNCTION rpq_store.check_running(running bigint[]) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	pods bigint[] := coalesce(check_running.running, '{}');
	twice bigint;
BEGIN
	IF array_ndims(pods) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'running must be a list of pods, of one dimension';
	ELSIF cardinality(pods) > 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'running names too many pods',
			DETAIL = format('It names %s, at most 100000 are taken.', cardinality(pods));
	ELSIF array_position(pods, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'running must not contain NULL';
	END IF;
	SELECT p INTO twice FROM unnest(pods) AS p GROUP BY p HAVING count(*) > 1 ORDER BY p LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('running names pod %s twice', twice);
	END IF;
	RETURN pods;
END
$$;
COMMENT ON FUNCTION rpq_store.check_running(bigint[]) IS
'the list of pods that an executor reports as running, checked; none for NULL';

CREATE OR REPLACE FUNCTION rpq_store.check_finished(finished jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	list jsonb := coalesce(nullif(check_finished.finished, 'null'), '[]');
	wrong record;
	twice numeric;
BEGIN
	IF jsonb_typeof(list) <> 'array' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'finished must be a JSON array',
			HINT = 'Such as [{"pod": 17, "outcome": "succeeded", "detail": "…", "node_fault": false}].';
	ELSIF jsonb_array_length(list) > 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'finished names too many pods',
			DETAIL = format('It names %s, at most 100000 are taken.', jsonb_array_length(list));
	END IF;
	SELECT e.place, e.what INTO wrong
	FROM (SELECT x.place, CASE
			WHEN jsonb_typeof(x.item) <> 'object' THEN 'it is no object'
			WHEN coalesce(jsonb_typeof(x.item -> 'pod'), '') <> 'number' THEN 'its "pod" is no number'
			WHEN (x.item ->> 'pod')::numeric NOT BETWEEN 1 AND 9223372036854775807
			  OR trunc((x.item ->> 'pod')::numeric) <> (x.item ->> 'pod')::numeric THEN 'its "pod" is no id of a pod'
			WHEN coalesce(jsonb_typeof(x.item -> 'outcome'), '') <> 'string'
			  OR x.item ->> 'outcome' NOT IN ('succeeded', 'failed', 'stopped')
				THEN 'its "outcome" is not "succeeded", "failed" or "stopped"'
			WHEN jsonb_typeof(x.item -> 'detail') NOT IN ('string', 'null') THEN 'its "detail" is no string'
			WHEN jsonb_typeof(x.item -> 'node_fault') NOT IN ('boolean', 'null')
				THEN 'its "node_fault" is neither true nor false' END AS what
		  FROM jsonb_array_elements(list) WITH ORDINALITY AS x (item, place)) AS e
	WHERE e.what IS NOT NULL ORDER BY e.place LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('element %s of finished is not valid', wrong.place),
			DETAIL = format('In it, %s.', wrong.what);
	END IF;
	SELECT (x.item ->> 'pod')::numeric INTO twice FROM jsonb_array_elements(list) AS x (item)
	GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('finished names pod %s twice', trunc(twice));
	END IF;
	RETURN list;
END
$$;
COMMENT ON FUNCTION rpq_store.check_finished(jsonb) IS
'the list of pods that an executor reports as finished, checked; none for NULL';

CREATE OR REPLACE FUNCTION rpq_store.check_reported(capacity rpq.resources) RETURNS rpq.resources
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	devices numeric := coalesce(check_reported.capacity OPERATOR(rpq.->) 'gpu', 0);
BEGIN
	IF rpq.greatest(check_reported.capacity, check_reported.capacity OPERATOR(rpq.*) 0::numeric)
		OPERATOR(rpq.<>) check_reported.capacity THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'capacity must not be negative',
			DETAIL = format('It is %s.', check_reported.capacity);
	ELSIF devices <> trunc(devices) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'capacity counts whole devices',
			DETAIL = format('gpu is %s.', devices);
	END IF;
	RETURN check_reported.capacity;
END
$$;
COMMENT ON FUNCTION rpq_store.check_reported(rpq.resources) IS
'what an executor reports that its machine has, checked; NULL: it says nothing of it';

-- The sign of life.  Written only when it says something new, so that a report costs a read as a rule.
CREATE OR REPLACE FUNCTION rpq_store.note_sign(node_id bigint, capacity rpq.resources) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	heard timestamptz := rpq.now();
	stale interval := current_setting('rpq.node_timeout')::interval / 4;
BEGIN
	IF EXISTS (SELECT FROM rpq_store.node_seen AS s
			   WHERE s.node_id = note_sign.node_id AND s.at > heard - stale AND s.at <= heard
				 AND (note_sign.capacity IS NULL OR s.reported OPERATOR(rpq.=) note_sign.capacity)) THEN
		RETURN false;
	END IF;
	INSERT INTO rpq_store.node_seen AS s (node_id, at, reported, news)
	VALUES (note_sign.node_id, heard, note_sign.capacity, note_sign.capacity IS NOT NULL)
	ON CONFLICT (node_id) DO UPDATE
	SET at = EXCLUDED.at, reported = coalesce(EXCLUDED.reported, s.reported),
		news = s.news OR coalesce(EXCLUDED.reported OPERATOR(rpq.<>) s.reported, EXCLUDED.reported IS NOT NULL);
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.note_sign(bigint, rpq.resources) IS
'writes a node''s sign of life when its capacity changed or the last one is older than a quarter of rpq.node_timeout, '
'or lies ahead; whether it did';

-- One row for each pod that is placed on the node or that its executor was told of.  current: it is placed, and its
-- attempt is the present one; evicting: it is being moved away and told to stop; state: what its report becomes.
CREATE OR REPLACE FUNCTION rpq_store.compare_node(node_id bigint, running bigint[], finished jsonb)
RETURNS TABLE (pod_id bigint, workload_id bigint, attempt int, devices int[], current boolean, evicting boolean,
	said text, was text, state text, outcome text, detail text, node_fault boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH said AS (
		SELECT r.pod_id, 'running' AS said, NULL AS outcome, NULL AS detail, false AS node_fault
		FROM unnest($2) AS r (pod_id)
		UNION ALL
		SELECT f.pod::bigint, 'finished', f.outcome, f.detail, coalesce(f.node_fault, false)
		FROM jsonb_to_recordset($3) AS f (pod numeric, outcome text, detail text, node_fault boolean)),
	placed AS (
		SELECT p.pod_id, p.workload_id, p.attempt, p.devices,
			w.attempt = p.attempt AND w.status IN ('starting', 'running') AS current
		FROM rpq_store.pod AS p
		LEFT JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		WHERE p.node_id = $1),
	known AS (
		SELECT coalesce(p.pod_id, r.pod_id) AS pod_id, coalesce(p.workload_id, r.workload_id) AS workload_id,
			coalesce(p.attempt, r.attempt) AS attempt, coalesce(p.devices, r.devices) AS devices,
			coalesce(p.current, false) AS current, r.state AS was, m.told, m.evicting
		FROM placed AS p
		FULL JOIN (SELECT * FROM rpq_store.pod_report AS r WHERE r.node_id = $1) AS r ON r.pod_id = p.pod_id
		CROSS JOIN LATERAL (
			SELECT coalesce(bool_or(m.evicted_at IS NOT NULL), false) AS told,
				coalesce(bool_or(m.status = 'evicting'), false) AS evicting
			FROM rpq_store.pod_migration AS m
			WHERE p.current AND m.workload_id = p.workload_id AND m.pod_id = p.pod_id) AS m)
	SELECT k.pod_id, k.workload_id, k.attempt, k.devices, k.current, k.evicting, s.said, k.was,
		CASE WHEN s.said = 'running' THEN CASE k.was WHEN 'finished' THEN 'finished' ELSE 'running' END
			 WHEN s.said = 'finished' AND k.current THEN
				CASE WHEN k.was IS DISTINCT FROM 'finished' AND k.told AND s.outcome = 'stopped' THEN 'gone'
					 ELSE 'finished' END
			 WHEN s.said = 'finished' THEN CASE WHEN k.was IN ('started', 'running') THEN 'gone' ELSE k.was END
			 WHEN k.was = 'running' THEN CASE WHEN k.current AND NOT k.told THEN 'lost' ELSE 'gone' END
			 WHEN k.was = 'started' THEN CASE WHEN k.current AND NOT k.evicting THEN 'started' ELSE 'gone' END
			 ELSE k.was END,
		s.outcome, s.detail, coalesce(s.node_fault, false)
	FROM known AS k
	LEFT JOIN said AS s ON s.pod_id = k.pod_id
$$;
COMMENT ON FUNCTION rpq_store.compare_node(bigint, bigint[], jsonb) IS
'what an executor reports of a node beside what is placed there: a row for each pod of either that rpq knows';

-- What is new of a report: pod_report, an entry for each workload that a cycle has to look at, and one for each attempt
-- that had ended before, with another end.
CREATE OR REPLACE FUNCTION rpq_store.note_report(node_id bigint, running bigint[], finished jsonb, actor text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	heard timestamptz := rpq.now();
	pool bigint;
BEGIN
	IF NOT EXISTS (
		SELECT FROM rpq_store.compare_node(note_report.node_id, note_report.running, note_report.finished) AS c
		WHERE c.state IS DISTINCT FROM c.was) THEN
		RETURN false;
	END IF;
	-- another report of the same node is waited for, so that the two lock the rows that follow one after the other
	PERFORM FROM rpq_store.node_seen AS s WHERE s.node_id = note_report.node_id FOR UPDATE;
	SELECT n.pool_id INTO pool FROM rpq_store.node AS n WHERE n.node_id = note_report.node_id;
	WITH changed AS MATERIALIZED (
		SELECT c.* FROM rpq_store.compare_node(note_report.node_id, note_report.running, note_report.finished) AS c
		WHERE c.state IS DISTINCT FROM c.was),
	written AS (
		INSERT INTO rpq_store.pod_report AS r (pod_id, node_id, workload_id, attempt, state, outcome, detail,
			node_fault, devices, at)
		SELECT c.pod_id, note_report.node_id, c.workload_id, c.attempt, c.state, c.outcome, c.detail, c.node_fault,
			c.devices, heard
		FROM changed AS c ORDER BY c.pod_id
		ON CONFLICT (pod_id) DO UPDATE
		SET state = EXCLUDED.state, outcome = EXCLUDED.outcome, detail = EXCLUDED.detail,
			node_fault = EXCLUDED.node_fault, at = EXCLUDED.at),
	late AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, account_id, attempt, kind, status, actor, cause, detail)
		SELECT DISTINCT ON (w.workload_id, c.attempt) w.scope_id, greatest(heard, w.created_at), w.workload_id,
			w.account_id, c.attempt, 'late_report', w.status, note_report.actor, c.outcome, c.detail
		FROM changed AS c JOIN rpq_store.workload AS w ON w.workload_id = c.workload_id
		WHERE c.said = 'finished' AND NOT c.current AND c.outcome <> 'stopped'
		ORDER BY w.workload_id, c.attempt, c.pod_id)
	INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, actor)
	SELECT pool, heard, c.workload_id, max(c.attempt), 'report', note_report.actor
	FROM changed AS c GROUP BY c.workload_id ORDER BY c.workload_id;
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.note_report(bigint, bigint[], jsonb, text) IS
'writes what is new of an executor''s report; false when nothing is';

CREATE OR REPLACE FUNCTION rpq_store.answer_node(node_id bigint, running bigint[], finished jsonb)
RETURNS TABLE (action text, pod bigint, workload bigint, attempt int, resources rpq.resources, devices int[],
	spec jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH seen AS MATERIALIZED (
		SELECT c.* FROM rpq_store.compare_node($1, $2, $3) AS c),
	-- what the executor still runs though it is no longer placed: its devices are not free yet
	leaving AS (
		SELECT c.devices FROM seen AS c WHERE c.said = 'running' AND NOT c.current AND cardinality(c.devices) > 0)
	SELECT 'stop', r.pod_id, c.workload_id, c.attempt, NULL::rpq.resources, c.devices, NULL::jsonb
	FROM unnest($2) AS r (pod_id)
	LEFT JOIN seen AS c ON c.pod_id = r.pod_id
	WHERE c.pod_id IS NULL OR NOT c.current OR c.evicting
	UNION ALL
	SELECT 'start', c.pod_id, c.workload_id, c.attempt, w.resources, c.devices,
		rpq_store.pod_spec(w)
	FROM seen AS c
	JOIN rpq_store.workload AS w ON w.workload_id = c.workload_id
	WHERE c.current AND NOT c.evicting AND c.said IS NULL AND coalesce(c.state, 'started') = 'started'
	  AND NOT EXISTS (SELECT FROM leaving AS l WHERE l.devices && c.devices)
	  -- what stands on a node that is lost is on its way back to the queue
	  AND EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = $1 AND n.health <> 'unhealthy')
	ORDER BY 1 DESC, 2
$$;
COMMENT ON FUNCTION rpq_store.answer_node(bigint, bigint[], jsonb) IS
'what the executor of a node is to stop and to start after its report';

CREATE OR REPLACE FUNCTION rpq.sync_node(node text, running bigint[] DEFAULT '{}', finished jsonb DEFAULT '[]',
	capacity rpq.resources DEFAULT NULL)
RETURNS TABLE (action text, pod bigint, workload bigint, attempt int, resources rpq.resources, devices int[],
	spec jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject bigint := rpq_store.authorize('sync_node', sync_node.node);
	runs bigint[] := rpq_store.check_running(sync_node.running);
	ends jsonb := rpq_store.check_finished(sync_node.finished);
	named_twice numeric;
BEGIN
	SELECT (e.item ->> 'pod')::numeric INTO named_twice FROM jsonb_array_elements(ends) AS e (item)
	WHERE (e.item ->> 'pod')::numeric = ANY (runs) ORDER BY 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = format('pod %s is reported both as running and as finished', trunc(named_twice));
	END IF;
	PERFORM rpq_store.note_sign(subject, rpq_store.check_reported(sync_node.capacity));
	IF rpq_store.note_report(subject, runs, ends, (rpq_store.caller()).actor) THEN
		PERFORM rpq_store.wake();
	END IF;
	-- Answer and record are one statement, on one snapshot: what is handed out and not recorded, since its attempt ends
	-- meanwhile, would have devices that nobody knows of.
	RETURN QUERY
		WITH answer AS MATERIALIZED (
			SELECT a.* FROM rpq_store.answer_node(subject, runs, ends) WITH ORDINALITY AS a),
		handed_out AS (
			INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, devices, at)
			SELECT a.pod, subject, a.workload, a.attempt, 'started', a.devices, rpq.now()
			FROM answer AS a WHERE a.action = 'start' ORDER BY a.pod
			ON CONFLICT (pod_id) DO NOTHING)
		SELECT a.action, a.pod, a.workload, a.attempt, a.resources, a.devices, a.spec FROM answer AS a
		ORDER BY a.ordinality;
END
$$;
COMMENT ON FUNCTION rpq.sync_node(text, bigint[], jsonb, rpq.resources) IS
'what a program that runs pods on a node calls at short intervals. It counts as the node''s sign of life. running: ids '
'of the pods that it runs; finished: [{"pod": 17, "outcome": "succeeded" | "failed" | "stopped", "detail": "…", '
'"node_fault": false}]; capacity: what the machine has now (NULL: says nothing of it). A pod that was reported as '
'running and is in neither list is lost. The same report again changes nothing. Returns what to do: action stop (a pod '
'that has no place here, or is to be moved) or start, the pod, its workload and attempt, and to start its resources, '
'devices and spec, in which "checkpoint" is what report_checkpoint said last. Errors: 42704 unknown node, 22023 NULLs, '
'repeats, more than 100000 pods, another outcome or type, a pod in both lists, a negative capacity or a part of a '
'device, RQ009 fenced. Callers: executors of the tenant, organisation and platform administrators';

-- ---- the cycle's side -----------------------------------------------------------------------------------------------

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
				WHERE m.workload_id = w.workload_id AND m.pod_id = p.pod_id AND m.status = 'evicting') AS moving
		FROM rpq_store.workload AS w
		JOIN rpq_store.pod AS p ON p.workload_id = w.workload_id AND p.attempt = w.attempt
		LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
		LEFT JOIN rpq_store.node AS n ON n.node_id = p.node_id
		WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running')),
	broken AS (
		SELECT DISTINCT ON (p.workload_id) p.workload_id, p.attempt,
			CASE p.state WHEN 'lost' THEN 'lost' WHEN 'gone' THEN 'queued' ELSE p.outcome END AS ends,
			CASE p.state WHEN 'lost' THEN 'pod_lost' WHEN 'gone' THEN 'evicted' ELSE p.outcome END AS cause,
			CASE p.state WHEN 'lost' THEN format('node "%s" no longer reports pod %s', p.node, p.pod_id)
						 ELSE p.detail END AS detail
		FROM pod AS p
		WHERE p.state = 'lost' OR (p.state = 'gone' AND NOT p.moving)
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
'or when all have succeeded; one that was told to stop for a move that was undone returns to the queue';

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
	WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running')
	GROUP BY w.workload_id, w.status
	HAVING bool_or(coalesce(r.state IN ('lost', 'gone') OR r.outcome IN ('failed', 'stopped') OR r.node_fault, false))
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
	RETURN QUERY SELECT * FROM rpq_store.end_reported(settle_reports.workloads, settle_reports.at);
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

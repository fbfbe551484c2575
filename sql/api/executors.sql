-- Executors: programs that run pods on a node, what they report and what they are told.
--
-- sync_node is a client's call: it takes no turn and waits for nobody but another report of the same node.  It writes
-- node_seen, pod_report and entry.  The cycle's side of it is in settle_reports.sql.

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
-- attempt is the present one; evicting: it is told to stop, since it is moved away or a victim; state: what its report
-- becomes.  A victim whose preemptor gave up the room goes on, but may have been stopping by then.
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
			SELECT coalesce(bool_or(t.told), false) AS told, coalesce(bool_or(t.evicting), false) AS evicting
			FROM (SELECT m.evicted_at IS NOT NULL AS told, m.status = 'evicting' AS evicting
				  FROM rpq_store.pod_migration AS m
				  WHERE p.current AND m.workload_id = p.workload_id AND m.pod_id = p.pod_id
				  UNION ALL
				  SELECT e.state = 'pending' OR e.expires_at IS NULL OR e.expires_at
						+ current_setting('rpq.preemption_grace')::interval >= rpq.now(), e.state = 'pending'
				  FROM rpq_store.preemption AS e
				  WHERE p.current AND e.victim = p.workload_id AND e.victim_attempt = p.attempt) AS t) AS m)
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
		PERFORM rpq_store.wake(n.pool_id) FROM rpq_store.node AS n WHERE n.node_id = subject;
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

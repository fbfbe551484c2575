-- check_integrity, second half: pools and their nodes, rows that refer to nothing, operations, the history; and the
-- function itself.  Reads every table, writes none and locks none.

CREATE OR REPLACE FUNCTION rpq_store.check_pools()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH used AS (
		SELECT u.pool_id, rpq.sum(u.amount) AS amount
		FROM (SELECT pool_id, amount FROM rpq_store.usage WHERE lender_id = 0
			  UNION ALL
			  SELECT pool_id, resources FROM rpq_store.uncounted WHERE resources IS NOT NULL AND lender_id IS NULL
			  UNION ALL
			  -- its pods are gone already, its row follows
			  SELECT l.pool_id, l.resources OPERATOR(rpq.*) (- l.replicas)::numeric FROM rpq_store.podless AS l
			  WHERE l.lender_id IS NULL) AS u
		GROUP BY u.pool_id),
	size AS (
		SELECT n.pool_id, n.type_id, n.capacity, count(*) AS nodes
		FROM rpq_store.node AS n WHERE NOT n.removing GROUP BY n.pool_id, n.type_id, n.capacity),
	-- one that is being removed counts for as long as a pod, whose workload its client keeps locked, is on it
	total AS (
		SELECT n.pool_id, rpq.sum(n.capacity) AS amount FROM rpq_store.node AS n GROUP BY n.pool_id)
	-- nominal capacity: what a node reports less, or its health, takes away by force
	SELECT 'pool', format('pool %s', u.pool_id), format('at most %s', coalesce(t.amount, '')), u.amount::text
	FROM used AS u
	LEFT JOIN total AS t ON t.pool_id = u.pool_id
	WHERE NOT u.amount OPERATOR(rpq.<@) coalesce(t.amount, '')
	UNION ALL
	SELECT 'pool', format('pool %s', u.pool_id), 'usage is not negative', u.amount::text
	FROM used AS u WHERE NOT (OPERATOR(rpq.-) u.amount) OPERATOR(rpq.<@) ''
	UNION ALL
	SELECT 'pool_capacity', format('pool %s, type %s, %s', coalesce(s.pool_id, c.pool_id),
			coalesce(s.type_id, c.type_id), coalesce(s.capacity, c.capacity)),
		format('%s nodes', coalesce(s.nodes, 0)), format('%s nodes', coalesce(c.nodes, 0))
	FROM size AS s
	FULL JOIN rpq_store.pool_capacity AS c
		ON c.pool_id = s.pool_id AND c.type_id = s.type_id AND c.capacity OPERATOR(rpq.=) s.capacity
	WHERE coalesce(s.nodes, 0) <> coalesce(c.nodes, 0)
	UNION ALL
	SELECT 'inventory', format('node %s', n.name),
		format('tenant %s, cluster %s, kind %s', p.tenant_id, p.cluster_id, p.kind),
		format('tenant %s, cluster %s, kind %s', n.tenant_id, n.cluster_id, t.kind)
	FROM rpq_store.node AS n
	LEFT JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	LEFT JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	WHERE (n.tenant_id, n.cluster_id, t.kind) IS DISTINCT FROM (p.tenant_id, p.cluster_id, p.kind)
	   OR p.status = 'deleted'
	UNION ALL
	SELECT 'machine', format('node %s in pool %s', n.name, p.name), format('a multiple of %s', t.machine_unit),
		n.capacity::text
	FROM rpq_store.node AS n
	JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	WHERE p.type IN ('dedicated', 'exclusive')
	  AND mod(coalesce(n.capacity OPERATOR(rpq.->) t.kind, 0), nullif(t.machine_unit OPERATOR(rpq.->) t.kind, 0)) <> 0
	UNION ALL
	SELECT 'turn', format('scope %s', s.scope_id), 'a turn', 'none'
	FROM (SELECT pool_id AS scope_id FROM rpq_store.pool
		  UNION ALL SELECT queue_id FROM rpq_store.queue) AS s
	WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = s.scope_id)
$$;
COMMENT ON FUNCTION rpq_store.check_pools() IS
'part of check_integrity: usage is within the total of each pool, which is that of its nodes; these are of its tenant, '
'cluster and kind, and whole machines in dedicated and exclusive pools; each scope has its turn';

CREATE OR REPLACE FUNCTION rpq_store.check_reports()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'reference', format('report of pod %s', r.pod_id), 'the row exists', format('no workload %s', r.workload_id)
	FROM rpq_store.pod_report AS r
	WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = r.workload_id)
	UNION ALL
	SELECT 'report', format('pod %s', p.pod_id),
		format('a report from node %s, of workload %s', p.node_id, p.workload_id),
		format('node %s, workload %s', r.node_id, r.workload_id)
	FROM rpq_store.pod_report AS r
	JOIN rpq_store.pod AS p ON p.pod_id = r.pod_id
	WHERE (r.node_id, r.workload_id) <> (p.node_id, p.workload_id)
	UNION ALL
	-- an executor lets go of a pod once: what holds its room then has a report that a cycle has yet to count
	SELECT 'hold', format('hold %s', h.hold_id), 'a pod that an executor has still', 'none'
	FROM rpq_store.hold AS h
	WHERE h.purpose = 'stopping'
	  AND NOT EXISTS (SELECT FROM rpq_store.pod_report AS r
					  WHERE r.pod_id = h.pod_id AND r.state IN ('started', 'running'))
	  AND NOT EXISTS (SELECT FROM rpq_store.uncounted AS u WHERE u.workload_id = h.workload_id AND u.kind = 'report')
	UNION ALL
	SELECT 'hold', format('hold %s', h.hold_id), 'a pod that is gone', format('pod %s is placed', h.pod_id)
	FROM rpq_store.hold AS h
	JOIN rpq_store.pod AS p ON p.pod_id = h.pod_id
	WHERE h.purpose = 'stopping'
	UNION ALL
	SELECT 'node', format('node %s', n.name), 'unhealthy, or not silent', n.health
	FROM rpq_store.node AS n
	WHERE n.silent <> (n.decided_health IS NOT NULL) OR (n.silent AND n.health <> 'unhealthy')
$$;
COMMENT ON FUNCTION rpq_store.check_reports() IS
'part of check_integrity: what executors reported is of pods where they were placed, and room is held only for what an '
'executor has still';

CREATE OR REPLACE FUNCTION rpq_store.check_preemptions()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- what changed a workload since the last fold is for the next one to settle
	WITH news AS MATERIALIZED (SELECT DISTINCT u.workload_id FROM rpq_store.uncounted AS u),
	held AS (
		SELECT h.workload_id, h.attempt, count(*) AS holds, min(h.scope_id) AS scope_id, max(h.scope_id) AS other_scope
		FROM rpq_store.hold AS h WHERE h.purpose = 'preempt' GROUP BY h.workload_id, h.attempt)
	SELECT 'preemption', format('room of workload %s', h.workload_id),
		format('queued, for attempt %s, %s holds in one pool', w.attempt + 1, w.replicas),
		format('%s, for attempt %s, %s holds%s', coalesce(w.status, 'none'), h.attempt, h.holds,
			CASE WHEN h.scope_id <> h.other_scope THEN ' in several' ELSE '' END)
	FROM held AS h
	LEFT JOIN rpq_store.workload AS w ON w.workload_id = h.workload_id
	WHERE (w.status IS DISTINCT FROM 'queued' OR w.attempt + 1 <> h.attempt OR w.replicas <> h.holds
		OR h.scope_id <> h.other_scope)
	  AND h.workload_id NOT IN (SELECT n.workload_id FROM news AS n)
	UNION ALL
	-- one that has lost its pods waits for a client to let go of its row, and holds up nobody
	SELECT 'preemption', format('preemption %s', p.preemption_id), 'a preemptor for which room is held', 'none'
	FROM rpq_store.preemption AS p
	WHERE p.state = 'pending' AND p.preemptor IS NOT NULL
	  AND NOT EXISTS (SELECT FROM held AS h WHERE h.workload_id = p.preemptor)
	  AND p.preemption_id NOT IN (SELECT l.preemption_id FROM rpq_store.podless AS l)
	UNION ALL
	SELECT 'preemption', format('preemption %s', p.preemption_id), format('attempt %s of a victim', p.victim_attempt),
		format('%s, attempt %s', w.status, w.attempt)
	FROM rpq_store.preemption AS p
	JOIN rpq_store.workload AS w ON w.workload_id = p.victim
	WHERE p.state = 'pending' AND (w.attempt <> p.victim_attempt OR w.status NOT IN ('starting', 'running'))
	  AND p.victim NOT IN (SELECT n.workload_id FROM news AS n)
	  AND NOT EXISTS (SELECT FROM rpq_store.victim_room AS v WHERE v.preemption_id = p.preemption_id)
	UNION ALL
	SELECT 'preemption', format('workload %s, attempt %s', p.victim, p.victim_attempt), 'one that is pending',
		count(*)::text
	FROM rpq_store.preemption AS p WHERE p.state = 'pending'
	GROUP BY p.victim, p.victim_attempt HAVING count(*) > 1
	UNION ALL
	SELECT 'preemption', format('workload %s, attempt %s', e.workload_id, e.attempt), 'a row of its preemption', 'none'
	FROM rpq_store.entry AS e
	WHERE e.kind = 'release' AND e.cause = 'preempted'
	  AND NOT EXISTS (SELECT FROM rpq_store.preemption AS p
					  WHERE p.victim = e.workload_id AND p.victim_attempt = e.attempt AND p.state <> 'given_up')
	UNION ALL
	SELECT 'preemption', format('workload %s', w.workload_id), format('at most %s events', w.preemptions),
		count(*)::text
	FROM rpq_store.entry AS e JOIN rpq_store.workload AS w ON w.workload_id = e.workload_id
	WHERE e.kind = 'release' AND e.cause = 'preempted'
	GROUP BY w.workload_id HAVING count(*) > w.preemptions
$$;
COMMENT ON FUNCTION rpq_store.check_preemptions() IS
'part of check_integrity: room is held for workloads that wait for it, victims have still to stop for one of these, '
'and every attempt that ended as preempted has its row';

CREATE OR REPLACE FUNCTION rpq_store.check_references()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET work_mem = '128MB'
AS $$
	-- the scopes of the ledger one by one through the index: they are few, their entries are not
	WITH RECURSIVE entry_scope AS (
		SELECT min(e.scope_id) AS scope_id FROM rpq_store.entry AS e
		UNION ALL
		SELECT (SELECT min(e.scope_id) FROM rpq_store.entry AS e WHERE e.scope_id > s.scope_id)
		FROM entry_scope AS s WHERE s.scope_id IS NOT NULL),
	owner AS MATERIALIZED (
		SELECT DISTINCT w.scope_id, w.account_id, w.tenant_id FROM rpq_store.workload AS w)
	SELECT 'reference', o.object, 'the row exists', format('no %s %s', o.what, o.id)
	FROM (
		SELECT format('pod %s', p.pod_id), 'workload', p.workload_id FROM rpq_store.pod AS p
		WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = p.workload_id)
		UNION ALL
		SELECT format('pod %s', p.pod_id), 'node', p.node_id FROM rpq_store.pod AS p
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = p.node_id)
		UNION ALL
		SELECT format('entry %s', e.entry_id), 'workload', e.workload_id FROM rpq_store.entry AS e
		WHERE e.kind <> 'carry'
		  AND NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = e.workload_id)
		UNION ALL
		SELECT format('entries of scope %s', e.scope_id), 'turn', e.scope_id
		FROM entry_scope AS e
		WHERE e.scope_id IS NOT NULL
		  AND NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = e.scope_id)
		UNION ALL
		SELECT format('workloads of scope %s', w.scope_id), 'turn', w.scope_id FROM owner AS w
		WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = w.scope_id)
		UNION ALL
		SELECT format('queue "%s"', q.name), 'turn', q.queue_id FROM rpq_store.queue AS q
		WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = q.queue_id)
		UNION ALL
		SELECT format('workloads of account %s', w.account_id), 'account', w.account_id
		FROM owner AS w
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a
						  WHERE a.account_id = w.account_id AND a.tenant_id = w.tenant_id)
		UNION ALL
		SELECT format('lane %s', l.shape), 'turn', l.scope_id FROM rpq_store.lane AS l
		WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = l.scope_id)
		UNION ALL
		SELECT format('lane %s', l.shape), 'account', l.account_id FROM rpq_store.lane AS l
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a WHERE a.account_id = l.account_id)
		UNION ALL
		SELECT 'usage', 'pool', u.pool_id FROM rpq_store.usage AS u
		WHERE NOT EXISTS (SELECT FROM rpq_store.pool AS p WHERE p.pool_id = u.pool_id)
		UNION ALL
		SELECT 'usage', 'lending pool', u.lender_id FROM rpq_store.usage AS u
		WHERE u.lender_id <> 0
		  AND NOT EXISTS (SELECT FROM rpq_store.pool AS p WHERE p.pool_id = u.lender_id)
		UNION ALL
		SELECT 'usage', 'instance type', u.type_id FROM rpq_store.usage AS u
		WHERE NOT EXISTS (SELECT FROM rpq_store.instance_type AS t WHERE t.type_id = u.type_id)
		UNION ALL
		SELECT 'usage', 'account', u.account_id FROM rpq_store.usage AS u
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a WHERE a.account_id = u.account_id)
		UNION ALL
		SELECT 'node_load', 'node', l.node_id FROM rpq_store.node_load AS l
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = l.node_id)
		UNION ALL
		SELECT format('hold %s', h.hold_id), 'node', h.node_id FROM rpq_store.hold AS h
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = h.node_id)
		UNION ALL
		SELECT format('hold %s', h.hold_id), 'workload', h.workload_id FROM rpq_store.hold AS h
		WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = h.workload_id)
		UNION ALL
		SELECT format('quota of account %s in pool %s', q.account_id, q.pool_id), 'instance type', q.type_id
		FROM rpq_store.member_quota AS q
		WHERE q.type_id <> 0
		  AND NOT EXISTS (SELECT FROM rpq_store.instance_type AS t WHERE t.type_id = q.type_id)
		UNION ALL
		SELECT format('member %s', m.member_id), 'account of the pool''s tenant', m.account_id
		FROM rpq_store.member AS m
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a JOIN rpq_store.pool AS p ON p.tenant_id = a.tenant_id
						  WHERE a.account_id = m.account_id AND p.pool_id = m.pool_id)
	) AS o (object, what, id)
$$;
COMMENT ON FUNCTION rpq_store.check_references() IS
'part of check_integrity: what tables without foreign keys refer to is there';

CREATE OR REPLACE FUNCTION rpq_store.check_operations()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'operation', format('pool %s, operation %s', h.pool_id, h.operation_id), 'an open operation',
		coalesce(o.status, 'none')
	FROM rpq_store.operation_pool AS h
	LEFT JOIN rpq_store.operation AS o ON o.operation_id = h.operation_id
	WHERE o.status IS NULL OR o.status NOT IN ('pending', 'running')
	UNION ALL
	-- a backend's start goes with its pid: the number alone may be another's by now
	SELECT 'operation', format('operation %s', o.operation_id), 'an owner, or a lease that runs',
		format('running, lease until %s', coalesce(o.lease_until::text, 'never'))
	FROM rpq_store.operation AS o
	WHERE o.status = 'running' AND coalesce(o.lease_until, '-infinity') < clock_timestamp()
	  AND NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL) AS a
					  WHERE a.pid = o.owner_pid AND a.backend_start = o.owner_started)
	UNION ALL
	SELECT 'operation', format('pool %s', p.name), 'an open operation', format('none, and the pool is %s', p.status)
	FROM rpq_store.pool AS p
	WHERE p.status IN ('creating', 'updating', 'deleting')
	  AND NOT EXISTS (SELECT FROM rpq_store.operation AS o
					  WHERE o.pool_id = p.pool_id AND o.status IN ('pending', 'running')
						AND o.kind <> 'rotate')
$$;
COMMENT ON FUNCTION rpq_store.check_operations() IS
'part of check_integrity: no operation is open without owner past its lease, none that ended holds a pool, and no pool '
'waits for one that is not there';

CREATE OR REPLACE FUNCTION rpq_store.check_moves()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH open AS (
		SELECT m.pod_migration_id, m.operation_id, m.pod_id, m.to_node_id, m.status
		FROM rpq_store.pod_migration AS m WHERE m.status IN ('planned', 'reserved', 'evicting')),
	running AS (
		SELECT o.operation_id, o.state FROM rpq_store.operation AS o WHERE o.status IN ('pending', 'running'))
	SELECT 'move', format('pod_migration %s', m.pod_migration_id), 'an open operation', 'none'
	FROM open AS m WHERE NOT EXISTS (SELECT FROM running AS r WHERE r.operation_id = m.operation_id)
	UNION ALL
	-- a node that was removed by force takes its holds with it: the next step seeks another target
	SELECT 'move', format('pod_migration %s', m.pod_migration_id),
		CASE m.status WHEN 'planned' THEN 'no hold' ELSE format('one hold, on node %s', m.to_node_id) END,
		format('%s holds, on node %s', count(h.hold_id), coalesce(min(h.node_id)::text, 'none'))
	FROM open AS m
	LEFT JOIN rpq_store.hold AS h
		ON h.pod_id = m.pod_id AND h.operation_id = m.operation_id AND h.purpose = 'move'
	WHERE EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = m.to_node_id) OR h.hold_id IS NOT NULL
	GROUP BY m.pod_migration_id, m.status, m.to_node_id
	HAVING count(h.hold_id) <> CASE m.status WHEN 'planned' THEN 0 ELSE 1 END
		OR min(h.node_id) <> m.to_node_id
	UNION ALL
	SELECT 'move', format('pod %s', m.pod_id), 'one open move', format('%s', count(*))
	FROM open AS m GROUP BY m.pod_id HAVING count(*) > 1
	UNION ALL
	SELECT 'hold', format('hold %s', h.hold_id), 'an open move of its pod', 'none'
	FROM rpq_store.hold AS h
	WHERE h.purpose = 'move'
	  AND NOT EXISTS (SELECT FROM open AS m WHERE m.pod_id = h.pod_id AND m.operation_id = h.operation_id)
	UNION ALL
	SELECT 'hold', format('hold %s', h.hold_id), 'an open operation', 'none'
	FROM rpq_store.hold AS h
	WHERE h.operation_id IS NOT NULL
	  AND NOT EXISTS (SELECT FROM running AS r WHERE r.operation_id = h.operation_id)
	UNION ALL
	SELECT 'node', format('node %s', n.name), 'an open operation that empties it', 'none, and it is draining'
	FROM rpq_store.node AS n
	WHERE n.draining
	  AND NOT EXISTS (SELECT FROM running AS r
					  WHERE r.state->'draining' @> jsonb_build_array(jsonb_build_object('node_id', n.node_id)))
$$;
COMMENT ON FUNCTION rpq_store.check_moves() IS
'part of check_integrity: open moves of pods, the room that is held for them, and nodes that are being emptied belong '
'to an operation that is open; a move that has reserved has one hold, on its target';

CREATE OR REPLACE FUNCTION rpq_store.check_recorded()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH made AS (
		SELECT DISTINCT h.object_kind, h.object_id, h.pool_id FROM rpq_store.history AS h
		WHERE h.old IS NULL AND h.new IS NOT NULL),
	-- retention deletes the oldest rows: what is older than all that is left cannot be told
	since AS (
		SELECT coalesce(least(h.at, h.recorded_at), '-infinity') AS at
		FROM (SELECT) AS one
		LEFT JOIN (SELECT at, recorded_at FROM rpq_store.history ORDER BY history_id LIMIT 1) AS h ON true)
	SELECT 'history', format('%s %s', o.kind, o.name), 'a row of its creation', 'none'
	FROM (
		SELECT 'tenant', tenant_id, name, NULL::bigint, created_at FROM rpq_store.tenant
		UNION ALL SELECT 'cluster', cluster_id, name, NULL, created_at FROM rpq_store.cluster
		UNION ALL SELECT 'instance_type', type_id, name, NULL, created_at FROM rpq_store.instance_type
		UNION ALL SELECT 'account', account_id, name, NULL, created_at FROM rpq_store.account
		UNION ALL SELECT 'user_group', group_id, name, NULL, created_at FROM rpq_store.user_group
		UNION ALL SELECT 'project_group', project_group_id, name, NULL, created_at FROM rpq_store.project_group
		UNION ALL SELECT 'node', node_id, name, NULL, created_at FROM rpq_store.node
		UNION ALL SELECT 'member', member_id, member_id::text, NULL, created_at FROM rpq_store.member
		UNION ALL SELECT 'policy', policy_id, name, NULL, created_at FROM rpq_store.policy
		UNION ALL SELECT 'profile', profile_id, name, NULL, created_at FROM rpq_store.profile
		UNION ALL SELECT 'queue', queue_id, name, NULL, created_at FROM rpq_store.queue
		UNION ALL SELECT 'pool_admin', account_id, account_id::text, pool_id, NULL FROM rpq_store.pool_admin
		-- a pool is recorded when the operation that makes it has succeeded
		UNION ALL SELECT 'pool', p.pool_id, p.name, NULL, p.created_at FROM rpq_store.pool AS p
		WHERE NOT EXISTS (SELECT FROM rpq_store.operation AS o
						  WHERE o.pool_id = p.pool_id AND o.kind = 'create' AND o.status <> 'succeeded')
	) AS o (kind, id, name, pool_id, created_at)
	CROSS JOIN since
	WHERE (o.created_at IS NULL OR o.created_at >= since.at)
	  AND NOT EXISTS (SELECT FROM made AS m WHERE m.object_kind = o.kind AND m.object_id = o.id
					  AND (o.pool_id IS NULL OR m.pool_id = o.pool_id))
$$;
COMMENT ON FUNCTION rpq_store.check_recorded() IS
'part of check_integrity: each object of the configuration has the history row of its creation, so that a raw INSERT '
'shows up';

CREATE OR REPLACE FUNCTION rpq.check_integrity()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
	PERFORM rpq_store.authorize('check_integrity');
	RETURN QUERY SELECT * FROM rpq_store.check_gangs();
	RETURN QUERY SELECT * FROM rpq_store.check_nodes();
	RETURN QUERY SELECT * FROM rpq_store.check_devices();
	RETURN QUERY SELECT * FROM rpq_store.check_usage();
	RETURN QUERY SELECT * FROM rpq_store.check_ledger();
	RETURN QUERY SELECT * FROM rpq_store.check_lanes();
	RETURN QUERY SELECT * FROM rpq_store.check_pools();
	RETURN QUERY SELECT * FROM rpq_store.check_references();
	RETURN QUERY SELECT * FROM rpq_store.check_reports();
	RETURN QUERY SELECT * FROM rpq_store.check_preemptions();
	RETURN QUERY SELECT * FROM rpq_store.check_operations();
	RETURN QUERY SELECT * FROM rpq_store.check_moves();
	RETURN QUERY SELECT * FROM rpq_store.check_recorded();
END
$$;
COMMENT ON FUNCTION rpq.check_integrity() IS
'recomputes every balance from the placed pods, the workloads and the ledger, and returns a row for each difference: '
'invariant (gang, workload, node, device, node_load, usage, ledger, lane, lane head, pool, pool_capacity, '
'inventory, machine, turn, borrowed, reference, report, operation, move, hold, preemption, history), object, what is '
'expected, what was found; none when all is well. Exact in any snapshot, whatever runs at the same time; locks and '
'writes nothing, '
'also on a standby. Errors: 42501. Platform administrators';

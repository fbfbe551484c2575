-- check_integrity: everything recomputed from the placed pods, the workloads and the ledger, and compared with what is
-- stored.  Reads every table, writes none and locks none.
--
-- All parts are STABLE, so that they read the snapshot of the caller's query: in it balance + uncounted is exact,
-- whatever is being written meanwhile.  Each part is a few joins of aggregates; nothing is called for each row.

CREATE OR REPLACE VIEW rpq_store.holding AS
SELECT w.workload_id, w.attempt, w.account_id, coalesce(w.policy_id, 0) AS policy_id, w.pool_id, w.type_id, w.replicas,
	w.resources, coalesce(w.lender_id, w.pool_id) AS stands_in, w.guarantee
FROM rpq_store.workload AS w
WHERE w.status IN ('starting', 'running')
UNION ALL
SELECT u.workload_id, u.attempt, u.account_id, coalesce(u.policy_id, 0), u.pool_id, u.type_id, w.replicas, w.resources,
	coalesce(u.lender_id, u.pool_id), w.guarantee
FROM rpq_store.uncounted AS u
JOIN rpq_store.workload AS w ON w.workload_id = u.workload_id
WHERE u.kind = 'release';
COMMENT ON VIEW rpq_store.holding IS
'attempts that the balances must contain: those on nodes, and those whose release no fold has counted yet';
COMMENT ON COLUMN rpq_store.holding.workload_id IS 'the workload';
COMMENT ON COLUMN rpq_store.holding.attempt IS 'its attempt that holds nodes';
COMMENT ON COLUMN rpq_store.holding.account_id IS 'its account';
COMMENT ON COLUMN rpq_store.holding.policy_id IS 'the policy it is counted in; 0: none';
COMMENT ON COLUMN rpq_store.holding.pool_id IS 'the pool that it is charged to';
COMMENT ON COLUMN rpq_store.holding.type_id IS 'the instance type of its nodes';
COMMENT ON COLUMN rpq_store.holding.replicas IS 'how many pods it has';
COMMENT ON COLUMN rpq_store.holding.resources IS 'what each of them holds';
COMMENT ON COLUMN rpq_store.holding.stands_in IS 'the pool of its nodes: another one where it borrows';
COMMENT ON COLUMN rpq_store.holding.guarantee IS 'never preempted, and so it may not borrow';

CREATE OR REPLACE FUNCTION rpq_store.check_gangs()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH placed AS (
		SELECT p.workload_id, p.attempt, count(*) AS pods, count(DISTINCT p.replica) AS replicas,
			max(p.replica) AS highest, min(n.pool_id) AS pool_id, max(n.pool_id) AS other_pool,
			min(n.type_id) AS type_id, max(n.type_id) AS other_type, count(n.node_id) AS nodes
		FROM rpq_store.pod AS p
		LEFT JOIN rpq_store.node AS n ON n.node_id = p.node_id
		GROUP BY p.workload_id, p.attempt)
	SELECT 'gang', format('workload %s, attempt %s', coalesce(h.workload_id, g.workload_id),
			coalesce(h.attempt, g.attempt)),
		CASE WHEN h.workload_id IS NULL THEN 'no pods'
			 ELSE format('%s pods in pool %s, type %s', h.replicas, h.stands_in, h.type_id) END,
		CASE WHEN g.workload_id IS NULL THEN 'no pods'
			 ELSE format('%s pods in pool %s, type %s', g.pods,
				concat_ws(' and ', g.pool_id, nullif(g.other_pool, g.pool_id)),
				concat_ws(' and ', g.type_id, nullif(g.other_type, g.type_id))) END
	FROM rpq_store.holding AS h
	FULL JOIN placed AS g ON g.workload_id = h.workload_id AND g.attempt = h.attempt
	WHERE (h.workload_id IS NULL OR g.workload_id IS NULL OR h.replicas <> g.pods OR h.replicas <> g.replicas
		OR h.replicas <> g.highest + 1 OR h.replicas <> g.nodes
		OR (h.stands_in, h.type_id) IS DISTINCT FROM (g.pool_id, g.type_id)
		OR (h.stands_in, h.type_id) IS DISTINCT FROM (g.other_pool, g.other_type))
	  AND NOT EXISTS (SELECT FROM rpq_store.podless AS l
					  WHERE l.workload_id = h.workload_id AND l.attempt = h.attempt)
	UNION ALL
	SELECT 'borrowed', format('workload %s, attempt %s', h.workload_id, h.attempt),
		'preemptible work submitted to a shared pool', format('%s%s in a %s pool',
			CASE WHEN h.guarantee THEN 'guaranteed, ' END,
			CASE WHEN h.policy_id <> 0 THEN 'through a queue' ELSE 'direct' END, p.type)
	FROM rpq_store.holding AS h
	JOIN rpq_store.pool AS p ON p.pool_id = h.pool_id
	WHERE h.stands_in <> h.pool_id AND (h.guarantee OR h.policy_id <> 0 OR p.type <> 'shared')
	UNION ALL
	SELECT v.invariant, format('workload %s', w.workload_id), v.expected, v.found
	FROM rpq_store.workload AS w
	CROSS JOIN LATERAL (VALUES
		('gang', format('%s nodes listed', w.replicas), format('%s nodes listed', coalesce(cardinality(w.nodes), 0)),
			w.status IN ('starting', 'running') AND coalesce(cardinality(w.nodes), 0) <> w.replicas),
		('workload', CASE WHEN w.ended_at IS NULL THEN 'not ended' ELSE 'ended' END, w.status,
			(w.ended_at IS NULL) <> (w.status IN ('draft', 'queued', 'starting', 'running'))
			OR (w.status = 'queued' AND w.submitted_at IS NULL))) AS v (invariant, expected, found, broken)
	WHERE ((w.status IN ('starting', 'running') AND coalesce(cardinality(w.nodes), 0) <> w.replicas)
		OR (w.ended_at IS NULL) <> (w.status IN ('draft', 'queued', 'starting', 'running'))
		OR (w.status = 'queued' AND w.submitted_at IS NULL))
	  AND v.broken
$$;
COMMENT ON FUNCTION rpq_store.check_gangs() IS
'part of check_integrity: each workload that holds nodes has all its pods, of its present attempt, on nodes of one '
'pool and type; no other has any';

CREATE OR REPLACE FUNCTION rpq_store.check_nodes()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH pods AS (
		SELECT p.node_id, rpq.sum(w.resources) AS used, count(*) AS pods
		FROM rpq_store.pod AS p
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		GROUP BY p.node_id),
	-- what is held for a preemptor may be what its own victims still have
	preempt AS (
		SELECT h.node_id, h.workload_id, rpq.sum(h.resources) AS held
		FROM rpq_store.hold AS h WHERE h.purpose = 'preempt' GROUP BY h.node_id, h.workload_id),
	victim AS (
		SELECT v.node_id, v.preemptor, rpq.sum(v.resources) AS had
		FROM rpq_store.victim_room AS v GROUP BY v.node_id, v.preemptor),
	holds AS (
		SELECT x.node_id, rpq.sum(x.amount) AS held
		FROM (SELECT h.node_id, h.resources AS amount FROM rpq_store.hold AS h WHERE h.purpose <> 'preempt'
			  UNION ALL
			  SELECT p.node_id, rpq.greatest(p.held OPERATOR(rpq.-) coalesce(v.had, ''),
				(p.held OPERATOR(rpq.-) coalesce(v.had, '')) OPERATOR(rpq.*) 0::numeric)
			  FROM preempt AS p
			  LEFT JOIN victim AS v ON v.node_id = p.node_id AND v.preemptor = p.workload_id) AS x
		GROUP BY x.node_id),
	node AS (
		SELECT n.node_id, n.name, n.pool_id, n.capacity, coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0) AS devices,
			l.node_id IS NOT NULL AS has_load, l.pool_id AS load_pool, l.used AS load_used, l.pods AS load_pods,
			coalesce(cardinality(l.parts), 0) AS load_devices,
			coalesce(p.used, '') AS used, coalesce(p.pods, 0) AS pods, coalesce(h.held, '') AS held
		FROM rpq_store.node AS n
		LEFT JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
		LEFT JOIN pods AS p ON p.node_id = n.node_id
		LEFT JOIN holds AS h ON h.node_id = n.node_id)
	SELECT 'node_load', format('node %s', n.name), format('a row of pool %s with %s devices', n.pool_id, n.devices),
		CASE WHEN n.has_load THEN format('pool %s, %s devices', n.load_pool, n.load_devices) ELSE 'no row' END
	FROM node AS n
	WHERE NOT n.has_load OR n.load_pool <> n.pool_id OR n.load_devices <> n.devices
	UNION ALL
	SELECT 'node_load', format('node %s', n.name), format('%s pods: %s', n.pods, n.used),
		format('%s pods: %s', n.load_pods, n.load_used)
	FROM node AS n
	WHERE n.has_load AND (n.load_pods <> n.pods
		OR NOT (n.load_used OPERATOR(rpq.-) n.used) OPERATOR(rpq.<@) ''
		OR NOT (n.used OPERATOR(rpq.-) n.load_used) OPERATOR(rpq.<@) '')
	UNION ALL
	SELECT 'node', format('node %s', n.name), format('at most %s', n.capacity), (n.used OPERATOR(rpq.+) n.held)::text
	FROM node AS n
	WHERE NOT (n.used OPERATOR(rpq.+) n.held) OPERATOR(rpq.<@) n.capacity
$$;
COMMENT ON FUNCTION rpq_store.check_nodes() IS
'part of check_integrity: node_load is the sum of the pods of each node, and pods and holds fit in its capacity, those '
'for preemptors beside what their victims have still';

CREATE OR REPLACE FUNCTION rpq_store.check_devices()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH claim AS (
		SELECT p.node_id, p.devices, w.resources OPERATOR(rpq.->) 'gpu' AS gpu, true AS is_pod,
			format('workload %s, replica %s', p.workload_id, p.replica) AS object
		FROM rpq_store.pod AS p
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		UNION ALL
		SELECT h.node_id, h.devices, h.resources OPERATOR(rpq.->) 'gpu', false, format('hold %s', h.hold_id)
		FROM rpq_store.hold AS h WHERE h.purpose <> 'preempt'),
	-- by preemptor and device: what is held for it, less what its victims have still
	preempt AS (
		SELECT x.node_id, x.device, greatest(0, sum(x.parts)) AS parts
		FROM (SELECT h.workload_id AS preemptor, h.node_id, d.device,
				round((h.resources OPERATOR(rpq.->) 'gpu') * 21000 / cardinality(h.devices)) AS parts, true AS held
			  FROM rpq_store.hold AS h CROSS JOIN LATERAL unnest(h.devices) AS d (device)
			  WHERE h.purpose = 'preempt'
			  UNION ALL
			  SELECT v.preemptor, v.node_id, d.device,
				- round((v.resources OPERATOR(rpq.->) 'gpu') * 21000 / cardinality(v.devices)), false
			  FROM rpq_store.victim_room AS v CROSS JOIN LATERAL unnest(v.devices) AS d (device)) AS x
		GROUP BY x.preemptor, x.node_id, x.device HAVING bool_or(x.held)),
	-- of a device: thousandths times 21, the unit of amounts, of which 1/7 is a whole number; more than one device are
	-- all whole
	piece AS (
		SELECT c.node_id, d.device, c.is_pod, round(c.gpu * 21000 / greatest(cardinality(c.devices), 1)) AS parts
		FROM claim AS c CROSS JOIN LATERAL unnest(c.devices) AS d (device)
		UNION ALL
		SELECT p.node_id, p.device, false, p.parts FROM preempt AS p),
	taken AS (
		SELECT p.node_id, p.device, sum(p.parts) AS parts, coalesce(sum(p.parts) FILTER (WHERE p.is_pod), 0) AS of_pods
		FROM piece AS p
		GROUP BY p.node_id, p.device),
	stored AS (
		SELECT l.node_id, (p.place - 1)::int AS device, p.parts
		FROM rpq_store.node_load AS l CROSS JOIN LATERAL unnest(l.parts) WITH ORDINALITY AS p (parts, place)
		WHERE p.parts <> 0)
	SELECT 'device', c.object, format('devices for %s gpu', coalesce(c.gpu, 0)), coalesce(c.devices::text, 'none')
	FROM claim AS c
	WHERE (coalesce(c.gpu, 0) > 0 AND coalesce(cardinality(c.devices), 0) <> greatest(c.gpu, 1))
	   OR (coalesce(c.gpu, 0) = 0 AND coalesce(cardinality(c.devices), 0) > 0)
	UNION ALL
	SELECT 'device', format('node %s, device %s', coalesce(n.name, t.node_id::text), t.device),
		format('at most 1 of %s devices', coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)),
		trim_scale(t.parts / 21000)::text
	FROM taken AS t
	LEFT JOIN rpq_store.node AS n ON n.node_id = t.node_id
	WHERE t.parts > 21000 OR t.device < 0 OR t.device >= coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)
	UNION ALL
	SELECT 'node_load', format('node %s, device %s', coalesce(t.node_id, s.node_id), coalesce(t.device, s.device)),
		trim_scale(coalesce(t.of_pods, 0) / 21000)::text, trim_scale(coalesce(s.parts, 0)::numeric / 21000)::text
	FROM taken AS t
	FULL JOIN stored AS s ON s.node_id = t.node_id AND s.device = t.device
	WHERE coalesce(t.of_pods, 0) <> coalesce(s.parts, 0)
$$;
COMMENT ON FUNCTION rpq_store.check_devices() IS
'part of check_integrity: the parts on a device sum to 1 at most, exist on the node, and are those of node_load';

CREATE OR REPLACE FUNCTION rpq_store.check_usage()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- a victim that has lost its pods is charged until its row, which its client keeps locked, follows
	WITH placed AS (
		SELECT x.pool_id, x.type_id, x.account_id, x.policy_id, x.lender_id, rpq.sum(x.resources) AS amount
		FROM (SELECT CASE WHEN b.lender_id IS NULL THEN n.pool_id ELSE b.pool_id END AS pool_id, n.type_id,
				w.account_id, coalesce(w.policy_id, u.policy_id, 0) AS policy_id, coalesce(b.lender_id, 0) AS lender_id,
				w.resources
			  FROM rpq_store.pod AS p
			  JOIN rpq_store.node AS n ON n.node_id = p.node_id
			  JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
			  LEFT JOIN rpq_store.uncounted AS u
				ON u.workload_id = p.workload_id AND u.attempt = p.attempt AND u.kind = 'release'
			  CROSS JOIN LATERAL (SELECT CASE WHEN u.workload_id IS NULL THEN w.lender_id ELSE u.lender_id END,
				CASE WHEN u.workload_id IS NULL THEN w.pool_id ELSE u.pool_id END) AS b (lender_id, pool_id)
			  UNION ALL
			  SELECT l.pool_id, l.type_id, l.account_id, coalesce(l.policy_id, 0), coalesce(l.lender_id, 0),
				l.resources OPERATOR(rpq.*) l.replicas::numeric
			  FROM rpq_store.podless AS l) AS x
		GROUP BY 1, 2, 3, 4, 5),
	-- what is not counted is taken off again, and so the sum stays within what fits a bigint
	counted AS (
		SELECT e.pool_id, e.type_id, e.account_id, e.policy_id, e.lender_id, rpq.sum(e.amount) AS amount
		FROM (SELECT e.pool_id, e.type_id, e.account_id, coalesce(e.policy_id, 0) AS policy_id,
				coalesce(e.lender_id, 0) AS lender_id, e.resources AS amount
			  FROM rpq_store.entry AS e WHERE e.resources IS NOT NULL
			  UNION ALL
			  SELECT u.pool_id, u.type_id, u.account_id, coalesce(u.policy_id, 0), coalesce(u.lender_id, 0),
				OPERATOR(rpq.-) u.resources
			  FROM rpq_store.uncounted AS u WHERE u.resources IS NOT NULL) AS e
		GROUP BY 1, 2, 3, 4, 5),
	cell AS (
		SELECT pool_id, type_id, account_id, policy_id, lender_id, coalesce(u.amount, '') AS stored,
			coalesce(p.amount, '') AS placed, coalesce(c.amount, '') AS counted
		FROM rpq_store.usage AS u
		FULL JOIN placed AS p USING (pool_id, type_id, account_id, policy_id, lender_id)
		FULL JOIN counted AS c USING (pool_id, type_id, account_id, policy_id, lender_id))
	SELECT v.invariant,
		format('pool %s, type %s, account %s, policy %s%s', c.pool_id, c.type_id, c.account_id, c.policy_id,
			CASE WHEN c.lender_id <> 0 THEN format(', borrowed of pool %s', c.lender_id) END),
		v.expected::text, c.stored::text
	FROM cell AS c
	CROSS JOIN LATERAL (VALUES ('usage', c.placed), ('ledger', c.counted)) AS v (invariant, expected)
	WHERE NOT (c.stored OPERATOR(rpq.-) v.expected) OPERATOR(rpq.<@) ''
	   OR NOT (v.expected OPERATOR(rpq.-) c.stored) OPERATOR(rpq.<@) ''
$$;
COMMENT ON FUNCTION rpq_store.check_usage() IS
'part of check_integrity: each cell of usage is the sum of its placed pods, and that of the entries counted in it';

CREATE OR REPLACE FUNCTION rpq_store.check_ledger()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET work_mem = '256MB'
AS $$
	-- a move ends an attempt and begins the next one, which holds what was admitted: attempts that moves made of each
	-- other are one stay, named by its first
	WITH stay AS MATERIALIZED (
		SELECT m.workload_id, m.attempt + 1 AS attempt,
			min(m.attempt) OVER (PARTITION BY m.workload_id, m.island) AS first
		FROM (SELECT e.workload_id, e.attempt,
				e.attempt - row_number() OVER (PARTITION BY e.workload_id ORDER BY e.attempt) AS island
			  FROM rpq_store.entry AS e WHERE e.kind = 'move') AS m),
	-- one that was admitted once and released once, of the same amount, is closed and needs no further look
	open AS (
		SELECT e.workload_id, coalesce(s.first, e.attempt) AS attempt,
			count(*) FILTER (WHERE e.kind = 'admit') AS admits,
			count(*) FILTER (WHERE e.kind = 'release') AS releases, rpq.sum(e.resources) AS held
		FROM rpq_store.entry AS e
		LEFT JOIN stay AS s ON s.workload_id = e.workload_id AND s.attempt = e.attempt
		WHERE e.resources IS NOT NULL AND e.kind <> 'carry'
		GROUP BY e.workload_id, coalesce(s.first, e.attempt)
		HAVING NOT (count(*) = 2 AND count(*) FILTER (WHERE e.kind = 'admit') = 1
			AND count(*) FILTER (WHERE e.kind = 'release') = 1
			AND rpq.sum(e.resources) OPERATOR(rpq.<@) ''
			AND (OPERATOR(rpq.-) rpq.sum(e.resources)) OPERATOR(rpq.<@) ''))
	SELECT 'ledger', format('workload %s, attempt %s', coalesce(o.workload_id, w.workload_id),
			coalesce(o.attempt, w.attempt)),
		CASE WHEN w.workload_id IS NULL THEN 'one admit and one release of the same amount'
			 ELSE format('one admit of %s', w.resources OPERATOR(rpq.*) w.replicas::numeric) END,
		format('%s admits, %s releases: %s', coalesce(o.admits, 0), coalesce(o.releases, 0), coalesce(o.held, ''))
	FROM open AS o
	FULL JOIN (SELECT w.workload_id, coalesce(s.first, w.attempt) AS attempt, w.resources, w.replicas
			   FROM rpq_store.workload AS w
			   LEFT JOIN stay AS s ON s.workload_id = w.workload_id AND s.attempt = w.attempt
			   WHERE w.status IN ('starting', 'running')) AS w
		ON w.workload_id = o.workload_id AND w.attempt = o.attempt
	WHERE o.workload_id IS NULL OR w.workload_id IS NULL OR o.admits <> 1 OR o.releases <> 0
	   OR NOT (o.held OPERATOR(rpq.-) (w.resources OPERATOR(rpq.*) w.replicas::numeric)) OPERATOR(rpq.<@) ''
	   OR NOT ((w.resources OPERATOR(rpq.*) w.replicas::numeric) OPERATOR(rpq.-) o.held) OPERATOR(rpq.<@) ''
	UNION ALL
	SELECT 'ledger', format('workload %s', w.workload_id), format('attempt %s, or a later one', max(s.attempt)),
		format('attempt %s', w.attempt)
	FROM stay AS s JOIN rpq_store.workload AS w ON w.workload_id = s.workload_id
	GROUP BY w.workload_id HAVING max(s.attempt) > w.attempt
$$;
COMMENT ON FUNCTION rpq_store.check_ledger() IS
'part of check_integrity: each stay (an attempt, with those that moves made of it) is admitted once and released at '
'most once; what remains are the workloads that hold nodes, each with what it holds';

CREATE OR REPLACE FUNCTION rpq_store.check_lanes()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH uncounted AS MATERIALIZED (
		SELECT u.scope_id, u.shape, u.workload_id, u.waiting FROM rpq_store.uncounted AS u WHERE u.waiting <> 0),
	queued AS (
		SELECT w.scope_id, w.shape, count(*) AS waiting
		FROM rpq_store.workload AS w WHERE w.status = 'queued' GROUP BY w.scope_id, w.shape),
	stored AS (
		SELECT l.scope_id, l.shape, sum(l.waiting) AS waiting
		FROM (SELECT scope_id, shape, waiting FROM rpq_store.lane
			  UNION ALL SELECT scope_id, shape, waiting FROM uncounted) AS l
		GROUP BY l.scope_id, l.shape),
	logged AS (
		SELECT e.scope_id, e.shape, sum(e.waiting) AS waiting
		FROM rpq_store.entry AS e WHERE e.waiting <> 0 GROUP BY e.scope_id, e.shape)
	SELECT v.invariant, format('scope %s, shape %s', scope_id, shape), format('%s waiting', coalesce(q.waiting, 0)),
		format('%s waiting', v.found)
	FROM queued AS q
	FULL JOIN stored AS s USING (scope_id, shape)
	FULL JOIN logged AS l USING (scope_id, shape)
	CROSS JOIN LATERAL (VALUES ('lane', coalesce(s.waiting, 0)), ('ledger', coalesce(l.waiting, 0)))
		AS v (invariant, found)
	WHERE v.found <> coalesce(q.waiting, 0)
	UNION ALL
	SELECT 'lane', format('scope %s, shape %s', l.scope_id, l.shape), 'waiting is not negative', l.waiting::text
	FROM rpq_store.lane AS l WHERE l.waiting < 0
	UNION ALL
	-- what arrived since the last fold may be before the head: the fold moves it
	SELECT 'lane head', format('scope %s, shape %s', l.scope_id, l.shape),
		format('at or before workload %s of %s', w.workload_id, w.submitted_at),
		format('workload %s of %s', l.head_id, l.head_at)
	FROM rpq_store.lane AS l
	CROSS JOIN LATERAL (
		SELECT w.workload_id, w.submitted_at FROM rpq_store.workload AS w
		WHERE w.scope_id = l.scope_id AND w.shape = l.shape AND w.status = 'queued'
		  AND (w.submitted_at, w.workload_id) < (l.head_at, l.head_id)
		  AND NOT EXISTS (SELECT FROM uncounted AS u WHERE u.workload_id = w.workload_id AND u.waiting > 0)
		ORDER BY w.submitted_at, w.workload_id LIMIT 1) AS w
	UNION ALL
	SELECT 'lane', format('workload %s', w.workload_id),
		format('as its lane: account %s, %s of %s, priority %s', l.account_id, l.replicas, l.resources, l.priority),
		format('account %s, %s of %s, priority %s', w.account_id, w.replicas, w.resources, w.priority)
	FROM rpq_store.workload AS w
	JOIN rpq_store.lane AS l ON l.scope_id = w.scope_id AND l.shape = w.shape
	WHERE w.status = 'queued' AND ((l.account_id, l.replicas, l.priority) <> (w.account_id, w.replicas, w.priority)
		OR l.resources OPERATOR(rpq.<>) w.resources)
$$;
COMMENT ON FUNCTION rpq_store.check_lanes() IS
'part of check_integrity: the length of each lane is the number of its queued workloads and the sum of its entries, '
'and no member is before its head';

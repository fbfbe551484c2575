-- What the views are made of: who may see what, and the figures of the moment.  Balances (usage, lane, node_load) are
-- behind by the entries that no fold has counted; everything here adds them, so that a reader sees exactly what is
-- committed in its snapshot.  These are plain views without filter: only the views of schema rpq read them.

CREATE OR REPLACE FUNCTION rpq_store.reading_time() RETURNS timestamptz
	LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'rpq_reading_time';
COMMENT ON FUNCTION rpq_store.reading_time() IS
	'the time by which a view reckons: rpq.clock, else the start of the statement';

CREATE OR REPLACE FUNCTION rpq_store.shown_since() RETURNS timestamptz
	LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	-- in seconds, never in days: a day of an interval has 23 or 25 hours in some time zones
	SELECT rpq_store.reading_time() - make_interval(secs =>
		extract(epoch FROM current_setting('rpq.workload_history_retention')::interval)::double precision);
END;
COMMENT ON FUNCTION rpq_store.shown_since() IS 'the first instant of submission that rpq.workload_history shows';

CREATE OR REPLACE FUNCTION rpq_store.is_known() RETURNS boolean
	LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT rpq_store.my_account() IS NOT NULL OR rpq_store.is_platform_admin() $$;
COMMENT ON FUNCTION rpq_store.is_known() IS
	'the caller has an account or is a platform admin: it may see what everybody may';

CREATE OR REPLACE FUNCTION rpq_store.sight(OUT account_id bigint, OUT tenants bigint[], OUT pools bigint[],
		OUT first_account bigint, OUT last_account bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	account_id := rpq_store.my_account();
	pools := '{}';
	tenants := '{}';
	IF rpq_store.is_platform_admin() THEN
		tenants := coalesce((SELECT array_agg(t.tenant_id) FROM rpq_store.tenant t), '{}');
	ELSIF account_id IS NOT NULL THEN
		IF rpq_store.is_org_admin() THEN
			tenants := ARRAY[rpq_store.my_tenant()];
		END IF;
		pools := coalesce(rpq_store.administered_pools(), '{}');
	END IF;
	IF cardinality(tenants) > 0 OR cardinality(pools) > 0 THEN
		first_account := 0;
		last_account := 9223372036854775807;
	ELSE
		first_account := account_id;
		last_account := account_id;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.sight() IS
	'what the caller may see of work: its own (account_id), all of these tenants, all in these pools; and the '
	'range of account ids in which all of that lies, by which a member''s query becomes an index scan';

CREATE OR REPLACE FUNCTION rpq_store.at_least_zero(amount rpq.resources) RETURNS rpq.resources
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT rpq.greatest(amount, amount OPERATOR(rpq.*) 0::numeric);
END;
COMMENT ON FUNCTION rpq_store.at_least_zero(rpq.resources) IS
	'by key, never below zero; the planner puts its body in place';

CREATE OR REPLACE FUNCTION rpq_store.unavailable_of(takes_work boolean, capacity rpq.resources, usable rpq.resources,
	used rpq.resources) RETURNS rpq.resources
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN takes_work
				THEN rpq_store.at_least_zero(capacity OPERATOR(rpq.-) used)
					 OPERATOR(rpq.-) rpq_store.at_least_zero(usable OPERATOR(rpq.-) used)
				ELSE rpq_store.at_least_zero(capacity OPERATOR(rpq.-) used) END;
END;
COMMENT ON FUNCTION rpq_store.unavailable_of(boolean, rpq.resources, rpq.resources, rpq.resources) IS
	'what is free on a node by its nominal capacity and cannot be had: all of it where nothing new is taken, else '
	'what its machine does not have at present';

-- A function, so that the planner sees a handful of rows at a small cost: of the index range "transactions since the
-- cursor" it expects a third of the ledger, plans for that, and has it compiled.  STABLE: it reads the snapshot of the
-- query that calls it, which is that of the balances.
CREATE OR REPLACE FUNCTION rpq_store.uncounted_now() RETURNS TABLE (scope_id bigint, workload_id bigint, attempt int,
		kind text, waiting smallint, pool_id bigint, type_id bigint, account_id bigint, policy_id bigint,
		lender_id bigint, resources rpq.resources)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE COST 500 ROWS 50
	SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
	RETURN QUERY
	SELECT u.scope_id, u.workload_id, u.attempt, u.kind, u.waiting, u.pool_id, u.type_id, u.account_id, u.policy_id,
		   u.lender_id, u.resources
	  FROM rpq_store.uncounted u
	 WHERE u.waiting <> 0 OR u.resources IS NOT NULL OR u.kind = 'release';
END
$$;
COMMENT ON FUNCTION rpq_store.uncounted_now() IS
	'the entries that the balances do not contain yet, in the snapshot of the query that calls it';

-- Pods whose attempt has ended, that no fold has taken off their nodes yet.
CREATE OR REPLACE VIEW rpq_store.released_pod AS
SELECT pod.pod_id, pod.node_id, pod.workload_id, pod.replica, w.resources
  FROM rpq_store.uncounted_now() u
  JOIN rpq_store.pod ON pod.workload_id = u.workload_id AND pod.attempt = u.attempt
  JOIN rpq_store.workload w ON w.workload_id = u.workload_id
 WHERE u.kind = 'release';
COMMENT ON VIEW rpq_store.released_pod IS 'pods of ended attempts that node_load still counts';

CREATE OR REPLACE VIEW rpq_store.usage_now AS
SELECT pool_id, type_id, account_id, policy_id, lender_id, amount
  FROM rpq_store.usage
 UNION ALL
SELECT pool_id, coalesce(type_id, 0), account_id, coalesce(policy_id, 0), coalesce(lender_id, 0), resources
  FROM rpq_store.uncounted_now()
 WHERE resources IS NOT NULL AND pool_id IS NOT NULL;
COMMENT ON VIEW rpq_store.usage_now IS 'addends of usage: the counted cells and the entries not counted yet';

CREATE OR REPLACE VIEW rpq_store.waiting_now AS
SELECT x.scope_id, sum(x.waiting)::bigint AS waiting
  FROM (SELECT scope_id, waiting FROM rpq_store.lane
		 UNION ALL
		SELECT scope_id, waiting FROM rpq_store.uncounted_now() WHERE waiting <> 0) x
 GROUP BY x.scope_id;
COMMENT ON VIEW rpq_store.waiting_now IS 'queued workloads of each scope';

CREATE OR REPLACE VIEW rpq_store.oldest_now AS
SELECT x.scope_id, min(x.submitted_at) AS submitted_at
  FROM (SELECT l.scope_id, o.submitted_at
		  FROM rpq_store.lane l
		 CROSS JOIN LATERAL (
				SELECT w.submitted_at
				  FROM rpq_store.workload w
				 WHERE w.scope_id = l.scope_id AND w.shape = l.shape AND w.status = 'queued'
				   AND w.submitted_at >= l.head_at		-- skips the dead entries before the lane's head
				 ORDER BY w.submitted_at, w.workload_id
				 LIMIT 1) o
		 UNION ALL
		SELECT u.scope_id, w.submitted_at
		  FROM rpq_store.uncounted_now() u
		  JOIN rpq_store.workload w ON w.workload_id = u.workload_id
		 WHERE u.waiting > 0 AND w.status = 'queued' AND w.scope_id = u.scope_id) x
 GROUP BY x.scope_id;
COMMENT ON VIEW rpq_store.oldest_now IS 'first submission that still waits, of each scope with one';

-- Why a preemptor waits, more exactly than its lane's reason: of its lane it alone has room held.
CREATE OR REPLACE VIEW rpq_store.preempting_now AS
SELECT h.workload_id,
	   format('room is held on %s%s', array_to_string(h.nodes[1:3], ', '),
			  CASE WHEN cardinality(h.nodes) > 3 THEN format(' and %s more', cardinality(h.nodes) - 3) END)
	   || CASE WHEN v.pending > 0
			   THEN format('; %s of %s victims %s still to stop', v.pending, v.victims,
						   CASE v.pending WHEN 1 THEN 'has' ELSE 'have' END) ELSE '' END AS reason
  FROM (SELECT o.workload_id, array_agg(DISTINCT n.name) AS nodes
		  FROM rpq_store.hold o JOIN rpq_store.node n ON n.node_id = o.node_id
		 WHERE o.purpose = 'preempt'
		 GROUP BY o.workload_id) h
 CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE p.state = 'pending' AND EXISTS (
					SELECT FROM rpq_store.victim_room r WHERE r.preemption_id = p.preemption_id)) AS pending,
			   count(*) AS victims
		  FROM rpq_store.preemption p
		 WHERE p.preemptor = h.workload_id AND p.state <> 'given_up'
		   AND p.at = (SELECT max(x.at) FROM rpq_store.preemption x
						WHERE x.preemptor = h.workload_id AND x.state = 'pending')) v;
COMMENT ON VIEW rpq_store.preempting_now IS
	'workloads for which room is held until victims have stopped, with the sentence that says so';

-- What holds take of what pods leave.  The room that is held for a preemptor may be what its victims still have: of
-- that nothing is taken twice, by preemptor and node.  A pod that ended has no room, though no fold has freed it yet.
CREATE OR REPLACE VIEW rpq_store.hold_room AS
SELECT h.node_id, h.resources, 1::bigint AS holds
  FROM rpq_store.hold h
 WHERE h.purpose <> 'preempt'
 UNION ALL
SELECT k.node_id,
	   rpq_store.at_least_zero(k.resources OPERATOR(rpq.-) coalesce((
			SELECT rpq.sum(v.resources) FROM rpq_store.victim_room v
			 WHERE v.preemptor = k.workload_id AND v.node_id = k.node_id
			   AND NOT EXISTS (SELECT FROM rpq_store.released_pod r WHERE r.pod_id = v.pod_id)), '')), k.holds
  FROM (SELECT h.node_id, h.workload_id, rpq.sum(h.resources) AS resources, count(*) AS holds
		  FROM rpq_store.hold h WHERE h.purpose = 'preempt' GROUP BY h.node_id, h.workload_id) k;
COMMENT ON VIEW rpq_store.hold_room IS 'addends of what holds take of the room that no pod has, by node';

-- A node takes new work when it is healthy, schedulable and not draining.
CREATE OR REPLACE VIEW rpq_store.node_now AS
SELECT n.node_id, n.pool_id, n.type_id, n.name, n.usable,
	   n.schedulable AND NOT n.draining AND n.health = 'healthy' AS takes_work,
	   n.usable OPERATOR(rpq.*) 0::numeric OPERATOR(rpq.+) coalesce(l.used, '')
		   OPERATOR(rpq.-) coalesce(r.resources, '') AS used,
	   coalesce(l.pods, 0) - coalesce(r.pods, 0) AS pods,
	   coalesce(h.resources, '') AS held,
	   coalesce(h.holds, 0) AS holds, n.capacity,
	   n.usable OPERATOR(rpq.*) 0::numeric OPERATOR(rpq.+) coalesce(b.resources, '') AS lent
  FROM rpq_store.node n
  LEFT JOIN rpq_store.node_load l ON l.node_id = n.node_id
  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources, count(*) AS pods
			   FROM rpq_store.released_pod GROUP BY node_id) r ON r.node_id = n.node_id
  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources, sum(holds)::bigint AS holds
			   FROM rpq_store.hold_room GROUP BY node_id) h ON h.node_id = n.node_id
  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources
			   FROM rpq_store.borrowed_pod GROUP BY node_id) b ON b.node_id = n.node_id
 WHERE NOT n.removing;
COMMENT ON VIEW rpq_store.node_now IS 'what pods and holds take of each node; lent: of that, what borrows there';

CREATE OR REPLACE VIEW rpq_store.unavailable_now AS
SELECT n.pool_id, n.type_id,
	   rpq_store.unavailable_of(n.takes_work, n.capacity, n.usable, n.used OPERATOR(rpq.-) n.lent) AS amount
  FROM rpq_store.node_now n
 WHERE NOT n.takes_work OR NOT n.capacity OPERATOR(rpq.=) n.usable;
COMMENT ON VIEW rpq_store.unavailable_now IS
	'addends of unavailable: what is free on each node that takes nothing new, and what of a node''s room its '
	'machine does not have at present; what is lent there is free for the pool itself';

-- Each part is an outer join to one row, which the planner leaves out where nobody asks for it.
CREATE OR REPLACE VIEW rpq_store.pool_now AS
WITH uncounted AS MATERIALIZED (SELECT u.* FROM rpq_store.uncounted_now() u),
	 released AS MATERIALIZED (
		SELECT pod.node_id, pod.replica, w.resources
		  FROM uncounted u
		  JOIN rpq_store.pod ON pod.workload_id = u.workload_id AND pod.attempt = u.attempt
		  JOIN rpq_store.workload w ON w.workload_id = u.workload_id
		 WHERE u.kind = 'release'),
	 placed AS MATERIALIZED (
		SELECT n.pool_id, count(*) AS running
		  FROM rpq_store.pod JOIN rpq_store.node n ON n.node_id = pod.node_id
		 WHERE pod.replica = 0
		 GROUP BY n.pool_id),
	 borrowed AS MATERIALIZED (SELECT b.* FROM rpq_store.borrowed_pod b),
	 lent AS MATERIALIZED (
		SELECT y.lender_id, rpq.sum(y.amount) AS amount
		  FROM (SELECT lender_id, amount FROM rpq_store.usage WHERE lender_id <> 0
				 UNION ALL
				SELECT lender_id, resources FROM uncounted WHERE lender_id IS NOT NULL AND resources IS NOT NULL) y
		 GROUP BY y.lender_id)
SELECT p.*,
	   coalesce(c.nodes, 0) AS nodes,
	   coalesce(c.total, '') AS total,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(u.used, '') AS used,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(x.unavailable, '') AS unavailable,
	   rpq_store.at_least_zero(coalesce(c.total, '') OPERATOR(rpq.-) coalesce(u.used, '')
							   OPERATOR(rpq.-) coalesce(x.unavailable, '')) AS available,
	   (SELECT y.free
		  FROM (SELECT n.name, rpq_store.at_least_zero(n.usable OPERATOR(rpq.-) coalesce(l.used, '')
						   OPERATOR(rpq.+) coalesce(d.resources, '') OPERATOR(rpq.+) coalesce(b.resources, '')
						   OPERATOR(rpq.-) coalesce(h.resources, '')) AS free
				  FROM rpq_store.node n
				  LEFT JOIN rpq_store.node_load l ON l.node_id = n.node_id
				  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM released GROUP BY node_id) d
					ON d.node_id = n.node_id
				  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources
							   FROM rpq_store.hold_room GROUP BY node_id) h
					ON h.node_id = n.node_id
				  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM borrowed GROUP BY node_id) b
					ON b.node_id = n.node_id
				 WHERE n.pool_id = p.pool_id AND n.schedulable AND NOT n.draining AND n.health = 'healthy'
				   AND NOT n.removing) y
		 ORDER BY coalesce(y.free OPERATOR(rpq.->) p.kind, 0) DESC,
				  coalesce(y.free OPERATOR(rpq.->) 'cpu', 0) DESC, y.name
		 LIMIT 1) AS largest_free,
	   coalesce(q.waiting, 0) AS queued,
	   coalesce(r.running, 0) - coalesce(f.running, 0) + coalesce(g.running, 0) AS running,
	   coalesce(s.health, 'healthy') AS health,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(e.lent, '') AS lent
  FROM rpq_store.pool p
  LEFT JOIN LATERAL (
		SELECT sum(k.nodes)::bigint AS nodes, rpq.sum(k.capacity OPERATOR(rpq.*) k.nodes::numeric) AS total
		  FROM rpq_store.pool_capacity k WHERE k.pool_id = p.pool_id) c ON true
  LEFT JOIN LATERAL (
		SELECT rpq.sum(y.amount) AS used
		  FROM (SELECT amount FROM rpq_store.usage WHERE pool_id = p.pool_id AND lender_id = 0
				 UNION ALL
				SELECT resources FROM uncounted WHERE pool_id = p.pool_id AND lender_id IS NULL) y) u ON true
  LEFT JOIN LATERAL (SELECT rpq.sum(l.amount) AS lent FROM lent l WHERE l.lender_id = p.pool_id) e ON true
  LEFT JOIN LATERAL (
		SELECT rpq.sum(rpq_store.unavailable_of(n.schedulable AND NOT n.draining AND n.health = 'healthy', n.capacity,
					   n.usable, coalesce(l.used, '') OPERATOR(rpq.-) coalesce(d.resources, '')
						   OPERATOR(rpq.-) coalesce(b.resources, ''))) AS unavailable
		  FROM rpq_store.node n
		  LEFT JOIN rpq_store.node_load l ON l.node_id = n.node_id
		  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM released GROUP BY node_id) d
			ON d.node_id = n.node_id
		  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM borrowed GROUP BY node_id) b
			ON b.node_id = n.node_id
		 WHERE n.pool_id = p.pool_id AND NOT n.removing
		   AND (NOT (n.schedulable AND NOT n.draining AND n.health = 'healthy')
				OR NOT n.capacity OPERATOR(rpq.=) n.usable)) x ON true
  LEFT JOIN LATERAL (
		SELECT sum(y.waiting)::bigint AS waiting
		  FROM (SELECT waiting FROM rpq_store.lane WHERE scope_id = p.pool_id
				 UNION ALL
				SELECT waiting FROM uncounted WHERE scope_id = p.pool_id) y) q ON true
  LEFT JOIN LATERAL (SELECT sum(k.running)::bigint AS running FROM placed k WHERE k.pool_id = p.pool_id) r ON true
  LEFT JOIN LATERAL (
		SELECT count(*) AS running
		  FROM released o JOIN rpq_store.node n ON n.node_id = o.node_id
		 WHERE n.pool_id = p.pool_id AND o.replica = 0) f ON true
  LEFT JOIN LATERAL (
		SELECT sum(CASE p.pool_id WHEN b.pool_id THEN 1 ELSE -1 END)::bigint AS running
		  FROM borrowed b WHERE p.pool_id IN (b.pool_id, b.lender_id) AND b.replica = 0) g ON true
  LEFT JOIN LATERAL (
		SELECT string_agg(n.name || ' ' || n.health || coalesce(' (' || n.health_reason || ')', ''), ', '
						  ORDER BY n.name) AS health
		  FROM rpq_store.node n WHERE n.pool_id = p.pool_id AND n.health <> 'healthy' AND NOT n.removing) s ON true;
COMMENT ON VIEW rpq_store.pool_now IS
	'each pool with its figures: running counts the first pods (replica 0) that are placed, in the pool that they are '
	'charged to; what is lent is free for the pool itself, which takes it back at once';

-- The view of preemptions.

-- Of two workloads a reader may see one: the row says that something happened to it, and nothing of the other.
CREATE OR REPLACE VIEW rpq.preemptions WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT x.preemption_id, x.at, CASE WHEN x.sees_preemptor THEN x.preemptor END AS preemptor,
	   CASE WHEN x.sees_victim THEN x.victim END AS victim, x.victim_attempt, x.pool_id, x.pool, x.rule, x.rank,
	   x.gpu_seconds_lost, x.state
  FROM (SELECT p.*, o.name AS pool,
			   coalesce(p.preemptor_account = (SELECT account_id FROM me), false)
				 OR coalesce(o.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]), false)
				 OR coalesce(r.scope_id = ANY ((SELECT pools FROM me)::bigint[]), false)
				 OR coalesce(r.pool_id = ANY ((SELECT pools FROM me)::bigint[]), false) AS sees_preemptor,
			   coalesce(p.victim_account = (SELECT account_id FROM me), false)
				 OR coalesce(o.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]), false)
				 OR coalesce(v.scope_id = ANY ((SELECT pools FROM me)::bigint[]), false)
				 OR coalesce(v.pool_id = ANY ((SELECT pools FROM me)::bigint[]), false) AS sees_victim
		  FROM rpq_store.preemption p
		  JOIN rpq_store.pool o ON o.pool_id = p.pool_id
		  LEFT JOIN rpq_store.workload r ON r.workload_id = p.preemptor
		  LEFT JOIN rpq_store.workload v ON v.workload_id = p.victim) x
 WHERE x.sees_preemptor OR x.sees_victim
	OR (x.preemptor IS NULL AND x.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.preemptions IS
	'victims of preemptions, a row for each: those that one''s own work has made or suffered, all in one''s pools '
	'for their administrators';
COMMENT ON COLUMN rpq.preemptions.preemption_id IS 'id of the row';
COMMENT ON COLUMN rpq.preemptions.at IS 'when it was decided';
COMMENT ON COLUMN rpq.preemptions.preemptor IS
	'id of the workload that took the room; NULL: of one that the reader may not see, or of none (rule borrowed: the '
	'pool no longer lends, or the node was to be emptied)';
COMMENT ON COLUMN rpq.preemptions.victim IS
	'id of the workload that gave it; NULL: of one that the reader may not see';
COMMENT ON COLUMN rpq.preemptions.victim_attempt IS 'attempt of the victim that it ends';
COMMENT ON COLUMN rpq.preemptions.pool_id IS 'id of the pool that has the nodes';
COMMENT ON COLUMN rpq.preemptions.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.preemptions.rule IS 'borrowed, reservation or priority';
COMMENT ON COLUMN rpq.preemptions.rank IS 'place among the victims of one decision, from 1';
COMMENT ON COLUMN rpq.preemptions.gpu_seconds_lost IS
	'gpu times seconds since the attempt began, or since its last checkpoint; of pools without gpu 0';
COMMENT ON COLUMN rpq.preemptions.state IS
	'pending (the victim has still to stop), stopped, or given_up (the room was no longer wanted, the victim goes on)';

-- The night: a machine is drained, a pool gives one back, a machine breaks.
\ir style.psql
\echo
\echo '10. The night.  A node is drained for a repair; a pool gives a machine back, what runs there moves aside; a machine'
\echo '    breaks.  Each is asked for, and the worker carries it out:'
\echo
-- One whose pods an idle machine of its pool could take, all of them.
SELECT n.tenant || '/' || n.name AS repair
  FROM rpq.nodes n
 WHERE n.pool <> 'thesis' AND n.schedulable AND EXISTS (
	SELECT FROM rpq.nodes i WHERE i.pool_id = n.pool_id AND i.instance_type = n.instance_type AND i.idle AND i.schedulable
	   AND i.health = 'healthy')
 ORDER BY n.idle, n.pool = 'research' DESC, n.kind DESC, n.name LIMIT 1 \gset
SELECT rpq.drain_node(:'repair') AS drain, rpq.resize_pool('polytech/thesis', quota => 'gpu=16', evacuate => true) AS resize \gset
CALL rpq.wait_for_operation(:drain);
CALL rpq.wait_for_operation(:resize);
SELECT operation_id, kind, pool, status, progress, pg_temp.wrap(coalesce(error, result::text), 60) AS result
  FROM rpq.operations WHERE operation_id IN (:drain, :resize) ORDER BY operation_id;
\echo 'Pods went where room had been reserved for them; nobody was charged twice meanwhile:'
\echo
SELECT operation_id, m.workload_id, w.name, replica, m.resources, from_node AS from, to_node AS to, m.status
  FROM rpq.pod_migrations m JOIN rpq.workloads w USING (workload_id) ORDER BY pod_migration_id;
SELECT node AS broken FROM rpq.node_pods WHERE node IN (SELECT name FROM rpq.nodes WHERE pool = 'serving') ORDER BY node LIMIT 1 \gset
SELECT rpq.set_node_health('aurora/' || :'broken', 'unhealthy', 'fell off the bus') \g /dev/null
SELECT pg_sleep(1) \g /dev/null
\echo 'What stood on' :broken 'is placed again or waits, its usage released once:'
\echo
SELECT e.workload_id, w.name, string_agg(e.event, ' > ' ORDER BY e.workload_event_id) AS events, w.status,
	   pg_temp.wrap(w.nodes::text, 20) AS nodes
  FROM rpq.workload_events e JOIN rpq.workloads w USING (workload_id)
 WHERE EXISTS (SELECT FROM rpq.workload_events l WHERE l.workload_id = e.workload_id AND l.event = 'lost')
 GROUP BY e.workload_id, w.name, w.status, w.nodes ORDER BY e.workload_id LIMIT 8;
SELECT tenant || '/' || name AS pool, status, nodes, pg_temp.wrap(health, 20) AS health, rpq.pretty(total) AS total, rpq.pretty(used) AS used
  FROM rpq.overview WHERE (tenant, name) IN (('polytech', 'thesis'), ('polytech', 'fra1-gpu'), ('aurora', 'serving')) ORDER BY 1;
\echo 'rpq.check_integrity():'
\echo
\pset footer on
SELECT * FROM rpq.check_integrity();
\pset footer off

-- What stands there in the evening: pools, nodes, who waits and why, the ledger, the history.
\ir style.psql
\echo
\echo '4. The evening.  rpq.overview, a line for each pool:'
\echo
SELECT tenant || '/' || name AS pool, type, nodes, rpq.pretty(used) AS used,
	   (available -> kind) || ' ' || upper(kind) AS available, queued, running,
	   to_char(oldest_wait, 'SS.MS') || ' s' AS oldest
  FROM rpq.overview ORDER BY tenant, kind DESC, type DESC, name;

\echo 'What became of the workloads of the day:'
\echo
SELECT tenant, count(*) AS submitted, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
	   count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status IN ('starting', 'running')) AS placed,
	   count(*) FILTER (WHERE status = 'queued') AS queued,
	   round(avg(extract(epoch FROM started_at - submitted_at) * 1000)
			 FILTER (WHERE attempt > 0))::text || ' ms' AS mean_wait,
	   round((percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM started_at - submitted_at) * 1000)
			  FILTER (WHERE attempt > 0))::numeric) || ' ms' AS median_wait
  FROM rpq.workload_history GROUP BY tenant ORDER BY tenant;

\echo '5. Nodes.  The shared GPU pool of aurora: a capital letter has whole devices, a small one a part, + several, . free:'
\echo
SELECT node, instance_type AS type, map, rpq.pretty(used) AS used, rpq.pretty(available) AS available,
	   pg_temp.wrap(health || CASE WHEN schedulable THEN '' ELSE ', cordoned' END, 28) AS health
  FROM rpq.node_map('aurora/fra1-gpu') ORDER BY instance_type, length(node), node;

\echo 'The shared CPU pool of polytech, in tenths of the CPU:'
\echo
SELECT node, instance_type AS type, map, rpq.pretty(used) AS used, rpq.pretty(available) AS available, health
  FROM rpq.node_map('polytech/fra1-cpu');

\echo '6. Who waits, and why:'
\echo
SELECT tenant || '/' || pool AS pool, account, reason_code, count(*) AS workloads, pg_temp.wrap(min(reason), 52) AS reason
  FROM rpq.workloads WHERE status = 'queued' GROUP BY 1, 2, 3 ORDER BY 1, 4 DESC, 2, 3;

SELECT workload_id AS gang FROM rpq.workloads WHERE name = 'sft-gang' \gset
\echo 'One of them, workload' :gang '(sft-gang, four whole machines): rpq.explain runs the real checks on the present state:'
\echo
SELECT step, check_name, CASE passed WHEN true THEN 'yes' ELSE 'NO' END AS passed,
	   pg_temp.wrap(detail, 76) || coalesce(E'\n-> ' || pg_temp.wrap(way_out, 73), '') AS "what it found, and the way out"
  FROM rpq.explain(:gang);

\echo '7. The ledger.  What its entries sum up to, what the pods hold, what rpq.pools shows as used:'
\echo
SELECT p.tenant || '/' || p.name AS pool, rpq.pretty(l.sum) AS ledger, l.entries, rpq.pretty(o.sum) AS pods, o.pods AS "number",
	   CASE WHEN l.sum = p.used AND p.used = o.sum THEN 'yes' ELSE 'NO' END AS "= used"
  FROM rpq.pools p
  JOIN LATERAL (SELECT sum(e.resources), count(*) AS entries FROM rpq.ledger e WHERE e.pool_id = p.pool_id) l ON true
  JOIN LATERAL (SELECT coalesce(sum(o.resources), p.used * 0) AS sum, count(*) AS pods
				  FROM rpq.pods o WHERE o.pool_id = p.pool_id) o ON true
 ORDER BY 1;
\echo 'rpq.check_integrity(), a row for each violation of an invariant:'
\echo
\pset footer on
SELECT * FROM rpq.check_integrity();
\pset footer off

\echo '8. The history.  Every administrative act, with who did it, and what changed:'
\echo
SELECT actor, action, object_kind || ' ' || object AS object,
	   pg_temp.wrap(left(jsonb_strip_nulls(coalesce(new, old))::text, 130), 62) AS "what it is now"
  FROM rpq.operation_history ORDER BY operation_history_id DESC LIMIT 14;
SELECT action, count(*) AS rows, count(DISTINCT actor) AS actors, count(DISTINCT operation_id) AS operations
  FROM rpq.operation_history GROUP BY action ORDER BY 2 DESC, 1 LIMIT 8;

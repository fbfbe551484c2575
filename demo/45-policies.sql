-- Who goes first: two groups with policies over two pools, lending, taking back, a guarantee, a gang, idle-time sharing.
\ir style.psql
\echo
\echo '9. Who goes first.  Four new machines: two for the pool gold, one for silver, one for prod.  Of the 24 GPUs of gold and'
\echo '   silver the group dev is promised 8, the group ops 12; what one does not use it lends to the other.'
\echo
SET SESSION AUTHORIZATION olga;
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('gold', type => 'dedicated', instance_type => 'h100'),
	   rpq.create_pool('silver', type => 'dedicated', instance_type => 'h100'),
	   rpq.create_pool('prod', type => 'exclusive', instance_type => 'h100', idle_time_sharing => true) \g /dev/null
SELECT rpq.authorize('prod', '{dora}') \g /dev/null
RESET SESSION AUTHORIZATION;
SELECT rpq.add_nodes('h100', names => '{aq1,aq2}', pool => 'aurora/gold'), rpq.add_nodes('h100', names => '{aq3}', pool => 'aurora/silver') \g /dev/null
SET SESSION AUTHORIZATION olga;
SELECT rpq.create_user_group('dev'), rpq.add_to_group('dev', '{ana,ben}'), rpq.create_user_group('ops'), rpq.add_to_group('ops', '{chen}') \g /dev/null
SELECT rpq.create_profile('half', resources => 'gpu=4,cpu=80,memory=800Gi', pools => '{gold,silver}'),
	   rpq.create_profile('whole', resources => 'gpu=8,cpu=160,memory=1600Gi', pools => '{gold}'), rpq.provision_profiles() \g /dev/null
SELECT rpq.create_policy('dev', user_group => 'dev', reservation => 'gpu=8,cpu=160,memory=1600Gi'),
	   rpq.create_policy('ops', user_group => 'ops', reservation => 'gpu=12,cpu=240,memory=2400Gi') \g /dev/null
SELECT rpq.connect_profile('dev', 'half', queue => 'dev-half'), rpq.connect_profile('dev', 'whole', queue => 'dev-whole'),
	   rpq.connect_profile('ops', 'half', queue => 'ops-half') \g /dev/null
RESET SESSION AUTHORIZATION;

-- What a person does, at a portal; then the cycle, which the worker would run a few milliseconds later.
CREATE FUNCTION pg_temp.as(who text, queue text, name text, VARIADIC jobs int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.account', 'aurora/' || who, true);
	PERFORM rpq.submit(queue => $2, workload_type => 'training', name => $3 || ' ' || i,
					   guarantee => $3 || ' ' || i = 'ops 1', labels => '{"part": "policies"}') FROM unnest(jobs) i;
	PERFORM set_config('rpq.account', '', true);
	PERFORM rpq.schedule('aurora/gold');
END $$;
CREATE FUNCTION pg_temp.ends(workload text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.report_finished(workload_id) FROM rpq.workloads WHERE name = workload;
	PERFORM rpq.schedule('aurora/gold');
END $$;
CREATE VIEW pg_temp.board AS
SELECT n.name AS node, n.pool, (SELECT string_agg(w.name, ', ' ORDER BY w.name) FROM rpq.node_pods p JOIN rpq.workloads w USING (workload_id)
								 WHERE p.node_id = n.node_id) AS runs, n.available -> 'gpu' AS "GPUs free"
  FROM rpq.nodes n WHERE n.pool IN ('gold', 'silver');
CREATE VIEW pg_temp.promises AS
SELECT name AS policy, reservation -> 'gpu' AS "GPUs promised", coalesce(used -> 'gpu', 0) AS used,
	   (SELECT coalesce(pg_temp.wrap(string_agg(w.name || ' (' || w.reason_code || ')', ', ' ORDER BY w.submitted_at, w.workload_id), 76), '')
		  FROM rpq.workloads w WHERE w.policy = p.name AND w.status = 'queued') AS waits
  FROM rpq.policies p WHERE tenant = 'aurora';

\echo 'dev submits seven jobs of 4 GPUs.  ops has nothing to run and lends what it was promised:'
\echo
SELECT pg_temp.as('ana', 'dev-half', 'dev', 1, 2, 3, 4, 5, 6, 7) \g /dev/null
SELECT * FROM pg_temp.board ORDER BY node;
SELECT * FROM pg_temp.promises ORDER BY policy;

\echo 'ops submits three, the first of them guaranteed.  They fit in its reservation, so they take that back, at equal'
\echo 'priority, from what started last:'
\echo
SELECT pg_temp.as('chen', 'ops-half', 'ops', 1, 2, 3) \g /dev/null
SELECT t.name AS preemptor, v.name AS victim, p.rule, p.rank, p.pool, round(p.gpu_seconds_lost, 1) AS gpu_seconds_lost
  FROM rpq.preemptions p JOIN rpq.workload_history t ON t.workload_id = p.preemptor JOIN rpq.workload_history v ON v.workload_id = p.victim
 WHERE v.queue = 'dev-half' ORDER BY p.preemption_id;
SELECT * FROM pg_temp.board ORDER BY node;
SELECT * FROM pg_temp.promises ORDER BY policy;

\echo 'dev submits a gang of two whole machines of gold, with priority 90.  Beyond its reservation it could take from dev'
\echo 'alone, and ops 3 would be in the way: nobody is stopped, and it marks both machines.  dev 1 ends; its room is kept:'
\echo
SET rpq.account = 'aurora/ana';
SELECT rpq.submit(queue => 'dev-whole', workload_type => 'training', replicas => 2, priority => 90, name => 'gang',
				  labels => '{"part": "policies"}') AS gang \gset
RESET rpq.account;
SELECT rpq.schedule('aurora/gold') \g /dev/null
SELECT pg_temp.ends('dev 1') \g /dev/null
SELECT * FROM pg_temp.board ORDER BY node;
SELECT * FROM pg_temp.promises ORDER BY policy;

SELECT workload_id AS pending FROM rpq.workloads WHERE name = 'dev 4' \gset
\echo 'Why does dev 4 wait?  Each check of both pools in routing order, and the way out:'
\echo
SELECT check_name, CASE passed WHEN true THEN 'yes' ELSE 'NO' END AS passed,
	   pg_temp.wrap(detail, 84) || coalesce(E'\n-> ' || pg_temp.wrap(way_out, 81), '') AS "what it found, and the way out"
  FROM rpq.explain(:pending);

\echo 'A job that ends within the hour, before anything there, may have the room meanwhile:'
\echo
SET rpq.account = 'aurora/ben';
SELECT rpq.submit(queue => 'dev-half', workload_type => 'training', max_runtime => '1 hour', name => 'short',
				  labels => '{"part": "policies"}') AS short \gset
RESET rpq.account;
SELECT rpq.schedule('aurora/gold') \g /dev/null
SELECT * FROM pg_temp.board ORDER BY node;

\echo 'ops 3 ends, the last one in the way: the gang takes the rest from its own policy, and starts:'
\echo
SELECT pg_temp.ends('ops 3') \g /dev/null
SELECT * FROM pg_temp.board ORDER BY node;
SELECT * FROM pg_temp.promises ORDER BY policy;

\echo 'prod is an exclusive pool with idle-time sharing.  A sweep of low priority fills what is free of the shared pool, and'
\echo 'what has no room there borrows the idle machine of prod:'
\echo
SELECT set_config('rpq.account', 'aurora/' || who, false), rpq.submit('fra1-gpu', workload_type => 'training',
		resources => 'gpu=2,cpu=16,memory=96Gi', instance_types => '{h100}', priority => 5, name => 'sweep ' || who || ' ' || i)
  FROM unnest('{ana,ben,chen,dora,olga}'::text[]) who, generate_series(1, 16) i \g /dev/null
RESET rpq.account;
SELECT rpq.add_nodes('h100', names => '{aq4}', pool => 'aurora/prod') \g /dev/null
SELECT rpq.schedule('aurora/prod') \g /dev/null
SELECT name AS pool, used -> 'gpu' AS used, lent -> 'gpu' AS lent, (SELECT map FROM rpq.node_map('aurora/prod')) AS aq4 FROM rpq.pools WHERE name = 'prod';
\echo 'An endpoint of prod needs 4 GPUs.  It has them at once, and only so many are given back:'
\echo
RESET SESSION AUTHORIZATION;
SET rpq.account = 'aurora/dora';
SELECT rpq.submit('prod', workload_type => 'inference', resources => 'gpu=4,cpu=16,memory=64Gi', name => 'endpoint') AS endpoint \gset
RESET rpq.account;
SELECT rpq.schedule('aurora/prod') \g /dev/null
SELECT name AS pool, used -> 'gpu' AS used, lent -> 'gpu' AS lent, (SELECT map FROM rpq.node_map('aurora/prod')) AS aq4 FROM rpq.pools WHERE name = 'prod';
SELECT p.rule, count(*) AS victims, min(v.name) AS first, rpq.pretty(sum(v.total)) AS gave_back
  FROM rpq.preemptions p JOIN rpq.workload_history v ON v.workload_id = p.victim WHERE p.preemptor = :endpoint GROUP BY p.rule;

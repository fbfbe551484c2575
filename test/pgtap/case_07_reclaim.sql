-- Field case F07: a policy below its reservation takes its room back, from those above theirs and from nobody else.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT rpq.create_account('a') AS x, rpq.create_account('b') AS x, rpq.create_account('c') AS x \gset
SELECT rpq.create_user_group('group-' || p) AS x FROM unnest('{a,b,c}'::text[]) p \g /dev/null
SELECT rpq.add_to_group('group-' || p, ARRAY[p]) AS x FROM unnest('{a,b,c}'::text[]) p \g /dev/null
SELECT rpq.create_profile('two', 'gpu=2', '{c1-gpu}') AS x, rpq.create_profile('four', 'gpu=4', '{c1-gpu}') AS x \gset
SELECT rpq.provision_profiles() AS x \gset
SELECT rpq.create_policy(upper(p), 'group-' || p, reservation => format('gpu=%s', CASE p WHEN 'a' THEN 8 ELSE 4 END)::rpq.resources,
	usage_limit => 'gpu=16') AS x FROM unnest('{a,b,c}'::text[]) p \g /dev/null
SELECT rpq.connect_profile(upper(p), f, p || '-' || f) AS x
FROM unnest('{a,b,c}'::text[]) p, unnest('{two,four}'::text[]) f \g /dev/null

CREATE FUNCTION t.through(account_name text, profile_name text, workload_name text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit(queue => account_name || '-' || profile_name, workload_type => 'training', account => account_name,
		name => workload_name);
END $$;
-- What the policies hold: 'A 4,B 8,C 4'.
CREATE FUNCTION t.policies() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(name || ' ' || t.gpu(used), ',' ORDER BY name) FROM rpq.policies);
END $$;

SELECT t.through('b', 'four', 'b1') AS b1 \gset
SELECT t.pass() AS x \gset
SELECT t.through('b', 'four', 'b2') AS b2 \gset
SELECT t.pass() AS x \gset
SELECT t.through('b', 'two', 'b3') AS b3 \gset
SELECT t.pass() AS x \gset
SELECT t.through('c', 'four', 'c1') AS c1 \gset
SELECT t.pass() AS x \gset
SELECT is(concat_ws(' ', t.nodes(:b1), t.nodes(:b2), t.nodes(:b3), t.nodes(:c1)), 'n1 n1 n2 n2', 'as the case begins');
SELECT is(t.used('c1-gpu'), 14::numeric, 'used 14');

-- (1)
SELECT t.through('a', 'four', 'a1') AS a1 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:a1) || ' ' || t.nodes(:a1), 'running n2', 'a1 runs on n2');
SELECT is(t.status(:b3), 'queued', 'b3 gave its room');
SELECT is(t.policies(), 'A 4,B 8,C 4', 'what the policies hold after a1');
SELECT is(t.used('c1-gpu'), 16::numeric, 'used 16');

-- (2)
SELECT t.through('a', 'four', 'a2') AS a2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:a2) || ' ' || t.nodes(:a2), 'running n1', 'a2 runs on n1');
SELECT is(t.status(:b1) || ' ' || t.status(:b2), 'running queued', 'of the two of B the latest gave its room');
SELECT is(t.policies(), 'A 8,B 4,C 4', 'what the policies hold after a2');

-- (3)
SELECT t.through('a', 'two', 'a3') AS a3 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:a3), 'queued', 'A has its reservation: nobody gives room for a3');
SELECT is(t.policies(), 'A 8,B 4,C 4', 'nothing has changed');
SELECT is(t.used('c1-gpu'), 16::numeric, 'used 16');
SELECT is((SELECT count(*) FROM rpq.preemptions), 2::bigint, 'two victims in all');
SELECT is((SELECT string_agg(rule, ',') FROM rpq.preemptions), 'reservation,reservation', 'by the rule reservation');
SELECT is((SELECT attempt FROM rpq.workloads WHERE workload_id = :c1), 1, 'C stands at its reservation and was not touched');
SELECT is((SELECT string_agg(w.name, ' ' ORDER BY d.n) FROM rpq.schedule(dry_run => true) WITH ORDINALITY AS d
			(workload, decision, pool, nodes, reason_code, reason, n) JOIN rpq.workloads w ON w.workload_id = d.workload
		   WHERE d.decision = 'waiting'), 'b2 b3 a3', 'who waits, in order');
SELECT t.pass() AS x FROM generate_series(1, 5) \g /dev/null
SELECT is((SELECT count(*) FROM rpq.preemptions), 2::bigint, 'and it stays so');
SELECT * FROM t.whole();
SELECT * FROM finish();

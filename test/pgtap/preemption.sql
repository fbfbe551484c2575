-- Preemption, sentence by sentence (F07 and F11 among them): who may take from whom, which victims, what they keep, and
-- what is written.  Nodes without an executor: a victim's room is free at once.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.clock = '2026-03-01 12:00Z';
SET rpq.workload_history_retention = '1000000 h';
CREATE FUNCTION t.later(seconds numeric) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.clock', (current_setting('rpq.clock')::timestamptz + seconds * interval '1 s')::text, false);
END $$;
-- Work of a pool or of a queue, a second after what came before.
CREATE FUNCTION t.work(place text, gpus text, prio int, workload_name text, replica_count int DEFAULT 1, saves boolean DEFAULT false,
	safe boolean DEFAULT false, account_name text DEFAULT 'u1') RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM t.later(1);
	IF EXISTS (SELECT FROM rpq.queues q WHERE q.name = place) THEN
		RETURN rpq.submit(queue => place, workload_type => 'training', account => account_name, name => workload_name, priority => prio,
			replicas => replica_count, checkpointable => saves, guarantee => safe);
	END IF;
	RETURN rpq.submit(pool => place, workload_type => 'training', resources => ('gpu=' || gpus)::rpq.resources, account => account_name,
		name => workload_name, priority => prio, replicas => replica_count, checkpointable => saves, guarantee => safe);
END $$;
CREATE FUNCTION t.look() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM t.pass();
	RETURN (SELECT coalesce(string_agg(w.name || coalesce(' ' || array_to_string(w.nodes, '+'), '') , ', ' ORDER BY w.name)
				FILTER (WHERE w.status = 'starting'), 'none') || coalesce(' | ' || string_agg(w.name, ', '
				ORDER BY w.submitted_at, w.workload_id) FILTER (WHERE w.status = 'queued'), '') FROM rpq.workloads w);
END $$;
CREATE FUNCTION t.took() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(format('%s from %s by %s %s', r.name, v.name, p.rule, p.rank), ', ' ORDER BY p.preemption_id)
			FROM rpq.preemptions p JOIN rpq.workload_history r ON r.workload_id = p.preemptor
			JOIN rpq.workload_history v ON v.workload_id = p.victim);
END $$;
CREATE PROCEDURE t.clear() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.stop(w.workload_id) FROM rpq.workloads w;
	PERFORM t.pass();
	DELETE FROM rpq_store.preemption p WHERE NOT EXISTS (SELECT FROM rpq_store.entry e WHERE e.workload_id = p.victim AND e.cause = 'preempted');
END $$;
CREATE FUNCTION t.counts(VARIADIC ids bigint[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(format('%s/%s', w.preemptions, (SELECT count(*) FROM rpq.workload_events e
				WHERE e.workload_id = w.workload_id AND e.event = 'admitted')), ' ' ORDER BY array_position(ids, w.workload_id))
			FROM rpq.workload_history w WHERE w.workload_id = ANY (ids));
END $$;

-- ---- F11: of two equals the one that started later goes, and comes back first
SELECT rpq.create_instance_type(name => 'g2', kind => 'gpu', capacity => 'gpu=2') AS x, rpq.create_cluster(name => 'c2') AS y \gset
SELECT rpq.add_nodes(instance_type => 'g2', names => '{s1}', cluster => 'c2') AS x \gset
SELECT t.work('c2-gpu', '1', 40, 'e1') AS e1, t.work('c2-gpu', '1', 40, 'e2') AS e2, t.work('c2-gpu', '1', 40, 'e3') AS e3 \gset
SELECT is(t.look(), 'e1 s1, e2 s1 | e3', 'two of three equals run');
SELECT t.work('c2-gpu', '1', 60, 'e4') AS e4 \gset
SELECT is(t.look(), 'e1 s1, e4 s1 | e2, e3', 'the one submitted later of those that started together gives its room');
SELECT rpq.stop(:e4) AS x \gset
SELECT is(t.look(), 'e1 s1, e2 s1 | e3', 'and has its place in the order again');
SELECT is(t.counts(:e1, :e2, :e3, :e4), '0/1 1/2 0/0 0/1', 'preemptions and starts');
SELECT is(t.took(), 'e4 from e2 by priority 1', 'one row');
SELECT t.whole();

-- ---- what the row says, and the event
CALL t.clear();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}', cluster => 'c1') AS x \gset
SELECT t.work('c1-gpu', '3', 10, 'long', 2, true) AS long \gset
SELECT t.look() AS x, t.later(100) AS y \gset
SELECT rpq.report_started(:long) AS x, rpq.report_checkpoint(:long, detail => 'step 9') AS y, t.later(10) AS z \gset
SELECT t.work('c1-gpu', '7', 20, 'high', account_name => 'u2') AS high \gset
SELECT is(t.look(), 'high n1 | long', 'a gang is preempted whole');
SELECT is((SELECT format('%s %s %s %s %s %s', preemptor = :high, victim = :long, victim_attempt, rule, rank, gpu_seconds_lost) FROM rpq.preemptions
		   WHERE victim = :long), 't t 1 priority 1 66', '2 replicas of 3 gpu for 11 seconds since its checkpoint');
SELECT is((SELECT format('%s %s %s %s', status, actor, cause, coalesce(detail, 'none')) FROM rpq.workload_events WHERE workload_id = :long AND event = 'preempted'),
		  'queued system preempted none', 'the event names nobody');
SELECT is((SELECT format('%s %s %s %s %s', status, preemptions, nodes IS NULL, started_at IS NULL, reason_code) FROM rpq.workloads WHERE workload_id = :long),
		  'queued 1 t t not_considered_yet', 'it waits from the next cycle on');
SELECT is(t.look(), 'high n1 | long', 'and does not get its room back');
SELECT is(t.reason_code(:long), 'pool_quota', 'but a reason');
SELECT is((SELECT spec->>'checkpoint' FROM rpq.workloads WHERE workload_id = :long) IS NULL, true, 'its checkpoint is handed on with the next start');
SELECT t.whole();

-- ---- nothing is preempted unless the preemptor then fits
CALL t.clear();
SELECT t.work('c1-gpu', '4', 50, 'same') AS same, t.work('c1-gpu', '4', 10, 'low') AS low \gset
SELECT t.look() AS x \gset
SELECT t.work('c1-gpu', '8', 50, 'big') AS big \gset
SELECT is(t.look(), 'low n1, same n1 | big', 'an equal is in the way: the lower one is left alone');
SELECT t.work('c1-gpu', '4', 60, 'fits') AS fits \gset
SELECT is(t.look(), 'fits n1, same n1 | low, big', 'the lowest priority first');
SELECT t.whole();

-- ---- min_runtime, guarantee
CALL t.clear();
SELECT rpq.edit_pool('c1-gpu', min_runtime => '10 min', allow_guarantee => true) AS x \gset
SELECT rpq.update_members('c1-gpu', '{u1}', guarantee => true) AS x \gset
SELECT t.work('c1-gpu', '8', 10, 'young') AS young \gset
SELECT t.look() AS x, t.later(590) AS y \gset
SELECT t.work('c1-gpu', '8', 90, 'waits') AS waits \gset
SELECT is(t.look(), 'young n1 | waits', 'younger than min_runtime: not yet');
SELECT t.later(9) AS x \gset
SELECT is(t.look(), 'waits n1 | young', 'older: now');
SELECT t.whole();
CALL t.clear();
SELECT rpq.edit_pool('c1-gpu', min_runtime => '0') AS x \gset
SELECT t.work('c1-gpu', '8', 10, 'safe', safe => true) AS safe \gset
SELECT t.look() AS x \gset
SELECT t.work('c1-gpu', '8', 90, 'high') AS high \gset
SELECT is(t.look(), 'safe n1 | high', 'guaranteed: never');
SELECT t.whole();
CALL t.clear();
SELECT rpq.stop(:high) AS x \gset
SELECT t.look() AS x \gset

-- ---- F07: reservations
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n2}', cluster => 'c1') AS x \gset
SELECT rpq.create_user_group(name => 'g' || x) AS g, rpq.add_to_group('g' || x, ARRAY['u1']) AS a FROM unnest(ARRAY['a', 'b', 'c']) x \g /dev/null
SELECT rpq.create_profile(name => 'four', resources => 'gpu=4', pools => '{c1-gpu}') AS x, rpq.create_profile(name => 'two', resources => 'gpu=2', pools => '{c1-gpu}') AS y \gset
SELECT rpq.provision_profiles() AS x \gset
SELECT rpq.create_policy(name => x, user_group => 'g' || lower(x), reservation => r, usage_limit => 'gpu=16') AS p
FROM (VALUES ('A', 'gpu=8'::rpq.resources), ('B', 'gpu=4'), ('C', 'gpu=4')) v (x, r) \g /dev/null
SELECT rpq.connect_profile(policy => x, profile => p, queue => lower(x) || '-' || p) AS q FROM unnest(ARRAY['A', 'B', 'C']) x, unnest(ARRAY['two', 'four']) p \g /dev/null
SELECT t.work('b-four', NULL, 50, 'b1') AS b1, t.work('b-four', NULL, 50, 'b2') AS b2 \gset
SELECT t.look() AS x \gset
SELECT t.work('b-two', NULL, 50, 'b3') AS b3, t.look() AS x \gset
SELECT t.work('c-four', NULL, 50, 'c1') AS c1 \gset
SELECT is(t.look(), 'b1 n1, b2 n1, b3 n2, c1 n2', 'two free on n2');
SELECT t.work('a-four', NULL, 50, 'a1') AS a1 \gset
SELECT is(t.look(), 'a1 n2, b1 n1, b2 n1, c1 n2 | b3', 'the one victim that suffices');
SELECT t.work('a-four', NULL, 50, 'a2') AS a2 \gset
SELECT is(t.look(), 'a1 n2, a2 n1, b1 n1, c1 n2 | b2, b3', 'the latest of those above their reservation; equal priority is no obstacle');
SELECT t.work('a-two', NULL, 50, 'a3') AS a3 \gset
SELECT is(t.look(), 'a1 n2, a2 n1, b1 n1, c1 n2 | b2, b3, a3', 'a policy at its reservation disturbs nobody');
SELECT is((SELECT string_agg(format('%s %s', name, t.gpu(used)), ', ' ORDER BY name) FROM rpq.policies), 'A 8, B 4, C 4', 'what they hold');
SELECT is((SELECT string_agg(format('%s %s %s', victim_attempt, rule, rank), ', ' ORDER BY preemption_id) FROM rpq.preemptions WHERE victim IN (:b2, :b3)),
		  '1 reservation 1, 1 reservation 1', 'two rows');
SELECT is((SELECT format('%s %s', attempt, preemptions) FROM rpq.workloads WHERE workload_id = :c1), '1 0', 'c1 was left alone');
SELECT is((SELECT format('%s %s', pool IS NULL, queue) FROM rpq.workloads WHERE workload_id = :b2), 't b-four', 'a victim goes back to its queue');
SELECT t.whole();
-- priority among the work of one policy, and of no other
SELECT t.work('b-four', NULL, 90, 'b9') AS b9 \gset
SELECT is(t.look(), 'a1 n2, a2 n1, b9 n1, c1 n2 | b1, b2, b3, a3', 'from its own policy a higher priority takes');
SELECT is((SELECT p.rule FROM rpq.preemptions p WHERE p.victim = :b1), 'priority', 'by that rule');
SELECT t.whole();
-- direct submissions count as above any reservation
CALL t.clear();
SELECT t.work('c1-gpu', '8', 100, 'direct1') AS d1, t.work('c1-gpu', '8', 100, 'direct2') AS d2 \gset
SELECT t.look() AS x \gset
SELECT t.work('a-four', NULL, 0, 'a4') AS a4 \gset
SELECT matches(t.look(), 'a4 n., direct1 n. . direct2', 'a reservation takes from what has none, whatever its priority');
SELECT t.whole();

-- ---- what borrows in an exclusive pool gives the room back to the pool's own work
CALL t.clear();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n3}', cluster => 'c1') AS x \gset
SELECT rpq.create_pool(name => 'x', type => 'exclusive', nodes => '{n3}', idle_time_sharing => true) AS x \gset
SELECT rpq.authorize('x', '{u2}') AS x \gset
SELECT t.work('c1-gpu', '8', 90, 'own' || i) AS x FROM generate_series(1, 2) i \g /dev/null
SELECT t.look() AS x \gset
SELECT t.work('c1-gpu', '4', 80, 'loan' || i) AS x FROM generate_series(1, 2) i \g /dev/null
SELECT is(t.look(), 'loan1 n3, loan2 n3, own1 n1, own2 n2', 'idle room is lent');
SELECT t.whole();
SELECT t.work('x', '8', 0, 'owner', account_name => 'u2') AS owner \gset
SELECT t.look() AS x \gset
SELECT is((SELECT format('%s %s', status, nodes) FROM rpq.workloads WHERE workload_id = :owner), 'starting {n3}', 'the owner has its node');
SELECT is((SELECT string_agg(DISTINCT p.rule, ' ') FROM rpq.preemptions p WHERE p.preemptor = :owner), 'borrowed', 'whatever the priority of what borrowed there');
SELECT is((SELECT count(*) FROM rpq.workloads w WHERE w.pool = 'x' AND w.name LIKE 'loan%' AND w.status <> 'queued'), 0::bigint, 'nothing borrows any more');
SELECT t.whole();
CALL t.clear();

-- ---- a machine that has less than stands on it: what leaves first fills the gap
CALL t.clear();
SELECT rpq.create_cluster(name => 'c3') AS x, rpq.add_nodes(instance_type => 'g8', names => '{w1}', cluster => 'c3') AS y \gset
SELECT t.work('c3-gpu', '4', 10, 'under' || i) AS x FROM generate_series(1, 2) i \g /dev/null
SELECT is(t.look(), 'under1 w1, under2 w1', 'two fill a node');
SELECT count(*) AS x FROM rpq.sync_node('w1', running => (SELECT array_agg(p.pod_id) FROM rpq_store.pod p JOIN rpq_store.node n USING (node_id)
		   WHERE n.name = 'w1'), capacity => 'gpu=6,cpu=192,memory=2Ti') \gset
SELECT t.work('c3-gpu', '3', 90, 'over') AS over \gset
SELECT is(t.look(), 'none | over', 'it reports two devices less, the last ones; the two run');
SELECT is((SELECT string_agg(format('%s %s', v.name, p.rank), ', ' ORDER BY p.rank) FROM rpq.preemptions p JOIN rpq.workloads v ON v.workload_id = p.victim
		   WHERE p.preemptor = :over), 'under1 1', 'the one on devices that are there has to leave');
SELECT t.whole();
CALL t.clear();
SELECT count(*) AS x FROM rpq.sync_node('w1', running => '{}', capacity => 'gpu=8,cpu=192,memory=2Ti') \gset
SELECT t.look() AS x \gset

-- ---- decided in a transaction that is undone, or only looked at: nothing of it is there
CALL t.clear();
SELECT t.work('c2-gpu', '2', 10, 'low') AS low \gset
SELECT t.look() AS x \gset
SELECT t.work('c2-gpu', '2', 90, 'high') AS high \gset
SELECT t.stored() AS before \gset
SELECT is((SELECT string_agg(format('%s %s', decision, workload = :low), ', ' ORDER BY decision) FROM rpq.schedule('c2-gpu', dry_run => true)),
		  'admitted f, preempted t', 'a dry run says whom');
SELECT is(t.stored(), :'before', 'and leaves everything');
BEGIN;
SELECT count(*) AS x FROM rpq.schedule('c2-gpu') \gset
SELECT is(t.status(:low), 'queued', 'inside the transaction it is done');
SELECT t.whole();
ROLLBACK;
SELECT is(t.stored(), :'before', 'undone');
SELECT is((SELECT string_agg(format('%s %s', decision, workload = :low), ', ' ORDER BY decision) FROM rpq.schedule('c2-gpu')),
		  'admitted f, preempted t', 'and decided again');
SELECT t.whole();
SELECT * FROM finish();

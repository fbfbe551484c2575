-- Idle-time sharing, sentence by sentence: what is lent to whom, where it is counted, and how the pool has its room back.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.clock = '2026-03-01 12:00Z';
SET rpq.workload_history_retention = '1000000 h';
CREATE FUNCTION t.later(seconds numeric) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.clock', (current_setting('rpq.clock')::timestamptz + seconds * interval '1 s')::text, false);
END $$;
CREATE FUNCTION t.work(place text, gpus text, workload_name text, account_name text DEFAULT 'u1', prio int DEFAULT 50, replica_count int DEFAULT 1,
	safe boolean DEFAULT false, kind text DEFAULT 'training') RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM t.later(1);
	IF EXISTS (SELECT FROM rpq.queues q WHERE q.name = place) THEN
		RETURN rpq.submit(queue => place, workload_type => kind, account => account_name, name => workload_name, priority => prio);
	END IF;
	RETURN rpq.submit(pool => place, workload_type => kind, resources => ('gpu=' || gpus)::rpq.resources, account => account_name,
		name => workload_name, priority => prio, replicas => replica_count, guarantee => safe);
END $$;
-- What runs, with the lender behind a colon, and what waits.
CREATE FUNCTION t.look(in_cycle boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF in_cycle THEN PERFORM t.pass(); END IF;
	RETURN (SELECT coalesce(string_agg(w.name || coalesce(':' || w.lender, '') , ' ' ORDER BY w.name) FILTER (WHERE w.status IN ('starting', 'running')),
				'none') || coalesce(' | ' || string_agg(w.name, ' ' ORDER BY w.submitted_at, w.workload_id) FILTER (WHERE w.status = 'queued'), '')
			FROM rpq.workloads w);
END $$;
-- used, available, lent, queued, running
CREATE FUNCTION t.figures(pool_name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT concat_ws(' ', t.gpu(p.used), t.gpu(p.available), t.gpu(p.lent), p.queued, p.running) FROM rpq.pools p WHERE p.name = pool_name);
END $$;
CREATE FUNCTION t.took() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(format('%s from %s by %s %s %s', coalesce(r.name, '-'), v.name, p.rule, p.rank, p.state), ', ' ORDER BY p.preemption_id)
			FROM rpq.preemptions p LEFT JOIN rpq.workload_history r ON r.workload_id = p.preemptor
			JOIN rpq.workload_history v ON v.workload_id = p.victim WHERE p.preemption_id > (SELECT seen FROM t.mark));
END $$;
CREATE TABLE t.mark AS SELECT 0::bigint AS seen;
CREATE PROCEDURE t.clear() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.stop(w.workload_id) FROM rpq.workloads w;
	PERFORM t.pass();
	UPDATE t.mark SET seen = coalesce((SELECT max(p.preemption_id) FROM rpq_store.preemption p), 0);
END $$;
-- What the executor of a node says, and is told.
CREATE FUNCTION t.sync(node_name text, runs bigint[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT coalesce(string_agg(s.action || ' ' || w.name, ', ' ORDER BY s.action, w.name), 'nothing')
			FROM rpq.sync_node(node_name, runs) s LEFT JOIN rpq.workload_history w ON w.workload_id = s.workload);
END $$;
CREATE FUNCTION t.pods(node_name text) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
	RETURN ARRAY(SELECT p.pod_id FROM rpq.pods p WHERE p.node = node_name ORDER BY 1);
END $$;

SELECT rpq.add_nodes(instance_type => 'g8', names => '{s1,x1,x2}') AS x \gset
SELECT rpq.create_pool('x', 'exclusive', nodes => '{x1,x2}', idle_time_sharing => true) AS x, rpq.authorize('x', '{u2}') AS y \gset

-- ---- what is lent, and where it counts
SELECT is(t.look(), 'none', 'nothing to lend to');
SELECT t.work('c1-gpu', '4', 's' || i) FROM generate_series(1, 5) i \g /dev/null
SELECT is(t.look(), 's1 s2 s3:x s4:x s5:x', 'when its own pool is full it borrows');
SELECT is(t.figures('c1-gpu'), '8 0 0 0 5', 'not in the used of the shared pool; running is where it was submitted');
SELECT is(t.figures('x'), '0 16 12 0 0', 'nor in that of the exclusive pool: lent, and available all the same');
SELECT is((SELECT concat_ws(' ', t.gpu(total), t.gpu(used), t.gpu(available), running) FROM rpq.overview WHERE name = 'x'), '16 0 16 0', 'overview');
SELECT is((SELECT concat_ws(' ', t.gpu(used), t.gpu(available)) FROM rpq.pool_instances WHERE pool = 'x'), '0 16', 'pool_instances');
SELECT is((SELECT concat_ws(' ', t.gpu(used), t.gpu(available)) FROM rpq.pool_instances WHERE pool = 'c1-gpu'), '8 0', 'of the shared pool');
SELECT is((SELECT concat_ws(' ', total, used, available, lent) FROM rpq.pool_resources WHERE pool = 'x' AND resource = 'gpu'), '16 0 16 12', 'pool_resources');
SELECT is(t.member_used('c1-gpu', 'u1'), 20::numeric, 'it counts for the borrower');
SELECT is((SELECT string_agg(concat_ws(' ', name, t.gpu(used), t.gpu(available), t.gpu(lent), idle), ', ' ORDER BY name) FROM rpq.nodes WHERE pool = 'x'),
	'x1 8 0 8 f, x2 4 4 4 f', 'nodes show what stands there');
SELECT is((SELECT t.gpu(largest_free) FROM rpq.pools WHERE name = 'x'), 8::numeric, 'a node that is lent is free for the pool');
SELECT is((SELECT string_agg(DISTINCT w.pool || ' ' || w.lender || ' ' || p.pool, ', ') FROM rpq.workloads w JOIN rpq.pods p USING (workload_id) WHERE w.lender IS NOT NULL),
	'c1-gpu x x', 'charged to one pool, on the nodes of the other');
SELECT is((SELECT count(DISTINCT (u.pool_id, u.lender_id)) FROM rpq_store.usage u WHERE u.amount OPERATOR(rpq.<>) ''), 2::bigint, 'cells of their own');
SELECT * FROM t.whole();
SELECT rpq.cordon_node('x2') AS x \gset
SELECT is((SELECT concat_ws(' ', t.gpu(unavailable), t.gpu(available)) FROM rpq.pools WHERE name = 'x'), '8 8', 'a cordoned node has nothing, lent or not');
SELECT is((SELECT concat_ws(' ', t.gpu(unavailable), t.gpu(available)) FROM rpq.pool_instances WHERE pool = 'x'), '8 8', 'by type');
SELECT is(t.look(), 's1 s2 s3:x s4:x s5:x', 'a cordon preempts nobody');
SELECT rpq.uncordon_node('x2') AS x \gset
-- what ends gives back exactly what it took, by each way
SELECT rpq.report_finished(workload_id) FROM rpq.workloads WHERE name = 's3' \g /dev/null
SELECT is(t.figures('x') || ', ' || t.figures('c1-gpu'), '0 16 8 0 0, 8 0 0 0 4', 'before it is counted');
SELECT * FROM t.whole();
SELECT rpq.requeue(workload_id) FROM rpq.workloads WHERE name = 's4' \g /dev/null
SELECT is(t.figures('x') || ', ' || t.figures('c1-gpu'), '0 16 4 0 0, 8 0 0 1 3', 'requeued');
SELECT * FROM t.whole();
SELECT rpq.stop(workload_id) FROM rpq.workloads WHERE name = 's5' \g /dev/null
SELECT is(t.look(), 's1 s2 s4:x', 'and lent again');
SELECT is(t.figures('x') || ', ' || t.member_used('c1-gpu', 'u1'), '0 16 4 0 0, 12', 'what is left');
SELECT rpq.set_node_health('x1', 'unhealthy'), rpq.set_node_health('x2', 'unhealthy') \g /dev/null
SELECT is(t.look(), 's1 s2 | s4', 'a node that is lost loses it');
SELECT is(t.figures('x') || ', ' || t.figures('c1-gpu'), '0 0 0 0 0, 8 0 0 1 2', 'and its room');
SELECT * FROM t.whole();
SELECT rpq.set_node_health('x1', 'healthy'), rpq.set_node_health('x2', 'healthy') \g /dev/null

-- ---- who borrows
CALL t.clear();
SELECT rpq.authorize('c1-gpu', '{u3}', quota => 'gpu=12') AS x, rpq.authorize('c1-gpu', '{u4}', guarantee => true) AS y \gset
SELECT t.work('c1-gpu', '8', 'own'), t.work('c1-gpu', '4', 'safe', 'u4', safe => true) \g /dev/null
SELECT is(t.look(), 'own | safe', 'guaranteed work borrows nothing');
SELECT is(t.reason_code(workload_id), 'pool_quota', 'and waits for its own pool') FROM rpq.workloads WHERE name = 'safe';
SELECT t.work('c1-gpu', '8', 'q1', 'u3'), t.work('c1-gpu', '4', 'q2', 'u3'), t.work('c1-gpu', '4', 'q3', 'u3') \g /dev/null
SELECT is(t.look(), 'own q1:x q2:x | safe q3', 'within the personal quota of the shared pool');
SELECT is(t.reason_code(workload_id), 'user_quota', 'which blocks the rest') FROM rpq.workloads WHERE name = 'q3';
SELECT rpq.create_user_group('g') AS g, rpq.add_to_group('g', '{u1}') AS a, rpq.create_policy('p', 'g') AS p, rpq.create_profile('f', 'gpu=4', '{c1-gpu}') AS f \gset
SELECT rpq.provision_profiles() AS x, rpq.connect_profile('p', 'f', 'door') AS y \gset
SELECT t.work('door', '', 'd1') \g /dev/null
SELECT is(t.look(), 'own q1:x q2:x | safe q3 d1', 'work of a queue borrows nothing');
SELECT * FROM t.whole();
CALL t.clear();

-- a gang of four halves: borrowed whole, or not at all
SELECT t.work('x', '8', 'mine', 'u2'), t.work('x', '2', 'little', 'u2') \g /dev/null
SELECT t.work('c1-gpu', '8', 'own'), t.work('c1-gpu', '4', 'gang', replica_count => 2) \g /dev/null
SELECT is(t.look(), 'little mine own | gang', 'a gang borrows all of its room or nothing');
SELECT rpq.stop(workload_id) FROM rpq.workloads WHERE name = 'little' \g /dev/null
SELECT is(t.look(), 'gang:x mine own', 'all');
SELECT is(t.figures('x'), '8 8 8 0 1', 'its running is the pool''s own alone');
SELECT t.work('x', '1', 'tiny', 'u2', 0) \g /dev/null
SELECT is(t.look(), 'mine own tiny | gang', 'and is preempted as a whole, by any work of the pool');
SELECT is(t.took(), 'tiny from gang by borrowed 1 stopped', 'by the rule borrowed');
SELECT * FROM t.whole();

-- what may not be lent: the workload type, a frozen pool, one that is pay-as-you-go, of another cluster
CALL t.clear();
SELECT t.work('c1-gpu', '8', 'own'), t.work('c1-gpu', '4', 'a') \g /dev/null
SELECT rpq.edit_pool('x', workload_types => '{inference}') AS x \gset
SELECT is(t.look(), 'own | a', 'not to a workload type that the pool does not support');
SELECT rpq.edit_pool('x', clear => '{workload_types}', frozen => true) AS x \gset
SELECT is(t.look(), 'own | a', 'a frozen pool lends nothing');
SELECT rpq.edit_pool('x', frozen => false) AS x \gset
SELECT is(t.look(), 'a:x own', 'thawed it does');
SELECT rpq.edit_pool('x', frozen => true) AS x \gset
SELECT is(t.look(), 'a:x own', 'what borrows when it is frozen goes on');
SELECT rpq.edit_pool('x', frozen => false) AS x \gset
SELECT * FROM t.whole();

-- ---- own work comes
CALL t.clear();
SELECT rpq.edit_pool('x', min_runtime => '1 h') AS x \gset
SELECT t.work('c1-gpu', '8', 'own', prio => 100) \g /dev/null
SELECT t.work('c1-gpu', '4', 'b' || i, prio => 100) FROM generate_series(1, 3) i \g /dev/null
SELECT is(t.look(), 'b1:x b2:x b3:x own', 'three halves are lent, at the highest priority');
SELECT t.work('x', '8', 'mine', 'u2', 0) \g /dev/null
SELECT is(t.look(), 'b1:x b2:x mine own | b3', 'the pool has its room back at once, though they have not run for min_runtime');
SELECT is(t.took(), 'mine from b3 by borrowed 1 stopped', 'and no more of it than it needs');
SELECT is((SELECT concat_ws(' ', status, preemptions, lender, nodes) FROM rpq.workloads WHERE name = 'b3'), 'queued 1', 'back in its queue');
SELECT is(t.figures('x') || ', ' || t.figures('c1-gpu') || ', ' || t.member_used('c1-gpu', 'u1'), '8 8 8 0 1, 8 0 0 1 3, 16', 'the books');
SELECT * FROM t.whole();
SELECT rpq.edit_pool('x', min_runtime => '0') AS x \gset

-- with an executor the victim has the grace
CALL t.clear();
SELECT t.work('c1-gpu', '8', 'own'), t.work('c1-gpu', '8', 'b1') \g /dev/null
SELECT is(t.look(), 'b1:x own', 'lent');
SELECT is(t.sync('x1') || ', ' || t.sync('x2'), 'start b1, nothing', 'its executor starts it');
SELECT is(t.sync('x1', t.pods('x1')), 'nothing', 'and has it');
SELECT t.work('x', '8', 'm1', 'u2'), t.work('x', '8', 'm2', 'u2') \g /dev/null
SELECT is(t.look(), 'b1:x m1 own | m2', 'the second waits for the executor');
SELECT is(t.reason_code(workload_id), 'preempting', 'with its room held') FROM rpq.workloads WHERE name = 'm2';
SELECT is(t.figures('x'), '8 8 8 1 1', 'lent until it has stopped');
SELECT is(t.sync('x1', t.pods('x1')), 'stop b1', 'which is told to stop it');
SELECT * FROM t.whole();
SELECT is(t.sync('x1'), 'nothing', 'it does');
SELECT is(t.look(), 'm1 m2 own | b1', 'and the room is the pool''s');
SELECT * FROM t.whole();

-- ---- switched off
CALL t.clear();
DELETE FROM rpq_store.node_seen;
SELECT t.work('c1-gpu', '8', 'own') \g /dev/null
SELECT t.work('c1-gpu', '4', 'b' || i) FROM generate_series(1, 3) i \g /dev/null
SELECT is(t.look(), 'b1:x b2:x b3:x own', 'lent');
SELECT rpq.edit_pool('x', description => 'something else') AS x \gset
SELECT is(t.look(false), 'b1:x b2:x b3:x own', 'another setting preempts nobody');
UPDATE rpq.pools SET idle_time_sharing = false WHERE name = 'x';
SELECT is(t.look(false), 'own | b1 b2 b3', 'switched off in the view, they are preempted in the same transaction');
SELECT is(t.took(), '- from b3 by borrowed 1 stopped, - from b2 by borrowed 2 stopped, - from b1 by borrowed 3 stopped', 'for no workload, the latest first');
SELECT is((SELECT count(*) FROM rpq.workload_events e JOIN rpq.workloads w USING (workload_id) WHERE w.name = 'b1' AND e.event = 'preempted'), 1::bigint, 'an event says so');
SELECT is(t.figures('x') || ', ' || t.figures('c1-gpu'), '0 16 0 0 0, 8 0 0 3 1', 'nothing is lent');
SELECT * FROM t.whole();
SELECT is(t.look(), 'own | b1 b2 b3', 'and nothing is any more');
SELECT rpq.edit_pool('x', idle_time_sharing => true) AS x \gset
SELECT is(t.look(), 'b1:x b2:x b3:x own', 'until it is switched on again');
-- with an executor
SELECT t.sync('x1'), t.sync('x2') \g /dev/null
SELECT t.sync('x1', t.pods('x1')), t.sync('x2', t.pods('x2')) \g /dev/null
SELECT rpq.edit_pool('x', idle_time_sharing => false) AS x \gset
SELECT is(t.look(), 'b1:x b2:x b3:x own', 'with an executor they have the grace');
SELECT is((SELECT count(*) FROM rpq.preemptions WHERE state = 'pending' AND preemptor IS NULL), 3::bigint, 'told to stop');
SELECT * FROM t.whole();
SELECT rpq.edit_pool('x', idle_time_sharing => true) AS x, t.work('c1-gpu', '1', 'b4') AS y \gset
SELECT is(t.look(), 'b1:x b2:x b3:x own | b4', 'switched on meanwhile, nothing new is lent');
SELECT is(t.sync('x1', t.pods('x1')), 'stop b1, stop b2', 'they have to go all the same');
SELECT t.sync('x1') AS x \gset
SELECT is(t.look(), 'b3:x own | b1 b2 b4', 'those that have stopped are back');
SELECT * FROM t.whole();
SELECT t.later(31) AS x \gset
SELECT t.look() AS x \gset
SELECT is((SELECT count(*) FROM rpq.preemptions WHERE state = 'pending'), 0::bigint, 'the last one when its grace is over');
SELECT is(t.look(), 'b1:x b2:x b3:x b4:x own', 'then the pool lends again');
SELECT * FROM t.whole();
-- one that own work had chosen already, and that is no longer wanted
SELECT t.sync('x1'), t.sync('x2') \g /dev/null
SELECT t.sync('x1', t.pods('x1')), t.sync('x2', t.pods('x2')) \g /dev/null
SELECT t.work('x', '8', 'mine', 'u2') AS mine \gset
SELECT t.look() AS x \gset
SELECT is((SELECT count(*) > 0 FROM rpq.preemptions WHERE state = 'pending' AND preemptor = :mine), true, 'own work has victims');
SELECT rpq.edit_pool('x', idle_time_sharing => false) AS x, rpq.stop(:mine) AS y \gset
SELECT t.look() AS x \gset
SELECT is((SELECT string_agg(DISTINCT state || coalesce(preemptor::text, ''), ',') FROM rpq.preemptions WHERE state IN ('pending', 'given_up')), 'pending',
	'which have to go though it gave up, since nothing is lent any more');
SELECT * FROM t.whole();
SELECT t.later(31) AS x \gset
SELECT is(regexp_replace(t.look(), ' \|.*', ''), 'own', 'and they do');
SELECT * FROM t.whole();

-- ---- conversion, deletion, and nodes that go
CALL t.clear();
DELETE FROM rpq_store.node_seen;
DELETE FROM rpq_store.pod_report;
SELECT rpq.edit_pool('x', idle_time_sharing => true) AS x, t.work('c1-gpu', '8', 'own') AS y \gset
SELECT t.work('c1-gpu', '4', 'b' || i) FROM generate_series(1, 2) i \g /dev/null
SELECT is(t.look(), 'b1:x b2:x own', 'lent');
SELECT rpq.convert_pool('x', 'dedicated') AS x \gset
SELECT is(t.look(), 'own | b1 b2', 'a conversion to dedicated preempts');
SELECT * FROM t.whole();
SELECT rpq.convert_pool('x', 'exclusive') AS x \gset
SELECT rpq.edit_pool('x', idle_time_sharing => true) AS x \gset
SELECT is(t.look(), 'b1:x b2:x own', 'lent again');
SELECT is(t.nodes(workload_id), 'x1', 'on the first node') FROM rpq.workloads WHERE name = 'b1';
SELECT rpq.resize_pool('x', quota => 'gpu=8') AS x \gset
SELECT is((SELECT string_agg(name, ',') FROM rpq.nodes WHERE pool = 'x'), 'x1', 'of nodes that go the idle ones go first');
SELECT is(t.look(), 'b1:x b2:x own', 'which preempts nobody') WHERE false;
SELECT is(t.look(), 'b1:x b2:x own', 'what borrows elsewhere goes on');
SELECT rpq.resize_pool('x', quota => 'gpu=0') AS x \gset
SELECT is((SELECT count(*) FROM rpq.nodes WHERE pool = 'x'), 0::bigint, 'what borrows never blocks the owner');
SELECT is(t.look(), 'b1 b2 own', 'it is preempted first, and runs where it was submitted when there is room');
SELECT * FROM t.whole();
SELECT rpq.move_nodes(nodes => '{x2}', to_pool => 'x') AS x \gset
SELECT t.work('c1-gpu', '8', 'b3'), t.work('c1-gpu', '4', 'b4') \g /dev/null
SELECT * FROM t.whole();
SELECT t.look() AS look \gset
SELECT is((SELECT count(*) FROM rpq.workloads WHERE lender = 'x'), 1::bigint, 'one borrows x2');
SELECT rpq.drain_node('x2') AS op \gset
SELECT is((SELECT status FROM rpq.operations WHERE operation_id = :op), 'succeeded', 'a drain preempts what borrows, it moves nothing');
SELECT is((SELECT count(*) FROM rpq.pod_migrations), 0::bigint, 'no pod was moved');
SELECT is((SELECT count(*) FROM rpq.workloads WHERE lender = 'x'), 0::bigint, 'gone');
SELECT * FROM t.whole();
SELECT rpq.uncordon_node('x2') AS x \gset
SELECT t.look() AS look \gset
SELECT t.sync('x2') AS x \gset
SELECT t.sync('x2', t.pods('x2')) AS x \gset
SELECT rpq.move_nodes(nodes => '{x2}', to_pool => 'c1-gpu') AS op \gset
SELECT is((SELECT status || ' ' || step FROM rpq.operations WHERE operation_id = :op), 'running evacuate', 'with an executor the move waits for it');
SELECT is(t.sync('x2', t.pods('x2')) LIKE 'stop b%', true, 'which is told to stop');
SELECT * FROM t.whole();
SELECT t.sync('x2') AS x \gset
SELECT t.look() AS look, rpq.run_operations() AS y \gset
SELECT is((SELECT status FROM rpq.operations WHERE operation_id = :op), 'succeeded', 'and goes on then');
SELECT is((SELECT pool FROM rpq.nodes WHERE name = 'x2'), 'c1-gpu', 'the node has moved');
SELECT * FROM t.whole();

-- remove_nodes and delete
CALL t.clear();
DELETE FROM rpq_store.node_seen;
DELETE FROM rpq_store.pod_report;
SELECT rpq.move_nodes(nodes => '{x1,x2}', to_pool => 'x') AS x, t.work('c1-gpu', '8', 'own') AS y \gset
SELECT t.work('c1-gpu', '8', 'b' || i) FROM generate_series(1, 2) i \g /dev/null
SELECT is(t.look(), 'b1:x b2:x own', 'lent');
SELECT is(t.outcome($$SELECT rpq.delete_pool('x')$$), 'RQ006', 'a pool with nodes is not deleted');
SELECT throws_like($$SELECT rpq.delete_pool('x')$$, '%cannot be deleted: 2 nodes, 1 member', 'and what borrows is nothing against it');
SELECT is(rpq.remove_nodes('{x2}'), 1, 'a node that is lent may be removed');
SELECT is(t.look(), 'b1:x own | b2', 'after what borrowed there was preempted');
SELECT * FROM t.whole();
SELECT rpq.delete_pool('x', force => true) AS x \gset
SELECT is((SELECT count(*) FROM rpq.workload_history WHERE name IN ('b1', 'b2') AND ended_at IS NULL AND status = 'queued'), 2::bigint, 'a pool that is deleted sends back what borrowed there');
SELECT is(t.took(), '- from b2 by borrowed 1 stopped, - from b1 by borrowed 1 stopped', 'as preempted');
SELECT * FROM t.whole();
SELECT is(t.look(), 'b1 own | b2', 'where there is a node more now');

-- ---- kept apart, and who sees what
CALL t.clear();
SELECT rpq.create_pool('y', 'exclusive', nodes => '{x1}', idle_time_sharing => true, scheduling_policy => 'spread') AS y \gset
SELECT rpq.edit_pool('y', isolate_accounts => true), rpq.authorize('y', '{u2}'), rpq.grant_pool_admin('y', 'u5') \g /dev/null
SELECT t.work('c1-gpu', '8', 'own'), t.work('c1-gpu', '2', 'b1', 'u1'), t.work('c1-gpu', '2', 'b2', 'u3') \g /dev/null
SELECT is(t.look(), 'b1:y own | b2', 'a node that hosts one account at a time lends to one at a time');
SELECT t.work('y', '2', 'mine', 'u2') \g /dev/null
SELECT is(t.look(), 'mine own | b1 b2', 'own work of another account has the whole node');
SELECT * FROM t.whole();
SELECT rpq.stop(workload_id) FROM rpq.workloads WHERE name = 'mine' \g /dev/null
SELECT is(t.look(), 'b1:y own | b2', 'and back');
CREATE ROLE idle_u5; CREATE ROLE idle_u1;
SELECT rpq.edit_account('u5', db_role => 'idle_u5'), rpq.edit_account('u1', db_role => 'idle_u1') \g /dev/null
SET ROLE idle_u5;
SELECT is((SELECT count(*) FROM rpq.workloads) || ' ' || (SELECT count(*) FROM rpq.node_pods), '0 0', 'the administrator of the pool sees no work of others');
SELECT is((SELECT t.gpu(used) || ' ' || t.gpu(lent) FROM rpq.nodes WHERE pool = 'y'), '2 2', 'but the amounts');
SELECT is((SELECT map FROM rpq.node_map('y')), '[##......]', 'also in the picture');
SELECT rpq.edit_pool('y', idle_time_sharing => false) AS x \gset
SELECT is((SELECT concat_ws(' ', preemptor, victim, pool, rule) FROM rpq.preemptions WHERE preemptor IS NULL AND state = 'stopped' ORDER BY preemption_id DESC LIMIT 1), 'y borrowed',
	'and that something was preempted');
SET ROLE idle_u1;
SELECT is((SELECT concat_ws(' ', preemptor, victim IS NOT NULL, pool, rule) FROM rpq.preemptions ORDER BY preemption_id DESC LIMIT 1), 't y borrowed', 'who was preempted sees by what');
RESET ROLE;
DROP ROLE idle_u5, idle_u1;
SELECT * FROM t.whole();

-- a copy counts anew
SELECT rpq.edit_pool('y', idle_time_sharing => true) AS x \gset
SELECT t.look() AS look \gset
SELECT count(*) AS lent FROM rpq.workloads WHERE lender = 'y' \gset
UPDATE rpq_store.fence SET system_identifier = '1';
SELECT is(t.outcome($$SELECT rpq.edit_pool('y', idle_time_sharing => false)$$), 'RQ009', 'a copy preempts nobody');
SELECT rpq.adopt_database() AS x \gset
SELECT is((SELECT count(*) FROM rpq.workloads WHERE lender = 'y') || ' ' || t.figures('y'), :lent || ' 0 8 2 0 0', 'adopted, it knows what is lent');
SELECT * FROM t.whole();
CALL t.clear();
SELECT is(t.look(), 'none', 'and all ends');
SELECT * FROM t.whole();
SELECT * FROM finish();

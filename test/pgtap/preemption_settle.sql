-- What becomes of a preemption that has been decided, as the tables have it: a victim that executors report as gone, or
-- not; one that ends by itself, or is stopped by its owner; one whose time is over; a preemptor that goes away; nodes
-- that fall silent, are emptied, or change hands.  The decision is written here by hand, so that only what follows it is
-- looked at.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.clock = '2026-03-01 12:00Z';
SET rpq.workload_history_retention = '1000000 h';
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
CREATE FUNCTION t.at(minutes numeric) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.clock', ('2026-03-01 12:00Z'::timestamptz + minutes * interval '1 min')::text, false);
END $$;
CREATE FUNCTION t.later(seconds numeric) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.clock', (current_setting('rpq.clock')::timestamptz + seconds * interval '1 s')::text, false);
END $$;
CREATE FUNCTION t.sync(node_name text, runs bigint[] DEFAULT '{}', ends jsonb DEFAULT '[]') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT coalesce(string_agg(format('%s %s', s.action, s.pod), ', '), 'nothing')
			FROM rpq.sync_node(node => node_name, running => runs, finished => ends) s);
END $$;
CREATE FUNCTION t.pod(id bigint, replica_no int DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT p.pod_id FROM rpq.pods p WHERE p.workload_id = id AND p.replica = replica_no);
END $$;
CREATE FUNCTION t.ended(pod bigint, outcome text, detail text DEFAULT NULL) RETURNS jsonb
LANGUAGE sql AS $$ SELECT jsonb_build_array(jsonb_build_object('pod', pod, 'outcome', outcome, 'detail', detail)) $$;
CREATE FUNCTION t.events(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(e.event || coalesce('/' || e.cause, ''), ' ' ORDER BY e.workload_event_id)
			FROM rpq.workload_events e WHERE e.workload_id = id);
END $$;
-- A preemptor that waits, with the victim's own room held for it: as a plan writes it.
CREATE FUNCTION t.take(victim_id bigint, gpus text DEFAULT '8', replica_count int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	pool bigint := (SELECT w.pool_id FROM rpq_store.workload w WHERE w.workload_id = victim_id);
	id bigint := rpq.submit('c1-gpu', workload_type => 'training', resources => ('gpu=' || gpus)::rpq.resources, account => 'u2',
		priority => 60, name => 'preemptor', replicas => replica_count);
BEGIN
	PERFORM rpq.schedule(dry_run => true);
	PERFORM rpq_store.take_turns(ARRAY[pool]);
	PERFORM rpq_store.fold(ARRAY[pool]);
	INSERT INTO rpq_store.preemption (at, pool_id, preemptor, victim, victim_attempt, victim_account, preemptor_account, rule, rank,
		gpu_seconds_lost, state, expires_at)
	SELECT rpq.now(), pool, id, w.workload_id, w.attempt, w.account_id, p.account_id, 'priority', 1, 0, 'pending',
		CASE WHEN current_setting('rpq.preemption_grace') <> '0' THEN rpq.now() + current_setting('rpq.preemption_grace')::interval END
	FROM rpq_store.workload w, rpq_store.workload p WHERE w.workload_id = victim_id AND p.workload_id = id;
	INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, attempt, replica, resources, devices, purpose)
	SELECT pool, o.node_id, id, 1, o.replica, p.resources, o.devices[1:gpus::int], 'preempt'
	FROM rpq_store.pod o, rpq_store.workload p WHERE o.workload_id = victim_id AND p.workload_id = id;
	RETURN id;
END $$;
CREATE FUNCTION t.preempted(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(p.state, ' ' ORDER BY p.preemption_id) FROM rpq.preemptions p WHERE p.victim = id);
END $$;
CREATE FUNCTION t.node(node_name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT format('used %s, reserved %s, available %s', t.gpu(n.used), t.gpu(n.reserved), t.gpu(n.available))
			FROM rpq.nodes n WHERE n.name = node_name);
END $$;
-- A victim that runs on a node by its executor, and its pod; n2 is full, so that what returns waits.
CREATE PROCEDURE t.start(INOUT victim bigint, INOUT pod bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.stop(w.workload_id) FROM rpq.workloads w;
	PERFORM t.pass();
	PERFORM t.sync('n1'), t.sync('n2');
	PERFORM t.pass();
	PERFORM rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=8', account => 'u3', name => 'other', guarantee => false);
	PERFORM t.pass();
	victim := t.submit('c1-gpu', '8', 'u1', 'victim');
	PERFORM t.pass();
	UPDATE rpq_store.turn SET room_epoch = room_epoch;
	pod := t.pod(victim);
	PERFORM t.sync(t.nodes(victim));
	PERFORM t.sync(t.nodes(victim), ARRAY[pod]);
	PERFORM t.pass();
END $$;

-- ---- told to stop, and gone
CALL t.start(NULL, NULL) \gset
SELECT t.nodes(:victim) AS at_node \gset
SELECT is(t.status(:victim), 'running', 'the victim runs');
SELECT t.take(:victim, '6') AS taker \gset
SELECT t.whole();
SELECT is(t.node(:'at_node'), 'used 8, reserved 0, available 0', 'its room is its own until it has stopped');
SELECT is(t.reason_code(:taker), 'preempting', 'the preemptor waits for it');
SELECT is(t.reason(:taker), format('room is held on %s; 1 of 1 victims has still to stop', :'at_node'), 'and says for how many');
SELECT is(t.preempted(:victim), 'pending', 'a row says so');
SELECT is(t.sync(:'at_node', ARRAY[:pod]), format('stop %s', :pod), 'the executor is told');
SELECT t.pass() AS x \gset
SELECT is(t.status(:victim), 'running', 'while it is reported it runs');
SELECT is(t.sync(:'at_node', ARRAY[:pod]), format('stop %s', :pod), 'the executor is told again');
SELECT t.stored() AS before \gset
SELECT t.pass() AS x \gset
SELECT is(t.stored(), :'before', 'a cycle changes nothing');
SELECT t.later(5) AS x \gset
SELECT is(t.sync(:'at_node', ends => t.ended(:pod, 'stopped', 'saved at step 7')), 'nothing', 'it has stopped');
SELECT is(t.status(:victim), 'running', 'for the cycle to see');
SELECT t.whole();
SELECT t.pass() AS x \gset
SELECT is(t.status(:victim), 'queued', 'back in the queue');
SELECT is(t.events(:victim), 'submitted admitted started preempted/preempted', 'one event');
SELECT is((SELECT format('%s %s %s', actor, attempt, detail) FROM rpq.workload_events WHERE workload_id = :victim AND event = 'preempted'),
		  'system 1 saved at step 7', 'by the system, with what the executor said');
SELECT is((SELECT format('%s %s %s', preemptions, submitted_at, nodes IS NULL) FROM rpq.workloads WHERE workload_id = :victim),
		  format('1 %s t', '2026-03-01 12:00Z'::timestamptz), 'counted, with its submission time');
SELECT is(t.preempted(:victim), 'stopped', 'the row says that it stopped');
SELECT is(t.node(:'at_node') IN ('used 0, reserved 6, available 2', 'used 6, reserved 0, available 2'), true, 'its room is the preemptor''s');
SELECT t.whole();

-- ---- no longer reported at all
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.sync(:'at_node', ARRAY[:pod]) AS x \gset
SELECT is(t.sync(:'at_node'), 'nothing', 'neither running nor finished');
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim), 'submitted admitted started preempted/preempted', 'a victim is not lost: it has stopped');
SELECT t.whole();

-- ---- its own end: it succeeds, it fails
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.sync(:'at_node', ends => t.ended(:pod, 'succeeded')) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim), 'submitted admitted started succeeded/succeeded', 'a victim that succeeds has succeeded');
SELECT is(t.preempted(:victim), 'stopped', 'and is no longer waited for');
SELECT t.whole();
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.sync(:'at_node', ends => t.ended(:pod, 'failed', 'out of memory')) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim), 'submitted admitted started failed/failed', 'one that fails has failed');
SELECT t.whole();

-- ---- stopped by its owner, while its executor has it
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT is(rpq.stop(:victim), true, 'its owner stops it');
SELECT t.whole();
SELECT t.pass() AS x \gset
SELECT is(t.status(:victim), 'stopped', 'stopped');
SELECT is(t.preempted(:victim), 'pending', 'its room is still waited for');
SELECT is(t.reason_code(:taker), 'preempting', 'by the preemptor');
SELECT is(t.node(:'at_node'), 'used 0, reserved 8, available 0', 'it is kept once, not twice');
SELECT t.whole();
SELECT is(t.sync(:'at_node', ARRAY[:pod]), format('stop %s', :pod), 'the executor is told');
SELECT t.sync(:'at_node') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.preempted(:victim), 'stopped', 'now it is free');
SELECT t.whole();
-- and when the executor says nothing more, the grace of the preemption counts, not one that begins with the stop
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.later(20) AS x \gset
SELECT rpq.stop(:victim) AS x \gset
SELECT t.pass() AS x \gset
SELECT t.later(9) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.preempted(:victim), 'pending', 'not yet');
SELECT t.later(1) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.preempted(:victim), 'stopped', 'now');
SELECT t.whole();

-- ---- the grace
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.later(29.999) AS x \gset
SELECT t.sync(:'at_node', ARRAY[:pod]) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:victim), 'running', 'an instant before');
SELECT t.later(0.001) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim), 'submitted admitted started preempted/preempted', 'after the grace it has lost its room all the same');
SELECT is((SELECT detail FROM rpq.workload_events WHERE workload_id = :victim AND event = 'preempted'),
		  'it was still reported when its time to stop was over', 'and says so');
SELECT is(t.preempted(:victim), 'stopped', 'the preemptor waits no longer');
SELECT is(t.node(:'at_node') IN ('used 0, reserved 8, available 0', 'used 8, reserved 0, available 0'), true, 'nothing else keeps the room');
SELECT t.pass() AS x \gset
SELECT is(t.sync(:'at_node', ARRAY[:pod]), format('stop %s', :pod), 'no start for a device that is still in use');
SELECT t.whole();
SELECT is(t.sync(:'at_node', ends => t.ended(:pod, 'succeeded')) LIKE 'stop%', false, 'a late report');
SELECT t.pass() AS x \gset
SELECT is(t.status(:victim), 'queued', 'changes nothing');
SELECT t.whole();

-- without end
SET rpq.preemption_grace = 0;
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.later(60) AS x, t.sync(:'at_node', ARRAY[:pod]) AS y \gset
SELECT t.later(60) AS x, t.sync(:'at_node', ARRAY[:pod]) AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:victim), 'running', 'a grace of 0 has no end');
-- but silence ends it
SELECT t.later(91) AS x, t.sync(CASE :'at_node' WHEN 'n1' THEN 'n2' ELSE 'n1' END) AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim), 'submitted admitted started preempted/preempted', 'a node that falls silent ends it');
SELECT is(t.preempted(:victim), 'stopped', 'the victim has stopped');
SELECT t.whole();
RESET rpq.preemption_grace;
SELECT t.sync('n1') AS x, t.sync('n2') AS y \gset
SELECT t.pass() AS x \gset

-- ---- the preemptor goes away
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT t.sync(:'at_node', ARRAY[:pod]) AS x \gset
SELECT rpq.stop(:taker) AS x \gset
SELECT t.whole();
SELECT t.pass() AS x \gset
SELECT is(t.preempted(:victim), 'given_up', 'withdrawn: the room is no longer wanted');
SELECT is((SELECT count(*) FROM rpq_store.hold), 0::bigint, 'and not held');
SELECT is(t.sync(:'at_node', ARRAY[:pod]), 'nothing', 'the victim goes on');
SELECT is(t.status(:victim), 'running', 'it runs');
SELECT t.whole();
SELECT t.later(20) AS x \gset
SELECT t.sync(:'at_node', ends => t.ended(:pod, 'stopped', 'too late')) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim) LIKE 'submitted admitted started preempted/preempted%', true, 'one that was told to stop, and stops after all, returns to the queue');
SELECT is((SELECT preemptions FROM rpq.workloads WHERE workload_id = :victim), 1, 'counted');
SELECT is(t.preempted(:victim), 'stopped', 'the row says so');
SELECT t.whole();
-- edited
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
UPDATE rpq.workloads SET priority = 99 WHERE workload_id = :taker;
SELECT t.pass() AS x \gset
SELECT is(t.preempted(:victim), 'pending', 'another priority alone does not end it');
SELECT t.whole();
SELECT rpq.stop(:taker) AS x \gset
SELECT t.pass() AS x \gset
SELECT t.later(120) AS x, t.sync('n1', CASE :'at_node' WHEN 'n1' THEN ARRAY[:pod] ELSE '{}' END) AS y,
	t.sync('n2', CASE :'at_node' WHEN 'n2' THEN ARRAY[:pod] ELSE '{}' END) AS z \gset
SELECT is(t.sync(:'at_node', ends => t.ended(:pod, 'stopped')), 'nothing', 'long after it was spared');
SELECT t.pass() AS x \gset
SELECT is(t.events(:victim), 'submitted admitted started stopped/stopped', 'a stop is a stop');
SELECT t.whole();

-- ---- a gang stops as a whole
CALL t.start(NULL, NULL) \gset
SELECT count(rpq.stop(w.workload_id)) AS x FROM rpq.workloads w \gset
SELECT t.pass() AS x, t.sync('n1') AS y, t.sync('n2') AS z \gset
SELECT t.pass() AS x \gset
SELECT t.submit('c1-gpu', '8', 'u1', 'gang', 2) AS gang \gset
SELECT t.pass() AS x, t.sync('n1') AS y, t.sync('n2') AS z \gset
SELECT t.pod(:gang, 0) AS g0, t.pod(:gang, 1) AS g1, (SELECT node FROM rpq.pods WHERE workload_id = :gang AND replica = 0) AS on0,
	(SELECT node FROM rpq.pods WHERE workload_id = :gang AND replica = 1) AS on1 \gset
SELECT t.sync(:'on0', ARRAY[:g0]) AS x, t.sync(:'on1', ARRAY[:g1]) AS y \gset
SELECT t.pass() AS x \gset
SELECT t.take(:gang, '8', 2) AS taker \gset
SELECT is(t.sync(:'on0', ARRAY[:g0]) || t.sync(:'on1', ARRAY[:g1]), format('stop %sstop %s', :g0, :g1), 'all are told');
SELECT t.sync(:'on0', ends => t.ended(:g0, 'stopped', 'first')) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:gang), 'running', 'one has stopped');
SELECT t.pass() AS x \gset
SELECT t.whole();
SELECT t.sync(:'on1') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:gang) LIKE 'submitted admitted started preempted/preempted%', true, 'both have');
SELECT t.whole();

-- ---- nodes that are emptied or change hands
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker, t.nodes(:victim) AS at_node \gset
SELECT rpq.stop(w.workload_id) AS x FROM rpq.workloads w WHERE w.name = 'other' \gset
SELECT t.later(1) AS x \gset
SELECT is(t.outcome(format('SELECT rpq.remove_nodes(ARRAY[%L])', :'at_node')), 'RQ006', 'a node of which room is held is not removed');
SELECT rpq.stop(:victim) AS x \gset
SELECT t.later(31) AS x, t.sync('n1') AS y, t.sync('n2') AS z \gset
SELECT t.whole();

-- ---- who may see what
CALL t.start(NULL, NULL) \gset
SELECT t.take(:victim) AS taker \gset
SELECT rpq.authorize('c1-gpu', '{u1,u2,u3}') AS x \gset
SET rpq.account = 'u1';
SELECT is((SELECT format('%s %s %s', preemptor IS NULL, victim = :victim, state) FROM rpq.preemptions ORDER BY preemption_id DESC LIMIT 1),
		  't t pending', 'the victim''s owner sees that, not by whom');
SET rpq.account = 'u2';
SELECT is((SELECT format('%s %s %s', preemptor = :taker, victim IS NULL, state) FROM rpq.preemptions ORDER BY preemption_id DESC LIMIT 1),
		  't t pending', 'the preemptor''s owner sees that, not whom');
SET rpq.account = 'u3';
SELECT is((SELECT count(*) FROM rpq.preemptions), 0::bigint, 'others see nothing');
RESET rpq.account;
SELECT * FROM finish();

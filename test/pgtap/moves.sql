-- Pods move between nodes of a pool, reserve first: drain with and without an executor, skipped, blocked, undone.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();

CREATE FUNCTION t.node(node_name text) RETURNS bigint LANGUAGE sql AS $$
	SELECT n.node_id FROM rpq.nodes AS n WHERE n.name = node_name $$;
CREATE FUNCTION t.pod(id bigint, n int DEFAULT 0) RETURNS bigint LANGUAGE sql AS $$
	SELECT p.pod_id FROM rpq.pods AS p WHERE p.workload_id = id AND p.replica = n $$;
-- What an executor has said of a pod, as sync_node would write it; NULL: it no longer has it.
CREATE FUNCTION t.says(pod bigint, said text, result text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO rpq_store.node_seen (node_id, at) SELECT p.node_id, rpq.now() FROM rpq_store.pod p WHERE p.pod_id = pod
	ON CONFLICT (node_id) DO UPDATE SET at = rpq.now();
	INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, outcome, at)
	SELECT p.pod_id, p.node_id, p.workload_id, p.attempt, said, result, rpq.now() FROM rpq_store.pod p
	WHERE p.pod_id = pod
	ON CONFLICT (pod_id) DO UPDATE SET state = said, outcome = result, at = rpq.now();
END $$;
CREATE FUNCTION t.op(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', o.status, o.step, o.error_code) FROM rpq.operations AS o WHERE o.operation_id = id $$;
-- Moves of an operation: workload.replica from>to status reason
CREATE FUNCTION t.moves(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s.%s %s>%s %s', w.name, m.replica, m.from_node, m.to_node,
		concat_ws(' ', m.status, m.reason)), ', ' ORDER BY m.pod_migration_id)
	FROM rpq.pod_migrations AS m JOIN rpq.workload_history AS w ON w.workload_id = m.workload_id
	WHERE m.operation_id = id $$;
CREATE FUNCTION t.node_state(node_name text) RETURNS text LANGUAGE sql AS $$
	SELECT format('used %s reserved %s%s%s', t.gpu(n.used), t.gpu(n.reserved),
		CASE WHEN n.schedulable THEN '' ELSE ' cordoned' END, CASE WHEN n.draining THEN ' draining' ELSE '' END)
	FROM rpq.nodes AS n WHERE n.name = node_name $$;

SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}') AS x \gset
SELECT rpq.create_pool(name => 'd', type => 'dedicated', nodes => '{n1,n2,n3}') AS x \gset
SELECT rpq.authorize(pool => 'd', accounts => '{u1,u2,u3}') AS x \gset
SELECT pool_id AS d FROM rpq.pools WHERE name = 'd' \gset
SELECT t.submit('d', '4', 'u1', 'w1') AS w1 \gset
SELECT t.pass() AS x \gset
SELECT t.submit('d', '2', 'u2', 'w2', 3) AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w1) || ' ' || t.nodes(:w2), 'n1 n1,n1,n2', 'w1 and two of w2 are on n1');

-- At once where no executor has the pods; in one call.
SELECT t.used('d') AS used, t.member_used('d', 'u1') AS u1, t.available('d') AS available \gset
SELECT rpq.drain_node(node => 'n1') AS op \gset
SELECT is(t.op(:op), 'succeeded evacuate', 'drain: succeeded');
SELECT is(t.moves(:op), 'w1.0 n1>n2 done, w2.0 n1>n2 done, w2.1 n1>n3 done', 'the largest first, to the fullest node');
SELECT is(t.node_state('n1') || ', ' || t.node_state('n2') || ', ' || t.node_state('n3'),
		  'used 0 reserved 0 cordoned, used 8 reserved 0, used 2 reserved 0', 'n1 is empty, and stays cordoned');
SELECT is(t.nodes(:w1) || ' ' || t.nodes(:w2), 'n2 n2,n3,n2', 'the workloads name their new nodes');
SELECT is(t.used('d') || ' ' || t.member_used('d', 'u1'), :'used' || ' ' || :'u1', 'usage is what it was');
SELECT is((SELECT string_agg(w.name || ' ' || w.attempt || ' ' || w.status, ', ' ORDER BY w.name) FROM rpq.workloads w),
		  'w1 2 starting, w2 3 starting', 'each move is an attempt of the whole gang');
SELECT is((SELECT string_agg(format('%s %s', e.event, e.attempt), ', ' ORDER BY e.workload_event_id)
		   FROM rpq.workload_events e WHERE e.workload_id = :w2),
		  'submitted 0, admitted 1, moved 1, moved 2', 'each attempt has ended once');
SELECT is((SELECT count(DISTINCT p.attempt) FROM rpq.pods p WHERE p.workload_id = :w2), 1::bigint,
		  'the pods of a gang are of one attempt');
SELECT is((SELECT format('%s %s %s %s %s %s', m.status, m.direction, m.mode, m.from_pool, m.nodes, m.evicted = ARRAY[:w1, :w2]::bigint[])
		   FROM rpq.migrations m WHERE m.operation_id = :op), 'succeeded in nodes d {n1} t', 'the migration record');
SELECT is((SELECT jsonb_strip_nulls(h.old)::text || ' ' || (h.new - 'workloads')::text FROM rpq.operation_history h
		   WHERE h.operation_id = :op AND h.action = 'drain_node'),
		  '{"schedulable": true} {"moved": 3, "schedulable": false}', 'one row in the history');
SELECT is((SELECT o.result::text FROM rpq.operations o WHERE o.operation_id = :op),
		  '{"node": "n1", "moved": 3, "skipped": 0}', 'the result');
SELECT t.whole();
SELECT is(rpq.report_finished(workload => :w2, attempt => 1), false, 'a report for an attempt before the move is late');
SELECT is(rpq.report_started(workload => :w2, attempt => 3), true, 'one for the present attempt counts');
SELECT t.whole();

-- Refusals: what exists, status, usage.
SELECT is(t.outcome($$SELECT rpq.drain_node('n9')$$), '42704', 'no such node');
SELECT is(t.outcome($$SELECT rpq.drain_node(NULL)$$), '22023', 'no node');
SELECT rpq.uncordon_node('n1');
SELECT t.submit('d', '8', 'u3', 'w3') AS w3 \gset
SELECT t.pass() AS x \gset
SELECT t.stored() AS stored \gset
SELECT throws_ok($$SELECT rpq.drain_node('n2')$$, 'RQ006', '1 pod cannot be placed elsewhere in pool "d"', 'no room');
SELECT is(t.stored(), :'stored', 'a refused drain leaves nothing behind');
DO $$ DECLARE why text; BEGIN
	PERFORM rpq.drain_node('n1');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
	PERFORM set_config('t.why', why, false);
END $$;
SELECT is(current_setting('t.why'), format('n1: workload %s replica 0 (gpu=8)', :w3), 'the errdetail names what stands there');
SELECT rpq.stop(:w3) AS x \gset
SELECT t.pass() AS x \gset

-- With an executor: reserved, told to stop, moved when it is gone.  Field case F41: the reserve is the node's alone.
SET rpq.synchronous_operations = off;
SELECT t.says(t.pod(:w1), 'running');
SELECT t.pod(:w1) AS pod \gset
SELECT rpq.drain_node(node => 'n2') AS op \gset
SELECT is(t.op(:op), 'pending', 'asked for');
SELECT is(t.node_state('n2'), 'used 8 reserved 0 cordoned', 'cordoned at once');
SELECT is(t.outcome($$SELECT rpq.drain_node('n3')$$), 'RQ004', 'one operation at a time for a pool');
SELECT is(rpq.run_operations(), 1, 'a step');
SELECT is(t.op(:op), 'running evacuate', 'it waits for the executor');
SELECT is(t.moves(:op), 'w1.0 n2>n3 evicting, w2.0 n2>n3 done, w2.2 n2>n1 done', 'what nobody runs has moved');
SELECT is(t.node_state('n2') || ', ' || t.node_state('n3'),
		  'used 4 reserved 0 cordoned draining, used 4 reserved 4', 'the pod stands on n2, its room is held on n3');
SELECT is(t.used('d') || ' ' || t.member_used('d', 'u1'), :'used' || ' ' || :'u1', 'F41: charged once');
SELECT is(rpq.run_operations(), 0, 'nothing to do before it answers');
SELECT t.whole();
SELECT t.submit('d', '7', 'u2', 'w4') AS w4 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w4) || ' ' || t.reason_code(:w4), 'queued no_node_fits', 'F41: nobody takes the reserve');
SELECT t.says(:pod, 'gone');
SELECT is(rpq.run_operations(), 1, 'the pod is gone');
SELECT is(t.op(:op), 'succeeded evacuate', 'drained');
SELECT is(t.moves(:op), 'w1.0 n2>n3 done, w2.0 n2>n3 done, w2.2 n2>n1 done', 'all have moved');
SELECT is(t.node_state('n2') || ', ' || t.node_state('n3'), 'used 0 reserved 0 cordoned, used 8 reserved 0',
		  'the reserve has become the pod');
SELECT is(t.used('d') || ' ' || t.member_used('d', 'u1'), :'used' || ' ' || :'u1', 'F41: charged once');
SELECT t.whole();
SELECT rpq.stop(:w4) AS x \gset

-- Cancelled while an executor has the pod: all as before, what has moved stays.
SELECT rpq.uncordon_node('n2');
SELECT t.says(t.pod(:w1), 'running');
SELECT rpq.drain_node(node => 'n3') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.node_state('n3'), 'used 4 reserved 0 cordoned draining', 'n3 is being emptied');
SELECT is(rpq.cancel_operation(:op), true, 'cancelled');
SELECT is(t.op(:op), 'cancelled evacuate', 'ended');
SELECT is(t.moves(:op) ~ '^w1.0 n3>n. failed cancelled,', true, 'its move has failed');
SELECT is(t.node_state('n3') || ' ' || (SELECT p.status FROM rpq.pools p WHERE p.name = 'd'), 'used 4 reserved 0 ready',
		  'n3 takes work again');
SELECT is((SELECT t.gpu(rpq.sum(n.reserved)) FROM rpq.nodes n), 0::numeric, 'no hold is left');
SELECT t.whole();
-- Pending: what the call has done is undone as well.
SELECT rpq.drain_node(node => 'n3') AS op \gset
SELECT is(t.node_state('n3'), 'used 4 reserved 0 cordoned', 'cordoned');
SELECT rpq.cancel_operation(:op) AS x \gset
SELECT is(t.node_state('n3') || ' ' || t.op(:op), 'used 4 reserved 0 cancelled', 'a pending drain leaves nothing');

-- The pod ends by itself while it is being moved.
SELECT rpq.drain_node(node => 'n3') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.moves(:op) ~ 'evicting', true, 'w1 is told to stop');
SELECT t.says(t.pod(:w1), 'finished', 'succeeded');
SELECT rpq.report_finished(workload => :w1) AS x \gset
SELECT is(rpq.run_operations(), 1, 'it has ended instead');
SELECT is(t.op(:op) || ' ' || t.moves(:op), 'succeeded evacuate w1.0 n3>n1 skipped pod_changed', 'its move is skipped');
SELECT is(t.node_state('n3') || ', ' || t.node_state('n2'), 'used 0 reserved 0 cordoned, used 2 reserved 0', 'nothing is kept');
SELECT t.whole();

-- The target turns bad: another; none left: the operation fails, and is undone.
SELECT rpq.uncordon_node('n3');
SELECT t.says(t.pod(:w2, n), 'running') FROM generate_series(0, 2) n;
SELECT is(t.nodes(:w2), 'n1,n2,n1', 'w2 is on n1 and n2');
SELECT rpq.drain_node(node => 'n2') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.moves(:op), 'w2.1 n2>n1 evicting', 'to n1');
SELECT rpq.cordon_node('n1');
SELECT rpq.run_operations() AS x \gset
SELECT is(t.moves(:op), 'w2.1 n2>n3 evicting', 'n1 takes nothing any more: to n3');
SELECT t.whole();
SELECT rpq.set_node_health('n3', 'degraded', 'fan');
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || ' ' || t.moves(:op), 'failed evacuate RQ006 w2.1 n2>n3 failed node_unhealthy', 'no place is left');
SELECT is(t.node_state('n2') || ' ' || (SELECT p.status FROM rpq.pools p WHERE p.name = 'd'), 'used 2 reserved 0 failed',
		  'the node is as before');
SELECT is((SELECT o.error FROM rpq.operations o WHERE o.operation_id = :op),
		  format('pods cannot be placed elsewhere any more: n2: workload %s replica 1 (gpu=2)', :w2), 'the error names the pod');
SELECT t.whole();

-- Time is over.
SELECT rpq.set_node_health('n3', 'healthy');
SELECT rpq.drain_node(node => 'n2') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.moves(:op), 'w2.1 n2>n3 evicting', 'an executor has the pod');
UPDATE rpq_store.pod_migration SET evicted_at = evicted_at - interval '11 min', reserved_at = reserved_at - interval '11 min',
	planned_at = planned_at - interval '11 min' WHERE operation_id = :op;
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || ' ' || t.moves(:op), 'failed evacuate RQ006 w2.1 n2>n3 failed timeout', 'it did not let go');
SELECT is(t.node_state('n2') || ', ' || t.node_state('n3'), 'used 2 reserved 0, used 0 reserved 0', 'all as before');
SELECT t.whole();

-- A replica that has succeeded moves with its report; tried again, the operation finds its way.
SELECT t.says(t.pod(:w2, 1), 'finished', 'succeeded');
SELECT rpq.retry_operation(:op) AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || ' ' || t.moves(:op), 'succeeded evacuate w2.1 n2>n3 done', 'moved');
SELECT is((SELECT r.state || ' ' || r.outcome FROM rpq_store.pod_report r WHERE r.pod_id = t.pod(:w2, 1)),
		  'finished succeeded', 'with what it reported');
SELECT is(t.node_state('n2'), 'used 0 reserved 0 cordoned', 'cordoned by the drain that was tried again');
SELECT t.whole();

-- A part of a device.
SELECT rpq.uncordon_node(n) FROM unnest('{n1,n2}'::text[]) n;
SELECT t.says(t.pod(:w2, n), 'finished', 'succeeded') FROM generate_series(0, 2) n;
SELECT rpq.stop(:w2) AS x \gset
SELECT rpq.submit(pool => 'd', workload_type => 'training', resources => 'gpu=1/7,cpu=1', account => 'u3', name => 'w5') AS w5 \gset
SELECT t.pass() AS x \gset
SELECT t.says(t.pod(:w5), 'running');
SELECT rpq.drain_node(node => t.nodes(:w5)) AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.moves(:op), 'w5.0 n1>n2 evicting', 'a part of a device is held');
SELECT t.whole();
SELECT t.says(t.pod(:w5), 'gone');
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || ' ' || t.nodes(:w5), 'succeeded evacuate n2', 'and has moved');
SELECT t.whole();

-- A node without pods, also in a shared pool.
SELECT rpq.drain_node(node => 'n4') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || ' ' || t.node_state('n4'), 'succeeded evacuate used 0 reserved 0 cordoned', 'an empty node');
SELECT t.whole();
-- The same with an executor of its own, cycles in between: stop, gone, moved, started at the target.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{m1,m2}') AS x \gset
SELECT rpq.create_pool(name => 'e', type => 'dedicated', nodes => '{m1,m2}') AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT rpq.authorize(pool => 'e', accounts => '{u4}') AS x \gset
CREATE FUNCTION t.sync(node_name text, runs bigint[] DEFAULT '{}', ends jsonb DEFAULT '[]') RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(format('%s %s.%s', s.action, w.name, s.attempt), ', ' ORDER BY s.action, s.pod), 'nothing')
	FROM rpq.sync_node(node => node_name, running => runs, finished => ends) AS s
	LEFT JOIN rpq.workload_history AS w ON w.workload_id = s.workload $$;
SELECT t.submit('e', '4', 'u4', 'w6') AS w6 \gset
SELECT t.pass() AS x \gset
SELECT t.submit('e', '1', 'u4', 'w7', 2) AS w7 \gset
SELECT t.pass() AS x \gset
SELECT is(t.sync('m1') || ', ' || t.sync('m2'), 'start w6.1, start w7.1, start w7.1, nothing', 'all start on m1');
SELECT t.pod(:w6) AS p6, t.pod(:w7, 0) AS p70, t.pod(:w7, 1) AS p71 \gset
SELECT is(t.sync('m1', ARRAY[:p6, :p70, :p71]), 'nothing', 'and run');
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(w.status, ' ') FROM rpq.workloads w WHERE w.workload_id IN (:w6, :w7)), 'running running', 'as reported');
SELECT rpq.drain_node(node => 'm1') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.sync('m1', ARRAY[:p6, :p70, :p71]), 'stop w6.1, stop w7.1, stop w7.1', 'the executor is told to stop them');
SELECT is(t.sync('m2'), 'nothing', 'none starts elsewhere before');
SELECT t.pass() AS x \gset
SELECT t.whole();
SELECT is(t.sync('m1', ARRAY[:p6], format('[{"pod": %s, "outcome": "stopped"}]', :p70)::jsonb), 'stop w6.1', 'two have stopped');
SELECT t.pass() AS x \gset
SELECT is(t.status(:w7), 'running', 'a cycle leaves them to the move');
SELECT rpq.run_operations() AS x \gset
SELECT is(t.moves(:op), 'w6.0 m1>m2 evicting, w7.0 m1>m2 done, w7.1 m1>m2 done', 'they move');
SELECT t.whole();
SELECT is(t.sync('m2'), 'start w7.3, start w7.3', 'and start at the target, as the present attempt');
SELECT is((SELECT w.status FROM rpq.workloads w WHERE w.workload_id = :w7), 'starting', 'starting');
SELECT is(t.sync('m2', ARRAY[t.pod(:w7, 0), t.pod(:w7, 1)]), 'nothing', 'they run there');
SELECT t.pass() AS x \gset
SELECT is((SELECT w.status FROM rpq.workloads w WHERE w.workload_id = :w7), 'running', 'running');
-- What has succeeded by itself, though it was told to stop, has succeeded.
SELECT t.sync('m1', '{}', format('[{"pod": %s, "outcome": "succeeded"}]', :p6)::jsonb) AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w6), 'succeeded', 'the report wins');
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || ' ' || t.moves(:op), 'succeeded evacuate w6.0 m1>m2 skipped pod_changed, w7.0 m1>m2 done, w7.1 m1>m2 done', 'its move is skipped');
SELECT is((SELECT string_agg(format('%s %s', e.event, e.attempt), ', ' ORDER BY e.workload_event_id)
		   FROM rpq.workload_events e WHERE e.workload_id = :w7),
		  'submitted 0, admitted 1, started 1, moved 1, moved 2, started 3', 'the events of w7');
SELECT t.whole();
-- A pod that is lost before it is told to stop is lost, not moved.
SELECT rpq.uncordon_node('m1');
SELECT rpq.drain_node(node => 'm2') AS op \gset
SELECT t.sync('m2', ARRAY[t.pod(:w7, 0)]) AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op) || coalesce(t.moves(:op), ' none'), 'succeeded evacuate none', 'nothing is left to move');
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(format('%s %s', e.event, e.attempt), ', ' ORDER BY e.workload_event_id)
		   FROM rpq.workload_events e WHERE e.workload_id = :w7 AND e.attempt > 3 OR e.workload_id = :w7 AND e.event = 'lost'),
		  'lost 3, admitted 4', 'w7 was lost, and is placed again');
SELECT is(t.nodes(:w7), 'm1,m1', 'not on the drained node');
SELECT t.whole();

-- What ended after the fold is still in its place: nothing is held there.  A concurrent end is a release that the fold of
-- this transaction has not counted.
SELECT rpq.stop(:w7) AS x \gset
SELECT t.sync('m1') AS x \gset
SELECT t.pass() AS x \gset
SELECT rpq.uncordon_node('m2');
SELECT t.submit('e', '8', 'u4', 'w8') AS w8 \gset
SELECT t.pass() AS x \gset
SELECT t.submit('e', '5', 'u4', 'w9') AS w9 \gset
SELECT t.pass() AS x \gset
SELECT pool_id AS e FROM rpq.pools WHERE name = 'e' \gset
BEGIN;
SELECT rpq_store.take_turns(ARRAY[:e]);
SELECT rpq_store.fold(ARRAY[:e]);
SELECT rpq.stop(:w8) AS x \gset
SELECT is((SELECT m.to_node_id FROM rpq_store.plan_moves(:e, ARRAY[t.node(t.nodes(:w9))]) AS m), NULL, 'no room on the counted nodes');
SELECT isnt((SELECT m.to_node_id FROM rpq_store.plan_moves(:e, ARRAY[t.node(t.nodes(:w9))], folded => false) AS m), NULL,
	'room for one who only looks');
COMMIT;
SELECT t.whole();

SELECT * FROM finish();

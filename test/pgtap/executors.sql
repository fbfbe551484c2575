-- Executors: what sync_node says and answers, how a gang starts and ends by its reports, what keeps a device from being
-- given away before its pod has gone, silence and return, capacity.
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
-- A report, and its answer in words: 'stop 3, start 5 [0,1]'.
CREATE FUNCTION t.sync(node_name text, runs bigint[] DEFAULT '{}', ends jsonb DEFAULT '[]', has rpq.resources DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT coalesce(string_agg(format('%s %s%s', s.action, s.pod, CASE WHEN s.action = 'start' THEN
				' [' || array_to_string(s.devices, ',') || ']' END), ', '), 'nothing')
			FROM rpq.sync_node(node => node_name, running => runs, finished => ends, capacity => has) s);
END $$;
CREATE FUNCTION t.pod(id bigint, replica_no int DEFAULT 0) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT p.pod_id FROM rpq.pods p WHERE p.workload_id = id AND p.replica = replica_no);
END $$;
CREATE FUNCTION t.ended(pod bigint, outcome text, detail text DEFAULT NULL, node_fault boolean DEFAULT NULL) RETURNS jsonb
LANGUAGE sql AS $$ SELECT jsonb_build_array(jsonb_build_object('pod', pod, 'outcome', outcome, 'detail', detail, 'node_fault', node_fault)) $$;
CREATE FUNCTION t.events(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(e.event || coalesce('/' || e.cause, ''), ' ' ORDER BY e.workload_event_id)
			FROM rpq.workload_events e WHERE e.workload_id = id);
END $$;
CREATE FUNCTION t.raw(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT w.status FROM rpq.workload_history w WHERE w.workload_id = id);
END $$;

-- ---- one pod: started, running, finished
SELECT is(t.sync('n1'), 'nothing', 'an empty node has nothing to do');
SELECT is((SELECT last_seen FROM rpq.nodes WHERE name = 'n1'), '2026-03-01 12:00Z'::timestamptz, 'it was heard of');
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=2', account => 'u1', spec => '{"image": "x"}') AS w1 \gset
SELECT t.pass() AS x \gset
SELECT t.pod(:w1) AS p1 \gset
SELECT is(t.sync('n1'), format('start %s [0,1]', :p1), 'the pod is to be started');
SELECT is((SELECT format('%s %s %s %s', s.workload = :w1, s.attempt, s.resources, s.spec) FROM rpq.sync_node('n1') s),
		  't 1 gpu=2 {"image": "x"}', 'again, as it was not reported yet');
SELECT is(t.raw(:w1), 'starting', 'it is starting');
SELECT is(t.sync('n1', ARRAY[:p1]), 'nothing', 'it is reported as running');
SELECT is(t.raw(:w1), 'starting', 'the cycle makes it so');
SELECT t.pass() AS x \gset
SELECT is(t.raw(:w1), 'running', 'now it is running');
SELECT is(t.events(:w1), 'submitted admitted started', 'one event');
-- the same report again changes nothing
SELECT t.stored() AS before \gset
SELECT is(t.sync('n1', ARRAY[:p1]), 'nothing', 'the same report');
SELECT is(t.stored(), :'before', 'changes nothing');
SELECT t.pass() AS x \gset
SELECT is(t.stored(), :'before', 'nor does a cycle after it');
SELECT is(rpq.report_checkpoint(:w1, detail => 's3://c/7'), true, 'a checkpoint');
SELECT is(t.sync('n1', ends => t.ended(:p1, 'succeeded', 'done')), 'nothing', 'finished');
SELECT t.stored() AS before \gset
SELECT is(t.sync('n1', ends => t.ended(:p1, 'succeeded', 'done')), 'nothing', 'finished, said again');
SELECT is(t.stored(), :'before', 'changes nothing');
SELECT t.pass() AS x \gset
SELECT is(t.events(:w1), 'submitted admitted started succeeded/succeeded', 'it has succeeded');
SELECT is((SELECT detail FROM rpq.workload_events WHERE workload_id = :w1 AND event = 'succeeded'), 'done', 'with the detail');
SELECT is((SELECT count(*) FROM rpq_store.pod_report) + (SELECT count(*) FROM rpq_store.hold), 0::bigint, 'nothing is left of it');
SELECT is(t.sync('n1', ends => t.ended(:p1, 'failed')), 'nothing', 'a report of a pod that is long gone');
SELECT is(t.events(:w1), 'submitted admitted started succeeded/succeeded', 'is ignored');
SELECT is((SELECT count(*) FROM rpq_store.pod_report), 0::bigint, 'and stored nowhere');

-- ---- a gang
SELECT t.submit('c1-gpu', '4', 'u1', 'gang', 3) AS gang \gset
SELECT t.pass() AS x \gset
SELECT t.sync('n2') AS x \gset
SELECT array_agg(pod_id ORDER BY pod_id) FILTER (WHERE node = 'n1') AS on1, array_agg(pod_id ORDER BY pod_id) FILTER (WHERE node = 'n2') AS on2
FROM rpq.pods WHERE workload_id = :gang \gset
SELECT t.sync('n1') AS x, t.sync('n2') AS y \gset
SELECT t.sync('n1', :'on1') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.raw(:gang), 'starting', 'a part of it runs');
SELECT t.sync('n2', :'on2') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.raw(:gang), 'running', 'all of it runs');
SELECT (:'on1'::bigint[])[1] AS first, t.pod(:gang, 2) AS last \gset
SELECT is(t.sync('n1', (:'on1'::bigint[])[2:], t.ended(:first, 'succeeded')), 'nothing', 'one pod has succeeded');
SELECT t.pass() AS x \gset
SELECT is(t.raw(:gang), 'running', 'the rest goes on');
SELECT is(t.sync('n1', (:'on1'::bigint[])[2:]), 'nothing', 'the executor has forgotten it, and need not start it again');
SELECT (:'on2'::bigint[])[1] AS bad \gset
SELECT is(t.sync('n2', (:'on2'::bigint[])[2:], t.ended(:bad, 'failed', 'exit 1', true)), 'nothing', 'one has failed');
SELECT t.pass() AS x \gset
SELECT is(t.raw(:gang), 'failed', 'then all of it has');
SELECT is((SELECT format('%s %s', cause, detail) FROM rpq.workload_events WHERE workload_id = :gang AND event = 'failed'), 'failed exit 1', 'with its detail');
SELECT is((SELECT format('%s %s', health, health_reason) FROM rpq.nodes WHERE name = 'n2'), format('degraded node fault at pod %s: exit 1', :bad),
		  'the node that it blames takes nothing new');
SELECT rpq.set_node_health('n2', 'healthy') AS x \gset
SELECT is(t.used('c1-gpu'), 0::numeric, 'usage ended with the attempt');
SELECT is((SELECT format('%s %s', t.gpu(reserved), t.gpu(available)) FROM rpq.nodes WHERE name = 'n1'), '4 4', 'the pod that still runs keeps its devices');
SELECT is((SELECT idle FROM rpq.nodes WHERE name = 'n1'), false, 'the node is not idle');
SELECT t.whole();
SELECT t.submit('c1-gpu', '8', 'u1', 'a') AS a, t.submit('c1-gpu', '8', 'u1', 'b') AS b \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:a) || '/' || t.status(:b), 'n2/queued', 'so only one node is free');
SELECT is(t.sync('n1', (:'on1'::bigint[])[2:]), format('stop %s', (:'on1'::bigint[])[2]), 'the executor is told to stop it');
SELECT is(t.sync('n1', ends => t.ended((:'on1'::bigint[])[2], 'stopped')), 'nothing', 'it has stopped');
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:b), 'n1', 'the other one starts there');
SELECT is((SELECT count(*) FROM rpq_store.hold), 0::bigint, 'no hold is left');
SELECT is(t.events(:gang), 'submitted admitted started failed/failed', 'and no late report');
SELECT t.whole();

-- ---- stop, with the executor slow to let go
SELECT t.sync('n1') AS x, t.sync('n2') AS y \gset
SELECT t.pod(:b) AS pb, t.pod(:a) AS pa \gset
SELECT t.sync('n1', ARRAY[:pb]) AS x, t.sync('n2', ARRAY[:pa]) AS y \gset
SELECT t.pass() AS x \gset
SELECT rpq.stop(:b) AS x \gset
SELECT is(t.sync('n1', ARRAY[:pb]), format('stop %s', :pb), 'stopped, not counted yet: already to be stopped');
SELECT t.submit('c1-gpu', '2', 'u2', 'c') AS c \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:c), 'queued', 'no room until it has gone');
SELECT is((SELECT count(*) FROM rpq_store.hold WHERE purpose = 'stopping' AND expires_at = '2026-03-01 12:00:30Z'), 1::bigint, 'a hold for the grace');
SELECT t.at(0.5);
SELECT is(t.sync('n1', ARRAY[:pb]), format('stop %s', :pb), 'it is still there');
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:c), 'n1', 'after the grace its room is given away');
SELECT is(t.sync('n1', ARRAY[:pb]), format('stop %s', :pb), 'but nothing is started on a device that is in use');
SELECT is(t.sync('n1'), format('start %s [0,1]', t.pod(:c)), 'before it has gone');
SELECT is((SELECT count(*) FROM rpq_store.pod_report WHERE pod_id = :pb AND state = 'gone'), 1::bigint, 'it has gone');
SELECT t.pass() AS x \gset
SELECT is((SELECT count(*) FROM rpq_store.pod_report WHERE pod_id = :pb), 0::bigint, 'and is forgotten');
-- a late end, and a pod nobody knows
SELECT rpq.stop(:a) AS x \gset
SELECT is(t.sync('n2', ARRAY[999], t.ended(:pa, 'succeeded')), 'stop 999', 'an unknown pod is to be stopped');
SELECT is(t.events(:a), 'submitted admitted started stopped/stopped late_report/succeeded', 'an end after the end is a late report');
SELECT t.pass() AS x \gset
SELECT is((SELECT count(*) FROM rpq_store.hold), 0::bigint, 'its room is free at once');
SELECT is(t.sync('n2', ARRAY[999]), 'stop 999', 'and again');
SELECT is((SELECT count(*) FROM rpq_store.pod_report WHERE pod_id = 999), 0::bigint, 'but is stored nowhere');
SELECT t.whole();

-- ---- lost pods, and one that stopped by itself
SELECT t.sync('n1', ARRAY[t.pod(:c)]) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.raw(:c), 'running', 'c runs');
SELECT t.pod(:c) AS pc \gset
SELECT is(t.sync('n1'), 'nothing', 'it is no longer reported');
SELECT t.pass() AS x \gset
SELECT is(t.events(:c), 'submitted admitted started lost/pod_lost admitted', 'it is lost, and placed again');
SELECT is((SELECT attempt FROM rpq.workloads WHERE workload_id = :c), 2, 'as its second attempt');
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=1', account => 'u2', on_node_loss => 'fail') AS d \gset
SELECT t.pass() AS x \gset
SELECT (SELECT node FROM rpq.pods WHERE workload_id = :d) AS nd, t.pod(:d) AS pd, t.pod(:c) AS pc \gset
SELECT t.sync(:'nd') AS x \gset
SELECT t.sync(:'nd', ARRAY[:pd, :pc]) AS x \gset
SELECT t.sync(:'nd', ARRAY[:pc]) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.events(:d), 'submitted admitted failed/pod_lost', 'lost, and failed by its own wish');
SELECT t.sync(:'nd', ends => t.ended(:pc, 'stopped', 'evicted by the operator')) AS x \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT format('%s %s', event, detail) FROM rpq.workload_events WHERE workload_id = :c ORDER BY workload_event_id DESC LIMIT 1),
		  'stopped evicted by the operator', 'one that nobody told to stop has stopped');
SELECT t.whole();

-- ---- silence
SELECT t.sync('n1') AS x, t.sync('n2') AS y \gset
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=8', account => 'u1', replicas => 2) AS g \gset
SELECT t.pass() AS x \gset
SELECT t.sync('n1') AS x, t.sync('n2') AS y \gset
SELECT t.sync('n1', ARRAY[(SELECT pod_id FROM rpq.pods WHERE node = 'n1')]) AS x, t.sync('n2', ARRAY[(SELECT pod_id FROM rpq.pods WHERE node = 'n2')]) AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.raw(:g), 'running', 'a gang over both nodes');
SELECT t.at(1.5);
SELECT t.sync('n2', ARRAY[(SELECT pod_id FROM rpq.pods WHERE node = 'n2')]) AS y, (SELECT pod_id FROM rpq.pods WHERE node = 'n1') AS p1, (SELECT pod_id FROM rpq.pods WHERE node = 'n2') AS p2 \gset
SELECT t.at(2.1);
SELECT t.pass() AS x \gset
SELECT is((SELECT format('%s %s', health, health_reason) FROM rpq.nodes WHERE name = 'n1'), 'unhealthy no sign of life since 2026-03-01 12:00:30 UTC', 'n1 is silent');
SELECT is((SELECT health FROM rpq.nodes WHERE name = 'n2'), 'healthy', 'n2 is not');
SELECT is(t.events(:g), 'submitted admitted started lost/node_lost', 'the gang is lost');
SELECT is((SELECT t.gpu(reserved) FROM rpq.nodes WHERE name = 'n2'), 8::numeric, 'what runs on n2 keeps its devices');
SELECT is((SELECT t.gpu(reserved) FROM rpq.nodes WHERE name = 'n1'), 0::numeric, 'on n1 nobody has them');
SELECT is(t.sync('n2', ARRAY[:p2]), format('stop %s', :p2), 'n2 is told to stop it');
SELECT is(t.sync('n2'), 'nothing', 'n2 has stopped it');
SELECT is(t.sync('n1', ARRAY[:p1]), format('stop %s', :p1), 'n1 is back, and told to stop it too');
SELECT t.pass() AS x \gset
SELECT is((SELECT format('%s %s', health, health_reason) FROM rpq.nodes WHERE name = 'n1'), 'healthy ', 'n1 is healthy again');
SELECT is(t.status(:g), 'running', 'the gang is placed again');
SELECT is(t.sync('n1', ARRAY[:p1]), format('stop %s', :p1), 'but not started on n1 before the old pod has gone');
SELECT is(t.sync('n1'), format('start %s [0,1,2,3,4,5,6,7]', (SELECT pod_id FROM rpq.pods WHERE node = 'n1')), 'now it is');
SELECT t.whole();
-- what an administrator set is never healed by a report, and comes back after a silence
SELECT rpq.stop(:g) AS x, rpq.set_node_health('n2', 'degraded', 'on watch') AS y, rpq.cordon_node('n2') AS z \gset
SELECT t.at(10);
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(name || ' ' || health, ', ' ORDER BY name) FROM rpq.nodes), 'n1 unhealthy, n2 unhealthy', 'both are silent');
SELECT t.sync('n1') AS x, t.sync('n2', has => 'gpu=8') AS y \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT format('%s %s %s', health, health_reason, schedulable) FROM rpq.nodes WHERE name = 'n2'), 'degraded on watch f', 'as it was before');
SELECT rpq.set_node_health('n2', 'unhealthy', 'broken') AS x \gset
SELECT t.sync('n2', has => 'gpu=8') AS y \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT format('%s %s', health, health_reason) FROM rpq.nodes WHERE name = 'n2'), 'unhealthy broken', 'a report heals nothing else');
-- without an executor from now on
SELECT t.at(20);
SELECT t.pass() AS x \gset
SELECT rpq.set_node_health('n2', 'healthy') AS x, rpq.set_node_health('n1', 'healthy') AS y, rpq.uncordon_node('n2') AS z \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(format('%s %s %s', name, health, last_seen), ', ' ORDER BY name) FROM rpq.nodes), 'n1 healthy , n2 healthy ',
		  'an administrator''s word ends the silence: they count as nodes without an executor');

-- ---- capacity
SELECT t.submit('c1-gpu', '8', 'u1', 'e') AS e \gset
SELECT t.pass() AS x \gset
SELECT t.nodes(:e) AS ne, (SELECT name FROM rpq.nodes WHERE name <> t.nodes(:e)) AS other \gset
SELECT t.sync(:'ne', has => 'gpu=6') AS x, t.sync(:'other', has => 'gpu=5') AS y \gset
SELECT t.submit('c1-gpu', '6', 'u2', 'f') AS f \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:e) || t.status(:f), 'runningqueued', 'what runs goes on, and nothing is placed on devices that are not there');
SELECT is((SELECT format('%s %s %s', t.gpu(capacity), t.gpu(reported), t.gpu(available)) FROM rpq.nodes WHERE name = :'ne'), '8 6 0', 'more in use than there is: nothing available');
SELECT is((SELECT format('%s %s %s', t.gpu(capacity), t.gpu(reported), t.gpu(available)) FROM rpq.nodes WHERE name = :'other'), '8 5 5', 'the lesser of both is available');
SELECT is((SELECT format('%s %s %s %s', t.gpu(total), t.gpu(used), t.gpu(unavailable), t.gpu(available)) FROM rpq.pools), '16 8 3 5', 'the difference is unavailable');
SELECT t.whole();
SELECT t.sync(:'other', has => 'gpu=16') AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:f), :'other', 'all of it is there again');
SELECT is((SELECT format('%s %s', t.gpu(total), t.gpu(available)) FROM rpq.pools), '16 2', 'never more than nominal');
SELECT t.whole();

-- ---- a drain: the executor is told to stop the pod, and the pod comes to be elsewhere; undone, it goes on or comes back
SELECT rpq.stop(:e) AS x, rpq.stop(:f) AS y \gset
SELECT t.sync('n1') AS x, t.sync('n2') AS y \gset
SELECT t.pass() AS x \gset
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=2', account => 'u1') AS h \gset
SELECT t.pass() AS x \gset
SET rpq.synchronous_operations = off;
SELECT t.nodes(:h) AS nh, t.pod(:h) AS ph, (SELECT name FROM rpq.nodes WHERE name <> t.nodes(:h)) AS other \gset
SELECT t.sync(:'nh') AS x, t.sync(:'nh', ARRAY[:ph]) AS y \gset
SELECT rpq.drain_node(:'nh') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT status FROM rpq.pod_migrations WHERE operation_id = :op), 'evicting', 'the pod is to leave');
SELECT is(t.sync(:'nh', ARRAY[:ph]), format('stop %s', :ph), 'its executor is told so');
SELECT is((SELECT status FROM rpq.operations WHERE operation_id = :op), 'running', 'the drain waits for it');
SELECT is(t.sync(:'nh', ends => t.ended(:ph, 'stopped')), 'nothing', 'it has stopped');
SELECT t.pass() AS x \gset
SELECT is(t.status(:h), 'running', 'that is no end');
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT status FROM rpq.operations WHERE operation_id = :op), 'succeeded', 'drained');
SELECT is(t.nodes(:h), :'other', 'the pod is elsewhere');
SELECT is(t.sync(:'other'), format('start %s [0,1]', t.pod(:h)), 'and to be started there');
SELECT is((SELECT attempt FROM rpq.workloads WHERE workload_id = :h), 2, 'as the next attempt');
SELECT t.pod(:h) AS ph \gset
SELECT t.sync(:'other', ARRAY[:ph]) AS x, rpq.uncordon_node(:'nh') AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.raw(:h), 'running', 'there it runs');
SELECT t.whole();
SELECT rpq.drain_node(:'other') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.sync(:'other', ARRAY[:ph]), format('stop %s', :ph), 'told to leave again');
SELECT is(rpq.cancel_operation(:op), true, 'the drain is cancelled');
SELECT is(t.sync(:'other', ARRAY[:ph]), 'nothing', 'nobody tells it to stop any more');
SELECT is(t.sync(:'other', ends => t.ended(:ph, 'stopped')), 'nothing', 'but it stops after all');
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(event || coalesce('/' || cause, ''), ' ' ORDER BY workload_event_id) FROM (SELECT * FROM rpq.workload_events
		   WHERE workload_id = :h ORDER BY workload_event_id DESC LIMIT 2) x), 'requeued/evicted admitted', 'then it is queued and placed again');
SELECT t.whole();
SELECT * FROM finish();

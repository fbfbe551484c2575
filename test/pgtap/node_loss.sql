-- Nodes that are lost: each workload with a pod there loses all its pods at once, its quota is given back once, and it
-- is queued again with its submission time, or has failed.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3}') AS x \gset
CREATE FUNCTION t.events(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(e.event || coalesce('/' || e.cause, ''), ' ' ORDER BY e.workload_event_id)
			FROM rpq.workload_events e WHERE e.workload_id = id);
END $$;
CREATE FUNCTION t.held(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(format('%s %s', l.kind, t.gpu(l.resources)), ' ' ORDER BY l.ledger_id)
			FROM rpq.ledger l WHERE l.workload_id = id);
END $$;

-- A gang over two nodes, one that fails by its own wish, and one elsewhere.
SELECT t.submit('c1-gpu', '6', 'u1', 'gang', 2) AS gang \gset
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=2', account => 'u2', name => 'frail',
				  on_node_loss => 'fail') AS frail \gset
SELECT t.submit('c1-gpu', '8', 'u2', 'other') AS other \gset
SELECT t.pass() AS x \gset
SELECT (SELECT min(node) FROM rpq.node_pods WHERE workload_id = :frail) AS lost,
	   (SELECT submitted_at FROM rpq.workloads WHERE workload_id = :gang) AS since \gset
SELECT is(t.used('c1-gpu'), 22::numeric, 'all three run');
SELECT ok((SELECT count(*) = 1 FROM rpq.node_pods WHERE workload_id = :gang AND node = :'lost'), 'two of them on the node');

SELECT lives_ok(format('SELECT rpq.set_node_health(%L, ''unhealthy'', ''fan broken'')', :'lost'), 'the node is lost');
SELECT is(t.status(:gang), 'queued', 'the gang waits again at once');
SELECT is(t.status(:frail), 'failed', 'what asked for it has failed');
SELECT is(t.status(:other), 'running', 'what is elsewhere runs on');
SELECT is((SELECT submitted_at FROM rpq.workloads WHERE workload_id = :gang), :'since'::timestamptz,
		  'its submission time is kept');
SELECT is((SELECT nodes FROM rpq.workloads WHERE workload_id = :gang), NULL::text[], 'it is on no node');
SELECT is((SELECT preemptions FROM rpq.workloads WHERE workload_id = :gang), 0, 'and it was not preempted');
SELECT is(t.events(:gang), 'submitted admitted lost/node_lost', 'one event of the loss');
SELECT is(t.events(:frail), 'submitted admitted failed/node_lost', 'one of the failure');
SELECT is((SELECT detail FROM rpq.workload_events WHERE workload_id = :gang AND event = 'lost'),
		  format('node "%s" is unhealthy: fan broken', :'lost'), 'with the node');
SELECT is(t.held(:gang), 'admit 12 release -12', 'what it held is given back once');
SELECT is(t.used('c1-gpu'), 8::numeric, 'pool.used 8');
SELECT is(t.member_used('c1-gpu', 'u1'), 0::numeric, 'u1 holds nothing');
SELECT is((SELECT count(*) FROM rpq_store.pod), 1::bigint, 'no pod of it is left');
SELECT is((SELECT format('%s %s %s', health, health_reason, t.gpu(available)) FROM rpq.nodes WHERE name = :'lost'),
		  'unhealthy fan broken 0', 'the node takes nothing');
SELECT is((SELECT format('%s %s %s', t.gpu(total), t.gpu(unavailable), t.gpu(available)) FROM rpq.pools), '24 8 8',
		  'what is free on it is unavailable');
SELECT t.whole();

SELECT t.pass() AS x \gset
SELECT is(t.status(:gang), 'queued', 'one node is too few for the gang');
SELECT matches((SELECT string_agg(detail || ' | ' || way_out, '; ') FROM rpq.explain(:gang) WHERE NOT passed),
			   format('node "%s" has room and takes nothing new: unhealthy', :'lost'), 'explain names the lost node');
SELECT rpq.set_node_health(:'lost', 'degraded', 'new fan, on watch') AS x;
SELECT t.pass() AS x \gset
SELECT is(t.status(:gang), 'queued', 'nothing new on a degraded node');
SELECT rpq.set_node_health(:'lost', 'healthy') AS x;
SELECT t.pass() AS x \gset
SELECT is(t.status(:gang), 'running', 'healthy again: it runs');
SELECT is((SELECT attempt FROM rpq.workloads WHERE workload_id = :gang), 2, 'as its second attempt');
SELECT is(rpq.report_finished(:gang, attempt => 1), false, 'the first has ended');
SELECT rpq.set_node_health(:'lost', 'degraded') AS x;
SELECT is(t.status(:gang), 'running', 'degraded takes nothing away');
SELECT rpq.set_node_health(:'lost', 'healthy') AS x;

-- Removing: refused while in use; by force what stands there is lost.
SELECT throws_ok(format('SELECT rpq.remove_nodes(ARRAY[%L])', :'lost'), 'RQ006', NULL, 'removing is refused');
SELECT is(rpq.remove_nodes(ARRAY[:'lost'], force => true), 1, 'but not by force');
SELECT is(t.status(:gang), 'queued', 'the gang waits again');
SELECT is((SELECT detail FROM rpq.workload_events WHERE workload_id = :gang ORDER BY workload_event_id DESC LIMIT 1),
		  format('node "%s" was removed', :'lost'), 'told why');
SELECT is((SELECT count(*) FROM rpq.nodes), 2::bigint, 'two nodes are left');
SELECT is((SELECT format('%s %s', t.gpu(total), t.gpu(used)) FROM rpq.pools), '16 8', 'total 16, used 8');
SELECT t.whole();
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'remove_nodes'), 1::bigint, 'one row in the history');
SELECT is(rpq.add_nodes(instance_type => 'g8', names => ARRAY[:'lost']), ARRAY[:'lost'], 'its name is free');
SELECT t.pass() AS x \gset
SELECT is(t.status(:gang), 'running', 'and the gang runs on the new machine');

-- Several nodes at once, of one gang: one release.
SELECT is(rpq.remove_nodes(ARRAY(SELECT DISTINCT node FROM rpq.node_pods WHERE workload_id = :gang), force => true), 2,
		  'both nodes of the gang go');
SELECT is(t.held(:gang), 'admit 12 release -12 admit 12 release -12 admit 12 release -12', 'each attempt is released once');
SELECT t.whole();

-- requeue: off its nodes, back to the queue, not before the delay.
SET rpq.workload_history_retention = '1000000 h';
SET rpq.clock = '2031-01-01 00:00Z';
SELECT t.submit('c1-gpu', '8', 'u2', 'next') AS next \gset
SELECT is(rpq.requeue(:other, delay => '10 min', reason => 'driver hangs'), true, 'a placed one is put back');
SELECT is(rpq.requeue(:other), false, 'one that waits is not');
SELECT throws_ok(format('SELECT rpq.requeue(%s, delay => ''-1 s'')', :next), '22023', 'delay must not be negative', 'no delay');
SELECT throws_ok('SELECT rpq.requeue(NULL)', '22023', NULL, 'no workload');
SELECT throws_ok('SELECT rpq.requeue(77777)', '42704', NULL, 'an unknown one');
SELECT is(t.used('c1-gpu'), 0::numeric, 'it holds nothing from now on');
SELECT t.pass() AS x \gset
SELECT is(t.status(:next), 'running', 'another takes its room');
SELECT is(t.reason_code(:other), 'backing_off', 'it is backing off');
SELECT is((SELECT check_name FROM rpq.explain(:other) WHERE NOT passed ORDER BY step LIMIT 1), 'backing_off', 'as explain says');
SELECT is((SELECT not_before FROM rpq.workloads WHERE workload_id = :other), '2031-01-01 00:10Z'::timestamptz,
		  'until ten minutes later');
SELECT is((SELECT format('%s %s %s', event, cause, detail) FROM rpq.workload_events WHERE workload_id = :other
		   ORDER BY workload_event_id DESC LIMIT 1), 'requeued requeued driver hangs', 'the event says why');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'requeue'), 1::bigint, 'and so does the history');
SELECT is(rpq.report_finished(:next), true, 'the other ends');
SET rpq.clock = '2031-01-01 00:09Z';
SELECT t.pass() AS x \gset
SELECT is(t.status(:other), 'queued', 'not before its time');
SET rpq.clock = '2031-01-01 00:10Z';
SELECT t.pass() AS x \gset
SELECT is(t.status(:other), 'running', 'then it runs again');
SELECT is(rpq.requeue(:other), true, 'put back without a delay');
SELECT t.pass() AS x \gset
SELECT is(t.status(:other), 'running', 'it runs with the next pass');
-- what had a delay and is lost afterwards waits in its plain lane
SELECT rpq.requeue(:other, delay => '1 s') AS x \gset
SET rpq.clock = '2031-01-01 00:11Z';
SELECT t.pass() AS x \gset
SELECT rpq.set_node_health(t.nodes(:other), 'unhealthy') AS x \gset
SELECT is(t.status(:other), 'queued', 'lost after a delayed requeue');
SELECT t.whole();
SELECT rpq.set_node_health(name, 'healthy') FROM rpq.nodes WHERE health <> 'healthy';
SELECT t.pass() AS x \gset
SELECT is(t.status(:other), 'running', 'and runs again');
SELECT t.whole();
SELECT * FROM finish();

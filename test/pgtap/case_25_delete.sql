-- Field case F25, its pool: delete says at once what stands against it; with force it takes it away, and nothing is lost
-- or left behind.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
-- SQLSTATE and message of a call that fails; the time that it takes is bounded.
CREATE FUNCTION t.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
	answer text := 'ok';
BEGIN
	BEGIN
		EXECUTE command;
	EXCEPTION WHEN OTHERS THEN
		answer := SQLSTATE || ' ' || SQLERRM;
	END;
	RETURN answer || CASE WHEN clock_timestamp() - since > interval '1 s' THEN ' (slow)' ELSE '' END;
END $$;
CREATE FUNCTION t.detail(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS answer = PG_EXCEPTION_DETAIL;
	RETURN SQLERRM || ' ' || answer;
END $$;
CREATE FUNCTION t.total() RETURNS numeric LANGUAGE sql AS $$ SELECT sum(t.gpu(total)) FROM rpq.pools $$;
CREATE FUNCTION t.statuses(VARIADIC ids bigint[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(t.status(i), ' ' ORDER BY o) FROM unnest(ids) WITH ORDINALITY x (i, o)
$$;

SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3}') AS x \gset
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=8') AS x \gset
SELECT pool_id AS d1 FROM rpq.pools WHERE name = 'd1' \gset
SELECT rpq.authorize(pool => 'd1', accounts => '{u1}') AS x \gset
SELECT t.submit('d1', '4', 'u1', 't3') AS t3 \gset
SELECT t.pass() AS x \gset
SELECT t.submit('d1', '8', 'u1', 't1') AS t1, t.submit('d1', '8', 'u1', 't2') AS t2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.total(), 24::numeric, 'sum 24');

-- (2) refused at once, each counted
SELECT t.stored() AS stored \gset
SELECT matches(t.said($$SELECT rpq.delete_pool(pool => 'd1')$$), '^RQ006 .*1 node, 1 member, (0 queues, )?3 live workloads[^(]*$', '(2) refused: each that stands against it is counted');
SET rpq.synchronous_operations = off;
SELECT matches(t.said($$SELECT rpq.delete_pool(pool => 'd1')$$), '^RQ006 .*1 node, 1 member, (0 queues, )?3 live workloads[^(]*$', '(2) by the call, not later');
SET rpq.synchronous_operations = on;
SELECT is(t.stored(), :'stored', '(2) nothing is changed, no operation is left');
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd1'), 'ready', '(2) the pool is ready');
-- what is only queued counts as well, drafts do not
SELECT rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=1', account => 'u1', draft => true) AS draft \gset
SELECT rpq.stop(workload => :t3) AS x \gset
SELECT matches(t.said($$SELECT rpq.delete_pool(pool => 'd1')$$), '^RQ006 .*1 node, 1 member, (0 queues, )?2 live workloads[^(]*$', 'what is queued is counted, a draft is not');
-- removing the member drafts what waits
SELECT rpq.deauthorize(pool => 'd1', accounts => '{u1}') AS x \gset
SELECT is(t.statuses(:t1, :t2), 'draft draft', '(5) u1 is removed: t1 and t2 are drafts');
SELECT matches(t.said($$SELECT rpq.delete_pool(pool => 'd1')$$), '^RQ006 [^,]*1 node([^s,][^,]*)?$', 'the node alone stands against it');
SELECT is(t.said($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=0')$$), 'ok', '(5) resized to 0');
SELECT is(t.total() || ' ' || t.used('d1'), '24 0', 'sum 24, used 0');
SELECT is(t.said($$SELECT rpq.delete_pool(pool => 'd1')$$), 'ok', '(5) deleted');
SELECT is((SELECT string_agg(name || ' ' || t.gpu(total), ',') FROM rpq.pools), 'c1-gpu 24', '(5) d1 is gone, the shared pool has all');
SELECT is(t.statuses(:t1, :t2, :t3), 'draft draft stopped', 'no workload follows');
SELECT is((SELECT count(*) FROM rpq_store.turn WHERE scope_id = :d1), 1::bigint, 'the scope of a deleted pool keeps its turn');
SELECT is(left(t.said('SELECT rpq.enqueue(workload => ' || :t1 || ')'), 5), '42704', 'a draft of it cannot be enqueued there');
SELECT is(rpq.enqueue(workload => :t1, pool => 'c1-gpu'), true, 'but elsewhere');
SELECT is(left(t.said(format('SELECT rpq.%s', call)), 5), '42704', 'not there any more: ' || call)
FROM unnest(ARRAY['delete_pool(pool => ''d1'')', 'resize_pool(pool => ''d1'', quota => ''gpu=8'')', 'edit_pool(pool => ''d1'', frozen => true)',
	'submit(pool => ''d1'', workload_type => ''training'', resources => ''gpu=1'', account => ''u1'')', 'authorize(pool => ''d1'', accounts => ''{u1}'')',
	'schedule(pool => ''d1'')']) call;

-- The name is free; ids and history are those of two pools.
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=16') AS x \gset
SELECT pool_id AS d2 FROM rpq.pools WHERE name = 'd1' \gset
SELECT isnt(:d1, :d2, 'another pool under the same name');
SELECT is((SELECT string_agg(action, ',' ORDER BY operation_history_id) FROM rpq.operation_history WHERE object_kind = 'pool' AND pool_id = :d1),
		  'create_pool,resize_pool,delete_pool', 'the history of the first is kept under its id');
SELECT is((SELECT count(*) FROM rpq.members WHERE pool = 'd1'), 0::bigint, 'no member is inherited');
SELECT is((SELECT string_agg(action, ',') FROM rpq.operation_history WHERE object_kind = 'pool' AND pool_id = :d2), 'create_pool', 'nor history');

-- With force.
CREATE ROLE case25_padm;
SELECT rpq.edit_account(account => 'u5', db_role => 'case25_padm') AS x \gset
SELECT rpq.grant_pool_admin(pool => 'd1', account => 'u5') AS x \gset
SELECT rpq.authorize(pool => 'd1', accounts => '{u1,u2}', quota => 'gpu=16') AS x \gset
SELECT t.submit('d1', '4', 'u1', 'f1') AS f1, t.submit('d1', '8', 'u2', 'f2') AS f2 \gset
SELECT t.pass() AS x \gset
SELECT rpq.report_started(workload => :f1) AS x \gset
SELECT t.submit('d1', '8', 'u1', 'f3') AS f3, t.submit('d1', '1', 'u2', 'f4') AS f4 \gset
SELECT rpq.cordon_node(node => n.name) AS x FROM rpq.nodes n WHERE n.pool = 'd1' \g /dev/null
SELECT rpq.uncordon_node(node => n.name) AS x FROM rpq.nodes n WHERE n.pool = 'd1' \g /dev/null
SELECT matches(t.said($$SELECT rpq.delete_pool(pool => 'd1')$$), '^RQ006 .*2 nodes, 2 members, (0 queues, )?4 live workloads[^(]*$', 'plurals');
SET ROLE case25_padm;
SELECT is(t.said($$SELECT rpq.delete_pool(pool => 'd1', force => true)$$), 'ok', 'its administrator deletes it with force');
RESET ROLE;
SELECT t.pass() AS x \gset
SELECT is(t.statuses(:f1, :f2, :f3, :f4), 'stopped stopped draft draft', 'what ran is stopped, what waited is draft');
SELECT is((SELECT string_agg(name || ' ' || t.gpu(total), ',') FROM rpq.pools), 'c1-gpu 24', 'the nodes are given back');
SELECT is((SELECT count(*) FROM rpq.members WHERE pool_id = :d2) + (SELECT count(*) FROM rpq.pool_admins WHERE pool_id = :d2)
		  + (SELECT count(*) FROM rpq.pods WHERE pool_id = :d2), 0::bigint, 'no member, administrator or pod is left');
SELECT is((SELECT t.gpu(rpq.sum(resources)) FROM rpq_store.entry WHERE pool_id = :d2), 0::numeric, 'the ledger adds up to nothing');
SELECT is((SELECT count(*) FROM rpq.workload_events WHERE workload_id IN (:f1, :f2) AND event = 'stopped'), 2::bigint, 'one end each');
SELECT is((SELECT string_agg(kind || ' ' || status || ' ' || initiator, ',') FROM rpq.operations WHERE pool_id = :d2 AND kind = 'delete'),
		  'delete succeeded u5', 'the operation is there');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE pool_id = :d2 AND action = 'delete_pool'), 1::bigint, 'one row in the history');
SELECT is((SELECT count(*) FROM rpq.migrations), 0::bigint, 'no migration record for a delete or a resize');

-- Asynchronous: it takes nothing more while it is being deleted; cancelled, it goes on.
SELECT rpq.create_pool(name => 'd3', type => 'dedicated', quota => 'gpu=8') AS x \gset
SELECT rpq.authorize(pool => 'd3', accounts => '{u1}') AS x \gset
SELECT t.submit('d3', '1', 'u1', 'g1') AS g1 \gset
SET rpq.synchronous_operations = off;
SELECT rpq.delete_pool(pool => 'd3', force => true) AS op \gset
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd3'), 'deleting', 'deleting');
SELECT matches(t.said('SELECT rpq.delete_pool(pool => ''d3'', force => true)'), '^RQ004 .*', 'the same again is refused');
SELECT is(t.detail('SELECT rpq.delete_pool(pool => ''d3'', force => true)') ~ ('\m' || :'op' || '\M'), true, 'naming the open one');
SELECT is(left(t.said('SELECT t.submit(''d3'', ''1'', ''u1'')'), 5), 'RQ004', 'a submission is refused');
SELECT t.pass() AS x \gset
SELECT is(t.status(:g1) || ' ' || t.reason_code(:g1), 'queued pool_not_ready', 'nothing is admitted');
SELECT is(rpq.cancel_operation(id => :op), true, 'cancelled');
SELECT t.pass() AS x \gset
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd3') || ' ' || t.status(:g1), 'ready running', 'ready again, and admits');
SELECT rpq.delete_pool(pool => 'd3', force => true) AS op \gset
SELECT is(rpq.run_operations() > 0, true, 'carried out');
SELECT is(t.status(:g1) || ' ' || (SELECT status FROM rpq.operations WHERE operation_id = :op), 'stopped succeeded', 'g1 is stopped');
SET rpq.synchronous_operations = on;
SELECT is(left(t.said('SELECT rpq.delete_pool(pool => ''c1-gpu'', force => true)'), 5), '22023', 'a shared pool is not deleted by hand');
SELECT is(t.total(), 24::numeric, 'sum 24 throughout');
SELECT t.pass() AS x \gset
SELECT * FROM t.whole();
SELECT * FROM finish();

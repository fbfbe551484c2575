-- Creating a pool is an operation: refused at once in the order of the contract, or carried out whole, once.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.synchronous_operations = off;
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}') AS x \gset
SELECT rpq.cordon_node(node => 'n4', reason => 'memory') AS x \gset
SELECT t.submit('c1-gpu', '1', 'u1', 'w') AS w \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w), 'n1', 'n1 is in use, n4 is cordoned, n2 and n3 are idle');
CREATE FUNCTION t.sum() RETURNS text LANGUAGE sql AS $$
	SELECT count(*) || ' ' || (SELECT t.gpu(rpq.sum(total)) FROM rpq.pools) FROM rpq.nodes
$$;

-- Asynchronously.
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=8', description => 'first') AS d1 \gset
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'd1'), 'creating 0', 'the call leaves the pool creating');
SELECT is((SELECT kind || ' ' || pool || ' ' || status FROM rpq.operations WHERE operation_id = :d1), 'create d1 pending', 'and an operation');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'create_pool'), 0::bigint, 'without a history row yet');
SELECT isnt(t.outcome($$SELECT t.submit('d1', '1', 'u1')$$), 'ok', 'nobody is authorised');
SELECT is(t.outcome($$SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=0')$$), '42710', 'its name is taken');
SELECT is(rpq.run_operations() >= 1, true, 'run_operations carries it out');
SELECT is((SELECT status || ' ' || t.gpu(total) || ' ' || description FROM rpq.pools WHERE name = 'd1'), 'ready 8 first', 'the pool is ready');
SELECT is((SELECT status || ' ' || progress::int FROM rpq.operations WHERE operation_id = :d1), 'succeeded 1', 'the operation has succeeded');
SELECT is((SELECT count(*) || ' ' || count(operation_id) FROM rpq.operation_history WHERE action = 'create_pool' AND object_kind = 'pool'), '1 1',
		  'one history row, with the operation''s id');
SELECT is((SELECT pool FROM rpq.nodes WHERE name = 'n2'), 'd1', 'an idle machine that takes work has moved');
SELECT is(t.sum(), '4 32', 'machines are conserved');
CALL rpq.wait_for_operation(id => :d1);
SELECT is(rpq.cancel_operation(id => :d1), false, 'what has ended is not cancelled');

-- What is pending can be cancelled.
SELECT rpq.create_pool(name => 'd2', type => 'dedicated', quota => 'gpu=8') AS d2 \gset
SELECT is(rpq.cancel_operation(id => :d2), true, 'cancelled');
SELECT is((SELECT status FROM rpq.operations WHERE operation_id = :d2), 'cancelled', 'its operation says so');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE object = 'd2'), 0::bigint, 'no history row');
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT pool FROM rpq.nodes WHERE name = 'n3'), 'c1-gpu', 'nothing was moved');

-- Availability seen at the call is no reservation: both calls pass, one operation fails and leaves nothing behind.
SELECT rpq.create_pool(name => 'd3', type => 'dedicated', quota => 'gpu=8') AS d3 \gset
SELECT rpq.create_pool(name => 'd4', type => 'dedicated', quota => 'gpu=8') AS d4 \gset
SELECT rpq.run_operations() AS x FROM generate_series(1, 3) \g /dev/null
SELECT is((SELECT string_agg(pool || ' ' || status || coalesce(' ' || error_code, ''), ', ' ORDER BY operation_id) FROM rpq.operations WHERE operation_id >= :d3),
		  'd3 succeeded, d4 failed RQ005', 'the second finds no machine');
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'd4'), 'failed 0', 'its pool is failed');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE object = 'd4'), 0::bigint, 'no history row claims success');
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n5}') AS x \gset
SELECT isnt(rpq.retry_operation(id => :d4), :d4::bigint, 'it is tried again as a new operation');
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'd4'), 'ready 8', 'and then succeeds');
SELECT is(t.sum(), '5 40', 'machines are conserved');

-- Synchronously: a failure raises and leaves nothing behind.
SET rpq.synchronous_operations = on;
SELECT t.stored() AS stored \gset
SELECT is(t.outcome('SELECT rpq.create_pool(' || arguments || ')'), state, arguments) FROM (VALUES
	('name => ''d5'', type => ''dedicated'', quota => ''gpu=8''', 'RQ005'),
	('name => ''d5'', type => ''dedicated'', quota => ''gpu=12''', 'RQ003'),
	('name => ''d5'', type => ''dedicated'', quota => ''cpu=192''', '22023'),
	('name => ''d5'', type => ''dedicated'', nodes => ''{n9}''', '42704'),
	('name => ''d5'', type => ''dedicated'', source => ''nowhere'', quota => ''gpu=8''', '42704'),
	('name => ''d5'', type => ''shared''', '22023'),
	('name => ''d1'', type => ''dedicated''', '42710'),
	('name => ''d5'', type => ''dedicated'', scheduling_policy => ''spread''', '22023')) v (arguments, state);
SELECT ok(t.outcome('SELECT rpq.create_pool(name => ''d5'', type => ''dedicated'', nodes => ' || quote_literal(nodes) || ')') IN ('RQ005', 'RQ006', '22023'),
		  'by name: ' || nodes || ' is not to be had') FROM unnest('{"{n1}","{n2}"}'::text[]) nodes;
SELECT is(t.stored(), :'stored', 'nothing is stored');
SELECT rpq.create_pool(name => 'x1', type => 'exclusive', quota => 'gpu=8', source => 'd1') AS x \gset
SELECT is((SELECT string_agg(name || ' ' || t.gpu(total), ', ' ORDER BY name) FROM rpq.pools WHERE name IN ('d1', 'x1')), 'd1 0, x1 8',
		  'from another pool of the kind');
SELECT rpq.create_pool(name => 'd5', type => 'dedicated') AS x \gset
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'd5'), 'ready 0', 'neither quota nor nodes: empty');
SELECT is(t.sum(), '5 40', 'machines are conserved');
-- Rolled back, it is as if it had never been.
SELECT rpq.uncordon_node(node => 'n4') AS x \gset
SELECT t.stored() AS stored \gset
BEGIN;
SELECT rpq.create_pool(name => 'd6', type => 'dedicated', quota => 'gpu=8') AS x \gset
ROLLBACK;
SELECT is(t.stored(), :'stored', 'after ROLLBACK nothing is stored');
SELECT is(t.status(:w), 'running', 'what ran went on throughout');
SELECT * FROM t.whole();
SELECT * FROM finish();

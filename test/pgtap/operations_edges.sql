-- Operations where something else happened meanwhile, and what they say to whom.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.synchronous_operations = off;
CREATE FUNCTION t.op(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', o.status, o.error) FROM rpq.operations AS o WHERE o.operation_id = id $$;
CREATE FUNCTION t.detail(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	why text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS why = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || why;
END $$;

-- A creation that failed leaves a pool that works; one that is tried again and cancelled must not delete it.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}') AS x \gset
SELECT rpq.create_pool(name => 'd', type => 'dedicated', nodes => '{n1}') AS op \gset
SELECT rpq.cordon_node('n1') AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:op), 'failed nodes are not available in the source: n1 (takes no work)', 'the creation failed');
SELECT rpq.uncordon_node('n1') AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{m1}', pool => 'd') AS x \gset
SELECT rpq.authorize(pool => 'd', accounts => '{u1}') AS x \gset
SELECT t.submit('d', '8', 'u1', 'w1') AS w1 \gset
SELECT t.pass() AS x \gset
SELECT rpq.retry_operation(:op) AS again \gset
SELECT ok(rpq.cancel_operation(:again), 'tried again, and cancelled');
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd'), 'failed', 'the pool is what it was');
SELECT is(t.status(:w1), 'running', 'and its work goes on');
SELECT t.whole();
SELECT rpq.create_pool(name => 'never', type => 'dedicated') AS op \gset
SELECT rpq.cancel_operation(:op) AS x \gset
SELECT is((SELECT count(*) FROM rpq.pools WHERE name = 'never'), 0::bigint, 'a pool that was never made is gone');

-- A drain has a shared pool as its subject; other pools grow from its other nodes meanwhile.
SELECT t.submit('c1-gpu', '8', 'u2', 's1') AS s1 \gset
SELECT t.pass() AS x \gset
SELECT t.nodes(:s1) AS busy \gset
SELECT rpq.drain_node(:'busy') AS drain \gset
SELECT rpq.resize_pool('d', quota => 'gpu=16') AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.op(:drain) || ', ' || t.op(:op), 'succeeded, succeeded', 'resize while a node of the source is drained');
SELECT rpq.uncordon_node(:'busy') AS x \gset
SELECT t.whole();

-- A cordon by hand outlives a drain that is undone, and one that is tried again puts back what it found.
CREATE FUNCTION t.takes(node_name text) RETURNS boolean LANGUAGE sql AS $$
	SELECT n.schedulable FROM rpq.nodes AS n WHERE n.name = node_name $$;
SELECT rpq.drain_node('m1') AS op \gset
SELECT rpq.cordon_node('m1', 'a disk is going') AS x \gset
SELECT rpq.cancel_operation(:op) AS x \gset
SELECT ok(NOT t.takes('m1'), 'cordoned during the drain, which is cancelled: cordoned');
SELECT rpq.uncordon_node('m1') AS x \gset
SELECT rpq.drain_node('m1') AS op \gset
SELECT rpq.cancel_operation(:op) AS x \gset
SELECT ok(t.takes('m1'), 'not cordoned by hand: as before');
SELECT rpq.drain_node('m1') AS op \gset
SELECT rpq.cordon_node(n.name) FROM rpq.nodes AS n WHERE n.pool = 'd' AND n.name <> 'm1' \g /dev/null
SELECT rpq.run_operations() AS x \gset
SELECT alike(t.op(:op), 'failed 1 pod cannot be placed elsewhere%', 'a drain that fails');
SELECT ok(t.takes('m1'), 'leaves the node as it was');
SELECT rpq.cordon_node('m1') AS x \gset
SELECT rpq.retry_operation(:op) AS again \gset
SELECT rpq.cancel_operation(:again) AS x \gset
SELECT ok(NOT t.takes('m1'), 'cordoned before it was tried again, which is cancelled: cordoned');
SELECT rpq.uncordon_node(n.name) FROM rpq.nodes AS n WHERE n.pool = 'd' \g /dev/null

-- An administrator of the pool that grows may not see the work of the shared pool, in no error either.
CREATE ROLE "Pool Admin";
SELECT rpq.create_account('pa', 'Pool Admin') AS x \gset
SELECT rpq.grant_pool_admin('d', 'pa') AS x \gset
SELECT t.submit('d', '8', 'u1', 'w2') AS x \gset
SELECT t.submit('c1-gpu', '8', 'u2', 's' || i) FROM generate_series(2, 4) i \g /dev/null
SELECT t.pass() AS x \gset
SELECT t.nodes(:s1) AS busy \gset
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA t TO PUBLIC;
SET ROLE "Pool Admin";
SELECT is(t.detail(format('SELECT rpq.resize_pool(''d'', add_nodes => ''{%s}'', evacuate => true)', :'busy')),
		  'RQ006 ' || :'busy' || ': 1 pod', 'resize: how many pods are in the way, not whose');
SELECT is(t.detail(format('SELECT rpq.move_nodes(nodes => ''{%s}'', to_pool => ''d'', evacuate => true)', :'busy')),
		  'RQ006 ' || :'busy' || ': 1 pod', 'move_nodes as well');
SELECT alike(t.detail('SELECT rpq.drain_node(''m1'')'), 'RQ006 m1: workload % replica 0 (gpu=8)',
			 'of its own pool it sees what stands there');
RESET ROLE;
-- And where a node went meanwhile is not in the error of the operation.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n9}') AS x \gset
SELECT rpq.resize_pool('d', add_nodes => '{n9}') AS op \gset
SELECT rpq.create_pool(name => 'secret', type => 'dedicated', nodes => '{n9}') AS op2 \gset
UPDATE rpq_store.operation SET tried_at = 'infinity' WHERE operation_id = :op;
SELECT rpq_store.worker_cycle() AS x \gset
SELECT rpq_store.worker_cycle() AS x \gset
SELECT is(t.op(:op2) || ', ' || t.op(:op),
		  'succeeded, failed nodes are not available in the source: n9 (in another pool)', 'a pool that is not seen has no name');
SELECT t.whole();

-- A swap that fails is its own matter: the worker's round goes on.
SELECT rpq.create_instance_type(name => 'big', kind => 'gpu', capacity => 'gpu=8,memory=200000000000000Mi') AS x \gset
SELECT rpq.add_nodes(instance_type => 'big', names => '{b1,b2}') AS x \gset
SELECT rpq.create_pool(name => 'x', type => 'exclusive', nodes => '{b1,b2}', faulty_node_rotation => true) AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT rpq.add_nodes(instance_type => 'big', names => '{small}', capacity => 'gpu=8,memory=1Mi', pool => 'x') AS x \gset
SELECT rpq.add_nodes(instance_type => 'big', names => '{spare}') AS x \gset
SELECT rpq.set_node_health('small', 'unhealthy') AS x \gset
SELECT rpq.authorize(pool => 'x', accounts => '{u1}') AS x \gset
SELECT t.submit('x', '1', 'u1', 'late') AS late \gset
SET client_min_messages = error;
SELECT is(t.outcome('SELECT rpq_store.worker_cycle()'), 'ok', 'a spare that would make the total too large');
RESET client_min_messages;
SELECT is((SELECT o.status FROM rpq.operations o WHERE o.kind = 'rotate'), 'pending', 'the swap waits');
SELECT is(t.status(:late), 'running', 'and the cycle of the same round has admitted');
SELECT t.whole();
SELECT * FROM finish();

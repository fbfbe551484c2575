-- Field case F51, the freeze and the switch of guarantees.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1}', guarantee => true) AS x \gset
SELECT t.submit('c1-gpu', '8', 'u1', 'w1') AS w1, t.submit('c1-gpu', '8', 'u1', 'w2') AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w1) || ' ' || t.status(:w2), 'running queued', 'w1 runs, w2 waits');
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => true) AS x \gset
SELECT is(t.status(:w1), 'running', 'the freeze does not touch w1');
SELECT rpq.report_finished(workload => :w1) AS x \gset
SELECT t.pass() AS x FROM generate_series(1, 5) \g /dev/null
SELECT is(t.status(:w2) || ' ' || t.reason_code(:w2), 'queued pool_frozen', 'w2 waits, frozen');
SELECT is(t.used('c1-gpu'), 0::numeric, 'used 0');
SELECT is((SELECT bool_or(check_name = 'pool_frozen' AND NOT passed) FROM rpq.explain(workload => :w2)), true, 'explain says so');
SELECT throws_ok($$SELECT t.submit('c1-gpu', '1', 'u1', 'w3')$$, 'RQ001', NULL, 'w3 is refused');
BEGIN;
SET LOCAL rpq.account = 'u1';
SELECT selectable || ' ' || reason_code AS answer FROM rpq.selectable_pools(workload_type => 'training') \gset
COMMIT;
SELECT is(:'answer'::text, 'false pool_frozen',
		  'the pool is not selectable');
SELECT is((SELECT count(*) FROM rpq.schedule(pool => 'c1-gpu', dry_run => true) WHERE decision = 'admitted'), 0::bigint,
		  'a dry run admits nothing either');
-- A draft may be made, and not enqueued.
SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', draft => true, account => 'u1') AS draft \gset
SELECT throws_ok(format('SELECT rpq.enqueue(workload => %s)', :draft), 'RQ001', NULL, 'a draft is not enqueued');
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => false) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w2), 'running', 'after the unfreeze w2 runs');
SELECT is(t.used('c1-gpu'), 8::numeric, 'used 8');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'edit_pool'), 2::bigint, 'two rows in the history');
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => false) AS x \gset
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'edit_pool'), 2::bigint, 'none for what changes nothing');

-- Whatever brings work back to the queue, nothing of a frozen pool is admitted; the pool itself may be changed.
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => true) AS x \gset
SELECT rpq.requeue(workload => :w2) AS x \gset
SELECT t.pass() AS x FROM generate_series(1, 3) \g /dev/null
SELECT is(t.status(:w2) || ' ' || t.reason_code(:w2), 'queued pool_frozen', 'requeued, it waits');
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => false) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w2), 'running', 'it runs again');
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => true) AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n2}') AS x \gset
SELECT rpq.set_node_health(node => 'n1', health => 'unhealthy') AS x \gset
SELECT t.pass() AS x FROM generate_series(1, 3) \g /dev/null
SELECT is(t.status(:w2) || ' ' || t.reason_code(:w2) || ' ' || t.used('c1-gpu'), 'queued pool_frozen 0', 'its node is lost: it waits, though n2 is idle');
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n2}') AS x \gset
SELECT rpq.rename_pool(pool => 'c1-gpu', name => 'all') AS x, rpq.rename_pool(pool => 'all', name => 'c1-gpu') AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w2), 'queued', 'nor do operations thaw it');
SELECT rpq.delete_pool(pool => 'd1', force => true) AS x, rpq.remove_nodes(names => '{n2}') AS y \gset
SELECT rpq.set_node_health(node => 'n1', health => 'healthy') AS x \gset
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => false) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w2), 'running', 'unfrozen, it runs');
-- A frozen pool is resized, drained and renamed; what runs is moved and goes on.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n3,n4}') AS x \gset
SELECT rpq.create_pool(name => 'd2', type => 'dedicated', nodes => '{n3}') AS x \gset
SELECT rpq.authorize(pool => 'd2', accounts => '{u1}') AS x \gset
SELECT t.submit('d2', '4', 'u1', 'runs') AS runs \gset
SELECT t.pass() AS x \gset
SELECT rpq.edit_pool(pool => 'd2', frozen => true) AS x \gset
SELECT rpq.resize_pool(pool => 'd2', add_nodes => '{n4}') AS x, rpq.drain_node(node => 'n3') AS y \gset
SELECT is(t.status(:runs) || ' ' || t.nodes(:runs), 'running n4', 'what runs in a frozen pool is moved off a node that is drained');
SELECT is((SELECT frozen FROM rpq.pools WHERE name = 'd2'), true, 'it stays frozen');
SELECT rpq.stop(workload => :runs) AS x, rpq.delete_pool(pool => 'd2', force => true) AS y, rpq.uncordon_node(node => 'n3') AS z \gset
SELECT t.pass() AS x \gset
SELECT rpq.remove_nodes(names => '{n3,n4}') AS x \gset

-- In one transaction: what would happen if.
SELECT rpq.report_finished(workload => :w2) AS x \gset
SELECT t.submit('c1-gpu', '8', 'u1', 'w4') AS w4 \gset
BEGIN;
SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => true) AS x \gset
SELECT t.pass() AS x \gset
SELECT t.status(:w4) AS inside \gset
ROLLBACK;
SELECT is(:'inside'::text, 'queued', 'frozen within the transaction');
SELECT t.pass() AS x \gset
SELECT is(t.status(:w4), 'running', 'and not after its ROLLBACK');

-- Guarantees.
SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', guarantee => true, account => 'u1') AS g \gset
SELECT rpq.edit_pool(pool => 'c1-gpu', allow_guarantee => false) AS x \gset
SELECT throws_ok($$SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', guarantee => true, account => 'u1')$$,
				 'RQ001', NULL, 'with the switch off a guarantee is refused, whatever u1 holds');
SELECT lives_ok($$SELECT t.submit('c1-gpu', '1', 'u1')$$, 'without one it is not');
SELECT is((SELECT guarantee FROM rpq.workloads WHERE workload_id = :g), true, 'one given before is kept');
SELECT rpq.edit_pool(pool => 'c1-gpu', allow_guarantee => true) AS x \gset
SELECT throws_ok($$SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', guarantee => true, account => 'u2')$$,
				 'RQ001', NULL, 'nor without the right');
SELECT * FROM t.whole();
SELECT * FROM finish();

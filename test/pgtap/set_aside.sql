-- A queued workload whose row does not agree with its lane is set aside: it fails, the others are admitted, and the
-- lane's length stays exact, also when the same cycle admits.
SELECT no_plan();
SET client_min_messages = warning;

SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1'),
	rpq.create_instance_type(name => 'big', kind => 'gpu', capacity => 'gpu=8') \gset
SELECT rpq.create_account(name => 'u1') \gset
SELECT rpq.add_nodes(instance_type => 'big', names => '{n1}') \gset
SELECT count(rpq.submit(pool => 'c1-gpu', account => 'u1', workload_type => 'training', resources => 'gpu=1'))
FROM generate_series(1, 4) \gset
UPDATE rpq_store.workload SET resources = 'gpu=2' WHERE workload_id = 3;
SELECT results_eq('SELECT workload FROM rpq.schedule() ORDER BY workload', '{1,2,4}'::bigint[], 'the others are admitted');
SELECT is((SELECT concat_ws(' ', status, cause) FROM rpq_store.workload WHERE workload_id = 3), 'failed unprocessable',
	'it fails');
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'its withdrawal is still to count');
SELECT count(*) FROM rpq.schedule() \gset
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'counted');
SELECT is((SELECT sum(waiting) FROM rpq_store.lane), 0::numeric, 'nothing waits');
SELECT * FROM finish();

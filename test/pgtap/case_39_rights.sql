-- Field case F39: the same check on every path; seeing and doing are both bounded.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
CREATE ROLE case39_admin;
CREATE ROLE case39_padm;
CREATE ROLE case39_u1;
CREATE ROLE case39_u2;
SELECT rpq.create_account(name => 'admin', db_role => 'case39_admin', org_admin => true) AS x \gset
SELECT rpq.create_account(name => 'padm', db_role => 'case39_padm') AS x \gset
SELECT rpq.edit_account(account => 'u1', db_role => 'case39_u1') AS x \gset
SELECT rpq.edit_account(account => 'u2', db_role => 'case39_u2') AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3}') AS x \gset
SELECT rpq.create_pool(name => p, type => 'dedicated', quota => 'gpu=8') AS x FROM unnest('{p1,p2}'::text[]) p \g /dev/null
SELECT rpq.grant_pool_admin(pool => 'p1', account => 'padm') AS x \gset
SELECT rpq.authorize(pool => 'p1', accounts => '{u1}', guarantee => true) AS x \gset
SELECT rpq.authorize(pool => 'p1', accounts => '{u2}') AS x \gset
SELECT rpq.authorize(pool => 'p2', accounts => '{u2}') AS x \gset
SELECT rpq.edit_pool(pool => 'p1', allow_guarantee => false) AS x \gset

SET ROLE case39_u1;
SELECT rpq.submit(pool => 'p1', workload_type => 'training', resources => 'gpu=2', name => 'w1') AS w1 \gset
SET ROLE case39_u2;
SELECT rpq.submit(pool => 'p1', workload_type => 'training', resources => 'gpu=2', name => 'w2') AS w2 \gset
SELECT rpq.submit(pool => 'p2', workload_type => 'training', resources => 'gpu=2', name => 'w5') AS w5 \gset
RESET ROLE;
SELECT t.pass() AS x \gset
SELECT is(t.status(:w1) || t.status(:w2) || t.status(:w5), 'runningrunningrunning', 'w1, w2, w5 run');
SELECT count(*) AS history FROM rpq.operation_history \gset
SELECT operation_id AS p2op FROM rpq.operations WHERE pool = 'p2' \gset
SELECT t.stored() AS stored \gset

SET ROLE case39_u1;
SELECT is((SELECT string_agg(name, ',') FROM rpq.workloads), 'w1', 'u1 sees work 1');
SELECT is((SELECT string_agg(name, ',') FROM rpq.workload_history), 'w1', 'in the history of work too');
SELECT is((SELECT count(*) FROM rpq.operation_history), 0::bigint, 'history rows 0');
SELECT is((SELECT string_agg(DISTINCT pool, ',') FROM rpq.members), 'p1', 'members of p1 alone');
SELECT is((SELECT string_agg(account, ',') FROM rpq.members), 'u1', 'and itself alone');
SELECT is((SELECT count(*) FROM rpq.pods) || ' ' || (SELECT count(*) FROM rpq.ledger) || ' '
		  || (SELECT count(*) FROM rpq.node_pods WHERE account IS DISTINCT FROM 'u1'), '1 1 0', 'pods, ledger, node_pods of its own');
SELECT is((SELECT string_agg(name, ',' ORDER BY name) FROM rpq.pools), 'c1-gpu,p1', 'its pool and the shared one');
SELECT is((SELECT string_agg(name, ',') FROM rpq.accounts), 'u1', 'its own account');
SELECT is((SELECT count(*) FROM rpq.pool_admins) + (SELECT count(*) FROM rpq.operations) + (SELECT count(*) FROM rpq.workers), 0::bigint,
		  'no administrators, operations, workers');
SELECT is(t.answer(format('SELECT rpq.stop(workload => %s)', :w2)), '42704 workload # does not exist', 'stop w2 by its number');
SELECT is(t.answer('SELECT rpq.stop(workload => 999999)'), '42704 workload # does not exist', 'the same text as for none');
SELECT is(t.answer(format('SELECT rpq.%s', call)), t.answer(format('SELECT rpq.%s', replace(call, :'w2', '999999'))), call)
FROM unnest(ARRAY[format('delete_workload(workload => %s)', :w2), format('enqueue(workload => %s)', :w2),
	format('edit_workload(workload => %s, priority => 1)', :w2), format('report_started(workload => %s)', :w2),
	format('report_finished(workload => %s)', :w2), format('report_checkpoint(workload => %s)', :w2),
	format('requeue(workload => %s)', :w2), format('explain(workload => %s)', :w2)]) call;
-- operations, nodes, executors: by name, by number
SELECT is(t.answer(format('SELECT rpq.%s_operation(id => %s)', verb, :p2op)), t.answer(format('SELECT rpq.%s_operation(id => 999999)', verb)), verb || ': an operation is none')
FROM unnest('{cancel,retry}'::text[]) verb;
SELECT is(left(t.answer(format('SELECT * FROM rpq.%s', call)), 5), state, call)
FROM (VALUES ('resize_pool(pool => ''p1'', quota => ''gpu=0'')', '42501'), ('resize_pool(pool => ''p2'', quota => ''gpu=0'')', '42704'), ('convert_pool(pool => ''p1'', type => ''exclusive'')', '42501'),
	('rename_pool(pool => ''p1'', name => ''mine'')', '42501'), ('delete_pool(pool => ''p1'', force => true)', '42501'), ('delete_pool(pool => ''p2'', force => true)', '42704'),
	('move_nodes(nodes => ''{n1}'', to_pool => ''c1-gpu'')', '42501'), ('drain_node(node => ''n1'')', '42501'), ('sync_node(node => ''n1'')', '42501'), ('run_operations()', '42501')) v (call, state)
WHERE call !~ 'n1' OR EXISTS (SELECT FROM rpq.nodes WHERE name = 'n1' AND pool = 'p1');
SELECT is((SELECT count(rpq.stop(workload => workload_id)) FROM rpq.workloads WHERE name = 'w2'), 0::bigint, 'by its name: none is seen');
SELECT is(t.outcome(format('UPDATE rpq.workloads SET status = ''stopped'' WHERE workload_id = %s', :w2)), 'ok', 'through the view');
SELECT is(t.outcome('SELECT 1 FROM rpq_store.workload'), '42501', 'SELECT on a table');
SELECT is(t.outcome('UPDATE rpq_store.workload SET priority = 1'), '42501', 'UPDATE on a table');
SELECT is(t.outcome('SELECT rpq.update_members(pool => ''p1'', accounts => ''{u1}'', quota => '''')'), '42501', 'its own limit');
SELECT is(t.outcome('UPDATE rpq.members SET quota = ''gpu=99'''), '42501', 'its own limit through the view');
SELECT is(t.outcome('SELECT rpq.submit(pool => ''p1'', workload_type => ''training'', resources => ''gpu=1'', guarantee => true)'), 'RQ001',
		  'a guarantee while the pool''s switch is off');
SELECT is(t.answer('SELECT rpq.submit(pool => ''p2'', workload_type => ''training'', resources => ''gpu=1'')'),
		  replace(t.answer('SELECT rpq.submit(pool => ''p9'', workload_type => ''training'', resources => ''gpu=1'')'), 'p9', 'p2'),
		  'a pool that it may not see is none');
SELECT is(t.outcome('SELECT rpq.submit(pool => ''p1'', workload_type => ''training'', resources => ''gpu=1'', account => ''u2'')'), '42501',
		  'for another account');
RESET ROLE;
SELECT is(t.status(:w2), 'running', 'w2 runs');
SELECT is(t.stored(), :'stored', 'u1 has changed nothing');

SET ROLE case39_padm;
SELECT is(rpq.stop(workload => :w2), true, 'padm stops w2');
SELECT is(t.outcome(format('SELECT rpq.stop(workload => %s)', :w5)), '42704', 'padm does not see w5');
SELECT is(rpq.update_members(pool => 'p1', accounts => '{u2}', quota => 'gpu=1'), 1, 'padm sets u2''s limit in p1');
SELECT is(t.outcome('SELECT rpq.update_members(pool => ''p2'', accounts => ''{u2}'', quota => ''gpu=1'')'), '42704', 'not in p2');
SELECT is(t.outcome('SELECT rpq.edit_pool(pool => ''p2'', frozen => true)'), '42704', 'edit p2');
SELECT is(t.outcome('SELECT rpq.resize_pool(pool => ''p2'', quota => ''gpu=0'')'), '42704', 'resize p2');
SELECT is(left(t.answer(format('SELECT rpq.%s', call)), 5), '42704', call)
FROM unnest(ARRAY['rename_pool(pool => ''p2'', name => ''x'')', 'convert_pool(pool => ''p2'', type => ''exclusive'')', 'delete_pool(pool => ''p2'', force => true)',
	'move_nodes(count => 1, from_pool => ''p2'', to_pool => ''p1'')', 'move_nodes(count => 1, from_pool => ''p1'', to_pool => ''p2'')',
	'resize_pool(pool => ''p1'', quota => ''gpu=16'', source => ''p2'')', 'resize_pool(pool => ''p1'', quota => ''gpu=0'', target => ''p2'')']) call;
SELECT is(left(t.answer(format('SELECT rpq.%s', call)), 5), '42501', call)
FROM unnest(ARRAY['rename_pool(pool => ''c1-gpu'', name => ''x'')', 'remove_nodes(names => ''{' || (SELECT min(name) FROM rpq.nodes WHERE pool = 'p1') || '}'')',
	'add_nodes(instance_type => ''g8'', names => ''{x1}'', pool => ''p1'')']) call;
SELECT is(left(t.answer('SELECT rpq.resize_pool(pool => ''p1'', quota => ''gpu=16'')'), 5), '00000', 'its own pool it may resize, from the shared one');
SELECT is(t.outcome('SELECT rpq.create_pool(name => ''p3'', type => ''dedicated'', quota => ''gpu=0'')'), '42501', 'create a pool');
SELECT is(t.outcome('SELECT rpq.edit_pool(pool => ''c1-gpu'', frozen => true)'), '42501', 'edit a pool that it sees');
SELECT is((SELECT string_agg(name, ',' ORDER BY name) FROM rpq.workloads), 'w1', 'padm sees the live work of its pool');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE pool_id IS DISTINCT FROM (SELECT pool_id FROM rpq.pools WHERE name = 'p1')),
		  0::bigint, 'and history of its pool alone');
RESET ROLE;
SELECT is(t.status(:w5) || ' ' || t.status(:w2), 'running stopped', 'w5 runs, w2 is stopped');
SELECT is((SELECT quota::text FROM rpq.members WHERE pool = 'p1' AND account = 'u2'), 'gpu=1', 'u2''s limit in p1 is set');
SELECT is((SELECT count(*) - :history FROM rpq.operation_history), 2::bigint, 'history: 2 rows more');
SELECT is((SELECT string_agg(action || ' ' || object_kind || ' ' || actor || ' ' || db_role, ',' ORDER BY operation_history_id)
		   FROM (SELECT * FROM rpq.operation_history ORDER BY operation_history_id DESC LIMIT 2) x),
		  'stop workload padm case39_padm,update_members member padm case39_padm', 'both by padm');
SELECT t.pass() AS x \gset
SELECT * FROM t.whole();
SELECT * FROM finish();

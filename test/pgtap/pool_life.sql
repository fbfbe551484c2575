-- Renaming, converting and deleting pools.
SELECT no_plan();
SET client_min_messages = warning;
SET rpq.synchronous_operations = on;
DO $$
BEGIN
	PERFORM rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_cluster('c2'),
		rpq.create_instance_type('h100', 'gpu', 'gpu=8');
	PERFORM rpq.add_nodes('h100', count => 6, prefix => 'n', cluster => 'c1');
	PERFORM rpq.create_account('u1'), rpq.create_account('u2'), rpq.create_account('adm');
	PERFORM rpq.create_pool('d1', 'dedicated', cluster => 'c1', quota => 'gpu=16'),
		rpq.create_pool('d2', 'dedicated', cluster => 'c1', quota => 'gpu=8');
	PERFORM rpq.authorize('d1', '{u1,u2}'), rpq.grant_pool_admin('d1', 'adm'), rpq.grant_pool_admin('d2', 'adm');
END
$$;
CREATE FUNCTION pg_temp.work(account text, pool text, resources text) RETURNS bigint LANGUAGE sql AS $$
	SELECT rpq.submit($2, workload_type => 'training', resources => $3::rpq.resources, account => $1)
$$;
CREATE FUNCTION pg_temp.last(OUT status text, OUT error_code text, OUT result jsonb) LANGUAGE sql AS $$
	SELECT status, error_code, result FROM rpq.operations ORDER BY operation_id DESC LIMIT 1
$$;

-- collations apart
CREATE FUNCTION pg_temp.cells(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line record;
BEGIN
	FOR line IN EXECUTE query LOOP
		RETURN NEXT line::text;
	END LOOP;
END
$$;
CREATE FUNCTION pg_temp.shows(query text, expected text, label text) RETURNS text LANGUAGE sql AS $$
	SELECT is(v.found, v.expected, label) FROM (SELECT array_to_string(ARRAY(SELECT pg_temp.cells(query)), chr(10)) AS found,
		array_to_string(ARRAY(SELECT pg_temp.cells(expected)), chr(10)) AS expected) AS v
$$;

-- rename
SELECT pool_id AS d1 FROM rpq.pools WHERE name = 'd1' \gset
SELECT throws_ok($$SELECT rpq.rename_pool('d1', 'd2')$$, '42710', 'pool "d2" already exists', 'a name in use');
SELECT throws_ok($$SELECT rpq.rename_pool('d1', 'c1-gpu')$$, '42710', 'pool "c1-gpu" already exists', 'that of a shared pool');
SELECT throws_ok($$SELECT rpq.rename_pool('d1', '')$$, '22023', NULL, 'no name');
SELECT throws_ok($$SELECT rpq.rename_pool('d1', NULL)$$, '22023', NULL, 'NULL');
SELECT throws_ok($$SELECT rpq.rename_pool('none', 'x')$$, '42704', 'pool "none" does not exist', 'unknown');
SELECT throws_ok($$SELECT rpq.rename_pool(NULL, 'x')$$, '22023', NULL, 'no pool');
SELECT rpq.rename_pool('d1', '  research ') > 0 AS asked;
SELECT pg_temp.shows('SELECT name, status FROM rpq.pools WHERE pool_id = ' || :d1, $$VALUES ('research', 'ready')$$, 'renamed');
SELECT is((SELECT count(*)::int FROM rpq.members WHERE pool = 'research'), 2, 'members stay');
SELECT pg_temp.shows($$SELECT object, actor, old, new FROM rpq.operation_history WHERE action = 'rename_pool'$$,
	$$VALUES ('research', 'postgres', '{"name": "d1"}'::jsonb, '{"name": "research"}'::jsonb)$$, 'recorded');
SELECT is((pg_temp.last()).result, '{"name": "research", "old_name": "d1"}', 'the result');
SELECT rpq.rename_pool('research', 'research') > 0 AS same;
SELECT is((SELECT count(*)::int FROM rpq.operation_history WHERE action = 'rename_pool'), 1, 'its own name changes nothing');
SELECT rpq.rename_pool('c1-gpu', 'common') > 0 AS shared;
SELECT is((SELECT type FROM rpq.pools WHERE name = 'common'), 'shared', 'a shared pool may be renamed');
SELECT rpq.rename_pool('research', 'd1') > 0 AS back;
-- carried out later: what was free at the call is no reservation
SET rpq.synchronous_operations = off;
SELECT rpq.rename_pool('d1', 'x') AS a, rpq.rename_pool('d2', 'x') AS b \gset
SELECT throws_ok($$SELECT rpq.rename_pool('d1', 'y')$$, 'RQ004', 'an operation is open on pool "d1"', 'one at a time');
SELECT throws_ok($$SELECT rpq.convert_pool('d1', 'nonsense')$$, 'RQ004', NULL, 'that comes before the arguments');
SELECT is(rpq.run_operations(), 2, 'both carried out');
SELECT pg_temp.shows('SELECT status, error_code, error FROM rpq.operations WHERE operation_id = ' || :b,
	$$VALUES ('failed', '42710', 'pool "x" already exists')$$, 'the second has failed');
SELECT pg_temp.shows('SELECT name, status FROM rpq_store.pool WHERE type = ''dedicated'' ORDER BY 1', $$VALUES ('d2', 'failed'), ('x', 'ready')$$, 'its pool too');
SELECT rpq.rename_pool('x', 'd1') > 0 AS asked; SELECT rpq.run_operations();
SELECT rpq.retry_operation(:b) > 0 AS again; SELECT rpq.run_operations();
SELECT pg_temp.shows('SELECT name, status FROM rpq_store.pool WHERE type = ''dedicated'' ORDER BY 1', $$VALUES ('d1', 'ready'), ('x', 'ready')$$, 'tried again');
SET rpq.synchronous_operations = on;
SELECT rpq.rename_pool('x', 'd2') > 0 AS back;
SET rpq.account = 'acme/u1';
SELECT throws_ok($$SELECT rpq.rename_pool('d1', 'mine')$$, '42501', NULL, 'a member may not');
SELECT throws_ok($$SELECT rpq.delete_pool('d2', force => true)$$, '42704', 'pool "d2" does not exist', 'nor who does not see it');
SET rpq.account = 'acme/adm';
SELECT rpq.rename_pool('d1', 'd3') > 0 AS by_its_admin;
SELECT rpq.rename_pool('d3', 'd1') > 0 AS and_back;
RESET rpq.account;

-- convert
SELECT throws_ok($$SELECT rpq.convert_pool('common', 'dedicated')$$, '22023', 'pool "common" is shared and cannot be converted', 'a shared pool');
SELECT throws_ok($$SELECT rpq.convert_pool('d1', 'shared')$$, '22023', 'type must be dedicated or exclusive', 'to shared');
SELECT throws_ok($$SELECT rpq.convert_pool('d1', NULL)$$, '22023', 'type must be dedicated or exclusive', 'no type');
SELECT rpq.convert_pool('d1', 'exclusive') > 0 AS converted;
SELECT rpq.edit_pool('d1', scheduling_policy => 'spread', faulty_node_rotation => true, idle_time_sharing => true, isolate_accounts => true);
SELECT rpq.edit_pool('d1', scheduling_policy => 'spread', instance_type => 'h100');
SELECT rpq.convert_pool('d1', 'exclusive') > 0 AS unchanged;
SELECT is((pg_temp.last()).result, '{"type": "exclusive", "fell_back": {}}', 'the type that it has: nothing');
SELECT rpq.convert_pool('d1', 'dedicated') > 0 AS converted;
SELECT pg_temp.shows('SELECT type, scheduling_policy, faulty_node_rotation, idle_time_sharing, isolate_accounts FROM rpq_store.pool WHERE pool_id = ' || :d1,
	$$VALUES ('dedicated', 'binpack', false, false, false)$$, 'what it does not have fell back');
SELECT is(scheduling_policy, NULL, 'also of the instance type') FROM rpq_store.pool_instance WHERE pool_id = :d1;
SELECT pg_temp.shows($$SELECT old, new FROM rpq.operation_history WHERE action = 'convert_pool' ORDER BY operation_history_id DESC LIMIT 1$$,
	$$VALUES ('{"type": "exclusive", "scheduling_policy": "spread", "faulty_node_rotation": true, "idle_time_sharing": true, "isolate_accounts": true,
		"instance_types": {"h100": {"scheduling_policy": "spread", "user_default_quota": null}}}'::jsonb,
	'{"type": "dedicated", "scheduling_policy": "binpack", "faulty_node_rotation": false, "idle_time_sharing": false, "isolate_accounts": false,
		"instance_types": {"h100": {"scheduling_policy": null, "user_default_quota": null}}}'::jsonb)$$, 'named in the history');

-- delete: what stands against it is counted
SELECT pg_temp.work('acme/u1', 'd1', 'gpu=8') AS r1, pg_temp.work('acme/u2', 'd1', 'gpu=8') AS r2, pg_temp.work('acme/u2', 'd1', 'gpu=8') AS q1 \gset
SELECT count(*) FROM rpq.schedule('d1');
SELECT throws_ok($$SELECT rpq.delete_pool('common', force => true)$$, '22023', 'pool "common" is shared and cannot be deleted', 'a shared pool');
SELECT throws_ok($$SELECT rpq.delete_pool('d1')$$, 'RQ006', 'pool "d1" cannot be deleted: 2 nodes, 2 members, 3 live workloads', 'counted');
SELECT throws_ok($$SELECT rpq.delete_pool('d2')$$, 'RQ006', 'pool "d2" cannot be deleted: 1 node', 'one');
SELECT rpq.cordon_node('n1', 'a bad fan');
SET rpq.account = 'acme/adm';
SELECT rpq.delete_pool('d1', force => true) > 0 AS deleted;
RESET rpq.account;
SELECT pg_temp.shows('SELECT name, status, deleted_at IS NOT NULL FROM rpq_store.pool WHERE pool_id = ' || :d1, $$VALUES ('d1', 'deleted', true)$$, 'deleted');
SELECT is((pg_temp.last()).result, '{"nodes": ["n1", "n2"], "drafted": 1, "members": 2, "stopped": 2}', 'the result');
SELECT pg_temp.shows($$SELECT total, used FROM rpq.pools WHERE name = 'common'$$, $$VALUES ('gpu=40'::rpq.resources, 'gpu=0'::rpq.resources)$$, 'the nodes are back');
SELECT is((SELECT schedulable FROM rpq.nodes WHERE name = 'n1'), false, 'as they were');
SELECT pg_temp.shows('SELECT workload_id, status, cause FROM rpq_store.workload ORDER BY 1',
	format($$VALUES (%s::bigint, 'stopped', 'pool_deleted'), (%s, 'stopped', 'pool_deleted'), (%s, 'draft', 'pool_deleted')$$, :r1, :r2, :q1), 'work stopped and drafted');
SELECT pg_temp.shows('SELECT DISTINCT actor FROM rpq_store.entry WHERE cause = ''pool_deleted''', $$VALUES ('adm')$$, 'by who asked');
SELECT is((SELECT count(*)::int FROM rpq_store.member WHERE pool_id = :d1) + (SELECT count(*)::int FROM rpq_store.pool_admin WHERE pool_id = :d1), 0, 'nobody is left');
SELECT is((SELECT old - '{instance_types}'::text[] @> '{"name": "d1", "nodes": ["n1", "n2"], "members": ["u1", "u2"]}' AND new IS NULL FROM rpq.operation_history WHERE action = 'delete_pool'), true, 'recorded');
SELECT throws_ok($$SELECT pg_temp.work('acme/u1', 'd1', 'gpu=8')$$, '42704', 'pool "d1" does not exist', 'nothing can be submitted');
SELECT throws_ok($$SELECT rpq.delete_pool('d1')$$, '42704', 'pool "d1" does not exist', 'nor deleted again');
SELECT rpq.create_pool('d1', 'exclusive', cluster => 'c1', quota => 'gpu=0') > 0 AS the_name_is_free;
SELECT rpq.delete_pool('d1') > 0 AS nothing_stands_against_it;
-- a draft of it can be queued elsewhere
SELECT is(rpq.enqueue(:q1, pool => 'common'), true, 'the draft is queued elsewhere');

-- while it is being deleted
SET rpq.synchronous_operations = off;
SELECT rpq.authorize('d2', '{u1}');
SELECT rpq.delete_pool('d2', force => true) AS op \gset
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd2'), 'deleting', 'deleting');
SELECT throws_ok($$SELECT pg_temp.work('acme/u1', 'd2', 'gpu=8')$$, 'RQ004', NULL, 'no submission');
SELECT throws_ok($$SELECT rpq.edit_pool('d2', frozen => true)$$, 'RQ004', NULL, 'no edit');
SELECT throws_ok($$SELECT rpq.add_nodes('h100', names => '{m}', pool => 'd2')$$, 'RQ004', NULL, 'no node');
SELECT throws_ok($$SELECT rpq.delete_pool('d2', force => true)$$, 'RQ004', 'an operation is open on pool "d2"', 'the same again');
SELECT throws_ok($$SELECT rpq.create_pool('d2', 'dedicated', cluster => 'c1')$$, '42710', NULL, 'its name is still taken');
SELECT rpq.cancel_operation(:op);
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd2'), 'ready', 'cancelled');
SELECT rpq.delete_pool('d2', force => true) > 0 AS again;
SELECT is(rpq_store.run_pending_operations(), 1, 'carried out');
SELECT is((SELECT count(*)::int FROM rpq.pools WHERE name = 'd2'), 0, 'gone');

-- a pool whose nodes were ordered for it: there is no shared pool yet
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('own', 'exclusive', cluster => 'c2') > 0 AS made;
SELECT rpq.add_nodes('h100', count => 2, prefix => 'm', pool => 'own');
SELECT rpq.delete_pool('own', force => true) > 0 AS deleted;
SELECT is((SELECT total::text FROM rpq.pools WHERE name = 'c2-gpu'), 'gpu=16', 'it comes into being with the nodes that it gets back');
-- without nodes none is made
SELECT rpq.create_cluster('c3') > 0 AS made;
SELECT rpq.create_pool('bare', 'dedicated', cluster => 'c3') > 0 AS made;
SELECT rpq.delete_pool('bare') > 0 AS deleted;
SELECT is((SELECT count(*)::int FROM rpq.pools WHERE cluster = 'c3'), 0, 'none for a pool without nodes');
-- a creation that failed
SET rpq.synchronous_operations = off;
SELECT rpq.create_pool('late', 'dedicated', cluster => 'c2', quota => 'gpu=16') AS op \gset
SELECT rpq.remove_nodes('{m1}'); SELECT rpq.run_operations();
SELECT is((SELECT status FROM rpq.pools WHERE name = 'late'), 'failed', 'failed');
SELECT rpq.delete_pool('late') > 0 AS asked; SELECT rpq.run_operations();
SELECT is((SELECT count(*)::int FROM rpq.pools WHERE name = 'late'), 0, 'and deleted');

SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'all is well');
SELECT * FROM finish();

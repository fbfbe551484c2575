-- Pools: creating them as an operation, editing, choosing; names as people write them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rpq;
\pset null -
\set SHOW_CONTEXT never
SELECT rpq.create_tenant('acme') > 0 AS tenant, rpq.create_cluster('c1') > 0 AS cluster,
	rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=96') > 0 AS gpu_type,
	rpq.create_instance_type('cpu', 'cpu', 'cpu=240') > 0 AS cpu_type,
	rpq.create_project_group('vision') > 0 AS project_group;
SELECT rpq.add_nodes('h100', count => 6, prefix => 'n'), rpq.add_nodes('cpu', count => 2, prefix => 'b');
SELECT rpq.add_nodes('h100', names => '{half}', capacity => 'gpu=4,cpu=48');

CREATE FUNCTION pg_temp.pools() RETURNS TABLE (name text, type text, status text, nodes text)
LANGUAGE sql AS $$
	SELECT p.name, p.type, p.status, string_agg(n.name, ' ' ORDER BY n.name)
	FROM rpq_store.pool p LEFT JOIN rpq_store.node n USING (pool_id) GROUP BY p.pool_id ORDER BY p.name
$$;
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	why text;
	code text;
	answer text;
BEGIN
	EXECUTE statement INTO answer;
	RETURN 'ok: ' || coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
	RETURN concat_ws(': ', code, said, nullif(why, ''));
END
$$;

-- asynchronous: the call checks, run_operations() carries it out
SELECT rpq.create_pool('d1', 'dedicated', quota => 'gpu=16', description => 'first', workload_types => '{training,develop}',
	project_group => 'vision', user_default_quota => 'gpu=4') > 0 AS asked;
SELECT * FROM pg_temp.pools();
SELECT o.kind, o.status, o.action, o.arguments - '{type_id,source_id}'::text[] AS arguments, count(h.*) AS held
FROM rpq_store.operation o LEFT JOIN rpq_store.operation_pool h USING (operation_id) GROUP BY o.operation_id;
SELECT count(*) AS history FROM rpq_store.history WHERE action = 'create_pool';
SELECT pg_temp.try('SELECT rpq.edit_pool(''d1'', frozen => true)');
SELECT rpq.run_operations();
SELECT rpq.run_operations();
SELECT * FROM pg_temp.pools();
SELECT kind, status, progress, attempts, result FROM rpq_store.operation;
SELECT object_kind, object, old, new - 'instance_types' AS new, operation_id IS NOT NULL AS by_operation
FROM rpq_store.history WHERE action = 'create_pool';
SELECT p.name AS pool, t.name AS type, c.capacity, c.nodes
FROM rpq_store.pool_capacity c JOIN rpq_store.pool p USING (pool_id) JOIN rpq_store.instance_type t USING (type_id) ORDER BY 1, 2, 3;

-- synchronous: nodes by name, from another source, and none
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('e1', 'exclusive', nodes => '{n5,n4}', scheduling_policy => 'spread', faulty_node_rotation => true,
	idle_time_sharing => true, queueing => 'best_effort', default_priority => 0, pay_as_you_go => true) > 0 AS made;
SELECT rpq.create_pool('from d1', 'dedicated', 'h100', quota => 'gpu=8', source => 'd1') > 0 AS made;
SELECT rpq.create_pool('empty', 'dedicated') > 0 AS made;
SELECT rpq.create_pool('zero', 'dedicated', 'cpu', quota => 'cpu=0') > 0 AS made;
SELECT rpq.create_pool('cpus', 'dedicated', kind => 'cpu', quota => 'cpu=240') > 0 AS made;
SELECT * FROM pg_temp.pools();

-- refusals, in the order of the contract; a refused call leaves nothing behind
INSERT INTO rpq_store.pod (workload_id, attempt, replica, node_id) SELECT 0, 1, 0, node_id FROM rpq_store.node WHERE name = 'n6';
UPDATE rpq_store.node_load SET pods = 1 WHERE node_id = (SELECT node_id FROM rpq_store.node WHERE name = 'n6');
SELECT count(*) AS pools FROM rpq_store.pool \gset
SELECT t AS call, pg_temp.try('SELECT rpq.create_pool(' || t || ')') AS answer FROM unnest(ARRAY[
	$$NULL, 'dedicated'$$, $$'', 'dedicated'$$, $$'  ', 'dedicated'$$, $$E'a\nb', 'dedicated'$$, $$'a/b', 'dedicated'$$,
	$$repeat('p', 64), 'dedicated'$$, $$'x', NULL$$, $$'x', 'shared'$$, $$'x', 'Dedicated'$$,
	$$'d1', 'dedicated'$$, $$' d1 ', 'exclusive'$$,
	$$'x', 'dedicated', 'nosuch'$$, $$'x', 'dedicated', source => 'nosuch'$$, $$'x', 'dedicated', cluster => 'nosuch'$$,
	$$'x', 'dedicated', project_group => 'nosuch'$$, $$'x', 'dedicated', workload_types => '{training,b,a}'$$,
	$$'x', 'dedicated', workload_types => '{}'$$, $$'x', 'dedicated', workload_types => '{NULL}'$$,
	$$'x', 'dedicated', nodes => '{n1,zz,yy}'$$, $$'x', 'dedicated', tenant => 'nosuch'$$,
	$$'x', 'dedicated', 'h100', kind => 'cpu'$$, $$'x', 'dedicated', kind => 'tpu'$$, $$'x', 'dedicated', 'cpu', nodes => '{n1}'$$,
	$$'x', 'dedicated', 'h100', source => 'c1-cpu'$$, $$'x', 'dedicated', quota => 'gpu=8', nodes => '{n1}'$$,
	$$'x', 'dedicated', quota => 'gpu=-8'$$, $$'x', 'dedicated', quota => 'gpu=8,cpu=96'$$, $$'x', 'dedicated', quota => ''$$,
	$$'x', 'dedicated', quota => 'cpu=96'$$, $$'x', 'dedicated', quota => 'gpu=12'$$, $$'x', 'dedicated', quota => 'gpu=1/7'$$,
	$$'x', 'dedicated', quota => 'gpu=NaN'$$, $$'x', 'dedicated', quota => 'gpu=1e30'$$,
	$$'x', 'dedicated', quota => 'gpu=9223372036854775808'$$, $$'x', 'dedicated', quota => 'gpu=800000000000'$$,
	$$'x', 'dedicated', quota => 'gpu=16'$$, $$'x', 'dedicated', nodes => '{half}'$$, $$'x', 'dedicated', nodes => '{n6}'$$,
	$$'x', 'dedicated', nodes => '{n4}'$$, $$'x', 'dedicated', default_priority => 101$$, $$'x', 'dedicated', default_priority => -1$$,
	$$'x', 'dedicated', scheduling_policy => 'spread'$$, $$'x', 'exclusive', scheduling_policy => 'least_fragmentation'$$,
	$$'x', 'dedicated', scheduling_policy => 'best'$$, $$'x', 'dedicated', queueing => 'fifo'$$,
	$$'x', 'dedicated', faulty_node_rotation => true$$, $$'x', 'dedicated', idle_time_sharing => true$$,
	$$'x', 'dedicated', user_default_quota => 'gpu=-1'$$, $$'x', 'dedicated', description => repeat('x', 10001)$$]) AS t;
SELECT count(*) = :pools AS nothing_stored FROM rpq_store.pool;
SELECT count(*) AS half_done FROM rpq_store.operation WHERE status <> 'succeeded';
DELETE FROM rpq_store.pod;
UPDATE rpq_store.node_load SET pods = 0 WHERE pods = 1;

-- F29: names are stored whole or refused
BEGIN;
SELECT pg_temp.try(format('SELECT rpq.create_pool(%L, ''dedicated'') > 0', n)) AS answer, n AS name
FROM unnest(ARRAY['a"b', 'o''clock', 'x; DROP TABLE t; --', 'Team A', 'TEAM-a', 'select', U&'\65E5\672C\8A9E\30D7\30FC\30EB', 'a_b',
	'axb', repeat('p', 63), repeat('p', 64), repeat('p', 63) || 'q']) AS n;
SELECT count(*), sum(octet_length(name)) FROM rpq_store.pool
WHERE name NOT IN ('c1-gpu', 'c1-cpu', 'd1', 'e1', 'from d1', 'empty', 'zero', 'cpus');
SELECT rpq.edit_pool('a_b', description => 'this one');
SELECT rpq.edit_pool('x; DROP TABLE t; --', description => 'that one');
SELECT name, description FROM rpq_store.pool WHERE description LIKE '%one' ORDER BY 1;
ROLLBACK;

-- editing
SELECT rpq.edit_pool('d1', description => 'second', queueing => 'best_effort', default_priority => 60, frozen => true,
	allow_guarantee => false, min_runtime => '1 hour', user_default_quota => '', workload_types => '{inference}');
SELECT rpq.edit_pool('d1', description => 'second', frozen => true);
SELECT rpq.edit_pool('d1', frozen => false, clear => '{description,project_group,workload_types,user_default_quota}');
SELECT rpq.edit_pool('e1', isolate_accounts => true, faulty_node_rotation => false);
SELECT rpq.edit_pool('e1', instance_type => 'h100', scheduling_policy => 'binpack', user_default_quota => 'gpu=2');
SELECT rpq.edit_pool('e1', instance_type => 'h100', clear => '{scheduling_policy}');
SELECT rpq.edit_pool('c1-gpu', open => false);
SELECT object, old, new FROM rpq_store.history WHERE action = 'edit_pool' ORDER BY history_id;
SELECT t AS call, pg_temp.try('SELECT rpq.edit_pool(' || t || ')') AS answer FROM unnest(ARRAY[
	$$NULL$$, $$''$$, $$'nosuch'$$, $$'acme/nosuch'$$, $$'other/d1'$$,
	$$'d1', default_priority => 101$$, $$'d1', queueing => 'x'$$, $$'d1', scheduling_policy => 'spread'$$,
	$$'d1', open => true$$, $$'d1', faulty_node_rotation => false$$, $$'d1', isolate_accounts => true$$,
	$$'c1-gpu', idle_time_sharing => true$$, $$'c1-gpu', scheduling_policy => 'spread'$$,
	$$'d1', min_runtime => '-1 s'$$, $$'d1', min_runtime => '2000 years'$$, $$'d1', user_default_quota => 'gpu=-1'$$,
	$$'d1', workload_types => '{nosuch}'$$, $$'d1', project_group => 'nosuch'$$, $$'d1', clear => '{frozen}'$$,
	$$'d1', clear => '{NULL}'$$, $$'d1', clear => '{description}', description => 'x'$$,
	$$'e1', instance_type => 'cpu'$$, $$'e1', instance_type => 'nosuch'$$, $$'e1', instance_type => 'h100', frozen => true$$,
	$$'e1', instance_type => 'h100', clear => '{description}'$$, $$'d1', instance_type => 'h100', scheduling_policy => 'spread'$$]) AS t;

-- what an account may choose
SELECT rpq.edit_pool('empty', workload_types => '{inference}'), rpq.edit_pool('d1', frozen => true), rpq.edit_pool('c1-gpu', open => true);
SELECT rpq.create_account('alice', tenant => 'acme') > 0 AS account;
SELECT rpq.authorize('d1', '{alice}'), rpq.authorize('empty', '{alice}'), rpq.authorize('e1', '{alice}');
SET rpq.account = 'alice';
SELECT pool, selectable, reason_code, reason FROM rpq.selectable_pools('training');
SELECT pg_temp.try('SELECT count(*) FROM rpq.selectable_pools(''nosuch'')'), pg_temp.try('SELECT count(*) FROM rpq.selectable_pools(NULL)');
SELECT pg_temp.try('SELECT rpq.edit_pool(''d1'', frozen => false)'), pg_temp.try('SELECT rpq.create_pool(''x'', ''dedicated'')');
RESET rpq.account;
SELECT pool, selectable, reason_code FROM rpq.selectable_pools('training');

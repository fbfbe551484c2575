-- Resizing and moving nodes: what is refused, in which words, and what the figures say.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rpq;
\pset null -
SET rpq.synchronous_operations = on;
SELECT rpq.create_tenant('acme') > 0 AS tenant, rpq.create_cluster('c1') > 0 AS cluster,
	rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=96') > 0 AS gpu_type,
	rpq.create_instance_type('a100', 'gpu', 'gpu=8,cpu=64') > 0 AS other_type,
	rpq.create_instance_type('epyc', 'cpu', 'cpu=120') > 0 AS cpu_type, rpq.create_account('ana') > 0 AS account;
SELECT rpq.add_nodes('h100', count => 6, prefix => 'n');
SELECT rpq.add_nodes('a100', names => '{a1}');
SELECT rpq.add_nodes('h100', names => '{part}', capacity => 'gpu=4,cpu=48');
SELECT rpq.add_nodes('epyc', names => '{c1}');
SELECT rpq.create_pool('d1', 'dedicated', 'h100', quota => 'gpu=24') > 0 AS d1, rpq.create_pool('d2', 'exclusive', 'h100') > 0 AS d2,
	rpq.create_pool('etl', 'dedicated', 'epyc', quota => 'cpu=120') > 0 AS etl;
SELECT rpq.authorize('d1', '{ana}');
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	why text;
	way text;
	code text;
BEGIN
	EXECUTE 'SELECT rpq.' || statement;
	RAISE EXCEPTION USING ERRCODE = 'XT000', MESSAGE = 'undo';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, way = PG_EXCEPTION_HINT, code = RETURNED_SQLSTATE;
	RETURN CASE code WHEN 'XT000' THEN 'ok' ELSE concat_ws(' | ', code, said, nullif(why, ''), nullif(way, '')) END;
END
$$;
-- n1: 8, n2: 3 and 1, n3 is idle
SELECT rpq.submit('d1', workload_type => 'training', resources => 'gpu=8', account => 'ana', name => 'whole') AS w1,
	rpq.submit('d1', workload_type => 'training', resources => 'gpu=3', account => 'ana') AS w2,
	rpq.submit('d1', workload_type => 'training', resources => 'gpu=1', account => 'ana', name => 'o''clock "x"') AS w3 \gset
SELECT count(*) FROM rpq.schedule();
SELECT name, pool, used FROM rpq.nodes ORDER BY name;
\x on
SELECT c AS call, pg_temp.try(c) AS answer FROM unnest(ARRAY[
	-- what does not exist
	$$resize_pool(NULL, 'gpu=8')$$,
	$$resize_pool('nosuch', 'gpu=8')$$,
	$$resize_pool('d1', 'gpu=8', source => 'nosuch')$$,
	$$resize_pool('d1', 'gpu=8', target => 'nosuch')$$,
	$$resize_pool('d1', 'gpu=8', instance_type => 'nosuch')$$,
	$$resize_pool('d1', add_nodes => '{n4,nosuch}')$$,
	$$resize_pool('d1', remove_nodes => '{nosuch}')$$,
	-- arguments
	$$resize_pool('d1')$$,
	$$resize_pool('d1', 'gpu=8', add_nodes => '{n4}')$$,
	$$resize_pool('d1', add_nodes => '{}')$$,
	$$resize_pool('d1', add_nodes => '{NULL}')$$,
	$$resize_pool('d1', add_nodes => '{n4}', remove_nodes => '{n3,n4}')$$,
	$$resize_pool('d1', add_nodes => '{a1}', instance_type => 'h100')$$,
	$$resize_pool('d1', 'gpu=8', instance_type => 'epyc')$$,
	$$resize_pool('d1', 'cpu=96')$$,
	$$resize_pool('d1', 'gpu=8,cpu=96')$$,
	$$resize_pool('d1', '')$$,
	$$resize_pool('d1', 'gpu=-8')$$,
	$$resize_pool('c1-gpu', 'gpu=8')$$,
	$$resize_pool('d1', 'gpu=8', source => 'd1')$$,
	$$resize_pool('d1', 'gpu=32', source => 'c1-cpu')$$,
	-- whole machines
	$$resize_pool('d1', 'gpu=20')$$,
	$$resize_pool('d1', 'gpu=0.5')$$,
	$$resize_pool('d1', add_nodes => '{n4,part}')$$,
	-- usage
	$$resize_pool('d1', 'gpu=8')$$,
	$$resize_pool('d1', 'gpu=0')$$,
	$$resize_pool('d1', remove_nodes => '{n1,n2,n3}')$$,
	-- source
	$$resize_pool('d1', 'gpu=56')$$,
	$$resize_pool('d1', 'gpu=439208192231176')$$,
	$$resize_pool('d1', 'gpu=16', instance_type => 'a100')$$,
	$$resize_pool('d2', 'gpu=16', source => 'd1')$$,
	$$resize_pool('d2', add_nodes => '{n2}', source => 'd1')$$,
	$$resize_pool('d2', add_nodes => '{n3}')$$,
	$$resize_pool('d1', remove_nodes => '{n4}')$$,
	-- the same of a move
	$$move_nodes('{n4}')$$,
	$$move_nodes(to_pool => 'd1')$$,
	$$move_nodes('{n4}', 1, to_pool => 'd1')$$,
	$$move_nodes(count => 1, to_pool => 'd1')$$,
	$$move_nodes(count => 0, from_pool => 'd2', to_pool => 'd1')$$,
	$$move_nodes(count => -1, from_pool => 'd2', to_pool => 'd1')$$,
	$$move_nodes(count => 2147483647, from_pool => 'd2', to_pool => 'd1')$$,
	$$move_nodes(count => 1, from_pool => 'd1', to_pool => 'd1')$$,
	$$move_nodes(count => 1, from_pool => 'etl', to_pool => 'd1')$$,
	$$move_nodes('{n3}', to_pool => 'd1')$$,
	$$move_nodes('{n3,n4}', to_pool => 'd2')$$,
	$$move_nodes('{n3,n4}', from_pool => 'd1', to_pool => 'd2')$$,
	$$move_nodes('{n4,a1}', instance_type => 'a100', to_pool => 'd2')$$,
	$$move_nodes(count => 1, from_pool => 'c1-gpu', to_pool => 'd2')$$,
	$$move_nodes('{part}', to_pool => 'd2')$$,
	$$move_nodes('{n1}', to_pool => 'd2')$$,
	$$move_nodes('{n1}', to_pool => 'c1-gpu')$$,
	$$move_nodes(count => 2, from_pool => 'd1', to_pool => 'd2')$$,
	$$move_nodes(count => 2, from_pool => 'd1', to_pool => 'c1-gpu')$$,
	$$move_nodes(count => 4, from_pool => 'c1-gpu', to_pool => 'd2', instance_type => 'h100')$$,
	$$move_nodes(count => 1, from_pool => 'd2', to_pool => 'c1-gpu')$$,
	-- and what goes
	$$resize_pool('d1', 'gpu=24')$$,
	$$resize_pool('d1', 'gpu=16')$$,
	$$resize_pool('d1', 'gpu=16', target => 'd2')$$,
	$$resize_pool('d1', 'gpu=8', instance_type => 'a100')$$,
	$$resize_pool('d1', add_nodes => '{n4,acme/n4,n4}', remove_nodes => '{n3}')$$,
	$$resize_pool('etl', 'cpu=0')$$,
	$$move_nodes('{n4,a1}', to_pool => 'd2')$$,
	$$move_nodes(count => 1, from_pool => 'd1', to_pool => 'c1-gpu')$$]) AS c;
\x off
-- a node that takes no work is not taken, but is the first to be given away
SELECT rpq.cordon_node('n4', 'disk'), rpq.set_node_health('n5', 'degraded', 'slow');
SELECT pg_temp.try($$resize_pool('d1', 'gpu=40')$$) LIKE 'RQ005%gpu=16 of instance type "h100" are wanted; pool "c1-gpu" has idle nodes for gpu=8.%' AS short;
SELECT pg_temp.try($$resize_pool('d1', add_nodes => '{n4,n5}')$$);
SELECT rpq.resize_pool('d1', 'gpu=32') > 0 AS grown;
SELECT rpq.cordon_node('n6');
SELECT rpq.resize_pool('d1', 'gpu=24') > 0 AS shrunk;
SELECT name, pool FROM rpq.nodes WHERE name IN ('n3', 'n6') ORDER BY name;
-- while an operation is open, the same again names it; a shared pool is never held
RESET rpq.synchronous_operations;
SELECT rpq.resize_pool('d1', 'gpu=16') AS open \gset
SELECT name, status FROM rpq.pools ORDER BY name;
SELECT replace(pg_temp.try($$resize_pool('d1', 'gpu=16')$$), :'open', 'N') AS again;
SELECT replace(pg_temp.try($$resize_pool('d1', 'gpu=17,x=1')$$), :'open', 'N') AS before_arguments;
SELECT replace(pg_temp.try($$move_nodes(count => 1, from_pool => 'd1', to_pool => 'd2')$$), :'open', 'N') AS move;
SELECT replace(pg_temp.try($$resize_pool('d2', 'gpu=8', source => 'd1')$$), :'open', 'N') AS as_source;
SELECT pg_temp.try($$resize_pool('d2', 'gpu=8', instance_type => 'a100')$$) AS another_pool;
SELECT rpq.cancel_operation(:open);
SELECT name, status FROM rpq.pools WHERE name = 'd1';
-- what is no longer so when it is carried out fails, and leaves the pool as it was
SELECT rpq.move_nodes('{a1}', to_pool => 'd1') AS failing \gset
SELECT status, from_pool_id IS NOT NULL AS from_pool, nodes FROM rpq_store.migration JOIN rpq_store.operation USING (operation_id) WHERE operation_id = :failing;
SELECT rpq.cordon_node('a1');
SELECT rpq.run_operations();
SELECT kind, pool, status, error_code, error FROM rpq.operations WHERE operation_id = :failing;
SELECT name, status, total FROM rpq.pools WHERE name = 'd1';
SELECT count(*) AS held FROM rpq_store.operation_pool;
SELECT rpq.uncordon_node('a1');
SELECT rpq.retry_operation(:failing) > :failing AS again;
SELECT rpq.run_operations();
SELECT kind, pool, status, result FROM rpq.operations ORDER BY operation_id DESC LIMIT 1;
SELECT name, status, total, instance_types FROM rpq.pools WHERE name = 'd1';
SELECT direction, mode, nodes, evicted, status FROM rpq_store.migration JOIN rpq_store.operation USING (operation_id) ORDER BY migration_id;
SELECT action, object_kind, object, old, new FROM rpq_store.history WHERE action IN ('resize_pool', 'move_nodes') ORDER BY history_id;
SELECT * FROM rpq.check_integrity();

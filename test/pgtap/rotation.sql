-- Faulty-node rotation: swaps by the system, pending until there is a spare, overtaken by anything else.
SELECT no_plan();
SET client_min_messages = warning;
DO $$
BEGIN
	SET LOCAL rpq.synchronous_operations = on;
	PERFORM rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_instance_type('h100', 'gpu', 'gpu=8'),
		rpq.create_instance_type('a100', 'gpu', 'gpu=8');
	PERFORM rpq.add_nodes('h100', count => 3, prefix => 'n'), rpq.add_nodes('a100', names => '{other}'),
		rpq.add_nodes('h100', names => '{half}', capacity => 'gpu=4');
	PERFORM rpq.create_account('u1'), rpq.create_account('adm');
	PERFORM rpq.create_pool('e', 'exclusive', nodes => '{n1,n2}', faulty_node_rotation => true),
		rpq.create_pool('d', 'dedicated', 'h100', quota => 'gpu=0');
	PERFORM rpq.grant_pool_admin('e', 'adm');
END
$$;
CREATE FUNCTION pg_temp.place() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(p.name || ': ' || p.nodes, '; ' ORDER BY p.name)
	FROM (SELECT p.name, string_agg(n.name, ' ' ORDER BY n.name) AS nodes
		  FROM rpq_store.pool p JOIN rpq_store.node n USING (pool_id) GROUP BY p.name) AS p
$$;
CREATE FUNCTION pg_temp.swaps() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', arguments->>'node', status, result->>'spare'), '; ' ORDER BY operation_id)
	FROM rpq.operations WHERE kind = 'rotate'
$$;

SELECT is(rpq_store.run_rotations(NULL, '0'), 0, 'nothing to do');
-- a spare is there
SELECT rpq.set_node_health('n1', 'degraded', 'slow'), rpq_store.run_rotations(NULL, '0');
SELECT is(pg_temp.swaps(), NULL, 'degraded is not faulty');
SELECT rpq.set_node_health('n1', 'unhealthy', 'gone');
SELECT rpq_store.run_pending_operations() + rpq_store.run_rotations(NULL, '1 s') AS round;
SELECT is(pg_temp.place(), 'c1-gpu: half n1 other; e: n2 n3', 'swapped');
SELECT is(pg_temp.swaps(), 'n1 succeeded n3', 'an operation');
SELECT is((SELECT initiator || ' ' || pool || ' ' || progress || ' ' || attempts FROM rpq.operations WHERE kind = 'rotate'), 'system e 1 1', 'by the system');
SELECT is((SELECT actor || old::text || new::text FROM rpq.operation_history WHERE action = 'rotate'), 'system{"node": "n1"}{"node": "n3"}', 'recorded');
SELECT is((SELECT health || health_reason FROM rpq.nodes WHERE name = 'n1'), 'unhealthygone', 'the faulty node is as it was');
SELECT is((SELECT total::text || status FROM rpq.pools WHERE name = 'e'), 'gpu=16ready', 'the pool is as large as it was');

-- none is there: pending, one for each node; no pool is held
SELECT rpq.set_node_health('n2', 'unhealthy'), rpq.set_node_health('n3', 'unhealthy');
SELECT is(rpq.run_operations(), 0, 'no spare: of another type, or half a machine, is none');
SELECT is(pg_temp.swaps(), 'n1 succeeded n3; n2 pending; n3 pending', 'both wait');
SELECT is(rpq.run_operations() + rpq_store.run_rotations(NULL, '0'), 0, 'still');
SELECT is((SELECT count(*)::int FROM rpq_store.operation_pool), 0, 'they hold nothing');
SELECT is((SELECT status FROM rpq.pools WHERE name = 'e'), 'ready', 'nor change the pool');
SELECT rpq.rename_pool('e', 'ex') > 0 AS overtakes;
SELECT is(rpq.run_operations(), 1, 'another operation overtakes them');
-- a spare appears: the older swap gets it, by the node's health, by a new node
SELECT rpq.set_node_health('n1', 'healthy');
SET rpq.account = 'acme/adm';
SELECT is(rpq.run_operations(), 1, 'swapped, by the pool''s administrator too');
RESET rpq.account;
SELECT is(pg_temp.swaps(), 'n1 succeeded n3; n2 succeeded n1; n3 pending', 'the first');
SELECT rpq.add_nodes('h100', names => '{m1}'), rpq.cordon_node('m1');
SELECT is(rpq_store.run_rotations(NULL, '0'), 0, 'a cordoned node is no spare');
SELECT rpq.uncordon_node('m1');
SELECT is(rpq_store.run_rotations(NULL, '1 h'), 0, 'not looked at within the patience');
-- an operation that has the pool goes first
SELECT rpq.rename_pool('ex', 'e') AS op \gset
SELECT is(rpq_store.run_rotations(NULL, '0'), 0, 'not while another has the pool');
SELECT is(rpq.run_operations(), 2, 'then it');
SELECT is(pg_temp.place(), 'c1-gpu: half n2 n3 other; e: m1 n1', 'swapped');

-- no longer wanted: healthy again, switched off, converted, gone
SELECT rpq.set_node_health('m1', 'unhealthy'), rpq_store.run_rotations(NULL, '0'), rpq.set_node_health('m1', 'healthy'), rpq_store.run_rotations(NULL, '0');
SELECT ok(pg_temp.swaps() LIKE '%; m1 cancelled', 'healthy again: ' || pg_temp.swaps());
SELECT rpq.set_node_health('m1', 'unhealthy'), rpq_store.run_rotations(NULL, '0'), rpq.edit_pool('e', faulty_node_rotation => false), rpq_store.run_rotations(NULL, '0');
SELECT ok(pg_temp.swaps() LIKE '%; m1 cancelled; m1 cancelled', 'switched off');
SELECT rpq.edit_pool('e', faulty_node_rotation => true), rpq_store.run_rotations(NULL, '0');
SELECT ok(pg_temp.swaps() LIKE '%; m1 cancelled; m1 cancelled; m1 pending', 'switched on');
SELECT rpq.convert_pool('e', 'dedicated') > 0 AS converted;
SELECT rpq.run_operations();
SELECT ok(pg_temp.swaps() LIKE '%; m1 cancelled; m1 cancelled; m1 cancelled', 'a dedicated pool has none');
SELECT rpq.convert_pool('e', 'exclusive') > 0 AS converted; SELECT rpq.run_operations();
SELECT rpq.edit_pool('e', faulty_node_rotation => true), rpq_store.run_rotations(NULL, '0'), rpq.remove_nodes('{m1}'), rpq_store.run_rotations(NULL, '0');
SELECT ok(pg_temp.swaps() LIKE '%; m1 cancelled; m1 cancelled; m1 cancelled; m1 cancelled', 'the node is gone');
SELECT rpq.set_node_health('n1', 'unhealthy'), rpq_store.run_rotations(NULL, '0'), rpq.delete_pool('e', force => true) > 0 AS deleted;
SELECT rpq.run_operations();
SELECT ok(pg_temp.swaps() LIKE '%; m1 cancelled; n1 cancelled', 'the pool is gone');
SELECT is(rpq_store.run_rotations(NULL, '0'), 0, 'nothing is left to do');

-- synchronous: by the calls after which a node may be faulty, or a spare
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('s', 'exclusive', nodes => '{n3}', faulty_node_rotation => true) > 0 AS made
FROM rpq.set_node_health('n3', 'healthy');
SELECT rpq.set_node_health('n3', 'unhealthy'), rpq.add_nodes('h100', names => '{k1}');
SELECT is((SELECT string_agg(name, ' ') FROM rpq.nodes WHERE pool = 's'), 'k1', 'add_nodes brings the spare');
SELECT rpq.set_node_health('k1', 'unhealthy'), rpq.set_node_health('n3', 'healthy');
SELECT is((SELECT string_agg(name, ' ') FROM rpq.nodes WHERE pool = 's'), 'n3', 'so does health');

SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'all is well');
SELECT * FROM finish();

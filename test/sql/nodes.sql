-- Nodes: adding, removing, cordon and health; the shared pool that comes into being with its first node.
\pset null -
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rpq;
SELECT rpq.create_tenant('acme') > 0 AS tenant, rpq.create_cluster('c1') > 0 AS cluster,
	rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=96,memory=1Ti') > 0 AS gpu_type,
	rpq.create_instance_type('big', 'cpu', 'cpu=240,memory=512Gi') > 0 AS cpu_type;

CREATE FUNCTION pg_temp.nodes() RETURNS TABLE (name text, pool text, type text, capacity rpq.resources, labels jsonb,
	state text, reason text)
LANGUAGE sql AS $$
	SELECT n.name, p.name, t.name, n.capacity, n.labels,
		n.health || CASE WHEN n.schedulable THEN '' ELSE ', cordoned' END, n.health_reason
	FROM rpq_store.node n JOIN rpq_store.pool p USING (pool_id) JOIN rpq_store.instance_type t USING (type_id) ORDER BY n.name
$$;
-- runs a statement and says how it ended
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

-- by name and by count; the shared pools come into being, one for each kind
SELECT rpq.add_nodes('h100', names => '{n2," n1 ",n2}');
SELECT rpq.add_nodes('h100', count => 2, prefix => 'n');
SELECT rpq.add_nodes('h100', count => 2);
SELECT rpq.add_nodes('big', count => 1, prefix => 'b', capacity => 'cpu=100', labels => '{"rack": 7}', provider_id => 'i-1');
SELECT * FROM pg_temp.nodes();
SELECT name, type, kind, status, open FROM rpq_store.pool ORDER BY 1;
SELECT p.name AS pool, t.name AS type, c.capacity, c.nodes
FROM rpq_store.pool_capacity c JOIN rpq_store.pool p USING (pool_id) JOIN rpq_store.instance_type t USING (type_id) ORDER BY 1, 2;
SELECT p.name AS pool, l.parts, count(*) FROM rpq_store.node_load l JOIN rpq_store.pool p USING (pool_id) GROUP BY 1, 2 ORDER BY 1;
-- a name that exists
SELECT rpq.add_nodes('h100', names => '{n1,n9}', labels => '{"row": "a"}');
SELECT rpq.add_nodes('h100', names => '{n1,n9}', labels => '{"row": "a"}');
SELECT rpq.add_nodes('h100', names => '{n1}');
SELECT t AS call, pg_temp.try(t) AS answer FROM unnest(ARRAY[
	$$SELECT rpq.add_nodes('big', names => '{n1}')$$,
	$$SELECT rpq.add_nodes('h100', names => '{n1}', capacity => 'gpu=4')$$]) AS t;
SELECT name, labels FROM pg_temp.nodes() WHERE labels <> '{}';
-- history: one row for each node named and changed, one for each pool that came into being
SELECT action, object_kind, object, new - 'pool' AS new FROM rpq_store.history
WHERE action = 'add_nodes' AND object IN ('n1', 'b1', 'c1-gpu', 'n9') ORDER BY history_id;

-- bad input: nothing is stored
SELECT count(*) AS nodes FROM rpq_store.node \gset
SELECT t AS call, pg_temp.try(t) AS answer FROM unnest(ARRAY[
	$$SELECT rpq.add_nodes(NULL, names => '{x}')$$,
	$$SELECT rpq.add_nodes('', names => '{x}')$$,
	$$SELECT rpq.add_nodes('nosuch', names => '{x}')$$,
	$$SELECT rpq.add_nodes('h100')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', count => 1)$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', prefix => 'x')$$,
	$$SELECT rpq.add_nodes('h100', names => '{}')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x,NULL}')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x," "}')$$,
	$$SELECT rpq.add_nodes('h100', names => ARRAY[repeat('p', 64)])$$,
	$$SELECT rpq.add_nodes('h100', names => '{a/b}')$$,
	$$SELECT rpq.add_nodes('h100', names => ARRAY[E'a\nb'])$$,
	$$SELECT rpq.add_nodes('h100', count => 0)$$,
	$$SELECT rpq.add_nodes('h100', count => -1)$$,
	$$SELECT rpq.add_nodes('h100', count => 2147483647)$$,
	$$SELECT rpq.add_nodes('h100', count => 1, prefix => repeat('p', 63))$$,
	$$SELECT rpq.add_nodes('h100', count => 1, prefix => E'p\t')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=7.5')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=0')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=-8')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=8,cpu=-1')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=100000')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => '')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=NaN')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', capacity => 'gpu=9223372036854775808')$$,
	$$SELECT rpq.add_nodes('big', names => '{x}', capacity => 'memory=8')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', labels => '[]')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', labels => 'null')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x,y}', provider_id => 'i-2')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', provider_id => ' ')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', cluster => 'nosuch')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', pool => 'nosuch')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', pool => 'other/nosuch')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', pool => 'c1-cpu')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', tenant => 'nosuch')$$,
	$$SELECT rpq.add_nodes('h100', names => ARRAY[NULL]::text[])$$]) AS t;
SELECT count(*) = :nodes AS nothing_stored FROM rpq_store.node;

-- into a named pool: whole machines only; a second cluster must be named
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('d1', 'dedicated') > 0 AS created;
SELECT rpq.add_nodes('h100', names => '{d1n1}', pool => 'd1');
SELECT rpq.add_nodes('h100', names => '{d1n2}', pool => 'acme/d1', capacity => 'gpu=16,cpu=9');
SELECT rpq.create_cluster('c2', 'eu') > 0 AS cluster, rpq.create_tenant('other') > 0 AS tenant;
SELECT t AS call, pg_temp.try(t) AS answer FROM unnest(ARRAY[
	$$SELECT rpq.add_nodes('h100', names => '{d1n3}', pool => 'acme/d1', capacity => 'gpu=12')$$,
	$$SELECT rpq.add_nodes('h100', names => '{d1n3}', pool => 'acme/d1', cluster => 'c2')$$,
	$$SELECT rpq.add_nodes('h100', names => '{d1n3}', pool => 'acme/d1', tenant => 'other')$$,
	$$SELECT rpq.add_nodes('big', names => '{d1n3}', pool => 'd1', tenant => 'acme')$$,
	$$SELECT rpq.add_nodes('h100', names => '{n1}', pool => 'd1', tenant => 'acme')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', tenant => 'acme')$$,
	$$SELECT rpq.add_nodes('h100', names => '{x}', tenant => 'acme', cluster => 'c2')$$,
	$$SELECT rpq.add_nodes('h100', names => '{n1}', tenant => 'other', cluster => 'c2')$$]) AS t;
SELECT t.name AS tenant, p.name, c.name AS cluster FROM rpq_store.pool p JOIN rpq_store.tenant t USING (tenant_id)
JOIN rpq_store.cluster c USING (cluster_id) WHERE p.type = 'shared' ORDER BY 1, 2;
-- the shared pool's name may be taken
SELECT rpq.create_pool('c2-cpu', 'dedicated', tenant => 'other', cluster => 'c2') > 0 AS created;
SELECT rpq.add_nodes('big', names => '{b}', tenant => 'other', cluster => 'c2');
SELECT p.name, p.kind, p.type FROM rpq_store.pool p JOIN rpq_store.node n USING (pool_id) WHERE n.name = 'b';

-- cordon and health
SELECT rpq.cordon_node('acme/n1', ' disk ');
SELECT rpq.cordon_node('acme/n1');
SELECT rpq.set_node_health('acme/n2', 'degraded', 'slow link');
SELECT rpq.set_node_health('acme/n3', 'unhealthy');
SELECT name, state, reason FROM pg_temp.nodes() WHERE name IN ('n1', 'n2', 'n3') AND pool = 'c1-gpu' ORDER BY 1;
SELECT rpq.uncordon_node('acme/n1');
SELECT rpq.uncordon_node('acme/n1');
SELECT rpq.set_node_health('acme/n2', 'healthy');
SELECT name, state, reason FROM pg_temp.nodes() WHERE name IN ('n1', 'n2') AND pool = 'c1-gpu' ORDER BY 1;
SELECT action, object, old, new FROM rpq_store.history WHERE object_kind = 'node' AND action <> 'add_nodes' ORDER BY history_id;
SELECT t AS call, pg_temp.try(t) AS answer FROM unnest(ARRAY[
	$$SELECT rpq.cordon_node(NULL)$$,
	$$SELECT rpq.cordon_node('acme/nosuch')$$,
	$$SELECT rpq.cordon_node('acme/n1', repeat('x', 2001))$$,
	$$SELECT rpq.uncordon_node('')$$,
	$$SELECT rpq.set_node_health('acme/n1', NULL)$$,
	$$SELECT rpq.set_node_health('acme/n1', 'sick')$$,
	$$SELECT rpq.set_node_health(NULL, 'healthy')$$]) AS t;

-- removal; what stands on a node is in the way
INSERT INTO rpq_store.pod (workload_id, attempt, replica, node_id) SELECT 0, 1, 0, node_id FROM rpq_store.node WHERE name = 'n2';
INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, resources, purpose) SELECT pool_id, node_id, 0, 'gpu=1', 'move' FROM rpq_store.node WHERE name = 'n2';
SELECT t AS call, pg_temp.try(t) AS answer FROM unnest(ARRAY[
	$$SELECT rpq.remove_nodes('{acme/n3,acme/n2}')$$,
	$$SELECT rpq.set_node_health('acme/n2', 'degraded')$$,
	$$SELECT rpq.remove_nodes('{acme/n3,acme/nosuch}')$$,
	$$SELECT rpq.remove_nodes('{}')$$,
	$$SELECT rpq.remove_nodes(NULL)$$,
	$$SELECT rpq.remove_nodes('{NULL}')$$,
	$$SELECT rpq.remove_nodes('{acme/n3,acme/n3,acme/n4}')$$,
	$$SELECT rpq.remove_nodes('{acme/n3}')$$]) AS t;
DELETE FROM rpq_store.pod;
DELETE FROM rpq_store.hold;
SELECT rpq.remove_nodes('{acme/n2}', force => true);
SELECT name FROM pg_temp.nodes() WHERE pool = 'c1-gpu';
SELECT object, new FROM rpq_store.history WHERE action = 'remove_nodes' ORDER BY history_id;
SELECT count(*) AS loads_without_node FROM rpq_store.node_load l WHERE NOT EXISTS (SELECT FROM rpq_store.node n WHERE n.node_id = l.node_id);
SELECT count(*) AS wrong_capacity FROM (
	SELECT pool_id, type_id, usable, count(*) FROM rpq_store.node GROUP BY 1, 2, 3
	EXCEPT SELECT pool_id, type_id, capacity, nodes FROM rpq_store.pool_capacity) x;
-- numbers go on from the highest in use
SELECT rpq.add_nodes('h100', count => 1, prefix => 'n', tenant => 'acme', cluster => 'c1');

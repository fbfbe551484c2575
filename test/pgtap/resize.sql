-- Resizing a pool: which nodes come and go, who may, what is recorded, and that machines are conserved.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4,n5,n6}') AS x \gset
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=16') AS x, rpq.create_pool(name => 'x1', type => 'exclusive', instance_type => 'g8') AS y \gset
SELECT rpq.authorize(pool => 'd1', accounts => '{u1}') AS x \gset
CREATE FUNCTION t.where_are() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(pool || ':' || names, ' ' ORDER BY pool)
	FROM (SELECT pool, string_agg(name, ',' ORDER BY name) AS names FROM rpq.nodes GROUP BY pool) p
$$;
CREATE FUNCTION t.sums() RETURNS text LANGUAGE sql AS $$
	SELECT (SELECT t.gpu(rpq.sum(capacity)) FROM rpq.nodes) || ' ' || (SELECT t.gpu(rpq.sum(total)) FROM rpq.pools)
$$;
SELECT is(t.where_are(), 'c1-gpu:n3,n4,n5,n6 d1:n1,n2', 'at first');

-- Growing: from the shared pool, idle nodes that take work, by name; work that waited is placed.
SELECT t.submit('d1', '8', 'u1', 'other') AS other, t.submit('d1', '8', 'u1', 'w', 2) AS w \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w), 'queued', 'a gang of two finds one node');
SELECT rpq.cordon_node(node => 'n3') AS x, t.submit('c1-gpu', '1', 'u2', 's') AS s \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:s), 'n4', 'n3 takes no work');
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=24') AS grown \gset
SELECT is(t.where_are(), 'c1-gpu:n3,n4,n6 d1:n1,n2,n5', 'n5 is the first that is idle and takes work');
SELECT is((SELECT concat_ws(' ', kind, pool, status, arguments->>'quota', result) FROM rpq.operations WHERE operation_id = :grown),
		  'resize d1 succeeded gpu=24 {"added": ["n5"], "evicted": [], "removed": []}', 'the operation says so');
SELECT t.pass() AS x \gset
SELECT is(t.status(:w), 'running', 'the gang is placed');
SELECT is((SELECT concat_ws(' ', object_kind, object, old->>'total', new->>'total', new->>'nodes_added') FROM rpq.operation_history WHERE operation_id = :grown),
		  'pool d1 cpu=384,gpu=16,memory=4194304 cpu=576,gpu=24,memory=6291456 ["n5"]', 'and the history, with both totals');
SELECT is(t.sums(), '48 48', 'machines are conserved');
-- The same again: nothing to do, nothing recorded.
SELECT t.stored() AS stored \gset
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=24') AS same \gset
SELECT is((SELECT status || ' ' || result FROM rpq.operations WHERE operation_id = :same), 'succeeded {"added": [], "evicted": [], "removed": []}', 'what it holds already succeeds');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE operation_id = :same), 0::bigint, 'and is no change');
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd1'), 'ready', 'the pool is ready');

-- Shrinking: what waits behind, the unhealthy go first, the rest stays.
SELECT rpq.stop(:w) AS x, rpq.stop(:other) AS y \gset
SELECT t.pass() AS x \gset
SELECT rpq.set_node_health(node => 'n2', health => 'unhealthy', reason => 'gone') AS x \gset
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=16') AS x \gset
SELECT is(t.where_are(), 'c1-gpu:n2,n3,n4,n6 d1:n1,n5', 'n2, which is unhealthy, was the first to go');
SELECT rpq.cordon_node(node => 'n5') AS x, rpq.resize_pool(pool => 'd1', quota => 'gpu=8') AS y \gset
SELECT is(t.where_are(), 'c1-gpu:n2,n3,n4,n5,n6 d1:n1', 'then the one that is cordoned');
SELECT is((SELECT health || ' ' || health_reason FROM rpq.nodes WHERE name = 'n2'), 'unhealthy gone', 'and is what it was');
SELECT rpq.uncordon_node(node => 'n5') AS x \gset
-- To another pool only what takes work goes.
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=24') AS x \gset
SELECT is(t.where_are(), 'c1-gpu:n2,n3,n4 d1:n1,n5,n6', 'two idle ones');
SELECT rpq.cordon_node(node => 'n1') AS x, rpq.resize_pool(pool => 'd1', quota => 'gpu=16', target => 'x1') AS y \gset
SELECT is(t.where_are(), 'c1-gpu:n2,n3,n4 d1:n1,n6 x1:n5', 'n1 stays');
SELECT is((SELECT string_agg(object || ' ' || coalesce(new->>'nodes_removed', new->>'nodes_added'), ', ' ORDER BY object)
		   FROM (SELECT * FROM rpq.operation_history ORDER BY operation_history_id DESC LIMIT 2) h), 'd1 ["n5"], x1 ["n5"]', 'a row for each pool named');
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=0', target => 'x1')$$), 'RQ006', 'not both can go there');
SELECT rpq.uncordon_node(node => 'n1') AS x \gset
-- By name, both ways at once; a name twice is one node.
SELECT rpq.resize_pool(pool => 'd1', add_nodes => '{n5,acme/n5, n5 }', remove_nodes => '{n6}', source => 'x1') AS x \gset
SELECT is(t.where_are(), 'c1-gpu:n2,n3,n4,n6 d1:n1,n5', 'swapped');
SELECT is((SELECT t.gpu(total) FROM rpq.pools WHERE name = 'd1'), 16::numeric, 'its total is the same');
SELECT is(t.outcome(format('SELECT rpq.resize_pool(pool => ''d1'', %s)', args)), state, args) FROM (VALUES
	('add_nodes => ''{n3}''', 'RQ005'), ('add_nodes => ''{n4}''', 'RQ006'), ('add_nodes => ''{n1}''', 'RQ005'), ('remove_nodes => ''{n6}''', 'RQ005'),
	('add_nodes => ''{n6,n9}''', '42704'), ('add_nodes => ''{n6}'', source => ''x1''', 'RQ005'), ('add_nodes => ''{}''', '22023'),
	('quota => NULL', '22023'), ('quota => ''gpu=NaN''', '22P02'), ('quota => ''gpu=1e30''', '22P02'), ('quota => ''gpu=9223372036854775808''', '22003')) v (args, state);
-- An empty pool has no type of its own when it was made without one; then the source's only one is meant.
SELECT rpq.create_pool(name => 'e1', type => 'dedicated') AS x, rpq.resize_pool(pool => 'e1', quota => 'gpu=8') AS y \gset
SELECT is((SELECT concat_ws(' ', t.gpu(total), instance_types) FROM rpq.pools WHERE name = 'e1'), '8 {g8}', 'from nothing');

-- The view does the same.
UPDATE rpq.pools SET total = 'gpu=0' WHERE name = 'e1';
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'e1'), 'ready 0', 'UPDATE of total is a resize');
UPDATE rpq.pools SET total = 'gpu=8', description = 'both' WHERE name = 'e1';
SELECT is((SELECT description || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'e1'), 'both 8', 'together with a setting');
SET rpq.synchronous_operations = off;
UPDATE rpq.pools SET total = 'gpu=0' WHERE name = 'e1';
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'e1'), 'ready 0', 'at once, whatever rpq.synchronous_operations says');
SELECT is(current_setting('rpq.synchronous_operations'), 'off', 'which stays as it was');
SELECT throws_ok($$UPDATE rpq.pools SET total = 'gpu=4' WHERE name = 'e1'$$, 'RQ003', NULL, 'half a machine is refused');
SELECT throws_ok($$UPDATE rpq.pools SET total = NULL WHERE name = 'e1'$$, '22023', NULL, 'so is none');
SELECT is(current_setting('rpq.synchronous_operations'), 'off', 'also after a refusal');

-- One at a time; what fails leaves the pool as it was, and any operation may be tried again.
SELECT rpq.resize_pool(pool => 'e1', quota => 'gpu=8') AS op \gset
SELECT is((SELECT status FROM rpq.pools WHERE name = 'e1'), 'updating', 'the pool is updating');
SELECT throws_like($$SELECT rpq.resize_pool(pool => 'e1', quota => 'gpu=8')$$, '%operation is open on pool "e1"%', 'the same again is refused');
SELECT throws_ok($$SELECT rpq.resize_pool(pool => 'e1', quota => 'gpu=9')$$, 'RQ004', NULL, 'before its arguments are looked at');
SELECT rpq.cordon_node(node => 'n6') AS x, rpq.run_operations() AS y \gset
SELECT is((SELECT p.status || ' ' || t.gpu(p.total) || ' ' || o.status || ' ' || o.error_code FROM rpq.pools p, rpq.operations o WHERE p.name = 'e1' AND o.operation_id = :op),
		  'failed 0 failed RQ005', 'there is no idle machine any more');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE operation_id = :op), 0::bigint, 'no history row claims success');
SELECT rpq.uncordon_node(node => 'n6') AS x, rpq.resize_pool(pool => 'e1', quota => 'gpu=8') AS y \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'e1'), 'ready 8', 'from failed it is tried again');
SELECT rpq.resize_pool(pool => 'e1', quota => 'gpu=0') AS op \gset
SELECT rpq.cancel_operation(id => :op) AS x \gset
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'e1'), 'ready 8', 'cancelled, it is what it was');
-- Nodes that come meanwhile count: the quota is what the pool is to hold, not by how much it grows.
SELECT rpq.uncordon_node(node => 'n3') AS x \gset
SELECT rpq.resize_pool(pool => 'x1', quota => 'gpu=8') AS op \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n7,n8}', pool => 'x1') AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT status || ' ' || result FROM rpq.operations WHERE operation_id = :op), 'succeeded {"added": [], "evicted": [], "removed": ["n7"]}', 'so one of the two goes');
SELECT is(t.sums(), '64 64', 'machines are conserved');
-- Where there is no shared pool yet, it comes into being.
SELECT rpq.create_cluster(name => 'c2', region => 'south') AS x, rpq.create_pool(name => 'c2d', type => 'dedicated', cluster => 'c2', instance_type => 'g8') AS y \gset
SELECT rpq.run_operations() AS x, rpq.add_nodes(instance_type => 'g8', names => '{m1}', pool => 'c2d') AS y \gset
SELECT rpq.resize_pool(pool => 'c2d', quota => 'gpu=0') AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT p.type || ' ' || n.pool FROM rpq.nodes n JOIN rpq.pools p ON p.name = n.pool WHERE n.name = 'm1'), 'shared c2-gpu', 'the shared pool of the other cluster');
SELECT is(t.status(:s), 'running', 'what ran in the source runs');
SELECT is((SELECT count(*) FROM rpq_store.migration), 0::bigint, 'a resize leaves no migration record');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Resizing and moving nodes that hold pods: in steps, pods first, within their pool; undone when it cannot be.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,s1,s2,s3,s4}') AS x \gset
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2,n3}') AS x, rpq.create_pool(name => 'd2', type => 'dedicated', instance_type => 'g8') AS y \gset
SELECT rpq.authorize(pool => 'd1', accounts => '{u1,u2}') AS x \gset
CREATE FUNCTION t.totals() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(name || ' ' || t.gpu(total) || '/' || t.gpu(used), ', ' ORDER BY name) FROM rpq.pools
$$;
CREATE FUNCTION t.where_are() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(pool || ':' || names, ' ' ORDER BY pool)
	FROM (SELECT pool, string_agg(name || CASE WHEN draining THEN '-' ELSE '' END, ',' ORDER BY name) AS names FROM rpq.nodes GROUP BY pool) p
$$;
CREATE FUNCTION t.moves(operation bigint) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', workload_id, from_node, to_node, status, reason), ', ' ORDER BY pod_migration_id)
	FROM rpq_store.pod_migration WHERE operation_id = operation
$$;
CREATE FUNCTION t.state(operation bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', o.kind, o.status, o.step, o.error_code, p.status) FROM rpq_store.operation o JOIN rpq_store.pool p USING (pool_id) WHERE operation_id = operation
$$;
-- What an executor has said of a node, as sync_node writes it: that it runs its pods, or that it has none of them.
CREATE PROCEDURE t.report(node_name text, has boolean) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO rpq_store.node_seen (node_id, at) SELECT node_id, rpq.now() FROM rpq_store.node WHERE name = node_name
	ON CONFLICT (node_id) DO UPDATE SET at = rpq.now();
	DELETE FROM rpq_store.pod_report r USING rpq_store.node n WHERE n.node_id = r.node_id AND n.name = node_name;
	INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, at)
	SELECT p.pod_id, p.node_id, p.workload_id, p.attempt, 'running', rpq.now()
	FROM rpq_store.pod p JOIN rpq_store.node n ON n.node_id = p.node_id WHERE n.name = node_name AND has;
END $$;
-- F21 (3): w1 fills n1, w2 and w3 have the halves of n2 and n3.
SELECT t.submit('d1', '8', 'u1', 'w1') AS w1 \gset
SELECT t.pass() AS x \gset
SELECT t.submit('d1', '4', 'u1', 'w2') AS w2, t.submit('d1', '4', 'u2', 'filler') AS filler \gset
SELECT t.pass() AS x \gset
SELECT t.submit('d1', '4', 'u2', 'w3') AS w3 \gset
SELECT t.pass() AS x, rpq.report_finished(:filler) AS y \gset
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=8', evacuate => true)$$), 'RQ006', '16 are used, whatever is moved');
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=16', evacuate => true) AS op \gset
SELECT is(t.state(:op), 'resize succeeded evacuate ready', 'without an executor it runs to its end');
SELECT is(t.totals(), 'c1-gpu 40/0, d1 16/16, d2 0/0', 'd1 16, used 16');
SELECT is(concat_ws(' ', t.nodes(:w1), t.nodes(:w2), t.nodes(:w3)), 'n1 n2 n2', 'w3 is next to w2');
SELECT is((SELECT string_agg(concat_ws(' ', name, status, attempt, end_cause), ', ' ORDER BY name) FROM rpq.workloads), 'w1 starting 1, w2 starting 1, w3 starting 2',
		  'none ended, none but the moved one restarted');
SELECT is(t.moves(:op), :'w3' || ' n3 n2 done', 'one move');
SELECT is((SELECT result::text FROM rpq.operations WHERE operation_id = :op), format('{"added": [], "evicted": [%s], "removed": ["n3"]}', :w3), 'the result names it');
SELECT is((SELECT new->>'evicted' FROM rpq.operation_history WHERE operation_id = :op), '[' || :w3 || ']', 'and the history');
SELECT is((SELECT count(*) FROM rpq.migrations), 0::bigint, 'a resize leaves no migration record');
SELECT * FROM t.whole();
-- What has no place elsewhere is refused at the call, and named.
SELECT t.stored() AS stored \gset
SELECT throws_matching($$SELECT rpq.resize_pool(pool => 'd1', remove_nodes => '{n2}', evacuate => true)$$, 'pods? cannot be placed elsewhere', 'by name');
SELECT is(t.outcome($$SELECT rpq.move_nodes(nodes => '{n1}', to_pool => 'd2', evacuate => true)$$), 'RQ006', 'as a move');
SELECT is(t.outcome($$SELECT rpq.move_nodes(count => 1, from_pool => 'd1', to_pool => 'c1-gpu', evacuate => true)$$), 'RQ006', 'by quantity');
SELECT is(t.outcome($$SELECT rpq.move_nodes(count => 1, from_pool => 'd1', to_pool => 'd2', evacuate => true)$$), 'RQ005', 'out of a source');
SELECT is(t.stored(), :'stored', 'nothing is stored');

-- Growing from the shared pool: idle first, then the least used, whose pods go to others of the shared pool.
SELECT t.submit('c1-gpu', '6', 'u3', 'a') AS a \gset
SELECT t.pass() AS x \gset
SELECT t.submit('c1-gpu', '4', 'u3', 'b') AS b \gset
SELECT t.pass() AS x \gset
SELECT rpq.cordon_node(node => 'n3') AS x, t.submit('c1-gpu', '2', 'u3', 'c') AS c \gset
SELECT t.pass() AS x \gset
SELECT rpq.uncordon_node(node => 'n3') AS x \gset
SELECT is((SELECT string_agg(concat_ws(' ', name, t.gpu(used)), ', ' ORDER BY name) FROM rpq.nodes WHERE pool = 'c1-gpu' AND NOT idle), 'n3 6, s1 6', 'two are used');
SELECT rpq.resize_pool(pool => 'd2', quota => 'gpu=24', evacuate => true) AS op \gset
SELECT is(t.where_are(), 'c1-gpu:n3,s1 d1:n1,n2 d2:s2,s3,s4', 'idle ones first');
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd2', quota => 'gpu=32', evacuate => true)$$), 'RQ005', 'of 12 on 16 nothing can move');
SELECT rpq.stop(:c) AS x \gset
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd2', quota => 'gpu=32', evacuate => true)$$), 'RQ005', 'nor of 6 and 4');
SELECT rpq.stop(:a) AS x, rpq.resize_pool(pool => 'd2', add_nodes => '{s1}', evacuate => true) AS op \gset
SELECT is(t.where_are() || ' ' || t.nodes(:b), 'c1-gpu:n3 d1:n1,n2 d2:s1,s2,s3,s4 n3', 'by name');
SELECT is(t.state(:op), 'resize succeeded evacuate ready', 'done');
SELECT * FROM t.whole();

-- In steps, with an executor that has to let go.  d1: n1 8 of w1, n2 w2 and w3; d2 gives it s1.
SELECT rpq.resize_pool(pool => 'd1', add_nodes => '{s1}', source => 'd2') AS x \gset
SELECT t.pass() AS x \gset
CALL t.report('n2', true);
SET rpq.synchronous_operations = off;
SELECT rpq.move_nodes(count => 1, from_pool => 'd1', to_pool => 'd2', evacuate => true) AS idle \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.state(:idle) || ' ' || t.where_are(), 'move succeeded ready c1-gpu:n3 d1:n1,n2 d2:s1,s2,s3,s4', 'an idle one goes at once');
SELECT rpq.move_nodes(nodes => '{s1}', to_pool => 'd1') AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT rpq.move_nodes(nodes => '{n2}', to_pool => 'd2', evacuate => true) AS op \gset
SELECT is(t.state(:op), 'move pending updating', 'pending: nothing is begun');
SELECT rpq.run_operations() AS x \gset
SELECT is(t.state(:op), 'move running evacuate updating', 'running: the executor has not let go');
SELECT is(t.where_are(), 'c1-gpu:n3 d1:n1,n2-,s1 d2:s2,s3,s4', 'n2 is draining');
SELECT is(t.totals(), 'c1-gpu 8/4, d1 24/16, d2 24/0', 'nothing has changed hands, nothing is charged twice');
SELECT is((SELECT string_agg(purpose || ' ' || n.name, ', ') FROM rpq_store.hold h JOIN rpq_store.node n USING (node_id)), 'move s1, move s1', 'room is kept on s1');
SELECT t.submit('d1', '1', 'u1', 'waits') AS waits \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:waits), 'queued', 'which nobody else takes, nor what n2 has');
SELECT is(rpq.run_operations(), 0, 'it waits');
SELECT throws_ok($$SELECT rpq.resize_pool(pool => 'd2', quota => 'gpu=0')$$, 'RQ004', NULL, 'both pools are held');
SELECT * FROM t.whole();
-- Cancelled: everything as before.
SELECT rpq.cancel_operation(id => :op) AS x \gset
SELECT is(t.state(:op), 'move cancelled evacuate ready', 'cancelled');
SELECT is(t.where_are(), 'c1-gpu:n3 d1:n1,n2,s1 d2:s2,s3,s4', 'n2 is where it was, and drains no more');
SELECT is((SELECT count(*) FROM rpq_store.hold WHERE purpose = 'move'), 0::bigint, 'no room is kept');
SELECT is((SELECT status || ' ' || coalesce(evicted::text, '') FROM rpq.migrations ORDER BY migration_id DESC LIMIT 1), 'cancelled {}', 'the record says so');
SELECT * FROM t.whole();
SELECT rpq.stop(:waits) AS x \gset
SELECT t.pass() AS x \gset
-- Through, when the executor lets go.
SELECT is(t.outcome($$SELECT rpq.move_nodes(count => 2, from_pool => 'd1', to_pool => 'd2', evacuate => true)$$), 'RQ005', 'of 16 on 24 one node can be emptied');
SELECT rpq.resize_pool(pool => 'd1', remove_nodes => '{n2}', target => 'd2', evacuate => true) AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.state(:op), 'resize running evacuate updating', 'a resize likewise');
CALL t.report('n2', false);
SELECT t.pass() AS x, rpq.run_operations() AS y \gset
SELECT is(t.state(:op), 'resize succeeded evacuate ready', 'they are gone');
SELECT is(t.where_are(), 'c1-gpu:n3 d1:n1,s1 d2:n2,s2,s3,s4', 'the node has gone over');
SELECT is(concat_ws(' ', t.nodes(:w2), t.nodes(:w3), t.totals()), 's1 s1 c1-gpu 8/4, d1 16/16, d2 32/0', 'the pods are on s1');
-- Both ways at once, pods on both sides.
SELECT t.submit('c1-gpu', '2', 'u3', 'd') AS d, rpq.add_nodes(instance_type => 'g8', names => '{n4}') AS x, rpq.add_nodes(instance_type => 'g8', names => '{n5}', pool => 'd1') AS y \gset
SELECT t.pass() AS x \gset
SELECT rpq.resize_pool(pool => 'd1', add_nodes => '{n3}', remove_nodes => '{s1}', evacuate => true) AS op \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.state(:op), 'resize succeeded evacuate ready', 'nodes of two pools are emptied');
SELECT is(t.where_are(), 'c1-gpu:n4,s1 d1:n1,n3,n5 d2:n2,s2,s3,s4', 'and change places');
SELECT is(concat_ws(' ', t.nodes(:b), t.nodes(:d), t.nodes(:w2), t.nodes(:w3)), 'n4 n4 n5 n5', 'each pod within its pool');
-- A target that turns bad: undone, failed; the pool is what it was, and may try again.
CALL t.report('n5', true);
SELECT t.pass() AS x, rpq.move_nodes(nodes => '{n5}', to_pool => 'd2', evacuate => true) AS op \gset
SELECT rpq.run_operations() AS x, rpq.cordon_node(node => 'n3') AS y \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.state(:op), 'move failed evacuate RQ006 failed', 'no other node takes them');
SELECT is(t.where_are(), 'c1-gpu:n4,s1 d1:n1,n3,n5 d2:n2,s2,s3,s4', 'nothing drains, nothing has moved');
SELECT is((SELECT status FROM rpq.migrations ORDER BY migration_id DESC LIMIT 1), 'failed', 'the record says so');
SELECT rpq.uncordon_node(node => 'n3') AS x, rpq.retry_operation(id => :op) AS op \gset
SELECT rpq.run_operations() AS x \gset
CALL t.report('n5', false);
SELECT t.pass() AS x, rpq.run_operations() AS y \gset
SELECT is(t.state(:op), 'move succeeded evacuate ready', 'tried again');
SELECT is((SELECT concat_ws(' ', status, direction, mode, from_pool, to_pool, nodes, evicted) FROM rpq.migrations ORDER BY migration_id DESC LIMIT 1),
		  format('succeeded in nodes d1 d2 {n5} {%s,%s}', :w2, :w3), 'with its record');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Moving nodes between pools: by quantity and by name, the record it leaves, who may.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
CREATE ROLE mn_one;  CREATE ROLE mn_both;  CREATE ROLE mn_member;
SELECT rpq.create_account(name => n, db_role => n) AS x FROM unnest('{mn_one,mn_both,mn_member}'::text[]) n \g /dev/null
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4,n5,n6}') AS x \gset
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=16') AS x, rpq.create_pool(name => 'd2', type => 'exclusive', quota => 'gpu=16') AS y \gset
SELECT rpq.grant_pool_admin(pool => p, account => a) AS x FROM (VALUES ('d1', 'mn_one'), ('d1', 'mn_both'), ('d2', 'mn_both')) v (p, a) \g /dev/null
SELECT rpq.authorize(pool => 'd1', accounts => '{u1,mn_member}') AS x \gset
SELECT t.submit('d1', '8', 'u1', 'w') AS w \gset
SELECT t.pass() AS x \gset
CREATE FUNCTION t.where_are() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(pool || ':' || names, ' ' ORDER BY pool)
	FROM (SELECT pool, string_agg(name, ',' ORDER BY name) AS names FROM rpq.nodes GROUP BY pool) p
$$;
CREATE FUNCTION t.record(operation bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', o.status, m.direction, m.mode, f.name, t.name, m.nodes, m.evicted)
	FROM rpq_store.migration m JOIN rpq_store.operation o USING (operation_id)
	JOIN rpq_store.pool f ON f.pool_id = m.from_pool_id LEFT JOIN rpq_store.pool t ON t.pool_id = m.to_pool_id WHERE o.operation_id = operation
$$;
SELECT is(t.where_are(), 'c1-gpu:n5,n6 d1:n1,n2 d2:n3,n4', 'at first');
SELECT rpq.move_nodes(count => 1, from_pool => 'd2', to_pool => 'd1') AS op \gset
SELECT is(t.where_are(), 'c1-gpu:n5,n6 d1:n1,n2,n3 d2:n4', 'by quantity');
SELECT is(t.record(:op), 'succeeded in quantity d2 d1 {n3} {}', 'and its record');
SELECT rpq.move_nodes(nodes => '{n3,n2,n3}', to_pool => 'c1-gpu') AS op \gset
SELECT is(t.where_are(), 'c1-gpu:n2,n3,n5,n6 d1:n1 d2:n4', 'by name, from where they are');
SELECT is(t.record(:op), 'succeeded out nodes d1 c1-gpu {n2,n3} {}', 'out, when a shared pool is the target');
SELECT is((SELECT kind || ' ' || pool FROM rpq.operations WHERE operation_id = :op), 'move d1', 'an operation on the pool that is not shared');
SELECT rpq.move_nodes(nodes => '{n3,n2}', from_pool => 'c1-gpu', to_pool => 'd2') AS op \gset
SELECT is(t.record(:op), 'succeeded in nodes c1-gpu d2 {n2,n3} {}', 'and back');
SELECT is((SELECT string_agg(concat_ws(' ', object, new->>'nodes_added', new->>'nodes_removed'), ', ' ORDER BY object) FROM rpq.operation_history WHERE operation_id = :op),
		  'c1-gpu ["n2", "n3"], d2 ["n2", "n3"]', 'the history has a row for each pool');
SELECT t.stored() AS stored \gset
SELECT is(t.outcome(format('SELECT rpq.move_nodes(%s)', args)), state, args) FROM (VALUES
	('to_pool => NULL, count => 1, from_pool => ''d1''', '22023'), ('to_pool => ''d2'', count => 1', '22023'), ('to_pool => ''d2''', '22023'),
	('to_pool => ''d2'', count => 0, from_pool => ''d1''', '22023'), ('to_pool => ''d2'', count => -5, from_pool => ''d1''', '22023'),
	('to_pool => ''d2'', count => 1, nodes => ''{n5}''', '22023'), ('to_pool => ''d2'', nodes => ''{}''', '22023'),
	('to_pool => ''d2'', nodes => ''{n9}''', '42704'), ('to_pool => ''d9'', nodes => ''{n5}''', '42704'), ('to_pool => ''d2'', nodes => ''{n4}''', '22023'),
	('to_pool => ''d2'', nodes => ''{n5,n1}''', '22023'), ('to_pool => ''d2'', count => 1, from_pool => ''d2''', '22023'),
	('to_pool => ''d2'', nodes => ''{n1}''', 'RQ006'), ('to_pool => ''d2'', nodes => ''{n5}'', from_pool => ''d1''', 'RQ005'),
	('to_pool => ''d2'', count => 1, from_pool => ''d1''', 'RQ005'), ('to_pool => ''c1-gpu'', count => 1, from_pool => ''d1''', 'RQ006'),
	('to_pool => ''d2'', count => 3, from_pool => ''c1-gpu''', 'RQ005'), ('to_pool => ''d2'', count => 1, from_pool => ''c1-gpu'', instance_type => ''x''', '42704')) v (args, state);
SELECT is(t.stored(), :'stored', 'nothing is stored');
-- A cordoned node may be given back to the shared pool, and taken by no other.
SELECT rpq.cordon_node(node => 'n4') AS x \gset
SELECT is(t.outcome($$SELECT rpq.move_nodes(nodes => '{n4}', to_pool => 'd1')$$), 'RQ005', 'it takes no work');
SELECT rpq.move_nodes(count => 1, from_pool => 'd2', to_pool => 'c1-gpu') AS op \gset
SELECT is(t.record(:op), 'succeeded out quantity d2 c1-gpu {n4} {}', 'and goes first');

-- Who may: both pools, of which a shared one need only be seen.
CREATE FUNCTION t.as(account text, args text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', account);
	answer := left(t.answer(format('SELECT rpq.move_nodes(%s)', args)), 5);
	RESET ROLE;
	RETURN answer;
END $$;
SELECT is((SELECT string_agg(t.as(who, args), ' ' ORDER BY n) FROM unnest('{mn_one,mn_both,mn_member,nobody}'::text[]) WITH ORDINALITY w (who, n) WHERE who <> 'nobody'), want, args) FROM (VALUES
	('to_pool => ''d1'', nodes => ''{n5}''', '00000 00000 42501'),
	('to_pool => ''d1'', count => 1, from_pool => ''c1-gpu''', '00000 00000 42501'),
	('to_pool => ''d1'', nodes => ''{n2}''', '42704 00000 42704'),
	('to_pool => ''d1'', count => 1, from_pool => ''d2''', '42704 00000 42704'),
	('to_pool => ''d2'', count => 1, from_pool => ''c1-gpu''', '42704 00000 42704'),
	('to_pool => ''c1-gpu'', count => 1, from_pool => ''d2''', '42704 00000 42704'),
	('to_pool => ''c1-gpu'', nodes => ''{n1}''', 'RQ006 RQ006 42501')) v (args, want);
-- One who sees the other pool and does not administer it.
SELECT rpq.authorize(pool => 'd2', accounts => '{mn_one}') AS x \gset
SELECT is(t.as('mn_one', 'to_pool => ''d1'', nodes => ''{n2}'''), '42501', 'the right is needed on both');
-- The shared pool closed to an account is not there for it.
SELECT rpq.edit_pool(pool => 'c1-gpu', open => false) AS x \gset
SELECT is(t.as('mn_one', 'to_pool => ''d1'', count => 1, from_pool => ''c1-gpu'''), '42704', 'not seen, not there');
SELECT rpq.edit_pool(pool => 'c1-gpu', open => true) AS x \gset

-- Asynchronously: the record follows the operation.
SET rpq.synchronous_operations = off;
SELECT rpq.move_nodes(count => 1, from_pool => 'd2', to_pool => 'd1') AS op \gset
SELECT is(t.record(:op), 'pending in quantity d2 d1 {} {}', 'pending');
SELECT is((SELECT string_agg(name || ' ' || status, ', ' ORDER BY name) FROM rpq.pools WHERE type <> 'shared'), 'd1 updating, d2 ready', 'the subject alone is updating');
SELECT throws_ok($$SELECT rpq.resize_pool(pool => 'd2', quota => 'gpu=0')$$, 'RQ004', NULL, 'the source is held with it');
SELECT rpq.cancel_operation(id => :op) AS x \gset
SELECT is(t.record(:op), 'cancelled in quantity d2 d1 {} {}', 'cancelled');
SELECT rpq.move_nodes(count => 2, from_pool => 'd2', to_pool => 'd1') AS op \gset
SELECT rpq.cordon_node(node => 'n3') AS x, rpq.run_operations() AS y \gset
SELECT is(t.record(:op), 'failed in quantity d2 d1 {} {}', 'failed');
SELECT is(t.where_are(), 'c1-gpu:n4,n5,n6 d1:n1 d2:n2,n3', 'with nothing moved');
SELECT rpq.uncordon_node(node => 'n3') AS x, rpq.retry_operation(id => :op) AS again \gset
SELECT rpq.run_operations() AS x \gset
SELECT is(t.record(:again), 'succeeded in quantity d2 d1 {n2,n3} {}', 'tried again');
SELECT is(t.where_are(), 'c1-gpu:n4,n5,n6 d1:n1,n2,n3', 'moved');
SELECT is(t.status(:w), 'running', 'what ran runs');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- isolate_accounts: in an exclusive pool with the setting a node hosts pods of one account at a time.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();

-- The worker's cycles, which keep the balances from one to the next.
CREATE FUNCTION t.cycle() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(sum((c.summary::jsonb ->> 'admitted')::int), 0)::text FROM rpq_store.run_cycles() AS c $$;
-- A person's cycle.
CREATE FUNCTION t.admits() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM rpq.schedule() AS d WHERE d.nodes IS NOT NULL $$;
CREATE FUNCTION t.end_one(id bigint) RETURNS boolean LANGUAGE sql AS $$ SELECT rpq.report_finished(id) $$;
-- What explain says of the room for one replica, and for all.
CREATE FUNCTION t.room(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', e.check_name, e.passed), ', ' ORDER BY e.step) FROM rpq.explain(id) AS e
	WHERE e.check_name IN ('no_node_fits', 'gang_does_not_fit') $$;
CREATE FUNCTION t.way_out(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT e.way_out FROM rpq.explain(id) AS e WHERE NOT e.passed ORDER BY e.step LIMIT 1 $$;
-- Accounts by node.
CREATE FUNCTION t.hosts() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(node || ' ' || accounts, ', ' ORDER BY node) FROM (
		SELECT n.name AS node, string_agg(DISTINCT a.name, '+' ORDER BY a.name) AS accounts
		FROM rpq_store.pod AS p JOIN rpq_store.node AS n USING (node_id) JOIN rpq_store.workload AS w USING (workload_id)
		JOIN rpq_store.account AS a ON a.account_id = w.account_id GROUP BY n.name) AS h $$;

SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4,n5}') AS x \gset
SELECT rpq.create_pool(name => 'x', type => 'exclusive', nodes => '{n1,n2}', queueing => 'best_effort') AS x \gset
SELECT rpq.create_pool(name => 'd', type => 'dedicated', nodes => '{n3}') AS x \gset
SELECT rpq.authorize(pool => 'x', accounts => '{u1,u2,u3}') AS x \gset
SELECT throws_ok($$SELECT rpq.edit_pool('d', isolate_accounts => true)$$, '22023', 'a dedicated pool does not have isolate_accounts',
	'a dedicated pool does not have the setting');

-- Off, two accounts share a node.
SELECT t.submit('x', '1', 'u1') AS a, t.submit('x', '1', 'u2') AS b \gset
SELECT is(t.cycle(), '2', 'off: both are admitted');
SELECT is(t.hosts(), 'n1 u1+u2', 'to the same node');

-- Switched on over that, nothing that runs is touched; the node is for nobody until one account is left.
SELECT rpq.edit_pool('x', isolate_accounts => true) \g /dev/null
SELECT t.submit('x', '1', 'u1') AS a2, t.submit('x', '8', 'u2') AS b2 \gset
SELECT is(t.cycle(), '1', 'on: one finds room');
SELECT is(t.hosts(), 'n1 u1+u2, n2 u1', 'u1 goes to the empty node, not to the fuller one that it shares with u2');
SELECT is(t.reason(:b2), 'no node of pool "x" has room: gpu=8 wanted, gpu=0 free in the pool, at most gpu=0 on one node; '
	'gpu=13 more is free on nodes that do not take it (2 nodes host other accounts)', 'u2 is told why it waits');
SELECT is(t.way_out(:b2), 'must wait: node "n1" hosts other accounts; on it: workload ' || :a || ' (gpu=1), workload ' || :b
	|| ' (gpu=1)', 'explain names what is on the node');
SELECT is(t.room(:b2), 'no_node_fits f', 'explain says what the cycle does');
SELECT rpq.stop(:b2), t.submit('x', '1', 'u1', NULL, 8) AS a8, t.submit('x', '1', 'u2') AS b3 \gset
SELECT is(t.room(:a8) || ', ' || t.room(:b3), 'no_node_fits t, gang_does_not_fit f, no_node_fits f',
	'the shared node takes no gang of u1, and nothing of u2');
SELECT is(t.cycle(), '0', 'nor does a cycle');
SELECT is(t.reason(:a8), '7 of 8 replicas would fit in pool "x" on instance type "g8": gpu=1 wanted by each replica, gpu=7 '
	'free in the pool, at most gpu=7 on one node; gpu=6 more is free on nodes that do not take it (1 node hosts other accounts)',
	'a gang is told as well');
SELECT is(t.way_out(:b3) LIKE 'must wait: node "n1" has room and hosts other accounts; on it: workload%', true,
	'a node that has the room is named');

-- One leaves: whoever is left has the node.
SELECT t.end_one(:b) \g /dev/null
SELECT is(t.cycle(), '1', 'u2 has left n1: the gang of u1 fits');
SELECT is(t.hosts(), 'n1 u1, n2 u1', 'on both nodes');
SELECT is(t.nodes(:a8), 'n1,n1,n1,n1,n1,n1,n1,n2', 'replica by replica to the fuller of its nodes');
SELECT is(t.cycle(), '0', 'u2 waits');
SELECT t.end_one(:a8) \g /dev/null
SELECT is(t.cycle(), '0', 'also when there is room again on both');
SELECT t.end_one(:a2) \g /dev/null
SELECT is(t.cycle(), '1', 'until a node is empty');
SELECT is(t.hosts(), 'n1 u1, n2 u2', 'then it enters');
SELECT * FROM t.whole();

-- A person's cycle, which reads everything anew, sees the same.
SELECT t.submit('x', '7', 'u1') AS a3, t.submit('x', '1', 'u3') AS c, t.submit('x', '3', 'u2', NULL, 2) AS b4 \gset
SELECT is((SELECT string_agg(a.nodes::text, ' ' ORDER BY a.workload) FROM rpq.schedule('x', dry_run => true) AS a), '{n1} {n2,n2}',
	'a dry run');
SELECT is(t.admits(), 2::bigint, 'a cycle reads whose the nodes are');
SELECT is(t.hosts(), 'n1 u1, n2 u2', 'u3 is kept out');

-- Within one cycle: who comes first has the node.
SELECT rpq.stop(w.workload_id) FROM rpq.workloads AS w \g /dev/null
SELECT t.submit('x', '1', 'u1') AS a, t.submit('x', '1', 'u2') AS b, t.submit('x', '1', 'u3') AS c,
	t.submit('x', '1', 'u2', NULL, 9) AS b9, t.submit('x', '1', 'u1', NULL, 7) AS a7 \gset
SELECT is(t.cycle(), '3', 'a node each for the first two, and what fits beside them');
SELECT is(t.hosts(), 'n1 u1, n2 u2', 'accounts stay apart within a cycle');
SELECT is(concat_ws(' ', t.status(:a), t.status(:b), t.status(:c), t.status(:b9), t.status(:a7)),
	'running running queued queued running', 'a third account and a gang too large for its node wait');
SELECT is(t.room(:b9), 'no_node_fits t, gang_does_not_fit f', 'the gang has one node');
SELECT * FROM t.whole();

-- What an executor has not let go of keeps its account's node as well, in the cycle that counts its end and later.
SELECT p.pod_id AS pb FROM rpq.pods AS p WHERE p.workload_id = :b \gset
SELECT count(*) FROM rpq.sync_node(node => 'n2', running => ARRAY[:pb]) \g /dev/null
SELECT is(t.cycle(), '0', 'a pod that its executor has');
SELECT rpq.stop(:b), rpq.stop(:b9) \g /dev/null
SELECT is(t.cycle(), '0', 'what is still stopping keeps others off');
SELECT is((SELECT count(*) FROM rpq_store.pod AS p JOIN rpq_store.node AS n USING (node_id) WHERE n.name = 'n2'), 0::bigint,
	'without a pod on the node');
SELECT is(t.reason(:c), 'no node of pool "x" has room: gpu=1 wanted, gpu=0 free in the pool, at most gpu=0 on one node; gpu=7 '
	'more is free on nodes that do not take it (2 nodes host other accounts)', 'and says so');
SELECT is(t.room(:c), 'no_node_fits f', 'so does explain');
SELECT is(t.admits(), 0::bigint, 'and a person''s cycle');
SELECT t.submit('x', '1', 'u2') AS b5 \gset
SELECT is(t.cycle(), '1', 'its own account it lets in');
SELECT is(t.nodes(:b5), 'n2', 'there');
SELECT rpq.stop(:b5) \g /dev/null
SELECT is(t.cycle(), '0', 'the node is still that account''s');
SELECT count(*) FROM rpq.sync_node(node => 'n2') \g /dev/null
SELECT is(t.cycle(), '1', 'when the executor has let go, u3 enters');
SELECT is(t.hosts(), 'n1 u1, n2 u3', 'n2');
SELECT * FROM t.whole();

-- Off again: accounts share.
SELECT t.submit('x', '2', 'u2') AS b6 \gset
SELECT is(t.cycle(), '0', 'u2 is kept out');
SELECT rpq.edit_pool('x', isolate_accounts => false) \g /dev/null
SELECT is(t.cycle(), '1', 'switched off, it is tried again at once');
SELECT is(t.hosts(), 'n1 u1, n2 u2+u3', 'and shares a node');
SELECT rpq.edit_pool('x', isolate_accounts => true) \g /dev/null
SELECT t.submit('x', '1', 'u2') AS b7, t.submit('x', '1', 'u3') AS c7 \gset
SELECT is(t.cycle(), '0', 'on again, the shared node is for neither');
UPDATE rpq.pools SET isolate_accounts = false WHERE name = 'x';
SELECT is(t.cycle(), '2', 'off by the view');
SELECT * FROM t.whole();

-- A drain moves pods to nodes that are empty or their own account's.
SELECT rpq.create_pool(name => 'y', type => 'exclusive', nodes => '{n4,n5}') AS x \gset
SELECT rpq.authorize(pool => 'y', accounts => '{u1,u2}'), rpq.edit_pool('y', isolate_accounts => true) \g /dev/null
SELECT t.submit('y', '2', 'u1') AS a, t.submit('y', '1', 'u2') AS b \gset
SELECT is(t.cycle(), '2', 'two accounts on two nodes');
SELECT is(t.nodes(:a) || ' ' || t.nodes(:b), 'n4 n5', 'apart');
SELECT throws_ok($$SELECT rpq.drain_node(node => 'n4')$$, 'RQ006', NULL, 'a drain has nowhere to go but to the other account');
SELECT t.end_one(:b) \g /dev/null
SELECT rpq.drain_node(node => 'n4') AS op \gset
SELECT is((SELECT status FROM rpq.operations WHERE operation_id = :op), 'succeeded', 'when that has left, it has');
SELECT is(t.nodes(:a), 'n5', 'the pod has moved');
SELECT t.submit('y', '1', 'u2') AS b \gset
SELECT is(t.cycle(), '0', 'and keeps its new node for its account');
SELECT rpq.uncordon_node('n4') \g /dev/null
SELECT is(t.cycle(), '1', 'the node that it left takes another account');
SELECT * FROM t.whole();
SELECT * FROM finish();

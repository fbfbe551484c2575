-- Connected sets: what is decided about together.
\set ON_ERROR_STOP 1
SELECT no_plan();

SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1', 'eu'), rpq.create_cluster('c2', 'eu'), rpq.create_cluster('c3', 'eu'),
	rpq.create_instance_type('g8', 'gpu', 'gpu=8,cpu=96') \g /dev/null
SELECT rpq.create_account('alice', db_role => current_user::text), rpq.create_user_group('dev'), rpq.add_to_group('dev', '{alice}'),
	rpq.add_nodes('g8', cluster => 'c1', names => '{n1}'), rpq.add_nodes('g8', cluster => 'c2', names => '{n2}'),
	rpq.add_nodes('g8', cluster => 'c3', names => '{n3,n4}') \g /dev/null

CREATE FUNCTION pg_temp.scopes(names text[]) RETURNS bigint[] LANGUAGE sql AS $$
	SELECT array_agg(s.id ORDER BY s.id) FROM (SELECT pool_id AS id, name FROM rpq_store.pool UNION ALL
		SELECT queue_id, name FROM rpq_store.queue) AS s WHERE s.name = ANY (names) $$;
CREATE FUNCTION pg_temp.set_of(VARIADIC names text[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(s.name, ' ' ORDER BY s.name) FROM (SELECT pool_id AS id, name FROM rpq_store.pool UNION ALL
		SELECT queue_id, name FROM rpq_store.queue) AS s
	WHERE s.id = ANY (rpq_store.connected(pg_temp.scopes(names))) $$;
CREATE FUNCTION pg_temp.cycle() RETURNS text LANGUAGE sql AS
	$$ SELECT c.summary::jsonb ->> 'admitted' FROM rpq_store.run_cycles() AS c $$;
CREATE FUNCTION pg_temp.to_queue(queue text, n int) RETURNS bigint LANGUAGE sql AS
	$$ SELECT count(rpq.submit(queue => queue, workload_type => 'training')) FROM generate_series(1, n) $$;

-- What ties scopes.
SELECT is(pg_temp.set_of('c1-gpu'), 'c1-gpu', 'a pool alone is a set');
SELECT is(rpq_store.connected('{999,1,1}'), '{1,999}', 'ascending, each once');
SELECT rpq.create_policy('p1', 'dev', usage_limit => 'gpu=12'), rpq.create_policy('p2', 'dev') \g /dev/null
SELECT rpq.create_profile('four', 'gpu=4', '{c1-gpu,c2-gpu}'), rpq.create_profile('two', 'gpu=2', '{c3-gpu}') \g /dev/null
SELECT is(pg_temp.set_of('c1-gpu'), 'c1-gpu', 'saved is not in force');
SELECT rpq.provision_profiles() \g /dev/null
SELECT is(pg_temp.set_of('c1-gpu'), 'c1-gpu', 'without a queue nothing is tied');
SELECT rpq.connect_profile('p1', 'four', 'q-four') \g /dev/null
SELECT is(pg_temp.set_of('c1-gpu'), 'c1-gpu c2-gpu q-four', 'a queue and the pools of its profile');
SELECT is(pg_temp.set_of('c3-gpu'), 'c3-gpu', 'others are not concerned');
BEGIN;
SELECT rpq.connect_profile('p1', 'two', 'q-two') \g /dev/null
SELECT is(pg_temp.set_of('c3-gpu'), 'c1-gpu c2-gpu c3-gpu q-four q-two', 'queues of one policy, within the transaction');
ROLLBACK;
SELECT is(pg_temp.set_of('c3-gpu'), 'c3-gpu', 'and not after it was rolled back');
SELECT rpq.connect_profile('p2', 'two', 'q-two') \g /dev/null
SELECT is(pg_temp.set_of('q-two', 'c2-gpu'), 'c1-gpu c2-gpu c3-gpu q-four q-two', 'two sets');
SELECT is(pg_temp.set_of('q-two'), 'c3-gpu q-two', 'are two');

-- A cycle of a set.
SELECT pg_temp.to_queue('q-four', 4), pg_temp.to_queue('q-two', 1) \g /dev/null
SELECT is(pg_temp.cycle(), '4', 'one round over both sets: three as far as the limit goes, and one');
SELECT results_eq($$ SELECT p.name, count(*) FROM rpq_store.workload w JOIN rpq_store.pool p USING (pool_id) GROUP BY 1 ORDER BY 1 $$,
	$$ VALUES ('c1-gpu' COLLATE "C", 2::bigint), ('c2-gpu', 1), ('c3-gpu', 1) $$, 'pool by pool in routing order');
SELECT is((SELECT reason_code FROM rpq_store.lane WHERE waiting > 0), 'policy_limit', 'the last is held up by the limit');
SELECT results_eq($$ SELECT p.name, u.policy_id, u.amount::text FROM rpq_store.usage u JOIN rpq_store.pool p USING (pool_id) ORDER BY 1 $$,
	$$ VALUES ('c1-gpu' COLLATE "C", 1::bigint, 'gpu=8'), ('c2-gpu', 1, 'gpu=4'), ('c3-gpu', 2, 'gpu=2') $$, 'charged to the policy');
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty');
SELECT is(pg_temp.cycle(), '0', 'nothing more');

-- A release through a queue frees the pool's node in the same cycle, and the policy's limit.
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=8') AS direct \gset
SELECT is(pg_temp.cycle(), '0', 'a direct submission finds no room');
SELECT is((SELECT reason_code FROM rpq_store.lane WHERE waiting > 0 AND scope_id = (pg_temp.scopes('{c1-gpu}'))[1]), 'pool_quota', 'since the pool is full');
SELECT rpq.report_finished(workload_id) FROM rpq_store.workload
WHERE pool_id = (pg_temp.scopes('{c1-gpu}'))[1] AND status = 'starting' \g /dev/null
SELECT is(pg_temp.cycle(), '1', 'counted with the pool: the queue''s lane is tried again, and takes half of it');
SELECT is((SELECT reason FROM rpq_store.lane WHERE waiting > 0 AND scope_id = (pg_temp.scopes('{c1-gpu}'))[1]),
	'pool "c1-gpu": gpu=8 wanted, gpu=4 free, gpu=4 more needed', 'and the pool''s as well, which finds the other half');
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty after releases');
SELECT is((SELECT count(*) FROM rpq.schedule('c1-gpu')), 0::bigint, 'a person''s cycle takes the whole set');

-- Kept balances hold while no turn of the set was changed by others.
SELECT pg_temp.to_queue('q-two', 3) \g /dev/null
SELECT is(pg_temp.cycle(), '3', 'goes on where the last cycle ended');
SELECT pg_temp.to_queue('q-two', 2) \g /dev/null
SELECT is((SELECT count(*) FROM rpq.schedule('c3-gpu')), 2::bigint, 'another cycle comes between');
SELECT pg_temp.to_queue('q-two', 2) \g /dev/null
SELECT is(pg_temp.cycle(), '2', 'and is seen: the pool is full now');
SELECT pg_temp.to_queue('q-two', 1) \g /dev/null
SELECT is(pg_temp.cycle(), '0', 'full');
BEGIN;
SELECT rpq.report_finished(min(workload_id)) FROM rpq_store.workload WHERE pool_id = (pg_temp.scopes('{c3-gpu}'))[1] AND status = 'starting' \g /dev/null
SELECT is(pg_temp.cycle(), '1', 'a cycle in a transaction');
ROLLBACK;
SELECT is(pg_temp.cycle(), '0', 'what was rolled back is not kept');
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty after kept cycles');

-- What goes and what stays.
SELECT rpq.disconnect_profile('p2', 'two') \g /dev/null
SELECT is(pg_temp.set_of('c3-gpu'), 'c3-gpu q-two', 'a deleted queue stays while something is charged to its policy');
SELECT is((SELECT count(*) FROM rpq_store.workload WHERE status = 'draft'), 1::bigint, 'what waited is a draft');
SELECT rpq.stop(workload_id) FROM rpq_store.workload WHERE policy_id = 2 AND status = 'starting' \g /dev/null
SELECT is(pg_temp.cycle(), '0', 'its work ends');
SELECT is((SELECT rpq.sum(amount)::text FROM rpq_store.usage WHERE policy_id = 2), '', 'and is given back');
SELECT is((SELECT count(*) FROM rpq_store.pod AS p JOIN rpq_store.node AS n USING (node_id) WHERE n.name IN ('n3', 'n4')), 0::bigint, 'with its pods');
SELECT rpq_store.sets_changed() \g /dev/null
SELECT is(pg_temp.set_of('c3-gpu'), 'c3-gpu', 'then it goes');

-- A set of idle-time sharing.
SELECT rpq.create_pool('e1', 'exclusive', 'g8', quota => 'gpu=8', cluster => 'c3', idle_time_sharing => true) \g /dev/null
SELECT rpq.run_operations() \g /dev/null
SELECT is(pg_temp.set_of('c3-gpu'), 'c3-gpu e1', 'an exclusive pool that shares, and the shared one');
SELECT rpq.edit_pool('e1', idle_time_sharing => false) \g /dev/null
SELECT is(pg_temp.set_of('c3-gpu'), 'c3-gpu', 'no longer');

-- Of the rows of a set, everybody gets those that he may see.
CREATE ROLE sets_bob;
SELECT rpq.create_account('bob', db_role => 'sets_bob'), rpq.grant_pool_admin('c2-gpu', 'bob') \g /dev/null
SELECT rpq.stop(workload_id) FROM rpq_store.workload WHERE status IN ('starting', 'queued') \g /dev/null
SELECT pg_temp.cycle() \g /dev/null
SELECT pg_temp.to_queue('q-four', 4) \g /dev/null
SELECT results_eq($$ SELECT decision, pool, reason_code FROM rpq.schedule('c2-gpu', dry_run => true) $$,
	$$ VALUES ('admitted', 'c1-gpu', NULL), ('admitted', 'c1-gpu', NULL), ('admitted', 'c2-gpu', NULL), ('waiting', NULL, 'policy_limit') $$,
	'the account that submitted them, all of its own');
SET ROLE sets_bob;
SELECT results_eq($$ SELECT decision, pool, reason_code FROM rpq.schedule('c2-gpu', dry_run => true) $$,
	$$ VALUES ('admitted', 'c2-gpu', NULL::text) $$, 'the administrator of one pool, what comes into it');
SELECT results_eq($$ SELECT decision, pool, reason_code FROM rpq.schedule('c2-gpu') $$,
	$$ VALUES ('admitted', 'c2-gpu', NULL::text) $$, 'of his own cycle as well');
RESET ROLE;
SELECT is((SELECT count(*) FROM rpq_store.workload WHERE status = 'starting'), 3::bigint, 'which was about the whole set');

-- What was under way when its queue was deleted becomes a draft by whoever counts it.
SELECT rpq.disconnect_profile('p1', 'four') \g /dev/null
UPDATE rpq_store.workload SET status = 'queued' WHERE status = 'draft' AND scope_id = (pg_temp.scopes('{q-four}'))[1];
INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, submitted_at, account_id, waiting, kind)
SELECT scope_id, rpq.now(), workload_id, shape, submitted_at, account_id, 1, 'enqueue' FROM rpq_store.workload WHERE status = 'queued';
SELECT is(pg_temp.set_of('q-four'), 'c1-gpu c2-gpu q-four', 'the deleted queue stays with its policy');
SELECT is(pg_temp.cycle(), '0', 'late arrivals are not admitted');
SELECT is((SELECT string_agg(DISTINCT cause, ' ') FROM rpq_store.workload WHERE status = 'draft' AND scope_id = (pg_temp.scopes('{q-four}'))[1]),
	'queue_deleted', 'but drafts');
SELECT is(pg_temp.cycle(), '0', 'and counted as such');

SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty at the end');
SELECT * FROM finish();

-- Case 25, the pool's side: what stands against deleting a pool is counted and refused at once; nothing goes by surprise.
SELECT no_plan();
SET client_min_messages = warning;
SET rpq.synchronous_operations = on;
DO $$
BEGIN
	PERFORM rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_instance_type('h100', 'gpu', 'gpu=8');
	PERFORM rpq.add_nodes('h100', count => 3, prefix => 'n');
	PERFORM rpq.create_pool('d1', 'dedicated', quota => 'gpu=8'), rpq.create_account('u1');
	PERFORM rpq.authorize('d1', '{u1}');
END
$$;
CREATE FUNCTION pg_temp.sum() RETURNS text LANGUAGE sql AS $$ SELECT rpq.sum(total)::text FROM rpq.pools $$;
SELECT rpq.submit('d1', workload_type => 'training', resources => 'gpu=4', account => 'u1') AS runs FROM generate_series(1, 1) \gset
SELECT decision FROM rpq.schedule('d1');
SELECT rpq.submit('d1', workload_type => 'training', resources => 'gpu=8', account => 'u1') AS waits \gset
-- a door that leads to the pool, as policies make it
SET rpq.action = 'create_policy';
INSERT INTO rpq_store.user_group (tenant_id, name) VALUES (1, 'g');
INSERT INTO rpq_store.policy (tenant_id, group_id, name) SELECT 1, group_id, 'p' FROM rpq_store.user_group;
INSERT INTO rpq_store.profile (tenant_id, name, saved, provisioned) VALUES (1, 'small', 'gpu=4', 'gpu=4');
INSERT INTO rpq_store.profile_pool (profile_id, pool_id, state, rank)
SELECT f.profile_id, p.pool_id, s, 1 FROM rpq_store.profile f, rpq_store.pool p, unnest('{saved,provisioned}'::text[]) s WHERE p.name = 'd1';
INSERT INTO rpq_store.queue (tenant_id, policy_id, profile_id, name) SELECT 1, p.policy_id, f.profile_id, 'q' FROM rpq_store.policy p, rpq_store.profile f;
SELECT rpq_store.new_scope(queue_id) FROM rpq_store.queue;
RESET rpq.action;

SELECT throws_ok($$SELECT rpq.delete_pool('d1')$$, 'RQ006', 'pool "d1" cannot be deleted: 1 node, 1 member, 1 queue, 2 live workloads', 'refused at once, counted');
SELECT is((SELECT status FROM rpq.workloads WHERE workload_id = :runs), 'starting', 'what runs goes on');
SELECT is((SELECT used::text || ' ' || status FROM rpq.pools WHERE name = 'd1'), 'gpu=4 ready', 'as before');
SELECT is(pg_temp.sum(), 'gpu=24', 'the sum');
-- one thing after the other
UPDATE rpq_store.queue SET deleted_at = now();
DELETE FROM rpq_store.profile_pool;
SELECT throws_ok($$SELECT rpq.delete_pool('d1')$$, 'RQ006', 'pool "d1" cannot be deleted: 1 node, 1 member, 2 live workloads', 'without the queue');
SELECT rpq.stop(:waits), rpq.report_finished(:runs);
SELECT throws_ok($$SELECT rpq.delete_pool('d1')$$, 'RQ006', 'pool "d1" cannot be deleted: 1 node, 1 member', 'without work: counted without a cycle');
SELECT rpq.deauthorize('d1', '{u1}');
SELECT rpq.resize_pool('d1', quota => 'gpu=0') > 0 AS resized;
SELECT is(pg_temp.sum(), 'gpu=24', 'the sum');
SELECT rpq.delete_pool('d1') > 0 AS deleted;
SELECT is((SELECT string_agg(name || ' ' || total, ', ') FROM rpq.pools), 'c1-gpu gpu=24', 'd1 is gone, its node in the shared pool');
SELECT is((SELECT count(*)::int FROM rpq_store.workload WHERE status IN ('queued', 'starting', 'running')), 0, 'nothing is left of its work');

-- by force, with a door: its link goes, the queue stays
SELECT rpq.create_pool('d1', 'dedicated', quota => 'gpu=8') > 0 AS again;
UPDATE rpq_store.queue SET deleted_at = NULL;
INSERT INTO rpq_store.profile_pool (profile_id, pool_id, state, rank)
SELECT f.profile_id, p.pool_id, 'provisioned', 1 FROM rpq_store.profile f, rpq_store.pool p WHERE p.name = 'd1' AND p.status <> 'deleted';
SELECT rpq.delete_pool('d1', force => true) > 0 AS deleted;
SELECT is((SELECT count(*)::int FROM rpq_store.profile_pool) * 10 + (SELECT count(*)::int FROM rpq_store.queue WHERE deleted_at IS NULL), 1, 'the link is gone, the queue is not');
SELECT is(pg_temp.sum(), 'gpu=24', 'the sum');
SELECT is_empty($$SELECT * FROM rpq.check_integrity() WHERE invariant <> 'history'$$, 'all is well');
SELECT * FROM finish();

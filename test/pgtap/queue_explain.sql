-- Why work in a queue waits: every check of every pool in routing order, exact; and what is left out for whom.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT rpq.create_pool(name => 'p1', type => 'dedicated', nodes => '{n1}') AS x, rpq.create_pool(name => 'p2', type => 'dedicated', nodes => '{n2}') AS y \gset
SELECT rpq.create_user_group(name => 'dev') AS x, rpq.add_to_group(user_group => 'dev', accounts => '{u1,u2}') AS y \gset
SELECT rpq.create_profile(name => 'four', resources => 'gpu=4', pools => '{p2,p1}') AS x, rpq.provision_profiles() AS y \gset
SELECT rpq.create_policy(name => 'dev', user_group => 'dev', usage_limit => 'gpu=12') AS x, rpq.connect_profile(policy => 'dev', profile => 'four', queue => 'dev-four') AS y \gset
SELECT rpq.authorize(pool => 'p1', accounts => '{u3}') AS x \gset

CREATE FUNCTION t.through(account_name text, replica_count int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit(queue => 'dev-four', workload_type => 'training', account => account_name, replicas => replica_count);
END $$;
-- the checks that stand in the way, or all
CREATE FUNCTION t.checks(id bigint, all_of_them boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(e.check_name || CASE WHEN all_of_them AND NOT e.passed THEN '!' ELSE '' END
		|| coalesce(' ' || substring(e.detail from 'pool "(\w+)"'), ''), ', ' ORDER BY e.step)
		FROM rpq.explain(id) e WHERE all_of_them OR NOT e.passed);
END $$;
CREATE FUNCTION t.says(account_name text, id bigint, name_of_check text, OUT said text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.account', account_name, true);
	SELECT string_agg(concat_ws(' | ', e.detail, e.way_out), ' ; ' ORDER BY e.step) INTO said FROM rpq.explain(id) e WHERE e.check_name = name_of_check AND NOT e.passed;
	PERFORM set_config('rpq.account', '', true);
END $$;

-- Nothing in the way: the pools in routing order.
SELECT t.through('u1') AS w1 \gset
SELECT is(t.checks(:w1), NULL, 'nothing stands in its way');
SELECT matches(t.checks(:w1, true), '^not_authorized, workload_type, pool_not_ready p2, pool_frozen p2, policy_limit.*pool_quota p2.*no_node_fits p2.*pool_not_ready p1, pool_frozen p1.*pool_quota p1.*no_node_fits p1', 'the right, then pool by pool in routing order');
SELECT is((SELECT ROW(wanted::text, available::text)::text FROM rpq.explain(:w1) WHERE check_name = 'policy_limit'), '(gpu=4,gpu=12)', 'the limit of the policy with its figures');

-- The policy's limit: lift what is named, and it passes; less, and it does not.
SELECT t.through('u1') AS w2, t.through('u2') AS w3, t.through('u2') AS w4, t.pass() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w4) || ' ' || t.reason_code(:w4), 'queued policy_limit', 'the fourth is beyond the limit');
SELECT is(t.checks(:w4), 'policy_limit, pool_quota p2, no_node_fits p2', 'and nothing else is in its way in one of the pools');
SELECT matches(t.says('u2', :w4, 'policy_limit'), 'gpu=4 wanted, gpu=0 left, gpu=4 more needed .* to gpu=16 \(by gpu=4\)', 'the sentence has the figures and the exact change');
BEGIN;
SELECT rpq.edit_policy(policy => 'dev', usage_limit => 'gpu=15') AS x \gset
SELECT t.checks(:w4) AS less \gset
SELECT rpq.edit_policy(policy => 'dev', usage_limit => 'gpu=16') AS x \gset
SELECT t.checks(:w4) AS enough \gset
SELECT t.pass() AS x \gset
SELECT t.status(:w4) AS runs \gset
ROLLBACK;
SELECT is(:'less' || '; ' || :'enough' || '; ' || :'runs', 'policy_limit, pool_quota p2, no_node_fits p2; pool_quota p2, no_node_fits p2; running', 'lifted exactly so it runs, less does not do');

-- Room: in each pool, with what stands there, named to those who may see it.
SELECT rpq.edit_policy(policy => 'dev', usage_limit => 'gpu=100') AS x \gset
SELECT t.submit('p1', '2', 'u3', 'secret') AS other, t.pass() AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w4) || ' ' || t.status(:other), 'running queued', 'the fourth was first');
SELECT rpq.stop(workload => :w4) AS x, t.pass() AS y \gset
SELECT is(t.status(:other), 'running', 'another pool''s own work takes the room');
SELECT t.through('u2') AS w5, t.pass() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.checks(:w5), 'pool_quota p2, no_node_fits p2, pool_quota p1, no_node_fits p1', 'no room in either pool');
SELECT unalike(t.says('u2', :w5, 'no_node_fits'), '%secret%', 'a member is not told the name of what another submitted to the pool');
SELECT alike(t.says('u2', :w5, 'no_node_fits'), '%1 more workload%', 'but how many stand there');
SELECT rpq.create_account(name => 'boss', org_admin => true) AS x, rpq.create_account(name => 'keeper') AS y, rpq.grant_pool_admin(pool => 'p1', account => 'keeper') AS z \gset
SELECT alike(t.says('boss', :w5, 'no_node_fits'), '%"secret"%', 'administrators of the tenant are');
SELECT alike(t.says('', :w5, 'no_node_fits'), '%"secret"%', 'and of the platform');
SELECT rpq.requeue(workload => :w3, delay => '1 hour') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w5), 'running', 'room that is given back in the other pool');
SELECT is(t.checks(:w3), 'backing_off, pool_quota p2, no_node_fits p2, pool_quota p1, no_node_fits p1', 'what backs off is told the rest too');

-- What is closed.
SELECT rpq.edit_pool(pool => 'p1', workload_types => '{develop}') AS x, rpq.edit_pool(pool => 'p2', frozen => true) AS y \gset
SELECT t.checks(:w3) AS closed \gset
SELECT matches(:'closed'::text, 'pool_frozen p2', 'a pool that is frozen');
SELECT unalike(:'closed'::text, '%p1%', 'one that does not support the workload type is none of its pools');
SELECT rpq.edit_pool(pool => 'p1', clear => '{workload_types}') AS x, rpq.edit_pool(pool => 'p2', frozen => false) AS y \gset

-- Who is not asked: strangers do not even see it; drafts are looked at as if they were queued.
SELECT t.outcome(format('SET LOCAL rpq.account = ''u3''; SELECT rpq.explain(%s)', :w5)) AS stranger \gset
SET rpq.account = '';
SELECT is(:'stranger'::text, '42704', 'another account has no such workload');
SELECT rpq.submit(queue => 'dev-four', workload_type => 'training', account => 'u1', draft => true, replicas => 2) AS draft \gset
SELECT matches(t.checks(:draft), 'pool_quota p2', 'a draft is explained as if it were queued');
SELECT rpq.remove_from_group(user_group => 'dev', accounts => '{u1}') AS x \gset
SELECT matches(t.checks(:draft), '^not_authorized', 'its owner has left the group');
SELECT rpq.disconnect_profile(policy => 'dev', profile => 'four') AS x \gset
SELECT is((SELECT string_agg(concat_ws(' ', check_name, passed, detail, way_out), ';') FROM rpq.explain(:draft)), 'not_authorized f queue "dev-four" was deleted can never run as things are set: queue it elsewhere with rpq.enqueue()', 'a queue that is gone');

-- What is ahead is named to those who may see it.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n3}') AS x, rpq.create_pool(name => 'p3', type => 'dedicated', nodes => '{n3}') AS y, rpq.authorize(pool => 'p3', accounts => '{u1,u2,u3}') AS z \gset
SELECT t.submit('p3', '6', 'u3') AS runs, t.pass() AS x \gset
SELECT t.pass() AS x, t.submit('p3', '8', 'u1') AS head \gset
SELECT t.pass() AS x, t.submit('p3', '2', 'u2') AS behind \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:runs) || ' ' || t.reason_code(:head) || ' ' || t.reason_code(:behind), 'running pool_quota behind', 'a small one waits behind a large one');
CREATE FUNCTION t.reads(account_name text, id bigint, OUT said text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.account', account_name, true);
	said := t.reason(id) || ' - ' || (SELECT h.reason FROM rpq.workload_history h WHERE h.workload_id = id) || ' - ' || t.says(account_name, id, 'behind');
	PERFORM set_config('rpq.account', '', true);
END $$;
SELECT is(replace(t.reads('boss', :behind), :'head', 'N'), 'workload N is ahead in pool "p3" - workload N is ahead in pool "p3" - workload N is ahead in pool "p3" | must wait until workload N has started; with a max_runtime it would not have to', 'administrators are told which');
SELECT is(t.reads('u2', :behind), 'another workload is ahead in pool "p3" - another workload is ahead in pool "p3" - another workload is ahead in pool "p3" | must wait until another workload has started; with a max_runtime it would not have to', 'its owner is not');
BEGIN;
SET LOCAL rpq.account = 'u2';
SELECT reason AS planned FROM rpq.schedule(pool => 'p3', dry_run => true) WHERE workload = :behind \gset
COMMIT;
SELECT is(:'planned'::text, 'another workload is ahead in pool "p3"', 'nor by a dry run');
SELECT t.submit('p3', '1', 'u1') AS mine, t.pass() AS x \gset
SELECT t.pass() AS x \gset
SELECT matches(t.reads('u1', :mine), 'workload ' || :head || ' is ahead', 'but of its own work');
SELECT is(t.checks(:head), 'pool_quota p3, no_node_fits p3', 'the one that is ahead is behind nobody, not even itself');
SELECT t.submit('p3', '8', 'u1') AS second, t.pass() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.checks(:second), 'pool_quota p3, no_node_fits p3', 'nor is the next of its kind behind, which has no room');

-- Who may use a queue may plan what becomes of it, without being a member of any of its pools.
SELECT rpq.add_to_group(user_group => 'dev', accounts => '{u4}') AS z, rpq.connect_profile(policy => 'dev', profile => 'four', queue => 'planned') AS x \gset
SELECT rpq.submit(queue => 'planned', workload_type => 'training', account => 'u4') AS planned_for \gset
BEGIN;
SET LOCAL rpq.account = 'u4';
SELECT count(*) FILTER (WHERE workload = :planned_for) AS mine, count(*) FILTER (WHERE account <> 'u4') AS others
FROM rpq.schedule(dry_run => true) LEFT JOIN rpq_store.workload w ON w.workload_id = workload
LEFT JOIN rpq_store.account a USING (account_id) CROSS JOIN LATERAL (SELECT a.name AS account) n \gset
COMMIT;
SELECT is(:mine, 1, 'a dry run of one who may only use a queue has its work');
SELECT is(:others, 0, 'and nobody else''s');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Submitting through queues: who may, what is refused and in which order, drafts, enqueue both ways, idempotency.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
-- p1 and p2 hold one machine of 8 GPUs each, p3 one of 2; profiles of 4 GPUs over p1 and p2, of 2 over all.
SELECT rpq.create_instance_type(name => 'g2', kind => 'gpu', capacity => 'gpu=2,cpu=16,memory=128Gi', machine_unit => 'gpu=2') AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}'), rpq.add_nodes(instance_type => 'g2', names => '{n3}') AS x \g /dev/null
SELECT rpq.create_pool(name => 'p1', type => 'dedicated', nodes => '{n1}') AS x, rpq.create_pool(name => 'p2', type => 'dedicated', nodes => '{n2}') AS y, rpq.create_pool(name => 'p3', type => 'dedicated', nodes => '{n3}') AS z \gset
SELECT rpq.create_user_group(name => 'dev') AS x, rpq.create_user_group(name => 'research') AS y \gset
SELECT rpq.add_to_group(user_group => 'dev', accounts => '{u1,u2}') AS x, rpq.add_to_group(user_group => 'research', accounts => '{u2,u3}') AS y \gset

SELECT rpq.create_profile(name => 'small', resources => 'gpu=2', pools => '{p1,p2,p3}') AS x, rpq.create_profile(name => 'big', resources => 'gpu=4', pools => '{p1,p2}') AS y \gset
SELECT rpq.provision_profiles() AS x \gset
SELECT rpq.create_policy(name => 'dev', user_group => 'dev', reservation => 'gpu=8', usage_limit => 'gpu=12') AS x, rpq.create_policy(name => 'research', user_group => 'research') AS y \gset
SELECT rpq.connect_profile(policy => 'dev', profile => 'small', queue => 'dev-small') AS x, rpq.connect_profile(policy => 'dev', profile => 'big', queue => 'dev-big') AS y, rpq.connect_profile(policy => 'research', profile => 'big', queue => 'res-big') AS z \gset

-- submits as an account and undoes it: SQLSTATE, message, detail; 'ok' when nothing is against it
CREATE FUNCTION t.try(account_name text, queue_name text, replica_count int DEFAULT 1, settings jsonb DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	more text;
	hint text;
BEGIN
	PERFORM rpq.submit(queue => queue_name, workload_type => coalesce(settings ->> 'type', 'training'), replicas => replica_count, account => account_name,
		resources => (settings ->> 'resources')::rpq.resources, pool => settings ->> 'pool',
		priority => (settings ->> 'priority')::int, guarantee => (settings ->> 'guarantee')::boolean,
		instance_types => CASE WHEN settings ? 'on' THEN ARRAY[settings ->> 'on'] END, draft => (settings ->> 'draft')::boolean);
	RAISE EXCEPTION USING ERRCODE = 'XT000';
EXCEPTION
	WHEN SQLSTATE 'XT000' THEN RETURN 'ok';
	WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, more = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
		RETURN SQLSTATE || ' ' || said || coalesce(nullif(' | ' || more, ' | '), '') || CASE WHEN SQLSTATE LIKE 'RQ00%' AND SQLSTATE <> 'RQ004' AND more NOT LIKE 'workload_type%' AND more NOT LIKE 'guarantee%' AND hint = '' THEN ' (no way out)' ELSE '' END;
END $$;

-- What is submitted: the profile's size, the queue's priority, the policy by its queue.
SELECT t.try('u1', 'dev-big') AS first, t.try('u1', 'acme/dev-big') AS second \gset
SELECT is(:'first' || ' ' || :'second', 'ok ok', 'members of the group submit, by name and with the tenant');
SELECT rpq.submit(queue => 'dev-big', workload_type => 'training', replicas => 2, account => 'u1', name => 'w1', request_id => 'r1') AS w1 \gset
SELECT is((SELECT ROW(pool, queue, policy, profile, status, priority, resources::text, replicas, total::text, reason_code)::text FROM rpq.workloads WHERE workload_id = :w1),
	'(,dev-big,dev,big,queued,50,gpu=4,2,gpu=8,not_considered_yet)', 'its row names queue, policy and profile, no pool, and the whole');
SELECT is((SELECT ROW(queue, policy, profile, total::text)::text FROM rpq.workload_history WHERE workload_id = :w1), '(dev-big,dev,big,gpu=8)', 'so does the history');
SELECT is((SELECT ROW(queued, running)::text FROM rpq.queues WHERE name = 'dev-big'), '(1,0)', 'the queue has one that waits');
SELECT is((SELECT ROW(kind, waiting, pool_id, status, resources)::text FROM rpq_store.entry WHERE workload_id = :w1), '(enqueue,1,,queued,)', 'one entry: it waits in the queue');
SELECT is(rpq.submit(queue => 'dev-big', workload_type => 'training', replicas => 2, account => 'u1', name => 'w1', request_id => 'r1'), :w1::bigint, 'the same request again is the same workload');
SELECT throws_ok($$SELECT rpq.submit(queue => 'dev-small', workload_type => 'training', replicas => 2, account => 'u1', name => 'w1', request_id => 'r1')$$, '22023', NULL, 'into another queue it is another request');
SELECT throws_ok($$SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=4', replicas => 2, account => 'u1', name => 'w1', request_id => 'r1')$$, '22023', NULL, 'so it is to a pool');

-- Arguments, and who sees the queue.
SELECT is(t.try('u1', 'dev-big', 1, '{"resources": "gpu=4"}'), '22023 resources cannot be given with a queue | The queue''s profile sets what each replica takes.', 'resources come from the profile');
SELECT is(t.try('u1', 'dev-big', 1, '{"pool": "p1"}'), '22023 pool and queue cannot both be given', 'not both pool and queue');
SELECT is(t.try('u1', NULL), '22023 pool or queue must be given', 'nor neither');
SELECT is(t.try('u1', 'nowhere'), '42704 queue "nowhere" does not exist', 'a queue that is not there');
SELECT is(t.try('u1', 'other/dev-big'), '42704 queue "other/dev-big" does not exist', 'nor in a tenant that is not there');
SELECT is(t.try('u1', 'dev-big', 1, '{"type": "nothing"}'), '42704 workload type "nothing" does not exist', 'a workload type that is not there');
SELECT is(t.try('u3', 'dev-big'), 'RQ001 resource auth check failed, the account is not authorised in queue dev-big | not_authorized', 'an administrator is told that the account is not in the group');
SELECT rpq.create_account(name => 'boss', db_role => NULL, org_admin => true) AS x, rpq.create_account(name => 'gate', gateway => true) AS y \gset
CREATE FUNCTION t.as_account(account_name text, queue_name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	PERFORM set_config('rpq.account', account_name, true);
	said := t.outcome(format('SELECT rpq.submit(queue => %L, workload_type => ''training'', draft => true)', queue_name));
	PERFORM set_config('rpq.account', '', true);
	RETURN said;
END $$;
BEGIN;
SELECT t.as_account('u1', 'dev-big') || ' ' || t.as_account('u2', 'dev-big') || ' ' || t.as_account('u3', 'dev-big') || ' ' || t.as_account('u5', 'dev-big') || ' ' || t.as_account('boss', 'dev-big') AS answer \gset
ROLLBACK;
SELECT is(:'answer'::text, 'ok ok 42704 42704 RQ001', 'members submit; for others of the tenant there is no such queue; its administrators see it and are not in the group');
BEGIN;
SELECT rpq.remove_from_group(user_group => 'dev', accounts => '{u2}') AS x \gset
SELECT t.as_account('u2', 'dev-big') AS gone \gset
SELECT rpq.add_to_group(user_group => 'dev', accounts => '{u2}') AS x \gset
SELECT t.as_account('u2', 'dev-big') AS back \gset
ROLLBACK;
SELECT is(:'gone' || ' ' || :'back', '42704 ok', 'what is kept of a queue follows the group');
SELECT t.as_account('boss', 'dev-big') AS before \gset
SELECT rpq.add_to_group(user_group => 'dev', accounts => '{boss}') AS x \gset
SELECT is(:'before' || ' ' || t.as_account('boss', 'dev-big'), 'RQ001 ok', 'who is added to a group may submit at once');

-- The order of refusals, each lifted to see the next.
SELECT rpq.edit_pool(pool => 'p1', frozen => true, workload_types => '{develop}', allow_guarantee => false) AS x, rpq.edit_pool(pool => 'p2', frozen => true, workload_types => '{develop}', allow_guarantee => false) AS y \gset
CREATE FUNCTION t.all_wrong(account_name text DEFAULT 'u1') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN t.try(account_name, 'dev-big', 0, '{"guarantee": true, "priority": 101}');
END $$;
SELECT is(t.all_wrong('u3'), 'RQ001 resource auth check failed, the account is not authorised in queue dev-big | not_authorized', 'first the right');
SELECT is(t.all_wrong(), 'RQ001 resource auth check failed, every resource pool of queue dev-big that could take it is frozen | pool_frozen', 'then the freeze');
SELECT rpq.edit_pool(pool => 'p1', frozen => false) AS x \gset
SELECT is(t.all_wrong(), 'RQ001 resource auth check failed, workload type training is not allowed to use any resource pool of queue dev-big | workload_type', 'then the workload type');
SELECT rpq.edit_pool(pool => 'p1', workload_types => '{training}') AS x \gset
SELECT is(t.all_wrong(), 'RQ001 resource auth check failed, guaranteed workloads are not allowed in any resource pool of queue dev-big | guarantee: no pool that supports its workload type allows it', 'then the guarantee');
SELECT rpq.edit_pool(pool => 'p1', allow_guarantee => true) AS x \gset
SELECT is(t.all_wrong(), '22023 priority must be between 0 and 100 | It is 101.', 'then the priority');
SELECT is(t.try('u1', 'dev-big', 0, '{"priority": 100}'), '22023 replicas must be between 1 and 100000 | It is 0.', 'then the amounts');
SELECT is(t.try('u1', 'dev-big', 100, '{"on": "g2"}'), 'RQ007 no node of any pool of queue "dev-big" could ever hold one replica | One replica asks for gpu=4; the nodes of its profile''s pools hold g8 (cpu=192,gpu=8,memory=2097152).', 'then one replica on a node');
SELECT is(t.try('u1', 'dev-big', 3), 'RQ002 the request is larger than what any pool of queue "dev-big" holds | It asks for gpu=12; the largest holds cpu=192,gpu=8,memory=2097152 of one instance type.', 'then the whole in a pool');
SELECT is(t.try('u1', 'dev-big', 2), 'ok', 'what fits one pool is taken');
SELECT rpq.edit_policy(policy => 'dev', usage_limit => 'gpu=6', reservation => 'gpu=2') AS x \gset
SELECT is(t.try('u1', 'dev-big', 2), 'RQ002 the request is larger than the limit of policy "dev" | It asks for gpu=8; the limit is gpu=6.', 'then the limit of the policy');
SELECT is(t.try('u1', 'dev-big', 1, '{"guarantee": true}'), 'RQ002 the guaranteed request is larger than the reservation of policy "dev" | It asks for gpu=4; the reservation is "gpu=2".', 'then, guaranteed, its reservation');
SELECT is(t.try('u1', 'dev-big'), 'ok', 'without guarantee it is taken');
SELECT rpq.edit_policy(policy => 'dev', usage_limit => 'gpu=12', reservation => 'gpu=8') AS x \gset
SELECT is(t.try('u1', 'dev-big', 2, '{"guarantee": true}'), 'ok', 'within the reservation a guarantee is given, whatever the rights of members in the pool');
SELECT is(t.try('u2', 'res-big', 1, '{"guarantee": true}'), 'RQ002 the guaranteed request is larger than the reservation of policy "research" | It asks for gpu=4; the reservation is "".', 'without reservation there is none');

-- A pool stands against a workload only if no other one could take it.
SELECT is(t.try('u1', 'dev-small'), 'ok', 'p3 takes what p1 and p2 would not');
SELECT rpq.edit_pool(pool => 'p2', frozen => false) AS x, rpq.edit_pool(pool => 'p1', frozen => true) AS y \gset
SELECT is(t.try('u1', 'dev-big'), 'RQ001 resource auth check failed, every resource pool of queue dev-big that could take it is frozen | pool_frozen', 'p2 is open but not for this workload type: p1, which could take it, is frozen');
SELECT is(t.try('u1', 'dev-big', 1, '{"type": "develop"}'), 'ok', 'p2 takes another type');
SELECT is(t.try('u1', 'dev-small', 2), 'RQ001 resource auth check failed, every resource pool of queue dev-small that could take it is frozen | pool_frozen', 'p3 is too small for two: p1 would do, and is frozen');
SELECT rpq.edit_pool(pool => 'p1', frozen => false) AS x \gset
BEGIN;
UPDATE rpq_store.pool SET status = 'deleting' WHERE name IN ('p1', 'p2');
SELECT t.try('u1', 'dev-big') AS answer, t.try('u1', 'dev-small') AS other \gset
ROLLBACK;
SELECT is(:'answer' || '; ' || :'other', 'RQ004 queue "dev-big" takes no workloads now | Every pool of it that could take it is being created or deleted.; ok', 'pools that are going');
BEGIN;
DELETE FROM rpq_store.profile_pool;
SELECT t.try('u1', 'dev-big') AS answer \gset
ROLLBACK;
SELECT is(:'answer'::text, 'RQ007 no node of any pool of queue "dev-big" could ever hold one replica | One replica asks for gpu=4; the pools of its profile have no nodes.', 'a profile whose pools are gone');

-- Drafts: the right and the amounts alone, the rest when it is enqueued.
SELECT rpq.edit_pool(pool => 'p1', frozen => true, clear => '{workload_types}') AS x, rpq.edit_pool(pool => 'p2', frozen => true, clear => '{workload_types}') AS y \gset
SELECT is(t.try('u1', 'dev-big', 90, '{"draft": true, "guarantee": true}'), 'ok', 'a draft is not checked for room');
SELECT is(t.try('u1', 'dev-big', 0, '{"draft": true}'), '22023 replicas must be between 1 and 100000 | It is 0.', 'but for amounts');
SELECT is(t.try('u3', 'dev-big', 1, '{"draft": true}'), 'RQ001 resource auth check failed, the account is not authorised in queue dev-big | not_authorized', 'and for the right');
SELECT rpq.submit(queue => 'dev-big', workload_type => 'training', account => 'u1', draft => true, priority => 70) AS d1 \gset
SELECT is((SELECT ROW(status, pool, queue, policy, resources::text, priority)::text FROM rpq.workloads WHERE workload_id = :d1), '(draft,,dev-big,dev,gpu=4,70)', 'a draft of a queue');
SELECT throws_ok(format('SELECT rpq.enqueue(workload => %s)', :d1), 'RQ001', NULL, 'its pools are frozen: it is not enqueued');
SELECT rpq.edit_pool(pool => 'p1', frozen => false) AS x, rpq.edit_pool(pool => 'p2', frozen => false) AS y \gset
SELECT is(rpq.enqueue(workload => :d1), true, 'it is enqueued where it was drafted');
SELECT is((SELECT ROW(status, queue)::text FROM rpq.workloads WHERE workload_id = :d1), '(queued,dev-big)', 'and waits there');

-- Both ways between pools and queues: in a queue the size is the profile's, in a pool it stays what it was.
SELECT rpq.stop(workload => :d1) AS x \gset
SELECT rpq.authorize(pool => 'p1', accounts => '{u1}', max_priority => 60) AS x \gset
SELECT is(rpq.enqueue(workload => :d1, pool => 'p1'), true, 'what was stopped in a queue goes to a pool');
SELECT is((SELECT ROW(status, pool, queue, policy, profile, resources::text, priority)::text FROM rpq.workloads WHERE workload_id = :d1), '(queued,p1,,,,gpu=4,60)', 'with its size, and the pool''s maximum priority');
SELECT rpq.stop(workload => :d1) AS x \gset
SELECT is(rpq.enqueue(workload => :d1, queue => 'dev-small'), true, 'and to another queue');
SELECT is((SELECT ROW(status, pool, queue, policy, profile, resources::text, priority)::text FROM rpq.workloads WHERE workload_id = :d1), '(queued,,dev-small,dev,small,gpu=2,60)', 'whose size it gets');
SELECT rpq.stop(workload => :d1) AS x \gset
SELECT throws_ok(format('SELECT rpq.enqueue(workload => %s, pool => ''p1'', queue => ''dev-small'')', :d1), '22023', NULL, 'not both');
SELECT throws_ok(format('SELECT rpq.enqueue(workload => %s, queue => ''nowhere'')', :d1), '42704', NULL, 'nor where nothing is');
SELECT throws_ok(format('SELECT rpq.enqueue(workload => %s, queue => ''res-big'')', :d1), 'RQ001', NULL, 'nor into a queue of another group, as its administrator is told');
BEGIN;
SET LOCAL rpq.account = 'u1';
SELECT t.outcome(format('SELECT rpq.enqueue(workload => %s, queue => ''res-big'')', :d1)) AS answer \gset
ROLLBACK;
SELECT is(:'answer'::text, '42704', 'its owner is told that there is none');
SELECT rpq.submit(pool => 'p1', workload_type => 'training', resources => 'gpu=1', account => 'u1', draft => true) AS d2 \gset
SELECT is(rpq.enqueue(workload => :d2, queue => 'dev-big'), true, 'a draft of a pool goes to a queue');
SELECT is((SELECT ROW(status, queue, resources::text)::text FROM rpq.workloads WHERE workload_id = :d2), '(queued,dev-big,gpu=4)', 'and has its size');

-- Edits.
SELECT is(rpq.edit_workload(workload => :d2, priority => 100), true, 'in a queue the maximum is 100');
SELECT throws_ok(format('SELECT rpq.edit_workload(workload => %s, priority => 101)', :d2), '22023', NULL, 'and no more');

-- A queue that went: what was drafted names it, and goes on elsewhere.
SELECT rpq.disconnect_profile(policy => 'dev', profile => 'small') AS x \gset
SELECT is((SELECT queue FROM rpq.workload_history WHERE workload_id = :d1), 'dev-small', 'the workload names the queue that is gone');
SELECT throws_ok(format('SELECT rpq.enqueue(workload => %s)', :d1), '42704', NULL, 'it cannot wait there');
SELECT is(rpq.enqueue(workload => :d1, queue => 'dev-big'), true, 'but in another');
SELECT is(t.try('u1', 'dev-small'), '42704 queue "dev-small" does not exist', 'and nobody submits there');

-- The view that applications write.
BEGIN;
SET LOCAL rpq.account = 'u1';
INSERT INTO rpq.workloads (queue, workload_type, replicas, name, labels) VALUES ('dev-big', 'training', 2, 'by view', '{"a": 1}')
	RETURNING queue || ' ' || policy || ' ' || profile || ' ' || total || ' ' || status AS answer \gset
INSERT INTO rpq.workloads (queue, pool, workload_type, resources, status) VALUES ('dev-big', NULL, 'training', NULL, 'draft') RETURNING status AS draft \gset
SELECT t.outcome($$INSERT INTO rpq.workloads (queue, policy, workload_type) VALUES ('dev-big', 'dev', 'training')$$) AS fact, t.outcome($$INSERT INTO rpq.workloads (queue, workload_type, resources) VALUES ('dev-big', 'training', 'gpu=1')$$) AS size \gset
UPDATE rpq.workloads SET status = 'stopped' WHERE name = 'by view' RETURNING status AS stopped \gset
COMMIT;
SELECT is(:'answer' || '; ' || :'draft' || ' ' || :'fact' || ' ' || :'size' || ' ' || :'stopped', 'dev-big dev big gpu=8 queued; draft 0A000 22023 stopped', 'INSERT with a queue submits to it');

-- What executors are handed: the queue's template under the workload's spec.
SELECT rpq.set_pod_template(queue => 'dev-big', template => '{"image": "base", "env": {"A": 1, "B": 2}, "args": ["x", "y"]}') AS x \gset
SELECT rpq.submit(queue => 'dev-big', workload_type => 'training', account => 'u1', spec => '{"env": {"B": 3, "C": null}, "args": ["z"]}') AS w2,
	   rpq.submit(queue => 'dev-big', workload_type => 'training', account => 'u1') AS w3 \gset
SELECT is((SELECT rpq_store.pod_spec(w) FROM rpq_store.workload w WHERE workload_id = :w2), '{"image": "base", "env": {"A": 1, "B": 3, "C": null}, "args": ["z"]}', 'keys of the workload win, object by object');
SELECT is((SELECT rpq_store.pod_spec(w) FROM rpq_store.workload w WHERE workload_id = :w3), '{"image": "base", "env": {"A": 1, "B": 2}, "args": ["x", "y"]}', 'without a spec it is the template');
SELECT is((SELECT rpq_store.pod_spec(w) FROM rpq_store.workload w WHERE workload_id = :d1), '{"image": "base", "env": {"A": 1, "B": 2}, "args": ["x", "y"]}', 'of the queue where it is now');

-- What waits in a queue is stopped, deleted and drafted as in a pool.
SELECT is(rpq.stop(workload => :w2), true, 'stopped');
SELECT is(rpq.delete_workload(workload => :w3), true, 'deleted');
SELECT rpq_store.take_turns(ARRAY[q.queue_id]) AS x, rpq_store.draft_queued(q.queue_id, NULL, 'queue_deleted', 'gone') AS drafted FROM rpq_store.queue q WHERE q.name = 'dev-big' \gset
SELECT is(:drafted, 3, 'what waited in it is drafted');
SELECT is((SELECT sum(waiting) FROM rpq_store.waiting_now WHERE scope_id IN (SELECT queue_id FROM rpq_store.queue)), 0::numeric, 'nothing waits in a queue now');
SELECT * FROM t.whole();
SELECT * FROM finish();

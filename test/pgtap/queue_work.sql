-- Work that came through queues: what it is charged to, exactly once each way; who sees it and may end it.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT rpq.create_pool(name => 'p1', type => 'dedicated', nodes => '{n1}') AS x, rpq.create_pool(name => 'p2', type => 'dedicated', nodes => '{n2}') AS y \gset
SELECT rpq.create_user_group(name => 'dev') AS x, rpq.create_user_group(name => 'research') AS y \gset
SELECT rpq.add_to_group(user_group => 'dev', accounts => '{u1,u2}') AS x, rpq.add_to_group(user_group => 'research', accounts => '{u3}') AS y \gset
SELECT rpq.create_profile(name => 'four', resources => 'gpu=4', pools => '{p1,p2}') AS x, rpq.create_profile(name => 'one', resources => 'gpu=1', pools => '{p1}') AS y \gset
SELECT rpq.provision_profiles() AS x \gset
SELECT rpq.create_policy(name => 'dev', user_group => 'dev', reservation => 'gpu=8', usage_limit => 'gpu=16') AS x, rpq.create_policy(name => 'research', user_group => 'research', reservation => 'gpu=8', usage_limit => 'gpu=16') AS y \gset
SELECT rpq.connect_profile(policy => 'dev', profile => 'four', queue => 'dev-four') AS x, rpq.connect_profile(policy => 'dev', profile => 'one', queue => 'dev-one') AS y, rpq.connect_profile(policy => 'research', profile => 'four', queue => 'res-four') AS z \gset
SELECT rpq.authorize(pool => 'p1', accounts => '{u1}', quota => 'gpu=2') AS x \gset

CREATE FUNCTION t.through(queue_name text, account_name text, replica_count int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit(queue => queue_name, workload_type => 'training', account => account_name, replicas => replica_count);
END $$;
CREATE FUNCTION t.policy_used(policy_name text) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT t.gpu(p.used) FROM rpq.policies p WHERE p.name = policy_name);
END $$;
-- pool p1, pool p2, policies dev and research, member u1 of p1
CREATE FUNCTION t.figures() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN concat_ws(' ', t.used('p1'), t.used('p2'), t.policy_used('dev'), t.policy_used('research'), t.member_used('p1', 'u1'));
END $$;
-- The ledger says the same as the cube, cell by cell, once everything is counted.
CREATE FUNCTION t.ledger() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN coalesce((SELECT string_agg(format('pool %s policy %s: %s', s.pool_id, s.policy_id, s.sum), '; ' ORDER BY s.pool_id, s.policy_id) FROM (
		SELECT e.pool_id, coalesce(e.policy_id, 0) AS policy_id, trim_scale(sum(coalesce(e.resources OPERATOR(rpq.->) 'gpu', 0))) AS sum
		FROM rpq_store.entry e WHERE e.resources IS NOT NULL GROUP BY 1, 2) s WHERE s.sum <> 0), 'even');
END $$;

-- Direct work is the member's, work through the queue the policy's, both are the pool's.
SELECT t.submit('p1', '2', 'u1', 'direct') AS direct, t.through('dev-one', 'u1', 2) AS w3 \gset
SELECT t.pass() AS x \gset
SELECT t.through('dev-four', 'u1') AS w1, t.through('dev-four', 'u1') AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(t.status(id), ' ' ORDER BY id) FROM unnest(ARRAY[:direct, :w1, :w2, :w3]) id), 'running running running running', 'all of it runs: the personal quota is not asked');
SELECT is(t.figures(), '8 4 10 0 2', 'pools hold all, the policy what came through its queues, the member what it submitted');
SELECT is((SELECT ROW(pool, queue, policy, profile, total::text, nodes)::text FROM rpq.workloads WHERE workload_id = :w3), '(p1,dev-one,dev,one,gpu=2,"{n1,n1}")', 'placed, it has a pool, and keeps its queue and policy');
SELECT is((SELECT ROW(q.queued, q.running)::text FROM rpq.queues q WHERE q.name = 'dev-four'), '(0,2)', 'the queue counts what runs');
SELECT is((SELECT ROW(scope_id = (SELECT queue_id FROM rpq_store.queue WHERE name = 'dev-one'), pool_id = (SELECT pool_id FROM rpq_store.pool WHERE name = 'p1'), policy_id = (SELECT policy_id FROM rpq_store.policy WHERE name = 'dev'), kind, resources::text)::text
	FROM rpq_store.entry WHERE workload_id = :w3 AND kind = 'admit'), '(t,t,t,admit,gpu=2)', 'the admission names queue, pool and policy');
SELECT is((SELECT string_agg(DISTINCT policy, ',') FROM rpq.ledger WHERE workload_id IN (:w1, :w2, :w3)), 'dev', 'so does the ledger that people read');
SELECT is((SELECT count(*) FROM rpq.ledger WHERE workload_id = :direct AND policy IS NULL), 1::bigint, 'direct work has no policy');
SELECT * FROM t.whole();

-- Each way out gives back what was taken, to the same cells.
SELECT rpq.report_started(workload => :w1) AS x, rpq.report_checkpoint(workload => :w1, detail => 'step 7') AS y, rpq.report_finished(workload => :w1) AS z \gset
SELECT is(t.figures(), '4 4 6 0 2', 'finished: what people read is right before any cycle');
SELECT is((SELECT ROW(status, pool, queue, policy)::text FROM rpq.workload_history WHERE workload_id = :w1), '(succeeded,p1,dev-four,dev)', 'its history names all of it');
SELECT rpq.requeue(workload => :w2, delay => '1 hour') AS x \gset
SELECT is(t.figures(), '4 0 2 0 2', 'requeued: given back');
SELECT is((SELECT ROW(status, pool, queue, policy)::text FROM rpq.workloads WHERE workload_id = :w2), '(queued,,dev-four,dev)', 'it waits in its queue again, in no pool');
SELECT is((SELECT count(*) FROM rpq_store.lane WHERE scope_id = (SELECT queue_id FROM rpq_store.queue WHERE name = 'dev-one') AND waiting > 0), 0::bigint, 'nothing waits in the other');
SELECT t.pass() AS x \gset
SELECT is(t.reason_code(:w2), 'backing_off', 'not before its time');
SELECT rpq.stop(workload => :w3) AS x, rpq.stop(workload => :direct) AS y, rpq.delete_workload(workload => :w2) AS z \gset
SELECT is(t.figures(), '0 0 0 0 0', 'stopped and deleted: nothing is held');
SELECT t.pass() AS x \gset
SELECT is(t.figures() || ' ' || t.ledger(), '0 0 0 0 0 even', 'nor after the cycle, nor by the ledger');
SELECT * FROM t.whole();

-- From a queue to a pool and back, the charge follows.
SELECT rpq.enqueue(workload => :w3, pool => 'p1') AS x, rpq.enqueue(workload => :direct, queue => 'dev-four') AS y \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w3) || ' ' || t.status(:direct) || ' ' || t.figures(), 'running running 6 0 4 0 2', 'in the pool it is the member''s, in the queue, with the profile''s size, the policy''s');
SELECT rpq.stop(workload => :w3) AS x, rpq.stop(workload => :direct) AS y, t.pass() AS z \gset
SELECT is(t.figures() || ' ' || t.ledger(), '0 0 0 0 0 even', 'and all of it comes back');

-- Who sees what and may do what: the owner, administrators of the tenant, those of the pool where it runs.
SELECT rpq.create_account(name => 'boss', org_admin => true) AS x, rpq.create_account(name => 'keeper') AS y, rpq.create_account(name => 'machine', executor => true) AS z \gset
SELECT rpq.grant_pool_admin(pool => 'p1', account => 'keeper') AS x \gset
SELECT t.through('dev-four', 'u2') AS a, t.through('dev-four', 'u2') AS b, t.through('dev-four', 'u2') AS c, t.through('dev-four', 'u2') AS d, t.through('dev-four', 'u2') AS waits \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:waits) || ' ' || t.reason_code(:waits), 'queued policy_limit', 'the policy holds what it may');
CREATE FUNCTION t.sees(account_name text, OUT seen text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.account', account_name, true);
	SELECT string_agg(format('%s:%s', coalesce(w.pool, '-'), n), ' ' ORDER BY w.pool) INTO seen
	FROM (SELECT v.pool, count(*) AS n FROM rpq.workloads v GROUP BY v.pool) w;
	seen := coalesce(seen, 'nothing') || ' | ' || (SELECT count(*) FROM rpq.pods) || ' | ' || (SELECT count(*) FROM rpq.workload_history) || ' | ' || (SELECT count(DISTINCT workload_id) FROM rpq.workload_events);
	PERFORM set_config('rpq.account', '', true);
END $$;
SELECT is((t.sees('u2')), 'p1:2 p2:2 -:1 | 4 | 5 | 5', 'the owner sees its own');
SELECT is((t.sees('keeper')), 'p1:2 | 2 | 5 | 5', 'an administrator of p1 what runs there, and what ran there');
SELECT is((t.sees('u4')), 'nothing | 0 | 0 | 0', 'others of the tenant nothing');
SELECT is((SELECT split_part(t.sees('boss'), ' |', 1)), 'p1:2 p2:2 -:1', 'an administrator of the tenant all');
CREATE FUNCTION t.may(account_name text, command text, ids bigint[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answers text[];
	id bigint;
BEGIN
	FOREACH id IN ARRAY ids LOOP
		BEGIN
			PERFORM set_config('rpq.account', account_name, true);
			answers := answers || t.outcome(format(command, id));
			RAISE EXCEPTION USING ERRCODE = 'XT000';
		EXCEPTION WHEN SQLSTATE 'XT000' THEN
			PERFORM set_config('rpq.account', '', true);
		END;
	END LOOP;
	RETURN array_to_string(answers, ' ');
END $$;
-- one that runs in p1, one in p2, one that waits
SELECT max(workload_id) FILTER (WHERE pool = 'p1') AS in1, max(workload_id) FILTER (WHERE pool = 'p2') AS in2 FROM rpq.workloads \gset
SELECT is(t.may('u2', 'SELECT rpq.stop(workload => %s)', ARRAY[:in1, :in2, :waits]), 'ok ok ok', 'the owner stops all');
SELECT is(t.may('boss', 'SELECT rpq.stop(workload => %s)', ARRAY[:in1, :in2, :waits]), 'ok ok ok', 'so do administrators of the tenant');
SELECT is(t.may('keeper', 'SELECT rpq.stop(workload => %s)', ARRAY[:in1, :in2, :waits]), 'ok 42704 42704', 'one of p1 what runs there');
SELECT is(t.may('u1', 'SELECT rpq.stop(workload => %s)', ARRAY[:in1, :in2, :waits]), '42704 42704 42704', 'another member of the group nothing');
SELECT is(t.may('machine', 'SELECT rpq.requeue(workload => %s)', ARRAY[:in1, :in2]), 'ok ok', 'executors of the tenant requeue');
SELECT is(t.may('machine', 'SELECT rpq.report_finished(workload => %s, attempt => 1)', ARRAY[:in1, :in2]), 'ok ok', 'and report');
SELECT is(t.may('machine', 'SELECT rpq.report_finished(workload => %s)', ARRAY[:in1]), '22023', 'but name the attempt');
SELECT is(t.may('keeper', 'SELECT rpq.edit_workload(workload => %s, priority => 1)', ARRAY[:waits]), '42704', 'what waits in a queue is in no pool');
SELECT is(t.may('boss', 'SELECT rpq.edit_workload(workload => %s, priority => 100)', ARRAY[:waits]), 'ok', 'the priority may be 100');

-- What executors are handed: the queue's template, and over it the workload's own spec.
SELECT rpq.set_pod_template(queue => 'dev-four', template => '{"image": "base", "env": {"A": "1", "B": "2"}}') AS x \gset
SELECT rpq.stop(workload => :in1) AS x, rpq.stop(workload => :waits) AS y, t.pass() AS z \gset
SELECT rpq.submit(queue => 'dev-four', workload_type => 'training', account => 'u2', spec => '{"env": {"B": "3"}}') AS mine \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT spec FROM rpq.sync_node(node => 'n1') WHERE workload = :mine AND action = 'start'), '{"env": {"A": "1", "B": "3"}, "image": "base"}'::jsonb, 'keys of the workload win');

-- Deauthorising and deleting.
SELECT is(rpq.deauthorize(pool => 'p1', accounts => '{u1}', stop => true), 1, 'who leaves the pool');
SELECT t.through('dev-one', 'u1') AS still \gset
SELECT rpq.authorize(pool => 'p2', accounts => '{u2}') AS x, rpq.deauthorize(pool => 'p2', accounts => '{u2}', stop => true) AS y \gset
SELECT is((SELECT count(*) FROM rpq.workloads WHERE account = 'u2' AND status IN ('starting', 'running')), 4::bigint, 'loses nothing of what runs through queues');
SELECT is(t.outcome($$SELECT rpq.delete_pool(pool => 'p2')$$), 'RQ006', 'a pool with such work is not deleted');
SELECT rpq.delete_pool(pool => 'p2', force => true) AS x \gset
SELECT is((SELECT count(*) FROM rpq.workload_history WHERE account = 'u2' AND status = 'stopped' AND end_cause = 'pool_deleted'), 2::bigint, 'but by force, and what ran in it is stopped');
SELECT is(t.used('p1') || ' ' || t.policy_used('dev'), '8 8', 'and given back, to the policy too');
SELECT t.pass() AS x \gset
SELECT * FROM t.whole();

-- A queue that is disconnected: what waits becomes a draft, what runs stays charged; it goes on in another.
SELECT rpq.disconnect_profile(policy => 'dev', profile => 'one') AS x \gset
SELECT is((SELECT ROW(status, queue, policy)::text FROM rpq.workloads WHERE workload_id = :still), '(draft,dev-one,dev)', 'a draft that names the queue that is gone');
SELECT is(t.outcome(format('SELECT rpq.enqueue(workload => %s)', :still)), '42704', 'which takes nothing more');
SELECT is(rpq.enqueue(workload => :still, queue => 'dev-four'), true, 'another does');
SELECT rpq.disconnect_profile(policy => 'dev', profile => 'four') AS x \gset
SELECT is(t.policy_used('dev'), 8::numeric, 'what runs stays charged to the policy');
SELECT rpq.stop(workload_id) FROM rpq.workloads WHERE status IN ('starting', 'running') \g /dev/null
SELECT t.pass() AS x \gset
SELECT is(t.policy_used('dev') || ' ' || t.used('p1') || ' ' || t.ledger(), '0 0 even', 'and is given back when it ends');
SELECT * FROM t.whole();
SELECT * FROM finish();

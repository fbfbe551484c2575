-- Field case F25: what becomes of waiting and running work when queues, policies, groups and pools go.  Nothing hangs,
-- nothing is left behind, nothing is stopped by surprise.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
-- SQLSTATE and message of a call; the time that it takes is bounded.
CREATE FUNCTION t.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
	answer text := 'ok';
BEGIN
	BEGIN
		EXECUTE command;
	EXCEPTION WHEN OTHERS THEN
		answer := SQLSTATE || ' ' || SQLERRM;
	END;
	RETURN answer || CASE WHEN clock_timestamp() - since > interval '1 s' THEN ' (slow)' ELSE '' END;
END $$;
CREATE FUNCTION t.total() RETURNS numeric LANGUAGE sql AS $$ SELECT sum(t.gpu(total)) FROM rpq.pools $$;
CREATE FUNCTION t.statuses(VARIADIC ids bigint[]) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(t.status(i), ' ' ORDER BY o) FROM unnest(ids) WITH ORDINALITY x (i, o)
$$;
CREATE FUNCTION t.send(queue_name text, account_name text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit(queue => queue_name, workload_type => 'training', account => account_name);
END $$;
SELECT rpq.create_instance_type('g16', 'gpu', 'gpu=16', 'gpu=8'), rpq.create_cluster('c2');
SELECT rpq.add_nodes('g8', names => '{n1,n2,n3}', cluster => 'c1'), rpq.add_nodes('g16', names => '{big}', cluster => 'c2');
SELECT rpq.create_pool('d1', 'dedicated', nodes => '{n1}', cluster => 'c1'), rpq.authorize('d1', '{u1}');
SELECT rpq.create_user_group('g'), rpq.add_to_group('g', '{u1,u2}');
SELECT rpq.create_policy('P', 'g', 'gpu=4', 'gpu=8');
SELECT rpq.create_profile('small', 'gpu=4', '{d1}'), rpq.create_profile('huge', 'gpu=16', '{c2-gpu}');
SELECT is(rpq.provision_profiles(), 2, 'provisioned');
SELECT rpq.connect_profile('P', 'small', 'q');
SELECT t.send('q', 'u1') AS t3 \gset
SELECT t.pass() AS x \gset
SELECT rpq.submit('d1', workload_type => 'training', resources => 'gpu=4', account => 'u1') AS filler \gset
SELECT t.pass() AS x \gset
SELECT t.send('q', 'u1') AS t1, t.send('q', 'u2') AS t2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.statuses(:t3, :t1, :t2, :filler), 'running queued queued running', 't3 runs, t1 and t2 wait');
SELECT is((SELECT concat_ws(' ', queued, running) FROM rpq.queues), '2 1', 'so says the view');
SELECT is((SELECT concat_ws(' ', used, unmet_reservation) FROM rpq.policies), 'gpu=4 gpu=0', 'charged to P');
SELECT rpq.report_finished(:filler), t.used('d1') \g /dev/null
SELECT rpq.edit_policy('P', usage_limit => 'gpu=4');
SELECT t.pass() AS x \gset
SELECT is(t.statuses(:t3, :t1, :t2), 'running queued queued', 'lowering the limit stops nothing, and nothing more is admitted');
SELECT rpq.edit_policy('P', usage_limit => 'gpu=8', reservation => 'gpu=4');
SELECT t.stored() AS stored \gset
-- (1)
SELECT is(t.said($$SELECT rpq.connect_profile('P', 'huge', 'h')$$), 'RQ002 profile "huge" cannot be connected to policy "P"', '(1) 16 > M 8');
-- (2)
SELECT is(t.said($$SELECT rpq.delete_pool('d1')$$), 'RQ006 pool "d1" cannot be deleted: 1 node, 1 member, 1 queue, 3 live workloads', '(2) refused at once, each counted');
SELECT is(t.stored(), :'stored', '(2) nothing has changed');
-- (3)
SELECT is(t.said($$SELECT rpq.disconnect_profile('P', 'small')$$), 'ok', '(3) disconnected');
SELECT is((SELECT count(*) FROM rpq.queues), 0::bigint, '(3) q is gone');
SELECT is(t.statuses(:t3, :t1, :t2), 'running draft draft', '(3) t1, t2 are drafts, t3 runs on');
SELECT is((SELECT reason FROM rpq.workloads WHERE workload_id = :t1), 'profile "small" was disconnected from policy "P"', '(3) with the reason');
SELECT t.pass() AS x \gset
SELECT is(t.used('d1') || ' ' || t.statuses(:t3, :t1, :t2), '4 running draft draft', '(3) used 4, also after a pass');
SELECT is((SELECT used::text FROM rpq.policies), 'gpu=4', '(3) charged to P until it ends');
SELECT is(left(t.said($$SELECT t.send('q', 'u1')$$), 5), '42704', '(3) nothing more comes in');
SELECT is(left(t.said(format('SELECT rpq.enqueue(%s)', :t1)), 5), '42704', '(3) a draft cannot go back there');
SELECT is(t.said($$SELECT rpq.delete_pool('d1')$$), 'RQ006 pool "d1" cannot be deleted: 1 node, 1 member, 1 live workload', '(3) what runs stands against the pool');
-- (4), P deleted while something is still charged to it, in a rehearsal
BEGIN;
SELECT is(t.said($$SELECT rpq.delete_policy('P')$$), 'ok', 'P is deleted while t3 runs');
SELECT is((SELECT count(*) FROM rpq.policies), 0::bigint, 'it is gone from the view');
SELECT is((SELECT concat_ws(' ', status IN ('starting', 'running'), policy) FROM rpq.workloads WHERE workload_id = :t3), 't P', 't3 runs on, charged to it');
SELECT rpq.report_finished(:t3), t.pass() \g /dev/null
SELECT is(t.used('d1') || ' ' || (SELECT count(*) FROM rpq_store.usage WHERE policy_id <> 0 AND amount OPERATOR(rpq.<>) ''), '0 0', 'nothing is held any more');
SELECT t.whole();
ROLLBACK;
SELECT is(rpq.report_finished(:t3), true, '(4) t3 is finished');
SELECT is(t.said($$SELECT rpq.delete_policy('P')$$), 'ok', '(4) P is deleted');
SELECT is(t.used('d1') || ' ' || (SELECT count(*) FROM rpq.policies) || ' ' || (SELECT count(*) FROM rpq.queues) || ' ' || t.statuses(:t1, :t2), '0 0 0 draft draft',
	'(4) used 0; P and its queues are gone; t1, t2 still draft');
-- (5)
SELECT is(t.said($$SELECT rpq.deauthorize('d1', '{u1}')$$) || t.said($$SELECT rpq.resize_pool('d1', quota => 'gpu=0')$$) || t.said($$SELECT rpq.delete_pool('d1')$$), 'okokok', '(5)');
SELECT is((SELECT t.gpu(total) FROM rpq.pools WHERE name = 'c1-gpu') || ' ' || t.total(), '24 40', '(5) s 24, and the sum is what it was');
SELECT is((SELECT string_agg(concat_ws(' ', name, pools), ', ' ORDER BY name) FROM rpq.profiles), 'huge {c2-gpu}, small {}', '(5) the pool has left the profile');
SELECT is(rpq.enqueue(:t1, pool => 'c1-gpu'), true, 'a draft goes elsewhere');
SELECT t.pass() AS x \gset
SELECT is(t.status(:t1), 'running', 'and runs there');
SELECT rpq.stop(:t1);
SELECT t.whole();

-- ---- groups -------------------------------------------------------------------------------------------------------------
SELECT rpq.edit_profile('small', pools => '{c1-gpu}'), rpq.create_user_group('h'), rpq.add_to_group('h', '{u2}');
SELECT rpq.provision_profiles(), rpq.create_policy('P', 'g', usage_limit => 'gpu=4');
SELECT rpq.connect_profile('P', 'small', 'q');
SELECT rpq.create_account('boss', org_admin => true), rpq.add_to_group('g', '{boss}'), rpq.add_to_group('h', '{boss}');
SELECT t.send('q', 'u1') AS r1 \gset
SELECT t.pass() AS x \gset
SELECT t.send('q', 'u1') AS w1, t.send('q', 'u2') AS w2, t.send('q', 'boss') AS w3 \gset
SELECT t.pass() AS x \gset
SELECT is(t.statuses(:r1, :w1, :w2, :w3), 'running queued queued queued', 'three wait');
SELECT rpq.edit_policy('P', user_group => 'h');
SELECT is(t.statuses(:r1, :w1, :w2, :w3), 'running draft queued queued', 'another group: outsiders'' work is draft, what runs goes on');
SELECT is((SELECT concat_ws(' ', reason_code, reason) FROM rpq.workloads WHERE workload_id = :w1), 'not_authorized policy "P" is for another user group now', 'with the reason');
SELECT is(left(t.said($$SELECT t.send('q', 'u1')$$), 5), 'RQ001', 'u1 may not submit any more');
SELECT rpq.remove_from_group('h', '{u2}');
SELECT is(t.statuses(:r1, :w1, :w2, :w3), 'running draft draft queued', 'removed from the group');
SELECT is((SELECT concat_ws(' ', reason_code, reason) FROM rpq.workloads WHERE workload_id = :w2), 'not_authorized removed from user group "h"', 'with the reason');
SELECT is(t.said($$SELECT rpq.delete_user_group('h')$$), 'RQ006 user group "h" is in use', 'the group of a policy stays');
SELECT rpq.add_to_group('h', '{u2}');
SELECT is(rpq.enqueue(:w2), true, 'back in the group, back in the queue');
SELECT rpq.report_finished(:r1), t.pass() \g /dev/null
SELECT is(t.statuses(:r1, :w1, :w2, :w3), 'succeeded draft queued running', 'the next one runs');
SELECT rpq.stop(:w3), rpq.stop(:w2), t.pass() \g /dev/null
SELECT t.whole();

-- ---- a pool deleted by force --------------------------------------------------------------------------------------------
SELECT rpq.create_pool('d2', 'dedicated', nodes => '{n1}', cluster => 'c1'), rpq.create_pool('d3', 'dedicated', nodes => '{n2}', cluster => 'c1');
SELECT rpq.create_profile('two', 'gpu=8', '{d2,d3}'), rpq.create_profile('one', 'gpu=8', '{d2}');
SELECT rpq.provision_profiles(), rpq.edit_policy('P', clear => '{usage_limit}');
SELECT rpq.connect_profile('P', 'two', 'q2'), rpq.connect_profile('P', 'one', 'q1');
SELECT t.send('q2', 'u2') AS a \gset
SELECT t.pass() AS x \gset
SELECT t.send('q2', 'u2') AS b \gset
SELECT t.pass() AS x \gset
SELECT t.send('q2', 'u2') AS c, t.send('q1', 'u2') AS d \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(concat_ws(' ', status IN ('starting', 'running'), pool), ', ' ORDER BY workload_id) FROM rpq.workloads WHERE workload_id IN (:a, :b, :c, :d)),
	't d2, t d3, f, f', 'in routing order');
SELECT is(t.said($$SELECT rpq.delete_pool('d2')$$), 'RQ006 pool "d2" cannot be deleted: 1 node, 2 queues, 3 live workloads', 'what would be stopped or lose a pool');
SELECT is(t.said($$SELECT rpq.delete_pool('d2', force => true)$$), 'ok', 'by force');
SELECT is(t.statuses(:a, :b, :c, :d), 'stopped running queued draft', 'what runs there is stopped, what another pool serves waits on, the rest is draft');
SELECT is((SELECT concat_ws(' ', reason_code, reason) FROM rpq.workloads WHERE workload_id = :d), 'pool_deleted the last pool of the queue was deleted', 'with the reason');
SELECT is((SELECT (result ->> 'stopped') || (result ->> 'drafted') FROM rpq.operations WHERE kind = 'delete' ORDER BY operation_id DESC LIMIT 1), '11', 'the operation counts them');
SELECT rpq.report_finished(:b), t.pass() \g /dev/null
SELECT is(t.statuses(:c) || ' ' || (SELECT pool FROM rpq.workloads WHERE workload_id = :c), 'running d3', 'in the pool that is left');
SELECT is(t.total(), 40::numeric, 'the sum is what it was');
SELECT is((SELECT string_agg(name, ',' ORDER BY name) FROM rpq.queues), 'q,q1,q2', 'the queues are there');
SELECT isnt(left(t.said($$SELECT t.send('q1', 'u2')$$), 2), 'ok', 'one without pool takes nothing');
SELECT is(t.said($$SELECT rpq.delete_account('u2')$$), 'RQ006 account "u2" is in use', 'an account with work stays');
SELECT rpq.stop(:c), t.pass() \g /dev/null
SELECT is(t.said($$SELECT rpq.delete_account('u2')$$), 'ok', 'without, it goes');
SELECT is((SELECT accounts::text FROM rpq.user_groups WHERE name = 'h'), '{boss}', 'and leaves its groups');
SELECT * FROM t.whole();
SELECT * FROM finish();

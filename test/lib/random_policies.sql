-- test/lib/random_policies.sql: the sessions of test/t/policies_random.pl: policies, profiles, queues, groups, preemption.
-- Loaded after cases.sql, random_ops.sql (whose rt.drive and rt.check it feeds) and random_operations.sql (whose executor
-- and operations it uses).
--
-- rt.mode says what happens: with config, administrators change things all along; without, only work comes and goes.
CREATE TABLE rt.mode (config boolean NOT NULL, sharing boolean NOT NULL);
INSERT INTO rt.mode VALUES (true, false);
-- Every limit that was ever in force, by the clock.  Written by whoever holds the turns of the policy's queues.
CREATE TABLE rt.limit_log (policy_id bigint, at timestamptz, gpu bigint);
CREATE FUNCTION rt.log_limit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO rt.limit_log VALUES (NEW.policy_id, clock_timestamp(), CASE WHEN NEW.usage_limit OPERATOR(rpq.->) 'gpu' IS NOT NULL THEN rt.units(NEW.usage_limit) END);
	RETURN NULL;
END $$;
CREATE TRIGGER limit_log AFTER INSERT OR UPDATE OF usage_limit ON rpq_store.policy FOR EACH ROW EXECUTE FUNCTION rt.log_limit();

-- Nodes n1, n2, n4, n7 and m1 have an executor (rt.execute), the others never had one.  The shared pool has n7 to n10, m3
-- and m4.
CREATE OR REPLACE PROCEDURE rt.found() LANGUAGE plpgsql AS $$
BEGIN
	CALL t.found();
	PERFORM rpq.create_account('u6');
	PERFORM rpq.create_instance_type(name => 'g4', kind => 'gpu', capacity => 'gpu=4,cpu=64', machine_unit => 'gpu=4');
	PERFORM rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 10), rpq.add_nodes(instance_type => 'g4', prefix => 'm', count => 4);
	INSERT INTO rt.node_added VALUES ('g8', 10), ('g4', 4);
	PERFORM rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2,n3,m1}');
	PERFORM rpq.create_pool(name => 'e1', type => 'exclusive', nodes => '{n4,n5,m2}', idle_time_sharing => (SELECT sharing FROM rt.mode));
	PERFORM rpq.create_pool(name => 'e2', type => 'exclusive', nodes => '{n6}', scheduling_policy => 'spread');
	PERFORM rpq.authorize(pool => p, accounts => '{u1,u2,u3,u4}') FROM unnest('{d1,e1,e2}'::text[]) p;
	PERFORM rpq.update_members(pool => 'd1', accounts => '{u1}', guarantee => true), rpq.update_members(pool => 'd1', accounts => '{u2}', quota => 'gpu=8');
	PERFORM rpq.create_user_group('g' || i), rpq.add_to_group('g' || i, ARRAY['u' || i, 'u' || i + 1]) FROM generate_series(1, 4) i;
	PERFORM rpq.create_profile('half', 'gpu=1/2', '{d1}'), rpq.create_profile('one', 'gpu=1', '{c1-gpu}'),
		rpq.create_profile('two', 'gpu=2', '{d1,c1-gpu}'), rpq.create_profile('four', 'gpu=4', '{c1-gpu,e1}');
	PERFORM rpq.provision_profiles();
	PERFORM rpq.create_policy('A', 'g1', reservation => 'gpu=8', usage_limit => 'gpu=16'),
		rpq.create_policy('B', 'g2', reservation => 'gpu=4', usage_limit => 'gpu=12', lending => 'hold'),
		rpq.create_policy('C', 'g3', usage_limit => 'gpu=8'), rpq.create_policy('D', 'g4', reservation => 'gpu=6');
	PERFORM rpq.connect_profile(x[1], x[2], x[1] || '-' || x[2])
	FROM (SELECT string_to_array(y, ' ') AS x FROM unnest('{A half,A two,A four,B one,B two,C one,C four,D half,D four}'::text[]) y) z;
END $$;

CREATE FUNCTION rt.chance(likely float8) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT CASE WHEN random() < likely THEN 'true' ELSE 'false' END $$;
-- What there is, with now and then something that is not.
CREATE OR REPLACE FUNCTION rt.pool() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT rt.pick('{c1-gpu,c1-gpu,d1,d1,e1,e2}') $$;
CREATE FUNCTION rt.queue() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT coalesce(CASE WHEN random() > 0.03 THEN (SELECT name FROM rpq_store.queue WHERE deleted_at IS NULL ORDER BY random() LIMIT 1) END, 'nobody')
$$;

CREATE OR REPLACE FUNCTION rt.submission() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	common text := format('workload_type => %L, replicas => %s, priority => %s, max_runtime => %s, guarantee => %s, checkpointable => %s, on_node_loss => %L',
		rt.pick('{training,inference,develop}'), rt.pick('{1,1,1,1,1,2,3,4}'), rt.pick('{"NULL",10,30,50,50,70,90}'), rt.pick('{"NULL","NULL","NULL",''1 s'',''4 s''}'),
		rt.chance(0.08), rt.chance(0.3), rt.pick('{requeue,requeue,fail}'));
	queue text := rt.queue();
BEGIN
	IF random() < 0.6 THEN
		-- mostly by one who may
		RETURN format('SELECT rpq.submit(queue => %L, account => %L, draft => %s, %s)', queue, coalesce(CASE WHEN random() < 0.95 THEN (
			SELECT a.name FROM rpq_store.queue q JOIN rpq_store.policy y USING (policy_id) JOIN rpq_store.group_account g USING (group_id)
			JOIN rpq_store.account a USING (account_id) WHERE q.name = queue AND q.deleted_at IS NULL ORDER BY random() LIMIT 1) END, rt.pick('{u1,u3,u5,u6}')),
			rt.chance(0.03), common);
	END IF;
	RETURN format('SELECT rpq.submit(pool => %L, account => %L, resources => %L, draft => %s, request_id => %s, %s)', rt.pool(), rt.pick('{u1,u1,u2,u2,u3,u4,u5,u6}'),
		'gpu=' || rt.pick('{1,1,2,2,4,4,8,8,0.5,1/4,1/7}') || rt.pick('{"",",cpu=8"}'), rt.chance(0.03),
		CASE WHEN random() < 0.05 THEN quote_literal('r' || floor(random() * 20)) ELSE 'NULL' END, common);
END $$;

CREATE OR REPLACE FUNCTION rt.row_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	w bigint := coalesce(rt.some_workload(), 1);
	preemptor bigint := (SELECT preemptor FROM rpq_store.preemption WHERE state = 'pending' ORDER BY random() LIMIT 1);
	busy boolean := (SELECT count(*) > 150 FROM rpq_store.workload WHERE status = 'queued');
	config boolean := (SELECT m.config FROM rt.mode m);
	dice float8 := random();
BEGIN
	-- when much waits, more of it goes than comes
	IF busy AND dice < 0.4 THEN
		RETURN format('SELECT bool_or(rpq.stop(workload_id)) FROM (SELECT * FROM (SELECT workload_id FROM rpq_store.workload WHERE status = ''queued'' ORDER BY random() LIMIT 30) y ORDER BY 1 LIMIT 30) x');
	ELSIF preemptor IS NOT NULL AND dice < 0.06 THEN
		RETURN format('SELECT rpq.stop(workload => %s)', preemptor);
	ELSIF preemptor IS NOT NULL AND dice < 0.1 AND config THEN
		RETURN format('SELECT rpq.edit_workload(workload => %s, priority => %s)', preemptor, rt.pick('{0,50,100}'));
	END IF;
	RETURN CASE
		WHEN random() < 0.1 THEN format('SELECT rpq.stop(workload => %s)', w)
		WHEN random() < 0.5 THEN format('SELECT rpq.report_finished(workload => %s, attempt => (SELECT attempt FROM rpq_store.workload WHERE workload_id = %s), outcome => %L)',
										w, w, rt.pick('{succeeded,failed,stopped}'))
		WHEN random() < 0.1 THEN format('SELECT rpq.report_finished(workload => %s, attempt => %s)', w, 1 + floor(random() * 4))
		WHEN random() < 0.2 THEN format('SELECT rpq.requeue(workload => %s, delay => %L)', w, rt.pick('{0 s,0 s,1 s}'))
		WHEN random() < 0.2 THEN format('SELECT rpq.report_started(workload => %s)', w)
		WHEN random() < 0.1 THEN format('SELECT rpq.report_checkpoint(workload => %s, detail => ''x'')', w)
		WHEN random() < 0.4 AND config THEN format('SELECT rpq.edit_workload(workload => %s, priority => %s)', w, rt.pick('{0,50,100}'))
		WHEN random() < 0.1 AND config THEN format('SELECT rpq.edit_workload(workload => %s, max_runtime => %L)', w, rt.pick('{1 s,1 min}'))
		WHEN random() < 0.3 THEN format('SELECT rpq.enqueue(workload => %s, pool => %s)', w, CASE WHEN random() < 0.5 THEN 'NULL' ELSE quote_literal(rt.pool()) END)
		WHEN random() < 0.3 THEN format('SELECT rpq.enqueue(workload => %s, queue => %L)', w, rt.queue())
		WHEN random() < 0.6 THEN format('SELECT count(*) FROM rpq.explain(workload => %s)', w)
		ELSE format('SELECT rpq.delete_workload(workload => %s)', w) END;
END $$;

-- What administrators of policies do.
CREATE FUNCTION rt.policy_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	y text := rt.pick('{A,B,C,D}');
	f text := rt.pick('{half,one,two,four}');
	g text := rt.pick('{g1,g2,g3,g4}');
	a text := rt.pick('{u1,u2,u3,u4,u5,u6}');
BEGIN
	RETURN CASE
		WHEN random() < 0.3 THEN format('SELECT rpq.edit_policy(policy => %L, reservation => %L)', y, rt.pick('{"",gpu=2,gpu=4,gpu=8,gpu=8,gpu=16,gpu=90,"gpu=4,cpu=32"}'))
		WHEN random() < 0.3 THEN format('SELECT rpq.edit_policy(policy => %L, usage_limit => %L)', y, rt.pick('{gpu=0,gpu=4,gpu=8,gpu=12,gpu=16,gpu=24,"gpu=16,cpu=64"}'))
		WHEN random() < 0.1 THEN format('SELECT rpq.edit_policy(policy => %L, clear => %L)', y, rt.pick('{"{usage_limit}","{reservation}"}'))
		WHEN random() < 0.2 THEN format('SELECT rpq.edit_policy(policy => %L, lending => %L)', y, rt.pick('{lend,hold}'))
		WHEN random() < 0.1 THEN format('SELECT rpq.edit_policy(policy => %L, user_group => %L)', y, g)
		WHEN random() < 0.35 THEN format('SELECT rpq.connect_profile(policy => %L, profile => %L, queue => %L)', y, f, y || '-' || f)
		WHEN random() < 0.25 THEN format('SELECT rpq.disconnect_profile(policy => %L, profile => %L)', y, f)
		WHEN random() < 0.35 THEN format('SELECT rpq.add_to_group(user_group => %L, accounts => %L)', g, ARRAY[a])
		WHEN random() < 0.4 THEN format('SELECT rpq.remove_from_group(user_group => %L, accounts => %L)', g, ARRAY[a])
		WHEN random() < 0.4 THEN format('SELECT rpq.edit_profile(profile => %L, pools => %L)', f, rt.pick('{"{d1}","{c1-gpu,d1}","{e1,c1-gpu}","{d1,e1}","{c1-gpu}","{e2,c1-gpu}"}'))
		WHEN random() < 0.6 THEN 'SELECT rpq.provision_profiles()'
		WHEN random() < 0.4 THEN format('SELECT rpq.delete_policy(policy => %L)', y)
		ELSE format('SELECT rpq.create_policy(name => %L, user_group => %L, reservation => %L, usage_limit => %L)', y, g, rt.pick('{"",gpu=4}'), rt.pick('{gpu=8,gpu=16}')) END;
END $$;

-- What administrators of pools do.
CREATE FUNCTION rt.pool_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	p text := rt.pool();
	q text := rt.pool();
	n text := rt.pick('{n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,m1,m2,m3,m4}');
	evacuate text := rt.chance(0.5);
	dice float8 := random();
BEGIN
	RETURN CASE
		WHEN dice < 0.08 THEN format('SELECT rpq.edit_pool(pool => %L, frozen => %s)', p, rt.chance(0.2))
		WHEN dice < 0.16 THEN format('SELECT rpq.edit_pool(pool => %L, queueing => %L)', p, rt.pick('{backfill,backfill,best_effort}'))
		WHEN dice < 0.22 AND (SELECT sharing FROM rt.mode) THEN format('SELECT rpq.edit_pool(pool => %L, idle_time_sharing => %s)', rt.pick('{e1,e2}'), rt.chance(0.6))
		WHEN dice < 0.28 THEN format('SELECT rpq.edit_pool(pool => %L, min_runtime => %L)', p, rt.pick('{0 s,0 s,0 s,1 s}'))
		WHEN dice < 0.32 THEN format('SELECT rpq.edit_pool(pool => %L, isolate_accounts => %s)', rt.pick('{e1,e2}'), rt.chance(0.3))
		WHEN dice < 0.36 THEN format('SELECT rpq.edit_pool(pool => %L, clear => ''{workload_types}'')', p)
		WHEN dice < 0.38 THEN format('SELECT rpq.edit_pool(pool => %L, workload_types => ''{training,develop}'')', p)
		WHEN dice < 0.46 THEN format('SELECT rpq.resize_pool(pool => %L, quota => %L, instance_type => %L, evacuate => %s)', p, 'gpu=' || rt.pick('{8,16,24,32}'), rt.pick('{g8,g8,g4}'), evacuate)
		WHEN dice < 0.54 THEN format('SELECT rpq.move_nodes(nodes => %L, to_pool => %L, evacuate => %s)', ARRAY[rt.node_of(p)], q, evacuate)
		WHEN dice < 0.62 THEN format('SELECT rpq.move_nodes(count => 1, from_pool => %L, to_pool => %L, instance_type => %L, evacuate => %s)', p, q, rt.pick('{g8,g4}'), evacuate)
		WHEN dice < 0.67 THEN format('SELECT rpq.drain_node(node => %L)', n)
		WHEN dice < 0.71 THEN format('SELECT rpq.cordon_node(node => %L)', n)
		WHEN dice < 0.79 THEN format('SELECT rpq.uncordon_node(node => %L)', n)
		WHEN dice < 0.89 THEN format('SELECT rpq.set_node_health(node => %L, health => %L)', n, rt.pick('{healthy,healthy,healthy,healthy,degraded,unhealthy}'))
		WHEN dice < 0.92 THEN format('SELECT rpq.authorize(pool => %L, accounts => %L, quota => %L, max_priority => %s)', p, ARRAY[rt.pick('{u1,u2,u3,u4}')], rt.pick('{"",gpu=8,gpu=16}'), rt.pick('{50,90,100}'))
		WHEN dice < 0.94 THEN format('SELECT rpq.deauthorize(pool => %L, accounts => %L, stop => %s)', p, ARRAY[rt.pick('{u3,u4}')], rt.chance(0.3))
		WHEN dice < 0.96 THEN format('SELECT rpq.authorize(pool => %L, accounts => ''{u1,u2,u3,u4}'')', p)
		WHEN dice < 0.98 THEN 'SELECT rpq.run_operations()'
		ELSE format('SELECT rpq.cancel_operation(id => %s)', coalesce((SELECT operation_id FROM rpq_store.operation WHERE status IN ('pending', 'running') ORDER BY random() LIMIT 1), 1)) END;
END $$;

CREATE OR REPLACE FUNCTION rt.turn_call() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE
		WHEN random() < 0.25 THEN format('SELECT count(*) FROM rpq.schedule(pool => %s)', rt.pick('{"NULL","NULL","NULL",''d1'',''e1'',''c1-gpu''}'))
		WHEN random() < 0.1 OR NOT (SELECT config FROM rt.mode) THEN 'SELECT count(*) FROM rpq.schedule(dry_run => true)'
		WHEN random() < 0.6 THEN rt.policy_call()
		ELSE rt.pool_call() END;
END $$;

-- The SQLSTATEs that the contract lets a call answer with, other than success.  40001 is for those above READ COMMITTED, or
-- as the function's comment says.
CREATE TABLE rt.allowed (call text PRIMARY KEY, states text NOT NULL);
INSERT INTO rt.allowed VALUES
	('submit', '42704 RQ001 RQ002 RQ004 RQ007'), ('enqueue', '42704 RQ001 RQ002 RQ004 RQ007 RQ008'), ('edit_workload', '42704 RQ001 RQ008'),
	('stop', '42704'), ('requeue', '42704'), ('delete_workload', '42704'), ('explain', '42704'), ('report_started', '42704'),
	('report_finished', '42704'), ('report_checkpoint', '42704'), ('schedule', ''),
	('edit_policy', '42704 22023 RQ002 40001'), ('create_policy', '42710'), ('delete_policy', '42704 40001'),
	('connect_profile', '42704 42710 22023 RQ002 40001'), ('disconnect_profile', '42704 40001'), ('add_to_group', ''), ('remove_from_group', '40001'),
	('edit_profile', ''), ('provision_profiles', '22023 RQ002 40001'),
	('edit_pool', '22023 RQ004'), ('authorize', '22023 RQ004'), ('deauthorize', '22023 42704 RQ004'),
	('resize_pool', '22023 RQ002 RQ003 RQ004 RQ005 RQ006'), ('move_nodes', '22023 RQ002 RQ003 RQ004 RQ005 RQ006'), ('drain_node', '22023 RQ004 RQ006 40001'),
	('cordon_node', ''), ('uncordon_node', ''), ('set_node_health', ''), ('run_operations', ''), ('cancel_operation', '42704 RQ004');

-- As rt.other_run, but a state that is not allowed of this call becomes XF000, which rt.drive takes for a fault.
DROP FUNCTION rt.run(text, boolean);
CREATE FUNCTION rt.run(command text, undo boolean, OUT state text, OUT message text) LANGUAGE plpgsql AS $$
DECLARE
	called text := substring(command FROM 'rpq\.(\w+)');
BEGIN
	SELECT r.state, r.message INTO state, message FROM rt.other_run(command, undo) r;
	IF state IN ('00000', 'XT000') OR state = '40001' AND current_setting('transaction_isolation') <> 'read committed'
		OR state = '22023' AND command ~ 'request_id => ''' THEN
		RETURN;
	-- whoever takes turns may meet it, and tries again
	ELSIF state = '55P03' AND message ~ '^more pools and queues were connected' THEN
		state := 'RQ004';
	ELSIF state = ANY (string_to_array((SELECT a.states FROM rt.allowed a WHERE a.call = called), ' ')) THEN
		-- rt.drive knows fewer
		state := CASE WHEN state ~ '^(RQ|42704)' THEN state ELSE 'RQ004' END;
	ELSE
		message := state || ' ' || message;
		state := 'XF000';
	END IF;
END $$;

-- An executor that falls silent now and then, for longer than rpq.node_timeout.
ALTER FUNCTION rt.report(text) RENAME TO other_report;
CREATE TABLE rt.silence (node text PRIMARY KEY, until timestamptz NOT NULL);
CREATE FUNCTION rt.report(node_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM rt.silence WHERE node = node_name AND until > clock_timestamp()) THEN
		RETURN;
	ELSIF random() < 0.003 THEN
		INSERT INTO rt.silence VALUES (node_name, clock_timestamp() + interval '6 s') ON CONFLICT (node) DO UPDATE SET until = excluded.until;
	END IF;
	PERFORM rt.other_report(node_name);
END $$;

-- ---- what must hold -------------------------------------------------------------------------------------------------
-- Admissions that took a policy beyond the limit that was in force, from the ledger alone.
CREATE FUNCTION rt.beyond_limit() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	WITH held AS (
		SELECT e.policy_id, e.at, e.kind, e.workload_id, sum(rt.units(e.resources)) OVER (PARTITION BY e.policy_id ORDER BY e.at) AS gpu
		FROM rpq_store.entry e WHERE e.policy_id IS NOT NULL AND e.resources IS NOT NULL)
	SELECT format('policy %s held %s of %s when workload %s was admitted', h.policy_id, h.gpu, l.gpu, h.workload_id)
	FROM held h CROSS JOIN LATERAL (SELECT x.gpu FROM rt.limit_log x WHERE x.policy_id = h.policy_id AND x.at <= h.at ORDER BY x.at DESC LIMIT 1) l
	WHERE h.kind = 'admit' AND h.gpu > l.gpu
$$;
-- Pairs that took room from each other without a reason from outside.  By priority (and by borrowing) never, unless a
-- priority was edited between the two.  By reservation, the first takes the victim's policy to no less than its
-- reservation; the victim can only be within it later if work of its own policy has ended otherwise than by that rule.
-- Administrators' changes, all of which stand in the history, are a reason too.
CREATE FUNCTION rt.each_other() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT format('%s took from %s by %s at %s, then %s from %s by %s at %s', a.preemptor, a.victim, a.rule, a.at, b.preemptor, b.victim, b.rule, b.at)
	FROM rpq_store.preemption a
	JOIN rpq_store.preemption b ON b.preemptor = a.victim AND b.victim = a.preemptor AND b.preemption_id > a.preemption_id
	JOIN rpq_store.workload v ON v.workload_id = a.victim
	WHERE a.state <> 'given_up' AND b.state <> 'given_up'
	  AND NOT EXISTS (SELECT FROM rpq_store.entry e WHERE e.workload_id IN (a.preemptor, a.victim) AND e.kind = 'edit' AND e.at BETWEEN a.at AND b.at)
	  AND NOT EXISTS (SELECT FROM rpq_store.history h WHERE h.recorded_at BETWEEN a.at - interval '1 s' AND b.at + interval '1 s')
	  AND (a.rule <> 'reservation' AND b.rule <> 'reservation'
		OR NOT EXISTS (SELECT FROM rpq_store.entry e
			LEFT JOIN rpq_store.preemption p ON p.victim = e.workload_id AND p.victim_attempt = e.attempt AND p.rule = 'reservation'
			WHERE e.kind = 'release' AND e.at BETWEEN a.at AND b.at AND p.preemption_id IS NULL
			  AND e.policy_id IS NOT DISTINCT FROM (SELECT x.policy_id FROM rpq_store.entry x WHERE x.workload_id = a.victim AND x.kind = 'admit' AND x.attempt = a.victim_attempt)))
$$;
-- Preemptions that no rule allows, as far as rows still tell: of guaranteed work; by priority of what is not lower, or of
-- other policies or pools; by reservation for a direct submission.
CREATE FUNCTION rt.unjust() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT format('%s took from %s by %s at %s: %s', p.preemptor, p.victim, p.rule, p.at, w.what)
	FROM rpq_store.preemption p
	JOIN rpq_store.workload a ON a.workload_id = p.preemptor
	JOIN rpq_store.workload v ON v.workload_id = p.victim
	JOIN rpq_store.entry e ON e.workload_id = p.victim AND e.attempt = p.victim_attempt AND e.kind = 'admit'
	LEFT JOIN rpq_store.queue q ON q.queue_id = a.scope_id
	CROSS JOIN LATERAL (VALUES (v.guarantee, 'it is guaranteed'), (p.victim = p.preemptor, 'itself'),
		(p.rule = 'priority' AND a.priority <= v.priority, format('priority %s, victim %s', a.priority, v.priority)),
		(p.rule = 'priority' AND q.policy_id IS DISTINCT FROM e.policy_id, format('policy %s, victim %s', q.policy_id, e.policy_id)),
		(p.rule = 'priority' AND q.policy_id IS NULL AND a.scope_id <> e.scope_id, format('pool %s, victim %s', a.scope_id, e.scope_id)),
		(p.rule = 'reservation' AND q.policy_id IS NULL, 'it is a direct submission'),
		(p.rule = 'reservation' AND q.policy_id = e.policy_id, 'both are of one policy')) w (wrong, what)
	WHERE w.wrong
	  -- neither has been edited or put elsewhere since
	  AND NOT EXISTS (SELECT FROM rpq_store.entry x WHERE x.workload_id IN (p.preemptor, p.victim) AND x.kind IN ('edit', 'enqueue', 'draft') AND x.at >= p.at)
$$;
-- What is late: a victim that keeps its room after its grace, a workload that waits for victims which are gone.
CREATE FUNCTION rt.late(allowance interval) RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT format('victim %s of %s still has its room, since %s', victim, preemptor, at) FROM rpq_store.preemption
	WHERE state = 'pending' AND coalesce(expires_at, at + interval '1 s') < clock_timestamp() - allowance
	UNION ALL
	SELECT format('workload %s has an %s hold on node %s that was over at %s', workload_id, purpose, node_id, expires_at) FROM rpq_store.hold
	WHERE expires_at < clock_timestamp() - allowance AND operation_id IS NULL
$$;
-- Attempts that do not have exactly one end, once nothing is uncounted.
CREATE FUNCTION rt.ends() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT format('attempt %s of workload %s ended %s times (%s)', attempt, workload_id, count(*), string_agg(kind || ' ' || coalesce(status, '') || ' ' || coalesce(cause, ''), ', ' ORDER BY entry_id))
	FROM rpq_store.entry WHERE kind = 'release' GROUP BY workload_id, attempt HAVING count(*) > 1
	UNION ALL
	SELECT format('attempt %s of workload %s (%s, attempt %s) has no end', e.attempt, e.workload_id, w.status, w.attempt)
	FROM rpq_store.entry e JOIN rpq_store.workload w USING (workload_id)
	WHERE e.kind = 'admit' AND (w.attempt > e.attempt OR w.status NOT IN ('starting', 'running'))
	  AND NOT EXISTS (SELECT FROM rpq_store.entry x WHERE x.workload_id = e.workload_id AND x.attempt = e.attempt AND x.kind IN ('release', 'move'))
	UNION ALL
	SELECT format('attempt %s of workload %s was admitted %s times', attempt, workload_id, count(*)) FROM rpq_store.entry WHERE kind = 'admit'
	GROUP BY workload_id, attempt HAVING count(*) > 1
	UNION ALL
	SELECT format('workload %s is %s, its last entry says %s', w.workload_id, w.status, e.status)
	FROM rpq_store.workload w CROSS JOIN LATERAL (SELECT x.status, x.kind FROM rpq_store.entry x WHERE x.workload_id = w.workload_id AND x.kind <> 'late_report' AND x.status IS NOT NULL
		ORDER BY x.entry_id DESC LIMIT 1) e
	WHERE e.status <> w.status
$$;
-- At any moment, in one snapshot.
ALTER FUNCTION rt.oracle() RENAME TO oracle_of_operations;
CREATE FUNCTION rt.oracle() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT rt.oracle_of_operations()
	UNION ALL SELECT rt.beyond_limit()
	UNION ALL SELECT rt.each_other()
	UNION ALL SELECT rt.unjust()
	UNION ALL SELECT rt.late('8 s')
	UNION ALL
	SELECT format('policy %s shows %s used, its workloads hold %s', y.name, rt.units(y.used), coalesce(h.gpu, 0))
	FROM rpq.policies y LEFT JOIN (SELECT policy_id, sum(rt.units(resources) * replicas) AS gpu FROM rpq_store.workload WHERE status IN ('starting', 'running') GROUP BY 1) h USING (policy_id)
	WHERE rt.units(y.used) <> coalesce(h.gpu, 0)
$$;
-- ---- rest -----------------------------------------------------------------------------------------------------------
-- Nobody but the executor (and the worker) does anything, until nothing is to be done any more, at most so many seconds.
-- Then, with the schedule as it is, more cycles decide nothing: none thrashes.
CREATE PROCEDURE rt.rest(seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	stop_at timestamptz := clock_timestamp() + seconds * interval '1 s';
	name text;
	answer record;
BEGIN
	-- what would end by itself, one after the other
	PERFORM rpq.stop(workload_id) FROM (SELECT workload_id FROM rpq_store.workload WHERE max_runtime IS NOT NULL AND status IN ('queued', 'starting', 'running') ORDER BY 1) x;
	COMMIT;
	WHILE clock_timestamp() < stop_at LOOP
		FOREACH name IN ARRAY '{n1,n2,n4,n7,m1,n5}'::text[] LOOP
			SELECT * INTO answer FROM rt.other_run(format('SELECT rt.answer(%L)', name), false);
			IF answer.state NOT IN ('00000', '42704') THEN
				INSERT INTO rt.fault (session, call, state, message) VALUES (98, 'sync_node ' || name, answer.state, answer.message);
			END IF;
			COMMIT;
		END LOOP;
		EXIT WHEN NOT EXISTS (SELECT rt.restless());
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;
-- An executor that only stops what it is told to stop, at once, and starts what it is told to start.
CREATE FUNCTION rt.answer(node_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	ended jsonb;
	r record;
BEGIN
	WITH gone AS (DELETE FROM rt.agent a WHERE a.node = node_name AND stopping IS NOT NULL RETURNING a.pod)
	SELECT coalesce(jsonb_agg(jsonb_build_object('pod', g.pod, 'outcome', 'stopped')), '[]') INTO ended FROM gone g;
	FOR r IN SELECT * FROM rpq.sync_node(node => node_name, running => ARRAY(SELECT a.pod FROM rt.agent a WHERE a.node = node_name ORDER BY 1), finished => ended,
		capacity => (SELECT i.capacity FROM rpq_store.node n JOIN rpq_store.instance_type i USING (type_id) WHERE n.name = node_name)) LOOP
		IF r.action = 'stop' THEN
			UPDATE rt.agent a SET stopping = 0 WHERE a.node = node_name AND a.pod = r.pod;
		ELSE
			INSERT INTO rt.agent VALUES (node_name, r.pod, r.devices, least(rt.units(r.resources), 21000), NULL) ON CONFLICT DO NOTHING;
		END IF;
	END LOOP;
END $$;
-- What is still to be done: a row for each thing.  (Work that waits with an end in sight is at rest.)
CREATE FUNCTION rt.restless() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('preemption %s: %s of %s is pending', preemption_id, victim, preemptor) FROM rpq_store.preemption WHERE state = 'pending'
	UNION ALL
	SELECT format('%s: %s hold on node %s', workload_id, purpose, node_id) FROM rpq_store.hold
	UNION ALL
	SELECT format('operation %s (%s) is %s at %s', operation_id, kind, status, step) FROM rpq_store.operation WHERE status IN ('pending', 'running') AND kind <> 'rotate'
	UNION ALL
	SELECT format('workload %s is to end at %s', workload_id, deadline) FROM rpq_store.workload WHERE status IN ('starting', 'running') AND deadline IS NOT NULL
	UNION ALL
	SELECT format('workload %s waits until %s', workload_id, not_before) FROM rpq_store.workload WHERE status = 'queued' AND not_before > clock_timestamp()
	UNION ALL
	SELECT format('workload %s would be %s', d.workload, d.decision) FROM rpq.schedule(dry_run => true) d WHERE d.decision <> 'waiting'
$$;

-- Settings as in the beginning, or nearly; from here on they stay.
CREATE PROCEDURE rt.reset() LANGUAGE plpgsql AS $$
DECLARE
	x record;
	command text;
BEGIN
	UPDATE rt.mode SET config = false;
	FOR command IN
		SELECT format('SELECT rpq.edit_pool(pool => %L, frozen => false, min_runtime => ''0 s'', queueing => ''backfill'', clear => ''{workload_types}'')', p) FROM unnest('{c1-gpu,d1,e1,e2}'::text[]) p
		UNION ALL SELECT format('SELECT rpq.authorize(pool => %L, accounts => ''{u1,u2,u3,u4}'', max_priority => 100)', p) FROM unnest('{d1,e1,e2}'::text[]) p
		UNION ALL SELECT format('SELECT rpq.uncordon_node(node => %L)', n.name) FROM rpq_store.node n
		UNION ALL SELECT format('SELECT rpq.set_node_health(node => %L, health => ''healthy'')', n.name) FROM rpq_store.node n
		UNION ALL SELECT format('SELECT rpq.add_to_group(user_group => %L, accounts => %L)', 'g' || i, ARRAY['u' || i, 'u' || i + 1]) FROM generate_series(1, 4) i
		UNION ALL SELECT format('SELECT rpq.delete_policy(policy => %L)', y.name) FROM rpq_store.policy y WHERE deleted_at IS NULL
		UNION ALL SELECT format('SELECT rpq.edit_profile(profile => %L, pools => %L)', v[1], v[2]) FROM (VALUES (ARRAY['half', '{d1}']), (ARRAY['one', '{c1-gpu}']), (ARRAY['two', '{d1,c1-gpu}']), (ARRAY['four', '{c1-gpu,d1}'])) w (v)
		UNION ALL SELECT 'SELECT rpq.provision_profiles()'
		UNION ALL SELECT $c$SELECT rpq.create_policy('A', 'g1', reservation => 'gpu=8', usage_limit => 'gpu=24'), rpq.create_policy('B', 'g2', reservation => 'gpu=4', lending => 'hold'),
			rpq.create_policy('C', 'g3', usage_limit => 'gpu=12'), rpq.create_policy('D', 'g4', reservation => 'gpu=4')$c$
		UNION ALL SELECT format('SELECT rpq.connect_profile(%L, %L, %L)', y, f, y || '-' || f) FROM unnest('{A,B,C,D}'::text[]) y, unnest('{half,one,two,four}'::text[]) f
	LOOP
		-- what cannot be had (nodes have moved, too little is left) stays away
		SELECT * INTO x FROM rt.other_run(command, false);
		IF x.state NOT IN ('00000', 'RQ002', 'RQ004', '42710', '22023') THEN
			INSERT INTO rt.fault (session, call, state, message) VALUES (97, command, x.state, x.message);
		END IF;
		COMMIT;
	END LOOP;
END $$;

CREATE PROCEDURE rt.end_all() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.edit_pool(pool => name, frozen => true, min_runtime => '0 s') FROM rpq.pools;
	COMMIT;
	FOR i IN 1 .. 3 LOOP
		PERFORM rpq.stop(workload => workload_id) FROM rpq_store.workload WHERE status IN ('queued', 'starting', 'running');
		COMMIT;
		PERFORM rpq.schedule();
		COMMIT;
	END LOOP;
END $$;
CREATE FUNCTION rt.left_over() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT format('%s holds %s', name, used) FROM rpq.pools WHERE t.gpu(used) <> 0
	UNION ALL SELECT format('policy %s holds %s', name, used) FROM rpq.policies WHERE t.gpu(used) <> 0
	UNION ALL SELECT format('%s pods', count(*)) FROM rpq_store.pod HAVING count(*) > 0
	UNION ALL SELECT format('%s lanes', count(*)) FROM rpq_store.lane WHERE waiting <> 0 HAVING count(*) > 0
	UNION ALL SELECT format('the ledger adds up to %s', sum(rt.units(resources))) FROM rpq_store.entry WHERE resources IS NOT NULL HAVING sum(rt.units(resources)) <> 0
	UNION ALL SELECT format('workload %s is %s', workload_id, status) FROM rpq_store.workload WHERE status NOT IN ('draft', 'succeeded', 'failed', 'stopped')
	UNION ALL SELECT rt.restless()
$$;

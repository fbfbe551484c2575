-- test/lib/random_ops.sql: the sessions of test/t/random_ops.sh.  Loaded after cases.sql.
--
-- A transaction is made of submissions, then at most one call that locks a workload's row, then at most one that takes a
-- turn: what a careful client does, which no interleaving may deadlock.  Calls run in savepoints that may be rolled
-- back, and the transaction itself may be.
CREATE SCHEMA rt;
CREATE TABLE rt.fault (at timestamptz DEFAULT clock_timestamp(), session int, call text, state text, message text);
CREATE TABLE rt.tally (session int, call text, state text, n bigint);

CREATE PROCEDURE rt.found() LANGUAGE plpgsql AS $$
BEGIN
	CALL t.found();
	PERFORM rpq.create_instance_type(name => 'g4', kind => 'gpu', capacity => 'gpu=4,cpu=64', machine_unit => 'gpu=4');
	PERFORM rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 12);
	PERFORM rpq.add_nodes(instance_type => 'g4', prefix => 'm', count => 4);
	PERFORM rpq.create_pool(name => 'p1', type => 'dedicated', instance_type => 'g8', quota => 'gpu=32');
	PERFORM rpq.create_pool(name => 'p2', type => 'exclusive', instance_type => 'g8', quota => 'gpu=32', scheduling_policy => 'spread');
	PERFORM rpq.authorize(pool => p, accounts => '{u1,u2,u3,u4,u5}') FROM unnest('{p1,p2}'::text[]) p;
	PERFORM rpq.update_members(pool => 'p1', accounts => '{u1}', quota => 'gpu=8');
END $$;

CREATE FUNCTION rt.pick(choice text[]) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT choice[1 + floor(random() * array_length(choice, 1))] $$;

-- A workload's id: one that is placed, or a recent one.
CREATE FUNCTION rt.some_workload() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	top bigint := (SELECT max(workload_id) FROM rpq_store.workload);
BEGIN
	IF random() < 0.4 THEN
		RETURN (SELECT workload_id FROM rpq_store.workload WHERE status IN ('starting', 'running') ORDER BY random() LIMIT 1);
	END IF;
	RETURN greatest(1, top - floor(power(random(), 2) * least(top, 400))::bigint);
END $$;

CREATE FUNCTION rt.submission() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN format('SELECT rpq.submit(pool => %L, workload_type => %L, resources => %L, replicas => %s, priority => %s, account => %L, draft => %s, on_node_loss => %L, request_id => %s)',
		rt.pick('{p1,p2,c1-gpu}'), rt.pick('{training,inference,develop}'), 'gpu=' || rt.pick('{1,1,2,2,4,8,0.5,1/4,1/7}') || rt.pick('{"",",cpu=8"}'),
		rt.pick('{1,1,1,1,2,3,4}'), rt.pick('{10,50,50,50,90}'), rt.pick('{u1,u2,u3,u4,u5}'), (random() < 0.05)::text, rt.pick('{requeue,fail}'),
		CASE WHEN random() < 0.1 THEN quote_literal('r' || floor(random() * 20)) ELSE 'NULL' END);
END $$;

CREATE FUNCTION rt.row_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	w bigint := coalesce(rt.some_workload(), 1);
BEGIN
	RETURN CASE
		WHEN random() < 0.15 THEN format('SELECT rpq.stop(workload => %s)', w)
		WHEN random() < 0.5 THEN format('SELECT rpq.report_finished(workload => %s, attempt => (SELECT attempt FROM rpq_store.workload WHERE workload_id = %s), outcome => %L)',
										w, w, rt.pick('{succeeded,failed,stopped}'))
		WHEN random() < 0.2 THEN format('SELECT rpq.report_finished(workload => %s, attempt => %s)', w, 1 + floor(random() * 4))
		WHEN random() < 0.15 THEN format('SELECT rpq.requeue(workload => %s, delay => %L)', w, rt.pick('{0 s,0 s,1 s}'))
		WHEN random() < 0.2 THEN format('SELECT rpq.report_started(workload => %s)', w)
		WHEN random() < 0.1 THEN format('SELECT rpq.report_checkpoint(workload => %s, detail => ''x'')', w)
		WHEN random() < 0.3 THEN format('SELECT rpq.edit_workload(workload => %s, priority => %s)', w, rt.pick('{0,50,100}'))
		WHEN random() < 0.6 THEN format('SELECT rpq.enqueue(workload => %s, pool => %s)', w, rt.pick('{"NULL",''p1'',''p2''}'))
		WHEN random() < 0.5 THEN format('SELECT count(*) FROM rpq.explain(workload => %s)', w)
		ELSE format('SELECT rpq.delete_workload(workload => %s)', w) END;
END $$;

-- An executor's report: most of what it was told to start runs, some has ended, some is forgotten.
CREATE FUNCTION rt.node_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n text := rt.pick('{n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,n11,n12}');
BEGIN
	RETURN (
		SELECT format('SELECT count(*) FROM rpq.sync_node(node => %L, running => %L, finished => %L, capacity => %L)', n,
			coalesce(array_agg(r.pod_id) FILTER (WHERE r.dice < 0.8), '{}'),
			coalesce(jsonb_agg(jsonb_build_object('pod', r.pod_id, 'outcome', r.outcome, 'node_fault', r.dice > 0.98))
					 FILTER (WHERE r.dice BETWEEN 0.8 AND 0.99), '[]'),
			CASE WHEN random() < 0.1 THEN rt.pick('{gpu=8,gpu=8,gpu=6,"gpu=8,cpu=200"}') END)
		FROM (SELECT x.pod_id, random() AS dice, rt.pick('{succeeded,succeeded,failed,stopped}') AS outcome
			  FROM rpq_store.pod_report x JOIN rpq_store.node o ON o.node_id = x.node_id
			  WHERE o.name = n AND x.state IN ('started', 'running')) r);
END $$;

CREATE FUNCTION rt.turn_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	p text := rt.pick('{p1,p2,c1-gpu}');
	a text := rt.pick('{u1,u2,u3,u4,u5}');
	n text := rt.pick('{n1,n2,n3,n4,n5,n6,n7,n8,n9,n10,n11,n12,m1,m2,m3,m4}');
BEGIN
	RETURN CASE
		WHEN random() < 0.6 THEN format('SELECT count(*) FROM rpq.schedule(pool => %s)', rt.pick('{"NULL","NULL",''p1'',''p2'',''c1-gpu''}'))
		WHEN random() < 0.1 THEN format('SELECT count(*) FROM rpq.schedule(pool => %L, dry_run => true)', p)
		WHEN random() < 0.2 THEN format('SELECT rpq.edit_pool(pool => %L, frozen => %s)', p, (random() < 0.2)::text)
		WHEN random() < 0.2 THEN format('SELECT rpq.edit_pool(pool => %L, workload_types => %s, clear => %s)', p, 'NULL', '''{workload_types}''')
		WHEN random() < 0.2 THEN format('SELECT rpq.edit_pool(pool => %L, workload_types => ''{training,develop}'')', p)
		WHEN random() < 0.2 THEN format('SELECT rpq.authorize(pool => %L, accounts => %L)', p, ARRAY[a])
		WHEN random() < 0.3 THEN format('SELECT rpq.authorize(pool => %L, accounts => %L, quota => %L, max_priority => %s)', p, ARRAY[a],
										rt.pick('{"",gpu=4,gpu=8,gpu=16,gpu=0}'), rt.pick('{50,90,100}'))
		WHEN random() < 0.3 THEN format('SELECT rpq.update_members(pool => %L, accounts => %L, config_mode => ''default'')', p, ARRAY[a])
		WHEN random() < 0.4 THEN format('SELECT rpq.deauthorize(pool => %L, accounts => %L, stop => %s)', p, ARRAY[a], (random() < 0.3)::text)
		WHEN random() < 0.3 THEN format('SELECT rpq.cordon_node(node => %L)', n)
		WHEN random() < 0.6 THEN format('SELECT rpq.uncordon_node(node => %L)', n)
		ELSE format('SELECT rpq.set_node_health(node => %L, health => %L)', n, rt.pick('{healthy,healthy,degraded,unhealthy}')) END;
END $$;

-- Runs a call in a savepoint, which is rolled back if it fails or undo is true.  Its SQLSTATE; a state that the contract
-- does not know is a fault.
CREATE FUNCTION rt.run(command text, undo boolean, OUT state text, OUT message text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	IF undo THEN
		RAISE EXCEPTION USING ERRCODE = 'XT000', MESSAGE = 'undo';
	END IF;
	state := '00000';
EXCEPTION WHEN OTHERS THEN
	state := SQLSTATE;
	message := SQLERRM;
END $$;

CREATE PROCEDURE rt.drive(session int, seed float8, seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	stop_at timestamptz := clock_timestamp() + seconds * interval '1 s';
	retryable boolean := current_setting('transaction_isolation') <> 'read committed';
	calls text[];
	command text;
	answer record;
	faults text[];
	tally jsonb := '{}';
	key text;
	broken boolean;
BEGIN
	PERFORM setseed(seed);
	WHILE clock_timestamp() < stop_at LOOP
		calls := '{}';
		faults := '{}';
		broken := false;
		FOR i IN 1 .. floor(random() * 4)::int LOOP
			calls := calls || rt.submission();
		END LOOP;
		-- one of the two: both lock rows of clients, in no order
		IF random() < 0.3 THEN calls := calls || rt.node_call(); ELSIF random() < 0.7 THEN calls := calls || rt.row_call(); END IF;
		IF random() < 0.4 THEN calls := calls || rt.turn_call(); END IF;
		FOREACH command IN ARRAY calls LOOP
			answer := rt.run(command, random() < 0.1);
			key := substring(command FROM 'rpq\.(\w+)') || ' ' || answer.state;
			tally := tally || jsonb_build_object(key, coalesce((tally ->> key)::bigint, 0) + 1);
			IF answer.state = '40001' AND retryable THEN
				broken := true;
				EXIT;
			ELSIF answer.state !~ '^(00000|XT000|RQ00[1-8]|42704)$'
				AND NOT (answer.state = '22023' AND command ~ 'request_id => ''') THEN
				faults := faults || command || answer.state || answer.message;
			END IF;
		END LOOP;
		IF broken OR random() < 0.15 THEN
			ROLLBACK;
		ELSE
			COMMIT;
		END IF;
		FOR i IN 1 .. coalesce(array_length(faults, 1), 0) BY 3 LOOP
			INSERT INTO rt.fault (session, call, state, message) VALUES (session, faults[i], faults[i + 1], faults[i + 2]);
		END LOOP;
		COMMIT;
	END LOOP;
	INSERT INTO rt.tally SELECT session, split_part(k, ' ', 1), split_part(k, ' ', 2), v::bigint FROM jsonb_each_text(tally) e (k, v);
END $$;

-- Recomputes the whole over and over while the others work.
CREATE PROCEDURE rt.check(seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	stop_at timestamptz := clock_timestamp() + seconds * interval '1 s';
	n bigint := 0;
BEGIN
	WHILE clock_timestamp() < stop_at LOOP
		INSERT INTO rt.fault (session, call, message) SELECT 0, 'check_integrity', i::text FROM rpq.check_integrity() i LIMIT 20;
		INSERT INTO rt.fault (session, call, message) SELECT 0, 'oracle', o FROM rt.oracle() o LIMIT 20;
		n := n + 1;
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
	INSERT INTO rt.tally VALUES (0, 'check_integrity', '00000', n);
END $$;

-- A second opinion, made of nothing but workloads, pods and nodes; one statement, so one snapshot.  A row for each thing
-- that is wrong.
-- Devices in the unit of amounts, 1/21000, in which sevenths are whole.
CREATE FUNCTION rt.units(amounts rpq.resources) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT round(t.gpu(amounts) * 21000)::bigint $$;

CREATE FUNCTION rt.oracle() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	WITH live AS (
		SELECT w.workload_id, w.pool_id, w.account_id, w.replicas, w.attempt, w.policy_id, w.lender_id, rt.units(w.resources) AS gpu
		FROM rpq_store.workload w WHERE w.status IN ('starting', 'running')),
	pool AS (SELECT p.pool_id, p.name, rt.units(p.used) AS used, rt.units(p.total) AS total FROM rpq.pools p),
	held AS (SELECT pool_id, sum(gpu * replicas) AS gpu FROM live WHERE lender_id IS NULL GROUP BY 1),
	placed AS (
		SELECT p.pod_id, p.workload_id, p.node_id, p.devices, p.attempt, rt.units(w.resources) AS gpu, n.pool_id
		FROM rpq_store.pod p JOIN rpq_store.workload w USING (workload_id) JOIN rpq_store.node n USING (node_id))
	SELECT format('pool %s shows %s used, its workloads hold %s', name, used, coalesce(gpu, 0))
	FROM pool LEFT JOIN held USING (pool_id) WHERE used <> coalesce(gpu, 0)
	UNION ALL
	SELECT format('pool %s: %s used of %s', name, used, total) FROM pool WHERE used > total
	UNION ALL
	SELECT format('pool %s shows %s used, its ledger sums to %s', name, used, coalesce(l.gpu, 0))
	FROM pool LEFT JOIN (SELECT pool_id, rt.units(rpq.sum(resources)) AS gpu FROM rpq_store.entry WHERE resources IS NOT NULL
		AND lender_id IS NULL GROUP BY 1) l USING (pool_id)
	WHERE used <> coalesce(l.gpu, 0)
	UNION ALL
	SELECT format('member %s of %s shows %s used, holds %s', m.account, m.pool, rt.units(m.used), coalesce(h.gpu, 0))
	FROM rpq.members m LEFT JOIN (SELECT pool_id, account_id, sum(gpu * replicas) AS gpu FROM live WHERE policy_id IS NULL GROUP BY 1, 2) h
		USING (pool_id, account_id)
	WHERE m.instance_type IS NULL AND rt.units(m.used) <> coalesce(h.gpu, 0)
	UNION ALL
	SELECT format('gang %s: %s of %s pods', workload_id, (SELECT count(*) FROM placed p WHERE p.workload_id = live.workload_id
				  AND p.attempt = live.attempt), replicas)
	FROM live WHERE replicas <> (SELECT count(*) FROM placed p WHERE p.workload_id = live.workload_id AND p.attempt = live.attempt)
	  -- a victim whose client kept its row locked for too long has lost its pods; the row follows
	  AND NOT EXISTS (SELECT FROM rpq_store.podless l WHERE l.workload_id = live.workload_id AND l.attempt = live.attempt)
	UNION ALL
	SELECT format('workload %s is placed in another pool than its pods', live.workload_id)
	FROM live JOIN placed USING (workload_id) WHERE coalesce(live.lender_id, live.pool_id) <> placed.pool_id AND live.attempt = placed.attempt
	UNION ALL
	SELECT format('node %s: %s on %s', n.name, sum(p.gpu), rt.units(n.capacity))
	FROM placed p JOIN rpq_store.node n USING (node_id) GROUP BY n.name, n.capacity HAVING sum(p.gpu) > rt.units(n.capacity)
	UNION ALL
	SELECT format('device %s of node %s: %s', d, node_id, sum(least(gpu, 21000)))
	FROM placed, unnest(devices) d GROUP BY node_id, d HAVING sum(least(gpu, 21000)) > 21000
	UNION ALL
	SELECT format('pod %s has %s devices for %s', pod_id, cardinality(devices), gpu) FROM placed WHERE cardinality(devices) <> ceil(gpu / 21000.0)
$$;

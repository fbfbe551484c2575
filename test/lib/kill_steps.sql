-- test/lib/kill_steps.sql: the state that test/t/kill_steps.pl starts from, and how it looks at it.  Loaded after cases.sql
-- into a template, where nothing is stored.
--
-- d1 (dedicated) n1, n2, n3, each half empty; d2 (exclusive) n4 and n5, half empty; the shared pool n6 and n7, half empty,
-- and n8, idle.  Seven workloads run; in d1 one more waits.
CREATE PROCEDURE t.seed() LANGUAGE plpgsql AS $$
BEGIN
	CALL t.found();
	PERFORM rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 8);
	PERFORM rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2,n3}');
	PERFORM rpq.create_pool(name => 'd2', type => 'exclusive', nodes => '{n4,n5}', faulty_node_rotation => true);
	PERFORM rpq.authorize(pool => p, accounts => '{u1,u2}') FROM unnest('{d1,d2}'::text[]) p;
	-- each node is filled up, in turn; then what filled it up ends
	PERFORM t.submit(p, size::text, 'u1', 'w'), t.submit(p, (8 - size)::text, 'u2', 'filler')
	FROM (VALUES ('d1', 4), ('d1', 4), ('d1', 2), ('d2', 4), ('d2', 4), ('c1-gpu', 4), ('c1-gpu', 4)) v (p, size);
	PERFORM t.pass();
	PERFORM rpq.report_finished(workload => workload_id) FROM rpq.workloads WHERE name = 'filler';
	PERFORM t.submit('d1', '8', 'u1', 'waits', 3);
	PERFORM t.pass();
END $$;

-- What holds at every commit, whatever was killed: '' if it does.
CREATE FUNCTION t.wrong(live_wanted bigint, whole boolean DEFAULT true) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws('; ',
		(SELECT 'the pools hold ' || sum(t.gpu(total)) FROM rpq.pools HAVING sum(t.gpu(total)) <> 64),
		(SELECT 'nodes: ' || count(*) FROM rpq_store.node HAVING count(*) <> 8 OR count(DISTINCT name) <> 8),
		(SELECT 'live: ' || count(*) FROM rpq_store.workload WHERE status IN ('starting', 'running') HAVING count(*) <> live_wanted),
		(SELECT 'unlike what is placed: ' || count(*) FROM rpq.pools p
		 WHERE t.gpu(p.used) <> coalesce((SELECT sum(t.gpu(o.resources)) FROM rpq.pods o WHERE o.pool_id = p.pool_id), 0) HAVING count(*) > 0),
		CASE WHEN whole THEN (SELECT string_agg(i::text, ', ') FROM rpq.check_integrity() i) END)
$$;
CREATE FUNCTION t.open_operations() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM rpq_store.operation WHERE status IN ('pending', 'running')
$$;
-- After an operation has ended: '' if it left nothing behind and is told once.
CREATE FUNCTION t.left_over(wanted text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws('; ',
		(SELECT 'operation ' || status || ' ' || coalesce(error, '') FROM rpq_store.operation WHERE operation_id = (SELECT max(operation_id) FROM rpq_store.operation)
		 AND status <> wanted),
		(SELECT 'pools held: ' || count(*) FROM rpq_store.operation_pool HAVING count(*) > 0),
		(SELECT 'holds: ' || count(*) FROM rpq_store.hold WHERE operation_id IS NOT NULL HAVING count(*) > 0),
		(SELECT 'moves open: ' || count(*) FROM rpq_store.pod_migration WHERE status IN ('planned', 'reserved', 'evicting') HAVING count(*) > 0),
		(SELECT 'draining: ' || count(*) FROM rpq_store.node WHERE draining HAVING count(*) > 0),
		(SELECT 'pools not ready: ' || count(*) FROM rpq.pools WHERE status <> 'ready' HAVING count(*) > 0),
		(SELECT 'told twice: ' || string_agg(object_kind || ' ' || object, ', ') FROM (SELECT object_kind, object FROM rpq_store.history WHERE operation_id IS NOT NULL
		 GROUP BY operation_id, object_kind, object_id, object, action HAVING count(*) > 1) x),
		(SELECT 'told of ' || count(*) || ' of ' || wanted FROM rpq_store.history WHERE operation_id = (SELECT max(operation_id) FROM rpq_store.operation)
		 AND action <> 'cancel_operation' HAVING (count(*) > 0) <> (wanted = 'succeeded')))
$$;
-- The pools, what they hold and on which nodes, as one text.
CREATE FUNCTION t.pools() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s %s: %s', p.name, p.type, (SELECT string_agg(n.name || '=' || t.gpu(n.used), ' ' ORDER BY n.name) FROM rpq.nodes n WHERE n.pool_id = p.pool_id)),
					  ', ' ORDER BY p.name) FROM rpq.pools p
$$;

-- An executor on each node: it runs what it is told to start, and stops at once what it is told to stop.
CREATE TABLE t.agent (node text, pod bigint, PRIMARY KEY (node, pod));
CREATE FUNCTION t.sync(node_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT * FROM rpq.sync_node(node => node_name, running => ARRAY(SELECT pod FROM t.agent a WHERE a.node = node_name ORDER BY 1)) LOOP
		IF r.action = 'start' THEN
			INSERT INTO t.agent VALUES (node_name, r.pod) ON CONFLICT DO NOTHING;
		ELSE
			DELETE FROM t.agent a WHERE a.node = node_name AND a.pod = r.pod;
		END IF;
	END LOOP;
END $$;
-- It has everything that is placed, and has said so.
CREATE FUNCTION t.sync_all() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM t.sync(name) FROM rpq_store.node, generate_series(1, 2) ORDER BY name;
	PERFORM t.pass();
END $$;

-- The actor says who it is before it begins.
CREATE TABLE t.actor (pid int);
-- The table that the actor waits for; '' when it has ended.
CREATE FUNCTION t.waits_for() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	actor int;
	answer text;
	stop_at timestamptz := clock_timestamp() + interval '30 s';
BEGIN
	WHILE clock_timestamp() < stop_at LOOP
		actor := coalesce(actor, (SELECT pid FROM t.actor));
		answer := (SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = actor AND NOT l.granted);
		IF answer IS NOT NULL THEN
			RETURN answer;
		END IF;
		PERFORM pg_stat_clear_snapshot();
		IF actor IS NOT NULL AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = actor) THEN
			RETURN '';
		END IF;
		PERFORM pg_sleep(0.003);
	END LOOP;
	RETURN 'nothing, and does not end';
END $$;
-- The same, and then the actor is terminated: the table and what is wrong after it.
CREATE FUNCTION t.terminated(live_wanted bigint, open_wanted boolean, whole boolean, OUT waited_for text, OUT wrong text) LANGUAGE plpgsql AS $$
BEGIN
	waited_for := t.waits_for();
	IF waited_for = '' THEN
		RETURN;
	END IF;
	PERFORM pg_terminate_backend(pid, 5000) FROM t.actor;
	wrong := t.wrong(live_wanted, whole) || CASE WHEN open_wanted AND t.open_operations() <> 1 THEN '; the operation is not open' ELSE '' END;
END $$;

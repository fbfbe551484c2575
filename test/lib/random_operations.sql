-- test/lib/random_operations.sql: sessions of test/t/random_operations.sh: operations of pools and nodes, and a simulated
-- executor.  Loaded after random_ops.sql, which it extends.
CREATE TABLE rt.node_added (instance_type text, n int);
CREATE SEQUENCE rt.node_number START 100;

-- Nodes come and go in these two, which keep count.
CREATE FUNCTION rt.add_node(type text, pool_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.add_nodes(instance_type => type, names => ARRAY['x' || nextval('rt.node_number')], pool => pool_name);
	INSERT INTO rt.node_added VALUES (type, 1);
END $$;
CREATE FUNCTION rt.remove_node(node_name text, by_force boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	type text := (SELECT i.name FROM rpq_store.node n JOIN rpq_store.instance_type i USING (type_id) WHERE n.name = node_name);
BEGIN
	INSERT INTO rt.node_added VALUES (coalesce(type, 'none'), -rpq.remove_nodes(names => ARRAY[node_name], force => by_force));
END $$;

CREATE OR REPLACE PROCEDURE rt.found() LANGUAGE plpgsql AS $$
BEGIN
	CALL t.found();
	PERFORM rpq.create_instance_type(name => 'g4', kind => 'gpu', capacity => 'gpu=4,cpu=64', machine_unit => 'gpu=4');
	PERFORM rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 10), rpq.add_nodes(instance_type => 'g4', prefix => 'm', count => 4);
	INSERT INTO rt.node_added VALUES ('g8', 10), ('g4', 4);
	PERFORM rpq.create_pool(name => 'p1', type => 'dedicated', nodes => '{n1,n2,n3,m1}');
	PERFORM rpq.create_pool(name => 'p2', type => 'exclusive', nodes => '{n4,n5,n6}', scheduling_policy => 'spread', faulty_node_rotation => true);
	PERFORM rpq.authorize(pool => p, accounts => '{u1,u2,u3,u4,u5}') FROM unnest('{p1,p2}'::text[]) p;
END $$;

-- Now and then one that is not there.
CREATE FUNCTION rt.pool() RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN random() < 0.05 THEN rt.pick('{p1,p2,p3,q9}')
		ELSE (SELECT name FROM rpq_store.pool WHERE status <> 'deleted' ORDER BY random() LIMIT 1) END
$$;
CREATE FUNCTION rt.node() RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN random() < 0.02 THEN 'nobody' ELSE (SELECT name FROM rpq_store.node ORDER BY random() LIMIT 1) END
$$;
-- A node that stands in this pool, or another one; idle ones more often.
CREATE FUNCTION rt.node_of(pool_name text) RETURNS text LANGUAGE sql AS $$
	SELECT name FROM (
		SELECT n.name, random() + (p.name = pool_name)::int * 0.9 + (l.pods = 0)::int * 0.3 AS rank
		FROM rpq_store.node n JOIN rpq_store.pool p USING (pool_id) LEFT JOIN rpq_store.node_load l USING (node_id)) x
	ORDER BY rank DESC LIMIT 1
$$;
CREATE FUNCTION rt.maybe(likely float8, text) RETURNS text LANGUAGE sql AS $$ SELECT CASE WHEN random() < likely THEN $2 ELSE '' END $$;

CREATE FUNCTION rt.operation_call() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	p text := rt.pool();
	q text := rt.pool();
	dice float8 := random();
	evacuate text := (random() < 0.5)::text;
	pools bigint := (SELECT count(*) FROM rpq_store.pool WHERE status <> 'deleted');
BEGIN
	RETURN CASE
		WHEN dice < 0.16 THEN format('SELECT rpq.resize_pool(pool => %L, quota => %L, instance_type => %L, evacuate => %s%s)', p, 'gpu=' || rt.pick('{0,8,8,16,16,24,24,32,12,7}'),
									 rt.pick('{g8,g8,g8,g4}'), evacuate, rt.maybe(0.2, format(', source => %L', q)) || rt.maybe(0.2, format(', target => %L', q)))
		WHEN dice < 0.24 THEN format('SELECT rpq.resize_pool(pool => %L, add_nodes => %L, evacuate => %s%s)', p, ARRAY[rt.node_of(q)] || CASE WHEN random() < 0.3 THEN rt.node_of(q) END,
									 evacuate, rt.maybe(0.7, format(', source => %L', q)))
		WHEN dice < 0.32 THEN format('SELECT rpq.resize_pool(pool => %L, remove_nodes => %L, evacuate => %s%s)', p, ARRAY[rt.node_of(p)], evacuate, rt.maybe(0.3, format(', target => %L', q)))
		WHEN dice < 0.42 THEN format('SELECT rpq.move_nodes(nodes => %L, to_pool => %L, evacuate => %s)', ARRAY[rt.node_of(p)], q, evacuate)
		WHEN dice < 0.48 THEN format('SELECT rpq.move_nodes(count => %s, from_pool => %L, to_pool => %L, instance_type => %L, evacuate => %s)', rt.pick('{1,1,2}'), p, q, rt.pick('{g8,g8,g4}'), evacuate)
		WHEN dice < 0.55 THEN format('SELECT rpq.drain_node(node => %L)', rt.node())
		WHEN dice < 0.61 THEN format('SELECT rpq.convert_pool(pool => %L, type => %L)', p, rt.pick('{dedicated,exclusive}'))
		WHEN dice < 0.66 THEN format('SELECT rpq.rename_pool(pool => %L, name => %L)', p, rt.pick('{p1,p2,p3,p4,q1,q2}'))
		WHEN dice < 0.71 AND pools > 3 OR pools > 5 THEN format('SELECT rpq.delete_pool(pool => %L, force => %s)', p, (random() < 0.8)::text)
		WHEN dice < 0.77 THEN format('SELECT rpq.create_pool(name => %L, type => %L, instance_type => %L, quota => %L%s)', rt.pick('{p1,p2,p3,p4,q1,q2}'), rt.pick('{dedicated,exclusive}'),
									 rt.pick('{g8,g8,g4}'), rt.pick('{gpu=0,gpu=8,gpu=16}'), rt.maybe(0.3, format(', source => %L', q)))
		WHEN dice < 0.83 THEN format('SELECT rpq.cancel_operation(id => %s)', coalesce((SELECT operation_id FROM rpq_store.operation WHERE status IN ('pending', 'running') ORDER BY random() LIMIT 1), 1))
		WHEN dice < 0.86 THEN format('SELECT rpq.retry_operation(id => %s)', coalesce((SELECT operation_id FROM rpq_store.operation WHERE status = 'failed' ORDER BY operation_id DESC LIMIT 1), 1))
		WHEN dice < 0.89 THEN 'SELECT rpq.run_operations()'
		WHEN dice < 0.91 THEN format('SELECT rt.remove_node(%L, %s) /* rpq.remove_nodes */', rt.node(), (random() < 0.5)::text)
		WHEN dice < 0.95 THEN format('SELECT rt.add_node(%L, %s) /* rpq.add_nodes */', rt.pick('{g8,g4}'), CASE WHEN random() < 0.3 THEN quote_literal(p) ELSE 'NULL' END)
		WHEN dice < 0.97 THEN format('SELECT rpq.edit_pool(pool => %L, faulty_node_rotation => true)', p)
		ELSE format('SELECT rpq.authorize(pool => %L, accounts => ''{u1,u2,u3,u4,u5}'')', p) END;
END $$;

ALTER FUNCTION rt.turn_call() RENAME TO other_turn_call;
CREATE FUNCTION rt.turn_call() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN random() < 0.7 THEN rt.operation_call() ELSE rt.other_turn_call() END;
END $$;
ALTER FUNCTION rt.row_call() RENAME TO other_row_call;
CREATE FUNCTION rt.row_call() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN random() < 0.1 THEN format('SELECT rpq.requeue(workload => %s, delay => %L)', coalesce(rt.some_workload(), 1), rt.pick('{0,0,1 s}')) ELSE rt.other_row_call() END;
END $$;
-- The executor reports alone here: what it has is what it knows.
CREATE OR REPLACE FUNCTION rt.node_call() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'SELECT count(*) FROM rpq.schedule(dry_run => true)'; END $$;
-- Into the pools that there are.
ALTER FUNCTION rt.submission() RENAME TO other_submission;
CREATE FUNCTION rt.submission() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN regexp_replace(rt.other_submission(), 'pool => ''[^'']*''', format('pool => %L', rt.pool()));
END $$;

-- Renaming to what exists, calls that contradict what meanwhile is: refused as bad arguments.
ALTER FUNCTION rt.run(text, boolean) RENAME TO other_run;
CREATE FUNCTION rt.run(command text, undo boolean, OUT state text, OUT message text) LANGUAGE plpgsql AS $$
BEGIN
	SELECT r.state, r.message INTO state, message FROM rt.other_run(command, undo) r;
	IF state IN ('22023', '42710') AND command ~ '(resize_pool|move_nodes|convert_pool|rename_pool|delete_pool|create_pool|drain_node|retry_operation|edit_pool|add_node|enqueue)\(' THEN
		state := 'RQ004';
	-- a workload's row is in somebody's hand: later
	ELSIF state = '55P03' AND command ~ 'delete_pool' OR state = '40001' AND message ~ 'changed hands during the call' THEN
		state := 'RQ004';
	END IF;
END $$;

-- ---- an executor ----------------------------------------------------------------------------------------------------
-- What it has: pods that it runs, or is about to stop (after so many more reports).  part: how much of each device.
CREATE TABLE rt.agent (node text, pod bigint, devices int[], part bigint, stopping int, PRIMARY KEY (node, pod));

CREATE FUNCTION rt.report(node_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	done jsonb := '[]';
	r record;
	over record;
	shrink rpq.resources := CASE WHEN random() < 0.02 THEN 'gpu=2,cpu=16' WHEN random() < 0.3 THEN 'gpu=8,cpu=192,memory=2Ti' END;
BEGIN
	-- some end, some are lost, some that were to stop have stopped
	FOR r IN SELECT * FROM rt.agent a WHERE a.node = node_name ORDER BY pod LOOP
		IF r.stopping = 0 OR r.stopping IS NULL AND random() < 0.08 THEN
			DELETE FROM rt.agent a WHERE a.node = node_name AND a.pod = r.pod;
			IF random() < 0.8 THEN
				done := done || jsonb_build_object('pod', r.pod, 'outcome', CASE WHEN r.stopping = 0 THEN 'stopped' ELSE rt.pick('{succeeded,succeeded,failed}') END,
												   'detail', 'x', 'node_fault', random() < 0.02);
			END IF;
		END IF;
	END LOOP;
	UPDATE rt.agent a SET stopping = stopping - 1 WHERE a.node = node_name AND stopping > 0;
	FOR r IN SELECT * FROM rpq.sync_node(node => node_name, running => ARRAY(SELECT a.pod FROM rt.agent a WHERE a.node = node_name ORDER BY 1), finished => done,
										 capacity => shrink) LOOP
		IF r.action = 'stop' THEN
			UPDATE rt.agent a SET stopping = floor(random() * 3) WHERE a.node = node_name AND a.pod = r.pod AND stopping IS NULL;
		ELSIF r.action = 'start' THEN
			INSERT INTO rt.agent VALUES (node_name, r.pod, r.devices, least(rt.units(r.resources), 21000), NULL) ON CONFLICT DO NOTHING;
		ELSE
			RAISE EXCEPTION 'action %', r.action;
		END IF;
	END LOOP;
	-- no device is given out while another pod still has it
	SELECT d, sum(a.part) AS part INTO over FROM rt.agent a, unnest(a.devices) d WHERE a.node = node_name GROUP BY d HAVING sum(a.part) > 21000 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'device % of node % is given out twice: %', over.d, node_name,
			(SELECT string_agg(format('pod %s has %s, %s, report %s, pod of attempt %s', a.pod, a.part, coalesce('stopping ' || a.stopping, 'running'), p.state, q.attempt), '; ')
			 FROM rt.agent a LEFT JOIN rpq_store.pod_report p ON p.pod_id = a.pod LEFT JOIN rpq_store.pod q ON q.pod_id = a.pod
			 WHERE a.node = node_name AND over.d = ANY (a.devices));
	END IF;
END $$;

CREATE PROCEDURE rt.execute(seconds float8) LANGUAGE plpgsql AS $$
DECLARE
	stop_at timestamptz := clock_timestamp() + seconds * interval '1 s';
	name text;
	answer record;
	n bigint := 0;
BEGIN
	WHILE clock_timestamp() < stop_at LOOP
		name := rt.pick('{n1,n2,n4,n5,n7,m1}');
		SELECT * INTO answer FROM rt.other_run(format('SELECT rt.report(%L)', name), false);
		IF answer.state = '42704' THEN
			DELETE FROM rt.agent WHERE node = name;
		ELSIF answer.state <> '00000' THEN
			INSERT INTO rt.fault (session, call, state, message) VALUES (99, 'sync_node ' || name, answer.state, answer.message);
		END IF;
		n := n + 1;
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
	INSERT INTO rt.tally VALUES (99, 'sync_node', '00000', n);
END $$;

-- ---- a second opinion -----------------------------------------------------------------------------------------------
-- Used may exceed the total where capacity was taken away by force.
ALTER FUNCTION rt.oracle() RENAME TO other_oracle;
CREATE FUNCTION rt.oracle() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT o FROM rt.other_oracle() o
	WHERE NOT (o ~ ' used of ' AND EXISTS (SELECT FROM rpq_store.node WHERE removing OR usable OPERATOR(rpq.<>) capacity))
	UNION ALL
	SELECT format('%s nodes of type %s, %s were added', count(n.node_id), i.name, (SELECT sum(a.n) FROM rt.node_added a WHERE a.instance_type = i.name))
	FROM rpq_store.instance_type i LEFT JOIN rpq_store.node n ON n.type_id = i.type_id AND NOT n.removing
	GROUP BY i.name HAVING count(n.node_id) <> (SELECT sum(a.n) FROM rt.node_added a WHERE a.instance_type = i.name)
	UNION ALL
	SELECT format('node %s stands in a pool that is deleted', n.name) FROM rpq_store.node n JOIN rpq_store.pool p USING (pool_id) WHERE p.status = 'deleted'
	UNION ALL
	SELECT format('pool %s is %s without an open operation', p.name, p.status) FROM rpq_store.pool p
	WHERE p.status IN ('creating', 'updating', 'deleting') AND NOT EXISTS (SELECT FROM rpq_store.operation o WHERE o.pool_id = p.pool_id AND o.status IN ('pending', 'running'))
	UNION ALL
	SELECT format('operation %s has ended and holds pool %s', o.operation_id, h.pool_id) FROM rpq_store.operation_pool h JOIN rpq_store.operation o USING (operation_id)
	WHERE o.status NOT IN ('pending', 'running')
	UNION ALL
	SELECT format('operation %s has ended and keeps a hold on node %s', o.operation_id, h.node_id) FROM rpq_store.hold h JOIN rpq_store.operation o USING (operation_id)
	WHERE o.status NOT IN ('pending', 'running')
	UNION ALL
	SELECT format('operation %s has ended, its move of pod %s is %s', o.operation_id, m.pod_id, m.status) FROM rpq_store.pod_migration m JOIN rpq_store.operation o USING (operation_id)
	WHERE o.status NOT IN ('pending', 'running') AND m.status IN ('planned', 'reserved', 'evicting')
	UNION ALL
	SELECT format('node %s drains and no operation is open', n.name) FROM rpq_store.node n
	WHERE n.draining AND NOT EXISTS (SELECT FROM rpq_store.operation o WHERE o.status IN ('pending', 'running'))
	UNION ALL
	SELECT format('operation %s %s is told %s times of %s %s', o.operation_id, o.status, count(*), h.object_kind, h.object)
	FROM rpq_store.history h JOIN rpq_store.operation o USING (operation_id) WHERE h.action = o.action AND h.operation_id IS NOT NULL
	GROUP BY o.operation_id, o.status, h.object_kind, h.object_id, h.object HAVING count(*) > 1 OR o.status <> 'succeeded'
	UNION ALL
	SELECT format('ended workload %s has a pod in its attempt', w.workload_id) FROM rpq_store.workload w JOIN rpq_store.pod p USING (workload_id, attempt)
	WHERE w.status = 'queued' AND NOT EXISTS (SELECT FROM rpq_store.uncounted u WHERE u.workload_id = w.workload_id)
	UNION ALL
	SELECT format('node %s: pods and holds of %s on %s', n.name, sum(x.gpu), rt.units(n.capacity))
	FROM rpq_store.node n JOIN (SELECT p.node_id, rt.units(w.resources) AS gpu FROM rpq_store.pod p JOIN rpq_store.workload w USING (workload_id)
		UNION ALL SELECT h.node_id, rt.units(h.resources) FROM rpq_store.hold h WHERE h.purpose = 'move') x USING (node_id)
	GROUP BY n.name, n.capacity HAVING sum(x.gpu) > rt.units(n.capacity)
$$;

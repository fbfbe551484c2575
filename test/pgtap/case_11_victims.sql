-- Field case F11: of two equals the later one gives its room, and gets it back before those that came after it; twenty times,
-- with rows in another physical order each time.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_instance_type('g2', 'gpu', 'gpu=2', machine_unit => 'gpu=2') AS x \gset
SELECT rpq.add_nodes('g2', names => '{n1}') AS x \gset

CREATE FUNCTION t.one(workload_name text, prio int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=1', account => 'u1', name => workload_name,
		priority => prio);
END $$;
CREATE FUNCTION t.named(wanted text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(w.name, ',' ORDER BY w.name) FROM rpq.workloads w
		WHERE CASE w.status WHEN 'starting' THEN 'running' ELSE w.status END = wanted);
END $$;
-- Of e1 to e4 how often each was admitted and preempted: '1/0 2/1 0/0 1/0'.
CREATE FUNCTION t.told() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg((SELECT count(*) FROM rpq.workload_events v WHERE v.workload_id = w.workload_id AND v.event = 'admitted')
			|| '/' || w.preemptions, ' ' ORDER BY w.name)
		FROM rpq.workload_history w WHERE w.labels IS NULL);
END $$;

-- One repeat: rows of workload are rewritten in an order of their own before each pass.
CREATE FUNCTION t.repeat(number int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	ids bigint[];
	after_first text;
	after_second text;
	told text;
BEGIN
	ids := ARRAY[t.one('e1', 40), t.one('e2', 40), t.one('e3', 40)];
	UPDATE rpq_store.workload w SET detail = NULL WHERE w.workload_id = ids[1 + number % 3];
	PERFORM t.pass();
	UPDATE rpq_store.workload w SET detail = NULL WHERE w.workload_id = ids[1 + (number + 1) % 3];
	ids := ids || t.one('e4', 60);
	PERFORM t.pass();
	after_first := t.named('running') || ' ' || t.named('queued');
	PERFORM rpq.stop(ids[4]);
	UPDATE rpq_store.workload w SET detail = NULL WHERE w.workload_id = ids[1 + (number + 2) % 3];
	PERFORM t.pass();
	after_second := t.named('running') || ' ' || t.named('queued');
	told := t.told();
	PERFORM rpq.stop(w.workload_id) FROM rpq.workloads w;
	UPDATE rpq_store.workload w SET labels = '{"repeat": true}' WHERE w.workload_id = ANY (ids);
	PERFORM t.pass();
	RETURN after_first || '; ' || after_second || '; ' || told;
END $$;
SELECT is(t.repeat(n), 'e1,e4 e2,e3; e1,e2 e3; 1/0 2/1 0/0 1/0', 'repeat ' || n) FROM generate_series(1, 20) n;
SELECT is((SELECT count(*) FROM rpq.preemptions), 20::bigint, 'one victim a repeat');
SELECT is((SELECT string_agg(DISTINCT rule, ',') FROM rpq.preemptions), 'priority', 'by priority');
SELECT * FROM t.whole();
SELECT * FROM finish();

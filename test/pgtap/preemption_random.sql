-- Random work, priorities, gangs, executors that are slow, silent or absent, nodes that are cordoned, drained and lost,
-- preemptors that are withdrawn or edited, a clock that goes on: after each step check_integrity() is empty, and at the
-- end every attempt has one end, and no two workloads have preempted each other.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.clock = '2026-03-01 12:00Z';
SET rpq.workload_history_retention = '1000000 h';
SET rpq.node_timeout = '90 s';
\getenv seed RPQ_SEED
\if :{?seed}
\else
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint % 1000000 AS seed \gset
\endif
\getenv long RPQ_LONG
\getenv steps RPQ_STEPS
\if :{?long}
\else
\set long 0
\endif
\if :{?steps}
\else
SELECT CASE :'long' WHEN '1' THEN 3000 ELSE 120 END AS steps \gset
\endif
SELECT diag('RPQ_SEED=' || :'seed');
SELECT setseed(:seed / 1000000.0) AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}') AS x \gset
-- What machines run: n1 and n2 have an executor, n3 and n4 never had one.
CREATE TABLE t.machine (pod bigint PRIMARY KEY, node text NOT NULL, told boolean NOT NULL DEFAULT false);
CREATE FUNCTION t.report(node_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	said record;
	ends jsonb;
BEGIN
	WITH gone AS (
		DELETE FROM t.machine m WHERE m.node = node_name AND random() < CASE WHEN m.told THEN 0.5 ELSE 0.1 END
		RETURNING m.pod, CASE WHEN random() < 0.2 THEN NULL WHEN m.told THEN 'stopped' WHEN random() < 0.3 THEN 'failed'
			ELSE 'succeeded' END AS outcome)
	SELECT coalesce(jsonb_agg(jsonb_build_object('pod', g.pod, 'outcome', g.outcome, 'detail', 'said ' || g.pod)), '[]')
	INTO ends FROM gone g WHERE g.outcome IS NOT NULL;
	FOR said IN SELECT s.action, s.pod AS id FROM rpq.sync_node(node_name, ARRAY(
		SELECT m.pod FROM t.machine m WHERE m.node = node_name), ends) s LOOP
		IF said.action = 'start' THEN
			INSERT INTO t.machine (pod, node) VALUES (said.id, node_name);
		ELSE
			UPDATE t.machine SET told = true WHERE machine.pod = said.id;
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION t.some(status_is text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT w.workload_id FROM rpq.workloads w WHERE w.status = ANY (string_to_array(status_is, ' ')) ORDER BY random() LIMIT 1);
END $$;
CREATE FUNCTION t.act() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	pick int := floor(random() * 100)::int;
	id bigint;
	said text := 'pass';
BEGIN
	IF pick < 30 THEN
		said := 'submit';
		PERFORM rpq.submit('c1-gpu', workload_type => 'training', resources => ('gpu=' || (ARRAY['1/2', '1', '2', '3', '4', '8', '8'])[1 + floor(random() * 7)::int])::rpq.resources,
			replicas => CASE WHEN random() < 0.2 THEN 2 ELSE 1 END, account => 'u' || 1 + floor(random() * 3)::int,
			priority => 10 * floor(random() * 10)::int, checkpointable => random() < 0.3,
			max_runtime => CASE WHEN random() < 0.1 THEN interval '5 min' END);
	ELSIF pick < 55 THEN
		said := 'report';
		PERFORM t.report('n' || 1 + floor(random() * 2)::int);
	ELSIF pick < 62 THEN
		id := t.some('starting running');
		said := 'finish ' || coalesce(id::text, 'none');
		PERFORM rpq.report_finished(id, outcome => 'succeeded') WHERE id IS NOT NULL;
	ELSIF pick < 68 THEN
		id := t.some('queued starting running');
		said := 'stop ' || coalesce(id::text, 'none');
		PERFORM rpq.stop(id) WHERE id IS NOT NULL;
	ELSIF pick < 74 THEN
		id := (SELECT h.workload_id FROM rpq_store.hold h WHERE h.purpose = 'preempt' ORDER BY random() LIMIT 1);
		said := 'preemptor ' || coalesce(id::text, 'none');
		IF random() < 0.5 THEN
			PERFORM rpq.stop(id) WHERE id IS NOT NULL;
		ELSE
			UPDATE rpq.workloads SET priority = 10 * floor(random() * 10)::int WHERE workload_id = id;
		END IF;
	ELSIF pick < 84 THEN
		said := 'time';
		PERFORM set_config('rpq.clock', (current_setting('rpq.clock')::timestamptz
			+ (ARRAY[1, 10, 31, 95])[1 + floor(random() * 4)::int] * interval '1 s')::text, false);
	ELSIF pick < 87 THEN
		said := 'cordon';
		PERFORM rpq.cordon_node('n' || 1 + floor(random() * 4)::int);
	ELSIF pick < 91 THEN
		said := 'uncordon';
		PERFORM rpq.uncordon_node(n.name) FROM rpq.nodes n WHERE NOT n.schedulable;
	ELSIF pick < 93 THEN
		said := 'drain';
		said := said || ' ' || t.outcome(format('SELECT rpq.drain_node(%L)', 'n' || 1 + floor(random() * 4)::int));
	ELSIF pick < 95 THEN
		said := 'heal';
		PERFORM rpq.set_node_health(n.name, 'healthy') FROM rpq.nodes n WHERE n.health <> 'healthy';
	ELSIF pick < 96 THEN
		said := 'ill';
		PERFORM rpq.set_node_health('n' || 1 + floor(random() * 4)::int, 'unhealthy');
	ELSIF pick < 97 THEN
		said := 'grace';
		PERFORM set_config('rpq.preemption_grace', CASE current_setting('rpq.preemption_grace') WHEN '0' THEN '30 s' ELSE '0' END, false);
	END IF;
	IF random() < 0.7 THEN
		PERFORM rpq.run_operations();
		PERFORM t.pass();
		said := said || ', pass';
	END IF;
	RETURN said;
END $$;
CREATE PROCEDURE t.run(steps int, INOUT wrong text) LANGUAGE plpgsql AS $$
DECLARE
	said text;
	trail text[] := '{}';
BEGIN
	FOR i IN 1 .. steps LOOP
		said := t.act();
		COMMIT;
		trail := (trail || (i || ': ' || said))[greatest(1, cardinality(trail) - 5):];
		SELECT string_agg(c::text, '; ') INTO wrong FROM rpq.check_integrity() c
		WHERE c.expected <> 'an owner, or a lease that runs';	-- leases go by true time
		IF wrong IS NOT NULL THEN
			wrong := format('step %s: %s after %s', i, left(wrong, 500), array_to_string(trail, ', '));
			RETURN;
		END IF;
	END LOOP;
	wrong := '';
END $$;
CALL t.run(:steps, NULL) \gset
SELECT is(:'wrong'::text, '', 'every step keeps every invariant');
SELECT is_empty($$SELECT workload_id, attempt, count(*) FROM rpq.workload_events
	WHERE event IN ('preempted', 'requeued', 'lost', 'moved', 'succeeded', 'failed', 'stopped') AND attempt > 0
	GROUP BY workload_id, attempt HAVING count(*) > 1$$, 'one end for each attempt');
SELECT is_empty($$SELECT a.preemptor, a.victim FROM rpq.preemptions a JOIN rpq.preemptions b
	ON a.preemptor = b.victim AND a.victim = b.preemptor WHERE a.state = 'stopped' AND b.state = 'stopped'
	AND NOT EXISTS (SELECT FROM rpq_store.entry e WHERE e.workload_id IN (a.preemptor, a.victim) AND e.kind = 'edit')$$,
	'no pair preempts each other, unless a priority was edited');
SELECT diag(format('%s preemptions (%s), %s workloads', count(*), string_agg(DISTINCT state, ', '),
	(SELECT count(*) FROM rpq_store.workload))) FROM rpq.preemptions;
SELECT diag(string_agg(format('%s %s', p.state, p.n), ', ' ORDER BY p.state)) FROM (SELECT state, count(*) AS n FROM rpq.preemptions GROUP BY state) p;
SELECT * FROM finish();

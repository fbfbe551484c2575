-- F09: preempt, admit again, preempt again, for ever.  The room that was freed belongs to the workload that it was freed
-- for, whatever was submitted before it.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SET rpq.clock = '2026-03-01 12:00Z';
SET rpq.workload_history_retention = '1000000 h';
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
CREATE FUNCTION t.work(workload_name text, prio int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=4', account => 'u1', name => workload_name,
					  priority => prio);
END $$;
-- One pass, a second later.
CREATE FUNCTION t.second() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.clock', (current_setting('rpq.clock')::timestamptz + interval '1 s')::text, false);
	PERFORM t.pass();
	RETURN (SELECT string_agg(format('%s %s', w.name, t.status(w.workload_id)), ', ' ORDER BY w.workload_id) FROM rpq.workloads w);
END $$;
-- The executor reports what it runs; what it is told to start it starts, what it is told to stop it has stopped by the
-- second report after.
CREATE TABLE t.machine (pod bigint PRIMARY KEY, told int NOT NULL DEFAULT 0);
CREATE FUNCTION t.report() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	said record;
	ends jsonb := (SELECT coalesce(jsonb_agg(jsonb_build_object('pod', m.pod, 'outcome', 'stopped', 'detail', 'saved')), '[]')
				   FROM t.machine m WHERE m.told >= 2);
BEGIN
	DELETE FROM t.machine m WHERE m.told >= 2;
	FOR said IN SELECT s.action, s.pod AS id FROM rpq.sync_node('n1', ARRAY(SELECT m.pod FROM t.machine m), ends) s LOOP
		IF said.action = 'start' THEN
			INSERT INTO t.machine (pod) VALUES (said.id);
		ELSE
			UPDATE t.machine SET told = told + 1 WHERE machine.pod = said.id;
		END IF;
	END LOOP;
END $$;
SELECT t.work('w_low', 10) AS low, t.work('w_mid', 50) AS mid \gset
SELECT is(t.second(), 'w_low running, w_mid running', 'the room is taken');
SELECT t.report(), t.report();
SELECT t.second() AS x \gset
SELECT t.work('w_high', 100) AS high \gset
SELECT is(t.second(), 'w_low running, w_mid running, w_high queued', 'an executor has the victim: it is told to stop');
SELECT is(t.reason_code(:high), 'preempting', 'the preemptor waits for that');
SELECT t.whole();
SELECT t.report();
SELECT is(t.second(), 'w_low running, w_mid running, w_high queued', 'first report');
SELECT is(t.reason(:high), 'room is held on n1; 1 of 1 victims has still to stop', 'the room is its own meanwhile');
SELECT t.whole();
SELECT t.report();
SELECT is(t.second(), 'w_low running, w_mid running, w_high queued', 'second report');
SELECT t.report();
SELECT is(t.second(), 'w_low queued, w_mid running, w_high running', 'it has stopped: the preemptor has its room in the same pass');
SELECT t.whole();
CREATE PROCEDURE t.go_on(rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. rounds LOOP
		PERFORM t.report();
		PERFORM t.second();
	END LOOP;
END $$;
CALL t.go_on(15);
SELECT is(t.second(), 'w_low queued, w_mid running, w_high running', 'and keeps it');
SELECT is((SELECT count(*) FROM rpq.preemptions), 1::bigint, 'one preemption');
SELECT is((SELECT string_agg(format('%s %s', x.name, x.starts), ', ' ORDER BY x.name) FROM (SELECT e.name, count(*) AS starts
			FROM rpq.workload_events e WHERE e.event = 'admitted' GROUP BY e.name) x), 'w_high 1, w_low 1, w_mid 1', 'each started once');
SELECT is((SELECT format('%s %s %s %s %s %s %s', preemptor = :high, victim = :low, victim_attempt, pool, rule, rank, gpu_seconds_lost)
		   FROM rpq.preemptions), 't t 1 c1-gpu priority 1 8', 'the row says who, whom, why and what it cost');
SELECT is((SELECT string_agg(format('%s %s %s', event, actor, detail), ', ' ORDER BY workload_event_id) FROM rpq.workload_events
		   WHERE workload_id = :low AND event = 'preempted'), 'preempted system saved', 'one event, with what the executor said');
SELECT is((SELECT preemptions FROM rpq.workloads WHERE workload_id = :low), 1, 'counted');
SELECT rpq.stop(:high) AS x \gset
CALL t.go_on(4);
SELECT is(t.second(), 'w_low running, w_mid running', 'when the preemptor has gone, the victim comes back');
SELECT t.whole();
SELECT * FROM finish();

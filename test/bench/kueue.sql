-- kueue.sql: Kueue's scheduler benchmark as policies and queues.
--   psql -v cohorts=C -v queues=Q -v small=N,MS_EVERY,MS_RUN -v medium=... -v large=... -f kueue.sql
--
-- A cohort is a pool of one node with 20 units for each of its queues: Kueue counts quotas and places nothing, so nothing
-- may be lost to fragmentation here.  A queue of Kueue's is a policy with reservation 20 and limit 120, with one queue for
-- each class of workloads.  Priorities 50, 100 and 200 become 25, 50 and 100.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE EXTENSION rpq;
CREATE SCHEMA bench;
CREATE TABLE bench.class (class text PRIMARY KEY, many int, every_ms int, runs_ms int, priority int, units int);
INSERT INTO bench.class
SELECT c.class, split_part(c.parts, ',', 1)::int, split_part(c.parts, ',', 2)::int, split_part(c.parts, ',', 3)::int,
	c.priority, c.units
FROM (VALUES ('small', :'small', 25, 1), ('medium', :'medium', 50, 5), ('large', :'large', 100, 20))
	AS c (class, parts, priority, units);

BEGIN;
SELECT rpq.create_tenant('bench'), rpq.create_workload_type('batch', tenant => 'bench'),
	rpq.create_instance_type('cohort', 'cpu', format('cpu=%s', 20 * :queues)::rpq.resources,
		format('cpu=%s', 20 * :queues)::rpq.resources) \g /dev/null
SELECT rpq.create_cluster('c' || c, 'here'),
	rpq.add_nodes('cohort', ARRAY['n' || c], cluster => 'c' || c, tenant => 'bench')
FROM generate_series(1, :cohorts) c \g /dev/null
SELECT rpq.create_account(format('a%s-%s', c, q), tenant => 'bench'), rpq.create_user_group(format('g%s-%s', c, q), tenant => 'bench')
FROM generate_series(1, :cohorts) c, generate_series(1, :queues) q \g /dev/null
SELECT rpq.add_to_group(format('bench/g%s-%s', c, q), ARRAY[format('a%s-%s', c, q)])
FROM generate_series(1, :cohorts) c, generate_series(1, :queues) q \g /dev/null
SELECT rpq.create_profile(format('%s-c%s', k.class, c), format('cpu=%s', k.units)::rpq.resources, ARRAY[format('c%s-cpu', c)],
	tenant => 'bench')
FROM generate_series(1, :cohorts) c, bench.class k \g /dev/null
SELECT rpq.provision_profiles('bench') \g /dev/null
SELECT rpq.create_policy(format('p%s-%s', c, q), format('g%s-%s', c, q), reservation => 'cpu=20', usage_limit => 'cpu=120',
	tenant => 'bench')
FROM generate_series(1, :cohorts) c, generate_series(1, :queues) q \g /dev/null
COMMIT;
SELECT format('SELECT rpq.connect_profile(%L, %L, %L)', format('bench/p%s-%s', c, q), format('bench/%s-c%s', k.class, c),
	format('%s-%s-%s', k.class, c, q))
FROM generate_series(1, :cohorts) c, generate_series(1, :queues) q, bench.class k \gexec

-- What is to be submitted, when; runs from the start of the run in ms.
CREATE TABLE bench.planned AS
SELECT row_number() OVER (ORDER BY n * k.every_ms, c, q, k.class) AS planned_id, c AS cohort, k.class, n * k.every_ms AS due_ms,
	format('bench/%s-%s-%s', k.class, c, q) AS queue, format('bench/a%s-%s', c, q) AS account
FROM bench.class k, generate_series(1, :cohorts) c, generate_series(1, :queues) q, generate_series(0, k.many - 1) n;
CREATE INDEX ON bench.planned (cohort, due_ms);
CREATE TABLE bench.run (began timestamptz);
ANALYZE;

-- One of the clients that submit, each when its time has come: part of parts.
CREATE PROCEDURE bench.submit_due(part int, parts int) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := (SELECT r.began FROM bench.run r);
	done_ms double precision := -1;
	now_ms double precision;
	last_ms double precision := (SELECT max(due_ms) FROM bench.planned WHERE cohort % parts = part);
BEGIN
	WHILE done_ms < last_ms LOOP
		now_ms := 1000 * extract(epoch FROM clock_timestamp() - began);
		PERFORM count(rpq.submit(queue => p.queue, workload_type => 'batch', name => p.class, priority => k.priority,
			account => p.account))
		FROM bench.planned p JOIN bench.class k USING (class)
		WHERE p.cohort % parts = part AND p.due_ms > done_ms AND p.due_ms <= now_ms;
		COMMIT;
		done_ms := now_ms;
		PERFORM pg_sleep(0.002);
	END LOOP;
END
$$;

-- In place of what runs pods: ends each workload when it has run for as long as its class says, until all have.
CREATE PROCEDURE bench.finish_due() LANGUAGE plpgsql AS $$
DECLARE
	expected bigint := (SELECT count(*) FROM bench.planned);
	ended bigint := 0;
	now_ended bigint;
BEGIN
	WHILE ended < expected LOOP
		SELECT count(*) FILTER (WHERE rpq.report_finished(w.workload_id, w.attempt)) INTO now_ended
		FROM (SELECT DISTINCT p.workload_id FROM rpq_store.pod p) p
		JOIN rpq_store.workload w ON w.workload_id = p.workload_id AND w.status = 'starting'
		JOIN bench.class k ON k.class = w.name
		WHERE w.started_at + make_interval(secs => k.runs_ms / 1000.0) <= clock_timestamp();
		COMMIT;
		ended := ended + now_ended;
		PERFORM pg_sleep(0.001);
	END LOOP;
END
$$;

-- What the run came to, from the events of its workloads.
CREATE VIEW bench.waits AS
SELECT w.name AS class, extract(epoch FROM min(e.at) - w.submitted_at) AS wait
FROM rpq_store.workload w JOIN rpq_store.entry e ON e.workload_id = w.workload_id AND e.kind = 'admit'
GROUP BY w.workload_id;
CREATE VIEW bench.span AS
SELECT min(w.submitted_at) AS since, max(w.submitted_at) AS submitted, max(w.ended_at) AS until FROM rpq_store.workload w;

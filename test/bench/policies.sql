-- policies.sql: policies for the pools of setup.sql.  psql -v pools=P -v policies=N -f policies.sql
--
-- Each pool has N policies with one queue each; a policy's reservation is an eighth of its share of the pool, its limit ten
-- times its share.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SELECT rpq.create_user_group('bench') \g /dev/null
SELECT rpq.add_to_group('bench', '{bench}') \g /dev/null
SELECT rpq.create_profile('small-' || p, 'cpu=1,memory=1Gi,gpu=0.1', ARRAY['p' || p]),
	rpq.create_profile('whole-' || p, 'gpu=8', ARRAY['p' || p]) FROM generate_series(1, :pools) p \g /dev/null
SELECT rpq.provision_profiles() \g /dev/null
SELECT rpq.create_policy(format('y%s-%s', p, n), 'bench', reservation => 'gpu=1,cpu=24,memory=256Gi',
	usage_limit => 'gpu=800,cpu=19200,memory=200Ti')
FROM generate_series(1, :pools) p, generate_series(1, :policies) n \g /dev/null
SELECT format('SELECT rpq.connect_profile(%L, %L, %L)', format('y%s-%s', p, n), 'small-' || p, format('q%s-%s', p, n))
FROM generate_series(1, :pools) p, generate_series(1, :policies) n \gexec
-- What borrows: one policy of each pool without a reservation.
SELECT rpq.create_policy('lent-' || p, 'bench', usage_limit => 'gpu=800') FROM generate_series(1, :pools) p \g /dev/null
SELECT format('SELECT rpq.connect_profile(%L, %L, %L)', 'lent-' || p, 'whole-' || p, 'lent-' || p)
FROM generate_series(1, :pools) p \gexec

CREATE TABLE bench.queues AS SELECT q.name, row_number() OVER () - 1 AS n FROM rpq_store.queue q WHERE q.name LIKE 'q%';
GRANT SELECT ON bench.queues TO bench;
CREATE INDEX ON bench.queues (n);
ANALYZE;

-- Through all queues but the first few.
CREATE PROCEDURE bench.submit_queues(n int, first int DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	queues int := (SELECT count(*) FROM bench.queues) - first;
BEGIN
	PERFORM count(rpq.submit(queue => q.name, workload_type => 'batch', priority => 40 + 10 * (i / queues % 3)))
	FROM generate_series(0, n - 1) i JOIN bench.queues q ON q.n = first + i % queues;
	COMMIT;
END
$$;

CREATE PROCEDURE bench.lend_all() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM count(rpq.submit(queue => 'lent-' || p, workload_type => 'batch', account => 'bench', name => 'lent', priority => 90))
	FROM generate_series(1, 10) p, generate_series(1, 100) i;
	COMMIT;
END
$$;

CREATE PROCEDURE bench.claim_all() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM count(rpq.submit(queue => q.name, workload_type => 'batch', account => 'bench', name => 'claim')) FROM bench.queues q;
	COMMIT;
END
$$;

CREATE PROCEDURE bench.explain_some(n int, INOUT p99 numeric) LANGUAGE plpgsql AS $$
DECLARE
	ids bigint[] := ARRAY(SELECT w.workload_id FROM rpq_store.workload w WHERE w.status = 'queued' ORDER BY random() LIMIT n);
	id bigint;
	ms numeric[] := '{}';
BEGIN
	FOREACH id IN ARRAY ids LOOP
		COMMIT;
		ms := ms || bench.ms(format('SELECT count(*) FROM rpq.explain(%s)', id));
	END LOOP;
	p99 := (SELECT percentile_disc(0.99) WITHIN GROUP (ORDER BY m) FROM unnest(ms) m);
END
$$;

-- Ten pieces of small work at a time are submitted, and ended as soon as the worker has placed them; how many a second.
CREATE PROCEDURE bench.stream(seconds int, INOUT rate numeric) LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
	ended bigint := 0;
	ids bigint[];
BEGIN
	WHILE clock_timestamp() < since + make_interval(secs => seconds) LOOP
		ids := ARRAY(SELECT rpq.submit(queue => q.name, workload_type => 'batch', account => 'bench', priority => 90)
			FROM bench.queues q WHERE q.n < 10);
		COMMIT;
		LOOP
			EXIT WHEN NOT EXISTS (SELECT FROM rpq_store.workload w WHERE w.workload_id = ANY (ids) AND w.status = 'queued');
			COMMIT;
			PERFORM pg_sleep(0.0005);
		END LOOP;
		PERFORM rpq.report_finished(i) FROM unnest(ids) i;
		COMMIT;
		ended := ended + 10;
	END LOOP;
	rate := round(ended / extract(epoch FROM clock_timestamp() - since), 1);
END
$$;

-- setup.sql: a database to be measured.  psql -v nodes=N -v pools=N -f setup.sql
--
-- Tenant bench with the account of role bench; pools p1 .. pN, exclusive, which share the nodes evenly, each of 8 GPUs and
-- 192 cores; and the tables of schema bench, which ours is measured beside.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SELECT 'CREATE ROLE bench LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'bench') \gexec
CREATE EXTENSION rpq;
BEGIN;
SELECT rpq.create_tenant('bench'), rpq.create_cluster('c1', 'here'), rpq.create_workload_type('batch', tenant => 'bench'),
	rpq.create_instance_type('g8', 'gpu', 'gpu=8,cpu=192,memory=2Ti'),
	rpq.create_account('bench', db_role => 'bench', tenant => 'bench') \g /dev/null
SELECT cardinality(rpq.add_nodes('g8', count => :nodes, prefix => 'n', tenant => 'bench')) \g /dev/null
COMMIT;
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('p' || p, 'exclusive', instance_type => 'g8', quota => format('gpu=%s', 8 * (:nodes / :pools))::rpq.resources,
	queueing => 'best_effort', tenant => 'bench') FROM generate_series(1, :pools) p \g /dev/null
SELECT rpq.authorize('p' || p, ARRAY['bench']) FROM generate_series(1, :pools) p \g /dev/null

CREATE SCHEMA bench AUTHORIZATION bench;
GRANT USAGE ON SCHEMA bench TO PUBLIC;
-- The yardstick: as wide as a small table of jobs, with a key and nothing else.
CREATE TABLE bench.plain (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	pool bigint NOT NULL, account bigint NOT NULL, name text NOT NULL, status text NOT NULL, priority int NOT NULL,
	replicas int NOT NULL, resources text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), labels jsonb);
ALTER TABLE bench.plain OWNER TO bench;

-- The time of one statement in ms, in its transaction, without the client.
CREATE FUNCTION bench.ms(statement text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
BEGIN
	EXECUTE statement;
	RETURN round(1000 * extract(epoch FROM clock_timestamp() - since), 3);
END
$$;

-- INSERT ... unnest of n rows, and the commit.  The arrays are made before the time is taken.
CREATE PROCEDURE bench.insert_unnest(n int, INOUT ms numeric) LANGUAGE plpgsql AS $$
DECLARE
	pools bigint[]; names text[]; amounts text[]; priorities int[];
	since timestamptz;
BEGIN
	SELECT array_agg(i % 50), array_agg('job ' || i), array_agg('cpu=' || i % 9), array_agg(i % 100)
	  INTO pools, names, amounts, priorities FROM generate_series(1, n) i;
	COMMIT;
	since := clock_timestamp();
	INSERT INTO bench.plain (pool, account, name, status, priority, replicas, resources, labels)
	SELECT u.p, u.p, u.j, 'queued', u.o, 1, u.a, NULL FROM unnest(pools, names, amounts, priorities) AS u (p, j, a, o);
	COMMIT;
	ms := 1000 * extract(epoch FROM clock_timestamp() - since);
END
$$;

-- n submissions in one statement, and the commit; lanes: so many shapes.
CREATE PROCEDURE bench.submit_bulk(n int, lanes int, INOUT ms numeric) LANGUAGE plpgsql AS $$
DECLARE
	amounts rpq.resources[];
	since timestamptz;
BEGIN
	SELECT array_agg(format('cpu=%s,memory=%sGi%s', 1 + k % 3, 1 + k % 5, CASE k % 2 WHEN 1 THEN ',gpu=0.1' ELSE '' END)::rpq.resources
			ORDER BY k) INTO amounts FROM generate_series(0, lanes - 1) k;
	COMMIT;
	since := clock_timestamp();
	PERFORM count(rpq.submit('p1', workload_type => 'batch', resources => amounts[1 + i % lanes])) FROM generate_series(1, n) i;
	COMMIT;
	ms := 1000 * extract(epoch FROM clock_timestamp() - since);
END
$$;

-- What the worker does, until there is nothing left to do: its cycles and how long they took, commits included.  Callers
-- set jit off, as the worker does.
CREATE PROCEDURE bench.drain(INOUT ms numeric, INOUT cycles int) LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
	done record;
BEGIN
	cycles := 0;
	LOOP
		SELECT * INTO done FROM rpq_store.worker_cycle();
		COMMIT;
		cycles := cycles + 1;
		EXIT WHEN NOT done.more;
	END LOOP;
	ms := 1000 * extract(epoch FROM clock_timestamp() - since);
END
$$;

-- An operation in its transactions: the call, and then each step as the worker takes it.  How long the longest of them took
-- in ms, and all.
CREATE PROCEDURE bench.operation(call text, INOUT longest numeric, INOUT total numeric) LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
	asked bigint;
	took numeric;
BEGIN
	EXECUTE call INTO asked;
	COMMIT;
	longest := 1000 * extract(epoch FROM clock_timestamp() - since);
	total := longest;
	WHILE (SELECT status IN ('pending', 'running') FROM rpq_store.operation WHERE operation_id = asked) LOOP
		since := clock_timestamp();
		PERFORM rpq_store.run_pending_operations();
		COMMIT;
		took := 1000 * extract(epoch FROM clock_timestamp() - since);
		longest := greatest(longest, took);
		total := total + took;
	END LOOP;
	IF (SELECT status <> 'succeeded' FROM rpq_store.operation WHERE operation_id = asked) THEN
		RAISE EXCEPTION 'operation % did not succeed', asked;
	END IF;
END
$$;

-- Ends everything, so that the next measurement finds all nodes free.
CREATE PROCEDURE bench.clear() LANGUAGE plpgsql AS $$
DECLARE
	ms numeric;
	cycles int;
BEGIN
	-- As its own account, whose stops need no row of the operation history.
	PERFORM set_config('rpq.account', 'bench', true);
	PERFORM count(rpq.stop(w.workload_id)) FROM rpq_store.workload w WHERE w.status IN ('queued', 'starting', 'running');
	COMMIT;
	CALL bench.drain(ms, cycles);
	ANALYZE rpq_store.workload, rpq_store.entry, rpq_store.pod, rpq_store.node_load;
END
$$;

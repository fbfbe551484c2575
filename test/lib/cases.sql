-- test/lib/cases.sql: what the field cases share.  A file in test/pgtap begins with \ir ../lib/cases.sql, before its
-- plan.  The helpers are PL/pgSQL so that they look up rpq's objects when they are called.
\set QUIET on
SET client_min_messages = warning;
SET rpq.synchronous_operations = on;
CREATE SCHEMA t;
GRANT USAGE ON SCHEMA t TO PUBLIC;

-- Devices of a vector; zero without the key.
CREATE FUNCTION t.gpu(amounts rpq.resources) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN trim_scale(coalesce(amounts OPERATOR(rpq.->) 'gpu', 0));
END $$;

-- One pass of the scheduler over all pools that the caller administers.
CREATE FUNCTION t.pass() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT count(*) FROM rpq.schedule());
END $$;

CREATE FUNCTION t.submit(pool_name text, gpus text, account_name text, workload_name text DEFAULT NULL,
						 replica_count int DEFAULT 1) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN rpq.submit(pool => pool_name, workload_type => 'training', resources => ('gpu=' || gpus)::rpq.resources,
					  account => account_name, name => workload_name, replicas => replica_count);
END $$;

CREATE FUNCTION t.used(pool_name text) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT t.gpu(p.used) FROM rpq.pools p WHERE p.name = pool_name);
END $$;

CREATE FUNCTION t.available(pool_name text) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT t.gpu(p.available) FROM rpq.pools p WHERE p.name = pool_name);
END $$;

-- What an account uses of a pool, zero when the members view has no row for it.
CREATE FUNCTION t.member_used(pool_name text, account_name text) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN coalesce((SELECT t.gpu(m.used) FROM rpq.members m
					 WHERE m.pool = pool_name AND m.account = account_name AND m.instance_type IS NULL), 0);
END $$;

CREATE FUNCTION t.node_used(node_name text) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT t.gpu(n.used) FROM rpq.nodes n WHERE n.name = node_name);
END $$;

-- queued, running (starting counts as running), or what else the status is.
CREATE FUNCTION t.status(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT CASE w.status WHEN 'starting' THEN 'running' ELSE w.status END
			FROM rpq.workload_history w WHERE w.workload_id = id);
END $$;

CREATE FUNCTION t.nodes(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT array_to_string(w.nodes, ',') FROM rpq.workloads w WHERE w.workload_id = id);
END $$;

CREATE FUNCTION t.reason_code(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT w.reason_code FROM rpq.workloads w WHERE w.workload_id = id);
END $$;

CREATE FUNCTION t.reason(id bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT w.reason FROM rpq.workloads w WHERE w.workload_id = id);
END $$;

-- How many workloads of the pool run and wait: 'running/queued'.
CREATE FUNCTION t.census(pool_name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT count(*) FILTER (WHERE w.status IN ('starting', 'running')) || '/'
				   || count(*) FILTER (WHERE w.status = 'queued')
			FROM rpq.workloads w WHERE w.pool = pool_name);
END $$;

-- Runs a command: 'ok', or the SQLSTATE with which it failed.
CREATE FUNCTION t.outcome(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- Runs a command and undoes it: SQLSTATE ('00000' for success) and message, digits apart from those of SQLSTATEs as #.
CREATE FUNCTION t.answer(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		EXECUTE command;
		RAISE EXCEPTION USING ERRCODE = 'XT000', MESSAGE = 'undo';
	EXCEPTION WHEN OTHERS THEN
		RETURN CASE WHEN SQLSTATE = 'XT000' THEN '00000' ELSE SQLSTATE || ' ' || regexp_replace(SQLERRM, '[0-9]+', '#', 'g') END;
	END;
END $$;

-- Rows and content of every table but the fence, as one text.
CREATE FUNCTION t.stored() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text;
	figure text;
	answer text := '';
BEGIN
	FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'rpq_store'::regnamespace AND c.relkind = 'r'
				AND c.relname <> 'fence' ORDER BY 1 LOOP
		EXECUTE format('SELECT count(*) || '':'' || coalesce(sum(hashtextextended(x::text, 0)::numeric), 0)
						FROM rpq_store.%I x', name) INTO figure;
		answer := answer || name || '=' || figure || ' ';
	END LOOP;
	RETURN answer;
END $$;

-- Runs a command whose outcome is one of the states (ok or SQLSTATEs, blanks between); checks that nothing is stored if it
-- fails and the whole if it succeeds, and undoes it.
CREATE FUNCTION t.judge(command text, states text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before text;
	state text;
	said text;
	found text;
BEGIN
	BEGIN
		before := t.stored();
		BEGIN
			EXECUTE command;
			state := 'ok';
		EXCEPTION WHEN OTHERS THEN
			state := SQLSTATE;
			said := SQLERRM;
		END;
		IF state <> 'ok' AND t.stored() <> before THEN
			found := 'something is stored after ' || state;
		ELSIF state = 'ok' AND state = ANY (string_to_array(states, ' ')) THEN
			PERFORM set_config('rpq.account', '', true);
			SELECT string_agg(i::text, '; ') INTO found FROM rpq.check_integrity() i;
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'XT000', MESSAGE = 'undo';
	EXCEPTION WHEN SQLSTATE 'XT000' THEN
		NULL;
	END;
	IF state <> ALL (string_to_array(states, ' ')) THEN
		RETURN format('%s %s (allowed: %s)', state, left(said, 200), states);
	END IF;
	RETURN coalesce(found, 'right');
END $$;

CREATE FUNCTION t.whole() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty');
END $$;

-- A tenant, a cluster, a type of 8-GPU machines, and accounts u1 to u5.
CREATE PROCEDURE t.found() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.create_tenant(name => 'acme');
	PERFORM rpq.create_cluster(name => 'c1', region => 'north');
	PERFORM rpq.create_instance_type(name => 'g8', kind => 'gpu', capacity => 'gpu=8,cpu=192,memory=2Ti');
	PERFORM rpq.create_account(name => 'u' || i) FROM generate_series(1, 5) i;
END $$;

-- handmade.sql: the ledger that users write by hand in PL/pgSQL, to be measured beside ours.
--
-- A careful engineer's version: the pool's row is locked first, so that quota and nodes cannot be promised twice; the
-- best-fitting node is found through an index on what is free; counters of pool and account are kept; all of it in one
-- transaction.  The tables are filled and analyzed before anybody's plans are cached.
CREATE SCHEMA handmade;
GRANT USAGE ON SCHEMA handmade TO PUBLIC;
SET search_path = handmade;
CREATE TABLE pool (
	pool_id bigint PRIMARY KEY, name text UNIQUE, total_gpu int NOT NULL, total_cpu int NOT NULL, used_gpu int NOT NULL DEFAULT 0,
	used_cpu int NOT NULL DEFAULT 0, user_gpu_quota int NOT NULL, user_cpu_quota int NOT NULL) WITH (fillfactor = 50);
CREATE TABLE account_usage (
	pool_id bigint, account_id bigint, used_gpu int NOT NULL DEFAULT 0, used_cpu int NOT NULL DEFAULT 0,
	PRIMARY KEY (pool_id, account_id)) WITH (fillfactor = 50);
CREATE TABLE node (
	node_id bigint PRIMARY KEY, pool_id bigint NOT NULL, name text NOT NULL, gpu int NOT NULL, cpu int NOT NULL,
	free_gpu int NOT NULL, free_cpu int NOT NULL) WITH (fillfactor = 70);
CREATE INDEX node_free ON node (pool_id, free_gpu, free_cpu);
CREATE TABLE workload (
	workload_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, pool_id bigint NOT NULL, account_id bigint NOT NULL,
	name text, status text NOT NULL, priority int NOT NULL, gpu int NOT NULL, cpu int NOT NULL,
	submitted_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, node_id bigint) WITH (fillfactor = 80);
CREATE INDEX workload_queue ON workload (pool_id, priority DESC, submitted_at, workload_id) WHERE status = 'queued';
CREATE TABLE pod (
	pod_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workload_id bigint NOT NULL UNIQUE, node_id bigint NOT NULL);
CREATE INDEX pod_node ON pod (node_id);

INSERT INTO pool VALUES (1, 'p1', 8 * :nodes, 192 * :nodes, 0, 0, 1000000, 100000000);
INSERT INTO account_usage SELECT 1, a FROM generate_series(1, 100) a;
INSERT INTO node SELECT n, 1, 'n' || n, 8, 192, 8, 192 FROM generate_series(1, :nodes) n;
ANALYZE;

CREATE FUNCTION submit(pool_name text, account bigint, want_gpu int, want_cpu int, want_priority int DEFAULT 50) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = handmade, pg_temp AS $$
DECLARE
	p pool;
	u account_usage;
	chosen bigint;
	made bigint;
BEGIN
	SELECT * INTO p FROM pool WHERE name = pool_name FOR UPDATE;
	IF NOT FOUND OR want_gpu > p.total_gpu OR want_cpu > p.total_cpu THEN
		RAISE EXCEPTION 'no such pool, or more than it has';
	END IF;
	SELECT * INTO u FROM account_usage WHERE pool_id = p.pool_id AND account_id = account FOR UPDATE;
	IF p.used_gpu + want_gpu <= p.total_gpu AND p.used_cpu + want_cpu <= p.total_cpu
		AND u.used_gpu + want_gpu <= p.user_gpu_quota AND u.used_cpu + want_cpu <= p.user_cpu_quota THEN
		SELECT n.node_id INTO chosen FROM node n
		 WHERE n.pool_id = p.pool_id AND n.free_gpu >= want_gpu AND n.free_cpu >= want_cpu
		 ORDER BY n.pool_id, n.free_gpu, n.free_cpu LIMIT 1;
	END IF;
	INSERT INTO workload (pool_id, account_id, name, status, priority, gpu, cpu, started_at, node_id)
	VALUES (p.pool_id, account, 'job', CASE WHEN chosen IS NULL THEN 'queued' ELSE 'running' END, want_priority, want_gpu, want_cpu,
		CASE WHEN chosen IS NOT NULL THEN now() END, chosen) RETURNING workload_id INTO made;
	IF chosen IS NOT NULL THEN
		UPDATE node SET free_gpu = free_gpu - want_gpu, free_cpu = free_cpu - want_cpu WHERE node_id = chosen;
		UPDATE pool SET used_gpu = used_gpu + want_gpu, used_cpu = used_cpu + want_cpu WHERE pool_id = p.pool_id;
		UPDATE account_usage SET used_gpu = used_gpu + want_gpu, used_cpu = used_cpu + want_cpu
		 WHERE pool_id = p.pool_id AND account_id = account;
		INSERT INTO pod (workload_id, node_id) VALUES (made, chosen);
	END IF;
	RETURN made;
END
$$;

-- Admits up to `batch` of what waits: one lock of the pool, a look-up of a node for each, and everything but the nodes
-- themselves (whose index must show the next one what is left) written by one statement each.
CREATE FUNCTION admit(pool bigint, batch int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = handmade, pg_temp AS $$
DECLARE
	p pool;
	w record;
	chosen bigint;
	gpu_of int[] := array_fill(0, ARRAY[100]);
	cpu_of int[] := array_fill(0, ARRAY[100]);
	gpu_used int[] := array_fill(0, ARRAY[100]);
	cpu_used int[] := array_fill(0, ARRAY[100]);
	ids bigint[] := '{}';
	nodes bigint[] := '{}';
	u record;
BEGIN
	SELECT * INTO p FROM handmade.pool q WHERE q.pool_id = pool FOR UPDATE;
	FOR u IN SELECT * FROM account_usage a WHERE a.pool_id = pool ORDER BY account_id FOR UPDATE LOOP
		gpu_used[u.account_id] := u.used_gpu;
		cpu_used[u.account_id] := u.used_cpu;
	END LOOP;
	FOR w IN SELECT q.workload_id, q.account_id, q.gpu, q.cpu FROM workload q WHERE q.pool_id = pool AND q.status = 'queued'
		ORDER BY q.priority DESC, q.submitted_at, q.workload_id LIMIT batch FOR UPDATE SKIP LOCKED LOOP
		CONTINUE WHEN p.used_gpu + w.gpu > p.total_gpu OR p.used_cpu + w.cpu > p.total_cpu
			OR gpu_used[w.account_id] + w.gpu > p.user_gpu_quota OR cpu_used[w.account_id] + w.cpu > p.user_cpu_quota;
		UPDATE node SET free_gpu = free_gpu - w.gpu, free_cpu = free_cpu - w.cpu
		 WHERE node_id = (SELECT n.node_id FROM node n
			WHERE n.pool_id = pool AND n.free_gpu >= w.gpu AND n.free_cpu >= w.cpu
			ORDER BY n.pool_id, n.free_gpu, n.free_cpu LIMIT 1) RETURNING node_id INTO chosen;
		CONTINUE WHEN chosen IS NULL;
		p.used_gpu := p.used_gpu + w.gpu;
		p.used_cpu := p.used_cpu + w.cpu;
		gpu_used[w.account_id] := gpu_used[w.account_id] + w.gpu;
		cpu_used[w.account_id] := cpu_used[w.account_id] + w.cpu;
		gpu_of[w.account_id] := gpu_of[w.account_id] + w.gpu;
		cpu_of[w.account_id] := cpu_of[w.account_id] + w.cpu;
		ids := ids || w.workload_id;
		nodes := nodes || chosen;
	END LOOP;
	UPDATE workload q SET status = 'running', started_at = now(), node_id = c.node_id
	  FROM unnest(ids, nodes) AS c (id, node_id) WHERE q.workload_id = c.id;
	INSERT INTO pod (workload_id, node_id) SELECT * FROM unnest(ids, nodes);
	UPDATE account_usage a SET used_gpu = a.used_gpu + gpu_of[a.account_id], used_cpu = a.used_cpu + cpu_of[a.account_id]
	 WHERE a.pool_id = pool AND (gpu_of[a.account_id] <> 0 OR cpu_of[a.account_id] <> 0);
	UPDATE handmade.pool q SET used_gpu = p.used_gpu, used_cpu = p.used_cpu WHERE q.pool_id = pool;
	RETURN cardinality(ids);
END
$$;

-- All batches until nothing more is admitted, each committed, and the time in ms.
CREATE PROCEDURE drain(batch int, INOUT ms numeric) LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz := clock_timestamp();
	n int;
BEGIN
	LOOP
		n := handmade.admit(1, batch);
		COMMIT;
		EXIT WHEN n < batch;
	END LOOP;
	ms := 1000 * extract(epoch FROM clock_timestamp() - since);
END
$$;

CREATE PROCEDURE clear() LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE handmade.pod, handmade.workload;
	UPDATE handmade.node SET free_gpu = gpu, free_cpu = cpu;
	UPDATE handmade.pool SET used_gpu = 0, used_cpu = 0;
	UPDATE handmade.account_usage SET used_gpu = 0, used_cpu = 0;
END
$$;

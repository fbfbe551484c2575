-- placement_seed.sql: replays the list in one order.  psql -v seed=N -f placement_seed.sql
-- Prints arrivals|refused|placed|unallocated share in % when the requests that have arrived reach 100 % of the GPUs|
-- ms of the statement that submits|ms of the cycle.
\set ON_ERROR_STOP on
-- What is left of the order before.
SET rpq.cycle_batch = 2147483647;
SELECT count(rpq.stop(workload_id)) FROM rpq_store.workload WHERE status IN ('queued', 'starting', 'running') \g /dev/null
SELECT rpq_store.run_cycles() \g /dev/null
ANALYZE rpq_store.workload, rpq_store.entry, rpq_store.pod;

-- The list shuffled, then draws with replacement until it asks for 130 % of the GPUs.
TRUNCATE bench.arrival;
SELECT setseed(:seed / 1000.0) \g /dev/null
INSERT INTO bench.arrival SELECT p.*, row_number() OVER () FROM (SELECT * FROM bench.pod ORDER BY random()) p;
CREATE TEMP TABLE numbered AS SELECT p.*, row_number() OVER (ORDER BY name) AS n FROM bench.pod p;
ALTER TABLE numbered ADD PRIMARY KEY (n);
WITH draw AS MATERIALIZED (
	SELECT i, 1 + floor(random() * (SELECT count(*) FROM numbered))::bigint AS n FROM generate_series(1, 20000) i),
drawn AS (
	SELECT d.i, p.*, sum(num_gpu * gpu_milli) OVER (ORDER BY d.i) - num_gpu * gpu_milli AS before
	  FROM draw d JOIN numbered p USING (n))
INSERT INTO bench.arrival
SELECT name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, (SELECT count(*) FROM bench.pod) + i FROM drawn
 WHERE before + (SELECT sum(num_gpu * gpu_milli) FROM bench.pod) < 1.3 * 1000 * (SELECT sum(gpu) FROM bench.node);
ANALYZE bench.arrival;

-- An amount of zero is no request.  What no node could ever hold is refused by submit; it has arrived all the same.
CREATE TEMP TABLE wanted AS
SELECT a.place, (SELECT string_agg(format('%s=%s', key, amount), ',') FROM (VALUES ('cpu', trim_scale(a.cpu_milli / 1000.0)::text),
		('memory', a.memory_mib || 'Mi'), ('gpu', trim_scale(a.num_gpu * a.gpu_milli / 1000.0)::text)) AS k (key, amount)
		WHERE amount NOT IN ('0', '0Mi'))::rpq.resources AS resources,
	CASE WHEN a.gpu_spec <> '' THEN ARRAY(SELECT DISTINCT n.type FROM bench.node n
		WHERE n.model = ANY (string_to_array(a.gpu_spec, '|')) ORDER BY 1) END AS types
  FROM bench.arrival a
 WHERE EXISTS (SELECT FROM (SELECT DISTINCT cpu_milli, memory_mib, gpu, model FROM bench.node) n
	WHERE n.cpu_milli >= a.cpu_milli AND n.memory_mib >= a.memory_mib AND n.gpu >= a.num_gpu
	  AND (coalesce(a.gpu_spec, '') = '' OR n.model = ANY (string_to_array(a.gpu_spec, '|'))));
ANALYZE wanted;
SELECT name AS pool FROM rpq.pools ORDER BY type = 'exclusive' DESC LIMIT 1 \gset

-- In one statement, in the order of arrival; then one cycle without bound.
CREATE TEMP TABLE submitted (place bigint, workload_id bigint);
SET rpq.account = 'client';
SELECT clock_timestamp() AS since \gset
INSERT INTO submitted
SELECT place, rpq.submit(:'pool', workload_type => 'pod', resources => resources, instance_types => types)
  FROM (SELECT * FROM wanted ORDER BY place OFFSET 0) w;
SELECT round(1000 * extract(epoch FROM clock_timestamp() - :'since')) AS submit_ms, clock_timestamp() AS since \gset
RESET rpq.account;
SELECT rpq_store.run_cycles() \g /dev/null
SELECT round(1000 * extract(epoch FROM clock_timestamp() - :'since')) AS cycle_ms \gset

UPDATE bench.arrival a SET workload_id = s.workload_id FROM submitted s WHERE s.place = a.place;
SELECT set_config('bench.gpus', (1000 * sum(gpu))::text, false) FROM bench.node \g /dev/null
WITH arrived AS (
	SELECT a.*, num_gpu * gpu_milli AS gpus, sum(num_gpu * gpu_milli) OVER (ORDER BY place) - num_gpu * gpu_milli AS before,
		EXISTS (SELECT FROM rpq_store.pod p WHERE p.workload_id = a.workload_id) AS placed
	  FROM bench.arrival a)
SELECT count(*), count(*) FILTER (WHERE workload_id IS NULL), count(*) FILTER (WHERE placed),
	round(100 * (1 - sum(gpus) FILTER (WHERE placed AND before < current_setting('bench.gpus')::bigint)
		/ current_setting('bench.gpus')::numeric), 2), :submit_ms, :cycle_ms
  FROM arrived;

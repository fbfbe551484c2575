-- placement_nodes.sql: the OpenB nodes in one pool.  Run from the folder of the CSV files:
-- psql -v policy=binpack|spread -f placement_nodes.sql
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE EXTENSION rpq;
CREATE SCHEMA bench;
CREATE TABLE bench.node (sn text PRIMARY KEY, cpu_milli bigint, memory_mib bigint, gpu int, model text, type text);
\copy bench.node (sn, cpu_milli, memory_mib, gpu, model) FROM 'openb_node_list_gpu_node.csv' CSV HEADER
-- An instance type for each model and size; its machine unit is its own capacity.
UPDATE bench.node SET type = format('%s-%s-%s-%s', model, gpu, cpu_milli / 1000, memory_mib / 1024);
BEGIN;
SELECT rpq.create_tenant('openb'), rpq.create_cluster('openb', 'trace'), rpq.create_workload_type('pod', tenant => 'openb'),
	rpq.create_account('client', tenant => 'openb') \g /dev/null
SELECT rpq.create_instance_type(type, 'gpu', format('gpu=%s,cpu=%s,memory=%sMi', gpu, trim_scale(min(cpu_milli) / 1000.0),
	min(memory_mib))::rpq.resources, machine_unit => format('gpu=%s', gpu)::rpq.resources)
FROM bench.node GROUP BY type, gpu \g /dev/null
SELECT rpq.add_nodes(type, names => array_agg(sn ORDER BY sn), tenant => 'openb') FROM bench.node GROUP BY type \g /dev/null
COMMIT;
-- binpack in the shared pool, spread (which is for exclusive pools alone) in one of all the nodes.
SELECT :'policy' = 'spread' AS spread \gset
\if :spread
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('trace', 'exclusive', nodes => (SELECT array_agg(sn) FROM bench.node), scheduling_policy => 'spread',
	queueing => 'best_effort', tenant => 'openb'), rpq.authorize('trace', ARRAY['client']) \g /dev/null
\else
SELECT rpq.edit_pool(name, queueing => 'best_effort') FROM rpq.pools WHERE type = 'shared' \g /dev/null
\endif
DO $$ BEGIN
	IF (SELECT count(*) FROM rpq_store.node) <> 1213 OR (SELECT sum(gpu) FROM bench.node) <> 6212 THEN
		RAISE EXCEPTION 'the node list is not the one of 1,213 nodes and 6,212 GPUs';
	END IF;
END $$;
CREATE TABLE bench.pod (name text, cpu_milli bigint, memory_mib bigint, num_gpu int, gpu_milli int, gpu_spec text);
CREATE TABLE bench.arrival (LIKE bench.pod, place bigint PRIMARY KEY, workload_id bigint);

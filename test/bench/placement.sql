-- placement.sql: the OpenB nodes and one list of pods, ready to be replayed.  Run from the folder of the CSV files:
-- psql -v list=default -f placement.sql
\set ON_ERROR_STOP on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rpq;
CREATE SCHEMA IF NOT EXISTS bench;
SET search_path = bench;
DROP TABLE IF EXISTS pod, arrival;
CREATE TABLE pod (name text, cpu_milli bigint, memory_mib bigint, num_gpu int, gpu_milli int, gpu_spec text);
CREATE TABLE arrival (place bigint PRIMARY KEY, cpu_milli bigint, memory_mib bigint, num_gpu int, gpu_milli int, gpu_spec text,
	workload_id bigint);
SELECT to_regclass('bench.node') IS NULL AS fresh \gset
\if :fresh
CREATE TABLE node (sn text PRIMARY KEY, cpu_milli bigint, memory_mib bigint, gpu int, model text, type text);
\copy bench.node (sn, cpu_milli, memory_mib, gpu, model) FROM 'openb_node_list_gpu_node.csv' CSV HEADER
-- One instance type for each model and size.
UPDATE node SET type = format('%s-%sg-%sc-%sm', model, gpu, cpu_milli / 1000, memory_mib);
SELECT rpq.create_tenant('openb'), rpq.create_cluster('openb', 'trace'), rpq.create_workload_type('pod', tenant => 'openb'),
	rpq.create_account('bench', tenant => 'openb') \g /dev/null
SELECT rpq.create_instance_type(type, 'gpu', format('gpu=%s,cpu=%s,memory=%sMi', gpu, min(cpu_milli) / 1000.0, min(memory_mib))::rpq.resources,
	machine_unit => format('gpu=%s', gpu)::rpq.resources) FROM node GROUP BY type, gpu \g /dev/null
SELECT rpq.add_nodes(type, names => array_agg(sn ORDER BY sn), tenant => 'openb') FROM node GROUP BY type \g /dev/null
-- For spread, which exclusive pools alone have: each seed moves no node, the pool is made once the shared one is done.
\endif

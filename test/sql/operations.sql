-- Operations: pending, carried out, failed, cancelled, tried again, waited for.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rpq;
\pset null -
\set SHOW_CONTEXT never
SELECT rpq.create_tenant('acme') > 0 AS tenant, rpq.create_cluster('c1') > 0 AS cluster,
	rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=96') > 0 AS gpu_type;
SELECT rpq.add_nodes('h100', count => 4, prefix => 'n');
CREATE FUNCTION pg_temp.operations() RETURNS TABLE (kind text, pool text, pool_status text, status text, attempts int, error_code text, error text)
LANGUAGE sql AS $$
	SELECT o.kind, p.name, p.status, o.status, o.attempts, o.error_code, o.error
	FROM rpq_store.operation o JOIN rpq_store.pool p USING (pool_id) ORDER BY o.operation_id
$$;
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	why text;
	code text;
	answer text;
BEGIN
	EXECUTE statement INTO answer;
	RETURN 'ok: ' || coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
	RETURN concat_ws(': ', code, said, nullif(why, ''));
END
$$;

-- availability seen at the call is no reservation: the second of two fails, alone, and leaves its pool failed
SELECT rpq.create_pool('p1', 'dedicated', quota => 'gpu=24') AS p1, rpq.create_pool('p2', 'dedicated', quota => 'gpu=16') AS p2,
	rpq.create_pool('p3', 'dedicated', nodes => '{n4}') AS p3 \gset
SELECT rpq.run_operations();
SELECT * FROM pg_temp.operations();
SELECT p.name, n.name AS node FROM rpq_store.pool p JOIN rpq_store.node n USING (pool_id) ORDER BY n.name;
SELECT count(*) AS held FROM rpq_store.operation_pool;
SELECT action, object, operation_id = :p1 AS p1 FROM rpq_store.history WHERE action = 'create_pool' ORDER BY history_id;

-- trying again: a new operation; it may fail again; the pool is edited meanwhile
SELECT rpq.edit_pool('p2', description => 'still to come');
SELECT rpq.retry_operation(:p2) AS again \gset
SELECT pg_temp.try('SELECT rpq.retry_operation(' || :p2 || ')') LIKE 'RQ004: operation % cannot be tried again: Its status is failed, that of pool "p2" is creating.' AS refused;
SELECT rpq.run_operations();
SELECT rpq.add_nodes('h100', count => 2, prefix => 'n');
SELECT rpq.retry_operation(:again) > :again AS new;
SELECT rpq.run_operations();
SELECT * FROM pg_temp.operations();
SELECT pg_temp.try('SELECT rpq.retry_operation(' || :p2 || ')') LIKE 'RQ004%' AS refused, pg_temp.try('SELECT rpq.retry_operation(' || :p1 || ')') LIKE 'RQ004%' AS refused;
SELECT action, object_kind, old, new FROM rpq_store.history WHERE action = 'retry_operation' ORDER BY history_id;

-- one at a time for a pool: a dedicated source is held with the subject
SELECT rpq.create_pool('p4', 'dedicated', 'h100', quota => 'gpu=8', source => 'p1') AS p4 \gset
SELECT replace(pg_temp.try($$SELECT rpq.create_pool('p5', 'dedicated', 'h100', quota => 'gpu=8', source => 'p1')$$), :'p4', 'N');
SELECT replace(pg_temp.try($$SELECT rpq.create_pool('p5', 'dedicated', 'h100', quota => 'gpu=8', source => 'p4')$$), :'p4', 'N');
SELECT pg_temp.try($$SELECT rpq.create_pool('p4', 'dedicated')$$), pg_temp.try($$SELECT rpq.authorize('p4', '{x}')$$);

-- cancelling: at once while pending; the pool that was not made is gone and its name free
SELECT rpq.cancel_operation(:p4), rpq.cancel_operation(:p4), rpq.cancel_operation(:p1);
SELECT name, status, deleted_at IS NOT NULL AS deleted FROM rpq_store.pool WHERE name = 'p4';
SELECT count(*) AS held FROM rpq_store.operation_pool;
SELECT action, object_kind, object = :'p4' AS p4, old, new FROM rpq_store.history WHERE action = 'cancel_operation';
SELECT rpq.create_pool('p4', 'exclusive', 'h100', quota => 'gpu=8', source => 'p1') AS p4 \gset
SELECT pg_temp.try($$SELECT rpq.edit_pool('p1', description => 'may be edited meanwhile')$$);

-- waiting
SELECT rpq_store.run_pending_operations();
CALL rpq.wait_for_operation(:p4);
CALL rpq.wait_for_operation(:p2, timeout => '0');
SELECT rpq.create_pool('p6', 'dedicated') AS p6 \gset
\set VERBOSITY sqlstate
CALL rpq.wait_for_operation(:p6, '0.2 s');
CALL rpq.wait_for_operation(:p6, timeout => '0');
CALL rpq.wait_for_operation(:p6, '-1 s');
CALL rpq.wait_for_operation(NULL);
CALL rpq.wait_for_operation(9223372036854775807);
CALL rpq.wait_for_operation(-1, NULL);
CALL rpq.wait_for_operation(:p6, '10000000 years');
BEGIN;
CALL rpq.wait_for_operation(:p6);
ROLLBACK;
\set VERBOSITY default
SELECT set_config('test.done', :'p4', false) = :'p4' AS set;
DO $$ DECLARE id bigint := current_setting('test.done'); BEGIN CALL rpq.wait_for_operation(id); END $$;
SELECT rpq.cancel_operation(:p6);
CALL rpq.wait_for_operation(:p6);

-- synchronous: a failure raises and leaves nothing
SET rpq.synchronous_operations = on;
SELECT count(*) AS operations FROM rpq_store.operation \gset
SELECT pg_temp.try($$SELECT rpq.create_pool('p7', 'dedicated', quota => 'gpu=80')$$);
SELECT count(*) = :operations AS nothing_left FROM rpq_store.operation;
SELECT count(*) AS pools FROM rpq_store.pool WHERE name = 'p7';
RESET rpq.synchronous_operations;

-- bad ids
SELECT t AS call, pg_temp.try('SELECT rpq.' || t) AS answer FROM unnest(ARRAY[
	'cancel_operation(NULL)', 'cancel_operation(0)', 'cancel_operation(-9223372036854775808)', 'retry_operation(NULL)',
	'retry_operation(9223372036854775807)']) AS t;

-- who may: an administrator of a pool carries out what is pending on its pools, and no more
SELECT rpq.create_account('dave') > 0 AS account;
SELECT rpq.create_pool('p8', 'dedicated') AS p8, rpq.create_pool('p9', 'dedicated') AS p9 \gset
INSERT INTO rpq_store.pool_admin SELECT pool_id, account_id FROM rpq_store.pool p, rpq_store.account a WHERE p.name = 'p8' AND a.name = 'dave';
SET rpq.account = 'dave';
SELECT rpq.run_operations();
SELECT replace(pg_temp.try('SELECT rpq.cancel_operation(' || :p9 || ')'), :'p9', 'N');
RESET rpq.account;
SELECT * FROM pg_temp.operations() OFFSET 9;
SELECT actor <> 'dave' AS by_the_one_who_asked FROM rpq_store.history WHERE action = 'create_pool' AND object = 'p8';
SELECT rpq.run_operations();

-- nodes are conserved, each in one pool, and counted
SELECT count(*) AS nodes, count(DISTINCT name) AS names FROM rpq_store.node;
SELECT count(*) AS wrong_capacity FROM (
	(SELECT pool_id, type_id, usable, count(*) FROM rpq_store.node GROUP BY 1, 2, 3
	 EXCEPT SELECT pool_id, type_id, capacity, nodes FROM rpq_store.pool_capacity)
	UNION ALL
	(SELECT pool_id, type_id, capacity, nodes FROM rpq_store.pool_capacity
	 EXCEPT SELECT pool_id, type_id, usable, count(*) FROM rpq_store.node GROUP BY 1, 2, 3)) x;
SELECT count(*) AS wrong_load FROM rpq_store.node n LEFT JOIN rpq_store.node_load l USING (node_id) WHERE l.pool_id IS DISTINCT FROM n.pool_id;

-- work that has ended gives its node back at once, before any cycle; work that goes on does not
SELECT rpq.add_nodes('h100', names => '{m1,m2}');
SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=8', account => 'dave') AS w1,
	rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=1', account => 'dave') AS w2 \gset
SELECT decision, nodes FROM rpq.schedule('c1-gpu');
SET rpq.synchronous_operations = on;
SELECT pg_temp.try($$SELECT rpq.create_pool('p10', 'dedicated', quota => 'gpu=8')$$);
SELECT pg_temp.try($$SELECT rpq.create_pool('p10', 'dedicated', nodes => '{m1}')$$);
SELECT rpq.report_finished(:w1, 1);
SELECT rpq.create_pool('p10', 'dedicated', quota => 'gpu=8') > 0 AS made;
SELECT n.name, p.name AS pool FROM rpq_store.node n JOIN rpq_store.pool p USING (pool_id) WHERE n.name LIKE 'm%' ORDER BY 1;
-- a creation is tried again by those who may create
SELECT rpq.create_pool('p11', 'dedicated', nodes => '{n6}', source => 'p2') > 0 AS made;
RESET rpq.synchronous_operations;
SELECT rpq.create_pool('p12', 'dedicated', nodes => '{n5}', source => 'p2') AS p12 \gset
SELECT rpq.cordon_node('n5');
SELECT rpq.run_operations();
SELECT * FROM pg_temp.operations() WHERE pool = 'p12';
INSERT INTO rpq_store.pool_admin SELECT pool_id, account_id FROM rpq_store.pool p, rpq_store.account a WHERE p.name = 'p12' AND a.name = 'dave';
SET rpq.account = 'dave';
SELECT pg_temp.try('SELECT rpq.retry_operation(' || :p12 || ')');
RESET rpq.account;

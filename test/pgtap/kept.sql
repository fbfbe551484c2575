-- Balances that a session keeps between its cycles are used only while nothing else has changed them.
\set ON_ERROR_STOP 1
SELECT plan(12);

SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1', 'eu'), rpq.create_instance_type('g8', 'gpu', 'gpu=8,cpu=96') \g /dev/null
SELECT rpq.create_account('alice', db_role => current_user::text), rpq.add_nodes('g8', names => '{n1,n2}') \g /dev/null

CREATE FUNCTION pg_temp.submit(n int) RETURNS bigint LANGUAGE sql AS
	$$ SELECT count(rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=2,cpu=4')) FROM generate_series(1, n) $$;
CREATE FUNCTION pg_temp.admitted() RETURNS text LANGUAGE sql AS
	$$ SELECT c.summary::jsonb ->> 'admitted' FROM rpq_store.run_cycles() AS c $$;
CREATE FUNCTION pg_temp.end_one() RETURNS boolean LANGUAGE sql AS
	$$ SELECT rpq.report_finished(min(workload_id)) FROM rpq_store.workload WHERE status = 'starting' $$;

SELECT pg_temp.submit(3) \g /dev/null
SELECT is(pg_temp.admitted(), '3', 'the first cycle reads everything');
SELECT pg_temp.submit(2) \g /dev/null
SELECT is(pg_temp.admitted(), '2', 'the second goes on where it ended');
SELECT is((SELECT count(*) FROM rpq.schedule('c1-gpu')), 0::bigint, 'another cycle comes between');
SELECT pg_temp.end_one() \g /dev/null
SELECT is((SELECT count(*) FROM rpq.schedule('c1-gpu')), 0::bigint, 'and counts an end');
SELECT pg_temp.submit(4) \g /dev/null
SELECT is(pg_temp.admitted(), '4', 'its balances are those of the tables');

BEGIN;
SELECT pg_temp.end_one() \g /dev/null
SELECT is(pg_temp.admitted(), '0', 'a cycle in a transaction');
ROLLBACK;
SELECT pg_temp.submit(1) \g /dev/null
SELECT is(pg_temp.admitted(), '0', 'what was rolled back is not kept: the pool is full');

BEGIN;
SAVEPOINT s;
SELECT pg_temp.end_one(), pg_temp.admitted() \g /dev/null
ROLLBACK TO s;
SELECT is(pg_temp.admitted(), '0', 'nor what a savepoint took back');
COMMIT;

UPDATE rpq_store.node SET schedulable = false WHERE name = 'n1';
SELECT rpq.stop(workload_id) FROM rpq_store.workload WHERE status = 'starting' \g /dev/null
SELECT pg_temp.submit(8) \g /dev/null
SELECT is(pg_temp.admitted(), '4', 'a node that was cordoned past the functions takes nothing');
SELECT rpq.uncordon_node('n1') \g /dev/null
SELECT is(pg_temp.admitted(), '4', 'uncordoned, it does');
SELECT rpq.authorize('c1-gpu', '{alice}', quota => 'gpu=16') \g /dev/null
SELECT is(pg_temp.admitted(), '0', 'the pool is full');
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty');

SELECT * FROM finish();

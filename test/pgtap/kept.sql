-- Balances that a session keeps between its cycles are used only while nothing else has changed them.
\set ON_ERROR_STOP 1
SELECT plan(31);

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

-- Rows are found where the session last saw them, without a look into an index or through a table.
CREATE FUNCTION pg_temp.looked_through() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_stat_xact_user_tables
	 WHERE schemaname = 'rpq_store' AND relname IN ('turn', 'lane', 'usage', 'node_load') AND seq_scan + idx_scan > 0 $$;
SELECT pg_temp.submit(1), pg_temp.end_one(), pg_temp.admitted() \g /dev/null

SELECT pg_temp.submit(1), pg_temp.end_one(), pg_stat_force_next_flush() \g /dev/null
BEGIN;
SELECT is(pg_temp.admitted(), '1', 'one end, one start');
SELECT is(pg_temp.looked_through(), NULL, 'every row is found at its place');
COMMIT;

-- As when somebody else has changed the rows: they are somewhere else, and the next cycle knows where.
UPDATE rpq_store.turn SET cycle = cycle;
UPDATE rpq_store.lane SET waiting = waiting;
UPDATE rpq_store.usage SET amount = amount;
UPDATE rpq_store.node_load SET pods = pods;
SELECT pg_temp.submit(1), pg_temp.end_one(), pg_stat_force_next_flush() \g /dev/null
BEGIN;
SELECT is(pg_temp.admitted(), '1', 'rows that were moved are found by key');
SELECT is(pg_temp.looked_through(), 'lane node_load turn usage', 'all of them');
COMMIT;
SELECT pg_temp.submit(1), pg_temp.end_one(), pg_stat_force_next_flush() \g /dev/null
BEGIN;
SELECT is(pg_temp.admitted(), '1', 'the next cycle');
SELECT is(pg_temp.looked_through(), NULL, 'knows their new places');
COMMIT;
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'what was written is right');

-- Places that hold other rows now, or lie beyond the end of the table.
VACUUM FULL rpq_store.turn;
VACUUM FULL rpq_store.lane;
VACUUM FULL rpq_store.usage;
VACUUM FULL rpq_store.node_load;
SELECT pg_temp.submit(1), pg_temp.end_one() \g /dev/null
SELECT is(pg_temp.admitted(), '1', 'after VACUUM FULL');
SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'what was written is right again');

BEGIN;
SELECT pg_temp.submit(1), pg_temp.end_one(), pg_temp.admitted() \g /dev/null
SAVEPOINT s;
SELECT pg_temp.submit(1), pg_temp.end_one(), pg_temp.admitted() \g /dev/null
ROLLBACK TO s;
SELECT is(pg_temp.admitted(), '0', 'a savepoint takes the places back');
ROLLBACK;
SELECT pg_temp.submit(1), pg_temp.end_one() \g /dev/null
SELECT is(pg_temp.admitted(), '1', 'and so does ROLLBACK');

-- Versions that nobody needs are cleared away by cycles as well, or each would take new room.
SELECT pg_table_size('rpq_store.turn') + pg_table_size('rpq_store.lane') AS size \gset
ALTER TABLE rpq_store.turn SET (autovacuum_enabled = off);
ALTER TABLE rpq_store.lane SET (autovacuum_enabled = off);
SELECT pg_temp.submit(1), pg_temp.end_one() \g /dev/null
SELECT format('SELECT pg_temp.submit(1), pg_temp.end_one(), pg_temp.admitted()') FROM generate_series(1, 300)
\o /dev/null
\gexec
\o
SELECT cmp_ok(pg_table_size('rpq_store.turn') + pg_table_size('rpq_store.lane'), '<=', :size + 16384::bigint,
	'300 cycles do not make the tables grow');
-- Turns are changed once in a transaction, unless that was undone or a cycle has used them since.
CREATE TEMP TABLE turn_now AS SELECT scope_id, room_epoch AS epoch FROM rpq_store.turn;
CREATE FUNCTION pg_temp.take() RETURNS bigint LANGUAGE sql AS
	$$ SELECT rpq_store.take_turns(array_agg(t.scope_id)) FROM turn_now t;
	   SELECT sum(r.room_epoch - t.epoch)::bigint FROM turn_now t JOIN rpq_store.turn r USING (scope_id) $$;
SELECT count(*) AS turns FROM turn_now \gset
BEGIN;
SAVEPOINT s;
SELECT is(pg_temp.take(), :turns::bigint, 'every turn is changed');
ROLLBACK TO s;
SELECT is(pg_temp.take(), :turns::bigint, 'again when that was undone');
SAVEPOINT s;
SELECT is(pg_temp.take(), :turns::bigint, 'and then no more');
SELECT rpq_store.fold(array_agg(scope_id)) FROM turn_now \g /dev/null
SELECT is(pg_temp.take(), 2 * :turns::bigint, 'unless balances were counted since');
ROLLBACK TO s;
SELECT cmp_ok(pg_temp.take(), '>', :turns::bigint, 'or might have been');
COMMIT;
SELECT cmp_ok(pg_temp.take(), '>', 2 * :turns::bigint, 'and in the next transaction');

SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'check_integrity() is empty at the end');

SELECT * FROM finish();

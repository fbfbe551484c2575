-- Field case F03: a submission that fails or is rolled back charges nothing.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1}', quota => 'gpu=4') AS x \gset
SELECT rpq.edit_pool(pool => 'c1-gpu', workload_types => '{training}') AS x \gset
SELECT t.submit('c1-gpu', '2', 'u1', 'job') AS job \gset
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1'), 2::numeric, 'one job of 2 runs');
SELECT count(*) AS history FROM rpq.operation_history \gset
SELECT t.stored() AS stored \gset

-- (a) refused submissions
SELECT throws_ok(
	$$SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'inference', resources => 'gpu=2', name => 'job', account => 'u1')$$,
	'RQ001', 'resource auth check failed, workload type inference is not allowed to use resource pool c1-gpu',
	'(a) refusal ' || i) FROM generate_series(1, 5) i;
SELECT is(t.stored(), :'stored', '(a) nothing is stored');

-- (b) rolled back
BEGIN;
SELECT t.submit('c1-gpu', '2', 'u1', 'x') AS x \gset
ROLLBACK;
-- (c) rolled back to a savepoint
BEGIN;
SAVEPOINT s;
SELECT t.submit('c1-gpu', '2', 'u1', 'y') AS x \gset
ROLLBACK TO s;
COMMIT;
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1'), 2::numeric, '(a) to (c): member.used 2');
SELECT is(t.used('c1-gpu'), 2::numeric, '(a) to (c): pool.used 2');
SELECT is((SELECT count(*) FROM rpq.workloads), 1::bigint, 'live work rows 1');
SELECT is((SELECT count(*) FROM rpq.operation_history), :history::bigint, 'no history row');
SELECT is((SELECT count(*) FROM rpq.pods), 1::bigint, 'nothing else was started');
SELECT is((SELECT count(*) FROM rpq.ledger), 1::bigint, 'one entry of usage');

-- (d)
SELECT t.submit('c1-gpu', '2', 'u1', 'job2') AS job2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:job2), 'running', '(d) job2 runs');
SELECT is(t.member_used('c1-gpu', 'u1'), 4::numeric, '(d) member.used 4');

-- A pass that is rolled back takes nothing; one after a savepoint counts once.
SELECT t.submit('c1-gpu', '1', 'u2', 'z') AS z \gset
BEGIN;
SAVEPOINT s;
SELECT t.pass() AS x \gset
ROLLBACK TO s;
SELECT t.pass() AS x \gset
SAVEPOINT s2;
SELECT rpq.stop(workload => :z) AS x \gset
SELECT t.pass() AS x \gset
ROLLBACK TO s2;
COMMIT;
SELECT is(t.status(:z), 'running', 'admitted once after a rolled-back pass');
SELECT is(t.used('c1-gpu'), 5::numeric, 'and charged once');
SELECT t.pass() AS x \gset
SELECT is(t.used('c1-gpu'), 5::numeric, 'the next pass finds the same');
SELECT is((SELECT attempt FROM rpq.workloads WHERE workload_id = :z), 1, 'first attempt');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Field case F05: an attempt ends once, whoever says so and how often.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1}', quota => 'gpu=8') AS x \gset
SELECT t.submit('c1-gpu', '4', 'u1', 'w1') AS w1, t.submit('c1-gpu', '4', 'u1', 'w2') AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1'), 8::numeric, 'w1 and w2 run');

SELECT is(rpq.report_finished(workload => :w1, outcome => 'failed'), true, 'the first end is taken');
SELECT is(rpq.stop(workload => :w1), false, 'a stop after it is none');
SELECT is(rpq.report_finished(workload => :w1, attempt => 1), false, 'nor is a second report');
-- Releases that no pass has counted yet are in what is shown.
SELECT is(t.member_used('c1-gpu', 'u1'), 4::numeric, 'member.used 4 before a pass');
SELECT is(t.used('c1-gpu'), 4::numeric, 'pool.used 4 before a pass');
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1'), 4::numeric, 'member.used 4');
SELECT is(t.used('c1-gpu'), 4::numeric, 'pool.used 4');
SELECT is(t.status(:w1), 'failed', 'the end that came first stands');
SELECT is((SELECT count(*) FROM rpq.workload_events WHERE workload_id = :w1
		   AND event IN ('succeeded', 'failed', 'stopped')), 1::bigint, 'one end event');

SELECT t.submit('c1-gpu', '4', 'u1', 'w3') AS w3, t.submit('c1-gpu', '4', 'u1', 'w4') AS w4 \gset
SELECT t.pass() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w3), 'running', 'w3 runs');
SELECT is(t.status(:w4), 'queued', 'w4 waits');
SELECT is(t.member_used('c1-gpu', 'u1'), 8::numeric, 'member.used 8');
SELECT is(rpq.report_finished(workload => :w1), false, 'a third end changes nothing');
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1') || ' ' || t.status(:w4), '8 queued', 'and frees nothing');

-- By attempt: a report for another attempt than the present one changes nothing and is an event.
SELECT is(rpq.report_finished(workload => :w2, attempt => 2), false, 'a report for a later attempt');
SELECT is(rpq.report_finished(workload => :w2, attempt => 3), false, 'and for one later still');
SELECT is(t.status(:w2), 'running', 'w2 runs on');
SELECT is((SELECT count(*) FROM rpq.workload_events WHERE workload_id = :w2 AND event = 'late_report'), 2::bigint,
		  'both are recorded');
SELECT is(rpq.report_started(workload => :w2, attempt => 1), true, 'started');
SELECT is((SELECT status FROM rpq.workloads WHERE workload_id = :w2), 'running', 'starting becomes running');
SELECT is(rpq.report_finished(workload => :w2, attempt => 1), true, 'the present attempt ends');
SELECT t.pass() AS x \gset
SELECT is(t.status(:w4), 'running', 'then w4 has room');

-- A queued one that is stopped holds nothing and gives nothing back.
SELECT t.submit('c1-gpu', '4', 'u1', 'w5') AS w5 \gset
SELECT is(rpq.stop(workload => :w5), true, 'a queued one is stopped');
SELECT is(rpq.stop(workload => :w5), false, 'once');
SELECT is(rpq.report_finished(workload => :w5), false, 'and has no attempt to end');
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1'), 8::numeric, 'member.used is as before');

-- Ended work is enqueued again as a new attempt, and ends once more.
SELECT is(rpq.stop(workload => :w4), true, 'w4 stops');
SELECT is(rpq.enqueue(workload => :w1), true, 'w1 is enqueued again');
SELECT t.pass() AS x \gset
SELECT is((SELECT attempt FROM rpq.workloads WHERE workload_id = :w1), 2, 'its second attempt');
SELECT is(rpq.report_finished(workload => :w1, attempt => 1, outcome => 'failed'), false, 'a report for the first is late');
SELECT is(rpq.report_finished(workload => :w1, attempt => 2), true, 'one for the second is not');
SELECT t.pass() AS x \gset
SELECT is(t.used('c1-gpu'), 4::numeric, 'used is what w3 holds');
SELECT is((SELECT count(*) FROM rpq.workload_events WHERE workload_id = :w1
		   AND event IN ('succeeded', 'failed', 'stopped')), 2::bigint, 'one end event for each attempt');
SELECT is((SELECT string_agg(kind || ' ' || t.gpu(resources), ',' ORDER BY ledger_id) FROM rpq.ledger
		   WHERE workload_id = :w1), 'admit 4,release -4,admit 4,release -4', 'the ledger takes and gives in turns');
SELECT * FROM t.whole();
SELECT * FROM finish();

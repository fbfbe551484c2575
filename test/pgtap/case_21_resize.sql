-- Field case F21: a pool is never resized below what it uses, nor to a part of a machine; a quota of 0 is none at all.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,s1,s2}') AS x \gset
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2,n3}') AS x \gset
SELECT rpq.authorize(pool => 'd1', accounts => '{u1}', quota => 'gpu=24') AS x, rpq.authorize(pool => 'd1', accounts => '{u2}') AS y \gset
CREATE FUNCTION t.totals() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(name || ' ' || t.gpu(total) || '/' || t.gpu(used), ', ' ORDER BY name DESC) FROM rpq.pools
$$;
-- w1 fills n1; w2 and a filler fill n2, so that w3 goes to n3; then the filler ends.
SELECT t.submit('d1', '8', 'u1', 'w1') AS w1 \gset
SELECT t.pass() AS x \gset
SELECT t.submit('d1', '4', 'u1', 'w2') AS w2, t.submit('d1', '4', 'u2', 'filler') AS filler \gset
SELECT t.pass() AS x \gset
SELECT t.submit('d1', '4', 'u2', 'w3') AS w3 \gset
SELECT t.pass() AS x, rpq.report_finished(:filler) AS y \gset
SELECT is(concat_ws(' ', t.nodes(:w1), t.nodes(:w2), t.nodes(:w3), t.totals()), 'n1 n2 n3 d1 24/16, c1-gpu 16/0', 'as the case has it');

SELECT t.stored() AS stored \gset
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=8')$$), 'RQ006', '(1) 16 are used');
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=20')$$), 'RQ003', '(2) not a multiple of 8');
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=4')$$), 'RQ003', 'whole machines come before usage');
SELECT is(t.outcome($$SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=16')$$), 'RQ006', '(3) no whole node is empty');
SELECT is(t.stored(), :'stored', 'with nothing changed');
SELECT is(t.totals(), 'd1 24/16, c1-gpu 16/0', 'd1 24');
SELECT rpq.report_finished(:w3) AS x, rpq.resize_pool(pool => 'd1', quota => 'gpu=16') AS y \gset
SELECT is(t.totals(), 'd1 16/12, c1-gpu 24/0', '(4) w3 has ended, its node is the one that goes');
SELECT is((SELECT string_agg(name, ',' ORDER BY name) FROM rpq.nodes WHERE pool = 'd1'), 'n1,n2', 'n3 has gone');
SELECT is(t.status(:w1) || ' ' || t.status(:w2), 'running running', 'what ran runs');

-- (5) a lower quota is accepted, nothing is stopped, nothing more admitted until it holds again
SELECT rpq.update_members(pool => 'd1', accounts => '{u1}', quota => 'gpu=8') AS x \gset
SELECT t.submit('d1', '1', 'u1', 'more') AS more \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:more) || ' ' || t.member_used('d1', 'u1'), 'queued 12', '(5) 12 > 8');
SELECT rpq.stop(:more) AS x, rpq.report_finished(:w1) AS y, t.submit('d1', '4', 'u1', 'four') AS four \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:four) || ' ' || t.member_used('d1', 'u1'), 'running 8', '4 are admitted, 8 used');
SELECT t.submit('d1', '1', 'u1', 'one') AS one \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:one), 'queued', 'then 1 is not');
-- (6) 0 is none, not unlimited: as a quota of a member
SELECT rpq.update_members(pool => 'd1', accounts => '{u1}', quota => 'gpu=0') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:one), 'queued', '(6) 0 admits nothing');
SELECT is(t.outcome($$SELECT t.submit('d1', '1', 'u1')$$) IN ('ok', 'RQ002'), true, 'a new one is refused or waits');
-- and as that of a pool
SELECT rpq.stop(workload_id) AS x FROM rpq.workloads \g /dev/null
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=0') AS x \gset
SELECT is(t.totals(), 'd1 0/0, c1-gpu 40/0', 'a pool of 0 holds nothing');
SELECT is(t.outcome($$SELECT t.submit('d1', '1', 'u2')$$) IN ('RQ002', 'RQ007'), true, 'and takes nothing');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'resize_pool'), 2::bigint, 'a history row for each that succeeded');
SELECT * FROM t.whole();
SELECT * FROM finish();

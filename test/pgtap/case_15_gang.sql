-- Field case F15, as far as one session shows it: gangs are placed whole or not at all.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}') AS x \gset
SELECT t.submit('c1-gpu', '8', 'u1', 'g1', 4) AS g1, t.submit('c1-gpu', '8', 'u1', 'g2', 4) AS g2 \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(workload_id || ':' || n, ',') FROM (SELECT workload_id, count(*) n FROM rpq.pods GROUP BY 1) x),
		  :'g1' || ':4', 'one gang has 4 pods, the other none');
SELECT is(t.used('c1-gpu'), 32::numeric, 'used 32');
SELECT is((SELECT array_length(nodes, 1) FROM rpq.workloads WHERE workload_id = :g1), 4, 'nodes: one entry a replica');
SELECT is(t.reason_code(:g2), 'pool_quota', 'the other waits for the pool');
SELECT is(rpq.report_finished(workload => :g1), true, 'the winner finishes');
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(workload_id || ':' || n, ',') FROM (SELECT workload_id, count(*) n FROM rpq.pods GROUP BY 1) x),
		  :'g2' || ':4', 'then the other has 4');
SELECT is(t.used('c1-gpu'), 32::numeric, 'used 32');

-- Room for some of the replicas is no room.
SELECT rpq.report_finished(workload => :g2) AS x \gset
SELECT t.submit('c1-gpu', '1', 'u1', 'small') AS small, t.submit('c1-gpu', '7', 'u2', 'g4', 4) AS g4,
	   t.submit('c1-gpu', '8', 'u2', 'g5', 4) AS g5 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:g4) || ' ' || t.status(:g5), 'running queued', '4 of 7 fit beside 1, 4 of 8 do not');
SELECT rpq.stop(workload => :g4) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.reason_code(:g5), 'pool_quota', '32 wanted, 31 free');
SELECT rpq.stop(workload => :g5) AS x \gset
SELECT t.submit('c1-gpu', '5', 'u2', 'g6', 6) AS g6 \gset
SELECT t.pass() AS x \gset
SELECT is(t.reason_code(:g6), 'gang_does_not_fit', '30 wanted, 31 free, and 4 of 6 replicas would fit');
SELECT matches(t.reason(:g6), '4.*6', 'the reason says how many');
SELECT is((SELECT count(*) FROM rpq.pods WHERE workload_id = :g6), 0::bigint, 'none is placed');
SELECT rpq.stop(workload => id) AS x FROM unnest(ARRAY[:small, :g6]) id \g /dev/null

-- Second run: a personal quota of 24 and a gang of 32.
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u3}', quota => 'gpu=24') AS x \gset
SELECT throws_ok($$SELECT t.submit('c1-gpu', '8', 'u3', 'g3', 4)$$, 'RQ002', NULL, 'g3 is refused: 32 > 24');
SELECT t.pass() AS x \gset
SELECT is(t.used('c1-gpu'), 0::numeric, 'used 0');
-- With a quota lowered after submission it waits.
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u3}', quota => 'gpu=32') AS x \gset
SELECT t.submit('c1-gpu', '8', 'u3', 'g3', 4) AS g3 \gset
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u3}', quota => 'gpu=24') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:g3) || ' ' || t.reason_code(:g3), 'queued user_quota', 'g3 waits for the personal quota');
SELECT is(t.used('c1-gpu') + (SELECT count(*) FROM rpq.pods), 0::numeric, 'used 0, no pod');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Field case F31: values at the edge are kept or refused, never changed in silence.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1,u2}') AS x \gset
SELECT throws_ok($$SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u1}', quota => 'gpu=9223372036854775807')$$, '22003', NULL,
				 'u1''s limit is refused');
DO $$
DECLARE
	hint text;
	details text;
	message text;
BEGIN
	PERFORM 'gpu=9223372036854775807'::rpq.resources;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS details = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	message := SQLERRM;
	PERFORM set_config('t.said', concat_ws(' ', message, details, hint), false);
END $$;
SELECT matches(current_setting('t.said'), '439208192231179', 'naming the top');
SELECT is(rpq.update_members(pool => 'c1-gpu', accounts => '{u2}', quota => 'gpu=2147483648'), 1, 'u2''s limit');
SELECT is((SELECT quota::text FROM rpq.members WHERE account = 'u2'), 'gpu=2147483648', 'is kept');
SELECT is('gpu=439208192231179'::rpq.resources::text, 'gpu=439208192231179', 'the top is a value');
SELECT t.submit('c1-gpu', '3', 'u1', 'w') AS w \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w), 'running', 'w runs');
SELECT is(t.member_used('c1-gpu', 'u1'), 3::numeric, 'member.used 3');
SELECT is(t.available('c1-gpu'), 5::numeric, 'available 5');
SELECT ok((SELECT t.gpu(available) FROM rpq.members WHERE account = 'u2') = 2147483648, 'u2 has all of its limit');

SELECT t.stored() AS stored \gset
SELECT ok(t.outcome(format($$SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => %s, account => 'u1')$$, size))
		  IN ('22003', '22P02', '22023', '23514', '42883'), 'refused: ' || size)
FROM unnest(ARRAY['''gpu=-1''', '''gpu=0''', '''gpu=1.5''', '''gpu=7.5''', '''gpu=NaN''', '''gpu=Infinity''', '''gpu=1e30''',
	'''gpu=9223372036854775808''', 'NULL', '''''', '''gpu=''', '''gpu=0.0001''', '''gpu=1/11''', '''gpu=0x8''', '''gpu=8;''',
	'''gpu=1,gpu=1''', '''GPU=1''', '''gpu=1 cpu=1''', '''gpu=1,cpu=-1''', '''memory=9223372036854775807Pi''']) size;
SELECT ok(t.outcome(format($$SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', replicas => %s,
										  account => 'u1')$$, n)) IN ('22003', '22P02', '22023', '42883', 'RQ002'), 'refused: replicas ' || n)
FROM unnest(ARRAY['0', '-1', '100001', '2147483647', '100000', '2147483648', '''NaN''']) n;
SELECT is(t.stored(), :'stored', 'nothing is stored');
SELECT is((SELECT count(*) FROM rpq.workloads), 1::bigint, 'work rows 1');
SELECT is(t.used('c1-gpu'), 3::numeric, 'used 3');
SELECT ok(t.outcome(format($$SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u1}', quota => %L)$$, 'gpu=' || bad))
		  IN ('22003', '22P02', '22023'), 'limit refused: ' || bad)
FROM unnest('{-1,NaN,Infinity,-Infinity,1e30}'::text[]) bad;
SELECT ok(t.outcome(format($$SELECT rpq.edit_pool(pool => 'c1-gpu', user_default_quota => %L)$$, 'gpu=' || bad))
		  IN ('22003', '22P02', '22023'), 'default refused: ' || bad)
FROM unnest('{-1,NaN,Infinity,9223372036854775807}'::text[]) bad;
SELECT is(t.stored(), :'stored', 'nothing is stored');

-- Sums that would overflow are refused or kept, never wrapped: the whole of a gang, the total of a pool.
SELECT rpq.create_instance_type(name => 'big', kind => 'cpu', capacity => 'cpu=240,memory=300000000000000Mi') AS x \gset
SELECT t.stored() AS stored \gset
SELECT ok(left(t.answer($$SELECT rpq.add_nodes(instance_type => 'big', prefix => 'm', count => 2)$$), 5) IN ('22003', '22023'),
		  'two such nodes are more than a total can be') ;
SELECT is(t.stored(), :'stored', 'nothing is stored');
SELECT rpq.add_nodes(instance_type => 'big', prefix => 'm', count => 1) AS x \gset
SELECT ok(t.outcome($$SELECT rpq.submit(pool => 'c1-cpu', workload_type => 'training', resources => 'cpu=1,memory=200000000000000Mi',
										 replicas => 3, account => 'u1')$$) IN ('22003', 'RQ002'),
		  'nor does a gang wrap round');
SELECT is(t.outcome($$SELECT rpq.submit(pool => 'c1-cpu', workload_type => 'training', resources => 'cpu=1,memory=1',
										replicas => 100000, account => 'u1')$$), 'RQ002', '100,000 replicas are a number, and too many');
-- Any exact amount is a quota; only devices are counted.
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u2}', quota => 'gpu=7.5') AS x \gset
SELECT is((SELECT quota::text FROM rpq.members WHERE account = 'u2'), 'gpu=7.5', '7.5 is a quota and is not rounded');
SELECT t.submit('c1-gpu', '1/3', 'u2') AS x FROM generate_series(1, 3) \g /dev/null
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u2'), 1::numeric, 'three thirds are one');
SELECT is(t.node_used('n1'), 4::numeric, 'on the node too');
SELECT * FROM t.whole();
SELECT * FROM finish();

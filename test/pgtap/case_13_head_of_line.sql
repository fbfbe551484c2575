-- Field case F13: who waits blocks nobody that does not compete for the same nodes.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_instance_type(name => 'b8', kind => 'gpu', capacity => 'gpu=8,cpu=64') AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'a', count => 5) AS x \gset
SELECT is(:'x'::text, '{a1,a2,a3,a4,a5}', 'names by prefix and number');
SELECT rpq.add_nodes(instance_type => 'b8', prefix => 'b', count => 2) AS x \gset
SELECT rpq.create_pool(name => 'pA', type => 'dedicated', instance_type => 'g8', quota => 'gpu=40') AS x \gset
SELECT rpq.create_pool(name => 'pB', type => 'dedicated', instance_type => 'b8', quota => 'gpu=16') AS x \gset
SELECT is((SELECT string_agg(name || ' ' || t.gpu(total), ',' ORDER BY name COLLATE "C") FROM rpq.pools),
		  'c1-gpu 0,pA 40,pB 16', 'the pools have taken the nodes');
SELECT rpq.authorize(pool => p, accounts => '{u1}') AS x FROM unnest('{pA,pB}'::text[]) p \g /dev/null
SELECT t.submit('pB', '8', 'u1', 'full', 2) AS full \gset
SELECT t.pass() AS x \gset
SELECT is(t.used('pB'), 16::numeric, 'pB is full');

SELECT t.submit('pB', '8', 'u1', 'j1') AS j1, t.submit('pA', '8', 'u1', 'j2') AS j2,
	   t.submit('pA', '8', 'u1', 'j3') AS j3, t.submit('pA', '2', 'u1', 'j4') AS j4 \gset
SELECT t.pass() AS x \gset
SELECT is(concat_ws(' ', t.nodes(:j2), t.nodes(:j3), t.nodes(:j4)), 'a1 a2 a3', 'j2 on a1, j3 on a2, j4 on a3');
SELECT is(t.used('pA'), 18::numeric, 'pA.used 18');
SELECT is(t.status(:j1), 'queued', 'j1 waits');
SELECT is(t.reason_code(:j1), 'pool_quota', 'for its pool');
SELECT matches(t.reason(:j1), 'pB', 'the reason names the pool');
SELECT matches(t.reason(:j1), '\m8\M', 'and what is wanted');
SELECT matches(t.reason(:j1), '\m0\M', 'and what is free');
SELECT is((SELECT t.gpu(wanted) || ' ' || t.gpu(available) || ' ' || passed FROM rpq.explain(workload => :j1)
		   WHERE check_name = 'pool_quota'), '8 0 false', 'explain has the figures');

-- The same in one pool of both types: work for the one does not wait for the other.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{s1,s2}') AS x \gset
SELECT rpq.add_nodes(instance_type => 'b8', names => '{s3}') AS x \gset
SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=8', instance_types => ARRAY[type],
				  account => 'u2') AS x
FROM unnest('{b8,b8,g8,g8}'::text[]) WITH ORDINALITY AS o (type, n) ORDER BY n \g /dev/null
SELECT t.pass() AS x \gset
SELECT is(t.census('c1-gpu'), '3/1', 'one of the full type waits, the others run');
SELECT rpq.stop(workload => workload_id) AS x FROM rpq.workloads WHERE nodes = '{s1}' \g /dev/null
SELECT t.pass() AS x \gset
SELECT is((SELECT reason_code FROM rpq.workloads WHERE pool = 'c1-gpu' AND status = 'queued'), 'no_node_fits',
		  'the one that waits needs a node of its type');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Field case F17: the right node among those that fit.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT t.submit('c1-gpu', '4', 'u1', 'w1') AS w1, t.submit('c1-gpu', '6', 'u1', 'w2') AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w1) || t.nodes(:w2), 'n1n2', 'binpack: w1 on n1, w2 on n2');
SELECT t.submit('c1-gpu', '2', 'u1', 'w3') AS w3 \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w3), 'n2', 'binpack: w3 on n2, where it leaves nothing');
SELECT t.submit('c1-gpu', '4', 'u1', 'w4') AS w4 \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w4), 'n1', 'binpack: w4 on n1');
SELECT is(t.used('c1-gpu'), 16::numeric, 'used 16');
SELECT is((SELECT string_agg(devices::text, ' ' ORDER BY workload_id) FROM rpq.pods),
		  '{0,1,2,3} {0,1,2,3,4,5} {6,7} {4,5,6,7}', 'the lowest-numbered free devices');

SELECT rpq.add_nodes(instance_type => 'g8', names => '{x1,x2}') AS x \gset
SELECT rpq.create_pool(name => 'ex', type => 'exclusive', nodes => '{x1,x2}', scheduling_policy => 'spread') AS x \gset
SELECT rpq.authorize(pool => 'ex', accounts => '{u1}') AS x \gset
SELECT t.submit('ex', '4', 'u1') AS w1, t.submit('ex', '6', 'u1') AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w1) || t.nodes(:w2), 'x1x2', 'spread: one on each');
SELECT t.submit('ex', '2', 'u1', 'w3') AS w3 \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:w3), 'x1', 'spread: w3 on the emptier one');
SELECT t.submit('ex', '4', 'u1', 'w4') AS w4 \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:w4), 'queued', 'w4 waits');
SELECT is(t.reason_code(:w4), 'no_node_fits', 'for a node');
SELECT matches(t.reason(:w4), '\m4\M', 'the reason tells that 4 are free in the pool');
SELECT matches(t.reason(:w4), '\m2\M', 'and at most 2 on one node');
SELECT is((SELECT t.gpu(largest_free) || ' ' || t.gpu(available) FROM rpq.pools WHERE name = 'ex'), '2 4',
		  'so does the view');
SELECT throws_ok($$SELECT rpq.edit_pool(pool => 'c1-gpu', scheduling_policy => 'spread')$$, '22023', NULL,
				 'spread is for exclusive pools only');
SELECT throws_ok($$SELECT rpq.edit_pool(pool => 'ex', scheduling_policy => 'least_fragmentation')$$, '0A000', NULL,
				 'least_fragmentation is not there');

-- n pods on empty equal nodes touch min(n, nodes) of them; binpack touches one.
SELECT rpq.add_nodes(instance_type => 'g8', names => '{y1,y2,y3}') AS x \gset
SELECT rpq.create_pool(name => 'ey', type => 'exclusive', nodes => '{y1,y2,y3}', scheduling_policy => 'spread') AS x \gset
SELECT rpq.authorize(pool => 'ey', accounts => '{u1}') AS x \gset
SELECT t.submit('ey', '1', 'u1', 'two', 2) AS two \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:two), 'y1,y2', 'spread: two pods on two nodes');
SELECT rpq.stop(workload => :two) AS x \gset
SELECT rpq.edit_pool(pool => 'ey', scheduling_policy => 'binpack') AS x \gset
SELECT t.submit('ey', '1', 'u1', 'two', 2) AS two \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:two), 'y1,y1', 'binpack: two pods on one node');

-- Parts of devices: to the fullest device that fits; whole devices need free ones.
SELECT t.submit('ey', '0.5', 'u1', 'p1') AS p1, t.submit('ey', '0.25', 'u1', 'p2') AS p2,
	   t.submit('ey', '0.5', 'u1', 'p3') AS p3, t.submit('ey', '0.25', 'u1', 'p4') AS p4 \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT string_agg(devices::text, ' ' ORDER BY workload_id) FROM rpq.pods WHERE workload_id >= :p1),
		  '{2} {2} {3} {2}', 'parts share a device as far as they fit');
SELECT count(t.submit('ey', '1/7', 'u1', 's' || i)) AS x FROM generate_series(1, 7) i \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT count(DISTINCT devices) FROM rpq.pods p JOIN rpq.workloads w USING (workload_id) WHERE w.name ~ '^s[1-7]$'
		   AND p.devices <> '{3}'), 1::bigint, 'sevenths fill what they can and then one more device');
SELECT * FROM t.whole();
SELECT * FROM finish();

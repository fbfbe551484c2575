-- Backfill: nodes are kept back for the first one that is blocked by room; small work fills the gaps elsewhere, and on
-- these nodes what ends before anything there that must leave.  What is let in does not make the choice of nodes change.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'a', count => 3) AS x \gset
SELECT rpq.create_pool(name => 'p', type => 'dedicated', instance_type => 'g8', quota => 'gpu=24') AS x \gset
SELECT rpq.authorize(pool => 'p', accounts => '{u1,u2}') AS x \gset
SELECT is((SELECT queueing FROM rpq.pools WHERE name = 'p'), 'backfill', 'a pool''s queueing is backfill');
SELECT t.submit('p', '8', 'u1', 'full') AS full \gset
SELECT t.submit('p', '6', 'u1', 'six') AS six \gset
SELECT t.submit('p', '4', 'u1', 'four') AS four \gset
SELECT t.pass() AS x \gset
SELECT is(concat_ws(' ', t.nodes(:full), t.nodes(:six), t.nodes(:four)), 'a1 a2 a3', 'a1 is full, a2 has 2 free, a3 has 4');

SELECT t.submit('p', '8', 'u1', 'head') AS head, t.submit('p', '3', 'u2', 'three') AS three \gset
SELECT t.pass() AS x \gset
SELECT is(t.reason_code(:head), 'pool_quota', 'the first one has no room');
SELECT is(t.reason_code(:three), 'behind', 'what would go on the node that needs least for it waits behind');
SELECT matches(t.reason(:three), '\m' || :head || '\M', 'and the reason says behind which');
SELECT rpq.submit(pool => 'p', workload_type => 'training', resources => 'gpu=3', account => 'u2', name => 'short',
				  max_runtime => '1 h') AS short \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:short), 'a3', 'what ends before anything there that must leave is let in');

-- a3 has now less free than a2, and is kept back all the same.
SELECT t.submit('p', '1', 'u2', 'one') AS one \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:one), 'a2', 'a gap elsewhere is filled');
SELECT t.submit('p', '1', 'u2', 'another') AS another \gset
SELECT rpq.stop(workload => :short) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:another), 'a2', 'to the last');
SELECT is(t.status(:three), 'queued', 'and what has no end still waits');
SELECT rpq.submit(pool => 'p', workload_type => 'training', resources => 'gpu=1', account => 'u2', name => 'shorter',
				  max_runtime => '1 h') AS shorter \gset
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:shorter), 'a3', 'let in');
SELECT rpq.submit(pool => 'p', workload_type => 'training', resources => 'gpu=1', account => 'u2', name => 'longer',
				  max_runtime => '2 h') AS longer \gset
SELECT t.pass() AS x \gset
SELECT is(t.reason_code(:longer), 'behind', 'what ends after something there is not');
SELECT rpq.stop(workload => workload) AS x FROM unnest(ARRAY[:four, :shorter]::bigint[]) workload \g /dev/null
SELECT t.pass() AS x \gset
SELECT is(t.nodes(:head), 'a3', 'what ends there frees it for the first one');

SELECT rpq.edit_pool(pool => 'p', queueing => 'best_effort') AS x \gset
SELECT t.submit('p', '8', 'u1', 'next') AS next \gset
SELECT rpq.stop(workload => :six) AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:next) || ' ' || t.nodes(:three), 'queued a2', 'with best_effort nothing is kept back');
SELECT * FROM t.whole();
SELECT * FROM finish();

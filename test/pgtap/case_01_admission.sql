-- Field case F01, as far as one session shows it: what is not admitted waits, and usage never passes the total.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
SELECT is(:'x'::text, '{n1}', 'add_nodes names the node');
SELECT is((SELECT string_agg(name || ' ' || type || ' ' || kind, ';') FROM rpq.pools), 'c1-gpu shared gpu',
		  'the shared pool comes into being with its first node');
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1}', quota => 'gpu=8') AS x \gset
SELECT is(:x, 1, 'authorize counts the accounts');

SELECT t.submit('c1-gpu', '6', 'u1', 'w0') AS w0 \gset
SELECT is(t.status(:w0), 'queued', 'a submission waits');
SELECT is(t.reason_code(:w0), 'not_considered_yet', 'and says that nobody has looked at it');
SELECT t.pass() AS x \gset
SELECT is(t.status(:w0), 'running', 'a pass starts it');
SELECT is(t.nodes(:w0), 'n1', 'on the only node');

SELECT t.submit('c1-gpu', '2', 'u1', 'w1') AS w1, t.submit('c1-gpu', '2', 'u1', 'w2') AS w2 \gset
SELECT t.pass() AS x \gset
SELECT is(t.used('c1-gpu'), 8::numeric, 'pool.used 8');
SELECT is(t.member_used('c1-gpu', 'u1'), 8::numeric, 'member.used 8');
SELECT is(t.node_used('n1'), 8::numeric, 'node.placed 8');
SELECT is(t.census('c1-gpu'), '2/1', 'running 2, queued 1');
SELECT is(t.status(:w1), 'running', 'the earlier one runs');
SELECT is(t.reason_code(:w2), 'user_quota', 'the later one waits for the personal quota');
SELECT is((SELECT t.gpu(available) FROM rpq.members WHERE account = 'u1'), 0::numeric, 'nothing is left of the quota');

-- Twenty of size 1, from a fresh start.
SELECT rpq.stop(workload => w) AS x FROM unnest(ARRAY[:w1, :w2]) w \g /dev/null
SELECT t.pass() AS x \gset
SELECT is(t.used('c1-gpu'), 6::numeric, 'stopped work gives its room back');
SELECT count(t.submit('c1-gpu', '1', 'u1', 'x' || i)) AS x FROM generate_series(1, 20) i \gset
SELECT t.pass() AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.census('c1-gpu'), '3/18', 'of twenty 2 are admitted, 18 not');
SELECT is(t.used('c1-gpu'), 8::numeric, 'used 8');
SELECT is((SELECT string_agg(name, ',' ORDER BY name) FROM rpq.workloads WHERE status = 'starting'), 'w0,x1,x2',
		  'the earliest two');
SELECT is((SELECT t.gpu(rpq.sum(resources)) FROM rpq.ledger), 8::numeric, 'the ledger adds up');

-- Without a personal quota the pool's total is the bound.
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u1}', quota => '') AS x \gset
SELECT t.pass() AS x \gset
SELECT is(t.used('c1-gpu'), 8::numeric, 'used 8 without a personal quota too');
SELECT is((SELECT string_agg(DISTINCT reason_code, ',') FROM rpq.workloads WHERE status = 'queued'), 'pool_quota',
		  'what waits now waits for the pool');

-- Within one transaction: nothing is admitted twice, and ROLLBACK undoes all of it.
BEGIN;
SELECT rpq.stop(workload => :w0) AS x \gset
SELECT t.pass() AS x \gset
SELECT t.used('c1-gpu') AS inside, t.census('c1-gpu') AS census \gset
ROLLBACK;
SELECT is(:'inside' || ' ' || :'census', '8 8/12', 'a stop and a pass in one transaction see each other');
SELECT is(t.census('c1-gpu'), '3/18', 'and leave nothing behind after ROLLBACK');
SELECT * FROM t.whole();
SELECT * FROM finish();

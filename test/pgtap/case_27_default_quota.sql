-- Field case F27: following the default, an own quota, and no limit are three things; the default is looked up.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
CREATE FUNCTION t.quotas() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(account || ' ' || config_mode || ' ' || CASE quota::text WHEN '' THEN 'unlimited' ELSE quota::text END,
					  ', ' ORDER BY account COLLATE "C")
	FROM rpq.members WHERE pool = 'c1-gpu' AND instance_type IS NULL
$$;
CREATE FUNCTION t.rows_of(kind text) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM rpq.operation_history WHERE object_kind = kind
$$;
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}') AS x \gset
SELECT rpq.edit_pool(pool => 'c1-gpu', user_default_quota => 'gpu=4') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1}') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u2}', quota => 'gpu=6') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u3}', quota => '') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u4}', quota => 'gpu=4') AS x \gset
SELECT is(t.quotas(), 'u1 default gpu=4, u2 custom gpu=6, u3 custom unlimited, u4 custom gpu=4', 'as given');
SELECT t.submit('c1-gpu', '4', 'u1', 'w') AS w \gset
SELECT t.pass() AS x \gset
SELECT is(t.member_used('c1-gpu', 'u1'), 4::numeric, 'u1 has 4 in use');
SELECT t.rows_of('pool') AS pools, t.rows_of('member') AS members \gset

-- (1)
SELECT rpq.edit_pool(pool => 'c1-gpu', user_default_quota => 'gpu=2') AS x \gset
SELECT is(t.quotas(), 'u1 default gpu=2, u2 custom gpu=6, u3 custom unlimited, u4 custom gpu=4', '(1) the default moves u1 alone');
SELECT is((SELECT quota::text FROM rpq.members WHERE account = 'u1'), 'gpu=2', '(1) looked up, not copied');
SELECT is((SELECT t.gpu(available) FROM rpq.members WHERE account = 'u1'), 0::numeric, '(1) available is never below zero');
SELECT t.pass() AS x \gset
SELECT is(t.status(:w), 'running', '(1) what runs goes on');
-- (2)
SELECT t.submit('c1-gpu', '1', 'u1', 'one') AS one \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:one) || ' ' || t.reason_code(:one), 'queued user_quota', '(2) 1 is not admitted: 4 + 1 > 2');
SELECT throws_ok($$SELECT t.submit('c1-gpu', '3', 'u1')$$, 'RQ002', NULL, '(2) 3 alone is more than 2');
SELECT is(t.rows_of('pool') - :pools || ' ' || (t.rows_of('member') - :members), '1 0', '(1) one row in the history, none for members');
-- (3)
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u1}', quota => 'gpu=8') AS x \gset
SELECT rpq.edit_pool(pool => 'c1-gpu', user_default_quota => 'gpu=10') AS x \gset
SELECT is(t.quotas(), 'u1 custom gpu=8, u2 custom gpu=6, u3 custom unlimited, u4 custom gpu=4', '(3) nobody follows the default');
SELECT t.pass() AS x \gset
SELECT is(t.status(:one), 'running', '(3) 4 + 1 is within 8');
-- (4)
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u2}', config_mode => 'default') AS x \gset
SELECT is(t.quotas(), 'u1 custom gpu=8, u2 default gpu=10, u3 custom unlimited, u4 custom gpu=4', '(4) u2 follows it again');
-- (5)
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u5}') AS x \gset
SELECT is(t.quotas(), 'u1 custom gpu=8, u2 default gpu=10, u3 custom unlimited, u4 custom gpu=4, u5 default gpu=10',
		  '(5) so does u5');
SELECT is(t.rows_of('pool') - :pools, 2::bigint, 'two default changes in the history');
SELECT is(t.rows_of('member') - :members, 3::bigint, 'and a row for each of the three calls that name a member');

-- Zero is a limit; no default is none; adding again changes nothing but what is given.
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u3}', quota => 'gpu=0') AS x \gset
SELECT throws_ok($$SELECT t.submit('c1-gpu', '1', 'u3')$$, 'RQ002', NULL, 'a quota of 0 admits nothing');
SELECT rpq.edit_pool(pool => 'c1-gpu', clear => '{user_default_quota}') AS x \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1,u2}', max_priority => 60) AS x \gset
SELECT is(t.quotas(), 'u1 custom gpu=8, u2 default unlimited, u3 custom gpu=0, u4 custom gpu=4, u5 default unlimited',
		  'without a default there is no limit, and adding again keeps the modes');
SELECT t.rows_of('member') AS members \gset
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1,u2}', max_priority => 60) AS x \gset
SELECT is(t.rows_of('member'), :members::bigint, 'the same again leaves no row');

-- For one instance type, both must hold.
SELECT rpq.update_members(pool => 'c1-gpu', accounts => '{u4}', quota => 'gpu=1', instance_type => 'g8') AS x \gset
SELECT is((SELECT string_agg(coalesce(instance_type, 'all') || ' ' || quota::text, ', ' ORDER BY instance_type NULLS FIRST)
		   FROM rpq.members WHERE account = 'u4'), 'all gpu=4, g8 gpu=1', 'a quota for the pool and one for a type');
SELECT t.submit('c1-gpu', '1', 'u4') AS a, t.submit('c1-gpu', '1', 'u4') AS b \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:a) || ' ' || t.status(:b) || ' ' || t.reason_code(:b), 'running queued user_quota', 'the smaller one binds');

-- The three stay what they are through operations on the pool; a new pool of the same name starts anew.
SELECT rpq.report_finished(workload => workload_id) AS x FROM rpq.workloads WHERE status IN ('starting', 'running') \g /dev/null
SELECT rpq.stop(workload => workload_id) AS x FROM rpq.workloads \g /dev/null
SELECT t.pass() AS x \gset
CREATE FUNCTION t.modes(pool_name text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(account || ' ' || config_mode || ' ' || CASE quota::text WHEN '' THEN 'unlimited' ELSE quota::text END, ', ' ORDER BY account COLLATE "C")
	FROM rpq.members WHERE pool = pool_name AND instance_type IS NULL
$$;
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1}', user_default_quota => 'gpu=4') AS x \gset
SELECT rpq.authorize(pool => 'd1', accounts => '{u1}') AS a, rpq.authorize(pool => 'd1', accounts => '{u2}', quota => 'gpu=6') AS b,
	   rpq.authorize(pool => 'd1', accounts => '{u3}', quota => '') AS c, rpq.authorize(pool => 'd1', accounts => '{u4}', quota => 'gpu=4') AS d \gset
SELECT 'u1 default gpu=4, u2 custom gpu=6, u3 custom unlimited, u4 custom gpu=4' AS modes \gset
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=16') AS x \gset
SELECT is(t.modes('d1'), :'modes', 'after a resize');
SELECT rpq.convert_pool(pool => 'd1', type => 'exclusive') AS x \gset
SELECT is(t.modes('d1'), :'modes', 'after a conversion');
SELECT rpq.rename_pool(pool => 'd1', name => 'e1') AS x \gset
SELECT is(t.modes('e1'), :'modes', 'after a rename');
SELECT rpq.edit_pool(pool => 'e1', user_default_quota => 'gpu=5') AS x \gset
SELECT is(t.modes('e1'), replace(:'modes', 'default gpu=4', 'default gpu=5'), 'and the default is still looked up');
SELECT rpq.resize_pool(pool => 'e1', quota => 'gpu=0') AS x \gset
SELECT is(t.modes('e1'), replace(:'modes', 'default gpu=4', 'default gpu=5'), 'an empty pool keeps its members');
SELECT rpq.delete_pool(pool => 'e1', force => true) AS x \gset
SELECT rpq.create_pool(name => 'e1', type => 'dedicated', quota => 'gpu=0') AS x \gset
SELECT rpq.authorize(pool => 'e1', accounts => '{u1,u2,u3}') AS x \gset
SELECT is(t.modes('e1'), 'u1 default unlimited, u2 default unlimited, u3 default unlimited', 'nothing is inherited from a pool that was deleted');
SELECT * FROM t.whole();
SELECT * FROM finish();

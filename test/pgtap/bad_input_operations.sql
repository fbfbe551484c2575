-- Bad input for operations and executors: what may not be is refused with the SQLSTATE of the contract, in the contract's
-- order, and leaves nothing behind.  Each call is undone, so that all start from the same state.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_tenant(name => 'beta') AS x, rpq.create_cluster(name => 'c2', region => 'south') AS y,
	   rpq.create_instance_type(name => 'k1', kind => 'cpu', capacity => 'cpu=240,memory=1Ti') AS z,
	   rpq.create_instance_type(name => 'odd', kind => 'gpu', capacity => 'gpu=6,cpu=8') AS w,
	   rpq.create_account(name => 'boss', org_admin => true, tenant => 'acme') AS v \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4,n5,n6,n7,n8}', cluster => 'c1', tenant => 'acme') AS a,
	   rpq.add_nodes(instance_type => 'g8', names => '{far}', cluster => 'c2', tenant => 'acme') AS b,
	   rpq.add_nodes(instance_type => 'k1', names => '{k1}', cluster => 'c1', tenant => 'acme') AS c,
	   rpq.add_nodes(instance_type => 'odd', names => '{o1}', cluster => 'c1', tenant => 'acme') AS d,
	   rpq.add_nodes(instance_type => 'g8', names => '{f1}', cluster => 'c1', tenant => 'beta') AS e \gset
-- d1: n1 full, n2 half used, n3 idle.  d2: n4 idle, n5 full.  e0: empty.  The shared pool: n6 idle, n7 and n8 full; o1.
SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2,n3}', queueing => 'best_effort', tenant => 'acme') AS a,
	   rpq.create_pool(name => 'd2', type => 'dedicated', nodes => '{n4,n5}', tenant => 'acme') AS b,
	   rpq.create_pool(name => 'e0', type => 'exclusive', instance_type => 'g8', cluster => 'c1', tenant => 'acme') AS c,
	   rpq.create_pool(name => 'fp', type => 'dedicated', nodes => '{f1}', tenant => 'beta') AS d \gset
SELECT rpq.authorize(pool => 'acme/' || p, accounts => '{u1}') AS x FROM unnest('{d1,d2,e0}'::text[]) p \g /dev/null
-- A workload on that node, so many GPUs.
CREATE FUNCTION t.put(pool_name text, node_name text, gpus int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	w bigint;
BEGIN
	PERFORM rpq.cordon_node(node => 'acme/' || n.name) FROM rpq.nodes n WHERE n.tenant = 'acme' AND n.name <> node_name AND n.schedulable;
	w := rpq.submit(pool => 'acme/' || pool_name, workload_type => 'training', resources => ('gpu=' || gpus)::rpq.resources, account => 'acme/u1');
	PERFORM t.pass();
	PERFORM rpq.uncordon_node(node => 'acme/' || n.name) FROM rpq.nodes n WHERE n.tenant = 'acme' AND NOT n.schedulable;
	RETURN w;
END $$;
SELECT t.put('d1', 'n1', 8) AS w1, t.put('d1', 'n2', 4) AS w2, t.put('d2', 'n5', 8) AS w5, t.put('c1-gpu', 'n7', 8) AS w7, t.put('c1-gpu', 'n8', 8) AS w8 \gset
SELECT is((SELECT string_agg(name || ' ' || t.gpu(used), ',' ORDER BY name) FROM rpq.nodes WHERE name ~ '^n'), 'n1 8,n2 4,n3 0,n4 0,n5 8,n6 0,n7 8,n8 8', 'as told');
SELECT rpq.submit(pool => 'acme/d1', workload_type => 'training', resources => 'gpu=8', replicas => 3, account => 'acme/u1') AS queued,
	   rpq.submit(pool => 'acme/d1', workload_type => 'training', resources => 'gpu=1', account => 'acme/u1', draft => true) AS draft \gset
SELECT pod_id AS pod1 FROM rpq.pods WHERE workload_id = :w1 \gset

CREATE TABLE t.try (n int GENERATED ALWAYS AS IDENTITY, call text, states text);
-- Arguments of every function that takes a pool or a node: NULL, empty, too long, huge, of another tenant, not there.
INSERT INTO t.try (call, states)
SELECT format(call, v), CASE v WHEN 'NULL' THEN '22023' ELSE '22023 42704' END
FROM unnest(ARRAY['resize_pool(pool => %s, quota => ''gpu=16'')', 'resize_pool(pool => ''d1'', quota => ''gpu=32'', source => coalesce(%s, ''''))',
	'resize_pool(pool => ''d1'', quota => ''gpu=16'', target => coalesce(%s, ''''))', 'resize_pool(pool => ''d1'', quota => ''gpu=16'', instance_type => coalesce(%s, ''''))',
	'convert_pool(pool => %s, type => ''exclusive'')', 'rename_pool(pool => %s, name => ''x'')', 'delete_pool(pool => %s, force => true)',
	'move_nodes(nodes => ''{n3}'', to_pool => %s)', 'move_nodes(count => 1, from_pool => %s, to_pool => ''d2'')',
	'move_nodes(count => 1, from_pool => ''d1'', to_pool => ''d2'', instance_type => coalesce(%s, ''''))',
	'drain_node(node => %s)', 'sync_node(node => %s)']) call,
	unnest(ARRAY['NULL', '''''', '''  ''', 'repeat(''x'', 63)', 'repeat(''x'', 64)', 'repeat(''x'', 1000000)', 'E''a\nb''', '''nobody''', '''fp''',
		'''beta/fp''', '''f1''', '''beta/f1''', '''a"b''', '''o''''clock''', '''; DROP TABLE t; --''', '''/''', '''acme/''', '''d1/''', '''0''', '''-1''',
		'''%s{}\''']) v;
INSERT INTO t.try (call, states)
SELECT format(call, v), '22023 42704'
FROM unnest(ARRAY['resize_pool(pool => ''d1'', add_nodes => %s)', 'resize_pool(pool => ''d1'', remove_nodes => %s)', 'move_nodes(nodes => %s, to_pool => ''d1'')']) call,
	unnest(ARRAY['''{}''', '''{NULL}''', '''{""}''', '''{" "}''', '''{nobody}''', '''{n6,nobody}''', '''{n6,NULL}''', '''{f1}''', '''{beta/f1}''',
		'ARRAY[repeat(''x'', 64)]', 'E''{"a\nb"}''', 'ARRAY(SELECT ''x'' || i FROM generate_series(1, 20000) i)', '''{"o''''clock"}''']) v;
-- Amounts of a resize.
INSERT INTO t.try (call, states) VALUES
('resize_pool(pool => ''d1'', quota => ''gpu=8'')', 'RQ006'),
('resize_pool(pool => ''d1'', quota => ''gpu=0'')', 'RQ006'),
('resize_pool(pool => ''d1'', quota => ''gpu=8'', evacuate => true)', 'RQ006'),
('resize_pool(pool => ''d1'', quota => ''gpu=20'')', 'RQ003'),
('resize_pool(pool => ''d1'', quota => ''gpu=7.5'')', 'RQ003 22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=4'')', 'RQ003'),
('resize_pool(pool => ''d1'', quota => ''gpu=1/7'')', 'RQ003 22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=-8'')', '22023 RQ003 22P02'),
('resize_pool(pool => ''d1'', quota => ''gpu=NaN'')', '22P02'),
('resize_pool(pool => ''d1'', quota => ''gpu=Infinity'')', '22P02'),
('resize_pool(pool => ''d1'', quota => ''gpu=1e30'')', '22P02 22003'),
('resize_pool(pool => ''d1'', quota => ''gpu=9223372036854775808'')', '22003'),
('resize_pool(pool => ''d1'', quota => ''gpu=439208192231176'')', 'RQ005 22003'),
('resize_pool(pool => ''d1'', quota => ''gpu=439208192231176'', evacuate => true)', 'RQ005 22003'),
('resize_pool(pool => ''d1'', quota => ''cpu=192'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=16,cpu=384'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''quux=8'')', '22023'),
('resize_pool(pool => ''d1'', quota => '''')', '22023'),
('resize_pool(pool => ''d1'', quota => NULL)', '22023'),
('resize_pool(pool => ''d1'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=16'')', 'ok'),
('resize_pool(pool => ''d1'', quota => ''gpu=24'')', 'ok 22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'')', 'ok'),
-- a source without idle nodes, of another cluster or kind, the pool itself
('resize_pool(pool => ''d1'', quota => ''gpu=40'')', 'RQ005'),
('resize_pool(pool => ''d1'', quota => ''gpu=40'', evacuate => true)', 'RQ005 RQ006'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', source => ''d2'')', 'ok'),
('resize_pool(pool => ''d1'', quota => ''gpu=40'', source => ''d2'')', 'RQ005'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', source => ''e0'')', 'RQ005'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', source => ''d1'')', '22023 RQ005'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', source => ''c2-gpu'')', '22023 RQ005'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', source => ''c1-cpu'')', '22023 RQ005'),
('resize_pool(pool => ''d1'', quota => ''gpu=16'', target => ''d1'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=16'', target => ''c2-gpu'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=16'', target => ''c1-cpu'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=16'', target => ''e0'')', 'ok'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', instance_type => ''k1'')', '22023 RQ003'),
('resize_pool(pool => ''d1'', quota => ''gpu=32'', instance_type => ''odd'')', '22023 RQ003 RQ005'),
('resize_pool(pool => ''e0'', quota => ''gpu=8'', instance_type => ''g8'')', 'ok'),
('resize_pool(pool => ''e0'', quota => ''gpu=0'', instance_type => ''g8'')', 'ok 22023'),
('resize_pool(pool => ''c1-gpu'', quota => ''gpu=8'')', '22023'),
('resize_pool(pool => ''c1-gpu'', quota => ''gpu=10'')', '22023'),
-- nodes by name: elsewhere, there already, in use, of another cluster or kind, no whole machine, on both lists
('resize_pool(pool => ''d1'', quota => ''gpu=32'', add_nodes => ''{n6}'')', '22023'),
('resize_pool(pool => ''d1'', quota => ''gpu=16'', remove_nodes => ''{n3}'')', '22023'),
('resize_pool(pool => ''d1'', add_nodes => ''{n6}'')', 'ok'),
('resize_pool(pool => ''d1'', add_nodes => ''{n4}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n4}'', source => ''d2'')', 'ok'),
('resize_pool(pool => ''d1'', add_nodes => ''{n6}'', source => ''d2'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n6,n4}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n3}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n7}'')', 'RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n7}'', evacuate => true)', 'ok'),
('resize_pool(pool => ''d1'', add_nodes => ''{n6,n7}'', evacuate => true)', 'RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{far}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{k1}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{o1}'')', '22023 RQ003 RQ005'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n3}'')', 'ok'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n1}'')', 'RQ006'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n3,n1}'')', 'RQ006'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n1}'', evacuate => true)', 'ok'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n1,n2}'', evacuate => true)', 'RQ006'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n4}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', remove_nodes => ''{n6}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n6}'', remove_nodes => ''{n6}'')', '22023 RQ005 RQ006'),
('resize_pool(pool => ''d1'', add_nodes => ''{n3}'', remove_nodes => ''{n3}'')', '22023 RQ005 RQ006'),
-- convert, rename, delete
('convert_pool(pool => ''d1'', type => NULL)', '22023'), ('convert_pool(pool => ''d1'', type => '''')', '22023'),
('convert_pool(pool => ''d1'', type => ''nonsense'')', '22023'), ('convert_pool(pool => ''d1'', type => ''EXCLUSIVE'')', '22023'),
('convert_pool(pool => ''d1'', type => repeat(''x'', 100000))', '22023'), ('convert_pool(pool => ''d1'', type => ''shared'')', '22023'),
('convert_pool(pool => ''d1'', type => ''dedicated'')', '22023 ok'), ('convert_pool(pool => ''c1-gpu'', type => ''dedicated'')', '22023'),
('convert_pool(pool => ''c1-gpu'', type => ''shared'')', '22023'), ('convert_pool(pool => ''d1'', type => ''exclusive'')', 'ok'),
('convert_pool(pool => ''e0'', type => ''dedicated'')', 'ok'),
('rename_pool(pool => ''d1'', name => ''d2'')', '42710'), ('rename_pool(pool => ''d1'', name => '' d2 '')', '42710'),
('rename_pool(pool => ''d1'', name => ''c1-gpu'')', '42710'), ('rename_pool(pool => ''c1-gpu'', name => ''d1'')', '42710'),
('rename_pool(pool => ''d1'', name => ''d1'')', 'ok 22023 42710'), ('rename_pool(pool => ''d1'', name => ''fp'')', 'ok'),
('rename_pool(pool => ''d1'', name => ''acme/d9'')', '22023'),
('delete_pool(pool => ''c1-gpu'')', '22023'), ('delete_pool(pool => ''c1-gpu'', force => true)', '22023'),
('delete_pool(pool => ''d1'', force => NULL)', 'RQ006'), ('delete_pool(pool => ''e0'')', 'RQ006'), ('delete_pool(pool => ''e0'', force => true)', 'ok'),
-- moves
('move_nodes(to_pool => ''d1'')', '22023'), ('move_nodes(nodes => ''{n3}'', count => 1, from_pool => ''d1'', to_pool => ''d2'')', '22023'),
('move_nodes(count => 1, to_pool => ''d2'')', '22023'), ('move_nodes(count => 0, from_pool => ''d1'', to_pool => ''d2'')', '22023'),
('move_nodes(count => -1, from_pool => ''d1'', to_pool => ''d2'')', '22023'),
('move_nodes(count => -2147483648, from_pool => ''d1'', to_pool => ''d2'')', '22023'),
('move_nodes(count => 2147483647, from_pool => ''d1'', to_pool => ''d2'')', 'RQ005 RQ006 22023'),
('move_nodes(count => 4, from_pool => ''d1'', to_pool => ''d2'')', 'RQ005 RQ006'),
('move_nodes(count => 2, from_pool => ''d1'', to_pool => ''d2'')', 'RQ005 RQ006'), ('move_nodes(count => 1, from_pool => ''d1'', to_pool => ''d2'')', 'ok'),
('move_nodes(count => 4, from_pool => ''d1'', to_pool => ''c1-gpu'')', 'RQ005 RQ006'), ('move_nodes(count => 4, from_pool => ''d1'', to_pool => ''c1-gpu'', evacuate => true)', 'RQ005 RQ006'),
('move_nodes(count => 3, from_pool => ''d1'', to_pool => ''c1-gpu'', evacuate => true)', 'RQ005 RQ006'), ('move_nodes(count => 100000, from_pool => ''d1'', to_pool => ''d2'', evacuate => true)', 'RQ005 RQ006'),
('move_nodes(count => 1, from_pool => ''d1'', to_pool => ''d1'')', '22023'), ('move_nodes(nodes => ''{n3}'', to_pool => ''d1'')', '22023 RQ005 RQ006'),
('move_nodes(nodes => ''{n3}'', from_pool => ''d2'', to_pool => ''e0'')', '22023 RQ005 RQ006'),
('move_nodes(nodes => ''{n1}'', to_pool => ''d2'')', 'RQ006 RQ005'), ('move_nodes(nodes => ''{n1}'', to_pool => ''d2'', evacuate => true)', 'ok'),
('move_nodes(nodes => ''{n3,n4}'', to_pool => ''d2'')', '22023 RQ005 RQ006'), ('move_nodes(nodes => ''{far}'', to_pool => ''d1'')', '22023 RQ005'),
('move_nodes(nodes => ''{k1}'', to_pool => ''d1'')', '22023 RQ005'), ('move_nodes(nodes => ''{o1}'', to_pool => ''d1'')', '22023 RQ003 RQ005'),
('move_nodes(nodes => ''{n3}'', to_pool => ''c2-gpu'')', '22023 RQ005'), ('move_nodes(nodes => ''{n3}'', to_pool => ''c1-cpu'')', '22023 RQ005'),
('move_nodes(nodes => ''{n3}'', to_pool => ''c1-gpu'')', 'ok'), ('move_nodes(count => 1, from_pool => ''d1'', to_pool => ''d2'', instance_type => ''odd'')', '22023 RQ003 RQ005'),
('move_nodes(count => 2, from_pool => ''c1-gpu'', to_pool => ''d1'', instance_type => ''g8'')', 'RQ005 RQ006'),
('move_nodes(count => 1, from_pool => ''c1-gpu'', to_pool => ''d1'', instance_type => ''g8'')', 'ok'),
('drain_node(node => ''n3'')', 'ok'), ('drain_node(node => ''n1'')', 'ok');
-- Executors.
INSERT INTO t.try (call, states)
SELECT format('sync_node(node => ''n1'', running => %s)', v), s FROM (VALUES ('NULL', 'ok'), ('''{}''', 'ok'), ('''{NULL}''', '22023 ok'), ('''{0}''', 'ok 22023'),
	('''{-1,999999}''', 'ok 22023'), ('''{9223372036854775807}''', 'ok'), ('''{9223372036854775808}''', '22003'), ('''{x}''', '22P02'), ('''{1.5}''', '22P02'),
	(format('ARRAY[%s, %s]', :pod1, :pod1), 'ok 22023'), (format('''{{%s}}''', :pod1), 'ok 22023'), ('ARRAY(SELECT generate_series(1000000, 1020000))', 'ok 22023')) x (v, s)
UNION ALL
SELECT format('sync_node(node => ''n1'', finished => %L)', replace(v, 'POD', :'pod1')), s FROM (VALUES ('[]', 'ok'), ('null', 'ok 22023'), ('{}', '22023'), ('1', '22023'), ('"x"', '22023'),
	('[1]', '22023'), ('[null]', '22023'), ('[[]]', '22023'), ('[{}]', '22023'), ('[{"pod": POD}]', '22023'), ('[{"outcome": "failed"}]', '22023'),
	('[{"pod": null, "outcome": "failed"}]', '22023'), ('[{"pod": "x", "outcome": "failed"}]', '22023 22P02'), ('[{"pod": 1.5, "outcome": "failed"}]', '22023 22P02'),
	('[{"pod": 1e30, "outcome": "failed"}]', '22023 22003 22P02'), ('[{"pod": 9223372036854775808, "outcome": "failed"}]', '22023 22003'), ('[{"pod": {}, "outcome": "failed"}]', '22023 22P02'),
	('[{"pod": POD, "outcome": null}]', '22023'), ('[{"pod": POD, "outcome": "nonsense"}]', '22023'), ('[{"pod": POD, "outcome": 1}]', '22023'),
	('[{"pod": POD, "outcome": "failed", "node_fault": "perhaps"}]', '22023 22P02'), ('[{"pod": POD, "outcome": "failed", "detail": {"a": 1}}]', 'ok 22023'),
	('[{"pod": POD, "outcome": "failed"}, {"pod": POD, "outcome": "succeeded"}]', 'ok 22023'), ('[{"pod": POD, "outcome": "failed", "detail": null}]', 'ok'),
	('[{"pod": 999999, "outcome": "failed"}]', 'ok'), ('[{"pod": POD, "outcome": "failed", "detail": "o''clock \" \\ %s"}]', 'ok'), ('[{"pod": POD', '22P02')) x (v, s)
UNION ALL
SELECT format('sync_node(node => ''n1'', running => ''{%s}'', finished => ''[{"pod": %s, "outcome": "failed"}]'')', :pod1, :pod1), 'ok 22023'
UNION ALL
SELECT format('sync_node(node => ''n1'', capacity => %L)', v), s FROM (VALUES (NULL, 'ok'), ('gpu=8', 'ok'), ('gpu=4', 'ok'), ('gpu=0', 'ok'), ('gpu=1000', 'ok'), ('', 'ok 22023'),
	('gpu=-1', '22023'), ('gpu=8,cpu=-1', '22023'), ('gpu=1.5', '22023 ok'), ('gpu=NaN', '22P02'), ('gpu=1e30', '22P02 22003'), ('quux=1', 'ok 22023'), ('gpu', '22P02')) x (v, s)
UNION ALL
SELECT format('requeue(workload => %s)', v), s FROM (VALUES ('NULL', '22023'), ('0', '42704'), ('-1', '42704'), ('999999', '42704'), ('9223372036854775807', '42704'), ('1.5', '42883'),
	(:'draft', 'RQ008 ok'), (:'queued', 'RQ008 ok'), (:'w1', 'ok')) x (v, s)
UNION ALL
SELECT format('requeue(workload => %s, delay => %s)', :w1, v), s FROM (VALUES ('NULL', 'ok'), ('''0''', 'ok'), ('''1 h''', 'ok'), ('''-1 s''', '22023'), ('''-1 mon 20 days''', '22023'),
	('''10000000 years''', '22008 22023'), ('''x''', '22007')) x (v, s)
UNION ALL SELECT format('requeue(workload => %s, reason => %s)', :w1, v), 'ok' FROM unnest(ARRAY['NULL', '''''', '''o''''clock''', 'repeat(''x'', 10000)']) v
UNION ALL
SELECT format('rename_pool(pool => ''d1'', name => %s)', v), '22023' FROM unnest(ARRAY['NULL', '''''', '''   ''', 'repeat(''x'', 64)', 'repeat(''x'', 1000000)', 'E''a\nb''', 'E''a\tb''',
	'E''\x7f''', 'U&''a\200Bb''', 'U&''\202Ea''', '''a/b''', '''/''']) v;
SET rpq.account = 'acme/boss';
SELECT is(t.judge('SELECT * FROM rpq.' || call, states), 'right', left(call, 150)) FROM t.try ORDER BY n;

-- A node named twice is one node, or refused.
BEGIN;
SELECT t.outcome('SELECT rpq.resize_pool(pool => ''d1'', add_nodes => ''{n6,n6}'')') AS twice \gset
SELECT t.gpu(total) AS total FROM rpq.pools WHERE name = 'd1' \gset
ROLLBACK;
SELECT is(:'total'::numeric, CASE :'twice' WHEN 'ok' THEN 32 ELSE 24 END::numeric, 'a node named twice comes once');

-- ---- the order of refusals: an open operation before arguments, whole machines, usage, source -------------------------
SELECT is(t.outcome('SELECT rpq.resize_pool(pool => ''d1'', quota => ''gpu=4'')'), 'RQ003', 'whole machines before usage');
SELECT is(t.outcome('SELECT rpq.resize_pool(pool => ''d1'', quota => ''gpu=4000001'')'), 'RQ003', 'whole machines before the source');
SET rpq.synchronous_operations = off;
SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=32') AS op \gset
SELECT is((SELECT status FROM rpq.pools WHERE name = 'd1'), 'updating', 'd1 is updating');
CREATE FUNCTION t.refusal(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' ', SQLSTATE, SQLERRM, detail);
END $$;
SELECT is(left(t.refusal('SELECT rpq.' || call), 5), state, 'while it is open: ' || call)
FROM (VALUES ('resize_pool(pool => ''d1'', quota => ''gpu=32'')', 'RQ004'), ('resize_pool(pool => ''d1'', quota => ''gpu=20'')', 'RQ004'), ('resize_pool(pool => ''d1'', quota => ''gpu=0'')', 'RQ004'),
	('resize_pool(pool => ''d1'', quota => ''cpu=1'')', 'RQ004'), ('convert_pool(pool => ''d1'', type => ''exclusive'')', 'RQ004'), ('convert_pool(pool => ''d1'', type => ''nonsense'')', 'RQ004'),
	('rename_pool(pool => ''d1'', name => ''d9'')', 'RQ004'), ('rename_pool(pool => ''d1'', name => ''a/b'')', 'RQ004'), ('rename_pool(pool => ''d1'', name => ''d2'')', 'RQ004'),
	('delete_pool(pool => ''d1'')', 'RQ004'), ('delete_pool(pool => ''d1'', force => true)', 'RQ004'), ('move_nodes(nodes => ''{n3}'', to_pool => ''d2'')', 'RQ004'),
	('move_nodes(count => 1, from_pool => ''d2'', to_pool => ''d1'')', 'RQ004'), ('resize_pool(pool => ''d2'', quota => ''gpu=24'', source => ''d1'')', 'RQ004'),
	('resize_pool(pool => ''d2'', quota => ''gpu=8'', target => ''d1'')', 'RQ004'), ('drain_node(node => ''n1'')', 'RQ004'), ('drain_node(node => ''n3'')', 'RQ004'),
	('resize_pool(pool => ''d9'', quota => ''gpu=0'')', '42704'), ('resize_pool(pool => ''beta/fp'', quota => ''gpu=0'')', '42704')) v (call, state);
SELECT is(t.refusal('SELECT rpq.resize_pool(pool => ''d1'', quota => ''gpu=32'')') ~ ('\m' || :'op' || '\M'), true, 'the refusal names the open operation');
SELECT is((SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')), 1::bigint, 'one operation is open');
-- the shared pool is not held, and what is immediate goes on
SELECT is(t.refusal('SELECT rpq.' || call), 'ok', 'meanwhile: ' || call)
FROM unnest(ARRAY['rename_pool(pool => ''c1-gpu'', name => ''all'')', 'edit_pool(pool => ''d1'', description => ''x'')', 'authorize(pool => ''d1'', accounts => ''{u2}'')',
	'cordon_node(node => ''n3'')', 'uncordon_node(node => ''n3'')', 'set_node_health(node => ''n3'', health => ''degraded'')', 'set_node_health(node => ''n3'', health => ''healthy'')']) call;
RESET rpq.account;
SELECT rpq.submit(pool => 'acme/d1', workload_type => 'training', resources => 'gpu=1', account => 'acme/u1') AS more \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:more), 'running', 'an updating pool goes on admitting');
-- n6 goes away before it is carried out: failed, unchanged; tried again when it is back
SELECT rpq.cordon_node(node => 'acme/n6') AS x \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT status || ' ' || error_code FROM rpq.operations WHERE operation_id = :op), 'failed RQ005', 'checked again when it is carried out');
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'd1'), 'failed 24', 'the pool is failed, else unchanged');
SELECT rpq.submit(pool => 'acme/d1', workload_type => 'training', resources => 'gpu=1', account => 'acme/u1') AS more \gset
SELECT t.pass() AS x \gset
SELECT is(t.status(:more), 'running', 'a failed pool goes on admitting');
SELECT rpq.uncordon_node(node => 'acme/n6') AS x \gset
SELECT rpq.retry_operation(id => :op) AS again \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT string_agg(status, ' ' ORDER BY operation_id) FROM rpq.operations WHERE operation_id IN (:op, :again)), 'failed succeeded', 'tried again, as a new operation');
SELECT is((SELECT status || ' ' || t.gpu(total) FROM rpq.pools WHERE name = 'd1'), 'ready 32', 'ready with 32');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE operation_id = :op), 0::bigint, 'what failed has no row in the history');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE operation_id = :again AND object_kind = 'pool'), 1::bigint, 'what succeeded has one');
-- Two renames to one name.
SELECT rpq.rename_pool(pool => 'acme/d1', name => 'same') AS r1 \gset
SELECT left(t.refusal('SELECT rpq.rename_pool(pool => ''acme/d2'', name => ''same'')'), 5) AS r2 \gset
SELECT rpq.run_operations() AS x \gset
SELECT is((SELECT count(*) FROM rpq.pools WHERE name = 'same'), 1::bigint, 'of two renames to one name one comes true');
SELECT is((SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')), 0::bigint, 'nothing is open');
SELECT is((SELECT string_agg(n, ',') FROM (SELECT DISTINCT status AS n FROM rpq.pools WHERE tenant = 'acme' ORDER BY 1) x) ~ '^(failed,)?ready$', true, 'every pool is ready, or failed for the name');
SELECT * FROM t.whole();
SELECT * FROM finish();

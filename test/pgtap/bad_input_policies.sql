-- Bad input for policies, profiles, queues and what submits into them: every argument with values that no caller should
-- give.  It is refused with a SQLSTATE of the contract and stores nothing, or is one that may succeed.  Each call is
-- undone, so that all start from the same state.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_tenant('beta') AS x, rpq.create_account('u9', tenant => 'beta') AS a, rpq.create_user_group('foreign', tenant => 'beta') AS y,
	   rpq.create_user_group('g', tenant => 'acme') AS z, rpq.create_user_group('h', tenant => 'acme') AS v \gset
SELECT rpq.add_nodes('g8', names => '{n1,n2,n3}', tenant => 'acme') AS x, rpq.add_nodes('g8', names => '{b1}', tenant => 'beta') AS y \gset
SELECT rpq.create_pool(p, 'dedicated', quota => 'gpu=8', tenant => 'acme') AS x FROM unnest('{p1,p2}'::text[]) p \g /dev/null
SELECT rpq.create_pool('e1', 'exclusive', quota => 'gpu=8', tenant => 'acme') AS e, rpq.create_pool('foreign', 'dedicated', quota => 'gpu=8', tenant => 'beta') AS x,
	   rpq.add_to_group('acme/g', '{u1}') AS y, rpq.add_to_group('beta/foreign', '{u9}') AS z \gset
SELECT rpq.create_profile('f', 'gpu=4', '{p1,p2}', 'acme') AS x, rpq.create_profile('open', 'gpu=2', '{p1}', 'acme') AS y, rpq.create_profile('idle', 'gpu=1', '{p2}', 'acme') AS z,
	   rpq.create_profile('foreign', 'gpu=1', '{foreign}', 'beta') AS v, rpq.provision_profiles('acme') AS w, rpq.provision_profiles('beta') AS u \gset
SELECT rpq.create_policy('y', 'g', 'gpu=4', 'gpu=8', tenant => 'acme') AS x, rpq.create_policy('z', 'g', tenant => 'acme') AS y,
	   rpq.create_policy('foreign', 'foreign', tenant => 'beta') AS z, rpq.connect_profile('acme/y', 'f', 'q') AS v,
	   rpq.connect_profile('beta/foreign', 'foreign', 'foreign') AS w \gset
SELECT rpq.submit(queue => 'acme/q', workload_type => 'training', account => 'acme/u1', draft => true) AS draft,
	   rpq.submit(queue => 'beta/foreign', workload_type => 'training', account => 'beta/u9', draft => true) AS theirs \gset
-- Something is saved and not in force, which reset and provision would change.
SELECT rpq.edit_profile('acme/idle', resources => 'gpu=2') AS x \gset
CREATE ROLE bad_policies;
SELECT rpq.create_account('boss', 'bad_policies', org_admin => true, tenant => 'acme') AS x \gset

-- ---- bad values by kind of argument ---------------------------------------------------------------------------------
CREATE TABLE t.bad (kind text, value text, states text);
INSERT INTO t.bad
SELECT 'new', v, '22023' FROM unnest(ARRAY['NULL', '''''', '''   ''', 'repeat(''x'', 64)', 'E''a\nb''',
	'E''\x7f''', 'U&''a\200Bb''', 'U&''\202Ea''', '''a/b''', '''/''']) v
UNION ALL SELECT 'new', v, 'ok' FROM unnest(ARRAY['repeat(''x'', 63)', '''o''''clock "%s{}\''', ''' x ''']) v
UNION ALL SELECT 'name', v, '22023 42704' FROM unnest(ARRAY['''''', '''   ''', 'repeat(''x'', 64)', '''o''''clock "''',
	'E''a\nb''', '''nobody''', '''nix/nobody''', '''/''', '''acme/''', '''acme/f/x''', '''ACME/F''', '''-1''', '''foreign''', '''beta/foreign''']) v
UNION ALL SELECT 'tenant', v, '22023 42704' FROM unnest(ARRAY['''''', '''  ''', '''nix''', '''beta''', 'repeat(''x'', 64)', 'E''\n''']) v
UNION ALL SELECT 'pools', v, '22023 42704' FROM unnest(ARRAY['''{NULL}''', '''{""}''', '''{" "}''', '''{nobody}''', '''{p1,NULL}''', '''{p1,nobody}''', '''{foreign}''',
	'''{beta/foreign}''', '''{p1,beta/foreign}''', 'ARRAY[repeat(''x'', 64)]', 'E''{"a\nb"}''', '''{{p1},{nobody}}''', '''{p1/x}''', '''{-1}''', '''{"p1; DROP TABLE t; --"}''']) v
UNION ALL SELECT 'pools', v, 'ok' FROM unnest(ARRAY['''{}''', '''{p1,p1,acme/p1}''', '''{{p1},{p2}}''', '''{p2,p1,e1,c1-gpu}''']) v
UNION ALL SELECT 'amount', v, '22P02 22003 22023' FROM unnest(ARRAY['''gpu=-1''', '''gpu=NaN''', '''gpu=Infinity''', '''gpu=1e30''', '''gpu=9223372036854775808''',
	'''gpu=439208192231180''', '''gpu=1/11''', '''gpu=0.0001''', '''gpu''', '''gpu=1,gpu=1''', '''GPU=1''',
	'''' || repeat('x', 64) || '=1''', '''g"pu=1''', '''cpu=1,gpu=-1''', '''gpu=-439208192231179''']) v
UNION ALL SELECT 'size', v, '22023' FROM unnest(ARRAY['''''', '''gpu=0''', '''gpu=1.5''', '''gpu=3/2''', '''gpu=1,cpu=0''', '''gpu=439208192231178.5''']) v
UNION ALL SELECT 'size', v, 'ok' FROM unnest(ARRAY['''gpu=1/7''', '''gpu=0.5''', '''quux=1''', '''gpu=439208192231179''',
	'''' || (SELECT string_agg('k' || i || '=1', ',') FROM generate_series(1, 200) i) || '''']) v
UNION ALL SELECT 'reserved', v, '22023 RQ002' FROM unnest(ARRAY['''gpu=9''', '''gpu=439208192231179''', '''quux=1''', '''gpu=4,cpu=1000000''']) v
UNION ALL SELECT 'reserved', v, 'ok' FROM unnest(ARRAY['''''', '''gpu=0''', '''gpu=1/7''', '''gpu=1.5''', '''gpu=0,quux=0''']) v
UNION ALL SELECT 'capped', v, 'ok' FROM unnest(ARRAY['''''', '''gpu=439208192231179''', '''gpu=9.5''', '''quux=0''',
	'''gpu=8,' || (SELECT string_agg('k' || i || '=1', ',') FROM generate_series(1, 200) i) || '''']) v
UNION ALL SELECT 'capped', v, '22023' FROM unnest(ARRAY['''gpu=0''', '''gpu=3''']) v
UNION ALL SELECT 'word', v, '22023' FROM unnest(ARRAY['''''', '''  ''', '''nonsense''', '''HOLD''', '''Backfill''', ''' lend''', 'repeat(''x'', 10000)', '''o''''clock''', 'E''\n''']) v
UNION ALL SELECT 'clear', v, '22023' FROM unnest(ARRAY['''{nonsense}''', '''{NULL}''', '''{""}''', '''{name}''', '''{pools,NULL}''', '''{POOLS}''', '''{{description},{NULL}}''']) v
UNION ALL SELECT 'text', v, 'ok' FROM unnest(ARRAY['''''', '''  ''', '''o''''clock "x" \ %s''', 'E''a\nb''', 'repeat(''x'', 10000)']) v
UNION ALL SELECT 'text', 'repeat(''x'', 10001)', '22023'
UNION ALL SELECT 'json', v, '22023' FROM unnest(ARRAY['''[]''', '''1''', '''"x"''', '''null''']) v
UNION ALL SELECT 'json', v, '22P02' FROM unnest(ARRAY['''{''', '''''', '''{"a": NaN}''']) v
UNION ALL SELECT 'interval', v, '22023' FROM unnest(ARRAY['''-1 s''', '''-1 mon 20 days''']) v
UNION ALL SELECT 'interval', v, '22007 22008 22015 22P02' FROM unnest(ARRAY['''x''', '''1e30 years''', '''NaN''']) v
UNION ALL SELECT 'interval', v, 'ok 22023' FROM unnest(ARRAY['''0''', '''178000000 years''', '''1 microsecond''', '''1 mon -1 day''']) v
UNION ALL SELECT 'bool', v, '22P02' FROM unnest(ARRAY['''maybe''', '''''', '''2''']) v
UNION ALL SELECT 'count', v, '22023 RQ002' FROM unnest(ARRAY['0', '-1', '-2147483648', '2147483647', '100001', '100000']) v
UNION ALL SELECT 'int', v, '22023' FROM unnest(ARRAY['-1', '101', '-2147483648', '2147483647']) v
UNION ALL SELECT 'int', v, '22003 22P02' FROM unnest(ARRAY['''2147483648''', '''NaN''', '''1e30''', '''1.5''']) v
UNION ALL SELECT 'id', v, '22023 42704' FROM unnest(ARRAY['NULL', '0', '-1', '999999', '9223372036854775807', '-9223372036854775808', :'theirs']) v
UNION ALL SELECT 'required', 'NULL', '22023'
UNION ALL SELECT 'optional', 'NULL', 'ok';
INSERT INTO t.bad SELECT 'rename', value, states FROM t.bad WHERE kind = 'new' AND value <> 'NULL'
UNION ALL SELECT 'tenant-x', value, states FROM t.bad WHERE kind = 'tenant'
UNION ALL SELECT 'type', value, states || ' RQ001' FROM t.bad WHERE kind = 'name';

-- ---- the calls: name|good literal|kinds of bad values, with ;; between; - leaves the argument out -----------------------
CREATE TABLE t.plain (n int GENERATED ALWAYS AS IDENTITY, function text, args text);
INSERT INTO t.plain (function, args) VALUES
('create_profile', 'name|''new-x''|new;;resources|''gpu=1''|amount size required;;pools|''{p1}''|pools required;;tenant|''acme''|tenant optional'),
('edit_profile', 'profile|''f''|name required;;name|''new-x''|rename optional;;resources|''gpu=1''|amount size optional;;pools|''{p1}''|pools optional;;tenant|''acme''|tenant-x optional'),
('edit_profile', 'profile|''f''|name required;;clear|''{pools}''|clear optional'),
('delete_profile', 'profile|''open''|name required'),
('validate_profiles', 'tenant|''acme''|tenant optional'),
('provision_profiles', 'tenant|''acme''|tenant optional'),
('reset_profiles', 'tenant|''acme''|tenant optional'),
('create_policy', 'name|''new-x''|new;;user_group|''g''|name required;;reservation|''gpu=8''|amount optional;;usage_limit|''gpu=16''|amount optional;;lending|''hold''|word optional;;description|''d''|text optional;;tenant|''acme''|tenant optional'),
('edit_policy', 'policy|''y''|name required;;name|''new-x''|rename optional;;user_group|''h''|name optional;;reservation|-|amount reserved optional;;lending|''hold''|word optional;;description|''d''|text optional;;tenant|''acme''|tenant-x optional'),
('edit_policy', 'policy|''y''|name required;;usage_limit|''gpu=8''|amount capped optional'),
('edit_policy', 'policy|''y''|name required;;clear|''{reservation,usage_limit,description}''|clear optional'),
('delete_policy', 'policy|''y''|name required'),
('connectable_profiles', 'policy|''y''|name required'),
('connect_profile', 'policy|''y''|name required;;profile|''open''|name required;;queue|''new-x''|new'),
('disconnect_profile', 'policy|''y''|name required;;profile|''f''|name required'),
('set_pod_template', 'queue|''q''|name required;;template|''{}''|json optional'),
('edit_pool', 'pool|''p1''|name required;;queueing|''best_effort''|word optional;;min_runtime|''1 s''|interval optional'),
('edit_pool', 'pool|''e1''|name required;;idle_time_sharing|true|bool optional;;clear|-|clear'),
('submit', 'queue|''q''|name required;;workload_type|''training''|type required;;replicas|1|count optional;;priority|50|int optional;;guarantee|true|bool optional;;max_runtime|''1 s''|interval optional;;name|''w''|rename;;request_id|''r''|rename;;labels|''{}''|json optional;;spec|''{}''|json optional;;draft|false|bool optional'),
('enqueue', 'workload|DRAFT|id;;queue|''q''|name optional');
UPDATE t.bad SET states = states || ' ok' WHERE kind = 'rename' AND states = '22023';
CREATE TABLE t.call AS
	SELECT n, function, (SELECT array_agg(string_to_array(a, '|') ORDER BY o) FROM regexp_split_to_table(replace(args, 'DRAFT', :'draft'), ';;')
		WITH ORDINALITY x (a, o)) AS args FROM t.plain;
CREATE TABLE t.made AS
SELECT c.n, c.function, 'good' AS description, format('SELECT * FROM rpq.%I(%s)', c.function, (SELECT string_agg(format('%I => %s', c.args[i][1], c.args[i][2]), ', ')
	FROM generate_subscripts(c.args, 1) i WHERE c.args[i][2] <> '-')) AS command, 'ok' AS states FROM t.call c
UNION ALL
SELECT c.n, c.function, c.args[j][1] || ' => ' || b.value,
	   format('SELECT * FROM rpq.%I(%s)', c.function, (SELECT string_agg(format('%I => %s', c.args[i][1], CASE WHEN i = j THEN b.value ELSE c.args[i][2] END), ', ')
			  FROM generate_subscripts(c.args, 1) i WHERE i = j OR c.args[i][2] <> '-')), b.states
FROM t.call c, generate_subscripts(c.args, 1) j, LATERAL regexp_split_to_table(c.args[j][3], ' ') kind JOIN t.bad b USING (kind);
-- By an organisation admin, but for what an account submits.
CREATE FUNCTION t.judge_as(account_name text, command text, states text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.account', account_name, false);
	RETURN t.judge(command, states);
END $$;
SELECT is(t.judge_as(CASE WHEN function IN ('submit', 'enqueue') THEN 'acme/u1' ELSE 'acme/boss' END, command, states), 'right',
		  format('%s: %s', function, left(description, 80)))
FROM t.made ORDER BY n, description = 'good' DESC, description;
RESET rpq.account;
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Bad input: every argument of every function with values that no caller should give.  A call is made of its good
-- arguments with one of them replaced; it must be refused with a SQLSTATE of the contract and store nothing, or be one
-- that is allowed to succeed.  Each call is undone, so that all start from the same state.
\ir ../lib/cases.sql
SELECT * FROM no_plan();

-- ---- the state ------------------------------------------------------------------------------------------------------
SELECT rpq.create_tenant(name => 'acme') AS x, rpq.create_tenant(name => 'beta') AS y \gset
SELECT rpq.create_cluster(name => 'c1', region => 'north') AS x \gset
SELECT rpq.create_instance_type(name => 'g8', kind => 'gpu', capacity => 'gpu=8,cpu=192,memory=2Ti') AS x \gset
SELECT rpq.create_account(name => 'u1', tenant => 'acme') AS x, rpq.create_account(name => 'u2', tenant => 'acme') AS y,
	   rpq.create_account(name => 'foreign', tenant => 'beta') AS z \gset
SELECT rpq.create_user_group(name => 'g', tenant => 'acme') AS x, rpq.create_user_group(name => 'foreign', tenant => 'beta') AS y \gset
SELECT rpq.create_project_group(name => 'pg', tenant => 'acme') AS x,
	   rpq.create_project_group(name => 'foreign', tenant => 'beta') AS y \gset
SELECT rpq.create_workload_type(name => 'render', tenant => 'acme') AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}', tenant => 'acme') AS x,
	   rpq.add_nodes(instance_type => 'g8', names => '{foreign,f2}', tenant => 'beta') AS y \gset
SELECT rpq.create_pool(name => 'p1', type => 'dedicated', quota => 'gpu=16', tenant => 'acme') AS operation \gset
SELECT rpq.create_pool(name => 'foreign', type => 'dedicated', quota => 'gpu=8', tenant => 'beta') AS x \gset
SELECT rpq.authorize(pool => 'acme/p1', accounts => '{u1}') AS x, rpq.authorize(pool => 'beta/foreign', accounts => '{foreign}') AS y \gset
SELECT rpq.submit(pool => 'acme/p1', workload_type => 'training', resources => 'gpu=2', account => 'acme/u1') AS placed \gset
SELECT t.pass() AS x \gset
SELECT rpq.submit(pool => 'acme/p1', workload_type => 'training', resources => 'gpu=2', account => 'acme/u1') AS queued,
	   rpq.submit(pool => 'acme/p1', workload_type => 'training', resources => 'gpu=2', account => 'acme/u1', draft => true) AS draft,
	   rpq.submit(pool => 'beta/foreign', workload_type => 'training', resources => 'gpu=2', account => 'beta/foreign') AS foreign \gset
CREATE ROLE bad_admin;
CREATE ROLE bad_other;
SELECT rpq.create_account(name => 'admin', db_role => 'bad_admin', org_admin => true, tenant => 'acme') AS x \gset

-- ---- bad values by kind of argument ---------------------------------------------------------------------------------
-- states: what may come of it; ok among them when success is right too.
CREATE TABLE t.bad (kind text, value text, states text);
INSERT INTO t.bad
-- names of things to be made
SELECT 'new', v, '22023' FROM unnest(ARRAY['NULL', '''''', '''   ''', 'repeat(''x'', 64)', 'repeat(''x'', 1000000)', 'E''a\nb''', 'E''a\tb''',
	'E''\x01''', 'E''\x7f''', 'U&''a\200Bb''', 'U&''\202Ea''', '''a/b''', '''/''']) v
UNION ALL SELECT 'new', v, 'ok' FROM unnest(ARRAY['repeat(''x'', 63)', '''a"b''', '''o''''clock''', ''' x ''', '''日本語''', '''%s{}\''']) v
-- names of things that should be there
UNION ALL SELECT 'name', v, '22023 42704' FROM unnest(ARRAY['''''', '''   ''', 'repeat(''x'', 63)', 'repeat(''x'', 64)',
	'repeat(''x'', 1000000)', '''a"b''', '''o''''clock''', '''x; DROP TABLE t; --''', 'E''a\nb''', '''nobody''', '''acme/nobody''',
	'''nix/nobody''', '''/''', '''acme/''', '''/p1''', '''acme/p1/x''', '''ACME/P1''', '''0''', '''-1''', '''NaN''', '''foreign''', '''beta/foreign''',
	'''%s{}\''']) v
UNION ALL SELECT 'tenant', v, '22023 42704' FROM unnest(ARRAY['''''', '''  ''', '''nix''', '''beta''', 'repeat(''x'', 64)', 'E''\n''']) v
-- ids
UNION ALL SELECT 'id', v, '22023 42704' FROM unnest(ARRAY['NULL', '0', '-1', '999999', '9223372036854775807', '-9223372036854775808']) v
UNION ALL SELECT 'id', v, '22003 22P02' FROM unnest(ARRAY['''9223372036854775808''', '''NaN''', '''1e30''', '''x''']) v
UNION ALL SELECT 'id', v, '22003 42883' FROM unnest(ARRAY['9223372036854775808', '1e30', '1.5']) v
UNION ALL SELECT 'foreign', v, '42704' FROM unnest(ARRAY[:'foreign']) v
-- numbers, with the range that each argument has below
UNION ALL SELECT 'int', v, '22023' FROM unnest(ARRAY['-1', '-2147483648', '2147483647']) v
UNION ALL SELECT 'int', v, '22003 22P02' FROM unnest(ARRAY['''2147483648''', '''9223372036854775808''', '''NaN''', '''Infinity''', '''1e30''', '''1.5''']) v
UNION ALL SELECT 'zero', '0', '22023'
UNION ALL SELECT 'bool', v, '22P02' FROM unnest(ARRAY['''maybe''', '''''']) v
-- amounts
UNION ALL SELECT 'amount', v, '22P02 22003 22023' FROM unnest(ARRAY['''gpu=-1''', '''gpu=NaN''', '''gpu=Infinity''', '''gpu=1e30''',
	'''gpu=9223372036854775808''', '''gpu=439208192231180''', '''gpu=1/11''', '''gpu=0.0001''', '''gpu''', '''=1''', '''gpu=1,gpu=1''', '''GPU=1''',
	'''gpu=''', '''   ,''', 'E''gpu=1\n;''', '''' || repeat('x', 64) || '=1''', '''g"pu=1''']) v
UNION ALL SELECT 'request', v, '22023 RQ007 RQ002' FROM unnest(ARRAY['NULL', '''''', '''gpu=0''', '''gpu=1.5''', '''gpu=7.5''', '''gpu=9''', '''gpu=1000000''',
	'''quux=1''', '''gpu=1,quux=1''', '''gpu=1,cpu=193''', '''memory=3Ti''']) v
UNION ALL SELECT 'machines', v, '22023 RQ003 RQ005' FROM unnest(ARRAY['''gpu=1''', '''gpu=7.5''', '''gpu=12''', '''gpu=8000000''', '''cpu=120''', '''gpu=8,cpu=1''',
	'''quux=8''', '''gpu=439208192231176''']) v
UNION ALL SELECT 'capacity', v, '22023' FROM unnest(ARRAY['NULL', '''''', '''gpu=0''', '''gpu=1.5''', '''cpu=8''', '''gpu=-8''']) v
-- arrays of names
UNION ALL SELECT 'names', v, '22023 42704' FROM unnest(ARRAY['NULL', '''{}''', '''{NULL}''', '''{"",u1}''', '''{" "}''', '''{nobody}''', '''{u1,NULL}''', '''{u1,nobody}''',
	'''{foreign}''', '''{beta/foreign}''', 'ARRAY[repeat(''x'', 64)]', 'E''{"a\nb"}''', '''{{u1},{nobody}}''']) v
UNION ALL SELECT 'types', v, '22023 42704 RQ007' FROM unnest(ARRAY['''{}''', '''{NULL}''', '''{""}''', '''{nobody}''', '''{g8,NULL}''', '''{g8,nobody}''']) v
UNION ALL SELECT 'wtypes', v, '22023 42704' FROM unnest(ARRAY['''{NULL}''', '''{""}''', '''{nobody}''', '''{training,NULL}''']) v
UNION ALL SELECT 'fresh', v, '22023' FROM unnest(ARRAY['''{}''', '''{NULL}''', '''{""}''', '''{" "}''', '''{a/b}''', 'ARRAY[repeat(''x'', 64)]', 'E''{"a\nb"}''',
	'''{x,NULL}''']) v
-- a name twice is one node; an array of two dimensions is its elements, or refused
UNION ALL SELECT 'fresh', v, '22023 ok' FROM unnest(ARRAY['''{x,x}''', '''{{x},{y}}''']) v
-- words of a list
UNION ALL SELECT 'word', v, '22023' FROM unnest(ARRAY['''''', '''  ''', '''nonsense''', '''READY''', 'repeat(''x'', 10000)', '''o''''clock''', 'E''\n''']) v
-- times
UNION ALL SELECT 'interval', v, '22023' FROM unnest(ARRAY['''-1 s''', '''0''', '''-1 mon 20 days''']) v
UNION ALL SELECT 'interval', v, '22007 22008 22015 22P02' FROM unnest(ARRAY['''x''', '''1e30 years''']) v
-- free text: anything goes that is text
UNION ALL SELECT 'text', v, 'ok' FROM unnest(ARRAY['''''', '''  ''', '''o''''clock "x" \ %s''', 'E''a\nb''', '''日本語''']) v
UNION ALL SELECT 'json', v, '22023' FROM unnest(ARRAY['''[]''', '''1''', '''"x"''', '''null''']) v
UNION ALL SELECT 'json', v, '22P02' FROM unnest(ARRAY['''{''', '''''']) v
UNION ALL SELECT 'required', 'NULL', '22023'
UNION ALL SELECT 'optional', 'NULL', 'ok';

-- ---- the calls ------------------------------------------------------------------------------------------------------
-- A call: name|good literal|kinds of bad values, with ;; between.  A good literal of - leaves the argument out.
CREATE TABLE t.plain (n int GENERATED ALWAYS AS IDENTITY, function text, args text);
INSERT INTO t.plain (function, args) VALUES
('create_tenant', 'name|''new-x''|new;;description|''d''|text optional'),
('create_cluster', 'name|''new-x''|new;;region|''r''|optional'),
('create_account', 'name|''new-x''|new;;tenant|''acme''|tenant-x;;db_role|-|name;;org_admin|false|bool optional;;gateway|false|bool optional;;executor|false|bool optional;;driver|false|bool optional'),
('edit_account', 'account|''acme/u1''|name-f required;;db_role|-|name;;org_admin|false|bool optional;;name|-|rename optional;;tenant|''acme''|tenant-x;;clear|-|word-array'),
('delete_account', 'account|''acme/u2''|name-f required'),
('create_user_group', 'name|''new-x''|new;;tenant|''acme''|tenant-x'),
('delete_user_group', 'user_group|''acme/g''|name-f required'),
('add_to_group', 'user_group|''acme/g''|name-f required;;accounts|''{u1}''|names'),
('remove_from_group', 'user_group|''acme/g''|name-f required;;accounts|''{u1}''|names'),
('create_project_group', 'name|''new-x''|new;;tenant|''acme''|tenant-x'),
('delete_project_group', 'project_group|''acme/pg''|name-f required'),
('create_workload_type', 'name|''new-x''|new;;tenant|''acme''|tenant-x'),
('delete_workload_type', 'workload_type|''acme/render''|name-f required'),
('create_instance_type', 'name|''new-x''|new;;kind|''gpu''|word required;;capacity|''gpu=8,cpu=96''|amount capacity;;machine_unit|''gpu=8''|amount optional'),
('edit_instance_type', 'instance_type|''g8''|name required;;machine_unit|''gpu=8''|amount optional;;name|-|rename optional;;clear|-|word-array'),
('add_nodes', 'instance_type|''g8''|name required;;names|''{x1}''|fresh;;tenant|''acme''|tenant-x;;cluster|''c1''|name optional;;pool|-|name-f;;labels|''{}''|json optional;;capacity|-|amount optional'),
('add_nodes', 'instance_type|''g8''|name required;;prefix|''x''|word-name;;count|2|int zero;;tenant|''acme''|tenant-x'),
('remove_nodes', 'names|''{acme/n4}''|names-n;;force|false|bool optional'),
('create_pool', 'name|''new-x''|new;;type|''dedicated''|word required;;instance_type|''g8''|name optional;;quota|''gpu=8''|amount machines optional;;tenant|''acme''|tenant-x;;source|-|name-f optional;;cluster|''c1''|name optional;;kind|''gpu''|word optional;;user_default_quota|''gpu=1''|amount optional;;default_priority|50|int optional;;project_group|''pg''|name optional;;workload_types|''{training}''|wtypes optional;;scheduling_policy|''binpack''|word optional;;queueing|''backfill''|word optional;;description|''d''|text optional;;allow_guarantee|true|bool optional;;frozen|false|bool optional;;pay_as_you_go|false|bool optional'),
('create_pool', 'name|''new-x''|new;;type|''exclusive''|word required;;nodes|''{n4}''|names-f;;tenant|''acme''|tenant-x;;faulty_node_rotation|false|bool optional;;idle_time_sharing|false|bool optional'),
('edit_pool', 'pool|''acme/p1''|name-f required;;description|''d''|text optional;;workload_types|''{training}''|wtypes optional;;scheduling_policy|''binpack''|word optional;;queueing|''backfill''|word optional;;default_priority|50|int optional;;user_default_quota|''gpu=1''|amount optional;;project_group|''pg''|name optional;;allow_guarantee|true|bool optional;;frozen|false|bool optional;;min_runtime|''1 s''|interval-0 optional;;clear|''{}''|word-array'),
('edit_pool', 'pool|''acme/p1''|name-f required;;instance_type|''g8''|name optional;;user_default_quota|''gpu=1''|amount optional'),
('resize_pool', 'pool|''acme/p1''|name-f required;;quota|''gpu=24''|amount machines;;instance_type|''g8''|name optional;;source|''acme/c1-gpu''|name-f optional;;target|''acme/c1-gpu''|name-f optional;;evacuate|false|bool optional'),
('resize_pool', 'pool|''acme/p1''|name-f required;;add_nodes|''{n3}''|names-f optional;;remove_nodes|''{n2}''|names-f optional;;evacuate|false|bool optional'),
('move_nodes', 'to_pool|''acme/p1''|name-f required;;nodes|''{acme/n3}''|names-n;;evacuate|false|bool optional'),
('move_nodes', 'to_pool|''acme/p1''|name-f required;;count|1|int zero;;from_pool|''acme/c1-gpu''|name-f;;instance_type|''g8''|name optional;;evacuate|false|bool optional'),
('cordon_node', 'node|''acme/n1''|name-f required;;reason|''r''|text optional'),
('uncordon_node', 'node|''acme/n1''|name-f required'),
('set_node_health', 'node|''acme/n1''|name-f required;;health|''degraded''|word required;;reason|''r''|text optional'),
('grant_pool_admin', 'pool|''acme/p1''|name-f required;;account|''u1''|name-f required'),
('revoke_pool_admin', 'pool|''acme/p1''|name-f required;;account|''u1''|name-f required'),
('selectable_pools', 'workload_type|''acme/training''|name-w required'),
('cancel_operation', 'id|OPERATION|id'),
('retry_operation', 'id|OPERATION|id'),
('authorize', 'pool|''acme/p1''|name-f required;;accounts|''{u2}''|names;;quota|''gpu=1''|amount optional;;instance_type|-|name;;max_priority|50|int optional;;guarantee|true|bool optional'),
('authorize_list', 'pool|''acme/p1''|name-f required;;list|''u2''|list required;;quota|''gpu=1''|amount optional;;max_priority|50|int optional'),
('update_members', 'pool|''acme/p1''|name-f required;;accounts|''{u1}''|names;;quota|''gpu=1''|amount optional;;instance_type|-|name;;max_priority|50|int optional;;config_mode|-|word optional;;guarantee|true|bool optional'),
('deauthorize', 'pool|''acme/p1''|name-f required;;accounts|''{u1}''|names;;stop|false|bool optional'),
('export_members_csv', 'pool|''acme/p1''|name-f required'),
('member_names', 'pool|''acme/p1''|name-f required'),
('submit', 'pool|''acme/p1''|name-f required;;workload_type|''training''|type required;;resources|''gpu=1''|amount request;;instance_types|''{g8}''|types optional;;name|''w''|label optional;;replicas|1|int zero optional;;priority|50|int optional;;guarantee|false|bool optional;;max_runtime|''1 h''|interval optional;;checkpointable|false|bool optional;;on_node_loss|''requeue''|word optional;;request_id|''r''|label optional;;labels|''{}''|json optional;;spec|''{}''|json optional;;draft|false|bool optional;;account|''acme/u1''|name required'),
('enqueue', 'workload|DRAFT|id;;pool|''acme/p1''|name-f optional'),
('edit_workload', 'workload|QUEUED|id;;priority|10|int optional;;name|''x''|label optional;;labels|''{}''|json optional;;max_runtime|''1 h''|interval optional'),
('stop', 'workload|QUEUED|id;;reason|''r''|text optional'),
('delete_workload', 'workload|QUEUED|id'),
('report_started', 'workload|PLACED|id;;attempt|1|int-any optional'),
('report_finished', 'workload|PLACED|id;;attempt|1|int-any optional;;outcome|''failed''|word optional;;detail|''d''|text optional'),
('report_checkpoint', 'workload|PLACED|id;;attempt|1|int-any optional;;detail|''d''|text optional'),
('schedule', 'pool|''acme/p1''|name-f optional;;dry_run|false|bool optional'),
('explain', 'workload|QUEUED|id'),
('node_map', 'pool|''acme/p1''|name-f required'),
('node_map_svg', 'pool|''acme/p1''|name-f required');

-- Kinds that only vary one above.
INSERT INTO t.bad SELECT 'tenant-x', value, states FROM t.bad WHERE kind = 'tenant' AND value <> '''beta''';
INSERT INTO t.bad SELECT 'name-f', value, states || CASE WHEN value ~ 'foreign' THEN ' ok' ELSE '' END FROM t.bad WHERE kind = 'name';
INSERT INTO t.bad SELECT 'names-f', value, states FROM t.bad WHERE kind = 'names' AND value <> 'NULL';
INSERT INTO t.bad SELECT 'rename', value, states FROM t.bad WHERE kind = 'new' AND value <> 'NULL';
INSERT INTO t.bad SELECT 'names-n', value, states || CASE WHEN value ~ 'beta' THEN ' ok' ELSE '' END FROM t.bad WHERE kind = 'names';
INSERT INTO t.bad SELECT 'name-w', value, states || CASE WHEN value ~ 'nobody|foreign|''x|0|-1|NaN|o''''clock|a"b|DROP|%s|ACME|acme|beta' THEN ' ok' ELSE '' END
	FROM t.bad WHERE kind = 'name';
INSERT INTO t.bad SELECT 'type', value, states || ' RQ001' FROM t.bad WHERE kind = 'name';
INSERT INTO t.bad SELECT 'label', value, CASE WHEN value ~ '^''? *''?$|''''|a/b' THEN '22023 ok' ELSE states END FROM t.bad
	WHERE kind = 'new' AND value <> 'NULL';
UPDATE t.bad SET states = states || ' ok' WHERE kind = 'label' AND states = '22023';
INSERT INTO t.bad SELECT 'word-name', value, states FROM t.bad WHERE kind = 'new' AND value ~ '64|1000000|\\n|/';
INSERT INTO t.bad SELECT 'word-array', v, '22023' FROM unnest(ARRAY['''{nonsense}''', '''{NULL}''', '''{""}''', '''{name}''', '''{frozen,NULL}''']) v;
INSERT INTO t.bad SELECT 'list', v, '22023 42704 22P02 22003' FROM unnest(ARRAY['''''', '''  ''', ''',,,''', 'E''\n\r\n''', '''nobody''', '''u2,nobody''', '''u2;quota=gpu=-1''',
	'''u2;max_priority=101''', '''u2;nonsense=1''', '''u2;quota''', '''u2;mode=x''', '''u2;guarantee=maybe''', '''u2;max_priority=NaN''', '''beta/foreign''', '''u2;quota=gpu=1e30''', '''u1，u2''']) v;
INSERT INTO t.bad SELECT 'interval-0', value, states FROM t.bad WHERE kind = 'interval' AND value <> '''0''';
INSERT INTO t.bad SELECT 'int-any', value, CASE states WHEN '22023' THEN '22023 ok' ELSE states END FROM t.bad WHERE kind = 'int';
CREATE TABLE t.call AS
	SELECT n, function, (SELECT array_agg(string_to_array(a, '|') ORDER BY o) FROM regexp_split_to_table(replace(replace(replace(replace(args, 'OPERATION', :'operation'), 'DRAFT', :'draft'),
		'QUEUED', :'queued'), 'PLACED', :'placed'), ';;') WITH ORDINALITY x (a, o)) AS args FROM t.plain;

CREATE TABLE t.made (n int, description text, command text, states text);
-- The good call, and each with one bad value.
INSERT INTO t.made
SELECT c.n, 'good', format('SELECT * FROM rpq.%I(%s)', c.function, (SELECT string_agg(format('%I => %s', c.args[i][1], c.args[i][2]), ', ')
	FROM generate_subscripts(c.args, 1) i WHERE c.args[i][2] <> '-')), 'ok' || CASE WHEN function ~ '_operation$' THEN ' RQ004 RQ008' ELSE '' END FROM t.call c;
INSERT INTO t.made
SELECT c.n, c.args[j][1] || ' => ' || b.value,
	   format('SELECT * FROM rpq.%I(%s)', c.function, (SELECT string_agg(format('%I => %s', c.args[i][1],
			  CASE WHEN i = j THEN b.value ELSE c.args[i][2] END), ', ')
			  FROM generate_subscripts(c.args, 1) i WHERE i = j OR c.args[i][2] <> '-')),
	   b.states || CASE WHEN c.function ~ '_operation$' AND b.states ~ 'ok' THEN ' RQ004 RQ008'
			WHEN c.function = 'delete_account' AND b.states ~ 'ok' THEN ' RQ006' ELSE '' END
FROM t.call c, generate_subscripts(c.args, 1) j, LATERAL regexp_split_to_table(c.args[j][3], ' ') kind JOIN t.bad b USING (kind);

SELECT is(t.judge(command, states), 'right', format('%s: %s', function, left(description, 80)))
FROM t.made JOIN t.call USING (n) ORDER BY n, description = 'good' DESC, description;

-- Each function of these sections is in the table; a new argument without a line here is found as well.
SELECT is_empty($$
	SELECT p.proname, a FROM pg_proc p, unnest(p.proargnames[1:p.pronargs]) a
	WHERE p.pronamespace = 'rpq'::regnamespace AND p.proname IN (SELECT function FROM t.call)
	AND NOT EXISTS (SELECT FROM t.call c, generate_subscripts(c.args, 1) i WHERE c.function = p.proname AND c.args[i][1] = a)
	AND (p.proname, a) NOT IN (VALUES ('add_nodes', 'provider_id'), ('submit', 'queue'), ('enqueue', 'queue'), ('create_pool', 'nodes'),
		('edit_pool', 'faulty_node_rotation'), ('edit_pool', 'idle_time_sharing'), ('edit_pool', 'isolate_accounts'), ('edit_pool', 'open'),
		('edit_account', 'gateway'), ('edit_account', 'executor'), ('edit_account', 'driver'), ('edit_instance_type', 'kind'),
		('edit_instance_type', 'capacity'), ('authorize_list', 'instance_type'), ('authorize_list', 'guarantee'))$$,
	'every argument is tried');

-- The same by an organisation admin: objects of the other tenant are none.
GRANT SELECT ON t.call TO bad_admin;
SET ROLE bad_admin;
SELECT is(left(t.answer(format('SELECT * FROM rpq.%I(%s)', c.function, (SELECT string_agg(format('%I => %s', c.args[i][1],
			CASE WHEN i <> 1 THEN c.args[i][2] WHEN c.args[i][3] ~ '^id' THEN CASE WHEN c.function ~ '_operation' THEN :'x' ELSE :'foreign' END
				 ELSE '''beta/foreign''' END), ', ')
			FROM generate_subscripts(c.args, 1) i WHERE c.args[i][2] <> '-'))), 5) IN ('42704', CASE c.function WHEN 'submit' THEN '42501' END), true, 'of another tenant: ' || c.function)
FROM t.call c WHERE c.args[1][3] ~ '^(name-f|id)' AND c.function !~ '_operation';
RESET ROLE;

-- What is nobody's argument: calls that lack what they need, contradictions.
SELECT is(left(t.answer(command), 5), state, command) FROM (VALUES
	('SELECT rpq.submit(workload_type => ''training'', resources => ''gpu=1'', account => ''acme/u1'')', '22023'),
	('SELECT rpq.submit(pool => ''acme/p1'', workload_type => ''training'', resources => ''gpu=1'')', '22023'),
	('SELECT rpq.submit(pool => ''acme/p1'', workload_type => ''training'', resources => ''gpu=1'', account => ''beta/foreign'')', '42704'),
	('SELECT rpq.submit(pool => ''acme/p1'', workload_type => ''training'', resources => ''gpu=1'', replicas => 100000, account => ''acme/u1'')', 'RQ002'),
	('SELECT rpq.submit(pool => ''acme/p1'', workload_type => ''training'', resources => ''gpu=1'', priority => 101, account => ''acme/u1'')', '22023'),
	('SELECT rpq.submit(pool => ''acme/p1'', workload_type => ''training'', resources => ''gpu=1'', guarantee => true, account => ''acme/u1'')', 'RQ001'),
	('SELECT rpq.submit(pool => ''acme/p1'', workload_type => ''training'', resources => ''gpu=1'', account => ''acme/u2'')', 'RQ001'),
	('SELECT rpq.add_nodes(instance_type => ''g8'', names => ''{x}'', count => 1, prefix => ''y'', tenant => ''acme'')', '22023'),
	('SELECT rpq.add_nodes(instance_type => ''g8'', tenant => ''acme'')', '22023'),
	('SELECT rpq.add_nodes(instance_type => ''g8'', names => ''{x}'')', '22023'),
	('SELECT rpq.create_pool(name => ''x'', type => ''shared'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_pool(name => ''x'', type => ''dedicated'', quota => ''gpu=8'', nodes => ''{n3}'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_pool(name => ''x'', type => ''dedicated'', quota => ''gpu=24'', tenant => ''acme'')', 'RQ005'),
	('SELECT rpq.create_pool(name => ''x'', type => ''dedicated'', quota => ''gpu=12'', tenant => ''acme'')', 'RQ003'),
	('SELECT rpq.create_pool(name => ''x'', type => ''dedicated'', scheduling_policy => ''spread'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_pool(name => ''x'', type => ''dedicated'', faulty_node_rotation => true, tenant => ''acme'')', '22023'),
	('SELECT rpq.create_pool(name => ''x'', type => ''dedicated'', scheduling_policy => ''least_fragmentation'', tenant => ''acme'')', '0A000'),
	('SELECT rpq.create_pool(name => ''p1'', type => ''dedicated'', tenant => ''acme'')', '42710'),
	('SELECT rpq.edit_pool(pool => ''acme/p1'', open => false)', '22023'),
	('SELECT rpq.edit_pool(pool => ''acme/p1'', isolate_accounts => true)', '22023'),
	('SELECT rpq.edit_pool(pool => ''acme/p1'', idle_time_sharing => true)', '22023'),
	('SELECT rpq.edit_pool(pool => ''acme/p1'', description => ''x'', clear => ''{description}'')', '22023'),
	('SELECT rpq.update_members(pool => ''acme/p1'', accounts => ''{u1}'', quota => ''gpu=1'', config_mode => ''default'')', '22023'),
	('SELECT rpq.update_members(pool => ''acme/p1'', accounts => ''{u2}'', quota => ''gpu=1'')', '42704'),
	('SELECT rpq.deauthorize(pool => ''acme/p1'', accounts => ''{u2}'')', '42704'),
	('SELECT rpq.delete_account(account => ''acme/u1'')', 'RQ006'),
	('SELECT rpq.create_account(name => ''u1'', tenant => ''acme'')', '42710'),
	('SELECT rpq.create_account(name => ''x'', db_role => ''bad_admin'', tenant => ''acme'')', '42710'),
	('SELECT rpq.create_account(name => ''x'', db_role => ''no_such_role'', tenant => ''acme'')', '42704'),
	('SELECT rpq.create_account(name => ''x'')', '22023'),
	('SELECT rpq.remove_nodes(names => ''{acme/n1}'')', 'RQ006')) v (command, state);

-- request_id: the same again is the first, another content is refused.
SELECT rpq.submit(pool => 'acme/p1', workload_type => 'training', resources => 'gpu=1', request_id => 'r1', account => 'acme/u1') AS r1 \gset
SELECT is(rpq.submit(pool => 'acme/p1', workload_type => 'training', resources => 'gpu=1', request_id => 'r1', account => 'acme/u1'),
		  :r1::bigint, 'the same request is the same workload');
SELECT throws_ok($$SELECT rpq.submit(pool => 'acme/p1', workload_type => 'training', resources => 'gpu=2', request_id => 'r1', account => 'acme/u1')$$,
				 '22023', NULL, 'with another content it is refused');

-- Procedures that commit.
SELECT throws_ok(format('CALL rpq.wait_for_operation(id => %s)', :operation), '25001', NULL, 'wait_for_operation in a transaction');
\set ON_ERROR_STOP off
\set VERBOSITY sqlstate
\o /dev/null
CALL rpq.wait_for_operation(id => :operation);
SELECT :'SQLSTATE' AS ended \gset
CALL rpq.wait_for_operation(id => NULL);
SELECT :'SQLSTATE' AS none \gset
CALL rpq.wait_for_operation(id => 999999);
SELECT :'SQLSTATE' AS unknown \gset
CALL rpq.wait_for_operation(id => :operation, timeout => '-1 s');
SELECT :'SQLSTATE' AS negative \gset
\o
\set ON_ERROR_STOP on
SELECT is(concat_ws(' ', :'ended', :'none', :'unknown', :'negative'), '00000 22023 42704 22023', 'wait_for_operation: ended, NULL, unknown, negative');
SELECT * FROM t.whole();
SELECT * FROM finish();

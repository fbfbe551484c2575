-- What sync_node is not to take, and what nobody may learn by it: everything is refused with a clear message, and
-- nothing is stored.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_tenant('other') AS x \gset
SELECT rpq.create_account('spy', executor => true, tenant => 'other') AS x,
	   rpq.create_account('exe', executor => true, tenant => 'acme') AS y \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2}', tenant => 'acme') AS x, rpq.add_nodes(instance_type => 'g8', names => '{o1}', tenant => 'other') AS y \gset
SELECT rpq.submit('acme/c1-gpu', workload_type => 'training', resources => 'gpu=8', account => 'acme/u1', replicas => 2, spec => '{"secret": "x"}') AS w \gset
SELECT t.pass() AS x \gset
SELECT pod_id AS p, node AS n FROM rpq.pods ORDER BY node LIMIT 1 \gset
SELECT count(*) AS x FROM rpq.sync_node('acme/' || :'n', ARRAY[:p]) \gset

CREATE TABLE t.bad (call text, message text);
INSERT INTO t.bad VALUES
	('NULL', 'the node must be given'),
	('''acme/nosuch''', 'node "acme/nosuch" does not exist'),
	('NODE, running => ARRAY[NULL]::bigint[]', 'running must not contain NULL'),
	('NODE, running => ARRAY[1, NULL, 2]', 'running must not contain NULL'),
	('NODE, running => ARRAY[5, 7, 5]', 'running names pod 5 twice'),
	('NODE, running => ARRAY[[1, 2], [3, 4]]', 'running must be a list of pods, of one dimension'),
	('NODE, running => ARRAY(SELECT g FROM generate_series(1, 100001) g)', 'running names too many pods'),
	('NODE, finished => ''{}''', 'finished must be a JSON array'),
	('NODE, finished => ''17''', 'finished must be a JSON array'),
	('NODE, finished => ''"x"''', 'finished must be a JSON array'),
	('NODE, finished => ''[1]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[null]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[[]]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": null, "outcome": "failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": "1", "outcome": "failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1.5, "outcome": "failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": -1, "outcome": "failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1e300, "outcome": "failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 9223372036854775808, "outcome": "failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "Failed"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "lost"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": true}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": ["failed"]}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "failed", "detail": {}}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "failed", "detail": 3}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "failed", "node_fault": "yes"}]''', 'element 1 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "failed"}, {"pod": 2, "outcome": ""}]''', 'element 2 of finished is not valid'),
	('NODE, finished => ''[{"pod": 1, "outcome": "failed"}, {"pod": 1.0, "outcome": "succeeded"}]''', 'finished names pod 1 twice'),
	('NODE, running => ARRAY[3], finished => ''[{"pod": 3, "outcome": "failed"}]''', 'pod 3 is reported both as running and as finished'),
	('NODE, finished => (SELECT jsonb_agg(jsonb_build_object(''pod'', g, ''outcome'', ''failed'')) FROM generate_series(1, 100001) g)', 'finished names too many pods'),
	('NODE, capacity => ''gpu=-1''', 'capacity must not be negative'),
	('NODE, capacity => ''gpu=8,cpu=-0.5''', 'capacity must not be negative'),
	('NODE, capacity => ''gpu=7.5''', 'capacity counts whole devices');
UPDATE t.bad SET call = replace(call, 'NODE', quote_literal('acme/' || :'n'));
SELECT t.stored() AS before \gset
SELECT is(t.answer(format('SELECT count(*) FROM rpq.sync_node(%s)', call)),
		  CASE WHEN message ~ 'exist' THEN '42704 ' ELSE '22023 ' END || regexp_replace(message, '[0-9]+', '#', 'g'), left(call, 100))
FROM t.bad;
SELECT is(t.stored(), :'before', 'nothing of all that is stored');
SELECT is(t.outcome(format('SELECT count(*) FROM rpq.sync_node(%L, capacity => ''gpu=x'')', 'acme/' || :'n')), '22P02', 'bad text is none');
SELECT is(t.outcome(format('SELECT count(*) FROM rpq.sync_node(%L, finished => ''[{'')', 'acme/' || :'n')), '22P02', 'nor is bad JSON');

-- Taken as nothing: NULLs of the whole, unknown keys, JSON's null.
SELECT is(t.outcome(format($$SELECT count(*) FROM rpq.sync_node(%L, ARRAY[%s]::bigint[], 'null', NULL)$$, 'acme/' || :'n', :p)), 'ok', 'a null list is empty');
SELECT is(t.outcome(format($$SELECT count(*) FROM rpq.sync_node(%L, ARRAY[%s]::bigint[], '[{"pod": 4711, "outcome": "failed", "detail": null, "more": [1]}]')$$,
						   'acme/' || :'n', :p)), 'ok', 'unknown keys are passed over, and an unknown pod');
SELECT is(t.stored(), :'before', 'and nothing is stored of it');

-- Pods of other nodes and other tenants are unknown: never stored, and nothing is said of them.
SET rpq.account = 'other/spy';
SELECT is(t.answer(format('SELECT count(*) FROM rpq.sync_node(%L)', 'acme/' || :'n')), format('42704 node "acme/n#" does not exist'), 'another tenant''s node is not there');
SELECT is((SELECT format('%s %s %s %s %s %s', action, pod = :p, workload, attempt, devices, spec) FROM rpq.sync_node('o1', running => ARRAY[:p])), 'stop t    ',
		  'another tenant''s pod is unknown');
SELECT is((SELECT count(*) FROM rpq.sync_node('o1', finished => format('[{"pod": %s, "outcome": "failed"}]', :p)::jsonb)), 0::bigint, 'and cannot be ended');
RESET rpq.account;
SELECT is((SELECT count(*) FROM rpq_store.pod_report WHERE node_id = (SELECT node_id FROM rpq_store.node WHERE name = 'o1')), 0::bigint, 'no row of it');
SET rpq.account = 'acme/exe';
SELECT is((SELECT format('%s %s', action, workload) FROM rpq.sync_node(CASE :'n' WHEN 'n1' THEN 'n2' ELSE 'n1' END, running => ARRAY[:p]) WHERE action = 'stop'), 'stop ',
		  'a pod of another node is to be stopped here');
SELECT is((SELECT count(*) FROM rpq.sync_node(CASE :'n' WHEN 'n1' THEN 'n2' ELSE 'n1' END, finished => format('[{"pod": %s, "outcome": "failed"}]', :p)::jsonb)
		   WHERE action = 'stop'), 0::bigint, 'and cannot be ended from here');
SELECT is(t.outcome(format('SELECT count(*) FROM rpq.sync_node(%L, ARRAY[0, -5, 9223372036854775807, %s])', :'n', :p)), 'ok', 'any number may be named');
RESET rpq.account;
SELECT t.pass() AS x \gset
SELECT is(t.status(:w), 'running', 'the workload runs on');
SET rpq.account = 'acme/u1';
SELECT is(t.outcome(format('SELECT count(*) FROM rpq.sync_node(%L)', :'n')), '42501', 'one who is no executor may not');
RESET rpq.account;
-- a long list is taken, and costs no more than it must
SELECT is((SELECT count(*) FROM rpq.sync_node('acme/n1', ARRAY(SELECT g + 1000000 FROM generate_series(1, 100000) g))
		   WHERE action = 'stop'), 100000::bigint, 'a hundred thousand unknown pods are all to be stopped');
SELECT t.whole();
SELECT * FROM finish();

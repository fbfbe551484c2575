-- Members of pools: settings, modes default and custom, lists in and out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS rpq;
\pset null -
\set SHOW_CONTEXT never
SELECT rpq.create_tenant('acme') > 0 AS tenant, rpq.create_cluster('c1') > 0 AS cluster,
	rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=96') > 0 AS h100, rpq.create_instance_type('a100', 'gpu', 'gpu=8,cpu=64') > 0 AS a100;
SELECT rpq.add_nodes('h100', count => 3, prefix => 'n'), rpq.add_nodes('a100', count => 1, prefix => 'a');
SELECT count(rpq.create_account(n)) AS accounts
FROM unnest(ARRAY['u1', 'u2', 'u3', 'u4', 'u5', 'alice', 'bob', 'carol', 'dave', 'erin', 'a.b@x.org', '=1+1', 'o''neil, x',
	'say "hi"']) AS n;
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('p', 'dedicated', nodes => '{n1,n2,a1}', user_default_quota => 'gpu=4') > 0 AS made,
	rpq.create_pool('q', 'dedicated') > 0 AS made, rpq.create_pool('payg', 'exclusive', pay_as_you_go => true) > 0 AS made;

CREATE FUNCTION pg_temp.quotas(pool text) RETURNS TABLE (account text, type text, mode text, quota rpq.resources)
LANGUAGE sql AS $$
	SELECT a.name, t.name, e.config_mode, e.quota
	FROM rpq_store.effective_quota e JOIN rpq_store.pool p USING (pool_id) JOIN rpq_store.account a USING (account_id)
	LEFT JOIN rpq_store.instance_type t USING (type_id)
	WHERE p.name = $1 ORDER BY 1, 2 NULLS FIRST
$$;
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
	why text;
	code text;
	answer text;
BEGIN
	EXECUTE statement INTO answer;
	RETURN 'ok: ' || coalesce(answer, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
	RETURN concat_ws(': ', code, said, nullif(why, ''));
END
$$;

-- F27: default, explicit and unlimited are three different values; the default is looked up
SELECT rpq.authorize('p', '{u1}'), rpq.authorize('p', '{u2}', 'gpu=6'), rpq.authorize('p', '{u3}', ''), rpq.authorize('p', '{u4}', 'gpu=4');
SELECT * FROM pg_temp.quotas('p');
SELECT rpq.edit_pool('p', user_default_quota => 'gpu=2');
SELECT * FROM pg_temp.quotas('p');
SELECT rpq.update_members('p', '{u1}', 'gpu=8'), rpq.edit_pool('p', user_default_quota => 'gpu=10');
SELECT * FROM pg_temp.quotas('p');
SELECT rpq.update_members('p', '{u2}', config_mode => 'default'), rpq.authorize('p', '{u5}');
SELECT * FROM pg_temp.quotas('p');
SELECT action, object_kind, object, old, new - 'open' AS new FROM rpq_store.history
WHERE action IN ('edit_pool', 'authorize', 'update_members') ORDER BY history_id;

-- adding again changes nothing but what is given; nothing is recorded for no change
SELECT rpq.authorize('p', '{u2,u2," u2 "}', max_priority => 60);
SELECT rpq.authorize('p', '{u2}'), rpq.authorize('p', '{u2}', max_priority => 60);
SELECT rpq.update_members('p', '{u2,u3}', guarantee => true, config_mode => 'default');
SELECT object, old, new FROM rpq_store.history WHERE object IN ('u2', 'u3') ORDER BY history_id OFFSET 3;
-- zero is a real bound; a quota may exceed the pool's total; the top of the range is kept exactly
SELECT rpq.update_members('p', '{u4}', 'gpu=0'), rpq.update_members('p', '{u5}', 'gpu=2147483648');
-- for one instance type
SELECT rpq.update_members('p', '{u1}', 'gpu=1', instance_type => 'a100'), rpq.edit_pool('p', instance_type => 'h100', user_default_quota => 'gpu=3');
SELECT * FROM pg_temp.quotas('p') WHERE account IN ('u1', 'u4', 'u5');
SELECT rpq.update_members('p', '{u1}', instance_type => 'a100', config_mode => 'default');
SELECT * FROM pg_temp.quotas('p') WHERE account = 'u1';

-- a shared pool: every account has its defaults, members override them
SELECT rpq.edit_pool('c1-gpu', user_default_quota => 'gpu=1'), rpq.update_members('c1-gpu', '{u1}', 'gpu=7');
SELECT * FROM pg_temp.quotas('c1-gpu') WHERE account < 'b' OR account = 'u1';
SELECT rpq.edit_pool('c1-gpu', open => false);
SELECT * FROM pg_temp.quotas('c1-gpu');
SELECT rpq.deauthorize('c1-gpu', '{u1}');
SELECT * FROM pg_temp.quotas('c1-gpu');

-- refusals: all or nothing
SELECT count(*) AS rows FROM rpq_store.history \gset
SELECT t AS call, pg_temp.try('SELECT rpq.' || t) AS answer FROM unnest(ARRAY[
	$$authorize(NULL, '{u1}')$$, $$authorize('nosuch', '{u1}')$$, $$authorize('q', NULL)$$, $$authorize('q', '{}')$$,
	$$authorize('q', '{NULL}')$$, $$authorize('q', '{u1,NULL}')$$, $$authorize('q', '{u1,""}')$$, $$authorize('q', '{" "}')$$,
	$$authorize('q', '{u1,mallory,eve}')$$, $$authorize('q', ARRAY[repeat('p', 64)])$$, $$authorize('q', ARRAY['o''clock'])$$,
	$$authorize('q', '{u1}', 'gpu=-1')$$, $$authorize('q', '{u1}', 'gpu=NaN')$$, $$authorize('q', '{u1}', 'gpu=Infinity')$$,
	$$authorize('q', '{u1}', 'gpu=9223372036854775807')$$, $$authorize('q', '{u1}', max_priority => 101)$$,
	$$authorize('q', '{u1}', max_priority => -1)$$, $$authorize('q', '{u1}', instance_type => 'h100')$$,
	$$authorize('q', '{u1}', 'gpu=1', instance_type => 'h100')$$, $$authorize('p', '{u1}', 'gpu=1', instance_type => 'nosuch')$$,
	$$authorize('payg', '{u1}', guarantee => true)$$, $$update_members('q', '{u1}', max_priority => 1)$$,
	$$update_members('p', '{u1,bob,alice}', max_priority => 1)$$, $$update_members('p', '{u1}', config_mode => 'x')$$,
	$$update_members('p', '{u1}', 'gpu=1', config_mode => 'default')$$, $$update_members('p', '{u1,u2}', config_mode => 'custom')$$,
	$$update_members('p', '{u1}', config_mode => 'custom')$$, $$deauthorize('p', '{u1,bob}')$$, $$deauthorize('p', '{nosuch}')$$,
	$$deauthorize('p', NULL)$$, $$export_members_csv(NULL)$$, $$member_names('nosuch')$$]) AS t;
SELECT count(*) = :rows AS nothing_recorded FROM rpq_store.history;

-- F49: pasted lists
CREATE FUNCTION pg_temp.members(pool text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s:%s', account, quota), ' ') FROM pg_temp.quotas($1) WHERE type IS NULL
$$;
BEGIN;
SELECT rpq.authorize_list('q', E'alice, bob,,carol ,\r\ndave,alice\r\n\r\n  erin\t', 'gpu=4'), pg_temp.members('q');
SELECT rpq.authorize_list('q', E'alice, bob,,carol ,\r\ndave,alice\r\n\r\n  erin\t', 'gpu=4'), pg_temp.members('q');
SELECT count(*) AS recorded FROM rpq_store.history WHERE action = 'authorize_list';
ROLLBACK;
SELECT t AS list, pg_temp.try(format('SELECT rpq.authorize_list(''q'', %L)', t)) AS answer FROM unnest(ARRAY[
	E'alice, bob,,carol ,;quota=gpu=4\r\ndave,alice;quota=gpu=8', E'alice, bob\nerin, mallory', E', ,\r\n , \r\n', '', NULL,
	U&'alice\FF0Cbob', 'alice; quota=gpu=4 quota=gpu=5', 'alice; colour=red', 'alice; gpu=4', 'alice; max_priority=x',
	'alice; guarantee=maybe', 'alice; quota=gpu=-1', 'alice; mode=custom', 'alice; mode=both', 'alice; instance_type=nosuch quota=gpu=1',
	'alice; max_priority=101']) AS t;
SELECT pg_temp.members('q') AS none_added;
SELECT rpq.authorize_list('q', E'a.b@x.org\ralice,bob; quota=gpu=4,cpu=8 max_priority=60 guarantee=on\ncarol;mode=default\nalice;guarantee=on max_priority=60 quota=cpu=8,gpu=4', 'gpu=1');
SELECT a.name, m.max_priority, m.guarantee, e.mode, e.quota
FROM rpq_store.member m JOIN rpq_store.account a USING (account_id) JOIN rpq_store.pool p USING (pool_id), pg_temp.quotas('q') e
WHERE p.name = 'q' AND e.account = a.name ORDER BY 1;

-- removal
SELECT rpq.deauthorize('q', '{bob,alice,bob}'), pg_temp.members('q');
SELECT rpq.deauthorize('q', '{carol}', stop => true), pg_temp.members('q');
SELECT object, old, new FROM rpq_store.history WHERE action = 'deauthorize' AND object <> 'u1' ORDER BY history_id;
SELECT count(*) AS quotas_left FROM rpq_store.member_quota q WHERE NOT EXISTS (
	SELECT FROM rpq_store.member m WHERE (m.pool_id, m.account_id) = (q.pool_id, q.account_id));

-- who may: an administrator of the pool, and no member
SELECT rpq.grant_pool_admin('q', 'dave');
SET rpq.account = 'dave';
SELECT rpq.authorize('q', '{erin}'), pg_temp.try('SELECT rpq.authorize(''p'', ''{erin}'')');
SET rpq.account = 'erin';
SELECT pg_temp.try('SELECT rpq.authorize(''q'', ''{bob}'')'), pg_temp.try('SELECT rpq.authorize(''p'', ''{bob}'')'), pg_temp.try('SELECT rpq.member_names(''q'')');
RESET rpq.account;

-- removal with work: what is queued becomes draft, what runs goes on, or is stopped
SELECT rpq.create_pool('w', 'dedicated', nodes => '{n3}', queueing => 'best_effort') > 0 AS made, rpq.authorize('w', '{u1,u2}');
SELECT rpq.submit('w', workload_type => 'training', resources => 'gpu=6', account => 'u1') AS w1,
	rpq.submit('w', workload_type => 'training', resources => 'gpu=4', account => 'u1') AS w2,
	rpq.submit('w', workload_type => 'training', resources => 'gpu=2', account => 'u2') AS w3 \gset
SELECT decision, reason_code FROM rpq.schedule('w');
SELECT rpq.deauthorize('w', '{u1}');
SELECT a.name, w.status, w.cause, w.detail FROM rpq_store.workload w JOIN rpq_store.account a USING (account_id) ORDER BY workload_id;
SELECT pg_temp.try($$SELECT rpq.submit('w', workload_type => 'training', resources => 'gpu=1', account => 'u1')$$);
SELECT rpq.deauthorize('w', '{u2}', stop => true);
SELECT count(*) AS decided FROM rpq.schedule('w');
SELECT a.name, w.status, w.cause FROM rpq_store.workload w JOIN rpq_store.account a USING (account_id) ORDER BY workload_id;
SELECT t.name AS type, a.name AS account, u.amount FROM rpq_store.usage u JOIN rpq_store.account a USING (account_id) JOIN rpq_store.instance_type t USING (type_id) ORDER BY 2;

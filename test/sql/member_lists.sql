-- Lists of members out of the database: CSV and names.
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

-- lists out: RFC 4180, formulas defused
SELECT rpq.authorize('payg', ARRAY['=1+1', 'o''neil, x', 'say "hi"', 'u1'], 'cpu=1,gpu=1/7'), rpq.authorize('payg', '{u2}', ''), rpq.authorize('payg', '{u3}');
SELECT replace(rpq.export_members_csv('payg'), E'\r', '<CR>') AS csv;
-- with what is used, for the pool as a whole and for an instance type
SELECT rpq.authorize('p', '{u2,u1}', 'gpu=6'), rpq.update_members('p', '{u1}', 'gpu=4', instance_type => 'a100', max_priority => 60, guarantee => true);
SELECT rpq.submit('p', workload_type => 'training', resources => 'gpu=3', account => 'u1', instance_types => '{a100}') > 0 AS submitted;
SELECT decision FROM rpq.schedule('p');
SELECT replace(rpq.export_members_csv('p'), E'\r', '<CR>') AS csv;
SELECT rpq.member_names('payg');
SELECT rpq.export_members_csv('zz');


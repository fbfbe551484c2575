-- What policies tell to those who may not see them.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes('g8', names => '{n1,n2}', tenant => 'acme') AS x \gset
SELECT rpq.create_pool(p, 'dedicated', quota => 'gpu=8', tenant => 'acme') AS x FROM unnest('{p1,p2}'::text[]) p \g /dev/null
SELECT rpq.create_account('boss', org_admin => true) AS x, rpq.grant_pool_admin('p1', 'u4') AS y, rpq.create_user_group('g') AS z,
	   rpq.create_profile('f', 'gpu=4', '{p1,p2}') AS w, rpq.provision_profiles() AS v,
	   rpq.create_policy('secret-a', 'g', 'gpu=8') AS a, rpq.create_policy('secret-b', 'g', 'gpu=8') AS b \gset
SELECT rpq.connect_profile('secret-a', 'f', 'qa') AS a, rpq.connect_profile('secret-b', 'f', 'qb') AS b \gset
CREATE FUNCTION t.said(account_name text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	PERFORM set_config('rpq.account', account_name, true);
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail;
END $$;

-- A pool admin sees no policies: which ones a reservation is of is not told.
SELECT is(t.said('acme/u4', $$SELECT rpq.resize_pool('p1', remove_nodes => '{n1}')$$),
	'RQ002 2 policies reserve gpu=16 in all, the pools that can be reached hold gpu=8.', 'a pool admin reads figures, no names of policies');
SELECT is(t.said('acme/boss', $$SELECT rpq.resize_pool('p1', remove_nodes => '{n1}')$$),
	'RQ002 Policies "secret-a", "secret-b" reserve gpu=16 in all, the pools that can be reached hold gpu=8.', 'an organisation admin reads both');
-- Nor by the error of an operation that is refused later, which pool admins read.
SELECT rpq.edit_policy('secret-b', reservation => '') AS x \gset
SET rpq.synchronous_operations = off;
SET rpq.account = 'acme/boss';
SELECT rpq.resize_pool('p1', remove_nodes => '{n1}') AS op \gset
SELECT rpq.edit_policy('secret-b', reservation => 'gpu=1') AS x \gset
RESET rpq.account;
SELECT rpq.run_operations() AS x \gset
SET rpq.account = 'acme/u4';
SELECT is((SELECT status || ' ' || error_code || (error ~ 'secret')::text FROM rpq.operations WHERE operation_id = :op), 'failed RQ002false',
	'the error of an operation names none either');
RESET rpq.account;
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Accounts with a PostgreSQL role each, pools made by operations, members with quotas.
\ir style.psql
\echo
\echo '2. People and pools.  Each account has a PostgreSQL role.  Whole machines leave the shared pools for dedicated and'
\echo '   exclusive ones by operations, which the worker carries out.'
\echo

-- A role outlives the database, so it may be there from an earlier run on the same server.
SELECT format('CREATE ROLE %I LOGIN', role)
  FROM unnest('{olga,ana,ben,chen,dora,airflow,portal,rector,emil,fay,gus,campus}'::text[]) role
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
SELECT rpq.create_account(name, db_role => name, org_admin => name IN ('olga', 'rector'),
		gateway => name IN ('portal', 'campus'), tenant => tenant)
  FROM (VALUES ('aurora', '{olga,ana,ben,chen,dora,airflow,portal}'::text[]),
			   ('polytech', '{rector,emil,fay,gus,campus}')) t(tenant, names), unnest(names) name \g /dev/null
SELECT rpq.create_workload_type('batch', tenant => t) FROM unnest('{aurora,polytech}'::text[]) t \g /dev/null
SELECT rpq.create_project_group('foundation-models', tenant => 'aurora') \g /dev/null

-- olga administers her tenant: no superuser is needed from here on.
SET SESSION AUTHORIZATION olga;
SELECT rpq.create_pool('research', type => 'dedicated', instance_type => 'h100', quota => 'gpu=64',
		user_default_quota => 'gpu=16', workload_types => '{training,develop}', project_group => 'foundation-models') AS op1,
	   rpq.create_pool('serving', type => 'exclusive', instance_type => 'l4', quota => 'gpu=24',
		scheduling_policy => 'spread', workload_types => '{inference}', default_priority => 70) AS op2,
	   rpq.create_pool('etl', type => 'dedicated', kind => 'cpu', instance_type => 'epyc', quota => 'cpu=480',
		workload_types => '{batch}', queueing => 'best_effort') AS op3 \gset
CALL rpq.wait_for_operation(:op1);
CALL rpq.wait_for_operation(:op2);
CALL rpq.wait_for_operation(:op3);
SELECT rpq.authorize('research', '{ana,ben}'),
	   rpq.authorize_list('research', E'chen; quota=gpu=32 max_priority=90 guarantee=on\r\ndora; quota=gpu=4 max_priority=40'),
	   rpq.authorize('serving', '{dora}', quota => 'gpu=16'), rpq.authorize('serving', '{chen}'),
	   rpq.authorize('etl', '{airflow}') \g /dev/null
SELECT rpq.edit_pool('fra1-gpu', user_default_quota => 'gpu=32', description => 'notebooks, evaluation, all the rest'),
	   rpq.grant_pool_admin('research', 'chen') \g /dev/null
RESET SESSION AUTHORIZATION;

SET SESSION AUTHORIZATION rector;
SELECT rpq.create_pool('thesis', type => 'dedicated', instance_type => 'h100', quota => 'gpu=24',
		user_default_quota => 'gpu=8') AS op4 \gset
CALL rpq.wait_for_operation(:op4);
SELECT rpq.authorize('thesis', '{emil,fay}'), rpq.authorize('fra1-gpu', '{fay,gus}', quota => 'gpu=12') \g /dev/null
SELECT rpq.edit_pool('fra1-gpu', open => false) \g /dev/null
RESET SESSION AUTHORIZATION;

SELECT tenant, name AS pool, type, array_to_string(instance_types, ', ') AS instance_types, rpq.pretty(total) AS total,
	   scheduling_policy AS policy, coalesce(array_to_string(workload_types, ', '), 'all') AS workload_types
  FROM rpq.pools ORDER BY tenant, type DESC, name;

\echo 'Members and their personal quotas (a key that a quota lacks is not limited):'
\echo
SELECT p.tenant || '/' || m.pool AS pool, m.account, m.config_mode AS mode,
	   coalesce(nullif(rpq.pretty(m.quota), ''), 'unlimited') AS quota, m.max_priority, m.guarantee
  FROM rpq.members m JOIN rpq.pools p USING (pool_id) ORDER BY 1, 2;

\echo 'What could never run is refused at once, and leaves nothing behind:'
\echo
CREATE FUNCTION pg_temp.refusal(who text, call text, OUT error text, OUT message text, OUT detail text)
	LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('rpq.account', who, true);
	EXECUTE call;
	error := 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS error = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
END $$;
SELECT who, tried, r.error, pg_temp.wrap(concat_ws(': ', r.message, nullif(r.detail, '')), 70) AS message
  FROM (VALUES ('aurora/ana', '16 GPUs of one machine', $$SELECT rpq.submit('research', workload_type => 'training', resources => 'gpu=16')$$),
			   ('aurora/ana', '24 GPUs, quota 16', $$SELECT rpq.submit('research', workload_type => 'training', resources => 'gpu=8', replicas => 3)$$),
			   ('aurora/dora', 'training on serving', $$SELECT rpq.submit('serving', workload_type => 'training', resources => 'gpu=1')$$),
			   ('aurora/ben', 'priority 101', $$SELECT rpq.submit('research', workload_type => 'training', resources => 'gpu=1', priority => 101)$$),
			   ('aurora/dora', 'priority 60, at most 40', $$SELECT rpq.submit('research', workload_type => 'training', resources => 'gpu=1', priority => 60)$$),
			   ('aurora/olga', 'a pool of 12 GPUs', $$SELECT rpq.create_pool('odd', type => 'dedicated', instance_type => 'h100', quota => 'gpu=12')$$),
			   ('polytech/gus', 'a pool of others', $$SELECT rpq.submit('thesis', workload_type => 'training', resources => 'gpu=1')$$)
	   ) t(who, tried, call), pg_temp.refusal(who, call) r;

-- The matrix of rights, generated: every function and every view of schema rpq as every kind of caller.
-- Names of the tenant's objects hold the mark zacme, of what only the dedicated pool's people may see zhidden, of what
-- another member owns zsecret; a mark in an answer to somebody who may not see it is a leak.
\ir ../lib/cases.sql
SELECT * FROM no_plan();

-- ---- the state ------------------------------------------------------------------------------------------------------
CREATE ROLE rm_operator;  GRANT postgres TO rm_operator;
CREATE ROLE rm_org;  CREATE ROLE rm_padm;  CREATE ROLE rm_member;  CREATE ROLE rm_mate;  CREATE ROLE rm_other;
CREATE ROLE rm_foreign;  CREATE ROLE rm_foreign_org;  CREATE ROLE rm_gateway;  CREATE ROLE rm_none;  CREATE ROLE rm_executor;
SELECT rpq.create_tenant(name => 'zacme') AS x, rpq.create_tenant(name => 'beta') AS y \gset
SELECT rpq.create_cluster(name => 'c1', region => 'north') AS x \gset
SELECT rpq.create_instance_type(name => 'g8', kind => 'gpu', capacity => 'gpu=8,cpu=192,memory=2Ti') AS x \gset
SELECT rpq.create_account(name => n, db_role => r, org_admin => r ~ 'org', gateway => r = 'rm_gateway', executor => r = 'rm_executor', tenant => t) AS x
FROM (VALUES ('zacme-zhidden-org', 'rm_org', 'zacme'), ('zacme-zhidden-padm', 'rm_padm', 'zacme'), ('zacme-zhidden-member', 'rm_member', 'zacme'),
	('zacme-zhidden-zsecret-mate', 'rm_mate', 'zacme'), ('zacme-other', 'rm_other', 'zacme'), ('foreign', 'rm_foreign', 'beta'),
	('foreign-org', 'rm_foreign_org', 'beta'), ('zacme-zhidden-gateway', 'rm_gateway', 'zacme'), ('zacme-zhidden-executor', 'rm_executor', 'zacme')) v (n, r, t) \g /dev/null
SELECT rpq.create_user_group(name => 'zacme-zhidden-group', tenant => 'zacme') AS x \gset
SELECT rpq.add_to_group(user_group => 'zacme/zacme-zhidden-group', accounts => '{zacme-zhidden-zsecret-mate}') AS x \gset
SELECT rpq.create_project_group(name => 'zacme-project', tenant => 'zacme') AS x \gset
SELECT rpq.create_policy(name => 'zacme-zhidden-policy', user_group => 'zacme-zhidden-group', reservation => 'gpu=8', tenant => 'zacme') AS x \gset
SELECT rpq.create_workload_type(name => 'zacme-render', tenant => 'zacme') AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{zacme-s1,zacme-s2,zacme-zhidden-na,zacme-zhidden-nb,zacme-zhidden-nc}', tenant => 'zacme') AS x,
	   rpq.add_nodes(instance_type => 'g8', names => '{f1,f2}', tenant => 'beta') AS y \gset
SELECT rpq.edit_pool(pool => 'zacme/c1-gpu', description => 'zacme shared') AS x \gset
SELECT rpq.create_profile(name => 'zacme-zhidden-' || n, resources => 'gpu=4', pools => '{c1-gpu}', tenant => 'zacme') AS x
FROM unnest('{profile,free}'::text[]) n \g /dev/null
SELECT rpq.provision_profiles(tenant => 'zacme') AS x, rpq.connect_profile(policy => 'zacme/zacme-zhidden-policy', profile => 'zacme-zhidden-profile',
	queue => 'zacme-zhidden-queue') AS y \gset
SELECT rpq.create_pool(name => 'zacme-zhidden-pa', type => 'dedicated', nodes => '{zacme-zhidden-na,zacme-zhidden-nb}', tenant => 'zacme') AS operation \gset
SELECT rpq.create_pool(name => 'zacme-zhidden-pb', type => 'dedicated', nodes => '{zacme-zhidden-nc}', tenant => 'zacme') AS hidden \gset
SELECT rpq.create_pool(name => 'fp', type => 'dedicated', quota => 'gpu=8', tenant => 'beta') AS x \gset
SELECT rpq.authorize(pool => 'zacme/zacme-zhidden-pa', accounts => '{zacme-zhidden-member,zacme-zhidden-zsecret-mate}') AS x,
	   rpq.authorize(pool => 'beta/fp', accounts => '{foreign}') AS y \gset
SELECT rpq.grant_pool_admin(pool => 'zacme/zacme-zhidden-pa', account => 'zacme-zhidden-padm') AS x \gset
SELECT rpq.cordon_node(node => 'zacme/zacme-zhidden-nb', reason => 'zacme-zhidden reason') AS x \gset
SELECT rpq.submit(pool => 'zacme/zacme-zhidden-pa', workload_type => 'training', resources => 'gpu=2', name => 'zacme-zhidden-own',
				  account => 'zacme/zacme-zhidden-member') AS own,
	   rpq.submit(pool => 'zacme/zacme-zhidden-pa', workload_type => 'training', resources => 'gpu=6', name => 'zacme-zhidden-zsecret-w',
				  labels => '{"x": "zacme-zhidden-zsecret"}', account => 'zacme/zacme-zhidden-zsecret-mate') AS mates,
	   rpq.submit(pool => 'beta/fp', workload_type => 'training', resources => 'gpu=2', name => 'fw', account => 'beta/foreign') AS foreign \gset
SELECT t.pass() AS x \gset
SELECT rpq.submit(pool => 'zacme/zacme-zhidden-pa', workload_type => 'training', resources => 'gpu=8', name => 'zacme-zhidden-waits',
				  account => 'zacme/zacme-zhidden-member') AS waits,
	   rpq.submit(pool => 'zacme/zacme-zhidden-pa', workload_type => 'training', resources => 'gpu=8', name => 'zacme-zhidden-draft',
				  draft => true, account => 'zacme/zacme-zhidden-member') AS draft \gset
SELECT t.pass() AS x \gset

-- ---- functions ------------------------------------------------------------------------------------------------------
-- allowed: one letter for each caller of t.caller, in its order.  Y succeeds; D seen but no right (42501); N not seen
-- (42704); R either of both; S succeeds or is refused for another cause than rights; ? not fixed by the contract, but
-- neither an internal error nor a change of the other tenant.
CREATE TABLE t.caller (n int, who text, role text, account text);
INSERT INTO t.caller VALUES (1, 'superuser', 'postgres', NULL), (2, 'operator', 'rm_operator', NULL), (3, 'organisation admin', 'rm_org', NULL),
	(4, 'pool admin', 'rm_padm', NULL), (5, 'member', 'rm_member', NULL), (6, 'other account', 'rm_other', NULL),
	(7, 'account of another tenant', 'rm_foreign', NULL), (8, 'its organisation admin', 'rm_foreign_org', NULL),
	(9, 'gateway as itself', 'rm_gateway', NULL), (10, 'gateway for the member', 'rm_gateway', 'zacme-zhidden-member'),
	(11, 'gateway for the pool admin', 'rm_gateway', 'zacme/zacme-zhidden-padm'), (12, 'gateway for another tenant', 'rm_gateway', 'beta/foreign'),
	(13, 'gateway for nobody', 'rm_gateway', 'nobody'), (14, 'role without account', 'rm_none', NULL),
	(15, 'member that sets rpq.account', 'rm_member', 'zacme-zhidden-padm'), (16, 'role without account that sets it', 'rm_none', 'zacme-zhidden-org'),
	(17, 'superuser for the member', 'postgres', 'zacme/zacme-zhidden-member');
CREATE TABLE t.right (n int GENERATED ALWAYS AS IDENTITY, function text, arguments text, allowed text);
-- callers:                                                     s o O P m t f F g G A x n r S R u
INSERT INTO t.right (function, arguments, allowed) VALUES
('create_tenant', 'name => ''n1''',                            'Y Y D D D D D D D D D D D D D D D'),
('create_cluster', 'name => ''n1''',                           'Y Y D D D D D D D D D D D D D D D'),
('create_instance_type', 'name => ''n1'', kind => ''gpu'', capacity => ''gpu=8''', 'Y Y D D D D D D D D D D D D D D D'),
('edit_instance_type', 'instance_type => ''g8''',              'Y Y R R R R R R R R R D D D D D R'),
('create_account', 'name => ''n1'', tenant => ''zacme''',      'Y Y Y D D D R R D D D D D D D D D'),
('edit_account', 'account => ''zacme/zacme-other'', org_admin => false', 'Y Y Y R R R N N R R R D D D D D R'),
('delete_account', 'account => ''zacme/zacme-other''',         'Y Y Y R R R N N R R R D D D D D R'),
('create_user_group', 'name => ''n1'', tenant => ''zacme''',   'Y Y Y D D D R R D D D D D D D D D'),
('delete_user_group', 'user_group => ''zacme/zacme-zhidden-group''', 'S S S R R N N N R R R D D D D D R'),
('add_to_group', 'user_group => ''zacme/zacme-zhidden-group'', accounts => ''{zacme-other}''', 'Y Y Y R R N N N R R R D D D D D R'),
('remove_from_group', 'user_group => ''zacme/zacme-zhidden-group'', accounts => ''{zacme-zhidden-zsecret-mate}''', 'Y Y Y R R N N N R R R D D D D D R'),
('create_policy', 'name => ''n1'', user_group => ''zacme-zhidden-group'', tenant => ''zacme''', 'Y Y Y D D D R R D D D D D D D D D'),
('edit_policy', 'policy => ''zacme/zacme-zhidden-policy'', lending => ''hold''', 'Y Y Y N N N N N N N N D D D D D N'),
('delete_policy', 'policy => ''zacme/zacme-zhidden-policy''',    'Y Y Y N N N N N N N N D D D D D N'),
('create_profile', 'name => ''n1'', resources => ''gpu=1'', pools => ''{c1-gpu}'', tenant => ''zacme''', 'Y Y Y D D D R R D D D D D D D D D'),
('edit_profile', 'profile => ''zacme/zacme-zhidden-profile'', resources => ''gpu=1''', 'Y Y Y N N N N N N N N D D D D D N'),
('delete_profile', 'profile => ''zacme/zacme-zhidden-free''',     'Y Y Y N N N N N N N N D D D D D N'),
('validate_profiles', 'tenant => ''zacme''',                   'Y Y Y D D D R R D D D D D D D D D'),
('provision_profiles', 'tenant => ''zacme''',                  'Y Y Y D D D R R D D D D D D D D D'),
('reset_profiles', 'tenant => ''zacme''',                      'Y Y Y D D D R R D D D D D D D D D'),
('connectable_profiles', 'policy => ''zacme/zacme-zhidden-policy''', 'Y Y Y N N N N N N N N D D D D D N'),
('connect_profile', 'policy => ''zacme/zacme-zhidden-policy'', profile => ''zacme-zhidden-free'', queue => ''n1''', 'Y Y Y N N N N N N N N D D D D D N'),
('disconnect_profile', 'policy => ''zacme/zacme-zhidden-policy'', profile => ''zacme-zhidden-profile''', 'Y Y Y N N N N N N N N D D D D D N'),
('set_pod_template', 'queue => ''zacme/zacme-zhidden-queue'', template => ''{}''', 'Y Y Y N N N N N N N N D D D D D N'),
('create_project_group', 'name => ''n1'', tenant => ''zacme''', 'Y Y Y D D D R R D D D D D D D D D'),
('delete_project_group', 'project_group => ''zacme/zacme-project''', 'Y Y Y R R R N N R R R D D D D D R'),
('create_workload_type', 'name => ''n1'', tenant => ''zacme''', 'Y Y Y D D D R R D D D D D D D D D'),
('delete_workload_type', 'workload_type => ''zacme/zacme-render''', 'Y Y Y R R R N N R R R D D D D D R'),
('add_nodes', 'instance_type => ''g8'', names => ''{n1}'', tenant => ''zacme''', 'Y Y D D D D R R D D D D D D D D D'),
('remove_nodes', 'names => ''{zacme/zacme-s2}''',              'Y Y R R R R N N R R R D D D D D R'),
('create_pool', 'name => ''n1'', type => ''dedicated'', quota => ''gpu=8'', tenant => ''zacme''', 'Y Y Y D D D R R D D D D D D D D D'),
('edit_pool', 'pool => ''zacme/zacme-zhidden-pa'', frozen => true', 'Y Y Y Y D N N N N D Y D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', quota => ''gpu=24''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', quota => ''gpu=8''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', quota => ''gpu=24'', source => ''zacme/zacme-zhidden-pb''', 'Y Y Y N D N N N N D N D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', add_nodes => ''{zacme/zacme-zhidden-nc}''', 'S S S N D N N N N D N D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', remove_nodes => ''{zacme/zacme-zhidden-nb}'', target => ''zacme/zacme-zhidden-pb''', 'S S S N D N N N N D N D D D D D D'),
('move_nodes', 'nodes => ''{zacme/zacme-s2}'', to_pool => ''zacme/zacme-zhidden-pa''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('move_nodes', 'count => 1, from_pool => ''zacme/c1-gpu'', to_pool => ''zacme/zacme-zhidden-pb''', 'Y Y Y N N N N N N N N D D D D D N'),
('cordon_node', 'node => ''zacme/zacme-zhidden-na''',          'Y Y Y Y D N N N N D Y D D D D D D'),
('uncordon_node', 'node => ''zacme/zacme-zhidden-nb''',        'Y Y Y Y D N N N N D Y D D D D D D'),
('drain_node', 'node => ''zacme/zacme-zhidden-na''',           'S S S S D N N N N D S D D D D D D'),
('drain_node', 'node => ''zacme/zacme-zhidden-nb''',           'Y Y Y Y D N N N N D Y D D D D D D'),
('set_node_health', 'node => ''zacme/zacme-zhidden-na'', health => ''degraded''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', quota => ''gpu=24''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', add_nodes => ''{zacme-s1}''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', remove_nodes => ''{zacme-zhidden-nb}''', 'S S S S D N N N N D S D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pa'', add_nodes => ''{zacme-zhidden-nc}'', source => ''zacme/zacme-zhidden-pb''', 'Y Y Y N D N N N N D N D D D D D D'),
('resize_pool', 'pool => ''zacme/zacme-zhidden-pb'', quota => ''gpu=0'', target => ''zacme/zacme-zhidden-pa''', 'Y Y Y N N N N N N N N D D D D D N'),
('resize_pool', 'pool => ''zacme/c1-gpu'', quota => ''gpu=8''',  'S S S R R R N N R R R D D D D D R'),
('convert_pool', 'pool => ''zacme/zacme-zhidden-pa'', type => ''exclusive''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('rename_pool', 'pool => ''zacme/zacme-zhidden-pa'', name => ''n1''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('rename_pool', 'pool => ''zacme/c1-gpu'', name => ''n1''',      'Y Y Y D D D N N D D D D D D D D D'),
('delete_pool', 'pool => ''zacme/zacme-zhidden-pa''',          'S S S S D N N N N D S D D D D D D'),
('delete_pool', 'pool => ''zacme/zacme-zhidden-pa'', force => true', 'Y Y Y Y D N N N N D Y D D D D D D'),
('move_nodes', 'nodes => ''{zacme/zacme-s1}'', to_pool => ''zacme/zacme-zhidden-pa''', 'Y Y Y Y D R N N R D Y D D D D D D'),
('move_nodes', 'count => 1, from_pool => ''zacme/c1-gpu'', to_pool => ''zacme/zacme-zhidden-pa''', 'Y Y Y Y D R N N R D Y D D D D D D'),
('move_nodes', 'nodes => ''{zacme/zacme-zhidden-nc}'', to_pool => ''zacme/zacme-zhidden-pa''', 'Y Y Y N R N N N N R N D D D D D R'),
('move_nodes', 'count => 1, from_pool => ''zacme/zacme-zhidden-pb'', to_pool => ''zacme/zacme-zhidden-pa''', 'Y Y Y N R N N N N R N D D D D D R'),
('drain_node', 'node => ''zacme/zacme-zhidden-na''',           'S S S S D N N N N D S D D D D D D'),
('drain_node', 'node => ''zacme/zacme-zhidden-nb''',           'Y Y Y Y D N N N N D Y D D D D D D'),
('grant_pool_admin', 'pool => ''zacme/zacme-zhidden-pa'', account => ''zacme-zhidden-member''', 'Y Y Y ? D N N N N D ? D D D D D D'),
('revoke_pool_admin', 'pool => ''zacme/zacme-zhidden-pa'', account => ''zacme-zhidden-padm''', 'Y Y Y ? D N N N N D ? D D D D D D'),
('selectable_pools', 'workload_type => ''training''',          'S S Y Y Y Y Y Y Y Y Y D D D D D Y'),
('cancel_operation', 'id => OPERATION',                        'S S S S N N N N N N S D D D D D N'),
('cancel_operation', 'id => HIDDEN',                           'S S S N N N N N N N N D D D D D N'),
('retry_operation', 'id => HIDDEN',                            'S S S N N N N N N N N D D D D D N'),
('retry_operation', 'id => OPERATION',                         'S S S ? N N N N N N ? D D D D D N'),
('run_operations', '',                                         'Y Y Y Y D D D Y D D Y D D D D D D'),
('authorize', 'pool => ''zacme/zacme-zhidden-pa'', accounts => ''{zacme-other}''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('authorize_list', 'pool => ''zacme/zacme-zhidden-pa'', list => ''zacme-other''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('update_members', 'pool => ''zacme/zacme-zhidden-pa'', accounts => ''{zacme-zhidden-member}'', quota => ''gpu=1''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('deauthorize', 'pool => ''zacme/zacme-zhidden-pa'', accounts => ''{zacme-zhidden-member}''', 'Y Y Y Y D N N N N D Y D D D D D D'),
('export_members_csv', 'pool => ''zacme/zacme-zhidden-pa''',   'Y Y Y Y D N N N N D Y D D D D D D'),
('member_names', 'pool => ''zacme/zacme-zhidden-pa''',         'Y Y Y Y D N N N N D Y D D D D D D'),
('submit', 'pool => ''zacme/zacme-zhidden-pa'', workload_type => ''training'', resources => ''gpu=1''', 'S S S S Y N N N N Y S D D D D D Y'),
('submit', 'pool => ''zacme/c1-gpu'', workload_type => ''training'', resources => ''gpu=1''', 'S S Y Y Y Y N N Y Y Y D D D D D Y'),
('submit', 'pool => ''zacme/c1-gpu'', workload_type => ''training'', resources => ''gpu=1'', account => ''zacme/zacme-zhidden-member''', 'Y Y D R Y R N N ? Y ? D D D D D Y'),
('enqueue', 'workload => DRAFT',                               'Y Y Y ? Y N N N N Y ? D D D D D Y'),
('edit_workload', 'workload => OWN, name => ''x''',            'S S S S S N N N N S S D D D D D S'),
('edit_workload', 'workload => WAITS, priority => 1',          'Y Y Y Y Y N N N N Y Y D D D D D Y'),
('stop', 'workload => OWN',                                    'Y Y Y Y Y N N N N Y Y D D D D D Y'),
('stop', 'workload => MATES',                                  'Y Y Y Y N N N N N N Y D D D D D N'),
('delete_workload', 'workload => OWN',                         'Y Y Y ? Y N N N N Y ? D D D D D Y'),
('report_started', 'workload => OWN, attempt => 1',            'Y Y ? ? Y N N N N Y ? D D D D D Y'),
('report_finished', 'workload => OWN, attempt => 1',           'Y Y ? ? Y N N N N Y ? D D D D D Y'),
('report_checkpoint', 'workload => OWN, attempt => 1',         'Y Y ? ? Y N N N N Y ? D D D D D Y'),
('report_finished', 'workload => MATES, attempt => 1',         'Y Y ? ? N N N N N N ? D D D D D N'),
('requeue', 'workload => OWN',                                 'Y Y Y Y ? N N N N ? Y D D D D D ?'),
('requeue', 'workload => MATES',                               'Y Y Y Y N N N N N N Y D D D D D N'),
('sync_node', 'node => ''zacme/zacme-zhidden-na''',            'Y Y Y ? D N N N N D ? D D D D D D'),
('sync_node', 'node => ''zacme/zacme-s1''',                    'Y Y Y D D D N N D D D D D D D D D'),
('schedule', 'pool => ''zacme/zacme-zhidden-pa''',             'Y Y Y Y D N N N N D Y D D D D D D'),
('schedule', 'pool => ''zacme/zacme-zhidden-pa'', dry_run => true', 'Y Y Y Y Y N N N N Y Y D D D D D Y'),
('explain', 'workload => WAITS',                               'Y Y Y Y Y N N N N Y Y D D D D D Y'),
('explain', 'workload => MATES',                               'Y Y Y Y N N N N N N Y D D D D D N'),
('node_map', 'pool => ''zacme/zacme-zhidden-pa''',             'Y Y Y Y Y N N N N Y Y D D D D D Y'),
('node_map_svg', 'pool => ''zacme/zacme-zhidden-pa''',         'Y Y Y Y Y N N N N Y Y D D D D D Y'),
('check_integrity', '',                                        'Y Y ? ? ? ? ? ? ? ? ? ? ? ? ? ? ?'),
('adopt_database', '',                                         'S S D D D D D D D D D D D D D D D'),
('now', '',                                                    'Y Y Y Y Y Y Y Y Y Y Y ? ? ? ? ? Y'),
('version', '',                                                'Y Y Y Y Y Y Y Y Y Y Y ? ? ? ? ? Y');
UPDATE t.right SET arguments = replace(replace(replace(replace(replace(replace(arguments, 'OPERATION', :'operation'), 'HIDDEN', :'hidden'), 'DRAFT', :'draft'),
	'OWN', :'own'), 'MATES', :'mates'), 'WAITS', :'waits');
-- Whether an account of another tenant, or of no tenant, that a gateway names is refused as one or the other is the same to it.
UPDATE t.right SET allowed = regexp_replace(allowed, '^((. ){11})D D', '\1R R');

-- Every function is in the table; those of the type resources have no rights.
CREATE VIEW t.public_function AS
	SELECT p.proname::text AS function FROM pg_proc p
	WHERE p.pronamespace = 'rpq'::regnamespace AND p.prokind IN ('f', 'p') AND p.prorettype <> 'trigger'::regtype
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid
					AND d.classid IN ('pg_type'::regclass, 'pg_operator'::regclass, 'pg_cast'::regclass, 'pg_aggregate'::regclass, 'pg_proc'::regclass))
	AND NOT ('rpq.resources'::regtype = ANY (p.proargtypes::oid[]) AND p.proname IN ('pretty', 'within', 'least', 'greatest') )
	AND NOT (p.prorettype = 'rpq.resources'::regtype AND p.pronargs > 0 AND 'rpq.resources'::regtype = ANY (p.proargtypes::oid[]))
	AND p.proname !~ '^resources_';
SELECT is_empty($$SELECT DISTINCT function FROM t.public_function WHERE function NOT IN (SELECT function FROM t.right) AND function <> 'wait_for_operation'$$,
				'every function is in the matrix');

-- Calls as a caller: the role in force, and rpq.account for the transaction.
CREATE FUNCTION t.as_caller(caller text, account text, command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	PERFORM set_config('rpq.account', coalesce(account, ''), true);
	EXECUTE format('SET LOCAL ROLE %I', caller);
	answer := t.answer(command);
	RESET ROLE;
	PERFORM set_config('rpq.account', '', true);
	RETURN answer;
END $$;
CREATE FUNCTION t.grade(answer text, letter text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN letter = ANY (CASE left(answer, 5) WHEN '00000' THEN '{Y,S,?}' WHEN '42501' THEN '{D,R,?}' WHEN '42704' THEN '{N,R,?}'
									WHEN '22023' THEN '{S,?}' ELSE CASE WHEN answer ~ '^(RQ|0A000)' THEN '{S,?}' ELSE '{}' END END::text[])
		   THEN 'as the matrix says' ELSE letter || ' but ' || answer END
$$;
CREATE TABLE t.tried AS
SELECT r.n, c.n AS caller, r.function, c.who, format('SELECT * FROM rpq.%I(%s)', r.function, r.arguments) AS command,
	   (string_to_array(r.allowed, ' '))[c.n] AS letter
FROM t.right r, t.caller c;
SELECT t.stored() AS stored \gset
SELECT is(t.grade(t.as_caller(c.role, c.account, v.command), v.letter), 'as the matrix says', v.who || ': ' || v.command)
FROM t.tried v JOIN t.caller c ON c.n = v.caller ORDER BY v.n, c.n;
SELECT is(t.stored(), :'stored', 'all of it is undone');

-- The same answer for what one may not see and for what is not there: by name, by tenant, by id.
SELECT is(replace(t.as_caller(c.role, c.account, format('SELECT * FROM rpq.%I(%s)', r.function, r.arguments)), seen, 'NAME'),
		  replace(t.as_caller(c.role, c.account, format('SELECT * FROM rpq.%I(%s)', r.function, replace(r.arguments, seen, bogus))), bogus, 'NAME'),
		  format('%s, %s: no difference between %s and %s', c.who, r.function, seen, bogus))
FROM t.right r JOIN t.caller c ON c.n IN (6, 7, 8, 9), (VALUES ('zacme-zhidden-pa', 'zacme-zhidden-px'), ('zacme-zhidden-na', 'zacme-zhidden-nx'),
	('zacme/', 'nix/'), ('zacme-other', 'zacme-none'), ('zacme-zhidden-group', 'zacme-zhidden-none'), ('zacme-zhidden-policy', 'zacme-zhidden-none'), ('zacme-zhidden-queue', 'zacme-zhidden-none'), ('zacme-project', 'zacme-none'), ('zacme-render', 'zacme-none')) v (seen, bogus)
WHERE r.arguments ~ seen AND r.function IN (SELECT function FROM t.public_function)
	AND (string_to_array(r.allowed, ' '))[c.n] = 'N'
ORDER BY r.n, c.n;
SELECT is(t.as_caller(c.role, c.account, format('SELECT * FROM rpq.%I(%s)', r.function, r.arguments)),
		  t.as_caller(c.role, c.account, format('SELECT * FROM rpq.%I(%s)', r.function, regexp_replace(r.arguments, '[0-9]+', '999999'))),
		  format('%s, %s: no difference between its id and none', c.who, r.function))
FROM t.right r JOIN t.caller c ON c.n IN (5, 6, 7, 8, 9, 10, 17)
WHERE r.arguments ~ '^(workload|id) => [0-9]' AND r.function IN (SELECT function FROM t.public_function)
	AND (string_to_array(r.allowed, ' '))[c.n] = 'N'
ORDER BY r.n, c.n;

-- ---- views ----------------------------------------------------------------------------------------------------------
CREATE TABLE t.view AS SELECT viewname::text AS name FROM pg_views WHERE schemaname = 'rpq';
CREATE FUNCTION t.rows_as(caller text, account text, name text, mark text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	PERFORM set_config('rpq.account', coalesce(account, ''), true);
	EXECUTE format('SET LOCAL ROLE %I', caller);
	BEGIN
		EXECUTE format('SELECT count(*)::text FROM rpq.%I v WHERE v::text LIKE %L', name, '%' || mark || '%') INTO answer;
	EXCEPTION WHEN OTHERS THEN
		answer := SQLSTATE || ' ' || SQLERRM;
	END;
	RESET ROLE;
	PERFORM set_config('rpq.account', '', true);
	RETURN answer;
END $$;
SELECT ok(count(*) >= 20, 'there are views') FROM t.view;
SELECT ok(t.rows_as(c.role, c.account, v.name) ~ '^[0-9]+$', c.who || ' reads ' || v.name || coalesce(': ' || nullif(t.rows_as(c.role, c.account, v.name), ''), ''))
FROM t.view v, t.caller c ORDER BY v.name, c.n;
SELECT is(t.rows_as(c.role, c.account, v.name), '0', c.who || ': ' || v.name || ' is empty')
FROM t.view v, t.caller c WHERE c.n BETWEEN 12 AND 16 ORDER BY v.name, c.n;
SELECT is(t.rows_as(c.role, c.account, v.name, 'zacme'), '0', c.who || ': ' || v.name || ' shows nothing of the tenant')
FROM t.view v, t.caller c WHERE c.n IN (7, 8) ORDER BY v.name, c.n;
SELECT is(t.rows_as(c.role, c.account, v.name, 'zhidden'), '0', c.who || ': ' || v.name || ' shows nothing of the hidden pool')
FROM t.view v, t.caller c WHERE c.n = 6 ORDER BY v.name, c.n;
SELECT is(t.rows_as(c.role, c.account, v.name, 'zsecret'), '0', c.who || ': ' || v.name || ' shows nothing of another member')
FROM t.view v, t.caller c WHERE c.n IN (5, 9, 10, 17) ORDER BY v.name, c.n;
SELECT is(t.rows_as(c.role, c.account, v.name, 'hidden-pb'), '0', c.who || ': ' || v.name || ' shows nothing of the pool next to its own')
FROM t.view v, t.caller c WHERE c.n IN (4, 5) ORDER BY v.name, c.n;

-- Who sees how many.                                          s o O P m t f F g G A
SELECT is((SELECT string_agg(t.rows_as(c.role, c.account, v.name), ' ' ORDER BY c.n) FROM t.caller c WHERE c.n <= 11), v.rows, v.name || ': who sees how many')
FROM (VALUES
	('pools',           '5 5 3 2 2 1 2 2 1 2 2'),
	('overview',        '5 5 3 2 2 1 2 2 1 2 2'),
	('nodes',           '7 7 5 4 4 2 2 2 2 4 4'),
	('members',         '3 3 2 2 1 0 1 1 0 1 2'),
	('workloads',       '5 5 4 4 3 0 1 1 0 3 4'),
	('workload_history', '4 4 3 3 2 0 1 1 0 2 3'),
	('pods',            '3 3 2 2 1 0 1 1 0 1 2'),
	('node_pods',       '3 3 2 2 1 0 1 1 0 1 2'),
	('ledger',          '3 3 2 2 1 0 1 1 0 1 2'),
	('operations',      '3 3 2 1 0 0 0 1 0 0 1'),
	('pool_admins',     '1 1 1 1 0 0 0 0 0 0 1'),
	('policies',        '1 1 1 0 0 0 0 0 0 0 0'),
	('policy_profiles', '1 1 1 0 0 0 0 0 0 0 0'),
	('profiles',        '2 2 2 0 0 0 0 0 0 0 0'),
	('queues',          '1 1 1 0 0 0 0 0 0 0 0'),
	('tenants',         '2 2 1 1 1 1 1 1 1 1 1'),
	('workers',         '0 0 0 0 0 0 0 0 0 0 0')) v (name, rows) WHERE v.name IN (SELECT name FROM t.view) ORDER BY v.name;
SELECT is(t.rows_as('rm_member', NULL, 'operation_history') || t.rows_as('rm_other', NULL, 'operation_history'), '00', 'no history for members and others');
SELECT ok(t.rows_as('rm_padm', NULL, 'operation_history')::int BETWEEN 1 AND t.rows_as('rm_org', NULL, 'operation_history')::int - 1,
		  'a pool admin sees a part of the tenant''s history');
SELECT ok(t.rows_as('rm_org', NULL, 'operation_history')::int < t.rows_as('postgres', NULL, 'operation_history')::int, 'the tenant''s is a part of all');

-- Moves of nodes and of pods: those of the pools that one administers.
SELECT rpq.move_nodes(nodes => '{zacme/zacme-s2}', to_pool => 'zacme/zacme-zhidden-pa') AS x,
	   rpq.move_nodes(nodes => '{zacme/zacme-s2}', to_pool => 'zacme/c1-gpu') AS y,
	   rpq.move_nodes(nodes => '{zacme/zacme-s2}', to_pool => 'zacme/zacme-zhidden-pb') AS z, rpq.drain_node(node => 'beta/f2') AS d \gset
SELECT rpq.uncordon_node(node => 'zacme/zacme-zhidden-nb') AS x \gset
SELECT rpq.drain_node(node => 'zacme/zacme-zhidden-na') AS x \gset
SELECT is((SELECT string_agg(t.rows_as(c.role, c.account, v.name), ' ' ORDER BY c.n) FROM t.caller c WHERE c.n <= 11), v.rows, v.name || ': who sees how many')
FROM (VALUES
	('migrations',      '5 5 4 3 0 0 0 1 0 0 3')) v (name, rows);
SELECT is((SELECT string_agg(CASE t.rows_as(c.role, c.account, 'pod_migrations') WHEN '0' THEN '0' WHEN t.rows_as('postgres', NULL, 'pod_migrations') THEN 'Y' ELSE '?' END,
		   ' ' ORDER BY c.n) FROM t.caller c WHERE c.n <= 17), 'Y Y Y Y 0 0 0 0 0 0 Y 0 0 0 0 0 0', 'pod_migrations: who sees them');
SELECT is(t.rows_as(c.role, c.account, v, mark), '0', format('%s: %s shows nothing of %s', c.who, v, mark))
FROM unnest('{migrations,pod_migrations,operations,nodes,node_pods,workloads,workload_events}'::text[]) v,
	(VALUES (7, 'zacme'), (8, 'zacme'), (6, 'zhidden'), (5, 'zsecret'), (9, 'zsecret'), (10, 'zsecret'), (17, 'zsecret'), (5, 'hidden-pb')) m (n, mark)
	JOIN t.caller c USING (n) ORDER BY v, c.n;

-- An executor syncs the nodes of its tenant and reports on its tenant's work; it is nobody's administrator.
SELECT is(left(t.as_caller('rm_executor', NULL, format('SELECT * FROM rpq.%s', call)), 5), state, 'executor: ' || call)
FROM (VALUES ('sync_node(node => ''zacme-zhidden-na'')', '00000'), ('sync_node(node => ''zacme-s1'', capacity => ''gpu=8'')', '00000'),
	('sync_node(node => ''beta/f1'')', '42704'), ('sync_node(node => ''nobody'')', '42704'),
	(format('report_finished(workload => %s, attempt => 99)', :own), '00000'), (format('report_started(workload => %s, attempt => 99)', :mates), '00000'),
	(format('requeue(workload => %s)', :own), '00000'), (format('requeue(workload => %s)', :foreign), '42704'), ('requeue(workload => 999999)', '42704'),
	(format('report_finished(workload => %s, attempt => 1)', :foreign), '42704'),
	('resize_pool(pool => ''zacme-zhidden-pa'', quota => ''gpu=0'')', '42704'), ('drain_node(node => ''zacme-s1'')', '42501'),
	('cordon_node(node => ''zacme-s1'')', '42501'), ('set_node_health(node => ''zacme-s1'', health => ''degraded'')', '42501'),
	('remove_nodes(names => ''{zacme-s1}'')', '42501'), ('run_operations()', '42501')) v (call, state);
SELECT is(t.as_caller('rm_executor', NULL, format('SELECT * FROM rpq.%s', replace(call, 'X', seen))),
		  replace(t.as_caller('rm_executor', NULL, format('SELECT * FROM rpq.%s', replace(call, 'X', bogus))), bogus, seen), format('executor, %s: no difference', call))
FROM (VALUES ('sync_node(node => ''X'')', 'beta/f1', 'beta/f9'), ('requeue(workload => X)', :'foreign', '999999'), ('report_started(workload => X, attempt => 1)', :'foreign', '999999')) v (call, seen, bogus);
-- A function in a WHERE clause that leaks its argument sees no row that the filter hides.
CREATE FUNCTION public.leak(anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$
BEGIN
	IF $1::text ~ 'zsecret' THEN RAISE EXCEPTION 'leaked %', $1; END IF;
	RETURN true;
END $$;
SELECT is(t.as_caller('rm_member', NULL, format('SELECT 1 FROM rpq.%I v WHERE public.leak(v::text)', name)), '00000', name || ' is a security barrier')
FROM t.view ORDER BY name;

-- ---- tables and private functions -----------------------------------------------------------------------------------
SELECT is_empty($$
	SELECT c.relname, r FROM pg_class c, unnest('{rm_org,rm_padm,rm_member,rm_gateway,rm_none}'::text[]) r,
		unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
	WHERE c.relnamespace = 'rpq_store'::regnamespace AND c.relkind IN ('r', 'v') AND has_table_privilege(r, c.oid, p)$$, 'no right on any table');
SELECT is_empty($$
	SELECT c.relname FROM pg_class c, unnest('{INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER}'::text[]) p
	WHERE c.relnamespace = 'rpq'::regnamespace AND c.relkind = 'v' AND has_table_privilege('rm_member', c.oid, p)$$, 'no right to write a view as a whole');
SELECT is(has_schema_privilege('rm_member', 'rpq_store', 'USAGE'), false, 'no way into the store');
SELECT is(has_schema_privilege('rm_member', 'rpq', 'CREATE'), false, 'nothing is made in rpq');
CREATE TABLE t.locked AS SELECT relname::text AS name FROM pg_class WHERE relnamespace = 'rpq_store'::regnamespace AND relkind = 'r';
SELECT is(string_agg(DISTINCT left(t.as_caller('rm_member', NULL, format(command, name)), 5), ' '), '42501', format(command, 'every table'))
FROM t.locked, unnest(ARRAY['SELECT 1 FROM rpq_store.%I', 'SELECT 1 FROM rpq_store.%I FOR UPDATE', 'SELECT 1 FROM rpq_store.%I FOR KEY SHARE',
	'LOCK TABLE rpq_store.%I IN ACCESS SHARE MODE', 'LOCK TABLE rpq_store.%I', 'DELETE FROM rpq_store.%I', 'TRUNCATE rpq_store.%I',
	'INSERT INTO rpq_store.%I DEFAULT VALUES', 'CREATE TRIGGER x BEFORE INSERT ON rpq_store.%I EXECUTE FUNCTION suppress_redundant_updates_trigger()']) command
GROUP BY command;
SELECT is(left(t.as_caller('rm_member', NULL, format('LOCK TABLE rpq.%I IN %s MODE', v.name, mode)), 5), '42501', format('LOCK TABLE %s IN %s MODE', v.name, mode))
FROM t.view v, unnest('{ROW EXCLUSIVE,SHARE,EXCLUSIVE,ACCESS EXCLUSIVE}'::text[]) mode ORDER BY v.name, mode;
-- Private functions: either none at all, or nothing that acts, reads or locks for a caller.
SELECT is_empty($$
	SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'rpq_store'::regnamespace AND p.provolatile = 'v'
	AND has_function_privilege('rm_member', p.oid, 'EXECUTE') AND p.prorettype <> 'trigger'::regtype AND has_schema_privilege('rm_member', 'rpq_store', 'USAGE')$$,
	'no private function that writes can be called');
SELECT is_empty($$
	SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace IN ('rpq_store'::regnamespace, 'rpq'::regnamespace) AND p.prosecdef
	AND NOT coalesce(p.proconfig::text ~ 'search_path=pg_catalog, pg_temp', false)$$, 'every SECURITY DEFINER function pins its path');
SELECT * FROM t.whole();
SELECT * FROM finish();

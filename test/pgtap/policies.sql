-- Policies, profiles and queues: every rule and refusal, what the history says of them, names and strange arguments.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_tenant('beta');
SELECT rpq.create_account('u9', tenant => 'beta'), rpq.create_user_group('gb', tenant => 'beta');
SELECT rpq.add_nodes('g8', names => '{n1,n2,n3,n4}', tenant => 'acme'), rpq.add_nodes('g8', names => '{b1}', tenant => 'beta');
SELECT rpq.create_pool(p, 'dedicated', quota => 'gpu=8', tenant => 'acme') FROM unnest('{p1,p2}'::text[]) p;
SELECT rpq.create_pool('empty', 'dedicated', tenant => 'acme');
CREATE ROLE pol_org;  CREATE ROLE pol_u1;  CREATE ROLE pol_u2;
SELECT rpq.create_account('boss', 'pol_org', org_admin => true, tenant => 'acme');
SELECT rpq.edit_account('acme/u1', db_role => 'pol_u1'), rpq.edit_account('acme/u2', db_role => 'pol_u2');
SET ROLE pol_org;
SELECT rpq.create_user_group('g1'), rpq.create_user_group('g2'), rpq.add_to_group('g1', '{u1,u3}'), rpq.add_to_group('g2', '{u2}');
RESET ROLE;
CREATE FUNCTION t.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || SQLERRM || coalesce(': ' || nullif(detail, ''), '');
END $$;
CREATE FUNCTION t.last() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', action, object_kind, object, old, new) FROM rpq.operation_history ORDER BY operation_history_id DESC LIMIT 1 $$;

-- ---- arguments that are not there, or are nothing ----------------------------------------------------------------------
SELECT is(t.judge(command, state), 'right', command) FROM (VALUES
	('SELECT rpq.create_profile(NULL, ''gpu=1'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', NULL, ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', NULL, ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{NULL}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{""}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{p1}'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{p1}'', ''nix'')', '42704'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{p1,nix}'', ''acme'')', '42704'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{beta/c1-gpu}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', '''', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=0'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=-1'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=3/2'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1,cpu=0'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''x'', ''gpu=1/2'', ''{p1}'', ''acme'')', 'ok'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{}'', ''acme'')', 'ok'),
	('SELECT rpq.create_profile(''x'', ''gpu=1'', ''{{p1,p2},{p2,p1}}'', ''acme'')', 'ok'),
	('SELECT rpq.create_profile('' x'', ''gpu=1'', ''{p1, p1 ,acme/p1}'', ''acme'')', 'ok'),
	('SELECT rpq.create_profile(''a/b'', ''gpu=1'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(repeat(''x'', 64), ''gpu=1'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(E''a\tb'', ''gpu=1'', ''{p1}'', ''acme'')', '22023'),
	('SELECT rpq.create_profile(''"; DROP TABLE x; --'''''', ''gpu=1'', ''{p1}'', ''acme'')', 'ok'),
	('SELECT rpq.edit_profile(NULL)', '22023'), ('SELECT rpq.edit_profile(''acme/nix'')', '42704'),
	('SELECT rpq.delete_profile(NULL)', '22023'), ('SELECT rpq.delete_profile(''acme/nix'')', '42704'),
	('SELECT rpq.create_policy(NULL, ''g1'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', NULL, tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', ''nix'', tenant => ''acme'')', '42704'),
	('SELECT rpq.create_policy(''x'', ''beta/gb'', tenant => ''acme'')', '42704'),
	('SELECT rpq.create_policy(''x'', ''gb'', tenant => ''acme'')', '42704'),
	('SELECT rpq.create_policy(''x'', ''acme/g1'', tenant => ''acme'')', 'ok'),
	('SELECT rpq.create_policy(''x'', ''g1'', tenant => ''nix'')', '42704'),
	('SELECT rpq.create_policy(''x'', ''g1'', ''gpu=-1'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', ''g1'', usage_limit => ''gpu=-1'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', ''g1'', ''gpu=9'', ''gpu=8'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', ''g1'', ''gpu=8,cpu=5'', ''gpu=8,cpu=4'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', ''g1'', ''gpu=8,cpu=5'', ''gpu=8'', tenant => ''acme'')', 'ok'),
	('SELECT rpq.create_policy(''x'', ''g1'', ''gpu=0'', ''gpu=0'', tenant => ''acme'')', 'ok'),
	('SELECT rpq.create_policy(''x'', ''g1'', lending => ''give'', tenant => ''acme'')', '22023'),
	('SELECT rpq.create_policy(''x'', ''g1'', lending => NULL, tenant => ''acme'')', 'ok'),
	('SELECT rpq.create_policy(''x'', ''g1'', description => repeat(''x'', 10001), tenant => ''acme'')', '22023'),
	('SELECT rpq.edit_policy(NULL)', '22023'), ('SELECT rpq.edit_policy(''acme/nix'')', '42704'),
	('SELECT rpq.delete_policy(NULL)', '22023'), ('SELECT rpq.delete_policy(''acme/nix'')', '42704'),
	('SELECT * FROM rpq.connectable_profiles(NULL)', '22023'), ('SELECT * FROM rpq.connectable_profiles(''acme/nix'')', '42704'),
	('SELECT rpq.connect_profile(NULL, ''f'', ''q'')', '22023'), ('SELECT rpq.connect_profile(''acme/nix'', ''f'', ''q'')', '42704'),
	('SELECT rpq.disconnect_profile(NULL, ''f'')', '22023'), ('SELECT rpq.disconnect_profile(''acme/nix'', ''f'')', '42704'),
	('SELECT rpq.set_pod_template(NULL, ''{}'')', '22023'), ('SELECT rpq.set_pod_template(''acme/nix'', ''{}'')', '42704'),
	('SELECT * FROM rpq.validate_profiles()', '22023'), ('SELECT rpq.provision_profiles()', '22023'), ('SELECT rpq.reset_profiles()', '22023'),
	('SELECT * FROM rpq.validate_profiles(''nix'')', '42704'), ('SELECT rpq.provision_profiles(''nix'')', '42704')) v (command, state);

-- ---- a profile: saved, validated, provisioned, reset ---------------------------------------------------------------------
SET ROLE pol_org;
SELECT rpq.create_profile('small', 'gpu=4', '{p2,p1,p2}');
SELECT is(t.last(), 'create_profile profile small {"name": "small", "pools": ["p2", "p1"], "resources": "gpu=4"}', 'recorded');
SELECT is((SELECT concat_ws(' ', name, resources, pools, provisioned) FROM rpq.profiles), 'small gpu=4 {p2,p1} f', 'saved, in routing order');
SELECT is(t.outcome($$SELECT rpq.create_profile('small', 'gpu=1', '{p1}')$$), '42710', 'the name is taken');
SELECT is_empty($$SELECT * FROM rpq.validate_profiles()$$, 'nothing is wrong');
SELECT is(rpq.provision_profiles(), 1, 'one is put in force');
SELECT is(t.last(), 'provision_profiles profile small {"pools": [], "resources": null} {"pools": ["p2", "p1"], "resources": "gpu=4"}', 'recorded');
SELECT is(rpq.provision_profiles(), 0, 'nothing is left to do');
SELECT is(t.last() LIKE 'provision_profiles profile small %', true, 'and not recorded');
SELECT rpq.edit_profile('small', resources => 'gpu=9', pools => '{empty,p1}');
SELECT is(t.last(), 'edit_profile profile small {"pools": ["p2", "p1"], "resources": "gpu=4"} {"pools": ["empty", "p1"], "resources": "gpu=9"}', 'the changed keys');
SELECT rpq.create_profile('none', 'gpu=1', '{}');
SELECT results_eq($$SELECT profile, problem FROM rpq.validate_profiles()$$,
	$$VALUES ('none', 'no pool is linked'), ('small', 'pool "empty" has no node'), ('small', 'gpu=9 fits no node of pool "p1"')$$, 'all that is wrong');
RESET ROLE;
SELECT t.stored() AS stored \gset
SET ROLE pol_org;
SELECT is(t.said($$SELECT rpq.provision_profiles()$$), '22023 profiles cannot be provisioned: Profile "none": no pool is linked. '
	'Profile "small": pool "empty" has no node. Profile "small": gpu=9 fits no node of pool "p1".', 'refused, naming all');
RESET ROLE;
SELECT is(t.stored(), :'stored', 'nothing is stored');
SET ROLE pol_org;
SELECT is((SELECT string_agg(concat_ws(' ', name, resources, pools, provisioned), ', ' ORDER BY name) FROM rpq.profiles), 'none gpu=1 {} f, small gpu=9 {empty,p1} f', 'saved as edited');
SELECT is(rpq.reset_profiles(), 1, 'one is reset');
SELECT is(t.last(), 'reset_profiles profile small {"pools": ["empty", "p1"], "resources": "gpu=9"} {"pools": ["p2", "p1"], "resources": "gpu=4"}', 'recorded');
SELECT is((SELECT string_agg(concat_ws(' ', name, resources, pools, provisioned), ', ' ORDER BY name) FROM rpq.profiles), 'none gpu=1 {} f, small gpu=4 {p2,p1} t',
	'as it is in force; what never was stays as it is saved');
SELECT is(rpq.reset_profiles(), 0, 'nothing is left to reset');
SELECT rpq.edit_profile('none', name => 'big', pools => '{p1}', resources => 'gpu=8');
SELECT is(t.outcome($$SELECT rpq.edit_profile('big', name => 'small')$$), '42710', 'the name of another');
SELECT is(t.outcome($$SELECT rpq.edit_profile('big', clear => '{pools}', pools => '{p1}')$$), '22023', 'given and cleared');
SELECT is(t.outcome($$SELECT rpq.edit_profile('big', clear => '{name}')$$), '22023', 'cannot be cleared');
SELECT is(t.outcome($$SELECT rpq.edit_profile('big', tenant => 'beta')$$), '42704', 'another tenant, which one does not see');
SELECT is(t.outcome($$SELECT rpq.edit_profile('big', tenant => 'acme')$$), 'ok', 'its own');
SELECT t.last() AS before \gset
SELECT rpq.edit_profile('big'), rpq.edit_profile('big', resources => 'gpu=8', pools => '{p1}');
SELECT is(t.last(), :'before', 'what changes nothing is not recorded');
SELECT rpq.edit_profile('big', clear => '{pools}');
SELECT is((SELECT pools FROM rpq.profiles WHERE name = 'big'), '{}', 'cleared');
SELECT rpq.edit_profile('big', pools => '{p1}');
SELECT is(rpq.provision_profiles('acme'), 1, 'by the tenant''s name');

-- ---- policies ---------------------------------------------------------------------------------------------------------
SELECT rpq.create_policy('dev', 'g1', 'gpu=4', 'gpu=6', description => 'for dev');
SELECT is(t.last(), 'create_policy policy dev {"name": "dev", "lending": "lend", "user_group": "g1", "description": "for dev", "reservation": "gpu=4", "usage_limit": "gpu=6"}', 'recorded');
SELECT is((SELECT concat_ws(' ', name, description, user_group, users, reservation, usage_limit, lending, used, unmet_reservation, queues) FROM rpq.policies),
	'dev for dev g1 {u1,u3} gpu=4 gpu=6 lend  gpu=4 {}', 'shown');
SELECT is((SELECT reservation_met FROM rpq.policies), NULL, 'no profile is connected');
SELECT is(t.outcome($$SELECT rpq.create_policy('dev', 'g2')$$), '42710', 'the name is taken');
SELECT rpq.create_policy('ops', 'g2');
SELECT is((SELECT concat_ws(' ', reservation, usage_limit, lending) FROM rpq.policies WHERE name = 'ops'), ' lend', 'defaults');
SELECT is((SELECT usage_limit::text FROM rpq.policies WHERE name = 'ops'), NULL, 'no limit');
SELECT is(t.outcome($$SELECT rpq.edit_policy('ops', name => 'dev')$$), '42710', 'the name of another');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', usage_limit => 'gpu=3')$$), '22023', 'a limit below the reservation');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', reservation => 'gpu=7')$$), '22023', 'a reservation above the limit');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', lending => 'x')$$), '22023', 'lending');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', clear => '{name}')$$), '22023', 'what cannot be cleared');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', reservation => 'gpu=1', clear => '{reservation}')$$), '22023', 'given and cleared');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', tenant => 'beta')$$), '42704', 'another tenant, which one does not see');
SELECT is(t.outcome($$SELECT rpq.edit_policy('beta/dev')$$), '42704', 'of another tenant');
SELECT rpq.edit_policy('ops', reservation => 'gpu=1', usage_limit => 'gpu=2,cpu=4', lending => 'hold', description => 'd', name => 'ops2', user_group => 'g1');
SELECT is(t.last(), 'edit_policy policy ops2 {"name": "ops", "lending": "lend", "user_group": "g2", "description": null, "reservation": "", "usage_limit": null} '
	'{"name": "ops2", "lending": "hold", "user_group": "g1", "description": "d", "reservation": "gpu=1", "usage_limit": "cpu=4,gpu=2"}', 'the changed keys');
SELECT rpq.edit_policy('ops2', clear => '{reservation,usage_limit,description}');
SELECT is((SELECT concat_ws(' ', reservation, usage_limit, lending, description) FROM rpq.policies WHERE name = 'ops2'), ' hold', 'cleared');
SELECT t.last() AS before \gset
SELECT rpq.edit_policy('ops2'), rpq.edit_policy('ops2', lending => 'hold', user_group => 'g1');
SELECT is(t.last(), :'before', 'what changes nothing is not recorded');
SELECT rpq.edit_policy('ops2', name => 'ops', user_group => 'g2', lending => 'lend');

-- ---- connecting ---------------------------------------------------------------------------------------------------------
SELECT rpq.create_profile('later', 'gpu=1', '{p1}');
SELECT results_eq($$SELECT profile, resources::text, selectable, reason FROM rpq.connectable_profiles('dev')$$,
	$$VALUES ('big', 'gpu=8', false, 'it asks for gpu=8, the limit of the policy is gpu=6'), ('small', 'gpu=4', true, NULL)$$, 'provisioned ones, the larger one not selectable');
SELECT rpq.edit_profile('small', resources => 'gpu=2');
SELECT is((SELECT resources::text FROM rpq.connectable_profiles('dev') WHERE profile = 'small'), 'gpu=4', 'as it is in force');
SELECT rpq.edit_profile('small', resources => 'gpu=4');
-- the refusals in their order
SELECT is(t.said($$SELECT rpq.connect_profile('dev', NULL, 'q')$$), '22023 the profile must be given', 'no profile');
SELECT is(t.said($$SELECT rpq.connect_profile('dev', 'nix', 'q')$$), '42704 profile "nix" does not exist', 'no such profile');
SELECT is(t.outcome($$SELECT rpq.connect_profile('dev', 'small', NULL)$$), '22023', 'no name');
SELECT is(t.outcome($$SELECT rpq.connect_profile('dev', 'small', 'a/b')$$), '22023', 'no possible name');
SELECT is(t.said($$SELECT rpq.connect_profile('dev', 'later', 'q')$$), '22023 profile "later" cannot be connected to policy "dev": It is not provisioned.', 'not provisioned');
SELECT is(t.said($$SELECT rpq.connect_profile('dev', 'big', 'q')$$), 'RQ002 profile "big" cannot be connected to policy "dev": It asks for gpu=8, the limit of the policy is gpu=6.', 'too large');
SELECT rpq.connect_profile('dev', 'small', ' dev-small ') AS queue \gset
SELECT is(t.last(), 'connect_profile queue dev-small {"name": "dev-small", "policy": "dev", "profile": "small"}', 'recorded');
RESET ROLE;
SELECT is((SELECT count(*) FROM rpq_store.turn WHERE scope_id = :queue), 1::bigint, 'it is a scope');
SET ROLE pol_org;
SELECT is((SELECT concat_ws(' ', tenant, name, policy, profile, resources, queued, running) FROM rpq.queues), 'acme dev-small dev small gpu=4 0 0', 'rpq.queues');
SELECT is((SELECT concat_ws(' ', policy, profile, queue, resources, queued, running, pools) FROM rpq.policy_profiles), 'dev small dev-small gpu=4 0 0 {p2,p1}', 'rpq.policy_profiles');
SELECT is((SELECT concat_ws(' ', queues, reservation_met) FROM rpq.policies WHERE name = 'dev'), '{dev-small} t', 'rpq.policies');
SELECT is(t.said($$SELECT rpq.connect_profile('dev', 'small', 'q')$$), '42710 profile "small" is already connected to policy "dev": Its queue is "dev-small".', 'already connected');
SELECT is((SELECT string_agg(profile, ',') FROM rpq.connectable_profiles('dev')), 'big', 'no longer in the list');
SELECT is(t.said($$SELECT rpq.connect_profile('ops', 'small', 'dev-small')$$), '42710 queue "dev-small" already exists', 'the name is taken');
SELECT is((SELECT reason FROM rpq.connectable_profiles('ops') WHERE profile = 'big'), NULL, 'without limit nothing is too large');
SELECT rpq.connect_profile('ops', 'big', 'ops-big');
SELECT is(t.said($$SELECT rpq.delete_profile('small')$$), 'RQ006 profile "small" is in use: In use by queue "dev-small" of policy "dev".', 'a connected profile is not deleted');
SELECT is(t.said($$SELECT rpq.delete_user_group('g1')$$), 'RQ006 user group "g1" is in use: In use by 1 policy.', 'nor the group of a policy');
-- a size beyond the limit of a policy that it is connected to
SELECT rpq.edit_profile('small', resources => 'gpu=7');
SELECT results_eq($$SELECT profile, problem FROM rpq.validate_profiles()$$,
	$$VALUES ('small', 'gpu=7 is more than gpu=6, the limit of policy "dev", to which it is connected')$$, 'a size beyond a limit');
SELECT rpq.reset_profiles();
SELECT rpq.edit_policy('dev', reservation => 'gpu=2', usage_limit => 'gpu=3');
SELECT is_empty($$SELECT * FROM rpq.validate_profiles()$$, 'a limit may be lowered: what is in force stays so');
SELECT rpq.edit_policy('dev', reservation => 'gpu=4', usage_limit => 'gpu=6');
-- the template of pods
SELECT is(t.outcome($$SELECT rpq.set_pod_template('dev-small', '[1]')$$), '22023', 'no object');
SELECT is(t.outcome($$SELECT rpq.set_pod_template('dev-small', 'null')$$), '22023', 'JSON''s null is no object');
SELECT rpq.set_pod_template('dev-small', '{"image": "x"}');
SELECT is(t.last(), 'set_pod_template queue dev-small {"pod_template": null} {"pod_template": {"image": "x"}}', 'recorded');
SELECT rpq.set_pod_template('dev-small');
SELECT is(t.last(), 'set_pod_template queue dev-small {"pod_template": {"image": "x"}} {"pod_template": null}', 'taken away');
SELECT is(t.outcome($$SELECT rpq.set_pod_template('dev-small')$$) || ' ' || t.last(), 'ok set_pod_template queue dev-small {"pod_template": {"image": "x"}} {"pod_template": null}', 'once');

-- ---- who sees what ------------------------------------------------------------------------------------------------------
SET ROLE pol_u1;
SELECT is((SELECT string_agg(concat_ws(' ', name, users, queues, reservation_met), ',') FROM rpq.policies), 'dev {u1} {dev-small} t', 'a member sees its group''s policy, and itself alone');
SELECT is((SELECT string_agg(name, ',') FROM rpq.queues) || (SELECT count(*) FROM rpq.profiles), 'dev-small0', 'and its queue');
SELECT is((SELECT string_agg(concat_ws(' ', queue, pools), ',') FROM rpq.policy_profiles), 'dev-small', 'not the pools behind it');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev', lending => 'hold')$$), '42501', 'but changes nothing');
SELECT is(t.outcome($$SELECT rpq.edit_policy('ops', lending => 'hold')$$), '42704', 'another group''s is not there');
SELECT is(t.outcome($$SELECT rpq.set_pod_template('ops-big', '{}')$$), '42704', 'nor its queue');
SELECT is(t.outcome($$SELECT rpq.delete_profile('small')$$), '42704', 'a profile is not there at all');
RESET ROLE;

-- ---- disconnecting, deleting --------------------------------------------------------------------------------------------
SET ROLE pol_org;
SELECT is(t.said($$SELECT rpq.disconnect_profile('dev', 'big')$$), '42704 profile "big" is not connected to policy "dev"', 'not connected');
SELECT is(t.outcome($$SELECT rpq.disconnect_profile('dev', NULL)$$), '22023', 'no profile');
SELECT rpq.disconnect_profile('dev', 'small');
SELECT is(t.last(), 'disconnect_profile queue dev-small {"name": "dev-small", "policy": "dev", "profile": "small"}', 'recorded');
SELECT is((SELECT string_agg(name, ',') FROM rpq.queues), 'ops-big', 'gone from the views');
SELECT is((SELECT concat_ws(' ', queues, reservation_met) FROM rpq.policies WHERE name = 'dev'), '{}', 'and from the policy');
SELECT is(t.outcome($$SELECT rpq.set_pod_template('dev-small', '{}')$$), '42704', 'it is not there');
SELECT isnt(rpq.connect_profile('dev', 'small', 'dev-small'), :queue::bigint, 'another queue under the same name');
SELECT rpq.delete_policy('dev');
SELECT is(t.last() LIKE 'delete_policy policy dev {"name": "dev", "queues": ["dev-small"], %', true, 'recorded with its queues');
SELECT is((SELECT string_agg(name, ',') FROM rpq.policies) || (SELECT string_agg(name, ',') FROM rpq.queues), 'opsops-big', 'gone from the views');
SELECT is(t.outcome($$SELECT rpq.edit_policy('dev')$$), '42704', 'it is not there');
SELECT rpq.create_policy('dev', 'g1'), rpq.delete_policy('dev');
SELECT rpq.delete_profile('small');
SELECT is(t.last(), 'delete_profile profile small {"name": "small", "pools": ["p2", "p1"], "resources": "gpu=4"}', 'a profile that only deleted queues had is deleted');
SELECT rpq.create_profile('small', 'gpu=1', '{p1}'), rpq.delete_profile('small');
SELECT rpq.delete_user_group('g1');
SELECT is((SELECT string_agg(name, ',') FROM rpq.user_groups), 'g2', 'a group that only deleted policies had is deleted');

-- ---- pools that go --------------------------------------------------------------------------------------------------------
SELECT is(t.said($$SELECT rpq.delete_pool('p1')$$), 'RQ006 pool "p1" cannot be deleted: 1 node, 1 queue', 'a queue stands against it');
SELECT is(t.said($$SELECT rpq.delete_pool('empty')$$), 'ok', 'nothing stands against this one');
SELECT rpq.create_profile('two', 'gpu=1', '{p2,p1}');
SELECT rpq.provision_profiles(), rpq.connect_profile('ops', 'two', 'ops-two');
SELECT rpq.edit_profile('later', pools => '{p2}');
SELECT rpq.delete_pool('p1', force => true) > 0 AS deleted;
SELECT is((SELECT string_agg(concat_ws(' ', name, pools, provisioned), ', ' ORDER BY name) FROM rpq.profiles), 'big {} t, later {p2} f, two {p2} t', 'it leaves the profiles, saved and provisioned');
SELECT is((SELECT new IS NULL AND old -> 'profiles' = '["big", "later", "two"]' FROM rpq.operation_history WHERE action = 'delete_pool' AND object = 'p1'), true, 'inside its row');
SELECT is((SELECT string_agg(name, ',' ORDER BY name) FROM rpq.queues), 'ops-big,ops-two', 'the queues stay');
SELECT is(t.said($$SELECT rpq.connect_profile('dev', 'big', 'x')$$), '42704 policy "dev" does not exist', 'the policy first');
RESET ROLE;
SELECT rpq.create_policy('dev', 'g2', tenant => 'acme');
SELECT is(t.said($$SELECT rpq.connect_profile('acme/dev', 'acme/big', 'x')$$), '22023 profile "big" cannot be connected to policy "dev": No pool is left that serves it.', 'a profile without pool');
SELECT is((SELECT concat_ws(' ', selectable, reason) FROM rpq.connectable_profiles('acme/dev') WHERE profile = 'big'), 'f no pool is left that serves it', 'not selectable');
SELECT is(t.outcome($$SELECT rpq.connect_profile('acme/dev', 'beta/two', 'x')$$), '42704', 'a profile of another tenant');
SELECT is((SELECT string_agg(profile || ' ' || problem, ', ') FROM rpq.validate_profiles('acme')), 'big no pool is linked', 'validation says so');
SELECT * FROM t.whole();
SELECT * FROM finish();

-- Who may do and see what: the table of rights, rpq.account, what is answered about things that one may not see, the
-- fence, and the history's guard.  Objects are made past the functions where only their rows matter.
\set SHOW_CONTEXT never
CREATE ROLE plat;
GRANT postgres TO plat;		-- the role that owns the extension
CREATE ROLE org;
CREATE ROLE padm;
CREATE ROLE member;
CREATE ROLE other;
CREATE ROLE exec;
CREATE ROLE driver;
CREATE ROLE gate;
CREATE ROLE foreign_org;
CREATE ROLE nobody;
CREATE ROLE tool;			-- membership in another role than the owner's grants nothing
GRANT org TO tool;

SELECT rpq.create_tenant('acme'), rpq.create_tenant('beta'), rpq.create_cluster('c1');
SELECT rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=192');
SELECT rpq.create_account('org', 'org', org_admin => true, tenant => 'acme'),
	rpq.create_account('padm', 'padm', tenant => 'acme'), rpq.create_account('member', 'member', tenant => 'acme'),
	rpq.create_account('other', 'other', tenant => 'acme'),
	rpq.create_account('exec', 'exec', executor => true, tenant => 'acme'),
	rpq.create_account('driver', 'driver', driver => true, tenant => 'acme'),
	rpq.create_account('gate', 'gate', gateway => true, tenant => 'acme'),
	rpq.create_account('foreign_org', 'foreign_org', org_admin => true, tenant => 'beta'),
	rpq.create_account('twin', tenant => 'acme'), rpq.create_account('twin', tenant => 'beta'),
	rpq.create_account('lone', tenant => 'beta');
SELECT rpq.create_user_group('g', 'acme');
SELECT rpq.add_to_group('acme/g', '{member}');

BEGIN;
SET LOCAL rpq.action = 'test';
INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name, status, open)
SELECT tenant_id, cluster_id, k.kind, k.type, k.name, k.status, k.open
FROM rpq_store.tenant AS t, rpq_store.cluster AS c, (VALUES
	('gpu', 'dedicated', 'p1', 'ready', true), ('gpu', 'dedicated', 'p2', 'ready', true),
	('gpu', 'shared', 's', 'ready', true), ('cpu', 'shared', 'closed', 'ready', false),
	('gpu', 'dedicated', 'gone', 'deleted', true)) AS k (kind, type, name, status, open)
WHERE t.name = 'acme';
INSERT INTO rpq_store.member (pool_id, account_id)
SELECT pool_id, account_id FROM rpq_store.pool p, rpq_store.account a WHERE p.name = 'p1' AND a.name = 'member';
INSERT INTO rpq_store.pool_admin (pool_id, account_id)
SELECT pool_id, account_id FROM rpq_store.pool p, rpq_store.account a WHERE p.name = 'p1' AND a.name = 'padm';
INSERT INTO rpq_store.node (tenant_id, cluster_id, name, pool_id, type_id, capacity, usable)
SELECT p.tenant_id, cluster_id, 'n-' || p.name, pool_id, type_id, capacity, capacity
FROM rpq_store.pool p, rpq_store.instance_type WHERE p.name IN ('p1', 'p2', 's');
INSERT INTO rpq_store.workload (tenant_id, scope_id, account_id, shape, created_at, replicas, priority, status,
	workload_type, resources)
SELECT p.tenant_id, p.pool_id, a.account_id, 1, now(), 1, 50, 'queued', 'training', 'gpu=1'
FROM (VALUES ('p1', 'member'), ('p2', 'other')) AS w (pool, account)
JOIN rpq_store.pool p ON p.name = w.pool JOIN rpq_store.account a ON a.name = w.account ORDER BY p.name;
INSERT INTO rpq_store.operation (tenant_id, kind, pool_id, action, initiator, created_at)
SELECT tenant_id, 'resize', pool_id, 'resize_pool', 'org', now() FROM rpq_store.pool WHERE name = 'p1';
COMMIT;

CREATE FUNCTION ask(action text, object text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS 'SELECT rpq_store.authorize(action, object)';
CREATE FUNCTION ask(action text, object bigint) RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS 'SELECT rpq_store.authorize_id(action, object)';

-- The answers of every role, grouped
CREATE FUNCTION answers(action text, object text DEFAULT NULL, by_id boolean DEFAULT false)
RETURNS TABLE (answer text, roles text) LANGUAGE plpgsql AS $$
DECLARE
	r text;
	given jsonb := '{}';
	a text;
BEGIN
	FOREACH r IN ARRAY '{postgres,plat,org,padm,member,other,exec,driver,gate,foreign_org,nobody,tool}'::text[] LOOP
		BEGIN
			EXECUTE format('SET LOCAL ROLE %I', r);
			IF by_id THEN
				PERFORM ask(action, object::bigint);
			ELSE
				PERFORM ask(action, object);
			END IF;
			a := 'ok';
		EXCEPTION WHEN OTHERS THEN
			a := SQLSTATE || ' ' || SQLERRM;
		END;
		RESET ROLE;
		given := jsonb_set(given, ARRAY[a], to_jsonb(concat_ws(' ', given ->> a, r)));
	END LOOP;
	RETURN QUERY SELECT e.key, e.value FROM jsonb_each_text(given) AS e ORDER BY e.key COLLATE "C";
END
$$;

-- By kind of object
SELECT * FROM answers('create_tenant');
SELECT * FROM answers('create_account', 'acme');
SELECT * FROM answers('create_account');
SELECT * FROM answers('add_nodes', 'acme');
SELECT * FROM answers('edit_instance_type', 'h100');
SELECT * FROM answers('edit_account', 'acme/other');
SELECT * FROM answers('add_to_group', 'acme/g');
SELECT * FROM answers('delete_workload_type', 'acme/training');
SELECT * FROM answers('selectable_pools', 'acme/training');
SELECT * FROM answers('edit_pool', 'acme/p1');
SELECT * FROM answers('edit_pool', 'acme/p2');
SELECT * FROM answers('edit_pool', 'acme/s');
SELECT * FROM answers('usage_at', 'acme/p1');
SELECT * FROM answers('usage_at', 'acme/s');
SELECT * FROM answers('usage_at', 'acme/closed');
SELECT * FROM answers('usage_at', 'acme/gone');
SELECT * FROM answers('usage_at', 'acme/none');
SELECT * FROM answers('cordon_node', 'acme/n-p1');
SELECT * FROM answers('cordon_node', 'acme/n-s');
SELECT * FROM answers('remove_nodes', 'acme/n-p2');
SELECT * FROM answers('sync_node', 'acme/n-p2');
SELECT * FROM answers('stop', '1', true);
SELECT * FROM answers('stop', '2', true);
SELECT * FROM answers('stop', '999999', true);
SELECT * FROM answers('explain', '2', true);
SELECT * FROM answers('report_finished', '2', true);
SELECT * FROM answers('retry_operation', '1', true);
SELECT * FROM answers('claim_scaling_request');
SELECT * FROM answers('run_operations');
SELECT * FROM answers('schedule');
SELECT * FROM answers('schedule.dry_run');
SELECT * FROM answers('schedule', 'acme/p1');
SELECT * FROM answers('version');
SELECT * FROM answers('edit_pool');
SELECT * FROM answers('stop', NULL, true);

-- Without the tenant's name: one's own, the only one, or none
SET ROLE member;
SELECT ask('usage_at', 'p1') = (SELECT ask('usage_at', 'acme/p1')) AS same;
SELECT ask('usage_at', 'beta/p1');
RESET ROLE;
SELECT ask('usage_at', 'p1');
SET ROLE nobody;
SELECT rpq.create_cluster('x');
RESET ROLE;

-- rpq.account
CREATE FUNCTION who() RETURNS rpq_store.caller_identity
LANGUAGE sql SECURITY DEFINER AS 'SELECT rpq_store.caller()';
CREATE FUNCTION sees(OUT account bigint, OUT platform boolean, OUT tenant bigint, OUT org boolean, OUT pools text,
	OUT administered text, OUT tenants bigint[])
LANGUAGE sql SECURITY DEFINER AS $$
	SELECT rpq_store.my_account(), rpq_store.is_platform_admin(), rpq_store.my_tenant(), rpq_store.is_org_admin(),
		(SELECT string_agg(name, ' ' ORDER BY name) FROM rpq_store.pool WHERE pool_id = ANY (rpq_store.seen_pools())),
		(SELECT string_agg(name, ' ' ORDER BY name) FROM rpq_store.pool
		 WHERE pool_id = ANY (rpq_store.administered_pools())),
		rpq_store.seen_tenants()
$$;
\pset null NULL
SELECT who(), sees();
SET ROLE plat;
SELECT who(), sees();
SET ROLE org;
SELECT who(), sees();
SET ROLE padm;
SELECT who(), sees();
SET ROLE member;
SELECT who(), sees();
SET ROLE other;
SELECT who(), sees();
SET ROLE foreign_org;
SELECT who(), sees();
SET ROLE nobody;
SELECT who(), sees();
SET rpq.account = 'member';
SELECT who(), sees();
SELECT ask('version', NULL::text);
SET ROLE org;
SET rpq.account = 'member';
SELECT who(), sees();
SELECT ask('version', NULL::text);
SET rpq.account = 'org';
SELECT ask('version', NULL::text);

SET ROLE gate;
SET rpq.account = ' member ';
SELECT who(), sees();
SELECT ask('usage_at', 'p1') > 0 AS p1;
SELECT ask('edit_pool', 'p1');
SET rpq.account = 'acme/org';
SELECT who(), sees();
SELECT ask('edit_pool', 'p1') > 0 AS p1;
SELECT rpq.create_project_group('by org');
SET rpq.account = 'twin';
SELECT who(), sees();
SET rpq.account = 'beta/twin';
SELECT who(), sees();
SELECT ask('version', NULL::text);
SET rpq.account = 'lone';
SELECT ask('version', NULL::text);
SET rpq.account = 'nix';
SELECT ask('version', NULL::text);
SET rpq.account = 'a/b/c';
SELECT who(), sees();
SELECT ask('version', NULL::text);
SET rpq.account = '/';
SELECT ask('version', NULL::text);

SET ROLE plat;
SET rpq.account = 'member';
SELECT who(), sees();
SELECT ask('edit_pool', 'p1');
SELECT rpq.create_tenant('x');
SET rpq.account = 'twin';
SELECT who();
SELECT ask('version', NULL::text);
SET rpq.account = 'beta/twin';
SELECT who(), sees();
SET rpq.account = 'nix';
SELECT ask('version', NULL::text);
RESET rpq.account;
RESET ROLE;
SELECT actor, on_behalf_of, db_role, action FROM rpq_store.history WHERE object = 'by org';

-- The role in force outside any SECURITY DEFINER function is who asks, whatever functions lie between
CREATE FUNCTION theirs() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT (who()).actor';
SET ROLE member;
SELECT theirs(), current_user;
RESET ROLE;

-- A role that is renamed or dropped
ALTER ROLE driver RENAME TO chauffeur;
SET ROLE chauffeur;
SELECT rpq.create_cluster('x');
RESET ROLE;
DROP ROLE chauffeur;

-- Nobody has anything in the store
SET ROLE org;
TABLE rpq_store.account;
SELECT rpq_store.my_account();
RESET ROLE;
SELECT proname FROM pg_proc p WHERE pronamespace = 'rpq_store'::regnamespace
AND has_function_privilege('nobody', p.oid, 'EXECUTE') AND proname IN ('authorize', 'caller', 'record', 'find_account');

-- The fence: written by the first call that stores something, known on a copy
SELECT system_identifier = (SELECT system_identifier::text FROM pg_control_system()) AS system,
	database_oid = (SELECT oid FROM pg_database WHERE datname = current_database()) AS database
FROM rpq_store.fence;
SELECT rpq_store.is_fenced();
BEGIN;
UPDATE rpq_store.fence SET database_oid = 1;
SELECT rpq_store.is_fenced();
SAVEPOINT s;
SELECT ask('edit_pool', 'acme/p1');
ROLLBACK TO s;
SELECT ask('submit', 'acme/none');
ROLLBACK TO s;
SELECT ask('usage_at', 'acme/p1') > 0 AS shows, ask('schedule.dry_run', 'acme/p1') > 0 AS shows,
	rpq.create_tenant('copy') > 0 AS writes_no_entry;
SELECT count(*) FROM rpq_store.fence;
DELETE FROM rpq_store.fence;
SELECT rpq_store.is_fenced();
SELECT ask('usage_at', 'acme/p1') > 0 AS reads;
SELECT count(*) FROM rpq_store.fence;
SELECT ask('edit_pool', 'acme/p1') > 0 AS writes;
SELECT count(*) FROM rpq_store.fence;
ROLLBACK;

-- The history: past the functions too, and for good
UPDATE rpq_store.pool SET frozen = true, description = 'raw' WHERE name = 'p2';
UPDATE rpq_store.pool SET frozen = true WHERE name = 'p2';
UPDATE rpq_store.node SET silent = true WHERE name = 'n-p2';
DELETE FROM rpq_store.member;
SELECT action, object_kind, object, tenant_id, pool_id, actor, old - 'created_at' AS old, new FROM rpq_store.history WHERE action IN ('update', 'delete')
ORDER BY history_id \gx
DELETE FROM rpq_store.history;
UPDATE rpq_store.history SET actor = 'x';
TRUNCATE rpq_store.history;
SET ROLE org;
SET rpq.action = 'retention';
RESET ROLE;
DROP OWNED BY plat, org, padm, member, other, exec, gate, foreign_org, nobody, tool;
DROP ROLE plat, org, padm, member, other, exec, gate, foreign_org, nobody, tool;

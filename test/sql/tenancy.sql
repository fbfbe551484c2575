-- Tenants, clusters, instance types, accounts, groups, admins of pools: what they store, refuse and record.
\set SHOW_CONTEXT never
CREATE ROLE ann;
CREATE ROLE bea;
CREATE ROLE boss;

-- Tenants and clusters
SELECT rpq.create_tenant('acme', description => 'makers of everything');
SELECT rpq.create_tenant('acme');
SELECT rpq.create_tenant(NULL);
SELECT rpq.create_tenant(' ');
SELECT name FROM rpq_store.workload_type ORDER BY 1;
SELECT rpq.create_cluster('c1', region => 'north');
SELECT rpq.create_cluster('c1');
SELECT rpq.create_cluster(NULL);

-- Instance types
SELECT rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=192,memory=2Ti');
SELECT rpq.create_instance_type('c64', 'cpu', 'cpu=64', machine_unit => 'cpu=64');
SELECT rpq.create_instance_type('h100', 'gpu', 'gpu=8');
SELECT rpq.create_instance_type('x', 'tpu', 'gpu=8');
SELECT rpq.create_instance_type('x', NULL, 'gpu=8');
SELECT rpq.create_instance_type('x', 'gpu', NULL);
SELECT rpq.create_instance_type('x', 'gpu', '');
SELECT rpq.create_instance_type('x', 'gpu', 'cpu=8');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=0');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=-8');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=1.5');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=1/7');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=1025');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=8,memory=0');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=1e30');
SELECT rpq.create_instance_type('x', 'cpu', 'cpu=8,gpu=1');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=8', machine_unit => 'cpu=8');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=8', machine_unit => 'gpu=8,cpu=1');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=8', machine_unit => '');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=8', machine_unit => 'gpu=0');
SELECT rpq.create_instance_type('x', 'gpu', 'gpu=8', machine_unit => 'gpu=0.5');
SELECT rpq.edit_instance_type('c64', name => 'c96', capacity => 'cpu=96,memory=1Ti', clear => '{machine_unit}');
SELECT rpq.edit_instance_type('c96');
SELECT rpq.edit_instance_type('c96', name => 'h100');
SELECT rpq.edit_instance_type('c96', kind => 'gpu');
SELECT rpq.edit_instance_type('c96', kind => 'gpu', capacity => 'gpu=4');
SELECT rpq.edit_instance_type('c96', clear => '{capacity}');
SELECT rpq.edit_instance_type('c96', clear => '{NULL}');
SELECT rpq.edit_instance_type('c96', machine_unit => 'gpu=4', clear => '{machine_unit}');
SELECT rpq.edit_instance_type('c64');
SELECT rpq.edit_instance_type(NULL);
SELECT name, kind, capacity, machine_unit FROM rpq_store.instance_type ORDER BY 1;

-- Accounts: one tenant needs no naming
SELECT rpq.create_account('ann', db_role => 'ann');
SELECT rpq.create_account('boss', db_role => 'boss', org_admin => true, gateway => NULL);
SELECT rpq.create_account('bea');
SELECT rpq.create_account('ann');
SELECT rpq.create_account('ann2', db_role => 'ann');
SELECT rpq.create_account('x', db_role => 'no such role');
SELECT rpq.create_account('x', db_role => '');
SELECT rpq.create_account(NULL);
SELECT rpq.create_account('x', tenant => 'no such tenant');
SELECT rpq.edit_account('bea', db_role => 'bea', executor => true);
SELECT rpq.edit_account('bea', db_role => 'bea', executor => true, tenant => 'acme');
SELECT rpq.edit_account('bea', db_role => 'ann');
SELECT rpq.edit_account('bea', db_role => 'no such role');
SELECT rpq.edit_account('bea', name => 'ann');
SELECT rpq.edit_account('bea', name => 'a/b');
SELECT rpq.edit_account('bea', db_role => 'bea', clear => '{db_role}');
SELECT rpq.edit_account('bea', clear => '{name}');
SELECT rpq.edit_account('nobody');
SELECT rpq.edit_account(NULL);
SELECT rpq.create_tenant('beta');
SELECT rpq.edit_account('acme/bea', tenant => 'beta');
SELECT rpq.edit_account('bea', name => 'b');
SELECT rpq.create_account('bea');
SELECT rpq.create_account('bea', tenant => 'beta');

-- An organisation admin, in its tenant; a driver is made by platform admins alone
SET ROLE boss;
SELECT rpq.create_account('cleo');
SELECT rpq.create_account('x', driver => true);
SELECT rpq.edit_account('cleo', driver => true);
SELECT rpq.edit_account('cleo', gateway => true, name => 'cleopatra');
SELECT rpq.edit_account('beta/bea', name => 'b');
SELECT rpq.create_tenant('x');
SELECT rpq.create_account('x', tenant => 'beta');
RESET ROLE;
SELECT rpq.edit_account('acme/cleopatra', driver => true);
SET ROLE boss;
SELECT rpq.edit_account('cleopatra', driver => true, gateway => false);

-- User groups
SELECT rpq.create_user_group('g');
SELECT rpq.create_user_group('g');
SELECT rpq.add_to_group('g', '{ann,acme/bea," ann "}');
SELECT rpq.add_to_group('g', '{ann}');
SELECT rpq.add_to_group('g', '{ann,zoe,beta/bea,yan}');
SELECT rpq.add_to_group('g', '{zoe}');
SELECT rpq.add_to_group('g', '{}');
SELECT rpq.add_to_group('g', '{ann,NULL}');
SELECT rpq.add_to_group('g', NULL);
SELECT rpq.add_to_group('nix', '{ann}');
SELECT rpq.remove_from_group('g', '{ann,boss}');
SELECT rpq.remove_from_group('g', '{zoe}');
SELECT rpq.delete_user_group('g');
SELECT rpq.delete_user_group('g');

-- Project groups, workload types
SELECT rpq.create_project_group('vision');
SELECT rpq.create_project_group('vision');
SELECT rpq.create_workload_type('batch');
SELECT rpq.create_workload_type('training');
RESET ROLE;

BEGIN;
SET LOCAL rpq.action = 'test';
INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name, status, project_group_id, workload_types)
SELECT t.tenant_id, c.cluster_id, 'gpu', 'dedicated', 'p1', 'ready', g.project_group_id, '{batch}'
FROM rpq_store.tenant t, rpq_store.cluster c, rpq_store.project_group g WHERE t.name = 'acme';
SELECT rpq_store.new_scope(pool_id) FROM rpq_store.pool;
INSERT INTO rpq_store.node (tenant_id, cluster_id, name, pool_id, type_id, capacity, usable)
SELECT p.tenant_id, cluster_id, 'n1', pool_id, type_id, capacity, capacity
FROM rpq_store.pool p, rpq_store.instance_type i WHERE i.name = 'h100';
INSERT INTO rpq_store.member (pool_id, account_id)
SELECT pool_id, account_id FROM rpq_store.pool p, rpq_store.account a WHERE a.name IN ('ann', 'cleopatra');
INSERT INTO rpq_store.workload (tenant_id, scope_id, account_id, shape, created_at, replicas, priority, status,
	workload_type, resources, ended_at)
SELECT p.tenant_id, p.pool_id, a.account_id, 1, now(), 1, 50, w.status, w.type, 'gpu=1', w.ended
FROM (VALUES ('queued', 'inference', NULL), ('running', 'inference', NULL), ('starting', 'inference', NULL),
	('draft', 'develop', NULL), ('failed', 'develop', now())) AS w (status, type, ended), rpq_store.pool p, rpq_store.account a
WHERE a.name = 'ann';
COMMIT;
SELECT rpq.edit_instance_type('h100', capacity => 'gpu=4');
SELECT rpq.edit_instance_type('h100', machine_unit => 'gpu=4');
SELECT rpq.edit_instance_type('h100', name => 'H100', capacity => 'gpu=8,cpu=192,memory=2048Gi');
SET ROLE boss;
SELECT rpq.delete_project_group('vision');
SELECT rpq.delete_workload_type('batch');
SELECT rpq.delete_workload_type('inference');
SELECT rpq.delete_workload_type('develop');
SELECT rpq.delete_workload_type('nix');
SELECT rpq.delete_project_group('nix');

-- Admins of pools
SELECT rpq.grant_pool_admin('p1', 'ann');
SELECT rpq.grant_pool_admin('p1', 'ann');
SELECT rpq.grant_pool_admin('p1', 'nix');
SELECT rpq.grant_pool_admin('p1', 'beta/bea');
SELECT rpq.grant_pool_admin('nix', 'ann');
SELECT rpq.grant_pool_admin('p1', NULL);
SELECT rpq.grant_pool_admin(NULL, 'ann');
SET ROLE ann;
SELECT rpq.grant_pool_admin('p1', 'bea');
SELECT rpq.revoke_pool_admin('p1', 'boss');
SELECT rpq.revoke_pool_admin('p1', 'bea');
SET ROLE bea;
SELECT rpq.revoke_pool_admin('p1', 'ann');

-- Deleting an account
SET ROLE boss;
SELECT rpq.delete_account('ann');
RESET ROLE;
UPDATE rpq_store.workload SET status = 'stopped', ended_at = now() WHERE ended_at IS NULL AND status <> 'draft';
SET ROLE boss;
SELECT rpq.delete_account('ann');
SELECT rpq.delete_account('ann');
SELECT rpq.delete_account(NULL);
SELECT rpq.create_account('ann', db_role => 'ann');
RESET ROLE;
SELECT name, db_role, deleted_at IS NOT NULL AS deleted, (SELECT count(*) FROM rpq_store.member m
	WHERE m.account_id = a.account_id) AS pools, (SELECT count(*) FROM rpq_store.workload w
	WHERE w.account_id = a.account_id AND NOT hidden) AS workloads
FROM rpq_store.account a ORDER BY account_id;
SET ROLE ann;
SELECT rpq.create_user_group('x');
RESET ROLE;

-- What is no longer in use goes
UPDATE rpq_store.pool SET status = 'deleted';
SET ROLE boss;
SELECT rpq.delete_project_group('vision');
SELECT rpq.delete_workload_type('batch');
RESET ROLE;

-- One row for each object that a call named, none for what was refused or changed nothing
SELECT history_id AS id, tenant_id AS t, actor, action, object_kind, object, pool_id AS p,
	old - 'account_id' AS old, CASE WHEN action <> 'update' THEN new END AS new
FROM rpq_store.history WHERE object_kind <> 'pool' OR action <> 'update' ORDER BY history_id;
DROP OWNED BY ann, bea, boss;
DROP ROLE ann, bea, boss;

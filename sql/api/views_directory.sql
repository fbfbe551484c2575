-- Views of who and what there is.  Clusters and instance types have no tenant: every account sees them, as it needs
-- their names to submit.  Of accounts and groups, administrators see their tenants', others themselves.

CREATE OR REPLACE VIEW rpq.tenants WITH (security_barrier) AS
SELECT t.tenant_id, t.name, t.description, t.created_at
  FROM rpq_store.tenant t
 WHERE t.tenant_id = ANY ((SELECT rpq_store.seen_tenants())::bigint[]);
COMMENT ON VIEW rpq.tenants IS 'tenants: all for platform admins, one''s own for others';
COMMENT ON COLUMN rpq.tenants.tenant_id IS 'id of the tenant';
COMMENT ON COLUMN rpq.tenants.name IS 'name of the tenant';
COMMENT ON COLUMN rpq.tenants.description IS 'free text';
COMMENT ON COLUMN rpq.tenants.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.accounts WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT a.account_id, t.name AS tenant, a.name, a.db_role, a.org_admin, a.gateway, a.executor, a.driver,
	   ARRAY(SELECT g.name FROM rpq_store.group_account x JOIN rpq_store.user_group g ON g.group_id = x.group_id
			  WHERE x.account_id = a.account_id ORDER BY g.name) AS user_groups,
	   a.created_at
  FROM rpq_store.account a
  JOIN rpq_store.tenant t ON t.tenant_id = a.tenant_id
 WHERE a.deleted_at IS NULL
   AND (a.account_id = (SELECT account_id FROM me) OR a.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]));
COMMENT ON VIEW rpq.accounts IS 'accounts: the tenant''s for its administrators, one''s own for others';
COMMENT ON COLUMN rpq.accounts.account_id IS 'id of the account';
COMMENT ON COLUMN rpq.accounts.tenant IS 'tenant of the account';
COMMENT ON COLUMN rpq.accounts.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.accounts.db_role IS
	'PostgreSQL role that is this account; NULL: it is reached through a gateway alone';
COMMENT ON COLUMN rpq.accounts.org_admin IS 'administers its tenant';
COMMENT ON COLUMN rpq.accounts.gateway IS 'may act for other accounts of its tenant (rpq.account)';
COMMENT ON COLUMN rpq.accounts.executor IS 'may sync nodes, claim pods, requeue and report for its tenant';
COMMENT ON COLUMN rpq.accounts.driver IS 'may claim and report scaling requests';
COMMENT ON COLUMN rpq.accounts.user_groups IS 'user groups that it is in, by name';
COMMENT ON COLUMN rpq.accounts.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.user_groups WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT g.group_id AS user_group_id, t.name AS tenant, g.name,
	   ARRAY(SELECT a.name FROM rpq_store.group_account x JOIN rpq_store.account a ON a.account_id = x.account_id
			  WHERE x.group_id = g.group_id
				AND (a.account_id = (SELECT account_id FROM me)
					 OR a.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]))
			  ORDER BY a.name) AS accounts,
	   g.created_at
  FROM rpq_store.user_group g
  JOIN rpq_store.tenant t ON t.tenant_id = g.tenant_id
 WHERE g.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR g.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
					   WHERE x.account_id = (SELECT account_id FROM me));
COMMENT ON VIEW rpq.user_groups IS
	'user groups: the tenant''s for its administrators, for others those that they are in';
COMMENT ON COLUMN rpq.user_groups.user_group_id IS 'id of the group';
COMMENT ON COLUMN rpq.user_groups.tenant IS 'tenant of the group';
COMMENT ON COLUMN rpq.user_groups.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.user_groups.accounts IS
	'accounts in it, by name; those who do not administer the tenant see themselves alone';
COMMENT ON COLUMN rpq.user_groups.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.project_groups WITH (security_barrier) AS
SELECT g.project_group_id, t.name AS tenant, g.name, g.created_at
  FROM rpq_store.project_group g
  JOIN rpq_store.tenant t ON t.tenant_id = g.tenant_id
 WHERE g.tenant_id = ANY ((SELECT rpq_store.seen_tenants())::bigint[]);
COMMENT ON VIEW rpq.project_groups IS 'labels under which the tenant''s pools are grouped';
COMMENT ON COLUMN rpq.project_groups.project_group_id IS 'id of the project group';
COMMENT ON COLUMN rpq.project_groups.tenant IS 'its tenant';
COMMENT ON COLUMN rpq.project_groups.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.project_groups.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.workload_types WITH (security_barrier) AS
SELECT w.workload_type_id, t.name AS tenant, w.name, w.created_at
  FROM rpq_store.workload_type w
  JOIN rpq_store.tenant t ON t.tenant_id = w.tenant_id
 WHERE w.tenant_id = ANY ((SELECT rpq_store.seen_tenants())::bigint[]);
COMMENT ON VIEW rpq.workload_types IS 'workload types that the tenant has defined';
COMMENT ON COLUMN rpq.workload_types.workload_type_id IS 'id of the workload type';
COMMENT ON COLUMN rpq.workload_types.tenant IS 'its tenant';
COMMENT ON COLUMN rpq.workload_types.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.workload_types.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.instance_types WITH (security_barrier) AS
SELECT i.type_id AS instance_type_id, NULL::text AS tenant, i.name, i.kind, i.capacity, i.machine_unit, i.created_at
  FROM rpq_store.instance_type i
 WHERE (SELECT rpq_store.is_known());
COMMENT ON VIEW rpq.instance_types IS 'machine specifications';
COMMENT ON COLUMN rpq.instance_types.instance_type_id IS 'id of the instance type';
COMMENT ON COLUMN rpq.instance_types.tenant IS 'always NULL: instance types belong to no tenant';
COMMENT ON COLUMN rpq.instance_types.name IS 'name of the instance type';
COMMENT ON COLUMN rpq.instance_types.kind IS 'gpu or cpu';
COMMENT ON COLUMN rpq.instance_types.capacity IS 'what a machine of it has';
COMMENT ON COLUMN rpq.instance_types.machine_unit IS 'the whole-machine amount of the primary resource';
COMMENT ON COLUMN rpq.instance_types.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.clusters WITH (security_barrier) AS
SELECT c.cluster_id, NULL::text AS tenant, c.name, c.region, c.created_at
  FROM rpq_store.cluster c
 WHERE (SELECT rpq_store.is_known());
COMMENT ON VIEW rpq.clusters IS 'clusters, in which nodes stand';
COMMENT ON COLUMN rpq.clusters.cluster_id IS 'id of the cluster';
COMMENT ON COLUMN rpq.clusters.tenant IS 'always NULL: clusters belong to no tenant';
COMMENT ON COLUMN rpq.clusters.name IS 'name of the cluster';
COMMENT ON COLUMN rpq.clusters.region IS 'its region';
COMMENT ON COLUMN rpq.clusters.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.pool_admins WITH (security_barrier) AS
SELECT d.pool_id, t.name AS tenant, p.name AS pool, d.account_id, a.name AS account
  FROM rpq_store.pool_admin d
  JOIN rpq_store.pool p ON p.pool_id = d.pool_id
  JOIN rpq_store.tenant t ON t.tenant_id = p.tenant_id
  JOIN rpq_store.account a ON a.account_id = d.account_id
 WHERE p.status <> 'deleted'
   AND (d.account_id = (SELECT rpq_store.my_account())
		OR d.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[]));
COMMENT ON VIEW rpq.pool_admins IS 'resource administrators of pools, for those who administer the pool';
COMMENT ON COLUMN rpq.pool_admins.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.pool_admins.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.pool_admins.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.pool_admins.account_id IS 'id of the account that administers it';
COMMENT ON COLUMN rpq.pool_admins.account IS 'name of that account';

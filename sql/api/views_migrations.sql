-- Views of migrations: nodes that changed pools or were drained, and pods that changed nodes.

CREATE OR REPLACE VIEW rpq.migrations WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT g.migration_id, g.operation_id, t.name AS tenant, o.status, g.direction, g.mode, g.from_pool_id,
	   f.name AS from_pool, g.to_pool_id, p.name AS to_pool, i.name AS instance_type, g.nodes, g.evicted, o.initiator,
	   o.started_at, o.ended_at, o.error
  FROM rpq_store.migration g
  JOIN rpq_store.operation o ON o.operation_id = g.operation_id
  JOIN rpq_store.tenant t ON t.tenant_id = g.tenant_id
  LEFT JOIN rpq_store.pool f ON f.pool_id = g.from_pool_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = g.to_pool_id
  LEFT JOIN rpq_store.instance_type i ON i.type_id = g.type_id
 WHERE g.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR g.from_pool_id = ANY ((SELECT pools FROM me)::bigint[])
	OR g.to_pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.migrations IS
	'moves of nodes between pools, and drains, for those who administer one of the pools; a resize leaves none';
COMMENT ON COLUMN rpq.migrations.migration_id IS 'id of the migration';
COMMENT ON COLUMN rpq.migrations.operation_id IS 'id of the operation';
COMMENT ON COLUMN rpq.migrations.tenant IS 'tenant of the pools';
COMMENT ON COLUMN rpq.migrations.status IS 'of the operation: pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq.migrations.direction IS 'out when a shared pool is the target, else in';
COMMENT ON COLUMN rpq.migrations.mode IS 'quantity or nodes: how it was asked for';
COMMENT ON COLUMN rpq.migrations.from_pool_id IS 'id of the pool that the nodes leave; of a drain, the node''s pool';
COMMENT ON COLUMN rpq.migrations.from_pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.migrations.to_pool_id IS 'id of the pool that they come to; NULL: a drain';
COMMENT ON COLUMN rpq.migrations.to_pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.migrations.instance_type IS 'instance type of the nodes; NULL: several';
COMMENT ON COLUMN rpq.migrations.nodes IS 'names of the nodes';
COMMENT ON COLUMN rpq.migrations.evicted IS 'ids of the workloads whose pods were moved for it';
COMMENT ON COLUMN rpq.migrations.initiator IS 'who asked for it';
COMMENT ON COLUMN rpq.migrations.started_at IS 'when it was begun; NULL: not yet';
COMMENT ON COLUMN rpq.migrations.ended_at IS 'when it ended; NULL: not yet';
COMMENT ON COLUMN rpq.migrations.error IS 'message of the error that ended it';

CREATE OR REPLACE VIEW rpq.pod_migrations WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT m.pod_migration_id, m.operation_id, m.round, m.pool_id, p.name AS pool, m.workload_id, m.replica, m.resources,
	   m.from_node, m.to_node, m.status, m.reason, m.planned_at, m.reserved_at, m.evicted_at, m.ended_at, o.initiator
  FROM rpq_store.pod_migration m
  JOIN rpq_store.operation o ON o.operation_id = m.operation_id
  JOIN rpq_store.pool p ON p.pool_id = m.pool_id
 WHERE p.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]) OR m.pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.pod_migrations IS
	'planned moves of pods from node to node, and what became of them, for those who administer the pool';
COMMENT ON COLUMN rpq.pod_migrations.pod_migration_id IS 'id of the move';
COMMENT ON COLUMN rpq.pod_migrations.operation_id IS 'id of the operation that moves it';
COMMENT ON COLUMN rpq.pod_migrations.round IS 'round of the operation, from 1';
COMMENT ON COLUMN rpq.pod_migrations.pool_id IS 'id of the pool of both nodes';
COMMENT ON COLUMN rpq.pod_migrations.pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.pod_migrations.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.pod_migrations.replica IS 'which of its pods, from 0';
COMMENT ON COLUMN rpq.pod_migrations.resources IS 'what the pod holds';
COMMENT ON COLUMN rpq.pod_migrations.from_node IS 'name of the node that it leaves';
COMMENT ON COLUMN rpq.pod_migrations.to_node IS 'name of the node that it goes to';
COMMENT ON COLUMN rpq.pod_migrations.status IS 'planned, reserved, evicting, done, skipped or failed';
COMMENT ON COLUMN rpq.pod_migrations.reason IS
	'why it was skipped or failed: target_short, quota, pod_changed, node_unhealthy, timeout or cancelled';
COMMENT ON COLUMN rpq.pod_migrations.planned_at IS 'when it was planned';
COMMENT ON COLUMN rpq.pod_migrations.reserved_at IS 'when room was reserved on the target';
COMMENT ON COLUMN rpq.pod_migrations.evicted_at IS 'when the pod was told to stop, or left its node';
COMMENT ON COLUMN rpq.pod_migrations.ended_at IS 'when it was done, skipped or failed';
COMMENT ON COLUMN rpq.pod_migrations.initiator IS 'who asked for the operation';

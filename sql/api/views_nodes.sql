-- Views of nodes and of the pods on them.

CREATE OR REPLACE VIEW rpq.nodes WITH (security_barrier) AS
SELECT n.node_id, n.name, t.name AS tenant, c.name AS cluster, n.pool_id, p.name AS pool, i.name AS instance_type,
	   i.kind, n.capacity, coalesce(s.reported, n.reported) AS reported, f.used,
	   f.held AS reserved,
	   CASE WHEN f.takes_work
			THEN rpq_store.at_least_zero(n.usable OPERATOR(rpq.-) f.used OPERATOR(rpq.-) f.held)
			ELSE n.usable OPERATOR(rpq.*) 0::numeric END AS available,
	   f.pods = 0 AND f.holds = 0 AS idle,
	   n.health, n.health_reason, n.schedulable, n.draining, s.at AS last_seen, n.labels, n.provider_id,
	   NULL::text AS autoscaler, n.usable, f.pods, f.lent
  FROM rpq_store.node n
  JOIN rpq_store.node_now f ON f.node_id = n.node_id
  LEFT JOIN rpq_store.tenant t ON t.tenant_id = n.tenant_id
  LEFT JOIN rpq_store.cluster c ON c.cluster_id = n.cluster_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = n.pool_id
  LEFT JOIN rpq_store.instance_type i ON i.type_id = n.type_id
  LEFT JOIN rpq_store.node_seen s ON s.node_id = n.node_id
 WHERE n.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[])
 ORDER BY f.pods = 0 AND f.holds = 0 DESC, n.name;

COMMENT ON VIEW rpq.nodes IS 'nodes of the pools that one may see, idle ones first, then by name';
COMMENT ON COLUMN rpq.nodes.node_id IS 'id of the node';
COMMENT ON COLUMN rpq.nodes.name IS 'name, unique in its tenant';
COMMENT ON COLUMN rpq.nodes.tenant IS 'tenant of the node';
COMMENT ON COLUMN rpq.nodes.cluster IS 'cluster of the node';
COMMENT ON COLUMN rpq.nodes.pool_id IS 'id of the one pool that has the node';
COMMENT ON COLUMN rpq.nodes.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.nodes.instance_type IS 'name of the instance type';
COMMENT ON COLUMN rpq.nodes.kind IS 'gpu or cpu: the kind of the instance type';
COMMENT ON COLUMN rpq.nodes.capacity IS 'nominal capacity';
COMMENT ON COLUMN rpq.nodes.reported IS 'capacity that its executor last reported; NULL: never';
COMMENT ON COLUMN rpq.nodes.used IS 'what pods on it take, also those that borrow there';
COMMENT ON COLUMN rpq.nodes.reserved IS 'what holds keep of the room that no pod has';
COMMENT ON COLUMN rpq.nodes.available IS
	'what a new pod could take: usable - used - reserved, never below zero; zero where nothing new is taken';
COMMENT ON COLUMN rpq.nodes.idle IS 'no pod and no hold is on it';
COMMENT ON COLUMN rpq.nodes.health IS 'healthy, degraded or unhealthy';
COMMENT ON COLUMN rpq.nodes.health_reason IS 'why it is not healthy, or is cordoned; NULL: nothing was said';
COMMENT ON COLUMN rpq.nodes.schedulable IS 'false: cordoned by an administrator';
COMMENT ON COLUMN rpq.nodes.draining IS 'its pods are being moved away; nothing new is placed';
COMMENT ON COLUMN rpq.nodes.last_seen IS 'last sign of life of its executor; NULL: it never had one';
COMMENT ON COLUMN rpq.nodes.labels IS 'labels, a json object';
COMMENT ON COLUMN rpq.nodes.provider_id IS 'id of the machine where it was bought';
COMMENT ON COLUMN rpq.nodes.autoscaler IS 'autoscaler that started it; NULL: none did';
COMMENT ON COLUMN rpq.nodes.usable IS
	'the lesser of nominal and reported capacity, by key';
COMMENT ON COLUMN rpq.nodes.pods IS 'number of pods on it';
COMMENT ON COLUMN rpq.nodes.lent IS
	'of used, what work of the shared pool has by idle-time sharing: the pool''s own work takes it back at once';

-- A pod is there while its attempt is the workload's present one: reports end attempts at once, folds take pods off
-- their nodes a little later.
CREATE OR REPLACE VIEW rpq.node_pods WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT n.node_id, n.name AS node, o.pod_id, w.workload_id, w.name AS workload, a.name AS account, w.workload_type,
	   w.resources, o.devices, w.account_id, o.replica
  FROM rpq_store.workload w
  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt
  JOIN rpq_store.node n ON n.node_id = o.node_id
  LEFT JOIN rpq_store.account a ON a.account_id = w.account_id
 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.node_pods IS
	'placed pods by node: of one''s own workloads, of all in one''s pools for their administrators';
COMMENT ON COLUMN rpq.node_pods.node_id IS 'id of the node';
COMMENT ON COLUMN rpq.node_pods.node IS 'name of the node';
COMMENT ON COLUMN rpq.node_pods.pod_id IS 'id of the pod, new at each placement';
COMMENT ON COLUMN rpq.node_pods.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.node_pods.workload IS 'name of the workload; NULL: it has none';
COMMENT ON COLUMN rpq.node_pods.account IS 'account that submitted it';
COMMENT ON COLUMN rpq.node_pods.workload_type IS 'workload type';
COMMENT ON COLUMN rpq.node_pods.resources IS 'what the pod takes';
COMMENT ON COLUMN rpq.node_pods.devices IS 'devices of the node that it has, or has a part of, from 0';
COMMENT ON COLUMN rpq.node_pods.account_id IS 'id of the account';
COMMENT ON COLUMN rpq.node_pods.replica IS 'number of the replica, from 0';

CREATE OR REPLACE VIEW rpq.pods WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT o.pod_id, o.workload_id, o.replica, o.attempt, n.pool_id, p.name AS pool, o.node_id, n.name AS node, w.resources,
	   o.devices
  FROM rpq_store.workload w
  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt
  JOIN rpq_store.node n ON n.node_id = o.node_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = n.pool_id
 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.pods IS 'placed pods: of one''s own workloads, of all in one''s pools for their administrators';
COMMENT ON COLUMN rpq.pods.pod_id IS 'id of the pod, new at each placement';
COMMENT ON COLUMN rpq.pods.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.pods.replica IS 'number of the replica, from 0';
COMMENT ON COLUMN rpq.pods.attempt IS 'attempt of the workload that it belongs to';
COMMENT ON COLUMN rpq.pods.pool_id IS 'id of the pool whose node it stands on';
COMMENT ON COLUMN rpq.pods.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.pods.node_id IS 'id of the node';
COMMENT ON COLUMN rpq.pods.node IS 'name of the node';
COMMENT ON COLUMN rpq.pods.resources IS 'what the pod takes';
COMMENT ON COLUMN rpq.pods.devices IS 'devices of the node that it has, or has a part of, from 0';

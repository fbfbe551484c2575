-- Views of pools.  rpq.pools may be written (writable.sql): its rows come out of a WITH query, which no SELECT ... FOR
-- UPDATE reaches, so that no reader locks what administrators change.

CREATE OR REPLACE VIEW rpq.overview WITH (security_barrier) AS
SELECT p.pool_id, t.name AS tenant, p.name, p.type, p.kind, p.status, p.health, p.nodes, p.total, p.used, p.available,
	   p.unavailable, p.queued, p.running,
	   CASE WHEN o.submitted_at IS NOT NULL
			THEN greatest((SELECT rpq_store.reading_time()) - o.submitted_at, '0') END AS oldest_wait
  FROM rpq_store.pool_now p
  JOIN rpq_store.tenant t ON t.tenant_id = p.tenant_id
  LEFT JOIN rpq_store.oldest_now o ON o.scope_id = p.pool_id
 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]);

COMMENT ON VIEW rpq.overview IS 'a line for each pool that one may see: the view to open first';
COMMENT ON COLUMN rpq.overview.pool_id IS 'id of the pool, the same through renames';
COMMENT ON COLUMN rpq.overview.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.overview.name IS 'name of the pool, unique in its tenant';
COMMENT ON COLUMN rpq.overview.type IS 'shared, dedicated or exclusive';
COMMENT ON COLUMN rpq.overview.kind IS 'gpu or cpu';
COMMENT ON COLUMN rpq.overview.status IS 'creating, ready, updating, failed or deleting';
COMMENT ON COLUMN rpq.overview.health IS
	'healthy when all its nodes are, else the affected nodes with their reasons';
COMMENT ON COLUMN rpq.overview.nodes IS 'number of nodes';
COMMENT ON COLUMN rpq.overview.total IS 'the pool quota: what its nodes hold';
COMMENT ON COLUMN rpq.overview.used IS 'what placed workloads of it hold; of what borrows room, nothing anywhere';
COMMENT ON COLUMN rpq.overview.available IS
	'total - used - unavailable, by key, never below zero; what is lent is in it, since the pool takes it back at once';
COMMENT ON COLUMN rpq.overview.unavailable IS
	'what is free on nodes that take nothing new (cordoned, draining, not healthy), and what machines at present lack '
	'of their nominal capacity';
COMMENT ON COLUMN rpq.overview.queued IS
	'workloads that wait in this pool; those in queues of policies wait in no pool';
COMMENT ON COLUMN rpq.overview.running IS
	'workloads that hold nodes, starting and running, in the pool that they are charged to: what borrows room of an '
	'exclusive pool is in the shared pool that it was submitted to';
COMMENT ON COLUMN rpq.overview.oldest_wait IS
	'time since the submission of the one that waits longest; NULL when none waits';

CREATE OR REPLACE VIEW rpq.pools WITH (security_barrier) AS
WITH seen AS (
	SELECT p.pool_id, t.name AS tenant, p.name, p.type, p.kind, p.status, c.name AS cluster, c.region,
		   ARRAY(SELECT i.name FROM rpq_store.instance_type i
				  WHERE i.type_id IN (SELECT pi.type_id FROM rpq_store.pool_instance pi WHERE pi.pool_id = p.pool_id)
				  ORDER BY i.name) AS instance_types,
		   p.total, p.used, p.unavailable, p.available,
		   p.lent,
		   p.largest_free,
		   p.scheduling_policy, p.queueing, p.user_default_quota, p.default_priority, p.workload_types,
		   (SELECT g.name FROM rpq_store.project_group g
			 WHERE g.project_group_id = p.project_group_id) AS project_group,
		   p.description, p.frozen, p.allow_guarantee, p.pay_as_you_go, p.faulty_node_rotation, p.idle_time_sharing,
		   p.open, p.isolate_accounts, p.min_runtime, p.health, p.queued, p.running, p.created_at
	  FROM rpq_store.pool_now p
	  JOIN rpq_store.tenant t ON t.tenant_id = p.tenant_id
	  JOIN rpq_store.cluster c ON c.cluster_id = p.cluster_id
	 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]))
SELECT * FROM seen;

COMMENT ON VIEW rpq.pools IS
	'pools that are not deleted, with settings and figures. UPDATE changes the settings that rpq.edit_pool has, '
	'with its checks; a locking clause locks nothing';
COMMENT ON COLUMN rpq.pools.pool_id IS 'id of the pool, the same through renames';
COMMENT ON COLUMN rpq.pools.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.pools.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.pools.type IS 'shared (what no other pool has), dedicated or exclusive (whole machines)';
COMMENT ON COLUMN rpq.pools.kind IS 'gpu or cpu: its instance types'' kind, and its primary resource';
COMMENT ON COLUMN rpq.pools.status IS 'creating, ready, updating, failed or deleting';
COMMENT ON COLUMN rpq.pools.cluster IS 'cluster of all its nodes';
COMMENT ON COLUMN rpq.pools.region IS 'region of the cluster';
COMMENT ON COLUMN rpq.pools.instance_types IS 'instance types that it has or has settings for, by name';
COMMENT ON COLUMN rpq.pools.total IS 'the pool quota: what its nodes hold';
COMMENT ON COLUMN rpq.pools.used IS
	'what placed workloads of it hold; what borrows room of an exclusive pool is in the used of neither pool';
COMMENT ON COLUMN rpq.pools.unavailable IS
	'what is free on nodes that take nothing new (cordoned, draining, not healthy), and what machines at present lack '
	'of their nominal capacity';
COMMENT ON COLUMN rpq.pools.available IS
	'total - used - unavailable, by key, never below zero; what is lent is in it, since the pool takes it back at once';
COMMENT ON COLUMN rpq.pools.lent IS
	'what workloads of the shared pool hold on its nodes by idle-time sharing; part of available, not of used';
COMMENT ON COLUMN rpq.pools.largest_free IS
	'what is free, or lent, on one node that takes work: the one with most of the primary resource free, then most '
	'CPU, then first by name; NULL when no node takes work';
COMMENT ON COLUMN rpq.pools.scheduling_policy IS
	'binpack, spread or least_fragmentation; an instance type may have its own (pool_instances)';
COMMENT ON COLUMN rpq.pools.queueing IS
	'backfill or best_effort: what happens behind a workload that waits for room';
COMMENT ON COLUMN rpq.pools.user_default_quota IS
	'personal quota of members in config mode default; NULL or no keys: unlimited';
COMMENT ON COLUMN rpq.pools.default_priority IS
	'priority (0 to 100) of a submission without one, if the member''s maximum allows it';
COMMENT ON COLUMN rpq.pools.workload_types IS 'workload types that it supports; NULL: all';
COMMENT ON COLUMN rpq.pools.project_group IS 'label under which pools are grouped; NULL: none';
COMMENT ON COLUMN rpq.pools.description IS 'free text';
COMMENT ON COLUMN rpq.pools.frozen IS 'nothing is submitted or admitted; what runs goes on';
COMMENT ON COLUMN rpq.pools.allow_guarantee IS
	'workloads may be submitted as guaranteed by members who have the right';
COMMENT ON COLUMN rpq.pools.pay_as_you_go IS 'every workload is non-preemptible';
COMMENT ON COLUMN rpq.pools.faulty_node_rotation IS
	'exclusive: an unhealthy node is swapped for a healthy idle one of the shared pool';
COMMENT ON COLUMN rpq.pools.idle_time_sharing IS
	'exclusive: free nodes may serve preemptible workloads of the shared pool';
COMMENT ON COLUMN rpq.pools.open IS 'shared: every account of the tenant may submit; off: members alone';
COMMENT ON COLUMN rpq.pools.isolate_accounts IS 'exclusive: a node hosts pods of one account at a time';
COMMENT ON COLUMN rpq.pools.min_runtime IS 'time that a workload runs before it may be preempted';
COMMENT ON COLUMN rpq.pools.health IS 'healthy when all its nodes are, else the affected nodes with their reasons';
COMMENT ON COLUMN rpq.pools.queued IS 'workloads that wait in this pool';
COMMENT ON COLUMN rpq.pools.running IS
	'workloads that hold nodes, starting and running, in the pool that they are charged to: what borrows room of an '
	'exclusive pool is in the shared pool that it was submitted to';
COMMENT ON COLUMN rpq.pools.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.pool_instances WITH (security_barrier) AS
SELECT i.pool_instance_id, i.pool_id, p.name AS pool, t.name AS instance_type,
	   coalesce(c.nodes, 0) AS nodes,
	   coalesce(c.total, '') AS total,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(u.used, '') AS used,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(x.unavailable, '') AS unavailable,
	   rpq_store.at_least_zero(coalesce(c.total, '') OPERATOR(rpq.-) coalesce(u.used, '')
							   OPERATOR(rpq.-) coalesce(x.unavailable, '')) AS available,
	   coalesce(i.scheduling_policy, p.scheduling_policy) AS scheduling_policy,
	   i.user_default_quota
  FROM rpq_store.pool_instance i
  JOIN rpq_store.pool p ON p.pool_id = i.pool_id
  JOIN rpq_store.instance_type t ON t.type_id = i.type_id
  LEFT JOIN (SELECT pool_id, type_id, sum(nodes)::bigint AS nodes,
					rpq.sum(capacity OPERATOR(rpq.*) nodes::numeric) AS total
			   FROM rpq_store.pool_capacity GROUP BY pool_id, type_id) c
	ON c.pool_id = i.pool_id AND c.type_id = i.type_id
  LEFT JOIN (SELECT pool_id, type_id, rpq.sum(amount) AS used
			   FROM rpq_store.usage_now WHERE lender_id = 0 GROUP BY pool_id, type_id) u
	ON u.pool_id = i.pool_id AND u.type_id = i.type_id
  LEFT JOIN (SELECT pool_id, type_id, rpq.sum(amount) AS unavailable
			   FROM rpq_store.unavailable_now GROUP BY pool_id, type_id) x
	ON x.pool_id = i.pool_id AND x.type_id = i.type_id
 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]);

COMMENT ON VIEW rpq.pool_instances IS 'each instance type of each pool that one may see';
COMMENT ON COLUMN rpq.pool_instances.pool_instance_id IS 'id of the row';
COMMENT ON COLUMN rpq.pool_instances.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.pool_instances.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.pool_instances.instance_type IS 'name of the instance type';
COMMENT ON COLUMN rpq.pool_instances.nodes IS 'nodes of this type in the pool';
COMMENT ON COLUMN rpq.pool_instances.total IS 'what those nodes hold';
COMMENT ON COLUMN rpq.pool_instances.used IS 'what placed workloads of the pool hold on this type, on its own nodes';
COMMENT ON COLUMN rpq.pool_instances.unavailable IS
	'what is free on those of its nodes that take nothing new, or is not there at present';
COMMENT ON COLUMN rpq.pool_instances.available IS
	'total - used - unavailable, by key, never below zero; what is lent is in it';
COMMENT ON COLUMN rpq.pool_instances.scheduling_policy IS
	'scheduling policy in force for this type: its own, else the pool''s';
COMMENT ON COLUMN rpq.pool_instances.user_default_quota IS
	'personal quota for this type of members in config mode default; NULL: none of its own';

CREATE OR REPLACE VIEW rpq.pool_resources WITH (security_barrier) AS
SELECT p.pool_id, p.name AS pool, k.resource,
	   coalesce(p.total OPERATOR(rpq.->) k.resource, 0) AS total,
	   coalesce(p.used OPERATOR(rpq.->) k.resource, 0) AS used,
	   coalesce(p.unavailable OPERATOR(rpq.->) k.resource, 0) AS unavailable,
	   coalesce(p.available OPERATOR(rpq.->) k.resource, 0) AS available,
	   coalesce(p.lent OPERATOR(rpq.->) k.resource, 0) AS lent
  FROM rpq_store.pool_now p
 CROSS JOIN LATERAL jsonb_object_keys((p.total OPERATOR(rpq.+) p.used)::jsonb) AS k(resource)
 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]);

COMMENT ON VIEW rpq.pool_resources IS 'each resource of each pool as plain numbers, for dashboards; memory in MiB';
COMMENT ON COLUMN rpq.pool_resources.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.pool_resources.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.pool_resources.resource IS 'name of the resource';
COMMENT ON COLUMN rpq.pool_resources.total IS 'what the pool''s nodes hold of it';
COMMENT ON COLUMN rpq.pool_resources.used IS 'what placed workloads of the pool hold of it, on its own nodes';
COMMENT ON COLUMN rpq.pool_resources.unavailable IS
	'what of it is free on nodes that take nothing new, or is not there at present';
COMMENT ON COLUMN rpq.pool_resources.available IS 'total - used - unavailable, never below zero';
COMMENT ON COLUMN rpq.pool_resources.lent IS
	'what workloads of the shared pool hold by idle-time sharing; part of available, not of used';

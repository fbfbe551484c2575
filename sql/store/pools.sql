-- Pools, what they hold, and who may use them.  Written by administrators' functions and operations (sql/api/pools.sql,
-- nodes.sql, members.sql, operations.sql) that have taken, and changed, the turns of the pools concerned.

-- One sequence numbers pools and queues, so that a scope's id says which of both it is in every table keyed by scope.
CREATE SEQUENCE rpq_store.scope_id_seq AS bigint;

CREATE TABLE rpq_store.pool (
	pool_id bigint PRIMARY KEY DEFAULT nextval('rpq_store.scope_id_seq'),
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	cluster_id bigint NOT NULL REFERENCES rpq_store.cluster,
	kind text NOT NULL CHECK (kind IN ('gpu', 'cpu')),
	type text NOT NULL CHECK (type IN ('shared', 'dedicated', 'exclusive')),
	name text COLLATE "C" NOT NULL,
	status text NOT NULL DEFAULT 'creating'
		CHECK (status IN ('creating', 'ready', 'updating', 'failed', 'deleting', 'deleted')),
	description text,
	project_group_id bigint REFERENCES rpq_store.project_group,
	workload_types text[],
	default_priority int NOT NULL DEFAULT 50 CHECK (default_priority BETWEEN 0 AND 100),
	user_default_quota rpq.resources,
	scheduling_policy text NOT NULL DEFAULT 'binpack'
		CHECK (scheduling_policy IN ('binpack', 'spread', 'least_fragmentation')),
	queueing text NOT NULL DEFAULT 'backfill' CHECK (queueing IN ('backfill', 'best_effort')),
	frozen boolean NOT NULL DEFAULT false,
	allow_guarantee boolean NOT NULL DEFAULT true,
	pay_as_you_go boolean NOT NULL DEFAULT false,
	faulty_node_rotation boolean NOT NULL DEFAULT false,
	idle_time_sharing boolean NOT NULL DEFAULT false,
	open boolean NOT NULL DEFAULT true,
	isolate_accounts boolean NOT NULL DEFAULT false,
	min_runtime interval NOT NULL DEFAULT '0' CHECK (min_runtime >= '0'),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
-- A pool is never deleted physically: its name is free again, its id stays in history, usage and ledger.
CREATE UNIQUE INDEX pool_tenant_name ON rpq_store.pool (tenant_id, name) WHERE status <> 'deleted';
-- The one shared pool of a tenant, cluster and kind.
CREATE UNIQUE INDEX pool_shared ON rpq_store.pool (tenant_id, cluster_id, kind) WHERE type = 'shared';

CREATE TABLE rpq_store.pool_instance (
	pool_instance_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	type_id bigint NOT NULL REFERENCES rpq_store.instance_type,
	scheduling_policy text CHECK (scheduling_policy IN ('binpack', 'spread', 'least_fragmentation')),
	user_default_quota rpq.resources,
	PRIMARY KEY (pool_id, type_id)
);

-- The distinct node sizes of a pool: submit reads these few rows and never the nodes; their sum is the pool's total.
CREATE TABLE rpq_store.pool_capacity (
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	type_id bigint NOT NULL REFERENCES rpq_store.instance_type,
	capacity rpq.resources NOT NULL,
	nodes bigint NOT NULL CHECK (nodes >= 0),
	PRIMARY KEY (pool_id, type_id, capacity)
);

CREATE TABLE rpq_store.node (
	node_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	cluster_id bigint NOT NULL REFERENCES rpq_store.cluster,
	name text COLLATE "C" NOT NULL,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	type_id bigint NOT NULL REFERENCES rpq_store.instance_type,
	capacity rpq.resources NOT NULL,
	reported rpq.resources,
	usable rpq.resources NOT NULL,
	schedulable boolean NOT NULL DEFAULT true,
	draining boolean NOT NULL DEFAULT false,
	health text NOT NULL DEFAULT 'healthy' CHECK (health IN ('healthy', 'degraded', 'unhealthy')),
	health_reason text,
	silent boolean NOT NULL DEFAULT false,
	decided_health text CHECK (decided_health IN ('healthy', 'degraded')),
	decided_reason text,
	removing boolean NOT NULL DEFAULT false,
	labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
	provider_id text,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	autoscaler_instance_id bigint,
	UNIQUE (tenant_id, name)
);
CREATE INDEX node_pool ON rpq_store.node (pool_id, type_id);
CREATE INDEX node_unhealthy ON rpq_store.node (pool_id) WHERE health = 'unhealthy';

CREATE TABLE rpq_store.member (
	member_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	account_id bigint NOT NULL REFERENCES rpq_store.account,
	max_priority int NOT NULL DEFAULT 100 CHECK (max_priority BETWEEN 0 AND 100),
	guarantee boolean NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (pool_id, account_id)
);
CREATE INDEX member_account ON rpq_store.member (account_id);

-- A row is config mode custom, its absence config mode default.  type_id 0 is the pool as a whole.
CREATE TABLE rpq_store.member_quota (
	member_quota_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	pool_id bigint NOT NULL,
	account_id bigint NOT NULL,
	type_id bigint NOT NULL DEFAULT 0,
	quota rpq.resources NOT NULL,
	PRIMARY KEY (pool_id, account_id, type_id),
	FOREIGN KEY (pool_id, account_id) REFERENCES rpq_store.member ON DELETE CASCADE
);

CREATE TABLE rpq_store.pool_admin (
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	account_id bigint NOT NULL REFERENCES rpq_store.account,
	PRIMARY KEY (pool_id, account_id)
);
CREATE INDEX pool_admin_account ON rpq_store.pool_admin (account_id);

COMMENT ON SEQUENCE rpq_store.scope_id_seq IS 'ids of scopes: pools and queues';

COMMENT ON TABLE rpq_store.pool IS
'a named set of nodes of one kind in one cluster, with quotas, members and rules; never deleted physically';
COMMENT ON COLUMN rpq_store.pool.pool_id IS 'its id, and that of its scope';
COMMENT ON COLUMN rpq_store.pool.tenant_id IS 'the tenant that it belongs to';
COMMENT ON COLUMN rpq_store.pool.cluster_id IS 'the cluster that its nodes are in';
COMMENT ON COLUMN rpq_store.pool.kind IS 'gpu or cpu: the kind of its instance types';
COMMENT ON COLUMN rpq_store.pool.type IS 'shared, dedicated or exclusive';
COMMENT ON COLUMN rpq_store.pool.name IS 'its name, unique in the tenant among pools that are not deleted';
COMMENT ON COLUMN rpq_store.pool.status IS 'creating, ready, updating, failed, deleting or deleted';
COMMENT ON COLUMN rpq_store.pool.description IS 'free text';
COMMENT ON COLUMN rpq_store.pool.project_group_id IS 'the project group that it is shown under';
COMMENT ON COLUMN rpq_store.pool.workload_types IS 'names of the workload types that it takes; NULL: all';
COMMENT ON COLUMN rpq_store.pool.default_priority IS 'priority, 0 to 100, of a submission without one';
COMMENT ON COLUMN rpq_store.pool.user_default_quota IS
'personal quota of members in config mode default, for the pool as a whole; NULL: no limit';
COMMENT ON COLUMN rpq_store.pool.scheduling_policy IS 'how nodes are chosen: binpack, spread or least_fragmentation';
COMMENT ON COLUMN rpq_store.pool.queueing IS 'what a blocked workload keeps others from: backfill or best_effort';
COMMENT ON COLUMN rpq_store.pool.frozen IS 'nothing is submitted or admitted; what runs goes on';
COMMENT ON COLUMN rpq_store.pool.allow_guarantee IS 'whether members with the right may submit guaranteed workloads';
COMMENT ON COLUMN rpq_store.pool.pay_as_you_go IS 'every workload is non-preemptible; set at creation';
COMMENT ON COLUMN rpq_store.pool.faulty_node_rotation IS
'exclusive pools: an unhealthy node is swapped for one of the shared pool';
COMMENT ON COLUMN rpq_store.pool.idle_time_sharing IS
'exclusive pools: preemptible work of the shared pool may use free nodes';
COMMENT ON COLUMN rpq_store.pool.open IS 'shared pools: every account of the tenant may submit; off: members only';
COMMENT ON COLUMN rpq_store.pool.isolate_accounts IS 'exclusive pools: a node hosts pods of one account at a time';
COMMENT ON COLUMN rpq_store.pool.min_runtime IS 'how long a workload runs before it may be preempted';
COMMENT ON COLUMN rpq_store.pool.created_at IS 'when it was made, or asked for';
COMMENT ON COLUMN rpq_store.pool.deleted_at IS 'when it was deleted; NULL: it is not';

COMMENT ON TABLE rpq_store.pool_instance IS
'an instance type that a pool has or had nodes of, with what is set for it alone';
COMMENT ON COLUMN rpq_store.pool_instance.pool_instance_id IS 'a key of one column';
COMMENT ON COLUMN rpq_store.pool_instance.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.pool_instance.type_id IS 'the instance type';
COMMENT ON COLUMN rpq_store.pool_instance.scheduling_policy IS
'in place of the pool''s, for nodes of this type; NULL: the pool''s';
COMMENT ON COLUMN rpq_store.pool_instance.user_default_quota IS
'personal quota for this type of members in config mode default; NULL: no limit';

COMMENT ON TABLE rpq_store.pool_capacity IS 'the distinct node sizes of a pool; their sum is its total';
COMMENT ON COLUMN rpq_store.pool_capacity.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.pool_capacity.type_id IS 'the instance type';
COMMENT ON COLUMN rpq_store.pool_capacity.capacity IS 'what such a node nominally holds';
COMMENT ON COLUMN rpq_store.pool_capacity.nodes IS 'how many nodes of the pool have this type and size';

COMMENT ON TABLE rpq_store.node IS 'one machine; it is in exactly one pool';
COMMENT ON COLUMN rpq_store.node.node_id IS 'its id';
COMMENT ON COLUMN rpq_store.node.tenant_id IS 'the tenant of its pool';
COMMENT ON COLUMN rpq_store.node.cluster_id IS 'the cluster that it stands in';
COMMENT ON COLUMN rpq_store.node.name IS 'its name, unique in the tenant';
COMMENT ON COLUMN rpq_store.node.pool_id IS 'the pool that it is in';
COMMENT ON COLUMN rpq_store.node.type_id IS 'its instance type';
COMMENT ON COLUMN rpq_store.node.capacity IS 'what it nominally holds; gpu counts its devices';
COMMENT ON COLUMN rpq_store.node.reported IS 'what its executor last said that it holds; NULL: nothing was said';
COMMENT ON COLUMN rpq_store.node.usable IS 'the lesser of capacity and reported';
COMMENT ON COLUMN rpq_store.node.schedulable IS
'an administrator''s decision: off is cordoned, nothing new is placed on it';
COMMENT ON COLUMN rpq_store.node.draining IS 'an operation is taking its pods off';
COMMENT ON COLUMN rpq_store.node.health IS
'healthy, degraded or unhealthy; nothing new is placed on one that is not healthy';
COMMENT ON COLUMN rpq_store.node.health_reason IS 'why it is not healthy, or cordoned, in words';
COMMENT ON COLUMN rpq_store.node.silent IS 'it is unhealthy because its executor was silent, not by a decision';
COMMENT ON COLUMN rpq_store.node.decided_health IS
'while it is silent, the health that it has again with the next sign of life; NULL: it is not silent';
COMMENT ON COLUMN rpq_store.node.decided_reason IS 'while it is silent, the health_reason that goes with that';
COMMENT ON COLUMN rpq_store.node.removing IS
'removed by force, and kept until the last workload on it, which its client keeps locked, has left';
COMMENT ON COLUMN rpq_store.node.labels IS 'a JSON object of an administrator''s own';
COMMENT ON COLUMN rpq_store.node.provider_id IS 'the machine''s id at its provider';
COMMENT ON COLUMN rpq_store.node.autoscaler_instance_id IS 'the autoscaler''s instance that it came from';
COMMENT ON COLUMN rpq_store.node.created_at IS 'when it was added';

COMMENT ON TABLE rpq_store.member IS
'an account authorised in a pool; in a shared pool, one with settings of its own';
COMMENT ON COLUMN rpq_store.member.member_id IS 'a key of one column';
COMMENT ON COLUMN rpq_store.member.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.member.account_id IS 'the account';
COMMENT ON COLUMN rpq_store.member.max_priority IS 'the highest priority, 0 to 100, that it may submit with';
COMMENT ON COLUMN rpq_store.member.guarantee IS 'whether it may submit workloads that are never preempted';
COMMENT ON COLUMN rpq_store.member.created_at IS 'when it became a member';

COMMENT ON TABLE rpq_store.member_quota IS
'a member''s own quota (config mode custom); without a row the default is looked up';
COMMENT ON COLUMN rpq_store.member_quota.member_quota_id IS 'a key of one column';
COMMENT ON COLUMN rpq_store.member_quota.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.member_quota.account_id IS 'the account';
COMMENT ON COLUMN rpq_store.member_quota.type_id IS 'the instance type; 0: the pool as a whole';
COMMENT ON COLUMN rpq_store.member_quota.quota IS 'the most that it may use; a key that it lacks is not limited';

COMMENT ON TABLE rpq_store.pool_admin IS 'resource administrators of a pool';
COMMENT ON COLUMN rpq_store.pool_admin.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.pool_admin.account_id IS 'the account that administers it';

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
	labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
	provider_id text,
	autoscaler_instance_id bigint,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (tenant_id, name)
);
CREATE INDEX node_pool ON rpq_store.node (pool_id, type_id);

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

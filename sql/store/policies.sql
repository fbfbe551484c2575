-- Policies, profiles and queues.  A queue is a scope of its own.  The tables are keyed so that nothing else changes shape
-- when work comes through queues.

CREATE TABLE rpq_store.policy (
	policy_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	group_id bigint NOT NULL REFERENCES rpq_store.user_group,
	name text COLLATE "C" NOT NULL,
	description text,
	reservation rpq.resources NOT NULL DEFAULT '',
	usage_limit rpq.resources,
	lending text NOT NULL DEFAULT 'lend' CHECK (lending IN ('lend', 'hold')),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
CREATE UNIQUE INDEX policy_name ON rpq_store.policy (tenant_id, name) WHERE deleted_at IS NULL;

CREATE TABLE rpq_store.profile (
	profile_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	saved rpq.resources NOT NULL,
	provisioned rpq.resources,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (tenant_id, name)
);

CREATE TABLE rpq_store.profile_pool (
	profile_id bigint NOT NULL REFERENCES rpq_store.profile ON DELETE CASCADE,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	state text NOT NULL CHECK (state IN ('saved', 'provisioned')),
	rank int NOT NULL,
	PRIMARY KEY (profile_id, state, pool_id),
	UNIQUE (profile_id, state, rank)
);

CREATE TABLE rpq_store.queue (
	queue_id bigint PRIMARY KEY DEFAULT nextval('rpq_store.scope_id_seq'),
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	policy_id bigint NOT NULL REFERENCES rpq_store.policy,
	profile_id bigint NOT NULL REFERENCES rpq_store.profile,
	name text COLLATE "C" NOT NULL,
	pod_template jsonb,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
CREATE UNIQUE INDEX queue_name ON rpq_store.queue (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX queue_card ON rpq_store.queue (policy_id, profile_id) WHERE deleted_at IS NULL;

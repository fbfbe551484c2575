-- Policies, profiles and queues.  A queue is a scope of its own.  The tables are keyed so that nothing else changes
-- shape when work comes through queues.

CREATE TABLE rpq_store.policy (
	policy_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	group_id bigint REFERENCES rpq_store.user_group,
	name text COLLATE "C" NOT NULL,
	description text,
	reservation rpq.resources NOT NULL DEFAULT '',
	usage_limit rpq.resources,
	lending text NOT NULL DEFAULT 'lend' CHECK (lending IN ('lend', 'hold')),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz,
	CHECK (group_id IS NOT NULL OR deleted_at IS NOT NULL)
);
CREATE UNIQUE INDEX policy_name ON rpq_store.policy (tenant_id, name) WHERE deleted_at IS NULL;

CREATE TABLE rpq_store.profile (
	profile_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	saved rpq.resources NOT NULL,
	provisioned rpq.resources,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
CREATE UNIQUE INDEX profile_name ON rpq_store.profile (tenant_id, name) WHERE deleted_at IS NULL;

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
CREATE INDEX queue_profile ON rpq_store.queue (profile_id) WHERE deleted_at IS NULL;
CREATE INDEX profile_pool_pool ON rpq_store.profile_pool (pool_id);

COMMENT ON TABLE rpq_store.policy IS 'promises and limits for user groups';
COMMENT ON COLUMN rpq_store.policy.policy_id IS 'id';
COMMENT ON COLUMN rpq_store.policy.tenant_id IS 'tenant';
COMMENT ON COLUMN rpq_store.policy.group_id IS
	'user group that it is for; NULL: it was deleted, and then the group was';
COMMENT ON COLUMN rpq_store.policy.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq_store.policy.description IS 'free text';
COMMENT ON COLUMN rpq_store.policy.reservation IS 'what is kept available for the group';
COMMENT ON COLUMN rpq_store.policy.usage_limit IS 'the most that its queues may hold at once; NULL: no limit';
COMMENT ON COLUMN rpq_store.policy.lending IS
	'lend or hold: whether others may use the unmet part of the reservation';
COMMENT ON COLUMN rpq_store.policy.created_at IS 'when it was created';
COMMENT ON COLUMN rpq_store.policy.deleted_at IS
	'when it was deleted; the row stays while something is charged to it';
COMMENT ON TABLE rpq_store.profile IS 'job sizes';
COMMENT ON COLUMN rpq_store.profile.profile_id IS 'id';
COMMENT ON COLUMN rpq_store.profile.tenant_id IS 'tenant';
COMMENT ON COLUMN rpq_store.profile.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq_store.profile.saved IS 'size as edited';
COMMENT ON COLUMN rpq_store.profile.provisioned IS 'size in force; NULL: never provisioned';
COMMENT ON COLUMN rpq_store.profile.created_at IS 'when it was created';
COMMENT ON COLUMN rpq_store.profile.deleted_at IS
	'when it was deleted; the row stays for the names of its workloads';
COMMENT ON TABLE rpq_store.profile_pool IS 'pools that may serve a profile';
COMMENT ON COLUMN rpq_store.profile_pool.profile_id IS 'profile';
COMMENT ON COLUMN rpq_store.profile_pool.pool_id IS 'pool';
COMMENT ON COLUMN rpq_store.profile_pool.state IS 'saved (as edited) or provisioned (in force)';
COMMENT ON COLUMN rpq_store.profile_pool.rank IS 'place in the routing order';
COMMENT ON TABLE rpq_store.queue IS 'doors that connect a policy with a profile; each is a scope';
COMMENT ON COLUMN rpq_store.queue.queue_id IS 'id, of the sequence of scopes';
COMMENT ON COLUMN rpq_store.queue.tenant_id IS 'tenant';
COMMENT ON COLUMN rpq_store.queue.policy_id IS 'policy that work is charged to';
COMMENT ON COLUMN rpq_store.queue.profile_id IS 'profile that sizes it';
COMMENT ON COLUMN rpq_store.queue.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq_store.queue.pod_template IS 'template of pods, for executors';
COMMENT ON COLUMN rpq_store.queue.created_at IS 'when it was created';
COMMENT ON COLUMN rpq_store.queue.deleted_at IS 'when it was deleted; the row stays for the names of its workloads';

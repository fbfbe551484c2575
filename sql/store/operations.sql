-- Operations: administrative changes that run asynchronously.  Written by the call that asks for one (operations.sql)
-- and by whoever carries it out (operation_runs.sql), after the turns of the pools concerned; migration and
-- pod_migration likewise.

CREATE TABLE rpq_store.operation (
	operation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL,
	kind text NOT NULL CHECK (kind IN ('create', 'resize', 'convert', 'rename', 'delete', 'move', 'drain', 'defragment',
									   'rotate')),
	pool_id bigint NOT NULL,
	arguments jsonb NOT NULL DEFAULT '{}',
	status text NOT NULL DEFAULT 'pending'
		CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
	step text,
	state jsonb NOT NULL DEFAULT '{}',
	cancelling boolean NOT NULL DEFAULT false,
	progress numeric NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
	attempts int NOT NULL DEFAULT 0,
	action text NOT NULL,
	initiator text NOT NULL,
	initiator_account_id bigint,
	on_behalf_of text,
	db_role text,
	application_name text,
	created_at timestamptz NOT NULL,
	started_at timestamptz,
	ended_at timestamptz,
	owner_pid int,
	owner_started timestamptz,
	lease_until timestamptz,
	error text,
	error_code text,
	result jsonb,
	waiting boolean NOT NULL DEFAULT false,
	tried_at timestamptz,
	tried_mark bigint,
	pool_status text
);
CREATE INDEX operation_open ON rpq_store.operation (operation_id) WHERE status IN ('pending', 'running');
CREATE INDEX operation_pool_time ON rpq_store.operation (pool_id, created_at);

-- The pools that an open operation holds: the key lets one operation at a time have a pool.
CREATE TABLE rpq_store.operation_pool (
	pool_id bigint PRIMARY KEY REFERENCES rpq_store.pool,
	operation_id bigint NOT NULL REFERENCES rpq_store.operation
);

-- What a move of nodes between pools, or a drain, leaves behind: a row for its operation, which has status, times and
-- error.
CREATE TABLE rpq_store.migration (
	migration_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	operation_id bigint NOT NULL UNIQUE REFERENCES rpq_store.operation,
	tenant_id bigint NOT NULL,
	direction text NOT NULL CHECK (direction IN ('in', 'out')),
	mode text NOT NULL CHECK (mode IN ('quantity', 'nodes')),
	from_pool_id bigint NOT NULL,
	to_pool_id bigint,
	type_id bigint,
	nodes text[] NOT NULL DEFAULT '{}',
	evicted bigint[] NOT NULL DEFAULT '{}'
);
CREATE INDEX migration_from ON rpq_store.migration (from_pool_id);
CREATE INDEX migration_to ON rpq_store.migration (to_pool_id);

-- Planned moves of pods between nodes.  Written by whoever carries the operation out, under the pool's turn.
-- planned -> reserved -> evicting -> done; skipped or failed from each of them, with a reason.
CREATE TABLE rpq_store.pod_migration (
	pod_migration_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	operation_id bigint NOT NULL REFERENCES rpq_store.operation,
	round int NOT NULL DEFAULT 1,
	pool_id bigint NOT NULL,
	workload_id bigint NOT NULL,
	replica int NOT NULL,
	attempt int NOT NULL,
	pod_id bigint NOT NULL,
	resources rpq.resources NOT NULL,
	from_node_id bigint NOT NULL,
	from_node text COLLATE "C" NOT NULL,
	to_node_id bigint NOT NULL,
	to_node text COLLATE "C" NOT NULL,
	devices int[],
	status text COLLATE "C" NOT NULL DEFAULT 'planned'
		CHECK (status IN ('planned', 'reserved', 'evicting', 'done', 'skipped', 'failed')),
	reason text COLLATE "C",
	planned_at timestamptz NOT NULL,
	reserved_at timestamptz,
	evicted_at timestamptz,
	ended_at timestamptz
);
CREATE INDEX pod_migration_operation ON rpq_store.pod_migration (operation_id, round);
CREATE INDEX pod_migration_workload ON rpq_store.pod_migration (workload_id);
CREATE INDEX pod_migration_open ON rpq_store.pod_migration (pod_id)
	WHERE status IN ('planned', 'reserved', 'evicting');

-- How far the moves of an operation are, and what one step of them did.
CREATE TYPE rpq_store.moves_progress AS (
	"left" int,
	done int,
	skipped int,
	failed int,
	blocked text
);
COMMENT ON TYPE rpq_store.moves_progress IS 'how far the pod moves of an operation are';
COMMENT ON COLUMN rpq_store.moves_progress."left" IS 'moves that have not ended';
COMMENT ON COLUMN rpq_store.moves_progress.done IS 'moves done';
COMMENT ON COLUMN rpq_store.moves_progress.skipped IS 'moves skipped';
COMMENT ON COLUMN rpq_store.moves_progress.failed IS 'moves failed';
COMMENT ON COLUMN rpq_store.moves_progress.blocked IS
'why the operation must be undone: target_short or timeout; NULL: it can go on';

COMMENT ON TABLE rpq_store.operation IS 'an administrative change that runs asynchronously';
COMMENT ON COLUMN rpq_store.operation.operation_id IS 'id';
COMMENT ON COLUMN rpq_store.operation.tenant_id IS 'tenant of the pool';
COMMENT ON COLUMN rpq_store.operation.kind IS
'create, resize, convert, rename, delete, move, drain, defragment or rotate';
COMMENT ON COLUMN rpq_store.operation.pool_id IS 'the pool that it is about';
COMMENT ON COLUMN rpq_store.operation.arguments IS 'what was asked for, checked';
COMMENT ON COLUMN rpq_store.operation.status IS 'pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq_store.operation.step IS 'step in hand of a staged operation';
COMMENT ON COLUMN rpq_store.operation.state IS 'what its steps remember, and what an undo puts back';
COMMENT ON COLUMN rpq_store.operation.cancelling IS 'to be ended after the step in hand';
COMMENT ON COLUMN rpq_store.operation.progress IS '0 to 1';
COMMENT ON COLUMN rpq_store.operation.attempts IS 'how often it was taken up';
COMMENT ON COLUMN rpq_store.operation.action IS 'the function that was called, for the history';
COMMENT ON COLUMN rpq_store.operation.initiator IS 'who asked: account or role';
COMMENT ON COLUMN rpq_store.operation.initiator_account_id IS 'the account, NULL for a role without one';
COMMENT ON COLUMN rpq_store.operation.on_behalf_of IS 'the account, when somebody acted for it';
COMMENT ON COLUMN rpq_store.operation.db_role IS 'role in force at the call';
COMMENT ON COLUMN rpq_store.operation.application_name IS 'of the session that asked';
COMMENT ON COLUMN rpq_store.operation.created_at IS 'when it was asked for';
COMMENT ON COLUMN rpq_store.operation.started_at IS 'when it was first taken up';
COMMENT ON COLUMN rpq_store.operation.ended_at IS 'when it ended';
COMMENT ON COLUMN rpq_store.operation.owner_pid IS 'server process that carries it out';
COMMENT ON COLUMN rpq_store.operation.owner_started IS 'start of that process: a pid alone may be another''s';
COMMENT ON COLUMN rpq_store.operation.lease_until IS 'a sign of life of the owner; past it, another may take over';
COMMENT ON COLUMN rpq_store.operation.error IS 'message of the failure';
COMMENT ON COLUMN rpq_store.operation.error_code IS 'SQLSTATE of the failure';
COMMENT ON COLUMN rpq_store.operation.result IS 'what it did, by kind';
COMMENT ON COLUMN rpq_store.operation.waiting IS 'its last step found that something else has to happen first';
COMMENT ON COLUMN rpq_store.operation.tried_at IS 'true time of its last step';
COMMENT ON COLUMN rpq_store.operation.tried_mark IS 'how far its turns had come then: it waits until they have moved';
COMMENT ON COLUMN rpq_store.operation.pool_status IS 'status of its pool before it was asked for';
COMMENT ON TABLE rpq_store.operation_pool IS 'a pool that an open operation holds: one operation at a time';
COMMENT ON COLUMN rpq_store.operation_pool.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.operation_pool.operation_id IS 'the operation';

COMMENT ON TABLE rpq_store.migration IS 'what a move of nodes between pools, or a drain, leaves behind';
COMMENT ON COLUMN rpq_store.migration.migration_id IS 'id';
COMMENT ON COLUMN rpq_store.migration.operation_id IS 'the operation, which has its status, initiator, times and error';
COMMENT ON COLUMN rpq_store.migration.tenant_id IS 'tenant of the pools';
COMMENT ON COLUMN rpq_store.migration.direction IS 'out when a shared pool is the target, else in';
COMMENT ON COLUMN rpq_store.migration.mode IS 'quantity or nodes: how it was asked for';
COMMENT ON COLUMN rpq_store.migration.from_pool_id IS 'pool that the nodes leave; of a drain, the pool of its node';
COMMENT ON COLUMN rpq_store.migration.to_pool_id IS 'pool that they come to; NULL: a drain';
COMMENT ON COLUMN rpq_store.migration.type_id IS 'instance type of the nodes; NULL: several';
COMMENT ON COLUMN rpq_store.migration.nodes IS 'names of the nodes';
COMMENT ON COLUMN rpq_store.migration.evicted IS 'ids of the workloads whose pods were moved for it';
COMMENT ON TABLE rpq_store.pod_migration IS 'a planned move of a pod from one node to another';
COMMENT ON COLUMN rpq_store.pod_migration.pod_migration_id IS 'id';
COMMENT ON COLUMN rpq_store.pod_migration.operation_id IS 'the operation that moves it';
COMMENT ON COLUMN rpq_store.pod_migration.round IS 'round of the operation, from 1';
COMMENT ON COLUMN rpq_store.pod_migration.pool_id IS 'pool of both nodes';
COMMENT ON COLUMN rpq_store.pod_migration.workload_id IS 'workload';
COMMENT ON COLUMN rpq_store.pod_migration.replica IS 'which of its pods, from 0';
COMMENT ON COLUMN rpq_store.pod_migration.attempt IS 'its attempt when the move was planned';
COMMENT ON COLUMN rpq_store.pod_migration.pod_id IS 'the pod as it stands on the source';
COMMENT ON COLUMN rpq_store.pod_migration.resources IS 'what it holds';
COMMENT ON COLUMN rpq_store.pod_migration.from_node_id IS 'node that it leaves';
COMMENT ON COLUMN rpq_store.pod_migration.from_node IS 'its name';
COMMENT ON COLUMN rpq_store.pod_migration.to_node_id IS 'node that it goes to';
COMMENT ON COLUMN rpq_store.pod_migration.to_node IS 'its name';
COMMENT ON COLUMN rpq_store.pod_migration.devices IS 'devices on the target';
COMMENT ON COLUMN rpq_store.pod_migration.status IS 'planned, reserved, evicting, done, skipped or failed';
COMMENT ON COLUMN rpq_store.pod_migration.reason IS
'why it was skipped or failed: target_short, quota, pod_changed, node_unhealthy, timeout or cancelled';
COMMENT ON COLUMN rpq_store.pod_migration.planned_at IS 'when it was planned';
COMMENT ON COLUMN rpq_store.pod_migration.reserved_at IS 'when room was reserved on the target';
COMMENT ON COLUMN rpq_store.pod_migration.evicted_at IS 'when the pod was told to stop, or left the source';
COMMENT ON COLUMN rpq_store.pod_migration.ended_at IS 'when it was done, skipped or failed';

-- Operations: administrative changes that run asynchronously.  Written by the call that asks for one and by whoever
-- carries it out (sql/api/operations.sql), after the turns of the pools concerned.

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
	result jsonb
);
CREATE INDEX operation_open ON rpq_store.operation (operation_id) WHERE status IN ('pending', 'running');
CREATE INDEX operation_pool_time ON rpq_store.operation (pool_id, created_at);

-- The pools that an open operation holds: the key lets one operation at a time have a pool.
CREATE TABLE rpq_store.operation_pool (
	pool_id bigint PRIMARY KEY REFERENCES rpq_store.pool,
	operation_id bigint NOT NULL REFERENCES rpq_store.operation
);

COMMENT ON TABLE rpq_store.operation IS 'an administrative change that runs asynchronously';
COMMENT ON COLUMN rpq_store.operation.operation_id IS 'id';
COMMENT ON COLUMN rpq_store.operation.tenant_id IS 'tenant of the pool';
COMMENT ON COLUMN rpq_store.operation.kind IS
'create, resize, convert, rename, delete, move, drain, defragment or rotate';
COMMENT ON COLUMN rpq_store.operation.pool_id IS 'the pool that it is about';
COMMENT ON COLUMN rpq_store.operation.arguments IS 'what was asked for, checked';
COMMENT ON COLUMN rpq_store.operation.status IS 'pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq_store.operation.step IS 'step in hand of a staged operation';
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
COMMENT ON TABLE rpq_store.operation_pool IS 'a pool that an open operation holds: one operation at a time';
COMMENT ON COLUMN rpq_store.operation_pool.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.operation_pool.operation_id IS 'the operation';

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

-- Workloads, the ledger, and what only the holder of a turn writes.

-- A client's own row.  Written by submit, enqueue, edit, stop, the reports (its owner's session) and by the cycle, which
-- takes it with SKIP LOCKED.  No foreign key: rows that many share would cost submit a quarter and a multixact each.
CREATE TABLE rpq_store.workload (
	workload_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL,
	scope_id bigint NOT NULL,
	account_id bigint NOT NULL,
	shape bigint NOT NULL,
	submitted_at timestamptz,
	created_at timestamptz NOT NULL,
	replicas int NOT NULL,
	attempt int NOT NULL DEFAULT 0,
	preemptions int NOT NULL DEFAULT 0,
	priority smallint NOT NULL,
	guarantee boolean NOT NULL DEFAULT false,
	checkpointable boolean NOT NULL DEFAULT false,
	hidden boolean NOT NULL DEFAULT false,
	status text COLLATE "C" NOT NULL,
	workload_type text COLLATE "C" NOT NULL,
	resources rpq.resources NOT NULL,
	instance_types bigint[],
	name text COLLATE "C",
	on_node_loss text COLLATE "C" NOT NULL DEFAULT 'requeue',
	max_runtime interval,
	not_before timestamptz,
	pool_id bigint,
	type_id bigint,
	policy_id bigint,
	nodes text[],
	started_at timestamptz,
	deadline timestamptz,
	running_at timestamptz,
	ended_at timestamptz,
	cause text,
	detail text,
	checkpoint text,
	checkpoint_at timestamptz,
	request_id text COLLATE "C",
	request_digest bytea,
	labels jsonb,
	spec jsonb
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX workload_request ON rpq_store.workload (account_id, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX workload_queued ON rpq_store.workload (scope_id, shape, submitted_at, workload_id)
	WHERE status = 'queued';
CREATE INDEX workload_live ON rpq_store.workload (account_id, scope_id) WHERE ended_at IS NULL;
CREATE INDEX workload_deadline ON rpq_store.workload (scope_id, deadline) WHERE deadline IS NOT NULL AND ended_at IS NULL;
CREATE INDEX workload_ended ON rpq_store.workload (scope_id, ended_at) WHERE ended_at IS NOT NULL;

-- Ledger, inbox, feed and workload_events in one: append-only, never updated or flagged.
-- kind: enqueue withdraw edit admit start release move late_report carry draft.
-- waiting is what the entry adds to the length of its lane (scope_id, shape), resources what it adds to usage.
CREATE TABLE rpq_store.entry (
	entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	scope_id bigint NOT NULL,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	at timestamptz NOT NULL,
	workload_id bigint NOT NULL,
	shape bigint,
	submitted_at timestamptz,
	account_id bigint,
	policy_id bigint,
	pool_id bigint,
	type_id bigint,
	attempt int NOT NULL DEFAULT 0,
	waiting smallint NOT NULL DEFAULT 0,
	kind text COLLATE "C" NOT NULL,
	status text COLLATE "C",
	actor text,
	cause text COLLATE "C",
	detail text,
	resources rpq.resources
);
CREATE INDEX entry_scope_xid ON rpq_store.entry (scope_id, xid);
CREATE INDEX entry_workload ON rpq_store.entry (workload_id);
CREATE INDEX entry_at ON rpq_store.entry USING brin (at);

-- The lock and the cursor of a scope.  Whoever decides about the scope holds this row (FOR NO KEY UPDATE, in id order)
-- and changes it.  An entry is counted in lane, usage and node_load when its transaction is visible in seen, or is own_xid
-- and entry_id <= own_entry.
CREATE TABLE rpq_store.turn (
	scope_id bigint PRIMARY KEY,
	seen pg_snapshot NOT NULL,
	own_xid xid8 NOT NULL,
	own_entry bigint NOT NULL DEFAULT 0,
	cycle bigint NOT NULL DEFAULT 0,
	room_epoch bigint NOT NULL DEFAULT 1,
	last_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- Queued workloads of one shape.  head is a lower bound of (submitted_at, workload_id): a read of the queue index starts
-- there, past the dead entries that an old snapshot keeps at the lane's head.
CREATE TABLE rpq_store.lane (
	scope_id bigint NOT NULL,
	shape bigint NOT NULL,
	waiting bigint NOT NULL,
	head_at timestamptz NOT NULL,
	head_id bigint NOT NULL,
	blocked_at_epoch bigint NOT NULL DEFAULT 0,
	considered boolean NOT NULL DEFAULT false,
	account_id bigint NOT NULL,
	priority smallint NOT NULL,
	guarantee boolean NOT NULL,
	checkpointable boolean NOT NULL,
	replicas int NOT NULL,
	workload_type text COLLATE "C" NOT NULL,
	resources rpq.resources NOT NULL,
	instance_types bigint[],
	max_runtime interval,
	not_before timestamptz,
	reason_code text COLLATE "C",
	reason text,
	detail jsonb,
	PRIMARY KEY (scope_id, shape)
) WITH (fillfactor = 70);

-- One cube: the figures of pool, member, policy and instance type are its sums.  policy_id 0 is a direct submission.
CREATE TABLE rpq_store.usage (
	pool_id bigint NOT NULL,
	type_id bigint NOT NULL,
	account_id bigint NOT NULL,
	policy_id bigint NOT NULL DEFAULT 0,
	amount rpq.resources NOT NULL,
	PRIMARY KEY (pool_id, type_id, account_id, policy_id)
) WITH (fillfactor = 60);

-- What pods take of each node.  parts: what is taken of each device, in thousandths times 21 (the unit of amounts).
CREATE TABLE rpq_store.node_load (
	node_id bigint PRIMARY KEY,
	pool_id bigint NOT NULL,
	used rpq.resources NOT NULL DEFAULT '',
	parts bigint[] NOT NULL DEFAULT '{}',
	pods int NOT NULL DEFAULT 0
) WITH (fillfactor = 60);
CREATE INDEX node_load_pool ON rpq_store.node_load (pool_id);

CREATE TABLE rpq_store.pod (
	pod_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	workload_id bigint NOT NULL,
	attempt int NOT NULL,
	replica int NOT NULL,
	node_id bigint NOT NULL,
	devices int[]
);
CREATE UNIQUE INDEX pod_workload ON rpq_store.pod (workload_id, replica);
CREATE INDEX pod_node ON rpq_store.pod (node_id);

-- Room of a node that is kept for a workload or a move to come.
CREATE TABLE rpq_store.hold (
	hold_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	scope_id bigint NOT NULL,
	node_id bigint NOT NULL,
	workload_id bigint NOT NULL,
	attempt int NOT NULL DEFAULT 0,
	replica int NOT NULL DEFAULT 0,
	resources rpq.resources NOT NULL,
	devices int[],
	purpose text COLLATE "C" NOT NULL,
	operation_id bigint,
	expires_at timestamptz
);
CREATE INDEX hold_node ON rpq_store.hold (node_id);
CREATE INDEX hold_workload ON rpq_store.hold (workload_id);

-- Signs of life, written by executors.
CREATE TABLE rpq_store.node_seen (
	node_id bigint PRIMARY KEY,
	at timestamptz NOT NULL,
	reported rpq.resources
) WITH (fillfactor = 50);

CREATE TABLE rpq_store.pod_report (
	pod_id bigint PRIMARY KEY,
	state text COLLATE "C" NOT NULL,
	outcome text COLLATE "C",
	detail text,
	at timestamptz NOT NULL
);

-- A row of rpq.schedule(): a type of its own, since an argument and a column of the result are both called pool.
CREATE TYPE rpq.schedule_decision AS (
	workload bigint,
	decision text,
	pool text,
	nodes text[],
	reason_code text,
	reason text
);
COMMENT ON TYPE rpq.schedule_decision IS 'what a cycle decided about one workload';
COMMENT ON COLUMN rpq.schedule_decision.workload IS 'id of the workload';
COMMENT ON COLUMN rpq.schedule_decision.decision IS 'admitted, preempted or waiting';
COMMENT ON COLUMN rpq.schedule_decision.pool IS 'the pool that it was admitted into';
COMMENT ON COLUMN rpq.schedule_decision.nodes IS 'names of its nodes, one for each replica';
COMMENT ON COLUMN rpq.schedule_decision.reason_code IS 'why it waits, as a code';
COMMENT ON COLUMN rpq.schedule_decision.reason IS 'why it waits, as a sentence with figures';

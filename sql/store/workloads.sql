-- Workloads, the ledger, and what only the holder of a turn writes.

-- A client's own row.  Written by submit, enqueue, edit, stop, the reports (its owner's session) and by the cycle,
-- which takes it with SKIP LOCKED.  No foreign key: rows that many share would cost submit a quarter and a multixact
-- each.
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
	lender_id bigint,
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
);
CREATE UNIQUE INDEX workload_request ON rpq_store.workload (account_id, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX workload_queued ON rpq_store.workload (scope_id, shape, submitted_at, workload_id)
	WHERE status = 'queued';
CREATE INDEX workload_live ON rpq_store.workload (account_id, scope_id) WHERE ended_at IS NULL;
-- what is placed through queues: views count it, and work of pools has no entry here
CREATE INDEX workload_through_queue ON rpq_store.workload (scope_id)
	WHERE policy_id IS NOT NULL AND status IN ('starting', 'running');
-- what borrows room: views and operations look for it, and most pools lend nothing
CREATE INDEX workload_borrowed ON rpq_store.workload (lender_id)
	WHERE lender_id IS NOT NULL AND status IN ('starting', 'running');
CREATE INDEX workload_deadline ON rpq_store.workload (scope_id, deadline)
	WHERE deadline IS NOT NULL AND status IN ('starting', 'running');
CREATE INDEX workload_ended ON rpq_store.workload (scope_id, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX workload_ended_account ON rpq_store.workload (account_id, ended_at) WHERE ended_at IS NOT NULL;

-- Ledger, inbox, feed and workload_events in one: append-only, never updated or flagged.
-- kind: enqueue withdraw edit admit start release move late_report carry draft report.
-- report: executors said something of the workload's pods (pod_report); it adds nothing and wakes a cycle.
-- waiting is what the entry adds to the length of its lane (scope_id, shape), resources what it adds to usage.
CREATE TABLE rpq_store.entry (
	entry_id bigint GENERATED ALWAYS AS IDENTITY,
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
	lender_id bigint,
	attempt int NOT NULL DEFAULT 0,
	waiting smallint NOT NULL DEFAULT 0,
	kind text COLLATE "C" NOT NULL,
	status text COLLATE "C",
	actor text,
	cause text COLLATE "C",
	detail text,
	resources rpq.resources,
	PRIMARY KEY (workload_id, entry_id)		-- one index serves the identity and the events of a workload
);
CREATE INDEX entry_scope_xid ON rpq_store.entry (scope_id, xid);
CREATE INDEX entry_at ON rpq_store.entry USING brin (at);

-- The lock and the cursor of a scope.  Whoever decides about the scope holds this row (FOR NO KEY UPDATE, in id order)
-- and changes it.  An entry is counted in lane, usage and node_load when its transaction is visible in seen, or is
-- own_xid and entry_id <= own_entry.
CREATE TABLE rpq_store.turn (
	scope_id bigint PRIMARY KEY,
	seen pg_snapshot NOT NULL,
	own_xid xid8 NOT NULL,
	own_entry bigint NOT NULL DEFAULT 0,
	cycle bigint NOT NULL DEFAULT 0,
	room_epoch bigint NOT NULL DEFAULT 1,
	last_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- Queued workloads of one shape.  head is a lower bound of (submitted_at, workload_id): a read of the queue index
-- starts there, past the dead entries that an old snapshot keeps at the lane's head.  Most lanes of a scope change in
-- every cycle.  A page that is left nearly empty takes the next versions of its few rows without new index entries,
-- before each of which the primary key would look at all that an old snapshot keeps (30 lanes, after 1,000 cycles under
-- one: 15,000 pages a cycle at fillfactor 70, 2,300 at 30, 150 at 10).
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
) WITH (fillfactor = 10);

-- One cube: the figures of pool, member, policy and instance type are its sums.  policy_id 0 is a direct submission.
-- lender_id is the exclusive pool on whose nodes borrowed work is (idle-time sharing), 0 elsewhere.
CREATE TABLE rpq_store.usage (
	pool_id bigint NOT NULL,
	type_id bigint NOT NULL,
	account_id bigint NOT NULL,
	policy_id bigint NOT NULL DEFAULT 0,
	lender_id bigint NOT NULL DEFAULT 0,
	amount rpq.resources NOT NULL,
	PRIMARY KEY (pool_id, type_id, account_id, policy_id, lender_id)
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
-- By attempt: one that was stopped may be placed again in another pool before its former pool has folded the release.
CREATE UNIQUE INDEX pod_workload ON rpq_store.pod (workload_id, attempt, replica);
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
	purpose text COLLATE "C" NOT NULL CHECK (purpose IN ('stopping', 'move', 'preempt')),
	pod_id bigint,
	operation_id bigint,
	expires_at timestamptz
);
CREATE INDEX hold_node ON rpq_store.hold (node_id);
CREATE INDEX hold_workload ON rpq_store.hold (workload_id);
CREATE INDEX hold_scope ON rpq_store.hold (scope_id, expires_at);
CREATE INDEX hold_pod ON rpq_store.hold (pod_id) WHERE pod_id IS NOT NULL;

-- Victims of preemptions, written with the decision, ended by the cycle that finds the room free.  pending: the victim
-- has still to stop; stopped: its attempt ended; given_up: its preemptor no longer wants or may have the room, the
-- victim goes on.
CREATE TABLE rpq_store.preemption (
	preemption_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL,
	pool_id bigint NOT NULL,
	preemptor bigint,
	victim bigint NOT NULL,
	victim_attempt int NOT NULL,
	victim_account bigint NOT NULL,
	preemptor_account bigint,
	rule text COLLATE "C" NOT NULL CHECK (rule IN ('borrowed', 'reservation', 'priority')),
	rank int NOT NULL,
	gpu_seconds_lost numeric NOT NULL,
	state text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'stopped', 'given_up')),
	expires_at timestamptz
);
CREATE INDEX preemption_pending ON rpq_store.preemption (pool_id) WHERE state = 'pending';
CREATE INDEX preemption_victim ON rpq_store.preemption (victim, victim_attempt);
CREATE INDEX preemption_preemptor ON rpq_store.preemption (preemptor);

-- Signs of life, written by executors.
CREATE TABLE rpq_store.node_seen (
	node_id bigint PRIMARY KEY,
	at timestamptz NOT NULL,
	reported rpq.resources,
	news boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

-- What executors said of pods.  A row comes with the first "start" that is handed out for a pod, and outlives the pod
-- until its executor has let go of it.  state: started (handed out), running, finished (with an outcome), lost (was
-- running, is no longer reported), gone (was told to stop, is no longer reported).
CREATE TABLE rpq_store.pod_report (
	pod_id bigint PRIMARY KEY,
	node_id bigint NOT NULL,
	workload_id bigint NOT NULL,
	attempt int NOT NULL,
	state text COLLATE "C" NOT NULL CHECK (state IN ('started', 'running', 'finished', 'lost', 'gone')),
	outcome text COLLATE "C" CHECK (outcome IN ('succeeded', 'failed', 'stopped')),
	detail text,
	node_fault boolean NOT NULL DEFAULT false,
	devices int[],
	at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX pod_report_node ON rpq_store.pod_report (node_id);
CREATE INDEX pod_report_workload ON rpq_store.pod_report (workload_id);

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

COMMENT ON TABLE rpq_store.workload IS 'workloads, live and ended: a client''s own rows';
COMMENT ON COLUMN rpq_store.workload.workload_id IS 'id';
COMMENT ON COLUMN rpq_store.workload.tenant_id IS 'tenant of the account';
COMMENT ON COLUMN rpq_store.workload.scope_id IS 'pool or queue that it waits in, or waited in';
COMMENT ON COLUMN rpq_store.workload.account_id IS 'account that submitted it';
COMMENT ON COLUMN rpq_store.workload.shape IS
	'hash of what makes work alike (account, size, priority, flags): with scope_id the key of its lane';
COMMENT ON COLUMN rpq_store.workload.submitted_at IS 'first entry into a queue; kept through preemption and loss';
COMMENT ON COLUMN rpq_store.workload.created_at IS 'when the row was made';
COMMENT ON COLUMN rpq_store.workload.replicas IS 'number of pods, placed all or none';
COMMENT ON COLUMN rpq_store.workload.attempt IS 'number of its admissions so far, plus one for each pod move';
COMMENT ON COLUMN rpq_store.workload.preemptions IS 'how often it was preempted';
COMMENT ON COLUMN rpq_store.workload.priority IS '0 to 100, larger is more urgent';
COMMENT ON COLUMN rpq_store.workload.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq_store.workload.checkpointable IS 'can go on from a checkpoint';
COMMENT ON COLUMN rpq_store.workload.hidden IS 'deleted by its owner: left out of lists until retention removes it';
COMMENT ON COLUMN rpq_store.workload.status IS 'draft, queued, starting, running, succeeded, failed or stopped';
COMMENT ON COLUMN rpq_store.workload.workload_type IS 'name of the workload type';
COMMENT ON COLUMN rpq_store.workload.resources IS 'of one replica';
COMMENT ON COLUMN rpq_store.workload.instance_types IS 'instance types that it allows; NULL: any';
COMMENT ON COLUMN rpq_store.workload.name IS 'name; need not be unique';
COMMENT ON COLUMN rpq_store.workload.on_node_loss IS 'requeue or fail';
COMMENT ON COLUMN rpq_store.workload.max_runtime IS 'stopped after so long; NULL: no limit';
COMMENT ON COLUMN rpq_store.workload.not_before IS 'not admitted before';
COMMENT ON COLUMN rpq_store.workload.pool_id IS 'pool that the present or last attempt was admitted in; NULL: none';
COMMENT ON COLUMN rpq_store.workload.type_id IS 'instance type of its nodes';
COMMENT ON COLUMN rpq_store.workload.policy_id IS 'policy that it is charged to';
COMMENT ON COLUMN rpq_store.workload.lender_id IS
	'exclusive pool whose idle room it borrows; NULL: it runs in pool_id itself';
COMMENT ON COLUMN rpq_store.workload.nodes IS 'names of its nodes, one a replica';
COMMENT ON COLUMN rpq_store.workload.started_at IS 'latest admission';
COMMENT ON COLUMN rpq_store.workload.deadline IS 'started_at + max_runtime';
COMMENT ON COLUMN rpq_store.workload.running_at IS 'when the attempt was reported as running';
COMMENT ON COLUMN rpq_store.workload.ended_at IS 'end; NULL: live or a draft';
COMMENT ON COLUMN rpq_store.workload.cause IS 'why it ended, or was put back';
COMMENT ON COLUMN rpq_store.workload.detail IS 'the same as a sentence';
COMMENT ON COLUMN rpq_store.workload.checkpoint IS 'what report_checkpoint said last';
COMMENT ON COLUMN rpq_store.workload.checkpoint_at IS 'when it did';
COMMENT ON COLUMN rpq_store.workload.request_id IS 'the client''s own id of the submission';
COMMENT ON COLUMN rpq_store.workload.request_digest IS
	'digest of the submission''s content, to tell a repeat from another one under the same request_id';
COMMENT ON COLUMN rpq_store.workload.labels IS 'labels';
COMMENT ON COLUMN rpq_store.workload.spec IS 'what the executor is to run';
COMMENT ON TABLE rpq_store.entry IS 'the ledger: what happened to workloads, append-only; also the inbox of cycles';
COMMENT ON COLUMN rpq_store.entry.entry_id IS 'id; not the order of commits';
COMMENT ON COLUMN rpq_store.entry.scope_id IS 'pool or queue whose turn counts it';
COMMENT ON COLUMN rpq_store.entry.xid IS 'transaction that wrote it';
COMMENT ON COLUMN rpq_store.entry.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq_store.entry.workload_id IS 'workload; 0 in a carry entry';
COMMENT ON COLUMN rpq_store.entry.shape IS 'lane of the workload, with scope_id';
COMMENT ON COLUMN rpq_store.entry.submitted_at IS 'of the workload, for the head of its lane';
COMMENT ON COLUMN rpq_store.entry.account_id IS 'account that it is charged to';
COMMENT ON COLUMN rpq_store.entry.policy_id IS 'policy that it is charged to; NULL: a direct submission';
COMMENT ON COLUMN rpq_store.entry.pool_id IS 'pool whose usage it changes';
COMMENT ON COLUMN rpq_store.entry.type_id IS 'instance type of the nodes';
COMMENT ON COLUMN rpq_store.entry.lender_id IS 'exclusive pool that has the nodes of borrowed work; NULL: pool_id has';
COMMENT ON COLUMN rpq_store.entry.attempt IS 'attempt that it belongs to';
COMMENT ON COLUMN rpq_store.entry.waiting IS 'what it adds to the length of the lane';
COMMENT ON COLUMN rpq_store.entry.kind IS
	'enqueue, withdraw, edit, admit, start, release, move, late_report, carry, draft or report';
COMMENT ON COLUMN rpq_store.entry.status IS 'status of the workload after it';
COMMENT ON COLUMN rpq_store.entry.actor IS 'who caused it';
COMMENT ON COLUMN rpq_store.entry.cause IS 'cause, one word';
COMMENT ON COLUMN rpq_store.entry.detail IS 'cause, as a sentence';
COMMENT ON COLUMN rpq_store.entry.resources IS 'what it adds to usage, signed; NULL: nothing';
COMMENT ON TABLE rpq_store.turn IS 'the lock and the cursor of a scope';
COMMENT ON COLUMN rpq_store.turn.scope_id IS 'pool or queue';
COMMENT ON COLUMN rpq_store.turn.seen IS 'snapshot up to which the scope''s entries are counted';
COMMENT ON COLUMN rpq_store.turn.own_xid IS 'transaction that counted last';
COMMENT ON COLUMN rpq_store.turn.own_entry IS 'its entries up to this id are counted';
COMMENT ON COLUMN rpq_store.turn.cycle IS 'number of cycles';
COMMENT ON COLUMN rpq_store.turn.room_epoch IS
	'grows when room may have been freed: a lane blocked at a lower one is tried again';
COMMENT ON COLUMN rpq_store.turn.last_at IS 'latest time written in the scope: entries never run backwards';
COMMENT ON TABLE rpq_store.lane IS 'queued workloads of one shape';
COMMENT ON COLUMN rpq_store.lane.scope_id IS 'pool or queue';
COMMENT ON COLUMN rpq_store.lane.shape IS 'hash of the columns from account_id to not_before';
COMMENT ON COLUMN rpq_store.lane.waiting IS 'number of workloads';
COMMENT ON COLUMN rpq_store.lane.head_at IS 'with head_id a lower bound of (submitted_at, workload_id)';
COMMENT ON COLUMN rpq_store.lane.head_id IS 'with head_at a lower bound of (submitted_at, workload_id)';
COMMENT ON COLUMN rpq_store.lane.blocked_at_epoch IS
	'room_epoch at which it was last blocked by room; 0: it was not';
COMMENT ON COLUMN rpq_store.lane.considered IS 'a cycle has tried it since it came to be';
COMMENT ON COLUMN rpq_store.lane.account_id IS 'account';
COMMENT ON COLUMN rpq_store.lane.priority IS 'priority';
COMMENT ON COLUMN rpq_store.lane.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq_store.lane.checkpointable IS 'can go on from a checkpoint';
COMMENT ON COLUMN rpq_store.lane.replicas IS 'pods of each workload';
COMMENT ON COLUMN rpq_store.lane.workload_type IS 'workload type';
COMMENT ON COLUMN rpq_store.lane.resources IS 'of one replica';
COMMENT ON COLUMN rpq_store.lane.instance_types IS 'instance types that it allows; NULL: any';
COMMENT ON COLUMN rpq_store.lane.max_runtime IS 'limit of the run time; NULL: none';
COMMENT ON COLUMN rpq_store.lane.not_before IS 'not admitted before';
COMMENT ON COLUMN rpq_store.lane.reason_code IS 'why it waits, after the last cycle that tried it';
COMMENT ON COLUMN rpq_store.lane.reason IS 'the same as a sentence with figures';
COMMENT ON COLUMN rpq_store.lane.detail IS 'the figures';
COMMENT ON TABLE rpq_store.usage IS
	'what placed workloads hold, as counted: its sums are the figures of pools, members, policies and instance '
	'types';
COMMENT ON COLUMN rpq_store.usage.pool_id IS 'pool';
COMMENT ON COLUMN rpq_store.usage.type_id IS 'instance type';
COMMENT ON COLUMN rpq_store.usage.account_id IS 'account';
COMMENT ON COLUMN rpq_store.usage.policy_id IS 'policy; 0: a direct submission';
COMMENT ON COLUMN rpq_store.usage.lender_id IS 'exclusive pool that has the nodes of borrowed work; 0: pool_id has';
COMMENT ON COLUMN rpq_store.usage.amount IS 'what they hold';
COMMENT ON TABLE rpq_store.node_load IS 'what pods take of each node, as counted';
COMMENT ON COLUMN rpq_store.node_load.node_id IS 'node';
COMMENT ON COLUMN rpq_store.node_load.pool_id IS 'pool that has the node';
COMMENT ON COLUMN rpq_store.node_load.used IS 'what its pods take';
COMMENT ON COLUMN rpq_store.node_load.parts IS 'what is taken of each device, in thousandths times 21';
COMMENT ON COLUMN rpq_store.node_load.pods IS 'number of pods';
COMMENT ON TABLE rpq_store.pod IS 'placed pods';
COMMENT ON COLUMN rpq_store.pod.pod_id IS 'id, new at each placement';
COMMENT ON COLUMN rpq_store.pod.workload_id IS 'workload';
COMMENT ON COLUMN rpq_store.pod.attempt IS 'attempt';
COMMENT ON COLUMN rpq_store.pod.replica IS 'number of the replica, from 0';
COMMENT ON COLUMN rpq_store.pod.node_id IS 'node';
COMMENT ON COLUMN rpq_store.pod.devices IS 'devices that it has, or has a part of, from 0';
COMMENT ON TABLE rpq_store.hold IS 'room of a node that is kept for what is to come';
COMMENT ON COLUMN rpq_store.hold.hold_id IS 'id';
COMMENT ON COLUMN rpq_store.hold.scope_id IS 'pool whose turn writes it';
COMMENT ON COLUMN rpq_store.hold.node_id IS 'node';
COMMENT ON COLUMN rpq_store.hold.workload_id IS 'workload that it is kept for';
COMMENT ON COLUMN rpq_store.hold.attempt IS 'attempt that it is kept for';
COMMENT ON COLUMN rpq_store.hold.replica IS 'replica that it is kept for';
COMMENT ON COLUMN rpq_store.hold.resources IS 'what is kept';
COMMENT ON COLUMN rpq_store.hold.devices IS 'devices that are kept';
COMMENT ON COLUMN rpq_store.hold.purpose IS
	'stopping (an executor has not let go of a pod yet), move (room for a pod to come) or preempt';
COMMENT ON COLUMN rpq_store.hold.pod_id IS 'the pod that is stopping or to be moved; NULL: none';
COMMENT ON COLUMN rpq_store.hold.operation_id IS 'operation that made it; NULL: none';
COMMENT ON COLUMN rpq_store.hold.expires_at IS 'given up after; NULL: never';
COMMENT ON TABLE rpq_store.preemption IS 'victims of preemptions';
COMMENT ON COLUMN rpq_store.preemption.preemption_id IS 'id';
COMMENT ON COLUMN rpq_store.preemption.at IS 'when it was decided';
COMMENT ON COLUMN rpq_store.preemption.pool_id IS 'pool that has the nodes; its turn writes the row';
COMMENT ON COLUMN rpq_store.preemption.preemptor IS 'workload that the room is for';
COMMENT ON COLUMN rpq_store.preemption.victim IS 'workload that gives it';
COMMENT ON COLUMN rpq_store.preemption.victim_attempt IS 'its attempt that ends';
COMMENT ON COLUMN rpq_store.preemption.victim_account IS 'account of the victim';
COMMENT ON COLUMN rpq_store.preemption.preemptor_account IS 'account of the preemptor';
COMMENT ON COLUMN rpq_store.preemption.rule IS 'borrowed, reservation or priority';
COMMENT ON COLUMN rpq_store.preemption.rank IS 'place among the victims of one decision, from 1';
COMMENT ON COLUMN rpq_store.preemption.gpu_seconds_lost IS
	'devices times seconds since the attempt began, or since its last checkpoint';
COMMENT ON COLUMN rpq_store.preemption.state IS 'pending, stopped or given_up';
COMMENT ON COLUMN rpq_store.preemption.expires_at IS
	'when a pending victim loses its room all the same; NULL: never';
COMMENT ON TABLE rpq_store.node_seen IS 'signs of life of nodes, written by executors';
COMMENT ON COLUMN rpq_store.node_seen.node_id IS 'node';
COMMENT ON COLUMN rpq_store.node_seen.at IS 'last sign of life';
COMMENT ON COLUMN rpq_store.node_seen.reported IS 'capacity that was reported';
COMMENT ON COLUMN rpq_store.node_seen.news IS
	'the capacity is another than before, and no cycle has taken it over yet';
COMMENT ON TABLE rpq_store.pod_report IS 'what executors reported of pods';
COMMENT ON COLUMN rpq_store.pod_report.pod_id IS 'pod';
COMMENT ON COLUMN rpq_store.pod_report.node_id IS 'node that it was handed out on';
COMMENT ON COLUMN rpq_store.pod_report.workload_id IS 'its workload';
COMMENT ON COLUMN rpq_store.pod_report.attempt IS 'attempt that it was placed for';
COMMENT ON COLUMN rpq_store.pod_report.state IS
	'started (handed out), running, finished, lost (was running, is no longer reported) or gone (was told to stop)';
COMMENT ON COLUMN rpq_store.pod_report.outcome IS 'succeeded, failed or stopped, when it has finished';
COMMENT ON COLUMN rpq_store.pod_report.detail IS 'detail of the end';
COMMENT ON COLUMN rpq_store.pod_report.node_fault IS 'the executor blames its node for the end';
COMMENT ON COLUMN rpq_store.pod_report.devices IS 'devices that it was handed out with';
COMMENT ON COLUMN rpq_store.pod_report.at IS 'when the state was reported';

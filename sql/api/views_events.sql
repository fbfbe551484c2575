-- Views of the ledger: what happened to workloads, and what changed usage.

-- Exactly one of the ends of an attempt (preempted, requeued, lost, moved, succeeded, failed, stopped) stands for each.
CREATE OR REPLACE VIEW rpq.workload_events WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT e.entry_id AS workload_event_id, e.workload_id, w.name, e.at,
	   CASE e.kind
			WHEN 'enqueue' THEN CASE WHEN e.cause IS NULL THEN 'submitted' ELSE 'requeued' END
			WHEN 'admit' THEN 'admitted'
			WHEN 'start' THEN 'started'
			WHEN 'move' THEN 'moved'
			WHEN 'draft' THEN 'drafted'
			WHEN 'late_report' THEN 'late_report'
			WHEN 'withdraw' THEN CASE e.status WHEN 'draft' THEN 'drafted'
											   WHEN 'failed' THEN 'failed'
											   ELSE 'stopped' END
			WHEN 'release' THEN CASE WHEN e.status IN ('succeeded', 'failed', 'stopped') THEN e.status
									 WHEN e.cause = 'preempted' THEN 'preempted'
									 WHEN e.cause IN ('node_lost', 'pod_lost') THEN 'lost'
									 ELSE 'requeued' END
	   END AS event,
	   -- what ends while it waits ends no attempt: the one before has its own end
	   e.status, CASE WHEN e.kind = 'withdraw' THEN 0 ELSE e.attempt END AS attempt, e.actor, e.cause, e.detail
  FROM rpq_store.workload w
  JOIN rpq_store.entry e ON e.workload_id = w.workload_id
 WHERE e.kind IN ('enqueue', 'admit', 'start', 'move', 'draft', 'late_report', 'withdraw', 'release')
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.workload_events IS
	'every change of a workload''s status: of one''s own work, of all in one''s pools for their administrators; '
	'ids are not the order of commits';
COMMENT ON COLUMN rpq.workload_events.workload_event_id IS 'id of the event: of its entry in the ledger';
COMMENT ON COLUMN rpq.workload_events.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.workload_events.name IS 'name of the workload';
COMMENT ON COLUMN rpq.workload_events.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq.workload_events.event IS
	'submitted, admitted, started, preempted, requeued, lost, moved, drafted, succeeded, failed, stopped or '
	'late_report';
COMMENT ON COLUMN rpq.workload_events.status IS 'status of the workload after it';
COMMENT ON COLUMN rpq.workload_events.attempt IS
	'attempt that it belongs to, 0 when it belongs to none; of a late report, the attempt that it named';
COMMENT ON COLUMN rpq.workload_events.actor IS 'account or role that caused it; system: a cycle';
COMMENT ON COLUMN rpq.workload_events.cause IS 'cause, one word';
COMMENT ON COLUMN rpq.workload_events.detail IS 'cause, in a sentence';

CREATE OR REPLACE VIEW rpq.ledger WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT e.entry_id AS ledger_id, e.at, e.workload_id, e.attempt, p.name AS pool, a.name AS account, y.name AS policy,
	   i.name AS instance_type, e.kind, e.resources, e.pool_id, e.account_id
  FROM rpq_store.entry e
  JOIN rpq_store.pool p ON p.pool_id = e.pool_id
  LEFT JOIN rpq_store.account a ON a.account_id = e.account_id
  LEFT JOIN rpq_store.policy y ON y.policy_id = e.policy_id
  LEFT JOIN rpq_store.instance_type i ON i.type_id = e.type_id
 WHERE e.resources IS NOT NULL AND e.kind IN ('admit', 'release', 'carry', 'move')
   AND (e.account_id = (SELECT account_id FROM me)
		OR p.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR p.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.ledger IS
	'entries that change usage; their sum by pool is what the pool''s placed workloads hold';
COMMENT ON COLUMN rpq.ledger.ledger_id IS 'id of the entry';
COMMENT ON COLUMN rpq.ledger.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq.ledger.workload_id IS 'id of the workload; of a carry entry, 0';
COMMENT ON COLUMN rpq.ledger.attempt IS 'attempt of the workload';
COMMENT ON COLUMN rpq.ledger.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.ledger.account IS 'account that it is charged to';
COMMENT ON COLUMN rpq.ledger.policy IS 'policy that it is charged to; NULL: a direct submission';
COMMENT ON COLUMN rpq.ledger.instance_type IS 'instance type of the nodes';
COMMENT ON COLUMN rpq.ledger.kind IS
	'admit (adds), release (takes away), move (from one pool or type to another) or carry (the sum of entries '
	'that retention removed)';
COMMENT ON COLUMN rpq.ledger.resources IS 'what it adds to usage, signed';
COMMENT ON COLUMN rpq.ledger.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.ledger.account_id IS 'id of the account';

CREATE OR REPLACE VIEW rpq.operations WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT o.operation_id, t.name AS tenant, o.kind, o.pool_id, p.name AS pool, o.arguments, o.status, o.step, o.progress,
	   o.attempts, o.initiator, o.created_at, o.started_at, o.ended_at, o.error, o.error_code, o.result
  FROM rpq_store.operation o
  JOIN rpq_store.tenant t ON t.tenant_id = o.tenant_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = o.pool_id
 WHERE o.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]) OR o.pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.operations IS
	'administrative changes that run asynchronously, for those who administer the pool';
COMMENT ON COLUMN rpq.operations.operation_id IS 'id of the operation';
COMMENT ON COLUMN rpq.operations.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.operations.kind IS
	'create, resize, convert, rename, delete, move, drain, defragment or rotate';
COMMENT ON COLUMN rpq.operations.pool_id IS 'id of the pool that it is about';
COMMENT ON COLUMN rpq.operations.pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.operations.arguments IS 'arguments of the call, json';
COMMENT ON COLUMN rpq.operations.status IS 'pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq.operations.step IS 'step in hand of a staged operation';
COMMENT ON COLUMN rpq.operations.progress IS 'share that is done, 0 to 1';
COMMENT ON COLUMN rpq.operations.attempts IS 'how often it was begun or resumed';
COMMENT ON COLUMN rpq.operations.initiator IS 'who asked for it';
COMMENT ON COLUMN rpq.operations.created_at IS 'when it was asked for';
COMMENT ON COLUMN rpq.operations.started_at IS 'when it was begun; NULL: not yet';
COMMENT ON COLUMN rpq.operations.ended_at IS 'when it ended; NULL: not yet';
COMMENT ON COLUMN rpq.operations.error IS 'message of the error that ended it';
COMMENT ON COLUMN rpq.operations.error_code IS 'SQLSTATE of that error';
COMMENT ON COLUMN rpq.operations.result IS 'result, json, by kind';

CREATE OR REPLACE VIEW rpq.operation_history WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT h.history_id AS operation_history_id, t.name AS tenant, h.at, h.recorded_at, h.actor, h.on_behalf_of, h.db_role,
	   h.application_name, h.object_kind, h.object_id, h.object, h.pool_id, h.action, h.operation_id, h.old, h.new
  FROM rpq_store.history h
  LEFT JOIN rpq_store.tenant t ON t.tenant_id = h.tenant_id
 WHERE (SELECT rpq_store.is_platform_admin())
	OR h.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR h.pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.operation_history IS
	'every successful administrative call, a row for each object that it names: all for platform admins, the '
	'tenant''s for organisation admins, the pool''s for pool admins. Filters by pool_id, actor and at use indexes';
COMMENT ON COLUMN rpq.operation_history.operation_history_id IS 'id of the row';
COMMENT ON COLUMN rpq.operation_history.tenant IS 'tenant of the object; NULL: it has none';
COMMENT ON COLUMN rpq.operation_history.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq.operation_history.recorded_at IS 'when, by the true clock';
COMMENT ON COLUMN rpq.operation_history.actor IS 'account whose rights were used, or the role where there is none';
COMMENT ON COLUMN rpq.operation_history.on_behalf_of IS 'that account again when it came through a gateway';
COMMENT ON COLUMN rpq.operation_history.db_role IS 'PostgreSQL role in force';
COMMENT ON COLUMN rpq.operation_history.application_name IS 'application_name of the session';
COMMENT ON COLUMN rpq.operation_history.object_kind IS
	'kind of the object: pool, member, node, account, workload …';
COMMENT ON COLUMN rpq.operation_history.object_id IS 'id of the object';
COMMENT ON COLUMN rpq.operation_history.object IS 'name of the object at that time; of a member, the account''s';
COMMENT ON COLUMN rpq.operation_history.pool_id IS
	'id of the pool concerned, the same through renames and deletion; NULL: none';
COMMENT ON COLUMN rpq.operation_history.action IS 'function called, or UPDATE or DELETE past the functions';
COMMENT ON COLUMN rpq.operation_history.operation_id IS 'operation that carried it out; NULL: it was immediate';
COMMENT ON COLUMN rpq.operation_history.old IS 'values before, of the keys that changed';
COMMENT ON COLUMN rpq.operation_history.new IS 'values after, of the keys that changed';

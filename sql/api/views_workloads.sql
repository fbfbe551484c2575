-- Views of workloads.  A reason may name the workload that is ahead: the reader may not see that one, and then its id
-- is left out.  rpq.workloads may be written (writable.sql): of its tables only the workload stands in FROM, the
-- others are WITH queries, which no SELECT ... FOR UPDATE reaches; so a reader locks rows of its own work alone.

CREATE OR REPLACE VIEW rpq_store.workload_shown AS
WITH tenant AS (SELECT t.tenant_id, t.name FROM rpq_store.tenant t),
	 account AS (SELECT a.account_id, a.name FROM rpq_store.account a),
	 pool AS (SELECT p.pool_id, p.name FROM rpq_store.pool p),
	 lender AS (SELECT b.pool_id, b.name FROM rpq_store.pool b),
	 queue AS (SELECT q.queue_id, q.name, q.profile_id, q.policy_id FROM rpq_store.queue q),
	 profile AS (SELECT f.profile_id, f.name FROM rpq_store.profile f),
	 policy AS (SELECT y.policy_id, y.name FROM rpq_store.policy y),
	 lane AS (SELECT l.scope_id, l.shape, l.considered, l.reason_code, l.reason FROM rpq_store.lane l),
	 held AS (SELECT h.workload_id, h.reason FROM rpq_store.preempting_now h)
SELECT w.workload_id, w.name, t.name AS tenant, w.account_id, a.name AS account, p.pool_id, p.name AS pool, q.queue_id,
	   q.name AS queue, y.name AS policy, f.name AS profile, w.workload_type, w.status, w.priority::int AS priority,
	   w.guarantee, w.resources, w.replicas, w.resources OPERATOR(rpq.*) w.replicas::numeric AS total,
	   CASE WHEN w.instance_types IS NOT NULL
			THEN ARRAY(SELECT i.name FROM unnest(w.instance_types) WITH ORDINALITY x(type_id, n)
						 JOIN rpq_store.instance_type i ON i.type_id = x.type_id ORDER BY x.n) END AS instance_types,
	   w.nodes, w.attempt, w.preemptions,
	   CASE w.status WHEN 'queued' THEN CASE WHEN h.workload_id IS NOT NULL THEN 'preempting'
											 WHEN l.considered AND l.reason_code IS NOT NULL THEN l.reason_code
											 ELSE 'not_considered_yet' END
					 WHEN 'draft' THEN w.cause END AS reason_code,
	   CASE w.status WHEN 'queued' THEN CASE WHEN h.workload_id IS NOT NULL THEN h.reason
											 WHEN l.considered AND l.reason_code IS NOT NULL THEN l.reason
											 ELSE 'no cycle has considered it yet' END
					 WHEN 'draft' THEN w.detail END AS reason,
	   w.not_before, w.submitted_at, w.started_at, w.ended_at,
	   CASE WHEN w.ended_at IS NOT NULL THEN coalesce(w.cause, w.status) END AS end_cause,
	   w.max_runtime, w.on_node_loss, w.checkpointable, w.request_id, w.labels, w.spec, w.created_at, w.detail,
	   w.hidden, w.tenant_id, w.scope_id, w.pool_id AS placed_in,
	   b.name AS lender
  FROM rpq_store.workload w
  LEFT JOIN tenant t ON t.tenant_id = w.tenant_id
  LEFT JOIN account a ON a.account_id = w.account_id
  LEFT JOIN pool p		-- pools and queues have ids of one sequence, so a queue's finds no pool
	ON p.pool_id = CASE WHEN w.status IN ('queued', 'draft') THEN w.scope_id ELSE coalesce(w.pool_id, w.scope_id) END
  LEFT JOIN lender b ON b.pool_id = w.lender_id
  LEFT JOIN queue q ON q.queue_id = w.scope_id
  LEFT JOIN profile f ON f.profile_id = q.profile_id
  LEFT JOIN policy y ON y.policy_id = coalesce(w.policy_id, q.policy_id)
  LEFT JOIN lane l ON l.scope_id = w.scope_id AND l.shape = w.shape AND w.status = 'queued'
  LEFT JOIN held h ON h.workload_id = w.workload_id AND w.status = 'queued';
COMMENT ON VIEW rpq_store.workload_shown IS 'every workload with the names that belong to its ids, without filter';

CREATE OR REPLACE VIEW rpq.workloads WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT w.workload_id, w.name, w.tenant, w.account_id, w.account, w.pool_id,
	   w.pool, w.queue_id, w.queue, w.policy, w.profile, w.workload_type, w.status, w.priority, w.guarantee,
	   w.resources, w.replicas, w.total, w.instance_types, w.nodes, w.attempt, w.preemptions, w.reason_code,
	   CASE WHEN w.reason_code IS DISTINCT FROM 'behind' OR (
				SELECT x.account_id = (SELECT account_id FROM me)
					   OR x.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
					   OR x.scope_id = ANY ((SELECT pools FROM me)::bigint[])
				  FROM rpq_store.workload x WHERE x.workload_id = substring(w.reason from '^workload (\d+) ')::bigint)
			THEN w.reason
			ELSE regexp_replace(w.reason, '^workload \d+ ', 'another workload ') END AS reason,
	   w.not_before, w.submitted_at, w.started_at, w.ended_at, w.end_cause, w.max_runtime,
	   w.on_node_loss, w.checkpointable, w.request_id, w.labels, w.spec, w.created_at, w.detail, w.lender
  FROM rpq_store.workload_shown w
 WHERE w.ended_at IS NULL AND NOT w.hidden
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.placed_in = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.workloads IS
	'live workloads and drafts: one''s own, and all in one''s pools for their administrators. INSERT submits, '
	'UPDATE of status to stopped stops, of priority, name and labels edits; a locking clause locks the workload '
	'alone';
COMMENT ON COLUMN rpq.workloads.workload_id IS 'id of the workload: its identity, since names may repeat';
COMMENT ON COLUMN rpq.workloads.name IS 'name given at submission; NULL: none';
COMMENT ON COLUMN rpq.workloads.tenant IS 'tenant of the account';
COMMENT ON COLUMN rpq.workloads.account_id IS 'id of the account that submitted it';
COMMENT ON COLUMN rpq.workloads.account IS 'name of that account; NULL: it was deleted';
COMMENT ON COLUMN rpq.workloads.pool_id IS
	'id of the pool that it waits in or is placed in; NULL while it waits in a queue';
COMMENT ON COLUMN rpq.workloads.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.workloads.queue_id IS 'id of the queue it came through; NULL: submitted to a pool';
COMMENT ON COLUMN rpq.workloads.queue IS 'name of that queue';
COMMENT ON COLUMN rpq.workloads.policy IS 'policy that it is charged to, or will be; NULL: none';
COMMENT ON COLUMN rpq.workloads.profile IS 'profile of the queue';
COMMENT ON COLUMN rpq.workloads.workload_type IS 'workload type';
COMMENT ON COLUMN rpq.workloads.status IS
	'draft, queued, starting (admitted, not reported yet), running, succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workloads.priority IS '0 to 100, larger is more urgent';
COMMENT ON COLUMN rpq.workloads.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq.workloads.resources IS 'what one replica takes';
COMMENT ON COLUMN rpq.workloads.replicas IS 'number of pods, placed all or none';
COMMENT ON COLUMN rpq.workloads.total IS 'resources times replicas';
COMMENT ON COLUMN rpq.workloads.instance_types IS 'instance types that it may run on; NULL: any of the pool';
COMMENT ON COLUMN rpq.workloads.nodes IS
	'node of each replica, in their order, of the present or last attempt; NULL: never placed';
COMMENT ON COLUMN rpq.workloads.attempt IS 'present or last attempt, from 1; 0: never admitted';
COMMENT ON COLUMN rpq.workloads.preemptions IS 'how often it was preempted';
COMMENT ON COLUMN rpq.workloads.reason_code IS
	'queued: why it waits (the codes of rpq.explain); draft: why it was taken back, if it was';
COMMENT ON COLUMN rpq.workloads.reason IS 'the same as a sentence with figures';
COMMENT ON COLUMN rpq.workloads.not_before IS 'not admitted before; NULL: any time';
COMMENT ON COLUMN rpq.workloads.submitted_at IS 'when it first entered a queue; NULL: a draft that never did';
COMMENT ON COLUMN rpq.workloads.started_at IS 'latest admission';
COMMENT ON COLUMN rpq.workloads.ended_at IS 'when it ended; NULL: it has not';
COMMENT ON COLUMN rpq.workloads.end_cause IS 'why it ended: the cause, else succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workloads.max_runtime IS 'it is stopped after so long; NULL: no limit';
COMMENT ON COLUMN rpq.workloads.on_node_loss IS 'requeue or fail: what becomes of it when its node is lost';
COMMENT ON COLUMN rpq.workloads.checkpointable IS 'it can go on from a checkpoint';
COMMENT ON COLUMN rpq.workloads.request_id IS 'the submissions own id, which makes it idempotent';
COMMENT ON COLUMN rpq.workloads.labels IS 'labels, json';
COMMENT ON COLUMN rpq.workloads.spec IS 'what the executor is to run, json';
COMMENT ON COLUMN rpq.workloads.created_at IS 'when the row was made';
COMMENT ON COLUMN rpq.workloads.detail IS 'details of the end, or of the last return to the queue';
COMMENT ON COLUMN rpq.workloads.lender IS
	'exclusive pool whose idle room it borrows, or borrowed when it ended; NULL: it is on nodes of pool itself';

-- In two parts, since the indexes are those of live and of ended workloads; nothing ends before it is submitted.
CREATE OR REPLACE VIEW rpq.workload_history WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT w.workload_id, w.name, w.tenant, w.account_id, w.account, w.pool_id,
	   w.pool, w.queue_id, w.queue, w.policy, w.profile, w.workload_type, w.status, w.priority, w.guarantee,
	   w.resources, w.replicas, w.total, w.instance_types, w.nodes, w.attempt, w.preemptions, w.reason_code,
	   CASE WHEN w.reason_code IS DISTINCT FROM 'behind' OR (
				SELECT x.account_id = (SELECT account_id FROM me)
					   OR x.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
					   OR x.scope_id = ANY ((SELECT pools FROM me)::bigint[])
				  FROM rpq_store.workload x WHERE x.workload_id = substring(w.reason from '^workload (\d+) ')::bigint)
			THEN w.reason
			ELSE regexp_replace(w.reason, '^workload \d+ ', 'another workload ') END AS reason,
	   w.not_before, w.submitted_at, w.started_at, w.ended_at, w.end_cause, w.max_runtime,
	   w.on_node_loss, w.checkpointable, w.request_id, w.labels, w.spec, w.created_at, w.detail, w.lender
  FROM (
		SELECT * FROM rpq_store.workload_shown WHERE ended_at IS NULL
		 UNION ALL
		SELECT * FROM rpq_store.workload_shown WHERE ended_at >= (SELECT rpq_store.shown_since())) w
 WHERE w.submitted_at >= (SELECT rpq_store.shown_since()) AND NOT w.hidden
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.placed_in = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.workload_history IS
	'workloads submitted within rpq.workload_history_retention before now, ended ones included: one''s own, and '
	'all in one''s pools for their administrators';
COMMENT ON COLUMN rpq.workload_history.workload_id IS 'id of the workload: its identity, since names may repeat';
COMMENT ON COLUMN rpq.workload_history.name IS 'name given at submission; NULL: none';
COMMENT ON COLUMN rpq.workload_history.tenant IS 'tenant of the account';
COMMENT ON COLUMN rpq.workload_history.account_id IS 'id of the account that submitted it';
COMMENT ON COLUMN rpq.workload_history.account IS 'name of that account; NULL: it was deleted';
COMMENT ON COLUMN rpq.workload_history.pool_id IS
	'id of the pool that it waits in or is placed in; NULL while it waits in a queue';
COMMENT ON COLUMN rpq.workload_history.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.workload_history.queue_id IS 'id of the queue it came through; NULL: submitted to a pool';
COMMENT ON COLUMN rpq.workload_history.queue IS 'name of that queue';
COMMENT ON COLUMN rpq.workload_history.policy IS 'policy that it is charged to, or will be; NULL: none';
COMMENT ON COLUMN rpq.workload_history.profile IS 'profile of the queue';
COMMENT ON COLUMN rpq.workload_history.workload_type IS 'workload type';
COMMENT ON COLUMN rpq.workload_history.status IS
	'draft, queued, starting (admitted, not reported yet), running, succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workload_history.priority IS '0 to 100, larger is more urgent';
COMMENT ON COLUMN rpq.workload_history.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq.workload_history.resources IS 'what one replica takes';
COMMENT ON COLUMN rpq.workload_history.replicas IS 'number of pods, placed all or none';
COMMENT ON COLUMN rpq.workload_history.total IS 'resources times replicas';
COMMENT ON COLUMN rpq.workload_history.instance_types IS 'instance types that it may run on; NULL: any of the pool';
COMMENT ON COLUMN rpq.workload_history.nodes IS
	'node of each replica, in their order, of the present or last attempt; NULL: never placed';
COMMENT ON COLUMN rpq.workload_history.attempt IS 'present or last attempt, from 1; 0: never admitted';
COMMENT ON COLUMN rpq.workload_history.preemptions IS 'how often it was preempted';
COMMENT ON COLUMN rpq.workload_history.reason_code IS
	'queued: why it waits (the codes of rpq.explain); draft: why it was taken back, if it was';
COMMENT ON COLUMN rpq.workload_history.reason IS 'the same as a sentence with figures';
COMMENT ON COLUMN rpq.workload_history.not_before IS 'not admitted before; NULL: any time';
COMMENT ON COLUMN rpq.workload_history.submitted_at IS
	'when it first entered a queue; NULL: a draft that never did';
COMMENT ON COLUMN rpq.workload_history.started_at IS 'latest admission';
COMMENT ON COLUMN rpq.workload_history.ended_at IS 'when it ended; NULL: it has not';
COMMENT ON COLUMN rpq.workload_history.end_cause IS 'why it ended: the cause, else succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workload_history.max_runtime IS 'it is stopped after so long; NULL: no limit';
COMMENT ON COLUMN rpq.workload_history.on_node_loss IS 'requeue or fail: what becomes of it when its node is lost';
COMMENT ON COLUMN rpq.workload_history.checkpointable IS 'it can go on from a checkpoint';
COMMENT ON COLUMN rpq.workload_history.request_id IS 'the submissions own id, which makes it idempotent';
COMMENT ON COLUMN rpq.workload_history.labels IS 'labels, json';
COMMENT ON COLUMN rpq.workload_history.spec IS 'what the executor is to run, json';
COMMENT ON COLUMN rpq.workload_history.created_at IS 'when the row was made';
COMMENT ON COLUMN rpq.workload_history.detail IS 'details of the end, or of the last return to the queue';
COMMENT ON COLUMN rpq.workload_history.lender IS
	'exclusive pool whose idle room it borrows, or borrowed when it ended; NULL: it is on nodes of pool itself';

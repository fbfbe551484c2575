-- Workloads: what clients call about them.  The bodies are in src/api (submit.c, workload.c, report.c).

CREATE OR REPLACE FUNCTION rpq.submit(pool text DEFAULT NULL, queue text DEFAULT NULL, workload_type text DEFAULT NULL,
	resources rpq.resources DEFAULT NULL, instance_types text[] DEFAULT NULL, name text DEFAULT NULL,
	replicas int DEFAULT 1, priority int DEFAULT NULL, guarantee boolean DEFAULT NULL,
	max_runtime interval DEFAULT NULL, checkpointable boolean DEFAULT NULL, on_node_loss text DEFAULT 'requeue',
	request_id text DEFAULT NULL, labels jsonb DEFAULT NULL, spec jsonb DEFAULT NULL, draft boolean DEFAULT NULL,
	account text DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_submit';
COMMENT ON FUNCTION rpq.submit(text, text, text, rpq.resources, text[], text, int, int, boolean, interval, boolean,
	text, text, jsonb, jsonb, boolean, text) IS
'submits a workload and returns its id. pool or queue, one of them: where it waits; workload_type: a name that the '
'tenant has; resources: of one replica (with a queue none: its profile sets them); instance_types: those it may run '
'on (NULL: any); replicas: 1 to 100000, admitted together or not at all; priority: 0 to 100, larger is more urgent '
'(NULL: the lesser of the pool''s default and the account''s maximum; in a queue 50); guarantee: never preempted, in a '
'queue within the policy''s reservation; max_runtime: stopped after it; on_node_loss: requeue or fail; request_id: the '
'same one again returns the first workload; labels: a json object; spec: likewise, for the executor, laid over the '
'queue''s pod template; draft: stored without being queued; account: for whom, by a platform administrator or a '
'gateway. Work through a queue runs in the first pool of its profile that can admit it, and is charged to the policy: '
'members and personal quotas of the pool are not asked, and a pool''s status, freeze and workload types refuse it only '
'where they leave no pool. Errors: 42704 pool, queue, type or account unknown; RQ001 not authorised (in a queue: not '
'in the policy''s group), frozen, workload type, guarantee, priority; RQ002 larger than the pool, the personal quota, '
'the policy''s limit or, guaranteed, its reservation; RQ004 pool being created or deleted; RQ007 no node could hold a '
'replica; 22023 bad argument; RQ009 fenced. Callers: accounts authorised in the pool, members of the queue''s group';

CREATE OR REPLACE FUNCTION rpq.enqueue(workload bigint, pool text DEFAULT NULL, queue text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_enqueue';
COMMENT ON FUNCTION rpq.enqueue(bigint, text, text) IS
'queues a draft, or what has stopped or failed, again, with the checks of submit; pool, queue: where to (NULL: where '
'it was), from pools to queues and back. In a queue it takes the size that the profile has now, in a pool it keeps '
'the size that it had. Returns false when another session was faster. Errors: RQ008 its status forbids it, and those '
'of submit. Callers: its owner and administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.edit_workload(workload bigint, priority int DEFAULT NULL, name text DEFAULT NULL,
	labels jsonb DEFAULT NULL, max_runtime interval DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_edit_workload';
COMMENT ON FUNCTION rpq.edit_workload(bigint, int, text, jsonb, interval) IS
'changes a draft or a queued workload; NULL stays as it is. It keeps its submission time. Returns whether anything '
'changed. Errors: RQ008 it is neither; RQ001 priority above the maximum; 22023. Callers: its owner and '
'administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.stop(workload bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_stop';
COMMENT ON FUNCTION rpq.stop(bigint, text) IS
'ends a workload wherever it is; what it holds is free with the next cycle. Returns false when it had ended. Errors: '
'42704. Callers: its owner and administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.delete_workload(workload bigint)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_delete_workload';
COMMENT ON FUNCTION rpq.delete_workload(bigint) IS
'stops a live workload and hides it from the lists; its rows go by retention. Returns false when it was hidden '
'before. Errors: 42704. Callers: its owner and administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.requeue(workload bigint, delay interval DEFAULT '0', reason text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_requeue';
COMMENT ON FUNCTION rpq.requeue(bigint, interval, text) IS
'takes a placed workload off its nodes, back to its lane with its submission time; what it held is free with the next '
'cycle. delay: not admitted again before it is over. reason: in words, for the event. Returns false when it is not '
'placed. Errors: 42704, 22023 a negative delay. Callers: executors of the tenant, administrators of its pool, its '
'owner';

CREATE OR REPLACE FUNCTION rpq.report_started(workload bigint, attempt int DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_report_started';
COMMENT ON FUNCTION rpq.report_started(bigint, int) IS
'says that an admitted workload runs. attempt: which (NULL: the present one; required from executors). Returns false '
'when it was not starting; another attempt than the present is recorded as late_report. Errors: 42704, 22023. '
'Callers: its owner, executors of the tenant, administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.report_finished(workload bigint, attempt int DEFAULT NULL,
	outcome text DEFAULT 'succeeded', detail text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_report_finished';
COMMENT ON FUNCTION rpq.report_finished(bigint, int, text, text) IS
'says that an attempt has ended; what it held is free with the next cycle, exactly once. outcome: succeeded, failed '
'or stopped. Returns false when that attempt had ended. Errors: 42704, 22023. Callers: its owner, executors of the '
'tenant, administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.report_checkpoint(workload bigint, attempt int DEFAULT NULL, detail text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_report_checkpoint';
COMMENT ON FUNCTION rpq.report_checkpoint(bigint, int, text) IS
'says that an attempt has saved its work; detail: where, handed to the next attempt. Returns false when that attempt '
'had ended. Errors: 42704, 22023. Callers: its owner, executors of the tenant, administrators of its pool';

-- What executors are told to run.

CREATE OR REPLACE FUNCTION rpq_store.merge_json(base jsonb, given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF base IS NULL OR given IS NULL THEN
		RETURN coalesce(given, base);
	ELSIF jsonb_typeof(base) <> 'object' OR jsonb_typeof(given) <> 'object' THEN
		RETURN given;
	END IF;
	RETURN base || coalesce((
		SELECT jsonb_object_agg(g.key, rpq_store.merge_json(base -> g.key, g.value))
		  FROM jsonb_each(given) AS g), '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.merge_json(jsonb, jsonb) IS
'base with what is given laid over it: key by key in objects, also in objects of objects; of anything else, arrays '
'too, what is given stands alone. A null that is given is given';

CREATE OR REPLACE FUNCTION rpq_store.pod_spec(w rpq_store.workload) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN (w).checkpoint IS NULL THEN s.spec
				ELSE coalesce(s.spec, '{}') || jsonb_build_object('checkpoint', (w).checkpoint) END
	  FROM (SELECT CASE WHEN q.pod_template IS NULL THEN (w).spec
						ELSE rpq_store.merge_json(q.pod_template, (w).spec) END AS spec
			  FROM (SELECT (w).scope_id AS id) AS x
			  LEFT JOIN rpq_store.queue AS q ON q.queue_id = x.id) AS s;
END;
COMMENT ON FUNCTION rpq_store.pod_spec(rpq_store.workload) IS
'what its executor is handed with a pod: the pod template of its queue, the workload''s own spec laid over it (its '
'keys win, see merge_json), and as "checkpoint" what report_checkpoint said last; NULL: nothing was given';

-- What administrators' functions do to the workloads of an account, or of a pool or queue.  The caller holds its turn.

CREATE OR REPLACE FUNCTION rpq_store.draft_queued(pool_id bigint, account_id bigint, cause text, detail text,
	actor text DEFAULT NULL)
RETURNS int LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH found AS (
		SELECT w.workload_id FROM rpq_store.workload w
		 WHERE w.scope_id = $1 AND w.status = 'queued' AND ($2 IS NULL OR w.account_id = $2)
		   FOR UPDATE SKIP LOCKED),
	drafted AS (
		UPDATE rpq_store.workload w SET status = 'draft', cause = $3, detail = $4
		  FROM found f WHERE w.workload_id = f.workload_id RETURNING w.*),
	written AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, attempt, waiting, kind,
			status, actor, cause, detail)
		SELECT scope_id, greatest(rpq.now(), submitted_at), workload_id, shape, account_id, attempt, -1, 'withdraw',
			'draft', coalesce($5, (rpq_store.caller()).actor), cause, detail
		  FROM drafted RETURNING entry_id)
	SELECT count(*)::int FROM written
$$;
COMMENT ON FUNCTION rpq_store.draft_queued(bigint, bigint, text, text, text) IS
'makes drafts of what waits in a pool or a queue, of one account or (NULL) of all; a row that its client keeps locked '
'is passed over. actor: whom the entries name, NULL: the caller';

CREATE OR REPLACE FUNCTION rpq_store.stop_placed(pool_id bigint, account_id bigint, cause text, detail text,
	actor text DEFAULT NULL)
RETURNS int LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH found AS (
		SELECT w.workload_id FROM rpq_store.workload w
		 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
		   AND CASE WHEN $2 IS NULL THEN $1 IN (w.scope_id, w.pool_id)
					ELSE w.scope_id = $1 AND w.account_id = $2 END
		   FOR UPDATE SKIP LOCKED),
	stopped AS (
		UPDATE rpq_store.workload w
		   SET status = 'stopped', ended_at = greatest(rpq.now(), w.started_at), cause = $3, detail = $4
		  FROM found f WHERE w.workload_id = f.workload_id RETURNING w.*),
	written AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id,
			lender_id, attempt, kind, status, actor, cause, detail, resources)
		SELECT scope_id, ended_at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id, attempt,
			'release', status, coalesce($5, (rpq_store.caller()).actor), cause, detail,
			rpq.resources_mul(resources, -replicas::numeric)
		  FROM stopped RETURNING entry_id),
	wished AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, status, actor, cause, detail)
		SELECT coalesce(w.pool_id, w.scope_id), greatest(rpq.now(), w.started_at), w.workload_id, w.attempt, 'report',
			'stopped', coalesce($5, (rpq_store.caller()).actor), $3, $4
		  FROM rpq_store.workload w
		 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
		   AND CASE WHEN $2 IS NULL THEN $1 IN (w.scope_id, w.pool_id)
					ELSE w.scope_id = $1 AND w.account_id = $2 END
		   AND w.workload_id NOT IN (SELECT f.workload_id FROM found f) RETURNING entry_id)
	SELECT count(*)::int FROM written
$$;
COMMENT ON FUNCTION rpq_store.stop_placed(bigint, bigint, text, text, text) IS
'stops what is placed in the pool, all of it (account NULL, what came through queues too) or what one account '
'submitted to it, and returns how many; for a row that its client '
'keeps locked an entry of kind report and status stopped has the next cycle that gets the row do it. actor: whom the '
'entries name, NULL: the caller';

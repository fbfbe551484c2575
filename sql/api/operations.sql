-- Operations: asking for one, carrying it out, cancelling and trying again.
--
-- Writes operation and operation_pool, and the status of the operation's pool, under the turns of the pools concerned;
-- the turns come first, the operation's row after them.  What a kind of operation does is one function,
-- rpq_store.op_KIND(operation) → its result: it runs in the transaction that ends the operation, with the turns held,
-- and raises when it cannot be done.

CREATE OR REPLACE FUNCTION rpq_store.operation_scopes(operation_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(DISTINCT s.scope_id ORDER BY s.scope_id)
	FROM (SELECT o.pool_id FROM rpq_store.operation AS o WHERE o.operation_id = $1
		  UNION SELECT h.pool_id FROM rpq_store.operation_pool AS h WHERE h.operation_id = $1
		  UNION SELECT CAST(a.value AS bigint)
		  FROM rpq_store.operation AS o, jsonb_each_text(o.arguments) AS a
		  WHERE o.operation_id = $1 AND a.key IN ('source_id', 'target_id')) AS s (scope_id)
	WHERE s.scope_id IS NOT NULL
$$;
COMMENT ON FUNCTION rpq_store.operation_scopes(bigint) IS
'the scopes whose turns an operation needs: its pool, those it holds, source and target';

CREATE OR REPLACE FUNCTION rpq_store.hold_pools(operation_id bigint, pools bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other record;
BEGIN
	INSERT INTO rpq_store.operation_pool (pool_id, operation_id)
	SELECT u.pool_id, hold_pools.operation_id FROM unnest(hold_pools.pools) AS u (pool_id)
	ON CONFLICT (pool_id) DO NOTHING;
	SELECT h.operation_id, p.name, o.kind INTO other
	FROM unnest(hold_pools.pools) AS u (pool_id)
	JOIN rpq_store.operation_pool AS h ON h.pool_id = u.pool_id
	JOIN rpq_store.operation AS o ON o.operation_id = h.operation_id
	JOIN rpq_store.pool AS p ON p.pool_id = u.pool_id
	WHERE h.operation_id <> hold_pools.operation_id
	ORDER BY p.pool_id LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('an operation is open on pool "%s"', other.name),
			DETAIL = format('Operation %s (%s) has not ended.', other.operation_id, other.kind),
			HINT = format('CALL rpq.wait_for_operation(%s), or cancel it.', other.operation_id);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.hold_pools(bigint, bigint[]) IS
'holds pools for an operation; RQ004, naming the other one, when an open operation has one of them. The caller '
'holds their turns';

CREATE OR REPLACE FUNCTION rpq_store.open_operation(kind text, action text, pool_id bigint, held bigint[],
	arguments jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	who rpq_store.caller_identity := rpq_store.caller();
	opened bigint;
BEGIN
	INSERT INTO rpq_store.operation (tenant_id, kind, pool_id, arguments, action, initiator, initiator_account_id,
		on_behalf_of, db_role, application_name, created_at)
	SELECT p.tenant_id, open_operation.kind, p.pool_id, open_operation.arguments, open_operation.action, who.actor,
		who.account_id, who.on_behalf_of, who.db_role, current_setting('application_name'), rpq.now()
	FROM rpq_store.pool AS p WHERE p.pool_id = open_operation.pool_id
	RETURNING operation_id INTO opened;
	PERFORM rpq_store.hold_pools(opened, open_operation.held);
	IF current_setting('rpq.synchronous_operations')::boolean THEN
		PERFORM rpq_store.run_operation(opened);
	END IF;
	RETURN opened;
END
$$;
COMMENT ON FUNCTION rpq_store.open_operation(text, text, bigint, bigint[], jsonb) IS
'writes a new operation of the caller on a pool, holds the pools in held, and with rpq.synchronous_operations '
'carries it out; returns its id. arguments: what op_KIND needs, source_id and target_id being the other pools '
'whose turns it takes. The caller holds the turns';

CREATE OR REPLACE FUNCTION rpq_store.run_operation(operation_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
	outcome jsonb;
BEGIN
	PERFORM rpq_store.take_turns(rpq_store.operation_scopes(run_operation.operation_id));
	UPDATE rpq_store.operation AS o
	SET status = 'running', started_at = rpq.now(), attempts = o.attempts + 1
	WHERE o.operation_id = run_operation.operation_id AND o.status = 'pending'
	RETURNING o.* INTO subject;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	-- kind is one of a fixed list (a CHECK of the table), never a user's text.
	EXECUTE format('SELECT rpq_store.%I($1)', 'op_' || subject.kind) INTO outcome USING subject;
	UPDATE rpq_store.pool AS p SET status = 'ready'
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating');
	UPDATE rpq_store.operation AS o
	SET status = 'succeeded', ended_at = greatest(rpq.now(), o.started_at), progress = 1, result = outcome
	WHERE o.operation_id = subject.operation_id;
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.run_operation(bigint) IS
'carries a pending operation out in the present transaction and raises when it fails; false when it is no longer '
'pending';

CREATE OR REPLACE FUNCTION rpq_store.fail_operation(operation_id bigint, error_code text, error text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'failed', started_at = coalesce(o.started_at, rpq.now()), ended_at = rpq.now(),
		attempts = o.attempts + 1,
		error = fail_operation.error, error_code = fail_operation.error_code
	WHERE o.operation_id = fail_operation.operation_id
	RETURNING o.* INTO subject;
	UPDATE rpq_store.pool AS p SET status = 'failed'
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating', 'deleting');
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.fail_operation(bigint, text, text) IS
'ends an operation as failed, with its error, and leaves its pool failed and otherwise unchanged. The caller '
'holds the turns';

-- The turns are taken outside the block, so that they are still held when the failure is written.  What a new
-- transaction may heal (40001, 40P01, 55P03) is no failure of the operation: it stays pending.
CREATE OR REPLACE FUNCTION rpq_store.attempt_operation(operation_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	said text;
	why text;
	code text;
BEGIN
	PERFORM rpq_store.take_turns(rpq_store.operation_scopes(attempt_operation.operation_id));
	BEGIN
		RETURN rpq_store.run_operation(attempt_operation.operation_id);
	EXCEPTION
		WHEN serialization_failure OR deadlock_detected OR lock_not_available THEN
			RAISE;
		WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
	END;
	PERFORM rpq_store.fail_operation(attempt_operation.operation_id, code, concat_ws(': ', said, nullif(why, '')));
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.attempt_operation(bigint) IS
'carries a pending operation out; a failure is written to it and not raised. False when it is no longer pending';

CREATE OR REPLACE FUNCTION rpq_store.run_pending_operations() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'run_operations'
AS $$
DECLARE
	pending record;
	got bigint;
	carried int := 0;
BEGIN
	FOR pending IN
		SELECT o.operation_id, rpq_store.operation_scopes(o.operation_id) AS scopes
		FROM rpq_store.operation AS o WHERE o.status = 'pending' ORDER BY o.operation_id
	LOOP
		-- A turn that somebody else holds is not waited for: the next round comes to it again.
		SELECT count(*) INTO got
		FROM (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = ANY (pending.scopes)
			  ORDER BY t.scope_id FOR NO KEY UPDATE SKIP LOCKED) AS l;
		IF got = cardinality(pending.scopes) AND rpq_store.attempt_operation(pending.operation_id) THEN
			carried := carried + 1;
		END IF;
	END LOOP;
	RETURN carried;
END
$$;
COMMENT ON FUNCTION rpq_store.run_pending_operations() IS
'for the worker: carries out every pending operation whose turns are free, each with a failure of its own; '
'returns how many';

CREATE OR REPLACE FUNCTION rpq.run_operations() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'run_operations'
AS $$
DECLARE
	mine bigint[];
	scopes bigint[];
	one bigint;
	carried int := 0;
BEGIN
	PERFORM rpq_store.authorize('run_operations');
	SELECT array_agg(o.operation_id ORDER BY o.operation_id) INTO mine
	FROM rpq_store.operation AS o
	WHERE o.status = 'pending' AND o.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[]);
	IF mine IS NULL THEN
		RETURN 0;
	END IF;
	SELECT array_agg(DISTINCT s) INTO scopes
	FROM unnest(mine) AS m, unnest(rpq_store.operation_scopes(m)) AS s;
	PERFORM rpq_store.take_turns(scopes);
	FOREACH one IN ARRAY mine LOOP
		IF rpq_store.attempt_operation(one) THEN
			carried := carried + 1;
		END IF;
	END LOOP;
	RETURN carried;
END
$$;
COMMENT ON FUNCTION rpq.run_operations() IS
'carries out the pending operations on the pools that the caller administers, as the worker does by itself; '
'returns how many. One that fails is counted, its error stands in rpq.operations. Errors: RQ009 fenced. Platform, '
'organisation and pool administrators, each for its pools';

CREATE OR REPLACE FUNCTION rpq.cancel_operation(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'cancel_operation'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
	named bigint := rpq_store.authorize_id('cancel_operation', cancel_operation.id);
BEGIN
	PERFORM rpq_store.take_turns(rpq_store.operation_scopes(named));
	UPDATE rpq_store.operation AS o SET status = 'cancelled', ended_at = rpq.now()
	WHERE o.operation_id = named AND o.status = 'pending'
	RETURNING o.* INTO subject;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	-- A pool that was never made is gone, and its name free; any other is what it was.
	UPDATE rpq_store.pool AS p
	SET status = CASE WHEN subject.kind = 'create' THEN 'deleted' ELSE 'ready' END,
		deleted_at = CASE WHEN subject.kind = 'create' THEN rpq.now() END
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating', 'deleting');
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = named;
	PERFORM rpq_store.record('cancel_operation', 'operation', named, named::text, subject.tenant_id, subject.pool_id,
		'{"status": "pending"}', '{"status": "cancelled"}');
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq.cancel_operation(bigint) IS
'cancels a pending operation at once; a pool that it was to create is gone with it. id: the operation. Returns '
'false, changing nothing, when it had ended. Errors: 42704 unknown operation, 22023 no id. Administrators of its '
'pool';

CREATE OR REPLACE FUNCTION rpq.retry_operation(id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'retry_operation'
AS $$
#variable_conflict use_column
DECLARE
	failed rpq_store.operation;
	subject rpq_store.pool;
	named bigint := rpq_store.authorize_id('retry_operation', retry_operation.id);
	held bigint[];
BEGIN
	PERFORM rpq_store.take_turns(rpq_store.operation_scopes(named));
	SELECT * INTO failed FROM rpq_store.operation AS o WHERE o.operation_id = named;
	IF failed.kind = 'create' THEN
		PERFORM rpq_store.authorize_id('create_pool', failed.tenant_id);
	END IF;
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = failed.pool_id;
	IF failed.status <> 'failed' OR subject.status NOT IN ('ready', 'failed')
		OR (failed.kind = 'create' AND subject.status <> 'failed') THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('operation %s cannot be tried again', named),
			DETAIL = format('Its status is %s, that of pool "%s" is %s.', failed.status, subject.name, subject.status);
	END IF;
	SELECT array_agg(p.pool_id) INTO held
	FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY (rpq_store.operation_scopes(named)) AND p.type <> 'shared';
	UPDATE rpq_store.pool AS p
	SET status = CASE failed.kind WHEN 'create' THEN 'creating' WHEN 'delete' THEN 'deleting' ELSE 'updating' END
	WHERE p.pool_id = subject.pool_id;
	PERFORM rpq_store.record('retry_operation', 'operation', named, named::text, failed.tenant_id, failed.pool_id,
		NULL, jsonb_build_object('kind', failed.kind, 'pool', subject.name));
	RETURN rpq_store.open_operation(failed.kind, failed.action, failed.pool_id, held, failed.arguments);
END
$$;
COMMENT ON FUNCTION rpq.retry_operation(bigint) IS
'asks for a failed operation again, as a new one of the caller; returns the new id. id: the failed one. Errors: '
'42704 unknown operation, 22023 no id, RQ004 it has not failed, or its pool has changed or has an open operation. '
'Administrators of its pool; a creation those who may create pools';

CREATE OR REPLACE FUNCTION rpq_store.operation_ended(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	named bigint := rpq_store.authorize_id('wait_for_operation', operation_ended.id);
BEGIN
	RETURN (SELECT o.status NOT IN ('pending', 'running') FROM rpq_store.operation AS o WHERE o.operation_id = named);
END
$$;
COMMENT ON FUNCTION rpq_store.operation_ended(bigint) IS
'whether an operation has ended, whatever its status; what wait_for_operation asks between its commits';

-- A procedure that commits may have neither SECURITY DEFINER nor SET, so it is C and reads nothing itself.
CREATE OR REPLACE PROCEDURE rpq.wait_for_operation(id bigint, timeout interval DEFAULT '60 s')
LANGUAGE c AS 'MODULE_PATHNAME', 'rpq_wait_for_operation';
COMMENT ON PROCEDURE rpq.wait_for_operation(bigint, interval) IS
'waits until an operation has ended, whatever its status. id: the operation; timeout: true time. It commits '
'between two looks. Errors: 42704 unknown operation, 22023 no id or a negative timeout, 25001 in a transaction '
'block, 57014 at the time-out. Administrators of its pool';

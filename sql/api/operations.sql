-- Operations: asking for one, cancelling it, trying it again, waiting for it.  operation_runs.sql carries them out.
--
-- Writes operation and operation_pool, and the status of the operation's pool, under the turns of the pools concerned;
-- the turns come first, in id order, the operation's row after them.

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

CREATE OR REPLACE FUNCTION rpq_store.refuse_held(pools bigint[], operation_id bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other record;
BEGIN
	SELECT h.operation_id, p.name, o.kind INTO other
	FROM rpq_store.operation_pool AS h
	JOIN rpq_store.operation AS o ON o.operation_id = h.operation_id
	JOIN rpq_store.pool AS p ON p.pool_id = h.pool_id
	WHERE h.pool_id = ANY (refuse_held.pools) AND h.operation_id IS DISTINCT FROM refuse_held.operation_id
	ORDER BY h.pool_id LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('an operation is open on pool "%s"', other.name),
			DETAIL = format('Operation %s (%s) has not ended.', other.operation_id, other.kind),
			HINT = format('CALL rpq.wait_for_operation(%s), or cancel it.', other.operation_id);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_held(bigint[], bigint) IS
'refuses (RQ004) pools that an open operation, other than this one, holds, and names it';

CREATE OR REPLACE FUNCTION rpq_store.hold_pools(operation_id bigint, pools bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	INSERT INTO rpq_store.operation_pool (pool_id, operation_id)
	SELECT u.pool_id, hold_pools.operation_id FROM unnest(hold_pools.pools) AS u (pool_id)
	ON CONFLICT (pool_id) DO NOTHING;
	PERFORM rpq_store.refuse_held(hold_pools.pools, hold_pools.operation_id);
END
$$;
COMMENT ON FUNCTION rpq_store.hold_pools(bigint, bigint[]) IS
'holds pools for an operation; RQ004, naming the other one, when an open operation has one of them. The caller '
'holds their turns';

CREATE OR REPLACE FUNCTION rpq_store.check_free(pools bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	closed rpq_store.pool;
BEGIN
	PERFORM rpq_store.refuse_held(check_free.pools, NULL);
	SELECT p.* INTO closed FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY (check_free.pools) AND p.status NOT IN ('ready', 'failed') ORDER BY p.pool_id LIMIT 1;
	IF FOUND THEN
		PERFORM rpq_store.check_pool_status(closed);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_free(bigint[]) IS
'refuses (RQ004) pools that an open operation holds, which is named, or that are being created, deleted, or are no '
'more: what an operation''s call asks first of the pools that it is about to hold. The caller holds their turns';

-- The status that the subject has while it is open; what it was is kept for a cancellation.
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
		on_behalf_of, db_role, application_name, created_at, pool_status)
	SELECT p.tenant_id, open_operation.kind, p.pool_id, open_operation.arguments, open_operation.action, who.actor,
		who.account_id, who.on_behalf_of, who.db_role, current_setting('application_name'), rpq.now(), p.status
	FROM rpq_store.pool AS p WHERE p.pool_id = open_operation.pool_id
	RETURNING operation_id INTO opened;
	PERFORM rpq_store.hold_pools(opened, open_operation.held);
	UPDATE rpq_store.pool AS p
	SET status = CASE open_operation.kind WHEN 'create' THEN 'creating' WHEN 'delete' THEN 'deleting'
		ELSE 'updating' END
	WHERE p.pool_id = open_operation.pool_id;
	IF open_operation.kind = 'move' THEN
		PERFORM rpq_store.note_migration(o) FROM rpq_store.operation AS o WHERE o.operation_id = opened;
	END IF;
	IF current_setting('rpq.synchronous_operations')::boolean THEN
		PERFORM rpq_store.run_operation(opened);
	END IF;
	RETURN opened;
END
$$;
COMMENT ON FUNCTION rpq_store.open_operation(text, text, bigint, bigint[], jsonb) IS
'writes a new operation of the caller on a pool, holds the pools in held (the subject, and a dedicated or exclusive '
'source or target), makes the subject creating, deleting or updating, and with rpq.synchronous_operations carries the '
'operation out as far as it goes; returns its id. arguments: what op_KIND needs, source_id and target_id being the '
'other pools whose turns it takes. The caller holds the turns';

-- Who holds the turns has no step beside it and may undo at once.  Where somebody has a turn, a running operation is
-- marked, and its next step undoes it; no turn is waited for then, and the operation's row only for a step's commit.
CREATE OR REPLACE FUNCTION rpq.cancel_operation(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'cancel_operation'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
	named bigint := rpq_store.authorize_id('cancel_operation', cancel_operation.id);
	scopes bigint[] := rpq_store.operation_scopes(named);
	now_is text := 'cancelled';
BEGIN
	SELECT * INTO subject FROM rpq_store.operation AS o WHERE o.operation_id = named;
	IF subject.status = 'pending' OR rpq_store.try_turns(scopes) THEN
		PERFORM rpq_store.take_turns(scopes);
		SELECT * INTO subject FROM rpq_store.operation AS o WHERE o.operation_id = named FOR NO KEY UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			RAISE EXCEPTION USING ERRCODE = '55P03',
				MESSAGE = format('another transaction is cancelling operation %s', named), HINT = 'Try again later.';
		ELSIF subject.status NOT IN ('pending', 'running') THEN
			RETURN false;
		END IF;
		subject.cancelling := true;
		PERFORM rpq_store.undo_operation(subject);
		PERFORM rpq_store.end_cancelled(subject);
	ELSE
		UPDATE rpq_store.operation AS o SET cancelling = true
		WHERE o.operation_id = named AND o.status IN ('pending', 'running') AND NOT o.cancelling
		RETURNING o.* INTO subject;
		IF NOT FOUND THEN
			RETURN EXISTS (SELECT FROM rpq_store.operation AS o
						   WHERE o.operation_id = named AND o.status IN ('pending', 'running'));
		END IF;
		now_is := 'cancelling';
		PERFORM rpq_store.wake();
	END IF;
	PERFORM rpq_store.record('cancel_operation', 'operation', named, named::text, subject.tenant_id, subject.pool_id,
		jsonb_build_object('status', subject.status), jsonb_build_object('status', now_is));
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq.cancel_operation(bigint) IS
'ends a pending operation at once, and a running one after the step in hand: what it has begun is undone, what it has '
'moved within a pool stays. A pool that it was to create is gone with it, any other is as before. id: the operation. '
'Returns false, changing nothing, when it had ended. Errors: 42704 unknown operation, 22023 no id, 55P03 another '
'transaction is cancelling it, RQ009 fenced. Administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.retry_operation(id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'retry_operation'
AS $$
#variable_conflict use_column
DECLARE
	failed rpq_store.operation;
	subject rpq_store.pool;
	named bigint := rpq_store.authorize_id('retry_operation', retry_operation.id);
	scopes bigint[] := rpq_store.operation_scopes(named);
	others bigint[];
BEGIN
	PERFORM rpq_store.take_turns(scopes);
	SELECT * INTO failed FROM rpq_store.operation AS o WHERE o.operation_id = named;
	SELECT array_agg(p.pool_id) INTO others FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY (scopes) AND p.pool_id <> failed.pool_id AND p.type <> 'shared';
	IF failed.kind = 'create' THEN
		PERFORM rpq_store.authorize_id('create_pool', failed.tenant_id);
	ELSE
		PERFORM rpq_store.authorize_id('move_nodes', o.pool_id) FROM unnest(others) AS o (pool_id);
	END IF;
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = failed.pool_id;
	IF failed.status <> 'failed' OR subject.status NOT IN ('ready', 'failed')
		OR (failed.kind = 'create' AND subject.status <> 'failed') THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('operation %s cannot be tried again', named),
			DETAIL = format('Its status is %s, that of pool "%s" is %s.', failed.status, subject.name, subject.status);
	END IF;
	PERFORM rpq_store.check_free(others || failed.pool_id);
	PERFORM rpq_store.record('retry_operation', 'operation', named, named::text, failed.tenant_id, failed.pool_id,
		NULL, jsonb_build_object('kind', failed.kind, 'pool', subject.name));
	-- what a drain puts back when it is undone is how it finds the node now
	RETURN rpq_store.open_operation(failed.kind, failed.action, failed.pool_id, others || failed.pool_id,
		failed.arguments || CASE failed.kind WHEN 'drain' THEN coalesce((
			SELECT jsonb_build_object('schedulable', n.schedulable) FROM rpq_store.node AS n
			WHERE n.node_id = (failed.arguments->>'node_id')::bigint), '{}') ELSE '{}' END);
END
$$;
COMMENT ON FUNCTION rpq.retry_operation(bigint) IS
'asks for a failed operation again, as a new one of the caller with the same arguments, which are checked as it is '
'carried out; returns the new id. id: the failed one. Errors: 42704 unknown operation, 22023 no id, RQ004 it has not '
'failed, or a pool of it has changed or has an open operation, RQ009 fenced. Administrators of its pool and of the '
'dedicated or exclusive pools that it takes nodes from or gives them to; a creation those who may create pools';

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

-- Operations: carrying them out, step by step.
--
-- What a kind of operation does is one function, rpq_store.op_KIND(operation) → its result, in the transaction that
-- ends the operation; a staged one returns NULL until it is through, and rpq_store.undo_KIND(operation) takes back what
-- its committed steps have begun.  Both run with the turns of operation_scopes held and raise when they cannot.
--
-- Writes operation and operation_pool, and the status of the operation's pool, under those turns; the turns come first,
-- the operation's row after them.  The worker passes over turns that somebody else holds; a person waits for them.

CREATE OR REPLACE FUNCTION rpq_store.try_turns(scopes bigint[]) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*) = cardinality($1)
	FROM (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = ANY ($1)
		  ORDER BY t.scope_id FOR NO KEY UPDATE SKIP LOCKED) AS l
$$;
COMMENT ON FUNCTION rpq_store.try_turns(bigint[]) IS
'locks those of the turns that nobody holds, without changing them; whether that was all of them';

CREATE OR REPLACE FUNCTION rpq_store.turn_mark(scopes bigint[]) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(sum(t.room_epoch + t.cycle), 0)::bigint FROM rpq_store.turn AS t WHERE t.scope_id = ANY ($1)
$$;
COMMENT ON FUNCTION rpq_store.turn_mark(bigint[]) IS
'a number that has grown when anything was counted or changed under one of the turns';

CREATE OR REPLACE FUNCTION rpq_store.backend_start(pid int) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT a.backend_start FROM pg_stat_get_activity($1) AS a
$$;
COMMENT ON FUNCTION rpq_store.backend_start(int) IS
'when the server process with this pid started; NULL: there is none';

CREATE OR REPLACE FUNCTION rpq_store.may_take_up(subject rpq_store.operation) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ($1).owner_pid IS NULL OR ($1).owner_pid = pg_backend_pid() OR ($1).lease_until < clock_timestamp()
		OR rpq_store.backend_start(($1).owner_pid) IS DISTINCT FROM ($1).owner_started
$$;
COMMENT ON FUNCTION rpq_store.may_take_up(rpq_store.operation) IS
'false for an operation of another process that lives and whose lease runs';

-- One that waits is looked at again when its turns have moved, but not at every cycle, and at each rpq.cycle_interval.
-- The clocks are compared both ways: a clock that was set back delays nothing.
CREATE OR REPLACE FUNCTION rpq_store.due_operations() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.operation_id
	FROM rpq_store.operation AS o
	WHERE o.status IN ('pending', 'running') AND o.kind <> 'rotate'
	  AND (NOT o.waiting OR o.cancelling
		OR NOT clock_timestamp() BETWEEN o.tried_at
			AND o.tried_at + current_setting('rpq.cycle_interval')::interval
		OR (NOT clock_timestamp() BETWEEN o.tried_at AND o.tried_at + interval '100 ms'
			AND rpq_store.turn_mark(rpq_store.operation_scopes(o.operation_id)) <> o.tried_mark))
	  AND rpq_store.may_take_up(o)
	ORDER BY o.tried_at NULLS FIRST, o.operation_id LIMIT 100
$$;
COMMENT ON FUNCTION rpq_store.due_operations() IS
'open operations that this process may carry on with now, and has a reason to; the one that was longest not tried is '
'first';

CREATE OR REPLACE FUNCTION rpq_store.undo_operation(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- also before the first step: the call that asks for a drain has cordoned the node.  Kinds that are never staged
	-- have no such function
	IF to_regprocedure(format('rpq_store.%I(rpq_store.operation)', 'undo_' || subject.kind)) IS NOT NULL THEN
		EXECUTE format('SELECT rpq_store.%I($1)', 'undo_' || subject.kind) USING subject;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.undo_operation(rpq_store.operation) IS
'takes back what the call and the committed steps of a staged operation have begun. The caller holds the turns';

CREATE OR REPLACE FUNCTION rpq_store.end_cancelled(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'cancelled', ended_at = greatest(rpq.now(), o.started_at), cancelling = false, waiting = false
	WHERE o.operation_id = subject.operation_id;
	-- a pool that was never made is gone, and its name free; any other is what it was, also one whose creation failed
	-- and is tried again: nodes, members and work may have come into it since
	UPDATE rpq_store.pool AS p
	SET status = CASE WHEN subject.pool_status = 'creating' THEN 'deleted'
			ELSE coalesce(subject.pool_status, 'ready') END,
		deleted_at = CASE WHEN subject.pool_status = 'creating' THEN rpq.now() END
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating', 'deleting') AND subject.kind <> 'rotate';
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.end_cancelled(rpq_store.operation) IS
'ends an operation of which nothing is left to undo as cancelled. The caller holds the turns';

CREATE OR REPLACE FUNCTION rpq_store.end_failed(subject rpq_store.operation, code text, error text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'failed', started_at = coalesce(o.started_at, rpq.now()),
		ended_at = greatest(rpq.now(), o.started_at), attempts = greatest(o.attempts, 1), cancelling = false,
		waiting = false, error = end_failed.error, error_code = end_failed.code
	WHERE o.operation_id = subject.operation_id;
	UPDATE rpq_store.pool AS p SET status = 'failed'
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating', 'deleting') AND subject.kind <> 'rotate';
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.end_failed(rpq_store.operation, text, text) IS
'ends an operation as failed, with its error, and leaves its pool failed and otherwise unchanged. The caller '
'holds the turns';

-- A process that goes on with it at the next round signs as its owner; one that will not leaves it to whoever comes.
CREATE OR REPLACE FUNCTION rpq_store.take_up(subject rpq_store.operation, stays boolean) RETURNS rpq_store.operation
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.operation AS o
	SET status = 'running', started_at = coalesce(o.started_at, rpq.now()), waiting = false,
		attempts = o.attempts + CASE WHEN o.status = 'pending' OR o.owner_pid <> pg_backend_pid()
			OR o.owner_started <> rpq_store.backend_start(pg_backend_pid()) THEN 1 ELSE 0 END,
		owner_pid = CASE WHEN $2 THEN pg_backend_pid() END,
		owner_started = CASE WHEN $2 THEN rpq_store.backend_start(pg_backend_pid()) END,
		tried_at = clock_timestamp(),
		lease_until = clock_timestamp() + current_setting('rpq.operation_lease')::interval
	WHERE o.operation_id = ($1).operation_id
	RETURNING o
$$;
COMMENT ON FUNCTION rpq_store.take_up(rpq_store.operation, boolean) IS
'makes an operation running, with owner and lease; taking over from another owner counts as an attempt. stays: '
'this process comes back to it';

-- Nothing changed in step, progress and state: the step found nothing to do, and the operation waits.
CREATE OR REPLACE FUNCTION rpq_store.step_operation(operation_id bigint, stays boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	before rpq_store.operation;
	subject rpq_store.operation;
	outcome jsonb;
	scopes bigint[];
BEGIN
	SELECT * INTO before FROM rpq_store.operation AS o
	WHERE o.operation_id = step_operation.operation_id FOR NO KEY UPDATE;
	IF before.status NOT IN ('pending', 'running') THEN
		RETURN 'ended';
	END IF;
	scopes := rpq_store.operation_scopes(before.operation_id);
	IF before.cancelling THEN
		PERFORM rpq_store.take_turns(scopes);
		PERFORM rpq_store.undo_operation(before);
		PERFORM rpq_store.end_cancelled(before);
		RETURN 'cancelled';
	END IF;
	subject := rpq_store.take_up(before, step_operation.stays);
	-- kind is one of a fixed list (a CHECK of the table), never a user's text.
	EXECUTE format('SELECT rpq_store.%I($1)', 'op_' || subject.kind) INTO outcome USING subject;
	IF outcome IS NULL THEN
		UPDATE rpq_store.operation AS o
		SET waiting = (o.step, o.progress, o.state) IS NOT DISTINCT FROM (before.step, before.progress, before.state),
			tried_mark = rpq_store.turn_mark(scopes)
		WHERE o.operation_id = before.operation_id
		RETURNING o.* INTO subject;
		IF subject.waiting THEN
			RETURN 'waiting';
		END IF;
	END IF;
	-- they are held; that they are changed as well concerns who is above READ COMMITTED
	PERFORM rpq_store.take_turns(scopes);
	IF outcome IS NULL THEN
		RETURN 'advanced';
	END IF;
	UPDATE rpq_store.pool AS p SET status = 'ready'
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating') AND subject.kind <> 'rotate';
	UPDATE rpq_store.operation AS o
	SET status = 'succeeded', ended_at = greatest(rpq.now(), o.started_at), progress = 1, result = outcome
	WHERE o.operation_id = subject.operation_id;
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
	RETURN 'succeeded';
END
$$;
COMMENT ON FUNCTION rpq_store.step_operation(bigint, boolean) IS
'carries an operation on by one step in the present transaction, and raises when that fails: ended (it was no longer '
'open), cancelled, succeeded, advanced (there is more to do) or waiting (something else has to happen first). The '
'caller holds the turns';

CREATE OR REPLACE FUNCTION rpq_store.run_operation(operation_id bigint, steps int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	outcome text;
	taken int := 0;
BEGIN
	PERFORM rpq_store.take_turns(rpq_store.operation_scopes(run_operation.operation_id));
	LOOP
		outcome := rpq_store.step_operation(run_operation.operation_id, false);
		EXIT WHEN outcome <> 'advanced';
		taken := taken + 1;
		EXIT WHEN taken >= run_operation.steps;
	END LOOP;
	RETURN CASE WHEN outcome = 'waiting' AND taken > 0 THEN 'advanced' ELSE outcome END;
END
$$;
COMMENT ON FUNCTION rpq_store.run_operation(bigint, int) IS
'carries an operation out in the present transaction, by so many steps or (NULL) as far as it goes, and raises when it '
'fails; what step_operation said last, advanced for one that waits after it got further';

-- The turns and the row are taken outside the block, so that they are still held when the failure is written.  Who
-- holds turns waits for no row: one that a cancellation in an open transaction has is left for later.  What a new
-- transaction may heal (40001, 40P01, 55P03) is no failure of the operation: it waits.  So does one that cannot be
-- undone now: its next step fails again, and is undone then.
CREATE OR REPLACE FUNCTION rpq_store.attempt_operation(operation_id bigint, stays boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
	said text;
	why text;
	code text;
BEGIN
	PERFORM FROM rpq_store.operation AS o
	WHERE o.operation_id = attempt_operation.operation_id FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN 'waiting';
	END IF;
	BEGIN
		IF attempt_operation.stays THEN
			RETURN rpq_store.step_operation(attempt_operation.operation_id, true);
		END IF;
		-- enough for what is small: planned, moved, ended; what is large comes back, and lets go of the turns between
		RETURN rpq_store.run_operation(attempt_operation.operation_id, 4);
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
	END;
	SELECT * INTO subject FROM rpq_store.operation AS o WHERE o.operation_id = attempt_operation.operation_id;
	IF code NOT IN ('40001', '40P01', '55P03') THEN
		BEGIN
			PERFORM rpq_store.take_turns(rpq_store.operation_scopes(subject.operation_id));
			PERFORM rpq_store.undo_operation(subject);
			PERFORM rpq_store.end_failed(subject, code, concat_ws(': ', said, nullif(why, '')));
			RETURN 'failed';
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
			RAISE WARNING USING ERRCODE = code, MESSAGE = format('operation %s cannot be undone now: %s',
				subject.operation_id, said);
		END;
	END IF;
	UPDATE rpq_store.operation AS o
	SET waiting = true, tried_at = clock_timestamp(),
		tried_mark = rpq_store.turn_mark(rpq_store.operation_scopes(o.operation_id))
	WHERE o.operation_id = subject.operation_id;
	RETURN 'waiting';
END
$$;
COMMENT ON FUNCTION rpq_store.attempt_operation(bigint, boolean) IS
'carries an operation on, by one step for who stays, else by four. A failure is written to it and not '
'raised; what step_operation said, or failed. The caller holds the turns';

CREATE OR REPLACE FUNCTION rpq_store.run_pending_operations() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'run_operations'
AS $$
DECLARE
	due bigint;
BEGIN
	-- a turn that somebody else holds is not waited for: the next round comes to it again
	FOR due IN SELECT d FROM rpq_store.due_operations() AS d LOOP
		IF rpq_store.try_turns(rpq_store.operation_scopes(due))
			AND rpq_store.attempt_operation(due, true) NOT IN ('waiting', 'ended') THEN
			RETURN 1;
		END IF;
	END LOOP;
	RETURN 0;
END
$$;
COMMENT ON FUNCTION rpq_store.run_pending_operations() IS
'for the worker: carries one operation on by one step, the first that is due, whose turns are free and that does not '
'wait; a failure is its own. Returns the number of steps, 1 or 0';

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
	WHERE o.status IN ('pending', 'running') AND o.kind <> 'rotate'
	  AND o.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[])
	  AND rpq_store.may_take_up(o);
	SELECT array_agg(DISTINCT s) INTO scopes
	FROM unnest(mine) AS m, unnest(rpq_store.operation_scopes(m)) AS s;
	PERFORM rpq_store.take_turns(scopes);
	FOREACH one IN ARRAY coalesce(mine, '{}') LOOP
		IF rpq_store.attempt_operation(one, false) NOT IN ('waiting', 'ended') THEN
			carried := carried + 1;
		END IF;
	END LOOP;
	RETURN carried + rpq_store.run_rotations(rpq_store.administered_pools(), '0');
END
$$;
COMMENT ON FUNCTION rpq.run_operations() IS
'carries the open operations on the pools that the caller administers on, each by up to four steps (of which one moves '
'up to 150 pods), and swaps faulty nodes, as the worker does by itself; returns how many got further, so that 0 says '
'that nothing is left to do now. One that fails is counted, its error stands in '
'rpq.operations; one that another process has in hand, or that waits for an executor, is not. Errors: RQ009 fenced. '
'Platform, organisation and pool administrators, each for its pools';

-- Drain: a node is cordoned and its pods move to other nodes of its pool.
--
-- Writes node.schedulable, migration, operation.step and state, and what moves.sql writes, under the turn of the pool.

CREATE OR REPLACE FUNCTION rpq.drain_node(node text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'drain_node'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('drain_node', drain_node.node);
	subject rpq_store.node;
	pools bigint[] := rpq_store.take_node_turns(ARRAY[named]);
BEGIN
	PERFORM rpq_store.check_free(pools);
	PERFORM rpq_store.fold(pools);
	SELECT * INTO subject FROM rpq_store.node AS n WHERE n.node_id = named;
	PERFORM rpq_store.refuse_draining(ARRAY[named]);
	PERFORM rpq_store.refuse_moves(subject.pool_id, ARRAY[named], true);
	UPDATE rpq_store.node AS n SET schedulable = false WHERE n.node_id = named AND n.schedulable;
	RETURN rpq_store.open_operation('drain', 'drain_node', subject.pool_id, ARRAY[subject.pool_id],
		jsonb_build_object('node', subject.name, 'node_id', named, 'schedulable', subject.schedulable));
END
$$;
COMMENT ON FUNCTION rpq.drain_node(text) IS
'cordons the node at once and asks for an operation that moves its pods to other nodes of the pool of the same '
'instance type, reserve first; returns its id. It has succeeded when nothing stands on the node, which stays '
'cordoned; when it fails or is cancelled, the node is as schedulable as before and pods that have moved stay where '
'they are. Errors: 42704 unknown node, 22023 no node, RQ004 the pool has an open operation, is being created or '
'deleted, RQ006 a pod has no place elsewhere (the errdetail names it), RQ009 fenced. Administrators of its pool';

-- The first step: the node may have been uncordoned since the call, or the drain be tried again.
CREATE OR REPLACE FUNCTION rpq_store.begin_drain(subject rpq_store.operation, drained rpq_store.node) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF drained.node_id IS NULL OR drained.pool_id <> subject.pool_id THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('node "%s" is no longer in the pool',
			subject.arguments->>'node');
	END IF;
	PERFORM rpq_store.begin_moves(subject.operation_id, subject.pool_id, ARRAY[drained.node_id]);
	UPDATE rpq_store.node AS n SET schedulable = false WHERE n.node_id = drained.node_id AND n.schedulable;
	INSERT INTO rpq_store.migration (operation_id, tenant_id, direction, mode, from_pool_id, type_id, nodes)
	VALUES (subject.operation_id, subject.tenant_id, 'in', 'nodes', subject.pool_id, drained.type_id,
		ARRAY[drained.name]);
	UPDATE rpq_store.operation AS o SET step = 'evacuate' WHERE o.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.begin_drain(rpq_store.operation, rpq_store.node) IS
'the first step of a drain: the node takes nothing, its pods'' moves are planned, the migration record is written';

CREATE OR REPLACE FUNCTION rpq_store.op_drain(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	drained rpq_store.node;
	moves rpq_store.moves_progress;
	outcome jsonb;
BEGIN
	PERFORM rpq_store.fold(ARRAY[subject.pool_id]);
	SELECT * INTO drained FROM rpq_store.node AS n WHERE n.node_id = (subject.arguments->>'node_id')::bigint;
	IF subject.step IS NULL THEN
		PERFORM rpq_store.begin_drain(subject, drained);
	END IF;
	moves := rpq_store.step_moves(subject.operation_id, rpq_store.move_timeout());
	IF moves.blocked IS NOT NULL THEN
		PERFORM rpq_store.raise_blocked(subject.operation_id, moves.blocked);
	ELSIF moves."left" > 0 THEN
		RETURN NULL;
	END IF;
	PERFORM rpq_store.end_moves(subject.operation_id);
	outcome := jsonb_build_object('node', subject.arguments->>'node', 'moved', moves.done, 'skipped', moves.skipped);
	PERFORM rpq_store.record(subject.action, 'node', (subject.arguments->>'node_id')::bigint,
		subject.arguments->>'node', subject.tenant_id, subject.pool_id,
		jsonb_build_object('schedulable', subject.arguments->'schedulable'),
		jsonb_build_object('schedulable', false, 'moved', moves.done, 'workloads',
			(SELECT to_jsonb(g.evicted) FROM rpq_store.migration AS g WHERE g.operation_id = subject.operation_id)),
		subject.operation_id);
	RETURN outcome;
END
$$;
COMMENT ON FUNCTION rpq_store.op_drain(rpq_store.operation) IS
'one step of the operation drain: NULL while pods have still to move, then its result, with its history row';

-- A drain that is undone must not lift what an administrator has decided meanwhile.  Who holds the turn waits for no
-- row.
CREATE OR REPLACE FUNCTION rpq_store.keep_cordoned(node_id bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.operation AS o SET arguments = o.arguments || '{"schedulable": false}'
	WHERE o.operation_id IN (
		SELECT d.operation_id FROM rpq_store.operation AS d
		WHERE d.status IN ('pending', 'running') AND d.kind = 'drain' AND (d.arguments->>'node_id')::bigint = $1
		FOR NO KEY UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION rpq_store.keep_cordoned(bigint) IS
'a node that is being drained stays cordoned also when the drain is undone. The caller holds the turn of its pool';

CREATE OR REPLACE FUNCTION rpq_store.undo_drain(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM rpq_store.undo_moves(subject.operation_id, rpq_store.undo_reason(subject));
	UPDATE rpq_store.node AS n SET schedulable = true
	WHERE n.node_id = (subject.arguments->>'node_id')::bigint AND NOT n.schedulable
	  AND (subject.arguments->>'schedulable')::boolean;
END
$$;
COMMENT ON FUNCTION rpq_store.undo_drain(rpq_store.operation) IS
'undoes a drain, also one that has not begun: what it kept is given back, the node is as schedulable as before';

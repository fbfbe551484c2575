-- Moving nodes between pools, from the view of the nodes.
--
-- Writes migration, and what sql/api/exchange.sql and moves.sql write, under the turns of both pools.

CREATE OR REPLACE FUNCTION rpq_store.plan_move(source_id bigint, asked jsonb,
	OUT picked bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source rpq_store.pool;
	receiving boolean := rpq_store.receives(plan_move.asked);
	wanted int := (plan_move.asked->>'count')::int;
	type_id bigint := (plan_move.asked->>'type_id')::bigint;
	evacuate boolean := coalesce((plan_move.asked->>'evacuate')::boolean, false);
	choice record;
	in_use bigint[];
BEGIN
	SELECT * INTO source FROM rpq_store.pool AS p WHERE p.pool_id = plan_move.source_id;
	IF wanted IS NULL THEN
		plan_move.picked := rpq_store.id_array(plan_move.asked->'node_ids');
		plan_move.busy := rpq_store.check_named_nodes(source.pool_id, plan_move.picked, receiving, receiving, evacuate,
			NOT receiving);
		IF plan_move.busy <> '{}' THEN
			PERFORM rpq_store.refuse_moves(source.pool_id, plan_move.picked, NOT receiving);
		END IF;
		RETURN;
	END IF;
	choice := rpq_store.pick_amount(source.pool_id, type_id, wanted, true, receiving, receiving, evacuate);
	IF choice.picked IS NULL AND NOT receiving THEN
		PERFORM rpq_store.refuse_moves(source.pool_id, choice.unplaced, true);
		SELECT array_agg(c.node_id) INTO in_use
		FROM rpq_store.node_candidates(source.pool_id, type_id, false) AS c WHERE NOT c.idle;
		IF in_use IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'RQ006',
				MESSAGE = format('pool "%s" has too few idle nodes to give', source.name),
				DETAIL = format('%s are to go, %s are idle. In use: %s.', wanted, choice.idle_amount,
					rpq_store.describe_busy(in_use, true)),
				HINT = CASE WHEN NOT evacuate THEN
					'With evacuate => true the pods of the least used nodes are moved first.'
					ELSE 'Ask for fewer nodes, or stop what stands on them.' END;
		END IF;
	END IF;
	IF choice.picked IS NULL THEN
		PERFORM rpq_store.refuse_source(source.pool_id, type_id,
			wanted || CASE wanted WHEN 1 THEN ' node' ELSE ' nodes' END, choice.idle_amount || ' idle');
	END IF;
	plan_move.picked := choice.picked;
	plan_move.busy := choice.busy;
END
$$;
COMMENT ON FUNCTION rpq_store.plan_move(bigint, jsonb) IS
'the nodes that a move, asked for with these arguments, takes, and which of them hold something; refused as it is '
'at the call (RQ003, RQ006, RQ005). The caller holds both turns and has folded';

-- ---- the record -----------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.note_migration(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	named bigint[] := rpq_store.id_array(subject.arguments->'node_ids');
BEGIN
	INSERT INTO rpq_store.migration (operation_id, tenant_id, direction, mode, from_pool_id, to_pool_id, type_id, nodes)
	SELECT subject.operation_id, subject.tenant_id, CASE p.type WHEN 'shared' THEN 'out' ELSE 'in' END,
		CASE WHEN subject.arguments ? 'count' THEN 'quantity' ELSE 'nodes' END,
		(subject.arguments->>'source_id')::bigint, p.pool_id,
		coalesce((subject.arguments->>'type_id')::bigint,
			(SELECT min(n.type_id) FROM rpq_store.node AS n WHERE n.node_id = ANY (named)
			 HAVING min(n.type_id) = max(n.type_id))),
		ARRAY(SELECT n.name FROM rpq_store.node AS n WHERE n.node_id = ANY (named) ORDER BY n.name)
	FROM rpq_store.pool AS p
	WHERE p.pool_id = (subject.arguments->>'target_id')::bigint
	  AND NOT EXISTS (SELECT FROM rpq_store.migration AS m WHERE m.operation_id = subject.operation_id);
END
$$;
COMMENT ON FUNCTION rpq_store.note_migration(rpq_store.operation) IS
'the migration record of a move, as it was asked for, where there is none yet; by quantity its nodes follow when '
'they are chosen';

-- ---- the call -------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.pools_of_move(nodes bigint[], from_pool text, to_pool text, OUT from_ids bigint[],
	OUT to_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	tenant bigint;
	one record;
	asked boolean := false;
BEGIN
	pools_of_move.to_id := rpq_store.find_pool(pools_of_move.to_pool);
	SELECT p.tenant_id INTO tenant FROM rpq_store.pool AS p WHERE p.pool_id = pools_of_move.to_id;
	IF pools_of_move.from_pool IS NOT NULL THEN
		pools_of_move.from_ids := ARRAY[rpq_store.find_pool(rpq_store.in_tenant(tenant, pools_of_move.from_pool))];
	ELSE
		SELECT array_agg(DISTINCT n.pool_id ORDER BY n.pool_id) INTO pools_of_move.from_ids
		FROM rpq_store.node AS n WHERE n.node_id = ANY (pools_of_move.nodes);
	END IF;
	FOR one IN
		SELECT p.pool_id, p.type, p.tenant_id FROM rpq_store.pool AS p
		WHERE p.pool_id = ANY (pools_of_move.to_id || pools_of_move.from_ids) ORDER BY p.type = 'shared', p.pool_id
	LOOP
		IF one.type <> 'shared' OR one.tenant_id <> tenant OR NOT asked THEN
			PERFORM rpq_store.authorize_id('move_nodes', one.pool_id);
			asked := true;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.pools_of_move(bigint[], text, text) IS
'the pools that a move is between, each of which the caller must see (42704) and administer (42501), but for a '
'shared one of the tenant beside another. from_ids: the pool named, else those of the nodes';

CREATE OR REPLACE FUNCTION rpq_store.check_move(source rpq_store.pool, from_ids bigint[], nodes bigint[], count int,
	INOUT type_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (check_move.nodes IS NULL) = (check_move.count IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'either nodes or count must be given';
	ELSIF check_move.count NOT BETWEEN 1 AND 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'count must be between 1 and 100000',
			DETAIL = format('It is %s.', check_move.count);
	ELSIF source.pool_id IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'from_pool must be given with count';
	ELSIF cardinality(check_move.from_ids) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nodes must be of one pool',
			DETAIL = (SELECT string_agg(format('%s in "%s"', n.name, p.name), ', ' ORDER BY n.name)
					  FROM rpq_store.node AS n JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
					  WHERE n.node_id = ANY (check_move.nodes));
	ELSIF check_move.nodes IS NOT NULL THEN
		PERFORM rpq_store.check_pool_nodes(check_move.type_id, check_move.nodes);
	ELSE
		check_move.type_id := rpq_store.type_of_pool(source, NULL, check_move.type_id);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_move(rpq_store.pool, bigint[], bigint[], int, bigint) IS
'refuses (22023) what a move cannot be asked for; finds the instance type of a count where it is not given';

CREATE OR REPLACE FUNCTION rpq.move_nodes(nodes text[] DEFAULT NULL, count int DEFAULT NULL,
	from_pool text DEFAULT NULL, to_pool text DEFAULT NULL, instance_type text DEFAULT NULL,
	evacuate boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'move_nodes'
AS $$
#variable_conflict use_column
DECLARE
	target rpq_store.pool;
	source rpq_store.pool;
	subject rpq_store.pool;
	place record;
	type_of bigint;
	node_ids bigint[];
	asked jsonb;
BEGIN
	SELECT * INTO target FROM rpq_store.pool AS p WHERE p.pool_id = rpq_store.find_pool(move_nodes.to_pool);
	node_ids := rpq_store.find_nodes(target.tenant_id, move_nodes.nodes);
	place := rpq_store.pools_of_move(node_ids, move_nodes.from_pool, move_nodes.to_pool);
	type_of := CASE WHEN move_nodes.instance_type IS NOT NULL THEN rpq_store.find_type(move_nodes.instance_type) END;
	target := rpq_store.take_pools(place.to_id, place.from_ids);
	SELECT * INTO source FROM rpq_store.pool AS p WHERE p.pool_id = place.from_ids[1];

	type_of := rpq_store.check_move(source, place.from_ids, node_ids, move_nodes.count, type_of);
	PERFORM rpq_store.check_partners(target, place.from_ids);
	asked := jsonb_strip_nulls(jsonb_build_object('nodes', to_jsonb(move_nodes.nodes), 'node_ids', to_jsonb(node_ids),
		'count', move_nodes.count, 'from_pool', source.name, 'source_id', source.pool_id,
		'to_pool', target.name, 'target_id', target.pool_id,
		'instance_type', (SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = type_of),
		'type_id', type_of, 'evacuate', coalesce(move_nodes.evacuate, false)));
	PERFORM rpq_store.check_nodes_leave(m.picked, target.pool_id)
	FROM rpq_store.plan_move(source.pool_id, asked) AS m;
	subject := CASE WHEN target.type = 'shared' THEN source ELSE target END;
	RETURN rpq_store.open_operation('move', 'move_nodes', subject.pool_id,
		ARRAY(SELECT p.pool_id FROM rpq_store.pool AS p
			  WHERE p.pool_id IN (source.pool_id, target.pool_id) AND p.type <> 'shared' ORDER BY p.pool_id), asked);
END
$$;
COMMENT ON FUNCTION rpq.move_nodes(text[], int, text, text, text, boolean) IS
'asks for nodes to go from one pool to another of the same tenant, cluster and kind; returns the id of the operation, '
'which leaves a row in rpq.migrations. nodes: these, of one pool, repeats left out; or count: so many of '
'instance_type (default: the only one of the pool) out of from_pool. to_pool: required. Idle nodes go first; a pool '
'that is not shared takes only such as take work and are whole machines. evacuate: nodes that hold pods as well, the '
'least used first; the pods are moved within their pool before. What borrows on a node that leaves is preempted '
'first, and waited for where an executor has it. The operation is about to_pool, or about from_pool when to_pool is '
'shared. Errors: 42704 unknown object, 42501 no right on one of the pools, RQ004 one of them has an open operation or '
'is not ready, 22023 bad argument, RQ003 no whole machines, RQ006 nodes are in use, RQ005 too few idle nodes, or a '
'node is not where it must be or takes no work, RQ002 reservations of policies could not be served by what from_pool '
'would have left, RQ009 fenced. Administrators of both pools, of which a shared one need not be administered';

-- ---- carrying it out ------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.finish_move(subject rpq_store.operation, nodes bigint[]) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	target_id bigint := (subject.arguments->>'target_id')::bigint;
	before jsonb;
	names text[];
	moved_off bigint[] := rpq_store.evicted_by(subject.operation_id);
BEGIN
	SELECT jsonb_object_agg(p.pool_id, rpq_store.pool_total(p.pool_id)::text) INTO before
	FROM rpq_store.pool AS p WHERE p.pool_id IN (source_id, target_id);
	names := rpq_store.hand_over(finish_move.nodes, source_id, target_id);
	UPDATE rpq_store.migration AS m SET nodes = names, evicted = moved_off
	WHERE m.operation_id = subject.operation_id;
	PERFORM rpq_store.record(subject.action, 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id,
		jsonb_build_object('total', before->>p.pool_id::text),
		jsonb_build_object('total', rpq_store.pool_total(p.pool_id)::text)
			|| rpq_store.changed_nodes(CASE p.pool_id WHEN target_id THEN to_jsonb(names) ELSE '[]' END,
				CASE p.pool_id WHEN source_id THEN to_jsonb(names) ELSE '[]' END, moved_off),
		subject.operation_id)
	FROM rpq_store.pool AS p WHERE p.pool_id IN (source_id, target_id);
	RETURN jsonb_build_object('nodes', names, 'evicted', moved_off);
END
$$;
COMMENT ON FUNCTION rpq_store.finish_move(rpq_store.operation, bigint[]) IS
'the last step of a move: the nodes, all empty, change pools, and migration and history say so; returns the '
'result';

CREATE OR REPLACE FUNCTION rpq_store.op_move(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[] := rpq_store.operation_scopes(subject.operation_id);
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	target_id bigint := (subject.arguments->>'target_id')::bigint;
	plan record;
	nodes bigint[];
BEGIN
	PERFORM rpq_store.fold(scopes);
	PERFORM rpq_store.check_pool_status(p) FROM rpq_store.pool AS p WHERE p.pool_id = ANY (scopes) ORDER BY p.pool_id;
	IF subject.step IS NULL THEN
		plan := rpq_store.plan_move(source_id, subject.arguments);
		PERFORM rpq_store.check_nodes_leave(plan.picked, target_id);
		IF plan.busy = '{}' AND rpq_store.reclaim_nodes(source_id, plan.picked) = '{}' THEN
			RETURN rpq_store.finish_move(subject, plan.picked);
		END IF;
		PERFORM rpq_store.begin_emptying(subject.operation_id, source_id, plan.picked);
		UPDATE rpq_store.migration AS m
		SET nodes = ARRAY(SELECT n.name FROM rpq_store.node AS n WHERE n.node_id = ANY (plan.picked) ORDER BY n.name)
		WHERE m.operation_id = subject.operation_id;
		UPDATE rpq_store.operation AS o
		SET step = 'evacuate', state = o.state || jsonb_build_object('moving', plan.picked)
		WHERE o.operation_id = subject.operation_id;
		RETURN NULL;
	ELSIF NOT rpq_store.emptied(subject) THEN
		RETURN NULL;
	END IF;
	nodes := rpq_store.id_array(subject.state->'moving');
	PERFORM rpq_store.check_named_nodes(source_id, nodes, rpq_store.receives(subject.arguments),
		rpq_store.receives(subject.arguments));
	PERFORM rpq_store.check_nodes_leave(nodes, target_id);
	RETURN rpq_store.finish_move(subject, nodes);
END
$$;
COMMENT ON FUNCTION rpq_store.op_move(rpq_store.operation) IS
'one step of the operation move: checks again what may have changed since the call and gives the nodes over, at '
'once where they are idle; else NULL while pods have still to leave them. Returns the nodes'' names';

CREATE OR REPLACE FUNCTION rpq_store.undo_move(subject rpq_store.operation) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT rpq_store.undo_moves(subject.operation_id, rpq_store.undo_reason(subject))
$$;
COMMENT ON FUNCTION rpq_store.undo_move(rpq_store.operation) IS
'undoes the steps of a move: its nodes stay where they are, and take pods again';

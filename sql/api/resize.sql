-- Resizing a pool.
--
-- Writes what sql/api/exchange.sql and moves.sql write, under the turns of the pools concerned.  The call checks and
-- opens the operation; op_resize checks the same again and carries it out: in one transaction where all nodes are idle,
-- else (evacuate) in steps, which are those of moves.sql, and a last one in which the nodes change pools.

-- ---- which nodes go -------------------------------------------------------------------------------------------------

-- Usage may be of nodes that stay or of nodes that go: that it is within what stays is what counts first.
CREATE OR REPLACE FUNCTION rpq_store.pick_to_shrink(subject rpq_store.pool, type_id bigint, wanted numeric,
	change numeric, receiving boolean, evacuate boolean, OUT picked bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	kind_of rpq_store.instance_type;
	main_key text;
	used rpq.resources;
	too_much boolean;
	choice record;
	in_use text;
BEGIN
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = pick_to_shrink.type_id;
	main_key := rpq_store.primary_resource(kind_of.machine_unit);
	SELECT rpq.sum(u.amount) INTO used
	FROM rpq_store.usage AS u
	WHERE u.pool_id = subject.pool_id AND u.type_id = pick_to_shrink.type_id AND u.lender_id = 0;
	choice := rpq_store.pick_amount(subject.pool_id, pick_to_shrink.type_id, pick_to_shrink.change, false,
		pick_to_shrink.receiving, pick_to_shrink.receiving, pick_to_shrink.evacuate);
	too_much := coalesce(used OPERATOR(rpq.->) main_key, 0) > pick_to_shrink.wanted;
	IF NOT too_much AND choice.picked IS NOT NULL THEN
		pick_to_shrink.picked := choice.picked;
		pick_to_shrink.busy := choice.busy;
		RETURN;
	END IF;
	IF NOT too_much THEN
		PERFORM rpq_store.refuse_moves(subject.pool_id, choice.unplaced, true);
	END IF;
	SELECT rpq_store.describe_busy(array_agg(c.node_id), true) INTO in_use
	FROM rpq_store.node_candidates(subject.pool_id, pick_to_shrink.type_id, false) AS c WHERE NOT c.idle;
	IF too_much THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006',
			MESSAGE = format('pool "%s" uses more than it would hold', subject.name),
			DETAIL = concat(format('%s=%s of instance type "%s" is used, the quota would be %s=%s.', main_key,
				CAST(used AS jsonb)->>main_key, kind_of.name, main_key, pick_to_shrink.wanted),
				' In use: ' || in_use || '.'),
			HINT = 'Stop workloads, or keep more machines.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'RQ006',
		MESSAGE = format('pool "%s" has too few idle nodes to give', subject.name),
		DETAIL = concat(format('Nodes for %s=%s are to go, idle ones come to %s=%s.', main_key, pick_to_shrink.change,
			main_key, choice.idle_amount), ' In use: ' || in_use || '.'),
		HINT = CASE WHEN NOT pick_to_shrink.evacuate THEN
			'With evacuate => true the pods of the least used nodes are moved first.'
			ELSE 'Ask for fewer nodes, or stop what stands on them.' END;
END
$$;
COMMENT ON FUNCTION rpq_store.pick_to_shrink(rpq_store.pool, bigint, numeric, numeric, boolean, boolean) IS
'the nodes of a type that a pool gives away when it is to hold no more than wanted of the primary resource; RQ006 '
'when that is used, or too few are idle. receiving: the nodes go to a pool that is not shared. busy: those that '
'hold something. The caller holds the turn and has folded';

CREATE OR REPLACE FUNCTION rpq_store.plan_quota(subject rpq_store.pool, source_id bigint, type_id bigint,
	quota rpq.resources, receiving boolean, evacuate boolean,
	OUT adding bigint[], OUT removing bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	main_key text := rpq_store.primary_resource((SELECT t.machine_unit FROM rpq_store.instance_type AS t
												 WHERE t.type_id = plan_quota.type_id));
	wanted numeric := plan_quota.quota OPERATOR(rpq.->) main_key;
	held numeric;
	choice record;
BEGIN
	SELECT coalesce(sum(n.capacity OPERATOR(rpq.->) main_key), 0) INTO held
	FROM rpq_store.node AS n WHERE n.pool_id = subject.pool_id AND n.type_id = plan_quota.type_id;
	plan_quota.adding := '{}';
	plan_quota.removing := '{}';
	plan_quota.busy := '{}';
	IF wanted > held THEN
		choice := rpq_store.pick_amount(plan_quota.source_id, plan_quota.type_id, wanted - held, false, true, true,
			plan_quota.evacuate);
		IF choice.picked IS NULL THEN
			PERFORM rpq_store.refuse_source(plan_quota.source_id, plan_quota.type_id,
				main_key || '=' || trim_scale(wanted - held),
				'idle nodes for ' || main_key || '=' || choice.idle_amount);
		END IF;
		plan_quota.adding := choice.picked;
		plan_quota.busy := choice.busy;
	ELSIF wanted < held THEN
		choice := rpq_store.pick_to_shrink(subject, plan_quota.type_id, wanted, held - wanted, plan_quota.receiving,
			plan_quota.evacuate);
		plan_quota.removing := choice.picked;
		plan_quota.busy := choice.busy;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.plan_quota(rpq_store.pool, bigint, bigint, rpq.resources, boolean, boolean) IS
'the nodes that come and go when a pool is to hold this much of an instance type, in the primary resource; none '
'when it does. receiving: what goes goes to a pool that is not shared. busy: those that hold something. RQ006, '
'RQ005 when they cannot';

CREATE OR REPLACE FUNCTION rpq_store.plan_resize(subject rpq_store.pool, asked jsonb,
	OUT adding bigint[], OUT removing bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	choice record;
	evacuate boolean := coalesce((plan_resize.asked->>'evacuate')::boolean, false);
	receiving boolean := rpq_store.receives(plan_resize.asked);
BEGIN
	IF plan_resize.asked ? 'quota' THEN
		choice := rpq_store.plan_quota(subject, (plan_resize.asked->>'source_id')::bigint,
			(plan_resize.asked->>'type_id')::bigint, (plan_resize.asked->>'quota')::rpq.resources, receiving, evacuate);
		plan_resize.adding := choice.adding;
		plan_resize.removing := choice.removing;
		plan_resize.busy := choice.busy;
		PERFORM rpq_store.check_nodes_leave(plan_resize.adding, subject.pool_id, plan_resize.removing,
			(plan_resize.asked->>'target_id')::bigint);
		RETURN;
	END IF;
	plan_resize.adding := rpq_store.id_array(plan_resize.asked->'add_ids');
	plan_resize.removing := rpq_store.id_array(plan_resize.asked->'remove_ids');
	plan_resize.busy := rpq_store.check_named_nodes((plan_resize.asked->>'source_id')::bigint, plan_resize.adding,
			true, true, evacuate)
		|| rpq_store.check_named_nodes(subject.pool_id, plan_resize.removing, receiving, receiving, evacuate,
			true);
	IF plan_resize.busy <> '{}' THEN
		PERFORM rpq_store.refuse_moves((plan_resize.asked->>'source_id')::bigint, plan_resize.adding, false);
		PERFORM rpq_store.refuse_moves(subject.pool_id, plan_resize.removing, true);
	END IF;
	PERFORM rpq_store.check_nodes_leave(plan_resize.adding, subject.pool_id, plan_resize.removing,
		(plan_resize.asked->>'target_id')::bigint);
END
$$;
COMMENT ON FUNCTION rpq_store.plan_resize(rpq_store.pool, jsonb) IS
'the nodes that a resize, asked for with these arguments, adds and removes; refused as it is at the call (RQ003, '
'RQ006, RQ005, RQ002). The caller holds the turns and has folded';

-- ---- the call -------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.check_resize(subject rpq_store.pool, quota rpq.resources, add_ids bigint[],
	remove_ids bigint[], source_id bigint, INOUT type_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF subject.type = 'shared' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a shared pool holds the nodes that no other pool has',
			DETAIL = format('Pool "%s" is shared.', subject.name),
			HINT = 'Resize the other pool, or use rpq.move_nodes(), rpq.add_nodes() or rpq.remove_nodes().';
	ELSIF (check_resize.quota IS NULL) = (check_resize.add_ids IS NULL AND check_resize.remove_ids IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = 'either quota, or add_nodes and remove_nodes, must be given';
	ELSIF check_resize.add_ids && check_resize.remove_ids THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a node cannot be added and removed at once',
			DETAIL = (SELECT string_agg(n.name, ', ' ORDER BY n.name) FROM rpq_store.node AS n
					  WHERE n.node_id = ANY (check_resize.add_ids) AND n.node_id = ANY (check_resize.remove_ids));
	ELSIF check_resize.quota IS NULL THEN
		PERFORM rpq_store.check_pool_nodes(check_resize.type_id, check_resize.add_ids || check_resize.remove_ids);
		RETURN;
	END IF;
	check_resize.type_id := rpq_store.type_of_pool(subject, check_resize.source_id, check_resize.type_id);
	PERFORM rpq_store.check_pool_quota(subject.kind, check_resize.quota, false, check_resize.source_id,
		check_resize.type_id);
END
$$;
COMMENT ON FUNCTION rpq_store.check_resize(rpq_store.pool, rpq.resources, bigint[], bigint[], bigint, bigint) IS
'refuses what a resize cannot be asked for (22023, RQ003); finds the instance type of a quota where it is not '
'given';

CREATE OR REPLACE FUNCTION rpq.resize_pool(pool text, quota rpq.resources DEFAULT NULL, add_nodes text[] DEFAULT NULL,
	remove_nodes text[] DEFAULT NULL, instance_type text DEFAULT NULL, source text DEFAULT NULL,
	target text DEFAULT NULL, evacuate boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'resize_pool'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('resize_pool', resize_pool.pool);
	source_id bigint;
	target_id bigint;
	type_of bigint;
	add_ids bigint[];
	remove_ids bigint[];
	held bigint[];
	asked jsonb;
BEGIN
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	source_id := rpq_store.other_pool('resize_pool', subject, resize_pool.source);
	target_id := rpq_store.other_pool('resize_pool', subject, resize_pool.target);
	type_of := CASE WHEN resize_pool.instance_type IS NOT NULL THEN rpq_store.find_type(resize_pool.instance_type) END;
	add_ids := rpq_store.find_nodes(subject.tenant_id, resize_pool.add_nodes);
	remove_ids := rpq_store.find_nodes(subject.tenant_id, resize_pool.remove_nodes);
	subject := rpq_store.take_pools(named, ARRAY[source_id, target_id]);

	type_of := rpq_store.check_resize(subject, resize_pool.quota, add_ids, remove_ids, source_id, type_of);
	PERFORM rpq_store.check_partners(subject, ARRAY[source_id, target_id]);
	asked := jsonb_strip_nulls(jsonb_build_object('pool', subject.name, 'quota', resize_pool.quota::text,
		'add_nodes', to_jsonb(resize_pool.add_nodes), 'add_ids', to_jsonb(add_ids),
		'remove_nodes', to_jsonb(resize_pool.remove_nodes), 'remove_ids', to_jsonb(remove_ids),
		'instance_type', (SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = type_of),
		'type_id', type_of, 'source', resize_pool.source, 'source_id', source_id,
		'target', resize_pool.target, 'target_id', target_id, 'evacuate', coalesce(resize_pool.evacuate, false)));
	PERFORM rpq_store.plan_resize(subject, asked);
	SELECT array_agg(p.pool_id ORDER BY p.pool_id) INTO held FROM rpq_store.pool AS p
	WHERE p.pool_id IN (named, source_id, target_id) AND p.type <> 'shared';
	RETURN rpq_store.open_operation('resize', 'resize_pool', named, held, asked);
END
$$;
COMMENT ON FUNCTION rpq.resize_pool(text, rpq.resources, text[], text[], text, text, text, boolean) IS
'asks for a dedicated or exclusive pool to hold more or fewer machines; returns the id of the operation. quota: '
'what it is to hold of the instance type, whole machines in the primary resource alone (gpu=64), 0 for none; what '
'it holds already changes nothing. Or add_nodes, remove_nodes: these, repeats left out. instance_type: default '
'the only one of the pool. source: where it grows from, a pool of the same cluster and kind, default the shared '
'one; target: where its nodes go. Idle nodes go first: into the pool only such as take work, out of it the '
'unhealthy and cordoned before the others. evacuate: nodes that hold pods as well, the least used first; the pods '
'are moved within their pool before. What borrows on a node that leaves is preempted first, and waited for where an '
'executor has it. Errors: 42704 unknown object, 42501 no right on pool, source or target, '
'RQ004 one of them has an open operation or is not ready, 22023 bad argument, RQ003 no whole number of machines, '
'RQ006 more is used than would be left, or nodes are in use, RQ005 the source has too few idle nodes, or a node '
'is not where it must be, RQ002 reservations of policies could not be served by what a pool would have left, RQ009 '
'fenced. Administrators of the pool and of a source or target that is not shared';

-- ---- carrying it out ------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.finish_resize(subject rpq_store.operation, adding bigint[], removing bigint[])
RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	resized rpq_store.pool;
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	target_id bigint := (subject.arguments->>'target_id')::bigint;
	before jsonb;
	outcome jsonb;
	evicted bigint[] := rpq_store.evicted_by(subject.operation_id);
BEGIN
	SELECT * INTO resized FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	IF finish_resize.removing <> '{}' THEN
		target_id := rpq_store.receiver(resized, target_id, subject.action);
	END IF;
	SELECT jsonb_object_agg(p.pool_id, rpq_store.pool_total(p.pool_id)::text) INTO before
	FROM rpq_store.pool AS p WHERE p.pool_id IN (subject.pool_id, source_id, target_id);
	outcome := jsonb_build_object(
		'added', rpq_store.hand_over(finish_resize.adding, source_id, subject.pool_id),
		'removed', rpq_store.hand_over(finish_resize.removing, subject.pool_id, target_id));
	-- one row for each pool that was named
	PERFORM rpq_store.record(subject.action, 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id,
		jsonb_build_object('total', before->>p.pool_id::text),
		jsonb_build_object('total', rpq_store.pool_total(p.pool_id)::text)
			|| rpq_store.changed_nodes(
				(CASE p.pool_id WHEN subject.pool_id THEN outcome->'added' ELSE '[]' END)
					|| CASE p.pool_id WHEN target_id THEN outcome->'removed' ELSE '[]' END,
				(CASE p.pool_id WHEN subject.pool_id THEN outcome->'removed' ELSE '[]' END)
					|| CASE p.pool_id WHEN source_id THEN outcome->'added' ELSE '[]' END, evicted),
		subject.operation_id)
	FROM rpq_store.pool AS p
	WHERE p.pool_id = subject.pool_id OR (p.pool_id = source_id AND subject.arguments ? 'source')
	   OR (p.pool_id = target_id AND subject.arguments ? 'target');
	RETURN outcome || jsonb_build_object('evicted', evicted);
END
$$;
COMMENT ON FUNCTION rpq_store.finish_resize(rpq_store.operation, bigint[], bigint[]) IS
'the last step of a resize: the nodes, all empty, change pools, and the history says so; returns the result';

CREATE OR REPLACE FUNCTION rpq_store.op_resize(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[] := rpq_store.operation_scopes(subject.operation_id);
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	resized rpq_store.pool;
	plan record;
	adding bigint[];
	removing bigint[];
BEGIN
	PERFORM rpq_store.fold(scopes);
	PERFORM rpq_store.check_pool_status(p) FROM rpq_store.pool AS p WHERE p.pool_id = ANY (scopes) ORDER BY p.pool_id;
	SELECT * INTO resized FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	IF subject.step IS NULL THEN
		plan := rpq_store.plan_resize(resized, subject.arguments);
		IF plan.busy = '{}' AND rpq_store.reclaim_nodes(source_id, plan.adding)
				|| rpq_store.reclaim_nodes(subject.pool_id, plan.removing) = '{}' THEN
			RETURN rpq_store.finish_resize(subject, plan.adding, plan.removing);
		END IF;
		PERFORM rpq_store.begin_emptying(subject.operation_id, source_id, plan.adding);
		PERFORM rpq_store.begin_emptying(subject.operation_id, subject.pool_id, plan.removing);
		UPDATE rpq_store.operation AS o
		SET step = 'evacuate', state = o.state || jsonb_build_object('adding', plan.adding, 'removing', plan.removing)
		WHERE o.operation_id = subject.operation_id;
		RETURN NULL;
	ELSIF NOT rpq_store.emptied(subject) THEN
		RETURN NULL;
	END IF;
	adding := rpq_store.id_array(subject.state->'adding');
	removing := rpq_store.id_array(subject.state->'removing');
	PERFORM rpq_store.check_named_nodes(source_id, adding);
	PERFORM rpq_store.check_named_nodes(subject.pool_id, removing, rpq_store.receives(subject.arguments),
		rpq_store.receives(subject.arguments));
	PERFORM rpq_store.check_nodes_leave(adding, subject.pool_id, removing,
		(subject.arguments->>'target_id')::bigint);
	RETURN rpq_store.finish_resize(subject, adding, removing);
END
$$;
COMMENT ON FUNCTION rpq_store.op_resize(rpq_store.operation) IS
'one step of the operation resize: checks again what may have changed since the call and gives the nodes over, at '
'once where they are idle; else NULL while pods have still to leave them. Returns the nodes'' names';

CREATE OR REPLACE FUNCTION rpq_store.undo_resize(subject rpq_store.operation) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT rpq_store.undo_moves(subject.operation_id, rpq_store.undo_reason(subject))
$$;
COMMENT ON FUNCTION rpq_store.undo_resize(rpq_store.operation) IS
'undoes the steps of a resize: its nodes stay where they are, and take pods again';

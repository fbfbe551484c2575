-- Renaming, converting and deleting a pool: atomic operations.
--
-- Writes pool, pool_instance, member, pool_admin, profile_pool, and with delete the pool of nodes and the workloads of
-- the pool, under the turns of the pool and of the shared pool that takes its nodes back.  Workloads are taken with
-- SKIP LOCKED: where a client keeps one locked, nothing of the deletion happens and it is tried again (55P03).

-- ------------------------------------------------------------------------------------------------------- rename

CREATE OR REPLACE FUNCTION rpq_store.check_pool_name(subject rpq_store.pool, name text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF EXISTS (SELECT FROM rpq_store.pool AS p
			   WHERE p.tenant_id = subject.tenant_id AND p.name = check_pool_name.name AND p.status <> 'deleted'
				 AND p.pool_id <> subject.pool_id) THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('pool "%s" already exists', check_pool_name.name);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_name(rpq_store.pool, text) IS
'refuses (42710) a name that another pool of the tenant has';

CREATE OR REPLACE FUNCTION rpq.rename_pool(pool text, name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'rename_pool'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('rename_pool', rename_pool.pool);
	subject rpq_store.pool;
	wanted text;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[named]);
	PERFORM rpq_store.check_free(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	wanted := rpq_store.check_name('pool', rename_pool.name);
	PERFORM rpq_store.check_pool_name(subject, wanted);
	RETURN rpq_store.open_operation('rename', 'rename_pool', named, ARRAY[named],
		jsonb_build_object('name', wanted, 'old_name', subject.name));
END
$$;
COMMENT ON FUNCTION rpq.rename_pool(text, text) IS
'asks for another name of a pool and returns the id of the operation; history, workloads, members and links stay with '
'it. name: 1 to 63 characters, unique in the tenant among pools that are not deleted. Errors: 42704 unknown pool, '
'RQ004 the pool is being created or deleted or has an open operation, 22023 bad name, 42710 name taken, RQ009 fenced. '
'Administrators of the pool';

-- Of two that take the same name at once, the second meets the index when the first has committed.
CREATE OR REPLACE FUNCTION rpq_store.op_rename(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	renamed rpq_store.pool;
	wanted text := subject.arguments->>'name';
BEGIN
	SELECT * INTO renamed FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	PERFORM rpq_store.check_pool_name(renamed, wanted);
	UPDATE rpq_store.pool AS p SET name = wanted WHERE p.pool_id = subject.pool_id;
	PERFORM rpq_store.record(subject.action, 'pool', renamed.pool_id, wanted, renamed.tenant_id, renamed.pool_id,
		jsonb_build_object('name', renamed.name), jsonb_build_object('name', wanted), subject.operation_id);
	RETURN jsonb_build_object('name', wanted, 'old_name', renamed.name);
EXCEPTION WHEN unique_violation THEN
	RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('pool "%s" already exists', wanted);
END
$$;
COMMENT ON FUNCTION rpq_store.op_rename(rpq_store.operation) IS
'the operation rename: gives the pool its new name and records it; 42710 when it is taken by now, also in a race';

-- ------------------------------------------------------------------------------------------------------ convert

CREATE OR REPLACE FUNCTION rpq_store.check_whole_machines(pool_id bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	partial text;
BEGIN
	-- the few sizes first: of 10,000 nodes each would cost its tenth of a millisecond
	SELECT string_agg(format('%s (%s of %s)', n.name, n.capacity, c.machine_unit), ', ' ORDER BY n.name) INTO partial
	FROM (SELECT c.type_id, c.capacity, t.machine_unit
		  FROM rpq_store.pool_capacity AS c
		  JOIN rpq_store.instance_type AS t ON t.type_id = c.type_id
		  WHERE c.pool_id = check_whole_machines.pool_id
			AND rpq_store.machines(c.capacity, t.machine_unit) IS NULL OFFSET 0) AS c
	JOIN rpq_store.node AS n ON n.pool_id = check_whole_machines.pool_id AND n.type_id = c.type_id
		AND n.capacity OPERATOR(rpq.=) c.capacity;
	IF partial IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'nodes are no whole number of machine units',
			DETAIL = partial;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_whole_machines(bigint) IS
'refuses (RQ003) a pool with a node whose primary resource is no whole multiple of the machine unit, naming each';

CREATE OR REPLACE FUNCTION rpq.convert_pool(pool text, type text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'convert_pool'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('convert_pool', convert_pool.pool);
	subject rpq_store.pool;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[named]);
	PERFORM rpq_store.check_free(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	IF convert_pool.type IS NULL OR convert_pool.type NOT IN ('dedicated', 'exclusive') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'type must be dedicated or exclusive';
	ELSIF subject.type = 'shared' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pool "%s" is shared and cannot be converted',
			subject.name);
	END IF;
	PERFORM rpq_store.check_whole_machines(named);
	RETURN rpq_store.open_operation('convert', 'convert_pool', named, ARRAY[named],
		jsonb_build_object('type', convert_pool.type, 'old_type', subject.type));
END
$$;
COMMENT ON FUNCTION rpq.convert_pool(text, text) IS
'asks for a pool to become dedicated or exclusive and returns the id of the operation. Settings that the new type '
'does not have (scheduling_policy spread, faulty_node_rotation, idle_time_sharing, isolate_accounts) fall back to '
'their defaults; the history names them; what borrows there is preempted. type: dedicated or exclusive; the type that '
'it has changes nothing. Errors: 42704 unknown pool, RQ004 the pool is being created or deleted or has an open '
'operation, 22023 bad type or a shared pool, RQ003 a node is no whole number of machine units, RQ009 fenced. '
'Administrators of the pool';

CREATE OR REPLACE FUNCTION rpq_store.op_convert(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	converted rpq_store.pool;
	before jsonb := rpq_store.pool_settings(subject.pool_id);
	after jsonb;
BEGIN
	PERFORM rpq_store.check_whole_machines(subject.pool_id);
	UPDATE rpq_store.pool AS p SET type = subject.arguments->>'type' WHERE p.pool_id = subject.pool_id
	RETURNING p.* INTO converted;
	IF converted.type <> 'exclusive' THEN
		UPDATE rpq_store.pool AS p
		SET scheduling_policy = CASE p.scheduling_policy WHEN 'spread' THEN 'binpack' ELSE p.scheduling_policy END,
			faulty_node_rotation = false, idle_time_sharing = false, isolate_accounts = false
		WHERE p.pool_id = subject.pool_id;
		UPDATE rpq_store.pool_instance AS i SET scheduling_policy = NULL
		WHERE i.pool_id = subject.pool_id AND i.scheduling_policy = 'spread';
		PERFORM rpq_store.preempt_borrowers(subject.pool_id);
	END IF;
	after := rpq_store.pool_settings(subject.pool_id);
	PERFORM rpq_store.record(subject.action, 'pool', converted.pool_id, converted.name, converted.tenant_id,
		converted.pool_id, before, after, subject.operation_id);
	RETURN jsonb_build_object('type', converted.type,
		'fell_back', rpq_store.changed_keys(before, after) - 'type');
END
$$;
COMMENT ON FUNCTION rpq_store.op_convert(rpq_store.operation) IS
'the operation convert: changes the type, sets back what the new type does not have, and records both; returns the '
'type and the settings that fell back, as they were';

-- ------------------------------------------------------------------------------------------------------- delete

CREATE OR REPLACE FUNCTION rpq_store.pool_dependents(pool_id bigint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	WITH door AS (
		SELECT DISTINCT q.queue_id FROM rpq_store.profile_pool AS l
		JOIN rpq_store.queue AS q ON q.profile_id = l.profile_id AND q.deleted_at IS NULL
		WHERE l.pool_id = $1 AND l.state = 'provisioned'),
	live AS (
		SELECT w.workload_id FROM rpq_store.workload AS w
		WHERE w.status IN ('queued', 'starting', 'running') AND w.ended_at IS NULL AND w.scope_id = $1
		UNION
		SELECT w.workload_id FROM door AS d
		JOIN rpq_store.workload AS w ON w.scope_id = d.queue_id AND w.status = 'queued'
		UNION
		SELECT p.workload_id FROM rpq_store.node AS n
		JOIN rpq_store.pod AS p ON p.node_id = n.node_id
		WHERE n.pool_id = $1
		  AND p.pod_id NOT IN (SELECT b.pod_id FROM rpq_store.borrowed_pod AS b WHERE b.lender_id = $1))
	SELECT string_agg(rpq_store.counted(d.number, d.word), ', ' ORDER BY d.place)
	FROM (VALUES
		(1, (SELECT count(*) FROM rpq_store.node AS n WHERE n.pool_id = $1), 'node'),
		(2, (SELECT count(*) FROM rpq_store.member AS m WHERE m.pool_id = $1), 'member'),
		(3, (SELECT count(*) FROM door), 'queue'),
		(4, (SELECT count(*) FROM live), 'live workload')) AS d (place, number, word)
	WHERE d.number > 0
$$;
COMMENT ON FUNCTION rpq_store.pool_dependents(bigint) IS
'what stands against deleting a pool, in words (1 node, 2 members, 1 queue, 3 live workloads); NULL when nothing '
'does; what borrows there does not. Exact for who holds the turn and has folded';

CREATE OR REPLACE FUNCTION rpq_store.check_deletable(subject rpq_store.pool) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	dependents text := rpq_store.pool_dependents(subject.pool_id);
BEGIN
	IF dependents IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006',
			MESSAGE = format('pool "%s" cannot be deleted: %s', subject.name, dependents),
			HINT = 'Take them out of it, or delete it with force.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_deletable(rpq_store.pool) IS
'refuses (RQ006) a pool that something stands against deleting, and counts it';

-- The shared pool takes the nodes back, so its turn belongs to the operation; where there is none yet it is made first,
-- before any turn is taken.
CREATE OR REPLACE FUNCTION rpq.delete_pool(pool text, force boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_pool'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('delete_pool', delete_pool.pool);
	subject rpq_store.pool;
	target bigint;
BEGIN
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	SELECT p.pool_id INTO target FROM rpq_store.pool AS p
	WHERE p.tenant_id = subject.tenant_id AND p.cluster_id = subject.cluster_id AND p.kind = subject.kind
	  AND p.type = 'shared' AND p.pool_id <> named;
	IF target IS NULL AND subject.type <> 'shared'
		AND EXISTS (SELECT FROM rpq_store.node AS n WHERE n.pool_id = named) THEN
		target := rpq_store.shared_pool(subject.tenant_id, subject.cluster_id, subject.kind, 'delete_pool');
	END IF;
	PERFORM rpq_store.take_turns(array_remove(ARRAY[named, target], NULL));
	PERFORM rpq_store.check_free(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	IF subject.type = 'shared' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pool "%s" is shared and cannot be deleted',
			subject.name);
	END IF;
	IF NOT coalesce(delete_pool.force, false) THEN
		PERFORM rpq_store.fold(ARRAY[named]);
		PERFORM rpq_store.check_deletable(subject);
	END IF;
	RETURN rpq_store.open_operation('delete', 'delete_pool', named, ARRAY[named], jsonb_strip_nulls(
		jsonb_build_object('force', coalesce(delete_pool.force, false),
			'target', (SELECT p.name FROM rpq_store.pool AS p WHERE p.pool_id = target), 'target_id', target)));
END
$$;
COMMENT ON FUNCTION rpq.delete_pool(text, boolean) IS
'asks for a pool to be deleted and returns the id of the operation. Without force nothing may stand against it. '
'force: what runs in it is stopped (also what came through queues), what borrows there is preempted, what is queued '
'becomes draft (in a queue, only when no other pool serves it), members, administrators and links of profiles go, its '
'nodes go back to the shared pool. The name is free then; history, usage and ledger keep its id. Errors: 42704 '
'unknown pool, RQ004 the pool is being created or deleted or has an open operation, 22023 a shared pool, RQ006 '
'something stands against it (1 node, 2 members, 1 queue, 3 live workloads), 55P03 in synchronous mode while a client '
'keeps a workload of it locked (the worker tries again), RQ009 fenced. Administrators of the pool';

-- What borrows room in the pool and had still to stop as a victim has no more time for it.
CREATE OR REPLACE FUNCTION rpq_store.stop_through_queues(pool_id bigint, actor text) RETURNS int
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	WITH placed AS (
		SELECT DISTINCT w.workload_id, w.attempt,
			w.lender_id IS NOT NULL AS borrows
		FROM rpq_store.node AS n
		JOIN rpq_store.pod AS p ON p.node_id = n.node_id
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
		WHERE n.pool_id = $1 AND w.status IN ('starting', 'running')),
	listed AS (
		SELECT array_agg(p.workload_id) AS workloads, array_agg(p.attempt) AS attempts,
			array_agg(CASE WHEN p.borrows THEN 'queued' ELSE 'stopped' END) AS ends,
			array_agg(CASE WHEN p.borrows THEN 'preempted' ELSE 'pool_deleted' END) AS causes,
			array_agg(CASE WHEN NOT p.borrows THEN 'the pool was deleted' END) AS details
		FROM placed AS p)
	SELECT count(*) FILTER (WHERE e.status = 'stopped')::int
	FROM listed AS l
	CROSS JOIN LATERAL rpq_store.end_attempts(l.workloads, l.attempts, l.ends, l.causes, l.details, $2, rpq.now()) AS e
$$;
COMMENT ON FUNCTION rpq_store.stop_through_queues(bigint, text) IS
'stops what came through queues and stands on nodes of the pool, and sends back to its queue what borrows there and '
'was to be preempted already; returns how many it stopped. A row that its client keeps locked is passed over';

CREATE OR REPLACE FUNCTION rpq_store.unlink_pool(subject rpq_store.operation, OUT profiles text[], OUT drafted int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	shut bigint[];
BEGIN
	WITH gone AS (
		DELETE FROM rpq_store.profile_pool AS l WHERE l.pool_id = subject.pool_id RETURNING l.profile_id)
	SELECT coalesce(array_agg(f.name ORDER BY f.name), '{}'), array_agg(f.profile_id) INTO unlink_pool.profiles, shut
	FROM rpq_store.profile AS f WHERE f.profile_id IN (SELECT g.profile_id FROM gone AS g);
	SELECT array_agg(q.queue_id) INTO shut FROM rpq_store.queue AS q
	WHERE q.profile_id = ANY (shut) AND q.deleted_at IS NULL
	  AND rpq_store.profile_pools(q.profile_id, 'provisioned') = '{}';
	SELECT coalesce(sum(rpq_store.draft_queued(u.queue_id, NULL, 'pool_deleted',
		'the last pool of the queue was deleted', subject.initiator)), 0)::int INTO unlink_pool.drafted
	FROM unnest(shut) AS u (queue_id);
	IF EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.scope_id = ANY (shut) AND w.status = 'queued') THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'a client has a workload of a queue of the pool in hand';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.unlink_pool(rpq_store.operation) IS
'takes the pool of an operation out of all profiles, saved and provisioned, whose names are returned; what waits in a '
'queue of which no other pool is left becomes draft, and is counted. 55P03 when a client keeps such a row locked';

CREATE OR REPLACE FUNCTION rpq_store.clear_pool(subject rpq_store.operation, OUT stopped int, OUT drafted int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	now_stopped int;
	now_drafted int;
	waits boolean;
BEGIN
	clear_pool.stopped := 0;
	clear_pool.drafted := 0;
	PERFORM rpq_store.preempt_borrowers(subject.pool_id, NULL, true);
	-- What is submitted meanwhile is taken by the next pass; what a pass finds and does not take, a client has in hand.
	FOR pass IN 1 .. 100 LOOP
		now_stopped := rpq_store.stop_placed(subject.pool_id, NULL, 'pool_deleted', 'the pool was deleted',
			subject.initiator);
		now_drafted := rpq_store.draft_queued(subject.pool_id, NULL, 'pool_deleted', 'the pool was deleted',
			subject.initiator);
		now_stopped := now_stopped + rpq_store.stop_through_queues(subject.pool_id, subject.initiator);
		clear_pool.stopped := clear_pool.stopped + now_stopped;
		clear_pool.drafted := clear_pool.drafted + now_drafted;
		waits := EXISTS (SELECT FROM rpq_store.workload AS w
			WHERE w.scope_id = subject.pool_id AND w.status = 'queued');
		EXIT WHEN NOT waits OR pass > 1 AND now_stopped + now_drafted = 0;
	END LOOP;
	-- what arrives after the last pass becomes a draft when it is counted (draft_late)
	IF waits
		OR EXISTS (SELECT FROM rpq_store.workload AS w
				   WHERE w.scope_id = subject.pool_id AND w.status IN ('starting', 'running') AND w.ended_at IS NULL)
		OR EXISTS (SELECT FROM rpq_store.node AS n JOIN rpq_store.pod AS p ON p.node_id = n.node_id
				   JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
				   WHERE n.pool_id = subject.pool_id AND w.status IN ('starting', 'running')) THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'a client has a workload of the pool in hand';
	END IF;
	PERFORM rpq_store.fold(ARRAY[subject.pool_id]);
END
$$;
COMMENT ON FUNCTION rpq_store.clear_pool(rpq_store.operation) IS
'stops and drafts all work of the pool of an operation; returns how many of each. 55P03 when a client keeps a row '
'locked: all or none';

CREATE OR REPLACE FUNCTION rpq_store.give_back_nodes(pool_id bigint, target_id bigint) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	ids bigint[];
	names text[];
BEGIN
	WITH given AS (
		UPDATE rpq_store.node AS n SET pool_id = give_back_nodes.target_id
		WHERE n.pool_id = give_back_nodes.pool_id RETURNING n.node_id, n.name)
	SELECT array_agg(g.node_id), coalesce(array_agg(g.name ORDER BY g.name), '{}') INTO ids, names FROM given AS g;
	IF ids IS NOT NULL THEN
		PERFORM rpq_store.give_up_on_nodes(ids);
		UPDATE rpq_store.hold AS h SET scope_id = give_back_nodes.target_id WHERE h.node_id = ANY (ids);
		PERFORM rpq_store.recount_capacity(ARRAY[give_back_nodes.pool_id, give_back_nodes.target_id]);
	END IF;
	RETURN names;
END
$$;
COMMENT ON FUNCTION rpq_store.give_back_nodes(bigint, bigint) IS
'moves all nodes of a pool, which hold no pods, to another, with the room that is kept on them for what is still '
'stopping; returns their names. The caller holds both turns';

CREATE OR REPLACE FUNCTION rpq_store.op_delete(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	gone rpq_store.pool;
	before jsonb := rpq_store.pool_settings(subject.pool_id);
	work record;
	links record;
	names text[];
	members text[];
BEGIN
	SELECT * INTO gone FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	IF NOT (subject.arguments->>'force')::boolean THEN
		PERFORM rpq_store.fold(ARRAY[gone.pool_id]);
		PERFORM rpq_store.check_deletable(gone);
	END IF;
	SELECT * INTO work FROM rpq_store.clear_pool(subject);
	names := rpq_store.give_back_nodes(gone.pool_id, (subject.arguments->>'target_id')::bigint);
	WITH removed AS (DELETE FROM rpq_store.member AS m WHERE m.pool_id = gone.pool_id RETURNING m.account_id)
	SELECT coalesce(array_agg(a.name ORDER BY a.name), '{}') INTO members
	FROM removed AS r JOIN rpq_store.account AS a ON a.account_id = r.account_id;
	DELETE FROM rpq_store.pool_admin AS a WHERE a.pool_id = gone.pool_id;
	SELECT * INTO links FROM rpq_store.unlink_pool(subject);
	UPDATE rpq_store.pool AS p SET status = 'deleted', deleted_at = rpq.now() WHERE p.pool_id = gone.pool_id;
	PERFORM rpq_store.record(subject.action, 'pool', gone.pool_id, gone.name, gone.tenant_id, gone.pool_id,
		before || jsonb_build_object('nodes', names, 'members', members, 'profiles', links.profiles), NULL,
		subject.operation_id);
	RETURN jsonb_build_object('nodes', names, 'members', cardinality(members), 'stopped', work.stopped,
		'drafted', work.drafted + links.drafted);
END
$$;
COMMENT ON FUNCTION rpq_store.op_delete(rpq_store.operation) IS
'the operation delete: checks again, and with force stops, drafts, removes and gives back, all in one transaction; '
'returns the nodes'' names and how many members, stopped and drafted workloads there were';

-- A submission that was under way when the pool, or queue, was deleted commits into it afterwards.  What its client has
-- in hand is looked at again by the next cycle, since the turn moves on.
CREATE OR REPLACE FUNCTION rpq_store.draft_late(scope_id bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	is_queue boolean := EXISTS (SELECT FROM rpq_store.queue AS q WHERE q.queue_id = draft_late.scope_id);
	drafted int := rpq_store.draft_queued(draft_late.scope_id, NULL,
		CASE WHEN is_queue THEN 'queue_deleted' ELSE 'pool_deleted' END,
		CASE WHEN is_queue THEN 'the queue was deleted' ELSE 'the pool was deleted' END, 'system');
BEGIN
	UPDATE rpq_store.turn AS t SET room_epoch = t.room_epoch + 1
	WHERE t.scope_id = draft_late.scope_id
	  AND EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.scope_id = t.scope_id AND w.status = 'queued');
	RETURN drafted;
END
$$;
COMMENT ON FUNCTION rpq_store.draft_late(bigint) IS
'makes drafts of what came into a pool or queue after it was deleted; returns how many. The caller holds its turn';

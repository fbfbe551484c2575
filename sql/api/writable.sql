-- The views that applications may write.  The triggers run with the writer's own rights and call the public functions:
-- what these check, lock and record is theirs.  A trigger's arguments are the columns that may be written; any other
-- that is given (INSERT) or changed (UPDATE) is a fact, and refused.  Each returns the row as it now is.

CREATE OR REPLACE FUNCTION rpq_store.workloads_insert() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	facts text;
	id bigint;
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value <> 'null' AND (n.key <> ALL (TG_ARGV) OR (n.key = 'status' AND n.value <> '"draft"'));
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.workloads that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s; of status, draft alone.', array_to_string(TG_ARGV, ', '));
	END IF;
	id := rpq.submit(pool => NEW.pool, queue => NEW.queue, workload_type => NEW.workload_type,
		resources => NEW.resources, instance_types => NEW.instance_types, name => NEW.name, replicas => NEW.replicas,
		priority => NEW.priority,
		guarantee => NEW.guarantee, max_runtime => NEW.max_runtime, checkpointable => NEW.checkpointable,
		on_node_loss => NEW.on_node_loss, request_id => NEW.request_id, labels => NEW.labels, spec => NEW.spec,
		draft => NEW.status IS NOT NULL, account => NEW.account);
	SELECT w.* INTO NEW FROM rpq.workloads w WHERE w.workload_id = id;
	IF NOT FOUND THEN		-- a request_id that was given before, whose workload has ended
		SELECT w.* INTO NEW FROM rpq.workload_history w WHERE w.workload_id = id;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.workloads_insert() IS 'INSERT INTO rpq.workloads: rpq.submit with the columns given';

CREATE OR REPLACE FUNCTION rpq_store.workloads_update() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	facts text;
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> ALL (TG_ARGV);
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.workloads that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s.', array_to_string(TG_ARGV, ', '));
	END IF;
	IF NEW.name IS NULL AND OLD.name IS NOT NULL OR NEW.priority IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'name and priority of a workload cannot be set back to none';
	END IF;
	IF NEW.status IS DISTINCT FROM OLD.status AND NEW.status IS DISTINCT FROM 'stopped' THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'the status of a workload can be set to stopped alone',
			DETAIL = format('It is %s, not %s.', OLD.status, coalesce(NEW.status, 'NULL')),
			HINT = 'Drafts are queued by rpq.enqueue; everything else follows from the scheduler and from reports.';
	END IF;
	IF ROW(NEW.priority, NEW.name, NEW.labels) IS DISTINCT FROM ROW(OLD.priority, OLD.name, OLD.labels) THEN
		PERFORM rpq.edit_workload(OLD.workload_id,
			priority => CASE WHEN NEW.priority <> OLD.priority THEN NEW.priority END,
			name => CASE WHEN NEW.name IS DISTINCT FROM OLD.name THEN NEW.name END,
			labels => CASE WHEN NEW.labels IS DISTINCT FROM OLD.labels THEN coalesce(NEW.labels, '{}') END);
	END IF;
	IF NEW.status <> OLD.status THEN
		PERFORM rpq.stop(OLD.workload_id);
	END IF;
	SELECT w.* INTO NEW FROM rpq.workloads w WHERE w.workload_id = OLD.workload_id;
	IF NOT FOUND THEN
		SELECT w.* INTO NEW FROM rpq.workload_history w WHERE w.workload_id = OLD.workload_id;
		IF NOT FOUND THEN	-- a draft that was never submitted is in neither once it is stopped
			NEW := OLD;
			NEW.status := 'stopped';
		END IF;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.workloads_update() IS
	'UPDATE of rpq.workloads: rpq.edit_workload with what differs, and rpq.stop for status = stopped';

CREATE OR REPLACE FUNCTION rpq_store.pools_update() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET rpq.synchronous_operations = on
AS $$
DECLARE
	facts text;
	quota jsonb;
	changed boolean := false;
	now_row jsonb := to_jsonb(NEW);
	old_row jsonb := to_jsonb(OLD);
	cleared text[];
	e rpq.pools;		-- what differs; the rest is NULL, which stays as it is
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> ALL (TG_ARGV);
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.pools that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s.', array_to_string(TG_ARGV, ', '));
	END IF;
	IF now_row -> 'total' IS DISTINCT FROM old_row -> 'total' THEN
		IF NEW.total IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'total must be given';
		END IF;
		-- what it holds of other resources may stand beside the one in which machines are counted
		SELECT jsonb_object_agg(n.key, n.value) INTO quota
		  FROM jsonb_each(CAST(NEW.total AS jsonb)) n
		 WHERE n.value IS DISTINCT FROM CAST(OLD.total AS jsonb) -> n.key;
		IF quota IS NOT NULL THEN
			PERFORM rpq.resize_pool(OLD.tenant || '/' || OLD.name, quota => CAST(quota AS rpq.resources));
		END IF;
		now_row := now_row || jsonb_build_object('total', old_row -> 'total');
		changed := true;
	END IF;
	IF now_row <> old_row THEN
		SELECT array_agg(n.key) INTO cleared
		  FROM jsonb_each(now_row) n WHERE n.value = 'null' AND old_row -> n.key <> 'null';
		e.description := CASE WHEN NEW.description IS DISTINCT FROM OLD.description THEN NEW.description END;
		e.workload_types := CASE WHEN NEW.workload_types IS DISTINCT FROM OLD.workload_types
								 THEN NEW.workload_types END;
		e.user_default_quota := CASE WHEN now_row -> 'user_default_quota' <> old_row -> 'user_default_quota'
									 THEN NEW.user_default_quota END;
		e.project_group := CASE WHEN NEW.project_group IS DISTINCT FROM OLD.project_group THEN NEW.project_group END;
		PERFORM rpq.edit_pool(OLD.tenant || '/' || OLD.name, description => e.description,
			workload_types => e.workload_types, user_default_quota => e.user_default_quota,
			project_group => e.project_group,
			scheduling_policy => nullif(NEW.scheduling_policy, OLD.scheduling_policy),
			queueing => nullif(NEW.queueing, OLD.queueing),
			default_priority => nullif(NEW.default_priority, OLD.default_priority),
			allow_guarantee => nullif(NEW.allow_guarantee, OLD.allow_guarantee),
			frozen => nullif(NEW.frozen, OLD.frozen),
			faulty_node_rotation => nullif(NEW.faulty_node_rotation, OLD.faulty_node_rotation),
			idle_time_sharing => nullif(NEW.idle_time_sharing, OLD.idle_time_sharing),
			min_runtime => nullif(NEW.min_runtime, OLD.min_runtime), open => nullif(NEW.open, OLD.open),
			isolate_accounts => nullif(NEW.isolate_accounts, OLD.isolate_accounts), clear => cleared);
		changed := true;
	END IF;
	IF changed THEN
		SELECT p.* INTO NEW FROM rpq.pools p WHERE p.pool_id = OLD.pool_id;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.pools_update() IS
	'UPDATE of rpq.pools: rpq.resize_pool, at once, for the total, and rpq.edit_pool with what else differs; what '
	'becomes NULL is cleared';

CREATE OR REPLACE FUNCTION rpq_store.members_update() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	facts text;
	quota_differs boolean := to_jsonb(NEW) -> 'quota' IS DISTINCT FROM to_jsonb(OLD) -> 'quota';
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> ALL (TG_ARGV);
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.members that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s.', array_to_string(TG_ARGV, ', '));
	END IF;
	IF NEW.max_priority IS NULL OR NEW.guarantee IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'max_priority and guarantee of a member must be given';
	END IF;
	IF NEW IS DISTINCT FROM OLD OR quota_differs THEN
		PERFORM rpq.update_members(OLD.tenant || '/' || OLD.pool, ARRAY[OLD.account],
			quota => CASE WHEN quota_differs THEN NEW.quota END,
			instance_type => CASE WHEN quota_differs THEN OLD.instance_type END,
			max_priority => nullif(NEW.max_priority, OLD.max_priority),
			guarantee => nullif(NEW.guarantee, OLD.guarantee),
			config_mode => CASE WHEN quota_differs AND NEW.quota IS NULL THEN 'default' END);
		SELECT m.* INTO NEW FROM rpq.members m
		 WHERE m.pool_id = OLD.pool_id AND m.account_id = OLD.account_id
		   AND m.instance_type IS NOT DISTINCT FROM OLD.instance_type;
		IF NOT FOUND THEN	-- a quota for one instance type that went back to the default, where there is none
			NEW := OLD;
			NEW.quota := '';
			NEW.config_mode := 'default';
		END IF;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.members_update() IS
	'UPDATE of rpq.members: rpq.update_members with what differs; quota NULL goes back to the default';

-- Granted by column list: a right on a whole view would let its holder lock the tables behind it.

CREATE OR REPLACE TRIGGER submit INSTEAD OF INSERT ON rpq.workloads FOR EACH ROW
	EXECUTE FUNCTION rpq_store.workloads_insert(
		'pool', 'queue', 'workload_type', 'resources', 'instance_types', 'name', 'replicas', 'priority',
		'guarantee', 'max_runtime', 'checkpointable', 'on_node_loss', 'request_id', 'labels', 'spec',
		'account', 'status');
COMMENT ON TRIGGER submit ON rpq.workloads IS 'submits';
GRANT INSERT (pool, queue, workload_type, resources, instance_types, name, replicas, priority, guarantee,
	max_runtime, checkpointable, on_node_loss, request_id, labels, spec, account, status) ON rpq.workloads TO PUBLIC;

CREATE OR REPLACE TRIGGER edit INSTEAD OF UPDATE ON rpq.workloads FOR EACH ROW
	EXECUTE FUNCTION rpq_store.workloads_update(
		'status', 'priority', 'name', 'labels');
COMMENT ON TRIGGER edit ON rpq.workloads IS 'edits and stops';
GRANT UPDATE (status, priority, name, labels) ON rpq.workloads TO PUBLIC;

CREATE OR REPLACE TRIGGER edit INSTEAD OF UPDATE ON rpq.pools FOR EACH ROW
	EXECUTE FUNCTION rpq_store.pools_update(
		'description', 'workload_types', 'scheduling_policy', 'queueing', 'default_priority',
		'user_default_quota', 'project_group', 'allow_guarantee', 'frozen', 'faulty_node_rotation',
		'idle_time_sharing', 'min_runtime', 'open', 'isolate_accounts', 'total');
COMMENT ON TRIGGER edit ON rpq.pools IS 'edits the settings, resizes';
GRANT UPDATE (description, workload_types, scheduling_policy, queueing, default_priority, user_default_quota,
	project_group, allow_guarantee, frozen, faulty_node_rotation, idle_time_sharing, min_runtime, open,
	isolate_accounts, total) ON rpq.pools TO PUBLIC;

CREATE OR REPLACE TRIGGER edit INSTEAD OF UPDATE ON rpq.members FOR EACH ROW
	EXECUTE FUNCTION rpq_store.members_update(
		'quota', 'max_priority', 'guarantee');
COMMENT ON TRIGGER edit ON rpq.members IS 'edits the settings';
GRANT UPDATE (quota, max_priority, guarantee) ON rpq.members TO PUBLIC;

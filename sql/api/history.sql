-- The operation history: record() for administrators' functions, triggers for what goes past them.
--
-- record() inserts into history, nothing else.  The triggers stand on configuration tables and act only while
-- rpq.action is empty, which it is not inside the functions.  History takes no lock that anybody waits for.

CREATE OR REPLACE FUNCTION rpq_store.changed_keys(value jsonb, other jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_object_agg(k.key, value -> k.key), '{}')
	FROM (SELECT jsonb_object_keys(value) UNION SELECT jsonb_object_keys(other)) AS k (key)
	WHERE (value -> k.key) IS DISTINCT FROM (other -> k.key)
$$;
COMMENT ON FUNCTION rpq_store.changed_keys(jsonb, jsonb) IS
'the keys in which two objects differ, with the values of the first (null where it lacks one)';

CREATE OR REPLACE FUNCTION rpq_store.record(action text, object_kind text, object_id bigint, object text,
	tenant_id bigint, pool_id bigint, old jsonb, new jsonb, operation_id bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity;
	asked rpq_store.operation;
	before jsonb := old;
	after jsonb := new;
BEGIN
	IF before IS NOT NULL AND after IS NOT NULL THEN
		before := rpq_store.changed_keys(old, new);
		after := rpq_store.changed_keys(new, old);
		IF after = '{}' THEN
			RETURN;
		END IF;
	END IF;
	-- what is carried out later is by the one who asked for it, whoever carries it out
	IF operation_id IS NOT NULL THEN
		SELECT o.* INTO asked FROM rpq_store.operation o WHERE o.operation_id = record.operation_id;
	END IF;
	IF asked.operation_id IS NULL THEN
		me := rpq_store.caller();
	END IF;
	INSERT INTO rpq_store.history (tenant_id, at, actor, on_behalf_of, db_role, application_name, object_kind,
		object_id, object, pool_id, action, operation_id, old, new)
	VALUES (record.tenant_id, rpq.now(), coalesce(asked.initiator, me.actor),
		CASE WHEN asked.operation_id IS NULL THEN me.on_behalf_of ELSE asked.on_behalf_of END,
		coalesce(asked.db_role, me.db_role, session_user),
		CASE WHEN asked.operation_id IS NULL THEN nullif(current_setting('application_name'), '')
			 ELSE asked.application_name END,
		record.object_kind, record.object_id, record.object, record.pool_id, record.action, record.operation_id,
		before, after);
END
$$;
COMMENT ON FUNCTION rpq_store.record(text, text, bigint, text, bigint, bigint, jsonb, jsonb, bigint) IS
'writes one row of the operation history: with old and new the changed keys alone, and nothing when they are '
'equal. With an operation the row is by the one who asked for it';

-- Changes past the functions are recorded as what they are.  Arguments: object kind, column of the id, column of the
-- name ('' = none).
CREATE OR REPLACE FUNCTION rpq_store.record_raw_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	before jsonb := to_jsonb(OLD);
	after jsonb;
	home bigint;
	name text;
BEGIN
	IF TG_OP = 'UPDATE' THEN
		after := to_jsonb(NEW);
	END IF;
	-- rows that belong to a pool or an account have their tenant, and their name, from there
	SELECT coalesce((before ->> 'tenant_id')::bigint, p.tenant_id, a.tenant_id), coalesce(before ->> TG_ARGV[2], a.name)
	INTO home, name
	FROM (SELECT) AS one
	LEFT JOIN rpq_store.pool p ON p.pool_id = (before ->> 'pool_id')::bigint
	LEFT JOIN rpq_store.account a ON a.account_id = (before ->> 'account_id')::bigint;
	PERFORM rpq_store.record(lower(TG_OP), TG_ARGV[0], (before ->> TG_ARGV[1])::bigint, name, home,
		(before ->> 'pool_id')::bigint, before, after);
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION rpq_store.record_raw_change() IS
'trigger: writes a history row for a change of configuration that was made past the functions';

CREATE OR REPLACE FUNCTION rpq_store.keep_history() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF TG_OP = 'DELETE' AND current_setting('rpq.action', true) = 'retention' THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the operation history cannot be changed',
		HINT = 'What has happened stays recorded; a change that was wrong is undone by another change.';
END
$$;
COMMENT ON FUNCTION rpq_store.keep_history() IS
'trigger: refuses every change of the operation history but its retention';

CREATE OR REPLACE TRIGGER keep_history BEFORE UPDATE OR DELETE ON rpq_store.history
FOR EACH ROW EXECUTE FUNCTION rpq_store.keep_history();
CREATE OR REPLACE TRIGGER keep_all_history BEFORE TRUNCATE ON rpq_store.history
FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.keep_history();

-- A node's signs of life (silent, reported, usable) are facts and leave no row.
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.tenant FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('tenant', 'tenant_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.cluster FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('cluster', 'cluster_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.instance_type FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('instance_type', 'type_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.account FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('account', 'account_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.user_group FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('user_group', 'group_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.group_account FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('group_account', 'group_id', '');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.project_group FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('project_group', 'project_group_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.workload_type FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('workload_type', 'workload_type_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.pool FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('pool', 'pool_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.pool_instance FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('pool_instance', 'pool_instance_id', '');
CREATE OR REPLACE TRIGGER record_raw_change AFTER DELETE
	OR UPDATE OF name, pool_id, type_id, capacity, schedulable, draining, health, health_reason, labels, provider_id
	ON rpq_store.node FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('node', 'node_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.member FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('member', 'member_id', '');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.member_quota FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('member_quota', 'member_quota_id', '');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.pool_admin FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('pool_admin', 'account_id', '');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.policy FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('policy', 'policy_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.profile FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('profile', 'profile_id', 'name');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.profile_pool FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('profile_pool', 'profile_id', '');
CREATE OR REPLACE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.queue FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('queue', 'queue_id', 'name');

COMMENT ON TRIGGER record_raw_change ON rpq_store.tenant IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.cluster IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.instance_type IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.account IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.user_group IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.group_account IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.project_group IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.workload_type IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.pool IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.pool_instance IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.node IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.member IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.member_quota IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.pool_admin IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.policy IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.profile IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.profile_pool IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.queue IS 'records what is changed past the functions';
COMMENT ON TRIGGER keep_history ON rpq_store.history IS 'history is never changed';
COMMENT ON TRIGGER keep_all_history ON rpq_store.history IS 'history is never emptied';

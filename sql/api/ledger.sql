-- The ledger's private side: turns, folding, and the view of entries that no fold has counted yet.

CREATE OR REPLACE VIEW rpq_store.uncounted AS
SELECT e.*
  FROM rpq_store.turn t
 CROSS JOIN LATERAL (
	SELECT * FROM rpq_store.entry e
	 WHERE e.scope_id = t.scope_id AND e.xid >= pg_snapshot_xmax(t.seen) AND e.xid <> t.own_xid
	UNION ALL
	SELECT e.* FROM pg_snapshot_xip(t.seen) x CROSS JOIN LATERAL (
		-- by index for each x, whatever the statistics say
		SELECT * FROM rpq_store.entry e WHERE e.scope_id = t.scope_id AND e.xid = x AND e.xid <> t.own_xid OFFSET 0) e
	UNION ALL
	SELECT * FROM rpq_store.entry e
	 WHERE e.scope_id = t.scope_id AND e.xid = t.own_xid AND e.entry_id + 0 > t.own_entry) e;
COMMENT ON VIEW rpq_store.uncounted IS
	'entries that the balances (usage, lane, node_load, pod) do not contain yet: balance + uncounted is exact in any '
	'snapshot';

CREATE OR REPLACE FUNCTION rpq_store.take_turns(scopes bigint[]) RETURNS void
	LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_take_turns';
COMMENT ON FUNCTION rpq_store.take_turns(bigint[]) IS
	'locks the turns of the scopes, and of all that are connected with them, in id order, changes them, and wakes the '
	'worker at commit; 42704 for a scope without turn, 55P03 when more were connected meanwhile that cannot be had in '
	'order, RQ009 on a fenced database';

CREATE OR REPLACE FUNCTION rpq_store.connected(scopes bigint[]) RETURNS bigint[]
	LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_connected';
COMMENT ON FUNCTION rpq_store.connected(bigint[]) IS
	'the scopes and all that are decided about together with them: queues and their pools, queues of one policy and '
	'the pools in which it holds something, pools that lend and borrow idle room; ascending';

CREATE OR REPLACE FUNCTION rpq_store.sets_changed() RETURNS void
	LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_sets_changed';
COMMENT ON FUNCTION rpq_store.sets_changed() IS
	'tells every session that queues or the pools of profiles were added, so that it looks up anew what is connected; '
	'new_scope calls it, and triggers when such rows are changed or deleted';

CREATE OR REPLACE FUNCTION rpq_store.new_scope(scope_id bigint) RETURNS void
	LANGUAGE sql SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO rpq_store.turn (scope_id, seen, own_xid)
	VALUES (new_scope.scope_id, pg_current_snapshot(), pg_current_xact_id());
	SELECT rpq_store.sets_changed();
END;
COMMENT ON FUNCTION rpq_store.new_scope(bigint) IS
	'makes the turn of a new pool or queue, in the transaction that makes the scope';

CREATE OR REPLACE FUNCTION rpq_store.fold(scopes bigint[]) RETURNS void
	LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_fold';
COMMENT ON FUNCTION rpq_store.fold(bigint[]) IS
	'counts every visible entry of the scopes, and of all that are connected with them, into the balances; the caller '
	'holds their turns';

CREATE OR REPLACE FUNCTION rpq_store.is_platform_role(db_role text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT FROM pg_roles r CROSS JOIN pg_extension e
		 WHERE e.extname = 'rpq' AND r.rolname = is_platform_role.db_role AND pg_has_role(r.oid, e.extowner, 'MEMBER'));
END;
COMMENT ON FUNCTION rpq_store.is_platform_role(text) IS
'true for a superuser and a member of the role that owns the extension: its account may submit everywhere';

-- What submissions look up is kept per session (src/api/config_cache.c) and thrown away when one of its tables changes.
-- Rows that are added are announced by take_turns, which every function that adds them calls: nothing fires in a
-- restore.
CREATE OR REPLACE FUNCTION rpq_store.config_changed() RETURNS trigger
LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_config_changed';
COMMENT ON FUNCTION rpq_store.config_changed() IS
	'statement trigger: tells every session to look its configuration up anew';
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.account
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.fence
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.group_account
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.instance_type
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.member
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.member_quota
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.node
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.policy
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool_admin
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool_capacity
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool_instance
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.profile
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.profile_pool
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.queue
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.tenant
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE OR REPLACE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.workload_type
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();

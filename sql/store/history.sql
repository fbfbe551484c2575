-- The operation history: append-only, written in the transaction of the change that it records.

CREATE TABLE rpq_store.history (
	history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint,
	at timestamptz NOT NULL,
	recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor text NOT NULL,
	on_behalf_of text,
	db_role text NOT NULL,
	application_name text,
	object_kind text NOT NULL,
	object_id bigint,
	object text,
	pool_id bigint,
	action text NOT NULL,
	operation_id bigint,
	old jsonb,
	new jsonb
);
CREATE INDEX history_pool ON rpq_store.history (pool_id, at);
CREATE INDEX history_actor ON rpq_store.history (actor, at);
CREATE INDEX history_tenant ON rpq_store.history (tenant_id, at);
CREATE INDEX history_object ON rpq_store.history (object_kind, object_id);
CREATE INDEX history_at ON rpq_store.history USING brin (at);

COMMENT ON TABLE rpq_store.history IS
'the operation history: a row for each object that an administrative call named, never changed';
COMMENT ON COLUMN rpq_store.history.history_id IS 'id';
COMMENT ON COLUMN rpq_store.history.tenant_id IS 'tenant of the object; NULL for what has none';
COMMENT ON COLUMN rpq_store.history.at IS 'when, by rpq.now()';
COMMENT ON COLUMN rpq_store.history.recorded_at IS 'the true time';
COMMENT ON COLUMN rpq_store.history.actor IS
'account whose rights were used, or the role''s name where there is none';
COMMENT ON COLUMN rpq_store.history.on_behalf_of IS
'the account again, when it came through a gateway or a platform admin acted for it';
COMMENT ON COLUMN rpq_store.history.db_role IS 'the PostgreSQL role in force';
COMMENT ON COLUMN rpq_store.history.application_name IS 'of the session';
COMMENT ON COLUMN rpq_store.history.object_kind IS 'what kind of object';
COMMENT ON COLUMN rpq_store.history.object_id IS 'its id';
COMMENT ON COLUMN rpq_store.history.object IS 'its name; of a member, pool admin or group row the account''s';
COMMENT ON COLUMN rpq_store.history.pool_id IS 'pool that it is about, if any';
COMMENT ON COLUMN rpq_store.history.action IS 'function called; update or delete for a change past the functions';
COMMENT ON COLUMN rpq_store.history.operation_id IS 'the operation that did it, if any';
COMMENT ON COLUMN rpq_store.history.old IS 'values before, changed keys alone';
COMMENT ON COLUMN rpq_store.history.new IS 'values after, changed keys alone';

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

-- 0.9 → 1.0: the change of shape alone.  The functions, views, triggers and grants of 1.0 follow it in the script that
-- make assembles.

ALTER TABLE rpq_store.hold ADD COLUMN expires_at timestamptz;
COMMENT ON COLUMN rpq_store.hold.expires_at IS 'given up after; NULL: never';
CREATE INDEX hold_scope ON rpq_store.hold (scope_id, expires_at);
CREATE INDEX history_object ON rpq_store.history (object_kind, object_id);

-- 0.9 → 1.0: the change of shape alone.  The functions, views, triggers and grants of 1.0 follow it in the script that
-- make assembles.

ALTER TABLE rpq_store.node ADD COLUMN autoscaler_instance_id bigint;
COMMENT ON COLUMN rpq_store.node.autoscaler_instance_id IS 'the autoscaler''s instance that it came from';
CREATE INDEX history_object ON rpq_store.history (object_kind, object_id);

-- 0.9 → 1.0: the change of shape alone.  The functions, views, triggers and grants of 1.0 follow it in the script that
-- make assembles.

CREATE INDEX history_object ON rpq_store.history (object_kind, object_id);
CREATE INDEX pod_migration_workload ON rpq_store.pod_migration (workload_id);

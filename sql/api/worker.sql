-- worker: what SQL sees of the worker, and how it reaches it.  No table is read or written here: all of it is in
-- shared memory, and there is nothing of it when the library is not preloaded.

CREATE OR REPLACE FUNCTION rpq_store.worker_status(
	OUT worker_id bigint, OUT pid integer, OUT state text, OUT started_at timestamptz, OUT last_cycle timestamptz,
	OUT cycles bigint, OUT last_error text, OUT last_error_at timestamptz)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_worker_status';
COMMENT ON FUNCTION rpq_store.worker_status() IS
'The worker that has served this database, as rpq.workers shows it: one row, none before the first worker, none
without preload, and none for anybody but platform administrators, whom it looks for itself.';
-- the view below calls it with the reader's rights
GRANT EXECUTE ON FUNCTION rpq_store.worker_status() TO PUBLIC;

CREATE OR REPLACE VIEW rpq.workers WITH (security_barrier) AS
SELECT w.worker_id, w.pid, w.state, w.started_at, w.last_cycle, w.cycles, w.last_error, w.last_error_at
FROM rpq_store.worker_status() AS w;
COMMENT ON VIEW rpq.workers IS
'The worker that has served this database since the server started; platform administrators alone see it. No row: the
database is not listed in rpq.databases, or rpq is not in shared_preload_libraries.';
COMMENT ON COLUMN rpq.workers.worker_id IS
'Number of the worker''s place in the server. It stays the same while workers of this database replace one another.';
COMMENT ON COLUMN rpq.workers.pid IS 'Process id, as in pg_stat_activity; NULL when there is no process.';
COMMENT ON COLUMN rpq.workers.state IS
'running: cycles follow one another. paused: after an error, or while the extension''s version is not the library''s.
waiting: starting, or fenced (see last_error), or the extension is being dropped or updated. stopped: no process.';
COMMENT ON COLUMN rpq.workers.started_at IS 'When the present, or the last, process started.';
COMMENT ON COLUMN rpq.workers.last_cycle IS 'When the last cycle ended without an error, by the true clock.';
COMMENT ON COLUMN rpq.workers.cycles IS 'Cycles that ended without an error since the server started.';
COMMENT ON COLUMN rpq.workers.last_error IS
'SQLSTATE and message of the last cycle that failed, or why the worker does nothing (fenced). It stays when cycles
succeed again: compare last_error_at with last_cycle.';
COMMENT ON COLUMN rpq.workers.last_error_at IS 'When last_error was met, by the true clock.';
GRANT SELECT ON rpq.workers TO PUBLIC;

CREATE OR REPLACE FUNCTION rpq_store.wake() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_wake';
COMMENT ON FUNCTION rpq_store.wake() IS
'Wakes the worker of this database when, and if, the present transaction commits. Nothing happens where there is no
worker.';
REVOKE ALL ON FUNCTION rpq_store.wake() FROM PUBLIC;

CREATE OR REPLACE FUNCTION rpq_store.wake(scope_id bigint) RETURNS void
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_wake_scope';
COMMENT ON FUNCTION rpq_store.wake(bigint) IS
'The same for what concerns one pool or queue alone: the others are not looked at.';
REVOKE ALL ON FUNCTION rpq_store.wake(bigint) FROM PUBLIC;

CREATE OR REPLACE FUNCTION rpq_store.require_worker() RETURNS void
LANGUAGE c VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_require_worker_sql';
COMMENT ON FUNCTION rpq_store.require_worker() IS
'Raises 55000 with a hint when the library is not preloaded, for calls that make no sense without a worker.';
REVOKE ALL ON FUNCTION rpq_store.require_worker() FROM PUBLIC;

CREATE OR REPLACE FUNCTION rpq_store.poke_launcher() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_poke_launcher';
COMMENT ON FUNCTION rpq_store.poke_launcher() IS
'Asks the launcher, when the present transaction commits, to look for the extension in this database again.';
REVOKE ALL ON FUNCTION rpq_store.poke_launcher() FROM PUBLIC;

-- the extension is here from the commit of this script on
SELECT rpq_store.poke_launcher();

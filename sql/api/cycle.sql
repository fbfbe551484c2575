-- The cycle: scheduling by hand, dry runs, and what the worker calls.

CREATE OR REPLACE FUNCTION rpq.schedule(pool text DEFAULT NULL, dry_run boolean DEFAULT NULL)
RETURNS SETOF rpq.schedule_decision
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_schedule';
COMMENT ON FUNCTION rpq.schedule(text, boolean) IS
'runs one cycle in the caller''s transaction. pool: which (NULL: all that the caller administers); dry_run: decides '
'on the caller''s snapshot, locks and writes nothing, shows every workload that waits, of those that the caller may '
'see. Returns what was decided: victims, then what is admitted, in the order considered, then what waits. Errors: '
'42704, 42501, RQ009 fenced; 40001 when overtaken above READ COMMITTED. Callers: administrators of the pool; with '
'dry_run everyone who sees it';

CREATE OR REPLACE FUNCTION rpq_store.run_cycles(OUT more boolean, OUT changed int, OUT summary text)
LANGUAGE c VOLATILE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_run_cycles';
COMMENT ON FUNCTION rpq_store.run_cycles() IS
'one cycle over every scope that has something to do and whose turn nobody else holds; more: the batch cut one off; '
'changed: entries counted and workloads admitted; summary: the same as json';

CREATE OR REPLACE FUNCTION rpq_store.worker_cycle(OUT more boolean, OUT changed int, OUT summary text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	carried int;
BEGIN
	more := false;
	changed := 0;
	-- without a fence nothing has been stored, or a restore is still on its way to it
	IF NOT EXISTS (SELECT FROM rpq_store.fence) THEN
		RETURN;
	ELSIF rpq_store.is_fenced() THEN
		summary := 'fenced';
		RETURN;
	END IF;
	carried := rpq_store.run_pending_operations() + rpq_store.run_rotations(NULL, '1 s');
	SELECT c.more, c.changed + carried, c.summary INTO more, changed, summary FROM rpq_store.run_cycles() c;
	-- the next step follows at once; where all wait, or others have the turns, there was none
	more := more OR (carried > 0 AND EXISTS (SELECT FROM rpq_store.due_operations()));
END
$$;
COMMENT ON FUNCTION rpq_store.worker_cycle() IS
'what the worker does at each round, as one transaction: one step of an operation, swaps of faulty nodes, then a cycle '
'over what is due';

CREATE OR REPLACE FUNCTION rpq.explain(workload bigint)
RETURNS TABLE (step int, check_name text, passed boolean, wanted rpq.resources, available rpq.resources, detail text,
	way_out text)
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_explain';
COMMENT ON FUNCTION rpq.explain(bigint) IS
'every check that applies to a queued workload or a draft, on the present snapshot: check_name is the reason code '
'that its failing gives; wanted and available are the figures compared; way_out is the exact change that lifts a '
'limit, or what would have to leave. No rows for what is neither queued nor a draft. Errors: 42704, 22023. Callers: '
'everyone who sees the workload';

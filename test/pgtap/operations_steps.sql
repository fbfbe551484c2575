-- The frame of staged operations: steps, waiting, failure and undo, cancelling, owner and lease, synchronous mode.
-- What the kind does is a script of this test: each step takes the next word of arguments.script.
SELECT no_plan();
SET client_min_messages = warning;
DO $$
BEGIN
	PERFORM rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_instance_type('h100', 'gpu', 'gpu=8');
	PERFORM rpq.add_nodes('h100', count => 4, prefix => 'n');
	SET rpq.synchronous_operations = on;
	PERFORM rpq.create_pool('d1', 'dedicated', quota => 'gpu=8'), rpq.create_pool('d2', 'dedicated', quota => 'gpu=8');
	SET rpq.synchronous_operations = off;
END
$$;
CREATE TABLE undone (operation_id bigint);
CREATE OR REPLACE FUNCTION rpq_store.op_defragment(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	script text[] := string_to_array(subject.arguments->>'script', ' ');
	place int := coalesce((subject.state->>'place')::int, 0) + 1;
BEGIN
	IF place > cardinality(script) THEN
		RETURN '{"through": true}';
	ELSIF script[place] = 'wait' AND NOT EXISTS (SELECT FROM rpq_store.pool WHERE description = 'go on') THEN
		RETURN NULL;
	ELSIF script[place] = 'fail' THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'the target is full', DETAIL = 'by the script';
	ELSIF script[place] = 'locked' AND NOT EXISTS (SELECT FROM rpq_store.pool WHERE description = 'go on') THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'somebody has it';
	END IF;
	UPDATE rpq_store.operation AS o
	SET step = script[place], progress = place / cardinality(script)::numeric, state = jsonb_build_object('place', place)
	WHERE o.operation_id = subject.operation_id;
	RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION rpq_store.undo_defragment(subject rpq_store.operation) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	INSERT INTO public.undone SELECT subject.operation_id
$$;
CREATE FUNCTION pg_temp.ask(pool text, script text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	subject bigint := (SELECT pool_id FROM rpq_store.pool WHERE name = $1 AND status <> 'deleted');
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[subject]), rpq_store.check_free(ARRAY[subject]);
	RETURN rpq_store.open_operation('defragment', 'defragment', subject, ARRAY[subject],
		jsonb_build_object('script', $2));
END
$$;
CREATE FUNCTION pg_temp.now_is(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', o.status, o.step, round(o.progress, 2), p.status, 'attempts ' || o.attempts, o.error_code, o.error,
		CASE WHEN EXISTS (SELECT FROM rpq_store.operation_pool AS h WHERE h.operation_id = id) THEN 'held' END)
	FROM rpq_store.operation AS o JOIN rpq_store.pool AS p USING (pool_id) WHERE o.operation_id = id
$$;
CREATE FUNCTION pg_temp.let_time_pass() RETURNS void LANGUAGE sql AS $$
	UPDATE rpq_store.operation SET tried_at = tried_at - interval '1 minute' WHERE waiting
$$;

-- steps: each a transaction of its own; two operations take turns
SELECT pg_temp.ask('d1', 'a b') AS a, pg_temp.ask('d2', 'x y') AS b \gset
SELECT is(pg_temp.now_is(:a), 'pending 0.00 updating attempts 0 held', 'asked for');
SELECT throws_ok($$SELECT pg_temp.ask('d1', 'a')$$, 'RQ004', 'an operation is open on pool "d1"', 'one at a time');
SELECT is(rpq_store.run_pending_operations(), 1, 'a step');
SELECT is(pg_temp.now_is(:a), 'running a 0.50 updating attempts 1 held', 'the first has made its first step');
SELECT is(pg_temp.now_is(:b), 'pending 0.00 updating attempts 0 held', 'the other is next');
SELECT is(step || ' ' || progress::numeric(3, 2), 'a 0.50', 'the view shows step and progress') FROM rpq.operations WHERE operation_id = :a;
SELECT sum(rpq_store.run_pending_operations()) FROM generate_series(1, 5);
SELECT is(pg_temp.now_is(:a), 'succeeded b 1.00 ready attempts 1', 'through');
SELECT is(pg_temp.now_is(:b), 'succeeded y 1.00 ready attempts 1', 'through');
SELECT is(result, '{"through": true}', 'the result') FROM rpq.operations WHERE operation_id = :a;
SELECT is(rpq_store.run_pending_operations(), 0, 'nothing is left');

-- waiting: passed over until its turns have moved, or the interval is over; others go on
SELECT pg_temp.ask('d1', 'a wait b') AS a \gset
SELECT is(array_agg(rpq_store.run_pending_operations() ORDER BY i), '{1,0,0}', 'one step, then it waits') FROM generate_series(1, 3) AS i;
SELECT is(pg_temp.now_is(:a), 'running a 0.33 updating attempts 1 held', 'it waits');
SELECT is((SELECT count(*)::int FROM rpq_store.due_operations()), 0, 'and is not looked at');
SELECT room_epoch AS before FROM rpq_store.turn WHERE scope_id = (SELECT pool_id FROM rpq_store.pool WHERE name = 'd1') \gset
SELECT pg_temp.let_time_pass();
SELECT is(rpq_store.run_pending_operations(), 0, 'after the interval it is looked at, in vain');
SELECT is(room_epoch, :before::bigint, 'which moves nobody''s turn') FROM rpq_store.turn WHERE scope_id = (SELECT pool_id FROM rpq_store.pool WHERE name = 'd1');
SELECT rpq.edit_pool('d1', description => 'go on');
SELECT pg_sleep(0.12);
SELECT is((SELECT count(*)::int FROM rpq_store.due_operations()), 1, 'its turn has moved: it is looked at');
SELECT sum(rpq_store.run_pending_operations()) FROM generate_series(1, 4);
SELECT is(pg_temp.now_is(:a), 'succeeded b 1.00 ready attempts 1', 'through');

-- failure: undone if a step was committed, the pool failed; from failed everything may be tried again
SELECT pg_temp.ask('d1', 'a fail') AS a, pg_temp.ask('d2', 'fail') AS b \gset
SELECT sum(rpq_store.run_pending_operations()) FROM generate_series(1, 4);
SELECT is(pg_temp.now_is(:a), 'failed a 0.50 failed attempts 1 RQ006 the target is full: by the script', 'failed');
SELECT is(pg_temp.now_is(:b), 'failed 0.00 failed attempts 1 RQ006 the target is full: by the script', 'failed at once');
SELECT results_eq('SELECT operation_id FROM undone ORDER BY 1', ARRAY[:a::bigint, :b::bigint], 'undone, also what the call had begun');
SELECT rpq.retry_operation(:a) AS again \gset
SELECT is(pg_temp.now_is(:again), 'pending 0.00 updating attempts 0 held', 'tried again, as a new one');
SELECT is(rpq.cancel_operation(:again), true, 'cancelled');
SELECT is(pg_temp.now_is(:again), 'cancelled 0.00 failed attempts 0', 'its pool is as before: failed');
SELECT pg_temp.ask('d2', 'a') AS b \gset
SELECT rpq.run_operations();
SELECT is(pg_temp.now_is(:b), 'succeeded a 1.00 ready attempts 1', 'ready again after one that succeeds');

-- what a new transaction may heal is no failure
SELECT rpq.edit_pool('d1', clear => '{description}');
SELECT pg_temp.ask('d1', 'a locked b') AS a \gset
SELECT is(array_agg(rpq_store.run_pending_operations() ORDER BY i), '{1,0,0}', 'a lock is waited for') FROM generate_series(1, 3) AS i;
SELECT is(pg_temp.now_is(:a), 'running a 0.33 updating attempts 1 held', 'and it stays as it was');
SELECT rpq.edit_pool('d1', description => 'go on');
SELECT is(rpq.run_operations(), 1, 'a person carries it on to its end');
SELECT is(pg_temp.now_is(:a), 'succeeded b 1.00 ready attempts 1', 'through');
SELECT rpq.edit_pool('d1', clear => '{description}');

-- cancelling one that runs: undone at once, since the turns are free
TRUNCATE undone;
SELECT pg_temp.ask('d1', 'a b c') AS a \gset
SELECT rpq_store.run_pending_operations();
SELECT is(rpq.cancel_operation(:a), true, 'cancelled');
SELECT is(pg_temp.now_is(:a), 'cancelled a 0.33 ready attempts 1', 'at once, and the pool is ready');
SELECT is(rpq.cancel_operation(:a), false, 'it had ended');
SELECT is((SELECT count(*)::int FROM undone), 1, 'undone');
SELECT is(old || new, '{"status": "cancelled"}', 'recorded') FROM rpq_store.history WHERE action = 'cancel_operation' AND object = :'a';
-- and one that is marked: by the next step
SELECT pg_temp.ask('d1', 'a wait') AS a \gset
SELECT sum(rpq_store.run_pending_operations()) FROM generate_series(1, 2);
UPDATE rpq_store.operation SET cancelling = true WHERE operation_id = :a;
SELECT is(rpq_store.run_pending_operations(), 1, 'the next step');
SELECT is(pg_temp.now_is(:a), 'cancelled a 0.50 ready attempts 1', 'cancels it');
SELECT is((SELECT count(*)::int FROM undone), 2, 'undone');

-- owner and lease: a living owner is left alone, a dead one or a lease that is over is not
SELECT pg_temp.ask('d1', 'a b c d') AS a \gset
SELECT rpq_store.run_pending_operations();
SELECT is(owner_pid, pg_backend_pid(), 'who stays signs') FROM rpq_store.operation WHERE operation_id = :a;
UPDATE rpq_store.operation SET (owner_pid, owner_started) = (SELECT pid, backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer')
WHERE operation_id = :a;
SELECT is(rpq_store.run_pending_operations(), 0, 'its owner lives');
SELECT is(rpq.run_operations(), 0, 'for a person too');
UPDATE rpq_store.operation SET lease_until = clock_timestamp() - interval '1 s' WHERE operation_id = :a;
SELECT is(rpq_store.run_pending_operations(), 1, 'its lease is over');
SELECT is(pg_temp.now_is(:a), 'running b 0.50 updating attempts 2 held', 'an attempt more');
UPDATE rpq_store.operation SET owner_started = owner_started - interval '1 s' WHERE operation_id = :a;
SELECT is(rpq_store.run_pending_operations(), 1, 'its owner is gone: another process has that number');
SELECT is(pg_temp.now_is(:a), 'running c 0.75 updating attempts 3 held', 'an attempt more');
SELECT is(rpq.run_operations(), 1, 'carried to its end');
SELECT is(pg_temp.now_is(:a), 'succeeded d 1.00 ready attempts 3', 'by the same process: no attempt more');

-- synchronous: to its end in the call; running where something else has to happen; a failure leaves nothing
SET rpq.synchronous_operations = on;
SELECT pg_temp.ask('d1', 'a b c') > 0 AS asked;
SELECT is(pg_temp.now_is((SELECT max(operation_id) FROM rpq_store.operation)), 'succeeded c 1.00 ready attempts 1', 'carried out');
SELECT throws_ok($$SELECT pg_temp.ask('d1', 'a fail')$$, 'RQ006', 'the target is full', 'a failure is raised');
SELECT is(pg_temp.now_is((SELECT max(operation_id) FROM rpq_store.operation)), 'succeeded c 1.00 ready attempts 1', 'and leaves nothing');
SELECT pg_temp.ask('d1', 'a wait b') AS a \gset
SELECT is(pg_temp.now_is(:a), 'running a 0.33 updating attempts 1 held', 'running: something has to happen first');
SELECT is(owner_pid, NULL, 'and anybody may carry it on') FROM rpq_store.operation WHERE operation_id = :a;
SELECT rpq.edit_pool('d1', description => 'go on');
SELECT is(rpq_store.run_pending_operations(), 1, 'the worker does') FROM pg_sleep(0.12);
SELECT rpq.run_operations();
SELECT is(pg_temp.now_is(:a), 'succeeded b 1.00 ready attempts 1', 'through');

SELECT is_empty('SELECT * FROM rpq.check_integrity()', 'all is well');
SELECT * FROM finish();

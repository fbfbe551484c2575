-- What one account could do to the others, or to itself, with calls that each alone are allowed.
\ir ../lib/cases.sql
SELECT no_plan();
CALL t.found();
CREATE ROLE hostile_u1;
CREATE ROLE hostile_gw;
GRANT CREATE ON SCHEMA t TO hostile_u1;
SELECT rpq.edit_account('u1', db_role => 'hostile_u1');
SELECT rpq.create_account('gw', db_role => 'hostile_gw', gateway => true);
SELECT rpq.add_nodes('g8', count => 4, prefix => 'n');
SELECT rpq.create_pool('a', 'dedicated', quota => 'gpu=16');
SELECT rpq.create_pool('b', 'dedicated', quota => 'gpu=16');
SELECT rpq.authorize(p, accounts => '{u1,u2}') FROM unnest('{a,b}'::text[]) p;

-- stopped in one pool and placed in another, before the first has folded the release
SELECT t.submit('a', '1', 'u1', NULL, 3) AS w \gset
SELECT count(*) FROM rpq.schedule('a');
SELECT rpq.stop(:w), rpq.enqueue(:w, pool => 'b');
SELECT is(t.outcome('SELECT rpq.schedule(''b'')'), 'ok', 'the second pool places it while the first has not counted the end');
SELECT t.whole();
SELECT rpq.stop(:w);
SELECT t.pass();
SELECT t.whole();
SELECT is((SELECT count(*) FROM rpq_store.pod), 0::bigint, 'both attempts'' pods are gone');
SELECT is(t.used('a'), 0::numeric, 'nothing is used in a');
SELECT is(t.used('b'), 0::numeric, 'nothing is used in b');

-- a deadline beyond the range of times would fail the cycle of the whole pool
SELECT is(t.outcome(format('SELECT rpq.submit(''a'', workload_type => ''training'', resources => ''gpu=1'', account => ''u1'',
	max_runtime => %L)', r)), e, 'max_runtime ' || r)
FROM (VALUES ('178000000 years', '22023'), ('1001 years', '22023'), ('-5800000 years 2100000000 days', '22023'),
	('2562047788:00:00', '22023'), ('1000 years', 'ok'), ('1 microsecond', 'ok')) v (r, e);
SELECT is(t.outcome('SELECT rpq.schedule(''a'')'), 'ok', 'whatever was accepted can be admitted');

-- a total beyond the range of amounts would fail every query that shows it
SELECT is(t.outcome('SELECT rpq.submit(''a'', workload_type => ''training'', resources => ''gpu=1,cpu=400000000000'',
	replicas => 100000, draft => true, account => ''u1'')'), '22003', 'nor a draft whose total is out of range');
SELECT is(t.outcome('SELECT total FROM rpq.workloads'), 'ok', 'whatever was accepted can be shown');

-- the clock goes back while a workload is a draft, and after it has ended
BEGIN;
SET LOCAL rpq.clock = '2026-03-01 00:00+00';
SELECT rpq.submit('a', workload_type => 'training', resources => 'gpu=1', account => 'u2', draft => true) AS d \gset
SET LOCAL rpq.clock = '2026-02-01 00:00+00';
SELECT rpq.enqueue(:d);
SET LOCAL rpq.clock = '2026-04-01 00:00+00';
SELECT rpq.stop(:d);
SET LOCAL rpq.clock = '2026-01-01 00:00+00';
SELECT rpq.enqueue(:d), rpq.edit_workload(:d, priority => 10);
SELECT is((SELECT array_agg(e.kind ORDER BY e.at, e.entry_id) FROM rpq_store.entry e WHERE e.workload_id = :d),
	(SELECT array_agg(e.kind ORDER BY e.entry_id) FROM rpq_store.entry e WHERE e.workload_id = :d), 'its events are in order');
SELECT is((SELECT created_at <= submitted_at FROM rpq_store.workload WHERE workload_id = :d), true, 'made before submitted');
ROLLBACK;

-- ten thousand shapes in one pool: each is a lane
SELECT count(rpq.submit('b', workload_type => 'training', resources => ('gpu=1,memory=' || i)::rpq.resources, account => 'u2'))
FROM generate_series(1, 10000) i;
SET statement_timeout = '6s';
SELECT is((SELECT count(*) FROM rpq.schedule('b', dry_run => true)), 10000::bigint, 'all are planned');
SELECT is((SELECT count(*) FROM rpq.schedule('b')), 10000::bigint, 'and decided');
RESET statement_timeout;
SELECT t.whole();

-- a client that asks for a pool that is not there, again and again, in one session
DO $$
BEGIN
	FOR i IN 1..2000 LOOP
		BEGIN
			PERFORM t.submit('nowhere', '1', 'u1');
		EXCEPTION WHEN undefined_object THEN
		END;
	END LOOP;
END $$;
SELECT cmp_ok((SELECT sum(used_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'rpq%'), '<', 200000::numeric,
	'leaves no memory behind');

-- an index expression of its own table, evaluated for the superuser who maintains it
SET ROLE hostile_u1;
CREATE TABLE t.trap (i int);
CREATE FUNCTION t.spring(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	PERFORM rpq.edit_account('u1', org_admin => true);
	RETURN i;
EXCEPTION WHEN insufficient_privilege THEN
	RETURN i;
END $$;
CREATE FUNCTION t.peek(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN (SELECT count(*) FROM rpq.accounts);
END $$;
CREATE INDEX ON t.trap (t.spring(i));
INSERT INTO t.trap VALUES (1);
CREATE MATERIALIZED VIEW t.peeked AS SELECT t.peek(1) AS seen;
RESET ROLE;
ANALYZE t.trap;
REINDEX TABLE t.trap;
REFRESH MATERIALIZED VIEW t.peeked;
SELECT is((SELECT org_admin FROM rpq.accounts WHERE name = 'u1'), false, 'maintenance of its table gives it no right');
SELECT is((SELECT seen FROM t.peeked), 0, 'and shows it nothing');
SET ROLE hostile_u1;
SELECT isnt(t.submit('a', '1', NULL), NULL, 'a submission by itself');
RESET ROLE;

-- a gateway that acts for an account has that account's rights alone
SET ROLE hostile_gw;
SELECT is(t.outcome('SELECT t.submit(''a'', ''1'', ''u2'')'), 'ok', 'the gateway names u2');
SET rpq.account = 'u1';
SELECT is(t.outcome('SELECT t.submit(''a'', ''1'', ''u2'')'), '42501', 'as u1 it does not');
SELECT is(t.outcome('SELECT t.submit(''a'', ''1'', ''u1'')'), 'ok', 'u1 may name itself');
RESET rpq.account;
SET ROLE hostile_u1;
SELECT is(t.answer('SELECT t.submit(''a'', ''1'', ''nobody'')'), t.answer('SELECT t.submit(''a'', ''1'', ''u2'')'),
	'what others are called in the tenant is not told');
RESET ROLE;
SELECT t.whole();
SELECT * FROM finish();

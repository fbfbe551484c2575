-- Field case F45, what one database shows: all data is declared for the dump, and a new database holds no row.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
SELECT is_empty($$
	SELECT c.oid::regclass FROM pg_class c
	WHERE c.relnamespace IN ('rpq_store'::regnamespace, 'rpq'::regnamespace) AND c.relkind IN ('r', 'S', 'm', 'p')
	AND c.oid <> ALL (SELECT unnest(extconfig) FROM pg_extension WHERE extname = 'rpq')$$,
	'every table and sequence is declared for the dump');
SELECT is_empty($$
	SELECT c, f FROM pg_extension, unnest(extconfig, extcondition) u (c, f) WHERE extname = 'rpq' AND f <> ''$$,
	'as a whole');
CREATE FUNCTION t.filled() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name regclass;
	n bigint;
	answer text := '';
BEGIN
	FOR name IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'rpq_store'::regnamespace AND c.relkind = 'r' ORDER BY c.relname LOOP
		EXECUTE format('SELECT count(*) FROM %s', name) INTO n;
		IF n > 0 THEN answer := answer || name || ' '; END IF;
	END LOOP;
	RETURN answer;
END $$;
SELECT is(t.filled(), '', 'a new database holds no row: nothing would be restored twice');
SELECT is_empty($$
	SELECT tgname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
	WHERE c.relnamespace = 'rpq_store'::regnamespace AND NOT tgisinternal AND (tgtype & 4) <> 0$$, 'no insert trigger fires in a restore');
-- Foreign keys without a cycle: a plain restore needs no order that the dump does not find.
SELECT is_empty($$
	WITH RECURSIVE fk AS (SELECT conrelid, confrelid FROM pg_constraint WHERE contype = 'f' AND connamespace = 'rpq_store'::regnamespace),
	reach AS (SELECT * FROM fk UNION SELECT reach.conrelid, fk.confrelid FROM reach JOIN fk ON fk.conrelid = reach.confrelid)
	SELECT conrelid::regclass FROM reach WHERE conrelid = confrelid$$, 'no cycle of foreign keys');
CALL t.found();
SELECT isnt(t.filled(), '', 'the first call stores rows');
SELECT matches(t.filled(), 'rpq_store.fence', 'and the fence');
SELECT * FROM t.whole();
SELECT * FROM finish();

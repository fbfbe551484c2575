-- Field case F49: pasted lists are taken as people mean them, or refused as a whole, with the reason.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.create_account(name => n) AS x FROM unnest('{alice,bob,carol,dave,erin,a.b@x.org}'::text[]) n \g /dev/null
SELECT rpq.create_pool(name => 'p', type => 'dedicated', quota => 'gpu=0') AS x \gset
CREATE FUNCTION t.members() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s=%s', account, quota), ' ' ORDER BY account COLLATE "C") FROM rpq.members WHERE pool = 'p' AND instance_type IS NULL
$$;
-- What the list comes to, undone: the number told, and the members; or SQLSTATE, message and detail.
CREATE FUNCTION t.pasted(list_text text, quota_text text DEFAULT 'gpu=4') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	answer text;
	detail text;
BEGIN
	BEGIN
		answer := rpq.authorize_list(pool => 'p', list => list_text, quota => quota_text::rpq.resources);
		answer := answer || ': ' || t.members();
		RAISE EXCEPTION USING ERRCODE = 'XT000', MESSAGE = 'undo';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		IF SQLSTATE <> 'XT000' THEN
			answer := concat_ws(' ', SQLSTATE, SQLERRM, detail);
		END IF;
	END;
	RETURN answer;
END $$;
SELECT E'alice, bob,,carol ,\r\ndave,alice\r\n\r\n  erin\t' AS list \gset
SELECT 'alice=gpu=4 bob=gpu=4 carol=gpu=4 dave=gpu=4 erin=gpu=4' AS five \gset

-- (1) and (7)
SELECT is(t.pasted(:'list'), '5: ' || :'five', '(1) six entries, five users, each explicit 4');
SELECT rpq.authorize_list(pool => 'p', list => :'list', quota => 'gpu=4') AS x \gset
SELECT is((SELECT count(*) FROM rpq.members WHERE account ~ '[[:space:]]' OR account = ''), 0::bigint, '(1) no name holds a space, tab or CR');
SELECT is((SELECT string_agg(DISTINCT config_mode, ',') FROM rpq.members), 'custom', '(1) explicit');
SELECT count(*) AS told FROM rpq.operation_history \gset
SELECT is(t.pasted(:'list'), '5: ' || :'five', '(7) the same text again: still five');
SELECT rpq.authorize_list(pool => 'p', list => :'list', quota => 'gpu=4') AS x \gset
SELECT is((SELECT count(*) FROM rpq.operation_history), :told::bigint, '(7) changes nothing');
SELECT rpq.deauthorize(pool => 'p', accounts => '{alice,bob,carol,dave,erin}') AS x \gset
SELECT t.stored() AS stored \gset
-- (2)
SELECT matches(t.pasted(E'alice, bob,,carol ,; quota=gpu=4\r\ndave,alice; quota=gpu=8\r\n\r\n  erin\t', NULL), '^22023 .*alice', '(2) two settings: refused, naming alice');
-- (3)
SELECT matches(t.pasted(:'list' || ', mallory'), '^42704 .*mallory', '(3) unknown: refused, naming mallory');
SELECT matches(t.pasted(:'list' || ', mallory, eve' || E'\r\ntrent'), '^42704 .*eve.*mallory.*trent|^42704 .*mallory.*eve.*trent', '(3) all that are unknown are named');
-- (4)
SELECT is(t.pasted('a.b@x.org'), '1: a.b@x.org=gpu=4', '(4) one with a dot and an at sign');
-- (5)
SELECT is(left(t.pasted(list), 5), '22023', '(5) no names: refused: ' || quote_literal(list)) FROM unnest(ARRAY['', ',', E' , ,\r\n\r\n,\t,\r\n', E'\n\n', ';quota=gpu=4', E',;quota=gpu=4\n,']) list;
-- (6)
SELECT matches(t.pasted('alice，bob'), '^42704 .*alice，bob', '(6) a full-width comma is part of a name: one unknown name');
SELECT is(t.stored(), :'stored', 'nothing is stored by those that are refused');

-- Line ends of every kind, settings of a line, and the call's own where a line has none.
SELECT is(t.pasted(E'alice\rbob\ncarol\r\ndave'), '4: alice=gpu=4 bob=gpu=4 carol=gpu=4 dave=gpu=4', 'CR, LF and CR LF');
SELECT is(t.pasted(E'alice;quota=gpu=1\nbob'), '2: alice=gpu=1 bob=gpu=4', 'a line''s settings, else the call''s');
SELECT is(t.pasted(E'alice;mode=default\nbob', NULL), '2: alice= bob=', 'without a quota the default is followed');
SELECT is(t.pasted('alice;quota=gpu=2,cpu=8', NULL), '1: alice=cpu=8,gpu=2', 'a quota of two keys');
SELECT is(left(t.pasted(list), 5) IN ('22023', '22P02', '22003', '42704'), true, 'refused: ' || quote_literal(list)) FROM unnest(ARRAY['alice;quota', 'alice;nonsense=1', 'alice;quota=gpu=-1',
	'alice;quota=gpu=1e30', 'alice;max_priority=101', 'alice;max_priority=-1', 'alice;max_priority=1.5', 'alice;guarantee=perhaps', 'alice;mode=both', 'alice;instance_type=nosuch quota=gpu=1',
	'alice;quota=gpu=1 mode=default', 'alice;;', repeat('x', 64), repeat('x,', 100000), E'alice\x01', 'ALICE', 'beta/alice']) list;
SELECT is((SELECT count(*) FROM rpq.members), 0::bigint, 'none is added');

-- Ten thousand names at once.
SELECT rpq.create_account(name => 'n' || i) AS x FROM generate_series(1, 2000) i \g /dev/null
SELECT clock_timestamp() AS since \gset
SELECT is(rpq.authorize_list(pool => 'p', list => (SELECT string_agg('n' || i, E',\r\n') FROM generate_series(1, 2000) i), quota => 'gpu=1'), 2000, 'two thousand names');
SELECT ok(clock_timestamp() - :'since' < interval '10 s', 'in good time');

-- Out again: names alone, and CSV.
SELECT rpq.deauthorize(pool => 'p', accounts => ARRAY(SELECT 'n' || i FROM generate_series(1, 2000) i)) AS x \gset
SELECT rpq.create_account(name => n) AS x FROM unnest(ARRAY['=1+1', '+1', '-1', '@x', '''quoted', 'say "hi"', 'o''neil, x']) n \g /dev/null
SELECT rpq.authorize(pool => 'p', accounts => ARRAY['=1+1', '+1', '-1', '@x', '''quoted', 'say "hi"', 'o''neil, x'], quota => '') AS a,
	   rpq.authorize(pool => 'p', accounts => '{alice}', quota => 'gpu=1/7,cpu=2', max_priority => 60, guarantee => true) AS b, rpq.authorize(pool => 'p', accounts => '{bob}') AS c \gset
SELECT is(rpq.member_names(pool => 'p'), E'\'quoted\n+1\n-1\n=1+1\n@x\nalice\nbob\no\'neil, x\nsay "hi"', 'names, one a line');
SELECT rpq.export_members_csv(pool => 'p') AS csv \gset
SELECT is(split_part(:'csv', E'\r\n', 1), 'account,instance_type,config_mode,quota,max_priority,guarantee,used', 'the header');
SELECT is(regexp_count(:'csv', E'\r\n') IN (9, 10) AND regexp_count(:'csv', E'[^\r]\n') = 0, true, 'nine rows, lines end by CR LF');
SELECT is(position(E'\r\n' || cell IN :'csv') > 0, true, 'a row begins with ' || cell) FROM unnest(ARRAY['''quoted,', '''+1,', '''-1,', '''=1+1,', '''@x,', '"say ""hi""",', '"o''neil, x",', 'bob,,default,unlimited,']) cell;
SELECT is(:'csv' ~ E'\r\nalice,,custom,"cpu=2,gpu=1/7",60,', true, 'alice''s row');
SELECT * FROM t.whole();
SELECT * FROM finish();

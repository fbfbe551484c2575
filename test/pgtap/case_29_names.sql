-- Field case F29: names are data, stored whole or refused; each verb touches the one pool that it names.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
CREATE TABLE public.t (canary int);
CREATE TABLE t.wanted (name text);
INSERT INTO t.wanted VALUES ('a"b'), ('o''clock'), ('x; DROP TABLE t; --'), ('Team A'), ('TEAM-a'), ('select'), ('日本語プール'),
	('a_b'), ('axb'), (repeat('p', 63)), (repeat('p', 64)), (repeat('p', 63) || 'q');
SELECT is(t.outcome(format('SELECT rpq.create_pool(name => %L, type => ''dedicated'', quota => ''gpu=0'')', name)),
		  CASE WHEN length(name) > 63 THEN '22023' ELSE 'ok' END, 'create ' || name) FROM t.wanted;
SELECT results_eq($$SELECT name COLLATE "C" FROM rpq.pools ORDER BY 1$$,
				  $$SELECT name COLLATE "C" FROM t.wanted WHERE length(name) <= 63 ORDER BY 1$$, 'listed byte for byte');
SELECT is((SELECT count(*) || ' ' || sum(octet_length(name)) FROM rpq.pools), '10 134', '10 pools, 134 bytes');
SELECT is((SELECT string_agg(status || ' ' || type, ',') FROM (SELECT DISTINCT status, type FROM rpq.pools) x), 'ready dedicated',
		  'each is ready');
SELECT is((SELECT count(*) FROM pg_class WHERE oid = 'public.t'::regclass), 1::bigint, 't still exists');
SELECT is((SELECT count(*) FROM rpq.pools WHERE name = 'a_b'), 1::bigint, 'a_b is one pool');
SELECT is(t.outcome(format('SELECT rpq.create_pool(name => %L, type => ''dedicated'', quota => ''gpu=0'')', name)), '22023',
		  'refused: ' || coalesce(quote_literal(name), 'NULL'))
FROM unnest(ARRAY['', '   ', E'a\nb', E'a\tb', E'\x7f', U&'a\200Bb', U&'\202Eab', 'a/b', '/', E'\n', NULL]) name;
SELECT is(t.outcome(format('SELECT rpq.create_pool(name => %L, type => ''dedicated'', quota => ''gpu=0'')', name)), '42710',
		  'taken: ' || quote_literal(name))
FROM unnest(ARRAY['a_b', ' a_b ', '日本語プール', 'Team A  ', 'select']) name;
-- One letter, two spellings in Unicode: NFC makes them one.
SELECT rpq.create_pool(name => U&'caf\00E9', type => 'dedicated', quota => 'gpu=0') AS x \gset
SELECT throws_ok($$SELECT rpq.create_pool(name => U&'cafe\0301', type => 'dedicated', quota => 'gpu=0')$$, '42710', NULL,
				 'the decomposed spelling is taken');
-- 63 characters are not 63 bytes.
SELECT rpq.create_pool(name => repeat('プ', 63), type => 'dedicated', quota => 'gpu=0') AS x \gset
SELECT is((SELECT octet_length(name) FROM rpq.pools WHERE name = repeat('プ', 63)), 189, '63 characters of three bytes are whole');

-- Each later verb touches the one pool that it names.
SELECT lives_ok(format('SELECT rpq.edit_pool(pool => %L, description => %L)', name, 'd ' || name), 'edit ' || name)
FROM t.wanted WHERE length(name) <= 63;
SELECT is((SELECT count(*) FROM rpq.pools p JOIN t.wanted w ON w.name = p.name WHERE p.description = 'd ' || w.name), 10::bigint,
		  'each has its own description');
SELECT is((SELECT count(*) FROM rpq.pools WHERE description IS NOT NULL), 10::bigint, 'and no other pool has one');
SELECT lives_ok(format('SELECT rpq.authorize(pool => %L, accounts => ''{u1}'')', name), 'authorize in ' || name)
FROM t.wanted WHERE length(name) <= 63;
SELECT is((SELECT count(*) || ' ' || count(DISTINCT pool) FROM rpq.members), '10 10', 'a member in each');
SELECT lives_ok(format('SELECT rpq.deauthorize(pool => %L, accounts => ''{u1}'')', 'a_b'), 'deauthorize in a_b');
SELECT is((SELECT string_agg(name, ',') FROM t.wanted WHERE length(name) <= 63 AND name NOT IN (SELECT pool FROM rpq.members)), 'a_b',
		  'axb keeps its member');
SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 10) AS x \gset
SELECT lives_ok(format('SELECT rpq.resize_pool(pool => %L, quota => ''gpu=8'')', name), 'resize ' || name) FROM t.wanted WHERE length(name) <= 63;
SELECT is((SELECT count(*) FROM rpq.pools p JOIN t.wanted w ON w.name = p.name WHERE t.gpu(p.total) = 8), 10::bigint, 'a machine in each');
SELECT lives_ok(format('SELECT rpq.move_nodes(count => 1, from_pool => %L, to_pool => %L)', 'a_b', 'axb'), 'move from a_b to axb');
SELECT is((SELECT string_agg(name, ',') FROM rpq.pools p JOIN t.wanted w USING (name) WHERE t.gpu(p.total) <> 8), 'a_b,axb', 'no other pool is touched');
SELECT lives_ok(format('SELECT rpq.resize_pool(pool => %L, quota => ''gpu=0'')', name), 'resize to nothing ' || name) FROM t.wanted WHERE length(name) <= 63;
SELECT is((SELECT count(*) FROM rpq.nodes n JOIN rpq.pools p ON p.name = n.pool WHERE p.type = 'shared'), 10::bigint, 'all are back');
SELECT is((SELECT count(*) FROM rpq.operation_history WHERE action = 'create_pool' AND object <> 'c1-gpu'), 12::bigint,
		  'one history row for each success, none for refusals');
SELECT is(t.outcome('SELECT rpq.edit_pool(pool => ''acme/a_b'', description => ''x'')'), 'ok', 'tenant/name names the same');
SELECT is(t.outcome('SELECT rpq.edit_pool(pool => ''A_B'', description => ''x'')'), '42704', 'names are compared bytewise');

-- Resize, rename and delete, each by its exact name.
CREATE TABLE t.pool AS SELECT name FROM rpq.pools WHERE type <> 'shared';
-- What each of them becomes, as one text.
CREATE FUNCTION t.listed() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s %s', p.name, t.gpu(p.total)), ';' ORDER BY p.name) FROM rpq.pools p WHERE p.type <> 'shared'
$$;
CREATE FUNCTION t.wanted(renamed text DEFAULT NULL, new_name text DEFAULT NULL, held text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s %s', CASE name WHEN renamed THEN new_name ELSE name END, CASE name WHEN held THEN 8 ELSE 0 END), ';'
					  ORDER BY CASE name WHEN renamed THEN new_name ELSE name END) FROM t.pool WHERE CASE name WHEN renamed THEN new_name ELSE name END IS NOT NULL
$$;
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
CREATE FUNCTION t.verbs(one text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	new_name text := left('r"''; ' || one, 63);
	id bigint := (SELECT pool_id FROM rpq.pools WHERE name = one);
BEGIN
	PERFORM rpq.resize_pool(pool => one, quota => 'gpu=8', instance_type => 'g8');
	RETURN NEXT is(t.listed(), t.wanted(held => one), 'resize ' || one);
	PERFORM rpq.resize_pool(pool => one, quota => 'gpu=0', instance_type => 'g8');
	PERFORM rpq.rename_pool(pool => one, name => new_name);
	RETURN NEXT is(t.listed(), t.wanted(one, new_name), 'rename ' || one);
	RETURN NEXT is((SELECT name FROM rpq.pools WHERE pool_id = id), new_name, 'the id stays');
	RETURN NEXT is(t.outcome(format('SELECT rpq.edit_pool(pool => %L, description => ''x'')', one)), '42704', 'its former name is none');
	PERFORM rpq.rename_pool(pool => new_name, name => one);
	RETURN NEXT is(t.listed(), t.wanted(), 'rename back to ' || one);
END $$;
SELECT v FROM t.pool p, t.verbs(p.name) v;
SELECT is(t.outcome(format('SELECT rpq.rename_pool(pool => ''a_b'', name => %L)', name)), '22023', 'no name: ' || coalesce(quote_literal(name), 'NULL'))
FROM unnest(ARRAY['', '   ', E'a\nb', E'\x7f', U&'a\200Bb', 'a/b', repeat('p', 64), repeat('p', 63) || 'q', NULL]) name;
SELECT is(t.outcome(format('SELECT rpq.rename_pool(pool => ''a_b'', name => %L)', name)), '42710', 'taken: ' || quote_literal(name))
FROM unnest(ARRAY['axb', ' axb ', 'c1-gpu', '日本語プール', repeat('p', 63), U&'cafe\0301']) name;
SELECT is(t.listed(), t.wanted(), 'nothing is renamed');
CREATE FUNCTION t.deleted(one text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rpq.deauthorize(pool => one, accounts => '{u1}') FROM rpq.members m WHERE m.pool = one;
	PERFORM rpq.delete_pool(pool => one);
	DELETE FROM t.pool p WHERE p.name = one;
	RETURN NEXT is(t.listed(), t.wanted(), 'delete ' || one);
END $$;
SELECT v FROM (SELECT name FROM t.pool ORDER BY name DESC OFFSET 2) p, t.deleted(p.name) v;
SELECT is((SELECT count(*) FROM pg_class WHERE oid = 'public.t'::regclass), 1::bigint, 't still exists');

-- The same rules for the other kinds of names.
SELECT is(t.answer(format(call, bad)) ~ '^22023', true, format(call, bad))
FROM unnest(ARRAY['SELECT rpq.create_tenant(name => %L)', 'SELECT rpq.create_cluster(name => %L)',
	'SELECT rpq.create_account(name => %L)', 'SELECT rpq.create_user_group(name => %L)',
	'SELECT rpq.create_project_group(name => %L)', 'SELECT rpq.create_workload_type(name => %L)',
	'SELECT rpq.create_instance_type(name => %L, kind => ''gpu'', capacity => ''gpu=8'')',
	'SELECT rpq.add_nodes(instance_type => ''g8'', names => ARRAY[%L])']) call,
	unnest(ARRAY['', '  ', E'a\nb', repeat('x', 64), 'a/b', NULL]) bad;
SELECT is(t.answer(format(call, good)), '00000', format(call, good))
FROM unnest(ARRAY['SELECT rpq.create_tenant(name => %L)', 'SELECT rpq.create_cluster(name => %L)',
	'SELECT rpq.create_account(name => %L)', 'SELECT rpq.create_user_group(name => %L)',
	'SELECT rpq.create_project_group(name => %L)', 'SELECT rpq.create_workload_type(name => %L)',
	'SELECT rpq.create_instance_type(name => %L, kind => ''gpu'', capacity => ''gpu=8'')',
	'SELECT rpq.add_nodes(instance_type => ''g8'', names => ARRAY[%L])']) call,
	unnest(ARRAY['a"b', 'o''clock', 'x; DROP TABLE t; --', 'select', repeat('プ', 63), ' {a,b} ', '%s %I \']) good;
SELECT * FROM t.whole();
SELECT * FROM finish();

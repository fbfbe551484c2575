-- What every object of the extension must have: a comment, a pinned search_path, no right of PUBLIC on the store,
-- and, for tables and sequences, a place in the dump.
\set ON_ERROR_STOP 1
\set QUIET 1
\pset format unaligned
\pset tuples_only on

-- Functions that may do without a pinned search_path: they are in C, and run no SQL.
CREATE TEMP TABLE no_search_path (signature text);
\copy no_search_path FROM 'test/lint/no_search_path.list'

CREATE TEMP VIEW member AS
SELECT d.classid, d.objid
FROM pg_depend d
JOIN pg_extension x ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = x.oid
WHERE x.extname = 'rpq' AND d.deptype = 'e';

CREATE TEMP VIEW function AS
SELECT p.*, p.oid::regprocedure::text AS signature, l.lanname, n.nspname
FROM member m
JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
JOIN pg_language l ON l.oid = p.prolang
JOIN pg_namespace n ON n.oid = p.pronamespace;

CREATE TEMP VIEW relation AS
SELECT c.*, c.oid::regclass::text AS name, n.nspname
FROM member m
JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
JOIN pg_namespace n ON n.oid = c.relnamespace;

SELECT plan(12);

SELECT is_empty(
	$$SELECT signature FROM function WHERE obj_description(oid, 'pg_proc') IS NULL ORDER BY 1$$,
	'every function has a comment');
SELECT is_empty(
	$$SELECT pg_describe_object(classid, objid, 0) FROM member
	  WHERE classid <> 'pg_proc'::regclass AND classid <> 'pg_cast'::regclass
	  AND obj_description(objid, classid::regclass::name) IS NULL
	  AND classid NOT IN ('pg_opfamily'::regclass, 'pg_opclass'::regclass, 'pg_rewrite'::regclass)
	  AND NOT (classid = 'pg_class'::regclass AND
			   (SELECT relkind FROM pg_class WHERE oid = objid) NOT IN ('r', 'p', 'v'))
	  AND NOT (classid = 'pg_type'::regclass AND
			   (SELECT typelem <> 0 OR typrelid <> 0 FROM pg_type WHERE oid = objid))
	  ORDER BY 1$$,
	'every schema, table, view, type, operator has a comment');
SELECT is_empty(
	$$SELECT name || '.' || attname FROM relation r
	  JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
	  WHERE relkind IN ('r', 'p', 'v') AND col_description(r.oid, a.attnum) IS NULL ORDER BY 1$$,
	'every column of every table and view has a comment');

SELECT is_empty(
	$$SELECT signature FROM function
	  WHERE prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) ORDER BY 1$$,
	'every SECURITY DEFINER function pins search_path = pg_catalog, pg_temp');
SELECT is_empty(
	$$SELECT signature FROM function
	  WHERE NOT prosecdef AND prokind <> 'a'
	  AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)
	  AND NOT (lanname = 'sql' AND prosqlbody IS NOT NULL)
	  AND NOT (lanname = 'c' AND signature IN (SELECT signature FROM no_search_path)) ORDER BY 1$$,
	'so does every other one, but those of test/lint/no_search_path.list and SQL bodies parsed beforehand');
SELECT is_empty(
	$$SELECT signature FROM no_search_path EXCEPT
	  SELECT signature FROM function WHERE lanname = 'c' AND proconfig IS NULL ORDER BY 1$$,
	'the list holds nothing that is not there');

SELECT is_empty(
	$$SELECT relkind, name FROM relation
	  WHERE relkind IN ('r', 'p', 'S') AND relpersistence = 'p'
	  AND NOT oid = ANY (SELECT unnest(extconfig) FROM pg_extension WHERE extname = 'rpq') ORDER BY 2$$,
	'every table and every sequence is registered for the dump');

SELECT is_empty(
	$$SELECT name, g.privilege_type FROM relation r,
	  LATERAL (SELECT relacl UNION ALL SELECT attacl FROM pg_attribute WHERE attrelid = r.oid) AS a (acl),
	  LATERAL aclexplode(a.acl) AS g
	  WHERE nspname = 'rpq_store' AND g.grantee = 0 ORDER BY 1, 2$$,
	'PUBLIC has no right on any table, view or sequence of rpq_store');
SELECT is_empty(
	$$SELECT g.privilege_type FROM pg_namespace n, LATERAL aclexplode(n.nspacl) AS g
	  WHERE n.nspname = 'rpq_store' AND g.grantee = 0$$,
	'PUBLIC has no right on the schema rpq_store');
SELECT is_empty(
	$$SELECT signature FROM function
	  WHERE nspname = 'rpq_store'
	  AND EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) AS g WHERE g.grantee = 0)
	  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_rewrite'::regclass
		AND d.refclassid = 'pg_proc'::regclass AND d.refobjid = function.oid)
	  ORDER BY 1$$,
	'PUBLIC may execute no function of rpq_store but those that views call with the reader''s rights');
SELECT is_empty(
	$$SELECT name FROM relation r, LATERAL aclexplode(relacl) AS g
	  WHERE g.privilege_type = 'TRIGGER' AND g.grantee <> relowner ORDER BY 1$$,
	'nobody has TRIGGER on anything');
SELECT is_empty(
	$$SELECT name FROM relation
	  WHERE nspname = 'rpq' AND relkind = 'v'
	  AND NOT coalesce('security_barrier=true' = ANY (reloptions) OR 'security_invoker=true' = ANY (reloptions), false)
	  ORDER BY 1$$,
	'every view that people read has security_barrier');

SELECT * FROM finish();

-- plpgsql_check over every PL/pgSQL function of the extension, with all of its warnings.
\set ON_ERROR_STOP 1
\set QUIET 1
\pset format unaligned
\pset tuples_only on

CREATE TEMP VIEW function AS
SELECT p.oid, p.oid::regprocedure::text AS signature, p.prorettype, t.tgrelid
FROM pg_depend d
JOIN pg_extension x ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = x.oid
JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
JOIN pg_language l ON l.oid = p.prolang
LEFT JOIN pg_trigger t ON t.tgfoid = p.oid AND NOT t.tgisinternal
WHERE x.extname = 'rpq' AND d.deptype = 'e' AND l.lanname = 'plpgsql'
	AND (p.prorettype <> 'trigger'::regtype OR t.oid IS NOT NULL)
	AND p.prorettype <> 'event_trigger'::regtype;

SELECT * FROM no_plan();
SELECT pass('plpgsql_check is there');
SELECT is(
	(SELECT string_agg(c, E'\n')
	 FROM plpgsql_check_function(f.oid, coalesce(f.tgrelid, 0), fatal_errors => false, performance_warnings => false,
								 security_warnings => true, extra_warnings => true) AS c),
	NULL, signature)
FROM function f
ORDER BY signature, tgrelid;
SELECT * FROM finish();

-- Who may call and read what.  The last of the script, so that it covers everything; it may be run again.
--
-- Inside rpq_store PUBLIC keeps EXECUTE only where a query that a user may write runs a function as the user without
-- naming it: in a view (the filters) and behind operators, casts and operator classes.  USAGE on the schema is not
-- granted, so none of them can be called by name.

DO $$
DECLARE
	f record;
BEGIN
	FOR f IN
		SELECT p.oid::pg_catalog.regprocedure AS name,
			EXISTS (SELECT FROM pg_catalog.pg_depend d
					WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid
						AND d.deptype IN ('n', 'i')
						AND d.classid IN ('pg_catalog.pg_rewrite'::pg_catalog.regclass,
							'pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_cast'::pg_catalog.regclass,
							'pg_catalog.pg_amproc'::pg_catalog.regclass, 'pg_catalog.pg_opfamily'::pg_catalog.regclass,
							'pg_catalog.pg_opclass'::pg_catalog.regclass)) AS for_all
		FROM pg_catalog.pg_proc p
		WHERE p.pronamespace = 'rpq_store'::pg_catalog.regnamespace
	LOOP
		IF f.for_all THEN
			EXECUTE pg_catalog.format('GRANT EXECUTE ON ROUTINE %s TO PUBLIC', f.name);
		ELSE
			EXECUTE pg_catalog.format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', f.name);
		END IF;
	END LOOP;
	FOR f IN
		SELECT c.oid::pg_catalog.regclass AS name FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'rpq'::pg_catalog.regnamespace AND c.relkind = 'v'
	LOOP
		EXECUTE pg_catalog.format('GRANT SELECT ON %s TO PUBLIC', f.name);
	END LOOP;
END
$$;

-- Every object that the extension consists of, one line for each property: equal lines, equal extensions.
SET search_path = pg_catalog;

CREATE TEMP VIEW member AS
SELECT d.classid, d.objid, (pg_identify_object(d.classid, d.objid, 0)).*
FROM pg_depend AS d JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
WHERE e.extname = 'rpq' AND d.deptype = 'e';

CREATE TEMP VIEW relation AS
SELECT c.*, m.identity AS shown FROM member AS m JOIN pg_class AS c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid;

-- An ACL in words, the default one too, whatever the order.
CREATE FUNCTION pg_temp.acl(acl aclitem[], kind "char", owner oid) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(concat_ws(' ', CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
		a.privilege_type, a.is_grantable), ', ' ORDER BY a.grantee, a.privilege_type), 'nobody')
	FROM aclexplode(coalesce(acl, acldefault(kind, owner))) AS a
$$;

SELECT translate(concat_ws(' | ', o.what, o.object, o.value), E'\n', ' ') FROM (
	SELECT 'member', format('%s %s', type, identity), coalesce(obj_description(objid, classid::regclass::name), 'no comment')
	FROM member
	UNION ALL
	SELECT 'version', extname, extversion FROM pg_extension WHERE extname = 'rpq'
	UNION ALL
	SELECT 'dumped', c.oid::regclass::text, 'where ' || x.condition
	FROM pg_extension AS e CROSS JOIN unnest(e.extconfig, e.extcondition) AS x (oid, condition)
	JOIN pg_class AS c ON c.oid = x.oid WHERE e.extname = 'rpq'
	UNION ALL
	SELECT 'initial rights', m.identity, string_agg(concat_ws(' ', i.objsubid, i.privtype, (
		SELECT string_agg(a::text, ', ' ORDER BY a::text) FROM unnest(i.initprivs) AS a)), '; ' ORDER BY i.objsubid)
	FROM member AS m JOIN pg_init_privs AS i ON i.classoid = m.classid AND i.objoid = m.objid GROUP BY m.identity
	UNION ALL
	SELECT 'schema', n.nspname, pg_temp.acl(n.nspacl, 'n', n.nspowner)
	FROM member AS m JOIN pg_namespace AS n ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid
	UNION ALL
	SELECT 'function', m.identity, concat_ws(' ', CASE WHEN p.prokind = 'a' THEN (
			SELECT concat_ws(' ', a.aggtransfn, a.aggcombinefn, a.aggtranstype::regtype, p.proparallel, a.agginitval)
			FROM pg_aggregate AS a WHERE a.aggfnoid = p.oid)
		ELSE md5(pg_get_functiondef(p.oid)) END, pg_temp.acl(p.proacl, 'f', p.proowner), p.proowner::regrole)
	FROM member AS m JOIN pg_proc AS p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
	UNION ALL
	SELECT 'relation', c.shown, concat_ws(' ', c.relkind, c.relpersistence, c.reloptions, c.relowner::regrole,
		c.relrowsecurity, pg_temp.acl(c.relacl, CASE c.relkind WHEN 'S' THEN 'S' ELSE 'r' END::"char", c.relowner))
	FROM relation AS c
	UNION ALL
	SELECT 'column', format('%s.%s', c.shown, a.attname), concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod),
		CASE WHEN a.attnotnull THEN 'not null' END, nullif(a.attidentity, ''), nullif(a.attgenerated, ''), a.attcollation::regcollation,
		a.attstorage, (SELECT string_agg(x, ' ' ORDER BY x) FROM unnest(a.attoptions) AS x WHERE x ~ '^n_distinct'),
		pg_get_expr(d.adbin, d.adrelid), a.attacl,
		coalesce(col_description(c.oid, a.attnum), 'no comment'))
	FROM relation AS c
	JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
	UNION ALL
	SELECT 'view', c.shown, md5(pg_get_viewdef(c.oid)) FROM relation AS c WHERE c.relkind = 'v'
	UNION ALL
	SELECT 'sequence', c.shown, to_jsonb(s)::text
	FROM relation AS c CROSS JOIN LATERAL (
		SELECT seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle
		FROM pg_sequence WHERE seqrelid = c.oid) AS s
	UNION ALL
	SELECT 'constraint', format('%s %s', c.shown, k.conname), concat_ws(' ', pg_get_constraintdef(k.oid), k.convalidated,
		obj_description(k.oid, 'pg_constraint'))
	FROM relation AS c JOIN pg_constraint AS k ON k.conrelid = c.oid
	UNION ALL
	SELECT 'index', format('%s %s', c.shown, i.indexrelid::regclass), concat_ws(' ', pg_get_indexdef(i.indexrelid), i.indisvalid,
		i.indisprimary, r.reloptions, obj_description(r.oid, 'pg_class'))
	FROM relation AS c JOIN pg_index AS i ON i.indrelid = c.oid JOIN pg_class AS r ON r.oid = i.indexrelid
	UNION ALL
	SELECT 'trigger', format('%s %s', c.shown, t.tgname), concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled,
		obj_description(t.oid, 'pg_trigger'))
	FROM relation AS c JOIN pg_trigger AS t ON t.tgrelid = c.oid AND NOT t.tgisinternal
	UNION ALL
	SELECT 'rule', format('%s %s', c.shown, r.rulename), md5(pg_get_ruledef(r.oid))
	FROM relation AS c JOIN pg_rewrite AS r ON r.ev_class = c.oid
	UNION ALL
	SELECT 'type', m.identity, concat_ws(' ', t.typtype, t.typlen, t.typstorage, t.typalign, t.typinput, t.typoutput,
		t.typreceive, t.typsend, t.typcategory, pg_temp.acl(t.typacl, 'T', t.typowner))
	FROM member AS m JOIN pg_type AS t ON m.classid = 'pg_type'::regclass AND m.objid = t.oid
	UNION ALL
	SELECT 'operator', m.identity, concat_ws(' ', o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprrest, o.oprjoin,
		o.oprcanmerge, o.oprcanhash)
	FROM member AS m JOIN pg_operator AS o ON m.classid = 'pg_operator'::regclass AND m.objid = o.oid
	UNION ALL
	SELECT 'operator family', m.identity, (SELECT string_agg(pg_describe_object(d.classid, d.objid, 0), ', '
			ORDER BY pg_describe_object(d.classid, d.objid, 0))
		FROM pg_depend AS d WHERE d.refclassid = m.classid AND d.refobjid = m.objid
		  AND d.classid IN ('pg_amop'::regclass, 'pg_amproc'::regclass))
	FROM member AS m WHERE m.classid = 'pg_opfamily'::regclass
	UNION ALL
	SELECT 'cast', m.identity, concat_ws(' ', k.castfunc::regprocedure, k.castcontext, k.castmethod)
	FROM member AS m JOIN pg_cast AS k ON m.classid = 'pg_cast'::regclass AND m.objid = k.oid
) AS o (what, object, value)
ORDER BY 1;

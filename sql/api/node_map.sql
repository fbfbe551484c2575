-- Pictures of nodes, for psql and for a browser.  They read the views' figures; work that the caller may not see has no
-- letter in them.

CREATE OR REPLACE FUNCTION rpq.node_map(pool text)
	RETURNS TABLE (node text, instance_type text, map text, used rpq.resources, available rpq.resources, health text,
		schedulable boolean)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	subject bigint := rpq_store.authorize('node_map', node_map.pool);
BEGIN
	RETURN QUERY
	WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s),
	nodes AS MATERIALIZED (
		SELECT f.node_id, f.name, i.name AS type, i.kind, f.usable, f.used, f.held, f.takes_work,
			   ceil(coalesce(f.usable OPERATOR(rpq.->) 'gpu', 0))::int AS devices
		  FROM rpq_store.node_now f
		  JOIN rpq_store.instance_type i ON i.type_id = f.type_id
		 WHERE f.pool_id = subject),
	taken AS MATERIALIZED (
		SELECT o.node_id, d.device, w.workload_id, (w.resources OPERATOR(rpq.->) 'gpu') < 1 AS part,
			   coalesce(w.account_id = m.account_id OR w.tenant_id = ANY (m.tenants) OR w.scope_id = ANY (m.pools)
						OR w.pool_id = ANY (m.pools), false) AS seen
		  FROM nodes n
		  JOIN rpq_store.pod o ON o.node_id = n.node_id
		  JOIN rpq_store.workload w ON w.workload_id = o.workload_id AND w.attempt = o.attempt
		 CROSS JOIN me m
		 CROSS JOIN LATERAL unnest(o.devices) d(device)
		 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL),
	letters AS (
		-- in the order of the map, so that neighbours differ and the same letter comes again as far away as can be
		SELECT x.workload_id, chr(65 + ((row_number() OVER (ORDER BY x.place, x.workload_id) - 1) % 26)::int) AS letter
		  FROM (SELECT t.workload_id, min(ROW(n.type, n.name, t.device)::text COLLATE "C") AS place
				  FROM taken t JOIN nodes n ON n.node_id = t.node_id
				 WHERE t.seen GROUP BY t.workload_id) x),
	marks AS (
		SELECT t.node_id, t.device,
			   CASE WHEN count(*) > 1 THEN '+'
					WHEN NOT bool_and(t.seen) THEN CASE WHEN bool_or(t.part) THEN '-' ELSE '#' END
					WHEN bool_or(t.part) THEN lower(min(l.letter))
					ELSE min(l.letter) END AS mark
		  FROM taken t LEFT JOIN letters l ON l.workload_id = t.workload_id
		 GROUP BY t.node_id, t.device),
	kept AS (
		SELECT DISTINCT h.node_id, d.device
		  FROM nodes n JOIN rpq_store.hold h ON h.node_id = n.node_id CROSS JOIN LATERAL unnest(h.devices) d(device)),
	bars AS (
		SELECT n.node_id, string_agg(coalesce(m.mark, CASE WHEN k.node_id IS NOT NULL THEN '~'
														   WHEN n.takes_work THEN '.'
														   ELSE '×' END), '' ORDER BY g) AS bar
		  FROM nodes n
		 CROSS JOIN LATERAL generate_series(0, n.devices - 1) g
		  LEFT JOIN marks m ON m.node_id = n.node_id AND m.device = g
		  LEFT JOIN kept k ON k.node_id = n.node_id AND k.device = g
		 WHERE n.kind = 'gpu'
		 GROUP BY n.node_id
		 UNION ALL
		SELECT n.node_id, repeat('#', n.tenths) || repeat(CASE WHEN n.takes_work THEN '.' ELSE '×' END, 10 - n.tenths)
		  FROM (SELECT n.node_id, n.takes_work,
					   CASE WHEN c.used <= 0 THEN 0 WHEN c.used >= c.usable THEN 10
							ELSE greatest(1, least(9, round(10 * c.used / c.usable)))::int END AS tenths
				  FROM nodes n
				 CROSS JOIN LATERAL (SELECT coalesce(n.used OPERATOR(rpq.->) 'cpu', 0) AS used,
											coalesce(n.usable OPERATOR(rpq.->) 'cpu', 0) AS usable) c
				 WHERE n.kind = 'cpu') n)
	SELECT n.name, n.type, '[' || coalesce(b.bar, '') || ']', n.used,
		   CASE WHEN n.takes_work
				THEN rpq_store.at_least_zero(n.usable OPERATOR(rpq.-) n.used OPERATOR(rpq.-) n.held)
				ELSE n.usable OPERATOR(rpq.*) 0::numeric END,
		   s.health, s.schedulable
	  FROM nodes n
	  JOIN rpq_store.node s ON s.node_id = n.node_id
	  LEFT JOIN bars b ON b.node_id = n.node_id
	 ORDER BY n.type, n.name;
END
$$;
COMMENT ON FUNCTION rpq.node_map(text) IS
	'a row for each node of the pool, by instance type and name, with a bar of its devices. A capital letter: a '
	'workload that has the whole device, the same letter for the same workload (after Z comes A again); a small '
	'letter: a workload that has a part of it; +: several share it; # and -: whole and part of work that the '
	'caller may not see; ~: kept by a hold; a dot: free; ×: free on a node that takes nothing new. A CPU node has '
	'ten steps of CPU in use. rpq.nodes has the reasons of health. Errors: 42704. Callers: everyone who sees the '
	'pool';

CREATE OR REPLACE FUNCTION rpq.node_map_svg(pool text) RETURNS text
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	named text;
	body text := '';
	row_number int := 0;
	longest int := 4;
	widest int := 10;
	wanted int;
	m record;
BEGIN
	SELECT p.name INTO named FROM rpq_store.pool p
	 WHERE p.pool_id = rpq_store.authorize('node_map_svg', node_map_svg.pool);
	FOR m IN SELECT x.*, substr(x.map, 2, length(x.map) - 2) AS bar FROM rpq.node_map(node_map_svg.pool) x LOOP
		longest := greatest(longest, length(m.node));
		widest := greatest(widest, length(m.bar));
	END LOOP;
	wanted := 30 + longest * 8;
	FOR m IN SELECT x.*, substr(x.map, 2, length(x.map) - 2) AS bar FROM rpq.node_map(node_map_svg.pool) x LOOP
		row_number := row_number + 1;
		body := body || format('<text x="10" y="%s">%s</text>', 33 + row_number * 18, rpq_store.xml_text(m.node))
			|| (SELECT string_agg(format('<rect x="%s" y="%s" width="14" height="14" fill="%s"/>%s',
										 wanted + (g - 1) * 16, 21 + row_number * 18,
										 CASE WHEN c IN ('.', '×', '~') THEN '#fff'
											  WHEN c IN ('#', '-') THEN '#bbb' ELSE '#ddd' END,
										 CASE WHEN c = '.' THEN '' ELSE
											 format('<text x="%s" y="%s" text-anchor="middle">%s</text>',
												 wanted + (g - 1) * 16 + 7, 33 + row_number * 18, c) END), ''
								  ORDER BY g)
				  FROM generate_series(1, length(m.bar)) g, LATERAL (SELECT substr(m.bar, g, 1)) s(c))
			|| format(E'<text x="%s" y="%s">%s%s</text>\n', wanted + widest * 16 + 10, 33 + row_number * 18,
					  rpq_store.xml_text(m.health), CASE WHEN m.schedulable THEN '' ELSE ', cordoned' END);
	END LOOP;
	RETURN format(E'<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" '
		'font-family="monospace" font-size="12">\n'
		'<title>Nodes of pool %s</title>\n<rect width="100%%" height="100%%" fill="#fff"/>\n'
		'<text x="10" y="20" font-weight="bold">Nodes of pool %s: one square a device '
		'(CPU nodes: a tenth of CPU)</text>\n'
		'<g stroke-width="1"><style>rect{stroke:#000}text{stroke:none}</style>\n%s</g>\n'
		'<text x="10" y="%s">A whole, a part, + shared, # - of others, ~ held, × free but nothing new, '
		'empty free</text>\n</svg>',
		wanted + widest * 16 + 220, 70 + row_number * 18, rpq_store.xml_text(named), rpq_store.xml_text(named), body,
		58 + row_number * 18);
END
$$;
COMMENT ON FUNCTION rpq.node_map_svg(text) IS
	'rpq.node_map as an SVG picture, readable in black and white, without script. Errors: 42704. Callers: '
	'everyone who sees the pool';

CREATE OR REPLACE FUNCTION rpq_store.xml_text(value text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT replace(replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'),
				   '''', '&#39;');
END;
COMMENT ON FUNCTION rpq_store.xml_text(text) IS 'text as it may stand in XML, in elements and attributes';

-- The type rpq.resources.  The parser's every corner is in test/unit/test_resources.c; here is its SQL face.
\set VERBOSITY verbose
\set SHOW_CONTEXT never
SET search_path = pg_catalog, rpq;

-- Text in and out
SELECT 'gpu=8,cpu=96,memory=800Gi'::resources;
SELECT ' gpu = 1/7 , cpu = 500m,a=0.250, b=-3 '::resources, ''::resources, ' '::resources;
SELECT 'a=1024Ki,b=2Gi,c=1Ti,d=1Pi,e=7Mi'::resources;
SELECT 'gpu=439208192231179.8'::resources, 'gpu=-9223372036854775807/21000'::resources;

\set VERBOSITY default
SELECT 'gpu=1,memory=1Ki'::resources;
SELECT 'gpu=1/11'::resources;
SELECT 'gpu=0.1234'::resources;
SELECT 'gpu=NaN'::resources;
SELECT 'gpu=1,GPU=1'::resources;
SELECT 'gpu=1, cpu=2, gpu=3'::resources;
SELECT 'gpu'::resources;
SELECT 'gpu=1,'::resources;
SELECT 'grün=1'::resources;
SELECT ('gpu=1,cpu=' || repeat('ü', 100))::resources;
SELECT 'gpu=439208192231179.801'::resources;
SELECT 'gpu=-99999999999999999999999'::resources;
\set VERBOSITY sqlstate
SELECT ''::resources -> NULL;
SELECT 'gpu=1e3'::resources;
SELECT 'gpu=99999999999999999999999'::resources;
SELECT string_agg('k' || i || '=1', ',')::resources FROM generate_series(1, 1001) AS i;
\set VERBOSITY default

-- Arithmetic
SELECT 'gpu=1,cpu=2'::resources + 'gpu=3,memory=1', 'gpu=1,cpu=2'::resources - 'gpu=1,memory=1',
	- 'gpu=1,cpu=-2'::resources;
SELECT 'gpu=1/7'::resources * 7, 3 * 'gpu=1/7,cpu=0.5'::resources, 'gpu=2'::resources * 0.25,
	'gpu=3'::resources * -1.50;
SELECT sum('gpu=1/7'::resources) = 'gpu=1', sum('cpu=1/3'::resources) FROM generate_series(1, 7);
SELECT 'gpu=1'::resources * 0.0001;
SELECT 'gpu=1'::resources * 'NaN';
SELECT 'gpu=1'::resources * 'Infinity';
SELECT 'gpu=1,cpu=0'::resources * 1e30;
SELECT 'gpu=0'::resources * 1e30;
SELECT 'gpu=439208192231179.8'::resources + 'gpu=1';
SELECT 'gpu=-439208192231179.8'::resources - 'gpu=1';
SELECT 'gpu=1'::resources + NULL;

-- Amounts
SELECT r -> 'gpu' AS gpu, r -> 'cpu' AS cpu, r -> 'none' AS none, r -> '' AS blank, r -> 'b' AS b
FROM (VALUES ('gpu=1/7,cpu=1.50,b=-2/3'::resources)) AS v (r);
SELECT (r -> 'gpu') * 2 FROM (VALUES ('gpu=439208192231179.8'::resources)) AS v (r);

-- Fits, within, least, greatest
SELECT 'gpu=1,cpu=-5,a=0'::resources <@ 'gpu=1' AS t, 'gpu=1,cpu=1'::resources <@ 'gpu=1' AS f,
	''::resources <@ '' AS t,
	'gpu=1/7'::resources <@ 'gpu=0.142' AS f, 'gpu=0.142'::resources <@ 'gpu=1/7' AS t;
SELECT within('gpu=1,cpu=9', 'gpu=1') AS t, within('gpu=2', 'gpu=1') AS f, within('gpu=1', '') AS t,
	within('', 'gpu=0') AS t, within('gpu=1', 'gpu=0') AS f, within(usage => 'gpu=1', usage_limit => 'gpu=1') AS t,
	within(NULL, 'gpu=1') AS n;
SELECT rpq.least('gpu=1,cpu=5,a=1', 'gpu=2,cpu=3,b=2'), rpq.greatest('gpu=1,cpu=5,a=1', 'gpu=2,cpu=3,b=2');
SELECT pretty('memory=800Gi,gpu=8,cpu=96'), pretty('tpu=3,b=0,gpu=1/7'), pretty('') = '' AS empty,
	pretty('memory=-1.5,cpu=-1');

-- Casts
SELECT 'gpu=8,cpu=0.5,memory=1/7,a=-0.001'::resources::jsonb;
SELECT '{"gpu": 8.000, "cpu": "1/7", "memory": "2Gi", "a": -0.5, "b": " 500m "}'::jsonb::resources,
	'{}'::jsonb::resources = '';
SELECT 'gpu=1'::text::resources, 'gpu=1'::resources::text || '!';
SELECT '[1]'::jsonb::resources;
SELECT '8'::jsonb::resources;
SELECT 'null'::jsonb::resources;
SELECT '{"gpu": null}'::jsonb::resources;
SELECT '{"gpu": true}'::jsonb::resources;
SELECT '{"gpu": {"a": 1}}'::jsonb::resources;
SELECT '{"gpu": [1]}'::jsonb::resources;
SELECT '{"gpu": "many"}'::jsonb::resources;
SELECT '{"gpu": "1/11"}'::jsonb::resources;
SELECT '{"gpu": 0.0001}'::jsonb::resources;
SELECT '{"gpu": 1e400}'::jsonb::resources;
SELECT '{"GPU": 1}'::jsonb::resources;
SELECT '{"": 1}'::jsonb::resources;

-- Equality, order, hash: whatever is equal as text is equal, and nothing else
CREATE TEMP TABLE r (id int, r resources);
INSERT INTO r SELECT i, (CASE i % 4 WHEN 0 THEN 'gpu=' || i % 5 WHEN 1 THEN format('cpu=%s,gpu=1/7', i % 7)
	WHEN 2 THEN format('gpu=%s/7', i % 3) ELSE '' END)::resources FROM generate_series(1, 400) AS i;
SELECT count(DISTINCT r) AS by_content, count(DISTINCT r::text) AS by_text FROM r;
SELECT r, count(*) FROM r GROUP BY r ORDER BY r;
SELECT 'gpu=1'::resources *< 'gpu=2', 'cpu=9'::resources *< 'gpu=1', ''::resources *< 'a=-1',
	'a=1'::resources *>= 'a=1',
	'a=1'::resources *> 'a=1', 'a=1'::resources *<= 'a=1,b=-1', 'gpu=0'::resources <> '',
	'gpu=7/7'::resources = 'gpu=1.000';
SELECT count(*) AS unlike FROM r AS a, r AS b
WHERE (a.r = b.r) <> (a.r::text = b.r::text) OR (a.r = b.r) <> (rpq.resources_cmp(a.r, b.r) = 0)
	OR (a.r = b.r AND (rpq.resources_hash(a.r) <> rpq.resources_hash(b.r)
		OR rpq.resources_hash_extended(a.r, 7) <> rpq.resources_hash_extended(b.r, 7)))
	OR (a.r *< b.r) <> (b.r *> a.r) OR (a.r *<= b.r) <> NOT (a.r *> b.r);
SELECT count(*) AS broken FROM r AS a, r AS b
WHERE a.r + b.r - b.r <> a.r + (b.r - b.r) OR a.r + b.r <> b.r + a.r OR a.r - b.r <> - (b.r - a.r)
	OR NOT within(rpq.least(a.r, b.r), a.r) OR NOT a.r <@ rpq.greatest(a.r, b.r);
SELECT count(*) AS lost FROM r WHERE r::text::resources <> r OR r::jsonb::resources <> r OR r + '' <> r
	OR r * 7 * (-1) <> -r * 7;

SET enable_nestloop = off;
SET enable_mergejoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM r AS a JOIN r AS b ON a.r = b.r;
SELECT count(*) FROM r AS a JOIN r AS b ON a.r = b.r;
SET enable_mergejoin = on;
SET enable_hashjoin = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM r AS a JOIN r AS b ON a.r = b.r;
SELECT count(*) FROM r AS a JOIN r AS b ON a.r = b.r;
RESET enable_nestloop;
RESET enable_hashjoin;

CREATE TEMP TABLE u (r resources UNIQUE, t text);
INSERT INTO u SELECT DISTINCT r FROM r;
INSERT INTO u VALUES ('gpu=2/7');
INSERT INTO u VALUES ('gpu=5/7') ON CONFLICT (r) DO NOTHING;
ANALYZE u;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT r FROM u WHERE r *> 'gpu=1' ORDER BY r;
SELECT r FROM u WHERE r *> 'gpu=1' ORDER BY r;
RESET enable_seqscan;
CREATE INDEX ON u USING hash (r);
-- Assignment, both ways
INSERT INTO u SELECT 'gpu=44'::text, 'gpu=45'::resources;
INSERT INTO u SELECT '{"gpu": 46}'::jsonb;
SELECT * FROM u WHERE r *>= 'gpu=44' ORDER BY r;

-- Aggregate: no rows and NULLs, keys that differ, in a window, over long values, overflow
SELECT sum(r) FROM r WHERE false;
SELECT sum(v::resources) FROM (VALUES (NULL), ('gpu=1'), (NULL), ('cpu=1,gpu=2'), ('gpu=3')) AS t (v);
SELECT id, r, sum(r) OVER (ORDER BY id) FROM r WHERE id <= 6 ORDER BY id;
SELECT id, r, sum(r) OVER (ORDER BY id), sum(r) OVER (ORDER BY id ROWS 1 PRECEDING)
FROM r WHERE id % 4 = 0 AND id <= 24 ORDER BY id;
SELECT sum(r) = (SELECT sum(r) FROM (SELECT sum(r) AS r FROM r GROUP BY id % 3) AS part) FROM r;
SELECT sum(r) FROM (VALUES ('gpu=439208192231179'::resources), ('gpu=1')) AS t (r);
CREATE TEMP TABLE long_value (r resources);
ALTER TABLE long_value ALTER r SET STORAGE external;
INSERT INTO long_value SELECT string_agg(format('k%s=%s/7', i, i), ',')::resources FROM generate_series(1, 1000) AS i;
INSERT INTO long_value SELECT r FROM long_value;
SELECT sum(r) = 2 * r AS doubled FROM long_value GROUP BY r;
SELECT count(DISTINCT r), sum(r) -> 'k700' AS k700, pg_column_size(min(r::text)) > 9000 AS long FROM long_value;

-- Binary: what was sent is received; nothing else than the canonical form is
SELECT resources_send('gpu=1/7,cpu=-1');
SELECT current_setting('data_directory') || '/resources_test.bin' AS file \gset
COPY r TO :'file' (FORMAT binary);
CREATE TEMP TABLE back (id int, r resources);
COPY back FROM :'file' (FORMAT binary);
SELECT count(*), count(*) FILTER (WHERE a.r <> b.r) AS differ FROM r AS a JOIN back AS b USING (id);
CREATE TEMP TABLE wire (r resources);
\set VERBOSITY sqlstate
COPY (SELECT '\x'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x0200000000'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x01ffffffff'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x0100000000ff'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x010000000101410000000000000001'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x010000000101618000000000000000'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x01000000020162000000000000000101610000000000000001'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x01000000020161000000000000000101610000000000000001'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT '\x01000000020161000000000000000101620000000000000bb8'::bytea) TO :'file' (FORMAT binary);
COPY wire FROM :'file' (FORMAT binary);
COPY (SELECT ''::bytea) TO :'file';
SELECT * FROM wire;

-- Operators are there for those who write their schema only
RESET search_path;
SELECT 'gpu=1'::rpq.resources OPERATOR(rpq.+) 'gpu=1', 'gpu=1'::rpq.resources OPERATOR(rpq.->) 'gpu';
SELECT array['gpu=1,cpu=2', NULL]::rpq.resources[], ROW('gpu=1,cpu=2'::rpq.resources);

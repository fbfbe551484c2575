-- The type rpq.resources: input and output, operators, casts, operator classes, aggregate.  All of it is shape: a
-- dump or an index may rest on it, so it changes by update scripts alone.  Functions that nothing rests on are in
-- sql/api/resources.sql.
--
-- Every function here is C that reads its arguments alone: immutable, strict, parallel safe, for everyone.

CREATE TYPE rpq.resources;

CREATE FUNCTION rpq.resources_in(cstring) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_in';
COMMENT ON FUNCTION rpq.resources_in(cstring) IS
'input: text such as gpu=8,cpu=96,memory=800Gi. Errors: 22P02 bad text, 22003 out of range, 54000 more than 1,000 '
'keys. Everyone';
CREATE FUNCTION rpq.resources_out(rpq.resources) RETURNS cstring
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_out';
COMMENT ON FUNCTION rpq.resources_out(rpq.resources) IS
'output: the canonical text, keys sorted. Everyone';
CREATE FUNCTION rpq.resources_recv(internal) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_recv';
COMMENT ON FUNCTION rpq.resources_recv(internal) IS
'binary input, canonical form only. Errors: 22P03 anything else. Everyone';
CREATE FUNCTION rpq.resources_send(rpq.resources) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_send';
COMMENT ON FUNCTION rpq.resources_send(rpq.resources) IS
'binary output: byte 1, int32 number of keys, then for each key its length in one byte, its bytes, and the amount '
'as int64 in 1/21000. Everyone';

CREATE TYPE rpq.resources (
	INPUT = rpq.resources_in,
	OUTPUT = rpq.resources_out,
	RECEIVE = rpq.resources_recv,
	SEND = rpq.resources_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = double,
	STORAGE = extended
);
COMMENT ON TYPE rpq.resources IS
'named amounts, exact: gpu=8,cpu=96,memory=800Gi. Keys [a-z][a-z0-9_.-]*, at most 63 bytes, each once. An amount '
'is a decimal with at most three places, a fraction (1/7), an integer with suffix m (thousandths), or one with '
'Ki, Mi, Gi, Ti, Pi (bytes, held as MiB); it is held as a 64-bit multiple of 1/21000, what is no whole multiple '
'is refused. As a limit, a key that is absent is not limited and zero means none; as a capacity or request, a key '
'that is absent is zero';

-- Arithmetic

CREATE FUNCTION rpq.resources_add(rpq.resources, rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_plus';
COMMENT ON FUNCTION rpq.resources_add(rpq.resources, rpq.resources) IS
'a + b by key; a key that one lacks counts as zero. Error: 22003 out of range. Everyone';
CREATE FUNCTION rpq.resources_sub(rpq.resources, rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_minus';
COMMENT ON FUNCTION rpq.resources_sub(rpq.resources, rpq.resources) IS
'a - b by key; a key that one lacks counts as zero, and a key that comes to zero is kept. Error: 22003 out of '
'range. Everyone';
CREATE FUNCTION rpq.resources_neg(rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_negate';
COMMENT ON FUNCTION rpq.resources_neg(rpq.resources) IS
'every amount with its sign changed. Everyone';
CREATE FUNCTION rpq.resources_mul(rpq.resources, numeric) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_mul_numeric';
COMMENT ON FUNCTION rpq.resources_mul(rpq.resources, numeric) IS
'every amount times a number. Errors: 22P02 a product is no whole multiple of 1/21000, 22003 out of range, 22023 '
'NaN or infinity. Everyone';
CREATE FUNCTION rpq.resources_mul(numeric, rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'numeric_mul_resources';
COMMENT ON FUNCTION rpq.resources_mul(numeric, rpq.resources) IS
'a number times every amount. Errors: 22P02 a product is no whole multiple of 1/21000, 22003 out of range, 22023 '
'NaN or infinity. Everyone';
CREATE FUNCTION rpq.resources_amount(rpq.resources, text) RETURNS numeric
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_get_numeric';
COMMENT ON FUNCTION rpq.resources_amount(rpq.resources, text) IS
'the amount of a key, NULL if absent. Exact where a decimal can be; thirds and sevenths are rounded half away '
'from zero to 20 places. Everyone';

CREATE OPERATOR rpq.+ (FUNCTION = rpq.resources_add, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.+));
COMMENT ON OPERATOR rpq.+ (rpq.resources, rpq.resources) IS
'sum by key';

CREATE OPERATOR rpq.- (FUNCTION = rpq.resources_sub, LEFTARG = rpq.resources, RIGHTARG = rpq.resources);
COMMENT ON OPERATOR rpq.- (rpq.resources, rpq.resources) IS
'difference by key';

CREATE OPERATOR rpq.- (FUNCTION = rpq.resources_neg, RIGHTARG = rpq.resources);
COMMENT ON OPERATOR rpq.- (NONE, rpq.resources) IS
'every amount with its sign changed';

CREATE OPERATOR rpq.* (FUNCTION = rpq.resources_mul, LEFTARG = rpq.resources, RIGHTARG = numeric,
	COMMUTATOR = OPERATOR(rpq.*));
COMMENT ON OPERATOR rpq.* (rpq.resources, numeric) IS
'every amount times a number, exact';

CREATE OPERATOR rpq.* (FUNCTION = rpq.resources_mul, LEFTARG = numeric, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.*));
COMMENT ON OPERATOR rpq.* (numeric, rpq.resources) IS
'a number times every amount, exact';

CREATE OPERATOR rpq.-> (FUNCTION = rpq.resources_amount, LEFTARG = rpq.resources, RIGHTARG = text);
COMMENT ON OPERATOR rpq.-> (rpq.resources, text) IS
'the amount of a key as numeric, NULL if absent';

-- Comparison.  The order operators have names of their own, since < would be read as "fits".

CREATE FUNCTION rpq.resources_fits(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_contained';
COMMENT ON FUNCTION rpq.resources_fits(rpq.resources, rpq.resources) IS
'a fits in capacity b: every positive amount of a is there in b and no smaller. Everyone';
CREATE FUNCTION rpq.resources_eq(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_eq';
COMMENT ON FUNCTION rpq.resources_eq(rpq.resources, rpq.resources) IS
'a and b have the same keys with the same amounts; gpu=0 is not the empty value. Everyone';
CREATE FUNCTION rpq.resources_ne(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_ne';
COMMENT ON FUNCTION rpq.resources_ne(rpq.resources, rpq.resources) IS
'a and b differ in a key or an amount. Everyone';
CREATE FUNCTION rpq.resources_lt(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_lt';
COMMENT ON FUNCTION rpq.resources_lt(rpq.resources, rpq.resources) IS
'a sorts before b. Everyone';
CREATE FUNCTION rpq.resources_le(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_le';
COMMENT ON FUNCTION rpq.resources_le(rpq.resources, rpq.resources) IS
'a sorts before b or equals it. Everyone';
CREATE FUNCTION rpq.resources_ge(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_ge';
COMMENT ON FUNCTION rpq.resources_ge(rpq.resources, rpq.resources) IS
'a sorts after b or equals it. Everyone';
CREATE FUNCTION rpq.resources_gt(rpq.resources, rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_gt';
COMMENT ON FUNCTION rpq.resources_gt(rpq.resources, rpq.resources) IS
'a sorts after b. Everyone';
CREATE FUNCTION rpq.resources_cmp(rpq.resources, rpq.resources) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_btcmp';
COMMENT ON FUNCTION rpq.resources_cmp(rpq.resources, rpq.resources) IS
'negative, zero, positive: the total order for sorting, by the first key, then its amount, then the next key; '
'says nothing about what fits. Everyone';
CREATE FUNCTION rpq.resources_hash(rpq.resources) RETURNS integer
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_hash';
COMMENT ON FUNCTION rpq.resources_hash(rpq.resources) IS
'hash of the content. Everyone';
CREATE FUNCTION rpq.resources_hash_extended(rpq.resources, bigint) RETURNS bigint
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_hash_extended';
COMMENT ON FUNCTION rpq.resources_hash_extended(rpq.resources, bigint) IS
'hash of the content with a seed. Everyone';

CREATE OPERATOR rpq.<@ (FUNCTION = rpq.resources_fits, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	RESTRICT = contsel, JOIN = contjoinsel);
COMMENT ON OPERATOR rpq.<@ (rpq.resources, rpq.resources) IS
'fits in a capacity: every positive amount is there and no smaller';

CREATE OPERATOR rpq.= (FUNCTION = rpq.resources_eq, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.=), NEGATOR = OPERATOR(rpq.<>), RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
COMMENT ON OPERATOR rpq.= (rpq.resources, rpq.resources) IS
'equal by content';

CREATE OPERATOR rpq.<> (FUNCTION = rpq.resources_ne, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.<>), NEGATOR = OPERATOR(rpq.=), RESTRICT = neqsel, JOIN = neqjoinsel);
COMMENT ON OPERATOR rpq.<> (rpq.resources, rpq.resources) IS
'different in content';

CREATE OPERATOR rpq.*< (FUNCTION = rpq.resources_lt, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.*>), NEGATOR = OPERATOR(rpq.*>=), RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
COMMENT ON OPERATOR rpq.*< (rpq.resources, rpq.resources) IS
'sorts before';

CREATE OPERATOR rpq.*<= (FUNCTION = rpq.resources_le, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.*>=), NEGATOR = OPERATOR(rpq.*>), RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
COMMENT ON OPERATOR rpq.*<= (rpq.resources, rpq.resources) IS
'sorts before or is equal';

CREATE OPERATOR rpq.*>= (FUNCTION = rpq.resources_ge, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.*<=), NEGATOR = OPERATOR(rpq.*<), RESTRICT = scalargesel, JOIN = scalargejoinsel);
COMMENT ON OPERATOR rpq.*>= (rpq.resources, rpq.resources) IS
'sorts after or is equal';

CREATE OPERATOR rpq.*> (FUNCTION = rpq.resources_gt, LEFTARG = rpq.resources, RIGHTARG = rpq.resources,
	COMMUTATOR = OPERATOR(rpq.*<), NEGATOR = OPERATOR(rpq.*<=), RESTRICT = scalargtsel, JOIN = scalargtjoinsel);
COMMENT ON OPERATOR rpq.*> (rpq.resources, rpq.resources) IS
'sorts after';

CREATE OPERATOR FAMILY rpq.resources_ops USING btree;
COMMENT ON OPERATOR FAMILY rpq.resources_ops USING btree IS 'the total order of resources, for sorting alone';
CREATE OPERATOR CLASS rpq.resources_ops DEFAULT FOR TYPE rpq.resources USING btree FAMILY rpq.resources_ops AS
	OPERATOR 1 rpq.*<,
	OPERATOR 2 rpq.*<=,
	OPERATOR 3 rpq.=,
	OPERATOR 4 rpq.*>=,
	OPERATOR 5 rpq.*>,
	FUNCTION 1 rpq.resources_cmp(rpq.resources, rpq.resources),
	FUNCTION 4 pg_catalog.btequalimage(oid);
COMMENT ON OPERATOR CLASS rpq.resources_ops USING btree IS 'the total order of resources, for sorting alone';

CREATE OPERATOR FAMILY rpq.resources_ops USING hash;
COMMENT ON OPERATOR FAMILY rpq.resources_ops USING hash IS 'equality of resources by content';
CREATE OPERATOR CLASS rpq.resources_ops DEFAULT FOR TYPE rpq.resources USING hash FAMILY rpq.resources_ops AS
	OPERATOR 1 rpq.=,
	FUNCTION 1 rpq.resources_hash(rpq.resources),
	FUNCTION 2 rpq.resources_hash_extended(rpq.resources, bigint);
COMMENT ON OPERATOR CLASS rpq.resources_ops USING hash IS 'equality of resources by content';

-- Aggregate

CREATE FUNCTION rpq.resources_accum(rpq.resources, rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_accum';
COMMENT ON FUNCTION rpq.resources_accum(rpq.resources, rpq.resources) IS
'transition of sum(resources): as +, in place where the keys are the same. Error: 22003 out of range. Everyone';

CREATE AGGREGATE rpq.sum(rpq.resources) (
	SFUNC = rpq.resources_accum,
	STYPE = rpq.resources,
	COMBINEFUNC = rpq.resources_accum,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE rpq.sum(rpq.resources) IS
'sum by key; NULL inputs are skipped, over no rows it is NULL as other sums are. Error: 22003 when a sum on the '
'way is out of range. Everyone';

-- Casts

CREATE FUNCTION rpq.resources_to_jsonb(rpq.resources) RETURNS jsonb
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_to_jsonb';
COMMENT ON FUNCTION rpq.resources_to_jsonb(rpq.resources) IS
'an object with a number for each amount, or a string such as 1/7 for what no decimal holds. Everyone';
CREATE FUNCTION rpq.jsonb_to_resources(jsonb) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'jsonb_to_resources';
COMMENT ON FUNCTION rpq.jsonb_to_resources(jsonb) IS
'an object of numbers, and of strings that hold an amount as in the text form. Errors: 22P02 no object, a value '
'that is null, boolean or nested, a bad key, a number that is no whole multiple of 1/21000; 22003 out of range. '
'Everyone';

CREATE CAST (rpq.resources AS jsonb) WITH FUNCTION rpq.resources_to_jsonb(rpq.resources) AS ASSIGNMENT;
COMMENT ON CAST (rpq.resources AS jsonb) IS 'lossless: numbers, and strings for fractions';

CREATE CAST (jsonb AS rpq.resources) WITH FUNCTION rpq.jsonb_to_resources(jsonb) AS ASSIGNMENT;
COMMENT ON CAST (jsonb AS rpq.resources) IS 'from an object of numbers or strings';

CREATE CAST (rpq.resources AS text) WITH INOUT AS ASSIGNMENT;
COMMENT ON CAST (rpq.resources AS text) IS 'the canonical text';

CREATE CAST (text AS rpq.resources) WITH INOUT AS ASSIGNMENT;
COMMENT ON CAST (text AS rpq.resources) IS 'from text such as gpu=8,cpu=96';

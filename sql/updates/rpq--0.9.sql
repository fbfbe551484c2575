\echo Use "CREATE EXTENSION rpq" to load this file. \quit

-- The two schemas.  rpq holds what people may use; rpq_store holds tables and private functions and gives PUBLIC
-- nothing.  Both are members of the extension, so they go with it.
CREATE SCHEMA rpq;
COMMENT ON SCHEMA rpq IS 'resource pools and quotas: the functions, views and the type that people use';
CREATE SCHEMA rpq_store;
COMMENT ON SCHEMA rpq_store IS 'resource pools and quotas: tables and private functions; nothing here is an interface';
GRANT USAGE ON SCHEMA rpq TO PUBLIC;
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
-- Tenancy: who there is.  Written by administrators' functions (sql/api/tenancy.sql, groups.sql) under row locks.  A
-- cycle reads of it the rights of accounts alone, so only what takes a right away (deleting an account, its
-- organisation admin flag, its place in a group) takes the turns of the scopes in which that account waits.  The fence
-- is written by src/api/caller.c.

CREATE TABLE rpq_store.fence (
	only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	system_identifier text NOT NULL,
	database_oid oid NOT NULL,
	written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE rpq_store.tenant (
	tenant_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	description text,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE rpq_store.cluster (
	cluster_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	region text,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE rpq_store.instance_type (
	type_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	kind text NOT NULL CHECK (kind IN ('gpu', 'cpu')),
	capacity rpq.resources NOT NULL,
	machine_unit rpq.resources NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE rpq_store.account (
	account_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	db_role text COLLATE "C",
	org_admin boolean NOT NULL DEFAULT false,
	gateway boolean NOT NULL DEFAULT false,
	executor boolean NOT NULL DEFAULT false,
	driver boolean NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
-- The row of a deleted account stays, since ended workloads and the ledger show its name; name and role are free again.
CREATE UNIQUE INDEX account_tenant_name ON rpq_store.account (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX account_db_role ON rpq_store.account (db_role) WHERE deleted_at IS NULL;

CREATE TABLE rpq_store.user_group (
	group_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (tenant_id, name)
);

CREATE TABLE rpq_store.group_account (
	group_id bigint NOT NULL REFERENCES rpq_store.user_group,
	account_id bigint NOT NULL REFERENCES rpq_store.account,
	PRIMARY KEY (group_id, account_id)
);
CREATE INDEX ON rpq_store.group_account (account_id);

CREATE TABLE rpq_store.project_group (
	project_group_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (tenant_id, name)
);

CREATE TABLE rpq_store.workload_type (
	workload_type_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (tenant_id, name)
);

COMMENT ON TABLE rpq_store.fence IS
'which database may act; written by the first call that stores something, dumped with the rest, so that a copy '
'knows that it is one';
COMMENT ON COLUMN rpq_store.fence.only_row IS 'always true: there is one row';
COMMENT ON COLUMN rpq_store.fence.system_identifier IS 'of the cluster that the data belongs to';
COMMENT ON COLUMN rpq_store.fence.database_oid IS 'of the database that the data belongs to';
COMMENT ON COLUMN rpq_store.fence.written_at IS 'true time of writing';
COMMENT ON TABLE rpq_store.tenant IS 'an organisation';
COMMENT ON COLUMN rpq_store.tenant.tenant_id IS 'id';
COMMENT ON COLUMN rpq_store.tenant.name IS 'unique';
COMMENT ON COLUMN rpq_store.tenant.description IS 'free text';
COMMENT ON COLUMN rpq_store.tenant.created_at IS 'true time';
COMMENT ON TABLE rpq_store.cluster IS 'a place of nodes';
COMMENT ON COLUMN rpq_store.cluster.cluster_id IS 'id';
COMMENT ON COLUMN rpq_store.cluster.name IS 'unique';
COMMENT ON COLUMN rpq_store.cluster.region IS 'free text';
COMMENT ON COLUMN rpq_store.cluster.created_at IS 'true time';
COMMENT ON TABLE rpq_store.instance_type IS 'a machine specification';
COMMENT ON COLUMN rpq_store.instance_type.type_id IS 'id';
COMMENT ON COLUMN rpq_store.instance_type.name IS 'unique';
COMMENT ON COLUMN rpq_store.instance_type.kind IS 'gpu or cpu: the primary resource';
COMMENT ON COLUMN rpq_store.instance_type.capacity IS 'of one node';
COMMENT ON COLUMN rpq_store.instance_type.machine_unit IS 'a whole machine, in the primary resource alone';
COMMENT ON COLUMN rpq_store.instance_type.created_at IS 'true time';
COMMENT ON TABLE rpq_store.account IS 'a person or service of a tenant';
COMMENT ON COLUMN rpq_store.account.account_id IS 'id';
COMMENT ON COLUMN rpq_store.account.tenant_id IS 'its tenant';
COMMENT ON COLUMN rpq_store.account.name IS 'unique among those of the tenant that are not deleted';
COMMENT ON COLUMN rpq_store.account.db_role IS 'name of the PostgreSQL role that it is found by; NULL: none';
COMMENT ON COLUMN rpq_store.account.org_admin IS 'administers its tenant';
COMMENT ON COLUMN rpq_store.account.gateway IS 'may act for any account of its tenant';
COMMENT ON COLUMN rpq_store.account.executor IS 'may sync nodes, claim pods and report for its tenant';
COMMENT ON COLUMN rpq_store.account.driver IS 'may claim and report scaling requests';
COMMENT ON COLUMN rpq_store.account.created_at IS 'true time';
COMMENT ON COLUMN rpq_store.account.deleted_at IS 'NULL while it exists; the row stays for what shows its name';
COMMENT ON TABLE rpq_store.user_group IS 'a set of accounts, to which policies apply';
COMMENT ON COLUMN rpq_store.user_group.group_id IS 'id';
COMMENT ON COLUMN rpq_store.user_group.tenant_id IS 'its tenant';
COMMENT ON COLUMN rpq_store.user_group.name IS 'unique in the tenant';
COMMENT ON COLUMN rpq_store.user_group.created_at IS 'true time';
COMMENT ON TABLE rpq_store.group_account IS 'an account in a user group';
COMMENT ON COLUMN rpq_store.group_account.group_id IS 'the group';
COMMENT ON COLUMN rpq_store.group_account.account_id IS 'the account, of the same tenant';
COMMENT ON TABLE rpq_store.project_group IS 'a label under which pools are grouped';
COMMENT ON COLUMN rpq_store.project_group.project_group_id IS 'id';
COMMENT ON COLUMN rpq_store.project_group.tenant_id IS 'its tenant';
COMMENT ON COLUMN rpq_store.project_group.name IS 'unique in the tenant';
COMMENT ON COLUMN rpq_store.project_group.created_at IS 'true time';
COMMENT ON TABLE rpq_store.workload_type IS 'a kind of work that a tenant knows; pools may restrict theirs';
COMMENT ON COLUMN rpq_store.workload_type.workload_type_id IS 'id';
COMMENT ON COLUMN rpq_store.workload_type.tenant_id IS 'its tenant';
COMMENT ON COLUMN rpq_store.workload_type.name IS 'unique in the tenant';
COMMENT ON COLUMN rpq_store.workload_type.created_at IS 'true time';
-- Pools, what they hold, and who may use them.  Written by administrators' functions and operations (sql/api/pools.sql,
-- nodes.sql, members.sql, operations.sql) that have taken, and changed, the turns of the pools concerned.

-- One sequence numbers pools and queues, so that a scope's id says which of both it is in every table keyed by scope.
CREATE SEQUENCE rpq_store.scope_id_seq AS bigint;

CREATE TABLE rpq_store.pool (
	pool_id bigint PRIMARY KEY DEFAULT nextval('rpq_store.scope_id_seq'),
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	cluster_id bigint NOT NULL REFERENCES rpq_store.cluster,
	kind text NOT NULL CHECK (kind IN ('gpu', 'cpu')),
	type text NOT NULL CHECK (type IN ('shared', 'dedicated', 'exclusive')),
	name text COLLATE "C" NOT NULL,
	status text NOT NULL DEFAULT 'creating'
		CHECK (status IN ('creating', 'ready', 'updating', 'failed', 'deleting', 'deleted')),
	description text,
	project_group_id bigint REFERENCES rpq_store.project_group,
	workload_types text[],
	default_priority int NOT NULL DEFAULT 50 CHECK (default_priority BETWEEN 0 AND 100),
	user_default_quota rpq.resources,
	scheduling_policy text NOT NULL DEFAULT 'binpack'
		CHECK (scheduling_policy IN ('binpack', 'spread', 'least_fragmentation')),
	queueing text NOT NULL DEFAULT 'backfill' CHECK (queueing IN ('backfill', 'best_effort')),
	frozen boolean NOT NULL DEFAULT false,
	allow_guarantee boolean NOT NULL DEFAULT true,
	pay_as_you_go boolean NOT NULL DEFAULT false,
	faulty_node_rotation boolean NOT NULL DEFAULT false,
	idle_time_sharing boolean NOT NULL DEFAULT false,
	open boolean NOT NULL DEFAULT true,
	isolate_accounts boolean NOT NULL DEFAULT false,
	min_runtime interval NOT NULL DEFAULT '0' CHECK (min_runtime >= '0'),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
-- A pool is never deleted physically: its name is free again, its id stays in history, usage and ledger.
CREATE UNIQUE INDEX pool_tenant_name ON rpq_store.pool (tenant_id, name) WHERE status <> 'deleted';
-- The one shared pool of a tenant, cluster and kind.
CREATE UNIQUE INDEX pool_shared ON rpq_store.pool (tenant_id, cluster_id, kind) WHERE type = 'shared';

CREATE TABLE rpq_store.pool_instance (
	pool_instance_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	type_id bigint NOT NULL REFERENCES rpq_store.instance_type,
	scheduling_policy text CHECK (scheduling_policy IN ('binpack', 'spread', 'least_fragmentation')),
	user_default_quota rpq.resources,
	PRIMARY KEY (pool_id, type_id)
);

-- The distinct node sizes of a pool: submit reads these few rows and never the nodes; their sum is the pool's total.
CREATE TABLE rpq_store.pool_capacity (
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	type_id bigint NOT NULL REFERENCES rpq_store.instance_type,
	capacity rpq.resources NOT NULL,
	nodes bigint NOT NULL CHECK (nodes >= 0),
	PRIMARY KEY (pool_id, type_id, capacity)
);

CREATE TABLE rpq_store.node (
	node_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	cluster_id bigint NOT NULL REFERENCES rpq_store.cluster,
	name text COLLATE "C" NOT NULL,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	type_id bigint NOT NULL REFERENCES rpq_store.instance_type,
	capacity rpq.resources NOT NULL,
	reported rpq.resources,
	usable rpq.resources NOT NULL,
	schedulable boolean NOT NULL DEFAULT true,
	draining boolean NOT NULL DEFAULT false,
	health text NOT NULL DEFAULT 'healthy' CHECK (health IN ('healthy', 'degraded', 'unhealthy')),
	health_reason text,
	silent boolean NOT NULL DEFAULT false,
	decided_health text CHECK (decided_health IN ('healthy', 'degraded')),
	decided_reason text,
	removing boolean NOT NULL DEFAULT false,
	labels jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
	provider_id text,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	autoscaler_instance_id bigint,
	UNIQUE (tenant_id, name)
);
CREATE INDEX node_pool ON rpq_store.node (pool_id, type_id);
CREATE INDEX node_unhealthy ON rpq_store.node (pool_id) WHERE health = 'unhealthy';

CREATE TABLE rpq_store.member (
	member_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	account_id bigint NOT NULL REFERENCES rpq_store.account,
	max_priority int NOT NULL DEFAULT 100 CHECK (max_priority BETWEEN 0 AND 100),
	guarantee boolean NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (pool_id, account_id)
);
CREATE INDEX member_account ON rpq_store.member (account_id);

-- A row is config mode custom, its absence config mode default.  type_id 0 is the pool as a whole.
CREATE TABLE rpq_store.member_quota (
	member_quota_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
	pool_id bigint NOT NULL,
	account_id bigint NOT NULL,
	type_id bigint NOT NULL DEFAULT 0,
	quota rpq.resources NOT NULL,
	PRIMARY KEY (pool_id, account_id, type_id),
	FOREIGN KEY (pool_id, account_id) REFERENCES rpq_store.member ON DELETE CASCADE
);

CREATE TABLE rpq_store.pool_admin (
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	account_id bigint NOT NULL REFERENCES rpq_store.account,
	PRIMARY KEY (pool_id, account_id)
);
CREATE INDEX pool_admin_account ON rpq_store.pool_admin (account_id);

COMMENT ON SEQUENCE rpq_store.scope_id_seq IS 'ids of scopes: pools and queues';

COMMENT ON TABLE rpq_store.pool IS
'a named set of nodes of one kind in one cluster, with quotas, members and rules; never deleted physically';
COMMENT ON COLUMN rpq_store.pool.pool_id IS 'its id, and that of its scope';
COMMENT ON COLUMN rpq_store.pool.tenant_id IS 'the tenant that it belongs to';
COMMENT ON COLUMN rpq_store.pool.cluster_id IS 'the cluster that its nodes are in';
COMMENT ON COLUMN rpq_store.pool.kind IS 'gpu or cpu: the kind of its instance types';
COMMENT ON COLUMN rpq_store.pool.type IS 'shared, dedicated or exclusive';
COMMENT ON COLUMN rpq_store.pool.name IS 'its name, unique in the tenant among pools that are not deleted';
COMMENT ON COLUMN rpq_store.pool.status IS 'creating, ready, updating, failed, deleting or deleted';
COMMENT ON COLUMN rpq_store.pool.description IS 'free text';
COMMENT ON COLUMN rpq_store.pool.project_group_id IS 'the project group that it is shown under';
COMMENT ON COLUMN rpq_store.pool.workload_types IS 'names of the workload types that it takes; NULL: all';
COMMENT ON COLUMN rpq_store.pool.default_priority IS 'priority, 0 to 100, of a submission without one';
COMMENT ON COLUMN rpq_store.pool.user_default_quota IS
'personal quota of members in config mode default, for the pool as a whole; NULL: no limit';
COMMENT ON COLUMN rpq_store.pool.scheduling_policy IS 'how nodes are chosen: binpack, spread or least_fragmentation';
COMMENT ON COLUMN rpq_store.pool.queueing IS 'what a blocked workload keeps others from: backfill or best_effort';
COMMENT ON COLUMN rpq_store.pool.frozen IS 'nothing is submitted or admitted; what runs goes on';
COMMENT ON COLUMN rpq_store.pool.allow_guarantee IS 'whether members with the right may submit guaranteed workloads';
COMMENT ON COLUMN rpq_store.pool.pay_as_you_go IS 'every workload is non-preemptible; set at creation';
COMMENT ON COLUMN rpq_store.pool.faulty_node_rotation IS
'exclusive pools: an unhealthy node is swapped for one of the shared pool';
COMMENT ON COLUMN rpq_store.pool.idle_time_sharing IS
'exclusive pools: preemptible work of the shared pool may use free nodes';
COMMENT ON COLUMN rpq_store.pool.open IS 'shared pools: every account of the tenant may submit; off: members only';
COMMENT ON COLUMN rpq_store.pool.isolate_accounts IS 'exclusive pools: a node hosts pods of one account at a time';
COMMENT ON COLUMN rpq_store.pool.min_runtime IS 'how long a workload runs before it may be preempted';
COMMENT ON COLUMN rpq_store.pool.created_at IS 'when it was made, or asked for';
COMMENT ON COLUMN rpq_store.pool.deleted_at IS 'when it was deleted; NULL: it is not';

COMMENT ON TABLE rpq_store.pool_instance IS
'an instance type that a pool has or had nodes of, with what is set for it alone';
COMMENT ON COLUMN rpq_store.pool_instance.pool_instance_id IS 'a key of one column';
COMMENT ON COLUMN rpq_store.pool_instance.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.pool_instance.type_id IS 'the instance type';
COMMENT ON COLUMN rpq_store.pool_instance.scheduling_policy IS
'in place of the pool''s, for nodes of this type; NULL: the pool''s';
COMMENT ON COLUMN rpq_store.pool_instance.user_default_quota IS
'personal quota for this type of members in config mode default; NULL: no limit';

COMMENT ON TABLE rpq_store.pool_capacity IS 'the distinct node sizes of a pool; their sum is its total';
COMMENT ON COLUMN rpq_store.pool_capacity.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.pool_capacity.type_id IS 'the instance type';
COMMENT ON COLUMN rpq_store.pool_capacity.capacity IS 'what such a node nominally holds';
COMMENT ON COLUMN rpq_store.pool_capacity.nodes IS 'how many nodes of the pool have this type and size';

COMMENT ON TABLE rpq_store.node IS 'one machine; it is in exactly one pool';
COMMENT ON COLUMN rpq_store.node.node_id IS 'its id';
COMMENT ON COLUMN rpq_store.node.tenant_id IS 'the tenant of its pool';
COMMENT ON COLUMN rpq_store.node.cluster_id IS 'the cluster that it stands in';
COMMENT ON COLUMN rpq_store.node.name IS 'its name, unique in the tenant';
COMMENT ON COLUMN rpq_store.node.pool_id IS 'the pool that it is in';
COMMENT ON COLUMN rpq_store.node.type_id IS 'its instance type';
COMMENT ON COLUMN rpq_store.node.capacity IS 'what it nominally holds; gpu counts its devices';
COMMENT ON COLUMN rpq_store.node.reported IS 'what its executor last said that it holds; NULL: nothing was said';
COMMENT ON COLUMN rpq_store.node.usable IS 'the lesser of capacity and reported';
COMMENT ON COLUMN rpq_store.node.schedulable IS
'an administrator''s decision: off is cordoned, nothing new is placed on it';
COMMENT ON COLUMN rpq_store.node.draining IS 'an operation is taking its pods off';
COMMENT ON COLUMN rpq_store.node.health IS
'healthy, degraded or unhealthy; nothing new is placed on one that is not healthy';
COMMENT ON COLUMN rpq_store.node.health_reason IS 'why it is not healthy, or cordoned, in words';
COMMENT ON COLUMN rpq_store.node.silent IS 'it is unhealthy because its executor was silent, not by a decision';
COMMENT ON COLUMN rpq_store.node.decided_health IS
'while it is silent, the health that it has again with the next sign of life; NULL: it is not silent';
COMMENT ON COLUMN rpq_store.node.decided_reason IS 'while it is silent, the health_reason that goes with that';
COMMENT ON COLUMN rpq_store.node.removing IS
'removed by force, and kept until the last workload on it, which its client keeps locked, has left';
COMMENT ON COLUMN rpq_store.node.labels IS 'a JSON object of an administrator''s own';
COMMENT ON COLUMN rpq_store.node.provider_id IS 'the machine''s id at its provider';
COMMENT ON COLUMN rpq_store.node.autoscaler_instance_id IS 'the autoscaler''s instance that it came from';
COMMENT ON COLUMN rpq_store.node.created_at IS 'when it was added';

COMMENT ON TABLE rpq_store.member IS
'an account authorised in a pool; in a shared pool, one with settings of its own';
COMMENT ON COLUMN rpq_store.member.member_id IS 'a key of one column';
COMMENT ON COLUMN rpq_store.member.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.member.account_id IS 'the account';
COMMENT ON COLUMN rpq_store.member.max_priority IS 'the highest priority, 0 to 100, that it may submit with';
COMMENT ON COLUMN rpq_store.member.guarantee IS 'whether it may submit workloads that are never preempted';
COMMENT ON COLUMN rpq_store.member.created_at IS 'when it became a member';

COMMENT ON TABLE rpq_store.member_quota IS
'a member''s own quota (config mode custom); without a row the default is looked up';
COMMENT ON COLUMN rpq_store.member_quota.member_quota_id IS 'a key of one column';
COMMENT ON COLUMN rpq_store.member_quota.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.member_quota.account_id IS 'the account';
COMMENT ON COLUMN rpq_store.member_quota.type_id IS 'the instance type; 0: the pool as a whole';
COMMENT ON COLUMN rpq_store.member_quota.quota IS 'the most that it may use; a key that it lacks is not limited';

COMMENT ON TABLE rpq_store.pool_admin IS 'resource administrators of a pool';
COMMENT ON COLUMN rpq_store.pool_admin.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.pool_admin.account_id IS 'the account that administers it';
-- Workloads, the ledger, and what only the holder of a turn writes.

-- A client's own row.  Written by submit, enqueue, edit, stop, the reports (its owner's session) and by the cycle,
-- which takes it with SKIP LOCKED.  No foreign key: rows that many share would cost submit a quarter and a multixact
-- each.
CREATE TABLE rpq_store.workload (
	workload_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL,
	scope_id bigint NOT NULL,
	account_id bigint NOT NULL,
	shape bigint NOT NULL,
	submitted_at timestamptz,
	created_at timestamptz NOT NULL,
	replicas int NOT NULL,
	attempt int NOT NULL DEFAULT 0,
	preemptions int NOT NULL DEFAULT 0,
	priority smallint NOT NULL,
	guarantee boolean NOT NULL DEFAULT false,
	checkpointable boolean NOT NULL DEFAULT false,
	hidden boolean NOT NULL DEFAULT false,
	status text COLLATE "C" NOT NULL,
	workload_type text COLLATE "C" NOT NULL,
	resources rpq.resources NOT NULL,
	instance_types bigint[],
	name text COLLATE "C",
	on_node_loss text COLLATE "C" NOT NULL DEFAULT 'requeue',
	max_runtime interval,
	not_before timestamptz,
	pool_id bigint,
	type_id bigint,
	policy_id bigint,
	lender_id bigint,
	nodes text[],
	started_at timestamptz,
	deadline timestamptz,
	running_at timestamptz,
	ended_at timestamptz,
	cause text,
	detail text,
	checkpoint text,
	checkpoint_at timestamptz,
	request_id text COLLATE "C",
	request_digest bytea,
	labels jsonb,
	spec jsonb
);
CREATE UNIQUE INDEX workload_request ON rpq_store.workload (account_id, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX workload_queued ON rpq_store.workload (scope_id, shape, submitted_at, workload_id)
	WHERE status = 'queued';
CREATE INDEX workload_live ON rpq_store.workload (account_id, scope_id) WHERE ended_at IS NULL;
-- what is placed through queues: views count it, and work of pools has no entry here
CREATE INDEX workload_through_queue ON rpq_store.workload (scope_id)
	WHERE policy_id IS NOT NULL AND status IN ('starting', 'running');
-- what borrows room: views and operations look for it, and most pools lend nothing
CREATE INDEX workload_borrowed ON rpq_store.workload (lender_id)
	WHERE lender_id IS NOT NULL AND status IN ('starting', 'running');
CREATE INDEX workload_deadline ON rpq_store.workload (scope_id, deadline)
	WHERE deadline IS NOT NULL AND status IN ('starting', 'running');
CREATE INDEX workload_ended ON rpq_store.workload (scope_id, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX workload_ended_account ON rpq_store.workload (account_id, ended_at) WHERE ended_at IS NOT NULL;

-- Ledger, inbox, feed and workload_events in one: append-only, never updated or flagged.
-- kind: enqueue withdraw edit admit start release move late_report carry draft report.
-- report: executors said something of the workload's pods (pod_report); it adds nothing and wakes a cycle.
-- waiting is what the entry adds to the length of its lane (scope_id, shape), resources what it adds to usage.
CREATE TABLE rpq_store.entry (
	entry_id bigint GENERATED ALWAYS AS IDENTITY,
	scope_id bigint NOT NULL,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	at timestamptz NOT NULL,
	workload_id bigint NOT NULL,
	shape bigint,
	submitted_at timestamptz,
	account_id bigint,
	policy_id bigint,
	pool_id bigint,
	type_id bigint,
	lender_id bigint,
	attempt int NOT NULL DEFAULT 0,
	waiting smallint NOT NULL DEFAULT 0,
	kind text COLLATE "C" NOT NULL,
	status text COLLATE "C",
	actor text,
	cause text COLLATE "C",
	detail text,
	resources rpq.resources,
	PRIMARY KEY (workload_id, entry_id)		-- one index serves the identity and the events of a workload
);
CREATE INDEX entry_scope_xid ON rpq_store.entry (scope_id, xid);
CREATE INDEX entry_at ON rpq_store.entry USING brin (at);

-- The lock and the cursor of a scope.  Whoever decides about the scope holds this row (FOR NO KEY UPDATE, in id order)
-- and changes it.  An entry is counted in lane, usage and node_load when its transaction is visible in seen, or is
-- own_xid and entry_id <= own_entry.
CREATE TABLE rpq_store.turn (
	scope_id bigint PRIMARY KEY,
	seen pg_snapshot NOT NULL,
	own_xid xid8 NOT NULL,
	own_entry bigint NOT NULL DEFAULT 0,
	cycle bigint NOT NULL DEFAULT 0,
	room_epoch bigint NOT NULL DEFAULT 1,
	last_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

-- Queued workloads of one shape.  head is a lower bound of (submitted_at, workload_id): a read of the queue index
-- starts there, past the dead entries that an old snapshot keeps at the lane's head.  Most lanes of a scope change in
-- every cycle.  A page that is left nearly empty takes the next versions of its few rows without new index entries,
-- before each of which the primary key would look at all that an old snapshot keeps (30 lanes, after 1,000 cycles under
-- one: 15,000 pages a cycle at fillfactor 70, 2,300 at 30, 150 at 10).
CREATE TABLE rpq_store.lane (
	scope_id bigint NOT NULL,
	shape bigint NOT NULL,
	waiting bigint NOT NULL,
	head_at timestamptz NOT NULL,
	head_id bigint NOT NULL,
	blocked_at_epoch bigint NOT NULL DEFAULT 0,
	considered boolean NOT NULL DEFAULT false,
	account_id bigint NOT NULL,
	priority smallint NOT NULL,
	guarantee boolean NOT NULL,
	checkpointable boolean NOT NULL,
	replicas int NOT NULL,
	workload_type text COLLATE "C" NOT NULL,
	resources rpq.resources NOT NULL,
	instance_types bigint[],
	max_runtime interval,
	not_before timestamptz,
	reason_code text COLLATE "C",
	reason text,
	detail jsonb,
	PRIMARY KEY (scope_id, shape)
) WITH (fillfactor = 10);

-- One cube: the figures of pool, member, policy and instance type are its sums.  policy_id 0 is a direct submission.
-- lender_id is the exclusive pool on whose nodes borrowed work is (idle-time sharing), 0 elsewhere.
CREATE TABLE rpq_store.usage (
	pool_id bigint NOT NULL,
	type_id bigint NOT NULL,
	account_id bigint NOT NULL,
	policy_id bigint NOT NULL DEFAULT 0,
	lender_id bigint NOT NULL DEFAULT 0,
	amount rpq.resources NOT NULL,
	PRIMARY KEY (pool_id, type_id, account_id, policy_id, lender_id)
) WITH (fillfactor = 60);

-- What pods take of each node.  parts: what is taken of each device, in thousandths times 21 (the unit of amounts).
CREATE TABLE rpq_store.node_load (
	node_id bigint PRIMARY KEY,
	pool_id bigint NOT NULL,
	used rpq.resources NOT NULL DEFAULT '',
	parts bigint[] NOT NULL DEFAULT '{}',
	pods int NOT NULL DEFAULT 0
) WITH (fillfactor = 60);
CREATE INDEX node_load_pool ON rpq_store.node_load (pool_id);

CREATE TABLE rpq_store.pod (
	pod_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	workload_id bigint NOT NULL,
	attempt int NOT NULL,
	replica int NOT NULL,
	node_id bigint NOT NULL,
	devices int[]
);
-- By attempt: one that was stopped may be placed again in another pool before its former pool has folded the release.
CREATE UNIQUE INDEX pod_workload ON rpq_store.pod (workload_id, attempt, replica);
CREATE INDEX pod_node ON rpq_store.pod (node_id);

-- Room of a node that is kept for a workload or a move to come.
CREATE TABLE rpq_store.hold (
	hold_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	scope_id bigint NOT NULL,
	node_id bigint NOT NULL,
	workload_id bigint NOT NULL,
	attempt int NOT NULL DEFAULT 0,
	replica int NOT NULL DEFAULT 0,
	resources rpq.resources NOT NULL,
	devices int[],
	purpose text COLLATE "C" NOT NULL CHECK (purpose IN ('stopping', 'move', 'preempt')),
	pod_id bigint,
	operation_id bigint,
	expires_at timestamptz
);
CREATE INDEX hold_node ON rpq_store.hold (node_id);
CREATE INDEX hold_workload ON rpq_store.hold (workload_id);
CREATE INDEX hold_scope ON rpq_store.hold (scope_id, expires_at);
CREATE INDEX hold_pod ON rpq_store.hold (pod_id) WHERE pod_id IS NOT NULL;

-- Victims of preemptions, written with the decision, ended by the cycle that finds the room free.  pending: the victim
-- has still to stop; stopped: its attempt ended; given_up: its preemptor no longer wants or may have the room, the
-- victim goes on.
CREATE TABLE rpq_store.preemption (
	preemption_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL,
	pool_id bigint NOT NULL,
	preemptor bigint,
	victim bigint NOT NULL,
	victim_attempt int NOT NULL,
	victim_account bigint NOT NULL,
	preemptor_account bigint,
	rule text COLLATE "C" NOT NULL CHECK (rule IN ('borrowed', 'reservation', 'priority')),
	rank int NOT NULL,
	gpu_seconds_lost numeric NOT NULL,
	state text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'stopped', 'given_up')),
	expires_at timestamptz
);
CREATE INDEX preemption_pending ON rpq_store.preemption (pool_id) WHERE state = 'pending';
CREATE INDEX preemption_victim ON rpq_store.preemption (victim, victim_attempt);
CREATE INDEX preemption_preemptor ON rpq_store.preemption (preemptor);

-- Signs of life, written by executors.
CREATE TABLE rpq_store.node_seen (
	node_id bigint PRIMARY KEY,
	at timestamptz NOT NULL,
	reported rpq.resources,
	news boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

-- What executors said of pods.  A row comes with the first "start" that is handed out for a pod, and outlives the pod
-- until its executor has let go of it.  state: started (handed out), running, finished (with an outcome), lost (was
-- running, is no longer reported), gone (was told to stop, is no longer reported).
CREATE TABLE rpq_store.pod_report (
	pod_id bigint PRIMARY KEY,
	node_id bigint NOT NULL,
	workload_id bigint NOT NULL,
	attempt int NOT NULL,
	state text COLLATE "C" NOT NULL CHECK (state IN ('started', 'running', 'finished', 'lost', 'gone')),
	outcome text COLLATE "C" CHECK (outcome IN ('succeeded', 'failed', 'stopped')),
	detail text,
	node_fault boolean NOT NULL DEFAULT false,
	devices int[],
	at timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX pod_report_node ON rpq_store.pod_report (node_id);
CREATE INDEX pod_report_workload ON rpq_store.pod_report (workload_id);

-- A row of rpq.schedule(): a type of its own, since an argument and a column of the result are both called pool.
CREATE TYPE rpq.schedule_decision AS (
	workload bigint,
	decision text,
	pool text,
	nodes text[],
	reason_code text,
	reason text
);
COMMENT ON TYPE rpq.schedule_decision IS 'what a cycle decided about one workload';
COMMENT ON COLUMN rpq.schedule_decision.workload IS 'id of the workload';
COMMENT ON COLUMN rpq.schedule_decision.decision IS 'admitted, preempted or waiting';
COMMENT ON COLUMN rpq.schedule_decision.pool IS 'the pool that it was admitted into';
COMMENT ON COLUMN rpq.schedule_decision.nodes IS 'names of its nodes, one for each replica';
COMMENT ON COLUMN rpq.schedule_decision.reason_code IS 'why it waits, as a code';
COMMENT ON COLUMN rpq.schedule_decision.reason IS 'why it waits, as a sentence with figures';

COMMENT ON TABLE rpq_store.workload IS 'workloads, live and ended: a client''s own rows';
COMMENT ON COLUMN rpq_store.workload.workload_id IS 'id';
COMMENT ON COLUMN rpq_store.workload.tenant_id IS 'tenant of the account';
COMMENT ON COLUMN rpq_store.workload.scope_id IS 'pool or queue that it waits in, or waited in';
COMMENT ON COLUMN rpq_store.workload.account_id IS 'account that submitted it';
COMMENT ON COLUMN rpq_store.workload.shape IS
	'hash of what makes work alike (account, size, priority, flags): with scope_id the key of its lane';
COMMENT ON COLUMN rpq_store.workload.submitted_at IS 'first entry into a queue; kept through preemption and loss';
COMMENT ON COLUMN rpq_store.workload.created_at IS 'when the row was made';
COMMENT ON COLUMN rpq_store.workload.replicas IS 'number of pods, placed all or none';
COMMENT ON COLUMN rpq_store.workload.attempt IS 'number of its admissions so far, plus one for each pod move';
COMMENT ON COLUMN rpq_store.workload.preemptions IS 'how often it was preempted';
COMMENT ON COLUMN rpq_store.workload.priority IS '0 to 100, larger is more urgent';
COMMENT ON COLUMN rpq_store.workload.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq_store.workload.checkpointable IS 'can go on from a checkpoint';
COMMENT ON COLUMN rpq_store.workload.hidden IS 'deleted by its owner: left out of lists until retention removes it';
COMMENT ON COLUMN rpq_store.workload.status IS 'draft, queued, starting, running, succeeded, failed or stopped';
COMMENT ON COLUMN rpq_store.workload.workload_type IS 'name of the workload type';
COMMENT ON COLUMN rpq_store.workload.resources IS 'of one replica';
COMMENT ON COLUMN rpq_store.workload.instance_types IS 'instance types that it allows; NULL: any';
COMMENT ON COLUMN rpq_store.workload.name IS 'name; need not be unique';
COMMENT ON COLUMN rpq_store.workload.on_node_loss IS 'requeue or fail';
COMMENT ON COLUMN rpq_store.workload.max_runtime IS 'stopped after so long; NULL: no limit';
COMMENT ON COLUMN rpq_store.workload.not_before IS 'not admitted before';
COMMENT ON COLUMN rpq_store.workload.pool_id IS 'pool that the present or last attempt was admitted in; NULL: none';
COMMENT ON COLUMN rpq_store.workload.type_id IS 'instance type of its nodes';
COMMENT ON COLUMN rpq_store.workload.policy_id IS 'policy that it is charged to';
COMMENT ON COLUMN rpq_store.workload.lender_id IS
	'exclusive pool whose idle room it borrows; NULL: it runs in pool_id itself';
COMMENT ON COLUMN rpq_store.workload.nodes IS 'names of its nodes, one a replica';
COMMENT ON COLUMN rpq_store.workload.started_at IS 'latest admission';
COMMENT ON COLUMN rpq_store.workload.deadline IS 'started_at + max_runtime';
COMMENT ON COLUMN rpq_store.workload.running_at IS 'when the attempt was reported as running';
COMMENT ON COLUMN rpq_store.workload.ended_at IS 'end; NULL: live or a draft';
COMMENT ON COLUMN rpq_store.workload.cause IS 'why it ended, or was put back';
COMMENT ON COLUMN rpq_store.workload.detail IS 'the same as a sentence';
COMMENT ON COLUMN rpq_store.workload.checkpoint IS 'what report_checkpoint said last';
COMMENT ON COLUMN rpq_store.workload.checkpoint_at IS 'when it did';
COMMENT ON COLUMN rpq_store.workload.request_id IS 'the client''s own id of the submission';
COMMENT ON COLUMN rpq_store.workload.request_digest IS
	'digest of the submission''s content, to tell a repeat from another one under the same request_id';
COMMENT ON COLUMN rpq_store.workload.labels IS 'labels';
COMMENT ON COLUMN rpq_store.workload.spec IS 'what the executor is to run';
COMMENT ON TABLE rpq_store.entry IS 'the ledger: what happened to workloads, append-only; also the inbox of cycles';
COMMENT ON COLUMN rpq_store.entry.entry_id IS 'id; not the order of commits';
COMMENT ON COLUMN rpq_store.entry.scope_id IS 'pool or queue whose turn counts it';
COMMENT ON COLUMN rpq_store.entry.xid IS 'transaction that wrote it';
COMMENT ON COLUMN rpq_store.entry.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq_store.entry.workload_id IS 'workload; 0 in a carry entry';
COMMENT ON COLUMN rpq_store.entry.shape IS 'lane of the workload, with scope_id';
COMMENT ON COLUMN rpq_store.entry.submitted_at IS 'of the workload, for the head of its lane';
COMMENT ON COLUMN rpq_store.entry.account_id IS 'account that it is charged to';
COMMENT ON COLUMN rpq_store.entry.policy_id IS 'policy that it is charged to; NULL: a direct submission';
COMMENT ON COLUMN rpq_store.entry.pool_id IS 'pool whose usage it changes';
COMMENT ON COLUMN rpq_store.entry.type_id IS 'instance type of the nodes';
COMMENT ON COLUMN rpq_store.entry.lender_id IS 'exclusive pool that has the nodes of borrowed work; NULL: pool_id has';
COMMENT ON COLUMN rpq_store.entry.attempt IS 'attempt that it belongs to';
COMMENT ON COLUMN rpq_store.entry.waiting IS 'what it adds to the length of the lane';
COMMENT ON COLUMN rpq_store.entry.kind IS
	'enqueue, withdraw, edit, admit, start, release, move, late_report, carry, draft or report';
COMMENT ON COLUMN rpq_store.entry.status IS 'status of the workload after it';
COMMENT ON COLUMN rpq_store.entry.actor IS 'who caused it';
COMMENT ON COLUMN rpq_store.entry.cause IS 'cause, one word';
COMMENT ON COLUMN rpq_store.entry.detail IS 'cause, as a sentence';
COMMENT ON COLUMN rpq_store.entry.resources IS 'what it adds to usage, signed; NULL: nothing';
COMMENT ON TABLE rpq_store.turn IS 'the lock and the cursor of a scope';
COMMENT ON COLUMN rpq_store.turn.scope_id IS 'pool or queue';
COMMENT ON COLUMN rpq_store.turn.seen IS 'snapshot up to which the scope''s entries are counted';
COMMENT ON COLUMN rpq_store.turn.own_xid IS 'transaction that counted last';
COMMENT ON COLUMN rpq_store.turn.own_entry IS 'its entries up to this id are counted';
COMMENT ON COLUMN rpq_store.turn.cycle IS 'number of cycles';
COMMENT ON COLUMN rpq_store.turn.room_epoch IS
	'grows when room may have been freed: a lane blocked at a lower one is tried again';
COMMENT ON COLUMN rpq_store.turn.last_at IS 'latest time written in the scope: entries never run backwards';
COMMENT ON TABLE rpq_store.lane IS 'queued workloads of one shape';
COMMENT ON COLUMN rpq_store.lane.scope_id IS 'pool or queue';
COMMENT ON COLUMN rpq_store.lane.shape IS 'hash of the columns from account_id to not_before';
COMMENT ON COLUMN rpq_store.lane.waiting IS 'number of workloads';
COMMENT ON COLUMN rpq_store.lane.head_at IS 'with head_id a lower bound of (submitted_at, workload_id)';
COMMENT ON COLUMN rpq_store.lane.head_id IS 'with head_at a lower bound of (submitted_at, workload_id)';
COMMENT ON COLUMN rpq_store.lane.blocked_at_epoch IS
	'room_epoch at which it was last blocked by room; 0: it was not';
COMMENT ON COLUMN rpq_store.lane.considered IS 'a cycle has tried it since it came to be';
COMMENT ON COLUMN rpq_store.lane.account_id IS 'account';
COMMENT ON COLUMN rpq_store.lane.priority IS 'priority';
COMMENT ON COLUMN rpq_store.lane.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq_store.lane.checkpointable IS 'can go on from a checkpoint';
COMMENT ON COLUMN rpq_store.lane.replicas IS 'pods of each workload';
COMMENT ON COLUMN rpq_store.lane.workload_type IS 'workload type';
COMMENT ON COLUMN rpq_store.lane.resources IS 'of one replica';
COMMENT ON COLUMN rpq_store.lane.instance_types IS 'instance types that it allows; NULL: any';
COMMENT ON COLUMN rpq_store.lane.max_runtime IS 'limit of the run time; NULL: none';
COMMENT ON COLUMN rpq_store.lane.not_before IS 'not admitted before';
COMMENT ON COLUMN rpq_store.lane.reason_code IS 'why it waits, after the last cycle that tried it';
COMMENT ON COLUMN rpq_store.lane.reason IS 'the same as a sentence with figures';
COMMENT ON COLUMN rpq_store.lane.detail IS 'the figures';
COMMENT ON TABLE rpq_store.usage IS
	'what placed workloads hold, as counted: its sums are the figures of pools, members, policies and instance '
	'types';
COMMENT ON COLUMN rpq_store.usage.pool_id IS 'pool';
COMMENT ON COLUMN rpq_store.usage.type_id IS 'instance type';
COMMENT ON COLUMN rpq_store.usage.account_id IS 'account';
COMMENT ON COLUMN rpq_store.usage.policy_id IS 'policy; 0: a direct submission';
COMMENT ON COLUMN rpq_store.usage.lender_id IS 'exclusive pool that has the nodes of borrowed work; 0: pool_id has';
COMMENT ON COLUMN rpq_store.usage.amount IS 'what they hold';
COMMENT ON TABLE rpq_store.node_load IS 'what pods take of each node, as counted';
COMMENT ON COLUMN rpq_store.node_load.node_id IS 'node';
COMMENT ON COLUMN rpq_store.node_load.pool_id IS 'pool that has the node';
COMMENT ON COLUMN rpq_store.node_load.used IS 'what its pods take';
COMMENT ON COLUMN rpq_store.node_load.parts IS 'what is taken of each device, in thousandths times 21';
COMMENT ON COLUMN rpq_store.node_load.pods IS 'number of pods';
COMMENT ON TABLE rpq_store.pod IS 'placed pods';
COMMENT ON COLUMN rpq_store.pod.pod_id IS 'id, new at each placement';
COMMENT ON COLUMN rpq_store.pod.workload_id IS 'workload';
COMMENT ON COLUMN rpq_store.pod.attempt IS 'attempt';
COMMENT ON COLUMN rpq_store.pod.replica IS 'number of the replica, from 0';
COMMENT ON COLUMN rpq_store.pod.node_id IS 'node';
COMMENT ON COLUMN rpq_store.pod.devices IS 'devices that it has, or has a part of, from 0';
COMMENT ON TABLE rpq_store.hold IS 'room of a node that is kept for what is to come';
COMMENT ON COLUMN rpq_store.hold.hold_id IS 'id';
COMMENT ON COLUMN rpq_store.hold.scope_id IS 'pool whose turn writes it';
COMMENT ON COLUMN rpq_store.hold.node_id IS 'node';
COMMENT ON COLUMN rpq_store.hold.workload_id IS 'workload that it is kept for';
COMMENT ON COLUMN rpq_store.hold.attempt IS 'attempt that it is kept for';
COMMENT ON COLUMN rpq_store.hold.replica IS 'replica that it is kept for';
COMMENT ON COLUMN rpq_store.hold.resources IS 'what is kept';
COMMENT ON COLUMN rpq_store.hold.devices IS 'devices that are kept';
COMMENT ON COLUMN rpq_store.hold.purpose IS
	'stopping (an executor has not let go of a pod yet), move (room for a pod to come) or preempt';
COMMENT ON COLUMN rpq_store.hold.pod_id IS 'the pod that is stopping or to be moved; NULL: none';
COMMENT ON COLUMN rpq_store.hold.operation_id IS 'operation that made it; NULL: none';
COMMENT ON COLUMN rpq_store.hold.expires_at IS 'given up after; NULL: never';
COMMENT ON TABLE rpq_store.preemption IS 'victims of preemptions';
COMMENT ON COLUMN rpq_store.preemption.preemption_id IS 'id';
COMMENT ON COLUMN rpq_store.preemption.at IS 'when it was decided';
COMMENT ON COLUMN rpq_store.preemption.pool_id IS 'pool that has the nodes; its turn writes the row';
COMMENT ON COLUMN rpq_store.preemption.preemptor IS 'workload that the room is for';
COMMENT ON COLUMN rpq_store.preemption.victim IS 'workload that gives it';
COMMENT ON COLUMN rpq_store.preemption.victim_attempt IS 'its attempt that ends';
COMMENT ON COLUMN rpq_store.preemption.victim_account IS 'account of the victim';
COMMENT ON COLUMN rpq_store.preemption.preemptor_account IS 'account of the preemptor';
COMMENT ON COLUMN rpq_store.preemption.rule IS 'borrowed, reservation or priority';
COMMENT ON COLUMN rpq_store.preemption.rank IS 'place among the victims of one decision, from 1';
COMMENT ON COLUMN rpq_store.preemption.gpu_seconds_lost IS
	'devices times seconds since the attempt began, or since its last checkpoint';
COMMENT ON COLUMN rpq_store.preemption.state IS 'pending, stopped or given_up';
COMMENT ON COLUMN rpq_store.preemption.expires_at IS
	'when a pending victim loses its room all the same; NULL: never';
COMMENT ON TABLE rpq_store.node_seen IS 'signs of life of nodes, written by executors';
COMMENT ON COLUMN rpq_store.node_seen.node_id IS 'node';
COMMENT ON COLUMN rpq_store.node_seen.at IS 'last sign of life';
COMMENT ON COLUMN rpq_store.node_seen.reported IS 'capacity that was reported';
COMMENT ON COLUMN rpq_store.node_seen.news IS
	'the capacity is another than before, and no cycle has taken it over yet';
COMMENT ON TABLE rpq_store.pod_report IS 'what executors reported of pods';
COMMENT ON COLUMN rpq_store.pod_report.pod_id IS 'pod';
COMMENT ON COLUMN rpq_store.pod_report.node_id IS 'node that it was handed out on';
COMMENT ON COLUMN rpq_store.pod_report.workload_id IS 'its workload';
COMMENT ON COLUMN rpq_store.pod_report.attempt IS 'attempt that it was placed for';
COMMENT ON COLUMN rpq_store.pod_report.state IS
	'started (handed out), running, finished, lost (was running, is no longer reported) or gone (was told to stop)';
COMMENT ON COLUMN rpq_store.pod_report.outcome IS 'succeeded, failed or stopped, when it has finished';
COMMENT ON COLUMN rpq_store.pod_report.detail IS 'detail of the end';
COMMENT ON COLUMN rpq_store.pod_report.node_fault IS 'the executor blames its node for the end';
COMMENT ON COLUMN rpq_store.pod_report.devices IS 'devices that it was handed out with';
COMMENT ON COLUMN rpq_store.pod_report.at IS 'when the state was reported';
-- Policies, profiles and queues.  A queue is a scope of its own.  The tables are keyed so that nothing else changes
-- shape when work comes through queues.

CREATE TABLE rpq_store.policy (
	policy_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	group_id bigint REFERENCES rpq_store.user_group,
	name text COLLATE "C" NOT NULL,
	description text,
	reservation rpq.resources NOT NULL DEFAULT '',
	usage_limit rpq.resources,
	lending text NOT NULL DEFAULT 'lend' CHECK (lending IN ('lend', 'hold')),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz,
	CHECK (group_id IS NOT NULL OR deleted_at IS NOT NULL)
);
CREATE UNIQUE INDEX policy_name ON rpq_store.policy (tenant_id, name) WHERE deleted_at IS NULL;

CREATE TABLE rpq_store.profile (
	profile_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	name text COLLATE "C" NOT NULL,
	saved rpq.resources NOT NULL,
	provisioned rpq.resources,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
CREATE UNIQUE INDEX profile_name ON rpq_store.profile (tenant_id, name) WHERE deleted_at IS NULL;

CREATE TABLE rpq_store.profile_pool (
	profile_id bigint NOT NULL REFERENCES rpq_store.profile ON DELETE CASCADE,
	pool_id bigint NOT NULL REFERENCES rpq_store.pool,
	state text NOT NULL CHECK (state IN ('saved', 'provisioned')),
	rank int NOT NULL,
	PRIMARY KEY (profile_id, state, pool_id),
	UNIQUE (profile_id, state, rank)
);

CREATE TABLE rpq_store.queue (
	queue_id bigint PRIMARY KEY DEFAULT nextval('rpq_store.scope_id_seq'),
	tenant_id bigint NOT NULL REFERENCES rpq_store.tenant,
	policy_id bigint NOT NULL REFERENCES rpq_store.policy,
	profile_id bigint NOT NULL REFERENCES rpq_store.profile,
	name text COLLATE "C" NOT NULL,
	pod_template jsonb,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	deleted_at timestamptz
);
CREATE UNIQUE INDEX queue_name ON rpq_store.queue (tenant_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX queue_card ON rpq_store.queue (policy_id, profile_id) WHERE deleted_at IS NULL;
CREATE INDEX queue_profile ON rpq_store.queue (profile_id) WHERE deleted_at IS NULL;
CREATE INDEX profile_pool_pool ON rpq_store.profile_pool (pool_id);

COMMENT ON TABLE rpq_store.policy IS 'promises and limits for user groups';
COMMENT ON COLUMN rpq_store.policy.policy_id IS 'id';
COMMENT ON COLUMN rpq_store.policy.tenant_id IS 'tenant';
COMMENT ON COLUMN rpq_store.policy.group_id IS
	'user group that it is for; NULL: it was deleted, and then the group was';
COMMENT ON COLUMN rpq_store.policy.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq_store.policy.description IS 'free text';
COMMENT ON COLUMN rpq_store.policy.reservation IS 'what is kept available for the group';
COMMENT ON COLUMN rpq_store.policy.usage_limit IS 'the most that its queues may hold at once; NULL: no limit';
COMMENT ON COLUMN rpq_store.policy.lending IS
	'lend or hold: whether others may use the unmet part of the reservation';
COMMENT ON COLUMN rpq_store.policy.created_at IS 'when it was created';
COMMENT ON COLUMN rpq_store.policy.deleted_at IS
	'when it was deleted; the row stays while something is charged to it';
COMMENT ON TABLE rpq_store.profile IS 'job sizes';
COMMENT ON COLUMN rpq_store.profile.profile_id IS 'id';
COMMENT ON COLUMN rpq_store.profile.tenant_id IS 'tenant';
COMMENT ON COLUMN rpq_store.profile.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq_store.profile.saved IS 'size as edited';
COMMENT ON COLUMN rpq_store.profile.provisioned IS 'size in force; NULL: never provisioned';
COMMENT ON COLUMN rpq_store.profile.created_at IS 'when it was created';
COMMENT ON COLUMN rpq_store.profile.deleted_at IS
	'when it was deleted; the row stays for the names of its workloads';
COMMENT ON TABLE rpq_store.profile_pool IS 'pools that may serve a profile';
COMMENT ON COLUMN rpq_store.profile_pool.profile_id IS 'profile';
COMMENT ON COLUMN rpq_store.profile_pool.pool_id IS 'pool';
COMMENT ON COLUMN rpq_store.profile_pool.state IS 'saved (as edited) or provisioned (in force)';
COMMENT ON COLUMN rpq_store.profile_pool.rank IS 'place in the routing order';
COMMENT ON TABLE rpq_store.queue IS 'doors that connect a policy with a profile; each is a scope';
COMMENT ON COLUMN rpq_store.queue.queue_id IS 'id, of the sequence of scopes';
COMMENT ON COLUMN rpq_store.queue.tenant_id IS 'tenant';
COMMENT ON COLUMN rpq_store.queue.policy_id IS 'policy that work is charged to';
COMMENT ON COLUMN rpq_store.queue.profile_id IS 'profile that sizes it';
COMMENT ON COLUMN rpq_store.queue.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq_store.queue.pod_template IS 'template of pods, for executors';
COMMENT ON COLUMN rpq_store.queue.created_at IS 'when it was created';
COMMENT ON COLUMN rpq_store.queue.deleted_at IS 'when it was deleted; the row stays for the names of its workloads';
-- Operations: administrative changes that run asynchronously.  Written by the call that asks for one (operations.sql)
-- and by whoever carries it out (operation_runs.sql), after the turns of the pools concerned; migration and
-- pod_migration likewise.

CREATE TABLE rpq_store.operation (
	operation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint NOT NULL,
	kind text NOT NULL CHECK (kind IN ('create', 'resize', 'convert', 'rename', 'delete', 'move', 'drain', 'defragment',
									   'rotate')),
	pool_id bigint NOT NULL,
	arguments jsonb NOT NULL DEFAULT '{}',
	status text NOT NULL DEFAULT 'pending'
		CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
	step text,
	state jsonb NOT NULL DEFAULT '{}',
	cancelling boolean NOT NULL DEFAULT false,
	progress numeric NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
	attempts int NOT NULL DEFAULT 0,
	action text NOT NULL,
	initiator text NOT NULL,
	initiator_account_id bigint,
	on_behalf_of text,
	db_role text,
	application_name text,
	created_at timestamptz NOT NULL,
	started_at timestamptz,
	ended_at timestamptz,
	owner_pid int,
	owner_started timestamptz,
	lease_until timestamptz,
	error text,
	error_code text,
	result jsonb,
	waiting boolean NOT NULL DEFAULT false,
	tried_at timestamptz,
	tried_mark bigint,
	pool_status text
);
CREATE INDEX operation_open ON rpq_store.operation (operation_id) WHERE status IN ('pending', 'running');
CREATE INDEX operation_pool_time ON rpq_store.operation (pool_id, created_at);

-- The pools that an open operation holds: the key lets one operation at a time have a pool.
CREATE TABLE rpq_store.operation_pool (
	pool_id bigint PRIMARY KEY REFERENCES rpq_store.pool,
	operation_id bigint NOT NULL REFERENCES rpq_store.operation
);

-- What a move of nodes between pools, or a drain, leaves behind: a row for its operation, which has status, times and
-- error.
CREATE TABLE rpq_store.migration (
	migration_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	operation_id bigint NOT NULL UNIQUE REFERENCES rpq_store.operation,
	tenant_id bigint NOT NULL,
	direction text NOT NULL CHECK (direction IN ('in', 'out')),
	mode text NOT NULL CHECK (mode IN ('quantity', 'nodes')),
	from_pool_id bigint NOT NULL,
	to_pool_id bigint,
	type_id bigint,
	nodes text[] NOT NULL DEFAULT '{}',
	evicted bigint[] NOT NULL DEFAULT '{}'
);
CREATE INDEX migration_from ON rpq_store.migration (from_pool_id);
CREATE INDEX migration_to ON rpq_store.migration (to_pool_id);

-- Planned moves of pods between nodes.  Written by whoever carries the operation out, under the pool's turn.
-- planned -> reserved -> evicting -> done; skipped or failed from each of them, with a reason.
CREATE TABLE rpq_store.pod_migration (
	pod_migration_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	operation_id bigint NOT NULL REFERENCES rpq_store.operation,
	round int NOT NULL DEFAULT 1,
	pool_id bigint NOT NULL,
	workload_id bigint NOT NULL,
	replica int NOT NULL,
	attempt int NOT NULL,
	pod_id bigint NOT NULL,
	resources rpq.resources NOT NULL,
	from_node_id bigint NOT NULL,
	from_node text COLLATE "C" NOT NULL,
	to_node_id bigint NOT NULL,
	to_node text COLLATE "C" NOT NULL,
	devices int[],
	status text COLLATE "C" NOT NULL DEFAULT 'planned'
		CHECK (status IN ('planned', 'reserved', 'evicting', 'done', 'skipped', 'failed')),
	reason text COLLATE "C",
	planned_at timestamptz NOT NULL,
	reserved_at timestamptz,
	evicted_at timestamptz,
	ended_at timestamptz
);
CREATE INDEX pod_migration_operation ON rpq_store.pod_migration (operation_id, round);
CREATE INDEX pod_migration_open ON rpq_store.pod_migration (pod_id)
	WHERE status IN ('planned', 'reserved', 'evicting');

-- How far the moves of an operation are, and what one step of them did.
CREATE TYPE rpq_store.moves_progress AS (
	"left" int,
	done int,
	skipped int,
	failed int,
	blocked text
);
COMMENT ON TYPE rpq_store.moves_progress IS 'how far the pod moves of an operation are';
COMMENT ON COLUMN rpq_store.moves_progress."left" IS 'moves that have not ended';
COMMENT ON COLUMN rpq_store.moves_progress.done IS 'moves done';
COMMENT ON COLUMN rpq_store.moves_progress.skipped IS 'moves skipped';
COMMENT ON COLUMN rpq_store.moves_progress.failed IS 'moves failed';
COMMENT ON COLUMN rpq_store.moves_progress.blocked IS
'why the operation must be undone: target_short or timeout; NULL: it can go on';

COMMENT ON TABLE rpq_store.operation IS 'an administrative change that runs asynchronously';
COMMENT ON COLUMN rpq_store.operation.operation_id IS 'id';
COMMENT ON COLUMN rpq_store.operation.tenant_id IS 'tenant of the pool';
COMMENT ON COLUMN rpq_store.operation.kind IS
'create, resize, convert, rename, delete, move, drain, defragment or rotate';
COMMENT ON COLUMN rpq_store.operation.pool_id IS 'the pool that it is about';
COMMENT ON COLUMN rpq_store.operation.arguments IS 'what was asked for, checked';
COMMENT ON COLUMN rpq_store.operation.status IS 'pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq_store.operation.step IS 'step in hand of a staged operation';
COMMENT ON COLUMN rpq_store.operation.state IS 'what its steps remember, and what an undo puts back';
COMMENT ON COLUMN rpq_store.operation.cancelling IS 'to be ended after the step in hand';
COMMENT ON COLUMN rpq_store.operation.progress IS '0 to 1';
COMMENT ON COLUMN rpq_store.operation.attempts IS 'how often it was taken up';
COMMENT ON COLUMN rpq_store.operation.action IS 'the function that was called, for the history';
COMMENT ON COLUMN rpq_store.operation.initiator IS 'who asked: account or role';
COMMENT ON COLUMN rpq_store.operation.initiator_account_id IS 'the account, NULL for a role without one';
COMMENT ON COLUMN rpq_store.operation.on_behalf_of IS 'the account, when somebody acted for it';
COMMENT ON COLUMN rpq_store.operation.db_role IS 'role in force at the call';
COMMENT ON COLUMN rpq_store.operation.application_name IS 'of the session that asked';
COMMENT ON COLUMN rpq_store.operation.created_at IS 'when it was asked for';
COMMENT ON COLUMN rpq_store.operation.started_at IS 'when it was first taken up';
COMMENT ON COLUMN rpq_store.operation.ended_at IS 'when it ended';
COMMENT ON COLUMN rpq_store.operation.owner_pid IS 'server process that carries it out';
COMMENT ON COLUMN rpq_store.operation.owner_started IS 'start of that process: a pid alone may be another''s';
COMMENT ON COLUMN rpq_store.operation.lease_until IS 'a sign of life of the owner; past it, another may take over';
COMMENT ON COLUMN rpq_store.operation.error IS 'message of the failure';
COMMENT ON COLUMN rpq_store.operation.error_code IS 'SQLSTATE of the failure';
COMMENT ON COLUMN rpq_store.operation.result IS 'what it did, by kind';
COMMENT ON COLUMN rpq_store.operation.waiting IS 'its last step found that something else has to happen first';
COMMENT ON COLUMN rpq_store.operation.tried_at IS 'true time of its last step';
COMMENT ON COLUMN rpq_store.operation.tried_mark IS 'how far its turns had come then: it waits until they have moved';
COMMENT ON COLUMN rpq_store.operation.pool_status IS 'status of its pool before it was asked for';
COMMENT ON TABLE rpq_store.operation_pool IS 'a pool that an open operation holds: one operation at a time';
COMMENT ON COLUMN rpq_store.operation_pool.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.operation_pool.operation_id IS 'the operation';

COMMENT ON TABLE rpq_store.migration IS 'what a move of nodes between pools, or a drain, leaves behind';
COMMENT ON COLUMN rpq_store.migration.migration_id IS 'id';
COMMENT ON COLUMN rpq_store.migration.operation_id IS 'the operation, which has its status, initiator, times and error';
COMMENT ON COLUMN rpq_store.migration.tenant_id IS 'tenant of the pools';
COMMENT ON COLUMN rpq_store.migration.direction IS 'out when a shared pool is the target, else in';
COMMENT ON COLUMN rpq_store.migration.mode IS 'quantity or nodes: how it was asked for';
COMMENT ON COLUMN rpq_store.migration.from_pool_id IS 'pool that the nodes leave; of a drain, the pool of its node';
COMMENT ON COLUMN rpq_store.migration.to_pool_id IS 'pool that they come to; NULL: a drain';
COMMENT ON COLUMN rpq_store.migration.type_id IS 'instance type of the nodes; NULL: several';
COMMENT ON COLUMN rpq_store.migration.nodes IS 'names of the nodes';
COMMENT ON COLUMN rpq_store.migration.evicted IS 'ids of the workloads whose pods were moved for it';
COMMENT ON TABLE rpq_store.pod_migration IS 'a planned move of a pod from one node to another';
COMMENT ON COLUMN rpq_store.pod_migration.pod_migration_id IS 'id';
COMMENT ON COLUMN rpq_store.pod_migration.operation_id IS 'the operation that moves it';
COMMENT ON COLUMN rpq_store.pod_migration.round IS 'round of the operation, from 1';
COMMENT ON COLUMN rpq_store.pod_migration.pool_id IS 'pool of both nodes';
COMMENT ON COLUMN rpq_store.pod_migration.workload_id IS 'workload';
COMMENT ON COLUMN rpq_store.pod_migration.replica IS 'which of its pods, from 0';
COMMENT ON COLUMN rpq_store.pod_migration.attempt IS 'its attempt when the move was planned';
COMMENT ON COLUMN rpq_store.pod_migration.pod_id IS 'the pod as it stands on the source';
COMMENT ON COLUMN rpq_store.pod_migration.resources IS 'what it holds';
COMMENT ON COLUMN rpq_store.pod_migration.from_node_id IS 'node that it leaves';
COMMENT ON COLUMN rpq_store.pod_migration.from_node IS 'its name';
COMMENT ON COLUMN rpq_store.pod_migration.to_node_id IS 'node that it goes to';
COMMENT ON COLUMN rpq_store.pod_migration.to_node IS 'its name';
COMMENT ON COLUMN rpq_store.pod_migration.devices IS 'devices on the target';
COMMENT ON COLUMN rpq_store.pod_migration.status IS 'planned, reserved, evicting, done, skipped or failed';
COMMENT ON COLUMN rpq_store.pod_migration.reason IS
'why it was skipped or failed: target_short, quota, pod_changed, node_unhealthy, timeout or cancelled';
COMMENT ON COLUMN rpq_store.pod_migration.planned_at IS 'when it was planned';
COMMENT ON COLUMN rpq_store.pod_migration.reserved_at IS 'when room was reserved on the target';
COMMENT ON COLUMN rpq_store.pod_migration.evicted_at IS 'when the pod was told to stop, or left the source';
COMMENT ON COLUMN rpq_store.pod_migration.ended_at IS 'when it was done, skipped or failed';
-- The operation history: append-only, written in the transaction of the change that it records.

CREATE TABLE rpq_store.history (
	history_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id bigint,
	at timestamptz NOT NULL,
	recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor text NOT NULL,
	on_behalf_of text,
	db_role text NOT NULL,
	application_name text,
	object_kind text NOT NULL,
	object_id bigint,
	object text,
	pool_id bigint,
	action text NOT NULL,
	operation_id bigint,
	old jsonb,
	new jsonb
);
CREATE INDEX history_pool ON rpq_store.history (pool_id, at);
CREATE INDEX history_actor ON rpq_store.history (actor, at);
CREATE INDEX history_tenant ON rpq_store.history (tenant_id, at);
CREATE INDEX history_at ON rpq_store.history USING brin (at);

COMMENT ON TABLE rpq_store.history IS
'the operation history: a row for each object that an administrative call named, never changed';
COMMENT ON COLUMN rpq_store.history.history_id IS 'id';
COMMENT ON COLUMN rpq_store.history.tenant_id IS 'tenant of the object; NULL for what has none';
COMMENT ON COLUMN rpq_store.history.at IS 'when, by rpq.now()';
COMMENT ON COLUMN rpq_store.history.recorded_at IS 'the true time';
COMMENT ON COLUMN rpq_store.history.actor IS
'account whose rights were used, or the role''s name where there is none';
COMMENT ON COLUMN rpq_store.history.on_behalf_of IS
'the account again, when it came through a gateway or a platform admin acted for it';
COMMENT ON COLUMN rpq_store.history.db_role IS 'the PostgreSQL role in force';
COMMENT ON COLUMN rpq_store.history.application_name IS 'of the session';
COMMENT ON COLUMN rpq_store.history.object_kind IS 'what kind of object';
COMMENT ON COLUMN rpq_store.history.object_id IS 'its id';
COMMENT ON COLUMN rpq_store.history.object IS 'its name; of a member, pool admin or group row the account''s';
COMMENT ON COLUMN rpq_store.history.pool_id IS 'pool that it is about, if any';
COMMENT ON COLUMN rpq_store.history.action IS 'function called; update or delete for a change past the functions';
COMMENT ON COLUMN rpq_store.history.operation_id IS 'the operation that did it, if any';
COMMENT ON COLUMN rpq_store.history.old IS 'values before, changed keys alone';
COMMENT ON COLUMN rpq_store.history.new IS 'values after, changed keys alone';
-- Who asks, as one value.

CREATE TYPE rpq_store.caller_identity AS (
	db_role text,
	platform_admin boolean,
	account_id bigint,
	account text,
	tenant_id bigint,
	org_admin boolean,
	executor boolean,
	driver boolean,
	gateway_account text,
	actor text,
	on_behalf_of text
);
COMMENT ON TYPE rpq_store.caller_identity IS 'who asks: the role in force, and the account whose rights it uses';
COMMENT ON COLUMN rpq_store.caller_identity.db_role IS
'the PostgreSQL role in force outside any SECURITY DEFINER function';
COMMENT ON COLUMN rpq_store.caller_identity.platform_admin IS
'has every right; false for one that acts for an account';
COMMENT ON COLUMN rpq_store.caller_identity.account_id IS
'the account whose rights are used; NULL: a platform admin without account, or nobody';
COMMENT ON COLUMN rpq_store.caller_identity.account IS 'its name';
COMMENT ON COLUMN rpq_store.caller_identity.tenant_id IS 'its tenant';
COMMENT ON COLUMN rpq_store.caller_identity.org_admin IS 'organisation admin of its tenant';
COMMENT ON COLUMN rpq_store.caller_identity.executor IS 'may sync nodes, claim pods and report for its tenant';
COMMENT ON COLUMN rpq_store.caller_identity.driver IS 'may claim and report scaling requests';
COMMENT ON COLUMN rpq_store.caller_identity.gateway_account IS
'the gateway through which the account came, else NULL';
COMMENT ON COLUMN rpq_store.caller_identity.actor IS
'name of the account whose rights are used, or of the role where there is none';
COMMENT ON COLUMN rpq_store.caller_identity.on_behalf_of IS
'the account again, when a gateway or a platform admin acts for it';
-- What pg_dump takes with it: every table and sequence that holds data, one statement each.  Nothing is seeded by the
-- script, so a restore brings nothing twice.

SELECT pg_catalog.pg_extension_config_dump('rpq_store.fence', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.tenant', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.tenant_tenant_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.cluster', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.cluster_cluster_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.instance_type', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.instance_type_type_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.account', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.account_account_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.user_group', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.user_group_group_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.group_account', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.project_group', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.project_group_project_group_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.workload_type', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.workload_type_workload_type_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.scope_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pool', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pool_instance', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pool_instance_pool_instance_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pool_capacity', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.node', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.node_node_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.member', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.member_member_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.member_quota', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.member_quota_member_quota_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pool_admin', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.workload', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.workload_workload_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.entry', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.entry_entry_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.turn', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.lane', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.usage', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.node_load', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pod', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pod_pod_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.hold', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.hold_hold_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.preemption', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.preemption_preemption_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.node_seen', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pod_report', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.policy', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.policy_policy_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.profile', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.profile_profile_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.profile_pool', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.queue', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.operation', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.operation_operation_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.operation_pool', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.migration', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.migration_migration_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pod_migration', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.pod_migration_pod_migration_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.history', '');
SELECT pg_catalog.pg_extension_config_dump('rpq_store.history_history_id_seq', '');
-- Functions of rpq.resources on which nothing stored rests.  C that reads its arguments alone: for everyone.

CREATE FUNCTION rpq.within(usage rpq.resources, usage_limit rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_is_within';
COMMENT ON FUNCTION rpq.within(rpq.resources, rpq.resources) IS
'usage is within a limit: for each key of the limit, usage (a key it lacks: zero) is no larger. Keys that the '
'limit lacks are not limited; a limit without keys limits nothing. NULL if an argument is. Everyone';

CREATE FUNCTION rpq.least(a rpq.resources, b rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_min';
COMMENT ON FUNCTION rpq.least(rpq.resources, rpq.resources) IS
'the smaller amount by key; a key that only one has is taken from it, so the least of two limits is what both '
'allow. NULL if an argument is. Everyone';

CREATE FUNCTION rpq.greatest(a rpq.resources, b rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_max';
COMMENT ON FUNCTION rpq.greatest(rpq.resources, rpq.resources) IS
'the larger amount by key; a key that only one has is taken from it (for amounts that are not negative: it counts '
'as zero in the other). NULL if an argument is. Everyone';

CREATE FUNCTION rpq.pretty(a rpq.resources) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_for_people';
COMMENT ON FUNCTION rpq.pretty(rpq.resources) IS
'for people: 96 CPU · 8 GPU · 800 GiB. First cpu, gpu and memory, then other keys by name (3 tpu). Memory in the '
'largest of KiB, MiB, GiB, TiB, PiB in which it is at least one and exact with three places; nothing is rounded. '
'Empty for no keys. Everyone';
-- The clock, and which rpq this is.

CREATE FUNCTION rpq.now() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'rpq_now_sql';
COMMENT ON FUNCTION rpq.now() IS
'the time that every rule uses: the clock at this moment, or the setting rpq.clock where it is set. Callers: everyone';

CREATE FUNCTION rpq.version() RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'rpq_version_sql';
COMMENT ON FUNCTION rpq.version() IS 'the version of the library that answers. Callers: everyone';
-- The ledger's private side: turns, folding, and the view of entries that no fold has counted yet.

CREATE VIEW rpq_store.uncounted AS
SELECT e.*
  FROM rpq_store.turn t
 CROSS JOIN LATERAL (
	SELECT * FROM rpq_store.entry e
	 WHERE e.scope_id = t.scope_id AND e.xid >= pg_snapshot_xmax(t.seen) AND e.xid <> t.own_xid
	UNION ALL
	SELECT e.* FROM pg_snapshot_xip(t.seen) x CROSS JOIN LATERAL (
		-- by index for each x, whatever the statistics say
		SELECT * FROM rpq_store.entry e WHERE e.scope_id = t.scope_id AND e.xid = x AND e.xid <> t.own_xid OFFSET 0) e
	UNION ALL
	SELECT * FROM rpq_store.entry e
	 WHERE e.scope_id = t.scope_id AND e.xid = t.own_xid AND e.entry_id + 0 > t.own_entry) e;
COMMENT ON VIEW rpq_store.uncounted IS
	'entries that the balances (usage, lane, node_load, pod) do not contain yet: balance + uncounted is exact in any '
	'snapshot';

CREATE FUNCTION rpq_store.take_turns(scopes bigint[]) RETURNS void
	LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_take_turns';
COMMENT ON FUNCTION rpq_store.take_turns(bigint[]) IS
	'locks the turns of the scopes, and of all that are connected with them, in id order, changes them, and wakes the '
	'worker at commit; 42704 for a scope without turn, 55P03 when more were connected meanwhile that cannot be had in '
	'order, RQ009 on a fenced database';

CREATE FUNCTION rpq_store.connected(scopes bigint[]) RETURNS bigint[]
	LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_connected';
COMMENT ON FUNCTION rpq_store.connected(bigint[]) IS
	'the scopes and all that are decided about together with them: queues and their pools, queues of one policy and '
	'the pools in which it holds something, pools that lend and borrow idle room; ascending';

CREATE FUNCTION rpq_store.sets_changed() RETURNS void
	LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_sets_changed';
COMMENT ON FUNCTION rpq_store.sets_changed() IS
	'tells every session that queues or the pools of profiles were added, so that it looks up anew what is connected; '
	'new_scope calls it, and triggers when such rows are changed or deleted';

CREATE FUNCTION rpq_store.new_scope(scope_id bigint) RETURNS void
	LANGUAGE sql SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO rpq_store.turn (scope_id, seen, own_xid)
	VALUES (new_scope.scope_id, pg_current_snapshot(), pg_current_xact_id());
	SELECT rpq_store.sets_changed();
END;
COMMENT ON FUNCTION rpq_store.new_scope(bigint) IS
	'makes the turn of a new pool or queue, in the transaction that makes the scope';

CREATE FUNCTION rpq_store.fold(scopes bigint[]) RETURNS void
	LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_fold';
COMMENT ON FUNCTION rpq_store.fold(bigint[]) IS
	'counts every visible entry of the scopes, and of all that are connected with them, into the balances; the caller '
	'holds their turns';

CREATE FUNCTION rpq_store.is_platform_role(db_role text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT FROM pg_roles r CROSS JOIN pg_extension e
		 WHERE e.extname = 'rpq' AND r.rolname = is_platform_role.db_role AND pg_has_role(r.oid, e.extowner, 'MEMBER'));
END;
COMMENT ON FUNCTION rpq_store.is_platform_role(text) IS
'true for a superuser and a member of the role that owns the extension: its account may submit everywhere';

-- What submissions look up is kept per session (src/api/config_cache.c) and thrown away when one of its tables changes.
-- Rows that are added are announced by take_turns, which every function that adds them calls: nothing fires in a
-- restore.
CREATE FUNCTION rpq_store.config_changed() RETURNS trigger
LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_config_changed';
COMMENT ON FUNCTION rpq_store.config_changed() IS
	'statement trigger: tells every session to look its configuration up anew';
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.account
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.fence
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.group_account
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.instance_type
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.member
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.member_quota
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.node
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.policy
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool_admin
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool_capacity
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.pool_instance
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.profile
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.profile_pool
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.queue
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.tenant
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
CREATE TRIGGER config_changed AFTER UPDATE OR DELETE OR TRUNCATE ON rpq_store.workload_type
	FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.config_changed();
-- Access: who asks, what they may do, what they may see.  The decisions are in src/api (caller.c, rights.c, objects.c).
--
-- Everything here reads configuration only, but for the fence row that the first storing call writes.  The functions
-- are SECURITY DEFINER, and find the caller by the role in force outside of them.

-- Guard

CREATE FUNCTION rpq_store.authorize(action text, object text DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_authorize_sql';
COMMENT ON FUNCTION rpq_store.authorize(text, text) IS
'first call of every public function: action is its name, object the name of what it is about (name or '
'tenant/name; NULL for what is made in a tenant: the caller''s tenant or the only one). Returns the object''s id, '
'0 without object. Errors: 42501 no account, or seen but not permitted; 22023 no object given, or no possible '
'name; 42704 not there or not seen; RQ009 fenced';

CREATE FUNCTION rpq_store.authorize_id(action text, object_id bigint) RETURNS bigint
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_authorize_id_sql';
COMMENT ON FUNCTION rpq_store.authorize_id(text, bigint) IS
'as authorize, for an object that is given by its id';

CREATE FUNCTION rpq_store.caller() RETURNS rpq_store.caller_identity
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_caller_sql';
COMMENT ON FUNCTION rpq_store.caller() IS
'who asks; never raises: one without account, or who sets rpq.account without being allowed to, is a row without '
'any right';

CREATE FUNCTION rpq_store.is_fenced() RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_is_fenced_sql';
COMMENT ON FUNCTION rpq_store.is_fenced() IS
'true when the fence row is that of another cluster or database: this one is a copy, and only shows until '
'rpq.adopt_database()';

-- Names

CREATE FUNCTION rpq_store.check_name(what text, name text) RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_check_name_sql';
COMMENT ON FUNCTION rpq_store.check_name(text, text) IS
'the name as it is stored: without spaces around it, in normal form C, 1 to 63 characters, no control or format '
'characters, no slash. Error: 22023, naming what it was for';

CREATE FUNCTION rpq_store.tenant_of(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_tenant_of_sql';
COMMENT ON FUNCTION rpq_store.tenant_of(text) IS
'the tenant of that name that the caller may see (42704); NULL: the caller''s own, or the only one, else 22023';

CREATE FUNCTION rpq_store.find_account(tenant_id bigint, name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_account';
COMMENT ON FUNCTION rpq_store.find_account(bigint, text) IS
'an account of that tenant, for those who administer something of it. Errors: 42704, 22023 for NULL';

CREATE FUNCTION rpq_store.find_cluster(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_cluster';
COMMENT ON FUNCTION rpq_store.find_cluster(text) IS
'a cluster (42704); NULL: the only one, else 22023';

CREATE FUNCTION rpq_store.find_type(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_type';
COMMENT ON FUNCTION rpq_store.find_type(text) IS
'an instance type. Errors: 42704, 22023 for NULL';

CREATE FUNCTION rpq_store.find_pool(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_pool';
COMMENT ON FUNCTION rpq_store.find_pool(text) IS
'a pool that the caller may see. Errors: 42704, 22023 for NULL';

CREATE FUNCTION rpq_store.find_node(name text) RETURNS bigint
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_find_node';
COMMENT ON FUNCTION rpq_store.find_node(text) IS
'a node of a pool that the caller may see. Errors: 42704, 22023 for NULL';

-- Filters of the views: each is one look-up, meant to stand in a scalar sub-select so that it runs once a query.  One
-- who is nobody gets NULL, false or an empty array, so that views are empty and raise nothing.

CREATE FUNCTION rpq_store.my_account() RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_my_account';
COMMENT ON FUNCTION rpq_store.my_account() IS 'the account whose rights the caller uses; NULL: none';

CREATE FUNCTION rpq_store.my_tenant() RETURNS bigint
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_my_tenant';
COMMENT ON FUNCTION rpq_store.my_tenant() IS 'the tenant of that account; NULL: none';

CREATE FUNCTION rpq_store.is_platform_admin() RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_is_platform_admin';
COMMENT ON FUNCTION rpq_store.is_platform_admin() IS 'true for a platform admin that does not act for an account';

CREATE FUNCTION rpq_store.is_org_admin() RETURNS boolean
LANGUAGE c STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_is_org_admin';
COMMENT ON FUNCTION rpq_store.is_org_admin() IS 'true for an organisation admin, of its tenant (my_tenant)';

CREATE FUNCTION rpq_store.seen_pools() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity := rpq_store.caller();
BEGIN
	IF me.platform_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p);
	ELSIF me.account_id IS NULL THEN
		RETURN '{}'::bigint[];
	ELSIF me.org_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p WHERE p.tenant_id = me.tenant_id);
	END IF;
	RETURN ARRAY(
		SELECT p.pool_id FROM rpq_store.pool p
		WHERE p.tenant_id = me.tenant_id AND p.type = 'shared' AND p.open AND p.status <> 'deleted'
		UNION
		SELECT m.pool_id FROM rpq_store.member m WHERE m.account_id = me.account_id
		UNION
		SELECT a.pool_id FROM rpq_store.pool_admin a WHERE a.account_id = me.account_id);
END
$$;
COMMENT ON FUNCTION rpq_store.seen_pools() IS
'the pools that the caller may see: all, those of its tenant (deleted ones included), or those that it administers '
'or is a member of and open shared ones';

CREATE FUNCTION rpq_store.administered_pools() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity := rpq_store.caller();
BEGIN
	IF me.platform_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p);
	ELSIF me.account_id IS NULL THEN
		RETURN '{}'::bigint[];
	ELSIF me.org_admin THEN
		RETURN ARRAY(SELECT p.pool_id FROM rpq_store.pool p WHERE p.tenant_id = me.tenant_id);
	END IF;
	RETURN ARRAY(SELECT a.pool_id FROM rpq_store.pool_admin a WHERE a.account_id = me.account_id);
END
$$;
COMMENT ON FUNCTION rpq_store.administered_pools() IS
'the pools that the caller administers: all, those of its tenant (deleted ones included), or those granted to it';

CREATE FUNCTION rpq_store.seen_tenants() RETURNS bigint[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity := rpq_store.caller();
BEGIN
	IF me.platform_admin THEN
		RETURN ARRAY(SELECT t.tenant_id FROM rpq_store.tenant t);
	END IF;
	RETURN array_remove(ARRAY[me.tenant_id], NULL);
END
$$;
COMMENT ON FUNCTION rpq_store.seen_tenants() IS
'the tenants that the caller may see: all for a platform admin, else its own';
-- The operation history: record() for administrators' functions, triggers for what goes past them.
--
-- record() inserts into history, nothing else.  The triggers stand on configuration tables and act only while
-- rpq.action is empty, which it is not inside the functions.  History takes no lock that anybody waits for.

CREATE FUNCTION rpq_store.changed_keys(value jsonb, other jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_object_agg(k.key, value -> k.key), '{}')
	FROM (SELECT jsonb_object_keys(value) UNION SELECT jsonb_object_keys(other)) AS k (key)
	WHERE (value -> k.key) IS DISTINCT FROM (other -> k.key)
$$;
COMMENT ON FUNCTION rpq_store.changed_keys(jsonb, jsonb) IS
'the keys in which two objects differ, with the values of the first (null where it lacks one)';

CREATE FUNCTION rpq_store.record(action text, object_kind text, object_id bigint, object text,
	tenant_id bigint, pool_id bigint, old jsonb, new jsonb, operation_id bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	me rpq_store.caller_identity;
	asked rpq_store.operation;
	before jsonb := old;
	after jsonb := new;
BEGIN
	IF before IS NOT NULL AND after IS NOT NULL THEN
		before := rpq_store.changed_keys(old, new);
		after := rpq_store.changed_keys(new, old);
		IF after = '{}' THEN
			RETURN;
		END IF;
	END IF;
	-- what is carried out later is by the one who asked for it, whoever carries it out
	IF operation_id IS NOT NULL THEN
		SELECT o.* INTO asked FROM rpq_store.operation o WHERE o.operation_id = record.operation_id;
	END IF;
	IF asked.operation_id IS NULL THEN
		me := rpq_store.caller();
	END IF;
	INSERT INTO rpq_store.history (tenant_id, at, actor, on_behalf_of, db_role, application_name, object_kind,
		object_id, object, pool_id, action, operation_id, old, new)
	VALUES (record.tenant_id, rpq.now(), coalesce(asked.initiator, me.actor),
		CASE WHEN asked.operation_id IS NULL THEN me.on_behalf_of ELSE asked.on_behalf_of END,
		coalesce(asked.db_role, me.db_role, session_user),
		CASE WHEN asked.operation_id IS NULL THEN nullif(current_setting('application_name'), '')
			 ELSE asked.application_name END,
		record.object_kind, record.object_id, record.object, record.pool_id, record.action, record.operation_id,
		before, after);
END
$$;
COMMENT ON FUNCTION rpq_store.record(text, text, bigint, text, bigint, bigint, jsonb, jsonb, bigint) IS
'writes one row of the operation history: with old and new the changed keys alone, and nothing when they are '
'equal. With an operation the row is by the one who asked for it';

-- Changes past the functions are recorded as what they are.  Arguments: object kind, column of the id, column of the
-- name ('' = none).
CREATE FUNCTION rpq_store.record_raw_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	before jsonb := to_jsonb(OLD);
	after jsonb;
	home bigint;
	name text;
BEGIN
	IF TG_OP = 'UPDATE' THEN
		after := to_jsonb(NEW);
	END IF;
	-- rows that belong to a pool or an account have their tenant, and their name, from there
	SELECT coalesce((before ->> 'tenant_id')::bigint, p.tenant_id, a.tenant_id), coalesce(before ->> TG_ARGV[2], a.name)
	INTO home, name
	FROM (SELECT) AS one
	LEFT JOIN rpq_store.pool p ON p.pool_id = (before ->> 'pool_id')::bigint
	LEFT JOIN rpq_store.account a ON a.account_id = (before ->> 'account_id')::bigint;
	PERFORM rpq_store.record(lower(TG_OP), TG_ARGV[0], (before ->> TG_ARGV[1])::bigint, name, home,
		(before ->> 'pool_id')::bigint, before, after);
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION rpq_store.record_raw_change() IS
'trigger: writes a history row for a change of configuration that was made past the functions';

CREATE FUNCTION rpq_store.keep_history() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF TG_OP = 'DELETE' AND current_setting('rpq.action', true) = 'retention' THEN
		RETURN OLD;
	END IF;
	RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'the operation history cannot be changed',
		HINT = 'What has happened stays recorded; a change that was wrong is undone by another change.';
END
$$;
COMMENT ON FUNCTION rpq_store.keep_history() IS
'trigger: refuses every change of the operation history but its retention';

CREATE TRIGGER keep_history BEFORE UPDATE OR DELETE ON rpq_store.history
FOR EACH ROW EXECUTE FUNCTION rpq_store.keep_history();
CREATE TRIGGER keep_all_history BEFORE TRUNCATE ON rpq_store.history
FOR EACH STATEMENT EXECUTE FUNCTION rpq_store.keep_history();

-- A node's signs of life (silent, reported, usable) are facts and leave no row.
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.tenant FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('tenant', 'tenant_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.cluster FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('cluster', 'cluster_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.instance_type FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('instance_type', 'type_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.account FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('account', 'account_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.user_group FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('user_group', 'group_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.group_account FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('group_account', 'group_id', '');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.project_group FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('project_group', 'project_group_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.workload_type FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('workload_type', 'workload_type_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.pool FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('pool', 'pool_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.pool_instance FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('pool_instance', 'pool_instance_id', '');
CREATE TRIGGER record_raw_change AFTER DELETE
	OR UPDATE OF name, pool_id, type_id, capacity, schedulable, draining, health, health_reason, labels, provider_id
	ON rpq_store.node FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('node', 'node_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.member FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('member', 'member_id', '');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.member_quota FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('member_quota', 'member_quota_id', '');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.pool_admin FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('pool_admin', 'account_id', '');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.policy FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('policy', 'policy_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.profile FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('profile', 'profile_id', 'name');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.profile_pool FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('profile_pool', 'profile_id', '');
CREATE TRIGGER record_raw_change AFTER UPDATE OR DELETE ON rpq_store.queue FOR EACH ROW
WHEN (coalesce(current_setting('rpq.action', true), '') = '')
EXECUTE FUNCTION rpq_store.record_raw_change('queue', 'queue_id', 'name');

COMMENT ON TRIGGER record_raw_change ON rpq_store.tenant IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.cluster IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.instance_type IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.account IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.user_group IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.group_account IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.project_group IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.workload_type IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.pool IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.pool_instance IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.node IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.member IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.member_quota IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.pool_admin IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.policy IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.profile IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.profile_pool IS 'records what is changed past the functions';
COMMENT ON TRIGGER record_raw_change ON rpq_store.queue IS 'records what is changed past the functions';
COMMENT ON TRIGGER keep_history ON rpq_store.history IS 'history is never changed';
COMMENT ON TRIGGER keep_all_history ON rpq_store.history IS 'history is never emptied';
-- Tenancy: tenants, clusters, instance types and accounts; and the helpers that groups.sql uses too.
--
-- Writes tenant, cluster, instance_type, account and, when an account goes, member, pool_admin and group_account, under
-- row locks.  What takes a right away from an account (delete_account, edit_account) takes the turns of the scopes in
-- which it has work first.

-- Helpers

CREATE FUNCTION rpq_store.raise_taken(what text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('%s "%s" already exists', what, name);
END
$$;
COMMENT ON FUNCTION rpq_store.raise_taken(text, text) IS 'raises 42710: the name is taken';

CREATE FUNCTION rpq_store.raise_gone(what text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('%s "%s" does not exist', what, name);
END
$$;
COMMENT ON FUNCTION rpq_store.raise_gone(text, text) IS
'raises 42704: no such object, or one that was deleted meanwhile';

CREATE FUNCTION rpq_store.raise_in_use(what text, name text, counts text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = format('%s "%s" is in use', what, name),
		DETAIL = format('In use by %s.', counts), HINT = 'First end, move or delete what uses it.';
END
$$;
COMMENT ON FUNCTION rpq_store.raise_in_use(text, text, text) IS
'raises RQ006: something stands against it; counts says what';

CREATE FUNCTION rpq_store.count_of(n bigint, singular text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN n > 0 THEN n || ' ' || singular || CASE WHEN n = 1 THEN '' ELSE 's' END END $$;
COMMENT ON FUNCTION rpq_store.count_of(bigint, text) IS
'1 node, 2 nodes; NULL for none, so that concat_ws leaves it out';

CREATE FUNCTION rpq_store.check_clear(clear text[], allowed text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	bad text;
BEGIN
	SELECT coalesce(c.name, 'NULL') INTO bad FROM unnest(clear) AS c (name)
	WHERE c.name IS NULL OR c.name <> ALL (allowed) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('"%s" cannot be cleared', bad),
			DETAIL = format('What can be set back to none: %s.', array_to_string(allowed, ', '));
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_clear(text[], text[]) IS
'raises 22023 when the argument clear of an edit function names what cannot be set back to none';

CREATE FUNCTION rpq_store.check_role(db_role text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = check_role.db_role) THEN
		PERFORM rpq_store.raise_gone('role', db_role);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_role(text) IS 'raises 42704 when there is no such PostgreSQL role';

CREATE FUNCTION rpq_store.find_accounts(tenant_id bigint, names text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids bigint[];
	unknown text[];
BEGIN
	IF coalesce(cardinality(names), 0) = 0 OR array_ndims(names) > 1 OR array_position(names, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the accounts must be given',
			DETAIL = 'It is an array of at least one name, none of them NULL.';
	END IF;
	SELECT array_agg(DISTINCT a.account_id) FILTER (WHERE a.account_id IS NOT NULL),
		array_agg(DISTINCT n.given ORDER BY n.given) FILTER (WHERE a.account_id IS NULL)
	INTO ids, unknown
	FROM (SELECT g.given, CASE
			WHEN strpos(g.given, '/') = 0 THEN rpq_store.check_name('account', g.given)
			WHEN split_part(g.given, '/', 1) = t.name
				THEN rpq_store.check_name('account', substr(g.given, strpos(g.given, '/') + 1)) END AS name
		FROM unnest(names) AS g (given), rpq_store.tenant t WHERE t.tenant_id = find_accounts.tenant_id) AS n
	LEFT JOIN rpq_store.account a
		ON a.tenant_id = find_accounts.tenant_id AND a.name = n.name AND a.deleted_at IS NULL;
	IF unknown IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = CASE WHEN cardinality(unknown) = 1
			THEN format('account "%s" does not exist', unknown[1])
			ELSE format('accounts "%s" do not exist', array_to_string(unknown, '", "')) END;
	END IF;
	RETURN ids;
END
$$;
COMMENT ON FUNCTION rpq_store.find_accounts(bigint, text[]) IS
'accounts of that tenant by name, each once. Errors: 42704 naming all that are unknown, 22023 for none or NULL';

CREATE FUNCTION rpq_store.scopes_of_work(account_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(DISTINCT w.scope_id), '{}') FROM rpq_store.workload w
	WHERE w.account_id = scopes_of_work.account_id AND w.ended_at IS NULL AND w.status <> 'draft'
$$;
COMMENT ON FUNCTION rpq_store.scopes_of_work(bigint) IS 'the scopes in which an account has live workloads';

-- Tenants and clusters

CREATE FUNCTION rpq.create_tenant(name text, description text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_tenant'
AS $$
DECLARE
	new_id bigint;
	new_name text;
BEGIN
	PERFORM rpq_store.authorize('create_tenant');
	new_name := rpq_store.check_name('tenant', name);
	INSERT INTO rpq_store.tenant AS t (name, description) VALUES (new_name, create_tenant.description)
	ON CONFLICT DO NOTHING RETURNING t.tenant_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('tenant', new_name);
	END IF;
	INSERT INTO rpq_store.workload_type (tenant_id, name)
	SELECT new_id, w.name FROM unnest('{develop,training,inference}'::text[]) AS w (name);
	PERFORM rpq_store.record('create_tenant', 'tenant', new_id, new_name, new_id, NULL, NULL,
		jsonb_build_object('name', new_name, 'description', create_tenant.description));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_tenant(text, text) IS
'makes a tenant, with the workload types develop, training and inference. Returns its id. Errors: 22023 no or no '
'possible name, 42710 the name is taken, 42501. Platform admins';

CREATE FUNCTION rpq.create_cluster(name text, region text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_cluster'
AS $$
DECLARE
	new_id bigint;
	new_name text;
BEGIN
	PERFORM rpq_store.authorize('create_cluster');
	new_name := rpq_store.check_name('cluster', name);
	INSERT INTO rpq_store.cluster AS c (name, region) VALUES (new_name, create_cluster.region)
	ON CONFLICT DO NOTHING RETURNING c.cluster_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('cluster', new_name);
	END IF;
	PERFORM rpq_store.record('create_cluster', 'cluster', new_id, new_name, NULL, NULL, NULL,
		jsonb_build_object('name', new_name, 'region', create_cluster.region));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_cluster(text, text) IS
'makes a cluster: a place of nodes, in a region (free text). Returns its id. Errors: 22023 no or no possible name, '
'42710 the name is taken, 42501. Platform admins';

-- Instance types

CREATE FUNCTION rpq_store.check_instance_type(kind text, capacity rpq.resources,
	machine_unit rpq.resources) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problem text;
BEGIN
	problem := CASE
		WHEN kind IS NULL OR capacity IS NULL THEN 'Kind and capacity must be given.'
		WHEN kind NOT IN ('gpu', 'cpu') THEN 'The kind is gpu or cpu.'
		WHEN EXISTS (SELECT FROM jsonb_each_text(capacity::jsonb) AS c WHERE c.value = '0' OR c.value LIKE '-%')
			THEN 'Every amount of the capacity is positive.'
		WHEN NOT capacity::jsonb ? kind THEN format('The capacity has no %s.', kind)
		WHEN kind = 'cpu' AND capacity::jsonb ? 'gpu' THEN 'A type of kind cpu has no gpu.'
		WHEN kind = 'gpu' AND CASE WHEN capacity::jsonb ->> 'gpu' ~ '^[0-9]{1,4}$'
				THEN (capacity::jsonb ->> 'gpu')::int > 1024 ELSE true END
			THEN 'GPUs are counted by devices: a whole number from 1 to 1024.'
		WHEN (SELECT array_agg(u.key) FROM jsonb_each_text(machine_unit::jsonb) AS u) IS DISTINCT FROM ARRAY[kind]
			THEN format('The machine unit is an amount of the primary resource alone, such as %s=8.', kind)
		WHEN machine_unit::jsonb ->> kind = '0' OR machine_unit::jsonb ->> kind LIKE '-%'
			THEN 'The machine unit is positive.'
		WHEN kind = 'gpu' AND machine_unit::jsonb ->> 'gpu' !~ '^[0-9]+$'
			THEN 'The machine unit is a whole number of GPUs.'
	END;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'invalid instance type', DETAIL = problem;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_instance_type(text, rpq.resources, rpq.resources) IS
'raises 22023 when kind, capacity and machine unit make no instance type';

CREATE FUNCTION rpq_store.default_unit(kind text) RETURNS rpq.resources
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE kind WHEN 'gpu' THEN 'gpu=8'::rpq.resources WHEN 'cpu' THEN 'cpu=120'::rpq.resources END $$;
COMMENT ON FUNCTION rpq_store.default_unit(text) IS 'the machine unit that a kind has unless the type says otherwise';

CREATE FUNCTION rpq.create_instance_type(name text, kind text, capacity rpq.resources,
	machine_unit rpq.resources DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_instance_type'
AS $$
DECLARE
	made rpq_store.instance_type;
	new_name text;
	unit rpq.resources := coalesce(machine_unit, rpq_store.default_unit(kind));
BEGIN
	PERFORM rpq_store.authorize('create_instance_type');
	new_name := rpq_store.check_name('instance type', name);
	PERFORM rpq_store.check_instance_type(kind, capacity, unit);
	INSERT INTO rpq_store.instance_type AS t (name, kind, capacity, machine_unit)
	VALUES (new_name, create_instance_type.kind, create_instance_type.capacity, unit)
	ON CONFLICT DO NOTHING RETURNING t.* INTO made;
	IF made.type_id IS NULL THEN
		PERFORM rpq_store.raise_taken('instance type', new_name);
	END IF;
	PERFORM rpq_store.record('create_instance_type', 'instance_type', made.type_id, new_name, NULL, NULL, NULL,
		to_jsonb(made) - '{type_id,created_at}'::text[]);
	RETURN made.type_id;
END
$$;
COMMENT ON FUNCTION rpq.create_instance_type(text, text, rpq.resources, rpq.resources) IS
'makes a machine specification: kind gpu or cpu, capacity of one node (gpu=8,cpu=192,memory=2Ti; GPUs are whole '
'devices, at most 1024), machine unit (whole machine in the primary resource; default gpu=8 or cpu=120). Returns '
'its id. Errors: 22023 bad or missing argument, 42710 the name is taken, 42501. Platform admins';

CREATE FUNCTION rpq.edit_instance_type(instance_type text, name text DEFAULT NULL, kind text DEFAULT NULL,
	capacity rpq.resources DEFAULT NULL, machine_unit rpq.resources DEFAULT NULL, clear text[] DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_instance_type'
AS $$
DECLARE
	was rpq_store.instance_type;
	now_is rpq_store.instance_type;
	id bigint := rpq_store.authorize('edit_instance_type', instance_type);
	n bigint;
BEGIN
	PERFORM rpq_store.check_clear(clear, '{machine_unit}');
	IF clear IS NOT NULL AND cardinality(clear) > 0 AND machine_unit IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'machine_unit is both given and cleared';
	END IF;
	-- keeps out nodes of this type that are being added
	SELECT t.* INTO was FROM rpq_store.instance_type t WHERE t.type_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('instance type', instance_type);
	END IF;
	now_is := was;
	now_is.name := rpq_store.check_name('instance type', coalesce(edit_instance_type.name, was.name));
	now_is.kind := coalesce(edit_instance_type.kind, was.kind);
	now_is.capacity := coalesce(edit_instance_type.capacity, was.capacity);
	now_is.machine_unit := coalesce(edit_instance_type.machine_unit,
		CASE WHEN now_is.kind = was.kind AND coalesce(cardinality(clear), 0) = 0 THEN was.machine_unit
			 ELSE rpq_store.default_unit(now_is.kind) END);
	PERFORM rpq_store.check_instance_type(now_is.kind, now_is.capacity, now_is.machine_unit);
	IF to_jsonb(now_is) - 'name' <> to_jsonb(was) - 'name' THEN
		SELECT count(*) INTO n FROM rpq_store.node d WHERE d.type_id = id;
		IF n > 0 THEN
			PERFORM rpq_store.raise_in_use('instance type', was.name, rpq_store.count_of(n, 'node'));
		END IF;
	END IF;
	IF now_is.name <> was.name
		AND EXISTS (SELECT FROM rpq_store.instance_type t WHERE t.name = now_is.name) THEN
		PERFORM rpq_store.raise_taken('instance type', now_is.name);
	END IF;
	IF to_jsonb(now_is) = to_jsonb(was) THEN
		RETURN;
	END IF;
	BEGIN
		UPDATE rpq_store.instance_type t SET name = now_is.name, kind = now_is.kind, capacity = now_is.capacity,
			machine_unit = now_is.machine_unit
		WHERE t.type_id = id;
	EXCEPTION WHEN unique_violation THEN	-- somebody was faster
		PERFORM rpq_store.raise_taken('instance type', now_is.name);
	END;
	PERFORM rpq_store.record('edit_instance_type', 'instance_type', id, now_is.name, NULL, NULL, to_jsonb(was),
		to_jsonb(now_is));
END
$$;
COMMENT ON FUNCTION rpq.edit_instance_type(text, text, text, rpq.resources, rpq.resources, text[]) IS
'changes an instance type; NULL stays as it is, clear => ''{machine_unit}'' sets the kind''s default. Kind, '
'capacity and machine unit change only while no node is of the type (RQ006). Errors: 42704, 22023, 42710 the new '
'name is taken, 42501. Platform admins';

-- Accounts

CREATE FUNCTION rpq_store.account_settings(account rpq_store.account) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_jsonb(account) - '{account_id,tenant_id,created_at,deleted_at}'::text[] $$;
COMMENT ON FUNCTION rpq_store.account_settings(rpq_store.account) IS 'what history shows of an account';

CREATE FUNCTION rpq_store.refuse_driver_flag(wanted boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF wanted AND NOT (rpq_store.caller()).platform_admin THEN
		RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = 'permission denied to make a driver',
			DETAIL = 'Only platform admins may: a driver is asked for machines of every tenant.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_driver_flag(boolean) IS
'raises 42501 when the flag driver is set by anybody but a platform admin';

CREATE FUNCTION rpq.create_account(name text, db_role text DEFAULT NULL, org_admin boolean DEFAULT false,
	gateway boolean DEFAULT false, executor boolean DEFAULT false, driver boolean DEFAULT false,
	tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_account'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_account', tenant);
	new_name text := rpq_store.check_name('account', name);
	made rpq_store.account;
BEGIN
	PERFORM rpq_store.refuse_driver_flag(driver);
	PERFORM rpq_store.check_role(db_role) WHERE db_role IS NOT NULL;
	INSERT INTO rpq_store.account AS a (tenant_id, name, db_role, org_admin, gateway, executor, driver)
	VALUES (home, new_name, create_account.db_role, coalesce(create_account.org_admin, false),
		coalesce(create_account.gateway, false), coalesce(create_account.executor, false),
		coalesce(create_account.driver, false))
	ON CONFLICT DO NOTHING RETURNING a.* INTO made;
	IF made.account_id IS NULL THEN
		IF EXISTS (SELECT FROM rpq_store.account a WHERE a.tenant_id = home AND a.name = new_name
				   AND a.deleted_at IS NULL) THEN
			PERFORM rpq_store.raise_taken('account', new_name);
		END IF;
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('role "%s" already has an account', db_role);
	END IF;
	PERFORM rpq_store.record('create_account', 'account', made.account_id, made.name, made.tenant_id, NULL, NULL,
		rpq_store.account_settings(made));
	RETURN made.account_id;
END
$$;
COMMENT ON FUNCTION rpq.create_account(text, text, boolean, boolean, boolean, boolean, text) IS
'makes an account in a tenant (NULL: the caller''s, or the only one). db_role: the PostgreSQL role that it is '
'found by, which must exist and have no other account. org_admin: administers the tenant; gateway: may act for any '
'account of the tenant through rpq.account; executor: may sync nodes, claim pods and report for the tenant; '
'driver: may claim scaling requests (set by platform admins alone). Returns its id. Errors: 22023, 42704 no such '
'role or tenant, 42710 name or role is taken, 42501. Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq_store.write_account(changed rpq_store.account) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE rpq_store.account a SET name = changed.name, db_role = changed.db_role, org_admin = changed.org_admin,
		gateway = changed.gateway, executor = changed.executor, driver = changed.driver
	WHERE a.account_id = changed.account_id;
EXCEPTION WHEN unique_violation THEN
	IF EXISTS (SELECT FROM rpq_store.account a WHERE a.tenant_id = changed.tenant_id AND a.name = changed.name
			   AND a.account_id <> changed.account_id AND a.deleted_at IS NULL) THEN
		PERFORM rpq_store.raise_taken('account', changed.name);
	END IF;
	RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('role "%s" already has an account', changed.db_role);
END
$$;
COMMENT ON FUNCTION rpq_store.write_account(rpq_store.account) IS
'stores the settings of an account. Error: 42710 name or role is taken';

CREATE FUNCTION rpq.edit_account(account text, name text DEFAULT NULL, db_role text DEFAULT NULL,
	org_admin boolean DEFAULT NULL, gateway boolean DEFAULT NULL, executor boolean DEFAULT NULL,
	driver boolean DEFAULT NULL, tenant text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_account'
AS $$
DECLARE
	id bigint := rpq_store.authorize('edit_account', account);
	was rpq_store.account;
	now_is rpq_store.account;
	scopes bigint[];
BEGIN
	PERFORM rpq_store.check_clear(clear, '{db_role}');
	IF cardinality(clear) > 0 AND edit_account.db_role IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'db_role is both given and cleared';
	END IF;
	IF NOT edit_account.org_admin THEN
		scopes := rpq_store.scopes_of_work(id);
		PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	END IF;
	SELECT a.* INTO was FROM rpq_store.account a WHERE a.account_id = id AND a.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('account', account);
	END IF;
	IF tenant IS NOT NULL AND rpq_store.tenant_of(tenant) <> was.tenant_id THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'an account cannot change its tenant';
	END IF;
	now_is := was;
	now_is.name := rpq_store.check_name('account', coalesce(edit_account.name, was.name));
	now_is.db_role := CASE WHEN coalesce(cardinality(clear), 0) = 0
		THEN coalesce(edit_account.db_role, was.db_role) END;
	now_is.org_admin := coalesce(edit_account.org_admin, was.org_admin);
	now_is.gateway := coalesce(edit_account.gateway, was.gateway);
	now_is.executor := coalesce(edit_account.executor, was.executor);
	now_is.driver := coalesce(edit_account.driver, was.driver);
	PERFORM rpq_store.refuse_driver_flag(now_is.driver AND NOT was.driver);
	PERFORM rpq_store.check_role(edit_account.db_role)
	WHERE edit_account.db_role IS NOT NULL AND edit_account.db_role IS DISTINCT FROM was.db_role;
	IF rpq_store.account_settings(now_is) = rpq_store.account_settings(was) THEN
		RETURN;
	END IF;
	PERFORM rpq_store.write_account(now_is);
	PERFORM rpq_store.record('edit_account', 'account', id, now_is.name, was.tenant_id, NULL,
		rpq_store.account_settings(was), rpq_store.account_settings(now_is));
END
$$;
COMMENT ON FUNCTION rpq.edit_account(text, text, text, boolean, boolean, boolean, boolean, text, text[]) IS
'changes an account; NULL stays as it is, clear => ''{db_role}'' takes its role away. tenant may be given but not '
'changed (22023). Errors: 42704 no such account or role, 42710 the new name or role is taken, 22023, 42501, RQ009. '
'Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq.delete_account(account text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_account'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_account', account);
	was rpq_store.account;
	scopes bigint[];
	queued bigint;
	placed bigint;
BEGIN
	scopes := ARRAY(
		SELECT m.pool_id FROM rpq_store.member m WHERE m.account_id = id
		UNION SELECT p.pool_id FROM rpq_store.pool_admin p WHERE p.account_id = id
		UNION SELECT unnest(rpq_store.scopes_of_work(id)) ORDER BY 1);
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	SELECT a.* INTO was FROM rpq_store.account a WHERE a.account_id = id AND a.deleted_at IS NULL FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('account', account);
	END IF;
	SELECT count(*) FILTER (WHERE w.status = 'queued'), count(*) FILTER (WHERE w.status <> 'queued')
	INTO queued, placed
	FROM rpq_store.workload w WHERE w.account_id = id AND w.ended_at IS NULL AND w.status <> 'draft';
	IF queued + placed > 0 THEN
		PERFORM rpq_store.raise_in_use('account', was.name, concat_ws(', ',
			rpq_store.count_of(queued, 'queued workload'), rpq_store.count_of(placed, 'placed workload')));
	END IF;
	-- a draft that its client keeps locked stays, and can never be enqueued
	UPDATE rpq_store.workload w SET hidden = true
	WHERE w.workload_id IN (SELECT d.workload_id FROM rpq_store.workload d WHERE d.account_id = id
							AND d.ended_at IS NULL AND d.status = 'draft' AND NOT d.hidden FOR UPDATE SKIP LOCKED);
	DELETE FROM rpq_store.member m WHERE m.account_id = id;
	DELETE FROM rpq_store.pool_admin p WHERE p.account_id = id;
	DELETE FROM rpq_store.group_account g WHERE g.account_id = id;
	UPDATE rpq_store.account a SET deleted_at = rpq.now() WHERE a.account_id = id;
	PERFORM rpq_store.record('delete_account', 'account', id, was.name, was.tenant_id, NULL,
		rpq_store.account_settings(was), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_account(text) IS
'deletes an account with its memberships, pool admin rights, places in groups and drafts; its name stays in '
'history, ledger and ended workloads. Errors: RQ006 while it has queued or placed work, 42704, 22023 NULL, 42501, '
'RQ009. Organisation admins of the tenant, platform admins';
-- Groups, workload types, and admins of pools.
--
-- Writes user_group, group_account, project_group, workload_type and pool_admin under row locks (and group_id of
-- deleted policies, when their group goes).  What takes a right away (remove_from_group, revoke_pool_admin) takes the
-- turns of the queues, or of the pool, first.

-- User groups

CREATE FUNCTION rpq.create_user_group(name text, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_user_group'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_user_group', tenant);
	new_name text := rpq_store.check_name('user group', name);
	new_id bigint;
BEGIN
	INSERT INTO rpq_store.user_group AS g (tenant_id, name) VALUES (home, new_name)
	ON CONFLICT DO NOTHING RETURNING g.group_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('user group', new_name);
	END IF;
	PERFORM rpq_store.record('create_user_group', 'user_group', new_id, new_name, home, NULL, NULL,
		jsonb_build_object('name', new_name));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_user_group(text, text) IS
'makes a user group, to which policies apply, in a tenant (NULL: the caller''s, or the only one). Returns its id. '
'Errors: 22023, 42704 no such tenant, 42710 the name is taken, 42501. Organisation admins of the tenant, platform '
'admins';

CREATE FUNCTION rpq.delete_user_group(user_group text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_user_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_user_group', user_group);
	was rpq_store.user_group;
	n bigint;
	members jsonb;
BEGIN
	-- FOR UPDATE keeps out a policy that is being made for the group
	SELECT g.* INTO was FROM rpq_store.user_group g WHERE g.group_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', user_group);
	END IF;
	SELECT count(*) INTO n FROM rpq_store.policy p WHERE p.group_id = id AND p.deleted_at IS NULL;
	IF n > 0 THEN
		PERFORM rpq_store.raise_in_use('user group', was.name,
			n || CASE WHEN n = 1 THEN ' policy' ELSE ' policies' END);
	END IF;
	UPDATE rpq_store.policy p SET group_id = NULL WHERE p.group_id = id;	-- deleted policies
	WITH gone AS (DELETE FROM rpq_store.group_account g WHERE g.group_id = id RETURNING g.account_id)
	SELECT coalesce(jsonb_agg(a.name ORDER BY a.name), '[]') INTO members
	FROM gone JOIN rpq_store.account a USING (account_id);
	DELETE FROM rpq_store.user_group g WHERE g.group_id = id;
	PERFORM rpq_store.record('delete_user_group', 'user_group', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('name', was.name, 'accounts', members), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_user_group(text) IS
'deletes a user group; its accounts stay. Errors: RQ006 while a policy applies to it, 42704, 22023 NULL, 42501. '
'Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq.add_to_group(user_group text, accounts text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'add_to_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('add_to_group', user_group);
	into_group rpq_store.user_group;
	ids bigint[];
BEGIN
	SELECT g.* INTO into_group FROM rpq_store.user_group g WHERE g.group_id = id FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', user_group);
	END IF;
	ids := rpq_store.find_accounts(into_group.tenant_id, accounts);
	WITH added AS (
		INSERT INTO rpq_store.group_account AS g (group_id, account_id)
		SELECT id, a.account_id FROM rpq_store.account a WHERE a.account_id = ANY (ids) ORDER BY a.account_id
		ON CONFLICT DO NOTHING RETURNING g.account_id)
	SELECT array_agg(added.account_id) INTO ids FROM added;
	PERFORM rpq_store.record('add_to_group', 'group_account', a.account_id, a.name, a.tenant_id, NULL, NULL,
		jsonb_build_object('user_group', into_group.name))
	FROM rpq_store.account a WHERE a.account_id = ANY (ids) ORDER BY a.name;
END
$$;
COMMENT ON FUNCTION rpq.add_to_group(text, text[]) IS
'puts accounts into a user group of their tenant; those in it already stay. Errors: 42704 naming all unknown '
'accounts, or no such group; 22023 no account, or NULL; 42501. Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq_store.group_queues(group_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT q.queue_id FROM rpq_store.queue AS q JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
				 WHERE y.group_id = $1 AND q.deleted_at IS NULL ORDER BY q.queue_id)
$$;
COMMENT ON FUNCTION rpq_store.group_queues(bigint) IS
'the queues of all policies that apply to a user group';

CREATE FUNCTION rpq.remove_from_group(user_group text, accounts text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'remove_from_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('remove_from_group', user_group);
	from_group rpq_store.user_group;
	ids bigint[];
	queues bigint[] := rpq_store.group_queues(id);
BEGIN
	PERFORM rpq_store.take_turns(queues) WHERE cardinality(queues) > 0;
	queues := rpq_store.take_more(rpq_store.group_queues(id), queues);
	SELECT g.* INTO from_group FROM rpq_store.user_group g WHERE g.group_id = id FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', user_group);
	END IF;
	ids := rpq_store.find_accounts(from_group.tenant_id, accounts);
	WITH removed AS (
		DELETE FROM rpq_store.group_account g WHERE g.group_id = id AND g.account_id = ANY (ids)
		RETURNING g.account_id)
	SELECT array_agg(removed.account_id) INTO ids FROM removed;
	PERFORM rpq_store.draft_outsiders(queues, format('removed from user group "%s"', from_group.name))
	WHERE cardinality(ids) > 0;
	PERFORM rpq_store.record('remove_from_group', 'group_account', a.account_id, a.name, a.tenant_id, NULL,
		jsonb_build_object('user_group', from_group.name), NULL)
	FROM rpq_store.account a WHERE a.account_id = ANY (ids) ORDER BY a.name;
END
$$;
COMMENT ON FUNCTION rpq.remove_from_group(text, text[]) IS
'takes accounts out of a user group; what they have waiting in its queues becomes draft, what runs goes on. '
'Errors: 42704 naming all unknown accounts, or no such group; 22023 no account, or NULL; 40001 its queues changed at '
'the same time; 42501; RQ009. Organisation admins of the tenant, platform admins';

-- Project groups and workload types

CREATE FUNCTION rpq.create_project_group(name text, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_project_group'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_project_group', tenant);
	new_name text := rpq_store.check_name('project group', name);
	new_id bigint;
BEGIN
	INSERT INTO rpq_store.project_group AS g (tenant_id, name) VALUES (home, new_name)
	ON CONFLICT DO NOTHING RETURNING g.project_group_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('project group', new_name);
	END IF;
	PERFORM rpq_store.record('create_project_group', 'project_group', new_id, new_name, home, NULL, NULL,
		jsonb_build_object('name', new_name));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_project_group(text, text) IS
'makes a project group, a label under which pools are grouped, in a tenant (NULL: the caller''s, or the only one). '
'Returns its id. Errors: 22023, 42704 no such tenant, 42710 the name is taken, 42501. Organisation admins of the '
'tenant, platform admins';

CREATE FUNCTION rpq.delete_project_group(project_group text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_project_group'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_project_group', project_group);
	was rpq_store.project_group;
	n bigint;
BEGIN
	-- FOR UPDATE keeps out a pool that is being put under the group
	SELECT g.* INTO was FROM rpq_store.project_group g WHERE g.project_group_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('project group', project_group);
	END IF;
	SELECT count(*) INTO n FROM rpq_store.pool p WHERE p.project_group_id = id AND p.status <> 'deleted';
	IF n > 0 THEN
		PERFORM rpq_store.raise_in_use('project group', was.name, rpq_store.count_of(n, 'pool'));
	END IF;
	UPDATE rpq_store.pool p SET project_group_id = NULL WHERE p.project_group_id = id;	-- deleted pools
	DELETE FROM rpq_store.project_group g WHERE g.project_group_id = id;
	PERFORM rpq_store.record('delete_project_group', 'project_group', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('name', was.name), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_project_group(text) IS
'deletes a project group. Errors: RQ006 while a pool is under it, 42704, 22023 NULL, 42501. Organisation admins of '
'the tenant, platform admins';

CREATE FUNCTION rpq.create_workload_type(name text, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_workload_type'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_workload_type', tenant);
	new_name text := rpq_store.check_name('workload type', name);
	new_id bigint;
BEGIN
	INSERT INTO rpq_store.workload_type AS w (tenant_id, name) VALUES (home, new_name)
	ON CONFLICT DO NOTHING RETURNING w.workload_type_id INTO new_id;
	IF new_id IS NULL THEN
		PERFORM rpq_store.raise_taken('workload type', new_name);
	END IF;
	PERFORM rpq_store.record('create_workload_type', 'workload_type', new_id, new_name, home, NULL, NULL,
		jsonb_build_object('name', new_name));
	RETURN new_id;
END
$$;
COMMENT ON FUNCTION rpq.create_workload_type(text, text) IS
'makes a workload type beside develop, training and inference, in a tenant (NULL: the caller''s, or the only one). '
'Returns its id. Errors: 22023, 42704 no such tenant, 42710 the name is taken, 42501. Organisation admins of the '
'tenant, platform admins';

CREATE FUNCTION rpq.delete_workload_type(workload_type text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_workload_type'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_workload_type', workload_type);
	was rpq_store.workload_type;
	pools bigint;
	workloads bigint;
BEGIN
	SELECT t.* INTO was FROM rpq_store.workload_type t WHERE t.workload_type_id = id FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('workload type', workload_type);
	END IF;
	SELECT count(*) INTO pools FROM rpq_store.pool p
	WHERE p.tenant_id = was.tenant_id AND p.status <> 'deleted' AND was.name = ANY (p.workload_types);
	SELECT count(*) INTO workloads FROM rpq_store.workload w
	WHERE w.tenant_id = was.tenant_id AND w.workload_type = was.name AND w.ended_at IS NULL AND w.status <> 'draft';
	IF pools + workloads > 0 THEN
		PERFORM rpq_store.raise_in_use('workload type', was.name, concat_ws(', ',
			rpq_store.count_of(pools, 'pool'), rpq_store.count_of(workloads, 'live workload')));
	END IF;
	DELETE FROM rpq_store.workload_type t WHERE t.workload_type_id = id;
	PERFORM rpq_store.record('delete_workload_type', 'workload_type', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('name', was.name), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_workload_type(text) IS
'deletes a workload type. Errors: RQ006 while a pool names it or a live workload is of it, 42704, 22023 NULL, '
'42501. Organisation admins of the tenant, platform admins';

-- Admins of pools

CREATE FUNCTION rpq.grant_pool_admin(pool text, account text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'grant_pool_admin'
AS $$
DECLARE
	id bigint := rpq_store.authorize('grant_pool_admin', pool);
	of_pool rpq_store.pool;
	who bigint;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[id]);
	SELECT p.* INTO of_pool FROM rpq_store.pool p WHERE p.pool_id = id AND p.status <> 'deleted';
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('pool', pool);
	END IF;
	who := rpq_store.find_account(of_pool.tenant_id, account);
	INSERT INTO rpq_store.pool_admin AS a (pool_id, account_id) VALUES (id, who) ON CONFLICT DO NOTHING;
	IF FOUND THEN
		PERFORM rpq_store.record('grant_pool_admin', 'pool_admin', who, a.name, of_pool.tenant_id, id, NULL,
			jsonb_build_object('pool', of_pool.name, 'account', a.name))
		FROM rpq_store.account a WHERE a.account_id = who;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq.grant_pool_admin(text, text) IS
'makes an account of the pool''s tenant an admin of the pool; again changes nothing. Errors: 42704 no such pool or '
'account, 22023 NULL, 42501, RQ009. Admins of the pool, organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq.revoke_pool_admin(pool text, account text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'revoke_pool_admin'
AS $$
DECLARE
	id bigint := rpq_store.authorize('revoke_pool_admin', pool);
	of_pool rpq_store.pool;
	who bigint;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[id]);
	SELECT p.* INTO of_pool FROM rpq_store.pool p WHERE p.pool_id = id AND p.status <> 'deleted';
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('pool', pool);
	END IF;
	who := rpq_store.find_account(of_pool.tenant_id, account);
	DELETE FROM rpq_store.pool_admin a WHERE a.pool_id = id AND a.account_id = who;
	IF FOUND THEN
		PERFORM rpq_store.record('revoke_pool_admin', 'pool_admin', who, a.name, of_pool.tenant_id, id,
			jsonb_build_object('pool', of_pool.name, 'account', a.name), NULL)
		FROM rpq_store.account a WHERE a.account_id = who;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq.revoke_pool_admin(text, text) IS
'takes the right of a pool''s admin away; from one that has none, changes nothing. Errors: 42704 no such pool or '
'account, 22023 NULL, 42501, RQ009. Admins of the pool, organisation admins of the tenant, platform admins';
-- What pools hold: whole machines, capacities counted from nodes, and the shared pool that takes the nodes which no
-- other pool has.
--
-- Writes pool_capacity, pool_instance, node_load (rows of nodes that come or change hands) under the turns of the pools
-- concerned, and pool when a shared one comes into being.

CREATE FUNCTION rpq_store.primary_resource(machine_unit rpq.resources) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT min(k) FROM jsonb_object_keys(CAST($1 AS jsonb)) AS k $$;
COMMENT ON FUNCTION rpq_store.primary_resource(rpq.resources) IS
'the resource that a machine unit names, in which whole machines are counted';

CREATE FUNCTION rpq_store.machines(amount rpq.resources, machine_unit rpq.resources) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN wanted >= 0 AND unit > 0 AND mod(wanted, unit) = 0 THEN div(wanted, unit) END
	FROM (SELECT coalesce($1 OPERATOR(rpq.->) rpq_store.primary_resource($2), 0) AS wanted,
				 $2 OPERATOR(rpq.->) rpq_store.primary_resource($2) AS unit) AS a
$$;
COMMENT ON FUNCTION rpq_store.machines(rpq.resources, rpq.resources) IS
'how many whole machine units an amount is; NULL when it is no whole number of them';

CREATE FUNCTION rpq_store.has_negative(amount rpq.resources) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT EXISTS (SELECT FROM jsonb_each_text(CAST($1 AS jsonb)) AS a WHERE starts_with(a.value, '-')) $$;
COMMENT ON FUNCTION rpq_store.has_negative(rpq.resources) IS
'whether some amount is below zero';

CREATE FUNCTION rpq_store.check_quota(what text, quota rpq.resources) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF rpq_store.has_negative(check_quota.quota) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s must not be negative', check_quota.what),
			DETAIL = format('It is %s.', check_quota.quota);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_quota(text, rpq.resources) IS
'refuses (22023) a quota with an amount below zero; what names it in the message';

CREATE FUNCTION rpq_store.in_tenant(tenant_id bigint, name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN position('/' IN $2) > 0 THEN $2
		   ELSE (SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = $1) || '/' || $2 END
$$;
COMMENT ON FUNCTION rpq_store.in_tenant(bigint, text) IS
'an object''s name with its tenant in front, so that it means the same to every caller';

CREATE FUNCTION rpq_store.check_names(what text, names text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	checked text[];
BEGIN
	IF check_names.names IS NULL OR cardinality(check_names.names) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('at least one %s must be given', check_names.what);
	END IF;
	SELECT array_agg(d.name ORDER BY d.place) INTO checked
	FROM (SELECT c.name, min(c.place) AS place
		  FROM (SELECT rpq_store.check_name(check_names.what, u.name) AS name, u.place
				FROM unnest(check_names.names) WITH ORDINALITY AS u (name, place)) AS c
		  GROUP BY c.name) AS d;
	RETURN checked;
END
$$;
COMMENT ON FUNCTION rpq_store.check_names(text, text[]) IS
'the names, each trimmed and checked (22023), repeats left out, in the order given; an empty or NULL array is '
'refused (22023)';

CREATE FUNCTION rpq_store.recount_capacity(pools bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM rpq_store.pool_capacity WHERE pool_id = ANY (recount_capacity.pools);
	INSERT INTO rpq_store.pool_capacity (pool_id, type_id, capacity, nodes)
	SELECT n.pool_id, n.type_id, n.capacity, count(*)
	FROM rpq_store.node AS n WHERE n.pool_id = ANY (recount_capacity.pools) AND NOT n.removing
	GROUP BY n.pool_id, n.type_id, n.capacity;
	-- a total that is out of range (22003) is refused here, not met by every later reader
	PERFORM c.pool_id, rpq.sum(c.capacity OPERATOR(rpq.*) c.nodes::numeric)
	FROM rpq_store.pool_capacity AS c WHERE c.pool_id = ANY (recount_capacity.pools) GROUP BY c.pool_id;
	INSERT INTO rpq_store.pool_instance (pool_id, type_id)
	SELECT DISTINCT n.pool_id, n.type_id
	FROM rpq_store.node AS n WHERE n.pool_id = ANY (recount_capacity.pools)
	ON CONFLICT (pool_id, type_id) DO NOTHING;
	UPDATE rpq_store.node_load AS l SET pool_id = n.pool_id
	FROM rpq_store.node AS n
	WHERE n.pool_id = ANY (recount_capacity.pools) AND l.node_id = n.node_id AND l.pool_id <> n.pool_id;
	INSERT INTO rpq_store.node_load (node_id, pool_id, parts)
	SELECT n.node_id, n.pool_id, array_fill(0::bigint, ARRAY[coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)::int])
	FROM rpq_store.node AS n
	WHERE n.pool_id = ANY (recount_capacity.pools)
	  AND NOT EXISTS (SELECT FROM rpq_store.node_load AS l WHERE l.node_id = n.node_id);
END
$$;
COMMENT ON FUNCTION rpq_store.recount_capacity(bigint[]) IS
'counts anew what the nodes of these pools hold: pool_capacity, a pool_instance row for each type with nodes, a '
'node_load row for each node. The caller holds the turns of all pools between which nodes went';

-- The shared pool of a tenant, cluster and kind, made with its first node.  Two sessions may come at once: the index
-- pool_shared lets one of them make it, and the other waits and finds it.
CREATE FUNCTION rpq_store.shared_pool(tenant_id bigint, cluster_id bigint, kind text, action text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	found_id bigint;
	base text;
	candidate text;
	number int := 1;
BEGIN
	SELECT left(c.name, 63 - 1 - length(shared_pool.kind)) || '-' || shared_pool.kind INTO base
	FROM rpq_store.cluster AS c WHERE c.cluster_id = shared_pool.cluster_id;
	candidate := base;
	LOOP
		SELECT p.pool_id INTO found_id
		FROM rpq_store.pool AS p
		WHERE p.tenant_id = shared_pool.tenant_id AND p.cluster_id = shared_pool.cluster_id
		  AND p.kind = shared_pool.kind AND p.type = 'shared';
		EXIT WHEN FOUND;
		INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name, status, created_at)
		VALUES (shared_pool.tenant_id, shared_pool.cluster_id, shared_pool.kind, 'shared', candidate, 'ready',
			rpq.now())
		ON CONFLICT DO NOTHING
		RETURNING pool_id INTO found_id;
		IF FOUND THEN
			PERFORM rpq_store.new_scope(found_id);
			PERFORM rpq_store.record(shared_pool.action, 'pool', found_id, candidate, shared_pool.tenant_id, found_id,
				NULL, jsonb_build_object('name', candidate, 'type', 'shared', 'kind', shared_pool.kind));
			EXIT;
		END IF;
		number := number + 1;
		candidate := left(base, 63 - 1 - length(number::text)) || '-' || number;
	END LOOP;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.shared_pool(bigint, bigint, text, text) IS
'the shared pool of a tenant, cluster and kind; it is made, and recorded under this action, where there is none yet';

CREATE FUNCTION rpq_store.check_node_capacity(type_id bigint, capacity rpq.resources, whole boolean)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	kind_of rpq_store.instance_type;
	devices numeric := coalesce(check_node_capacity.capacity OPERATOR(rpq.->) 'gpu', 0);
	main_key text;
BEGIN
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = check_node_capacity.type_id;
	main_key := rpq_store.primary_resource(kind_of.machine_unit);
	PERFORM rpq_store.check_quota('capacity', check_node_capacity.capacity);
	IF devices <> trunc(devices) OR devices > 1024 OR (kind_of.kind = 'gpu' AND devices < 1) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'capacity must have a whole number of devices, at most 1024',
			DETAIL = format('gpu is %s.', devices);
	END IF;
	IF coalesce(check_node_capacity.capacity OPERATOR(rpq.->) main_key, 0) <= 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('capacity must have an amount of %s', main_key),
			DETAIL = format('The machine unit of instance type "%s" is %s.', kind_of.name, kind_of.machine_unit);
	END IF;
	IF check_node_capacity.whole AND rpq_store.machines(check_node_capacity.capacity, kind_of.machine_unit) IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'the node is no whole number of machine units',
			DETAIL = format('Its capacity is %s, the machine unit of instance type "%s" is %s.',
				check_node_capacity.capacity, kind_of.name, kind_of.machine_unit),
			HINT = 'Such a node can only be in a shared pool.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_node_capacity(bigint, rpq.resources, boolean) IS
'refuses a capacity that no node of the type can have (22023), and with whole one that is no whole number of '
'machine units (RQ003)';

CREATE FUNCTION rpq_store.check_pool_status(subject rpq_store.pool) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF subject.status IN ('creating', 'deleting', 'deleted') THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004',
			MESSAGE = format('pool "%s" is %s', subject.name,
				CASE subject.status WHEN 'creating' THEN 'being created' WHEN 'deleting' THEN 'being deleted'
				ELSE 'deleted' END),
			DETAIL = format('Its status is %s.', subject.status),
			HINT = CASE subject.status WHEN 'creating' THEN 'Wait for its operation to end.'
				ELSE 'Use another pool.' END;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_status(rpq_store.pool) IS
'refuses (RQ004) a pool that is being created or deleted, or is no more';
-- Nodes: adding, removing, cordon and health.
--
-- Writes node, under the turn of the pool concerned.  What becomes of the pods of a node that is lost: node_loss.sql.

CREATE FUNCTION rpq_store.node_settings(node_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('name', n.name, 'instance_type', t.name, 'pool', p.name, 'capacity', n.capacity::text,
		'labels', n.labels, 'provider_id', n.provider_id, 'schedulable', n.schedulable, 'health', n.health,
		'health_reason', n.health_reason)
	FROM rpq_store.node AS n
	JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	WHERE n.node_id = $1
$$;
COMMENT ON FUNCTION rpq_store.node_settings(bigint) IS
'a node as the history shows it';

-- Nodes may change hands between the look at their pools and the turn; then the caller tries again.
CREATE FUNCTION rpq_store.take_node_turns(nodes bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	pools bigint[];
BEGIN
	SELECT array_agg(DISTINCT n.pool_id ORDER BY n.pool_id) INTO pools
	FROM rpq_store.node AS n WHERE n.node_id = ANY (take_node_turns.nodes);
	PERFORM rpq_store.take_turns(pools);
	IF EXISTS (SELECT FROM unnest(take_node_turns.nodes) AS w (node_id)
			   LEFT JOIN rpq_store.node AS n ON n.node_id = w.node_id
			   WHERE n.pool_id IS NULL OR n.pool_id <> ALL (pools)) THEN
		RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'a node changed hands during the call',
			HINT = 'Try the transaction again.';
	END IF;
	RETURN pools;
END
$$;
COMMENT ON FUNCTION rpq_store.take_node_turns(bigint[]) IS
'takes the turns of the pools that these nodes are in, and returns their ids; 40001 when a node left its pool '
'meanwhile';

-- Nodes that exist: the same type and pool takes the new labels, anything else is refused.
CREATE FUNCTION rpq_store.relabel_nodes(tenant_id bigint, pool_id bigint, type_id bigint, names text[],
	capacity rpq.resources, labels jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	old_node record;
BEGIN
	FOR old_node IN
		SELECT n.node_id, n.name, n.pool_id, n.type_id, n.capacity, n.labels, p.name AS pool, t.name AS type,
			n.removing
		FROM rpq_store.node AS n
		JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
		JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
		WHERE n.tenant_id = relabel_nodes.tenant_id AND n.name = ANY (relabel_nodes.names)
		ORDER BY n.name
	LOOP
		IF old_node.removing THEN
			RAISE EXCEPTION USING ERRCODE = '42710',
				MESSAGE = format('node "%s" is still being removed', old_node.name),
				DETAIL = 'A transaction keeps a workload locked that has a pod on it.', HINT = 'Try again later.';
		ELSIF old_node.pool_id <> relabel_nodes.pool_id OR old_node.type_id <> relabel_nodes.type_id
			OR old_node.capacity::text <> relabel_nodes.capacity::text THEN
			RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('node "%s" already exists', old_node.name),
				DETAIL = format('It is in pool "%s", of instance type "%s", with capacity %s.',
					old_node.pool, old_node.type, old_node.capacity);
		END IF;
		IF old_node.labels <> relabel_nodes.labels THEN
			UPDATE rpq_store.node AS n SET labels = relabel_nodes.labels WHERE n.node_id = old_node.node_id;
			PERFORM rpq_store.record('add_nodes', 'node', old_node.node_id, old_node.name, relabel_nodes.tenant_id,
				relabel_nodes.pool_id, jsonb_build_object('labels', old_node.labels),
				jsonb_build_object('labels', relabel_nodes.labels));
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.relabel_nodes(bigint, bigint, bigint, text[], rpq.resources, jsonb) IS
'gives new labels to those of the named nodes that exist with the same pool and type; 42710 for another. NULL '
'capacity or labels: whatever the node has';

-- Names are prefix || n, n from one past the highest in use; what another session took meanwhile is passed over.
CREATE FUNCTION rpq_store.insert_nodes(new_node rpq_store.node, names text[], count int, prefix text)
RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	wanted text[] := insert_nodes.names;
	added text[] := ARRAY[]::text[];
	step text[];
	highest bigint;
BEGIN
	LOOP
		IF insert_nodes.names IS NULL THEN
			SELECT coalesce(max(substr(n.name, length(insert_nodes.prefix) + 1)::bigint), 0) INTO highest
			FROM rpq_store.node AS n
			WHERE n.tenant_id = new_node.tenant_id AND starts_with(n.name, insert_nodes.prefix)
			  AND substr(n.name, length(insert_nodes.prefix) + 1) ~ '^[0-9]{1,18}$';
			SELECT array_agg(rpq_store.check_name('node', insert_nodes.prefix || (highest + i)) ORDER BY i) INTO wanted
			FROM generate_series(1, insert_nodes.count - cardinality(added)) AS i;
		END IF;
		WITH put AS (
			INSERT INTO rpq_store.node AS n (tenant_id, cluster_id, name, pool_id, type_id, capacity, usable, labels,
				provider_id, created_at)
			SELECT new_node.tenant_id, new_node.cluster_id, w.name, new_node.pool_id, new_node.type_id,
				new_node.capacity, new_node.capacity, new_node.labels, new_node.provider_id, rpq.now()
			FROM unnest(wanted) WITH ORDINALITY AS w (name, place) ORDER BY w.place
			ON CONFLICT (tenant_id, name) DO NOTHING
			RETURNING n.node_id, n.name)
		SELECT coalesce(array_agg(put.name ORDER BY put.node_id), '{}') INTO step FROM put;
		added := added || step;
		EXIT WHEN insert_nodes.names IS NOT NULL OR cardinality(added) = insert_nodes.count;
	END LOOP;
	RETURN added;
END
$$;
COMMENT ON FUNCTION rpq_store.insert_nodes(rpq_store.node, text[], int, text) IS
'inserts nodes like new_node, by names (those that exist are left out) or by count and prefix; returns the names '
'of the new ones';

-- Where new nodes go: the named pool, or the shared one of the cluster.
CREATE FUNCTION rpq_store.pool_for_nodes(tenant_id bigint, pool text, cluster text, kind text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	target rpq_store.pool;
	named_cluster bigint;
BEGIN
	IF pool_for_nodes.pool IS NULL THEN
		RETURN rpq_store.shared_pool(pool_for_nodes.tenant_id, rpq_store.find_cluster(pool_for_nodes.cluster),
			pool_for_nodes.kind, 'add_nodes');
	END IF;
	SELECT * INTO target FROM rpq_store.pool AS p
	WHERE p.pool_id = (SELECT rpq_store.find_pool(rpq_store.in_tenant(pool_for_nodes.tenant_id, pool_for_nodes.pool)));
	IF pool_for_nodes.cluster IS NOT NULL THEN
		named_cluster := rpq_store.find_cluster(pool_for_nodes.cluster);
	END IF;
	IF target.tenant_id <> pool_for_nodes.tenant_id OR target.kind <> pool_for_nodes.kind
		OR target.cluster_id <> coalesce(named_cluster, target.cluster_id) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pool "%s" cannot hold these nodes', target.name),
			DETAIL = format('It is a %s pool of tenant "%s" in cluster "%s".', target.kind,
				(SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = target.tenant_id),
				(SELECT c.name FROM rpq_store.cluster AS c WHERE c.cluster_id = target.cluster_id));
	END IF;
	RETURN target.pool_id;
END
$$;
COMMENT ON FUNCTION rpq_store.pool_for_nodes(bigint, text, text, text) IS
'the pool that nodes of this kind are added to; 22023 when tenant, cluster or kind do not agree with the named one';

CREATE FUNCTION rpq.add_nodes(instance_type text, names text[] DEFAULT NULL, count int DEFAULT NULL,
	prefix text DEFAULT NULL, cluster text DEFAULT NULL, pool text DEFAULT NULL, tenant text DEFAULT NULL,
	capacity rpq.resources DEFAULT NULL, labels jsonb DEFAULT NULL, provider_id text DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'add_nodes'
AS $$
#variable_conflict use_column
DECLARE
	owner_id bigint;
	kind_of rpq_store.instance_type;
	target rpq_store.pool;
	new_node rpq_store.node;
	wanted text[];
	existing text[];
	added text[];
BEGIN
	owner_id := rpq_store.authorize('add_nodes',
		coalesce(add_nodes.tenant, substring(add_nodes.pool FROM '^([^/]*)/')));
	IF add_nodes.instance_type IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'instance_type must be given';
	END IF;
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t
	WHERE t.type_id = (SELECT rpq_store.find_type(add_nodes.instance_type));
	IF (add_nodes.names IS NULL) = (add_nodes.count IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'either names or count must be given';
	ELSIF add_nodes.count NOT BETWEEN 1 AND 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'count must be between 1 and 100000',
			DETAIL = format('It is %s.', add_nodes.count);
	ELSIF add_nodes.names IS NOT NULL AND add_nodes.prefix IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'prefix goes with count, not with names';
	ELSIF jsonb_typeof(add_nodes.labels) <> 'object' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'labels must be a JSON object';
	END IF;
	IF add_nodes.names IS NOT NULL THEN
		wanted := rpq_store.check_names('node', add_nodes.names);
	END IF;
	IF add_nodes.provider_id IS NOT NULL THEN
		IF coalesce(cardinality(wanted), add_nodes.count) > 1 THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'provider_id names one machine, so one node';
		ELSIF length(btrim(add_nodes.provider_id)) NOT BETWEEN 1 AND 512 THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'provider_id must have 1 to 512 characters';
		END IF;
	END IF;
	new_node.capacity := coalesce(add_nodes.capacity, kind_of.capacity);
	PERFORM rpq_store.check_node_capacity(kind_of.type_id, new_node.capacity, false);

	new_node.pool_id := rpq_store.pool_for_nodes(owner_id, add_nodes.pool, add_nodes.cluster, kind_of.kind);
	PERFORM rpq_store.take_turns(ARRAY[new_node.pool_id]);
	SELECT * INTO target FROM rpq_store.pool AS p WHERE p.pool_id = new_node.pool_id;
	PERFORM rpq_store.check_pool_status(target);
	PERFORM rpq_store.check_node_capacity(kind_of.type_id, new_node.capacity, target.type <> 'shared');

	new_node.tenant_id := owner_id;
	new_node.cluster_id := target.cluster_id;
	new_node.type_id := kind_of.type_id;
	new_node.labels := coalesce(add_nodes.labels, '{}');
	new_node.provider_id := btrim(add_nodes.provider_id);
	SELECT array_agg(n.name) INTO existing FROM rpq_store.node AS n
	WHERE n.tenant_id = owner_id AND n.name = ANY (wanted);
	PERFORM rpq_store.relabel_nodes(owner_id, target.pool_id, kind_of.type_id, existing, add_nodes.capacity,
		add_nodes.labels);
	added := rpq_store.insert_nodes(new_node, wanted, add_nodes.count,
		coalesce(add_nodes.prefix, kind_of.name || '-'));
	IF cardinality(added) + coalesce(cardinality(existing), 0) < cardinality(wanted) THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = 'another session added a node of the same name',
			HINT = 'Try again.';
	END IF;
	PERFORM rpq_store.recount_capacity(ARRAY[target.pool_id]);
	PERFORM rpq_store.record('add_nodes', 'node', n.node_id, n.name, owner_id, target.pool_id, NULL,
		rpq_store.node_settings(n.node_id))
	FROM rpq_store.node AS n WHERE n.tenant_id = owner_id AND n.name = ANY (added);
	PERFORM rpq_store.rotate_now();
	RETURN coalesce(wanted, added);
END
$$;
COMMENT ON FUNCTION rpq.add_nodes(text, text[], int, text, text, text, text, rpq.resources, jsonb, text) IS
'adds machines: names, or count and prefix (names are prefix || n, n from one past the highest in use; the prefix '
'defaults to the instance type and a hyphen), of an instance type, into a pool of the same kind (default: the '
'tenant''s shared pool of the cluster and kind, which comes into being with its first node). cluster: default the '
'pool''s, else the only one. capacity: default the type''s; gpu counts devices. labels: a JSON object. '
'provider_id: the machine''s id at its provider, for one node. A name that exists with the same type and pool '
'takes the labels and makes no second row. Returns the names, repeats left out. Errors: 42704 unknown type, pool, '
'cluster or tenant, 42710 a node of another type, pool or capacity has the name, RQ004 the pool is being created '
'or deleted, 22023 bad argument, RQ003 no whole number of machine units in a dedicated or exclusive pool. '
'Platform administrators';

CREATE FUNCTION rpq.remove_nodes(names text[], force boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'remove_nodes'
AS $$
#variable_conflict use_column
DECLARE
	gone bigint[] := ARRAY[]::bigint[];
	pools bigint[];
	one text;
	busy text;
BEGIN
	IF remove_nodes.names IS NULL OR cardinality(remove_nodes.names) = 0 THEN
		PERFORM rpq_store.authorize('remove_nodes', NULL);
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'names must name at least one';
	END IF;
	FOREACH one IN ARRAY remove_nodes.names LOOP
		gone := gone || rpq_store.authorize('remove_nodes', one);
	END LOOP;
	SELECT array_agg(DISTINCT g) INTO gone FROM unnest(gone) AS g;
	pools := rpq_store.take_node_turns(gone);
	PERFORM rpq_store.fold(pools);
	IF NOT coalesce(remove_nodes.force, false) THEN
		PERFORM rpq_store.reclaim_nodes(p.pool_id, gone) FROM unnest(pools) AS p (pool_id);
	END IF;
	SELECT string_agg(format('%s (%s)', n.name, b.what), ', ' ORDER BY n.name) INTO busy
	FROM rpq_store.node AS n, LATERAL rpq_store.node_busy(n.node_id) AS b (what)
	WHERE n.node_id = ANY (gone) AND b.what IS NOT NULL;
	IF busy IS NOT NULL AND NOT coalesce(remove_nodes.force, false) THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are in use', DETAIL = busy,
			HINT = 'Cordon the nodes and stop what stands on them first, or remove them by force: then it is lost.';
	END IF;
	IF NOT coalesce(remove_nodes.force, false) THEN
		PERFORM rpq_store.check_nodes_leave(gone);
	END IF;
	PERFORM rpq_store.record('remove_nodes', 'node', n.node_id, n.name, n.tenant_id, n.pool_id,
		rpq_store.node_settings(n.node_id), NULL)
	FROM rpq_store.node AS n WHERE n.node_id = ANY (gone);
	IF busy IS NOT NULL THEN
		PERFORM rpq_store.lose_pods(gone, true, (rpq_store.caller()).actor);
		PERFORM rpq_store.fold(pools);
	END IF;
	IF rpq_store.drop_nodes(gone) < cardinality(gone) THEN
		-- a client keeps a workload locked that has a pod there: a later cycle takes it off, and then the node
		UPDATE rpq_store.node AS n
		SET removing = true, schedulable = false, health = 'unhealthy', health_reason = 'removed', silent = false,
			decided_health = NULL, decided_reason = NULL
		WHERE n.node_id = ANY (gone);
	END IF;
	PERFORM rpq_store.recount_capacity(pools);
	RETURN cardinality(gone);
END
$$;
COMMENT ON FUNCTION rpq.remove_nodes(text[], boolean) IS
'takes machines out of the inventory; returns how many. force: what stands on them is lost, with all its pods, and '
'queued again or failed as its on_node_loss says; without it, what borrows there is preempted, unless an executor has '
'it (then drain the node first). Errors: 22023 no names, 42704 unknown node, RQ006 a node holds pods '
'or room kept for one (the errdetail counts them); without force also RQ002 reservations of policies could not be '
'served by what is left. Platform administrators';

CREATE FUNCTION rpq_store.node_busy(node_id bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN pods > 0 OR holds > 0 THEN
		concat_ws(', ', CASE WHEN pods > 0 THEN pods || CASE pods WHEN 1 THEN ' pod' ELSE ' pods' END END,
			CASE WHEN holds > 0 THEN holds || CASE holds WHEN 1 THEN ' hold' ELSE ' holds' END END) END
	FROM (SELECT (SELECT count(*) FROM rpq_store.pod AS p WHERE p.node_id = $1) AS pods,
				 (SELECT count(*) FROM rpq_store.hold AS h WHERE h.node_id = $1) AS holds) AS c
$$;
COMMENT ON FUNCTION rpq_store.node_busy(bigint) IS
'what stands on a node, in words (2 pods, 1 hold); NULL when nothing does. Exact for who holds the turn and has '
'folded';

-- One change of a node's state by an administrator; NULL leaves a column as it is.
CREATE FUNCTION rpq_store.change_node(action text, node_id bigint, schedulable boolean, health text,
	reason text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	changed rpq_store.node;
	before jsonb;
BEGIN
	SELECT * INTO changed FROM rpq_store.node AS n WHERE n.node_id = change_node.node_id;
	before := jsonb_build_object('schedulable', changed.schedulable, 'health', changed.health,
		'health_reason', changed.health_reason);
	changed.schedulable := coalesce(change_node.schedulable, changed.schedulable);
	IF change_node.health IS NOT NULL THEN
		changed.health := change_node.health;
		changed.health_reason := change_node.reason;
		changed.silent := false;
		changed.decided_health := NULL;
		changed.decided_reason := NULL;
	ELSIF changed.silent THEN
		-- the present reason is that of the silence
		changed.decided_reason := coalesce(change_node.reason,
			CASE WHEN NOT changed.schedulable OR changed.decided_health <> 'healthy' THEN changed.decided_reason END);
	ELSIF NOT changed.schedulable THEN
		changed.health_reason := coalesce(change_node.reason, changed.health_reason);
	ELSIF changed.health = 'healthy' THEN
		changed.health_reason := NULL;
	END IF;
	UPDATE rpq_store.node AS n
	SET schedulable = changed.schedulable, health = changed.health, health_reason = changed.health_reason,
		silent = changed.silent, decided_health = changed.decided_health, decided_reason = changed.decided_reason
	WHERE n.node_id = change_node.node_id;
	PERFORM rpq_store.record(change_node.action, 'node', changed.node_id, changed.name, changed.tenant_id,
		changed.pool_id,
		before, jsonb_build_object('schedulable', changed.schedulable, 'health', changed.health,
			'health_reason', changed.health_reason));
END
$$;
COMMENT ON FUNCTION rpq_store.change_node(text, bigint, boolean, text, text) IS
'changes cordon or health of a node and records it; the caller holds the turn of its pool';

CREATE FUNCTION rpq_store.check_reason(reason text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF length(check_reason.reason) > 2000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'reason is too long',
			DETAIL = format('It has %s characters, at most 2000 are kept.', length(check_reason.reason));
	END IF;
	RETURN nullif(btrim(check_reason.reason), '');
END
$$;
COMMENT ON FUNCTION rpq_store.check_reason(text) IS
'a reason in words, trimmed, NULL when blank; 22023 when longer than 2000 characters';

CREATE FUNCTION rpq.cordon_node(node text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'cordon_node'
AS $$
DECLARE
	subject bigint := rpq_store.authorize('cordon_node', cordon_node.node);
BEGIN
	PERFORM rpq_store.take_node_turns(ARRAY[subject]);
	PERFORM rpq_store.change_node('cordon_node', subject, false, NULL, rpq_store.check_reason(cordon_node.reason));
	PERFORM rpq_store.keep_cordoned(subject);
END
$$;
COMMENT ON FUNCTION rpq.cordon_node(text, text) IS
'nothing new is placed on the node; what stands there goes on, and a drain that is undone leaves it cordoned. reason: '
'in words, shown with the node. Errors: 42704 unknown node, 22023 no node or a reason of more than 2000 characters, '
'RQ009 fenced. Administrators of its pool';

CREATE FUNCTION rpq.uncordon_node(node text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'uncordon_node'
AS $$
DECLARE
	subject bigint := rpq_store.authorize('uncordon_node', uncordon_node.node);
BEGIN
	PERFORM rpq_store.take_node_turns(ARRAY[subject]);
	PERFORM rpq_store.change_node('uncordon_node', subject, true, NULL, NULL);
	PERFORM rpq_store.rotate_now();
END
$$;
COMMENT ON FUNCTION rpq.uncordon_node(text) IS
'the node takes new pods again, as far as it is healthy. Errors: 42704 unknown node, 22023 no node, RQ009 fenced. '
'Administrators of its pool';

CREATE FUNCTION rpq.set_node_health(node text, health text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'set_node_health'
AS $$
DECLARE
	subject bigint := rpq_store.authorize('set_node_health', set_node_health.node);
	pools bigint[];
BEGIN
	IF set_node_health.health IS NULL OR set_node_health.health NOT IN ('healthy', 'degraded', 'unhealthy') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'health must be healthy, degraded or unhealthy';
	END IF;
	pools := rpq_store.take_node_turns(ARRAY[subject]);
	IF set_node_health.health = 'healthy' THEN
		-- without an executor from now on, until one reports again: else its old silence would speak against this
		DELETE FROM rpq_store.node_seen WHERE node_id IN (
			SELECT s.node_id FROM rpq_store.node_seen AS s
			WHERE s.node_id = subject AND s.at <= rpq_store.node_cutoff() FOR UPDATE SKIP LOCKED);
	END IF;
	PERFORM rpq_store.change_node('set_node_health', subject, NULL, set_node_health.health,
		rpq_store.check_reason(set_node_health.reason));
	IF set_node_health.health = 'unhealthy' THEN
		PERFORM rpq_store.lose_pods(ARRAY[subject], false, (rpq_store.caller()).actor);
		PERFORM rpq_store.fold(pools);
	END IF;
	PERFORM rpq_store.rotate_now();
END
$$;
COMMENT ON FUNCTION rpq.set_node_health(text, text, text) IS
'health of a node: healthy, degraded or unhealthy; nothing new is placed on one that is not healthy, and what stands '
'on one that turns unhealthy is lost: each workload with a pod there loses all its pods and is queued again, or has '
'failed, as its on_node_loss says. healthy, of a node whose executor is silent: it counts as one without executor '
'until it reports again. reason: in words. Errors: 42704 unknown node, 22023 bad health or reason, RQ009 fenced. '
'Administrators of its pool';
-- Preemptions in the tables: what pending victims still have, and the end of what is held for a preemptor.
--
-- Writes hold (purpose preempt) and preemption, under the turns that the caller holds.  What a cycle does with them is
-- in src/store/evictions.c.

-- A victim keeps its room until its pods are gone, and for as long as an executor has not let go of them.
CREATE VIEW rpq_store.victim_room AS
SELECT p.preemption_id, p.preemptor, o.node_id, o.pod_id, w.resources, o.devices
FROM rpq_store.preemption AS p
JOIN rpq_store.pod AS o ON o.workload_id = p.victim AND o.attempt = p.victim_attempt
JOIN rpq_store.workload AS w ON w.workload_id = p.victim
WHERE p.state = 'pending'
UNION ALL
SELECT p.preemption_id, p.preemptor, h.node_id, h.pod_id, h.resources, h.devices
FROM rpq_store.preemption AS p
JOIN rpq_store.hold AS h ON h.workload_id = p.victim AND h.attempt = p.victim_attempt AND h.purpose = 'stopping'
WHERE p.state = 'pending';
COMMENT ON VIEW rpq_store.victim_room IS 'what victims that have still to stop have on each node, a row for each pod';
COMMENT ON COLUMN rpq_store.victim_room.preemption_id IS 'the preemption';
COMMENT ON COLUMN rpq_store.victim_room.preemptor IS 'workload that the room is for';
COMMENT ON COLUMN rpq_store.victim_room.node_id IS 'the node';
COMMENT ON COLUMN rpq_store.victim_room.pod_id IS 'the pod that has it';
COMMENT ON COLUMN rpq_store.victim_room.resources IS 'what the pod has';
COMMENT ON COLUMN rpq_store.victim_room.devices IS 'devices that it has, or has a part of';

-- A client may keep a victim's row locked past the grace: its pods are then gone, and the row follows when it is free.
CREATE VIEW rpq_store.podless AS
SELECT p.preemption_id, w.workload_id, w.attempt, w.account_id, w.policy_id, w.pool_id, w.type_id, w.lender_id,
	w.resources, w.replicas
FROM rpq_store.preemption AS p
JOIN rpq_store.workload AS w ON w.workload_id = p.victim AND w.attempt = p.victim_attempt
WHERE p.state = 'pending' AND w.status IN ('starting', 'running')
  AND NOT EXISTS (SELECT FROM rpq_store.pod AS o WHERE o.workload_id = w.workload_id AND o.attempt = w.attempt);
COMMENT ON VIEW rpq_store.podless IS
'victims that have lost their pods while their rows, which clients keep locked, still say that they run';
COMMENT ON COLUMN rpq_store.podless.preemption_id IS 'the preemption';
COMMENT ON COLUMN rpq_store.podless.workload_id IS 'the victim';
COMMENT ON COLUMN rpq_store.podless.attempt IS 'its attempt';
COMMENT ON COLUMN rpq_store.podless.account_id IS 'its account';
COMMENT ON COLUMN rpq_store.podless.policy_id IS 'policy that it is charged to; NULL: a direct submission';
COMMENT ON COLUMN rpq_store.podless.pool_id IS 'pool that it is charged to';
COMMENT ON COLUMN rpq_store.podless.type_id IS 'instance type of the nodes that it had';
COMMENT ON COLUMN rpq_store.podless.lender_id IS 'exclusive pool whose idle room it borrowed; NULL: none';
COMMENT ON COLUMN rpq_store.podless.resources IS 'what each of its pods had';
COMMENT ON COLUMN rpq_store.podless.replicas IS 'how many pods it had';

CREATE FUNCTION rpq_store.still_lends(pool_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.pool AS p
				   WHERE p.pool_id = $1 AND p.type = 'exclusive' AND p.idle_time_sharing AND p.status <> 'deleted')
$$;
COMMENT ON FUNCTION rpq_store.still_lends(bigint) IS
'whether what borrows room of a pool may stay there: it is exclusive, with idle-time sharing';

CREATE FUNCTION rpq_store.give_up_preemptions(preemptors bigint[]) RETURNS int
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH freed AS (
		DELETE FROM rpq_store.hold AS h WHERE h.purpose = 'preempt' AND h.workload_id = ANY ($1)
		RETURNING h.hold_id),
	-- one whose attempt has ended stopped for it; one that has lost its pods follows when its row is free; one that
	-- borrows where nothing is lent any more has to go for nobody's sake
	ended AS (
		UPDATE rpq_store.preemption AS p
		SET state = CASE WHEN NOT o.placed THEN 'stopped' WHEN o.goes THEN 'pending' ELSE 'given_up' END,
			preemptor = CASE WHEN NOT (o.placed AND o.goes) THEN p.preemptor END,
			preemptor_account = CASE WHEN NOT (o.placed AND o.goes) THEN p.preemptor_account END
		FROM rpq_store.preemption AS k
		JOIN rpq_store.workload AS w ON w.workload_id = k.victim
		CROSS JOIN LATERAL (
			SELECT w.attempt = k.victim_attempt AND w.status IN ('starting', 'running') AS placed,
				w.lender_id IS NOT NULL AND NOT rpq_store.still_lends(w.lender_id) AS goes) AS o
		WHERE k.preemption_id = p.preemption_id AND k.state = 'pending' AND k.preemptor = ANY ($1)
		  AND p.preemption_id NOT IN (SELECT l.preemption_id FROM rpq_store.podless AS l))
	SELECT count(*)::int FROM freed
$$;
COMMENT ON FUNCTION rpq_store.give_up_preemptions(bigint[]) IS
'gives up the room that is held for these preemptors: their holds end, victims that have still to stop go on, but for '
'those that borrow where nothing is lent any more. Returns '
'the number of holds. The caller holds the turns of the pools';

CREATE FUNCTION rpq_store.give_up_on_nodes(nodes bigint[]) RETURNS int
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	SELECT rpq_store.give_up_preemptions(ARRAY(
		SELECT DISTINCT h.workload_id FROM rpq_store.hold AS h WHERE h.node_id = ANY ($1) AND h.purpose = 'preempt'))
$$;
COMMENT ON FUNCTION rpq_store.give_up_on_nodes(bigint[]) IS
'gives up the room that is held for preemptors with any on these nodes, which are about to take nothing new, or to '
'change hands; returns the number of holds. The caller holds the turns of the pools';
-- Ends of attempts that nobody's own call brings about: nodes that are lost, and what a cycle does before it decides.
--
-- Writes workload (SKIP LOCKED: a row that its client keeps locked is passed over and follows with a later cycle) and
-- entry; node, hold, node_load, node_seen, pod_report and turn under the turns of the pools concerned.

CREATE FUNCTION rpq_store.workload_shape(scope_id bigint, account_id bigint, priority int, replicas int,
	guarantee boolean, checkpointable boolean, workload_type text, resources rpq.resources, instance_types bigint[],
	max_runtime interval, not_before timestamptz)
RETURNS bigint LANGUAGE c IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_workload_shape';
COMMENT ON FUNCTION rpq_store.workload_shape(bigint, bigint, int, int, boolean, boolean, text, rpq.resources, bigint[],
	interval, timestamptz) IS
'with scope_id the key of the lane of a workload that has these columns';

CREATE FUNCTION rpq_store.end_attempts(workloads bigint[], attempts int[], ends text[], causes text[],
	details text[], actor text, at timestamptz)
RETURNS SETOF rpq_store.entry
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH found AS (
		SELECT w.*, x.ends, x.why, x.how
		FROM unnest($1, $2, $3, $4, $5) AS x (workload_id, of_attempt, ends, why, how)
		JOIN rpq_store.workload AS w ON w.workload_id = x.workload_id
		WHERE w.status IN ('starting', 'running') AND w.attempt = x.of_attempt
		ORDER BY w.workload_id
		FOR UPDATE OF w SKIP LOCKED),
	decided AS (
		SELECT f.*, d.becomes, greatest($7, f.started_at, f.running_at) AS end_at,
			CASE WHEN d.becomes = 'queued'
				 THEN rpq_store.workload_shape(f.scope_id, f.account_id, f.priority, f.replicas, f.guarantee,
					f.checkpointable, f.workload_type, f.resources, f.instance_types, f.max_runtime, NULL)
				 ELSE f.shape END AS new_shape
		FROM found AS f
		CROSS JOIN LATERAL (SELECT CASE WHEN f.ends <> 'lost' THEN f.ends
										WHEN f.on_node_loss = 'fail' THEN 'failed'
										ELSE 'queued' END AS becomes) AS d),
	back AS (
		UPDATE rpq_store.workload AS w
		SET status = 'queued', shape = d.new_shape, cause = d.why, detail = d.how, pool_id = NULL, type_id = NULL,
			policy_id = NULL, lender_id = NULL, nodes = NULL, started_at = NULL, running_at = NULL, deadline = NULL,
			preemptions = w.preemptions + CASE WHEN d.why = 'preempted' THEN 1 ELSE 0 END
		FROM decided AS d WHERE d.becomes = 'queued' AND w.workload_id = d.workload_id),
	ended AS (
		UPDATE rpq_store.workload AS w
		SET status = d.becomes, ended_at = d.end_at, cause = d.why, detail = d.how
		FROM decided AS d WHERE d.becomes <> 'queued' AND w.workload_id = d.workload_id)
	INSERT INTO rpq_store.entry AS e (scope_id, at, workload_id, shape, submitted_at, account_id, policy_id, pool_id,
		type_id, lender_id, attempt, waiting, kind, status, actor, cause, detail, resources)
	SELECT d.scope_id, d.end_at, d.workload_id, d.new_shape, CASE WHEN d.becomes = 'queued' THEN d.submitted_at END,
		d.account_id, d.policy_id, d.pool_id, d.type_id, d.lender_id, d.attempt,
		CASE WHEN d.becomes = 'queued' THEN 1 ELSE 0 END, 'release', d.becomes, $6, d.why, d.how,
		rpq.resources_mul(d.resources, -d.replicas::numeric)
	FROM decided AS d
	ORDER BY d.workload_id
	RETURNING e.*
$$;
COMMENT ON FUNCTION rpq_store.end_attempts(bigint[], int[], text[], text[], text[], text, timestamptz) IS
'ends the present attempts of placed workloads, each with one release of all that it holds: ends is succeeded, failed, '
'stopped, queued (back to its lane with its submission time) or lost (queued, or failed by on_node_loss). Returns the '
'entries. Another attempt than the present, and a row that somebody keeps locked, are passed over';

CREATE FUNCTION rpq_store.lose_pods(nodes bigint[], removed boolean, actor text) RETURNS int
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH hit AS (
		SELECT w.workload_id, w.attempt, min(format('node "%s" %s', n.name, CASE WHEN $2 THEN 'was removed'
			ELSE 'is unhealthy' || coalesce(': ' || n.health_reason, '') END)) AS detail
		FROM rpq_store.pod AS p
		JOIN rpq_store.node AS n ON n.node_id = p.node_id
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
		WHERE p.node_id = ANY ($1) AND w.status IN ('starting', 'running')
		GROUP BY w.workload_id, w.attempt),
	-- a victim that has still to stop has now done so
	listed AS (
		SELECT array_agg(h.workload_id) AS workloads, array_agg(h.attempt) AS attempts,
			array_agg(CASE WHEN v.victim THEN 'queued' ELSE 'lost' END) AS ends,
			array_agg(CASE WHEN v.victim THEN 'preempted' ELSE 'node_lost' END) AS causes,
			array_agg(h.detail) AS details
		FROM hit AS h
		CROSS JOIN LATERAL (
			SELECT EXISTS (SELECT FROM rpq_store.preemption AS p WHERE p.victim = h.workload_id
						   AND p.victim_attempt = h.attempt AND p.state = 'pending') AS victim) AS v)
	SELECT count(e.entry_id)::int
	FROM listed AS l
	CROSS JOIN LATERAL rpq_store.end_attempts(l.workloads, l.attempts, l.ends, l.causes, l.details, $3, rpq.now()) AS e
$$;
COMMENT ON FUNCTION rpq_store.lose_pods(bigint[], boolean, text) IS
'each workload with a pod on one of these nodes loses all its pods: it is queued again, or has failed, as its '
'on_node_loss says, with the cause node_lost; a victim that had still to stop is queued again as preempted. '
'removed: the nodes are taken away, else they are unhealthy. Returns how '
'many; one whose row its client keeps locked is passed over, and its pods stay for now. The caller holds the turns of '
'the nodes'' pools';

-- Nodes that are removed by force stay until the last pod has left them.
CREATE FUNCTION rpq_store.drop_nodes(nodes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	empty bigint[];
BEGIN
	SELECT array_agg(n.node_id) INTO empty FROM rpq_store.node AS n
	WHERE n.node_id = ANY (drop_nodes.nodes)
	  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = n.node_id);
	DELETE FROM rpq_store.hold WHERE node_id = ANY (empty);
	DELETE FROM rpq_store.node_load WHERE node_id = ANY (empty);
	DELETE FROM rpq_store.node WHERE node_id = ANY (empty);
	-- what an executor is writing at this moment goes with the next sweep
	DELETE FROM rpq_store.node_seen WHERE node_id IN (
		SELECT s.node_id FROM rpq_store.node_seen AS s WHERE s.node_id = ANY (empty) FOR UPDATE SKIP LOCKED);
	DELETE FROM rpq_store.pod_report WHERE pod_id IN (
		SELECT r.pod_id FROM rpq_store.pod_report AS r WHERE r.node_id = ANY (empty) FOR UPDATE SKIP LOCKED);
	RETURN coalesce(cardinality(empty), 0);
END
$$;
COMMENT ON FUNCTION rpq_store.drop_nodes(bigint[]) IS
'deletes those of these nodes that no pod is on, with what belongs to them; returns how many. The caller holds the '
'turns of their pools';

CREATE FUNCTION rpq_store.node_cutoff() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_node_cutoff';
COMMENT ON FUNCTION rpq_store.node_cutoff() IS
'an executor whose last sign of life is no later than this is silent; -infinity for the first rpq.node_timeout after '
'the start of the server, which nobody could reach before';

-- What nodes said of themselves: signs of life and capacity.
CREATE FUNCTION rpq_store.hear_nodes(pools bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cutoff timestamptz := rpq_store.node_cutoff();
	changed int;
	more int;
BEGIN
	UPDATE rpq_store.node AS n
	SET health = coalesce(n.decided_health, 'healthy'), health_reason = n.decided_reason, silent = false,
		decided_health = NULL, decided_reason = NULL
	FROM rpq_store.node_seen AS s
	WHERE s.node_id = n.node_id AND n.pool_id = ANY (hear_nodes.pools) AND n.silent AND s.at > cutoff;
	GET DIAGNOSTICS changed = ROW_COUNT;
	UPDATE rpq_store.node AS n
	SET health = 'unhealthy', silent = true, decided_health = n.health, decided_reason = n.health_reason,
		health_reason = format('no sign of life since %s UTC', date_trunc('second', s.at AT TIME ZONE 'UTC'))
	FROM rpq_store.node_seen AS s
	WHERE s.node_id = n.node_id AND n.pool_id = ANY (hear_nodes.pools) AND n.health <> 'unhealthy' AND s.at <= cutoff;
	GET DIAGNOSTICS more = ROW_COUNT;
	changed := changed + more;
	-- of what a report does not name the node has what it nominally has; what it names beyond that is not used
	UPDATE rpq_store.node AS n
	SET reported = s.reported,
		usable = rpq.least(n.capacity, rpq.least(s.reported,
			s.reported OPERATOR(rpq.*) 0::numeric OPERATOR(rpq.+) n.capacity))
	FROM rpq_store.node_seen AS s
	WHERE s.node_id = n.node_id AND n.pool_id = ANY (hear_nodes.pools)
	  AND s.news AND coalesce(n.reported OPERATOR(rpq.<>) s.reported, true);
	GET DIAGNOSTICS more = ROW_COUNT;
	UPDATE rpq_store.node_seen SET news = false WHERE node_id IN (
		SELECT s.node_id FROM rpq_store.node_seen AS s JOIN rpq_store.node AS n ON n.node_id = s.node_id
		WHERE s.news AND n.pool_id = ANY (hear_nodes.pools) AND n.reported OPERATOR(rpq.=) s.reported
		FOR UPDATE OF s SKIP LOCKED);
	RETURN changed + more;
END
$$;
COMMENT ON FUNCTION rpq_store.hear_nodes(bigint[]) IS
'nodes of these pools whose executor is silent turn unhealthy, those that silence alone made so have their former '
'health again, and what nodes reported of their capacity is taken over; returns how many. The caller holds the turns';

CREATE FUNCTION rpq_store.sweep_pools(pools bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'sync_node'
AS $$
DECLARE
	lost bigint[];
	removed boolean;
	cutoff timestamptz := rpq_store.node_cutoff();
	changed int := rpq_store.hear_nodes(sweep_pools.pools);
	more int;
BEGIN
	FOR lost, removed IN
		SELECT array_agg(n.node_id), n.removing
		FROM rpq_store.node AS n
		WHERE n.pool_id = ANY (sweep_pools.pools) AND n.health = 'unhealthy'
		GROUP BY n.removing ORDER BY n.removing
	LOOP
		changed := changed + rpq_store.lose_pods(lost, removed, 'system');
	END LOOP;
	changed := changed + rpq_store.drop_nodes(ARRAY(
		SELECT n.node_id FROM rpq_store.node AS n
		WHERE n.pool_id = ANY (sweep_pools.pools) AND n.removing AND n.health = 'unhealthy'));
	DELETE FROM rpq_store.hold AS h
	WHERE h.scope_id = ANY (sweep_pools.pools) AND h.purpose = 'stopping'
	  AND (h.expires_at <= rpq.now()
		OR NOT EXISTS (SELECT FROM rpq_store.node_seen AS s WHERE s.node_id = h.node_id AND s.at > cutoff));
	GET DIAGNOSTICS more = ROW_COUNT;
	IF changed + more > 0 THEN
		UPDATE rpq_store.turn AS t SET room_epoch = t.room_epoch + 1 WHERE t.scope_id = ANY (sweep_pools.pools);
	END IF;
	-- written while their node was removed
	DELETE FROM rpq_store.node_seen WHERE node_id IN (
		SELECT s.node_id FROM rpq_store.node_seen AS s
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = s.node_id) FOR UPDATE SKIP LOCKED);
	RETURN changed + more;
END
$$;
COMMENT ON FUNCTION rpq_store.sweep_pools(bigint[]) IS
'what a cycle does with its pools before it decides: hears nodes, takes pods off unhealthy ones, deletes nodes that '
'were removed by force and are empty, ends holds that are over. Returns how many of these things it did. The caller '
'holds the turns, which are changed when anything was done';
-- Idle-time sharing: work that borrows the idle room of an exclusive pool, and how the pool has it back past a cycle:
-- when sharing is switched off, and when nodes with such work are to be emptied or to leave.  (Of own work that comes
-- for the room the cycle sees to itself, src/core/preempt.c.)
--
-- Writes preemption, and workload (SKIP LOCKED) and entry of those that end at once, under the turns that the caller
-- holds: the lender's set has the shared pool in it.

-- Borrowed work stands on nodes of its lender, and is charged to the pool that it was submitted to.  A pod whose
-- attempt has ended is not here, though no fold has freed it yet.
CREATE VIEW rpq_store.borrowed_pod AS
SELECT o.node_id, o.pod_id, w.workload_id, w.attempt, w.pool_id, w.lender_id, w.resources, o.replica
  FROM rpq_store.workload w
  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt
 WHERE w.lender_id IS NOT NULL AND w.status IN ('starting', 'running');
COMMENT ON VIEW rpq_store.borrowed_pod IS 'pods of work that borrows the idle room of an exclusive pool';
COMMENT ON COLUMN rpq_store.borrowed_pod.node_id IS 'node of the exclusive pool';
COMMENT ON COLUMN rpq_store.borrowed_pod.pod_id IS 'the pod';
COMMENT ON COLUMN rpq_store.borrowed_pod.workload_id IS 'its workload';
COMMENT ON COLUMN rpq_store.borrowed_pod.attempt IS 'the present attempt of that';
COMMENT ON COLUMN rpq_store.borrowed_pod.pool_id IS 'pool that it is charged to';
COMMENT ON COLUMN rpq_store.borrowed_pod.lender_id IS 'exclusive pool that has the node';
COMMENT ON COLUMN rpq_store.borrowed_pod.resources IS 'what the pod has';
COMMENT ON COLUMN rpq_store.borrowed_pod.replica IS 'number of the replica, from 0';

-- Those that are pending already are left to it.  attended: an executor, heard of lately, has a pod of it.
CREATE FUNCTION rpq_store.borrowers(pool_id bigint, nodes bigint[])
RETURNS TABLE (workload_id bigint, attempt int, account_id bigint, rank int, attended boolean, gpu_seconds numeric)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT w.workload_id, w.attempt, w.account_id,
		(row_number() OVER (ORDER BY w.priority, w.checkpointable DESC, w.started_at DESC, w.submitted_at DESC,
			w.workload_id DESC))::int,
		EXISTS (SELECT FROM rpq_store.pod AS o
				JOIN rpq_store.pod_report AS r ON r.pod_id = o.pod_id AND r.state IN ('started', 'running')
				JOIN rpq_store.node_seen AS s ON s.node_id = r.node_id AND s.at > rpq_store.node_cutoff()
				WHERE o.workload_id = w.workload_id AND o.attempt = w.attempt),
		trim_scale(coalesce(w.resources OPERATOR(rpq.->) 'gpu', 0) * w.replicas * greatest(0, extract(epoch FROM
			rpq.now() - CASE WHEN w.checkpointable AND w.checkpoint_at >= w.started_at THEN w.checkpoint_at
							 ELSE w.started_at END)))
	FROM rpq_store.workload AS w
	WHERE w.lender_id = $1 AND w.status IN ('starting', 'running')
	  AND ($2 IS NULL OR w.workload_id IN (SELECT b.workload_id FROM rpq_store.borrowed_pod AS b
										   WHERE b.lender_id = $1 AND b.node_id = ANY ($2)))
	  AND NOT EXISTS (SELECT FROM rpq_store.preemption AS p WHERE p.victim = w.workload_id
					  AND p.victim_attempt = w.attempt AND p.state = 'pending')
$$;
COMMENT ON FUNCTION rpq_store.borrowers(bigint, bigint[]) IS
'work that borrows room of a pool, or (nodes) has a pod on one of these nodes of it, in the order in which it is '
'preempted, without what has still to stop as a victim; attended: an executor has it';

CREATE FUNCTION rpq_store.preempt_borrowers(pool_id bigint, nodes bigint[] DEFAULT NULL,
	at_once boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	at timestamptz := greatest(rpq.now(), (SELECT t.last_at FROM rpq_store.turn AS t
										   WHERE t.scope_id = preempt_borrowers.pool_id));
	grace interval := current_setting('rpq.preemption_grace')::interval;
	ending bigint[];
	attempts int[];
	victims int;
BEGIN
	SELECT array_agg(l.workload_id), array_agg(l.attempt) INTO ending, attempts
	FROM (SELECT w.workload_id, w.attempt
		  FROM rpq_store.borrowers(preempt_borrowers.pool_id, preempt_borrowers.nodes) AS b
		  JOIN rpq_store.workload AS w ON w.workload_id = b.workload_id AND w.attempt = b.attempt
		  WHERE w.status IN ('starting', 'running') AND (preempt_borrowers.at_once OR NOT b.attended)
		  ORDER BY w.workload_id FOR UPDATE OF w SKIP LOCKED) AS l;
	-- while the rows still say when they began
	INSERT INTO rpq_store.preemption (at, pool_id, victim, victim_attempt, victim_account, rule, rank,
		gpu_seconds_lost, state, expires_at)
	SELECT at, preempt_borrowers.pool_id, b.workload_id, b.attempt, b.account_id, 'borrowed', b.rank, b.gpu_seconds,
		CASE WHEN s.slow THEN 'pending' ELSE 'stopped' END, CASE WHEN s.slow AND grace > '0' THEN at + grace END
	FROM rpq_store.borrowers(preempt_borrowers.pool_id, preempt_borrowers.nodes) AS b
	CROSS JOIN LATERAL (SELECT b.workload_id <> ALL (coalesce(ending, '{}')) AS slow) AS s
	ORDER BY b.rank;
	GET DIAGNOSTICS victims = ROW_COUNT;
	IF ending IS NOT NULL THEN
		PERFORM rpq_store.end_attempts(ending, attempts, array_fill('queued'::text, ARRAY[cardinality(ending)]),
			array_fill('preempted'::text, ARRAY[cardinality(ending)]),
			array_fill(NULL::text, ARRAY[cardinality(ending)]), 'system', at);
	END IF;
	RETURN victims;
END
$$;
COMMENT ON FUNCTION rpq_store.preempt_borrowers(bigint, bigint[], boolean) IS
'preempts what borrows room of a pool, or has a pod on one of these nodes of it, by the rule borrowed and for no '
'workload; returns how many. Who is in no executor''s hands goes back to its queue now, and is off its nodes with the '
'next fold; who is, or whose client keeps its row locked, is told to stop and has rpq.preemption_grace to do it '
'(at_once: it has not). The caller holds the turns of the pool''s set';

CREATE FUNCTION rpq_store.reclaim_nodes(pool_id bigint, nodes bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF rpq_store.preempt_borrowers(reclaim_nodes.pool_id, reclaim_nodes.nodes) > 0 THEN
		PERFORM rpq_store.fold(ARRAY[reclaim_nodes.pool_id]);
	END IF;
	RETURN ARRAY(SELECT n.node_id FROM rpq_store.node AS n
				 WHERE n.node_id = ANY (reclaim_nodes.nodes)
				   AND (EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = n.node_id)
					 OR EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)));
END
$$;
COMMENT ON FUNCTION rpq_store.reclaim_nodes(bigint, bigint[]) IS
'preempts what borrows room on nodes of a pool, and returns those of them on which something stands still. The caller '
'holds the turns and has folded';

CREATE FUNCTION rpq_store.refuse_occupied(nodes bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF refuse_occupied.nodes <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are in use',
			DETAIL = (SELECT string_agg(format('%s (%s)', n.name, rpq_store.node_busy(n.node_id)), ', ' ORDER BY n.name)
					  FROM rpq_store.node AS n WHERE n.node_id = ANY (refuse_occupied.nodes)),
			HINT = 'Drain them first: what borrows there by idle-time sharing is then told to stop.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_occupied(bigint[]) IS
'refuses (RQ006) nodes on which something stands; none: nothing';
-- Workloads: what clients call about them.  The bodies are in src/api (submit.c, workload.c, report.c).

CREATE FUNCTION rpq.submit(pool text DEFAULT NULL, queue text DEFAULT NULL, workload_type text DEFAULT NULL,
	resources rpq.resources DEFAULT NULL, instance_types text[] DEFAULT NULL, name text DEFAULT NULL,
	replicas int DEFAULT 1, priority int DEFAULT NULL, guarantee boolean DEFAULT NULL,
	max_runtime interval DEFAULT NULL, checkpointable boolean DEFAULT NULL, on_node_loss text DEFAULT 'requeue',
	request_id text DEFAULT NULL, labels jsonb DEFAULT NULL, spec jsonb DEFAULT NULL, draft boolean DEFAULT NULL,
	account text DEFAULT NULL)
RETURNS bigint LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_submit';
COMMENT ON FUNCTION rpq.submit(text, text, text, rpq.resources, text[], text, int, int, boolean, interval, boolean,
	text, text, jsonb, jsonb, boolean, text) IS
'submits a workload and returns its id. pool or queue, one of them: where it waits; workload_type: a name that the '
'tenant has; resources: of one replica (with a queue none: its profile sets them); instance_types: those it may run '
'on (NULL: any); replicas: 1 to 100000, admitted together or not at all; priority: 0 to 100, larger is more urgent '
'(NULL: the lesser of the pool''s default and the account''s maximum; in a queue 50); guarantee: never preempted, in a '
'queue within the policy''s reservation; max_runtime: stopped after it; on_node_loss: requeue or fail; request_id: the '
'same one again returns the first workload; labels: a json object; spec: likewise, for the executor, laid over the '
'queue''s pod template; draft: stored without being queued; account: for whom, by a platform administrator or a '
'gateway. Work through a queue runs in the first pool of its profile that can admit it, and is charged to the policy: '
'members and personal quotas of the pool are not asked, and a pool''s status, freeze and workload types refuse it only '
'where they leave no pool. Errors: 42704 pool, queue, type or account unknown; RQ001 not authorised (in a queue: not '
'in the policy''s group), frozen, workload type, guarantee, priority; RQ002 larger than the pool, the personal quota, '
'the policy''s limit or, guaranteed, its reservation; RQ004 pool being created or deleted; RQ007 no node could hold a '
'replica; 22023 bad argument; RQ009 fenced. Callers: accounts authorised in the pool, members of the queue''s group';

CREATE FUNCTION rpq.enqueue(workload bigint, pool text DEFAULT NULL, queue text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_enqueue';
COMMENT ON FUNCTION rpq.enqueue(bigint, text, text) IS
'queues a draft, or what has stopped or failed, again, with the checks of submit; pool, queue: where to (NULL: where '
'it was), from pools to queues and back. In a queue it takes the size that the profile has now, in a pool it keeps '
'the size that it had. Returns false when another session was faster. Errors: RQ008 its status forbids it, and those '
'of submit. Callers: its owner and administrators of its pool';

CREATE FUNCTION rpq.edit_workload(workload bigint, priority int DEFAULT NULL, name text DEFAULT NULL,
	labels jsonb DEFAULT NULL, max_runtime interval DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_edit_workload';
COMMENT ON FUNCTION rpq.edit_workload(bigint, int, text, jsonb, interval) IS
'changes a draft or a queued workload; NULL stays as it is. It keeps its submission time. Returns whether anything '
'changed. Errors: RQ008 it is neither; RQ001 priority above the maximum; 22023. Callers: its owner and '
'administrators of its pool';

CREATE FUNCTION rpq.stop(workload bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_stop';
COMMENT ON FUNCTION rpq.stop(bigint, text) IS
'ends a workload wherever it is; what it holds is free with the next cycle. Returns false when it had ended. Errors: '
'42704. Callers: its owner and administrators of its pool';

CREATE FUNCTION rpq.delete_workload(workload bigint)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_delete_workload';
COMMENT ON FUNCTION rpq.delete_workload(bigint) IS
'stops a live workload and hides it from the lists; its rows go by retention. Returns false when it was hidden '
'before. Errors: 42704. Callers: its owner and administrators of its pool';

CREATE FUNCTION rpq.requeue(workload bigint, delay interval DEFAULT '0', reason text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_requeue';
COMMENT ON FUNCTION rpq.requeue(bigint, interval, text) IS
'takes a placed workload off its nodes, back to its lane with its submission time; what it held is free with the next '
'cycle. delay: not admitted again before it is over. reason: in words, for the event. Returns false when it is not '
'placed. Errors: 42704, 22023 a negative delay. Callers: executors of the tenant, administrators of its pool, its '
'owner';

CREATE FUNCTION rpq.report_started(workload bigint, attempt int DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_report_started';
COMMENT ON FUNCTION rpq.report_started(bigint, int) IS
'says that an admitted workload runs. attempt: which (NULL: the present one; required from executors). Returns false '
'when it was not starting; another attempt than the present is recorded as late_report. Errors: 42704, 22023. '
'Callers: its owner, executors of the tenant, administrators of its pool';

CREATE FUNCTION rpq.report_finished(workload bigint, attempt int DEFAULT NULL,
	outcome text DEFAULT 'succeeded', detail text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_report_finished';
COMMENT ON FUNCTION rpq.report_finished(bigint, int, text, text) IS
'says that an attempt has ended; what it held is free with the next cycle, exactly once. outcome: succeeded, failed '
'or stopped. Returns false when that attempt had ended. Errors: 42704, 22023. Callers: its owner, executors of the '
'tenant, administrators of its pool';

CREATE FUNCTION rpq.report_checkpoint(workload bigint, attempt int DEFAULT NULL, detail text DEFAULT NULL)
RETURNS boolean LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_report_checkpoint';
COMMENT ON FUNCTION rpq.report_checkpoint(bigint, int, text) IS
'says that an attempt has saved its work; detail: where, handed to the next attempt. Returns false when that attempt '
'had ended. Errors: 42704, 22023. Callers: its owner, executors of the tenant, administrators of its pool';

-- What executors are told to run.

CREATE FUNCTION rpq_store.merge_json(base jsonb, given jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF base IS NULL OR given IS NULL THEN
		RETURN coalesce(given, base);
	ELSIF jsonb_typeof(base) <> 'object' OR jsonb_typeof(given) <> 'object' THEN
		RETURN given;
	END IF;
	RETURN base || coalesce((
		SELECT jsonb_object_agg(g.key, rpq_store.merge_json(base -> g.key, g.value))
		  FROM jsonb_each(given) AS g), '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.merge_json(jsonb, jsonb) IS
'base with what is given laid over it: key by key in objects, also in objects of objects; of anything else, arrays '
'too, what is given stands alone. A null that is given is given';

CREATE FUNCTION rpq_store.pod_spec(w rpq_store.workload) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN (w).checkpoint IS NULL THEN s.spec
				ELSE coalesce(s.spec, '{}') || jsonb_build_object('checkpoint', (w).checkpoint) END
	  FROM (SELECT CASE WHEN q.pod_template IS NULL THEN (w).spec
						ELSE rpq_store.merge_json(q.pod_template, (w).spec) END AS spec
			  FROM (SELECT (w).scope_id AS id) AS x
			  LEFT JOIN rpq_store.queue AS q ON q.queue_id = x.id) AS s;
END;
COMMENT ON FUNCTION rpq_store.pod_spec(rpq_store.workload) IS
'what its executor is handed with a pod: the pod template of its queue, the workload''s own spec laid over it (its '
'keys win, see merge_json), and as "checkpoint" what report_checkpoint said last; NULL: nothing was given';

-- What administrators' functions do to the workloads of an account, or of a pool or queue.  The caller holds its turn.

CREATE FUNCTION rpq_store.draft_queued(pool_id bigint, account_id bigint, cause text, detail text,
	actor text DEFAULT NULL)
RETURNS int LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH found AS (
		SELECT w.workload_id FROM rpq_store.workload w
		 WHERE w.scope_id = $1 AND w.status = 'queued' AND ($2 IS NULL OR w.account_id = $2)
		   FOR UPDATE SKIP LOCKED),
	drafted AS (
		UPDATE rpq_store.workload w SET status = 'draft', cause = $3, detail = $4
		  FROM found f WHERE w.workload_id = f.workload_id RETURNING w.*),
	written AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, attempt, waiting, kind,
			status, actor, cause, detail)
		SELECT scope_id, greatest(rpq.now(), submitted_at), workload_id, shape, account_id, attempt, -1, 'withdraw',
			'draft', coalesce($5, (rpq_store.caller()).actor), cause, detail
		  FROM drafted RETURNING entry_id)
	SELECT count(*)::int FROM written
$$;
COMMENT ON FUNCTION rpq_store.draft_queued(bigint, bigint, text, text, text) IS
'makes drafts of what waits in a pool or a queue, of one account or (NULL) of all; a row that its client keeps locked '
'is passed over. actor: whom the entries name, NULL: the caller';

CREATE FUNCTION rpq_store.stop_placed(pool_id bigint, account_id bigint, cause text, detail text,
	actor text DEFAULT NULL)
RETURNS int LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH found AS (
		SELECT w.workload_id FROM rpq_store.workload w
		 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
		   AND CASE WHEN $2 IS NULL THEN $1 IN (w.scope_id, w.pool_id)
					ELSE w.scope_id = $1 AND w.account_id = $2 END
		   FOR UPDATE SKIP LOCKED),
	stopped AS (
		UPDATE rpq_store.workload w
		   SET status = 'stopped', ended_at = greatest(rpq.now(), w.started_at), cause = $3, detail = $4
		  FROM found f WHERE w.workload_id = f.workload_id RETURNING w.*),
	written AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id,
			lender_id, attempt, kind, status, actor, cause, detail, resources)
		SELECT scope_id, ended_at, workload_id, shape, account_id, policy_id, pool_id, type_id, lender_id, attempt,
			'release', status, coalesce($5, (rpq_store.caller()).actor), cause, detail,
			rpq.resources_mul(resources, -replicas::numeric)
		  FROM stopped RETURNING entry_id),
	wished AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, status, actor, cause, detail)
		SELECT coalesce(w.pool_id, w.scope_id), greatest(rpq.now(), w.started_at), w.workload_id, w.attempt, 'report',
			'stopped', coalesce($5, (rpq_store.caller()).actor), $3, $4
		  FROM rpq_store.workload w
		 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
		   AND CASE WHEN $2 IS NULL THEN $1 IN (w.scope_id, w.pool_id)
					ELSE w.scope_id = $1 AND w.account_id = $2 END
		   AND w.workload_id NOT IN (SELECT f.workload_id FROM found f) RETURNING entry_id)
	SELECT count(*)::int FROM written
$$;
COMMENT ON FUNCTION rpq_store.stop_placed(bigint, bigint, text, text, text) IS
'stops what is placed in the pool, all of it (account NULL, what came through queues too) or what one account '
'submitted to it, and returns how many; for a row that its client '
'keeps locked an entry of kind report and status stopped has the next cycle that gets the row do it. actor: whom the '
'entries name, NULL: the caller';
-- Executors: programs that run pods on a node, what they report and what they are told.
--
-- sync_node is a client's call: it takes no turn and waits for nobody but another report of the same node.  It writes
-- node_seen, pod_report and entry.  The cycle's side of it is in settle_reports.sql.

CREATE FUNCTION rpq_store.check_running(running bigint[]) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	pods bigint[] := coalesce(check_running.running, '{}');
	twice bigint;
BEGIN
	IF array_ndims(pods) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'running must be a list of pods, of one dimension';
	ELSIF cardinality(pods) > 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'running names too many pods',
			DETAIL = format('It names %s, at most 100000 are taken.', cardinality(pods));
	ELSIF array_position(pods, NULL) IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'running must not contain NULL';
	END IF;
	SELECT p INTO twice FROM unnest(pods) AS p GROUP BY p HAVING count(*) > 1 ORDER BY p LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('running names pod %s twice', twice);
	END IF;
	RETURN pods;
END
$$;
COMMENT ON FUNCTION rpq_store.check_running(bigint[]) IS
'the list of pods that an executor reports as running, checked; none for NULL';

CREATE FUNCTION rpq_store.check_finished(finished jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	list jsonb := coalesce(nullif(check_finished.finished, 'null'), '[]');
	wrong record;
	twice numeric;
BEGIN
	IF jsonb_typeof(list) <> 'array' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'finished must be a JSON array',
			HINT = 'Such as [{"pod": 17, "outcome": "succeeded", "detail": "…", "node_fault": false}].';
	ELSIF jsonb_array_length(list) > 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'finished names too many pods',
			DETAIL = format('It names %s, at most 100000 are taken.', jsonb_array_length(list));
	END IF;
	SELECT e.place, e.what INTO wrong
	FROM (SELECT x.place, CASE
			WHEN jsonb_typeof(x.item) <> 'object' THEN 'it is no object'
			WHEN coalesce(jsonb_typeof(x.item -> 'pod'), '') <> 'number' THEN 'its "pod" is no number'
			WHEN (x.item ->> 'pod')::numeric NOT BETWEEN 1 AND 9223372036854775807
			  OR trunc((x.item ->> 'pod')::numeric) <> (x.item ->> 'pod')::numeric THEN 'its "pod" is no id of a pod'
			WHEN coalesce(jsonb_typeof(x.item -> 'outcome'), '') <> 'string'
			  OR x.item ->> 'outcome' NOT IN ('succeeded', 'failed', 'stopped')
				THEN 'its "outcome" is not "succeeded", "failed" or "stopped"'
			WHEN jsonb_typeof(x.item -> 'detail') NOT IN ('string', 'null') THEN 'its "detail" is no string'
			WHEN jsonb_typeof(x.item -> 'node_fault') NOT IN ('boolean', 'null')
				THEN 'its "node_fault" is neither true nor false' END AS what
		  FROM jsonb_array_elements(list) WITH ORDINALITY AS x (item, place)) AS e
	WHERE e.what IS NOT NULL ORDER BY e.place LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('element %s of finished is not valid', wrong.place),
			DETAIL = format('In it, %s.', wrong.what);
	END IF;
	SELECT (x.item ->> 'pod')::numeric INTO twice FROM jsonb_array_elements(list) AS x (item)
	GROUP BY 1 HAVING count(*) > 1 ORDER BY 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('finished names pod %s twice', trunc(twice));
	END IF;
	RETURN list;
END
$$;
COMMENT ON FUNCTION rpq_store.check_finished(jsonb) IS
'the list of pods that an executor reports as finished, checked; none for NULL';

CREATE FUNCTION rpq_store.check_reported(capacity rpq.resources) RETURNS rpq.resources
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	devices numeric := coalesce(check_reported.capacity OPERATOR(rpq.->) 'gpu', 0);
BEGIN
	IF rpq.greatest(check_reported.capacity, check_reported.capacity OPERATOR(rpq.*) 0::numeric)
		OPERATOR(rpq.<>) check_reported.capacity THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'capacity must not be negative',
			DETAIL = format('It is %s.', check_reported.capacity);
	ELSIF devices <> trunc(devices) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'capacity counts whole devices',
			DETAIL = format('gpu is %s.', devices);
	END IF;
	RETURN check_reported.capacity;
END
$$;
COMMENT ON FUNCTION rpq_store.check_reported(rpq.resources) IS
'what an executor reports that its machine has, checked; NULL: it says nothing of it';

-- The sign of life.  Written only when it says something new, so that a report costs a read as a rule.
CREATE FUNCTION rpq_store.note_sign(node_id bigint, capacity rpq.resources) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	heard timestamptz := rpq.now();
	stale interval := current_setting('rpq.node_timeout')::interval / 4;
BEGIN
	IF EXISTS (SELECT FROM rpq_store.node_seen AS s
			   WHERE s.node_id = note_sign.node_id AND s.at > heard - stale AND s.at <= heard
				 AND (note_sign.capacity IS NULL OR s.reported OPERATOR(rpq.=) note_sign.capacity)) THEN
		RETURN false;
	END IF;
	INSERT INTO rpq_store.node_seen AS s (node_id, at, reported, news)
	VALUES (note_sign.node_id, heard, note_sign.capacity, note_sign.capacity IS NOT NULL)
	ON CONFLICT (node_id) DO UPDATE
	SET at = EXCLUDED.at, reported = coalesce(EXCLUDED.reported, s.reported),
		news = s.news OR coalesce(EXCLUDED.reported OPERATOR(rpq.<>) s.reported, EXCLUDED.reported IS NOT NULL);
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.note_sign(bigint, rpq.resources) IS
'writes a node''s sign of life when its capacity changed or the last one is older than a quarter of rpq.node_timeout, '
'or lies ahead; whether it did';

-- One row for each pod that is placed on the node or that its executor was told of.  current: it is placed, and its
-- attempt is the present one; evicting: it is told to stop, since it is moved away or a victim; state: what its report
-- becomes.  A victim whose preemptor gave up the room goes on, but may have been stopping by then.
CREATE FUNCTION rpq_store.compare_node(node_id bigint, running bigint[], finished jsonb)
RETURNS TABLE (pod_id bigint, workload_id bigint, attempt int, devices int[], current boolean, evicting boolean,
	said text, was text, state text, outcome text, detail text, node_fault boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH said AS (
		SELECT r.pod_id, 'running' AS said, NULL AS outcome, NULL AS detail, false AS node_fault
		FROM unnest($2) AS r (pod_id)
		UNION ALL
		SELECT f.pod::bigint, 'finished', f.outcome, f.detail, coalesce(f.node_fault, false)
		FROM jsonb_to_recordset($3) AS f (pod numeric, outcome text, detail text, node_fault boolean)),
	placed AS (
		SELECT p.pod_id, p.workload_id, p.attempt, p.devices,
			w.attempt = p.attempt AND w.status IN ('starting', 'running') AS current
		FROM rpq_store.pod AS p
		LEFT JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		WHERE p.node_id = $1),
	known AS (
		SELECT coalesce(p.pod_id, r.pod_id) AS pod_id, coalesce(p.workload_id, r.workload_id) AS workload_id,
			coalesce(p.attempt, r.attempt) AS attempt, coalesce(p.devices, r.devices) AS devices,
			coalesce(p.current, false) AS current, r.state AS was, m.told, m.evicting
		FROM placed AS p
		FULL JOIN (SELECT * FROM rpq_store.pod_report AS r WHERE r.node_id = $1) AS r ON r.pod_id = p.pod_id
		CROSS JOIN LATERAL (
			SELECT coalesce(bool_or(t.told), false) AS told, coalesce(bool_or(t.evicting), false) AS evicting
			FROM (SELECT m.evicted_at IS NOT NULL AS told, m.status = 'evicting' AS evicting
				  FROM rpq_store.pod_migration AS m
				  WHERE p.current AND m.workload_id = p.workload_id AND m.pod_id = p.pod_id
				  UNION ALL
				  SELECT e.state = 'pending' OR e.expires_at IS NULL OR e.expires_at
						+ current_setting('rpq.preemption_grace')::interval >= rpq.now(), e.state = 'pending'
				  FROM rpq_store.preemption AS e
				  WHERE p.current AND e.victim = p.workload_id AND e.victim_attempt = p.attempt) AS t) AS m)
	SELECT k.pod_id, k.workload_id, k.attempt, k.devices, k.current, k.evicting, s.said, k.was,
		CASE WHEN s.said = 'running' THEN CASE k.was WHEN 'finished' THEN 'finished' ELSE 'running' END
			 WHEN s.said = 'finished' AND k.current THEN
				CASE WHEN k.was IS DISTINCT FROM 'finished' AND k.told AND s.outcome = 'stopped' THEN 'gone'
					 ELSE 'finished' END
			 WHEN s.said = 'finished' THEN CASE WHEN k.was IN ('started', 'running') THEN 'gone' ELSE k.was END
			 WHEN k.was = 'running' THEN CASE WHEN k.current AND NOT k.told THEN 'lost' ELSE 'gone' END
			 WHEN k.was = 'started' THEN CASE WHEN k.current AND NOT k.evicting THEN 'started' ELSE 'gone' END
			 ELSE k.was END,
		s.outcome, s.detail, coalesce(s.node_fault, false)
	FROM known AS k
	LEFT JOIN said AS s ON s.pod_id = k.pod_id
$$;
COMMENT ON FUNCTION rpq_store.compare_node(bigint, bigint[], jsonb) IS
'what an executor reports of a node beside what is placed there: a row for each pod of either that rpq knows';

-- What is new of a report: pod_report, an entry for each workload that a cycle has to look at, and one for each attempt
-- that had ended before, with another end.
CREATE FUNCTION rpq_store.note_report(node_id bigint, running bigint[], finished jsonb, actor text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	heard timestamptz := rpq.now();
	pool bigint;
BEGIN
	IF NOT EXISTS (
		SELECT FROM rpq_store.compare_node(note_report.node_id, note_report.running, note_report.finished) AS c
		WHERE c.state IS DISTINCT FROM c.was) THEN
		RETURN false;
	END IF;
	-- another report of the same node is waited for, so that the two lock the rows that follow one after the other
	PERFORM FROM rpq_store.node_seen AS s WHERE s.node_id = note_report.node_id FOR UPDATE;
	SELECT n.pool_id INTO pool FROM rpq_store.node AS n WHERE n.node_id = note_report.node_id;
	WITH changed AS MATERIALIZED (
		SELECT c.* FROM rpq_store.compare_node(note_report.node_id, note_report.running, note_report.finished) AS c
		WHERE c.state IS DISTINCT FROM c.was),
	written AS (
		INSERT INTO rpq_store.pod_report AS r (pod_id, node_id, workload_id, attempt, state, outcome, detail,
			node_fault, devices, at)
		SELECT c.pod_id, note_report.node_id, c.workload_id, c.attempt, c.state, c.outcome, c.detail, c.node_fault,
			c.devices, heard
		FROM changed AS c ORDER BY c.pod_id
		ON CONFLICT (pod_id) DO UPDATE
		SET state = EXCLUDED.state, outcome = EXCLUDED.outcome, detail = EXCLUDED.detail,
			node_fault = EXCLUDED.node_fault, at = EXCLUDED.at),
	late AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, account_id, attempt, kind, status, actor, cause, detail)
		SELECT DISTINCT ON (w.workload_id, c.attempt) w.scope_id, greatest(heard, w.created_at), w.workload_id,
			w.account_id, c.attempt, 'late_report', w.status, note_report.actor, c.outcome, c.detail
		FROM changed AS c JOIN rpq_store.workload AS w ON w.workload_id = c.workload_id
		WHERE c.said = 'finished' AND NOT c.current AND c.outcome <> 'stopped'
		ORDER BY w.workload_id, c.attempt, c.pod_id)
	INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, actor)
	SELECT pool, heard, c.workload_id, max(c.attempt), 'report', note_report.actor
	FROM changed AS c GROUP BY c.workload_id ORDER BY c.workload_id;
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.note_report(bigint, bigint[], jsonb, text) IS
'writes what is new of an executor''s report; false when nothing is';

CREATE FUNCTION rpq_store.answer_node(node_id bigint, running bigint[], finished jsonb)
RETURNS TABLE (action text, pod bigint, workload bigint, attempt int, resources rpq.resources, devices int[],
	spec jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH seen AS MATERIALIZED (
		SELECT c.* FROM rpq_store.compare_node($1, $2, $3) AS c),
	-- what the executor still runs though it is no longer placed: its devices are not free yet
	leaving AS (
		SELECT c.devices FROM seen AS c WHERE c.said = 'running' AND NOT c.current AND cardinality(c.devices) > 0)
	SELECT 'stop', r.pod_id, c.workload_id, c.attempt, NULL::rpq.resources, c.devices, NULL::jsonb
	FROM unnest($2) AS r (pod_id)
	LEFT JOIN seen AS c ON c.pod_id = r.pod_id
	WHERE c.pod_id IS NULL OR NOT c.current OR c.evicting
	UNION ALL
	SELECT 'start', c.pod_id, c.workload_id, c.attempt, w.resources, c.devices,
		rpq_store.pod_spec(w)
	FROM seen AS c
	JOIN rpq_store.workload AS w ON w.workload_id = c.workload_id
	WHERE c.current AND NOT c.evicting AND c.said IS NULL AND coalesce(c.state, 'started') = 'started'
	  AND NOT EXISTS (SELECT FROM leaving AS l WHERE l.devices && c.devices)
	  -- what stands on a node that is lost is on its way back to the queue
	  AND EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = $1 AND n.health <> 'unhealthy')
	ORDER BY 1 DESC, 2
$$;
COMMENT ON FUNCTION rpq_store.answer_node(bigint, bigint[], jsonb) IS
'what the executor of a node is to stop and to start after its report';

CREATE FUNCTION rpq.sync_node(node text, running bigint[] DEFAULT '{}', finished jsonb DEFAULT '[]',
	capacity rpq.resources DEFAULT NULL)
RETURNS TABLE (action text, pod bigint, workload bigint, attempt int, resources rpq.resources, devices int[],
	spec jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject bigint := rpq_store.authorize('sync_node', sync_node.node);
	runs bigint[] := rpq_store.check_running(sync_node.running);
	ends jsonb := rpq_store.check_finished(sync_node.finished);
	named_twice numeric;
BEGIN
	SELECT (e.item ->> 'pod')::numeric INTO named_twice FROM jsonb_array_elements(ends) AS e (item)
	WHERE (e.item ->> 'pod')::numeric = ANY (runs) ORDER BY 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = format('pod %s is reported both as running and as finished', trunc(named_twice));
	END IF;
	PERFORM rpq_store.note_sign(subject, rpq_store.check_reported(sync_node.capacity));
	IF rpq_store.note_report(subject, runs, ends, (rpq_store.caller()).actor) THEN
		PERFORM rpq_store.wake(n.pool_id) FROM rpq_store.node AS n WHERE n.node_id = subject;
	END IF;
	-- Answer and record are one statement, on one snapshot: what is handed out and not recorded, since its attempt ends
	-- meanwhile, would have devices that nobody knows of.
	RETURN QUERY
		WITH answer AS MATERIALIZED (
			SELECT a.* FROM rpq_store.answer_node(subject, runs, ends) WITH ORDINALITY AS a),
		handed_out AS (
			INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, devices, at)
			SELECT a.pod, subject, a.workload, a.attempt, 'started', a.devices, rpq.now()
			FROM answer AS a WHERE a.action = 'start' ORDER BY a.pod
			ON CONFLICT (pod_id) DO NOTHING)
		SELECT a.action, a.pod, a.workload, a.attempt, a.resources, a.devices, a.spec FROM answer AS a
		ORDER BY a.ordinality;
END
$$;
COMMENT ON FUNCTION rpq.sync_node(text, bigint[], jsonb, rpq.resources) IS
'what a program that runs pods on a node calls at short intervals. It counts as the node''s sign of life. running: ids '
'of the pods that it runs; finished: [{"pod": 17, "outcome": "succeeded" | "failed" | "stopped", "detail": "…", '
'"node_fault": false}]; capacity: what the machine has now (NULL: says nothing of it). A pod that was reported as '
'running and is in neither list is lost. The same report again changes nothing. Returns what to do: action stop (a pod '
'that has no place here, or is to be moved) or start, the pod, its workload and attempt, and to start its resources, '
'devices and spec, in which "checkpoint" is what report_checkpoint said last. Errors: 42704 unknown node, 22023 NULLs, '
'repeats, more than 100000 pods, another outcome or type, a pod in both lists, a negative capacity or a part of a '
'device, RQ009 fenced. Callers: executors of the tenant, organisation and platform administrators';
-- What executors reported, as a cycle takes it (src/store/reports.c).
--
-- Writes node (health), hold and preemption under the turns that the caller holds; workload (SKIP LOCKED) and entry;
-- clears node_fault in pod_report and deletes rows of pods that are gone (SKIP LOCKED).

-- Blamed by the executor of one of its pods, a node takes nothing new until an administrator has looked.
CREATE FUNCTION rpq_store.blame_nodes(workloads bigint[], pools bigint[]) RETURNS SETOF bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp SET rpq.action = 'sync_node'
AS $$
	WITH blame AS (
		SELECT r.pod_id, r.node_id, r.detail FROM rpq_store.pod_report AS r
		WHERE r.workload_id = ANY ($1) AND r.node_fault FOR UPDATE SKIP LOCKED),
	heard AS (
		UPDATE rpq_store.pod_report AS r SET node_fault = false FROM blame AS b WHERE r.pod_id = b.pod_id),
	why AS (
		SELECT DISTINCT ON (b.node_id) b.node_id, format('node fault at pod %s%s', b.pod_id, ': ' || b.detail) AS reason
		FROM blame AS b ORDER BY b.node_id, b.pod_id)
	UPDATE rpq_store.node AS n
	SET health = CASE WHEN n.silent THEN n.health ELSE 'degraded' END,
		health_reason = CASE WHEN n.silent THEN n.health_reason ELSE y.reason END,
		decided_health = CASE WHEN n.silent THEN 'degraded' END, decided_reason = CASE WHEN n.silent THEN y.reason END
	FROM why AS y
	WHERE n.node_id = y.node_id AND n.pool_id = ANY ($2) AND coalesce(n.decided_health, n.health) = 'healthy'
	RETURNING n.node_id
$$;
COMMENT ON FUNCTION rpq_store.blame_nodes(bigint[], bigint[]) IS
'nodes of these pools that executors blame for the end of a pod of these workloads turn degraded; returns them. The '
'caller holds the turns';

-- A move makes another attempt of the same stay on nodes, which the wish is still about.
CREATE FUNCTION rpq_store.wished_stop(workload_id bigint) RETURNS rpq_store.entry
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT e.* FROM rpq_store.entry AS e
	WHERE e.workload_id = $1 AND e.kind = 'report' AND e.status = 'stopped'
	  AND NOT EXISTS (SELECT FROM rpq_store.entry AS r
					  WHERE r.workload_id = $1 AND r.kind = 'release' AND r.attempt >= e.attempt)
	ORDER BY e.entry_id LIMIT 1
$$;
COMMENT ON FUNCTION rpq_store.wished_stop(bigint) IS
'the entry with which stop_placed asked for the end of the workload''s present stay, since its client kept the row '
'locked; NULL: there is none';

CREATE FUNCTION rpq_store.end_reported(workloads bigint[], at timestamptz) RETURNS SETOF rpq_store.entry
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH pod AS (
		SELECT w.workload_id, w.attempt, p.pod_id, n.name AS node, r.state, r.outcome, r.detail, r.at,
			r.state = 'gone' AND EXISTS (
				SELECT FROM rpq_store.pod_migration AS m
				WHERE m.workload_id = w.workload_id AND m.pod_id = p.pod_id AND m.status = 'evicting') AS moving,
			e.victim IS NOT NULL AS victim, coalesce(e.pending, false) AS pending
		FROM rpq_store.workload AS w
		JOIN rpq_store.pod AS p ON p.workload_id = w.workload_id AND p.attempt = w.attempt
		LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
		LEFT JOIN rpq_store.node AS n ON n.node_id = p.node_id
		LEFT JOIN (SELECT x.victim, x.victim_attempt, bool_or(x.state = 'pending') AS pending
				   FROM rpq_store.preemption AS x WHERE x.victim = ANY ($1) GROUP BY x.victim, x.victim_attempt) AS e
			ON e.victim = w.workload_id AND e.victim_attempt = w.attempt
		WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running')),
	broken AS (
		SELECT DISTINCT ON (p.workload_id) p.workload_id, p.attempt,
			CASE p.state WHEN 'lost' THEN 'lost' WHEN 'gone' THEN 'queued' ELSE p.outcome END AS ends,
			CASE p.state WHEN 'lost' THEN 'pod_lost'
						 WHEN 'gone' THEN CASE WHEN p.victim THEN 'preempted' ELSE 'evicted' END
						 ELSE p.outcome END AS cause,
			CASE p.state WHEN 'lost' THEN format('node "%s" no longer reports pod %s', p.node, p.pod_id)
						 ELSE p.detail END AS detail
		FROM pod AS p
		WHERE p.state = 'lost' OR (p.state = 'gone' AND NOT p.moving AND NOT p.pending)
		   OR (p.state = 'finished' AND p.outcome IN ('failed', 'stopped'))
		ORDER BY p.workload_id, p.at, p.outcome = 'failed' DESC NULLS LAST, p.pod_id),
	-- what stop_placed passed over since its client kept the row locked
	wished AS (
		SELECT w.workload_id, w.attempt, 'stopped' AS ends, e.cause, e.detail
		FROM rpq_store.workload AS w
		CROSS JOIN LATERAL rpq_store.wished_stop(w.workload_id) AS e
		WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running') AND e.entry_id IS NOT NULL
		  AND w.workload_id NOT IN (SELECT b.workload_id FROM broken AS b)
		ORDER BY w.workload_id, e.entry_id),
	verdict AS (
		SELECT b.* FROM broken AS b
		UNION ALL
		SELECT s.* FROM wished AS s
		UNION ALL
		SELECT p.workload_id, p.attempt, 'succeeded', 'succeeded', CASE WHEN count(*) = 1 THEN min(p.detail) END
		FROM pod AS p
		WHERE p.workload_id NOT IN (SELECT s.workload_id FROM wished AS s)
		GROUP BY p.workload_id, p.attempt
		HAVING bool_and(p.state = 'finished' AND p.outcome = 'succeeded') IS TRUE AND count(p.state) = count(*)),
	listed AS (
		SELECT array_agg(v.workload_id) AS workloads, array_agg(v.attempt) AS attempts, array_agg(v.ends) AS ends,
			array_agg(v.cause) AS causes, array_agg(v.detail) AS details
		FROM verdict AS v)
	SELECT e.* FROM listed AS l
	CROSS JOIN LATERAL rpq_store.end_attempts(l.workloads, l.attempts, l.ends, l.causes, l.details, 'system', $2) AS e
$$;
COMMENT ON FUNCTION rpq_store.end_reported(bigint[], timestamptz) IS
'ends the attempts of which executors reported the end: with the first pod that failed, was lost or stopped by itself, '
'or when all have succeeded; one that was told to stop for a move that was undone, or for a preemptor that gave up, '
'returns to the queue. A victim that has still to stop is left until all its pods have';

CREATE FUNCTION rpq_store.start_reported(workloads bigint[], at timestamptz) RETURNS SETOF rpq_store.entry
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	WITH whole AS (
		SELECT w.workload_id FROM rpq_store.workload AS w
		WHERE w.workload_id = ANY ($1) AND w.status = 'starting'
		  AND NOT EXISTS (
			SELECT FROM rpq_store.pod AS p
			LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
			WHERE p.workload_id = w.workload_id AND p.attempt = w.attempt
			  AND coalesce(r.state, 'started') NOT IN ('running', 'finished'))
		ORDER BY w.workload_id
		FOR UPDATE SKIP LOCKED),
	changed AS (
		UPDATE rpq_store.workload AS w SET status = 'running', running_at = greatest($2, w.started_at)
		FROM whole AS f WHERE w.workload_id = f.workload_id RETURNING w.*)
	INSERT INTO rpq_store.entry AS e (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id,
		lender_id, attempt, kind, status, actor)
	SELECT w.scope_id, w.running_at, w.workload_id, w.shape, w.account_id, w.policy_id, w.pool_id, w.type_id,
		w.lender_id, w.attempt, 'start', w.status, 'system'
	FROM changed AS w ORDER BY w.workload_id
	RETURNING e.*
$$;
COMMENT ON FUNCTION rpq_store.start_reported(bigint[], timestamptz) IS
'starting workloads all of whose pods were reported as running are running';

-- What is left for the next cycle: the row was locked, or a pod waits for its move to go on.
CREATE FUNCTION rpq_store.unsettled_reports(workloads bigint[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT w.workload_id
	FROM rpq_store.workload AS w
	JOIN rpq_store.pod AS p ON p.workload_id = w.workload_id AND p.attempt = w.attempt
	LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = p.pod_id
	CROSS JOIN LATERAL (
		SELECT EXISTS (SELECT FROM rpq_store.preemption AS e WHERE e.victim = w.workload_id
					   AND e.victim_attempt = w.attempt AND e.state = 'pending') AS pending) AS v
	WHERE w.workload_id = ANY ($1) AND w.status IN ('starting', 'running')
	GROUP BY w.workload_id, w.status
	HAVING bool_or(coalesce(r.state = 'lost' OR (r.state = 'gone' AND NOT v.pending)
			OR r.outcome IN ('failed', 'stopped') OR r.node_fault, false))
		OR bool_and(coalesce(r.outcome = 'succeeded', false))
		OR (w.status = 'starting' AND bool_and(coalesce(r.state IN ('running', 'finished'), false)))
		OR (rpq_store.wished_stop(w.workload_id)).entry_id IS NOT NULL
$$;
COMMENT ON FUNCTION rpq_store.unsettled_reports(bigint[]) IS
'those of these workloads that reports would have to change and have not: their row is locked by a client, or a pod '
'that stopped is about to be moved';

CREATE FUNCTION rpq_store.drop_reports(workloads bigint[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.pod_report WHERE pod_id IN (
		SELECT r.pod_id FROM rpq_store.pod_report AS r
		WHERE r.workload_id = ANY ($1)
		  AND (r.state IN ('finished', 'lost', 'gone')
			OR NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = r.node_id))
		  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.pod_id = r.pod_id)
		FOR UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION rpq_store.drop_reports(bigint[]) IS
'forgets what was reported of pods of these workloads that are gone and that no executor has any more';

CREATE FUNCTION rpq_store.settle_reports(workloads bigint[], pools bigint[], at timestamptz)
RETURNS SETOF rpq_store.entry
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	done rpq_store.entry;
BEGIN
	FOR done.workload_id IN
		SELECT b FROM rpq_store.blame_nodes(settle_reports.workloads, settle_reports.pools) AS b
	LOOP
		done.kind := 'degraded';
		RETURN NEXT done;
	END LOOP;
	RETURN QUERY
		WITH ended AS MATERIALIZED (
			SELECT * FROM rpq_store.end_reported(settle_reports.workloads, settle_reports.at)),
		-- it stopped for a preemptor that had given up by then
		stopped AS (
			UPDATE rpq_store.preemption AS p SET state = 'stopped'
			WHERE p.preemption_id IN (
				SELECT max(x.preemption_id) FROM ended AS e
				JOIN rpq_store.preemption AS x ON x.victim = e.workload_id AND x.victim_attempt = e.attempt
				WHERE e.cause = 'preempted' AND x.state = 'given_up' GROUP BY x.victim))
		SELECT * FROM ended;
	RETURN QUERY SELECT * FROM rpq_store.start_reported(settle_reports.workloads, settle_reports.at);
	FOR done.scope_id IN
		WITH over AS (
			DELETE FROM rpq_store.hold AS h
			WHERE h.workload_id = ANY (settle_reports.workloads) AND h.purpose = 'stopping'
			  AND h.scope_id = ANY (settle_reports.pools)
			  AND NOT EXISTS (SELECT FROM rpq_store.pod_report AS r
							  WHERE r.pod_id = h.pod_id AND r.state IN ('started', 'running'))
			RETURNING h.scope_id)
		SELECT DISTINCT o.scope_id FROM over AS o
	LOOP
		done.kind := 'hold';
		RETURN NEXT done;
	END LOOP;
	-- A node may have changed hands since its executor reported to the scope that is settled here: the room that it
	-- keeps is ended by the pool that has it now.
	INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind, actor)
	SELECT DISTINCT h.scope_id, settle_reports.at, h.workload_id, h.attempt, 'report', 'system'
	FROM rpq_store.hold AS h
	WHERE h.workload_id = ANY (settle_reports.workloads) AND h.purpose = 'stopping'
	  AND h.scope_id <> ALL (settle_reports.pools)
	  AND NOT EXISTS (SELECT FROM rpq_store.pod_report AS r
					  WHERE r.pod_id = h.pod_id AND r.state IN ('started', 'running'));
	FOR done.workload_id IN SELECT u FROM rpq_store.unsettled_reports(settle_reports.workloads) AS u LOOP
		done.kind := 'report';
		RETURN NEXT done;
	END LOOP;
	PERFORM rpq_store.drop_reports(settle_reports.workloads);
END
$$;
COMMENT ON FUNCTION rpq_store.settle_reports(bigint[], bigint[], timestamptz) IS
'what executors reported of these workloads takes effect. Returns the entries written, and rows without entry_id: kind '
'degraded, a node (workload_id) that takes nothing new from now on; hold, a pool (scope_id) in which room became free; '
'report, a workload that the next cycle has to look at again. The caller holds the turns of the pools';
-- What pools.sql and resize.sql check before a pool is made or changed.  Writes nothing.

CREATE FUNCTION rpq_store.pool_settings(pool_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT to_jsonb(p) - '{pool_id,tenant_id,cluster_id,project_group_id,status,created_at,deleted_at}'::text[]
		|| jsonb_build_object('cluster', c.name, 'project_group', g.name,
			'instance_types', coalesce((
				SELECT jsonb_object_agg(t.name, jsonb_build_object('scheduling_policy', i.scheduling_policy,
					'user_default_quota', i.user_default_quota::text))
				FROM rpq_store.pool_instance AS i
				JOIN rpq_store.instance_type AS t ON t.type_id = i.type_id
				WHERE i.pool_id = p.pool_id), '{}'))
	FROM rpq_store.pool AS p
	JOIN rpq_store.cluster AS c ON c.cluster_id = p.cluster_id
	LEFT JOIN rpq_store.project_group AS g ON g.project_group_id = p.project_group_id
	WHERE p.pool_id = $1
$$;
COMMENT ON FUNCTION rpq_store.pool_settings(bigint) IS
'a pool''s settings as the history shows them';

CREATE FUNCTION rpq_store.find_project_group(tenant_id bigint, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	found_id bigint;
BEGIN
	SELECT g.project_group_id INTO found_id FROM rpq_store.project_group AS g
	WHERE g.tenant_id = find_project_group.tenant_id AND g.name = btrim(find_project_group.name);
	IF NOT FOUND AND find_project_group.name IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704',
			MESSAGE = format('project group "%s" does not exist', find_project_group.name);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.find_project_group(bigint, text) IS
'the id of a tenant''s project group; NULL for NULL, 42704 for an unknown name';

CREATE FUNCTION rpq_store.check_workload_types(tenant_id bigint, types text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	checked text[];
	unknown text;
BEGIN
	IF check_workload_types.types IS NULL THEN
		RETURN NULL;
	END IF;
	checked := rpq_store.check_names('workload type', check_workload_types.types);
	SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.name) INTO unknown
	FROM unnest(checked) AS u (name)
	WHERE NOT EXISTS (SELECT FROM rpq_store.workload_type AS w
					  WHERE w.tenant_id = check_workload_types.tenant_id AND w.name = u.name);
	IF unknown IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('workload type %s does not exist', unknown);
	END IF;
	RETURN checked;
END
$$;
COMMENT ON FUNCTION rpq_store.check_workload_types(bigint, text[]) IS
'the workload types, each known to the tenant (42704 lists the others), repeats left out; NULL stays NULL';

CREATE FUNCTION rpq_store.check_scheduling_policy(policy text, type text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_scheduling_policy.policy NOT IN ('binpack', 'spread', 'least_fragmentation') THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = 'scheduling_policy must be binpack, spread or least_fragmentation';
	ELSIF check_scheduling_policy.policy = 'spread' AND check_scheduling_policy.type <> 'exclusive' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'scheduling_policy spread is for exclusive pools',
			DETAIL = format('The pool is %s.', check_scheduling_policy.type);
	ELSIF check_scheduling_policy.policy = 'least_fragmentation' THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'scheduling_policy least_fragmentation is not supported';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_scheduling_policy(text, text) IS
'refuses a scheduling policy that a pool of this type cannot have (22023, 0A000); NULL is none';

-- The settings of a pool as they would be, at creation and after an edit alike.
CREATE FUNCTION rpq_store.check_pool_settings(subject rpq_store.pool) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	wrong := CASE
		WHEN subject.default_priority NOT BETWEEN 0 AND 100 THEN 'default_priority must be between 0 and 100'
		WHEN subject.queueing NOT IN ('backfill', 'best_effort') THEN 'queueing must be backfill or best_effort'
		WHEN length(subject.description) > 10000 THEN 'description must have at most 10000 characters'
		WHEN subject.min_runtime < interval '0' THEN 'min_runtime must not be negative'
		WHEN subject.min_runtime > interval '1000 years' THEN 'min_runtime must be at most 1000 years'
		WHEN subject.faulty_node_rotation AND subject.type <> 'exclusive' THEN
			'faulty_node_rotation is for exclusive pools'
		WHEN subject.idle_time_sharing AND subject.type <> 'exclusive' THEN 'idle_time_sharing is for exclusive pools'
		WHEN subject.isolate_accounts AND subject.type <> 'exclusive' THEN 'isolate_accounts is for exclusive pools'
		END;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = wrong;
	END IF;
	PERFORM rpq_store.check_scheduling_policy(subject.scheduling_policy, subject.type);
	PERFORM rpq_store.check_quota('user_default_quota', subject.user_default_quota);
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_settings(rpq_store.pool) IS
'refuses (22023, 0A000) settings that a pool of the row''s type cannot have';

-- What a new pool is made from.  Each of these may follow from another; those that are given must agree.
CREATE FUNCTION rpq_store.locate_pool(owner_id bigint, instance_type text, nodes text[], source text,
	cluster text,
	INOUT kind text, OUT cluster_id bigint, OUT type_id bigint, OUT source_id bigint, OUT node_ids bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	from_pool rpq_store.pool;
	kinds text[] := ARRAY[locate_pool.kind];
	clusters bigint[] := ARRAY[]::bigint[];
	wanted text[];
	unknown text;
BEGIN
	IF locate_pool.instance_type IS NOT NULL THEN
		locate_pool.type_id := rpq_store.find_type(locate_pool.instance_type);
		kinds := kinds || (SELECT t.kind FROM rpq_store.instance_type AS t WHERE t.type_id = locate_pool.type_id);
	END IF;
	IF locate_pool.cluster IS NOT NULL THEN
		clusters := clusters || rpq_store.find_cluster(locate_pool.cluster);
	END IF;
	IF locate_pool.source IS NOT NULL THEN
		locate_pool.source_id := rpq_store.find_pool(rpq_store.in_tenant(owner_id, locate_pool.source));
		SELECT * INTO from_pool FROM rpq_store.pool AS p WHERE p.pool_id = locate_pool.source_id;
		IF from_pool.tenant_id <> owner_id THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the source belongs to another tenant';
		END IF;
		kinds := kinds || from_pool.kind;
		clusters := clusters || from_pool.cluster_id;
	END IF;
	IF locate_pool.nodes IS NOT NULL THEN
		wanted := rpq_store.check_names('node', locate_pool.nodes);
		SELECT array_agg(n.node_id ORDER BY w.place), kinds || array_agg(DISTINCT t.kind),
			clusters || array_agg(DISTINCT n.cluster_id),
			string_agg(format('"%s"', w.name), ', ' ORDER BY w.place) FILTER (WHERE n.node_id IS NULL)
		INTO locate_pool.node_ids, kinds, clusters, unknown
		FROM unnest(wanted) WITH ORDINALITY AS w (name, place)
		LEFT JOIN rpq_store.node AS n ON n.tenant_id = owner_id AND n.name = w.name
		LEFT JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id;
		IF unknown IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('node %s does not exist', unknown);
		END IF;
	END IF;
	SELECT array_agg(DISTINCT k) INTO kinds FROM unnest(kinds) AS k WHERE k IS NOT NULL;
	SELECT array_agg(DISTINCT c) INTO clusters FROM unnest(clusters) AS c;
	IF cardinality(kinds) > 1 OR NOT kinds <@ '{gpu,cpu}' THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = 'kind, instance type, source and nodes must be of one kind, gpu or cpu',
			DETAIL = format('They are %s.', array_to_string(kinds, ', '));
	ELSIF cardinality(clusters) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'cluster, source and nodes must be of one cluster';
	END IF;
	locate_pool.kind := coalesce(kinds[1], 'gpu');
	locate_pool.cluster_id := coalesce(clusters[1], rpq_store.find_cluster(NULL));
	IF locate_pool.source_id IS NULL THEN
		SELECT p.pool_id INTO locate_pool.source_id FROM rpq_store.pool AS p
		WHERE p.tenant_id = owner_id AND p.cluster_id = locate_pool.cluster_id AND p.kind = locate_pool.kind
		  AND p.type = 'shared';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.locate_pool(bigint, text, text[], text, text, text) IS
'kind, cluster, instance type, source pool and nodes of a pool to be created, from what of them is given: kind of '
'the others, else gpu; cluster of the others, else the only one; source: the shared pool, NULL where there is '
'none. 42704 for what does not exist, 22023 where they do not agree';

CREATE FUNCTION rpq_store.check_pool_quota(kind text, quota rpq.resources, named boolean, source_id bigint,
	INOUT type_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	types bigint[];
	kind_of rpq_store.instance_type;
	main_key text;
BEGIN
	IF check_pool_quota.quota IS NULL THEN
		RETURN;
	ELSIF check_pool_quota.named THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'either quota or nodes may be given, not both';
	END IF;
	IF check_pool_quota.type_id IS NULL THEN
		SELECT array_agg(DISTINCT n.type_id) INTO types FROM rpq_store.node AS n
		WHERE n.pool_id = check_pool_quota.source_id;
		IF types IS NULL THEN
			SELECT array_agg(t.type_id) INTO types FROM rpq_store.instance_type AS t
			WHERE t.kind = check_pool_quota.kind;
		END IF;
		IF cardinality(types) IS DISTINCT FROM 1 THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'instance_type must be given',
				DETAIL = format('There are %s to choose from.', coalesce(cardinality(types), 0));
		END IF;
		check_pool_quota.type_id := types[1];
	END IF;
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = check_pool_quota.type_id;
	main_key := rpq_store.primary_resource(kind_of.machine_unit);
	IF ARRAY(SELECT jsonb_object_keys(CAST(check_pool_quota.quota AS jsonb))) <> ARRAY[main_key] THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('quota must name %s alone', main_key),
			DETAIL = format('It is "%s"; everything else follows from the machines.', check_pool_quota.quota);
	END IF;
	PERFORM rpq_store.check_quota('quota', check_pool_quota.quota);
	IF rpq_store.machines(check_pool_quota.quota, kind_of.machine_unit) IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'quota is no whole number of machines',
			DETAIL = format('It is %s, the machine unit of instance type "%s" is %s.', check_pool_quota.quota,
				kind_of.name, kind_of.machine_unit);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_quota(text, rpq.resources, boolean, bigint, bigint) IS
'refuses the quota of a new pool that is not in the primary resource alone or negative (22023) or no whole number '
'of machines (RQ003); finds the instance type where it is not given';
-- Which nodes change hands: those named, or idle ones for an amount.  Writes nothing.  The caller holds the turn of the
-- pool that the nodes are in and has folded, so that node_load is exact; no pod is read but to say what is in the way.
--
-- A pool that *receives* nodes takes only such as take work (healthy, not cordoned) and are whole machines where it is
-- dedicated or exclusive; one that gives them away gives any, the unhealthy and cordoned first.  A node that is
-- draining or about to be removed is another operation's, and never changes hands.

CREATE FUNCTION rpq_store.describe_busy(nodes bigint[], named boolean) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('%s (%s)', n.name, CASE WHEN $2 THEN w.what ELSE rpq_store.node_busy(n.node_id) END), ', '
			ORDER BY n.place)
		|| CASE WHEN count(*) < max(n.busy) THEN format(' and %s more', max(n.busy) - count(*)) ELSE '' END
	FROM (SELECT b.node_id, b.name, row_number() OVER (ORDER BY b.name) AS place, count(*) OVER () AS busy
		  FROM rpq_store.node AS b WHERE b.node_id = ANY ($1) ORDER BY b.name LIMIT 20) AS n
	CROSS JOIN LATERAL (
		SELECT concat_ws(', ', string_agg(o.pod, ', ' ORDER BY o.place) FILTER (WHERE o.place <= 5),
			CASE WHEN count(o.pod) > 5 THEN format('%s more pods', count(o.pod) - 5) END,
			(SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN '1 hold' ELSE count(*) || ' holds' END
			 FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)) AS what
		FROM (SELECT concat_ws(' ', 'workload', w.workload_id, '"' || w.name || '"',
					nullif(w.resources::text, '')) AS pod,
				row_number() OVER (ORDER BY p.pod_id) AS place
			  FROM rpq_store.pod AS p JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
			  WHERE p.node_id = n.node_id) AS o) AS w
$$;
COMMENT ON FUNCTION rpq_store.describe_busy(bigint[], boolean) IS
'nodes and what stands on them, for an errdetail, at most 20: named says workloads, else their number alone, '
'which is for those who may not see them';

CREATE FUNCTION rpq_store.node_candidates(pool_id bigint, type_id bigint, receiving boolean,
	idle_only boolean DEFAULT false)
RETURNS TABLE (node_id bigint, name text, amount numeric, whole boolean, idle boolean, takes_work boolean,
	used numeric, pods int)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	unit rpq.resources := (SELECT t.machine_unit FROM rpq_store.instance_type AS t
						   WHERE t.type_id = node_candidates.type_id);
	main_key text := rpq_store.primary_resource(unit);
	unit_amount numeric := unit OPERATOR(rpq.->) main_key;
BEGIN
	-- what borrows there is preempted when the node goes, so that it is in nobody's way
	RETURN QUERY
	SELECT n.node_id, n.name, n.capacity OPERATOR(rpq.->) main_key,
		mod(n.capacity OPERATOR(rpq.->) main_key, unit_amount) = 0,
		l.pods = coalesce(b.pods, 0) AND h.node_id IS NULL,
		n.schedulable AND n.health = 'healthy', coalesce(l.used OPERATOR(rpq.->) main_key, 0), l.pods
	FROM rpq_store.node AS n
	JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
	LEFT JOIN (SELECT DISTINCT o.node_id FROM rpq_store.hold AS o) AS h ON h.node_id = n.node_id
	LEFT JOIN (SELECT k.node_id, count(*) AS pods FROM rpq_store.borrowed_pod AS k
			   WHERE k.lender_id = node_candidates.pool_id GROUP BY k.node_id) AS b ON b.node_id = n.node_id
	WHERE n.pool_id = node_candidates.pool_id AND n.type_id = node_candidates.type_id
	  AND NOT n.draining AND NOT n.removing
	  AND (NOT node_candidates.receiving OR (n.schedulable AND n.health = 'healthy'))
	  AND (NOT node_candidates.idle_only OR (l.pods = coalesce(b.pods, 0) AND h.node_id IS NULL));
END
$$;
COMMENT ON FUNCTION rpq_store.node_candidates(bigint, bigint, boolean, boolean) IS
'the nodes of one type that a pool could give: amount of the primary resource, whether whole machines, whether '
'nothing but what borrows stands on it, what is used. receiving: for a pool that takes only nodes that take work';

-- Greedy, in the order of preference; when the amounts do not come out (nodes of one type may differ), the largest
-- first.
CREATE FUNCTION rpq_store.choose_nodes(pool_id bigint, type_id bigint, wanted numeric, by_count boolean,
	receiving boolean, whole boolean, evacuate boolean, excluded bigint[], OUT picked bigint[], OUT busy bigint[],
	OUT idle_amount numeric, OUT taken numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	passes boolean[] := CASE WHEN choose_nodes.evacuate THEN ARRAY[false, true] ELSE ARRAY[false] END;
	largest_first boolean;
	with_busy boolean;
	node record;
BEGIN
	FOREACH with_busy IN ARRAY passes LOOP
		FOREACH largest_first IN ARRAY '{false,true}'::boolean[] LOOP
			choose_nodes.picked := '{}';
			choose_nodes.busy := '{}';
			choose_nodes.taken := 0;
			CONTINUE WHEN choose_nodes.wanted = 0 AND largest_first;
			FOR node IN
				SELECT c.node_id, c.idle, CASE WHEN choose_nodes.by_count THEN 1 ELSE c.amount END AS amount
				FROM rpq_store.node_candidates(choose_nodes.pool_id, choose_nodes.type_id, choose_nodes.receiving,
					NOT with_busy) AS c
				WHERE (c.whole OR NOT choose_nodes.whole)
				  AND c.node_id <> ALL (choose_nodes.excluded)
				ORDER BY c.idle DESC, CASE WHEN largest_first THEN -c.amount END, c.idle AND c.takes_work, c.used,
					c.pods, CASE WHEN c.idle THEN c.name END COLLATE "C", c.name COLLATE "C" DESC
			LOOP
				EXIT WHEN choose_nodes.taken = choose_nodes.wanted;
				CONTINUE WHEN choose_nodes.taken + node.amount > choose_nodes.wanted;
				choose_nodes.picked := choose_nodes.picked || node.node_id;
				choose_nodes.taken := choose_nodes.taken + node.amount;
				IF NOT node.idle THEN
					choose_nodes.busy := choose_nodes.busy || node.node_id;
				END IF;
			END LOOP;
			choose_nodes.idle_amount := coalesce(choose_nodes.idle_amount, choose_nodes.taken);
			IF choose_nodes.taken = choose_nodes.wanted THEN
				RETURN;
			END IF;
		END LOOP;
	END LOOP;
	choose_nodes.picked := NULL;
END
$$;
COMMENT ON FUNCTION rpq_store.choose_nodes(bigint, bigint, numeric, boolean, boolean, boolean, boolean, bigint[]) IS
'nodes of a pool whose amounts of the primary resource, or whose number, sum exactly to what is wanted: idle ones '
'first, then with evacuate the least used. picked: NULL when they do not; busy: those of them that hold '
'something; idle_amount: what idle ones came to; excluded: nodes that stay; whole: whole machines alone';

-- A node whose pods have no place elsewhere stays, and the next one takes its turn; the room that all picked nodes ask
-- for at once is counted down by the planner.  Each try is a plan under the turn, so there are few: none after two in
-- which no picked node could be emptied.
CREATE FUNCTION rpq_store.pick_amount(pool_id bigint, type_id bigint, wanted numeric, by_count boolean,
	receiving boolean, whole boolean, evacuate boolean, OUT picked bigint[], OUT busy bigint[], OUT idle_amount numeric,
	OUT unplaced bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	choice record;
	excluded bigint[] := ARRAY[]::bigint[];
	stuck bigint[];
	futile int := 0;
BEGIN
	FOR i IN 1 .. 5 LOOP
		choice := rpq_store.choose_nodes(pick_amount.pool_id, pick_amount.type_id, pick_amount.wanted,
			pick_amount.by_count, pick_amount.receiving, pick_amount.whole, pick_amount.evacuate, excluded);
		pick_amount.idle_amount := coalesce(pick_amount.idle_amount, choice.idle_amount);
		pick_amount.picked := choice.picked;
		pick_amount.busy := choice.busy;
		stuck := NULL;
		IF choice.picked IS NOT NULL AND choice.busy <> '{}' THEN
			SELECT array_agg(DISTINCT m.from_node_id) INTO stuck
			FROM rpq_store.plan_moves(pick_amount.pool_id, choice.picked) AS m WHERE m.to_node_id IS NULL;
		END IF;
		EXIT WHEN stuck IS NULL;
		pick_amount.unplaced := coalesce(pick_amount.unplaced, choice.picked);
		pick_amount.picked := NULL;
		futile := CASE WHEN stuck @> choice.busy THEN futile + 1 ELSE 0 END;
		EXIT WHEN futile = 2;
		excluded := excluded || stuck;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.pick_amount(bigint, bigint, numeric, boolean, boolean, boolean, boolean) IS
'what choose_nodes chooses, but with evacuate only nodes whose pods have a place elsewhere in the pool. picked: '
'NULL when there are too few; unplaced: a choice that would have done but for its pods';

CREATE FUNCTION rpq_store.refuse_source(source_id bigint, type_id bigint, wanted text, has text,
	hint text DEFAULT 'Ask for less, add nodes, or name another source.') RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'RQ005', MESSAGE = 'the source has too few whole nodes available',
		DETAIL = format('%s of instance type "%s" %s wanted; %s has %s.', refuse_source.wanted,
			(SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = refuse_source.type_id),
			CASE WHEN starts_with(refuse_source.wanted, '1 ') THEN 'is' ELSE 'are' END,
			coalesce((SELECT format('pool "%s"', p.name) FROM rpq_store.pool AS p
				WHERE p.pool_id = refuse_source.source_id), 'no shared pool'), refuse_source.has),
		HINT = refuse_source.hint;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_source(bigint, bigint, text, text, text) IS
'raises RQ005 with what is wanted and what the source has';

CREATE FUNCTION rpq_store.pick_by_quota(source_id bigint, type_id bigint, quota rpq.resources)
RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	main_key text := rpq_store.primary_resource((SELECT t.machine_unit FROM rpq_store.instance_type AS t
												 WHERE t.type_id = pick_by_quota.type_id));
	choice record;
BEGIN
	choice := rpq_store.pick_amount(pick_by_quota.source_id, pick_by_quota.type_id,
		pick_by_quota.quota OPERATOR(rpq.->) main_key, false, true, true, false);
	IF choice.picked IS NULL THEN
		PERFORM rpq_store.refuse_source(pick_by_quota.source_id, pick_by_quota.type_id, pick_by_quota.quota::text,
			'idle nodes for ' || main_key || '=' || choice.idle_amount);
	END IF;
	RETURN choice.picked;
END
$$;
COMMENT ON FUNCTION rpq_store.pick_by_quota(bigint, bigint, rpq.resources) IS
'idle nodes of the type in the source whose primary resource sums exactly to the quota; RQ005 when there are too '
'few. The caller holds the source''s turn and has folded';

-- A caller sees the nodes that it names.  Where they went until the operation ran is read by whoever reads its error.
CREATE FUNCTION rpq_store.whereabouts(place rpq_store.pool) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN ($1).type = 'shared' OR current_setting('rpq.action') IS DISTINCT FROM 'run_operations'
		THEN format('in pool "%s"', ($1).name) ELSE 'in another pool' END
$$;
COMMENT ON FUNCTION rpq_store.whereabouts(rpq_store.pool) IS
'where a node is, for an errdetail; a pool that may be hidden from who reads the operation''s error is not named';

CREATE FUNCTION rpq_store.check_named_nodes(source_id bigint, nodes bigint[], receiving boolean DEFAULT true,
	whole boolean DEFAULT true, evacuate boolean DEFAULT false, named boolean DEFAULT false, OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	partial text;
	away text;
	gone boolean;
BEGIN
	SELECT string_agg(format('%s (%s)', n.name, n.capacity), ', ' ORDER BY n.name)
			FILTER (WHERE check_named_nodes.whole AND rpq_store.machines(n.capacity, t.machine_unit) IS NULL),
		array_agg(n.node_id ORDER BY n.name)
			FILTER (WHERE l.pods > (SELECT count(*) FROM rpq_store.borrowed_pod AS b WHERE b.node_id = n.node_id)
				OR EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)),
		string_agg(format('%s (%s)', n.name, CASE WHEN n.pool_id IS DISTINCT FROM check_named_nodes.source_id
				THEN rpq_store.whereabouts(p) WHEN n.draining OR n.removing THEN 'draining'
				ELSE 'takes no work' END), ', ' ORDER BY n.name)
			FILTER (WHERE n.pool_id IS DISTINCT FROM check_named_nodes.source_id OR n.draining OR n.removing
				OR (check_named_nodes.receiving AND NOT (n.schedulable AND n.health = 'healthy'))),
		count(*) < cardinality(check_named_nodes.nodes)
	INTO partial, check_named_nodes.busy, away, gone
	FROM rpq_store.node AS n
	JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
	JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	WHERE n.node_id = ANY (check_named_nodes.nodes);
	IF partial IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'nodes are no whole number of machine units',
			DETAIL = partial;
	ELSIF check_named_nodes.busy IS NOT NULL AND NOT check_named_nodes.evacuate THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are in use',
			DETAIL = rpq_store.describe_busy(check_named_nodes.busy, check_named_nodes.named);
	ELSIF away IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ005', MESSAGE = 'nodes are not available in the source', DETAIL = away;
	ELSIF gone THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ005', MESSAGE = 'nodes are not available in the source',
			DETAIL = 'Nodes that were named have been removed.';
	END IF;
	check_named_nodes.busy := coalesce(check_named_nodes.busy, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.check_named_nodes(bigint, bigint[], boolean, boolean, boolean, boolean) IS
'refuses nodes that are no whole machines (RQ003, with whole), hold something (RQ006, without evacuate), or are '
'not in the source, draining, or, for a pool that is receiving them, take no work (RQ005); returns those that '
'hold something. named: the errdetail may name workloads';
-- Pools: creating, editing, and which of them may be chosen.
--
-- Writes pool, pool_instance and, through an operation, the pool of nodes; under the turns of the pools concerned.

-- The refusals come in the order of the contract: what exists, status, arguments and whole machines, usage, source.
CREATE FUNCTION rpq.create_pool(name text, type text, instance_type text DEFAULT NULL,
	quota rpq.resources DEFAULT NULL, nodes text[] DEFAULT NULL, source text DEFAULT NULL, cluster text DEFAULT NULL,
	kind text DEFAULT NULL, user_default_quota rpq.resources DEFAULT NULL, default_priority int DEFAULT NULL,
	project_group text DEFAULT NULL, workload_types text[] DEFAULT NULL, scheduling_policy text DEFAULT NULL,
	queueing text DEFAULT NULL, description text DEFAULT NULL, faulty_node_rotation boolean DEFAULT NULL,
	idle_time_sharing boolean DEFAULT NULL, allow_guarantee boolean DEFAULT NULL, frozen boolean DEFAULT NULL,
	pay_as_you_go boolean DEFAULT NULL, tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_pool'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	place record;
	type_of bigint;
	held bigint[];
BEGIN
	subject.tenant_id := rpq_store.authorize('create_pool', create_pool.tenant);
	SELECT * INTO place FROM rpq_store.locate_pool(subject.tenant_id, create_pool.instance_type, create_pool.nodes,
		create_pool.source, create_pool.cluster, create_pool.kind);
	subject.project_group_id := rpq_store.find_project_group(subject.tenant_id, create_pool.project_group);
	subject.workload_types := rpq_store.check_workload_types(subject.tenant_id, create_pool.workload_types);
	held := rpq_store.check_source(place.source_id);

	subject.cluster_id := place.cluster_id;
	subject.kind := place.kind;
	subject.name := rpq_store.check_name('pool', create_pool.name);
	IF create_pool.type IS NULL OR create_pool.type NOT IN ('dedicated', 'exclusive') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'type must be dedicated or exclusive',
			HINT = 'A shared pool comes into being with its first node.';
	END IF;
	subject.type := create_pool.type;
	subject.status := 'creating';
	subject.description := create_pool.description;
	subject.default_priority := coalesce(create_pool.default_priority, 50);
	subject.user_default_quota := create_pool.user_default_quota;
	subject.scheduling_policy := coalesce(create_pool.scheduling_policy, 'binpack');
	subject.queueing := coalesce(create_pool.queueing, 'backfill');
	subject.frozen := coalesce(create_pool.frozen, false);
	subject.allow_guarantee := coalesce(create_pool.allow_guarantee, true);
	subject.pay_as_you_go := coalesce(create_pool.pay_as_you_go, false);
	subject.faulty_node_rotation := coalesce(create_pool.faulty_node_rotation, false);
	subject.idle_time_sharing := coalesce(create_pool.idle_time_sharing, false);
	subject.created_at := rpq.now();
	PERFORM rpq_store.check_pool_settings(subject);
	type_of := rpq_store.check_pool_quota(subject.kind, create_pool.quota, create_pool.nodes IS NOT NULL,
		place.source_id, place.type_id);
	PERFORM rpq_store.check_pool_nodes(type_of, place.node_ids);
	subject.pool_id := rpq_store.insert_pool(subject, type_of);
	PERFORM rpq_store.check_nodes_leave(
		rpq_store.pick_nodes(place.source_id, type_of, create_pool.quota, place.node_ids));
	RETURN rpq_store.open_operation('create', 'create_pool', subject.pool_id, subject.pool_id || held,
		jsonb_strip_nulls(jsonb_build_object('name', subject.name, 'type', subject.type, 'kind', subject.kind,
			'instance_type', (SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = type_of),
			'type_id', type_of, 'quota', create_pool.quota::text, 'nodes', to_jsonb(create_pool.nodes),
			'node_ids', to_jsonb(place.node_ids),
			'source', (SELECT p.name FROM rpq_store.pool AS p WHERE p.pool_id = place.source_id),
			'source_id', place.source_id)));
END
$$;
COMMENT ON FUNCTION rpq.create_pool(text, text, text, rpq.resources, text[], text, text, text, rpq.resources, int,
	text, text[], text, text, text, boolean, boolean, boolean, boolean, boolean, text) IS
'asks for a new dedicated or exclusive pool and returns the id of the operation that makes it. quota: whole '
'machines in the primary resource alone (gpu=64), taken from the idle nodes of the instance type in the source, '
'by name; or nodes: these; neither: an empty pool. source: a pool of the same cluster and kind, default the '
'shared one. cluster: default that of source and nodes, else the only one; kind: gpu or cpu, default that of '
'instance type, nodes or source, else gpu; instance_type: default the only one. user_default_quota: of members in '
'mode default; NULL is no limit. default_priority: 0 to 100, default 50. workload_types: NULL is all. '
'scheduling_policy: binpack (default), spread in exclusive pools. queueing: backfill (default) or best_effort. '
'faulty_node_rotation, idle_time_sharing: exclusive pools. allow_guarantee: default on. pay_as_you_go: every '
'workload is non-preemptible. Errors: 42704 unknown object, RQ004 the source has an open operation or is not '
'ready, 22023 bad argument, RQ003 no whole number of machines, 42710 name taken, RQ006 a named node holds pods, '
'RQ005 too few idle nodes in the source, RQ002 reservations of policies could not be served by what it would '
'have left, 0A000 least_fragmentation, RQ009 fenced. Platform and organisation '
'administrators';

CREATE FUNCTION rpq_store.check_source(source_id bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source rpq_store.pool;
BEGIN
	IF check_source.source_id IS NULL THEN
		RETURN ARRAY[]::bigint[];
	END IF;
	PERFORM rpq_store.take_turns(ARRAY[check_source.source_id]);
	PERFORM rpq_store.fold(ARRAY[check_source.source_id]);
	SELECT * INTO source FROM rpq_store.pool AS p WHERE p.pool_id = check_source.source_id;
	PERFORM rpq_store.check_pool_status(source);
	IF source.type = 'shared' THEN
		RETURN ARRAY[]::bigint[];
	END IF;
	PERFORM rpq_store.check_free(ARRAY[source.pool_id]);
	RETURN ARRAY[source.pool_id];
END
$$;
COMMENT ON FUNCTION rpq_store.check_source(bigint) IS
'takes the turn of the pool that nodes are to come from, folds it, and returns it when the operation has to hold '
'it (a shared pool never is); RQ004 when its status or an open operation forbids it';

CREATE FUNCTION rpq_store.check_pool_nodes(type_id bigint, nodes bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other text;
BEGIN
	SELECT string_agg(n.name, ', ' ORDER BY n.name) INTO other FROM rpq_store.node AS n
	WHERE n.node_id = ANY (check_pool_nodes.nodes) AND n.type_id <> check_pool_nodes.type_id;
	IF other IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nodes are of another instance type', DETAIL = other;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_nodes(bigint, bigint[]) IS
'refuses (22023) nodes that are not of the instance type, where one is given';

CREATE FUNCTION rpq_store.insert_pool(subject rpq_store.pool, type_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	made bigint;
BEGIN
	INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name, status, description, project_group_id,
		workload_types, default_priority, user_default_quota, scheduling_policy, queueing, frozen, allow_guarantee,
		pay_as_you_go, faulty_node_rotation, idle_time_sharing, created_at)
	VALUES (subject.tenant_id, subject.cluster_id, subject.kind, subject.type, subject.name, subject.status,
		subject.description, subject.project_group_id, subject.workload_types, subject.default_priority,
		subject.user_default_quota, subject.scheduling_policy, subject.queueing, subject.frozen,
			subject.allow_guarantee,
		subject.pay_as_you_go, subject.faulty_node_rotation, subject.idle_time_sharing, subject.created_at)
	ON CONFLICT DO NOTHING
	RETURNING pool_id INTO made;
	IF made IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('pool "%s" already exists', subject.name);
	END IF;
	PERFORM rpq_store.new_scope(made);
	IF insert_pool.type_id IS NOT NULL THEN
		INSERT INTO rpq_store.pool_instance (pool_id, type_id) VALUES (made, insert_pool.type_id);
	END IF;
	RETURN made;
END
$$;
COMMENT ON FUNCTION rpq_store.insert_pool(rpq_store.pool, bigint) IS
'makes the row, the turn and the first pool_instance of a pool; 42710 when its name is taken, also in a race';

CREATE FUNCTION rpq_store.pick_nodes(source_id bigint, type_id bigint, quota rpq.resources, nodes bigint[])
RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF pick_nodes.nodes IS NOT NULL THEN
		PERFORM rpq_store.check_named_nodes(pick_nodes.source_id, pick_nodes.nodes);
		RETURN pick_nodes.nodes;
	ELSIF pick_nodes.quota IS NULL THEN
		RETURN ARRAY[]::bigint[];
	END IF;
	RETURN rpq_store.pick_by_quota(pick_nodes.source_id, pick_nodes.type_id, pick_nodes.quota);
END
$$;
COMMENT ON FUNCTION rpq_store.pick_nodes(bigint, bigint, rpq.resources, bigint[]) IS
'the nodes that go from the source into a pool: those named, or idle ones for a quota; RQ003, RQ006, RQ005 when '
'they cannot. The caller holds the source''s turn and has folded';

CREATE FUNCTION rpq_store.op_create(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source bigint := (subject.arguments->>'source_id')::bigint;
	picked bigint[];
	names text[];
	source_pool rpq_store.pool;
BEGIN
	IF source IS NOT NULL THEN
		PERFORM rpq_store.fold(ARRAY[source]);
		SELECT * INTO source_pool FROM rpq_store.pool AS p WHERE p.pool_id = source;
		PERFORM rpq_store.check_pool_status(source_pool);
	END IF;
	picked := rpq_store.pick_nodes(source, (subject.arguments->>'type_id')::bigint,
		(subject.arguments->>'quota')::rpq.resources,
		CASE WHEN subject.arguments ? 'node_ids' THEN rpq_store.id_array(subject.arguments->'node_ids') END);
	PERFORM rpq_store.check_nodes_leave(picked);
	IF source IS NOT NULL THEN
		PERFORM rpq_store.refuse_occupied(rpq_store.reclaim_nodes(source, picked));
	END IF;
	names := rpq_store.hand_over(picked, source, subject.pool_id);
	PERFORM rpq_store.record(subject.action, 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id, NULL,
		rpq_store.pool_settings(p.pool_id) || jsonb_build_object('nodes', names), subject.operation_id)
	FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	RETURN jsonb_build_object('nodes', names);
END
$$;
COMMENT ON FUNCTION rpq_store.op_create(rpq_store.operation) IS
'the operation create: checks again what may have changed since the call, moves the nodes from the source into '
'the pool and records it; returns the nodes'' names';

CREATE FUNCTION rpq_store.clearing(clear text[], clearable text[], given text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	SELECT string_agg(coalesce('"' || c || '"', 'NULL'), ', ') INTO wrong
	FROM unnest(clearing.clear) AS c
	WHERE c IS NULL OR c <> ALL (clearing.clearable);
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('clear cannot set %s back to none', wrong),
			HINT = format('It may name %s.', array_to_string(clearing.clearable, ', '));
	END IF;
	SELECT string_agg(c, ', ') INTO wrong FROM unnest(clearing.clear) AS c WHERE c = ANY (clearing.given);
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s cannot be given and cleared at once', wrong);
	END IF;
	RETURN coalesce(clearing.clear, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.clearing(text[], text[], text[]) IS
'the settings to clear; 22023 for one that cannot be cleared or has been given a value too';

CREATE FUNCTION rpq.edit_pool(pool text, description text DEFAULT NULL, workload_types text[] DEFAULT NULL,
	scheduling_policy text DEFAULT NULL, queueing text DEFAULT NULL, default_priority int DEFAULT NULL,
	user_default_quota rpq.resources DEFAULT NULL, project_group text DEFAULT NULL,
		allow_guarantee boolean DEFAULT NULL,
	frozen boolean DEFAULT NULL, faulty_node_rotation boolean DEFAULT NULL, idle_time_sharing boolean DEFAULT NULL,
	min_runtime interval DEFAULT NULL, open boolean DEFAULT NULL, isolate_accounts boolean DEFAULT NULL,
	instance_type text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_pool'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('edit_pool', edit_pool.pool);
	before jsonb;
	given text[];
	cleared text[];
	lacking text;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	subject.project_group_id := coalesce(
		rpq_store.find_project_group(subject.tenant_id, edit_pool.project_group), subject.project_group_id);
	subject.workload_types := coalesce(
		rpq_store.check_workload_types(subject.tenant_id, edit_pool.workload_types), subject.workload_types);
	PERFORM rpq_store.check_pool_status(subject);
	SELECT array_agg(g.key) INTO given
	FROM jsonb_each(jsonb_strip_nulls(jsonb_build_object('description', edit_pool.description,
		'workload_types', edit_pool.workload_types, 'scheduling_policy', edit_pool.scheduling_policy,
		'queueing', edit_pool.queueing, 'default_priority', edit_pool.default_priority,
		'user_default_quota', edit_pool.user_default_quota::text, 'project_group', edit_pool.project_group,
		'allow_guarantee', edit_pool.allow_guarantee, 'frozen', edit_pool.frozen,
		'faulty_node_rotation', edit_pool.faulty_node_rotation, 'idle_time_sharing', edit_pool.idle_time_sharing,
		'min_runtime', edit_pool.min_runtime, 'open', edit_pool.open,
		'isolate_accounts', edit_pool.isolate_accounts))) AS g;
	before := rpq_store.pool_settings(named);
	IF edit_pool.instance_type IS NOT NULL THEN
		PERFORM rpq_store.edit_pool_instance(subject, edit_pool.instance_type, given, edit_pool.scheduling_policy,
			edit_pool.user_default_quota, edit_pool.clear);
	ELSE
		cleared := rpq_store.clearing(edit_pool.clear,
			'{description,project_group,user_default_quota,workload_types}', given);
		SELECT string_agg(g, ', ' ORDER BY g) INTO lacking FROM unnest(given) AS g
		WHERE (g = 'open' AND subject.type <> 'shared')
		   OR (g IN ('faulty_node_rotation', 'idle_time_sharing', 'isolate_accounts') AND subject.type <> 'exclusive');
		IF lacking IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('a %s pool does not have %s', subject.type,
				lacking);
		END IF;
		IF 'project_group' = ANY (cleared) THEN subject.project_group_id := NULL; END IF;
		IF 'workload_types' = ANY (cleared) THEN subject.workload_types := NULL; END IF;
		subject.description := CASE WHEN 'description' <> ALL (cleared) THEN
			coalesce(edit_pool.description, subject.description) END;
		subject.user_default_quota := CASE WHEN 'user_default_quota' <> ALL (cleared) THEN
			coalesce(edit_pool.user_default_quota, subject.user_default_quota) END;
		subject.scheduling_policy := coalesce(edit_pool.scheduling_policy, subject.scheduling_policy);
		subject.queueing := coalesce(edit_pool.queueing, subject.queueing);
		subject.default_priority := coalesce(edit_pool.default_priority, subject.default_priority);
		subject.allow_guarantee := coalesce(edit_pool.allow_guarantee, subject.allow_guarantee);
		subject.frozen := coalesce(edit_pool.frozen, subject.frozen);
		subject.faulty_node_rotation := coalesce(edit_pool.faulty_node_rotation, subject.faulty_node_rotation);
		subject.idle_time_sharing := coalesce(edit_pool.idle_time_sharing, subject.idle_time_sharing);
		subject.min_runtime := coalesce(edit_pool.min_runtime, subject.min_runtime);
		subject.open := coalesce(edit_pool.open, subject.open);
		subject.isolate_accounts := coalesce(edit_pool.isolate_accounts, subject.isolate_accounts);
		PERFORM rpq_store.check_pool_settings(subject);
		PERFORM rpq_store.update_pool(subject);
		IF NOT subject.idle_time_sharing THEN
			PERFORM rpq_store.preempt_borrowers(named);
		END IF;
	END IF;
	PERFORM rpq_store.record('edit_pool', 'pool', named, subject.name, subject.tenant_id, named, before,
		rpq_store.pool_settings(named));
	PERFORM rpq_store.rotate_now();
END
$$;
COMMENT ON FUNCTION rpq.edit_pool(text, text, text[], text, text, int, rpq.resources, text, boolean, boolean,
	boolean, boolean, interval, boolean, boolean, text, text[]) IS
'changes settings of a pool at once; NULL leaves one as it is, clear sets description, project_group, '
'user_default_quota or workload_types back to none. With instance_type: scheduling_policy and user_default_quota '
'of that type of the pool, both of which clear may name. default_priority: 0 to 100. queueing: backfill or '
'best_effort. frozen: nothing is submitted or admitted, what runs goes on. min_runtime: how long a workload runs '
'before it may be preempted. open: shared pools, off is members only. isolate_accounts: a node hosts pods of one '
'account at a time; what runs stays. idle_time_sharing: free nodes may serve preemptible work of the shared pool; '
'switched off, what borrows is preempted at once. faulty_node_rotation, idle_time_sharing, '
'isolate_accounts, scheduling_policy spread: exclusive pools. Errors: 42704 unknown object, RQ004 the pool is '
'being created or deleted, 22023 bad argument or a setting that the pool''s type does not have, 0A000 '
'least_fragmentation, RQ009 fenced. Administrators of the pool';

CREATE FUNCTION rpq_store.update_pool(subject rpq_store.pool) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.pool AS p
	SET description = ($1).description, project_group_id = ($1).project_group_id, workload_types = ($1).workload_types,
		default_priority = ($1).default_priority, user_default_quota = ($1).user_default_quota,
		scheduling_policy = ($1).scheduling_policy, queueing = ($1).queueing, frozen = ($1).frozen,
		allow_guarantee = ($1).allow_guarantee, faulty_node_rotation = ($1).faulty_node_rotation,
		idle_time_sharing = ($1).idle_time_sharing, open = ($1).open, isolate_accounts = ($1).isolate_accounts,
		min_runtime = ($1).min_runtime
	WHERE p.pool_id = ($1).pool_id
$$;
COMMENT ON FUNCTION rpq_store.update_pool(rpq_store.pool) IS
'writes the editable settings of a pool; the caller holds its turn';

CREATE FUNCTION rpq_store.pool_instance_type(pool_id bigint, instance_type text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	type_of bigint := rpq_store.find_type(pool_instance_type.instance_type);
BEGIN
	IF NOT EXISTS (SELECT FROM rpq_store.pool_instance AS i
				   WHERE i.pool_id = pool_instance_type.pool_id AND i.type_id = type_of) THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = format('the pool has no instance type "%s"', btrim(pool_instance_type.instance_type));
	END IF;
	RETURN type_of;
END
$$;
COMMENT ON FUNCTION rpq_store.pool_instance_type(bigint, text) IS
'the id of an instance type that the pool has; 42704 for an unknown one, 22023 for one of other pools';

CREATE FUNCTION rpq_store.edit_pool_instance(subject rpq_store.pool, instance_type text, given text[],
	scheduling_policy text, user_default_quota rpq.resources, clear text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	type_of bigint := rpq_store.pool_instance_type(subject.pool_id, edit_pool_instance.instance_type);
	cleared text[] := rpq_store.clearing(edit_pool_instance.clear, '{scheduling_policy,user_default_quota}',
		edit_pool_instance.given);
	other text;
BEGIN
	SELECT string_agg(g, ', ' ORDER BY g) INTO other FROM unnest(edit_pool_instance.given) AS g
	WHERE g NOT IN ('scheduling_policy', 'user_default_quota');
	IF other IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s cannot be set for one instance type', other);
	END IF;
	PERFORM rpq_store.check_scheduling_policy(edit_pool_instance.scheduling_policy, subject.type);
	PERFORM rpq_store.check_quota('user_default_quota', edit_pool_instance.user_default_quota);
	UPDATE rpq_store.pool_instance AS i
	SET scheduling_policy = CASE WHEN 'scheduling_policy' <> ALL (cleared) THEN
			coalesce(edit_pool_instance.scheduling_policy, i.scheduling_policy) END,
		user_default_quota = CASE WHEN 'user_default_quota' <> ALL (cleared) THEN
			coalesce(edit_pool_instance.user_default_quota, i.user_default_quota) END
	WHERE i.pool_id = subject.pool_id AND i.type_id = type_of;
END
$$;
COMMENT ON FUNCTION rpq_store.edit_pool_instance(rpq_store.pool, text, text[], text, rpq.resources, text[]) IS
'changes what is set for one instance type of a pool; the caller holds the pool''s turn';

CREATE FUNCTION rpq.selectable_pools(workload_type text)
RETURNS TABLE (pool_id bigint, pool text, selectable boolean, reason_code text, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	type_id bigint := rpq_store.authorize('selectable_pools', selectable_pools.workload_type);
	wanted rpq_store.workload_type;
	me bigint := rpq_store.my_account();
BEGIN
	SELECT * INTO wanted FROM rpq_store.workload_type AS w WHERE w.workload_type_id = type_id;
	RETURN QUERY
	SELECT c.pool_id, c.name, c.code IS NULL, c.code,
		CASE c.code
			WHEN 'not_authorized' THEN format('account is not authorised in pool %s', c.name)
			WHEN 'pool_frozen' THEN format('pool %s is frozen', c.name)
			WHEN 'pool_not_ready' THEN format('pool %s is %s', c.name, c.status)
			WHEN 'workload_type' THEN format('workload type %s is not allowed to use resource pool %s', wanted.name,
				c.name)
		END
	FROM (SELECT p.pool_id, p.name, p.status,
			CASE
				WHEN NOT EXISTS (SELECT FROM rpq_store.member AS m WHERE m.pool_id = p.pool_id AND m.account_id = me)
					AND NOT (p.type = 'shared' AND p.open AND EXISTS (
						SELECT FROM rpq_store.account AS a WHERE a.account_id = me AND a.tenant_id = p.tenant_id))
					THEN 'not_authorized'
				WHEN p.frozen THEN 'pool_frozen'
				WHEN p.status IN ('creating', 'deleting') THEN 'pool_not_ready'
				WHEN wanted.name <> ALL (p.workload_types) THEN 'workload_type'
			END AS code
		  FROM rpq_store.pool AS p
		  WHERE p.tenant_id = wanted.tenant_id AND p.status <> 'deleted'
			AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[])) AS c
	ORDER BY c.name;
END
$$;
COMMENT ON FUNCTION rpq.selectable_pools(text) IS
'every pool of the tenant that the caller sees, and whether the caller may submit a workload of this type to it '
'now; if not, reason_code (not_authorized, pool_frozen, pool_not_ready, workload_type) and a sentence. Errors: '
'42704 unknown workload type, 22023 none given. Every account';
-- Members of pools, their personal quotas, and lists of them in and out.
--
-- Writes member and member_quota under the turn of the pool.  A row of member_quota is config mode custom; without one
-- the default of the pool (or of its instance type) is looked up, and never copied.

CREATE VIEW rpq_store.effective_quota AS
SELECT m.pool_id, m.account_id, t.type_id,
	CASE WHEN q.quota IS NULL THEN 'default' ELSE 'custom' END AS config_mode,
	coalesce(q.quota, t.user_default_quota, CAST('' AS rpq.resources)) AS quota
FROM (SELECT d.pool_id, d.account_id FROM rpq_store.member AS d
	  UNION ALL
	  SELECT p.pool_id, a.account_id
	  FROM rpq_store.pool AS p
	  JOIN rpq_store.account AS a ON a.tenant_id = p.tenant_id AND a.deleted_at IS NULL
	  WHERE p.type = 'shared' AND p.open AND p.status <> 'deleted'
		AND NOT EXISTS (SELECT FROM rpq_store.member AS x
						WHERE x.pool_id = p.pool_id AND x.account_id = a.account_id)) AS m
JOIN (SELECT p.pool_id, CAST(0 AS bigint) AS type_id, p.user_default_quota FROM rpq_store.pool AS p
	  UNION ALL
	  SELECT i.pool_id, i.type_id, i.user_default_quota FROM rpq_store.pool_instance AS i) AS t ON t.pool_id = m.pool_id
LEFT JOIN rpq_store.member_quota AS q
	ON q.pool_id = m.pool_id AND q.account_id = m.account_id AND q.type_id = t.type_id
WHERE t.type_id = 0 OR q.quota IS NOT NULL OR t.user_default_quota IS NOT NULL;
COMMENT ON VIEW rpq_store.effective_quota IS
'the personal quotas in force: of members, and in an open shared pool of every account of the tenant';
COMMENT ON COLUMN rpq_store.effective_quota.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.effective_quota.account_id IS 'the account';
COMMENT ON COLUMN rpq_store.effective_quota.type_id IS 'the instance type, 0 for the pool as a whole';
COMMENT ON COLUMN rpq_store.effective_quota.config_mode IS
'default (follows the pool''s default) or custom (its own)';
COMMENT ON COLUMN rpq_store.effective_quota.quota IS 'what holds now; a key that it lacks is not limited';

CREATE FUNCTION rpq_store.member_settings(pool_id bigint, account_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('max_priority', m.max_priority, 'guarantee', m.guarantee,
			'config_mode', CASE WHEN q.quota IS NULL THEN 'default' ELSE 'custom' END, 'quota', q.quota::text)
		|| coalesce((SELECT jsonb_build_object('instance_types', jsonb_object_agg(t.name, o.quota::text))
					 FROM rpq_store.member_quota AS o JOIN rpq_store.instance_type AS t ON t.type_id = o.type_id
					 WHERE o.pool_id = m.pool_id AND o.account_id = m.account_id HAVING count(*) > 0), '{}')
	FROM rpq_store.member AS m
	LEFT JOIN rpq_store.member_quota AS q
		ON q.pool_id = m.pool_id AND q.account_id = m.account_id AND q.type_id = 0
	WHERE m.pool_id = $1 AND m.account_id = $2
$$;
COMMENT ON FUNCTION rpq_store.member_settings(bigint, bigint) IS
'a member as the history shows it; NULL for an account that is none';

CREATE FUNCTION rpq_store.check_members(subject rpq_store.pool, accounts bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	missing text;
BEGIN
	SELECT string_agg(format('"%s"', a.name), ', ' ORDER BY a.name) INTO missing
	FROM rpq_store.account AS a
	WHERE a.account_id = ANY (check_members.accounts)
	  AND NOT EXISTS (SELECT FROM rpq_store.member AS m
					  WHERE m.pool_id = subject.pool_id AND m.account_id = a.account_id);
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('pool "%s" has no member %s', subject.name, missing);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_members(rpq_store.pool, bigint[]) IS
'refuses (42704, listing them) accounts that are no members of the pool';

CREATE FUNCTION rpq_store.member_pool(pool_id bigint) RETURNS rpq_store.pool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[member_pool.pool_id]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = member_pool.pool_id;
	PERFORM rpq_store.check_pool_status(subject);
	RETURN subject;
END
$$;
COMMENT ON FUNCTION rpq_store.member_pool(bigint) IS
'takes the turn of a pool whose members are to change and returns its row; RQ004 when it is being created or deleted';

-- NULL leaves a setting as it is; config_mode NULL is custom where a quota is given, else what the member has.
CREATE FUNCTION rpq_store.set_members(action text, subject rpq_store.pool, accounts bigint[],
	quota rpq.resources,
	type_id bigint, max_priority int, guarantee boolean, config_mode text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	before jsonb[];
BEGIN
	before := ARRAY(SELECT rpq_store.member_settings(subject.pool_id, u.id)
					FROM unnest(set_members.accounts) WITH ORDINALITY AS u (id, place) ORDER BY u.place);
	INSERT INTO rpq_store.member AS m (pool_id, account_id, max_priority, guarantee, created_at)
	SELECT subject.pool_id, u.id, coalesce(set_members.max_priority, 100), coalesce(set_members.guarantee, false),
		rpq.now()
	FROM unnest(set_members.accounts) AS u (id)
	ON CONFLICT (pool_id, account_id) DO UPDATE
	SET max_priority = coalesce(set_members.max_priority, m.max_priority),
		guarantee = coalesce(set_members.guarantee, m.guarantee);
	IF set_members.config_mode = 'default' THEN
		DELETE FROM rpq_store.member_quota AS q
		WHERE q.pool_id = subject.pool_id AND q.account_id = ANY (set_members.accounts)
			AND q.type_id = set_members.type_id;
	ELSIF set_members.quota IS NOT NULL THEN
		INSERT INTO rpq_store.member_quota (pool_id, account_id, type_id, quota)
		SELECT subject.pool_id, u.id, set_members.type_id, set_members.quota FROM unnest(set_members.accounts) AS u (id)
		ON CONFLICT (pool_id, account_id, type_id) DO UPDATE SET quota = excluded.quota;
	ELSIF set_members.config_mode = 'custom' THEN
		PERFORM rpq_store.check_custom(subject, set_members.accounts, set_members.type_id);
	END IF;
	PERFORM rpq_store.record(set_members.action, 'member', m.member_id, a.name, subject.tenant_id, subject.pool_id,
		before[u.place], rpq_store.member_settings(subject.pool_id, u.id))
	FROM unnest(set_members.accounts) WITH ORDINALITY AS u (id, place)
	JOIN rpq_store.member AS m ON m.pool_id = subject.pool_id AND m.account_id = u.id
	JOIN rpq_store.account AS a ON a.account_id = u.id
	ORDER BY u.place;
END
$$;
COMMENT ON FUNCTION rpq_store.set_members(text, rpq_store.pool, bigint[], rpq.resources, bigint, int, boolean,
	text) IS
'makes accounts members with these settings, or changes those that are; type_id 0 is the pool as a whole. Each '
'that changes is recorded under the action. The caller holds the pool''s turn';

CREATE FUNCTION rpq_store.check_custom(subject rpq_store.pool, accounts bigint[], type_id bigint)
RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	without text;
BEGIN
	SELECT string_agg(format('"%s"', a.name), ', ' ORDER BY a.name) INTO without
	FROM rpq_store.account AS a
	WHERE a.account_id = ANY (check_custom.accounts)
	  AND NOT EXISTS (SELECT FROM rpq_store.member_quota AS q
					  WHERE q.pool_id = subject.pool_id AND q.account_id = a.account_id
						AND q.type_id = check_custom.type_id);
	IF without IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'config mode custom needs a quota',
			DETAIL = format('In mode default: %s.', without), HINT = 'An empty quota is no limit.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_custom(rpq_store.pool, bigint[], bigint) IS
'refuses (22023) config mode custom without a quota for members that have none of their own';

CREATE FUNCTION rpq_store.check_member_settings(subject rpq_store.pool, quota rpq.resources,
	instance_type text,
	max_priority int, guarantee boolean, config_mode text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	type_of bigint := 0;
	wrong text;
BEGIN
	IF check_member_settings.instance_type IS NOT NULL THEN
		type_of := rpq_store.pool_instance_type(subject.pool_id, check_member_settings.instance_type);
	END IF;
	wrong := CASE
		WHEN check_member_settings.max_priority NOT BETWEEN 0 AND 100 THEN 'max_priority must be between 0 and 100'
		WHEN check_member_settings.config_mode NOT IN ('default', 'custom') THEN 'config_mode must be default or custom'
		WHEN check_member_settings.config_mode = 'default' AND check_member_settings.quota IS NOT NULL THEN
			'config_mode default and a quota cannot be given at once'
		WHEN check_member_settings.instance_type IS NOT NULL AND check_member_settings.quota IS NULL
			AND check_member_settings.config_mode IS NULL THEN 'instance_type must come with a quota'
		WHEN check_member_settings.guarantee IS NOT NULL AND subject.pay_as_you_go THEN
			'guarantee cannot be edited in a pay-as-you-go pool'
		END;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = wrong;
	END IF;
	PERFORM rpq_store.check_quota('quota', check_member_settings.quota);
	RETURN type_of;
END
$$;
COMMENT ON FUNCTION rpq_store.check_member_settings(rpq_store.pool, rpq.resources, text, int, boolean, text) IS
'refuses (22023) settings that a member of the pool cannot have; returns the id of the instance type, 0 for the '
'pool as a whole';

CREATE FUNCTION rpq.authorize(pool text, accounts text[], quota rpq.resources DEFAULT NULL,
	instance_type text DEFAULT NULL, max_priority int DEFAULT NULL, guarantee boolean DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'authorize'
AS $$
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('authorize', authorize.pool);
	ids bigint[];
	type_of bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	ids := rpq_store.find_accounts(subject.tenant_id, authorize.accounts);
	type_of := rpq_store.check_member_settings(subject, authorize.quota, authorize.instance_type,
		authorize.max_priority,
		authorize.guarantee, NULL);
	PERFORM rpq_store.set_members('authorize', subject, ids, authorize.quota, type_of, authorize.max_priority,
		authorize.guarantee, NULL);
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.authorize(text, text[], rpq.resources, text, int, boolean) IS
'makes accounts members of a pool, all or none; for those that are, changes only what is given. quota: a personal '
'quota of its own (config mode custom; '''' is no limit), else the pool''s default is followed; with '
'instance_type for that type of the pool. max_priority: 0 to 100, default 100. guarantee: the right to workloads '
'that are never preempted, default off. Returns the number of accounts named, repeats left out. Errors: 42704 '
'unknown pool, type or accounts (all are listed), RQ004 the pool is being created or deleted, 22023 bad argument, '
'RQ009 fenced. Administrators of the pool';

CREATE FUNCTION rpq.update_members(pool text, accounts text[], quota rpq.resources DEFAULT NULL,
	instance_type text DEFAULT NULL, max_priority int DEFAULT NULL, guarantee boolean DEFAULT NULL,
	config_mode text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'update_members'
AS $$
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('update_members', update_members.pool);
	ids bigint[];
	type_of bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	ids := rpq_store.find_accounts(subject.tenant_id, update_members.accounts);
	IF NOT (subject.type = 'shared' AND subject.open) THEN
		PERFORM rpq_store.check_members(subject, ids);
	END IF;
	type_of := rpq_store.check_member_settings(subject, update_members.quota, update_members.instance_type,
		update_members.max_priority, update_members.guarantee, update_members.config_mode);
	PERFORM rpq_store.set_members('update_members', subject, ids, update_members.quota, type_of,
		update_members.max_priority, update_members.guarantee, update_members.config_mode);
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.update_members(text, text[], rpq.resources, text, int, boolean, text) IS
'changes what is given for members of a pool, all or none (in an open shared pool for any account of the tenant). '
'quota, instance_type, max_priority, guarantee: as in authorize. config_mode: default (back to the pool''s '
'default) or custom. What runs is never touched; nothing more is admitted above a lower quota. Returns the number '
'of accounts named. Errors: 42704 unknown pool, type, accounts, or accounts that are no members (all are listed), '
'RQ004 the pool is being created or deleted, 22023 bad argument, RQ009 fenced. Administrators of the pool';

CREATE FUNCTION rpq.deauthorize(pool text, accounts text[], stop boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'deauthorize'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('deauthorize', deauthorize.pool);
	ids bigint[];
	one bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	ids := rpq_store.find_accounts(subject.tenant_id, deauthorize.accounts);
	PERFORM rpq_store.check_members(subject, ids);
	PERFORM rpq_store.record('deauthorize', 'member', m.member_id, a.name, subject.tenant_id, named,
		rpq_store.member_settings(named, m.account_id), NULL)
	FROM rpq_store.member AS m JOIN rpq_store.account AS a ON a.account_id = m.account_id
	WHERE m.pool_id = named AND m.account_id = ANY (ids);
	DELETE FROM rpq_store.member AS m WHERE m.pool_id = named AND m.account_id = ANY (ids);
	FOREACH one IN ARRAY ids LOOP
		-- In an open shared pool the account keeps its right, with the pool's defaults.
		IF NOT (subject.type = 'shared' AND subject.open) THEN
			PERFORM rpq_store.draft_queued(named, one, 'not_authorized',
				format('account was removed from pool %s', subject.name));
		END IF;
		IF deauthorize.stop THEN
			PERFORM rpq_store.stop_placed(named, one, 'not_authorized',
				format('account was removed from pool %s', subject.name));
		END IF;
	END LOOP;
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.deauthorize(text, text[], boolean) IS
'removes members, all or none. What they have queued in the pool becomes draft; what runs goes on to its end, or '
'with stop is stopped (what another session keeps locked, as soon as it lets go). In an open shared pool the '
'accounts are back to its defaults. Returns the number of accounts named. Errors: 42704 unknown pool, accounts, '
'or accounts that are no members (all are listed), RQ004 the pool is being created or deleted, 22023 bad '
'argument, RQ009 fenced. Administrators of the pool';
-- Lists of members in and out: pasted text, CSV, names.  Written through members.sql.

CREATE FUNCTION rpq_store.list_setting(settings text, key text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT substr(t, length($2) + 2) FROM regexp_split_to_table($1, '\s+') AS t WHERE starts_with(t, $2 || '=') LIMIT 1
$$;
COMMENT ON FUNCTION rpq_store.list_setting(text, text) IS
'the value of one setting in the settings of a line (quota=gpu=4 max_priority=60)';

CREATE FUNCTION rpq_store.check_list_settings(settings text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	SELECT t INTO wrong FROM regexp_split_to_table(check_list_settings.settings, '\s+') AS t
	WHERE t <> '' AND t !~ '^(quota|instance_type|max_priority|guarantee|mode)=' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('"%s" is no setting of a member', wrong),
			HINT = 'Settings are quota, instance_type, max_priority, guarantee and mode, each as name=value.';
	END IF;
	SELECT split_part(t, '=', 1) INTO wrong FROM regexp_split_to_table(check_list_settings.settings, '\s+') AS t
	WHERE t <> '' GROUP BY 1 HAVING count(*) > 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s is given twice in one line', wrong);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_list_settings(text) IS
'refuses (22023) settings of a line that are unknown or given twice';

-- The names of a pasted text with the settings that hold for each, written one way so that they can be compared.
CREATE FUNCTION rpq_store.parse_list(list text, quota rpq.resources, instance_type text, max_priority int,
	guarantee boolean)
RETURNS TABLE (name text, quota_text text, type_name text, highest int, guaranteed boolean, mode text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	line text;
	settings text;
BEGIN
	FOREACH line IN ARRAY regexp_split_to_array(coalesce(parse_list.list, ''), '\r\n|\n|\r') LOOP
		settings := CASE WHEN position(';' IN line) > 0 THEN substr(line, position(';' IN line) + 1) ELSE '' END;
		PERFORM rpq_store.check_list_settings(settings);
		mode := rpq_store.list_setting(settings, 'mode');
		quota_text := coalesce(CAST(rpq_store.list_setting(settings, 'quota') AS rpq.resources)::text,
			CASE WHEN mode IS DISTINCT FROM 'default' THEN parse_list.quota::text END);
		type_name := coalesce(rpq_store.list_setting(settings, 'instance_type'), parse_list.instance_type);
		highest := coalesce(rpq_store.list_setting(settings, 'max_priority')::int, parse_list.max_priority);
		guaranteed := coalesce(rpq_store.list_setting(settings, 'guarantee')::boolean, parse_list.guarantee);
		FOREACH name IN ARRAY string_to_array(split_part(line, ';', 1), ',') LOOP
			name := btrim(name, E' \t');
			IF name <> '' THEN
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.parse_list(text, rpq.resources, text, int, boolean) IS
'names and settings of a pasted list: lines of names separated by commas, each optionally followed by ; and '
'settings, which go before the call''s own. Blank pieces, spaces, tabs and any line ends are fine. 22023, 22P02 '
'for bad settings';

CREATE FUNCTION rpq.authorize_list(pool text, list text, quota rpq.resources DEFAULT NULL,
	instance_type text DEFAULT NULL, max_priority int DEFAULT NULL, guarantee boolean DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'authorize_list'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('authorize_list', authorize_list.pool);
	ids bigint[];
	twice text;
	one record;
	type_of bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	SELECT array_agg(l.name) INTO one
	  FROM rpq_store.parse_list(coalesce(authorize_list.list, ''), NULL, NULL, NULL, NULL) AS l;
	IF one.array_agg IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the list has no names';
	END IF;
	ids := rpq_store.find_accounts(subject.tenant_id, one.array_agg);
	SELECT string_agg(format('"%s"', d.name), ', ' ORDER BY d.name) INTO twice
	FROM (SELECT n.name
		  FROM (SELECT DISTINCT rpq_store.check_name('account', l.name) AS name, l.quota_text, l.type_name, l.highest,
					l.guaranteed, l.mode
				FROM rpq_store.parse_list(authorize_list.list, authorize_list.quota, authorize_list.instance_type,
					authorize_list.max_priority, authorize_list.guarantee) AS l) AS n
		  GROUP BY n.name HAVING count(*) > 1) AS d;
	IF twice IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s has two settings in the list', twice);
	END IF;
	FOR one IN
		SELECT array_agg(l.name) AS names, l.quota_text, l.type_name, l.highest, l.guaranteed, l.mode
		FROM rpq_store.parse_list(authorize_list.list, authorize_list.quota, authorize_list.instance_type,
			authorize_list.max_priority, authorize_list.guarantee) AS l
		GROUP BY l.quota_text, l.type_name, l.highest, l.guaranteed, l.mode
		ORDER BY min(l.name)
	LOOP
		type_of := rpq_store.check_member_settings(subject, one.quota_text::rpq.resources, one.type_name, one.highest,
			one.guaranteed, one.mode);
		PERFORM rpq_store.set_members('authorize_list', subject,
			rpq_store.find_accounts(subject.tenant_id, one.names), one.quota_text::rpq.resources, type_of, one.highest,
			one.guaranteed, one.mode);
	END LOOP;
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.authorize_list(text, text, rpq.resources, text, int, boolean) IS
'makes the accounts of a pasted text members of a pool, all or none. list: lines of names separated by commas, '
'each line optionally followed by ; and settings (quota=gpu=4 instance_type=h100 max_priority=60 guarantee=on '
'mode=custom), which go before the call''s own: quota, instance_type, max_priority, guarantee as in authorize. '
'Returns the number of accounts named, repeats left out. Errors: as authorize, and 22023 for a text without '
'names, an unknown setting, or a name with two settings. Administrators of the pool';

CREATE FUNCTION rpq_store.csv_cell(cell text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN d ~ '[",\r\n]' THEN '"' || replace(d, '"', '""') || '"' ELSE d END
	FROM (SELECT CASE WHEN $1 ~ '^[=+@\t\r-]' THEN '''' || $1 ELSE coalesce($1, '') END AS d) AS c
$$;
COMMENT ON FUNCTION rpq_store.csv_cell(text) IS
'a cell of text for CSV (RFC 4180); what a spreadsheet would take for a formula gets an apostrophe in front';

CREATE FUNCTION rpq.export_members_csv(pool text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('export_members_csv', export_members_csv.pool);
	lines text;
BEGIN
	SELECT string_agg(concat_ws(',', rpq_store.csv_cell(m.account), rpq_store.csv_cell(m.instance_type), m.config_mode,
		rpq_store.csv_cell(coalesce(nullif(m.quota::text, ''), 'unlimited')), m.max_priority, CAST(m.guarantee AS text),
		rpq_store.csv_cell(m.used::text)) || E'\r\n', '' ORDER BY m.account, m.instance_type NULLS FIRST)
	INTO lines
	FROM rpq.members AS m WHERE m.pool_id = named;
	RETURN E'account,instance_type,config_mode,quota,max_priority,guarantee,used\r\n' || coalesce(lines, '');
END
$$;
COMMENT ON FUNCTION rpq.export_members_csv(text) IS
'the members of a pool as CSV (RFC 4180, lines end in CR LF): account, instance_type (empty: the pool as a '
'whole), config_mode, quota in force (unlimited where it has no keys), max_priority, guarantee, used. Text that a '
'spreadsheet would take for a formula gets an apostrophe in front. Errors: 42704 unknown pool, 22023 none given. '
'Administrators of the pool';

CREATE FUNCTION rpq.member_names(pool text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('member_names', member_names.pool);
BEGIN
	RETURN coalesce((SELECT string_agg(a.name, E'\n' ORDER BY a.name)
					 FROM rpq_store.member AS m JOIN rpq_store.account AS a ON a.account_id = m.account_id
					 WHERE m.pool_id = named), '');
END
$$;
COMMENT ON FUNCTION rpq.member_names(text) IS
'the names of a pool''s members, one a line. Errors: 42704 unknown pool, 22023 none given. Administrators of the '
'pool';
-- The cycle: scheduling by hand, dry runs, and what the worker calls.

CREATE FUNCTION rpq.schedule(pool text DEFAULT NULL, dry_run boolean DEFAULT NULL)
RETURNS SETOF rpq.schedule_decision
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_schedule';
COMMENT ON FUNCTION rpq.schedule(text, boolean) IS
'runs one cycle in the caller''s transaction. pool: which (NULL: all that the caller administers); dry_run: decides '
'on the caller''s snapshot, locks and writes nothing, shows every workload that waits, of those that the caller may '
'see. Returns what was decided: victims, then what is admitted, in the order considered, then what waits. Errors: '
'42704, 42501, RQ009 fenced; 40001 when overtaken above READ COMMITTED. Callers: administrators of the pool; with '
'dry_run everyone who sees it';

CREATE FUNCTION rpq_store.run_cycles(OUT more boolean, OUT changed int, OUT summary text)
LANGUAGE c VOLATILE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_run_cycles';
COMMENT ON FUNCTION rpq_store.run_cycles() IS
'one cycle over every scope that has something to do and whose turn nobody else holds; more: the batch cut one off; '
'changed: entries counted and workloads admitted; summary: the same as json';

CREATE FUNCTION rpq_store.worker_cycle(OUT more boolean, OUT changed int, OUT summary text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	carried int;
BEGIN
	more := false;
	changed := 0;
	-- without a fence nothing has been stored, or a restore is still on its way to it
	IF NOT EXISTS (SELECT FROM rpq_store.fence) THEN
		RETURN;
	ELSIF rpq_store.is_fenced() THEN
		summary := 'fenced';
		RETURN;
	END IF;
	carried := rpq_store.run_pending_operations() + rpq_store.run_rotations(NULL, '1 s');
	SELECT c.more, c.changed + carried, c.summary INTO more, changed, summary FROM rpq_store.run_cycles() c;
	-- the next step follows at once; where all wait, or others have the turns, there was none
	more := more OR (carried > 0 AND EXISTS (SELECT FROM rpq_store.due_operations()));
END
$$;
COMMENT ON FUNCTION rpq_store.worker_cycle() IS
'what the worker does at each round, as one transaction: one step of an operation, swaps of faulty nodes, then a cycle '
'over what is due';

CREATE FUNCTION rpq.explain(workload bigint)
RETURNS TABLE (step int, check_name text, passed boolean, wanted rpq.resources, available rpq.resources, detail text,
	way_out text)
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_explain';
COMMENT ON FUNCTION rpq.explain(bigint) IS
'every check that applies to a queued workload or a draft, on the present snapshot: check_name is the reason code '
'that its failing gives; wanted and available are the figures compared; way_out is the exact change that lifts a '
'limit, or what would have to leave. No rows for what is neither queued nor a draft. Errors: 42704, 22023. Callers: '
'everyone who sees the workload';
-- Reservations over several pools: whether what pools hold can serve what policies are promised.
--
-- Reads policy, queue, profile_pool, pool_capacity and node; writes nothing.  Who changes one of them holds the turns
-- of the whole connected set, and asks before the change and after it, in the same transaction.

CREATE FUNCTION rpq_store.short_policies(policies bigint[], reservations rpq.resources[],
	reaching bigint[], reached bigint[], pools bigint[], supplies rpq.resources[], touched bigint[])
RETURNS TABLE (resource text, short bigint[], wanted rpq.resources, reachable rpq.resources)
LANGUAGE c IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_short_policies';
COMMENT ON FUNCTION rpq_store.short_policies(bigint[], rpq.resources[], bigint[], bigint[], bigint[], rpq.resources[],
	bigint[]) IS
'a row for each resource of which a flow from policies (with their reservations) through the pools that each reaches '
'(reaching, reached: pairs) to what pools hold (supplies) does not carry every reservation: the policies of the '
'minimum cut, what they reserve together, and what the pools that they reach hold. touched: only what is connected '
'with these pools counts; NULL: everything';

CREATE FUNCTION rpq_store.pool_supplies(pools bigint[], usable boolean)
RETURNS TABLE (pool_id bigint, supply rpq.resources)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	-- of the nodes only those are read that lack something
	SELECT p.pool_id, coalesce((SELECT rpq.sum(c.capacity OPERATOR(rpq.*) c.nodes::numeric)
								FROM rpq_store.pool_capacity AS c WHERE c.pool_id = p.pool_id), '')
		OPERATOR(rpq.-) coalesce(CASE WHEN $2 THEN (
			SELECT rpq.sum(CASE WHEN n.health = 'unhealthy' THEN n.capacity
								ELSE n.capacity OPERATOR(rpq.-) n.usable END)
			FROM rpq_store.node AS n
			WHERE n.pool_id = p.pool_id AND NOT n.removing
			  AND (n.health = 'unhealthy' OR n.capacity OPERATOR(rpq.<>) n.usable)) END, '')
	FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY ($1) AND p.status <> 'deleted'
$$;
COMMENT ON FUNCTION rpq_store.pool_supplies(bigint[], boolean) IS
'what pools hold; usable: without nodes that are unhealthy, and what machines do not have at present';

CREATE FUNCTION rpq_store.shortages(touched bigint[], usable boolean DEFAULT false,
	changing bigint[] DEFAULT '{}', changes rpq.resources[] DEFAULT '{}') RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	WITH promised AS MATERIALIZED (
		SELECT y.policy_id, y.reservation FROM rpq_store.policy AS y
		WHERE y.deleted_at IS NULL AND y.reservation OPERATOR(rpq.<>) ''
		  AND ($1 IS NULL
			OR y.tenant_id IN (SELECT p.tenant_id FROM rpq_store.pool AS p WHERE p.pool_id = ANY ($1)))
		  AND EXISTS (SELECT FROM rpq_store.queue AS q WHERE q.policy_id = y.policy_id AND q.deleted_at IS NULL)),
	way AS MATERIALIZED (
		SELECT DISTINCT q.policy_id, l.pool_id
		FROM promised AS y
		JOIN rpq_store.queue AS q ON q.policy_id = y.policy_id AND q.deleted_at IS NULL
		JOIN rpq_store.profile_pool AS l ON l.profile_id = q.profile_id AND l.state = 'provisioned'),
	held AS MATERIALIZED (
		SELECT s.pool_id, s.supply OPERATOR(rpq.+) coalesce((
			SELECT rpq.sum(c.amount) FROM unnest($3, $4) AS c (pool_id, amount)
			WHERE c.pool_id = s.pool_id), '') AS supply
		FROM rpq_store.pool_supplies(ARRAY(SELECT DISTINCT w.pool_id FROM way AS w), $2) AS s)
	SELECT coalesce(jsonb_agg(jsonb_build_object('resource', s.resource, 'policies', s.short, 'wanted', s.wanted::text,
			'reachable', s.reachable::text) ORDER BY s.resource), '[]')
	FROM rpq_store.short_policies(
		ARRAY(SELECT y.policy_id FROM promised AS y ORDER BY y.policy_id),
		ARRAY(SELECT y.reservation FROM promised AS y ORDER BY y.policy_id),
		ARRAY(SELECT w.policy_id FROM way AS w ORDER BY w.policy_id, w.pool_id),
		ARRAY(SELECT w.pool_id FROM way AS w ORDER BY w.policy_id, w.pool_id),
		ARRAY(SELECT h.pool_id FROM held AS h ORDER BY h.pool_id),
		ARRAY(SELECT h.supply FROM held AS h ORDER BY h.pool_id), $1) AS s
$$;
COMMENT ON FUNCTION rpq_store.shortages(bigint[], boolean, bigint[], rpq.resources[]) IS
'what is promised and cannot be served, in the connected sets of these pools (NULL: anywhere): an object for each '
'resource, with the policies of the minimum cut and both figures. usable: of nodes that work, else of all that pools '
'hold. changing, changes: as it would be if these pools held so much more, or less';

CREATE FUNCTION rpq_store.unmet_policies() RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(DISTINCT p.id::bigint), '{}')
	FROM jsonb_array_elements(rpq_store.shortages(NULL, true)) AS s
	CROSS JOIN jsonb_array_elements_text(s -> 'policies') AS p (id)
$$;
COMMENT ON FUNCTION rpq_store.unmet_policies() IS
'the policies whose reservations cannot be served by the nodes that work in the pools that they reach';

-- Where a promise was broken by force, a change that makes nothing worse is not refused.  Pool admins see no policies,
-- and read the errors of operations: names are for who administers the tenant and is refused in person.
CREATE FUNCTION rpq_store.check_reservations(before jsonb, after jsonb) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	told text;
	seen bigint[] := CASE WHEN current_setting('rpq.action', true) IS DISTINCT FROM 'run_operations'
		THEN (SELECT s.tenants FROM rpq_store.sight() AS s) ELSE '{}' END;
BEGIN
	SELECT string_agg(format('%s %s %s in all, the pools that can be reached hold %s.',
		(SELECT CASE WHEN NOT bool_and(y.tenant_id = ANY (seen)) THEN
					count(*) || CASE WHEN count(*) = 1 THEN ' policy' ELSE ' policies' END
				ELSE CASE WHEN count(*) = 1 THEN 'Policy ' ELSE 'Policies ' END
					|| string_agg(format('"%s"', y.name), ', ' ORDER BY y.name) END
		 FROM rpq_store.policy AS y
		 WHERE y.policy_id IN (SELECT i.id::bigint FROM jsonb_array_elements_text(a -> 'policies') AS i (id))),
		CASE WHEN jsonb_array_length(a -> 'policies') = 1 THEN 'reserves' ELSE 'reserve' END,
		a ->> 'wanted', a ->> 'reachable'), ' ' ORDER BY a ->> 'resource') INTO told
	FROM jsonb_array_elements(check_reservations.after) AS a
	WHERE NOT EXISTS (
		SELECT FROM jsonb_array_elements(check_reservations.before) AS b
		WHERE b ->> 'resource' = a ->> 'resource' AND b -> 'policies' @> (a -> 'policies')
		  AND rpq.within((a ->> 'wanted')::rpq.resources OPERATOR(rpq.-) (a ->> 'reachable')::rpq.resources,
			(b ->> 'wanted')::rpq.resources OPERATOR(rpq.-) (b ->> 'reachable')::rpq.resources));
	IF told IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ002', MESSAGE = 'reservations could not be served', DETAIL = told,
			HINT = 'Lower a reservation, link more pools to the profiles, or add machines to the pools first.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_reservations(jsonb, jsonb) IS
'refuses (RQ002) a change after which more is promised than can be served: before and after are what shortages() says. '
'The errdetail names policies that exceed what they reach, with both figures; counts them for who may not see them';

CREATE FUNCTION rpq_store.check_nodes_leave(nodes bigint[], to_id bigint DEFAULT NULL,
	others bigint[] DEFAULT '{}', others_to bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	losing bigint[];
	pools bigint[];
	amounts rpq.resources[];
BEGIN
	SELECT array_agg(DISTINCT n.pool_id) INTO losing
	FROM rpq_store.node AS n WHERE n.node_id = ANY (check_nodes_leave.nodes || check_nodes_leave.others);
	-- as a rule no policy reaches the pool
	IF losing IS NULL OR NOT EXISTS (
		SELECT FROM rpq_store.profile_pool AS l JOIN rpq_store.queue AS q ON q.profile_id = l.profile_id
		WHERE l.pool_id = ANY (losing) AND l.state = 'provisioned' AND q.deleted_at IS NULL) THEN
		RETURN;
	END IF;
	WITH moved AS (
		SELECT n.pool_id, CASE WHEN n.node_id = ANY (check_nodes_leave.nodes) THEN check_nodes_leave.to_id
			ELSE check_nodes_leave.others_to END AS to_id, n.capacity
		FROM rpq_store.node AS n
		WHERE n.node_id = ANY (check_nodes_leave.nodes || check_nodes_leave.others) AND NOT n.removing)
	SELECT array_agg(c.pool_id), array_agg(c.amount) INTO pools, amounts
	FROM (SELECT m.pool_id, OPERATOR(rpq.-) rpq.sum(m.capacity) FROM moved AS m GROUP BY m.pool_id
		  UNION ALL
		  SELECT m.to_id, rpq.sum(m.capacity) FROM moved AS m WHERE m.to_id IS NOT NULL GROUP BY m.to_id)
		AS c (pool_id, amount);
	PERFORM rpq_store.check_reservations(rpq_store.shortages(losing),
		rpq_store.shortages(losing, false, pools, amounts));
END
$$;
COMMENT ON FUNCTION rpq_store.check_nodes_leave(bigint[], bigint, bigint[], bigint) IS
'refuses (RQ002) to take nodes out of their pools into another one (NULL: into none), and others into a second one, '
'when reservations could not be served then. The caller holds the turns';
-- Profiles: job sizes with the pools that may serve them, in routing order.
--
-- Writes profile and profile_pool.  What is saved is written under the row of the profile alone: no cycle reads it.
-- What is provisioned is written under the turns of the pools concerned, of before and after, and of the queues that
-- lead there; so is the end of a profile.

-- ---- finding, showing -----------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.find_profile(tenant_id bigint, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	home text := (SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = find_profile.tenant_id);
	own_name text := find_profile.name;
	found_id bigint;
BEGIN
	IF own_name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the profile must be given';
	ELSIF starts_with(own_name, home || '/') THEN
		own_name := substr(own_name, length(home) + 2);
	ELSIF strpos(own_name, '/') > 0 THEN
		PERFORM rpq_store.raise_gone('profile', find_profile.name);
	END IF;
	own_name := rpq_store.check_name('profile', own_name);
	SELECT f.profile_id INTO found_id FROM rpq_store.profile AS f
	WHERE f.tenant_id = find_profile.tenant_id AND f.name = own_name AND f.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', find_profile.name);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.find_profile(bigint, text) IS
'a profile of that tenant, for those who administer it. Errors: 42704, 22023 for NULL';

CREATE FUNCTION rpq_store.profile_pools(profile_id bigint, state text) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT l.pool_id FROM rpq_store.profile_pool AS l
				 JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
				 WHERE l.profile_id = $1 AND l.state = $2 ORDER BY l.rank)
$$;
COMMENT ON FUNCTION rpq_store.profile_pools(bigint, text) IS
'the pools of a profile in routing order, as saved or as provisioned; those that were deleted are none';

CREATE FUNCTION rpq_store.profile_settings(name text, resources rpq.resources, pools bigint[]) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('name', $1, 'resources', $2::text, 'pools',
		ARRAY(SELECT p.name FROM unnest($3) WITH ORDINALITY AS l (pool_id, rank)
			  JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id ORDER BY l.rank))
$$;
COMMENT ON FUNCTION rpq_store.profile_settings(text, rpq.resources, bigint[]) IS
'a profile as the history shows it';

-- ---- what may be saved ----------------------------------------------------------------------------------------------

-- What a submission is checked for, so that no queue has a size that nobody could submit.
CREATE FUNCTION rpq_store.check_size(resources rpq.resources) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
	devices numeric := check_size.resources OPERATOR(rpq.->) 'gpu';
BEGIN
	wrong := CASE
		WHEN check_size.resources IS NULL THEN 'resources must be given'
		WHEN check_size.resources OPERATOR(rpq.=) '' THEN 'resources must ask for something'
		WHEN EXISTS (SELECT FROM jsonb_each_text(check_size.resources::jsonb) AS a
					 WHERE a.value = '0' OR starts_with(a.value, '-'))
			THEN 'every amount of resources must be positive'
		WHEN devices > 1 AND devices <> trunc(devices) THEN 'gpu must be a whole number of devices or a part of one'
	END;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = wrong,
			DETAIL = format('It is %s.', coalesce(format('"%s"', check_size.resources), 'NULL'));
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_size(rpq.resources) IS
'refuses (22023) a size that no workload can have: nothing, amounts that are not positive, GPUs that are neither whole '
'devices nor a part of one';

CREATE FUNCTION rpq_store.check_routing(tenant_id bigint, pools text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids bigint[];
BEGIN
	IF check_routing.pools IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the pools must be given',
			DETAIL = 'It is an array of names in routing order.';
	END IF;
	SELECT array_agg(f.pool_id ORDER BY f.rank) INTO ids
	FROM (SELECT rpq_store.find_pool(rpq_store.in_tenant(check_routing.tenant_id, u.name)) AS pool_id,
			min(u.rank) AS rank
		  FROM unnest(check_routing.pools) WITH ORDINALITY AS u (name, rank) GROUP BY 1) AS f;
	IF EXISTS (SELECT FROM rpq_store.pool AS p
			   WHERE p.pool_id = ANY (ids) AND p.tenant_id <> check_routing.tenant_id) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the pools belong to another tenant';
	END IF;
	RETURN coalesce(ids, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.check_routing(bigint, text[]) IS
'the ids of pools of that tenant in the order given, repeats left out. Errors: 42704, 22023 for NULL or another tenant';

CREATE FUNCTION rpq_store.link_pools(profile_id bigint, state text, pools bigint[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.profile_pool AS l WHERE l.profile_id = $1 AND l.state = $2;
	INSERT INTO rpq_store.profile_pool (profile_id, pool_id, state, rank)
	SELECT $1, u.pool_id, $2, u.rank FROM unnest($3) WITH ORDINALITY AS u (pool_id, rank);
$$;
COMMENT ON FUNCTION rpq_store.link_pools(bigint, text, bigint[]) IS
'puts these pools in the place of those that a profile had, as saved or as provisioned';

-- ---- create, edit, delete -------------------------------------------------------------------------------------------

CREATE FUNCTION rpq.create_profile(name text, resources rpq.resources, pools text[],
	tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_profile'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_profile', tenant);
	new_name text;
	routing bigint[] := rpq_store.check_routing(home, create_profile.pools);
	made bigint;
BEGIN
	new_name := rpq_store.check_name('profile', create_profile.name);
	PERFORM rpq_store.check_size(create_profile.resources);
	INSERT INTO rpq_store.profile AS f (tenant_id, name, saved) VALUES (home, new_name, create_profile.resources)
	ON CONFLICT DO NOTHING RETURNING f.profile_id INTO made;
	IF made IS NULL THEN
		PERFORM rpq_store.raise_taken('profile', new_name);
	END IF;
	PERFORM rpq_store.link_pools(made, 'saved', routing);
	PERFORM rpq_store.record('create_profile', 'profile', made, new_name, home, NULL, NULL,
		rpq_store.profile_settings(new_name, create_profile.resources, routing));
	RETURN made;
END
$$;
COMMENT ON FUNCTION rpq.create_profile(text, rpq.resources, text[], text) IS
'saves a profile and returns its id; it is in force after provision_profiles. resources: what each replica takes. '
'pools: that may serve it, in routing order (repeats left out; none is saved, but not provisioned). tenant: NULL is '
'the caller''s, or the only one. Errors: 42704 no such pool or tenant, 42710 the name is taken, 22023 no size or name, '
'or none that a workload could have, 42501. Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq.edit_profile(profile text, name text DEFAULT NULL, resources rpq.resources DEFAULT NULL,
	pools text[] DEFAULT NULL, tenant text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('edit_profile', profile);
	was rpq_store.profile;
	now_is rpq_store.profile;
	routing bigint[];
	new_routing bigint[];
BEGIN
	SELECT f.* INTO was FROM rpq_store.profile AS f WHERE f.profile_id = id AND f.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', profile);
	END IF;
	IF tenant IS NOT NULL AND rpq_store.tenant_of(tenant) <> was.tenant_id THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a profile cannot change its tenant';
	END IF;
	routing := rpq_store.profile_pools(id, 'saved');
	new_routing := CASE
		WHEN cardinality(rpq_store.clearing(edit_profile.clear, '{pools}',
			CASE WHEN edit_profile.pools IS NOT NULL THEN '{pools}'::text[] END)) > 0 THEN '{}'
		WHEN edit_profile.pools IS NULL THEN routing
		ELSE rpq_store.check_routing(was.tenant_id, edit_profile.pools) END;
	now_is := was;
	now_is.name := rpq_store.check_name('profile', coalesce(edit_profile.name, was.name));
	now_is.saved := coalesce(edit_profile.resources, was.saved);
	PERFORM rpq_store.check_size(now_is.saved);
	IF now_is.name <> was.name AND EXISTS (SELECT FROM rpq_store.profile AS f
			WHERE f.tenant_id = was.tenant_id AND f.name = now_is.name AND f.deleted_at IS NULL) THEN
		PERFORM rpq_store.raise_taken('profile', now_is.name);
	END IF;
	BEGIN
		UPDATE rpq_store.profile AS f SET name = now_is.name, saved = now_is.saved WHERE f.profile_id = id;
	EXCEPTION WHEN unique_violation THEN	-- somebody was faster
		PERFORM rpq_store.raise_taken('profile', now_is.name);
	END;
	PERFORM rpq_store.link_pools(id, 'saved', new_routing) WHERE new_routing <> routing;
	PERFORM rpq_store.record('edit_profile', 'profile', id, now_is.name, was.tenant_id, NULL,
		rpq_store.profile_settings(was.name, was.saved, routing),
		rpq_store.profile_settings(now_is.name, now_is.saved, new_routing));
END
$$;
COMMENT ON FUNCTION rpq.edit_profile(text, text, rpq.resources, text[], text, text[]) IS
'saves changes of a profile; NULL stays as it is. A new name holds at once; resources and pools (all of them, in '
'routing order) after provision_profiles, until when reset_profiles drops them. clear: ''{pools}''. tenant may be '
'given but not changed (22023). Errors: 42704 no such profile or pool, 42710 the name is taken, 22023, 42501. '
'Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq.delete_profile(profile text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_profile', profile);
	was rpq_store.profile;
	scopes bigint[] := rpq_store.profile_pools(id, 'provisioned');
	routing bigint[];
	queues text;
BEGIN
	-- who connects it takes the turns of its pools too
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	SELECT f.* INTO was FROM rpq_store.profile AS f WHERE f.profile_id = id AND f.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', profile);
	END IF;
	PERFORM rpq_store.take_more(rpq_store.profile_pools(id, 'provisioned'), scopes);
	SELECT string_agg(format('queue "%s" of policy "%s"', q.name, y.name), ', ' ORDER BY q.name) INTO queues
	FROM rpq_store.queue AS q JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
	WHERE q.profile_id = id AND q.deleted_at IS NULL;
	IF queues IS NOT NULL THEN
		PERFORM rpq_store.raise_in_use('profile', was.name, queues);
	END IF;
	routing := rpq_store.profile_pools(id, 'saved');
	DELETE FROM rpq_store.profile_pool AS l WHERE l.profile_id = id;
	UPDATE rpq_store.profile AS f SET deleted_at = rpq.now() WHERE f.profile_id = id;
	PERFORM rpq_store.record('delete_profile', 'profile', id, was.name, was.tenant_id, NULL,
		rpq_store.profile_settings(was.name, was.saved, routing), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_profile(text) IS
'deletes a profile at once, without provisioning. Errors: RQ006 while it is connected to a policy (the errdetail names '
'the queues), 42704, 22023 NULL, 42501, RQ009 fenced. Organisation admins of the tenant, platform admins';

-- Others may be held by who waits for ours, so they are not waited for.
CREATE FUNCTION rpq_store.take_more(needed bigint[], taken bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing bigint[] := ARRAY(SELECT DISTINCT u.scope_id FROM unnest(take_more.needed) AS u (scope_id)
							  WHERE u.scope_id <> ALL (take_more.taken) ORDER BY 1);
BEGIN
	IF missing = '{}' THEN
		RETURN take_more.taken;
	ELSIF NOT rpq_store.try_turns(rpq_store.connected(missing)) THEN
		RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'profiles or policies changed during the call',
			HINT = 'Try the transaction again.';
	END IF;
	PERFORM rpq_store.take_turns(missing);
	RETURN take_more.taken || missing;
END
$$;
COMMENT ON FUNCTION rpq_store.take_more(bigint[], bigint[]) IS
'takes the turns of scopes that are needed beside those that were taken, because somebody tied them together '
'meanwhile; 40001 when somebody else has one. Returns all';

-- ---- validate, provision, reset -------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.changed_profiles(tenant_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(
		SELECT f.profile_id FROM rpq_store.profile AS f
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL
		  AND (f.provisioned IS NULL OR f.provisioned OPERATOR(rpq.<>) f.saved
			OR rpq_store.profile_pools(f.profile_id, 'saved')
				<> rpq_store.profile_pools(f.profile_id, 'provisioned'))
		ORDER BY f.profile_id)
$$;
COMMENT ON FUNCTION rpq_store.changed_profiles(bigint) IS
'the profiles of a tenant of which something is saved that is not in force';

CREATE FUNCTION rpq_store.profile_problems(tenant_id bigint) RETURNS TABLE (profile text, problem text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.name, o.problem
	FROM (
		SELECT f.name, 0, 'no pool is linked'
		FROM rpq_store.profile AS f
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL AND rpq_store.profile_pools(f.profile_id, 'saved') = '{}'
		UNION ALL
		SELECT f.name, l.rank, CASE
			WHEN EXISTS (SELECT FROM rpq_store.pool_capacity AS c WHERE c.pool_id = p.pool_id)
			THEN format('%s fits no node of pool "%s"', f.saved, p.name)
			ELSE format('pool "%s" has no node', p.name) END
		FROM rpq_store.profile AS f
		JOIN rpq_store.profile_pool AS l ON l.profile_id = f.profile_id AND l.state = 'saved'
		JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL
		  AND NOT EXISTS (SELECT FROM rpq_store.pool_capacity AS c
						  WHERE c.pool_id = p.pool_id AND f.saved OPERATOR(rpq.<@) c.capacity)
		UNION ALL
		SELECT f.name, 2147483647, format('%s is more than %s, the limit of policy "%s", to which it is connected',
			f.saved, y.usage_limit, y.name)
		FROM rpq_store.profile AS f
		JOIN rpq_store.queue AS q ON q.profile_id = f.profile_id AND q.deleted_at IS NULL
		JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL AND f.provisioned OPERATOR(rpq.<>) f.saved
		  AND NOT rpq.within(f.saved, y.usage_limit)
	) AS o (name, place, problem)
	ORDER BY o.name, o.place, o.problem
$$;
COMMENT ON FUNCTION rpq_store.profile_problems(bigint) IS
'what is wrong with the profiles of a tenant as they are saved: no pool, a size that fits no node of a linked pool, a '
'new size beyond the limit of a policy that it is connected to';

CREATE FUNCTION rpq.validate_profiles(tenant text DEFAULT NULL)
RETURNS TABLE (profile text, problem text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	home bigint := rpq_store.authorize('validate_profiles', tenant);
BEGIN
	RETURN QUERY SELECT w.profile, w.problem FROM rpq_store.profile_problems(home) AS w;
END
$$;
COMMENT ON FUNCTION rpq.validate_profiles(text) IS
'what is wrong with the profiles of a tenant (NULL: the caller''s, or the only one) as they are saved, a row for each '
'problem: no pool is linked, the size fits no node of a linked pool, or a new size is beyond the limit of a policy '
'that the profile is connected to. Errors: 42704, 42501. Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq_store.profile_scopes(profiles bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(
		SELECT l.pool_id FROM rpq_store.profile_pool AS l
		JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
		WHERE l.profile_id = ANY ($1)
		UNION
		SELECT q.queue_id FROM rpq_store.queue AS q WHERE q.profile_id = ANY ($1) AND q.deleted_at IS NULL
		ORDER BY 1)
$$;
COMMENT ON FUNCTION rpq_store.profile_scopes(bigint[]) IS
'the pools of these profiles, saved and provisioned, and their queues';

CREATE FUNCTION rpq_store.take_profiles(tenant_id bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	due bigint[] := rpq_store.changed_profiles(take_profiles.tenant_id);
	scopes bigint[] := rpq_store.profile_scopes(due);
BEGIN
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	PERFORM f.profile_id FROM rpq_store.profile AS f WHERE f.profile_id = ANY (due) ORDER BY f.profile_id
	FOR NO KEY UPDATE;
	SELECT array_agg(d.id ORDER BY d.id) INTO due
	FROM unnest(rpq_store.changed_profiles(take_profiles.tenant_id)) AS d (id) WHERE d.id = ANY (due);
	PERFORM rpq_store.take_more(rpq_store.profile_scopes(due), scopes);
	RETURN coalesce(due, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.take_profiles(bigint) IS
'the profiles of a tenant that are to be provisioned, after the turns of their pools and queues and their rows were '
'taken; 40001 when they changed meanwhile and the turns cannot be had';

CREATE FUNCTION rpq.provision_profiles(tenant text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'provision_profiles'
AS $$
DECLARE
	home bigint := rpq_store.authorize('provision_profiles', tenant);
	due bigint[] := rpq_store.take_profiles(home);
	problems text;
	pools bigint[];
	before jsonb;
	was rpq_store.profile;
	routing bigint[];
	new_routing bigint[];
BEGIN
	SELECT string_agg(format('Profile "%s": %s.', w.profile, w.problem), ' ') INTO problems
	FROM rpq_store.profile_problems(home) AS w;
	IF problems IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'profiles cannot be provisioned', DETAIL = problems,
			HINT = 'Nothing was changed. Edit these profiles, or drop what is saved with rpq.reset_profiles().';
	END IF;
	pools := rpq_store.profile_scopes(due);
	before := rpq_store.shortages(pools);
	FOR was IN SELECT f.* FROM rpq_store.profile AS f WHERE f.profile_id = ANY (due) ORDER BY f.profile_id LOOP
		routing := rpq_store.profile_pools(was.profile_id, 'provisioned');
		new_routing := rpq_store.profile_pools(was.profile_id, 'saved');
		UPDATE rpq_store.profile AS f SET provisioned = was.saved WHERE f.profile_id = was.profile_id;
		PERFORM rpq_store.link_pools(was.profile_id, 'provisioned', new_routing);
		PERFORM rpq_store.record('provision_profiles', 'profile', was.profile_id, was.name, home, NULL,
			rpq_store.profile_settings(was.name, was.provisioned, routing),
			rpq_store.profile_settings(was.name, was.saved, new_routing));
	END LOOP;
	PERFORM rpq_store.check_reservations(before, rpq_store.shortages(pools));
	RETURN cardinality(due);
END
$$;
COMMENT ON FUNCTION rpq.provision_profiles(text) IS
'puts the profiles of a tenant (NULL: the caller''s, or the only one) in force as they are saved, all or none; returns '
'how many changed. Workloads that wait keep the size that they were submitted with, and are routed anew. Errors: 22023 '
'with all that validate_profiles lists in the errdetail, RQ002 reservations could not be served by the pools that are '
'left, 40001 somebody changed profiles at the same time, 42704, 42501, RQ009 fenced. Organisation admins of the '
'tenant, platform admins';

CREATE FUNCTION rpq.reset_profiles(tenant text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'reset_profiles'
AS $$
DECLARE
	home bigint := rpq_store.authorize('reset_profiles', tenant);
	was rpq_store.profile;
	routing bigint[];
	new_routing bigint[];
	changed int := 0;
BEGIN
	FOR was IN
		SELECT f.* FROM rpq_store.profile AS f
		WHERE f.profile_id = ANY (rpq_store.changed_profiles(home)) AND f.provisioned IS NOT NULL
		ORDER BY f.profile_id FOR NO KEY UPDATE
	LOOP
		routing := rpq_store.profile_pools(was.profile_id, 'saved');
		new_routing := rpq_store.profile_pools(was.profile_id, 'provisioned');
		UPDATE rpq_store.profile AS f SET saved = was.provisioned WHERE f.profile_id = was.profile_id;
		PERFORM rpq_store.link_pools(was.profile_id, 'saved', new_routing);
		PERFORM rpq_store.record('reset_profiles', 'profile', was.profile_id, was.name, home, NULL,
			rpq_store.profile_settings(was.name, was.saved, routing),
			rpq_store.profile_settings(was.name, was.provisioned, new_routing));
		changed := changed + 1;
	END LOOP;
	RETURN changed;
END
$$;
COMMENT ON FUNCTION rpq.reset_profiles(text) IS
'drops what is saved and not provisioned of the profiles of a tenant (NULL: the caller''s, or the only one): size and '
'pools are again those in force; returns how many changed. A profile that was never provisioned stays as it is saved. '
'Errors: 42704, 42501. Organisation admins of the tenant, platform admins';
-- Policies: what is promised to a user group, and the most that it may hold.
--
-- Writes policy, and of workloads that wait in its queues what becomes draft, under the turns of these queues and of
-- the pools that they reach; then the row of the policy, which keeps apart changes of one that has no queue yet.

-- ---- finding, showing -----------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.policy_settings(subject rpq_store.policy) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('name', ($1).name, 'description', ($1).description,
		'user_group', (SELECT g.name FROM rpq_store.user_group AS g WHERE g.group_id = ($1).group_id),
		'reservation', ($1).reservation::text, 'usage_limit', ($1).usage_limit::text, 'lending', ($1).lending)
$$;
COMMENT ON FUNCTION rpq_store.policy_settings(rpq_store.policy) IS
'a policy as the history shows it';

CREATE FUNCTION rpq_store.policy_queues(policy_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT q.queue_id FROM rpq_store.queue AS q
				 WHERE q.policy_id = $1 AND q.deleted_at IS NULL ORDER BY q.queue_id)
$$;
COMMENT ON FUNCTION rpq_store.policy_queues(bigint) IS
'the queues of a policy';

CREATE FUNCTION rpq_store.policy_pools(policy_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT DISTINCT l.pool_id FROM rpq_store.queue AS q
				 JOIN rpq_store.profile_pool AS l ON l.profile_id = q.profile_id AND l.state = 'provisioned'
				 JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
				 WHERE q.policy_id = $1 AND q.deleted_at IS NULL ORDER BY l.pool_id)
$$;
COMMENT ON FUNCTION rpq_store.policy_pools(bigint) IS
'the pools that the queues of a policy reach';

CREATE FUNCTION rpq_store.take_policy(policy_id bigint, name text, others bigint[] DEFAULT '{}')
RETURNS rpq_store.policy
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[];
	needed bigint[];
	subject rpq_store.policy;
BEGIN
	SELECT array_agg(DISTINCT s.scope_id ORDER BY s.scope_id) INTO scopes
	FROM unnest(rpq_store.policy_queues(take_policy.policy_id) || rpq_store.policy_pools(take_policy.policy_id)
		|| take_policy.others) AS s (scope_id);
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	SELECT y.* INTO subject FROM rpq_store.policy AS y
	WHERE y.policy_id = take_policy.policy_id AND y.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('policy', take_policy.name);
	END IF;
	-- with the policy's row no queue comes or goes; profiles may until the turns of what they reach are ours
	LOOP
		needed := rpq_store.policy_queues(take_policy.policy_id) || rpq_store.policy_pools(take_policy.policy_id);
		EXIT WHEN needed <@ scopes OR needed = '{}';
		scopes := rpq_store.take_more(needed, coalesce(scopes, '{}'));
	END LOOP;
	RETURN subject;
END
$$;
COMMENT ON FUNCTION rpq_store.take_policy(bigint, text, bigint[]) IS
'takes the turns of all queues of a policy, of the pools that they reach and of the others given, in one call, then '
'the policy''s row, which is returned; 42704 when it was deleted meanwhile, 40001 when its queues '
'changed meanwhile and their turns cannot be had';

-- ---- checks ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.check_policy(subject rpq_store.policy) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF subject.lending NOT IN ('lend', 'hold') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'lending must be lend or hold';
	ELSIF length(subject.description) > 10000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'description must have at most 10000 characters';
	END IF;
	PERFORM rpq_store.check_quota('reservation', subject.reservation);
	PERFORM rpq_store.check_quota('usage_limit', subject.usage_limit);
	IF NOT rpq.within(subject.reservation, subject.usage_limit) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the reservation must be within the limit',
			DETAIL = format('The reservation is %s, the limit %s.', subject.reservation, subject.usage_limit),
			HINT = 'A key that the limit does not name is not limited.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_policy(rpq_store.policy) IS
'refuses (22023) settings that a policy cannot have: amounts below zero, a reservation beyond the limit in some key';

CREATE FUNCTION rpq_store.find_group(tenant_id bigint, name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	home text := (SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = find_group.tenant_id);
	own_name text := find_group.name;
	found_id bigint;
BEGIN
	IF own_name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the user group must be given';
	ELSIF starts_with(own_name, home || '/') THEN
		own_name := substr(own_name, length(home) + 2);
	ELSIF strpos(own_name, '/') > 0 THEN
		PERFORM rpq_store.raise_gone('user group', find_group.name);
	END IF;
	own_name := rpq_store.check_name('user group', own_name);
	-- keeps out delete_user_group
	SELECT g.group_id INTO found_id FROM rpq_store.user_group AS g
	WHERE g.tenant_id = find_group.tenant_id AND g.name = own_name FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', find_group.name);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.find_group(bigint, text) IS
'a user group of that tenant, for those who administer it. Errors: 42704, 22023 for NULL';

CREATE FUNCTION rpq_store.draft_outsiders(queues bigint[], detail text) RETURNS int
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(sum(rpq_store.draft_queued(o.scope_id, o.account_id, 'not_authorized', $2)), 0)::int
	FROM (SELECT DISTINCT w.scope_id, w.account_id
		  FROM rpq_store.workload AS w
		  JOIN rpq_store.queue AS q ON q.queue_id = w.scope_id
		  JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
		  WHERE w.scope_id = ANY ($1) AND w.status = 'queued'
			AND NOT EXISTS (SELECT FROM rpq_store.group_account AS g
							WHERE g.group_id = y.group_id AND g.account_id = w.account_id)) AS o
$$;
COMMENT ON FUNCTION rpq_store.draft_outsiders(bigint[], text) IS
'makes drafts of what waits in these queues of accounts that are not in the policy''s group; returns how many. A row '
'that its client keeps locked is passed over: no cycle admits it, since the right is checked again. The caller holds '
'the turns';

-- ---- create, edit, delete -------------------------------------------------------------------------------------------

CREATE FUNCTION rpq.create_policy(name text, user_group text, reservation rpq.resources DEFAULT NULL,
	usage_limit rpq.resources DEFAULT NULL, lending text DEFAULT NULL, description text DEFAULT NULL,
	tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_policy'
AS $$
DECLARE
	subject rpq_store.policy;
BEGIN
	subject.tenant_id := rpq_store.authorize('create_policy', create_policy.tenant);
	subject.group_id := rpq_store.find_group(subject.tenant_id, create_policy.user_group);
	subject.name := rpq_store.check_name('policy', create_policy.name);
	subject.reservation := coalesce(create_policy.reservation, '');
	subject.usage_limit := create_policy.usage_limit;
	subject.lending := coalesce(create_policy.lending, 'lend');
	subject.description := create_policy.description;
	PERFORM rpq_store.check_policy(subject);
	INSERT INTO rpq_store.policy AS y (tenant_id, group_id, name, description, reservation, usage_limit, lending)
	VALUES (subject.tenant_id, subject.group_id, subject.name, subject.description, subject.reservation,
		subject.usage_limit, subject.lending)
	ON CONFLICT DO NOTHING RETURNING y.policy_id INTO subject.policy_id;
	IF subject.policy_id IS NULL THEN
		PERFORM rpq_store.raise_taken('policy', subject.name);
	END IF;
	PERFORM rpq_store.record('create_policy', 'policy', subject.policy_id, subject.name, subject.tenant_id, NULL, NULL,
		rpq_store.policy_settings(subject));
	RETURN subject.policy_id;
END
$$;
COMMENT ON FUNCTION rpq.create_policy(text, text, rpq.resources, rpq.resources, text, text, text) IS
'makes a policy for a user group and returns its id. reservation: what is kept available for the group over all pools '
'that its profiles reach (default none); it counts from the first connected profile on. usage_limit: the most that its '
'queues may hold at once; a key that it lacks is not limited, NULL limits nothing. lending: lend (default) lets others '
'use what is not met of the reservation until it is asked for, hold does not. tenant: NULL is the caller''s, or the '
'only one. Errors: 42704 no such group or tenant, 42710 the name is taken, 22023 bad argument, an amount below zero, '
'or a reservation beyond the limit in some key, 42501, RQ009 fenced. Organisation admins of the tenant, platform '
'admins';

CREATE FUNCTION rpq.edit_policy(policy text, name text DEFAULT NULL, user_group text DEFAULT NULL,
	reservation rpq.resources DEFAULT NULL, usage_limit rpq.resources DEFAULT NULL, lending text DEFAULT NULL,
	description text DEFAULT NULL, tenant text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_policy'
AS $$
DECLARE
	id bigint := rpq_store.authorize('edit_policy', policy);
	was rpq_store.policy := rpq_store.take_policy(id, policy);
	now_is rpq_store.policy := was;
	cleared text[];
	pools bigint[];
	before jsonb;
BEGIN
	IF tenant IS NOT NULL AND rpq_store.tenant_of(tenant) <> was.tenant_id THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a policy cannot change its tenant';
	END IF;
	IF edit_policy.user_group IS NOT NULL THEN
		now_is.group_id := rpq_store.find_group(was.tenant_id, edit_policy.user_group);
	END IF;
	cleared := rpq_store.clearing(edit_policy.clear, '{reservation,usage_limit,description}', ARRAY(
		SELECT g.key FROM jsonb_each(jsonb_strip_nulls(jsonb_build_object('reservation', edit_policy.reservation::text,
			'usage_limit', edit_policy.usage_limit::text, 'description', edit_policy.description))) AS g));
	now_is.name := rpq_store.check_name('policy', coalesce(edit_policy.name, was.name));
	now_is.reservation := CASE WHEN 'reservation' = ANY (cleared) THEN ''
		ELSE coalesce(edit_policy.reservation, was.reservation) END;
	now_is.usage_limit := CASE WHEN 'usage_limit' <> ALL (cleared) THEN
		coalesce(edit_policy.usage_limit, was.usage_limit) END;
	now_is.description := CASE WHEN 'description' <> ALL (cleared) THEN
		coalesce(edit_policy.description, was.description) END;
	now_is.lending := coalesce(edit_policy.lending, was.lending);
	PERFORM rpq_store.check_policy(now_is);
	pools := rpq_store.policy_pools(id);
	before := rpq_store.shortages(pools);
	PERFORM rpq_store.write_policy(now_is);
	-- lowering is never refused
	IF NOT now_is.reservation OPERATOR(rpq.<@) was.reservation THEN
		PERFORM rpq_store.check_reservations(before, rpq_store.shortages(pools));
	END IF;
	IF now_is.group_id <> was.group_id THEN
		PERFORM rpq_store.draft_outsiders(rpq_store.policy_queues(id),
			format('policy "%s" is for another user group now', now_is.name));
	END IF;
	PERFORM rpq_store.record('edit_policy', 'policy', id, now_is.name, was.tenant_id, NULL,
		rpq_store.policy_settings(was), rpq_store.policy_settings(now_is));
END
$$;
COMMENT ON FUNCTION rpq.edit_policy(text, text, text, rpq.resources, rpq.resources, text, text, text, text[]) IS
'changes a policy; NULL stays as it is, clear names reservation, usage_limit, description to be set back to none. '
'Below what is in use nothing is stopped and nothing more admitted until it holds. With another user group, what '
'accounts outside of it have waiting in its queues becomes draft. tenant may be given but not changed (22023). Errors: '
'42704 no such policy or group, 42710 the name is taken, 22023, RQ002 a raised reservation could not be served by what '
'the reachable pools hold (the errdetail names the policies and both figures), 40001 its queues changed at the same '
'time, 42501, RQ009 fenced. Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq_store.write_policy(subject rpq_store.policy) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE rpq_store.policy AS y SET name = subject.name, group_id = subject.group_id,
		description = subject.description, reservation = subject.reservation, usage_limit = subject.usage_limit,
		lending = subject.lending
	WHERE y.policy_id = subject.policy_id;
EXCEPTION WHEN unique_violation THEN
	PERFORM rpq_store.raise_taken('policy', subject.name);
END
$$;
COMMENT ON FUNCTION rpq_store.write_policy(rpq_store.policy) IS
'writes the settings of a policy; 42710 when its name is taken, also in a race';

CREATE FUNCTION rpq.delete_policy(policy text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_policy'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_policy', policy);
	was rpq_store.policy := rpq_store.take_policy(id, policy);
	queues bigint[] := rpq_store.policy_queues(id);
	names jsonb;
BEGIN
	SELECT coalesce(jsonb_agg(q.name ORDER BY q.name), '[]') INTO names
	FROM rpq_store.queue AS q WHERE q.queue_id = ANY (queues);
	PERFORM rpq_store.end_queues(queues, format('policy "%s" was deleted', was.name));
	UPDATE rpq_store.policy AS y SET deleted_at = rpq.now() WHERE y.policy_id = id;
	PERFORM rpq_store.record('delete_policy', 'policy', id, was.name, was.tenant_id, NULL,
		rpq_store.policy_settings(was) || jsonb_build_object('queues', names), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_policy(text) IS
'deletes a policy with all its queues: what waits in them becomes draft, what runs goes on, charged to it until it '
'ends. Its name and those of its queues are free at once. Errors: 42704, 22023 NULL, 40001 its queues changed at the '
'same time, 42501, RQ009 fenced. Organisation admins of the tenant, platform admins';
-- Queues: the doors that connect a policy with a profile.
--
-- Writes queue, turn (of a new one) and what waits in one that ends, under the turns of the policy's queues, of the
-- pools that they reach, and of those of the profile: all in one call, since a connection ties them together.

CREATE FUNCTION rpq_store.connection_problem(subject rpq_store.policy, door rpq_store.profile) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		WHEN ($2).provisioned IS NULL THEN 'it is not provisioned'
		WHEN rpq_store.profile_pools(($2).profile_id, 'provisioned') = '{}' THEN 'no pool is left that serves it'
		WHEN NOT rpq.within(($2).provisioned, ($1).usage_limit) THEN
			format('it asks for %s, the limit of the policy is %s', ($2).provisioned, ($1).usage_limit)
	END
$$;
COMMENT ON FUNCTION rpq_store.connection_problem(rpq_store.policy, rpq_store.profile) IS
'why a profile cannot be connected to a policy, in words; NULL when it can';

CREATE FUNCTION rpq.connectable_profiles(policy text)
RETURNS TABLE (profile text, resources rpq.resources, selectable boolean, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	id bigint := rpq_store.authorize('connectable_profiles', policy);
BEGIN
	RETURN QUERY
	SELECT f.name::text, f.provisioned, w.problem IS NULL, w.problem
	FROM rpq_store.policy AS y
	JOIN rpq_store.profile AS f ON f.tenant_id = y.tenant_id AND f.deleted_at IS NULL AND f.provisioned IS NOT NULL
	CROSS JOIN LATERAL rpq_store.connection_problem(y, f) AS w (problem)
	WHERE y.policy_id = id
	  AND NOT EXISTS (SELECT FROM rpq_store.queue AS q
					  WHERE q.policy_id = id AND q.profile_id = f.profile_id AND q.deleted_at IS NULL)
	ORDER BY f.name;
END
$$;
COMMENT ON FUNCTION rpq.connectable_profiles(text) IS
'the provisioned profiles of the policy''s tenant that are not yet connected to it, as they are in force: selectable '
'says whether connect_profile takes them, reason why not (larger than the limit of the policy; no pool is left). '
'Errors: 42704, 22023 NULL, 42501. Organisation admins of the tenant, platform admins';

CREATE FUNCTION rpq_store.refuse_connection(subject rpq_store.policy, door rpq_store.profile) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known text;
	problem text := rpq_store.connection_problem(subject, door);
BEGIN
	SELECT q.name INTO known FROM rpq_store.queue AS q
	WHERE q.policy_id = subject.policy_id AND q.profile_id = door.profile_id AND q.deleted_at IS NULL;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '42710',
			MESSAGE = format('profile "%s" is already connected to policy "%s"', door.name, subject.name),
			DETAIL = format('Its queue is "%s".', known);
	ELSIF problem IS NOT NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = CASE WHEN rpq.within(door.provisioned, subject.usage_limit) IS FALSE THEN 'RQ002'
						   ELSE '22023' END,
			MESSAGE = format('profile "%s" cannot be connected to policy "%s"', door.name, subject.name),
			DETAIL = upper(left(problem, 1)) || substr(problem, 2) || '.',
			HINT = CASE WHEN door.provisioned IS NULL THEN 'Provision it with rpq.provision_profiles().'
						WHEN rpq.within(door.provisioned, subject.usage_limit) IS FALSE THEN
							'Raise the limit, or choose a smaller profile.'
						ELSE 'Link a pool to it, and provision it.' END;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_connection(rpq_store.policy, rpq_store.profile) IS
'refuses a profile that is already connected (42710), not provisioned or without pool (22023), larger than the limit '
'(RQ002)';

-- A trap: what fits in no reservation never takes room back.
CREATE FUNCTION rpq_store.warn_of_unnamed_keys(subject rpq_store.policy, door rpq_store.profile) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	unnamed text := (SELECT string_agg(k.key, ', ' ORDER BY k.key)
		FROM jsonb_object_keys(door.provisioned::jsonb) AS k (key)
		WHERE NOT jsonb_exists(subject.reservation::jsonb, k.key));
BEGIN
	IF unnamed IS NOT NULL AND EXISTS (SELECT FROM jsonb_object_keys(subject.reservation::jsonb)) THEN
		RAISE NOTICE USING MESSAGE = format('the reservation of policy "%s" does not cover jobs of profile "%s"',
				subject.name, door.name),
			DETAIL = format('The jobs ask for %s, of which the policy reserves nothing.', unnamed),
			HINT = 'Name every key of the jobs in the reservation, else they have no claim to it.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.warn_of_unnamed_keys(rpq_store.policy, rpq_store.profile) IS
'says (NOTICE) that a reservation lacks a key which the profile asks for: such jobs have no part in it';

CREATE FUNCTION rpq.connect_profile(policy text, profile text, queue text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'connect_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('connect_profile', policy);
	subject rpq_store.policy;
	door rpq_store.profile;
	door_id bigint;
	new_name text;
	scopes bigint[];
	pools bigint[];
	before jsonb;
	made bigint;
BEGIN
	SELECT y.* INTO subject FROM rpq_store.policy AS y WHERE y.policy_id = id;
	door_id := rpq_store.find_profile(subject.tenant_id, connect_profile.profile);
	new_name := rpq_store.check_name('queue', connect_profile.queue);
	scopes := rpq_store.profile_scopes(ARRAY[door_id]);
	subject := rpq_store.take_policy(id, policy, scopes);
	WHILE NOT rpq_store.profile_pools(door_id, 'provisioned') <@ scopes LOOP
		scopes := rpq_store.take_more(rpq_store.profile_pools(door_id, 'provisioned'), scopes);
	END LOOP;
	SELECT f.* INTO door FROM rpq_store.profile AS f WHERE f.profile_id = door_id AND f.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', connect_profile.profile);
	END IF;
	PERFORM rpq_store.refuse_connection(subject, door);
	pools := rpq_store.policy_pools(id) || rpq_store.profile_pools(door_id, 'provisioned');
	before := rpq_store.shortages(pools);
	INSERT INTO rpq_store.queue AS q (tenant_id, policy_id, profile_id, name)
	VALUES (subject.tenant_id, id, door_id, new_name)
	ON CONFLICT DO NOTHING RETURNING q.queue_id INTO made;
	IF made IS NULL THEN
		PERFORM rpq_store.raise_taken('queue', new_name);
	END IF;
	PERFORM rpq_store.new_scope(made);
	PERFORM rpq_store.check_reservations(before, rpq_store.shortages(pools));
	PERFORM rpq_store.warn_of_unnamed_keys(subject, door);
	PERFORM rpq_store.record('connect_profile', 'queue', made, new_name, subject.tenant_id, NULL, NULL,
		jsonb_build_object('name', new_name, 'policy', subject.name, 'profile', door.name));
	RETURN made;
END
$$;
COMMENT ON FUNCTION rpq.connect_profile(text, text, text) IS
'connects a profile to a policy by a new queue, into which the group''s members submit; returns the queue''s id. '
'queue: its name, unique in the tenant. Refused, in this order: 42704 no such policy or profile, 22023 no or no '
'possible name, 42710 it is already connected, 22023 not provisioned, RQ002 it asks for more than the limit, 42710 the '
'name is taken, RQ002 reservations could not be served by what the reachable pools hold (the errdetail names policies '
'that exceed it, with both figures); 40001 policy or profile changed at the same time, 42501, RQ009 fenced. '
'Organisation admins of the tenant, platform admins';

-- What a client has in hand of it follows with a later cycle (draft_late).
CREATE FUNCTION rpq_store.end_queues(queues bigint[], detail text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.queue AS q SET deleted_at = rpq.now() WHERE q.queue_id = ANY ($1);
	SELECT rpq_store.draft_queued(u.queue_id, NULL, 'queue_deleted', $2) FROM unnest($1) AS u (queue_id);
$$;
COMMENT ON FUNCTION rpq_store.end_queues(bigint[], text) IS
'deletes queues: what waits in them becomes draft with this reason, what runs goes on. The caller holds their turns, '
'which stay';

CREATE FUNCTION rpq.disconnect_profile(policy text, profile text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'disconnect_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('disconnect_profile', policy);
	subject rpq_store.policy;
	door rpq_store.profile;
	gone rpq_store.queue;
BEGIN
	SELECT f.* INTO door FROM rpq_store.profile AS f
	WHERE f.profile_id = rpq_store.find_profile((SELECT y.tenant_id FROM rpq_store.policy AS y WHERE y.policy_id = id),
		disconnect_profile.profile);
	subject := rpq_store.take_policy(id, policy);
	SELECT q.* INTO gone FROM rpq_store.queue AS q
	WHERE q.policy_id = id AND q.profile_id = door.profile_id AND q.deleted_at IS NULL;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '42704',
			MESSAGE = format('profile "%s" is not connected to policy "%s"', door.name, subject.name);
	END IF;
	PERFORM rpq_store.end_queues(ARRAY[gone.queue_id],
		format('profile "%s" was disconnected from policy "%s"', door.name, subject.name));
	PERFORM rpq_store.record('disconnect_profile', 'queue', gone.queue_id, gone.name, gone.tenant_id, NULL,
		jsonb_build_object('name', gone.name, 'policy', subject.name, 'profile', door.name), NULL);
END
$$;
COMMENT ON FUNCTION rpq.disconnect_profile(text, text) IS
'takes a profile away from a policy and deletes their queue: what waits in it becomes draft, what runs goes on, '
'charged to the policy until it ends. Errors: 42704 no such policy or profile, or they are not connected; 22023 NULL; '
'40001 the queues of the policy changed at the same time; 42501; RQ009 fenced. Organisation admins of the tenant, '
'platform admins';

CREATE FUNCTION rpq.set_pod_template(queue text, template jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'set_pod_template'
AS $$
DECLARE
	id bigint := rpq_store.authorize('set_pod_template', queue);
	was rpq_store.queue;
BEGIN
	IF jsonb_typeof(template) <> 'object' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'template must be a JSON object',
			DETAIL = format('It is a JSON %s.', jsonb_typeof(template));
	END IF;
	SELECT q.* INTO was FROM rpq_store.queue AS q WHERE q.queue_id = id AND q.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('queue', queue);
	END IF;
	UPDATE rpq_store.queue AS q SET pod_template = template
	WHERE q.queue_id = id AND q.pod_template IS DISTINCT FROM template;
	PERFORM rpq_store.record('set_pod_template', 'queue', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('pod_template', was.pod_template), jsonb_build_object('pod_template', template));
END
$$;
COMMENT ON FUNCTION rpq.set_pod_template(text, jsonb) IS
'keeps a template of pods for a queue, a JSON object that executors may ask for; NULL takes it away. Errors: 42704, '
'22023 NULL or no object, 42501. Organisation admins of the tenant, platform admins';
-- Operations: asking for one, cancelling it, trying it again, waiting for it.  operation_runs.sql carries them out.
--
-- Writes operation and operation_pool, and the status of the operation's pool, under the turns of the pools concerned;
-- the turns come first, in id order, the operation's row after them.

CREATE FUNCTION rpq_store.operation_scopes(operation_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT array_agg(DISTINCT s.scope_id ORDER BY s.scope_id)
	FROM (SELECT o.pool_id FROM rpq_store.operation AS o WHERE o.operation_id = $1
		  UNION SELECT h.pool_id FROM rpq_store.operation_pool AS h WHERE h.operation_id = $1
		  UNION SELECT CAST(a.value AS bigint)
		  FROM rpq_store.operation AS o, jsonb_each_text(o.arguments) AS a
		  WHERE o.operation_id = $1 AND a.key IN ('source_id', 'target_id')) AS s (scope_id)
	WHERE s.scope_id IS NOT NULL
$$;
COMMENT ON FUNCTION rpq_store.operation_scopes(bigint) IS
'the scopes whose turns an operation needs: its pool, those it holds, source and target';

CREATE FUNCTION rpq_store.refuse_held(pools bigint[], operation_id bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other record;
BEGIN
	SELECT h.operation_id, p.name, o.kind INTO other
	FROM rpq_store.operation_pool AS h
	JOIN rpq_store.operation AS o ON o.operation_id = h.operation_id
	JOIN rpq_store.pool AS p ON p.pool_id = h.pool_id
	WHERE h.pool_id = ANY (refuse_held.pools) AND h.operation_id IS DISTINCT FROM refuse_held.operation_id
	ORDER BY h.pool_id LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('an operation is open on pool "%s"', other.name),
			DETAIL = format('Operation %s (%s) has not ended.', other.operation_id, other.kind),
			HINT = format('CALL rpq.wait_for_operation(%s), or cancel it.', other.operation_id);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_held(bigint[], bigint) IS
'refuses (RQ004) pools that an open operation, other than this one, holds, and names it';

CREATE FUNCTION rpq_store.hold_pools(operation_id bigint, pools bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	INSERT INTO rpq_store.operation_pool (pool_id, operation_id)
	SELECT u.pool_id, hold_pools.operation_id FROM unnest(hold_pools.pools) AS u (pool_id)
	ON CONFLICT (pool_id) DO NOTHING;
	PERFORM rpq_store.refuse_held(hold_pools.pools, hold_pools.operation_id);
END
$$;
COMMENT ON FUNCTION rpq_store.hold_pools(bigint, bigint[]) IS
'holds pools for an operation; RQ004, naming the other one, when an open operation has one of them. The caller '
'holds their turns';

CREATE FUNCTION rpq_store.check_free(pools bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	closed rpq_store.pool;
BEGIN
	PERFORM rpq_store.refuse_held(check_free.pools, NULL);
	SELECT p.* INTO closed FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY (check_free.pools) AND p.status NOT IN ('ready', 'failed') ORDER BY p.pool_id LIMIT 1;
	IF FOUND THEN
		PERFORM rpq_store.check_pool_status(closed);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_free(bigint[]) IS
'refuses (RQ004) pools that an open operation holds, which is named, or that are being created, deleted, or are no '
'more: what an operation''s call asks first of the pools that it is about to hold. The caller holds their turns';

-- The status that the subject has while it is open; what it was is kept for a cancellation.
CREATE FUNCTION rpq_store.open_operation(kind text, action text, pool_id bigint, held bigint[],
	arguments jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	who rpq_store.caller_identity := rpq_store.caller();
	opened bigint;
BEGIN
	INSERT INTO rpq_store.operation (tenant_id, kind, pool_id, arguments, action, initiator, initiator_account_id,
		on_behalf_of, db_role, application_name, created_at, pool_status)
	SELECT p.tenant_id, open_operation.kind, p.pool_id, open_operation.arguments, open_operation.action, who.actor,
		who.account_id, who.on_behalf_of, who.db_role, current_setting('application_name'), rpq.now(), p.status
	FROM rpq_store.pool AS p WHERE p.pool_id = open_operation.pool_id
	RETURNING operation_id INTO opened;
	PERFORM rpq_store.hold_pools(opened, open_operation.held);
	UPDATE rpq_store.pool AS p
	SET status = CASE open_operation.kind WHEN 'create' THEN 'creating' WHEN 'delete' THEN 'deleting'
		ELSE 'updating' END
	WHERE p.pool_id = open_operation.pool_id;
	IF open_operation.kind = 'move' THEN
		PERFORM rpq_store.note_migration(o) FROM rpq_store.operation AS o WHERE o.operation_id = opened;
	END IF;
	IF current_setting('rpq.synchronous_operations')::boolean THEN
		PERFORM rpq_store.run_operation(opened);
	END IF;
	RETURN opened;
END
$$;
COMMENT ON FUNCTION rpq_store.open_operation(text, text, bigint, bigint[], jsonb) IS
'writes a new operation of the caller on a pool, holds the pools in held (the subject, and a dedicated or exclusive '
'source or target), makes the subject creating, deleting or updating, and with rpq.synchronous_operations carries the '
'operation out as far as it goes; returns its id. arguments: what op_KIND needs, source_id and target_id being the '
'other pools whose turns it takes. The caller holds the turns';

-- Who holds the turns has no step beside it and may undo at once.  Where somebody has a turn, a running operation is
-- marked, and its next step undoes it; no turn is waited for then, and the operation's row only for a step's commit.
CREATE FUNCTION rpq.cancel_operation(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'cancel_operation'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
	named bigint := rpq_store.authorize_id('cancel_operation', cancel_operation.id);
	scopes bigint[] := rpq_store.operation_scopes(named);
	now_is text := 'cancelled';
BEGIN
	SELECT * INTO subject FROM rpq_store.operation AS o WHERE o.operation_id = named;
	IF subject.status = 'pending' OR rpq_store.try_turns(scopes) THEN
		PERFORM rpq_store.take_turns(scopes);
		SELECT * INTO subject FROM rpq_store.operation AS o WHERE o.operation_id = named FOR NO KEY UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			RAISE EXCEPTION USING ERRCODE = '55P03',
				MESSAGE = format('another transaction is cancelling operation %s', named), HINT = 'Try again later.';
		ELSIF subject.status NOT IN ('pending', 'running') THEN
			RETURN false;
		END IF;
		subject.cancelling := true;
		PERFORM rpq_store.undo_operation(subject);
		PERFORM rpq_store.end_cancelled(subject);
	ELSE
		UPDATE rpq_store.operation AS o SET cancelling = true
		WHERE o.operation_id = named AND o.status IN ('pending', 'running') AND NOT o.cancelling
		RETURNING o.* INTO subject;
		IF NOT FOUND THEN
			RETURN EXISTS (SELECT FROM rpq_store.operation AS o
						   WHERE o.operation_id = named AND o.status IN ('pending', 'running'));
		END IF;
		now_is := 'cancelling';
		PERFORM rpq_store.wake();
	END IF;
	PERFORM rpq_store.record('cancel_operation', 'operation', named, named::text, subject.tenant_id, subject.pool_id,
		jsonb_build_object('status', subject.status), jsonb_build_object('status', now_is));
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq.cancel_operation(bigint) IS
'ends a pending operation at once, and a running one after the step in hand: what it has begun is undone, what it has '
'moved within a pool stays. A pool that it was to create is gone with it, any other is as before. id: the operation. '
'Returns false, changing nothing, when it had ended. Errors: 42704 unknown operation, 22023 no id, 55P03 another '
'transaction is cancelling it, RQ009 fenced. Administrators of its pool';

CREATE FUNCTION rpq.retry_operation(id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'retry_operation'
AS $$
#variable_conflict use_column
DECLARE
	failed rpq_store.operation;
	subject rpq_store.pool;
	named bigint := rpq_store.authorize_id('retry_operation', retry_operation.id);
	scopes bigint[] := rpq_store.operation_scopes(named);
	others bigint[];
BEGIN
	PERFORM rpq_store.take_turns(scopes);
	SELECT * INTO failed FROM rpq_store.operation AS o WHERE o.operation_id = named;
	SELECT array_agg(p.pool_id) INTO others FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY (scopes) AND p.pool_id <> failed.pool_id AND p.type <> 'shared';
	IF failed.kind = 'create' THEN
		PERFORM rpq_store.authorize_id('create_pool', failed.tenant_id);
	ELSE
		PERFORM rpq_store.authorize_id('move_nodes', o.pool_id) FROM unnest(others) AS o (pool_id);
	END IF;
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = failed.pool_id;
	IF failed.status <> 'failed' OR subject.status NOT IN ('ready', 'failed')
		OR (failed.kind = 'create' AND subject.status <> 'failed') THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('operation %s cannot be tried again', named),
			DETAIL = format('Its status is %s, that of pool "%s" is %s.', failed.status, subject.name, subject.status);
	END IF;
	PERFORM rpq_store.check_free(others || failed.pool_id);
	PERFORM rpq_store.record('retry_operation', 'operation', named, named::text, failed.tenant_id, failed.pool_id,
		NULL, jsonb_build_object('kind', failed.kind, 'pool', subject.name));
	-- what a drain puts back when it is undone is how it finds the node now
	RETURN rpq_store.open_operation(failed.kind, failed.action, failed.pool_id, others || failed.pool_id,
		failed.arguments || CASE failed.kind WHEN 'drain' THEN coalesce((
			SELECT jsonb_build_object('schedulable', n.schedulable) FROM rpq_store.node AS n
			WHERE n.node_id = (failed.arguments->>'node_id')::bigint), '{}') ELSE '{}' END);
END
$$;
COMMENT ON FUNCTION rpq.retry_operation(bigint) IS
'asks for a failed operation again, as a new one of the caller with the same arguments, which are checked as it is '
'carried out; returns the new id. id: the failed one. Errors: 42704 unknown operation, 22023 no id, RQ004 it has not '
'failed, or a pool of it has changed or has an open operation, RQ009 fenced. Administrators of its pool and of the '
'dedicated or exclusive pools that it takes nodes from or gives them to; a creation those who may create pools';

CREATE FUNCTION rpq_store.operation_ended(id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	named bigint := rpq_store.authorize_id('wait_for_operation', operation_ended.id);
BEGIN
	RETURN (SELECT o.status NOT IN ('pending', 'running') FROM rpq_store.operation AS o WHERE o.operation_id = named);
END
$$;
COMMENT ON FUNCTION rpq_store.operation_ended(bigint) IS
'whether an operation has ended, whatever its status; what wait_for_operation asks between its commits';

-- A procedure that commits may have neither SECURITY DEFINER nor SET, so it is C and reads nothing itself.
CREATE PROCEDURE rpq.wait_for_operation(id bigint, timeout interval DEFAULT '60 s')
LANGUAGE c AS 'MODULE_PATHNAME', 'rpq_wait_for_operation';
COMMENT ON PROCEDURE rpq.wait_for_operation(bigint, interval) IS
'waits until an operation has ended, whatever its status. id: the operation; timeout: true time. It commits '
'between two looks. Errors: 42704 unknown operation, 22023 no id or a negative timeout, 25001 in a transaction '
'block, 57014 at the time-out. Administrators of its pool';
-- Operations: carrying them out, step by step.
--
-- What a kind of operation does is one function, rpq_store.op_KIND(operation) → its result, in the transaction that
-- ends the operation; a staged one returns NULL until it is through, and rpq_store.undo_KIND(operation) takes back what
-- its committed steps have begun.  Both run with the turns of operation_scopes held and raise when they cannot.
--
-- Writes operation and operation_pool, and the status of the operation's pool, under those turns; the turns come first,
-- the operation's row after them.  The worker passes over turns that somebody else holds; a person waits for them.

CREATE FUNCTION rpq_store.try_turns(scopes bigint[]) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*) = cardinality($1)
	FROM (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = ANY ($1)
		  ORDER BY t.scope_id FOR NO KEY UPDATE SKIP LOCKED) AS l
$$;
COMMENT ON FUNCTION rpq_store.try_turns(bigint[]) IS
'locks those of the turns that nobody holds, without changing them; whether that was all of them';

CREATE FUNCTION rpq_store.turn_mark(scopes bigint[]) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(sum(t.room_epoch + t.cycle), 0)::bigint FROM rpq_store.turn AS t WHERE t.scope_id = ANY ($1)
$$;
COMMENT ON FUNCTION rpq_store.turn_mark(bigint[]) IS
'a number that has grown when anything was counted or changed under one of the turns';

CREATE FUNCTION rpq_store.backend_start(pid int) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT a.backend_start FROM pg_stat_get_activity($1) AS a
$$;
COMMENT ON FUNCTION rpq_store.backend_start(int) IS
'when the server process with this pid started; NULL: there is none';

CREATE FUNCTION rpq_store.may_take_up(subject rpq_store.operation) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ($1).owner_pid IS NULL OR ($1).owner_pid = pg_backend_pid() OR ($1).lease_until < clock_timestamp()
		OR rpq_store.backend_start(($1).owner_pid) IS DISTINCT FROM ($1).owner_started
$$;
COMMENT ON FUNCTION rpq_store.may_take_up(rpq_store.operation) IS
'false for an operation of another process that lives and whose lease runs';

-- One that waits is looked at again when its turns have moved, but not at every cycle, and at each rpq.cycle_interval.
-- The clocks are compared both ways: a clock that was set back delays nothing.
CREATE FUNCTION rpq_store.due_operations() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.operation_id
	FROM rpq_store.operation AS o
	WHERE o.status IN ('pending', 'running') AND o.kind <> 'rotate'
	  AND (NOT o.waiting OR o.cancelling
		OR NOT clock_timestamp() BETWEEN o.tried_at
			AND o.tried_at + current_setting('rpq.cycle_interval')::interval
		OR (NOT clock_timestamp() BETWEEN o.tried_at AND o.tried_at + interval '100 ms'
			AND rpq_store.turn_mark(rpq_store.operation_scopes(o.operation_id)) <> o.tried_mark))
	  AND rpq_store.may_take_up(o)
	ORDER BY o.tried_at NULLS FIRST, o.operation_id LIMIT 100
$$;
COMMENT ON FUNCTION rpq_store.due_operations() IS
'open operations that this process may carry on with now, and has a reason to; the one that was longest not tried is '
'first';

CREATE FUNCTION rpq_store.undo_operation(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- also before the first step: the call that asks for a drain has cordoned the node.  Kinds that are never staged
	-- have no such function
	IF to_regprocedure(format('rpq_store.%I(rpq_store.operation)', 'undo_' || subject.kind)) IS NOT NULL THEN
		EXECUTE format('SELECT rpq_store.%I($1)', 'undo_' || subject.kind) USING subject;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.undo_operation(rpq_store.operation) IS
'takes back what the call and the committed steps of a staged operation have begun. The caller holds the turns';

CREATE FUNCTION rpq_store.end_cancelled(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'cancelled', ended_at = greatest(rpq.now(), o.started_at), cancelling = false, waiting = false
	WHERE o.operation_id = subject.operation_id;
	-- a pool that was never made is gone, and its name free; any other is what it was, also one whose creation failed
	-- and is tried again: nodes, members and work may have come into it since
	UPDATE rpq_store.pool AS p
	SET status = CASE WHEN subject.pool_status = 'creating' THEN 'deleted'
			ELSE coalesce(subject.pool_status, 'ready') END,
		deleted_at = CASE WHEN subject.pool_status = 'creating' THEN rpq.now() END
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating', 'deleting') AND subject.kind <> 'rotate';
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.end_cancelled(rpq_store.operation) IS
'ends an operation of which nothing is left to undo as cancelled. The caller holds the turns';

CREATE FUNCTION rpq_store.end_failed(subject rpq_store.operation, code text, error text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'failed', started_at = coalesce(o.started_at, rpq.now()),
		ended_at = greatest(rpq.now(), o.started_at), attempts = greatest(o.attempts, 1), cancelling = false,
		waiting = false, error = end_failed.error, error_code = end_failed.code
	WHERE o.operation_id = subject.operation_id;
	UPDATE rpq_store.pool AS p SET status = 'failed'
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating', 'deleting') AND subject.kind <> 'rotate';
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.end_failed(rpq_store.operation, text, text) IS
'ends an operation as failed, with its error, and leaves its pool failed and otherwise unchanged. The caller '
'holds the turns';

-- A process that goes on with it at the next round signs as its owner; one that will not leaves it to whoever comes.
CREATE FUNCTION rpq_store.take_up(subject rpq_store.operation, stays boolean) RETURNS rpq_store.operation
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.operation AS o
	SET status = 'running', started_at = coalesce(o.started_at, rpq.now()), waiting = false,
		attempts = o.attempts + CASE WHEN o.status = 'pending' OR o.owner_pid <> pg_backend_pid()
			OR o.owner_started <> rpq_store.backend_start(pg_backend_pid()) THEN 1 ELSE 0 END,
		owner_pid = CASE WHEN $2 THEN pg_backend_pid() END,
		owner_started = CASE WHEN $2 THEN rpq_store.backend_start(pg_backend_pid()) END,
		tried_at = clock_timestamp(),
		lease_until = clock_timestamp() + current_setting('rpq.operation_lease')::interval
	WHERE o.operation_id = ($1).operation_id
	RETURNING o
$$;
COMMENT ON FUNCTION rpq_store.take_up(rpq_store.operation, boolean) IS
'makes an operation running, with owner and lease; taking over from another owner counts as an attempt. stays: '
'this process comes back to it';

-- Nothing changed in step, progress and state: the step found nothing to do, and the operation waits.
CREATE FUNCTION rpq_store.step_operation(operation_id bigint, stays boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	before rpq_store.operation;
	subject rpq_store.operation;
	outcome jsonb;
	scopes bigint[];
BEGIN
	SELECT * INTO before FROM rpq_store.operation AS o
	WHERE o.operation_id = step_operation.operation_id FOR NO KEY UPDATE;
	IF before.status NOT IN ('pending', 'running') THEN
		RETURN 'ended';
	END IF;
	scopes := rpq_store.operation_scopes(before.operation_id);
	IF before.cancelling THEN
		PERFORM rpq_store.take_turns(scopes);
		PERFORM rpq_store.undo_operation(before);
		PERFORM rpq_store.end_cancelled(before);
		RETURN 'cancelled';
	END IF;
	subject := rpq_store.take_up(before, step_operation.stays);
	-- kind is one of a fixed list (a CHECK of the table), never a user's text.
	EXECUTE format('SELECT rpq_store.%I($1)', 'op_' || subject.kind) INTO outcome USING subject;
	IF outcome IS NULL THEN
		UPDATE rpq_store.operation AS o
		SET waiting = (o.step, o.progress, o.state) IS NOT DISTINCT FROM (before.step, before.progress, before.state),
			tried_mark = rpq_store.turn_mark(scopes)
		WHERE o.operation_id = before.operation_id
		RETURNING o.* INTO subject;
		IF subject.waiting THEN
			RETURN 'waiting';
		END IF;
	END IF;
	-- they are held; that they are changed as well concerns who is above READ COMMITTED
	PERFORM rpq_store.take_turns(scopes);
	IF outcome IS NULL THEN
		RETURN 'advanced';
	END IF;
	UPDATE rpq_store.pool AS p SET status = 'ready'
	WHERE p.pool_id = subject.pool_id AND p.status IN ('creating', 'updating') AND subject.kind <> 'rotate';
	UPDATE rpq_store.operation AS o
	SET status = 'succeeded', ended_at = greatest(rpq.now(), o.started_at), progress = 1, result = outcome
	WHERE o.operation_id = subject.operation_id;
	DELETE FROM rpq_store.operation_pool AS h WHERE h.operation_id = subject.operation_id;
	RETURN 'succeeded';
END
$$;
COMMENT ON FUNCTION rpq_store.step_operation(bigint, boolean) IS
'carries an operation on by one step in the present transaction, and raises when that fails: ended (it was no longer '
'open), cancelled, succeeded, advanced (there is more to do) or waiting (something else has to happen first). The '
'caller holds the turns';

CREATE FUNCTION rpq_store.run_operation(operation_id bigint, steps int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	outcome text;
	taken int := 0;
BEGIN
	PERFORM rpq_store.take_turns(rpq_store.operation_scopes(run_operation.operation_id));
	LOOP
		outcome := rpq_store.step_operation(run_operation.operation_id, false);
		EXIT WHEN outcome <> 'advanced';
		taken := taken + 1;
		EXIT WHEN taken >= run_operation.steps;
	END LOOP;
	RETURN CASE WHEN outcome = 'waiting' AND taken > 0 THEN 'advanced' ELSE outcome END;
END
$$;
COMMENT ON FUNCTION rpq_store.run_operation(bigint, int) IS
'carries an operation out in the present transaction, by so many steps or (NULL) as far as it goes, and raises when it '
'fails; what step_operation said last, advanced for one that waits after it got further';

-- The turns and the row are taken outside the block, so that they are still held when the failure is written.  Who
-- holds turns waits for no row: one that a cancellation in an open transaction has is left for later.  What a new
-- transaction may heal (40001, 40P01, 55P03) is no failure of the operation: it waits.  So does one that cannot be
-- undone now: its next step fails again, and is undone then.
CREATE FUNCTION rpq_store.attempt_operation(operation_id bigint, stays boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.operation;
	said text;
	why text;
	code text;
BEGIN
	PERFORM FROM rpq_store.operation AS o
	WHERE o.operation_id = attempt_operation.operation_id FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN 'waiting';
	END IF;
	BEGIN
		IF attempt_operation.stays THEN
			RETURN rpq_store.step_operation(attempt_operation.operation_id, true);
		END IF;
		-- enough for what is small: planned, moved, ended; what is large comes back, and lets go of the turns between
		RETURN rpq_store.run_operation(attempt_operation.operation_id, 4);
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, why = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
	END;
	SELECT * INTO subject FROM rpq_store.operation AS o WHERE o.operation_id = attempt_operation.operation_id;
	IF code NOT IN ('40001', '40P01', '55P03') THEN
		BEGIN
			PERFORM rpq_store.take_turns(rpq_store.operation_scopes(subject.operation_id));
			PERFORM rpq_store.undo_operation(subject);
			PERFORM rpq_store.end_failed(subject, code, concat_ws(': ', said, nullif(why, '')));
			RETURN 'failed';
		EXCEPTION WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
			RAISE WARNING USING ERRCODE = code, MESSAGE = format('operation %s cannot be undone now: %s',
				subject.operation_id, said);
		END;
	END IF;
	UPDATE rpq_store.operation AS o
	SET waiting = true, tried_at = clock_timestamp(),
		tried_mark = rpq_store.turn_mark(rpq_store.operation_scopes(o.operation_id))
	WHERE o.operation_id = subject.operation_id;
	RETURN 'waiting';
END
$$;
COMMENT ON FUNCTION rpq_store.attempt_operation(bigint, boolean) IS
'carries an operation on, by one step for who stays, else by four. A failure is written to it and not '
'raised; what step_operation said, or failed. The caller holds the turns';

CREATE FUNCTION rpq_store.run_pending_operations() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'run_operations'
AS $$
DECLARE
	due bigint;
BEGIN
	-- a turn that somebody else holds is not waited for: the next round comes to it again
	FOR due IN SELECT d FROM rpq_store.due_operations() AS d LOOP
		IF rpq_store.try_turns(rpq_store.operation_scopes(due))
			AND rpq_store.attempt_operation(due, true) NOT IN ('waiting', 'ended') THEN
			RETURN 1;
		END IF;
	END LOOP;
	RETURN 0;
END
$$;
COMMENT ON FUNCTION rpq_store.run_pending_operations() IS
'for the worker: carries one operation on by one step, the first that is due, whose turns are free and that does not '
'wait; a failure is its own. Returns the number of steps, 1 or 0';

CREATE FUNCTION rpq.run_operations() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'run_operations'
AS $$
DECLARE
	mine bigint[];
	scopes bigint[];
	one bigint;
	carried int := 0;
BEGIN
	PERFORM rpq_store.authorize('run_operations');
	SELECT array_agg(o.operation_id ORDER BY o.operation_id) INTO mine
	FROM rpq_store.operation AS o
	WHERE o.status IN ('pending', 'running') AND o.kind <> 'rotate'
	  AND o.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[])
	  AND rpq_store.may_take_up(o);
	SELECT array_agg(DISTINCT s) INTO scopes
	FROM unnest(mine) AS m, unnest(rpq_store.operation_scopes(m)) AS s;
	PERFORM rpq_store.take_turns(scopes);
	FOREACH one IN ARRAY coalesce(mine, '{}') LOOP
		IF rpq_store.attempt_operation(one, false) NOT IN ('waiting', 'ended') THEN
			carried := carried + 1;
		END IF;
	END LOOP;
	RETURN carried + rpq_store.run_rotations(rpq_store.administered_pools(), '0');
END
$$;
COMMENT ON FUNCTION rpq.run_operations() IS
'carries the open operations on the pools that the caller administers on, each by up to four steps (of which one moves '
'up to 150 pods), and swaps faulty nodes, as the worker does by itself; returns how many got further, so that 0 says '
'that nothing is left to do now. One that fails is counted, its error stands in '
'rpq.operations; one that another process has in hand, or that waits for an executor, is not. Errors: RQ009 fenced. '
'Platform, organisation and pool administrators, each for its pools';
-- The move itself: pods that have their room on another node leave the one they are on.
--
-- Writes workload (FOR UPDATE SKIP LOCKED), entry (kind move), pod, node_load, hold, pod_migration, and pod_report of
-- new pods.  The caller holds the turn of the pool and has folded, so pod and node_load say the same.

-- Both are as the fold left them, so the sums are made anew from the pods.
CREATE FUNCTION rpq_store.reload_nodes(nodes bigint[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH standing AS MATERIALIZED (
		SELECT p.node_id, p.devices, w.resources,
			round((w.resources OPERATOR(rpq.->) 'gpu') * 21000 / greatest(cardinality(p.devices), 1))::bigint AS each
		FROM rpq_store.pod AS p
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		WHERE p.node_id = ANY ($1)),
	load AS (
		SELECT s.node_id, rpq.sum(s.resources) AS used, count(*)::int AS pods FROM standing AS s GROUP BY s.node_id),
	taken AS (
		SELECT s.node_id, d.device, sum(s.each)::bigint AS parts
		FROM standing AS s CROSS JOIN LATERAL unnest(s.devices) AS d (device) GROUP BY s.node_id, d.device),
	device AS (
		SELECT l.node_id, array_agg(coalesce(t.parts, 0) ORDER BY g.device) AS parts
		FROM rpq_store.node_load AS l
		CROSS JOIN LATERAL generate_series(0, cardinality(l.parts) - 1) AS g (device)
		LEFT JOIN taken AS t ON t.node_id = l.node_id AND t.device = g.device
		WHERE l.node_id = ANY ($1) GROUP BY l.node_id)
	UPDATE rpq_store.node_load AS l
	SET used = coalesce(b.used, ''), pods = coalesce(b.pods, 0), parts = coalesce(d.parts, '{}')
	FROM unnest($1) AS n (node_id)
	LEFT JOIN load AS b ON b.node_id = n.node_id
	LEFT JOIN device AS d ON d.node_id = n.node_id
	WHERE l.node_id = n.node_id
$$;
COMMENT ON FUNCTION rpq_store.reload_nodes(bigint[]) IS
'makes node_load of these nodes anew from their pods; the caller holds the turns and has folded';

-- A row that its client keeps locked is left for the next step; so is one whose attempt ended without the fold having
-- seen it.
CREATE FUNCTION rpq_store.lock_moves(moves bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	asked bigint[];
	locked bigint[];
BEGIN
	SELECT array_agg(DISTINCT m.workload_id) INTO asked
	FROM rpq_store.pod_migration AS m WHERE m.pod_migration_id = ANY (lock_moves.moves);
	SELECT array_agg(l.workload_id) INTO locked
	FROM (SELECT w.workload_id FROM rpq_store.workload AS w
		  WHERE w.workload_id = ANY (asked) AND w.status IN ('starting', 'running')
		  ORDER BY w.workload_id FOR UPDATE SKIP LOCKED) AS l;
	RETURN ARRAY(
		SELECT m.pod_migration_id
		FROM rpq_store.pod_migration AS m
		JOIN rpq_store.pod AS p ON p.pod_id = m.pod_id
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
		WHERE m.pod_migration_id = ANY (lock_moves.moves) AND w.workload_id = ANY (locked)
		ORDER BY m.pod_migration_id);
END
$$;
COMMENT ON FUNCTION rpq_store.lock_moves(bigint[]) IS
'locks the workloads of moves and returns the moves that can be made: their workload is placed, and no client keeps it '
'locked';

-- The new pods, and the attempt that the whole gang goes on with: each move of one of its replicas adds one.
CREATE FUNCTION rpq_store.replace_pods(moves bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	gangs bigint[];
	attempts int[];
	bumps int[];
BEGIN
	SELECT array_agg(g.workload_id), array_agg(g.attempt), array_agg(g.moves) INTO gangs, attempts, bumps
	FROM (SELECT w.workload_id, w.attempt, count(*)::int AS moves
		  FROM rpq_store.pod_migration AS m JOIN rpq_store.workload AS w ON w.workload_id = m.workload_id
		  WHERE m.pod_migration_id = ANY (replace_pods.moves) GROUP BY w.workload_id) AS g;
	DELETE FROM rpq_store.pod AS p USING rpq_store.pod_migration AS m
	WHERE m.pod_migration_id = ANY (replace_pods.moves) AND p.pod_id = m.pod_id;
	UPDATE rpq_store.pod AS p SET attempt = g.attempt + g.moves
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	WHERE p.workload_id = g.workload_id AND p.attempt = g.attempt;
	-- a victim that has still to stop is one wherever it stands
	UPDATE rpq_store.preemption AS p SET victim_attempt = g.attempt + g.moves
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	WHERE p.victim = g.workload_id AND p.victim_attempt = g.attempt AND p.state = 'pending';
	INSERT INTO rpq_store.pod (workload_id, attempt, replica, node_id, devices)
	SELECT m.workload_id, g.attempt + g.moves, m.replica, m.to_node_id, m.devices
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	JOIN rpq_store.pod_migration AS m ON m.workload_id = g.workload_id
	WHERE m.pod_migration_id = ANY (replace_pods.moves)
	ORDER BY m.pod_migration_id;
	-- a replica that has succeeded is not started again
	INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, outcome, detail, devices, at)
	SELECT p.pod_id, p.node_id, p.workload_id, p.attempt, r.state, r.outcome, r.detail, p.devices, r.at
	FROM unnest(gangs, attempts, bumps) AS g (workload_id, attempt, moves)
	JOIN rpq_store.pod_report AS r
		ON r.workload_id = g.workload_id AND r.state = 'finished' AND r.outcome = 'succeeded'
	JOIN rpq_store.pod_migration AS m ON m.pod_id = r.pod_id AND m.pod_migration_id = ANY (replace_pods.moves)
	JOIN rpq_store.pod AS p
		ON p.workload_id = m.workload_id AND p.attempt = g.attempt + g.moves AND p.replica = m.replica;
END
$$;
COMMENT ON FUNCTION rpq_store.replace_pods(bigint[]) IS
'pods of moves leave their nodes and come to be on those where room is held; the rest of each gang goes on with the '
'same new attempt';

-- With an executor on the target the gang is starting until that has reported the pod; without, nobody would ever say
-- so, and it stays what it was.
CREATE FUNCTION rpq_store.move_workloads(moves bigint[], at timestamptz) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH step AS MATERIALIZED (
		SELECT m.workload_id, m.replica, m.from_node, m.to_node, m.operation_id, s.node_id IS NOT NULL AS attended,
			row_number() OVER (PARTITION BY m.workload_id ORDER BY m.pod_migration_id)::int AS place
		FROM rpq_store.pod_migration AS m
		LEFT JOIN rpq_store.node_seen AS s
			ON s.node_id = m.to_node_id AND s.at > $2 - current_setting('rpq.node_timeout')::interval
		WHERE m.pod_migration_id = ANY ($1)),
	gang AS MATERIALIZED (
		SELECT w.workload_id, w.attempt,
			CASE WHEN bool_or(s.attended) THEN 'starting' ELSE w.status END AS status, count(*)::int AS moves,
			(SELECT array_agg(coalesce(t.to_node, o.name) ORDER BY o.place)
			 FROM unnest(w.nodes) WITH ORDINALITY AS o (name, place)
			 LEFT JOIN step AS t ON t.workload_id = w.workload_id AND t.replica = o.place - 1) AS nodes
		FROM step AS s JOIN rpq_store.workload AS w ON w.workload_id = s.workload_id
		GROUP BY w.workload_id),
	told AS (
		INSERT INTO rpq_store.entry (scope_id, at, workload_id, shape, account_id, policy_id, pool_id, type_id,
			lender_id, attempt, kind, status, actor, cause, detail)
		SELECT w.scope_id, greatest($2, w.started_at), w.workload_id, w.shape, w.account_id, w.policy_id, w.pool_id,
			w.type_id, w.lender_id, g.attempt + s.place - 1, 'move', g.status, 'system', 'evicted',
			format('replica %s from node "%s" to node "%s", operation %s', s.replica, s.from_node, s.to_node,
				s.operation_id)
		FROM step AS s
		JOIN gang AS g ON g.workload_id = s.workload_id
		JOIN rpq_store.workload AS w ON w.workload_id = s.workload_id
		ORDER BY s.workload_id, s.place)
	UPDATE rpq_store.workload AS w
	SET attempt = g.attempt + g.moves, status = g.status, nodes = g.nodes,
		running_at = CASE g.status WHEN 'running' THEN w.running_at END
	FROM gang AS g WHERE w.workload_id = g.workload_id
$$;
COMMENT ON FUNCTION rpq_store.move_workloads(bigint[], timestamptz) IS
'the workloads of moves: nodes, the attempt that they go on with, and an event for each attempt that a move has ended';

CREATE FUNCTION rpq_store.move_pods(moves bigint[], at timestamptz) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	made bigint[] := rpq_store.lock_moves(move_pods.moves);
	touched bigint[];
BEGIN
	IF cardinality(made) = 0 THEN
		RETURN 0;
	END IF;
	PERFORM rpq_store.replace_pods(made);
	PERFORM rpq_store.move_workloads(made, move_pods.at);
	DELETE FROM rpq_store.hold AS h USING rpq_store.pod_migration AS m
	WHERE m.pod_migration_id = ANY (made) AND h.pod_id = m.pod_id AND h.operation_id = m.operation_id
	  AND h.purpose = 'move';
	UPDATE rpq_store.pod_migration AS m
	SET status = 'done', evicted_at = coalesce(m.evicted_at, move_pods.at), ended_at = move_pods.at
	WHERE m.pod_migration_id = ANY (made);
	SELECT array_agg(DISTINCT n.node_id) INTO touched
	FROM rpq_store.pod_migration AS m CROSS JOIN LATERAL unnest(ARRAY[m.from_node_id, m.to_node_id]) AS n (node_id)
	WHERE m.pod_migration_id = ANY (made);
	PERFORM rpq_store.reload_nodes(touched);
	RETURN cardinality(made);
END
$$;
COMMENT ON FUNCTION rpq_store.move_pods(bigint[], timestamptz) IS
'makes moves whose room is reserved and whose pod nobody runs; returns how many, those left out being locked by their '
'clients or ended. Usage does not change. The caller holds the turn and has folded';
-- Moves of pods between nodes of a pool, reserve first: for every operation that empties nodes.
--
-- Writes pod_migration, hold (purpose move), node.draining, operation.state and progress, migration.evicted, and with
-- each move workload (FOR UPDATE SKIP LOCKED), pod, entry (kind move) and node_load.  The caller holds the turn of the
-- pool and the operation's row, and has folded.  Usage is not touched: a pod that moves is charged once throughout, and
-- what a hold keeps is the node's matter alone.
--
-- A move ends the attempt: its entry stands for the end of the one that the pods had, and the gang goes on as the next.
-- The pods that stay keep their ids; the one that moves is a new pod, as at every placement.

CREATE FUNCTION rpq_store.plan_moves(pool_id bigint, nodes bigint[], pods bigint[] DEFAULT NULL,
	wanted bigint[] DEFAULT NULL, folded boolean DEFAULT true)
RETURNS TABLE (pod_id bigint, workload_id bigint, replica int, attempt int, resources rpq.resources,
	from_node_id bigint, to_node_id bigint, devices int[])
LANGUAGE c STABLE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'rpq_plan_moves';
COMMENT ON FUNCTION rpq_store.plan_moves(bigint, bigint[], bigint[], bigint[], boolean) IS
'where the pods go that stand on nodes of the pool, none of which takes them: largest first, by the scheduling '
'policy, without those that borrow there; room counted down move by move, holds counted as taken; to_node_id is NULL '
'for a pod without target. With pods, only those, each to its node of wanted (0: any) while that takes it. folded: '
'the caller holds the turn and has folded; false for one that only looks: work that has ended and was not counted yet '
'has then left its nodes. Writes nothing';

CREATE FUNCTION rpq_store.move_timeout() RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT interval '10 minutes' $$;
COMMENT ON FUNCTION rpq_store.move_timeout() IS
'how long a drain, resize or move of nodes waits for one pod''s executor, or for a client that keeps its workload''s '
'row locked';

CREATE FUNCTION rpq_store.counted(number bigint, word text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('%s %s%s', $1, $2, CASE WHEN $1 <> 1 THEN 's' END) $$;
COMMENT ON FUNCTION rpq_store.counted(bigint, text) IS 'a number with its noun: 1 pod, 2 pods';

CREATE FUNCTION rpq_store.describe_pods(pods bigint[], named_in bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(CASE WHEN s.named
			THEN format('%s: %s%s', s.name, s.what, CASE WHEN s.pods > 10 THEN format(' and %s more', s.pods - 10) END)
			ELSE format('%s: %s', s.name, rpq_store.counted(s.pods, 'pod')) END, '; ' ORDER BY s.name)
	FROM (SELECT k.name, k.named, string_agg(k.what, ', ' ORDER BY k.place) FILTER (WHERE k.place <= 10) AS what,
			count(*) AS pods
		  FROM (SELECT n.name, n.pool_id IS NOT DISTINCT FROM $2 AS named,
					format('workload %s replica %s (%s)', p.workload_id, p.replica, w.resources) AS what,
					row_number() OVER (PARTITION BY n.name ORDER BY p.workload_id, p.replica) AS place
				FROM rpq_store.pod AS p
				JOIN rpq_store.node AS n ON n.node_id = p.node_id
				JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
				WHERE p.pod_id = ANY ($1)) AS k
		  GROUP BY k.name, k.named) AS s
$$;
COMMENT ON FUNCTION rpq_store.describe_pods(bigint[], bigint) IS
'pods in words, by node: of nodes of the pool named_in their workloads with replica and amounts, ten a node; of others '
'their number, which is for those who may not see them';

CREATE FUNCTION rpq_store.refuse_moves(pool_id bigint, nodes bigint[], named boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	stuck bigint[];
BEGIN
	SELECT array_agg(m.pod_id) INTO stuck
	FROM rpq_store.plan_moves(refuse_moves.pool_id, refuse_moves.nodes) AS m WHERE m.to_node_id IS NULL;
	IF stuck IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006',
			MESSAGE = format('%s cannot be placed elsewhere in pool "%s"', rpq_store.counted(cardinality(stuck), 'pod'),
				(SELECT p.name FROM rpq_store.pool AS p WHERE p.pool_id = refuse_moves.pool_id)),
			DETAIL = rpq_store.describe_pods(stuck, CASE WHEN refuse_moves.named THEN refuse_moves.pool_id END),
			HINT = CASE WHEN EXISTS (SELECT FROM rpq_store.borrowed_pod AS b
									 WHERE b.lender_id = refuse_moves.pool_id AND b.node_id <> ALL (refuse_moves.nodes))
				THEN 'Other nodes of the pool are lent: switch idle-time sharing off to have their room back.'
				ELSE 'Stop some of this work, or wait until other nodes of the same instance type have room for it.'
			END;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_moves(bigint, bigint[], boolean) IS
'refuses (RQ006) when a pod on the nodes has no place elsewhere in the pool; the errdetail says nodes, with named '
'workloads and amounts, else the number of pods';

CREATE FUNCTION rpq_store.write_moves(operation_id bigint, pool_id bigint, nodes bigint[], pods bigint[],
	at timestamptz) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	written int;
BEGIN
	INSERT INTO rpq_store.pod_migration (operation_id, pool_id, workload_id, replica, attempt, pod_id, resources,
		from_node_id, from_node, to_node_id, to_node, devices, planned_at)
	SELECT write_moves.operation_id, write_moves.pool_id, m.workload_id, m.replica, m.attempt, m.pod_id, m.resources,
		m.from_node_id, f.name, m.to_node_id, t.name, m.devices, write_moves.at
	FROM rpq_store.plan_moves(write_moves.pool_id, write_moves.nodes, write_moves.pods,
		array_fill(0::bigint, ARRAY[coalesce(cardinality(write_moves.pods), 0)])) WITH ORDINALITY AS m (pod_id,
		workload_id, replica, attempt, resources, from_node_id, to_node_id, devices, place)
	JOIN rpq_store.node AS f ON f.node_id = m.from_node_id
	JOIN rpq_store.node AS t ON t.node_id = m.to_node_id
	ORDER BY m.place;
	GET DIAGNOSTICS written = ROW_COUNT;
	RETURN written;
END
$$;
COMMENT ON FUNCTION rpq_store.write_moves(bigint, bigint, bigint[], bigint[], timestamptz) IS
'plans the moves of pods off the nodes and writes those that have a target to pod_migration; returns how many. pods: '
'NULL is all that stand there';

CREATE FUNCTION rpq_store.refuse_draining(nodes bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	taken text;
BEGIN
	SELECT string_agg(n.name, ', ' ORDER BY n.name) INTO taken FROM rpq_store.node AS n
	WHERE n.node_id = ANY (refuse_draining.nodes) AND n.draining;
	IF taken IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = 'another operation is emptying these nodes', DETAIL = taken;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_draining(bigint[]) IS
'refuses (RQ004) nodes that an open operation is emptying';

CREATE FUNCTION rpq_store.begin_moves(operation_id bigint, pool_id bigint, nodes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	written int;
	standing int;
BEGIN
	PERFORM rpq_store.refuse_draining(begin_moves.nodes);
	PERFORM rpq_store.give_up_on_nodes(begin_moves.nodes);
	PERFORM rpq_store.reclaim_nodes(begin_moves.pool_id, begin_moves.nodes);
	SELECT count(*) INTO standing FROM rpq_store.pod AS p
	WHERE p.node_id = ANY (begin_moves.nodes) AND p.pod_id NOT IN (SELECT b.pod_id FROM rpq_store.borrowed_pod AS b);
	written := rpq_store.write_moves(begin_moves.operation_id, begin_moves.pool_id, begin_moves.nodes, NULL,
		rpq.now());
	IF written < standing THEN
		PERFORM rpq_store.refuse_moves(begin_moves.pool_id, begin_moves.nodes,
			(SELECT o.pool_id = begin_moves.pool_id FROM rpq_store.operation AS o
			 WHERE o.operation_id = begin_moves.operation_id));
	END IF;
	UPDATE rpq_store.operation AS o
	SET state = o.state || jsonb_build_object('draining', coalesce(o.state->'draining', '[]') || (
		SELECT coalesce(jsonb_agg(jsonb_build_object('node_id', n.node_id) ORDER BY n.name), '[]')
		FROM rpq_store.node AS n WHERE n.node_id = ANY (begin_moves.nodes)))
	WHERE o.operation_id = begin_moves.operation_id;
	UPDATE rpq_store.node AS n SET draining = true WHERE n.node_id = ANY (begin_moves.nodes);
	RETURN written;
END
$$;
COMMENT ON FUNCTION rpq_store.begin_moves(bigint, bigint, bigint[]) IS
'begins to empty nodes of a pool for an operation: they take nothing new, what borrows there is preempted, and the '
'move of each other pod on them is planned; returns how many. RQ006 when a pod has no place elsewhere, RQ004 when '
'another operation empties one of the nodes. The caller holds the turn and has folded';

CREATE FUNCTION rpq_store.draining_nodes(operation_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT (d.value->>'node_id')::bigint
		FROM rpq_store.operation AS o CROSS JOIN jsonb_array_elements(o.state->'draining') AS d (value)
		WHERE o.operation_id = $1)
$$;
COMMENT ON FUNCTION rpq_store.draining_nodes(bigint) IS 'the nodes that an operation is emptying';

-- A pod is gone when its attempt ended and the fold has freed it: its id serves one placement.
CREATE FUNCTION rpq_store.skip_changed(operation_id bigint, at timestamptz) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH gone AS (
		UPDATE rpq_store.pod_migration AS m SET status = 'skipped', reason = 'pod_changed', ended_at = $2
		WHERE m.operation_id = $1 AND m.status IN ('planned', 'reserved', 'evicting')
		  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.pod_id = m.pod_id)
		RETURNING m.pod_id)
	DELETE FROM rpq_store.hold AS h USING gone
	WHERE h.pod_id = gone.pod_id AND h.operation_id = $1 AND h.purpose = 'move'
$$;
COMMENT ON FUNCTION rpq_store.skip_changed(bigint, timestamptz) IS
'ends the moves of an operation whose pod ended by itself, and gives back the room kept for it';

CREATE FUNCTION rpq_store.takes_work(node_id bigint, pool_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.node AS n
				   WHERE n.node_id = $1 AND n.pool_id = $2 AND n.schedulable AND NOT n.draining
					 AND n.health = 'healthy')
$$;
COMMENT ON FUNCTION rpq_store.takes_work(bigint, bigint) IS
'whether a node is in the pool and takes new pods: healthy, not cordoned, not draining';

-- Only a node that has reported less than it nominally has can be too small for what was reserved on it.
CREATE FUNCTION rpq_store.has_shrunk(node_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.node AS n
				   JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
				   WHERE n.node_id = $1 AND n.usable OPERATOR(rpq.<>) n.capacity
					 AND NOT l.used OPERATOR(rpq.+) (SELECT rpq.sum(h.resources) FROM rpq_store.hold AS h
													 WHERE h.node_id = $1 AND h.purpose <> 'preempt')
						 OPERATOR(rpq.<@) n.usable)
$$;
COMMENT ON FUNCTION rpq_store.has_shrunk(bigint) IS
'whether a node has less, by its own report, than its pods and what is reserved on it come to';

-- Holds of moves whose target has since turned bad are given up, so that another target is sought.
CREATE FUNCTION rpq_store.drop_bad_targets(operation_id bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.hold AS h
	WHERE h.operation_id = $1 AND h.purpose = 'move'
	  AND (NOT rpq_store.takes_work(h.node_id, h.scope_id) OR rpq_store.has_shrunk(h.node_id))
$$;
COMMENT ON FUNCTION rpq_store.drop_bad_targets(bigint) IS
'gives up the room that moves of an operation have on nodes that take nothing new any more, or are too small by now';

CREATE FUNCTION rpq_store.reserve_moves(operation_id bigint, pool_id bigint, batch int, at timestamptz)
RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	pods bigint[];
	wanted bigint[];
	reserved int;
BEGIN
	SELECT array_agg(m.pod_id ORDER BY m.pod_migration_id), array_agg(m.to_node_id ORDER BY m.pod_migration_id)
	INTO pods, wanted
	FROM ((SELECT p.* FROM rpq_store.pod_migration AS p
		   WHERE p.operation_id = reserve_moves.operation_id AND p.pool_id = reserve_moves.pool_id
			 AND p.status = 'planned'
		   ORDER BY p.pod_migration_id LIMIT reserve_moves.batch)
		  UNION ALL
		  SELECT r.* FROM rpq_store.pod_migration AS r
		  WHERE r.operation_id = reserve_moves.operation_id AND r.pool_id = reserve_moves.pool_id
			AND r.status IN ('reserved', 'evicting')
			AND NOT EXISTS (SELECT FROM rpq_store.hold AS h
							WHERE h.pod_id = r.pod_id AND h.operation_id = r.operation_id AND h.purpose = 'move')) AS m;
	IF pods IS NULL THEN
		RETURN 0;
	END IF;
	WITH placed AS MATERIALIZED (
		SELECT m.*, n.name FROM rpq_store.plan_moves(reserve_moves.pool_id,
			rpq_store.draining_nodes(reserve_moves.operation_id), pods, wanted) AS m
		JOIN rpq_store.node AS n ON n.node_id = m.to_node_id),
	held AS (
		INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, attempt, replica, resources, devices, purpose,
			pod_id, operation_id)
		SELECT reserve_moves.pool_id, p.to_node_id, p.workload_id, p.attempt, p.replica, p.resources, p.devices,
			'move', p.pod_id, reserve_moves.operation_id
		FROM placed AS p)
	UPDATE rpq_store.pod_migration AS m
	SET status = CASE m.status WHEN 'planned' THEN 'reserved' ELSE m.status END, to_node_id = p.to_node_id,
		to_node = p.name, devices = p.devices, reserved_at = coalesce(m.reserved_at, reserve_moves.at)
	FROM placed AS p
	WHERE m.operation_id = reserve_moves.operation_id AND m.pod_id = p.pod_id
	  AND m.status IN ('planned', 'reserved', 'evicting');
	GET DIAGNOSTICS reserved = ROW_COUNT;
	RETURN cardinality(pods) - reserved;
END
$$;
COMMENT ON FUNCTION rpq_store.reserve_moves(bigint, bigint, int, timestamptz) IS
'reserves room for open moves that have none, of those not begun batch at most, on the planned target or, when that '
'no longer takes the pod, on another; returns how many found none';

-- A pod that ended by itself, or was lost before it was told to stop, is the cycle's; but one replica of a gang that
-- has succeeded, while the others go on, moves with its report.
CREATE FUNCTION rpq_store.movable_now(operation_id bigint, batch int, at timestamptz)
RETURNS TABLE (pod_migration_id bigint, status text, attended boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.pod_migration_id, m.status, coalesce(r.state IN ('started', 'running'), false) AND s.node_id IS NOT NULL
	FROM rpq_store.pod_migration AS m
	JOIN rpq_store.workload AS w ON w.workload_id = m.workload_id
	LEFT JOIN rpq_store.pod_report AS r ON r.pod_id = m.pod_id
	LEFT JOIN rpq_store.node_seen AS s
		ON s.node_id = m.from_node_id AND s.at > $3 - current_setting('rpq.node_timeout')::interval
	WHERE m.operation_id = $1 AND m.status IN ('reserved', 'evicting')
	  AND (r.pod_id IS NULL OR r.state IN ('started', 'running') OR (r.outcome = 'succeeded' AND w.replicas > 1)
		OR (m.status = 'evicting' AND coalesce(r.outcome, 'stopped') = 'stopped'))
	ORDER BY m.pod_migration_id LIMIT $2
$$;
COMMENT ON FUNCTION rpq_store.movable_now(bigint, int, timestamptz) IS
'moves of an operation that have their room: attended says that an executor, heard of within rpq.node_timeout, has the '
'pod, so that it has to stop it first';

-- What was begun counts a half, so that whoever runs the operation sees that a step did something.
CREATE FUNCTION rpq_store.show_moves(operation_id bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.operation AS o SET progress = m.progress
	FROM (SELECT round(sum(CASE m.status WHEN 'planned' THEN 0 WHEN 'reserved' THEN 0.25 WHEN 'evicting' THEN 0.5
			ELSE 1 END) / (count(*) + 1), 6) AS progress
		  FROM rpq_store.pod_migration AS m WHERE m.operation_id = $1) AS m
	WHERE o.operation_id = $1 AND m.progress <> o.progress;
	UPDATE rpq_store.migration AS g SET evicted = m.evicted
	FROM (SELECT array_agg(DISTINCT m.workload_id ORDER BY m.workload_id) AS evicted
		  FROM rpq_store.pod_migration AS m WHERE m.operation_id = $1 AND m.status = 'done') AS m
	WHERE g.operation_id = $1 AND m.evicted <> g.evicted
$$;
COMMENT ON FUNCTION rpq_store.show_moves(bigint) IS
'writes how far the moves of an operation are to its progress and to its migration record';

CREATE FUNCTION rpq_store.step_moves(operation_id bigint, timeout interval)
RETURNS rpq_store.moves_progress
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	at timestamptz;
	-- a step keeps the turn for no longer than a cycle does
	batch int := least(current_setting('rpq.cycle_batch')::int, 150);
	nodes bigint[] := rpq_store.draining_nodes(step_moves.operation_id);
	pool bigint;
	missed bigint[];
	ready bigint[];
	short int := 0;
	progress rpq_store.moves_progress;
BEGIN
	at := greatest(rpq.now(), (SELECT max(t.last_at) FROM rpq_store.turn AS t WHERE t.scope_id IN (
		SELECT n.pool_id FROM rpq_store.node AS n WHERE n.node_id = ANY (nodes))));
	PERFORM rpq_store.skip_changed(step_moves.operation_id, at);
	PERFORM rpq_store.drop_bad_targets(step_moves.operation_id);
	-- a resize may empty nodes of two pools, its own and that which it grows from
	FOR pool IN SELECT DISTINCT n.pool_id FROM rpq_store.node AS n WHERE n.node_id = ANY (nodes) ORDER BY n.pool_id LOOP
		SELECT array_agg(p.pod_id) INTO missed
		FROM rpq_store.pod AS p JOIN rpq_store.node AS n ON n.node_id = p.node_id
		WHERE p.node_id = ANY (nodes) AND n.pool_id = pool AND NOT EXISTS (
			SELECT FROM rpq_store.pod_migration AS m
			WHERE m.pod_id = p.pod_id AND m.status IN ('planned', 'reserved', 'evicting'))
		  AND p.pod_id NOT IN (SELECT b.pod_id FROM rpq_store.borrowed_pod AS b);
		IF missed IS NOT NULL THEN
			short := short + cardinality(missed)
				- rpq_store.write_moves(step_moves.operation_id, pool, nodes, missed, at);
		END IF;
		short := short + rpq_store.reserve_moves(step_moves.operation_id, pool, batch, at);
	END LOOP;

	SELECT array_agg(m.pod_migration_id) INTO ready
	FROM rpq_store.movable_now(step_moves.operation_id, batch, at) AS m WHERE NOT m.attended;
	UPDATE rpq_store.pod_migration AS m SET status = 'evicting', evicted_at = at
	FROM rpq_store.movable_now(step_moves.operation_id, batch, at) AS e
	WHERE m.pod_migration_id = e.pod_migration_id AND e.attended AND e.status = 'reserved';
	PERFORM rpq_store.move_pods(ready, at);

	-- victims that have still to stop are waited for like moves
	SELECT count(*) FILTER (WHERE m.status IN ('planned', 'reserved', 'evicting'))
			+ (SELECT count(*) FROM rpq_store.borrowed_pod AS b WHERE b.node_id = ANY (nodes)),
		count(*) FILTER (WHERE m.status = 'done'), count(*) FILTER (WHERE m.status = 'skipped'),
		count(*) FILTER (WHERE m.status = 'failed'),
		CASE WHEN short > 0 THEN 'target_short'
			 WHEN bool_or(m.status IN ('reserved', 'evicting')
				AND coalesce(m.evicted_at, m.reserved_at) + step_moves.timeout <= at) THEN 'timeout' END
	INTO progress
	FROM rpq_store.pod_migration AS m WHERE m.operation_id = step_moves.operation_id;
	PERFORM rpq_store.show_moves(step_moves.operation_id);
	RETURN progress;
END
$$;
COMMENT ON FUNCTION rpq_store.step_moves(bigint, interval) IS
'takes the moves of an operation as far as they go now, rpq.cycle_batch but no more than 150, and says how far they '
'are. blocked: target_short (a pod has no place left) or timeout (an executor did not let go, or a client kept a row '
'locked, for so long): the operation must be undone. The caller holds the turn and has folded';

CREATE FUNCTION rpq_store.raise_blocked(operation_id bigint, blocked text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'RQ006',
		MESSAGE = CASE raise_blocked.blocked WHEN 'timeout' THEN 'pods did not leave their nodes in time'
			ELSE 'pods cannot be placed elsewhere any more' END,
		DETAIL = coalesce(rpq_store.describe_pods(ARRAY(
			SELECT p.pod_id FROM rpq_store.pod AS p
			WHERE p.node_id = ANY (rpq_store.draining_nodes(raise_blocked.operation_id))),
			(SELECT o.pool_id FROM rpq_store.operation AS o WHERE o.operation_id = raise_blocked.operation_id)), ''),
		HINT = 'Pods that were moved stay where they are. Stop what still stands there, or try the operation again.';
END
$$;
COMMENT ON FUNCTION rpq_store.raise_blocked(bigint, text) IS
'ends a step with RQ006 and what still stands on the nodes; blocked: as step_moves says it';

CREATE FUNCTION rpq_store.undo_moves(operation_id bigint, reason text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.pod_migration AS m
	SET status = CASE m.status WHEN 'planned' THEN 'skipped' ELSE 'failed' END,
		reason = CASE $2
			WHEN 'timeout' THEN CASE WHEN coalesce(m.evicted_at, m.reserved_at) + rpq_store.move_timeout() <= rpq.now()
				THEN 'timeout' ELSE 'cancelled' END
			WHEN 'target_short' THEN CASE WHEN m.status = 'planned' THEN 'target_short'
				WHEN NOT rpq_store.takes_work(m.to_node_id, m.pool_id) THEN 'node_unhealthy' ELSE 'cancelled' END
			ELSE $2 END,
		ended_at = greatest(rpq.now(), m.planned_at, m.reserved_at, m.evicted_at)
	WHERE m.operation_id = $1 AND m.status IN ('planned', 'reserved', 'evicting');
	DELETE FROM rpq_store.hold AS h WHERE h.operation_id = $1 AND h.purpose = 'move';
	UPDATE rpq_store.node AS n SET draining = false
	WHERE n.node_id = ANY (rpq_store.draining_nodes($1)) AND n.draining
$$;
COMMENT ON FUNCTION rpq_store.undo_moves(bigint, text) IS
'ends the open moves of an operation (skipped where nothing had begun, else failed), gives back all that they kept, '
'and lets the nodes take pods again as far as they are schedulable. Pods that have moved stay where they are. reason: '
'target_short, timeout or cancelled; the first two only for the moves that they are true of, the others are cancelled, '
'or node_unhealthy when their target takes nothing new. Nothing to undo: nothing';

CREATE FUNCTION rpq_store.undo_reason(subject rpq_store.operation) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN subject.cancelling THEN 'cancelled'
		WHEN EXISTS (SELECT FROM rpq_store.pod_migration AS m
					 WHERE m.operation_id = subject.operation_id AND m.status IN ('reserved', 'evicting')
					   AND coalesce(m.evicted_at, m.reserved_at) + rpq_store.move_timeout() <= rpq.now())
			THEN 'timeout'
		ELSE 'target_short' END
$$;
COMMENT ON FUNCTION rpq_store.undo_reason(rpq_store.operation) IS
'why the open moves of an operation that ends end with it: cancelled, timeout or target_short';

CREATE FUNCTION rpq_store.end_moves(operation_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	nodes bigint[] := rpq_store.draining_nodes(end_moves.operation_id);
BEGIN
	IF EXISTS (SELECT FROM rpq_store.pod_migration AS m
			   WHERE m.operation_id = end_moves.operation_id AND m.status IN ('planned', 'reserved', 'evicting'))
		OR EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = ANY (nodes)) THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are not empty yet';
	END IF;
	UPDATE rpq_store.node AS n SET draining = false WHERE n.node_id = ANY (nodes) AND n.draining;
END
$$;
COMMENT ON FUNCTION rpq_store.end_moves(bigint) IS
'ends the draining of an operation''s nodes, on which nothing stands any more; the nodes take pods again as far as '
'they are schedulable, from the end of the transaction on';
-- Drain: a node is cordoned and its pods move to other nodes of its pool.
--
-- Writes node.schedulable, migration, operation.step and state, and what moves.sql writes, under the turn of the pool.

CREATE FUNCTION rpq.drain_node(node text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'drain_node'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('drain_node', drain_node.node);
	subject rpq_store.node;
	pools bigint[] := rpq_store.take_node_turns(ARRAY[named]);
BEGIN
	PERFORM rpq_store.check_free(pools);
	PERFORM rpq_store.fold(pools);
	SELECT * INTO subject FROM rpq_store.node AS n WHERE n.node_id = named;
	PERFORM rpq_store.refuse_draining(ARRAY[named]);
	PERFORM rpq_store.refuse_moves(subject.pool_id, ARRAY[named], true);
	UPDATE rpq_store.node AS n SET schedulable = false WHERE n.node_id = named AND n.schedulable;
	RETURN rpq_store.open_operation('drain', 'drain_node', subject.pool_id, ARRAY[subject.pool_id],
		jsonb_build_object('node', subject.name, 'node_id', named, 'schedulable', subject.schedulable));
END
$$;
COMMENT ON FUNCTION rpq.drain_node(text) IS
'cordons the node at once and asks for an operation that moves its pods to other nodes of the pool of the same '
'instance type, reserve first; returns its id. It has succeeded when nothing stands on the node, which stays '
'cordoned; when it fails or is cancelled, the node is as schedulable as before and pods that have moved stay where '
'they are. Errors: 42704 unknown node, 22023 no node, RQ004 the pool has an open operation, is being created or '
'deleted, RQ006 a pod has no place elsewhere (the errdetail names it), RQ009 fenced. Administrators of its pool';

-- The first step: the node may have been uncordoned since the call, or the drain be tried again.
CREATE FUNCTION rpq_store.begin_drain(subject rpq_store.operation, drained rpq_store.node) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF drained.node_id IS NULL OR drained.pool_id <> subject.pool_id THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ004', MESSAGE = format('node "%s" is no longer in the pool',
			subject.arguments->>'node');
	END IF;
	PERFORM rpq_store.begin_moves(subject.operation_id, subject.pool_id, ARRAY[drained.node_id]);
	UPDATE rpq_store.node AS n SET schedulable = false WHERE n.node_id = drained.node_id AND n.schedulable;
	INSERT INTO rpq_store.migration (operation_id, tenant_id, direction, mode, from_pool_id, type_id, nodes)
	VALUES (subject.operation_id, subject.tenant_id, 'in', 'nodes', subject.pool_id, drained.type_id,
		ARRAY[drained.name]);
	UPDATE rpq_store.operation AS o SET step = 'evacuate' WHERE o.operation_id = subject.operation_id;
END
$$;
COMMENT ON FUNCTION rpq_store.begin_drain(rpq_store.operation, rpq_store.node) IS
'the first step of a drain: the node takes nothing, its pods'' moves are planned, the migration record is written';

CREATE FUNCTION rpq_store.op_drain(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	drained rpq_store.node;
	moves rpq_store.moves_progress;
	outcome jsonb;
BEGIN
	PERFORM rpq_store.fold(ARRAY[subject.pool_id]);
	SELECT * INTO drained FROM rpq_store.node AS n WHERE n.node_id = (subject.arguments->>'node_id')::bigint;
	IF subject.step IS NULL THEN
		PERFORM rpq_store.begin_drain(subject, drained);
	END IF;
	moves := rpq_store.step_moves(subject.operation_id, rpq_store.move_timeout());
	IF moves.blocked IS NOT NULL THEN
		PERFORM rpq_store.raise_blocked(subject.operation_id, moves.blocked);
	ELSIF moves."left" > 0 THEN
		RETURN NULL;
	END IF;
	PERFORM rpq_store.end_moves(subject.operation_id);
	outcome := jsonb_build_object('node', subject.arguments->>'node', 'moved', moves.done, 'skipped', moves.skipped);
	PERFORM rpq_store.record(subject.action, 'node', (subject.arguments->>'node_id')::bigint,
		subject.arguments->>'node', subject.tenant_id, subject.pool_id,
		jsonb_build_object('schedulable', subject.arguments->'schedulable'),
		jsonb_build_object('schedulable', false, 'moved', moves.done, 'workloads',
			(SELECT to_jsonb(g.evicted) FROM rpq_store.migration AS g WHERE g.operation_id = subject.operation_id)),
		subject.operation_id);
	RETURN outcome;
END
$$;
COMMENT ON FUNCTION rpq_store.op_drain(rpq_store.operation) IS
'one step of the operation drain: NULL while pods have still to move, then its result, with its history row';

-- A drain that is undone must not lift what an administrator has decided meanwhile.  Who holds the turn waits for no
-- row.
CREATE FUNCTION rpq_store.keep_cordoned(node_id bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.operation AS o SET arguments = o.arguments || '{"schedulable": false}'
	WHERE o.operation_id IN (
		SELECT d.operation_id FROM rpq_store.operation AS d
		WHERE d.status IN ('pending', 'running') AND d.kind = 'drain' AND (d.arguments->>'node_id')::bigint = $1
		FOR NO KEY UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION rpq_store.keep_cordoned(bigint) IS
'a node that is being drained stays cordoned also when the drain is undone. The caller holds the turn of its pool';

CREATE FUNCTION rpq_store.undo_drain(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM rpq_store.undo_moves(subject.operation_id, rpq_store.undo_reason(subject));
	UPDATE rpq_store.node AS n SET schedulable = true
	WHERE n.node_id = (subject.arguments->>'node_id')::bigint AND NOT n.schedulable
	  AND (subject.arguments->>'schedulable')::boolean;
END
$$;
COMMENT ON FUNCTION rpq_store.undo_drain(rpq_store.operation) IS
'undoes a drain, also one that has not begun: what it kept is given back, the node is as schedulable as before';
-- Nodes between pools: what resizing a pool and moving nodes have in common.
--
-- Writes node (pool_id), and with it node_load, pool_capacity and pool_instance, under the turns of both pools.

-- ---- what a request is about ----------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.other_pool(action text, subject rpq_store.pool, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	found_id bigint;
BEGIN
	IF other_pool.name IS NULL THEN
		SELECT p.pool_id INTO found_id FROM rpq_store.pool AS p
		WHERE p.tenant_id = subject.tenant_id AND p.cluster_id = subject.cluster_id AND p.kind = subject.kind
		  AND p.type = 'shared';
		RETURN found_id;
	END IF;
	found_id := rpq_store.find_pool(rpq_store.in_tenant(subject.tenant_id, other_pool.name));
	IF NOT EXISTS (SELECT FROM rpq_store.pool AS p
				   WHERE p.pool_id = found_id AND p.type = 'shared' AND p.tenant_id = subject.tenant_id) THEN
		PERFORM rpq_store.authorize_id(other_pool.action, found_id);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.other_pool(text, rpq_store.pool, text) IS
'the pool of this name that gives or takes nodes, by default the shared one (NULL where there is none). The right '
'is needed on it as well (42704, 42501), but for a shared pool of the tenant, which it is enough to see';

CREATE FUNCTION rpq_store.find_nodes(tenant_id bigint, names text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	ids bigint[];
BEGIN
	IF find_nodes.names IS NULL THEN
		RETURN NULL;
	ELSIF cardinality(find_nodes.names) = 0 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'at least one node must be given';
	END IF;
	SELECT array_agg(f.node_id ORDER BY f.place) INTO ids
	FROM (SELECT rpq_store.find_node(rpq_store.in_tenant(find_nodes.tenant_id, u.name)) AS node_id,
			min(u.place) AS place
		  FROM unnest(find_nodes.names) WITH ORDINALITY AS u (name, place) GROUP BY 1) AS f;
	IF EXISTS (SELECT FROM rpq_store.node AS n
			   WHERE n.node_id = ANY (ids) AND n.tenant_id <> find_nodes.tenant_id) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the nodes belong to another tenant';
	END IF;
	RETURN ids;
END
$$;
COMMENT ON FUNCTION rpq_store.find_nodes(bigint, text[]) IS
'the ids of nodes that the caller may see, in the order given, repeats left out; NULL for NULL, 42704 for an '
'unknown one, 22023 for none at all or of another tenant';

CREATE FUNCTION rpq_store.take_pools(subject_id bigint, others bigint[]) RETURNS rpq_store.pool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[];
	subject rpq_store.pool;
BEGIN
	SELECT array_agg(DISTINCT s.scope_id ORDER BY s.scope_id) INTO scopes
	FROM unnest(take_pools.others || take_pools.subject_id) AS s (scope_id) WHERE s.scope_id IS NOT NULL;
	PERFORM rpq_store.take_turns(scopes);
	PERFORM rpq_store.fold(scopes);
	-- a shared pool is held by a drain of its own alone, which is in nobody's way
	PERFORM rpq_store.check_free(ARRAY(SELECT p.pool_id FROM rpq_store.pool AS p
									   WHERE p.pool_id = ANY (scopes) AND p.type <> 'shared'));
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = take_pools.subject_id;
	RETURN subject;
END
$$;
COMMENT ON FUNCTION rpq_store.take_pools(bigint, bigint[]) IS
'takes the turns of pools between which nodes are to go, folds them, and refuses (RQ004) when one that is not shared '
'is not free; '
'the subject as it then is. NULLs among the others are left out';

CREATE FUNCTION rpq_store.check_partners(subject rpq_store.pool, others bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	other rpq_store.pool;
BEGIN
	FOR other IN
		SELECT p.* FROM rpq_store.pool AS p WHERE p.pool_id = ANY (check_partners.others) ORDER BY p.pool_id
	LOOP
		IF other.pool_id = subject.pool_id THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nodes cannot go from a pool to itself',
				DETAIL = format('Both are pool "%s".', subject.name);
		ELSIF other.tenant_id <> subject.tenant_id OR other.cluster_id <> subject.cluster_id
			OR other.kind <> subject.kind THEN
			RAISE EXCEPTION USING ERRCODE = '22023',
				MESSAGE = 'nodes go between pools of one tenant, cluster and kind',
				DETAIL = (SELECT string_agg(format('Pool "%s" is a %s pool of tenant "%s" in cluster "%s".', p.name,
							p.kind, t.name, c.name), ' ' ORDER BY p.pool_id <> subject.pool_id)
						  FROM rpq_store.pool AS p
						  JOIN rpq_store.tenant AS t ON t.tenant_id = p.tenant_id
						  JOIN rpq_store.cluster AS c ON c.cluster_id = p.cluster_id
						  WHERE p.pool_id IN (subject.pool_id, other.pool_id));
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.check_partners(rpq_store.pool, bigint[]) IS
'refuses (22023) pools that cannot exchange nodes with this one: itself, or of another tenant, cluster or kind';

-- Where the instance type is not named: the only one that the pool has nodes of, else its only one, else the source's.
CREATE FUNCTION rpq_store.type_of_pool(subject rpq_store.pool, source_id bigint, type_id bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	types bigint[];
	kind_of rpq_store.instance_type;
BEGIN
	IF type_of_pool.type_id IS NOT NULL THEN
		SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = type_of_pool.type_id;
		IF kind_of.kind <> subject.kind THEN
			RAISE EXCEPTION USING ERRCODE = '22023',
				MESSAGE = format('instance type "%s" is of another kind', kind_of.name),
				DETAIL = format('It is of kind %s, pool "%s" of kind %s.', kind_of.kind, subject.name, subject.kind);
		END IF;
		RETURN type_of_pool.type_id;
	END IF;
	SELECT array_agg(DISTINCT c.type_id) INTO types FROM rpq_store.pool_capacity AS c
	WHERE c.pool_id = subject.pool_id;
	IF types IS NULL THEN
		SELECT array_agg(i.type_id) INTO types FROM rpq_store.pool_instance AS i WHERE i.pool_id = subject.pool_id;
	END IF;
	IF types IS NULL THEN
		SELECT array_agg(DISTINCT c.type_id) INTO types FROM rpq_store.pool_capacity AS c
		WHERE c.pool_id = type_of_pool.source_id;
	END IF;
	IF cardinality(types) IS DISTINCT FROM 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'instance_type must be given',
			DETAIL = format('There are %s to choose from.', coalesce(cardinality(types), 0));
	END IF;
	RETURN types[1];
END
$$;
COMMENT ON FUNCTION rpq_store.type_of_pool(rpq_store.pool, bigint, bigint) IS
'the instance type that a change of a pool''s nodes is about; 22023 when it has to be named, or is of another '
'kind';

CREATE FUNCTION rpq_store.id_array(ids jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$ SELECT ARRAY(SELECT a.id::bigint FROM jsonb_array_elements_text($1) AS a (id)) $$;
COMMENT ON FUNCTION rpq_store.id_array(jsonb) IS
'ids out of a JSON array; no ids out of NULL';

CREATE FUNCTION rpq_store.receives(asked jsonb) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.pool AS p
				   WHERE p.pool_id = ($1->>'target_id')::bigint AND p.type <> 'shared')
$$;
COMMENT ON FUNCTION rpq_store.receives(jsonb) IS
'whether the target of an operation with these arguments is dedicated or exclusive: it takes only whole machines '
'that take work';

-- ---- carrying it out ------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.pool_total(pool_id bigint) RETURNS rpq.resources
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(rpq.sum(c.capacity OPERATOR(rpq.*) c.nodes::numeric), '')
	FROM rpq_store.pool_capacity AS c WHERE c.pool_id = $1
$$;
COMMENT ON FUNCTION rpq_store.pool_total(bigint) IS
'what the nodes of a pool hold';

-- What recount_capacity() would come to, without looking at the nodes that stay: they may be ten thousand.
CREATE FUNCTION rpq_store.shift_capacity(nodes bigint[], from_id bigint, to_id bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO rpq_store.pool_capacity AS c (pool_id, type_id, capacity, nodes)
	SELECT shift_capacity.to_id, n.type_id, n.capacity, count(*)
	FROM rpq_store.node AS n WHERE n.node_id = ANY (shift_capacity.nodes) GROUP BY n.type_id, n.capacity
	ON CONFLICT (pool_id, type_id, capacity) DO UPDATE SET nodes = c.nodes + excluded.nodes;
	UPDATE rpq_store.pool_capacity AS c SET nodes = c.nodes - g.nodes
	FROM (SELECT n.type_id, n.capacity, count(*) AS nodes
		  FROM rpq_store.node AS n WHERE n.node_id = ANY (shift_capacity.nodes) GROUP BY n.type_id, n.capacity) AS g
	WHERE c.pool_id = shift_capacity.from_id AND c.type_id = g.type_id AND c.capacity OPERATOR(rpq.=) g.capacity;
	DELETE FROM rpq_store.pool_capacity AS c WHERE c.pool_id = shift_capacity.from_id AND c.nodes = 0;
	-- a total that is out of range (22003) is refused here, not met by every later reader
	PERFORM rpq_store.pool_total(shift_capacity.to_id);
	INSERT INTO rpq_store.pool_instance (pool_id, type_id)
	SELECT DISTINCT shift_capacity.to_id, n.type_id
	FROM rpq_store.node AS n WHERE n.node_id = ANY (shift_capacity.nodes)
	ON CONFLICT (pool_id, type_id) DO NOTHING;
	UPDATE rpq_store.node_load AS l SET pool_id = shift_capacity.to_id
	WHERE l.node_id = ANY (shift_capacity.nodes);
END
$$;
COMMENT ON FUNCTION rpq_store.shift_capacity(bigint[], bigint, bigint) IS
'counts what nodes hold, which have gone from one pool to another, to that pool: pool_capacity, pool_instance, '
'node_load. The caller holds both turns';

CREATE FUNCTION rpq_store.hand_over(nodes bigint[], from_id bigint, to_id bigint) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	names text[];
BEGIN
	IF hand_over.nodes = '{}' THEN
		RETURN ARRAY[]::text[];
	END IF;
	WITH moved AS (
		UPDATE rpq_store.node AS n SET pool_id = hand_over.to_id
		WHERE n.node_id = ANY (hand_over.nodes) AND n.pool_id = hand_over.from_id RETURNING n.name)
	SELECT array_agg(m.name ORDER BY m.name) INTO names FROM moved AS m;
	PERFORM rpq_store.shift_capacity(hand_over.nodes, hand_over.from_id, hand_over.to_id);
	RETURN names;
END
$$;
COMMENT ON FUNCTION rpq_store.hand_over(bigint[], bigint, bigint) IS
'gives nodes from one pool to another, and returns their names. They are empty; the caller holds both turns';

-- The shared pool may not be there yet, when all nodes were ordered for other pools.  Its turn comes after others that
-- are held, so it is not waited for.
CREATE FUNCTION rpq_store.receiver(subject rpq_store.pool, target_id bigint, action text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	shared_id bigint;
BEGIN
	IF receiver.target_id IS NOT NULL THEN
		RETURN receiver.target_id;
	END IF;
	shared_id := rpq_store.shared_pool(subject.tenant_id, subject.cluster_id, subject.kind, receiver.action);
	IF NOT rpq_store.try_turns(ARRAY[shared_id]) THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'the shared pool came into being just now, and is in use',
			HINT = 'Try again.';
	END IF;
	PERFORM rpq_store.take_turns(ARRAY[shared_id]);
	RETURN shared_id;
END
$$;
COMMENT ON FUNCTION rpq_store.receiver(rpq_store.pool, bigint, text) IS
'the pool that takes a pool''s nodes: the one given, else the shared one, which is made when there is none; 55P03 when '
'somebody has its turn';

CREATE FUNCTION rpq_store.evicted_by(operation_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT DISTINCT m.workload_id FROM rpq_store.pod_migration AS m
				 WHERE m.operation_id = $1 AND m.status = 'done' ORDER BY m.workload_id)
$$;
COMMENT ON FUNCTION rpq_store.evicted_by(bigint) IS
'the workloads whose pods an operation has moved';

CREATE FUNCTION rpq_store.changed_nodes(added jsonb, removed jsonb, evicted bigint[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('nodes_added', nullif($1, '[]'), 'nodes_removed', nullif($2, '[]'),
		'evicted', CASE WHEN $3 <> '{}' THEN to_jsonb($3) END))
$$;
COMMENT ON FUNCTION rpq_store.changed_nodes(jsonb, jsonb, bigint[]) IS
'what the history says of nodes that came and went; nothing where there are none';

CREATE FUNCTION rpq_store.begin_emptying(operation_id bigint, pool_id bigint, nodes bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF begin_emptying.nodes <> '{}' THEN
		PERFORM rpq_store.begin_moves(begin_emptying.operation_id, begin_emptying.pool_id, begin_emptying.nodes);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.begin_emptying(bigint, bigint, bigint[]) IS
'begins to empty nodes that are to leave a pool, if there are any: idle ones as well, so that they stay idle';

CREATE FUNCTION rpq_store.emptied(subject rpq_store.operation) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	nodes bigint[] := rpq_store.draining_nodes(subject.operation_id);
	moves rpq_store.moves_progress;
BEGIN
	moves := rpq_store.step_moves(subject.operation_id, rpq_store.move_timeout());
	IF moves.blocked IS NOT NULL THEN
		PERFORM rpq_store.raise_blocked(subject.operation_id, moves.blocked);
	ELSIF moves."left" > 0
		OR EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = ANY (nodes))
		OR EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = ANY (nodes)) THEN
		RETURN false;
	END IF;
	PERFORM rpq_store.end_moves(subject.operation_id);
	RETURN true;
END
$$;
COMMENT ON FUNCTION rpq_store.emptied(rpq_store.operation) IS
'one step of emptying an operation''s nodes: true when nothing stands on them any more, also no room that is kept '
'for a pod that is stopping; then they take pods again from the end of the transaction on';
-- Resizing a pool.
--
-- Writes what sql/api/exchange.sql and moves.sql write, under the turns of the pools concerned.  The call checks and
-- opens the operation; op_resize checks the same again and carries it out: in one transaction where all nodes are idle,
-- else (evacuate) in steps, which are those of moves.sql, and a last one in which the nodes change pools.

-- ---- which nodes go -------------------------------------------------------------------------------------------------

-- Usage may be of nodes that stay or of nodes that go: that it is within what stays is what counts first.
CREATE FUNCTION rpq_store.pick_to_shrink(subject rpq_store.pool, type_id bigint, wanted numeric,
	change numeric, receiving boolean, evacuate boolean, OUT picked bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	kind_of rpq_store.instance_type;
	main_key text;
	used rpq.resources;
	too_much boolean;
	choice record;
	in_use text;
BEGIN
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t WHERE t.type_id = pick_to_shrink.type_id;
	main_key := rpq_store.primary_resource(kind_of.machine_unit);
	SELECT rpq.sum(u.amount) INTO used
	FROM rpq_store.usage AS u
	WHERE u.pool_id = subject.pool_id AND u.type_id = pick_to_shrink.type_id AND u.lender_id = 0;
	choice := rpq_store.pick_amount(subject.pool_id, pick_to_shrink.type_id, pick_to_shrink.change, false,
		pick_to_shrink.receiving, pick_to_shrink.receiving, pick_to_shrink.evacuate);
	too_much := coalesce(used OPERATOR(rpq.->) main_key, 0) > pick_to_shrink.wanted;
	IF NOT too_much AND choice.picked IS NOT NULL THEN
		pick_to_shrink.picked := choice.picked;
		pick_to_shrink.busy := choice.busy;
		RETURN;
	END IF;
	IF NOT too_much THEN
		PERFORM rpq_store.refuse_moves(subject.pool_id, choice.unplaced, true);
	END IF;
	SELECT rpq_store.describe_busy(array_agg(c.node_id), true) INTO in_use
	FROM rpq_store.node_candidates(subject.pool_id, pick_to_shrink.type_id, false) AS c WHERE NOT c.idle;
	IF too_much THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006',
			MESSAGE = format('pool "%s" uses more than it would hold', subject.name),
			DETAIL = concat(format('%s=%s of instance type "%s" is used, the quota would be %s=%s.', main_key,
				CAST(used AS jsonb)->>main_key, kind_of.name, main_key, pick_to_shrink.wanted),
				' In use: ' || in_use || '.'),
			HINT = 'Stop workloads, or keep more machines.';
	END IF;
	RAISE EXCEPTION USING ERRCODE = 'RQ006',
		MESSAGE = format('pool "%s" has too few idle nodes to give', subject.name),
		DETAIL = concat(format('Nodes for %s=%s are to go, idle ones come to %s=%s.', main_key, pick_to_shrink.change,
			main_key, choice.idle_amount), ' In use: ' || in_use || '.'),
		HINT = CASE WHEN NOT pick_to_shrink.evacuate THEN
			'With evacuate => true the pods of the least used nodes are moved first.'
			ELSE 'Ask for fewer nodes, or stop what stands on them.' END;
END
$$;
COMMENT ON FUNCTION rpq_store.pick_to_shrink(rpq_store.pool, bigint, numeric, numeric, boolean, boolean) IS
'the nodes of a type that a pool gives away when it is to hold no more than wanted of the primary resource; RQ006 '
'when that is used, or too few are idle. receiving: the nodes go to a pool that is not shared. busy: those that '
'hold something. The caller holds the turn and has folded';

CREATE FUNCTION rpq_store.plan_quota(subject rpq_store.pool, source_id bigint, type_id bigint,
	quota rpq.resources, receiving boolean, evacuate boolean,
	OUT adding bigint[], OUT removing bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	main_key text := rpq_store.primary_resource((SELECT t.machine_unit FROM rpq_store.instance_type AS t
												 WHERE t.type_id = plan_quota.type_id));
	wanted numeric := plan_quota.quota OPERATOR(rpq.->) main_key;
	held numeric;
	choice record;
BEGIN
	SELECT coalesce(sum(n.capacity OPERATOR(rpq.->) main_key), 0) INTO held
	FROM rpq_store.node AS n WHERE n.pool_id = subject.pool_id AND n.type_id = plan_quota.type_id;
	plan_quota.adding := '{}';
	plan_quota.removing := '{}';
	plan_quota.busy := '{}';
	IF wanted > held THEN
		choice := rpq_store.pick_amount(plan_quota.source_id, plan_quota.type_id, wanted - held, false, true, true,
			plan_quota.evacuate);
		IF choice.picked IS NULL THEN
			PERFORM rpq_store.refuse_source(plan_quota.source_id, plan_quota.type_id,
				main_key || '=' || trim_scale(wanted - held),
				'idle nodes for ' || main_key || '=' || choice.idle_amount);
		END IF;
		plan_quota.adding := choice.picked;
		plan_quota.busy := choice.busy;
	ELSIF wanted < held THEN
		choice := rpq_store.pick_to_shrink(subject, plan_quota.type_id, wanted, held - wanted, plan_quota.receiving,
			plan_quota.evacuate);
		plan_quota.removing := choice.picked;
		plan_quota.busy := choice.busy;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.plan_quota(rpq_store.pool, bigint, bigint, rpq.resources, boolean, boolean) IS
'the nodes that come and go when a pool is to hold this much of an instance type, in the primary resource; none '
'when it does. receiving: what goes goes to a pool that is not shared. busy: those that hold something. RQ006, '
'RQ005 when they cannot';

CREATE FUNCTION rpq_store.plan_resize(subject rpq_store.pool, asked jsonb,
	OUT adding bigint[], OUT removing bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	choice record;
	evacuate boolean := coalesce((plan_resize.asked->>'evacuate')::boolean, false);
	receiving boolean := rpq_store.receives(plan_resize.asked);
BEGIN
	IF plan_resize.asked ? 'quota' THEN
		choice := rpq_store.plan_quota(subject, (plan_resize.asked->>'source_id')::bigint,
			(plan_resize.asked->>'type_id')::bigint, (plan_resize.asked->>'quota')::rpq.resources, receiving, evacuate);
		plan_resize.adding := choice.adding;
		plan_resize.removing := choice.removing;
		plan_resize.busy := choice.busy;
		PERFORM rpq_store.check_nodes_leave(plan_resize.adding, subject.pool_id, plan_resize.removing,
			(plan_resize.asked->>'target_id')::bigint);
		RETURN;
	END IF;
	plan_resize.adding := rpq_store.id_array(plan_resize.asked->'add_ids');
	plan_resize.removing := rpq_store.id_array(plan_resize.asked->'remove_ids');
	plan_resize.busy := rpq_store.check_named_nodes((plan_resize.asked->>'source_id')::bigint, plan_resize.adding,
			true, true, evacuate)
		|| rpq_store.check_named_nodes(subject.pool_id, plan_resize.removing, receiving, receiving, evacuate,
			true);
	IF plan_resize.busy <> '{}' THEN
		PERFORM rpq_store.refuse_moves((plan_resize.asked->>'source_id')::bigint, plan_resize.adding, false);
		PERFORM rpq_store.refuse_moves(subject.pool_id, plan_resize.removing, true);
	END IF;
	PERFORM rpq_store.check_nodes_leave(plan_resize.adding, subject.pool_id, plan_resize.removing,
		(plan_resize.asked->>'target_id')::bigint);
END
$$;
COMMENT ON FUNCTION rpq_store.plan_resize(rpq_store.pool, jsonb) IS
'the nodes that a resize, asked for with these arguments, adds and removes; refused as it is at the call (RQ003, '
'RQ006, RQ005, RQ002). The caller holds the turns and has folded';

-- ---- the call -------------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.check_resize(subject rpq_store.pool, quota rpq.resources, add_ids bigint[],
	remove_ids bigint[], source_id bigint, INOUT type_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF subject.type = 'shared' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a shared pool holds the nodes that no other pool has',
			DETAIL = format('Pool "%s" is shared.', subject.name),
			HINT = 'Resize the other pool, or use rpq.move_nodes(), rpq.add_nodes() or rpq.remove_nodes().';
	ELSIF (check_resize.quota IS NULL) = (check_resize.add_ids IS NULL AND check_resize.remove_ids IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = '22023',
			MESSAGE = 'either quota, or add_nodes and remove_nodes, must be given';
	ELSIF check_resize.add_ids && check_resize.remove_ids THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a node cannot be added and removed at once',
			DETAIL = (SELECT string_agg(n.name, ', ' ORDER BY n.name) FROM rpq_store.node AS n
					  WHERE n.node_id = ANY (check_resize.add_ids) AND n.node_id = ANY (check_resize.remove_ids));
	ELSIF check_resize.quota IS NULL THEN
		PERFORM rpq_store.check_pool_nodes(check_resize.type_id, check_resize.add_ids || check_resize.remove_ids);
		RETURN;
	END IF;
	check_resize.type_id := rpq_store.type_of_pool(subject, check_resize.source_id, check_resize.type_id);
	PERFORM rpq_store.check_pool_quota(subject.kind, check_resize.quota, false, check_resize.source_id,
		check_resize.type_id);
END
$$;
COMMENT ON FUNCTION rpq_store.check_resize(rpq_store.pool, rpq.resources, bigint[], bigint[], bigint, bigint) IS
'refuses what a resize cannot be asked for (22023, RQ003); finds the instance type of a quota where it is not '
'given';

CREATE FUNCTION rpq.resize_pool(pool text, quota rpq.resources DEFAULT NULL, add_nodes text[] DEFAULT NULL,
	remove_nodes text[] DEFAULT NULL, instance_type text DEFAULT NULL, source text DEFAULT NULL,
	target text DEFAULT NULL, evacuate boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'resize_pool'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('resize_pool', resize_pool.pool);
	source_id bigint;
	target_id bigint;
	type_of bigint;
	add_ids bigint[];
	remove_ids bigint[];
	held bigint[];
	asked jsonb;
BEGIN
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	source_id := rpq_store.other_pool('resize_pool', subject, resize_pool.source);
	target_id := rpq_store.other_pool('resize_pool', subject, resize_pool.target);
	type_of := CASE WHEN resize_pool.instance_type IS NOT NULL THEN rpq_store.find_type(resize_pool.instance_type) END;
	add_ids := rpq_store.find_nodes(subject.tenant_id, resize_pool.add_nodes);
	remove_ids := rpq_store.find_nodes(subject.tenant_id, resize_pool.remove_nodes);
	subject := rpq_store.take_pools(named, ARRAY[source_id, target_id]);

	type_of := rpq_store.check_resize(subject, resize_pool.quota, add_ids, remove_ids, source_id, type_of);
	PERFORM rpq_store.check_partners(subject, ARRAY[source_id, target_id]);
	asked := jsonb_strip_nulls(jsonb_build_object('pool', subject.name, 'quota', resize_pool.quota::text,
		'add_nodes', to_jsonb(resize_pool.add_nodes), 'add_ids', to_jsonb(add_ids),
		'remove_nodes', to_jsonb(resize_pool.remove_nodes), 'remove_ids', to_jsonb(remove_ids),
		'instance_type', (SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = type_of),
		'type_id', type_of, 'source', resize_pool.source, 'source_id', source_id,
		'target', resize_pool.target, 'target_id', target_id, 'evacuate', coalesce(resize_pool.evacuate, false)));
	PERFORM rpq_store.plan_resize(subject, asked);
	SELECT array_agg(p.pool_id ORDER BY p.pool_id) INTO held FROM rpq_store.pool AS p
	WHERE p.pool_id IN (named, source_id, target_id) AND p.type <> 'shared';
	RETURN rpq_store.open_operation('resize', 'resize_pool', named, held, asked);
END
$$;
COMMENT ON FUNCTION rpq.resize_pool(text, rpq.resources, text[], text[], text, text, text, boolean) IS
'asks for a dedicated or exclusive pool to hold more or fewer machines; returns the id of the operation. quota: '
'what it is to hold of the instance type, whole machines in the primary resource alone (gpu=64), 0 for none; what '
'it holds already changes nothing. Or add_nodes, remove_nodes: these, repeats left out. instance_type: default '
'the only one of the pool. source: where it grows from, a pool of the same cluster and kind, default the shared '
'one; target: where its nodes go. Idle nodes go first: into the pool only such as take work, out of it the '
'unhealthy and cordoned before the others. evacuate: nodes that hold pods as well, the least used first; the pods '
'are moved within their pool before. What borrows on a node that leaves is preempted first, and waited for where an '
'executor has it. Errors: 42704 unknown object, 42501 no right on pool, source or target, '
'RQ004 one of them has an open operation or is not ready, 22023 bad argument, RQ003 no whole number of machines, '
'RQ006 more is used than would be left, or nodes are in use, RQ005 the source has too few idle nodes, or a node '
'is not where it must be, RQ002 reservations of policies could not be served by what a pool would have left, RQ009 '
'fenced. Administrators of the pool and of a source or target that is not shared';

-- ---- carrying it out ------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.finish_resize(subject rpq_store.operation, adding bigint[], removing bigint[])
RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	resized rpq_store.pool;
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	target_id bigint := (subject.arguments->>'target_id')::bigint;
	before jsonb;
	outcome jsonb;
	evicted bigint[] := rpq_store.evicted_by(subject.operation_id);
BEGIN
	SELECT * INTO resized FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	IF finish_resize.removing <> '{}' THEN
		target_id := rpq_store.receiver(resized, target_id, subject.action);
	END IF;
	SELECT jsonb_object_agg(p.pool_id, rpq_store.pool_total(p.pool_id)::text) INTO before
	FROM rpq_store.pool AS p WHERE p.pool_id IN (subject.pool_id, source_id, target_id);
	outcome := jsonb_build_object(
		'added', rpq_store.hand_over(finish_resize.adding, source_id, subject.pool_id),
		'removed', rpq_store.hand_over(finish_resize.removing, subject.pool_id, target_id));
	-- one row for each pool that was named
	PERFORM rpq_store.record(subject.action, 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id,
		jsonb_build_object('total', before->>p.pool_id::text),
		jsonb_build_object('total', rpq_store.pool_total(p.pool_id)::text)
			|| rpq_store.changed_nodes(
				(CASE p.pool_id WHEN subject.pool_id THEN outcome->'added' ELSE '[]' END)
					|| CASE p.pool_id WHEN target_id THEN outcome->'removed' ELSE '[]' END,
				(CASE p.pool_id WHEN subject.pool_id THEN outcome->'removed' ELSE '[]' END)
					|| CASE p.pool_id WHEN source_id THEN outcome->'added' ELSE '[]' END, evicted),
		subject.operation_id)
	FROM rpq_store.pool AS p
	WHERE p.pool_id = subject.pool_id OR (p.pool_id = source_id AND subject.arguments ? 'source')
	   OR (p.pool_id = target_id AND subject.arguments ? 'target');
	RETURN outcome || jsonb_build_object('evicted', evicted);
END
$$;
COMMENT ON FUNCTION rpq_store.finish_resize(rpq_store.operation, bigint[], bigint[]) IS
'the last step of a resize: the nodes, all empty, change pools, and the history says so; returns the result';

CREATE FUNCTION rpq_store.op_resize(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[] := rpq_store.operation_scopes(subject.operation_id);
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	resized rpq_store.pool;
	plan record;
	adding bigint[];
	removing bigint[];
BEGIN
	PERFORM rpq_store.fold(scopes);
	PERFORM rpq_store.check_pool_status(p) FROM rpq_store.pool AS p WHERE p.pool_id = ANY (scopes) ORDER BY p.pool_id;
	SELECT * INTO resized FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	IF subject.step IS NULL THEN
		plan := rpq_store.plan_resize(resized, subject.arguments);
		IF plan.busy = '{}' AND rpq_store.reclaim_nodes(source_id, plan.adding)
				|| rpq_store.reclaim_nodes(subject.pool_id, plan.removing) = '{}' THEN
			RETURN rpq_store.finish_resize(subject, plan.adding, plan.removing);
		END IF;
		PERFORM rpq_store.begin_emptying(subject.operation_id, source_id, plan.adding);
		PERFORM rpq_store.begin_emptying(subject.operation_id, subject.pool_id, plan.removing);
		UPDATE rpq_store.operation AS o
		SET step = 'evacuate', state = o.state || jsonb_build_object('adding', plan.adding, 'removing', plan.removing)
		WHERE o.operation_id = subject.operation_id;
		RETURN NULL;
	ELSIF NOT rpq_store.emptied(subject) THEN
		RETURN NULL;
	END IF;
	adding := rpq_store.id_array(subject.state->'adding');
	removing := rpq_store.id_array(subject.state->'removing');
	PERFORM rpq_store.check_named_nodes(source_id, adding);
	PERFORM rpq_store.check_named_nodes(subject.pool_id, removing, rpq_store.receives(subject.arguments),
		rpq_store.receives(subject.arguments));
	PERFORM rpq_store.check_nodes_leave(adding, subject.pool_id, removing,
		(subject.arguments->>'target_id')::bigint);
	RETURN rpq_store.finish_resize(subject, adding, removing);
END
$$;
COMMENT ON FUNCTION rpq_store.op_resize(rpq_store.operation) IS
'one step of the operation resize: checks again what may have changed since the call and gives the nodes over, at '
'once where they are idle; else NULL while pods have still to leave them. Returns the nodes'' names';

CREATE FUNCTION rpq_store.undo_resize(subject rpq_store.operation) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT rpq_store.undo_moves(subject.operation_id, rpq_store.undo_reason(subject))
$$;
COMMENT ON FUNCTION rpq_store.undo_resize(rpq_store.operation) IS
'undoes the steps of a resize: its nodes stay where they are, and take pods again';
-- Moving nodes between pools, from the view of the nodes.
--
-- Writes migration, and what sql/api/exchange.sql and moves.sql write, under the turns of both pools.

CREATE FUNCTION rpq_store.plan_move(source_id bigint, asked jsonb,
	OUT picked bigint[], OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source rpq_store.pool;
	receiving boolean := rpq_store.receives(plan_move.asked);
	wanted int := (plan_move.asked->>'count')::int;
	type_id bigint := (plan_move.asked->>'type_id')::bigint;
	evacuate boolean := coalesce((plan_move.asked->>'evacuate')::boolean, false);
	choice record;
	in_use bigint[];
BEGIN
	SELECT * INTO source FROM rpq_store.pool AS p WHERE p.pool_id = plan_move.source_id;
	IF wanted IS NULL THEN
		plan_move.picked := rpq_store.id_array(plan_move.asked->'node_ids');
		plan_move.busy := rpq_store.check_named_nodes(source.pool_id, plan_move.picked, receiving, receiving, evacuate,
			NOT receiving);
		IF plan_move.busy <> '{}' THEN
			PERFORM rpq_store.refuse_moves(source.pool_id, plan_move.picked, NOT receiving);
		END IF;
		RETURN;
	END IF;
	choice := rpq_store.pick_amount(source.pool_id, type_id, wanted, true, receiving, receiving, evacuate);
	IF choice.picked IS NULL AND NOT receiving THEN
		PERFORM rpq_store.refuse_moves(source.pool_id, choice.unplaced, true);
		SELECT array_agg(c.node_id) INTO in_use
		FROM rpq_store.node_candidates(source.pool_id, type_id, false) AS c WHERE NOT c.idle;
		IF in_use IS NOT NULL THEN
			RAISE EXCEPTION USING ERRCODE = 'RQ006',
				MESSAGE = format('pool "%s" has too few idle nodes to give', source.name),
				DETAIL = format('%s are to go, %s are idle. In use: %s.', wanted, choice.idle_amount,
					rpq_store.describe_busy(in_use, true)),
				HINT = CASE WHEN NOT evacuate THEN
					'With evacuate => true the pods of the least used nodes are moved first.'
					ELSE 'Ask for fewer nodes, or stop what stands on them.' END;
		END IF;
	END IF;
	IF choice.picked IS NULL THEN
		PERFORM rpq_store.refuse_source(source.pool_id, type_id,
			wanted || CASE wanted WHEN 1 THEN ' node' ELSE ' nodes' END, choice.idle_amount || ' idle');
	END IF;
	plan_move.picked := choice.picked;
	plan_move.busy := choice.busy;
END
$$;
COMMENT ON FUNCTION rpq_store.plan_move(bigint, jsonb) IS
'the nodes that a move, asked for with these arguments, takes, and which of them hold something; refused as it is '
'at the call (RQ003, RQ006, RQ005). The caller holds both turns and has folded';

-- ---- the record -----------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.note_migration(subject rpq_store.operation) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	named bigint[] := rpq_store.id_array(subject.arguments->'node_ids');
BEGIN
	INSERT INTO rpq_store.migration (operation_id, tenant_id, direction, mode, from_pool_id, to_pool_id, type_id, nodes)
	SELECT subject.operation_id, subject.tenant_id, CASE p.type WHEN 'shared' THEN 'out' ELSE 'in' END,
		CASE WHEN subject.arguments ? 'count' THEN 'quantity' ELSE 'nodes' END,
		(subject.arguments->>'source_id')::bigint, p.pool_id,
		coalesce((subject.arguments->>'type_id')::bigint,
			(SELECT min(n.type_id) FROM rpq_store.node AS n WHERE n.node_id = ANY (named)
			 HAVING min(n.type_id) = max(n.type_id))),
		ARRAY(SELECT n.name FROM rpq_store.node AS n WHERE n.node_id = ANY (named) ORDER BY n.name)
	FROM rpq_store.pool AS p
	WHERE p.pool_id = (subject.arguments->>'target_id')::bigint
	  AND NOT EXISTS (SELECT FROM rpq_store.migration AS m WHERE m.operation_id = subject.operation_id);
END
$$;
COMMENT ON FUNCTION rpq_store.note_migration(rpq_store.operation) IS
'the migration record of a move, as it was asked for, where there is none yet; by quantity its nodes follow when '
'they are chosen';

-- ---- the call -------------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.pools_of_move(nodes bigint[], from_pool text, to_pool text, OUT from_ids bigint[],
	OUT to_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	tenant bigint;
	one record;
	asked boolean := false;
BEGIN
	pools_of_move.to_id := rpq_store.find_pool(pools_of_move.to_pool);
	SELECT p.tenant_id INTO tenant FROM rpq_store.pool AS p WHERE p.pool_id = pools_of_move.to_id;
	IF pools_of_move.from_pool IS NOT NULL THEN
		pools_of_move.from_ids := ARRAY[rpq_store.find_pool(rpq_store.in_tenant(tenant, pools_of_move.from_pool))];
	ELSE
		SELECT array_agg(DISTINCT n.pool_id ORDER BY n.pool_id) INTO pools_of_move.from_ids
		FROM rpq_store.node AS n WHERE n.node_id = ANY (pools_of_move.nodes);
	END IF;
	FOR one IN
		SELECT p.pool_id, p.type, p.tenant_id FROM rpq_store.pool AS p
		WHERE p.pool_id = ANY (pools_of_move.to_id || pools_of_move.from_ids) ORDER BY p.type = 'shared', p.pool_id
	LOOP
		IF one.type <> 'shared' OR one.tenant_id <> tenant OR NOT asked THEN
			PERFORM rpq_store.authorize_id('move_nodes', one.pool_id);
			asked := true;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.pools_of_move(bigint[], text, text) IS
'the pools that a move is between, each of which the caller must see (42704) and administer (42501), but for a '
'shared one of the tenant beside another. from_ids: the pool named, else those of the nodes';

CREATE FUNCTION rpq_store.check_move(source rpq_store.pool, from_ids bigint[], nodes bigint[], count int,
	INOUT type_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (check_move.nodes IS NULL) = (check_move.count IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'either nodes or count must be given';
	ELSIF check_move.count NOT BETWEEN 1 AND 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'count must be between 1 and 100000',
			DETAIL = format('It is %s.', check_move.count);
	ELSIF source.pool_id IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'from_pool must be given with count';
	ELSIF cardinality(check_move.from_ids) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'nodes must be of one pool',
			DETAIL = (SELECT string_agg(format('%s in "%s"', n.name, p.name), ', ' ORDER BY n.name)
					  FROM rpq_store.node AS n JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
					  WHERE n.node_id = ANY (check_move.nodes));
	ELSIF check_move.nodes IS NOT NULL THEN
		PERFORM rpq_store.check_pool_nodes(check_move.type_id, check_move.nodes);
	ELSE
		check_move.type_id := rpq_store.type_of_pool(source, NULL, check_move.type_id);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_move(rpq_store.pool, bigint[], bigint[], int, bigint) IS
'refuses (22023) what a move cannot be asked for; finds the instance type of a count where it is not given';

CREATE FUNCTION rpq.move_nodes(nodes text[] DEFAULT NULL, count int DEFAULT NULL,
	from_pool text DEFAULT NULL, to_pool text DEFAULT NULL, instance_type text DEFAULT NULL,
	evacuate boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'move_nodes'
AS $$
#variable_conflict use_column
DECLARE
	target rpq_store.pool;
	source rpq_store.pool;
	subject rpq_store.pool;
	place record;
	type_of bigint;
	node_ids bigint[];
	asked jsonb;
BEGIN
	SELECT * INTO target FROM rpq_store.pool AS p WHERE p.pool_id = rpq_store.find_pool(move_nodes.to_pool);
	node_ids := rpq_store.find_nodes(target.tenant_id, move_nodes.nodes);
	place := rpq_store.pools_of_move(node_ids, move_nodes.from_pool, move_nodes.to_pool);
	type_of := CASE WHEN move_nodes.instance_type IS NOT NULL THEN rpq_store.find_type(move_nodes.instance_type) END;
	target := rpq_store.take_pools(place.to_id, place.from_ids);
	SELECT * INTO source FROM rpq_store.pool AS p WHERE p.pool_id = place.from_ids[1];

	type_of := rpq_store.check_move(source, place.from_ids, node_ids, move_nodes.count, type_of);
	PERFORM rpq_store.check_partners(target, place.from_ids);
	asked := jsonb_strip_nulls(jsonb_build_object('nodes', to_jsonb(move_nodes.nodes), 'node_ids', to_jsonb(node_ids),
		'count', move_nodes.count, 'from_pool', source.name, 'source_id', source.pool_id,
		'to_pool', target.name, 'target_id', target.pool_id,
		'instance_type', (SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = type_of),
		'type_id', type_of, 'evacuate', coalesce(move_nodes.evacuate, false)));
	PERFORM rpq_store.check_nodes_leave(m.picked, target.pool_id)
	FROM rpq_store.plan_move(source.pool_id, asked) AS m;
	subject := CASE WHEN target.type = 'shared' THEN source ELSE target END;
	RETURN rpq_store.open_operation('move', 'move_nodes', subject.pool_id,
		ARRAY(SELECT p.pool_id FROM rpq_store.pool AS p
			  WHERE p.pool_id IN (source.pool_id, target.pool_id) AND p.type <> 'shared' ORDER BY p.pool_id), asked);
END
$$;
COMMENT ON FUNCTION rpq.move_nodes(text[], int, text, text, text, boolean) IS
'asks for nodes to go from one pool to another of the same tenant, cluster and kind; returns the id of the operation, '
'which leaves a row in rpq.migrations. nodes: these, of one pool, repeats left out; or count: so many of '
'instance_type (default: the only one of the pool) out of from_pool. to_pool: required. Idle nodes go first; a pool '
'that is not shared takes only such as take work and are whole machines. evacuate: nodes that hold pods as well, the '
'least used first; the pods are moved within their pool before. What borrows on a node that leaves is preempted '
'first, and waited for where an executor has it. The operation is about to_pool, or about from_pool when to_pool is '
'shared. Errors: 42704 unknown object, 42501 no right on one of the pools, RQ004 one of them has an open operation or '
'is not ready, 22023 bad argument, RQ003 no whole machines, RQ006 nodes are in use, RQ005 too few idle nodes, or a '
'node is not where it must be or takes no work, RQ002 reservations of policies could not be served by what from_pool '
'would have left, RQ009 fenced. Administrators of both pools, of which a shared one need not be administered';

-- ---- carrying it out ------------------------------------------------------------------------------------------------

CREATE FUNCTION rpq_store.finish_move(subject rpq_store.operation, nodes bigint[]) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	target_id bigint := (subject.arguments->>'target_id')::bigint;
	before jsonb;
	names text[];
	moved_off bigint[] := rpq_store.evicted_by(subject.operation_id);
BEGIN
	SELECT jsonb_object_agg(p.pool_id, rpq_store.pool_total(p.pool_id)::text) INTO before
	FROM rpq_store.pool AS p WHERE p.pool_id IN (source_id, target_id);
	names := rpq_store.hand_over(finish_move.nodes, source_id, target_id);
	UPDATE rpq_store.migration AS m SET nodes = names, evicted = moved_off
	WHERE m.operation_id = subject.operation_id;
	PERFORM rpq_store.record(subject.action, 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id,
		jsonb_build_object('total', before->>p.pool_id::text),
		jsonb_build_object('total', rpq_store.pool_total(p.pool_id)::text)
			|| rpq_store.changed_nodes(CASE p.pool_id WHEN target_id THEN to_jsonb(names) ELSE '[]' END,
				CASE p.pool_id WHEN source_id THEN to_jsonb(names) ELSE '[]' END, moved_off),
		subject.operation_id)
	FROM rpq_store.pool AS p WHERE p.pool_id IN (source_id, target_id);
	RETURN jsonb_build_object('nodes', names, 'evicted', moved_off);
END
$$;
COMMENT ON FUNCTION rpq_store.finish_move(rpq_store.operation, bigint[]) IS
'the last step of a move: the nodes, all empty, change pools, and migration and history say so; returns the '
'result';

CREATE FUNCTION rpq_store.op_move(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[] := rpq_store.operation_scopes(subject.operation_id);
	source_id bigint := (subject.arguments->>'source_id')::bigint;
	target_id bigint := (subject.arguments->>'target_id')::bigint;
	plan record;
	nodes bigint[];
BEGIN
	PERFORM rpq_store.fold(scopes);
	PERFORM rpq_store.check_pool_status(p) FROM rpq_store.pool AS p WHERE p.pool_id = ANY (scopes) ORDER BY p.pool_id;
	IF subject.step IS NULL THEN
		plan := rpq_store.plan_move(source_id, subject.arguments);
		PERFORM rpq_store.check_nodes_leave(plan.picked, target_id);
		IF plan.busy = '{}' AND rpq_store.reclaim_nodes(source_id, plan.picked) = '{}' THEN
			RETURN rpq_store.finish_move(subject, plan.picked);
		END IF;
		PERFORM rpq_store.begin_emptying(subject.operation_id, source_id, plan.picked);
		UPDATE rpq_store.migration AS m
		SET nodes = ARRAY(SELECT n.name FROM rpq_store.node AS n WHERE n.node_id = ANY (plan.picked) ORDER BY n.name)
		WHERE m.operation_id = subject.operation_id;
		UPDATE rpq_store.operation AS o
		SET step = 'evacuate', state = o.state || jsonb_build_object('moving', plan.picked)
		WHERE o.operation_id = subject.operation_id;
		RETURN NULL;
	ELSIF NOT rpq_store.emptied(subject) THEN
		RETURN NULL;
	END IF;
	nodes := rpq_store.id_array(subject.state->'moving');
	PERFORM rpq_store.check_named_nodes(source_id, nodes, rpq_store.receives(subject.arguments),
		rpq_store.receives(subject.arguments));
	PERFORM rpq_store.check_nodes_leave(nodes, target_id);
	RETURN rpq_store.finish_move(subject, nodes);
END
$$;
COMMENT ON FUNCTION rpq_store.op_move(rpq_store.operation) IS
'one step of the operation move: checks again what may have changed since the call and gives the nodes over, at '
'once where they are idle; else NULL while pods have still to leave them. Returns the nodes'' names';

CREATE FUNCTION rpq_store.undo_move(subject rpq_store.operation) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT rpq_store.undo_moves(subject.operation_id, rpq_store.undo_reason(subject))
$$;
COMMENT ON FUNCTION rpq_store.undo_move(rpq_store.operation) IS
'undoes the steps of a move: its nodes stay where they are, and take pods again';
-- Renaming, converting and deleting a pool: atomic operations.
--
-- Writes pool, pool_instance, member, pool_admin, profile_pool, and with delete the pool of nodes and the workloads of
-- the pool, under the turns of the pool and of the shared pool that takes its nodes back.  Workloads are taken with
-- SKIP LOCKED: where a client keeps one locked, nothing of the deletion happens and it is tried again (55P03).

-- ------------------------------------------------------------------------------------------------------- rename

CREATE FUNCTION rpq_store.check_pool_name(subject rpq_store.pool, name text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	IF EXISTS (SELECT FROM rpq_store.pool AS p
			   WHERE p.tenant_id = subject.tenant_id AND p.name = check_pool_name.name AND p.status <> 'deleted'
				 AND p.pool_id <> subject.pool_id) THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('pool "%s" already exists', check_pool_name.name);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_pool_name(rpq_store.pool, text) IS
'refuses (42710) a name that another pool of the tenant has';

CREATE FUNCTION rpq.rename_pool(pool text, name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'rename_pool'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('rename_pool', rename_pool.pool);
	subject rpq_store.pool;
	wanted text;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[named]);
	PERFORM rpq_store.check_free(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	wanted := rpq_store.check_name('pool', rename_pool.name);
	PERFORM rpq_store.check_pool_name(subject, wanted);
	RETURN rpq_store.open_operation('rename', 'rename_pool', named, ARRAY[named],
		jsonb_build_object('name', wanted, 'old_name', subject.name));
END
$$;
COMMENT ON FUNCTION rpq.rename_pool(text, text) IS
'asks for another name of a pool and returns the id of the operation; history, workloads, members and links stay with '
'it. name: 1 to 63 characters, unique in the tenant among pools that are not deleted. Errors: 42704 unknown pool, '
'RQ004 the pool is being created or deleted or has an open operation, 22023 bad name, 42710 name taken, RQ009 fenced. '
'Administrators of the pool';

-- Of two that take the same name at once, the second meets the index when the first has committed.
CREATE FUNCTION rpq_store.op_rename(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	renamed rpq_store.pool;
	wanted text := subject.arguments->>'name';
BEGIN
	SELECT * INTO renamed FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	PERFORM rpq_store.check_pool_name(renamed, wanted);
	UPDATE rpq_store.pool AS p SET name = wanted WHERE p.pool_id = subject.pool_id;
	PERFORM rpq_store.record(subject.action, 'pool', renamed.pool_id, wanted, renamed.tenant_id, renamed.pool_id,
		jsonb_build_object('name', renamed.name), jsonb_build_object('name', wanted), subject.operation_id);
	RETURN jsonb_build_object('name', wanted, 'old_name', renamed.name);
EXCEPTION WHEN unique_violation THEN
	RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('pool "%s" already exists', wanted);
END
$$;
COMMENT ON FUNCTION rpq_store.op_rename(rpq_store.operation) IS
'the operation rename: gives the pool its new name and records it; 42710 when it is taken by now, also in a race';

-- ------------------------------------------------------------------------------------------------------ convert

CREATE FUNCTION rpq_store.check_whole_machines(pool_id bigint) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	partial text;
BEGIN
	-- the few sizes first: of 10,000 nodes each would cost its tenth of a millisecond
	SELECT string_agg(format('%s (%s of %s)', n.name, n.capacity, c.machine_unit), ', ' ORDER BY n.name) INTO partial
	FROM (SELECT c.type_id, c.capacity, t.machine_unit
		  FROM rpq_store.pool_capacity AS c
		  JOIN rpq_store.instance_type AS t ON t.type_id = c.type_id
		  WHERE c.pool_id = check_whole_machines.pool_id
			AND rpq_store.machines(c.capacity, t.machine_unit) IS NULL OFFSET 0) AS c
	JOIN rpq_store.node AS n ON n.pool_id = check_whole_machines.pool_id AND n.type_id = c.type_id
		AND n.capacity OPERATOR(rpq.=) c.capacity;
	IF partial IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'nodes are no whole number of machine units',
			DETAIL = partial;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_whole_machines(bigint) IS
'refuses (RQ003) a pool with a node whose primary resource is no whole multiple of the machine unit, naming each';

CREATE FUNCTION rpq.convert_pool(pool text, type text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'convert_pool'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('convert_pool', convert_pool.pool);
	subject rpq_store.pool;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[named]);
	PERFORM rpq_store.check_free(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	IF convert_pool.type IS NULL OR convert_pool.type NOT IN ('dedicated', 'exclusive') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'type must be dedicated or exclusive';
	ELSIF subject.type = 'shared' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pool "%s" is shared and cannot be converted',
			subject.name);
	END IF;
	PERFORM rpq_store.check_whole_machines(named);
	RETURN rpq_store.open_operation('convert', 'convert_pool', named, ARRAY[named],
		jsonb_build_object('type', convert_pool.type, 'old_type', subject.type));
END
$$;
COMMENT ON FUNCTION rpq.convert_pool(text, text) IS
'asks for a pool to become dedicated or exclusive and returns the id of the operation. Settings that the new type '
'does not have (scheduling_policy spread, faulty_node_rotation, idle_time_sharing, isolate_accounts) fall back to '
'their defaults; the history names them; what borrows there is preempted. type: dedicated or exclusive; the type that '
'it has changes nothing. Errors: 42704 unknown pool, RQ004 the pool is being created or deleted or has an open '
'operation, 22023 bad type or a shared pool, RQ003 a node is no whole number of machine units, RQ009 fenced. '
'Administrators of the pool';

CREATE FUNCTION rpq_store.op_convert(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	converted rpq_store.pool;
	before jsonb := rpq_store.pool_settings(subject.pool_id);
	after jsonb;
BEGIN
	PERFORM rpq_store.check_whole_machines(subject.pool_id);
	UPDATE rpq_store.pool AS p SET type = subject.arguments->>'type' WHERE p.pool_id = subject.pool_id
	RETURNING p.* INTO converted;
	IF converted.type <> 'exclusive' THEN
		UPDATE rpq_store.pool AS p
		SET scheduling_policy = CASE p.scheduling_policy WHEN 'spread' THEN 'binpack' ELSE p.scheduling_policy END,
			faulty_node_rotation = false, idle_time_sharing = false, isolate_accounts = false
		WHERE p.pool_id = subject.pool_id;
		UPDATE rpq_store.pool_instance AS i SET scheduling_policy = NULL
		WHERE i.pool_id = subject.pool_id AND i.scheduling_policy = 'spread';
		PERFORM rpq_store.preempt_borrowers(subject.pool_id);
	END IF;
	after := rpq_store.pool_settings(subject.pool_id);
	PERFORM rpq_store.record(subject.action, 'pool', converted.pool_id, converted.name, converted.tenant_id,
		converted.pool_id, before, after, subject.operation_id);
	RETURN jsonb_build_object('type', converted.type,
		'fell_back', rpq_store.changed_keys(before, after) - 'type');
END
$$;
COMMENT ON FUNCTION rpq_store.op_convert(rpq_store.operation) IS
'the operation convert: changes the type, sets back what the new type does not have, and records both; returns the '
'type and the settings that fell back, as they were';

-- ------------------------------------------------------------------------------------------------------- delete

CREATE FUNCTION rpq_store.pool_dependents(pool_id bigint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	WITH door AS (
		SELECT DISTINCT q.queue_id FROM rpq_store.profile_pool AS l
		JOIN rpq_store.queue AS q ON q.profile_id = l.profile_id AND q.deleted_at IS NULL
		WHERE l.pool_id = $1 AND l.state = 'provisioned'),
	live AS (
		SELECT w.workload_id FROM rpq_store.workload AS w
		WHERE w.status IN ('queued', 'starting', 'running') AND w.ended_at IS NULL AND w.scope_id = $1
		UNION
		SELECT w.workload_id FROM door AS d
		JOIN rpq_store.workload AS w ON w.scope_id = d.queue_id AND w.status = 'queued'
		UNION
		SELECT p.workload_id FROM rpq_store.node AS n
		JOIN rpq_store.pod AS p ON p.node_id = n.node_id
		WHERE n.pool_id = $1
		  AND p.pod_id NOT IN (SELECT b.pod_id FROM rpq_store.borrowed_pod AS b WHERE b.lender_id = $1))
	SELECT string_agg(rpq_store.counted(d.number, d.word), ', ' ORDER BY d.place)
	FROM (VALUES
		(1, (SELECT count(*) FROM rpq_store.node AS n WHERE n.pool_id = $1), 'node'),
		(2, (SELECT count(*) FROM rpq_store.member AS m WHERE m.pool_id = $1), 'member'),
		(3, (SELECT count(*) FROM door), 'queue'),
		(4, (SELECT count(*) FROM live), 'live workload')) AS d (place, number, word)
	WHERE d.number > 0
$$;
COMMENT ON FUNCTION rpq_store.pool_dependents(bigint) IS
'what stands against deleting a pool, in words (1 node, 2 members, 1 queue, 3 live workloads); NULL when nothing '
'does; what borrows there does not. Exact for who holds the turn and has folded';

CREATE FUNCTION rpq_store.check_deletable(subject rpq_store.pool) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	dependents text := rpq_store.pool_dependents(subject.pool_id);
BEGIN
	IF dependents IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006',
			MESSAGE = format('pool "%s" cannot be deleted: %s', subject.name, dependents),
			HINT = 'Take them out of it, or delete it with force.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_deletable(rpq_store.pool) IS
'refuses (RQ006) a pool that something stands against deleting, and counts it';

-- The shared pool takes the nodes back, so its turn belongs to the operation; where there is none yet it is made first,
-- before any turn is taken.
CREATE FUNCTION rpq.delete_pool(pool text, force boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_pool'
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('delete_pool', delete_pool.pool);
	subject rpq_store.pool;
	target bigint;
BEGIN
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	SELECT p.pool_id INTO target FROM rpq_store.pool AS p
	WHERE p.tenant_id = subject.tenant_id AND p.cluster_id = subject.cluster_id AND p.kind = subject.kind
	  AND p.type = 'shared' AND p.pool_id <> named;
	IF target IS NULL AND subject.type <> 'shared'
		AND EXISTS (SELECT FROM rpq_store.node AS n WHERE n.pool_id = named) THEN
		target := rpq_store.shared_pool(subject.tenant_id, subject.cluster_id, subject.kind, 'delete_pool');
	END IF;
	PERFORM rpq_store.take_turns(array_remove(ARRAY[named, target], NULL));
	PERFORM rpq_store.check_free(ARRAY[named]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = named;
	IF subject.type = 'shared' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pool "%s" is shared and cannot be deleted',
			subject.name);
	END IF;
	IF NOT coalesce(delete_pool.force, false) THEN
		PERFORM rpq_store.fold(ARRAY[named]);
		PERFORM rpq_store.check_deletable(subject);
	END IF;
	RETURN rpq_store.open_operation('delete', 'delete_pool', named, ARRAY[named], jsonb_strip_nulls(
		jsonb_build_object('force', coalesce(delete_pool.force, false),
			'target', (SELECT p.name FROM rpq_store.pool AS p WHERE p.pool_id = target), 'target_id', target)));
END
$$;
COMMENT ON FUNCTION rpq.delete_pool(text, boolean) IS
'asks for a pool to be deleted and returns the id of the operation. Without force nothing may stand against it. '
'force: what runs in it is stopped (also what came through queues), what borrows there is preempted, what is queued '
'becomes draft (in a queue, only when no other pool serves it), members, administrators and links of profiles go, its '
'nodes go back to the shared pool. The name is free then; history, usage and ledger keep its id. Errors: 42704 '
'unknown pool, RQ004 the pool is being created or deleted or has an open operation, 22023 a shared pool, RQ006 '
'something stands against it (1 node, 2 members, 1 queue, 3 live workloads), 55P03 in synchronous mode while a client '
'keeps a workload of it locked (the worker tries again), RQ009 fenced. Administrators of the pool';

-- What borrows room in the pool and had still to stop as a victim has no more time for it.
CREATE FUNCTION rpq_store.stop_through_queues(pool_id bigint, actor text) RETURNS int
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	WITH placed AS (
		SELECT DISTINCT w.workload_id, w.attempt,
			w.lender_id IS NOT NULL AS borrows
		FROM rpq_store.node AS n
		JOIN rpq_store.pod AS p ON p.node_id = n.node_id
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
		WHERE n.pool_id = $1 AND w.status IN ('starting', 'running')),
	listed AS (
		SELECT array_agg(p.workload_id) AS workloads, array_agg(p.attempt) AS attempts,
			array_agg(CASE WHEN p.borrows THEN 'queued' ELSE 'stopped' END) AS ends,
			array_agg(CASE WHEN p.borrows THEN 'preempted' ELSE 'pool_deleted' END) AS causes,
			array_agg(CASE WHEN NOT p.borrows THEN 'the pool was deleted' END) AS details
		FROM placed AS p)
	SELECT count(*) FILTER (WHERE e.status = 'stopped')::int
	FROM listed AS l
	CROSS JOIN LATERAL rpq_store.end_attempts(l.workloads, l.attempts, l.ends, l.causes, l.details, $2, rpq.now()) AS e
$$;
COMMENT ON FUNCTION rpq_store.stop_through_queues(bigint, text) IS
'stops what came through queues and stands on nodes of the pool, and sends back to its queue what borrows there and '
'was to be preempted already; returns how many it stopped. A row that its client keeps locked is passed over';

CREATE FUNCTION rpq_store.unlink_pool(subject rpq_store.operation, OUT profiles text[], OUT drafted int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	shut bigint[];
BEGIN
	WITH gone AS (
		DELETE FROM rpq_store.profile_pool AS l WHERE l.pool_id = subject.pool_id RETURNING l.profile_id)
	SELECT coalesce(array_agg(f.name ORDER BY f.name), '{}'), array_agg(f.profile_id) INTO unlink_pool.profiles, shut
	FROM rpq_store.profile AS f WHERE f.profile_id IN (SELECT g.profile_id FROM gone AS g);
	SELECT array_agg(q.queue_id) INTO shut FROM rpq_store.queue AS q
	WHERE q.profile_id = ANY (shut) AND q.deleted_at IS NULL
	  AND rpq_store.profile_pools(q.profile_id, 'provisioned') = '{}';
	SELECT coalesce(sum(rpq_store.draft_queued(u.queue_id, NULL, 'pool_deleted',
		'the last pool of the queue was deleted', subject.initiator)), 0)::int INTO unlink_pool.drafted
	FROM unnest(shut) AS u (queue_id);
	IF EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.scope_id = ANY (shut) AND w.status = 'queued') THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'a client has a workload of a queue of the pool in hand';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.unlink_pool(rpq_store.operation) IS
'takes the pool of an operation out of all profiles, saved and provisioned, whose names are returned; what waits in a '
'queue of which no other pool is left becomes draft, and is counted. 55P03 when a client keeps such a row locked';

CREATE FUNCTION rpq_store.clear_pool(subject rpq_store.operation, OUT stopped int, OUT drafted int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	now_stopped int;
	now_drafted int;
	waits boolean;
BEGIN
	clear_pool.stopped := 0;
	clear_pool.drafted := 0;
	PERFORM rpq_store.preempt_borrowers(subject.pool_id, NULL, true);
	-- What is submitted meanwhile is taken by the next pass; what a pass finds and does not take, a client has in hand.
	FOR pass IN 1 .. 100 LOOP
		now_stopped := rpq_store.stop_placed(subject.pool_id, NULL, 'pool_deleted', 'the pool was deleted',
			subject.initiator);
		now_drafted := rpq_store.draft_queued(subject.pool_id, NULL, 'pool_deleted', 'the pool was deleted',
			subject.initiator);
		now_stopped := now_stopped + rpq_store.stop_through_queues(subject.pool_id, subject.initiator);
		clear_pool.stopped := clear_pool.stopped + now_stopped;
		clear_pool.drafted := clear_pool.drafted + now_drafted;
		waits := EXISTS (SELECT FROM rpq_store.workload AS w
			WHERE w.scope_id = subject.pool_id AND w.status = 'queued');
		EXIT WHEN NOT waits OR pass > 1 AND now_stopped + now_drafted = 0;
	END LOOP;
	-- what arrives after the last pass becomes a draft when it is counted (draft_late)
	IF waits
		OR EXISTS (SELECT FROM rpq_store.workload AS w
				   WHERE w.scope_id = subject.pool_id AND w.status IN ('starting', 'running') AND w.ended_at IS NULL)
		OR EXISTS (SELECT FROM rpq_store.node AS n JOIN rpq_store.pod AS p ON p.node_id = n.node_id
				   JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id AND w.attempt = p.attempt
				   WHERE n.pool_id = subject.pool_id AND w.status IN ('starting', 'running')) THEN
		RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'a client has a workload of the pool in hand';
	END IF;
	PERFORM rpq_store.fold(ARRAY[subject.pool_id]);
END
$$;
COMMENT ON FUNCTION rpq_store.clear_pool(rpq_store.operation) IS
'stops and drafts all work of the pool of an operation; returns how many of each. 55P03 when a client keeps a row '
'locked: all or none';

CREATE FUNCTION rpq_store.give_back_nodes(pool_id bigint, target_id bigint) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	ids bigint[];
	names text[];
BEGIN
	WITH given AS (
		UPDATE rpq_store.node AS n SET pool_id = give_back_nodes.target_id
		WHERE n.pool_id = give_back_nodes.pool_id RETURNING n.node_id, n.name)
	SELECT array_agg(g.node_id), coalesce(array_agg(g.name ORDER BY g.name), '{}') INTO ids, names FROM given AS g;
	IF ids IS NOT NULL THEN
		PERFORM rpq_store.give_up_on_nodes(ids);
		UPDATE rpq_store.hold AS h SET scope_id = give_back_nodes.target_id WHERE h.node_id = ANY (ids);
		PERFORM rpq_store.recount_capacity(ARRAY[give_back_nodes.pool_id, give_back_nodes.target_id]);
	END IF;
	RETURN names;
END
$$;
COMMENT ON FUNCTION rpq_store.give_back_nodes(bigint, bigint) IS
'moves all nodes of a pool, which hold no pods, to another, with the room that is kept on them for what is still '
'stopping; returns their names. The caller holds both turns';

CREATE FUNCTION rpq_store.op_delete(subject rpq_store.operation) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	gone rpq_store.pool;
	before jsonb := rpq_store.pool_settings(subject.pool_id);
	work record;
	links record;
	names text[];
	members text[];
BEGIN
	SELECT * INTO gone FROM rpq_store.pool AS p WHERE p.pool_id = subject.pool_id;
	IF NOT (subject.arguments->>'force')::boolean THEN
		PERFORM rpq_store.fold(ARRAY[gone.pool_id]);
		PERFORM rpq_store.check_deletable(gone);
	END IF;
	SELECT * INTO work FROM rpq_store.clear_pool(subject);
	names := rpq_store.give_back_nodes(gone.pool_id, (subject.arguments->>'target_id')::bigint);
	WITH removed AS (DELETE FROM rpq_store.member AS m WHERE m.pool_id = gone.pool_id RETURNING m.account_id)
	SELECT coalesce(array_agg(a.name ORDER BY a.name), '{}') INTO members
	FROM removed AS r JOIN rpq_store.account AS a ON a.account_id = r.account_id;
	DELETE FROM rpq_store.pool_admin AS a WHERE a.pool_id = gone.pool_id;
	SELECT * INTO links FROM rpq_store.unlink_pool(subject);
	UPDATE rpq_store.pool AS p SET status = 'deleted', deleted_at = rpq.now() WHERE p.pool_id = gone.pool_id;
	PERFORM rpq_store.record(subject.action, 'pool', gone.pool_id, gone.name, gone.tenant_id, gone.pool_id,
		before || jsonb_build_object('nodes', names, 'members', members, 'profiles', links.profiles), NULL,
		subject.operation_id);
	RETURN jsonb_build_object('nodes', names, 'members', cardinality(members), 'stopped', work.stopped,
		'drafted', work.drafted + links.drafted);
END
$$;
COMMENT ON FUNCTION rpq_store.op_delete(rpq_store.operation) IS
'the operation delete: checks again, and with force stops, drafts, removes and gives back, all in one transaction; '
'returns the nodes'' names and how many members, stopped and drafted workloads there were';

-- A submission that was under way when the pool, or queue, was deleted commits into it afterwards.  What its client has
-- in hand is looked at again by the next cycle, since the turn moves on.
CREATE FUNCTION rpq_store.draft_late(scope_id bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	is_queue boolean := EXISTS (SELECT FROM rpq_store.queue AS q WHERE q.queue_id = draft_late.scope_id);
	drafted int := rpq_store.draft_queued(draft_late.scope_id, NULL,
		CASE WHEN is_queue THEN 'queue_deleted' ELSE 'pool_deleted' END,
		CASE WHEN is_queue THEN 'the queue was deleted' ELSE 'the pool was deleted' END, 'system');
BEGIN
	UPDATE rpq_store.turn AS t SET room_epoch = t.room_epoch + 1
	WHERE t.scope_id = draft_late.scope_id
	  AND EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.scope_id = t.scope_id AND w.status = 'queued');
	RETURN drafted;
END
$$;
COMMENT ON FUNCTION rpq_store.draft_late(bigint) IS
'makes drafts of what came into a pool or queue after it was deleted; returns how many. The caller holds its turn';
-- Faulty-node rotation: an unhealthy node of an exclusive pool is swapped for a healthy idle one of the shared pool.
--
-- Each swap is an operation of kind rotate, by the system, pending until there is a spare.  It holds no pool, so any
-- other operation may overtake it.  Writes operation and the pool of nodes, under the turns of the pool and of the
-- shared pool, which are never waited for: what somebody else has in hand is looked at in the next round.

-- A pool that may rotate: what every part below asks.
CREATE FUNCTION rpq_store.rotates(subject rpq_store.pool) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ($1).faulty_node_rotation AND ($1).type = 'exclusive'
		AND ($1).status NOT IN ('creating', 'deleting', 'deleted')
$$;
COMMENT ON FUNCTION rpq_store.rotates(rpq_store.pool) IS
'whether faulty nodes of a pool are to be swapped';

CREATE VIEW rpq_store.open_rotation AS
SELECT o.operation_id, o.pool_id, (o.arguments->>'node_id')::bigint AS node_id, o.waiting, o.tried_at, o.tried_mark
FROM rpq_store.operation AS o
WHERE o.status IN ('pending', 'running') AND o.kind = 'rotate';
COMMENT ON VIEW rpq_store.open_rotation IS 'swaps of faulty nodes that wait for a spare';
COMMENT ON COLUMN rpq_store.open_rotation.operation_id IS 'the operation';
COMMENT ON COLUMN rpq_store.open_rotation.pool_id IS 'the exclusive pool';
COMMENT ON COLUMN rpq_store.open_rotation.node_id IS 'the faulty node';
COMMENT ON COLUMN rpq_store.open_rotation.waiting IS 'no spare was found';
COMMENT ON COLUMN rpq_store.open_rotation.tried_at IS 'when';
COMMENT ON COLUMN rpq_store.open_rotation.tried_mark IS 'how far the turns had come then';

CREATE VIEW rpq_store.faulty_node AS
SELECT n.node_id, n.name, n.pool_id, n.tenant_id, n.type_id, n.capacity, s.pool_id AS shared_id
FROM rpq_store.pool AS p
JOIN rpq_store.node AS n ON n.pool_id = p.pool_id AND n.health = 'unhealthy' AND NOT n.removing
LEFT JOIN rpq_store.pool AS s
	ON s.tenant_id = p.tenant_id AND s.cluster_id = p.cluster_id AND s.kind = p.kind AND s.type = 'shared'
WHERE p.faulty_node_rotation AND rpq_store.rotates(p);
COMMENT ON VIEW rpq_store.faulty_node IS 'unhealthy nodes of pools that have them swapped';
COMMENT ON COLUMN rpq_store.faulty_node.node_id IS 'the node';
COMMENT ON COLUMN rpq_store.faulty_node.name IS 'its name';
COMMENT ON COLUMN rpq_store.faulty_node.pool_id IS 'its pool';
COMMENT ON COLUMN rpq_store.faulty_node.tenant_id IS 'the tenant of both';
COMMENT ON COLUMN rpq_store.faulty_node.type_id IS 'its instance type';
COMMENT ON COLUMN rpq_store.faulty_node.capacity IS 'what it holds';
COMMENT ON COLUMN rpq_store.faulty_node.shared_id IS 'the shared pool that spares come from; NULL: there is none';

-- The one of the same size first: the pool stays as large as it was.
CREATE FUNCTION rpq_store.find_spare(faulty rpq_store.faulty_node) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT n.node_id
	FROM (SELECT c.capacity, c.capacity OPERATOR(rpq.=) ($1).capacity AS same
		  FROM rpq_store.pool_capacity AS c
		  JOIN rpq_store.instance_type AS t ON t.type_id = c.type_id
		  WHERE c.pool_id = ($1).shared_id AND c.type_id = ($1).type_id
			AND rpq_store.machines(c.capacity, t.machine_unit) IS NOT NULL OFFSET 0) AS size
	JOIN rpq_store.node AS n ON n.pool_id = ($1).shared_id AND n.type_id = ($1).type_id
		AND n.capacity OPERATOR(rpq.=) size.capacity
	JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
	WHERE n.health = 'healthy' AND n.schedulable AND NOT n.draining AND NOT n.removing AND l.pods = 0
	  AND NOT EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)
	ORDER BY size.same DESC, n.name LIMIT 1
$$;
COMMENT ON FUNCTION rpq_store.find_spare(rpq_store.faulty_node) IS
'a healthy idle node of the shared pool, of the same instance type, that may take the place of a faulty one; NULL: '
'none. Exact for who holds the turn of the shared pool';

-- The worker does this before its cycles, so a swap that fails (a total out of range, say) must not take them with it.
CREATE FUNCTION rpq_store.swap_node(operation_id bigint, faulty rpq_store.faulty_node, spare_id bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	names jsonb := jsonb_build_object('faulty', faulty.name, 'spare',
		(SELECT n.name FROM rpq_store.node AS n WHERE n.node_id = spare_id));
	said text;
	code text;
BEGIN
	UPDATE rpq_store.node AS n
	SET pool_id = CASE n.node_id WHEN faulty.node_id THEN faulty.shared_id ELSE faulty.pool_id END
	WHERE n.node_id IN (faulty.node_id, spare_id);
	-- what is still stopping there keeps its room where the node is now; what was held for a preemptor is given up
	PERFORM rpq_store.give_up_on_nodes(ARRAY[faulty.node_id]);
	UPDATE rpq_store.hold AS h SET scope_id = faulty.shared_id WHERE h.node_id = faulty.node_id;
	PERFORM rpq_store.recount_capacity(ARRAY[faulty.pool_id, faulty.shared_id]);
	UPDATE rpq_store.operation AS o
	SET status = 'succeeded', started_at = rpq.now(), ended_at = greatest(rpq.now(), o.created_at), progress = 1,
		attempts = 1, waiting = false, result = names
	WHERE o.operation_id = swap_node.operation_id;
	PERFORM rpq_store.record('rotate', 'pool', p.pool_id, p.name, p.tenant_id, p.pool_id,
		jsonb_build_object('node', names->'faulty'), jsonb_build_object('node', names->'spare'), swap_node.operation_id)
	FROM rpq_store.pool AS p WHERE p.pool_id = faulty.pool_id;
	RETURN true;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, code = RETURNED_SQLSTATE;
	RAISE WARNING USING ERRCODE = code, MESSAGE = format('operation %s cannot swap the node now: %s',
		swap_node.operation_id, said);
	RETURN false;
END
$$;
COMMENT ON FUNCTION rpq_store.swap_node(bigint, rpq_store.faulty_node, bigint) IS
'swaps a faulty node for a spare and ends the operation that asked for it; false, with a warning and nothing changed, '
'when that fails. The caller holds both turns';

-- Pods of the faulty node are lost when it turns unhealthy; where a client keeps one's workload locked, the node waits.
CREATE FUNCTION rpq_store.swap_faulty(pool_id bigint, scopes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	faulty rpq_store.faulty_node;
	asked bigint;
	spare bigint;
	swapped int := 0;
BEGIN
	IF EXISTS (SELECT FROM rpq_store.operation_pool AS h WHERE h.pool_id = swap_faulty.pool_id) THEN
		RETURN 0;
	END IF;
	FOR asked IN
		SELECT r.operation_id FROM rpq_store.open_rotation AS r
		WHERE r.pool_id = swap_faulty.pool_id ORDER BY r.operation_id
	LOOP
		SELECT f.* INTO faulty
		FROM rpq_store.open_rotation AS r JOIN rpq_store.faulty_node AS f ON f.node_id = r.node_id
		WHERE r.operation_id = asked
		  AND NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.node_id = f.node_id);
		CONTINUE WHEN NOT FOUND;
		spare := rpq_store.find_spare(faulty);
		IF spare IS NOT NULL AND rpq_store.swap_node(asked, faulty, spare) THEN
			swapped := swapped + 1;
		END IF;
	END LOOP;
	IF swapped > 0 THEN
		PERFORM rpq_store.take_turns(swap_faulty.scopes);
	END IF;
	RETURN swapped;
END
$$;
COMMENT ON FUNCTION rpq_store.swap_faulty(bigint, bigint[]) IS
'swaps the faulty nodes of a pool for which there are spares; returns how many. An operation that has the pool goes '
'first. The caller holds the turns of scopes: the pool and the shared pool';

CREATE FUNCTION rpq_store.rotate_pool(pool_id bigint, scopes bigint[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'rotate'
AS $$
#variable_conflict use_column
DECLARE
	swapped int;
BEGIN
	UPDATE rpq_store.operation AS o
	SET status = 'cancelled', ended_at = greatest(rpq.now(), o.created_at), waiting = false
	FROM rpq_store.open_rotation AS r
	WHERE r.pool_id = rotate_pool.pool_id AND o.operation_id = r.operation_id
	  AND NOT EXISTS (SELECT FROM rpq_store.faulty_node AS f WHERE f.node_id = r.node_id AND f.pool_id = r.pool_id);
	INSERT INTO rpq_store.operation (tenant_id, kind, pool_id, arguments, action, initiator, db_role, application_name,
		created_at, pool_status)
	SELECT f.tenant_id, 'rotate', f.pool_id, jsonb_strip_nulls(jsonb_build_object('node', f.name, 'node_id', f.node_id,
			'source', s.name, 'source_id', f.shared_id)), 'rotate', 'system', session_user,
		current_setting('application_name'), rpq.now(), p.status
	FROM rpq_store.faulty_node AS f
	JOIN rpq_store.pool AS p ON p.pool_id = f.pool_id
	LEFT JOIN rpq_store.pool AS s ON s.pool_id = f.shared_id
	WHERE f.pool_id = rotate_pool.pool_id
	  AND NOT EXISTS (SELECT FROM rpq_store.open_rotation AS r WHERE r.node_id = f.node_id AND r.pool_id = f.pool_id)
	ORDER BY f.name;
	swapped := rpq_store.swap_faulty(rotate_pool.pool_id, rotate_pool.scopes);
	UPDATE rpq_store.operation AS o
	SET waiting = true, tried_at = clock_timestamp(), tried_mark = rpq_store.turn_mark(rotate_pool.scopes)
	FROM rpq_store.open_rotation AS r
	WHERE r.pool_id = rotate_pool.pool_id AND o.operation_id = r.operation_id;
	RETURN swapped;
END
$$;
COMMENT ON FUNCTION rpq_store.rotate_pool(bigint, bigint[]) IS
'brings the swaps of a pool up to date: those that are no longer wanted are cancelled, those that are missing asked '
'for, and all that can be are carried out; returns how many swaps. The caller holds the turns of scopes: the pool and '
'the shared pool';

-- What there is to do: a swap to ask for, one that is no longer wanted, one that may find a spare since the turns have
-- moved.  Without unhealthy nodes and open swaps it is two index probes.
CREATE FUNCTION rpq_store.run_rotations(pools bigint[], patience interval) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	due record;
	swapped int := 0;
BEGIN
	FOR due IN
		SELECT k.pool_id, array_remove(ARRAY[k.pool_id, s.pool_id], NULL) AS scopes
		FROM (SELECT coalesce(f.pool_id, r.pool_id) AS pool_id
			  FROM rpq_store.faulty_node AS f
			  FULL JOIN rpq_store.open_rotation AS r ON r.node_id = f.node_id AND r.pool_id = f.pool_id
			  WHERE f.node_id IS NULL OR r.operation_id IS NULL OR NOT r.waiting
				 OR (NOT clock_timestamp() BETWEEN r.tried_at AND r.tried_at + run_rotations.patience
					AND r.tried_mark <> rpq_store.turn_mark(array_remove(ARRAY[f.pool_id, f.shared_id], NULL)))
			  GROUP BY 1) AS k
		JOIN rpq_store.pool AS p ON p.pool_id = k.pool_id
		LEFT JOIN rpq_store.pool AS s
			ON s.tenant_id = p.tenant_id AND s.cluster_id = p.cluster_id AND s.kind = p.kind AND s.type = 'shared'
		WHERE run_rotations.pools IS NULL OR k.pool_id = ANY (run_rotations.pools)
		ORDER BY k.pool_id
	LOOP
		IF rpq_store.try_turns(due.scopes) THEN
			swapped := swapped + rpq_store.rotate_pool(due.pool_id, due.scopes);
		END IF;
	END LOOP;
	RETURN swapped;
END
$$;
COMMENT ON FUNCTION rpq_store.run_rotations(bigint[], interval) IS
'swaps faulty nodes of these pools, NULL: of all, as far as turns are free and spares there; returns how many. '
'patience: how long a swap that found no spare is left alone, whatever moves';

CREATE FUNCTION rpq_store.rotate_now() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('rpq.synchronous_operations')::boolean THEN
		PERFORM rpq_store.run_rotations(NULL, '0');
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.rotate_now() IS
'with rpq.synchronous_operations: what the worker would do about faulty nodes in its next round. For calls after which '
'a node may be faulty, or a spare';
-- worker: what SQL sees of the worker, and how it reaches it.  No table is read or written here: all of it is in
-- shared memory, and there is nothing of it when the library is not preloaded.

CREATE FUNCTION rpq_store.worker_status(
	OUT worker_id bigint, OUT pid integer, OUT state text, OUT started_at timestamptz, OUT last_cycle timestamptz,
	OUT cycles bigint, OUT last_error text, OUT last_error_at timestamptz)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_worker_status';
COMMENT ON FUNCTION rpq_store.worker_status() IS
'The worker that has served this database, as rpq.workers shows it: one row, none before the first worker, none
without preload, and none for anybody but platform administrators, whom it looks for itself.';
-- the view below calls it with the reader's rights
GRANT EXECUTE ON FUNCTION rpq_store.worker_status() TO PUBLIC;

CREATE VIEW rpq.workers WITH (security_barrier) AS
SELECT w.worker_id, w.pid, w.state, w.started_at, w.last_cycle, w.cycles, w.last_error, w.last_error_at
FROM rpq_store.worker_status() AS w;
COMMENT ON VIEW rpq.workers IS
'The worker that has served this database since the server started; platform administrators alone see it. No row: the
database is not listed in rpq.databases, or rpq is not in shared_preload_libraries.';
COMMENT ON COLUMN rpq.workers.worker_id IS
'Number of the worker''s place in the server. It stays the same while workers of this database replace one another.';
COMMENT ON COLUMN rpq.workers.pid IS 'Process id, as in pg_stat_activity; NULL when there is no process.';
COMMENT ON COLUMN rpq.workers.state IS
'running: cycles follow one another. paused: after an error, or while the extension''s version is not the library''s.
waiting: starting, or fenced (see last_error), or the extension is being dropped or updated. stopped: no process.';
COMMENT ON COLUMN rpq.workers.started_at IS 'When the present, or the last, process started.';
COMMENT ON COLUMN rpq.workers.last_cycle IS 'When the last cycle ended without an error, by the true clock.';
COMMENT ON COLUMN rpq.workers.cycles IS 'Cycles that ended without an error since the server started.';
COMMENT ON COLUMN rpq.workers.last_error IS
'SQLSTATE and message of the last cycle that failed, or why the worker does nothing (fenced). It stays when cycles
succeed again: compare last_error_at with last_cycle.';
COMMENT ON COLUMN rpq.workers.last_error_at IS 'When last_error was met, by the true clock.';
GRANT SELECT ON rpq.workers TO PUBLIC;

CREATE FUNCTION rpq_store.wake() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_wake';
COMMENT ON FUNCTION rpq_store.wake() IS
'Wakes the worker of this database when, and if, the present transaction commits. Nothing happens where there is no
worker.';
REVOKE ALL ON FUNCTION rpq_store.wake() FROM PUBLIC;

CREATE FUNCTION rpq_store.wake(scope_id bigint) RETURNS void
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_wake_scope';
COMMENT ON FUNCTION rpq_store.wake(bigint) IS
'The same for what concerns one pool or queue alone: the others are not looked at.';
REVOKE ALL ON FUNCTION rpq_store.wake(bigint) FROM PUBLIC;

CREATE FUNCTION rpq_store.require_worker() RETURNS void
LANGUAGE c VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_require_worker_sql';
COMMENT ON FUNCTION rpq_store.require_worker() IS
'Raises 55000 with a hint when the library is not preloaded, for calls that make no sense without a worker.';
REVOKE ALL ON FUNCTION rpq_store.require_worker() FROM PUBLIC;

CREATE FUNCTION rpq_store.poke_launcher() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_poke_launcher';
COMMENT ON FUNCTION rpq_store.poke_launcher() IS
'Asks the launcher, when the present transaction commits, to look for the extension in this database again.';
REVOKE ALL ON FUNCTION rpq_store.poke_launcher() FROM PUBLIC;

-- the extension is here from the commit of this script on
SELECT rpq_store.poke_launcher();
-- check_integrity: everything recomputed from the placed pods, the workloads and the ledger, and compared with what is
-- stored.  Reads every table, writes none and locks none.
--
-- All parts are STABLE, so that they read the snapshot of the caller's query: in it balance + uncounted is exact,
-- whatever is being written meanwhile.  Each part is a few joins of aggregates; nothing is called for each row.

CREATE VIEW rpq_store.holding AS
SELECT w.workload_id, w.attempt, w.account_id, coalesce(w.policy_id, 0) AS policy_id, w.pool_id, w.type_id, w.replicas,
	w.resources, coalesce(w.lender_id, w.pool_id) AS stands_in, w.guarantee
FROM rpq_store.workload AS w
WHERE w.status IN ('starting', 'running')
UNION ALL
SELECT u.workload_id, u.attempt, u.account_id, coalesce(u.policy_id, 0), u.pool_id, u.type_id, w.replicas, w.resources,
	coalesce(u.lender_id, u.pool_id), w.guarantee
FROM rpq_store.uncounted AS u
JOIN rpq_store.workload AS w ON w.workload_id = u.workload_id
WHERE u.kind = 'release';
COMMENT ON VIEW rpq_store.holding IS
'attempts that the balances must contain: those on nodes, and those whose release no fold has counted yet';
COMMENT ON COLUMN rpq_store.holding.workload_id IS 'the workload';
COMMENT ON COLUMN rpq_store.holding.attempt IS 'its attempt that holds nodes';
COMMENT ON COLUMN rpq_store.holding.account_id IS 'its account';
COMMENT ON COLUMN rpq_store.holding.policy_id IS 'the policy it is counted in; 0: none';
COMMENT ON COLUMN rpq_store.holding.pool_id IS 'the pool that it is charged to';
COMMENT ON COLUMN rpq_store.holding.type_id IS 'the instance type of its nodes';
COMMENT ON COLUMN rpq_store.holding.replicas IS 'how many pods it has';
COMMENT ON COLUMN rpq_store.holding.resources IS 'what each of them holds';
COMMENT ON COLUMN rpq_store.holding.stands_in IS 'the pool of its nodes: another one where it borrows';
COMMENT ON COLUMN rpq_store.holding.guarantee IS 'never preempted, and so it may not borrow';

CREATE FUNCTION rpq_store.check_gangs()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH placed AS (
		SELECT p.workload_id, p.attempt, count(*) AS pods, count(DISTINCT p.replica) AS replicas,
			max(p.replica) AS highest, min(n.pool_id) AS pool_id, max(n.pool_id) AS other_pool,
			min(n.type_id) AS type_id, max(n.type_id) AS other_type, count(n.node_id) AS nodes
		FROM rpq_store.pod AS p
		LEFT JOIN rpq_store.node AS n ON n.node_id = p.node_id
		GROUP BY p.workload_id, p.attempt)
	SELECT 'gang', format('workload %s, attempt %s', coalesce(h.workload_id, g.workload_id),
			coalesce(h.attempt, g.attempt)),
		CASE WHEN h.workload_id IS NULL THEN 'no pods'
			 ELSE format('%s pods in pool %s, type %s', h.replicas, h.stands_in, h.type_id) END,
		CASE WHEN g.workload_id IS NULL THEN 'no pods'
			 ELSE format('%s pods in pool %s, type %s', g.pods,
				concat_ws(' and ', g.pool_id, nullif(g.other_pool, g.pool_id)),
				concat_ws(' and ', g.type_id, nullif(g.other_type, g.type_id))) END
	FROM rpq_store.holding AS h
	FULL JOIN placed AS g ON g.workload_id = h.workload_id AND g.attempt = h.attempt
	WHERE (h.workload_id IS NULL OR g.workload_id IS NULL OR h.replicas <> g.pods OR h.replicas <> g.replicas
		OR h.replicas <> g.highest + 1 OR h.replicas <> g.nodes
		OR (h.stands_in, h.type_id) IS DISTINCT FROM (g.pool_id, g.type_id)
		OR (h.stands_in, h.type_id) IS DISTINCT FROM (g.other_pool, g.other_type))
	  AND NOT EXISTS (SELECT FROM rpq_store.podless AS l
					  WHERE l.workload_id = h.workload_id AND l.attempt = h.attempt)
	UNION ALL
	SELECT 'borrowed', format('workload %s, attempt %s', h.workload_id, h.attempt),
		'preemptible work submitted to a shared pool', format('%s%s in a %s pool',
			CASE WHEN h.guarantee THEN 'guaranteed, ' END,
			CASE WHEN h.policy_id <> 0 THEN 'through a queue' ELSE 'direct' END, p.type)
	FROM rpq_store.holding AS h
	JOIN rpq_store.pool AS p ON p.pool_id = h.pool_id
	WHERE h.stands_in <> h.pool_id AND (h.guarantee OR h.policy_id <> 0 OR p.type <> 'shared')
	UNION ALL
	SELECT v.invariant, format('workload %s', w.workload_id), v.expected, v.found
	FROM rpq_store.workload AS w
	CROSS JOIN LATERAL (VALUES
		('gang', format('%s nodes listed', w.replicas), format('%s nodes listed', coalesce(cardinality(w.nodes), 0)),
			w.status IN ('starting', 'running') AND coalesce(cardinality(w.nodes), 0) <> w.replicas),
		('workload', CASE WHEN w.ended_at IS NULL THEN 'not ended' ELSE 'ended' END, w.status,
			(w.ended_at IS NULL) <> (w.status IN ('draft', 'queued', 'starting', 'running'))
			OR (w.status = 'queued' AND w.submitted_at IS NULL))) AS v (invariant, expected, found, broken)
	WHERE ((w.status IN ('starting', 'running') AND coalesce(cardinality(w.nodes), 0) <> w.replicas)
		OR (w.ended_at IS NULL) <> (w.status IN ('draft', 'queued', 'starting', 'running'))
		OR (w.status = 'queued' AND w.submitted_at IS NULL))
	  AND v.broken
$$;
COMMENT ON FUNCTION rpq_store.check_gangs() IS
'part of check_integrity: each workload that holds nodes has all its pods, of its present attempt, on nodes of one '
'pool and type; no other has any';

CREATE FUNCTION rpq_store.check_nodes()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH pods AS (
		SELECT p.node_id, rpq.sum(w.resources) AS used, count(*) AS pods
		FROM rpq_store.pod AS p
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		GROUP BY p.node_id),
	-- what is held for a preemptor may be what its own victims still have
	preempt AS (
		SELECT h.node_id, h.workload_id, rpq.sum(h.resources) AS held
		FROM rpq_store.hold AS h WHERE h.purpose = 'preempt' GROUP BY h.node_id, h.workload_id),
	victim AS (
		SELECT v.node_id, v.preemptor, rpq.sum(v.resources) AS had
		FROM rpq_store.victim_room AS v GROUP BY v.node_id, v.preemptor),
	holds AS (
		SELECT x.node_id, rpq.sum(x.amount) AS held
		FROM (SELECT h.node_id, h.resources AS amount FROM rpq_store.hold AS h WHERE h.purpose <> 'preempt'
			  UNION ALL
			  SELECT p.node_id, rpq.greatest(p.held OPERATOR(rpq.-) coalesce(v.had, ''),
				(p.held OPERATOR(rpq.-) coalesce(v.had, '')) OPERATOR(rpq.*) 0::numeric)
			  FROM preempt AS p
			  LEFT JOIN victim AS v ON v.node_id = p.node_id AND v.preemptor = p.workload_id) AS x
		GROUP BY x.node_id),
	node AS (
		SELECT n.node_id, n.name, n.pool_id, n.capacity, coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0) AS devices,
			l.node_id IS NOT NULL AS has_load, l.pool_id AS load_pool, l.used AS load_used, l.pods AS load_pods,
			coalesce(cardinality(l.parts), 0) AS load_devices,
			coalesce(p.used, '') AS used, coalesce(p.pods, 0) AS pods, coalesce(h.held, '') AS held
		FROM rpq_store.node AS n
		LEFT JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
		LEFT JOIN pods AS p ON p.node_id = n.node_id
		LEFT JOIN holds AS h ON h.node_id = n.node_id)
	SELECT 'node_load', format('node %s', n.name), format('a row of pool %s with %s devices', n.pool_id, n.devices),
		CASE WHEN n.has_load THEN format('pool %s, %s devices', n.load_pool, n.load_devices) ELSE 'no row' END
	FROM node AS n
	WHERE NOT n.has_load OR n.load_pool <> n.pool_id OR n.load_devices <> n.devices
	UNION ALL
	SELECT 'node_load', format('node %s', n.name), format('%s pods: %s', n.pods, n.used),
		format('%s pods: %s', n.load_pods, n.load_used)
	FROM node AS n
	WHERE n.has_load AND (n.load_pods <> n.pods
		OR NOT (n.load_used OPERATOR(rpq.-) n.used) OPERATOR(rpq.<@) ''
		OR NOT (n.used OPERATOR(rpq.-) n.load_used) OPERATOR(rpq.<@) '')
	UNION ALL
	SELECT 'node', format('node %s', n.name), format('at most %s', n.capacity), (n.used OPERATOR(rpq.+) n.held)::text
	FROM node AS n
	WHERE NOT (n.used OPERATOR(rpq.+) n.held) OPERATOR(rpq.<@) n.capacity
$$;
COMMENT ON FUNCTION rpq_store.check_nodes() IS
'part of check_integrity: node_load is the sum of the pods of each node, and pods and holds fit in its capacity, those '
'for preemptors beside what their victims have still';

CREATE FUNCTION rpq_store.check_devices()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH claim AS (
		SELECT p.node_id, p.devices, w.resources OPERATOR(rpq.->) 'gpu' AS gpu, true AS is_pod,
			format('workload %s, replica %s', p.workload_id, p.replica) AS object
		FROM rpq_store.pod AS p
		JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		UNION ALL
		SELECT h.node_id, h.devices, h.resources OPERATOR(rpq.->) 'gpu', false, format('hold %s', h.hold_id)
		FROM rpq_store.hold AS h WHERE h.purpose <> 'preempt'),
	-- by preemptor and device: what is held for it, less what its victims have still
	preempt AS (
		SELECT x.node_id, x.device, greatest(0, sum(x.parts)) AS parts
		FROM (SELECT h.workload_id AS preemptor, h.node_id, d.device,
				round((h.resources OPERATOR(rpq.->) 'gpu') * 21000 / cardinality(h.devices)) AS parts, true AS held
			  FROM rpq_store.hold AS h CROSS JOIN LATERAL unnest(h.devices) AS d (device)
			  WHERE h.purpose = 'preempt'
			  UNION ALL
			  SELECT v.preemptor, v.node_id, d.device,
				- round((v.resources OPERATOR(rpq.->) 'gpu') * 21000 / cardinality(v.devices)), false
			  FROM rpq_store.victim_room AS v CROSS JOIN LATERAL unnest(v.devices) AS d (device)) AS x
		GROUP BY x.preemptor, x.node_id, x.device HAVING bool_or(x.held)),
	-- of a device: thousandths times 21, the unit of amounts, of which 1/7 is a whole number; more than one device are
	-- all whole
	piece AS (
		SELECT c.node_id, d.device, c.is_pod, round(c.gpu * 21000 / greatest(cardinality(c.devices), 1)) AS parts
		FROM claim AS c CROSS JOIN LATERAL unnest(c.devices) AS d (device)
		UNION ALL
		SELECT p.node_id, p.device, false, p.parts FROM preempt AS p),
	taken AS (
		SELECT p.node_id, p.device, sum(p.parts) AS parts, coalesce(sum(p.parts) FILTER (WHERE p.is_pod), 0) AS of_pods
		FROM piece AS p
		GROUP BY p.node_id, p.device),
	stored AS (
		SELECT l.node_id, (p.place - 1)::int AS device, p.parts
		FROM rpq_store.node_load AS l CROSS JOIN LATERAL unnest(l.parts) WITH ORDINALITY AS p (parts, place)
		WHERE p.parts <> 0)
	SELECT 'device', c.object, format('devices for %s gpu', coalesce(c.gpu, 0)), coalesce(c.devices::text, 'none')
	FROM claim AS c
	WHERE (coalesce(c.gpu, 0) > 0 AND coalesce(cardinality(c.devices), 0) <> greatest(c.gpu, 1))
	   OR (coalesce(c.gpu, 0) = 0 AND coalesce(cardinality(c.devices), 0) > 0)
	UNION ALL
	SELECT 'device', format('node %s, device %s', coalesce(n.name, t.node_id::text), t.device),
		format('at most 1 of %s devices', coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)),
		trim_scale(t.parts / 21000)::text
	FROM taken AS t
	LEFT JOIN rpq_store.node AS n ON n.node_id = t.node_id
	WHERE t.parts > 21000 OR t.device < 0 OR t.device >= coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)
	UNION ALL
	SELECT 'node_load', format('node %s, device %s', coalesce(t.node_id, s.node_id), coalesce(t.device, s.device)),
		trim_scale(coalesce(t.of_pods, 0) / 21000)::text, trim_scale(coalesce(s.parts, 0)::numeric / 21000)::text
	FROM taken AS t
	FULL JOIN stored AS s ON s.node_id = t.node_id AND s.device = t.device
	WHERE coalesce(t.of_pods, 0) <> coalesce(s.parts, 0)
$$;
COMMENT ON FUNCTION rpq_store.check_devices() IS
'part of check_integrity: the parts on a device sum to 1 at most, exist on the node, and are those of node_load';

CREATE FUNCTION rpq_store.check_usage()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- a victim that has lost its pods is charged until its row, which its client keeps locked, follows
	WITH placed AS (
		SELECT x.pool_id, x.type_id, x.account_id, x.policy_id, x.lender_id, rpq.sum(x.resources) AS amount
		FROM (SELECT CASE WHEN b.lender_id IS NULL THEN n.pool_id ELSE b.pool_id END AS pool_id, n.type_id,
				w.account_id, coalesce(w.policy_id, u.policy_id, 0) AS policy_id, coalesce(b.lender_id, 0) AS lender_id,
				w.resources
			  FROM rpq_store.pod AS p
			  JOIN rpq_store.node AS n ON n.node_id = p.node_id
			  JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
			  LEFT JOIN rpq_store.uncounted AS u
				ON u.workload_id = p.workload_id AND u.attempt = p.attempt AND u.kind = 'release'
			  CROSS JOIN LATERAL (SELECT CASE WHEN u.workload_id IS NULL THEN w.lender_id ELSE u.lender_id END,
				CASE WHEN u.workload_id IS NULL THEN w.pool_id ELSE u.pool_id END) AS b (lender_id, pool_id)
			  UNION ALL
			  SELECT l.pool_id, l.type_id, l.account_id, coalesce(l.policy_id, 0), coalesce(l.lender_id, 0),
				l.resources OPERATOR(rpq.*) l.replicas::numeric
			  FROM rpq_store.podless AS l) AS x
		GROUP BY 1, 2, 3, 4, 5),
	-- what is not counted is taken off again, and so the sum stays within what fits a bigint
	counted AS (
		SELECT e.pool_id, e.type_id, e.account_id, e.policy_id, e.lender_id, rpq.sum(e.amount) AS amount
		FROM (SELECT e.pool_id, e.type_id, e.account_id, coalesce(e.policy_id, 0) AS policy_id,
				coalesce(e.lender_id, 0) AS lender_id, e.resources AS amount
			  FROM rpq_store.entry AS e WHERE e.resources IS NOT NULL
			  UNION ALL
			  SELECT u.pool_id, u.type_id, u.account_id, coalesce(u.policy_id, 0), coalesce(u.lender_id, 0),
				OPERATOR(rpq.-) u.resources
			  FROM rpq_store.uncounted AS u WHERE u.resources IS NOT NULL) AS e
		GROUP BY 1, 2, 3, 4, 5),
	cell AS (
		SELECT pool_id, type_id, account_id, policy_id, lender_id, coalesce(u.amount, '') AS stored,
			coalesce(p.amount, '') AS placed, coalesce(c.amount, '') AS counted
		FROM rpq_store.usage AS u
		FULL JOIN placed AS p USING (pool_id, type_id, account_id, policy_id, lender_id)
		FULL JOIN counted AS c USING (pool_id, type_id, account_id, policy_id, lender_id))
	SELECT v.invariant,
		format('pool %s, type %s, account %s, policy %s%s', c.pool_id, c.type_id, c.account_id, c.policy_id,
			CASE WHEN c.lender_id <> 0 THEN format(', borrowed of pool %s', c.lender_id) END),
		v.expected::text, c.stored::text
	FROM cell AS c
	CROSS JOIN LATERAL (VALUES ('usage', c.placed), ('ledger', c.counted)) AS v (invariant, expected)
	WHERE NOT (c.stored OPERATOR(rpq.-) v.expected) OPERATOR(rpq.<@) ''
	   OR NOT (v.expected OPERATOR(rpq.-) c.stored) OPERATOR(rpq.<@) ''
$$;
COMMENT ON FUNCTION rpq_store.check_usage() IS
'part of check_integrity: each cell of usage is the sum of its placed pods, and that of the entries counted in it';

CREATE FUNCTION rpq_store.check_ledger()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET work_mem = '256MB'
AS $$
	-- a move ends an attempt and begins the next one, which holds what was admitted: attempts that moves made of each
	-- other are one stay, named by its first
	WITH stay AS MATERIALIZED (
		SELECT m.workload_id, m.attempt + 1 AS attempt,
			min(m.attempt) OVER (PARTITION BY m.workload_id, m.island) AS first
		FROM (SELECT e.workload_id, e.attempt,
				e.attempt - row_number() OVER (PARTITION BY e.workload_id ORDER BY e.attempt) AS island
			  FROM rpq_store.entry AS e WHERE e.kind = 'move') AS m),
	-- one that was admitted once and released once, of the same amount, is closed and needs no further look
	open AS (
		SELECT e.workload_id, coalesce(s.first, e.attempt) AS attempt,
			count(*) FILTER (WHERE e.kind = 'admit') AS admits,
			count(*) FILTER (WHERE e.kind = 'release') AS releases, rpq.sum(e.resources) AS held
		FROM rpq_store.entry AS e
		LEFT JOIN stay AS s ON s.workload_id = e.workload_id AND s.attempt = e.attempt
		WHERE e.resources IS NOT NULL AND e.kind <> 'carry'
		GROUP BY e.workload_id, coalesce(s.first, e.attempt)
		HAVING NOT (count(*) = 2 AND count(*) FILTER (WHERE e.kind = 'admit') = 1
			AND count(*) FILTER (WHERE e.kind = 'release') = 1
			AND rpq.sum(e.resources) OPERATOR(rpq.<@) ''
			AND (OPERATOR(rpq.-) rpq.sum(e.resources)) OPERATOR(rpq.<@) ''))
	SELECT 'ledger', format('workload %s, attempt %s', coalesce(o.workload_id, w.workload_id),
			coalesce(o.attempt, w.attempt)),
		CASE WHEN w.workload_id IS NULL THEN 'one admit and one release of the same amount'
			 ELSE format('one admit of %s', w.resources OPERATOR(rpq.*) w.replicas::numeric) END,
		format('%s admits, %s releases: %s', coalesce(o.admits, 0), coalesce(o.releases, 0), coalesce(o.held, ''))
	FROM open AS o
	FULL JOIN (SELECT w.workload_id, coalesce(s.first, w.attempt) AS attempt, w.resources, w.replicas
			   FROM rpq_store.workload AS w
			   LEFT JOIN stay AS s ON s.workload_id = w.workload_id AND s.attempt = w.attempt
			   WHERE w.status IN ('starting', 'running')) AS w
		ON w.workload_id = o.workload_id AND w.attempt = o.attempt
	WHERE o.workload_id IS NULL OR w.workload_id IS NULL OR o.admits <> 1 OR o.releases <> 0
	   OR NOT (o.held OPERATOR(rpq.-) (w.resources OPERATOR(rpq.*) w.replicas::numeric)) OPERATOR(rpq.<@) ''
	   OR NOT ((w.resources OPERATOR(rpq.*) w.replicas::numeric) OPERATOR(rpq.-) o.held) OPERATOR(rpq.<@) ''
	UNION ALL
	SELECT 'ledger', format('workload %s', w.workload_id), format('attempt %s, or a later one', max(s.attempt)),
		format('attempt %s', w.attempt)
	FROM stay AS s JOIN rpq_store.workload AS w ON w.workload_id = s.workload_id
	GROUP BY w.workload_id HAVING max(s.attempt) > w.attempt
$$;
COMMENT ON FUNCTION rpq_store.check_ledger() IS
'part of check_integrity: each stay (an attempt, with those that moves made of it) is admitted once and released at '
'most once; what remains are the workloads that hold nodes, each with what it holds';

CREATE FUNCTION rpq_store.check_lanes()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH uncounted AS MATERIALIZED (
		SELECT u.scope_id, u.shape, u.workload_id, u.waiting FROM rpq_store.uncounted AS u WHERE u.waiting <> 0),
	queued AS (
		SELECT w.scope_id, w.shape, count(*) AS waiting
		FROM rpq_store.workload AS w WHERE w.status = 'queued' GROUP BY w.scope_id, w.shape),
	stored AS (
		SELECT l.scope_id, l.shape, sum(l.waiting) AS waiting
		FROM (SELECT scope_id, shape, waiting FROM rpq_store.lane
			  UNION ALL SELECT scope_id, shape, waiting FROM uncounted) AS l
		GROUP BY l.scope_id, l.shape),
	logged AS (
		SELECT e.scope_id, e.shape, sum(e.waiting) AS waiting
		FROM rpq_store.entry AS e WHERE e.waiting <> 0 GROUP BY e.scope_id, e.shape)
	SELECT v.invariant, format('scope %s, shape %s', scope_id, shape), format('%s waiting', coalesce(q.waiting, 0)),
		format('%s waiting', v.found)
	FROM queued AS q
	FULL JOIN stored AS s USING (scope_id, shape)
	FULL JOIN logged AS l USING (scope_id, shape)
	CROSS JOIN LATERAL (VALUES ('lane', coalesce(s.waiting, 0)), ('ledger', coalesce(l.waiting, 0)))
		AS v (invariant, found)
	WHERE v.found <> coalesce(q.waiting, 0)
	UNION ALL
	SELECT 'lane', format('scope %s, shape %s', l.scope_id, l.shape), 'waiting is not negative', l.waiting::text
	FROM rpq_store.lane AS l WHERE l.waiting < 0
	UNION ALL
	-- what arrived since the last fold may be before the head: the fold moves it
	SELECT 'lane head', format('scope %s, shape %s', l.scope_id, l.shape),
		format('at or before workload %s of %s', w.workload_id, w.submitted_at),
		format('workload %s of %s', l.head_id, l.head_at)
	FROM rpq_store.lane AS l
	CROSS JOIN LATERAL (
		SELECT w.workload_id, w.submitted_at FROM rpq_store.workload AS w
		WHERE w.scope_id = l.scope_id AND w.shape = l.shape AND w.status = 'queued'
		  AND (w.submitted_at, w.workload_id) < (l.head_at, l.head_id)
		  AND NOT EXISTS (SELECT FROM uncounted AS u WHERE u.workload_id = w.workload_id AND u.waiting > 0)
		ORDER BY w.submitted_at, w.workload_id LIMIT 1) AS w
	UNION ALL
	SELECT 'lane', format('workload %s', w.workload_id),
		format('as its lane: account %s, %s of %s, priority %s', l.account_id, l.replicas, l.resources, l.priority),
		format('account %s, %s of %s, priority %s', w.account_id, w.replicas, w.resources, w.priority)
	FROM rpq_store.workload AS w
	JOIN rpq_store.lane AS l ON l.scope_id = w.scope_id AND l.shape = w.shape
	WHERE w.status = 'queued' AND ((l.account_id, l.replicas, l.priority) <> (w.account_id, w.replicas, w.priority)
		OR l.resources OPERATOR(rpq.<>) w.resources)
$$;
COMMENT ON FUNCTION rpq_store.check_lanes() IS
'part of check_integrity: the length of each lane is the number of its queued workloads and the sum of its entries, '
'and no member is before its head';
-- check_integrity, second half: pools and their nodes, rows that refer to nothing, operations, the history; and the
-- function itself.  Reads every table, writes none and locks none.

CREATE FUNCTION rpq_store.check_pools()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH used AS (
		SELECT u.pool_id, rpq.sum(u.amount) AS amount
		FROM (SELECT pool_id, amount FROM rpq_store.usage WHERE lender_id = 0
			  UNION ALL
			  SELECT pool_id, resources FROM rpq_store.uncounted WHERE resources IS NOT NULL AND lender_id IS NULL
			  UNION ALL
			  -- its pods are gone already, its row follows
			  SELECT l.pool_id, l.resources OPERATOR(rpq.*) (- l.replicas)::numeric FROM rpq_store.podless AS l
			  WHERE l.lender_id IS NULL) AS u
		GROUP BY u.pool_id),
	size AS (
		SELECT n.pool_id, n.type_id, n.capacity, count(*) AS nodes
		FROM rpq_store.node AS n WHERE NOT n.removing GROUP BY n.pool_id, n.type_id, n.capacity),
	-- one that is being removed counts for as long as a pod, whose workload its client keeps locked, is on it
	total AS (
		SELECT n.pool_id, rpq.sum(n.capacity) AS amount FROM rpq_store.node AS n GROUP BY n.pool_id)
	-- nominal capacity: what a node reports less, or its health, takes away by force
	SELECT 'pool', format('pool %s', u.pool_id), format('at most %s', coalesce(t.amount, '')), u.amount::text
	FROM used AS u
	LEFT JOIN total AS t ON t.pool_id = u.pool_id
	WHERE NOT u.amount OPERATOR(rpq.<@) coalesce(t.amount, '')
	UNION ALL
	SELECT 'pool', format('pool %s', u.pool_id), 'usage is not negative', u.amount::text
	FROM used AS u WHERE NOT (OPERATOR(rpq.-) u.amount) OPERATOR(rpq.<@) ''
	UNION ALL
	SELECT 'pool_capacity', format('pool %s, type %s, %s', coalesce(s.pool_id, c.pool_id),
			coalesce(s.type_id, c.type_id), coalesce(s.capacity, c.capacity)),
		format('%s nodes', coalesce(s.nodes, 0)), format('%s nodes', coalesce(c.nodes, 0))
	FROM size AS s
	FULL JOIN rpq_store.pool_capacity AS c
		ON c.pool_id = s.pool_id AND c.type_id = s.type_id AND c.capacity OPERATOR(rpq.=) s.capacity
	WHERE coalesce(s.nodes, 0) <> coalesce(c.nodes, 0)
	UNION ALL
	SELECT 'inventory', format('node %s', n.name),
		format('tenant %s, cluster %s, kind %s', p.tenant_id, p.cluster_id, p.kind),
		format('tenant %s, cluster %s, kind %s', n.tenant_id, n.cluster_id, t.kind)
	FROM rpq_store.node AS n
	LEFT JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	LEFT JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	WHERE (n.tenant_id, n.cluster_id, t.kind) IS DISTINCT FROM (p.tenant_id, p.cluster_id, p.kind)
	   OR p.status = 'deleted'
	UNION ALL
	SELECT 'machine', format('node %s in pool %s', n.name, p.name), format('a multiple of %s', t.machine_unit),
		n.capacity::text
	FROM rpq_store.node AS n
	JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	WHERE p.type IN ('dedicated', 'exclusive')
	  AND mod(coalesce(n.capacity OPERATOR(rpq.->) t.kind, 0), nullif(t.machine_unit OPERATOR(rpq.->) t.kind, 0)) <> 0
	UNION ALL
	SELECT 'turn', format('scope %s', s.scope_id), 'a turn', 'none'
	FROM (SELECT pool_id AS scope_id FROM rpq_store.pool
		  UNION ALL SELECT queue_id FROM rpq_store.queue) AS s
	WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = s.scope_id)
$$;
COMMENT ON FUNCTION rpq_store.check_pools() IS
'part of check_integrity: usage is within the total of each pool, which is that of its nodes; these are of its tenant, '
'cluster and kind, and whole machines in dedicated and exclusive pools; each scope has its turn';

CREATE FUNCTION rpq_store.check_reports()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'reference', format('report of pod %s', r.pod_id), 'the row exists', format('no workload %s', r.workload_id)
	FROM rpq_store.pod_report AS r
	WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = r.workload_id)
	UNION ALL
	SELECT 'report', format('pod %s', p.pod_id),
		format('a report from node %s, of workload %s', p.node_id, p.workload_id),
		format('node %s, workload %s', r.node_id, r.workload_id)
	FROM rpq_store.pod_report AS r
	JOIN rpq_store.pod AS p ON p.pod_id = r.pod_id
	WHERE (r.node_id, r.workload_id) <> (p.node_id, p.workload_id)
	UNION ALL
	-- an executor lets go of a pod once: what holds its room then has a report that a cycle has yet to count
	SELECT 'hold', format('hold %s', h.hold_id), 'a pod that an executor has still', 'none'
	FROM rpq_store.hold AS h
	WHERE h.purpose = 'stopping'
	  AND NOT EXISTS (SELECT FROM rpq_store.pod_report AS r
					  WHERE r.pod_id = h.pod_id AND r.state IN ('started', 'running'))
	  AND NOT EXISTS (SELECT FROM rpq_store.uncounted AS u WHERE u.workload_id = h.workload_id AND u.kind = 'report')
	UNION ALL
	SELECT 'hold', format('hold %s', h.hold_id), 'a pod that is gone', format('pod %s is placed', h.pod_id)
	FROM rpq_store.hold AS h
	JOIN rpq_store.pod AS p ON p.pod_id = h.pod_id
	WHERE h.purpose = 'stopping'
	UNION ALL
	SELECT 'node', format('node %s', n.name), 'unhealthy, or not silent', n.health
	FROM rpq_store.node AS n
	WHERE n.silent <> (n.decided_health IS NOT NULL) OR (n.silent AND n.health <> 'unhealthy')
$$;
COMMENT ON FUNCTION rpq_store.check_reports() IS
'part of check_integrity: what executors reported is of pods where they were placed, and room is held only for what an '
'executor has still';

CREATE FUNCTION rpq_store.check_preemptions()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- what changed a workload since the last fold is for the next one to settle
	WITH news AS MATERIALIZED (SELECT DISTINCT u.workload_id FROM rpq_store.uncounted AS u),
	held AS (
		SELECT h.workload_id, h.attempt, count(*) AS holds, min(h.scope_id) AS scope_id, max(h.scope_id) AS other_scope
		FROM rpq_store.hold AS h WHERE h.purpose = 'preempt' GROUP BY h.workload_id, h.attempt)
	SELECT 'preemption', format('room of workload %s', h.workload_id),
		format('queued, for attempt %s, %s holds in one pool', w.attempt + 1, w.replicas),
		format('%s, for attempt %s, %s holds%s', coalesce(w.status, 'none'), h.attempt, h.holds,
			CASE WHEN h.scope_id <> h.other_scope THEN ' in several' ELSE '' END)
	FROM held AS h
	LEFT JOIN rpq_store.workload AS w ON w.workload_id = h.workload_id
	WHERE (w.status IS DISTINCT FROM 'queued' OR w.attempt + 1 <> h.attempt OR w.replicas <> h.holds
		OR h.scope_id <> h.other_scope)
	  AND h.workload_id NOT IN (SELECT n.workload_id FROM news AS n)
	UNION ALL
	-- one that has lost its pods waits for a client to let go of its row, and holds up nobody
	SELECT 'preemption', format('preemption %s', p.preemption_id), 'a preemptor for which room is held', 'none'
	FROM rpq_store.preemption AS p
	WHERE p.state = 'pending' AND p.preemptor IS NOT NULL
	  AND NOT EXISTS (SELECT FROM held AS h WHERE h.workload_id = p.preemptor)
	  AND p.preemption_id NOT IN (SELECT l.preemption_id FROM rpq_store.podless AS l)
	UNION ALL
	SELECT 'preemption', format('preemption %s', p.preemption_id), format('attempt %s of a victim', p.victim_attempt),
		format('%s, attempt %s', w.status, w.attempt)
	FROM rpq_store.preemption AS p
	JOIN rpq_store.workload AS w ON w.workload_id = p.victim
	WHERE p.state = 'pending' AND (w.attempt <> p.victim_attempt OR w.status NOT IN ('starting', 'running'))
	  AND p.victim NOT IN (SELECT n.workload_id FROM news AS n)
	  AND NOT EXISTS (SELECT FROM rpq_store.victim_room AS v WHERE v.preemption_id = p.preemption_id)
	UNION ALL
	SELECT 'preemption', format('workload %s, attempt %s', p.victim, p.victim_attempt), 'one that is pending',
		count(*)::text
	FROM rpq_store.preemption AS p WHERE p.state = 'pending'
	GROUP BY p.victim, p.victim_attempt HAVING count(*) > 1
	UNION ALL
	SELECT 'preemption', format('workload %s, attempt %s', e.workload_id, e.attempt), 'a row of its preemption', 'none'
	FROM rpq_store.entry AS e
	WHERE e.kind = 'release' AND e.cause = 'preempted'
	  AND NOT EXISTS (SELECT FROM rpq_store.preemption AS p
					  WHERE p.victim = e.workload_id AND p.victim_attempt = e.attempt AND p.state <> 'given_up')
	UNION ALL
	SELECT 'preemption', format('workload %s', w.workload_id), format('at most %s events', w.preemptions),
		count(*)::text
	FROM rpq_store.entry AS e JOIN rpq_store.workload AS w ON w.workload_id = e.workload_id
	WHERE e.kind = 'release' AND e.cause = 'preempted'
	GROUP BY w.workload_id HAVING count(*) > w.preemptions
$$;
COMMENT ON FUNCTION rpq_store.check_preemptions() IS
'part of check_integrity: room is held for workloads that wait for it, victims have still to stop for one of these, '
'and every attempt that ended as preempted has its row';

CREATE FUNCTION rpq_store.check_references()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET work_mem = '128MB'
AS $$
	-- the scopes of the ledger one by one through the index: they are few, their entries are not
	WITH RECURSIVE entry_scope AS (
		SELECT min(e.scope_id) AS scope_id FROM rpq_store.entry AS e
		UNION ALL
		SELECT (SELECT min(e.scope_id) FROM rpq_store.entry AS e WHERE e.scope_id > s.scope_id)
		FROM entry_scope AS s WHERE s.scope_id IS NOT NULL),
	owner AS MATERIALIZED (
		SELECT DISTINCT w.scope_id, w.account_id, w.tenant_id FROM rpq_store.workload AS w)
	SELECT 'reference', o.object, 'the row exists', format('no %s %s', o.what, o.id)
	FROM (
		SELECT format('pod %s', p.pod_id), 'workload', p.workload_id FROM rpq_store.pod AS p
		WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = p.workload_id)
		UNION ALL
		SELECT format('pod %s', p.pod_id), 'node', p.node_id FROM rpq_store.pod AS p
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = p.node_id)
		UNION ALL
		SELECT format('entry %s', e.entry_id), 'workload', e.workload_id FROM rpq_store.entry AS e
		WHERE e.kind <> 'carry'
		  AND NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = e.workload_id)
		UNION ALL
		SELECT format('entries of scope %s', e.scope_id), 'turn', e.scope_id
		FROM entry_scope AS e
		WHERE e.scope_id IS NOT NULL
		  AND NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = e.scope_id)
		UNION ALL
		SELECT format('workloads of scope %s', w.scope_id), 'turn', w.scope_id FROM owner AS w
		WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = w.scope_id)
		UNION ALL
		SELECT format('queue "%s"', q.name), 'turn', q.queue_id FROM rpq_store.queue AS q
		WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = q.queue_id)
		UNION ALL
		SELECT format('workloads of account %s', w.account_id), 'account', w.account_id
		FROM owner AS w
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a
						  WHERE a.account_id = w.account_id AND a.tenant_id = w.tenant_id)
		UNION ALL
		SELECT format('lane %s', l.shape), 'turn', l.scope_id FROM rpq_store.lane AS l
		WHERE NOT EXISTS (SELECT FROM rpq_store.turn AS t WHERE t.scope_id = l.scope_id)
		UNION ALL
		SELECT format('lane %s', l.shape), 'account', l.account_id FROM rpq_store.lane AS l
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a WHERE a.account_id = l.account_id)
		UNION ALL
		SELECT 'usage', 'pool', u.pool_id FROM rpq_store.usage AS u
		WHERE NOT EXISTS (SELECT FROM rpq_store.pool AS p WHERE p.pool_id = u.pool_id)
		UNION ALL
		SELECT 'usage', 'lending pool', u.lender_id FROM rpq_store.usage AS u
		WHERE u.lender_id <> 0
		  AND NOT EXISTS (SELECT FROM rpq_store.pool AS p WHERE p.pool_id = u.lender_id)
		UNION ALL
		SELECT 'usage', 'instance type', u.type_id FROM rpq_store.usage AS u
		WHERE NOT EXISTS (SELECT FROM rpq_store.instance_type AS t WHERE t.type_id = u.type_id)
		UNION ALL
		SELECT 'usage', 'account', u.account_id FROM rpq_store.usage AS u
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a WHERE a.account_id = u.account_id)
		UNION ALL
		SELECT 'node_load', 'node', l.node_id FROM rpq_store.node_load AS l
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = l.node_id)
		UNION ALL
		SELECT format('hold %s', h.hold_id), 'node', h.node_id FROM rpq_store.hold AS h
		WHERE NOT EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = h.node_id)
		UNION ALL
		SELECT format('hold %s', h.hold_id), 'workload', h.workload_id FROM rpq_store.hold AS h
		WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = h.workload_id)
		UNION ALL
		SELECT format('quota of account %s in pool %s', q.account_id, q.pool_id), 'instance type', q.type_id
		FROM rpq_store.member_quota AS q
		WHERE q.type_id <> 0
		  AND NOT EXISTS (SELECT FROM rpq_store.instance_type AS t WHERE t.type_id = q.type_id)
		UNION ALL
		SELECT format('member %s', m.member_id), 'account of the pool''s tenant', m.account_id
		FROM rpq_store.member AS m
		WHERE NOT EXISTS (SELECT FROM rpq_store.account AS a JOIN rpq_store.pool AS p ON p.tenant_id = a.tenant_id
						  WHERE a.account_id = m.account_id AND p.pool_id = m.pool_id)
	) AS o (object, what, id)
$$;
COMMENT ON FUNCTION rpq_store.check_references() IS
'part of check_integrity: what tables without foreign keys refer to is there';

CREATE FUNCTION rpq_store.check_operations()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'operation', format('pool %s, operation %s', h.pool_id, h.operation_id), 'an open operation',
		coalesce(o.status, 'none')
	FROM rpq_store.operation_pool AS h
	LEFT JOIN rpq_store.operation AS o ON o.operation_id = h.operation_id
	WHERE o.status IS NULL OR o.status NOT IN ('pending', 'running')
	UNION ALL
	-- a backend's start goes with its pid: the number alone may be another's by now
	SELECT 'operation', format('operation %s', o.operation_id), 'an owner, or a lease that runs',
		format('running, lease until %s', coalesce(o.lease_until::text, 'never'))
	FROM rpq_store.operation AS o
	WHERE o.status = 'running' AND coalesce(o.lease_until, '-infinity') < clock_timestamp()
	  AND NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL) AS a
					  WHERE a.pid = o.owner_pid AND a.backend_start = o.owner_started)
	UNION ALL
	SELECT 'operation', format('pool %s', p.name), 'an open operation', format('none, and the pool is %s', p.status)
	FROM rpq_store.pool AS p
	WHERE p.status IN ('creating', 'updating', 'deleting')
	  AND NOT EXISTS (SELECT FROM rpq_store.operation AS o
					  WHERE o.pool_id = p.pool_id AND o.status IN ('pending', 'running')
						AND o.kind <> 'rotate')
$$;
COMMENT ON FUNCTION rpq_store.check_operations() IS
'part of check_integrity: no operation is open without owner past its lease, none that ended holds a pool, and no pool '
'waits for one that is not there';

CREATE FUNCTION rpq_store.check_moves()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH open AS (
		SELECT m.pod_migration_id, m.operation_id, m.pod_id, m.to_node_id, m.status
		FROM rpq_store.pod_migration AS m WHERE m.status IN ('planned', 'reserved', 'evicting')),
	running AS (
		SELECT o.operation_id, o.state FROM rpq_store.operation AS o WHERE o.status IN ('pending', 'running'))
	SELECT 'move', format('pod_migration %s', m.pod_migration_id), 'an open operation', 'none'
	FROM open AS m WHERE NOT EXISTS (SELECT FROM running AS r WHERE r.operation_id = m.operation_id)
	UNION ALL
	-- a node that was removed by force takes its holds with it: the next step seeks another target
	SELECT 'move', format('pod_migration %s', m.pod_migration_id),
		CASE m.status WHEN 'planned' THEN 'no hold' ELSE format('one hold, on node %s', m.to_node_id) END,
		format('%s holds, on node %s', count(h.hold_id), coalesce(min(h.node_id)::text, 'none'))
	FROM open AS m
	LEFT JOIN rpq_store.hold AS h
		ON h.pod_id = m.pod_id AND h.operation_id = m.operation_id AND h.purpose = 'move'
	WHERE EXISTS (SELECT FROM rpq_store.node AS n WHERE n.node_id = m.to_node_id) OR h.hold_id IS NOT NULL
	GROUP BY m.pod_migration_id, m.status, m.to_node_id
	HAVING count(h.hold_id) <> CASE m.status WHEN 'planned' THEN 0 ELSE 1 END
		OR min(h.node_id) <> m.to_node_id
	UNION ALL
	SELECT 'move', format('pod %s', m.pod_id), 'one open move', format('%s', count(*))
	FROM open AS m GROUP BY m.pod_id HAVING count(*) > 1
	UNION ALL
	SELECT 'hold', format('hold %s', h.hold_id), 'an open move of its pod', 'none'
	FROM rpq_store.hold AS h
	WHERE h.purpose = 'move'
	  AND NOT EXISTS (SELECT FROM open AS m WHERE m.pod_id = h.pod_id AND m.operation_id = h.operation_id)
	UNION ALL
	SELECT 'hold', format('hold %s', h.hold_id), 'an open operation', 'none'
	FROM rpq_store.hold AS h
	WHERE h.operation_id IS NOT NULL
	  AND NOT EXISTS (SELECT FROM running AS r WHERE r.operation_id = h.operation_id)
	UNION ALL
	SELECT 'node', format('node %s', n.name), 'an open operation that empties it', 'none, and it is draining'
	FROM rpq_store.node AS n
	WHERE n.draining
	  AND NOT EXISTS (SELECT FROM running AS r
					  WHERE r.state->'draining' @> jsonb_build_array(jsonb_build_object('node_id', n.node_id)))
$$;
COMMENT ON FUNCTION rpq_store.check_moves() IS
'part of check_integrity: open moves of pods, the room that is held for them, and nodes that are being emptied belong '
'to an operation that is open; a move that has reserved has one hold, on its target';

CREATE FUNCTION rpq_store.check_recorded()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	WITH made AS (
		SELECT DISTINCT h.object_kind, h.object_id, h.pool_id FROM rpq_store.history AS h
		WHERE h.old IS NULL AND h.new IS NOT NULL),
	-- retention deletes the oldest rows: what is older than all that is left cannot be told
	since AS (
		SELECT coalesce(least(h.at, h.recorded_at), '-infinity') AS at
		FROM (SELECT) AS one
		LEFT JOIN (SELECT at, recorded_at FROM rpq_store.history ORDER BY history_id LIMIT 1) AS h ON true)
	SELECT 'history', format('%s %s', o.kind, o.name), 'a row of its creation', 'none'
	FROM (
		SELECT 'tenant', tenant_id, name, NULL::bigint, created_at FROM rpq_store.tenant
		UNION ALL SELECT 'cluster', cluster_id, name, NULL, created_at FROM rpq_store.cluster
		UNION ALL SELECT 'instance_type', type_id, name, NULL, created_at FROM rpq_store.instance_type
		UNION ALL SELECT 'account', account_id, name, NULL, created_at FROM rpq_store.account
		UNION ALL SELECT 'user_group', group_id, name, NULL, created_at FROM rpq_store.user_group
		UNION ALL SELECT 'project_group', project_group_id, name, NULL, created_at FROM rpq_store.project_group
		UNION ALL SELECT 'node', node_id, name, NULL, created_at FROM rpq_store.node
		UNION ALL SELECT 'member', member_id, member_id::text, NULL, created_at FROM rpq_store.member
		UNION ALL SELECT 'policy', policy_id, name, NULL, created_at FROM rpq_store.policy
		UNION ALL SELECT 'profile', profile_id, name, NULL, created_at FROM rpq_store.profile
		UNION ALL SELECT 'queue', queue_id, name, NULL, created_at FROM rpq_store.queue
		UNION ALL SELECT 'pool_admin', account_id, account_id::text, pool_id, NULL FROM rpq_store.pool_admin
		-- a pool is recorded when the operation that makes it has succeeded
		UNION ALL SELECT 'pool', p.pool_id, p.name, NULL, p.created_at FROM rpq_store.pool AS p
		WHERE NOT EXISTS (SELECT FROM rpq_store.operation AS o
						  WHERE o.pool_id = p.pool_id AND o.kind = 'create' AND o.status <> 'succeeded')
	) AS o (kind, id, name, pool_id, created_at)
	CROSS JOIN since
	WHERE (o.created_at IS NULL OR o.created_at >= since.at)
	  AND NOT EXISTS (SELECT FROM made AS m WHERE m.object_kind = o.kind AND m.object_id = o.id
					  AND (o.pool_id IS NULL OR m.pool_id = o.pool_id))
$$;
COMMENT ON FUNCTION rpq_store.check_recorded() IS
'part of check_integrity: each object of the configuration has the history row of its creation, so that a raw INSERT '
'shows up';

CREATE FUNCTION rpq.check_integrity()
RETURNS TABLE (invariant text, object text, expected text, found text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
	PERFORM rpq_store.authorize('check_integrity');
	RETURN QUERY SELECT * FROM rpq_store.check_gangs();
	RETURN QUERY SELECT * FROM rpq_store.check_nodes();
	RETURN QUERY SELECT * FROM rpq_store.check_devices();
	RETURN QUERY SELECT * FROM rpq_store.check_usage();
	RETURN QUERY SELECT * FROM rpq_store.check_ledger();
	RETURN QUERY SELECT * FROM rpq_store.check_lanes();
	RETURN QUERY SELECT * FROM rpq_store.check_pools();
	RETURN QUERY SELECT * FROM rpq_store.check_references();
	RETURN QUERY SELECT * FROM rpq_store.check_reports();
	RETURN QUERY SELECT * FROM rpq_store.check_preemptions();
	RETURN QUERY SELECT * FROM rpq_store.check_operations();
	RETURN QUERY SELECT * FROM rpq_store.check_moves();
	RETURN QUERY SELECT * FROM rpq_store.check_recorded();
END
$$;
COMMENT ON FUNCTION rpq.check_integrity() IS
'recomputes every balance from the placed pods, the workloads and the ledger, and returns a row for each difference: '
'invariant (gang, workload, node, device, node_load, usage, ledger, lane, lane head, pool, pool_capacity, '
'inventory, machine, turn, borrowed, reference, report, operation, move, hold, preemption, history), object, what is '
'expected, what was found; none when all is well. Exact in any snapshot, whatever runs at the same time; locks and '
'writes nothing, '
'also on a standby. Errors: 42501. Platform administrators';
-- adopt_database: a copy of a database (restored from a dump, or made from a template) takes over.
--
-- Writes fence, then, under every turn, what only the holder of turns writes (pod, usage, node_load, lane, turn), and
-- the transaction ids of entries that came from a cluster which had used more of them.

CREATE FUNCTION rpq_store.rebuild_load() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.pod_report AS r
	WHERE NOT EXISTS (SELECT FROM rpq_store.pod AS p WHERE p.pod_id = r.pod_id);
	DELETE FROM rpq_store.hold WHERE purpose = 'stopping';
	-- their executors have not had the time to find this database
	UPDATE rpq_store.node_seen SET at = rpq.now();
	DELETE FROM rpq_store.node_load;
	INSERT INTO rpq_store.node_load (node_id, pool_id, used, pods, parts)
	SELECT n.node_id, n.pool_id, coalesce(l.used, ''), coalesce(l.pods, 0),
		ARRAY(SELECT coalesce((SELECT sum((w.resources OPERATOR(rpq.->) 'gpu') * 21000 / cardinality(p.devices))
				FROM rpq_store.pod AS p JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
				WHERE p.node_id = n.node_id AND d.device = ANY (p.devices)), 0)::bigint
			FROM generate_series(0, coalesce(n.capacity OPERATOR(rpq.->) 'gpu', 0)::int - 1) AS d (device)
			ORDER BY d.device)
	FROM rpq_store.node AS n
	LEFT JOIN (
		SELECT p.node_id, rpq.sum(w.resources) AS used, count(*) AS pods
		FROM rpq_store.pod AS p JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
		GROUP BY p.node_id) AS l ON l.node_id = n.node_id;
	DELETE FROM rpq_store.usage;
	INSERT INTO rpq_store.usage (pool_id, type_id, account_id, policy_id, lender_id, amount)
	SELECT CASE WHEN w.lender_id IS NULL THEN n.pool_id ELSE w.pool_id END, n.type_id, w.account_id,
		coalesce(w.policy_id, 0), coalesce(w.lender_id, 0), rpq.sum(w.resources)
	FROM rpq_store.pod AS p
	JOIN rpq_store.node AS n ON n.node_id = p.node_id
	JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
	GROUP BY 1, 2, 3, 4, 5;
$$;
COMMENT ON FUNCTION rpq_store.rebuild_load() IS
'node_load and usage anew, from the pods. The caller holds every turn';

CREATE FUNCTION rpq_store.rebuild_lanes() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.lane;
	INSERT INTO rpq_store.lane (scope_id, shape, waiting, head_at, head_id, account_id, priority, guarantee,
		checkpointable, replicas, workload_type, resources, instance_types, max_runtime, not_before)
	SELECT DISTINCT ON (w.scope_id, w.shape) w.scope_id, w.shape, count(*) OVER (PARTITION BY w.scope_id, w.shape),
		w.submitted_at, w.workload_id, w.account_id, w.priority, w.guarantee, w.checkpointable, w.replicas,
		w.workload_type, w.resources, w.instance_types, w.max_runtime, w.not_before
	FROM rpq_store.workload AS w
	WHERE w.status = 'queued'
	ORDER BY w.scope_id, w.shape, w.submitted_at, w.workload_id;
$$;
COMMENT ON FUNCTION rpq_store.rebuild_lanes() IS
'the lanes anew, from the queued workloads. The caller holds every turn';

-- Clients that kept rows locked, and executors that had not let go of a pod, are not those of this database.
CREATE FUNCTION rpq_store.settle_preemptions() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*) FROM (
		SELECT array_agg(l.workload_id) AS workloads, array_agg(l.attempt) AS attempts,
			array_agg('queued'::text) AS ends, array_agg('preempted'::text) AS causes,
			array_agg(NULL::text) AS details
		FROM rpq_store.podless AS l) AS x
	CROSS JOIN LATERAL rpq_store.end_attempts(x.workloads, x.attempts, x.ends, x.causes, x.details, 'system',
		rpq.now()) AS e;
	UPDATE rpq_store.preemption AS p SET state = 'stopped'
	FROM rpq_store.workload AS w
	WHERE w.workload_id = p.victim AND p.state = 'pending'
	  AND (w.attempt <> p.victim_attempt OR w.status NOT IN ('starting', 'running'))
$$;
COMMENT ON FUNCTION rpq_store.settle_preemptions() IS
'victims whose pods are gone go back to their queue, and those whose attempt has ended have stopped. The caller holds '
'every turn';

CREATE FUNCTION rpq.adopt_database() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'adopt_database'
AS $$
DECLARE
	was rpq_store.fence;
	now_is rpq_store.fence;
BEGIN
	PERFORM rpq_store.authorize('adopt_database');
	-- a second caller waits here, and then finds nothing to do
	SELECT f.* INTO was FROM rpq_store.fence AS f FOR UPDATE;
	IF NOT rpq_store.is_fenced() THEN
		RETURN;
	END IF;
	UPDATE rpq_store.fence AS f
	SET system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() AS c),
		database_oid = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()),
		written_at = clock_timestamp()
	RETURNING f.* INTO now_is;
	PERFORM rpq_store.take_turns(coalesce((SELECT array_agg(t.scope_id) FROM rpq_store.turn AS t), '{}'));

	-- Transaction ids mean nothing in another cluster: one that is not yet over here would make its entry look new
	-- for ever.  All that is here is history, so they become the id that is past in every snapshot.
	UPDATE rpq_store.entry SET xid = '2' WHERE xid >= pg_snapshot_xmin(pg_current_snapshot());
	DELETE FROM rpq_store.pod AS p
	WHERE NOT EXISTS (SELECT FROM rpq_store.workload AS w WHERE w.workload_id = p.workload_id
					  AND w.attempt = p.attempt AND w.status IN ('starting', 'running'));
	PERFORM rpq_store.settle_preemptions();
	PERFORM rpq_store.rebuild_load();
	PERFORM rpq_store.rebuild_lanes();
	-- its owner was a process elsewhere
	UPDATE rpq_store.operation
	SET status = 'pending', owner_pid = NULL, owner_started = NULL, lease_until = NULL
	WHERE status = 'running';
	PERFORM rpq_store.record('adopt_database', 'database', NULL, current_database(), NULL, NULL,
		to_jsonb(was) - 'only_row', to_jsonb(now_is) - 'only_row');
	UPDATE rpq_store.turn
	SET seen = pg_current_snapshot(), own_xid = pg_current_xact_id(),
		own_entry = coalesce((SELECT max(e.entry_id) FROM rpq_store.entry AS e), 0);
END
$$;
COMMENT ON FUNCTION rpq.adopt_database() IS
'makes a fenced database, that is a restored dump or a copy, act: frees the pods of ended attempts, recounts usage and '
'the load of nodes from the pods, rebuilds the lanes and sets every cursor, in this transaction. To be called when '
'the original no longer acts. Does nothing on a database that is not fenced. Errors: 42501. Platform administrators';
-- What the views are made of: who may see what, and the figures of the moment.  Balances (usage, lane, node_load) are
-- behind by the entries that no fold has counted; everything here adds them, so that a reader sees exactly what is
-- committed in its snapshot.  These are plain views without filter: only the views of schema rpq read them.

CREATE FUNCTION rpq_store.reading_time() RETURNS timestamptz
	LANGUAGE c STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'rpq_reading_time';
COMMENT ON FUNCTION rpq_store.reading_time() IS
	'the time by which a view reckons: rpq.clock, else the start of the statement';

CREATE FUNCTION rpq_store.shown_since() RETURNS timestamptz
	LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	-- in seconds, never in days: a day of an interval has 23 or 25 hours in some time zones
	SELECT rpq_store.reading_time() - make_interval(secs =>
		extract(epoch FROM current_setting('rpq.workload_history_retention')::interval)::double precision);
END;
COMMENT ON FUNCTION rpq_store.shown_since() IS 'the first instant of submission that rpq.workload_history shows';

CREATE FUNCTION rpq_store.is_known() RETURNS boolean
	LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT rpq_store.my_account() IS NOT NULL OR rpq_store.is_platform_admin() $$;
COMMENT ON FUNCTION rpq_store.is_known() IS
	'the caller has an account or is a platform admin: it may see what everybody may';

CREATE FUNCTION rpq_store.sight(OUT account_id bigint, OUT tenants bigint[], OUT pools bigint[],
		OUT first_account bigint, OUT last_account bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	account_id := rpq_store.my_account();
	pools := '{}';
	tenants := '{}';
	IF rpq_store.is_platform_admin() THEN
		tenants := coalesce((SELECT array_agg(t.tenant_id) FROM rpq_store.tenant t), '{}');
	ELSIF account_id IS NOT NULL THEN
		IF rpq_store.is_org_admin() THEN
			tenants := ARRAY[rpq_store.my_tenant()];
		END IF;
		pools := coalesce(rpq_store.administered_pools(), '{}');
	END IF;
	IF cardinality(tenants) > 0 OR cardinality(pools) > 0 THEN
		first_account := 0;
		last_account := 9223372036854775807;
	ELSE
		first_account := account_id;
		last_account := account_id;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.sight() IS
	'what the caller may see of work: its own (account_id), all of these tenants, all in these pools; and the '
	'range of account ids in which all of that lies, by which a member''s query becomes an index scan';

CREATE FUNCTION rpq_store.at_least_zero(amount rpq.resources) RETURNS rpq.resources
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT rpq.greatest(amount, amount OPERATOR(rpq.*) 0::numeric);
END;
COMMENT ON FUNCTION rpq_store.at_least_zero(rpq.resources) IS
	'by key, never below zero; the planner puts its body in place';

CREATE FUNCTION rpq_store.unavailable_of(takes_work boolean, capacity rpq.resources, usable rpq.resources,
	used rpq.resources) RETURNS rpq.resources
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN takes_work
				THEN rpq_store.at_least_zero(capacity OPERATOR(rpq.-) used)
					 OPERATOR(rpq.-) rpq_store.at_least_zero(usable OPERATOR(rpq.-) used)
				ELSE rpq_store.at_least_zero(capacity OPERATOR(rpq.-) used) END;
END;
COMMENT ON FUNCTION rpq_store.unavailable_of(boolean, rpq.resources, rpq.resources, rpq.resources) IS
	'what is free on a node by its nominal capacity and cannot be had: all of it where nothing new is taken, else '
	'what its machine does not have at present';

-- A function, so that the planner sees a handful of rows at a small cost: of the index range "transactions since the
-- cursor" it expects a third of the ledger, plans for that, and has it compiled.  STABLE: it reads the snapshot of the
-- query that calls it, which is that of the balances.
CREATE FUNCTION rpq_store.uncounted_now() RETURNS TABLE (scope_id bigint, workload_id bigint, attempt int,
		kind text, waiting smallint, pool_id bigint, type_id bigint, account_id bigint, policy_id bigint,
		lender_id bigint, resources rpq.resources)
	LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE COST 500 ROWS 50
	SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
BEGIN
	RETURN QUERY
	SELECT u.scope_id, u.workload_id, u.attempt, u.kind, u.waiting, u.pool_id, u.type_id, u.account_id, u.policy_id,
		   u.lender_id, u.resources
	  FROM rpq_store.uncounted u
	 WHERE u.waiting <> 0 OR u.resources IS NOT NULL OR u.kind = 'release';
END
$$;
COMMENT ON FUNCTION rpq_store.uncounted_now() IS
	'the entries that the balances do not contain yet, in the snapshot of the query that calls it';

-- Pods whose attempt has ended, that no fold has taken off their nodes yet.
CREATE VIEW rpq_store.released_pod AS
SELECT pod.pod_id, pod.node_id, pod.workload_id, pod.replica, w.resources
  FROM rpq_store.uncounted_now() u
  JOIN rpq_store.pod ON pod.workload_id = u.workload_id AND pod.attempt = u.attempt
  JOIN rpq_store.workload w ON w.workload_id = u.workload_id
 WHERE u.kind = 'release';
COMMENT ON VIEW rpq_store.released_pod IS 'pods of ended attempts that node_load still counts';

CREATE VIEW rpq_store.usage_now AS
SELECT pool_id, type_id, account_id, policy_id, lender_id, amount
  FROM rpq_store.usage
 UNION ALL
SELECT pool_id, coalesce(type_id, 0), account_id, coalesce(policy_id, 0), coalesce(lender_id, 0), resources
  FROM rpq_store.uncounted_now()
 WHERE resources IS NOT NULL AND pool_id IS NOT NULL;
COMMENT ON VIEW rpq_store.usage_now IS 'addends of usage: the counted cells and the entries not counted yet';

CREATE VIEW rpq_store.waiting_now AS
SELECT x.scope_id, sum(x.waiting)::bigint AS waiting
  FROM (SELECT scope_id, waiting FROM rpq_store.lane
		 UNION ALL
		SELECT scope_id, waiting FROM rpq_store.uncounted_now() WHERE waiting <> 0) x
 GROUP BY x.scope_id;
COMMENT ON VIEW rpq_store.waiting_now IS 'queued workloads of each scope';

CREATE VIEW rpq_store.oldest_now AS
SELECT x.scope_id, min(x.submitted_at) AS submitted_at
  FROM (SELECT l.scope_id, o.submitted_at
		  FROM rpq_store.lane l
		 CROSS JOIN LATERAL (
				SELECT w.submitted_at
				  FROM rpq_store.workload w
				 WHERE w.scope_id = l.scope_id AND w.shape = l.shape AND w.status = 'queued'
				   AND w.submitted_at >= l.head_at		-- skips the dead entries before the lane's head
				 ORDER BY w.submitted_at, w.workload_id
				 LIMIT 1) o
		 UNION ALL
		SELECT u.scope_id, w.submitted_at
		  FROM rpq_store.uncounted_now() u
		  JOIN rpq_store.workload w ON w.workload_id = u.workload_id
		 WHERE u.waiting > 0 AND w.status = 'queued' AND w.scope_id = u.scope_id) x
 GROUP BY x.scope_id;
COMMENT ON VIEW rpq_store.oldest_now IS 'first submission that still waits, of each scope with one';

-- Why a preemptor waits, more exactly than its lane's reason: of its lane it alone has room held.
CREATE VIEW rpq_store.preempting_now AS
SELECT h.workload_id,
	   format('room is held on %s%s', array_to_string(h.nodes[1:3], ', '),
			  CASE WHEN cardinality(h.nodes) > 3 THEN format(' and %s more', cardinality(h.nodes) - 3) END)
	   || CASE WHEN v.pending > 0
			   THEN format('; %s of %s victims %s still to stop', v.pending, v.victims,
						   CASE v.pending WHEN 1 THEN 'has' ELSE 'have' END) ELSE '' END AS reason
  FROM (SELECT o.workload_id, array_agg(DISTINCT n.name) AS nodes
		  FROM rpq_store.hold o JOIN rpq_store.node n ON n.node_id = o.node_id
		 WHERE o.purpose = 'preempt'
		 GROUP BY o.workload_id) h
 CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE p.state = 'pending' AND EXISTS (
					SELECT FROM rpq_store.victim_room r WHERE r.preemption_id = p.preemption_id)) AS pending,
			   count(*) AS victims
		  FROM rpq_store.preemption p
		 WHERE p.preemptor = h.workload_id AND p.state <> 'given_up'
		   AND p.at = (SELECT max(x.at) FROM rpq_store.preemption x
						WHERE x.preemptor = h.workload_id AND x.state = 'pending')) v;
COMMENT ON VIEW rpq_store.preempting_now IS
	'workloads for which room is held until victims have stopped, with the sentence that says so';

-- What holds take of what pods leave.  The room that is held for a preemptor may be what its victims still have: of
-- that nothing is taken twice, by preemptor and node.  A pod that ended has no room, though no fold has freed it yet.
CREATE VIEW rpq_store.hold_room AS
SELECT h.node_id, h.resources, 1::bigint AS holds
  FROM rpq_store.hold h
 WHERE h.purpose <> 'preempt'
 UNION ALL
SELECT k.node_id,
	   rpq_store.at_least_zero(k.resources OPERATOR(rpq.-) coalesce((
			SELECT rpq.sum(v.resources) FROM rpq_store.victim_room v
			 WHERE v.preemptor = k.workload_id AND v.node_id = k.node_id
			   AND NOT EXISTS (SELECT FROM rpq_store.released_pod r WHERE r.pod_id = v.pod_id)), '')), k.holds
  FROM (SELECT h.node_id, h.workload_id, rpq.sum(h.resources) AS resources, count(*) AS holds
		  FROM rpq_store.hold h WHERE h.purpose = 'preempt' GROUP BY h.node_id, h.workload_id) k;
COMMENT ON VIEW rpq_store.hold_room IS 'addends of what holds take of the room that no pod has, by node';

-- A node takes new work when it is healthy, schedulable and not draining.
CREATE VIEW rpq_store.node_now AS
SELECT n.node_id, n.pool_id, n.type_id, n.name, n.usable,
	   n.schedulable AND NOT n.draining AND n.health = 'healthy' AS takes_work,
	   n.usable OPERATOR(rpq.*) 0::numeric OPERATOR(rpq.+) coalesce(l.used, '')
		   OPERATOR(rpq.-) coalesce(r.resources, '') AS used,
	   coalesce(l.pods, 0) - coalesce(r.pods, 0) AS pods,
	   coalesce(h.resources, '') AS held,
	   coalesce(h.holds, 0) AS holds, n.capacity,
	   n.usable OPERATOR(rpq.*) 0::numeric OPERATOR(rpq.+) coalesce(b.resources, '') AS lent
  FROM rpq_store.node n
  LEFT JOIN rpq_store.node_load l ON l.node_id = n.node_id
  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources, count(*) AS pods
			   FROM rpq_store.released_pod GROUP BY node_id) r ON r.node_id = n.node_id
  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources, sum(holds)::bigint AS holds
			   FROM rpq_store.hold_room GROUP BY node_id) h ON h.node_id = n.node_id
  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources
			   FROM rpq_store.borrowed_pod GROUP BY node_id) b ON b.node_id = n.node_id
 WHERE NOT n.removing;
COMMENT ON VIEW rpq_store.node_now IS 'what pods and holds take of each node; lent: of that, what borrows there';

CREATE VIEW rpq_store.unavailable_now AS
SELECT n.pool_id, n.type_id,
	   rpq_store.unavailable_of(n.takes_work, n.capacity, n.usable, n.used OPERATOR(rpq.-) n.lent) AS amount
  FROM rpq_store.node_now n
 WHERE NOT n.takes_work OR NOT n.capacity OPERATOR(rpq.=) n.usable;
COMMENT ON VIEW rpq_store.unavailable_now IS
	'addends of unavailable: what is free on each node that takes nothing new, and what of a node''s room its '
	'machine does not have at present; what is lent there is free for the pool itself';

-- Each part is an outer join to one row, which the planner leaves out where nobody asks for it.
CREATE VIEW rpq_store.pool_now AS
WITH uncounted AS MATERIALIZED (SELECT u.* FROM rpq_store.uncounted_now() u),
	 released AS MATERIALIZED (
		SELECT pod.node_id, pod.replica, w.resources
		  FROM uncounted u
		  JOIN rpq_store.pod ON pod.workload_id = u.workload_id AND pod.attempt = u.attempt
		  JOIN rpq_store.workload w ON w.workload_id = u.workload_id
		 WHERE u.kind = 'release'),
	 placed AS MATERIALIZED (
		SELECT n.pool_id, count(*) AS running
		  FROM rpq_store.pod JOIN rpq_store.node n ON n.node_id = pod.node_id
		 WHERE pod.replica = 0
		 GROUP BY n.pool_id),
	 borrowed AS MATERIALIZED (SELECT b.* FROM rpq_store.borrowed_pod b),
	 lent AS MATERIALIZED (
		SELECT y.lender_id, rpq.sum(y.amount) AS amount
		  FROM (SELECT lender_id, amount FROM rpq_store.usage WHERE lender_id <> 0
				 UNION ALL
				SELECT lender_id, resources FROM uncounted WHERE lender_id IS NOT NULL AND resources IS NOT NULL) y
		 GROUP BY y.lender_id)
SELECT p.*,
	   coalesce(c.nodes, 0) AS nodes,
	   coalesce(c.total, '') AS total,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(u.used, '') AS used,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(x.unavailable, '') AS unavailable,
	   rpq_store.at_least_zero(coalesce(c.total, '') OPERATOR(rpq.-) coalesce(u.used, '')
							   OPERATOR(rpq.-) coalesce(x.unavailable, '')) AS available,
	   (SELECT y.free
		  FROM (SELECT n.name, rpq_store.at_least_zero(n.usable OPERATOR(rpq.-) coalesce(l.used, '')
						   OPERATOR(rpq.+) coalesce(d.resources, '') OPERATOR(rpq.+) coalesce(b.resources, '')
						   OPERATOR(rpq.-) coalesce(h.resources, '')) AS free
				  FROM rpq_store.node n
				  LEFT JOIN rpq_store.node_load l ON l.node_id = n.node_id
				  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM released GROUP BY node_id) d
					ON d.node_id = n.node_id
				  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources
							   FROM rpq_store.hold_room GROUP BY node_id) h
					ON h.node_id = n.node_id
				  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM borrowed GROUP BY node_id) b
					ON b.node_id = n.node_id
				 WHERE n.pool_id = p.pool_id AND n.schedulable AND NOT n.draining AND n.health = 'healthy'
				   AND NOT n.removing) y
		 ORDER BY coalesce(y.free OPERATOR(rpq.->) p.kind, 0) DESC,
				  coalesce(y.free OPERATOR(rpq.->) 'cpu', 0) DESC, y.name
		 LIMIT 1) AS largest_free,
	   coalesce(q.waiting, 0) AS queued,
	   coalesce(r.running, 0) - coalesce(f.running, 0) + coalesce(g.running, 0) AS running,
	   coalesce(s.health, 'healthy') AS health,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(e.lent, '') AS lent
  FROM rpq_store.pool p
  LEFT JOIN LATERAL (
		SELECT sum(k.nodes)::bigint AS nodes, rpq.sum(k.capacity OPERATOR(rpq.*) k.nodes::numeric) AS total
		  FROM rpq_store.pool_capacity k WHERE k.pool_id = p.pool_id) c ON true
  LEFT JOIN LATERAL (
		SELECT rpq.sum(y.amount) AS used
		  FROM (SELECT amount FROM rpq_store.usage WHERE pool_id = p.pool_id AND lender_id = 0
				 UNION ALL
				SELECT resources FROM uncounted WHERE pool_id = p.pool_id AND lender_id IS NULL) y) u ON true
  LEFT JOIN LATERAL (SELECT rpq.sum(l.amount) AS lent FROM lent l WHERE l.lender_id = p.pool_id) e ON true
  LEFT JOIN LATERAL (
		SELECT rpq.sum(rpq_store.unavailable_of(n.schedulable AND NOT n.draining AND n.health = 'healthy', n.capacity,
					   n.usable, coalesce(l.used, '') OPERATOR(rpq.-) coalesce(d.resources, '')
						   OPERATOR(rpq.-) coalesce(b.resources, ''))) AS unavailable
		  FROM rpq_store.node n
		  LEFT JOIN rpq_store.node_load l ON l.node_id = n.node_id
		  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM released GROUP BY node_id) d
			ON d.node_id = n.node_id
		  LEFT JOIN (SELECT node_id, rpq.sum(resources) AS resources FROM borrowed GROUP BY node_id) b
			ON b.node_id = n.node_id
		 WHERE n.pool_id = p.pool_id AND NOT n.removing
		   AND (NOT (n.schedulable AND NOT n.draining AND n.health = 'healthy')
				OR NOT n.capacity OPERATOR(rpq.=) n.usable)) x ON true
  LEFT JOIN LATERAL (
		SELECT sum(y.waiting)::bigint AS waiting
		  FROM (SELECT waiting FROM rpq_store.lane WHERE scope_id = p.pool_id
				 UNION ALL
				SELECT waiting FROM uncounted WHERE scope_id = p.pool_id) y) q ON true
  LEFT JOIN LATERAL (SELECT sum(k.running)::bigint AS running FROM placed k WHERE k.pool_id = p.pool_id) r ON true
  LEFT JOIN LATERAL (
		SELECT count(*) AS running
		  FROM released o JOIN rpq_store.node n ON n.node_id = o.node_id
		 WHERE n.pool_id = p.pool_id AND o.replica = 0) f ON true
  LEFT JOIN LATERAL (
		SELECT sum(CASE p.pool_id WHEN b.pool_id THEN 1 ELSE -1 END)::bigint AS running
		  FROM borrowed b WHERE p.pool_id IN (b.pool_id, b.lender_id) AND b.replica = 0) g ON true
  LEFT JOIN LATERAL (
		SELECT string_agg(n.name || ' ' || n.health || coalesce(' (' || n.health_reason || ')', ''), ', '
						  ORDER BY n.name) AS health
		  FROM rpq_store.node n WHERE n.pool_id = p.pool_id AND n.health <> 'healthy' AND NOT n.removing) s ON true;
COMMENT ON VIEW rpq_store.pool_now IS
	'each pool with its figures: running counts the first pods (replica 0) that are placed, in the pool that they are '
	'charged to; what is lent is free for the pool itself, which takes it back at once';
-- Members and their personal quotas.  rpq.members may be written (writable.sql): its rows come out of a WITH query,
-- which no SELECT ... FOR UPDATE reaches, so that no reader locks what administrators change.

-- The rows: members; accounts without a setting of their own that use a shared pool; and for each of both its quotas
-- for one instance type, set for it or by default.
CREATE VIEW rpq_store.member_row AS
WITH who AS (
	SELECT m.pool_id, m.account_id, m.member_id, m.max_priority, m.guarantee
	  FROM rpq_store.member m
	 UNION ALL
	SELECT u.pool_id, u.account_id, NULL, 100, false
	  FROM (SELECT x.pool_id, x.account_id
			  FROM rpq_store.usage_now x JOIN rpq_store.pool s ON s.pool_id = x.pool_id AND s.type = 'shared'
			 WHERE x.policy_id = 0
			 GROUP BY x.pool_id, x.account_id
			HAVING rpq.sum(x.amount) OPERATOR(rpq.<>) (rpq.sum(x.amount) OPERATOR(rpq.*) 0::numeric)) u
	 WHERE NOT EXISTS (SELECT FROM rpq_store.member m WHERE m.pool_id = u.pool_id AND m.account_id = u.account_id))
SELECT w.pool_id, w.account_id, w.member_id, w.max_priority, w.guarantee, 0::bigint AS type_id,
	   q.quota AS own_quota, p.user_default_quota AS default_quota
  FROM who w
  JOIN rpq_store.pool p ON p.pool_id = w.pool_id
  LEFT JOIN rpq_store.member_quota q ON q.pool_id = w.pool_id AND q.account_id = w.account_id AND q.type_id = 0
 UNION ALL
SELECT w.pool_id, w.account_id, w.member_id, w.max_priority, w.guarantee, i.type_id, q.quota, i.user_default_quota
  FROM who w
  JOIN rpq_store.pool_instance i ON i.pool_id = w.pool_id
  LEFT JOIN rpq_store.member_quota q ON q.pool_id = w.pool_id AND q.account_id = w.account_id AND q.type_id = i.type_id
 WHERE q.quota IS NOT NULL OR i.user_default_quota IS NOT NULL;
COMMENT ON VIEW rpq_store.member_row IS
	'rows of rpq.members, without figures and filter; type_id 0 is the pool as a whole';

CREATE VIEW rpq.members WITH (security_barrier) AS
WITH seen AS (
	SELECT r.member_id, r.pool_id, p.name AS pool, r.account_id, a.name AS account, t.name AS instance_type,
		   CASE WHEN r.own_quota IS NULL THEN 'default' ELSE 'custom' END AS config_mode,
		   coalesce(r.own_quota, r.default_quota, '') AS quota,
		   coalesce(CASE WHEN r.type_id = 0 THEN w.used ELSE i.used END, '') AS used,
		   r.max_priority, r.guarantee, n.name AS tenant
	  FROM rpq_store.member_row r
	  JOIN rpq_store.pool p ON p.pool_id = r.pool_id
	  JOIN rpq_store.tenant n ON n.tenant_id = p.tenant_id
	  JOIN rpq_store.account a ON a.account_id = r.account_id
	  LEFT JOIN rpq_store.instance_type t ON t.type_id = r.type_id
	  LEFT JOIN (SELECT pool_id, account_id, rpq.sum(amount) AS used
				   FROM rpq_store.usage_now WHERE policy_id = 0 GROUP BY pool_id, account_id) w
		ON w.pool_id = r.pool_id AND w.account_id = r.account_id
	  LEFT JOIN (SELECT pool_id, account_id, type_id, rpq.sum(amount) AS used
				   FROM rpq_store.usage_now WHERE policy_id = 0 GROUP BY pool_id, account_id, type_id) i
		ON i.pool_id = r.pool_id AND i.account_id = r.account_id AND i.type_id = r.type_id
	 WHERE p.status <> 'deleted'
	   AND (r.account_id = (SELECT rpq_store.my_account())
			OR r.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[])))
SELECT s.member_id, s.pool_id, s.pool, s.account_id, s.account, s.instance_type, s.config_mode, s.quota, s.used,
	   -- what the quota leaves, by the quota's keys alone
	   (SELECT coalesce(jsonb_object_agg(k.key, v.rest -> k.key), '{}')::rpq.resources
		  FROM (SELECT rpq_store.at_least_zero(s.quota OPERATOR(rpq.-) s.used)::jsonb) v(rest),
			   jsonb_object_keys(s.quota::jsonb) k(key)) AS available,
	   s.max_priority, s.guarantee, s.tenant
  FROM seen s;

COMMENT ON VIEW rpq.members IS
	'members of pools, with a row for the pool as a whole and one for each of their quotas for one instance type; '
	'in a shared pool also accounts without a setting that use it. Administrators of the pool see all, others '
	'themselves. UPDATE changes quota, max_priority and guarantee as rpq.update_members does; a locking clause '
	'locks nothing';
COMMENT ON COLUMN rpq.members.member_id IS
	'id of the membership; NULL for an account that uses a shared pool without a setting of its own';
COMMENT ON COLUMN rpq.members.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.members.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.members.account_id IS 'id of the account';
COMMENT ON COLUMN rpq.members.account IS 'name of the account';
COMMENT ON COLUMN rpq.members.instance_type IS 'instance type that the quota is for; NULL: the pool as a whole';
COMMENT ON COLUMN rpq.members.config_mode IS
	'default: the quota follows the pool''s user default quota; custom: it is the member''s own';
COMMENT ON COLUMN rpq.members.quota IS
	'personal quota in force; no keys: unlimited. UPDATE to NULL goes back to the default';
COMMENT ON COLUMN rpq.members.used IS
	'what the account''s direct submissions hold in the pool (on the instance type); work through queues is '
	'charged to its policy';
COMMENT ON COLUMN rpq.members.available IS
	'quota - used, by the quota''s keys, never below zero; the pool may have less';
COMMENT ON COLUMN rpq.members.max_priority IS 'highest priority (0 to 100) that the member may submit with';
COMMENT ON COLUMN rpq.members.guarantee IS 'the member may submit workloads that are never preempted';
COMMENT ON COLUMN rpq.members.tenant IS 'tenant of the pool';
-- Views of pools.  rpq.pools may be written (writable.sql): its rows come out of a WITH query, which no SELECT ... FOR
-- UPDATE reaches, so that no reader locks what administrators change.

CREATE VIEW rpq.overview WITH (security_barrier) AS
SELECT p.pool_id, t.name AS tenant, p.name, p.type, p.kind, p.status, p.health, p.nodes, p.total, p.used, p.available,
	   p.unavailable, p.queued, p.running,
	   CASE WHEN o.submitted_at IS NOT NULL
			THEN greatest((SELECT rpq_store.reading_time()) - o.submitted_at, '0') END AS oldest_wait
  FROM rpq_store.pool_now p
  JOIN rpq_store.tenant t ON t.tenant_id = p.tenant_id
  LEFT JOIN rpq_store.oldest_now o ON o.scope_id = p.pool_id
 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]);

COMMENT ON VIEW rpq.overview IS 'a line for each pool that one may see: the view to open first';
COMMENT ON COLUMN rpq.overview.pool_id IS 'id of the pool, the same through renames';
COMMENT ON COLUMN rpq.overview.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.overview.name IS 'name of the pool, unique in its tenant';
COMMENT ON COLUMN rpq.overview.type IS 'shared, dedicated or exclusive';
COMMENT ON COLUMN rpq.overview.kind IS 'gpu or cpu';
COMMENT ON COLUMN rpq.overview.status IS 'creating, ready, updating, failed or deleting';
COMMENT ON COLUMN rpq.overview.health IS
	'healthy when all its nodes are, else the affected nodes with their reasons';
COMMENT ON COLUMN rpq.overview.nodes IS 'number of nodes';
COMMENT ON COLUMN rpq.overview.total IS 'the pool quota: what its nodes hold';
COMMENT ON COLUMN rpq.overview.used IS 'what placed workloads of it hold; of what borrows room, nothing anywhere';
COMMENT ON COLUMN rpq.overview.available IS
	'total - used - unavailable, by key, never below zero; what is lent is in it, since the pool takes it back at once';
COMMENT ON COLUMN rpq.overview.unavailable IS
	'what is free on nodes that take nothing new (cordoned, draining, not healthy), and what machines at present lack '
	'of their nominal capacity';
COMMENT ON COLUMN rpq.overview.queued IS
	'workloads that wait in this pool; those in queues of policies wait in no pool';
COMMENT ON COLUMN rpq.overview.running IS
	'workloads that hold nodes, starting and running, in the pool that they are charged to: what borrows room of an '
	'exclusive pool is in the shared pool that it was submitted to';
COMMENT ON COLUMN rpq.overview.oldest_wait IS
	'time since the submission of the one that waits longest; NULL when none waits';

CREATE VIEW rpq.pools WITH (security_barrier) AS
WITH seen AS (
	SELECT p.pool_id, t.name AS tenant, p.name, p.type, p.kind, p.status, c.name AS cluster, c.region,
		   ARRAY(SELECT i.name FROM rpq_store.instance_type i
				  WHERE i.type_id IN (SELECT pi.type_id FROM rpq_store.pool_instance pi WHERE pi.pool_id = p.pool_id)
				  ORDER BY i.name) AS instance_types,
		   p.total, p.used, p.unavailable, p.available,
		   p.lent,
		   p.largest_free,
		   p.scheduling_policy, p.queueing, p.user_default_quota, p.default_priority, p.workload_types,
		   (SELECT g.name FROM rpq_store.project_group g
			 WHERE g.project_group_id = p.project_group_id) AS project_group,
		   p.description, p.frozen, p.allow_guarantee, p.pay_as_you_go, p.faulty_node_rotation, p.idle_time_sharing,
		   p.open, p.isolate_accounts, p.min_runtime, p.health, p.queued, p.running, p.created_at
	  FROM rpq_store.pool_now p
	  JOIN rpq_store.tenant t ON t.tenant_id = p.tenant_id
	  JOIN rpq_store.cluster c ON c.cluster_id = p.cluster_id
	 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]))
SELECT * FROM seen;

COMMENT ON VIEW rpq.pools IS
	'pools that are not deleted, with settings and figures. UPDATE changes the settings that rpq.edit_pool has, '
	'with its checks; a locking clause locks nothing';
COMMENT ON COLUMN rpq.pools.pool_id IS 'id of the pool, the same through renames';
COMMENT ON COLUMN rpq.pools.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.pools.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.pools.type IS 'shared (what no other pool has), dedicated or exclusive (whole machines)';
COMMENT ON COLUMN rpq.pools.kind IS 'gpu or cpu: its instance types'' kind, and its primary resource';
COMMENT ON COLUMN rpq.pools.status IS 'creating, ready, updating, failed or deleting';
COMMENT ON COLUMN rpq.pools.cluster IS 'cluster of all its nodes';
COMMENT ON COLUMN rpq.pools.region IS 'region of the cluster';
COMMENT ON COLUMN rpq.pools.instance_types IS 'instance types that it has or has settings for, by name';
COMMENT ON COLUMN rpq.pools.total IS 'the pool quota: what its nodes hold';
COMMENT ON COLUMN rpq.pools.used IS
	'what placed workloads of it hold; what borrows room of an exclusive pool is in the used of neither pool';
COMMENT ON COLUMN rpq.pools.unavailable IS
	'what is free on nodes that take nothing new (cordoned, draining, not healthy), and what machines at present lack '
	'of their nominal capacity';
COMMENT ON COLUMN rpq.pools.available IS
	'total - used - unavailable, by key, never below zero; what is lent is in it, since the pool takes it back at once';
COMMENT ON COLUMN rpq.pools.lent IS
	'what workloads of the shared pool hold on its nodes by idle-time sharing; part of available, not of used';
COMMENT ON COLUMN rpq.pools.largest_free IS
	'what is free, or lent, on one node that takes work: the one with most of the primary resource free, then most '
	'CPU, then first by name; NULL when no node takes work';
COMMENT ON COLUMN rpq.pools.scheduling_policy IS
	'binpack, spread or least_fragmentation; an instance type may have its own (pool_instances)';
COMMENT ON COLUMN rpq.pools.queueing IS
	'backfill or best_effort: what happens behind a workload that waits for room';
COMMENT ON COLUMN rpq.pools.user_default_quota IS
	'personal quota of members in config mode default; NULL or no keys: unlimited';
COMMENT ON COLUMN rpq.pools.default_priority IS
	'priority (0 to 100) of a submission without one, if the member''s maximum allows it';
COMMENT ON COLUMN rpq.pools.workload_types IS 'workload types that it supports; NULL: all';
COMMENT ON COLUMN rpq.pools.project_group IS 'label under which pools are grouped; NULL: none';
COMMENT ON COLUMN rpq.pools.description IS 'free text';
COMMENT ON COLUMN rpq.pools.frozen IS 'nothing is submitted or admitted; what runs goes on';
COMMENT ON COLUMN rpq.pools.allow_guarantee IS
	'workloads may be submitted as guaranteed by members who have the right';
COMMENT ON COLUMN rpq.pools.pay_as_you_go IS 'every workload is non-preemptible';
COMMENT ON COLUMN rpq.pools.faulty_node_rotation IS
	'exclusive: an unhealthy node is swapped for a healthy idle one of the shared pool';
COMMENT ON COLUMN rpq.pools.idle_time_sharing IS
	'exclusive: free nodes may serve preemptible workloads of the shared pool';
COMMENT ON COLUMN rpq.pools.open IS 'shared: every account of the tenant may submit; off: members alone';
COMMENT ON COLUMN rpq.pools.isolate_accounts IS 'exclusive: a node hosts pods of one account at a time';
COMMENT ON COLUMN rpq.pools.min_runtime IS 'time that a workload runs before it may be preempted';
COMMENT ON COLUMN rpq.pools.health IS 'healthy when all its nodes are, else the affected nodes with their reasons';
COMMENT ON COLUMN rpq.pools.queued IS 'workloads that wait in this pool';
COMMENT ON COLUMN rpq.pools.running IS
	'workloads that hold nodes, starting and running, in the pool that they are charged to: what borrows room of an '
	'exclusive pool is in the shared pool that it was submitted to';
COMMENT ON COLUMN rpq.pools.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.pool_instances WITH (security_barrier) AS
SELECT i.pool_instance_id, i.pool_id, p.name AS pool, t.name AS instance_type,
	   coalesce(c.nodes, 0) AS nodes,
	   coalesce(c.total, '') AS total,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(u.used, '') AS used,
	   coalesce(c.total OPERATOR(rpq.*) 0::numeric, '') OPERATOR(rpq.+) coalesce(x.unavailable, '') AS unavailable,
	   rpq_store.at_least_zero(coalesce(c.total, '') OPERATOR(rpq.-) coalesce(u.used, '')
							   OPERATOR(rpq.-) coalesce(x.unavailable, '')) AS available,
	   coalesce(i.scheduling_policy, p.scheduling_policy) AS scheduling_policy,
	   i.user_default_quota
  FROM rpq_store.pool_instance i
  JOIN rpq_store.pool p ON p.pool_id = i.pool_id
  JOIN rpq_store.instance_type t ON t.type_id = i.type_id
  LEFT JOIN (SELECT pool_id, type_id, sum(nodes)::bigint AS nodes,
					rpq.sum(capacity OPERATOR(rpq.*) nodes::numeric) AS total
			   FROM rpq_store.pool_capacity GROUP BY pool_id, type_id) c
	ON c.pool_id = i.pool_id AND c.type_id = i.type_id
  LEFT JOIN (SELECT pool_id, type_id, rpq.sum(amount) AS used
			   FROM rpq_store.usage_now WHERE lender_id = 0 GROUP BY pool_id, type_id) u
	ON u.pool_id = i.pool_id AND u.type_id = i.type_id
  LEFT JOIN (SELECT pool_id, type_id, rpq.sum(amount) AS unavailable
			   FROM rpq_store.unavailable_now GROUP BY pool_id, type_id) x
	ON x.pool_id = i.pool_id AND x.type_id = i.type_id
 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]);

COMMENT ON VIEW rpq.pool_instances IS 'each instance type of each pool that one may see';
COMMENT ON COLUMN rpq.pool_instances.pool_instance_id IS 'id of the row';
COMMENT ON COLUMN rpq.pool_instances.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.pool_instances.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.pool_instances.instance_type IS 'name of the instance type';
COMMENT ON COLUMN rpq.pool_instances.nodes IS 'nodes of this type in the pool';
COMMENT ON COLUMN rpq.pool_instances.total IS 'what those nodes hold';
COMMENT ON COLUMN rpq.pool_instances.used IS 'what placed workloads of the pool hold on this type, on its own nodes';
COMMENT ON COLUMN rpq.pool_instances.unavailable IS
	'what is free on those of its nodes that take nothing new, or is not there at present';
COMMENT ON COLUMN rpq.pool_instances.available IS
	'total - used - unavailable, by key, never below zero; what is lent is in it';
COMMENT ON COLUMN rpq.pool_instances.scheduling_policy IS
	'scheduling policy in force for this type: its own, else the pool''s';
COMMENT ON COLUMN rpq.pool_instances.user_default_quota IS
	'personal quota for this type of members in config mode default; NULL: none of its own';

CREATE VIEW rpq.pool_resources WITH (security_barrier) AS
SELECT p.pool_id, p.name AS pool, k.resource,
	   coalesce(p.total OPERATOR(rpq.->) k.resource, 0) AS total,
	   coalesce(p.used OPERATOR(rpq.->) k.resource, 0) AS used,
	   coalesce(p.unavailable OPERATOR(rpq.->) k.resource, 0) AS unavailable,
	   coalesce(p.available OPERATOR(rpq.->) k.resource, 0) AS available,
	   coalesce(p.lent OPERATOR(rpq.->) k.resource, 0) AS lent
  FROM rpq_store.pool_now p
 CROSS JOIN LATERAL jsonb_object_keys((p.total OPERATOR(rpq.+) p.used)::jsonb) AS k(resource)
 WHERE p.status <> 'deleted' AND p.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[]);

COMMENT ON VIEW rpq.pool_resources IS 'each resource of each pool as plain numbers, for dashboards; memory in MiB';
COMMENT ON COLUMN rpq.pool_resources.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.pool_resources.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.pool_resources.resource IS 'name of the resource';
COMMENT ON COLUMN rpq.pool_resources.total IS 'what the pool''s nodes hold of it';
COMMENT ON COLUMN rpq.pool_resources.used IS 'what placed workloads of the pool hold of it, on its own nodes';
COMMENT ON COLUMN rpq.pool_resources.unavailable IS
	'what of it is free on nodes that take nothing new, or is not there at present';
COMMENT ON COLUMN rpq.pool_resources.available IS 'total - used - unavailable, never below zero';
COMMENT ON COLUMN rpq.pool_resources.lent IS
	'what workloads of the shared pool hold by idle-time sharing; part of available, not of used';
-- Views of nodes and of the pods on them.

CREATE VIEW rpq.nodes WITH (security_barrier) AS
SELECT n.node_id, n.name, t.name AS tenant, c.name AS cluster, n.pool_id, p.name AS pool, i.name AS instance_type,
	   i.kind, n.capacity, coalesce(s.reported, n.reported) AS reported, f.used,
	   f.held AS reserved,
	   CASE WHEN f.takes_work
			THEN rpq_store.at_least_zero(n.usable OPERATOR(rpq.-) f.used OPERATOR(rpq.-) f.held)
			ELSE n.usable OPERATOR(rpq.*) 0::numeric END AS available,
	   f.pods = 0 AND f.holds = 0 AS idle,
	   n.health, n.health_reason, n.schedulable, n.draining, s.at AS last_seen, n.labels, n.provider_id,
	   NULL::text AS autoscaler, n.usable, f.pods, f.lent
  FROM rpq_store.node n
  JOIN rpq_store.node_now f ON f.node_id = n.node_id
  LEFT JOIN rpq_store.tenant t ON t.tenant_id = n.tenant_id
  LEFT JOIN rpq_store.cluster c ON c.cluster_id = n.cluster_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = n.pool_id
  LEFT JOIN rpq_store.instance_type i ON i.type_id = n.type_id
  LEFT JOIN rpq_store.node_seen s ON s.node_id = n.node_id
 WHERE n.pool_id = ANY ((SELECT rpq_store.seen_pools())::bigint[])
 ORDER BY f.pods = 0 AND f.holds = 0 DESC, n.name;

COMMENT ON VIEW rpq.nodes IS 'nodes of the pools that one may see, idle ones first, then by name';
COMMENT ON COLUMN rpq.nodes.node_id IS 'id of the node';
COMMENT ON COLUMN rpq.nodes.name IS 'name, unique in its tenant';
COMMENT ON COLUMN rpq.nodes.tenant IS 'tenant of the node';
COMMENT ON COLUMN rpq.nodes.cluster IS 'cluster of the node';
COMMENT ON COLUMN rpq.nodes.pool_id IS 'id of the one pool that has the node';
COMMENT ON COLUMN rpq.nodes.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.nodes.instance_type IS 'name of the instance type';
COMMENT ON COLUMN rpq.nodes.kind IS 'gpu or cpu: the kind of the instance type';
COMMENT ON COLUMN rpq.nodes.capacity IS 'nominal capacity';
COMMENT ON COLUMN rpq.nodes.reported IS 'capacity that its executor last reported; NULL: never';
COMMENT ON COLUMN rpq.nodes.used IS 'what pods on it take, also those that borrow there';
COMMENT ON COLUMN rpq.nodes.reserved IS 'what holds keep of the room that no pod has';
COMMENT ON COLUMN rpq.nodes.available IS
	'what a new pod could take: usable - used - reserved, never below zero; zero where nothing new is taken';
COMMENT ON COLUMN rpq.nodes.idle IS 'no pod and no hold is on it';
COMMENT ON COLUMN rpq.nodes.health IS 'healthy, degraded or unhealthy';
COMMENT ON COLUMN rpq.nodes.health_reason IS 'why it is not healthy, or is cordoned; NULL: nothing was said';
COMMENT ON COLUMN rpq.nodes.schedulable IS 'false: cordoned by an administrator';
COMMENT ON COLUMN rpq.nodes.draining IS 'its pods are being moved away; nothing new is placed';
COMMENT ON COLUMN rpq.nodes.last_seen IS 'last sign of life of its executor; NULL: it never had one';
COMMENT ON COLUMN rpq.nodes.labels IS 'labels, a json object';
COMMENT ON COLUMN rpq.nodes.provider_id IS 'id of the machine where it was bought';
COMMENT ON COLUMN rpq.nodes.autoscaler IS 'autoscaler that started it; NULL: none did';
COMMENT ON COLUMN rpq.nodes.usable IS
	'the lesser of nominal and reported capacity, by key';
COMMENT ON COLUMN rpq.nodes.pods IS 'number of pods on it';
COMMENT ON COLUMN rpq.nodes.lent IS
	'of used, what work of the shared pool has by idle-time sharing: the pool''s own work takes it back at once';

-- A pod is there while its attempt is the workload's present one: reports end attempts at once, folds take pods off
-- their nodes a little later.
CREATE VIEW rpq.node_pods WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT n.node_id, n.name AS node, o.pod_id, w.workload_id, w.name AS workload, a.name AS account, w.workload_type,
	   w.resources, o.devices, w.account_id, o.replica
  FROM rpq_store.workload w
  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt
  JOIN rpq_store.node n ON n.node_id = o.node_id
  LEFT JOIN rpq_store.account a ON a.account_id = w.account_id
 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.node_pods IS
	'placed pods by node: of one''s own workloads, of all in one''s pools for their administrators';
COMMENT ON COLUMN rpq.node_pods.node_id IS 'id of the node';
COMMENT ON COLUMN rpq.node_pods.node IS 'name of the node';
COMMENT ON COLUMN rpq.node_pods.pod_id IS 'id of the pod, new at each placement';
COMMENT ON COLUMN rpq.node_pods.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.node_pods.workload IS 'name of the workload; NULL: it has none';
COMMENT ON COLUMN rpq.node_pods.account IS 'account that submitted it';
COMMENT ON COLUMN rpq.node_pods.workload_type IS 'workload type';
COMMENT ON COLUMN rpq.node_pods.resources IS 'what the pod takes';
COMMENT ON COLUMN rpq.node_pods.devices IS 'devices of the node that it has, or has a part of, from 0';
COMMENT ON COLUMN rpq.node_pods.account_id IS 'id of the account';
COMMENT ON COLUMN rpq.node_pods.replica IS 'number of the replica, from 0';

CREATE VIEW rpq.pods WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT o.pod_id, o.workload_id, o.replica, o.attempt, n.pool_id, p.name AS pool, o.node_id, n.name AS node, w.resources,
	   o.devices
  FROM rpq_store.workload w
  JOIN rpq_store.pod o ON o.workload_id = w.workload_id AND o.attempt = w.attempt
  JOIN rpq_store.node n ON n.node_id = o.node_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = n.pool_id
 WHERE w.status IN ('starting', 'running') AND w.ended_at IS NULL
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.pods IS 'placed pods: of one''s own workloads, of all in one''s pools for their administrators';
COMMENT ON COLUMN rpq.pods.pod_id IS 'id of the pod, new at each placement';
COMMENT ON COLUMN rpq.pods.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.pods.replica IS 'number of the replica, from 0';
COMMENT ON COLUMN rpq.pods.attempt IS 'attempt of the workload that it belongs to';
COMMENT ON COLUMN rpq.pods.pool_id IS 'id of the pool whose node it stands on';
COMMENT ON COLUMN rpq.pods.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.pods.node_id IS 'id of the node';
COMMENT ON COLUMN rpq.pods.node IS 'name of the node';
COMMENT ON COLUMN rpq.pods.resources IS 'what the pod takes';
COMMENT ON COLUMN rpq.pods.devices IS 'devices of the node that it has, or has a part of, from 0';
-- Views of workloads.  A reason may name the workload that is ahead: the reader may not see that one, and then its id
-- is left out.  rpq.workloads may be written (writable.sql): of its tables only the workload stands in FROM, the
-- others are WITH queries, which no SELECT ... FOR UPDATE reaches; so a reader locks rows of its own work alone.

CREATE VIEW rpq_store.workload_shown AS
WITH tenant AS (SELECT t.tenant_id, t.name FROM rpq_store.tenant t),
	 account AS (SELECT a.account_id, a.name FROM rpq_store.account a),
	 pool AS (SELECT p.pool_id, p.name FROM rpq_store.pool p),
	 lender AS (SELECT b.pool_id, b.name FROM rpq_store.pool b),
	 queue AS (SELECT q.queue_id, q.name, q.profile_id, q.policy_id FROM rpq_store.queue q),
	 profile AS (SELECT f.profile_id, f.name FROM rpq_store.profile f),
	 policy AS (SELECT y.policy_id, y.name FROM rpq_store.policy y),
	 lane AS (SELECT l.scope_id, l.shape, l.considered, l.reason_code, l.reason FROM rpq_store.lane l),
	 held AS (SELECT h.workload_id, h.reason FROM rpq_store.preempting_now h)
SELECT w.workload_id, w.name, t.name AS tenant, w.account_id, a.name AS account, p.pool_id, p.name AS pool, q.queue_id,
	   q.name AS queue, y.name AS policy, f.name AS profile, w.workload_type, w.status, w.priority::int AS priority,
	   w.guarantee, w.resources, w.replicas, w.resources OPERATOR(rpq.*) w.replicas::numeric AS total,
	   CASE WHEN w.instance_types IS NOT NULL
			THEN ARRAY(SELECT i.name FROM unnest(w.instance_types) WITH ORDINALITY x(type_id, n)
						 JOIN rpq_store.instance_type i ON i.type_id = x.type_id ORDER BY x.n) END AS instance_types,
	   w.nodes, w.attempt, w.preemptions,
	   CASE w.status WHEN 'queued' THEN CASE WHEN h.workload_id IS NOT NULL THEN 'preempting'
											 WHEN l.considered AND l.reason_code IS NOT NULL THEN l.reason_code
											 ELSE 'not_considered_yet' END
					 WHEN 'draft' THEN w.cause END AS reason_code,
	   CASE w.status WHEN 'queued' THEN CASE WHEN h.workload_id IS NOT NULL THEN h.reason
											 WHEN l.considered AND l.reason_code IS NOT NULL THEN l.reason
											 ELSE 'no cycle has considered it yet' END
					 WHEN 'draft' THEN w.detail END AS reason,
	   w.not_before, w.submitted_at, w.started_at, w.ended_at,
	   CASE WHEN w.ended_at IS NOT NULL THEN coalesce(w.cause, w.status) END AS end_cause,
	   w.max_runtime, w.on_node_loss, w.checkpointable, w.request_id, w.labels, w.spec, w.created_at, w.detail,
	   w.hidden, w.tenant_id, w.scope_id, w.pool_id AS placed_in,
	   b.name AS lender
  FROM rpq_store.workload w
  LEFT JOIN tenant t ON t.tenant_id = w.tenant_id
  LEFT JOIN account a ON a.account_id = w.account_id
  LEFT JOIN pool p		-- pools and queues have ids of one sequence, so a queue's finds no pool
	ON p.pool_id = CASE WHEN w.status IN ('queued', 'draft') THEN w.scope_id ELSE coalesce(w.pool_id, w.scope_id) END
  LEFT JOIN lender b ON b.pool_id = w.lender_id
  LEFT JOIN queue q ON q.queue_id = w.scope_id
  LEFT JOIN profile f ON f.profile_id = q.profile_id
  LEFT JOIN policy y ON y.policy_id = coalesce(w.policy_id, q.policy_id)
  LEFT JOIN lane l ON l.scope_id = w.scope_id AND l.shape = w.shape AND w.status = 'queued'
  LEFT JOIN held h ON h.workload_id = w.workload_id AND w.status = 'queued';
COMMENT ON VIEW rpq_store.workload_shown IS 'every workload with the names that belong to its ids, without filter';

CREATE VIEW rpq.workloads WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT w.workload_id, w.name, w.tenant, w.account_id, w.account, w.pool_id,
	   w.pool, w.queue_id, w.queue, w.policy, w.profile, w.workload_type, w.status, w.priority, w.guarantee,
	   w.resources, w.replicas, w.total, w.instance_types, w.nodes, w.attempt, w.preemptions, w.reason_code,
	   CASE WHEN w.reason_code IS DISTINCT FROM 'behind' OR (
				SELECT x.account_id = (SELECT account_id FROM me)
					   OR x.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
					   OR x.scope_id = ANY ((SELECT pools FROM me)::bigint[])
				  FROM rpq_store.workload x WHERE x.workload_id = substring(w.reason from '^workload (\d+) ')::bigint)
			THEN w.reason
			ELSE regexp_replace(w.reason, '^workload \d+ ', 'another workload ') END AS reason,
	   w.not_before, w.submitted_at, w.started_at, w.ended_at, w.end_cause, w.max_runtime,
	   w.on_node_loss, w.checkpointable, w.request_id, w.labels, w.spec, w.created_at, w.detail, w.lender
  FROM rpq_store.workload_shown w
 WHERE w.ended_at IS NULL AND NOT w.hidden
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.placed_in = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.workloads IS
	'live workloads and drafts: one''s own, and all in one''s pools for their administrators. INSERT submits, '
	'UPDATE of status to stopped stops, of priority, name and labels edits; a locking clause locks the workload '
	'alone';
COMMENT ON COLUMN rpq.workloads.workload_id IS 'id of the workload: its identity, since names may repeat';
COMMENT ON COLUMN rpq.workloads.name IS 'name given at submission; NULL: none';
COMMENT ON COLUMN rpq.workloads.tenant IS 'tenant of the account';
COMMENT ON COLUMN rpq.workloads.account_id IS 'id of the account that submitted it';
COMMENT ON COLUMN rpq.workloads.account IS 'name of that account; NULL: it was deleted';
COMMENT ON COLUMN rpq.workloads.pool_id IS
	'id of the pool that it waits in or is placed in; NULL while it waits in a queue';
COMMENT ON COLUMN rpq.workloads.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.workloads.queue_id IS 'id of the queue it came through; NULL: submitted to a pool';
COMMENT ON COLUMN rpq.workloads.queue IS 'name of that queue';
COMMENT ON COLUMN rpq.workloads.policy IS 'policy that it is charged to, or will be; NULL: none';
COMMENT ON COLUMN rpq.workloads.profile IS 'profile of the queue';
COMMENT ON COLUMN rpq.workloads.workload_type IS 'workload type';
COMMENT ON COLUMN rpq.workloads.status IS
	'draft, queued, starting (admitted, not reported yet), running, succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workloads.priority IS '0 to 100, larger is more urgent';
COMMENT ON COLUMN rpq.workloads.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq.workloads.resources IS 'what one replica takes';
COMMENT ON COLUMN rpq.workloads.replicas IS 'number of pods, placed all or none';
COMMENT ON COLUMN rpq.workloads.total IS 'resources times replicas';
COMMENT ON COLUMN rpq.workloads.instance_types IS 'instance types that it may run on; NULL: any of the pool';
COMMENT ON COLUMN rpq.workloads.nodes IS
	'node of each replica, in their order, of the present or last attempt; NULL: never placed';
COMMENT ON COLUMN rpq.workloads.attempt IS 'present or last attempt, from 1; 0: never admitted';
COMMENT ON COLUMN rpq.workloads.preemptions IS 'how often it was preempted';
COMMENT ON COLUMN rpq.workloads.reason_code IS
	'queued: why it waits (the codes of rpq.explain); draft: why it was taken back, if it was';
COMMENT ON COLUMN rpq.workloads.reason IS 'the same as a sentence with figures';
COMMENT ON COLUMN rpq.workloads.not_before IS 'not admitted before; NULL: any time';
COMMENT ON COLUMN rpq.workloads.submitted_at IS 'when it first entered a queue; NULL: a draft that never did';
COMMENT ON COLUMN rpq.workloads.started_at IS 'latest admission';
COMMENT ON COLUMN rpq.workloads.ended_at IS 'when it ended; NULL: it has not';
COMMENT ON COLUMN rpq.workloads.end_cause IS 'why it ended: the cause, else succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workloads.max_runtime IS 'it is stopped after so long; NULL: no limit';
COMMENT ON COLUMN rpq.workloads.on_node_loss IS 'requeue or fail: what becomes of it when its node is lost';
COMMENT ON COLUMN rpq.workloads.checkpointable IS 'it can go on from a checkpoint';
COMMENT ON COLUMN rpq.workloads.request_id IS 'the submissions own id, which makes it idempotent';
COMMENT ON COLUMN rpq.workloads.labels IS 'labels, json';
COMMENT ON COLUMN rpq.workloads.spec IS 'what the executor is to run, json';
COMMENT ON COLUMN rpq.workloads.created_at IS 'when the row was made';
COMMENT ON COLUMN rpq.workloads.detail IS 'details of the end, or of the last return to the queue';
COMMENT ON COLUMN rpq.workloads.lender IS
	'exclusive pool whose idle room it borrows, or borrowed when it ended; NULL: it is on nodes of pool itself';

-- In two parts, since the indexes are those of live and of ended workloads; nothing ends before it is submitted.
CREATE VIEW rpq.workload_history WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT w.workload_id, w.name, w.tenant, w.account_id, w.account, w.pool_id,
	   w.pool, w.queue_id, w.queue, w.policy, w.profile, w.workload_type, w.status, w.priority, w.guarantee,
	   w.resources, w.replicas, w.total, w.instance_types, w.nodes, w.attempt, w.preemptions, w.reason_code,
	   CASE WHEN w.reason_code IS DISTINCT FROM 'behind' OR (
				SELECT x.account_id = (SELECT account_id FROM me)
					   OR x.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
					   OR x.scope_id = ANY ((SELECT pools FROM me)::bigint[])
				  FROM rpq_store.workload x WHERE x.workload_id = substring(w.reason from '^workload (\d+) ')::bigint)
			THEN w.reason
			ELSE regexp_replace(w.reason, '^workload \d+ ', 'another workload ') END AS reason,
	   w.not_before, w.submitted_at, w.started_at, w.ended_at, w.end_cause, w.max_runtime,
	   w.on_node_loss, w.checkpointable, w.request_id, w.labels, w.spec, w.created_at, w.detail, w.lender
  FROM (
		SELECT * FROM rpq_store.workload_shown WHERE ended_at IS NULL
		 UNION ALL
		SELECT * FROM rpq_store.workload_shown WHERE ended_at >= (SELECT rpq_store.shown_since())) w
 WHERE w.submitted_at >= (SELECT rpq_store.shown_since()) AND NOT w.hidden
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.placed_in = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.workload_history IS
	'workloads submitted within rpq.workload_history_retention before now, ended ones included: one''s own, and '
	'all in one''s pools for their administrators';
COMMENT ON COLUMN rpq.workload_history.workload_id IS 'id of the workload: its identity, since names may repeat';
COMMENT ON COLUMN rpq.workload_history.name IS 'name given at submission; NULL: none';
COMMENT ON COLUMN rpq.workload_history.tenant IS 'tenant of the account';
COMMENT ON COLUMN rpq.workload_history.account_id IS 'id of the account that submitted it';
COMMENT ON COLUMN rpq.workload_history.account IS 'name of that account; NULL: it was deleted';
COMMENT ON COLUMN rpq.workload_history.pool_id IS
	'id of the pool that it waits in or is placed in; NULL while it waits in a queue';
COMMENT ON COLUMN rpq.workload_history.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.workload_history.queue_id IS 'id of the queue it came through; NULL: submitted to a pool';
COMMENT ON COLUMN rpq.workload_history.queue IS 'name of that queue';
COMMENT ON COLUMN rpq.workload_history.policy IS 'policy that it is charged to, or will be; NULL: none';
COMMENT ON COLUMN rpq.workload_history.profile IS 'profile of the queue';
COMMENT ON COLUMN rpq.workload_history.workload_type IS 'workload type';
COMMENT ON COLUMN rpq.workload_history.status IS
	'draft, queued, starting (admitted, not reported yet), running, succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workload_history.priority IS '0 to 100, larger is more urgent';
COMMENT ON COLUMN rpq.workload_history.guarantee IS 'never preempted';
COMMENT ON COLUMN rpq.workload_history.resources IS 'what one replica takes';
COMMENT ON COLUMN rpq.workload_history.replicas IS 'number of pods, placed all or none';
COMMENT ON COLUMN rpq.workload_history.total IS 'resources times replicas';
COMMENT ON COLUMN rpq.workload_history.instance_types IS 'instance types that it may run on; NULL: any of the pool';
COMMENT ON COLUMN rpq.workload_history.nodes IS
	'node of each replica, in their order, of the present or last attempt; NULL: never placed';
COMMENT ON COLUMN rpq.workload_history.attempt IS 'present or last attempt, from 1; 0: never admitted';
COMMENT ON COLUMN rpq.workload_history.preemptions IS 'how often it was preempted';
COMMENT ON COLUMN rpq.workload_history.reason_code IS
	'queued: why it waits (the codes of rpq.explain); draft: why it was taken back, if it was';
COMMENT ON COLUMN rpq.workload_history.reason IS 'the same as a sentence with figures';
COMMENT ON COLUMN rpq.workload_history.not_before IS 'not admitted before; NULL: any time';
COMMENT ON COLUMN rpq.workload_history.submitted_at IS
	'when it first entered a queue; NULL: a draft that never did';
COMMENT ON COLUMN rpq.workload_history.started_at IS 'latest admission';
COMMENT ON COLUMN rpq.workload_history.ended_at IS 'when it ended; NULL: it has not';
COMMENT ON COLUMN rpq.workload_history.end_cause IS 'why it ended: the cause, else succeeded, failed or stopped';
COMMENT ON COLUMN rpq.workload_history.max_runtime IS 'it is stopped after so long; NULL: no limit';
COMMENT ON COLUMN rpq.workload_history.on_node_loss IS 'requeue or fail: what becomes of it when its node is lost';
COMMENT ON COLUMN rpq.workload_history.checkpointable IS 'it can go on from a checkpoint';
COMMENT ON COLUMN rpq.workload_history.request_id IS 'the submissions own id, which makes it idempotent';
COMMENT ON COLUMN rpq.workload_history.labels IS 'labels, json';
COMMENT ON COLUMN rpq.workload_history.spec IS 'what the executor is to run, json';
COMMENT ON COLUMN rpq.workload_history.created_at IS 'when the row was made';
COMMENT ON COLUMN rpq.workload_history.detail IS 'details of the end, or of the last return to the queue';
COMMENT ON COLUMN rpq.workload_history.lender IS
	'exclusive pool whose idle room it borrows, or borrowed when it ended; NULL: it is on nodes of pool itself';
-- Views of the ledger: what happened to workloads, and what changed usage.

-- Exactly one of the ends of an attempt (preempted, requeued, lost, moved, succeeded, failed, stopped) stands for each.
CREATE VIEW rpq.workload_events WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT e.entry_id AS workload_event_id, e.workload_id, w.name, e.at,
	   CASE e.kind
			WHEN 'enqueue' THEN CASE WHEN e.cause IS NULL THEN 'submitted' ELSE 'requeued' END
			WHEN 'admit' THEN 'admitted'
			WHEN 'start' THEN 'started'
			WHEN 'move' THEN 'moved'
			WHEN 'draft' THEN 'drafted'
			WHEN 'late_report' THEN 'late_report'
			WHEN 'withdraw' THEN CASE e.status WHEN 'draft' THEN 'drafted'
											   WHEN 'failed' THEN 'failed'
											   ELSE 'stopped' END
			WHEN 'release' THEN CASE WHEN e.status IN ('succeeded', 'failed', 'stopped') THEN e.status
									 WHEN e.cause = 'preempted' THEN 'preempted'
									 WHEN e.cause IN ('node_lost', 'pod_lost') THEN 'lost'
									 ELSE 'requeued' END
	   END AS event,
	   -- what ends while it waits ends no attempt: the one before has its own end
	   e.status, CASE WHEN e.kind = 'withdraw' THEN 0 ELSE e.attempt END AS attempt, e.actor, e.cause, e.detail
  FROM rpq_store.workload w
  JOIN rpq_store.entry e ON e.workload_id = w.workload_id
 WHERE e.kind IN ('enqueue', 'admit', 'start', 'move', 'draft', 'late_report', 'withdraw', 'release')
   AND (w.account_id, w.scope_id) >= ((SELECT first_account FROM me), 0)
   AND (w.account_id, w.scope_id) <= ((SELECT last_account FROM me), 9223372036854775807)
   AND (w.account_id = (SELECT account_id FROM me)
		OR w.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR w.scope_id = ANY ((SELECT pools FROM me)::bigint[])
		OR w.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.workload_events IS
	'every change of a workload''s status: of one''s own work, of all in one''s pools for their administrators; '
	'ids are not the order of commits';
COMMENT ON COLUMN rpq.workload_events.workload_event_id IS 'id of the event: of its entry in the ledger';
COMMENT ON COLUMN rpq.workload_events.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.workload_events.name IS 'name of the workload';
COMMENT ON COLUMN rpq.workload_events.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq.workload_events.event IS
	'submitted, admitted, started, preempted, requeued, lost, moved, drafted, succeeded, failed, stopped or '
	'late_report';
COMMENT ON COLUMN rpq.workload_events.status IS 'status of the workload after it';
COMMENT ON COLUMN rpq.workload_events.attempt IS
	'attempt that it belongs to, 0 when it belongs to none; of a late report, the attempt that it named';
COMMENT ON COLUMN rpq.workload_events.actor IS 'account or role that caused it; system: a cycle';
COMMENT ON COLUMN rpq.workload_events.cause IS 'cause, one word';
COMMENT ON COLUMN rpq.workload_events.detail IS 'cause, in a sentence';

CREATE VIEW rpq.ledger WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT e.entry_id AS ledger_id, e.at, e.workload_id, e.attempt, p.name AS pool, a.name AS account, y.name AS policy,
	   i.name AS instance_type, e.kind, e.resources, e.pool_id, e.account_id
  FROM rpq_store.entry e
  JOIN rpq_store.pool p ON p.pool_id = e.pool_id
  LEFT JOIN rpq_store.account a ON a.account_id = e.account_id
  LEFT JOIN rpq_store.policy y ON y.policy_id = e.policy_id
  LEFT JOIN rpq_store.instance_type i ON i.type_id = e.type_id
 WHERE e.resources IS NOT NULL AND e.kind IN ('admit', 'release', 'carry', 'move')
   AND (e.account_id = (SELECT account_id FROM me)
		OR p.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR p.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.ledger IS
	'entries that change usage; their sum by pool is what the pool''s placed workloads hold';
COMMENT ON COLUMN rpq.ledger.ledger_id IS 'id of the entry';
COMMENT ON COLUMN rpq.ledger.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq.ledger.workload_id IS 'id of the workload; of a carry entry, 0';
COMMENT ON COLUMN rpq.ledger.attempt IS 'attempt of the workload';
COMMENT ON COLUMN rpq.ledger.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.ledger.account IS 'account that it is charged to';
COMMENT ON COLUMN rpq.ledger.policy IS 'policy that it is charged to; NULL: a direct submission';
COMMENT ON COLUMN rpq.ledger.instance_type IS 'instance type of the nodes';
COMMENT ON COLUMN rpq.ledger.kind IS
	'admit (adds), release (takes away), move (from one pool or type to another) or carry (the sum of entries '
	'that retention removed)';
COMMENT ON COLUMN rpq.ledger.resources IS 'what it adds to usage, signed';
COMMENT ON COLUMN rpq.ledger.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.ledger.account_id IS 'id of the account';

CREATE VIEW rpq.operations WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT o.operation_id, t.name AS tenant, o.kind, o.pool_id, p.name AS pool, o.arguments, o.status, o.step, o.progress,
	   o.attempts, o.initiator, o.created_at, o.started_at, o.ended_at, o.error, o.error_code, o.result
  FROM rpq_store.operation o
  JOIN rpq_store.tenant t ON t.tenant_id = o.tenant_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = o.pool_id
 WHERE o.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]) OR o.pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.operations IS
	'administrative changes that run asynchronously, for those who administer the pool';
COMMENT ON COLUMN rpq.operations.operation_id IS 'id of the operation';
COMMENT ON COLUMN rpq.operations.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.operations.kind IS
	'create, resize, convert, rename, delete, move, drain, defragment or rotate';
COMMENT ON COLUMN rpq.operations.pool_id IS 'id of the pool that it is about';
COMMENT ON COLUMN rpq.operations.pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.operations.arguments IS 'arguments of the call, json';
COMMENT ON COLUMN rpq.operations.status IS 'pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq.operations.step IS 'step in hand of a staged operation';
COMMENT ON COLUMN rpq.operations.progress IS 'share that is done, 0 to 1';
COMMENT ON COLUMN rpq.operations.attempts IS 'how often it was begun or resumed';
COMMENT ON COLUMN rpq.operations.initiator IS 'who asked for it';
COMMENT ON COLUMN rpq.operations.created_at IS 'when it was asked for';
COMMENT ON COLUMN rpq.operations.started_at IS 'when it was begun; NULL: not yet';
COMMENT ON COLUMN rpq.operations.ended_at IS 'when it ended; NULL: not yet';
COMMENT ON COLUMN rpq.operations.error IS 'message of the error that ended it';
COMMENT ON COLUMN rpq.operations.error_code IS 'SQLSTATE of that error';
COMMENT ON COLUMN rpq.operations.result IS 'result, json, by kind';

CREATE VIEW rpq.operation_history WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT h.history_id AS operation_history_id, t.name AS tenant, h.at, h.recorded_at, h.actor, h.on_behalf_of, h.db_role,
	   h.application_name, h.object_kind, h.object_id, h.object, h.pool_id, h.action, h.operation_id, h.old, h.new
  FROM rpq_store.history h
  LEFT JOIN rpq_store.tenant t ON t.tenant_id = h.tenant_id
 WHERE (SELECT rpq_store.is_platform_admin())
	OR h.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR h.pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.operation_history IS
	'every successful administrative call, a row for each object that it names: all for platform admins, the '
	'tenant''s for organisation admins, the pool''s for pool admins. Filters by pool_id, actor and at use indexes';
COMMENT ON COLUMN rpq.operation_history.operation_history_id IS 'id of the row';
COMMENT ON COLUMN rpq.operation_history.tenant IS 'tenant of the object; NULL: it has none';
COMMENT ON COLUMN rpq.operation_history.at IS 'when, by rpq''s clock';
COMMENT ON COLUMN rpq.operation_history.recorded_at IS 'when, by the true clock';
COMMENT ON COLUMN rpq.operation_history.actor IS 'account whose rights were used, or the role where there is none';
COMMENT ON COLUMN rpq.operation_history.on_behalf_of IS 'that account again when it came through a gateway';
COMMENT ON COLUMN rpq.operation_history.db_role IS 'PostgreSQL role in force';
COMMENT ON COLUMN rpq.operation_history.application_name IS 'application_name of the session';
COMMENT ON COLUMN rpq.operation_history.object_kind IS
	'kind of the object: pool, member, node, account, workload …';
COMMENT ON COLUMN rpq.operation_history.object_id IS 'id of the object';
COMMENT ON COLUMN rpq.operation_history.object IS 'name of the object at that time; of a member, the account''s';
COMMENT ON COLUMN rpq.operation_history.pool_id IS
	'id of the pool concerned, the same through renames and deletion; NULL: none';
COMMENT ON COLUMN rpq.operation_history.action IS 'function called, or UPDATE or DELETE past the functions';
COMMENT ON COLUMN rpq.operation_history.operation_id IS 'operation that carried it out; NULL: it was immediate';
COMMENT ON COLUMN rpq.operation_history.old IS 'values before, of the keys that changed';
COMMENT ON COLUMN rpq.operation_history.new IS 'values after, of the keys that changed';
-- The view of preemptions.

-- Of two workloads a reader may see one: the row says that something happened to it, and nothing of the other.
CREATE VIEW rpq.preemptions WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT x.preemption_id, x.at, CASE WHEN x.sees_preemptor THEN x.preemptor END AS preemptor,
	   CASE WHEN x.sees_victim THEN x.victim END AS victim, x.victim_attempt, x.pool_id, x.pool, x.rule, x.rank,
	   x.gpu_seconds_lost, x.state
  FROM (SELECT p.*, o.name AS pool,
			   coalesce(p.preemptor_account = (SELECT account_id FROM me), false)
				 OR coalesce(o.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]), false)
				 OR coalesce(r.scope_id = ANY ((SELECT pools FROM me)::bigint[]), false)
				 OR coalesce(r.pool_id = ANY ((SELECT pools FROM me)::bigint[]), false) AS sees_preemptor,
			   coalesce(p.victim_account = (SELECT account_id FROM me), false)
				 OR coalesce(o.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]), false)
				 OR coalesce(v.scope_id = ANY ((SELECT pools FROM me)::bigint[]), false)
				 OR coalesce(v.pool_id = ANY ((SELECT pools FROM me)::bigint[]), false) AS sees_victim
		  FROM rpq_store.preemption p
		  JOIN rpq_store.pool o ON o.pool_id = p.pool_id
		  LEFT JOIN rpq_store.workload r ON r.workload_id = p.preemptor
		  LEFT JOIN rpq_store.workload v ON v.workload_id = p.victim) x
 WHERE x.sees_preemptor OR x.sees_victim
	OR (x.preemptor IS NULL AND x.pool_id = ANY ((SELECT pools FROM me)::bigint[]));

COMMENT ON VIEW rpq.preemptions IS
	'victims of preemptions, a row for each: those that one''s own work has made or suffered, all in one''s pools '
	'for their administrators';
COMMENT ON COLUMN rpq.preemptions.preemption_id IS 'id of the row';
COMMENT ON COLUMN rpq.preemptions.at IS 'when it was decided';
COMMENT ON COLUMN rpq.preemptions.preemptor IS
	'id of the workload that took the room; NULL: of one that the reader may not see, or of none (rule borrowed: the '
	'pool no longer lends, or the node was to be emptied)';
COMMENT ON COLUMN rpq.preemptions.victim IS
	'id of the workload that gave it; NULL: of one that the reader may not see';
COMMENT ON COLUMN rpq.preemptions.victim_attempt IS 'attempt of the victim that it ends';
COMMENT ON COLUMN rpq.preemptions.pool_id IS 'id of the pool that has the nodes';
COMMENT ON COLUMN rpq.preemptions.pool IS 'name of that pool';
COMMENT ON COLUMN rpq.preemptions.rule IS 'borrowed, reservation or priority';
COMMENT ON COLUMN rpq.preemptions.rank IS 'place among the victims of one decision, from 1';
COMMENT ON COLUMN rpq.preemptions.gpu_seconds_lost IS
	'gpu times seconds since the attempt began, or since its last checkpoint; of pools without gpu 0';
COMMENT ON COLUMN rpq.preemptions.state IS
	'pending (the victim has still to stop), stopped, or given_up (the room was no longer wanted, the victim goes on)';
-- Views of migrations: nodes that changed pools or were drained, and pods that changed nodes.

CREATE VIEW rpq.migrations WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT g.migration_id, g.operation_id, t.name AS tenant, o.status, g.direction, g.mode, g.from_pool_id,
	   f.name AS from_pool, g.to_pool_id, p.name AS to_pool, i.name AS instance_type, g.nodes, g.evicted, o.initiator,
	   o.started_at, o.ended_at, o.error
  FROM rpq_store.migration g
  JOIN rpq_store.operation o ON o.operation_id = g.operation_id
  JOIN rpq_store.tenant t ON t.tenant_id = g.tenant_id
  LEFT JOIN rpq_store.pool f ON f.pool_id = g.from_pool_id
  LEFT JOIN rpq_store.pool p ON p.pool_id = g.to_pool_id
  LEFT JOIN rpq_store.instance_type i ON i.type_id = g.type_id
 WHERE g.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR g.from_pool_id = ANY ((SELECT pools FROM me)::bigint[])
	OR g.to_pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.migrations IS
	'moves of nodes between pools, and drains, for those who administer one of the pools; a resize leaves none';
COMMENT ON COLUMN rpq.migrations.migration_id IS 'id of the migration';
COMMENT ON COLUMN rpq.migrations.operation_id IS 'id of the operation';
COMMENT ON COLUMN rpq.migrations.tenant IS 'tenant of the pools';
COMMENT ON COLUMN rpq.migrations.status IS 'of the operation: pending, running, succeeded, failed or cancelled';
COMMENT ON COLUMN rpq.migrations.direction IS 'out when a shared pool is the target, else in';
COMMENT ON COLUMN rpq.migrations.mode IS 'quantity or nodes: how it was asked for';
COMMENT ON COLUMN rpq.migrations.from_pool_id IS 'id of the pool that the nodes leave; of a drain, the node''s pool';
COMMENT ON COLUMN rpq.migrations.from_pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.migrations.to_pool_id IS 'id of the pool that they come to; NULL: a drain';
COMMENT ON COLUMN rpq.migrations.to_pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.migrations.instance_type IS 'instance type of the nodes; NULL: several';
COMMENT ON COLUMN rpq.migrations.nodes IS 'names of the nodes';
COMMENT ON COLUMN rpq.migrations.evicted IS 'ids of the workloads whose pods were moved for it';
COMMENT ON COLUMN rpq.migrations.initiator IS 'who asked for it';
COMMENT ON COLUMN rpq.migrations.started_at IS 'when it was begun; NULL: not yet';
COMMENT ON COLUMN rpq.migrations.ended_at IS 'when it ended; NULL: not yet';
COMMENT ON COLUMN rpq.migrations.error IS 'message of the error that ended it';

CREATE VIEW rpq.pod_migrations WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT m.pod_migration_id, m.operation_id, m.round, m.pool_id, p.name AS pool, m.workload_id, m.replica, m.resources,
	   m.from_node, m.to_node, m.status, m.reason, m.planned_at, m.reserved_at, m.evicted_at, m.ended_at, o.initiator
  FROM rpq_store.pod_migration m
  JOIN rpq_store.operation o ON o.operation_id = m.operation_id
  JOIN rpq_store.pool p ON p.pool_id = m.pool_id
 WHERE p.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]) OR m.pool_id = ANY ((SELECT pools FROM me)::bigint[]);

COMMENT ON VIEW rpq.pod_migrations IS
	'planned moves of pods from node to node, and what became of them, for those who administer the pool';
COMMENT ON COLUMN rpq.pod_migrations.pod_migration_id IS 'id of the move';
COMMENT ON COLUMN rpq.pod_migrations.operation_id IS 'id of the operation that moves it';
COMMENT ON COLUMN rpq.pod_migrations.round IS 'round of the operation, from 1';
COMMENT ON COLUMN rpq.pod_migrations.pool_id IS 'id of the pool of both nodes';
COMMENT ON COLUMN rpq.pod_migrations.pool IS 'present name of that pool';
COMMENT ON COLUMN rpq.pod_migrations.workload_id IS 'id of the workload';
COMMENT ON COLUMN rpq.pod_migrations.replica IS 'which of its pods, from 0';
COMMENT ON COLUMN rpq.pod_migrations.resources IS 'what the pod holds';
COMMENT ON COLUMN rpq.pod_migrations.from_node IS 'name of the node that it leaves';
COMMENT ON COLUMN rpq.pod_migrations.to_node IS 'name of the node that it goes to';
COMMENT ON COLUMN rpq.pod_migrations.status IS 'planned, reserved, evicting, done, skipped or failed';
COMMENT ON COLUMN rpq.pod_migrations.reason IS
	'why it was skipped or failed: target_short, quota, pod_changed, node_unhealthy, timeout or cancelled';
COMMENT ON COLUMN rpq.pod_migrations.planned_at IS 'when it was planned';
COMMENT ON COLUMN rpq.pod_migrations.reserved_at IS 'when room was reserved on the target';
COMMENT ON COLUMN rpq.pod_migrations.evicted_at IS 'when the pod was told to stop, or left its node';
COMMENT ON COLUMN rpq.pod_migrations.ended_at IS 'when it was done, skipped or failed';
COMMENT ON COLUMN rpq.pod_migrations.initiator IS 'who asked for the operation';
-- Views of who and what there is.  Clusters and instance types have no tenant: every account sees them, as it needs
-- their names to submit.  Of accounts and groups, administrators see their tenants', others themselves.

CREATE VIEW rpq.tenants WITH (security_barrier) AS
SELECT t.tenant_id, t.name, t.description, t.created_at
  FROM rpq_store.tenant t
 WHERE t.tenant_id = ANY ((SELECT rpq_store.seen_tenants())::bigint[]);
COMMENT ON VIEW rpq.tenants IS 'tenants: all for platform admins, one''s own for others';
COMMENT ON COLUMN rpq.tenants.tenant_id IS 'id of the tenant';
COMMENT ON COLUMN rpq.tenants.name IS 'name of the tenant';
COMMENT ON COLUMN rpq.tenants.description IS 'free text';
COMMENT ON COLUMN rpq.tenants.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.accounts WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT a.account_id, t.name AS tenant, a.name, a.db_role, a.org_admin, a.gateway, a.executor, a.driver,
	   ARRAY(SELECT g.name FROM rpq_store.group_account x JOIN rpq_store.user_group g ON g.group_id = x.group_id
			  WHERE x.account_id = a.account_id ORDER BY g.name) AS user_groups,
	   a.created_at
  FROM rpq_store.account a
  JOIN rpq_store.tenant t ON t.tenant_id = a.tenant_id
 WHERE a.deleted_at IS NULL
   AND (a.account_id = (SELECT account_id FROM me) OR a.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]));
COMMENT ON VIEW rpq.accounts IS 'accounts: the tenant''s for its administrators, one''s own for others';
COMMENT ON COLUMN rpq.accounts.account_id IS 'id of the account';
COMMENT ON COLUMN rpq.accounts.tenant IS 'tenant of the account';
COMMENT ON COLUMN rpq.accounts.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.accounts.db_role IS
	'PostgreSQL role that is this account; NULL: it is reached through a gateway alone';
COMMENT ON COLUMN rpq.accounts.org_admin IS 'administers its tenant';
COMMENT ON COLUMN rpq.accounts.gateway IS 'may act for other accounts of its tenant (rpq.account)';
COMMENT ON COLUMN rpq.accounts.executor IS 'may sync nodes, claim pods, requeue and report for its tenant';
COMMENT ON COLUMN rpq.accounts.driver IS 'may claim and report scaling requests';
COMMENT ON COLUMN rpq.accounts.user_groups IS 'user groups that it is in, by name';
COMMENT ON COLUMN rpq.accounts.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.user_groups WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT g.group_id AS user_group_id, t.name AS tenant, g.name,
	   ARRAY(SELECT a.name FROM rpq_store.group_account x JOIN rpq_store.account a ON a.account_id = x.account_id
			  WHERE x.group_id = g.group_id
				AND (a.account_id = (SELECT account_id FROM me)
					 OR a.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]))
			  ORDER BY a.name) AS accounts,
	   g.created_at
  FROM rpq_store.user_group g
  JOIN rpq_store.tenant t ON t.tenant_id = g.tenant_id
 WHERE g.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR g.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
					   WHERE x.account_id = (SELECT account_id FROM me));
COMMENT ON VIEW rpq.user_groups IS
	'user groups: the tenant''s for its administrators, for others those that they are in';
COMMENT ON COLUMN rpq.user_groups.user_group_id IS 'id of the group';
COMMENT ON COLUMN rpq.user_groups.tenant IS 'tenant of the group';
COMMENT ON COLUMN rpq.user_groups.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.user_groups.accounts IS
	'accounts in it, by name; those who do not administer the tenant see themselves alone';
COMMENT ON COLUMN rpq.user_groups.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.project_groups WITH (security_barrier) AS
SELECT g.project_group_id, t.name AS tenant, g.name, g.created_at
  FROM rpq_store.project_group g
  JOIN rpq_store.tenant t ON t.tenant_id = g.tenant_id
 WHERE g.tenant_id = ANY ((SELECT rpq_store.seen_tenants())::bigint[]);
COMMENT ON VIEW rpq.project_groups IS 'labels under which the tenant''s pools are grouped';
COMMENT ON COLUMN rpq.project_groups.project_group_id IS 'id of the project group';
COMMENT ON COLUMN rpq.project_groups.tenant IS 'its tenant';
COMMENT ON COLUMN rpq.project_groups.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.project_groups.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.workload_types WITH (security_barrier) AS
SELECT w.workload_type_id, t.name AS tenant, w.name, w.created_at
  FROM rpq_store.workload_type w
  JOIN rpq_store.tenant t ON t.tenant_id = w.tenant_id
 WHERE w.tenant_id = ANY ((SELECT rpq_store.seen_tenants())::bigint[]);
COMMENT ON VIEW rpq.workload_types IS 'workload types that the tenant has defined';
COMMENT ON COLUMN rpq.workload_types.workload_type_id IS 'id of the workload type';
COMMENT ON COLUMN rpq.workload_types.tenant IS 'its tenant';
COMMENT ON COLUMN rpq.workload_types.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.workload_types.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.instance_types WITH (security_barrier) AS
SELECT i.type_id AS instance_type_id, NULL::text AS tenant, i.name, i.kind, i.capacity, i.machine_unit, i.created_at
  FROM rpq_store.instance_type i
 WHERE (SELECT rpq_store.is_known());
COMMENT ON VIEW rpq.instance_types IS 'machine specifications';
COMMENT ON COLUMN rpq.instance_types.instance_type_id IS 'id of the instance type';
COMMENT ON COLUMN rpq.instance_types.tenant IS 'always NULL: instance types belong to no tenant';
COMMENT ON COLUMN rpq.instance_types.name IS 'name of the instance type';
COMMENT ON COLUMN rpq.instance_types.kind IS 'gpu or cpu';
COMMENT ON COLUMN rpq.instance_types.capacity IS 'what a machine of it has';
COMMENT ON COLUMN rpq.instance_types.machine_unit IS 'the whole-machine amount of the primary resource';
COMMENT ON COLUMN rpq.instance_types.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.clusters WITH (security_barrier) AS
SELECT c.cluster_id, NULL::text AS tenant, c.name, c.region, c.created_at
  FROM rpq_store.cluster c
 WHERE (SELECT rpq_store.is_known());
COMMENT ON VIEW rpq.clusters IS 'clusters, in which nodes stand';
COMMENT ON COLUMN rpq.clusters.cluster_id IS 'id of the cluster';
COMMENT ON COLUMN rpq.clusters.tenant IS 'always NULL: clusters belong to no tenant';
COMMENT ON COLUMN rpq.clusters.name IS 'name of the cluster';
COMMENT ON COLUMN rpq.clusters.region IS 'its region';
COMMENT ON COLUMN rpq.clusters.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.pool_admins WITH (security_barrier) AS
SELECT d.pool_id, t.name AS tenant, p.name AS pool, d.account_id, a.name AS account
  FROM rpq_store.pool_admin d
  JOIN rpq_store.pool p ON p.pool_id = d.pool_id
  JOIN rpq_store.tenant t ON t.tenant_id = p.tenant_id
  JOIN rpq_store.account a ON a.account_id = d.account_id
 WHERE p.status <> 'deleted'
   AND (d.account_id = (SELECT rpq_store.my_account())
		OR d.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[]));
COMMENT ON VIEW rpq.pool_admins IS 'resource administrators of pools, for those who administer the pool';
COMMENT ON COLUMN rpq.pool_admins.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.pool_admins.tenant IS 'tenant of the pool';
COMMENT ON COLUMN rpq.pool_admins.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.pool_admins.account_id IS 'id of the account that administers it';
COMMENT ON COLUMN rpq.pool_admins.account IS 'name of that account';
-- Views of policies, profiles and queues.  Administrators see their tenants'; others what their groups are given.

CREATE FUNCTION rpq_store.unmet_part(reservation rpq.resources, used rpq.resources) RETURNS rpq.resources
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_object_agg(a.key, CASE WHEN a.value LIKE '-%' THEN '0' ELSE a.value END), '{}')::rpq.resources
	FROM jsonb_each_text(($1 OPERATOR(rpq.-) $2)::jsonb) AS a WHERE $1::jsonb ? a.key
$$;
COMMENT ON FUNCTION rpq_store.unmet_part(rpq.resources, rpq.resources) IS
	'what is not used of a reservation, by its keys, never below zero';

CREATE VIEW rpq.policies WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT y.policy_id, t.name AS tenant, y.name, y.description, g.name AS user_group,
	   ARRAY(SELECT a.name FROM rpq_store.group_account x JOIN rpq_store.account a ON a.account_id = x.account_id
			  WHERE x.group_id = y.group_id
				AND (a.account_id = (SELECT account_id FROM me)
					 OR y.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]))
			  ORDER BY a.name) AS users,
	   y.reservation, y.usage_limit, y.lending,
	   coalesce(u.used, '') AS used,
	   rpq_store.unmet_part(y.reservation, coalesce(u.used, '')) AS unmet_reservation,
	   CASE WHEN EXISTS (SELECT FROM rpq_store.queue q WHERE q.policy_id = y.policy_id AND q.deleted_at IS NULL)
			THEN y.policy_id <> ALL ((SELECT rpq_store.unmet_policies())::bigint[]) END AS reservation_met,
	   ARRAY(SELECT q.name FROM rpq_store.queue q WHERE q.policy_id = y.policy_id AND q.deleted_at IS NULL
			  ORDER BY q.name) AS queues,
	   y.created_at
  FROM rpq_store.policy y
  JOIN rpq_store.tenant t ON t.tenant_id = y.tenant_id
  JOIN rpq_store.user_group g ON g.group_id = y.group_id
  LEFT JOIN (SELECT policy_id, rpq.sum(amount) AS used FROM rpq_store.usage_now
			  WHERE policy_id <> 0 GROUP BY policy_id) u
	ON u.policy_id = y.policy_id
 WHERE y.deleted_at IS NULL
   AND (y.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR y.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
						   WHERE x.account_id = (SELECT account_id FROM me)));
COMMENT ON VIEW rpq.policies IS 'policies: the tenant''s for its administrators, for others those of their groups';
COMMENT ON COLUMN rpq.policies.policy_id IS 'id of the policy';
COMMENT ON COLUMN rpq.policies.tenant IS 'tenant of the policy';
COMMENT ON COLUMN rpq.policies.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.policies.description IS 'free text';
COMMENT ON COLUMN rpq.policies.user_group IS 'group that it is for';
COMMENT ON COLUMN rpq.policies.users IS
	'accounts of the group, by name; those who do not administer the tenant see themselves alone';
COMMENT ON COLUMN rpq.policies.reservation IS 'what is kept available for the group';
COMMENT ON COLUMN rpq.policies.usage_limit IS 'the most that its queues may hold at once; NULL: no limit';
COMMENT ON COLUMN rpq.policies.lending IS 'lend or hold: whether others may use the unmet part of the reservation';
COMMENT ON COLUMN rpq.policies.used IS 'what workloads charged to it hold';
COMMENT ON COLUMN rpq.policies.unmet_reservation IS 'reservation - used, by key, never below zero';
COMMENT ON COLUMN rpq.policies.reservation_met IS
	'what works in the pools that its profiles reach can serve it beside the others: false for each of a set of '
	'policies that exceed what they reach; NULL: no profile is connected';
COMMENT ON COLUMN rpq.policies.queues IS 'its queues, by name';
COMMENT ON COLUMN rpq.policies.created_at IS 'when it was created, by the true clock';

-- What a queue holds and how much waits in it; private to the views below.
CREATE VIEW rpq_store.queue_now AS
SELECT q.queue_id, q.policy_id, q.profile_id, q.tenant_id, q.name, y.name AS policy, y.group_id, f.name AS profile,
	   f.provisioned AS resources, coalesce(w.waiting, 0) AS queued, coalesce(r.running, 0) AS running
  FROM rpq_store.queue q
  JOIN rpq_store.policy y ON y.policy_id = q.policy_id
  JOIN rpq_store.profile f ON f.profile_id = q.profile_id
  LEFT JOIN rpq_store.waiting_now w ON w.scope_id = q.queue_id
  LEFT JOIN (SELECT x.scope_id, count(*) AS running FROM rpq_store.workload x
			  WHERE x.policy_id IS NOT NULL AND x.status IN ('starting', 'running')	-- an index of its own
			  GROUP BY x.scope_id) r ON r.scope_id = q.queue_id
 WHERE q.deleted_at IS NULL;
COMMENT ON VIEW rpq_store.queue_now IS 'queues with their names and figures, without filter';

CREATE VIEW rpq.policy_profiles WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT q.queue_id AS policy_profile_id, q.policy, q.profile, q.name AS queue, q.resources, q.queued, q.running,
	   CASE WHEN q.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
			THEN ARRAY(SELECT p.name FROM rpq_store.profile_pool l JOIN rpq_store.pool p ON p.pool_id = l.pool_id
						 AND p.status <> 'deleted'
						WHERE l.profile_id = q.profile_id AND l.state = 'provisioned' ORDER BY l.rank) END AS pools
  FROM rpq_store.queue_now q
 WHERE q.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR q.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
					   WHERE x.account_id = (SELECT account_id FROM me));
COMMENT ON VIEW rpq.policy_profiles IS 'cards of policies: each profile that is connected to one';
COMMENT ON COLUMN rpq.policy_profiles.policy_profile_id IS 'id of the connection: of its queue';
COMMENT ON COLUMN rpq.policy_profiles.policy IS 'name of the policy';
COMMENT ON COLUMN rpq.policy_profiles.profile IS 'name of the profile';
COMMENT ON COLUMN rpq.policy_profiles.queue IS 'name of the queue';
COMMENT ON COLUMN rpq.policy_profiles.resources IS 'what each replica of a workload of the queue takes';
COMMENT ON COLUMN rpq.policy_profiles.queued IS 'workloads that wait in the queue';
COMMENT ON COLUMN rpq.policy_profiles.running IS 'workloads from it that are placed: starting and running';
COMMENT ON COLUMN rpq.policy_profiles.pools IS
	'pools in routing order; NULL for those who do not administer the tenant';

CREATE VIEW rpq.profiles WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT f.profile_id, t.name AS tenant, f.name, f.saved AS resources,
	   ARRAY(SELECT p.name FROM rpq_store.profile_pool l JOIN rpq_store.pool p ON p.pool_id = l.pool_id
			  WHERE l.profile_id = f.profile_id AND l.state = 'saved' AND p.status <> 'deleted'
			  ORDER BY l.rank) AS pools,
	   coalesce(f.provisioned OPERATOR(rpq.=) f.saved, false)
	   AND rpq_store.profile_pools(f.profile_id, 'saved') = rpq_store.profile_pools(f.profile_id, 'provisioned')
		   AS provisioned,
	   f.created_at
  FROM rpq_store.profile f
  JOIN rpq_store.tenant t ON t.tenant_id = f.tenant_id
 WHERE f.deleted_at IS NULL AND f.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]);
COMMENT ON VIEW rpq.profiles IS
	'profiles as they are saved, for administrators of the tenant; others see the sizes of their queues in '
	'rpq.queues';
COMMENT ON COLUMN rpq.profiles.profile_id IS 'id of the profile';
COMMENT ON COLUMN rpq.profiles.tenant IS 'tenant of the profile';
COMMENT ON COLUMN rpq.profiles.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.profiles.resources IS 'job size as saved';
COMMENT ON COLUMN rpq.profiles.pools IS 'pools in routing order as saved';
COMMENT ON COLUMN rpq.profiles.provisioned IS 'the saved state is in force';
COMMENT ON COLUMN rpq.profiles.created_at IS 'when it was created, by the true clock';

CREATE VIEW rpq.queues WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT q.queue_id, t.name AS tenant, q.name, q.policy, q.profile, q.resources, q.queued, q.running
  FROM rpq_store.queue_now q
  JOIN rpq_store.tenant t ON t.tenant_id = q.tenant_id
 WHERE q.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR q.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
					   WHERE x.account_id = (SELECT account_id FROM me));
COMMENT ON VIEW rpq.queues IS 'queues that one may use; the tenant''s for its administrators';
COMMENT ON COLUMN rpq.queues.queue_id IS 'id of the queue';
COMMENT ON COLUMN rpq.queues.tenant IS 'tenant of the queue';
COMMENT ON COLUMN rpq.queues.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.queues.policy IS 'policy that its work is charged to';
COMMENT ON COLUMN rpq.queues.profile IS 'profile that sets the size of its work';
COMMENT ON COLUMN rpq.queues.resources IS 'what each replica of a workload of the queue takes';
COMMENT ON COLUMN rpq.queues.queued IS 'workloads that wait in it';
COMMENT ON COLUMN rpq.queues.running IS 'workloads from it that are placed: starting and running';
-- Pictures of nodes, for psql and for a browser.  They read the views' figures; work that the caller may not see has no
-- letter in them.

CREATE FUNCTION rpq.node_map(pool text)
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

CREATE FUNCTION rpq.node_map_svg(pool text) RETURNS text
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

CREATE FUNCTION rpq_store.xml_text(value text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT replace(replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'),
				   '''', '&#39;');
END;
COMMENT ON FUNCTION rpq_store.xml_text(text) IS 'text as it may stand in XML, in elements and attributes';
-- The views that applications may write.  The triggers run with the writer's own rights and call the public functions:
-- what these check, lock and record is theirs.  A trigger's arguments are the columns that may be written; any other
-- that is given (INSERT) or changed (UPDATE) is a fact, and refused.  Each returns the row as it now is.

CREATE FUNCTION rpq_store.workloads_insert() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	facts text;
	id bigint;
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value <> 'null' AND (n.key <> ALL (TG_ARGV) OR (n.key = 'status' AND n.value <> '"draft"'));
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.workloads that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s; of status, draft alone.', array_to_string(TG_ARGV, ', '));
	END IF;
	id := rpq.submit(pool => NEW.pool, queue => NEW.queue, workload_type => NEW.workload_type,
		resources => NEW.resources, instance_types => NEW.instance_types, name => NEW.name, replicas => NEW.replicas,
		priority => NEW.priority,
		guarantee => NEW.guarantee, max_runtime => NEW.max_runtime, checkpointable => NEW.checkpointable,
		on_node_loss => NEW.on_node_loss, request_id => NEW.request_id, labels => NEW.labels, spec => NEW.spec,
		draft => NEW.status IS NOT NULL, account => NEW.account);
	SELECT w.* INTO NEW FROM rpq.workloads w WHERE w.workload_id = id;
	IF NOT FOUND THEN		-- a request_id that was given before, whose workload has ended
		SELECT w.* INTO NEW FROM rpq.workload_history w WHERE w.workload_id = id;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.workloads_insert() IS 'INSERT INTO rpq.workloads: rpq.submit with the columns given';

CREATE FUNCTION rpq_store.workloads_update() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	facts text;
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> ALL (TG_ARGV);
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.workloads that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s.', array_to_string(TG_ARGV, ', '));
	END IF;
	IF NEW.name IS NULL AND OLD.name IS NOT NULL OR NEW.priority IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'name and priority of a workload cannot be set back to none';
	END IF;
	IF NEW.status IS DISTINCT FROM OLD.status AND NEW.status IS DISTINCT FROM 'stopped' THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'the status of a workload can be set to stopped alone',
			DETAIL = format('It is %s, not %s.', OLD.status, coalesce(NEW.status, 'NULL')),
			HINT = 'Drafts are queued by rpq.enqueue; everything else follows from the scheduler and from reports.';
	END IF;
	IF ROW(NEW.priority, NEW.name, NEW.labels) IS DISTINCT FROM ROW(OLD.priority, OLD.name, OLD.labels) THEN
		PERFORM rpq.edit_workload(OLD.workload_id,
			priority => CASE WHEN NEW.priority <> OLD.priority THEN NEW.priority END,
			name => CASE WHEN NEW.name IS DISTINCT FROM OLD.name THEN NEW.name END,
			labels => CASE WHEN NEW.labels IS DISTINCT FROM OLD.labels THEN coalesce(NEW.labels, '{}') END);
	END IF;
	IF NEW.status <> OLD.status THEN
		PERFORM rpq.stop(OLD.workload_id);
	END IF;
	SELECT w.* INTO NEW FROM rpq.workloads w WHERE w.workload_id = OLD.workload_id;
	IF NOT FOUND THEN
		SELECT w.* INTO NEW FROM rpq.workload_history w WHERE w.workload_id = OLD.workload_id;
		IF NOT FOUND THEN	-- a draft that was never submitted is in neither once it is stopped
			NEW := OLD;
			NEW.status := 'stopped';
		END IF;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.workloads_update() IS
	'UPDATE of rpq.workloads: rpq.edit_workload with what differs, and rpq.stop for status = stopped';

CREATE FUNCTION rpq_store.pools_update() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET rpq.synchronous_operations = on
AS $$
DECLARE
	facts text;
	quota jsonb;
	changed boolean := false;
	now_row jsonb := to_jsonb(NEW);
	old_row jsonb := to_jsonb(OLD);
	cleared text[];
	e rpq.pools;		-- what differs; the rest is NULL, which stays as it is
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> ALL (TG_ARGV);
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.pools that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s.', array_to_string(TG_ARGV, ', '));
	END IF;
	IF now_row -> 'total' IS DISTINCT FROM old_row -> 'total' THEN
		IF NEW.total IS NULL THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'total must be given';
		END IF;
		-- what it holds of other resources may stand beside the one in which machines are counted
		SELECT jsonb_object_agg(n.key, n.value) INTO quota
		  FROM jsonb_each(CAST(NEW.total AS jsonb)) n
		 WHERE n.value IS DISTINCT FROM CAST(OLD.total AS jsonb) -> n.key;
		IF quota IS NOT NULL THEN
			PERFORM rpq.resize_pool(OLD.tenant || '/' || OLD.name, quota => CAST(quota AS rpq.resources));
		END IF;
		now_row := now_row || jsonb_build_object('total', old_row -> 'total');
		changed := true;
	END IF;
	IF now_row <> old_row THEN
		SELECT array_agg(n.key) INTO cleared
		  FROM jsonb_each(now_row) n WHERE n.value = 'null' AND old_row -> n.key <> 'null';
		e.description := CASE WHEN NEW.description IS DISTINCT FROM OLD.description THEN NEW.description END;
		e.workload_types := CASE WHEN NEW.workload_types IS DISTINCT FROM OLD.workload_types
								 THEN NEW.workload_types END;
		e.user_default_quota := CASE WHEN now_row -> 'user_default_quota' <> old_row -> 'user_default_quota'
									 THEN NEW.user_default_quota END;
		e.project_group := CASE WHEN NEW.project_group IS DISTINCT FROM OLD.project_group THEN NEW.project_group END;
		PERFORM rpq.edit_pool(OLD.tenant || '/' || OLD.name, description => e.description,
			workload_types => e.workload_types, user_default_quota => e.user_default_quota,
			project_group => e.project_group,
			scheduling_policy => nullif(NEW.scheduling_policy, OLD.scheduling_policy),
			queueing => nullif(NEW.queueing, OLD.queueing),
			default_priority => nullif(NEW.default_priority, OLD.default_priority),
			allow_guarantee => nullif(NEW.allow_guarantee, OLD.allow_guarantee),
			frozen => nullif(NEW.frozen, OLD.frozen),
			faulty_node_rotation => nullif(NEW.faulty_node_rotation, OLD.faulty_node_rotation),
			idle_time_sharing => nullif(NEW.idle_time_sharing, OLD.idle_time_sharing),
			min_runtime => nullif(NEW.min_runtime, OLD.min_runtime), open => nullif(NEW.open, OLD.open),
			isolate_accounts => nullif(NEW.isolate_accounts, OLD.isolate_accounts), clear => cleared);
		changed := true;
	END IF;
	IF changed THEN
		SELECT p.* INTO NEW FROM rpq.pools p WHERE p.pool_id = OLD.pool_id;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.pools_update() IS
	'UPDATE of rpq.pools: rpq.resize_pool, at once, for the total, and rpq.edit_pool with what else differs; what '
	'becomes NULL is cleared';

CREATE FUNCTION rpq_store.members_update() RETURNS trigger
	LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	facts text;
	quota_differs boolean := to_jsonb(NEW) -> 'quota' IS DISTINCT FROM to_jsonb(OLD) -> 'quota';
BEGIN
	SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO facts
	  FROM jsonb_each(to_jsonb(NEW)) n
	 WHERE n.value IS DISTINCT FROM to_jsonb(OLD) -> n.key AND n.key <> ALL (TG_ARGV);
	IF facts IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE = 'columns of rpq.members that are facts cannot be written',
			DETAIL = format('Columns: %s.', facts),
			HINT = format('What can be written: %s.', array_to_string(TG_ARGV, ', '));
	END IF;
	IF NEW.max_priority IS NULL OR NEW.guarantee IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'max_priority and guarantee of a member must be given';
	END IF;
	IF NEW IS DISTINCT FROM OLD OR quota_differs THEN
		PERFORM rpq.update_members(OLD.tenant || '/' || OLD.pool, ARRAY[OLD.account],
			quota => CASE WHEN quota_differs THEN NEW.quota END,
			instance_type => CASE WHEN quota_differs THEN OLD.instance_type END,
			max_priority => nullif(NEW.max_priority, OLD.max_priority),
			guarantee => nullif(NEW.guarantee, OLD.guarantee),
			config_mode => CASE WHEN quota_differs AND NEW.quota IS NULL THEN 'default' END);
		SELECT m.* INTO NEW FROM rpq.members m
		 WHERE m.pool_id = OLD.pool_id AND m.account_id = OLD.account_id
		   AND m.instance_type IS NOT DISTINCT FROM OLD.instance_type;
		IF NOT FOUND THEN	-- a quota for one instance type that went back to the default, where there is none
			NEW := OLD;
			NEW.quota := '';
			NEW.config_mode := 'default';
		END IF;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION rpq_store.members_update() IS
	'UPDATE of rpq.members: rpq.update_members with what differs; quota NULL goes back to the default';

-- Granted by column list: a right on a whole view would let its holder lock the tables behind it.

CREATE TRIGGER submit INSTEAD OF INSERT ON rpq.workloads FOR EACH ROW
	EXECUTE FUNCTION rpq_store.workloads_insert(
		'pool', 'queue', 'workload_type', 'resources', 'instance_types', 'name', 'replicas', 'priority',
		'guarantee', 'max_runtime', 'checkpointable', 'on_node_loss', 'request_id', 'labels', 'spec',
		'account', 'status');
COMMENT ON TRIGGER submit ON rpq.workloads IS 'submits';
GRANT INSERT (pool, queue, workload_type, resources, instance_types, name, replicas, priority, guarantee,
	max_runtime, checkpointable, on_node_loss, request_id, labels, spec, account, status) ON rpq.workloads TO PUBLIC;

CREATE TRIGGER edit INSTEAD OF UPDATE ON rpq.workloads FOR EACH ROW
	EXECUTE FUNCTION rpq_store.workloads_update(
		'status', 'priority', 'name', 'labels');
COMMENT ON TRIGGER edit ON rpq.workloads IS 'edits and stops';
GRANT UPDATE (status, priority, name, labels) ON rpq.workloads TO PUBLIC;

CREATE TRIGGER edit INSTEAD OF UPDATE ON rpq.pools FOR EACH ROW
	EXECUTE FUNCTION rpq_store.pools_update(
		'description', 'workload_types', 'scheduling_policy', 'queueing', 'default_priority',
		'user_default_quota', 'project_group', 'allow_guarantee', 'frozen', 'faulty_node_rotation',
		'idle_time_sharing', 'min_runtime', 'open', 'isolate_accounts', 'total');
COMMENT ON TRIGGER edit ON rpq.pools IS 'edits the settings, resizes';
GRANT UPDATE (description, workload_types, scheduling_policy, queueing, default_priority, user_default_quota,
	project_group, allow_guarantee, frozen, faulty_node_rotation, idle_time_sharing, min_runtime, open,
	isolate_accounts, total) ON rpq.pools TO PUBLIC;

CREATE TRIGGER edit INSTEAD OF UPDATE ON rpq.members FOR EACH ROW
	EXECUTE FUNCTION rpq_store.members_update(
		'quota', 'max_priority', 'guarantee');
COMMENT ON TRIGGER edit ON rpq.members IS 'edits the settings';
GRANT UPDATE (quota, max_priority, guarantee) ON rpq.members TO PUBLIC;
-- Comments of the columns of the private views: those of the columns of the same name that they are made of, and a few
-- of their own.

DO $$
DECLARE
	c record;
BEGIN
	FOR c IN
		SELECT DISTINCT ON (v.attrelid, v.attnum) v.attrelid::pg_catalog.regclass AS view_name, v.attname,
			   pg_catalog.col_description(s.attrelid, s.attnum) AS description
		  FROM (VALUES ('uncounted', 1, 'rpq_store.entry'), ('released_pod', 1, 'rpq.pods'),
					   ('usage_now', 1, 'rpq_store.usage'), ('waiting_now', 1, 'rpq_store.lane'),
					   ('oldest_now', 1, 'rpq_store.entry'), ('node_now', 1, 'rpq.nodes'),
					   ('node_now', 2, 'rpq_store.node'), ('unavailable_now', 1, 'rpq_store.node'),
					   ('pool_now', 1, 'rpq.pools'), ('pool_now', 2, 'rpq.overview'), ('pool_now', 3, 'rpq_store.pool'),
					   ('member_row', 1, 'rpq.members'), ('member_row', 2, 'rpq_store.member_quota'),
					   ('workload_shown', 1, 'rpq.workload_history'), ('workload_shown', 2, 'rpq_store.workload'),
					   ('queue_now', 1, 'rpq.queues'), ('queue_now', 2, 'rpq_store.queue'))
			   AS x (view_name, place, source)
		  JOIN pg_catalog.pg_attribute v
			ON v.attrelid = ('rpq_store.' || x.view_name)::pg_catalog.regclass AND v.attnum > 0
		  JOIN pg_catalog.pg_attribute s
			ON s.attrelid = x.source::pg_catalog.regclass AND s.attnum > 0 AND s.attname = v.attname
		 ORDER BY v.attrelid, v.attnum, x.place
	LOOP
		EXECUTE pg_catalog.format('COMMENT ON COLUMN %s.%I IS %L', c.view_name, c.attname, c.description);
	END LOOP;
END
$$;

COMMENT ON COLUMN rpq_store.unavailable_now.amount IS 'what is free on one node and cannot be had';
COMMENT ON COLUMN rpq_store.node_now.takes_work IS 'healthy, schedulable and not draining';
COMMENT ON COLUMN rpq_store.node_now.held IS 'what holds on the node take of the room that no pod has';
COMMENT ON COLUMN rpq_store.preempting_now.workload_id IS 'the preemptor';
COMMENT ON COLUMN rpq_store.preempting_now.reason IS 'where room is held, and how many victims have still to stop';
COMMENT ON COLUMN rpq_store.hold_room.node_id IS 'node';
COMMENT ON COLUMN rpq_store.hold_room.resources IS 'what a hold takes of it, or the holds of a preemptor do';
COMMENT ON COLUMN rpq_store.hold_room.holds IS 'how many holds that are';
COMMENT ON COLUMN rpq_store.node_now.lent IS 'of used, what borrows there by idle-time sharing';
COMMENT ON COLUMN rpq_store.node_now.holds IS 'number of holds on the node';
COMMENT ON COLUMN rpq_store.member_row.own_quota IS 'quota of the member''s own; NULL: none';
COMMENT ON COLUMN rpq_store.member_row.default_quota IS 'the pool''s default, or that of the instance type; NULL: none';
COMMENT ON COLUMN rpq_store.workload_shown.placed_in IS 'pool that the present or last attempt was admitted in';
COMMENT ON COLUMN rpq_store.queue_now.group_id IS 'user group of the policy';
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

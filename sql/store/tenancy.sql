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

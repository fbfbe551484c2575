-- Tenancy: who there is.  Written by administrators' functions (sql/api/tenancy.sql) under row locks.  A cycle reads of it
-- an account's rights alone, so only what takes a right away (deleting an account, its organisation admin flag, a group's
-- accounts) takes the turns of the scopes in which that account waits.  The fence is written by src/api/caller.c.

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

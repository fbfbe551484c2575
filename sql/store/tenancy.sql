-- Tenancy: who there is.  Written by administrators' functions (sql/api/tenancy.sql), which take no turn: nothing here
-- is read by a cycle but account rights, which are checked again at admission.

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
	db_role text COLLATE "C" UNIQUE,
	org_admin boolean NOT NULL DEFAULT false,
	gateway boolean NOT NULL DEFAULT false,
	executor boolean NOT NULL DEFAULT false,
	driver boolean NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (tenant_id, name)
);

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

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

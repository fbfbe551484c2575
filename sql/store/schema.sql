\echo Use "CREATE EXTENSION rpq" to load this file. \quit

-- The two schemas.  rpq holds what people may use; rpq_store holds tables and private functions and gives PUBLIC
-- nothing.  Both are members of the extension, so they go with it.
CREATE SCHEMA rpq;
COMMENT ON SCHEMA rpq IS 'resource pools and quotas: the functions, views and the type that people use';
CREATE SCHEMA rpq_store;
COMMENT ON SCHEMA rpq_store IS 'resource pools and quotas: tables and private functions; nothing here is an interface';
GRANT USAGE ON SCHEMA rpq TO PUBLIC;

-- The clock, and which rpq this is.

CREATE OR REPLACE FUNCTION rpq.now() RETURNS timestamptz
LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'rpq_now_sql';
COMMENT ON FUNCTION rpq.now() IS
'the time that every rule uses: the clock at this moment, or the setting rpq.clock where it is set. Callers: everyone';

CREATE OR REPLACE FUNCTION rpq.version() RETURNS text
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'rpq_version_sql';
COMMENT ON FUNCTION rpq.version() IS 'the version of the library that answers. Callers: everyone';

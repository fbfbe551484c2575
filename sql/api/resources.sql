-- Functions of rpq.resources on which nothing stored rests.  C that reads its arguments alone: for everyone.

CREATE OR REPLACE FUNCTION rpq.within(usage rpq.resources, usage_limit rpq.resources) RETURNS boolean
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_is_within';
COMMENT ON FUNCTION rpq.within(rpq.resources, rpq.resources) IS
'usage is within a limit: for each key of the limit, usage (a key it lacks: zero) is no larger. Keys that the '
'limit lacks are not limited; a limit without keys limits nothing. NULL if an argument is. Everyone';

CREATE OR REPLACE FUNCTION rpq.least(a rpq.resources, b rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_min';
COMMENT ON FUNCTION rpq.least(rpq.resources, rpq.resources) IS
'the smaller amount by key; a key that only one has is taken from it, so the least of two limits is what both '
'allow. NULL if an argument is. Everyone';

CREATE OR REPLACE FUNCTION rpq.greatest(a rpq.resources, b rpq.resources) RETURNS rpq.resources
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_max';
COMMENT ON FUNCTION rpq.greatest(rpq.resources, rpq.resources) IS
'the larger amount by key; a key that only one has is taken from it (for amounts that are not negative: it counts '
'as zero in the other). NULL if an argument is. Everyone';

CREATE OR REPLACE FUNCTION rpq.pretty(a rpq.resources) RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'resources_for_people';
COMMENT ON FUNCTION rpq.pretty(rpq.resources) IS
'for people: 96 CPU · 8 GPU · 800 GiB. First cpu, gpu and memory, then other keys by name (3 tpu). Memory in the '
'largest of KiB, MiB, GiB, TiB, PiB in which it is at least one and exact with three places; nothing is rounded. '
'Empty for no keys. Everyone';

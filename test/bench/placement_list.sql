-- placement_list.sql: one list of pods, from standard input, in place of the one before: the first six columns.
\set ON_ERROR_STOP on
TRUNCATE bench.pod;
\copy bench.pod FROM pstdin CSV
ANALYZE bench.pod;

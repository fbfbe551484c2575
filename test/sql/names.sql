-- How names are written: what is trimmed, composed, counted and refused.
\set SHOW_CONTEXT never
SELECT rpq_store.check_name('pool', '  research ');
SELECT rpq_store.check_name('pool', U&'cafe\0301') = U&'caf\00e9' AS composed;
SELECT rpq_store.check_name('pool', U&'\00a0\3000x\2003') = 'x' AS trimmed;
SELECT rpq_store.check_name('pool', 'a  b'), rpq_store.check_name('pool', 'O''Brien "x" \ ;--');
SELECT rpq_store.check_name('pool', U&'\30d7\30fc\30eb\+01F600');

-- 63 characters, counted after composing, whatever their bytes
SELECT length(rpq_store.check_name('pool', repeat('x', 63)));
SELECT length(rpq_store.check_name('pool', repeat(U&'\+01F600', 63)));
SELECT length(rpq_store.check_name('pool', repeat(U&'e\0301', 63)));
SELECT rpq_store.check_name('pool', repeat('x', 64));
SELECT rpq_store.check_name('pool', repeat(U&'\00e9', 64));
SELECT rpq_store.check_name('pool', repeat('x', 100000));

SELECT rpq_store.check_name('pool', NULL);
SELECT rpq_store.check_name('pool', '');
SELECT rpq_store.check_name('pool', U&'  \00a0 ');
SELECT rpq_store.check_name('pool', 'a/b');
SELECT rpq_store.check_name('pool', E'a\tb');
SELECT rpq_store.check_name('pool', E'ab\n');
SELECT rpq_store.check_name('pool', E'a\x7fb');
SELECT rpq_store.check_name('pool', U&'a\0085b');
SELECT rpq_store.check_name('pool', U&'a\200bb');
SELECT rpq_store.check_name('pool', U&'a\202eb');
SELECT rpq_store.check_name('pool', U&'\feffab');
SELECT rpq_store.check_name('pool', U&'a\+0E0041');

-- Names that are looked up go through the same gate
SELECT rpq.create_tenant(' acme ');
SELECT rpq.create_tenant('acme');
SELECT rpq.create_tenant(U&'acme\200b');
SELECT rpq.create_user_group(U&'cafe\0301', ' acme');
SELECT rpq.delete_user_group(U&'caf\00e9');
SELECT rpq.delete_user_group('Acme/x');
SELECT rpq.delete_user_group(' acme / x ');
SELECT rpq.delete_user_group('acme/x/y');
SELECT rpq.delete_user_group('/x');
SELECT rpq.delete_user_group('');
SELECT rpq.delete_user_group(NULL);
SELECT rpq.delete_user_group(repeat('x', 64));
SELECT object_kind, object FROM rpq_store.history ORDER BY history_id;

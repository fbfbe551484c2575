# The life of launcher and workers: which databases get one, what ends and restarts them, errors in the cycle, the wake.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = rpq_node('worker', databases => 'app', conf => "rpq.cycle_interval = 200ms\nrestart_after_crash = on");

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'app', $query);
}

# Waits until the query is true, at most so many seconds.
sub until_true
{
	my ($query, $limit, $database) = @_;
	my $start = time;

	while (time - $start < $limit)
	{
		my ($rc, $out) = $node->psql($database // 'app', $query);
		return 1 if defined $out && $out eq 't';
		sleep 0.03;
	}
	return 0;
}

# A cycle of the test's own in place of the extension's.
sub replace_cycle
{
	my ($body) = @_;
	sql("BEGIN; DO \$\$ BEGIN
		IF EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND deptype = 'e'
			AND objid = to_regprocedure('rpq_store.worker_cycle()')) THEN
			ALTER EXTENSION rpq DROP FUNCTION rpq_store.worker_cycle();
			DROP FUNCTION rpq_store.worker_cycle();
		END IF;
	END \$\$;
	CREATE OR REPLACE FUNCTION rpq_store.worker_cycle(OUT more boolean, OUT changed integer, OUT summary text)
	LANGUAGE plpgsql AS \$\$ BEGIN $body END \$\$; COMMIT");
	return;
}

sub reload_with
{
	my ($conf) = @_;
	$node->append_conf('postgresql.conf', $conf);
	$node->reload;
	return;
}

my $running = "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running' AND pid IS NOT NULL AND cycles > 0";

# -- start
$node->safe_psql('postgres', 'CREATE DATABASE app');
sql('CREATE EXTENSION rpq');
ok(until_true($running, 5), 'a listed database gets a worker when the extension is created');
$node->safe_psql('postgres', 'CREATE EXTENSION rpq');
is($node->safe_psql('postgres', 'SELECT count(*) FROM rpq.workers'), '0', 'another database does not');
is(sql("SELECT string_agg(backend_type || ':' || coalesce(datname, '-'), ' ' ORDER BY backend_type)
	FROM pg_stat_activity WHERE backend_type ~ '^rpq'"), 'rpq launcher:- rpq worker:app', 'both show their type');
$node->safe_psql('postgres', 'CREATE ROLE somebody LOGIN');
is($node->safe_psql('app', 'SELECT count(*) FROM rpq.workers', extra_params => [ '-U', 'somebody' ]), '0',
	'rpq.workers is for platform administrators');

# -- ends
my $pid = sql('SELECT pid FROM rpq.workers');
sql("SELECT pg_terminate_backend($pid)");
ok(until_true("$running AND pid <> $pid", 5), 'a terminated worker is replaced within 5 s');
my $launcher = sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'rpq launcher'");
sql("SELECT pg_terminate_backend($launcher)");
ok(until_true("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'rpq launcher' AND pid <> $launcher", 8),
	'so is the launcher');
$pid = sql('SELECT pid FROM rpq.workers');
sql("SELECT pg_terminate_backend($pid)");
ok(until_true("$running AND pid <> $pid", 5), 'the new launcher knows the workers of the old');
$pid = sql('SELECT pid FROM rpq.workers');
kill 'KILL', $pid;
ok(until_true("$running AND pid <> $pid", 10), 'after kill -9 and the restart of the server all is back');

# -- pg_cancel_backend ends a cycle, not the worker
$pid = sql('SELECT pid FROM rpq.workers');
sql("SELECT pg_cancel_backend($pid)");
sleep 0.5;
ok(until_true("$running AND pid = $pid", 1), 'an idle worker is not cancelled');
replace_cycle('more := false; changed := 0; PERFORM pg_sleep(60);');
my $sleeping = "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $pid AND wait_event = 'PgSleep'";
ok(until_true($sleeping, 3), 'a long cycle');
replace_cycle('more := false; changed := 0;');
sql("SELECT pg_cancel_backend($pid)");
ok(until_true("SELECT state = 'running' AND last_error ~ '^57014' AND pid = $pid FROM rpq.workers", 4),
	'a cycle can be cancelled');

# -- another version
sql("UPDATE pg_extension SET extversion = '0.0' WHERE extname = 'rpq'");
ok(until_true("SELECT state = 'paused' AND last_error ~ 'version' FROM rpq.workers", 3),
	'the worker pauses while the extension has another version');
sql("UPDATE pg_extension SET extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'rpq')
	WHERE extname = 'rpq'");
ok(until_true($running, 3), 'and goes on when it has its own');
$pid = sql('SELECT pid FROM rpq.workers');

# -- DROP and CREATE EXTENSION
for my $round (1 .. long_or_short(20, 3))
{
	my $start = time;
	sql('DROP EXTENSION rpq CASCADE');
	my $took = time - $start;
	sql('CREATE EXTENSION rpq');
	ok($took < 2 && until_true($running, 5), "DROP and CREATE EXTENSION, round $round");
}
sql('BEGIN; DROP EXTENSION rpq; SELECT pg_sleep(0.6); ROLLBACK');
ok(until_true($running, 3), 'a DROP EXTENSION that is rolled back changes nothing');

# -- errors
replace_cycle("RAISE EXCEPTION 'no luck' USING ERRCODE = 'RQ004';");
ok(until_true("SELECT state = 'paused' AND last_error = 'RQ004: no luck' FROM rpq.workers", 3),
	'an error is shown, and the worker pauses');
replace_cycle("RAISE EXCEPTION 'copy' USING ERRCODE = 'RQ009';");
ok(until_true("SELECT state = 'waiting' AND last_error = 'fenced' FROM rpq.workers", 5), 'RQ009: it waits, fenced');
replace_cycle("more := false; changed := 0; summary := 'fenced';");
ok(until_true("SELECT state = 'waiting' AND last_error = 'fenced' FROM rpq.workers", 5), 'so it does when told');
replace_cycle('more := false; changed := 0;');
ok(until_true("SELECT state = 'running' AND last_cycle > last_error_at FROM rpq.workers", 5), 'and goes on after that');

# -- what a database's settings may not do
sql('CREATE TABLE trace (who text, path text, level text)');
replace_cycle("PERFORM pg_sleep(0.2); INSERT INTO public.trace
	VALUES (current_user, current_setting('search_path'), current_setting('transaction_isolation'));");
$node->safe_psql('postgres', "ALTER DATABASE app SET statement_timeout = '50ms';
	ALTER DATABASE app SET search_path = 'evil'; ALTER DATABASE app SET default_transaction_read_only = on;
	ALTER DATABASE app SET default_transaction_isolation = 'serializable'");
$pid = sql('SELECT pid FROM rpq.workers');
sql("SELECT pg_terminate_backend($pid)");
sql('SET default_transaction_read_only = off; TRUNCATE public.trace');
ok(until_true("$running AND pid <> $pid AND (SELECT count(*) > 0 FROM public.trace)", 5),
	'a database\'s settings do not stop the worker');
is(sql('SELECT DISTINCT who, path, level FROM public.trace'),
	sql("SELECT r.rolname FROM pg_extension x JOIN pg_roles r ON r.oid = x.extowner WHERE x.extname = 'rpq'")
	. '|pg_catalog, pg_temp|read committed', 'it runs as the owner of the extension, with its own settings');
$node->safe_psql('postgres', 'ALTER DATABASE app RESET ALL');

# -- at once after a batch; one notification for a change
reload_with("rpq.cycle_interval = '60s'");
sql('TRUNCATE trace');
replace_cycle(q{INSERT INTO public.trace DEFAULT VALUES; changed := 1; summary := '{"admitted": 1}';
	more := (SELECT count(*) < 50 FROM public.trace);});
my $listener = $node->background_psql('app');
$listener->query_safe('LISTEN rpq');
sql('SELECT rpq_store.wake()');
ok(until_true('SELECT count(*) >= 50 FROM trace', 2), 'cut off by the batch, the next cycle follows at once');
like($listener->query_safe('SELECT 1'), qr/notification "rpq" with payload "\{"admitted": 1\}"/, 'NOTIFY rpq');
$listener->quit;

# -- the wake
replace_cycle('more := false; changed := 0;');
sql('SELECT rpq_store.wake()');
sleep 0.5;
sql(q{CREATE PROCEDURE public.wake_and_wait(INOUT latency numeric) LANGUAGE plpgsql AS $$
DECLARE before bigint; since timestamptz; BEGIN
	SELECT cycles INTO before FROM rpq.workers;
	PERFORM rpq_store.wake();
	COMMIT;
	since := clock_timestamp();
	WHILE clock_timestamp() < since + interval '2 s' LOOP
		EXIT WHEN (SELECT cycles FROM rpq.workers) > before;
		PERFORM pg_sleep(0.001);
	END LOOP;
	latency := extract(epoch FROM clock_timestamp() - since) * 1000;
END $$});
my @latency = sort { $a <=> $b } map { sql('CALL public.wake_and_wait(NULL)') } 1 .. 20;
note("from the commit to the end of the cycle: median $latency[10] ms, longest $latency[19] ms");
cmp_ok($latency[10], '<', 50, 'a commit wakes the worker in less than 50 ms while the interval is 60 s');
my $cycles = sql('SELECT cycles FROM rpq.workers');
sql('BEGIN; SELECT rpq_store.wake(); ROLLBACK');
sleep 0.2;
is(sql('SELECT cycles FROM rpq.workers'), $cycles, 'a rollback does not');

# -- no wake is lost: each commit is seen by a cycle that begins after it
sql('CREATE TABLE written (n serial); CREATE TABLE seen (n bigint)');
replace_cycle('more := false; changed := 0; INSERT INTO public.seen SELECT count(*) FROM public.written;');
my $script = PostgreSQL::Test::Utils::tempdir() . '/wake.sql';
append_to_file($script, "BEGIN;\nINSERT INTO written DEFAULT VALUES;\nSELECT rpq_store.wake();\nCOMMIT;\n");
$node->command_ok([ 'pgbench', '-n', '-c', '8', '-t', long_or_short(2000, 200), '-f', $script, 'app' ],
	'eight sessions write and wake');
ok(until_true('SELECT (SELECT max(n) FROM seen) = (SELECT count(*) FROM written)', 5), 'the last wake was not lost');
cmp_ok(sql('SELECT count(*) FROM seen'), '<', sql('SELECT count(*) FROM written'), 'wakes are coalesced');

# -- the list
reload_with("rpq.databases = 'other, \"app\"'");
sleep 0.5;
is(sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rpq worker'"), '1',
	'a list with a database that is not there');
reload_with("rpq.databases = 'postgres'");
ok(until_true("SELECT state = 'stopped' AND pid IS NULL FROM rpq.workers", 3), 'no longer listed: the worker stops');
ok(until_true($running, 3, 'postgres'), 'and the one that is listed now has one');
reload_with("rpq.databases = '*'");
ok(until_true($running, 3), 'with an asterisk each database has one');
ok(until_true($running, 3, 'postgres'), 'the other as well');
$node->safe_psql('postgres', 'CREATE DATABASE late');
sleep 0.5;
$node->safe_psql('late', 'CREATE EXTENSION rpq');
ok(until_true($running, 3, 'late'), 'one that comes later too, although it had nothing at first');

# -- shutdown
my $start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', 3, 'the server stops without waiting for workers');
unlike(slurp_file($node->logfile), qr/deadlock detected|PANIC/, 'no deadlock, no panic in the log');

# -- no room
my $small = rpq_node('small', databases => '*', conf => 'max_worker_processes = 3');
for my $name (qw(one two))
{
	$small->safe_psql('postgres', "CREATE DATABASE $name");
	$small->safe_psql($name, 'CREATE EXTENSION rpq');
}
sleep 0.5;
is($small->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rpq worker'"), '1',
	'one of two databases has a worker when there is room for no more');
my @warnings = slurp_file($small->logfile) =~ /no room for an rpq worker for database/g;
is(scalar(@warnings), 1, 'the log says so, once');
$small->stop;

# -- no preload
my $plain = rpq_node('plain', preload => '');
$plain->safe_psql('postgres', 'CREATE EXTENSION rpq');
is($plain->safe_psql('postgres', 'SELECT rpq_store.wake(); SELECT count(*) FROM rpq.workers'), "\n0",
	'not preloaded: everything but the worker');
my ($rc, $out, $err) = $plain->psql('postgres', "\\set VERBOSITY verbose\nSELECT rpq_store.require_worker()");
like($err, qr/55000.*HINT:.*shared_preload_libraries/s, 'what needs it says what to add to the configuration');
is($plain->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^rpq'"), '0', 'no process');
$plain->stop;

done_testing();

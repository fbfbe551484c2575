# Database commands under a live worker; a standby and its promotion.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = rpq_node('ddl', databases => '*', has_streaming => 1);
my $running = "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running'";

sub until_true
{
	my ($on, $database, $query, $limit) = @_;
	my $start = time;

	while (time - $start < $limit)
	{
		my ($rc, $out) = $on->psql($database, $query);
		return 1 if defined $out && $out eq 't';
		sleep 0.03;
	}
	return 0;
}

# A database with a worker at work.
sub with_worker
{
	my ($name) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name OWNER boss");
	$node->safe_psql($name, 'CREATE EXTENSION rpq');
	ok(until_true($node, $name, $running, 5), "database $name has a worker");
	return;
}

# Runs a command as a role; it must end as expected, and soon.
sub command
{
	my ($role, $query, $expected, $what) = @_;
	my $start = time;
	my ($rc, $out, $err) = $node->psql('postgres', $query, extra_params => [ '-U', $role ]);
	my $took = time - $start;

	is($rc == 0 ? 'done' : 'refused', $expected, $what) or diag($err);
	cmp_ok($took, '<', 2, sprintf('in %.2f s', $took));
	return;
}

sub pid_of
{
	my ($database) = @_;
	return $node->safe_psql($database, 'SELECT pid FROM rpq.workers');
}

$node->safe_psql('postgres', 'CREATE ROLE boss LOGIN CREATEDB; CREATE ROLE nobody LOGIN CREATEDB');
my $super = $node->safe_psql('postgres', 'SELECT current_user');

for my $role ($super, 'boss')
{
	my $name = $role eq 'boss' ? 'owned' : 'supers';

	with_worker($name);
	command($role, "CREATE DATABASE ${name}_copy TEMPLATE $name", 'done', "$name as a template, by $role");
	ok(until_true($node, $name, $running, 3), 'the worker is back');
	ok(until_true($node, "${name}_copy", $running, 3), 'the copy has one as well');
	command($role, "ALTER DATABASE ${name}_copy RENAME TO ${name}_renamed", 'done', 'RENAME');
	ok(until_true($node, "${name}_renamed", $running, 3), 'the worker is back under the new name');
	command($role, "DROP DATABASE ${name}_renamed", 'done', 'DROP');
	command($role, "DROP DATABASE $name WITH (FORCE)", 'done', 'DROP WITH (FORCE)');
}

# In a transaction the worker stays away until its end, and comes back if nothing came of it.
with_worker('kept');
$node->safe_psql('postgres', "SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''");
command($super, 'ALTER DATABASE kept SET TABLESPACE elsewhere', 'done', 'SET TABLESPACE');
ok(until_true($node, 'kept', $running, 3), 'the worker is back');
command($super, 'ALTER DATABASE kept SET TABLESPACE pg_default', 'done', 'and back');
ok(until_true($node, 'kept', $running, 3), 'the worker is back');
$node->safe_psql('postgres', 'DROP TABLESPACE elsewhere');
command('boss', "BEGIN;\nALTER DATABASE kept RENAME TO other;\nSELECT pg_sleep(1.2);\nROLLBACK;", 'done',
	'RENAME that is rolled back');
ok(until_true($node, 'kept', $running, 3), 'the worker is back');

# What cannot succeed stops nobody.
my $pid = pid_of('kept');
command('nobody', $_, 'refused', $_)
  for ('DROP DATABASE kept', 'DROP DATABASE kept WITH (FORCE)', 'ALTER DATABASE kept RENAME TO other',
	'ALTER DATABASE kept SET TABLESPACE pg_default', 'CREATE DATABASE stolen TEMPLATE kept');
command('boss', "BEGIN;\nDROP DATABASE kept;", 'refused', 'DROP in a transaction block');
command('boss', 'ALTER DATABASE kept RENAME TO postgres', 'refused', 'RENAME to a name that is taken');
is(pid_of('kept'), $pid, 'the worker did not notice');

# What fails for another reason gets the worker back.
my $session = $node->background_psql('kept');
my ($rc, $out, $err) = $node->psql('postgres', 'DROP DATABASE kept');
like($err, qr/being accessed by other users.*1 other session/s, 'only the other session stands in the way');
$session->quit;
ok(until_true($node, 'kept', $running, 3), 'the worker is back after a DROP that failed');

# A busy worker leaves as well.
$node->safe_psql('kept', q{BEGIN; DO $$ BEGIN
	IF to_regprocedure('rpq_store.worker_cycle()') IS NOT NULL THEN
		ALTER EXTENSION rpq DROP FUNCTION rpq_store.worker_cycle();
		DROP FUNCTION rpq_store.worker_cycle();
	END IF;
END $$;
CREATE FUNCTION rpq_store.worker_cycle(OUT more boolean, OUT changed integer, OUT summary text)
	LANGUAGE sql AS 'SELECT false, 0, pg_sleep(30)::text'; COMMIT});
ok(until_true($node, 'kept', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'rpq worker' AND datname = 'kept' AND wait_event = 'PgSleep'}, 3), 'a long cycle');
command('boss', 'DROP DATABASE kept', 'done', 'DROP while a cycle runs');

# Commands about the extension and its owner with a worker that hardly pauses.
with_worker('busy');
$node->append_conf('postgresql.conf', "rpq.cycle_interval = '10ms'\nrpq.cycle_gap = 0");
$node->reload;
for my $round (1 .. long_or_short(20, 3))
{
	$node->safe_psql('postgres', 'CREATE ROLE temp_owner SUPERUSER');
	$node->safe_psql('busy', 'DROP EXTENSION rpq; SET ROLE temp_owner; CREATE EXTENSION rpq');
	ok(until_true($node, 'busy', $running, 3), 'a worker for the extension of another owner');
	$node->safe_psql('busy', 'BEGIN; ALTER EXTENSION rpq UPDATE; SELECT pg_sleep(0.1); COMMIT');
	$node->safe_psql('busy', 'DROP OWNED BY temp_owner CASCADE; DROP ROLE temp_owner; CREATE EXTENSION rpq');
	ok(until_true($node, 'busy', $running, 3), 'DROP OWNED, and again');
}

# Recovery: no process on a standby, both after promotion.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('busy', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^rpq'"), '0',
	'no rpq process on a standby');
is($standby->safe_psql('busy', 'SELECT count(*) FROM rpq.workers'), '0', 'rpq.workers can be read there');
$node->stop;
$standby->promote;
ok(until_true($standby, 'busy', $running, 8), 'after promotion the worker runs');
$standby->stop;
unlike(slurp_file($node->logfile), qr/deadlock detected|PANIC/, 'no deadlock, no panic in the log');

done_testing();

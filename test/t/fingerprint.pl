# One shape by three ways: a fresh extension, the earlier version updated, and a dump that was restored.  An update keeps
# the data, and what users made with ours, under a worker that waits for it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;

my $node = rpq_node('shapes', databases => 'old', conf => 'rpq.cycle_interval = 200ms');
my $query = slurp_file("$ENV{RPQ_ROOT}/test/lib/fingerprint.sql");

sub fingerprint
{
	my ($database) = @_;

	return split /\n/, $node->safe_psql($database, $query);
}

# Lines of one that the other has not, each way.
sub differences
{
	my ($left, $right) = @_;
	my %left = map { $_ => 1 } @$left;
	my %right = map { $_ => 1 } @$right;

	return join "\n", (map { "- $_" } grep { !$right{$_} } @$left), (map { "+ $_" } grep { !$left{$_} } @$right);
}

sub restore
{
	my ($from, $to) = @_;
	my $file = $node->basedir . "/$to.sql";

	$node->safe_psql('postgres', "CREATE DATABASE $to");
	$node->command_ok([ 'pg_dump', '-f', $file, $from ], "dump of $from");
	my ($out, $err) = run_command([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port,
		'-d', $to, '-f', $file ]);
	is($err, '', "restored as $to");
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION rpq');
my @fresh = fingerprint('fresh');
cmp_ok(scalar(@fresh), '>', 1000, 'a fresh extension');

# -- the version before, in use
$node->safe_psql('postgres', 'CREATE DATABASE old');
$node->safe_psql('old', "CREATE EXTENSION rpq VERSION '0.9'");
my @old = fingerprint('old');
isnt(differences(\@old, \@fresh), '', '0.9 has another shape');
seed($node, 'old');
work_of_all_kinds($node, 'old');
is(violations($node, 'old'), '', '0.9 works with this library');
ok(until_true($node, 'old', "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'paused'", 5), 'but for its worker');
$node->safe_psql('old', q{
	CREATE VIEW public.my_pools AS SELECT name, total, used FROM rpq.pools;
	CREATE VIEW public.my_work AS SELECT w.*, p.type FROM rpq.workloads AS w JOIN rpq.pools AS p ON p.name = w.pool;
	CREATE TABLE public.wishes (want rpq.resources, made timestamptz DEFAULT rpq.now());
	CREATE INDEX ON public.wishes (want);
	INSERT INTO public.wishes VALUES ('gpu=1/3'), ('cpu=2');
	CREATE FUNCTION public.ask() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM rpq.schedule(dry_run => true); END});
my $users = 'SELECT (SELECT string_agg(p::text, chr(10) ORDER BY p) FROM my_pools p), (SELECT count(*) FROM my_work),
	(SELECT rpq.sum(want)::text FROM wishes), ask()';
my $theirs = $node->safe_psql('old', $users);

# -- updated, with the worker stopped so that it changes nothing
$node->append_conf('postgresql.conf', "rpq.databases = ''");
$node->reload;
my $session = $node->background_psql('old');
$session->query_safe("$users; SELECT rpq.edit_pool('d1', description => 'before')");
$node->safe_psql('old', q{BEGIN; ALTER EXTENSION rpq UPDATE TO '1.0'; ROLLBACK});
is(differences(\@old, [ fingerprint('old') ]), '', 'an update that is rolled back leaves nothing');
my $holds = contents($node, 'old');
$node->safe_psql('old', 'ALTER EXTENSION rpq UPDATE');
is(differences([ fingerprint('old') ], \@fresh), '', '0.9 updated is 1.0');
is(contents($node, 'old'), $holds, 'the data is kept');
is($node->safe_psql('old', $users), $theirs, 'what users made with it goes on');
$session->query_safe("$users; SELECT rpq.edit_pool('d1', description => 'after')");
$session->quit;
is($node->safe_psql('old', "SELECT description FROM rpq.pools WHERE name = 'd1'"), 'after', 'so does a session');
is(violations($node, 'old'), '', 'sound');
$node->append_conf('postgresql.conf', "rpq.databases = 'old'");
$node->reload;
ok(until_true($node, 'old', "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running' AND cycles > 0", 8),
	'and the worker runs');
ok(until_true($node, 'old', "SELECT count(*) = 0 FROM rpq_store.uncounted WHERE kind <> 'start'", 8), 'and counts');
is(violations($node, 'old'), '', 'sound');

# -- dumped and restored: the fresh one, and the one that was updated
restore('fresh', 'restored');
is(differences([ fingerprint('restored') ], \@fresh), '', 'restored is fresh');
restore('old', 'updated_and_restored');
is(differences([ fingerprint('updated_and_restored') ], \@fresh), '', 'updated and restored is fresh');
is(contents($node, 'updated_and_restored'), contents($node, 'old'), 'with its data');
$node->stop;

done_testing();

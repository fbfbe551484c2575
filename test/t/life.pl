# The extension made anew under a session that keeps plans and looks; a server without preload; a standby that shows
# everything, and its promotion with work in it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;

my $clock = "rpq.clock = '2030-01-01 12:00:00+00'";
my $submit = "rpq.submit(pool => 'd1', account => 'u1', workload_type => 'training', resources => 'gpu=1')";

# -- without preload everything is there but the worker
my $plain = rpq_node('plain', preload => '');
$plain->safe_psql('postgres', 'CREATE EXTENSION rpq');
seed($plain, 'postgres');
work_of_all_kinds($plain, 'postgres');
is($plain->safe_psql('postgres', "SELECT decision, count(*) FROM rpq.schedule() GROUP BY decision ORDER BY decision"),
	"admitted|2\nwaiting|1", 'no preload: a cycle by hand');
is(violations($plain, 'postgres'), '', 'no preload: sound');

# -- one session lives through DROP and CREATE EXTENSION, twice, also inside transactions
my $session = $plain->background_psql('postgres', on_error_stop => 0);
my $recreate = 'DROP EXTENSION rpq CASCADE; CREATE EXTENSION rpq;';
my $use = "SELECT $submit > 0 FROM generate_series(1, 8); SELECT count(*) FROM rpq.schedule();
	EXECUTE asked(1); SELECT count(*) FROM rpq.check_integrity();";

$session->query_safe("PREPARE asked(bigint) AS SELECT status FROM rpq.workloads WHERE workload_id = \$1;
	CREATE FUNCTION public.by_function() RETURNS bigint LANGUAGE plpgsql AS \$\$ BEGIN RETURN $submit; END \$\$");
for my $round (1 .. long_or_short(20, 3))
{
	my $rolled_back = $round % 2;

	$session->query_safe("SELECT public.by_function() FROM generate_series(1, 8); SELECT FROM rpq.schedule()");
	$session->query_safe("BEGIN; $recreate ROLLBACK") if $rolled_back;
	$session->query_safe($round % 3 ? $recreate : "BEGIN; $recreate COMMIT");
	my ($rc, $out, $err) = $plain->psql('postgres', 'SELECT count(*) FROM rpq.pools');
	is($out, '0', "round $round: the new one is empty");
	seed($plain, 'postgres');
	is($session->query("SELECT public.by_function() > 0; $use") =~ s/\s+/ /gr, 't t t t t t t t t 9 starting 0',
		"round $round: the session goes on");
}
$session->quit;
is(violations($plain, 'postgres'), '', 'sound');
$plain->stop;

# -- a standby
my $node = rpq_node('primary', databases => 'app', has_streaming => 1, conf => "$clock\nrpq.cycle_interval = 200ms");
$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', 'CREATE EXTENSION rpq; CREATE ROLE u5 LOGIN');
seed($node, 'app');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
work_of_all_kinds($node, 'app');
$node->safe_psql('app', "SELECT rpq.edit_account('u5', db_role => 'u5')");
ok(until_true($node, 'app', "SELECT count(*) = 0 FROM rpq_store.uncounted WHERE kind <> 'start'", 10), 'the worker counts');
$node->append_conf('postgresql.conf', "rpq.databases = ''");
$node->reload;
ok(until_true($node, 'app', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rpq worker'", 5), 'and stops');
$node->safe_psql('app', "SELECT $submit; SELECT rpq.report_finished(1)");
cmp_ok($node->safe_psql('app', 'SELECT count(*) FROM rpq_store.uncounted'), '>', 0, 'something is left to count');
$node->wait_for_catchup($standby);

is(contents($standby, 'app'), contents($node, 'app'), 'the standby holds the same');
is(shown($standby, 'app'), shown($node, 'app'), 'every view shows the same');
is(violations($standby, 'app'), '', 'check_integrity runs there');
is($standby->safe_psql('app', 'SELECT count(*) FROM rpq.schedule(dry_run => true)'),
	$node->safe_psql('app', 'SELECT count(*) FROM rpq.schedule(dry_run => true)'), 'so does a dry run');
is($standby->safe_psql('app', 'SELECT count(*) FROM rpq.pools', extra_params => [ '-U', 'u5' ]),
	$node->safe_psql('app', 'SELECT count(*) FROM rpq.pools', extra_params => [ '-U', 'u5' ]), 'a member sees its own');
for my $act ($submit, 'rpq.schedule()', 'rpq.stop(1)', "rpq.cordon_node('n6')")
{
	my ($rc, $out, $err) = $standby->psql('app', "\\set VERBOSITY sqlstate\nSELECT $act");
	like($err, qr/ERROR:\s+25006/, "refused on a standby: $act");
}
$node->stop;
$standby->append_conf('postgresql.conf', "rpq.databases = 'app'");
$standby->reload;
$standby->promote;
ok(until_true($standby, 'app', "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running' AND cycles > 0", 15),
	'promoted: a worker runs');
ok(until_true($standby, 'app', "SELECT count(*) = 0 FROM rpq_store.uncounted WHERE kind <> 'start'", 10),
	'and counts what was left');
my $id = $standby->safe_psql('app', "SELECT $submit");
ok(until_true($standby, 'app', "SELECT status = 'starting' FROM rpq_store.workload WHERE workload_id = $id", 10),
	'it admits');
is(violations($standby, 'app'), '', 'sound');
$standby->stop;

done_testing();

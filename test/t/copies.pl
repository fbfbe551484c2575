# Copies of a database: a dump restored, with the worker running; a template; a younger cluster.  Each shows what the
# original showed and does nothing until it is adopted, and then goes on.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep);

# A fixed clock: views show ages.
my $clock = "rpq.clock = '2030-01-01 12:00:00+00'";
my $node = rpq_node('original', databases => 'restored,clone', conf => "rpq.cycle_interval = 100ms\n$clock");

# What writes an entry or takes a turn.
my @acts = (
	"SELECT rpq.submit(pool => 'd1', account => 'u1', workload_type => 'training', resources => 'gpu=1')",
	'SELECT rpq.enqueue(7)', 'SELECT rpq.edit_workload(5, priority => 1)', 'SELECT rpq.stop(1)',
	'SELECT rpq.delete_workload(3)', 'SELECT rpq.report_started(2)', 'SELECT rpq.report_finished(1)',
	'SELECT rpq.report_checkpoint(1)', 'SELECT rpq.schedule()', "SELECT rpq.schedule('d1')",
	"SELECT rpq.add_nodes(instance_type => 'big', names => '{m1}')", "SELECT rpq.remove_nodes('{n6}')",
	"SELECT rpq.cordon_node('n6')", "SELECT rpq.uncordon_node('n6')", "SELECT rpq.set_node_health('n6', 'degraded')",
	"SELECT rpq.create_pool(name => 'd3', type => 'dedicated', instance_type => 'big', quota => 'gpu=8')",
	"SELECT rpq.edit_pool('d1', frozen => true)", "SELECT rpq.authorize(pool => 'd1', accounts => '{u5}')",
	"SELECT rpq.update_members(pool => 'd1', accounts => '{u1}', max_priority => 5)",
	"SELECT rpq.deauthorize(pool => 'd1', accounts => '{u1}')", "SELECT rpq.grant_pool_admin(pool => 'd1', account => 'u2')",
	"SELECT rpq.revoke_pool_admin(pool => 'd1', account => 'u1')", 'SELECT rpq.run_operations()',
	'SELECT rpq.cancel_operation(1)', 'SELECT rpq.retry_operation(1)', "SELECT rpq.edit_account('u1', org_admin => true)",
	"SELECT rpq.create_policy('p9', 'g1')", "SELECT rpq.edit_policy('p1', lending => 'lend')", "SELECT rpq.delete_policy('p1')",
	"SELECT rpq.provision_profiles()", "SELECT rpq.connect_profile('p1', 'two', 'q9')", "SELECT rpq.delete_profile('one')",
	"SELECT rpq.disconnect_profile('p1', 'one')", "SELECT rpq.submit(queue => 'q1', account => 'u1', workload_type => 'training')",
	"SELECT rpq.delete_account('u5')", "SELECT rpq.remove_from_group('g1', '{u1}')",
	"UPDATE rpq.members SET quota = 'gpu=1'", 'SELECT rpq_store.take_turns(array_agg(scope_id)) FROM rpq_store.turn');

# A copy that nobody has adopted.
sub fenced
{
	my ($copy, $database, $what, $contents, $shown) = @_;
	my $before = contents($copy, $database);

	is($before, $contents, "$what: holds what the original holds");
	is(shown($copy, $database), $shown, "$what: every view shows what it showed there");
	is(violations($copy, $database), '', "$what: and it is sound");
	is(not_refused($copy, $database, 'RQ009', @acts), '', "$what: every act is refused");
	is($copy->safe_psql($database, 'SELECT * FROM rpq.schedule(dry_run => true)'),
		$node->safe_psql('app', 'SELECT * FROM rpq.schedule(dry_run => true)'), "$what: a dry run decides the same");
	is(contents($copy, $database), $before, "$what: nothing of that left a trace");
	return;
}

sub adopted
{
	my ($copy, $database, $what) = @_;

	$copy->safe_psql($database, 'SELECT rpq.adopt_database()');
	is(violations($copy, $database), '', "$what: adopted, it is sound");
	is($copy->safe_psql($database, 'SELECT count(*) FROM rpq_store.uncounted'), '0', "$what: everything is counted");
	is($copy->safe_psql($database, "SELECT count(*) FROM rpq_store.history WHERE action = 'adopt_database'"), '1',
		"$what: which the history says");
	$copy->safe_psql($database, 'SELECT rpq.adopt_database()');
	is($copy->safe_psql($database, "SELECT count(*) FROM rpq_store.history WHERE action = 'adopt_database'"), '1',
		"$what: and a second time nothing");
	return;
}

# -- the original
$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', 'CREATE EXTENSION rpq');
seed($node, 'app');
# more transactions than a new cluster has had: their ids are to come there
my $burn = $node->basedir . '/burn.sql';
append_to_file($burn, 'SELECT pg_current_xact_id();');
$node->command_ok([ 'pgbench', '-n', '-t', long_or_short(20000, 4000), '-f', $burn, 'app' ], 'many transactions');
work_of_all_kinds($node, 'app');
work_through_queues($node, 'app');
$node->safe_psql('app', q{
	CREATE TABLE public.wishes (id int PRIMARY KEY, want rpq.resources);
	INSERT INTO public.wishes VALUES (1, 'gpu=1/3'), (2, 'memory=1Gi');
	CREATE VIEW public.mine AS SELECT p.name, p.total, p.used FROM rpq.pools AS p;});
is(violations($node, 'app'), '', 'the original is sound');
cmp_ok($node->safe_psql('app', 'SELECT count(*) FROM rpq_store.uncounted'), '>', 5, 'and not everything is counted');
my ($contents, $shown) = (contents($node, 'app'), shown($node, 'app'));

# -- dump and restore, while a worker waits for the database
my $dump = $node->basedir . '/app.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'app' ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
my ($out, $err) = run_command([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port,
	'-d', 'restored', '-f', $dump ]);
is($err, '', 'the restore has nothing to say');
ok(until_true($node, 'restored', "SELECT state = 'waiting' AND last_error = 'fenced' FROM rpq.workers", 5),
	'its worker waits');
is($node->safe_psql('restored', 'SELECT count(*) FROM wishes, mine'), $node->safe_psql('app', 'SELECT count(*) FROM wishes, mine'),
	'what users made with it came along');
sleep 0.5;
fenced($node, 'restored', 'restored', $contents, $shown);
adopted($node, 'restored', 'restored');
ok(until_true($node, 'restored', "SELECT state = 'running' AND last_cycle > last_error_at FROM rpq.workers", 5),
	'its worker goes on');
ok(until_true($node, 'restored', "SELECT status = 'starting' FROM rpq_store.workload WHERE workload_id = 5", 5),
	'it admits into the room of what had ended');
$node->safe_psql('restored', 'SELECT rpq.report_finished(5)');
ok(until_true($node, 'restored', "SELECT status = 'starting' FROM rpq_store.workload WHERE workload_id = 4", 5),
	'and what waited for that one');
is(violations($node, 'restored'), '', 'sound');
is(contents($node, 'app'), $contents, 'the original is what it was');
$node->safe_psql('postgres', 'DROP DATABASE restored');

# -- the custom format
if (long_or_short(1, 0))
{
	$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dump.custom", 'app' ], 'pg_dump in the custom format');
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', 'restored', "$dump.custom" ], 'pg_restore');
	ok(until_true($node, 'restored', "SELECT state = 'waiting' AND last_error = 'fenced' FROM rpq.workers", 8),
		'its worker waits');
	fenced($node, 'restored', 'custom', $contents, $shown);
	adopted($node, 'restored', 'custom');
	$node->safe_psql('postgres', 'DROP DATABASE restored');
}

# -- a template
$node->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE app');
ok(until_true($node, 'clone', "SELECT state = 'waiting' AND last_error = 'fenced' FROM rpq.workers", 8),
	'the worker of the clone waits');
fenced($node, 'clone', 'clone', $contents, $shown);
adopted($node, 'clone', 'clone');
ok(until_true($node, 'clone', "SELECT state = 'running' AND last_cycle > last_error_at FROM rpq.workers", 5),
	'its worker goes on');
is(violations($node, 'clone'), '', 'sound');

# -- a cluster in which those transaction ids are still to come
my $young = rpq_node('young', databases => '', conf => $clock);
$young->safe_psql('postgres', 'CREATE DATABASE app');
($out, $err) = run_command([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-h', $young->host, '-p', $young->port,
	'-d', 'app', '-f', $dump ]);
is($err, '', 'restored in a younger cluster');
cmp_ok($young->safe_psql('app', 'SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint'), '<',
	$young->safe_psql('app', 'SELECT min(xid::text::bigint) FROM rpq_store.entry'), 'which has had fewer transactions');
fenced($young, 'app', 'young', $contents, $shown);
adopted($young, 'app', 'young');
$young->command_ok([ 'pgbench', '-n', '-t', long_or_short(25000, 5000), '-f', $burn, 'app' ], 'until they come');
is(violations($young, 'app'), '', 'sound');
$young->safe_psql('app', 'SELECT FROM rpq.schedule(); SELECT rpq.report_finished(5); SELECT FROM rpq.schedule()');
is($young->safe_psql('app', "SELECT string_agg(workload_id::text, ' ' ORDER BY workload_id) FROM rpq_store.workload
	WHERE status IN ('starting', 'running') AND policy_id IS NULL"), '1 2 4 6 8', 'cycles go on');
is($young->safe_psql('app', "SELECT string_agg(name, ' ' ORDER BY name) FROM rpq_store.workload
	WHERE status IN ('starting', 'running') AND policy_id IS NOT NULL"), 'q1 q1 q2 q3', 'also through queues');
is(violations($young, 'app'), '', 'sound');
$young->stop;
$node->stop;

done_testing();

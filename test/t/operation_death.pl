# The worker dies in the middle of an operation (case 47): it is stopped before a step, runs into a lock on one of the
# tables that the step writes, and is terminated or killed there.  Another takes the operation over and ends it once;
# no machine and no pod is lost or counted twice, and the next operation is accepted.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{RPQ_SEED} // time;
my $node = rpq_node('death', databases => 'app',
	conf => "rpq.cycle_interval = 100ms\nrpq.operation_lease = 30s\nrestart_after_crash = on");
my $worker = "FROM pg_stat_activity WHERE backend_type = 'rpq worker' AND datname = 'app'";

srand($seed);
diag("RPQ_SEED=$seed");
$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', q{
	CREATE EXTENSION rpq;
	SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_instance_type('g8', 'gpu', 'gpu=8'),
		rpq.create_account('u1');
	SELECT rpq.add_nodes('g8', count => 6, prefix => 'n')});

my $busy = '(SELECT DISTINCT p.node FROM rpq.pods AS p)';

# Each is asked for with the worker stopped; before: what has to be done first.
my @operations = (
	{ call => "rpq.create_pool('x', 'dedicated', quota => 'gpu=8')", tables => [qw(operation node history operation_pool)] },
	{ call => "rpq.rename_pool('x', 'y')", tables => [qw(operation pool history)] },
	{ call => "rpq.convert_pool('y', 'exclusive')", tables => [qw(operation pool history operation_pool)] },
	{ call => "rpq.resize_pool('y', quota => 'gpu=16')", tables => [qw(operation node pool_capacity history operation_pool)] },
	{   before => q{SELECT rpq.authorize('y', ARRAY['u1']);
			SELECT rpq.submit('y', workload_type => 'training', resources => 'gpu=2', account => 'u1') FROM generate_series(1, 3)},
		ready => "SELECT count(*) = 3 FROM rpq.workloads WHERE pool = 'y' AND status = 'starting'",
		call => "rpq.drain_node($busy)",
		tables => [qw(operation pod_migration node hold pod entry node_load history operation_pool)],
		after => "SELECT rpq.uncordon_node(name) FROM rpq.nodes WHERE pool = 'y' AND NOT schedulable" },
	{ call => "rpq.move_nodes(ARRAY[$busy], to_pool => 'c1-gpu', evacuate => true)",
		tables => [qw(operation pod_migration node hold pod entry migration history)] },
	{   before => "SET rpq.synchronous_operations = on; SELECT rpq.resize_pool('y', quota => 'gpu=16')",
		ready => "SELECT total::text = 'gpu=16' FROM rpq.pools WHERE name = 'y'",
		call => "rpq.resize_pool('y', remove_nodes => ARRAY[$busy], evacuate => true)",
		tables => [qw(operation pod_migration node hold pod entry node_load pool_capacity history)] },
	{ call => "rpq.delete_pool('y', force => true)",
		tables => [qw(operation workload entry pod node member pool history operation_pool)] });

# The worker, stopped between two cycles; its pid.
sub stop_worker
{
	for (1 .. 400)
	{
		my $pid = $node->safe_psql('app', "SELECT pid $worker");

		sleep 0.05;
		next unless $pid;
		kill 'STOP', $pid;
		sleep 0.01;
		return $pid if $node->safe_psql('app', "SELECT state = 'idle' AND xact_start IS NULL $worker AND pid = $pid") eq 't';
		kill 'CONT', $pid;
	}
	die 'there is no idle worker';
}

sub figures
{
	return $node->safe_psql('app', q{
		SELECT (SELECT count(*) FROM rpq.nodes), (SELECT rpq.sum(total) FROM rpq.pools),
			(SELECT rpq.sum(used) FROM rpq.pools), (SELECT count(*) FROM rpq_store.pod)});
}

# One operation with a death at its first write to the table.  Killed: the server goes through crash recovery.
sub die_at
{
	my ($operation, $table, $killed) = @_;
	my $what = ($killed ? 'kill -9' : 'terminate') . " at $table: $operation->{call}";
	my $pid = stop_worker();
	my $id = $node->safe_psql('app', "SELECT $operation->{call}");
	my $blocker = $node->background_psql('app', on_error_stop => 0);

	$blocker->query_safe("BEGIN; LOCK TABLE rpq_store.$table IN SHARE MODE");
	kill 'CONT', $pid;
	my $met = until_true($node, 'app', "SELECT EXISTS (SELECT $worker AND wait_event_type = 'Lock')
		OR EXISTS (SELECT FROM rpq.operations WHERE operation_id = $id AND status NOT IN ('pending', 'running'))", 10);
	ok($met, "$what: the worker comes there, or never needs it");
	if ($killed)
	{
		kill 'KILL', $pid;
		until_true($node, 'app', "SELECT NOT EXISTS (SELECT $worker AND pid = $pid)", 30);
	}
	else
	{
		$node->safe_psql('app', "SELECT pg_terminate_backend($pid)");
		until_true($node, 'app', "SELECT NOT EXISTS (SELECT $worker AND pid = $pid)", 10);
	}
	eval { $blocker->query('ROLLBACK') } unless $killed;
	eval { $blocker->quit };
	ok(until_true($node, 'app', "SELECT status = 'succeeded' FROM rpq.operations WHERE operation_id = $id", 45), "$what: it ends")
		or diag($node->safe_psql('app', "SELECT * FROM rpq.operations WHERE operation_id = $id"));
	return $what;
}

sub run_operation
{
	my ($operation, $table, $killed) = @_;

	if ($operation->{before})
	{
		$node->safe_psql('app', $operation->{before});
		until_true($node, 'app', $operation->{ready}, 10);
	}
	my $what = die_at($operation, $table, $killed);

	$node->safe_psql('app', $operation->{after}) if $operation->{after};
	is($node->safe_psql('app', "SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')"), '0', "$what: none is open");
	is($node->safe_psql('app', 'SELECT count(*) FROM rpq_store.hold WHERE purpose = $$move$$'), '0', "$what: nothing is kept");
	is(violations($node, 'app'), '', "$what: sound");
	like(figures(), qr/^6\|gpu=48\|gpu=[06]\|[03]$/, "$what: every sum is as before");
	return;
}

for my $round (1 .. long_or_short(9, 1))
{
	my $which = int rand @operations;

	for my $n (0 .. $#operations)
	{
		my @tables = @{ $operations[$n]{tables} };

		run_operation($operations[$n], $tables[ rand @tables ], $n == $which || ($ENV{RPQ_LONG} // '') eq '1' && rand() < 0.5);
	}
	is($node->safe_psql('app', "SELECT string_agg(name || ' ' || total, ', ') FROM rpq.pools"), 'c1-gpu gpu=48', 'all is back');
}
is($node->safe_psql('app', "SELECT count(*) FROM rpq.operation_history WHERE action IN ('rename_pool', 'convert_pool')"),
	2 * long_or_short(9, 1), 'each is recorded once');

# who is connected has no part in it
my $pid = stop_worker();
my $id = $node->safe_psql('app', "SELECT $operations[0]{call}");
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
kill 'CONT', $pid;
ok(until_true($node, 'app', "SELECT status = 'succeeded' FROM rpq.operations WHERE operation_id = $id", 10), 'carried out without any client');
is(violations($node, 'app'), '', 'sound');
$node->stop;
done_testing();

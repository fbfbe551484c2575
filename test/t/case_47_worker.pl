# Field case F47: the worker goes away in the middle of an operation (terminated, killed, or all clients dropped); another
# ends it, once.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = rpq_node('case47', databases => 'app', conf => "rpq.cycle_interval = 200ms\nrestart_after_crash = on");
my $resize = "rpq.resize_pool(pool => 'd1', quota => 'gpu=16')";
my $evacuate = "rpq.resize_pool(pool => 'd1', quota => 'gpu=16', evacuate => true)";

{
	no warnings 'redefine';
	*PostgreSQL::Test::BackgroundPsql::note = sub { };
}

sub sql { return $node->safe_psql('app', $_[0]); }

sub sums { return sql("SELECT string_agg(name || ' ' || (total OPERATOR(rpq.->) 'gpu'), ', ' ORDER BY name DESC) FROM rpq.pools"); }

# d1 holds n1 with 4 in use; the shared pool n2 with 4 in use and n3, idle, or with 4 in use as well.
sub fresh
{
	my ($idle) = @_;

	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS app WITH (FORCE)');
	$node->safe_psql('postgres', 'CREATE DATABASE app');
	sql('CREATE EXTENSION rpq');
	ok(until_true($node, 'app', "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running' AND cycles > 0", 45), 'a worker is there');
	$node->safe_psql('app', "BEGIN; SET rpq.synchronous_operations = on;
		SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_instance_type('g8', 'gpu', 'gpu=8,cpu=96');
		SELECT rpq.create_account('u1'), rpq.create_account('u2');
		SELECT rpq.add_nodes('g8', names => '{n1,n2,n3}');
		SELECT rpq.create_pool('d1', 'dedicated', nodes => '{n1}');
		SELECT rpq.authorize('d1', '{u1}');
		SELECT rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=4', account => 'u1'),
			rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=4', account => 'u2', name => 'x');
		SELECT FROM rpq.schedule();
		COMMIT");
	if (!$idle)
	{
		# another 4 on the other node: what fills the first up is stopped
		sql("BEGIN; SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=4', account => 'u2', name => 'filler');
			SELECT FROM rpq.schedule();
			SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=4', account => 'u2', name => 'y');
			SELECT FROM rpq.schedule();
			SELECT rpq.report_finished(workload_id) FROM rpq.workloads WHERE name = 'filler';
			COMMIT");
		ok(until_true($node, 'app', "SELECT string_agg((used OPERATOR(rpq.->) 'gpu')::text, ' ' ORDER BY name) = '4 4 4' FROM rpq.nodes", 10),
			'each node has 4 in use');
	}
	return;
}

sub worker_pid { return sql("SELECT pid FROM rpq.workers WHERE state = 'running'"); }

# The worker stands in the middle of the operation: it waits for a table that the locker holds.
sub in_the_middle
{
	my ($call, $table) = @_;
	my $locker = $node->background_psql('app', on_error_stop => 0);

	$locker->query_safe("BEGIN; LOCK TABLE rpq_store.$table IN SHARE MODE");
	# what the call itself writes is not held
	my $id = sql("SELECT $call");
	ok(until_true($node, 'app', "SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE a.backend_type = 'rpq worker' AND NOT l.granted AND l.relation = 'rpq_store.$table'::regclass", 20), "the worker is in the middle of it, at $table");
	return ($id, $locker);
}

sub ended
{
	my ($what, $id, $old_pid, $since) = @_;

	ok(until_true($node, 'app', "SELECT status IN ('succeeded', 'failed') FROM rpq.operations WHERE operation_id = $id", 45 - (time - $since)),
		"$what: the operation ends");
	ok(until_true($node, 'app', "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running'" . ($old_pid ? " AND pid <> $old_pid" : ''), 45 - (time - $since)),
		"$what: another worker is there");
	my $took = time - $since;
	cmp_ok($took, '<', 45, "$what: within 45 s ($took)");
	my $last = sql('SELECT last_cycle FROM rpq.workers');
	ok(until_true($node, 'app', "SELECT last_cycle > '$last' FROM rpq.workers", 5), "$what: it goes on");
	is(sql("SELECT status FROM rpq.operations WHERE operation_id = $id") . ': ' . sums(), 'succeeded: d1 16, c1-gpu 8', "$what: done");
	is(sql("SELECT count(*) FROM rpq.operation_history WHERE operation_id = $id AND object_kind = 'pool' AND object = 'd1'"), '1', "$what: told once");
	is(sql("SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')"), '0', "$what: none is open");
	is(sql("SELECT string_agg(status, ' ') FROM (SELECT DISTINCT status FROM rpq.pools) x"), 'ready', "$what: the pools are ready");
	is(sql("SELECT count(*) FILTER (WHERE status IN ('starting', 'running')) - count(*) FROM rpq.workloads"), '0', "$what: all work runs");
	$id = sql("SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=8')");
	ok(until_true($node, 'app', "SELECT status = 'succeeded' FROM rpq.operations WHERE operation_id = $id", 20), "$what: a later resize is carried out");
	is(sums(), 'd1 8, c1-gpu 16', "$what: d1 8, c1-gpu 16");
	is(violations($node, 'app'), '', "$what: sound");
	return;
}

my %end = (
	'terminated' => sub { my ($pid) = @_; sql("SELECT pg_terminate_backend($pid, 5000)"); },
	'killed' => sub { my ($pid) = @_; kill 'KILL', $pid; });

for my $what (sort keys %end)
{
	for my $staged (0, 1)
	{
		my $name = "$what, " . ($staged ? 'staged' : 'atomic');

		fresh(!$staged);
		my ($id, $locker) = in_the_middle($staged ? ($evacuate, 'pod') : ($resize, 'history'));
		my $pid = worker_pid();
		my $since = time;
		is(sums(), 'd1 8, c1-gpu 16', "$name: nothing is half done");
		$end{$what}->($pid);
		if ($what eq 'killed')
		{
			eval { $locker->{run}->kill_kill };
			until_true($node, 'app', 'SELECT true', 30);
		}
		else
		{
			is(sums(), 'd1 8, c1-gpu 16', "$name: nor after it");
			is(violations($node, 'app'), '', "$name: sound in between");
			$locker->query_safe('ROLLBACK');
			$locker->quit;
		}
		ended($name, $id, $pid, $since);
		cmp_ok(sql("SELECT attempts FROM rpq.operations WHERE operation_id = $id"), '>=', $staged ? 2 : 1, "$name: attempts");
	}
}

# All clients are dropped, the one that asked among them, and one that carries an operation out itself.
fresh(1);
my ($id, $locker) = in_the_middle($resize, 'history');
my $since = time;
sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
eval { $locker->{run}->kill_kill };
ended('clients dropped', $id, undef, $since);

fresh(1);
$locker = $node->background_psql('app', on_error_stop => 0);
$locker->query_safe('BEGIN; LOCK TABLE rpq_store.history IN SHARE MODE');
my $client = IPC::Run::start([ 'psql', '-Xq', '-h', $node->host, '-p', $node->port, '-d', 'app', '-c',
		"SET application_name = 'client'; SET rpq.synchronous_operations = on", '-c', "SELECT $resize" ], '<', \undef, '>', \my $out, '2>', \my $err);
ok(until_true($node, 'app', "SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'client' AND NOT l.granted", 20),
	'a client is in the middle of it');
sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'client'");
sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
eval { $client->finish };
eval { $locker->{run}->kill_kill };
sleep 1;
is(sums() . ' ' . sql("SELECT count(*) FROM rpq.operations WHERE kind = 'resize'") . ' ' . sql("SELECT status FROM rpq.pools WHERE name = 'd1'"),
	'd1 8, c1-gpu 16 0 ready', 'what a client carries out itself goes with it');
is(violations($node, 'app'), '', 'sound');
unlike(slurp_file($node->logfile), qr/deadlock detected|PANIC/, 'no deadlock, no panic in the log');
$node->stop;
done_testing();

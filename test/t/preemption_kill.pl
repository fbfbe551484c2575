# kill -9 between the decision to preempt and the victim's stop: of the worker, and of the whole server.  Afterwards the
# room is still held, the victim is still told to stop, and once it has, the preemptor starts; nothing happens twice.
# A worker that is killed in the middle of the cycle that decides, or that settles, leaves either the cycle before or the
# one after.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep);

my $node = rpq_node('preempt', databases => 'app',
	conf => "rpq.cycle_interval = 100ms\nrestart_after_crash = on\nrpq.preemption_grace = 600s");
my $worker = "FROM pg_stat_activity WHERE backend_type = 'rpq worker' AND datname = 'app'";

$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', q{
	CREATE EXTENSION rpq;
	SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1'), rpq.create_instance_type('g8', 'gpu', 'gpu=8'),
		rpq.create_account('u1');
	SELECT rpq.add_nodes('g8', names => ARRAY['n1'])});

sub value { return $node->safe_psql('app', shift); }

sub poll
{
	my ($query, $what) = @_;

	ok(until_true($node, 'app', $query, 60), $what);
	return;
}

# The worker's cycle comes to a table that somebody keeps from it, and is killed there.
sub kill_at
{
	my ($table, $begin) = @_;
	my $blocker = $node->background_psql('app', on_error_stop => 0);
	my $waits = "SELECT EXISTS (SELECT $worker AND wait_event_type = 'Lock')";
	my $pid = value("SELECT pid $worker");

	$blocker->query_safe("BEGIN; LOCK TABLE rpq_store.$table IN SHARE MODE");
	value($begin) if defined $begin;
	ok(until_true($node, 'app', $waits, 30), "a cycle has come to $table");
	kill 'KILL', $pid;
	until_true($node, 'app', "SELECT NOT EXISTS (SELECT $worker AND pid = $pid)", 30);
	eval { $blocker->quit };
	poll("SELECT count(*) = 1 $worker", 'a worker comes back');
	return;
}

sub state
{
	return value(q{SELECT string_agg(format('%s %s/%s', w.name, CASE w.status WHEN 'starting' THEN 'running' ELSE w.status END,
		w.preemptions), ', ' ORDER BY w.workload_id) FROM rpq.workloads w});
}

sub whole
{
	my ($what) = @_;

	is(value('SELECT string_agg(c::text, chr(10)) FROM rpq.check_integrity() c'), '', "$what: check_integrity() is empty");
	return;
}

poll("SELECT count(*) = 1 $worker", 'a worker runs');
value(q{SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=8', account => 'u1', priority => 10, name => 'low')});
poll(q{SELECT count(*) = 1 FROM rpq.pods}, 'the victim is placed');
my $pod = value('SELECT pod_id FROM rpq.pods');

value(q{SELECT * FROM rpq.sync_node('n1')});
value("SELECT * FROM rpq.sync_node('n1', ARRAY[$pod])");
poll(q{SELECT status = 'running' FROM rpq.workloads}, 'it runs');

# the decision
kill_at('preemption', q{SELECT rpq.submit('c1-gpu', workload_type => 'training', resources => 'gpu=8', account => 'u1', priority => 90, name => 'high')});
poll(q{SELECT count(*) = 1 FROM rpq_store.hold WHERE purpose = 'preempt'}, 'room is held');
is(value('SELECT count(*) FROM rpq.preemptions'), 1, 'one decision');
is(state(), 'low running/0, high queued/0', 'the victim has still to stop');
whole('decided');

# between decision and stop: the whole server
$node->stop('immediate');
$node->start;
poll("SELECT count(*) = 1 $worker", 'a worker runs');
is(value("SELECT string_agg(action || ' ' || pod, ', ') FROM rpq.sync_node('n1', ARRAY[$pod])"), "stop $pod", 'the victim is told to stop');
sleep 0.5;
is(state(), 'low running/0, high queued/0', 'and the preemptor waits');
is(value(q{SELECT reason_code FROM rpq.workloads WHERE name = 'high'}), 'preempting', 'for that');
is(value('SELECT count(*) FROM rpq.preemptions'), 1, 'one decision still');
whole('after a crash');

# the stop: killed while it writes
kill_at('node_load', qq{SELECT * FROM rpq.sync_node('n1', finished => '[{"pod": $pod, "outcome": "stopped", "detail": "saved"}]')});
poll(q{SELECT count(*) = 1 FROM rpq.workloads WHERE name = 'high' AND status = 'starting'}, 'the preemptor starts');
is(state(), 'low queued/1, high running/0', 'the victim waits');
is(value(q{SELECT string_agg(format('%s %s', event, coalesce(e.detail, '-')), ', ') FROM rpq.workload_events e JOIN rpq.workloads w USING (workload_id)
	WHERE w.name = 'low' AND event = 'preempted'}), 'preempted saved', 'one event');
is(value(q{SELECT string_agg(state, ' ') FROM rpq.preemptions}), 'stopped', 'one row');
is(value('SELECT count(*) FROM rpq_store.hold'), 0, 'nothing is held any more');
whole('at the end');
$node->stop;
done_testing();

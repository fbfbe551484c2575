# kill -9 at random points under load: of the whole server, or of one of its processes.  After each restart nothing that
# a client was told is lost, nothing is held twice, and the worker goes on.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = $ENV{RPQ_SEED} // time;
my $clients = 6;
my $node = rpq_node('crash', databases => 'app', conf => "rpq.cycle_interval = 200ms\nrestart_after_crash = on");
my $folder = $node->basedir;

srand($seed);
diag("RPQ_SEED=$seed");

# One client's statements.  What it was told stands in its output: S id, a submission; E id, an end.
sub load_script
{
	my ($file, $round, $client) = @_;
	my $text = "\\pset format unaligned\n\\pset tuples_only on\n\\pset fieldsep ' '\n";
	my $placed = "(SELECT workload_id FROM rpq_store.workload WHERE status IN ('starting', 'running')
		ORDER BY random() LIMIT 1) AS w";
	my $queued = "(SELECT workload_id FROM rpq_store.workload WHERE status = 'queued' ORDER BY random() LIMIT 1) AS w";

	for my $n (1 .. 3000)
	{
		my $dice = rand;
		my $account = 1 + int rand 4;
		my $submit = sprintf q{rpq.submit(pool => '%s', account => 'u%d', workload_type => 'training', resources => '%s',
			replicas => %d, request_id => 'r%d-%d-%d')}, $account < 3 ? 'd1' : 'c1-gpu', $account,
			('gpu=0.5', 'gpu=1,cpu=2', 'gpu=2', 'cpu=3')[ rand 4 ], 1 + int rand 3, $round, $client, $n;

		if ($dice < 0.4)
		{
			$text .= "SELECT 'S', $submit;\n";
		}
		elsif ($dice < 0.5)
		{
			(my $other = $submit) =~ s/request_id => '/request_id => 'lost-/;
			$text .= "BEGIN;\nSELECT $submit AS id \\gset\nSAVEPOINT a;\nSELECT $other AS lost \\gset\n"
				. "ROLLBACK TO a;\nCOMMIT;\n\\echo S :id\n";
		}
		elsif ($dice < 0.8)
		{
			$text .= "SELECT 'E', workload_id FROM $placed WHERE rpq.report_finished(workload_id);\n";
		}
		elsif ($dice < 0.85)
		{
			$text .= "SELECT rpq.report_started(workload_id) FROM $placed \\g /dev/null\n";
		}
		elsif ($dice < 0.92)
		{
			$text .= "SELECT 'E', workload_id FROM $queued WHERE rpq.stop(workload_id);\n";
		}
		else
		{
			$text .= sprintf "SELECT public.edit(workload_id, %d) FROM $queued \\g /dev/null\n", rand 50;
		}
	}
	append_to_file($file, $text);
	return;
}

sub children_of
{
	my ($parent) = @_;
	my @children;

	for my $file (glob '/proc/[0-9]*/stat')
	{
		open my $stat, '<', $file or next;    # gone by now
		my $line = <$stat> // '';

		push @children, $1 if $line =~ /^(\d+) \(.*\) \S+ (\d+)/ && $2 == $parent;
	}
	return @children;
}

sub postmaster
{
	return (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
}

# The server, all of it, or one process of it, whichever.
sub kill_something
{
	my ($all) = @_;
	my $postmaster = postmaster();
	my @children = children_of($postmaster);

	if ($all)
	{
		kill 'KILL', $postmaster, @children;
		waitpid $postmaster, 0;
		sleep 0.1 while grep { kill 0, $_ } @children;
		return;
	}
	kill 'KILL', $children[ rand @children ];
	return;
}

# What clients were told, as lines of ids.
sub told
{
	my ($letter, @files) = @_;

	return map { my $text = slurp_file($_); $text =~ /^$letter (\d+)$/mg } @files;
}

sub one_round
{
	my ($round) = @_;
	my @outs;
	my @running;

	for my $client (1 .. $clients)
	{
		my $name = "$folder/load-$round-$client";

		load_script("$name.sql", $round, $client);
		push @outs, "$name.out";
		push @running, IPC::Run::start([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-h', $node->host, '-p', $node->port,
			'-d', 'app', '-f', "$name.sql" ], '<', '/dev/null', '>', "$name.out", '2>', "$name.err");
	}
	sleep 0.4 + rand 2;
	my $all = $round % 2;
	kill_something($all);
	$_->finish foreach @running;
	if ($all)
	{
		$node->{_pid} = undef;
		$node->start;
	}
	until_true($node, 'app', 'SELECT true', 30);

	my $what = "round $round, " . ($all ? 'the server' : 'one process');
	is(violations($node, 'app'), '', "$what: sound");
	my @refused = grep { /ERROR/ } map { slurp_file($_) } glob "$folder/load-$round-*.err";
	is("@refused", '', "$what: no client met an error before");

	my ($submitted, $ended) = map { join ',', told($_, @outs) } qw(S E);
	cmp_ok(scalar(told('S', @outs)), '>', 0, "$what: there was load");
	is($node->safe_psql('app', "SELECT count(*) FROM unnest('{$submitted}'::bigint[]) AS s (id)
		WHERE NOT EXISTS (SELECT FROM rpq_store.workload w JOIN rpq_store.entry e ON e.workload_id = w.workload_id
			WHERE w.workload_id = s.id AND e.kind = 'enqueue')"), '0', "$what: every submission is there");
	is($node->safe_psql('app', "SELECT count(*) FROM unnest('{$ended}'::bigint[]) AS s (id)
		WHERE (SELECT count(*) FROM rpq_store.entry e WHERE e.workload_id = s.id AND e.kind IN ('release', 'withdraw')
				AND e.status IN ('succeeded', 'failed', 'stopped')) <> 1
		   OR NOT EXISTS (SELECT FROM rpq_store.workload w WHERE w.workload_id = s.id AND w.ended_at IS NOT NULL)"), '0',
		"$what: every end is there, once");
	is($node->safe_psql('app', "SELECT count(*) FROM rpq_store.workload WHERE request_id ~ '^lost'"), '0',
		"$what: nothing that was rolled back");
	ok(until_true($node, 'app', "SELECT count(*) = 1 FROM rpq.workers WHERE state = 'running' AND cycles > 0", 20)
		&& until_true($node, 'app', "SELECT count(*) = 0 FROM rpq_store.uncounted WHERE resources IS NOT NULL OR waiting <> 0", 20),
		"$what: the worker goes on");
	is(violations($node, 'app'), '', "$what: still sound");
	unlink glob "$folder/load-$round-*";
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', 'CREATE EXTENSION rpq');
seed($node, 'app');
# a cycle may have admitted it meanwhile
$node->safe_psql('app', q{CREATE FUNCTION public.edit(id bigint, priority int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN PERFORM rpq.edit_workload(id, priority => edit.priority);
	EXCEPTION WHEN object_not_in_prerequisite_state OR SQLSTATE 'RQ008' THEN END $$});
one_round($_) foreach 1 .. long_or_short(50, 5);

# Everything ends: then nothing is held.
$node->safe_psql('app', q{
	SELECT rpq.stop(workload_id) FROM rpq_store.workload WHERE ended_at IS NULL});
$node->safe_psql('app', 'SELECT FROM rpq.schedule(); SELECT rpq.stop(workload_id) FROM rpq_store.workload WHERE ended_at IS NULL;
	SELECT FROM rpq.schedule()');
is($node->safe_psql('app', "SELECT count(*) FILTER (WHERE l.pods > 0 OR l.used::text ~ '[1-9]') FROM rpq_store.node_load l"), '0',
	'in the end no node holds anything');
is($node->safe_psql('app', "SELECT count(*) FROM rpq_store.usage WHERE amount::text ~ '[1-9]'"), '0', 'nor does an account');
is($node->safe_psql('app', 'SELECT count(*) FROM rpq_store.pod'), '0', 'there are no pods');
is(violations($node, 'app'), '', 'sound');
unlike(slurp_file($node->logfile), qr/deadlock detected|PANIC/, 'no deadlock, no panic in the log');
$node->stop;

done_testing();

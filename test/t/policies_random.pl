# Random histories of policies, queues, groups, priorities, guarantees, gangs, executors and operations, from several
# sessions at once and the worker; then only work, without changes of settings; then the same while the server's processes
# are killed.  test/lib/random_policies.sql says what is done and what must hold; a session at REPEATABLE READ looks at it
# throughout.  RPQ_LONG=1: ten kills, ten minutes.  RPQ_SEED sets the seed, which is printed.
# RPQ_SHARING=0: without idle-time sharing of the exclusive pools.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = $ENV{RPQ_SEED} // int rand 100000;
my $sessions = long_or_short(6, 4);
my @levels = ('read committed', 'repeatable read', 'read committed', 'serializable');
my $node = rpq_node('policies_random', conf => "restart_after_crash = on\nrpq.preemption_grace = 1s\n"
	. "rpq.node_timeout = 4s\nrpq.cycle_interval = 200ms");
my $lib = "$ENV{RPQ_ROOT}/test/lib";
my $round = 0;
my @running;

srand($seed);
diag("RPQ_SEED=$seed");

# The answer, or how it failed.
sub ask
{
	my ($rc, $out, $err) = $node->psql('app', $_[0]);

	return $out . $err;
}

# A session of its own; what it says to its error output is kept.
sub session
{
	my ($level, $synchronous, $call) = @_;
	my $said = '';

	$level =~ s/ /\\ /g;
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$level -c rpq.synchronous_operations=$synchronous";
	push @running, [ \$said, IPC::Run::start([ 'psql', '-Xq', '-v', 'VERBOSITY=terse', '-h', $node->host, '-p', $node->port,
			'-d', 'app', '-c', $call ], '<', \undef, '>', '/dev/null', '2>', \$said) ];
	return;
}

# All sessions, for so many seconds.
sub drive
{
	my ($seconds) = @_;

	$round++;
	@running = ();
	session($levels[ ($_ - 1) % 4 ], $_ % 3 ? 'off' : 'on',
		"CALL rt.drive($_, " . ($seed + 1000 * $round + $_) % 1000003 / 1000003.0 . ", $seconds)") foreach 1 .. $sessions;
	session('read committed', 'off', "CALL rt.execute($seconds)");
	session('repeatable read', 'off', "CALL rt.check($seconds)");
	return;
}

# Waits for the sessions; what they said.
sub driven
{
	my $said = '';

	foreach my $one (@running)
	{
		eval { $one->[1]->finish };
		$said .= ${ $one->[0] };
	}
	@running = ();
	return $said;
}

sub faults
{
	my $faults = ask('SELECT session, state, call, message FROM rt.fault ORDER BY at LIMIT 20');

	ask('DELETE FROM rt.fault');
	return $faults;
}

# 55P03: the worker gives a lock up soon, and tries again.
sub sound
{
	my ($what) = @_;

	is(faults(), '', "$what: no call failed with what the contract does not know, nothing was ever out of balance");
	is(ask('SELECT rpq.check_integrity()'), '', "$what: check_integrity() is empty");
	is(ask('SELECT rt.oracle()'), '', "$what: so says a second opinion");
	is(ask("SELECT last_error FROM rpq.workers WHERE last_error !~ '^(57P0|55P03)'"), '', "$what: the worker met no error");
	return;
}

# Nobody but the executor and the worker does anything: then all comes to rest, and stays so.
sub rests
{
	my ($what) = @_;

	session('read committed', 'off', 'CALL rt.rest(12)');
	is(driven(), '', "$what: executors answer");
	is(ask('SELECT rt.restless()'), '', "$what: it comes to rest");
	is(ask('SELECT rt.ends()'), '', "$what: each attempt has one end");
	sound("$what, at rest");
	return;
}

# The server, all of it, or one process of it, whichever.
sub kill_something
{
	my ($all) = @_;
	my $postmaster = (split /\n/, slurp_file($node->data_dir . '/postmaster.pid'))[0];
	my @children = map { /^(\d+)/ } grep { (split ' ', s/\(.*\)/x/r)[3] == $postmaster }
		map { eval { slurp_file($_) } // '0 x 0 0' } glob '/proc/[0-9]*/stat';

	if ($all)
	{
		kill 'KILL', $postmaster, @children;
		waitpid $postmaster, 0;
		sleep 0.1 while grep { kill 0, $_ } @children;
		$node->{_pid} = undef;
		$node->start;
	}
	else
	{
		kill 'KILL', $children[ rand @children ];
	}
	until_true($node, 'app', 'SELECT true', 60);
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', 'CREATE EXTENSION rpq');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'app', map({ ('-f', "$lib/$_.sql") } qw(cases random_ops
	random_operations random_policies)), '-c', 'UPDATE rt.mode SET sharing = ' . (($ENV{RPQ_SHARING} // '1') eq '0' ? 'false' : 'true'),
		'-c', 'SET rpq.synchronous_operations = on', '-c', 'CALL rt.found()' ], 'set up');
$node->safe_psql('postgres', "ALTER SYSTEM SET rpq.databases = 'app'");
$node->reload;

# Everything changes.
drive(long_or_short(150, 5));
is(driven(), '', 'no session failed');
rests('everything changes');

# Settings as they were, and no changes of them: nobody takes from whom it lost to.
ask('CALL rt.reset()');
drive(long_or_short(150, 5));
is(driven(), '', 'no session failed');
is(ask('SELECT rt.each_other()'), '', 'without changes: no pair took from each other without a reason from outside');
cmp_ok(ask("SELECT count(*) FROM rpq_store.preemption WHERE state = 'stopped'"), '>', long_or_short(200, 3), 'there were preemptions');
rests('only work');
ask('UPDATE rt.mode SET config = true');

for my $kill (1 .. long_or_short(10, 1))
{
	my $all = $kill % 2;

	drive(120);
	sleep long_or_short(8, 1.5) + rand 2;
	kill_something($all);
	driven();
	sound("kill $kill of " . ($all ? 'the server' : 'a process'));
	rests("kill $kill");
}

foreach my $line (split /\n/, ask(q{SELECT call || ': ' || string_agg(state || ' ' || n, ', ' ORDER BY state)
	FROM (SELECT call, state, sum(n) n FROM rt.tally GROUP BY 1, 2) x GROUP BY call ORDER BY call})
	. "\n" . ask(q{SELECT 'preemptions: ' || string_agg(rule || ' ' || state || ' ' || n, ', ' ORDER BY rule, state)
	FROM (SELECT rule, state, count(*) n FROM rpq_store.preemption GROUP BY 1, 2) x}))
{
	diag($line);
}

# All work ends, and nothing is left.
ask('CALL rt.end_all()');
session('read committed', 'off', 'CALL rt.rest(6)');
is(driven(), '', 'all work is stopped');
is(ask('SELECT rt.left_over()'), '', 'nothing is used, held, pending or open');
is(ask('SELECT rt.ends()'), '', 'in the end each attempt has one end');
sound('the end');
unlike(slurp_file($node->logfile), qr/deadlock detected|PANIC|TRAP|signal 11/, 'no deadlock, no crash in the log');
$node->stop;
done_testing();

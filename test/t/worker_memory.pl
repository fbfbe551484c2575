# The worker's memory does not grow with the number of its cycles: those with nothing to do and those that admit,
# 100,000 of them in `make test-long`.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'no /proc on this system' unless -r "/proc/$$/status";

my $cycles = long_or_short(100_000, 1_000);
my $node = rpq_node('memory', databases => 'app',
	conf => "fsync = off\nsynchronous_commit = off\nrpq.cycle_gap = 0\nrpq.cycle_interval = 10ms");

$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', "CREATE EXTENSION rpq;
	SELECT rpq.create_tenant('t'), rpq.create_cluster('c'), rpq.create_workload_type('batch', tenant => 't'),
		rpq.create_instance_type('g8', 'gpu', 'gpu=8,cpu=192,memory=2Ti'), rpq.create_account('a', tenant => 't');
	SELECT rpq.add_nodes('g8', count => 100, prefix => 'n', tenant => 't');");

# A submission that is placed, one that waits, and the end of an earlier one, over and over, each with its commit.
my $script = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
append_to_file($script, q{SELECT rpq.submit('t/c-gpu', workload_type => 'batch', resources => 'gpu=1,cpu=2') AS one \gset
SELECT rpq.submit('t/c-gpu', workload_type => 'batch', resources => 'gpu=8', replicas => 100) AS two \gset
SELECT rpq.stop(:two);
SELECT rpq.stop(:last);
\set last :one
SELECT rpq_store.wake();
});
$ENV{PGOPTIONS} = '-c rpq.account=a';
my $first = $node->safe_psql('app', "SELECT rpq.submit('t/c-gpu', workload_type => 'batch', resources => 'gpu=1')");

my $pid;
for (1 .. 100)
{
	last if ($pid = (worker())[1]);
	sleep 0.1;
}

sub worker
{
	delete local $ENV{PGOPTIONS};
	return split /\|/, $node->safe_psql('app', 'SELECT cycles, pid FROM rpq.workers');
}

# Private memory in kB; what is shared with other processes depends on which pages were touched.
sub memory
{
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
	return $kb;
}

sub run_cycles
{
	my ($until) = @_;
	while (1)
	{
		my ($done, $now) = worker();
		return $now == $pid if $done >= $until || $now != $pid;
		run_log([ 'pgbench', '-n', '-M', 'prepared', '-c', '2', '-T', '2', '-D', "last=$first", '-f', $script,
			'-h', $node->host, '-p', $node->port, 'app' ]) or return 0;
	}
}

my ($begin) = worker();
# Plans, caches and the allocator's reserves are there after the first part.
ok(run_cycles($begin + $cycles / 10), 'the same worker, a tenth of the cycles');
my $early = memory();
ok(run_cycles($begin + $cycles), 'the same worker, all of them');
my $late = memory();
my ($end) = worker();
note(sprintf('%d cycles; private memory %d kB after a tenth, %d kB at the end', $end - $begin, $early, $late));
cmp_ok($late, '<', $early + 2048, 'the memory has not grown');
$node->stop;
done_testing();

# RpqTest: clusters with rpq for the TAP scripts in Perl, and the size of a repeated test.
package RpqTest;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(rpq_node long_or_short);

# rpq_node($name, databases => '*', preload => 'rpq', conf => "...", start => 1, has_streaming => 1): a node of
# PostgreSQL::Test::Cluster, initialised, started unless start => 0.  No worker runs unless databases says so.
sub rpq_node
{
	my ($name, %arg) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $preload = $arg{preload} // 'rpq';

	$node->init(allows_streaming => $arg{has_streaming});
	$node->append_conf('postgresql.conf', "shared_preload_libraries = '$preload'") if $preload;
	$node->append_conf('postgresql.conf', "rpq.databases = '" . ($arg{databases} // '') . "'") if $preload;
	$node->append_conf('postgresql.conf', "max_worker_processes = 20\nmax_connections = 100\nlog_statement = none\njit = off");
	$node->append_conf('postgresql.conf', $arg{conf}) if defined $arg{conf};
	$node->start if $arg{start} // 1;
	return $node;
}

# How often a random or destructive test is repeated: the second in `make test`, the first in `make test-long`.
sub long_or_short
{
	my ($long, $short) = @_;
	return ($ENV{RPQ_LONG} // '') eq '1' ? $long : $short;
}

1;

# Operations killed at each step, and at each table that a step writes.  The tables are locked, so that who carries the
# operation out stops at the first that it writes; it is killed there, that table is let go, and so on to the commit.
# After each kill the sums are conserved and the operation is open; another process ends it, once.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use RpqLife;
use RpqTest;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{RPQ_SEED} // time;
my $node = rpq_node('kill_steps', conf => "restart_after_crash = on\nrpq.cycle_interval = 200ms\nautovacuum = off");
my $lib = "$ENV{RPQ_ROOT}/test/lib";
my $faults = 0;

srand($seed);
diag("RPQ_SEED=$seed");

# name, call, live workloads at its end, and the pools then.  d2 has faulty-node rotation: an unhealthy node starts it.
my @kinds = (
	[ 'create', "rpq.create_pool(name => 'd3', type => 'dedicated', quota => 'gpu=8')", 7,
		qr/^c1-gpu shared: n6=4 n7=4, d1 dedicated: n1=4 n2=4 n3=2, d2 exclusive: n4=4 n5=4, d3 dedicated: n8=0$/ ],
	[ 'rename', "rpq.rename_pool(pool => 'd1', name => 'e1')", 7, qr/, e1 dedicated: n1=4 n2=4 n3=2$/ ],
	[ 'convert', "rpq.convert_pool(pool => 'd1', type => 'exclusive')", 7, qr/, d1 exclusive: n1=4 n2=4 n3=2,/ ],
	[ 'delete', "rpq.delete_pool(pool => 'd1', force => true)", 4,
		qr/^c1-gpu shared: n1=0 n2=0 n3=0 n6=4 n7=4 n8=0, d2 exclusive: n4=4 n5=4$/ ],
	[ 'resize, grow', "rpq.resize_pool(pool => 'd1', quota => 'gpu=32')", 7, qr/, d1 dedicated: n1=4 n2=4 n3=2 n8=0,/ ],
	[ 'resize, shrink and evacuate', "rpq.resize_pool(pool => 'd1', quota => 'gpu=16', evacuate => true)", 7,
		qr/^c1-gpu shared: .*n8=0, d1 dedicated: n\d=\d n\d=\d, d2 exclusive: n4=4 n5=4$/ ],
	[ 'resize, grow and evacuate', "rpq.resize_pool(pool => 'd1', add_nodes => '{n7}', evacuate => true)", 7,
		qr/^c1-gpu shared: n6=\d n8=\d, d1 dedicated: n1=4 n2=4 n3=2 n7=0,/ ],
	[ 'move', "rpq.move_nodes(count => 1, from_pool => 'c1-gpu', to_pool => 'd2')", 7, qr/, d2 exclusive: n4=4 n5=4 n8=0$/ ],
	[ 'move and evacuate', "rpq.move_nodes(nodes => '{n1}', to_pool => 'd2', evacuate => true)", 7,
		qr/, d1 dedicated: n2=\d n3=\d, d2 exclusive: n1=0 n4=4 n5=4$/ ],
	[ 'drain', "rpq.drain_node(node => 'n2')", 7, qr/, d1 dedicated: n1=\d n2=0 n3=\d,/ ],
	[ 'drain with an executor', "t.sync_all(), rpq.drain_node(node => 'n2')", 7, qr/, d1 dedicated: n1=\d n2=0 n3=\d,/ ],
	[ 'rotate', "rpq.set_node_health(node => 'n5', health => 'unhealthy')", 6, qr/^c1-gpu shared: n5=0 n6=4 n7=4, d1 .*, d2 exclusive: n4=\d n8=\d$/ ]);

# Two sessions that stay: one looks, one holds tables.  What they are asked is not told in the log.
my ($monitor, $locker);
{
	no warnings 'redefine';
	*PostgreSQL::Test::BackgroundPsql::note = sub { };
}

sub connect_both
{
	($monitor, $locker) = map { $node->background_psql('app', on_error_stop => 0) } 1 .. 2;
	return;
}

sub disconnect_both
{
	foreach my $session (grep { defined } $monitor, $locker)
	{
		eval { $session->{run}->kill_kill };
	}
	undef $_ foreach $monitor, $locker;
	return;
}

sub sql { return $monitor->query_safe($_[0]); }

# A new database in the state of t.seed(), with the operation asked for.
sub fresh
{
	my ($call) = @_;

	disconnect_both();
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS app WITH (FORCE)');
	$node->safe_psql('postgres', 'CREATE DATABASE app TEMPLATE stepwise');
	connect_both();
	sql('SET rpq.synchronous_operations = on; CALL t.seed(); SET rpq.synchronous_operations = off');
	sql("SELECT $call; SELECT rpq_store.fold(array_agg(scope_id)) FROM rpq_store.turn");
	return;
}

# The locker holds all tables but those given; the actor carries operations out.
my ($actor, $said);

sub lock_all_but
{
	my (@free) = @_;
	my $free = join ',', @free;

	$locker->query_safe("BEGIN; DO \$\$ DECLARE t regclass; BEGIN
		FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'rpq_store'::regnamespace AND relkind = 'r'
			AND relname <> ALL ('{$free}') LOOP
			EXECUTE format('LOCK TABLE %s IN SHARE MODE', t);
		END LOOP;
	END \$\$");
	return;
}

sub let_go
{
	$locker->query_safe('ROLLBACK');
	return;
}

sub act
{
	my $call = $_[0] eq 'rotate' ? 'rpq.run_operations()' : 'rpq_store.run_pending_operations()';

	$said = '';
	sql('TRUNCATE t.actor');
	$actor = IPC::Run::start([ 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-d', 'app', '-c',
			'INSERT INTO t.actor VALUES (pg_backend_pid())', '-c', "SELECT $call" ], '<', \undef, '>', \my $out, '2>', \$said);
	return;
}

# What happens between two steps: the executors report.
sub between
{
	my ($kind) = @_;

	sql('SELECT t.sync(name) FROM rpq_store.node ORDER BY name; SELECT t.sync(name) FROM rpq_store.node ORDER BY name') if $kind->[0] =~ /executor/;
	return;
}

sub one_step
{
	my ($kind) = @_;

	# by a process that is gone then, so that the next may take over
	$node->safe_psql('app', 'SELECT rpq_store.run_pending_operations()');
	between($kind);
	return;
}

# Whether the operation has not ended.  That of a faulty node is opened, by the system, in its first step.
sub to_do
{
	my ($kind) = @_;

	return sql('SELECT t.open_operations()') ne '0' if $kind->[0] ne 'rotate';
	return sql("SELECT pool FROM rpq.nodes WHERE name = 'n5'") eq 'd2';
}

# Lets the operation go on to its end.
sub carry_on
{
	my ($kind) = @_;

	for (1 .. 200)
	{
		one_step($kind);
		last if sql('SELECT t.open_operations()') eq '0';
	}
	return;
}

sub worker
{
	my ($database) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET rpq.databases = '$database'");
	$node->reload;
	return;
}

# What is wrong now.  While the operation is open all that ran runs.
sub wrong
{
	my ($live, $open) = @_;
	my $wrong = sql('SELECT t.wrong(' . ($open && $live == 4 ? 7 : $live) . ')');

	$wrong .= '; the operation is not open' if $open && sql('SELECT t.open_operations()') ne '1';
	return $wrong;
}

# The operation killed at each table that each of its steps writes; a list of [steps before, tables let go, table].
sub each_step
{
	my ($name, $call, $live, $end) = @{ $_[0] };
	my ($steps, @points, @wrong) = (0);
	my @free;

	fresh($call);
	ok(to_do($_[0]), "$name: there is something to do");
	# while the operation is open all that ran runs; a node that has turned unhealthy had one workload
	my $live_then = $live == 4 ? 7 : $live;
	my $open = $name eq 'rotate' ? 'false' : 'true';
	while ((@free || to_do($_[0])) && $steps < 60)
	{
		lock_all_but(@free);
		act($name);
		my ($table, $wrong) = split /\|/, sql("SELECT * FROM t.terminated($live_then, $open, "
				. (rand() < long_or_short(1, 0.25) ? 'true' : 'false') . ')'), 2;
		eval { $actor->finish };
		let_go();
		if ($table eq '')
		{
			push @wrong, "step $steps: $said" if $said =~ /ERROR/;
			$steps++;
			between($_[0]);
			@free = ();
			next;
		}
		push @points, [ $steps, [@free], $table ];
		push @wrong, "step $steps, $table: $wrong" if $wrong ne '';
		last if $table =~ /does not end/ || @free > 40;
		push @free, $table;
	}
	$faults += @points;
	is(join("\n", @wrong), '', "$name: $steps steps, ended in " . @points . ' places, conserved at each');
	is(wrong($live, 0), '', "$name: conserved at the end");
	is(sql("SELECT t.left_over('succeeded')"), '', "$name: it ended once and left nothing behind");
	like(sql('SELECT t.pools()'), $end, "$name: done");
	cmp_ok(scalar @points, '>=', 3, "$name: it was killed in some places");
	return ($steps, @points);
}

# kill -9 at one of these points, of the process or of all; the worker ends it.
sub kill_there
{
	my ($kind, $point, $all) = @_;
	my ($name, $call, $live, $end) = @$kind;
	my ($steps, $free, $table) = @$point;

	$name .= ", kill -9 of " . ($all ? 'all' : 'the process') . " after $steps steps at $table";
	fresh($call);
	one_step($kind) for 1 .. $steps;
	lock_all_but(@$free);
	act($kind->[0]);
	my $found = sql('SELECT t.waits_for()');
	is($found, $table, "$name: there it is");
	if ($all)
	{
		$node->stop('immediate');
		$node->start;
	}
	else
	{
		kill 'KILL', sql('SELECT pid FROM t.actor');
	}
	eval { $actor->finish };
	disconnect_both();
	until_true($node, 'app', 'SELECT true', 30);
	connect_both();
	is(wrong($live, $name !~ /^rotate/), '', "$name: conserved");
	my $start = time;
	worker('app');
	ok(until_true($node, 'app', ($name =~ /executor/ ? 'SELECT t.sync(name) FROM rpq_store.node \g /dev/null' . "\n" : '')
		. ($name =~ /^rotate/ ? "SELECT pool = 'c1-gpu' FROM rpq.nodes WHERE name = 'n5'" : 'SELECT t.open_operations() = 0'), 45), "$name: the worker ends it");
	$start = time - $start;
	cmp_ok($start, '<', 15, "$name: soon, in $start s");
	is(sql("SELECT t.left_over('succeeded')"), '', "$name: once");
	# the worker has its cycles too: what the faulty node lost is placed again
	$live = 7 if $name =~ /^rotate/ && until_true($node, 'app', "SELECT t.wrong(7) = ''", 10);
	is(wrong($live, 0), '', "$name: conserved at the end");
	like(sql('SELECT t.pools()'), $end, "$name: done");
	worker('');
	until_true($node, 'app', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'rpq worker'", 10);
	return;
}

# Cancelled after each of its steps.
sub cancel_there
{
	my ($kind, $steps) = @_;
	my ($name, $call, $live) = @$kind;

	fresh($call);
	my $before = sql('SELECT t.pools()') =~ s/(=\d|, d3 dedicated: $)//gr;
	one_step($kind) for 1 .. $steps;
	sql('SELECT rpq.cancel_operation(max(operation_id)) FROM rpq_store.operation');
	carry_on($kind);
	$name .= ", cancelled after $steps steps";
	is(sql("SELECT t.left_over('cancelled')"), '', "$name: it is, and leaves nothing behind");
	is(sql('SELECT t.wrong(7)'), '', "$name: conserved");
	is(sql('SELECT t.pools()') =~ s/=\d//gr, $before, "$name: the nodes are where they were");
	is(sql('SELECT count(*) FROM rpq.nodes WHERE NOT schedulable'), '0', "$name: and take work as before");
	return;
}

$node->safe_psql('postgres', 'CREATE DATABASE stepwise');
$node->safe_psql('stepwise', 'CREATE EXTENSION rpq');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', 'stepwise', '-f', "$lib/cases.sql", '-f', "$lib/kill_steps.sql" ], 'set up');
# The short form takes half of them, as they come.
my @chosen = map { $_->[0] } sort { $a->[1] <=> $b->[1] } map { [ $_, rand ] } @kinds;
splice @chosen, 6 if !long_or_short(1, 0) && !$ENV{RPQ_KIND};
for my $kind (@chosen)
{
	next if $ENV{RPQ_KIND} && $kind->[0] !~ /$ENV{RPQ_KIND}/;
	my ($steps, @points) = each_step($kind);
	my @kills = long_or_short(1, 0) ? @points : @points && rand() < 0.5 ? $points[ rand @points ] : ();
	kill_there($kind, $_, rand() < 0.3) foreach @kills;
	next if $kind->[0] =~ /rotate/;
	cancel_there($kind, $_) foreach $steps > 1 ? 0 .. $steps - 1 : long_or_short(1, 0) ? 0 : ();
}
disconnect_both();
diag("$faults places");
unlike(slurp_file($node->logfile), qr/deadlock detected|PANIC/, 'no deadlock, no panic in the log');
$node->stop;
done_testing();

# RpqLife: a small cluster's worth of data, and what a database shows and holds, for the tests of copies and crashes.
package RpqLife;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(until_true seed work_of_all_kinds work_through_queues contents shown violations not_refused);

# Waits until the query is true, at most so many seconds.
sub until_true
{
	my ($node, $database, $query, $limit) = @_;
	my $start = time;

	while (time - $start < $limit)
	{
		my ($rc, $out) = $node->psql($database, $query);
		return 1 if defined $out && $out eq 't';
		sleep 0.05;
	}
	return 0;
}

# A tenant, three pools, six nodes, five accounts: two with the default quota, two with their own, one without limit.
sub seed
{
	my ($node, $database) = @_;

	$node->safe_psql($database, q{
		SET rpq.synchronous_operations = on;
		SELECT rpq.create_tenant('acme', 'quotes '' and "ünïcode"'), rpq.create_cluster('c1', 'north');
		SELECT rpq.create_instance_type(name => 'big', kind => 'gpu', capacity => 'gpu=8,cpu=96,memory=1000Gi');
		SELECT rpq.create_account(name => 'u' || i) FROM generate_series(1, 5) AS i;
		SELECT rpq.create_user_group('g1'), rpq.add_to_group('g1', '{u1,u2}'), rpq.create_project_group('research');
		SELECT rpq.add_nodes(instance_type => 'big', prefix => 'n', count => 6);
		SELECT rpq.create_pool(name => 'd1', type => 'dedicated', instance_type => 'big', quota => 'gpu=16',
			user_default_quota => 'gpu=8', project_group => 'research');
		SELECT rpq.create_pool(name => 'd2', type => 'exclusive', instance_type => 'big', quota => 'gpu=8',
			scheduling_policy => 'spread');
		SELECT rpq.authorize(pool => 'd1', accounts => '{u1,u2}'),
			rpq.authorize(pool => 'd1', accounts => '{u3,u4}', quota => 'gpu=12', max_priority => 70),
			rpq.authorize(pool => 'd2', accounts => '{u5}'), rpq.grant_pool_admin(pool => 'd1', account => 'u1');
		SELECT rpq.edit_pool('c1-gpu', description => 'a built-in pool, edited')});
	return;
}

# Workloads in each state, and entries that no cycle has counted: arrivals, an end, a withdrawal, an edit.
sub work_of_all_kinds
{
	my ($node, $database) = @_;

	$node->safe_psql($database, q{
		SELECT rpq.submit(pool => 'd1', account => 'u1', workload_type => 'training', resources => 'gpu=2', replicas => 3,
			name => 'gang'),
			rpq.submit(pool => 'd1', account => 'u2', workload_type => 'training', resources => 'gpu=0.5', labels => '{"a": 1}'),
			rpq.submit(pool => 'd1', account => 'u3', workload_type => 'training', resources => 'gpu=4', request_id => 'r1'),
			rpq.submit(pool => 'd1', account => 'u4', workload_type => 'training', resources => 'gpu=8'),
			rpq.submit(pool => 'd1', account => 'u4', workload_type => 'training', resources => 'gpu=8'),
			rpq.submit(pool => 'd2', account => 'u5', workload_type => 'training', resources => 'gpu=1,cpu=4', spec => '{"b": []}'),
			rpq.submit(pool => 'd2', account => 'u5', workload_type => 'training', resources => 'gpu=1', draft => true);
		SELECT FROM rpq.schedule();
		SELECT rpq.report_started(workload_id) FROM rpq_store.workload WHERE name = 'gang';
		SELECT rpq.submit(pool => 'c1-gpu', account => 'u1', workload_type => 'training', resources => 'gpu=8', replicas => 3),
			rpq.submit(pool => 'c1-gpu', account => 'u2', workload_type => 'training', resources => 'gpu=8');
		-- while there is no room for it yet, since a worker may be running
		SELECT rpq.edit_workload(min(workload_id), priority => 3) FROM rpq_store.workload WHERE status = 'queued';
		SELECT rpq.report_finished(workload_id) FROM rpq_store.workload WHERE request_id = 'r1';
		SELECT rpq.stop(max(workload_id)) FROM rpq_store.workload WHERE status = 'queued' AND replicas = 1});
	return;
}

# Policies and profiles in each state, a queue with work that waits and that runs, and one that is gone while its work
# goes on; arrivals and an end that no cycle has counted.
sub work_through_queues
{
	my ($node, $database) = @_;

	$node->safe_psql($database, q{
		SELECT rpq.create_profile('one', 'gpu=1', '{d2}'), rpq.create_profile('two', 'gpu=2', '{d2}');
		SELECT rpq.provision_profiles(), rpq.edit_profile('two', resources => 'gpu=3', pools => '{d1}');
		SELECT rpq.create_profile('saved', 'gpu=1/3', '{d1}');
		SELECT rpq.create_policy('p1', 'g1', 'gpu=2', 'gpu=2', lending => 'hold', description => 'one''s'),
			rpq.create_policy('p2', 'g1'), rpq.create_policy('p3', 'g1', 'gpu=1000');
		SELECT rpq.connect_profile('p1', 'one', 'q1'), rpq.connect_profile('p2', 'one', 'q2'), rpq.connect_profile('p2', 'two', 'q3');
		SELECT rpq.set_pod_template('q1', '{"image": "x"}');
		SELECT rpq.submit(queue => q, account => 'u1', workload_type => 'training', name => q)
		FROM unnest('{q1,q1,q1,q2,q3}'::text[]) AS q;
		SELECT FROM rpq.schedule('d2');
		SELECT rpq.disconnect_profile('p2', 'one');
		SELECT rpq.submit(queue => 'q1', account => 'u2', workload_type => 'training', name => 'later');
		SELECT rpq.report_finished(min(workload_id)) FROM rpq_store.workload WHERE name = 'q1'});
	return;
}

# What every table of the extension holds, one line for each.
sub contents
{
	my ($node, $database) = @_;

	return $node->safe_psql($database, q{
		SELECT c.oid::regclass, (xpath('/row/x/text()', query_to_xml(format(
			'SELECT count(*) || '' '' || md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '''')) AS x FROM %s AS t',
			c.oid::regclass), true, true, '')))[1]
		FROM pg_extension e JOIN pg_class c ON c.oid = ANY (e.extconfig)
		WHERE e.extname = 'rpq' AND c.relkind = 'r' ORDER BY c.relname});
}

# What every view shows, one line for each.
sub shown
{
	my ($node, $database) = @_;

	return $node->safe_psql($database, q{
		SELECT c.oid::regclass, (xpath('/row/x/text()', query_to_xml(format(
			'SELECT count(*) || '' '' || md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text), '''')) AS x FROM %s AS t',
			c.oid::regclass), true, true, '')))[1]
		FROM pg_class c
		WHERE c.relnamespace = 'rpq'::regnamespace AND c.relkind = 'v' AND c.relname NOT IN ('workers')
		ORDER BY c.relname});
}

sub violations
{
	my ($node, $database) = @_;

	return $node->safe_psql($database, 'SELECT * FROM rpq.check_integrity()');
}

# Those of the statements that end otherwise than with the SQLSTATE, and how they do.
sub not_refused
{
	my ($node, $database, $sqlstate, @statements) = @_;
	my $list = join ', ', map { "\$s\$$_\$s\$" } @statements;
	return $node->safe_psql($database, qq{
		CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text LANGUAGE plpgsql AS \$f\$
		BEGIN
			EXECUTE statement;
			RETURN 'done';
		EXCEPTION WHEN OTHERS THEN
			RETURN SQLSTATE;
		END \$f\$;
		SELECT a.statement, o.outcome FROM unnest(ARRAY[$list]) AS a (statement), pg_temp.outcome(a.statement) AS o (outcome)
		WHERE o.outcome <> '$sqlstate'});
}

1;

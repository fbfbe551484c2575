#!/bin/bash
# A member who holds a transaction open, or locks what it can see, stops nobody.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
fresh hostile
do_script > "$race_out/setup" <<-END
	CREATE ROLE hostile_u1 LOGIN;
	CREATE ROLE hostile_u2 LOGIN;
	CALL t.found();
	SELECT rpq.edit_account(account => a, db_role => 'hostile_' || a) FROM unnest('{u1,u2}'::text[]) a;
	SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}');
	SELECT rpq.create_pool(name => 'p1', type => 'dedicated', quota => 'gpu=16');
	SELECT rpq.authorize(pool => 'p1', accounts => '{u1,u2}');
	SELECT t.submit('p1', '2', 'u1', 'mine');
	SELECT t.submit('p1', '2', 'u2', 'other');
	SELECT t.submit('p1', '2', 'u2', 'other2');
	SELECT t.pass();
	SELECT t.submit('p1', '2', 'u1', 'waits');
END
is "$(errors "$race_out/setup")" '' 'set up'
views=$(ask "SELECT viewname FROM pg_views WHERE schemaname = 'rpq' ORDER BY 1")

# While the member's session sits in its transaction, everybody else goes on.  under NAME SCRIPT
under() {
	local name=$1 script=$2 n=$RANDOM member
	PGUSER=hostile_u1 psql -XAtq -v VERBOSITY=terse -d "$db" -f - > "$race_out/member" 2>&1 <<< "BEGIN; $script
SELECT 'sits'; SELECT pg_sleep(30); ROLLBACK;" &
	member=$!
	for _ in $(seq 100); do
		grep -q '^sits' "$race_out/member" && break
		grep -q 'aborted' "$race_out/member" && break
		sleep 0.05
	done
	said=$(psql -XAtq -v VERBOSITY=terse -v ON_ERROR_STOP=1 -d "$db" -f - 2>&1 <<-END
		SET lock_timeout = '1s';
		SET statement_timeout = '5s';
		SET rpq.synchronous_operations = on;
		\\o /dev/null
		SELECT t.submit('p1', '1', 'u2', 'new$n');
		SELECT t.pass();
		SELECT count(*) FROM rpq.schedule(pool => 'p1', dry_run => true);
		SELECT rpq.edit_pool(pool => 'p1', description => 'd$n', frozen => true);
		SELECT rpq.edit_pool(pool => 'p1', frozen => false, workload_types => '{training}');
		SELECT rpq.edit_pool(pool => 'p1', clear => '{workload_types}');
		SELECT rpq.edit_pool(pool => 'c1-gpu', description => 'd$n');
		SELECT rpq.authorize(pool => 'p1', accounts => '{u3}', quota => 'gpu=1');
		SELECT rpq.update_members(pool => 'p1', accounts => '{u1,u2}', max_priority => 50 + $n % 50);
		SELECT rpq.deauthorize(pool => 'p1', accounts => '{u3}');
		SELECT rpq.cordon_node(node => 'n1');
		SELECT rpq.uncordon_node(node => 'n1');
		SELECT rpq.add_nodes(instance_type => 'g8', names => '{m$n}');
		SELECT rpq.create_pool(name => 'q$n', type => 'dedicated', quota => 'gpu=8');
		SELECT rpq.edit_account(account => 'u4', org_admin => true);
		SELECT rpq.edit_account(account => 'u4', org_admin => false);
		SELECT rpq.stop(workload => workload_id) FROM rpq.workloads WHERE name = 'new$n';
		SELECT t.pass();
		\\o
		SELECT 'went on';
	END
	)
	kill $member 2>/dev/null
	psql -Xq -d "$db" -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hostile_u1'" > /dev/null
	wait $member 2>/dev/null
	is "$said" 'went on' "$name: the others go on"
}

under 'an open transaction that has submitted, edited and stopped' "
SELECT rpq.submit(pool => 'p1', workload_type => 'training', resources => 'gpu=1', request_id => 'r');
SELECT rpq.edit_workload(workload => workload_id, priority => 1) FROM rpq.workloads WHERE name = 'waits';
SELECT rpq.stop(workload => workload_id) FROM rpq.workloads WHERE name = 'mine';"
under 'reading everything under SERIALIZABLE' "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
$(for v in $views; do echo "SELECT count(*) FROM rpq.$v;"; done)
SELECT count(*) FROM rpq.schedule(pool => 'p1', dry_run => true);"
locks=
for v in $views; do
	for strength in 'UPDATE' 'NO KEY UPDATE' 'SHARE' 'KEY SHARE'; do
		locks+="SAVEPOINT s; SELECT 1 FROM rpq.$v FOR $strength;"$'\n\\if :ERROR\nROLLBACK TO s;\n\\endif\n'
	done
done
under 'FOR UPDATE on every view' "$locks"
diag "locked rows: $(grep -c '^1$' "$race_out/member")"
for mode in 'ACCESS SHARE' 'ROW SHARE' 'ROW EXCLUSIVE' 'SHARE' 'EXCLUSIVE' 'ACCESS EXCLUSIVE'; do
	locks=
	for v in $views; do locks+="SAVEPOINT s; LOCK TABLE rpq.$v IN $mode MODE;"$'\n\\if :ERROR\nROLLBACK TO s;\n\\endif\n'; done
	for v in $(ask "SELECT relname FROM pg_class WHERE relnamespace = 'rpq_store'::regnamespace AND relkind = 'r'"); do
		locks+="SAVEPOINT s; LOCK TABLE rpq_store.$v IN $mode MODE;"$'\n\\if :ERROR\nROLLBACK TO s;\n\\endif\n'
	done
	under "LOCK TABLE in $mode mode" "$locks"
done
under 'updates through the views' "UPDATE rpq.workloads SET name = 'renamed' WHERE name = 'waits'; UPDATE rpq.workloads SET status = 'stopped' WHERE name = 'mine';"
# A submission in an open transaction under the same request id holds up its own account alone.
is "$(ask "SELECT t.status(workload_id) FROM rpq.workloads WHERE name = 'mine'")" running 'what was rolled back is undone'
whole
done_testing

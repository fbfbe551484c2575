#!/bin/bash
# Field case F45: pg_dump and a plain restore keep everything; the copy keeps still until it is adopted, then works.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
fresh source
do_script > "$race_out/setup" <<-END
	CREATE ROLE restore_u1;
	CALL t.found();
	SELECT rpq.edit_account(account => 'u1', db_role => 'restore_u1');
	SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 6);
	SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=16', queueing => 'best_effort');
	SELECT rpq.create_pool(name => 'd2', type => 'exclusive', quota => 'gpu=8');
	SELECT rpq.edit_pool(pool => 'c1-gpu', description => 'edited "built-in" \\ setting', user_default_quota => 'gpu=12');
	SELECT rpq.authorize(pool => 'd1', accounts => '{u1,u2}');
	SELECT rpq.authorize(pool => 'd1', accounts => '{u3,u4}', quota => 'gpu=4');
	SELECT rpq.authorize(pool => 'd1', accounts => '{u5}', quota => '');
	SELECT t.submit('d1', '8', 'u1', 'r1');
	SELECT t.submit('c1-gpu', '8', 'u2', 'r2');
	SELECT t.submit('d1', '4', 'u3', 'r3');
	SELECT t.pass();
	SELECT t.submit('d1', '8', 'u5', 'q1');
	SELECT t.submit('d1', '4', 'u4', 'ended');
	SELECT t.pass();
	SELECT t.submit('d1', '8', 'u5', 'q2');
	-- Not yet counted when the dump is made: an end, and an arrival.
	SELECT rpq.report_finished(workload => workload_id) FROM rpq.workloads WHERE name = 'ended';
	SELECT rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=1', account => 'u1', name => 'd', draft => true);
END
is "$(errors "$race_out/setup")" '' 'set up'
is "$(ask "SELECT (SELECT count(*) FROM rpq.pools) || ' ' || (SELECT count(*) FROM rpq.nodes) || ' ' || (SELECT count(*) FROM rpq.accounts) || ' '
	|| (SELECT count(*) FROM rpq.workloads WHERE status = 'starting') || ' ' || (SELECT count(*) FROM rpq.workloads WHERE status = 'queued')")" \
	'3 6 5 3 2' '3 pools, 6 nodes, 5 users, 3 running, 2 queued'

figures="SELECT 'pool', pool_id, name, total::text, used::text, available::text, queued, running FROM rpq.pools
	UNION ALL SELECT 'member', member_id, account || pool, quota::text, used::text, config_mode, 0, 0 FROM rpq.members
	UNION ALL SELECT 'node', node_id, name, capacity::text, used::text, health, 0, 0 FROM rpq.nodes
	UNION ALL SELECT 'work', workload_id, name, status, array_to_string(nodes, ','), reason_code, attempt, 0 FROM rpq.workload_history
	UNION ALL SELECT 'history', operation_history_id, action, object, actor, at::text, 0, 0 FROM rpq.operation_history
	UNION ALL SELECT 'event', workload_event_id, event, at::text, status, '', workload_id, attempt FROM rpq.workload_events ORDER BY 1, 2"
counts="SELECT string_agg(c.relname || ' ' || (xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM rpq_store.%I', c.relname), true, true, '')))[1], E'\n' ORDER BY c.relname)
	FROM pg_class c WHERE c.relnamespace = 'rpq_store'::regnamespace AND c.relkind = 'r'"
sequences="SELECT string_agg(schemaname || '.' || sequencename || ' ' || coalesce(last_value::text, '-'), E'\n' ORDER BY sequencename) FROM pg_sequences WHERE schemaname IN ('rpq', 'rpq_store')"
ask "$figures" > "$race_out/figures"; ask "$counts" > "$race_out/counts"; ask "$sequences" > "$race_out/sequences"
rows() { ask 'SELECT t.stored()'; }
stored=$(rows)

# compare NAME: the present database shows what the source showed
compare() {
	is "$(ask "$counts")" "$(cat "$race_out/counts")" "$1: as many rows in each table"
	is "$(rows)" "$stored" "$1: the same rows"
	is "$(ask "$figures" | diff - "$race_out/figures")" '' "$1: the same figures for pools, members, nodes, work, history"
	is "$(ask "$sequences")" "$(cat "$race_out/sequences")" "$1: sequences go on where they stood"
	is "$(ask "SELECT description FROM rpq.pools WHERE name = 'c1-gpu'")" 'edited "built-in" \ setting' "$1: the edited setting is kept"
}
# still NAME: nothing decides or stores
still() {
	local call
	for call in "rpq.schedule()" "rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=1', account => 'u1')" \
		"rpq.stop(workload => (SELECT workload_id FROM rpq.workloads WHERE name = 'q1'))" "rpq.report_finished(workload => (SELECT workload_id FROM rpq.workloads WHERE name = 'r1'))" \
		"rpq.edit_pool(pool => 'd1', frozen => true)" "rpq.authorize(pool => 'd1', accounts => '{u1}', max_priority => 50)" "rpq.cordon_node(node => 'n1')" \
		"rpq.enqueue(workload => (SELECT workload_id FROM rpq.workloads WHERE name = 'd'))" "rpq.set_node_health(node => 'n1', health => 'unhealthy')" \
		"rpq.add_nodes(instance_type => 'g8', names => '{x}')" "rpq.create_pool(name => 'x', type => 'dedicated', quota => 'gpu=0')" "rpq.run_operations()"; do
		is "$(ask "SELECT t.outcome(\$\$SELECT * FROM $call\$\$)")" RQ009 "$1: RQ009 from ${call%%(*}"
	done
	is "$(ask "SELECT count(*) FROM rpq.schedule(pool => 'd1', dry_run => true)" | grep -c ERROR)" 0 "$1: a dry run answers"
	is "$(ask "SELECT count(*) > 0 FROM rpq.explain(workload => (SELECT workload_id FROM rpq.workloads WHERE name = 'q1'))")" t "$1: explain answers"
	is "$(rows)" "$stored" "$1: nothing has changed"
}
# works NAME: adopted, it goes on from where the source stood
works() {
	is "$(ask 'SELECT rpq.adopt_database()' | grep ERROR)" '' "$1: adopt_database()"
	is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 "$1: check_integrity() is empty after it" || diag "$(ask 'SELECT * FROM rpq.check_integrity() LIMIT 20')"
	is "$(ask "SELECT string_agg(name || ' ' || t.gpu(used), ',' ORDER BY name) FROM rpq.pools")" 'c1-gpu 8,d1 12,d2 0' "$1: usage is recounted"
	do_script > "$race_out/works" <<-END
		SELECT rpq.report_finished(workload => workload_id) FROM rpq.workloads WHERE name = 'r1';
		SELECT t.pass();
		SELECT t.submit('d2', '1', 'u1', 'never');
	END
	is "$(errors "$race_out/works" | grep -v RQ001)" '' "$1: reports and passes are taken again"
	is "$(ask "SELECT string_agg(name || ' ' || status, ',' ORDER BY name) FROM rpq.workloads WHERE status <> 'draft'")" \
		'q1 starting,q2 queued,r2 starting,r3 starting' "$1: the room of r1 goes to q1"
	is "$(ask "SET ROLE restore_u1; SELECT count(*) FROM rpq.workload_history WHERE name = 'r1'")" 1 "$1: accounts have their roles"
	whole "$1"
}

# Dump, plain restore.
pg_dump -d source > "$race_out/dump.sql" 2> "$race_out/dump.err"
is "$? $(cat "$race_out/dump.err")" '0 ' 'pg_dump: 0 and no word'
psql -Xq -d postgres -c 'CREATE DATABASE restored TEMPLATE template0'
psql -Xq -v ON_ERROR_STOP=1 -d restored < "$race_out/dump.sql" > /dev/null 2> "$race_out/restore.err"
is "$? $(cat "$race_out/restore.err")" '0 ' 'psql with ON_ERROR_STOP: 0 and no word'
db=restored
compare restored
still restored
works restored

# The custom format, in one transaction.
pg_dump -Fc -d source -f "$race_out/dump" && psql -Xq -d postgres -c 'CREATE DATABASE custom TEMPLATE template0'
pg_restore -e -1 -d custom "$race_out/dump" 2> "$race_out/restore.err"
is "$? $(cat "$race_out/restore.err")" '0 ' 'pg_restore: 0 and no word'
db=custom
compare 'pg_restore'

# A copy by CREATE DATABASE … TEMPLATE.
psql -Xq -d postgres -c 'CREATE DATABASE cloned TEMPLATE source'
db=cloned
compare cloned
still cloned
works cloned

# The restored one, dumped and restored again, is the same; so is the source, which was not touched.
db=source
is "$(rows)" "$stored" 'the source is as it was'
ask 'SELECT t.pass()' > /dev/null
is "$(ask "SELECT t.outcome('SELECT rpq.adopt_database()') IN ('ok', 'RQ004', 'RQ008', '22023', '55000')")" t 'adopting what is no copy does no harm'
whole source
done_testing

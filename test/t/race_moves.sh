#!/bin/bash
# Pods are moved while clients keep their rows locked, end their work, and others submit, schedule and change nodes.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
seconds=8
[ "$RPQ_LONG" = 1 ] && seconds=60
asynchronous='SET rpq.synchronous_operations = off;'

set_up() {
	fresh moves
	do_script > /dev/null <<-END
		CALL t.found();
		SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => $1);
		SELECT rpq.create_pool(name => 'd', type => 'dedicated', quota => 'gpu=$((8 * $1))');
		SELECT rpq.authorize(pool => 'd', accounts => '{u1,u2,u3,u4,u5}');
	END
}

op() { ask "SELECT status FROM rpq.operations ORDER BY operation_id DESC LIMIT 1"; }
run() { ask "SELECT rpq.run_operations()"; }

# A client's open transaction on one workload: the others move, that one follows when its row is free.
for end in COMMIT ROLLBACK; do
	set_up 3
	do_script > /dev/null <<< "SELECT t.submit('d', '2', 'u1', 'w1'), t.submit('d', '2', 'u2', 'w2'); SELECT t.pass();"
	w1=$(ask "SELECT workload_id FROM rpq.workloads WHERE name = 'w1'")
	do_script > /dev/null <<< "BEGIN; SELECT rpq.report_finished(workload => $w1); SELECT pg_sleep(1.5); $end;" &
	sleep 0.4
	do_script > /dev/null <<< "$asynchronous SELECT rpq.drain_node(node => 'n1'); SELECT rpq.run_operations();"
	is "$(op)" running "$end: the drain waits for a row that its client keeps locked"
	is "$(ask "SELECT string_agg(status, ' ' ORDER BY pod_migration_id) FROM rpq.pod_migrations")" 'reserved done' "$end: and for no other"
	whole "$end, while it waits"
	wait
	is "$(run)" 1 "$end: then it goes on"
	is "$(op)" succeeded "$end: and ends"
	is "$(ask "SELECT concat_ws(' ', status, reason) FROM rpq.pod_migrations ORDER BY 1 DESC LIMIT 1")" \
		"$([ $end = COMMIT ] && echo 'skipped pod_changed' || echo done)" "$end: the move is what became of the pod"
	is "$(ask "SELECT t.node_used('n1')")" 0 "$end: the node is empty"
	whole "$end"
done

# Everything at once.
set_up 12
do_script > /dev/null <<< 'CREATE TABLE t.over (); CREATE TABLE t.broken (what text);'
# loop NAME BODY: calls BODY, PL/pgSQL statements, in transactions of its own until somebody says that it is over
loop() {
	psql -XAtq -v VERBOSITY=sqlstate -d "$db" -c "$asynchronous" -f - > "$race_out/$1" 2>&1 <<-END &
		DO \$\$
		BEGIN
			WHILE NOT EXISTS (SELECT FROM t.over) LOOP
				$2
				COMMIT;
			END LOOP;
		END \$\$;
	END
}
tolerant() { printf 'BEGIN %s EXCEPTION WHEN SQLSTATE %s THEN NULL; END;' "$2" "${1//,/ OR SQLSTATE }"; }
loop submit "PERFORM t.submit('d', (1 + floor(random() * 4))::text, 'u' || (1 + floor(random() * 5)), NULL, (1 + floor(random() * 3))::int);
	PERFORM pg_sleep(0.05);"
loop finish "PERFORM rpq.report_finished(workload => w.workload_id) FROM (SELECT workload_id FROM rpq.workloads
	WHERE status IN ('starting', 'running') ORDER BY random() LIMIT 1) w; PERFORM pg_sleep(0.02);"
loop stop "PERFORM rpq.stop(workload => w.workload_id) FROM (SELECT workload_id FROM rpq.workloads ORDER BY random() LIMIT 1) w;
	PERFORM pg_sleep(0.3);"
loop pass 'PERFORM count(*) FROM rpq.schedule(); PERFORM pg_sleep(0.01);'
loop drain "$(tolerant "'RQ006','RQ004','22023'" "PERFORM rpq.drain_node(node => (SELECT n.name FROM rpq.nodes n WHERE t.gpu(n.used) > 0 ORDER BY random() LIMIT 1));") PERFORM pg_sleep(0.05);"
loop run 'PERFORM rpq.run_operations(); PERFORM pg_sleep(0.01);'
loop uncordon "PERFORM rpq.uncordon_node(n.name) FROM rpq.nodes n WHERE NOT n.schedulable AND NOT n.draining; PERFORM pg_sleep(0.05);"
loop cancel "PERFORM rpq.cancel_operation(o.operation_id) FROM (SELECT operation_id FROM rpq.operations
	WHERE status IN ('pending', 'running') LIMIT 1) o; PERFORM pg_sleep(1);"
loop check 'INSERT INTO t.broken SELECT c::text FROM rpq.check_integrity() c; PERFORM pg_sleep(0.1);'
for i in $(seq 60); do
	sleep 1
	[ "$i" -ge $seconds ] && [ "$(ask "SELECT count(*) > 5 FROM rpq.pod_migrations WHERE status = 'done'")" = t ] && break
done
do_script > /dev/null <<< 'INSERT INTO t.over DEFAULT VALUES;'
wait
is "$(errors "$race_out"/{submit,finish,stop,pass,drain,run,uncordon,cancel,check})" '' 'everything at once: no error'
is "$(ask 'SELECT string_agg(DISTINCT what, E'"'\\\\n'"') FROM t.broken')" '' 'everything at once: check_integrity() was empty throughout'
run > /dev/null
whole 'everything at once'
is "$(ask "SELECT count(*) > 5 FROM rpq.pod_migrations WHERE status = 'done'")" t 'everything at once: pods were moved'
is "$(ask "SELECT count(*) FROM (SELECT FROM rpq.workload_events WHERE event IN ('requeued', 'moved', 'succeeded', 'failed', 'stopped')
	AND attempt > 0 GROUP BY workload_id, attempt HAVING count(*) > 1) x")" 0 'everything at once: each attempt ends once'
diag "$(ask "SELECT string_agg(concat_ws(' ', n, status, reason), ', ') FROM (SELECT count(*) n, status, reason FROM rpq.pod_migrations GROUP BY 2, 3) m")"
done_testing

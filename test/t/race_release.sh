#!/bin/bash
# Field case F05: an attempt that two sessions end at once is released once.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
rounds=50
[ "$RPQ_LONG" = 1 ] && rounds=500

ends_as() { case $1 in stop*) echo stopped ;; *) echo failed ;; esac; }

# race LEVEL FIRST SECOND: in each round one account has w1 and w2 of 4 and a quota of 8; both calls end w1 at once.
race() {
	local level=$1 first=$2 second=$3 name="$1, $2 and $3" side call i at
	fresh release
	do_script > /dev/null <<-END
		CALL t.found();
		SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => $((2 * rounds)));
		SELECT count(rpq.create_account(name => 'r' || i)) FROM generate_series(1, $rounds) i;
		SELECT rpq.authorize(pool => 'c1-gpu', accounts => array_agg('r' || i), quota => 'gpu=8') FROM generate_series(1, $rounds) i;
		CREATE TABLE t.round AS SELECT i, t.submit('c1-gpu', '4', 'r' || i, 'w1') AS w1, t.submit('c1-gpu', '4', 'r' || i, 'w2') AS w2
			FROM generate_series(1, $rounds) i;
		CREATE TABLE t.said (i int, side text, answer boolean);
		SELECT t.pass();
	END
	is "$(ask "SELECT t.census('c1-gpu')")" "$((2 * rounds))/0" "$name: all run"
	at=$(soon '500 ms')
	ask "SELECT i || ' ' || w1 FROM t.round ORDER BY i" > "$race_out/rounds"
	for side in first second; do
		call=${!side}
		while read -r i w; do
			echo "BEGIN ISOLATION LEVEL $level;"
			echo "DO \$\$BEGIN PERFORM pg_sleep(greatest(0, extract(epoch FROM '$at'::timestamptz + $i * interval '10 ms' - clock_timestamp())::float)); END\$\$;"
			echo "INSERT INTO t.said SELECT $i, '$side', rpq.${call//WORKLOAD/$w};"
			echo 'COMMIT;'
		done < "$race_out/rounds" | psql -XAtq -v VERBOSITY=sqlstate -d "$db" -f - > "$race_out/$side" 2>&1 &
	done
	wait
	if [ "$level" = 'READ COMMITTED' ]; then
		is "$(errors "$race_out/first" "$race_out/second")" '' "$name: no error"
		is "$(ask 'SELECT count(*) FROM t.said WHERE NOT answer')" $rounds "$name: one in each round was told false"
	else
		is "$(errors "$race_out/first" "$race_out/second" | grep -v 40001)" '' "$name: no error but 40001"
	fi
	is "$(ask 'SELECT count(*) FROM (SELECT FROM t.said WHERE answer GROUP BY i HAVING count(*) = 1) x')" $rounds "$name: one in each round ended it"
	is "$(ask "SELECT count(*) FROM t.round WHERE t.member_used('c1-gpu', 'r' || i) <> 4")" 0 "$name: member.used 4 before a pass"
	is "$(ask "SELECT t.used('c1-gpu')")" $((4 * rounds)) "$name: pool.used before a pass"
	ask 'SELECT t.pass()' > /dev/null
	is "$(ask "SELECT count(*) FROM t.round WHERE t.member_used('c1-gpu', 'r' || i) <> 4")" 0 "$name: member.used 4 after it"
	is "$(ask "SELECT count(*) FROM t.round r WHERE 1 <> (SELECT count(*) FROM rpq.workload_events e WHERE e.workload_id = r.w1
				AND e.event IN ('succeeded', 'failed', 'stopped'))")" 0 "$name: one end event each"
	is "$(ask "SELECT count(*) FROM t.round r JOIN t.said s ON s.i = r.i AND s.answer JOIN rpq.workload_history w ON w.workload_id = r.w1
			   WHERE w.status <> CASE s.side WHEN 'first' THEN '$(ends_as "$first")' ELSE '$(ends_as "$second")' END")" 0 \
		"$name: the end that was told true stands"
	do_script > /dev/null <<-END
		ALTER TABLE t.round ADD w3 bigint, ADD w4 bigint;
		UPDATE t.round SET w3 = t.submit('c1-gpu', '4', 'r' || i, 'w3'), w4 = t.submit('c1-gpu', '4', 'r' || i, 'w4');
		SELECT t.pass();
		SELECT t.pass();
	END
	is "$(ask "SELECT string_agg(DISTINCT t.status(least(w3, w4)) || ' ' || t.status(greatest(w3, w4)), ',') FROM t.round")" 'running queued' \
		"$name: then one runs and the other waits"
	is "$(ask "SELECT t.used('c1-gpu')")" $((8 * rounds)) "$name: used"
	whole "$name"
}

finish="report_finished(workload => WORKLOAD, outcome => 'failed')"
stop='stop(workload => WORKLOAD)'
race 'READ COMMITTED' "$finish" "$stop"
race 'READ COMMITTED' "$finish" "$finish"
race 'REPEATABLE READ' "$finish" "$stop"

# A stop that waits for the row of an open one: true and then false, or true if the first rolls back.
for end in COMMIT ROLLBACK; do
	w=$(ask "SELECT workload_id FROM rpq.workloads WHERE status IN ('starting', 'running') ORDER BY workload_id LIMIT 1")
	do_script > /dev/null <<< "BEGIN; SELECT rpq.stop(workload => $w); SELECT pg_sleep(0.5); $end;" &
	sleep 0.2
	is "$(ask "SELECT rpq.report_finished(workload => $w)")" "$([ $end = COMMIT ] && echo f || echo t)" "a report behind a stop that ends with $end"
	wait
done
# A pass goes past a row that a client keeps locked.
w=$(ask "SELECT workload_id FROM rpq.workloads WHERE status IN ('starting', 'running') ORDER BY workload_id LIMIT 1")
q=$(ask "SELECT workload_id FROM rpq.workloads WHERE status = 'queued' ORDER BY submitted_at, workload_id LIMIT 1")
do_script > /dev/null <<< "BEGIN; SELECT rpq.stop(workload => $w); SELECT rpq.edit_workload(workload => $q, name => 'x'); SELECT pg_sleep(1); COMMIT;" &
sleep 0.3
is "$(ask "SET lock_timeout = '200ms'; SELECT t.pass() >= 0")" t 'a pass waits for no client'
wait
ask 'SELECT t.pass()' > /dev/null
whole 'open transactions'
done_testing

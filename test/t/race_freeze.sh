#!/bin/bash
# Field case F51: a freeze that is committed while a pass is in progress.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
fresh frozen
do_script > /dev/null <<-END
	CALL t.found();
	SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}');
END
start_over() {
	ask "SELECT rpq.stop(workload => workload_id) FROM rpq.workloads" > /dev/null
	ask "SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => false)" > /dev/null
	ask 'SELECT t.pass()' > /dev/null
	w=$(ask "SELECT t.submit('c1-gpu', '8', 'u1', 'w2')")
}
# At the moment after its commit, the freeze knows what runs; nothing may start later.
freeze="SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => true);"

for level in 'READ COMMITTED' 'REPEATABLE READ'; do
	# The pass has picked w2 and is not committed; the freeze waits for it, and w2 has started before.
	start_over
	do_script > "$race_out/pass" <<< "BEGIN ISOLATION LEVEL $level; SELECT t.pass(); SELECT pg_sleep(0.5); COMMIT;" &
	sleep 0.2
	retry "$level" "$freeze" "$race_out/freeze"
	frozen_at=$(ask 'SELECT clock_timestamp()')
	wait
	is "$(errors "$race_out/pass" "$race_out/freeze")" '' "$level: freeze behind a pass: no error"
	is "$(ask "SELECT t.status($w)")" running "$level: w2 was picked before the freeze"
	is "$(ask "SELECT count(*) FROM rpq.workloads WHERE started_at > '$frozen_at'")" 0 "$level: nothing started after its commit"

	# The freeze is first, not committed; the pass waits and admits nothing.
	start_over
	do_script > "$race_out/freeze" <<< "BEGIN ISOLATION LEVEL $level; $freeze SELECT pg_sleep(0.5); COMMIT;" &
	sleep 0.2
	retry "$level" 'SELECT t.pass();' "$race_out/pass"
	wait
	is "$(errors "$race_out/pass" "$race_out/freeze")" '' "$level: pass behind a freeze: no error"
	is "$(ask "SELECT t.status($w) || ' ' || t.reason_code($w)")" 'queued pool_frozen' "$level: w2 is not started by the pass that waited"
	is "$(ask "SELECT t.used('c1-gpu')")" 0 "$level: used 0"

	# The freeze is undone while the pass waits.
	start_over
	do_script > "$race_out/freeze" <<< "BEGIN ISOLATION LEVEL $level; $freeze SELECT pg_sleep(0.5); ROLLBACK;" &
	sleep 0.2
	retry "$level" 'SELECT t.pass();' "$race_out/pass"
	wait
	is "$(ask "SELECT t.status($w)")" running "$level: w2 runs if the freeze is rolled back"
done

# At the same moment, over and over.
rounds=12 late=0 started=0
[ "$RPQ_LONG" = 1 ] && rounds=200
for round in $(seq $rounds); do
	start_over
	at=$(soon '60 ms')
	do_script > "$race_out/pass1" <<< "$(until_then "$at") SELECT t.pass(); SELECT t.pass(); SELECT t.pass();" &
	do_script > "$race_out/pass2" <<< "$(until_then "$at") SELECT t.pass(); SELECT t.submit('c1-gpu', '1', 'u2'); SELECT t.pass();" &
	do_script > "$race_out/freeze" <<< "$(until_then "$at") $freeze SELECT clock_timestamp();" &
	wait
	errors "$race_out/pass1" "$race_out/freeze" >> "$race_out/errors"
	grep ERROR "$race_out/pass2" | grep -v RQ001 >> "$race_out/errors"
	frozen_at=$(tail -n 1 "$race_out/freeze")
	ask 'SELECT t.pass()' > /dev/null
	late=$((late + $(ask "SELECT count(*) FROM rpq.workloads WHERE started_at > '$frozen_at'")))
	started=$((started + $(ask "SELECT count(*) FROM rpq.workloads WHERE status = 'starting'")))
done
diag "of $rounds rounds $started started before the freeze"
is "$(cat "$race_out/errors")" '' 'at once: no error'
is $late 0 'at once: nothing was ever started after the freeze was committed'
whole
done_testing

#!/bin/bash
# Field case F15: gangs from two sessions, passes from two more; at every commit a gang is whole or absent.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
rounds=10
[ "$RPQ_LONG" = 1 ] && rounds=100
fresh gang
do_script > /dev/null <<-END
	CALL t.found();
	SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}');
	CREATE TABLE t.seen (pods bigint, used numeric);
	CREATE TABLE t.done (over boolean);
	-- Looks at every gang's pods until told to stop; notes what is neither 0 nor 4, and pools beyond their total.
	CREATE PROCEDURE t.watch() LANGUAGE plpgsql AS \$\$
	BEGIN
		WHILE NOT EXISTS (SELECT FROM t.done) LOOP
			INSERT INTO t.seen SELECT count(*), 0 FROM rpq.pods GROUP BY workload_id HAVING count(*) <> 4;
			INSERT INTO t.seen SELECT 0, t.used('c1-gpu') WHERE t.used('c1-gpu') NOT IN (0, 32);
			COMMIT;
			PERFORM pg_sleep(0.002);
		END LOOP;
	END \$\$;
	CREATE PROCEDURE t.passes(n int) LANGUAGE plpgsql AS \$\$
	BEGIN
		FOR i IN 1 .. n LOOP
			PERFORM t.pass();
			COMMIT;
			PERFORM pg_sleep(0.005);
		END LOOP;
	END \$\$;
END
do_script > "$race_out/watch" <<< 'CALL t.watch();' &
watch=$!
won=0 other=0 members=
for round in $(seq $rounds); do
	at=$(soon '150 ms')
	sessions=()
	for g in 1 2; do
		do_script > "$race_out/g$g" <<< "$(until_then "$at") SELECT t.submit('c1-gpu', '8', 'u$g', 'g$g', 4);" &
		sessions+=($!)
		do_script > "$race_out/p$g" <<< "$(until_then "$at") CALL t.passes(20);" &
		sessions+=($!)
	done
	wait "${sessions[@]}"
	errors "$race_out"/[gp][12] >> "$race_out/errors"
	members+="$(ask "SELECT string_agg(n::text, '+') FROM (SELECT count(*) n FROM rpq.pods GROUP BY workload_id) x") $(ask "SELECT t.used('c1-gpu')"),"
	winner=$(ask "SELECT workload_id FROM rpq.workloads WHERE status = 'starting'")
	ask "SELECT rpq.report_finished(workload => $winner)" > /dev/null
	ask 'SELECT t.pass()' > /dev/null
	next=$(ask "SELECT workload_id FROM rpq.workloads WHERE status = 'starting'")
	[ -n "$winner" ] && won=$((won + 1))
	[ -n "$next" ] && [ "$next" != "$winner" ] && [ "$(ask "SELECT t.used('c1-gpu')")" = 32 ] && other=$((other + 1))
	ask "SELECT rpq.report_finished(workload => workload_id) FROM rpq.workloads WHERE status = 'starting'" > /dev/null
	ask 'SELECT t.pass()' > /dev/null
done
ask 'INSERT INTO t.done VALUES (true)' > /dev/null
wait $watch
is "$(cat "$race_out/errors" "$race_out/watch")" '' 'no error'
is "$members" "$(printf '4 32,%.0s' $(seq $rounds))" 'each round: one gang of 4, the other 0, used 32'
is "$won $other" "$rounds $rounds" 'when it ends, the other is placed whole'
is "$(ask 'SELECT count(*) FROM t.seen')" 0 'nobody ever saw a part of a gang' || diag "$(ask 'SELECT * FROM t.seen LIMIT 10')"
is "$(ask "SELECT t.used('c1-gpu') || ' ' || (SELECT count(*) FROM rpq.workloads)")" '0 0' 'nothing is left'
whole
done_testing

#!/bin/bash
# Random operations from several sessions at once, at all isolation levels, with savepoints and rollbacks, the whole
# recomputed throughout; then the same while the server's processes are killed.  20 seconds; RPQ_LONG=1: half an hour
# and fifty kills.  The seed is printed; RPQ_SEED sets it.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
seed=${RPQ_SEED:-$((RANDOM % 1000))}
sessions=4 calm=9 kills=2 between=3
[ "$RPQ_LONG" = 1 ] && sessions=8 calm=600 kills=50 between=15
diag "seed $seed"
make_template || { ok 1 'set up'; done_testing; }
fresh random
is "$(psql -Xq -v ON_ERROR_STOP=1 -d random -f "$RPQ_ROOT/test/lib/random_ops.sql" -c 'SET rpq.synchronous_operations = on' \
	-c 'CALL rt.found()' 2>&1 | tail -n 3)" '' 'set up'

levels=('read committed' 'repeatable read' 'read committed' 'serializable')
# drive SECONDS ROUND: the sessions, and one that checks; their pids are left in pids
drive() {
	local i level
	pids=()
	for i in $(seq $sessions); do
		level=${levels[$(((i - 1) % 4))]}
		PGOPTIONS="$PGOPTIONS -c default_transaction_isolation=${level// /\\ }" psql -Xq -v VERBOSITY=terse -d random \
			-c "CALL rt.drive($i, ($seed + 1000 * $2 + $i) / 1000000.0, $1)" > "$race_out/drive.$2.$i" 2>&1 &
		pids+=($!)
	done
	psql -Xq -v VERBOSITY=terse -d random -c "CALL rt.check($1)" > "$race_out/check.$2" 2>&1 &
	pids+=($!)
}
faults() { ask "SELECT count(*) FROM rt.fault"; }
show_faults() { [ "$(faults)" = 0 ] || diag "$(ask "SELECT session, state, call, message FROM rt.fault ORDER BY at LIMIT 30")"; }
sound() {
	is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 "$1: check_integrity() is empty" || diag "$(ask 'SELECT * FROM rpq.check_integrity() LIMIT 20')"
	is "$(ask 'SELECT * FROM rt.oracle()')" '' "$1: so says a second opinion"
}

drive $calm 0
wait "${pids[@]}"
is "$(cat "$race_out"/drive.0.* "$race_out/check.0")" '' 'no session failed'
is "$(faults)" 0 'no call failed with what the contract does not know, nothing was ever out of balance'
show_faults
sound 'calm'
is "$(deadlocks)" 0 'calm: no deadlock'
is "$(ask "SELECT count(*) > 50 FROM rpq.ledger WHERE kind = 'admit'")" t 'work was admitted'
diag "$(ask "SELECT call || ': ' || string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT call, state, sum(n) n FROM rt.tally GROUP BY 1, 2) x GROUP BY call ORDER BY call")"

# Kills: a backend (which makes the server recover), or all of its processes.
for kill in $(seq $kills); do
	ask 'DELETE FROM rt.fault' > /dev/null
	drive $((between + 30)) "$kill"
	sleep "$between.$((RANDOM % 1000))"
	if [ $((kill % 2)) = 1 ]; then
		victim=$(ask "SELECT pid FROM pg_stat_activity WHERE datname = 'random' AND query ~ 'rt.drive' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1")
		kill -9 "$victim"
		what='a backend'
	else
		"$RPQ_ROOT/scripts/cluster" kill "$RPQ_CLUSTER"
		"$RPQ_ROOT/scripts/cluster" up "$RPQ_CLUSTER"
		what='the server'
	fi
	wait "${pids[@]}" 2> /dev/null
	for _ in $(seq 200); do
		[ "$(ask 'SELECT 1')" = 1 ] && break
		sleep 0.1
	done
	is "$(faults)" 0 "kill $kill of $what: no fault before it"
	show_faults
	sound "kill $kill of $what"
	ask 'SELECT t.pass()' > /dev/null
	sound "kill $kill of $what, after a pass"
done

# At the end all work ends, and nothing is left.
do_script > "$race_out/end" <<-END
	SELECT rpq.edit_pool(pool => p, frozen => true) FROM unnest('{p1,p2,c1-gpu}'::text[]) p;
	SELECT count(rpq.stop(workload => workload_id)) FROM rpq.workloads WHERE status NOT IN ('draft');
	SELECT t.pass();
END
is "$(errors "$race_out/end")" '' 'all work is stopped'
is "$(ask "SELECT sum(t.gpu(used)) || ' ' || (SELECT count(*) FROM rpq.pods) FROM rpq.pools")" '0 0' 'nothing is used, no pod is left'
is "$(ask "SELECT t.gpu(rpq.sum(resources)) FROM rpq.ledger")" 0 'the ledger adds up to nothing'
is "$(ask "SELECT count(*) FROM (SELECT workload_id, attempt FROM rpq.workload_events
	WHERE event IN ('succeeded', 'failed', 'stopped', 'preempted', 'requeued', 'lost', 'moved') AND attempt > 0 GROUP BY 1, 2 HAVING count(*) > 1) x")" 0 \
	'exactly one end event an attempt'
sound 'the end'
done_testing

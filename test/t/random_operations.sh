#!/bin/bash
# Random operations on pools and nodes from several sessions at once, carried out by the calls, by run_operations() and
# by a worker that is terminated over and over, beside an executor that starts, ends and loses pods; then the same while
# the server's processes are killed.  The whole is recomputed throughout.  RPQ_LONG=1: half an hour and fifty kills.
# The seed is printed; RPQ_SEED sets it.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
seed=${RPQ_SEED:-$((RANDOM % 1000))}
sessions=4 calm=10 kills=2 between=3
[ "$RPQ_LONG" = 1 ] && sessions=6 calm=600 kills=50 between=15
diag "seed $seed"
make_template || { ok 1 'set up'; done_testing; }
fresh random
is "$(psql -Xq -v ON_ERROR_STOP=1 -d random -f "$RPQ_ROOT/test/lib/random_ops.sql" -f "$RPQ_ROOT/test/lib/random_operations.sql" \
	-c 'SET rpq.synchronous_operations = on' -c 'CALL rt.found()' 2>&1 | tail -n 3)" '' 'set up'
psql -Xq -d postgres -c "ALTER SYSTEM SET rpq.node_timeout = '5s'" -c "ALTER SYSTEM SET rpq.preemption_grace = '1s'" \
	-c "ALTER SYSTEM SET rpq.cycle_interval = '200ms'" -c "ALTER SYSTEM SET rpq.databases = 'random'" -c 'SELECT pg_reload_conf()' > /dev/null

levels=('read committed' 'repeatable read' 'read committed' 'serializable')
# drive SECONDS ROUND: the sessions, the executor, one that checks, one that terminates workers; their pids are left in pids
drive() {
	local i level
	pids=()
	for i in $(seq $sessions); do
		level=${levels[$(((i - 1) % 4))]}
		PGOPTIONS="-c rpq.synchronous_operations=$([ $((i % 3)) = 0 ] && echo on || echo off) -c default_transaction_isolation=${level// /\\ }" \
			psql -Xq -v VERBOSITY=terse -d random -c "CALL rt.drive($i, ($seed + 1000 * $2 + $i) / 1000000.0, $1)" > "$race_out/drive.$2.$i" 2>&1 &
		pids+=($!)
	done
	psql -Xq -v VERBOSITY=terse -d random -c "CALL rt.execute($1)" > "$race_out/execute.$2" 2>&1 &
	pids+=($!)
	psql -Xq -v VERBOSITY=terse -d random -c "CALL rt.check($1)" > "$race_out/check.$2" 2>&1 &
	pids+=($!)
	psql -Xq -v VERBOSITY=terse -d random > "$race_out/terminate.$2" 2>&1 <<-END &
		DO \$\$ BEGIN
			FOR i IN 1 .. $1 / 2 LOOP
				PERFORM pg_sleep(1 + random() * 2);
				PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'rpq worker';
			END LOOP;
		END \$\$;
	END
	pids+=($!)
}
faults() { ask "SELECT count(*) FROM rt.fault"; }
show_faults() { [ "$(faults)" = 0 ] || diag "$(ask "SELECT session, state, call, message FROM rt.fault ORDER BY at LIMIT 30")"; }
sound() {
	is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 "$1: check_integrity() is empty" || diag "$(ask 'SELECT * FROM rpq.check_integrity() LIMIT 20')"
	is "$(ask 'SELECT * FROM rt.oracle()')" '' "$1: so says a second opinion"
	is "$(ask "SELECT last_error FROM rpq.workers WHERE last_error !~ '^57P0'")" '' "$1: the worker met no error"
}
# Swaps of faulty nodes wait for a spare; all else ends, while the executor goes on reporting.
all_ends() {
	psql -Xq -v VERBOSITY=terse -d random -c "CALL rt.execute(15)" > "$race_out/execute.end" 2>&1 &
	for _ in $(seq 150); do
		[ "$(ask "SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running') AND kind <> 'rotate'")" = 0 ] && break
		sleep 0.1
	done
	# there is one executor at a time
	ask "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query ~ 'rt.execute' AND pid <> pg_backend_pid()" > /dev/null
	wait $! 2> /dev/null
	is "$(ask "SELECT string_agg(kind || ' ' || status || ' ' || coalesce(step, ''), ', ') FROM rpq.operations WHERE status IN ('pending', 'running') AND kind <> 'rotate'")" '' \
		"$1: no operation stays open" || diag "$(ask "SELECT * FROM rpq.operations WHERE status IN ('pending', 'running')")" "$(ask 'SELECT * FROM rpq.pod_migrations ORDER BY 1 DESC LIMIT 5')"
}

drive $calm 0
wait "${pids[@]}"
is "$(cat "$race_out"/drive.0.* "$race_out"/{execute,check,terminate}.0)" '' 'no session failed'
is "$(faults)" 0 'no call failed with what the contract does not know, nothing was ever out of balance'
show_faults
sound 'calm'
all_ends 'calm'
is "$(deadlocks)" 0 'calm: no deadlock'
diag "$(ask "SELECT call || ': ' || string_agg(state || ' ' || n, ', ' ORDER BY state) FROM (SELECT call, state, sum(n) n FROM rt.tally GROUP BY 1, 2) x GROUP BY call ORDER BY call")"
diag "$(ask "SELECT kind || ': ' || string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT kind, status || coalesce(' ' || error_code, '') AS status, count(*) n FROM rpq.operations GROUP BY 1, 2) x GROUP BY kind ORDER BY kind")"
diag "$(ask "SELECT 'moves of pods: ' || string_agg(status || ' ' || n, ', ' ORDER BY status) FROM (SELECT status || coalesce(' ' || reason, '') AS status, count(*) n FROM rpq.pod_migrations GROUP BY 1) x")"
# Kills: a backend (which makes the server recover), or all of its processes.
for kill in $(seq $kills); do
	ask 'DELETE FROM rt.fault' > /dev/null
	drive $((between + 30)) "$kill"
	sleep "$between.$((RANDOM % 1000))"
	if [ $((kill % 2)) = 1 ]; then
		victim=$(ask "SELECT pid FROM pg_stat_activity WHERE datname = 'random' AND (query ~ 'rt.drive' OR backend_type = 'rpq worker') AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1")
		kill -9 "$victim"
		what='a process'
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
	all_ends "kill $kill of $what"
done
is "$(faults)" 0 'no fault at the end'
show_faults

is "$(ask "SELECT count(DISTINCT kind) >= 6 FROM rpq.operations WHERE status = 'succeeded'")" t 'operations of most kinds have succeeded'

# At the end all work and all pools end, and nothing is left but the nodes, in the shared pool.
do_script > "$race_out/end" <<-END
	SELECT rpq.delete_pool(pool => name, force => true) FROM rpq.pools WHERE type <> 'shared';
	SELECT rpq.edit_pool(pool => name, frozen => true) FROM rpq.pools;
	SELECT count(rpq.stop(workload => workload_id)) FROM rpq.workloads WHERE status NOT IN ('draft');
	SELECT pg_sleep(1.5);
	SELECT t.pass();
END
is "$(errors "$race_out/end")" '' 'all work is stopped, all pools are deleted'
is "$(ask "SELECT string_agg(type || ' ' || t.gpu(used), ',') || ' ' || (SELECT count(*) FROM rpq.pods) FROM rpq.pools")" 'shared 0 0' 'nothing is used, no pod is left'
is "$(ask "SELECT t.gpu(rpq.sum(resources)) FROM rpq.ledger")" 0 'the ledger adds up to nothing'
# (one that is stopped while it waits ends no attempt)
is "$(ask "SELECT string_agg(format('%s/%s: %s', workload_id, attempt, kinds), '; ') FROM (SELECT workload_id, attempt, string_agg(kind || ' ' || coalesce(status, ''), ',' ORDER BY entry_id) AS kinds
	FROM rpq_store.entry WHERE kind = 'release' GROUP BY 1, 2 HAVING count(*) > 1) x")" '' 'each attempt is released once'
is "$(ask "SELECT count(*) FROM rpq_store.hold")" 0 'no hold is left'
sound 'the end'
is "$(deadlocks)" 0 'no deadlock'
done_testing

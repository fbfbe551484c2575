# Submissions and ends of single workloads, by 1, 8 and 32 clients, one pool and fifty, beside a single-row INSERT.

# Every client finishes workloads of its own, placed beforehand, so that each transaction ends one; there are more of them
# than it can end in the time, since a submission is the cheaper call.
stock() { # CLIENTS EACH POOLS
	local n=$(($1 * $2))
	first=$(sql -U bench -c "SELECT min(id) - 1 FROM (SELECT rpq.submit('p' || 1 + i % $3, workload_type => 'batch',
		resources => 'cpu=1') AS id FROM generate_series(1, $n) i) s")
	sql -c 'SET rpq.cycle_batch = 1000000' -c 'SELECT rpq_store.worker_cycle()' > /dev/null
	[ "$(sql -c "SELECT count(*) FROM rpq_store.workload WHERE status = 'starting'")" -ge $n ] || die 'the stock is not placed'
}

finish() { # CLIENTS EACH POOLS
	stock "$1" "$2" "$3"
	tps "$1" finish.sql -D n=0 -D each="$2" -D first="$first"
	sql -c 'CALL bench.clear()' > /dev/null
}

both() { # worker state
	local c each
	for c in ${BENCH_CLIENTS:-1 8 32}; do
		in_turns plain "tps $c insert.sql -D pools=50" \
			one "use one; tps $c submit.sql -D pools=1" fifty "use fifty; tps $c submit.sql -D pools=50"
		row "submit, $c clients, one pool, worker $1" "$(value one)" "$(value plain)" "$([ $c = 1 ] && echo - || echo '>= 0.5')"
		row "submit, $c clients, one pool beside fifty, worker $1" "$(value one)" "$(value fifty)" \
			"$([ $c = 1 ] && echo - || echo '>= 0.9')"
		[ "$1" = off ] || continue
		each=$(calc "int(1.3 * $seconds * $(sort -g "$scratch/one" | tail -n 1) / $c) + 100")
		for d in one fifty; do (use $d; sql -c 'CALL bench.clear()'); done
		in_turns plain "tps $c insert.sql -D pools=50" \
			one "use one; finish $c $each 1" fifty "use fifty; finish $c $each 50"
		row "report_finished, $c clients, one pool" "$(value one)" "$(value plain)" "$([ $c = 1 ] && echo - || echo '>= 0.5')"
		row "report_finished, $c clients, one pool beside fifty" "$(value one)" "$(value fifty)" \
			"$([ $c = 1 ] && echo - || echo '>= 0.9')"
	done
}
use() { export PGDATABASE=bench_$1; }

new_database bench_fifty 1000 50
new_database bench_one 1000 1
worker off
heading 'Transactions a second: single calls, beside a single-row INSERT'
both off

# Many at a time: submissions in one statement, admission from a deep queue, and the cycle by the number of nodes.

use() { export PGDATABASE=bench_$1; }
plain() { sql -c CHECKPOINT; sql -U bench -c "CALL bench.insert_unnest($1, NULL)"; }
submit() { sql -c CHECKPOINT; sql -U bench -c "CALL bench.submit_bulk($1, $2, NULL)"; }
# The time of all cycles that a queue of n workloads in 30 lanes needs, in ms.
admit() {
	sql -c 'CALL bench.clear()'
	sql -U bench -c "CALL bench.submit_bulk($1, 30, NULL)" > /dev/null
	sql -c 'ANALYZE rpq_store.workload, rpq_store.entry' -c CHECKPOINT
	sql -c 'CALL bench.drain(NULL, NULL)' | cut -d '|' -f 1
	[ "$(sql -c "SELECT count(*) FROM rpq_store.workload WHERE status = 'queued'")" = 0 ] || die 'not all were admitted'
}

worker off
for n in 100 1000 10000; do new_database bench_n$n $n 1; done

use n1000
heading 'Rows a second in bulk, beside one INSERT ... unnest of as many rows'
in_turns plain 'plain 1000' submit 'submit 1000 30'
row '1,000 submissions in one statement' "$(calc "1e6 / $(value submit)")" "$(calc "1e6 / $(value plain)")" '>= 0.1'
sql -c 'CALL bench.clear()'
in_turns plain 'plain 50000' admit 'admit 50000'
row 'admission of 50,000 in 30 lanes, 1,000 nodes' "$(calc "5e7 / $(value admit)")" "$(calc "5e7 / $(value plain)")" '>= 0.08'

heading 'Workloads admitted a second, by the number of nodes (5,000 waiting in 30 lanes)'
in_turns n100 'use n100; admit 5000' n1000 'use n1000; admit 5000' n10000 'use n10000; admit 5000'
row 'the whole cycle, 1,000 nodes beside 100' "$(calc "5e6 / $(value n1000)")" "$(calc "5e6 / $(value n100)")" -
row 'the whole cycle, 10,000 nodes beside 100' "$(calc "5e6 / $(value n10000)")" "$(calc "5e6 / $(value n100)")" '>= 0.5'
if [ -f "$here/../unit/shim/shim.c" ] && (cd "$here/../.." && cc -O2 -Itest/unit/shim -Itest/unit -Isrc \
	test/bench/core_bench.c test/unit/shim/shim.c src/core/[a-z]*.c -o "$scratch/core_bench"); then
	"$scratch/core_bench" > "$scratch/core"
	# ns a pod at 100 and at 10,000 nodes: the ratio of rates is the other way round
	awk -F '  +' '/ns a pod/ { same = /10,000 tiny pods/ } same && /^(binpack|spread),/ { print $1 "|" $2 "|" $4 }' "$scratch/core" > "$scratch/core_rows"
	while IFS='|' read -r mix few many; do
		row "the core alone, $mix" "$(calc "1e9 / $many")" "$(calc "1e9 / $few")" '>= 0.9'
	done < "$scratch/core_rows"
fi

heading 'A cycle with nothing to do'
use n10000
sql -c 'CALL bench.clear()'
# Every node is taken by one gang; 50,000 workloads in 30 lanes wait behind it.
sql -U bench -c "SELECT rpq.submit('p1', workload_type => 'batch', resources => 'gpu=8,cpu=192', replicas => 10000)" \
	-c "CALL bench.submit_bulk(50000, 30, NULL)" > /dev/null
sql -c 'CALL bench.drain(NULL, NULL)' -c 'VACUUM ANALYZE' > /dev/null
cycle() { sql -c "SELECT bench.ms('SELECT rpq_store.worker_cycle()') FROM generate_series(1, 5)" | median; }
in_turns idle cycle
limit '10,000 nodes, 50,000 waiting' "$(value idle)" ms '< 10'
one_more() { sql -U bench -c "CALL bench.submit_bulk(1, 1, NULL)" > /dev/null; sql -c "SELECT bench.ms('SELECT rpq_store.worker_cycle()')"; }
in_turns one one_more
limit 'the same, with one more submission that has to wait' "$(value one)" ms -
for n in 100 1000 10000; do dropdb --force bench_n$n; done

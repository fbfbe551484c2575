# An old snapshot, held open from the start over many changes, beside a database where nobody holds one.

use() { export PGDATABASE=bench_$1; }
changes=$([ "${RPQ_LONG:-0}" = 1 ] && echo 500000 || echo 50000)
# Submissions, admissions and ends, by 32 clients and the worker, until so many entries were written.
drive() {
	pgbench -n -U bench -M prepared -c 32 -j 2 -t $((changes / 96 + 1)) -D last=1 -D before_last=1 -f "$here/old_mix.sql" \
		> /dev/null 2> "$scratch/err" || die "the load: $(tail -n 3 "$scratch/err")"
	worker_is_done
}
# The time of a statement after a hundred new submissions, in ms: the median of seven, in one session as the worker's, whose
# plans and balances the first, which does not count, has filled.
after_a_hundred() { # STATEMENT
	local _
	for _ in 1 2 3 4 5 6 7 8; do
		echo "SET rpq.account = 'bench'; CALL bench.submit_bulk(100, 30, NULL) \\g /dev/null"
		echo 'RESET rpq.account;'
		echo "$1"
	done | sql -v pool="$(sql -c "SELECT pool_id FROM rpq_store.pool WHERE name = 'p1'")" -f - | tail -n 7 | median
}
cycle() { after_a_hundred "SELECT bench.ms('SELECT rpq_store.run_cycles()');"; }
# A cycle that only counts: no node takes work, so every lane stays blocked.
fold() {
	sql -c 'UPDATE rpq_store.node SET schedulable = false'
	cycle
	sql -c 'UPDATE rpq_store.node SET schedulable = true'
}
# What an operation pays, which holds the turn and keeps nothing.
operation() {
	after_a_hundred "BEGIN; SELECT rpq_store.take_turns(ARRAY[:pool]) \\g /dev/null
		SELECT bench.ms('SELECT rpq_store.fold(ARRAY[' || :pool || '])'); COMMIT;"
}
first_and_last() { # NAME: measured with the worker off
	use "$1"
	worker off
	sql -c 'CALL bench.clear()' | grep .
	cycle > "$scratch/$1_cycle_$2"
	operation > "$scratch/$1_operation_$2"
	fold > "$scratch/$1_fold_$2"
	sql -c 'CALL bench.clear()' | grep .
}

heading "An old snapshot held open over $changes changes, 1,000 nodes"
new_database bench_new 1000 1
new_database bench_old 1000 1
first_and_last old first
first_and_last new first
use old
psql -Xq -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' -c 'SELECT count(*) FROM pg_class' -c 'SELECT pg_sleep(36000)' \
	> /dev/null 2>&1 &
for d in new old; do use $d; worker on; drive; done
first_and_last old last
first_and_last new last
in_turns new 'use new; worker on; tps 32 submit.sql -D pools=1' old 'use old; worker on; tps 32 submit.sql -D pools=1'
row 'submit, 32 clients, worker on, beside a database without' "$(value old)" "$(value new)" '>= 0.7'
row 'fold of 100 submissions (ms), last beside first' "$(value old_fold_last)" "$(value old_fold_first)" '<= 2'
row 'the same without an old snapshot' "$(value new_fold_last)" "$(value new_fold_first)" -
row 'fold of 100 by an operation (ms), last beside first' "$(value old_operation_last)" "$(value old_operation_first)" -
row 'cycle with 100 submissions (ms), last beside first' "$(value old_cycle_last)" "$(value old_cycle_first)" '<= 2'
row 'the same without an old snapshot' "$(value new_cycle_last)" "$(value new_cycle_first)" -
use old
sql -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'" > /dev/null
wait
worker off
dropdb --force bench_new
dropdb --force bench_old

# Work through 1,000 queues of 1,000 policies: 10 pools of 100 nodes, 100 policies each, three priorities, preemption on.
# The clients' side is as in 20_bulk.sh; what is measured is the cycle, explanations, and dry runs beside the worker.

plain() { sql -c CHECKPOINT; sql -U bench -c "CALL bench.insert_unnest($1, NULL)"; }
# The time of all cycles that n workloads need which came through all queues, in ms.
admit() {
	sql -c 'CALL bench.clear()'
	sql -U bench -c "CALL bench.submit_queues($1)" > /dev/null
	sql -c 'ANALYZE rpq_store.workload, rpq_store.entry' -c CHECKPOINT
	sql -c 'CALL bench.drain(NULL, NULL)' | cut -d '|' -f 1
	[ "$(sql -c "SELECT count(*) FROM rpq_store.workload WHERE status = 'queued'")" = 0 ] || die 'not all were admitted'
}

worker off
new_database bench_policies 1000 10
sql -v pools=10 -v policies=100 -f "$here/policies.sql" > /dev/null
heading 'Through 1,000 queues of 1,000 policies'
in_turns plain 'plain 50000' admit 'admit 50000'
row 'admission of 50,000 in 3,000 lanes, beside INSERT ... unnest' "$(calc "5e7 / $(value admit)")" \
	"$(calc "5e7 / $(value plain)")" '>= 0.08'

# All nodes are full of what is lent; 1,000 claims of their reservation come, one of each policy.
reclaim() {
	sql -c 'CALL bench.clear()' -c "CALL bench.lend_all()" > /dev/null
	sql -c 'CALL bench.drain(NULL, NULL)' > /dev/null
	sql -c "CALL bench.claim_all()" -c 'ANALYZE rpq_store.workload, rpq_store.pod' -c CHECKPOINT > /dev/null
	sql -c 'CALL bench.drain(NULL, NULL)' | cut -d '|' -f 1
	[ "$(sql -c "SELECT count(*) FROM rpq_store.workload WHERE status = 'starting' AND name = 'claim'")" = 1000 ] || die 'not all got their room'
}
in_turns reclaim reclaim
limit '1,000 claims take back what was lent, all cycles' "$(value reclaim)" ms -

heading 'A cycle with nothing to do, explanations and dry runs, some 50,000 waiting through the same queues'
sql -c 'CALL bench.clear()' -c 'CALL bench.lend_all()' -c 'CALL bench.drain(NULL, NULL)' > /dev/null
sql -U bench -c 'CALL bench.submit_queues(60000, 10)' > /dev/null
sql -c 'CALL bench.drain(NULL, NULL)' -c 'VACUUM ANALYZE' > /dev/null
cycle() { sql -c "SELECT bench.ms('SELECT rpq_store.worker_cycle()') FROM generate_series(1, 5)" | median; }
in_turns idle cycle
limit 'a cycle with nothing to do' "$(value idle)" ms '< 10'
limit 'explain of one of 50,000, p99' "$(sql -c 'CALL bench.explain_some(200, NULL)')" ms '< 10'

# What the worker admits a second of a stream of small work, alone and while ten sessions plan.
worker on
rate() {
	local pids='' i n since
	for ((i = 0; i < $1; i++)); do
		pgbench -n -U bench -M prepared -c 1 -T 600 -f "$here/dry_run.sql" > /dev/null 2>&1 & pids+=" $!"
	done
	sleep 0.5
	sql -c "CALL bench.stream($seconds, NULL)"
	[ -z "$pids" ] || { kill $pids; wait $pids 2> /dev/null; true; }
}
in_turns alone 'rate 0' beside 'rate 10'
row 'submitted to placed and ended a second, beside ten dry runs at once' "$(value beside)" "$(value alone)" '>= 0.9'
worker off
dropdb --force bench_policies

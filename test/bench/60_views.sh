# What people read, over a large past: overview, pools, nodes and the like, as an organisation's member and as a
# platform administrator.

new_database bench_views 1000 10
worker off
if [ "${RPQ_LONG:-0}" = 1 ]; then placed=100000 queued=50000 ended=1000000; else placed=20000 queued=10000 ended=50000; fi

# Through the functions, in batches: what has ended was submitted, placed and finished as any other.
fill() { # NUMBER RESOURCES
	sql -U bench -c "SELECT count(rpq.submit('p' || 1 + i % 10, workload_type => 'batch', priority => i % 3,
		resources => '$2')) FROM generate_series(1, $1) i" > /dev/null
}
for ((left = ended; left > 0; left -= 50000)); do
	fill 50000 cpu=1
	sql -c 'SET rpq.cycle_batch = 1000000' -c 'SELECT rpq_store.worker_cycle()' \
		-c "SELECT count(rpq.report_finished(workload_id)) FROM rpq_store.workload WHERE status = 'starting'" \
		-c 'SELECT rpq_store.worker_cycle()' > /dev/null
done
fill "$placed" cpu=1
sql -c 'SET rpq.cycle_batch = 1000000' -c 'SELECT rpq_store.worker_cycle()' > /dev/null
# Whole nodes that no longer are to be had.
fill "$queued" gpu=8,cpu=192
sql -c 'SET rpq.cycle_batch = 1000000' -c 'SELECT rpq_store.worker_cycle()' -c 'VACUUM ANALYZE' > /dev/null

heading "Reading, with $placed placed, $queued submitted behind them, $ended ended"
time_of() { # ROLE STATEMENT
	psql -XAtq -U "$1" -c '\timing on' -c "\\o /dev/null" -c "$2" -c '\o' -c "$2" > "$scratch/timing" || die "$2"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$scratch/timing" | tail -n 1
}
while IFS='|' read -r what statement; do
	for role in bench postgres; do
		in_turns it "time_of $role \"$statement\""
		limit "$what, as $([ $role = bench ] && echo 'a member' || echo 'platform administrator')" "$(value it)" ms -
	done
done << 'END'
overview|SELECT count(*), sum(nodes) FROM (SELECT * FROM rpq.overview OFFSET 0) v
pools|SELECT count(*), sum(queued) FROM (SELECT * FROM rpq.pools OFFSET 0) v
nodes|SELECT count(*), count(used) FROM (SELECT * FROM rpq.nodes OFFSET 0) v
the first fifty workloads|SELECT count(reason) FROM (SELECT * FROM rpq.workloads ORDER BY workload_id DESC LIMIT 50) v
node_map of one pool|SELECT count(*) FROM rpq.node_map('p1')
explain of one that waits|SELECT count(*) FROM rpq.explain((SELECT workload_id FROM rpq.workloads WHERE status = 'queued' LIMIT 1))
END
dropdb --force bench_views

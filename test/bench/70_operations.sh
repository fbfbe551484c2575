# Operations on a pool of 10,000 nodes and 100,000 pods: how long each holds the pool's turn, and moving nodes by the
# thousand.

new_database bench_operations 10000 1
worker off
busy=9000
# Whole devices on nine nodes of ten, and small work in what cores these have left; the other nodes are idle.
sql -U bench -c "SELECT count(rpq.submit('p1', workload_type => 'batch', resources => 'gpu=1,cpu=2')) FROM generate_series(1, $((busy * 8))) i" \
	-c "SELECT count(rpq.submit('p1', workload_type => 'batch', resources => 'cpu=1')) FROM generate_series(1, $((100000 - busy * 8))) i" \
	> /dev/null
sql -c 'SET rpq.cycle_batch = 1000000' -c 'SELECT rpq_store.worker_cycle()' > /dev/null
# so that the last cycle is one as usual
sql -U bench -c "SELECT rpq.submit('p1', workload_type => 'batch', resources => 'cpu=1')" > /dev/null
sql -c 'SELECT rpq_store.worker_cycle()' > /dev/null
sql -c "SELECT cardinality(rpq.add_nodes('g8', count => 2000, prefix => 'x', tenant => 'bench'))" -c 'VACUUM ANALYZE' -c CHECKPOINT \
	> /dev/null

# The longest transaction of an operation, and all of them, in ms; in one session as the worker's, whose plans operations of
# the same kind have made.
transactions() { # CALL [CALL before]
	printf "CALL bench.operation(%s, NULL, NULL);\n" ${2:+"\$a\$$2\$a\$"} "\$a\$$1\$a\$" | sql -f - | tail -n 1 | tr '|' ' '
}
longest() { transactions "$@" | cut -d ' ' -f 1; }
all() { transactions "$@" | cut -d ' ' -f 2; }
total() { sql -c "SELECT 'gpu=' || ((total OPERATOR(rpq.->) 'gpu') + 8 * $1)::int FROM rpq.pools WHERE name = 'p1'"; }
resized() { longest "SELECT rpq.resize_pool('p1', quota => '$(total $(($1 * 2)))')" "SELECT rpq.resize_pool('p1', quota => '$(total "$1")')"; }
thousand_in() { all "SELECT rpq.move_nodes(count => 1000, from_pool => 'c1-gpu', to_pool => 'p1')"; }
thousand_out() { all "SELECT rpq.move_nodes(count => 1000, from_pool => 'p1', to_pool => 'c1-gpu')"; }
busy_nodes() { sql -c "SELECT array_agg(name) FROM (SELECT name FROM rpq_store.node JOIN rpq_store.node_load USING (node_id)
	WHERE pods = 8 AND schedulable AND name LIKE 'n%' ORDER BY name LIMIT $1) n" | tr -d '{}'; }
drained() { local two=$(busy_nodes 2); longest "SELECT rpq.drain_node('${two#*,}')" "SELECT rpq.drain_node('${two%,*}')"; }

heading 'Operations on a pool of 10,000 nodes with 100,000 pods'
in_turns grow 'resized 5' shrink 'resized -5' drain drained
limit 'resize by 5 idle machines, growing: longest transaction' "$(value grow)" ms '< 200'
limit 'resize by 5 idle machines, shrinking' "$(value shrink)" ms '< 200'
limit 'draining a node with 8 pods' "$(value drain)" ms '< 200'
read -r most sum <<< "$(transactions "SELECT rpq.move_nodes(nodes => '{$(busy_nodes 100)}', to_pool => 'c1-gpu', evacuate => true)" \
	"SELECT rpq.drain_node('$(busy_nodes 101 | sed 's/.*,//')')")"
limit 'moving 100 nodes with 800 pods' "$most" ms '< 200'
limit 'the same, all of its transactions' "$sum" ms -
in_turns in thousand_in out thousand_out
limit 'moving 1,000 idle nodes into the pool, all' "$(value in)" ms '< 5000'
limit 'moving 1,000 idle nodes out of it, all' "$(value out)" ms '< 5000'

# Every node was heard of lately, none is silent, and nothing has changed: what a look at that costs.
sql -c "INSERT INTO rpq_store.node_seen (node_id, at) SELECT node_id, rpq.now() FROM rpq_store.node" -c 'VACUUM ANALYZE rpq_store.node_seen'
# The worker looks once a second.
swept() {
	local _
	for _ in 1 2 3 4; do echo "SELECT bench.ms('SELECT rpq_store.worker_cycle()') FROM pg_sleep(1.1);"; done | sql -f - | tail -n 3 | median
}
in_turns sweep swept
limit 'a cycle that looks at the health of 12,000 nodes, nothing to do' "$(value sweep)" ms '< 10'
dropdb --force bench_operations

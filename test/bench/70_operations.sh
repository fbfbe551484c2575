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
sql -c "SELECT cardinality(rpq.add_nodes('g8', count => 2000, prefix => 'x', tenant => 'bench'))" -c 'VACUUM ANALYZE' -c CHECKPOINT \
	> /dev/null

# Milliseconds of one statement in a new session, plans included: the turn is held no longer.
now() { # STATEMENT
	sql -c 'SET rpq.synchronous_operations = on' -c "SELECT bench.ms(\$bench\$$1\$bench\$)"
}
total() { sql -c "SELECT 'gpu=' || ((total OPERATOR(rpq.->) 'gpu') + 8 * $1)::int FROM rpq.pools WHERE name = 'p1'"; }
resized() { now "SELECT rpq.resize_pool('p1', quota => '$(total "$1")')"; }
there_and_back() { # moves a thousand idle nodes into the pool, and out again: the longer of the two
	local in out
	in=$(now "SELECT rpq.move_nodes(count => 1000, from_pool => 'c1-gpu', to_pool => 'p1')")
	out=$(now "SELECT rpq.move_nodes(count => 1000, from_pool => 'p1', to_pool => 'c1-gpu')")
	printf '%s\n' "$in" "$out" | sort -g | tail -n 1
}
# An operation in its steps, each a transaction: the longest of them, and their sum.
steps() { # CALL
	local id ms longest=0 sum=0 round
	sql -c "$1" > "$scratch/id"
	id=$(tail -n 1 "$scratch/id")
	for ((round = 0; round < 100; round++)); do
		ms=$(sql -c "SELECT bench.ms('SELECT rpq_store.run_pending_operations()')")
		longest=$(calc "($ms > $longest ? $ms : $longest)")
		sum=$(calc "$sum + $ms")
		[ "$(sql -c "SELECT status FROM rpq.operations WHERE operation_id = $id")" = running ] || break
	done
	[ "$(sql -c "SELECT status FROM rpq.operations WHERE operation_id = $id")" = succeeded ] || die "operation $id"
	echo "$longest $sum $round"
}

heading 'Operations on a pool of 10,000 nodes with 100,000 pods'
in_turns grow 'resized 5' shrink 'resized -5'
limit 'resize by 5 idle machines, growing' "$(value grow)" ms '< 200'
limit 'resize by 5 idle machines, shrinking' "$(value shrink)" ms '< 200'
in_turns description "now \"SELECT rpq.edit_pool('p1', description => 'at ' || clock_timestamp())\""
limit 'edit of a setting' "$(value description)" ms '< 200'
in_turns thousand there_and_back
limit 'moving 1,000 idle nodes' "$(value thousand)" ms '< 5000'
busy_node() { sql -c "SELECT name FROM rpq_store.node JOIN rpq_store.node_load USING (node_id) WHERE pods = 8 AND schedulable AND name LIKE 'n%' ORDER BY name LIMIT 1"; }
drained() { now "SELECT rpq.drain_node('$(busy_node)')"; }
in_turns drain drained
limit 'draining a node, with its pods' "$(value drain)" ms '< 200'
read -r longest sum rounds_taken <<< "$(steps "SELECT rpq.move_nodes(nodes => ARRAY(SELECT name FROM rpq_store.node
	JOIN rpq_store.node_load USING (node_id) WHERE pods = 8 AND schedulable AND name LIKE 'n%' ORDER BY name LIMIT 100),
	to_pool => 'c1-gpu', evacuate => true)")"
limit "moving 100 busy nodes, longest of $rounds_taken steps" "$longest" ms '< 200'
limit 'the same, all steps' "$sum" ms '< 5000'

# Every node was heard of lately, none is silent, and nothing has changed: what a look at that costs.
sql -c "INSERT INTO rpq_store.node_seen (node_id, at) SELECT node_id, rpq.now() FROM rpq_store.node" -c 'VACUUM ANALYZE rpq_store.node_seen'
swept() { sql -c 'SELECT rpq_store.worker_cycle()' -c "SELECT bench.ms('SELECT rpq_store.sweep_pools(ARRAY(SELECT pool_id FROM rpq_store.pool))')" |
	tail -n 1; }
in_turns sweep swept
limit 'a sweep over the health of 12,000 nodes, nothing to do' "$(value sweep)" ms '< 10'
dropdb --force bench_operations

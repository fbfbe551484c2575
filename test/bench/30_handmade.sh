# The ledger that users write by hand, beside ours; both place what they take, on 4,000 nodes of 8 GPUs.

clear_handmade() {
	sql -c 'CALL handmade.clear()'
	sql -c 'VACUUM ANALYZE handmade.node' -c 'VACUUM ANALYZE handmade.pool' -c 'VACUUM ANALYZE handmade.account_usage'
}
handmade() { clear_handmade; tps "$1" handmade_submit.sql; }
ours() {
	worker off; sql -c 'CALL bench.clear()'; worker on
	tps "$1" submit_gpu.sql
}
# Thirty kinds of request that a queue of 50,000 is made of, the same for both: cores alone, 1 to 3, at ten priorities.
queue_ours() { sql -U bench -c "SELECT count(rpq.submit('p1', workload_type => 'batch', priority => i % 10,
	resources => (ARRAY['cpu=1', 'cpu=2', 'cpu=3'])[1 + i / 10 % 3]::rpq.resources)) FROM generate_series(1, 50000) i" > /dev/null; }
queue_handmade() { sql -c "INSERT INTO handmade.workload (pool_id, account_id, name, status, priority, gpu, cpu)
	SELECT 1, 1, 'job', 'queued', i % 10, 0, 1 + i / 10 % 3 FROM generate_series(1, 50000) i" -c 'VACUUM ANALYZE handmade.workload'; }
admit_ours() {
	sql -c 'CALL bench.clear()'; queue_ours
	sql -c 'ANALYZE rpq_store.workload' -c CHECKPOINT
	sql -c 'CALL bench.drain(NULL, NULL)' | cut -d '|' -f 1
}
admit_handmade() { clear_handmade; queue_handmade; sql -c CHECKPOINT; sql -c 'CALL handmade.drain(1000, NULL)'; }

new_database bench_handmade 4000 1
worker off
sql -v nodes=4000 -f "$here/handmade.sql" > /dev/null
heading 'The same work by a ledger written by hand in PL/pgSQL (transactions, workloads a second)'
for c in 8 32; do
	in_turns handmade "handmade $c" ours "ours $c"
	row "submit, $c clients, one pool, worker on" "$(value ours)" "$(value handmade)" "$([ $c = 8 ] && echo '>= 3' || echo '>= 7')"
done
worker off
in_turns handmade admit_handmade ours admit_ours
row 'admission of 50,000 in batches of 1,000' "$(calc "5e7 / $(value ours)")" "$(calc "5e7 / $(value handmade)")" '>= 2'
dropdb --force bench_handmade

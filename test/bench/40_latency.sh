# From the call of submit to the pods on their nodes, as the worker finds time for it.

use() { export PGDATABASE=bench_$1; }

# p50 and p99 in ms of so many submissions, one at a time, 20 to 40 ms apart.
latencies() {
	sql -v n="$1" -f "$here/latency.sql"
}

new_database bench_latency 1000 1
worker on
heading 'From submit to placed, 1,000 nodes'
n=$([ "${RPQ_LONG:-0}" = 1 ] && echo 1000 || echo 200)
latencies 20 > /dev/null
IFS='|' read -r p50 p99 <<< "$(latencies "$n")"
limit 'worker idle, p50' "$p50" ms '< 20'
limit 'worker idle, p99' "$p99" ms '< 60'
pgbench -n -U bench -M prepared -c 8 -j 2 -R 500 -T 600 -D last=1 -D before_last=1 -f "$here/old_mix.sql" \
	> /dev/null 2>&1 &
load=$!
sleep 1
IFS='|' read -r p50 p99 <<< "$(latencies "$n")"
kill $load
wait $load 2> /dev/null
limit 'under 500 submissions and 500 stops a second, p50' "$p50" ms -
limit 'under 500 submissions and 500 stops a second, p99' "$p99" ms -
worker off
dropdb --force bench_latency

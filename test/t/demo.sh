# The demo in its short form, on a cluster of its own: it runs to the end, and what it shows is true.  A second start
# replaces the first.
. "$RPQ_ROOT/test/lib/tap.sh"
export RPQ_DEMO_DIR=$TMPDIR/demo DEMO_WORKLOADS=300 DEMO_SECONDS=4
unset PGHOST PGPORT PGUSER PGDATABASE PGDATA
trap '"$RPQ_ROOT/scripts/demo" stop' EXIT
ask() { psql -XAtq -h "$RPQ_DEMO_DIR" -U "${2:-postgres}" -d demo -c "$1" 2>&1; }

shown=$("$RPQ_ROOT/scripts/demo" start 2>&1)
ok $? 'the demo runs' || diag "$shown"
is "$(echo "$shown" | grep -cE '^[0-9]+\. ')" 10 'it has its ten parts'
width=$(echo "$shown" | grep -v '/psql -h' | LC_ALL=C.UTF-8 wc -L)
[ "$width" -le 120 ]
ok $? 'no line is longer than 120 columns' || diag "$width"
is "$(echo "$shown" | grep -E 'ERROR|FATAL|WARNING|NOTICE')" '' 'nothing unexpected was said'
like "$shown" "psql -h $RPQ_DEMO_DIR" 'it says how to connect'

is "$(ask 'SELECT count(*), count(DISTINCT pool_id) FROM rpq.nodes')" '64|11' 'sixty-four nodes in eleven pools'
is "$(ask "SELECT count(*) FROM rpq.workload_history WHERE request_id LIKE 'day-%'")" 300 'every workload of the day was submitted'
is "$(ask "SELECT count(*) > 10 FROM rpq.workload_history WHERE status = 'succeeded'")" t 'work has flowed'
is "$(ask "SELECT count(*) FROM rpq.workloads WHERE status = 'queued' AND reason_code = 'not_considered_yet'")" 0 \
	'the worker has considered all that waits'
is "$(ask "SELECT DISTINCT reason_code FROM rpq.workloads WHERE pool = 'thesis' AND status = 'queued'")" pool_frozen \
	'what waits in the frozen pool says so'
is "$(ask "SELECT count(*) > 0 FROM rpq.workloads w, rpq.explain(workload_id) WHERE name = 'sft-gang' AND NOT passed")" t \
	'the explained gang waits for something'
is "$(ask "SELECT p.rule, count(*) FROM rpq.preemptions p JOIN rpq.workload_history w ON w.workload_id = p.preemptor
		WHERE w.name IN ('ops 1', 'ops 2', 'ops 3', 'gang') GROUP BY 1 ORDER BY 1" | xargs)" 'priority|3 reservation|3' \
	'a group took back what it was promised, a gang the rest from its own'
is "$(ask "SELECT status, cardinality(nodes) FROM rpq.workloads WHERE name = 'gang'")" 'starting|2' 'the gang has started'
is "$(ask "SELECT lent -> 'gpu', used -> 'gpu' FROM rpq.pools WHERE name = 'prod'")" '4|4' 'an idle machine is lent, and half of it given back'
is "$(ask "SELECT p.name FROM rpq.pools p WHERE p.used + p.lent <> (SELECT coalesce(rpq.sum(o.resources), p.used * 0)
		FROM rpq.pods o WHERE o.pool_id = p.pool_id)")" '' 'what pools use and lend is what their pods hold'
is "$(ask "SELECT string_agg(kind || ' ' || status, ', ' ORDER BY operation_id DESC) FROM (SELECT * FROM rpq.operations
		ORDER BY operation_id DESC LIMIT 2) o")" 'resize succeeded, drain succeeded' 'the night of the machines went well'
is "$(ask 'SELECT * FROM rpq.check_integrity()')" '' 'no invariant is violated'
is "$(ask 'SELECT string_agg(name, $$,$$ ORDER BY name) FROM rpq.pools' ana)" fra1-cpu,fra1-gpu,research 'a member sees its pools'

is "$(ask "SELECT rpq.edit_pool('polytech/thesis', frozen => false)")" '' 'the frozen pool is opened'
for i in $(seq 100); do
	left=$(ask "SELECT count(*) FROM rpq.workloads WHERE status = 'queued' AND reason_code IN ('pool_frozen', 'not_considered_yet')")
	[ "$left" = 0 ] && break
	sleep 0.1
done
is "$left" 0 'and the worker takes up what waited there'

before=$(head -n 1 "$RPQ_DEMO_DIR/data/postmaster.pid")
DEMO_WORKLOADS=100 DEMO_SECONDS=2 "$RPQ_ROOT/scripts/demo" start >/dev/null 2>&1
ok $? 'the demo runs again'
[ "$(head -n 1 "$RPQ_DEMO_DIR/data/postmaster.pid")" != "$before" ]
ok $? 'in the place of the first'
is "$(ask "SELECT count(*) FROM rpq.workload_history WHERE request_id LIKE 'day-%'")" 100 'with what it was asked for'
"$RPQ_ROOT/scripts/demo" stop
[ ! -e "$RPQ_DEMO_DIR" ]
ok $? 'demo stop leaves nothing'
done_testing

# lib.sh: what the files of test/bench share.  Sourced; psql and pgbench go to the cluster that `cluster run` made.
set -u
# jit off: a cycle is measured as the worker runs it, which turns it off for itself.
export PGOPTIONS='-c client_min_messages=warning -c jit=off'
seconds=${BENCH_SECONDS:-3}
rounds=${BENCH_ROUNDS:-3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

die() { echo "bench: $*" >&2; exit 1; }

sql() { psql -XAtq -v ON_ERROR_STOP=1 "$@" || die "failed: psql $*"; }

# new_database NAME NODES POOLS
new_database() {
	dropdb --if-exists --force "$1" && createdb "$1" || die "no database $1"
	export PGDATABASE=$1
	sql -v nodes="$2" -v pools="$3" -f "$here/setup.sql" > /dev/null
}

# worker on|off: for the present database.
worker() {
	local list='' wanted=0
	[ "$1" = off ] || { list=$PGDATABASE; wanted=1; }
	sql -d postgres -c "ALTER SYSTEM SET rpq.databases = '$list'" -c 'SELECT pg_reload_conf()' > /dev/null
	for _ in $(seq 100); do
		[ "$(sql -d postgres -c "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rpq worker'")" = $wanted ] &&
			return
		sleep 0.1
	done
	die "the worker does not turn $1"
}

# Waits until the worker has nothing left to count or to admit.
worker_is_done() {
	local i
	for i in $(seq 600); do
		[ "$(sql -c "SELECT NOT EXISTS (SELECT FROM rpq_store.uncounted)")" = t ] && return
		sleep 0.1
	done
	die "the worker does not come to an end"
}

# tps CLIENTS SCRIPT [pgbench options]: transactions a second as role bench, plans kept.
tps() {
	local clients=$1 script=$2 out
	shift 2
	# What was written before is flushed now, not while the time runs.
	sql -c CHECKPOINT
	case " $* " in *' -t '*) ;; *) set -- -T "$seconds" "$@" ;; esac
	out=$(pgbench -n -U bench -M prepared -c "$clients" -j "$(nproc)" -f "$here/$script" "$@" 2>"$scratch/err") ||
		{ cat "$scratch/err" >&2; die "pgbench $script"; }
	echo "$out" | sed -n 's/^tps = \([0-9.]*\) .*/\1/p'
}

# in_turns NAME COMMAND [NAME COMMAND ...]: runs all of them in turns, as often as BENCH_ROUNDS says; each prints a number.
# `value NAME` is then its median.
in_turns() {
	local i n number
	for ((i = 0; i < rounds; i++)); do
		for ((n = 1; n < $#; n += 2)); do
			[ $i -gt 0 ] || : > "$scratch/${!n}"
			local command=$((n + 1))
			number=$(eval "${!command}") && [ -n "$number" ] || die "no result: ${!command}"
			echo "$number" >> "$scratch/${!n}"
		done
	done
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
value() { median < "$scratch/$1"; }

calc() { awk "BEGIN { print $1 }"; }

heading() { printf '\n%s\n' "$1"; printf '  %-58s %10s %10s %7s  %s\n' '' ours beside ratio bar; }

# row WHAT OURS BESIDE BAR: the ratio ours / beside, and whether it reaches the bar (>= N, <= N, or - for none).
row() {
	awk -v what="$1" -v ours="$2" -v beside="$3" -v bar="$4" 'BEGIN {
		ratio = beside > 0 ? ours / beside : 0
		split(bar, b, " ")
		said = b[1] == ">=" ? (ratio >= b[2] ? "reached" : "MISSED") : b[1] == "<=" ? (ratio <= b[2] ? "reached" : "MISSED") : ""
		digits = ours < 100 || beside < 100 ? 2 : 0
		printf "  %-58s %10." digits "f %10." digits "f %7.2f  %s\n", what, ours, beside, ratio,
			said == "" ? "" : bar " " said }'
}

# limit WHAT OURS UNIT BAR: a bar on the value itself.
limit() {
	awk -v what="$1" -v ours="$2" -v unit="$3" -v bar="$4" 'BEGIN {
		split(bar, b, " ")
		said = b[1] == "<" ? (ours < b[2] ? "reached" : "MISSED") : ""
		printf "  %-58s %10.2f %-10s %7s  %s\n", what, ours, unit, "", said == "" ? "" : bar " " unit " " said }'
}

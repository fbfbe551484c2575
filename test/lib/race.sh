# test/lib/race.sh: for shell tests that need several sessions at once.  Source it after tap.sh.
# shellcheck shell=bash disable=SC2034
race_out=$(mktemp -d)
trap 'rm -rf "$race_out"' EXIT
# Operations are carried out by the call, in all sessions.
export PGOPTIONS="-c rpq.synchronous_operations=on"

# A database with rpq and the helpers of cases.sql, as template.  No call has stored anything there, so that copies of it
# are no copies of anybody's data.
make_template() {
	createdb race_template &&
		psql -Xq -v ON_ERROR_STOP=1 -d race_template -c 'CREATE EXTENSION rpq' -f "$RPQ_ROOT/test/lib/cases.sql"
}

# fresh NAME: a new database of that name, and db set to it
fresh() {
	psql -Xq -v ON_ERROR_STOP=1 -d postgres -c "SET client_min_messages = error" -c "DROP DATABASE IF EXISTS $1 WITH (FORCE)" \
		-c "CREATE DATABASE $1 TEMPLATE race_template" && db=$1
}

# ask QUERY: the unadorned answer, errors included
ask() { psql -XAtq -v ON_ERROR_STOP=1 -d "$db" -c "$1" 2>&1; }

# do_script: runs standard input in a session of its own; answers, and errors as their SQLSTATE
do_script() { psql -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -d "$db" -f - 2>&1; }

# A transaction that is tried again after 40001, as its caller should; its answer, and how often it was refused.
# retry LEVEL SCRIPT FILE
retry() {
	local level=$1 script=$2 out=$3 n=0 said
	while said=$(printf 'BEGIN ISOLATION LEVEL %s;\n%s\nCOMMIT;\n' "$level" "$script" | do_script); [ $? != 0 ]; do
		case $said in
			*40001*) n=$((n + 1)) ;;
			*) break ;;
		esac
		[ $n -lt 200 ] || break
	done
	printf '%s\n' "$said" > "$out"
	echo $n > "$out.retries"
}

# Sessions that start at the same moment sleep until then: at=$(soon); ... $(until_then "$at")
soon() { ask "SELECT clock_timestamp() + interval '${1:-300 ms}'"; }
until_then() { echo "DO \$\$BEGIN PERFORM pg_sleep(greatest(0, extract(epoch FROM '$1'::timestamptz - clock_timestamp())::float)); END\$\$;"; }

# No error but 40001, and that under no READ COMMITTED: errors FILES...
errors() { cat "$@" | grep -E 'ERROR|FATAL|PANIC|server closed' | sort | uniq -c | tr '\n' ';'; }

deadlocks() { ask "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"; }

# What holds after every test here.
whole() {
	is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 "${1:+$1: }check_integrity() is empty" ||
		diag "$(ask 'SELECT * FROM rpq.check_integrity() LIMIT 20')"
	is "$(deadlocks)" 0 "${1:+$1: }no deadlock"
}

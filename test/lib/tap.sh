# test/lib/tap.sh: the Test Anything Protocol for shell tests.  Source it, call ok/is/isnt/like, end with done_testing.
# shellcheck shell=bash
tap_count=0
tap_failed=0

# ok STATUS NAME: passes if STATUS is 0
ok() {
	tap_count=$((tap_count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $tap_count - $2"
	else
		echo "not ok $tap_count - $2"
		tap_failed=$((tap_failed + 1))
	fi
	[ "$1" = 0 ]
}

diag() { printf '%s\n' "$*" | sed 's/^/# /' >&2; }

# is GOT EXPECTED NAME
is() {
	[ "$1" = "$2" ]
	ok $? "$3" || diag "$3" $'\n'"     got: $1" $'\n'"expected: $2"
}

# like GOT EXTENDED-REGEX NAME
like() {
	[[ $1 =~ $2 ]]
	ok $? "$3" || diag "$3" $'\n'"            got: $1" $'\n'"does not match: $2"
}

# sql QUERY [DATABASE]: the unadorned answer, error messages included
sql() { psql -XAtq -v ON_ERROR_STOP=1 ${2:+-d "$2"} -c "$1" 2>&1; }

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

done_testing() {
	echo "1..$tap_count"
	[ $tap_failed = 0 ]
	exit
}

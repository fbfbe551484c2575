# What the sources promise: error codes from one table, bounds on lines, functions and files.
. "$RPQ_ROOT/test/lib/tap.sh"
cd "$RPQ_ROOT" || exit 1
shopt -s nullglob

code=(src/*.[ch] src/*/*.[ch])
sql=(sql/store/*.sql sql/api/*.sql)

known=$(sed -n "s/.*MAKE_SQLSTATE('R','Q','\(.\)','\(.\)','\(.\)').*/RQ\1\2\3/p" src/errors.h | sort)
is "$(echo "$known" | uniq -d)" "" "no SQLSTATE has two names in errors.h"
used=$(grep -ohE "\bRQ[0-9A-Z]{3}\b" "${sql[@]}" | sort -u)
is "$(comm -13 <(echo "$known") <(echo "$used" | sed '/^$/d'))" "" "every RQ code of the scripts is in errors.h"
is "$(grep -nE "MAKE_SQLSTATE" "${code[@]}" | grep -v '^src/errors.h:')" "" "SQLSTATEs are made in errors.h alone"

is "$(for f in "${code[@]}" "${sql[@]}"; do
	expand -t 4 "$f" | awk -v f="$f" 'length > 120 { print f ":" NR ": " length " columns" }'
done)" "" "no line is wider than 120 columns"
is "$(for f in "${code[@]}"; do
	awk -v f="$f" '/^\{/ { from = NR } /^\}/ && from { if (NR - from - 1 > 60) print f ":" from ": " NR - from - 1 " lines"; from = 0 }' "$f"
done)" "" "no C function is longer than 60 lines"
is "$(wc -l "${code[@]}" | awk '$2 ~ /\.c$/ && $1 > 600 { print $2 ": " $1 " lines" }')" "" "no C file is longer than 600 lines"
is "$(wc -l "${sql[@]}" | awk '$2 != "total" && $1 > 500 { print $2 ": " $1 " lines" }')" "" "no SQL module is longer than 500 lines"
done_testing

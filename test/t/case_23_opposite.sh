#!/bin/bash
# Field case F23: nodes move between two pools in opposite directions, from two sessions at once, fifty times.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
rounds=50
[ "$RPQ_LONG" = 1 ] && rounds=500
fresh opposite
do_script > /dev/null <<-END
	CALL t.found();
	SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1,n2,n3,n4}');
	SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2}');
	SELECT rpq.create_pool(name => 'd2', type => 'dedicated', nodes => '{n3,n4}');
	SELECT rpq.authorize(pool => 'd1', accounts => '{u1}'), rpq.authorize(pool => 'd2', accounts => '{u1}');
	SELECT t.submit('d1', '8', 'u1'), t.submit('d2', '8', 'u1');
	SELECT t.pass();
END
is "$(ask "SELECT string_agg(t.gpu(total)::text, '+' ORDER BY name) FROM rpq.pools WHERE type = 'dedicated'") $(ask "SELECT string_agg(t.gpu(used)::text, ',' ORDER BY name) FROM rpq.nodes")" '16+16 8,0,8,0' 'one node of each pool is full, one empty'

# Sessions that stay, so that a round costs no start of one: say NUMBER SQL, then heard NUMBER for the answer.
for n in 1 2 3; do
	mkfifo "$race_out/in$n" "$race_out/out$n"
	psql -XAtq -v VERBOSITY=sqlstate -d "$db" -f - < "$race_out/in$n" > "$race_out/out$n" 2>&1 &
done
exec 11> "$race_out/in1" 12> "$race_out/in2" 13> "$race_out/in3" 21< "$race_out/out1" 22< "$race_out/out2" 23< "$race_out/out3"
say() { printf '%s\n\\echo end of answer\n' "$2" >&$((10 + $1)); }
heard() {
	local line
	while read -r line <&$((20 + $1)) && [ "$line" != 'end of answer' ]; do printf '%s\n' "$line"; done
}
quick() { say 3 "$1"; heard 3; }
totals() { quick "SELECT string_agg(t.gpu(total)::text, '+' ORDER BY name) FROM rpq.pools WHERE type = 'dedicated';"; }
# The call carries its operation out, or leaves it to rpq.run_operations(), or a resize takes an idle node of the other.
script() {	# script FROM TO HOW
	case $3 in
		call) echo "SET rpq.synchronous_operations = on; SELECT rpq.move_nodes(count => 1, from_pool => '$1', to_pool => '$2');" ;;
		later) echo "SET rpq.synchronous_operations = off; SELECT rpq.move_nodes(count => 1, from_pool => '$1', to_pool => '$2'); SELECT rpq.run_operations() >= 0;" ;;
		resize) echo "SET rpq.synchronous_operations = on; SELECT rpq.resize_pool('$2', add_nodes => ARRAY(SELECT name FROM rpq.nodes WHERE pool = '$1' AND idle ORDER BY name LIMIT 1), source => '$1');" ;;
	esac
}
wrong= both=0 refused=0 seen=0
for round in $(seq $rounds); do
	case $((round % 5)) in 0 | 1 | 2) how=call ;; 3) how=later ;; 4) how=resize ;; esac
	before=$(totals)
	say 1 "$(script d2 d1 $how)"
	say 2 "$(script d1 d2 $how)"
	said="$(heard 1) $(heard 2)"
	echo "$said" >> "$race_out/said"
	quick 'SELECT rpq.run_operations();' > /dev/null
	now=$(totals)
	failures=$(grep -o ERROR <<< "$said" | wc -l)
	failures=$((failures + $(quick "SELECT count(*) FROM rpq.operations WHERE status = 'failed' AND operation_id > $seen;")))
	seen=$(quick 'SELECT max(operation_id) FROM rpq.operations;')
	case $failures in
		0) both=$((both + 1)); [ "$now" = "$before" ] || wrong+="round $round: both succeeded, $before became $now; " ;;
		1) refused=$((refused + 1)) ;;
		*) wrong+="round $round: $failures failed ($said); " ;;
	esac
	case $now in 16+16 | 8+24 | 24+8) ;; *) wrong+="round $round: $now; " ;; esac
	# an empty node in each pool again
	quick 'SET rpq.synchronous_operations = on;'
	case $now in
		8+24) quick "SELECT rpq.move_nodes(count => 1, from_pool => 'd2', to_pool => 'd1');" > /dev/null ;;
		24+8) quick "SELECT rpq.move_nodes(count => 1, from_pool => 'd1', to_pool => 'd2');" > /dev/null ;;
	esac
done
diag "$both rounds in which both succeeded, $refused in which one was refused"
is "$wrong" '' 'each round: the sum is 32, and both or one succeeded'
is "$(grep -oE 'ERROR: .*|FATAL.*|PANIC.*' "$race_out/said" | sort -u | grep -vE 'RQ00[456]$')" '' 'no 40P01 or other error reached a client'
is "$(totals)" '16+16' 'an empty node is in each pool again'
is "$(ask "SELECT count(*) FROM rpq.nodes WHERE t.gpu(used) = 8")" 2 'the full ones are full'
is "$(ask "SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')")" 0 'no operation is open'
is "$(ask "SELECT string_agg(DISTINCT status, ',') FROM rpq.pools")" ready 'no pool is left updating'
exec 11>&- 12>&- 13>&-
wait
whole
done_testing

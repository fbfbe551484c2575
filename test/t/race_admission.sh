#!/bin/bash
# Field case F01: any number of sessions check and admit at once; usage never passes the limit.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }

setting="CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}');
SELECT rpq.authorize(pool => 'c1-gpu', accounts => '{u1}', quota => 'gpu=8');
SELECT t.submit('c1-gpu', '6', 'u1', 'w0');
SELECT t.pass();"

for level in 'READ COMMITTED' 'REPEATABLE READ' 'SERIALIZABLE'; do
	# The pair: the second starts while the first, which has admitted, is not committed.
	fresh admission
	said=$(do_script <<<"$setting") || diag "$said"
	retry "$level" "SELECT t.submit('c1-gpu', '2', 'u1', 'a'); SELECT t.pass(); SELECT pg_sleep(0.5);" "$race_out/a" &
	sleep 0.2
	retry "$level" "SELECT t.submit('c1-gpu', '2', 'u1', 'b'); SELECT t.pass();" "$race_out/b" &
	wait
	is "$(errors "$race_out/a" "$race_out/b")" '' "$level, pair: no error reaches a client that retries 40001"
	[ "$level" != 'READ COMMITTED' ] || is "$(cat "$race_out"/[ab].retries | paste -sd' ')" '0 0' 'READ COMMITTED, pair: nothing to retry'
	[ "$level" = 'READ COMMITTED' ] || is "$(cat "$race_out"/[ab].retries | paste -sd' ')" '0 1' "$level, pair: the one that was overtaken gets 40001"
	is "$(ask "SELECT t.used('c1-gpu') || ' ' || t.member_used('c1-gpu', 'u1') || ' ' || t.node_used('n1')")" '8 8 8' \
		"$level, pair: pool, member, node 8"
	is "$(ask "SELECT t.census('c1-gpu')")" 2/1 "$level, pair: running 2, queued 1"
	whole "$level, pair"

	# Twenty at once, of size 1.
	fresh admission
	said=$(do_script <<<"$setting") || diag "$said"
	at=$(soon '700 ms')
	for i in $(seq 20); do
		retry "$level" "$([ "$level" = 'READ COMMITTED' ] && until_then "$at") SELECT t.submit('c1-gpu', '1', 'u1', 's$i'); SELECT t.pass();" "$race_out/$i" &
	done
	wait
	is "$(errors "$race_out"/[0-9] "$race_out"/1[0-9] "$race_out/20")" '' "$level, twenty: no error reaches a client that retries 40001"
	is "$(ask "SELECT t.census('c1-gpu') || ' ' || t.used('c1-gpu') || ' ' || t.member_used('c1-gpu', 'u1')")" '3/18 8 8' \
		"$level, twenty: 2 admitted, 18 not, used 8"
	ask 'SELECT t.pass()' > /dev/null
	is "$(ask "SELECT t.census('c1-gpu') || ' ' || t.used('c1-gpu')")" '3/18 8' "$level, twenty: a further pass finds the same"
	is "$(ask "SELECT count(*) FROM rpq.ledger")" 3 "$level, twenty: three entries of usage"
	whole "$level, twenty"
done
done_testing

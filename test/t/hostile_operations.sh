#!/bin/bash
# Operations against members and administrators who mean no good: rows kept locked, transactions left open, stale
# snapshots, savepoints and rollbacks, and cycles that are in the middle of admitting.
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }

# A fresh database: d1 holds n1 (a, 4, of u1; b, 2, of u2), n2 and n3; the shared pool n4 (s, 4, of u1), n5 and n6.
begin() {
	fresh hostile_ops
	do_script > "$race_out/setup" <<-END
		DO \$\$ BEGIN CREATE ROLE hostile_u1 LOGIN; EXCEPTION WHEN duplicate_object THEN END \$\$;
		CALL t.found();
		SELECT rpq.edit_account(account => 'u1', db_role => 'hostile_u1');
		SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => 6);
		SELECT rpq.create_pool(name => 'd1', type => 'dedicated', nodes => '{n1,n2,n3}', queueing => 'best_effort');
		SELECT rpq.authorize(pool => 'd1', accounts => '{u1,u2}');
		SELECT t.submit('d1', '4', 'u1', 'a');
		SELECT t.submit('d1', '2', 'u2', 'b');
		SELECT t.submit('c1-gpu', '4', 'u1', 's');
		SELECT t.pass();
		SELECT t.submit('d1', '8', 'u1', 'q', 3);
		SELECT t.pass();
	END
	is "$(errors "$race_out/setup")" '' "$1: set up"
}
# status of the workload of that name, and its node
state() { ask "SELECT t.status(workload_id) || ' ' || coalesce(t.nodes(workload_id), '-') FROM rpq.workload_history WHERE name = '$1'"; }
sums() { ask "SELECT string_agg(name || ' ' || t.gpu(total), ', ' ORDER BY name) FROM rpq.pools"; }
pass() { ask 'SELECT t.pass()' > /dev/null; }

# sit SCRIPT: a transaction of u1's that is left open, until let_go or rollback
sit() {
	rm -f "$race_out/fifo" && mkfifo "$race_out/fifo"
	PGUSER=hostile_u1 psql -XAtq -v VERBOSITY=terse -d "$db" -f "$race_out/fifo" > "$race_out/member" 2>&1 &
	member=$!
	exec 7> "$race_out/fifo"
	printf 'BEGIN%s; %s\n\\echo sits\n' "${2:+ ISOLATION LEVEL $2}" "$1" >&7
	for _ in $(seq 200); do
		grep -q '^sits' "$race_out/member" && break
		sleep 0.02
	done
}
say() { echo "$1" >&7; }
let_go() {
	echo "${1:-COMMIT};" >&7
	exec 7>&-
	wait $member
}
# what an administrator does meanwhile: nothing waits.  meanwhile SCRIPT
meanwhile() {
	psql -XAtq -v VERBOSITY=sqlstate -d "$db" -f - 2>&1 <<-END
		SET lock_timeout = '1s';
		SET statement_timeout = '5s';
		SET rpq.synchronous_operations = ${2:-on};
		$1
	END
}
lock_a="SELECT rpq.report_checkpoint(workload => workload_id, detail => 'mine') FROM rpq.workloads WHERE name = 'a';"
# that it is locked indeed
locked() { is "$(ask "SELECT count(*) FROM (SELECT 1 FROM rpq_store.workload WHERE name = 'a' FOR UPDATE SKIP LOCKED) x")" 0 "$1: the row is locked"; }

# ---- a row that its owner keeps locked ------------------------------------------------------------------------------
begin 'force'
sit "$lock_a"
locked 'force'
# In synchronous mode the call says so at once and leaves nothing; else the operation waits, and holds up nobody but its pool.
like "$(meanwhile "SELECT rpq.delete_pool(pool => 'd1', force => true);")" '55P03|^[0-9]+$' 'locked row, delete with force: does not wait'
op=$(meanwhile "SELECT rpq.delete_pool(pool => 'd1', force => true);" off)
like "$op" '^[0-9]+$' 'locked row, delete with force: the call does not wait'
meanwhile "SELECT rpq.run_operations(); SELECT rpq.run_operations(); SELECT t.pass(); SELECT rpq.create_pool(name => 'd2', type => 'dedicated', quota => 'gpu=8'); SELECT rpq.run_operations();" off > "$race_out/more"
is "$(errors "$race_out/more")" '' 'locked row, delete with force: all else goes on'
is "$(ask "SELECT status FROM rpq.pools WHERE name = 'd2'")" ready 'locked row: another pool is made'
is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 'locked row: sound meanwhile' || diag "$(ask 'SELECT * FROM rpq.check_integrity()')"
is "$(ask "SELECT sum(t.gpu(total)) FROM rpq.pools")" 48 'locked row: sum 48'
let_go
sleep 0.2
ask 'SELECT rpq.run_operations()' > /dev/null
is "$(ask "SELECT status FROM rpq.operations WHERE operation_id = $op") $(ask "SELECT count(*) FROM rpq.pools WHERE name = 'd1'")" 'succeeded 0' 'locked row: then the pool is gone'
pass
is "$(state a | cut -d' ' -f1) $(state b | cut -d' ' -f1) $(state q | cut -d' ' -f1)" 'stopped stopped draft' 'locked row: what runs is stopped, also the one that was locked'
is "$(ask "SELECT count(*) FROM rpq.pods WHERE workload_id NOT IN (SELECT workload_id FROM rpq.workloads WHERE name = 's')")" 0 'locked row: no pod is left'
is "$(ask "SELECT sum(t.gpu(total)) FROM rpq.pools")" 48 'locked row: sum 48 at the end'
whole 'locked row, delete'

begin 'evacuate'
sit "$lock_a"
locked 'evacuate'
op=$(meanwhile "SELECT rpq.drain_node(node => 'n1');" off)
like "$op" '^[0-9]+$' 'locked row, drain: the call does not wait'
like "$(meanwhile 'SELECT rpq.run_operations();' off)" '^[0-9]+$' 'locked row, drain: nor who carries it out'
meanwhile 'SELECT rpq.run_operations(); SELECT rpq.run_operations(); SELECT t.pass();' off > "$race_out/more"
is "$(errors "$race_out/more")" '' 'locked row, drain: again'
is "$(state a)" 'running n1' 'locked row, drain: it stays until its row is free'
is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 'locked row, drain: sound meanwhile' || diag "$(ask 'SELECT * FROM rpq.check_integrity()')"
like "$(meanwhile "SELECT t.submit('d1', '1', 'u2', 'new'); SELECT t.pass(); SELECT rpq.edit_pool(pool => 'd1', description => 'x');" off | tail -n 1)" '^$|^[0-9]*$' 'locked row, drain: the pool works'
let_go
for _ in 1 2 3 4 5 6; do ask 'SELECT rpq.run_operations()' > /dev/null; done
is "$(ask "SELECT status FROM rpq.operations WHERE operation_id = $op")" succeeded 'locked row, drain: then it ends' || diag "$(ask "SELECT * FROM rpq.operations WHERE operation_id = $op")"
is "$(ask "SELECT t.node_used('n1')")" 0 'locked row, drain: nothing stands on the node'
is "$(state a | cut -d' ' -f1) $(state b | cut -d' ' -f1)" 'running running' 'locked row, drain: all runs'
whole 'locked row, drain'

begin 'loss'
sit "$lock_a"
locked 'loss'
is "$(meanwhile "SELECT rpq.set_node_health(node => 'n1', health => 'unhealthy', reason => 'fire');" | tr -d '\n')" '' 'locked row, loss: does not wait'
is "$(state b | cut -d' ' -f1)" queued 'locked row, loss: the other is lost at once'
is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 'locked row, loss: sound meanwhile' || diag "$(ask 'SELECT * FROM rpq.check_integrity()')"
meanwhile 'SELECT t.pass(); SELECT t.pass();' > /dev/null
is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 'locked row, loss: sound after passes' || diag "$(ask 'SELECT * FROM rpq.check_integrity()')"
let_go
pass
pass
is "$(ask "SELECT count(*) FROM rpq.pods WHERE node = 'n1'")" 0 'locked row, loss: then nothing is on the node'
is "$(ask "SELECT string_agg(name || ' ' || attempt, ',' ORDER BY name) FROM rpq.workloads WHERE name IN ('a', 'b') AND status = 'starting'")" 'a 2,b 2' 'locked row, loss: both run elsewhere'
is "$(ask "SELECT count(*) FROM rpq.workload_events WHERE name IN ('a', 'b') AND event = 'lost'")" 2 'locked row, loss: lost once each'
whole 'locked row, loss'

begin 'remove'
sit "$lock_a"
locked 'remove'
is "$(meanwhile "SELECT rpq.remove_nodes(names => '{n1}', force => true);" | tail -n 1)" 1 'locked row, remove by force: does not wait'
is "$(ask 'SELECT count(*) FROM rpq.check_integrity()')" 0 'locked row, remove: sound meanwhile' || diag "$(ask 'SELECT * FROM rpq.check_integrity()')"
is "$(sums)" 'c1-gpu 24, d1 16' 'locked row, remove: what it held is gone'
let_go
pass
pass
is "$(ask "SELECT count(*) FROM rpq.nodes WHERE name = 'n1'")" 0 'locked row, remove: then the node is gone'
is "$(state a | cut -d' ' -f1) $(state b | cut -d' ' -f1)" 'running running' 'locked row, remove: both run elsewhere'
whole 'locked row, remove'

# ---- submissions that are not committed, stale snapshots -----------------------------------------------------------
begin 'late arrival'
do_script > /dev/null <<< "SELECT rpq.stop(workload => workload_id) FROM rpq.workloads WHERE pool = 'd1'; SELECT t.pass();
SELECT rpq.deauthorize(pool => 'd1', accounts => '{u2}');"
sit "SELECT rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=1', name => 'late');"
meanwhile "SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=0'); SELECT rpq.deauthorize(pool => 'd1', accounts => '{u1}'); SELECT rpq.delete_pool(pool => 'd1');" > "$race_out/more"
is "$(errors "$race_out/more")" '' 'an arrival that is not committed hinders nothing'
let_go
pass
is "$(state late | cut -d' ' -f1)" draft 'an arrival in a pool that is gone becomes a draft'
whole 'late arrival'

begin 'renamed'
sit "SELECT rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=1', name => 'late');"
meanwhile "SELECT rpq.rename_pool(pool => 'd1', name => 'e1'); SELECT rpq.convert_pool(pool => 'e1', type => 'exclusive'); SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=0');" > "$race_out/more"
is "$(errors "$race_out/more")" '' 'renamed and converted meanwhile'
let_go
pass
is "$(ask "SELECT pool || ' ' || t.status(workload_id) FROM rpq.workloads WHERE name = 'late'")" 'e1 running' 'the arrival is in the pool that it meant, whatever it is called'
whole 'renamed'

begin 'stale'
for level in 'REPEATABLE READ' 'SERIALIZABLE'; do
	sit 'SELECT count(*) FROM rpq.pools;' "$level"
	meanwhile "SELECT rpq.edit_pool(pool => 'd1', frozen => true); SELECT rpq.edit_pool(pool => 'c1-gpu', frozen => true);" > /dev/null
	say "SELECT rpq.submit(pool => 'd1', workload_type => 'training', resources => 'gpu=1', name => 'stale');"
	let_go
	pass
	is "$(ask "SELECT count(*) FROM rpq.workloads WHERE name = 'stale' AND status <> 'queued'")" 0 "$level: a stale submission starts nothing in a frozen pool"
	meanwhile "SELECT rpq.stop(workload => workload_id) FROM rpq.workloads WHERE name = 'stale'; SELECT rpq.edit_pool(pool => p, frozen => false) FROM unnest('{d1,c1-gpu}'::text[]) p;" > /dev/null
done
# Administrators with stale snapshots: 40001, and nothing is left.
before=$(sums)
stale_calls="resize_pool(pool => 'd1', quota => 'gpu=32')
resize_pool(pool => 'd1', quota => 'gpu=16')
rename_pool(pool => 'd1', name => 'e1')
convert_pool(pool => 'd1', type => 'exclusive')
delete_pool(pool => 'd1', force => true)
move_nodes(count => 1, from_pool => 'd1', to_pool => 'c1-gpu')
drain_node(node => 'n1')
set_node_health(node => 'n1', health => 'unhealthy')
create_pool(name => 'e2', type => 'dedicated', quota => 'gpu=8', source => 'd1')
remove_nodes(names => '{n3}')"
{
	printf '\\o /dev/null\n\\set ON_ERROR_STOP off\n'
	for level in 'REPEATABLE READ' 'SERIALIZABLE'; do
		while read -r call; do
			echo "BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM rpq.pools;"
			echo "\\! psql -XAtq -d $db -c \"SELECT rpq.edit_pool(pool => p, description => clock_timestamp()::text) FROM unnest('{d1,c1-gpu}'::text[]) p\" > /dev/null"
			echo "SELECT rpq.$call;"
			printf '\\echo %s %s: :SQLSTATE\n' "$level" "${call//\'/}"
			echo 'ROLLBACK;'
		done <<< "$stale_calls"
	done
} > "$race_out/stale.sql"
do_script < "$race_out/stale.sql" > "$race_out/stale"
is "$(grep ': [0-9A-Z]*$' "$race_out/stale" | grep -v ': 40001$' | grep -v ERROR)" '' 'administrators with stale snapshots: 40001'
is "$(grep -c ': 40001$' "$race_out/stale")" 20 'all of them'
is "$(sums) $(ask "SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')") $(ask "SELECT count(*) FROM rpq.pools WHERE status <> 'ready'")" "$before 0 0" 'nothing is left of those that were overtaken'
whole 'stale'

# ---- savepoints and rollbacks ----------------------------------------------------------------------------------------
calls="resize_pool(pool => 'd1', quota => 'gpu=32')
resize_pool(pool => 'd1', quota => 'gpu=16')
rename_pool(pool => 'd1', name => 'e1')
convert_pool(pool => 'd1', type => 'exclusive')
delete_pool(pool => 'd1', force => true)
move_nodes(nodes => '{n1}', to_pool => 'c1-gpu', evacuate => true)
drain_node(node => 'n1')
set_node_health(node => 'n1', health => 'unhealthy')
create_pool(name => 'e2', type => 'dedicated', quota => 'gpu=8')
remove_nodes(names => '{n1}', force => true)
requeue(workload => (SELECT workload_id FROM rpq.workloads WHERE name = 'a'))
sync_node(node => 'n1', capacity => 'gpu=2')"
{
	echo '\o /dev/null'
	for synchronous in on off; do
		echo "SET rpq.synchronous_operations = $synchronous; SELECT t.stored() AS stored \\gset"
		while read -r call; do
			for undo in 'ROLLBACK TO s; COMMIT;' 'ROLLBACK;'; do
				echo "BEGIN; SAVEPOINT s; SELECT rpq.$call; SELECT rpq.run_operations(); SELECT t.pass(); $undo"
				echo "SELECT t.stored() <> :'stored' AS differs \\gset"
				printf '\\if :differs\n\\echo %s: %s %s\n\\endif\n' "$synchronous" "${call//\'/}" "$undo"
			done
		done <<< "$calls"
	done
} > "$race_out/undone.sql"
undone=$(do_script < "$race_out/undone.sql")
is "$undone" '' 'what is rolled back, to a savepoint or as a whole, was never there'
# Several in one transaction, each seeing what the one before did.
do_script > "$race_out/chain" <<-END
	BEGIN;
	SELECT rpq.resize_pool(pool => 'd1', quota => 'gpu=32');
	SELECT rpq.rename_pool(pool => 'd1', name => 'e1');
	SELECT rpq.move_nodes(count => 2, from_pool => 'e1', to_pool => 'c1-gpu');
	SELECT rpq.convert_pool(pool => 'e1', type => 'exclusive');
	SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=8', source => 'e1');
	SAVEPOINT s;
	SELECT rpq.delete_pool(pool => 'e1', force => true);
	ROLLBACK TO s;
	COMMIT;
END
is "$(errors "$race_out/chain") $(sums)" ' c1-gpu 32, d1 8, e1 8' 'several operations in one transaction'
pass
whole 'savepoints'

# ---- deletion and a cycle that admits ------------------------------------------------------------------------------
begin 'delete and cycle'
do_script > "$race_out/cycle" <<< "BEGIN; SELECT rpq.report_finished(workload => workload_id) FROM rpq.workloads WHERE name IN ('a', 'b'); SELECT t.pass(); SELECT pg_sleep(0.7); COMMIT;" &
sleep 0.3
do_script > "$race_out/delete" <<< "SELECT rpq.delete_pool(pool => 'd1');"
wait
like "$(cat "$race_out/delete")" 'RQ006' 'a cycle has admitted: the delete that waited for it is refused'
is "$(state q | cut -d' ' -f1)" running 'what it admitted runs'
do_script > "$race_out/delete" <<< "BEGIN; SELECT rpq.delete_pool(pool => 'd1', force => true); SELECT pg_sleep(0.7); COMMIT;" &
sleep 0.3
do_script > "$race_out/cycle" <<< "SELECT t.pass();"
wait
is "$(errors "$race_out/cycle" "$race_out/delete") $(state q | cut -d' ' -f1)" ' stopped' 'the delete was first: the cycle finds nothing'
whole 'delete and cycle'
rounds=10 outcomes=
[ "$RPQ_LONG" = 1 ] && rounds=200
for round in $(seq $rounds); do
	do_script > /dev/null <<< "SELECT rpq.create_pool(name => 'd1', type => 'dedicated', quota => 'gpu=16'); SELECT rpq.authorize(pool => 'd1', accounts => '{u1}'); SELECT t.submit('d1', '4', 'u1', 'r$round');"
	at=$(soon '60 ms')
	do_script > "$race_out/cycle" <<< "$(until_then "$at") SELECT t.pass(); SELECT t.submit('d1', '4', 'u1', 'r$round'); SELECT t.pass();" &
	do_script > "$race_out/delete" <<< "$(until_then "$at") SELECT rpq.delete_pool(pool => 'd1', force => true);" &
	do_script > "$race_out/submit" <<< "$(until_then "$at") SELECT t.submit('d1', '4', 'u1', 'r$round');" &
	wait
	# a submission may find the pool still there, and its member or its nodes gone
	cat "$race_out/cycle" "$race_out/delete" "$race_out/submit" | grep ERROR | grep -vE '42704|RQ00[147]' >> "$race_out/errors"
	pass
	outcomes+="$(ask "SELECT count(*) FROM rpq.workload_history WHERE name = 'r$round' AND status NOT IN ('stopped', 'draft')")$(ask "SELECT count(*) FROM rpq.pools WHERE name = 'd1'")"
done
is "$(cat "$race_out/errors" 2> /dev/null)" '' 'deleted while a cycle admits: no error'
is "$outcomes" "$(printf '00%.0s' $(seq $rounds))" 'deleted while a cycle admits: nothing runs or waits in a pool that is gone'
is "$(ask "SELECT sum(t.gpu(total)) || ' ' || sum(t.gpu(used)) FROM rpq.pools")" '48 4' 'sum 48'
whole 'deleted while a cycle admits'

# ---- what an executor is handed out is recorded, or it is not handed out --------------------------------------------
begin 'handed out'
do_script > /dev/null <<< "BEGIN; LOCK TABLE rpq_store.pod_report IN SHARE MODE; SELECT pg_sleep(1.2);" &
sleep 0.3
do_script > "$race_out/handed" <<< "SELECT pod FROM rpq.sync_node(node => 'n1') WHERE action = 'start';" &
sleep 0.3
do_script > /dev/null <<< "SELECT rpq.stop(workload => workload_id) FROM rpq.workloads WHERE name IN ('a', 'b'); SELECT t.pass();"
wait
is "$(ask "SELECT string_agg(pod::text, ' ') FROM unnest('{$(paste -sd, "$race_out/handed")}'::bigint[]) pod WHERE pod NOT IN (SELECT pod_id FROM rpq_store.pod_report)")" '' \
	'no pod is handed out that nobody knows of'
whole 'handed out'

# ---- a report that commits after its node has changed hands ------------------------------------------------------------
begin 'late report'
do_script > /dev/null <<< "SELECT rpq.sync_node(node => 'n1'); SELECT rpq.sync_node(node => 'n1', running => ARRAY(SELECT pod_id FROM rpq.pods WHERE node = 'n1'));
SELECT rpq.stop(workload => workload_id) FROM rpq.workloads WHERE name IN ('a', 'b'); SELECT t.pass();"
is "$(ask "SELECT count(*) FROM rpq_store.hold")" 2 'late report: room is held for what has not stopped yet'
do_script > "$race_out/late" <<< "BEGIN; SELECT rpq.sync_node(node => 'n1'); SELECT pg_sleep(1); COMMIT;" &
sleep 0.4
do_script > "$race_out/delete" <<< "SELECT rpq.delete_pool(pool => 'd1', force => true);"
wait
is "$(errors "$race_out/late" "$race_out/delete")" '' 'late report: no error'
ask 'SELECT rpq_store.run_cycles(); SELECT rpq_store.run_cycles()' > /dev/null
pass
is "$(ask "SELECT count(*) FROM rpq_store.hold")" 0 'late report: it ends what was held, in the pool that has the node now'
whole 'late report'
done_testing

#!/bin/bash
# Two sessions create at once: one name is taken once (42710), one machine is given once (RQ005).
. "$RPQ_ROOT/test/lib/tap.sh"
. "$RPQ_ROOT/test/lib/race.sh"
make_template || { ok 1 'set up'; done_testing; }
rounds=8
[ "$RPQ_LONG" = 1 ] && rounds=150
fresh creation
do_script > /dev/null <<-END
	CALL t.found();
	SELECT rpq.add_nodes(instance_type => 'g8', prefix => 'n', count => $rounds);
	SELECT rpq.create_project_group(name => 'x');
END
# at_once NAME SCRIPT SCRIPT: what both said, sorted
at_once() {
	local at
	at=$(soon '60 ms')
	do_script > "$race_out/1" <<< "SET rpq.synchronous_operations = on; $(until_then "$at") $1" &
	do_script > "$race_out/2" <<< "SET rpq.synchronous_operations = on; $(until_then "$at") $2" &
	wait
	cat "$race_out/1" "$race_out/2" | sed -n 's/.*ERROR: *//p; t; s/^[0-9][0-9]*$/made/p' | sort | paste -sd' '
}
names= machines=
for round in $(seq $rounds); do
	names+="$(at_once "SELECT rpq.create_pool(name => 'd$round', type => 'dedicated', quota => 'gpu=0');" \
		"SELECT rpq.create_pool(name => 'd$round', type => 'exclusive', quota => 'gpu=0');"),"
done
is "$names" "$(printf '42710 made,%.0s' $(seq $rounds))" 'a name is taken once'
is "$(ask "SELECT count(*) FROM rpq.pools WHERE type <> 'shared'")" $rounds 'one pool of each name'
# All machines but one are taken; then two want the last one.
ask "SET rpq.synchronous_operations = on; SELECT rpq.create_pool(name => 'most', type => 'dedicated', quota => ('gpu=' || 8 * ($rounds - 1))::rpq.resources)" > /dev/null
machines=$(at_once "SELECT rpq.create_pool(name => 'a', type => 'dedicated', quota => 'gpu=8');" \
	"SELECT rpq.create_pool(name => 'b', type => 'dedicated', quota => 'gpu=8');")
is "$machines" 'RQ005 made' 'a machine is given once'
is "$(ask "SELECT sum(t.gpu(total)) || ' ' || count(*) FILTER (WHERE status NOT IN ('ready')) FROM rpq.pools")" "$((8 * rounds)) 0" \
	'the machines are conserved, and no pool is left in between'
is "$(ask "SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')")" 0 'no operation is open'
is "$(ask "SELECT count(*) FROM rpq.operation_history WHERE action = 'create_pool'")" $((rounds + 2)) 'one history row for each that was made'
other=
for kind in "create_account(name => 'N')" "create_user_group(name => 'N')" "create_project_group(name => 'N')" "create_workload_type(name => 'N')" \
	"create_cluster(name => 'N')" "create_tenant(name => 'N')"; do
	other+="$(at_once "SELECT rpq.${kind};" "SELECT rpq.${kind};"),"
done
is "$other" "$(printf '42710 made,%.0s' 1 2 3 4 5 6)" 'so are the other names'
# The first node of a kind makes the shared pool once.
fresh creation
do_script > /dev/null <<< 'CALL t.found();'
nodes=$(at_once "SELECT count(rpq.add_nodes(instance_type => 'g8', names => '{a1,a2}'));" "SELECT count(rpq.add_nodes(instance_type => 'g8', names => '{b1}'));")
is "$nodes $(ask "SELECT count(*) || ' ' || sum(t.gpu(total)) FROM rpq.pools")" 'made made 1 24' 'two first nodes make one shared pool'
# One request, sent twice at once, is one workload.
requests=$(at_once "SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', request_id => 'r', account => 'u1');" \
	"SELECT rpq.submit(pool => 'c1-gpu', workload_type => 'training', resources => 'gpu=1', request_id => 'r', account => 'u1');")
is "$requests $(ask 'SELECT count(*) FROM rpq.workloads')" 'made made 1' 'a request sent twice is one workload'
is "$(cat "$race_out/1")" "$(cat "$race_out/2")" 'both are told its id'
# A name that two pools are to take, or a new pool and another.
ask "SET rpq.synchronous_operations = on; SELECT rpq.create_pool(name => p, type => 'dedicated') FROM unnest('{p1,p2}'::text[]) p" > /dev/null
renames=
for round in $(seq $rounds); do
	renames+="$(at_once "SELECT rpq.rename_pool('p1', 'r');" "SELECT rpq.rename_pool('p2', 'r');"),"
	ask "SET rpq.synchronous_operations = on; SELECT rpq.rename_pool('r', p) FROM unnest('{p1,p2}'::text[]) p WHERE p NOT IN (SELECT name FROM rpq.pools)" > /dev/null
	renames+="$(at_once "SELECT rpq.rename_pool('p1', 'm$round');" "SELECT rpq.create_pool(name => 'm$round', type => 'dedicated');"),"
	ask "SET rpq.synchronous_operations = on; SELECT rpq.rename_pool('m$round', 'p1') WHERE 'p1' NOT IN (SELECT name FROM rpq.pools)" > /dev/null
done
is "$renames" "$(printf '42710 made,%.0s' $(seq $((2 * rounds))))" 'a new name is taken once'
is "$(ask "SELECT count(*) FROM rpq.pools WHERE status <> 'ready'")" 0 'and no pool is left in between'
whole
done_testing

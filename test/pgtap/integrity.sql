-- check_integrity() is empty over everything that the functions do, also while entries are uncounted, and names each
-- invariant that raw DML breaks.
SELECT no_plan();
SET client_min_messages = warning;
SET rpq.synchronous_operations = on;

SELECT rpq.create_tenant('acme'), rpq.create_cluster('c1'),
	rpq.create_instance_type(name => 'big', kind => 'gpu', capacity => 'gpu=8,cpu=96,memory=1000Gi') \gset
SELECT rpq.create_account(name => 'u1'), rpq.create_account(name => 'u2'), rpq.create_user_group('g1'),
	rpq.create_project_group('research') \gset
SELECT rpq.add_nodes(instance_type => 'big', prefix => 'n', count => 6) \gset
SELECT rpq.create_pool(name => 'own', type => 'dedicated', instance_type => 'big', quota => 'gpu=16') AS own \gset
SELECT rpq.authorize(pool => 'own', accounts => '{u1}', quota => 'gpu=10'),
	rpq.grant_pool_admin(pool => 'own', account => 'u1') \gset

CREATE FUNCTION pg_temp.put(pool text, account text, resources rpq.resources, replicas int DEFAULT 1) RETURNS bigint
LANGUAGE sql AS $$
	SELECT rpq.submit(pool => $1, account => $2, resources => $3, replicas => $4, workload_type => 'training')
$$;
CREATE FUNCTION pg_temp.sound(what text) RETURNS text LANGUAGE sql AS $$
	SELECT is((SELECT string_agg(concat_ws(' | ', c.invariant, c.object, c.expected, c.found), E'\n') FROM rpq.check_integrity() AS c),
		NULL, what)
$$;
-- the invariant is among those that the change broke; nothing of it stays
CREATE FUNCTION pg_temp.breaks(change text, invariant text, pattern text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	seen text;
	named boolean;
BEGIN
	BEGIN
		SET LOCAL session_replication_role = replica;
		EXECUTE change;
		SET LOCAL session_replication_role = origin;
		SELECT string_agg(concat_ws(' | ', c.invariant, c.object, c.expected, c.found), E'\n'),
			coalesce(bool_or(c.invariant = breaks.invariant AND c.object ~ pattern), false)
		INTO seen, named FROM rpq.check_integrity() AS c;
		RAISE EXCEPTION 'undo' USING ERRCODE = 'ZZZZZ';
	EXCEPTION WHEN SQLSTATE 'ZZZZZ' THEN
		RETURN ok(named, format('%s, %s: %s', invariant, pattern, regexp_replace(change, '\s+', ' ', 'g'))) || coalesce(
			CASE WHEN NOT named THEN E'\n' || diag(seen) END, '');
	END;
END
$$;

SELECT pg_temp.sound('pools, nodes, members');
SELECT pg_temp.put('c1-gpu', 'u1', 'gpu=2,cpu=8', 2) AS gang, pg_temp.put('c1-gpu', 'u2', 'gpu=0.5,cpu=2') AS part,
	pg_temp.put('c1-gpu', 'u2', 'gpu=0.25') AS quarter, pg_temp.put('own', 'u1', 'gpu=8') AS whole,
	pg_temp.put('own', 'u1', 'gpu=8') AS limited, pg_temp.put('c1-gpu', 'u2', 'cpu=1,memory=1Gi') AS ended,
	pg_temp.put('c1-gpu', 'u1', 'gpu=3') AS stopped \gset
SELECT pg_temp.sound('everything submitted, nothing counted');
SELECT count(*) FROM rpq.schedule() \gset
SELECT pg_temp.sound('after a cycle');
SELECT pg_temp.put('own', 'u1', 'gpu=8') AS later, rpq.report_finished(:ended), rpq.stop(:stopped),
	rpq.edit_workload(:limited, priority => 7) \gset
SELECT pg_temp.sound('ends, an edit and an arrival that nothing counted');
SELECT is((SELECT count(*)::int FROM rpq_store.uncounted WHERE kind <> 'start'), 5, 'which they are');
CREATE TABLE public.pods_before AS SELECT * FROM rpq_store.pod;
SELECT count(*) FROM rpq.schedule() \gset
SELECT pg_temp.sound('counted');
SELECT rpq.report_started(:gang), rpq.delete_workload(:ended), rpq.edit_pool('own', frozen => true) \gset
SELECT pg_temp.sound('started, hidden, frozen');
SELECT pg_temp.put('c1-gpu', 'u2', 'gpu=1') AS uncounted, rpq.report_finished(:quarter) \gset

-- gangs
SELECT pg_temp.breaks(format('DELETE FROM rpq_store.pod WHERE workload_id = %s AND replica = 1', :gang), 'gang', 'workload 1');
SELECT pg_temp.breaks(format('DELETE FROM rpq_store.pod WHERE workload_id = %s', :gang), 'gang', 'workload 1');
SELECT pg_temp.breaks(format('UPDATE rpq_store.pod SET attempt = 2 WHERE workload_id = %s', :gang), 'gang', 'workload 1, attempt 2');
SELECT pg_temp.breaks(format('UPDATE rpq_store.pod SET replica = 5 WHERE workload_id = %s AND replica = 1', :gang), 'gang', 'workload 1');
SELECT pg_temp.breaks(format('INSERT INTO rpq_store.pod (workload_id, attempt, replica, node_id) SELECT %s, 1, 0, min(node_id)
	FROM rpq_store.node', :limited), 'gang', 'workload 5');
SELECT pg_temp.breaks(format('UPDATE rpq_store.pod SET node_id = (SELECT min(node_id) FROM rpq_store.node WHERE pool_id = %s)
	WHERE workload_id = %s AND replica = 0', (SELECT pool_id FROM rpq_store.pool WHERE name = 'own'), :gang), 'gang', 'workload 1');
SELECT pg_temp.breaks(format('UPDATE rpq_store.workload SET status = ''queued'' WHERE workload_id = %s', :gang), 'gang', 'workload 1');
SELECT pg_temp.breaks(format('UPDATE rpq_store.workload SET status = ''succeeded'' WHERE workload_id = %s', :gang), 'workload', 'workload 1');
SELECT pg_temp.breaks(format('UPDATE rpq_store.workload SET nodes = ''{n1}'' WHERE workload_id = %s', :gang), 'gang', 'workload 1');
-- nodes and devices
SELECT pg_temp.breaks('UPDATE rpq_store.node_load SET pods = pods + 1 WHERE node_id = 1', 'node_load', 'n1');
SELECT pg_temp.breaks('UPDATE rpq_store.node_load SET used = used OPERATOR(rpq.+) ''memory=1'' WHERE node_id = 1', 'node_load', 'n1');
SELECT pg_temp.breaks('UPDATE rpq_store.node_load SET parts[8] = 21000 WHERE node_id = 6', 'node_load', 'node 6, device 7');
SELECT pg_temp.breaks('UPDATE rpq_store.node_load SET parts = parts[:7] WHERE node_id = 6', 'node_load', 'n6');
SELECT pg_temp.breaks('UPDATE rpq_store.node_load SET pool_id = 99 WHERE node_id = 6', 'node_load', 'n6');
SELECT pg_temp.breaks('DELETE FROM rpq_store.node_load WHERE node_id = 6', 'node_load', 'n6');
SELECT pg_temp.breaks('UPDATE rpq_store.node SET capacity = ''gpu=1'' WHERE name = (SELECT nodes[1] FROM rpq_store.workload WHERE workload_id = 1)',
	'node', 'node n');
SELECT pg_temp.breaks('INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, resources, purpose)
	SELECT pool_id, node_id, 1, ''cpu=97'', ''move'' FROM rpq_store.node WHERE name = ''n6''', 'node', 'node n6');
SELECT pg_temp.breaks('UPDATE rpq_store.pod SET devices = ''{0}'' WHERE workload_id = 1', 'device', 'workload 1, replica 0');
SELECT pg_temp.breaks('UPDATE rpq_store.pod SET devices = NULL WHERE workload_id = 2', 'device', 'workload 2');
SELECT pg_temp.breaks('UPDATE rpq_store.pod SET devices = ''{8}'' WHERE workload_id = 2', 'device', 'node n., device 8');
SELECT pg_temp.breaks('UPDATE rpq_store.pod SET devices[1] = devices[2] WHERE workload_id = 1', 'device', 'node n., device');
-- usage and the ledger
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET amount = amount OPERATOR(rpq.+) ''gpu=1''', 'usage', 'account 1');
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET amount = amount OPERATOR(rpq.+) ''gpu=1''', 'ledger', 'account 1');
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET policy_id = 9', 'usage', 'policy 9');
SELECT pg_temp.breaks('DELETE FROM rpq_store.usage WHERE account_id = 2', 'usage', 'account 2');
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET amount = ''gpu=1000'' WHERE account_id = 1', 'pool', 'pool');
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET amount = ''gpu=-1''', 'pool', 'pool');
SELECT pg_temp.breaks('DELETE FROM rpq_store.entry WHERE kind = ''admit'' AND workload_id = 1', 'ledger', 'workload 1');
SELECT pg_temp.breaks('DELETE FROM rpq_store.entry WHERE kind = ''release'' AND workload_id = 6', 'ledger', 'workload 6');
SELECT pg_temp.breaks('INSERT INTO rpq_store.entry (scope_id, at, workload_id, account_id, pool_id, type_id, attempt, kind, resources)
	SELECT scope_id, at, workload_id, account_id, pool_id, type_id, attempt, kind, resources FROM rpq_store.entry
	WHERE kind = ''release''', 'ledger', 'workload 6');
SELECT pg_temp.breaks('UPDATE rpq_store.entry SET resources = ''gpu=1'' WHERE kind = ''admit'' AND workload_id = 1', 'ledger', 'workload 1');
-- lanes
SELECT pg_temp.breaks('UPDATE rpq_store.lane SET waiting = waiting + 1 WHERE waiting > 0', 'lane', 'scope');
SELECT pg_temp.breaks('UPDATE rpq_store.lane SET waiting = -1', 'lane', 'scope');
SELECT pg_temp.breaks('DELETE FROM rpq_store.lane', 'lane', 'scope');
SELECT pg_temp.breaks('DELETE FROM rpq_store.workload WHERE workload_id = 8', 'lane', 'scope');
SELECT pg_temp.breaks('UPDATE rpq_store.lane SET head_id = 1000000000, head_at = ''infinity''', 'lane head', 'scope');
SELECT pg_temp.breaks('UPDATE rpq_store.lane SET priority = 1', 'lane', 'workload');
SELECT pg_temp.breaks('DELETE FROM rpq_store.entry WHERE kind = ''enqueue''', 'ledger', 'scope');
SELECT pg_temp.breaks('UPDATE rpq_store.turn SET seen = pg_current_snapshot(), own_xid = pg_current_xact_id(),
	own_entry = (SELECT max(entry_id) FROM rpq_store.entry)', 'lane', 'scope');
SELECT pg_temp.breaks('UPDATE rpq_store.turn SET own_entry = 0, own_xid = ''0'', seen = ''3:3:''', 'ledger', 'account 1');
-- pools
SELECT pg_temp.breaks('UPDATE rpq_store.pool_capacity SET nodes = nodes + 1', 'pool_capacity', 'pool');
SELECT pg_temp.breaks('DELETE FROM rpq_store.pool_capacity', 'pool_capacity', 'pool');
SELECT pg_temp.breaks('UPDATE rpq_store.node SET tenant_id = 9 WHERE name = ''n6''', 'inventory', 'n6');
SELECT pg_temp.breaks('UPDATE rpq_store.pool SET status = ''deleted'' WHERE name = ''own''', 'inventory', 'node');
SELECT pg_temp.breaks('UPDATE rpq_store.node SET capacity = ''gpu=12'' WHERE pool_id = (SELECT pool_id FROM rpq_store.pool WHERE name = ''own'')',
	'machine', 'in pool own');
SELECT pg_temp.breaks('DELETE FROM rpq_store.turn', 'turn', 'scope');
-- references
SELECT pg_temp.breaks('DELETE FROM rpq_store.node WHERE node_id = 1', 'reference', 'node_load');
SELECT pg_temp.breaks('UPDATE rpq_store.pod SET node_id = 99', 'reference', 'pod');
SELECT pg_temp.breaks('DELETE FROM rpq_store.workload', 'reference', 'pod');
SELECT pg_temp.breaks('DELETE FROM rpq_store.workload', 'reference', 'entry');
SELECT pg_temp.breaks('DELETE FROM rpq_store.account', 'reference', 'workloads of account');
SELECT pg_temp.breaks('DELETE FROM rpq_store.account', 'reference', 'member');
SELECT pg_temp.breaks('DELETE FROM rpq_store.turn', 'reference', 'lane');
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET pool_id = 99 WHERE account_id = 2', 'reference', 'usage');
SELECT pg_temp.breaks('UPDATE rpq_store.usage SET type_id = 99 WHERE account_id = 2', 'reference', 'usage');
SELECT pg_temp.breaks('INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, resources, purpose) VALUES (1, 99, 1, '''', ''move'')',
	'reference', 'hold');
SELECT pg_temp.breaks('UPDATE rpq_store.member_quota SET type_id = 99', 'reference', 'quota of account 1');
-- reports
SELECT pg_temp.breaks('INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, at) VALUES (99, 1, 99, 1, ''gone'', now())',
	'reference', 'report of pod 99');
SELECT pg_temp.breaks('INSERT INTO rpq_store.pod_report (pod_id, node_id, workload_id, attempt, state, at)
	SELECT pod_id, node_id + 1, workload_id, attempt, ''running'', now() FROM rpq_store.pod LIMIT 1', 'report', 'pod');
SELECT pg_temp.breaks('INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, resources, purpose, pod_id) SELECT 1, node_id, workload_id, '''',
	''stopping'', 99 FROM rpq_store.pod LIMIT 1', 'hold', 'hold');
SELECT pg_temp.breaks('UPDATE rpq_store.node SET silent = true', 'node', 'node');
-- operations
SELECT pg_temp.breaks('INSERT INTO rpq_store.operation_pool SELECT pool_id, operation_id FROM rpq_store.operation', 'operation', 'pool');
SELECT pg_temp.breaks('UPDATE rpq_store.operation SET status = ''running'', lease_until = now() - interval ''1 s'', owner_pid = 1',
	'operation', 'operation');
SELECT pg_temp.breaks('UPDATE rpq_store.pool SET status = ''updating'' WHERE name = ''own''', 'operation', 'pool own');
SELECT pg_temp.breaks('UPDATE rpq_store.node SET draining = true WHERE name = ''n1''', 'node', 'n1');
SELECT pg_temp.breaks('INSERT INTO rpq_store.hold (scope_id, node_id, workload_id, resources, purpose, pod_id, operation_id)
	SELECT n.pool_id, n.node_id, p.workload_id, '''', ''move'', p.pod_id, o.operation_id
	FROM rpq_store.node n, rpq_store.pod p, rpq_store.operation o LIMIT 1', 'hold', 'hold');
SELECT pg_temp.breaks(format('INSERT INTO rpq_store.pod_migration (operation_id, pool_id, workload_id, replica, attempt, pod_id,
		resources, from_node_id, from_node, to_node_id, to_node, status, planned_at)
	SELECT o.operation_id, n.pool_id, p.workload_id, p.replica, p.attempt, p.pod_id, '''', n.node_id, n.name, n.node_id,
		n.name, %L, now()
	FROM rpq_store.node n, rpq_store.pod p, rpq_store.operation o LIMIT 1', status), 'move', 'pod_migration')
FROM unnest('{planned,reserved,evicting}'::text[]) AS status;
SELECT pg_temp.breaks('INSERT INTO rpq_store.entry (scope_id, at, workload_id, attempt, kind)
	SELECT w.scope_id, now(), w.workload_id, w.attempt, ''move'' FROM rpq_store.workload w
	WHERE w.status IN (''starting'', ''running'') LIMIT 1', 'ledger', 'workload');
-- the history
SELECT pg_temp.breaks('INSERT INTO rpq_store.tenant (name) VALUES (''raw'')', 'history', 'tenant raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.cluster (name) VALUES (''raw'')', 'history', 'cluster raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.instance_type (name, kind, capacity, machine_unit) VALUES (''raw'', ''gpu'', '''', '''')',
	'history', 'instance_type raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.account (tenant_id, name) VALUES (1, ''raw'')', 'history', 'account raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.user_group (tenant_id, name) VALUES (1, ''raw'')', 'history', 'user_group raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.project_group (tenant_id, name) VALUES (1, ''raw'')', 'history', 'project_group raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.pool (tenant_id, cluster_id, kind, type, name) VALUES (1, 1, ''gpu'', ''dedicated'', ''raw'')',
	'history', 'pool raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.node (tenant_id, cluster_id, name, pool_id, type_id, capacity, usable)
	VALUES (1, 1, ''raw'', 1, 1, ''gpu=8'', ''gpu=8'')', 'history', 'node raw');
SELECT pg_temp.breaks('INSERT INTO rpq_store.member (pool_id, account_id) SELECT pool_id, 2 FROM rpq_store.pool WHERE name = ''own''',
	'history', 'member');
SELECT pg_temp.breaks('INSERT INTO rpq_store.pool_admin SELECT pool_id, 2 FROM rpq_store.pool WHERE name = ''own''', 'history', 'pool_admin 2');

SELECT pg_temp.sound('and all of that is undone');
CREATE ROLE somebody;
SET ROLE somebody;
SELECT throws_ok('SELECT * FROM rpq.check_integrity()', '42501');
RESET ROLE;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT pg_temp.sound('in a transaction that may only read');
COMMIT;
SELECT * FROM finish();

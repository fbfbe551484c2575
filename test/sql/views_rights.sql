-- What the views show to whom, in an ordinary day of one tenant; and what may be written through them.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE views_ann;
CREATE ROLE views_bea;
CREATE ROLE views_boss;
CREATE ROLE views_pad;
CREATE ROLE views_gate;
CREATE ROLE views_nobody;
SET rpq.synchronous_operations = on;
\o /dev/null
SELECT rpq.create_tenant('acme'), rpq.create_tenant('other');
SELECT rpq.create_cluster('c1', 'north');
SELECT rpq.create_instance_type('h100', 'gpu', 'gpu=8,cpu=192,memory=2Ti');
SELECT rpq.create_instance_type('c120', 'cpu', 'cpu=120,memory=512Gi');
SELECT rpq.create_account('ann', 'views_ann', tenant => 'acme'), rpq.create_account('bea', 'views_bea', tenant => 'acme'),
	rpq.create_account('boss', 'views_boss', org_admin => true, tenant => 'acme'),
	rpq.create_account('pad', 'views_pad', tenant => 'acme'),
	rpq.create_account('gate', 'views_gate', gateway => true, tenant => 'acme');
SELECT rpq.create_user_group('readers', tenant => 'acme'), rpq.create_project_group('p1', tenant => 'acme');
SELECT rpq.add_to_group('acme/readers', ARRAY['ann', 'bea']);
SELECT rpq.add_nodes('h100', count => 4, prefix => 'g', tenant => 'acme');
SELECT rpq.add_nodes('c120', count => 2, prefix => 'c', tenant => 'acme');
SELECT rpq.add_nodes('h100', count => 1, prefix => 'o', tenant => 'other');
SELECT rpq.create_pool('research', 'dedicated', quota => 'gpu=16', tenant => 'acme');
SELECT rpq.grant_pool_admin('acme/research', 'pad');
SELECT rpq.authorize('acme/research', ARRAY['ann', 'bea'], quota => 'gpu=12');
SELECT rpq.submit('acme/research', workload_type => 'training', resources => r::rpq.resources, name => n, account => 'acme/' || a)
  FROM (VALUES ('gpu=4,cpu=8', 'four', 'ann'), ('gpu=1/2,cpu=1', 'half', 'ann'), ('gpu=1/3,cpu=1', 'third', 'bea'),
			   ('gpu=8,cpu=1', 'big', 'bea'), ('gpu=8,cpu=1', 'more', 'bea')) w (r, n, a);
\o
-- Nothing is counted yet; the figures are right all the same.
SELECT name, used, queued, running, oldest_wait IS NOT NULL AS waits FROM rpq.overview WHERE tenant = 'acme' ORDER BY 1;
SELECT count(*) FROM rpq.schedule('acme/research');
SELECT name, total, used, available, queued, running, oldest_wait IS NOT NULL AS waits
  FROM rpq.overview WHERE tenant = 'acme' ORDER BY 1;
SELECT name, total, used, unavailable, available, lent, largest_free, instance_types, health, running FROM rpq.pools ORDER BY tenant, name;
SELECT pool, instance_type, nodes, total, used, available FROM rpq.pool_instances ORDER BY pool_id, 2;
SELECT resource, total, used, unavailable, available, lent FROM rpq.pool_resources WHERE pool = 'research' ORDER BY 1;
SELECT account, instance_type, config_mode, quota, used, available FROM rpq.members ORDER BY 1, 2;
SELECT name, pool, used, available, idle FROM rpq.nodes WHERE tenant = 'acme';
SELECT name, status, total, reason_code, nodes, attempt FROM rpq.workloads ORDER BY workload_id;

SET ROLE views_ann;
SELECT name, used, queued, running FROM rpq.overview ORDER BY 1;
SELECT account, used FROM rpq.members;
SELECT name, status FROM rpq.workloads ORDER BY 1;
SELECT node, workload, account, resources, devices FROM rpq.node_pods ORDER BY 2;
SELECT DISTINCT account FROM rpq.ledger;
SELECT DISTINCT name FROM rpq.workload_events ORDER BY 1;
SELECT * FROM rpq.node_map('research');
SELECT name, accounts FROM rpq.user_groups;
SELECT name, user_groups FROM rpq.accounts;
SELECT (SELECT count(*) FROM rpq.operations) AS operations, (SELECT count(*) FROM rpq.operation_history) AS history,
	(SELECT count(*) FROM rpq.pool_admins) AS pool_admins, (SELECT count(*) FROM rpq.tenants) AS tenants,
	(SELECT count(*) FROM rpq.nodes) AS nodes, (SELECT count(*) FROM rpq.clusters) AS clusters,
	(SELECT count(*) FROM rpq.instance_types) AS types, (SELECT count(*) FROM rpq.workload_types) AS workload_types,
	(SELECT count(*) FROM rpq.project_groups) AS project_groups;
-- a condition that raises or tells does not get to see rows of others
CREATE FUNCTION pg_temp.tell(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE '%', t; RETURN true; END $$;
SET client_min_messages = notice;
SELECT count(*) FROM rpq.workloads WHERE pg_temp.tell(name);
SELECT count(*) FROM rpq.accounts WHERE pg_temp.tell(name);
SELECT count(*) FROM rpq.members WHERE pg_temp.tell(account);
SET client_min_messages = warning;
-- writing
INSERT INTO rpq.workloads (pool, workload_type, resources, name) VALUES ('research', 'training', 'gpu=1', 'ins')
	RETURNING status, account, total, priority, reason_code;
INSERT INTO rpq.workloads (pool, workload_type, resources, name, status, labels)
	VALUES ('research', 'training', 'gpu=1', 'dr', 'draft', '{"a": 1}') RETURNING status, account, total, labels;
INSERT INTO rpq.workloads (pool, workload_type, resources, request_id) VALUES ('research', 'training', 'gpu=1', 'r1') RETURNING name, request_id;
UPDATE rpq.workloads SET status = 'stopped' WHERE request_id = 'r1';
INSERT INTO rpq.workloads (pool, workload_type, resources, request_id) VALUES ('research', 'training', 'gpu=1', 'r1') RETURNING status, request_id;
INSERT INTO rpq.workloads (pool, workload_type, resources, attempt) VALUES ('research', 'training', 'gpu=1', 3);
INSERT INTO rpq.workloads (pool, workload_type, resources, status) VALUES ('research', 'training', 'gpu=1', 'running');
INSERT INTO rpq.workloads (pool, workload_type, resources) VALUES ('research', 'training', 'gpu=99');
INSERT INTO rpq.workloads (workload_type, resources) VALUES ('training', 'gpu=1');
UPDATE rpq.workloads SET priority = 20, labels = '{"b": 2}', name = 'ins2' WHERE name = 'ins' RETURNING name, priority, labels, status;
UPDATE rpq.workloads SET labels = NULL WHERE name = 'ins2' RETURNING labels;
UPDATE rpq.workloads SET name = NULL WHERE name = 'ins2';
UPDATE rpq.workloads SET priority = priority WHERE name = 'ins2' RETURNING name;
UPDATE rpq.workloads SET status = 'stopped' WHERE name IN ('ins2', 'four', 'dr') RETURNING name, status;
UPDATE rpq.workloads SET status = 'running' WHERE name = 'half';
UPDATE rpq.workloads SET priority = 3 WHERE name = 'half';
UPDATE rpq.workloads SET attempt = 3 WHERE name = 'half';
UPDATE rpq.workloads SET status = 'stopped' WHERE name = 'big';
UPDATE rpq.pools SET frozen = true WHERE name = 'research';
UPDATE rpq.members SET quota = 'gpu=100';
DELETE FROM rpq.workloads;
-- what was stopped is free at once, without a cycle
SELECT used, available, running, queued FROM rpq.overview WHERE name = 'research';
SELECT used FROM rpq.members;
SELECT name, used FROM rpq.nodes WHERE pool = 'research' ORDER BY 1;
SELECT node, map FROM rpq.node_map('research');
SELECT name, status, end_cause FROM rpq.workload_history ORDER BY workload_id;
SELECT name, event, status, attempt, cause FROM rpq.workload_events ORDER BY workload_event_id;
-- locks reach no row of pools and members, and one's own workloads alone
BEGIN;
SELECT count(*) FROM (SELECT FROM rpq.pools FOR UPDATE) x;
SELECT count(*) FROM (SELECT FROM rpq.members FOR UPDATE) x;
SELECT count(*) FROM (SELECT FROM rpq.workloads FOR UPDATE) x;
RESET ROLE;
SELECT relation::regclass, mode FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowShareLock' ORDER BY 1;
ROLLBACK;
SET ROLE views_ann;
BEGIN; LOCK TABLE rpq.workloads IN ROW SHARE MODE; ROLLBACK;

SET ROLE views_pad;
SELECT name, status, account FROM rpq.workloads ORDER BY workload_id;
SELECT account, used FROM rpq.members ORDER BY 1;
SELECT object_kind, object, action FROM rpq.operation_history ORDER BY 1, 2, 3;
SELECT kind, pool, status FROM rpq.operations;
UPDATE rpq.pools SET frozen = true, description = 'x', workload_types = '{training}' WHERE name = 'research'
	RETURNING name, frozen, description, workload_types;
UPDATE rpq.pools SET frozen = false, description = NULL, workload_types = NULL WHERE name = 'research'
	RETURNING name, frozen, description, workload_types;
UPDATE rpq.pools SET user_default_quota = 'gpu=3', project_group = 'p1', min_runtime = '5 min' WHERE name = 'research'
	RETURNING user_default_quota, project_group, min_runtime;
UPDATE rpq.pools SET user_default_quota = NULL, queueing = 'best_effort' WHERE name = 'research' RETURNING user_default_quota, queueing;
UPDATE rpq.pools SET queueing = NULL WHERE name = 'research';
UPDATE rpq.pools SET total = 'gpu=8' WHERE name = 'research';
UPDATE rpq.pools SET frozen = true WHERE name = 'c1-gpu';
UPDATE rpq.members SET quota = 'gpu=1', max_priority = 7 WHERE account = 'ann' RETURNING quota, used, available, config_mode, max_priority;
UPDATE rpq.members SET quota = NULL WHERE account = 'ann' RETURNING quota, config_mode, available, guarantee;
UPDATE rpq.members SET max_priority = 101 WHERE account = 'ann';
RESET ROLE;
UPDATE rpq.pools SET name = 'y' WHERE name = 'research';
UPDATE rpq.members SET used = 'gpu=1';
INSERT INTO rpq.workloads (pool, workload_type, resources, attempt) VALUES ('research', 'training', 'gpu=1', 3);

-- through a gateway: the account's rights, nothing of the gateway's
SET ROLE views_gate;
SELECT count(*) FROM rpq.workloads;
BEGIN;
SET LOCAL rpq.account = 'bea';
SELECT name, account FROM rpq.workloads ORDER BY 1;
SELECT node, map FROM rpq.node_map('research');
COMMIT;
SET ROLE views_boss;
SELECT name FROM rpq.accounts ORDER BY 1;
SELECT name, accounts FROM rpq.user_groups;
SELECT name, status FROM rpq.workloads ORDER BY 1;
SELECT name FROM rpq.tenants;
SELECT DISTINCT tenant FROM rpq.operation_history;
SELECT pool, account FROM rpq.pool_admins;
-- one whom rpq does not know sees empty views
SET ROLE views_nobody;
SELECT count(*) FROM rpq.overview;
SELECT count(*) FROM rpq.workloads;
SELECT count(*) FROM rpq.instance_types;
SELECT count(*) FROM rpq.accounts;
SELECT * FROM rpq.node_map('research');
-- and so does one who sets rpq.account without the right
SET ROLE views_ann;
SET rpq.account = 'bea';
SELECT count(*) FROM rpq.workloads;
SELECT count(*) FROM rpq.overview;

-- What the examples of doc/ start from: a tenant with a few machines, four accounts, three pools.  The clock stands
-- still, so that times in the examples are the same in every run.
SET rpq.clock = '2026-03-02 09:00:00+00';
SET client_min_messages = warning;
SET timezone = 'UTC';
SET search_path = public, rpq;
CREATE ROLE olga;
CREATE ROLE ana;
CREATE ROLE ben;
\o /dev/null
SELECT rpq.create_tenant('acme');
SELECT rpq.create_cluster('c1', region => 'eu-central');
SELECT rpq.create_instance_type('h100', kind => 'gpu', capacity => 'gpu=8,cpu=192,memory=2Ti', machine_unit => 'gpu=8');
SELECT rpq.create_instance_type('epyc', kind => 'cpu', capacity => 'cpu=120,memory=960Gi', machine_unit => 'cpu=120');
SELECT rpq.add_nodes('h100', count => 6, prefix => 'g');
SELECT rpq.add_nodes('epyc', count => 2, prefix => 'c');
SELECT rpq.create_account('olga', db_role => 'olga', org_admin => true);
SELECT rpq.create_account('ana', db_role => 'ana');
SELECT rpq.create_account('ben', db_role => 'ben');
SET rpq.synchronous_operations = on;
SELECT rpq.create_pool('research', type => 'dedicated', instance_type => 'h100', quota => 'gpu=16',
	user_default_quota => 'gpu=12');
SELECT rpq.authorize('research', '{ana,ben}');
\o

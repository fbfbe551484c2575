-- Two tenants in one cluster: 60 machines of three instance types.
\ir style.psql
ALTER DATABASE :DBNAME SET search_path = public, rpq;
\echo
\echo '1. Machines.  A platform administrator names the cluster and the instance types, and adds nodes.  The shared pools'
\echo '   come into being with their first node.'
\echo

SELECT rpq.create_tenant('aurora', 'a company that trains and serves models'),
	   rpq.create_tenant('polytech', 'a university') \g /dev/null
SELECT rpq.create_cluster('fra1', region => 'eu-central') \g /dev/null

SELECT rpq.create_instance_type('h100', kind => 'gpu', capacity => 'gpu=8,cpu=192,memory=2Ti', machine_unit => 'gpu=8'),
	   rpq.create_instance_type('l4', kind => 'gpu', capacity => 'gpu=4,cpu=64,memory=512Gi', machine_unit => 'gpu=4'),
	   rpq.create_instance_type('epyc', kind => 'cpu', capacity => 'cpu=120,memory=960Gi', machine_unit => 'cpu=120')
	\g /dev/null

SELECT rpq.add_nodes('h100', count => 18, prefix => 'ah', tenant => 'aurora'),
	   rpq.add_nodes('l4', count => 12, prefix => 'al', tenant => 'aurora'),
	   rpq.add_nodes('epyc', count => 12, prefix => 'ac', tenant => 'aurora'),
	   rpq.add_nodes('h100', count => 6, prefix => 'ph', tenant => 'polytech'),
	   rpq.add_nodes('l4', count => 4, prefix => 'pl', tenant => 'polytech'),
	   rpq.add_nodes('epyc', count => 8, prefix => 'pc', tenant => 'polytech') \g /dev/null

SELECT tenant, pool, instance_type, count(*) AS nodes, rpq.pretty(sum(capacity)) AS capacity
  FROM rpq.nodes GROUP BY tenant, pool, instance_type ORDER BY tenant, pool, instance_type;

\set pool random(1, :pools)
SELECT rpq.submit('p' || :pool, workload_type => 'batch', resources => 'cpu=1');

\set k random(1, 3)
\set p random(0, 9)
SELECT rpq.submit('p1', workload_type => 'batch', priority => :p, resources => (ARRAY['cpu=1', 'cpu=2', 'cpu=3'])[:k]::rpq.resources) AS submitted \gset
SELECT rpq.stop(:before_last);
\set before_last :last
\set last :submitted

\set pool random(1, :pools)
INSERT INTO bench.plain (pool, account, name, status, priority, replicas, resources, labels)
VALUES (:pool, 1, 'job', 'queued', 50, 1, 'cpu=1', NULL);

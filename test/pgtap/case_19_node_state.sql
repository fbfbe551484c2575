-- Field case F19: what an administrator decides of a node and what the node reports are kept apart.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
SELECT t.submit('c1-gpu', '2', 'u1', 'w0') AS w0 \gset
SELECT t.pass() AS x \gset
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n2}') AS x, rpq.cordon_node('n1', reason => 'new firmware') AS y \gset
SELECT is(t.nodes(:w0), 'n1', 'w0 runs on n1, which is cordoned');

SELECT t.submit('c1-gpu', '8', 'u1', 'w1') AS w1, t.submit('c1-gpu', '8', 'u1', 'w2') AS w2 \gset
SELECT t.pass() AS x \gset
CREATE FUNCTION t.state() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT string_agg(format('%s %s %s', w.name, CASE WHEN w.status = 'queued' THEN w.reason_code ELSE 'runs' END, array_to_string(w.nodes, ',')), ', ' ORDER BY w.name)
			FROM rpq.workloads w);
END $$;
SELECT is(t.state(), 'w0 runs n1, w1 runs n2, w2 pool_quota ', 'after the first pass');
-- n1 reports again: it registers anew, and its executor reports
SELECT rpq.add_nodes(instance_type => 'g8', names => '{n1}') AS x \gset
SELECT count(*) AS x FROM rpq.sync_node('n1', capacity => 'gpu=8') \gset
SELECT pod_id AS p0 FROM rpq.pods WHERE workload_id = :w0 \gset
SELECT count(*) AS x FROM rpq.sync_node('n1', running => ARRAY[:p0], capacity => 'gpu=8') \gset
SELECT t.pass() AS x \gset
SELECT is(t.state(), 'w0 runs n1, w1 runs n2, w2 pool_quota ', 'the same after the second');
SELECT is((SELECT format('%s %s', wanted, available) FROM rpq.explain(:w2) WHERE check_name = 'pool_quota' AND NOT passed),
		  'gpu=8 gpu=6', '8 wanted, 6 free');
SELECT matches((SELECT detail || '; ' || way_out FROM rpq.explain(:w2) WHERE check_name = 'no_node_fits' AND NOT passed), 'cordoned',
			   'explain''s placement step says that it is on a cordoned node');
SELECT is((SELECT format('%s %s', count(*), sum(t.gpu(capacity))) FROM rpq.nodes), '2 16', 'two nodes');
SELECT is((SELECT format('%s %s %s', t.gpu(total), t.gpu(unavailable), t.gpu(available)) FROM rpq.pools), '16 6 0', 'total 16');
SELECT is((SELECT schedulable FROM rpq.nodes WHERE name = 'n1'), false, 'n1 is still cordoned');

SELECT rpq.uncordon_node('n1') AS x, rpq.report_finished(:w0) AS y \gset
SELECT count(*) AS x FROM rpq.sync_node('n1', capacity => 'gpu=8') \gset
SELECT t.pass() AS x \gset
SELECT is(t.state(), 'w1 runs n2, w2 runs n1', 'w2 has its turn');
SELECT is(t.used('c1-gpu'), 16::numeric, 'used 16');

SELECT count(*) AS x FROM rpq.sync_node('n2', capacity => 'gpu=6') \gset
SELECT t.submit('c1-gpu', '1', 'u1', 'w3') AS w3 \gset
SELECT lives_ok('SELECT t.pass()', 'the pass does not fail');
SELECT is(t.state(), 'w1 runs n2, w2 runs n1, w3 pool_quota ', 'w1 runs on, w3 waits');
SELECT is((SELECT format('%s %s', t.gpu(available), t.gpu(reported)) FROM rpq.nodes WHERE name = 'n2'), '0 6', 'n2 has nothing free');
-- with nothing on it, it is still too small for eight
SELECT rpq.report_finished(:w1) AS x, rpq.stop(:w3) AS y \gset
SELECT count(*) AS x FROM rpq.sync_node('n2', capacity => 'gpu=6') \gset
SELECT t.submit('c1-gpu', '8', 'u1', 'w4') AS w4 \gset
SELECT t.pass() AS x \gset
SELECT is((SELECT way_out FROM rpq.explain(:w4) WHERE check_name = 'no_node_fits' AND NOT passed),
		  'must wait: node "n2" needs least, gpu=2 more free (its machine lacks gpu=2 at present)', 'explain names what is missing');
SELECT t.whole();
SELECT * FROM finish();

-- Submits as account bench, waits until the workload is placed, n times; prints the 50th and 99th percentile in ms of the
-- time from the call to the first sight of it, its commit and that of the cycle included.
SET rpq.account = 'bench';
CREATE TEMP TABLE latency (ms numeric);
CREATE PROCEDURE pg_temp.measure(n int) LANGUAGE plpgsql AS $$
DECLARE
	since timestamptz;
	submitted bigint;
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM pg_sleep(0.02 + random() * 0.02);
		since := clock_timestamp();
		submitted := rpq.submit('p1', workload_type => 'batch', priority => 60, resources => 'cpu=1');
		COMMIT;
		LOOP
			EXIT WHEN (SELECT w.status FROM rpq_store.workload w WHERE w.workload_id = submitted) <> 'queued';
			COMMIT;
			PERFORM pg_sleep(0.0005);
		END LOOP;
		INSERT INTO pg_temp.latency VALUES (1000 * extract(epoch FROM clock_timestamp() - since));
		COMMIT;
		PERFORM rpq.stop(submitted);
		COMMIT;
	END LOOP;
END
$$;
CALL pg_temp.measure(:n);
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY ms), percentile_disc(0.99) WITHIN GROUP (ORDER BY ms) FROM latency;

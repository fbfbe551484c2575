-- Preemptions in the tables: what pending victims still have, and the end of what is held for a preemptor.
--
-- Writes hold (purpose preempt) and preemption, under the turns that the caller holds.  What a cycle does with them is
-- in src/store/evictions.c.

-- A victim keeps its room until its pods are gone, and for as long as an executor has not let go of them.
CREATE OR REPLACE VIEW rpq_store.victim_room AS
SELECT p.preemption_id, p.preemptor, o.node_id, o.pod_id, w.resources, o.devices
FROM rpq_store.preemption AS p
JOIN rpq_store.pod AS o ON o.workload_id = p.victim AND o.attempt = p.victim_attempt
JOIN rpq_store.workload AS w ON w.workload_id = p.victim
WHERE p.state = 'pending'
UNION ALL
SELECT p.preemption_id, p.preemptor, h.node_id, h.pod_id, h.resources, h.devices
FROM rpq_store.preemption AS p
JOIN rpq_store.hold AS h ON h.workload_id = p.victim AND h.attempt = p.victim_attempt AND h.purpose = 'stopping'
WHERE p.state = 'pending';
COMMENT ON VIEW rpq_store.victim_room IS 'what victims that have still to stop have on each node, a row for each pod';
COMMENT ON COLUMN rpq_store.victim_room.preemption_id IS 'the preemption';
COMMENT ON COLUMN rpq_store.victim_room.preemptor IS 'workload that the room is for';
COMMENT ON COLUMN rpq_store.victim_room.node_id IS 'the node';
COMMENT ON COLUMN rpq_store.victim_room.pod_id IS 'the pod that has it';
COMMENT ON COLUMN rpq_store.victim_room.resources IS 'what the pod has';
COMMENT ON COLUMN rpq_store.victim_room.devices IS 'devices that it has, or has a part of';

-- A client may keep a victim's row locked past the grace: its pods are then gone, and the row follows when it is free.
CREATE OR REPLACE VIEW rpq_store.podless AS
SELECT p.preemption_id, w.workload_id, w.attempt, w.account_id, w.policy_id, w.pool_id, w.type_id, w.lender_id,
	w.resources, w.replicas
FROM rpq_store.preemption AS p
JOIN rpq_store.workload AS w ON w.workload_id = p.victim AND w.attempt = p.victim_attempt
WHERE p.state = 'pending' AND w.status IN ('starting', 'running')
  AND NOT EXISTS (SELECT FROM rpq_store.pod AS o WHERE o.workload_id = w.workload_id AND o.attempt = w.attempt);
COMMENT ON VIEW rpq_store.podless IS
'victims that have lost their pods while their rows, which clients keep locked, still say that they run';
COMMENT ON COLUMN rpq_store.podless.preemption_id IS 'the preemption';
COMMENT ON COLUMN rpq_store.podless.workload_id IS 'the victim';
COMMENT ON COLUMN rpq_store.podless.attempt IS 'its attempt';
COMMENT ON COLUMN rpq_store.podless.account_id IS 'its account';
COMMENT ON COLUMN rpq_store.podless.policy_id IS 'policy that it is charged to; NULL: a direct submission';
COMMENT ON COLUMN rpq_store.podless.pool_id IS 'pool that it is charged to';
COMMENT ON COLUMN rpq_store.podless.type_id IS 'instance type of the nodes that it had';
COMMENT ON COLUMN rpq_store.podless.lender_id IS 'exclusive pool whose idle room it borrowed; NULL: none';
COMMENT ON COLUMN rpq_store.podless.resources IS 'what each of its pods had';
COMMENT ON COLUMN rpq_store.podless.replicas IS 'how many pods it had';

CREATE OR REPLACE FUNCTION rpq_store.still_lends(pool_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM rpq_store.pool AS p
				   WHERE p.pool_id = $1 AND p.type = 'exclusive' AND p.idle_time_sharing AND p.status <> 'deleted')
$$;
COMMENT ON FUNCTION rpq_store.still_lends(bigint) IS
'whether what borrows room of a pool may stay there: it is exclusive, with idle-time sharing';

CREATE OR REPLACE FUNCTION rpq_store.give_up_preemptions(preemptors bigint[]) RETURNS int
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH freed AS (
		DELETE FROM rpq_store.hold AS h WHERE h.purpose = 'preempt' AND h.workload_id = ANY ($1)
		RETURNING h.hold_id),
	-- one whose attempt has ended stopped for it; one that has lost its pods follows when its row is free; one that
	-- borrows where nothing is lent any more has to go for nobody's sake
	ended AS (
		UPDATE rpq_store.preemption AS p
		SET state = CASE WHEN NOT o.placed THEN 'stopped' WHEN o.goes THEN 'pending' ELSE 'given_up' END,
			preemptor = CASE WHEN NOT (o.placed AND o.goes) THEN p.preemptor END,
			preemptor_account = CASE WHEN NOT (o.placed AND o.goes) THEN p.preemptor_account END
		FROM rpq_store.preemption AS k
		JOIN rpq_store.workload AS w ON w.workload_id = k.victim
		CROSS JOIN LATERAL (
			SELECT w.attempt = k.victim_attempt AND w.status IN ('starting', 'running') AS placed,
				w.lender_id IS NOT NULL AND NOT rpq_store.still_lends(w.lender_id) AS goes) AS o
		WHERE k.preemption_id = p.preemption_id AND k.state = 'pending' AND k.preemptor = ANY ($1)
		  AND p.preemption_id NOT IN (SELECT l.preemption_id FROM rpq_store.podless AS l))
	SELECT count(*)::int FROM freed
$$;
COMMENT ON FUNCTION rpq_store.give_up_preemptions(bigint[]) IS
'gives up the room that is held for these preemptors: their holds end, victims that have still to stop go on, but for '
'those that borrow where nothing is lent any more. Returns '
'the number of holds. The caller holds the turns of the pools';

CREATE OR REPLACE FUNCTION rpq_store.give_up_on_nodes(nodes bigint[]) RETURNS int
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	SELECT rpq_store.give_up_preemptions(ARRAY(
		SELECT DISTINCT h.workload_id FROM rpq_store.hold AS h WHERE h.node_id = ANY ($1) AND h.purpose = 'preempt'))
$$;
COMMENT ON FUNCTION rpq_store.give_up_on_nodes(bigint[]) IS
'gives up the room that is held for preemptors with any on these nodes, which are about to take nothing new, or to '
'change hands; returns the number of holds. The caller holds the turns of the pools';

-- Which nodes change hands: those named, or idle ones for an amount.  Writes nothing.  The caller holds the turn of the
-- pool that the nodes are in and has folded, so that node_load is exact; no pod is read but to say what is in the way.
--
-- A pool that *receives* nodes takes only such as take work (healthy, not cordoned) and are whole machines where it is
-- dedicated or exclusive; one that gives them away gives any, the unhealthy and cordoned first.  A node that is
-- draining or about to be removed is another operation's, and never changes hands.

CREATE OR REPLACE FUNCTION rpq_store.describe_busy(nodes bigint[], named boolean) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(format('%s (%s)', n.name, CASE WHEN $2 THEN w.what ELSE rpq_store.node_busy(n.node_id) END), ', '
			ORDER BY n.place)
		|| CASE WHEN count(*) < max(n.busy) THEN format(' and %s more', max(n.busy) - count(*)) ELSE '' END
	FROM (SELECT b.node_id, b.name, row_number() OVER (ORDER BY b.name) AS place, count(*) OVER () AS busy
		  FROM rpq_store.node AS b WHERE b.node_id = ANY ($1) ORDER BY b.name LIMIT 20) AS n
	CROSS JOIN LATERAL (
		SELECT concat_ws(', ', string_agg(o.pod, ', ' ORDER BY o.place) FILTER (WHERE o.place <= 5),
			CASE WHEN count(o.pod) > 5 THEN format('%s more pods', count(o.pod) - 5) END,
			(SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN '1 hold' ELSE count(*) || ' holds' END
			 FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)) AS what
		FROM (SELECT concat_ws(' ', 'workload', w.workload_id, '"' || w.name || '"',
					nullif(w.resources::text, '')) AS pod,
				row_number() OVER (ORDER BY p.pod_id) AS place
			  FROM rpq_store.pod AS p JOIN rpq_store.workload AS w ON w.workload_id = p.workload_id
			  WHERE p.node_id = n.node_id) AS o) AS w
$$;
COMMENT ON FUNCTION rpq_store.describe_busy(bigint[], boolean) IS
'nodes and what stands on them, for an errdetail, at most 20: named says workloads, else their number alone, '
'which is for those who may not see them';

CREATE OR REPLACE FUNCTION rpq_store.node_candidates(pool_id bigint, type_id bigint, receiving boolean,
	idle_only boolean DEFAULT false)
RETURNS TABLE (node_id bigint, name text, amount numeric, whole boolean, idle boolean, takes_work boolean,
	used numeric, pods int)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	unit rpq.resources := (SELECT t.machine_unit FROM rpq_store.instance_type AS t
						   WHERE t.type_id = node_candidates.type_id);
	main_key text := rpq_store.primary_resource(unit);
	unit_amount numeric := unit OPERATOR(rpq.->) main_key;
BEGIN
	-- what borrows there is preempted when the node goes, so that it is in nobody's way
	RETURN QUERY
	SELECT n.node_id, n.name, n.capacity OPERATOR(rpq.->) main_key,
		mod(n.capacity OPERATOR(rpq.->) main_key, unit_amount) = 0,
		l.pods = coalesce(b.pods, 0) AND h.node_id IS NULL,
		n.schedulable AND n.health = 'healthy', coalesce(l.used OPERATOR(rpq.->) main_key, 0), l.pods
	FROM rpq_store.node AS n
	JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
	LEFT JOIN (SELECT DISTINCT o.node_id FROM rpq_store.hold AS o) AS h ON h.node_id = n.node_id
	LEFT JOIN (SELECT k.node_id, count(*) AS pods FROM rpq_store.borrowed_pod AS k
			   WHERE k.lender_id = node_candidates.pool_id GROUP BY k.node_id) AS b ON b.node_id = n.node_id
	WHERE n.pool_id = node_candidates.pool_id AND n.type_id = node_candidates.type_id
	  AND NOT n.draining AND NOT n.removing
	  AND (NOT node_candidates.receiving OR (n.schedulable AND n.health = 'healthy'))
	  AND (NOT node_candidates.idle_only OR (l.pods = coalesce(b.pods, 0) AND h.node_id IS NULL));
END
$$;
COMMENT ON FUNCTION rpq_store.node_candidates(bigint, bigint, boolean, boolean) IS
'the nodes of one type that a pool could give: amount of the primary resource, whether whole machines, whether '
'nothing but what borrows stands on it, what is used. receiving: for a pool that takes only nodes that take work';

-- Greedy, in the order of preference; when the amounts do not come out (nodes of one type may differ), the largest
-- first.
CREATE OR REPLACE FUNCTION rpq_store.choose_nodes(pool_id bigint, type_id bigint, wanted numeric, by_count boolean,
	receiving boolean, whole boolean, evacuate boolean, excluded bigint[], OUT picked bigint[], OUT busy bigint[],
	OUT idle_amount numeric, OUT taken numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	passes boolean[] := CASE WHEN choose_nodes.evacuate THEN ARRAY[false, true] ELSE ARRAY[false] END;
	largest_first boolean;
	with_busy boolean;
	node record;
BEGIN
	FOREACH with_busy IN ARRAY passes LOOP
		FOREACH largest_first IN ARRAY '{false,true}'::boolean[] LOOP
			choose_nodes.picked := '{}';
			choose_nodes.busy := '{}';
			choose_nodes.taken := 0;
			CONTINUE WHEN choose_nodes.wanted = 0 AND largest_first;
			FOR node IN
				SELECT c.node_id, c.idle, CASE WHEN choose_nodes.by_count THEN 1 ELSE c.amount END AS amount
				FROM rpq_store.node_candidates(choose_nodes.pool_id, choose_nodes.type_id, choose_nodes.receiving,
					NOT with_busy) AS c
				WHERE (c.whole OR NOT choose_nodes.whole)
				  AND c.node_id <> ALL (choose_nodes.excluded)
				ORDER BY c.idle DESC, CASE WHEN largest_first THEN -c.amount END, c.idle AND c.takes_work, c.used,
					c.pods, CASE WHEN c.idle THEN c.name END COLLATE "C", c.name COLLATE "C" DESC
			LOOP
				EXIT WHEN choose_nodes.taken = choose_nodes.wanted;
				CONTINUE WHEN choose_nodes.taken + node.amount > choose_nodes.wanted;
				choose_nodes.picked := choose_nodes.picked || node.node_id;
				choose_nodes.taken := choose_nodes.taken + node.amount;
				IF NOT node.idle THEN
					choose_nodes.busy := choose_nodes.busy || node.node_id;
				END IF;
			END LOOP;
			choose_nodes.idle_amount := coalesce(choose_nodes.idle_amount, choose_nodes.taken);
			IF choose_nodes.taken = choose_nodes.wanted THEN
				RETURN;
			END IF;
		END LOOP;
	END LOOP;
	choose_nodes.picked := NULL;
END
$$;
COMMENT ON FUNCTION rpq_store.choose_nodes(bigint, bigint, numeric, boolean, boolean, boolean, boolean, bigint[]) IS
'nodes of a pool whose amounts of the primary resource, or whose number, sum exactly to what is wanted: idle ones '
'first, then with evacuate the least used. picked: NULL when they do not; busy: those of them that hold '
'something; idle_amount: what idle ones came to; excluded: nodes that stay; whole: whole machines alone';

-- A node whose pods have no place elsewhere stays, and the next one takes its turn; the room that all picked nodes ask
-- for at once is counted down by the planner.  Each try is a plan under the turn, so there are few: none after two in
-- which no picked node could be emptied.
CREATE OR REPLACE FUNCTION rpq_store.pick_amount(pool_id bigint, type_id bigint, wanted numeric, by_count boolean,
	receiving boolean, whole boolean, evacuate boolean, OUT picked bigint[], OUT busy bigint[], OUT idle_amount numeric,
	OUT unplaced bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	choice record;
	excluded bigint[] := ARRAY[]::bigint[];
	stuck bigint[];
	futile int := 0;
BEGIN
	FOR i IN 1 .. 5 LOOP
		choice := rpq_store.choose_nodes(pick_amount.pool_id, pick_amount.type_id, pick_amount.wanted,
			pick_amount.by_count, pick_amount.receiving, pick_amount.whole, pick_amount.evacuate, excluded);
		pick_amount.idle_amount := coalesce(pick_amount.idle_amount, choice.idle_amount);
		pick_amount.picked := choice.picked;
		pick_amount.busy := choice.busy;
		stuck := NULL;
		IF choice.picked IS NOT NULL AND choice.busy <> '{}' THEN
			SELECT array_agg(DISTINCT m.from_node_id) INTO stuck
			FROM rpq_store.plan_moves(pick_amount.pool_id, choice.picked) AS m WHERE m.to_node_id IS NULL;
		END IF;
		EXIT WHEN stuck IS NULL;
		pick_amount.unplaced := coalesce(pick_amount.unplaced, choice.picked);
		pick_amount.picked := NULL;
		futile := CASE WHEN stuck @> choice.busy THEN futile + 1 ELSE 0 END;
		EXIT WHEN futile = 2;
		excluded := excluded || stuck;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.pick_amount(bigint, bigint, numeric, boolean, boolean, boolean, boolean) IS
'what choose_nodes chooses, but with evacuate only nodes whose pods have a place elsewhere in the pool. picked: '
'NULL when there are too few; unplaced: a choice that would have done but for its pods';

CREATE OR REPLACE FUNCTION rpq_store.refuse_source(source_id bigint, type_id bigint, wanted text, has text,
	hint text DEFAULT 'Ask for less, add nodes, or name another source.') RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	RAISE EXCEPTION USING ERRCODE = 'RQ005', MESSAGE = 'the source has too few whole nodes available',
		DETAIL = format('%s of instance type "%s" %s wanted; %s has %s.', refuse_source.wanted,
			(SELECT t.name FROM rpq_store.instance_type AS t WHERE t.type_id = refuse_source.type_id),
			CASE WHEN starts_with(refuse_source.wanted, '1 ') THEN 'is' ELSE 'are' END,
			coalesce((SELECT format('pool "%s"', p.name) FROM rpq_store.pool AS p
				WHERE p.pool_id = refuse_source.source_id), 'no shared pool'), refuse_source.has),
		HINT = refuse_source.hint;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_source(bigint, bigint, text, text, text) IS
'raises RQ005 with what is wanted and what the source has';

CREATE OR REPLACE FUNCTION rpq_store.pick_by_quota(source_id bigint, type_id bigint, quota rpq.resources)
RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	main_key text := rpq_store.primary_resource((SELECT t.machine_unit FROM rpq_store.instance_type AS t
												 WHERE t.type_id = pick_by_quota.type_id));
	choice record;
BEGIN
	choice := rpq_store.pick_amount(pick_by_quota.source_id, pick_by_quota.type_id,
		pick_by_quota.quota OPERATOR(rpq.->) main_key, false, true, true, false);
	IF choice.picked IS NULL THEN
		PERFORM rpq_store.refuse_source(pick_by_quota.source_id, pick_by_quota.type_id, pick_by_quota.quota::text,
			'idle nodes for ' || main_key || '=' || choice.idle_amount);
	END IF;
	RETURN choice.picked;
END
$$;
COMMENT ON FUNCTION rpq_store.pick_by_quota(bigint, bigint, rpq.resources) IS
'idle nodes of the type in the source whose primary resource sums exactly to the quota; RQ005 when there are too '
'few. The caller holds the source''s turn and has folded';

-- A caller sees the nodes that it names.  Where they went until the operation ran is read by whoever reads its error.
CREATE OR REPLACE FUNCTION rpq_store.whereabouts(place rpq_store.pool) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN ($1).type = 'shared' OR current_setting('rpq.action') IS DISTINCT FROM 'run_operations'
		THEN format('in pool "%s"', ($1).name) ELSE 'in another pool' END
$$;
COMMENT ON FUNCTION rpq_store.whereabouts(rpq_store.pool) IS
'where a node is, for an errdetail; a pool that may be hidden from who reads the operation''s error is not named';

CREATE OR REPLACE FUNCTION rpq_store.check_named_nodes(source_id bigint, nodes bigint[], receiving boolean DEFAULT true,
	whole boolean DEFAULT true, evacuate boolean DEFAULT false, named boolean DEFAULT false, OUT busy bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	partial text;
	away text;
	gone boolean;
BEGIN
	SELECT string_agg(format('%s (%s)', n.name, n.capacity), ', ' ORDER BY n.name)
			FILTER (WHERE check_named_nodes.whole AND rpq_store.machines(n.capacity, t.machine_unit) IS NULL),
		array_agg(n.node_id ORDER BY n.name)
			FILTER (WHERE l.pods > (SELECT count(*) FROM rpq_store.borrowed_pod AS b WHERE b.node_id = n.node_id)
				OR EXISTS (SELECT FROM rpq_store.hold AS h WHERE h.node_id = n.node_id)),
		string_agg(format('%s (%s)', n.name, CASE WHEN n.pool_id IS DISTINCT FROM check_named_nodes.source_id
				THEN rpq_store.whereabouts(p) WHEN n.draining OR n.removing THEN 'draining'
				ELSE 'takes no work' END), ', ' ORDER BY n.name)
			FILTER (WHERE n.pool_id IS DISTINCT FROM check_named_nodes.source_id OR n.draining OR n.removing
				OR (check_named_nodes.receiving AND NOT (n.schedulable AND n.health = 'healthy'))),
		count(*) < cardinality(check_named_nodes.nodes)
	INTO partial, check_named_nodes.busy, away, gone
	FROM rpq_store.node AS n
	JOIN rpq_store.node_load AS l ON l.node_id = n.node_id
	JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	WHERE n.node_id = ANY (check_named_nodes.nodes);
	IF partial IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ003', MESSAGE = 'nodes are no whole number of machine units',
			DETAIL = partial;
	ELSIF check_named_nodes.busy IS NOT NULL AND NOT check_named_nodes.evacuate THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are in use',
			DETAIL = rpq_store.describe_busy(check_named_nodes.busy, check_named_nodes.named);
	ELSIF away IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ005', MESSAGE = 'nodes are not available in the source', DETAIL = away;
	ELSIF gone THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ005', MESSAGE = 'nodes are not available in the source',
			DETAIL = 'Nodes that were named have been removed.';
	END IF;
	check_named_nodes.busy := coalesce(check_named_nodes.busy, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.check_named_nodes(bigint, bigint[], boolean, boolean, boolean, boolean) IS
'refuses nodes that are no whole machines (RQ003, with whole), hold something (RQ006, without evacuate), or are '
'not in the source, draining, or, for a pool that is receiving them, take no work (RQ005); returns those that '
'hold something. named: the errdetail may name workloads';

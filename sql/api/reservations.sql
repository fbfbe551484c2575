-- Reservations over several pools: whether what pools hold can serve what policies are promised.
--
-- Reads policy, queue, profile_pool, pool_capacity and node; writes nothing.  Who changes one of them holds the turns
-- of the whole connected set, and asks before the change and after it, in the same transaction.

CREATE OR REPLACE FUNCTION rpq_store.short_policies(policies bigint[], reservations rpq.resources[],
	reaching bigint[], reached bigint[], pools bigint[], supplies rpq.resources[], touched bigint[])
RETURNS TABLE (resource text, short bigint[], wanted rpq.resources, reachable rpq.resources)
LANGUAGE c IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'rpq_short_policies';
COMMENT ON FUNCTION rpq_store.short_policies(bigint[], rpq.resources[], bigint[], bigint[], bigint[], rpq.resources[],
	bigint[]) IS
'a row for each resource of which a flow from policies (with their reservations) through the pools that each reaches '
'(reaching, reached: pairs) to what pools hold (supplies) does not carry every reservation: the policies of the '
'minimum cut, what they reserve together, and what the pools that they reach hold. touched: only what is connected '
'with these pools counts; NULL: everything';

CREATE OR REPLACE FUNCTION rpq_store.pool_supplies(pools bigint[], usable boolean)
RETURNS TABLE (pool_id bigint, supply rpq.resources)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	-- of the nodes only those are read that lack something
	SELECT p.pool_id, coalesce((SELECT rpq.sum(c.capacity OPERATOR(rpq.*) c.nodes::numeric)
								FROM rpq_store.pool_capacity AS c WHERE c.pool_id = p.pool_id), '')
		OPERATOR(rpq.-) coalesce(CASE WHEN $2 THEN (
			SELECT rpq.sum(CASE WHEN n.health = 'unhealthy' THEN n.capacity
								ELSE n.capacity OPERATOR(rpq.-) n.usable END)
			FROM rpq_store.node AS n
			WHERE n.pool_id = p.pool_id AND NOT n.removing
			  AND (n.health = 'unhealthy' OR n.capacity OPERATOR(rpq.<>) n.usable)) END, '')
	FROM rpq_store.pool AS p
	WHERE p.pool_id = ANY ($1) AND p.status <> 'deleted'
$$;
COMMENT ON FUNCTION rpq_store.pool_supplies(bigint[], boolean) IS
'what pools hold; usable: without nodes that are unhealthy, and what machines do not have at present';

CREATE OR REPLACE FUNCTION rpq_store.shortages(touched bigint[], usable boolean DEFAULT false,
	changing bigint[] DEFAULT '{}', changes rpq.resources[] DEFAULT '{}') RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	WITH promised AS MATERIALIZED (
		SELECT y.policy_id, y.reservation FROM rpq_store.policy AS y
		WHERE y.deleted_at IS NULL AND y.reservation OPERATOR(rpq.<>) ''
		  AND ($1 IS NULL
			OR y.tenant_id IN (SELECT p.tenant_id FROM rpq_store.pool AS p WHERE p.pool_id = ANY ($1)))
		  AND EXISTS (SELECT FROM rpq_store.queue AS q WHERE q.policy_id = y.policy_id AND q.deleted_at IS NULL)),
	way AS MATERIALIZED (
		SELECT DISTINCT q.policy_id, l.pool_id
		FROM promised AS y
		JOIN rpq_store.queue AS q ON q.policy_id = y.policy_id AND q.deleted_at IS NULL
		JOIN rpq_store.profile_pool AS l ON l.profile_id = q.profile_id AND l.state = 'provisioned'),
	held AS MATERIALIZED (
		SELECT s.pool_id, s.supply OPERATOR(rpq.+) coalesce((
			SELECT rpq.sum(c.amount) FROM unnest($3, $4) AS c (pool_id, amount)
			WHERE c.pool_id = s.pool_id), '') AS supply
		FROM rpq_store.pool_supplies(ARRAY(SELECT DISTINCT w.pool_id FROM way AS w), $2) AS s)
	SELECT coalesce(jsonb_agg(jsonb_build_object('resource', s.resource, 'policies', s.short, 'wanted', s.wanted::text,
			'reachable', s.reachable::text) ORDER BY s.resource), '[]')
	FROM rpq_store.short_policies(
		ARRAY(SELECT y.policy_id FROM promised AS y ORDER BY y.policy_id),
		ARRAY(SELECT y.reservation FROM promised AS y ORDER BY y.policy_id),
		ARRAY(SELECT w.policy_id FROM way AS w ORDER BY w.policy_id, w.pool_id),
		ARRAY(SELECT w.pool_id FROM way AS w ORDER BY w.policy_id, w.pool_id),
		ARRAY(SELECT h.pool_id FROM held AS h ORDER BY h.pool_id),
		ARRAY(SELECT h.supply FROM held AS h ORDER BY h.pool_id), $1) AS s
$$;
COMMENT ON FUNCTION rpq_store.shortages(bigint[], boolean, bigint[], rpq.resources[]) IS
'what is promised and cannot be served, in the connected sets of these pools (NULL: anywhere): an object for each '
'resource, with the policies of the minimum cut and both figures. usable: of nodes that work, else of all that pools '
'hold. changing, changes: as it would be if these pools held so much more, or less';

CREATE OR REPLACE FUNCTION rpq_store.unmet_policies() RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(DISTINCT p.id::bigint), '{}')
	FROM jsonb_array_elements(rpq_store.shortages(NULL, true)) AS s
	CROSS JOIN jsonb_array_elements_text(s -> 'policies') AS p (id)
$$;
COMMENT ON FUNCTION rpq_store.unmet_policies() IS
'the policies whose reservations cannot be served by the nodes that work in the pools that they reach';

-- Where a promise was broken by force, a change that makes nothing worse is not refused.  Pool admins see no policies,
-- and read the errors of operations: names are for who administers the tenant and is refused in person.
CREATE OR REPLACE FUNCTION rpq_store.check_reservations(before jsonb, after jsonb) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	told text;
	seen bigint[] := CASE WHEN current_setting('rpq.action', true) IS DISTINCT FROM 'run_operations'
		THEN (SELECT s.tenants FROM rpq_store.sight() AS s) ELSE '{}' END;
BEGIN
	SELECT string_agg(format('%s %s %s in all, the pools that can be reached hold %s.',
		(SELECT CASE WHEN NOT bool_and(y.tenant_id = ANY (seen)) THEN
					count(*) || CASE WHEN count(*) = 1 THEN ' policy' ELSE ' policies' END
				ELSE CASE WHEN count(*) = 1 THEN 'Policy ' ELSE 'Policies ' END
					|| string_agg(format('"%s"', y.name), ', ' ORDER BY y.name) END
		 FROM rpq_store.policy AS y
		 WHERE y.policy_id IN (SELECT i.id::bigint FROM jsonb_array_elements_text(a -> 'policies') AS i (id))),
		CASE WHEN jsonb_array_length(a -> 'policies') = 1 THEN 'reserves' ELSE 'reserve' END,
		a ->> 'wanted', a ->> 'reachable'), ' ' ORDER BY a ->> 'resource') INTO told
	FROM jsonb_array_elements(check_reservations.after) AS a
	WHERE NOT EXISTS (
		SELECT FROM jsonb_array_elements(check_reservations.before) AS b
		WHERE b ->> 'resource' = a ->> 'resource' AND b -> 'policies' @> (a -> 'policies')
		  AND rpq.within((a ->> 'wanted')::rpq.resources OPERATOR(rpq.-) (a ->> 'reachable')::rpq.resources,
			(b ->> 'wanted')::rpq.resources OPERATOR(rpq.-) (b ->> 'reachable')::rpq.resources));
	IF told IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ002', MESSAGE = 'reservations could not be served', DETAIL = told,
			HINT = 'Lower a reservation, link more pools to the profiles, or add machines to the pools first.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_reservations(jsonb, jsonb) IS
'refuses (RQ002) a change after which more is promised than can be served: before and after are what shortages() says. '
'The errdetail names policies that exceed what they reach, with both figures; counts them for who may not see them';

CREATE OR REPLACE FUNCTION rpq_store.check_nodes_leave(nodes bigint[], to_id bigint DEFAULT NULL,
	others bigint[] DEFAULT '{}', others_to bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	losing bigint[];
	pools bigint[];
	amounts rpq.resources[];
BEGIN
	SELECT array_agg(DISTINCT n.pool_id) INTO losing
	FROM rpq_store.node AS n WHERE n.node_id = ANY (check_nodes_leave.nodes || check_nodes_leave.others);
	-- as a rule no policy reaches the pool
	IF losing IS NULL OR NOT EXISTS (
		SELECT FROM rpq_store.profile_pool AS l JOIN rpq_store.queue AS q ON q.profile_id = l.profile_id
		WHERE l.pool_id = ANY (losing) AND l.state = 'provisioned' AND q.deleted_at IS NULL) THEN
		RETURN;
	END IF;
	WITH moved AS (
		SELECT n.pool_id, CASE WHEN n.node_id = ANY (check_nodes_leave.nodes) THEN check_nodes_leave.to_id
			ELSE check_nodes_leave.others_to END AS to_id, n.capacity
		FROM rpq_store.node AS n
		WHERE n.node_id = ANY (check_nodes_leave.nodes || check_nodes_leave.others) AND NOT n.removing)
	SELECT array_agg(c.pool_id), array_agg(c.amount) INTO pools, amounts
	FROM (SELECT m.pool_id, OPERATOR(rpq.-) rpq.sum(m.capacity) FROM moved AS m GROUP BY m.pool_id
		  UNION ALL
		  SELECT m.to_id, rpq.sum(m.capacity) FROM moved AS m WHERE m.to_id IS NOT NULL GROUP BY m.to_id)
		AS c (pool_id, amount);
	PERFORM rpq_store.check_reservations(rpq_store.shortages(losing),
		rpq_store.shortages(losing, false, pools, amounts));
END
$$;
COMMENT ON FUNCTION rpq_store.check_nodes_leave(bigint[], bigint, bigint[], bigint) IS
'refuses (RQ002) to take nodes out of their pools into another one (NULL: into none), and others into a second one, '
'when reservations could not be served then. The caller holds the turns';

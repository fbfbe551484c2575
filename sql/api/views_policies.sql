-- Views of policies, profiles and queues.  Administrators see their tenants'; others what their groups are given.

CREATE OR REPLACE FUNCTION rpq_store.unmet_part(reservation rpq.resources, used rpq.resources) RETURNS rpq.resources
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_object_agg(a.key, CASE WHEN a.value LIKE '-%' THEN '0' ELSE a.value END), '{}')::rpq.resources
	FROM jsonb_each_text(($1 OPERATOR(rpq.-) $2)::jsonb) AS a WHERE $1::jsonb ? a.key
$$;
COMMENT ON FUNCTION rpq_store.unmet_part(rpq.resources, rpq.resources) IS
	'what is not used of a reservation, by its keys, never below zero';

CREATE OR REPLACE VIEW rpq.policies WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT y.policy_id, t.name AS tenant, y.name, y.description, g.name AS user_group,
	   ARRAY(SELECT a.name FROM rpq_store.group_account x JOIN rpq_store.account a ON a.account_id = x.account_id
			  WHERE x.group_id = y.group_id
				AND (a.account_id = (SELECT account_id FROM me)
					 OR y.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]))
			  ORDER BY a.name) AS users,
	   y.reservation, y.usage_limit, y.lending,
	   coalesce(u.used, '') AS used,
	   rpq_store.unmet_part(y.reservation, coalesce(u.used, '')) AS unmet_reservation,
	   CASE WHEN EXISTS (SELECT FROM rpq_store.queue q WHERE q.policy_id = y.policy_id AND q.deleted_at IS NULL)
			THEN y.policy_id <> ALL ((SELECT rpq_store.unmet_policies())::bigint[]) END AS reservation_met,
	   ARRAY(SELECT q.name FROM rpq_store.queue q WHERE q.policy_id = y.policy_id AND q.deleted_at IS NULL
			  ORDER BY q.name) AS queues,
	   y.created_at
  FROM rpq_store.policy y
  JOIN rpq_store.tenant t ON t.tenant_id = y.tenant_id
  JOIN rpq_store.user_group g ON g.group_id = y.group_id
  LEFT JOIN (SELECT policy_id, rpq.sum(amount) AS used FROM rpq_store.usage_now
			  WHERE policy_id <> 0 GROUP BY policy_id) u
	ON u.policy_id = y.policy_id
 WHERE y.deleted_at IS NULL
   AND (y.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
		OR y.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
						   WHERE x.account_id = (SELECT account_id FROM me)));
COMMENT ON VIEW rpq.policies IS 'policies: the tenant''s for its administrators, for others those of their groups';
COMMENT ON COLUMN rpq.policies.policy_id IS 'id of the policy';
COMMENT ON COLUMN rpq.policies.tenant IS 'tenant of the policy';
COMMENT ON COLUMN rpq.policies.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.policies.description IS 'free text';
COMMENT ON COLUMN rpq.policies.user_group IS 'group that it is for';
COMMENT ON COLUMN rpq.policies.users IS
	'accounts of the group, by name; those who do not administer the tenant see themselves alone';
COMMENT ON COLUMN rpq.policies.reservation IS 'what is kept available for the group';
COMMENT ON COLUMN rpq.policies.usage_limit IS 'the most that its queues may hold at once; NULL: no limit';
COMMENT ON COLUMN rpq.policies.lending IS 'lend or hold: whether others may use the unmet part of the reservation';
COMMENT ON COLUMN rpq.policies.used IS 'what workloads charged to it hold';
COMMENT ON COLUMN rpq.policies.unmet_reservation IS 'reservation - used, by key, never below zero';
COMMENT ON COLUMN rpq.policies.reservation_met IS
	'what works in the pools that its profiles reach can serve it beside the others: false for each of a set of '
	'policies that exceed what they reach; NULL: no profile is connected';
COMMENT ON COLUMN rpq.policies.queues IS 'its queues, by name';
COMMENT ON COLUMN rpq.policies.created_at IS 'when it was created, by the true clock';

-- What a queue holds and how much waits in it; private to the views below.
CREATE OR REPLACE VIEW rpq_store.queue_now AS
SELECT q.queue_id, q.policy_id, q.profile_id, q.tenant_id, q.name, y.name AS policy, y.group_id, f.name AS profile,
	   f.provisioned AS resources, coalesce(w.waiting, 0) AS queued, coalesce(r.running, 0) AS running
  FROM rpq_store.queue q
  JOIN rpq_store.policy y ON y.policy_id = q.policy_id
  JOIN rpq_store.profile f ON f.profile_id = q.profile_id
  LEFT JOIN rpq_store.waiting_now w ON w.scope_id = q.queue_id
  LEFT JOIN (SELECT x.scope_id, count(*) AS running FROM rpq_store.workload x
			  WHERE x.policy_id IS NOT NULL AND x.status IN ('starting', 'running')	-- an index of its own
			  GROUP BY x.scope_id) r ON r.scope_id = q.queue_id
 WHERE q.deleted_at IS NULL;
COMMENT ON VIEW rpq_store.queue_now IS 'queues with their names and figures, without filter';

CREATE OR REPLACE VIEW rpq.policy_profiles WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT q.queue_id AS policy_profile_id, q.policy, q.profile, q.name AS queue, q.resources, q.queued, q.running,
	   CASE WHEN q.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
			THEN ARRAY(SELECT p.name FROM rpq_store.profile_pool l JOIN rpq_store.pool p ON p.pool_id = l.pool_id
						 AND p.status <> 'deleted'
						WHERE l.profile_id = q.profile_id AND l.state = 'provisioned' ORDER BY l.rank) END AS pools
  FROM rpq_store.queue_now q
 WHERE q.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR q.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
					   WHERE x.account_id = (SELECT account_id FROM me));
COMMENT ON VIEW rpq.policy_profiles IS 'cards of policies: each profile that is connected to one';
COMMENT ON COLUMN rpq.policy_profiles.policy_profile_id IS 'id of the connection: of its queue';
COMMENT ON COLUMN rpq.policy_profiles.policy IS 'name of the policy';
COMMENT ON COLUMN rpq.policy_profiles.profile IS 'name of the profile';
COMMENT ON COLUMN rpq.policy_profiles.queue IS 'name of the queue';
COMMENT ON COLUMN rpq.policy_profiles.resources IS 'what each replica of a workload of the queue takes';
COMMENT ON COLUMN rpq.policy_profiles.queued IS 'workloads that wait in the queue';
COMMENT ON COLUMN rpq.policy_profiles.running IS 'workloads from it that are placed: starting and running';
COMMENT ON COLUMN rpq.policy_profiles.pools IS
	'pools in routing order; NULL for those who do not administer the tenant';

CREATE OR REPLACE VIEW rpq.profiles WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT f.profile_id, t.name AS tenant, f.name, f.saved AS resources,
	   ARRAY(SELECT p.name FROM rpq_store.profile_pool l JOIN rpq_store.pool p ON p.pool_id = l.pool_id
			  WHERE l.profile_id = f.profile_id AND l.state = 'saved' AND p.status <> 'deleted'
			  ORDER BY l.rank) AS pools,
	   coalesce(f.provisioned OPERATOR(rpq.=) f.saved, false)
	   AND rpq_store.profile_pools(f.profile_id, 'saved') = rpq_store.profile_pools(f.profile_id, 'provisioned')
		   AS provisioned,
	   f.created_at
  FROM rpq_store.profile f
  JOIN rpq_store.tenant t ON t.tenant_id = f.tenant_id
 WHERE f.deleted_at IS NULL AND f.tenant_id = ANY ((SELECT tenants FROM me)::bigint[]);
COMMENT ON VIEW rpq.profiles IS
	'profiles as they are saved, for administrators of the tenant; others see the sizes of their queues in '
	'rpq.queues';
COMMENT ON COLUMN rpq.profiles.profile_id IS 'id of the profile';
COMMENT ON COLUMN rpq.profiles.tenant IS 'tenant of the profile';
COMMENT ON COLUMN rpq.profiles.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.profiles.resources IS 'job size as saved';
COMMENT ON COLUMN rpq.profiles.pools IS 'pools in routing order as saved';
COMMENT ON COLUMN rpq.profiles.provisioned IS 'the saved state is in force';
COMMENT ON COLUMN rpq.profiles.created_at IS 'when it was created, by the true clock';

CREATE OR REPLACE VIEW rpq.queues WITH (security_barrier) AS
WITH me AS MATERIALIZED (SELECT s.* FROM rpq_store.sight() s)
SELECT q.queue_id, t.name AS tenant, q.name, q.policy, q.profile, q.resources, q.queued, q.running
  FROM rpq_store.queue_now q
  JOIN rpq_store.tenant t ON t.tenant_id = q.tenant_id
 WHERE q.tenant_id = ANY ((SELECT tenants FROM me)::bigint[])
	OR q.group_id IN (SELECT x.group_id FROM rpq_store.group_account x
					   WHERE x.account_id = (SELECT account_id FROM me));
COMMENT ON VIEW rpq.queues IS 'queues that one may use; the tenant''s for its administrators';
COMMENT ON COLUMN rpq.queues.queue_id IS 'id of the queue';
COMMENT ON COLUMN rpq.queues.tenant IS 'tenant of the queue';
COMMENT ON COLUMN rpq.queues.name IS 'name, unique in the tenant';
COMMENT ON COLUMN rpq.queues.policy IS 'policy that its work is charged to';
COMMENT ON COLUMN rpq.queues.profile IS 'profile that sets the size of its work';
COMMENT ON COLUMN rpq.queues.resources IS 'what each replica of a workload of the queue takes';
COMMENT ON COLUMN rpq.queues.queued IS 'workloads that wait in it';
COMMENT ON COLUMN rpq.queues.running IS 'workloads from it that are placed: starting and running';

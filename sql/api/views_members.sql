-- Members and their personal quotas.  rpq.members may be written (writable.sql): its rows come out of a WITH query,
-- which no SELECT ... FOR UPDATE reaches, so that no reader locks what administrators change.

-- The rows: members; accounts without a setting of their own that use a shared pool; and for each of both its quotas
-- for one instance type, set for it or by default.
CREATE OR REPLACE VIEW rpq_store.member_row AS
WITH who AS (
	SELECT m.pool_id, m.account_id, m.member_id, m.max_priority, m.guarantee
	  FROM rpq_store.member m
	 UNION ALL
	SELECT u.pool_id, u.account_id, NULL, 100, false
	  FROM (SELECT x.pool_id, x.account_id
			  FROM rpq_store.usage_now x JOIN rpq_store.pool s ON s.pool_id = x.pool_id AND s.type = 'shared'
			 WHERE x.policy_id = 0
			 GROUP BY x.pool_id, x.account_id
			HAVING rpq.sum(x.amount) OPERATOR(rpq.<>) (rpq.sum(x.amount) OPERATOR(rpq.*) 0::numeric)) u
	 WHERE NOT EXISTS (SELECT FROM rpq_store.member m WHERE m.pool_id = u.pool_id AND m.account_id = u.account_id))
SELECT w.pool_id, w.account_id, w.member_id, w.max_priority, w.guarantee, 0::bigint AS type_id,
	   q.quota AS own_quota, p.user_default_quota AS default_quota
  FROM who w
  JOIN rpq_store.pool p ON p.pool_id = w.pool_id
  LEFT JOIN rpq_store.member_quota q ON q.pool_id = w.pool_id AND q.account_id = w.account_id AND q.type_id = 0
 UNION ALL
SELECT w.pool_id, w.account_id, w.member_id, w.max_priority, w.guarantee, i.type_id, q.quota, i.user_default_quota
  FROM who w
  JOIN rpq_store.pool_instance i ON i.pool_id = w.pool_id
  LEFT JOIN rpq_store.member_quota q ON q.pool_id = w.pool_id AND q.account_id = w.account_id AND q.type_id = i.type_id
 WHERE q.quota IS NOT NULL OR i.user_default_quota IS NOT NULL;
COMMENT ON VIEW rpq_store.member_row IS
	'rows of rpq.members, without figures and filter; type_id 0 is the pool as a whole';

CREATE OR REPLACE VIEW rpq.members WITH (security_barrier) AS
WITH seen AS (
	SELECT r.member_id, r.pool_id, p.name AS pool, r.account_id, a.name AS account, t.name AS instance_type,
		   CASE WHEN r.own_quota IS NULL THEN 'default' ELSE 'custom' END AS config_mode,
		   coalesce(r.own_quota, r.default_quota, '') AS quota,
		   coalesce(CASE WHEN r.type_id = 0 THEN w.used ELSE i.used END, '') AS used,
		   r.max_priority, r.guarantee, n.name AS tenant
	  FROM rpq_store.member_row r
	  JOIN rpq_store.pool p ON p.pool_id = r.pool_id
	  JOIN rpq_store.tenant n ON n.tenant_id = p.tenant_id
	  JOIN rpq_store.account a ON a.account_id = r.account_id
	  LEFT JOIN rpq_store.instance_type t ON t.type_id = r.type_id
	  LEFT JOIN (SELECT pool_id, account_id, rpq.sum(amount) AS used
				   FROM rpq_store.usage_now WHERE policy_id = 0 GROUP BY pool_id, account_id) w
		ON w.pool_id = r.pool_id AND w.account_id = r.account_id
	  LEFT JOIN (SELECT pool_id, account_id, type_id, rpq.sum(amount) AS used
				   FROM rpq_store.usage_now WHERE policy_id = 0 GROUP BY pool_id, account_id, type_id) i
		ON i.pool_id = r.pool_id AND i.account_id = r.account_id AND i.type_id = r.type_id
	 WHERE p.status <> 'deleted'
	   AND (r.account_id = (SELECT rpq_store.my_account())
			OR r.pool_id = ANY ((SELECT rpq_store.administered_pools())::bigint[])))
SELECT s.member_id, s.pool_id, s.pool, s.account_id, s.account, s.instance_type, s.config_mode, s.quota, s.used,
	   -- what the quota leaves, by the quota's keys alone
	   (SELECT coalesce(jsonb_object_agg(k.key, v.rest -> k.key), '{}')::rpq.resources
		  FROM (SELECT rpq_store.at_least_zero(s.quota OPERATOR(rpq.-) s.used)::jsonb) v(rest),
			   jsonb_object_keys(s.quota::jsonb) k(key)) AS available,
	   s.max_priority, s.guarantee, s.tenant
  FROM seen s;

COMMENT ON VIEW rpq.members IS
	'members of pools, with a row for the pool as a whole and one for each of their quotas for one instance type; '
	'in a shared pool also accounts without a setting that use it. Administrators of the pool see all, others '
	'themselves. UPDATE changes quota, max_priority and guarantee as rpq.update_members does; a locking clause '
	'locks nothing';
COMMENT ON COLUMN rpq.members.member_id IS
	'id of the membership; NULL for an account that uses a shared pool without a setting of its own';
COMMENT ON COLUMN rpq.members.pool_id IS 'id of the pool';
COMMENT ON COLUMN rpq.members.pool IS 'name of the pool';
COMMENT ON COLUMN rpq.members.account_id IS 'id of the account';
COMMENT ON COLUMN rpq.members.account IS 'name of the account';
COMMENT ON COLUMN rpq.members.instance_type IS 'instance type that the quota is for; NULL: the pool as a whole';
COMMENT ON COLUMN rpq.members.config_mode IS
	'default: the quota follows the pool''s user default quota; custom: it is the member''s own';
COMMENT ON COLUMN rpq.members.quota IS
	'personal quota in force; no keys: unlimited. UPDATE to NULL goes back to the default';
COMMENT ON COLUMN rpq.members.used IS
	'what the account''s direct submissions hold in the pool (on the instance type); work through queues is '
	'charged to its policy';
COMMENT ON COLUMN rpq.members.available IS
	'quota - used, by the quota''s keys, never below zero; the pool may have less';
COMMENT ON COLUMN rpq.members.max_priority IS 'highest priority (0 to 100) that the member may submit with';
COMMENT ON COLUMN rpq.members.guarantee IS 'the member may submit workloads that are never preempted';
COMMENT ON COLUMN rpq.members.tenant IS 'tenant of the pool';

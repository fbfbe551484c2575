-- Members of pools, their personal quotas, and lists of them in and out.
--
-- Writes member and member_quota under the turn of the pool.  A row of member_quota is config mode custom; without one
-- the default of the pool (or of its instance type) is looked up, and never copied.

CREATE OR REPLACE VIEW rpq_store.effective_quota AS
SELECT m.pool_id, m.account_id, t.type_id,
	CASE WHEN q.quota IS NULL THEN 'default' ELSE 'custom' END AS config_mode,
	coalesce(q.quota, t.user_default_quota, CAST('' AS rpq.resources)) AS quota
FROM (SELECT d.pool_id, d.account_id FROM rpq_store.member AS d
	  UNION ALL
	  SELECT p.pool_id, a.account_id
	  FROM rpq_store.pool AS p
	  JOIN rpq_store.account AS a ON a.tenant_id = p.tenant_id AND a.deleted_at IS NULL
	  WHERE p.type = 'shared' AND p.open AND p.status <> 'deleted'
		AND NOT EXISTS (SELECT FROM rpq_store.member AS x
						WHERE x.pool_id = p.pool_id AND x.account_id = a.account_id)) AS m
JOIN (SELECT p.pool_id, CAST(0 AS bigint) AS type_id, p.user_default_quota FROM rpq_store.pool AS p
	  UNION ALL
	  SELECT i.pool_id, i.type_id, i.user_default_quota FROM rpq_store.pool_instance AS i) AS t ON t.pool_id = m.pool_id
LEFT JOIN rpq_store.member_quota AS q
	ON q.pool_id = m.pool_id AND q.account_id = m.account_id AND q.type_id = t.type_id
WHERE t.type_id = 0 OR q.quota IS NOT NULL OR t.user_default_quota IS NOT NULL;
COMMENT ON VIEW rpq_store.effective_quota IS
'the personal quotas in force: of members, and in an open shared pool of every account of the tenant';
COMMENT ON COLUMN rpq_store.effective_quota.pool_id IS 'the pool';
COMMENT ON COLUMN rpq_store.effective_quota.account_id IS 'the account';
COMMENT ON COLUMN rpq_store.effective_quota.type_id IS 'the instance type, 0 for the pool as a whole';
COMMENT ON COLUMN rpq_store.effective_quota.config_mode IS
'default (follows the pool''s default) or custom (its own)';
COMMENT ON COLUMN rpq_store.effective_quota.quota IS 'what holds now; a key that it lacks is not limited';

CREATE OR REPLACE FUNCTION rpq_store.member_settings(pool_id bigint, account_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('max_priority', m.max_priority, 'guarantee', m.guarantee,
			'config_mode', CASE WHEN q.quota IS NULL THEN 'default' ELSE 'custom' END, 'quota', q.quota::text)
		|| coalesce((SELECT jsonb_build_object('instance_types', jsonb_object_agg(t.name, o.quota::text))
					 FROM rpq_store.member_quota AS o JOIN rpq_store.instance_type AS t ON t.type_id = o.type_id
					 WHERE o.pool_id = m.pool_id AND o.account_id = m.account_id HAVING count(*) > 0), '{}')
	FROM rpq_store.member AS m
	LEFT JOIN rpq_store.member_quota AS q
		ON q.pool_id = m.pool_id AND q.account_id = m.account_id AND q.type_id = 0
	WHERE m.pool_id = $1 AND m.account_id = $2
$$;
COMMENT ON FUNCTION rpq_store.member_settings(bigint, bigint) IS
'a member as the history shows it; NULL for an account that is none';

CREATE OR REPLACE FUNCTION rpq_store.check_members(subject rpq_store.pool, accounts bigint[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	missing text;
BEGIN
	SELECT string_agg(format('"%s"', a.name), ', ' ORDER BY a.name) INTO missing
	FROM rpq_store.account AS a
	WHERE a.account_id = ANY (check_members.accounts)
	  AND NOT EXISTS (SELECT FROM rpq_store.member AS m
					  WHERE m.pool_id = subject.pool_id AND m.account_id = a.account_id);
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('pool "%s" has no member %s', subject.name, missing);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_members(rpq_store.pool, bigint[]) IS
'refuses (42704, listing them) accounts that are no members of the pool';

CREATE OR REPLACE FUNCTION rpq_store.member_pool(pool_id bigint) RETURNS rpq_store.pool
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
BEGIN
	PERFORM rpq_store.take_turns(ARRAY[member_pool.pool_id]);
	SELECT * INTO subject FROM rpq_store.pool AS p WHERE p.pool_id = member_pool.pool_id;
	PERFORM rpq_store.check_pool_status(subject);
	RETURN subject;
END
$$;
COMMENT ON FUNCTION rpq_store.member_pool(bigint) IS
'takes the turn of a pool whose members are to change and returns its row; RQ004 when it is being created or deleted';

-- NULL leaves a setting as it is; config_mode NULL is custom where a quota is given, else what the member has.
CREATE OR REPLACE FUNCTION rpq_store.set_members(action text, subject rpq_store.pool, accounts bigint[],
	quota rpq.resources,
	type_id bigint, max_priority int, guarantee boolean, config_mode text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	before jsonb[];
BEGIN
	before := ARRAY(SELECT rpq_store.member_settings(subject.pool_id, u.id)
					FROM unnest(set_members.accounts) WITH ORDINALITY AS u (id, place) ORDER BY u.place);
	INSERT INTO rpq_store.member AS m (pool_id, account_id, max_priority, guarantee, created_at)
	SELECT subject.pool_id, u.id, coalesce(set_members.max_priority, 100), coalesce(set_members.guarantee, false),
		rpq.now()
	FROM unnest(set_members.accounts) AS u (id)
	ON CONFLICT (pool_id, account_id) DO UPDATE
	SET max_priority = coalesce(set_members.max_priority, m.max_priority),
		guarantee = coalesce(set_members.guarantee, m.guarantee);
	IF set_members.config_mode = 'default' THEN
		DELETE FROM rpq_store.member_quota AS q
		WHERE q.pool_id = subject.pool_id AND q.account_id = ANY (set_members.accounts)
			AND q.type_id = set_members.type_id;
	ELSIF set_members.quota IS NOT NULL THEN
		INSERT INTO rpq_store.member_quota (pool_id, account_id, type_id, quota)
		SELECT subject.pool_id, u.id, set_members.type_id, set_members.quota FROM unnest(set_members.accounts) AS u (id)
		ON CONFLICT (pool_id, account_id, type_id) DO UPDATE SET quota = excluded.quota;
	ELSIF set_members.config_mode = 'custom' THEN
		PERFORM rpq_store.check_custom(subject, set_members.accounts, set_members.type_id);
	END IF;
	PERFORM rpq_store.record(set_members.action, 'member', m.member_id, a.name, subject.tenant_id, subject.pool_id,
		before[u.place], rpq_store.member_settings(subject.pool_id, u.id))
	FROM unnest(set_members.accounts) WITH ORDINALITY AS u (id, place)
	JOIN rpq_store.member AS m ON m.pool_id = subject.pool_id AND m.account_id = u.id
	JOIN rpq_store.account AS a ON a.account_id = u.id
	ORDER BY u.place;
END
$$;
COMMENT ON FUNCTION rpq_store.set_members(text, rpq_store.pool, bigint[], rpq.resources, bigint, int, boolean,
	text) IS
'makes accounts members with these settings, or changes those that are; type_id 0 is the pool as a whole. Each '
'that changes is recorded under the action. The caller holds the pool''s turn';

CREATE OR REPLACE FUNCTION rpq_store.check_custom(subject rpq_store.pool, accounts bigint[], type_id bigint)
RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	without text;
BEGIN
	SELECT string_agg(format('"%s"', a.name), ', ' ORDER BY a.name) INTO without
	FROM rpq_store.account AS a
	WHERE a.account_id = ANY (check_custom.accounts)
	  AND NOT EXISTS (SELECT FROM rpq_store.member_quota AS q
					  WHERE q.pool_id = subject.pool_id AND q.account_id = a.account_id
						AND q.type_id = check_custom.type_id);
	IF without IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'config mode custom needs a quota',
			DETAIL = format('In mode default: %s.', without), HINT = 'An empty quota is no limit.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_custom(rpq_store.pool, bigint[], bigint) IS
'refuses (22023) config mode custom without a quota for members that have none of their own';

CREATE OR REPLACE FUNCTION rpq_store.check_member_settings(subject rpq_store.pool, quota rpq.resources,
	instance_type text,
	max_priority int, guarantee boolean, config_mode text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	type_of bigint := 0;
	wrong text;
BEGIN
	IF check_member_settings.instance_type IS NOT NULL THEN
		type_of := rpq_store.pool_instance_type(subject.pool_id, check_member_settings.instance_type);
	END IF;
	wrong := CASE
		WHEN check_member_settings.max_priority NOT BETWEEN 0 AND 100 THEN 'max_priority must be between 0 and 100'
		WHEN check_member_settings.config_mode NOT IN ('default', 'custom') THEN 'config_mode must be default or custom'
		WHEN check_member_settings.config_mode = 'default' AND check_member_settings.quota IS NOT NULL THEN
			'config_mode default and a quota cannot be given at once'
		WHEN check_member_settings.instance_type IS NOT NULL AND check_member_settings.quota IS NULL
			AND check_member_settings.config_mode IS NULL THEN 'instance_type must come with a quota'
		WHEN check_member_settings.guarantee IS NOT NULL AND subject.pay_as_you_go THEN
			'guarantee cannot be edited in a pay-as-you-go pool'
		END;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = wrong;
	END IF;
	PERFORM rpq_store.check_quota('quota', check_member_settings.quota);
	RETURN type_of;
END
$$;
COMMENT ON FUNCTION rpq_store.check_member_settings(rpq_store.pool, rpq.resources, text, int, boolean, text) IS
'refuses (22023) settings that a member of the pool cannot have; returns the id of the instance type, 0 for the '
'pool as a whole';

CREATE OR REPLACE FUNCTION rpq.authorize(pool text, accounts text[], quota rpq.resources DEFAULT NULL,
	instance_type text DEFAULT NULL, max_priority int DEFAULT NULL, guarantee boolean DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'authorize'
AS $$
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('authorize', authorize.pool);
	ids bigint[];
	type_of bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	ids := rpq_store.find_accounts(subject.tenant_id, authorize.accounts);
	type_of := rpq_store.check_member_settings(subject, authorize.quota, authorize.instance_type,
		authorize.max_priority,
		authorize.guarantee, NULL);
	PERFORM rpq_store.set_members('authorize', subject, ids, authorize.quota, type_of, authorize.max_priority,
		authorize.guarantee, NULL);
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.authorize(text, text[], rpq.resources, text, int, boolean) IS
'makes accounts members of a pool, all or none; for those that are, changes only what is given. quota: a personal '
'quota of its own (config mode custom; '''' is no limit), else the pool''s default is followed; with '
'instance_type for that type of the pool. max_priority: 0 to 100, default 100. guarantee: the right to workloads '
'that are never preempted, default off. Returns the number of accounts named, repeats left out. Errors: 42704 '
'unknown pool, type or accounts (all are listed), RQ004 the pool is being created or deleted, 22023 bad argument, '
'RQ009 fenced. Administrators of the pool';

CREATE OR REPLACE FUNCTION rpq.update_members(pool text, accounts text[], quota rpq.resources DEFAULT NULL,
	instance_type text DEFAULT NULL, max_priority int DEFAULT NULL, guarantee boolean DEFAULT NULL,
	config_mode text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'update_members'
AS $$
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('update_members', update_members.pool);
	ids bigint[];
	type_of bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	ids := rpq_store.find_accounts(subject.tenant_id, update_members.accounts);
	IF NOT (subject.type = 'shared' AND subject.open) THEN
		PERFORM rpq_store.check_members(subject, ids);
	END IF;
	type_of := rpq_store.check_member_settings(subject, update_members.quota, update_members.instance_type,
		update_members.max_priority, update_members.guarantee, update_members.config_mode);
	PERFORM rpq_store.set_members('update_members', subject, ids, update_members.quota, type_of,
		update_members.max_priority, update_members.guarantee, update_members.config_mode);
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.update_members(text, text[], rpq.resources, text, int, boolean, text) IS
'changes what is given for members of a pool, all or none (in an open shared pool for any account of the tenant). '
'quota, instance_type, max_priority, guarantee: as in authorize. config_mode: default (back to the pool''s '
'default) or custom. What runs is never touched; nothing more is admitted above a lower quota. Returns the number '
'of accounts named. Errors: 42704 unknown pool, type, accounts, or accounts that are no members (all are listed), '
'RQ004 the pool is being created or deleted, 22023 bad argument, RQ009 fenced. Administrators of the pool';

CREATE OR REPLACE FUNCTION rpq.deauthorize(pool text, accounts text[], stop boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'deauthorize'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('deauthorize', deauthorize.pool);
	ids bigint[];
	one bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	ids := rpq_store.find_accounts(subject.tenant_id, deauthorize.accounts);
	PERFORM rpq_store.check_members(subject, ids);
	PERFORM rpq_store.record('deauthorize', 'member', m.member_id, a.name, subject.tenant_id, named,
		rpq_store.member_settings(named, m.account_id), NULL)
	FROM rpq_store.member AS m JOIN rpq_store.account AS a ON a.account_id = m.account_id
	WHERE m.pool_id = named AND m.account_id = ANY (ids);
	DELETE FROM rpq_store.member AS m WHERE m.pool_id = named AND m.account_id = ANY (ids);
	FOREACH one IN ARRAY ids LOOP
		-- In an open shared pool the account keeps its right, with the pool's defaults.
		IF NOT (subject.type = 'shared' AND subject.open) THEN
			PERFORM rpq_store.draft_queued(named, one, 'not_authorized',
				format('account was removed from pool %s', subject.name));
		END IF;
		IF deauthorize.stop THEN
			PERFORM rpq_store.stop_placed(named, one, 'not_authorized',
				format('account was removed from pool %s', subject.name));
		END IF;
	END LOOP;
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.deauthorize(text, text[], boolean) IS
'removes members, all or none. What they have queued in the pool becomes draft; what runs goes on to its end, or '
'with stop is stopped (what another session keeps locked, as soon as it lets go). In an open shared pool the '
'accounts are back to its defaults. Returns the number of accounts named. Errors: 42704 unknown pool, accounts, '
'or accounts that are no members (all are listed), RQ004 the pool is being created or deleted, 22023 bad '
'argument, RQ009 fenced. Administrators of the pool';

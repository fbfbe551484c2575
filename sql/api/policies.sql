-- Policies: what is promised to a user group, and the most that it may hold.
--
-- Writes policy, and of workloads that wait in its queues what becomes draft, under the turns of these queues and of
-- the pools that they reach; then the row of the policy, which keeps apart changes of one that has no queue yet.

-- ---- finding, showing -----------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.policy_settings(subject rpq_store.policy) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('name', ($1).name, 'description', ($1).description,
		'user_group', (SELECT g.name FROM rpq_store.user_group AS g WHERE g.group_id = ($1).group_id),
		'reservation', ($1).reservation::text, 'usage_limit', ($1).usage_limit::text, 'lending', ($1).lending)
$$;
COMMENT ON FUNCTION rpq_store.policy_settings(rpq_store.policy) IS
'a policy as the history shows it';

CREATE OR REPLACE FUNCTION rpq_store.policy_queues(policy_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT q.queue_id FROM rpq_store.queue AS q
				 WHERE q.policy_id = $1 AND q.deleted_at IS NULL ORDER BY q.queue_id)
$$;
COMMENT ON FUNCTION rpq_store.policy_queues(bigint) IS
'the queues of a policy';

CREATE OR REPLACE FUNCTION rpq_store.policy_pools(policy_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT DISTINCT l.pool_id FROM rpq_store.queue AS q
				 JOIN rpq_store.profile_pool AS l ON l.profile_id = q.profile_id AND l.state = 'provisioned'
				 JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
				 WHERE q.policy_id = $1 AND q.deleted_at IS NULL ORDER BY l.pool_id)
$$;
COMMENT ON FUNCTION rpq_store.policy_pools(bigint) IS
'the pools that the queues of a policy reach';

CREATE OR REPLACE FUNCTION rpq_store.take_policy(policy_id bigint, name text, others bigint[] DEFAULT '{}')
RETURNS rpq_store.policy
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	scopes bigint[];
	needed bigint[];
	subject rpq_store.policy;
BEGIN
	SELECT array_agg(DISTINCT s.scope_id ORDER BY s.scope_id) INTO scopes
	FROM unnest(rpq_store.policy_queues(take_policy.policy_id) || rpq_store.policy_pools(take_policy.policy_id)
		|| take_policy.others) AS s (scope_id);
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	SELECT y.* INTO subject FROM rpq_store.policy AS y
	WHERE y.policy_id = take_policy.policy_id AND y.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('policy', take_policy.name);
	END IF;
	-- with the policy's row no queue comes or goes; profiles may until the turns of what they reach are ours
	LOOP
		needed := rpq_store.policy_queues(take_policy.policy_id) || rpq_store.policy_pools(take_policy.policy_id);
		EXIT WHEN needed <@ scopes OR needed = '{}';
		scopes := rpq_store.take_more(needed, coalesce(scopes, '{}'));
	END LOOP;
	RETURN subject;
END
$$;
COMMENT ON FUNCTION rpq_store.take_policy(bigint, text, bigint[]) IS
'takes the turns of all queues of a policy, of the pools that they reach and of the others given, in one call, then '
'the policy''s row, which is returned; 42704 when it was deleted meanwhile, 40001 when its queues '
'changed meanwhile and their turns cannot be had';

-- ---- checks ---------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.check_policy(subject rpq_store.policy) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF subject.lending NOT IN ('lend', 'hold') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'lending must be lend or hold';
	ELSIF length(subject.description) > 10000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'description must have at most 10000 characters';
	END IF;
	PERFORM rpq_store.check_quota('reservation', subject.reservation);
	PERFORM rpq_store.check_quota('usage_limit', subject.usage_limit);
	IF NOT rpq.within(subject.reservation, subject.usage_limit) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the reservation must be within the limit',
			DETAIL = format('The reservation is %s, the limit %s.', subject.reservation, subject.usage_limit),
			HINT = 'A key that the limit does not name is not limited.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_policy(rpq_store.policy) IS
'refuses (22023) settings that a policy cannot have: amounts below zero, a reservation beyond the limit in some key';

CREATE OR REPLACE FUNCTION rpq_store.find_group(tenant_id bigint, name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	home text := (SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = find_group.tenant_id);
	own_name text := find_group.name;
	found_id bigint;
BEGIN
	IF own_name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the user group must be given';
	ELSIF starts_with(own_name, home || '/') THEN
		own_name := substr(own_name, length(home) + 2);
	ELSIF strpos(own_name, '/') > 0 THEN
		PERFORM rpq_store.raise_gone('user group', find_group.name);
	END IF;
	own_name := rpq_store.check_name('user group', own_name);
	-- keeps out delete_user_group
	SELECT g.group_id INTO found_id FROM rpq_store.user_group AS g
	WHERE g.tenant_id = find_group.tenant_id AND g.name = own_name FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('user group', find_group.name);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.find_group(bigint, text) IS
'a user group of that tenant, for those who administer it. Errors: 42704, 22023 for NULL';

CREATE OR REPLACE FUNCTION rpq_store.draft_outsiders(queues bigint[], detail text) RETURNS int
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(sum(rpq_store.draft_queued(o.scope_id, o.account_id, 'not_authorized', $2)), 0)::int
	FROM (SELECT DISTINCT w.scope_id, w.account_id
		  FROM rpq_store.workload AS w
		  JOIN rpq_store.queue AS q ON q.queue_id = w.scope_id
		  JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
		  WHERE w.scope_id = ANY ($1) AND w.status = 'queued'
			AND NOT EXISTS (SELECT FROM rpq_store.group_account AS g
							WHERE g.group_id = y.group_id AND g.account_id = w.account_id)) AS o
$$;
COMMENT ON FUNCTION rpq_store.draft_outsiders(bigint[], text) IS
'makes drafts of what waits in these queues of accounts that are not in the policy''s group; returns how many. A row '
'that its client keeps locked is passed over: no cycle admits it, since the right is checked again. The caller holds '
'the turns';

-- ---- create, edit, delete -------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq.create_policy(name text, user_group text, reservation rpq.resources DEFAULT NULL,
	usage_limit rpq.resources DEFAULT NULL, lending text DEFAULT NULL, description text DEFAULT NULL,
	tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_policy'
AS $$
DECLARE
	subject rpq_store.policy;
BEGIN
	subject.tenant_id := rpq_store.authorize('create_policy', create_policy.tenant);
	subject.group_id := rpq_store.find_group(subject.tenant_id, create_policy.user_group);
	subject.name := rpq_store.check_name('policy', create_policy.name);
	subject.reservation := coalesce(create_policy.reservation, '');
	subject.usage_limit := create_policy.usage_limit;
	subject.lending := coalesce(create_policy.lending, 'lend');
	subject.description := create_policy.description;
	PERFORM rpq_store.check_policy(subject);
	INSERT INTO rpq_store.policy AS y (tenant_id, group_id, name, description, reservation, usage_limit, lending)
	VALUES (subject.tenant_id, subject.group_id, subject.name, subject.description, subject.reservation,
		subject.usage_limit, subject.lending)
	ON CONFLICT DO NOTHING RETURNING y.policy_id INTO subject.policy_id;
	IF subject.policy_id IS NULL THEN
		PERFORM rpq_store.raise_taken('policy', subject.name);
	END IF;
	PERFORM rpq_store.record('create_policy', 'policy', subject.policy_id, subject.name, subject.tenant_id, NULL, NULL,
		rpq_store.policy_settings(subject));
	RETURN subject.policy_id;
END
$$;
COMMENT ON FUNCTION rpq.create_policy(text, text, rpq.resources, rpq.resources, text, text, text) IS
'makes a policy for a user group and returns its id. reservation: what is kept available for the group over all pools '
'that its profiles reach (default none); it counts from the first connected profile on. usage_limit: the most that its '
'queues may hold at once; a key that it lacks is not limited, NULL limits nothing. lending: lend (default) lets others '
'use what is not met of the reservation until it is asked for, hold does not. tenant: NULL is the caller''s, or the '
'only one. Errors: 42704 no such group or tenant, 42710 the name is taken, 22023 bad argument, an amount below zero, '
'or a reservation beyond the limit in some key, 42501, RQ009 fenced. Organisation admins of the tenant, platform '
'admins';

CREATE OR REPLACE FUNCTION rpq.edit_policy(policy text, name text DEFAULT NULL, user_group text DEFAULT NULL,
	reservation rpq.resources DEFAULT NULL, usage_limit rpq.resources DEFAULT NULL, lending text DEFAULT NULL,
	description text DEFAULT NULL, tenant text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_policy'
AS $$
DECLARE
	id bigint := rpq_store.authorize('edit_policy', policy);
	was rpq_store.policy := rpq_store.take_policy(id, policy);
	now_is rpq_store.policy := was;
	cleared text[];
	pools bigint[];
	before jsonb;
BEGIN
	IF tenant IS NOT NULL AND rpq_store.tenant_of(tenant) <> was.tenant_id THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a policy cannot change its tenant';
	END IF;
	IF edit_policy.user_group IS NOT NULL THEN
		now_is.group_id := rpq_store.find_group(was.tenant_id, edit_policy.user_group);
	END IF;
	cleared := rpq_store.clearing(edit_policy.clear, '{reservation,usage_limit,description}', ARRAY(
		SELECT g.key FROM jsonb_each(jsonb_strip_nulls(jsonb_build_object('reservation', edit_policy.reservation::text,
			'usage_limit', edit_policy.usage_limit::text, 'description', edit_policy.description))) AS g));
	now_is.name := rpq_store.check_name('policy', coalesce(edit_policy.name, was.name));
	now_is.reservation := CASE WHEN 'reservation' = ANY (cleared) THEN ''
		ELSE coalesce(edit_policy.reservation, was.reservation) END;
	now_is.usage_limit := CASE WHEN 'usage_limit' <> ALL (cleared) THEN
		coalesce(edit_policy.usage_limit, was.usage_limit) END;
	now_is.description := CASE WHEN 'description' <> ALL (cleared) THEN
		coalesce(edit_policy.description, was.description) END;
	now_is.lending := coalesce(edit_policy.lending, was.lending);
	PERFORM rpq_store.check_policy(now_is);
	pools := rpq_store.policy_pools(id);
	before := rpq_store.shortages(pools);
	PERFORM rpq_store.write_policy(now_is);
	-- lowering is never refused
	IF NOT now_is.reservation OPERATOR(rpq.<@) was.reservation THEN
		PERFORM rpq_store.check_reservations(before, rpq_store.shortages(pools));
	END IF;
	IF now_is.group_id <> was.group_id THEN
		PERFORM rpq_store.draft_outsiders(rpq_store.policy_queues(id),
			format('policy "%s" is for another user group now', now_is.name));
	END IF;
	PERFORM rpq_store.record('edit_policy', 'policy', id, now_is.name, was.tenant_id, NULL,
		rpq_store.policy_settings(was), rpq_store.policy_settings(now_is));
END
$$;
COMMENT ON FUNCTION rpq.edit_policy(text, text, text, rpq.resources, rpq.resources, text, text, text, text[]) IS
'changes a policy; NULL stays as it is, clear names reservation, usage_limit, description to be set back to none. '
'Below what is in use nothing is stopped and nothing more admitted until it holds. With another user group, what '
'accounts outside of it have waiting in its queues becomes draft. tenant may be given but not changed (22023). Errors: '
'42704 no such policy or group, 42710 the name is taken, 22023, RQ002 a raised reservation could not be served by what '
'the reachable pools hold (the errdetail names the policies and both figures), 40001 its queues changed at the same '
'time, 42501, RQ009 fenced. Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq_store.write_policy(subject rpq_store.policy) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE rpq_store.policy AS y SET name = subject.name, group_id = subject.group_id,
		description = subject.description, reservation = subject.reservation, usage_limit = subject.usage_limit,
		lending = subject.lending
	WHERE y.policy_id = subject.policy_id;
EXCEPTION WHEN unique_violation THEN
	PERFORM rpq_store.raise_taken('policy', subject.name);
END
$$;
COMMENT ON FUNCTION rpq_store.write_policy(rpq_store.policy) IS
'writes the settings of a policy; 42710 when its name is taken, also in a race';

CREATE OR REPLACE FUNCTION rpq.delete_policy(policy text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_policy'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_policy', policy);
	was rpq_store.policy := rpq_store.take_policy(id, policy);
	queues bigint[] := rpq_store.policy_queues(id);
	names jsonb;
BEGIN
	SELECT coalesce(jsonb_agg(q.name ORDER BY q.name), '[]') INTO names
	FROM rpq_store.queue AS q WHERE q.queue_id = ANY (queues);
	PERFORM rpq_store.end_queues(queues, format('policy "%s" was deleted', was.name));
	UPDATE rpq_store.policy AS y SET deleted_at = rpq.now() WHERE y.policy_id = id;
	PERFORM rpq_store.record('delete_policy', 'policy', id, was.name, was.tenant_id, NULL,
		rpq_store.policy_settings(was) || jsonb_build_object('queues', names), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_policy(text) IS
'deletes a policy with all its queues: what waits in them becomes draft, what runs goes on, charged to it until it '
'ends. Its name and those of its queues are free at once. Errors: 42704, 22023 NULL, 40001 its queues changed at the '
'same time, 42501, RQ009 fenced. Organisation admins of the tenant, platform admins';

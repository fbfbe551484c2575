-- Profiles: job sizes with the pools that may serve them, in routing order.
--
-- Writes profile and profile_pool.  What is saved is written under the row of the profile alone: no cycle reads it.
-- What is provisioned is written under the turns of the pools concerned, of before and after, and of the queues that
-- lead there; so is the end of a profile.

-- ---- finding, showing -----------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.find_profile(tenant_id bigint, name text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	home text := (SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = find_profile.tenant_id);
	own_name text := find_profile.name;
	found_id bigint;
BEGIN
	IF own_name IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the profile must be given';
	ELSIF starts_with(own_name, home || '/') THEN
		own_name := substr(own_name, length(home) + 2);
	ELSIF strpos(own_name, '/') > 0 THEN
		PERFORM rpq_store.raise_gone('profile', find_profile.name);
	END IF;
	own_name := rpq_store.check_name('profile', own_name);
	SELECT f.profile_id INTO found_id FROM rpq_store.profile AS f
	WHERE f.tenant_id = find_profile.tenant_id AND f.name = own_name AND f.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', find_profile.name);
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION rpq_store.find_profile(bigint, text) IS
'a profile of that tenant, for those who administer it. Errors: 42704, 22023 for NULL';

CREATE OR REPLACE FUNCTION rpq_store.profile_pools(profile_id bigint, state text) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT l.pool_id FROM rpq_store.profile_pool AS l
				 JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
				 WHERE l.profile_id = $1 AND l.state = $2 ORDER BY l.rank)
$$;
COMMENT ON FUNCTION rpq_store.profile_pools(bigint, text) IS
'the pools of a profile in routing order, as saved or as provisioned; those that were deleted are none';

CREATE OR REPLACE FUNCTION rpq_store.profile_settings(name text, resources rpq.resources, pools bigint[]) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('name', $1, 'resources', $2::text, 'pools',
		ARRAY(SELECT p.name FROM unnest($3) WITH ORDINALITY AS l (pool_id, rank)
			  JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id ORDER BY l.rank))
$$;
COMMENT ON FUNCTION rpq_store.profile_settings(text, rpq.resources, bigint[]) IS
'a profile as the history shows it';

-- ---- what may be saved ----------------------------------------------------------------------------------------------

-- What a submission is checked for, so that no queue has a size that nobody could submit.
CREATE OR REPLACE FUNCTION rpq_store.check_size(resources rpq.resources) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
	devices numeric := check_size.resources OPERATOR(rpq.->) 'gpu';
BEGIN
	wrong := CASE
		WHEN check_size.resources IS NULL THEN 'resources must be given'
		WHEN check_size.resources OPERATOR(rpq.=) '' THEN 'resources must ask for something'
		WHEN EXISTS (SELECT FROM jsonb_each_text(check_size.resources::jsonb) AS a
					 WHERE a.value = '0' OR starts_with(a.value, '-'))
			THEN 'every amount of resources must be positive'
		WHEN devices > 1 AND devices <> trunc(devices) THEN 'gpu must be a whole number of devices or a part of one'
	END;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = wrong,
			DETAIL = format('It is %s.', coalesce(format('"%s"', check_size.resources), 'NULL'));
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_size(rpq.resources) IS
'refuses (22023) a size that no workload can have: nothing, amounts that are not positive, GPUs that are neither whole '
'devices nor a part of one';

CREATE OR REPLACE FUNCTION rpq_store.check_routing(tenant_id bigint, pools text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ids bigint[];
BEGIN
	IF check_routing.pools IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the pools must be given',
			DETAIL = 'It is an array of names in routing order.';
	END IF;
	SELECT array_agg(f.pool_id ORDER BY f.rank) INTO ids
	FROM (SELECT rpq_store.find_pool(rpq_store.in_tenant(check_routing.tenant_id, u.name)) AS pool_id,
			min(u.rank) AS rank
		  FROM unnest(check_routing.pools) WITH ORDINALITY AS u (name, rank) GROUP BY 1) AS f;
	IF EXISTS (SELECT FROM rpq_store.pool AS p
			   WHERE p.pool_id = ANY (ids) AND p.tenant_id <> check_routing.tenant_id) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the pools belong to another tenant';
	END IF;
	RETURN coalesce(ids, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.check_routing(bigint, text[]) IS
'the ids of pools of that tenant in the order given, repeats left out. Errors: 42704, 22023 for NULL or another tenant';

CREATE OR REPLACE FUNCTION rpq_store.link_pools(profile_id bigint, state text, pools bigint[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM rpq_store.profile_pool AS l WHERE l.profile_id = $1 AND l.state = $2;
	INSERT INTO rpq_store.profile_pool (profile_id, pool_id, state, rank)
	SELECT $1, u.pool_id, $2, u.rank FROM unnest($3) WITH ORDINALITY AS u (pool_id, rank);
$$;
COMMENT ON FUNCTION rpq_store.link_pools(bigint, text, bigint[]) IS
'puts these pools in the place of those that a profile had, as saved or as provisioned';

-- ---- create, edit, delete -------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq.create_profile(name text, resources rpq.resources, pools text[],
	tenant text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'create_profile'
AS $$
DECLARE
	home bigint := rpq_store.authorize('create_profile', tenant);
	new_name text;
	routing bigint[] := rpq_store.check_routing(home, create_profile.pools);
	made bigint;
BEGIN
	new_name := rpq_store.check_name('profile', create_profile.name);
	PERFORM rpq_store.check_size(create_profile.resources);
	INSERT INTO rpq_store.profile AS f (tenant_id, name, saved) VALUES (home, new_name, create_profile.resources)
	ON CONFLICT DO NOTHING RETURNING f.profile_id INTO made;
	IF made IS NULL THEN
		PERFORM rpq_store.raise_taken('profile', new_name);
	END IF;
	PERFORM rpq_store.link_pools(made, 'saved', routing);
	PERFORM rpq_store.record('create_profile', 'profile', made, new_name, home, NULL, NULL,
		rpq_store.profile_settings(new_name, create_profile.resources, routing));
	RETURN made;
END
$$;
COMMENT ON FUNCTION rpq.create_profile(text, rpq.resources, text[], text) IS
'saves a profile and returns its id; it is in force after provision_profiles. resources: what each replica takes. '
'pools: that may serve it, in routing order (repeats left out; none is saved, but not provisioned). tenant: NULL is '
'the caller''s, or the only one. Errors: 42704 no such pool or tenant, 42710 the name is taken, 22023 no size or name, '
'or none that a workload could have, 42501. Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.edit_profile(profile text, name text DEFAULT NULL, resources rpq.resources DEFAULT NULL,
	pools text[] DEFAULT NULL, tenant text DEFAULT NULL, clear text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'edit_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('edit_profile', profile);
	was rpq_store.profile;
	now_is rpq_store.profile;
	routing bigint[];
	new_routing bigint[];
BEGIN
	SELECT f.* INTO was FROM rpq_store.profile AS f WHERE f.profile_id = id AND f.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', profile);
	END IF;
	IF tenant IS NOT NULL AND rpq_store.tenant_of(tenant) <> was.tenant_id THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a profile cannot change its tenant';
	END IF;
	routing := rpq_store.profile_pools(id, 'saved');
	new_routing := CASE
		WHEN cardinality(rpq_store.clearing(edit_profile.clear, '{pools}',
			CASE WHEN edit_profile.pools IS NOT NULL THEN '{pools}'::text[] END)) > 0 THEN '{}'
		WHEN edit_profile.pools IS NULL THEN routing
		ELSE rpq_store.check_routing(was.tenant_id, edit_profile.pools) END;
	now_is := was;
	now_is.name := rpq_store.check_name('profile', coalesce(edit_profile.name, was.name));
	now_is.saved := coalesce(edit_profile.resources, was.saved);
	PERFORM rpq_store.check_size(now_is.saved);
	IF now_is.name <> was.name AND EXISTS (SELECT FROM rpq_store.profile AS f
			WHERE f.tenant_id = was.tenant_id AND f.name = now_is.name AND f.deleted_at IS NULL) THEN
		PERFORM rpq_store.raise_taken('profile', now_is.name);
	END IF;
	BEGIN
		UPDATE rpq_store.profile AS f SET name = now_is.name, saved = now_is.saved WHERE f.profile_id = id;
	EXCEPTION WHEN unique_violation THEN	-- somebody was faster
		PERFORM rpq_store.raise_taken('profile', now_is.name);
	END;
	PERFORM rpq_store.link_pools(id, 'saved', new_routing) WHERE new_routing <> routing;
	PERFORM rpq_store.record('edit_profile', 'profile', id, now_is.name, was.tenant_id, NULL,
		rpq_store.profile_settings(was.name, was.saved, routing),
		rpq_store.profile_settings(now_is.name, now_is.saved, new_routing));
END
$$;
COMMENT ON FUNCTION rpq.edit_profile(text, text, rpq.resources, text[], text, text[]) IS
'saves changes of a profile; NULL stays as it is. A new name holds at once; resources and pools (all of them, in '
'routing order) after provision_profiles, until when reset_profiles drops them. clear: ''{pools}''. tenant may be '
'given but not changed (22023). Errors: 42704 no such profile or pool, 42710 the name is taken, 22023, 42501. '
'Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.delete_profile(profile text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'delete_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('delete_profile', profile);
	was rpq_store.profile;
	scopes bigint[] := rpq_store.profile_pools(id, 'provisioned');
	routing bigint[];
	queues text;
BEGIN
	-- who connects it takes the turns of its pools too
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	SELECT f.* INTO was FROM rpq_store.profile AS f WHERE f.profile_id = id AND f.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', profile);
	END IF;
	PERFORM rpq_store.take_more(rpq_store.profile_pools(id, 'provisioned'), scopes);
	SELECT string_agg(format('queue "%s" of policy "%s"', q.name, y.name), ', ' ORDER BY q.name) INTO queues
	FROM rpq_store.queue AS q JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
	WHERE q.profile_id = id AND q.deleted_at IS NULL;
	IF queues IS NOT NULL THEN
		PERFORM rpq_store.raise_in_use('profile', was.name, queues);
	END IF;
	routing := rpq_store.profile_pools(id, 'saved');
	DELETE FROM rpq_store.profile_pool AS l WHERE l.profile_id = id;
	UPDATE rpq_store.profile AS f SET deleted_at = rpq.now() WHERE f.profile_id = id;
	PERFORM rpq_store.record('delete_profile', 'profile', id, was.name, was.tenant_id, NULL,
		rpq_store.profile_settings(was.name, was.saved, routing), NULL);
END
$$;
COMMENT ON FUNCTION rpq.delete_profile(text) IS
'deletes a profile at once, without provisioning. Errors: RQ006 while it is connected to a policy (the errdetail names '
'the queues), 42704, 22023 NULL, 42501, RQ009 fenced. Organisation admins of the tenant, platform admins';

-- Others may be held by who waits for ours, so they are not waited for.
CREATE OR REPLACE FUNCTION rpq_store.take_more(needed bigint[], taken bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing bigint[] := ARRAY(SELECT DISTINCT u.scope_id FROM unnest(take_more.needed) AS u (scope_id)
							  WHERE u.scope_id <> ALL (take_more.taken) ORDER BY 1);
BEGIN
	IF missing = '{}' THEN
		RETURN take_more.taken;
	ELSIF NOT rpq_store.try_turns(rpq_store.connected(missing)) THEN
		RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'profiles or policies changed during the call',
			HINT = 'Try the transaction again.';
	END IF;
	PERFORM rpq_store.take_turns(missing);
	RETURN take_more.taken || missing;
END
$$;
COMMENT ON FUNCTION rpq_store.take_more(bigint[], bigint[]) IS
'takes the turns of scopes that are needed beside those that were taken, because somebody tied them together '
'meanwhile; 40001 when somebody else has one. Returns all';

-- ---- validate, provision, reset -------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION rpq_store.changed_profiles(tenant_id bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(
		SELECT f.profile_id FROM rpq_store.profile AS f
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL
		  AND (f.provisioned IS NULL OR f.provisioned OPERATOR(rpq.<>) f.saved
			OR rpq_store.profile_pools(f.profile_id, 'saved')
				<> rpq_store.profile_pools(f.profile_id, 'provisioned'))
		ORDER BY f.profile_id)
$$;
COMMENT ON FUNCTION rpq_store.changed_profiles(bigint) IS
'the profiles of a tenant of which something is saved that is not in force';

CREATE OR REPLACE FUNCTION rpq_store.profile_problems(tenant_id bigint) RETURNS TABLE (profile text, problem text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.name, o.problem
	FROM (
		SELECT f.name, 0, 'no pool is linked'
		FROM rpq_store.profile AS f
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL AND rpq_store.profile_pools(f.profile_id, 'saved') = '{}'
		UNION ALL
		SELECT f.name, l.rank, CASE
			WHEN EXISTS (SELECT FROM rpq_store.pool_capacity AS c WHERE c.pool_id = p.pool_id)
			THEN format('%s fits no node of pool "%s"', f.saved, p.name)
			ELSE format('pool "%s" has no node', p.name) END
		FROM rpq_store.profile AS f
		JOIN rpq_store.profile_pool AS l ON l.profile_id = f.profile_id AND l.state = 'saved'
		JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL
		  AND NOT EXISTS (SELECT FROM rpq_store.pool_capacity AS c
						  WHERE c.pool_id = p.pool_id AND f.saved OPERATOR(rpq.<@) c.capacity)
		UNION ALL
		SELECT f.name, 2147483647, format('%s is more than %s, the limit of policy "%s", to which it is connected',
			f.saved, y.usage_limit, y.name)
		FROM rpq_store.profile AS f
		JOIN rpq_store.queue AS q ON q.profile_id = f.profile_id AND q.deleted_at IS NULL
		JOIN rpq_store.policy AS y ON y.policy_id = q.policy_id
		WHERE f.tenant_id = $1 AND f.deleted_at IS NULL AND f.provisioned OPERATOR(rpq.<>) f.saved
		  AND NOT rpq.within(f.saved, y.usage_limit)
	) AS o (name, place, problem)
	ORDER BY o.name, o.place, o.problem
$$;
COMMENT ON FUNCTION rpq_store.profile_problems(bigint) IS
'what is wrong with the profiles of a tenant as they are saved: no pool, a size that fits no node of a linked pool, a '
'new size beyond the limit of a policy that it is connected to';

CREATE OR REPLACE FUNCTION rpq.validate_profiles(tenant text DEFAULT NULL)
RETURNS TABLE (profile text, problem text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	home bigint := rpq_store.authorize('validate_profiles', tenant);
BEGIN
	RETURN QUERY SELECT w.profile, w.problem FROM rpq_store.profile_problems(home) AS w;
END
$$;
COMMENT ON FUNCTION rpq.validate_profiles(text) IS
'what is wrong with the profiles of a tenant (NULL: the caller''s, or the only one) as they are saved, a row for each '
'problem: no pool is linked, the size fits no node of a linked pool, or a new size is beyond the limit of a policy '
'that the profile is connected to. Errors: 42704, 42501. Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq_store.profile_scopes(profiles bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(
		SELECT l.pool_id FROM rpq_store.profile_pool AS l
		JOIN rpq_store.pool AS p ON p.pool_id = l.pool_id AND p.status <> 'deleted'
		WHERE l.profile_id = ANY ($1)
		UNION
		SELECT q.queue_id FROM rpq_store.queue AS q WHERE q.profile_id = ANY ($1) AND q.deleted_at IS NULL
		ORDER BY 1)
$$;
COMMENT ON FUNCTION rpq_store.profile_scopes(bigint[]) IS
'the pools of these profiles, saved and provisioned, and their queues';

CREATE OR REPLACE FUNCTION rpq_store.take_profiles(tenant_id bigint) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	due bigint[] := rpq_store.changed_profiles(take_profiles.tenant_id);
	scopes bigint[] := rpq_store.profile_scopes(due);
BEGIN
	PERFORM rpq_store.take_turns(scopes) WHERE cardinality(scopes) > 0;
	PERFORM f.profile_id FROM rpq_store.profile AS f WHERE f.profile_id = ANY (due) ORDER BY f.profile_id
	FOR NO KEY UPDATE;
	SELECT array_agg(d.id ORDER BY d.id) INTO due
	FROM unnest(rpq_store.changed_profiles(take_profiles.tenant_id)) AS d (id) WHERE d.id = ANY (due);
	PERFORM rpq_store.take_more(rpq_store.profile_scopes(due), scopes);
	RETURN coalesce(due, '{}');
END
$$;
COMMENT ON FUNCTION rpq_store.take_profiles(bigint) IS
'the profiles of a tenant that are to be provisioned, after the turns of their pools and queues and their rows were '
'taken; 40001 when they changed meanwhile and the turns cannot be had';

CREATE OR REPLACE FUNCTION rpq.provision_profiles(tenant text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'provision_profiles'
AS $$
DECLARE
	home bigint := rpq_store.authorize('provision_profiles', tenant);
	due bigint[] := rpq_store.take_profiles(home);
	problems text;
	pools bigint[];
	before jsonb;
	was rpq_store.profile;
	routing bigint[];
	new_routing bigint[];
BEGIN
	SELECT string_agg(format('Profile "%s": %s.', w.profile, w.problem), ' ') INTO problems
	FROM rpq_store.profile_problems(home) AS w;
	IF problems IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'profiles cannot be provisioned', DETAIL = problems,
			HINT = 'Nothing was changed. Edit these profiles, or drop what is saved with rpq.reset_profiles().';
	END IF;
	pools := rpq_store.profile_scopes(due);
	before := rpq_store.shortages(pools);
	FOR was IN SELECT f.* FROM rpq_store.profile AS f WHERE f.profile_id = ANY (due) ORDER BY f.profile_id LOOP
		routing := rpq_store.profile_pools(was.profile_id, 'provisioned');
		new_routing := rpq_store.profile_pools(was.profile_id, 'saved');
		UPDATE rpq_store.profile AS f SET provisioned = was.saved WHERE f.profile_id = was.profile_id;
		PERFORM rpq_store.link_pools(was.profile_id, 'provisioned', new_routing);
		PERFORM rpq_store.record('provision_profiles', 'profile', was.profile_id, was.name, home, NULL,
			rpq_store.profile_settings(was.name, was.provisioned, routing),
			rpq_store.profile_settings(was.name, was.saved, new_routing));
	END LOOP;
	PERFORM rpq_store.check_reservations(before, rpq_store.shortages(pools));
	RETURN cardinality(due);
END
$$;
COMMENT ON FUNCTION rpq.provision_profiles(text) IS
'puts the profiles of a tenant (NULL: the caller''s, or the only one) in force as they are saved, all or none; returns '
'how many changed. Workloads that wait keep the size that they were submitted with, and are routed anew. Errors: 22023 '
'with all that validate_profiles lists in the errdetail, RQ002 reservations could not be served by the pools that are '
'left, 40001 somebody changed profiles at the same time, 42704, 42501, RQ009 fenced. Organisation admins of the '
'tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq.reset_profiles(tenant text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'reset_profiles'
AS $$
DECLARE
	home bigint := rpq_store.authorize('reset_profiles', tenant);
	was rpq_store.profile;
	routing bigint[];
	new_routing bigint[];
	changed int := 0;
BEGIN
	FOR was IN
		SELECT f.* FROM rpq_store.profile AS f
		WHERE f.profile_id = ANY (rpq_store.changed_profiles(home)) AND f.provisioned IS NOT NULL
		ORDER BY f.profile_id FOR NO KEY UPDATE
	LOOP
		routing := rpq_store.profile_pools(was.profile_id, 'saved');
		new_routing := rpq_store.profile_pools(was.profile_id, 'provisioned');
		UPDATE rpq_store.profile AS f SET saved = was.provisioned WHERE f.profile_id = was.profile_id;
		PERFORM rpq_store.link_pools(was.profile_id, 'saved', new_routing);
		PERFORM rpq_store.record('reset_profiles', 'profile', was.profile_id, was.name, home, NULL,
			rpq_store.profile_settings(was.name, was.saved, routing),
			rpq_store.profile_settings(was.name, was.provisioned, new_routing));
		changed := changed + 1;
	END LOOP;
	RETURN changed;
END
$$;
COMMENT ON FUNCTION rpq.reset_profiles(text) IS
'drops what is saved and not provisioned of the profiles of a tenant (NULL: the caller''s, or the only one): size and '
'pools are again those in force; returns how many changed. A profile that was never provisioned stays as it is saved. '
'Errors: 42704, 42501. Organisation admins of the tenant, platform admins';

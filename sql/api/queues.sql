-- Queues: the doors that connect a policy with a profile.
--
-- Writes queue, turn (of a new one) and what waits in one that ends, under the turns of the policy's queues, of the
-- pools that they reach, and of those of the profile: all in one call, since a connection ties them together.

CREATE OR REPLACE FUNCTION rpq_store.connection_problem(subject rpq_store.policy, door rpq_store.profile) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		WHEN ($2).provisioned IS NULL THEN 'it is not provisioned'
		WHEN rpq_store.profile_pools(($2).profile_id, 'provisioned') = '{}' THEN 'no pool is left that serves it'
		WHEN NOT rpq.within(($2).provisioned, ($1).usage_limit) THEN
			format('it asks for %s, the limit of the policy is %s', ($2).provisioned, ($1).usage_limit)
	END
$$;
COMMENT ON FUNCTION rpq_store.connection_problem(rpq_store.policy, rpq_store.profile) IS
'why a profile cannot be connected to a policy, in words; NULL when it can';

CREATE OR REPLACE FUNCTION rpq.connectable_profiles(policy text)
RETURNS TABLE (profile text, resources rpq.resources, selectable boolean, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	id bigint := rpq_store.authorize('connectable_profiles', policy);
BEGIN
	RETURN QUERY
	SELECT f.name::text, f.provisioned, w.problem IS NULL, w.problem
	FROM rpq_store.policy AS y
	JOIN rpq_store.profile AS f ON f.tenant_id = y.tenant_id AND f.deleted_at IS NULL AND f.provisioned IS NOT NULL
	CROSS JOIN LATERAL rpq_store.connection_problem(y, f) AS w (problem)
	WHERE y.policy_id = id
	  AND NOT EXISTS (SELECT FROM rpq_store.queue AS q
					  WHERE q.policy_id = id AND q.profile_id = f.profile_id AND q.deleted_at IS NULL)
	ORDER BY f.name;
END
$$;
COMMENT ON FUNCTION rpq.connectable_profiles(text) IS
'the provisioned profiles of the policy''s tenant that are not yet connected to it, as they are in force: selectable '
'says whether connect_profile takes them, reason why not (larger than the limit of the policy; no pool is left). '
'Errors: 42704, 22023 NULL, 42501. Organisation admins of the tenant, platform admins';

CREATE OR REPLACE FUNCTION rpq_store.refuse_connection(subject rpq_store.policy, door rpq_store.profile) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known text;
	problem text := rpq_store.connection_problem(subject, door);
BEGIN
	SELECT q.name INTO known FROM rpq_store.queue AS q
	WHERE q.policy_id = subject.policy_id AND q.profile_id = door.profile_id AND q.deleted_at IS NULL;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '42710',
			MESSAGE = format('profile "%s" is already connected to policy "%s"', door.name, subject.name),
			DETAIL = format('Its queue is "%s".', known);
	ELSIF problem IS NOT NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = CASE WHEN rpq.within(door.provisioned, subject.usage_limit) IS FALSE THEN 'RQ002'
						   ELSE '22023' END,
			MESSAGE = format('profile "%s" cannot be connected to policy "%s"', door.name, subject.name),
			DETAIL = upper(left(problem, 1)) || substr(problem, 2) || '.',
			HINT = CASE WHEN door.provisioned IS NULL THEN 'Provision it with rpq.provision_profiles().'
						WHEN rpq.within(door.provisioned, subject.usage_limit) IS FALSE THEN
							'Raise the limit, or choose a smaller profile.'
						ELSE 'Link a pool to it, and provision it.' END;
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.refuse_connection(rpq_store.policy, rpq_store.profile) IS
'refuses a profile that is already connected (42710), not provisioned or without pool (22023), larger than the limit '
'(RQ002)';

-- A trap: what fits in no reservation never takes room back.
CREATE OR REPLACE FUNCTION rpq_store.warn_of_unnamed_keys(subject rpq_store.policy, door rpq_store.profile) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	unnamed text := (SELECT string_agg(k.key, ', ' ORDER BY k.key)
		FROM jsonb_object_keys(door.provisioned::jsonb) AS k (key)
		WHERE NOT jsonb_exists(subject.reservation::jsonb, k.key));
BEGIN
	IF unnamed IS NOT NULL AND EXISTS (SELECT FROM jsonb_object_keys(subject.reservation::jsonb)) THEN
		RAISE NOTICE USING MESSAGE = format('the reservation of policy "%s" does not cover jobs of profile "%s"',
				subject.name, door.name),
			DETAIL = format('The jobs ask for %s, of which the policy reserves nothing.', unnamed),
			HINT = 'Name every key of the jobs in the reservation, else they have no claim to it.';
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.warn_of_unnamed_keys(rpq_store.policy, rpq_store.profile) IS
'says (NOTICE) that a reservation lacks a key which the profile asks for: such jobs have no part in it';

CREATE OR REPLACE FUNCTION rpq.connect_profile(policy text, profile text, queue text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'connect_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('connect_profile', policy);
	subject rpq_store.policy;
	door rpq_store.profile;
	door_id bigint;
	new_name text;
	scopes bigint[];
	pools bigint[];
	before jsonb;
	made bigint;
BEGIN
	SELECT y.* INTO subject FROM rpq_store.policy AS y WHERE y.policy_id = id;
	door_id := rpq_store.find_profile(subject.tenant_id, connect_profile.profile);
	new_name := rpq_store.check_name('queue', connect_profile.queue);
	scopes := rpq_store.profile_scopes(ARRAY[door_id]);
	subject := rpq_store.take_policy(id, policy, scopes);
	WHILE NOT rpq_store.profile_pools(door_id, 'provisioned') <@ scopes LOOP
		scopes := rpq_store.take_more(rpq_store.profile_pools(door_id, 'provisioned'), scopes);
	END LOOP;
	SELECT f.* INTO door FROM rpq_store.profile AS f WHERE f.profile_id = door_id AND f.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('profile', connect_profile.profile);
	END IF;
	PERFORM rpq_store.refuse_connection(subject, door);
	pools := rpq_store.policy_pools(id) || rpq_store.profile_pools(door_id, 'provisioned');
	before := rpq_store.shortages(pools);
	INSERT INTO rpq_store.queue AS q (tenant_id, policy_id, profile_id, name)
	VALUES (subject.tenant_id, id, door_id, new_name)
	ON CONFLICT DO NOTHING RETURNING q.queue_id INTO made;
	IF made IS NULL THEN
		PERFORM rpq_store.raise_taken('queue', new_name);
	END IF;
	PERFORM rpq_store.new_scope(made);
	PERFORM rpq_store.check_reservations(before, rpq_store.shortages(pools));
	PERFORM rpq_store.warn_of_unnamed_keys(subject, door);
	PERFORM rpq_store.record('connect_profile', 'queue', made, new_name, subject.tenant_id, NULL, NULL,
		jsonb_build_object('name', new_name, 'policy', subject.name, 'profile', door.name));
	RETURN made;
END
$$;
COMMENT ON FUNCTION rpq.connect_profile(text, text, text) IS
'connects a profile to a policy by a new queue, into which the group''s members submit; returns the queue''s id. '
'queue: its name, unique in the tenant. Refused, in this order: 42704 no such policy or profile, 22023 no or no '
'possible name, 42710 it is already connected, 22023 not provisioned, RQ002 it asks for more than the limit, 42710 the '
'name is taken, RQ002 reservations could not be served by what the reachable pools hold (the errdetail names policies '
'that exceed it, with both figures); 40001 policy or profile changed at the same time, 42501, RQ009 fenced. '
'Organisation admins of the tenant, platform admins';

-- What a client has in hand of it follows with a later cycle (draft_late).
CREATE OR REPLACE FUNCTION rpq_store.end_queues(queues bigint[], detail text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE rpq_store.queue AS q SET deleted_at = rpq.now() WHERE q.queue_id = ANY ($1);
	SELECT rpq_store.draft_queued(u.queue_id, NULL, 'queue_deleted', $2) FROM unnest($1) AS u (queue_id);
$$;
COMMENT ON FUNCTION rpq_store.end_queues(bigint[], text) IS
'deletes queues: what waits in them becomes draft with this reason, what runs goes on. The caller holds their turns, '
'which stay';

CREATE OR REPLACE FUNCTION rpq.disconnect_profile(policy text, profile text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'disconnect_profile'
AS $$
DECLARE
	id bigint := rpq_store.authorize('disconnect_profile', policy);
	subject rpq_store.policy;
	door rpq_store.profile;
	gone rpq_store.queue;
BEGIN
	SELECT f.* INTO door FROM rpq_store.profile AS f
	WHERE f.profile_id = rpq_store.find_profile((SELECT y.tenant_id FROM rpq_store.policy AS y WHERE y.policy_id = id),
		disconnect_profile.profile);
	subject := rpq_store.take_policy(id, policy);
	SELECT q.* INTO gone FROM rpq_store.queue AS q
	WHERE q.policy_id = id AND q.profile_id = door.profile_id AND q.deleted_at IS NULL;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '42704',
			MESSAGE = format('profile "%s" is not connected to policy "%s"', door.name, subject.name);
	END IF;
	PERFORM rpq_store.end_queues(ARRAY[gone.queue_id],
		format('profile "%s" was disconnected from policy "%s"', door.name, subject.name));
	PERFORM rpq_store.record('disconnect_profile', 'queue', gone.queue_id, gone.name, gone.tenant_id, NULL,
		jsonb_build_object('name', gone.name, 'policy', subject.name, 'profile', door.name), NULL);
END
$$;
COMMENT ON FUNCTION rpq.disconnect_profile(text, text) IS
'takes a profile away from a policy and deletes their queue: what waits in it becomes draft, what runs goes on, '
'charged to the policy until it ends. Errors: 42704 no such policy or profile, or they are not connected; 22023 NULL; '
'40001 the queues of the policy changed at the same time; 42501; RQ009 fenced. Organisation admins of the tenant, '
'platform admins';

CREATE OR REPLACE FUNCTION rpq.set_pod_template(queue text, template jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'set_pod_template'
AS $$
DECLARE
	id bigint := rpq_store.authorize('set_pod_template', queue);
	was rpq_store.queue;
BEGIN
	IF jsonb_typeof(template) <> 'object' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'template must be a JSON object',
			DETAIL = format('It is a JSON %s.', jsonb_typeof(template));
	END IF;
	SELECT q.* INTO was FROM rpq_store.queue AS q WHERE q.queue_id = id AND q.deleted_at IS NULL FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM rpq_store.raise_gone('queue', queue);
	END IF;
	UPDATE rpq_store.queue AS q SET pod_template = template
	WHERE q.queue_id = id AND q.pod_template IS DISTINCT FROM template;
	PERFORM rpq_store.record('set_pod_template', 'queue', id, was.name, was.tenant_id, NULL,
		jsonb_build_object('pod_template', was.pod_template), jsonb_build_object('pod_template', template));
END
$$;
COMMENT ON FUNCTION rpq.set_pod_template(text, jsonb) IS
'keeps a template of pods for a queue, a JSON object that executors may ask for; NULL takes it away. Errors: 42704, '
'22023 NULL or no object, 42501. Organisation admins of the tenant, platform admins';

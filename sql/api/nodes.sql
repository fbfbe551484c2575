-- Nodes: adding, removing, cordon and health.
--
-- Writes node, under the turn of the pool concerned.  What becomes of the pods of a node that is lost: node_loss.sql.

CREATE OR REPLACE FUNCTION rpq_store.node_settings(node_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object('name', n.name, 'instance_type', t.name, 'pool', p.name, 'capacity', n.capacity::text,
		'labels', n.labels, 'provider_id', n.provider_id, 'schedulable', n.schedulable, 'health', n.health,
		'health_reason', n.health_reason)
	FROM rpq_store.node AS n
	JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
	JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
	WHERE n.node_id = $1
$$;
COMMENT ON FUNCTION rpq_store.node_settings(bigint) IS
'a node as the history shows it';

-- Nodes may change hands between the look at their pools and the turn; then the caller tries again.
CREATE OR REPLACE FUNCTION rpq_store.take_node_turns(nodes bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	pools bigint[];
BEGIN
	SELECT array_agg(DISTINCT n.pool_id ORDER BY n.pool_id) INTO pools
	FROM rpq_store.node AS n WHERE n.node_id = ANY (take_node_turns.nodes);
	PERFORM rpq_store.take_turns(pools);
	IF EXISTS (SELECT FROM unnest(take_node_turns.nodes) AS w (node_id)
			   LEFT JOIN rpq_store.node AS n ON n.node_id = w.node_id
			   WHERE n.pool_id IS NULL OR n.pool_id <> ALL (pools)) THEN
		RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'a node changed hands during the call',
			HINT = 'Try the transaction again.';
	END IF;
	RETURN pools;
END
$$;
COMMENT ON FUNCTION rpq_store.take_node_turns(bigint[]) IS
'takes the turns of the pools that these nodes are in, and returns their ids; 40001 when a node left its pool '
'meanwhile';

-- Nodes that exist: the same type and pool takes the new labels, anything else is refused.
CREATE OR REPLACE FUNCTION rpq_store.relabel_nodes(tenant_id bigint, pool_id bigint, type_id bigint, names text[],
	capacity rpq.resources, labels jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	old_node record;
BEGIN
	FOR old_node IN
		SELECT n.node_id, n.name, n.pool_id, n.type_id, n.capacity, n.labels, p.name AS pool, t.name AS type,
			n.removing
		FROM rpq_store.node AS n
		JOIN rpq_store.pool AS p ON p.pool_id = n.pool_id
		JOIN rpq_store.instance_type AS t ON t.type_id = n.type_id
		WHERE n.tenant_id = relabel_nodes.tenant_id AND n.name = ANY (relabel_nodes.names)
		ORDER BY n.name
	LOOP
		IF old_node.removing THEN
			RAISE EXCEPTION USING ERRCODE = '42710',
				MESSAGE = format('node "%s" is still being removed', old_node.name),
				DETAIL = 'A transaction keeps a workload locked that has a pod on it.', HINT = 'Try again later.';
		ELSIF old_node.pool_id <> relabel_nodes.pool_id OR old_node.type_id <> relabel_nodes.type_id
			OR old_node.capacity::text <> relabel_nodes.capacity::text THEN
			RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = format('node "%s" already exists', old_node.name),
				DETAIL = format('It is in pool "%s", of instance type "%s", with capacity %s.',
					old_node.pool, old_node.type, old_node.capacity);
		END IF;
		IF old_node.labels <> relabel_nodes.labels THEN
			UPDATE rpq_store.node AS n SET labels = relabel_nodes.labels WHERE n.node_id = old_node.node_id;
			PERFORM rpq_store.record('add_nodes', 'node', old_node.node_id, old_node.name, relabel_nodes.tenant_id,
				relabel_nodes.pool_id, jsonb_build_object('labels', old_node.labels),
				jsonb_build_object('labels', relabel_nodes.labels));
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.relabel_nodes(bigint, bigint, bigint, text[], rpq.resources, jsonb) IS
'gives new labels to those of the named nodes that exist with the same pool and type; 42710 for another. NULL '
'capacity or labels: whatever the node has';

-- Names are prefix || n, n from one past the highest in use; what another session took meanwhile is passed over.
CREATE OR REPLACE FUNCTION rpq_store.insert_nodes(new_node rpq_store.node, names text[], count int, prefix text)
RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	wanted text[] := insert_nodes.names;
	added text[] := ARRAY[]::text[];
	step text[];
	highest bigint;
BEGIN
	LOOP
		IF insert_nodes.names IS NULL THEN
			SELECT coalesce(max(substr(n.name, length(insert_nodes.prefix) + 1)::bigint), 0) INTO highest
			FROM rpq_store.node AS n
			WHERE n.tenant_id = new_node.tenant_id AND starts_with(n.name, insert_nodes.prefix)
			  AND substr(n.name, length(insert_nodes.prefix) + 1) ~ '^[0-9]{1,18}$';
			SELECT array_agg(rpq_store.check_name('node', insert_nodes.prefix || (highest + i)) ORDER BY i) INTO wanted
			FROM generate_series(1, insert_nodes.count - cardinality(added)) AS i;
		END IF;
		WITH put AS (
			INSERT INTO rpq_store.node AS n (tenant_id, cluster_id, name, pool_id, type_id, capacity, usable, labels,
				provider_id, created_at)
			SELECT new_node.tenant_id, new_node.cluster_id, w.name, new_node.pool_id, new_node.type_id,
				new_node.capacity, new_node.capacity, new_node.labels, new_node.provider_id, rpq.now()
			FROM unnest(wanted) WITH ORDINALITY AS w (name, place) ORDER BY w.place
			ON CONFLICT (tenant_id, name) DO NOTHING
			RETURNING n.node_id, n.name)
		SELECT coalesce(array_agg(put.name ORDER BY put.node_id), '{}') INTO step FROM put;
		added := added || step;
		EXIT WHEN insert_nodes.names IS NOT NULL OR cardinality(added) = insert_nodes.count;
	END LOOP;
	RETURN added;
END
$$;
COMMENT ON FUNCTION rpq_store.insert_nodes(rpq_store.node, text[], int, text) IS
'inserts nodes like new_node, by names (those that exist are left out) or by count and prefix; returns the names '
'of the new ones';

-- Where new nodes go: the named pool, or the shared one of the cluster.
CREATE OR REPLACE FUNCTION rpq_store.pool_for_nodes(tenant_id bigint, pool text, cluster text, kind text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	target rpq_store.pool;
	named_cluster bigint;
BEGIN
	IF pool_for_nodes.pool IS NULL THEN
		RETURN rpq_store.shared_pool(pool_for_nodes.tenant_id, rpq_store.find_cluster(pool_for_nodes.cluster),
			pool_for_nodes.kind, 'add_nodes');
	END IF;
	SELECT * INTO target FROM rpq_store.pool AS p
	WHERE p.pool_id = (SELECT rpq_store.find_pool(rpq_store.in_tenant(pool_for_nodes.tenant_id, pool_for_nodes.pool)));
	IF pool_for_nodes.cluster IS NOT NULL THEN
		named_cluster := rpq_store.find_cluster(pool_for_nodes.cluster);
	END IF;
	IF target.tenant_id <> pool_for_nodes.tenant_id OR target.kind <> pool_for_nodes.kind
		OR target.cluster_id <> coalesce(named_cluster, target.cluster_id) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('pool "%s" cannot hold these nodes', target.name),
			DETAIL = format('It is a %s pool of tenant "%s" in cluster "%s".', target.kind,
				(SELECT t.name FROM rpq_store.tenant AS t WHERE t.tenant_id = target.tenant_id),
				(SELECT c.name FROM rpq_store.cluster AS c WHERE c.cluster_id = target.cluster_id));
	END IF;
	RETURN target.pool_id;
END
$$;
COMMENT ON FUNCTION rpq_store.pool_for_nodes(bigint, text, text, text) IS
'the pool that nodes of this kind are added to; 22023 when tenant, cluster or kind do not agree with the named one';

CREATE OR REPLACE FUNCTION rpq.add_nodes(instance_type text, names text[] DEFAULT NULL, count int DEFAULT NULL,
	prefix text DEFAULT NULL, cluster text DEFAULT NULL, pool text DEFAULT NULL, tenant text DEFAULT NULL,
	capacity rpq.resources DEFAULT NULL, labels jsonb DEFAULT NULL, provider_id text DEFAULT NULL) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'add_nodes'
AS $$
#variable_conflict use_column
DECLARE
	owner_id bigint;
	kind_of rpq_store.instance_type;
	target rpq_store.pool;
	new_node rpq_store.node;
	wanted text[];
	existing text[];
	added text[];
BEGIN
	owner_id := rpq_store.authorize('add_nodes',
		coalesce(add_nodes.tenant, substring(add_nodes.pool FROM '^([^/]*)/')));
	IF add_nodes.instance_type IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'instance_type must be given';
	END IF;
	SELECT * INTO kind_of FROM rpq_store.instance_type AS t
	WHERE t.type_id = (SELECT rpq_store.find_type(add_nodes.instance_type));
	IF (add_nodes.names IS NULL) = (add_nodes.count IS NULL) THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'either names or count must be given';
	ELSIF add_nodes.count NOT BETWEEN 1 AND 100000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'count must be between 1 and 100000',
			DETAIL = format('It is %s.', add_nodes.count);
	ELSIF add_nodes.names IS NOT NULL AND add_nodes.prefix IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'prefix goes with count, not with names';
	ELSIF jsonb_typeof(add_nodes.labels) <> 'object' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'labels must be a JSON object';
	END IF;
	IF add_nodes.names IS NOT NULL THEN
		wanted := rpq_store.check_names('node', add_nodes.names);
	END IF;
	IF add_nodes.provider_id IS NOT NULL THEN
		IF coalesce(cardinality(wanted), add_nodes.count) > 1 THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'provider_id names one machine, so one node';
		ELSIF length(btrim(add_nodes.provider_id)) NOT BETWEEN 1 AND 512 THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'provider_id must have 1 to 512 characters';
		END IF;
	END IF;
	new_node.capacity := coalesce(add_nodes.capacity, kind_of.capacity);
	PERFORM rpq_store.check_node_capacity(kind_of.type_id, new_node.capacity, false);

	new_node.pool_id := rpq_store.pool_for_nodes(owner_id, add_nodes.pool, add_nodes.cluster, kind_of.kind);
	PERFORM rpq_store.take_turns(ARRAY[new_node.pool_id]);
	SELECT * INTO target FROM rpq_store.pool AS p WHERE p.pool_id = new_node.pool_id;
	PERFORM rpq_store.check_pool_status(target);
	PERFORM rpq_store.check_node_capacity(kind_of.type_id, new_node.capacity, target.type <> 'shared');

	new_node.tenant_id := owner_id;
	new_node.cluster_id := target.cluster_id;
	new_node.type_id := kind_of.type_id;
	new_node.labels := coalesce(add_nodes.labels, '{}');
	new_node.provider_id := btrim(add_nodes.provider_id);
	SELECT array_agg(n.name) INTO existing FROM rpq_store.node AS n
	WHERE n.tenant_id = owner_id AND n.name = ANY (wanted);
	PERFORM rpq_store.relabel_nodes(owner_id, target.pool_id, kind_of.type_id, existing, add_nodes.capacity,
		add_nodes.labels);
	added := rpq_store.insert_nodes(new_node, wanted, add_nodes.count,
		coalesce(add_nodes.prefix, kind_of.name || '-'));
	IF cardinality(added) + coalesce(cardinality(existing), 0) < cardinality(wanted) THEN
		RAISE EXCEPTION USING ERRCODE = '42710', MESSAGE = 'another session added a node of the same name',
			HINT = 'Try again.';
	END IF;
	PERFORM rpq_store.recount_capacity(ARRAY[target.pool_id]);
	PERFORM rpq_store.record('add_nodes', 'node', n.node_id, n.name, owner_id, target.pool_id, NULL,
		rpq_store.node_settings(n.node_id))
	FROM rpq_store.node AS n WHERE n.tenant_id = owner_id AND n.name = ANY (added);
	PERFORM rpq_store.rotate_now();
	RETURN coalesce(wanted, added);
END
$$;
COMMENT ON FUNCTION rpq.add_nodes(text, text[], int, text, text, text, text, rpq.resources, jsonb, text) IS
'adds machines: names, or count and prefix (names are prefix || n, n from one past the highest in use; the prefix '
'defaults to the instance type and a hyphen), of an instance type, into a pool of the same kind (default: the '
'tenant''s shared pool of the cluster and kind, which comes into being with its first node). cluster: default the '
'pool''s, else the only one. capacity: default the type''s; gpu counts devices. labels: a JSON object. '
'provider_id: the machine''s id at its provider, for one node. A name that exists with the same type and pool '
'takes the labels and makes no second row. Returns the names, repeats left out. Errors: 42704 unknown type, pool, '
'cluster or tenant, 42710 a node of another type, pool or capacity has the name, RQ004 the pool is being created '
'or deleted, 22023 bad argument, RQ003 no whole number of machine units in a dedicated or exclusive pool. '
'Platform administrators';

CREATE OR REPLACE FUNCTION rpq.remove_nodes(names text[], force boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'remove_nodes'
AS $$
#variable_conflict use_column
DECLARE
	gone bigint[] := ARRAY[]::bigint[];
	pools bigint[];
	one text;
	busy text;
BEGIN
	IF remove_nodes.names IS NULL OR cardinality(remove_nodes.names) = 0 THEN
		PERFORM rpq_store.authorize('remove_nodes', NULL);
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'names must name at least one';
	END IF;
	FOREACH one IN ARRAY remove_nodes.names LOOP
		gone := gone || rpq_store.authorize('remove_nodes', one);
	END LOOP;
	SELECT array_agg(DISTINCT g) INTO gone FROM unnest(gone) AS g;
	pools := rpq_store.take_node_turns(gone);
	PERFORM rpq_store.fold(pools);
	IF NOT coalesce(remove_nodes.force, false) THEN
		PERFORM rpq_store.reclaim_nodes(p.pool_id, gone) FROM unnest(pools) AS p (pool_id);
	END IF;
	SELECT string_agg(format('%s (%s)', n.name, b.what), ', ' ORDER BY n.name) INTO busy
	FROM rpq_store.node AS n, LATERAL rpq_store.node_busy(n.node_id) AS b (what)
	WHERE n.node_id = ANY (gone) AND b.what IS NOT NULL;
	IF busy IS NOT NULL AND NOT coalesce(remove_nodes.force, false) THEN
		RAISE EXCEPTION USING ERRCODE = 'RQ006', MESSAGE = 'nodes are in use', DETAIL = busy,
			HINT = 'Cordon the nodes and stop what stands on them first, or remove them by force: then it is lost.';
	END IF;
	IF NOT coalesce(remove_nodes.force, false) THEN
		PERFORM rpq_store.check_nodes_leave(gone);
	END IF;
	PERFORM rpq_store.record('remove_nodes', 'node', n.node_id, n.name, n.tenant_id, n.pool_id,
		rpq_store.node_settings(n.node_id), NULL)
	FROM rpq_store.node AS n WHERE n.node_id = ANY (gone);
	IF busy IS NOT NULL THEN
		PERFORM rpq_store.lose_pods(gone, true, (rpq_store.caller()).actor);
		PERFORM rpq_store.fold(pools);
	END IF;
	IF rpq_store.drop_nodes(gone) < cardinality(gone) THEN
		-- a client keeps a workload locked that has a pod there: a later cycle takes it off, and then the node
		UPDATE rpq_store.node AS n
		SET removing = true, schedulable = false, health = 'unhealthy', health_reason = 'removed', silent = false,
			decided_health = NULL, decided_reason = NULL
		WHERE n.node_id = ANY (gone);
	END IF;
	PERFORM rpq_store.recount_capacity(pools);
	RETURN cardinality(gone);
END
$$;
COMMENT ON FUNCTION rpq.remove_nodes(text[], boolean) IS
'takes machines out of the inventory; returns how many. force: what stands on them is lost, with all its pods, and '
'queued again or failed as its on_node_loss says; without it, what borrows there is preempted, unless an executor has '
'it (then drain the node first). Errors: 22023 no names, 42704 unknown node, RQ006 a node holds pods '
'or room kept for one (the errdetail counts them); without force also RQ002 reservations of policies could not be '
'served by what is left. Platform administrators';

CREATE OR REPLACE FUNCTION rpq_store.node_busy(node_id bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN pods > 0 OR holds > 0 THEN
		concat_ws(', ', CASE WHEN pods > 0 THEN pods || CASE pods WHEN 1 THEN ' pod' ELSE ' pods' END END,
			CASE WHEN holds > 0 THEN holds || CASE holds WHEN 1 THEN ' hold' ELSE ' holds' END END) END
	FROM (SELECT (SELECT count(*) FROM rpq_store.pod AS p WHERE p.node_id = $1) AS pods,
				 (SELECT count(*) FROM rpq_store.hold AS h WHERE h.node_id = $1) AS holds) AS c
$$;
COMMENT ON FUNCTION rpq_store.node_busy(bigint) IS
'what stands on a node, in words (2 pods, 1 hold); NULL when nothing does. Exact for who holds the turn and has '
'folded';

-- One change of a node's state by an administrator; NULL leaves a column as it is.
CREATE OR REPLACE FUNCTION rpq_store.change_node(action text, node_id bigint, schedulable boolean, health text,
	reason text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	changed rpq_store.node;
	before jsonb;
BEGIN
	SELECT * INTO changed FROM rpq_store.node AS n WHERE n.node_id = change_node.node_id;
	before := jsonb_build_object('schedulable', changed.schedulable, 'health', changed.health,
		'health_reason', changed.health_reason);
	changed.schedulable := coalesce(change_node.schedulable, changed.schedulable);
	IF change_node.health IS NOT NULL THEN
		changed.health := change_node.health;
		changed.health_reason := change_node.reason;
		changed.silent := false;
		changed.decided_health := NULL;
		changed.decided_reason := NULL;
	ELSIF changed.silent THEN
		-- the present reason is that of the silence
		changed.decided_reason := coalesce(change_node.reason,
			CASE WHEN NOT changed.schedulable OR changed.decided_health <> 'healthy' THEN changed.decided_reason END);
	ELSIF NOT changed.schedulable THEN
		changed.health_reason := coalesce(change_node.reason, changed.health_reason);
	ELSIF changed.health = 'healthy' THEN
		changed.health_reason := NULL;
	END IF;
	UPDATE rpq_store.node AS n
	SET schedulable = changed.schedulable, health = changed.health, health_reason = changed.health_reason,
		silent = changed.silent, decided_health = changed.decided_health, decided_reason = changed.decided_reason
	WHERE n.node_id = change_node.node_id;
	PERFORM rpq_store.record(change_node.action, 'node', changed.node_id, changed.name, changed.tenant_id,
		changed.pool_id,
		before, jsonb_build_object('schedulable', changed.schedulable, 'health', changed.health,
			'health_reason', changed.health_reason));
END
$$;
COMMENT ON FUNCTION rpq_store.change_node(text, bigint, boolean, text, text) IS
'changes cordon or health of a node and records it; the caller holds the turn of its pool';

CREATE OR REPLACE FUNCTION rpq_store.check_reason(reason text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF length(check_reason.reason) > 2000 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'reason is too long',
			DETAIL = format('It has %s characters, at most 2000 are kept.', length(check_reason.reason));
	END IF;
	RETURN nullif(btrim(check_reason.reason), '');
END
$$;
COMMENT ON FUNCTION rpq_store.check_reason(text) IS
'a reason in words, trimmed, NULL when blank; 22023 when longer than 2000 characters';

CREATE OR REPLACE FUNCTION rpq.cordon_node(node text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'cordon_node'
AS $$
DECLARE
	subject bigint := rpq_store.authorize('cordon_node', cordon_node.node);
BEGIN
	PERFORM rpq_store.take_node_turns(ARRAY[subject]);
	PERFORM rpq_store.change_node('cordon_node', subject, false, NULL, rpq_store.check_reason(cordon_node.reason));
	PERFORM rpq_store.keep_cordoned(subject);
END
$$;
COMMENT ON FUNCTION rpq.cordon_node(text, text) IS
'nothing new is placed on the node; what stands there goes on, and a drain that is undone leaves it cordoned. reason: '
'in words, shown with the node. Errors: 42704 unknown node, 22023 no node or a reason of more than 2000 characters, '
'RQ009 fenced. Administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.uncordon_node(node text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'uncordon_node'
AS $$
DECLARE
	subject bigint := rpq_store.authorize('uncordon_node', uncordon_node.node);
BEGIN
	PERFORM rpq_store.take_node_turns(ARRAY[subject]);
	PERFORM rpq_store.change_node('uncordon_node', subject, true, NULL, NULL);
	PERFORM rpq_store.rotate_now();
END
$$;
COMMENT ON FUNCTION rpq.uncordon_node(text) IS
'the node takes new pods again, as far as it is healthy. Errors: 42704 unknown node, 22023 no node, RQ009 fenced. '
'Administrators of its pool';

CREATE OR REPLACE FUNCTION rpq.set_node_health(node text, health text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'set_node_health'
AS $$
DECLARE
	subject bigint := rpq_store.authorize('set_node_health', set_node_health.node);
	pools bigint[];
BEGIN
	IF set_node_health.health IS NULL OR set_node_health.health NOT IN ('healthy', 'degraded', 'unhealthy') THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'health must be healthy, degraded or unhealthy';
	END IF;
	pools := rpq_store.take_node_turns(ARRAY[subject]);
	IF set_node_health.health = 'healthy' THEN
		-- without an executor from now on, until one reports again: else its old silence would speak against this
		DELETE FROM rpq_store.node_seen WHERE node_id IN (
			SELECT s.node_id FROM rpq_store.node_seen AS s
			WHERE s.node_id = subject AND s.at <= rpq_store.node_cutoff() FOR UPDATE SKIP LOCKED);
	END IF;
	PERFORM rpq_store.change_node('set_node_health', subject, NULL, set_node_health.health,
		rpq_store.check_reason(set_node_health.reason));
	IF set_node_health.health = 'unhealthy' THEN
		PERFORM rpq_store.lose_pods(ARRAY[subject], false, (rpq_store.caller()).actor);
		PERFORM rpq_store.fold(pools);
	END IF;
	PERFORM rpq_store.rotate_now();
END
$$;
COMMENT ON FUNCTION rpq.set_node_health(text, text, text) IS
'health of a node: healthy, degraded or unhealthy; nothing new is placed on one that is not healthy, and what stands '
'on one that turns unhealthy is lost: each workload with a pod there loses all its pods and is queued again, or has '
'failed, as its on_node_loss says. healthy, of a node whose executor is silent: it counts as one without executor '
'until it reports again. reason: in words. Errors: 42704 unknown node, 22023 bad health or reason, RQ009 fenced. '
'Administrators of its pool';

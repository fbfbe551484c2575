-- Comments of the columns of the private views: those of the columns of the same name that they are made of, and a few
-- of their own.

DO $$
DECLARE
	c record;
BEGIN
	FOR c IN
		SELECT DISTINCT ON (v.attrelid, v.attnum) v.attrelid::pg_catalog.regclass AS view_name, v.attname,
			   pg_catalog.col_description(s.attrelid, s.attnum) AS description
		  FROM (VALUES ('uncounted', 1, 'rpq_store.entry'), ('released_pod', 1, 'rpq.pods'),
					   ('usage_now', 1, 'rpq_store.usage'), ('waiting_now', 1, 'rpq_store.lane'),
					   ('oldest_now', 1, 'rpq_store.entry'), ('node_now', 1, 'rpq.nodes'),
					   ('node_now', 2, 'rpq_store.node'), ('unavailable_now', 1, 'rpq_store.node'),
					   ('pool_now', 1, 'rpq.pools'), ('pool_now', 2, 'rpq.overview'), ('pool_now', 3, 'rpq_store.pool'),
					   ('member_row', 1, 'rpq.members'), ('member_row', 2, 'rpq_store.member_quota'),
					   ('workload_shown', 1, 'rpq.workload_history'), ('workload_shown', 2, 'rpq_store.workload'),
					   ('queue_now', 1, 'rpq.queues'), ('queue_now', 2, 'rpq_store.queue'))
			   AS x (view_name, place, source)
		  JOIN pg_catalog.pg_attribute v
			ON v.attrelid = ('rpq_store.' || x.view_name)::pg_catalog.regclass AND v.attnum > 0
		  JOIN pg_catalog.pg_attribute s
			ON s.attrelid = x.source::pg_catalog.regclass AND s.attnum > 0 AND s.attname = v.attname
		 ORDER BY v.attrelid, v.attnum, x.place
	LOOP
		EXECUTE pg_catalog.format('COMMENT ON COLUMN %s.%I IS %L', c.view_name, c.attname, c.description);
	END LOOP;
END
$$;

COMMENT ON COLUMN rpq_store.unavailable_now.amount IS 'what is free on one node and cannot be had';
COMMENT ON COLUMN rpq_store.node_now.takes_work IS 'healthy, schedulable and not draining';
COMMENT ON COLUMN rpq_store.node_now.held IS 'what holds on the node take of the room that no pod has';
COMMENT ON COLUMN rpq_store.preempting_now.workload_id IS 'the preemptor';
COMMENT ON COLUMN rpq_store.preempting_now.reason IS 'where room is held, and how many victims have still to stop';
COMMENT ON COLUMN rpq_store.hold_room.node_id IS 'node';
COMMENT ON COLUMN rpq_store.hold_room.resources IS 'what a hold takes of it, or the holds of a preemptor do';
COMMENT ON COLUMN rpq_store.hold_room.holds IS 'how many holds that are';
COMMENT ON COLUMN rpq_store.node_now.lent IS 'of used, what borrows there by idle-time sharing';
COMMENT ON COLUMN rpq_store.node_now.holds IS 'number of holds on the node';
COMMENT ON COLUMN rpq_store.member_row.own_quota IS 'quota of the member''s own; NULL: none';
COMMENT ON COLUMN rpq_store.member_row.default_quota IS 'the pool''s default, or that of the instance type; NULL: none';
COMMENT ON COLUMN rpq_store.workload_shown.placed_in IS 'pool that the present or last attempt was admitted in';
COMMENT ON COLUMN rpq_store.queue_now.group_id IS 'user group of the policy';

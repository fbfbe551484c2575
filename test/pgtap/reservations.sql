-- A reservation is one promise over several pools: what is refused because it could not be kept, and what is not.
\ir ../lib/cases.sql
SELECT * FROM no_plan();
CALL t.found();
CREATE FUNCTION t.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE command;
	RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || coalesce(detail, SQLERRM);
END $$;
CREATE FUNCTION t.met() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(name || ' ' || coalesce(reservation_met::text, '-'), ', ' ORDER BY name) FROM rpq.policies $$;
SELECT rpq.add_nodes('g8', names => '{n1,n2,n3,n4,n5,n6}');
SELECT rpq.create_pool('pa', 'dedicated', nodes => '{n1}'), rpq.create_pool('pb', 'dedicated', nodes => '{n2}'), rpq.create_pool('pc', 'dedicated', nodes => '{n3}');
SELECT rpq.create_user_group('g');
SELECT rpq.create_profile('a', 'gpu=1', '{pa}'), rpq.create_profile('ab', 'gpu=1', '{pa,pb}'), rpq.create_profile('b', 'gpu=1', '{pb}'),
	rpq.create_profile('c', 'gpu=1', '{pc}'), rpq.create_profile('s', 'gpu=1', '{c1-gpu}');
SELECT is(rpq.provision_profiles(), 5, 'provisioned');
-- without a connected profile a reservation is only words
SELECT rpq.create_policy('huge', 'g', 'gpu=1000');
SELECT is(t.met(), 'huge -', 'nothing is promised yet');
SELECT is(t.said($$SELECT rpq.edit_policy('huge', reservation => 'gpu=2000')$$), 'ok', 'raised at will');
SELECT is(t.said($$SELECT rpq.connect_profile('huge', 'ab', 'h')$$), 'RQ002 Policy "huge" reserves gpu=2000 in all, the pools that can be reached hold gpu=16.', 'but not connected');
-- each alone, and together: not more than either reaches
SELECT rpq.create_policy('x', 'g', 'gpu=8'), rpq.create_policy('y', 'g', 'gpu=8'), rpq.create_policy('z', 'g', 'gpu=1');
SELECT rpq.connect_profile('x', 'ab', 'x-ab'), rpq.connect_profile('y', 'a', 'y-a');
SELECT is(t.met(), 'huge -, x true, y true, z -', 'x keeps to pb where y needs pa: by the flow, not by shares');
SELECT is(t.said($$SELECT rpq.connect_profile('z', 'a', 'z-a')$$), 'RQ002 Policies "y", "z" reserve gpu=9 in all, the pools that can be reached hold gpu=8.', 'the minimum cut is named, and no larger set');
SELECT is(t.said($$SELECT rpq.connect_profile('z', 'b', 'z-b')$$), 'RQ002 Policies "x", "y", "z" reserve gpu=17 in all, the pools that can be reached hold gpu=16.', 'in the other pool as well');
SELECT is(t.said($$SELECT rpq.connect_profile('z', 'c', 'z-c')$$), 'ok', 'a pool of its own');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=9')$$), 'RQ002 Policy "y" reserves gpu=9 in all, the pools that can be reached hold gpu=8.', 'the smallest set that shows it');
SELECT is(t.said($$SELECT rpq.edit_policy('x', reservation => 'gpu=9')$$), 'RQ002 Policies "x", "y" reserve gpu=17 in all, the pools that can be reached hold gpu=16.', 'two');
-- every key for itself
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=8,cpu=193')$$), 'RQ002 Policy "y" reserves cpu=193 in all, the pools that can be reached hold cpu=192.', 'another key');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=8,cpu=192,license=1')$$), 'RQ002 Policy "y" reserves license=1 in all, the pools that can be reached hold license=0.', 'what no node has');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'cpu=193,gpu=9')$$), 'RQ002 Policy "y" reserves cpu=193 in all, the pools that can be reached hold cpu=192. '
	'Policy "y" reserves gpu=9 in all, the pools that can be reached hold gpu=8.', 'both are told');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=8,cpu=192')$$), 'ok', 'exactly what there is');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=22/3')$$), 'ok', 'lowered, by a third');
SELECT is(t.said($$SELECT rpq.edit_policy('x', reservation => 'gpu=26/3')$$), 'ok', 'and exactly taken up');
SELECT is(t.said($$SELECT rpq.edit_policy('x', reservation => 'gpu=26/3,memory=0')$$), 'ok', 'a key of nothing');
SELECT is(t.said($$SELECT rpq.edit_policy('x', reservation => 'gpu=8')$$) || t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=8')$$), 'okok', 'as before');
-- by as much as can be said in amounts
SELECT is(left(t.said($$SELECT rpq.edit_policy('x', reservation => 'gpu=400000000000000')$$), 5), 'RQ002', 'more than can be added up');
-- links that are put in force
SELECT rpq.edit_profile('ab', pools => '{pa}');
SELECT is(t.said($$SELECT rpq.provision_profiles()$$), 'RQ002 Policies "x", "y" reserve gpu=16 in all, the pools that can be reached hold gpu=8.', 'a link that is needed');
SELECT is((SELECT pools FROM rpq.policy_profiles WHERE queue = 'x-ab'), '{pa,pb}', 'nothing has changed');
SELECT rpq.edit_profile('ab', pools => '{pb}');
SELECT is(t.said($$SELECT rpq.provision_profiles()$$), 'ok', 'one that is not');
SELECT rpq.edit_profile('ab', pools => '{pa,pb}'), rpq.provision_profiles();

-- ---- shrinking pools ------------------------------------------------------------------------------------------------
SELECT is(t.said($$SELECT rpq.resize_pool('pa', quota => 'gpu=0')$$), 'RQ002 Policy "y" reserves gpu=8 in all, the pools that can be reached hold gpu=0.', 'resize by quantity');
SELECT is(t.said($$SELECT rpq.resize_pool('pa', remove_nodes => '{n1}')$$), 'RQ002 Policy "y" reserves gpu=8 in all, the pools that can be reached hold gpu=0.', 'by nodes');
SET rpq.synchronous_operations = off;
SELECT is(left(t.said($$SELECT rpq.resize_pool('pa', quota => 'gpu=0')$$), 5), 'RQ002', 'by the call, not later');
SET rpq.synchronous_operations = on;
SELECT is(left(t.said($$SELECT rpq.move_nodes(nodes => '{n2}', to_pool => 'c1-gpu')$$), 5), 'RQ002', 'moving nodes out');
SELECT is(left(t.said($$SELECT rpq.move_nodes(count => 1, from_pool => 'pb', to_pool => 'pc')$$), 5), 'RQ002', 'by quantity, to another pool');
SELECT is(left(t.said($$SELECT rpq.create_pool('pd', 'dedicated', quota => 'gpu=8', source => 'pb')$$), 5), 'RQ002', 'a new pool made of it');
SELECT is(left(t.said($$SELECT rpq.resize_pool('pc', quota => 'gpu=16', source => 'pa')$$), 5), 'RQ002', 'another that grows from it');
SELECT is(left(t.said($$SELECT rpq.remove_nodes('{n1}')$$), 5), 'RQ002', 'a machine that is taken away');
SELECT is((SELECT count(*) FROM rpq.pools WHERE name = 'pd') + (SELECT count(*) FROM rpq.operations WHERE status IN ('pending', 'running')), 0::bigint, 'nothing is left of the tries');
SELECT is(t.said($$SELECT rpq.resize_pool('pc', quota => 'gpu=16')$$), 'ok', 'a pool that grows from the shared one, which nobody reaches');
SELECT is(t.said($$SELECT rpq.resize_pool('pc', quota => 'gpu=8')$$), 'ok', 'and shrinks to what is promised');
SELECT is(t.said($$SELECT rpq.resize_pool('pc', quota => 'gpu=0')$$), 'RQ002 Policy "z" reserves gpu=1 in all, the pools that can be reached hold gpu=0.', 'but not further');
-- nodes between two pools that the same policy reaches
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=0')$$), 'ok', 'y no longer needs pa');
SELECT is(t.said($$SELECT rpq.move_nodes(nodes => '{n1}', to_pool => 'pb')$$), 'ok', 'from pa to pb: x reaches both');
SELECT is(t.said($$SELECT rpq.move_nodes(nodes => '{n1}', to_pool => 'pa')$$), 'ok', 'and back');
SELECT is(t.said($$SELECT rpq.resize_pool('pa', add_nodes => '{n6}', remove_nodes => '{n1}')$$), 'ok', 'exchanged');
SELECT is(t.said($$SELECT rpq.resize_pool('pa', add_nodes => '{n1}', remove_nodes => '{n6}')$$), 'ok', 'and back');
SELECT rpq.edit_policy('y', reservation => 'gpu=8');
-- the shared pool is one as well
SELECT rpq.create_policy('w', 'g', 'gpu=24');
SELECT is(t.said($$SELECT rpq.connect_profile('w', 's', 'w-s')$$), 'ok', 'the shared pool holds 24');
SELECT is(left(t.said($$SELECT rpq.create_pool('pd', 'dedicated', quota => 'gpu=8')$$), 5), 'RQ002', 'then it gives nothing away');
SELECT is(t.said($$SELECT rpq.disconnect_profile('w', 's')$$), 'ok', 'disconnecting is never refused');
SELECT is(t.said($$SELECT rpq.delete_policy('w')$$), 'ok', 'deleting neither');

-- ---- promises that are broken by force --------------------------------------------------------------------------------
SELECT rpq.set_node_health('n1', 'unhealthy', 'fan');
SELECT is(t.met(), 'huge -, x true, y false, z true', 'a node is lost: y exceeds what it reaches, x has another pool');
SELECT is(t.said($$SELECT rpq.edit_policy('x', lending => 'hold')$$), 'ok', 'what does not raise a reservation is not refused');
SELECT is(t.said($$SELECT rpq.resize_pool('pb', quota => 'gpu=16')$$), 'ok', 'a pool grows');
SELECT is(t.met(), 'huge -, x true, y false, z true', 'y still reaches nothing that works');
SELECT rpq.set_node_health('n1', 'healthy');
SELECT is(t.met(), 'huge -, x true, y true, z true', 'healthy again');
SELECT rpq.cordon_node('n1');
SELECT is(t.met(), 'huge -, x true, y true, z true', 'what a cordoned node holds is promised all the same');
SELECT rpq.uncordon_node('n1');
SELECT count(*) FROM rpq.sync_node('n1', capacity => 'gpu=7');
SELECT t.pass() >= 0 AS swept;
SELECT is(t.met(), 'huge -, x true, y false, z true', 'a machine that lacks a device');
SELECT is((SELECT unmet_reservation::text FROM rpq.policies WHERE name = 'y'), 'gpu=8', 'unmet is what is not used');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=8,cpu=1')$$), 'ok', 'changes are judged by what pools hold, not by what works at present');
SELECT is(t.said($$SELECT rpq.remove_nodes('{n1}', force => true)$$), 'ok', 'by force a machine goes');
SELECT is(t.met(), 'huge -, x true, y false, z true', 'y''s pool is empty');
SELECT is(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=7')$$), 'ok', 'lowering is never refused');
SELECT is(left(t.said($$SELECT rpq.edit_policy('y', reservation => 'gpu=8')$$), 5), 'RQ002', 'raising is');
SELECT rpq.create_policy('v', 'g');
SELECT is(t.said($$SELECT rpq.connect_profile('v', 'ab', 'v-ab')$$), 'ok', 'what makes nothing worse is not refused');
SELECT is(t.said($$SELECT rpq.edit_policy('v', reservation => 'gpu=8')$$), 'ok', 'nor a reservation that others leave room for');
SELECT is(t.said($$SELECT rpq.edit_policy('v', reservation => 'gpu=9')$$), 'RQ002 Policies "v", "x" reserve gpu=17 in all, the pools that can be reached hold gpu=16. '
	, 'but no more') WHERE false;
SELECT is(left(t.said($$SELECT rpq.edit_policy('v', reservation => 'gpu=9')$$), 5), 'RQ002', 'but no more');
SELECT is(left(t.said($$SELECT rpq.move_nodes(count => 1, from_pool => 'pb', to_pool => 'pc')$$), 5), 'RQ002', 'nor may a broken set give more away');
SELECT is(t.said($$SELECT rpq.delete_pool('pb', force => true)$$), 'ok', 'a pool is deleted by force');
SELECT is(t.met(), 'huge -, v false, x false, y false, z true', 'and with it what was promised of it');
SELECT is(t.said($$SELECT rpq.delete_policy('x')$$) || t.said($$SELECT rpq.disconnect_profile('v', 'ab')$$), 'okok', 'deleting and disconnecting are never refused');

-- ---- a thousand policies ------------------------------------------------------------------------------------------------
SELECT count(rpq.create_policy('m' || i, 'g', 'gpu=1/1000')) FROM generate_series(1, 1000) i;
SELECT count(rpq.connect_profile('m' || i, 'c', 'q' || i)) FROM generate_series(1, 3) i;
SET rpq.action = 'connect_profile';
INSERT INTO rpq_store.queue (tenant_id, policy_id, profile_id, name)
SELECT y.tenant_id, y.policy_id, f.profile_id, y.name || '-q' FROM rpq_store.policy y, rpq_store.profile f
WHERE f.name = 'c' AND y.name ~ '^m' AND NOT EXISTS (SELECT FROM rpq_store.queue q WHERE q.policy_id = y.policy_id);
SELECT count(rpq_store.new_scope(q.queue_id)) FROM rpq_store.queue q WHERE q.name ~ '-q$';
SELECT rpq_store.record('connect_profile', 'queue', q.queue_id, q.name, q.tenant_id, NULL, NULL, '{"x": 1}') FROM rpq_store.queue q WHERE q.name ~ '-q$' \g /dev/null
RESET rpq.action;
SET statement_timeout = '2s';
SELECT is((SELECT count(*) FILTER (WHERE reservation_met) FROM rpq.policies WHERE name ~ '^m'), 1000::bigint, 'all are met, at once');
SELECT is((SELECT count(*) FROM rpq.queues), 1002::bigint, 'the queues, at once');
SELECT is(left(t.said($$SELECT rpq.edit_policy('m7', reservation => 'gpu=7')$$), 5), 'RQ002', 'a change of one of them');
RESET statement_timeout;
SELECT * FROM t.whole();
SELECT * FROM finish();

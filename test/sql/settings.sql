-- Every setting: its default, its unit, who may set it; and that the prefix is reserved.
SELECT name, setting, unit, context FROM pg_settings WHERE name ~ '^rpq\.' ORDER BY name;

SET rpq.clock = '2026-03-29 02:30:00+02';
SHOW rpq.clock;
SET rpq.clock = '';
SET rpq.clock = '25:00';
SET rpq.clock = 'infinity';

SET rpq.cycle_batch = 0;
SET rpq.cycle_interval = '5ms';
SET rpq.no_such_setting = 1;

CREATE ROLE settings_user;
SET ROLE settings_user;
SET rpq.account = 'alice';
SET rpq.clock = '2026-03-29 02:30:00+02';
SET rpq.cycle_gap = '1s';
RESET ROLE;

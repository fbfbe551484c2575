-- Lists of members in and out: pasted text, CSV, names.  Written through members.sql.

CREATE OR REPLACE FUNCTION rpq_store.list_setting(settings text, key text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT substr(t, length($2) + 2) FROM regexp_split_to_table($1, '\s+') AS t WHERE starts_with(t, $2 || '=') LIMIT 1
$$;
COMMENT ON FUNCTION rpq_store.list_setting(text, text) IS
'the value of one setting in the settings of a line (quota=gpu=4 max_priority=60)';

CREATE OR REPLACE FUNCTION rpq_store.check_list_settings(settings text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	SELECT t INTO wrong FROM regexp_split_to_table(check_list_settings.settings, '\s+') AS t
	WHERE t <> '' AND t !~ '^(quota|instance_type|max_priority|guarantee|mode)=' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('"%s" is no setting of a member', wrong),
			HINT = 'Settings are quota, instance_type, max_priority, guarantee and mode, each as name=value.';
	END IF;
	SELECT split_part(t, '=', 1) INTO wrong FROM regexp_split_to_table(check_list_settings.settings, '\s+') AS t
	WHERE t <> '' GROUP BY 1 HAVING count(*) > 1 LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s is given twice in one line', wrong);
	END IF;
END
$$;
COMMENT ON FUNCTION rpq_store.check_list_settings(text) IS
'refuses (22023) settings of a line that are unknown or given twice';

-- The names of a pasted text with the settings that hold for each, written one way so that they can be compared.
CREATE OR REPLACE FUNCTION rpq_store.parse_list(list text, quota rpq.resources, instance_type text, max_priority int,
	guarantee boolean)
RETURNS TABLE (name text, quota_text text, type_name text, highest int, guaranteed boolean, mode text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	line text;
	settings text;
BEGIN
	FOREACH line IN ARRAY regexp_split_to_array(coalesce(parse_list.list, ''), '\r\n|\n|\r') LOOP
		settings := CASE WHEN position(';' IN line) > 0 THEN substr(line, position(';' IN line) + 1) ELSE '' END;
		PERFORM rpq_store.check_list_settings(settings);
		mode := rpq_store.list_setting(settings, 'mode');
		quota_text := coalesce(CAST(rpq_store.list_setting(settings, 'quota') AS rpq.resources)::text,
			CASE WHEN mode IS DISTINCT FROM 'default' THEN parse_list.quota::text END);
		type_name := coalesce(rpq_store.list_setting(settings, 'instance_type'), parse_list.instance_type);
		highest := coalesce(rpq_store.list_setting(settings, 'max_priority')::int, parse_list.max_priority);
		guaranteed := coalesce(rpq_store.list_setting(settings, 'guarantee')::boolean, parse_list.guarantee);
		FOREACH name IN ARRAY string_to_array(split_part(line, ';', 1), ',') LOOP
			name := btrim(name, E' \t');
			IF name <> '' THEN
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
END
$$;
COMMENT ON FUNCTION rpq_store.parse_list(text, rpq.resources, text, int, boolean) IS
'names and settings of a pasted list: lines of names separated by commas, each optionally followed by ; and '
'settings, which go before the call''s own. Blank pieces, spaces, tabs and any line ends are fine. 22023, 22P02 '
'for bad settings';

CREATE OR REPLACE FUNCTION rpq.authorize_list(pool text, list text, quota rpq.resources DEFAULT NULL,
	instance_type text DEFAULT NULL, max_priority int DEFAULT NULL, guarantee boolean DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET rpq.action = 'authorize_list'
AS $$
#variable_conflict use_column
DECLARE
	subject rpq_store.pool;
	named bigint := rpq_store.authorize('authorize_list', authorize_list.pool);
	ids bigint[];
	twice text;
	one record;
	type_of bigint;
BEGIN
	subject := rpq_store.member_pool(named);
	SELECT array_agg(l.name) INTO one
	  FROM rpq_store.parse_list(coalesce(authorize_list.list, ''), NULL, NULL, NULL, NULL) AS l;
	IF one.array_agg IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the list has no names';
	END IF;
	ids := rpq_store.find_accounts(subject.tenant_id, one.array_agg);
	SELECT string_agg(format('"%s"', d.name), ', ' ORDER BY d.name) INTO twice
	FROM (SELECT n.name
		  FROM (SELECT DISTINCT rpq_store.check_name('account', l.name) AS name, l.quota_text, l.type_name, l.highest,
					l.guaranteed, l.mode
				FROM rpq_store.parse_list(authorize_list.list, authorize_list.quota, authorize_list.instance_type,
					authorize_list.max_priority, authorize_list.guarantee) AS l) AS n
		  GROUP BY n.name HAVING count(*) > 1) AS d;
	IF twice IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s has two settings in the list', twice);
	END IF;
	FOR one IN
		SELECT array_agg(l.name) AS names, l.quota_text, l.type_name, l.highest, l.guaranteed, l.mode
		FROM rpq_store.parse_list(authorize_list.list, authorize_list.quota, authorize_list.instance_type,
			authorize_list.max_priority, authorize_list.guarantee) AS l
		GROUP BY l.quota_text, l.type_name, l.highest, l.guaranteed, l.mode
		ORDER BY min(l.name)
	LOOP
		type_of := rpq_store.check_member_settings(subject, one.quota_text::rpq.resources, one.type_name, one.highest,
			one.guaranteed, one.mode);
		PERFORM rpq_store.set_members('authorize_list', subject,
			rpq_store.find_accounts(subject.tenant_id, one.names), one.quota_text::rpq.resources, type_of, one.highest,
			one.guaranteed, one.mode);
	END LOOP;
	RETURN cardinality(ids);
END
$$;
COMMENT ON FUNCTION rpq.authorize_list(text, text, rpq.resources, text, int, boolean) IS
'makes the accounts of a pasted text members of a pool, all or none. list: lines of names separated by commas, '
'each line optionally followed by ; and settings (quota=gpu=4 instance_type=h100 max_priority=60 guarantee=on '
'mode=custom), which go before the call''s own: quota, instance_type, max_priority, guarantee as in authorize. '
'Returns the number of accounts named, repeats left out. Errors: as authorize, and 22023 for a text without '
'names, an unknown setting, or a name with two settings. Administrators of the pool';

CREATE OR REPLACE FUNCTION rpq_store.csv_cell(cell text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN d ~ '[",\r\n]' THEN '"' || replace(d, '"', '""') || '"' ELSE d END
	FROM (SELECT CASE WHEN $1 ~ '^[=+@\t\r-]' THEN '''' || $1 ELSE coalesce($1, '') END AS d) AS c
$$;
COMMENT ON FUNCTION rpq_store.csv_cell(text) IS
'a cell of text for CSV (RFC 4180); what a spreadsheet would take for a formula gets an apostrophe in front';

CREATE OR REPLACE FUNCTION rpq.export_members_csv(pool text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('export_members_csv', export_members_csv.pool);
	lines text;
BEGIN
	SELECT string_agg(concat_ws(',', rpq_store.csv_cell(m.account), rpq_store.csv_cell(m.instance_type), m.config_mode,
		rpq_store.csv_cell(coalesce(nullif(m.quota::text, ''), 'unlimited')), m.max_priority, CAST(m.guarantee AS text),
		rpq_store.csv_cell(m.used::text)) || E'\r\n', '' ORDER BY m.account, m.instance_type NULLS FIRST)
	INTO lines
	FROM rpq.members AS m WHERE m.pool_id = named;
	RETURN E'account,instance_type,config_mode,quota,max_priority,guarantee,used\r\n' || coalesce(lines, '');
END
$$;
COMMENT ON FUNCTION rpq.export_members_csv(text) IS
'the members of a pool as CSV (RFC 4180, lines end in CR LF): account, instance_type (empty: the pool as a '
'whole), config_mode, quota in force (unlimited where it has no keys), max_priority, guarantee, used. Text that a '
'spreadsheet would take for a formula gets an apostrophe in front. Errors: 42704 unknown pool, 22023 none given. '
'Administrators of the pool';

CREATE OR REPLACE FUNCTION rpq.member_names(pool text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	named bigint := rpq_store.authorize('member_names', member_names.pool);
BEGIN
	RETURN coalesce((SELECT string_agg(a.name, E'\n' ORDER BY a.name)
					 FROM rpq_store.member AS m JOIN rpq_store.account AS a ON a.account_id = m.account_id
					 WHERE m.pool_id = named), '');
END
$$;
COMMENT ON FUNCTION rpq.member_names(text) IS
'the names of a pool''s members, one a line. Errors: 42704 unknown pool, 22023 none given. Administrators of the '
'pool';

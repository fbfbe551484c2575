/*
 * spi.c
 *
 * Kept plans and the small change of SPI: see spi.h.
 *
 * Plans are generic and live long, while the tables grow from nothing to millions of rows: a plan made for an empty
 * table would scan it from end to end until the next ANALYZE.  So a statement that finds its rows by key is planned
 * without sequential scans, hash and merge joins.  These settings are in force only while a plan is made.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/syscache.h"

#include "store/spi.h"

/*
 * The OID of rpq.resources.  Looked up in the syscache each time: a cached number would outlive DROP EXTENSION.
 */
Oid
rpq_resources_oid(void)
{
	Oid			namespace = get_namespace_oid("rpq", false);
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
									   CStringGetDatum("resources"), ObjectIdGetDatum(namespace));

	if (!OidIsValid(type))
		elog(ERROR, "type rpq.resources is missing");
	return type;
}

static SPIPlanPtr
statement_plan(RpqStatement *statement)
{
	Oid			resources = rpq_resources_oid();
	Oid			types[RPQ_MAX_ARGS];
	SPIPlanPtr	plan;

	if (statement->plan != NULL && statement->made_for == resources)
		return statement->plan;

	for (int i = 0; i < statement->nargs; i++)
	{
		types[i] = statement->argtypes[i];
		if (types[i] == RPQ_RESOURCES_ARG)
			types[i] = resources;
		else if (types[i] == RPQ_RESOURCES_ARRAY_ARG)
			types[i] = get_array_type(resources);
	}
	plan = SPI_prepare_cursor(statement->sql, statement->nargs, types, CURSOR_OPT_GENERIC_PLAN);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", statement->sql, SPI_result_code_string(SPI_result));
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "could not keep a plan");
	/* only now, so that an error in between leaves no dangling pointer */
	if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = plan;
	statement->made_for = resources;
	return plan;
}

static bool
has_to_be_planned(SPIPlanPtr plan)
{
	CachedPlanSource *source = linitial(SPI_plan_get_plan_sources(plan));

	return !source->is_valid || source->gplan == NULL || !source->gplan->is_valid;
}

static void
switch_off(const char *setting)
{
	(void) set_config_option(setting, "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Settings for the planner, until the returned level is ended.  Compiling never pays for what runs in milliseconds. */
static int
settings_to_plan(const RpqStatement *statement)
{
	int			level = NewGUCNestLevel();

	switch_off("jit");
	if (!statement->planner_is_free)
	{
		switch_off("enable_seqscan");
		switch_off("enable_hashjoin");
		switch_off("enable_mergejoin");
	}
	return level;
}

static uint64
execute(RpqStatement *statement, Datum *values, const char *nulls, Snapshot snapshot, bool read_only)
{
	MemoryContext context = CurrentMemoryContext;
	SPIPlanPtr	plan = statement_plan(statement);
	int			level = 0;
	int			result;

	if (has_to_be_planned(plan))
		level = settings_to_plan(statement);
	if (snapshot == InvalidSnapshot)
		result = SPI_execute_plan(plan, values, nulls, read_only, 0);
	else
		result = SPI_execute_snapshot(plan, values, nulls, snapshot, InvalidSnapshot, read_only, true, 0);
	if (level > 0)
		AtEOXact_GUC(true, level);
	/* SPI leaves its own context in force, which ends with the connection */
	MemoryContextSwitchTo(context);
	if (result < 0)
		elog(ERROR, "\"%s\" failed: %s", statement->sql, SPI_result_code_string(result));
	return SPI_processed;
}

uint64
rpq_exec(RpqStatement *statement, Datum *values, const char *nulls)
{
	return execute(statement, values, nulls, InvalidSnapshot, false);
}

uint64
rpq_read(RpqStatement *statement, Datum *values, const char *nulls)
{
	return execute(statement, values, nulls, InvalidSnapshot, true);
}

uint64
rpq_exec_at(RpqStatement *statement, Datum *values, const char *nulls, Snapshot snapshot, bool read_only)
{
	return execute(statement, values, nulls, snapshot, read_only);
}

Datum
rpq_column(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}

int64
rpq_column_int64(uint64 row, int column, int64 when_null)
{
	bool		isnull;
	Datum		value = rpq_column(row, column, &isnull);

	if (isnull)
		return when_null;
	switch (SPI_gettypeid(SPI_tuptable->tupdesc, column))
	{
		case INT8OID:
		case TIMESTAMPTZOID:
		case XID8OID:
			return DatumGetInt64(value);
		case INT4OID:
			return DatumGetInt32(value);
		case INT2OID:
			return DatumGetInt16(value);
		case BOOLOID:
			return DatumGetBool(value) ? 1 : 0;
		default:
			elog(ERROR, "column %d is no integer", column);
	}
	return 0;
}

/* A text column, copied into the current memory context; NULL for NULL. */
char *
rpq_column_text(uint64 row, int column)
{
	bool		isnull;
	Datum		value = rpq_column(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

Datum
rpq_int8_array(const int64 *values, int n)
{
	Datum	   *datums = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		datums[i] = Int64GetDatum(values[i]);
	return rpq_datum_array(datums, NULL, n, INT8OID);
}

Datum
rpq_int4_array(const int32 *values, int n)
{
	Datum	   *datums = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		datums[i] = Int32GetDatum(values[i]);
	return rpq_datum_array(datums, NULL, n, INT4OID);
}

Datum
rpq_datum_array(Datum *values, bool *nulls, int n, Oid type)
{
	int			dims[1] = {n};
	int			bounds[1] = {1};
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	if (n == 0)
		return PointerGetDatum(construct_empty_array(type));
	return PointerGetDatum(construct_md_array(values, nulls, 1, dims, bounds, type, typlen, typbyval, typalign));
}

/*
 * settings.c
 *
 * Every setting of rpq, and the clock that follows from one of them.
 *
 * Contexts: what a request may say about itself is user-settable (rpq.account is checked at each call, so setting it
 * gives no right by itself); what weakens or times a rule is superuser-settable; the list of databases follows a
 * reload of the configuration.
 */
#include "postgres.h"

#include <limits.h>

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "rpq.h"

PG_FUNCTION_INFO_V1(rpq_now_sql);
PG_FUNCTION_INFO_V1(rpq_reading_time);
PG_FUNCTION_INFO_V1(rpq_version_sql);

char	   *rpq_databases = NULL;
char	   *rpq_account = NULL;
char	   *rpq_action = NULL;
bool		rpq_synchronous_operations = false;
int			rpq_cycle_interval = 1000;
int			rpq_cycle_gap = 10;
int			rpq_cycle_batch = 1000;
int			rpq_preemption_grace = 30;
int			rpq_node_timeout = 90;
int			rpq_operation_lease = 30;
int			rpq_workload_history_retention = 336 * 60;
int			rpq_history_retention = -1;
int			rpq_usage_sample_interval = 60;

static char *rpq_clock_string = NULL;
static TimestampTz rpq_clock_value = 0;
static bool rpq_clock_set = false;

/*
 * Accepts an empty string (the real clock) or a timestamp.  No catalog is touched and nothing is thrown, since this
 * also runs while the postmaster reads its configuration.
 */
static bool
check_clock(char **newval, void **extra, GucSource source)
{
	char		workbuf[MAXDATELEN + MAXDATEFIELDS];
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	int			dtype;
	int			nf;
	int			tz;
	fsec_t		fsec;
	struct pg_tm tt,
			   *tm = &tt;
	TimestampTz ts;
	TimestampTz *result;

	if (*newval == NULL || **newval == '\0')
		return true;

	if (ParseDateTime(*newval, workbuf, sizeof(workbuf), field, ftype, MAXDATEFIELDS, &nf) != 0 ||
		DecodeDateTime(field, ftype, nf, &dtype, tm, &fsec, &tz) != 0 ||
		dtype != DTK_DATE ||
		tm2timestamp(tm, fsec, &tz, &ts) != 0)
	{
		GUC_check_errdetail("It must be empty or a timestamp with time zone.");
		return false;
	}
	result = (TimestampTz *) malloc(sizeof(TimestampTz));
	if (result == NULL)
		return false;
	*result = ts;
	*extra = result;
	return true;
}

static void
assign_clock(const char *newval, void *extra)
{
	rpq_clock_set = (extra != NULL);
	rpq_clock_value = extra != NULL ? *(TimestampTz *) extra : 0;
}

TimestampTz
rpq_now(void)
{
	return rpq_clock_set ? rpq_clock_value : GetCurrentTimestamp();
}

bool
rpq_clock_is_set(void)
{
	return rpq_clock_set;
}

static void
define_request_settings(void)
{
	DefineCustomStringVariable("rpq.account",
							   "The account that a gateway, or a platform administrator, acts for.",
							   "Set it with SET LOCAL in each transaction; 'alice' or 'tenant/alice'.",
							   &rpq_account, "", PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("rpq.synchronous_operations",
							 "Carries operations out before the call that asks for them returns.",
							 NULL,
							 &rpq_synchronous_operations, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("rpq.action",
							   "The administrative function in force; set by the functions themselves.",
							   NULL,
							   &rpq_action, "", PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomStringVariable("rpq.clock",
							   "A fixed time that every rule uses in place of the clock.",
							   "Empty means the real clock. History keeps the true time beside it.",
							   &rpq_clock_string, "", PGC_SUSET, 0, check_clock, assign_clock, NULL);
}

static void
define_worker_settings(void)
{
	DefineCustomStringVariable("rpq.databases",
							   "The databases that get a worker: a list, * for all, empty for none.",
							   NULL,
							   &rpq_databases, "", PGC_SIGHUP, GUC_LIST_INPUT, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.cycle_interval",
							"The longest time between two cycles of the worker.",
							NULL,
							&rpq_cycle_interval, 1000, 10, 3600 * 1000, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.cycle_gap",
							"The shortest time between two cycles of the worker.",
							"A cycle that was cut off by rpq.cycle_batch is followed by the next at once.",
							&rpq_cycle_gap, 10, 0, 60 * 1000, PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.cycle_batch",
							"The most workloads that one cycle writes.",
							"It never bounds what a cycle looks at.",
							&rpq_cycle_batch, 1000, 1, INT_MAX, PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.operation_lease",
							"The time after which an operation without a sign of its owner is taken over.",
							NULL,
							&rpq_operation_lease, 30, 1, 24 * 3600, PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
}

static void
define_rule_settings(void)
{
	DefineCustomIntVariable("rpq.preemption_grace",
							"The time a victim has to stop before it loses its room; 0 means without end.",
							NULL,
							&rpq_preemption_grace, 30, 0, 7 * 24 * 3600, PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.node_timeout",
							"The silence after which a node whose executor has reported before is unhealthy.",
							NULL,
							&rpq_node_timeout, 90, 1, 7 * 24 * 3600, PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.workload_history_retention",
							"How long ended workloads are kept and shown.",
							NULL,
							&rpq_workload_history_retention, 336 * 60, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MIN,
							NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.history_retention",
							"How long the operation history is kept; -1 means for ever.",
							NULL,
							&rpq_history_retention, -1, -1, INT_MAX, PGC_SUSET, GUC_UNIT_MIN, NULL, NULL, NULL);
	DefineCustomIntVariable("rpq.usage_sample_interval",
							"The time between two samples of usage.",
							NULL,
							&rpq_usage_sample_interval, 60, 1, 24 * 3600, PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
}

void
rpq_define_settings(void)
{
	define_request_settings();
	define_worker_settings();
	define_rule_settings();
	MarkGUCPrefixReserved("rpq");
}

Datum
rpq_now_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(rpq_now());
}

/* One instant for a whole query: what a view reckons by. */
Datum
rpq_reading_time(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(rpq_clock_set ? rpq_clock_value : GetCurrentStatementStartTimestamp());
}

Datum
rpq_version_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(RPQ_VERSION));
}

/*
 * guard.c
 *
 * Commands that need a database for themselves get it: a utility hook, there only when the library is preloaded, asks
 * the worker to leave before DROP DATABASE, ALTER DATABASE ... RENAME TO or SET TABLESPACE, and CREATE DATABASE with
 * the database as template.  Writes no table.
 *
 * A command that cannot succeed must not stop a worker: right, ownership and the plain preconditions are checked first,
 * with the same outcome as the command's own checks, which follow in any case.  The hold (slots.c) ends with the
 * transaction; then the launcher puts a worker back if the database is there and listed.
 *
 * ALTER EXTENSION rpq UPDATE takes no lock on the extension by itself.  It does here, so that it waits for the cycle at
 * hand, and no other begins before it is committed.  DROP EXTENSION takes that lock anyway.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/syscache.h"

#include "compat.h"
#include "worker/worker.h"

#define LEAVE_MS	2000		/* the longest that a command waits for the worker */

static ProcessUtility_hook_type prev_process_utility = NULL;

static bool
may_create_databases(void)
{
	HeapTuple	tuple;
	bool		result = false;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return result;
}

static bool
is_template(Oid dboid)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
		ReleaseSysCache(tuple);
	}
	return result;
}

/* The text of an option of a database command, or NULL. */
static const char *
option_text(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = (DefElem *) lfirst(lc);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return NULL;
}

static Oid
owned_database(const char *name)
{
	Oid			dboid = get_database_oid(name, true);

	if (!OidIsValid(dboid) || dboid == MyDatabaseId || !rpq_owns_database(dboid, GetUserId()))
		return InvalidOid;
	return dboid;
}

/* The database that a command needs for itself, InvalidOid if there is none or the command will be refused. */
static Oid
database_needed(Node *command, bool in_transaction_block)
{
	Oid			dboid = InvalidOid;
	const char *name;

	switch (nodeTag(command))
	{
		case T_DropdbStmt:
			if (in_transaction_block)
				break;
			dboid = owned_database(((DropdbStmt *) command)->dbname);
			if (OidIsValid(dboid) && is_template(dboid))
				dboid = InvalidOid;
			break;
		case T_RenameStmt:
			if (((RenameStmt *) command)->renameType != OBJECT_DATABASE || !may_create_databases() ||
				OidIsValid(get_database_oid(((RenameStmt *) command)->newname, true)))
				break;
			dboid = owned_database(((RenameStmt *) command)->subname);
			break;
		case T_AlterDatabaseStmt:
			if (in_transaction_block || option_text(((AlterDatabaseStmt *) command)->options, "tablespace") == NULL)
				break;
			dboid = owned_database(((AlterDatabaseStmt *) command)->dbname);
			break;
		case T_CreatedbStmt:
			if (in_transaction_block || !may_create_databases() ||
				OidIsValid(get_database_oid(((CreatedbStmt *) command)->dbname, true)))
				break;
			name = option_text(((CreatedbStmt *) command)->options, "template");
			dboid = get_database_oid(name != NULL ? name : "template1", true);
			if (OidIsValid(dboid) && !is_template(dboid) && !rpq_owns_database(dboid, GetUserId()))
				dboid = InvalidOid;
			break;
		default:
			break;
	}
	return dboid;
}

/* Holds the database and waits until its worker is gone, or LEAVE_MS are over. */
static void
clear_database(Oid dboid)
{
	int64		deadline = rpq_monotonic_ms() + LEAVE_MS;
	int			pid;

	rpq_unhold_at_end(dboid);
	pid = rpq_hold_database(dboid);
	while (pid != 0 && BackendPidGetProc(pid) != NULL && rpq_monotonic_ms() < deadline)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 5, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
lock_extension_for_update(AlterExtensionStmt *command)
{
	Oid			extoid;

	if (strcmp(command->extname, "rpq") != 0)
		return;
	extoid = get_extension_oid("rpq", true);
	if (OidIsValid(extoid) && rpq_owns_extension(extoid, GetUserId()))
		LockDatabaseObject(ExtensionRelationId, extoid, 0, AccessExclusiveLock);
}

static void
before_command(Node *command, ProcessUtilityContext context)
{
	bool		block;
	Oid			dboid;

	switch (nodeTag(command))
	{
		case T_AlterExtensionStmt:
			lock_extension_for_update((AlterExtensionStmt *) command);
			break;
		case T_DropdbStmt:
		case T_RenameStmt:
		case T_AlterDatabaseStmt:
		case T_CreatedbStmt:
			if (RecoveryInProgress() || rpq_worker_shared == NULL)
				break;
			block = context != PROCESS_UTILITY_TOPLEVEL || IsTransactionBlock();
			dboid = database_needed(command, block);
			if (OidIsValid(dboid))
				clear_database(dboid);
			/* whatever comes into being, the launcher looks at once */
			if (nodeTag(command) == T_CreatedbStmt && !OidIsValid(dboid))
				rpq_poke_at_commit(InvalidOid);
			break;
		default:
			break;
	}
}

static void
guard_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree, ProcessUtilityContext context,
			  ParamListInfo params, QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	before_command(pstmt->utilityStmt, context);
	if (prev_process_utility)
		prev_process_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

void
rpq_guard_init(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = guard_utility;
}

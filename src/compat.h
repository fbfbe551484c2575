/*
 * compat.h
 *
 * The differences between the supported versions of PostgreSQL, in one place.
 */
#ifndef RPQ_COMPAT_H
#define RPQ_COMPAT_H

#include "storage/proc.h"
#include "utils/acl.h"

/* The index of this process in ProcGlobal->allProcs. */
#if PG_VERSION_NUM >= 170000
#define rpq_my_proc_number()	(MyProcNumber)
#else
#define rpq_my_proc_number()	(MyProc->pgprocno)
#endif

/* Whether the role owns, or is a member of what owns, the database or the extension. */
#if PG_VERSION_NUM >= 160000
#define rpq_owns_database(dboid, role)		object_ownercheck(DatabaseRelationId, (dboid), (role))
#define rpq_owns_extension(extoid, role)	object_ownercheck(ExtensionRelationId, (extoid), (role))
#else
#define rpq_owns_database(dboid, role)		pg_database_ownercheck((dboid), (role))
#define rpq_owns_extension(extoid, role)	pg_extension_ownercheck((extoid), (role))
#endif

#endif							/* RPQ_COMPAT_H */

/*
 * rpq.c
 *
 * Loading of the library: settings first (they are safe at any time), then, only when preloaded, what needs shared
 * memory and the postmaster.  Without preload everything works but the worker.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "rpq.h"
#include "store/keep.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	rpq_define_settings();
	if (process_shared_preload_libraries_in_progress)
		rpq_worker_init();
	rpq_wake_init();
	keep_init();
}

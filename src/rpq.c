/*
 * rpq.c
 *
 * Loading of the library: settings first (they are safe at any time), then, only when preloaded, what needs shared
 * memory and the postmaster.  Without preload everything works but the worker.
 */
#include "postgres.h"

#include "fmgr.h"

#include "rpq.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	rpq_define_settings();
}

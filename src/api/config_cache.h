/*
 * config_cache.h
 *
 * What submissions look up about their account, and their pool or queue, kept between statements: config_cache.c.
 */
#ifndef RPQ_API_CONFIG_CACHE_H
#define RPQ_API_CONFIG_CACHE_H

#include "api/api.h"
#include "api/scope_facts.h"

/*
 * Begins a submission: raises as rpq_authorize("submit", NULL) does.  What this and the next three return stays valid
 * until the next submission begins.
 */
extern const Caller *config_caller(void);

/* The same as pool_facts() and queue_facts(), kept while the configuration stays as it is. */
extern const ScopeFacts *config_pool_facts(int64 account_id, const char *pool);
extern const ScopeFacts *config_queue_facts(int64 account_id, const char *queue);

/* Whether the account's tenant has this workload type. */
extern bool config_workload_type(int64 account_id, const char *name);

/* Not kept; whether the tenant of the account has this workload type. */
extern bool workload_type_exists(int64 account_id, const char *name);

#endif							/* RPQ_API_CONFIG_CACHE_H */

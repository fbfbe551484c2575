/*
 * admission_check.h
 *
 * What submit and enqueue find out about the pool and the account before they store anything: admission_check.c.
 */
#ifndef RPQ_API_ADMISSION_CHECK_H
#define RPQ_API_ADMISSION_CHECK_H

#include "datatype/timestamp.h"

#include "core/resources.h"

typedef struct PoolSize
{
	int64		type_id;
	char	   *type_name;
	Resources  *capacity;		/* of one node */
	int64		nodes;
} PoolSize;

typedef struct PoolQuota
{
	int64		type_id;		/* 0: the pool as a whole */
	Resources  *quota;
} PoolQuota;

/* One account in one pool, as the statement's snapshot shows them. */
typedef struct PoolFacts
{
	int64		account_id;
	int64		pool_id;
	int64		tenant_id;
	char	   *pool;
	char	   *status;
	bool		visible;		/* to the account */
	bool		authorized;
	bool		frozen;
	bool		allow_guarantee;
	bool		may_guarantee;
	int			default_priority;
	int			max_priority;
	int			nworkload_types;	/* -1: all */
	char	  **workload_types;
	int			nsizes;
	PoolSize   *sizes;
	int			nquotas;
	PoolQuota  *quotas;
} PoolFacts;

/* What is asked for. */
typedef struct Request
{
	const char *workload_type;
	const Resources *resources;
	int			replicas;
	bool		has_priority;	/* false: the default is filled in */
	int			priority;
	bool		guarantee;
	int			ninstance_types;	/* -1: any */
	int64	   *instance_types;
} Request;

/*
 * The pool by name ('pool' or 'tenant/pool') or by id, for an account.  42704 when there is none; by id also when the
 * account may not see it, by name the caller looks at visible.
 */
extern PoolFacts *pool_facts(int64 account_id, const char *name);
extern PoolFacts *pool_facts_by_id(int64 account_id, int64 pool_id);

/*
 * Everything of "at submission" in its order; raises, or returns with request->priority set.  A draft is checked for
 * right and amounts alone.
 */
extern void check_request(const PoolFacts *facts, Request *request, bool draft);
extern void check_priority(const PoolFacts *facts, int priority, bool draft);

#endif							/* RPQ_API_ADMISSION_CHECK_H */

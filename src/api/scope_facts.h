/*
 * scope_facts.h
 *
 * What submit and enqueue find out about a pool or a queue, and the account, before they store anything: scope_facts.c.
 */
#ifndef RPQ_API_SCOPE_FACTS_H
#define RPQ_API_SCOPE_FACTS_H

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

/* A pool, whoever asks: the same for all accounts, and for all queues that lead to it. */
typedef struct PoolPart
{
	int64		pool_id;
	char	   *status;
	bool		frozen;
	bool		allow_guarantee;
	int			nworkload_types;	/* -1: all */
	char	  **workload_types;
	int			nsizes;
	PoolSize   *sizes;
} PoolPart;

/* One account and what it submits to, a pool or a queue, as the statement's snapshot shows them. */
typedef struct ScopeFacts
{
	int64		account_id;
	int64		tenant_id;
	int64		scope_id;
	bool		is_queue;
	char	   *name;
	bool		visible;		/* to the account */
	bool		authorized;
	int			default_priority;
	int			max_priority;
	int			npools;			/* of a queue in routing order; a pool is its own */
	const PoolPart **pools;

	/* of a pool */
	bool		may_guarantee;
	int			nquotas;
	PoolQuota  *quotas;

	/* of a queue */
	char	   *policy;
	Resources  *resources;		/* of one replica */
	Resources  *reservation;
	Resources  *usage_limit;	/* NULL: none */
} ScopeFacts;

/* Where a pool's part comes from: read anew, or what is kept of it.  NULL: there is no such pool any more. */
typedef const PoolPart *(*PoolPartSource) (int64 pool_id);

extern PoolPart *read_pool_part(int64 pool_id);

/*
 * A pool or a queue by name ('name' or 'tenant/name') or by its id, for an account.  42704 when there is none; by id
 * also when the account may not see it, by name the caller looks at visible.
 */
extern ScopeFacts *pool_facts(int64 account_id, const char *name, PoolPartSource part);
extern ScopeFacts *queue_facts(int64 account_id, const char *name, PoolPartSource part);
extern ScopeFacts *scope_facts_by_id(int64 account_id, int64 scope_id);

/* The same, without anything that is kept. */
extern const PoolPart *pool_part_now(int64 pool_id);

#endif							/* RPQ_API_SCOPE_FACTS_H */

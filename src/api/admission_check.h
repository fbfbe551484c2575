/*
 * admission_check.h
 *
 * The checks at submission, for a pool and for a queue: admission_check.c.
 */
#ifndef RPQ_API_ADMISSION_CHECK_H
#define RPQ_API_ADMISSION_CHECK_H

#include "api/scope_facts.h"

/* What is asked for. */
typedef struct Request
{
	const char *workload_type;
	const Resources *resources; /* in a queue those of its profile */
	int			replicas;
	bool		has_priority;	/* false: the default is filled in */
	int			priority;
	bool		guarantee;
	int			ninstance_types;	/* -1: any */
	int64	   *instance_types;
} Request;

/*
 * Everything of "at submission" in its order; raises, or returns with request->priority set.  A draft is checked for
 * right and amounts alone.
 */
extern void check_request(const ScopeFacts *facts, Request *request, bool draft);

/* The range alone, and the account's maximum. */
extern void check_priority_range(int priority);
extern void check_priority(const ScopeFacts *facts, int priority);

#endif							/* RPQ_API_ADMISSION_CHECK_H */

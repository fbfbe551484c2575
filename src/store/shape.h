/*
 * shape.h
 *
 * The shape of a workload: what makes two of them alike for every decision, as one number.
 */
#ifndef RPQ_STORE_SHAPE_H
#define RPQ_STORE_SHAPE_H

#include "datatype/timestamp.h"

#include "core/resources.h"

typedef struct ShapeParts
{
	int64		scope_id;
	int64		account_id;
	int			priority;
	int			replicas;
	bool		guarantee;
	bool		checkpointable;
	const char *workload_type;
	const Resources *resources;
	int			ninstance_types;	/* -1: any */
	const int64 *instance_types;	/* ascending */
	const Interval *max_runtime;	/* NULL: none */
	const TimestampTz *not_before;	/* NULL: none */
} ShapeParts;

extern int64 workload_shape(const ShapeParts *parts);

/* SHA-256 of several pieces, each preceded by its length, so that no two lists of pieces run together. */
typedef struct Digest Digest;

extern Digest *digest_start(void);
extern void digest_add(Digest *digest, const void *data, Size len);
extern void digest_finish(Digest *digest, uint8 *out);	/* 32 bytes */

#endif							/* RPQ_STORE_SHAPE_H */

/*
 * reason.h
 *
 * Pieces of sentences that reasons and explanations share.  Internal to the core.
 */
#ifndef RPQ_CORE_REASON_H
#define RPQ_CORE_REASON_H

#include "core/world.h"

extern char *vector_text(const World *world, const int64 *vector, const int64 *wanted, const int64 *available);
extern char *positive_text(const World *world, const int64 *vector);
extern char *limit_name(const World *world, ReasonCode code, int pool, int type);

/* That room is held for a workload, and how many of its victims have still to stop. */
extern Reason *reason_of_hold(const World *world, int pool, int type, const PodPlace *pods, int npods, int npending,
							  int nvictims);

#endif							/* RPQ_CORE_REASON_H */

/*
 * workload.h
 *
 * What the client's calls about a workload share: workload.c.
 */
#ifndef RPQ_API_WORKLOAD_H
#define RPQ_API_WORKLOAD_H

#include "datatype/timestamp.h"

#include "api/api.h"

/* 22023 unless it is positive and can be added to any time of now. */
extern void check_duration(const char *what, const Interval *duration);
extern const char *checked_on_node_loss(const char *value);

/* What is done to another's workload is an administrative action, and recorded; what is done to one's own is not. */
extern void record_if_administrative(const Caller *caller, int64 owner, const char *action, int64 id, Datum old,
									 Datum new);
extern Datum status_object(const char *status);

#endif							/* RPQ_API_WORKLOAD_H */

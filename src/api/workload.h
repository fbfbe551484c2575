/*
 * workload.h
 *
 * What the client's calls about a workload share: workload.c.
 */
#ifndef RPQ_API_WORKLOAD_H
#define RPQ_API_WORKLOAD_H

#include "datatype/timestamp.h"

extern void check_max_runtime(const Interval *max_runtime);
extern const char *checked_on_node_loss(const char *value);

#endif							/* RPQ_API_WORKLOAD_H */

/*
 * flow.h
 *
 * How much of what policies want can be served by the pools that each of them reaches: an exact maximum flow of one
 * resource key, and by its minimum cut which policies want more than they can reach.  Pure, and no more than that: the
 * plan asks it whether reservations are still kept, the administrative functions whether they can be kept at all.
 */
#ifndef RPQ_CORE_FLOW_H
#define RPQ_CORE_FLOW_H

typedef struct Flow Flow;

/* reach is [npolicies][npools], row by row; it is read here and not kept. */
extern Flow *flow_create(int npolicies, int npools, const bool *reach);

/*
 * The most that can be carried from demand [npolicies] to supply [npools]; below zero counts as zero.  The sum of all
 * that is supplied must be in the range of amounts, demands may be anything.
 */
extern int64 flow_max(Flow *flow, const int64 *demand, const int64 *supply);

/*
 * The same from the flow last found on, where little has changed since (before the first: from nothing).
 */
extern int64 flow_again(Flow *flow, const int64 *demand, const int64 *supply);

/* What the flow last found carries from a policy to a pool. */
extern int64 flow_carried(const Flow *flow, int policy, int pool);

/*
 * Of the flow last found: false when all demand is carried.  Else marks in is_short [npolicies] policies that together
 * want more than all the pools that any of them reaches have: *wanted against *reachable, and the difference is just
 * what is not carried.  No smaller set has that difference.  PG_INT64_MAX where a sum is too large to say.
 */
extern bool flow_short(const Flow *flow, bool *is_short, int64 *wanted, int64 *reachable);

extern void flow_free(Flow *flow);

#endif							/* RPQ_CORE_FLOW_H */

/*
 * rpq.h
 *
 * What every part of the library may use: settings, the clock, and the entry points that the parts offer each other.
 */
#ifndef RPQ_H
#define RPQ_H

#include "datatype/timestamp.h"

/* settings.c */
extern char *rpq_databases;
extern char *rpq_account;
extern char *rpq_action;
extern bool rpq_synchronous_operations;
extern int	rpq_cycle_interval;		/* ms */
extern int	rpq_cycle_gap;			/* ms */
extern int	rpq_cycle_batch;		/* workloads written by one cycle */
extern int	rpq_preemption_grace;	/* s; 0 = without end */
extern int	rpq_node_timeout;		/* s */
extern int	rpq_operation_lease;	/* s */
extern void rpq_define_settings(void);

/*
 * The time that every rule uses: rpq.clock where it is set, else the clock at this moment (not the statement's start).
 */
extern TimestampTz rpq_now(void);
extern bool rpq_clock_is_set(void);

#endif							/* RPQ_H */

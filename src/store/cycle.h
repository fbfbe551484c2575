/*
 * cycle.h
 *
 * Turns and cycles, for the api.
 */
#ifndef RPQ_STORE_CYCLE_H
#define RPQ_STORE_CYCLE_H

#include "store/book.h"

/*
 * Locks the turns of the scopes, FOR NO KEY UPDATE in id order.  With skip, those that another session holds are passed
 * over; otherwise this waits.  Returns how many were taken, their ids in taken: scopes without a turn are not among
 * them.
 */
extern int	cycle_take_turns(const int64 *scopes, int n, bool skip, int64 *taken);

typedef enum CycleUse
{
	CYCLE_LOOK,					/* a dry run or an explanation */
	CYCLE_ACT,
	CYCLE_ACT_AGAIN				/* and more cycles follow in this session: what they read is kept (keep.c) */
} CycleUse;

/*
 * Opens a Book over the scopes, inside an open SPI connection: reads turns, uncounted entries and lanes.  To act, the
 * caller holds the turns, and a snapshot is taken now; otherwise the caller's snapshot is used.  cycle_close ends it.
 */
extern Book *cycle_open(const int64 *scopes, int n, CycleUse use);
extern void cycle_close(Book *book);

/* Decides; NULL when there is nothing to decide.  full: also lanes that were blocked before (dry runs). */
extern CyclePlan *cycle_decide(Book *book, int batch, bool full);

#endif							/* RPQ_STORE_CYCLE_H */

/*
 * cycle.h
 *
 * Turns and cycles, for the api.
 */
#ifndef RPQ_STORE_CYCLE_H
#define RPQ_STORE_CYCLE_H

#include "store/book.h"

/*
 * Locks the turns of the scopes, and of all that are tied to them (sets.h), FOR NO KEY UPDATE in id order, and waits
 * for who holds them; 55P03 when a set grew meanwhile by scopes that cannot be had in order.  Returns their ids,
 * ascending; scopes without a turn are not among them.
 */
extern int64 *cycle_take_turns(const int64 *scopes, int n, int *ntaken);

/* The same without waiting: the sets of which every turn was to be had. */
extern int64 *cycle_try_turns(const int64 *scopes, int n, int *ntaken);

typedef enum CycleUse
{
	CYCLE_LOOK,					/* a dry run or an explanation */
	CYCLE_ACT,
	CYCLE_ACT_AGAIN				/* and more cycles follow in this session: what they read is kept (keep.c) */
} CycleUse;

/*
 * Opens a Book over the scopes, inside an open SPI connection: reads turns, uncounted entries and lanes.  To act, the
 * caller holds the turns of whole sets, and a snapshot is taken now; otherwise the caller's snapshot is used, and all
 * that is tied to the scopes is added.  cycle_close ends it.
 */
extern Book *cycle_open(const int64 *scopes, int n, CycleUse use);
extern void cycle_close(Book *book);

/* Has this transaction, or a part of it that was rolled back, opened a Book to act? */
extern bool cycle_in_transaction(void);

/* Decides; NULL when there is nothing to decide.  full: also lanes that were blocked before (dry runs). */
extern CyclePlan *cycle_decide(Book *book, int batch, bool full);

#endif							/* RPQ_STORE_CYCLE_H */

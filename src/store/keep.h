/*
 * keep.h
 *
 * The balances of a set of scopes, kept between the cycles of one session: keep.c.
 */
#ifndef RPQ_STORE_KEEP_H
#define RPQ_STORE_KEEP_H

#include "store/book.h"
#include "store/seen.h"
#include "store/sets.h"

/* Once per process, when the library is loaded. */
extern void keep_init(void);

/*
 * Before anything is read but the turns: gives the Book the tables and nodes that the last cycle of this session
 * left, if nobody has changed a scope of the set since, else empty ones that may be kept.  Only for a Book of one set
 * that asks for it (keep).
 */
extern void keep_open(Book *book);

/*
 * All entries of a set whose balances are kept that are not counted yet are of this transaction or later ones; 0: that
 * is not known.  own is the transaction of the last cycle: what it admitted is counted.
 */
extern uint64 keep_first_news(const Book *book, uint64 *own);

/* After everything was written: they are kept, once this transaction commits. */
extern void keep_close(Book *book);

typedef enum KeptLanes
{
	KEPT_LANES_UNKNOWN,
	KEPT_LANES_REST,			/* none has anything to decide */
	KEPT_LANES_DUE
} KeptLanes;

/* What the kept lanes of a set say when its turns, by id, are as given, which were read just now. */
extern KeptLanes keep_ask_lanes(const TurnMark *turns, int n, TimestampTz now);

#endif							/* RPQ_STORE_KEEP_H */

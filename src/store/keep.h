/*
 * keep.h
 *
 * The balances of a scope, kept between the cycles of one session: keep.c.
 */
#ifndef RPQ_STORE_KEEP_H
#define RPQ_STORE_KEEP_H

#include "store/book.h"

/* Once per process, when the library is loaded. */
extern void keep_init(void);

/*
 * Before anything is read but the turns: gives the Book the tables and nodes that the last cycle of this session
 * left, if nobody has changed the scope since, else empty ones that may be kept.  Only for a Book of one scope that
 * asks for it (keep).
 */
extern void keep_open(Book *book);

/* After everything was written: they are kept, once this transaction commits. */
extern void keep_close(Book *book);

#endif							/* RPQ_STORE_KEEP_H */

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

typedef enum KeptLanes
{
	KEPT_LANES_UNKNOWN,
	KEPT_LANES_REST,			/* none has anything to decide */
	KEPT_LANES_DUE
} KeptLanes;

/* Does this session keep the lanes of the scope at all? */
extern bool keep_has_lanes(int64 scope_id);

/* What the kept lanes say when the turn is as given, which was read just now. */
extern KeptLanes keep_ask_lanes(int64 scope_id, uint64 own_xid, int64 cycle, int64 room_epoch, TimestampTz now);

#endif							/* RPQ_STORE_KEEP_H */

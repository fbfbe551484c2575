/*
 * seen.h
 *
 * What a snapshot saw, remembered to tell later which entries are news: seen.c.
 */
#ifndef RPQ_STORE_SEEN_H
#define RPQ_STORE_SEEN_H

#include "utils/snapshot.h"

typedef struct Seen
{
	uint64		xmax;			/* 0: nothing is known */
	int			nxip;
	uint64	   *xip;			/* [nxip]; in progress then */
} Seen;

extern void seen_forget(Seen *seen);

/* Remembers a snapshot, in a context that lives as long as seen. */
extern void seen_remember(Seen *seen, Snapshot snapshot, MemoryContext context);

/*
 * What the present snapshot sees and the remembered one did not is of transactions from this one on; 0: it is not
 * known, or these are more than a range.
 */
extern uint64 seen_first_news(const Seen *seen, Snapshot now, uint64 range);

#endif							/* RPQ_STORE_SEEN_H */

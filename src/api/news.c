/*
 * news.c
 *
 * What the worker knows of where the ledger has grown, so that it need not ask every scope for entries.
 *
 * Which scopes it was woken for, or found due the last time, are bits.  It takes them from shared memory (wake.c),
 * where they are cleared; so they are kept here until they have been looked at, whatever becomes of the transaction.
 *
 * What the last look at everything saw is a snapshot (seen.c).  A look in a transaction that has written already is not
 * remembered, and does not rely on what is.
 *
 * Nothing here reads or writes a table.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "api/news.h"
#include "store/seen.h"
#include "worker/worker.h"

#define MAX_RANGE	100000		/* of transactions, in which new entries are looked for */

static uint64 touched[RPQ_TOUCHED_WORDS];

static Seen seen;				/* by the last look that can be relied on */

bool
news_take(void)
{
	uint64		news[RPQ_TOUCHED_WORDS] = {0};
	bool		known = rpq_take_touched(news);

	for (int i = 0; i < RPQ_TOUCHED_WORDS; i++)
		touched[i] |= news[i];
	return known;
}

bool
news_is_touched(int64 scope_id)
{
	uint64		bit = (uint64) scope_id % RPQ_TOUCHED_BITS;

	return (touched[bit / 64] >> (bit % 64)) & 1;
}

void
news_touch(int64 scope_id)
{
	uint64		bit = (uint64) scope_id % RPQ_TOUCHED_BITS;

	touched[bit / 64] |= UINT64CONST(1) << (bit % 64);
}

void
news_forget_touched(void)
{
	memset(touched, 0, sizeof(touched));
}

uint64
news_first(Snapshot snapshot)
{
	return seen_first_news(&seen, snapshot, MAX_RANGE);
}

void
news_seen(Snapshot snapshot)
{
	if (snapshot == NULL)
		seen_forget(&seen);
	else
		seen_remember(&seen, snapshot, TopMemoryContext);
}

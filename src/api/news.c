/*
 * news.c
 *
 * What the worker knows of where the ledger has grown, so that it need not ask every scope for entries.
 *
 * Which scopes it was woken for, or found due the last time, are bits.  It takes them from shared memory (wake.c),
 * where they are cleared; so they are kept here until they have been looked at, whatever becomes of the transaction.
 *
 * What the last look at everything saw is a snapshot: an entry that was not there then is of a transaction that this
 * snapshot did not see, and of those only the ones that have ended since.  So all news are of transactions from a
 * certain one on.  No snapshot tells of one's own transaction: a look in one that has written already is not
 * remembered, and does not rely on what is.
 *
 * Nothing here reads or writes a table.
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/memutils.h"

#include "api/news.h"
#include "worker/worker.h"

#define MAX_RANGE	100000		/* of transactions, in which new entries are looked for */

static uint64 touched[RPQ_TOUCHED_WORDS];

static uint64 seen_xmax = 0;	/* 0: no look that can be relied on */
static int	nseen_xip = 0;
static uint64 *seen_xip = NULL; /* [nseen_xip]; in progress then */

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

static uint64
widen(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint64		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return epoch << 32 | xid;
}

uint64
news_first(Snapshot snapshot)
{
	uint64		first = seen_xmax;

	for (int i = 0; i < nseen_xip; i++)
	{
		bool		still = false;

		for (uint32 j = 0; j < snapshot->xcnt && !still; j++)
			still = widen(snapshot->xip[j]) == seen_xip[i];
		if (!still)
			first = Min(first, seen_xip[i]);
	}
	return first == 0 || first + MAX_RANGE < widen(snapshot->xmax) ? 0 : first;
}

void
news_seen(Snapshot snapshot)
{
	seen_xmax = 0;
	if (snapshot == NULL)
		return;
	if (seen_xip != NULL)
		pfree(seen_xip);
	seen_xip = MemoryContextAlloc(TopMemoryContext, sizeof(uint64) * Max(snapshot->xcnt, 1));
	nseen_xip = (int) snapshot->xcnt;
	for (int i = 0; i < nseen_xip; i++)
		seen_xip[i] = widen(snapshot->xip[i]);
	seen_xmax = widen(snapshot->xmax);
}

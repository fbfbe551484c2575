/*
 * seen.c
 *
 * What a snapshot saw.  The entries of a scope are found by index from a transaction on, and asking each of some
 * hundred scopes by its own cursor takes longer than to ask all of them from one transaction on.  Who has looked at all
 * of them with one snapshot remembers that, and news are then of transactions that it did not see: those from its xmax
 * on, and those that were in progress and have ended since.
 *
 * No snapshot tells of one's own transaction, so what that wrote has to be looked for beside.
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/memutils.h"

#include "store/seen.h"

static uint64
widen(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint64		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return epoch << 32 | xid;
}

void
seen_forget(Seen *seen)
{
	seen->xmax = 0;
}

void
seen_remember(Seen *seen, Snapshot snapshot, MemoryContext context)
{
	if (seen->xip != NULL)
		pfree(seen->xip);
	seen->xip = MemoryContextAlloc(context, sizeof(uint64) * Max(snapshot->xcnt, 1));
	seen->nxip = (int) snapshot->xcnt;
	for (int i = 0; i < seen->nxip; i++)
		seen->xip[i] = widen(snapshot->xip[i]);
	seen->xmax = widen(snapshot->xmax);
}

uint64
seen_first_news(const Seen *seen, Snapshot now, uint64 range)
{
	uint64		first = seen->xmax;

	for (int i = 0; i < seen->nxip; i++)
	{
		bool		still = false;

		for (uint32 j = 0; j < now->xcnt && !still; j++)
			still = widen(now->xip[j]) == seen->xip[i];
		if (!still)
			first = Min(first, seen->xip[i]);
	}
	return seen->xmax == 0 || first + range < widen(now->xmax) ? 0 : first;
}

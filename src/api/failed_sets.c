/*
 * failed_sets.c
 *
 * Sets whose cycle failed in this session: left out for a while, twice as long each time, so that one that cannot be
 * processed does not stop the others, whose work is rolled back with it only once.  Touches no table.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "api/failed_sets.h"
#include "store/sets.h"

typedef struct FailedSet
{
	int64		first;			/* its least scope */
	TimestampTz retry_at;
	int			failures;
} FailedSet;

#define MAX_FAILED_SETS 64

static FailedSet failed_sets[MAX_FAILED_SETS];

void
failed_sets_note(int64 first)
{
	FailedSet *slot = NULL;

	for (int i = 0; i < MAX_FAILED_SETS; i++)
	{
		FailedSet *f = &failed_sets[i];

		if (f->first == first)
		{
			slot = f;
			break;
		}
		if (slot == NULL || f->retry_at < slot->retry_at)
			slot = f;
	}
	slot->failures = slot->first == first ? slot->failures + 1 : 1;
	slot->first = first;
	slot->retry_at = GetCurrentTimestamp() + INT64CONST(1000000) * (1 << Min(slot->failures, 6));
}

void
failed_sets_forget(int64 first)
{
	for (int i = 0; i < MAX_FAILED_SETS; i++)
	{
		if (failed_sets[i].first == first)
			failed_sets[i] = (FailedSet) {0};
	}
}

int
failed_sets_leave_out(int64 *scopes, int n)
{
	TimestampTz now = GetCurrentTimestamp();
	int			kept = 0;

	for (int i = 0; i < n; i++)
	{
		bool		failed = false;

		for (int j = 0; j < MAX_FAILED_SETS; j++)
			failed = failed || (failed_sets[j].first == sets_first(scopes[i]) && failed_sets[j].retry_at > now);
		if (!failed)
			scopes[kept++] = scopes[i];
	}
	return kept;
}

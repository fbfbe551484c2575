/*
 * wake.c
 *
 * What a transaction asks of the worker and the launcher, and has done when it ends.  Writes no table, takes no
 * heavyweight lock; waking takes no lock at all.
 *
 * There is one transaction callback for the whole library.  A commit that asked for nothing pays for a function call
 * and two tests.  At abort everything asked for is forgotten, except that a hold ends either way.  A subtransaction
 * that is rolled back may leave its wish behind: a spurious wake does no harm.  PREPARE TRANSACTION forgets the wishes
 * as well; what a prepared transaction wrote is found when the worker next looks at all scopes after its commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_wake);
PG_FUNCTION_INFO_V1(rpq_wake_scope);
PG_FUNCTION_INFO_V1(rpq_poke_launcher);

static bool wake_wanted = false;

/* what for: these scopes, or any */
#define MAX_TOUCHED 64
static int	ntouched = 0;
static int64 touched[MAX_TOUCHED];
static bool touched_all = false;

/* what is rarely asked for; other_wishes tells whether there is any of it */
static bool other_wishes = false;
static Oid	poke_wanted = InvalidOid;
static Oid	unhold_wanted = InvalidOid;

/* where the slot of this database was found last */
static int	known_slot = 0;

void
rpq_wake_at_commit(void)
{
	wake_wanted = true;
	touched_all = true;
}

void
rpq_wake_for(int64 scope_id)
{
	wake_wanted = true;
	/* as a rule a transaction is about one scope */
	if (touched_all || (ntouched > 0 && touched[ntouched - 1] == scope_id))
		return;
	if (ntouched == MAX_TOUCHED)
		touched_all = true;
	else
		touched[ntouched++] = scope_id;
}

/* The worker forgets what it was woken for only by reading it, so whoever reads has to remember. */
bool
rpq_take_touched(uint64 *words)
{
	int			index = rpq_worker_shared == NULL ? -1 : rpq_slot_find(MyDatabaseId);
	RpqWorkerSlot *slot;

	if (index < 0)
		return false;
	slot = &rpq_worker_shared->slots[index];
	for (int i = 0; i < RPQ_TOUCHED_WORDS; i++)
	{
		words[i] = pg_atomic_read_u64(&slot->touched[i]) == 0 ? 0 :
			pg_atomic_exchange_u64(&slot->touched[i], 0);
	}
	return pg_atomic_exchange_u32(&slot->touched_all, 0) == 0;
}

/* Before dirty is set. */
static void
say_what_for(RpqWorkerSlot *slot)
{
	if (touched_all)
		pg_atomic_write_u32(&slot->touched_all, 1);
	for (int i = 0; i < ntouched && !touched_all; i++)
	{
		uint64		bit = (uint64) touched[i] % RPQ_TOUCHED_BITS;

		pg_atomic_fetch_or_u64(&slot->touched[bit / 64], UINT64CONST(1) << (bit % 64));
	}
	pg_memory_barrier();
}

static void
forget_wake(void)
{
	wake_wanted = false;
	touched_all = false;
	ntouched = 0;
}

/* At commit the launcher tries a worker for the database; with InvalidOid it looks through the databases again. */
void
rpq_poke_at_commit(Oid dboid)
{
	poke_wanted = dboid;
	other_wishes = true;
}

/* The hold on the database ends with this transaction, however that ends. */
void
rpq_unhold_at_end(Oid dboid)
{
	unhold_wanted = dboid;
	other_wishes = true;
}

/*
 * Wakes the worker of this database if there is one and it has not been woken since its last cycle began.  The
 * transaction is visible to others by now, which is what the protocol in slots.c needs.
 */
static void
wake_worker(void)
{
	RpqWorkerSlot *slot;
	uint32		procno;

	if (rpq_worker_shared == NULL || rpq_am_worker)
		return;

	slot = &rpq_worker_shared->slots[known_slot];
	if (pg_atomic_read_u32(&slot->dboid) != MyDatabaseId)
	{
		int			index = rpq_slot_find(MyDatabaseId);

		if (index < 0)
			return;
		known_slot = index;
		slot = &rpq_worker_shared->slots[index];
	}

	if (pg_atomic_read_u32(&slot->procno) == RPQ_NO_PROC)
		return;
	say_what_for(slot);
	if (pg_atomic_exchange_u32(&slot->dirty, 1) != 0)
		return;
	procno = pg_atomic_read_u32(&slot->procno);
	if (procno != RPQ_NO_PROC)
		SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

static void
fulfil_other_wishes(bool committed)
{
	bool		poke = committed && rpq_worker_shared != NULL;
	Oid			poked = poke_wanted;
	Oid			unheld = unhold_wanted;

	other_wishes = false;
	poke_wanted = InvalidOid;
	unhold_wanted = InvalidOid;

	if (OidIsValid(unheld))
		rpq_unhold_database(unheld);
	if (poke && OidIsValid(poked))
		rpq_poke_database(poked);
	else if (poke)
		rpq_wake_launcher();
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (wake_wanted)
			{
				wake_worker();
				forget_wake();
			}
			if (other_wishes)
				fulfil_other_wishes(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget_wake();
			if (other_wishes)
				fulfil_other_wishes(false);
			break;
		default:
			break;
	}
}

void
rpq_wake_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
}

Datum
rpq_wake(PG_FUNCTION_ARGS)
{
	rpq_wake_at_commit();
	PG_RETURN_VOID();
}

Datum
rpq_wake_scope(PG_FUNCTION_ARGS)
{
	rpq_wake_for(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}

Datum
rpq_poke_launcher(PG_FUNCTION_ARGS)
{
	rpq_poke_at_commit(MyDatabaseId);
	PG_RETURN_VOID();
}

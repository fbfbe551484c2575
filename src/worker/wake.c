/*
 * wake.c
 *
 * What a transaction asks of the worker and the launcher, and has done when it ends.  Writes no table, takes no
 * heavyweight lock; waking takes no lock at all.
 *
 * There is one transaction callback for the whole library.  A commit that asked for nothing pays for a function call
 * and two tests.  At abort everything asked for is forgotten, except that a hold ends either way.  A subtransaction
 * that is rolled back may leave its wish behind: a spurious wake does no harm.  PREPARE TRANSACTION forgets the wishes
 * as well; what a prepared transaction wrote is found by the next cycle after its commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "worker/worker.h"

PG_FUNCTION_INFO_V1(rpq_wake);
PG_FUNCTION_INFO_V1(rpq_poke_launcher);

static bool wake_wanted = false;

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
				wake_wanted = false;
				wake_worker();
			}
			if (other_wishes)
				fulfil_other_wishes(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			wake_wanted = false;
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
rpq_poke_launcher(PG_FUNCTION_ARGS)
{
	rpq_poke_at_commit(MyDatabaseId);
	PG_RETURN_VOID();
}

/*
 * keep.c
 *
 * The balances of a set of scopes, kept between the cycles of one session.
 *
 * A cycle reads usage, lanes and the load of all nodes, a few of which it changes.  Read from the tables each
 * time, that costs a cycle at 10,000 nodes most of its time; and while somebody holds an old snapshot, the dead
 * versions of these few often-changed rows can't be removed, and every cycle passes all of them (measured after
 * 50,000 changes: 4.6 times its first).  So the session that runs cycles, as a rule the worker, keeps what it
 * wrote, and where (place.c).
 *
 * When it may be used: who changes these tables, or the configuration that the nodes' rows show, holds the turn and
 * changes it, and only a cycle sets own_xid.  So if each turn of the set, read under its lock, still carries the
 * transaction id, the number of the cycle and the room epoch with which this session left it, nothing has changed.
 * What a transaction leaves is usable from its commit on, and before that for itself; when it, or a part of it, is
 * rolled back, it is thrown away.
 *
 * Past the functions a superuser may change a node, a queue or a policy without taking a turn; the statement triggers
 * that announce changes of configuration make every session forget what it keeps.
 *
 * Nothing is shared between processes, and nothing here reads or writes a table.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "store/keep.h"

#define MAX_KEPT_SETS	256
#define MAX_KEPT_NODES	200000	/* of one session, all sets together */

#define MAX_RANGE		10000	/* of transactions, in which entries are looked for */

typedef enum KeptState
{
	KEPT_IN_USE,				/* by a Book that has not been written yet */
	KEPT_WRITTEN,				/* by a transaction that has not committed yet */
	KEPT_COMMITTED
} KeptState;

struct Kept
{
	KeptState	state;
	MemoryContext context;
	int			nscopes;
	TurnMark   *turns;			/* [nscopes], as they were left; by id */
	Seen		seen;			/* by the last cycle: all of it is counted */
	uint64		xid;			/* the transaction that this was in */

	/* as in a Book */
	HTAB	   *cells;
	HTAB	   *lanes;
	int			nkeys;
	int			maxkeys;
	const char **keys;
	int			ntypes;
	int64	   *type_ids;
	int			nnodes;
	NodeRow    *nodes;
	bool		all_nodes;
	QueueRow   *queues;
	Policies   *policies;
	struct Kept *next;
};

static Kept *all_kept = NULL;
static const char *const kept_tables[] = {"node", "policy", "profile_pool", "queue"};
static Oid	table_oids[lengthof(kept_tables)];
static bool tables_changed = false;

static void
forget(Kept *kept)
{
	for (Kept **link = &all_kept; *link != NULL; link = &(*link)->next)
	{
		if (*link == kept)
		{
			*link = kept->next;
			break;
		}
	}
	MemoryContextDelete(kept->context);
	pfree(kept);
}

static void
forget_uncommitted(void)
{
	Kept	   *next;

	for (Kept *kept = all_kept; kept != NULL; kept = next)
	{
		next = kept->next;
		if (kept->state != KEPT_COMMITTED)
			forget(kept);
	}
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT)
	{
		for (Kept *kept = all_kept; kept != NULL; kept = kept->next)
		{
			if (kept->state == KEPT_WRITTEN)
				kept->state = KEPT_COMMITTED;
		}
		forget_uncommitted();
	}
	else if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		forget_uncommitted();
}

/* Part of what was written is undone; which part is not worth finding out. */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		forget_uncommitted();
}

/* What somebody changed past the functions, who took no turn: triggers on the tables announce it. */
static void
relation_changed(Datum arg, Oid relid)
{
	if (relid == InvalidOid)
		tables_changed = true;
	for (int i = 0; i < lengthof(kept_tables); i++)
		tables_changed = tables_changed || relid == table_oids[i];
}

static void
forget_if_tables_changed(void)
{
	Oid			namespace = get_namespace_oid("rpq_store", false);

	while (tables_changed && all_kept != NULL)
		forget(all_kept);
	tables_changed = false;
	for (int i = 0; i < lengthof(kept_tables); i++)
		table_oids[i] = get_relname_relid(kept_tables[i], namespace);
}

void
keep_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	RegisterXactCallback(at_transaction_end, NULL);
	RegisterSubXactCallback(at_subtransaction_end, NULL);
}

/* What is kept of the set whose least scope this is. */
static Kept *
find_kept(int64 first)
{
	Kept	   *kept = all_kept;

	while (kept != NULL && kept->turns[0].scope_id != first)
		kept = kept->next;
	return kept;
}

/* Are the turns, and no others, still as this session left them? */
static bool
is_as_left(const Kept *kept, const TurnMark *turns, int n)
{
	return kept->nscopes == n && memcmp(kept->turns, turns, sizeof(TurnMark) * n) == 0;
}

/* The last ones in the list are those that were used longest ago. */
static void
make_room(void)
{
	int			nsets = 0;
	int64		nodes = 0;
	Kept	   *next;

	for (Kept *kept = all_kept; kept != NULL; kept = next)
	{
		next = kept->next;
		nsets++;
		nodes += kept->nnodes;
		if (kept->state == KEPT_COMMITTED && (nsets >= MAX_KEPT_SETS || nodes >= MAX_KEPT_NODES))
			forget(kept);
	}
}

static void
put_first(Kept *kept)
{
	for (Kept **link = &all_kept; *link != NULL; link = &(*link)->next)
	{
		if (*link == kept)
		{
			*link = kept->next;
			break;
		}
	}
	kept->next = all_kept;
	all_kept = kept;
}

static Kept *
new_kept(const TurnMark *turns, int n)
{
	Kept	   *kept = MemoryContextAllocZero(TopMemoryContext, sizeof(Kept));

	kept->context = AllocSetContextCreate(TopMemoryContext, "rpq kept set", ALLOCSET_DEFAULT_SIZES);
	kept->turns = MemoryContextAlloc(kept->context, sizeof(TurnMark) * n);
	memcpy(kept->turns, turns, sizeof(TurnMark) * n);
	kept->nscopes = n;
	return kept;
}

static bool
lane_is_due(const LaneRow *lane, int64 epoch, TimestampTz now)
{
	if (lane->waiting <= 0)
		return false;
	return lane->blocked_at_epoch != epoch ||
		(lane->has_not_before && lane->not_before <= now && lane->reason_code != NULL &&
		 strcmp(lane->reason_code, "backing_off") == 0);
}

KeptLanes
keep_ask_lanes(const TurnMark *turns, int n, TimestampTz now)
{
	Kept	   *kept = find_kept(turns[0].scope_id);
	int64		epoch = marks_epoch(turns, n);
	HASH_SEQ_STATUS seq;
	LaneRow    *lane;

	if (kept == NULL || kept->state == KEPT_IN_USE || !is_as_left(kept, turns, n))
		return KEPT_LANES_UNKNOWN;
	hash_seq_init(&seq, kept->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		if (lane_is_due(lane, epoch, now))
		{
			hash_seq_term(&seq);
			return KEPT_LANES_DUE;
		}
	}
	return KEPT_LANES_REST;
}

/* The Book goes on where the last cycle ended. */
static void
take_over(Book *book, const Kept *kept)
{
	book->from_kept = true;
	book->cells = kept->cells;
	book->lanes = kept->lanes;
	book->nkeys = kept->nkeys;
	book->maxkeys = kept->maxkeys;
	book->keys = kept->keys;
	book->ntypes = kept->ntypes;
	book->type_ids = kept->type_ids;
	book->nnodes = kept->nnodes;
	book->nodes = kept->nodes;
	book->all_nodes = kept->all_nodes;
	book->queues = kept->queues;
	book->policies = kept->policies;
}

void
keep_open(Book *book)
{
	TurnMark   *turns;
	Kept	   *kept;

	book->context = CurrentMemoryContext;
	if (!book->keep || book->nsets != 1)
		return;
	forget_if_tables_changed();
	turns = palloc0(sizeof(TurnMark) * book->nscopes);
	for (int i = 0; i < book->nscopes; i++)
	{
		Scope	   *scope = &book->scopes[i];

		turns[i] = (TurnMark) {scope->scope_id, scope->own_xid, scope->cycle, scope->room_epoch};
	}
	kept = find_kept(turns[0].scope_id);
	if (kept != NULL && (kept->state == KEPT_IN_USE || !is_as_left(kept, turns, book->nscopes)))
	{
		forget(kept);
		kept = NULL;
	}
	if (kept != NULL)
		take_over(book, kept);
	else
	{
		make_room();
		kept = new_kept(turns, book->nscopes);
	}
	put_first(kept);
	kept->state = KEPT_IN_USE;
	book->kept = kept;
	book->context = kept->context;
}

/*
 * The news of a set whose balances are kept are of this transaction or later ones; 0: each scope has to be asked.  own:
 * the transaction of the last cycle, whose admissions are counted.
 */
uint64
keep_first_news(const Book *book, uint64 *own)
{
	const Kept *kept = book->kept;
	uint64		first;

	if (!book->from_kept || kept->xid == 0)
		return 0;
	*own = kept->xid;
	first = seen_first_news(&kept->seen, book->snapshot, MAX_RANGE);
	return Min(first, kept->xid);
}

/* A value that the cycle made lives as long as the cycle; the copy replaces the one that was kept. */
static void
keep_amount(Resources **now, Resources **before)
{
	if (*now == *before)
		return;
	if (*before != NULL)
		pfree(*before);
	*before = *now == NULL ? NULL : resources_copy(*now);
	*now = *before;
}

static void
keep_lane(LaneRow *lane)
{
	if (lane->reason != lane->kept_reason)
	{
		char	   *copy = lane->reason == NULL ? NULL : pstrdup(lane->reason);

		if (lane->kept_reason != NULL)
			pfree(lane->kept_reason);
		lane->reason = lane->kept_reason = copy;
	}
	lane->changed = false;
	lane->was_read = false;
	/* the head of an empty lane says nothing of who arrives next */
	lane->has_head = lane->waiting > 0;
}

static void
drop_lane(Book *book, LaneRow *lane)
{
	if (lane->has_shape)
	{
		pfree(lane->resources);
		pfree((char *) lane->workload_type);
		if (lane->types_array != 0)
			pfree(DatumGetPointer(lane->types_array));
		if (lane->max_runtime != 0)
			pfree(DatumGetPointer(lane->max_runtime));
	}
	if (lane->kept_reason != NULL)
		pfree(lane->kept_reason);
	hash_search(book->lanes, &lane->key, HASH_REMOVE, NULL);
}

static void
keep_rows(Book *book)
{
	HASH_SEQ_STATUS seq;
	Cell	   *cell;
	LaneRow    *lane;

	hash_seq_init(&seq, book->cells);
	while ((cell = hash_seq_search(&seq)) != NULL)
	{
		keep_amount(&cell->amount, &cell->kept_amount);
		cell->changed = false;
	}
	hash_seq_init(&seq, book->lanes);
	while ((lane = hash_seq_search(&seq)) != NULL)
	{
		/* what arrived and went between two cycles has no row, and empty lanes are deleted in the end */
		if (!lane->exists)
			drop_lane(book, lane);
		else
			keep_lane(lane);
	}
	for (int i = 0; i < book->nnodes; i++)
	{
		NodeRow    *node = &book->nodes[i];

		if (node->changed)
			keep_amount(&node->used, &node->kept_used);
		node->changed = false;
	}
}

void
keep_close(Book *book)
{
	Kept	   *kept = book->kept;
	MemoryContext old;

	if (kept == NULL)
		return;
	old = MemoryContextSwitchTo(kept->context);
	keep_rows(book);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < book->nscopes; i++)
	{
		Scope	   *scope = &book->scopes[i];

		kept->turns[i] = (TurnMark) {scope->scope_id, scope->left_xid, scope->left_cycle, scope->left_epoch};
	}
	seen_remember(&kept->seen, book->snapshot, kept->context);
	kept->xid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	kept->cells = book->cells;
	kept->lanes = book->lanes;
	kept->nkeys = book->nkeys;
	kept->maxkeys = book->maxkeys;
	kept->keys = book->keys;
	kept->ntypes = book->ntypes;
	kept->type_ids = book->type_ids;
	kept->nnodes = book->nnodes;
	kept->nodes = book->nodes;
	kept->all_nodes = true;
	kept->queues = book->queues;
	kept->policies = book->policies;
	kept->state = KEPT_WRITTEN;
}

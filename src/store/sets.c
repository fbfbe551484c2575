/*
 * sets.c
 *
 * Connected sets: which scopes a cycle has to decide about together.
 *
 * Tied to each other are a queue and the pools that its provisioned profile names; all queues of one policy; a policy
 * and the pools in which something is charged to it; an exclusive pool with idle-time sharing and the shared pool of
 * its tenant, cluster and kind; a pool and one whose idle room work of it still borrows, or has still to leave.  A
 * queue that was deleted stays with its policy while something is charged to that.  What nothing ties is a set of its
 * own.
 *
 * The map is kept per session until the configuration changes, as config_cache.c keeps what submissions look up, with
 * the same announcements: statement triggers, take_turns, and sets_changed, which whoever adds a queue or a pool of a
 * profile calls.  A set that has shrunk since only because usage fell is larger than need be, never too small: usage
 * comes to be in pools that are tied already.
 *
 * Reads queue, profile_pool, pool, usage, preemption and workload; locks and writes nothing.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "fmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "store/sets.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_sets_changed);

/*
 * Two that are tied; a negative number is a policy.  Without a queue and without an exclusive pool that lends, none of
 * it looks at more than that.
 */
static RpqStatement load_links = {
	"WITH charged AS MATERIALIZED ("
	"  SELECT DISTINCT u.policy_id, u.pool_id FROM rpq_store.usage u"
	"   WHERE u.policy_id <> 0 AND u.amount OPERATOR(rpq.<>) ''::rpq.resources"
	"     AND (SELECT EXISTS (SELECT FROM rpq_store.queue)))"
	"SELECT q.queue_id, -q.policy_id FROM rpq_store.queue q"
	" WHERE q.deleted_at IS NULL OR q.policy_id IN (SELECT policy_id FROM charged)"
	" UNION ALL "
	"SELECT q.queue_id, l.pool_id FROM rpq_store.queue q"
	"  JOIN rpq_store.profile_pool l ON l.profile_id = q.profile_id AND l.state = 'provisioned'"
	" WHERE q.deleted_at IS NULL"
	" UNION ALL "
	"SELECT -policy_id, pool_id FROM charged"
	" UNION ALL "
	"SELECT e.pool_id, s.pool_id FROM rpq_store.pool e"
	"  JOIN rpq_store.pool s ON s.type = 'shared' AND s.tenant_id = e.tenant_id AND s.cluster_id = e.cluster_id"
	"   AND s.kind = e.kind"
	" WHERE e.type = 'exclusive' AND e.idle_time_sharing AND e.status <> 'deleted'"
	" UNION ALL "
	"SELECT DISTINCT u.pool_id, u.lender_id FROM rpq_store.usage u"
	" WHERE u.lender_id <> 0 AND u.amount OPERATOR(rpq.<>) ''::rpq.resources"
	"   AND (SELECT EXISTS (SELECT FROM rpq_store.pool WHERE type <> 'shared'))"
	" UNION ALL "
	"SELECT p.pool_id, w.scope_id FROM rpq_store.preemption p"
	"  JOIN rpq_store.workload w ON w.workload_id = p.victim"
	" WHERE p.state = 'pending' AND p.rule = 'borrowed'",
	0, {0}, true
};

typedef struct Tied
{
	int64		id;				/* scope, or -policy */
	int64		up;				/* towards the one that stands for the set; itself: that one */
	int			set;			/* index in sets, when the map is made */
} Tied;

typedef struct ScopeSet
{
	int			n;
	int64	   *scopes;			/* [n]; ascending */
} ScopeSet;

static const char *const link_tables[] = {"pool", "profile_pool", "queue"};

static uint64 generation = 1;	/* moved on by every invalidation of these tables */
static uint64 kept_generation = 0;
static Oid	table_oids[lengthof(link_tables)];
static MemoryContext map_context = NULL;
static HTAB *map = NULL;		/* NULL: nothing is tied */
static int	nsets = 0;
static ScopeSet *sets = NULL;

static void
relation_changed(Datum arg, Oid relid)
{
	if (relid == InvalidOid)
		generation++;
	for (int i = 0; i < lengthof(link_tables); i++)
	{
		if (table_oids[i] == relid)
			generation++;
	}
}

static Tied *
tied(HTAB *table, int64 id)
{
	bool		found;
	Tied	   *one = hash_search(table, &id, HASH_ENTER, &found);

	if (!found)
		one->up = id;
	return one;
}

/* The one that stands for the set; the way there is made shorter for the next who asks. */
static int64
top_of(HTAB *table, int64 id)
{
	Tied	   *one = tied(table, id);

	while (one->up != one->id)
	{
		Tied	   *next = tied(table, one->up);

		one->up = next->up;
		one = next;
	}
	return one->id;
}

/* Scopes come first in a set, by id; policies, below zero, never stand for one that has a scope. */
static void
tie(HTAB *table, int64 a, int64 b)
{
	int64		x = top_of(table, a);
	int64		y = top_of(table, b);
	bool		x_first = (x > 0) != (y > 0) ? x > 0 : x < y;

	if (x != y)
		tied(table, x_first ? y : x)->up = x_first ? x : y;
}

static int
scope_order(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* From pairs to sets. */
static void
make_sets(HTAB *table)
{
	HASH_SEQ_STATUS seq;
	Tied	   *one;
	int			n = 0;

	sets = palloc0(sizeof(ScopeSet) * hash_get_num_entries(table));
	hash_seq_init(&seq, table);
	while ((one = hash_seq_search(&seq)) != NULL)
	{
		if (top_of(table, one->id) == one->id)
			one->set = n++;
	}
	for (int round = 0; round < 2; round++)
	{
		hash_seq_init(&seq, table);
		while ((one = hash_seq_search(&seq)) != NULL)
		{
			ScopeSet   *set;

			one->set = tied(table, top_of(table, one->id))->set;
			set = &sets[one->set];
			if (one->id > 0 && set->scopes != NULL)
				set->scopes[set->n] = one->id;
			set->n += one->id > 0;
		}
		for (int i = 0; i < n && round == 0; i++)
		{
			sets[i].scopes = palloc(sizeof(int64) * Max(sets[i].n, 1));
			sets[i].n = 0;
		}
	}
	for (int i = 0; i < n; i++)
		qsort(sets[i].scopes, sets[i].n, sizeof(int64), scope_order);
	nsets = n;
}

static void
read_map(void)
{
	uint64		rows = rpq_exec(&load_links, NULL, NULL);
	MemoryContext old = MemoryContextSwitchTo(map_context);

	if (rows > 0)
	{
		HASHCTL		ctl = {0};
		HTAB	   *table;

		ctl.keysize = sizeof(int64);
		ctl.entrysize = sizeof(Tied);
		ctl.hcxt = map_context;
		table = hash_create("rpq tied scopes", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		for (uint64 i = 0; i < rows; i++)
			tie(table, rpq_column_int64(i, 1, 0), rpq_column_int64(i, 2, 0));
		make_sets(table);
		map = table;
	}
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
}

/*
 * What is read under one old snapshot is not kept: it would be out of date.
 */
static void
check_map(void)
{
	uint64		before;
	Oid			namespace;

	AcceptInvalidationMessages();
	if (kept_generation == generation && !IsolationUsesXactSnapshot())
		return;
	if (map_context == NULL)
	{
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
		map_context = AllocSetContextCreate(TopMemoryContext, "rpq connected sets", ALLOCSET_DEFAULT_SIZES);
	}
	kept_generation = 0;
	map = NULL;
	nsets = 0;
	sets = NULL;
	MemoryContextReset(map_context);
	namespace = get_namespace_oid("rpq_store", false);
	for (int i = 0; i < lengthof(link_tables); i++)
		table_oids[i] = get_relname_relid(link_tables[i], namespace);
	before = generation;
	read_map();
	if (!IsolationUsesXactSnapshot())
		kept_generation = before;
}

static const ScopeSet *
set_of(int64 scope_id)
{
	Tied	   *one = map == NULL ? NULL : hash_search(map, &scope_id, HASH_FIND, NULL);

	return one == NULL ? NULL : &sets[one->set];
}

int64
sets_first(int64 scope_id)
{
	const ScopeSet *set = set_of(scope_id);

	return set == NULL ? scope_id : set->scopes[0];
}

int
sets_size(int64 scope_id)
{
	const ScopeSet *set = set_of(scope_id);

	return set == NULL ? 1 : set->n;
}

int64 *
sets_extend(const int64 *scopes, int n, int *nout)
{
	int64	   *all;
	bool	   *taken;
	int			max = n;
	int			nall = 0;
	int			unique = 0;

	check_map();
	taken = palloc0(sizeof(bool) * Max(nsets, 1));
	for (int i = 0; i < nsets; i++)
		max += sets[i].n;
	all = palloc(sizeof(int64) * Max(max, 1));
	for (int i = 0; i < n; i++)
	{
		const ScopeSet *set = set_of(scopes[i]);

		if (set == NULL)
			all[nall++] = scopes[i];
		else if (!taken[set - sets])
		{
			memcpy(all + nall, set->scopes, sizeof(int64) * set->n);
			nall += set->n;
			taken[set - sets] = true;
		}
	}
	qsort(all, nall, sizeof(int64), scope_order);
	for (int i = 0; i < nall; i++)
	{
		if (unique == 0 || all[unique - 1] != all[i])
			all[unique++] = all[i];
	}
	*nout = unique;
	return all;
}

/*
 * rpq_store.sets_changed(): told to every session at commit, and to this one at once.
 */
Datum
rpq_sets_changed(PG_FUNCTION_ARGS)
{
	CacheInvalidateRelcacheByRelid(get_relname_relid("queue", get_namespace_oid("rpq_store", false)));
	PG_RETURN_VOID();
}

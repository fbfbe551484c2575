/*
 * config_cache.c
 *
 * Look-ups of submissions, kept between statements.
 *
 * Half of a submission's time would go into finding out the same few things again: who asks, the settings, sizes and
 * quotas of its pool or queue.  They are kept per session, and thrown away together when any table that they come from
 * changes: a statement trigger on each of these tables (UPDATE, DELETE, TRUNCATE), and take_turns, which every function
 * calls that adds rows to them (add_to_group excepted, see config_queue_facts), send a relcache invalidation, which the
 * server delivers when the change commits, and every session takes note of before its next statement.  So what a
 * session has been told to be committed is never overlooked, as with the server's own catalog caches.
 *
 * What is read is kept only if no invalidation arrived while it was read, and only under READ COMMITTED, where each
 * look-up has a snapshot of its own: a transaction with one old snapshot would keep what is out of date.
 *
 * Nothing here writes a table.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "api/config_cache.h"
#include "rpq.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_config_changed);

#define MAX_KEPT 10000			/* pools and queues times accounts of one session; a gateway serves many */

static const char *const config_tables[] = {
	"account", "fence", "group_account", "instance_type", "member", "member_quota", "policy", "pool", "pool_admin",
	"pool_capacity", "pool_instance", "profile", "profile_pool", "queue", "tenant", "workload_type"
};

typedef struct FactsKey
{
	int64		account_id;
	char		name[NAMEDATALEN * 2];	/* of a pool, queue or workload type; longer ones are not kept */
	char		kind;			/* 'p' a pool, 'q' a queue, 't' a workload type, 'i' a pool by its id, of no account */
} FactsKey;

typedef struct FactsEntry
{
	FactsKey	key;
	const void *facts;			/* ScopeFacts, or of 'i' a PoolPart; NULL of 't' */
} FactsEntry;

static uint64 generation = 1;	/* moved on by every invalidation of a config table */
static uint64 kept_generation = 0;
static Oid	table_oids[lengthof(config_tables)];
static MemoryContext kept_context = NULL;
static MemoryContext caller_context = NULL; /* in kept_context: one caller at a time */
static HTAB *kept = NULL;
static const Caller *kept_caller = NULL;
static Oid	kept_role = InvalidOid;
static char *kept_for = NULL;	/* rpq.account when the caller was looked up */

static void
relation_changed(Datum arg, Oid relid)
{
	if (relid == InvalidOid)
		generation++;
	for (int i = 0; i < lengthof(config_tables); i++)
	{
		if (table_oids[i] == relid)
			generation++;
	}
}

static void
role_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	generation++;
}

static void
register_callbacks(void)
{
	static bool registered = false;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, role_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, role_changed, (Datum) 0);
	registered = true;
}

/*
 * Throws away what is out of date, and makes the cache ready to keep things.  Only config_caller calls this, at the
 * beginning of a submission: what it and the others return lives at least until the next submission begins, whatever
 * news arrives meanwhile.
 */
static void
check_kept(void)
{
	HASHCTL		ctl;
	Oid			namespace;

	if (kept_context != NULL && kept_generation == generation && hash_get_num_entries(kept) < MAX_KEPT)
		return;
	register_callbacks();
	if (kept_context == NULL)
		kept_context = AllocSetContextCreate(TopMemoryContext, "rpq configuration", ALLOCSET_DEFAULT_SIZES);
	kept = NULL;
	kept_caller = NULL;
	MemoryContextReset(kept_context);
	caller_context = AllocSetContextCreate(kept_context, "rpq caller", ALLOCSET_SMALL_SIZES);
	namespace = get_namespace_oid("rpq_store", false);
	for (int i = 0; i < lengthof(config_tables); i++)
		table_oids[i] = get_relname_relid(config_tables[i], namespace);
	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(FactsKey);
	ctl.entrysize = sizeof(FactsEntry);
	ctl.hcxt = kept_context;
	kept = hash_create("rpq configuration", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	kept_generation = generation;
}

static bool
may_keep(void)
{
	return !IsolationUsesXactSnapshot();
}

static char *
keep_text(const char *text)
{
	return text == NULL ? NULL : MemoryContextStrdup(caller_context, text);
}

const Caller *
config_caller(void)
{
	const Caller *caller;
	Caller	   *copy;
	uint64		before;

	check_kept();
	if (kept_caller != NULL && may_keep() && kept_role == GetOuterUserId() && strcmp(kept_for, rpq_account) == 0 &&
		!InSecurityRestrictedOperation())
		return kept_caller;
	before = generation;
	/* the snapshot of the caller's statement may be older than news that have been noted already */
	PushActiveSnapshot(GetTransactionSnapshot());
	rpq_authorize("submit", NULL);
	caller = rpq_known_caller();
	PopActiveSnapshot();
	if (!may_keep() || before != generation || kept_generation != generation)
		return caller;
	/* a gateway's session acts for one account after the other */
	kept_caller = NULL;
	MemoryContextReset(caller_context);
	copy = MemoryContextAlloc(caller_context, sizeof(Caller));
	*copy = *caller;
	copy->db_role = keep_text(caller->db_role);
	copy->account = keep_text(caller->account);
	copy->gateway_account = keep_text(caller->gateway_account);
	copy->actor = keep_text(caller->actor);
	copy->on_behalf_of = keep_text(caller->on_behalf_of);
	kept_for = keep_text(rpq_account);
	kept_role = GetOuterUserId();
	kept_caller = copy;
	return kept_caller;
}

static bool
make_key(FactsKey *key, int64 account_id, const char *name, char kind)
{
	memset(key, 0, sizeof(FactsKey));
	key->account_id = account_id;
	key->kind = kind;
	if (strlen(name) >= sizeof(key->name))
		return false;
	strcpy(key->name, name);
	return true;
}

/*
 * What is being looked up.  It has a memory context of its own until it is kept: of what is not there nothing remains,
 * however often it is asked for.
 */
typedef struct LookUp
{
	FactsKey	key;
	bool		usable;
	const void *found;			/* what is kept */
	uint64		before;
	MemoryContext context;
	MemoryContext old;
} LookUp;

static LookUp
look_up(int64 account_id, const char *name, char kind)
{
	LookUp		look;
	FactsEntry *entry;

	Assert(kept != NULL);
	look.usable = make_key(&look.key, account_id, name, kind) && may_keep();
	entry = look.usable ? hash_search(kept, &look.key, HASH_FIND, NULL) : NULL;
	look.found = entry == NULL ? NULL : entry->facts;
	if (look.found != NULL)
		return look;
	look.before = generation;
	look.context = AllocSetContextCreate(CurrentMemoryContext, "rpq facts", ALLOCSET_SMALL_SIZES);
	look.old = MemoryContextSwitchTo(look.context);
	return look;
}

/* What a LookUp has kept refers only to what was kept while it was under way: news would have stopped both. */
static void
looked_up(LookUp *look, const void *facts, bool lasting)
{
	FactsEntry *entry;

	MemoryContextSwitchTo(look->old);
	if (!look->usable || !lasting || facts == NULL || look->before != generation || kept_generation != generation)
		return;
	entry = hash_search(kept, &look->key, HASH_ENTER, NULL);
	entry->facts = facts;
	MemoryContextSetParent(look->context, kept_context);
}

static const PoolPart *
config_pool_part(int64 pool_id)
{
	char		name[32];
	LookUp		look;
	const PoolPart *part;

	snprintf(name, sizeof(name), "%lld", (long long) pool_id);
	look = look_up(0, name, 'i');
	if (look.found != NULL)
		return look.found;
	part = read_pool_part(pool_id);
	looked_up(&look, part, true);
	return part;
}

const ScopeFacts *
config_pool_facts(int64 account_id, const char *pool)
{
	LookUp		look = look_up(account_id, pool, 'p');
	const ScopeFacts *facts;

	if (look.found != NULL)
		return look.found;
	facts = pool_facts(account_id, pool, config_pool_part);
	looked_up(&look, facts, true);
	return facts;
}

/*
 * Of one who is not in the queue's group nothing is kept: who is added to a group, by rows that are inserted, is told
 * to nobody.
 */
const ScopeFacts *
config_queue_facts(int64 account_id, const char *queue)
{
	LookUp		look = look_up(account_id, queue, 'q');
	const ScopeFacts *facts;

	if (look.found != NULL)
		return look.found;
	facts = queue_facts(account_id, queue, config_pool_part);
	looked_up(&look, facts, facts->authorized);
	return facts;
}

bool
config_workload_type(int64 account_id, const char *name)
{
	FactsKey	key;
	bool		usable;
	uint64		before;

	Assert(kept != NULL);
	usable = make_key(&key, account_id, name, 't') && may_keep();
	if (usable && hash_search(kept, &key, HASH_FIND, NULL) != NULL)
		return true;
	before = generation;
	if (!workload_type_exists(account_id, name))
		return false;
	if (usable && before == generation && kept_generation == generation)
		((FactsEntry *) hash_search(kept, &key, HASH_ENTER, NULL))->facts = NULL;
	return true;
}

/*
 * rpq_store.config_changed(): statement trigger on the tables above.
 */
Datum
rpq_config_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("config_changed must be called as a trigger")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}

/*
 * reason.c
 *
 * Why a lane waits, in words and figures: "pool "b": gpu=8 wanted, gpu=0 free, gpu=8 more needed".
 */
#include "postgres.h"

#include "core/reason.h"
#include "core/resources.h"
#include "lib/stringinfo.h"

static const struct
{
	ReasonCode	code;
	const char *name;
}			code_names[] =
{
	{REASON_NONE, "none"},
	{REASON_NOT_CONSIDERED, "not_considered_yet"},
	{REASON_FENCED, "fenced"},
	{REASON_POOL_NOT_READY, "pool_not_ready"},
	{REASON_NOT_AUTHORIZED, "not_authorized"},
	{REASON_POOL_FROZEN, "pool_frozen"},
	{REASON_WORKLOAD_TYPE, "workload_type"},
	{REASON_BACKING_OFF, "backing_off"},
	{REASON_USER_QUOTA, "user_quota"},
	{REASON_POLICY_LIMIT, "policy_limit"},
	{REASON_RESERVED, "reserved_for_others"},
	{REASON_POOL_QUOTA, "pool_quota"},
	{REASON_NO_NODE_FITS, "no_node_fits"},
	{REASON_GANG_DOES_NOT_FIT, "gang_does_not_fit"},
	{REASON_PREEMPTING, "preempting"},
	{REASON_BEHIND, "behind"}
};

/*
 * The name by which people and views know a reason.
 */
const char *
reason_code_name(ReasonCode code)
{
	Assert(code >= 0 && code < lengthof(code_names) && code_names[code].code == code);
	return code_names[code].name;
}

/*
 * A vector as a value, with the keys that count: those that are wanted and, where available is given, bounded.
 */
Resources *
world_resources(const World *world, const int64 *vector, const int64 *wanted, const int64 *available)
{
	const char **keys = palloc(sizeof(char *) * world->nkeys);
	int64	   *amounts = palloc(sizeof(int64) * world->nkeys);
	Resources  *result;
	int			n = 0;

	for (int k = 0; k < world->nkeys; k++)
		if (wanted[k] > 0 && (available == NULL || available[k] != RPQ_UNLIMITED))
		{
			keys[n] = world->keys[k];
			amounts[n++] = vector[k];
		}
	result = resources_build(n, keys, amounts);
	pfree(keys);
	pfree(amounts);
	return result;
}

/* The text of the same. */
char *
vector_text(const World *world, const int64 *vector, const int64 *wanted, const int64 *available)
{
	return resources_text(world_resources(world, vector, wanted, available));
}

/* Of a vector, the keys in which it is positive. */
char *
positive_text(const World *world, const int64 *vector)
{
	return resources_text(world_resources(world, vector, vector, NULL));
}

/*
 * What a limit is called: personal quota of type "a100" in pool "p".
 */
char *
limit_name(const World *world, ReasonCode code, int pool, int type)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, code == REASON_USER_QUOTA ? "personal quota" : "usage limit of the policy");
	if (type >= 0)
		appendStringInfo(&text, " of instance type \"%s\"", world->types[type]);
	if (pool >= 0)
		appendStringInfo(&text, " in pool \"%s\"", world->pools[pool].name);
	return text.data;
}

static void
append_limit(StringInfo text, const World *world, const Reason *reason)
{
	const char *left = "left";

	if (reason->code == REASON_POOL_QUOTA)
	{
		appendStringInfo(text, "pool \"%s\"", world->pools[reason->pool].name);
		left = "free";
	}
	else if (reason->guarantee)
	{
		appendStringInfoString(text, "guaranteed work must fit what is left of the reservation of its policy");
		left = "unmet";
	}
	else
		appendStringInfoString(text, limit_name(world, reason->code,
												reason->code == REASON_USER_QUOTA ? reason->pool : -1, reason->type));
	if (reason->wanted == NULL || reason->available == NULL)
		return;
	if (vector_text(world, reason->wanted, reason->wanted, reason->available)[0] == '\0')
	{
		appendStringInfoString(text, " bounds nothing that is asked for");
		return;
	}
	appendStringInfo(text, ": %s wanted, ", vector_text(world, reason->wanted, reason->wanted, reason->available));
	appendStringInfo(text, "%s %s", vector_text(world, reason->available, reason->wanted, reason->available), left);
	if (reason->missing != NULL && positive_text(world, reason->missing)[0] != '\0')
		appendStringInfo(text, ", %s more needed", positive_text(world, reason->missing));
}

/*
 * What is free in sum, most on one node, and on nodes that take nothing new.
 */
static void
append_room(StringInfo text, const World *world, const Reason *reason)
{
	const int64 *wanted = reason->wanted;
	bool		scarce = false;

	appendStringInfo(text, "%s free %s, at most ", vector_text(world, reason->available, wanted, NULL),
					 reason->some_types ? "on the allowed instance types" : "in the pool");
	appendStringInfo(text, "%s on one node", vector_text(world, reason->largest, wanted, NULL));
	for (int k = 0; k < world->nkeys; k++)
		scarce |= wanted[k] > reason->largest[k];
	if (wanted[RPQ_KEY_GPU] > 0 && wanted[RPQ_KEY_GPU] < RPQ_UNIT)
		appendStringInfoString(text, " and device");
	else if (wanted[RPQ_KEY_GPU] > 0 && reason->available[RPQ_KEY_GPU] % RPQ_UNIT != 0)
		appendStringInfoString(text, " in whole devices");
	if (reason->code == REASON_NO_NODE_FITS && !scarce)
		appendStringInfoString(text, ", but not all of it together");
	if (reason->why_unavailable != NULL)
	{
		appendStringInfo(text, "; %s more is free on nodes that %s",
						 vector_text(world, reason->unavailable, wanted, NULL),
						 reason->others ? "do not take it" : "take nothing new");
		appendStringInfo(text, " (%s)", reason->why_unavailable);
	}
}

static void
append_placement(StringInfo text, const World *world, const Reason *reason)
{
	if (reason->code == REASON_NO_NODE_FITS)
		appendStringInfo(text, "no node of pool \"%s\" has room", world->pools[reason->pool].name);
	else
	{
		appendStringInfo(text, "%d of %d replicas would fit in pool \"%s\"", reason->fitting, reason->replicas,
						 world->pools[reason->pool].name);
		if (reason->type >= 0)
			appendStringInfo(text, " on instance type \"%s\"", world->types[reason->type]);
	}
	if (reason->wanted == NULL)
		return;
	appendStringInfo(text, ": %s wanted%s, ", vector_text(world, reason->wanted, reason->wanted, NULL),
					 reason->replicas > 1 ? " by each replica" : "");
	append_room(text, world, reason);
}

/*
 * What is kept for reservations that are not met: those of lending hold, or all of them where the room could never be
 * taken back.
 */
static void
append_reserved(StringInfo text, const World *world, const Reason *reason)
{
	const char *kept = reason->guarantee ?
		"for reservations of policies, as it could not be preempted" :
		"for reservations of policies that do not lend";

	appendStringInfo(text, "room in pool \"%s\" is kept %s", world->pools[reason->pool].name, kept);
	if (reason->wanted == NULL)
		return;
	appendStringInfo(text, ": %s wanted, ", vector_text(world, reason->wanted, reason->wanted, reason->available));
	appendStringInfo(text, "%s free, ", vector_text(world, reason->largest, reason->wanted, reason->available));
	appendStringInfo(text, "%s of it beyond what they need",
					 vector_text(world, reason->available, reason->wanted, reason->available));
}

/* How many nodes a sentence names. */
#define MOST_NAMED	8

static int
compare_nodes(const void *a, const void *b)
{
	return *(const int *) a - *(const int *) b;
}

Reason *
reason_of_hold(const World *world, int pool, int type, const PodPlace *pods, int npods, int npending, int nvictims)
{
	Reason	   *reason = palloc0(sizeof(Reason));
	int		   *nodes = palloc(sizeof(int) * (npods + 1));
	StringInfoData text;
	int			n = 0;

	for (int i = 0; i < npods; i++)
		nodes[i] = pods[i].node;
	qsort(nodes, npods, sizeof(int), compare_nodes);
	initStringInfo(&text);
	for (int i = 0; i < npods; i++)
	{
		if (nodes[i] < 0 || (i > 0 && nodes[i] == nodes[i - 1]))
			continue;
		if (n < MOST_NAMED)
			appendStringInfo(&text, "%s%s", n > 0 ? ", " : "", world->nodes[nodes[i]].name);
		n++;
	}
	if (n > MOST_NAMED)
		appendStringInfo(&text, " and %d more", n - MOST_NAMED);
	pfree(nodes);
	reason->code = REASON_PREEMPTING;
	reason->pool = pool;
	reason->type = type;
	reason->held_on = n > 0 ? text.data : NULL;
	reason->npending = npending;
	reason->nvictims = nvictims;
	return reason;
}

/* Sentences without figures. */
static void
append_plain(StringInfo text, const World *world, const Reason *reason)
{
	const char *pool = reason->pool >= 0 ? psprintf("pool \"%s\"", world->pools[reason->pool].name) : "the pool";

	switch (reason->code)
	{
		case REASON_NOT_CONSIDERED:
			appendStringInfoString(text, "no cycle has considered it yet");
			break;
		case REASON_FENCED:
			appendStringInfoString(text, "the database is fenced: it is a copy that nobody has adopted");
			break;
		case REASON_POOL_NOT_READY:
			appendStringInfo(text, "%s is not ready", pool);
			break;
		case REASON_NOT_AUTHORIZED:
			if (reason->guarantee)
				appendStringInfo(text, "%s takes no guaranteed work", pool);
			else
				appendStringInfo(text, "the account is not authorized in %s", pool);
			break;
		case REASON_POOL_FROZEN:
			appendStringInfo(text, "%s is frozen", pool);
			break;
		case REASON_WORKLOAD_TYPE:
			appendStringInfo(text, "%s does not support the workload type", pool);
			break;
		case REASON_BACKING_OFF:
			appendStringInfoString(text, "its time to be tried again has not come");
			if (reason->until != NULL)
				appendStringInfo(text, ": not before %s", reason->until);
			break;
		case REASON_PREEMPTING:
			if (reason->held_on != NULL)
				appendStringInfo(text, "room is held on %s; %d of %d %s still to stop", reason->held_on,
								 reason->npending, reason->nvictims,
								 reason->nvictims == 1 ? "victim has" : "victims have");
			else
				appendStringInfo(text, "room is being made in %s", pool);
			break;
		case REASON_BEHIND:
			appendStringInfo(text, "workload " INT64_FORMAT " is ahead in %s", reason->ahead, pool);
			break;
		default:
			break;
	}
}

/*
 * One sentence, without a full stop.
 */
char *
reason_sentence(const World *world, const Reason *reason)
{
	StringInfoData text;

	initStringInfo(&text);
	switch (reason->code)
	{
		case REASON_USER_QUOTA:
		case REASON_POLICY_LIMIT:
		case REASON_POOL_QUOTA:
			append_limit(&text, world, reason);
			break;
		case REASON_NO_NODE_FITS:
		case REASON_GANG_DOES_NOT_FIT:
			append_placement(&text, world, reason);
			break;
		case REASON_RESERVED:
			append_reserved(&text, world, reason);
			break;
		default:
			append_plain(&text, world, reason);
			break;
	}
	return text.data;
}

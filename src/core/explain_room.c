/*
 * explain_room.c
 *
 * The checks of an explanation that are about room: reservations of others, placement, target nodes of others, and room
 * that is held.
 */
#include "postgres.h"

#include "datatype/timestamp.h"
#include "miscadmin.h"

#include "core/explain.h"
#include "core/reason.h"
#include "core/reserve.h"
#include "core/resources.h"
#include "core/targets.h"
#include "lib/stringinfo.h"

/* ---- reservations of others ---- */

/*
 * The world with nothing running: all nodes that take work are free, no policy holds anything.
 */
static World *
empty_world(const World *world)
{
	World	   *empty = palloc(sizeof(World));

	*empty = *world;
	empty->nodes = palloc(sizeof(PoolNode) * (world->nnodes + 1));
	empty->policies = palloc(sizeof(Policy) * (world->npolicies + 1));
	memcpy(empty->nodes, world->nodes, sizeof(PoolNode) * world->nnodes);
	memcpy(empty->policies, world->policies, sizeof(Policy) * world->npolicies);
	for (int n = 0; n < world->nnodes; n++)
	{
		PoolNode   *node = &empty->nodes[n];

		node->account = 0;
		if (node->capacity != NULL)
			node->free = node->capacity;
	}
	for (int p = 0; p < world->npolicies; p++)
		empty->policies[p].held = palloc0(sizeof(int64) * world->nkeys);
	return empty;
}

/*
 * Whether the reservations of others leave no place for a workload even when nothing runs.
 */
static bool
reserved_never(Explanation *ex, int pool)
{
	Placer	   *placer = placer_create(empty_world(ex->world));

	return !reserved_passes(placer, &ex->candidate, pool, NULL, NULL);
}

/* Enough to pass whatever is reserved, and far from the end of the range of amounts. */
#define PLENTY	(PG_INT64_MAX / 8)

/*
 * How much more of a key would have to be free in a pool; what else stands in the way is taken to be there.  The more
 * is free, the less an admission costs the reservations, so the least amount is found by halving.
 */
static int64
reserved_missing(Explanation *ex, int pool, const Reason *reason, int key)
{
	Room	   *room = room_get(ex->placer, pool, 0);
	int64		low = 0;		/* does not pass */
	int64		high = PLENTY;	/* passes */

	for (int k = 0; k < ex->world->nkeys; k++)
		if (k != key && reason->available[k] != RPQ_UNLIMITED)
			room->sum[k] += PLENTY;
	while (high - low > 1)
	{
		int64		middle = low + (high - low) / 2;

		room->sum[key] += middle;
		if (reserved_passes(ex->placer, &ex->candidate, pool, NULL, NULL))
			high = middle;
		else
			low = middle;
		room->sum[key] -= middle;
	}
	for (int k = 0; k < ex->world->nkeys; k++)
		if (k != key && reason->available[k] != RPQ_UNLIMITED)
			room->sum[k] -= PLENTY;
	return high;
}

/* Whether any reservation is kept against the workload. */
static bool
any_reserved(const Explanation *ex, int pool)
{
	const World *world = ex->world;
	bool		all = never_preempted(world, ex->candidate.lane, pool) && !candidate_has_rank(world, &ex->candidate);

	for (int p = 0; p < world->npolicies; p++)
		for (int k = 0; k < world->nkeys; k++)
			if ((all || world->policies[p].hold) && world->policies[p].npools > 0 &&
				world->policies[p].reservation[k] > 0)
				return true;
	return false;
}

/*
 * Where reservations are kept against the workload there is a row.
 */
void
explain_reserved(Explanation *ex, int pool)
{
	World	   *world = ex->world;
	Reason	   *reason;
	Check	   *check;
	int64	   *missing;

	if (!any_reserved(ex, pool))
		return;
	check = add_check(ex, REASON_RESERVED, pool, -1, reserved_passes(ex->placer, &ex->candidate, pool, NULL, NULL));
	check->wanted = ex->candidate.total;
	if (check->passed)
	{
		check->detail = psprintf("the reservations of others leave room for it in pool \"%s\"",
								 world->pools[pool].name);
		return;
	}
	reason = reserved_reason(ex->placer, &ex->candidate, pool);
	check->available = reason->available;
	check->detail = reason_sentence(world, reason);
	check->never = world->pools[pool].ntypes == 0 || reserved_never(ex, pool);
	missing = palloc0(sizeof(int64) * world->nkeys);
	for (int k = 0; k < world->nkeys && world->pools[pool].ntypes > 0; k++)
		if (reason->available[k] != RPQ_UNLIMITED)
			missing[k] = reserved_missing(ex, pool, reason, k);
	check->way_out = psprintf(check->never ? NEVER ": pool \"%s\" would have to hold %s more, or less be reserved" :
							  "must wait until pool \"%s\" has %s more free, or less is reserved",
							  world->pools[pool].name, positive_text(world, missing));
}

/* ---- placement ---- */

/*
 * How many replicas a node would hold if nothing ran on it, as far as its capacity is known.
 */
static int64
times_when_empty(const World *world, const Need *need, const PoolNode *node)
{
	int64		times = PG_INT32_MAX;

	if (need->impossible)
		return 0;
	if (need->whole > 0)
		times = node->ndevices / need->whole;
	else if (need->part > 0)
		times = node->ndevices * (RPQ_UNIT / need->part);
	for (int k = 1; k < world->nkeys; k++)
		if (need->request[k] > 0 && node->capacity != NULL)
			times = Min(times, Max(node->capacity[k], 0) / need->request[k]);
	return times;
}

/*
 * What is missing on a node for one more replica than it has room for.  Of devices: how many more must be entirely
 * free, or how much more of one.
 */
static void
node_missing(const World *world, const Need *need, const PoolNode *node, int64 *missing)
{
	int64		times = need_times_on_node(world, need, node);
	int64		whole = 0;
	int64		parts = 0;
	int64		rest = 0;

	for (int d = 0; d < node->ndevices; d++)
	{
		int64		left = Max(node->device_free[d], 0);

		whole += left >= RPQ_UNIT;
		if (need->part > 0)
		{
			parts += left / need->part;
			rest = Max(rest, left % need->part);
		}
	}
	for (int k = 1; k < world->nkeys; k++)
		missing[k] = Max(0, need->request[k] - (node->free[k] - times * need->request[k]));
	missing[RPQ_KEY_GPU] = 0;
	if (need->whole > 0)
		missing[RPQ_KEY_GPU] = RPQ_UNIT * Max(0, need->whole - (whole - times * need->whole));
	else if (need->part > 0 && parts <= times)
		missing[RPQ_KEY_GPU] = need->part - rest;
}

/* What a look over the nodes of the allowed types finds. */
typedef struct Survey
{
	int64		empty;			/* replicas that all nodes would hold with nothing running: the most on one type */
	int			nearest;		/* the working node that needs least for one more, or -1 */
	int64	   *missing;		/* [nkeys]: what it needs */
	int			closed;			/* the first node that has room for one and takes nothing new, or -1 */
	int			others;			/* the first working node that could have it and hosts other accounts, or -1 */
	bool		others_room;	/* it has the room now */
} Survey;

/* A node that takes work, but not of this account: one that has the room comes before one that has to be emptied. */
static void
survey_others(const World *world, const Need *need, int index, Survey *survey)
{
	bool		has_room = need_fits_node(world, need, &world->nodes[index]);

	if (!has_room && times_when_empty(world, need, &world->nodes[index]) == 0)
		return;
	if (survey->others >= 0 && (has_room != survey->others_room ? survey->others_room : index > survey->others))
		return;
	survey->others = index;
	survey->others_room = has_room;
}

static void
survey_node(World *world, const Need *need, int index, Survey *survey, int64 *scratch)
{
	const PoolNode *node = &world->nodes[index];
	int64		empty = times_when_empty(world, need, node);
	int			k = 0;

	if (!node->takes_work)
	{
		if (need_fits_node(world, need, node) && node_open_to(world, node, need->account) &&
			(survey->closed < 0 || index < survey->closed))
			survey->closed = index;
		return;
	}
	if (!node_open_to(world, node, need->account))
	{
		survey_others(world, need, index, survey);
		return;
	}
	if (empty <= need_times_on_node(world, need, node))
		return;
	node_missing(world, need, node, scratch);
	while (survey->nearest >= 0 && k < world->nkeys && scratch[k] == survey->missing[k])
		k++;
	if (survey->nearest < 0 || (k < world->nkeys ? scratch[k] < survey->missing[k] : index < survey->nearest))
	{
		survey->nearest = index;
		memcpy(survey->missing, scratch, sizeof(int64) * world->nkeys);
	}
}

static void
survey_nodes(Explanation *ex, int pool, const bool *usable, Survey *survey)
{
	World	   *world = ex->world;
	int64	   *scratch = palloc(sizeof(int64) * world->nkeys);

	survey->empty = 0;
	survey->nearest = survey->closed = survey->others = -1;
	survey->others_room = false;
	survey->missing = palloc0(sizeof(int64) * world->nkeys);
	for (int t = 0; t < world->pools[pool].ntypes; t++)
	{
		Room	   *room = usable[t] ? room_get(ex->placer, pool, t) : NULL;
		int64		empty = 0;

		for (int i = 0; room != NULL && i < room->nnodes; i++)
		{
			CHECK_FOR_INTERRUPTS();
			empty += times_when_empty(world, ex->candidate.need, &world->nodes[room->nodes[i]]);
			survey_node(world, ex->candidate.need, room->nodes[i], survey, scratch);
		}
		survey->empty = Max(survey->empty, empty);
	}
}

/* What is in the way on nodes that are not open to the workload, after what was said of those that are. */
static void
append_not_open(StringInfo text, const World *world, const Survey *survey)
{
	const char *before = survey->nearest >= 0 ? ";" : ":";

	if (survey->closed >= 0)
	{
		const PoolNode *node = &world->nodes[survey->closed];

		appendStringInfo(text, "%s node \"%s\" has room and takes nothing new: %s", before, node->name,
						 node->why_not ? node->why_not : "unavailable");
		before = ";";
	}
	if (survey->others >= 0 && survey->others_room)
		appendStringInfo(text, "%s node \"%s\" has room and hosts other accounts", before,
						 world->nodes[survey->others].name);
	else if (survey->others >= 0 && survey->nearest < 0)
		appendStringInfo(text, "%s node \"%s\" hosts other accounts", before, world->nodes[survey->others].name);
}

static void
placement_way_out(Explanation *ex, Check *check, int pool, const bool *usable, int lacking)
{
	World	   *world = ex->world;
	int			replicas = check->code == REASON_GANG_DOES_NOT_FIT ? ex->candidate.need->replicas : 1;
	Survey		survey;
	StringInfoData text;

	survey_nodes(ex, pool, usable, &survey);
	initStringInfo(&text);
	check->never = survey.empty < replicas;
	if (check->never && replicas == 1)
		appendStringInfo(&text, NEVER ": no node of pool \"%s\" is large enough", world->pools[pool].name);
	else if (check->never)
		appendStringInfo(&text, NEVER ": with nothing running the nodes of pool \"%s\" hold " INT64_FORMAT
						 " of %d replicas on one instance type", world->pools[pool].name, survey.empty, replicas);
	else
	{
		appendStringInfoString(&text, "must wait");
		if (replicas > 1)
			appendStringInfo(&text, " for room for %d more", lacking);
		/* what stands on it would have to leave: on the nearest, or on the one of others when none is open */
		check->node = survey.nearest >= 0 || survey.closed >= 0 ? survey.nearest : survey.others;
		if (survey.nearest >= 0)
			appendStringInfo(&text, ": node \"%s\" needs least%s, %s more free", world->nodes[survey.nearest].name,
							 replicas > 1 ? " for the next" : "", positive_text(world, survey.missing));
		if (survey.nearest >= 0 && world->nodes[survey.nearest].lacks != NULL)
			appendStringInfo(&text, " (its machine lacks %s at present)", world->nodes[survey.nearest].lacks);
	}
	if (!check->never)
		append_not_open(&text, world, &survey);
	check->way_out = text.data;
}

/* How a workload that is behind might go first. */
static char *
way_past_targets(const Explanation *ex, const Room *home)
{
	char	   *text = psprintf("must wait until workload " INT64_FORMAT " has started", home->head_id);
	int64		seconds;

	if (home->bound == DT_NOEND)
		return psprintf("%s; with a max_runtime it would not have to", text);
	if (home->bound == DT_NOBEGIN || home->bound <= ex->world->now)
		return text;
	seconds = (home->bound - ex->world->now - 1) / USECS_PER_SEC;
	if (seconds <= 0)
		return text;
	return psprintf("%s; with a max_runtime of " INT64_FORMAT " s or less it would not have to", text, seconds);
}

/*
 * What has room may have it on target nodes of another alone.  Where a pool has targets, there is a row.
 */
static void
explain_behind(Explanation *ex, int pool_index, bool *usable)
{
	const Pool *pool = &ex->world->pools[pool_index];
	const Need *need = ex->candidate.need;
	const Room *home = NULL;
	bool		any = false;
	bool		passes = false;
	Reason	   *reason = reason_create(REASON_BEHIND, pool_index, -1);
	Check	   *check;

	for (int t = 0; t < pool->ntypes && !passes; t++)
	{
		Room	   *room = usable[t] ? room_get(ex->placer, pool_index, t) : NULL;

		passes = room != NULL && room_count(room, need, need->replicas) >= need->replicas;
	}
	for (int t = 0; t < pool->ntypes; t++)
		any |= usable[t] && room_get(ex->placer, pool_index, t)->targets != NULL;
	if (!any)
		return;
	if (!passes && targets_in_way(ex->placer, &ex->candidate, pool_index, usable, &reason->type, &reason->ahead))
		for (int t = 0; t < pool->ntypes; t++)
			if (pool->types[t].type == reason->type)
				home = room_get(ex->placer, pool_index, t);
	check = add_check(ex, REASON_BEHIND, pool_index, reason->type, passes);
	if (passes)
		check->detail = psprintf("there is room in pool \"%s\" past the nodes that are kept back for others",
								 pool->name);
	else
	{
		check->detail = reason_sentence(ex->world, reason);
		check->way_out = way_past_targets(ex, home);
	}
}

/*
 * A row for one replica, and when that passes one for all of them, and when these pass one for the targets of others.
 */
void
explain_placement(Explanation *ex, int pool_index)
{
	const Pool *pool = &ex->world->pools[pool_index];
	const Lane *lane = ex->candidate.lane;
	const Need *need = ex->candidate.need;
	bool	   *usable = palloc(sizeof(bool) * (pool->ntypes + 1));
	Reason	   *reason = reason_create(REASON_NO_NODE_FITS, pool_index, -1);
	int64		most = 0;
	Check	   *check;

	ex->candidate.need->past_targets = true;
	for (int t = 0; t < pool->ntypes; t++)
	{
		int64		fitting;

		usable[t] = lane->type_allowed == NULL || lane->type_allowed[pool->types[t].type];
		if (!usable[t])
			continue;
		fitting = room_count(room_get(ex->placer, pool_index, t), need, need->replicas);
		if (fitting > most)
		{
			most = fitting;
			reason->type = pool->types[t].type;
		}
	}
	placement_figures(ex->placer, pool_index, usable, need, reason);
	reason->fitting = (int) most;
	ex->candidate.need->past_targets = false;

	check = add_check(ex, REASON_NO_NODE_FITS, pool_index, -1, most > 0);
	check->wanted = reason->wanted;
	check->available = reason->largest;
	if (check->passed)
		check->detail = psprintf("a node of pool \"%s\" has room for %s", pool->name,
								 need->replicas > 1 ? "a replica" : "it");
	else
	{
		check->detail = reason_sentence(ex->world, reason);
		placement_way_out(ex, check, pool_index, usable, 1);
	}
	if (need->replicas == 1 && most > 0)
		explain_behind(ex, pool_index, usable);
	if (need->replicas == 1 || most == 0)
		return;

	reason->code = REASON_GANG_DOES_NOT_FIT;
	check = add_check(ex, REASON_GANG_DOES_NOT_FIT, pool_index, reason->type, most >= need->replicas);
	check->wanted = ex->candidate.total;
	check->available = reason->available;
	if (check->passed)
	{
		check->detail = psprintf("all %d replicas have room in pool \"%s\" on instance type \"%s\"", need->replicas,
								 pool->name, ex->world->types[reason->type]);
		explain_behind(ex, pool_index, usable);
	}
	else
	{
		check->detail = reason_sentence(ex->world, reason);
		placement_way_out(ex, check, pool_index, usable, (int) (need->replicas - most));
	}
}

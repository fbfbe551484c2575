/*
 * explain.c
 *
 * Every check that applies to one workload of a lane, passed or not, each with its figures, a sentence and a way out.
 *
 * The checks are those of the plan (admit.h), asked one by one and not only up to the first that fails: whoever lifts
 * each limit that is named here makes that check pass, and whoever leaves one does not.  A way out begins with "can
 * never run as things are set" where no end of running work would help, and with "must wait" elsewhere.  The world is
 * only read.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "core/admit.h"
#include "core/reason.h"
#include "core/resources.h"
#include "lib/stringinfo.h"

#define NEVER	"can never run as things are set"

typedef struct Explanation
{
	World	   *world;
	Placer	   *placer;
	Candidate	candidate;
	int			nchecks;
	int			maxchecks;
	Check	   *checks;
} Explanation;

static Check *
add_check(Explanation *ex, ReasonCode code, int pool, int type, bool passed)
{
	Check	   *check;

	if (ex->nchecks == ex->maxchecks)
	{
		ex->maxchecks *= 2;
		ex->checks = repalloc(ex->checks, sizeof(Check) * ex->maxchecks);
	}
	check = &ex->checks[ex->nchecks++];
	memset(check, 0, sizeof(Check));
	check->code = code;
	check->pool = pool;
	check->type = type;
	check->passed = passed;
	check->node = -1;
	return check;
}

/* ---- standing reasons, and the state of a pool ---- */

static void
add_standing(Explanation *ex, ReasonCode code, const char *passed, const char *way_out, bool never)
{
	const Lane *lane = ex->candidate.lane;
	int			pool = lane->npools == 1 ? lane->pools[0] : -1;
	Check	   *check = add_check(ex, code, pool, -1, lane->own != code);

	check->detail = check->passed ? passed : reason_sentence(ex->world, reason_create(code, pool, -1));
	check->way_out = check->passed ? NULL : way_out;
	check->never = !check->passed && never;
}

/*
 * A lane has one standing reason, the first; what comes after it is not known.
 */
static void
explain_standing(Explanation *ex)
{
	ReasonCode	own = ex->candidate.lane->own;

	if (own == REASON_FENCED)
		add_standing(ex, own, NULL, "must wait until the database is adopted: call rpq.adopt_database()", false);
	if (own == REASON_NONE || own >= REASON_NOT_AUTHORIZED)
		add_standing(ex, REASON_NOT_AUTHORIZED, "the account is authorized",
					 NEVER ": authorize the account in the pool", true);
	if (own == REASON_NONE || own >= REASON_WORKLOAD_TYPE)
		add_standing(ex, REASON_WORKLOAD_TYPE, "the workload type is supported",
					 NEVER ": let the pool support the workload type", true);
	if (own == REASON_BACKING_OFF)
		add_standing(ex, own, NULL, "must wait until its time has come", false);
}

static void
explain_state(Explanation *ex, int pool_index)
{
	const Pool *pool = &ex->world->pools[pool_index];
	Check	   *check;

	check = add_check(ex, REASON_POOL_NOT_READY, pool_index, -1, pool->closed != REASON_POOL_NOT_READY);
	check->detail = psprintf("pool \"%s\" is %sready", pool->name, check->passed ? "" : "not ");
	if (!check->passed)
		check->way_out = psprintf("must wait until pool \"%s\" is ready", pool->name);
	if (!check->passed)
		return;					/* whether it is also frozen is not known */
	check = add_check(ex, REASON_POOL_FROZEN, pool_index, -1, pool->closed != REASON_POOL_FROZEN);
	check->detail = psprintf("pool \"%s\" is %sfrozen", pool->name, check->passed ? "not " : "");
	if (!check->passed)
		check->way_out = psprintf(NEVER ": unfreeze pool \"%s\"", pool->name);
	check->never = !check->passed;
}

/* ---- limits ---- */

/*
 * Whether the bound itself, with nothing in use, is too small in a key that stands in the way.
 */
static bool
never_passes(const World *world, const UsageLimit *limit, const int64 *total)
{
	for (int k = 0; k < world->nkeys; k++)
		if (!limit_passes_key(limit, total, k) && total[k] > limit_bound(limit, k))
			return true;
	return false;
}

/*
 * The exact change that lets the workload pass: each bound in its way, raised to what is in use and what it wants.
 */
static char *
raise_limit(Explanation *ex, const UsageLimit *limit, const Reason *reason, bool never)
{
	const World *world = ex->world;
	int64	   *raised = palloc0(sizeof(int64) * world->nkeys);
	char	   *by = positive_text(world, reason->missing);
	char	   *name;

	for (int k = 0; k < world->nkeys; k++)
		if (reason->missing[k] > 0 && pg_add_s64_overflow(limit_bound(limit, k), reason->missing[k], &raised[k]))
			return pstrdup(NEVER ": it asks for more than any amount");
	if (limit->kind == LIMIT_POOL && never)
		return psprintf(NEVER ": pool \"%s\" would have to hold %s (%s more)", world->pools[limit->pool].name,
						positive_text(world, raised), by);
	if (limit->kind == LIMIT_POOL)
		return psprintf("must wait until %s of the pool is given back, or until pool \"%s\" holds %s (%s more)", by,
						world->pools[limit->pool].name, positive_text(world, raised), by);
	name = limit_name(world, reason->code, limit->pool, limit->type);
	return psprintf("%s raise the %s to %s (by %s)",
					never ? NEVER ":" : psprintf("must wait until %s of it is given back, or", by), name,
					positive_text(world, raised), by);
}

static void
add_limit(Explanation *ex, const UsageLimit *limit, int pool)
{
	const int64 *total = ex->candidate.total;
	Reason	   *reason = reason_of_limit(ex->world, &ex->candidate, limit, pool);
	Check	   *check = add_check(ex, reason->code, pool, limit->type, limit_passes(ex->world, limit, total));

	check->wanted = reason->wanted;
	check->available = reason->available;
	check->detail = reason_sentence(ex->world, reason);
	if (check->passed)
		return;
	check->never = never_passes(ex->world, limit, total);
	check->way_out = raise_limit(ex, limit, reason, check->never);
}

/*
 * The limits of its own that bind in a pool: personal quotas, then policy limits; for the pool as a whole, then for the
 * instance types that the workload allows.  A limit that is of no one pool has its row with the first.
 */
static void
explain_limits(Explanation *ex, int pool_index, bool first)
{
	const Lane *lane = ex->candidate.lane;

	for (LimitKind kind = LIMIT_USER; kind <= LIMIT_POLICY; kind++)
		for (int of_type = 0; of_type <= 1; of_type++)
			for (int i = 0; i < lane->nlimits; i++)
			{
				const UsageLimit *limit = lane->limits[i];

				if (limit->kind != kind || (limit->type != RPQ_WHOLE_POOL) != of_type)
					continue;
				if (limit->pool < 0 ? !first : limit->pool != pool_index)
					continue;
				if (of_type && lane->type_allowed != NULL && !lane->type_allowed[limit->type])
					continue;
				add_limit(ex, limit, limit->pool);
			}
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

/*
 * A row for one replica, and when that passes one for all of them.
 */
static void
explain_placement(Explanation *ex, int pool_index)
{
	const Pool *pool = &ex->world->pools[pool_index];
	const Lane *lane = ex->candidate.lane;
	const Need *need = ex->candidate.need;
	bool	   *usable = palloc(sizeof(bool) * (pool->ntypes + 1));
	Reason	   *reason = reason_create(REASON_NO_NODE_FITS, pool_index, -1);
	int64		most = 0;
	Check	   *check;

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
	if (need->replicas == 1 || most == 0)
		return;

	reason->code = REASON_GANG_DOES_NOT_FIT;
	check = add_check(ex, REASON_GANG_DOES_NOT_FIT, pool_index, reason->type, most >= need->replicas);
	check->wanted = ex->candidate.total;
	check->available = reason->available;
	if (check->passed)
		check->detail = psprintf("all %d replicas have room in pool \"%s\" on instance type \"%s\"", need->replicas,
								 pool->name, ex->world->types[reason->type]);
	else
	{
		check->detail = reason_sentence(ex->world, reason);
		placement_way_out(ex, check, pool_index, usable, (int) (need->replicas - most));
	}
}

/*
 * All checks that apply to a workload of the lane, pool by pool in routing order.  Returns how many.
 */
int
explain_lane(World *world, Lane *lane, Check **checks)
{
	Explanation ex;

	memset(&ex, 0, sizeof(ex));
	ex.world = world;
	ex.placer = placer_create(world);
	candidate_init(world, lane, &ex.candidate);
	ex.maxchecks = 16;
	ex.checks = palloc(sizeof(Check) * ex.maxchecks);

	explain_standing(&ex);
	for (int i = 0; i < lane->npools; i++)
	{
		explain_state(&ex, lane->pools[i]);
		explain_limits(&ex, lane->pools[i], i == 0);
		if (world->pools[lane->pools[i]].total != NULL)
			add_limit(&ex, world->pools[lane->pools[i]].total, lane->pools[i]);
		explain_placement(&ex, lane->pools[i]);
	}
	*checks = ex.checks;
	return ex.nchecks;
}

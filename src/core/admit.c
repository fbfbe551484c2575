/*
 * admit.c
 *
 * Whether one workload of a lane can be admitted now, where, and if not, why not.
 *
 * The checks come in the order of ReasonCode: a standing reason of the lane's own; then pool by pool in routing order
 * whether the pool is open, the limits of the workload's own (for the pool as a whole, then for each instance type),
 * the pool's total, and placement of all replicas on one instance type.  The first pool that passes takes it.  If none
 * does, the reason is that of the first pool, and in it of the instance type that came furthest.
 */
#include "postgres.h"

#include "core/admit.h"
#include "core/resources.h"
#include "lib/stringinfo.h"

void
candidate_init(const World *world, Lane *lane, Candidate *candidate)
{
	candidate->lane = lane;
	candidate->total = total_request(world, lane);
	candidate->need = need_create(world, lane->request, lane->replicas, lane->account_id);
	candidate->need->ends = lane->ends;
}

Reason *
reason_create(ReasonCode code, int pool, int type)
{
	Reason	   *reason = palloc0(sizeof(Reason));

	reason->code = code;
	reason->pool = pool;
	reason->type = type;
	return reason;
}

static int64 *
copy_vector(const World *world, const int64 *vector)
{
	int64	   *copy = palloc(sizeof(int64) * world->nkeys);

	memcpy(copy, vector, sizeof(int64) * world->nkeys);
	return copy;
}

/*
 * What a limit means for a candidate, in figures; whether it passes is not looked at.
 */
Reason *
reason_of_limit(const World *world, const Candidate *candidate, const UsageLimit *limit, int pool)
{
	ReasonCode	code = limit->kind == LIMIT_USER ? REASON_USER_QUOTA :
		limit->kind == LIMIT_POLICY ? REASON_POLICY_LIMIT : REASON_POOL_QUOTA;
	Reason	   *reason = reason_create(code, pool, limit->type);

	reason->replicas = candidate->lane->replicas;
	reason->wanted = copy_vector(world, candidate->total);
	reason->available = limit_available(world, limit);
	reason->missing = limit_missing(world, limit, candidate->total);
	return reason;
}

/*
 * The text of why nodes take nothing new: "2 nodes cordoned, 1 node unhealthy, 1 node hosts other accounts".
 */
static char *
why_unavailable(Placer *placer, int pool, const bool *usable, int nothers)
{
	StringInfoData text;
	const char *whys[MAX_WHYS];
	int			counts[MAX_WHYS];
	int			n = 0;

	for (int t = 0; t < placer->world->pools[pool].ntypes; t++)
	{
		Room	   *room = usable[t] ? room_get(placer, pool, t) : NULL;

		for (int i = 0; room != NULL && i < room->nwhys; i++)
		{
			int			j = 0;

			while (j < n && strcmp(whys[j], room->whys[i]) != 0)
				j++;
			if (j == MAX_WHYS)
				continue;
			if (j == n)
			{
				whys[n] = room->whys[i];
				counts[n++] = 0;
			}
			counts[j] += room->why_counts[i];
		}
	}
	initStringInfo(&text);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%s%d %s %s", i > 0 ? ", " : "", counts[i], counts[i] == 1 ? "node" : "nodes", whys[i]);
	if (nothers > 0)
		appendStringInfo(&text, "%s%d %s other accounts", n > 0 ? ", " : "", nothers,
						 nothers == 1 ? "node hosts" : "nodes host");
	return text.data;
}

/* By key the most that one node of a room has of what is asked for. */
static void
raise_largest(const Room *room, const Need *need, int64 *largest)
{
	for (int k = 0; k < room->placer->world->nkeys; k++)
	{
		int64		most;

		if (k != RPQ_KEY_GPU)
			most = room_most(room, KEY_DIM(k));
		else if (need->part > 0)
			most = room_most(room, DIM_PART);
		else
			most = room_most(room, DIM_WHOLE) * RPQ_UNIT;
		largest[k] = Max(largest[k], most);
	}
}

/*
 * Fills in what there is on the nodes of a pool's usable types: free in sum, by key the most on one node, and what is
 * free on nodes that take nothing new or host other accounts; target nodes are looked at as any other.  Costs a look at
 * the top of each type's tree, not at the nodes.
 */
void
placement_figures(Placer *placer, int pool, const bool *usable, const Need *need, Reason *reason)
{
	World	   *world = placer->world;
	int64	   *own = palloc(sizeof(int64) * world->nkeys);
	bool		any = false;
	int			nothers = 0;

	reason->replicas = need->replicas;
	reason->wanted = copy_vector(world, need->request);
	reason->available = palloc0(sizeof(int64) * world->nkeys);
	reason->unavailable = palloc0(sizeof(int64) * world->nkeys);
	reason->largest = palloc0(sizeof(int64) * world->nkeys);
	for (int t = 0; t < world->pools[pool].ntypes; t++)
	{
		Room	   *home = usable[t] ? room_get(placer, pool, t) : NULL;
		Room	   *rooms[MAX_OPEN];
		int			nrooms = home != NULL ? rooms_past_targets(home, need, rooms) : 0;

		if (home == NULL)
		{
			reason->some_types = true;
			continue;
		}
		nothers += home->nhosting;
		memset(own, 0, sizeof(int64) * world->nkeys);
		for (int i = 0; i < nrooms; i++)
		{
			raise_largest(rooms[i], need, reason->largest);
			if (rooms[i]->common == rooms[i])
				continue;
			nothers -= rooms[i]->nhosting;
			for (int k = 0; k < world->nkeys; k++)
				own[k] += rooms[i]->sum[k];
		}
		for (int k = 0; k < world->nkeys; k++)
		{
			int64		others = home->isolate ? home->hosting[k] - own[k] : 0;

			reason->available[k] += home->sum[k] + own[k];
			reason->unavailable[k] += home->unavailable[k] + others;
			any |= need->request[k] > 0 && home->unavailable[k] + others > 0;
			reason->others |= need->request[k] > 0 && others > 0;
		}
	}
	if (any)
		reason->why_unavailable = why_unavailable(placer, pool, usable, reason->others ? nothers : 0);
}

/*
 * Placement of all replicas: of the types that have a node for one, in the policy's order, the first that has room for
 * all.
 */
static bool
placement_fits(Placer *placer, const Candidate *candidate, int pool, Spot *spot, Reason **reason)
{
	const Need *need = candidate->need;
	int			nspots = place_candidates(placer, pool, placer->usable, need, placer->spots);
	int64		most = 0;
	int			best = 0;

	for (int i = 0; i < nspots; i++)
	{
		int64		fitting = need->replicas == 1 ? 1 : room_count(placer->spots[i].room, need, need->replicas);

		if (fitting >= need->replicas)
		{
			*spot = placer->spots[i];
			return true;
		}
		if (fitting > most)
		{
			most = fitting;
			best = i;
		}
	}
	if (reason == NULL)
		return false;
	if (nspots > 0)
	{
		*reason = reason_create(REASON_GANG_DOES_NOT_FIT, pool, placer->spots[best].room->type);
		(*reason)->fitting = (int) most;
	}
	else
		*reason = reason_create(REASON_NO_NODE_FITS, pool, -1);
	placement_figures(placer, pool, placer->usable, need, *reason);
	return false;
}

/*
 * All checks of one pool.  The types that pass the limits of the workload's own are left in placer->usable.  reason is
 * NULL where nobody wants to know.
 */
static bool
pool_fits(Placer *placer, const Candidate *candidate, int pool_index, Spot *spot, Reason **reason)
{
	World	   *world = placer->world;
	const Pool *pool = &world->pools[pool_index];
	const Lane *lane = candidate->lane;
	const UsageLimit *limit;
	const UsageLimit *type_limit = NULL;
	int			nusable = 0;

	if (pool->closed != REASON_NONE)
	{
		if (reason != NULL)
			*reason = reason_create(pool->closed, pool_index, -1);
		return false;
	}
	limit = first_limit_in_way(world, candidate, pool_index, RPQ_WHOLE_POOL);
	for (int t = 0; limit == NULL && t < pool->ntypes; t++)
	{
		int			type = pool->types[t].type;
		const UsageLimit *in_way;

		placer->usable[t] = false;
		if (lane->type_allowed != NULL && !lane->type_allowed[type])
			continue;
		in_way = first_limit_in_way(world, candidate, pool_index, type);
		placer->usable[t] = in_way == NULL;
		if (in_way == NULL)
			nusable++;
		else if (type_limit == NULL)
			type_limit = in_way;
	}
	if (limit == NULL && nusable == 0)
		limit = type_limit;
	if (limit == NULL && pool->total != NULL && !limit_passes(world, pool->total, candidate->total))
		limit = pool->total;
	if (limit != NULL)
	{
		if (reason != NULL)
			*reason = reason_of_limit(world, candidate, limit, pool_index);
		return false;
	}
	return placement_fits(placer, candidate, pool_index, spot, reason);
}

/*
 * Whether the candidate can be admitted as the world stands; then spot says where, else *reason says why not.  Takes
 * nothing.
 */
bool
candidate_fits(Placer *placer, const Candidate *candidate, Spot *spot, Reason **reason)
{
	const Lane *lane = candidate->lane;

	if (lane->own != REASON_NONE || lane->npools == 0)
	{
		ReasonCode	code = lane->own != REASON_NONE ? lane->own : REASON_POOL_NOT_READY;
		int			pool = lane->npools == 1 ? lane->pools[0] : -1;

		if (pool >= 0 && placer->world->pools[pool].closed != REASON_NONE)
			code = Min(code, placer->world->pools[pool].closed);
		*reason = reason_create(code, pool, -1);
		return false;
	}
	for (int i = 0; i < lane->npools; i++)
		if (pool_fits(placer, candidate, lane->pools[i], spot, i == 0 ? reason : NULL))
			return true;
	return false;
}

/*
 * Admits a workload for which candidate_fits() has just found a spot: counts the nodes and the limits down and says
 * what was taken.  The numbers of the devices lie behind the pods, in the same piece of memory.
 */
void
candidate_admit(Placer *placer, const Candidate *candidate, Spot spot, Admission *admission)
{
	World	   *world = placer->world;
	const Need *need = candidate->need;
	Lane	   *lane = candidate->lane;
	int			pool = spot.room->pool;
	int			type = spot.room->type;
	Size		replicas = need->replicas;
	Size		each = need->part > 0 ? 1 : need->whole;

	admission->lane = lane;
	admission->pool = pool;
	admission->home = pool;
	admission->type = type;
	admission->npods = need->replicas;
	admission->pods = palloc((sizeof(PodPlace) + sizeof(int) * each) * replicas);
	place_take(spot, need, admission->pods, (int *) (admission->pods + replicas));
	for (int i = 0; i < lane->nlimits; i++)
		if (limit_binds(lane->limits[i], pool, RPQ_WHOLE_POOL) || limit_binds(lane->limits[i], pool, type))
			limit_charge(world, lane->limits[i], candidate->total);
	if (world->pools[pool].total != NULL)
		limit_charge(world, world->pools[pool].total, candidate->total);
}

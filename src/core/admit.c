/*
 * admit.c
 *
 * Whether one workload of a lane can be admitted now, where, and if not, why not.
 *
 * The checks come in the order of ReasonCode: a standing reason of the lane's own; then pool by pool in routing order
 * whether the pool is open, the limits of the workload's own (for the pool as a whole, then for each instance type),
 * whether guaranteed work of a policy is within its reservation; and then those of room: reservations of others, the
 * pool's total, and placement of all replicas on one instance type.  The first pool that passes takes it.  If none
 * does, the reason is that of the first pool, and in it of the instance type that came furthest.
 *
 * Who is blocked by room in all its own pools may borrow idle room of the lane's lenders, if it can be preempted there.
 * It is charged to its own pool's quotas, and to no pool's total.
 */
#include "postgres.h"

#include "core/admit.h"
#include "core/reserve.h"
#include "core/resources.h"
#include "core/targets.h"
#include "lib/stringinfo.h"

void
candidate_init(const World *world, Lane *lane, Candidate *candidate)
{
	candidate->lane = lane;
	candidate->total = total_request(world, lane);
	candidate->need = need_create(world, lane->request, lane->replicas, lane->account_id);
	candidate->need->ends = lane->ends;
	candidate->blocked = palloc0(sizeof(ReasonCode) * (lane->npools + 1));
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
 * Fills in what there is on the nodes of a pool's usable types: free in sum, by key the most on one node, and what
 * is free on nodes that take nothing new or host other accounts.  Target nodes count as free, and as one node when
 * they are open.  Costs a look at the top of each type's tree, not at the nodes.
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
			if (rooms[i]->common == rooms[i])
				continue;
			nothers -= rooms[i]->nhosting;
			for (int k = 0; k < world->nkeys; k++)
				own[k] += rooms[i]->sum[k];
		}
		nrooms = open_rooms(home, need, rooms);
		for (int i = 0; i < nrooms; i++)
			raise_largest(rooms[i], need, reason->largest);
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
 * all.  What would have a place but for the targets of others is behind.
 */
static ReasonCode
placement_fits(Placer *placer, const Candidate *candidate, int pool, Spot *spot, Reason **reason)
{
	ReasonCode	code;
	const Need *need = candidate->need;
	int			nspots = place_candidates(placer, pool, placer->usable, need, placer->spots);
	int64		most = 0;
	int64		ahead;
	int			best = 0;
	int			type;

	for (int i = 0; i < nspots; i++)
	{
		int64		fitting = need->replicas == 1 ? 1 : room_count(placer->spots[i].room, need, need->replicas);

		if (fitting >= need->replicas)
		{
			*spot = placer->spots[i];
			return REASON_NONE;
		}
		if (fitting > most)
		{
			most = fitting;
			best = i;
		}
	}
	code = nspots > 0 ? REASON_GANG_DOES_NOT_FIT : REASON_NO_NODE_FITS;
	type = nspots > 0 ? placer->spots[best].room->type : -1;
	if (targets_in_way(placer, candidate, pool, placer->usable, &type, &ahead))
	{
		if (reason != NULL)
		{
			*reason = reason_create(REASON_BEHIND, pool, type);
			(*reason)->ahead = ahead;
		}
		return REASON_BEHIND;
	}
	if (reason == NULL)
		return code;
	*reason = reason_create(code, pool, type);
	(*reason)->fitting = (int) most;
	placement_figures(placer, pool, placer->usable, need, *reason);
	return code;
}

bool
candidate_has_rank(const World *world, const Candidate *candidate)
{
	const Policy *policy;

	if (candidate->lane->policy < 0)
		return false;
	policy = &world->policies[candidate->lane->policy];
	for (int k = 0; k < world->nkeys; k++)
		if (candidate->total[k] > 0 && candidate->total[k] > unmet_reservation(policy, k))
			return false;
	return true;
}

bool
never_preempted(const World *world, const Lane *lane, int pool)
{
	return lane->guarantee || world->pools[pool].pay_as_you_go;
}

/* Guaranteed work of a policy that is not, or no longer, within what is left of its reservation. */
static Reason *
beyond_reservation(const World *world, const Candidate *candidate, int pool)
{
	const Policy *policy = &world->policies[candidate->lane->policy];
	Reason	   *reason = reason_create(REASON_POLICY_LIMIT, pool, -1);

	reason->guarantee = true;
	reason->replicas = candidate->lane->replicas;
	reason->wanted = copy_vector(world, candidate->total);
	reason->available = palloc0(sizeof(int64) * world->nkeys);
	reason->missing = palloc0(sizeof(int64) * world->nkeys);
	for (int k = 0; k < world->nkeys; k++)
	{
		reason->available[k] = unmet_reservation(policy, k);
		reason->missing[k] = Max(0, candidate->total[k] - reason->available[k]);
	}
	return reason;
}

/*
 * The limits of the workload's own in a pool, home, for a place in that or another one; the types that pass are left
 * in placer->usable.  NULL when some type does.
 */
static const UsageLimit *
own_limit_in_way(Placer *placer, const Candidate *candidate, int pool_index, int home)
{
	World	   *world = placer->world;
	const Pool *pool = &world->pools[pool_index];
	const Lane *lane = candidate->lane;
	const UsageLimit *limit = first_limit_in_way(world, candidate, home, RPQ_WHOLE_POOL);
	const UsageLimit *type_limit = NULL;
	bool		any = false;

	for (int t = 0; limit == NULL && t < pool->ntypes; t++)
	{
		int			type = pool->types[t].type;
		const UsageLimit *in_way;

		placer->usable[t] = false;
		if (lane->type_allowed != NULL && !lane->type_allowed[type])
			continue;
		in_way = first_limit_in_way(world, candidate, home, type);
		placer->usable[t] = in_way == NULL;
		any |= in_way == NULL;
		if (type_limit == NULL)
			type_limit = in_way;
	}
	return limit != NULL || any ? limit : type_limit;
}

/*
 * What stands in the way in a pool that no room can help, REASON_NONE for nothing; the types that may be used are left
 * in placer->usable.  reason is NULL where nobody wants to know.
 */
static ReasonCode
pool_closed_to(Placer *placer, const Candidate *candidate, int pool_index, int home, Reason **reason)
{
	World	   *world = placer->world;
	const Pool *pool = &world->pools[pool_index];
	const Lane *lane = candidate->lane;
	const UsageLimit *limit;
	ReasonCode	code = pool->closed;

	if (code == REASON_NONE && lane->guarantee && lane->policy >= 0 && !pool->allow_guarantee)
		code = REASON_NOT_AUTHORIZED;
	if (code != REASON_NONE)
	{
		if (reason != NULL)
		{
			*reason = reason_create(code, pool_index, -1);
			(*reason)->guarantee = code == REASON_NOT_AUTHORIZED;
		}
		return code;
	}
	limit = own_limit_in_way(placer, candidate, pool_index, home);
	if (limit != NULL)
	{
		Reason	   *in_way = reason != NULL ? reason_of_limit(world, candidate, limit, home) : NULL;

		if (reason != NULL)
			*reason = in_way;
		return limit->kind == LIMIT_USER ? REASON_USER_QUOTA : REASON_POLICY_LIMIT;
	}
	if (lane->guarantee && lane->policy >= 0 && !candidate_has_rank(world, candidate))
	{
		if (reason != NULL)
			*reason = beyond_reservation(world, candidate, pool_index);
		return REASON_POLICY_LIMIT;
	}
	return REASON_NONE;
}

bool
pool_open_to(Placer *placer, const Candidate *candidate, int pool)
{
	return pool_closed_to(placer, candidate, pool, pool, NULL) == REASON_NONE;
}

/*
 * All checks of one pool: REASON_NONE, and where to place it, or what it is blocked by.  home is the pool that it is
 * charged to.
 */
static ReasonCode
pool_fits(Placer *placer, const Candidate *candidate, int pool_index, int home, Spot *spot, Reason **reason)
{
	World	   *world = placer->world;
	const UsageLimit *total = pool_index == home ? world->pools[pool_index].total : NULL;
	ReasonCode	code = pool_closed_to(placer, candidate, pool_index, home, reason);

	if (code != REASON_NONE)
		return code;
	if (!reserved_passes(placer, candidate, pool_index, NULL, NULL))
	{
		if (reason != NULL)
			*reason = reserved_reason(placer, candidate, pool_index);
		return REASON_RESERVED;
	}
	if (total != NULL && !limit_passes(world, total, candidate->total))
	{
		if (reason != NULL)
			*reason = reason_of_limit(world, candidate, total, pool_index);
		return REASON_POOL_QUOTA;
	}
	return placement_fits(placer, candidate, pool_index, spot, reason);
}

/* Whether it is blocked by room, and nothing else, in all of its own pools. */
static bool
blocked_by_room(const Candidate *candidate)
{
	for (int i = 0; i < candidate->lane->npools; i++)
		if (candidate->blocked[i] < REASON_RESERVED)
			return false;
	return true;
}

/*
 * Whether it finds idle room in a pool that lends it.
 */
static bool
lender_fits(Placer *placer, const Candidate *candidate, Spot *spot)
{
	World	   *world = placer->world;
	const Lane *lane = candidate->lane;

	if (lane->nlenders == 0 || lane->policy >= 0 || lane->npools != 1 ||
		never_preempted(world, lane, lane->pools[0]) || !blocked_by_room(candidate))
		return false;
	for (int i = 0; i < lane->nlenders; i++)
		if (!never_preempted(world, lane, lane->lenders[i]) &&
			pool_fits(placer, candidate, lane->lenders[i], lane->pools[0], spot, NULL) == REASON_NONE)
			return true;
	return false;
}

/*
 * Whether the candidate can be admitted as the world stands; then spot says where, else *reason says why not.  Takes
 * nothing.
 */
bool
candidate_fits(Placer *placer, const Candidate *candidate, Spot *spot, Reason **reason)
{
	const Lane *lane = candidate->lane;

	memset(candidate->blocked, 0, sizeof(ReasonCode) * lane->npools);
	if (lane->own != REASON_NONE || lane->npools == 0)
	{
		ReasonCode	code = lane->own != REASON_NONE ? lane->own : REASON_POOL_NOT_READY;
		int			pool = lane->npools == 1 ? lane->pools[0] : -1;

		if (pool >= 0 && placer->world->pools[pool].closed != REASON_NONE)
			code = Min(code, placer->world->pools[pool].closed);
		*reason = reason_create(code, pool, -1);
		(*reason)->until = lane->until;
		return false;
	}
	for (int i = 0; i < lane->npools; i++)
	{
		candidate->blocked[i] = pool_fits(placer, candidate, lane->pools[i], lane->pools[i], spot,
										  i == 0 ? reason : NULL);
		if (candidate->blocked[i] == REASON_NONE)
			return true;
	}
	return lender_fits(placer, candidate, spot);
}

/*
 * Counts a candidate where it is admitted, or where room is held for it: its own limits, the total of the pool, what
 * its policy holds.
 */
void
candidate_charge(Placer *placer, const Candidate *candidate, int pool, int home, int type)
{
	World	   *world = placer->world;
	Lane	   *lane = candidate->lane;

	for (int i = 0; i < lane->nlimits; i++)
		if (limit_binds(lane->limits[i], home, RPQ_WHOLE_POOL) || limit_binds(lane->limits[i], home, type))
			limit_charge(world, lane->limits[i], candidate->total);
	if (pool == home && world->pools[pool].total != NULL)
		limit_charge(world, world->pools[pool].total, candidate->total);
	policy_hold(placer, lane->policy, candidate->total, 1);
}

/* The pool that a candidate is charged to when it is placed in one: that, unless it borrows. */
static int
home_of(const Lane *lane, int pool)
{
	for (int i = 0; i < lane->npools; i++)
		if (lane->pools[i] == pool)
			return pool;
	return lane->pools[0];
}

/*
 * Admits a workload for which candidate_fits() has just found a spot: counts the nodes and the limits down and says
 * what was taken.  The numbers of the devices lie behind the pods, in the same piece of memory.
 */
void
candidate_admit(Placer *placer, const Candidate *candidate, Spot spot, Admission *admission)
{
	const Need *need = candidate->need;
	int			pool = spot.room->pool;
	int			type = spot.room->type;
	Size		replicas = need->replicas;
	Size		each = need->part > 0 ? 1 : need->whole;

	admission->lane = candidate->lane;
	admission->pool = pool;
	admission->home = home_of(candidate->lane, pool);
	admission->type = type;
	admission->npods = need->replicas;
	admission->pods = palloc((sizeof(PodPlace) + sizeof(int) * each) * replicas);
	place_take(spot, need, admission->pods, (int *) (admission->pods + replicas));
	candidate_charge(placer, candidate, pool, admission->home, type);
}

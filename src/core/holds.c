/*
 * holds.c
 *
 * Room that former plans have held for workloads whose victims had still to stop.
 *
 * It comes before everything else: the room is theirs.  What such a workload asks for is counted already, in its own
 * limits, in what its policy holds and on the nodes, so an admission only says that it is so.  A hold is given up when
 * its workload may no longer be admitted, or when it would no longer be entitled to take what has still to stop; the
 * room is free from the next plan on.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "core/planner.h"
#include "core/reason.h"

typedef struct Held
{
	RoomHold   *hold;
	bool		rank;
} Held;

/* The order of all that waits. */
static bool
held_before(const Held *a, const Held *b)
{
	const Member *x = &a->hold->member;
	const Member *y = &b->hold->member;

	if (a->rank != b->rank)
		return a->rank;
	if (a->hold->lane->priority != b->hold->lane->priority)
		return a->hold->lane->priority > b->hold->lane->priority;
	if (x->submitted_at != y->submitted_at)
		return x->submitted_at < y->submitted_at;
	return x->workload_id < y->workload_id;
}

/* Whether usage, in which the hold is counted, is within a limit in the keys that the workload asks for. */
static bool
within_limit(const World *world, const UsageLimit *limit, const Lane *lane)
{
	for (int k = 0; k < world->nkeys; k++)
		if (lane->request[k] > 0 && limit->used[k] > limit_bound(limit, k))
			return false;
	return true;
}

/* Whether its workload may be admitted where its room is. */
static bool
may_be_admitted(const World *world, const RoomHold *hold)
{
	const Lane *lane = hold->lane;
	bool		routed = false;

	for (int i = 0; i < lane->npools; i++)
		routed |= lane->pools[i] == hold->pool;
	if (!routed || lane->own != REASON_NONE || world->pools[hold->pool].closed != REASON_NONE)
		return false;
	for (int i = 0; i < lane->nlimits; i++)
		if ((limit_binds(lane->limits[i], hold->pool, RPQ_WHOLE_POOL) ||
			 limit_binds(lane->limits[i], hold->pool, hold->type)) &&
			!within_limit(world, lane->limits[i], lane))
			return false;
	for (int i = 0; i < hold->npods; i++)
		if (hold->pods[i].node < 0 || !world->nodes[hold->pods[i].node].takes_work)
			return false;
	return true;
}

/* Whether its policy holds no more than its reservation, the hold counted in. */
static bool
within_reservation(const World *world, const Lane *lane)
{
	if (lane->policy < 0)
		return false;
	for (int k = 0; k < world->nkeys; k++)
		if (lane->request[k] > 0 &&
			world->policies[lane->policy].held[k] > world->policies[lane->policy].reservation[k])
			return false;
	return true;
}

/* Whether the workload is still entitled to what has to stop for it. */
static bool
is_entitled(const World *world, const RoomHold *hold)
{
	return hold->by_right ||
		(hold->by_reservation && within_reservation(world, hold->lane)) ||
		(hold->by_priority >= 0 && hold->by_priority < hold->lane->priority);
}

static void
admit_held(Planner *planner, RoomHold *hold)
{
	Admission  *admission = next_admission(planner);

	admission->lane = hold->lane;
	admission->member = hold->member;
	admission->pool = admission->home = hold->pool;
	admission->type = hold->type;
	admission->npods = hold->npods;
	admission->pods = hold->pods;
	hold->admitted = true;
}

/*
 * All holds, in the order.  False when the batch does not suffice for all that can be admitted.
 */
bool
decide_holds(Planner *planner)
{
	World	   *world = planner->world;
	Held	   *order = palloc(sizeof(Held) * (world->nholds + 1));
	int			n = 0;

	for (int i = 0; i < world->nholds; i++)
	{
		RoomHold   *hold = &world->holds[i];
		Held		held = {hold, false};
		Candidate	candidate;
		int			at = n;

		hold->admitted = false;
		hold->given_up = hold->lane == NULL || !may_be_admitted(world, hold) ||
			(hold->npending > 0 && !is_entitled(world, hold));
		if (hold->given_up || hold->npending > 0)
			continue;
		candidate.lane = hold->lane;
		candidate.total = total_request(world, hold->lane);
		held.rank = candidate_has_rank(world, &candidate);
		for (; at > 0 && held_before(&held, &order[at - 1]); at--)
			order[at] = order[at - 1];
		order[at] = held;
		n++;
	}
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (batch_is_full(planner))
		{
			planner->plan->more = true;
			return false;
		}
		admit_held(planner, order[i].hold);
	}
	pfree(order);
	return true;
}

static void
keep_head(Lane *lane, const Member *member)
{
	if (member->submitted_at > lane->head_at ||
		(member->submitted_at == lane->head_at && member->workload_id >= lane->head_id))
		return;
	lane->head_at = member->submitted_at;
	lane->head_id = member->workload_id;
}

/*
 * That room is held is the reason of a lane of which nobody else waits.  One that is found blocked without being read
 * has another by then; held counts the lane's workloads for which room is held.
 */
static void
keep_reason(Lane *lane, int64 held, Reason *reason)
{
	if (lane->considered && (lane->reason == NULL || held >= lane->waiting))
		lane->reason = reason;
}

void
keep_heads(Planner *planner)
{
	World	   *world = planner->world;
	CyclePlan  *plan = planner->plan;
	int64	   *held_of;

	if (world->nholds + plan->nheld == 0)
		return;
	held_of = palloc0(sizeof(int64) * (world->nlanes + 1));
	for (int i = 0; i < world->nholds; i++)
	{
		const RoomHold *hold = &world->holds[i];

		if (hold->lane == NULL || hold->admitted)
			continue;
		keep_head(hold->lane, &hold->member);
		keep_reason(hold->lane, ++held_of[hold->lane - world->lanes],
					reason_of_hold(world, hold->pool, hold->type, hold->pods, hold->npods, hold->npending,
								   hold->nvictims));
	}
	for (int i = 0, p = 0; i < plan->nheld; i++)
	{
		const Admission *held = &plan->held[i];
		int			nvictims = 0;
		int			npending = 0;

		for (; p < plan->npreemptions; p++)
		{
			if (plan->preemptions[p].member.workload_id == held->member.workload_id)
			{
				nvictims++;
				npending += plan->preemptions[p].victim->slow;
			}
			else if (nvictims > 0)
				break;
		}
		keep_head(held->lane, &held->member);
		keep_reason(held->lane, ++held_of[held->lane - world->lanes],
					reason_of_hold(world, held->pool, held->type, held->pods, held->npods, npending, nvictims));
	}
	pfree(held_of);
}

/*
 * reserve.c
 *
 * Whether an admission leaves the reservations of policies as well served as they were.
 *
 * Kept are the reservations of policies with lending hold; for a workload that cannot be preempted and does not fit
 * in its own reservation, those of all policies.  Of each resource key, what the unmet parts of the kept
 * reservations can get from what is free, through the pools that each policy reaches, is a maximum flow.  An
 * admission takes from what is free in one pool and, when its own policy is among the kept ones, from what that
 * still wants.  It passes if the flow falls by no more than what its policy wants less: then what is not served has
 * not grown.
 *
 * The flow is the last resort.  Nearly always all that is wanted from the pool fits into what remains of it.  Else
 * the flow goes on from the one before, of which an admission changes little; and once somebody was refused, the
 * pool's slack, by how much it could shrink without the flow falling, is known until something changes.  Policies
 * that reach the same pools are one in the flow, so its size goes with the number of different reaches.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "core/flow.h"
#include "core/reserve.h"

/* Whose reservations are kept: of lending hold, or of all. */
typedef enum Keep
{
	KEEP_HOLD,
	KEEP_ALL,
	NKEEPS
} Keep;

/* Policies with the same reach. */
typedef struct Group
{
	const bool *reach;			/* [npools] */
	int			npolicies;
	int		   *policies;		/* [npolicies] */
	bool		stale;			/* wanted is to be added up anew */
	int64	   *wanted[NKEEPS]; /* [nkeys]: unmet, in sum; PG_INT64_MAX where that is too large to say */
} Group;

/* What is known of one key and Keep, as of the supply and what was wanted then. */
typedef struct Known
{
	uint64		version;		/* of Reserve; 0: nothing is known */
	Flow	   *flow;			/* of groups; goes on from one question to the next */
	int64		served;
	int64	   *supply;			/* [npools] */
	int64	   *slack;			/* [npools]; -1: not known */
} Known;

struct Reserve
{
	bool		any[NKEEPS];	/* there is a reservation to be kept */
	int			ngroups;
	Group	   *groups;
	int		   *group_of;		/* [npolicies]; -1: reaches nothing, or has no reservation */
	bool	   *reached;		/* [npools]: by any group */
	uint64		version;		/* moves when a policy comes to hold more or less */
	Known	   *known[NKEEPS];	/* [nkeys] */
	int64	   *demand;			/* [ngroups]: for a flow */
	int64	   *supply;			/* [npools]: likewise */
};

typedef struct Reserve Reserve;

static int64
add_up(int64 sum, int64 amount)
{
	return pg_add_s64_overflow(sum, amount, &sum) ? PG_INT64_MAX : sum;
}

/*
 * What is unmet of a policy's reservation.
 */
int64
unmet_reservation(const Policy *policy, int key)
{
	int64		unmet;

	if (pg_sub_s64_overflow(policy->reservation[key], policy->held[key], &unmet))
		return PG_INT64_MAX;
	return Max(unmet, 0);
}

/* ---- policies by their reach ---- */

static bool
has_reservation(const World *world, const Policy *policy)
{
	for (int k = 0; k < world->nkeys; k++)
		if (policy->reservation[k] > 0)
			return policy->npools > 0;
	return false;
}

/* Puts a policy to those with the same reach. */
static void
add_to_group(Reserve *reserve, const World *world, int policy)
{
	const Policy *p = &world->policies[policy];
	bool	   *reach = palloc0(sizeof(bool) * (world->npools + 1));
	Group	   *group = reserve->groups;

	for (int i = 0; i < p->npools; i++)
		reach[p->pools[i]] = reserve->reached[p->pools[i]] = true;
	while (group < reserve->groups + reserve->ngroups && memcmp(group->reach, reach, world->npools) != 0)
		group++;
	if (group == reserve->groups + reserve->ngroups)
	{
		reserve->ngroups++;
		group->reach = reach;
		group->policies = palloc(sizeof(int) * world->npolicies);
		group->stale = true;
		for (Keep keep = 0; keep < NKEEPS; keep++)
			group->wanted[keep] = palloc0(sizeof(int64) * world->nkeys);
	}
	group->policies[group->npolicies++] = policy;
	reserve->group_of[policy] = group - reserve->groups;
	reserve->any[KEEP_ALL] = true;
	reserve->any[KEEP_HOLD] |= p->hold;
}

static Reserve *
reserve_create(const World *world)
{
	Reserve    *reserve = palloc0(sizeof(Reserve));

	reserve->version = 1;
	reserve->groups = palloc0(sizeof(Group) * (world->npolicies + 1));
	reserve->group_of = palloc(sizeof(int) * (world->npolicies + 1));
	reserve->reached = palloc0(sizeof(bool) * (world->npools + 1));
	for (int p = 0; p < world->npolicies; p++)
	{
		reserve->group_of[p] = -1;
		if (has_reservation(world, &world->policies[p]))
			add_to_group(reserve, world, p);
	}
	for (Keep keep = 0; keep < NKEEPS; keep++)
		reserve->known[keep] = palloc0(sizeof(Known) * world->nkeys);
	reserve->demand = palloc(sizeof(int64) * (reserve->ngroups + 1));
	reserve->supply = palloc(sizeof(int64) * (world->npools + 1));
	return reserve;
}

/* The network of groups, nothing carried. */
static Flow *
flow_of_groups(const Reserve *reserve, const World *world)
{
	bool	   *reach = palloc(sizeof(bool) * reserve->ngroups * world->npools);
	Flow	   *flow;

	for (int g = 0; g < reserve->ngroups; g++)
		memcpy(reach + (Size) g * world->npools, reserve->groups[g].reach, sizeof(bool) * world->npools);
	flow = flow_create(reserve->ngroups, world->npools, reach);
	pfree(reach);
	return flow;
}

static Reserve *
get_reserve(Placer *placer)
{
	if (placer->reserve == NULL)
		placer->reserve = reserve_create(placer->world);
	return placer->reserve;
}

void
policy_hold(Placer *placer, int policy, const int64 *total, int sign)
{
	World	   *world = placer->world;

	if (policy < 0)
		return;
	for (int k = 0; k < world->nkeys; k++)
		world->policies[policy].held[k] += sign * total[k];
	if (placer->reserve == NULL || placer->reserve->group_of[policy] < 0)
		return;
	placer->reserve->groups[placer->reserve->group_of[policy]].stale = true;
	placer->reserve->version++;
}

/* ---- what is wanted and what is free ---- */

/* What a group wants of a key when one of its policies (-1: none) wants just so much less. */
static int64
group_wants(const World *world, Group *group, Keep keep, int key, int but, int64 less)
{
	int64		sum = 0;

	if (but < 0 && !group->stale)
		return group->wanted[keep][key];
	if (but >= 0 && !group->stale && group->wanted[keep][key] < PG_INT64_MAX)
		return group->wanted[keep][key] - less;
	for (int i = 0; i < group->npolicies; i++)
	{
		const Policy *policy = &world->policies[group->policies[i]];

		if (keep == KEEP_ALL || policy->hold)
			sum = add_up(sum, unmet_reservation(policy, key) - (group->policies[i] == but ? less : 0));
	}
	return sum;
}

static void
refresh_groups(Reserve *reserve, const World *world)
{
	for (int g = 0; g < reserve->ngroups; g++)
	{
		Group	   *group = &reserve->groups[g];

		for (Keep keep = 0; keep < NKEEPS && group->stale; keep++)
			for (int k = 0; k < world->nkeys; k++)
				group->wanted[keep][k] = group_wants(world, group, keep, k, -1, 0);
		group->stale = false;
	}
}

/* What is free on those nodes of a pool that take work. */
static int64
free_in_pool(Placer *placer, int pool, int key)
{
	int64		sum = 0;

	for (int t = 0; t < placer->world->pools[pool].ntypes; t++)
	{
		const Room *home = room_get(placer, pool, t);

		for (const Room *room = home; room != NULL; room = room == home ? home->targets : NULL)
			sum += room->sum[key] + (room->isolate ? room->hosting[key] : 0);
	}
	return sum;
}

/*
 * The flow of a key when one policy (-1: none) wants just so much less, and what is free is reserve->supply.
 */
static int64
flow_when(Reserve *reserve, const World *world, Known *known, Keep keep, int key, int but, int64 less)
{
	for (int g = 0; g < reserve->ngroups; g++)
		reserve->demand[g] = group_wants(world, &reserve->groups[g], keep, key,
										 but >= 0 && g == reserve->group_of[but] ? but : -1, less);
	return flow_again(known->flow, reserve->demand, reserve->supply);
}

/*
 * What is known of a key as things are.  Pools that no group reaches take no part.
 */
static Known *
get_known(Placer *placer, Keep keep, int key)
{
	Reserve    *reserve = placer->reserve;
	const World *world = placer->world;
	Known	   *known = &reserve->known[keep][key];
	bool		same = known->version == reserve->version;

	if (known->flow == NULL)
	{
		known->flow = flow_of_groups(reserve, world);
		known->supply = palloc0(sizeof(int64) * world->npools);
		known->slack = palloc(sizeof(int64) * world->npools);
	}
	for (int p = 0; p < world->npools; p++)
	{
		int64		supply = reserve->reached[p] ? free_in_pool(placer, p, key) : 0;

		same &= known->supply[p] == supply;
		known->supply[p] = supply;
	}
	if (same)
		return known;
	memcpy(reserve->supply, known->supply, sizeof(int64) * world->npools);
	known->served = flow_when(reserve, world, known, keep, key, -1, 0);
	known->version = reserve->version;
	for (int p = 0; p < world->npools; p++)
		known->slack[p] = -1;
	return known;
}

/*
 * By how much what is free in a pool could shrink without the flow falling: all of it but what others cannot carry.
 */
static int64
slack_of(Placer *placer, Known *known, Keep keep, int key, int pool)
{
	Reserve    *reserve = placer->reserve;

	if (known->slack[pool] < 0)
	{
		memcpy(reserve->supply, known->supply, sizeof(int64) * placer->world->npools);
		reserve->supply[pool] = 0;
		known->slack[pool] = known->supply[pool] -
			(known->served - flow_when(reserve, placer->world, known, keep, key, -1, 0));
	}
	return known->slack[pool];
}

/* ---- the check ---- */

/* Which reservations are kept against a candidate in a pool. */
static Keep
kept_against(const World *world, const Candidate *candidate, int pool)
{
	return never_preempted(world, candidate->lane, pool) && !candidate_has_rank(world, candidate) ?
		KEEP_ALL : KEEP_HOLD;
}

/*
 * What the candidate's own policy wants less after the admission, when its reservation is among the kept ones.  Below
 * zero: it wants more, since victims of its own had more than the candidate.
 */
static int64
wants_less(const Reserve *reserve, const World *world, const Candidate *candidate, int pool, Keep keep, int key,
		   int64 given)
{
	int			policy = candidate->lane->policy;
	Policy		after = {0};
	int64		held;

	if (policy < 0 || reserve->group_of[policy] < 0 || (keep == KEEP_HOLD && !world->policies[policy].hold) ||
		!reserve->groups[reserve->group_of[policy]].reach[pool])
		return 0;
	if (given == 0)
		return Min(candidate->total[key], unmet_reservation(&world->policies[policy], key));
	held = world->policies[policy].held[key] - given + candidate->total[key];
	after.held = &held;
	after.reservation = &world->policies[policy].reservation[key];
	return unmet_reservation(&world->policies[policy], key) - unmet_reservation(&after, 0);
}

/* Whether all that is wanted from a pool fits into what remains of it: a look, and no flow. */
static bool
fits_into_rest(Placer *placer, int pool, Keep keep, int key, int64 rest, int64 less)
{
	const Reserve *reserve = placer->reserve;
	int64		wanted = 0;
	bool		reached = false;

	for (int g = 0; g < reserve->ngroups; g++)
		if (reserve->groups[g].reach[pool])
		{
			reached = true;
			wanted = add_up(wanted, reserve->groups[g].wanted[keep][key]);
		}
	return !reached || (wanted < PG_INT64_MAX && wanted - less <= rest);
}

static bool
passes_key(Placer *placer, const Candidate *candidate, int pool, Keep keep, int key, int64 more, int64 given)
{
	const World *world = placer->world;
	Reserve    *reserve = placer->reserve;
	int64		total = candidate->total[key];
	int64		less = wants_less(reserve, world, candidate, pool, keep, key, given);
	int64		rest = Max(0, free_in_pool(placer, pool, key) + more - total);
	Known	   *known;
	bool		passes;

	if (fits_into_rest(placer, pool, keep, key, rest, less))
		return true;
	CHECK_FOR_INTERRUPTS();
	known = get_known(placer, keep, key);
	if (known->slack[pool] >= 0)
	{
		if (less >= 0 && Min(total - more, known->supply[pool]) <= known->slack[pool])
			return true;
		if (less == 0)
			return false;
	}
	memcpy(reserve->supply, known->supply, sizeof(int64) * world->npools);
	reserve->supply[pool] = rest;
	passes = flow_when(reserve, world, known, keep, key, candidate->lane->policy, less) >= known->served - less;
	if (!passes && less == 0)
		(void) slack_of(placer, known, keep, key, pool);
	return passes;
}

bool
reserved_matters(Placer *placer, const Candidate *candidate, int pool)
{
	const World *world = placer->world;
	const Reserve *reserve;

	if (world->npolicies == 0)
		return false;
	reserve = get_reserve(placer);
	return reserve->any[KEEP_ALL] && reserve->any[kept_against(world, candidate, pool)];
}

bool
reserved_passes(Placer *placer, const Candidate *candidate, int pool, const int64 *more, const int64 *less)
{
	const World *world = placer->world;
	Keep		keep;

	if (!reserved_matters(placer, candidate, pool))
		return true;
	keep = kept_against(world, candidate, pool);
	refresh_groups(placer->reserve, world);
	for (int k = 0; k < world->nkeys; k++)
		if (candidate->total[k] > 0 &&
			!passes_key(placer, candidate, pool, keep, k, more == NULL ? 0 : more[k], less == NULL ? 0 : less[k]))
			return false;
	return true;
}

/*
 * Why not, in figures: what is free beyond that is what could go without any of the kept reservations being served
 * worse.
 */
Reason *
reserved_reason(Placer *placer, const Candidate *candidate, int pool)
{
	World	   *world = placer->world;
	Reason	   *reason = reason_create(REASON_RESERVED, pool, -1);
	Keep		keep = kept_against(world, candidate, pool);

	reason->guarantee = keep == KEEP_ALL;
	reason->replicas = candidate->lane->replicas;
	reason->wanted = palloc(sizeof(int64) * world->nkeys);
	reason->available = palloc(sizeof(int64) * world->nkeys);
	reason->largest = palloc0(sizeof(int64) * world->nkeys);
	memcpy(reason->wanted, candidate->total, sizeof(int64) * world->nkeys);
	for (int k = 0; k < world->nkeys; k++)
	{
		reason->available[k] = RPQ_UNLIMITED;
		if (candidate->total[k] <= 0 || passes_key(placer, candidate, pool, keep, k, 0, 0))
			continue;
		reason->available[k] = slack_of(placer, get_known(placer, keep, k), keep, k, pool);
		reason->largest[k] = free_in_pool(placer, pool, k);
	}
	return reason;
}

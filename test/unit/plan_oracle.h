/*
 * plan_oracle.h
 *
 * The slow oracle, last part: the order, holds, and the plan.  It follows doc/architecture.md, "Deciding", sentence by
 * sentence, and shares no code with the core.
 */
#ifndef TEST_PLAN_ORACLE_H
#define TEST_PLAN_ORACLE_H

#include "oracle_preempt.h"
#include "oracle_targets.h"

/* The comparator: room held for it aside, rank, priority, submission, id. */
static inline bool
comes_first(bool rank_a, int priority_a, const Member *a, bool rank_b, int priority_b, const Member *b)
{
	if (rank_a != rank_b)
		return rank_a;
	if (priority_a != priority_b)
		return priority_a > priority_b;
	return member_after(b, a->submitted_at, a->workload_id);
}

/*
 * What is known of the next member of a lane: itself, or as long as the lane is not read, a bound of it.  False: there
 * is nothing to decide.
 */
static inline bool
next_member(const Oracle *oracle, int l, Member *member)
{
	const Lane *lane = &oracle->world->lanes[l];
	const Waiting *waiting = lane->store;
	const LaneState *state = &oracle->lanes[l];

	if (state->blocked || state->marked || (state->read && state->next >= waiting->n))
		return false;
	if (state->read)
		*member = waiting->members[state->next];
	else
	{
		member->submitted_at = lane->head_at;
		member->workload_id = lane->head_id;
	}
	return true;
}

/* The lane whose next member comes first; -1 when there is none. */
static inline int
next_lane(const Oracle *oracle)
{
	const World *world = oracle->world;
	int			best = -1;
	Member		first = {0};
	Member		member;

	for (int l = 0; l < world->nlanes; l++)
	{
		if (!next_member(oracle, l, &member))
			continue;
		if (best >= 0 && !comes_first(has_rank(world, &oracle->books, &world->lanes[l]), world->lanes[l].priority,
									  &member, has_rank(world, &oracle->books, &world->lanes[best]),
									  world->lanes[best].priority, &first))
			continue;
		best = l;
		first = member;
	}
	return best;
}

/* A batch bounds what a plan writes: admissions, victims, and room that is held. */
static inline bool
batch_is_full(const Oracle *oracle)
{
	return oracle->nadmissions + oracle->npreemptions + oracle->nheld >= oracle->world->batch;
}

/* Holds */

static inline bool
hold_is_lost(const Oracle *oracle, const RoomHold *hold)
{
	const World *world = oracle->world;
	const Lane *lane = hold->lane;

	if (lane == NULL || lane->own != REASON_NONE || world->pools[hold->pool].closed != REASON_NONE)
		return true;
	for (int i = 0; i < hold->npods; i++)
		if (hold->pods[i].node < 0 || !world->nodes[hold->pods[i].node].takes_work)
			return true;
	for (int i = 0; i < lane->nlimits; i++)
		for (int k = 0; limit_concerns(lane->limits[i], hold->pool, hold->type) && k < NKEYS; k++)
			if (lane->request[k] > 0 && lane->limits[i]->max[k] != RPQ_UNLIMITED &&
				oracle->books.used[limit_index(oracle, lane->limits[i])][k] > lane->limits[i]->max[k])
				return true;
	return false;
}

static inline bool
hold_is_entitled(const Oracle *oracle, const RoomHold *hold)
{
	const Lane *lane = hold->lane;
	bool		within = lane->policy >= 0;

	for (int k = 0; lane->policy >= 0 && k < NKEYS; k++)
		if (lane->request[k] > 0 &&
			oracle->books.held[lane->policy][k] > oracle->world->policies[lane->policy].reservation[k])
			within = false;
	return hold->by_right || (hold->by_reservation && within) ||
		(hold->by_priority >= 0 && hold->by_priority < lane->priority);
}

static inline void
admit_hold(Oracle *oracle, RoomHold *hold)
{
	Admission  *admission = &oracle->admissions[oracle->nadmissions++];

	hold->admitted = true;
	admission->lane = hold->lane;
	admission->member = hold->member;
	admission->pool = hold->pool;
	admission->home = hold->pool;
	admission->type = hold->type;
	admission->npods = hold->npods;
	admission->pods = hold->pods;
}

static inline void
decide_holds(Oracle *oracle)
{
	World	   *world = oracle->world;
	bool	   *done = palloc0(sizeof(bool) * (world->nholds + 1));

	for (int i = 0; i < world->nholds; i++)
	{
		RoomHold   *hold = NULL;

		for (int j = 0; j < world->nholds; j++)
		{
			RoomHold   *other = &world->holds[j];

			if (!done[j] && (hold == NULL || hold->lane == NULL ||
							 (other->lane != NULL &&
							  comes_first(has_rank(world, &oracle->books, other->lane), other->lane->priority,
										  &other->member, has_rank(world, &oracle->books, hold->lane),
										  hold->lane->priority, &hold->member))))
				hold = other;
		}
		done[hold - world->holds] = true;
		if (hold_is_lost(oracle, hold))
			hold->given_up = true;
		else if (hold->npending == 0 && batch_is_full(oracle))
			oracle->more = true;
		else if (hold->npending == 0)
			admit_hold(oracle, hold);
		else
			hold->given_up = !hold_is_entitled(oracle, hold);
		if (hold->lane != NULL && !hold->admitted)
			oracle->lanes[hold->lane - world->lanes].nheld++;
	}
}

/* Admissions */

static inline void
fill_admission(Admission *admission, Lane *lane, const Member *member, int pool, int home, const World *world,
			   const Verdict *verdict)
{
	admission->lane = lane;
	admission->member = *member;
	admission->pool = pool;
	admission->home = home;
	admission->type = world->pools[pool].types[verdict->slot].type;
	admission->npods = lane->replicas;
	admission->pods = verdict->pods;
}

/* Tries the pools in routing order, then the lenders.  Returns whether it was admitted; by_room: where it was not. */
static inline bool
try_pools(Oracle *oracle, Lane *lane, LaneState *state, Verdict *verdict, int *pool, int *home)
{
	const World *world = oracle->world;
	bool		all_by_room = true;

	for (int i = 0; i < lane->npools; i++)
	{
		*pool = *home = lane->pools[i];
		check_pool(oracle, lane, *pool, *home, verdict);
		if (verdict->code == REASON_NONE)
			return true;
		all_by_room &= verdict->by_room;
		if (i == 0)
		{
			state->code = verdict->code;
			state->fitting = verdict->fitting;
			state->ahead = verdict->ahead;
		}
	}
	if (!all_by_room || lane->guarantee || world->pools[*home].pay_as_you_go)
		return false;
	for (int i = 0; i < lane->nlenders; i++)
	{
		*pool = lane->lenders[i];
		if (world->pools[*pool].pay_as_you_go)
			continue;
		check_pool(oracle, lane, *pool, *home, verdict);
		if (verdict->code == REASON_NONE)
			return true;
	}
	return false;
}

static inline void
admit(Oracle *oracle, Lane *lane, const Member *member, int pool, int home, const Verdict *verdict)
{
	Admission  *admission = &oracle->admissions[oracle->nadmissions++];

	fill_admission(admission, lane, member, pool, home, oracle->world, verdict);
	oracle->books = verdict->after;
	charge_own(oracle, &oracle->books, lane, home, admission->type);
	if (pool == home)
		charge(oracle, &oracle->books, oracle->world->pools[pool].total, lane);
}

/* No more stays free than was free without the room of slow victims. */
static inline void
keep_no_more_free(const World *world, Books *books, const Books *before)
{
	for (int n = 0; n < world->nnodes; n++)
	{
		for (int k = 0; k < NKEYS; k++)
			books->free[n][k] = Min(books->free[n][k], before->free[n][k]);
		for (int d = 0; d < world->nodes[n].ndevices; d++)
			books->device[n][d] = Min(books->device[n][d], before->device[n][d]);
		for (int d = 0; d < world->nodes[n].ndevices; d++)
			books->free[n][0] = d == 0 ? books->device[n][d] : books->free[n][0] + books->device[n][d];
	}
}

/* Where room is held, a node hosts those who have still to stop, and the candidate. */
static inline void
host_both(const World *world, Books *later, const Books *now, const Lane *lane, const Verdict *verdict)
{
	for (int n = 0; n < world->nnodes; n++)
	{
		bool		holds = false;

		for (int i = 0; i < lane->replicas; i++)
			holds |= verdict->pods[i].node == n;
		if (!world->pools[world->nodes[n].pool].isolate)
			continue;
		if (!holds)
			later->account[n] = now->account[n];
		else
			later->account[n] = now->account[n] == 0 || now->account[n] == lane->account_id ? lane->account_id :
				SEVERAL_ACCOUNTS;
	}
}

/* The victims go, now or soon, and the candidate is admitted, or room is held for it. */
static inline void
preempt(Oracle *oracle, Lane *lane, const Member *member, const Victims *victims)
{
	World	   *world = oracle->world;
	Placed	   *placed[ORACLE_PLACED];
	bool		all[ORACLE_PLACED];
	Books		now;			/* without those that go at once */
	Books		later;			/* without all of them, with the candidate */
	bool		slow = false;
	int			total = limit_index(oracle, world->pools[victims->pool].total);

	for (int i = 0; i < victims->n; i++)
	{
		placed[i] = &world->placed[victims->victim[i]];
		all[i] = true;
	}
	if (world->take_victims)
		world->take_victims(world, placed, victims->n);
	now = oracle->books;
	for (int i = 0; i < victims->n; i++)
	{
		Preemption *preemption = &oracle->preemptions[oracle->npreemptions++];

		preemption->victim = placed[i];
		preemption->rule = victims->rule[i];
		preemption->rank = i + 1;
		preemption->lane = lane;
		preemption->member = *member;
		free_policy(&now, placed[i]);
		slow |= placed[i]->slow;
		if (placed[i]->slow)
			continue;
		free_nodes(world, &now, placed[i]);
		free_total(oracle, &now, placed[i]);
		free_limits(oracle, &now, placed[i]);
	}
	renew_accounts(oracle, &now, victims, all, false);
	later = victims->verdict.after;
	charge(oracle, &later, world->pools[victims->pool].total, lane);
	if (slow)
	{
		keep_no_more_free(world, &later, &now);
		fill_admission(&oracle->held[oracle->nheld++], lane, member, victims->pool, victims->pool, world,
					   &victims->verdict);
	}
	else
		fill_admission(&oracle->admissions[oracle->nadmissions++], lane, member, victims->pool, victims->pool, world,
					   &victims->verdict);
	for (int i = 0; i < victims->n; i++)
		oracle->gone[victims->victim[i]] = true;
	if (slow)
		host_both(world, &later, &now, lane, &victims->verdict);
	oracle->books = now;
	memcpy(oracle->books.free, later.free, sizeof(now.free));
	memcpy(oracle->books.device, later.device, sizeof(now.device));
	memcpy(oracle->books.account, later.account, sizeof(now.account));
	for (int k = 0; k < NKEYS; k++)
		oracle->books.used[total][k] = Max(later.used[total][k], now.used[total][k]);
	charge_own(oracle, &oracle->books, lane, victims->pool,
			   world->pools[victims->pool].types[victims->verdict.slot].type);
}

/* A standing reason, or with it a pool that is closed, whichever comes first. */
static inline ReasonCode
standing_reason(const World *world, const Lane *lane)
{
	if (lane->npools == 1 && world->pools[lane->pools[0]].closed != REASON_NONE)
		return Min(lane->own, world->pools[lane->pools[0]].closed);
	return lane->own;
}

/*
 * A lane that is not read comes up at its bound.  Where there is something to do for its first member it is read, and
 * goes where that belongs; else it is blocked, and the reason is that of this place in the order.
 */
static inline void
decide_unread(Oracle *oracle, int l)
{
	Lane	   *lane = &oracle->world->lanes[l];
	LaneState  *state = &oracle->lanes[l];
	Verdict		verdict;
	Victims		victims;
	int			pool = 0;
	int			home = 0;

	if (lane->skip)
	{
		state->read = lane->own == REASON_NONE && mark_targets(oracle, lane, 0);
		state->marked = !state->read;
		return;
	}
	state->read = try_pools(oracle, lane, state, &verdict, &pool, &home);
	if (state->read)
		return;
	best_victims(oracle, lane, &victims);
	state->read = victims.n > 0 || mark_targets(oracle, lane, 0);
	state->blocked = !state->read;
}

static inline void
decide_member(Oracle *oracle, int l, const Member *member)
{
	World	   *world = oracle->world;
	Lane	   *lane = &world->lanes[l];
	LaneState  *state = &oracle->lanes[l];
	Verdict		verdict;
	Victims		victims;
	int			pool = 0;
	int			home = 0;
	int			held = oracle->nheld;

	if (lane->skip)
	{
		state->marked = true;
		mark_targets(oracle, lane, member->workload_id);
		return;
	}
	if (try_pools(oracle, lane, state, &verdict, &pool, &home))
	{
		oracle->more = batch_is_full(oracle);
		if (!oracle->more)
			admit(oracle, lane, member, pool, home, &verdict);
		state->next += !oracle->more;
		return;
	}
	best_victims(oracle, lane, &victims);
	oracle->more = victims.n > 0 && batch_is_full(oracle);
	if (victims.n > 0 && !oracle->more)
	{
		preempt(oracle, lane, member, &victims);
		state->nheld += oracle->nheld - held;
		state->next++;
	}
	else if (!oracle->more)
	{
		state->blocked = true;
		mark_targets(oracle, lane, member->workload_id);
	}
}

static inline void
decide_lane(Oracle *oracle, int l)
{
	const World *world = oracle->world;
	LaneState  *state = &oracle->lanes[l];
	Member		member;

	if (world->lanes[l].own != REASON_NONE && !world->lanes[l].skip)
	{
		state->blocked = true;
		state->code = standing_reason(world, &world->lanes[l]);
	}
	else if (!state->read)
		decide_unread(oracle, l);
	else if (next_member(oracle, l, &member))
		decide_member(oracle, l, &member);
}

static inline Oracle *
oracle_plan(World *world)
{
	Oracle	   *oracle = palloc0(sizeof(Oracle));
	int			members = 0;
	int			l;

	oracle->world = world;
	open_books(oracle);
	oracle->lanes = palloc0(sizeof(LaneState) * (world->nlanes + 1));
	for (int i = 0; i < world->nlanes; i++)
		members += ((Waiting *) world->lanes[i].store)->n;
	oracle->admissions = palloc0(sizeof(Admission) * (members + world->nholds + 1));
	oracle->held = palloc0(sizeof(Admission) * (members + 1));
	oracle->preemptions = palloc0(sizeof(Preemption) * ORACLE_PLACED);
	decide_holds(oracle);
	while (!oracle->more && (l = next_lane(oracle)) >= 0)
		decide_lane(oracle, l);
	return oracle;
}

#endif							/* TEST_PLAN_ORACLE_H */

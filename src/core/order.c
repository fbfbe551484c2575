/*
 * order.c
 *
 * The decision: who is admitted, in which order.  plan = f(world).
 *
 * One comparator for all that wait: room that is held for it (holds.c), then what fits wholly in the unmet reservation
 * of its policy, then priority, then submission, then id.  What fits into a reservation changes as the plan admits: it
 * is asked again when a line comes up, and of all lines when a policy comes to hold less, since its victims give room.
 *
 * A candidate that cannot be admitted by its own limits waits and keeps nothing back.  One that is blocked by room may
 * take it from others, or have nodes kept back for it (blocked.c).
 *
 * Work waits in lanes of workloads that are alike, so once one of a lane is blocked, the rest is without being tried.
 * A plan gives room to nobody but those who take it, so a blocked lane stays blocked to its end.  Lanes stand in a
 * binary heap by the key of their first member.  What is known of an unread lane is a lower bound of that key: when it
 * comes up, it is first checked (a lane for which nothing is to be done is never read), then its first members are read
 * and it goes back with the true key.  So the order over all lanes is exact, and the cost of a plan goes with what it
 * admits and with the number of lanes, not with how much waits in them.
 *
 * A lane that is skipped stands in the heap only where it might have to mark target nodes.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/planner.h"

/* Members read at once: what is read may be locked, so few at first, then twice as many each time. */
#define FEWEST_AT_ONCE	8
#define MOST_AT_ONCE	256

/*
 * The order.  What comes out of a plan does not depend on the last three: keys of members differ, and a bound that is
 * equal to a key decides nothing.
 */
static bool
line_before(const Line *a, const Line *b)
{
	const Lane *x = a->candidate.lane;
	const Lane *y = b->candidate.lane;

	if (a->rank != b->rank)
		return a->rank;
	if (x->priority != y->priority)
		return x->priority > y->priority;
	if (x->head_at != y->head_at)
		return x->head_at < y->head_at;
	if (x->head_id != y->head_id)
		return x->head_id < y->head_id;
	if ((a->members == NULL) != (b->members == NULL))
		return a->members == NULL;
	if (x->scope_id != y->scope_id)
		return x->scope_id < y->scope_id;
	return x->shape < y->shape;
}

/* The line at a place of the heap has come to stand later in the order: moves it down. */
static void
heap_down(Planner *planner, int at)
{
	Line	   *line = planner->heap[at];

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child >= planner->nlines)
			break;
		if (child + 1 < planner->nlines && line_before(planner->heap[child + 1], planner->heap[child]))
			child++;
		if (!line_before(planner->heap[child], line))
			break;
		planner->heap[at] = planner->heap[child];
		at = child;
	}
	planner->heap[at] = line;
}

static void
build_heap(Planner *planner)
{
	for (int i = planner->nlines / 2 - 1; i >= 0; i--)
		heap_down(planner, i);
}

/*
 * A policy holds less than before: its lines may have come to rank higher.
 */
void
renew_ranks(Planner *planner)
{
	for (int i = 0; i < planner->nlines; i++)
		planner->heap[i]->rank = candidate_has_rank(planner->world, &planner->heap[i]->candidate);
	build_heap(planner);
}

static void
remove_first(Planner *planner)
{
	Line	   *line = planner->heap[0];

	if (line->members != NULL)
		pfree(line->members);
	line->members = NULL;
	planner->heap[0] = planner->heap[--planner->nlines];
	if (planner->nlines > 0)
		heap_down(planner, 0);
}

/* The first line is decided: blocked, or admitted to its end.  One that is skipped keeps the reason that it had. */
static void
drop_first(Planner *planner, Reason *reason)
{
	Lane	   *lane = planner->heap[0]->candidate.lane;

	if (!lane->skip)
	{
		lane->considered = true;
		lane->reason = reason;
	}
	remove_first(planner);
}

/* Whether a lane that is skipped could have to mark target nodes: some pool of its keeps nodes back. */
static bool
may_mark(const World *world, const Lane *lane)
{
	for (int i = 0; i < lane->npools && lane->own == REASON_NONE; i++)
		if (!world->pools[lane->pools[i]].best_effort)
			return true;
	return false;
}

static void
planner_init(Planner *planner, World *world)
{
	memset(planner, 0, sizeof(Planner));
	planner->world = world;
	planner->placer = placer_create(world);
	planner->plan = palloc0(sizeof(CyclePlan));
	planner->maxadmissions = 64;
	planner->plan->admissions = palloc(sizeof(Admission) * planner->maxadmissions);
	planner->lines = palloc0(sizeof(Line) * (world->nlanes + 1));
	planner->heap = palloc(sizeof(Line *) * (world->nlanes + 1));
	for (int i = 0; i < world->nlanes; i++)
	{
		Lane	   *lane = &world->lanes[i];
		Line	   *line = &planner->lines[planner->nlines];

		lane->considered = false;
		if (lane->skip && !may_mark(world, lane))
			continue;
		if (!lane->skip)
			lane->reason = NULL;
		/* of most that are skipped nothing is ever asked but where they stand */
		if (lane->skip && lane->policy < 0)
			line->candidate.lane = lane;
		else
			candidate_init(world, lane, &line->candidate);
		line->rank = candidate_has_rank(world, &line->candidate);
		planner->heap[planner->nlines++] = line;
	}
	build_heap(planner);
}

/*
 * An equal share of the batch at first.  Never more than can still be admitted, and one to know the lane's new head.
 */
static int
members_to_ask(Planner *planner, const Line *line)
{
	int			left = planner->world->batch - planner->written;
	int			most = Max(1, left < MOST_AT_ONCE ? left + 1 : MOST_AT_ONCE);

	if (line->candidate.lane->skip)
		return 1;
	if (line->asked > 0)
		return Min(line->asked * 2, most);
	return Min(Max(FEWEST_AT_ONCE, Min(left, MOST_AT_ONCE * planner->nlines) / planner->nlines + 1), most);
}

/*
 * Reads the next members of the first line, puts its head at the first of them, and the line where that belongs.
 * Without any, the line is at its end.
 */
static void
read_members(Planner *planner)
{
	Line	   *line = planner->heap[0];
	Lane	   *lane = line->candidate.lane;
	Member		last;
	bool		again = line->members != NULL;

	if (again)
		last = line->members[line->nmembers - 1];
	line->asked = members_to_ask(planner, line);
	line->members = again ? repalloc(line->members, sizeof(Member) * line->asked) :
		palloc(sizeof(Member) * line->asked);
	line->nmembers = planner->world->read_members(planner->world, lane, again ? &last : NULL, line->asked,
												  line->members);
	line->next = 0;
	if (line->nmembers <= 0)
	{
		drop_first(planner, NULL);
		return;
	}
	lane->head_at = line->members[0].submitted_at;
	lane->head_id = line->members[0].workload_id;
	heap_down(planner, 0);
}

Admission *
next_admission(Planner *planner)
{
	CyclePlan  *plan = planner->plan;

	if (plan->nadmissions == planner->maxadmissions)
	{
		planner->maxadmissions *= 2;
		plan->admissions = repalloc_huge(plan->admissions, sizeof(Admission) * (Size) planner->maxadmissions);
	}
	planner->written++;
	return &plan->admissions[plan->nadmissions++];
}

/*
 * The first member of the first line is served: the line goes where its next member belongs.
 */
void
pass_first_member(Planner *planner)
{
	Line	   *line = planner->heap[0];
	Lane	   *lane = line->candidate.lane;

	line->next++;
	if (line->next < line->nmembers)
	{
		lane->head_at = line->members[line->next].submitted_at;
		lane->head_id = line->members[line->next].workload_id;
		heap_down(planner, 0);
	}
	else if (line->nmembers < line->asked)
		drop_first(planner, NULL);	/* fewer than asked for were the last */
	else
		read_members(planner);
}

static void
admit_first(Planner *planner, Spot spot)
{
	Line	   *line = planner->heap[0];
	Admission  *admission = next_admission(planner);

	admission->member = line->members[line->next];
	candidate_admit(planner->placer, &line->candidate, spot, admission);
	pass_first_member(planner);
}

/* Whether a pool that keeps nodes back has a type that a lane may use and that has no head: a look, and no check. */
static bool
may_be_head(const Planner *planner, const Lane *lane)
{
	for (int i = 0; i < lane->npools; i++)
	{
		const Pool *pool = &planner->world->pools[lane->pools[i]];
		const Room *rooms = &planner->placer->rooms[planner->placer->first_room[lane->pools[i]]];

		for (int t = 0; t < pool->ntypes && !pool->best_effort; t++)
			if (rooms[t].targets == NULL && (lane->type_allowed == NULL || lane->type_allowed[pool->types[t].type]))
				return true;
	}
	return false;
}

/* The first line was blocked before, and nothing has changed since: no more than its targets are looked for. */
static void
pass_skipped(Planner *planner)
{
	Line	   *line = planner->heap[0];
	Spot		spot;
	Reason	   *reason = NULL;

	if (!may_be_head(planner, line->candidate.lane))
	{
		remove_first(planner);
		return;
	}
	if (line->candidate.total == NULL)
		candidate_init(planner->world, line->candidate.lane, &line->candidate);
	if (candidate_fits(planner->placer, &line->candidate, &spot, &reason))
		remove_first(planner);
	else if (mark_targets(planner, line) == BLOCKED_UNREAD)
		read_members(planner);
	else
		remove_first(planner);
}

static void
decide_first(Planner *planner)
{
	Line	   *line = planner->heap[0];
	Spot		spot;
	Reason	   *reason = NULL;

	if (!candidate_fits(planner->placer, &line->candidate, &spot, &reason))
		switch (act_on_blocked(planner))
		{
			case BLOCKED_WAITS:
				drop_first(planner, reason);
				break;
			case BLOCKED_UNREAD:
				read_members(planner);
				break;
			case BLOCKED_TAKES:
				break;
		}
	else if (line->members == NULL)
		read_members(planner);
	else if (batch_is_full(planner))
		planner->plan->more = true;
	else
		admit_first(planner, spot);
}

/*
 * Decides.  Afterwards each lane was skipped, or was considered (blocked, with a reason, or served to its end), or
 * was not reached because the plan is cut off; then, and only then, plan->more is true and at least one more workload
 * could have been admitted.
 */
CyclePlan *
plan_world(World *world)
{
	Planner		planner;

	planner_init(&planner, world);
	if (decide_holds(&planner))
		while (planner.nlines > 0 && !planner.plan->more)
		{
			Line	   *line = planner.heap[0];

			CHECK_FOR_INTERRUPTS();
			if (line->rank && !candidate_has_rank(world, &line->candidate))
			{
				line->rank = false;
				heap_down(&planner, 0);
			}
			else if (line->candidate.lane->skip)
				pass_skipped(&planner);
			else
				decide_first(&planner);
		}
	keep_heads(&planner);
	return planner.plan;
}

/*
 * order.c
 *
 * The decision: who is admitted, in which order.  plan = f(world).
 *
 * One comparator for all that wait: priority, then submission, then id.  (Two ranks will come before these: room that
 * is held for a workload, and what fits wholly in the unmet reservation of its policy.)  A candidate that cannot be
 * admitted waits and keeps nothing back: the next ones are tried.  That is the queueing best_effort; pools with
 * backfill are treated alike until target nodes exist.
 *
 * Work waits in lanes of workloads that are alike, so once one of a lane is blocked, the rest is without being tried.
 * A plan only takes room, never gives any, so a blocked lane stays blocked to its end.  Lanes stand in a binary heap by
 * the key of their first member.  What is known of an unread lane is a lower bound of that key: when it comes up, it
 * is first checked (a blocked lane is never read), then its first members are read and it goes back with the true key.
 * So the order over all lanes is exact, and the cost of a plan goes with what it admits and with the number of lanes,
 * not with how much waits in them.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/admit.h"

/* Members read at once: what is read may be locked, so few at first, then twice as many each time. */
#define FEWEST_AT_ONCE	8
#define MOST_AT_ONCE	256

/* A lane as the plan works on it. */
typedef struct Line
{
	Candidate	candidate;
	Member	   *members;		/* [asked], NULL: not read yet */
	int			asked;			/* how many were asked for when they were read */
	int			nmembers;
	int			next;			/* the first member that is not admitted */
} Line;

typedef struct Planner
{
	World	   *world;
	Placer	   *placer;
	CyclePlan  *plan;
	int			maxadmissions;
	int			nlines;
	Line	  **heap;			/* [nlines], the first is on top */
	Line	   *lines;
} Planner;

/*
 * The order.  What comes out of a plan does not depend on the last three: keys of members differ, and a bound that is
 * equal to a key decides nothing.
 */
static bool
line_before(const Line *a, const Line *b)
{
	const Lane *x = a->candidate.lane;
	const Lane *y = b->candidate.lane;

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

/* The first line is decided: blocked, or admitted to its end. */
static void
drop_first(Planner *planner, Reason *reason)
{
	Line	   *line = planner->heap[0];

	line->candidate.lane->considered = true;
	line->candidate.lane->reason = reason;
	if (line->members != NULL)
		pfree(line->members);
	line->members = NULL;
	planner->heap[0] = planner->heap[--planner->nlines];
	if (planner->nlines > 0)
		heap_down(planner, 0);
}

static void
planner_init(Planner *planner, World *world)
{
	planner->world = world;
	planner->placer = placer_create(world);
	planner->plan = palloc0(sizeof(CyclePlan));
	planner->maxadmissions = 64;
	planner->plan->admissions = palloc(sizeof(Admission) * planner->maxadmissions);
	planner->lines = palloc0(sizeof(Line) * (world->nlanes + 1));
	planner->heap = palloc(sizeof(Line *) * (world->nlanes + 1));
	planner->nlines = 0;
	for (int i = 0; i < world->nlanes; i++)
	{
		Lane	   *lane = &world->lanes[i];

		lane->considered = false;
		if (lane->skip)
			continue;
		lane->reason = NULL;
		candidate_init(world, lane, &planner->lines[planner->nlines].candidate);
		planner->heap[planner->nlines] = &planner->lines[planner->nlines];
		planner->nlines++;
	}
	for (int i = planner->nlines / 2 - 1; i >= 0; i--)
		heap_down(planner, i);
}

/*
 * An equal share of the batch at first.  Never more than can still be admitted, and one to know the lane's new head.
 */
static int
members_to_ask(Planner *planner, const Line *line)
{
	int			left = planner->world->batch - planner->plan->nadmissions;
	int			most = Max(1, left < MOST_AT_ONCE ? left + 1 : MOST_AT_ONCE);

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

static void
admit_first(Planner *planner, Spot spot)
{
	Line	   *line = planner->heap[0];
	Lane	   *lane = line->candidate.lane;
	CyclePlan  *plan = planner->plan;
	Admission  *admission;

	if (plan->nadmissions == planner->maxadmissions)
	{
		planner->maxadmissions *= 2;
		plan->admissions = repalloc_huge(plan->admissions, sizeof(Admission) * (Size) planner->maxadmissions);
	}
	admission = &plan->admissions[plan->nadmissions++];
	admission->member = line->members[line->next++];
	candidate_admit(planner->placer, &line->candidate, spot, admission);
	if (line->next == line->nmembers)
	{
		/* fewer than asked for were the last */
		if (line->nmembers < line->asked)
			drop_first(planner, NULL);
		else
			read_members(planner);
		return;
	}
	lane->head_at = line->members[line->next].submitted_at;
	lane->head_id = line->members[line->next].workload_id;
	heap_down(planner, 0);
}

/*
 * Decides.  Afterwards each lane was skipped, or was considered (blocked, with a reason, or admitted to its end), or
 * was not reached because the plan is cut off; then, and only then, plan->more is true and at least one more workload
 * could have been admitted.
 */
CyclePlan *
plan_world(World *world)
{
	Planner		planner;

	planner_init(&planner, world);
	while (planner.nlines > 0)
	{
		Spot		spot;
		Reason	   *reason = NULL;

		CHECK_FOR_INTERRUPTS();
		if (!candidate_fits(planner.placer, &planner.heap[0]->candidate, &spot, &reason))
			drop_first(&planner, reason);
		else if (planner.heap[0]->members == NULL)
			read_members(&planner);
		else if (planner.plan->nadmissions >= world->batch)
		{
			planner.plan->more = true;
			break;
		}
		else
			admit_first(&planner, spot);
	}
	return planner.plan;
}

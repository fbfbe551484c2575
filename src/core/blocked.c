/*
 * blocked.c
 *
 * What is done for a workload that is blocked by room: it takes room from others where it is entitled to (preempt.c);
 * if it cannot, the first of an instance type marks target nodes (targets.c), in pools whose queueing is backfill.
 *
 * Both are done for one workload and not for its lane, so its members must have been read.  They are read only when
 * there is something to do: of those that are blocked and wait, nothing is read.
 */
#include "postgres.h"

#include "core/planner.h"
#include "core/preempt.h"
#include "core/targets.h"

static bool
is_blocked_by_room(const Candidate *candidate)
{
	for (int i = 0; i < candidate->lane->npools; i++)
		if (candidate->blocked[i] >= REASON_RESERVED)
			return true;
	return false;
}

static void
note_victims(Planner *planner, const Victims *victims, Lane *lane, const Member *member)
{
	CyclePlan  *plan = planner->plan;

	while (plan->npreemptions + victims->nvictims > planner->maxpreemptions)
	{
		planner->maxpreemptions = Max(64, 2 * planner->maxpreemptions);
		plan->preemptions = plan->preemptions == NULL ?
			palloc(sizeof(Preemption) * planner->maxpreemptions) :
			repalloc_huge(plan->preemptions, sizeof(Preemption) * (Size) planner->maxpreemptions);
	}
	for (int i = 0; i < victims->nvictims; i++)
	{
		Preemption *preemption = &plan->preemptions[plan->npreemptions++];

		preemption->victim = victims->victims[i];
		preemption->rule = victims->rules[i];
		preemption->rank = i + 1;
		preemption->lane = lane;
		preemption->member = *member;
	}
	planner->written += victims->nvictims;
}

static Admission *
next_held(Planner *planner)
{
	CyclePlan  *plan = planner->plan;

	if (plan->nheld == planner->maxheld)
	{
		planner->maxheld = Max(16, 2 * planner->maxheld);
		plan->held = plan->held == NULL ? palloc(sizeof(Admission) * planner->maxheld) :
			repalloc_huge(plan->held, sizeof(Admission) * (Size) planner->maxheld);
	}
	planner->written++;
	return &plan->held[plan->nheld++];
}

/*
 * Takes the room of victims for the first member of the first line.
 */
static void
take_room(Planner *planner, const Victims *victims)
{
	Line	   *line = planner->heap[0];
	Admission	admission;
	bool		of_policies = false;
	bool		at_once;

	admission.member = line->members[line->next];
	at_once = preempt_take(planner->placer, &line->candidate, victims, &admission);
	note_victims(planner, victims, line->candidate.lane, &admission.member);
	*(at_once ? next_admission(planner) : next_held(planner)) = admission;
	for (int i = 0; i < victims->nvictims; i++)
		of_policies |= victims->victims[i]->policy >= 0;
	pass_first_member(planner);
	if (of_policies)
		renew_ranks(planner);
}

/*
 * A line that is blocked, its own or one that was blocked before and is skipped: marks the targets of its first member,
 * if it is to have any.
 */
BlockedAction
mark_targets(Planner *planner, const Line *line)
{
	if (!targets_due(planner->placer, &line->candidate))
		return BLOCKED_WAITS;
	if (line->members == NULL)
		return BLOCKED_UNREAD;
	(void) targets_mark(planner->placer, &line->candidate);
	return BLOCKED_WAITS;
}

/*
 * The first line is blocked.  A plan that is cut off by the batch says so, and the line is left as it is.
 */
BlockedAction
act_on_blocked(Planner *planner)
{
	Line	   *line = planner->heap[0];
	Victims		victims;

	if (!is_blocked_by_room(&line->candidate))
		return BLOCKED_WAITS;
	if (!preempt_find(planner->placer, &line->candidate, &victims))
		return mark_targets(planner, line);
	if (line->members == NULL)
		return BLOCKED_UNREAD;
	if (batch_is_full(planner))
		planner->plan->more = true;
	else
		take_room(planner, &victims);
	return BLOCKED_TAKES;
}

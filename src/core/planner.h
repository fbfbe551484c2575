/*
 * planner.h
 *
 * A plan in the making, between the files that decide it: order.c takes lanes in their order, holds.c decides on room
 * that is held, blocked.c does what is to be done for those that are blocked.  Internal to the core.
 */
#ifndef RPQ_CORE_PLANNER_H
#define RPQ_CORE_PLANNER_H

#include "core/admit.h"

/* A lane as the plan works on it. */
typedef struct Line
{
	Candidate	candidate;
	bool		rank;			/* it fits wholly in what is unmet of its policy's reservation; lost without notice */
	Member	   *members;		/* [asked], NULL: not read yet */
	int			asked;			/* how many were asked for when they were read */
	int			nmembers;
	int			next;			/* the first member that is neither admitted nor has room held */
} Line;

typedef struct Planner
{
	World	   *world;
	Placer	   *placer;
	CyclePlan  *plan;
	int			maxadmissions;
	int			maxpreemptions;
	int			maxheld;
	int			written;		/* what the plan has written so far: the batch bounds it */
	int			nlines;
	Line	  **heap;			/* [nlines], the first is on top */
	Line	   *lines;
} Planner;

static inline bool
batch_is_full(const Planner *planner)
{
	return planner->written >= planner->world->batch;
}

/* order.c */
extern Admission *next_admission(Planner *planner);
extern void pass_first_member(Planner *planner);
extern void renew_ranks(Planner *planner);

/* holds.c: room that was held before.  False: the plan is cut off. */
extern bool decide_holds(Planner *planner);

/* Lanes do not lose those of their members for whom room is held, should that be given up. */
extern void keep_heads(Planner *planner);

/* What is to be done for the first line, which is blocked by room. */
typedef enum BlockedAction
{
	BLOCKED_WAITS,				/* nothing: it waits */
	BLOCKED_UNREAD,				/* something, but its members must be known for it */
	BLOCKED_TAKES				/* room was taken from others: its first member is served, or room is held for it */
} BlockedAction;

/* blocked.c */
extern BlockedAction act_on_blocked(Planner *planner);
extern BlockedAction mark_targets(Planner *planner, const Line *line);

#endif							/* RPQ_CORE_PLANNER_H */

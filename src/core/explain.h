/*
 * explain.h
 *
 * The pieces of an explanation.  Internal to the core.
 */
#ifndef RPQ_CORE_EXPLAIN_H
#define RPQ_CORE_EXPLAIN_H

#include "core/admit.h"

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

/* explain.c */
extern Check *add_check(Explanation *ex, ReasonCode code, int pool, int type, bool passed);

/* explain_room.c */
extern void explain_reserved(Explanation *ex, int pool);
extern void explain_placement(Explanation *ex, int pool_index);

#endif							/* RPQ_CORE_EXPLAIN_H */

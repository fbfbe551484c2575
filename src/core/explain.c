/*
 * explain.c
 *
 * Every check that applies to one workload of a lane, passed or not, each with its figures, a sentence and a way out.
 *
 * The checks are those of the plan (admit.h), asked one by one and not only up to the first that fails: whoever lifts
 * each limit that is named here makes that check pass, and whoever leaves one does not.  A way out begins with "can
 * never run as things are set" where no end of running work would help, and with "must wait" elsewhere.  The world is
 * only read.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"

#include "core/explain.h"
#include "core/reason.h"
#include "core/reserve.h"
#include "core/targets.h"

Check *
add_check(Explanation *ex, ReasonCode code, int pool, int type, bool passed)
{
	Check	   *check;

	if (ex->nchecks == ex->maxchecks)
	{
		ex->maxchecks *= 2;
		ex->checks = repalloc(ex->checks, sizeof(Check) * ex->maxchecks);
	}
	check = &ex->checks[ex->nchecks++];
	memset(check, 0, sizeof(Check));
	check->code = code;
	check->pool = pool;
	check->type = type;
	check->passed = passed;
	check->node = -1;
	return check;
}

/* ---- standing reasons, and the state of a pool ---- */

static void
add_standing(Explanation *ex, ReasonCode code, const char *passed, const char *failed, const char *way_out, bool never)
{
	const Lane *lane = ex->candidate.lane;
	int			pool = lane->npools == 1 ? lane->pools[0] : -1;
	Check	   *check = add_check(ex, code, pool, -1, lane->own != code);
	Reason	   *reason = reason_create(code, pool, -1);

	reason->until = lane->until;
	check->detail = check->passed ? passed : failed != NULL ? failed : reason_sentence(ex->world, reason);
	check->way_out = check->passed ? NULL : way_out;
	check->never = !check->passed && never;
}

/* In a queue the policy is the authorisation, elsewhere the pool's members are. */
static void
explain_right(Explanation *ex)
{
	const char *policy;

	if (ex->candidate.lane->policy < 0)
	{
		add_standing(ex, REASON_NOT_AUTHORIZED, "the account is authorized", NULL,
					 NEVER ": authorize the account in the pool", true);
		return;
	}
	policy = ex->world->policies[ex->candidate.lane->policy].name;
	add_standing(ex, REASON_NOT_AUTHORIZED,
				 psprintf("the account is in the user group of policy \"%s\"", policy),
				 psprintf("the account is not in the user group of policy \"%s\"", policy),
				 psprintf(NEVER ": add the account to the user group of policy \"%s\"", policy), true);
}

/*
 * A lane has one standing reason, the first; what comes after it is not known.
 */
static void
explain_standing(Explanation *ex)
{
	ReasonCode	own = ex->candidate.lane->own;

	if (own == REASON_FENCED)
		add_standing(ex, own, NULL, NULL, "must wait until the database is adopted: call rpq.adopt_database()", false);
	if (own == REASON_NONE || own >= REASON_NOT_AUTHORIZED)
		explain_right(ex);
	if (own == REASON_NONE || own >= REASON_WORKLOAD_TYPE)
		add_standing(ex, REASON_WORKLOAD_TYPE, "the workload type is supported", NULL,
					 NEVER ": let the pool support the workload type", true);
	if (own == REASON_BACKING_OFF)
		add_standing(ex, own, NULL, NULL, ex->candidate.lane->until == NULL ? "must wait until its time has come" :
					 psprintf("must wait until %s", ex->candidate.lane->until), false);
}

static void
explain_state(Explanation *ex, int pool_index)
{
	const Pool *pool = &ex->world->pools[pool_index];
	Check	   *check;

	check = add_check(ex, REASON_POOL_NOT_READY, pool_index, -1, pool->closed != REASON_POOL_NOT_READY);
	check->detail = psprintf("pool \"%s\" is %sready", pool->name, check->passed ? "" : "not ");
	if (!check->passed)
		check->way_out = psprintf("must wait until pool \"%s\" is ready", pool->name);
	if (!check->passed)
		return;					/* whether it is also frozen is not known */
	check = add_check(ex, REASON_POOL_FROZEN, pool_index, -1, pool->closed != REASON_POOL_FROZEN);
	check->detail = psprintf("pool \"%s\" is %sfrozen", pool->name, check->passed ? "not " : "");
	if (!check->passed)
		check->way_out = psprintf(NEVER ": unfreeze pool \"%s\"", pool->name);
	check->never = !check->passed;
}

/* Guaranteed work of a policy is taken by the pools that allow it. */
static void
explain_guarantee(Explanation *ex, int pool_index)
{
	const Pool *pool = &ex->world->pools[pool_index];
	Check	   *check;

	if (!ex->candidate.lane->guarantee || ex->candidate.lane->policy < 0)
		return;
	check = add_check(ex, REASON_NOT_AUTHORIZED, pool_index, -1, pool->allow_guarantee);
	check->detail = psprintf("pool \"%s\" takes %sguaranteed work", pool->name, check->passed ? "" : "no ");
	if (!check->passed)
		check->way_out = psprintf(NEVER ": let pool \"%s\" take guaranteed work", pool->name);
	check->never = !check->passed;
}

/* ---- limits ---- */

/*
 * Whether the bound itself, with nothing in use, is too small in a key that stands in the way.
 */
static bool
never_passes(const World *world, const UsageLimit *limit, const int64 *total)
{
	for (int k = 0; k < world->nkeys; k++)
		if (!limit_passes_key(limit, total, k) && total[k] > limit_bound(limit, k))
			return true;
	return false;
}

/*
 * The exact change that lets the workload pass: each bound in its way, raised to what is in use and what it wants.
 */
static char *
raise_limit(Explanation *ex, const UsageLimit *limit, const Reason *reason, bool never)
{
	const World *world = ex->world;
	int64	   *raised = palloc0(sizeof(int64) * world->nkeys);
	char	   *by = positive_text(world, reason->missing);
	char	   *name;

	for (int k = 0; k < world->nkeys; k++)
		if (reason->missing[k] > 0 && pg_add_s64_overflow(limit_bound(limit, k), reason->missing[k], &raised[k]))
			return pstrdup(NEVER ": it asks for more than any amount");
	if (limit->kind == LIMIT_POOL && never)
		return psprintf(NEVER ": pool \"%s\" would have to hold %s (%s more)", world->pools[limit->pool].name,
						positive_text(world, raised), by);
	if (limit->kind == LIMIT_POOL)
		return psprintf("must wait until %s of the pool is given back, or until pool \"%s\" holds %s (%s more)", by,
						world->pools[limit->pool].name, positive_text(world, raised), by);
	name = limit->kind == LIMIT_POLICY && limit->pool < 0 && limit->type < 0 && ex->candidate.lane->policy >= 0 ?
		psprintf("usage limit of policy \"%s\"", world->policies[ex->candidate.lane->policy].name) :
		limit_name(world, reason->code, limit->pool, limit->type);
	return psprintf("%s raise the %s to %s (by %s)",
					never ? NEVER ":" : psprintf("must wait until %s of it is given back, or", by), name,
					positive_text(world, raised), by);
}

static void
add_limit(Explanation *ex, const UsageLimit *limit, int pool)
{
	const int64 *total = ex->candidate.total;
	Reason	   *reason = reason_of_limit(ex->world, &ex->candidate, limit, pool);
	Check	   *check = add_check(ex, reason->code, pool, limit->type, limit_passes(ex->world, limit, total));

	check->wanted = reason->wanted;
	check->available = reason->available;
	check->detail = reason_sentence(ex->world, reason);
	if (check->passed)
		return;
	check->never = never_passes(ex->world, limit, total);
	check->way_out = raise_limit(ex, limit, reason, check->never);
}

/*
 * Guaranteed work of a policy must fit what is unmet of its reservation.
 */
static void
explain_rank(Explanation *ex)
{
	const World *world = ex->world;
	const int64 *total = ex->candidate.total;
	const Policy *policy;
	Check	   *check;
	int64	   *left;
	int64	   *by;
	int64	   *raised;

	if (!ex->candidate.lane->guarantee || ex->candidate.lane->policy < 0)
		return;
	policy = &world->policies[ex->candidate.lane->policy];
	left = palloc(sizeof(int64) * world->nkeys);
	by = palloc0(sizeof(int64) * world->nkeys);
	raised = palloc0(sizeof(int64) * world->nkeys);
	check = add_check(ex, REASON_POLICY_LIMIT, -1, -1, candidate_has_rank(world, &ex->candidate));
	for (int k = 0; k < world->nkeys; k++)
	{
		left[k] = unmet_reservation(policy, k);
		if (total[k] <= 0 || total[k] <= left[k])
			continue;
		check->never |= total[k] > policy->reservation[k];
		if (pg_add_s64_overflow(policy->held[k], total[k], &raised[k]))
			raised[k] = PG_INT64_MAX;
		by[k] = raised[k] - policy->reservation[k];
	}
	check->wanted = ex->candidate.total;
	check->available = left;
	check->detail = psprintf("guaranteed work must fit what is left of the reservation of policy \"%s\": %s wanted, "
							 "%s left", policy->name, positive_text(world, total),
							 vector_text(world, left, total, NULL));
	if (check->passed)
		return;
	check->way_out = psprintf(check->never ? NEVER ": raise the reservation of policy \"%s\" to %s (by %s)" :
							  "must wait until work of policy \"%s\" ends, or raise its reservation to %s (by %s)",
							  policy->name, positive_text(world, raised), positive_text(world, by));
}

/*
 * The limits of its own that bind in a pool: personal quotas, then policy limits; for the pool as a whole, then for the
 * instance types that the workload allows.  A limit that is of no one pool has its row with the first.
 */
static void
explain_limits(Explanation *ex, int pool_index, bool first)
{
	const Lane *lane = ex->candidate.lane;

	for (LimitKind kind = LIMIT_USER; kind <= LIMIT_POLICY; kind++)
		for (int of_type = 0; of_type <= 1; of_type++)
			for (int i = 0; i < lane->nlimits; i++)
			{
				const UsageLimit *limit = lane->limits[i];

				if (limit->kind != kind || (limit->type != RPQ_WHOLE_POOL) != of_type)
					continue;
				if (limit->pool < 0 ? !first : limit->pool != pool_index)
					continue;
				if (of_type && lane->type_allowed != NULL && !lane->type_allowed[limit->type])
					continue;
				add_limit(ex, limit, limit->pool);
			}
}

/* ---- who is ahead ---- */

/* A lane as it stands in the order. */
typedef struct Ahead
{
	Candidate	candidate;
	bool		rank;
} Ahead;

static int
compare_ahead(const void *a, const void *b)
{
	const Ahead *x = a;
	const Ahead *y = b;
	const Lane *l = x->candidate.lane;
	const Lane *m = y->candidate.lane;

	if (x->rank != y->rank)
		return x->rank ? -1 : 1;
	if (l->priority != m->priority)
		return l->priority > m->priority ? -1 : 1;
	if (l->head_at != m->head_at)
		return l->head_at < m->head_at ? -1 : 1;
	if (l->head_id != m->head_id)
		return l->head_id < m->head_id ? -1 : 1;
	return 0;
}

/*
 * A lane that is ahead and blocked marks its targets.  What is known of its first member is a lower bound: who that is
 * is read, for the sentence.
 */
static void
mark_one(Explanation *ex, const Candidate *candidate)
{
	Member		first;
	Reason	   *reason;
	Spot		spot;

	if (candidate_fits(ex->placer, candidate, &spot, &reason) || !targets_mark(ex->placer, candidate) ||
		ex->world->read_members == NULL ||
		ex->world->read_members(ex->world, candidate->lane, NULL, 1, &first) != 1)
		return;
	for (int r = 0; r < ex->placer->nrooms; r++)
		if (ex->placer->rooms[r].head == candidate->lane)
			ex->placer->rooms[r].head_id = first.workload_id;
}

/*
 * Marks the targets of all that stand before the workload in the order and are blocked.  What would be admitted before
 * it is not: an explanation is about the present.
 */
static void
mark_ahead(Explanation *ex)
{
	World	   *world = ex->world;
	Ahead		own = {ex->candidate, candidate_has_rank(world, &ex->candidate)};
	Ahead	   *ahead = palloc(sizeof(Ahead) * (world->nlanes + 1));
	int			n = 0;

	for (int i = 0; i < world->nlanes; i++)
	{
		Lane	   *lane = &world->lanes[i];
		bool		backfill = false;

		for (int p = 0; p < lane->npools; p++)
			backfill |= !world->pools[lane->pools[p]].best_effort;
		if (lane == own.candidate.lane || lane->waiting == 0 || lane->own != REASON_NONE || !backfill)
			continue;
		candidate_init(world, lane, &ahead[n].candidate);
		ahead[n].rank = candidate_has_rank(world, &ahead[n].candidate);
		if (compare_ahead(&ahead[n], &own) < 0)
			n++;
	}
	qsort(ahead, n, sizeof(Ahead), compare_ahead);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		mark_one(ex, &ahead[i].candidate);
	}
	pfree(ahead);
}

/* ---- all of it ---- */

/* The room that is held for the workload, if any. */
static RoomHold *
hold_of(World *world, const Lane *lane)
{
	for (int i = 0; i < world->nholds; i++)
		if (world->holds[i].lane == lane && world->holds[i].member.workload_id == lane->head_id)
			return &world->holds[i];
	return NULL;
}

/* What is held counts under the limits already: takes it out for the time being, or puts it back. */
static void
count_hold(Explanation *ex, const RoomHold *hold, int sign)
{
	const Lane *lane = ex->candidate.lane;

	for (int i = 0; i < lane->nlimits; i++)
		if (limit_binds(lane->limits[i], hold->pool, RPQ_WHOLE_POOL) ||
			limit_binds(lane->limits[i], hold->pool, hold->type))
			for (int k = 0; k < ex->world->nkeys; k++)
				lane->limits[i]->used[k] += sign * ex->candidate.total[k];
}

/*
 * A workload for which room is held waits for its victims, and loses the room when a check fails that no room can help.
 */
static void
explain_hold(Explanation *ex, const RoomHold *hold)
{
	const Reason *reason = reason_of_hold(ex->world, hold->pool, hold->type, hold->pods, hold->npods, hold->npending,
										  hold->nvictims);
	Check	   *check;

	explain_state(ex, hold->pool);
	explain_guarantee(ex, hold->pool);
	count_hold(ex, hold, -1);
	explain_limits(ex, hold->pool, true);
	count_hold(ex, hold, 1);
	check = add_check(ex, REASON_PREEMPTING, hold->pool, hold->type, hold->npending == 0);
	check->wanted = ex->candidate.total;
	check->detail = reason_sentence(ex->world, reason);
	if (!check->passed)
		check->way_out = "must wait until they have stopped, at most the time of grace";
}

static void
explain_pools(Explanation *ex)
{
	World	   *world = ex->world;
	const Lane *lane = ex->candidate.lane;

	for (int i = 0; i < lane->npools; i++)
	{
		int			pool = lane->pools[i];

		explain_state(ex, pool);
		explain_guarantee(ex, pool);
		explain_limits(ex, pool, i == 0);
		if (i == 0)
			explain_rank(ex);
		explain_reserved(ex, pool);
		if (world->pools[pool].total != NULL)
			add_limit(ex, world->pools[pool].total, pool);
		explain_placement(ex, pool);
	}
	if (lane->policy >= 0 || lane->npools != 1 || never_preempted(world, lane, lane->pools[0]))
		return;
	/* it may borrow, charged to its own pool */
	for (int i = 0; i < lane->nlenders; i++)
	{
		if (never_preempted(world, lane, lane->lenders[i]))
			continue;
		explain_state(ex, lane->lenders[i]);
		explain_reserved(ex, lane->lenders[i]);
		explain_placement(ex, lane->lenders[i]);
	}
}

/*
 * All checks that apply to the workload that stands first in a lane, of those of the world, pool by pool in routing
 * order, then in the pools that lend to it.  head_at and head_id of the lane must be those of the workload; the other
 * lanes are there for what those ahead keep back.  Returns how many.
 */
int
explain_lane(World *world, int lane, Check **checks)
{
	Explanation ex;
	RoomHold   *hold = hold_of(world, &world->lanes[lane]);

	memset(&ex, 0, sizeof(ex));
	ex.world = world;
	ex.placer = placer_create(world);
	candidate_init(world, &world->lanes[lane], &ex.candidate);
	ex.maxchecks = 16;
	ex.checks = palloc(sizeof(Check) * ex.maxchecks);

	explain_standing(&ex);
	if (hold != NULL)
		explain_hold(&ex, hold);
	else
	{
		mark_ahead(&ex);
		explain_pools(&ex);
	}
	*checks = ex.checks;
	return ex.nchecks;
}

/*
 * limit.c
 *
 * Bounds on usage: personal quotas, policy limits, what a pool holds.
 *
 * A limit is compared in the keys that the workload asks for and in no other: where usage is already beyond a bound (a
 * quota was lowered, a node was lost), work that does not ask for that key is not held up.
 */
#include "postgres.h"

#include "common/int.h"

#include "core/admit.h"
#include "core/resources.h"

/*
 * What all replicas of a workload ask for together.  An amount beyond the range of amounts is the largest there is:
 * no limit but an unlimited one admits it, and no set of nodes holds it.
 */
int64 *
total_request(const World *world, const Lane *lane)
{
	int64	   *total = palloc(sizeof(int64) * world->nkeys);

	for (int k = 0; k < world->nkeys; k++)
		if (pg_mul_s64_overflow(lane->request[k], (int64) lane->replicas, &total[k]))
			total[k] = PG_INT64_MAX;
	return total;
}

/*
 * The bound of a key, RPQ_UNLIMITED for none.  What a pool's total does not name, the pool does not have.
 */
int64
limit_bound(const UsageLimit *limit, int key)
{
	if (limit->kind == LIMIT_POOL && limit->max[key] == RPQ_UNLIMITED)
		return 0;
	return limit->max[key];
}

/*
 * Whether a limit is about what is placed in a pool on an instance type (RPQ_WHOLE_POOL: whether it is about the pool
 * as a whole).
 */
bool
limit_binds(const UsageLimit *limit, int pool, int type)
{
	return (limit->pool < 0 || limit->pool == pool) && limit->type == type;
}

bool
limit_passes_key(const UsageLimit *limit, const int64 *total, int key)
{
	int64		bound = limit_bound(limit, key);
	int64		then;

	if (total[key] <= 0 || bound == RPQ_UNLIMITED)
		return true;
	return !pg_add_s64_overflow(limit->used[key], total[key], &then) && then <= bound;
}

bool
limit_passes(const World *world, const UsageLimit *limit, const int64 *total)
{
	for (int k = 0; k < world->nkeys; k++)
		if (!limit_passes_key(limit, total, k))
			return false;
	return true;
}

/*
 * What is left of a limit, zero where usage is beyond it, RPQ_UNLIMITED in the keys that it does not bound.
 */
int64 *
limit_available(const World *world, const UsageLimit *limit)
{
	int64	   *available = palloc(sizeof(int64) * world->nkeys);

	for (int k = 0; k < world->nkeys; k++)
	{
		available[k] = limit_bound(limit, k);
		if (available[k] != RPQ_UNLIMITED)
			available[k] = limit->used[k] >= available[k] ? 0 : available[k] - limit->used[k];
	}
	return available;
}

/*
 * By how much a limit would have to be larger to let a workload pass; zero in the keys that do not stand in its way.
 */
int64 *
limit_missing(const World *world, const UsageLimit *limit, const int64 *total)
{
	int64	   *missing = palloc0(sizeof(int64) * world->nkeys);

	for (int k = 0; k < world->nkeys; k++)
		if (!limit_passes_key(limit, total, k) &&
			(pg_sub_s64_overflow(limit->used[k], limit_bound(limit, k), &missing[k]) ||
			 pg_add_s64_overflow(missing[k], total[k], &missing[k])))
			missing[k] = PG_INT64_MAX;
	return missing;
}

/*
 * Adds an admission to the usage under a limit.  The amounts were admitted, so they are on nodes and cannot overflow.
 */
void
limit_charge(const World *world, UsageLimit *limit, const int64 *total)
{
	for (int k = 0; k < world->nkeys; k++)
		limit->used[k] += total[k];
}

/*
 * The first limit of a workload's own that holds it up in a pool, on a type or (RPQ_WHOLE_POOL) in the pool as a
 * whole: personal quotas before policy limits.  NULL when all of them pass.
 */
const UsageLimit *
first_limit_in_way(const World *world, const Candidate *candidate, int pool, int type)
{
	const Lane *lane = candidate->lane;
	const UsageLimit *found = NULL;

	for (int i = 0; i < lane->nlimits; i++)
	{
		const UsageLimit *limit = lane->limits[i];

		if (limit_binds(limit, pool, type) && (found == NULL || limit->kind < found->kind) &&
			!limit_passes(world, limit, candidate->total))
			found = limit;
	}
	return found;
}

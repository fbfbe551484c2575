/*
 * admission_check.c
 *
 * The checks at submission: what could never be admitted is refused at once, in the contract's order.  Through a queue
 * the policy is the authorisation: members and personal quotas of its pools are not asked, and a pool stands against a
 * workload only if no other of the queue's pools could take it.  Those who submit to a queue may not know its pools, so
 * no refusal names one.
 *
 * Looks at what scope_facts.c has read; reads and writes no table itself.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "api/admission_check.h"
#include "api/api.h"
#include "errors.h"

/* ---------------------------------------------------------------- one pool */

static bool
pool_supports(const PoolPart *pool, const char *workload_type)
{
	for (int i = 0; i < pool->nworkload_types; i++)
	{
		if (strcmp(pool->workload_types[i], workload_type) == 0)
			return true;
	}
	return pool->nworkload_types < 0;
}

static bool
pool_is_coming_or_going(const PoolPart *pool)
{
	return strcmp(pool->status, "creating") == 0 || strcmp(pool->status, "deleting") == 0;
}

/* The settings of the pool admit it, whatever its nodes hold. */
static bool
pool_allows(const PoolPart *pool, const Request *request)
{
	return pool_supports(pool, request->workload_type) && (!request->guarantee || pool->allow_guarantee);
}

static void
check_amounts(const Resources *resources, int replicas)
{
	bool		found;
	int64		gpu = resources_get(resources, "gpu", 3, &found);

	if (resources_nkeys(resources) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("resources must ask for something")));
	for (int i = 0; i < resources_nkeys(resources); i++)
	{
		if (resources_amount(resources, i) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("every amount of resources must be positive"),
					 errdetail("It is \"%s\".", resources_text(resources))));
	}
	if (found && gpu > RPQ_UNIT && gpu % RPQ_UNIT != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("gpu must be a whole number of devices or a part of one"),
				 errdetail("It is \"%s\".", resources_text(resources))));
	if (replicas < 1 || replicas > 100000)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("replicas must be between 1 and 100000"), errdetail("It is %d.", replicas)));
	/* of a draft too, or whoever may see it could not read the total */
	(void) resources_mul_int(resources, replicas);
}

static bool
type_allowed(const Request *request, int64 type_id)
{
	if (request->ninstance_types < 0)
		return true;
	for (int i = 0; i < request->ninstance_types; i++)
	{
		if (request->instance_types[i] == type_id)
			return true;
	}
	return false;
}

/* What the pool holds of one instance type, and whether one replica fits any of its sizes. */
static Resources *
held_of_type(const PoolPart *pool, int64 type_id, const Resources *replica, bool *one)
{
	Resources  *held = resources_empty();

	*one = false;
	for (int j = 0; j < pool->nsizes; j++)
	{
		if (pool->sizes[j].type_id != type_id)
			continue;
		*one = *one || resources_fits(replica, pool->sizes[j].capacity);
		held = resources_add(held, resources_mul_int(pool->sizes[j].capacity, pool->sizes[j].nodes));
	}
	return held;
}

/* Is this key's bound large enough for the request, key by key? */
static bool
quota_holds(const ScopeFacts *facts, int64 type_id, const Resources *total)
{
	for (int i = 0; i < facts->nquotas; i++)
	{
		if (facts->quotas[i].type_id == type_id && !resources_within(total, facts->quotas[i].quota))
			return false;
	}
	return true;
}

static const Resources *
quota_of(const ScopeFacts *facts, int64 type_id)
{
	for (int i = 0; i < facts->nquotas; i++)
	{
		if (facts->quotas[i].type_id == type_id)
			return facts->quotas[i].quota;
	}
	return resources_empty();
}

/* How far the request comes in the pools that were looked at, on the instance type on which it comes furthest. */
typedef struct Fit
{
	Resources  *largest;		/* the most held of a type on which one replica fits; NULL: on none */
	bool		total;			/* the whole fits what a pool holds of one type */
	bool		quota;			/* and the personal quota */
	int64		bound_by;		/* instance type whose quota is too small; 0: that of the pool as a whole */
} Fit;

static void
fit_pool(const ScopeFacts *facts, const PoolPart *pool, const Request *request, const Resources *total, Fit *fit)
{
	for (int i = 0; i < pool->nsizes && !fit->quota; i++)
	{
		int64		type_id = pool->sizes[i].type_id;
		bool		one;
		Resources  *held = held_of_type(pool, type_id, request->resources, &one);

		if (!type_allowed(request, type_id) || !one)
			continue;
		if (fit->largest == NULL || resources_fits(fit->largest, held))
			fit->largest = held;
		if (!resources_fits(total, held))
			continue;
		fit->total = true;
		if (!quota_holds(facts, 0, total))
			continue;
		fit->quota = quota_holds(facts, type_id, total);
		fit->bound_by = fit->quota ? 0 : type_id;
	}
}

static bool
replicas_in_range(int replicas)
{
	return replicas >= 1 && replicas <= 100000;
}

/* Nothing but its being closed for now stands against the pool. */
static bool
pool_could_take(const ScopeFacts *facts, const PoolPart *pool, const Request *request)
{
	Fit			fit = {0};

	if (!pool_allows(pool, request))
		return false;
	if (replicas_in_range(request->replicas))
		fit_pool(facts, pool, request, resources_mul_int(request->resources, request->replicas), &fit);
	return fit.total;
}

/* ---------------------------------------------------------------- rights and settings */

static void
check_authorized(const ScopeFacts *facts)
{
	if (facts->authorized)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_AUTH_CHECK),
			 errmsg("resource auth check failed, the account is not authorised in %s %s",
					facts->is_queue ? "queue" : "resource pool", facts->name),
			 errdetail("not_authorized"),
			 facts->is_queue ? errhint("An administrator of the tenant can call rpq.add_to_group().") :
			 errhint("An administrator of the pool can call rpq.authorize().")));
}

static void
refuse_frozen(const ScopeFacts *facts)
{
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_AUTH_CHECK),
			 facts->is_queue ?
			 errmsg("resource auth check failed, every resource pool of queue %s that could take it is frozen",
					facts->name) :
			 errmsg("resource auth check failed, resource pool %s is frozen", facts->name),
			 errdetail("pool_frozen"),
			 errhint("An administrator of the pool can unfreeze it with rpq.edit_pool().")));
}

static void
refuse_status(const ScopeFacts *facts, const PoolPart *pool)
{
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_STATUS),
			 errmsg("%s \"%s\" takes no workloads now", facts->is_queue ? "queue" : "pool", facts->name),
			 facts->is_queue ? errdetail("Every pool of it that could take it is being created or deleted.") :
			 errdetail("Its status is %s.", pool->status)));
}

/*
 * Closed is what has no open pool among those that could take the request; when none could, among all, so that what is
 * said first is what the contract names first.
 */
static void
check_closed(const ScopeFacts *facts, const Request *request)
{
	const PoolPart *frozen = NULL;
	const PoolPart *closed = NULL;
	bool		some = false;

	for (int i = 0; i < facts->npools; i++)
	{
		if (facts->pools[i]->frozen)
			frozen = facts->pools[i];
		else if (pool_is_coming_or_going(facts->pools[i]))
			closed = facts->pools[i];
	}
	if (frozen == NULL && closed == NULL)
		return;
	for (int i = 0; i < facts->npools && facts->npools > 1; i++)
		some = some || pool_could_take(facts, facts->pools[i], request);
	frozen = closed = NULL;
	for (int i = 0; i < facts->npools; i++)
	{
		const PoolPart *pool = facts->pools[i];

		if (some && !pool_could_take(facts, pool, request))
			continue;
		if (pool->frozen)
			frozen = pool;
		else if (pool_is_coming_or_going(pool))
			closed = pool;
		else
			return;
	}
	if (frozen != NULL)
		refuse_frozen(facts);
	refuse_status(facts, closed);
}

static void
check_workload_type(const ScopeFacts *facts, const Request *request)
{
	for (int i = 0; i < facts->npools; i++)
	{
		if (pool_supports(facts->pools[i], request->workload_type))
			return;
	}
	if (facts->npools == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_AUTH_CHECK),
			 errmsg("resource auth check failed, workload type %s is not allowed to use %s %s",
					request->workload_type, facts->is_queue ? "any resource pool of queue" : "resource pool",
					facts->name),
			 errdetail("workload_type")));
}

/* In a queue the right is the policy's reservation, which is looked at with the amounts. */
static void
check_guarantee(const ScopeFacts *facts, const Request *request)
{
	bool		allowed = facts->npools == 0;

	if (!request->guarantee)
		return;
	for (int i = 0; i < facts->npools; i++)
		allowed = allowed || pool_allows(facts->pools[i], request);
	if (allowed && (facts->is_queue || facts->may_guarantee))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_AUTH_CHECK),
			 errmsg("resource auth check failed, guaranteed workloads are not allowed in %s %s",
					facts->is_queue ? "any resource pool of queue" : "resource pool", facts->name),
			 errdetail("guarantee: %s", allowed ? "the account lacks the right" :
					   facts->is_queue ? "no pool that supports its workload type allows it" :
					   "the pool does not allow it")));
}

void
check_priority_range(int priority)
{
	if (priority < 0 || priority > 100)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("priority must be between 0 and 100"), errdetail("It is %d.", priority)));
}

void
check_priority(const ScopeFacts *facts, int priority)
{
	check_priority_range(priority);
	if (priority > facts->max_priority)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_AUTH_CHECK),
				 errmsg("resource auth check failed, priority %d is above the maximum in %s %s",
						priority, facts->is_queue ? "queue" : "resource pool", facts->name),
				 errdetail("priority: the account's maximum is %d", facts->max_priority)));
}

/* Without a priority the request gets the lesser of the default and the account's maximum. */
static void
set_priority(const ScopeFacts *facts, Request *request, bool draft)
{
	if (!request->has_priority)
		request->priority = Min(facts->default_priority, facts->max_priority);
	else if (draft)
		check_priority_range(request->priority);
	else
		check_priority(facts, request->priority);
}

/* ---------------------------------------------------------------- amounts */

/* The sizes of nodes of the pools, each instance type and size once. */
static char *
sizes_text(const ScopeFacts *facts)
{
	StringInfoData sizes;

	initStringInfo(&sizes);
	for (int p = 0; p < facts->npools; p++)
	{
		for (int i = 0; i < facts->pools[p]->nsizes; i++)
		{
			const PoolSize *size = &facts->pools[p]->sizes[i];
			char	   *text = psprintf("%s (%s)", size->type_name, resources_text(size->capacity));

			if (strstr(sizes.data, text) == NULL)
				appendStringInfo(&sizes, "%s%s", sizes.len == 0 ? "" : "; ", text);
		}
	}
	return sizes.data;
}

static void
refuse_node(const ScopeFacts *facts, const Request *request)
{
	char	   *sizes = sizes_text(facts);
	char	   *replica = resources_text(request->resources);

	if (facts->is_queue)
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_NO_NODE),
				 errmsg("no node of any pool of queue \"%s\" could ever hold one replica", facts->name),
				 sizes[0] == '\0' ? errdetail("One replica asks for %s; the pools of its profile have no nodes.",
											  replica) :
				 errdetail("One replica asks for %s; the nodes of its profile's pools hold %s.", replica, sizes),
				 errhint("An administrator of the tenant can link the profile to other pools with"
						 " rpq.edit_profile(), and provision it.")));
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_NO_NODE),
			 errmsg("no node of pool \"%s\" could ever hold one replica", facts->name),
			 sizes[0] == '\0' ? errdetail("One replica asks for %s; the pool has no nodes.", replica) :
			 errdetail("One replica asks for %s; the pool's nodes hold %s.", replica, sizes)));
}

static void
refuse_total(const ScopeFacts *facts, const Resources *total, const Resources *largest)
{
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_QUOTA),
			 facts->is_queue ?
			 errmsg("the request is larger than what any pool of queue \"%s\" holds", facts->name) :
			 errmsg("the request is larger than what pool \"%s\" holds", facts->name),
			 errdetail("It asks for %s; %s holds %s of one instance type.", resources_text(total),
					   facts->is_queue ? "the largest" : "the pool", resources_text(largest)),
			 facts->is_queue ? errhint("Ask for fewer replicas, or for a queue of a smaller profile.") : 0));
}

static void
refuse_quota(const ScopeFacts *facts, const Resources *total, int64 bound_by)
{
	ereport(ERROR,
			(errcode(ERRCODE_RPQ_QUOTA),
			 errmsg("the request is larger than the personal quota in pool \"%s\"", facts->name),
			 errdetail("It asks for %s; the quota%s is %s.", resources_text(total),
					   bound_by == 0 ? "" : " for its instance type", resources_text(quota_of(facts, bound_by))),
			 errhint("An administrator of the pool can raise it with rpq.update_members().")));
}

/* What the policy allows at most; and, of what is never preempted, what it may hold by right. */
static void
check_policy(const ScopeFacts *facts, const Request *request, const Resources *total)
{
	if (facts->usage_limit != NULL && !resources_within(total, facts->usage_limit))
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_QUOTA),
				 errmsg("the request is larger than the limit of policy \"%s\"", facts->policy),
				 errdetail("It asks for %s; the limit is %s.", resources_text(total),
						   resources_text(facts->usage_limit)),
				 errhint("An administrator of the tenant can raise it with rpq.edit_policy().")));
	if (request->guarantee && !resources_fits(total, facts->reservation))
		ereport(ERROR,
				(errcode(ERRCODE_RPQ_QUOTA),
				 errmsg("the guaranteed request is larger than the reservation of policy \"%s\"", facts->policy),
				 errdetail("It asks for %s; the reservation is \"%s\".", resources_text(total),
						   resources_text(facts->reservation)),
				 errhint("Submit it without guarantee, or have an administrator of the tenant raise the reservation"
						 " with rpq.edit_policy().")));
}

/*
 * The whole must fit what a pool holds, on one instance type on which one replica fits and whose personal quota is
 * large enough.  The error names the bound that stood in the way of the type that came furthest.
 */
static void
check_bounds(const ScopeFacts *facts, const Request *request)
{
	Resources  *total = resources_mul_int(request->resources, request->replicas);
	Fit			fit = {0};

	for (int i = 0; i < facts->npools && !fit.quota; i++)
	{
		if (pool_allows(facts->pools[i], request))
			fit_pool(facts, facts->pools[i], request, total, &fit);
	}
	if (fit.largest == NULL)
		refuse_node(facts, request);
	if (!fit.total)
		refuse_total(facts, total, fit.largest);
	if (!fit.quota)
		refuse_quota(facts, total, fit.bound_by);
	if (facts->is_queue)
		check_policy(facts, request, total);
}

void
check_request(const ScopeFacts *facts, Request *request, bool draft)
{
	check_authorized(facts);
	if (!draft)
	{
		check_closed(facts, request);
		check_workload_type(facts, request);
		check_guarantee(facts, request);
	}
	set_priority(facts, request, draft);
	check_amounts(request->resources, request->replicas);
	if (!draft)
		check_bounds(facts, request);
}

/*
 * oracle.h
 *
 * The plan by the slowest and most obvious way: all members of all lanes are looked through for the next one, all
 * nodes are looked through for each replica, and a gang is placed on the nodes themselves and taken back when it does
 * not fit.
 */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include "worlds.h"

typedef struct OracleLane
{
	int			next;
	bool		blocked;
	ReasonCode	code;
	int			fitting;
} OracleLane;

typedef struct Oracle
{
	World	   *world;
	OracleLane *lanes;
	int			nadmissions;
	Admission  *admissions;
	bool		more;
} Oracle;

static bool
oracle_fits(const World *world, const Lane *lane, const PoolNode *node)
{
	int64		gpu = lane->request[0];
	int			enough = 0;

	if (!node->takes_work)
		return false;
	if (world->pools[node->pool].isolate && node->account != 0 && node->account != lane->account_id)
		return false;
	for (int k = 1; k < NKEYS; k++)
		if (lane->request[k] > 0 && node->free[k] < lane->request[k])
			return false;
	for (int d = 0; d < node->ndevices; d++)
		enough += node->device_free[d] >= Min(gpu, RPQ_UNIT);
	if (gpu > RPQ_UNIT && gpu % RPQ_UNIT != 0)
		return false;
	return enough >= (gpu == 0 ? 0 : gpu < RPQ_UNIT ? 1 : gpu / RPQ_UNIT);
}

/* Whether the policy prefers node a */
static bool
oracle_prefers(const World *world, int a, int b, SchedulingPolicy policy)
{
	const PoolNode *x = &world->nodes[a];
	const PoolNode *y = &world->nodes[b];
	int			sign = policy == POLICY_BINPACK ? 1 : -1;

	if (x->free[0] != y->free[0])
		return sign * x->free[0] < sign * y->free[0];
	if (x->free[1] != y->free[1])
		return sign * x->free[1] < sign * y->free[1];
	return a < b;
}

static int
oracle_node(const World *world, const Lane *lane, int pool, PoolType type)
{
	int			best = -1;

	for (int n = 0; n < world->nnodes; n++)
		if (world->nodes[n].pool == pool && world->nodes[n].type == type.type && oracle_fits(world, lane, &world->nodes[n]) &&
			(best < 0 || oracle_prefers(world, n, best, type.policy)))
			best = n;
	return best;
}

static void
oracle_take(World *world, const Lane *lane, int n, PodPlace *pod)
{
	PoolNode   *node = &world->nodes[n];
	int64		gpu = lane->request[0];

	if (world->pools[node->pool].isolate)
		node->account = lane->account_id;
	pod->node = n;
	pod->ndevices = 0;
	pod->devices = palloc(sizeof(int) * (node->ndevices + 1));
	for (int k = 0; k < NKEYS; k++)
		node->free[k] -= lane->request[k];
	if (gpu > 0 && gpu < RPQ_UNIT)
	{
		int			best = -1;

		for (int d = 0; d < node->ndevices; d++)
			if (node->device_free[d] >= gpu && (best < 0 || node->device_free[d] < node->device_free[best]))
				best = d;
		node->device_free[best] -= gpu;
		pod->devices[pod->ndevices++] = best;
		return;
	}
	for (int d = 0; d < node->ndevices && pod->ndevices < gpu / RPQ_UNIT; d++)
		if (node->device_free[d] == RPQ_UNIT)
		{
			node->device_free[d] = 0;
			pod->devices[pod->ndevices++] = d;
		}
}

static void
oracle_give(World *world, const Lane *lane, const PodPlace *pod)
{
	PoolNode   *node = &world->nodes[pod->node];

	for (int k = 0; k < NKEYS; k++)
		node->free[k] += lane->request[k];
	for (int i = 0; i < pod->ndevices; i++)
		node->device_free[pod->devices[i]] += Min(lane->request[0], RPQ_UNIT);
}

/* All replicas on one type, or nothing; returns how many fitted. */
static int
oracle_gang(World *world, const Lane *lane, int pool, PoolType type, PodPlace *pods)
{
	int			n = 0;
	int64	   *accounts = palloc(sizeof(int64) * (world->nnodes + 1));

	for (int i = 0; i < world->nnodes; i++)
		accounts[i] = world->nodes[i].account;
	while (n < lane->replicas)
	{
		int			node = oracle_node(world, lane, pool, type);

		if (node < 0)
			break;
		oracle_take(world, lane, node, &pods[n++]);
	}
	for (int i = 0; n < lane->replicas && i < n; i++)
		oracle_give(world, lane, &pods[i]);
	for (int i = 0; n < lane->replicas && i < world->nnodes; i++)
		world->nodes[i].account = accounts[i];
	return n;
}

static bool
oracle_within(const UsageLimit *limit, const Lane *lane)
{
	for (int k = 0; k < NKEYS; k++)
		if (lane->request[k] > 0 && limit->max[k] != RPQ_UNLIMITED &&
			(__int128) limit->used[k] + (__int128) lane->request[k] * lane->replicas > limit->max[k])
			return false;
	return true;
}

static ReasonCode
oracle_limits(const Lane *lane, int pool, int type)
{
	ReasonCode	code = REASON_NONE;

	for (int i = 0; i < lane->nlimits; i++)
	{
		const UsageLimit *limit = lane->limits[i];
		ReasonCode	its = limit->kind == LIMIT_USER ? REASON_USER_QUOTA : REASON_POLICY_LIMIT;

		if ((limit->pool == -1 || limit->pool == pool) && limit->type == type && !oracle_within(limit, lane) &&
			(code == REASON_NONE || its < code))
			code = its;
	}
	return code;
}

/* Tries one pool; REASON_NONE: admission filled in. */
static ReasonCode
oracle_pool(World *world, const Lane *lane, int p, Admission *admission, int *fitting)
{
	const Pool *pool = &world->pools[p];
	ReasonCode	code;
	ReasonCode	of_type = REASON_NONE;
	bool		tried[MAX_TYPES] = {false};
	int			ntypes = 0;

	*fitting = 0;
	if (pool->closed != REASON_NONE)
		return pool->closed;
	code = oracle_limits(lane, p, RPQ_WHOLE_POOL);
	if (code != REASON_NONE)
		return code;
	for (int t = 0; t < pool->ntypes; t++)
	{
		int			type = pool->types[t].type;

		code = oracle_limits(lane, p, type);
		tried[t] = (lane->type_allowed != NULL && !lane->type_allowed[type]) || code != REASON_NONE;
		ntypes += !tried[t];
		if (of_type == REASON_NONE && (lane->type_allowed == NULL || lane->type_allowed[type]))
			of_type = code;
	}
	if (ntypes == 0 && of_type != REASON_NONE)
		return of_type;
	if (!oracle_within(pool->total, lane))
		return REASON_POOL_QUOTA;
	for (;;)
	{
		int			best = -1;
		int			best_node = -1;
		int			n;

		for (int t = 0; t < pool->ntypes; t++)
		{
			int			node = tried[t] ? -1 : oracle_node(world, lane, p, pool->types[t]);

			if (node >= 0 && (best < 0 || oracle_prefers(world, node, best_node, pool->types[t].policy)))
			{
				best = t;
				best_node = node;
			}
		}
		if (best < 0)
			return *fitting > 0 ? REASON_GANG_DOES_NOT_FIT : REASON_NO_NODE_FITS;
		n = oracle_gang(world, lane, p, pool->types[best], admission->pods);
		if (n == lane->replicas)
		{
			admission->pool = p;
			admission->type = pool->types[best].type;
			return REASON_NONE;
		}
		*fitting = Max(*fitting, n);
		tried[best] = true;
	}
}

static void
oracle_charge(const Lane *lane, UsageLimit *limit)
{
	for (int k = 0; k < NKEYS; k++)
		limit->used[k] += lane->request[k] * lane->replicas;
}

static bool
oracle_admit(World *world, Lane *lane, Admission *admission, OracleLane *state)
{
	admission->lane = lane;
	admission->npods = lane->replicas;
	admission->pods = palloc(sizeof(PodPlace) * lane->replicas);
	state->code = lane->own;
	for (int i = 0; i < lane->npools && lane->own == REASON_NONE; i++)
	{
		int			fitting;
		ReasonCode	code = oracle_pool(world, lane, lane->pools[i], admission, &fitting);

		if (i == 0)
		{
			state->code = code;
			state->fitting = fitting;
		}
		if (code != REASON_NONE)
			continue;
		for (int l = 0; l < lane->nlimits; l++)
			if ((lane->limits[l]->pool == -1 || lane->limits[l]->pool == admission->pool) &&
				(lane->limits[l]->type == RPQ_WHOLE_POOL || lane->limits[l]->type == admission->type))
				oracle_charge(lane, lane->limits[l]);
		oracle_charge(lane, world->pools[admission->pool].total);
		return true;
	}
	if (lane->npools == 1 && lane->own != REASON_NONE && world->pools[lane->pools[0]].closed != REASON_NONE)
		state->code = Min(state->code, world->pools[lane->pools[0]].closed);
	return false;
}

/* The lane whose next member comes first; -1 when there is none. */
static int
oracle_next(const Oracle *oracle)
{
	int			best = -1;
	const Member *first = NULL;

	for (int l = 0; l < oracle->world->nlanes; l++)
	{
		const Lane *lane = &oracle->world->lanes[l];
		const Waiting *waiting = lane->store;
		const Member *m = &waiting->members[oracle->lanes[l].next];

		if (lane->skip || oracle->lanes[l].blocked || oracle->lanes[l].next >= waiting->n)
			continue;
		if (best < 0 || lane->priority > oracle->world->lanes[best].priority ||
			(lane->priority == oracle->world->lanes[best].priority &&
			 member_after(first, m->submitted_at, m->workload_id)))
		{
			best = l;
			first = m;
		}
	}
	return best;
}

static inline Oracle *
oracle_plan(World *world)
{
	Oracle	   *oracle = palloc0(sizeof(Oracle));
	int64		members = 0;
	int			l;

	oracle->world = world;
	oracle->lanes = palloc0(sizeof(OracleLane) * (world->nlanes + 1));
	for (int i = 0; i < world->nlanes; i++)
		members += world->lanes[i].waiting;
	oracle->admissions = palloc0(sizeof(Admission) * (members + 1));
	while ((l = oracle_next(oracle)) >= 0)
	{
		Admission  *admission = &oracle->admissions[oracle->nadmissions];
		OracleLane *lane = &oracle->lanes[l];

		if (!oracle_admit(world, &world->lanes[l], admission, lane))
		{
			lane->blocked = true;
			continue;
		}
		if (oracle->nadmissions == world->batch)
		{
			oracle->more = true;
			break;
		}
		admission->member = ((Waiting *) world->lanes[l].store)->members[lane->next++];
		oracle->nadmissions++;
	}
	return oracle;
}

#endif							/* TEST_ORACLE_H */

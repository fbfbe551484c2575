/*
 * flow.c
 *
 * An exact maximum flow from policies to pools, by Dinic's method on the two sides alone: a policy can give to each
 * pool that it reaches without bound, so only the ends are bounded.  All is in integers; nothing depends on chance.
 *
 * Levels go policy, pool, policy, pool: from policies whose demand is not carried yet to any pool that they reach, from
 * a pool back to a policy that it serves, until a pool has something left.  So a path is at most twice as long as there
 * are pools.
 */
#include "postgres.h"

#include "common/int.h"

#include "core/flow.h"

#define NO_LEVEL	(-1)

struct Flow
{
	int			npolicies;
	int			npools;
	int			nedges;
	int		   *first_edge;		/* [npolicies + 1]: edges of policy p are first_edge[p] … first_edge[p + 1] - 1 */
	int		   *edge_policy;	/* [nedges] */
	int		   *edge_pool;		/* [nedges] */
	int64	   *carried;		/* [nedges] */
	int		   *first_back;		/* [npools + 1]: places in back */
	int		   *back;			/* [nedges]: the edges by pool */
	int64	   *demand;			/* [npolicies] */
	int64	   *supply;			/* [npools] */
	int64		total;			/* all that is carried */
	int64	   *wanting;		/* [npolicies]: what is not carried yet; below zero what is carried too much */
	int64	   *left;			/* [npools]: what is not taken yet; below zero what is taken too much */
	int		   *level;			/* [npolicies + npools]: policies, then pools */
	int		   *queue;			/* [npolicies + npools] */
	int		   *next;			/* [npolicies + npools]: where a path goes on to look */
};

Flow *
flow_create(int npolicies, int npools, const bool *reach)
{
	Flow	   *flow = palloc0(sizeof(Flow));
	int			nedges = 0;
	int			both = npolicies + npools + 1;

	for (Size i = 0; i < (Size) npolicies * npools; i++)
		nedges += reach[i];
	flow->npolicies = npolicies;
	flow->npools = npools;
	flow->nedges = nedges;
	flow->first_edge = palloc0(sizeof(int) * (npolicies + 1));
	flow->edge_policy = palloc(sizeof(int) * (nedges + 1));
	flow->edge_pool = palloc(sizeof(int) * (nedges + 1));
	flow->carried = palloc0(sizeof(int64) * (nedges + 1));
	flow->first_back = palloc0(sizeof(int) * (npools + 1));
	flow->back = palloc(sizeof(int) * (nedges + 1));
	flow->demand = palloc0(sizeof(int64) * (npolicies + 1));
	flow->supply = palloc0(sizeof(int64) * (npools + 1));
	flow->wanting = palloc0(sizeof(int64) * (npolicies + 1));
	flow->left = palloc0(sizeof(int64) * (npools + 1));
	flow->level = palloc(sizeof(int) * both);
	flow->queue = palloc(sizeof(int) * both);
	flow->next = palloc(sizeof(int) * both);

	nedges = 0;
	for (int p = 0; p < npolicies; p++)
	{
		for (int m = 0; m < npools; m++)
			if (reach[(Size) p * npools + m])
			{
				flow->edge_policy[nedges] = p;
				flow->edge_pool[nedges++] = m;
			}
		flow->first_edge[p + 1] = nedges;
	}
	for (int e = 0; e < nedges; e++)
		flow->first_back[flow->edge_pool[e] + 1]++;
	for (int m = 0; m < npools; m++)
	{
		flow->first_back[m + 1] += flow->first_back[m];
		flow->queue[m] = flow->first_back[m];
	}
	for (int e = 0; e < nedges; e++)
		flow->back[flow->queue[flow->edge_pool[e]]++] = e;
	return flow;
}

static void
visit(Flow *flow, int end, int level, int *nqueue)
{
	if (flow->level[end] != NO_LEVEL)
		return;
	flow->level[end] = level;
	flow->queue[(*nqueue)++] = end;
}

/*
 * Levels of all that what is wanting still reaches.  True when some pool among it has something left.
 */
static bool
find_levels(Flow *flow)
{
	int			nqueue = 0;
	bool		found = false;

	for (int i = 0; i < flow->npolicies + flow->npools; i++)
		flow->level[i] = NO_LEVEL;
	for (int p = 0; p < flow->npolicies; p++)
		if (flow->wanting[p] > 0)
			visit(flow, p, 0, &nqueue);
	for (int i = 0; i < nqueue; i++)
	{
		int			end = flow->queue[i];
		int			level = flow->level[end] + 1;

		if (end < flow->npolicies)
			for (int e = flow->first_edge[end]; e < flow->first_edge[end + 1]; e++)
				visit(flow, flow->npolicies + flow->edge_pool[e], level, &nqueue);
		else
		{
			int			m = end - flow->npolicies;

			found |= flow->left[m] > 0;
			for (int b = flow->first_back[m]; b < flow->first_back[m + 1]; b++)
				if (flow->carried[flow->back[b]] > 0)
					visit(flow, flow->edge_policy[flow->back[b]], level, &nqueue);
		}
	}
	return found;
}

static int64 push_from_pool(Flow *flow, int pool, int64 amount);

/* Carries up to an amount from a policy on, one level at a time; returns how much. */
static int64
push_from_policy(Flow *flow, int policy, int64 amount)
{
	int		   *next = &flow->next[policy];

	for (; *next < flow->first_edge[policy + 1]; (*next)++)
	{
		int			m = flow->edge_pool[*next];
		int64		done;

		if (flow->level[flow->npolicies + m] != flow->level[policy] + 1)
			continue;
		done = push_from_pool(flow, m, amount);
		if (done > 0)
		{
			flow->carried[*next] += done;
			return done;
		}
	}
	return 0;
}

/* The same from a pool on: what it has left, else what it can give back to somebody who gets it elsewhere. */
static int64
push_from_pool(Flow *flow, int pool, int64 amount)
{
	int			end = flow->npolicies + pool;
	int		   *next = &flow->next[end];

	if (flow->left[pool] > 0)
	{
		amount = Min(amount, flow->left[pool]);
		flow->left[pool] -= amount;
		return amount;
	}
	for (; *next < flow->first_back[pool + 1]; (*next)++)
	{
		int			e = flow->back[*next];
		int64		done;

		if (flow->carried[e] == 0 || flow->level[flow->edge_policy[e]] != flow->level[end] + 1)
			continue;
		done = push_from_policy(flow, flow->edge_policy[e], Min(amount, flow->carried[e]));
		if (done > 0)
		{
			flow->carried[e] -= done;
			return done;
		}
	}
	return 0;
}

/* An edge carries less; both its ends have it back. */
static void
take_back(Flow *flow, int edge, int64 amount)
{
	flow->carried[edge] -= amount;
	flow->wanting[flow->edge_policy[edge]] += amount;
	flow->left[flow->edge_pool[edge]] += amount;
	flow->total -= amount;
}

/*
 * What a policy is given too much: rather of what pools give too much, then of any.
 */
static void
settle_policy(Flow *flow, int policy)
{
	for (int any = 0; any <= 1 && flow->wanting[policy] < 0; any++)
		for (int e = flow->first_edge[policy]; e < flow->first_edge[policy + 1] && flow->wanting[policy] < 0; e++)
		{
			int64		amount = Min(flow->carried[e], -flow->wanting[policy]);

			if (!any)
				amount = Min(amount, Max(0, -flow->left[flow->edge_pool[e]]));
			if (amount > 0)
				take_back(flow, e, amount);
		}
}

static void
settle_pool(Flow *flow, int pool)
{
	for (int b = flow->first_back[pool]; b < flow->first_back[pool + 1] && flow->left[pool] < 0; b++)
	{
		int64		amount = Min(flow->carried[flow->back[b]], -flow->left[pool]);

		if (amount > 0)
			take_back(flow, flow->back[b], amount);
	}
}

int64
flow_max(Flow *flow, const int64 *demand, const int64 *supply)
{
	memset(flow->carried, 0, sizeof(int64) * flow->nedges);
	memset(flow->demand, 0, sizeof(int64) * flow->npolicies);
	memset(flow->wanting, 0, sizeof(int64) * flow->npolicies);
	memset(flow->supply, 0, sizeof(int64) * flow->npools);
	memset(flow->left, 0, sizeof(int64) * flow->npools);
	flow->total = 0;
	return flow_again(flow, demand, supply);
}

int64
flow_again(Flow *flow, const int64 *demand, const int64 *supply)
{
	for (int m = 0; m < flow->npools; m++)
	{
		flow->left[m] += Max(supply[m], 0) - flow->supply[m];
		flow->supply[m] = Max(supply[m], 0);
	}
	for (int p = 0; p < flow->npolicies; p++)
	{
		flow->wanting[p] += Max(demand[p], 0) - flow->demand[p];
		flow->demand[p] = Max(demand[p], 0);
		if (flow->wanting[p] < 0)
			settle_policy(flow, p);
	}
	for (int m = 0; m < flow->npools; m++)
		if (flow->left[m] < 0)
			settle_pool(flow, m);
	while (find_levels(flow))
	{
		memcpy(flow->next, flow->first_edge, sizeof(int) * flow->npolicies);
		memcpy(flow->next + flow->npolicies, flow->first_back, sizeof(int) * flow->npools);
		for (int p = 0; p < flow->npolicies; p++)
			while (flow->wanting[p] > 0)
			{
				int64		done = push_from_policy(flow, p, flow->wanting[p]);

				if (done == 0)
					break;
				flow->wanting[p] -= done;
				flow->total += done;
			}
	}
	return flow->total;
}

int64
flow_carried(const Flow *flow, int policy, int pool)
{
	for (int e = flow->first_edge[policy]; e < flow->first_edge[policy + 1]; e++)
		if (flow->edge_pool[e] == pool)
			return flow->carried[e];
	return 0;
}

static int64
add_up(int64 sum, int64 amount)
{
	return pg_add_s64_overflow(sum, amount, &sum) ? PG_INT64_MAX : sum;
}

/*
 * The levels of the last search are those of the minimum cut next to the policies: what is wanting reaches no pool with
 * anything left, so whoever has a level gets all that the pools with one have.
 */
bool
flow_short(const Flow *flow, bool *is_short, int64 *wanted, int64 *reachable)
{
	bool		any = false;

	*wanted = *reachable = 0;
	for (int p = 0; p < flow->npolicies; p++)
	{
		is_short[p] = flow->level[p] != NO_LEVEL;
		any |= is_short[p];
		if (is_short[p])
			*wanted = add_up(*wanted, flow->demand[p]);
	}
	for (int m = 0; m < flow->npools; m++)
		if (flow->level[flow->npolicies + m] != NO_LEVEL)
			*reachable = add_up(*reachable, flow->supply[m]);
	return any;
}

void
flow_free(Flow *flow)
{
	pfree(flow->first_edge);
	pfree(flow->edge_policy);
	pfree(flow->edge_pool);
	pfree(flow->carried);
	pfree(flow->first_back);
	pfree(flow->back);
	pfree(flow->demand);
	pfree(flow->supply);
	pfree(flow->wanting);
	pfree(flow->left);
	pfree(flow->level);
	pfree(flow->queue);
	pfree(flow->next);
	pfree(flow);
}

/*
 * random_world.h
 *
 * Small random worlds with everything in them that a plan depends on; the same number draws the same world again.
 */
#ifndef TEST_RANDOM_WORLD_H
#define TEST_RANDOM_WORLD_H

#include "worlds.h"

#define MAX_NODES	24
#define MAX_LANES	12

typedef struct Options
{
	bool		exact_heads;
	bool		large_gangs;
	bool		cut;
	bool		ties;			/* nodes and requests so alike that the name decides again and again */
	bool		isolate;		/* pools that keep accounts apart */
} Options;

#define MAX_ACCOUNTS 4

/* Most nodes host nobody or one account, some several: as many as there are where it was just switched on. */
static inline void
draw_accounts(World *world)
{
	int			kinds = 2 + below(4);

	for (int p = 0; p < world->npools; p++)
		world->pools[p].isolate = below(4) > 0;
	for (int n = 0; n < world->nnodes; n++)
		if (world->pools[world->nodes[n].pool].isolate && below(kinds) > 0)
			world->nodes[n].account = below(5) == 0 ? SEVERAL_ACCOUNTS : 1 + below(MAX_ACCOUNTS);
	for (int l = 0; l < world->nlanes; l++)
		world->lanes[l].account_id = 1 + below(MAX_ACCOUNTS);
}

static inline void
draw_nodes(World *world, Options options)
{
	int			n = 1 + below(MAX_NODES);
	int			gpus = below(3) == 0 || options.ties ? 2 : 8;

	for (int i = 0; i < n; i++)
	{
		int			pool = below(world->npools);
		int			slot = below(world->pools[pool].ntypes);
		PoolNode   *node = add_node(world, psprintf("n%03d", i), pool, world->pools[pool].types[slot].type,
									below(5) == 0 && !options.ties ? below(9) : gpus,
									options.ties ? 64 : 16 * (1 + below(4)), 64);

		if (below(6) == 0)
		{
			node->takes_work = false;
			node->why_not = below(2) ? "cordoned" : "unhealthy";
		}
		for (int d = 0; d < node->ndevices; d++)
			if (below(3) == 0)
			{
				int64		part = below(2) ? RPQ_UNIT : (options.ties ? 5 : below(10)) * 100 * MILLI;

				node->device_free[d] -= part;
				node->free[0] -= part;
				world->pools[pool].total->used[0] += part;
			}
		if (below(3) == 0 && !options.ties)
			node->free[1] -= below(20) * RPQ_UNIT;
	}
}

static inline UsageLimit **
draw_limits(World *world, int *n)
{
	UsageLimit **limits = palloc(sizeof(UsageLimit *) * 16);

	*n = 0;
	for (int i = below(10); i > 0; i--)
	{
		bool		user = below(3) > 0;
		UsageLimit *limit = new_limit(user ? LIMIT_USER : LIMIT_POLICY, user ? below(world->npools) : -1,
									  below(2) ? RPQ_WHOLE_POOL : below(world->ntypes));

		if (below(4) > 0)
			limit->max[0] = below(20) * RPQ_UNIT;
		if (below(3) == 0)
			limit->max[1] = below(100) * RPQ_UNIT;
		if (below(3) == 0)
			limit->used[0] = below(12) * RPQ_UNIT;
		limits[(*n)++] = limit;
	}
	return limits;
}

static inline void
draw_lane(World *world, UsageLimit **limits, int nlimits, Options options)
{
	static const int64 gpus[] = {0, 0, 100, 250, 500, 1000, 1000, 2000, 4000, 8000};
	Lane	   *lane = add_lane(world, below(world->npools), 10 * below(3), 1, gpus[below(lengthof(gpus))],
								500 * below(9));

	if (lane->request[0] == 0 && lane->request[1] == 0)
		lane->request[1] = RPQ_UNIT;
	if (options.ties)
	{
		lane->request[0] = (1 + below(2)) * RPQ_UNIT / 2;
		lane->request[1] = 0;
		lane->request[2] = below(2) * RPQ_UNIT;
	}
	else if (below(4) == 0)
		lane->request[2] = below(20) * RPQ_UNIT;
	if (below(3) == 0)
		lane->replicas = 1 + below(options.large_gangs ? 40 : 5);
	while (lane->npools < world->npools && below(3) == 0)
	{
		lane->pools[lane->npools] = (lane->pools[lane->npools - 1] + 1) % world->npools;
		lane->npools++;
	}
	if (below(3) == 0)
	{
		lane->type_allowed = palloc0(sizeof(bool) * MAX_TYPES);
		for (int t = 0; t < world->ntypes; t++)
			lane->type_allowed[t] = below(2);
	}
	for (int i = 0; i < nlimits && lane->nlimits < 3; i++)
		if (below(3) == 0)
			lane->limits[lane->nlimits++] = limits[i];
	if (below(15) == 0)
		lane->own = below(2) ? REASON_NOT_AUTHORIZED : REASON_BACKING_OFF;
	lane->skip = below(15) == 0;
}

static inline void
draw_members(World *world, Options options)
{
	int			n = below(80);
	TimestampTz at = 1000;

	for (int i = 0; i < n && world->nlanes > 0; i++)
	{
		add_member(&world->lanes[below(world->nlanes)], at, 100 + (i * 37) % 101 + 101 * i);
		at += 1 + below(2);
	}
	for (int l = 0; l < world->nlanes; l++)
		if (!options.exact_heads)
		{
			world->lanes[l].head_at = Min(world->lanes[l].head_at, at) - below(60);
			world->lanes[l].head_id = below(1000);
		}
}

static inline World *
draw_world(uint64 number, Options options)
{
	World	   *world = new_world(MAX_NODES, MAX_LANES);
	UsageLimit **limits;
	int			nlimits;
	int			n;

	seed_with(number);
	for (n = 1 + below(3); n > 0; n--)
		add_type(world);
	for (n = 1 + below(3); n > 0; n--)
	{
		int			pool = add_pool(world, psprintf("p%d", n));
		SchedulingPolicy policy = below(2) ? POLICY_BINPACK : POLICY_SPREAD;

		for (int t = 0; t < world->ntypes; t++)
			if (t == pool % world->ntypes || below(2))
				add_pool_type(world, pool, t, policy);
		if (below(15) == 0)
			world->pools[pool].closed = below(2) ? REASON_POOL_FROZEN : REASON_POOL_NOT_READY;
	}
	draw_nodes(world, options);
	limits = draw_limits(world, &nlimits);
	for (n = below(MAX_LANES + 1); n > 0; n--)
		draw_lane(world, limits, nlimits, options);
	draw_members(world, options);
	if (options.isolate)
		draw_accounts(world);
	if (options.cut)
		world->batch = 1 + below(12);
	return world;
}

#endif							/* TEST_RANDOM_WORLD_H */

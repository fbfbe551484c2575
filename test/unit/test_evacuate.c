/*
 * test_evacuate.c
 *
 * Where pods go that have to leave their nodes: a few plans that can be told by looking, and small random worlds against
 * the slowest way of finding a place.  Prints TAP; exits 1 when a test failed.
 */
#include "random_world.h"

#define MAX_MOVES	12
#define WORLDS		3000

static World *
pool_of(SchedulingPolicy policy)
{
	World	   *world = new_world(16, 1);

	add_type(world);
	add_pool(world, "p");
	add_pool_type(world, 0, 0, policy);
	return world;
}

static void
add_move(World *world, Move *moves, int *n, int from, int64 gpu_milli, int64 cpu)
{
	int64	   *request = zeros();

	request[0] = gpu_milli * MILLI;
	request[1] = cpu * RPQ_UNIT;
	memset(&moves[*n], 0, sizeof(Move));
	moves[*n].workload_id = *n + 1;
	moves[*n].from = from;
	moves[*n].wanted = -1;
	moves[*n].request = request;
	(*n)++;
}

/* "pod>node ..." in the order of the plan; - for none. */
static const char *
told(const World *world, const Move *moves, int n)
{
	char	   *text = "";

	for (int i = 0; i < n; i++)
		text = psprintf("%s%s%d>%s", text, i == 0 ? "" : " ", (int) moves[i].workload_id,
						moves[i].place.node < 0 ? "-" : world->nodes[moves[i].place.node].name);
	return text;
}

static void
goes(World *world, Move *moves, int n, int missing, const char *expected, const char *name)
{
	int			left = plan_moves(world, moves, n);
	const char *is = told(world, moves, n);

	if (strcmp(is, expected) != 0)
		printf("# %s\n", is);
	ok(left == missing && strcmp(is, expected) == 0, name);
}

static void
known_plans(void)
{
	Move		moves[MAX_MOVES];
	World	   *world;
	int			n = 0;

	world = pool_of(POLICY_BINPACK);
	load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 5, 5);
	load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 4, 4);
	load_node(world, add_node(world, "c", 0, 0, 8, 64, 64), 2, 2);
	add_move(world, moves, &n, 0, 1000, 1);
	add_move(world, moves, &n, 0, 4000, 4);
	goes(world, moves, n, 0, "2>b 1>c", "the largest first, the fullest node that takes it");
	ok(world->nodes[1].free[0] == 0 && world->nodes[2].free[0] == 5 * RPQ_UNIT, "room is counted down");

	n = 0;
	world = pool_of(POLICY_BINPACK);
	load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 8, 8);
	load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 3, 3);
	add_node(world, "c", 0, add_type(world), 8, 64, 64);
	add_pool_type(world, 0, 1, POLICY_BINPACK);
	add_node(world, "d", 0, 0, 8, 64, 64)->takes_work = false;
	add_node(world, "e", add_pool(world, "q"), 0, 8, 64, 64);
	add_pool_type(world, 1, 0, POLICY_BINPACK);
	add_move(world, moves, &n, 0, 4000, 4);
	add_move(world, moves, &n, 0, 4000, 4);
	goes(world, moves, n, 1, "1>b 2>-", "not to another type, another pool, or a node that takes nothing");

	n = 0;
	world = pool_of(POLICY_BINPACK);
	load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 1, 1);
	load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 1, 1);
	load_node(world, add_node(world, "c", 0, 0, 8, 64, 64), 7, 7);
	add_move(world, moves, &n, 0, 1000, 1);
	add_move(world, moves, &n, 1, 1000, 1);
	goes(world, moves, n, 1, "1>c 2>-", "not to a node that is emptied itself");

	n = 0;
	world = pool_of(POLICY_SPREAD);
	load_node(world, add_node(world, "a", 0, 0, 16, 64, 64), 10, 10);
	load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 2, 2);
	load_node(world, add_node(world, "c", 0, 0, 8, 64, 64), 4, 4);
	add_move(world, moves, &n, 0, 4000, 4);
	add_move(world, moves, &n, 0, 3000, 3);
	add_move(world, moves, &n, 0, 3000, 3);
	goes(world, moves, n, 0, "1>c 2>b 3>b", "what spread scatters too thinly is packed");

	n = 0;
	world = pool_of(POLICY_BINPACK);
	load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 8, 8);
	load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 4, 4);
	add_node(world, "c", 0, 0, 8, 64, 64);
	add_move(world, moves, &n, 0, 4000, 4);
	add_move(world, moves, &n, 0, 4000, 4);
	moves[1].wanted = 2;
	goes(world, moves, n, 0, "1>b 2>c", "a wanted node is taken");
	n = 0;
	add_move(world, moves, &n, 0, 8000, 4);
	moves[0].wanted = 1;
	goes(world, moves, n, 1, "1>-", "unless it no longer fits");

	for (int spread = 0; spread <= 1; spread++)
	{
		n = 0;
		world = pool_of(spread ? POLICY_SPREAD : POLICY_BINPACK);
		world->pools[0].isolate = true;
		load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 6, 6);
		load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 2, 2);
		load_node(world, add_node(world, "c", 0, 0, 8, 64, 64), 1, 1);
		add_node(world, "d", 0, 0, 8, 64, 64);
		world->nodes[1].account = 2;
		world->nodes[2].account = SEVERAL_ACCOUNTS;
		for (int i = 0; i < 3; i++)
		{
			add_move(world, moves, &n, 0, 1000 * (3 - i), 1);
			moves[i].account_id = 1 + i % 2;
		}
		moves[2].wanted = 2;
		goes(world, moves, n, 0, "1>d 2>b 3>d", "accounts stay apart, also from what has just moved");
	}

	n = 0;
	world = pool_of(POLICY_SPREAD);
	world->pools[0].isolate = true;
	load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 8, 8);
	add_node(world, "b", 0, 0, 7, 64, 64);
	add_node(world, "c", 0, 0, 4, 64, 64);
	add_move(world, moves, &n, 0, 5000, 1);
	add_move(world, moves, &n, 0, 2000, 1);
	add_move(world, moves, &n, 0, 1000, 1);
	moves[0].account_id = moves[1].account_id = 1;
	moves[2].account_id = 2;
	goes(world, moves, n, 0, "1>b 2>b 3>c", "what spread leaves no node for, the tighter plan does");
}

static bool
fits_alone(const PoolNode *node, const Move *move)
{
	int64		gpu = move->request[0];
	int			enough = 0;

	for (int k = 1; k < NKEYS; k++)
		if (move->request[k] > 0 && node->free[k] < move->request[k])
			return false;
	for (int d = 0; d < node->ndevices; d++)
		enough += node->device_free[d] >= Min(gpu, RPQ_UNIT);
	return enough >= (gpu == 0 ? 0 : gpu < RPQ_UNIT ? 1 : gpu / RPQ_UNIT);
}

static World *
random_world(Move *moves, int *n)
{
	Options		options = {.ties = below(4) == 0};
	World	   *world = new_world(MAX_NODES, 1);
	int			ntypes = 1 + below(3);
	int			npools = 1 + below(2);

	for (int t = 0; t < ntypes; t++)
		add_type(world);
	for (int p = 0; p < npools; p++)
	{
		add_pool(world, psprintf("p%d", p));
		for (int t = 0; t < ntypes; t++)
			add_pool_type(world, p, t, below(2) ? POLICY_SPREAD : POLICY_BINPACK);
	}
	draw_nodes(world, options);
	if (below(2))
		draw_accounts(world);
	*n = 0;
	for (int i = 1 + below(MAX_MOVES); i > 0; i--)
	{
		add_move(world, moves, n, below(Min(world->nnodes, 3)),
				 below(3) == 0 ? below(10) * 100 : 1000 * (1 + below(4)), below(12));
		moves[*n - 1].wanted = below(3) == 0 ? below(world->nnodes) : -1;
		moves[*n - 1].account_id = 1 + below(MAX_ACCOUNTS);
	}
	return world;
}

static bool
is_open(const World *world, const PoolNode *node, const Move *move)
{
	return !world->pools[node->pool].isolate || node->account == 0 || node->account == move->account_id;
}

/* What the moves take, on nodes as they were: nothing twice, nothing over, nothing where it may not be. */
static bool
room_is_right(World *before, const Move *moves, int n)
{
	for (int i = 0; i < n; i++)
	{
		const Move *move = &moves[i];
		const PoolNode *from = &before->nodes[move->from];
		int64		gpu = move->request[0];
		PoolNode   *to;

		if (move->place.node < 0)
			continue;
		to = &before->nodes[move->place.node];
		if (!to->takes_work || to->pool != from->pool || to->type != from->type || !is_open(before, to, move))
			return false;
		if (before->pools[to->pool].isolate)
			to->account = move->account_id;
		if (move->place.ndevices != (gpu == 0 ? 0 : gpu < RPQ_UNIT ? 1 : gpu / RPQ_UNIT))
			return false;
		for (int d = 0; d < move->place.ndevices; d++)
		{
			to->device_free[move->place.devices[d]] -= Min(gpu, RPQ_UNIT);
			if (to->device_free[move->place.devices[d]] < 0)
				return false;
		}
		for (int k = 0; k < NKEYS; k++)
		{
			to->free[k] -= move->request[k];
			if (move->request[k] > 0 && to->free[k] < 0)
				return false;
		}
	}
	return true;
}

/* Whether any node takes one more than the plan has placed; before has been counted down by room_is_right. */
static bool
missing_is_right(const World *after, const Move *moves, int n)
{
	for (int i = 0; i < n; i++)
	{
		const PoolNode *from = &after->nodes[moves[i].from];

		for (int j = 0; j < after->nnodes && moves[i].place.node < 0; j++)
		{
			const PoolNode *to = &after->nodes[j];

			if (to->takes_work && to->pool == from->pool && to->type == from->type && is_open(after, to, &moves[i]) &&
				fits_alone(to, &moves[i]))
				return false;
		}
	}
	return true;
}

/* Drawn again, with the pods in the opposite order and none of them with a wanted node. */
static const char *
plan_of(int number, bool reverse)
{
	Move		moves[MAX_MOVES];
	World	   *world;
	int			n;

	seed_with(number);
	world = random_world(moves, &n);
	for (int m = 0; m < n / 2 && reverse; m++)
	{
		Move		swap = moves[m];

		moves[m] = moves[n - 1 - m];
		moves[n - 1 - m] = swap;
	}
	for (int m = 0; m < n; m++)
		moves[m].wanted = -1;
	plan_moves(world, moves, n);
	return told(world, moves, n);
}

static void
random_plans(void)
{
	bool		room = true;
	bool		missing = true;
	bool		same = true;

	for (int i = 0; i < WORLDS; i++)
	{
		Move		moves[MAX_MOVES];
		World	   *before;
		int			n;
		int			left;

		seed_with(i);
		before = random_world(moves, &n);
		for (int m = 0; m < n; m++)
			before->nodes[moves[m].from].takes_work = false;
		seed_with(i);
		left = plan_moves(random_world(moves, &n), moves, n);
		for (int m = 0; m < n; m++)
			left -= moves[m].place.node < 0;
		room = room && left == 0 && room_is_right(before, moves, n);
		missing = missing && missing_is_right(before, moves, n);
		same = same && strcmp(plan_of(i, false), plan_of(i, true)) == 0;
		if (!room || !missing || !same)
		{
			printf("# world %d\n", i);
			break;
		}
	}
	ok(room, "random worlds: no room is taken twice, none where it may not be");
	ok(missing, "random worlds: a pod without target fits no node that is left");
	ok(same, "random worlds: the plan does not depend on the order in which pods are read");
}

int
main(void)
{
	known_plans();
	random_plans();
	return done_testing();
}

/*
 * core_bench.c
 *
 * What a placement costs in the core, without a server, by the number of nodes; and the OpenB list placed one by one
 * (shuffled, topped up by draws until the requests reach all GPUs) when its folder is given.
 *
 *		cc -O2 -Itest/unit/shim -Itest/unit -Isrc test/bench/core_bench.c test/unit/shim/shim.c src/core/[a-z]*.c \
 *			-o core_bench
 *		./core_bench [folder with openb_node_list_gpu_node.csv and openb_pod_list_default.csv]
 *
 * The time is that of plan_world() alone, from the unread world to the plan, in CPU ns of this process for each pod.
 * The sizes take turns, and each turn places as many pods at each size: where small worlds hold fewer, several of them.
 * What is printed is the median of the turns, after one to warm up.  Memory that was freed is kept for the next run, so
 * that no size pays for the pages that another has given back to the system.
 */
#include <malloc.h>
#include <time.h>

#include "worlds.h"

#define MOST_TURNS	101
#define LARGEST		10000

static const int sizes[] = {100, 1000, LARGEST};

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

typedef struct Mix
{
	const char *name;
	SchedulingPolicy policy;
	int			lanes;			/* shapes that wait */
	bool		varied;			/* nodes of 13 types, three sizes, partly full; parts of devices */
	int			replicas;
} Mix;

static const Mix mixes[] = {
	{"binpack, 30 lanes, empty nodes", POLICY_BINPACK, 30, false, 1},
	{"spread, 30 lanes, empty nodes", POLICY_SPREAD, 30, false, 1},
	{"binpack, 30 lanes, 13 types, partly full", POLICY_BINPACK, 30, true, 1},
	{"spread, 30 lanes, 13 types, partly full", POLICY_SPREAD, 30, true, 1},
	{"binpack, gangs of 100", POLICY_BINPACK, 30, false, 100},
	{"spread, gangs of 100", POLICY_SPREAD, 30, false, 100}
};

/* Members are read from an array, as the store's are after a batch was fetched. */
static int
read_in_order(World *world, Lane *lane, const Member *after, int want, Member *out)
{
	Waiting    *waiting = lane->store;
	int			from = after == NULL ? 0 : after->attempt + 1;
	int			n = Min(want, waiting->n - from);

	memcpy(out, waiting->members + from, sizeof(Member) * n);
	return n;
}

static void
bench_nodes(World *world, const Mix *mix, int nnodes)
{
	int			types = mix->varied ? 13 : 1;

	add_pool(world, "p");
	for (int t = 0; t < types; t++)
	{
		add_type(world);
		add_pool_type(world, 0, t, mix->policy);
	}
	for (int i = 0; i < nnodes; i++)
	{
		PoolNode   *node = add_node(world, psprintf("n%05d", i), 0, i % types, mix->varied ? 2 << below(3) : 8,
									mix->varied ? 32 << below(3) : 96, 1024);

		for (int d = 0; mix->varied && d < node->ndevices; d++)
			if (below(2))
			{
				int64		part = (1 + below(10)) * 100 * MILLI;

				node->device_free[d] -= part;
				node->free[0] -= part;
				node->free[1] -= below(4) * RPQ_UNIT;
			}
	}
}

/* As many pods as there are nodes times pods_a_node, in lanes of distinct shapes, by turns. */
static World *
bench_world(const Mix *mix, int nnodes, int npods)
{
	static const int gpus[] = {0, 100, 200, 250, 500, 1000, 1000, 1000, 2000, 500};
	World	   *world = new_world(nnodes, mix->lanes);

	seed_with(nnodes);
	bench_nodes(world, mix, nnodes);
	world->read_members = read_in_order;
	for (int l = 0; l < mix->lanes; l++)
	{
		Lane	   *lane = add_lane(world, 0, 50, mix->replicas, mix->replicas > 1 ? 100 : gpus[l % lengthof(gpus)],
									500 + 250 * (l % 7));

		lane->request[2] = (1 + l) * RPQ_UNIT / 2;
	}
	for (int i = 0; i < npods / mix->replicas; i++)
	{
		Lane	   *lane = &world->lanes[i % mix->lanes];
		Waiting    *waiting = lane->store;

		add_member(lane, i + 1, i + 1);
		waiting->members[waiting->n - 1].attempt = waiting->n - 1;
	}
	return world;
}

/* Requests so small that the same number of pods fits on any number of nodes. */
static void
make_tiny(World *world)
{
	for (int l = 0; l < world->nlanes; l++)
	{
		world->lanes[l].request[0] = (10 + l) * MILLI;
		world->lanes[l].request[1] = 10 * MILLI;
		world->lanes[l].request[2] = (10 + l) * MILLI;
	}
}

/* CPU time of one plan, in ns; what it places is added to *placed. */
static double
time_plan(const Mix *mix, int nnodes, int npods, bool tiny, int64 *placed)
{
	World	   *world = bench_world(mix, nnodes, npods);
	CyclePlan  *plan;
	double		ns;

	if (tiny)
		make_tiny(world);
	ns = 1e9 * seconds();
	plan = plan_world(world);
	ns = 1e9 * seconds() - ns;
	for (int i = 0; i < plan->nadmissions; i++)
		*placed += plan->admissions[i].npods;
	shim_reset();
	return ns;
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

/* npods 0: pods_a_node on each node. */
static void
bench_mix(const Mix *mix, int pods_a_node, int npods, int turns)
{
	double		ns[lengthof(sizes)][MOST_TURNS];

	for (int turn = -1; turn < turns; turn++)
		for (int s = 0; s < lengthof(sizes); s++)
		{
			int			worlds = npods > 0 ? 1 : LARGEST / sizes[s];
			double		sum = 0;
			int64		placed = 0;

			for (int i = 0; i < worlds; i++)
				sum += time_plan(mix, sizes[s], npods > 0 ? npods : pods_a_node * sizes[s], npods > 0, &placed);
			ns[s][Max(turn, 0)] = sum / placed;
		}
	printf("%-44s", mix->name);
	for (int s = 0; s < lengthof(sizes); s++)
	{
		qsort(ns[s], turns, sizeof(double), compare_doubles);
		printf(" %12.0f", ns[s][turns / 2]);
	}
	printf(" %8.2f\n", ns[lengthof(sizes) - 1][turns / 2] / ns[0][turns / 2]);
}

static void
bench_growth(const char *title, int pods_a_node, int npods, int turns)
{
	printf("%-44s %12s %12s %12s %8s\n", title, "100", "1,000", "10,000", "growth");
	for (int m = 0; m < lengthof(mixes); m++)
		if (npods == 0 || !(mixes[m].varied || mixes[m].replicas > 1))
			bench_mix(&mixes[m], pods_a_node, npods, turns);
	printf("\n");
}

/* ---- OpenB ---- */

#define OPENB_NODES	1300
#define OPENB_PODS	9000
#define OPENB_LIST	20000

typedef struct OpenbPod
{
	int64		cpu;
	int64		memory;
	int64		gpu;			/* thousandths */
	char		models[64];
} OpenbPod;

static OpenbPod openb_pods[OPENB_PODS];
static int	openb_npods;

static FILE *
open_list(const char *folder, const char *name, char *line, int size)
{
	char		path[1024];
	FILE	   *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "r");
	if (file == NULL || fgets(line, size, file) == NULL)
	{
		printf("%s: not there, skipped\n", path);
		return NULL;
	}
	return file;
}

static bool
read_openb_pods(const char *folder)
{
	char		line[1024];
	FILE	   *file = open_list(folder, "openb_pod_list_default.csv", line, sizeof(line));

	openb_npods = 0;
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		OpenbPod   *pod = &openb_pods[openb_npods++];
		long		cpu;
		long		memory;
		int			n;
		int			milli;

		pod->models[0] = '\0';
		sscanf(line, "%*[^,],%ld,%ld,%d,%d,%63[^,]", &cpu, &memory, &n, &milli, pod->models);
		pod->cpu = cpu;
		pod->memory = memory;
		pod->gpu = n == 1 ? milli : n * 1000;
	}
	if (file != NULL)
		fclose(file);
	return file != NULL;
}

/* The model and size of a node make its instance type, as a shared pool's inventory would have it. */
static World *
read_openb_nodes(const char *folder, SchedulingPolicy policy, int64 *gpus)
{
	World	   *world = new_world(OPENB_NODES, OPENB_LIST);
	char		line[1024];
	FILE	   *file = open_list(folder, "openb_node_list_gpu_node.csv", line, sizeof(line));

	add_pool(world, "p");
	*gpus = 0;
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		char		name[64];
		char		model[32];
		long		cpu;
		long		memory;
		int			n;
		int			type = 0;
		PoolNode   *node;

		sscanf(line, "%63[^,],%ld,%ld,%d,%31[^,\r\n]", name, &cpu, &memory, &n, model);
		while (type < world->ntypes && strcmp(world->types[type], model) != 0)
			type++;
		if (type == world->ntypes)
		{
			world->types[add_type(world)] = pstrdup(model);
			add_pool_type(world, 0, type, policy);
		}
		node = add_node(world, pstrdup(name), 0, type, n, 0, 0);
		node->free[1] = cpu * MILLI;
		node->free[2] = memory * MILLI;
		*gpus += n * 1000;
	}
	if (file != NULL)
		fclose(file);
	for (int k = 0; k < NKEYS; k++)
		world->pools[0].total->max[k] = PG_INT64_MAX - 1;
	return world;
}

static void
submit_openb(World *world, const OpenbPod *pod, int at)
{
	Lane	   *lane = NULL;
	bool		allowed[MAX_TYPES];

	for (int t = 0; t < world->ntypes; t++)
	{
		const char *found = strstr(pod->models, world->types[t]);
		char		end = found ? found[strlen(world->types[t])] : ' ';

		allowed[t] = pod->models[0] == '\0' || (found && (end == '|' || end == '\0'));
	}
	for (int l = 0; l < world->nlanes && lane == NULL; l++)
		if (world->lanes[l].request[0] == pod->gpu * MILLI && world->lanes[l].request[1] == pod->cpu * MILLI &&
			world->lanes[l].request[2] == pod->memory * MILLI &&
			memcmp(world->lanes[l].type_allowed, allowed, sizeof(bool) * world->ntypes) == 0)
			lane = &world->lanes[l];
	if (lane == NULL)
	{
		lane = add_lane(world, 0, 50, 1, pod->gpu, pod->cpu);
		lane->request[2] = pod->memory * MILLI;
		lane->type_allowed = palloc(sizeof(bool) * MAX_TYPES);
		memcpy(lane->type_allowed, allowed, sizeof(bool) * world->ntypes);
	}
	add_member(lane, at, at);
	((Waiting *) lane->store)->members[lane->waiting - 1].attempt = (int) lane->waiting - 1;
}

static void
bench_openb(const char *folder, SchedulingPolicy policy, int number)
{
	int64		gpus;
	int64		asked = 0;
	int64		taken = 0;
	World	   *world = read_openb_nodes(folder, policy, &gpus);
	int		   *order = palloc(sizeof(int) * OPENB_PODS);
	int			arrived = 0;
	CyclePlan  *plan;
	double		start;

	seed_with(number);
	world->read_members = read_in_order;
	for (int i = 0; i < openb_npods; i++)
	{
		int			with = below(i + 1);

		order[i] = order[with];
		order[with] = i;
	}
	for (int i = 0; asked < gpus; i++, arrived++)
	{
		const OpenbPod *pod = &openb_pods[i < openb_npods ? order[i] : below(openb_npods)];

		submit_openb(world, pod, i + 1);
		asked += pod->gpu;
	}
	start = seconds();
	plan = plan_world(world);
	printf("seed %d: %d arrivals in %d lanes on %d nodes, %d placed in %.0f ms", number, arrived, world->nlanes,
		   world->nnodes, plan->nadmissions, 1e3 * (seconds() - start));
	for (int i = 0; i < plan->nadmissions; i++)
		taken += plan->admissions[i].lane->request[0] / MILLI;
	printf(", %.2f %% unallocated\n", 100.0 * (gpus - taken) / gpus);
	shim_reset();
}

int
main(int argc, char **argv)
{
	mallopt(M_TRIM_THRESHOLD, PG_INT32_MAX);
	mallopt(M_MMAP_MAX, 0);
	bench_growth("ns a pod, 6 pods a node, by nodes", 6, 0, 5);
	bench_growth("ns a pod, 10,000 tiny pods, by nodes", 0, 10000, MOST_TURNS);
	if (argc < 2 || !read_openb_pods(argv[1]))
		return 0;
	printf("OpenB, default list, until the requests that have arrived reach 100 %% of the GPUs\n");
	for (int policy = POLICY_BINPACK; policy <= POLICY_SPREAD; policy++)
		for (int number = 1; number <= 3; number++)
		{
			printf("%s, ", policy == POLICY_BINPACK ? "binpack" : "spread");
			bench_openb(argv[1], policy, number);
		}
	return 0;
}

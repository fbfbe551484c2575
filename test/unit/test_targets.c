/*
 * test_targets.c
 *
 * Backfill: which nodes are kept back for one that is blocked, and who may use them all the same, against the slow way
 * on random worlds; that a gang cannot starve as long as work ends; and cases by hand.
 */
#include "random_world.h"
#include "oracle.h"

#include "core/targets.h"

/* ---- the slow way ---- */

typedef struct SlowHead
{
	bool		set;
	int64		workload_id;
	TimestampTz bound;
} SlowHead;

static SlowHead heads[MAX_POOLS][MAX_TYPES];
static bool slow_target[MAX_NODES];
static TimestampTz node_ends[MAX_NODES];

static void
give_ends(World *world, const int *nodes, int nnodes, TimestampTz *ends)
{
	for (int i = 0; i < nnodes; i++)
		ends[i] = node_ends[nodes[i]];
}

static bool
foreign(const World *world, const Lane *lane, const PoolNode *node)
{
	return world->pools[node->pool].isolate && node->account != 0 && node->account != lane->account_id;
}

/* How many replicas fit on a node that has so much free, devices by themselves: tried one by one. */
static int
slow_times(const Lane *lane, const int64 *free, const int64 *devices, int ndevices, int most)
{
	int64		left[NKEYS];
	int64		device[8];
	int			times = 0;

	memcpy(left, free, sizeof(left));
	memcpy(device, devices, sizeof(int64) * ndevices);
	while (times < most)
	{
		int64		gpu = lane->request[0];

		for (int k = 1; k < NKEYS; k++)
			if (lane->request[k] > 0 && (left[k] -= lane->request[k]) < 0)
				return times;
		for (int d = 0; d < ndevices && gpu > 0; d++)
			if (device[d] >= Min(gpu, RPQ_UNIT))
			{
				int64		taken = Min(gpu, RPQ_UNIT);

				device[d] -= taken;
				gpu -= taken;
			}
		if (gpu > 0)
			return times;
		times++;
	}
	return times;
}

static int
slow_times_when_empty(const Lane *lane, const PoolNode *node, int most)
{
	int64		devices[8];

	for (int d = 0; d < node->ndevices; d++)
		devices[d] = RPQ_UNIT;
	return slow_times(lane, node->capacity, devices, node->ndevices, most);
}

/* What has to leave before so many replicas fit. */
static int64
slow_leaving(const World *world, const Lane *lane, const PoolNode *node, int times, int key)
{
	int64		gpu = lane->request[0];
	int64		whole = 0;
	int			parts = 0;

	for (int d = 0; d < node->ndevices; d++)
		whole += node->device_free[d] == RPQ_UNIT;
	if (times == 0)
		return 0;
	if (foreign(world, lane, node))
		return key == 0 ? (node->ndevices - whole) * RPQ_UNIT : node->capacity[key] - Max(node->free[key], 0);
	if (key > 0)
		return Max(0, lane->request[key] * times - Max(node->free[key], 0));
	if (gpu >= RPQ_UNIT)
		return Max(0, gpu * times - whole * RPQ_UNIT);
	for (int d = 0; d < node->ndevices; d++)
		parts += node->device_free[d] / gpu;
	return times <= parts ? 0 : ((times - parts - 1) / (RPQ_UNIT / gpu) + 1) * RPQ_UNIT;
}

/* Where the replicas are to be; false when the type could never hold them. */
static bool
slow_choice(const World *world, const Lane *lane, int pool, int type, int *times, int64 *cost)
{
	int			key = lane->request[0] > 0 ? 0 : lane->request[1] > 0 ? 1 : 2;

	memset(times, 0, sizeof(int) * MAX_NODES);
	*cost = 0;
	for (int r = 0; r < lane->replicas; r++)
	{
		int			best = -1;
		int64		least = 0;

		for (int n = 0; n < world->nnodes; n++)
		{
			const PoolNode *node = &world->nodes[n];
			int64		more = slow_leaving(world, lane, node, times[n] + 1, key) -
				slow_leaving(world, lane, node, times[n], key);

			if (node->pool == pool && node->type == type && node->takes_work &&
				slow_times_when_empty(lane, node, times[n] + 1) > times[n] && (best < 0 || more < least))
			{
				best = n;
				least = more;
			}
		}
		if (best < 0)
			return false;
		times[best]++;
		*cost += least;
	}
	return true;
}

static void
slow_set(const World *world, const Lane *lane, int pool, int type, const int *times)
{
	SlowHead   *head = &heads[pool][type];
	bool		any = false;

	head->set = true;
	head->workload_id = lane->head_id;
	head->bound = DT_NOEND;
	for (int n = 0; n < world->nnodes; n++)
	{
		const PoolNode *node = &world->nodes[n];

		if (times[n] == 0)
			continue;
		slow_target[n] = true;
		if (!foreign(world, lane, node) &&
			slow_times(lane, node->free, node->device_free, node->ndevices, times[n]) == times[n])
			continue;
		any = true;
		head->bound = Min(head->bound, node_ends[n]);
	}
	if (!any)
		head->bound = DT_NOBEGIN;
}

/* Marks for a lane that is blocked by room in the pools that are named. */
static bool
slow_mark(const World *world, const Lane *lane, const bool *by_room)
{
	int			times[MAX_NODES];
	int			best_times[MAX_NODES];

	for (int i = 0; i < lane->npools; i++)
	{
		const Pool *pool = &world->pools[lane->pools[i]];
		int64		least = 0;
		int			best = -1;

		for (int t = 0; t < pool->ntypes && by_room[i]; t++)
		{
			int			type = pool->types[t].type;
			int64		cost;

			if ((lane->type_allowed != NULL && !lane->type_allowed[type]) || heads[lane->pools[i]][type].set ||
				oracle_limits(lane, lane->pools[i], type) != REASON_NONE ||
				!slow_choice(world, lane, lane->pools[i], type, times, &cost) || (best >= 0 && cost >= least))
				continue;
			best = type;
			least = cost;
			memcpy(best_times, times, sizeof(times));
		}
		if (best >= 0)
		{
			slow_set(world, lane, lane->pools[i], best, best_times);
			return true;
		}
	}
	return false;
}

/* Tries one pool the slow way; what may not be used takes no work for the time being. */
static ReasonCode
slow_pool(World *world, const Lane *lane, int pool, bool past, Admission *admission)
{
	bool		takes_work[MAX_NODES];
	int			fitting;
	ReasonCode	code;

	for (int n = 0; n < world->nnodes; n++)
	{
		takes_work[n] = world->nodes[n].takes_work;
		if (!past && slow_target[n] && lane->ends >= heads[world->nodes[n].pool][world->nodes[n].type].bound)
			world->nodes[n].takes_work = false;
	}
	code = oracle_pool(world, lane, pool, admission, &fitting);
	for (int n = 0; n < world->nnodes; n++)
		world->nodes[n].takes_work = takes_work[n];
	return code;
}

/* Whether it would fit were it not for targets: on a copy of what is free, since it must not be taken. */
static bool
slow_fits_past(World *world, const Lane *lane, int pool, Admission *admission)
{
	PoolNode	saved[MAX_NODES];
	ReasonCode	code;

	memcpy(saved, world->nodes, sizeof(PoolNode) * world->nnodes);
	for (int n = 0; n < world->nnodes; n++)
	{
		world->nodes[n].free = memcpy(zeros(), saved[n].free, sizeof(int64) * NKEYS);
		world->nodes[n].device_free = memcpy(palloc(sizeof(int64) * (saved[n].ndevices + 1)), saved[n].device_free,
											 sizeof(int64) * saved[n].ndevices);
	}
	code = slow_pool(world, lane, pool, true, admission);
	memcpy(world->nodes, saved, sizeof(PoolNode) * world->nnodes);
	return code == REASON_NONE;
}

/* Admits one of the lane, or says by what it is blocked in each pool. */
static bool
slow_admit(World *world, const Lane *lane, Admission *admission, ReasonCode *blocked)
{
	for (int i = 0; i < lane->npools; i++)
	{
		int			pool = lane->pools[i];
		ReasonCode	code = slow_pool(world, lane, pool, false, admission);

		if (code == REASON_NONE)
		{
			for (int l = 0; l < lane->nlimits; l++)
				if ((lane->limits[l]->pool == -1 || lane->limits[l]->pool == pool) &&
					(lane->limits[l]->type == RPQ_WHOLE_POOL || lane->limits[l]->type == admission->type))
					oracle_charge(lane, lane->limits[l]);
			oracle_charge(lane, world->pools[pool].total);
			return true;
		}
		blocked[i] = code;
		if ((code == REASON_NO_NODE_FITS || code == REASON_GANG_DOES_NOT_FIT) &&
			slow_fits_past(world, lane, pool, admission))
			blocked[i] = REASON_BEHIND;
	}
	return false;
}

/* ---- random worlds ---- */

typedef struct Counts
{
	int			marked;
	int			behind;
	int			on_targets;		/* placed on a target, since it ends in time */
	int			admitted;
} Counts;

static World *
draw_backfill(uint64 number, Options options)
{
	World	   *world = draw_world(number, options);

	for (int p = 0; p < world->npools; p++)
		world->pools[p].best_effort = below(4) == 0;
	for (int l = 0; l < world->nlanes; l++)
	{
		world->lanes[l].ends = below(3) == 0 ? DT_NOEND : 1000 + below(100);
		world->lanes[l].own = REASON_NONE;
		world->lanes[l].head_id = 1 + l;
	}
	for (int n = 0; n < MAX_NODES; n++)
		node_ends[n] = below(3) == 0 ? DT_NOEND : 1000 + below(100);
	world->read_ends = give_ends;
	return world;
}

static bool
same_targets(Placer *placer)
{
	World	   *world = placer->world;

	for (int n = 0; n < world->nnodes; n++)
		if (placer->is_target[n] != slow_target[n])
			return false;
	for (int p = 0; p < world->npools; p++)
		for (int t = 0; t < world->pools[p].ntypes; t++)
		{
			const Room *home = &placer->rooms[placer->first_room[p] + t];
			const SlowHead *head = &heads[p][home->type];

			if ((home->targets != NULL) != head->set ||
				(head->set && (home->head_id != head->workload_id || home->bound != head->bound)))
				return false;
		}
	return true;
}

static bool
same_pods(const Admission *a, const Admission *b)
{
	for (int i = 0; i < a->npods; i++)
		if (a->pods[i].node != b->pods[i].node)
			return false;
	return a->pool == b->pool && a->type == b->type;
}

/* The heads' workloads are those of lanes that are on a target node's type: which one is ahead must be one of them. */
static bool
right_ahead(const Lane *lane, const Reason *reason)
{
	return reason->code != REASON_BEHIND || heads[lane->pools[0]][reason->type].workload_id == reason->ahead;
}

/* One turn of a lane in both worlds; false when they differ. */
static bool
turn(Placer *placer, World *slow, int l, Counts *counts)
{
	World	   *world = placer->world;
	Candidate	candidate;
	Admission	admission;
	Admission	expected = {.npods = world->lanes[l].replicas};
	ReasonCode	blocked[MAX_POOLS] = {0};
	bool		by_room[MAX_POOLS];
	Reason	   *reason = NULL;
	Spot		spot;
	bool		fits;

	candidate_init(world, &world->lanes[l], &candidate);
	expected.pods = palloc(sizeof(PodPlace) * expected.npods);
	fits = candidate_fits(placer, &candidate, &spot, &reason);
	if (fits != slow_admit(slow, &slow->lanes[l], &expected, blocked))
		return false;
	if (fits)
	{
		candidate_admit(placer, &candidate, spot, &admission);
		counts->admitted++;
		for (int i = 0; i < admission.npods; i++)
		{
			counts->on_targets += slow_target[admission.pods[i].node];
			if (target_of_other(placer, admission.pods[i].node, &candidate))
				return false;
		}
		return same_pods(&admission, &expected);
	}
	for (int i = 0; i < candidate.lane->npools; i++)
	{
		if (candidate.blocked[i] != blocked[i])
			return false;
		by_room[i] = !world->pools[candidate.lane->pools[i]].best_effort &&
			(blocked[i] == REASON_POOL_QUOTA || blocked[i] == REASON_NO_NODE_FITS ||
			 blocked[i] == REASON_GANG_DOES_NOT_FIT || blocked[i] == REASON_BEHIND);
	}
	counts->behind += reason->code == REASON_BEHIND;
	if (!right_ahead(candidate.lane, reason) ||
		targets_mark(placer, &candidate) != slow_mark(slow, &slow->lanes[l], by_room))
		return false;
	counts->marked = placer->nheads;
	return same_targets(placer);
}

/* Takes a target out, as a preemption does, lets something leave, and puts it back: it is still a target. */
static void
free_a_device(Placer *placer, World *slow)
{
	int			n = below(slow->nnodes);

	room_take_out(placer, n);
	for (int i = 0; i < 2; i++)
	{
		PoolNode   *node = i ? &slow->nodes[n] : &placer->world->nodes[n];

		if (node->ndevices > 0)
		{
			node->free[0] += RPQ_UNIT - node->device_free[0];
			node->device_free[0] = RPQ_UNIT;
		}
	}
	room_put_back(placer, n);
}

static void
random_worlds(const char *name, Options options, int n)
{
	Counts		sum = {0};
	int			bad = 0;

	for (int number = 0; number < n; number++)
	{
		World	   *world = draw_backfill(number, options);
		World	   *slow = draw_backfill(number, options);
		Placer	   *placer = placer_create(world);
		Counts		counts = {0};
		bool		same = true;

		memset(heads, 0, sizeof(heads));
		memset(slow_target, 0, sizeof(slow_target));
		for (int step = 0; step < 30 && same && world->nlanes > 0; step++)
		{
			same = turn(placer, slow, below(world->nlanes), &counts);
			if (same && below(4) == 0)
				free_a_device(placer, slow);
			if (!same && bad++ == 0)
				printf("# first in world %d, step %d\n", number, step);
		}
		sum.marked += counts.marked;
		sum.behind += counts.behind;
		sum.on_targets += counts.on_targets;
		sum.admitted += counts.admitted;
		shim_reset();
	}
	ok(bad == 0, psprintf("%s: targets, who may use them and who is behind, as by the slow way", name));
	printf("# %s: %d heads, %d behind, %d pods on targets, %d admitted\n", name, sum.marked, sum.behind,
		   sum.on_targets, sum.admitted);
	ok(sum.marked > 0 && sum.behind > 0 && sum.on_targets > 0, psprintf("%s: all of it happens", name));
}

/* ---- by hand ---- */

/* Two nodes of 8: a has 6 in use, b has 2. */
static World *
two_nodes(void)
{
	World	   *world = new_world(4, 4);

	add_type(world);
	add_pool(world, "p");
	add_pool_type(world, 0, 0, POLICY_BINPACK);
	world->pools[0].best_effort = false;
	load_node(world, add_node(world, "a", 0, 0, 8, 64, 64), 6, 0);
	load_node(world, add_node(world, "b", 0, 0, 8, 64, 64), 2, 0);
	world->read_ends = give_ends;
	node_ends[0] = node_ends[1] = 500;
	return world;
}

static bool
blocked_and_marks(Placer *placer, Lane *lane)
{
	Candidate	candidate;
	Reason	   *reason;
	Spot		spot;

	candidate_init(placer->world, lane, &candidate);
	return !candidate_fits(placer, &candidate, &spot, &reason) && targets_mark(placer, &candidate);
}

static const char *
placed_on(Placer *placer, Lane *lane, ReasonCode *code)
{
	Candidate	candidate;
	Reason	   *reason;
	Spot		spot;

	candidate_init(placer->world, lane, &candidate);
	if (candidate_fits(placer, &candidate, &spot, &reason))
		return placer->world->nodes[room_slot(spot.room, spot.slot)->first].name;
	*code = reason->code;
	return NULL;
}

static void
by_hand(void)
{
	World	   *world = two_nodes();
	Placer	   *placer = placer_create(world);
	Lane	   *large = add_lane(world, 0, 50, 1, 8000, 0);
	Lane	   *four = add_lane(world, 0, 50, 1, 4000, 0);
	Lane	   *two = add_lane(world, 0, 50, 1, 2000, 0);
	ReasonCode	code = REASON_NONE;

	large->head_id = 7;
	ok(blocked_and_marks(placer, large) && placer->is_target[1] && !placer->is_target[0],
	   "the target is the node from which less has to leave");
	ok(strcmp(placed_on(placer, two, &code), "a") == 0, "a gap elsewhere is filled");
	ok(placed_on(placer, four, &code) == NULL && code == REASON_BEHIND, "what would go on the target is behind");
	four->ends = 500;
	ok(placed_on(placer, four, &code) == NULL, "and so is what ends when the first there ends");
	four->ends = 499;
	ok(strcmp(placed_on(placer, four, &code), "b") == 0, "what ends before that may use it");

	world = two_nodes();
	world->nodes[1].takes_work = false;
	placer = placer_create(world);
	large = add_lane(world, 0, 50, 2, 8000, 0);
	ok(!blocked_and_marks(placer, large), "what no set of nodes that take work could hold marks nothing");

	world = two_nodes();
	world->pools[0].best_effort = true;
	placer = placer_create(world);
	ok(!blocked_and_marks(placer, add_lane(world, 0, 50, 1, 8000, 0)), "with best_effort nothing is kept back");

	world = two_nodes();
	world->pools[0].total->used[0] = world->pools[0].total->max[0];
	node_ends[0] = node_ends[1] = DT_NOEND;
	placer = placer_create(world);
	two = add_lane(world, 0, 50, 1, 2000, 0);
	ok(blocked_and_marks(placer, two) && placer->is_target[0], "one that the pool's total blocks marks the first node");
	two = add_lane(world, 0, 50, 1, 2000, 0);
	two->ends = 10;
	ok(room_get(placer, 0, 0)->bound == DT_NOBEGIN, "where nothing has to leave nobody is let in");
	shim_reset();
}

/* F13: what waits for one pool is not in the way of what waits for another. */
static void
head_of_line(void)
{
	World	   *world = new_world(8, 4);
	const int	sizes[] = {8000, 8000, 8000, 2000};
	CyclePlan  *plan;
	const char *nodes[4] = {"", "", "", ""};

	add_type(world);
	add_type(world);
	add_pool(world, "pA");
	add_pool_type(world, 0, 0, POLICY_BINPACK);
	add_pool(world, "pB");
	add_pool_type(world, 1, 1, POLICY_BINPACK);
	for (int i = 1; i <= 5; i++)
		add_node(world, psprintf("a%d", i), 0, 0, 8, 64, 64);
	load_node(world, add_node(world, "b1", 1, 1, 8, 64, 64), 8, 0);
	load_node(world, add_node(world, "b2", 1, 1, 8, 64, 64), 8, 0);
	world->pools[0].best_effort = world->pools[1].best_effort = false;
	world->read_ends = give_ends;
	for (int i = 0; i < 4; i++)
		add_member(add_lane(world, i == 0, 50, 1, sizes[i], 0), 100 + i, 1 + i);
	plan = plan_world(world);
	for (int i = 0; i < plan->nadmissions; i++)
		nodes[plan->admissions[i].member.workload_id - 1] = world->nodes[plan->admissions[i].pods[0].node].name;
	ok(plan->nadmissions == 3 && strcmp(nodes[1], "a1") == 0 && strcmp(nodes[2], "a2") == 0 &&
	   strcmp(nodes[3], "a3") == 0 && world->pools[0].total->used[0] == 18 * RPQ_UNIT,
	   "F13: the three behind the one that waits for another pool are placed");
	ok(world->lanes[0].reason->pool == 1 && world->lanes[0].reason->missing[0] == 8 * RPQ_UNIT &&
	   world->lanes[0].reason->available[0] == 0, "F13: its reason names its pool, 8 more needed, 0 free");
	shim_reset();
}

/* ---- starvation ---- */

typedef struct Running
{
	int			node;
	int			gpus;
	TimestampTz ends;			/* in fact */
	TimestampTz ends_at_most;
} Running;

#define SIM_NODES	12
#define SIM_PODS	(8 * SIM_NODES)

static const Running *standing;
static int	nstanding;

/* What the nodes are without what has an end.  Which devices are free does not matter, only how many. */
static void
give_later(World *world, const int *nodes, int nnodes, NodeLater *later)
{
	for (int i = 0; i < nnodes; i++)
	{
		const PoolNode *node = &world->nodes[nodes[i]];
		int			gpus = 8;

		later[i].last = DT_NOBEGIN;
		later[i].free = memcpy(zeros(), node->free, sizeof(int64) * NKEYS);
		later[i].device_free = palloc0(sizeof(int64) * 8);
		for (int r = 0; r < nstanding; r++)
			if (standing[r].node == nodes[i] && standing[r].ends_at_most == DT_NOEND)
				gpus -= standing[r].gpus;
			else if (standing[r].node == nodes[i])
				later[i].last = Max(later[i].last, standing[r].ends_at_most);
		later[i].free[0] = gpus * RPQ_UNIT;
		for (int d = 0; d < gpus; d++)
			later[i].device_free[d] = RPQ_UNIT;
	}
}

/* What stands on the nodes. */
static World *
world_of(const Running *running, int nrunning, bool best_effort)
{
	World	   *world = new_world(SIM_NODES, 64);

	add_type(world);
	add_pool(world, "p");
	add_pool_type(world, 0, 0, below(2) ? POLICY_BINPACK : POLICY_SPREAD);
	world->pools[0].best_effort = best_effort;
	world->read_ends = give_ends;
	world->read_later = give_later;
	standing = running;
	nstanding = nrunning;
	for (int n = 0; n < SIM_NODES; n++)
	{
		add_node(world, psprintf("n%02d", n), 0, 0, 8, 64, 64);
		node_ends[n] = DT_NOEND;
	}
	for (int i = 0; i < nrunning; i++)
	{
		load_node(world, &world->nodes[running[i].node], running[i].gpus, 0);
		node_ends[running[i].node] = Min(node_ends[running[i].node], running[i].ends_at_most);
	}
	return world;
}

/* The plan by hand: first the gang, then small work without end; returns whether the gang came in. */
static bool
step_with_gang(Running *running, int *nrunning, TimestampTz now, bool best_effort, int ends_known, int replicas)
{
	World	   *world = world_of(running, *nrunning, best_effort);
	Placer	   *placer = placer_create(world);
	Lane	   *gang = add_lane(world, 0, 50, replicas, 8000, 0);
	Candidate	candidate;
	Admission	admission;
	Reason	   *reason;
	Spot		spot;

	candidate_init(world, gang, &candidate);
	if (replicas > 0 && candidate_fits(placer, &candidate, &spot, &reason))
		return true;
	if (replicas > 0)
		targets_mark(placer, &candidate);
	for (int i = 0; i < 20; i++)
	{
		Lane	   *lane = add_lane(world, 0, 50, 1, 1000 * (1 + below(4)), 0);
		TimestampTz runs = 1 + below(200);

		if (below(100) < ends_known)
			lane->ends = now + runs + below(20);
		candidate_init(world, lane, &candidate);
		if (!candidate_fits(placer, &candidate, &spot, &reason))
			continue;
		candidate_admit(placer, &candidate, spot, &admission);
		running[(*nrunning)++] = (Running) {admission.pods[0].node, (int) (lane->request[0] / RPQ_UNIT), now + runs,
			lane->ends};
	}
	return false;
}

/* Steps until the gang comes in, counting the ends; -1 when it never does. */
static int
ends_until_admitted(bool best_effort, int ends_known, int replicas)
{
	Running		running[SIM_PODS];
	int			nrunning = 0;
	int			nends = 0;

	for (TimestampTz now = 1; now < 3000; now++)
	{
		int			n = 0;
		bool		admitted = step_with_gang(running, &nrunning, now, best_effort, ends_known,
											  now < 300 ? 0 : replicas);

		shim_reset();
		if (admitted)
			return nends;
		for (int i = 0; i < nrunning; i++)
			if (running[i].ends > now)
				running[n++] = running[i];
			else
				nends += now >= 300;
		nrunning = n;
	}
	return -1;
}

static void
starvation(const char *name, bool best_effort, int ends_known)
{
	int			most = 0;
	int			never = 0;

	for (int number = 0; number < 8; number++)
	{
		int			ends;

		seed_with(number);
		ends = ends_until_admitted(best_effort, ends_known, 1 + below(SIM_NODES));
		never += ends < 0;
		most = Max(most, ends);
	}
	printf("# %s: after at most %d ends; never: %d of 8\n", name, most, never);
	if (best_effort)
		ok(never >= 6, psprintf("%s: a gang starves where small work keeps coming", name));
	else
		ok(never == 0 && most < 10 * SIM_PODS, psprintf("%s: a gang is admitted after boundedly many ends", name));
}

int
main(void)
{
	by_hand();
	head_of_line();
	random_worlds("one account", (Options) {.exact_heads = true}, 300);
	random_worlds("many ties", (Options) {.ties = true}, 300);
	random_worlds("large gangs", (Options) {.large_gangs = true}, 300);
	random_worlds("accounts apart", (Options) {.isolate = true}, 300);
	random_worlds("accounts apart, many ties", (Options) {.isolate = true, .ties = true}, 300);
	starvation("backfill", false, 0);
	starvation("backfill, some ends known", false, 50);
	starvation("backfill, all ends known", false, 100);
	starvation("best effort", true, 50);
	return done_testing();
}

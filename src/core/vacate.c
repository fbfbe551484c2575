/*
 * vacate.c
 *
 * Victims give their room, and the preemptor is placed in it: admitted at once when nobody's room needs time, else its
 * room is held.
 *
 * A hold is placed as if all victims were gone.  What slow victims still have is not free for anybody else, so of each
 * node no more stays free than was free before, and what victims that are not slow have left.
 */
#include "postgres.h"

#include "core/preempt.h"
#include "core/reserve.h"
#include "core/resources.h"

/* What was free on a node that victims leave, slow ones not counted. */
typedef struct Vacated
{
	int			node;
	bool		slow;			/* a slow victim stays on it */
	int64		account;		/* whose pods it hosts without those that are not slow */
	int64	   *free;			/* [nkeys] */
	int64	   *devices;		/* [ndevices] */
} Vacated;

typedef struct Vacating
{
	Placer	   *placer;
	World	   *world;
	Evictor    *evictor;
	const Victims *victims;
	bool		any_slow;
	int			nnodes;
	Vacated    *nodes;			/* [nnodes], each once, ascending */
} Vacating;

/* ---- nodes ---- */

/*
 * A pod's room is free on its node (sign 1), or taken again (-1).  Of devices what is free is never counted below zero.
 */
void
node_give(World *world, const Placed *placed, int pod, int sign)
{
	const PodPlace *place = &placed->pods[pod];
	PoolNode   *node = &world->nodes[place->node];
	int64		of_device = sign * Min(placed->request[RPQ_KEY_GPU], RPQ_UNIT);

	for (int i = 0; i < place->ndevices; i++)
	{
		int64	   *device = &node->device_free[place->devices[i]];

		node->free[RPQ_KEY_GPU] -= Max(*device, 0);
		*device += of_device;
		node->free[RPQ_KEY_GPU] += Max(*device, 0);
	}
	for (int k = 0; k < world->nkeys; k++)
		if (k != RPQ_KEY_GPU)
			node->free[k] += sign * placed->request[k];
}

static bool
is_gone(const Evictor *evictor, const Placed *placed, bool slow_too)
{
	return evictor->chosen[placed_index(evictor, placed)] && (slow_too || !placed->slow);
}

/*
 * Whose pods a node hosts once the chosen victims (slow_too: slow ones as well) have left, whose room must be free on
 * it by then: 0 for nobody's.  What else it hosts than placed workloads, holds and what this plan has admitted, shows
 * in what is not free; then it stays whose it was.
 */
int64
account_left(const Evictor *evictor, int n, bool slow_too)
{
	const World *world = evictor->world;
	const PoolNode *node = &world->nodes[n];
	int64		account = 0;
	bool		nothing = true;
	bool		known = true;

	if (node->account == 0 || node->capacity == NULL || evictor->first_guest == NULL)
		return node->account;
	for (int d = 0; d < node->ndevices; d++)
		if (node->device_free[d] < 0)
			return node->account;
	for (int k = 0; k < world->nkeys; k++)
	{
		int64		left = node->capacity[k] - node->free[k];

		nothing &= left == 0;
		for (int g = evictor->first_guest[n]; g >= 0; g = evictor->guests[g].next)
			if (!is_gone(evictor, evictor->guests[g].placed, slow_too))
				left -= evictor->guests[g].placed->request[k];
		known &= left == 0;
	}
	if (nothing)
		return 0;
	if (node->account != SEVERAL_ACCOUNTS || !known)
		return node->account;
	for (int g = evictor->first_guest[n]; g >= 0; g = evictor->guests[g].next)
	{
		const Placed *placed = evictor->guests[g].placed;

		if (is_gone(evictor, placed, slow_too))
			continue;
		if (account != 0 && account != placed->account_id)
			return SEVERAL_ACCOUNTS;
		account = placed->account_id;
	}
	return account;
}

static void
take_nodes_out(Vacating *vacating, bool slow_alone)
{
	for (int i = 0; i < vacating->nnodes; i++)
		if (vacating->nodes[i].slow || !slow_alone)
			room_take_out(vacating->placer, vacating->nodes[i].node);
}

static void
put_nodes_back(Vacating *vacating, bool slow_alone)
{
	for (int i = 0; i < vacating->nnodes; i++)
		if (vacating->nodes[i].slow || !slow_alone)
			room_put_back(vacating->placer, vacating->nodes[i].node);
}

static int
compare_vacated(const void *a, const void *b)
{
	const Vacated *x = a;
	const Vacated *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

/* Each node that a victim leaves, once. */
static void
list_nodes(Vacating *vacating)
{
	const Victims *victims = vacating->victims;
	int			npods = 0;
	int			n = 0;

	for (int v = 0; v < victims->nvictims; v++)
		npods += victims->victims[v]->npods;
	vacating->nodes = palloc0(sizeof(Vacated) * ((Size) npods + 1));
	for (int v = 0; v < victims->nvictims; v++)
	{
		const Placed *placed = victims->victims[v];

		vacating->any_slow |= placed->slow;
		for (int i = 0; i < placed->npods; i++)
		{
			if (placed->pods[i].node < 0)
				continue;
			vacating->nodes[n].node = placed->pods[i].node;
			vacating->nodes[n++].slow = placed->slow;
		}
	}
	qsort(vacating->nodes, n, sizeof(Vacated), compare_vacated);
	for (int i = 0; i < n; i++)
		if (vacating->nnodes > 0 && vacating->nodes[vacating->nnodes - 1].node == vacating->nodes[i].node)
			vacating->nodes[vacating->nnodes - 1].slow |= vacating->nodes[i].slow;
		else
			vacating->nodes[vacating->nnodes++] = vacating->nodes[i];
}

/* Gives the room of slow victims, or of the others. */
static void
give_room(Vacating *vacating, bool slow)
{
	for (int v = 0; v < vacating->victims->nvictims; v++)
	{
		const Placed *placed = vacating->victims->victims[v];

		for (int i = 0; i < placed->npods && placed->slow == slow; i++)
			if (placed->pods[i].node >= 0)
				node_give(vacating->world, placed, i, 1);
	}
}

/* What is free at present is all that may stay free: slow victims have not left yet. */
static void
note_free(Vacating *vacating)
{
	const World *world = vacating->world;

	for (int i = 0; i < vacating->nnodes; i++)
	{
		Vacated    *vacated = &vacating->nodes[i];
		const PoolNode *node = &world->nodes[vacated->node];

		if (!vacated->slow)
			continue;
		vacated->account = account_left(vacating->evictor, vacated->node, false);
		vacated->free = palloc(sizeof(int64) * world->nkeys);
		memcpy(vacated->free, node->free, sizeof(int64) * world->nkeys);
		vacated->devices = palloc(sizeof(int64) * Max(node->ndevices, 1));
		memcpy(vacated->devices, node->device_free, sizeof(int64) * node->ndevices);
	}
}

/* With all victims gone, whom their nodes host. */
static void
renew_accounts(Vacating *vacating)
{
	for (int i = 0; i < vacating->nnodes; i++)
	{
		int			n = vacating->nodes[i].node;

		vacating->world->nodes[n].account = account_left(vacating->evictor, n, true);
	}
}

/*
 * A node with slow victims after the hold was placed: no more is free than was noted.  It hosts those who are still
 * there and whom the hold is for.
 */
static void
cut_free(Vacating *vacating)
{
	const World *world = vacating->world;

	for (int i = 0; i < vacating->nnodes; i++)
	{
		const Vacated *vacated = &vacating->nodes[i];
		PoolNode   *node = &world->nodes[vacated->node];

		if (!vacated->slow)
			continue;
		for (int k = 0; k < world->nkeys; k++)
			node->free[k] = Min(node->free[k], vacated->free[k]);
		if (node->ndevices > 0)
			node->free[RPQ_KEY_GPU] = 0;
		for (int d = 0; d < node->ndevices; d++)
		{
			node->device_free[d] = Min(node->device_free[d], vacated->devices[d]);
			node->free[RPQ_KEY_GPU] += Max(node->device_free[d], 0);
		}
		if (node->account == 0 || node->account == vacated->account)
			node->account = vacated->account;
		else if (vacated->account != 0)
			node->account = SEVERAL_ACCOUNTS;
	}
}

/* ---- what is counted elsewhere ---- */

static int
compare_limits(const void *a, const void *b)
{
	const AccountLimit *x = a;
	const AccountLimit *y = b;

	if (x->account_id != y->account_id)
		return x->account_id < y->account_id ? -1 : 1;
	return (x->limit > y->limit) - (x->limit < y->limit);
}

/* The personal quotas that the lanes know, each once, by account. */
static void
know_limits(Evictor *evictor)
{
	const World *world = evictor->world;
	int			n = 0;

	evictor->limits_known = true;
	for (int l = 0; l < world->nlanes; l++)
		n += world->lanes[l].nlimits;
	evictor->limits = palloc(sizeof(AccountLimit) * (n + 1));
	n = 0;
	for (int l = 0; l < world->nlanes; l++)
		for (int i = 0; i < world->lanes[l].nlimits; i++)
			if (world->lanes[l].limits[i]->kind == LIMIT_USER)
			{
				evictor->limits[n].account_id = world->lanes[l].account_id;
				evictor->limits[n++].limit = world->lanes[l].limits[i];
			}
	qsort(evictor->limits, n, sizeof(AccountLimit), compare_limits);
	for (int i = 0; i < n; i++)
		if (i == 0 || compare_limits(&evictor->limits[i], &evictor->limits[i - 1]) != 0)
			evictor->limits[evictor->nlimits++] = evictor->limits[i];
}

static void
uncharge(const World *world, UsageLimit *limit, const Placed *placed)
{
	for (int k = 0; k < world->nkeys; k++)
		limit->used[k] -= placed_total(placed, k);
}

/* A direct submission no longer counts under the personal quotas of its account. */
static void
uncharge_account(Evictor *evictor, const Placed *placed)
{
	int			low = 0;
	int			high;

	if (!evictor->limits_known)
		know_limits(evictor);
	high = evictor->nlimits;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (evictor->limits[middle].account_id < placed->account_id)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < evictor->nlimits && evictor->limits[low].account_id == placed->account_id; low++)
	{
		UsageLimit *limit = evictor->limits[low].limit;

		if (limit_binds(limit, placed->home, RPQ_WHOLE_POOL) || limit_binds(limit, placed->home, placed->type))
			uncharge(evictor->world, limit, placed);
	}
}

/*
 * A victim counts as given for reservations from now on, and for limits only when its room is indeed free.  Work that
 * borrows is in no pool's total.
 */
static void
uncharge_victim(Vacating *vacating, const Placed *placed)
{
	World	   *world = vacating->world;
	int64	   *total = palloc(sizeof(int64) * world->nkeys);

	for (int k = 0; k < world->nkeys; k++)
		total[k] = placed_total(placed, k);
	policy_hold(vacating->placer, placed->policy, total, -1);
	pfree(total);
	if (placed->slow)
		return;
	if (placed->home == placed->pool && world->pools[placed->pool].total != NULL)
		uncharge(world, world->pools[placed->pool].total, placed);
	if (placed->policy < 0)
		uncharge_account(vacating->evictor, placed);
	else if (world->policies[placed->policy].limit != NULL)
		uncharge(world, world->policies[placed->policy].limit, placed);
}

/*
 * The pool's total counts what is taken once: a hold only as far as it is more than its slow victims still have.
 */
static void
count_once(const Vacating *vacating, const Candidate *candidate)
{
	const World *world = vacating->world;
	UsageLimit *total = world->pools[vacating->victims->pool].total;

	for (int k = 0; total != NULL && k < world->nkeys; k++)
	{
		int64		slow = 0;

		for (int v = 0; v < vacating->victims->nvictims; v++)
		{
			const Placed *placed = vacating->victims->victims[v];

			if (placed->slow && placed->home == placed->pool)
				slow += placed_total(placed, k);
		}
		total->used[k] -= Min(candidate->total[k], slow);
	}
}

/* ---- taking ---- */

static Spot
find_spot(Placer *placer, const Candidate *candidate, const Victims *victims)
{
	const Pool *pool = &placer->world->pools[victims->pool];
	int			nspots;

	for (int t = 0; t < pool->ntypes; t++)
		placer->usable[t] = pool->types[t].type == victims->type;
	nspots = place_candidates(placer, victims->pool, placer->usable, candidate->need, placer->spots);
	if (nspots == 0 || room_count(placer->spots[0].room->home, candidate->need, candidate->need->replicas) <
		candidate->need->replicas)
		ereport(ERROR, (errmsg_internal("the room of the victims does not hold the preemptor")));
	return placer->spots[0];
}

/*
 * Takes a set that preempt_find() has just found.  Returns whether the candidate is admitted at once; else the
 * admission is where room is held for it.
 */
bool
preempt_take(Placer *placer, const Candidate *candidate, const Victims *victims, Admission *admission)
{
	World	   *world = placer->world;
	Vacating	vacating = {0};

	vacating.placer = placer;
	vacating.world = world;
	vacating.evictor = evictor_get(placer);
	vacating.victims = victims;
	if (world->take_victims != NULL)
		world->take_victims(world, victims->victims, victims->nvictims);
	list_nodes(&vacating);
	take_nodes_out(&vacating, false);
	for (int v = 0; v < victims->nvictims; v++)
	{
		victims->victims[v]->leaving = true;
		vacating.evictor->chosen[placed_index(vacating.evictor, victims->victims[v])] = true;
		uncharge_victim(&vacating, victims->victims[v]);
	}
	give_room(&vacating, false);
	note_free(&vacating);
	give_room(&vacating, true);
	renew_accounts(&vacating);
	put_nodes_back(&vacating, false);
	candidate_admit(placer, candidate, find_spot(placer, candidate, victims), admission);
	if (vacating.any_slow)
	{
		take_nodes_out(&vacating, true);
		cut_free(&vacating);
		put_nodes_back(&vacating, true);
		count_once(&vacating, candidate);
	}
	/* who is slow is still there for whoever comes later in this plan */
	for (int v = 0; v < victims->nvictims; v++)
		if (victims->victims[v]->slow)
			vacating.evictor->chosen[placed_index(vacating.evictor, victims->victims[v])] = false;
	return !vacating.any_slow;
}

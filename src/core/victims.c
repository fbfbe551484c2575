/*
 * victims.c
 *
 * What is placed, in the order in which a preemptor seeks its victims.
 *
 * A cluster has many placed workloads, and a preemptor takes few of them.  So they are dealt once to groups of which
 * the order knows all that depends on the preemptor: what it says of one it says of all.  A preemptor then orders the
 * groups that it may take from, and a group is sorted, by what is left of the order, only when a search comes to it.
 * A search costs the number of groups and what it looks at; the next one in the same plan finds all that was sorted.
 *
 * The order is total, so nothing depends on the order of rows.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/preempt.h"

#define FEWEST_GROUPS	64

/* Finds the group of a placed workload by what makes a group. */
typedef struct GroupTable
{
	Evictor    *evictor;
	int			maxgroups;
	uint32		nbuckets;		/* a power of two, twice as many as groups at least */
	int		   *buckets;		/* index of a group, -1: none */
} GroupTable;

/* ---- dealing ---- */

static uint32
group_hash(const VictimGroup *group)
{
	uint64		h = UINT64CONST(0x9E3779B97F4A7C15);
	int			parts[4];

	parts[0] = group->room * 2 + group->borrowed;
	parts[1] = group->priority;
	parts[2] = group->policy;
	parts[3] = group->home;
	for (int i = 0; i < 4; i++)
	{
		h ^= (uint32) parts[i];
		h *= UINT64CONST(0xFF51AFD7ED558CCD);
		h ^= h >> 32;
	}
	return (uint32) h;
}

static bool
same_group(const VictimGroup *a, const VictimGroup *b)
{
	return a->room == b->room && a->borrowed == b->borrowed && a->priority == b->priority &&
		a->policy == b->policy && a->home == b->home;
}

/* Where a group is in the table, or would be. */
static int *
group_bucket(const GroupTable *table, const VictimGroup *group)
{
	uint32		at = group_hash(group) & (table->nbuckets - 1);

	while (table->buckets[at] >= 0 && !same_group(&table->evictor->groups[table->buckets[at]], group))
		at = (at + 1) & (table->nbuckets - 1);
	return &table->buckets[at];
}

static void
grow_groups(GroupTable *table)
{
	Evictor    *evictor = table->evictor;

	table->maxgroups *= 2;
	evictor->groups = repalloc(evictor->groups, sizeof(VictimGroup) * table->maxgroups);
	pfree(table->buckets);
	table->nbuckets = 2 * table->maxgroups;
	table->buckets = palloc(sizeof(int) * table->nbuckets);
	memset(table->buckets, 0xFF, sizeof(int) * table->nbuckets);
	for (int i = 0; i < evictor->ngroups; i++)
		*group_bucket(table, &evictor->groups[i]) = i;
}

static int
group_get(GroupTable *table, const VictimGroup *like)
{
	Evictor    *evictor = table->evictor;
	int		   *bucket = group_bucket(table, like);
	VictimGroup *group;

	if (*bucket >= 0)
		return *bucket;
	if (evictor->ngroups == table->maxgroups)
	{
		grow_groups(table);
		bucket = group_bucket(table, like);
	}
	*bucket = evictor->ngroups;
	group = &evictor->groups[evictor->ngroups];
	*group = *like;
	group->sorted = false;
	group->gone = 0;
	group->nplaced = 0;
	group->placed = NULL;
	group->room_sum = palloc0(sizeof(int64) * evictor->world->nkeys);
	group->least = palloc(sizeof(int64) * evictor->world->nkeys);
	for (int k = 0; k < evictor->world->nkeys; k++)
		group->least[k] = PG_INT64_MAX;
	group->spent = 0;
	group->next = evictor->first_group[group->room];
	evictor->first_group[group->room] = evictor->ngroups;
	return evictor->ngroups++;
}

/*
 * The group that a placed workload belongs to; false when nobody may ever take its room.  Work that borrows in an
 * exclusive pool is not protected by the time that it has run: whoever is at home there comes first.
 */
static bool
group_of(const Placer *placer, const Placed *placed, VictimGroup *group)
{
	const World *world = placer->world;
	const Pool *pool;
	int			t = 0;

	if (placed->guarantee || placed->leaving || placed->pool < 0)
		return false;
	pool = &world->pools[placed->pool];
	group->borrowed = pool->exclusive && placed->home != placed->pool;
	if (pool->pay_as_you_go || (!group->borrowed && placed->immune_until > world->now))
		return false;
	while (t < pool->ntypes && pool->types[t].type != placed->type)
		t++;
	if (t == pool->ntypes)
		return false;
	group->room = placer->first_room[placed->pool] + t;
	group->priority = placed->priority;
	group->policy = placed->policy;
	group->home = placed->home;
	return true;
}

static void
deal_placed(Placer *placer, Evictor *evictor)
{
	World	   *world = placer->world;
	GroupTable	table = {evictor, FEWEST_GROUPS, 2 * FEWEST_GROUPS, NULL};
	int		   *group_of_placed = palloc(sizeof(int) * (world->nplaced + 1));
	Placed	  **next = palloc(sizeof(Placed *) * (world->nplaced + 1));

	evictor->groups = palloc(sizeof(VictimGroup) * table.maxgroups);
	table.buckets = palloc(sizeof(int) * table.nbuckets);
	memset(table.buckets, 0xFF, sizeof(int) * table.nbuckets);
	for (int i = 0; i < world->nplaced; i++)
	{
		const Placed *placed = &world->placed[i];
		VictimGroup like = {0};
		VictimGroup *group;

		CHECK_FOR_INTERRUPTS();
		group_of_placed[i] = -1;
		if (!group_of(placer, placed, &like))
			continue;
		group_of_placed[i] = group_get(&table, &like);
		group = &evictor->groups[group_of_placed[i]];
		group->nplaced++;
		for (int k = 0; k < world->nkeys; k++)
		{
			group->room_sum[k] += placed_total(placed, k);
			group->least[k] = Min(group->least[k], placed_total(placed, k));
		}
	}
	for (int g = 0; g < evictor->ngroups; g++)
	{
		evictor->groups[g].placed = next;
		next += evictor->groups[g].nplaced;
		evictor->groups[g].nplaced = 0;
	}
	for (int i = 0; i < world->nplaced; i++)
		if (group_of_placed[i] >= 0)
		{
			VictimGroup *group = &evictor->groups[group_of_placed[i]];

			group->placed[group->nplaced++] = &world->placed[i];
		}
	pfree(group_of_placed);
	pfree(table.buckets);
}

/* Whose pods are on which node, where that decides who else may go there. */
static void
deal_guests(Evictor *evictor)
{
	World	   *world = evictor->world;
	bool		any = false;
	int			npods = 0;

	for (int p = 0; p < world->npools; p++)
		any |= world->pools[p].isolate;
	if (!any)
		return;
	for (int i = 0; i < world->nplaced; i++)
		npods += world->placed[i].npods;
	evictor->guests = palloc(sizeof(Guest) * ((Size) npods + 1));
	evictor->first_guest = palloc(sizeof(int) * (world->nnodes + 1));
	memset(evictor->first_guest, 0xFF, sizeof(int) * (world->nnodes + 1));
	for (int i = 0; i < world->nplaced; i++)
	{
		const Placed *placed = &world->placed[i];

		for (int pod = 0; pod < placed->npods; pod++)
		{
			int			node = placed->pods[pod].node;
			Guest	   *guest = &evictor->guests[evictor->nguests];

			if (node < 0 || !world->pools[world->nodes[node].pool].isolate)
				continue;
			guest->placed = placed;
			guest->next = evictor->first_guest[node];
			evictor->first_guest[node] = evictor->nguests++;
		}
	}
}

/*
 * What is placed, loaded if no candidate of this plan needed it before.
 */
Evictor *
evictor_get(Placer *placer)
{
	World	   *world = placer->world;
	Evictor    *evictor = placer->evictor;

	if (evictor != NULL)
		return evictor;
	if (world->load_placed != NULL)
		world->load_placed(world);
	placer->evictor = evictor = palloc0(sizeof(Evictor));
	evictor->world = world;
	evictor->first_group = palloc(sizeof(int) * (placer->nrooms + 1));
	memset(evictor->first_group, 0xFF, sizeof(int) * (placer->nrooms + 1));
	evictor->given = palloc0(sizeof(int64) * ((Size) world->npolicies * world->nkeys + 1));
	evictor->chosen = palloc0(sizeof(bool) * (world->nplaced + 1));
	deal_placed(placer, evictor);
	deal_guests(evictor);
	return evictor;
}

/* ---- the order ---- */

/*
 * Compares a / b with c / d, b and d above zero, without a product that could overflow: by their whole parts, then by
 * what is left turned upside down.
 */
static int
compare_ratios(int64 a, int64 b, int64 c, int64 d)
{
	for (;;)
	{
		int64		whole_a = a / b - (a % b < 0);
		int64		whole_c = c / d - (c % d < 0);
		int64		left_a;
		int64		left_c;

		if (whole_a != whole_c)
			return whole_a < whole_c ? -1 : 1;
		left_a = a % b + (a % b < 0 ? b : 0);
		left_c = c % d + (c % d < 0 ? d : 0);
		if (left_a == 0 || left_c == 0)
			return (left_a > 0) - (left_c > 0);
		a = d;
		c = b;
		b = left_c;
		d = left_a;
	}
}

/* What the order says of two groups: less than zero when victims of the first come first. */
static int
compare_groups(const VictimKey *a, const VictimKey *b)
{
	if (a->borrowed != b->borrowed)
		return a->borrowed ? -1 : 1;
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->direct != b->direct)
		return a->direct ? -1 : 1;
	return a->direct ? 0 : compare_ratios(b->above, b->per, a->above, a->per);
}

static int
compare_placed(const Placed *x, const Placed *y)
{
	if (x->checkpointable != y->checkpointable)
		return x->checkpointable ? -1 : 1;
	if (x->started_at != y->started_at)
		return x->started_at > y->started_at ? -1 : 1;
	if (x->submitted_at != y->submitted_at)
		return x->submitted_at > y->submitted_at ? -1 : 1;
	return x->workload_id > y->workload_id ? -1 : x->workload_id < y->workload_id;
}

/*
 * The order of two victims, of whichever pools: less than zero when the first is sought first.
 */
int
victim_compare(const VictimKey *a, const VictimKey *b)
{
	int			c = compare_groups(a, b);

	return c != 0 ? c : compare_placed(a->placed, b->placed);
}

static int
compare_for_sort(const void *a, const void *b)
{
	return compare_placed(*(Placed *const *) a, *(Placed *const *) b);
}

/* ---- seeking ---- */

/* Puts the next that is still there at the head of a source; false at its end. */
static bool
source_head(VictimSource *source)
{
	VictimGroup *group = source->group;

	if (!group->sorted)
		qsort(group->placed, group->nplaced, sizeof(Placed *), compare_for_sort);
	group->sorted = true;
	source->at = Max(source->at, group->gone);
	while (source->at < group->nplaced && group->placed[source->at]->leaving)
	{
		group->gone += source->at == group->gone;
		source->at++;
	}
	if (source->at == group->nplaced)
		return false;
	source->key.placed = group->placed[source->at];
	return true;
}

/*
 * Sources of equal rank are at their heads compared.  One that has come to its end comes first, so that it is found and
 * dropped.
 */
static bool
source_before(VictimSource *a, VictimSource *b)
{
	int			c = compare_groups(&a->key, &b->key);

	if (c != 0)
		return c < 0;
	if (a->key.placed == NULL && !source_head(a))
		return true;
	if (b->key.placed == NULL && !source_head(b))
		return false;
	return compare_placed(a->key.placed, b->key.placed) < 0;
}

static void
source_down(VictimOrder *order, int at)
{
	VictimSource source = order->sources[at];

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child >= order->nsources)
			break;
		if (child + 1 < order->nsources && source_before(&order->sources[child + 1], &order->sources[child]))
			child++;
		if (!source_before(&order->sources[child], &source))
			break;
		order->sources[at] = order->sources[child];
		at = child;
	}
	order->sources[at] = source;
}

/*
 * By which rule a candidate may take from a group of one of its own pools; false: by none.  What a policy holds now is
 * not looked at.
 */
static bool
rule_of_group(const Candidate *candidate, bool has_rank, int pool, const VictimGroup *group, PreemptRule *rule)
{
	const Lane *lane = candidate->lane;

	if (group->borrowed)
		*rule = PREEMPT_BORROWED;
	else if (has_rank && group->policy != lane->policy)
		*rule = PREEMPT_RESERVATION;
	else if (group->priority < lane->priority && group->policy == lane->policy &&
			 (lane->policy >= 0 || group->home == pool))
		*rule = PREEMPT_PRIORITY;
	else
		return false;
	return true;
}

/* How much a policy is above its reservation: the least over the keys that the candidate asks for. */
static void
policy_above(const World *world, const Candidate *candidate, int policy, VictimKey *key)
{
	const Policy *p = &world->policies[policy];
	const int64 *request = candidate->lane->request;

	key->per = 0;
	for (int k = 0; k < world->nkeys; k++)
	{
		int64		above = p->held[k] - p->reservation[k];

		if (request[k] <= 0 ||
			(key->per > 0 && compare_ratios(above, request[k], key->above, key->per) >= 0))
			continue;
		key->above = above;
		key->per = request[k];
	}
	if (key->per == 0)
		key->per = 1;
}

static void
group_key(const World *world, const Candidate *candidate, int priority, int policy, PreemptRule rule, VictimKey *key)
{
	memset(key, 0, sizeof(VictimKey));
	key->borrowed = rule == PREEMPT_BORROWED;
	key->priority = priority;
	key->direct = policy < 0;
	if (policy >= 0)
		policy_above(world, candidate, policy, key);
}

/*
 * Where a victim stands in the order of a candidate, as policies stand now.
 */
void
victim_key(const World *world, const Candidate *candidate, const Placed *placed, PreemptRule rule, VictimKey *key)
{
	group_key(world, candidate, placed->priority, placed->policy, rule, key);
	key->placed = placed;
}

/*
 * Makes ready to go through the placed workloads of a room that a candidate may take from, as policies stand now.
 * order->sources has room for all groups.
 */
void
victims_seek(const Evictor *evictor, const Candidate *candidate, bool has_rank, int pool, int room, VictimOrder *order)
{
	order->nsources = 0;
	order->visit = evictor->visit;
	for (int g = evictor->first_group[room]; g >= 0; g = evictor->groups[g].next)
	{
		VictimGroup *group = &evictor->groups[g];
		VictimSource *source = &order->sources[order->nsources];

		if (!rule_of_group(candidate, has_rank, pool, group, &source->rule))
			continue;
		source->group = group;
		source->at = 0;
		group_key(evictor->world, candidate, group->priority, group->policy, source->rule, &source->key);
		order->nsources++;
	}
	for (int i = order->nsources / 2 - 1; i >= 0; i--)
		source_down(order, i);
}

/*
 * The next in the order; NULL at the end.  Those that are leaving by now are passed over, and groups that are spent.
 */
Placed *
victims_next(VictimOrder *order, PreemptRule *rule)
{
	while (order->nsources > 0)
	{
		VictimSource *first = &order->sources[0];
		Placed	   *placed = NULL;

		if (first->group->spent == order->visit)
			first->at = first->group->nplaced;
		else if (first->key.placed != NULL || source_head(first))
		{
			order->last = first->group;
			placed = first->group->placed[first->at++];
			*rule = first->rule;
			first->key.placed = NULL;
		}
		if (placed == NULL || !source_head(first))
			order->sources[0] = order->sources[--order->nsources];
		if (order->nsources > 0)
			source_down(order, 0);
		if (placed != NULL)
			return placed;
	}
	return NULL;
}

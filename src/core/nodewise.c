/*
 * nodewise.c
 *
 * Victims sought node by node, where taking them in the order did not lead to a set.
 *
 * What a policy holds beyond its reservation is all that may be taken of it, and the order spends it on victims
 * wherever they are.  When those that would have helped were then passed over, the room of one replica after the other
 * is sought here on each node alone: there the best set of victims, of the nodes the one with the best set.
 *
 * The nodes are not looked at one by one.  Victims are listed in the order, and what all of them have is counted as
 * free.  A node is worth a look only when one more replica fits on it then, so the first that has a set is one with
 * the least dear, and those who come later in the order have nothing to add.  What is chosen only makes the rights of
 * the rest smaller: a node that was looked at in vain need not be looked at again until it changes.
 *
 * On a node sets are compared from the dearest workload down: that is better which does without the first in which they
 * differ.  So from the dearest to the cheapest each is left where it is if the rest, all taken, would be enough, and
 * else taken if it may be; where that comes to nothing, the last decision that could be another one is.  Of devices
 * that are shared only one can give the room for one more replica: each is looked at alone.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/search.h"

#define LOOKS_ON_NODE	4096	/* decisions about workloads in one look at a node, or at one of its devices */
#define LOOKS			262144	/* in a search */

/* A workload that may be taken, in the order. */
typedef struct Listed
{
	Choice		choice;
	bool		chosen;
	bool		aside;			/* stays where it is in the look at hand */
	bool		picked;			/* of the set that the look at hand has found */
} Listed;

/* A listed workload on one of its nodes. */
typedef struct ListLink
{
	int			listed;
	int			next;			/* the next dear one of the node, -1: none */
} ListLink;

/* A set found on a node; the dearest first. */
typedef struct NodeSet
{
	int			node;
	int			n;
	int			maxn;
	int		   *listed;			/* [n] */
} NodeSet;

typedef struct NodeWise
{
	Search	   *search;
	int			nlisted;
	int			maxlisted;
	Listed	   *listed;
	int			nlinks;
	int			maxlinks;
	ListLink   *links;
	int			npending;
	int		   *pending;		/* [nnodes] */
	int		   *by_right;		/* [npolicies][nkeys]: chosen by the rule reservation, with the key */
	int64		looks;
	int64		looks_here;
	int			node;			/* in hand */
	int			device;			/* in hand, -1: all */
	NodeSet		of_device;
	NodeSet		of_node;
	NodeSet		best;
} NodeWise;

static NodeWise *
nodewise_create(const World *world)
{
	NodeWise   *nw = palloc0(sizeof(NodeWise));

	nw->maxlisted = nw->maxlinks = 64;
	nw->listed = palloc(sizeof(Listed) * nw->maxlisted);
	nw->links = palloc(sizeof(ListLink) * nw->maxlinks);
	nw->pending = palloc(sizeof(int) * (world->nnodes + 1));
	nw->by_right = palloc(sizeof(int) * ((Size) world->npolicies * world->nkeys + 1));
	return nw;
}

/* ---- rights ---- */

/*
 * Whether a workload may be taken with those chosen so far, wherever they stand in the order: what borrows comes before
 * those that are taken by a reservation, and counts for them.
 */
static bool
may_add(const NodeWise *nw, const Listed *one)
{
	const World *world = nw->search->world;
	const Placed *placed = one->choice.placed;
	const Policy *policy = &world->policies[placed->policy];

	if (one->choice.rule != PREEMPT_BORROWED || placed->policy < 0)
		return search_may_take(nw->search, placed, one->choice.rule);
	for (int k = 0; k < world->nkeys; k++)
	{
		int			at = placed->policy * world->nkeys + k;

		if (nw->by_right[at] > 0 && placed_total(placed, k) > 0 &&
			policy->held[k] - nw->search->evictor->given[at] - placed_total(placed, k) < policy->reservation[k])
			return false;
	}
	return true;
}

static void
count_chosen(NodeWise *nw, const Listed *one, int sign)
{
	const World *world = nw->search->world;
	const Placed *placed = one->choice.placed;

	search_count(nw->search, placed, sign);
	if (one->choice.rule == PREEMPT_RESERVATION && placed->policy >= 0)
		for (int k = 0; k < world->nkeys; k++)
			if (nw->search->candidate->lane->request[k] > 0 && placed->request[k] > 0)
				nw->by_right[placed->policy * world->nkeys + k] += sign;
}

/* ---- the node in hand ---- */

static SeenNode *
seen_node(const NodeWise *nw, int n)
{
	return &nw->search->space->seen[n];
}

/* The pods of a workload on one node leave it (sign 1), or come back (-1). */
static void
move_on_node(NodeWise *nw, const Listed *one, int n, int sign)
{
	Search	   *search = nw->search;
	const Placed *placed = one->choice.placed;

	if (search->room->isolate)
		search->evictor->chosen[placed_index(search->evictor, placed)] = sign > 0;
	for (int i = 0; i < placed->npods; i++)
		if (placed->pods[i].node == n)
			search_move_pod(search, placed, i, sign);
}

static bool
enough_on_node(const NodeWise *nw)
{
	return search_times(nw->search, nw->node) > seen_node(nw, nw->node)->base;
}

static bool
has_device(const NodeWise *nw, const Placed *placed)
{
	for (int i = 0; i < placed->npods; i++)
		for (int d = 0; placed->pods[i].node == nw->node && d < placed->pods[i].ndevices; d++)
			if (placed->pods[i].devices[d] == nw->device)
				return true;
	return false;
}

/*
 * Whether a workload has some of what is short on the node in hand, devices not looked at; or keeps it from the
 * account.
 */
static bool
has_other(const NodeWise *nw, const Placed *placed)
{
	const Search *search = nw->search;
	const int64 *had = search->space->saved + search->space->saved_at[nw->node];
	const int64 *request = search->candidate->lane->request;
	int64		times = seen_node(nw, nw->node)->base + 1;

	if (search->room->isolate)
		return true;
	for (int k = 0; k < search->world->nkeys; k++)
		if (k != RPQ_KEY_GPU && request[k] > 0 && placed->request[k] > 0 && had[k] / request[k] < times)
			return true;
	return false;
}

/*
 * The best set among a node's workloads from a link on, those before it decided: picked ones are it.  must: with the
 * first of them.  When there is none all stands as before.
 */
static bool
decide_from(NodeWise *nw, int link, bool must)
{
	Listed	   *one;
	int			next;
	bool		helps = true;

	while (link >= 0 && (nw->listed[nw->links[link].listed].chosen || nw->listed[nw->links[link].listed].aside))
		link = nw->links[link].next;
	if (link < 0)
		return true;
	one = &nw->listed[nw->links[link].listed];
	next = nw->links[link].next;
	if (++nw->looks_here > LOOKS_ON_NODE)
		return false;
	if (!must)
	{
		int			whole = seen_node(nw, nw->node)->whole;

		move_on_node(nw, one, nw->node, -1);
		if (enough_on_node(nw) && decide_from(nw, next, false))
			return true;
		helps = whole != seen_node(nw, nw->node)->whole || nw->device >= 0 || has_other(nw, one->choice.placed);
		move_on_node(nw, one, nw->node, 1);
	}
	if (!helps || !may_add(nw, one))
		return false;
	count_chosen(nw, one, 1);
	one->picked = true;
	if (decide_from(nw, next, false))
		return true;
	one->picked = false;
	count_chosen(nw, one, -1);
	return false;
}

/* Those on the node in hand that are of no use for the device in hand stay (or no longer). */
static void
set_aside(NodeWise *nw, bool aside)
{
	for (int link = seen_node(nw, nw->node)->first; link >= 0; link = nw->links[link].next)
	{
		Listed	   *one = &nw->listed[nw->links[link].listed];

		if (aside)
			one->aside = !one->chosen && nw->device >= 0 && !has_device(nw, one->choice.placed) &&
				!has_other(nw, one->choice.placed);
		if (one->aside)
			move_on_node(nw, one, nw->node, aside ? -1 : 1);
		one->aside &= aside;
	}
}

/* Takes over what was picked; afterwards all that is listed is counted as free again, and nothing of it as chosen. */
static void
collect(NodeWise *nw, NodeSet *set)
{
	set->n = 0;
	set->node = nw->node;
	for (int link = seen_node(nw, nw->node)->first; link >= 0; link = nw->links[link].next)
	{
		Listed	   *one = &nw->listed[nw->links[link].listed];

		if (one->picked)
		{
			if (set->n == set->maxn)
			{
				set->maxn = set->maxn == 0 ? 16 : 2 * set->maxn;
				set->listed = set->listed == NULL ? palloc(sizeof(int) * set->maxn) :
					repalloc(set->listed, sizeof(int) * set->maxn);
			}
			set->listed[set->n++] = nw->links[link].listed;
			count_chosen(nw, one, -1);
			one->picked = false;
		}
		else if (!one->chosen && !one->aside)
			move_on_node(nw, one, nw->node, 1);
	}
}

/* The best set for the device in hand. */
static bool
look_at_device(NodeWise *nw, bool must, NodeSet *set)
{
	int			first = seen_node(nw, nw->node)->first;
	bool		found;

	nw->looks_here = 0;
	set_aside(nw, true);
	found = !(must && nw->listed[nw->links[first].listed].aside) && enough_on_node(nw) && decide_from(nw, first, must);
	if (found)
		collect(nw, set);
	set_aside(nw, false);
	nw->looks += nw->looks_here;
	return found;
}

/* Of two sets of one node: from the dearest down, that which does without the first in which they differ. */
static bool
does_without(const NodeSet *a, const NodeSet *b)
{
	for (int i = 0; i < a->n && i < b->n; i++)
		if (a->listed[i] != b->listed[i])
			return a->listed[i] < b->listed[i];
	return a->n < b->n;
}

static void
swap_sets(NodeSet *a, NodeSet *b)
{
	NodeSet		set = *a;

	*a = *b;
	*b = set;
}

/*
 * The best set of a node's workloads with which one more replica fits there, to of_node.  must: the one listed last is
 * in it, since without it there was none.
 */
static bool
look_at_node(NodeWise *nw, int n, bool must)
{
	bool		found = false;

	CHECK_FOR_INTERRUPTS();
	nw->node = n;
	nw->device = -1;
	if (nw->search->candidate->need->part == 0)
		return look_at_device(nw, must, &nw->of_node);
	for (nw->device = 0; nw->device < nw->search->world->nodes[n].ndevices; nw->device++)
		if (look_at_device(nw, must, &nw->of_device) && (!found || does_without(&nw->of_device, &nw->of_node)))
		{
			found = true;
			swap_sets(&nw->of_device, &nw->of_node);
		}
	return found;
}

/* ---- all nodes ---- */

static bool
is_better(const NodeSet *a, const NodeSet *b)
{
	if (a->listed[0] != b->listed[0])
		return a->listed[0] < b->listed[0];
	return a->n != b->n ? a->n < b->n : a->node < b->node;
}

static void
look_later(NodeWise *nw, int n)
{
	SeenNode   *seen = seen_node(nw, n);

	if (seen->pending || seen->times <= seen->base)
		return;
	seen->pending = true;
	nw->pending[nw->npending++] = n;
}

/* How many replicas fit on a node with those gone that are chosen. */
static void
count_base(NodeWise *nw, int n)
{
	SeenNode   *seen = seen_node(nw, n);
	int64		base = 0;

	for (int sign = -1; sign <= 1; sign += 2)
	{
		for (int link = seen->first; link >= 0; link = nw->links[link].next)
			if (!nw->listed[nw->links[link].listed].chosen)
				move_on_node(nw, &nw->listed[nw->links[link].listed], n, sign);
		if (sign < 0)
			base = search_times(nw->search, n);
	}
	nw->search->fitting += base - seen->base;
	seen->base = base;
	seen->changed = true;
}

/* The best set is chosen; the nodes that it leaves have changed. */
static void
choose_best(NodeWise *nw)
{
	for (int i = 0; i < nw->best.n; i++)
	{
		Listed	   *one = &nw->listed[nw->best.listed[i]];

		one->chosen = true;
		count_chosen(nw, one, 1);
		search_add(nw->search, &one->choice);
	}
	for (int i = 0; i < nw->best.n; i++)
	{
		const Placed *placed = nw->listed[nw->best.listed[i]].choice.placed;

		for (int pod = 0; pod < placed->npods; pod++)
			if (placed->pods[pod].node >= 0)
			{
				count_base(nw, placed->pods[pod].node);
				look_later(nw, placed->pods[pod].node);
			}
	}
}

/* Chooses sets as long as a pending node has one. */
static void
choose_pending(NodeWise *nw)
{
	Search	   *search = nw->search;

	while (nw->npending > 0 && search->fitting < search->candidate->lane->replicas && nw->looks < LOOKS)
	{
		int			kept = 0;

		nw->best.n = 0;
		for (int i = 0; i < nw->npending; i++)
		{
			int			n = nw->pending[i];
			SeenNode   *seen = seen_node(nw, n);

			if (seen->times > seen->base && look_at_node(nw, n, !seen->changed))
			{
				if (nw->best.n == 0 || is_better(&nw->of_node, &nw->best))
					swap_sets(&nw->of_node, &nw->best);
				nw->pending[kept++] = n;
			}
			else
				seen->pending = seen->changed = false;
		}
		nw->npending = kept;
		if (kept > 0)
			choose_best(nw);
	}
}

static void
list_one(NodeWise *nw, const Choice *choice)
{
	Listed	   *one;

	if (nw->nlisted == nw->maxlisted)
	{
		nw->maxlisted *= 2;
		nw->listed = repalloc_huge(nw->listed, sizeof(Listed) * (Size) nw->maxlisted);
	}
	one = &nw->listed[nw->nlisted++];
	memset(one, 0, sizeof(Listed));
	one->choice = *choice;
}

/* The workload listed last is on a node, with one pod or several. */
static void
link_to_node(NodeWise *nw, SeenNode *seen)
{
	if (seen->first >= 0 && nw->links[seen->first].listed == nw->nlisted - 1)
		return;
	if (nw->nlinks == nw->maxlinks)
	{
		nw->maxlinks *= 2;
		nw->links = repalloc_huge(nw->links, sizeof(ListLink) * (Size) nw->maxlinks);
	}
	nw->links[nw->nlinks].listed = nw->nlisted - 1;
	nw->links[nw->nlinks].next = seen->first;
	seen->first = nw->nlinks++;
}

/* The room of the workload listed last is counted as free on all its nodes. */
static void
clear_last(NodeWise *nw)
{
	const Placed *placed = nw->listed[nw->nlisted - 1].choice.placed;

	for (int i = 0; i < placed->npods; i++)
		if (placed->pods[i].node >= 0)
		{
			search_move_pod(nw->search, placed, i, 1);
			link_to_node(nw, seen_node(nw, placed->pods[i].node));
		}
	if (nw->search->room->isolate)
		nw->search->evictor->chosen[placed_index(nw->search->evictor, placed)] = true;
	for (int i = 0; i < placed->npods; i++)
		if (placed->pods[i].node >= 0)
		{
			seen_node(nw, placed->pods[i].node)->times = search_times(nw->search, placed->pods[i].node);
			look_later(nw, placed->pods[i].node);
		}
}

/* Node by node until all replicas have room, or no node gives any more. */
static void
seek_rooms(NodeWise *nw)
{
	Search	   *search = nw->search;
	Choice		choice;

	search_begin(search);
	choice.rank = 0;
	while (search->fitting < search->candidate->lane->replicas && nw->looks < LOOKS &&
		   (choice.placed = search_next(search, &choice.rule)) != NULL)
	{
		list_one(nw, &choice);
		clear_last(nw);
		choice.rank++;
		choose_pending(nw);
	}
}

/* ---- the search ---- */

static int
compare_choices(const void *a, const void *b)
{
	const Choice *x = a;
	const Choice *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The nodes with those gone that are chosen, and nobody else. */
static void
leave_chosen(NodeWise *nw)
{
	Search	   *search = nw->search;

	for (int i = 0; i < nw->nlisted && search->room->isolate; i++)
		search->evictor->chosen[placed_index(search->evictor, nw->listed[i].choice.placed)] = false;
	search_undo_nodes(search);
	memset(search->space->more, 0, sizeof(int64) * search->world->nkeys);
	search->fitting = room_count(search->room, search->candidate->need, search->candidate->need->replicas);
	search->evictor->visit++;
	for (int i = 0; i < search->nchosen; i++)
		search_move(search, search->space->chosen[i].placed, 1);
}

/* All replicas have room, but the pool's total or what is reserved is in the way: in the order, until they are not. */
static void
take_more(NodeWise *nw)
{
	Search	   *search = nw->search;

	for (int i = 0; i < nw->nlisted && !search_fits(search); i++)
	{
		const Listed *one = &nw->listed[i];

		if (one->chosen || !may_add(nw, one))
			continue;
		search_add(search, &one->choice);
		search_move(search, one->choice.placed, 1);
		count_chosen(nw, one, 1);
	}
}

/* Lists whoever is left in the order. */
static void
list_rest(NodeWise *nw)
{
	Choice		choice;

	choice.rank = nw->nlisted;
	while ((choice.placed = search_next(nw->search, &choice.rule)) != NULL)
	{
		list_one(nw, &choice);
		choice.rank++;
	}
}

/*
 * Seeks a set after taking in the order came to nothing.  True: what is chosen is enough, in the order; to be spared is
 * what is not needed.
 */
bool
search_node_by_node(Search *search)
{
	World	   *world = search->world;
	UsageLimit *total = world->pools[search->pool].total;
	NodeWise   *nw = search->space->nodewise;
	int			replicas = search->candidate->lane->replicas;

	if (nw == NULL)
		nw = search->space->nodewise = nodewise_create(world);
	nw->search = search;
	nw->nlisted = nw->nlinks = nw->npending = 0;
	nw->looks = 0;
	memset(nw->by_right, 0, sizeof(int) * world->npolicies * world->nkeys);
	for (int i = 0; i < search->nchosen; i++)
		search->evictor->chosen[placed_index(search->evictor, search->space->chosen[i].placed)] = false;
	search->nchosen = 0;
	memset(search->evictor->given, 0, sizeof(int64) * world->npolicies * world->nkeys);
	if (total != NULL)
		memcpy(total->used, search->space->used, sizeof(int64) * world->nkeys);
	leave_chosen(nw);
	seek_rooms(nw);
	if (search->fitting < replicas)
	{
		leave_chosen(nw);
		return false;
	}
	leave_chosen(nw);
	if (!search_fits(search))
	{
		list_rest(nw);
		leave_chosen(nw);
		take_more(nw);
	}
	qsort(search->space->chosen, search->nchosen, sizeof(Choice), compare_choices);
	return search_fits(search);
}

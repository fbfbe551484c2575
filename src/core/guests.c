/*
 * guests.c
 *
 * Where accounts are kept apart: the nodes that host one account's pods, in a room of that account's.
 *
 * The common room has the nodes that host nobody and is open to all; a guest room is open to its account alone.  Nodes
 * that host several accounts, which were there before the pool kept them apart, are in no room: nothing fits on them
 * until the pods of one account are left.  A node goes to a guest room with the first pod that it gets, and comes back
 * when a plan gives back the room of all pods that it hosts.
 *
 * Here too: nodes that change in the middle of a plan, and the room for target nodes.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "core/place.h"

/* The place of an account's guest room among those of a room: where it is, or would be. */
static int
guest_place(const Room *common, int64 account)
{
	int			low = 0;
	int			high = common->nguests;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (common->guests[middle]->account < account)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * The room of the nodes that host an account; NULL when none does.
 */
Room *
guest_room(const Room *common, int64 account)
{
	int			i = guest_place(common, account);

	return i < common->nguests && common->guests[i]->account == account ? common->guests[i] : NULL;
}

static Room *
guest_add(Room *common, int64 account)
{
	int			i = guest_place(common, account);
	Room	   *room = palloc0(sizeof(Room));

	if (common->nguests == common->maxguests)
	{
		common->maxguests = common->maxguests == 0 ? 8 : 2 * common->maxguests;
		common->guests = common->nguests == 0 ? palloc(sizeof(Room *) * common->maxguests) :
			repalloc(common->guests, sizeof(Room *) * common->maxguests);
	}
	memmove(common->guests + i + 1, common->guests + i, sizeof(Room *) * (common->nguests - i));
	common->guests[i] = room;
	common->nguests++;
	room->placer = common->placer;
	room->pool = common->pool;
	room->type = common->type;
	room->policy = common->policy;
	room->isolate = true;
	room->common = common;
	room->home = common->home;
	room->account = account;
	room_init(room);
	return room;
}

/* Adds what a node has free to a sum, or takes it away. */
static void
count_free(const Room *room, int node, int sign, int64 *sum)
{
	const World *world = room->placer->world;

	for (int k = 0; k < world->nkeys; k++)
		sum[k] += sign * Max(world->nodes[node].free[k], 0);
}

/*
 * A node was taken out of a room, common or an account's, and what it has free is no longer free there.  To be called
 * before anything is taken of it.
 */
void
guest_leave(Room *room, int node)
{
	if (room->common == room)
	{
		count_free(room, node, -1, room->home->sum);
		return;
	}
	room->nhosting--;
	count_free(room, node, -1, room->sum);
	room->home->nhosting--;
	count_free(room, node, -1, room->home->hosting);
}

/*
 * Puts a node that hosts an account, and is in no room, into the account's.
 */
void
guest_enter(Room *common, int64 account, int node)
{
	Room	   *room = guest_room(common, account);

	if (room == NULL)
		room = guest_add(common, account);
	room->nhosting++;
	count_free(room, node, 1, room->sum);
	room->home->nhosting++;
	count_free(room, node, 1, room->home->hosting);
	room_push(room, node);
}

/*
 * The guest rooms of a room that is built anew, and what is free on nodes that host someone.
 */
void
guests_build(Room *room)
{
	const World *world = room->placer->world;

	room->nhosting = room->nguests = room->maxguests = 0;
	room->hosting = palloc0(sizeof(int64) * world->nkeys);
	for (int i = 0; i < room->nnodes; i++)
	{
		const PoolNode *node = &world->nodes[room->nodes[i]];

		CHECK_FOR_INTERRUPTS();
		if (!node->takes_work || node->account == 0)
			continue;
		if (node->account != SEVERAL_ACCOUNTS)
		{
			guest_enter(room, node->account, room->nodes[i]);
			continue;
		}
		room->nhosting++;
		count_free(room, room->nodes[i], 1, room->hosting);
	}
}

/* ---- nodes that change ---- */

/* The room that a node is in or beside: of its pool and type, or of the targets there; NULL where it counts nowhere. */
Room *
room_of_node(Placer *placer, int node)
{
	const PoolNode *n = &placer->world->nodes[node];
	const Pool *pool = &placer->world->pools[n->pool];

	for (int t = 0; t < pool->ntypes; t++)
		if (pool->types[t].type == n->type)
		{
			Room	   *home = room_get(placer, n->pool, t);

			return placer->is_target[node] ? home->targets : home;
		}
	return NULL;
}

/* Nodes in no room are counted with their kind. */
static bool
count_roomless(Room *room, int node, int sign)
{
	const PoolNode *n = &room->placer->world->nodes[node];

	if (!n->takes_work)
		count_free(room, node, sign, room->home->unavailable);
	else if (room->isolate && n->account == SEVERAL_ACCOUNTS)
	{
		room->home->nhosting += sign;
		count_free(room, node, sign, room->home->hosting);
	}
	else
		return false;
	return true;
}

void
room_take_out(Placer *placer, int node)
{
	Room	   *room = room_of_node(placer, node);
	int64		account = placer->world->nodes[node].account;

	if (room == NULL || count_roomless(room, node, -1))
		return;
	if (room->isolate && account != 0)
		room = guest_room(room, account);
	room_remove(room, node);
	guest_leave(room, node);
}

void
room_put_back(Placer *placer, int node)
{
	Room	   *room = room_of_node(placer, node);
	int64		account = placer->world->nodes[node].account;

	if (room == NULL || count_roomless(room, node, 1))
		return;
	if (room->isolate && account != 0)
	{
		guest_enter(room, account, node);
		return;
	}
	count_free(room, node, 1, room->home->sum);
	room_push(room, node);
}

/*
 * An empty room beside a home, for its target nodes.  Its sums stay zero: what is free there counts for the home.
 */
Room *
room_beside(Room *home)
{
	Room	   *room = palloc0(sizeof(Room));

	room->placer = home->placer;
	room->pool = home->pool;
	room->type = home->type;
	room->policy = home->policy;
	room->isolate = home->isolate;
	room->common = room;
	room->home = home;
	room_init(room);
	room->hosting = palloc0(sizeof(int64) * home->placer->world->nkeys);
	return room;
}

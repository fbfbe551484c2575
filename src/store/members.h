/*
 * members.h
 *
 * The parts of building a World that load_world.c leaves to its neighbours.
 */
#ifndef RPQ_STORE_MEMBERS_H
#define RPQ_STORE_MEMBERS_H

#include "store/book.h"

/* load_limits.c: where a lane may go */
extern void book_build_route(Book *book, const LaneRow *row, Lane *lane);

/* load_limits.c: rights and quotas of the accounts that wait, as rows, then as limits */
extern void book_load_accounts(Book *book, int nlanes);
extern void book_build_limits(Book *book, World *world);

/* load_policies.c: queues' pools and policies, likewise */
extern void book_load_policies(Book *book);
extern void book_build_policies(Book *book, World *world);
extern int	book_policy(const Book *book, int64 policy_id);

/* load_nodes.c */
extern void book_build_nodes(Book *book, World *world);

/* read_members.c */
extern int	book_read_members(World *world, Lane *lane, const Member *after, int want, Member *out);

#endif							/* RPQ_STORE_MEMBERS_H */

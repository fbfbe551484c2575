/*
 * sets.h
 *
 * Connected sets of scopes: sets.c.
 */
#ifndef RPQ_STORE_SETS_H
#define RPQ_STORE_SETS_H

/*
 * The scopes given and all that are tied to them, ascending, each once.  Inside an open SPI connection.  What is
 * committed, and announced, is known: asked again under a lock, the answer is that of the present.
 */
extern int64 *sets_extend(const int64 *scopes, int n, int *nout);

/* The least scope of the set that a scope is in, which stands for the set; as sets_extend knew it last. */
extern int64 sets_first(int64 scope_id);

/* How many scopes that set has. */
extern int	sets_size(int64 scope_id);

static inline uint64
set_epoch_mix(uint64 hash)
{
	hash = (hash ^ (hash >> 33)) * UINT64CONST(0xff51afd7ed558ccd);
	hash = (hash ^ (hash >> 33)) * UINT64CONST(0xc4ceb9fe1a85ec53);
	return hash ^ (hash >> 33);
}

/* The epoch of a set of several scopes: 0 at first, then with each of them, ascending.  Never 0 in the end. */
static inline int64
set_epoch(int64 epoch, int64 scope_id, int64 room_epoch)
{
	uint64		hash = set_epoch_mix((uint64) epoch + (uint64) scope_id);

	return (int64) ((set_epoch_mix(hash + (uint64) room_epoch) & PG_INT64_MAX) | 1);
}

/* A turn's row, as far as it tells whether anybody has changed the scope's balances since. */
typedef struct TurnMark
{
	int64		scope_id;
	uint64		own_xid;
	int64		cycle;
	int64		room_epoch;
} TurnMark;

/* The epoch of the lanes of a set, whose turns are given in ascending order: see book_count_epochs(). */
static inline int64
marks_epoch(const TurnMark *marks, int n)
{
	int64		epoch = 0;

	if (n == 1)
		return marks[0].room_epoch;
	for (int i = 0; i < n; i++)
		epoch = set_epoch(epoch, marks[i].scope_id, marks[i].room_epoch);
	return epoch;
}

#endif							/* RPQ_STORE_SETS_H */

/*
 * news.h
 *
 * Where the ledger has grown since the worker looked last: news.c.
 */
#ifndef RPQ_API_NEWS_H
#define RPQ_API_NEWS_H

#include "utils/snapshot.h"

/* Adds the scopes that the worker was woken for to those to be looked at; false: it has to look at all of them. */
extern bool news_take(void);

/* Scopes to be looked at; a few others may seem to be. */
extern bool news_is_touched(int64 scope_id);
extern void news_touch(int64 scope_id);
extern void news_forget_touched(void);

/* Everything was looked at, with this snapshot or later; NULL: and nothing may be concluded from it. */
extern void news_seen(Snapshot snapshot);

/* All entries that are visible now and were not then are of transactions from this one on; 0: that is not known. */
extern uint64 news_first(Snapshot snapshot);

#endif							/* RPQ_API_NEWS_H */

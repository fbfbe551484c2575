/*
 * rows.h
 *
 * Writing back the balances that a Book has changed: rows.c.
 */
#ifndef RPQ_STORE_ROWS_H
#define RPQ_STORE_ROWS_H

#include "store/book.h"

extern void rows_write_nodes(Book *book);
extern void rows_write_usage(Book *book);
extern void rows_write_lanes(Book *book);
extern void rows_write_turns(Book *book);

#endif							/* RPQ_STORE_ROWS_H */

/*
 * reports.h
 *
 * What executors reported, as a cycle takes it: reports.c.
 */
#ifndef RPQ_STORE_REPORTS_H
#define RPQ_STORE_REPORTS_H

#include "store/book.h"

/* An entry of kind report was read: something new was said of the workload's pods. */
extern void reports_note(Book *book, int64 workload_id);

/*
 * What was said takes effect, before the Book is used: workloads start and end, holds of pods that are gone end, and so
 * do preemptions that are over (evictions.c).
 * Leaves the entries that this wrote as the result of the last statement, in the form of those of book_read_entries,
 * and returns how many rows these are.  0: there is no result.
 */
extern uint64 reports_settle(Book *book);

/* Of the pods to be freed, those whose executor has them still: their room is held. */
extern void reports_find_stopping(Book *book);

/* Before the pods to be freed are deleted, and after all entries that the cursor covers were written. */
extern void reports_write_holds(Book *book);
extern void reports_write_rest(Book *book);

#endif							/* RPQ_STORE_REPORTS_H */

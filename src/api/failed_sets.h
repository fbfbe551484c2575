/*
 * failed_sets.h
 *
 * Sets that the worker leaves out since their cycle failed: failed_sets.c.  A set is named by its least scope.
 */
#ifndef RPQ_API_FAILED_SETS_H
#define RPQ_API_FAILED_SETS_H

extern void failed_sets_note(int64 first);
extern void failed_sets_forget(int64 first);

/* Takes the scopes of such sets out of a list; how many are left. */
extern int	failed_sets_leave_out(int64 *scopes, int n);

#endif							/* RPQ_API_FAILED_SETS_H */

/*
 * due.h
 *
 * Scopes for which the worker has something to do: due.c.
 */
#ifndef RPQ_API_DUE_H
#define RPQ_API_DUE_H

/* Inside an open SPI connection; their ids in order. */
extern int	due_scopes(int64 **scopes);

/* Cycles over these, whole sets, have been run: what they wrote themselves is looked for the next time. */
extern void due_processed(const int64 *scopes, int n);

#endif							/* RPQ_API_DUE_H */

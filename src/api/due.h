/*
 * due.h
 *
 * Scopes for which the worker has something to do: due.c.
 */
#ifndef RPQ_API_DUE_H
#define RPQ_API_DUE_H

/* Inside an open SPI connection; their ids in order. */
extern int	due_scopes(int64 **scopes);

#endif							/* RPQ_API_DUE_H */

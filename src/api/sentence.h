/*
 * sentence.h
 *
 * Sentences as a certain reader may read them: sentence.c.
 */
#ifndef RPQ_API_SENTENCE_H
#define RPQ_API_SENTENCE_H

#include "api/api.h"

/* The sentence, without the id of a workload that it names and the reader may not see.  NULL stays NULL. */
extern const char *sentence_for(const Caller *reader, const char *sentence);

#endif							/* RPQ_API_SENTENCE_H */

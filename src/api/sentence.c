/*
 * sentence.c
 *
 * Sentences as a certain reader may read them.  A reason may name another workload, the one that is ahead; who may not
 * see that one is told that there is one.  (The views do the same in SQL: views_workloads.sql.)
 *
 * Reads what rights.c reads; locks and writes nothing.
 */
#include "postgres.h"

#include "api/sentence.h"

#define NAMED "workload "

const char *
sentence_for(const Caller *reader, const char *sentence)
{
	const char *at = sentence == NULL ? NULL : strstr(sentence, NAMED);
	Object		object;
	long long	id;
	const char *end;

	if (at == NULL || sscanf(at, NAMED "%lld", &id) != 1)
		return sentence;
	if (rpq_object_by_id(reader, KIND_WORKLOAD, id, &object) && rpq_sees(reader, &object))
		return sentence;
	end = at + strlen(NAMED);
	end += strspn(end, "0123456789");
	return psprintf("%.*sanother workload%s", (int) (at - sentence), sentence, end);
}

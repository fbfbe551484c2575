/*
 * plan_sequences.c
 *
 * Random sequences of 30 cycles, each decided by the core and by the oracle: how many agree, and the first difference,
 * made as small as it can be.  Takes the number of sequences and the first one's number; make sequences builds and
 * runs it.
 */
#include <time.h>

#include "sim_sequence.h"

int
main(int argc, char **argv)
{
	int64		count = argc > 1 ? atol(argv[1]) : 1000;
	int64		first = argc > 2 ? atol(argv[2]) : 1;
	int64		agreed = 0;
	time_t		began = time(NULL);
	SimTally	tally = {0};

	for (int64 i = first; i < first + count; i++)
	{
		agreed += run_sequence(i, agreed == i - first, &tally);
		if ((i - first + 1) % 10000 == 0 || i == first + count - 1)
		{
			printf("%ld of %ld sequences of %d cycles agree, %ld s\n", agreed, i - first + 1, SIM_CYCLES,
				   (int64) (time(NULL) - began));
			fflush(stdout);
		}
	}
	print_tally(&tally);
	return agreed != count;
}

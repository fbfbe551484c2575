/*
 * fuzz_resources.c
 *
 * libFuzzer target for the two ways in which foreign bytes become rpq.resources: text and wire.  Whatever is accepted
 * must come back from its own text and wire; whatever is refused must be so with one of the documented errors.
 *
 *		clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Itest/unit/shim -Isrc \
 *			test/fuzz/fuzz_resources.c test/unit/shim/shim.c src/core/resources*.c
 */
#include "postgres.h"

#include "core/resources.h"

int			LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

static void
check(bool passed)
{
	if (!passed)
		abort();
}

static void
check_accepted(const Resources *r)
{
	int			len;
	int			used;
	char	   *wire = resources_to_wire(r, &len);

	check(resources_equal(r, resources_parse(resources_text(r))));
	check(resources_equal(r, resources_from_wire(wire, len, &used)) && used == len);
	check(resources_equal(resources_neg(resources_neg(r)), r));
	check(resources_cmp(r, r) == 0 && resources_within(r, r));
	resources_pretty(r);
	resources_sub(r, r);
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	char	   *text = palloc(size + 1);
	int			used;

	memcpy(text, data, size);
	text[size] = '\0';
	if (SHIM_TRY())
	{
		const Resources *r = resources_parse(text);

		SHIM_END();				/* from here on an error is a bug */
		check_accepted(r);
	}
	else
		check(shim_error.sqlstate == ERRCODE_INVALID_TEXT_REPRESENTATION ||
			  shim_error.sqlstate == ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE ||
			  shim_error.sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED);
	SHIM_END();
	if (SHIM_TRY())
	{
		const Resources *r = resources_from_wire((const char *) data, (int) size, &used);

		SHIM_END();
		check(used <= (int) size);
		check_accepted(r);
	}
	else
		check(shim_error.sqlstate == ERRCODE_INVALID_BINARY_REPRESENTATION);
	SHIM_END();
	shim_reset();
	return 0;
}

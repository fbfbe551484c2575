/*
 * test_resources.c
 *
 * Unit and property tests of src/core/resources*.c, without a server.  Prints TAP; exits 1 when a test failed.
 *
 *		cc -Itest/unit/shim -Isrc test/unit/test_resources.c test/unit/shim/shim.c src/core/resources*.c
 */
#include "postgres.h"

#include "core/resources.h"

static int	tests = 0;
static int	failures = 0;

static void
ok(bool passed, const char *name)
{
	tests++;
	if (!passed)
		failures++;
	printf("%sok %d - %s\n", passed ? "" : "not ", tests, name);
}

/* A fixed sequence, so that a failure can be repeated */
static uint64 seed = 20240601;

static uint64
draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int64
draw_amount(void)
{
	int64		a = (int64) draw() >> (draw() % 64);

	return a == PG_INT64_MIN ? 0 : a;
}

static Resources *
draw_resources(int bits)
{
	static const char *const names[] = {"cpu", "gpu", "memory", "a", "a.b", "a-b", "ab", "tpu_v4"};
	const char *keys[lengthof(names)];
	int64		amounts[lengthof(names)];
	int			n = 0;

	for (int i = lengthof(names) - 1; i >= 0; i--)
		if (draw() % 2)
		{
			keys[n] = names[i];
			amounts[n++] = bits == 64 ? draw_amount() : draw_amount() >> (64 - bits);
		}
	return resources_build(n, keys, amounts);
}

static void
reads(const char *text, const char *expected)
{
	const char *got = "an error";

	if (SHIM_TRY())
		got = resources_text(resources_parse(text));
	else
		got = shim_error.message;
	SHIM_END();
	if (strcmp(got, expected) != 0)
		printf("# %s: got %s, expected %s\n", text, got, expected);
	ok(strcmp(got, expected) == 0, psprintf("'%s' is '%s'", text, expected));
	shim_reset();
}

static void
refuses(const char *text, int sqlstate, const char *place)
{
	volatile bool refused = false;

	if (SHIM_TRY())
		resources_parse(text);
	else
	{
		refused = shim_error.sqlstate == sqlstate && strstr(shim_error.detail, place) == shim_error.detail;
		if (!refused)
			printf("# %s: %s / %s\n", text, shim_error.message, shim_error.detail);
	}
	SHIM_END();
	ok(refused, psprintf("'%.60s' is refused: %s", text, place));
	shim_reset();
}

static void
test_text(void)
{
	const int	bad = ERRCODE_INVALID_TEXT_REPRESENTATION;
	const int	range = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;

	reads("", "");
	reads(" \t ", "");
	reads("gpu=8,cpu=96,memory=800Gi", "cpu=96,gpu=8,memory=819200");
	reads(" gpu = 1/7 , cpu = 0.500 ", "cpu=0.5,gpu=1/7");
	reads("a=1,a.b=2,a-b=3,ab=4,a_b=5,a0=6", "a=1,a-b=3,a.b=2,a0=6,a_b=5,ab=4");
	reads("gpu=0", "gpu=0");
	reads("gpu=-0", "gpu=0");
	reads("gpu=+3", "gpu=3");
	reads("gpu=-1/7", "gpu=-1/7");
	reads("gpu=7/7,cpu=6/4", "cpu=1.5,gpu=1");
	reads("gpu=8/7", "gpu=8/7");
	reads("gpu=1/8,cpu=1/3", "cpu=1/3,gpu=0.125");
	reads("gpu=1/21000", "gpu=1/21000");
	reads("gpu=1500m,cpu=-1m", "cpu=-0.001,gpu=1.5");
	reads("memory=1024Ki", "memory=1");
	reads("memory=512Ki", "memory=0.5");
	reads("memory=128Ki", "memory=0.125");
	reads("memory=1Mi,a=1Ti,b=1Pi,c=2Gi", "a=1048576,b=1073741824,c=2048,memory=1");
	reads("gpu=000000000000000000000000000001", "gpu=1");
	reads("gpu=439208192231179.8", "gpu=439208192231179.8");
	reads("gpu=-439208192231179.8", "gpu=-439208192231179.8");
	reads("gpu=9223372036854775807/21000", "gpu=1317624576693539401/3000");
	reads("gpu=-9223372036854775807/21000", "gpu=-1317624576693539401/3000");
	reads("gpu=18446744073709551614/18446744073709551614", "gpu=1");

	refuses("memory=1Ki", bad, "At character 8,");
	refuses("memory=64Ki", bad, "At character 8,");
	refuses("gpu=1/11", bad, "At character 5, in \"gpu=1/11\"");
	refuses("cpu=1, gpu=1/9", bad, "At character 12, in \"gpu=1/9\"");
	refuses("gpu=1.0000", bad, "At character 10,");
	refuses("gpu=0.12345", bad, "At character 10,");
	refuses("gpu=.5", bad, "At character 5,");
	refuses("gpu=5.", bad, "At character 7,");
	refuses("gpu=1/0", bad, "At character 7,");
	refuses("gpu=1/", bad, "At character 7,");
	refuses("gpu=1/-7", bad, "At character 7,");
	refuses("gpu=1/2/3", bad, "At character 8,");
	refuses("gpu=1.5Gi", bad, "At character 8,");
	refuses("gpu=1.5m", bad, "At character 8,");
	refuses("gpu=1e3", bad, "At character 6,");
	refuses("gpu=1 m", bad, "At character 6,");
	refuses("gpu=8GB", bad, "At character 6,");
	refuses("gpu=NaN", bad, "At character 5,");
	refuses("gpu=-Infinity", bad, "At character 6,");
	refuses("gpu=0x10", bad, "At character 6,");
	refuses("gpu=--1", bad, "At character 6,");
	refuses("gpu=1_000", bad, "At character 6,");
	refuses("gpu=", bad, "At character 5,");
	refuses("gpu= ,cpu=1", bad, "At character 6,");
	refuses("gpu", bad, "At character 1,");
	refuses("=1", bad, "At character 1,");
	refuses(",", bad, "At character 1,");
	refuses("gpu=1,", bad, "At character 7,");
	refuses("gpu=1,,cpu=1", bad, "At character 7,");
	refuses("gpu=1;cpu=1", bad, "At character 6,");
	refuses("gpu=1 cpu=1", bad, "At character 6,");
	refuses("gpu==1", bad, "At character 5,");
	refuses("GPU=1", bad, "At character 1,");
	refuses("gPu=1", bad, "At character 2,");
	refuses("1gpu=1", bad, "At character 1,");
	refuses("nvidia.com/gpu=1", bad, "At character 11,");
	refuses("g\303\274=1", bad, "At character 2,");
	refuses("gpu=1,cpu=2,gpu=1", bad, "At character 13,");
	refuses("a23456789012345678901234567890123456789012345678901234567890abcd=1", bad, "At character 1,");
	refuses("gpu=439208192231180", range, "At character 5,");
	refuses("gpu=439208192231179.801", range, "At character 5,");
	refuses("gpu=-439208192231179.801", range, "At character 5,");
	refuses("gpu=-9223372036854775808/21000", range, "At character 5,");
	refuses("gpu=99999999999999999999999999", range, "At character 5,");
	refuses("memory=1000000Pi", range, "At character 8,");
	refuses("memory=99999999999999999Ti", range, "At character 8,");
}

static void
pretty(const char *text, const char *expected)
{
	char	   *got = resources_pretty(resources_parse(text));

	if (strcmp(got, expected) != 0)
		printf("# got %s\n", got);
	ok(strcmp(got, expected) == 0, psprintf("'%s' for people is '%s'", text, expected));
	shim_reset();
}

static void
test_pretty(void)
{
	pretty("", "");
	pretty("gpu=8,cpu=96,memory=800Gi", "96 CPU \302\267 8 GPU \302\267 800 GiB");
	pretty("b=1,tpu=3,a=0,gpu=1/7", "1/7 GPU \302\267 0 a \302\267 1 b \302\267 3 tpu");
	pretty("cpu=-1.5,memory=-2Gi", "-1.5 CPU \302\267 -2 GiB");
	pretty("memory=0", "0 MiB");
	pretty("memory=1000", "1000 MiB");
	pretty("memory=1536", "1.5 GiB");
	pretty("memory=512Ki", "512 KiB");
	pretty("memory=-512Ki", "-512 KiB");
	pretty("memory=1/7", "1/7 MiB");
	pretty("memory=1024/7", "1024/7 MiB");
	pretty("memory=1Ti", "1 TiB");
	pretty("memory=3Pi", "3 PiB");
	pretty("memory=1Gi", "1 GiB");
}

/* What an expression raises: its SQLSTATE, 0 for nothing */
#define RAISES(expression) \
	(SHIM_TRY() ? ((void) (expression), SHIM_END(), 0) : (SHIM_END(), shim_error.sqlstate))

static void
test_arithmetic(void)
{
	Resources  *seventh = resources_parse("gpu=1/7");
	Resources  *sum = resources_empty();
	Resources  *most = resources_parse("gpu=9223372036854775807/21000");
	Resources  *least = resources_neg(most);
	Resources  *tiny = resources_parse("gpu=1/21000");
	const int	range = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
	const char *twice[] = {"gpu", "gpu"};
	const int64 ones[] = {1, PG_INT64_MIN};
	char		buf[RESOURCES_AMOUNT_LEN];

	for (int i = 0; i < 7; i++)
		sum = resources_add(sum, seventh);
	ok(resources_equal(sum, resources_parse("gpu=1")), "seven times a seventh is one");
	ok(resources_equal(resources_mul_int(seventh, 7), sum), "a seventh times seven is one");
	ok(RAISES(resources_add(most, tiny)) == range, "overflow above");
	ok(RAISES(resources_sub(least, tiny)) == range, "overflow below");
	ok(RAISES(resources_sub(least, most)) == range, "overflow far below");
	ok(RAISES(resources_mul_int(most, 2)) == range, "overflow of a product");
	ok(RAISES(resources_mul_int(tiny, PG_INT64_MIN)) == range, "the least integer is no amount");
	ok(RAISES(resources_add_into(most, most)) == range, "overflow in place");
	ok(resources_equal(resources_neg(resources_neg(least)), least), "the least amount negated twice");
	ok(RAISES(resources_build(2, twice, ones)) == range, "build: out of range");
	ok(RAISES(resources_build(1, twice, ones)) == 0, "build: one key");
	ok(RAISES(resources_build(2, twice, (const int64[]) {1, 2})) == ERRCODE_INVALID_TEXT_REPRESENTATION,
	   "build: a key twice");
	ok(RAISES(resources_build(1, (const char *[]) {"GPU"}, ones)) == ERRCODE_INVALID_TEXT_REPRESENTATION,
	   "build: a bad key");
	ok(resources_amount_decimal(3000, buf) == 22 && strcmp(buf, "0.14285714285714285714") == 0, "1/7 as a decimal");
	ok(resources_amount_decimal(-14000, buf) == 23 && strcmp(buf, "-0.66666666666666666667") == 0,
	   "-2/3 as a decimal");
	ok(resources_fits(resources_parse("gpu=1,cpu=-1,a=0"), resources_parse("gpu=1")), "fits");
	ok(!resources_fits(resources_parse("gpu=1,cpu=1"), resources_parse("gpu=1")), "an absent capacity is zero");
	ok(resources_within(resources_parse("gpu=1,cpu=1"), resources_parse("gpu=1")), "an absent limit is none");
	ok(!resources_within(resources_parse("gpu=1"), resources_parse("gpu=0")), "a limit of zero");
	ok(!resources_within(resources_empty(), resources_parse("gpu=-1")), "usage that is absent is zero");
	shim_reset();
}

static void
test_limits(void)
{
	char		text[16 * (RESOURCES_MAX_KEYS + 2)];
	char	   *p = text;
	Resources  *r;

	for (int i = 0; i < RESOURCES_MAX_KEYS; i++)
		p += sprintf(p, "%sk%d=1", i > 0 ? "," : "", i);
	r = resources_parse(text);
	ok(resources_nkeys(r) == RESOURCES_MAX_KEYS, "as many keys as there may be");
	ok(RAISES(resources_add(r, resources_parse("z=1"))) == ERRCODE_PROGRAM_LIMIT_EXCEEDED, "a sum of too many keys");
	strcat(text, ",z=1");
	ok(RAISES(resources_parse(text)) == ERRCODE_PROGRAM_LIMIT_EXCEEDED, "too many keys");
	shim_reset();
}

/* The image is canonical: what it is built from again is the same bytes. */
static bool
is_canonical(const Resources *r)
{
	const char *keys[64];
	int			lens[64];
	int64		amounts[64];

	for (int i = 0; i < resources_nkeys(r); i++)
	{
		keys[i] = resources_key(r, i);
		lens[i] = resources_key_len(r, i);
		amounts[i] = resources_amount(r, i);
	}
	return resources_equal(r, resources_build_n(resources_nkeys(r), keys, lens, amounts));
}

static bool
round_trips(const Resources *r)
{
	int			len;
	int			used;
	char	   *wire = resources_to_wire(r, &len);

	return is_canonical(r) && resources_equal(r, resources_parse(resources_text(r))) &&
		resources_equal(r, resources_from_wire(wire, len, &used)) && used == len;
}

static void
test_properties(void)
{
	bool		trips = true;
	bool		back = true;
	bool		commutes = true;
	bool		orders = true;
	bool		bounds = true;
	bool		places = true;

	for (int i = 0; i < 20000; i++)
	{
		Resources  *any = draw_resources(64);
		Resources  *a = draw_resources(60);
		Resources  *b = draw_resources(60);
		Resources  *sum = resources_add(a, b);
		Resources  *copy = resources_copy(sum);
		int			c = resources_cmp(a, b);

		trips &= round_trips(any) && round_trips(sum) && round_trips(resources_sub(a, b));
		/* a + b - b has b's keys as well */
		back &= resources_equal(resources_sub(sum, b), resources_add(a, resources_sub(b, b)));
		commutes &= resources_equal(sum, resources_add(b, a)) &&
			resources_equal(resources_sub(a, b), resources_neg(resources_sub(b, a)));
		orders &= resources_cmp(b, a) == -c && (c == 0) == resources_equal(a, b);
		bounds &= resources_within(resources_least(a, b), b) || resources_nkeys(a) != resources_nkeys(b);
		bounds &= resources_equal(resources_least(a, b), resources_neg(resources_greatest(resources_neg(a),
																						  resources_neg(b))));
		places &= resources_add_into(copy, sum) && resources_equal(copy, resources_mul_int(sum, 2));
		shim_reset();
	}
	ok(trips, "text and wire give back what they were made from");
	ok(back, "a + b - b is a");
	ok(commutes, "a + b is b + a, a - b is -(b - a)");
	ok(orders, "the order is total and agrees with equality");
	ok(bounds, "least and greatest mirror each other");
	ok(places, "adding in place is adding");
}

/* Reads wire; the SQLSTATE it is refused with, 0 for a canonical value, -1 for one that is not canonical */
static int
read_wire(const char *wire, int len)
{
	volatile int state = -1;
	int			used;

	if (SHIM_TRY())
		state = round_trips(resources_from_wire(wire, len, &used)) ? 0 : -1;
	else
		state = shim_error.sqlstate;
	SHIM_END();
	return state;
}

static void
test_wire(void)
{
	const int	bad = ERRCODE_INVALID_BINARY_REPRESENTATION;
	int			len;
	char	   *wire = resources_to_wire(resources_parse("a=1,b=2,gpu=1/7"), &len);
	bool		shorter = true;
	bool		safe = true;

	for (int i = 0; i < len; i++)
		shorter &= read_wire(wire, i) == bad;
	ok(shorter, "wire that ends early is refused");
	for (int i = 0; i < 20000; i++)
	{
		char	   *hostile = palloc(len);
		int			state;

		memcpy(hostile, wire, len);
		hostile[draw() % len] = (char) draw();
		hostile[draw() % len] = (char) draw();
		state = read_wire(hostile, len);
		safe &= state == 0 || state == bad;
	}
	ok(safe, "wire with wrong bytes is refused or canonical");
	wire[6] = 'b';
	wire[16] = 'a';
	ok(read_wire(wire, len) == bad, "wire with keys that are not sorted is refused");
	wire[16] = 'b';
	ok(read_wire(wire, len) == bad, "wire with a key twice is refused");
	shim_reset();
}

int
main(void)
{
	test_text();
	test_pretty();
	test_arithmetic();
	test_limits();
	test_properties();
	test_wire();
	printf("1..%d\n", tests);
	return failures > 0;
}

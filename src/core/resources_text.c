/*
 * resources_text.c
 *
 * The text of rpq.resources, read and written: amounts, lists of them, and a form for people.
 *
 *		list	= "" | piece { "," piece }
 *		piece	= key "=" amount							spaces allowed around key and amount
 *		amount	= [ "+" | "-" ] digits [ "." digits | "/" digits | "m" | "Ki" | "Mi" | "Gi" | "Ti" | "Pi" ]
 *
 * An amount is read as a fraction of two integers and must come out as a whole number of 1/RPQ_UNIT; no step rounds.
 */
#include "postgres.h"

#include "common/int.h"

#include "core/resources.h"

#define MAX_PLACES		3
#define EXCERPT_LEN		60		/* bytes of user's text quoted in messages */

/* Why a text is no amount, and where */
typedef struct Fault
{
	const char *why;			/* NULL: none */
	bool		range;			/* 22003 instead of 22P02 */
	const char *at;
} Fault;

/* Suffixes with what they multiply the integer by, as num/den; the binary ones give MiB */
static const struct Suffix
{
	const char *name;
	int			len;
	uint64		num;
	uint64		den;
}			suffixes[] = {
	{"m", 1, 1, 1000},
	{"Ki", 2, 1, 1024},
	{"Mi", 2, 1, 1},
	{"Gi", 2, 1024, 1},
	{"Ti", 2, 1024 * 1024, 1},
	{"Pi", 2, 1024 * 1024 * 1024, 1},
};

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline void
trim(const char **start, const char **end)
{
	while (*start < *end && is_space(**start))
		(*start)++;
	while (*end > *start && is_space((*end)[-1]))
		(*end)--;
}

static uint64
gcd(uint64 a, uint64 b)
{
	while (b != 0)
	{
		uint64		t = a % b;

		a = b;
		b = t;
	}
	return a;
}

/* At most EXCERPT_LEN bytes of text, cut at a character's start and marked where it was cut */
static char *
excerpt(const char *text, int len)
{
	int			n = len;

	if (len <= EXCERPT_LEN)
		return psprintf("%.*s", len, text);
	for (n = EXCERPT_LEN; n > 0 && (text[n] & 0xC0) == 0x80; n--)
		;
	return psprintf("%.*s...", n, text);
}

static const char *
fault_at(Fault *fault, const char *at, const char *why)
{
	fault->why = why;
	fault->at = at;
	return NULL;
}

/*
 * Digits at p into *value; returns where they end, NULL with a fault where there are none.  What is larger than
 * 64 bits sets *huge.
 */
static const char *
read_digits(const char *p, const char *end, uint64 *value, bool *huge, Fault *fault)
{
	if (p >= end || !is_digit(*p))
		return fault_at(fault, p, p >= end ? "a number is missing" : "a number is expected here");
	for (; p < end && is_digit(*p); p++)
		if (pg_mul_u64_overflow(*value, 10, value) || pg_add_u64_overflow(*value, *p - '0', value))
			*huge = true;
	return p;
}

/*
 * What follows the leading digits: adapts the fraction num/den.  Returns where it ends, NULL with a fault.
 */
static const char *
read_tail(const char *p, const char *end, uint64 *num, uint64 *den, bool *huge, Fault *fault)
{
	const char *start = p;

	if (p < end && *p == '.')
	{
		p = read_digits(p + 1, end, num, huge, fault);
		if (p == NULL)
			return NULL;
		if (p - start - 1 > MAX_PLACES)
			return fault_at(fault, start + 1 + MAX_PLACES, "a decimal has at most three places");
		for (const char *q = start + 1; q < p; q++)
			*den *= 10;
		if (p < end)
			return fault_at(fault, p, "nothing may follow a decimal");
		return p;
	}
	if (p < end && *p == '/')
	{
		bool		den_huge = false;

		*den = 0;
		p = read_digits(p + 1, end, den, &den_huge, fault);
		if (p == NULL)
			return NULL;
		if (den_huge)
			return fault_at(fault, start + 1, "the denominator is too large");
		if (*den == 0)
			return fault_at(fault, start + 1, "the denominator is zero");
		if (p < end)
			return fault_at(fault, p, "nothing may follow a fraction");
		return p;
	}
	for (int i = 0; i < lengthof(suffixes); i++)
		if (end - p == suffixes[i].len && memcmp(p, suffixes[i].name, suffixes[i].len) == 0)
		{
			*den = suffixes[i].den;
			if (pg_mul_u64_overflow(*num, suffixes[i].num, num))
				*huge = true;
			return end;
		}
	if (p < end)
		return fault_at(fault, p, "an amount cannot go on like this");
	return p;
}

/* The amount in start..end, which is trimmed; fault->why is set where there is none. */
static int64
read_amount(const char *start, const char *end, Fault *fault)
{
	const char *p = start;
	bool		negative = false;
	bool		huge = false;
	uint64		num = 0;
	uint64		den = 1;
	uint64		common;

	fault->why = NULL;
	fault->range = false;
	if (p >= end)
		return fault_at(fault, p, "the amount is missing"), 0;
	if (*p == '+' || *p == '-')
		negative = *p++ == '-';
	p = read_digits(p, end, &num, &huge, fault);
	if (p == NULL || read_tail(p, end, &num, &den, &huge, fault) == NULL)
		return 0;
	if (!huge)
	{
		common = gcd(num, den);
		num /= common;
		den /= common;
		if (RPQ_UNIT % den != 0)
			return fault_at(fault, start, "the amount is not a whole multiple of 1/21000"), 0;
		huge = pg_mul_u64_overflow(num, RPQ_UNIT / den, &num) || num > RPQ_AMOUNT_MAX;
	}
	if (huge)
	{
		fault->range = true;
		return fault_at(fault, start, "the largest amount is 9223372036854775807/21000, about 439208192231179.8"), 0;
	}
	return negative ? -(int64) num : (int64) num;
}

/* Raise what was found; place is counted from the start of text, piece is the part of text that is at fault. */
static void
raise_fault(const Fault *fault, const char *text, int len, const char *piece, int piece_len, const char *what)
{
	int			at = (int) (fault->at - text) + 1;

	if (fault->range)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("resource amount out of range in %s: \"%s\"", what, excerpt(text, len)),
				 errdetail("At character %d, in \"%s\": %s.", at, excerpt(piece, piece_len), fault->why)));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid input for %s: \"%s\"", what, excerpt(text, len)),
			 errdetail("At character %d, in \"%s\": %s.", at, excerpt(piece, piece_len), fault->why),
			 errhint("Write key=amount, separated by commas; an amount is like 8, 0.5, 1/7, 500m or 2Gi.")));
}

int64
resources_amount_parse(const char *text, int len, const char *what)
{
	const char *start = text;
	const char *end = text + len;
	Fault		fault;
	int64		amount;

	trim(&start, &end);
	amount = read_amount(start, end, &fault);
	if (fault.why != NULL)
		raise_fault(&fault, text, len, text, len, what);
	return amount;
}

/* One piece, key=amount, in start..end; fault->why is set where it is none. */
static void
read_piece(const char *start, const char *end, const char **key, int *keylen, int64 *amount, Fault *fault)
{
	const char *equals = memchr(start, '=', end - start);
	const char *key_end = equals != NULL ? equals : end;

	fault->range = false;
	trim(&start, &key_end);
	*key = start;
	*keylen = key_end - start;
	if (*keylen == 0)
		fault_at(fault, start, "a key is missing");
	else if (equals == NULL)
		fault_at(fault, start, "\"=\" and an amount are missing");
	else if (*keylen > RESOURCES_MAX_KEY_LEN)
		fault_at(fault, start, "a key has at most 63 bytes");
	else if (!resources_key_is_valid(start, *keylen))
	{
		int			n = 1;

		while (n < *keylen && resources_key_is_valid(start, n))
			n++;
		fault_at(fault, start + n - 1,
				 "a key starts with a-z and goes on with a-z, 0-9, \"_\", \".\" or \"-\"");
	}
	else
	{
		equals++;
		trim(&equals, &end);
		*amount = read_amount(equals, end, fault);
	}
}

Resources *
resources_parse(const char *text)
{
	static const char *const type_name = "type rpq.resources";
	int			len = strlen(text);
	const char *p = text;
	const char *end = text + len;
	int			n = 0;
	int			npieces = 1;
	const char **keys;
	int		   *lens;
	int64	   *amounts;
	Resources  *r;

	trim(&p, &end);
	if (p == end)
		return resources_empty();
	for (const char *q = p; q < end; q++)
		npieces += *q == ',';
	npieces = Min(npieces, RESOURCES_MAX_KEYS + 1);
	keys = palloc(npieces * sizeof(char *));
	lens = palloc(npieces * sizeof(int));
	amounts = palloc(npieces * sizeof(int64));
	for (;;)
	{
		const char *comma = memchr(p, ',', end - p);
		const char *piece_end = comma != NULL ? comma : end;
		const char *piece = p;
		Fault		fault = {NULL};

		read_piece(p, piece_end, &keys[n], &lens[n], &amounts[n], &fault);
		for (int i = 0; fault.why == NULL && i < n; i++)
			if (lens[i] == lens[n] && memcmp(keys[i], keys[n], lens[n]) == 0)
				fault_at(&fault, keys[n], "the key is given more than once");
		trim(&piece, &piece_end);
		if (fault.why != NULL)
			raise_fault(&fault, text, len, piece, piece_end - piece, type_name);
		n++;
		if (comma == NULL || n >= npieces)
			break;
		p = comma + 1;
	}
	r = resources_build_n(n, keys, lens, amounts);	/* refuses too many */
	pfree(keys);
	pfree(lens);
	pfree(amounts);
	return r;
}

bool
resources_amount_is_decimal(int64 amount)
{
	return amount % (RPQ_UNIT / 1000) == 0;
}

/* Cuts trailing zeros of a decimal's places; returns the new length. */
static int
cut_zeros(char *buf, int len)
{
	while (buf[len - 1] == '0')
		len--;
	if (buf[len - 1] == '.')
		len--;
	buf[len] = '\0';
	return len;
}

int
resources_amount_print(int64 amount, char *buf)
{
	const char *sign = amount < 0 ? "-" : "";
	uint64		a = amount < 0 ? -(uint64) amount : (uint64) amount;
	uint64		rest = a % RPQ_UNIT;

	if (rest == 0)
		return sprintf(buf, "%s" UINT64_FORMAT, sign, a / RPQ_UNIT);
	if (rest % (RPQ_UNIT / 1000) == 0)
		return cut_zeros(buf, sprintf(buf, "%s" UINT64_FORMAT ".%03d", sign, a / RPQ_UNIT,
									  (int) (rest / (RPQ_UNIT / 1000))));
	else
	{
		uint64		common = gcd(a, RPQ_UNIT);

		return sprintf(buf, "%s" UINT64_FORMAT "/" UINT64_FORMAT, sign, a / common, RPQ_UNIT / common);
	}
}

int
resources_amount_decimal(int64 amount, char *buf)
{
	uint64		a = amount < 0 ? -(uint64) amount : (uint64) amount;
	uint64		rest = a % RPQ_UNIT;
	char	   *p;

	if (resources_amount_is_decimal(amount))
		return resources_amount_print(amount, buf);
	p = buf + sprintf(buf, "%s" UINT64_FORMAT ".", amount < 0 ? "-" : "", a / RPQ_UNIT);
	for (int i = 0; i < 20; i++)
	{
		rest *= 10;
		*p++ = '0' + rest / RPQ_UNIT;
		rest %= RPQ_UNIT;
	}
	*p = '\0';
	/* sevenths and thirds do not come near 0.999..., so a carry never leaves the places */
	if (rest * 2 >= RPQ_UNIT)
	{
		char	   *q = p - 1;

		while (*q == '9')
			*q-- = '0';
		(*q)++;
	}
	return p - buf;
}

/* "96", "1/7", "0.5" and the like, then a space and the unit, at p; returns the end */
static char *
print_with_unit(char *p, int64 amount, const char *unit, int unit_len)
{
	p += resources_amount_print(amount, p);
	*p++ = ' ';
	memcpy(p, unit, unit_len);
	return p + unit_len;
}

/*
 * Memory, held in MiB, in the largest unit in which it is at least one and needs no more than three places: figures
 * that people compare must not be rounded.
 */
static char *
print_memory(char *p, int64 amount)
{
	static const char *const units[] = {"MiB", "GiB", "TiB", "PiB"};
	int			unit = 0;
	int64		kib;

	for (int u = lengthof(units) - 1; u > 0; u--)
	{
		int64		size = INT64CONST(1) << (10 * u);

		if (amount % size == 0 && (amount / size >= RPQ_UNIT || amount / size <= -RPQ_UNIT) &&
			resources_amount_is_decimal(amount / size))
		{
			unit = u;
			amount /= size;
			break;
		}
	}
	if (unit == 0 && amount > -RPQ_UNIT && amount < RPQ_UNIT)
	{
		kib = amount * 1024;
		if (kib != 0 && kib % RPQ_UNIT == 0)
			return print_with_unit(p, kib, "KiB", 3);
	}
	return print_with_unit(p, amount, units[unit], 3);
}

/* Text of all items takes at most so many bytes: keys, amounts, and separators or units. */
static Size
text_size(const Resources *r)
{
	return VARSIZE(r) + (Size) r->nkeys * (RESOURCES_AMOUNT_LEN + 8) + 1;
}

char *
resources_text(const Resources *r)
{
	char	   *buf = palloc(text_size(r));
	char	   *p = buf;

	for (int i = 0; i < r->nkeys; i++)
	{
		if (i > 0)
			*p++ = ',';
		memcpy(p, resources_key(r, i), resources_key_len(r, i));
		p += resources_key_len(r, i);
		*p++ = '=';
		p += resources_amount_print(resources_amount(r, i), p);
	}
	*p = '\0';
	return buf;
}

/* cpu, gpu and memory first, in this order, with units of their own; then the others by key */
char *
resources_pretty(const Resources *r)
{
	static const char *const known[] = {"cpu", "gpu", "memory"};
	char	   *buf = palloc(text_size(r));
	char	   *p = buf;

	for (int pass = 0; pass <= lengthof(known); pass++)
		for (int i = 0; i < r->nkeys; i++)
		{
			const char *key = resources_key(r, i);
			int			len = resources_key_len(r, i);
			int			k = 0;

			while (k < lengthof(known) && !(strlen(known[k]) == len && memcmp(known[k], key, len) == 0))
				k++;
			if (k != pass)
				continue;
			if (p > buf)
				p += sprintf(p, " \302\267 ");	/* middle dot */
			if (k == 0)
				p = print_with_unit(p, resources_amount(r, i), "CPU", 3);
			else if (k == 1)
				p = print_with_unit(p, resources_amount(r, i), "GPU", 3);
			else if (k == 2)
				p = print_memory(p, resources_amount(r, i));
			else
				p = print_with_unit(p, resources_amount(r, i), key, len);
		}
	*p = '\0';
	return buf;
}

/*
 * resources.c
 *
 * The memory image of rpq.resources and the arithmetic on it: construction, look-up, sums, comparison, wire format.
 * Text is in resources_text.c.  Pure: palloc and ereport alone.
 */
#include "postgres.h"

#include "common/int.h"

#include "core/resources.h"

typedef enum MergeOp
{
	MERGE_ADD,
	MERGE_SUB,
	MERGE_LEAST,
	MERGE_GREATEST
} MergeOp;

/* A key and its amount while a value is being built */
typedef struct Entry
{
	const char *key;
	int			len;
	int64		amount;
} Entry;

/*
 * Raise 22003; key is the one whose amount is out of range (NULL: not known).
 */
void
resources_out_of_range(const char *key, int keylen)
{
	if (key != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("resource amount out of range"),
				 errdetail("The amount of \"%.*s\" is out of range; the largest amount is "
						   "9223372036854775807/21000, about 439208192231179.8.", keylen, key)));
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("resource amount out of range"),
			 errdetail("The largest amount is 9223372036854775807/21000, about 439208192231179.8.")));
}

bool
resources_key_is_valid(const char *key, int len)
{
	if (len < 1 || len > RESOURCES_MAX_KEY_LEN || key[0] < 'a' || key[0] > 'z')
		return false;
	for (int i = 1; i < len; i++)
	{
		char		c = key[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'))
			return false;
	}
	return true;
}

/* Bytewise order; a key that another begins with comes first. */
static inline int
key_cmp(const char *a, int alen, const char *b, int blen)
{
	int			c = memcmp(a, b, Min(alen, blen));

	return c != 0 ? c : alen - blen;
}

static int
entry_cmp(const void *a, const void *b)
{
	const Entry *ea = a;
	const Entry *eb = b;

	return key_cmp(ea->key, ea->len, eb->key, eb->len);
}

/*
 * The image of entries that are sorted, unique and of valid keys already.
 */
static Resources *
form(int n, const Entry *entries)
{
	Size		keybytes = 0;
	Size		size;
	uint32		offset = 0;
	Resources  *r;
	char	   *keys;

	if (n > RESOURCES_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many keys in resources"),
				 errdetail("A value holds at most %d keys, here are %d.", RESOURCES_MAX_KEYS, n)));
	for (int i = 0; i < n; i++)
		keybytes += entries[i].len;
	size = RESOURCES_HDRSZ + n * sizeof(ResourceItem) + keybytes;
	r = palloc(size);
	SET_VARSIZE(r, size);
	r->nkeys = n;
	keys = (char *) &r->items[n];
	for (int i = 0; i < n; i++)
	{
		r->items[i].amount = entries[i].amount;
		r->items[i].key_offset = offset;
		r->items[i].key_len = entries[i].len;
		memcpy(keys + offset, entries[i].key, entries[i].len);
		offset += entries[i].len;
	}
	return r;
}

Resources *
resources_empty(void)
{
	return form(0, NULL);
}

Resources *
resources_copy(const Resources *r)
{
	Resources  *copy = palloc(VARSIZE(r));

	memcpy(copy, r, VARSIZE(r));
	return copy;
}

Resources *
resources_build_n(int nkeys, const char **keys, const int *lens, const int64 *amounts)
{
	Entry	   *entries = palloc(Max(nkeys, 1) * sizeof(Entry));
	Resources  *r;

	for (int i = 0; i < nkeys; i++)
	{
		Entry	   *e = &entries[i];

		e->key = keys[i];
		e->len = lens != NULL ? lens[i] : (int) strlen(keys[i]);
		e->amount = amounts[i];
		if (!resources_key_is_valid(e->key, e->len))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid resource key: \"%.*s\"", Min(e->len, 80), e->key),
					 errdetail("A key has at most %d of the characters a-z, 0-9, \"_\", \".\" and \"-\", "
							   "and starts with a letter.", RESOURCES_MAX_KEY_LEN)));
		if (!RPQ_AMOUNT_IS_VALID(e->amount))
			resources_out_of_range(e->key, e->len);
	}
	qsort(entries, nkeys, sizeof(Entry), entry_cmp);
	for (int i = 1; i < nkeys; i++)
		if (entry_cmp(&entries[i - 1], &entries[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("resource key \"%.*s\" is given more than once", entries[i].len, entries[i].key)));
	r = form(nkeys, entries);
	pfree(entries);
	return r;
}

Resources *
resources_build(int nkeys, const char **keys, const int64 *amounts)
{
	return resources_build_n(nkeys, keys, NULL, amounts);
}

/*
 * Wire format: byte 1 (the format's version), int32 number of keys, then for each key in order: one byte with its
 * length, its bytes, int64 amount; integers in network order.  Only the canonical form is accepted.
 */
#define WIRE_VERSION	1
#define WIRE_HDRSZ		5

static void
bad_wire(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
			 errmsg("invalid binary representation of resources"),
			 errdetail("%s.", why)));
}

static uint64
wire_read(const char *p, int bytes)
{
	uint64		v = 0;

	for (int i = 0; i < bytes; i++)
		v = v << 8 | (unsigned char) p[i];
	return v;
}

static void
wire_write(char *p, uint64 v, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, v >>= 8)
		p[i] = (char) (v & 0xFF);
}

Resources *
resources_from_wire(const char *data, int len, int *used)
{
	const char *p = data;
	const char *end = data + len;
	uint64		n;
	Entry	   *entries;
	Resources  *r;

	if (len < WIRE_HDRSZ)
		bad_wire("It ends early");
	if (*p != WIRE_VERSION)
		bad_wire("The format's version is unknown");
	n = wire_read(p + 1, 4);
	if (n > RESOURCES_MAX_KEYS)
		bad_wire("There are too many keys");
	p += WIRE_HDRSZ;
	entries = palloc(Max(n, 1) * sizeof(Entry));
	for (uint64 i = 0; i < n; i++)
	{
		Entry	   *e = &entries[i];

		if (end - p < 1)
			bad_wire("It ends early");
		e->len = (unsigned char) *p++;
		if (end - p < e->len + (int) sizeof(int64))
			bad_wire("It ends early");
		e->key = p;
		if (!resources_key_is_valid(e->key, e->len))
			bad_wire("A key has a bad length or a character that is not allowed");
		if (i > 0 && entry_cmp(e - 1, e) >= 0)
			bad_wire("The keys are not sorted or not unique");
		p += e->len;
		e->amount = (int64) wire_read(p, sizeof(int64));
		if (!RPQ_AMOUNT_IS_VALID(e->amount))
			bad_wire("An amount is out of range");
		p += sizeof(int64);
	}
	*used = p - data;
	r = form((int) n, entries);
	pfree(entries);
	return r;
}

char *
resources_to_wire(const Resources *r, int *len)
{
	int			size = WIRE_HDRSZ;
	char	   *data;
	char	   *p;

	for (int i = 0; i < r->nkeys; i++)
		size += 1 + resources_key_len(r, i) + sizeof(int64);
	p = data = palloc(size);
	*p = WIRE_VERSION;
	wire_write(p + 1, r->nkeys, 4);
	p += WIRE_HDRSZ;
	for (int i = 0; i < r->nkeys; i++)
	{
		int			keylen = resources_key_len(r, i);

		*p++ = (char) keylen;
		memcpy(p, resources_key(r, i), keylen);
		p += keylen;
		wire_write(p, (uint64) r->items[i].amount, sizeof(int64));
		p += sizeof(int64);
	}
	*len = size;
	return data;
}

/* Values have a handful of keys, so a walk is quicker than a search. */
int64
resources_get(const Resources *r, const char *key, int keylen, bool *found)
{
	for (int i = 0; i < r->nkeys; i++)
		if (resources_key_len(r, i) == keylen && memcmp(resources_key(r, i), key, keylen) == 0)
		{
			if (found != NULL)
				*found = true;
			return r->items[i].amount;
		}
	if (found != NULL)
		*found = false;
	return 0;
}

int64
resources_amount_add(int64 a, int64 b)
{
	int64		sum;

	if (pg_add_s64_overflow(a, b, &sum) || !RPQ_AMOUNT_IS_VALID(sum))
		resources_out_of_range(NULL, 0);
	return sum;
}

static inline int64
merge_amounts(MergeOp op, int64 a, int64 b, const char *key, int keylen)
{
	int64		result;

	switch (op)
	{
		case MERGE_LEAST:
			return Min(a, b);
		case MERGE_GREATEST:
			return Max(a, b);
		case MERGE_SUB:
			b = -b;				/* the range is symmetric */
			break;
		case MERGE_ADD:
			break;
	}
	if (pg_add_s64_overflow(a, b, &result) || !RPQ_AMOUNT_IS_VALID(result))
		resources_out_of_range(key, keylen);
	return result;
}

/*
 * Are the keys the same?  Offsets follow from lengths, so comparing lengths and bytes is enough.
 */
static bool
same_keys(const Resources *a, const Resources *b)
{
	if (a->nkeys != b->nkeys || VARSIZE(a) != VARSIZE(b))
		return false;
	for (int i = 0; i < a->nkeys; i++)
		if (a->items[i].key_len != b->items[i].key_len)
			return false;
	return memcmp(resources_keys(a), resources_keys(b),
				  VARSIZE(a) - RESOURCES_HDRSZ - a->nkeys * sizeof(ResourceItem)) == 0;
}

/* The general case of merge: walk both in key order.  A side that lacks a key counts as zero in sums. */
static Resources *
merge_union(MergeOp op, const Resources *a, const Resources *b)
{
	Entry	   *entries = palloc(Max(a->nkeys + b->nkeys, 1) * sizeof(Entry));
	Entry	   *e = entries;
	Resources  *r;
	int			i = 0;
	int			j = 0;

	while (i < a->nkeys || j < b->nkeys)
	{
		int			c;

		if (j >= b->nkeys)
			c = -1;
		else if (i >= a->nkeys)
			c = 1;
		else
			c = key_cmp(resources_key(a, i), resources_key_len(a, i),
						resources_key(b, j), resources_key_len(b, j));
		e->key = c <= 0 ? resources_key(a, i) : resources_key(b, j);
		e->len = c <= 0 ? resources_key_len(a, i) : resources_key_len(b, j);
		if (c == 0)
			e->amount = merge_amounts(op, a->items[i].amount, b->items[j].amount, e->key, e->len);
		else if (c < 0)
			e->amount = a->items[i].amount;
		else
			e->amount = op == MERGE_SUB ? -b->items[j].amount : b->items[j].amount;
		if (c <= 0)
			i++;
		if (c >= 0)
			j++;
		e++;
	}
	r = form(e - entries, entries);
	pfree(entries);
	return r;
}

static Resources *
merge(MergeOp op, const Resources *a, const Resources *b)
{
	Resources  *r;

	if (!same_keys(a, b))
		return merge_union(op, a, b);
	r = resources_copy(a);
	for (int i = 0; i < r->nkeys; i++)
		r->items[i].amount = merge_amounts(op, a->items[i].amount, b->items[i].amount,
										   resources_key(a, i), resources_key_len(a, i));
	return r;
}

Resources *
resources_add(const Resources *a, const Resources *b)
{
	return merge(MERGE_ADD, a, b);
}

Resources *
resources_sub(const Resources *a, const Resources *b)
{
	return merge(MERGE_SUB, a, b);
}

Resources *
resources_least(const Resources *a, const Resources *b)
{
	return merge(MERGE_LEAST, a, b);
}

Resources *
resources_greatest(const Resources *a, const Resources *b)
{
	return merge(MERGE_GREATEST, a, b);
}

bool
resources_add_into(Resources *a, const Resources *b)
{
	if (!same_keys(a, b))
		return false;
	for (int i = 0; i < a->nkeys; i++)
		a->items[i].amount = merge_amounts(MERGE_ADD, a->items[i].amount, b->items[i].amount,
										   resources_key(a, i), resources_key_len(a, i));
	return true;
}

Resources *
resources_neg(const Resources *a)
{
	Resources  *r = resources_copy(a);

	for (int i = 0; i < r->nkeys; i++)
		r->items[i].amount = -r->items[i].amount;
	return r;
}

Resources *
resources_mul_int(const Resources *a, int64 factor)
{
	Resources  *r = resources_copy(a);

	for (int i = 0; i < r->nkeys; i++)
	{
		int64		product;

		if (pg_mul_s64_overflow(a->items[i].amount, factor, &product) || !RPQ_AMOUNT_IS_VALID(product))
			resources_out_of_range(resources_key(a, i), resources_key_len(a, i));
		r->items[i].amount = product;
	}
	return r;
}

bool
resources_equal(const Resources *a, const Resources *b)
{
	return VARSIZE(a) == VARSIZE(b) && memcmp(a, b, VARSIZE(a)) == 0;
}

/*
 * Compares the lists of (key, amount) as words are compared: the first pair that differs decides, by key, then by
 * amount; a list that another begins with comes first.
 */
int
resources_cmp(const Resources *a, const Resources *b)
{
	int			n = Min(a->nkeys, b->nkeys);

	for (int i = 0; i < n; i++)
	{
		int			c = key_cmp(resources_key(a, i), resources_key_len(a, i),
								resources_key(b, i), resources_key_len(b, i));

		if (c != 0)
			return c < 0 ? -1 : 1;
		if (a->items[i].amount != b->items[i].amount)
			return a->items[i].amount < b->items[i].amount ? -1 : 1;
	}
	return a->nkeys == b->nkeys ? 0 : (a->nkeys < b->nkeys ? -1 : 1);
}

bool
resources_fits(const Resources *a, const Resources *capacity)
{
	for (int i = 0; i < a->nkeys; i++)
		if (a->items[i].amount > 0 &&
			a->items[i].amount > resources_get(capacity, resources_key(a, i), resources_key_len(a, i), NULL))
			return false;
	return true;
}

bool
resources_within(const Resources *usage, const Resources *limit)
{
	for (int i = 0; i < limit->nkeys; i++)
		if (resources_get(usage, resources_key(limit, i), resources_key_len(limit, i), NULL) >
			limit->items[i].amount)
			return false;
	return true;
}

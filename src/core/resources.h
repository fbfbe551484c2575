/*
 * resources.h
 *
 * A vector of named, exact amounts: the memory image of the type rpq.resources and the arithmetic on it.  Pure: it
 * needs palloc and ereport, and nothing else of the server, so it also compiles into stand-alone test programs.
 *
 * The image is a varlena, aligned as double and stored as it lies in memory:
 *
 *		header | nkeys items, in the order of their keys | the keys' bytes, in the same order, without gaps
 *
 * It is canonical: keys are unique and sorted bytewise, items and key bytes follow each other without padding.  So two
 * values are equal exactly when their bytes are.  Every function here takes canonical values and returns them; results
 * are palloc'd in the current memory context, arguments are never changed or freed (resources_add_into excepted).
 */
#ifndef RPQ_RESOURCES_H
#define RPQ_RESOURCES_H

/* Amounts are whole multiples of 1/RPQ_UNIT: thousandths, thirds and sevenths are all whole. */
#define RPQ_UNIT				INT64CONST(21000)
/* The range is symmetric, so that a negation cannot overflow: PG_INT64_MIN is no amount. */
#define RPQ_AMOUNT_MAX			PG_INT64_MAX
#define RPQ_AMOUNT_IS_VALID(a)	((a) != PG_INT64_MIN)

#define RESOURCES_MAX_KEY_LEN	63	/* bytes */
#define RESOURCES_MAX_KEYS		1000	/* more are refused with 54000 */
#define RESOURCES_AMOUNT_LEN	48	/* buffer that holds the text of any amount */

typedef struct ResourceItem
{
	int64		amount;			/* multiples of 1/RPQ_UNIT */
	uint32		key_offset;		/* from the first key byte */
	uint32		key_len;		/* bytes; keys are not zero-terminated */
} ResourceItem;

typedef struct Resources
{
	int32		vl_len_;		/* varlena header, never touched directly */
	int32		nkeys;
	ResourceItem items[FLEXIBLE_ARRAY_MEMBER];
} Resources;

/* Accessors: the i-th item in the order of keys */
#define RESOURCES_HDRSZ			offsetof(Resources, items)
#define resources_nkeys(r)		((r)->nkeys)
#define resources_amount(r, i)	((r)->items[i].amount)
#define resources_keys(r)		((const char *) &(r)->items[(r)->nkeys])
#define resources_key(r, i)		(resources_keys(r) + (r)->items[i].key_offset)
#define resources_key_len(r, i) ((int) (r)->items[i].key_len)

/* For callers that have fmgr.h.  The result may be the stored image itself: read only. */
#define DatumGetResourcesP(d)		((Resources *) PG_DETOAST_DATUM(d))
#define DatumGetResourcesPCopy(d)	((Resources *) PG_DETOAST_DATUM_COPY(d))
#define ResourcesPGetDatum(p)		PointerGetDatum(p)
#define PG_GETARG_RESOURCES_P(n)	DatumGetResourcesP(PG_GETARG_DATUM(n))
#define PG_RETURN_RESOURCES_P(p)	return ResourcesPGetDatum(p)

/*
 * Text.  Bad text is 22P02, an amount out of range 22003, each with the place in the errdetail.
 *
 * resources_amount_parse reads one amount without its key, spaces around it allowed; what names the source in errors.
 * resources_amount_print writes the canonical text into buf (RESOURCES_AMOUNT_LEN bytes) and returns its length;
 * resources_amount_is_decimal tells whether that text is a plain decimal, not a fraction.
 * resources_amount_decimal writes a decimal in any case, what has no end rounded half away from zero to 20 places.
 */
extern Resources *resources_parse(const char *text);
extern char *resources_text(const Resources *r);
extern char *resources_pretty(const Resources *r);
extern int64 resources_amount_parse(const char *text, int len, const char *what);
extern int	resources_amount_print(int64 amount, char *buf);
extern bool resources_amount_is_decimal(int64 amount);
extern int	resources_amount_decimal(int64 amount, char *buf);

/*
 * Construction.  resources_build sorts; zero-terminated keys.  A bad or repeated key is 22P02, more than
 * RESOURCES_MAX_KEYS 54000, an amount of PG_INT64_MIN 22003.  resources_build_n takes the keys' lengths (NULL: they
 * are zero-terminated).
 */
extern Resources *resources_empty(void);
extern Resources *resources_build(int nkeys, const char **keys, const int64 *amounts);
extern Resources *resources_build_n(int nkeys, const char **keys, const int *lens, const int64 *amounts);
extern Resources *resources_copy(const Resources *r);
extern bool resources_key_is_valid(const char *key, int len);

/* Binary wire format; hostile bytes are 22P03.  *used is set to the bytes read. */
extern Resources *resources_from_wire(const char *data, int len, int *used);
extern char *resources_to_wire(const Resources *r, int *len);

/* Look-up: the amount of a key; 0 and *found = false where it is absent (found may be NULL) */
extern int64 resources_get(const Resources *r, const char *key, int keylen, bool *found);

/*
 * Arithmetic, by key over the union of keys; a key that is absent counts as zero.  Overflow is 22003.
 *
 * resources_least and resources_greatest take a key that only one side has from that side.
 * resources_add_into adds b to a in place where both have the same keys, and returns false, a untouched, otherwise.
 */
extern Resources *resources_add(const Resources *a, const Resources *b);
extern Resources *resources_sub(const Resources *a, const Resources *b);
extern Resources *resources_neg(const Resources *a);
extern Resources *resources_mul_int(const Resources *a, int64 factor);
extern Resources *resources_least(const Resources *a, const Resources *b);
extern Resources *resources_greatest(const Resources *a, const Resources *b);
extern bool resources_add_into(Resources *a, const Resources *b);
extern int64 resources_amount_add(int64 a, int64 b);
extern void resources_out_of_range(const char *key, int keylen) pg_attribute_noreturn();

/*
 * Comparison.  fits: every positive amount of a is there in capacity and no smaller.  within: for each key of limit,
 * usage (absent: zero) is no larger; keys that limit lacks are not limited.  cmp is a total order for sorting alone.
 */
extern bool resources_equal(const Resources *a, const Resources *b);
extern int	resources_cmp(const Resources *a, const Resources *b);
extern bool resources_fits(const Resources *a, const Resources *capacity);
extern bool resources_within(const Resources *usage, const Resources *limit);

#endif							/* RPQ_RESOURCES_H */

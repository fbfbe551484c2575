/*
 * resources_type.c
 *
 * The SQL face of rpq.resources: input and output, operators, casts, the aggregate, and what btree and hash classes
 * need.  Thin: layout and arithmetic are src/core's.  Touches no table and takes no lock.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "core/resources.h"

PG_FUNCTION_INFO_V1(resources_in);
PG_FUNCTION_INFO_V1(resources_out);
PG_FUNCTION_INFO_V1(resources_recv);
PG_FUNCTION_INFO_V1(resources_send);
PG_FUNCTION_INFO_V1(resources_plus);
PG_FUNCTION_INFO_V1(resources_minus);
PG_FUNCTION_INFO_V1(resources_negate);
PG_FUNCTION_INFO_V1(resources_mul_numeric);
PG_FUNCTION_INFO_V1(numeric_mul_resources);
PG_FUNCTION_INFO_V1(resources_accum);
PG_FUNCTION_INFO_V1(resources_get_numeric);
PG_FUNCTION_INFO_V1(resources_contained);
PG_FUNCTION_INFO_V1(resources_is_within);
PG_FUNCTION_INFO_V1(resources_min);
PG_FUNCTION_INFO_V1(resources_max);
PG_FUNCTION_INFO_V1(resources_for_people);
PG_FUNCTION_INFO_V1(resources_eq);
PG_FUNCTION_INFO_V1(resources_ne);
PG_FUNCTION_INFO_V1(resources_lt);
PG_FUNCTION_INFO_V1(resources_le);
PG_FUNCTION_INFO_V1(resources_gt);
PG_FUNCTION_INFO_V1(resources_ge);
PG_FUNCTION_INFO_V1(resources_btcmp);
PG_FUNCTION_INFO_V1(resources_hash);
PG_FUNCTION_INFO_V1(resources_hash_extended);
PG_FUNCTION_INFO_V1(resources_to_jsonb);
PG_FUNCTION_INFO_V1(jsonb_to_resources);

/*
 * Input and output
 */
Datum
resources_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(resources_parse(PG_GETARG_CSTRING(0)));
}

Datum
resources_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(resources_text(PG_GETARG_RESOURCES_P(0)));
}

Datum
resources_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			used;
	Resources  *r = resources_from_wire(buf->data + buf->cursor, buf->len - buf->cursor, &used);

	buf->cursor += used;
	PG_RETURN_RESOURCES_P(r);
}

Datum
resources_send(PG_FUNCTION_ARGS)
{
	StringInfoData buf;
	int			len;
	char	   *data = resources_to_wire(PG_GETARG_RESOURCES_P(0), &len);

	pq_begintypsend(&buf);
	pq_sendbytes(&buf, data, len);
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/*
 * Arithmetic
 */
Datum
resources_plus(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(resources_add(PG_GETARG_RESOURCES_P(0), PG_GETARG_RESOURCES_P(1)));
}

Datum
resources_minus(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(resources_sub(PG_GETARG_RESOURCES_P(0), PG_GETARG_RESOURCES_P(1)));
}

Datum
resources_negate(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(resources_neg(PG_GETARG_RESOURCES_P(0)));
}

Datum
resources_min(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(resources_least(PG_GETARG_RESOURCES_P(0), PG_GETARG_RESOURCES_P(1)));
}

Datum
resources_max(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(resources_greatest(PG_GETARG_RESOURCES_P(0), PG_GETARG_RESOURCES_P(1)));
}

/*
 * The transition of sum().  The state is the aggregate's own, so that it may be added to in place; a state that had to
 * be detoasted is a copy, which the executor then takes over as the new state.
 */
Datum
resources_accum(PG_FUNCTION_ARGS)
{
	Resources  *state = PG_GETARG_RESOURCES_P(0);
	Resources  *next = PG_GETARG_RESOURCES_P(1);

	if (AggCheckCallContext(fcinfo, NULL) && resources_add_into(state, next))
		PG_RETURN_RESOURCES_P(state);
	PG_RETURN_RESOURCES_P(resources_add(state, next));
}

static int
numeric_compare(Numeric a, Numeric b)
{
	return DatumGetInt32(DirectFunctionCall2(numeric_cmp, NumericGetDatum(a), NumericGetDatum(b)));
}

/*
 * units * factor as an amount.  Exact or an error: the product of an integer and a numeric has no rounding.
 */
static int64
exact_product(int64 units, Numeric factor, const char *key, int keylen)
{
	Datum		product;
	Datum		whole;
	Numeric		limit = int64_to_numeric(RPQ_AMOUNT_MAX);

	if (numeric_is_nan(factor) || numeric_is_inf(factor))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("resource amounts cannot be multiplied by NaN or infinity")));
	product = DirectFunctionCall2(numeric_mul, NumericGetDatum(int64_to_numeric(units)), NumericGetDatum(factor));
	whole = DirectFunctionCall2(numeric_trunc, product, Int32GetDatum(0));
	if (numeric_compare(DatumGetNumeric(product), DatumGetNumeric(whole)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("resource amount is not a whole multiple of 1/21000"),
				 errdetail("The amount of \"%.*s\" would have to be rounded, which amounts never are.", keylen, key)));
	if (numeric_compare(DatumGetNumeric(DirectFunctionCall1(numeric_abs, whole)), limit) > 0)
		resources_out_of_range(key, keylen);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, whole));
}

static Resources *
multiply(const Resources *r, Numeric factor)
{
	Resources  *result = resources_copy(r);

	for (int i = 0; i < resources_nkeys(r); i++)
		result->items[i].amount = exact_product(resources_amount(r, i), factor,
												resources_key(r, i), resources_key_len(r, i));
	return result;
}

Datum
resources_mul_numeric(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(multiply(PG_GETARG_RESOURCES_P(0), PG_GETARG_NUMERIC(1)));
}

Datum
numeric_mul_resources(PG_FUNCTION_ARGS)
{
	PG_RETURN_RESOURCES_P(multiply(PG_GETARG_RESOURCES_P(1), PG_GETARG_NUMERIC(0)));
}

static Numeric
amount_to_numeric(int64 amount)
{
	char		buf[RESOURCES_AMOUNT_LEN];

	resources_amount_decimal(amount, buf);
	return DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(buf),
											   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

Datum
resources_get_numeric(PG_FUNCTION_ARGS)
{
	text	   *key = PG_GETARG_TEXT_PP(1);
	bool		found;
	int64		amount = resources_get(PG_GETARG_RESOURCES_P(0), VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), &found);

	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_NUMERIC(amount_to_numeric(amount));
}

/*
 * Comparison
 */
Datum
resources_contained(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(resources_fits(PG_GETARG_RESOURCES_P(0), PG_GETARG_RESOURCES_P(1)));
}

Datum
resources_is_within(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(resources_within(PG_GETARG_RESOURCES_P(0), PG_GETARG_RESOURCES_P(1)));
}

/* Both arguments are freed where they had to be detoasted: index builds call these many times in one context. */
static int
compare_args(FunctionCallInfo fcinfo)
{
	Resources  *a = PG_GETARG_RESOURCES_P(0);
	Resources  *b = PG_GETARG_RESOURCES_P(1);
	int			c = resources_cmp(a, b);

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return c;
}

static bool
equal_args(FunctionCallInfo fcinfo)
{
	Resources  *a = PG_GETARG_RESOURCES_P(0);
	Resources  *b = PG_GETARG_RESOURCES_P(1);
	bool		equal = resources_equal(a, b);

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return equal;
}

Datum
resources_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(equal_args(fcinfo));
}

Datum
resources_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!equal_args(fcinfo));
}

Datum
resources_lt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) < 0);
}

Datum
resources_le(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) <= 0);
}

Datum
resources_gt(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) > 0);
}

Datum
resources_ge(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(compare_args(fcinfo) >= 0);
}

Datum
resources_btcmp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(compare_args(fcinfo));
}

Datum
resources_hash(PG_FUNCTION_ARGS)
{
	Resources  *r = PG_GETARG_RESOURCES_P(0);
	uint32		hash = hash_bytes((unsigned char *) VARDATA(r), VARSIZE(r) - VARHDRSZ);

	PG_FREE_IF_COPY(r, 0);
	PG_RETURN_UINT32(hash);
}

Datum
resources_hash_extended(PG_FUNCTION_ARGS)
{
	Resources  *r = PG_GETARG_RESOURCES_P(0);
	uint64		hash = hash_bytes_extended((unsigned char *) VARDATA(r), VARSIZE(r) - VARHDRSZ, PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(r, 0);
	PG_RETURN_UINT64(hash);
}

Datum
resources_for_people(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(resources_pretty(PG_GETARG_RESOURCES_P(0))));
}

/*
 * jsonb: an object of numbers, and of strings for fractions
 */
Datum
resources_to_jsonb(PG_FUNCTION_ARGS)
{
	Resources  *r = PG_GETARG_RESOURCES_P(0);
	JsonbParseState *state = NULL;
	JsonbValue	v;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < resources_nkeys(r); i++)
	{
		int64		amount = resources_amount(r, i);

		v.type = jbvString;
		v.val.string.val = unconstify(char *, resources_key(r, i));
		v.val.string.len = resources_key_len(r, i);
		pushJsonbValue(&state, WJB_KEY, &v);
		if (resources_amount_is_decimal(amount))
		{
			v.type = jbvNumeric;
			v.val.numeric = amount_to_numeric(amount);
		}
		else
		{
			v.type = jbvString;
			v.val.string.val = palloc(RESOURCES_AMOUNT_LEN);
			v.val.string.len = resources_amount_print(amount, v.val.string.val);
		}
		pushJsonbValue(&state, WJB_VALUE, &v);
	}
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

static int64
jsonb_amount(const JsonbValue *v, const char *key, int keylen)
{
	switch (v->type)
	{
		case jbvNumeric:
			return exact_product(RPQ_UNIT, v->val.numeric, key, keylen);
		case jbvString:
			return resources_amount_parse(v->val.string.val, v->val.string.len,
										  psprintf("the amount of \"%.*s\"", Min(keylen, RESOURCES_MAX_KEY_LEN), key));
		default:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid resource amount in jsonb"),
					 errdetail("The value of \"%.*s\" is neither a number nor a string.",
							   Min(keylen, RESOURCES_MAX_KEY_LEN), key)));
			return 0;			/* keep the compiler quiet */
	}
}

Datum
jsonb_to_resources(PG_FUNCTION_ARGS)
{
	Jsonb	   *jb = PG_GETARG_JSONB_P(0);
	int			max;
	int			n = 0;
	const char **keys;
	int		   *lens;
	int64	   *amounts;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;

	if (!JB_ROOT_IS_OBJECT(jb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("cannot cast jsonb to rpq.resources"),
				 errdetail("An object is expected, with an amount for each key, as in {\"gpu\": 8}.")));
	max = Max(JB_ROOT_COUNT(jb), 1);
	keys = palloc(max * sizeof(char *));
	lens = palloc(max * sizeof(int));
	amounts = palloc(max * sizeof(int64));
	it = JsonbIteratorInit(&jb->root);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
		{
			keys[n] = v.val.string.val;
			lens[n] = v.val.string.len;
		}
		else if (token == WJB_VALUE)
		{
			amounts[n] = jsonb_amount(&v, keys[n], lens[n]);
			n++;
		}
	}
	PG_RETURN_RESOURCES_P(resources_build_n(n, keys, lens, amounts));
}

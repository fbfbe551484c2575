/*
 * reservations.c
 *
 * rpq_store.short_policies: which policies are promised more than the pools that they reach hold.  Arrays in, rows out:
 * the flow is the core's (core/flow.h), what is promised and held is read by reservations.sql.
 *
 * Touches no table and takes no lock.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "core/flow.h"
#include "core/resources.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_short_policies);

/* Policies that promise something, pools that hold something, and who reaches what. */
typedef struct Promises
{
	int			npolicies;
	int64	   *policies;		/* sorted */
	Resources **reservations;	/* [npolicies] */
	int			npools;
	int64	   *pools;			/* sorted */
	Resources **supplies;		/* [npools] */
	bool	   *reach;			/* [npolicies][npools] */
	bool	   *counts;			/* [npolicies]: is connected with what was touched */
} Promises;

static int64 *
ids_of(FunctionCallInfo fcinfo, int argument, int *n)
{
	Datum	   *elements;
	bool	   *nulls;
	int64	   *ids;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &elements, &nulls,
					  n);
	ids = palloc(sizeof(int64) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		ids[i] = nulls[i] ? 0 : DatumGetInt64(elements[i]);
	return ids;
}

static Resources **
amounts_of(FunctionCallInfo fcinfo, int argument, int expected)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(argument);
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	Resources **amounts;

	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE, &elements, &nulls, &n);
	if (n != expected)
		elog(ERROR, "%d amounts for %d objects", n, expected);
	amounts = palloc(sizeof(Resources *) * Max(n, 1));
	for (int i = 0; i < n; i++)
		amounts[i] = nulls[i] ? resources_empty() : DatumGetResourcesP(elements[i]);
	return amounts;
}

/* Where an id is among sorted ones; -1: nowhere. */
static int
place_of(const int64 *ids, int n, int64 id)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (ids[middle] < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && ids[low] == id ? low : -1;
}

static void
read_promises(FunctionCallInfo fcinfo, Promises *p)
{
	int			nways;
	int			nreached;
	int64	   *reaching = ids_of(fcinfo, 2, &nways);
	int64	   *reached = ids_of(fcinfo, 3, &nreached);

	p->policies = ids_of(fcinfo, 0, &p->npolicies);
	p->reservations = amounts_of(fcinfo, 1, p->npolicies);
	p->pools = ids_of(fcinfo, 4, &p->npools);
	p->supplies = amounts_of(fcinfo, 5, p->npools);
	if (nways != nreached)
		elog(ERROR, "%d policies reach %d pools", nways, nreached);
	p->reach = palloc0(sizeof(bool) * Max((Size) p->npolicies * p->npools, 1));
	for (int i = 0; i < nways; i++)
	{
		int			policy = place_of(p->policies, p->npolicies, reaching[i]);
		int			pool = place_of(p->pools, p->npools, reached[i]);

		/* a pool that was deleted holds nothing */
		if (policy >= 0 && pool >= 0)
			p->reach[(Size) policy * p->npools + pool] = true;
	}
}

/*
 * Marks the policies that are tied to the touched pools, through whatever pools and policies.  Policies that reach no
 * pool at all are on nobody's side: they count where everything does.
 */
static void
mark_connected(Promises *p, const int64 *touched, int ntouched)
{
	bool	   *seen = palloc0(sizeof(bool) * Max(p->npools, 1));
	bool		more = true;

	for (int i = 0; i < ntouched; i++)
	{
		int			pool = place_of(p->pools, p->npools, touched[i]);

		if (pool >= 0)
			seen[pool] = true;
	}
	while (more)
	{
		more = false;
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < p->npolicies; i++)
		{
			const bool *reach = &p->reach[(Size) i * p->npools];
			bool		tied = false;

			if (p->counts[i])
				continue;
			for (int j = 0; j < p->npools && !tied; j++)
				tied = reach[j] && seen[j];
			if (!tied)
				continue;
			p->counts[i] = true;
			more = true;
			for (int j = 0; j < p->npools; j++)
				seen[j] = seen[j] || reach[j];
		}
	}
}

/* All keys that are promised, each once, in order: the keys of the sum of all. */
static Resources *
promised_keys(const Promises *p)
{
	Resources  *all = resources_empty();

	for (int i = 0; i < p->npolicies; i++)
	{
		if (p->counts[i])
			all = resources_greatest(all, p->reservations[i]);
	}
	return all;
}

static Resources *
one_amount(const char *key, int64 amount)
{
	return resources_build(1, &key, &amount);
}

static void
put_shortage(ReturnSetInfo *rsinfo, const Promises *p, const char *key, const bool *is_short, int64 wanted,
			 int64 reachable)
{
	Datum		values[4];
	bool		nulls[4] = {false};
	int64	   *ids = palloc(sizeof(int64) * Max(p->npolicies, 1));
	int			n = 0;

	for (int i = 0; i < p->npolicies; i++)
	{
		if (is_short[i])
			ids[n++] = p->policies[i];
	}
	values[0] = CStringGetTextDatum(key);
	values[1] = rpq_int8_array(ids, n);
	values[2] = ResourcesPGetDatum(one_amount(key, wanted));
	values[3] = ResourcesPGetDatum(one_amount(key, reachable));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * What pools hold of one key.  No more than all that is asked for: a pool that has that much limits nobody, and sums
 * stay in range whatever pools are said to hold.
 */
static void
read_supply(const Promises *p, const char *key, int len, const int64 *demand, int64 *supply)
{
	int64		most = PG_INT64_MAX / Max(p->npools, 1);
	int64		asked = 0;

	for (int i = 0; i < p->npolicies; i++)
		asked = asked > most - Min(demand[i], most) ? most : asked + demand[i];
	for (int j = 0; j < p->npools; j++)
		supply[j] = Min(resources_get(p->supplies[j], key, len, NULL), asked);
}

/*
 * short_policies(policies, reservations, reaching, reached, pools, supplies, touched)
 */
Datum
rpq_short_policies(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Promises	p;
	Resources  *keys;
	Flow	   *flow;
	int64	   *demand;
	int64	   *supply;
	bool	   *is_short;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < 6; i++)
	{
		if (PG_ARGISNULL(i))
			return (Datum) 0;
	}
	read_promises(fcinfo, &p);
	p.counts = palloc0(sizeof(bool) * Max(p.npolicies, 1));
	if (PG_ARGISNULL(6))
		memset(p.counts, true, sizeof(bool) * p.npolicies);
	else
	{
		int			ntouched;
		int64	   *touched = ids_of(fcinfo, 6, &ntouched);

		mark_connected(&p, touched, ntouched);
	}
	keys = promised_keys(&p);
	flow = flow_create(p.npolicies, p.npools, p.reach);
	demand = palloc0(sizeof(int64) * Max(p.npolicies, 1));
	supply = palloc0(sizeof(int64) * Max(p.npools, 1));
	is_short = palloc0(sizeof(bool) * Max(p.npolicies, 1));
	for (int k = 0; k < resources_nkeys(keys); k++)
	{
		const char *key = resources_key(keys, k);
		int			len = resources_key_len(keys, k);
		int64		wanted;
		int64		reachable;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < p.npolicies; i++)
			demand[i] = p.counts[i] ? resources_get(p.reservations[i], key, len, NULL) : 0;
		read_supply(&p, key, len, demand, supply);
		(void) flow_max(flow, demand, supply);
		memset(is_short, false, sizeof(bool) * p.npolicies);
		if (flow_short(flow, is_short, &wanted, &reachable))
			put_shortage(rsinfo, &p, pnstrdup(key, len), is_short, wanted, reachable);
	}
	flow_free(flow);
	return (Datum) 0;
}

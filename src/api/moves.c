/*
 * moves.c
 *
 * rpq_store.plan_moves: where pods go that have to leave their nodes, for the operations that move them (moves.sql).
 *
 * Reads what load_moves.c reads; writes nothing, locks nothing.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"

#include "store/moves.h"
#include "store/spi.h"

PG_FUNCTION_INFO_V1(rpq_plan_moves);

static int64 *
id_array(FunctionCallInfo fcinfo, int argument, int *n)
{
	Datum	   *elements;
	bool	   *nulls;
	int64	   *ids;

	*n = 0;
	if (PG_ARGISNULL(argument))
		return NULL;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argument), INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &elements, &nulls,
					  n);
	ids = palloc(sizeof(int64) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
		ids[i] = nulls[i] ? 0 : DatumGetInt64(elements[i]);
	return ids;
}

static void
put_move(ReturnSetInfo *rsinfo, const PlannedMoves *plan, const Move *move)
{
	const MovingPod *pod = move->store;
	const PodPlace *place = &move->place;
	Datum		values[8];
	bool		nulls[8] = {false};

	values[0] = Int64GetDatum(pod->pod_id);
	values[1] = Int64GetDatum(pod->workload_id);
	values[2] = Int32GetDatum(pod->replica);
	values[3] = Int32GetDatum(pod->attempt);
	values[4] = ResourcesPGetDatum(pod->resources);
	values[5] = Int64GetDatum(pod->node_id);
	nulls[6] = place->node < 0;
	values[6] = place->node < 0 ? (Datum) 0 : Int64GetDatum(plan->world->nodes[place->node].node_id);
	nulls[7] = place->node < 0 || place->ndevices == 0;
	values[7] = nulls[7] ? (Datum) 0 : rpq_int4_array(place->devices, place->ndevices);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * rpq_store.plan_moves(pool_id, nodes, pods, wanted, folded)
 */
Datum
rpq_plan_moves(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	PlannedMoves *plan;
	int64	   *nodes;
	int64	   *pods;
	int64	   *wanted;
	int			nnodes;
	int			npods;
	int			nwanted;

	InitMaterializedSRF(fcinfo, 0);
	nodes = id_array(fcinfo, 1, &nnodes);
	pods = id_array(fcinfo, 2, &npods);
	wanted = id_array(fcinfo, 3, &nwanted);
	if (PG_ARGISNULL(0) || npods != nwanted)
		elog(ERROR, "plan_moves needs a pool, and as many wanted nodes as pods");
	SPI_connect();
	plan = moves_plan(PG_GETARG_INT64(0), nodes, nnodes, pods, wanted, npods,
					  PG_ARGISNULL(4) || PG_GETARG_BOOL(4));
	for (int i = 0; i < plan->nmoves; i++)
		put_move(rsinfo, plan, &plan->moves[i]);
	SPI_finish();
	PG_RETURN_NULL();
}

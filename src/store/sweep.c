/*
 * sweep.c
 *
 * What a cycle does before it decides: nodes that are silent, or were heard of again, or reported another capacity;
 * pods of unhealthy nodes; holds that are over.
 *
 * Whether there is anything of that is one statement, which reads each node's sign of life; what there is to do is done
 * by rpq_store.sweep_pools (sql/api/node_loss.sql), under the turns that the caller holds.  Nothing here writes or
 * locks a row itself.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/timestamp.h"

#include "rpq.h"
#include "store/spi.h"
#include "store/sweep.h"

/*
 * $1: the scopes, NULL for all; $2: now; $3: the last sign of life that is too old.  With nothing to do it is one scan
 * of node_seen, that looks at no node: OFFSET 0 keeps the joins what they are written as.
 */
static RpqStatement find_scopes = {
	"SELECT d.scope_id FROM ("
	"  SELECT n.pool_id AS scope_id"
	"    FROM (SELECT * FROM rpq_store.node_seen WHERE at <= $3 OR news OFFSET 0) s"
	"   CROSS JOIN LATERAL (SELECT * FROM rpq_store.node n WHERE n.node_id = s.node_id OFFSET 0) n"
	"   WHERE (s.at <= $3 AND n.health <> 'unhealthy')"
	"      OR (s.news AND (n.reported IS NULL OR n.reported OPERATOR(rpq.<>) s.reported))"
	"  UNION ALL"
	"  SELECT n.pool_id"
	"    FROM (SELECT * FROM rpq_store.node WHERE health = 'unhealthy' AND silent OFFSET 0) n"
	"   CROSS JOIN LATERAL (SELECT * FROM rpq_store.node_seen s WHERE s.node_id = n.node_id OFFSET 0) s"
	"   WHERE s.at > $3"
	"  UNION ALL"
	"  SELECT n.pool_id FROM (SELECT * FROM rpq_store.node WHERE health = 'unhealthy' OFFSET 0) n"
	"   CROSS JOIN LATERAL (SELECT * FROM rpq_store.node_load l WHERE l.node_id = n.node_id OFFSET 0) l"
	"   WHERE l.pods > 0 OR n.removing"
	"  UNION ALL"
	"  SELECT h.scope_id FROM rpq_store.hold h"
	"   WHERE h.purpose = 'stopping' AND (h.expires_at <= $2 OR NOT EXISTS ("
	"           SELECT FROM rpq_store.node_seen s WHERE s.node_id = h.node_id AND s.at > $3))"
	"  UNION ALL"
	"  SELECT p.pool_id FROM rpq_store.preemption p WHERE p.state = 'pending' AND p.expires_at <= $2"
	"  UNION ALL"
	"  SELECT p.pool_id FROM rpq_store.pool p JOIN rpq_store.turn t ON t.scope_id = p.pool_id"
	"   WHERE p.min_runtime > '0' AND p.status <> 'deleted' AND " GROWN_SINCE("t.last_at", "$2")
	") d WHERE $1 IS NULL OR d.scope_id = ANY ($1)"
	" GROUP BY d.scope_id ORDER BY d.scope_id",
	3, {INT8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID}, true
};

static RpqStatement sweep_scopes = {
	"SELECT rpq_store.sweep_pools($1)", 1, {INT8ARRAYOID}
};

static TimestampTz last_looked = DT_NOBEGIN;

PG_FUNCTION_INFO_V1(rpq_node_cutoff);

TimestampTz
sweep_cutoff(void)
{
	int64		timeout = rpq_node_timeout * USECS_PER_SEC;

	if (!rpq_clock_is_set() && GetCurrentTimestamp() - PgStartTime < timeout)
		return DT_NOBEGIN;
	return rpq_now() - timeout;
}

Datum
rpq_node_cutoff(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(sweep_cutoff());
}

int
sweep_find(const int64 *scopes, int n, int64 **found)
{
	TimestampTz now = rpq_now();
	Datum		values[3];
	char		nulls[4] = "   ";
	uint64		rows;

	nulls[0] = scopes == NULL ? 'n' : ' ';
	values[0] = scopes == NULL ? (Datum) 0 : rpq_int8_array(scopes, n);
	values[1] = TimestampTzGetDatum(now);
	values[2] = TimestampTzGetDatum(sweep_cutoff());
	rows = rpq_exec(&find_scopes, values, nulls);
	*found = palloc(sizeof(int64) * Max(rows, 1));
	for (uint64 i = 0; i < rows; i++)
		(*found)[i] = rpq_column_int64(i, 1, 0);
	SPI_freetuptable(SPI_tuptable);
	return (int) rows;
}

int
sweep_find_sometimes(int64 **found)
{
	TimestampTz now = rpq_now();

	*found = NULL;
	if (now >= last_looked && now < last_looked + USECS_PER_SEC)
		return 0;
	last_looked = now;
	return sweep_find(NULL, 0, found);
}

void
sweep(const int64 *scopes, int n)
{
	Datum		values[1];

	if (n == 0)
		return;
	values[0] = rpq_int8_array(scopes, n);
	rpq_exec(&sweep_scopes, values, NULL);
	SPI_freetuptable(SPI_tuptable);
}

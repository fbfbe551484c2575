/*
 * shape.c
 *
 * The lane's key.  64 bits of SHA-256: short enough for an index, and nobody can choose values that fall together with
 * another's by more than trying; a lane compares the columns of each member with its own all the same (read_members.c).
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"

#include "store/shape.h"

struct Digest
{
	pg_cryptohash_ctx *ctx;
};

Digest *
digest_start(void)
{
	Digest	   *digest = palloc(sizeof(Digest));

	digest->ctx = pg_cryptohash_create(PG_SHA256);
	if (digest->ctx == NULL || pg_cryptohash_init(digest->ctx) < 0)
		elog(ERROR, "could not start a digest");
	return digest;
}

void
digest_add(Digest *digest, const void *data, Size len)
{
	uint64		length = len;

	if (pg_cryptohash_update(digest->ctx, (const uint8 *) &length, sizeof(length)) < 0 ||
		pg_cryptohash_update(digest->ctx, (const uint8 *) data, len) < 0)
		elog(ERROR, "could not add to a digest");
}

void
digest_finish(Digest *digest, uint8 *out)
{
	if (pg_cryptohash_final(digest->ctx, out, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not finish a digest");
	pg_cryptohash_free(digest->ctx);
	pfree(digest);
}

int64
workload_shape(const ShapeParts *parts)
{
	Digest	   *digest = digest_start();
	int64		numbers[8];
	uint8		out[PG_SHA256_DIGEST_LENGTH];
	int64		shape;

	numbers[0] = parts->scope_id;
	numbers[1] = parts->account_id;
	numbers[2] = parts->priority;
	numbers[3] = parts->replicas;
	numbers[4] = parts->guarantee;
	numbers[5] = parts->checkpointable;
	numbers[6] = parts->ninstance_types;
	numbers[7] = parts->not_before == NULL ? PG_INT64_MAX : *parts->not_before;
	digest_add(digest, numbers, sizeof(numbers));
	digest_add(digest, parts->workload_type, strlen(parts->workload_type));
	digest_add(digest, (const char *) parts->resources + sizeof(int32), VARSIZE(parts->resources) - sizeof(int32));
	digest_add(digest, parts->instance_types, sizeof(int64) * Max(parts->ninstance_types, 0));
	if (parts->max_runtime != NULL)
		digest_add(digest, parts->max_runtime, sizeof(Interval));
	digest_finish(digest, out);
	memcpy(&shape, out, sizeof(shape));
	return shape;
}

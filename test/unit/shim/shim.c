/*
 * shim.c
 *
 * Memory and errors for stand-alone test programs of the core; see postgres.h beside it.
 */
#include "postgres.h"

typedef struct ShimChunk
{
	struct ShimChunk *prev;
	struct ShimChunk *next;
	Size		size;
	Size		pad;			/* keeps what follows aligned to 16 */
} ShimChunk;

static ShimChunk chunks = {&chunks, &chunks, 0, 0};
static Size allocated = 0;

MemoryContext CurrentMemoryContext = NULL;
ShimError	shim_error;
jmp_buf		shim_jump;
bool		shim_catching = false;
void		(*shim_interrupt) (void) = NULL;

static ShimError pending;

static void
chunk_link(ShimChunk *c, Size size)
{
	c->size = size;
	c->prev = &chunks;
	c->next = chunks.next;
	chunks.next->prev = c;
	chunks.next = c;
	allocated += size;
}

static void
chunk_unlink(ShimChunk *c)
{
	c->prev->next = c->next;
	c->next->prev = c->prev;
	allocated -= c->size;
}

void *
palloc_extended(Size size, int flags)
{
	ShimChunk  *c;

	if (!(flags & MCXT_ALLOC_HUGE) && size > MaxAllocSize)
		elog(ERROR, "invalid memory alloc request size %zu", size);
	c = malloc(sizeof(ShimChunk) + size);
	if (c == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	chunk_link(c, size);
	if (flags & MCXT_ALLOC_ZERO)
		memset(c + 1, 0, size);
	else
		memset(c + 1, 0x7F, size);	/* what is used unset should show */
	return c + 1;
}

void *
palloc(Size size)
{
	return palloc_extended(size, 0);
}

void *
palloc0(Size size)
{
	return palloc_extended(size, MCXT_ALLOC_ZERO);
}

void *
repalloc_huge(void *p, Size size)
{
	ShimChunk  *c = (ShimChunk *) p - 1;

	chunk_unlink(c);
	c = realloc(c, sizeof(ShimChunk) + size);
	if (c == NULL)
		abort();
	chunk_link(c, size);
	return c + 1;
}

void *
repalloc(void *p, Size size)
{
	if (size > MaxAllocSize)
		elog(ERROR, "invalid memory alloc request size %zu", size);
	return repalloc_huge(p, size);
}

void
pfree(void *p)
{
	ShimChunk  *c = (ShimChunk *) p - 1;

	chunk_unlink(c);
	free(c);
}

char *
pnstrdup(const char *s, Size n)
{
	Size		len = strnlen(s, n);
	char	   *copy = palloc(len + 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *
pstrdup(const char *s)
{
	return pnstrdup(s, strlen(s));
}

char *
psprintf(const char *fmt,...)
{
	va_list		args;
	int			len;
	char	   *buf;

	va_start(args, fmt);
	len = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	buf = palloc(len + 1);
	va_start(args, fmt);
	vsnprintf(buf, len + 1, fmt, args);
	va_end(args);
	return buf;
}

void
shim_reset(void)
{
	while (chunks.next != &chunks)
		pfree(chunks.next + 1);
}

Size
shim_allocated(void)
{
	return allocated;
}

void
shim_errstart(int elevel)
{
	memset(&pending, 0, sizeof(pending));
	pending.elevel = elevel;
	pending.sqlstate = ERRCODE_INTERNAL_ERROR;
}

/* Messages below ERROR go nowhere; an error that nobody waits for ends the program. */
void
shim_errfinish(const char *file, int line)
{
	if (pending.elevel < ERROR)
		return;
	shim_error = pending;
	if (!shim_catching)
	{
		fprintf(stderr, "%s:%d: %s\n%s\n", file, line, pending.message, pending.detail);
		abort();
	}
	shim_catching = false;
	longjmp(shim_jump, 1);
}

int
errcode(int sqlstate)
{
	pending.sqlstate = sqlstate;
	return 0;
}

#define SHIM_PART(function, field) \
int \
function(const char *fmt,...) \
{ \
	va_list		args; \
	va_start(args, fmt); \
	vsnprintf(pending.field, sizeof(pending.field), fmt, args); \
	va_end(args); \
	return 0; \
}

SHIM_PART(errmsg, message)
SHIM_PART(errmsg_internal, message)
SHIM_PART(errdetail, detail)
SHIM_PART(errdetail_internal, detail)
SHIM_PART(errhint, hint)

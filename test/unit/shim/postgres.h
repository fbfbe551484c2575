/*
 * postgres.h (shim)
 *
 * What the core uses of the server's postgres.h, for stand-alone test programs: put this directory first in the
 * include path and link shim.c.  Memory is kept in one list, which shim_reset() frees; an ereport(ERROR) fills
 * shim_error and jumps to the latest SHIM_TRY().
 *
 *		if (SHIM_TRY())
 *			r = resources_parse(text);
 *		else
 *			check(shim_error.sqlstate == ERRCODE_INVALID_TEXT_REPRESENTATION);
 *		SHIM_END();
 *		shim_reset();
 */
#ifndef SHIM_POSTGRES_H
#define SHIM_POSTGRES_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int8_t int8;
typedef int16_t int16;
typedef int32_t int32;
/* as the server has them on 64-bit Unix: long, so that INT64_FORMAT is %ld */
typedef long int int64;
typedef uint8_t uint8;
typedef uint16_t uint16;
typedef uint32_t uint32;
typedef unsigned long int uint64;
typedef uint8 bits8;
typedef uint32 bits32;
typedef size_t Size;
typedef uintptr_t Datum;
typedef unsigned int Oid;
typedef char *Pointer;
typedef int64 TimestampTz;

#define InvalidOid			((Oid) 0)
#define INT64CONST(x)		(x##L)
#define UINT64CONST(x)		(x##UL)
#define INT64_FORMAT		"%ld"
#define UINT64_FORMAT		"%lu"
#define PG_INT16_MAX		INT16_MAX
#define PG_UINT16_MAX		UINT16_MAX
#define PG_INT32_MIN		INT32_MIN
#define PG_INT32_MAX		INT32_MAX
#define PG_UINT32_MAX		UINT32_MAX
#define PG_INT64_MIN		(-INT64CONST(0x7FFFFFFFFFFFFFFF) - 1)
#define PG_INT64_MAX		INT64CONST(0x7FFFFFFFFFFFFFFF)
#define DT_NOBEGIN			PG_INT64_MIN
#define DT_NOEND			PG_INT64_MAX
#define USECS_PER_SEC		INT64CONST(1000000)
#define PG_UINT64_MAX		UINT64CONST(0xFFFFFFFFFFFFFFFF)

#define FLEXIBLE_ARRAY_MEMBER	/* empty */
#define pg_attribute_noreturn()		__attribute__((noreturn))
#define pg_attribute_printf(f, a)	__attribute__((format(printf, f, a)))
#define pg_attribute_unused()		__attribute__((unused))
#define PG_USED_FOR_ASSERTS_ONLY	pg_attribute_unused()
#define pg_unreachable()			__builtin_unreachable()
#define pg_noinline					__attribute__((noinline))
#define likely(x)			__builtin_expect((x) != 0, 1)
#define unlikely(x)			__builtin_expect((x) != 0, 0)
#define lengthof(array)		(sizeof(array) / sizeof((array)[0]))
#define Min(x, y)			((x) < (y) ? (x) : (y))
#define Max(x, y)			((x) > (y) ? (x) : (y))
#define Abs(x)				((x) >= 0 ? (x) : -(x))
#define TYPEALIGN(to, n)	(((uintptr_t) (n) + ((to) - 1)) & ~((uintptr_t) ((to) - 1)))
#define MAXALIGN(n)			TYPEALIGN(8, (n))
#define MemSet(p, v, n)		memset(p, v, n)
#define StaticAssertDecl(c, m)	_Static_assert(c, m)
#define StaticAssertStmt(c, m)	do { _Static_assert(c, m); } while (0)
#define Assert(c) \
	do { \
		if (!(c)) \
		{ \
			fprintf(stderr, "%s:%d: assertion failed: %s\n", __FILE__, __LINE__, #c); \
			abort(); \
		} \
	} while (0)
#define AssertMacro(c)		((void) 0)

#define PointerGetDatum(p)	((Datum) (p))
#define DatumGetPointer(d)	((Pointer) (d))
#define Int64GetDatum(x)	((Datum) (x))
#define DatumGetInt64(d)	((int64) (d))
#define Int32GetDatum(x)	((Datum) (int32) (x))
#define DatumGetInt32(d)	((int32) (d))

/* varlena: the four-byte header alone, as everything here is detoasted */
#define VARHDRSZ			((int32) sizeof(int32))
#define SET_VARSIZE(p, n)	(*(uint32 *) (p) = (uint32) (n) << 2)
#define VARSIZE(p)			(*(const uint32 *) (p) >> 2)
#define VARDATA(p)			((char *) (p) + VARHDRSZ)
#define VARSIZE_ANY(p)		VARSIZE(p)
#define VARDATA_ANY(p)		VARDATA(p)
#define VARSIZE_ANY_EXHDR(p)	(VARSIZE(p) - VARHDRSZ)

/* memory: one list, freed by shim_reset() */
typedef struct MemoryContextData *MemoryContext;
extern MemoryContext CurrentMemoryContext;

#define MaxAllocSize		((Size) 0x3fffffff)
#define MCXT_ALLOC_HUGE		0x01
#define MCXT_ALLOC_NO_OOM	0x02
#define MCXT_ALLOC_ZERO		0x04
#define ALLOCSET_DEFAULT_SIZES	0, 0, 0
#define ALLOCSET_SMALL_SIZES	0, 0, 0
#define AllocSetContextCreate(parent, name, ...)	((MemoryContext) NULL)
#define MemoryContextSwitchTo(c)	(c)
#define MemoryContextReset(c)		((void) (c))
#define MemoryContextDelete(c)		((void) (c))
#define MemoryContextAlloc(c, n)		((void) (c), palloc(n))
#define MemoryContextAllocZero(c, n)	((void) (c), palloc0(n))

extern void *palloc(Size size);
extern void *palloc0(Size size);
extern void *palloc_extended(Size size, int flags);
extern void *repalloc(void *p, Size size);
extern void *repalloc_huge(void *p, Size size);
extern void pfree(void *p);
extern char *pstrdup(const char *s);
extern char *pnstrdup(const char *s, Size n);
extern char *psprintf(const char *fmt,...) pg_attribute_printf(1, 2);

#define palloc_object(type)			((type *) palloc(sizeof(type)))
#define palloc0_object(type)		((type *) palloc0(sizeof(type)))
#define palloc_array(type, n)		((type *) palloc(sizeof(type) * (n)))
#define palloc0_array(type, n)		((type *) palloc0(sizeof(type) * (n)))
#define repalloc_array(p, type, n)	((type *) repalloc(p, sizeof(type) * (n)))

extern void shim_reset(void);
extern Size shim_allocated(void);

/* errors */
#define DEBUG1		14
#define LOG			15
#define NOTICE		18
#define WARNING		19
#define ERROR		21
#define FATAL		22
#define PANIC		23

#define PGSIXBIT(c)	(((c) - '0') & 0x3F)
#define MAKE_SQLSTATE(a, b, c, d, e) \
	(PGSIXBIT(a) + (PGSIXBIT(b) << 6) + (PGSIXBIT(c) << 12) + (PGSIXBIT(d) << 18) + (PGSIXBIT(e) << 24))
#define ERRCODE_FEATURE_NOT_SUPPORTED			MAKE_SQLSTATE('0', 'A', '0', '0', '0')
#define ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE		MAKE_SQLSTATE('2', '2', '0', '0', '3')
#define ERRCODE_INVALID_PARAMETER_VALUE			MAKE_SQLSTATE('2', '2', '0', '2', '3')
#define ERRCODE_INVALID_TEXT_REPRESENTATION		MAKE_SQLSTATE('2', '2', 'P', '0', '2')
#define ERRCODE_INVALID_BINARY_REPRESENTATION	MAKE_SQLSTATE('2', '2', 'P', '0', '3')
#define ERRCODE_OUT_OF_MEMORY					MAKE_SQLSTATE('5', '3', '2', '0', '0')
#define ERRCODE_PROGRAM_LIMIT_EXCEEDED			MAKE_SQLSTATE('5', '4', '0', '0', '0')
#define ERRCODE_QUERY_CANCELED					MAKE_SQLSTATE('5', '7', '0', '1', '4')
#define ERRCODE_INTERNAL_ERROR					MAKE_SQLSTATE('X', 'X', '0', '0', '0')

typedef struct ShimError
{
	int			elevel;
	int			sqlstate;
	char		message[2048];
	char		detail[2048];
	char		hint[2048];
} ShimError;

extern ShimError shim_error;
extern jmp_buf shim_jump;
extern bool shim_catching;

#define SHIM_TRY()	(shim_catching = true, setjmp(shim_jump) == 0)
#define SHIM_END()	(shim_catching = false)

extern void shim_errstart(int elevel);
extern void shim_errfinish(const char *file, int line);
extern int	errcode(int sqlstate);
extern int	errmsg(const char *fmt,...) pg_attribute_printf(1, 2);
extern int	errmsg_internal(const char *fmt,...) pg_attribute_printf(1, 2);
extern int	errdetail(const char *fmt,...) pg_attribute_printf(1, 2);
extern int	errdetail_internal(const char *fmt,...) pg_attribute_printf(1, 2);
extern int	errhint(const char *fmt,...) pg_attribute_printf(1, 2);

#define ereport(elevel, ...) \
	do { \
		shim_errstart(elevel); \
		(void) (__VA_ARGS__); \
		shim_errfinish(__FILE__, __LINE__); \
		if ((elevel) >= ERROR) \
			pg_unreachable(); \
	} while (0)
#define elog(elevel, ...)	ereport(elevel, errmsg_internal(__VA_ARGS__))

/* shim_interrupt, when set, is called where the server would look for a cancellation */
extern void (*shim_interrupt) (void);
#define CHECK_FOR_INTERRUPTS() \
	do { \
		if (unlikely(shim_interrupt != NULL)) \
			shim_interrupt(); \
	} while (0)

/* common/int.h */
#define pg_add_s32_overflow(a, b, r)	__builtin_add_overflow(a, b, (int32 *) (r))
#define pg_sub_s32_overflow(a, b, r)	__builtin_sub_overflow(a, b, (int32 *) (r))
#define pg_mul_s32_overflow(a, b, r)	__builtin_mul_overflow(a, b, (int32 *) (r))
#define pg_add_s64_overflow(a, b, r)	__builtin_add_overflow(a, b, (int64 *) (r))
#define pg_sub_s64_overflow(a, b, r)	__builtin_sub_overflow(a, b, (int64 *) (r))
#define pg_mul_s64_overflow(a, b, r)	__builtin_mul_overflow(a, b, (int64 *) (r))
#define pg_add_u64_overflow(a, b, r)	__builtin_add_overflow(a, b, (uint64 *) (r))
#define pg_mul_u64_overflow(a, b, r)	__builtin_mul_overflow(a, b, (uint64 *) (r))

#endif							/* SHIM_POSTGRES_H */

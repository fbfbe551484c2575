/*
 * names.c
 *
 * How names are written: trimmed, in Unicode's normal form C, 1 to 63 characters, no control or format characters, no
 * slash.  Names that are looked up go through the same gate as names that are given, so that whatever could be stored
 * can be found again, and one that could not is refused in the same words whether or not anything like it exists.
 */
#include "postgres.h"

#include "common/unicode_norm.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "api/api.h"

#define MAX_NAME_CHARACTERS 63

typedef struct CodeRange
{
	pg_wchar	first;
	pg_wchar	last;
} CodeRange;

/* Categories Cc, Cf, Zl and Zp (Unicode 15). */
static const CodeRange refused[] = {
	{0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD}, {0x0600, 0x0605}, {0x061C, 0x061C}, {0x06DD, 0x06DD},
	{0x070F, 0x070F}, {0x0890, 0x0891}, {0x08E2, 0x08E2}, {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},
	{0x2060, 0x206F}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
	{0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}
};

/* Category Zs. */
static const CodeRange spaces[] = {
	{0x0020, 0x0020}, {0x00A0, 0x00A0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x202F, 0x202F}, {0x205F, 0x205F},
	{0x3000, 0x3000}
};

static bool
is_in(pg_wchar c, const CodeRange *ranges, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	}
	return false;
}

/*
 * The name as it is stored, palloc'd; NULL with the problem when it can be no name.
 */
char *
rpq_normal_name(const char *name, const char **problem)
{
	int			nbytes = strlen(name);
	pg_wchar   *start = palloc((nbytes + 1) * sizeof(pg_wchar));
	pg_wchar   *normal;
	int			n;
	char	   *result;

	n = pg_mb2wchar_with_len(name, start, nbytes);
	while (n > 0 && is_in(start[n - 1], spaces, lengthof(spaces)))
		n--;
	start[n] = 0;
	while (n > 0 && is_in(start[0], spaces, lengthof(spaces)))
	{
		start++;
		n--;
	}
	/* composing joins few characters into one, so what is far too long stays so and is not worked on */
	normal = n > MAX_NAME_CHARACTERS * 10 ? start : unicode_normalize(UNICODE_NFC, start);
	for (n = 0; normal[n] != 0; n++)
	{
		if (is_in(normal[n], refused, lengthof(refused)))
		{
			*problem = psprintf("Character U+%04X at position %d is a control or format character.", normal[n], n + 1);
			return NULL;
		}
		if (normal[n] == '/')
		{
			*problem = "A name has no slash.";
			return NULL;
		}
	}
	if (n == 0)
	{
		*problem = "A name has at least one character.";
		return NULL;
	}
	if (n > MAX_NAME_CHARACTERS)
	{
		*problem = psprintf("A name has at most %d characters, this one has %d.", MAX_NAME_CHARACTERS, n);
		return NULL;
	}
	result = palloc(n * MAX_MULTIBYTE_CHAR_LEN + 1);
	result[pg_wchar2mb_with_len(normal, result, n)] = '\0';
	return result;
}

/*
 * The same, with 22023 naming what it was for.
 */
char *
rpq_check_name(const char *what, const char *name)
{
	const char *problem;
	char	   *result = rpq_normal_name(name, &problem);

	if (result == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid %s name", what),
				 errdetail("%s", problem)));
	return result;
}

/*
 * 'x' → x and tenant NULL; 'tenant/x' → both.
 */
char *
rpq_split_name(const char *what, const char *name, char **tenant)
{
	const char *slash = strchr(name, '/');

	*tenant = NULL;
	if (slash == NULL)
		return rpq_check_name(what, name);
	*tenant = rpq_check_name("tenant", pnstrdup(name, slash - name));
	return rpq_check_name(what, slash + 1);
}

PG_FUNCTION_INFO_V1(rpq_check_name_sql);

/*
 * check_name(what text, name text) → text
 */
Datum
rpq_check_name_sql(PG_FUNCTION_ARGS)
{
	const char *what = PG_ARGISNULL(0) ? "object" : text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name of the %s must be given", what)));
	PG_RETURN_TEXT_P(cstring_to_text(rpq_check_name(what, text_to_cstring(PG_GETARG_TEXT_PP(1)))));
}

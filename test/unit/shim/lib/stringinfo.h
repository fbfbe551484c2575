/* lib/stringinfo.h (shim): a string that grows */
#ifndef SHIM_STRINGINFO_H
#define SHIM_STRINGINFO_H

#include "postgres.h"

typedef struct StringInfoData
{
	char	   *data;
	int			len;
	int			maxlen;
} StringInfoData;

typedef StringInfoData *StringInfo;

static inline void
initStringInfo(StringInfo str)
{
	str->maxlen = 64;
	str->data = palloc(str->maxlen);
	str->data[0] = '\0';
	str->len = 0;
}

static inline void
appendStringInfoString(StringInfo str, const char *s)
{
	int			n = (int) strlen(s);

	while (str->len + n >= str->maxlen)
	{
		str->maxlen *= 2;
		str->data = repalloc(str->data, str->maxlen);
	}
	memcpy(str->data + str->len, s, n + 1);
	str->len += n;
}

pg_attribute_printf(2, 3)
static inline void
appendStringInfo(StringInfo str, const char *fmt,...)
{
	char		text[4096];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	appendStringInfoString(str, text);
}

#endif							/* SHIM_STRINGINFO_H */

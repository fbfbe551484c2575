# rpq: resource pools and quotas for PostgreSQL
#
# The targets are explained by `make help`.  The file must parse where PostgreSQL's headers are not yet installed.

EXTENSION = rpq
RPQ_VERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" rpq.control)
MODULE_big = rpq

# Shape: types and tables, run once.  Later changes of a shape are made by the update scripts alone.
SHAPE = \
	sql/store/schema.sql \
	sql/store/resources.sql \
	sql/store/tenancy.sql \
	sql/store/pools.sql \
	sql/store/workloads.sql \
	sql/store/policies.sql \
	sql/store/operations.sql \
	sql/store/history.sql

# Re-runnable: functions, views, triggers and grants.  An update script is its shape change plus all of these.
RERUNNABLE = $(wildcard sql/api/*.sql)

OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/core/*.c src/store/*.c src/api/*.c src/worker/*.c))
RPQ_INCLUDES = $(wildcard src/*.h src/*/*.h)

DATA_built = sql/$(EXTENSION)--$(RPQ_VERSION).sql
PG_CPPFLAGS = -I$(CURDIR)/src
PG_CFLAGS = -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
EXTRA_CLEAN = sql/$(EXTENSION)--$(RPQ_VERSION).sql

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
endif

$(OBJS): $(RPQ_INCLUDES) rpq.control

sql/$(EXTENSION)--$(RPQ_VERSION).sql: $(SHAPE) $(RERUNNABLE) Makefile
	cat $(SHAPE) $(RERUNNABLE) | sed 's/CREATE OR REPLACE/CREATE/' > $@

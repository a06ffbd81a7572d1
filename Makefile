# Every target works in a fresh clone with python3 and make: the first one sets the folder up, later ones find
# it done. JAVA_HOME is what set-up found; a Spark or a PYTHONPATH of the machine stays outside.

PYTHON ?= python3
ARGS ?=

parts := $(wildcard bin pipeline assets resources sensors tests bench)
in_venv := env -u SPARK_HOME -u PYTHONPATH -u PYTHONHOME JAVA_HOME="$$(cat .venv/java_home)" \
	PATH="$(CURDIR)/.venv/bin:$$PATH" DAGSTER_DISABLE_TELEMETRY=yes

.PHONY: help setup fmt check test test-all vectors wire contract interop sim local dev demo bench lock
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv from requirements.lock and find Java; done already: returns at once
	@$(PYTHON) bin/setup.py

fmt: setup ## format the code and repair what can be repaired by rule
	@$(in_venv) ruff check --fix --quiet $(parts)
	@$(in_venv) ruff format $(parts)

check: setup ## lint, formatting, types, layers, dependencies, and whether Dagster loads
	@$(in_venv) ruff check $(parts)
	@$(in_venv) ruff format --check $(parts)
	@$(in_venv) mypy $(parts)
	@$(in_venv) lint-imports --no-logo
	@$(in_venv) deptry . --no-ansi
	@$(in_venv) HEADRACE_CONFIG=tests/setup/headrace.yaml dagster definitions validate -m pipeline.definitions

test: setup ## the tests a change needs: units, contracts, one path end to end (12 minutes at most)
	@$(in_venv) pytest -m "not slow" $(ARGS)

test-all: setup ## every test, the slow ones too
	@$(in_venv) pytest $(ARGS)

local: setup ## serve the AWS stand-in on this machine
	@$(in_venv) headrace local $(ARGS)

dev: setup ## Dagster's UI and daemon on this folder's settings
	@$(in_venv) headrace dev $(ARGS)

demo: setup ## a stream, two workers and a reshard on this machine, in a few minutes
	@$(in_venv) headrace demo $(ARGS)

bench: setup ## measure against named baselines
	@for file in bench/*.py; do \
		[ -e "$$file" ] || { echo "make bench has no benchmark to run yet." >&2; exit 1; }; \
		$(in_venv) python "$$file" $(ARGS) || exit 1; \
	done

vectors: setup ## KCL's rules by cases given as data: make vectors VECTORS=path
	@$(in_venv) python -m tests.vectors "$(VECTORS)"

SEEDS ?= 100
FROM ?= 0

sim: setup ## a fleet's year in seconds, by many seeds: make sim SEEDS=100 FROM=0
	@$(in_venv) python -m tests.simulation --seeds $(SEEDS) --from $(FROM) $(ARGS)

interop: setup ## real KCL fleets against the stand-in, where Maven Central is at hand (an hour)
	@$(in_venv) python -m tests.interop $(ARGS)

wire: setup ## KCL's rows by cases given as data: make wire WIRE=path
	@$(in_venv) python -m tests.wire "$(WIRE)"

contract: setup ## the promises of the ports; DYNAMODB=local: on AWS's DynamoDB Local too, where Maven Central is at hand
	@$(in_venv) pytest -m "not slow" tests/contract $(ARGS)
ifeq ($(DYNAMODB),local)
	@$(in_venv) python -m tests.contract.dynamodb_local $(ARGS)
endif

lock: setup ## resolve requirements.lock anew after an edit of pyproject.toml, keeping the versions that still fit
	@tools="$$(mktemp -d)" && trap 'rm -rf "$$tools"' EXIT && unset PIP_FIND_LINKS && \
	.venv/bin/python -m pip install --quiet --target "$$tools" uv && \
	"$$tools/bin/uv" pip compile pyproject.toml --quiet --output-file requirements.lock \
		--universal --python-version 3.11 --extra local --group tests --group checks --group build \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate

# The verbs of the project; each does all of its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where it is set, each of the many processes of a test run would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint unit spark integration interop upstream kerberos chaos fuzz thorough bench bench-quick bench-micro bench-profile docs clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## virtual environment and dependencies (downloads only what is missing)
	@$(PYTHON) tools/bootstrap.py

demo: setup ## two real clusters, orders flowing between them, for a minute
	@$(BIN)/sparkmirror demo

SUITES := tests/unit tests/contract tests/fuzz tests/spark tests/integration tests/upstream tests/chaos

test: setup lint ## lint, then the unit, Spark, integration and short chaos suites
	@$(BIN)/sparkmirror local fetch
	@$(BIN)/python -m sparkmirror.class_archive
	@$(BIN)/python -m pytest -n 3 --dist=loadfile -m "not alone" --durations=15 $(SUITES)
	@$(BIN)/python -m pytest -m alone --durations=15 $(SUITES)

lint: setup ## ruff, mypy, import direction
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

unit: setup ## fast tests, no JVM
	@$(BIN)/python -m pytest tests/unit tests/contract

spark: setup ## tests that start Spark
	@$(BIN)/python -m pytest tests/spark

integration: setup ## tests on real brokers (KAFKA=3.9.2 for another version)
	@$(BIN)/python -m pytest tests/integration $(if $(KAFKA),--kafka=$(KAFKA))

interop: setup ## tests against Java MirrorMaker 2
	@$(BIN)/python -m pytest tests/interop

upstream: setup ## the scenarios of MM2's own integration tests, on every axis
	@$(BIN)/python -m pytest --thorough tests/upstream $(if $(KAFKA),--kafka=$(KAFKA))

kerberos: setup ## flows between clusters that want Kerberos, with a KDC of their own (needs packages of the system, and says which)
	@$(PYTHON) tools/kerberos.py
	@$(BIN)/python -m pytest tests/kerberos $(if $(KAFKA),--kafka=$(KAFKA))

# SEED replays a run; FAULTS, MODE (default, exactly-once, both), FLOWS (1, 2, both), KINDS, RATE
CHAOS := $(foreach option,SEED FAULTS MODE FLOWS KINDS RATE KAFKA,$(if $($(option)),--$(shell \
	echo $(option) | tr A-Z a-z)=$($(option))))

chaos: setup ## faults drawn from a seed while records flow (SEED=123 FAULTS=20 MODE=both FLOWS=2)
	@PYTHONPATH=tests $(BIN)/python -m chaos $(CHAOS)

fuzz: setup ## damaged input for everything that reads from outside, a minute for each (SECONDS=600)
	@FUZZ_SECONDS=$(or $(SECONDS),60) $(BIN)/python -m pytest --timeout=0 tests/fuzz

thorough: setup ## the long versions of some tests: ten driver kills, a target stopped for a minute, a million records, 5,000 topics
	@$(BIN)/python -m pytest -s --thorough tests/thorough tests/integration/test_task_memory.py tests/integration/test_replication.py
	@$(BIN)/python -m pytest -s --thorough -m thorough tests/integration

BENCH := PYTHONPATH=tests:. $(BIN)/python -m benchmarks
ASKED := $(foreach option,ONLY ROUNDS SCALE SEED INTO,$(if $($(option)),--$(shell \
	echo $(option) | tr A-Z a-z)=$($(option))))

bench: setup ## side by side with Java MirrorMaker 2, every question (ONLY=kilobyte,small ROUNDS=5)
	@$(BENCH) $(ASKED)

bench-quick: setup ## the main questions in less than ten minutes
	@$(BENCH) --quick $(ASKED)

bench-profile: setup ## where the CPU of the copy loop goes (OF="1 KB lz4 over TLS")
	@$(BENCH).profile $(if $(OF),"$(OF)")

bench-micro: setup ## the hot path in small pieces: parse, stamp, CRC, reframe
	@$(BENCH).micro --inherit-environ=PYTHONPATH --quiet

docs: setup ## write the generated reference pages anew
	@$(BIN)/python tools/reference.py

clean: ## remove everything that was built here (the Kafka cache stays)
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

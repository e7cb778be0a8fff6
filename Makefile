# `make help` lists what there is. Needs Python 3.11 or newer; `make test` also needs scripts/system-packages.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
RUN := PYTHONPATH=src $(VENV)/bin/python -m zone9.cli
BIN := $(VENV)/bin

.PHONY: help run demo test check bench conformance lock openapi clean

help: ## Lists the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp ## Starts zone9 with a sandbox region and a server, and goes on serving
	@$(RUN) demo --serve

demo: $(VENV)/run.stamp ## The same once; exits 0 only if a separate process finds what was asked
	@$(RUN) demo

test: packages check unit ## Everything that CI runs

.PHONY: packages unit
packages:
	@scripts/system-packages --check

unit: $(VENV)/dev.stamp
	@echo "tests, on the embedded PostgreSQL"
	@$(BIN)/pytest -n 2
	@echo "what talks to the database, on Debian's PostgreSQL 15"
	@ZONE9_TEST_POSTGRES=debian $(BIN)/pytest -n 2 tests/store tests/jobs tests/reconcile

check: $(VENV)/dev.stamp ## Lint, format, types and layers
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(VENV)/dev.stamp ## The benchmarks, each beside its baseline
	@PYTHONPATH=src:tests $(BIN)/python -m bench

conformance: $(VENV)/dev.stamp ## The sandbox against the recordings, the driver against the sandbox (or ZONE9_PVE_URL)
	@$(BIN)/pytest -s tests/conformance

openapi: $(VENV)/dev.stamp ## Writes docs/openapi.json anew
	@$(RUN) openapi > docs/openapi.json

lock: ## Writes both lock files anew
	@$(BIN)/pip-compile -q --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host \
		--strip-extras --no-annotate --no-header --extra dev -o requirements-dev.lock pyproject.toml
	@$(BIN)/pip-compile -q --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host \
		--strip-extras --no-annotate --no-header --constraint requirements-dev.lock -o requirements.lock pyproject.toml

clean: ## Removes the environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/made.stamp:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; $(PYTHON) is older" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null || \
		{ echo "Python's venv module is missing: apt-get install python3-venv (as root)" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV)
	@touch $@

# The package itself is found by path, so that nothing has to be built or fetched for it.
$(VENV)/run.stamp: $(VENV)/made.stamp requirements.lock
	@echo "installing (once)"
	@$(BIN)/pip install -q --disable-pip-version-check --progress-bar on --require-hashes -r requirements.lock
	@$(BIN)/python -c "import pathlib, sysconfig; pathlib.Path(sysconfig.get_path('purelib'), 'zone9.pth').write_text(str(pathlib.Path('src').resolve()))"
	@printf '#!%s\nfrom zone9.cli import main\nmain()\n' "$(abspath $(BIN))/python" > $(BIN)/zone9
	@chmod +x $(BIN)/zone9
	@$(RUN) sandbox prepare
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@echo "installing what the tests need (once)"
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

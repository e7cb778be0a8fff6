# `make help` lists what there is. Needs Python 3.11 or newer; `make test` also needs scripts/system-packages.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DELETE_ON_ERROR:
VENV := .venv
BIN := $(VENV)/bin
ZONE9 := PYTHONPATH=src $(BIN)/python -m zone9.cli
# The first of these that runs and is new enough; PYTHON=… names another.
CANDIDATES := $(PYTHON) python3.11 python3 python3.12 python3.13
COMPILE := $(BIN)/pip-compile -q --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	--strip-extras --no-annotate --no-header
# Counts what pip fetches, since a quiet pip looks like one that hangs.
COUNTED := awk '/^Collecting/ { n++; if (n % 10 == 0) { printf " %d", n; fflush() } } /^ERROR|^error/ { print } \
	END { print " packages: " n + 0 }'

.PHONY: help run demo test check bench honesty conformance lock openapi clean packages unit

help: ## Lists the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp ## Starts zone9 with a sandbox region and two servers, and goes on serving
	@exec env $(ZONE9) demo --serve

demo: $(VENV)/run.stamp ## The same once; exits 0 only if a separate process finds what was asked
	@exec env $(ZONE9) demo

test: packages check unit ## Everything that CI runs

packages:
	@scripts/system-packages --check

unit: $(VENV)/dev.stamp
	@$(BIN)/pytest -n 3

check: $(VENV)/dev.stamp ## Lint, format, types and layers
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(VENV)/dev.stamp ## The benchmarks, each beside its baseline
	@PYTHONPATH=src:tests $(BIN)/python -m bench

honesty: $(VENV)/dev.stamp ## Random scenarios in search of anything untrue, for SECONDS (60)
	@PYTHONPATH=src:tests:tests/properties $(BIN)/python -m honesty $(or $(SECONDS),60)

conformance: $(VENV)/dev.stamp ## The sandbox against what a real Proxmox answered
	@$(BIN)/pytest -s tests/conformance

openapi: $(VENV)/dev.stamp ## Writes docs/openapi.json anew
	@$(ZONE9) openapi > docs/openapi.json

lock: $(VENV)/dev.stamp ## Writes both lock files anew
	@$(COMPILE) --extra dev -o requirements-dev.lock pyproject.toml
	@$(COMPILE) --constraint requirements-dev.lock -o requirements.lock pyproject.toml

clean: ## Removes the environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/made.stamp:
	@for python in $(CANDIDATES); do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		"$$python" -c 'import ensurepip, venv' 2>/dev/null || \
			{ echo "$$python has no venv: apt-get install python3-venv (as root)" >&2; exit 1; }; \
		"$$python" -m venv $(VENV) && touch $@ && exit 0; \
		exit 1; \
	done; \
	echo "zone9 needs Python 3.11 or newer; $$(python3 --version 2>/dev/null || echo 'there is no python3') here" >&2; \
	exit 1

# The package itself is found by path, so that nothing has to be built or fetched for it.
$(VENV)/run.stamp: $(VENV)/made.stamp requirements.lock
	@printf 'installing (once):'
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off --require-hashes -r requirements.lock | $(COUNTED)
	@$(BIN)/python -c "import pathlib, sysconfig; \
		pathlib.Path(sysconfig.get_path('purelib'), 'zone9.pth').write_text(str(pathlib.Path('src').resolve()))"
	@printf '#!%s\nfrom zone9.cli import main\nmain()\n' "$(abspath $(BIN))/python" > $(BIN)/zone9
	@chmod +x $(BIN)/zone9
	@$(ZONE9) sandbox prepare
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements-dev.lock
	@printf 'installing what the tests need (once):'
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off --require-hashes -r requirements-dev.lock | $(COUNTED)
	@touch $@

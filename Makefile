# `make` alone lists the commands. CI runs `make check` and `make test`, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PIP_INSTALL := pip install --quiet --no-cache-dir --disable-pip-version-check
# The newest Python that really starts (a version manager's shim may not); PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

.PHONY: help setup run admin-token check test format pins

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

setup: .venv/ready ## install everything into .venv

.venv/ready: requirements.txt requirements-dev.txt requirements-emulator.txt
	@test "$$(uname -s)" = Linux || { echo "vskill-platform runs on Linux: the Lambda runtime client has no build for $$(uname -s)." >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found. Install it, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing into .venv (about a minute, once) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/$(PIP_INSTALL) -r requirements-dev.txt
	@$(PYTHON) -m venv .venv/emulator
	@.venv/emulator/bin/$(PIP_INSTALL) -r requirements-emulator.txt
	@touch $@

run: setup ## start the whole platform on this machine (PORT=3000 LOCAL_DIR=.local SAMPLES=1 ADMIN_TOKEN=)
	@$(BIN)/python -m local

admin-token: setup ## make a token for the admin API and print it once (NAME=anna ROLE=reviewer)
	@$(BIN)/python -m local admin-token "$(NAME)" "$(ROLE)"

check: setup ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup ## run all tests
	$(BIN)/python -m pytest -n 4 --cov --cov-report=

pins: ## compile requirements*.in into pinned requirements*.txt (needs uv)
	@for set in "requirements.in -o requirements.txt" "requirements.in requirements-dev.in -o requirements-dev.txt" "requirements-emulator.in -o requirements-emulator.txt"; do \
	  uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links $$set; done

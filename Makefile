# `make` alone lists the commands. CI runs `make check`, `make test` and `make test-clients`, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PIP_OPTIONS := --quiet --no-cache-dir --disable-pip-version-check
PIP_INSTALL := pip install $(PIP_OPTIONS)
# requirements*.txt name everything with its version, so there is nothing to resolve. uv installs them in a tenth of pip's
# time; pip does it where uv cannot reach the packages (it reads none of pip's settings but the index named here).
UV_INSTALL := $(BIN)/uv pip install --quiet --no-cache --no-deps $(if $(PIP_INDEX_URL),--default-index "$(PIP_INDEX_URL)")
PIP_PINNED := $(PIP_OPTIONS) --no-deps --no-compile
install_into = $(UV_INSTALL) --python $(1)/bin/python -r $(2) || $(BIN)/pip --python $(1)/bin/python install $(PIP_PINNED) -r $(2)
# Most of what is installed is never imported; what is, Python compiles at first use. It must be allowed to keep that:
# otherwise each of the many processes of a test run compiles everything again.
export PYTHONDONTWRITEBYTECODE :=
# The newest Python that really starts (a version manager's shim may not); PYTHON=... chooses another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)

# The build and deployment tool, apart from the rest: it needs many of the same packages in other versions.
SAM_VENV ?= .venv/sam
# The auditor of templates, apart for the same reason.
AUDIT_VENV ?= .venv/audit
# SAM would keep its own state in the home folder and report what it is used for; neither is wanted.
SAM := __SAM_CLI_APP_DIR=$(CURDIR)/.aws-sam/cli SAM_CLI_TELEMETRY=0 $(SAM_VENV)/bin/sam
STAGE ?= dev
SAM_CONFIG_dev := default
SAM_CONFIG_prod := prod
STACK_dev := vskill-platform
STACK_prod := vskill-platform-prod
DEPLOYMENT := $(BIN)/python -m local.deployment
OF_STACK = --stack "$(STACK_$(STAGE))" --stage "$(STAGE)"
known_stage = test -n "$(SAM_CONFIG_$(STAGE))" || { echo "STAGE is '$(STAGE)'; it must be dev or prod." >&2; exit 1; }
# Only Lambda's own version writes .pyc files that Lambda can use.
PYTHON_OF_LAMBDA ?= python3.13

# One file stays with one process, because its tests share what they start; tests/conftest.py says which files go first.
IN_PARALLEL := --dist loadfile --no-loadscope-reorder

.PHONY: help setup run backup restore admin-token false-alarms check test test-fast clients test-clients test-deep test-mutants soak bench corpus-score
.PHONY: scanner-wheel screenshots format pins rules rule-pack build deploy smoke migrate rollback restore-table restore-bucket check-template audit external-scanner deploy-stack note-parameters

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

setup: .venv/ready ## install everything into .venv

.venv/ready: requirements.txt requirements-dev.txt requirements-emulator.txt
	@test "$$(uname -s)" = Linux || { echo "vskill-platform runs on Linux: the Lambda runtime client has no build for $$(uname -s)." >&2; exit 1; }
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found. Install it, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing into .venv (half a minute, once) ..."
	@$(PYTHON) -m venv .venv
	@$(PYTHON) -m venv --without-pip .venv/emulator
	@$(BIN)/$(PIP_INSTALL) --no-deps $$(grep '^uv==' requirements-dev.txt)
	@$(call install_into,.venv/emulator,requirements-emulator.txt)
	@$(call install_into,.venv,requirements-dev.txt)
	@touch $@

# Python compiles what is imported for the first time. The processes of a test run begin at one moment: without this, each
# of them compiles everything. A file that cannot be imported is reported by the run itself.
.venv/compiled: .venv/ready
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null || true
	@touch $@

.PHONY: compiled
compiled: setup ## compile all modules, for a user who cannot write to this folder
	@$(BIN)/python -m compileall -q -j 0 .venv/lib functions shared local

run: setup rule-pack ## start the whole platform on this machine (PORT=3000 LOCAL_DIR=.local SAMPLES=1 ADMIN_TOKEN=)
	@$(BIN)/python -m local

backup: setup ## write all data of a platform into one file, also while it runs (FILE=backup.tar.gz LOCAL_DIR=.local)
	@$(BIN)/python -m local backup "$(or $(FILE),backup.tar.gz)"

restore: setup ## replace all data of a platform by that of a backup, also while it runs (FILE=backup.tar.gz LOCAL_DIR=.local)
	@test -n "$(FILE)" || { echo "Name the backup: make restore FILE=backup.tar.gz" >&2; exit 1; }
	@$(BIN)/python -m local restore "$(FILE)"

external-scanner: setup ## scan what is published with bandit and detect-secrets, beside `EXTERNAL_SCANNERS=bandit make run` (URL=)
	@$(BIN)/python -m local.external_scanner $(if $(URL),--url "$(URL)")

admin-token: setup ## make a token for the admin API and print it once (NAME=anna ROLE=reviewer; STAGE=dev or prod: on AWS)
	@$(if $(filter command line environment,$(origin STAGE)),$(DEPLOYMENT) admin-token $(OF_STACK) --name "$(NAME)" --role "$(ROLE)",$(BIN)/python -m local admin-token "$(NAME)" "$(ROLE)")

smoke: setup ## try a running platform without changing anything (URL=http://127.0.0.1:3000)
	@$(BIN)/python -m local.smoke "$(URL)"

migrate: setup ## run the jobs over stored data that a release needs (ADMIN_TOKEN=... URL=http://127.0.0.1:3000)
	@$(BIN)/python -m local.migrate "$(or $(URL),http://127.0.0.1:3000)"

rollback: setup ## take every function on AWS back to its previous version: STAGE=dev (default) or STAGE=prod
	@$(known_stage)
	@$(DEPLOYMENT) rollback $(OF_STACK)

restore-table: setup ## put the table of a stack back to a restored copy of it (FROM=table STAGE=dev or prod)
	@$(known_stage)
	@test -n "$(FROM)" || { echo "Name the restored table: make restore-table STAGE=$(STAGE) FROM=name" >&2; exit 1; }
	@$(BIN)/python -m local.restore_stack --stack "$(STACK_$(STAGE))" table "$(FROM)"

restore-bucket: setup ## undo what was deleted or overwritten in the bucket of a stack (SINCE=2026-11-19T04:00:00Z STAGE=dev or prod)
	@$(known_stage)
	@test -n "$(SINCE)" || { echo "Say since when: make restore-bucket STAGE=$(STAGE) SINCE=2026-11-19T04:00:00Z" >&2; exit 1; }
	@$(BIN)/python -m local.restore_stack --stack "$(STACK_$(STAGE))" bucket "$(SINCE)"

false-alarms: setup ## print the findings that reviewers overturned, as lines of JSON (URL= with a reviewer's ADMIN_TOKEN= for AWS)
	@$(BIN)/python -m local false-alarms $(if $(URL),--url "$(URL)")

check: setup ## format, lint, types, import layers, workflows
	@$(MAKE) --no-print-directory --jobs --output-sync --keep-going check-format check-lint check-types check-layers check-workflows

.PHONY: check-format check-lint check-types check-layers check-workflows
check-format:
	$(BIN)/ruff format --check .

check-lint:
	$(BIN)/ruff check .

check-types:
	$(BIN)/mypy

check-layers:
	$(BIN)/lint-imports

WORKFLOWS ?= .github/workflows/deploy.yml
check-workflows: # what GitHub would refuse, and what would let others in; asks nothing of GitHub
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	@$(BIN)/zizmor --quiet --offline --no-config $(WORKFLOWS) action.yml

bench: rule-pack ## run the benchmarks; the results are in bench/results
	@failed=0; for name in reads lists cold_start throughput scanner in_flight hostile; do $(BIN)/python -m bench.$$name || failed=1; done; exit $$failed

corpus-score: MANIFEST ?= ../shared/corpus/manifest.csv
corpus-score: rule-pack ## score the scanner on labelled skills (CORPUS=folder BENIGN=folder MANIFEST=manifest.csv QUICK=1)
	@test -d "$(CORPUS)" || { echo "Name the folder of the skills: make corpus-score CORPUS=folder" >&2; exit 1; }
	@test -f "$(MANIFEST)" || { echo "There is no $(MANIFEST). Name the file with the labels: make corpus-score CORPUS=folder MANIFEST=manifest.csv" >&2; exit 1; }
	@test -z "$(BENIGN)" -o -d "$(BENIGN)" || { echo "There is no folder $(BENIGN)." >&2; exit 1; }
	@$(BIN)/python -m bench.corpus_score "$(CORPUS)" "$(MANIFEST)" $(if $(BENIGN),"$(BENIGN)") $(if $(QUICK),--quick)

format: setup ## format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-fast: setup rule-pack ## run the unit tests alone: no browser, no sockets, no processes, no coverage, half a minute
	$(BIN)/python -m pytest tests/unit -m "not slow" -n 2 $(IN_PARALLEL)

test: setup rule-pack .venv/compiled ## run all tests
	@# Three at a time on two cores: the tests of a running platform mostly wait. With four, workers miss their moments.
	$(BIN)/python -m pytest -n 3 $(IN_PARALLEL) --cov --cov-report=

clients: setup ## install the clients that `make test-clients` runs into .local/clients; needs npm
	@PYTHONPATH=. $(BIN)/python -m tests.clients --install

test-clients: setup rule-pack ## run the clients that people use (skills, Claude Code, clawhub, npm, MCP) against the platform; needs npm
	@PYTHONPATH=. $(BIN)/python -m tests.clients $(TESTS)

test-deep: setup rule-pack ## run the model and the contract of the API for minutes instead of seconds, and print the figures
	MODEL_PROFILE=deep $(BIN)/python -m pytest tests/faults/test_model.py tests/faults/test_interleavings.py tests/faults/test_metamorphic.py tests/e2e/test_schemathesis.py

test-mutants: setup rule-pack ## switch every guard off, one by one: each must be missed by a test (GUARD="name" for one)
	@PYTHONPATH=. $(BIN)/python -m tests.faults.mutants $(if $(GUARD),"$(GUARD)")

soak: setup rule-pack ## break the running platform for a while, then check that nothing is lost (MINUTES=10 LOAD=2 SEED=1 TIME_SCALE=0.03)
	@STAGE=local $(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) --load $(or $(LOAD),2)

screenshots: setup ## take pictures of every page into docs/screenshots
	@PYTHONPATH=. $(BIN)/python -m tests.support.screenshots

pins: setup ## compile requirements*.in into pinned requirements*.txt
	@for set in "requirements.in -o requirements.txt" "requirements.in requirements-dev.in -o requirements-dev.txt" "requirements-emulator.in -o requirements-emulator.txt" "requirements-sam.in -o requirements-sam.txt" "requirements-audit.in -o requirements-audit.txt"; do \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url --no-emit-find-links $$set; done

build: $(SAM_VENV)/ready rule-pack ## package template.yaml and the code into .aws-sam/build
	@mkdir -p .aws-sam/cli
	@$(PYTHON_OF_LAMBDA) -c "" 2>/dev/null || echo "No python3.13 was found, so cold starts will take two to three times as long. Name one: make build PYTHON_OF_LAMBDA=/path/to/python3.13"
	@$(SAM) build

deploy: setup ## check the account, build, deploy to AWS, try it: STAGE=dev (default) or prod (PARAMETERS="Name=value ...")
	@$(known_stage)
	@$(DEPLOYMENT) preflight $(OF_STACK) --python "$(PYTHON_OF_LAMBDA)" --parameters "$(PARAMETERS)"
	@$(MAKE) --no-print-directory $(SAM_VENV)/ready build
	@$(MAKE) --no-print-directory note-parameters
	@$(MAKE) --no-print-directory deploy-stack
	@$(DEPLOYMENT) smoke $(OF_STACK)

deploy-stack: # a new stack twice: its table is protected once everything else is there (see local/deployment.py)
	@mapfile -t deployments < <($(DEPLOYMENT) parameters $(OF_STACK) --parameters "$(PARAMETERS)"); test "$${#deployments[@]}" -gt 0; \
	for values in "$${deployments[@]}"; do $(SAM) deploy --config-env $(SAM_CONFIG_$(STAGE)) --parameter-overrides "$$values" \
	  $$(test -t 0 && echo --confirm-changeset || echo --no-confirm-changeset) --no-fail-on-empty-changeset; done

note-parameters: # SAM publishes a new version for new code, not for a new value of a parameter: so the values go with the code
	@for code in .aws-sam/build/*/functions; do echo "$(STAGE) $$PARAMETERS" > "$$code/parameters.txt"; done

check-template: $(SAM_VENV)/ready ## what the SAM CLI says of template.yaml; asks nothing of AWS
	@mkdir -p .aws-sam/cli
	@AWS_REGION=us-east-1 $(SAM) validate --lint

audit: setup $(AUDIT_VENV)/ready ## look for insecure settings in template.yaml and waf.yaml with checkov; half a minute
	@PYTHONPATH=. $(BIN)/python -m tests.support.template_audit $(AUDIT_VENV)/bin/checkov

$(AUDIT_VENV)/ready: requirements-audit.txt
	@echo "Installing checkov into $(AUDIT_VENV) (once) ..."
	@$(PYTHON) -m venv --without-pip $(AUDIT_VENV)
	@$(call install_into,$(AUDIT_VENV),requirements-audit.txt)
	@touch $@

$(SAM_VENV)/ready: requirements-sam.txt
	@echo "Installing the AWS SAM CLI into $(SAM_VENV) (once) ..."
	@$(PYTHON) -m venv $(SAM_VENV)
	@$(SAM_VENV)/bin/$(PIP_INSTALL) -r requirements-sam.txt
	@touch $@

# `sam build` calls the two targets below to fill ARTIFACTS_DIR, once per resource with `BuildMethod: makefile`.

needs_artifacts_dir = test -n "$(ARTIFACTS_DIR)" \
  || { echo "make $@ is called by \`make build\` with ARTIFACTS_DIR set; run \`make build\` instead." >&2; exit 1; }

build-Dependencies: # both platform tags: yara-x has arm64 wheels for the newer one only
	@$(needs_artifacts_dir)
	@$(SAM_VENV)/bin/$(PIP_INSTALL) --no-compile --target "$(ARTIFACTS_DIR)/python" --only-binary=:all: \
	  --python-version 3.13 --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 -r requirements.txt
	@$(BIN)/python -m local.bundle layer "$(ARTIFACTS_DIR)/python"
	@$(call compile_in,$(ARTIFACTS_DIR)/python,/opt/python)

build-%: # what its handler imports, directly or not: a change of other code makes no new version of it
	@$(needs_artifacts_dir)
	@$(BIN)/python -m local.bundle function $* "$(ARTIFACTS_DIR)"
	@$(call compile_in,$(ARTIFACTS_DIR),/var/task)

# Unchecked: the archive that Lambda unpacks does not keep the exact file times Python would compare.
# Reproducible: no path of the build folder in the .pyc files, one time for all files, so the same commit gives the same zip.
compile_in = if $(PYTHON_OF_LAMBDA) -c "" 2>/dev/null; then \
  PYTHONHASHSEED=0 $(PYTHON_OF_LAMBDA) -m compileall -q -s "$(1)" -p "$(2)" --invalidation-mode unchecked-hash "$(1)"; fi; \
  find "$(1)" -exec touch -h -d 2020-01-01T00:00:00Z {} +; find "$(1)" -type d -exec chmod 755 {} +; find "$(1)" -type f -exec chmod 644 {} +

rule-pack: shared/scanner/rules.pack ## compile the scanner's rules into one file that is loaded at start

shared/scanner/rules.pack: .venv/ready $(wildcard shared/scanner/*.py shared/scanner/flow/*.py shared/scanner/rules/*.yaml)
	@PYTHONHASHSEED=0 $(BIN)/python -m shared.scanner.build # one order of what has none, so the same rules give the same file

scanner-wheel: setup ## build the scanner alone, for authors: dist/vskill_scanner-*.whl with the command vskill-scanner
	@$(BIN)/python -m local.scanner_wheel dist

rules: setup ## list the scanner's rules, and write docs/rules.md from them
	@$(BIN)/python -m shared.scanner.build --docs >/dev/null
	@$(BIN)/python -m shared.scanner.build --list

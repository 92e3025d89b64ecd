# Needs make and Python 3.11 to 3.14 with its venv module; everything else is installed below this folder.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# One target at a time: the steps of `check` print in order, and two targets never install at once.
.NOTPARALLEL:

PYTHON ?= python3
UV_VERSION := 0.13.9
WORKERS ?= 2

# The interpreter is the machine's own and is never downloaded.
export UV_PYTHON_DOWNLOADS := never
export UV_PYTHON_PREFERENCE := only-system
export UV_PROJECT_ENVIRONMENT := .venv

UV := .tools/bin/uv
BIN := .venv/bin
SYNC := $(UV) sync --frozen --quiet --python "$(PYTHON)"
UV_STAMP := .tools/uv-$(UV_VERSION)
RUN_STAMP := .venv/installed-run
DEV_STAMP := .venv/installed-dev
CDK_STAMP := .tools/cdk/installed
INSPECTOR_STAMP := .tools/inspector/installed
# Folders whose tests are all slow: they are not even read by `check`.
SLOW := deploy e2e readme
CODE := $(wildcard functions infra shared tests)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(UV_STAMP):
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || \
	    { echo 'strata needs Python 3.11 to 3.14: make PYTHON=/path/to/python3 ...' >&2; exit 1; }
	@rm -rf .tools
	@"$(PYTHON)" -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# Only what the server needs; leaves the tools alone if they are installed already.
$(RUN_STAMP): pyproject.toml uv.lock | $(UV_STAMP)
	@$(SYNC) --extra local --no-default-groups --inexact
	@touch $@

$(DEV_STAMP): pyproject.toml uv.lock | $(UV_STAMP)
	@$(SYNC) --all-extras
	@touch $@ $(RUN_STAMP)

$(CDK_STAMP): infra/toolkit/package.json infra/toolkit/package-lock.json
$(INSPECTOR_STAMP): tests/e2e/inspector/package.json tests/e2e/inspector/package-lock.json

# The lock file holds the sum of every package; where they come from is npm's own setting.
$(CDK_STAMP) $(INSPECTOR_STAMP): | $(UV_STAMP)
	@command -v npm >/dev/null || { echo 'the stacks and their tests need Node.js 20 or newer, with npm' >&2; exit 1; }
	@mkdir -p $(@D)
	@cp $(filter %.json,$^) $(@D)/
	@npm ci --prefix $(@D) --omit=optional --ignore-scripts --no-audit --no-fund --silent
	@touch $@

.PHONY: install
install: $(DEV_STAMP) $(CDK_STAMP) ## Install everything into .venv, from the lock file

.PHONY: serve
serve: $(RUN_STAMP) ## Start the local server (settings: STRATA_..., see README.md)
	@exec $(BIN)/python -m infra.local.server

.PHONY: serve-aws
serve-aws: $(DEV_STAMP) ## The same server on the AWS back end, emulated on this machine (data is in memory)
	@exec $(BIN)/python -m infra.local.aws_emulation

.PHONY: deploy-emulator
deploy-emulator: $(DEV_STAMP) $(CDK_STAMP) ## The CDK stacks, deployed into an account emulated on this machine
	@exec $(BIN)/python -m infra.local.deploy_emulator

.PHONY: deploy
deploy: $(DEV_STAMP) $(CDK_STAMP) ## Deploy an environment of cdk.json to AWS: make deploy ENV=dev
	@exec $(BIN)/python -m infra.deploy $(ENV)

.PHONY: destroy
destroy: $(DEV_STAMP) $(CDK_STAMP) ## Take an environment's API down; its data stays: make destroy ENV=dev
	@exec $(BIN)/python -m infra.deploy $(ENV) --destroy

.PHONY: test
test: lint $(CDK_STAMP) $(INSPECTOR_STAMP) ## Everything that needs no cloud: lint, types, contracts and all tests
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup --durations=15

.PHONY: check
check: lint ## The quick part of `test`, under two minutes
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'not slow' $(SLOW:%=--ignore=tests/%)

.PHONY: lint
lint: $(DEV_STAMP) ## Format, lint, types, import contracts
	@$(BIN)/ruff format --check --quiet $(CODE)
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/mypy $(CODE)
	@$(BIN)/lint-imports --no-logo

.PHONY: fmt
fmt: $(DEV_STAMP) ## Format the code and fix what can be fixed safely
	@$(BIN)/ruff check --fix --quiet $(CODE) || true
	@$(BIN)/ruff format $(CODE)

.PHONY: bench
bench: $(DEV_STAMP) ## Measure, and write docs/benchmarks.md: make bench BENCH="search disk" LOCOMO=/path/to/locomo10.json
	@$(BIN)/python -m tests.bench $(BENCH) $(if $(LOCOMO),--locomo "$(LOCOMO)")

.PHONY: load
load: $(DEV_STAMP) ## Load test of both back ends and the simulation of limits, into docs/load.md (some minutes)
	@$(BIN)/python -m tests.load --write
	@$(BIN)/python -m tests.load --backend aws --clients 4 --vaults 2 --seconds 30 --write
	@$(BIN)/python -m tests.load.limits --write

.PHONY: costs
costs: $(DEV_STAMP) ## Compute docs/costs.md again
	@$(BIN)/python -m infra.costs

.PHONY: coverage
coverage: $(DEV_STAMP) ## Branch coverage of domain and use cases, at least 95 %
	@$(BIN)/pytest -n $(WORKERS) -m 'not slow' --cov=shared/domain --cov=shared/usecases --cov-branch \
	    --cov-report=term-missing:skip-covered --cov-report=json:coverage.json --cov-fail-under=95
	@$(BIN)/python -c 'import json; t = json.load(open("coverage.json"))["totals"]; \
	    share = 100 * t["covered_branches"] / max(1, t["num_branches"]); \
	    print(f"branches covered: {share:.1f} %"); raise SystemExit(share < 95)'

.PHONY: mutation
mutation: export HYPOTHESIS_PROFILE := mutation
mutation: $(DEV_STAMP) ## Mutate shared/domain and list the surviving mutants (ten to twenty minutes)
	@$(SYNC) --all-extras --group mutation
	@rm -rf mutants
	@nice -n 19 $(BIN)/mutmut run --max-children $(WORKERS)
	@$(BIN)/mutmut results
	@nice -n 19 $(BIN)/python -m tests.mutation.definitions

.PHONY: clean
clean: ## Remove what the tools made (not .strata: that is data)
	@rm -rf .venv .tools .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@rm -rf .coverage .coverage.* coverage.json htmlcov mutants cdk.out
	@find functions infra shared tests -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Two commands are enough: `make demo` and `make test`.  Both make .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
.DEFAULT_GOAL := help

.PHONY: help demo test lint docs audit fuzz bench clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sitewise needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

demo: $(STAMP) ## fit Laplace, EP, VI and the hybrid on the breast-cancer data and leave a report
	@$(BIN)/sitewise demo

test: $(STAMP) ## run the tests
	@$(BIN)/python -m pytest -n 2

lint: $(STAMP) ## style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

audit: $(STAMP) ## are the dependencies the pinned ones, and is anything known against them?
	@$(BIN)/python .ci/audit.py

fuzz: $(STAMP) ## 10 000 awkward cases (hours; goes on where it was stopped) into results/fuzz
	@$(BIN)/python experiments/fuzz.py && $(BIN)/python experiments/fuzz.py --table

docs: .venv/.docs ## build the documentation into out/docs; a warning is an error
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs out/docs && echo "Open out/docs/index.html"

.venv/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch .venv/.docs

bench: $(STAMP) ## measure sitewise beside its peers (each in .bench/); JOBS="fit grid" chooses, results/benchmarks keeps
	@$(BIN)/python benchmarks/run.py $(if $(JOBS),--jobs $(JOBS))

clean: ## remove the environment and outputs
	rm -rf .venv .bench out build

# Two commands are enough: `make demo` and `make test`.  Both make .venv on first use.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
.DEFAULT_GOAL := help

.PHONY: help demo test test-all lint docs audit fuzz bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(STAMP): pyproject.toml papers/icml2023/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "sitewise needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable '.[dev]' --editable papers/icml2023
	@touch $(STAMP)

demo: $(STAMP) ## fit Laplace, EP, VI and the hybrid on the breast-cancer data and leave a report
	@$(BIN)/sitewise demo

test: $(STAMP) ## run the quick tests of the library, the application and the paper (about ten minutes on two cores)
	@$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(STAMP) ## run all tests, also executed pages, sampling and studies of the paper
	@$(BIN)/python -m pytest -n 2

lint: $(STAMP) ## check style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

audit: $(STAMP) ## check that the dependencies are the pinned ones and that no vulnerability of them is known
	@$(BIN)/python .ci/audit.py

fuzz: $(STAMP) ## run 10 000 awkward cases (hours; continues where it was stopped) into results/fuzz
	@$(BIN)/python studies/fuzz.py && $(BIN)/python studies/fuzz.py --table

docs: .venv/.docs ## build the documentation into out/docs; a warning is an error
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs . out/docs && echo "Open out/docs/index.html"

.venv/.docs: $(STAMP)
	$(PIP) --editable '.[docs]'
	@touch .venv/.docs

bench: $(STAMP) ## measure sitewise beside its peers (installed into .bench/) into results/benchmarks; JOBS="fit grid" chooses
	@$(BIN)/python benchmarks/run.py $(if $(JOBS),--jobs $(JOBS))

clean: ## remove the environments, build folders and outputs
	rm -rf .venv .bench out build dist papers/icml2023/build src/*.egg-info papers/icml2023/src/*.egg-info

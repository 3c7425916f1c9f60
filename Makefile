# Two commands on a fresh machine with Python and a C++ compiler: make demo, make test.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# A driver for CUDA 12 or later runs CuPy for CUDA 12, the one that the tests pin too:
# demo and tests share an environment, which cannot hold CuPy for 12 and for 13.
comma := ,
GPU_EXTRA := $(if $(shell nvidia-smi -L 2>/dev/null),$(comma)cuda12)

CUDA_SOURCES := $(wildcard cuda_src/*.cu* tests/*/*.cu gpusolve/_emulator/runtime/*)

.PHONY: demo test test-gpu lint format wheel resources clean

demo: $(VENV)/demo
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/demo_gam.py

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

test-gpu: $(VENV)/test
	$(BIN)/python -m pip install -q -e ".[test$(GPU_EXTRA)]"
	$(BIN)/python -m pytest -m gpu

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CUDA_SOURCES)
	$(BIN)/mypy

format: $(VENV)/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CUDA_SOURCES)

wheel: $(VENV)/test
	$(BIN)/python -m build

resources: $(VENV)/test
	$(BIN)/python tests/kernel_resources.py

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/demo: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e ".[demo$(GPU_EXTRA)]"
	touch $@

$(VENV)/test: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e ".[test]"
	touch $@

# Two commands on a fresh machine with Python and a C++ compiler: make demo, make test.
# The others are for those who change the code.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# A driver for CUDA 12 or later runs CuPy for CUDA 12, the one that the tests pin too:
# demo and tests share an environment, which cannot hold CuPy for 12 and for 13.
GPU_EXTRA := $(if $(shell nvidia-smi -L 2>/dev/null),cuda12)

# pip compiles no modules, see below. So each is compiled when it is first imported, not by
# every process again, as this variable asks for.
unexport PYTHONDONTWRITEBYTECODE

# Tests of whole programs, and pages with one, use this nvcc.
export NVCC ?= $(abspath $(VENV)/nvcc/nvidia/cu13/bin/nvcc)

PARALLEL := -n auto --dist worksteal
PYTEST := $(BIN)/python -m pytest $(PARALLEL)

CUDA_SOURCES := $(wildcard cuda_src/*.cu* cuda_src/cpu/* tests/*/*.cu gpusolve/_emulator/cudart/* gpusolve/_emulator/machine/*)

OBJECT_SOURCES := setup.py gpusolve/_device/object_files.py $(wildcard cuda_src/*.cu* cuda_src/cpu/* gpusolve/_emulator/machine/*)

.PHONY: help demo test test-all test-exhaustive test-cpus test-gpu test-stand-in mutations lint format docs pictures results tables

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

demo: $(VENV)/demo ## install, solve 260,000 systems, and draw into build/demo
	@$(BIN)/python benchmarks/demo.py

# Types are checked on one core, and packages are downloaded, while the objects are compiled.
test: $(VENV)/test ## format, lint, types, and the quick tests
	$(MAKE) --jobs=3 --output-sync lint $(VENV)/object $(VENV)/nvcc
	$(PYTEST) -m "not slow and not gpu" --durations=10

test-all: test $(VENV)/test-all ## slow tests, too
	$(PYTEST) -m "slow and not exhaustive"

test-exhaustive: $(VENV)/object ## every combination, architecture and removed barrier
	$(PYTEST) -m exhaustive

NUMERICAL := $(addprefix tests/,blocks gam gemv nnls sparse studies)

# OpenBLAS has kernels for many CPUs. Those of the oldest have narrow vectors and no fused
# multiply-add, so their sums are rounded most differently.
test-cpus: $(VENV)/object ## the numerical tests with the rounding of another CPU
	OPENBLAS_CORETYPE=Prescott $(PYTEST) -q -m "not slow" \
	    -k "not emulator and not cuda and not kernel" $(NUMERICAL)

# Without a GPU that CuPy can use this fails, and says why: tests that skip are no test.
test-gpu: $(VENV)/object ## the tests of GPUs, on a GPU
	$(BIN)/python -m pip install -q -e ".[dask,emulator$(GPU_EXTRA:%=,%)]" --group test
	$(BIN)/python -c "import cupy; print('GPUs:', cupy.cuda.runtime.getDeviceCount())"
	$(BIN)/python -m pytest -m gpu

test-stand-in: $(VENV)/object ## the tests of GPUs, on the emulator, with a stand-in for CuPy
	GPUSOLVE_TEST_STAND_IN=1 $(PYTEST) -m "gpu and not slow"

mutations: $(VENV)/object ## faults that the quick tests must notice: two hours
	$(BIN)/python tests/support/mutations.py

lint: $(VENV)/test ## format, lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CUDA_SOURCES)
	$(BIN)/mypy

format: $(VENV)/test ## format all sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CUDA_SOURCES)

docs: $(VENV)/docs $(VENV)/object ## the site, in docs/_build/html, and its checks
	rm -rf docs/api
	$(BIN)/python -m sphinx -q -W --keep-going -c docs . docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

pictures: $(VENV)/docs $(VENV)/object ## outputs of changed notebooks, and pictures of the demo
	PYTHONPATH=. $(BIN)/python tests/support/notebook_outputs.py
	$(BIN)/python benchmarks/demo.py --folder docs

MEASURED := nnls constraints gam
results: $(VENV)/object ## CPU paths next to other packages: half an hour on an idle machine
	$(BIN)/python -m pip install -q --group compare
	set -e; for name in $(MEASURED); do \
	    $(BIN)/python benchmarks/$$name.py --cpu --output benchmarks/results/$${name}_cpu.md; \
	done

tables: $(VENV)/object ## registers, machine code and counts of kernels, and claims of papers
	PYTHONPATH=. $(BIN)/python tests/support/kernel_resources.py
	PYTHONPATH=. $(BIN)/python tests/support/kernel_costs.py
	$(BIN)/python tests/support/paper_map.py

# Python 3.11 brings a pip that knows no groups, so it is upgraded. Without --no-compile
# pip compiles 10,000 modules, of which a few hundred are imported.
$(VENV)/demo: setup.cfg pyproject.toml
	@echo "Make an environment in $(VENV)"
	@$(PYTHON) -m venv --upgrade-deps $(VENV)
	@echo "Install matplotlib and scikit-image"
	@$(BIN)/python -m pip install -qq --no-compile --group demo
	@echo "Install gpusolve: its solver is compiled for this CPU, in 5 to 20 seconds"
	@GPUSOLVE_BUILD=gpusolve $(BIN)/python -m pip install -qq --no-compile -e ".$(GPU_EXTRA:%=[%])"
	@touch $@

$(VENV)/nvcc: pyproject.toml | $(VENV)/test
	$(BIN)/python -m pip install -q --no-compile --upgrade --target $@ --group nvcc
	touch $@

$(VENV)/docs: setup.cfg pyproject.toml
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	GPUSOLVE_BUILD=none $(BIN)/python -m pip install -q --no-compile -e ".[dask,emulator]" --group docs
	touch $@

$(VENV)/test: setup.cfg pyproject.toml
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	GPUSOLVE_BUILD=none $(BIN)/python -m pip install -q --no-compile -e ".[dask,emulator]" --group test
	touch $@

# PyTorch, JAX and the pictures of the demo, which only slow tests need.
$(VENV)/test-all: $(VENV)/test
	$(BIN)/python -m pip install -q --no-compile --group test-all
	touch $@

# The compiled CPU solver and the emulator's machine, in gpusolve/_objects.
$(VENV)/object: $(OBJECT_SOURCES) | $(VENV)/test
	$(BIN)/python setup.py -q build_ext --inplace
	touch $@

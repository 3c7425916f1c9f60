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

PARALLEL := -n auto --dist worksteal
PYTEST := $(BIN)/python -m pytest $(PARALLEL)

CUDA_SOURCES := $(wildcard cuda_src/*.cu* cuda_src/cpu/* tests/*/*.cu gpusolve/_emulator/cudart/* gpusolve/_emulator/machine/*)

OBJECT_SOURCES := setup.py gpusolve/_device/object_files.py $(wildcard cuda_src/*.cu* cuda_src/cpu/* gpusolve/_emulator/machine/*)

.PHONY: demo pictures docs notebooks results test test-all test-barriers test-exhaustive test-cpus test-gpu test-stand-in coverage mutations lint format wheel papers resources costs clean

demo: $(VENV)/demo
	@$(BIN)/python benchmarks/demo.py

# The pictures of the demo that are in the documentation.
pictures: $(VENV)/demo
	@$(BIN)/python benchmarks/demo.py --folder docs

# Tests of whole programs, and pages with one, use this nvcc.
export NVCC ?= $(abspath $(VENV)/nvcc/nvidia/cu13/bin/nvcc)

test: lint $(VENV)/object $(VENV)/nvcc
	$(PYTEST) -m "not slow and not gpu"

test-all: test $(VENV)/test-all
	$(PYTEST) -m "slow and not exhaustive"

# Every barrier of the kernels but the first of each file, removed in turn.
test-barriers: $(VENV)/object
	$(PYTEST) -m exhaustive tests/emulator/test_barriers.py

# Kernels with every combination of parameters, and every monoid.
test-exhaustive: $(VENV)/object
	$(PYTEST) -m exhaustive

NUMERICAL := $(addprefix tests/,blocks gam gemv nnls sparse studies)

# The numerical tests, on NumPy, with the rounding of other CPUs.
test-cpus: $(VENV)/object
	$(BIN)/python tests/support/core_types.py $(PARALLEL) -q -m "not slow" \
	    -k "not emulator and not cuda and not kernel" $(NUMERICAL)

# Without a GPU that CuPy can use this fails, and says why: tests that skip are no test.
test-gpu: $(VENV)/object
	$(BIN)/python -m pip install -q -e ".[dask,emulator$(GPU_EXTRA:%=,%)]" --group test
	$(BIN)/python -c "import cupy; print('GPUs:', cupy.cuda.runtime.getDeviceCount())"
	$(BIN)/python -m pytest -m gpu

# The same tests on the emulator, through a stand-in for CuPy with two devices.
test-stand-in: $(VENV)/object
	GPUSOLVE_TEST_STAND_IN=1 $(PYTEST) -m "gpu and not slow"

# Lines and branches of Python that `make test` runs.
coverage: $(VENV)/object
	$(BIN)/python -m coverage run -m pytest -q -m "not slow and not gpu"
	$(BIN)/python -m coverage report --skip-covered --sort=cover

# Faults that the quick tests must notice, one after the other: two hours.
mutations: $(VENV)/object
	$(BIN)/python tests/support/mutations.py

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CUDA_SOURCES)
	$(BIN)/mypy

format: $(VENV)/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CUDA_SOURCES)

# The site, in docs/_build/html, and its checks. Examples are executed where they changed.
docs: $(VENV)/docs
	rm -rf docs/api
	$(BIN)/python -m sphinx -q -W --keep-going -c docs . docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

# The outputs of the notebooks whose code changed, which are in the repository.
notebooks: $(VENV)/docs
	PYTHONPATH=. $(BIN)/python tests/support/notebook_outputs.py

wheel: $(VENV)/test
	$(BIN)/python -m build

# The claims of the tests' markers, in docs/papers.md.
papers: $(VENV)/test
	$(BIN)/python tests/support/paper_map.py

# The CPU paths next to other packages, in one run: half an hour on an idle machine.
MEASURED := nnls constraints gam
results: $(VENV)/object
	$(BIN)/python -m pip install -q --group compare
	set -e; for name in $(MEASURED); do \
	    $(BIN)/python benchmarks/$$name.py --cpu --output benchmarks/results/$${name}_cpu.md; \
	done

resources: $(VENV)/test
	PYTHONPATH=. $(BIN)/python tests/support/kernel_resources.py
	PYTHONPATH=. $(BIN)/python tests/support/kernel_code.py

costs: $(VENV)/test
	PYTHONPATH=. $(BIN)/python tests/support/kernel_costs.py

clean:
	rm -rf $(VENV) build dist docs/_build docs/api docs/gallery gpusolve/_objects *.egg-info

# Python 3.11 brings a pip that knows no groups, so it is upgraded. Without --no-compile
# pip compiles 10,000 modules, of which a few hundred are imported.
$(VENV)/demo: setup.cfg pyproject.toml
	@echo "Make an environment in $(VENV)"
	@$(PYTHON) -m venv --upgrade-deps $(VENV)
	@echo "Install matplotlib and scikit-image"
	@$(BIN)/python -m pip install -qq --no-compile --group demo
	@echo "Install gpusolve: its solver is compiled for this CPU, in 5 to 20 seconds"
	@$(BIN)/python -m pip install -qq --no-compile -e ".$(GPU_EXTRA:%=[%])"
	@touch $@

$(VENV)/nvcc: pyproject.toml | $(VENV)/test
	$(BIN)/python -m pip install -q --no-compile --upgrade --target $@ --group nvcc
	touch $@

$(VENV)/docs: setup.cfg pyproject.toml
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	$(BIN)/python -m pip install -q --no-compile -e ".[dask,emulator]" --group docs
	touch $@

$(VENV)/test: setup.cfg pyproject.toml
	$(PYTHON) -m venv --upgrade-deps $(VENV)
	$(BIN)/python -m pip install -q --no-compile -e ".[dask,emulator]" --group test
	touch $@

# PyTorch, JAX and the pictures of the demo, which only slow tests need.
$(VENV)/test-all: $(VENV)/test
	$(BIN)/python -m pip install -q --no-compile --group test-all
	touch $@

# The compiled CPU solver and the emulator's machine, in gpusolve/_objects: pip built it, and may not have seen a change.
$(VENV)/object: $(OBJECT_SOURCES) | $(VENV)/test
	$(BIN)/python setup.py -q build_ext --inplace
	touch $@

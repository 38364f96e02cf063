# Each target first makes .venv (VENV=), and makes it again when the dependencies changed.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 3 --dist worksteal
PART ?= 0/1
BENCH_ARGS ?=
GPU_ARGS ?=
PAPER_ARGS ?= document
BIN := $(VENV)/bin

unexport PYTHONDONTWRITEBYTECODE # else every process that a test starts compiles all sources again

.PHONY: help demo paper test check test-extras test-long newest lint docs bench gpu results clean

help:
	@echo "make demo    reproduce the main result as a web page: demo/index.html"
	@echo "make paper   check the paper's claims by results/, write reproduction/README.md (PAPER_ARGS='measure lemmas')"
	@echo "make test    all tests (PYTEST_ARGS='-n 4 -k name' to choose; by default three processes)"
	@echo "make check   lint, types and tests: what every commit passes"
	@echo "make test-extras  install the extras, then run exactly the tests that 'make test' skipped without them"
	@echo "make test-long    the tests that 'make test' leaves out for their time (PART=3/10: part 3 of 10)"
	@echo "make newest  types and tests with the newest releases of all packages but torch: what will break"
	@echo "make lint    lint and types only"
	@echo "make docs    the site of these documents: site/index.html"
	@echo "make bench   speed and memory against peers, half an hour, goes on where it stopped (BENCH_ARGS=--quick: minutes)"
	@echo "make gpu     what needs a CUDA device, for 9 minutes; again to go on (GPU_ARGS=--list; --dry-run on a CPU)"
	@echo "make results make the files in results/ again, an hour, goes on where it stopped"
	@echo "make clean   remove everything that make has made"
	@echo "PYTHON=python3.12 make ... chooses the interpreter"

demo: $(VENV)/.installed
	$(BIN)/unmask demo --out demo

paper: $(VENV)/.installed
	$(BIN)/python -m reproduction $(PAPER_ARGS)

test: $(VENV)/.installed
	$(BIN)/pytest --part $(PART) $(PYTEST_ARGS)

check: lint test

test-extras: $(VENV)/.extras
	$(BIN)/pytest --extras -rs $(PYTEST_ARGS)

test-long: $(VENV)/.installed
	$(BIN)/pytest --long --part $(PART) $(PYTEST_ARGS)

newest: pyproject.toml
	$(PYTHON) -m venv --clear .venv-newest
	grep '^torch==' constraints.txt > .venv-newest/torch.txt
	.venv-newest/bin/pip install --disable-pip-version-check -c .venv-newest/torch.txt -e '.[test]'
	.venv-newest/bin/mypy
	.venv-newest/bin/pytest $(PYTEST_ARGS)

results: $(VENV)/.installed
	$(BIN)/python -m benchmarks.remake

lint: $(VENV)/.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W -b html -d site/.doctrees docs site

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run $(BENCH_ARGS)

gpu: $(VENV)/.installed
	$(BIN)/python -m benchmarks.gpu $(GPU_ARGS)

clean:
	rm -rf .venv .venv-* demo dist site paper-quick paper-full benchmarks/results .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks reproduction -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "unmask needs Python 3.11 or newer, and '$(PYTHON)' is not; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "'$(PYTHON)' has no venv; install the package that has it, such as python3-venv of Debian and Ubuntu" >&2; \
		exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/.extras: $(VENV)/.installed
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[test,extras]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

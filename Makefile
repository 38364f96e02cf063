# Each target first makes .venv, and makes it again when the dependencies changed.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist worksteal
BENCH_ARGS ?=
BIN := .venv/bin

.PHONY: help demo test lint docs bench clean

help:
	@echo "make demo    measure what parallel decoding costs, exactly, and draw it: demo/index.html"
	@echo "make test    lint, types and tests (PYTEST_ARGS='-n 4 -k name' to choose; two processes unless told otherwise)"
	@echo "make lint    lint and types only"
	@echo "make docs    the site of these documents: site/index.html"
	@echo "make bench   speed and memory against peers, half an hour (BENCH_ARGS=--quick: minutes); the last line is JSON"
	@echo "make clean   remove everything that make has made"
	@echo "PYTHON=python3.12 make ... chooses the interpreter"

demo: .venv/.installed
	$(BIN)/unmask demo --out demo

test: lint
	$(BIN)/pytest $(PYTEST_ARGS)

lint: .venv/.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: .venv/.docs
	$(BIN)/python -m sphinx -q -W -b html -d site/.doctrees docs site

bench: .venv/.bench
	$(BIN)/python -m benchmarks.run $(BENCH_ARGS)

clean:
	rm -rf .venv demo dist site benchmarks/results .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "unmask needs Python 3.11 or newer, and '$(PYTHON)' is not; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

.venv/.docs: .venv/.installed
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

.venv/.bench: .venv/.installed
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

# Each target first makes .venv, and makes it again when the dependencies changed.

PYTHON ?= python3
PYTEST_ARGS ?=
BIN := .venv/bin

.PHONY: help demo test lint bench clean

help:
	@echo "make demo    generate from a language whose answer is known, and score it"
	@echo "make test    lint, types and tests (PYTEST_ARGS='-n 4 -k name' to choose)"
	@echo "make lint    lint and types only"
	@echo "make bench   speed on this machine; the last line is one JSON object"
	@echo "make clean   remove everything that make has made"
	@echo "PYTHON=python3.12 make ... chooses the interpreter"

demo: .venv/.installed
	@mkdir -p demo
	@echo "2000 sequences of length 510 from interval-5, in 737 steps with the exact denoiser."
	@echo "Theory: SER = 0.49966, so nearly half of them are wrong; the interval below should hold that number."
	$(BIN)/unmask generate --language interval-5 --sampler ancestral --schedule linear \
		--steps 737 --length 510 --rows 2000 --seed 1 --out demo/samples.npy
	$(BIN)/unmask score demo/samples.npy --language interval-5

test: lint
	$(BIN)/pytest $(PYTEST_ARGS)

lint: .venv/.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/.installed
	$(BIN)/python benchmarks/generation.py

clean:
	rm -rf .venv demo dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "unmask needs Python 3.11 or newer, and '$(PYTHON)' is not; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

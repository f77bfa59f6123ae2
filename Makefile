# make demo    renders every kernel and proves one run of each on the CPU
# make test    linters, types and all tests
# make clean   removes the environment and the caches
#
# Both make what they need in .venv from a fresh clone; PYTHON chooses the interpreter.

PYTHON ?= python3.11

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# The build backend is installed beside the project, and not in an environment of its own, so that constraints.txt pins it
# and what it needs as well.
INSTALL := $(PIP) install --constraint constraints.txt --no-build-isolation

.PHONY: demo test clean
.DELETE_ON_ERROR:

demo: $(VENV)/.sim
	$(BIN)/fusegen render
	$(BIN)/fusegen run --all

test: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest

clean:
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.backend: $(VENV)/.created pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt hatchling editables
	@touch $@

$(VENV)/.sim: $(VENV)/.backend
	$(INSTALL) --editable '.[sim]'
	@touch $@

$(VENV)/.dev: $(VENV)/.backend
	$(INSTALL) --editable '.[sim,dev,vendor]'
	@touch $@ $(VENV)/.sim

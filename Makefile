# make lab        make the environment, once, and open the course in JupyterLab
# make test       what every commit has to pass, in a few minutes
# make test-all   everything: before a release, and after changes of grading or of the engine
# make quick      the tests of one lesson, in half a minute: make quick LESSON=04
# make notebooks  run solutions/ again and make notebooks/ from it
# make explorer   the whole model as one HTML file, explorer.html
# make site       the lessons as pages that need no kernel, site/build/html
# make minutes    how long each sitting of each lesson takes, counted
# make matrix     exercises × answers: what passes, what fails, which misconception is named
# make clean      remove the environment
#
# With an NVIDIA GPU on Linux, the first time: make lab TORCH_INDEX=
# (PyPI's own build of PyTorch, which brings CUDA along).

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Passed on to JupyterLab, as in: make lab ARGS="--no-browser --port 9000"
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINED := --constraint constraints.txt --editable
# uv takes seconds where pip takes minutes; pip's own settings it doesn't know, so pip comes second.
install = $(BIN)/python -m uv pip install --quiet $(CONSTRAINED) '$(1)' 2>/dev/null || \
  $(PIP) install -qq --no-compile $(CONSTRAINED) '$(1)'
# Files side by side, but not what is seldom used, or never. Some packages bring templates that are
# no Python yet.
SELDOM := /(sympy|transformers|networkx|pip|setuptools|mypyc?|tests)/|/torch/_inductor/
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' $(VENV)/lib course_utils exercises whywrong whywrong_nbgrader || true
# What the first step of an optimizer loads, even where Python is told to write no such files.
USED := $(BIN)/python -c 'import sys; sys.dont_write_bytecode = False; import torch._dynamo' 2>/dev/null || true
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)

# PyPI's Linux build of PyTorch brings gigabytes of CUDA with it; the builds of $(TORCH_INDEX) carry
# its last part as their local version (2.13.0+cpu), so no other index can put another build in
# their place. macOS has one build only.
ifeq ($(shell uname -s),Linux)
ifneq ($(TORCH_INDEX),)
TORCH := $(TORCH)+$(notdir $(TORCH_INDEX:%/=%))
TORCH_FROM := --extra-index-url $(TORCH_INDEX)
endif
# Without a screen JupyterLab prints its address, and starts no browser in the terminal.
ifeq ($(DISPLAY)$(WAYLAND_DISPLAY),)
LAB_ARGS += --no-browser
endif
endif
# JupyterLab refuses root unless told, and containers are root.
ifeq ($(shell id -u),0)
LAB_ARGS += --allow-root
endif

.PHONY: lab test test-all quick notebooks explorer site minutes matrix clean

lab: $(VENV)/.lab
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/notebooks/index.ipynb $(LAB_ARGS) $(ARGS)

PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --nbval

test: $(VENV)/.test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy & types=$$!; $(PYTEST) solutions tests; tested=$$?; wait $$types && exit $$tested

SPELLED := *.md .github docs notebooks exercises course_utils whywrong whywrong_nbgrader tools site/static benchmarks

test-all: $(VENV)/.test
	$(BIN)/codespell $(SPELLED)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(PYTEST) --everything solutions notebooks tests

quick: $(VENV)/.test
	@$(BIN)/python -m tools.quick $(LESSON)

notebooks: $(VENV)/.test
	$(BIN)/python -m tools.editions

explorer: $(VENV)/.lab
	@$(BIN)/python -c 'from course_utils.start import write_page; print(write_page("explorer.html"))'

site: $(VENV)/.test
	@$(BIN)/python -m tools.site

minutes: $(VENV)/.test
	@$(BIN)/python -m tools.minutes

matrix: $(VENV)/.test
	$(BIN)/python -m tools.matrix

clean:
	rm -rf $(VENV)

$(VENV)/.lab: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "Installing the course: a few minutes the first time ..."
	@$(call install,.[lab])
	@$(COMPILE)
	@$(USED)
	@touch $@

$(VENV)/.test: $(VENV)/.lab
	@echo "Installing what the tests need ..."
	@$(call install,.[test])
	@$(COMPILE)
	@touch $@

# First and alone: once PyTorch is there, nothing that follows fetches another build. One quick try,
# because pip's own settings may know the build where the address can't be reached.
$(VENV)/.torch: constraints.txt | $(VENV)/.made
	@echo "Installing PyTorch $(TORCH): a few hundred megabytes ..."
	@$(PIP) install -qq --no-compile --no-deps --retries 0 --timeout 30 $(TORCH_FROM) 'torch==$(TORCH)' || { \
	  echo "PyTorch $(TORCH) could not be installed from $(or $(TORCH_INDEX),pip's own index):" \
	       "check the network, or set TORCH_INDEX to an index that has it." >&2; exit 1; }
	@$(PIP) install -qq --no-compile --constraint constraints.txt uv || true
	@touch $@

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no $(PYTHON) here: install Python 3.11 or newer," \
	       "or say where it is: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The course needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	       "Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) can't make an environment: install its venv module" \
	       "(Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@echo "Making an environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

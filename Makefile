# make lab        create the environment once, and open the course in JupyterLab
# make test       the tests that every commit must pass, in a few minutes
# make test-all   all tests: before a release, and after changes to grading or the engine
# make quick      the tests of one lesson, in half a minute: make quick LESSON=04
# make notebooks  run solutions/ again and build notebooks/ from it
# make explorer   the whole model as one HTML file, explorer.html
# make site       the lessons as pages that need no kernel, in site/build/html
# make minutes    the length of each sitting of each lesson
# make matrix     exercises × answers: passed or failed, and the misconception named
# make clean      remove the environment
#
# In another language that translations/ has: make lab COURSE_LANGUAGE=zh
# With an NVIDIA GPU on Linux, the first time: make lab TORCH_INDEX=
# (PyPI's own build of PyTorch, which includes CUDA).

PYTHON ?= python3
VENV ?= .venv
ifneq ($(words $(VENV)),1)
$(error VENV can't have a blank in its path: $(VENV). Without VENV, the environment is in .venv, wherever the course is)
endif
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Passed on to JupyterLab, as in: make lab ARGS="--no-browser --port 9000"
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINED := --constraint constraints.txt --editable
# uv takes seconds, pip takes minutes; but uv ignores pip's settings, so pip is the fallback.
install = $(BIN)/python -m uv pip install --quiet $(CONSTRAINED) '$(1)' 2>/dev/null || \
  $(PIP) install -qq --no-compile $(CONSTRAINED) '$(1)'
# Compiles in parallel, except files that are seldom or never used. Some packages contain templates
# that are not valid Python.
SELDOM := /(sympy|transformers|networkx|pip|setuptools|mypyc?|tests)/|/torch/_inductor/
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' $(VENV)/lib course_utils exercises whywrong whywrong_nbgrader || true
# Loads what an optimizer's first step needs, even if Python is configured not to write bytecode.
USED := $(BIN)/python -c 'import sys; sys.dont_write_bytecode = False; import torch._dynamo' 2>/dev/null || true
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)

# PyPI's Linux build of PyTorch includes gigabytes of CUDA; the builds of $(TORCH_INDEX) have its
# last part as their local version (2.13.0+cpu), so no other index can substitute another build.
# macOS has only one build.
ifeq ($(shell uname -s),Linux)
ifneq ($(TORCH_INDEX),)
TORCH := $(TORCH)+$(notdir $(TORCH_INDEX:%/=%))
TORCH_FROM := --extra-index-url $(TORCH_INDEX)
endif
# Without a display, JupyterLab prints its address and starts no browser in the terminal.
ifeq ($(DISPLAY)$(WAYLAND_DISPLAY),)
LAB_ARGS += --no-browser
endif
endif
# JupyterLab refuses to run as root by default, and containers run as root.
ifeq ($(shell id -u),0)
LAB_ARGS += --allow-root
endif

.PHONY: lab test test-all quick notebooks explorer site minutes matrix clean

# Without it a question about news lies over the first page.
NO_NEWS := $(VENV)/share/jupyter/lab/settings/overrides.json

# The other languages' notebooks, made where they are missing.
EDITIONS := $(patsubst %/language.toml,%/notebooks/.course-language,$(wildcard translations/*/language.toml))
STARTS := $(if $(COURSE_LANGUAGE),translations/$(COURSE_LANGUAGE)/)notebooks/index.ipynb

lab: $(VENV)/.lab $(NO_NEWS) $(EDITIONS)
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/$(STARTS) $(LAB_ARGS) $(ARGS)

# Tests, notebooks, and the examples in docstrings.
EXAMPLES := course_utils exercises/shared tools whywrong whywrong_nbgrader
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --nbval \
  --doctest-modules $(EXAMPLES)

# Reading the types of PyTorch takes mypy longer than all else: that is left to `make test-all`.
OWN_TYPES := --follow-imports=skip --no-warn-unused-ignores --disable-error-code=var-annotated

test: $(VENV)/.test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy $(OWN_TYPES) & types=$$!; $(PYTEST) solutions tests; tested=$$?; wait $$types && exit $$tested

SPELLED := *.md .github docs notebooks exercises course_utils whywrong whywrong_nbgrader tools training site/static benchmarks tests/answers

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
	@$(BIN)/python -c 'from course_utils.show.start import write_page; from tools.address import repository; \
	  print(write_page("explorer.html", repository()))'

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

$(EDITIONS): $(wildcard notebooks/*.ipynb notebooks/*/*.ipynb) | $(VENV)/.lab
	@$(BIN)/python -m course_utils.desk.translated

$(NO_NEWS): | $(VENV)/.lab
	@mkdir -p $(@D)
	@echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' >$@

$(VENV)/.test: $(VENV)/.lab
	@echo "Installing the packages for the tests ..."
	@$(call install,.[test])
	@$(COMPILE)
	@touch $@

# First and alone: once PyTorch is installed, no later step fetches another build. Only one quick
# try, because pip's own settings may have the build if the address can't be reached.
$(VENV)/.torch: constraints.txt | $(VENV)/.made
	@echo "Installing PyTorch $(TORCH): a few hundred megabytes ..."
	@$(PIP) install -qq --no-compile --no-deps --retries 0 --timeout 30 $(TORCH_FROM) 'torch==$(TORCH)' || { \
	  echo "PyTorch $(TORCH) could not be installed from $(or $(TORCH_INDEX),pip's own index):" \
	       "check the network, or set TORCH_INDEX to an index that has it." >&2; exit 1; }
	@$(PIP) install -qq --no-compile --constraint constraints.txt uv || true
	@touch $@

$(VENV)/.made:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "There is no $(PYTHON) here: install Python 3.11 or newer," \
	       "or say where it is: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The course needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" --version 2>&1)." \
	       "Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) can't create an environment: install its venv module" \
	       "(Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@echo "Creating an environment in $(VENV) ..."
	@"$(PYTHON)" -m venv $(VENV)
	@touch $@

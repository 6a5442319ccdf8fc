# `make` alone says what there is. Everything runs in .venv, which the first
# command sets up from constraints.txt; it needs Python ≥ 3.11 and make.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
HTML   := book/_build/html/index.html
METRICS := $(wildcard notebooks/metrics/*.py)
# Tests run side by side, one thread each: two torch processes that both
# want every core spin against each other and slow down tenfold.
JOBS   ?= 2
export OMP_WAIT_POLICY := PASSIVE
export PYTHONUTF8 := 1
# A script of ours finds its neighbours; the notebooks find their style.
PYTEST := $(PY) -m pytest
BESIDE := OMP_NUM_THREADS=1 $(PYTEST) -n $(JOBS) --dist loadgroup
NBVAL  := $(PYTEST) -q --nbval --nbval-current-env \
          --nbval-kernel-startup-timeout 180 --nbval-cell-timeout 600 \
          --nbval-sanitize-with tests/nbval_sanitize.cfg

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup export notebooks metrics adopt format check book test lab \
        clean drift lint unit shapes nbval site

help: ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | \
	  sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name what; \
	  do printf '  make %-10s %s\n' "$$name" "$$what"; done

setup: $(READY) ## make .venv with the pinned packages

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, and '$(PYTHON)' is" \
	    "$$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check \
	  -c constraints.txt hatchling editables
	$(PY) -m pip install -q --disable-pip-version-check \
	  -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

export: $(READY) ## write transformer_lib/ from the chapters
	@$(PY) tools/export.py

notebooks: export ## execute the stale chapters (CHAPTER=06: that one in any case)
	@$(PY) tools/notebooks.py $(if $(CHAPTER),--again $(CHAPTER))
	@$(PY) tools/picture.py

metrics: export ## make the runs too long for a cell (CHAPTER=08, ARGS=--again)
	@PYTHONHASHSEED=0 $(PY) tools/metrics.py $(ARGS) $(CHAPTER)

adopt: $(READY) ## settle .md against .ipynb: FROM=ipynb or FROM=md, CHAPTER=06
	@$(PY) tools/adopt.py "$(FROM)" "$(CHAPTER)"

format: $(READY) ## format chapters, tools and tests
	@$(PY) tools/format.py
	@$(PY) -m ruff check -q --fix tools tests benchmarks $(METRICS)
	@$(PY) -m ruff format -q tools tests benchmarks $(METRICS)

lab: $(READY) ## open the chapters in JupyterLab (ARGS=--allow-root …)
	@$(PY) tools/lab.py $(ARGS)

book: $(READY) ## build the site into book/_build/html
	@$(PY) tools/book.py

check: $(READY) drift lint ## test only what changed, in under three minutes
	@changed="$$($(PY) tools/changed.py)"; set -e; \
	echo "changed:" $${changed:-nothing}; \
	$(PYTEST) -q tests/test_package.py; \
	for what in $$changed; do \
	  if [ $$what = house ]; then \
	    $(PYTEST) -q tests -m "house and not lab"; continue; \
	  fi; \
	  tests=tests/test_$${what#*_}.py; \
	  test ! -f $$tests || $(PYTEST) -q $$tests; \
	  $(PYTEST) -q tests/test_perturbations.py -k $$what; \
	  $(NBVAL) notebooks/$$what.ipynb; \
	done

test: $(READY) drift lint unit shapes nbval book site ## test everything

# The parts of `make test`, in its order.
drift: $(READY)
	@$(PY) tools/export.py --check
	@$(PY) tools/notebooks.py --check
	@$(PY) tools/picture.py --check
	@$(PY) tools/card.py --check
	@$(PY) tools/metrics.py --check
	@$(PY) tools/format.py --check

lint: $(READY)
	@$(PY) -m ruff check -q transformer_lib tools tests benchmarks \
	  notebooks/*.ipynb $(METRICS) \
	  && $(PY) -m ruff format -q --check transformer_lib tools tests \
	  benchmarks $(METRICS) \
	  || { echo "lint: mend what is named above, or run 'make format'" >&2; \
	       exit 1; }

unit: $(READY)
	$(BESIDE) -q tests -m "not site"

shapes: $(READY)
	$(BESIDE) -q tests -m \
	  "not (site or lab or house or perturbation or bad_input)" \
	  --jaxtyping-packages=transformer_lib,beartype.beartype

nbval: $(READY)
	OMP_NUM_THREADS=1 $(NBVAL) -n $(JOBS) --dist loadfile notebooks

site: $(READY) $(HTML)
	$(PY) tools/browser.py
	$(PYTEST) -q tests -m site

$(HTML):
	@$(PY) tools/book.py

clean: ## remove what can be made again (not .venv, not .saved)
	rm -rf book/_build .pytest_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# `make quickstart` and `make test` set everything up themselves, once.
# with another Python, as in `make test PYTHON=python3.13`, in a folder of its own: .venv-3.13
PYTHON ?= python3
VENV := .venv
ifeq ($(origin PYTHON),command line)
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: quickstart test tests quick venv processes names notebooks docs browser bench torture check ruff mypy clean

quickstart: $(READY)
	$(BIN)/softpnet train kand_logic --option train=1000
	@echo "Your own task: write a rule in a file and run  $(BIN)/softpnet train my_rule.py  (see docs/your-own-task.md)"

# mypy beside the tests: where it has no cache yet, it takes about twenty seconds of one core
test: ruff
	$(MAKE) --no-print-directory --jobs 2 mypy tests

# neighbours stay in one process, which then makes what they share once; three, since some tests wait for processes;
# the lines that ran are counted, also in processes that tests start: `coverage report` lists the others
tests: $(READY)
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal -m "not processes" --cov --cov-report=

# a part of the tests that takes a minute, on another Python: make quick PYTHON=python3.13
quick: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not processes" \
	  tests/task tests/rules tests/runtime tests/methods tests/targets tests/test_learner.py tests/test_extending.py

venv: $(READY)

# the tests that kill, stop and join whole processes: apart, since they mostly wait
processes: $(READY)
	$(BIN)/python -m pytest --numprocesses 3 --dist worksteal -m processes

# from text to .ipynb files beside it, executed
NOTEBOOKS := $(wildcard docs/notebooks/*.md)
notebooks: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[notebooks]'
	$(BIN)/jupytext --quiet --to notebook --set-kernel python3 $(NOTEBOOKS)
	$(BIN)/jupyter-execute --inplace $(NOTEBOOKS:.md=.ipynb)

# the report in a real browser; its tests are apart, since not every machine has one
browser: $(READY)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	  { echo "make browser needs a browser and its driver: apt-get install chromium chromium-driver"; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[browser]'
	$(BIN)/python -m pytest browser

# the tables of docs/api.md, of the docstrings
names: $(READY)
	$(BIN)/python docs/names.py

# mkdocs-material announces its end of life (May 2027) in every build: silenced, so that warnings about pages stand out
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "written: site/index.html"

bench: $(READY)
	$(BIN)/python -m bench

torture: $(READY)
	$(BIN)/python -m torture

check: ruff mypy

ruff: $(READY)
	$(BIN)/ruff check .

mypy: $(READY)
	$(BIN)/mypy

%/.ready: pyproject.toml constraints.txt
	test -x $*/bin/python || $(PYTHON) -m venv $*
	$*/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

clean:
	rm -rf .venv .venv-3.*

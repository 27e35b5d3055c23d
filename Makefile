# `make quickstart` and `make test` set everything up themselves, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: quickstart test bench torture check clean

quickstart: $(READY)
	$(BIN)/softpnet train kand_logic --targets kbest --option train=1000 --epochs 5 --rule-delay 1 --rule-ramp 2
	@echo "Your own task: write a rule in a file and run  $(BIN)/softpnet train my_rule.py  (see docs/your-own-task.md)"

test: check
	$(BIN)/python -m pytest --numprocesses 2

bench: $(READY)
	$(BIN)/python -m bench

torture: $(READY)
	$(BIN)/python -m torture

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv

# make demo   the main job on small data, offline, in about a minute
# make test   style, types, tests
# Both make a virtual environment in .venv first, if there is none.

PYTHON ?= python3
VENV ?= .venv
READY = $(VENV)/.ready

.PHONY: demo test clean

demo: $(READY)
	$(VENV)/bin/synthscore demo

test: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check synthscore papers tests training
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist

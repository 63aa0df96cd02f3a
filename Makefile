# The commands we promise; each works in a fresh clone with nothing but Python 3.11+ and the package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test check bench soak slow pictures screenshots clean

demo: $(VENV)/.base
	$(BIN)/whispertide demo

test: $(VENV)/.test
	$(BIN)/pytest

slow: $(VENV)/.test
	$(BIN)/pytest -m slow

check: $(VENV)/.test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest tests/test_imports.py

bench: $(VENV)/.test
	$(BIN)/python benchmarks/engine.py --quick $(if $(THREADS),--threads $(THREADS))

pictures: $(VENV)/.test
	$(BIN)/python docs/pictures.py

# All of it, or MINUTES=10 for a fair share of everything; then docs/soak.md has the figures of what was run.
soak: $(VENV)/.test
	$(BIN)/python benchmarks/soak.py $(if $(MINUTES),--minutes $(MINUTES)); code=$$?; \
		$(BIN)/python benchmarks/soak.py --page docs/soak.md; exit $$code

# Pictures of the page for README and docs/page.md; needs Chromium.
screenshots: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python docs/page_screenshots.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "whispertide needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.base
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# One virtual environment per peer program; one that cannot be installed here does not keep the others from it.
PEERS := $(basename $(notdir $(wildcard src/whispertide/evaluation/peers/requirements/*.txt)))

.PHONY: peers
peers: $(PEERS:%=.venv-peers/%/.ready)

.venv-peers/%/.ready: src/whispertide/evaluation/peers/requirements/%.txt
	@mkdir -p .venv-peers && echo '*' > .venv-peers/.gitignore
	$(PYTHON) -m venv .venv-peers/$*
	.venv-peers/$*/bin/pip install --quiet --requirement $< && touch $@ || \
		echo "$* cannot be installed here: the benchmarks will say so"

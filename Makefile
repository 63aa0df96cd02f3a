# The commands we promise; each works in a fresh clone with nothing but Python 3.11+ and the package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test check bench soak slow pictures screenshots mutants clean

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

soak: $(VENV)/.test
	$(BIN)/python benchmarks/soak.py

# Pictures of the page for README and docs/page.md; needs Chromium.
screenshots: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python docs/page_screenshots.py

# Hours. It goes on where it was interrupted; with FILE=src/whispertide/session.py that file alone is done, again.
mutants: $(VENV)/.mutants
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false nice $(BIN)/mutmut run --max-children $(or $(JOBS),1) \
		$(if $(FILE),'$(subst /,.,$(FILE:src/%.py=%)).*')
	$(BIN)/python benchmarks/mutants.py $(FILE)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "whispertide needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making a virtual environment in $(VENV) (a few seconds) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	@echo "Installing whispertide and what it needs into $(VENV): up to 125 MB to download, half a minute or more ..."
	@$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.base
	@echo "Installing what the tests need into $(VENV), torch among it: gigabytes to download, some minutes ..."
	@$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@

$(VENV)/.mutants: pyproject.toml $(VENV)/.test
	$(BIN)/pip install --quiet --editable '.[mutants]'
	@touch $@

clean:
	rm -rf $(VENV) build dist mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis

# One virtual environment per peer program; one that cannot be installed here does not keep the others from it.
PEERS := $(basename $(notdir $(wildcard src/whispertide/evaluation/peers/requirements/*.txt)))

.PHONY: peers
peers: $(PEERS:%=.venv-peers/%/.ready)

.venv-peers/%/.ready: src/whispertide/evaluation/peers/requirements/%.txt
	@mkdir -p .venv-peers && echo '*' > .venv-peers/.gitignore
	@echo "Installing $* into .venv-peers/$*: up to some minutes, and up to gigabytes to download ..."
	@$(PYTHON) -m venv .venv-peers/$*
	@.venv-peers/$*/bin/pip install --quiet --requirement $< && touch $@ || \
		echo "$* cannot be installed here: the benchmarks will say so"

# The commands we promise; each works in a fresh clone with nothing but Python 3.11+ and the package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-cli check audit lock pin-image bench soak slow real thorough golden pictures screenshots agents mutants dist site clean

demo: $(VENV)/.base
	$(BIN)/whispertide demo

# Processes of one thread each. Compiled files are kept, whatever the environment says: to compile the tests anew takes
# longer than to run many of them. Files are UTF-8.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONUTF8=1 OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/pytest
# A third and a fourth process compute while the tests of others wait for sockets. The one that is done first takes tests
# from the others.
PROCESSES := --numprocesses 4
BOTH_CORES := $(PROCESSES) --dist worksteal
# Fast tests are so many that each process has a quarter of the files instead, and need not collect all of them.
SHARES := $(PROCESSES) --dist each --max-worker-restart 0

# `make check` has the tests of imports.
test: $(VENV)/.test
	$(PYTEST) $(SHARES) --ignore tests/test_imports.py

# Part of `make test`: what writes to a terminal and is as wide. CI runs it also in a wider one.
AS_WIDE := doctor exit hints live main meter models process progress terminal watch
test-cli: $(VENV)/.test
	$(PYTEST) $(AS_WIDE:%=tests/cli/test_%.py)

slow: $(VENV)/.torch
	$(PYTEST) $(BOTH_CORES) -m 'slow and not soak' --durations 60

# On OpenAI's own weights. Where they cannot be had the tests say that they were not run.
PULLED := @$(BIN)/whispertide models pull tiny.en && $(BIN)/whispertide models pull base || true
real: $(VENV)/.torch
	$(PULLED)
	$(PYTEST) $(BOTH_CORES) -m real tests/real

# Both, for CI: in one run they wait once only for the last tests of some process.
thorough: $(VENV)/.torch
	$(PULLED)
	$(PYTEST) $(BOTH_CORES) -m 'slow and not soak or real' --durations 60

# For whoever reshapes recipes or decoding: every trace, whole, and 300 s of talks. Talks need speech synthesizers.
golden: $(VENV)/.test
	$(PYTEST) $(BOTH_CORES) -m 'golden or slow' tests/test_golden.py

check: $(VENV)/.test audit
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(PYTEST) tests/test_imports.py

# Known vulnerabilities in what is locked. Where nobody can be asked about them, a line says so, and that is all.
audit: $(VENV)/.test
	@$(BIN)/python deploy/audit.py $(LOCKS)

bench: $(VENV)/.test
	$(BIN)/python benchmarks/engine.py --quick $(if $(THREADS),--threads $(THREADS))

# Every picture of the docs, by today's weights; those of the page in the browser need Chromium.
pictures: $(VENV)/.torch screenshots
	$(BIN)/python lab/docs/pictures.py

# The plug-ins for agents with the frameworks that they are for, next to what the other tests need.
AGENTS := .venv-agents
agents: $(AGENTS)/.ready
	PYTHONUTF8=1 PYTHONPATH=src $(AGENTS)/bin/python -m pytest tests/integrations

$(AGENTS)/.ready: integrations/pyproject.toml $(VENV)/.test
	@echo "Installing Pipecat and LiveKit Agents into $(AGENTS): some hundred megabytes to download, a minute or more ..."
	@$(PYTHON) -m venv $(AGENTS) && echo '*' > $(AGENTS)/.gitignore
	@$(AGENTS)/bin/pip install --quiet './integrations[livekit,pipecat]'
	@$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$($(AGENTS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tests.pth
	@touch $@

# All of it, or MINUTES=10 for a fair share of everything; then lab/docs/soak.md has the figures of what was run.
soak: $(VENV)/.torch
	$(PYTEST) -m soak
	$(BIN)/python benchmarks/soak.py $(if $(MINUTES),--minutes $(MINUTES)); code=$$?; \
		$(BIN)/python benchmarks/soak.py --page lab/docs/soak.md; exit $$code

screenshots: $(VENV)/.test
	PYTHONPATH=tests/support $(BIN)/python lab/docs/page_screenshots.py

# Hours. It goes on where it was interrupted; with FILE=src/whispertide/session.py that file alone is done, again.
mutants: $(VENV)/.mutants
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false nice $(BIN)/mutmut run --max-children $(or $(JOBS),1) \
		$(if $(FILE),'$(subst /,.,$(FILE:src/%.py=%)).*')
	$(BIN)/python benchmarks/mutants.py $(FILE)

# What goes to the package index, built into dist/, and tried in an empty environment of every Python that is here.
dist: $(VENV)/.dist | $(BIN)/uv
	$(BIN)/python deploy/dist.py

# The pages as a site, in site/. A link that leads nowhere, or a page that the menu lacks, is an error.
site: $(VENV)/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "whispertide needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making a virtual environment in $(VENV) (a few seconds) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	@echo "Installing whispertide and what it needs into $(VENV): up to 125 MB to download, half a minute or more ..."
	@$(BIN)/pip install --quiet --editable .
	@touch $@

# What is locked, and ourselves: whispertide and its laboratory. uv takes a third of pip's time, but knows none of pip's
# settings: whoever reaches the registry only by those has pip.
LOCKED := --require-hashes --no-deps --requirement requirements-dev.lock
OURSELVES := --no-deps --editable . --editable ./lab
$(VENV)/.test: pyproject.toml lab/pyproject.toml requirements-dev.lock | $(BIN)/uv
	@echo "Installing what the tests need into $(VENV): some hundred megabytes to download, a minute or more ..."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode $(LOCKED) 2>/dev/null || $(BIN)/pip install --quiet $(LOCKED)
	@echo "Installing whispertide itself and its laboratory into $(VENV): some seconds ..."
	@$(BIN)/uv pip install --quiet --python $(BIN)/python $(OURSELVES) 2>/dev/null || $(BIN)/pip install --quiet $(OURSELVES)
	@touch $(VENV)/.base $@

# torch is in no lock file. All cores compile it, some of which only newer Pythons understand, but for a third that
# nothing here imports.
$(VENV)/.torch: $(VENV)/.test
	@echo "Installing torch: up to gigabytes to download, some minutes ..."
	@$(BIN)/pip install --quiet --no-compile --no-warn-conflicts --editable './lab[torch]'
	@$(BIN)/python -m compileall -q -j 0 -x '/torch/(_inductor|testing|_vendor)/' $(VENV)/lib/python*/site-packages/torch >/dev/null || true
	@touch $@

$(VENV)/.%: deploy/%.txt | $(VENV)/bin/python
	@echo "Installing what deploy/$*.txt names into $(VENV) (some seconds) ..."
	@$(BIN)/pip install --quiet --requirement $<
	@touch $@

$(VENV)/.mutants: pyproject.toml $(VENV)/.test
	$(BIN)/pip install --quiet --editable '.[mutants]'
	@touch $@

clean:
	rm -rf $(VENV) build dist site lab/build lab/dist mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis

# One virtual environment per peer program; one that cannot be installed here does not keep the others from it.
PEERS := $(basename $(notdir $(wildcard lab/src/whispertide_lab/evaluation/peers/requirements/*.txt)))

.PHONY: peers
peers: $(PEERS:%=.venv-peers/%/.ready)

.venv-peers/%/.ready: lab/src/whispertide_lab/evaluation/peers/requirements/%.txt
	@mkdir -p .venv-peers && echo '*' > .venv-peers/.gitignore
	@echo "Installing $* into .venv-peers/$*: up to some minutes, and up to gigabytes to download ..."
	@$(PYTHON) -m venv .venv-peers/$*
	@.venv-peers/$*/bin/pip install --quiet --requirement $< && touch $@ || \
		echo "$* cannot be installed here: the benchmarks will say so"

# The packages for development; those of them that the image needs; what builds our own package for the image.
# Versions that are locked stay while pyproject.toml and lab/pyproject.toml allow them. `make lock UPGRADE=1` takes the
# newest.
LOCKS := requirements-dev.lock deploy/requirements.lock deploy/build.lock
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
	$(if $(UPGRADE),--upgrade) --custom-compile-command
AS_TESTED := 'make lock' --constraints requirements-dev.lock

define WITHOUT_TORCH
make lock
#
# torch is not here, nor what it alone needs: its builds for CPUs and for each kind of GPU have hashes and needs of
# their own. lab/pyproject.toml holds its version. So these are installed with --no-deps, and torch after them (Makefile).
# triton (1 GB) comes with the builds of torch that use it; pip is the one that every environment has.
endef
export WITHOUT_TORCH

lock: | $(BIN)/uv
	printf 'torch\ntriton\npip\n' | $(LOCK) "$$WITHOUT_TORCH" --extra test --extra train --no-emit-package whispertide \
		--excludes /dev/stdin -o requirements-dev.lock pyproject.toml lab/pyproject.toml
	$(LOCK) $(AS_TESTED) --extra fleet -o deploy/requirements.lock pyproject.toml
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
		$(LOCK) $(AS_TESTED) -o deploy/build.lock -

$(BIN)/uv: | $(VENV)/bin/python
	@echo "Installing uv, which installs packages (a few seconds) ..."
	@$(BIN)/pip install --quiet uv

# The image is built from the base image that this digest names, and from no other, until it is pinned again.
BASE := python:3.12-slim
pin-image:
	@digest=$$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' $(BASE)) && \
	case $$digest in sha256:????????????????????????????????????????????????????????????????) ;; \
		*) echo "expected a digest (sha256:...) of $(BASE); docker said: $$digest" >&2; exit 1 ;; esac && \
	sed "s|^ARG PYTHON_IMAGE=.*|ARG PYTHON_IMAGE=$(BASE)@$$digest|" deploy/Dockerfile > deploy/Dockerfile.new && \
	mv deploy/Dockerfile.new deploy/Dockerfile && echo "deploy/Dockerfile: $(BASE)@$$digest"

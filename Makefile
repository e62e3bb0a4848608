# Everything from a fresh checkout: `make demo` or `make test`, with Python 3.11 or newer and pip. Nothing else first.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
SOAK   ?= 2
WORKERS ?= 2
# Tests wait for a fifth of the time, and those of pods for more than half of it, so four share two cores.
TEST_WORKERS ?= 4
PARALLEL := --dist worksteal --durations 10 --durations-min 1

# Without bytecode on the disk every worker and every `chaoskit run` of a test compiles all modules anew, with asserts rewritten.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-exhaustive lint docs tables bench breaks gallery frameworks screenshots upgrade older soak clean
.DEFAULT_GOAL := demo

# One rank of the tiny GPT is killed in the middle of its second epoch; then every claim about its return is checked.
demo: $(READY)
	$(BIN)/chaoskit run -v -k one_rank_mid_epoch -- \
	    $(BIN)/torchrun --nproc-per-node 2 -m tinymodels.train --out {out}

# The tests of every change: 14 minutes on two cores. They fail when any check, fault or launcher is broken.
test: $(READY)
	$(BIN)/python -m pytest -m "not slow and not exhaustive" -n $(TEST_WORKERS) $(PARALLEL) $(PYTEST_ARGS)

# The long ones: the battery, the gallery, frameworks, cold launches, ordinary users, and benchmarks at their smallest size.
test-slow: $(READY)
	$(BIN)/python -m pytest -m slow -n $(TEST_WORKERS) $(PARALLEL) $(PYTEST_ARGS)

# What CI does in part: all experiments of the tutorial, of each kind of job, and benchmarks that take a minute at their
# smallest size. Each night, and before a release.
test-exhaustive: $(READY)
	$(BIN)/python -m pytest -m exhaustive -n $(WORKERS) $(PARALLEL) $(PYTEST_ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in build/site. Strict: a link, an anchor or a name that leads nowhere is an error, and so is a stale table.
docs: $(DOCS_READY)
	$(BIN)/python -m tools.stubs --check
	$(BIN)/python -m tools.tables --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean

# What is generated: the stubs of chaoskit.faults and chaoskit.checks, the index of modules, the tables of faults, checks
# and codes.
tables: $(READY)
	$(BIN)/python -m tools.stubs
	$(BIN)/python -m tools.tables

bench: $(READY)
	$(BIN)/python benchmarks/probe.py
	$(BIN)/python benchmarks/launch.py
	$(BIN)/python benchmarks/suite.py
	$(BIN)/python benchmarks/align.py
	$(BIN)/python benchmarks/window_records.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/forecast.py

# The proof that the tests hold: every check, fault and launcher is broken on purpose, one at a time, and a test must fail.
# An hour or more; results are kept in build/breaks.json, so run it again to continue. BREAKS=--fast-only: no real jobs.
BREAKS ?=
breaks: $(READY)
	$(BIN)/python benchmarks/breaks.py --markdown build/breaks.md $(BREAKS)

# chaoskit's own exam: every broken trainer against the experiments that must catch it, and good ones with and without load.
# Writes docs/reference/gallery.md and build/gallery.json. GALLERY=--continue goes on with one that was interrupted.
GALLERY ?=
gallery: $(READY)
	$(BIN)/python benchmarks/gallery.py --workers $(WORKERS) $(GALLERY)

# Programs that we did not write: what each of examples/ resumes exactly. Makes their environments in build/ where they are
# missing, and writes docs/reference/frameworks.md and docs/reference/frameworks.json. First what the probe costs in each, and what
# their handlers make of a notice of preemption. Some hours; again with FRAMEWORKS=--missing, what is not measured yet.
FRAMEWORKS ?=
frameworks: $(READY)
	$(BIN)/python benchmarks/frameworks_overhead.py $(filter --missing,$(FRAMEWORKS))
	$(BIN)/python benchmarks/handlers.py $(filter --missing,$(FRAMEWORKS))
	$(BIN)/python benchmarks/frameworks.py --full -n $(WORKERS) $(FRAMEWORKS)

# What the page of a run says about six trainers, and how it looks; needs chromium. Writes docs/reference/report-examples.md and
# docs/images/.
screenshots: $(READY)
	$(BIN)/python benchmarks/screenshots.py

# Checkpoints across the border between two versions of torch, and the battery under both. The second torch is installed
# once, into a directory of its own: a minute, and 5.5 GB.
NEWER  := build/torch-2.14
upgrade: $(READY) $(NEWER)/.ready
	$(BIN)/python -m pytest tests/upgrade --upgrade-to $(NEWER)/bin/python $(PYTEST_ARGS)

$(NEWER)/.ready:
	[ -x $(NEWER)/bin/python ] || $(PYTHON) -m venv $(NEWER)
	$(NEWER)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.14.1 numpy safetensors
	@touch $@

# Older versions of trainers with resume bugs that users reported, and those that mended them: chaoskit has to find each
# bug, and nothing else. Each version is installed once: 1 GB and a minute or two. Writes docs/reference/older-bugs.md.
older: $(READY)
	$(BIN)/python benchmarks/older.py $(OLDER)

# 200 warm launches and 50 kills, which must leave nothing behind; then the whole battery again and again, DDP and FSDP2,
# fp32 and AMP: the good trainer must never fail. The counts are appended to docs/reference/soak.jsonl, with the machine
# and its load. SOAK_MURDERS=N: also N murdered harnesses of crash states, of containers and of pods (needs Docker).
SOAK_MURDERS ?= 0
SOAK_KEPT := --keep docs/reference/soak.jsonl
soak: $(READY)
	$(BIN)/python benchmarks/soak.py $(SOAK_KEPT)
	$(BIN)/python benchmarks/soak_clean.py --rounds $(SOAK) -n $(WORKERS) $(SOAK_KEPT)
	if [ $(SOAK_MURDERS) -gt 0 ]; then for where in killed killed_in_containers killed_in_pods; do \
	    $(BIN)/python benchmarks/$$where.py --kills $(SOAK_MURDERS) $(SOAK_KEPT) || exit 1; \
	done; fi

clean:
	if [ -x $(BIN)/chaoskit ]; then $(BIN)/chaoskit clean --all; fi
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Made once; again when pyproject.toml has changed.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "chaoskit needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	    echo "Name another one: make PYTHON=/path/to/python3.11"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"; \
	    exit 1; }
	@echo 'setting up $(VENV), once: pip downloads PyTorch (5 GB on the disk; 1 GB with PIP_EXTRA_INDEX_URL at its CPU builds),'
	@echo 'transformers, lightning and the tools of the tests. That takes some minutes. chaoskit itself downloads nothing.'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(READY)

# What builds the site, added to the rest.
$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $(DOCS_READY)

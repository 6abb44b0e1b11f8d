# The commands a newcomer needs: `make demo` and `make test`. Each makes its own environment on
# first use; nothing but Python >= 3.11 with pip, and make, has to be there.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
# Twice the cores: many tests wait for processes and servers.
JOBS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) * 2)")
# What is compiled is kept, whatever this shell says: else each run compiles the tests again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal \
	--inline-snapshot=disable

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

.PHONY: help demo test test-fast coverage mutate lint format bench bench-scale soak soak-batch soak-kills soak-turns requirements docs reference sbom lock smoke beside try-local clean

demo: $(VENV)/.base ## set up and try the agent on this repository, without a key
	@$(BIN)/python scripts/demo.py

test: $(VENV)/.dev ## set up and run all tests (JOBS=N processes)
	@sh scripts/in_memory.sh $(PYTEST) $(FLAGS)

test-fast: $(VENV)/.dev ## run the tests of the files that take little time
	$(PYTEST) --fast

coverage: $(VENV)/.dev ## run all tests, then print the coverage of lines and branches by package
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest -q -n $(JOBS) $(TESTS)
	@$(BIN)/coverage combine -q
	@$(BIN)/python scripts/coverage_by_package.py

mutate: $(VENV)/.dev ## plant a fault for each claimed row and name those no test catches (ROWS=…)
	$(BIN)/python scripts/mutate.py $(ROWS)

lint: $(VENV)/.dev ## format, ruff, sizes, imports, pyright, mypy: what has to pass
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright
	$(BIN)/mypy examples/*.py

format: $(VENV)/.dev ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## measure speed and memory
	$(BIN)/python -m bench

bench-scale: $(VENV)/.dev ## queue and report 1,000,000 tasks, run some on 200 Ray workers (TASKS=N RAY_WORKERS=N)
	$(BIN)/python -m bench.scale

HISTORIES ?= 20000
soak: $(VENV)/.dev ## check 20,000 generated conversations (HISTORIES=N SEED=N)
	$(BIN)/python -m tests.soak --histories $(HISTORIES) $(if $(SEED),--seed $(SEED))

KILLS ?= 5000
soak-kills: $(VENV)/.dev ## kill 5,000 sessions (KILLS=N)
	$(BIN)/python -m bench.kills $(KILLS)

TURNS ?= 10000
soak-turns: $(VENV)/.dev ## run one session of 10,000 turns (TURNS=N)
	$(BIN)/python -m bench.soak $(TURNS)

soak-batch: $(VENV)/.dev ## 1,000 tasks with kills on both engines, 200 in worktrees of this repository
	TASKS=1000 KILLS=24 TREES=200 $(BIN)/python -m pytest -q -o timeout=3600 tests/batch -m slow

try-local: $(VENV)/.base build/local/.installed ## ask a real llama.cpp server with a small model three prompts
	@$(BIN)/python scripts/try_local.py

build/local/.installed: scripts/local/requirements.txt
	@$(PYTHON) -m venv build/local
	@build/local/bin/python -m pip install -qq --disable-pip-version-check -r scripts/local/requirements.txt
	@touch $@

requirements: $(VENV)/.dev ## list requirements and the tests that claim them
	@$(BIN)/python scripts/requirements.py

sbom: $(VENV)/.dev ## write the list of parts (CycloneDX) beside the packages
	$(BIN)/python -m scripts.dependencies dist/alhena-agent.cdx.json

docs: $(VENV)/.dev ## build the site of docs/ in build/docs; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict -d build/docs

reference: $(VENV)/.dev ## write docs/reference from the code, and the table of programs in docs/embedding.md
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m scripts.programs_beside

smoke: $(VENV)/.dev ## build the wheel, install it elsewhere and run it (WITH="PYTHON…")
	$(BIN)/python scripts/smoke_wheel.py $(WITH)

beside: $(VENV)/.dev ## install it beside other packages, and with the lowest versions (NAMES=… WITH=PYTHON)
	$(BIN)/python -m scripts.try_beside $(if $(WITH),--python $(WITH)) $(NAMES)

# Locks name versions and hashes, and no index: any index that serves the same files will do.
lock: $(VENV)/.dev ## update the lock files
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --no-annotate pyproject.toml --group dev -o requirements-dev.lock

$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "alhena needs Python 3.11 or newer; set PYTHON=/path/to/python" >&2; exit 1; }
	@echo "setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/pyvenv.cfg requirements.lock pyproject.toml
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base requirements-dev.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

clean: ## remove what the targets made
	rm -rf $(VENV) .hypothesis .mypy_cache .ruff_cache build dist

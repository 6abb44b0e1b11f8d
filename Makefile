# The commands a newcomer needs: `make demo` and `make test`. Each makes its own environment on
# first use; nothing but Python >= 3.11 with pip, and make, has to be there.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= auto

.PHONY: demo test lint format bench soak soak-kills soak-turns requirements lock clean

demo: $(VENV)/.base
	@$(BIN)/python scripts/demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n $(JOBS)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python -m bench

# Conversations that are made up and checked request by request; `make soak HISTORIES=… SEED=…`.
HISTORIES ?= 20000
soak: $(VENV)/.dev
	$(BIN)/python -m tests.soak --histories $(HISTORIES) $(if $(SEED),--seed $(SEED))

# Sessions that are killed at random instants; `make soak-kills KILLS=…`.
KILLS ?= 5000
soak-kills: $(VENV)/.dev
	$(BIN)/python -m bench.kills $(KILLS)

# One session of so many turns: what a turn costs, memory, open files; `make soak-turns TURNS=…`.
TURNS ?= 10000
soak-turns: $(VENV)/.dev
	$(BIN)/python -m bench.soak $(TURNS)

requirements: $(VENV)/.dev
	@$(BIN)/python scripts/requirements.py

# Locks name versions and hashes, and no index: any index that serves the same files will do.
lock: $(VENV)/.dev
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

clean:
	rm -rf $(VENV) .hypothesis .ruff_cache build dist

# `make demo` needs Python 3.11 or newer and nothing else; `make help` lists the rest.
# PYTHON=... chooses the interpreter of a new .venv, PYTHONS="..." those on which `make dist` tries
# the wheel, ARGS=... goes to the command that is run.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= peewit:$(VERSION)
BASE ?=
EXTRAS ?=
# where overlay file systems are refused: BUILDAH="buildah --storage-driver vfs"
BUILDAH ?= buildah

# tests, and the hundreds of processes that they start, would compile every module again
unexport PYTHONDONTWRITEBYTECODE

# setuptools warns at every editable install that folders shadow packages; here they are the packages
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	-c constraints.txt
SPHINX := $(BIN)/python -m sphinx --quiet --jobs auto --builder html --doctree-dir build/doctrees
WHEEL := dist/peewit-$(VERSION)-py3-none-any.whl
BILL := dist/peewit-$(VERSION).cdx.json
BUILD := $(if $(BASE),--build-arg BASE=$(BASE)) $(if $(EXTRAS),--build-arg EXTRAS=$(EXTRAS)) \
	-f docker/Dockerfile -t $(IMAGE) $(ARGS) .

# prints the first interpreter that runs and is new enough (a pyenv shim may exist and not run)
FIND_PYTHON := for name in $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3); do \
	if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	echo "$$name"; exit 0; fi; done; \
	echo "Peewit needs Python 3.11 or newer; tried: $(if $(PYTHON),$(PYTHON),python3.13 python3.12 python3.11 python3)." \
	"Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1

.PHONY: help demo test test-all test-nightly lint dist docs generate format \
	base image try-image secrets freeze clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.installed ## Install Peewit and run the whole path on real digits
	$(BIN)/peewit demo $(ARGS)

# a worker more than processors, as tests wait for servers and files two fifths of their time
test: $(VENV)/.installed-dev ## Run the quick tests, in minutes; ARGS="tests/..." runs all of a file
	$(BIN)/python -m pytest --quick -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal $(ARGS)

# three workers on two cores, as end-to-end tests wait half of their time; those come first
test-all: $(VENV)/.installed-dev ## Run every test but the sweeps, in some twenty minutes
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-nightly: $(VENV)/.installed-dev ## Run every test and every sweep, before a release
	$(BIN)/python -m pytest --nightly -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/.installed-dev ## Check style, types, import contracts, the images and the pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml
	$(SPHINX) -E --fail-on-warning --keep-going docs build/docs

dist: $(VENV)/.installed-dev ## Build and check sdist and wheel, try the wheel on each Python here
	$(BIN)/python -m tests.end_to_end.dist $(PYTHONS)

generate: $(VENV)/.installed-dev ## Write the client's calls, the recorded texts and the version anew
	$(BIN)/python -m tests.goldens.generate
	PEEWIT_RECORD_GOLDENS=1 $(BIN)/python -m pytest -q tests/goldens

docs: $(VENV)/.installed-docs ## Build the pages for readers
	$(SPHINX) docs build/docs
	@echo "open build/docs/index.html"

format: $(VENV)/.installed-dev ## Let ruff format the code and mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

base: ## Make a base of the image from Debian, where no registry is reached; needs root and mmdebstrap
	mmdebstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm - | \
	( set -e; container=$$($(BUILDAH) from scratch); trap '$(BUILDAH) rm "$$container" >&2' EXIT; \
	mkdir -p build; cat > build/base.tar; $(BUILDAH) add --quiet "$$container" build/base.tar /; \
	$(BUILDAH) config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$$container"; \
	$(BUILDAH) commit --quiet "$$container" localhost/peewit-base )
	rm build/base.tar

# the bill of materials is written while the image is built, and stands beside the wheel afterwards
image: ## Build the image from the wheel of `make dist`, with docker or, where no engine runs, buildah
	@test -f $(WHEEL) || { echo "make image needs $(WHEEL): run make dist" >&2; exit 1; }
	@if docker info >/dev/null 2>&1; then \
		set -ex; docker build $(BUILD); \
		docker run --rm --entrypoint cat $(IMAGE) /opt/peewit/bill.cdx.json > $(BILL); \
	elif command -v $(firstword $(BUILDAH)) >/dev/null; then \
		set -ex; $(BUILDAH) bud --isolation chroot --format docker --pull=false $(BUILD); \
		container=$$($(BUILDAH) from --pull=never $(IMAGE)); \
		$(BUILDAH) run --isolation chroot "$$container" cat /opt/peewit/bill.cdx.json > $(BILL); \
		$(BUILDAH) rm "$$container"; \
	else \
		echo "make image needs a running docker engine, or buildah; found neither" >&2; exit 1; \
	fi

try-image: $(VENV)/.installed-dev ## Run each role from the image that buildah keeps, by chroot; needs root
	PEEWIT_TEST_IMAGE="$(IMAGE)" PEEWIT_TEST_BUILDAH="$(BUILDAH)" $(BIN)/python -m pytest \
		tests/end_to_end/test_image.py tests/end_to_end/test_compose.py $(ARGS)

secrets: ## Make the two secret files of docker/compose.yaml, unless they are there
	@mkdir -p -m 0700 docker/secrets
	@for name in postgres_password admin_key; do \
		test -s docker/secrets/$$name || { \
			key=$$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n'); \
			test $$name = admin_key && key="admin.$$key"; \
			printf '%s\n' "$$key" > docker/secrets/$$name; \
			chmod 0444 docker/secrets/$$name; echo "made docker/secrets/$$name"; }; \
	done

freeze: ## Renew constraints.txt from a clean install of the newest releases
	@python=$$($(FIND_PYTHON)) && clean=$$(mktemp -d) && trap 'rm -rf "$$clean"' EXIT && \
	"$$python" -m venv "$$clean" && "$$clean/bin/pip" install --quiet '.[dev,bench,s3,gs,az]' && \
	"$$clean/bin/pip" freeze | grep -v '^peewit ' | sort -f > "$$clean/frozen" && \
	{ grep '^#' constraints.txt; cat "$$clean/frozen"; } > "$$clean/constraints.txt" && \
	cp "$$clean/constraints.txt" constraints.txt

clean: ## Remove the virtual environment, builds and caches; data directories stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find service streaming solvers tests docs -name __pycache__ -prune -exec rm -rf {} +

# today's pip takes half the time of the one that Python 3.11 brings
$(BIN)/pip:
	@python=$$($(FIND_PYTHON)) && echo "making $(VENV) with $$python" && \
	{ "$$python" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; }
	@$(INSTALL) --upgrade pip || echo "going on with the pip that came with Python"

# a demo loads a quarter of the modules: Python compiles each when it first loads it
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing Peewit into $(VENV), about a minute the first time"
	@$(INSTALL) --no-compile -e .
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing Peewit and what builds its pages into $(VENV), about a minute the first time"
	@$(INSTALL) -e '.[docs]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing Peewit and its development tools into $(VENV), about a minute the first time"
	@$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.installed $(VENV)/.installed-docs $@

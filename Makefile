# Everything there is to know: demo, setup, check, test, test-whole, accept, bench, dist, hosts, mutants, docs, results-status.
.PHONY: demo setup check test test-whole rust-tests accept bench dist hosts mutants docs results-status
SHELL := /bin/sh
VENV := .venv/bin
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Where it is set every start of an interpreter compiles what it imports anew, which is half of what a start takes.
unexport PYTHONDONTWRITEBYTECODE
# As scripts/setup.sh built it. Read by the shell: make expands a recipe before its first line, which may make the file.
FEATURES = $$(sed -n 's|^features=\(.\)|--features contend-probe/\1|p' .venv/contend-setup.stamp)
# Which crates are built in one go: those that ask for the same of the dependencies they share, as scripts/setup.sh builds
# them. In one command with the other half libc, and all that is built on it, would be built again with what both ask of it.
MODULE = --package contend-core
PROGRAMS = --package contend-probe --package contend-fetch --package contend-amqp --package contend-rpc $(FEATURES)
# The profile of the set-up, for it has built all that they need already.
TESTS = cargo --config .cargo/tests.toml test --release --quiet
PYTEST = $(VENV)/pytest -q -n 3 --dist loadscope --no-loadscope-reorder
CLIPPY = cargo clippy --release --all-targets --quiet

## demo: who are my neighbours, and what do they cost me? On this machine, in about three minutes
demo:
	@scripts/packages.sh demo
	@scripts/setup.sh demo
	@$(VENV)/contend run noisy-neighbour --skip-missing

## setup: a virtual environment in .venv with contend built in it
setup:
	@scripts/packages.sh setup
	@scripts/setup.sh

## check: format, lint and types of both languages; changes nothing
check: setup
	$(VENV)/ruff format --check python tests bench scripts
	$(VENV)/ruff check python tests bench scripts
	$(VENV)/mypy
	$(VENV)/python scripts/words.py
	$(VENV)/lint-imports
	cargo fmt --check
	cargo fmt --check --manifest-path bench/amqp_peers/Cargo.toml
	cargo fmt --check --manifest-path python/contend/workloads/catalogue/image-download-reqwest/Cargo.toml
	$(CLIPPY) $(MODULE) --package contend-python -- -D warnings
	$(CLIPPY) $(PROGRAMS) -- -D warnings

## test: every kind of test that can run here, those that take long by sample; installs what it needs
## test-whole: the same without leaving out any: about an hour
test: SAMPLE = --sampled
test test-whole:
	@scripts/timed.sh packages scripts/packages.sh test
	@scripts/kernel.sh
	@scripts/timed.sh set-up scripts/setup.sh
	@scripts/timed.sh check $(MAKE) --no-print-directory check
	@scripts/timed.sh 'cargo test' $(MAKE) --no-print-directory rust-tests
	$(PYTEST) $(SAMPLE)

rust-tests:
	$(TESTS) $(MODULE)
	$(TESTS) $(PROGRAMS)

## accept: every test, then the full campaigns, by hand: hundreds of trials, dozens of kills; writes docs/results
accept:
	@scripts/packages.sh accept
	@scripts/kernel.sh
	@scripts/setup.sh
	$(PYTEST)
	$(VENV)/pytest -q -m accept --override-ini addopts='--strict-markers -ra' tests/accept

## bench: our own cost beside the peers', in one run each
bench:
	@scripts/packages.sh bench
	@scripts/setup.sh
	@for f in start_up process_start kin orchestration sampler_cost process_sampling sched_histograms watch_cost trace_calls trace_interpreter trace_export trace_wsgi attach_stop hunt_events rpc_drivers ab_vs_hyperfine serve_pages pages amqp_peers; do \
		echo "== $$f"; $(VENV)/python bench/$$f.py || exit 1; \
	done

## dist: what a release publishes, into dist/: wheels, source archives, Debian packages, an OCI image
dist:
	@scripts/packages.sh dist
	@rm -rf dist
	@scripts/dist.sh
	@scripts/deb.sh bookworm
	@scripts/deb.sh trixie
	@scripts/image.sh
	@cd dist && sha256sum -- * >../target/dist/sums && mv ../target/dist/sums SHA256SUMS
	@ls -l dist | awk 'NF > 8 { printf "%8.2f MB  %s\n", $$5 / 1e6, $$9 }'

## hosts: contend from dist/ on hosts like the users' own, emulated; by hand, for two hours
hosts:
	@testbed/hosts/run -o target/hosts all

## mutants: which small faults in the code do the tests notice? By hand, for hours; writes docs/results/mutants-*.json and mutants.md
mutants:
	@scripts/setup.sh
	@# The pip of Debian 12 knows no --group.
	@$(VENV)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["mutants"], sep="\n")' | \
		xargs -d '\n' $(VENV)/python -m pip install --quiet
	@for target in stats advice plan-ledger rust; do \
		echo "== $$target"; $(VENV)/python scripts/mutants.py $$target --sample 300 --seed 20261124 || exit 1; \
	done

## results-status: which results are out of date, and why
results-status:
	@$(VENV)/python scripts/results.py status

## docs: reference pages and schemas, generated from the code, and the site in target/site
docs: setup
	$(VENV)/python scripts/reference.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet --strict

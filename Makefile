# The verbs of the project; `make` lists them. Continuous integration calls `make test`.
# A line that begins with `## ` is a heading of the list, the text after `## ` a verb's line in it.

BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))/release
LARDERD := $(BUILT)/larderd
LARDER := $(BUILT)/larder
# Suites of clients, those of every change. .ci/verify.mk has the others.
SUITES := memccapable libmemcached pymemcache python_memcached gomemcache trace
MEMCACHED_SUITE := conformance/memcached/suite.py
# The newest memcached, which benches compare with. `rm -r target/memcached-new` has it built anew.
MEMCACHED := $(abspath $(or $(CARGO_TARGET_DIR),target))/memcached-new/memcached
MIRI_SEEDS ?= 2
MINUTES ?= 1

include .ci/verify.mk .ci/bench.mk

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(MAKEFILE_LIST))

# Lists the verbs of a file. Those of the measurements are values of NAME.
LIST = @awk -F ':.*\#\# ' '/^\#\# / { print "\n" substr($$0, 4) } \
	/^[a-z-]+:.*\#\# / { sub(/^bench-/, ""); printf "  %-16s %s\n", $$1, $$2 }'

help:
	$(LIST) Makefile

## Every day
setup: ## Installs what the tests need, as root; otherwise prints the command that does
	conformance/install.sh

run: build ## Starts larderd on 127.0.0.1:11211, its admin listener on port 11212
	$(LARDERD) -l 127.0.0.1 -u "$$(id -un)" --admin-listen 127.0.0.1:11212

build: ## Builds larderd and larder into target/release
	cargo build --release --locked -p larder-server -p larder-cli

check: ## Checks format, clippy and the tests of what changed since main: 60 s with a warm cache
	@.ci/check

# In CI no file of the checkout may change, or appear: it would be committed by accident one day.
IF_CI_UNCHANGED := $(if $(filter true,$(CI)),.ci/unchanged)
test: ## Runs everything that CI needs: 35 min after `make setup`, from a cold cache on two cores
	@$(IF_CI_UNCHANGED) .ci/stages setup lint+build unit+miri c,clients,go+php,readme,models

verify: $(if $(filter list,$(ONLY)),list-proofs,run-proofs) ## Runs the long proofs, about 4 h; ONLY="crash storm" runs these, ONLY=list lists them

bench: $(if $(NAME),$(NAME:%=bench-%),list-benches) ## Makes tables of docs/benchmarks.md: NAME="engine scale"; without NAME it lists the names

## Stages of `make test`
# A check of the fuzz targets links nothing: it does not need the C++ library of libFuzzer.
lint: ## Checks format, clippy with warnings denied, documentation, licenses and packages
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p larder-engine --all-targets --features interleavings --locked -- -D warnings
	CUSTOM_LIBFUZZER_PATH=/dev/null cargo check --locked --manifest-path fuzz/Cargo.toml \
		--target-dir $(dir $(BUILT))
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	cargo deny --log-level error --locked check licenses bans sources
	.ci/packages/check

# LARDERD makes the tests use the release binary. The server's tests run with either I/O loop.
unit: build ## Runs the tests of all crates, the server's with either I/O loop
	LARDERD=$(LARDERD) .ci/unit

models: ## Runs the engine in many orders of its threads, under shuttle
	cargo test -p larder-region -p larder-engine --features larder-engine/interleavings --locked \
		--lib -- turns interleavings

# Under Miri loads may return any value that the memory orderings allow. Some nightlies lack Miri.
# `make test` runs it beside `unit`: nice leaves the processors to tests that judge times.
miri: ## Runs a part of the models under Miri, which checks the memory orderings
	@if ! cargo +nightly miri --version >/dev/null 2>&1; then \
		.ci/skip miri "not installed: rustup component add miri rust-src --toolchain nightly"; \
	else set -ex; nice -n 19 cargo +nightly miri test -p larder-region --locked; \
		MIRIFLAGS="-Zmiri-preemption-rate=0.1 -Zmiri-many-seeds=0..$(MIRI_SEEDS)" \
			nice -n 19 cargo +nightly miri test -p larder-engine --locked --lib -- items::ordering \
			items::reading items::writing::of_two; \
	fi

clients: build ## Runs the quick client suites and the quick part of memcached's own suite
	set -e; for suite in $(SUITES); do \
		LARDERD=$(LARDERD) LARDER=$(LARDER) conformance/clients/$$suite.sh; done
	LARDERD=$(LARDERD) $(MEMCACHED_SUITE) --quick

# cargo builds the library from what `build` has built, if it is to build the same packages.
c go php readme: export BUILT_PACKAGES := larder-server larder-cli larder-capi

c: build ## Installs the library for C and builds a program with it
	c/tests/install.sh

go: build ## Tests the Go packages
	$(MAKE) --no-print-directory -C go test

php: build ## Tests the extensions for PHP, with Debian's PHP and with APCu's own suite
	$(MAKE) --no-print-directory -C php test

readme: build ## Pastes the commands of README.md and of the quick pages of docs/ in an empty home
	.ci/book/test_book.py
	.ci/pages --quick

## By hand
dist: release portable ## Builds what a release consists of into target/dist: docs/releases.md
	packaging/dist.sh

dist-go: ## Writes the Go modules and their archives as a proxy into target/dist/go
	rm -rf target/dist/go
	go/dist.sh target/dist/go

# What packages hold, besides the tools that build them.
release: build pages
	packaging/tools.sh
	cargo build --release --locked -p larder-capi

# Man pages, completions and the package's configuration file.
pages:
	rm -rf target/pages
	LARDER_PAGES=$(CURDIR)/target/pages cargo test --locked -p larder-cli --bin larder pages

fuzz: ## Fuzzes TARGET until it finds something
	fuzz/run.sh $(TARGET)

docs: ## Writes the documents that are generated from tables
	LARDER_BLESS=1 cargo test -p larder-protocol -p larder-stats -p larder-options docs
	$(MEMCACHED_SUITE) --docs

MDBOOK_VERSION := 0.5.4
book: ## Writes the book of docs/ to target/book; installs mdbook if it is missing
	@[ "$$(mdbook --version 2>/dev/null)" = "mdbook v$(MDBOOK_VERSION)" ] || \
		CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug mdbook --version $(MDBOOK_VERSION) --locked \
			--no-default-features --features search
	mdbook build docs

header: ## Writes c/include/larder.h from crates/capi
	LARDER_BLESS=1 cargo test -p larder-capi --locked --test it header::

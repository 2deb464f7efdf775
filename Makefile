# The verbs of the project; `make` lists them. Continuous integration calls `make test`.
# A line that begins with `## ` is a heading of the list, the text after `## ` a verb's line in it.

BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))/release
LARDERD := $(BUILT)/larderd
LARDER := $(BUILT)/larder
# The client suites that run for every change. .ci/verify.mk has the others.
SUITES := memccapable libmemcached pymemcache python_memcached gomemcache users discovery trace
MEMCACHED_SUITE := conformance/memcached/suite.py
# The newest memcached, for comparison in the benches. `rm -r target/memcached-new` forces a new
# build.
MEMCACHED := $(abspath $(or $(CARGO_TARGET_DIR),target))/memcached-new/memcached
MIRI_SEEDS ?= 1
MINUTES ?= 1

# The extension module for Python uses only the stable interface of Python (abi3). So PyO3 needs no
# Python, and cargo's results do not depend on the installed one.
export PYO3_NO_PYTHON := 1
export PYO3_BUILD_EXTENSION_MODULE := 1

include .ci/verify.mk .ci/bench.mk

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(MAKEFILE_LIST))

# Lists the verbs of a file. The names of measurements are values of NAME.
LIST = @awk -F ':.*\#\# ' '/^\#\# / { print "\n" substr($$0, 4) } \
	/^[a-z-]+:.*\#\# / { sub(/^bench-/, ""); printf "  %-16s %s\n", $$1, $$2 }'

help:
	$(LIST) Makefile

## Every day
setup: ## Installs the dependencies of the tests; without root it prints the command
	conformance/install.sh

run: build ## Starts larderd on 127.0.0.1:11211, its admin listener on port 11212
	$(LARDERD) -l 127.0.0.1 -u "$$(id -un)" --admin-listen 127.0.0.1:11212

build: ## Builds larderd and larder into target/release
	cargo build --release --locked -p larder-server -p larder-cli

check: ## Checks format, clippy and tests of everything changed since main: 60 s with a warm cache
	@.ci/check

# In CI the run fails if a file of the checkout changes or appears: such a file could be committed
# by accident.
IF_CI_UNCHANGED := $(if $(filter true,$(CI)),.ci/unchanged)
test: ## Runs everything that CI needs: 46 min after `make setup`, with a cold cache on two cores
	@$(IF_CI_UNCHANGED) .ci/stages setup lint+build unit c,clients,go,models+php,python,node,readme

verify: $(if $(filter list,$(ONLY)),list-proofs,run-proofs) ## Runs the long proofs, about 4 h; ONLY="crash storm" runs these, ONLY=list lists them

bench: $(if $(NAME),$(NAME:%=bench-%),list-benches) ## Makes tables of docs/benchmarks.md: NAME="engine scale"; without NAME lists the names

## Stages of `make test`
# Tests of the library have all its features, so a separate check has none. Checking the fuzz
# targets links nothing, so it does not need libFuzzer's C++ library.
lint: ## Checks format, clippy with warnings denied, documentation, licenses and packages
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p larder-engine -p larder --all-targets --locked \
		--features larder-engine/interleavings,larder/interleavings -- -D warnings
	cargo clippy -p larder --lib --locked -- -D warnings
	CUSTOM_LIBFUZZER_PATH=/dev/null cargo check --locked --manifest-path fuzz/Cargo.toml \
		--target-dir $(dir $(BUILT))
	packaging/platforms.sh check
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc -p larder --no-deps --locked --quiet \
		--features serde,tokio,tracing,metrics
	cargo deny --log-level error --locked check licenses bans sources
	.ci/packages/check
	packaging/publish/tests/test_names.py

# LARDERD makes the tests use the release binary. The server's tests run with each of the two I/O
# loops.
unit: build ## Runs the tests of all crates, the server's with both I/O loops
	LARDERD=$(LARDERD) .ci/unit

models: ## Runs the engine and the near cache in many orders of their threads, under shuttle
	cargo test -p larder-region -p larder-engine -p larder --locked --lib \
		--features larder-engine/interleavings,larder/interleavings -- turns interleavings

# Under Miri loads may return any value that the memory orderings allow. Some nightlies lack Miri.
# One seed takes up to 18 minutes, so only `make verify` runs it.
miri: ## Runs a part of the models under Miri, which checks the memory orderings
	@if ! cargo +nightly miri --version >/dev/null 2>&1; then \
		.ci/skip miri "not installed: rustup component add miri rust-src --toolchain nightly"; \
	else set -ex; cargo +nightly miri test -p larder-region --locked; \
		MIRIFLAGS="-Zmiri-preemption-rate=0.1 -Zmiri-many-seeds=0..$(MIRI_SEEDS)" \
			cargo +nightly miri test -p larder-engine --locked --lib -- items::ordering \
			items::reading items::writing::of_two; \
	fi

clients: build ## Runs the quick client suites and the quick part of memcached's own suite
	set -e; for suite in $(SUITES); do \
		LARDERD=$(LARDERD) LARDER=$(LARDER) conformance/clients/$$suite.sh; done
	LARDERD=$(LARDERD) $(MEMCACHED_SUITE) --quick

# With the same packages, cargo reuses the results of `build` for the library.
c go php python node readme: export BUILT_PACKAGES := larder-server larder-cli larder-capi

c: build ## Installs the library for C and builds a program with it
	c/tests/install.sh

go: build ## Tests the Go packages
	$(MAKE) --no-print-directory -C go test

php: build ## Tests the PHP extensions with Debian's PHP, also with APCu's own suite
	$(MAKE) --no-print-directory -C php test

python: build ## Tests the Python package, its types and its format, with Debian's Python
	$(MAKE) --no-print-directory -C python test

node: build ## Tests the Node package and its types
	$(MAKE) --no-print-directory -C node test

readme: build ## Runs the commands of README.md and of the quick pages of docs/ in an empty home
	.ci/book/test_book.py
	.ci/pages --quick

## By hand
dist: release portable ## Builds all files of a release into target/dist: docs/releases.md
	packaging/dist.sh

dist-go: ## Writes the Go modules and their archives as a module proxy to target/dist/go
	rm -rf target/dist/go
	go/dist.sh target/dist/go

dist-python: ## Builds the wheels and the source distribution for Python into target/dist/python
	rm -rf target/dist/python
	python/dist.sh target/dist/python

dist-node: ## Builds the packages for npm into target/dist/node
	rm -rf target/dist/node
	node/dist.sh target/dist/node

# The contents of the packages, and the tools that build packages.
release: build pages
	packaging/tools.sh
	cargo build --release --locked -p larder-capi

# Man pages, completions and the package's configuration file.
pages:
	rm -rf target/pages
	LARDER_PAGES=$(CURDIR)/target/pages cargo test --locked -p larder-cli --bin larder pages

publish: ## Publishes the built files of a release; DRY=1 only shows and checks them: docs/releases.md
	packaging/publish/publish.py $(if $(filter-out 0,$(DRY)),--dry)

names: ## Writes the names that packaging/owner.toml has chosen into all files
	packaging/publish/names.py

fuzz: ## Fuzzes TARGET until it finds something
	fuzz/run.sh $(TARGET)

docs: ## Writes the documents that are generated from tables in the code
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

# The verbs; continuous integration calls the same ones.

BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))/release
LARDERD := $(BUILT)/larderd
SUITES := memccapable libmemcached pymemcache gomemcache trace
FUZZ_TARGETS := text_session engine_operations
FUZZ_SMOKE_SECS := 30

.PHONY: run build test lint unit clients fuzz fuzz-smoke bench docs install

# Starts larderd on 127.0.0.1:11211.
run: build
	$(LARDERD) -l 127.0.0.1 -u "$$(id -un)"

build:
	cargo build --release --locked -p larder-server -p larder-cli

# Everything that has to hold.
test: install lint unit clients fuzz-smoke

# What the tests need besides Rust, a C compiler and make.
install:
	conformance/install.sh

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	cargo deny --log-level error --locked check licenses bans sources

# Tests of the crates, and the transcripts of conformance/wire on the release binary and on memcached.
unit: build
	LARDERD=$(LARDERD) cargo test --workspace --locked

# Client libraries and their own suites against the release binary.
clients: build
	set -e; for suite in $(SUITES); do \
		LARDERD=$(LARDERD) LARDER=$(BUILT)/larder conformance/clients/$$suite.sh; done

# `make fuzz TARGET=text_session` until something is found.
fuzz:
	fuzz/run.sh $(TARGET)

fuzz-smoke:
	set -e; for target in $(FUZZ_TARGETS); do fuzz/run.sh $$target -max_total_time=$(FUZZ_SMOKE_SECS); done

bench:
	cargo bench -p larder-bench

# Writes the documents that come from tables.
docs:
	LARDER_BLESS=1 cargo test -p larder-protocol -p larder-stats -p larder-options docs

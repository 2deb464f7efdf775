# The verbs; continuous integration calls the same ones.

BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))/release
LARDERD := $(BUILT)/larderd
# Suites of clients: those of every change, and those that take minutes or many packages.
SUITES := memccapable libmemcached pymemcache python_memcached gomemcache trace
LONG_SUITES := pylibmc bmemcached dogpile django node_memcached memjs php_memcached dalli spymemcached \
	libmemcached_tests nutcracker
MEMCACHED_SUITE := conformance/memcached/suite.py
FUZZ_TARGETS := text_session binary_session dialects_agree datagrams engine_operations
FUZZ_SMOKE_SECS := 20
MIRI_SEEDS := 8

MINUTES := 1
STORM_SECS := 600

.PHONY: run build test lint unit models miri miri-seeds arm sanitize clients conformance fuzz fuzz-smoke crash storm bench dialects local capacity traces soak ttl restart readers endurance docs install bindings header

# Starts larderd on 127.0.0.1:11211.
run: build
	$(LARDERD) -l 127.0.0.1 -u "$$(id -un)"

build:
	cargo build --release --locked -p larder-server -p larder-cli

# Everything that has to hold.
test: install lint unit models miri clients bindings fuzz-smoke

# What the tests need besides Rust, a C compiler and make.
install:
	conformance/install.sh

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy -p larder-engine --all-targets --features interleavings --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	cargo deny --log-level error --locked check licenses bans sources

# Tests of the crates, and the transcripts of conformance/wire on the release binary and on memcached; the server's with
# either of its loops, if the kernel allows io_uring.
unit: build
	LARDERD=$(LARDERD) cargo test --workspace --locked
	LARDERD=$(LARDERD) LARDER_IO=epoll cargo test -p larder-server --locked --tests

# The engine in many orders of its threads. `LARDER_INTERLEAVINGS=10 make models` looks ten times as long, and further.
models:
	cargo test -p larder-region -p larder-engine --features larder-engine/interleavings --locked --lib -- turns interleavings

# A part of the same under Miri, where loads may see what the memory orderings allow. Not every nightly toolchain has Miri.
miri:
	@if cargo +nightly miri --version >/dev/null 2>&1; then $(MAKE) --no-print-directory miri-seeds; \
		else echo "make miri: skipped, for there is no Miri: rustup component add miri rust-src --toolchain nightly"; fi

miri-seeds:
	cargo +nightly miri test -p larder-region --locked
	MIRIFLAGS="-Zmiri-preemption-rate=0.1 -Zmiri-many-seeds=0..$(MIRI_SEEDS)" \
		cargo +nightly miri test -p larder-engine --locked --lib -- items::ordering items::reading items::writing::of_two

# Copies of bytes on a processor without those of x86-64, under qemu-user. Needs `rustup target add` for it, qemu-user and
# gcc-aarch64-linux-gnu.
arm:
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
		cargo test --target aarch64-unknown-linux-gnu -p larder-region --locked --lib

# The code that shares memory with the kernel, under AddressSanitizer, some minutes. Needs a nightly toolchain.
sanitize:
	RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitize cargo +nightly test --locked \
		--target $$(rustc -vV | sed -n 's/^host: //p') -p larder-server --lib -- ring:: worker::

# A process is killed after every instruction of every operation, and what it leaves is judged: hours. `make crash
# OPERATION=split` takes a part, `make crash JUDGED=1000` judges about so many of each operation. `make test` plays a sample.
crash: JUDGED ?= all
crash:
	LARDER_KILLED=$(JUDGED) cargo test -p larder --locked --test killed -- $(OPERATION)

# Processes on one cache that are killed, stopped and continued at random, ten minutes.
storm:
	LARDER_STORM_SECS=$(STORM_SECS) cargo test -p larder --locked --test storm -- --nocapture

# Client libraries and their own suites against the release binary, and the quick part of memcached's own.
clients: build
	set -e; for suite in $(SUITES); do \
		LARDERD=$(LARDERD) LARDER=$(BUILT)/larder conformance/clients/$$suite.sh; done
	LARDERD=$(LARDERD) $(MEMCACHED_SUITE) --quick

# The libraries for other languages, from where their users stand.
bindings: build
	bindings/c/tests/install.sh
	$(MAKE) --no-print-directory -C bindings/go test

# bindings/c/include/larder.h, from what crates/capi has.
header:
	LARDER_BLESS=1 cargo test -p larder-capi --locked --test header

# All that proves compatibility, about twenty minutes: memcached's whole suite, and every client. One that fails does
# not keep the others from running. `make conformance LONG_SUITES=dalli` plays fewer.
conformance: build
	conformance/install.sh all
	@failed=; for suite in $(SUITES) $(LONG_SUITES); do echo "== $$suite"; \
		LARDERD=$(LARDERD) LARDER=$(BUILT)/larder LARDER_TRACE_NAMES="web07 orm-busy-2M synth-kv-write" \
			conformance/clients/$$suite.sh || failed="$$failed $$suite"; done; \
	LARDERD=$(LARDERD) $(MEMCACHED_SUITE) || failed="$$failed memcached"; \
	if [ -n "$$failed" ]; then echo "conformance: failed:$$failed"; exit 1; fi

# `make fuzz TARGET=text_session` until something is found.
fuzz:
	fuzz/run.sh $(TARGET)

fuzz-smoke:
	set -e; for target in $(FUZZ_TARGETS); do fuzz/run.sh $$target -max_total_time=$(FUZZ_SMOKE_SECS); done

# Gets and sets beside other caches of a process, two to four minutes.
bench:
	cargo bench -p larder-bench --bench engine

# What a get and a set cost a session in each dialect, a minute.
dialects:
	cargo bench -p larder-bench --bench dialects

# What a get costs in a server's memory, beside one through its socket, a minute.
local: build
	LARDERD=$(LARDERD) cargo bench -p larder-bench --bench local

# Items held with equal memory beside memcached, one to two minutes.
capacity: build
	LARDERD=$(LARDERD) cargo bench -p larder-bench --bench capacity

# Miss ratios on the traces of LARDER_TRACES, on the library and beside memcached, about ten minutes.
traces: build
	LARDERD=$(LARDERD) LARDER=$(BUILT)/larder cargo bench -p larder-bench --bench traces

# A cache under load: `make soak MINUTES=60`. Fails on a wrong value or too much memory.
soak:
	cargo bench -p larder-bench --bench soak -- --minutes $(MINUTES)

# How long a cache of 5 million items in a GiB takes to be there again after `kill -9` under load, a minute.
restart: build
	LARDERD=$(LARDERD) cargo test --release -p larder-server --locked --test restart -- --ignored --nocapture

# Ten thousand clients that ask for five megabytes each and read late, a minute; several GiB of socket buffers.
readers: build
	LARDERD=$(LARDERD) cargo test -p larder-server --locked --test readers -- --ignored

# A server under clients of all kinds and an upgrade every minute: `make endurance MINUTES=30`. Fails if what it or the
# kernel holds grows, or a bystander waits for more than 100 ms.
endurance: build
	LARDERD=$(LARDERD) LARDER_MINUTES=$(MINUTES) cargo test -p larder-server --locked --test endurance -- --ignored --nocapture

# Expired items that are still held, in simulated time.
ttl:
	cargo bench -p larder-bench --bench ttl

# Writes the documents that come from tables.
docs:
	LARDER_BLESS=1 cargo test -p larder-protocol -p larder-stats -p larder-options docs
	$(MEMCACHED_SUITE) --docs

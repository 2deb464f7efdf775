# The verbs of the project; `make` lists them. Continuous integration calls `make test`.
# A line that begins with `## ` is a heading of the list, the text behind `## ` a verb's line in it.

BUILT := $(abspath $(or $(CARGO_TARGET_DIR),target))/release
LARDERD := $(BUILT)/larderd
LARDER := $(BUILT)/larder
# Suites of clients: those of every change, and those that take minutes or many packages.
SUITES := memccapable libmemcached pymemcache python_memcached gomemcache trace
LONG_SUITES := pylibmc bmemcached dogpile django node_memcached memjs php_memcached dalli \
	spymemcached libmemcached_tests nutcracker page bigcache_http
MEMCACHED_SUITE := conformance/memcached/suite.py
# The newest memcached, which benches compare with. `rm -r target/memcached-new` has it built anew.
MEMCACHED := $(abspath $(or $(CARGO_TARGET_DIR),target))/memcached-new/memcached
FUZZ_SECS ?= 10
MIRI_SEEDS ?= 2
MINUTES ?= 1
STORM_SECS ?= 600

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(MAKEFILE_LIST))

help:
	@awk -F ':.*## ' '/^## / { print "\n" substr($$0, 4) } \
		/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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
	@$(IF_CI_UNCHANGED) .ci/stages setup lint+build unit+miri bindings-c,clients,bindings-go+bindings-php,readme,models

verify: ## Runs the long proofs, about 4 h; a change in their area asks for it
	@echo "make verify: about four hours on two cores. A stage that fails does not end it."
	@LARDER_INTERLEAVINGS=10 FUZZ_SECS=300 MINUTES=10 MIRI_SEEDS=32 .ci/stages -k \
		fresh-test conformance transcripts binding-suites php-versions models miri crash storm \
		sanitize fuzz-all endurance readers hot-keys scale-out deploy-test book-test package-test \
		crates-test msrv others workflows portable tier bench-restart

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
bindings-c bindings-go bindings-php readme: export BUILT_PACKAGES := larder-server larder-cli larder-capi

bindings: bindings-c bindings-go bindings-php ## Tests the libraries for C, Go and PHP as their users install them

bindings-c: build ## Installs the library for C and builds a program with it
	c/tests/install.sh

bindings-go: build ## Tests the Go packages
	$(MAKE) --no-print-directory -C go test

bindings-php: build ## Tests the extensions for PHP, with Debian's PHP and with APCu's own suite
	$(MAKE) --no-print-directory -C php test

readme: build ## Pastes the commands of README.md and of the quick pages of docs/ in an empty home
	.ci/book/test_book.py
	.ci/pages --quick

## Stages of `make verify`
# Needs root and debootstrap, and uses the Rust and Go toolchains of this machine.
fresh-test: ## Follows README.md on a bare Debian: the last commit, `make setup`, `make test`, 45 min
	.ci/fresh

# Needs root and fatrace. It watches the whole machine: leave it alone meanwhile.
packages: ## Writes .ci/packages/opened: the Debian packages whose files `make test` opens, 15 min
	.ci/packages/record lint unit clients bindings readme

# The build, with AddressSanitizer, takes five minutes: for `make test`, `lint` checks the targets.
fuzz-all: ## Fuzzes every target for FUZZ_SECS (10), as many at a time as there are processors
	fuzz/run.sh all $(FUZZ_SECS)

# A suite that fails does not keep the others from running. `make conformance LONG_SUITES=dalli`
# runs fewer.
conformance: build ## Runs all client suites and memcached's whole suite, 20 min
	conformance/install.sh all
	@failed=; for suite in $(SUITES) $(LONG_SUITES); do echo "== $$suite"; \
		LARDERD=$(LARDERD) LARDER=$(LARDER) \
			TRACE_NAMES="web07 orm-busy-2M synth-kv-write" \
			conformance/clients/$$suite.sh || failed="$$failed $$suite"; done; \
	LARDERD=$(LARDERD) $(MEMCACHED_SUITE) || failed="$$failed memcached"; \
	if [ -n "$$failed" ]; then echo "conformance: failed:$$failed"; exit 1; fi

$(MEMCACHED):
	conformance/memcached/build.sh $(@D)

transcripts: $(MEMCACHED) ## Plays the transcripts on larderd and two versions of memcached, 1 min
	MEMCACHED=$(MEMCACHED) cargo test -p larder-server --locked --test transcripts

# Tests of the wire whose options do not contradict a disk tier: they run with one, too. What of
# them, and of memcached's own suite, contradicts it is in conformance/tier.toml.
WIRE_TESTS = differential binary_differential items large_values dumps faults watch statistics \
	transcripts

binding-suites: build ## Runs what others wrote for their caches on our Go and PHP, 25 min
	conformance/install.sh all
	$(MAKE) --no-print-directory -C go suites
	$(MAKE) --no-print-directory -C php suites zts

# Needs root and debootstrap. VERSIONS="8.4 8.6" tests fewer.
php-versions: build ## Tests the extensions on PHP 8.4, 8.5 and 8.6, 4 min; at first 10 min
	$(MAKE) --no-print-directory -C php versions

SEEDS ?= 10000
# Needs root, loop devices, /dev/fuse and what conformance/install.sh all installs.
tier: build ## Runs the disk tier on simulated disks (SEEDS), on real faults, and under the wire, 40 min
	LARDER_SEEDS=$(SEEDS) cargo test --release -p larder-tier --test crashes --locked
	LARDER_SEEDS=1000 cargo test --release -p larder-tier --test store --locked
	LARDER_SEEDS=1000 cargo test --release -p larder-tier --test cache --locked
	set -e; for mode in store cache; do \
	  LARDER_TIER=$$mode cargo test --release -p larder-server --locked $(WIRE_TESTS:%=--test %); \
	done
	LARDER_MOMENTS=1 cargo test -p larder-server --test moments --locked
	cargo test --release -p larder-server --test disk_faults --locked -- --ignored --test-threads 1
	set -e; for mode in store cache; do LARDERD=$(LARDERD) LARDER=$(LARDER) \
	  conformance/tier.sh $$mode $(SUITES); done

deploy-test: build ## Tests the files of deploy/ with Prometheus and other real programs, 6 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) deploy/tests/run.sh

# `make crash JUDGED=1000` checks about 1000 of the states that each operation leaves, `make crash
# OPERATION=split` the operations with that part in their name, OPERATION="--exact split" one operation.
crash: JUDGED ?= all
crash: ## Kills a process after every instruction of every operation, 10 min
	LARDER_KILLED=$(JUDGED) cargo test -p larder --locked --test killed -- $(OPERATION)

storm: ## Kills, stops and continues processes on one cache at random for STORM_SECS (600)
	LARDER_STORM_SECS=$(STORM_SECS) cargo test -p larder --locked --test storm -- --nocapture

# Needs a nightly toolchain.
sanitize: ## Tests the code that shares memory with the kernel under AddressSanitizer
	RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitize cargo +nightly test --locked \
		--target $$(rustc -vV | sed -n 's/^host: //p') -p larder-server --lib -- ring:: worker::

# Fails if what the server or the kernel holds grows, or if a bystander waits for more than 100 ms.
endurance: build ## Loads a server with all kinds of clients and upgrades it, MINUTES (1)
	LARDERD=$(LARDERD) LARDER_MINUTES=$(MINUTES) cargo test -p larder-server --locked \
		--test endurance -- --ignored --nocapture

# Needs nutcracker and haproxy: conformance/install.sh all. SCENARIOS=one_behind_haproxy plays one.
scale-out: build ## Upgrades and kills servers behind real routers, checks every read, 1 min
	LARDERD=$(LARDERD) deploy/routers/tests/scale_out.py $(SCENARIOS)

# Needs root and debootstrap. The pages name the packages that they need, and so does README.md.
book-test: build ## Pastes all pages on a bare Debian, as root and as a user, twice; PAGES=docs/tool.md
	.ci/pages --bare $(PAGES)

readers: build ## Has 10,000 clients read 5 MB each late, 1 min; needs GiB of socket buffers
	LARDERD=$(LARDERD) cargo test -p larder-server --locked --test readers -- --ignored

hot-keys: build ## Finds the hottest keys of Zipf loads of 400,000 gets per second, 4 min
	LARDER_SEEDS=20 cargo test -p larder-server --locked --lib -- hot::collector
	LARDERD=$(LARDERD) LARDER=$(LARDER) cargo test -p larder-server --locked \
		--test hot_keys -- --ignored --nocapture

# Needs root, and the Debian packages debootstrap and lintian.
package-test: release ## Installs, upgrades under load and purges the Debian package in a chroot
	packaging/package-test.sh

crates-test: ## Packages the crates, and builds and runs a program outside of the checkout
	packaging/crates-test.sh

msrv: ## Checks the crates, the programs and the C library with the oldest Rust of Cargo.toml
	packaging/msrv.sh

# `lint` leaves them out: the caches that they compare with take a minute and a half to build.
others: ## Checks the benches that compare with other caches in Rust
	cargo clippy -p larder-bench --all-targets --features others --locked -- -D warnings

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
workflows: ## Checks the workflows of .github with actionlint, which Go downloads
	go run $(ACTIONLINT) .github/workflows/*.yml

# Needs qemu-user and the C library of the other architecture: conformance/install.sh all.
portable: ## Builds programs for glibc 2.28 on amd64 and arm64 and runs them, 7 min
	packaging/portable.sh build
	packaging/portable.sh check

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

pages: ## Writes man pages, completions and the package's configuration file to target/pages
	rm -rf target/pages
	LARDER_PAGES=$(CURDIR)/target/pages cargo test --locked -p larder-cli --bin larder pages

fuzz: ## Fuzzes TARGET until it finds something
	fuzz/run.sh $(TARGET)

# Needs `rustup target add aarch64-unknown-linux-gnu`, qemu-user and gcc-aarch64-linux-gnu.
arm: ## Tests the region's copies on aarch64 under qemu-user
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
		cargo test --target aarch64-unknown-linux-gnu -p larder-region --locked --lib

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
	LARDER_BLESS=1 cargo test -p larder-capi --locked --test header

## Measurements: the tables of docs/benchmarks.md
COMPARE = $(LARDER) bench compare --seconds 2
WORKLOADS := get:100:1,set:100:1,get:1024:1,get:10240:1,set:10240:1,get:100:16,set:100:16
SERVERS = "memcached=$(MEMCACHED) -u root -t 1 -m 1024 $(1)" \
	"uring=$(LARDERD) --io=uring -u root -t 1 -m 1024 $(1)" \
	"epoll=$(LARDERD) --io=epoll -u root -t 1 -m 1024 $(1)"
BENCH_TLS = -Z -o ssl_chain_cert=$(BUILT)/cert.pem,ssl_key=$(BUILT)/key.pem

RUNS ?= servers
bench-readme: build $(MEMCACHED) ## The figures of README.md: servers, or other RUNS of figures.py --list; 9 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) crates/bench/figures.py $(RUNS)
	LARDER_BLESS=1 cargo test -p larder-testkit --locked --test figures saved

bench-server: build $(MEMCACHED) ## Processor time per request beside memcached, unix socket and TCP, 4 min
	$(COMPARE) --rounds 2 --workloads $(WORKLOADS) $(call SERVERS,-s @SOCK)
	$(COMPARE) --rounds 2 --workloads $(WORKLOADS) $(call SERVERS,-l 127.0.0.1 -p @PORT)

# A cache that holds a third of its keys, which Zipf's law chooses.
ASIDE = $(COMPARE) --rounds 3 --keys 500000 --skew 0.9 --workloads aside:100:1 \
	"memcached=$(MEMCACHED) -u root -t 1 -m 24 $(1)" "larderd=$(LARDERD) -u root -t 1 -m 24 $(1)"
bench-aside: build $(MEMCACHED) ## A full cache beside its source, beside memcached, 1 min
	$(call ASIDE,-s @SOCK)
	$(call ASIDE,-l 127.0.0.1 -p @PORT)

bench-tls: build $(MEMCACHED) ## Processor time per request over TLS, 1 min
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj /CN=localhost -keyout $(BUILT)/key.pem -out $(BUILT)/cert.pem
	$(COMPARE) --rounds 3 --tls --workloads get:1024:1,set:1024:1 \
		$(call SERVERS,-l 127.0.0.1 -p @PORT $(BENCH_TLS))

bench-rate: build $(MEMCACHED) ## Latency at 50,000 requests per second, 1 min
	$(COMPARE) --rounds 5 --rate 50000 --workloads mix:100:1 $(call SERVERS,-s @SOCK)

bench-dialects: ## A get and a set of a session in each dialect, 1 min
	cargo bench -p larder-bench --bench dialects

OTHERS = cargo bench -p larder-bench --features others
ENGINE = $(OTHERS) --bench engine --
bench-engine: ## Gets and sets of the library beside other caches in Rust; LARDER_ROUNDS=1000, 10 min
	$(ENGINE) memory overwriting eviction sharing footprint bulk

bench-scale: ## Many threads, one hot key, many peers, many segments; LARDER_ROUNDS=1000, 5 min
	$(ENGINE) threads hotkey peers segments

bench-local: build ## A get in a server's memory beside one through its socket, 1 min
	LARDERD=$(LARDERD) cargo bench -p larder-bench --bench local

bench-restart: build ## Restart with 5 million items in 1 GiB after `kill -9` under load, 1 min
	LARDERD=$(LARDERD) cargo test --release -p larder-server --locked --test restart -- \
		--ignored --nocapture

# The disk of LARDER_TIER_DIR is measured. Needs librocksdb-dev.
TIER_DIR := $(or $(LARDER_TIER_DIR),/tmp)
ROCKSDB := $(BUILT)/rocksdb-server
PARTS ?= groups writes evictions reclaim recovery
RATE ?= 10000
$(ROCKSDB): $(wildcard crates/bench/rocksdb/*)
	crates/bench/rocksdb/build.sh $@

bench-tier: build $(ROCKSDB) ## Writes, recovery and latencies of the disk tier; PARTS="groups writes", 40 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) ROCKSDB_SERVER=$(ROCKSDB) LARDER_TIER_DIR=$(TIER_DIR) \
		cargo bench -p larder-bench --bench tier -- $(PARTS)

ON_TCP = -u root -t 1 -m $(1) -l 127.0.0.1 -p @PORT
STORE = $(LARDERD) $(call ON_TCP,$(1)) --tier-path @DIR --tier-size 4g --tier-mode store --durability
BENCH_CPU = TMPDIR=$(TIER_DIR) $(COMPARE) --rounds 3 \
	--workloads get:1024:1,set:1024:1,mix:1024:1,get:100:16
bench-tier-cpu: build $(ROCKSDB) ## Processor time with a store, without, and of RocksDB, 5 min
	$(BENCH_CPU) "none=$(LARDERD) $(call ON_TCP,1024)" "async=$(call STORE,1024) async" \
		"interval=$(call STORE,1024) interval=100" "sync=$(call STORE,1024) sync"
	$(BENCH_CPU) "rocksdb=$(ROCKSDB) $(call ON_TCP,1024) -d @DIR" \
		"none=$(LARDERD) $(call ON_TCP,1024)" "async=$(call STORE,1024) async"

BENCH_DISK = TMPDIR=$(TIER_DIR) $(LARDER) bench compare --rounds 3 --seconds 10 --keys 1000000 \
	--workloads mix:1024:1 $(1) "rocksdb=$(ROCKSDB) $(call ON_TCP,256) -d @DIR" \
	"rocksdb-direct=$(ROCKSDB) $(call ON_TCP,256) -D -d @DIR" "larderd=$(call STORE,256) interval=100"
bench-tier-disk: build $(ROCKSDB) ## Four times as many items as memory holds, then at RATE, 10 min
	$(call BENCH_DISK,)
	$(call BENCH_DISK,--rate $(RATE))

bench-tier-extstore: build $(MEMCACHED) ## A cache on disk beside memcached's extstore in equal memory, as root, 6 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) LARDER_TIER_DIR=$(TIER_DIR) \
		crates/bench/limited/extstore.py

bench-tier-slow: build ## A store on a disk that the kernel slows down, as root, 1 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) LARDER_TIER_DIR=$(TIER_DIR) \
		crates/bench/limited/slow_disk.py

bench-go: ## The Go package beside other caches in Go; FLAGS="-gogc 400", FLAGS=--help, 5 min
	cd go/bench && go run ./compare $(FLAGS)

bench-go-limits: ## Memory per item, collections and threads of the Go package, 2 min
	cd go/bench && go run ./limits $(FLAGS)

bench-go-servers: build $(MEMCACHED) ## Package larder/server beside TQMemory and memcached, 3 min
	LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) go/bench/servers.sh

bench-go-traces: build ## Hit ratios of the pure-Go engine on the traces beside the Rust engine's, 1 min
	cd go/bench && LARDER=$(LARDER) go run ./traces

PHP_ROUNDS ?= 3
bench-php: $(MEMCACHED) ## APCu, Yac, memcached and our module for PHP, PHP_ROUNDS=3 of 2 min
	php/bench/extensions.sh target/php/debian
	$(MAKE) --no-print-directory -C php
	MEMCACHED=$(MEMCACHED) php -n php/bench/run.php --rounds $(PHP_ROUNDS) --ours target/php/larder_apcu.so $(FLAGS)

bench-capacity: build $(MEMCACHED) ## Items held in equal memory beside memcached, 1 to 2 min
	LARDERD=$(LARDERD) MEMCACHED=$(MEMCACHED) cargo bench -p larder-bench --bench capacity

bench-traces: build $(MEMCACHED) ## Miss ratios on the traces of LARDER_TRACES; ONLY="library web07", 5 to 15 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) $(OTHERS) --bench traces -- $(ONLY)

bench-soak: ## A cache under load for MINUTES (1); fails on a wrong value or too much memory
	cargo bench -p larder-bench --bench soak -- --minutes $(MINUTES)

bench-ttl: ## Expired items that are still held, in simulated time
	cargo bench -p larder-bench --bench ttl

# The measurements: the tables of docs/benchmarks.md. `make bench NAME=engine` runs one of them.

list-benches:
	$(LIST) .ci/bench.mk
	@echo
	@echo 'make bench NAME=engine runs one of them.'

## Measurements: the tables of docs/benchmarks.md
COMPARE = $(LARDER) bench compare --seconds 2
WORKLOADS := get:100:1,set:100:1,get:1024:1,get:10240:1,set:10240:1,get:100:16,set:100:16
SERVERS = "memcached=$(MEMCACHED) -u root -t 1 -m 1024 $(1)" \
	"uring=$(LARDERD) --io=uring -u root -t 1 -m 1024 $(1)" \
	"epoll=$(LARDERD) --io=epoll -u root -t 1 -m 1024 $(1)"
BENCH_TLS = -Z -o ssl_chain_cert=$(BUILT)/cert.pem,ssl_key=$(BUILT)/key.pem

RUNS ?= servers
bench-readme: build $(MEMCACHED) ## Makes the figures of README.md: servers, or other RUNS of figures.py --list; 9 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) crates/bench/figures.py $(RUNS)
	LARDER_BLESS=1 cargo test -p larder-testkit --locked --test it figures::

bench-server: build $(MEMCACHED) ## Processor time per request compared with memcached, unix socket and TCP, 4 min
	$(COMPARE) --rounds 2 --workloads $(WORKLOADS) $(call SERVERS,-s @SOCK)
	$(COMPARE) --rounds 2 --workloads $(WORKLOADS) $(call SERVERS,-l 127.0.0.1 -p @PORT)

# A cache that holds a third of the keys, with requests by Zipf's law.
ASIDE = $(COMPARE) --rounds 3 --keys 500000 --skew 0.9 --workloads aside:100:1 \
	"memcached=$(MEMCACHED) -u root -t 1 -m 24 $(1)" "larderd=$(LARDERD) -u root -t 1 -m 24 $(1)"
bench-aside: build $(MEMCACHED) ## A full cache in front of a source, compared with memcached, 1 min
	$(call ASIDE,-s @SOCK)
	$(call ASIDE,-l 127.0.0.1 -p @PORT)

bench-tls: build $(MEMCACHED) ## Processor time per request over TLS, 1 min
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
		-subj /CN=localhost -keyout $(BUILT)/key.pem -out $(BUILT)/cert.pem
	$(COMPARE) --rounds 3 --tls --workloads get:1024:1,set:1024:1 \
		$(call SERVERS,-l 127.0.0.1 -p @PORT $(BENCH_TLS))

bench-rate: build $(MEMCACHED) ## Latency at 50,000 requests per second, 1 min
	$(COMPARE) --rounds 5 --rate 50000 --workloads mix:100:1 $(call SERVERS,-s @SOCK)

# BEFORE names an older larderd to compare with. Needs valgrind.
bench-instructions: build ## Instructions of a request: plain, of users, over TLS; BEFORE=LARDERD, 5 min
	LARDERD=$(LARDERD) BEFORE=$(BEFORE) crates/bench/instructions/count.py

bench-dialects: ## Gets and sets of a session in each dialect, 1 min
	cargo bench -p larder-bench --bench dialects

OTHERS = cargo bench -p larder-bench --features others
ENGINE = $(OTHERS) --bench engine --
bench-engine: ## Gets and sets of the library and of other caches in Rust; LARDER_ROUNDS=1000, 10 min
	$(ENGINE) memory overwriting eviction sharing footprint bulk

bench-scale: ## Many threads, one hot key, many peers, many segments; LARDER_ROUNDS=1000, 5 min
	$(ENGINE) threads hotkey peers segments

bench-cores: build $(MEMCACHED) ## Server, engine, Go and PHP on 1 to 16 processors, and a picture, 8 min
	MEMCACHED=$(MEMCACHED) crates/bench/cores/build.sh
	crates/bench/cores/measure.py
	crates/bench/cores/draw.py

bench-local: build ## A get in a server's memory and one through its socket, 1 min
	LARDERD=$(LARDERD) cargo bench -p larder-bench --bench local

bench-near-cluster: build ## Simulates 1 to 64 near caches, and draws their hit ratios, 22 min
	crates/bench/near/cluster.py $(LARDER)

bench-restart: build ## Restart with 5 million items in 1 GiB after `kill -9` under load, 1 min
	LARDERD=$(LARDERD) cargo test --release -p larder-server --locked --test it -- \
		restart:: --ignored --nocapture

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
bench-tier-cpu: build $(ROCKSDB) ## Processor time with a store, without one, and of RocksDB, 5 min
	$(BENCH_CPU) "none=$(LARDERD) $(call ON_TCP,1024)" "async=$(call STORE,1024) async" \
		"interval=$(call STORE,1024) interval=100" "sync=$(call STORE,1024) sync"
	$(BENCH_CPU) "rocksdb=$(ROCKSDB) $(call ON_TCP,1024) -d @DIR" \
		"none=$(LARDERD) $(call ON_TCP,1024)" "async=$(call STORE,1024) async"

BENCH_DISK = TMPDIR=$(TIER_DIR) $(LARDER) bench compare --rounds 3 --seconds 10 --keys 1000000 \
	--workloads mix:1024:1 $(1) "rocksdb=$(ROCKSDB) $(call ON_TCP,256) -d @DIR" \
	"rocksdb-direct=$(ROCKSDB) $(call ON_TCP,256) -D -d @DIR" "larderd=$(call STORE,256) interval=100"
bench-tier-disk: build $(ROCKSDB) ## Four times as many items as fit into memory, then the same at RATE, 10 min
	$(call BENCH_DISK,)
	$(call BENCH_DISK,--rate $(RATE))

bench-tier-extstore: build $(MEMCACHED) ## A cache on disk and memcached's extstore in equal memory, as root, 6 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) LARDER_TIER_DIR=$(TIER_DIR) \
		crates/bench/limited/extstore.py

bench-tier-slow: build ## A store on a disk that the kernel slows down, as root, 1 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) LARDER_TIER_DIR=$(TIER_DIR) \
		crates/bench/limited/slow_disk.py

bench-go: ## The Go package and other caches in Go; FLAGS="-gogc 400", FLAGS=--help, 5 min
	cd go/bench && go run ./compare $(FLAGS)

bench-go-limits: ## Memory per item, collections and threads of the Go package, 2 min
	cd go/bench && go run ./limits $(FLAGS)

bench-go-servers: build $(MEMCACHED) ## Package larder/server, TQMemory and memcached, 3 min
	LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) go/bench/servers.sh

bench-go-traces: build ## Hit ratios of the pure-Go engine and the Rust engine on the traces, 1 min
	cd go/bench && LARDER=$(LARDER) go run ./traces

PHP_ROUNDS ?= 3
bench-php: $(MEMCACHED) ## APCu, Yac, memcached and our module for PHP, PHP_ROUNDS=3 of 2 min
	php/bench/extensions.sh target/php/debian
	php/bench/newest.sh target/php/debian
	$(MAKE) --no-print-directory -C php
	MEMCACHED=$(MEMCACHED) php -n php/bench/run.php --rounds $(PHP_ROUNDS) --ours target/php/larder_apcu.so $(FLAGS)

BENCH_PYTHON := $(abspath $(or $(CARGO_TARGET_DIR),target))/python/bench
bench-python: build $(MEMCACHED) ## Caches of Python and our package, FLAGS="--rounds 1", 8 min
	$(MAKE) --no-print-directory -C python
	python/tests/environment.sh $(BENCH_PYTHON) python3 python/bench/requirements.txt
	LARDERD=$(LARDERD) MEMCACHED=$(MEMCACHED) PYTHONPATH=python \
		$(BENCH_PYTHON)/bin/python python/bench/run.py $(FLAGS)

# The floor is a native module with functions that do nothing.
FLOOR := $(abspath $(or $(CARGO_TARGET_DIR),target))/node/floor.node
bench-node: build $(MEMCACHED) ## Caches of Node and our package, FLAGS="--rounds 1", 8 min
	cargo build --release --locked -p larder-node --features floor
	mkdir -p $(dir $(FLOOR)) && cp $(BUILT)/liblarder_node.so $(FLOOR)
	$(MAKE) --no-print-directory -C node
	cd node/bench && npm ci --no-audit --no-fund --loglevel error
	LARDERD=$(LARDERD) MEMCACHED=$(abspath $(MEMCACHED)) FLOOR=$(FLOOR) node node/bench/run.mjs $(FLAGS)

bench-capacity: build $(MEMCACHED) ## Items held in equal memory, compared with memcached, 1 to 2 min
	LARDERD=$(LARDERD) MEMCACHED=$(MEMCACHED) cargo bench -p larder-bench --bench capacity

bench-traces: build $(MEMCACHED) ## Miss ratios on the traces of LARDER_TRACES; ONLY="library web07", 5 to 15 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) MEMCACHED=$(MEMCACHED) $(OTHERS) --bench traces -- $(ONLY)

bench-soak: ## A cache under load for MINUTES (1); fails on a wrong value or too much memory
	cargo bench -p larder-bench --bench soak -- --minutes $(MINUTES)

bench-near: build ## Near caches: hits, misses, changes, and their delay; 3 min
	LARDERD=$(LARDERD) crates/bench/near/measure.py

bench-compressed: ## Compressed values, measured and simulated on the traces of LARDER_TRACES, 2 min
	cargo bench -p larder-bench --bench compressed

bench-quotas: ## Quotas by prefix, simulated on the traces of LARDER_TRACES, 5 to 15 min
	cargo bench -p larder-bench --bench quotas

bench-ttl: ## Expired items that are still held, in simulated time
	cargo bench -p larder-bench --bench ttl

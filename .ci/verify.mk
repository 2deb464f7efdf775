# The long proofs, stages of `make verify`: `make verify ONLY=list` lists them.

# Client suites that take minutes or need many packages.
LONG_SUITES := pylibmc bmemcached dogpile django node_memcached memjs php_memcached users_php \
	dalli spymemcached discovery_java libmemcached_tests nutcracker page bigcache_http
FUZZ_SECS ?= 300
STORM_SECS ?= 600
NEAR_SECS ?= 600
NEAR_ENDURANCE_SECS ?= 600

PROOFS := fresh-test conformance transcripts binding-suites php-versions \
	python-suites python-dist python-versions node-suites node-dist node-versions models miri crash storm near-history near-suites near-memcached near-endurance sanitize fuzz-all endurance readers hot-keys scale-out ring \
	deploy-test helm-test book-test package-test rpm-test sign-test publish-test crates-test minimal-versions semver msrv others workflows portable static-suites platforms tier bench-restart

run-proofs:
	@$(if $(ONLY),,echo "make verify: about four hours on two cores. If a stage fails, the others still run.")
	@LARDER_INTERLEAVINGS=10 MINUTES=10 MIRI_SEEDS=32 .ci/stages -k $(or $(ONLY),$(PROOFS))

list-proofs:
	$(LIST) .ci/verify.mk
	@echo
	@echo "make verify also runs $(filter models miri bench-%,$(PROOFS))."

## Stages of `make verify`
# Needs root and debootstrap, and uses the Rust and Go toolchains of this machine.
fresh-test: ## Follows README.md on a bare Debian: the last commit, `make setup`, `make test`, 45 min
	.ci/fresh

# The build with AddressSanitizer takes five minutes, so `make test` only checks the targets
# (`lint`).
fuzz-all: ## Fuzzes every target for FUZZ_SECS (300), as many at a time as there are processors
	fuzz/run.sh all $(FUZZ_SECS)

# If a suite fails, the others still run. `make verify ONLY=conformance LONG_SUITES=dalli` runs
# fewer.
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

# Tests over the wire that also run with a disk tier. conformance/tier.toml lists those of them, and
# of memcached's own suite, that contradict it.
WIRE_TESTS = differential:: items:: large_values:: dumps:: faults:: watch:: statistics:: \
	--skip admin_faults:: --skip disk_faults::

binding-suites: build ## Runs tests of other caches on our Go and PHP packages, 25 min
	conformance/install.sh all
	$(MAKE) --no-print-directory -C go suites
	$(MAKE) --no-print-directory -C php suites zts

# Needs root and debootstrap. VERSIONS="8.4 8.6" tests fewer.
php-versions: build ## Tests the extensions on PHP 8.4, 8.5 and 8.6, 4 min; the first time 10 min
	$(MAKE) --no-print-directory -C php versions

python-suites: build ## Runs tests of Django, dogpile, Flask-Caching, cachetools and pymemcache on our Python package, 8 min
	$(MAKE) --no-print-directory -C python suites

# Needs musl-tools and qemu-user: conformance/install.sh all.
python-dist: build dist-python ## Builds the wheels for glibc and musl on amd64 and arm64, and runs them, 12 min
	python/tests/wheels/run.sh target/dist/python

# Needs root, debootstrap and Debian's archive. PYTHONS="3.15 3.14t" tests fewer.
python-versions: build ## Tests the wheels on Python 3.13, 3.14, 3.15 and 3.14 without GIL, 3 min; the first time 10 min
	rm -rf target/python/dist
	python/dist.sh target/python/dist $$(dpkg --print-architecture)
	python/tests/versions.sh target/python/dist $(PYTHONS)

node-suites: build ## Runs Keyv's tests of stores and an application of Next.js on our Node package, 3 min
	$(MAKE) --no-print-directory -C node suites

# Needs musl-tools and qemu-user: conformance/install.sh all.
node-dist: build dist-node ## Builds the packages for npm for glibc and musl on amd64 and arm64, and runs them, 5 min
	node/test/dist/run.sh target/dist/node

node-versions: build ## Tests the Node package on Node 18 to 26, Bun and Deno, 5 min
	$(MAKE) --no-print-directory -C node
	node/test/versions.sh $(NODES)

SEEDS ?= 10000
# Needs root, loop devices, /dev/fuse and the packages of conformance/install.sh all.
tier: build ## Runs the disk tier on simulated disks (SEEDS), with real faults, and under a server, 40 min
	LARDER_SEEDS=$(SEEDS) cargo test --release -p larder-tier --test it --locked -- \
		crashes:: --skip disk::
	LARDER_SEEDS=1000 cargo test --release -p larder-tier --test it --locked -- store:: cache:: directory::
	set -e; for mode in store cache; do \
	  export LARDER_TIER=$$mode; \
	  cargo test --release -p larder-server --locked --test it -- $(WIRE_TESTS); \
	  cargo test --release -p larder-server --locked --test transcripts; \
	done
	LARDER_MOMENTS=1 cargo test -p larder-server --test it --locked moments::
	cargo test --release -p larder-server --test it --locked -- disk_faults:: \
		--ignored --test-threads 1
	set -e; for mode in store cache; do LARDERD=$(LARDERD) LARDER=$(LARDER) \
	  conformance/tier.sh $$mode $(SUITES); done

deploy-test: build ## Tests the files of deploy/ with Prometheus and other real programs, 6 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) deploy/tests/run.sh

# Builds helm and kubeconform with Go, the first time in 3 min.
helm-test: build ## Renders the Helm chart, checks it with Kubernetes' types and runs its commands, 2 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) deploy/tests/helm.sh

# `make verify ONLY=crash JUDGED=1000` checks about 1000 of the states that each operation leaves.
# OPERATION=split checks the operations with this part in their names, OPERATION="--exact split" one
# of them.
crash: JUDGED ?= all
crash: ## Kills a process after every instruction of every operation, 10 min
	LARDER_KILLED=$(JUDGED) cargo test -p larder --locked --test killed -- $(OPERATION)

storm: ## Kills, stops and continues processes on one cache at random for STORM_SECS (600)
	LARDER_STORM_SECS=$(STORM_SECS) cargo test -p larder --locked --test storm -- --nocapture

# Once with one origin, with one that reports no changes, and with several.
near-history: build ## Records clients of near caches while servers and network fail, and judges it, for NEAR_SECS (600) thrice
	LARDERD=$(LARDERD) LARDER_NEAR_SECS=$(NEAR_SECS) cargo test -p larder-server --locked \
		--test it -- near_history::near_caches_ --nocapture --test-threads=1

near-suites: build ## Runs quick client suites and memcached's whole suite through a near cache, 5 min
	conformance/install.sh all
	LARDERD=$(LARDERD) LARDER=$(LARDER) conformance/near.sh $(SUITES)

near-memcached: build $(MEMCACHED) ## The same before memcached 1.6.45, which reports no changes, 6 min
	conformance/install.sh all
	MEMCACHED_ORIGIN=$(abspath $(MEMCACHED)) cargo test -p larder-server --locked --test it -- \
		near::timed
	LARDERD=$(LARDERD) LARDER=$(LARDER) NEAR_CACHE_ORIGIN=$(abspath $(MEMCACHED)) \
		conformance/near.sh $(SUITES)

# Fails if a read is older than promised, or if memory or descriptors of the servers grow.
near-endurance: build ## Uses a near cache on 10,000 connections while its origin is upgraded, for NEAR_ENDURANCE_SECS (600)
	LARDERD=$(LARDERD) LARDER_NEAR_ENDURANCE_SECS=$(NEAR_ENDURANCE_SECS) cargo test \
		-p larder-server --locked --test it -- near_crowd:: --ignored --nocapture

# Needs a nightly toolchain.
sanitize: ## Tests the code that shares memory with the kernel under AddressSanitizer
	RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/sanitize cargo +nightly test --locked \
		--target $$(rustc -vV | sed -n 's/^host: //p') -p larder-server --lib -- ring:: worker::

# Fails if memory of the server or the kernel grows, or if an uninvolved client waits more than 100
# ms.
endurance: build ## Loads a server with all kinds of clients and upgrades it, MINUTES (10)
	LARDERD=$(LARDERD) LARDER_MINUTES=$(MINUTES) cargo test -p larder-server --locked \
		--test it -- endurance:: --ignored --nocapture

# Needs nutcracker and haproxy: conformance/install.sh all. SCENARIOS=one_behind_haproxy runs one.
scale-out: build ## Upgrades and kills servers behind real routers, checks every read, 1 min
	LARDERD=$(LARDERD) deploy/routers/tests/scale_out.py $(SCENARIOS)

ring: build ## Restarts, adds and removes servers of 20 clients that hash, checks every read, 1 min
	LARDERD=$(LARDERD) LARDER=$(LARDER) deploy/routers/tests/ring.py

# Needs root and debootstrap. The pages name the packages that they need, and so does README.md.
book-test: build ## Runs the commands of all pages on a bare Debian, as root and a user, twice; PAGES=docs/tool.md
	.ci/pages --bare $(PAGES)

readers: build ## Lets 10,000 slow clients read 5 MB each, 1 min; needs GiB of socket buffers
	LARDERD=$(LARDERD) cargo test -p larder-server --locked --test crowds -- \
		readers:: --ignored

hot-keys: build ## Finds the hottest keys of Zipf loads of 400,000 gets per second, 4 min
	LARDER_SEEDS=20 cargo test -p larder-server --locked --lib -- hot::collector
	LARDERD=$(LARDERD) LARDER=$(LARDER) cargo test -p larder-server --locked \
		--test it -- hot_keys:: --ignored --nocapture

# Needs root, and the Debian packages debootstrap and lintian.
package-test: release ## Installs, upgrades under load and purges the Debian package in a chroot
	packaging/package-test.sh

# Needs root, and the Debian packages debootstrap, rpm, rpm2cpio and cpio.
rpm-test: pages ## Checks the RPM package, and installs, upgrades and removes it in a chroot, with Debian's rpm
	packaging/tools.sh
	packaging/rpm-test.sh

sign-test: ## Signs the checksums of a release with a key of the run, and verifies them
	packaging/sign-test.sh

# Needs the packages of conformance/install.sh all. Its name is not that of the verb that publishes.
publish-test: ## Publishes a release to places on this machine, and makes each fault that `make publish` finds, 4 min
	packaging/publish/tests/test_checks.py
	packaging/publish/tests/test_publish.py

crates-test: ## Packages the crates, and builds and runs a program outside of the checkout
	packaging/crates-test.sh

minimal-versions: ## Checks the packages of the crates with the oldest versions of other crates
	packaging/minimal-versions.sh

# Builds cargo-semver-checks the first time, in 20 min. BASELINE=v1.2.0 compares with this tag or
# commit.
semver: ## Compares the interface of the crate larder with the last release, 3 min
	packaging/semver.sh $(BASELINE)

msrv: ## Checks the crates, the programs and the C library with the oldest Rust of Cargo.toml
	packaging/msrv.sh

# `lint` omits them because the other caches take a minute and a half to build.
others: ## Checks the benches that compare with other caches in Rust
	cargo clippy -p larder-bench --all-targets --features others --locked -- -D warnings

ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
workflows: ## Checks the workflows of .github with actionlint, which Go downloads
	go run $(ACTIONLINT) .github/workflows/*.yml

# Needs wine, qemu-user and cross compilers: conformance/install.sh all.
platforms: ## Compiles the library for macOS, FreeBSD and Windows; tests it under wine and qemu-user, 10 min
	packaging/platforms.sh check all
	packaging/platforms.sh run

# Needs qemu-user and the C library of the other architecture: conformance/install.sh all.
portable: ## Builds programs for glibc 2.28 and static ones on amd64 and arm64, and runs them, 14 min
	packaging/portable.sh build
	packaging/portable.sh check

# The static programs of `portable` for this machine, with the quick client suites.
static-suites: ## Runs the quick client suites on a static larderd, 3 min
	packaging/portable.sh build $$(dpkg --print-architecture)-musl
	set -e; for suite in $(SUITES); do \
		LARDERD=$(abspath $(or $(CARGO_TARGET_DIR),target))/portable/$$(dpkg --print-architecture)-musl/larderd \
		LARDER=$(abspath $(or $(CARGO_TARGET_DIR),target))/portable/$$(dpkg --print-architecture)-musl/larder \
		conformance/clients/$$suite.sh; done

## Not run unless named
# Needs root and fatrace. It watches the whole machine, so do not use the machine while it runs.
packages: ## Writes .ci/packages/opened: the Debian packages whose files `make test` opens, 15 min
	.ci/packages/record lint unit clients c go php readme

#!/usr/bin/env bash
# Installs what the tests need besides Rust, a C compiler and make: Debian packages as root, cargo-fuzz and cargo-deny
# as anybody. Not as root it names the command for the packages and fails. What is there already is left alone.
# With the word `all` also what only `make verify` needs.
set -euo pipefail

wanted=${1:-}
fuzz_version=0.13.2
deny_version=0.20.2

# Prints those of the packages that are not installed.
not_installed() {
    for package; do
        dpkg-query --show --showformat='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
    done
}

# Prints the packages whose files are not there.
missing_packages() {
    [ -x /usr/bin/memcached ] || echo memcached
    command -v memccapable >/dev/null || echo libmemcached-tools
    echo '#include <libmemcached/memcached.h>' | cc -fsyntax-only -x c - 2>/dev/null ||
        echo libmemcached-dev
    command -v go >/dev/null || echo golang-go
    command -v pkg-config >/dev/null || echo pkg-config
    command -v python3 >/dev/null || echo python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    command -v strace >/dev/null || echo strace
    not_installed nginx-light php-cache-integration-tests php-psr-cache php-psr-simple-cache php8.2-cli php8.2-dev php8.2-fpm phpunit
    perl -e 'use Test::More' 2>/dev/null || echo perl
    perl -e 'use IO::Socket::SSL' 2>/dev/null || echo libio-socket-ssl-perl
    [ "$wanted" = all ] || return 0
    for program in java:default-jdk-headless mvn:maven node:nodejs npm:npm cmake:cmake flex:flex bison:bison \
        saslpasswd2:sasl2-bin curl:curl; do
        command -v "${program%:*}" >/dev/null || echo "${program#*:}"
    done
    not_installed chromium debootstrap dpkg-dev haproxy libevent-dev libsasl2-dev lintian nutcracker \
        mediawiki php-doctrine-cache php-illuminate-cache php-memcached \
        php-symfony-cache php8.2-igbinary python3-fusepy qemu-user rocksdb-tools ruby ruby-dalli \
        valgrind xfsprogs
    # The C library that programs of the other architecture are run with.
    case $(uname -m) in
        x86_64) not_installed libc6-arm64-cross ;;
        aarch64) not_installed libc6-amd64-cross ;;
    esac
}

mapfile -t packages < <(missing_packages)
if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "The tests need Debian packages that are not installed. Run as root:" >&2
        echo "    apt-get install ${packages[*]}" >&2
        exit 1
    fi
    apt-get update -qq
    # The run level keeps memcached and haproxy from being started as services: the tests start their own.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

# The tools run for seconds: their build takes longer, unless it is without optimizations.
export CARGO_PROFILE_DEV_DEBUG=0
if [ "$(cargo fuzz --version 2>/dev/null)" != "cargo-fuzz $fuzz_version" ]; then
    cargo install --debug cargo-fuzz --version "$fuzz_version" --locked
fi
if [ "$(cargo deny --version 2>/dev/null)" != "cargo-deny $deny_version" ]; then
    cargo install --debug cargo-deny --version "$deny_version" --locked
fi

# The tests of the Go packages run with both supported releases. Without the other they are skipped.
[ "$wanted" != all ] || "$(dirname "$0")/../bindings/go/conformance/release.sh" install

# Miri is not there for every nightly toolchain, and where it is not `make miri` is skipped.
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    rustup component add miri rust-src --toolchain nightly ||
        rustup toolchain install nightly --profile minimal --component miri --component rust-src ||
        echo "Miri cannot be had: memory orderings are not checked" >&2
fi

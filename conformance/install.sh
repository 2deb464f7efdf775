#!/usr/bin/env bash
# Installs the programs that the tests need in addition to the packages of README.md, Rust and Go.
# Debian packages need root: as another user, the script prints the command that installs them, and
# fails. Subcommands of cargo can be installed by any user. The script skips everything that is
# already installed.
#
#     install.sh              installs what `make test` needs
#     install.sh all          also installs what only `make verify` needs
#     install.sh list [all]   prints the names of the packages, and installs nothing
set -euo pipefail
cd "$(dirname "$0")/.."

# One package per line, with a command that succeeds if its contents are installed, also from
# another source. Without a command, dpkg is asked.
test_packages="
cmake                           command -v cmake
gdb                             command -v gdb
groff-base                      command -v groff
libio-socket-ssl-perl           perl -e 'use IO::Socket::SSL'
libmemcached-dev                echo '#include <libmemcached/memcached.h>' | cc -fsyntax-only -x c -
libmemcached-tools              command -v memccapable
memcached                       test -x /usr/bin/memcached
nginx-light
nodejs                          command -v node
npm                             command -v npm
perl                            perl -e 'use Test::More'
php-cache-integration-tests
php-psr-cache
php-psr-simple-cache
php8.2-cli
php8.2-dev
php8.2-fpm
phpunit
pkg-config                      command -v pkg-config
python3                         command -v python3
python3-venv                    python3 -c 'import ensurepip, venv'
strace                          command -v strace
tmux                            command -v tmux
"
verify_packages="
bison                           command -v bison
chromium
cpio                            command -v cpio
createrepo-c                    command -v createrepo_c
curl                            command -v curl
debootstrap
default-jdk-headless            command -v java
dpkg-dev
flex                            command -v flex
gcc-aarch64-linux-gnu           command -v aarch64-linux-gnu-gcc
gcc-mingw-w64-x86-64            command -v x86_64-w64-mingw32-gcc
gcc-riscv64-linux-gnu           command -v riscv64-linux-gnu-gcc
gpg                             command -v gpg
gpg-agent                       command -v gpg-agent
haproxy
libc6-dev-arm64-cross
libc6-dev-riscv64-cross
libevent-dev
libffi-dev
libsasl2-dev
libssl-dev
lintian
maven                           command -v mvn
mariadb-server-core
mediawiki
musl-tools                      command -v musl-gcc
nutcracker
php-doctrine-cache
php-illuminate-cache
php-memcached
php-symfony-cache
php8.2-igbinary
php8.2-mbstring
php8.2-mysql
php8.2-sqlite3
php8.2-xml
python3-fusepy
qemu-user
rocksdb-tools
rpm                             command -v rpm
rpm2cpio                        command -v rpm2cpio
rsync                           command -v rsync
ruby
ruby-dalli
sasl2-bin                       command -v saslpasswd2
valgrind
wine                            command -v wine
wine64                          command -v wine
wordpress
wordpress-theme-twentytwentythree
xfsprogs
zlib1g-dev
"
# The C library for running programs of the other architecture.
case $(uname -m) in
    x86_64) verify_packages+="libc6-arm64-cross" ;;
    aarch64) verify_packages+="libc6-amd64-cross" ;;
esac
# The subcommands of cargo, with their versions and the options of their builds.
subcommands=(
    "cargo-fuzz 0.13.2"
    "cargo-deny 0.20.2"
    "cargo-nextest 0.9.151 --no-default-features --features default-no-update"
)

fail() {
    printf 'install.sh: %s\n' "$@" >&2
    exit 1
}

# Reads lines like those above, and prints the packages that are missing.
missing_packages() {
    local package probe
    while read -r package probe; do
        [ -n "$package" ] || continue
        if [ -n "$probe" ]; then
            bash -c "$probe" >/dev/null 2>&1 || echo "$package"
        else
            dpkg-query --show --showformat='${Status}\n' "$package" 2>/dev/null |
                grep -q 'ok installed' || echo "$package"
        fi
    done
}

install_packages() {
    local packages
    mapfile -t packages < <(missing_packages <<<"$wanted_packages")
    [ ${#packages[@]} -gt 0 ] || return 0
    [ "$(id -u)" -eq 0 ] || fail "Debian packages that the tests need are missing. Run as root:" \
        "    apt-get install ${packages[*]}"
    apt-get update -qq
    # The run level keeps memcached and haproxy from being started as services: the tests start
    # their own.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
}

# The subcommands run only for seconds, so they are built without optimizations, which is faster.
install_subcommands() {
    local subcommand name version features
    for subcommand in "${subcommands[@]}"; do
        read -r name version features <<<"$subcommand"
        # The first line of the output has the version: `cargo-deny 0.20.2`.
        case "$(cargo "${name#cargo-}" --version 2>/dev/null) " in
            "$name $version"[[:space:]]*) ;;
            # shellcheck disable=SC2086 # The features are words.
            *) CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked "$name" --version "$version" $features ;;
        esac
    done
}

# Debian 12's Go is too old, so README.md lists Go as a prerequisite.
check_go() {
    (cd go && go list -m) >/dev/null 2>&1 ||
        fail "the Go packages need Go $(sed -n 's/^go //p' go/go.mod) or newer, found" \
            "    $(go version 2>&1 || true)" "See https://go.dev/dl, or run the other tests: make unit"
}

wanted_packages=$test_packages
[ "${1:-}" != all ] && [ "${2:-}" != all ] || wanted_packages+=$verify_packages
case ${1:-} in
    "" | all) ;;
    list) awk 'NF { print $1 }' <<<"$wanted_packages"; exit ;;
    *) fail "expected no argument, all or list, found $1" ;;
esac

check_go
install_packages
install_subcommands

# The tests of the Go packages run with both supported releases of Go. If the other release is not
# installed, its tests are skipped.
[ "${1:-}" != all ] || go/conformance/release.sh install

# Some nightly toolchains have no Miri. Without Miri, `make miri` is skipped.
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    rustup component add miri rust-src --toolchain nightly ||
        rustup toolchain install nightly --profile minimal --component miri --component rust-src ||
        echo "install.sh: cannot install Miri: memory orderings are not checked" >&2
fi

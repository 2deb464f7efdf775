#!/usr/bin/env bash
# Builds larderd and larder into target/portable: portable.sh build [WHERE...]. WHERE is amd64 or
# arm64, for glibc 2.28 and newer, or amd64-musl or arm64-musl: static programs, which need no C
# library. `portable.sh check [WHERE...]` checks these programs: the libraries and symbols that they
# need, and that they start, store, read and find their items again after a restart; as root, the
# static ones also in a root without any library. Programs of another architecture run under
# qemu-user, which does not support io_uring.
set -euo pipefail
cd "$(dirname "$0")/.."

glibc=2.28
target=${CARGO_TARGET_DIR:-target}
portable=$target/portable
tools=$target/zig
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

fail() {
    echo "portable: $*" >&2
    [ ! -f "${log:-}" ] || sed 's/^/larderd: /' "$log" >&2
    exit 1
}

# Prints the kernel's name of an architecture, for Debian's name.
machine_of() {
    case $1 in
        amd64 | amd64-musl) echo x86_64 ;;
        arm64 | arm64-musl) echo aarch64 ;;
        *) fail "no programs for $1, expected amd64, arm64, amd64-musl or arm64-musl" ;;
    esac
}

# Prints Rust's name of a target.
triple_of() {
    case $1 in
        *-musl) echo "$(machine_of "$1")-unknown-linux-musl" ;;
        *) echo "$(machine_of "$1")-unknown-linux-gnu" ;;
    esac
}

build() {
    local triple version=
    triple=$(triple_of "$1")
    [[ $1 == *-musl ]] || version=.$glibc
    # The linker strips the programs, because this machine's strip supports only its own
    # architecture.
    PATH=$(realpath "$tools/bin"):$PATH CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_RELEASE_STRIP=symbols \
        cargo zigbuild --release --locked --target "$triple$version" \
        --package larder-server --package larder-cli
    install -D -t "$portable/$1" "$target/$triple/release/larderd" "$target/$triple/release/larder"
}

# Prints a column of readelf's output for a program.
needs_of() {
    case $1 in
        libraries) readelf --dynamic --wide "$2" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' ;;
        # All versions that the loader looks for, including names such as GLIBC_ABI_DT_RELR.
        versions)
            readelf --version-info --wide "$2" |
                sed -n '/^Version needs/,$ s/.* Name: \([^ ]*\) .*/\1/p' | sort -u -V
            ;;
        alignments) readelf --segments --wide "$2" | awk '$1 == "LOAD" { print $NF }' ;;
    esac
}

# An arm64 kernel can have pages of 64 KiB, and refuses programs with a smaller alignment:
# check_alignment WHERE FILE
check_alignment() {
    local needed
    [[ $1 == arm64* ]] || return 0
    for needed in $(needs_of alignments "$2"); do
        [ $((needed)) -ge 65536 ] || fail "$2 is aligned to $needed bytes, expected 0x10000"
    done
}

# Fails if a program needs more than glibc of that version: check_needs ARCHITECTURE PROGRAM
check_needs() {
    local file=$portable/$1/$2 needed machine versions symbols
    machine=$(readelf --file-header "$file" | sed -n 's/ *Machine: *//p')
    case $1:$machine in
        amd64*:*X86-64 | arm64*:AArch64) ;;
        *) fail "$file is for $machine, expected $1" ;;
    esac
    if [[ $1 == *-musl ]]; then
        [ -z "$(needs_of libraries "$file")" ] ||
            fail "$file needs $(needs_of libraries "$file"), expected a static program"
        check_alignment "$1" "$file"
        echo "portable: $1/$2 needs no library"
        return
    fi
    for needed in $(needs_of libraries "$file"); do
        [[ $needed =~ ^(lib(c|m|dl|rt|pthread)|ld-linux[-a-z0-9]*)\.so\.[0-9]+$ ]] ||
            fail "$file needs $needed, expected only libraries of glibc"
    done
    versions=$(needs_of versions "$file")
    [ -n "$versions" ] || fail "readelf finds no versions of symbols in $file"
    for needed in $versions; do
        if [[ ! $needed =~ ^GLIBC_[0-9] ]] ||
            [ "$(printf 'GLIBC_%s\n' "$glibc" "${needed#GLIBC_}" | sort -V | tail -n 1)" != \
                "GLIBC_$glibc" ]; then
            symbols=$(readelf --dyn-syms --wide "$file" | awk -v version="@$needed" \
                'index($8 "(", version "(") { sub(/@.*/, "", $8); print $8 }' | tr '\n' ' ')
            fail "$file needs $needed, expected at most GLIBC_$glibc; symbols: $symbols"
        fi
    done
    check_alignment "$1" "$file"
    echo "portable: $1/$2 needs $(tail -n 1 <<<"$versions")," $(needs_of libraries "$file")
}

# Runs a program of an architecture: run ARCHITECTURE PROGRAM ARGUMENT...
run() {
    local architecture=$1 program=$2 machine
    shift 2
    machine=$(machine_of "$architecture")
    if [ "$machine" = "$(uname -m)" ]; then
        exec "$portable/$architecture/$program" "$@"
    fi
    [[ $architecture == *-musl ]] || set -- -L "/usr/$machine-linux-gnu" \
        "$portable/$architecture/$program" "$@"
    [[ $architecture != *-musl ]] || set -- "$portable/$architecture/$program" "$@"
    exec "qemu-$machine" "$@"
}

# Runs a static program in a root that contains only the program: check_root WHERE
check_root() {
    local root=$folder/root
    [ "$(id -u)" = 0 ] && [ "$(machine_of "$1")" = "$(uname -m)" ] || return 0
    rm -rf "$root"
    install -D -t "$root" "$portable/$1/larderd" "$portable/$1/larder"
    mkdir --mode=1777 "$root/tmp"
    chroot --userspec=65534:65534 "$root" /larderd -s /tmp/socket -m 64 >"$log" 2>&1 &
    server=$!
    chroot "$root" /larder ping --wait 30 --server unix:/tmp/socket >/dev/null ||
        fail "larderd for $1 does not answer in a root without libraries"
    chroot "$root" /larder set greeting hello --server unix:/tmp/socket
    [ "$(chroot "$root" /larder get greeting --server unix:/tmp/socket)" = hello ] ||
        fail "larderd for $1 does not return a value in a root without libraries"
    stop "$1"
    echo "portable: $1 serves in a root without libraries"
}

# Starts larderd with its items in a file: start ARCHITECTURE
start() {
    run "$1" larderd -v -s "$folder/socket" -u "$(id -un)" -t 2 -e "$folder/items" -m 64 \
        >"$log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        (run "$1" larder ping --server "unix:$folder/socket") >/dev/null 2>&1 && return
        kill -0 "$server" 2>/dev/null || fail "larderd for $1 has ended"
        sleep 0.1
    done
    fail "larderd for $1 does not answer in 30 s"
}

# Ends larderd like a service manager.
stop() {
    kill -TERM "$server"
    wait "$server" || fail "larderd for $1 ended with $? after SIGTERM"
    server=
}

# Sends a command to larderd: ask ARCHITECTURE VERB ARGUMENT...
ask() {
    (run "$1" larder "$2" --server "unix:$folder/socket" "${@:3}")
}

# Starts larderd and sends it commands with larder, before and after a restart.
check_service() {
    local machine program line clean loop
    machine=$(machine_of "$1")
    [ "$machine" = "$(uname -m)" ] || command -v "qemu-$machine" >/dev/null ||
        fail "qemu-$machine is missing: apt-get install qemu-user libc6-$1-cross"
    for program in larderd larder; do
        line=$(run "$1" "$program" -V | tail -n 1)
        [[ $line == "larder $version (commit "* ]] || fail "$program -V for $1 prints: $line"
    done
    rm -f "$folder/items"
    start "$1"
    # If io_uring is not available, larderd logs this and continues with epoll.
    loop=$(sed -n 's/.* info workers wait by //p; s/.*io_uring cannot be used.*; \(epoll\) .*/\1/p' "$log")
    [ -n "$loop" ] || fail "larderd for $1 does not log how its workers wait"
    [ "$machine" = "$(uname -m)" ] || [ "$loop" = epoll ] ||
        fail "larderd for $1 waits by $loop under qemu, expected epoll"
    ask "$1" set greeting hello
    ask "$1" set large "$(head -c 100000 /dev/zero | tr '\0' x)"
    [ "$(ask "$1" get greeting)" = hello ] || fail "larderd for $1 does not return the stored value"
    ask "$1" bench --mode mix --seconds 2 --connections 8 --json >"$folder/bench" ||
        fail "the load on $1 failed: $(cat "$folder/bench")"
    for clean in '"wrong_values":0,' '"lost_connections":0,' '"errors":{}'; do
        grep -qF "$clean" "$folder/bench" ||
            fail "the load on $1 had errors, expected $clean: $(cut -c 1-500 "$folder/bench")"
    done
    stop "$1"
    start "$1"
    [ "$(ask "$1" get greeting)" = hello ] || fail "larderd for $1 lost an item at its restart"
    [ "$(ask "$1" get large | tr -d '\n' | wc -c)" -eq 100000 ] ||
        fail "larderd for $1 lost a large item at its restart"
    echo "portable: $1 serves by $loop: $line"
    stop "$1"
}

verb=${1:-}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- amd64 arm64 amd64-musl arm64-musl
case $verb in
    build)
        for architecture; do packaging/zig.sh "$(triple_of "$architecture")"; done
        for architecture; do build "$architecture"; done
        ;;
    check)
        folder=$(mktemp -d)
        log=$folder/log
        server=
        trap '[ -z "$server" ] || kill -KILL "$server"; rm -rf "$folder"' EXIT
        for architecture; do
            for program in larderd larder; do check_needs "$architecture" "$program"; done
            check_service "$architecture"
            [[ $architecture != *-musl ]] || check_root "$architecture"
        done
        ;;
    *) fail "the first argument is '$verb', expected build or check" ;;
esac

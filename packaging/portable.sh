#!/usr/bin/env bash
# Builds larderd and larder for glibc 2.28 and newer, on amd64 and on arm64, into target/portable:
# portable.sh build [ARCHITECTURE...]. `portable.sh check [ARCHITECTURE...]` checks these programs:
# the symbols that they need, and that they start, store, read and find their items again after a
# restart. Programs of another architecture run under qemu-user, which does not support io_uring.
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
        amd64) echo x86_64 ;;
        arm64) echo aarch64 ;;
        *) fail "no programs for $1, expected amd64 or arm64" ;;
    esac
}

build() {
    local triple
    triple=$(machine_of "$1")-unknown-linux-gnu
    # The linker strips the programs, because this machine's strip supports only its own
    # architecture.
    PATH=$(realpath "$tools/bin"):$PATH CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_RELEASE_STRIP=symbols \
        cargo zigbuild --release --locked --target "$triple.$glibc" \
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

# Fails if a program needs more than glibc of that version: check_needs ARCHITECTURE PROGRAM
check_needs() {
    local file=$portable/$1/$2 needed machine versions symbols
    machine=$(readelf --file-header "$file" | sed -n 's/ *Machine: *//p')
    case $1:$machine in
        amd64:*X86-64 | arm64:AArch64) ;;
        *) fail "$file is for $machine, expected $1" ;;
    esac
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
    # An arm64 kernel can have pages of 64 KiB, and refuses programs with a smaller alignment.
    [ "$1" = amd64 ] || for needed in $(needs_of alignments "$file"); do
        [ $((needed)) -ge 65536 ] || fail "$file is aligned to $needed bytes, expected 0x10000"
    done
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
    exec "qemu-$machine" -L "/usr/$machine-linux-gnu" "$portable/$architecture/$program" "$@"
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
    loop=$(sed -n 's/^workers wait by //p; s/.*io_uring cannot be used.*; \(epoll\) .*/\1/p' "$log")
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
[ $# -gt 0 ] || set -- amd64 arm64
case $verb in
    build)
        for architecture; do packaging/zig.sh "$(machine_of "$architecture")-unknown-linux-gnu"; done
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
        done
        ;;
    *) fail "the first argument is '$verb', expected build or check" ;;
esac

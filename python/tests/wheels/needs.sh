#!/usr/bin/env bash
# Checks the symbols that the extensions of wheels need: needs.sh WHEEL...
# A wheel for glibc needs libraries of glibc up to the version of its name, and libgcc_s to unwind
# the stack (unwinder.sh). A wheel for musl needs only musl's library. A library of Python is an
# error.
set -euo pipefail

fail() {
    echo "needs.sh: $*" >&2
    exit 1
}

libraries_of() {
    readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

# Prints the versions of symbols that the loader looks for, oldest first.
versions_of() {
    readelf --version-info --wide "$1" |
        sed -n '/^Version needs/,$ s/.* Name: \([^ ]*\) .*/\1/p' | sort -u -V
}

# Fails if an extension needs more than glibc of that version: check_glibc FILE VERSION
check_glibc() {
    local needed versions libraries limit
    libraries=$(libraries_of "$1")
    for needed in $libraries; do
        [[ $needed =~ ^(lib(c|m|dl|rt|pthread|gcc_s)|ld-linux[-a-z0-9]*)\.so\.[0-9]+$ ]] ||
            fail "$name needs $needed, expected only libraries of glibc and libgcc_s"
    done
    grep -qx 'libgcc_s.so.1' <<<"$libraries" || fail "$name does not need libgcc_s.so.1"
    versions=$(versions_of "$1")
    [ -n "$versions" ] || fail "readelf finds no versions of symbols in $name"
    for needed in $versions; do
        case $needed in
            GLIBC_[0-9]*) limit=GLIBC_$2 ;;
            GCC_[0-9]*) limit=GCC_4.2.0 ;;
            *) fail "$name needs $needed" ;;
        esac
        [ "$(printf '%s\n' "$limit" "$needed" | sort -V | tail -n 1)" = "$limit" ] ||
            fail "$name needs $needed, expected at most $limit"
    done
    newest=$(grep GLIBC_ <<<"$versions" | tail -n 1)
}

# musl has no versions of symbols, so a version is one of glibc.
check_musl() {
    local needed versions
    for needed in $(libraries_of "$1"); do
        [ "$needed" = libc.so ] || fail "$name needs $needed, expected only libc.so"
    done
    versions=$(versions_of "$1")
    [ -z "$versions" ] || fail "$name needs $versions, expected no versions of symbols"
    newest=musl
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for wheel; do
    name=$(basename "$wheel")
    rm -rf "$folder/files"
    python3 -m zipfile -e "$wheel" "$folder/files"
    [[ $name =~ -(manylinux_([0-9]+)_([0-9]+)|musllinux_[0-9_]+)_(x86_64|aarch64)\.whl$ ]] ||
        fail "$name is for no known platform"
    version=${BASH_REMATCH[2]:+${BASH_REMATCH[2]}.${BASH_REMATCH[3]}} machine=${BASH_REMATCH[4]}
    mapfile -t files < <(find "$folder/files" -name '*.so')
    [ ${#files[@]} -eq 1 ] || fail "$name contains ${#files[@]} extensions, expected one"
    [ -z "$(find "$folder/files" -name __pycache__)" ] || fail "$name contains compiled Python"
    file=${files[0]}
    case $machine:$(readelf --file-header "$file" | sed -n 's/ *Machine: *//p') in
        x86_64:*X86-64 | aarch64:AArch64) ;;
        *) fail "the extension of $name is for another processor" ;;
    esac
    if [ -n "$version" ]; then check_glibc "$file" "$version"; else check_musl "$file"; fi
    # An arm64 kernel can have pages of 64 KiB, and refuses libraries with a smaller alignment.
    [ "$machine" = x86_64 ] ||
        for alignment in $(readelf --segments --wide "$file" | awk '$1 == "LOAD" { print $NF }'); do
            [ $((alignment)) -ge 65536 ] || fail "$name is aligned to $alignment, expected 0x10000"
        done
    ! readelf --sections --wide "$file" | grep -q '\.debug_\|\.symtab' ||
        fail "the extension of $name is not stripped"
    echo "needs.sh: $name: $(stat --format %s "$wheel") bytes, needs $newest," \
        $(libraries_of "$file")
done

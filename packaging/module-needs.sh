#!/usr/bin/env bash
# Checks a module of Python or Node: module-needs.sh NAME FILE MACHINE GLIBC. NAME is the package
# that contains the file, MACHINE the kernel's name of its processor, GLIBC the oldest version of
# glibc that loads it, or empty for musl.
#
# A module for glibc needs libraries of glibc up to this version, and libgcc_s to unwind the stack
# (unwinder.sh). A module for musl needs only musl's library. Prints the newest version it needs.
set -euo pipefail

fail() {
    echo "module-needs.sh: $*" >&2
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

# Fails if a module needs more than glibc of that version: check_glibc FILE VERSION
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

name=$1 file=$2 machine=$3 glibc=$4
case $machine:$(readelf --file-header "$file" | sed -n 's/ *Machine: *//p') in
    x86_64:*X86-64 | aarch64:AArch64) ;;
    *) fail "the module of $name is for another processor" ;;
esac
if [ -n "$glibc" ]; then check_glibc "$file" "$glibc"; else check_musl "$file"; fi
# An arm64 kernel can have pages of 64 KiB, and refuses libraries with a smaller alignment.
[ "$machine" = x86_64 ] ||
    for alignment in $(readelf --segments --wide "$file" | awk '$1 == "LOAD" { print $NF }'); do
        [ $((alignment)) -ge 65536 ] || fail "$name is aligned to $alignment, expected 0x10000"
    done
! readelf --sections --wide "$file" | grep -q '\.debug_\|\.symtab' ||
    fail "the module of $name is not stripped"
echo "$name: $(stat --format %s "$file") bytes, needs $newest," $(libraries_of "$file")

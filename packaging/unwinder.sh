#!/usr/bin/env bash
# Writes a library that stands for libgcc_s.so.1 when a module of Python or Node is linked:
# unwinder.sh TRIPLE FOLDER. It only has the names and versions of the functions that unwind the
# stack.
#
# zig links its own unwinder into the module. But a process may end a thread with pthread_exit, as
# Python did until 3.13, for which glibc unwinds the stack with libgcc_s. It then calls functions of
# the module, which must use the same unwinder: with another one the process crashes. musl does not
# unwind the stack.
set -euo pipefail

triple=$1
mkdir -p "$2"
cd "$2"
first="DeleteException ForcedUnwind GetDataRelBase GetGR GetIP GetLanguageSpecificData GetRegionStart"
first+=" GetTextRelBase RaiseException Resume SetGR SetIP"
second="Backtrace FindEnclosingFunction GetCFA Resume_or_Rethrow"
third="GetIPInfo"

# Prints the functions of a version for the linker: version NAME FUNCTION...
version() {
    printf '%s {\n' "$1"
    shift
    printf '    _Unwind_%s;\n' "$@"
    printf '};\n'
}
# shellcheck disable=SC2086 # The names are words.
{
    version GCC_3.0 $first
    version GCC_3.3 $second
    version GCC_4.2.0 $third
} >versions.map
# shellcheck disable=SC2086
printf 'void _Unwind_%s(void) {}\n' $first $second $third >functions.c
python-zig cc -target "${triple/-unknown/}" -nostdlib -shared -fPIC -Wl,-soname,libgcc_s.so.1 \
    -Wl,--version-script=versions.map functions.c -o libgcc_s.so.1

#!/usr/bin/env bash
# Installs a shared library without its symbols, and the symbols as a file that debuggers find by
# the library's debug link or build id: split-symbols.sh LIBRARY TO SYMBOLS
set -euo pipefail

[ $# -eq 3 ] || { echo "usage: split-symbols.sh LIBRARY TO SYMBOLS" >&2; exit 2; }
library=$1 to=$2 symbols=$3
objcopy --only-keep-debug --compress-debug-sections "$library" "$symbols"
chmod 644 "$symbols"
strip --strip-unneeded --remove-section=.comment -o "$to" "$library"
objcopy --add-gnu-debuglink="$symbols" "$to"

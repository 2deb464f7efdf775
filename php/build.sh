#!/usr/bin/env bash
# Builds the extensions with phpize in a separate folder: `build.sh FOLDER FILE [OPTION…]`. FILE is
# larder_apcu.so. larder.so is written to the same folder, unless the options of configure exclude
# it. The source tree does not change. With KEEP_SYMBOLS=1 the files keep the names of functions and
# lines.
set -euo pipefail

folder=$1 file=$2
shift 2
source=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
# Two builds at the same time would use each other's half-written files.
exec 9>"$folder/lock"
flock 9
cp -ru "$source/config.m4" "$source/src" "$folder"
cd "$folder"
if [ ! -e Makefile ] || [ config.m4 -nt Makefile ]; then
    "${PHPIZE:-phpize}" >phpize.log 2>&1
    ./configure --quiet --with-php-config="${PHP_CONFIG:-php-config}" \
        --with-larder="$(dirname "$folder")/larder" "$@"
fi
# phpize's Makefile has no dependencies on the headers.
library=$(readlink -f "$(dirname "$folder")/larder/lib/liblarder.a")
if [ -n "$(find src -name '*.h' -newer modules/larder_apcu.so 2>/dev/null)" ] \
    || [ "$library" -nt modules/larder_apcu.so ]; then
    make -s clean
fi
make -s LIBTOOLFLAGS=--silent
install() {
    if [ -n "${KEEP_SYMBOLS:-}" ]; then
        cp "$1" "$2"
    else
        strip --strip-unneeded -o "$2" "$1"
    fi
}
install modules/larder_apcu.so "$file"
if [ -e modules/larder.so ]; then
    install modules/larder.so "$(dirname "$file")/larder.so"
fi

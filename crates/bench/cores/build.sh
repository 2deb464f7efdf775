#!/usr/bin/env bash
# Builds the programs of measure.py into a folder: `build.sh FOLDER`, target/cores by default. The
# folder has all that they need but glibc, so that it can be copied to a machine with more
# processors. APCu is compared if php/bench/extensions.sh has built it.
set -euo pipefail
cd "$(dirname "$0")/../../.."
folder=${1:-target/cores}
built=${CARGO_TARGET_DIR:-target}/release
memcached=${MEMCACHED:-target/memcached-new/memcached}

cargo build --release --locked -p larder-server -p larder-cli
engine=$(cargo bench -p larder-bench --locked --features others --bench engine --no-run \
    --message-format json | sed -n 's|.*"executable":"\([^"]*/engine-[^"]*\)".*|\1|p')
make --no-print-directory -C php

rm -rf "$folder"
mkdir -p "$folder"/{lib,php}
cp "$built"/{larderd,larder} "$memcached" "$folder"
cp "$engine" "$folder/engine"
(cd go/bench && CGO_ENABLED=0 go build -o "$OLDPWD/$folder/go-limits" ./limits)
cp target/php/larder_apcu.so php/bench/{caches,load}.php crates/bench/cores/arguments.php \
    "$folder/php"
cp "$(command -v php)" "$folder/php/php"
if [ -e target/php/debian/apcu.so ]; then
    cp target/php/debian/apcu.so "$folder/php"
fi
strip --strip-debug "$folder"/{larderd,larder,engine,memcached}
# The libraries of memcached and PHP, without those of glibc.
ldd "$folder/memcached" "$folder/php/php" "$folder"/php/*.so |
    sed -n 's|.* => \(/[^ ]*\) .*|\1|p' | sort -u |
    grep -v '/\(libc\|libm\|libdl\|libpthread\|librt\|libresolv\)\.so' |
    xargs -I LIBRARY cp LIBRARY "$folder/lib"
du -sh "$folder" | sed 's/^/build.sh: /'

#!/usr/bin/env bash
# Runs tests of the cache under valgrind, which also sees the copies between the cache and objects
# of Python, since these are written in assembler: valgrind.sh PYTHON. It fails on any invalid
# access. PYTHON has the packages of requirements.txt. Valgrind does not support all system calls
# that the library makes directly, so the extension is built to make them through libc.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
python=$(realpath -s "$1")
out=$target/python/valgrind

(
    cd "$root"
    CARGO_TARGET_DIR=$out RUSTFLAGS="--cfg rustix_use_libc" CARGO_PROFILE_RELEASE_LTO=off \
        PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 \
        cargo build --quiet --release --locked --package larder-python
)
rm -rf "$out/package" "$out/reports"
mkdir -p "$out/package" "$out/reports"
cp -r "$here/../larder_cache" "$out/package/"
cp "$out/release/lib_larder.so" "$out/package/larder_cache/_larder.abi3.so"
cat >"$out/python" <<END
#!/bin/sh
exec valgrind --quiet --num-callers=30 --undef-value-errors=no --log-file='$out/reports/%p' \\
    $python "\$@"
END
chmod +x "$out/python"

# Python's own allocator would hide errors from valgrind.
status=0
PYTHONMALLOC=malloc PACKAGE=$out/package "$here/run.sh" "$out/python" --timeout 600 \
    "$here/core/test_mapping.py" "$here/core/test_values.py" "$here/core/test_cached.py" \
    --deselect "$here/core/test_cached.py::test_processes_share_results" || status=1
# Values that are not initialised are not reported: some builds of Python use them.
if [ -n "$(cat "$out"/reports/*)" ]; then
    cat "$out"/reports/* >&2
    status=1
fi
exit $status

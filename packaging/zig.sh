#!/usr/bin/env bash
# Installs zig's linker with cargo-zigbuild and maturin (zig.txt) into target/zig, and Rust's
# library for each target: zig.sh TRIPLE...
set -euo pipefail
cd "$(dirname "$0")/.."

tools=${CARGO_TARGET_DIR:-target}/zig
# This file is newer than the list only after everything was installed.
if [ ! "$tools/installed" -nt packaging/zig.txt ]; then
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --requirement packaging/zig.txt
    touch "$tools/installed"
fi
for triple; do
    rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"
done

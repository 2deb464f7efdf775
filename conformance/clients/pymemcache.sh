#!/usr/bin/env bash
# The integration tests of pymemcache, a Python client.
source "$(dirname "$0")/server.sh"

version=4.0.0
python=$kept/pymemcache/venv/bin/python
sources=$kept/pymemcache/pymemcache-$version
if [ ! -e "$sources/ready" ]; then
    rm -rf "$kept/pymemcache"
    python3 -m venv "$kept/pymemcache/venv" || fail "no venv: run conformance/install.sh"
    "$python" -m pip install --quiet "pytest==8.4.2" "Faker==37.12.0" "zstd==1.5.7.2"
    # Only the source package has the tests.
    "$python" -m pip download --quiet --no-deps --no-binary pymemcache \
        --dest "$kept/pymemcache" "pymemcache==$version"
    tar -xzf "$kept/pymemcache/pymemcache-$version.tar.gz" -C "$kept/pymemcache"
    touch "$sources/ready"
fi

start_on_free_port
cd "$sources"
ended=0
# TLS needs a second server that larderd is not yet.
"$python" -m pytest -p no:cacheprovider --override-ini addopts= --quiet --tb=short \
    -m integration -k "not tls" --server=127.0.0.1 --port="$port" \
    --junit-xml="$folder/results.xml" pymemcache/test || ended=$?
# 1 is that tests have failed, which are counted below; more is that not all of them ran.
[ "$ended" -le 1 ] || fail "pytest ended with $ended"
[ -s "$folder/results.xml" ] || fail "pytest did not run"
count() {
    grep -o " $1=\"[0-9]*\"" "$folder/results.xml" | head -n 1 | tr -dc 0-9
}
failed=$(($(count errors) + $(count failures)))
conclude $(($(count tests) - failed - $(count skipped))) "$failed" "$(count skipped) skipped"

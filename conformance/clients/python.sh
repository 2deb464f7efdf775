# Sourced by the suites of Python clients: provides an environment with pinned packages, source
# packages, and pytest's counts.
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

requirements=$root/conformance/clients/requirements.txt
environment=$kept/python
python=$environment/bin/python
if ! cmp -s "$requirements" "$environment/installed"; then
    rm -rf "$environment"
    python3 -m venv "$environment" || fail "no venv: run conformance/install.sh"
    "$python" -m pip install --quiet --requirement "$requirements" || fail "cannot install the packages of $requirements"
    cp "$requirements" "$environment/installed"
fi

# Unpacks the source package of an installed client into $folder/source and changes to it: only the
# source package has the tests.
enter_source_of() {
    local package=$1 pinned
    pinned=$(grep -i "^$package==" "$requirements") || fail "$package is not in $requirements"
    local download=$kept/python-sources/${pinned//==/-}
    if [ ! -d "$download" ]; then
        "$python" -m pip download --quiet --no-deps --no-binary :all: --dest "$download.part" "$pinned" ||
            fail "cannot download the source of $pinned"
        mv "$download.part" "$download"
    fi
    mkdir "$folder/source"
    tar -xzf "$download"/*.tar.gz --strip-components=1 -C "$folder/source"
    cd "$folder/source"
}

# Runs pytest with these arguments and concludes with its counts.
play_pytest() {
    local ended=0
    "$python" -m pytest -p no:cacheprovider --override-ini addopts= --quiet --tb=short --timeout=60 \
        --junit-xml="$folder/results.xml" "$@" || ended=$?
    # Exit code 1 means failed tests, which are counted below; a higher code means that not all
    # tests ran.
    [ "$ended" -le 1 ] || fail "pytest ended with $ended"
    [ -s "$folder/results.xml" ] || fail "pytest did not run"
    "$root/.ci/skips-of" junit "$(basename "$0" .sh)" "$folder/results.xml"
    local failed=$(($(count errors) + $(count failures)))
    conclude $(($(count tests) - failed - $(count skipped))) "$failed" "$(count skipped) skipped"
}

# Prints a number from pytest's results.
count() {
    grep -o " $1=\"[0-9]*\"" "$folder/results.xml" | head -n 1 | tr -dc 0-9
}

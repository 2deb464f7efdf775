# Sourced by the suites of this folder. A suite installs pinned packages into target/node, and runs
# in a folder that it removes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=$(realpath "$here/../..")
target=$(realpath "${CARGO_TARGET_DIR:-$package/../target}")
FOLDER=$(mktemp -d)
export FOLDER
pids=()
trap 'end_suite' EXIT

end_suite() {
    # A process may have ended by itself.
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait
    rm -rf "$FOLDER"
}

# Installs PACKAGE@VERSION... next to larder-cache, and changes to the folder: enter_suite NAME
# PACKAGE@VERSION...
enter_suite() {
    local name=$1 folder=$target/node/suites-$1
    shift
    mkdir -p "$folder"
    cd "$folder"
    if [ "$(cat installed 2>/dev/null)" != "$*" ]; then
        rm -rf node_modules package.json package-lock.json
        echo '{ "private": true, "type": "module" }' >package.json
        npm install --ignore-scripts --save-exact --no-audit --no-fund --loglevel error "$@"
        echo "$*" >installed
    fi
    rm -rf node_modules/larder-cache
    mkdir -p "$(dirname node_modules/larder-cache)"
    ln -s "$package" node_modules/larder-cache
}

# Runs vitest, and prints "NAME: N passed, M failed": conclude_vitest NAME [ARGUMENT of vitest...].
conclude_vitest() {
    local name=$1 status=0
    shift
    npx --no-install vitest run --reporter=default --reporter=json --outputFile.json=results.json \
        "$@" || status=$?
    node -e '
        const results = JSON.parse(require("node:fs").readFileSync("results.json", "utf8"));
        const { numPassedTests: passed, numFailedTests: failed, numPendingTests: left } = results;
        console.log(`${process.argv[1]}: ${passed} passed, ${failed} failed, ${left} skipped`);
    ' "$name"
    return "$status"
}

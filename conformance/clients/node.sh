# Sourced by the suites of Node clients: installs pinned packages and keeps them from run to run.
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

packages="axe-core@4.14.1 memcached@2.2.2 memjs@1.3.2 mocha@10.8.2 playwright-core@1.64.1 should@13.2.3"
modules=$kept/node
command -v npm >/dev/null || fail "npm is missing: run conformance/install.sh"
if [ "$(cat "$modules/installed" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$modules"
    mkdir "$modules"
    echo '{ "private": true }' >"$modules/package.json"
    # shellcheck disable=SC2086
    (cd "$modules" && npm install --silent --no-save --no-audit --no-fund $packages) || fail "cannot install $packages"
    echo "$packages" >"$modules/installed"
fi

#!/usr/bin/env bash
# Vets and tests the core module with the supported Go release that is not installed, or with the
# one that is named: release.sh [RELEASE]. The go command fetches it, as `release.sh install` does;
# the test is skipped if it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

# The two releases that Go's authors support. go.mod requires the older one.
supported=(go1.26.8 go1.27.4)
minor=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
[[ ${supported[0]} == go$minor.* ]] ||
    { echo "release.sh: go.mod names Go $minor, not ${supported[0]}" >&2; exit 1; }

wanted=${1:-}
if [ -z "$wanted" ] || [ "$wanted" = install ]; then
    wanted=${supported[1]}
    [[ $(GOTOOLCHAIN=local go env GOVERSION) != "${wanted%.*}".* ]] || wanted=${supported[0]}
fi
export GOTOOLCHAIN=$wanted
if ! go version >/dev/null; then
    ../.ci/skip release.sh "$GOTOOLCHAIN cannot be fetched: see \`go env GOPROXY\`"
    exit
fi
[ "${1:-}" != install ] || exit 0

go vet ./...
../.ci/go-test -short . ./typed ./bigcache ./internal/engine/...
echo "release.sh: the core module passes its tests with $GOTOOLCHAIN"

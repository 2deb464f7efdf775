#!/usr/bin/env bash
# Vets and tests the core module with another Go release than the installed one, by default
# with the older of the supported releases, which go.mod names: release.sh [RELEASE]. The go command
# fetches the release, as `release.sh install` does, and the test is skipped if it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

older=go1.25.14
minor=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
[[ $older == go$minor.* ]] || { echo "release.sh: go.mod names Go $minor, not $older" >&2; exit 1; }

wanted=${1:-}
[ "$wanted" != install ] || wanted=
export GOTOOLCHAIN=${wanted:-$older}
if ! go version >/dev/null; then
    echo "release.sh: skipped, because $GOTOOLCHAIN cannot be fetched: see \`go env GOPROXY\`"
    exit
fi
[ "${1:-}" != install ] || exit 0

go vet ./...
go test -short . ./typed ./server ./bigcache ./internal/engine/...
echo "release.sh: the core module passes its tests with $GOTOOLCHAIN"

#!/usr/bin/env bash
# Runs staticcheck on all modules, with the build tags of their tests.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v0.8.2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
GOBIN=$folder go install "honnef.co/go/tools/cmd/staticcheck@$version"

"$folder/staticcheck" -tags larder_heap,larder_steps,larder_debug ./...
for module in . bench dist examples prometheus shared; do
    (cd "$module" && "$folder/staticcheck" ./...)
done
echo "staticcheck: 6 modules, no findings"

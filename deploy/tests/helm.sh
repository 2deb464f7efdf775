#!/usr/bin/env bash
# Tests the Helm chart: builds helm and kubeconform, renders the chart, and runs larderd with the
# rendered arguments. Arguments are those of go test. $LARDERD and $LARDER are the programs under
# test, $HELM and $KUBECONFORM other builds of the tools.
set -euo pipefail
cd "$(dirname "$0")"

target=${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}
export LARDERD=${LARDERD:-$target/release/larderd} LARDER=${LARDER:-$target/release/larder}
helm=helm.sh/helm/v4/cmd/helm@v4.3.2
kubeconform=github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0

# Builds a program unless this version of it exists. The folder has the version in its name.
build() {
    local folder=$target/deploy/${1##*/}
    if [ ! -x "$folder/${2##*/}" ]; then
        echo "helm.sh: builds $1" >&2
        GOBIN=$folder go install "$1"
    fi
    echo "$folder/${2##*/}"
}
HELM=${HELM:-$(build "$helm" helm)}
KUBECONFORM=${KUBECONFORM:-$(build "$kubeconform" kubeconform)}
export HELM KUBECONFORM

# The servers of the examples wait for their drain, so many of them can run at the same time. The
# lines of tests that pass are left out, so that those of skipped ones remain.
cd manifests
go test -count=1 -parallel 8 -v "${@:-./...}" | grep -Ev '^ *(=== |--- PASS)'

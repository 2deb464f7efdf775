#!/usr/bin/env bash
# Writes the manifests for kubectl, from the default values of the chart: plain.sh [FOLDER]. The
# default folder is ../kubernetes. $HELM is the program helm.
set -euo pipefail
chart=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$chart/../kubernetes}

# The labels of Helm would be wrong, because Helm does not manage these objects.
render() {
    "${HELM:-helm}" template larder "$chart" "$@" |
        sed -e '/^# Source:/d' -e '/^ *helm.sh\/chart:/d' -e '/managed-by: Helm$/d' -e '/^ *$/d' |
        sed '1{/^---$/d}'
}
{
    echo '# The default values of the chart in deploy/helm, rendered by its plain.sh: three larderd, each'
    echo '# with its own address. README.md in this folder explains the operation.'
    render
} >"$folder/larder.yaml"
{
    echo '# For the Prometheus Operator, rendered by deploy/helm/plain.sh.'
    render --show-only templates/monitors.yaml --set metrics.serviceMonitor.enabled=true
} >"$folder/servicemonitor.yaml"

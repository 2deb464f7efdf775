#!/usr/bin/env bash
# Runs the tests of this folder: all of them, or those with these names: run.sh test_alerts
set -euo pipefail
cd "$(dirname "$0")"

export PATH=$PATH:/usr/sbin PYTHONDONTWRITEBYTECODE=1
./install.sh
if [ $# -gt 0 ]; then
    python3 -m unittest -v "$@"
else
    python3 -m unittest discover -v
fi

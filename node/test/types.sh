#!/usr/bin/env bash
# Type-checks the examples and test/types/usages.ts with the declarations of the package: types.sh.
# test/suites/next.sh checks the example of Next.js. Needs `make all`.
set -euo pipefail

cd "$(dirname "$0")/types"
../../node_modules/.bin/tsc --project .
echo "types: the examples and usages.ts are correct"

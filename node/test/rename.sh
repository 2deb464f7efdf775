#!/usr/bin/env bash
# Renames the package in a copy of the checkout, and loads it there by its new name, with the native
# module in the package of its platform. Needs `make all`.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

"$here/../packaging/publish/renamed.py" "$copy"
cd "$copy/node"
"$here/node_modules/.bin/tsc" --project lib --typeRoots "$here/node_modules/@types"
platform=$(node -p 'require("./dist/platform.js").platformName(process)')
[[ $platform = @sample/store-js-linux-* ]] || { echo "rename.sh: the platform is $platform" >&2; exit 1; }
mkdir -p "node_modules/$platform"
cp "$here/larder.node" "node_modules/$platform/"
./manifest.mjs platform "${platform#@sample/store-js-}" >"node_modules/$platform/package.json"
node --input-type=module --eval "
    import { Cache } from '@sample/store-js';
    const cache = new Cache({ memory: '16M' });
    if (cache.set('name', 'new').get('name') !== 'new') throw new Error('the item is wrong');"
echo "rename.sh: passed"

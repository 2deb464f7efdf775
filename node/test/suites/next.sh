#!/usr/bin/env bash
# Builds an application of Next.js with the handlers of node/examples/next, starts it in two
# processes, and tests that they share pages, results and invalidated tags: next.sh. Needs Node 20
# and `make all`.
source "$(dirname "$0")/source.sh"

enter_suite next next@16.4.6 react@19.3.1 react-dom@19.3.1 @types/node@22.20.7 @types/react@19.2.7
rm -rf app .next tests types
cp -r "$here/next/." .
cp "$package"/examples/next/{cache-handler.cjs,use-cache.cjs} .
cp "$package/examples/next/next.config.mjs" example.config.mjs
# Next.js bundles only what is in the folder.
rm node_modules/larder-cache
mkdir -p node_modules/larder-cache
cp -r "$package"/{package.json,dist,larder.node} node_modules/larder-cache/
export CACHE=$FOLDER/site.larder NEXT_TELEMETRY_DISABLED=1
"$package/node_modules/.bin/tsc" --project types
node_modules/.bin/next build
[ ! -e "$CACHE" ] || { echo "next build has created $CACHE" >&2; exit 1; }
node --test --test-reporter=tap tests/ | tee "$FOLDER/results"
passed=$(sed -n 's/^# pass //p' "$FOLDER/results")
failed=$(sed -n 's/^# fail //p' "$FOLDER/results")
echo "next: $passed passed, $failed failed"

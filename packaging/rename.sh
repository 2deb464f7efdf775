#!/usr/bin/env bash
# Changes the names of the packages for Python and Node in every file that contains them:
# rename.sh DISTRIBUTION MODULE, for example rename.sh example-cache example_cache. pip and npm
# install the distribution. Programs in Python import the module, those in Node the distribution.
# python/pyproject.toml contains the current names.
set -euo pipefail
here=$(cd "$(dirname "$0")/../python" && pwd)

fail() {
    echo "rename.sh: $*" >&2
    exit 2
}

[ $# -eq 2 ] || fail "usage: rename.sh DISTRIBUTION MODULE"
[[ $1 =~ ^[a-z0-9]+(-[a-z0-9]+)*$ ]] || fail "$1: expected small letters, digits and single hyphens"
[[ $2 =~ ^[a-z][a-z0-9]*(_[a-z0-9]+)*$ ]] ||
    fail "$2: expected small letters, digits and single underscores"
distribution=$(sed -n 's/^name = "\(.*\)"/\1/p' "$here/pyproject.toml" | head -n 1)
module=$(sed -n 's/^module-name = "\(.*\)\._.*"/\1/p' "$here/pyproject.toml")

cd "$here/.."
# Prints the text files that contain a name. The names of PHP's extension are others.
files_with() {
    git grep --untracked -lIFe "$1" -- . ':!php' || [ $? -eq 1 ]
}

# Replaces a name where the text after it matches: replace NAME NEW AFTER. The name must not be a
# part of a longer one.
replace() {
    files_with "$1" | xargs --no-run-if-empty \
        perl -pi -e "s/(?<![A-Za-z0-9_-])\Q$1\E(?=$3)/$2/g"
}
# In the names of files, npm appends a platform or a version, and pip writes an underscore for a
# hyphen: example-cache-linux-x64-gnu, example_cache-1.0.0.tar.gz.
replace "${distribution//-/_}" "${1//-/_}" '-[0-9X*]'
replace "$module" "$2" '[^A-Za-z0-9_-]|$'
replace "$distribution" "$1" '[^A-Za-z0-9_-]|-linux|-bench|-[0-9X*]|$'
[ "$module" = "$2" ] || mv "$here/$module" "$here/$2"
echo "rename.sh: $distribution is now $1, $module is now $2"

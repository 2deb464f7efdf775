#!/usr/bin/env bash
# Prints the maintainer of the packages, NAME <MAIL>, of owner.toml. DEBFULLNAME and DEBEMAIL
# replace them, as for other Debian tools.
set -euo pipefail
cd "$(dirname "$0")"

choice() {
    sed -n "s/^$1 = \"\(.*\)\"/\1/p" owner.toml
}
echo "${DEBFULLNAME:-$(choice maintainer)} <${DEBEMAIL:-$(choice mail)}>"

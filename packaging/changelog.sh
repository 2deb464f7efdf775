#!/usr/bin/env bash
# Prints the changelog of a Debian package: changelog.sh PACKAGE VERSION MAINTAINER DATE
set -euo pipefail
cat <<END
$1 ($2) unstable; urgency=medium

  * Release ${2%-*}. changelog.gz of the package larder has the changes.

 -- $3  $4
END

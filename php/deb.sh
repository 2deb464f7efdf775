#!/usr/bin/env bash
# Writes the Debian packages of the modules, for the PHP that `php-config` belongs to:
# `deb.sh FOLDER`. `make -C php` builds the modules first. php8.2-larder has larder.so;
# php8.2-larder-apcu has larder_apcu.so, replaces Debian's php-apcu, and conflicts with it.
set -euo pipefail

out=$(realpath -m "${1:?name the folder for the packages}")
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
built=${CARGO_TARGET_DIR:-$root/target}/php
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
version=$version-${LARDER_DEB_REVISION:-1}
maintainer=$("$root/packaging/maintainer.sh")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" show --no-patch --format=%ct HEAD)}
date=$(date --utc --date="@$SOURCE_DATE_EPOCH" --rfc-email)
php=$(php-config --version | cut -d. -f1,2)
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

# Writes a script that dpkg runs with the argument $2. It makes PHP load or not load the module.
script() {
    printf '#!/bin/sh\nset -e\nif [ "$1" = %s ]; then %s -v %s %s; fi\n' "$2" "$3" "$php" "$4" \
        >"$tree/DEBIAN/$1"
    chmod 755 "$tree/DEBIAN/$1"
}

# Writes the package $1 with the module $2. The input is appended to its control file.
package() {
    local name=$1 module=$2 share
    share=$tree/usr/share/doc/$name
    rm -rf "${tree:?}"/*
    install -d "$tree/DEBIAN" "$share" "$tree/etc/php/$php/mods-available"
    install -D -m 644 -s "$built/$module.so" "$tree$(php-config --extension-dir)/$module.so"
    printf '; priority=20\nextension=%s.so\n' "$module" \
        >"$tree/etc/php/$php/mods-available/$module.ini"
    echo "/etc/php/$php/mods-available/$module.ini" >"$tree/DEBIAN/conffiles"
    install -m 644 "$here/README.md" "$root/packaging/debian/copyright" "$share"
    "$root/packaging/changelog.sh" "$name" "$version" "$maintainer" "$date" |
        gzip -9 --no-name >"$share/changelog.Debian.gz"
    script postinst configure phpenmod "$module"
    script prerm remove phpdismod "$module"
    if [ "$module" = larder ]; then
        install -D -m 644 -t "$tree/usr/share/php/Larder" "$here"/lib/Larder/*.php
    fi
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' \
            "$name" "$version" "$architecture" "$maintainer"
        printf 'Depends: phpapi-%s, php-common, libc6 (>= 2.36)\n' "$(php-config --phpapi)"
        printf 'Section: php\nPriority: optional\n'
        cat
    } >"$tree/DEBIAN/control"
    mkdir -p "$out"
    dpkg-deb --root-owner-group --build "$tree" "$out/${name}_${version}_$architecture.deb"
}

package "php$php-larder" larder <<'CONTROL'
Description: caches that PHP processes share
 Classes for a cache that all workers of PHP share, in memory or in a file that
 survives reloads; for a client of larderd; for PSR-6, PSR-16 and sessions.
CONTROL
package "php$php-larder-apcu" larder_apcu <<CONTROL
Provides: php-apcu, php$php-apcu
Conflicts: php-apcu, php$php-apcu
Description: functions of APCu on the cache of Larder
 Provides the functions, class and settings of APCu: programs that use them run
 unmodified. A full cache evicts single items instead of all, and a killed
 worker leaves no lock.
CONTROL

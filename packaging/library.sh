#!/usr/bin/env bash
# Builds the Debian packages of the C library with Debian's own tools: liblarder1, its symbols in
# liblarder1-dbgsym, and liblarder-dev. library.sh VERSION MAINTAINER BUILT TO; dist.sh runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$1 maintainer=$2 built=$3 to=$4
upstream=${version%-*}
# The soname and the release: docs/releases.md.
file=liblarder.so.1.$upstream
architecture=$(dpkg-architecture --query DEB_HOST_ARCH)
multiarch=$(dpkg-architecture --query DEB_HOST_MULTIARCH)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Folders and files of a package are readable by all users.
umask 022
chmod 755 "$folder"

# Packs a folder: pack PACKAGE SECTION DEPENDS SYNOPSIS, with the description on standard input.
pack() {
    local root=$folder/$1
    install -D -m 644 packaging/debian/copyright "$root/usr/share/doc/$1/copyright"
    gzip --no-name --best <"target/pages/changelog.${1%-dbgsym}" >"$root/usr/share/doc/$1/changelog.Debian.gz"
    mkdir -p "$root/DEBIAN"
    cat >"$root/DEBIAN/control" <<END
Package: $1
Source: larder
Version: $version
Architecture: $architecture
Multi-Arch: same
Section: $2
Priority: optional
Maintainer: $maintainer
Installed-Size: $(du --summarize --apparent-size --block-size=1024 "$root/usr" | cut -f1)
Depends: $3
Description: $4
$(cat)
END
    (cd "$root" && find usr -type f -print0 | sort --zero-terminated |
        xargs --null md5sum >DEBIAN/md5sums)
    # dpkg-deb takes the times from SOURCE_DATE_EPOCH.
    dpkg-deb --root-owner-group --build "$root" "$to/$1_${version}_$architecture.deb" >/dev/null
}

# Prints the packages that the shared library needs.
needed() {
    mkdir -p "$folder/debian"
    printf 'Source: larder\n\nPackage: liblarder1\nArchitecture: any\n' >"$folder/debian/control"
    (cd "$folder" && dpkg-shlibdeps -O "liblarder1/usr/lib/$multiarch/$file") |
        sed -n 's/^shlibs:Depends=//p'
}

libraries=$folder/liblarder1/usr/lib/$multiarch
mkdir -p "$libraries"
# Debuggers find the symbols by the build id.
build_id=$(readelf --notes "$built/liblarder_c.so" | sed -n 's/^ *Build ID: //p')
[ -n "$build_id" ] || { echo "library: liblarder_c.so has no build id" >&2; exit 1; }
symbols=$folder/liblarder1-dbgsym/usr/lib/debug/.build-id/${build_id:0:2}
mkdir -p "$symbols"
packaging/split-symbols.sh "$built/liblarder_c.so" "$libraries/$file" "$symbols/${build_id:2}.debug"
chmod 644 "$libraries/$file"
ln -s "$file" "$libraries/liblarder.so.1"
mkdir -p "$folder/liblarder1/DEBIAN"
echo 'activate-noawait ldconfig' >"$folder/liblarder1/DEBIAN/triggers"
echo 'liblarder 1 liblarder1' >"$folder/liblarder1/DEBIAN/shlibs"
pack liblarder1 libs "$(needed)" "memcached-compatible cache, shared library" <<'END'
 Larder is a cache in the memory of a process, in memory that processes share,
 or in that of a server, larderd. This is the library that C programs use.
END

pack liblarder1-dbgsym debug "liblarder1 (= $version)" "debug symbols for liblarder1" <<'END'
 Debuggers and profilers take the names of functions and lines from here.
END

development=$folder/liblarder-dev
install -D -m 644 "$built/liblarder_c.a" "$development/usr/lib/$multiarch/liblarder.a"
strip --strip-debug --enable-deterministic-archives "$development/usr/lib/$multiarch/liblarder.a"
ln -s liblarder.so.1 "$development/usr/lib/$multiarch/liblarder.so"
install -D -m 644 -t "$development/usr/include" c/include/larder.h
install -D -m 644 -t "$development/usr/share/doc/liblarder-dev/examples" \
    c/examples/greeting.c
mkdir -p "$development/usr/share/man/man3" "$development/usr/lib/$multiarch/pkgconfig"
gzip --no-name --best <c/man/larder.3 >"$development/usr/share/man/man3/larder.3.gz"
sed "s|@PREFIX@|/usr|; s|@VERSION@|$upstream|; s|^libdir=.*|libdir=\${prefix}/lib/$multiarch|" \
    c/larder.pc.in >"$development/usr/lib/$multiarch/pkgconfig/larder.pc"
pack liblarder-dev libdevel "liblarder1 (= $version)" \
    "memcached-compatible cache, development files" <<'END'
 Larder is a cache in the memory of a process, in memory that processes share,
 or in that of a server, larderd. This is what C programs are built with: the
 header, the static library and the manual page.
END

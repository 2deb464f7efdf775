#!/usr/bin/env bash
# Builds all files of a release into target/dist: the Debian packages, tarballs of the programs of
# `portable.sh build`, the lists of components (SBOM), and the checksums, which LARDER_SIGN_KEY signs
# (sign.sh). `dist.sh debs` builds only the packages for this machine. Run after
# `cargo build --release`, as `make dist` does.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
revision=${LARDER_DEB_REVISION:-1}
target=${CARGO_TARGET_DIR:-target}
built=$target/release
pages=target/pages
dist=${LARDER_DIST:-target/dist}
# The same variables as for other Debian tools.
maintainer="${DEBFULLNAME:-The authors of Larder} <${DEBEMAIL:-larder@localhost}>"
# The time of the commit, so that equal sources produce equal files.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git show --no-patch --format=%ct HEAD)}

# Writes the files that packages need in addition to the pages of `make pages`.
prepare() {
    local date package
    date=$(date --utc --date="@$SOURCE_DATE_EPOCH" --rfc-email)
    for package in larder liblarder1 liblarder-dev; do
        packaging/changelog.sh "$package" "$version-$revision" "$maintainer" "$date" \
            >"$pages/changelog.$package"
    done
}

debs() {
    [ -s "$pages/man/larderd.1" ] || { echo "dist: $pages is empty: run make pages" >&2; exit 1; }
    cargo deb --quiet --no-build --strip --locked --package larder-server \
        --maintainer "$maintainer" --deb-revision "$revision" --output "$dist/"
    packaging/library.sh "$version-$revision" "$maintainer" "$built" "$dist"
}

# Packs the programs of an architecture with their pages, as a folder that can be copied to
# /usr/local.
tarball() {
    local name folder
    name=larder-$version-linux-$1
    folder=$(mktemp -d)
    install -D -t "$folder/$name/bin" "$target/portable/$1/larderd" "$target/portable/$1/larder"
    install -D -m 644 -t "$folder/$name/share/man/man1" "$pages"/man/*.1
    install -D -m 644 -t "$folder/$name/share/bash-completion/completions" "$pages"/bash/*
    install -D -m 644 -t "$folder/$name/share/zsh/site-functions" "$pages"/zsh/*
    install -D -m 644 -t "$folder/$name/share/fish/vendor_completions.d" "$pages"/fish/*
    install -D -m 644 -t "$folder/$name/share/doc/larder" LICENSE README.md CHANGELOG.md \
        docs/operating.md docs/options.md
    tar --create --directory "$folder" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 \
        --group=0 --numeric-owner "$name" | gzip --no-name >"$dist/$name.tar.gz"
    rm -r "$folder"
}

# Lists the crates that the programs contain. cargo-cyclonedx writes its files next to each
# manifest.
components() {
    local crate
    trap 'rm -f crates/*/larder-sbom.json' EXIT
    cargo cyclonedx --quiet --format json --no-build-deps --spec-version 1.5 \
        --override-filename larder-sbom
    for crate in server:larderd cli:larder capi:liblarder; do
        # The path of this checkout is useless to a reader.
        sed "s|file://$PWD|file:///larder|g" "crates/${crate%:*}/larder-sbom.json" \
            >"$dist/${crate#*:}-$version.cdx.json"
    done
}

verb=${1:-all}
[ "$verb" != all ] || packaging/sign.sh --check
rm -rf "$dist"
mkdir -p "$dist"
prepare
debs
if [ "$verb" = all ]; then
    for architecture in amd64 arm64; do tarball "$architecture"; done
    components
    packaging/sign.sh "$dist"
    ls -l "$dist"
fi

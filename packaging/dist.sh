#!/usr/bin/env bash
# Builds all files of a release into target/dist: the Debian packages, tarballs and RPM packages of
# the programs of `portable.sh build`, the lists of components (SBOM), and the checksums, which
# LARDER_SIGN_KEY signs (sign.sh). `dist.sh debs` builds only the Debian packages for this machine,
# and `dist.sh rpm ARCHITECTURE` only an RPM package. Run after `cargo build --release`, as
# `make dist` does.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
revision=${LARDER_DEB_REVISION:-1}
target=${CARGO_TARGET_DIR:-target}
built=$target/release
pages=target/pages
dist=${LARDER_DIST:-target/dist}
maintainer=$(packaging/maintainer.sh)
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

# Prints a script of the RPM package, with the functions of the same step of the Debian package, so
# that both follow the same rules: script RPM_STEP DEBIAN_STEP
script() {
    sed '/^\(case\|if\) /,$d' "packaging/debian/$2"
    cat "packaging/rpm/$1.sh"
}

# Builds the RPM package of an architecture from the programs of `portable.sh build`.
rpm() {
    local built=$target/portable/$1 staged=target/rpm machine
    case $1 in
        amd64) machine=x86_64 ;;
        arm64) machine=aarch64 ;;
    esac
    [ -x "$built/larderd" ] || {
        echo "dist: $built is empty: run packaging/portable.sh build $1" >&2
        exit 1
    }
    rm -rf "$staged"
    install -D -t "$staged" "$built/larderd" "$built/larder"
    install -D -m 644 -t "$staged/man" "$pages"/man/*.1
    gzip --no-name --best "$staged"/man/*.1
    script post postinst >"$staged/post"
    script preun prerm >"$staged/preun"
    cp packaging/rpm/postun.sh "$staged/postun"
    cargo generate-rpm --package crates/server --arch "$machine" --payload-compress xz \
        --auto-req packaging/rpm/requires.sh --output "$dist/" \
        --set-metadata "release = '$revision'" \
        --set-metadata "post_install_script = '$PWD/$staged/post'" \
        --set-metadata "pre_uninstall_script = '$PWD/$staged/preun'" \
        --set-metadata "post_uninstall_script = '$PWD/$staged/postun'"
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
if [ "$verb" = rpm ]; then
    rpm "$2"
    exit
fi
prepare
debs
if [ "$verb" = all ]; then
    for architecture in amd64 arm64; do
        tarball "$architecture"
        tarball "$architecture-musl"
        rpm "$architecture"
    done
    components
    packaging/sign.sh "$dist"
    ls -l "$dist"
fi

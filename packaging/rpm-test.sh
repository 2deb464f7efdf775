#!/usr/bin/env bash
# Builds the RPM package for this machine, and checks its list of files, requirements, scripts and
# programs. Then installs, upgrades and removes it in a Debian that debootstrap makes, with Debian's
# rpm: no distribution with RPM packages is tested. Needs root. Run after `make pages`, as
# `make verify ONLY=rpm-test` does.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "rpm-test: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || fail "needs root: a chroot, mounts and namespaces"
for program in rpm rpm2cpio cpio readelf debootstrap unshare; do
    command -v "$program" >/dev/null ||
        fail "$program is missing: apt-get install rpm rpm2cpio cpio binutils debootstrap util-linux"
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
architecture=$(dpkg --print-architecture)

# Prints fields of a package without a warning that it is not signed.
query() {
    rpm --query --package --nosignature "$@"
}

packaging/portable.sh build "$architecture"
for revision in 1 2; do
    LARDER_DEB_REVISION=$revision LARDER_DIST=$folder/$revision packaging/dist.sh rpm "$architecture"
done
LARDER_DIST=$folder/again packaging/dist.sh rpm "$architecture"
package=$folder/1/larder-$version-1.$machine.rpm
[ -f "$package" ] || fail "there is no $package: $(ls "$folder/1")"
cmp "$package" "$folder/again/${package##*/}" || fail "equal sources make different packages"

echo "== the list of files"
# The files of the Debian package, at the paths of RPM distributions.
python3 - <<'END' | sort >"$folder/expected"
import glob, os, tomllib

table = tomllib.load(open("crates/server/Cargo.toml", "rb"))["package"]["metadata"]["deb"]
for source, to, mode in table["assets"]:
    if source.endswith("/copyright"):
        print("/usr/share/licenses/larder/LICENSE 100644 root:root")
        continue
    for path in [source] if "*" not in source else glob.glob(source.removeprefix("../../")):
        name = os.path.basename(path) if to.endswith("/") else os.path.basename(to)
        name = name + ".gz" if "/man/" in to else name
        name = {"changelog": "CHANGELOG.md"}.get(name, name)
        at = os.path.dirname(to + "x") if to.endswith("/") else os.path.dirname(to)
        at = at.replace("zsh/vendor-completions", "zsh/site-functions")
        at = "usr/" + at if at.startswith("lib/") else at
        print(f"/{at}/{name} 100{mode} root:root")
END
query --queryformat '[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME}:%{FILEGROUPNAME}\n]' \
    "$package" | sort >"$folder/listed"
diff "$folder/expected" "$folder/listed" || fail "the files differ from those of the Debian package"
flags=$(query --queryformat '[%{FILENAMES} %{FILEFLAGS:fflags}\n]' "$package" |
    sed -n 's|^/etc/larder/larderd.toml ||p')
[ "$flags" = cn ] || fail "larderd.toml has the flags '$flags', expected cn: config(noreplace)"

echo "== the requirements"
query --requires "$package" | sort -u >"$folder/requires"
grep -qx '(systemd or systemd-standalone-sysusers)' "$folder/requires" ||
    fail "the package does not require systemd-sysusers"
grep -q '^libc\.so\.6(GLIBC_2\.' "$folder/requires" || fail "the package requires no glibc"
while read -r needed; do
    case $needed in
        'lib'*'.so.'*'()(64bit)' | 'ld-linux'*'()(64bit)' | 'rtld(GNU_HASH)' | \
            'config(larder) = '* | /bin/sh | '(systemd or '* | 'rpmlib('*) ;;
        *'(GLIBC_'*')(64bit)')
            needed=${needed#*(GLIBC_}
            needed=${needed%%)*}
            [ "$(printf '%s\n' "$needed" 2.28 | sort -V | tail -n 1)" = 2.28 ] ||
                fail "the package needs glibc $needed, expected 2.28 at most"
            ;;
        *) fail "the package requires $needed" ;;
    esac
done <"$folder/requires"

# RPM's own program finds the same libraries, for programs of this architecture.
printf '%s\n' target/rpm/larderd target/rpm/larder >"$folder/programs"
/usr/lib/rpm/find-requires <"$folder/programs" | sort -u >"$folder/by-rpm"
packaging/rpm/requires.sh <"$folder/programs" | diff "$folder/by-rpm" - ||
    fail "packaging/rpm/requires.sh finds other libraries than RPM"

echo "== the scripts"
for step in PREIN POSTIN PREUN POSTUN PRETRANS POSTTRANS; do
    query --queryformat "%{$step}" "$package" >"$folder/$step"
done
for step in POSTIN PREUN POSTUN; do
    sh -n "$folder/$step" || fail "the script $step is not valid"
    # A reader of the package looks for Debian's programs in vain.
    ! grep -q 'deb-systemd\|DPKG' "$folder/$step" || fail "the script $step uses Debian's programs"
done
for step in PREIN PRETRANS POSTTRANS; do
    [ "$(cat "$folder/$step")" = '(none)' ] || fail "there is a script $step"
done

echo "== the programs"
mkdir "$folder/unpacked"
# rpm2cpio ends with status 1 because the package has the size of its archive only in the tag that
# newer versions of RPM read. The checksums of the files show that the archive is complete.
rpm2cpio "$package" >"$folder/archive" || [ $? -eq 1 ]
(cd "$folder/unpacked" && cpio --extract --quiet --make-directories <"$folder/archive")
query --queryformat '[%{FILEDIGESTS} .%{FILENAMES}\n]' "$package" |
    sed 's/ / */' >"$folder/digests"
(cd "$folder/unpacked" && sha256sum --check --status "$folder/digests") ||
    fail "the unpacked files are not those of the package"
for program in larderd larder; do
    line=$("$folder/unpacked/usr/bin/$program" -V | tail -n 1)
    [[ $line == "larder $version (commit "* ]] || fail "$program -V prints: $line"
done
"$folder/unpacked/usr/bin/larderd" --config "$folder/unpacked/etc/larder/larderd.toml" \
    --print-config >/dev/null || fail "larderd refuses the configuration of the package"
gzip --test "$folder"/unpacked/usr/share/man/man1/*.gz

packaging/debian-root.sh "$folder/root" systemd
mkdir "$folder/root/test"
cp packaging/rpm-steps.sh "$folder/root/test/"
cp "$folder"/[12]/*.rpm "$folder/root/test/"
# Namespaces separate the test's ports and processes from this machine's. When the first process of
# the namespace ends, all others end.
unshare --mount --net --pid --fork --kill-child sh -c '
    ip link set lo up
    mount -t proc proc "$1/proc"
    mount -t tmpfs tmpfs "$1/run"
    exec packaging/rpm-steps.sh "$1"
' sh "$folder/root" || fail "a step failed: see the last line above"
echo "rpm-test: the package is installed, upgraded and removed cleanly, by Debian's rpm"

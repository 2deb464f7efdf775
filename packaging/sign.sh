#!/usr/bin/env bash
# Writes the checksums of all files of a folder to SHA256SUMS, and their signature to
# SHA256SUMS.asc: sign.sh FOLDER. gpg signs with the key LARDER_SIGN_KEY, which gpg's --local-user
# takes: a fingerprint or a mail address. Without the variable there is no signature.
# `sign.sh --check` only checks that the key can sign, before a long build.
set -euo pipefail

key=${LARDER_SIGN_KEY:-}

fail() {
    echo "sign: $*" >&2
    exit 1
}

# Signs a file: sign FILE SIGNATURE
sign() {
    gpg --batch --yes --quiet --armor --detach-sign --local-user "$key" --output "$2" "$1" ||
        fail "gpg cannot sign with LARDER_SIGN_KEY=$key, expected a secret key of" \
            "gpg --list-secret-keys (GNUPGHOME names another keyring)"
    gpg --batch --quiet --verify "$2" "$1" 2>/dev/null ||
        fail "gpg does not accept its own signature of $1"
}

[ -n "${1:-}" ] || fail "name the folder with the files: sign.sh FOLDER, or --check"
[ -z "$key" ] || command -v gpg >/dev/null ||
    fail "LARDER_SIGN_KEY is set, and gpg is missing: apt-get install gpg"
if [ "$1" = --check ]; then
    [ -n "$key" ] || exit 0
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    echo probe >"$folder/probe"
    sign "$folder/probe" "$folder/probe.asc"
    exit 0
fi

cd "$1"
rm -f SHA256SUMS SHA256SUMS.asc
# Packages of other languages are in folders, which have their own places.
find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' -printf '%P\0' | sort --zero-terminated |
    xargs --null sha256sum -- >SHA256SUMS.new
mv SHA256SUMS.new SHA256SUMS
sha256sum --check --quiet SHA256SUMS
if [ -n "$key" ]; then
    sign SHA256SUMS SHA256SUMS.asc
    echo "sign: SHA256SUMS.asc is the signature of $key"
else
    echo "sign: no signature: LARDER_SIGN_KEY names no key"
fi

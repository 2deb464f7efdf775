#!/usr/bin/env bash
# Signs files with a key that exists only for this run, and verifies them as docs/releases.md tells
# users. A changed byte, another key and a missing key must fail. Needs gpg.
set -euo pipefail
cd "$(dirname "$0")/.."
sign=$PWD/packaging/sign.sh
unset LARDER_SIGN_KEY

fail() {
    echo "sign-test: $*" >&2
    exit 1
}

command -v gpg >/dev/null || fail "gpg is missing: apt-get install gpg gpg-agent"
folder=$(mktemp -d)
mkdir -m 700 "$folder/signer" "$folder/user" "$folder/stranger"
# An agent runs for each keyring, and uses only that one. A test that fails early has keyrings
# without an agent; ending those must not replace the test's exit status.
trap 'for home in signer user stranger; do
    gpgconf --homedir "$folder/$home" --kill gpg-agent || true; done; rm -rf "$folder"' EXIT

# Makes a key without a password: make_key KEYRING ADDRESS
make_key() {
    gpg --homedir "$folder/$1" --batch --quiet --pinentry-mode loopback --passphrase '' \
        --quick-generate-key "Test of Larder <$2>" ed25519 sign 1d
}

# Verifies the files like a user who has only the public key: verify
verify() {
    (cd "$folder/files" &&
        gpg --homedir "$folder/user" --batch --quiet --verify SHA256SUMS.asc SHA256SUMS 2>"$folder/said" &&
        sha256sum --check --status SHA256SUMS)
}

# Signs the files again: signed KEY
signed() {
    GNUPGHOME=$folder/signer LARDER_SIGN_KEY=$1 "$sign" "$folder/files"
}

# Changes the tenth byte of a file.
flip() {
    local byte
    byte=$(od --address-radix=n --format=u1 --skip-bytes=9 --read-bytes=1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # The format is the byte.
    printf "\\x$(printf %x $((byte ^ 1)))" |
        dd of="$1" bs=1 seek=9 count=1 conv=notrunc status=none
}

mkdir "$folder/files"
for name in larder_1.deb larder-1.tar.gz; do
    head -c 5000 /dev/urandom >"$folder/files/$name"
done

said=$("$sign" "$folder/files")
[[ $said == *"no signature"* ]] || fail "without a key sign.sh prints: $said"
[ ! -e "$folder/files/SHA256SUMS.asc" ] || fail "there is a signature without a key"
[ "$(wc -l <"$folder/files/SHA256SUMS")" -eq 2 ] || fail "SHA256SUMS does not list both files"

make_key signer release@larder.invalid
make_key stranger release@larder.invalid
gpg --homedir "$folder/signer" --batch --armor --export release@larder.invalid >"$folder/key.asc"
gpg --homedir "$folder/user" --batch --quiet --import "$folder/key.asc"

signed release@larder.invalid >"$folder/log"
verify || fail "the signature is not valid: $(cat "$folder/said")"
grep -q 'Good signature' "$folder/said" || fail "gpg says: $(cat "$folder/said")"
! grep -q 'SHA256SUMS' "$folder/files/SHA256SUMS" || fail "the checksums list themselves"

flip "$folder/files/SHA256SUMS"
! verify || fail "a changed byte of SHA256SUMS is not found"
grep -q 'BAD signature' "$folder/said" || fail "gpg says: $(cat "$folder/said")"

signed release@larder.invalid >"$folder/log"
verify || fail "a new signature is not valid"
flip "$folder/files/larder-1.tar.gz"
! verify || fail "a changed byte of a file is not found"
grep -q 'Good signature' "$folder/said" || fail "the signature is bad, expected a bad checksum"

# The same name with another key.
GNUPGHOME=$folder/stranger LARDER_SIGN_KEY=release@larder.invalid "$sign" "$folder/files" \
    >"$folder/log"
! verify || fail "the signature of a stranger is valid"
grep -q 'No public key' "$folder/said" || fail "gpg says: $(cat "$folder/said")"

rm "$folder/files/SHA256SUMS.asc"
! signed nobody@larder.invalid >"$folder/log" 2>&1 || fail "a key that does not exist signs"
grep -q 'LARDER_SIGN_KEY=nobody@larder.invalid' "$folder/log" || fail "$(cat "$folder/log")"
! GNUPGHOME=$folder/signer LARDER_SIGN_KEY=nobody@larder.invalid "$sign" --check \
    2>"$folder/log" || fail "--check accepts a key that does not exist"
GNUPGHOME=$folder/signer LARDER_SIGN_KEY=release@larder.invalid "$sign" --check ||
    fail "--check refuses the key"
echo "sign-test: a signature is valid, and a changed byte, another key and a missing key are found"

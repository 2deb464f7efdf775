#!/bin/bash
# The steps of rpm-test.sh that install packages, as the first process of its namespaces:
# rpm-steps.sh ROOT. This machine's rpm installs them into ROOT, a Debian, where their scripts run.
# Without systemd, the steps start the service according to its unit.
set -euo pipefail
root=$1
log=$root/test/log

fail() {
    echo "rpm-test: $*" >&2
    [ ! -f "$log" ] || sed 's/^/larderd: /' "$log" >&2
    exit 1
}

# The database of packages is empty, so it has nothing that the package requires.
rpm_in() {
    rpm --root "$root" --nosignature --nodeps "$@" 2>"$root/test/said" ||
        fail "rpm $*: $(cat "$root/test/said")"
    # rpm only warns if a script fails.
    ! grep -q 'scriptlet failed' "$root/test/said" || fail "rpm $*: $(cat "$root/test/said")"
}

run() {
    chroot "$root" "$@"
}

unit() {
    sed -n "s/^$2=//p" "$root/usr/lib/systemd/system/$1"
}

# Prints the files of ROOT, without those that rpm and systemd-sysusers write. On distributions with
# RPM packages other packages have the shared folders in the second pattern.
files() {
    (cd "$root" && find . -xdev -path ./test -prune -o -path ./var/lib/rpm -prune -o \
        -path ./root/.rpmdb -prune -o -print | sort) |
        grep -v -x -e './etc/\(\(passwd\|group\|shadow\|gshadow\)-\|\.pwd\.lock\)' \
            -e './usr/share/\(fish\(/vendor_completions.d\)\?\|licenses\|zsh/site-functions\)'
}

files >"$root/test/before"

echo "== install"
rpm_in --install "$root"/test/larder-*-1.*.rpm
[ "$(run id -gn _larder)" = larder ] || fail "the user _larder has another group than larder"
rpm_in --verify larder

echo "== start according to the unit"
read -r -a command <<<"$(unit larderd.service ExecStart)"
run install -d -o _larder -g larder /run/larder /var/lib/larder
run setpriv --reuid _larder --regid larder --init-groups --no-new-privs --bounding-set=-all \
    "${command[@]}" >"$log" 2>&1 &
for _ in $(seq 100); do
    run larder ping >/dev/null 2>&1 && break
    sleep 0.1
done
first=$(cat "$root/run/larder/larderd.pid")
run larder set kept 'a value'

echo "== upgrade"
echo '# changed here' >>"$root/etc/larder/larderd.toml"
rpm_in --upgrade "$root"/test/larder-*-2.*.rpm
second=$(cat "$root/run/larder/larderd.pid")
[ "$second" != "$first" ] || fail "the old larderd still runs: post did not make it hand over"
[ "$(run readlink "/proc/$second/exe")" = /usr/bin/larderd ] ||
    fail "the new larderd is not the installed one: $(run readlink "/proc/$second/exe")"
[ "$(run larder get kept)" = 'a value' ] || fail "the upgrade lost an item"
grep -q '^# changed here' "$root/etc/larder/larderd.toml" || fail "the upgrade changed larderd.toml"
for _ in $(seq 100); do
    kill -0 "$first" 2>/dev/null || break
    sleep 0.1
done
! kill -0 "$first" 2>/dev/null || fail "the old larderd still runs without connections"

echo "== remove"
rpm_in --erase larder
! kill -0 "$second" 2>/dev/null || fail "larderd still runs after the removal of its package"
[ -f "$root/etc/larder/larderd.toml.rpmsave" ] || fail "the removal deleted the changed file"
# Users stay, because a new user with the same id would own their files.
rm -r "$root/etc/larder/larderd.toml.rpmsave" "$root/var/lib/larder"
rmdir "$root/etc/larder"
files >"$root/test/after"
diff "$root/test/before" "$root/test/after" || fail "the removal left these files, or removed them"

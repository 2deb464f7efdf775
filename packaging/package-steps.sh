#!/bin/bash
# The steps of package-test.sh inside the Debian, as the first process of its namespaces. Without
# systemd, the steps start the service according to its unit.
set -euo pipefail
cd /test

fail() {
    echo "package-test: $*" >&2
    [ ! -f log ] || sed 's/^/larderd: /' log >&2
    exit 1
}

# Prints the value of a key of a unit.
unit() {
    sed -n "s/^$2=//p" "/lib/systemd/system/$1"
}

# Prints the first line of the answer of the admin listener: answer PATH
answer() {
    exec 3<>/dev/tcp/127.0.0.1/9150
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$1" >&3
    head -n 1 <&3 | tr -d '\r'
    exec 3<&-
}

files() {
    find / -xdev -path /test -prune -o -path /var/lib/dpkg -prune -o -path /var/log -prune -o \
        -path /var/cache -prune -o -print | sort
}

# Prints a row of stats.
stat_of() {
    larder stats --raw | sed -n "s/^STAT $1 \([^ \r]*\).*/\1/p"
}

status_of() {
    # dpkg-query ends with status 1 for an unknown package.
    dpkg-query --show --showformat='${db:Status-Abbrev}' larder 2>/dev/null || [ $? -eq 1 ]
}

files >files.before

echo "== install"
dpkg --install first/larder_*.deb
[ "$(status_of)" = "ii " ] || fail "after the installation the package is: $(status_of)"
dpkg-query --show --showformat='${Conffiles}\n' larder | grep -q ' /etc/larder/larderd.toml ' ||
    fail "larderd.toml is not a conffile"
for file in /usr/share/man/man1/larderd.1.gz /usr/share/man/man1/larder.1.gz \
    /usr/share/bash-completion/completions/larder /lib/systemd/system/larderd.socket; do
    [ -f "$file" ] || fail "$file is missing"
done
[ -L /etc/systemd/system/multi-user.target.wants/larderd.service ] || fail "larderd is not enabled"
[ ! -e /etc/systemd/system/sockets.target.wants/larderd.socket ] || fail "the socket is enabled"
[ "$(id -gn _larder)" = larder ] || fail "the user _larder has another group than larder"
larder --version | grep -q '^larder [0-9.]* (commit ' ||
    fail "larder --version does not print its commit"
# Each commented line is an option with its default.
sed 's/^#\([a-z_]* = .*[^"]\)$/\1/' /etc/larder/larderd.toml >all.toml
larderd --config all.toml --print-config >/dev/null || fail "the commented lines are not valid"

echo "== start according to the unit"
read -r -a command <<<"$(unit larderd.service ExecStart)"
install -d -o _larder -g larder "/run/$(unit larderd.service RuntimeDirectory)"
items=$(unit var-lib-larder.mount Where)
mkdir -p "$items"
mount -t tmpfs -o "$(unit var-lib-larder.mount Options | sed 's/%%/%/')" tmpfs "$items"
setpriv --reuid "$(unit larderd.service User)" --regid "$(unit larderd.service Group)" \
    --init-groups --no-new-privs --bounding-set=-all "${command[@]}" >log 2>&1 &
first=$!
for _ in $(seq 100); do
    larder ping >/dev/null 2>&1 && break
    kill -0 "$first" 2>/dev/null || fail "larderd has ended"
    sleep 0.1
done
[ "$(cat /run/larder/larderd.pid)" = "$first" ] || fail "the pid file does not name larderd"

echo "== use"
for number in $(seq 200); do
    larder set "kept$number" "value $number"
done
[ "$(larder get kept7)" = "value 7" ] || fail "a stored value is missing"
[ "$(answer /ready)" = "HTTP/1.1 200 OK" ] || fail "/ready: $(answer /ready)"
[ "$(answer /api/v1/settings)" = "HTTP/1.1 403 Forbidden" ] ||
    fail "the TCP admin listener allows more than probes: $(answer /api/v1/settings)"
[ "$(stat --format '%a %U %G' /run/larder/admin.sock)" = "660 _larder larder" ] ||
    fail "/run/larder/admin.sock is $(stat --format '%a %U %G' /run/larder/admin.sock)"

echo "== upgrade under load"
first_build=$(stat_of larder_commit)
[ -n "$first_build" ] && [ "$first_build" != second-build ] ||
    fail "the first larderd is build '$first_build', expected a build other than the second"
larder bench --mode mix --rate 2000 --seconds 12 --connections 20 --keys 2000 --json >bench.json &
load=$!
sleep 3
# Changes of an administrator must survive.
echo '# changed here' >>/etc/larder/larderd.toml
dpkg --install second/larder_*.deb
second=$(cat /run/larder/larderd.pid)
[ "$second" != "$first" ] || fail "the old larderd still runs: postinst did not make it hand over"
[ "$(readlink "/proc/$second/exe")" = /usr/bin/larderd ] || fail "the new larderd is not installed"
[ "$(stat_of larder_commit)" = second-build ] ||
    fail "larderd is build '$(stat_of larder_commit)' after the upgrade, not the second build"
grep -q '^# changed here' /etc/larder/larderd.toml || fail "the upgrade changed larderd.toml"
for number in $(seq 200); do
    [ "$(larder get "kept$number")" = "value $number" ] || fail "kept$number was lost"
done
wait "$load" || fail "the load failed: $(cat bench.json)"
for clean in '"wrong_values":0,' '"lost_connections":0,' '"errors":{}'; do
    grep -qF "$clean" bench.json || fail "the load had errors, expected $clean: $(cat bench.json)"
done
# A server that started empty would have missed the keys that the load stored before the upgrade.
[ "$(stat_of get_misses)" -eq 0 ] || fail "the new larderd missed $(stat_of get_misses) keys"
for _ in $(seq 100); do
    kill -0 "$first" 2>/dev/null || break
    sleep 0.1
done
! kill -0 "$first" 2>/dev/null || fail "the old larderd still runs without connections"

echo "== remove"
dpkg --remove larder
! kill -0 "$second" 2>/dev/null || fail "larderd still runs after the removal of its package"
[ -f /etc/larder/larderd.toml ] || fail "the removal deleted the conffile"
[ ! -e /usr/bin/larderd ] || fail "the removal left larderd"

echo "== purge"
umount "$items"
dpkg --purge larder
[ -z "$(status_of)" ] || [ "$(status_of)" = "un " ] || fail "after the purge: $(status_of)"
files >files.after
# Users stay, as Debian recommends: a new user with the same id would own their files. diff ends
# with 1 if there are differences, with 2 if it cannot compare.
diff files.before files.after >left || [ $? -eq 1 ]
users='> /etc/\(\(passwd\|group\|shadow\|gshadow\)-\|\.pwd\.lock\)'
if grep '^[<>]' left | grep -v -x "$users"; then
    fail "the purge left these files, or removed them"
fi

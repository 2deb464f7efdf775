#!/usr/bin/env bash
# Runs the tests of gomemcache on larder/client: copies them next to our sources under its package
# name. The tests of gomemcache's own parser are omitted. Its test server panics on meta commands,
# so that test uses the text protocol.
source "$(dirname "$0")/../../conformance/clients/server.sh"

version=v0.0.0-20260422231931-4d751bb6e37c
client=$root/go/client
command -v go >/dev/null || fail "go is missing: run conformance/install.sh"

link_as_memcached
# The test flushes on one connection and stores on another without waiting. With one worker, the
# server keeps the order.
start_on_port 11211 -t 1
mkdir "$folder/module"
cd "$folder/module"
go mod init gomemcache.test/gomemcache >/dev/null 2>&1
go mod edit -require=larder.example/larder@v0.0.0 -replace=larder.example/larder="$root/go"
theirs=$(go mod download -json "github.com/bradfitz/gomemcache@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
[ -d "$theirs" ] || fail "cannot download gomemcache"

for file in "$client"/*.go; do
    case $file in *_test.go) continue ;; esac
    sed 's/^package client$/package memcache/' "$file" >"$(basename "$file")"
done
for file in "$theirs"/memcache/*_test.go; do
    sed -e '/^func BenchmarkOnItem/,/^}/d' -e '/^func BenchmarkScanGetResponseLine/,/^}/d' \
        -e '/^func TestScanGetResponseLine/,/^}/d' \
        -e 's/testWithClient(t, New(ln.Addr().String()))/c := New(ln.Addr().String()); c.options.Protocol = ProtocolText; testWithClient(t, c)/' \
        "$file" >"their_$(basename "$file")"
done
# Imports that only the omitted tests use.
sed -i -e '/^\t"bufio"$/d' -e '/^\t"io\/ioutil"$/d' their_memcache_test.go
echo 'package memcache; var crlf = []byte("\r\n")' >crlf_test.go

play_go .
conclude "$passed" "$failed" "$skipped skipped"

#!/usr/bin/env bash
# Runs the tests of BigCache on larder/bigcache: copies them next to our sources. Where they advance
# the clock, real time passes; where they check callbacks, they wait a moment, because ours may run
# in a sweep of the cache. The assertion that an entry was stored in 1970 is removed. The tests in
# `others` are omitted for the reasons given.
source "$(dirname "$0")/../../../conformance/clients/server.sh"

version=v3.1.0
bigcache=$root/bindings/go/bigcache
command -v go >/dev/null || fail "go is missing: run conformance/install.sh"

others='
TestAppendCollision                                 keys do not collide
TestHashCollision                                   keys do not collide
TestBigCache_GetWithInfoCollision                   keys do not collide
TestTimingEvictionShouldEvictOnlyFromUpdatedShard   expects an expired entry
TestBigCache_GetWithInfo                            expects an expired entry
TestCacheCapacity                                   expects the exact growth of BigCache
TestCacheInitialCapacity                            expects the exact growth of BigCache
TestOldestEntryDeletionWhenMaxCacheSizeIsReached    expects an entry of more than half of the memory
TestRetrievingEntryShouldCopy                       expects an entry of a third of the memory
TestRemoveEntriesWhenShardIsFull                    expects an entry of a third of the memory
TestEntriesIteratorWithConcurrentUpdate             evicts through internal shards
'

mkdir "$folder/module"
cd "$folder/module"
go mod init larder.example/bigcache >/dev/null 2>&1
go mod edit -require=larder.example/larder@v0.0.0 -replace=larder.example/larder="$root/bindings/go"
theirs=$(go mod download -json "github.com/allegro/bigcache/v3@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
[ -d "$theirs" ] || fail "cannot download BigCache"

for file in "$bigcache"/*.go; do
    case $file in *_test.go) ;; *) cp "$file" . ;; esac
done
awk 'NF { print "/^func " $1 "(/,/^}/d" }' <<<"$others" >"$folder/left_out"
for file in bigcache iterator assert fnv hash; do
    # The tests use our clock, which is defined below.
    sed -f "$folder/left_out" \
        -e '/^type mockedClock/,/^}/d' -e '/^func (mc \*mockedClock)/,/^}/d' \
        -e 's/cache\.hash\./cache.config.Hasher./' \
        -e 's/^\(\t*\)\/\/ then$/\1time.Sleep(200 * time.Millisecond)/' \
        -e '/assertEqual(t, uint64(0), current.Timestamp())/d' \
        "$theirs/${file}_test.go" >"their_${file}_test.go"
done
cat >clock_test.go <<'EOF'
package bigcache

import (
	"context"
	"time"
)

// mockedClock advances by waiting, and then reclaims expired entries.
type mockedClock struct {
	value int64
	cache *BigCache
}

func (c *mockedClock) Epoch() int64 { return c.value }

func (c *mockedClock) set(value int64) {
	// A clock that is set to the current time does not advance.
	if by := value - c.value; by > 0 && by < 60 {
		time.Sleep(time.Duration(by) * time.Second)
		c.cache.cleanUp(0)
	}
	c.value = value
}

// newBigCache extends the life of entries by a second, because waiting takes longer than the clock
// advances.
func newBigCache(ctx context.Context, config Config, clock *mockedClock) (*BigCache, error) {
	config.LifeWindow += time.Second
	cache, err := New(ctx, config)
	clock.cache = cache
	return cache, err
}

func (c *BigCache) cleanUp(uint64) {
	_ = c.cache.Maintain()
	time.Sleep(200 * time.Millisecond)
}
EOF

play_go -vet=off .
conclude "$passed" "$failed" "$(wc -l <"$folder/left_out") left out"

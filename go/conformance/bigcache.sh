#!/usr/bin/env bash
# Runs the tests of BigCache 3.1.0 and 3.2.0 on larder/bigcache: copies them next to our sources.
# The tests set our clock. Setting the clock removes expired entries, which BigCache does at the
# next Set. The tests in `others` are omitted for the reasons given.
LARDERD=none
source "$(dirname "$0")/../../conformance/clients/server.sh"

versions='v3.1.0 v3.2.0'
bigcache=$root/go/bigcache
command -v go >/dev/null || fail "go is missing: run conformance/install.sh"

others='
TestAppendCollision                                 keys do not collide
TestHashCollision                                   keys do not collide
TestBigCache_GetWithInfoCollision                   keys do not collide
TestTimingEvictionShouldEvictOnlyFromUpdatedShard   expects an expired entry
TestBigCache_GetWithInfo                            expects an expired entry
TestCacheCapacity                                   expects the exact growth of BigCache
TestOldestEntryDeletionWhenMaxCacheSizeIsReached    expects an entry of more than half of the memory
TestRetrievingEntryShouldCopy                       expects an entry of a third of the memory
TestRemoveEntriesWhenShardIsFull                    expects an entry of a third of the memory
'
awk 'NF { print "/^func " $1 "(/,/^}/d" }' <<<"$others" >"$folder/left_out"

all_passed=0
all_failed=0
for version in $versions; do
    mkdir "$folder/$version"
    cd "$folder/$version"
    go mod init bigcache.test/bigcache >/dev/null 2>&1
    go mod edit -require=larder.example/larder@v0.0.0 -replace=larder.example/larder="$root/go"
    theirs=$(go mod download -json "github.com/allegro/bigcache/v3@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    [ -d "$theirs" ] || fail "cannot download BigCache $version"
    for file in "$bigcache"/*.go; do
        case $file in *_test.go) ;; *) cp "$file" . ;; esac
    done
    # The tests use our clock, which is defined below, and one evicts through internal shards.
    for file in bigcache iterator assert fnv hash; do
        sed -f "$folder/left_out" \
            -e '/^type mockedClock/,/^}/d' -e '/^func (mc \*mockedClock)/,/^}/d' \
            -e 's/cache\.hash\./cache.config.Hasher./' \
            -e '/getOldestEntry := func/,/^\t}/d' \
            -e '/^\tfor i := 0; i < cache.config.Shards/,/^\t}/c\	cache.Delete("key")' \
            "$theirs/${file}_test.go" >"their_${file}_test.go"
    done
    # An entry of 3.1.0 expires after the second in which its life ends.
    extra=0
    [ "$version" != v3.1.0 ] || extra=time.Millisecond
    cat >clock_test.go <<END
package bigcache

import (
	"context"
	"time"
)

// mockedClock is the clock of a cache, in seconds.
type mockedClock struct {
	value int64
	cache *BigCache
}

func (c *mockedClock) Epoch() int64 { return c.value }

func (c *mockedClock) set(value int64) {
	c.value = value
	c.cache.cleanUp(0)
}

func newBigCache(ctx context.Context, config Config, clock *mockedClock) (*BigCache, error) {
	config.LifeWindow += $extra
	cache, err := open(ctx, config, func() time.Time { return time.Unix(clock.value, 0) })
	clock.cache = cache
	return cache, err
}

func (c *BigCache) cleanUp(uint64) { _ = c.cache.Maintain() }
END
    play_go -vet=off .
    all_passed=$((all_passed + passed))
    all_failed=$((all_failed + failed))
done
conclude "$all_passed" "$all_failed" "$(wc -l <"$folder/left_out") of each version left out"

package shared

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestKeysAndAllVisitEveryItem(t *testing.T) {
	cache := openCache(t, Options{})
	for n := range 1000 {
		set(t, cache, fmt.Sprintf("%d:%d", n%2, n), fmt.Sprint(n))
	}
	keys := slices.Compact(slices.Sorted(cache.Keys("1:")))
	check.Equal(t, "distinct keys with prefix 1:", len(keys), 500)
	check.Equal(t, "smallest key with prefix 1:", keys[0], "1:1")
	seen := 0
	for key, value := range cache.All("") {
		if !strings.HasSuffix(key, ":"+string(value)) {
			t.Errorf("All: value of %q = %q, want the part behind the colon", key, value)
		}
		// The loop may use the cache, and stop early.
		_, _ = cache.Delete(key)
		if seen++; seen == 10 {
			break
		}
	}
	check.Equal(t, "Len", cache.Len(), 990)
}

// wrapClose returns a function that calls first, then the original with its own argument type.
func wrapClose[T any](first func(argument any), original func(T)) func(T) {
	return func(argument T) {
		first(argument)
		original(argument)
	}
}

func TestGarbageCollectorDoesNotCloseWalkDuringStep(t *testing.T) {
	cache := openCache(t, Options{Memory: 64 << 20})
	// Enough keys for a step without a match to take milliseconds.
	for at := range 300_000 {
		set(t, cache, fmt.Sprint(at), "v")
	}
	// The C part of the walk whose step is in progress; not a reference to the walk.
	var inStep atomic.Value
	var closed, closedInStep atomic.Int64
	original := closeKeys
	closeKeys = wrapClose(func(keys any) {
		if keys == inStep.Load() {
			closedInStep.Add(1)
		}
		closed.Add(1)
	}, original)
	t.Cleanup(func() {
		// Until the garbage collector has closed the last walk.
		for closed.Load() < 5 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		closeKeys = original
	})
	none := any(new(Walk).keys)
	for range 5 {
		done := make(chan bool)
		go func() {
			walk := cache.Walk("no key has this prefix")
			keys := any(walk.keys)
			inStep.Store(keys)
			_, found := walk.Next()
			inStep.Store(none)
			done <- found
		}()
		for isOver := false; !isOver; {
			select {
			case found := <-done:
				isOver = true
				check.Equal(t, "Next found a key", found, false)
			default:
				runtime.GC()
			}
		}
	}
	check.Equal(t, "walks closed during a step", closedInStep.Load(), 0)
}

func TestSharedWalkMayBeClosedByOneGoroutine(t *testing.T) {
	const keys = 1000
	cache := openCache(t, Options{})
	for at := range keys {
		set(t, cache, fmt.Sprint(at), "v")
	}
	for round := range 50 {
		walk := cache.Walk("")
		// Round 0 does not close the walk before its end.
		closeAt := int64(20 * round)
		var returned atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for _, more := walk.Next(); more; _, more = walk.Next() {
					if returned.Add(1) == closeAt {
						walk.Close()
					}
				}
				walk.Close()
			}()
		}
		all.Wait()
		least := min(closeAt, keys)
		if round == 0 {
			least = keys
		}
		if returned.Load() < least {
			t.Fatalf("round %d: Next returned %d keys, want at least %d", round, returned.Load(), least)
		}
	}
}

package larder

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// before has a function called before another one, whatever that takes.
func before[T any](first func(argument any), then func(T)) func(T) {
	return func(argument T) {
		first(argument)
		then(argument)
	}
}

// filled has so many keys that a step of a walk that finds none takes milliseconds.
func filledCache(t *testing.T) *Cache {
	cache := openCache(t, Options{Memory: 64 << 20})
	for at := range 300_000 {
		set(t, cache, fmt.Sprint(at), "v")
	}
	return cache
}

func TestTheCollectorDoesNotCloseAWalkInTheMiddleOfAStep(t *testing.T) {
	cache := filledCache(t)
	// What the walk has in C that is inside a step; no reference to the walk.
	var inside atomic.Value
	var closed, closedInside atomic.Int64
	whole := closeKeys
	closeKeys = before(func(keys any) {
		if keys == inside.Load() {
			closedInside.Add(1)
		}
		closed.Add(1)
	}, whole)
	// Until the last of them has been closed.
	t.Cleanup(func() {
		for closed.Load() < 5 {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		closeKeys = whole
	})
	none := any(new(Walk).keys)
	for range 5 {
		done := make(chan bool)
		go func() {
			walk := cache.Walk("none begins with this")
			keys := any(walk.keys)
			inside.Store(keys)
			_, found := walk.Next()
			inside.Store(none)
			done <- found
		}()
		for isOver := false; !isOver; {
			select {
			case found := <-done:
				isOver = true
				if found {
					t.Error("a key was found")
				}
			default:
				runtime.GC()
			}
		}
	}
	if closedInside.Load() != 0 {
		t.Error("a walk was closed while it was used")
	}
}

func TestGoroutinesShareAWalkAndOneClosesIt(t *testing.T) {
	cache := openCache(t, Options{})
	for at := range 1000 {
		set(t, cache, fmt.Sprint(at), "v")
	}
	for round := range 50 {
		walk := cache.Walk("")
		var given atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for _, more := walk.Next(); more; _, more = walk.Next() {
					if given.Add(1) == int64(20*round) {
						walk.Close()
					}
				}
				walk.Close()
			}()
		}
		all.Wait()
		if least := min(int64(20*round), 1000); given.Load() < least || round == 0 && given.Load() < 1000 {
			t.Fatalf("%d keys were given; expected %d at least", given.Load(), least)
		}
	}
}

package bench

import (
	"fmt"
	"math/rand"
	"strings"
)

const (
	// KeyBytes is the length of every key.
	KeyBytes = 16
	// ValueBytes is the length of every value.
	ValueBytes = 100
)

// Key returns the key with a number.
func Key(number int) string { return fmt.Sprintf("key:%012d", number) }

// Keys returns the first count keys in a random order, the same in each run.
func Keys(count int) []string {
	keys := make([]string, count)
	for at, number := range rand.New(rand.NewSource(1)).Perm(count) {
		keys[at] = Key(number)
	}
	return keys
}

// Draw draws keys by Zipf's law with exponent 1.01, the first ones most often, the same in each
// run. The drawn keys are adjacent in memory, as close to the processor as keys that a caller has
// just built: the benchmark measures the cache, not the caller's cache misses on the key.
func Draw(keys []string, count int) []string {
	zipf := rand.NewZipf(rand.New(rand.NewSource(2)), 1.01, 1, uint64(len(keys)-1))
	var text strings.Builder
	text.Grow(count * KeyBytes)
	drawn := make([]string, count)
	for at := range drawn {
		text.WriteString(keys[zipf.Uint64()])
		drawn[at] = text.String()[at*KeyBytes:]
	}
	return drawn
}

// Fill stores a value for each key.
func Fill(cache Cache, count int, key func(int) string) {
	value := make([]byte, ValueBytes)
	for at := range count {
		value[at%ValueBytes]++
		cache.Set(key(at), value)
		// An asynchronous cache that cannot keep up drops items.
		if waiter, ok := cache.(Waiter); ok && at%1000 == 999 {
			waiter.Wait()
		}
	}
	if waiter, ok := cache.(Waiter); ok {
		waiter.Wait()
	}
}

package bench

import (
	"fmt"
	"math/rand"
	"strings"
)

const (
	// KeyBytes is the length of all keys.
	KeyBytes = 16
	// ValueBytes is that of all values.
	ValueBytes = 100
)

// Key is the key with a number.
func Key(number int) string { return fmt.Sprintf("key:%012d", number) }

// Keys are the first so many, in random order, the same each time.
func Keys(count int) []string {
	keys := make([]string, count)
	for at, number := range rand.New(rand.NewSource(1)).Perm(count) {
		keys[at] = Key(number)
	}
	return keys
}

// Draw draws some of the keys, the first ones most often, as zipf's law with exponent 1.01 has it; the same each time. They
// lie one behind the other, as near to the processor as keys are to whoever has just made them: what is measured is how long
// the cache takes, and not how long its caller waits for the key.
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
		// Who stores later and cannot keep up would forget some.
		if waiter, ok := cache.(Waiter); ok && at%1000 == 999 {
			waiter.Wait()
		}
	}
	if waiter, ok := cache.(Waiter); ok {
		waiter.Wait()
	}
}

package engine

import (
	"bytes"
	"math/rand"
	"testing"
)

// FuzzEngine derives commands from the input and runs them on a cache and on a map. The first byte
// selects the shape of the cache; each following pair of bytes is the seed of one command, so that
// an input stays small.
func FuzzEngine(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{1, 200, 1, 100, 7, 200, 1, 9, 9})
	f.Add([]byte{2, 0, 0, 255, 255, 3, 4, 17, 8})
	f.Fuzz(func(t *testing.T, commands []byte) {
		if len(commands) == 0 || len(commands) > 4000 {
			return
		}
		shape := []struct {
			keys, sizeMax int
			memory        int64
		}{{20, 200, 8 << 20}, {10, 5000, 16 << 20}, {3, 50_000, 64 << 20}}[commands[0]%3]
		clock := newClock()
		cache := openTest(t, clock.config(Config{MemoryBytes: shape.memory, CAS: true}))
		p := newPair(t, cache, clock.read)
		for at := 1; at+1 < len(commands); at += 2 {
			seed := int64(commands[at])<<8 | int64(commands[at+1])
			p.step(rand.New(rand.NewSource(seed)), clock, shape.keys, shape.sizeMax)
		}
		cache.check(t)
		_ = cache.Close()
	})
}

// FuzzLoad loads damaged data.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(saveMagicOld))
	f.Add(saveHead(1))
	f.Add([]byte(saveMagicOld + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cache := openTest(t, Config{MemoryBytes: 1 << 20})
		loaded, err := cache.Load(bytes.NewReader(data))
		if err == nil && loaded.Stored > len(data) {
			t.Errorf("%d items from %d bytes", loaded.Stored, len(data))
		}
		_ = cache.Close()
	})
}

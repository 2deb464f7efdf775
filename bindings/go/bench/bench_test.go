package bench

import (
	"sync"
	"sync/atomic"
	"testing"
)

const (
	items = 1_000_000
	// A power of two, so that the index wraps without a division.
	draws = 1 << 21
	many  = 16
	// The limit of every cache: much more than a million items need.
	memory = 512 << 20
)

var (
	keys  = sync.OnceValue(func() []string { return Keys(items) })
	drawn = sync.OnceValue(func() []string { return Draw(keys(), draws) })
	// Only one cache is open at a time: others would add to the garbage collector's work.
	opened struct {
		name  string
		cache Cache
	}
)

// each measures one cache after the other; `-bench /^larder$` selects one.
func each(b *testing.B, measure func(*testing.B, Cache)) {
	for _, name := range Names {
		b.Run(name, func(b *testing.B) {
			cache := open(b, name)
			b.ReportAllocs()
			b.ResetTimer()
			measure(b, cache)
		})
	}
}

func open(b *testing.B, name string) Cache {
	drawn()
	if opened.name != name {
		if opened.cache != nil {
			opened.cache.Close()
		}
		cache, err := Open(name, items, memory)
		if err != nil {
			b.Fatal(err)
		}
		Fill(cache, items, func(at int) string { return keys()[at] })
		opened.name, opened.cache = name, cache
	}
	return opened.cache
}

func reportHits(b *testing.B, hits, gets int) {
	b.ReportMetric(100*float64(hits)/float64(gets), "%hits")
}

// BenchmarkGet measures gets into new memory.
func BenchmarkGet(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		drawn, hits := drawn(), 0
		for at := range b.N {
			if _, ok := cache.Get(drawn[at%draws]); ok {
				hits++
			}
		}
		reportHits(b, hits, b.N)
	})
}

func BenchmarkGetParallel(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		var all atomic.Int64
		var goroutines atomic.Int64
		b.RunParallel(func(loop *testing.PB) {
			drawn, hits, at := drawn(), 0, int(goroutines.Add(1))*draws/7
			for ; loop.Next(); at++ {
				if _, ok := cache.Get(drawn[at%draws]); ok {
					hits++
				}
			}
			all.Add(int64(hits))
		})
		reportHits(b, int(all.Load()), b.N)
	})
}

// BenchmarkGetInto measures gets into the caller's memory. Otter and ristretto do not need it,
// because they return the stored value; bigcache does not support it.
func BenchmarkGetInto(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		getter, ok := cache.(IntoGetter)
		if !ok {
			b.Skip("not supported")
		}
		drawn, hits, dst := drawn(), 0, make([]byte, 0, 2*ValueBytes)
		for at := range b.N {
			if _, ok := getter.GetInto(dst, drawn[at%draws]); ok {
				hits++
			}
		}
		reportHits(b, hits, b.N)
	})
}

// BenchmarkGetMany measures sixteen keys per call, as time per key. Caches without such a call read
// one key after the other, into the caller's memory if they support that.
func BenchmarkGetMany(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		drawn, hits, dst := drawn(), 0, make([]byte, 0, 2*ValueBytes)
		into, readsInto := cache.(IntoGetter)
		several, readsMany := cache.(ManyGetter)
		for at := range b.N {
			keys := drawn[at*many%draws:][:many]
			if readsMany {
				hits += several.GetMany(keys)
				continue
			}
			for _, key := range keys {
				ok := false
				if readsInto {
					_, ok = into.GetInto(dst, key)
				} else {
					_, ok = cache.Get(key)
				}
				if ok {
					hits++
				}
			}
		}
		reportHits(b, hits, b.N*many)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/key")
	})
}

func BenchmarkSet(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		drawn, value := drawn(), make([]byte, ValueBytes)
		for at := range b.N {
			cache.Set(drawn[at%draws], value)
		}
	})
}

func BenchmarkSetParallel(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		var goroutines atomic.Int64
		b.RunParallel(func(loop *testing.PB) {
			drawn, value, at := drawn(), make([]byte, ValueBytes), int(goroutines.Add(1))*draws/7
			for ; loop.Next(); at++ {
				cache.Set(drawn[at%draws], value)
			}
		})
	})
}

// A cache that drops items would look fast.
func TestCachesReturnStoredItems(t *testing.T) {
	for _, name := range Names {
		cache, err := Open(name, 10_000, 64<<20)
		if err != nil {
			t.Fatalf("Open(%q): %v", name, err)
		}
		const count = 1000
		Fill(cache, count, Key)
		hits, batch := 0, []string{}
		for number := range count {
			value, ok := cache.Get(Key(number))
			if ok && len(value) == ValueBytes {
				hits++
			}
			if into, is := cache.(IntoGetter); is {
				if value, ok := into.GetInto(make([]byte, 0, 200), Key(number)); !ok || len(value) != ValueBytes {
					t.Errorf("%s: GetInto = %d bytes, %v, want %d, true", name, len(value), ok, ValueBytes)
				}
			}
			batch = append(batch, Key(number))
		}
		if several, is := cache.(ManyGetter); is {
			if found := several.GetMany(batch); found != count {
				t.Errorf("%s: GetMany = %d, want %d", name, found, count)
			}
		}
		// ristretto may drop some items.
		if hits < count*99/100 {
			t.Errorf("%s: %d of %d items found, want at least %d", name, hits, count, count*99/100)
		}
		cache.Close()
	}
	if got := len(Draw(Keys(100), 1000)); got != 1000 {
		t.Errorf("Draw returned %d keys, want 1000", got)
	}
	if got := len(Key(7)); got != KeyBytes {
		t.Errorf("Key(7) has %d bytes, want %d", got, KeyBytes)
	}
}

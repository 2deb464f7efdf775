package bench

import (
	"sync"
	"sync/atomic"
	"testing"
)

const (
	items = 1_000_000
	// A power of two, so that nobody divides to find the next.
	draws = 1 << 21
	many  = 16
	// For all: much more than a million items need.
	memory = 512 << 20
)

var (
	keys  = sync.OnceValue(func() []string { return Keys(items) })
	drawn = sync.OnceValue(func() []string { return Draw(keys(), draws) })
	// One cache is open at a time: others would have the garbage collector do more for this one.
	opened struct {
		name  string
		cache Cache
	}
)

// Measured one after the other: `-bench /^larder$` takes those of one cache.
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

// Get into new memory.
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

// Get into the caller's memory. Otter and ristretto have no need of it, for they give what was stored; bigcache cannot.
func BenchmarkGetInto(b *testing.B) {
	each(b, func(b *testing.B, cache Cache) {
		getter, ok := cache.(IntoGetter)
		if !ok {
			b.Skip("it does not read into the caller's memory")
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

// Sixteen at a time, for each key; of those that cannot, one after the other, into the caller's memory where they can.
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

// Each cache has what was stored in it, so that what is measured is what it seems to be.
func TestCachesKeepWhatIsStored(t *testing.T) {
	for _, name := range Names {
		cache, err := Open(name, 10_000, 64<<20)
		if err != nil {
			t.Fatal(name, err)
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
					t.Errorf("%s: %d bytes into the caller's memory, %v", name, len(value), ok)
				}
			}
			batch = append(batch, Key(number))
		}
		if several, is := cache.(ManyGetter); is && several.GetMany(batch) != count {
			t.Errorf("%s: not all of many are there", name)
		}
		// ristretto may leave out some.
		if hits < count*99/100 {
			t.Errorf("%s: %d of %d are there", name, hits, count)
		}
		cache.Close()
	}
	if len(Draw(Keys(100), 1000)) != 1000 || len(Key(7)) != KeyBytes {
		t.Error("keys or draws are not as long as they should be")
	}
}

package larder

import (
	"bytes"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

func TestTouchesReportNoRemoval(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		for _, valueBytes := range []int{10, 100_000} {
			cache := openCache(t, Options{OnRemove: func(key string, _ []byte, reason Reason) {
				t.Errorf("%s of %d bytes, ttl %v: reported as %v", key, valueBytes, ttl, reason)
			}})
			check.NoError(t, cache.Set("k", make([]byte, valueBytes), ttl))
			must[bool](t)(cache.Touch("k", time.Minute))
			_, _ = cache.GetAndTouch("k", Forever)
		}
	}
}

func TestRemovalsBeforeAPanicAndByGetAndTouch(t *testing.T) {
	clock := newClock()
	var removals []string
	cache := openCache(t, Options{Clock: clock.Now, OnRemove: func(key string, _ []byte, reason Reason) {
		removals = append(removals, key+" "+reason.String())
	}})
	check.NoError(t, cache.Set("expired", []byte("v"), time.Second))
	clock.advance(time.Second)
	func() {
		defer func() { _ = recover() }()
		_ = cache.Update("expired", func([]byte, *Item, bool) ([]byte, Decision) { panic("a defect") })
	}()
	check.Equal(t, "removals before a panic in Update", fmt.Sprint(removals), "[expired expired]")
	removals = nil
	set(t, cache, "k", "v")
	_, _ = cache.GetAndTouch("k", -1)
	check.Equal(t, "removals by GetAndTouch with a negative ttl", fmt.Sprint(removals), "[k deleted]")
	check.Equal(t, "Len", cache.Len(), 0)
}

// Each stored value is either in the cache or was reported exactly once, whatever has removed it.
func TestEachRemovalIsReportedOnce(t *testing.T) {
	var lock sync.Mutex
	reports, stored := map[string]int{}, map[string]bool{}
	clock := newClock()
	var cache *Cache
	cache = openCache(t, Options{
		Memory: 1 << 20, CAS: true, Clock: clock.Now, Sweep: time.Millisecond,
		OnRemove: func(key string, value []byte, _ Reason) {
			lock.Lock()
			reports[string(value[:16])]++
			lock.Unlock()
			_, _ = cache.Get(key)
			if rand.Intn(50) == 0 {
				_, _ = cache.Delete("0" + key)
			}
		},
	})
	var all sync.WaitGroup
	for worker := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			random := rand.New(rand.NewSource(int64(worker)))
			for step := range 3000 {
				id := fmt.Sprintf("%04d/%011d", worker, step)
				value := append([]byte(id), bytes.Repeat([]byte("v"), []int{0, 1000, 20_000, 100_000}[random.Intn(4)])...)
				ttl := []time.Duration{0, time.Second, time.Hour, -1}[random.Intn(4)]
				if removalStep(cache, random, fmt.Sprint(random.Intn(200)), value, ttl) {
					lock.Lock()
					stored[id] = true
					lock.Unlock()
				}
				clock.advance(time.Millisecond)
			}
		}()
	}
	all.Wait()
	check.NoError(t, cache.Maintain())
	for _, value := range cache.All("") {
		reports[string(value[:16])]++
	}
	for id := range stored {
		if reports[id] != 1 {
			t.Errorf("%s was reported, or is in the cache, %d times", id, reports[id])
		}
		delete(reports, id)
	}
	for id := range reports {
		t.Errorf("%s was reported, but not stored", id)
	}
}

// removalStep changes a key in a random way, and returns true if it has stored the value.
func removalStep(cache *Cache, random *rand.Rand, key string, value []byte, ttl time.Duration) (isStored bool) {
	switch random.Intn(10) {
	case 0, 1:
		return cache.Set(key, value, ttl) == nil && ttl >= 0
	case 2:
		isStored, _ = cache.Add(key, value, ttl)
	case 3:
		isStored, _ = cache.Replace(key, value, ttl)
		isStored = isStored && ttl >= 0
	case 4:
		_, item, _ := cache.GetItem(key)
		_, err := cache.CompareAndSwap(key, value, ttl, item.CAS)
		return err == nil && ttl >= 0
	case 5:
		err := cache.Update(key, func(_ []byte, item *Item, _ bool) ([]byte, Decision) {
			item.TTL = ttl
			return value, StoreItem
		})
		return err == nil && ttl >= 0
	case 6:
		_, _ = cache.Touch(key, ttl)
	case 7:
		_, _ = cache.Delete(key)
	case 8:
		if random.Intn(20) == 0 {
			_, _ = cache.RemovePrefix("1")
		} else if random.Intn(20) == 0 {
			_ = cache.Clear()
		}
	case 9:
		_, _ = cache.GetAndTouch(key, ttl)
	}
	return isStored
}

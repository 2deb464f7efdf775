package larder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"larder.example/larder/internal/check"
)

// soakTime returns how long TestSoak runs: LARDER_MINUTES minutes. The default is ten seconds, or
// two seconds with -short.
func soakTime(t testing.TB) time.Duration {
	text := os.Getenv("LARDER_MINUTES")
	if text == "" {
		if testing.Short() {
			return 2 * time.Second
		}
		return 10 * time.Second
	}
	minutes, err := strconv.ParseFloat(text, 64)
	if err != nil || minutes <= 0 {
		t.Fatalf("LARDER_MINUTES is %q, want a positive number of minutes, like 0.5", text)
	}
	return time.Duration(minutes * float64(time.Minute))
}

// accounts contains the values that the cache owes, which means that it must either return or
// report them: the values that were stored and have not been reported as removed. Each value is
// stored once and begins with a number that no other value has, so that the test detects a second
// report.
type accounts struct {
	next   atomic.Uint64
	shards [64]struct {
		lock sync.Mutex
		owed map[uint64]owed
	}
}

// owed is a value that the cache must have or report.
type owed struct {
	key     string
	expires bool
}

func newAccounts() *accounts {
	a := &accounts{}
	for at := range a.shards {
		a.shards[at].owed = map[uint64]owed{}
	}
	return a
}

// open returns a new value for a key. The cache may report it from now on.
func (a *accounts) open(key string, bytes int, expires bool) (number uint64, value []byte) {
	number = a.next.Add(1)
	value = make([]byte, 8+bytes)
	binary.LittleEndian.PutUint64(value, number)
	for at := range value[8:] {
		value[8+at] = byte(number)
	}
	shard := &a.shards[number%64]
	shard.lock.Lock()
	defer shard.lock.Unlock()
	shard.owed[number] = owed{key, expires}
	return number, value
}

// close reports an error if the cache does not owe a value, and removes it from the accounts.
func (a *accounts) close(t testing.TB, number uint64, key, cause string) {
	shard := &a.shards[number%64]
	shard.lock.Lock()
	defer shard.lock.Unlock()
	if found, ok := shard.owed[number]; !ok || found.key != key {
		t.Errorf("value %d of %q is %s, but it belongs to %q, or was reported before", number, key, cause, found.key)
	}
	delete(shard.owed, number)
}

// all returns a copy of the accounts.
func (a *accounts) all() map[uint64]owed {
	all := map[uint64]owed{}
	for at := range a.shards {
		shard := &a.shards[at]
		shard.lock.Lock()
		for number, value := range shard.owed {
			all[number] = value
		}
		shard.lock.Unlock()
	}
	return all
}

// numberOf returns the number of a value, and reports an error for bytes that are not a value.
func numberOf(t testing.TB, key string, value []byte) uint64 {
	if len(value) < 8 {
		t.Errorf("value of %q has %d bytes, want at least 8", key, len(value))
		return 0
	}
	number := binary.LittleEndian.Uint64(value)
	for at, b := range value[8:] {
		if b != byte(number) {
			t.Errorf("value %d of %q has the byte %#x at %d, want %#x", number, key, b, 8+at, byte(number))
			return number
		}
	}
	return number
}

// soaker is one goroutine of TestSoak.
type soaker struct {
	t        testing.TB
	cache    *Cache
	accounts *accounts
	random   *rand.Rand
	dst      []byte
}

// value returns a new value for a key, and its time to live. The value has up to a kilobyte, or
// rarely up to a hundred. The time to live is forever or a few milliseconds.
func (s *soaker) value(key string) (number uint64, value []byte, ttl time.Duration) {
	bytes := s.random.IntN(1000)
	if s.random.IntN(200) == 0 {
		bytes = s.random.IntN(100_000)
	}
	if s.random.IntN(3) == 0 {
		ttl = time.Duration(1+s.random.IntN(30)) * time.Millisecond
	}
	number, value = s.accounts.open(key, bytes, ttl != 0)
	return number, value, ttl
}

// settle closes the account of a value that a call has not stored.
func (s *soaker) settle(number uint64, key string, isStored bool, err error) {
	if err != nil && !errors.Is(err, ErrNoMemory) && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrNotFound) {
		s.t.Errorf("store of %q: error %v, want none, or the error of a lost race", key, err)
	}
	if err != nil || !isStored {
		s.accounts.close(s.t, number, key, "not stored")
	}
}

// step executes one random operation with one random key.
func (s *soaker) step() {
	// The square makes some keys more frequent, as in real programs.
	part := s.random.Float64()
	key := fmt.Sprintf("key:%d", int(part*part*20_000))
	switch choice := s.random.IntN(100); {
	case choice < 25:
		number, value, ttl := s.value(key)
		s.settle(number, key, true, s.cache.Set(key, value, ttl))
	case choice < 30:
		number, value, ttl := s.value(key)
		isStored, err := s.cache.Add(key, value, ttl)
		s.settle(number, key, isStored, err)
	case choice < 35:
		number, value, ttl := s.value(key)
		isStored, err := s.cache.Replace(key, value, ttl)
		s.settle(number, key, isStored, err)
	case choice < 40:
		_, item, _ := s.cache.GetItem(key)
		number, value, ttl := s.value(key)
		_, err := s.cache.CompareAndSwap(key, value, ttl, item.CAS)
		s.settle(number, key, true, err)
	case choice < 45:
		number, value, ttl := s.value(key)
		err := s.cache.Update(key, func(_ []byte, item *Item, _ bool) ([]byte, Decision) {
			item.TTL = ttl
			return value, StoreItem
		})
		s.settle(number, key, true, err)
	case choice < 50:
		_, _ = s.cache.Delete(key)
	case choice < 55:
		_, _ = s.cache.Touch(key, Forever)
	case choice < 56:
		s.cache.View(key, func(value []byte) {
			before := numberOf(s.t, key, value)
			time.Sleep(time.Millisecond)
			check.Equal(s.t, "number of a value at the end of View", numberOf(s.t, key, value), before)
		})
	case choice < 60:
		s.cache.GetMany([]string{key, "key:1", "key:2"}, func(_ int, value []byte) { numberOf(s.t, key, value) })
	default:
		var ok bool
		if s.dst, ok = s.cache.GetInto(s.dst[:0], key); ok {
			numberOf(s.t, key, s.dst)
		}
	}
}

// Every stored value is found, or was reported as removed exactly once. This must hold during
// evictions, expiry, sweeps, saves, clears, with large values and with blocked views.
// LARDER_MINUTES sets the length of the test.
func TestSoak(t *testing.T) {
	check.GoroutineLeaks(t)
	const workers = 8
	accounts := newAccounts()
	var reasons [Cleared + 1]atomic.Int64
	cache := openCache(t, Options{
		Memory: 1 << 20, CAS: true, Sweep: 5 * time.Millisecond,
		OnRemove: func(key string, value []byte, reason Reason) {
			accounts.close(t, numberOf(t, key, value), key, reason.String())
			reasons[reason].Add(1)
		},
	})
	end := time.Now().Add(soakTime(t))
	soaker := func(seed uint64) *soaker {
		return &soaker{t: t, cache: cache, accounts: accounts, random: rand.New(rand.NewPCG(1, seed))}
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			s := soaker(uint64(worker))
			for time.Now().Before(end) && !t.Failed() {
				s.step()
			}
		}()
	}
	all.Add(1)
	go func() {
		defer all.Done()
		for round := 0; time.Now().Before(end) && !t.Failed(); round++ {
			time.Sleep(100 * time.Millisecond)
			check.ErrorIs(t, "Save", cache.Save(io.Discard), nil)
			switch round % 10 {
			case 1:
				check.ErrorIs(t, "Clear", cache.Clear(), nil)
			case 5:
				_, err := cache.RemovePrefix("key:1")
				check.ErrorIs(t, "RemovePrefix", err, nil)
			}
			if stats := cache.Stats(); stats.MemoryUsed > stats.MemoryLimit {
				t.Errorf("MemoryUsed is %d, want at most %d", stats.MemoryUsed, stats.MemoryLimit)
			}
		}
	}()
	all.Wait()
	// The cache may just have been cleared.
	for last := soaker(workers); cache.Len() < 100 && !t.Failed(); {
		last.step()
	}

	found := 0
	for number, owed := range accounts.all() {
		if value, ok := cache.Get(owed.key); ok && binary.LittleEndian.Uint64(value) == number {
			found++
		} else if !owed.expires {
			t.Errorf("value %d of %q was stored, is not in the cache, and was not reported", number, owed.key)
		}
	}
	check.NoError(t, cache.Clear())
	for number, owed := range accounts.all() {
		t.Errorf("value %d of %q has left the cache, and was not reported", number, owed.key)
	}
	for reason := range reasons {
		count := reasons[reason].Load()
		t.Logf("%d values %v", count, Reason(reason))
		if count == 0 {
			t.Errorf("no value was %v: the soak must cover all reasons", Reason(reason))
		}
	}
	if found == 0 {
		t.Error("the cache was empty at the end, want items")
	}
}

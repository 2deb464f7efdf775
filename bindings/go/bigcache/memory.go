package bigcache

import (
	"errors"
	"sync"
	"sync/atomic"

	"larder"
)

const (
	mebibyte = 1 << 20
	// What a larder.Cache can be asked for.
	memoryCeiling = 1 << 40
)

// sizes says how the cache is opened, and how far its memory may grow.
func memoryOptions(config *Config) larder.Options {
	if config.HardMaxCacheSize > 0 {
		memory := min(int64(config.HardMaxCacheSize), memoryCeiling/mebibyte) * mebibyte
		return larder.Options{Memory: memory, MemoryMax: memory, ItemMax: memory / 2}
	}
	return memoryOptionsWithin(config, machineBytes())
}

// sizesWithin says it for a cache without a limit in so much memory. Nothing is evicted then, as in BigCache; the machine goes
// on all the same.
func memoryOptionsWithin(config *Config, machine int64) larder.Options {
	memoryMax := min(max(machine/2, 2*mebibyte), memoryCeiling)
	expected := float64(config.MaxEntriesInWindow) * float64(config.MaxEntrySize)
	memory := int64(min(max(expected, 16*mebibyte), float64(memoryMax)/2))
	return larder.Options{Memory: memory, MemoryMax: memoryMax, ItemMax: memory / 2, NoEviction: true}
}

// memory is the limit of a cache, which grows where it has none of its own.
type memory struct {
	limit   atomic.Int64
	max     int64
	growing sync.Mutex
}

// store stores, with more memory where that is what it takes.
func (m *memory) store(cache *larder.Cache, do func() error) error {
	for {
		limit := m.limit.Load()
		err := do()
		if errors.Is(err, larder.ErrNoMemory) && m.grow(cache, limit) {
			continue
		}
		if errors.Is(err, larder.ErrTooLarge) {
			return ErrEntryTooBig
		}
		return err
	}
}

// grow raises the limit, if it is still what it was seen to be; false where it has reached its end.
func (m *memory) grow(cache *larder.Cache, seen int64) bool {
	m.growing.Lock()
	defer m.growing.Unlock()
	limit := m.limit.Load()
	if limit != seen {
		return true
	}
	next := min(limit+limit/2, m.max)
	if next <= limit || cache.SetMemory(next) != nil {
		return false
	}
	m.limit.Store(next)
	return true
}

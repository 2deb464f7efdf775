package bigcache

import (
	"errors"
	"sync"
	"sync/atomic"

	larder "larder/shared"
)

const (
	mebibyte = 1 << 20
	// The maximum memory of a larder.Cache.
	memoryCeiling = 1 << 40
)

// memoryOptions returns the memory limits of the cache.
func memoryOptions(config *Config) larder.Options {
	if config.HardMaxCacheSize > 0 {
		memory := min(int64(config.HardMaxCacheSize), memoryCeiling/mebibyte) * mebibyte
		return larder.Options{Memory: memory, MemoryMax: memory, ItemMax: memory / 2}
	}
	return memoryOptionsWithin(config, machineBytes())
}

// memoryOptionsWithin returns the limits of a cache without HardMaxCacheSize on a machine with this
// memory. As in BigCache, nothing is evicted; half of the memory remains for the machine.
func memoryOptionsWithin(config *Config, machine int64) larder.Options {
	memoryMax := min(max(machine/2, 2*mebibyte), memoryCeiling)
	expected := float64(config.MaxEntriesInWindow) * float64(config.MaxEntrySize)
	memory := int64(min(max(expected, 16*mebibyte), float64(memoryMax)/2))
	return larder.Options{Memory: memory, MemoryMax: memoryMax, ItemMax: memory / 2, NoEviction: true}
}

// memory is the current limit of a cache and its maximum.
type memory struct {
	limit   atomic.Int64
	max     int64
	growing sync.Mutex
}

// store calls do, and raises the limit and retries if memory is short.
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

// grow raises the limit unless it has changed since seen. It returns false at the maximum.
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

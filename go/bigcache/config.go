package bigcache

import (
	"errors"
	"hash/fnv"
	"log"
	"os"
	"strconv"
	"time"
)

// Config has the fields of BigCache v3's Config. Fields described as ignored have no effect.
type Config struct {
	// Shards must be a power of two; otherwise ignored.
	Shards int
	// LifeWindow is the time to live of an entry. 0 means that entries do not expire. An expired
	// entry is not returned, even before it is cleaned up.
	LifeWindow time.Duration
	// CleanWindow is the interval at which the cache removes expired entries and calls their
	// callbacks. With 0 this happens when a call finds them, or when their memory is needed.
	CleanWindow time.Duration
	// MaxEntriesInWindow times MaxEntrySize is the memory limit if HardMaxCacheSize is 0 and the
	// product exceeds 1 GiB, or 128 MiB on 32-bit systems; otherwise both are ignored.
	MaxEntriesInWindow int
	MaxEntrySize       int
	// StatsEnabled counts the requests of each key, for KeyMetadata.
	StatsEnabled bool
	// Verbose is ignored.
	Verbose bool
	// Hasher computes EntryInfo.Hash only. The cache itself uses a keyed hash and compares keys.
	Hasher Hasher
	// HardMaxCacheSize limits all memory of the cache, in MB. At the limit the cache evicts entries.
	// It keeps its memory until Close, also after a Reset and when entries expire. With 0 the limit
	// is 1 GB, or more because of MaxEntriesInWindow.
	HardMaxCacheSize int
	// OnRemove is called when an entry expires, is evicted or is deleted. The three callbacks may
	// use the cache. OnRemoveWithMetadata has precedence over OnRemove, which has precedence over
	// OnRemoveWithReason.
	OnRemove             func(key string, entry []byte)
	OnRemoveWithMetadata func(key string, entry []byte, keyMetadata Metadata)
	OnRemoveWithReason   func(key string, entry []byte, reason RemoveReason)
	// Logger is ignored.
	Logger Logger

	// reasons are the reasons for which OnRemoveWithReason is called, one bit for each; 0 means all.
	reasons uint64
}

// DefaultConfig returns BigCache's default. The argument eviction is the LifeWindow. The cache
// removes expired entries every second.
func DefaultConfig(eviction time.Duration) Config {
	return Config{
		Shards:             1024,
		LifeWindow:         eviction,
		CleanWindow:        time.Second,
		MaxEntriesInWindow: 1000 * 10 * 60,
		MaxEntrySize:       500,
		Verbose:            true,
		Hasher:             newDefaultHasher(),
		Logger:             DefaultLogger(),
	}
}

// OnRemoveFilterSet restricts OnRemoveWithReason to these reasons.
func (c Config) OnRemoveFilterSet(reasons ...RemoveReason) Config {
	c.reasons = 0
	for _, reason := range reasons {
		c.reasons |= 1 << reason
	}
	return c
}

const (
	mebibyte      = 1 << 20
	memoryCeiling = 1 << 40
)

// memoryFloor returns the minimum memory of a cache without HardMaxCacheSize. A 32-bit process has
// addresses for only a few caches.
func memoryFloor() int64 {
	if strconv.IntSize == 32 {
		return 128 * mebibyte
	}
	return 1024 * mebibyte
}

// memory returns the memory limit of the cache in bytes. The system provides a page when the cache
// first uses it, so that a high limit costs nothing by itself.
func (c *Config) memory() int64 {
	if c.HardMaxCacheSize > 0 {
		return min(int64(c.HardMaxCacheSize), memoryCeiling/mebibyte) * mebibyte
	}
	entries, bytes := int64(c.MaxEntriesInWindow), int64(c.MaxEntrySize)
	if bytes > 0 && entries > memoryCeiling/bytes {
		return memoryCeiling
	}
	return max(entries*bytes, memoryFloor())
}

// check returns an error for an invalid field. Where BigCache has such an error, it has the same
// text.
func (c *Config) check() error {
	switch {
	case c.Shards <= 0 || c.Shards&(c.Shards-1) != 0:
		return errors.New("Shards number must be power of two")
	case c.MaxEntrySize < 0:
		return errors.New("MaxEntrySize must be >= 0")
	case c.MaxEntriesInWindow < 0:
		return errors.New("MaxEntriesInWindow must be >= 0")
	case c.HardMaxCacheSize < 0:
		return errors.New("HardMaxCacheSize must be >= 0")
	case c.LifeWindow < 0:
		return errors.New("LifeWindow must be >= 0, where 0 means no expiry")
	}
	return nil
}

// Hasher computes the hash of a key.
type Hasher interface {
	Sum64(string) uint64
}

// Logger is the part of [log.Logger] that BigCache uses.
type Logger interface {
	Printf(format string, v ...interface{})
}

// DefaultLogger returns a logger that writes to standard output.
func DefaultLogger() *log.Logger { return log.New(os.Stdout, "", log.LstdFlags) }

// fnv64a is the default hasher of BigCache.
type fnv64a struct{}

func newDefaultHasher() Hasher { return fnv64a{} }

func (fnv64a) Sum64(key string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	return hash.Sum64()
}

package bigcache

import (
	"errors"
	"hash/fnv"
	"log"
	"os"
	"time"
)

// Config has the fields of BigCache v3's. Those marked as not needed are accepted and without effect.
type Config struct {
	// Shards must be a power of two; not needed else, for readers wait for nobody.
	Shards int
	// LifeWindow is how long an entry lives, and up to a second more; a part of a second counts as a whole, 0 is for ever.
	// Then the entry is not got any more, cleaned up or not.
	LifeWindow time.Duration
	// CleanWindow is how often expired entries are cleaned up and their callbacks called, every second at most; 0 is for
	// when their memory is needed.
	CleanWindow time.Duration
	// MaxEntriesInWindow and MaxEntrySize say how much memory the cache begins with where it has no limit.
	MaxEntriesInWindow int
	MaxEntrySize       int
	// StatsEnabled counts the requests of each key, for KeyMetadata.
	StatsEnabled bool
	// Verbose is not needed.
	Verbose bool
	// Hasher gives EntryInfo.Hash, and nothing else: the cache's own hash is keyed, and keys are compared.
	Hasher Hasher
	// HardMaxCacheSize is a limit in MB for all the cache takes, beyond which the entries least wanted are evicted. With
	// 0 it grows, to half of the machine's memory or of the limit of the process's control group, and then refuses.
	HardMaxCacheSize int
	// OnRemove is called when an entry expires, is evicted or is deleted. Any of the three may use the cache. The entry is
	// nil where it is longer than 16 KiB. OnRemoveWithMetadata goes before OnRemove, that before OnRemoveWithReason.
	OnRemove             func(key string, entry []byte)
	OnRemoveWithMetadata func(key string, entry []byte, keyMetadata Metadata)
	OnRemoveWithReason   func(key string, entry []byte, reason RemoveReason)
	// Logger is not needed.
	Logger Logger

	// For which reasons OnRemoveWithReason is called, a bit each; for all where there is none.
	reasons uint64
}

// DefaultConfig is that of BigCache: entries live for eviction, and are cleaned up every second.
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

// OnRemoveFilterSet has OnRemoveWithReason called for these reasons alone.
func (c Config) OnRemoveFilterSet(reasons ...RemoveReason) Config {
	c.reasons = 0
	for _, reason := range reasons {
		c.reasons |= 1 << reason
	}
	return c
}

// check says what is wrong, in BigCache's words where it has some.
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
		return errors.New("LifeWindow must be >= 0, where 0 is for ever")
	}
	return nil
}

// The cache has no more than 136 years.
const lifeMax = 100 * 365 * 24 * time.Hour

// life is the time to live that entries get: the cache's seconds are those of the clock, the first of which may be about to
// end.
func (c *Config) life() time.Duration {
	if c.LifeWindow == 0 {
		return 0
	}
	return (min(c.LifeWindow, lifeMax) + time.Second - 1).Truncate(time.Second) + time.Second
}

// Hasher makes numbers of keys.
type Hasher interface {
	Sum64(string) uint64
}

// Logger is a part of [log.Logger].
type Logger interface {
	Printf(format string, v ...interface{})
}

// DefaultLogger writes to standard output.
func DefaultLogger() *log.Logger { return log.New(os.Stdout, "", log.LstdFlags) }

// fnv64a is what BigCache uses where nothing else is said.
type fnv64a struct{}

func newDefaultHasher() Hasher { return fnv64a{} }

func (fnv64a) Sum64(key string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	return hash.Sum64()
}

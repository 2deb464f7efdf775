// Package shard is one part of a cache: an index, segments of records, and the queues of S3-FIFO.
//
// A record is an item in memory. Records are stored in segments, ranges of memory that are emptied
// and reused as a unit. The generation of a segment is a counter that rises each time the segment
// is emptied. The index is a hash table of groups of eight slots; a slot is a word that refers to a
// record and contains the generation of its segment, so that emptying a segment makes all slots
// that refer to it invalid without changing them. A pin is the number of a segment in a cell of the
// table of pins: while a reader pins a segment, no writer reuses its memory. A pool is one of the
// two queues of S3-FIFO, small and main; each pool appends records to one active segment, and seals
// the segment when it is full. An invalid slot of a recently evicted item serves as its ghost, by
// which a store recognizes that the key was evicted recently.
//
// Readers take no lock. They find a record through the index, pin its segment and check that the
// record still exists (find.go). Writers make all changes of the index and of the segments while
// they hold the shard's mutex. The rules that make this safe are documented where the code follows
// them: in segments.go for generations and pins, in grow.go for the order of the stores of a split,
// and in store.go for the lookup that must follow each reservation of memory.
package shard

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"larder.example/larder/internal/engine/memory"
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
)

// Config describes a shard.
type Config struct {
	// Base is the address of Segments times SegmentBytes zeroed bytes.
	Base         unsafe.Pointer
	Segments     int
	SegmentBytes int
	// Number is the number of the shard in the cache.
	Number int
	Pins   *pins.Table
	Seed   maphash.Seed
	// Tokens adds a token for compare-and-swap to each record. Shards is the number of shards of the
	// cache, which a shard needs to assign no token that another shard assigns.
	Tokens bool
	Shards int
	// Accesses records the second of the last access of each item.
	Accesses bool
	// Streams is true if the cache is larger than the caches of processors. The memory of a new record
	// is then rarely in the processor's cache, and long values are written past it.
	Streams bool
	// NoGhosts makes the shard ignore ghosts.
	NoGhosts bool
	// Reports makes the shard collect the items that leave it. Unlock returns them.
	Reports bool
	// Taken is called with the lock held for each part of the shard's memory that belongs to one huge
	// page, when all segments in that part have been taken for the first time. It may be nil.
	Taken func(part []byte)
	// Now returns monotonic milliseconds.
	Now func() int64
}

// Shard is a part of a cache.
type Shard struct {
	// Readers use the fields down to the mutex. Those that are neither atomic nor slices of atomics do
	// not change.
	base         unsafe.Pointer
	segmentBytes int
	pageShift    uint
	firstLevel   uint
	pins         *pins.Table
	// level is version 32 │ number of groups 32. A split changes both. A change that only moves slots
	// raises only the version, so that readers notice it.
	level atomic.Uint64
	// generations has a counter for each segment.
	generations []atomic.Uint32
	// pages and overflowPages contain the numbers of the segments in which the groups and the overflow
	// groups of the index are. Each entry is set once.
	pages         []atomic.Uint32
	overflowPages []atomic.Uint32
	// wraps counts how often the generation of any segment has started again from zero.
	wraps  atomic.Uint64
	config Config

	_ [64]byte

	// mutex guards the fields below, and every change of the index and of the segments.
	mutex sync.Mutex
	// tail is the address after the record that was written last.
	tail uintptr
	space
	index
	policy

	items    int
	live     int
	token    uint64
	stats    Stats
	removals []Removal
	scratch  []byte
	// ahead is memory that writers need soon. Unlock populates it after it has released the mutex.
	ahead []byte
}

// Stats counts what happened in a shard.
type Stats struct {
	Sets, Evictions, Expired uint64
	Items                    int
	// LiveBytes is the memory of the records that exist.
	LiveBytes int
	// UsedBytes is the memory in use, and IndexBytes is the part of it that the index uses.
	UsedBytes, IndexBytes int
	// Relocated is the number of bytes of records that were moved.
	Relocated uint64
}

// TableBytes returns the memory that a shard needs outside of its segments.
func TableBytes(segments int) int {
	const atomics = 3 * 4
	return int(unsafe.Sizeof(Shard{})) + segments*(atomics+int(unsafe.Sizeof(segment{}))) + segments/8
}

// Open initializes a shard on zeroed memory.
func (s *Shard) Open(config Config) {
	s.base, s.segmentBytes = config.Base, config.SegmentBytes
	s.pins, s.config = config.Pins, config
	s.token = uint64(config.Number)
	s.generations = make([]atomic.Uint32, config.Segments)
	s.pages = make([]atomic.Uint32, config.Segments)
	s.overflowPages = make([]atomic.Uint32, config.Segments)
	s.openSpace(config.Segments)
	s.openIndex()
	s.noteTaken()
}

// Lock locks the shard.
func (s *Shard) Lock() { s.mutex.Lock() }

// Unlock unlocks the shard and returns the items that left it, if the shard reports them.
func (s *Shard) Unlock() []Removal {
	removals, ahead := s.removals, s.ahead
	s.removals, s.ahead = nil, nil
	s.mutex.Unlock()
	if ahead != nil {
		memory.Populate(ahead)
	}
	return removals
}

// Stats returns the counters.
func (s *Shard) Stats() Stats {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	stats := s.stats
	stats.Items, stats.LiveBytes = s.items, s.live
	stats.UsedBytes = s.inUse() * s.segmentBytes
	stats.IndexBytes = (s.pageCount + s.overflowCount) * s.segmentBytes
	return stats
}

// Items returns the number of items.
func (s *Shard) Items() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.items
}

// record returns the record that a slot word refers to. The segment of the word belongs to the
// shard, and its memory is not reused, because the caller has pinned it or holds the mutex.
func (s *Shard) record(slot record.Slot) record.Record {
	return s.recordAt(slot.Segment(), slot.Offset())
}

func (s *Shard) recordAt(segment, offset int) record.Record {
	return record.At(unsafe.Add(s.base, segment*s.segmentBytes+offset))
}

func (s *Shard) hash(key []byte) uint64 { return maphash.Bytes(s.config.Seed, key) }

// second returns the current second for the time of an access, or zero if the shard does not record
// accesses.
func (s *Shard) second() int64 {
	if !s.config.Accesses {
		return 0
	}
	return s.config.Now() / 1000 % record.AccessSeconds
}

// isExpired returns true if the deadline of a record has passed.
func (s *Shard) isExpired(r record.Record, h record.Header) bool {
	if !h.Has(record.HasDeadline) {
		return false
	}
	deadline := r.Deadline(h)
	return deadline != 0 && deadline <= s.config.Now()
}

// Package engine is a cache in the memory of one process, outside of the Go heap. It runs on all
// systems and does not need cgo.
//
// The memory is divided into shards (package shard). Each shard is a small cache with its own lock,
// and each key belongs to one shard. The shards share only the table of pins (package pins). A cell
// of that table contains the segment that an operation is reading, so that no writer reuses the
// segment. An operation claims a cell, checks whether the cache is closed, finds the shard by the
// hash of the key, and finally releases the cell.
//
// This package converts calls of the cache to operations of a shard. Package record defines the
// memory words through which writers and readers communicate.
package engine

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"larder.example/larder/internal/engine/memory"
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/shard"
)

// The errors of a cache. Test for them with errors.Is.
var (
	ErrNotFound  = shard.ErrNotFound
	ErrExists    = shard.ErrExists
	ErrNotStored = shard.ErrNotStored
	ErrNoSpace   = shard.ErrNoSpace
	ErrNotNumber = shard.ErrNotNumber
	ErrTooLarge  = shard.ErrTooLarge
	ErrClosed    = errors.New("cache is closed")
	ErrBadKey    = errors.New("key must have 1 to 250 bytes")
	ErrNoTokens  = errors.New("cache has no tokens for compare-and-swap")
	ErrMemory    = errors.New("invalid memory size")
)

const (
	// KeyBytesMax is the length of the longest key.
	KeyBytesMax = 250
	// MemoryMin and MemoryMax limit Config.MemoryBytes.
	MemoryMin = 1 << 20
	MemoryMax = 1 << 40
)

// Config describes a cache.
type Config struct {
	// MemoryBytes limits the memory of the cache, tables and index included. MemoryBytesMax is the
	// highest limit that SetMemory accepts; zero means MemoryBytes.
	MemoryBytes, MemoryBytesMax int64
	// ItemMax is the largest sum of the lengths of key and value. It is at most an eighth of a shard,
	// so it determines the number of shards. Zero means the largest value with the default number of
	// shards.
	ItemMax int
	// CAS adds a token of eight bytes to each item for CompareAndSwap.
	CAS bool
	// TrackAccess records the second of the last access of each item. Each read then also reads the
	// clock.
	TrackAccess bool
	// streams makes a small cache write long values past the processor's cache, as large caches do. It
	// is for tests.
	streams bool
	// NoGhosts disables ghosts: an item that is stored again soon after its eviction is treated like
	// a new item. It is for measurements.
	NoGhosts bool
	// Now returns monotonic milliseconds above zero, and Wall returns the milliseconds of the wall
	// clock; nil means the clocks of the system.
	Now, Wall func() int64
	// OnRemove is called once for each item that has left the cache. No lock is held during the call,
	// so OnRemove may use the cache. It must not change the bytes of the slices after it has returned.
	OnRemove func(key, value []byte, reason Reason)
	// Sweep is the interval at which the cache removes expired items that were not read; zero means
	// never.
	Sweep time.Duration
}

// Reason is the reason for which an item left the cache.
type Reason = shard.Reason

// The reasons for a removal.
const (
	Expired  = shard.Expired
	Evicted  = shard.Evicted
	Deleted  = shard.Deleted
	Replaced = shard.Replaced
	Cleared  = shard.Cleared
)

// Item is the metadata of an item.
type Item = shard.Item

// Engine is a cache. All methods are safe for concurrent use.
type Engine struct {
	seed   maphash.Seed
	shift  uint
	shards []shard.Shard
	pins   *pins.Table
	closed atomic.Bool
	freed  atomic.Bool
	config Config
	// memoryBytes is the memory limit and itemMax is the size of the largest item. Both change only
	// while the lock resizing is held.
	memoryBytes, itemMax atomic.Int64
	resizing             sync.Mutex
	geometry             geometry
	bytes                int
	arena                *memory.Arena
	// collapser is nil if the cache does not collapse small pages to huge pages.
	collapser *collapser
	stop      chan struct{}
}

// Stats are the counters of a cache.
type Stats struct {
	Hits, Misses, Sets, Evictions, Expired uint64
	Items                                  int
	// LiveBytes is the memory of the stored items, and UsedBytes is the memory that the cache uses.
	// UsedBytes includes IndexBytes.
	LiveBytes, UsedBytes, IndexBytes int
	// MemoryBytes is the memory that the cache may use.
	MemoryBytes int64
	// RelocatedBytes is the memory of items that were moved to make room.
	RelocatedBytes uint64
}

// geometry describes the division of the memory.
type geometry struct{ shards, segments, segmentBytes int }

const (
	shardBytesMin   = 8 << 20
	segmentBytesMin = 16 << 10
	segmentBytesMax = 1 << 20
	// segmentsMin is the number of segments that a shard should have at least. dividedInto makes the
	// segments as large as this allows, between segmentBytesMin and segmentBytesMax.
	segmentsMin = 128
)

// streamsFrom is the size of a cache from which long values are written past the processor's cache.
// Smaller caches may fit into it.
const streamsFrom = 64 << 20

// itemMax returns the size of the largest item that a shard can store.
func (g geometry) itemMax() int { return shard.ItemMax(g.segments, g.segmentBytes) }

// divide divides the memory into shards, and each shard into segments. It makes the shards large
// enough for an item of itemMax bytes, if that is possible. The memory includes the tables. The
// result does not depend on the number of processors: an item that one machine stores must also fit
// on another machine.
func divide(memoryBytes int64, itemMax int) (geometry, error) {
	if memoryBytes < MemoryMin || memoryBytes > MemoryMax || int64(int(memoryBytes)) != memoryBytes {
		return geometry{}, fmt.Errorf("%w: %d bytes, not %d to %d",
			ErrMemory, memoryBytes, MemoryMin, int64(MemoryMax))
	}
	usable := int(memoryBytes) - besideShards(memoryBytes)
	shards := shardsOf(memoryBytes)
	for shards > 1 && dividedInto(shards, usable).itemMax() < itemMax {
		shards /= 2
	}
	// A slot of the index has 14 bits for the number of a segment, so a large memory needs more
	// shards.
	for usable/shards/segmentBytesMax >= record.NoSegment {
		shards *= 2
	}
	return dividedInto(shards, usable), nil
}

// besideShards returns the memory that the cache needs in addition to its shards.
func besideShards(memoryBytes int64) int {
	_, tableBytes := pins.Cells()
	return tableBytes + collapserBytes(memoryBytes)
}

// shardsOf returns the number of shards for a memory limit. Many shards are good for writers,
// because writers of different shards do not wait for each other. Large shards are good for large
// items, because an item can have at most an eighth of a shard. Above 64 MiB the number of shards
// and their size therefore both grow with the square root of the memory.
func shardsOf(memoryBytes int64) int {
	const few = 8
	shards := floorPower(int(memoryBytes / shardBytesMin))
	if shards <= few {
		return shards
	}
	doubled := bits.Len(uint(shards/few)) - 1
	return few << (doubled / 2)
}

func dividedInto(shards, usable int) geometry {
	shardBytes := usable / shards
	segmentBytes := floorPower(shardBytes / segmentsMin)
	segmentBytes = min(max(segmentBytes, segmentBytesMin), segmentBytesMax)
	segments := shardBytes / segmentBytes
	for segments*segmentBytes+shard.TableBytes(segments) > shardBytes {
		segments--
	}
	return geometry{shards, segments, segmentBytes}
}

func floorPower(number int) int {
	if number < 1 {
		return 1
	}
	return 1 << (bits.Len(uint(number)) - 1)
}

// New opens a cache.
func New(config Config) (*Engine, error) {
	if config.MemoryBytesMax == 0 {
		config.MemoryBytesMax = config.MemoryBytes
	}
	geometry, err := divide(config.MemoryBytesMax, config.ItemMax)
	if err != nil {
		return nil, err
	}
	e, err := open(config, geometry, maphash.MakeSeed())
	if err != nil || config.MemoryBytes == config.MemoryBytesMax {
		return e, err
	}
	if err := e.openBelowMax(config.MemoryBytes); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

func open(config Config, geometry geometry, seed maphash.Seed) (*Engine, error) {
	shardBytes := geometry.segments * geometry.segmentBytes
	arena, err := memory.New(geometry.shards * shardBytes)
	if err != nil {
		return nil, err
	}
	if config.Now == nil {
		start := time.Now()
		config.Now = func() int64 { return int64(time.Since(start)/time.Millisecond) + 1 }
	}
	if config.Wall == nil {
		config.Wall = func() int64 { return time.Now().UnixMilli() }
	}
	e := &Engine{
		seed: seed, config: config, arena: arena, geometry: geometry, bytes: arena.Bytes(), stop: make(chan struct{}),
		shift:  uint(64 - bits.Len(uint(geometry.shards-1))),
		shards: make([]shard.Shard, geometry.shards),
		pins:   pins.NewTable(geometry.segments * 3 / 32),
	}
	e.memoryBytes.Store(config.MemoryBytesMax)
	taken := e.openCollapser()
	for number := range e.shards {
		e.shards[number].Open(shard.Config{
			// Only this shard uses this part of the arena.
			Base:     unsafe.Add(arena.Base(), number*shardBytes),
			Segments: geometry.segments, SegmentBytes: geometry.segmentBytes,
			Number: number, Shards: len(e.shards), Pins: e.pins, Seed: seed,
			Tokens: config.CAS, Accesses: config.TrackAccess, Reports: config.OnRemove != nil,
			NoGhosts: config.NoGhosts, Taken: taken, Streams: config.streams || arena.Bytes() >= streamsFrom,
			Now: config.Now,
		})
	}
	e.limitItems(geometry.itemMax())
	if config.Sweep > 0 {
		go e.sweepUntilClosed()
	}
	return e, nil
}

// shardOf returns the shard of a key. The highest bits of the hash are its number.
func (e *Engine) shardOf(hash uint64) *shard.Shard { return &e.shards[hash>>e.shift] }

func (e *Engine) hash(key string) uint64 { return maphash.String(e.seed, key) }

// begin starts an operation. It claims a cell, or counts the operation if no cell is free, and then
// checks whether the cache is closed. In this order: Close frees the memory unless it finds a
// claimed cell or a counted operation. If begin returns true, the memory therefore stays until end.
func (e *Engine) begin() (cell *pins.Cell, ok bool) {
	if cell = e.pins.Claim(); cell == nil {
		e.pins.Enter()
	}
	if e.closed.Load() {
		e.end(cell, pins.None)
		return nil, false
	}
	return cell, true
}

// end ends an operation. The last one of a closed cache frees the memory.
func (e *Engine) end(cell *pins.Cell, outcome uint64) {
	if cell != nil {
		cell.Release(outcome)
	} else {
		e.endWithoutCell(outcome)
	}
	if e.closed.Load() {
		e.freeIfIdle()
	}
}

func (e *Engine) endWithoutCell(outcome uint64) {
	e.pins.CountOther(outcome)
	e.pins.Leave()
}

// Close ends the use of the cache and frees its memory. It does not wait: operations in progress
// complete, and the last one frees the memory. It may be called several times, and inside
// callbacks. It does not report the items in the cache to OnRemove.
func (e *Engine) Close() error {
	if !e.closed.Swap(true) {
		close(e.stop)
	}
	e.freeIfIdle()
	return nil
}

// freeIfIdle frees the memory if no operation is in progress. The caller has closed the cache
// before. An operation that begins after freeIfIdle has checked its cell therefore finds the cache
// closed, and does not access the memory.
func (e *Engine) freeIfIdle() {
	if e.pins.IsIdle() && e.freed.CompareAndSwap(false, true) {
		// If the arena cannot be freed, it stays mapped. Nothing else depends on it.
		_ = e.arena.Free()
	}
}

// report calls OnRemove for items that have left a shard. If a call panics or ends its goroutine,
// report still makes the other calls.
func (e *Engine) report(removals []shard.Removal) {
	if len(removals) == 0 {
		return
	}
	next := 0
	defer func() { e.report(removals[next:]) }()
	for next < len(removals) {
		removal := removals[next]
		next++
		e.config.OnRemove(removal.Key, removal.Value, removal.Reason)
	}
}

// Len returns the number of items. It includes expired items until they are removed.
func (e *Engine) Len() (items int) {
	for number := range e.shards {
		items += e.shards[number].Items()
	}
	return items
}

// Stats returns the counters.
func (e *Engine) Stats() (stats Stats) {
	stats.Hits, stats.Misses = e.pins.Counts()
	stats.MemoryBytes = e.memoryBytes.Load()
	for number := range e.shards {
		part := e.shards[number].Stats()
		stats.Sets += part.Sets
		stats.Evictions += part.Evictions
		stats.Expired += part.Expired
		stats.Items += part.Items
		stats.LiveBytes += part.LiveBytes
		stats.UsedBytes += part.UsedBytes
		stats.IndexBytes += part.IndexBytes
		stats.RelocatedBytes += part.Relocated
	}
	return stats
}

// ItemMax returns the largest sum of the lengths of a key and a value.
func (e *Engine) ItemMax() int { return int(e.itemMax.Load()) }

// Now returns the current time in the milliseconds of deadlines.
func (e *Engine) Now() int64 { return e.config.Now() }

// SinceAccess returns the seconds since the last access of an item, and false if the cache does not
// record accesses.
func (e *Engine) SinceAccess(item Item) (seconds int64, ok bool) {
	if !e.config.TrackAccess {
		return 0, false
	}
	return item.SinceAccess(e.config.Now()), true
}

// Wall returns the milliseconds since 1970.
func (e *Engine) Wall() int64 { return e.config.Wall() }

// HasTokens returns true if items have tokens for compare-and-swap: see Config.CAS.
func (e *Engine) HasTokens() bool { return e.config.CAS }

// sweepUntilClosed periodically removes expired items until the cache is closed.
func (e *Engine) sweepUntilClosed() {
	ticker := time.NewTicker(e.config.Sweep)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-ticker.C:
			e.SweepNow()
		}
	}
}

// SweepNow removes all expired items. It locks a shard for one segment at a time.
func (e *Engine) SweepNow() {
	for number := range e.shards {
		s := &e.shards[number]
		for segment := range s.Segments() {
			cell, ok := e.begin()
			if !ok {
				return
			}
			s.Lock()
			s.Sweep(segment)
			removals := s.Unlock()
			e.end(cell, pins.None)
			e.report(removals)
		}
	}
}

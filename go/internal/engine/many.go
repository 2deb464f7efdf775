package engine

import (
	"math"

	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/shard"
)

// blockKeys is the number of keys whose memory GetMany prefetches together.
const blockKeys = 16

// GetMany calls visit for each key that has an item, in the order of the keys, as ViewItem does.
func (e *Engine) GetMany(keys []string, visit func(at int, value []byte, item Item)) {
	e.GetWhile(keys, math.MaxInt, func(at int, value []byte, item Item) bool {
		visit(at, value, item)
		return true
	})
}

// GetWhile calls visit for each key that has an item, in the order of the keys, as ViewUpTo does,
// until visit returns false.
func (e *Engine) GetWhile(
	keys []string, limit int, visit func(at int, value []byte, item Item) bool,
) {
	for start := 0; start < len(keys); start += blockKeys {
		if !e.getBlock(keys[:min(start+blockKeys, len(keys))], start, limit, visit) {
			return
		}
	}
}

// getBlock is like GetWhile, for at most blockKeys keys that begin at start. It claims one cell for
// all of them. It prefetches the memory of all these keys before it reads the first one, so that
// their cache misses overlap. It returns false if visit has returned false.
func (e *Engine) getBlock(
	keys []string, start, limit int, visit func(at int, value []byte, item Item) bool,
) bool {
	var hashes [blockKeys]uint64
	for at, key := range keys[start:] {
		hash := e.hash(key)
		hashes[at] = hash
		e.shardOf(hash).ExpectGroup(hash)
	}
	cell := e.pins.ClaimView()
	if cell == nil {
		return e.getEach(keys, start, limit, visit)
	}
	outcomes := pins.None
	// End the operation also after a panic or runtime.Goexit in visit.
	defer func() { e.end(cell, outcomes) }()
	if e.closed.Load() {
		return false
	}
	for _, hash := range hashes[:len(keys)-start] {
		e.shardOf(hash).ExpectRecord(hash)
	}
	for at := start; at < len(keys); at++ {
		hash := hashes[at-start]
		s := e.shardOf(hash)
		found, ok := s.Find(cell, hash, keys[at])
		if !ok {
			outcomes += pins.Miss
			continue
		}
		if poisons || found.Header.Has(record.Large) || s.IsExpired(&found) {
			cell.Unpin()
			if !e.getEach(keys[:at+1], at, limit, visit) {
				return false
			}
			continue
		}
		s.NoteRead(&found)
		outcomes += pins.Hit
		item := shard.ItemOf(found.Record, found.Header)
		// visit may have closed the cache.
		if !visit(at, found.Record.Value(found.Header), item) || e.closed.Load() {
			return false
		}
	}
	return true
}

// getEach is like getBlock, but runs a separate operation for each key.
func (e *Engine) getEach(
	keys []string, start, limit int, visit func(at int, value []byte, item Item) bool,
) (goesOn bool) {
	goesOn = true
	for at := start; at < len(keys) && goesOn; at++ {
		e.ViewUpTo(keys[at], limit, func(value []byte, item Item) { goesOn = visit(at, value, item) })
	}
	return goesOn
}

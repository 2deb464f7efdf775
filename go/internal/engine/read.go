package engine

import (
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/shard"
)

// GetInto appends the value of a key to dst. It does not allocate if the capacity suffices. If the
// key has no item, it returns dst unchanged.
func (e *Engine) GetInto(dst []byte, key string) ([]byte, bool) {
	hash := e.hash(key)
	s := e.shardOf(hash)
	// The claim of a cell delays later loads.
	s.ExpectGroup(hash)
	cell, ok := e.begin()
	if !ok {
		return dst, false
	}
	if cell == nil {
		value, _, ok := e.readLocked(dst, s, hash, key)
		return value, ok
	}
	found, ok := s.Find(cell, hash, key)
	if !ok {
		e.end(cell, pins.Miss)
		return dst, false
	}
	if found.Header.Has(record.HasDeadline | record.Large) {
		value, _, ok := e.readSlowly(dst, s, cell, hash, key, found)
		return value, ok
	}
	dst = append(dst, found.Record.Value(found.Header)...)
	s.NoteRead(&found)
	e.end(cell, pins.Hit)
	return dst, true
}

// Get returns a copy of the value of a key.
func (e *Engine) Get(key string) ([]byte, bool) { return e.GetInto(nil, key) }

// GetItem is like GetInto, and also returns the metadata of the item, as it was before this read.
func (e *Engine) GetItem(dst []byte, key string) ([]byte, Item, bool) {
	hash := e.hash(key)
	cell, ok := e.begin()
	if !ok {
		return dst, Item{}, false
	}
	s := e.shardOf(hash)
	if cell == nil {
		return e.readLocked(dst, s, hash, key)
	}
	found, ok := s.Find(cell, hash, key)
	if !ok {
		e.end(cell, pins.Miss)
		return dst, Item{}, false
	}
	return e.readSlowly(dst, s, cell, hash, key, found)
}

// readSlowly reads an item in the cases that GetInto does not handle itself: an item with a
// deadline, a large value, and a caller that needs the metadata. It also ends the operation.
func (e *Engine) readSlowly(
	dst []byte, s *shard.Shard, cell *pins.Cell, hash uint64, key string, found shard.Found,
) ([]byte, Item, bool) {
	for ok := true; ok; found, ok = s.Find(cell, hash, key) {
		if s.IsExpired(&found) {
			e.end(cell, pins.Miss)
			e.expire(s, hash, key)
			return dst, Item{}, false
		}
		item := shard.ItemOf(found.Record, found.Header)
		s.NoteRead(&found)
		if !found.Header.Has(record.Large) {
			dst = append(dst, found.Record.Value(found.Header)...)
			e.end(cell, pins.Hit)
			return dst, item, true
		}
		if value, ok := s.ReadLarge(dst, cell, &found); ok {
			e.end(cell, pins.Hit)
			return value, item, true
		}
	}
	e.end(cell, pins.Miss)
	return dst, Item{}, false
}

// readLocked reads with the mutex of the shard held, for an operation without a cell, and ends the
// operation.
func (e *Engine) readLocked(
	dst []byte, s *shard.Shard, hash uint64, key string,
) ([]byte, Item, bool) {
	s.Lock()
	dst, item, ok := s.Read(dst, hash, key)
	removals := s.Unlock()
	if ok {
		e.end(nil, pins.Hit)
	} else {
		e.end(nil, pins.Miss)
	}
	e.report(removals)
	return dst, item, ok
}

// expire removes an item that a reader has found expired, unless it has changed since.
func (e *Engine) expire(s *shard.Shard, hash uint64, key string) {
	cell, ok := e.begin()
	if !ok {
		return
	}
	s.Lock()
	s.Expire(key, hash)
	removals := s.Unlock()
	e.end(cell, pins.None)
	e.report(removals)
}

// View calls visit with the value of a key, in place, and returns true if the key has an item. The
// slice is valid during the call and must not be written. View holds no lock: visit may use the
// cache, and may block. While many calls are in progress, and for a value of more than half a
// segment, View passes a copy.
func (e *Engine) View(key string, visit func(value []byte)) bool {
	return e.ViewItem(key, func(value []byte, _ Item) { visit(value) })
}

// ViewItem is like View, and also passes the metadata of the item. It repeats the code of ViewUpTo
// without the limit, because View would take 1.04 times as long if it called ViewUpTo.
func (e *Engine) ViewItem(key string, visit func(value []byte, item Item)) bool {
	hash := e.hash(key)
	s := e.shardOf(hash)
	// The claim of a cell delays later loads.
	s.ExpectGroup(hash)
	cell := e.pins.ClaimView()
	if cell == nil {
		return e.viewCopy(key, visit)
	}
	if e.closed.Load() {
		e.end(cell, pins.None)
		return false
	}
	found, ok := s.Find(cell, hash, key)
	if !ok {
		e.end(cell, pins.Miss)
		return false
	}
	if poisons || found.Header.Has(record.Large) || s.IsExpired(&found) {
		value, item, ok := e.readSlowly(nil, s, cell, hash, key, found)
		if ok {
			defer poison(value)
			visit(value[:len(value):len(value)], item)
		}
		return ok
	}
	s.NoteRead(&found)
	// Also after a panic or runtime.Goexit in visit.
	defer e.end(cell, pins.Hit)
	visit(found.Record.Value(found.Header), shard.ItemOf(found.Record, found.Header))
	return true
}

func (e *Engine) viewCopy(key string, visit func(value []byte, item Item)) bool {
	value, item, ok := e.GetItem(nil, key)
	if ok {
		defer poison(value)
		visit(value[:len(value):len(value)], item)
	}
	return ok
}

// ViewUpTo is like ViewItem, but copies no value of more than limit bytes. If ViewItem would have
// to copy such a value, ViewUpTo passes nil to visit, and Item.Bytes is the length.
func (e *Engine) ViewUpTo(key string, limit int, visit func(value []byte, item Item)) bool {
	cell := e.pins.ClaimView()
	if cell == nil {
		return e.viewCopyUpTo(key, limit, visit)
	}
	if e.closed.Load() {
		e.end(cell, pins.None)
		return false
	}
	hash := e.hash(key)
	s := e.shardOf(hash)
	found, ok := s.Find(cell, hash, key)
	if !ok {
		e.end(cell, pins.Miss)
		return false
	}
	if poisons || found.Header.Has(record.Large) || s.IsExpired(&found) {
		if item := shard.ItemOf(found.Record, found.Header); item.Bytes > limit && !s.IsExpired(&found) {
			s.NoteRead(&found)
			defer e.end(cell, pins.Hit)
			visit(nil, item)
			return true
		}
		value, item, ok := e.readSlowly(nil, s, cell, hash, key, found)
		if ok {
			defer poison(value)
			visit(value[:len(value):len(value)], item)
		}
		return ok
	}
	s.NoteRead(&found)
	// Also after a panic or runtime.Goexit in visit.
	defer e.end(cell, pins.Hit)
	visit(found.Record.Value(found.Header), shard.ItemOf(found.Record, found.Header))
	return true
}

// viewCopyUpTo is like ViewUpTo, for a call without a cell.
func (e *Engine) viewCopyUpTo(key string, limit int, visit func(value []byte, item Item)) bool {
	hash := e.hash(key)
	cell, ok := e.begin()
	if !ok {
		return false
	}
	s := e.shardOf(hash)
	s.Lock()
	item, ok := s.Describe(hash, key)
	removals := s.Unlock()
	e.end(cell, pins.None)
	e.report(removals)
	if ok && item.Bytes > limit {
		e.pins.CountOther(pins.Hit)
		visit(nil, item)
		return true
	}
	return e.viewCopy(key, visit)
}

// Peek is like GetItem, but does not count as a read: it changes neither the item nor the counters.
func (e *Engine) Peek(dst []byte, key string) ([]byte, Item, bool) {
	hash := e.hash(key)
	cell, ok := e.begin()
	if !ok {
		return dst, Item{}, false
	}
	s := e.shardOf(hash)
	s.Lock()
	dst, item, ok := s.Peek(dst, hash, key)
	// Peek itself removes nothing. These removals are from a writer that has temporarily released the
	// lock.
	removals := s.Unlock()
	e.end(cell, pins.None)
	e.report(removals)
	return dst, item, ok
}

// Look is like Peek, but does not return the value.
func (e *Engine) Look(key string) (Item, bool) {
	hash := e.hash(key)
	cell, ok := e.begin()
	if !ok {
		return Item{}, false
	}
	s := e.shardOf(hash)
	s.Lock()
	item, ok := s.Look(hash, key)
	// Look itself removes nothing: as in Peek, these removals are from a writer that has temporarily
	// released the lock.
	removals := s.Unlock()
	e.end(cell, pins.None)
	e.report(removals)
	return item, ok
}

package shard

import (
	"larder.example/larder/internal/engine/pins"
	"larder.example/larder/internal/engine/prefetch"
	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/steps"
)

// Found is an item that a reader has found. Its segment is pinned.
type Found struct {
	at     *uint64
	Slot   record.Slot
	Record record.Record
	Header record.Header
}

// verdict is the result of checking one slot.
type verdict uint8

const (
	isOther verdict = iota
	isFound
	hasChanged
)

// warmBytes is the length of the part of a new record that Warm prefetches. After that many bytes
// the processor has detected that the memory is written in sequence, and prefetches the rest by
// itself.
const warmBytes = 2048

// Find finds the item of a key, expired or not, and pins its segment in the cell. It takes no lock.
func (s *Shard) Find(cell *pins.Cell, hash uint64, key string) (Found, bool) {
	tag := s.tag(hash)
again:
	level := s.level.Load()
	steps.At(steps.LevelLoaded)
	g := s.group(level, hash)
	for {
		slot := record.Slot(0)
		for number := range slots {
			at := g.slot(number)
			slot = load(at)
			if slot.Tag() != tag {
				continue
			}
			found, verdict := s.check(cell, at, slot, key)
			if verdict == isFound {
				return found, true
			}
			if verdict == hasChanged {
				goto again
			}
		}
		if !slot.IsLink() {
			break
		}
		g = s.overflow(slot)
		steps.At(steps.LinkFollowed)
	}
	// A split may have moved the slot during the search.
	if s.level.Load() != level {
		goto again
	}
	return Found{}, false
}

// check examines the record of a slot word that may be out of date. It pins the segment, then loads
// the generation, and then loads the slot again, in this order. The generation must be loaded after
// the pin: a writer that reuses the segment raises the generation before it checks the pins, so at
// least one of the two detects the other. The slot must be loaded again because the generation of
// the segment may have started again from zero since the first load, and may equal the generation
// in the word. Before that, the writer has cleared the slot.
func (s *Shard) check(
	cell *pins.Cell, at *uint64, slot record.Slot, key string,
) (found Found, result verdict) {
	segment := slot.Segment()
	if segment >= len(s.generations) {
		return found, isOther
	}
	generation := &s.generations[segment]
	steps.At(steps.SlotLoaded)
	if generation.Load() != slot.Generation() {
		// The item may have moved: an evictor stores the new place of an item in its slot before it
		// raises the generation.
		if load(at) != slot {
			return found, hasChanged
		}
		return found, isOther
	}
	steps.At(steps.GenerationChecked)
	cell.Pin(pins.Segment(s.config.Number, segment))
	steps.At(steps.SegmentPinned)
	now := generation.Load()
	steps.At(steps.GenerationLoaded)
	if load(at) != slot {
		cell.Unpin()
		return found, hasChanged
	}
	if now != slot.Generation() {
		cell.Unpin()
		return found, isOther
	}
	r := s.record(slot)
	h := r.Header()
	if !r.HasKey(h, key) {
		return found, isOther
	}
	return Found{at, slot, r, h}, isFound
}

// IsExpired returns true if the item has expired.
func (s *Shard) IsExpired(found *Found) bool { return s.isExpired(found.Record, found.Header) }

// NoteRead records a read of the item in its header. If another goroutine changes the header at the
// same time, the read is not counted.
func (s *Shard) NoteRead(found *Found) {
	read := found.Header.Read()
	if s.config.Accesses {
		read = read.WithAccess(s.second())
	}
	if read != found.Header {
		found.Record.SwapHeader(found.Header, read)
	}
}

// ExpectGroup prefetches the group of a key. It does not read the memory of the shard, so it needs
// no cell.
func (s *Shard) ExpectGroup(hash uint64) {
	prefetch.Read(s.group(s.level.Load(), hash).address())
}

// ExpectRecord prefetches the first lines of the record of a key.
func (s *Shard) ExpectRecord(hash uint64) {
	if at := s.candidate(hash); at != 0 {
		prefetch.Read(at)
		prefetch.Read(at + prefetch.LineBytes)
	}
}

// Warm prefetches the memory that a writer of a record needs, so that the writer does not wait for
// it with the lock held: the group of the key, the old record, and the memory for the new record,
// which has a length of bytes.
func (s *Shard) Warm(hash uint64, bytes int) {
	if s.streams(bytes) {
		// The rest of the memory is not read.
		bytes = 1
	}
	prefetch.WriteBehind(&s.tail, min(bytes, warmBytes))
	if at := s.candidate(hash); at != 0 {
		prefetch.Write(at)
	}
}

// candidate returns the probable address of the record of a key, or zero. Use the address only for
// a prefetch: the segment is not pinned, and the memory may already contain something else.
func (s *Shard) candidate(hash uint64) uintptr {
	tag := s.tag(hash)
	for g := s.group(s.level.Load(), hash); ; {
		slot := record.Slot(0)
		for number := range slots {
			if slot = load(g.slot(number)); slot.Tag() == tag && s.isLive(slot) {
				return s.record(slot).Address()
			}
		}
		if !slot.IsLink() {
			return 0
		}
		g = s.overflow(slot)
	}
}

// Read appends the value of an item to dst. The caller holds the mutex, because it has no cell with
// which it could pin the segment.
func (s *Shard) Read(dst []byte, hash uint64, key string) ([]byte, Item, bool) {
	var found place
	s.present(hash, key, &found)
	if !found.isFound() {
		return dst, Item{}, false
	}
	read := Found{found.at, found.slot, found.record, found.header}
	s.NoteRead(&read)
	return s.AppendValue(dst, read.Record, read.Header), ItemOf(read.Record, read.Header), true
}

// Describe returns the metadata of an item. The caller holds the mutex.
func (s *Shard) Describe(hash uint64, key string) (Item, bool) {
	var found place
	s.present(hash, key, &found)
	if !found.isFound() {
		return Item{}, false
	}
	return ItemOf(found.record, found.header), true
}

// Peek is like Read, but sets no marks and removes nothing. The caller holds the mutex.
func (s *Shard) Peek(dst []byte, hash uint64, key string) ([]byte, Item, bool) {
	var found place
	s.lookup(hash, key, &found)
	if !found.isFound() || s.isExpired(found.record, found.header) {
		return dst, Item{}, false
	}
	item := ItemOf(found.record, found.header)
	return s.AppendValue(dst, found.record, found.header), item, true
}

// Look is like Peek, but does not return the value. The caller holds the mutex.
func (s *Shard) Look(hash uint64, key string) (Item, bool) {
	var found place
	s.lookup(hash, key, &found)
	if !found.isFound() || s.isExpired(found.record, found.header) {
		return Item{}, false
	}
	return ItemOf(found.record, found.header), true
}

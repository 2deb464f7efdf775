package shard

import (
	"errors"

	"larder.example/larder/internal/engine/record"
	"larder.example/larder/internal/engine/stream"
)

// The errors of changes that do not take place.
var (
	ErrNotFound  = errors.New("item not found")
	ErrExists    = errors.New("item has changed")
	ErrNotStored = errors.New("item not stored")
	ErrNoSpace   = errors.New("no memory for the item")
	ErrNotNumber = errors.New("value is not a decimal number of 64 bits")
	ErrTooLarge  = errors.New("item too large")
)

// Mode is the condition on which an item is stored.
type Mode uint8

const (
	// Set stores in any case.
	Set Mode = iota
	// Add stores if the key has no item.
	Add
	// Replace stores if the key has an item.
	Replace
	// Swap stores if the item has the token of the request.
	Swap
	// same stores if the slot of the item is still the slot in the request, so that the item has
	// neither changed nor moved.
	same
)

// Request describes an item to store.
type Request struct {
	Key   string
	Hash  uint64
	Value []byte
	Flags uint32
	// Deadline is the millisecond at which the item expires, or zero.
	Deadline int64
	Mode     Mode
	Token    uint64
	// slot is the slot of the item from which an update has computed the request, for the mode same.
	slot record.Slot
	// hasToken makes Token the token of the new record. marks are set in its header.
	hasToken bool
	marks    record.Header
	// isSameItem is true if the record replaces another record of the same item.
	isSameItem bool
}

// unlockedBytes is the length above which a value is copied into its record without the lock, so
// that other writers do not wait for the copy.
const unlockedBytes = 1024

func (s *Shard) nextToken(r *Request) uint64 {
	switch {
	case !s.config.Tokens:
		return 0
	case r.hasToken:
		return r.Token
	}
	token := s.token + 1
	s.token += uint64(max(s.config.Shards, 1))
	return token
}

// header returns the header of the request's record.
func (s *Shard) header(r *Request, valueBytes int, marks record.Header) record.Header {
	marks |= r.marks
	if r.Deadline != 0 {
		marks |= record.HasDeadline
	}
	if r.Flags != 0 {
		marks |= record.HasFlags
	}
	if s.config.Tokens {
		marks |= record.HasToken
	}
	h := record.MakeHeader(len(r.Key), valueBytes, marks)
	if s.config.Accesses {
		h = h.WithAccess(s.second())
	}
	return h
}

// judge returns an error if the mode of a request does not allow the store, given the item that the
// key has now.
func (s *Shard) judge(r *Request, found *place) error {
	switch {
	case r.Mode == Set:
		return nil
	case r.Mode == Add:
		if found.isFound() {
			return ErrNotStored
		}
	case r.Mode == Replace:
		if !found.isFound() {
			return ErrNotStored
		}
	case !found.isFound():
		return ErrNotFound
	case r.Mode == Swap && found.record.Token(found.header) != r.Token,
		r.Mode == same && found.slot != r.slot:
		return ErrExists
	}
	return nil
}

// present is like lookup, but removes an expired item instead of returning it.
func (s *Shard) present(hash uint64, key string, found *place) {
	s.lookup(hash, key, found)
	if found.isFound() && s.isExpired(found.record, found.header) {
		s.remove(found, Expired)
		s.lookup(hash, key, found)
	}
}

// Store executes a request. It returns the token of the stored item.
func (s *Shard) Store(r *Request) (uint64, error) {
	var found place
	s.present(r.Hash, r.Key, &found)
	if err := s.judge(r, &found); err != nil {
		return 0, err
	}
	return s.put(r, &found)
}

// poolOf returns the pool for a new record. An item stays in its pool, and an item that is stored
// again soon after its eviction goes to the main pool.
func (s *Shard) poolOf(found *place) pool {
	switch {
	case found.isFound():
		return s.segments[found.slot.Segment()].pool
	case found.isGhost:
		return main
	}
	return small
}

// put stores a record for a key that the caller has looked up and judged. If reserving memory may
// have moved records, or if put has released the lock for the copy, it looks up the key and checks
// the condition again.
func (s *Shard) put(r *Request, found *place) (uint64, error) {
	if len(r.Value) > s.segmentBytes/2 {
		// Do not make a header for such a value: the header has too few bits for the length of a long
		// value.
		return s.putLarge(r, found)
	}
	h := s.header(r, len(r.Value), record.Unpublished)
	if h.Bytes() > s.segmentBytes/2 {
		return s.putLarge(r, found)
	}
	room, moved, ok := s.reserve(s.poolOf(found), h.Bytes())
	if !ok {
		return 0, s.giveUp(r)
	}
	room.record.SetHeader(h)
	token := s.nextToken(r)
	if len(r.Value) > unlockedBytes && s.mayUnlock(room.segment) {
		s.hold(room.segment)
		s.mutex.Unlock()
		room.record.Fill(h, r.Key, r.Deadline, token, r.Flags)
		s.copy(room.record.Value(h), r.Value)
		s.mutex.Lock()
		s.letGo(room.segment)
		moved = true
	} else {
		room.record.Fill(h, r.Key, r.Deadline, token, r.Flags)
		s.copy(room.record.Value(h), r.Value)
	}
	if moved {
		s.present(r.Hash, r.Key, found)
		if err := s.judge(r, found); err != nil {
			s.kill(room.segment, room.record, h)
			return 0, err
		}
	}
	s.publish(r, found, room, h)
	return token, nil
}

// mayUnlock returns true if a record in this segment may be written without the lock. The shard
// cannot empty such a segment until the record is complete, so this is allowed in at most a
// thirty-second of all segments at a time.
func (s *Shard) mayUnlock(number int32) bool {
	limit := max(s.limit/32, 1)
	return s.segments[number].pending > 0 || s.pendingSegments < limit
}

// streamedBytes is the length from which bytes of a record are written past the processor's cache.
const streamedBytes = 2048

// streams returns true if a value of this length is written past the processor's cache.
func (s *Shard) streams(bytes int) bool { return s.config.Streams && bytes >= streamedBytes }

// copy copies bytes to a record that no reader can reach yet.
func (s *Shard) copy(dst, src []byte) {
	if s.streams(len(src)) {
		stream.Copy(dst, src)
	} else {
		copy(dst, src)
	}
}

// giveUp handles a request for which there is no memory. It removes the item that the request would
// have replaced, because no reader may receive the old value after a set.
func (s *Shard) giveUp(r *Request) error {
	var found place
	s.present(r.Hash, r.Key, &found)
	if found.isFound() && s.judge(r, &found) == nil {
		s.remove(&found, Evicted)
		s.stats.Evictions++
	}
	return ErrNoSpace
}

// publish adds a complete record to the index: it replaces the old record of the item, or adds a
// new item.
func (s *Shard) publish(r *Request, found *place, room room, h record.Header) {
	published := h &^ record.Unpublished
	slot := s.slotOf(r.Hash, room)
	if found.isFound() {
		old := found.record.Header()
		room.record.SetHeader(published.WithFrequency(old.Frequency()))
		if !r.isSameItem {
			s.report(found.record, old, Replaced)
		}
		store(found.at, slot)
		s.bury(found.slot, found.record, old)
	} else {
		room.record.SetHeader(published)
		if found.free == nil {
			// Adding an overflow group may need a segment for the index, and may therefore evict other
			// segments. The segment of this record must not be one of them.
			s.hold(room.segment)
			defer s.letGo(room.segment)
		}
		s.insert(r.Hash, found, slot)
		s.items++
	}
	s.noteDeadline(room.segment, r.Deadline)
	s.stats.Sets++
	if !found.isFound() {
		s.grow()
	}
}

// remove takes an item out of the index.
func (s *Shard) remove(found *place, reason Reason) {
	h := found.record.Header()
	s.report(found.record, h, reason)
	store(found.at, 0)
	s.bury(found.slot, found.record, h)
	s.items--
	if reason == Expired {
		s.stats.Expired++
	}
}

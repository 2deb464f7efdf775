package shard

import (
	"math"
	"strconv"

	"larder.example/larder/internal/engine/record"
)

// Item is the metadata of an item.
type Item struct {
	Flags uint32
	// Token is the token for compare-and-swap, or zero.
	Token uint64
	// Deadline is the millisecond at which the item expires, or zero.
	Deadline int64
	header   record.Header
	// access is the second of the last access, if the cache records accesses.
	access int64
	// Bytes is the length of the value.
	Bytes int
}

// ItemOf describes a record.
func ItemOf(r record.Record, h record.Header) Item {
	bytes := h.ValueBytes()
	if h.Has(record.Large) {
		bytes = r.LargeBytes(h)
	}
	return Item{r.Flags(h), r.Token(h), r.Deadline(h), h, h.Access(), bytes}
}

// SinceAccess returns the seconds since the last access, for a cache that records accesses. now is
// the current millisecond.
func (i Item) SinceAccess(now int64) int64 {
	since := (now/1000 - i.access) % record.AccessSeconds
	if since < 0 {
		since += record.AccessSeconds
	}
	if since > record.AccessSeconds-accessAhead {
		// Another goroutine has read the item since now.
		return 0
	}
	return since
}

// accessAhead is the number of seconds by which the recorded access may be later than now, because
// another goroutine has read the item after the caller read the clock.
const accessAhead = 60

// IsFetched returns true if the item was read before.
func (i Item) IsFetched() bool { return i.header.Has(record.Fetched) }

// Marks returns the marks of the item, limited to Stale and Claimed.
func (i Item) Marks() record.Header { return i.header & (record.Stale | record.Claimed) }

// Action is the action of an update.
type Action uint8

const (
	// Keep changes only the marks.
	Keep Action = iota
	// Read marks the item as read.
	Read
	// Remove removes the item.
	Remove
	// Touch sets the deadline of the item to the deadline of the change, and marks the item as read.
	Touch
	// Write stores value, flags, deadline and marks of the change, and no other marks.
	Write
)

// Change is the decision of an update: what Update should do with the item.
type Change struct {
	Action   Action
	Value    []byte
	Flags    uint32
	Deadline int64
	// Marks are the marks to set, limited to Stale and Claimed.
	Marks record.Header
	// Token is the token of the item that Write stores, if HasToken is true.
	Token    uint64
	HasToken bool
}

// Decide returns a change, given the current item and its value in place. It runs with the lock
// held, must not use the cache or keep the value, and may run several times.
type Decide func(item Item, value []byte, isFound bool) Change

// Update applies the change that decide returns. The caller holds the mutex. Update may temporarily
// release it; if the item has changed in that time, Update calls decide again.
func (s *Shard) Update(key string, hash uint64, decide Decide) (uint64, error) {
	for {
		var found place
		s.present(hash, key, &found)
		item, value := Item{}, []byte(nil)
		if found.isFound() {
			item = ItemOf(found.record, found.header)
			value = s.valueOf(&found)
		}
		change := decide(item, value, found.isFound())
		token, err := s.apply(key, hash, &found, item, change)
		if err != ErrExists {
			return token, err
		}
	}
}

func (s *Shard) valueOf(found *place) []byte {
	if found.header.Has(record.Large) {
		return s.AppendValue(nil, found.record, found.header)
	}
	return found.record.Value(found.header)
}

func (s *Shard) apply(
	key string, hash uint64, found *place, item Item, change Change,
) (uint64, error) {
	if !found.isFound() && change.Action != Keep && change.Action != Write {
		return 0, ErrNotFound
	}
	request := Request{
		Key: key, Hash: hash, Value: change.Value, Flags: change.Flags, Deadline: change.Deadline,
		Mode: same, Token: change.Token, hasToken: change.HasToken, marks: change.Marks, slot: found.slot,
	}
	switch change.Action {
	case Remove:
		s.remove(found, Deleted)
		return 0, nil
	case Touch:
		return item.Token, s.touch(&request, found, item)
	case Read:
		s.NoteRead(&Found{found.at, found.slot, found.record, found.header})
	case Write:
		if !found.isFound() {
			request.Mode = Add
		}
		token, err := s.put(&request, found)
		if err == ErrNotFound || err == ErrNotStored {
			err = ErrExists
		}
		return token, err
	}
	if found.isFound() && change.Marks != 0 {
		found.record.Mark(change.Marks, 0)
	}
	return item.Token, nil
}

// touch stores the deadline of an item. A record that was stored without a deadline has no space
// for one; then touch writes a new record.
func (s *Shard) touch(r *Request, found *place, item Item) error {
	found.record.Mark(record.Fetched|r.marks, 0)
	if found.header.Has(record.HasDeadline) {
		found.record.SetDeadline(r.Deadline)
		s.noteDeadline(int32(found.slot.Segment()), r.Deadline)
		return nil
	}
	if r.Deadline == 0 {
		return nil
	}
	// Copy the value, because making room may move the old record.
	r.Value = append([]byte(nil), s.valueOf(found)...)
	r.Flags, r.Token, r.hasToken, r.isSameItem = item.Flags, item.Token, true, true
	r.marks |= record.Fetched | item.Marks()
	_, err := s.put(r, found)
	if err == ErrNotFound {
		err = ErrExists
	}
	return err
}

// Delete removes an item if token is zero or the token of the item.
func (s *Shard) Delete(key string, hash uint64, token uint64) error {
	var found place
	s.present(hash, key, &found)
	switch {
	case !found.isFound():
		return ErrNotFound
	case token != 0 && found.record.Token(found.header) != token:
		return ErrExists
	}
	s.remove(&found, Deleted)
	return nil
}

// Expire removes an item if it has expired.
func (s *Shard) Expire(key string, hash uint64) {
	var found place
	s.present(hash, key, &found)
}

// Add adds delta to a decimal number, or subtracts it. Sums wrap at 64 bits, differences stop at
// zero. A shorter number is padded with spaces, as memcached does.
func (s *Shard) Add(key string, hash, delta uint64, subtract bool) (number, token uint64, err error) {
	var failure error
	token, err = s.Update(key, hash, func(item Item, value []byte, isFound bool) Change {
		if failure = ErrNotFound; !isFound {
			return Change{}
		}
		if number, failure = parse(value); failure != nil {
			return Change{}
		}
		switch {
		case !subtract:
			number += delta
		case delta > number:
			number = 0
		default:
			number -= delta
		}
		digits := strconv.AppendUint(s.scratch[:0], number, 10)
		for len(digits) < len(value) {
			digits = append(digits, ' ')
		}
		s.scratch = digits
		return Change{Action: Write, Value: digits, Flags: item.Flags, Deadline: item.Deadline}
	})
	if failure != nil {
		err = failure
	}
	return number, token, err
}

// parse reads a decimal number of at most 20 bytes, which spaces may follow.
func parse(text []byte) (number uint64, err error) {
	if len(text) > 20 {
		return 0, ErrNotNumber
	}
	digits := 0
	for ; digits < len(text) && text[digits] >= '0' && text[digits] <= '9'; digits++ {
		digit := uint64(text[digits] - '0')
		if number > (math.MaxUint64-digit)/10 {
			return 0, ErrNotNumber
		}
		number = number*10 + digit
	}
	for _, rest := range text[digits:] {
		if rest != ' ' {
			return 0, ErrNotNumber
		}
	}
	if digits == 0 {
		return 0, ErrNotNumber
	}
	return number, nil
}

// Extend adds bytes to the end or to the start of a value. If the token is not zero, the item must
// have that token. The value becomes at most limit bytes long.
func (s *Shard) Extend(
	key string, hash uint64, more []byte, inFront bool, wanted uint64, limit int,
) (token uint64, err error) {
	var failure error
	token, err = s.Update(key, hash, func(item Item, value []byte, isFound bool) Change {
		switch failure = nil; {
		case !isFound:
			failure = ErrNotStored
		case wanted != 0 && wanted != item.Token:
			failure = ErrExists
		case len(value)+len(more) > limit:
			failure = ErrTooLarge
		}
		if failure != nil {
			return Change{}
		}
		parts := [2][]byte{value, more}
		if inFront {
			parts = [2][]byte{more, value}
		}
		joined := s.scratch[:0]
		if len(value)+len(more) > unlockedBytes {
			// A long value is copied without the lock, so other writers could overwrite the scratch memory
			// during the copy. Use separate memory.
			joined = make([]byte, 0, len(value)+len(more))
		}
		joined = append(append(joined, parts[0]...), parts[1]...)
		if len(joined) <= unlockedBytes {
			s.scratch = joined
		}
		return Change{Action: Write, Value: joined, Flags: item.Flags, Deadline: item.Deadline}
	})
	if failure != nil {
		err = failure
	}
	return token, err
}

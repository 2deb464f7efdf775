package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// attemptsMax limits how often a read is repeated because the item changes concurrently. If the
// item is still changing after this number of attempts, its writer has stopped in the middle of the
// change.
const attemptsMax = 1000

// readsPerCopyHint is the number of hits of which one is worth a hint if the memory has copies and
// the server itself needs no hint.
const readsPerCopyHint = 32

// ErrClosed means that a [Region] or an [Attachment] is closed.
var ErrClosed = errors.New("closed")

// Region is the memory of a cache, mapped for reading. It is safe for concurrent use, including
// Close.
type Region struct {
	view     atomic.Pointer[view]
	identity Identity
}

// view is a mapped region. A cleanup unmaps it when it is unreachable: see [Region.Close].
type view struct {
	memory  *memory
	layout  layout
	secrets secrets
	clock   clock
	// isServed is true if a server owns the memory. The contents are valid only while the server
	// updates the clock in the memory.
	isServed bool
}

// Identity is a number that identifies a region.
type Identity [16]byte

// String returns the 32 hexadecimal digits that the command `larder_region` shows.
func (i Identity) String() string { return fmt.Sprintf("%x", i[:]) }

// Info holds the metadata of a value.
type Info struct {
	// Flags are opaque bits that were stored with the value.
	Flags uint32
	// CAS is the token for compare-and-swap; 0 if the cache keeps no tokens.
	CAS uint64
	// TTL is the remaining time to live in whole seconds; 0 means that the item does not expire.
	TTL time.Duration
	// Stale is true if a client has marked the value as out of date.
	Stale bool
	// RecacheTaken is true if a client holds the recache token of the item.
	RecacheTaken bool
}

// Open maps the file of a cache that processes share through the library (in Rust
// Cache::open_shared), or that a larderd keeps with -e. The cache need not be in use: reads return
// the items that its next user would find, according to the system's clock.
//
// If the file has another version, the error is a [FieldError] that names the field that differs.
// Otherwise it wraps [ErrNoRegion], [ErrOtherBoot] or the system's error.
//
// A process with write access to the file can crash this program by truncating it, as with every
// mapping. larderd and the library never do, and the memory that a server shares ([Attach]) is
// sealed against it.
func Open(path string) (*Region, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	defer file.Close()
	region, err := Map(file)
	if err != nil {
		return nil, &fs.PathError{Op: "reader: open", Path: path, Err: errors.Unwrap(err)}
	}
	return region, nil
}

// Map is like [Open], for an open file, which the caller keeps and may close. A file without a name
// must be sealed against truncation.
func Map(file *os.File) (*Region, error) {
	region, err := mapRegion(file, false)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	return region, nil
}

func mapRegion(file *os.File, isServed bool) (*Region, error) {
	memory, err := mapFile(file, isServed)
	if err != nil {
		return nil, err
	}
	view, err := viewOf(memory, isServed)
	if err != nil {
		unmap(memory.mapped)
		return nil, err
	}
	region := &Region{}
	low, high := memory.word(atIdentity), memory.word(atIdentity+8)
	binary.BigEndian.PutUint64(region.identity[:8], high)
	binary.BigEndian.PutUint64(region.identity[8:], low)
	runtime.AddCleanup(view, unmap, memory.mapped)
	region.view.Store(view)
	return region, nil
}

func viewOf(memory *memory, isServed bool) (*view, error) {
	layout, err := readLayout(memory)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if boot != [2]uint64{memory.word(atBoot), memory.word(atBoot + 8)} {
		return nil, ErrOtherBoot
	}
	clock, err := clockOf(int64(memory.word(atEpochLifetime)))
	if err != nil {
		return nil, err
	}
	return &view{memory, layout, secretsOf(memory.word(atSeed)), clock, isServed}, nil
}

// halves returns the two words of a 16-byte number in the order of the superblock: the low word
// first.
func halves(number []byte) [2]uint64 {
	return [2]uint64{binary.BigEndian.Uint64(number[8:]), binary.BigEndian.Uint64(number)}
}

// Identity returns the identity of the region, also after Close.
func (r *Region) Identity() Identity { return r.identity }

// Get appends the value of a key to dst. It returns dst unchanged and false if the key has no valid
// item, if only the owner of the cache can decide whether it is valid, or if the region is closed.
//
// Cost: two or three cache misses and the copy. Get takes no system call and no lock, does not
// write to shared memory, and does not allocate if the capacity of dst suffices. A value in more
// than 64 pieces (each an eighth of a segment) takes one allocation.
func (r *Region) Get(dst, key []byte) (value []byte, info Info, ok bool) {
	v := r.view.Load()
	if v == nil {
		return dst, Info{}, false
	}
	value, info, ok, _ = v.get(dst, key)
	runtime.KeepAlive(v)
	return value, info, ok
}

// GetMany appends the values of all keys that are found to dst. It calls found for each, with the
// index of the key and the part of dst that holds the value. It overlaps the cache misses of
// several keys, so it is faster than separate [Region.Get] calls on data outside of the CPU caches.
func (r *Region) GetMany(dst []byte, keys [][]byte, found func(index int, value []byte, info Info)) []byte {
	v := r.view.Load()
	if v == nil {
		return dst
	}
	dst = v.getMany(dst, keys, func(index int, value []byte, info Info, _ bool) { found(index, value, info) })
	runtime.KeepAlive(v)
	return dst
}

// IsLive reports whether the region is open and, for a server's memory, whether the server updates
// its clock, and the copies of a near cache are up to date.
func (r *Region) IsLive() bool {
	v := r.view.Load()
	if v == nil {
		return false
	}
	_, ok := v.now()
	ok = ok && v.clock.isBefore(v.readableUntil())
	runtime.KeepAlive(v)
	return ok
}

// isServed is like IsLive, and true also while the copies of a near cache are out of date.
func (r *Region) isServed() bool {
	v := r.view.Load()
	if v == nil {
		return false
	}
	_, ok := v.now()
	runtime.KeepAlive(v)
	return ok
}

// Close releases the file immediately. It does not wait for concurrent reads and does not harm
// them: it replaces the file in the mapping with zeros, in which the reads find nothing. The
// garbage collector releases the addresses when no goroutine reads from them. This way a read needs
// no count and no lock.
//
// The garbage collector closes an unreachable region. A second call returns [ErrClosed].
func (r *Region) Close() error {
	v := r.view.Swap(nil)
	if v == nil {
		return fmt.Errorf("reader: %w", ErrClosed)
	}
	v.memory.replaceWithZeros()
	runtime.KeepAlive(v)
	return nil
}

// now returns the current second. It returns false if the server no longer updates the clock in its
// memory, because then the contents may be out of date.
func (v *view) now() (uint32, bool) {
	stored, system := v.memory.half(atClock), v.clock.second()
	if !v.isServed {
		return max(stored, system), true
	}
	drift := int64(stored) - int64(system)
	return max(stored, system), -clockDriftSecsMax <= drift && drift <= clockDriftSecsMax
}

// get is like Get, and also reports whether a hint about this read would be useful. It would not if
// the item's count of reads is at its maximum and its time of last use is recent.
func (v *view) get(dst, key []byte) (value []byte, info Info, ok, isHintDue bool) {
	now, ok := v.now()
	if !ok || v.isFlushDue(now) {
		return dst, Info{}, false, false
	}
	return v.lookUp(dst, key, v.secrets.hash(key), now)
}

// readableUntil returns the time until which items may be read.
func (v *view) readableUntil() limit {
	return limit{v.memory.word(atReadableUntilMonotonic), v.memory.word(atReadableUntilUnix)}
}

// isFlushDue reports whether all items have been flushed or are about to be.
func (v *view) isFlushDue(now uint32) bool {
	at := v.memory.word(atFlushAt)
	return at != 0 && uint32(at) <= now
}

func (v *view) lookUp(dst, key []byte, hash uint64, now uint32) (value []byte, info Info, ok, isHintDue bool) {
	start := len(dst)
	// Loaded before the search, and compared after the copy: a near cache may remove the item in
	// between, and then set a later limit.
	limit := v.readableUntil()
	for range attemptsMax {
		record, ok := v.find(hash, key)
		if !ok {
			break
		}
		isGone := v.isGone(&record, now)
		if isGone && v.isValid(&record) {
			break
		}
		if isGone {
			continue
		}
		version := v.version(&record)
		info := v.info(&record, version, now)
		dst, ok = v.value(dst, &record)
		if ok && v.isValid(&record) && v.isUnchanged(&record, version) {
			if !v.clock.isBefore(limit) {
				return dst[:start], Info{}, false, false
			}
			isHintDue := record.slot.freq() < freqMax || record.header.isUseDue(now)
			// A near cache reports reads of copies to its origin, also of those that it needs no hints
			// about.
			if !isHintDue && limit.monotonic != 0 {
				isHintDue = rand.Uint32N(readsPerCopyHint) == 0
			}
			return dst, info, true, isHintDue
		}
		dst = dst[:start]
	}
	return dst, Info{}, false, false
}

// isGone reports whether an item was stored before the last flush or has expired.
func (v *view) isGone(record *found, now uint32) bool {
	if record.sequence < v.memory.word(atFlushSequence) {
		return true
	}
	deadline := v.deadline(record)
	return deadline != 0 && deadline <= now
}

// deadline returns the second at which the item expires, or 0 if it does not expire.
func (v *view) deadline(record *found) uint32 {
	if !record.header.has(hasDeadline) {
		return 0
	}
	return v.memory.half(record.recordAt + record.header.deadlineAt())
}

func (v *view) version(record *found) uint64 {
	if !record.header.has(hasVersion) {
		return 0
	}
	return v.memory.word(record.recordAt + recordHead)
}

func (v *view) info(record *found, version uint64, now uint32) Info {
	info := Info{}
	// In a region without CAS tokens, only records that can be overwritten in place have versions.
	if v.layout.hasCAS {
		info.CAS = version
	}
	// Load the header again, after the version. A change of the marks can also change the version, and
	// a caller that receives the new version must also receive the new marks.
	marks := header(v.memory.word(record.recordAt))
	info.Stale, info.RecacheTaken = marks.has(isStale), marks.has(hasRecacheToken)
	if record.header.has(hasFlags) {
		info.Flags = v.memory.half(record.recordAt + record.header.flagsAt())
	}
	if deadline := v.deadline(record); deadline > now {
		info.TTL = time.Duration(deadline-now) * time.Second
	}
	return info
}

// value appends the value of a record. It returns false if the value changed during the copy.
func (v *view) value(dst []byte, record *found) ([]byte, bool) {
	at, bytes := record.recordAt+record.header.valueAt(), record.header.valueBytes()
	switch {
	case record.header.has(isLarge):
		return v.largeValue(dst, record)
	case record.header.has(isNumber):
		return appendNumber(dst, v.memory.word(at), record.header.visibleBytes())
	default:
		start := len(dst)
		dst = v.memory.appendTo(dst, at, bytes)
		return dst, uint64(len(dst)-start) == bytes
	}
}

// appendNumber appends a number, padded with spaces to visibleBytes. It returns false if the number
// has more digits.
func appendNumber(dst []byte, number, visibleBytes uint64) ([]byte, bool) {
	start := len(dst)
	dst = strconv.AppendUint(dst, number, 10)
	for uint64(len(dst)-start) < visibleBytes {
		dst = append(dst, ' ')
	}
	return dst, uint64(len(dst)-start) == visibleBytes
}

// isUnchanged reports whether the record still has the version that was read before the value. Only
// numbers, values that bytes were appended to, and values that were stored several times change
// without moving to a new record. During such a change their version is 0.
func (v *view) isUnchanged(record *found, version uint64) bool {
	if !record.header.changesInPlace() {
		return true
	}
	now := header(v.memory.word(record.recordAt))
	isChanging := version == 0 && now.has(hasVersion)
	return now.sameLayout(record.header) && !isChanging && v.version(record) == version
}

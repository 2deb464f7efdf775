package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// looksMax bounds how often an item is looked at that changes under the look. One that is still being changed then belongs
// to somebody who has been stopped.
const attemptsMax = 1000

// ErrClosed says that a [Region] or an [Attachment] was closed before.
var ErrClosed = errors.New("it is closed")

// Region is the memory of a cache, mapped to be read. Any number of goroutines may use it, also while one closes it.
type Region struct {
	view     atomic.Pointer[view]
	identity Identity
}

// view is a region that is mapped. When nobody can reach it any more its addresses are given back: see [Region.Close].
type view struct {
	memory  *memory
	layout  layout
	secrets secrets
	clock   clock
	// isServed: a server owns the memory, and what stands there is believed only while it moves its clock.
	isServed bool
}

// Identity is a number that no other region has.
type Identity [16]byte

// String is how `larder_region` tells it: 32 hexadecimal digits.
func (i Identity) String() string { return fmt.Sprintf("%x", i[:]) }

// Info is what is known of a value besides its bytes.
type Info struct {
	// Flags are bits that were stored with it.
	Flags uint32
	// CAS is its token for compare-and-swap, 0 where the cache keeps none.
	CAS uint64
	// TTL is how long it has to live, in whole seconds; 0 stands for ever.
	TTL time.Duration
	// Stale says that somebody marked it as out of date.
	Stale bool
	// Won says that somebody was given the right to bring a new value.
	RecacheTaken bool
}

// Open maps the file of a cache: one that the library shares between processes (in Rust Cache::open_shared), or that a
// larderd keeps with -e. Whether anybody uses it just then does not matter: what is in it is read as its next user would
// read it, by the system's clock.
//
// The error says which field differs where the file is of another version ([FieldError]), and wraps [ErrNoRegion],
// [ErrOtherBoot] or what the system said otherwise.
//
// Who can write to the file can end this program by cutting it off, as with every mapping; larderd and the library never
// do, and the memory that a server passes ([Attach]) is sealed against it.
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

// Map does what [Open] does with a descriptor, which the caller keeps and may close. One without a name in a file system
// must be sealed against being cut off.
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

// halves are the two words of a number of 16 bytes, highest first, as they stand in a superblock: the low one first.
func halves(number []byte) [2]uint64 {
	return [2]uint64{binary.BigEndian.Uint64(number[8:]), binary.BigEndian.Uint64(number)}
}

// Identity of the region; it stays when the region is closed.
func (r *Region) Identity() Identity { return r.identity }

// Get appends the value of a key to dst. False where there is none that lives, where it cannot be told without asking the
// cache's owner, and when the region is closed; dst comes back as it was then.
//
// Cost: two or three cache misses and the copy; no system call, no lock, no store to shared memory, and no allocation
// where dst has room. Values that are kept in more than 64 pieces (of an eighth of a segment each) take one.
func (r *Region) Get(dst, key []byte) (value []byte, info Info, ok bool) {
	v := r.view.Load()
	if v == nil {
		return dst, Info{}, false
	}
	value, info, ok, _ = v.get(dst, key)
	runtime.KeepAlive(v)
	return value, info, ok
}

// GetMany appends the values of all keys that are found to dst, and tells found of each: which key it is of, and the part
// of dst that is its value. The memory is asked for what several keys need at a time, so it is faster than one [Region.Get]
// after another where that is not in the processor's caches.
func (r *Region) GetMany(dst []byte, keys [][]byte, found func(index int, value []byte, info Info)) []byte {
	v := r.view.Load()
	if v == nil {
		return dst
	}
	dst = v.getMany(dst, keys, func(index int, value []byte, info Info, _ bool) { found(index, value, info) })
	runtime.KeepAlive(v)
	return dst
}

// IsLive says whether the region is open and, of a server's memory, whether the server moves its clock.
func (r *Region) IsLive() bool {
	v := r.view.Load()
	if v == nil {
		return false
	}
	_, ok := v.now()
	runtime.KeepAlive(v)
	return ok
}

// Close lets go of the file, at once. Who is just reading is not waited for and never harmed: zeros take the file's place
// in the mapping, in which nothing is found. The addresses themselves are given back when the garbage collector sees
// that nobody is reading there any more. So a read counts nothing and takes no lock.
//
// A region that is dropped without it is closed by the garbage collector. A second call gives [ErrClosed].
func (r *Region) Close() error {
	v := r.view.Swap(nil)
	if v == nil {
		return fmt.Errorf("reader: %w", ErrClosed)
	}
	v.memory.replaceWithZeros()
	runtime.KeepAlive(v)
	return nil
}

// now is the present second; false where the server's clock does not go, and so nothing can be believed.
func (v *view) now() (uint32, bool) {
	stored, system := v.memory.half(atClock), v.clock.second()
	if !v.isServed {
		return max(stored, system), true
	}
	drift := int64(stored) - int64(system)
	return max(stored, system), -clockDriftSecsMax <= drift && drift <= clockDriftSecsMax
}

// get is Get; and says whether a note that the item was read would tell its owner something.
func (v *view) get(dst, key []byte) (value []byte, info Info, ok, isHintDue bool) {
	now, ok := v.now()
	if !ok || v.isFlushDue(now) {
		return dst, Info{}, false, false
	}
	return v.lookUp(dst, key, v.secrets.hash(key), now)
}

// isFlushDue: everything that is there has been flushed, or is about to be.
func (v *view) isFlushDue(now uint32) bool {
	at := v.memory.word(atFlushAt)
	return at != 0 && uint32(at) <= now
}

func (v *view) lookUp(dst, key []byte, hash uint64, now uint32) (value []byte, info Info, ok, isHintDue bool) {
	start := len(dst)
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
		info := v.info(&record, now)
		dst, ok = v.value(dst, &record)
		if ok && v.isValid(&record) && v.isUnchanged(&record, info.CAS) {
			return dst, info, true, record.slot.freq() < freqMax || record.header.isUseDue(now)
		}
		dst = dst[:start]
	}
	return dst, Info{}, false, false
}

// isDead: stored before the last flush, or past its deadline.
func (v *view) isGone(record *found, now uint32) bool {
	if record.sequence < v.memory.word(atFlushSequence) {
		return true
	}
	deadline := v.deadline(record)
	return deadline != 0 && deadline <= now
}

// deadline is the second in which the item dies, 0 for none.
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

func (v *view) info(record *found, now uint32) Info {
	info := Info{CAS: v.version(record)}
	// Once more, after the version: who is told the version that a change of the marks gave is told the marks.
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

// value appends the value of a record; false where it changed meanwhile.
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

// appendNumber appends the text of a number, padded with spaces; false where it is longer than that.
func appendNumber(dst []byte, number, visibleBytes uint64) ([]byte, bool) {
	start := len(dst)
	dst = strconv.AppendUint(dst, number, 10)
	for uint64(len(dst)-start) < visibleBytes {
		dst = append(dst, ' ')
	}
	return dst, uint64(len(dst)-start) == visibleBytes
}

// isUnaltered says whether what was read of a record, under the version read before, is its value still: numbers and
// growing values change where they are, and have the version 0 while they do.
func (v *view) isUnchanged(record *found, version uint64) bool {
	if !record.header.changesInPlace() {
		return true
	}
	now := header(v.memory.word(record.recordAt))
	isChanging := version == 0 && now.has(hasVersion)
	return now.sameLayout(record.header) && !isChanging && v.version(record) == version
}

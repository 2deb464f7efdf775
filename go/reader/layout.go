package reader

import (
	"errors"
	"fmt"
	"math/bits"
)

// Format is the version of the region's layout that this package can read. docs/region-format.md
// describes the layout byte by byte.
const Format = 10

const (
	// lineBytes is the size of two cache lines, which the hardware prefetches together. The parts of
	// a region are aligned to it, so that writers of different parts share no cache line.
	lineBytes   = 128
	groupBytes  = 128
	headerBytes = 64
	peerBytes   = 128
	// filingBytes is the space of one segment in the sets and queues from which writers choose the
	// next segment to reuse. A reader does not use them, but needs their size to find the parts after
	// them.
	filingBytes = 36
	// roundingBytes is the space that the alignment of the parts can take: two lines, and three words
	// for each of the 18 sets of segments.
	roundingBytes = 2*lineBytes + 18*3*8
	segmentsMax   = 1 << 20
	// keepsCAS is the flag of regions whose items have CAS tokens.
	keepsCAS       = 1
	peersMax       = 4096
	regionBytesMin = 1 << 20
	// threadSlotBytesMax is the largest size of a thread slot that a reader accepts. A reader cannot
	// derive this size from other fields of the superblock, because it grows with the number of
	// statistics that the writer counts.
	threadSlotBytesMax = 1 << 16
	magic              = 'L' | 'A'<<8 | 'R'<<16 | 'D'<<24 | 'E'<<32 | 'R'<<40 | 'R'<<48 | 'G'<<56
)

// The offsets of the superblock's fields. The superblock is the header of a region.
const (
	atMagic           = 0
	atFormat          = 8
	atSegmentBytes    = 12
	atRegionBytes     = 16
	atSegments        = 24
	atThreadSlots     = 28
	atThreadSlotBytes = 32
	atStripes         = 36
	atSeed            = 40
	atTTLClasses      = 56
	atFlags           = 60
	atMemoryBytes     = 64
	atPeers           = 72
	atPeerBytes       = 76
	atEpochLifetime   = 80
	atIdentity        = 88
	atBoot            = 104
	atCapacityBytes   = 120
)

// The offsets of the variables after the superblock that a reader uses: the current second, the
// state of flushes, the sizes of the index, and the table of attached processes (peers).
const (
	atClock = 256
	// Until when the items may be read, in milliseconds of two clocks; 0 without a limit.
	atReadableUntilMonotonic = 264
	atReadableUntilUnix      = 272
	atFlushSequence          = 384
	atFlushAt                = 392
	atGroups                 = 400
	atOverflowGroups         = 776
	atPeersTable             = 1920
)

// ErrNoRegion means that a file is not a region: it does not begin with the magic number.
var ErrNoRegion = errors.New("not a cache: the file does not begin with LARDERRG")

// ErrOtherBoot means that a region was created before the last boot, or on another machine. A
// region counts seconds by the monotonic clock, which starts again at a boot, so its deadlines are
// meaningless. The processes that used it have ended. The next writer that opens the file replaces
// it with an empty cache.
var ErrOtherBoot = errors.New("the cache is from another boot of the system: let a writer open it once")

// FieldError means that a field of the superblock does not have the value that this package
// computes. The region was created by another version of Larder, or is damaged.
type FieldError struct {
	// Field describes the field.
	Field string
	// Found is the value in the superblock.
	Found uint64
	// Expected is the value that this package computes. If several values are valid, it is a limit.
	Expected uint64
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("the region's %s is %d, want %d: use a program of the same version as the cache's",
		e.Field, e.Found, e.Expected)
}

// layout has the offsets and sizes that a reader needs to find an item in a region.
type layout struct {
	hasCAS       bool // items have CAS tokens
	segmentBytes uint64
	segments     uint64
	sequencesAt  uint64
	groupsAt     uint64 // the directory of the segments that contain index groups
	overflowAt   uint64 // the directory of the segments that contain overflow groups
	poolAt       uint64 // the first segment
	// firstLevel is the number of low hash bits that select a group in a new region. Each split of a
	// group later uses one more bit.
	firstLevel uint
	// groupShift converts the number of a group to an index in the directory: the number is shifted
	// right by it, because a segment contains 1<<groupShift groups.
	groupShift uint
}

// readLayout reads the superblock and computes the layout. Most fields follow from the memory
// limit, the capacity and the number of peers. If one of them has another value than the computed
// one, the offsets would also be wrong, so readLayout fails.
func readLayout(m *memory) (layout, error) {
	if m.word(atMagic) != magic {
		return layout{}, ErrNoRegion
	}
	if format := m.half(atFormat); format != Format {
		return layout{}, &FieldError{"format", uint64(format), Format}
	}
	if stored := m.word(atRegionBytes); stored != m.bytes {
		return layout{}, &FieldError{"size in bytes", stored, m.bytes}
	}
	capacityBytes := m.word(atCapacityBytes)
	if capacityBytes < regionBytesMin || capacityBytes > m.bytes {
		return layout{}, &FieldError{"capacity in bytes", capacityBytes, max(regionBytesMin, m.bytes)}
	}
	memoryBytes := m.word(atMemoryBytes)
	if memoryBytes < regionBytesMin || memoryBytes > capacityBytes {
		return layout{}, &FieldError{"memory in bytes", memoryBytes, max(regionBytesMin, capacityBytes)}
	}
	threadSlotBytes := uint64(m.half(atThreadSlotBytes))
	if threadSlotBytes == 0 || threadSlotBytes%lineBytes != 0 || threadSlotBytes > threadSlotBytesMax {
		return layout{}, &FieldError{"bytes of a thread slot", threadSlotBytes, lineBytes}
	}
	// The number of processes that can use the region at the same time. The creator chose it.
	peers := uint64(m.half(atPeers))
	if peers == 0 || peers > peersMax {
		return layout{}, &FieldError{"number of peers", peers, peersMax}
	}
	sizes := sizesOf(memoryBytes, capacityBytes, threadSlotBytes, peers)
	if sizes.regionBytes != m.bytes {
		return layout{}, &FieldError{"size in bytes", m.bytes, sizes.regionBytes}
	}
	for _, field := range []struct {
		name     string
		at       uint64
		expected uint64
	}{
		{"bytes of a segment", atSegmentBytes, sizes.segmentBytes},
		{"number of segments", atSegments, sizes.segments},
		{"number of thread slots", atThreadSlots, sizes.threadSlots},
		{"number of stripes", atStripes, sizes.stripes},
		{"number of TTL classes", atTTLClasses, sizes.ttlClasses},
		{"bytes of a peer", atPeerBytes, peerBytes},
	} {
		if found := uint64(m.half(field.at)); found != field.expected {
			return layout{}, &FieldError{field.name, found, field.expected}
		}
	}
	laidOut := sizes.laidOut(memoryBytes)
	laidOut.hasCAS = m.half(atFlags)&keepsCAS != 0
	return laidOut, nil
}

// sizes are the numbers that follow from three parameters: the memory limit at creation
// (memoryBytes), the highest value to which it may be raised (capacityBytes), and the number of
// peers.
type sizes struct {
	segmentBytes, segments, threadSlots, ttlClasses, stripes uint64
	sequencesAt, regionBytes                                 uint64
}

func sizesOf(memoryBytes, capacityBytes, threadSlotBytes, peers uint64) sizes {
	var s sizes
	s.segmentBytes = min(max(powerOfTwo(memoryBytes/256), 64<<10), 1<<20)
	s.threadSlots = threadSlots(memoryBytes, peers)
	segmentsAbout := memoryBytes / s.segmentBytes
	s.ttlClasses = 1
	if segmentsAbout >= 256 {
		s.ttlClasses = 4
	}
	s.stripes = min(max(segmentsAbout/8/2/s.ttlClasses, 2), s.threadSlots)
	s.sequencesAt = atPeersTable + peers*peerBytes + s.threadSlots*threadSlotBytes + 2*s.ttlClasses*s.stripes*lineBytes
	// The tables of the default number of peers take space from the capacity: they are "paid". If the
	// creator requested more peers, the region is larger than the capacity by their "unpaid" tables.
	paid := min(peers, peersByMemory(memoryBytes))
	unpaid := (peers-paid)*peerBytes + (s.threadSlots-threadSlots(memoryBytes, paid))*threadSlotBytes
	capacityBytes = min(capacityBytes, segmentsMax*s.segmentBytes)
	// The number of segments that fit after the tables before them, each with its own entries in the
	// tables that have one entry per segment.
	if before := s.sequencesAt - unpaid + roundingBytes; capacityBytes > before {
		s.segments = (capacityBytes - before) / (s.segmentBytes + perSegmentBytes(paid))
	}
	unpaid += s.segments * (perSegmentBytes(peers) - perSegmentBytes(paid))
	s.regionBytes = capacityBytes + roundUp(unpaid, lineBytes)
	return s
}

// peersByMemory returns the default number of peers, for a region whose creator does not set the
// number.
func peersByMemory(memoryBytes uint64) uint64 {
	switch megabytes := memoryBytes >> 20; {
	case megabytes < 16:
		return 16
	case megabytes < 256:
		return 64
	default:
		return 256
	}
}

// threadSlots returns the number of thread slots of a region with this number of peers.
func threadSlots(memoryBytes, peers uint64) uint64 {
	byMemory := uint64(1024)
	switch megabytes := memoryBytes >> 20; {
	case megabytes < 16:
		byMemory = 32
	case megabytes < 256:
		byMemory = 256
	}
	return max(byMemory, 2*powerOfTwo(2*peers-1))
}

// perSegmentBytes returns the number of bytes that a segment needs in addition to its own memory:
// its sequence, its header, an entry in each of three directories, a hold for each peer, a bit for
// each peer, and its entries in the sets and queues.
func perSegmentBytes(peers uint64) uint64 {
	return 8 + headerBytes + 3*4 + peers*8 + (peers+63)/64*8 + filingBytes
}

// laidOut returns the offsets of the parts. They follow each other in the order that
// docs/region-format.md shows, except that the pool ends at the end of the region.
func (s *sizes) laidOut(memoryBytes uint64) layout {
	headersAt := roundUp(s.sequencesAt+s.segments*8, headerBytes)
	groupsAt := headersAt + s.segments*headerBytes
	perSegment := s.segmentBytes / groupBytes
	return layout{
		segmentBytes: s.segmentBytes,
		segments:     s.segments,
		sequencesAt:  s.sequencesAt,
		groupsAt:     groupsAt,
		overflowAt:   groupsAt + s.segments*4,
		poolAt:       (s.regionBytes - s.segments*s.segmentBytes) &^ (lineBytes - 1),
		firstLevel:   log2(max(memoryBytes/128/groupBytes, perSegment)),
		groupShift:   log2(perSegment),
	}
}

func (l *layout) segmentAt(segment uint64) uint64 { return l.poolAt + segment*l.segmentBytes }

func log2(n uint64) uint { return uint(bits.Len64(n)) - 1 }

// powerOfTwo returns the largest power of two that is at most n.
func powerOfTwo(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return 1 << log2(n)
}

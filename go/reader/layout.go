package reader

import (
	"errors"
	"fmt"
	"math/bits"
)

// Format is the version of the layout that this package reads; docs/region-format.md describes it.
const Format = 9

const (
	lineBytes   = 128
	groupBytes  = 128
	headerBytes = 64
	peerBytes   = 128
	// filingBytes is the size of a segment's entries in the sets and queues in which writers find it.
	filingBytes = 36
	// roundingBytes is the space lost to alignment: two lines, and three words of each of 18 sets.
	roundingBytes  = 2*lineBytes + 18*3*8
	segmentsMax    = 1 << 20
	peersMax       = 4096
	regionBytesMin = 1 << 20
	// threadSlotBytesMax limits the only size in the superblock that cannot be derived from other
	// fields: it grows with the number of statistics, which a reader does not need.
	threadSlotBytesMax = 1 << 16
	magic              = 'L' | 'A'<<8 | 'R'<<16 | 'D'<<24 | 'E'<<32 | 'R'<<40 | 'R'<<48 | 'G'<<56
)

// The fields of the superblock, by offset.
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
	atMemoryBytes     = 64
	atPeers           = 72
	atPeerBytes       = 76
	atEpochLifetime   = 80
	atIdentity        = 88
	atBoot            = 104
	atCapacityBytes   = 120
)

// The global words that a reader uses.
const (
	atClock          = 256
	atFlushSequence  = 384
	atFlushAt        = 392
	atGroups         = 400
	atOverflowGroups = 776
	atPeersTable     = 1920
)

// ErrNoRegion means that a file is not a region.
var ErrNoRegion = errors.New("not a cache: the file does not begin with LARDERRG")

// ErrOtherBoot means that a region was created before the last boot, or on another machine. Its
// clock is meaningless, and the processes that used it have ended. The next writer replaces it.
var ErrOtherBoot = errors.New("the cache is from another boot of the system: let a writer open it once")

// FieldError means that a region has the layout of another version, or is damaged.
type FieldError struct {
	// Field is the name of a field of the superblock.
	Field string
	// Found is the value of the field.
	Found uint64
	// Expected is the value that this package's layout requires.
	Expected uint64
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("the region's %s is %d, want %d: use a program of the same version as the cache's",
		e.Field, e.Found, e.Expected)
}

// layout holds the offsets and sizes of a region that a reader needs.
type layout struct {
	segmentBytes uint64
	segments     uint64
	sequencesAt  uint64
	groupsAt     uint64 // the directory of index segments
	overflowAt   uint64 // the directory of overflow segments
	poolAt       uint64
	// firstLevel is the number of low hash bits that all keys of a group share from the start.
	firstLevel uint
	// groupShift is the shift that converts the number of a group to the index of its segment in the
	// directory.
	groupShift uint
}

// readLayout reads the superblock, and checks every field that follows from others.
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
	// The number of peers that the creator requested; the other numbers follow from it.
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
	return sizes.laidOut(memoryBytes), nil
}

// sizes are the numbers that follow from the memory limit of a region, from the highest memory
// limit for which it has room, and from its number of peers.
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
	// The capacity includes the tables of the default number of peers. The tables of further peers
	// are in addition to it.
	paid := min(peers, peersByMemory(memoryBytes))
	unpaid := (peers-paid)*peerBytes + (s.threadSlots-threadSlots(memoryBytes, paid))*threadSlotBytes
	capacityBytes = min(capacityBytes, segmentsMax*s.segmentBytes)
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

// perSegmentBytes returns the number of bytes that a segment uses outside of the pool.
func perSegmentBytes(peers uint64) uint64 {
	return 8 + headerBytes + 3*4 + peers*8 + (peers+63)/64*8 + filingBytes
}

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

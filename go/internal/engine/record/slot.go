package record

// Slot is a word of the index. It refers to a record:
//
//	tag 16 │ generation 14 │ segment 14 │ offset 20, in units of 8 bytes
//
// The tag contains bits of the hash of the record's key. The generation of a segment is a counter
// that rises when the segment is emptied: the record exists while its segment has the slot's
// generation. A word with the segment NoSegment is a link to an overflow group, a further group of
// slots for the same keys, with the number of the group as its offset. A word of zero refers to no
// record, because segment 0 never contains records.
type Slot uint64

const (
	offsetBits     = 20
	segmentBits    = 14
	generationBits = 14

	segmentShift    = offsetBits
	generationShift = segmentShift + segmentBits
	tagShift        = generationShift + generationBits

	// TagBits is the number of bits of a tag.
	TagBits = 64 - tagShift
	// Generations is the number of generations, after which they start again from zero.
	Generations = 1 << generationBits
	// NoSegment is a number that no segment uses.
	NoSegment = 1<<segmentBits - 1
	// SegmentBytesMax is the size of the largest segment that offsets can address.
	SegmentBytesMax = 8 << offsetBits
)

// MakeSlot returns the word for a record.
func MakeSlot(tag uint64, generation uint32, segment, offset int) Slot {
	return Slot(tag<<tagShift | uint64(generation)<<generationShift |
		uint64(segment)<<segmentShift | uint64(offset)/8)
}

// MakeLink returns the word that links to an overflow group.
func MakeLink(group uint32) Slot { return Slot(NoSegment<<segmentShift | uint64(group)) }

// IsLink returns true if the word links to an overflow group.
func (s Slot) IsLink() bool { return s.Segment() == NoSegment }

// Link returns the number of the overflow group that the word links to.
func (s Slot) Link() uint32 { return uint32(s) & (1<<offsetBits - 1) }

// Tag returns bits of the hash of the record's key.
func (s Slot) Tag() uint64 { return uint64(s) >> tagShift }

// Generation returns the generation of the segment in which the record exists.
func (s Slot) Generation() uint32 { return uint32(s>>generationShift) & (Generations - 1) }

// Segment returns the number of the segment that holds the record.
func (s Slot) Segment() int { return int(s>>segmentShift) & (1<<segmentBits - 1) }

// Offset returns the offset of the record in its segment, in bytes.
func (s Slot) Offset() int { return int(s&(1<<offsetBits-1)) * 8 }

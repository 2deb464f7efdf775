package reader

const (
	slotsPerGroup = 15
	// secondLine is the first slot of a group's second cache line.
	secondLine = 7
	// groupsVisitedMax bounds a search. Chains are a few groups long, and concurrent changes that
	// restart a search are rare. Only a damaged region, in which chains may be rings, reaches the
	// limit.
	groupsVisitedMax = 512
)

// The index is a hash table of groups. A group has two cache lines with a control word and 15
// slots, and a slot refers to the record of an item. A slot also contains the tag of the item's
// key, a few bits of its hash. One bit of the hash selects the preferred line, the line of the
// group where the key's slot most likely is. If a group has more items than slots, overflow groups
// follow it; together they are a chain. A split moves some items of a group to a new group: the
// level of a group is the number of hash bits that select it.

// slot is a word of the index that refers to a record.
type slot uint64

const (
	// freq counts the recent reads of the item, up to freqMax. gen is the low byte of the segment's
	// sequence.
	tagMask   = 1<<15 - 1
	freqMask  = 3 << 47
	freqMax   = 3
	tagShift  = 49
	freqShift = 47
	genShift  = 37
)

func (s slot) hasTag(tag uint64) bool    { return uint64(s)>>tagShift == tag && s != 0 }
func (s slot) same(other slot) bool      { return uint64(s^other)&^freqMask == 0 }
func (s slot) freq() uint64              { return uint64(s) & freqMask >> freqShift }
func (s slot) segment() uint64           { return uint64(s) >> 17 & 0xF_FFFF }
func (s slot) offset() uint64            { return uint64(s) & 0x1_FFFF * 8 }
func (s slot) isOf(sequence uint64) bool { return uint64(s)>>genShift&0xFF == sequence&0xFF }

// control is the first word of a group.
type control uint64

// levelBase is the lowest level that a group can have. The control word contains the level minus
// levelBase.
const levelBase = 8

// shape returns all bits except those of the owner, which is the thread that has locked the group.
// It changes whenever a writer moves slots.
func (c control) shape() uint64 { return uint64(c) << 13 }
func (c control) level() uint   { return uint(c>>30)&0x1F + levelBase }

// overflow returns 1 plus the number of the next group of the chain, or 0 at the end of the chain.
func (c control) overflow() uint64 { return uint64(c) & 0x3FFF_FFFF }

// found is a record that a search has found: the slot that refers to it, the sequence of its
// segment at that time, and its header.
type found struct {
	slotAt   uint64
	slot     slot
	sequence uint64
	recordAt uint64
	header   header
}

// examined is the result of comparing the record of a slot with a key.
type examined int

const (
	sameKey examined = iota
	otherKey
	// changed means that the slot or its segment has changed during the comparison, so the result is
	// unknown.
	changed
)

func (v *view) sequence(segment uint64) uint64 {
	return v.memory.word(v.layout.sequencesAt + segment*8)
}
func (v *view) slot(at uint64) slot       { return slot(v.memory.word(at)) }
func (v *view) control(at uint64) control { return control(v.memory.word(at)) }

func (v *view) tagOf(hash uint64) uint64 { return hash >> v.layout.firstLevel & tagMask }

// groupOf returns the number of the group that a hash belongs to, as long as no split is in
// progress.
func (v *view) groupOf(hash uint64) uint64 {
	groups := v.memory.word(atGroups)
	// The next power of two, minus 1.
	mask := uint64(1)<<(log2((groups-1)|1)+1) - 1
	if group := hash & mask; group < groups {
		return group
	}
	return hash & (mask >> 1)
}

// groupAt returns the offset of a group. A segment that belongs to the index contains many groups;
// the directory lists the numbers of these segments, each plus 1.
func (v *view) groupAt(directory, group uint64) uint64 {
	named := uint64(v.memory.half(directory + group>>v.layout.groupShift*4))
	within := group & (1<<v.layout.groupShift - 1)
	return v.layout.segmentAt(named-1) + within*groupBytes
}

// lines returns the first slot of the preferred line of a hash, and the number of slots in it.
func lines(hash uint64) (first, count uint64) {
	if hash>>47&1 != 0 {
		return secondLine, slotsPerGroup - secondLine
	}
	return 0, secondLine
}

// find finds the record of a key, valid or expired. The caller must call isValid after it has read
// from the record.
func (v *view) find(hash uint64, key []byte) (found, bool) {
	tag := v.tagOf(hash)
	groupAt := v.groupAt(v.layout.groupsAt, v.groupOf(hash))
	first, count := lines(hash)
	// Most keys are in the preferred line, and a hit does not need the control word.
	for at := groupAt + 8 + first*8; count > 0; count, at = count-1, at+8 {
		slot := v.slot(at)
		if !slot.hasTag(tag) {
			continue
		}
		record, what := v.examine(at, slot, key)
		if what == sameKey {
			return record, true
		}
		if what == changed {
			break
		}
	}
	return v.findInChain(hash, key)
}

// findInChain searches all slots of a group and its overflow groups, and restarts if a writer
// changes them.
func (v *view) findInChain(hash uint64, key []byte) (found, bool) {
	group := v.groupOf(hash)
	for left := groupsVisitedMax; left > 0; {
		at := v.groupAt(v.layout.groupsAt, group)
		before := v.control(at)
		record, what := v.searchChain(at, hash, key, &left)
		if what == sameKey {
			return record, true
		}
		after := v.control(at)
		if what == changed || before.shape() != after.shape() {
			continue
		}
		// A split raises the level of this group before it updates the number of groups, from which
		// groupOf has computed the group. The item may therefore already be in the new group.
		home := hash & (1<<after.level() - 1)
		if home == group {
			return found{}, false
		}
		group = home
	}
	return found{}, false
}

// searchChain visits each slot of a chain once, and decrements left for each group that it visits.
func (v *view) searchChain(at, hash uint64, key []byte, left *int) (found, examined) {
	tag := v.tagOf(hash)
	first, _ := lines(hash)
	for *left > 0 {
		*left--
		for i := range uint64(slotsPerGroup) {
			place := first + i
			if place >= slotsPerGroup {
				place -= slotsPerGroup
			}
			slotAt := at + 8 + place*8
			slot := v.slot(slotAt)
			if !slot.hasTag(tag) {
				continue
			}
			if record, what := v.examine(slotAt, slot, key); what != otherKey {
				return record, what
			}
		}
		next := v.control(at).overflow()
		if next == 0 {
			return found{}, otherKey
		}
		at = v.groupAt(v.layout.overflowAt, next-1)
	}
	return found{}, changed
}

// examine compares the record of a slot with a key. Before a writer reuses a segment, it clears all
// slots that refer to the segment. examine loads the sequence of the segment and then the slot
// again. If the slot is unchanged, the record belongs to the use of the segment that has this
// sequence. If the sequence is also unchanged after the comparison, all loads were from that
// record.
func (v *view) examine(slotAt uint64, slot slot, key []byte) (found, examined) {
	sequence := v.sequence(slot.segment())
	if sequence == 0 || !slot.isOf(sequence) || !v.slot(slotAt).same(slot) {
		return found{}, changed
	}
	recordAt := v.layout.segmentAt(slot.segment()) + slot.offset()
	record := found{slotAt, slot, sequence, recordAt, header(v.memory.word(recordAt))}
	if v.hasKey(&record, key) {
		return record, sameKey
	}
	if v.isValid(&record) {
		return found{}, otherKey
	}
	return found{}, changed
}

func (v *view) hasKey(record *found, key []byte) bool {
	// The segment may be reused during the read of the header, so the header may contain any length.
	return record.header.fits(len(key)) &&
		record.slot.offset()+record.header.bytes() <= v.layout.segmentBytes &&
		v.memory.equals(record.recordAt+record.header.keyAt(), key)
}

// isValid reports whether the record's segment has not been reused since the record was found. Then
// all loads in between were from that record.
func (v *view) isValid(record *found) bool {
	return v.sequence(record.slot.segment()) == record.sequence
}
